#pragma once

// What is known of links, fitted to measured collectives: one value for each kind of link.

#include <string>
#include <vector>

#include "collectives.hpp"
#include "csv.hpp"

namespace accuracy {

struct measured_collective {
  described_collective as{};
  double seconds = 0;
};

/// The rows of files of collectives that the library can predict, and those with sizes of a machine
/// that does not say what it is. Such a machine is taken to have 100 GB/s of InfiniBand in each
/// node: of its rate and the share that is reached, only the product follows.
std::vector<measured_collective> measured_collectives(const std::vector<csv_file>& files);

struct fitted_link_value {
  std::string owner;  // the kind of link; blank for what all have in common
  std::string name;
  std::string unit;
  std::size_t rows = 0;  // that depend on it
  double before = 0;     // the library's
  double value = 0;
  double low = 0;  // of the values without one of the rows each
  double high = 0;
};

/// Mean and median of absolute errors in percent.
struct system_errors {
  std::string system;
  std::size_t rows = 0;
  double before_mean = 0;  // by the library's values
  double fitted_mean = 0;
  double fitted_median = 0;
  double row_left_out_mean = 0;     // each row by a fit without it
  double system_left_out_mean = 0;  // by a fit to the other machines, one value for all NVLinks and
                                    // one for all networks
};

struct ablation {
  std::string without;
  double mean = 0;  // of all rows, the rest fitted again
};

struct links_fit {
  std::vector<fitted_link_value> values;
  std::vector<system_errors> systems;  // and all of them together
  std::vector<ablation> ablations;
};

/// Fits by least mean |log(predicted / measured)| over rows, from where that of squares is least
/// (NLopt's BOBYQA, then Sbplx). Each of four searches takes at most as many `evaluations`.
links_fit fit_links(const std::vector<measured_collective>& rows, int evaluations);

}  // namespace accuracy

#pragma once

// Fits the parameters of the time model to timed runs: one set for each architecture of devices and
// one for each framework, none for a model, a source or a row.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "time_parameters.hpp"
#include "timed_rows.hpp"

namespace accuracy {

struct fit_settings {
  gpuplan::time_terms terms{};        // of the model that is fitted
  std::vector<std::string> only{};    // parameters by name; none: all
  std::vector<std::string> owners{};  // likewise devices' and frameworks'
  int rounds = 4;                     // of the fit to all rows
  int rounds_again = 1;               // of fits to a part of them, from the values of the whole
  int folds = 5;                      // of cells that are left out
  int resamples = 10;                 // of cells, with replacement
};

/// One parameter of one owner.
struct fitted_parameter {
  const time_parameter* what = nullptr;
  std::string owner;
  std::size_t rows = 0;  // that it changes
  double before = 0;     // the catalogue's
  double value = 0;
  double low = 0;  // the range of its values over resampled cells, all rows' kinds kept
  double high = 0;
};

/// The errors of one source, in percent of what was measured.
struct source_errors {
  std::string source;
  error_size before;           // by the catalogue
  error_size fitted;           // rows that parameters were fitted to
  error_size left_out_cells;   // each of them by a fit without its cell and a fifth of the others
  error_size left_out_source;  // by a fit without this source; a framework that ran in no other one
                               // has then the costs of none
  error_size unseen;           // rows of cells that no fit sees
};

struct time_fit {
  std::vector<fitted_parameter> parameters;
  std::vector<source_errors> sources;
};

/// Fits to all rows but the unseen ones. What is minimised: the sum over rows of |log(predicted /
/// measured)|, rounded off below 1 %, where the rows of a cell weigh as one and a source with n
/// cells as sqrt(n) of them, a quarter of that where it composed its rows; and 0.002 of that weight
/// for each parameter that goes through all of its range, so that one that no row determines stays
/// where it was.
time_fit fit_time(const std::vector<timed_row>& rows, const fit_settings& settings);

}  // namespace accuracy

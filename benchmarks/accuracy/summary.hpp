#pragma once

// How far predictions are off, over the rows of a file.

#include <string>
#include <utility>
#include <vector>

#include "comparison.hpp"

namespace accuracy {

/// Errors of one quantity in percent of what was measured. Rows that repeat one configuration count
/// as one, by their means; flagged rows do not count.
struct summary {
  quantity what{};
  std::size_t rows = 0;   // that the errors are of
  std::size_t exact = 0;  // of these: without any error
  double mean = 0;        // of absolute errors, as the median and the 90th percentile
  double median = 0;
  double p90 = 0;   // the least error that nine tenths of the rows do not exceed
  double bias = 0;  // mean of signed errors
  double worst = 0;
  std::string worst_id{};
  std::size_t skipped = 0;  // rows without a prediction
  std::size_t flagged = 0;  // rows with one that their source or the collection doubts
};

/// Runs that were predicted to fit or not, by what became of them; flagged rows do not count.
struct fit_table {
  std::size_t fitted_and_ran = 0;
  std::size_t fitted_and_ran_out = 0;
  std::size_t exceeded_and_ran = 0;
  std::size_t exceeded_and_ran_out = 0;
  std::size_t fitted_by_a_margin_and_ran_out = 0;  // of the second: into 95 % of the memory too

  [[nodiscard]] std::size_t rows() const {
    return fitted_and_ran + fitted_and_ran_out + exceeded_and_ran + exceeded_and_ran_out;
  }
};
fit_table count_fits(const file_comparison& file);

/// Of the rows that state a quantity: in how many it lies in the range that is predicted of it,
/// which four of five are meant to.
struct range_table {
  std::size_t held = 0;
  std::size_t rows = 0;
};
/// Of a quantity whose ends stand behind it in the enumeration.
range_table count_ranges(const file_comparison& file, quantity what);

/// One summary per quantity that the file has measurements of, but for `fits`.
std::vector<summary> summarise(const file_comparison& file);

/// Why rows of a file were skipped, and how many for each reason, the most frequent first.
std::vector<std::pair<std::string, std::size_t>> reasons_to_skip(const file_comparison& file);

}  // namespace accuracy

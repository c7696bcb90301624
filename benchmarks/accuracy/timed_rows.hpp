#pragma once

// All timed runs of some files, described once, to be predicted again and again.

#include <gpuplan/time/roofline.hpp>

#include <string>
#include <vector>

#include "csv.hpp"

namespace accuracy {

struct timed_row {
  std::string id;
  std::string source;
  std::string cell;
  std::string question;  // what rows have in common that differ in the plan alone
  std::string plan;      // for people: "dp 8 tp 4 pp 2, micro-batch 1 x 16"
  bool is_unseen = false;
  bool is_composed = false;  // by its source from timed layers; not timed as a whole
  double seconds = 0;        // measured
  gpuplan::roofline_time model{};
  gpuplan::batch_plan batch{};

  /// log(predicted / measured) of a step by `by`.
  [[nodiscard]] double log_error(const gpuplan::roofline_time& by) const;
  [[nodiscard]] double log_error() const { return log_error(model); }
};

/// The rows of files of runs that have a time and can be described; flagged ones are left out, and
/// of rows that repeat one configuration the first stands for all, with the mean of their times.
/// Throws `bad_file` for a cell that no run can have.
std::vector<timed_row> timed_rows(const std::vector<csv_file>& files);

/// 100 times |exp(e) - 1|: the error in percent of what was measured.
double percent_of_log(double log_error);

/// Mean and median of the absolute errors of some rows, in percent of what was measured; 0 of none.
struct error_size {
  std::size_t rows = 0;
  double mean = 0;
  double median = 0;
};
error_size size_of(const std::vector<double>& log_errors);
/// Likewise of what is in percent already.
error_size size_of_percents(std::vector<double> errors);

}  // namespace accuracy

#pragma once

// How far the times of steps are off, source by source, and how many lie in their ranges.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "comparison.hpp"
#include "csv.hpp"
#include "summary.hpp"

namespace accuracy {

/// The rows of one source that have a time of a step.
struct source_summary {
  std::string source;
  std::size_t rows = 0;
  std::size_t predicted = 0;
  std::size_t flagged = 0;                       // of these, left out of all that follows
  std::map<std::string, std::size_t> refused{};  // by reason
  double mean = 0;                               // of absolute errors in percent
  double median = 0;
  double covered = 0;  // in percent: whose range holds what was measured
};

/// By the text of ids before their last underscore; the last one is of all rows.
std::vector<source_summary> summarise_sources(const std::vector<file_comparison>& files);

/// What share of comparisons of times lies in its range, in percent; flagged rows do not count.
double covered_percent(const std::vector<comparison>& times);

}  // namespace accuracy

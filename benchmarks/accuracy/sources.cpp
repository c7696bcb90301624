#include "sources.hpp"

#include <cmath>

#include "timed_rows.hpp"

namespace accuracy {
namespace {

std::string source_of(const std::string& id) { return id.substr(0, id.rfind('_')); }

// Counts the ranges that hold what was measured: a row's low end is followed by its high one.
class coverage {
 public:
  void add(const comparison& one) {
    if (!one.predicted.value || one.flagged) return;
    const double end = one.predicted.value->value();
    if (one.what == quantity::step_time_low) low_ = end;
    if (one.what == quantity::step_time_low) has_low_ = true;
    if (one.what != quantity::step_time_high || !has_low_) return;
    ++rows_;
    if (low_ <= one.measured.value() && one.measured.value() <= end) ++held_;
    has_low_ = false;
  }
  [[nodiscard]] double percent() const {
    return rows_ == 0 ? 0 : 100 * static_cast<double>(held_) / static_cast<double>(rows_);
  }

 private:
  double low_ = 0;
  bool has_low_ = false;
  std::size_t rows_ = 0;
  std::size_t held_ = 0;
};

struct gathered {
  source_summary summary{};
  coverage ranges{};
  std::vector<double> errors{};

  void add(const comparison& one) {
    ranges.add(one);
    if (one.what != quantity::step_time) return;
    ++summary.rows;
    if (!one.predicted.value) {
      ++summary.refused[one.predicted.why_not];
      return;
    }
    ++summary.predicted;
    if (one.flagged)
      ++summary.flagged;
    else
      errors.push_back(std::abs(one.error()));
  }
  source_summary finished(const std::string& name) {
    const error_size size = size_of_percents(errors);
    summary.source = name;
    summary.mean = size.mean;
    summary.median = size.median;
    summary.covered = ranges.percent();
    return summary;
  }
};

}  // namespace

std::vector<source_summary> summarise_sources(const std::vector<file_comparison>& files) {
  std::map<std::string, gathered> sources;
  gathered all;
  for (const file_comparison& file : files)
    for (const comparison& one : file.comparisons) {
      if (one.what != quantity::step_time && !is_end_of_range(one.what)) continue;
      sources[source_of(one.id)].add(one);
      all.add(one);
    }
  std::vector<source_summary> summaries;
  for (auto& [name, source] : sources) summaries.push_back(source.finished(name));
  summaries.push_back(all.finished("all"));
  return summaries;
}

double covered_percent(const std::vector<comparison>& times) {
  coverage ranges;
  for (const comparison& one : times) ranges.add(one);
  return ranges.percent();
}

}  // namespace accuracy

#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace accuracy {
namespace {

struct row_error {
  std::string id;
  double percent = 0;
};

// Several measurements of one configuration, whose means are compared.
class repeats {
 public:
  void add(const comparison& one) {
    if (count_ == 0) id_ = one.id;
    ++count_;
    error_ = one.error();
    measured_ += one.measured.value();
    predicted_ += one.predicted.value->value();
  }
  [[nodiscard]] row_error error() const {
    // Of one row the error is exact, also beyond what doubles hold.
    return {id_, count_ == 1 ? error_ : error_percent(measured_, predicted_)};
  }

 private:
  std::string id_;
  std::size_t count_ = 0;
  double error_ = 0;
  double measured_ = 0;
  double predicted_ = 0;
};

void add_errors(const std::vector<row_error>& errors, summary& sum) {
  const std::size_t count = sum.rows = errors.size();
  if (count == 0) return;
  std::vector<double> sizes;
  double absolute = 0;
  double total = 0;
  for (const row_error& error : errors) {
    sizes.push_back(std::abs(error.percent));
    absolute += sizes.back();
    total += error.percent;
    if (error.percent == 0) ++sum.exact;
    if (sizes.back() <= std::abs(sum.worst)) continue;
    sum.worst = error.percent;
    sum.worst_id = error.id;
  }
  std::sort(sizes.begin(), sizes.end());
  sum.mean = absolute / static_cast<double>(count);
  sum.bias = total / static_cast<double>(count);
  sum.median = (sizes[(count - 1) / 2] + sizes[count / 2]) / 2;
  sum.p90 = sizes[(9 * count + 9) / 10 - 1];
}

}  // namespace

fit_table count_fits(const file_comparison& file) {
  fit_table table;
  for (const comparison& one : file.comparisons) {
    if (one.what != quantity::fits || one.flagged || !one.predicted.value) continue;
    const bool ran = one.measured.value() != 0;
    if (one.predicted.value->value() != 0) {
      ++(ran ? table.fitted_and_ran : table.fitted_and_ran_out);
      if (!ran && one.by_a_margin) ++table.fitted_by_a_margin_and_ran_out;
    } else {
      ++(ran ? table.exceeded_and_ran : table.exceeded_and_ran_out);
    }
  }
  return table;
}

range_table count_ranges(const file_comparison& file, quantity what) {
  const auto end = [what](int at) { return static_cast<quantity>(static_cast<int>(what) + at); };
  range_table table;
  std::map<std::string, double> lows;
  for (const comparison& one : file.comparisons) {
    if (one.flagged || !one.predicted.value) continue;
    const double value = one.predicted.value->value();
    if (one.what == end(1)) lows[one.id] = value;
    if (one.what != end(2)) continue;
    const auto low = lows.find(one.id);
    if (low == lows.end()) continue;
    ++table.rows;
    if (low->second <= one.measured.value() && one.measured.value() <= value) ++table.held;
  }
  return table;
}

std::vector<summary> summarise(const file_comparison& file) {
  std::vector<summary> summaries;
  for (const quantity_text& text : quantities) {
    if (text.what == quantity::fits || is_end_of_range(text.what)) continue;
    summary sum{.what = text.what};
    std::map<std::string, repeats> configurations;  // by the id that is repeated
    std::vector<row_error> errors;
    bool is_measured = false;
    for (const comparison& one : file.comparisons) {
      if (one.what != text.what) continue;
      is_measured = true;
      if (!one.predicted.value)
        ++sum.skipped;
      else if (one.flagged)
        ++sum.flagged;
      else if (one.repeated_of.empty())
        errors.push_back({one.id, one.error()});
      else
        configurations[one.repeated_of].add(one);
    }
    if (!is_measured) continue;
    for (const auto& [id, measurements] : configurations) errors.push_back(measurements.error());
    add_errors(errors, sum);
    summaries.push_back(std::move(sum));
  }
  return summaries;
}

std::vector<std::pair<std::string, std::size_t>> reasons_to_skip(const file_comparison& file) {
  std::map<std::string, std::size_t> counts;
  std::string row_and_reason;  // of the row before: a reason counts once a row
  for (const comparison& one : file.comparisons) {
    if (one.predicted.value) continue;
    const std::string key = one.id + '\n' + one.predicted.why_not;
    if (key != row_and_reason) ++counts[one.predicted.why_not];
    row_and_reason = key;
  }
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return reasons;
}

}  // namespace accuracy

#include "report.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "summary.hpp"

namespace accuracy {
namespace {

using gpuplan::io::alignment;
using gpuplan::io::cell;
using gpuplan::io::table;
using json = nlohmann::ordered_json;

json json_of(number value) {
  if (const auto whole = value.whole()) return *whole;
  return value.value();
}

json rows_as_json(const std::vector<file_comparison>& files) {
  json rows = json::array();
  for (const file_comparison& file : files)
    for (const comparison& one : file.comparisons) {
      json row{{"file", file.path},
               {"id", one.id},
               {"quantity", text_of(one.what).name},
               {"unit", text_of(one.what).unit},
               {"measured", json_of(one.measured)},
               {"predicted", nullptr},
               {"error_pct", nullptr},
               {"skipped", nullptr}};
      if (one.predicted.value) {
        row["predicted"] = json_of(*one.predicted.value);
        row["error_pct"] = one.error();
      } else {
        row["skipped"] = one.predicted.why_not;
      }
      if (one.what == quantity::fits) row["by_a_margin"] = one.by_a_margin;
      row["flagged"] = one.flagged;
      rows.push_back(std::move(row));
    }
  return rows;
}

table rows_as_table(const std::vector<file_comparison>& files) {
  table rows{.columns = {{.name = "file"},
                         {.name = "id"},
                         {.name = "quantity"},
                         {.name = "unit"},
                         {.name = "measured", .align = alignment::right},
                         {.name = "predicted", .align = alignment::right},
                         {.name = "error_pct", .align = alignment::right},
                         {.name = "skipped"}}};
  for (const file_comparison& file : files)
    for (const comparison& one : file.comparisons) {
      const auto& value = one.predicted.value;
      rows.rows.push_back({file.path,
                           one.id,
                           text_of(one.what).name,
                           text_of(one.what).unit,
                           to_text(one.measured),
                           value ? to_text(*value) : std::string(),
                           value ? percent_text(one.error()) : std::string(),
                           one.predicted.why_not});
    }
  return rows;
}

json summary_as_json(const std::vector<file_comparison>& files) {
  json all = json::array();
  for (const file_comparison& file : files) {
    json summaries = json::array();
    for (const summary& sum : summarise(file)) {
      json one{{"quantity", text_of(sum.what).name}, {"rows", sum.rows}, {"exact", sum.exact}};
      const auto percent = [&](const char* name, double value) {
        one[name] = sum.rows != 0 ? json(value) : json(nullptr);
      };
      percent("mean_abs_error_pct", sum.mean);
      percent("median_abs_error_pct", sum.median);
      percent("p90_abs_error_pct", sum.p90);
      percent("bias_pct", sum.bias);
      percent("worst_error_pct", sum.worst);
      one["worst_id"] = sum.worst_id.empty() ? json(nullptr) : json(sum.worst_id);
      one["skipped"] = sum.skipped;
      one["flagged"] = sum.flagged;
      summaries.push_back(std::move(one));
    }
    json fits = nullptr;
    if (const fit_table table = count_fits(file); table.rows() != 0)
      fits = {{"fitted_and_ran", table.fitted_and_ran},
              {"fitted_and_ran_out", table.fitted_and_ran_out},
              {"exceeded_and_ran", table.exceeded_and_ran},
              {"exceeded_and_ran_out", table.exceeded_and_ran_out},
              {"fitted_by_a_margin_and_ran_out", table.fitted_by_a_margin_and_ran_out}};
    json reasons = json::object();
    for (const auto& [reason, count] : reasons_to_skip(file)) reasons[reason] = count;
    all.push_back({{"file", file.path},
                   {"kind", file.kind.empty() ? json(nullptr) : json(file.kind)},
                   {"rows", file.rows},
                   {"quantities", std::move(summaries)},
                   {"fits", std::move(fits)},
                   {"reasons_to_skip", std::move(reasons)}});
  }
  return all;
}

table summary_as_table(const std::vector<file_comparison>& files) {
  table all{.columns = {{.name = "file"},
                        {.name = "quantity"},
                        {.name = "rows"},
                        {.name = "exact"},
                        {.name = "mean_abs_error_pct"},
                        {.name = "median_abs_error_pct"},
                        {.name = "p90_abs_error_pct"},
                        {.name = "bias_pct"},
                        {.name = "worst_error_pct"},
                        {.name = "worst_id"},
                        {.name = "skipped"},
                        {.name = "flagged"}}};
  for (const file_comparison& file : files)
    for (const summary& sum : summarise(file)) {
      const auto percent = [&](double value) {
        return sum.rows != 0 ? cell(percent_text(value)) : cell();
      };
      all.rows.push_back({file.path,
                          text_of(sum.what).name,
                          sum.rows,
                          sum.exact,
                          percent(sum.mean),
                          percent(sum.median),
                          percent(sum.p90),
                          percent(sum.bias),
                          percent(sum.worst),
                          sum.worst_id,
                          sum.skipped,
                          sum.flagged});
    }
  return all;
}

// ---- for people

std::string rows_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " row" : " rows");
}

// Two digits that count, three behind the point.
std::string short_text(double percent) {
  if (percent == 0) return "0";
  if (std::abs(percent) < 0.0005) return "~0";
  return percent_text(percent, std::abs(percent) < 0.01 ? 1 : 2);
}

table short_table(const file_comparison& file) {
  constexpr alignment right = alignment::right;
  table t{.columns = {{.name = "errors in %", .at_least = 20},
                      {.name = "rows", .align = right, .at_least = 4},
                      {.name = "exact", .align = right},
                      {.name = "mean", .align = right, .at_least = 6},
                      {.name = "median", .align = right},
                      {.name = "p90", .align = right, .at_least = 6},
                      {.name = "bias", .align = right, .at_least = 6},
                      {.name = "worst", .align = right, .at_least = 6},
                      {.name = "skipped", .align = right},
                      {.name = "worst row"}}};
  for (const summary& sum : summarise(file)) {
    const auto percent = [&](double value) {
      return sum.rows != 0 ? cell(short_text(value)) : cell();
    };
    t.rows.push_back({text_of(sum.what).name,
                      sum.rows,
                      sum.exact,
                      percent(sum.mean),
                      percent(sum.median),
                      percent(sum.p90),
                      percent(sum.bias),
                      percent(sum.worst),
                      sum.skipped,
                      sum.worst_id});
  }
  return t;
}

std::string fits_as_text(const fit_table& fits) {
  const auto line = [](std::size_t ran, std::size_t ran_out) {
    return rows_text(ran) + " ran, " + std::to_string(ran_out) + " ran out of memory\n";
  };
  return "judged to fit: " + line(fits.fitted_and_ran, fits.fitted_and_ran_out) +
         "judged not to fit: " + line(fits.exceeded_and_ran, fits.exceeded_and_ran_out) +
         "ran out of memory though judged to fit with more than 5 % to spare: " +
         rows_text(fits.fitted_by_a_margin_and_ran_out) + "\n";
}

std::size_t flagged_rows(const file_comparison& file) {
  std::set<std::string> ids;
  for (const comparison& one : file.comparisons)
    if (one.flagged && one.predicted.value) ids.insert(one.id);
  return ids.size();
}

std::string summary_as_text(const std::vector<file_comparison>& files, const guides::output& as) {
  const gpuplan::io::text_layout layout{.width = as.width, .color = as.color};
  std::string text;
  std::string nothing;
  for (const file_comparison& file : files) {
    const std::string kind = file.kind.empty() ? "no known kind" : file.kind;
    const std::string title = file.path + ": " + rows_text(file.rows) + " of " + kind + "\n";
    const table t = short_table(file);
    const fit_table fits = count_fits(file);
    if (t.rows.empty() && fits.rows() == 0) {
      nothing += "  " + title;
      continue;
    }
    text += title;
    if (!t.rows.empty()) text += to_text(t, layout);
    if (fits.rows() != 0) text += fits_as_text(fits);
    for (const quantity what : {quantity::gpu_hours, quantity::days, quantity::energy})
      if (const range_table ranges = count_ranges(file, what); ranges.rows != 0)
        text += std::string(text_of(what).name) + ": " + std::to_string(ranges.held) + " of " +
                rows_text(ranges.rows) + " between low and high\n";
    for (const auto& [reason, count] : reasons_to_skip(file))
      text += "skipped " + rows_text(count) + ": " + reason + "\n";
    if (const std::size_t count = flagged_rows(file); count != 0)
      text += "left out " + rows_text(count) + ": their notes flag them\n";
    text += "\n";
  }
  if (!nothing.empty()) text += "Nothing that is predicted was measured in\n" + nothing;
  return text;
}

}  // namespace

std::string rows_report(const std::vector<file_comparison>& files, const guides::output& as) {
  if (as.format == gpuplan::io::format::json) return rows_as_json(files).dump(2) + "\n";
  return guides::render(rows_as_table(files), as);
}

std::string summary_report(const std::vector<file_comparison>& files, const guides::output& as) {
  if (as.format == gpuplan::io::format::json) return summary_as_json(files).dump(2) + "\n";
  if (as.format == gpuplan::io::format::text) return summary_as_text(files, as);
  return guides::render(summary_as_table(files), as);
}

}  // namespace accuracy

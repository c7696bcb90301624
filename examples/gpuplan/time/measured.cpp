#include "time/measured.hpp"

#include <gpuplan/catalog/gpu_names.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/profiler_trace.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "plan/report.hpp"

namespace time_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;
using io::matmul_sizes;
using io::operator_group;

// A trace of some steps with shapes; it is read whole.
constexpr std::size_t most_of_a_trace = std::size_t{1} << 29;

operator_group group_of(const traced_operator& one) {
  if (one.is_collective) return operator_group::communication;
  if (one.pass == eager::kernel_times::part::optimizer) return operator_group::optimizer;
  if (one.work.products > 0) return operator_group::matmul;
  if (one.work.attention_flops > 0) return operator_group::attention;
  switch (one.work.kind) {
    case eager::kernel_kind::functions:
      return operator_group::activation;
    case eager::kernel_kind::softmaxes:
      return operator_group::softmax;
    case eager::kernel_kind::sums:
      return operator_group::sum;
    case eager::kernel_kind::norms:
    case eager::kernel_kind::rms_norms:
    case eager::kernel_kind::elements:
      break;
  }
  return operator_group::elements;
}

matmul_sizes sizes_of(const traced_operator& one) {
  if (one.work.products == 0) return {};
  const eager::matrix_product& by = one.work.product;
  return io::upright(
      {.rows = by.rows, .inner = by.inner, .columns = by.columns, .batch = by.batch});
}

std::string words(const matmul_sizes& of) {
  if (of.rows == 0) return "";
  std::string text = std::to_string(of.rows) + " x " + std::to_string(of.inner) + " x " +
                     std::to_string(of.columns);
  if (of.batch != 1) text += ", batch " + std::to_string(of.batch);
  return text;
}

struct side {
  std::int64_t operators = 0;
  double seconds = 0;
};
struct compared_row {
  operator_group group{};
  matmul_sizes sizes{};  // of matmuls
  side measured{};
  side predicted{};

  [[nodiscard]] double difference() const {
    return std::fabs(measured.seconds - predicted.seconds);
  }
};

std::vector<compared_row> rows_of(const step_trace& predicted, const io::profiled_step& measured) {
  using key = std::tuple<operator_group, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<key, compared_row> by_key;
  const auto row_of = [&](operator_group group, const matmul_sizes& sizes) -> compared_row& {
    const matmul_sizes by =
        group == operator_group::matmul && measured.has_shapes ? sizes : matmul_sizes{};
    compared_row& row = by_key[{group, by.rows, by.inner, by.columns, by.batch}];
    row.group = group;
    row.sizes = by;
    return row;
  };
  const auto add = [](side& to, std::int64_t operators, double seconds) {
    to.operators += operators;
    to.seconds += seconds;
  };
  for (const traced_operator& one : predicted.operators)
    add(row_of(group_of(one), sizes_of(one)).predicted,
        std::max(1, one.work.products),
        measured.has_kernels ? one.end - one.begin : one.issue_end - one.issue_begin);
  for (const io::profiled_operator& one : measured.operators)
    add(row_of(one.group, one.sizes).measured, 1, one.seconds);
  std::vector<compared_row> rows;
  for (const auto& [at, row] : by_key) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const compared_row& a, const compared_row& b) {
    return a.difference() > b.difference();
  });
  return rows;
}

void remark_on_device(const io::profiled_step& measured, const gpu_spec& on) {
  const auto is_it = [&](const std::string& name) {
    const catalog::gpu_list meant = catalog::gpus_named(name.substr(0, name.find(" MIG ")));
    return std::any_of(meant.begin(), meant.end(), [&](const gpu_spec* one) {
      return std::string_view(one->id) == on.id;
    });
  };
  const std::vector<std::string>& all = measured.devices;
  if (all.empty() || std::any_of(all.begin(), all.end(), is_it)) return;
  guides::remark("--measured: the trace was made on " + io::printable(all.front()) +
                 ", and the step is predicted of " + on.id);
}

// Of another model, batch or sequence length hardly any product has the same sizes.
void remark_on_matmuls(const std::vector<compared_row>& rows, const io::profiled_step& measured) {
  std::int64_t predicted = 0;
  std::int64_t found = 0;
  for (const compared_row& row : rows) {
    if (row.group != operator_group::matmul) continue;
    predicted += row.predicted.operators;
    found += std::min(row.measured.operators, row.predicted.operators);
  }
  if (!measured.has_shapes || 10 * found >= predicted) return;
  guides::remark("--measured: of " + std::to_string(predicted) +
                 " products predicted the trace has " + std::to_string(found) +
                 ": it is of another model, batch or sequence length");
}

std::string order_of_matmuls(const step_trace& predicted, const io::profiled_step& measured) {
  std::vector<matmul_sizes> said;
  for (const traced_operator& one : predicted.operators)
    if (group_of(one) == operator_group::matmul)
      for (int product = 0; product < one.work.products; ++product) said.push_back(sizes_of(one));
  std::vector<matmul_sizes> seen;
  for (const io::profiled_operator& one : measured.operators)
    if (one.group == operator_group::matmul) seen.push_back(one.sizes);
  std::size_t alike = 0;
  while (alike < said.size() && alike < seen.size() && said[alike] == seen[alike]) ++alike;
  if (alike == said.size() && alike == seen.size())
    return "All " + std::to_string(alike) + " matmuls are alike, one after the other.";
  const auto next = [&](const std::vector<matmul_sizes>& all) {
    return alike < all.size() ? "multiplies " + words(all[alike]) : std::string("ends");
  };
  return std::to_string(alike) + " of " + std::to_string(said.size()) +
         " matmuls are alike, one after the other; then the step predicted " + next(said) +
         ", and the one measured " + next(seen) + ".";
}

struct total {
  const char* name;
  double measured;
  double predicted;
};
std::vector<total> totals_of(const step_trace& predicted, const io::profiled_step& measured) {
  double issued = 0;
  double busy = 0;
  double launches = 0;
  for (const traced_operator& one : predicted.operators) {
    const eager::device_work& work = one.work;
    issued = std::max(issued, one.issue_end);
    launches += one.is_collective ? 1 : work.kernels + work.products + work.copies + work.fills;
    if (one.stream == eager::streams::operators) busy += one.end - one.begin;
  }
  std::vector<total> all{{"host_s", measured.host, issued}};
  if (!measured.has_kernels) return all;
  const double step = in(predicted.parts.total(), 1_s);
  all.push_back({"device_s", measured.device, step});
  all.push_back({"device_idle_s", measured.idle, std::max(0.0, step - busy)});
  all.push_back({"launches", static_cast<double>(measured.launches), launches});
  return all;
}

std::string for_programs(const std::vector<compared_row>& rows,
                         const std::vector<total>& totals,
                         bool has_kernels,
                         const guides::output& as) {
  io::table out;
  for (const char* name : {"table",
                           "what",
                           "sizes",
                           "measured_operators",
                           "measured",
                           "predicted_operators",
                           "predicted",
                           "ratio"})
    out.columns.push_back({.name = name});
  const auto over = [](double a, double b) { return b > 0 ? cell(a / b) : cell(); };
  for (const compared_row& row : rows)
    out.rows.push_back({has_kernels ? "kernels_s" : "host_s",
                        text(row.group),
                        words(row.sizes),
                        row.measured.operators,
                        row.measured.seconds,
                        row.predicted.operators,
                        row.predicted.seconds,
                        over(row.measured.seconds, row.predicted.seconds)});
  for (const total& one : totals)
    out.rows.push_back({"step",
                        one.name,
                        cell(),
                        cell(),
                        one.measured,
                        cell(),
                        one.predicted,
                        over(one.measured, one.predicted)});
  return guides::render(out, as);
}

}  // namespace

io::profiled_step measured_in(const std::string& option, const std::string& file) {
  io::parsed_profile read =
      io::read_profiler_trace(guides::read_file(option, file, most_of_a_trace));
  if (!read) throw guides::bad_request(option + " " + file + ": " + read.why);
  return std::move(read.step);
}

std::string compared(const step_trace& predicted,
                     const io::profiled_step& measured,
                     const gpu_spec& on,
                     const guides::output& as) {
  const std::vector<compared_row> rows = rows_of(predicted, measured);
  remark_on_device(measured, on);
  remark_on_matmuls(rows, measured);
  const std::vector<total> totals = totals_of(predicted, measured);
  if (!traits_of(as.format).for_people) return for_programs(rows, totals, measured.has_kernels, as);
  const auto number = io::alignment::point;
  const auto ratio = [](double a, double b) { return b > 0 ? cell{a / b, 2} : cell(); };
  io::table table{.title = measured.has_kernels
                               ? "kernels as measured and as predicted, by difference"
                               : "the host as measured (there are no kernels) and as predicted"};
  table.columns = {{.name = "operators"},
                   {.name = "measured", .align = number},
                   {.name = "ms", .align = number},
                   {.name = "predicted", .align = number},
                   {.name = "ms", .align = number},
                   {.name = "ratio", .align = number}};
  const auto add = [&](const std::string& name, const side& a, const side& b) {
    table.rows.push_back({name,
                          a.operators,
                          {1e3 * a.seconds, 3},
                          b.operators,
                          {1e3 * b.seconds, 3},
                          ratio(a.seconds, b.seconds)});
  };
  side all_measured;
  side all_predicted;
  for (const compared_row& row : rows) {
    const std::string sizes = words(row.sizes);
    add(text(row.group) + (sizes.empty() ? "" : " " + sizes), row.measured, row.predicted);
    all_measured.operators += row.measured.operators;
    all_measured.seconds += row.measured.seconds;
    all_predicted.operators += row.predicted.operators;
    all_predicted.seconds += row.predicted.seconds;
  }
  add("all", all_measured, all_predicted);
  io::table step{.title = "the step"};
  step.columns = {{.name = "what"},
                  {.name = "measured", .align = number},
                  {.name = "predicted", .align = number},
                  {.name = "ratio", .align = number}};
  for (const total& one : totals) {
    const int digits = plan_program::digits_of(one.predicted, 4);
    step.rows.push_back({one.name,
                         {one.measured, digits},
                         {one.predicted, digits},
                         ratio(one.measured, one.predicted)});
  }
  std::string out = guides::render(table, as) + "\n" + guides::render(step, as);
  if (measured.has_shapes) out += "\n" + order_of_matmuls(predicted, measured) + "\n";
  return out;
}

}  // namespace time_program

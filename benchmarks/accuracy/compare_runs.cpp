#include "compare_runs.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "measured_rows.hpp"
#include "notes.hpp"
#include "published_exemplar.hpp"
#include "runs.hpp"
#include "step_predictions.hpp"
#include "timed_runs.hpp"

namespace accuracy {
namespace {

void compare_published_run(row_comparisons& row) {
  const std::string_view source = row.source.text("source");
  const bool has_peak = (source == "bigscience" || source == "torchtitan") &&
                        row.source.number("peak_reserved_GiB").has_value();
  const bool has_both = row.source.number("peak_alloc_GiB").has_value();  // PyTorch's own
  if (!has_peak && !has_both && row.source.blank("fits")) return;
  if (source == "nvidia_exemplar")
    return row.add(
        quantity::fits, std::int64_t{row.source.flag("fits") ? 1 : 0}, exemplar_fits(row.source));
  const described_setup described = describe_published_run(row.source);
  if (has_both && runs_nanotron(row.source)) {
    const predicted_memory memory = nanotron_memory_of(row.source);
    const std::int64_t reserved = memory.step.peak.reserved;  // which is what its column holds
    compare_gibibytes(row, quantity::peak_allocated, "peak_alloc_GiB", memory, reserved);
  } else if (has_both) {
    const predicted_memory memory = stage_memory_of(row.source, described);
    const gpuplan::memory_counts& peak = memory.step.peak;
    compare_gibibytes(row, quantity::peak_allocated, "peak_alloc_GiB", memory, peak.allocated);
    compare_gibibytes(row, quantity::peak_reserved, "peak_reserved_GiB", memory, peak.reserved);
  }
  if (has_peak) {
    const predicted_memory memory = device_memory_of(row.source, described);
    const std::int64_t reserved = memory.step.peak.reserved;
    // torchtitan prints what the allocator says, the others what the device does
    if (source == "torchtitan")
      compare_gibibytes(row, quantity::peak_reserved, "peak_reserved_GiB", memory, reserved);
    else
      compare_gibibytes(
          row, quantity::peak_memory, "peak_reserved_GiB", memory, reserved + memory.beside);
  }
  if (row.source.blank("fits")) return;
  compare_fitting(
      row, runs_nanotron(row.source) ? nanotron_fit_of(row.source) : fit_of(row.source, described));
}

// What measure_torch.py measured: its runs are steps in other columns.
void compare_measured_run(row_comparisons& row) {
  const csv_file file = step_of_run(row.source);
  const class row step(file, file.rows[0]);
  if (!row.source.blank("peak_alloc_GiB")) {
    const predicted_memory memory = step_memory_of(step, row.options.memory);
    const gpuplan::memory_counts& peak = memory.step.peak;
    compare_gibibytes(row, quantity::peak_allocated, "peak_alloc_GiB", memory, peak.allocated);
    if (row.options.memory == memory_method::replay)
      compare_gibibytes(row, quantity::peak_reserved, "peak_reserved_GiB", memory, peak.reserved);
  }
  if (row.options.memory == memory_method::replay) compare_fitting(row, step_fit_of(step));
}

void compare_run_memory(row_comparisons& row) {
  if (row.source.text("source") == measured_source) return compare_measured_run(row);
  if (row.source.blank("framework_options")) return compare_published_run(row);
  const predicted_memory memory = framework_memory_of(row.source, row.options.memory);
  const gpuplan::memory_counts& peak = memory.step.peak;
  compare_gibibytes(row, quantity::peak_allocated, "peak_alloc_GiB", memory, peak.allocated);
  if (row.options.memory == memory_method::replay)
    compare_gibibytes(row, quantity::peak_reserved, "peak_reserved_GiB", memory, peak.reserved);
}

// The time that the row printed, beside the time that the library says.
void compare_time(row_comparisons& row) {
  timed_run run = describe_timed_run(row.source);
  const auto measured = measured_step(row.source, run);
  if (!measured && row.source.blank("mfu_pct")) return;
  if (row.options.leaves_out) run.setup.framework = as_untimed(run.setup.framework);
  const predicted_step step = predict_step(run);
  const auto predicted = [&](auto from_step) -> prediction {
    if (!step.why_not.empty()) return step.why_not;
    return from_step();
  };
  const auto tokens = [&] {
    const auto samples = static_cast<double>(run.plan.effective_batch());
    const std::int64_t length = row.source.integer_or("seq_len", run.setup.sequence_length);
    return number(samples * static_cast<double>(length) /
                  (step.seconds * static_cast<double>(row.source.integer_or("gpus", 1))));
  };
  if (measured)
    for (const auto& [what, seconds] : {std::pair{quantity::step_time, step.seconds},
                                        std::pair{quantity::step_time_low, step.low},
                                        std::pair{quantity::step_time_high, step.high}})
      row.add(what, *measured, predicted([&, end = seconds] { return number(end); }));
  row.value(quantity::throughput, "tokens_per_s_per_gpu", [&] { return predicted(tokens); });
  row.value(quantity::step_mfu, "mfu_pct", [&] {
    return predicted([&] { return run_mfu(row.source, step.seconds); });
  });
}

}  // namespace

void compare_gibibytes(row_comparisons& row,
                       quantity what,
                       std::string_view column,
                       const predicted_memory& memory,
                       std::int64_t predicted) {
  const auto measured = row.source.number(column);
  if (!measured) return;
  row.add(what,
          *measured * 0x1p30,
          memory.why_not.empty() ? prediction(number(predicted)) : prediction(memory.why_not));
}

void compare_fitting(row_comparisons& row, const predicted_fit& fit) {
  const auto fitted = row.source.integer("fits");
  if (!fitted) return;
  row.add(quantity::fits,
          std::int64_t{*fitted != 0 ? 1 : 0},
          fit.why_not.empty() ? prediction(number(std::int64_t{fit.fits ? 1 : 0}))
                              : prediction(fit.why_not),
          fit.by_a_margin);
}

void compare_run(row_comparisons& row) {
  const std::optional<bool> unseen = row.options.unseen;
  if (unseen && is_unseen(row.source) != *unseen) return;
  compare_time(row);
  if (row.options.time_only) return;
  const row_comparisons& self = row;
  const auto printed = self.source.integer("params_printed");
  // Fewer digits that count are a rounded size.
  std::int64_t digits = printed.value_or(0);
  while (digits != 0 && digits % 10 == 0) digits /= 10;
  if (digits >= 1'000'000)
    row.add(quantity::parameters, *printed, run_parameters(row.source));
  else if (const std::string_view total = value_in(row.source.text("notes"), "params_total");
           !total.empty()) {
    std::int64_t measured = 0;
    const auto [end, error] = std::from_chars(total.data(), total.data() + total.size(), measured);
    if (error != std::errc{} || end != total.data() + total.size())
      row.source.fail("notes", "has a params_total that is no number: " + std::string(total));
    row.add(quantity::parameters, measured, run_parameters(row.source));
  }
  row.value(quantity::model_tflops, "model_tflops_per_gpu", [&] { return run_tflops(row.source); });
  row.value(quantity::mfu, "mfu_pct", [&] { return run_mfu(row.source); });
  row.value(quantity::hfu, "hfu_pct", [&] { return run_hfu(row.source); });
  compare_run_memory(row);
}

}  // namespace accuracy

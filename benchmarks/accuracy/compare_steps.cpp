#include "compare_steps.hpp"

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/counts.hpp>

#include <utility>

#include "compare_runs.hpp"
#include "memory.hpp"
#include "setups.hpp"
#include "step_predictions.hpp"
#include "steps.hpp"

namespace accuracy {

number times(std::int64_t count, gpuplan::flop_count flops, double besides) {
  const double one = flops.value();
  if (one < 0x1p53 && besides < 0x1p53) {
    const auto sum = gpuplan::detail::checked_sum(
        gpuplan::detail::checked_product(count, static_cast<std::int64_t>(one)),
        static_cast<std::int64_t>(besides));
    if (sum.ok) return sum.value;
  }
  return static_cast<double>(count) * one + besides;
}

void compare_step_memory(row_comparisons& row) {
  const row_comparisons& self = row;
  const bool has_peak = self.source.integer("peak_requested") ||
                        self.source.integer("peak_allocated") ||
                        self.source.integer("peak_reserved");
  if (has_peak) {
    const predicted_memory memory = step_memory_of(row.source, row.options.memory);
    const auto bytes = [&](std::int64_t count) -> prediction {
      if (!memory.why_not.empty()) return memory.why_not;
      return number(count);
    };
    const gpuplan::memory_counts& peak = memory.step.peak;
    row.count(quantity::peak_requested, "peak_requested", [&] { return bytes(peak.requested); });
    row.count(quantity::peak_allocated, "peak_allocated", [&] { return bytes(peak.allocated); });
    if (row.options.memory == memory_method::replay)
      row.count(quantity::peak_reserved, "peak_reserved", [&] { return bytes(peak.reserved); });
  }
  if (row.options.memory == memory_method::replay && !row.source.blank("usable_bytes"))
    compare_fitting(row, step_fit_of(row.source));
}

void compare_step(row_comparisons& row) {
  const described_step step = describe_step(row.source);
  const auto predicted = [&](auto predict) -> prediction {
    if (!step.why_not.empty()) return step.why_not;
    return number(predict());
  };
  gpuplan::flop_counts counts;
  if (step.why_not.empty()) counts = flops(step.shape, step.pass);
  if (step.pools_in_vain)
    counts.by_operator[static_cast<int>(gpuplan::operator_kind::pooler)].backward = 0;
  const double loss = step.other_flops_forward;
  row.count(quantity::parameters, "params", [&] {
    return predicted([&] {
      // Adapters are parameters like others.
      const bool adapted = step.pass.trains.what == gpuplan::training::adapters;
      return parameters(step.shape).total() + step.more_parameters +
             (adapted ? trainable_parameters(step.shape, step.pass.trains) : 0);
    });
  });
  row.count(quantity::trainable_parameters, "trainable_params", [&] {
    return predicted([&] {
      const bool trains_all = step.pass.trains.what == gpuplan::training::full;
      return trainable_parameters(step.shape, step.pass.trains) +
             (trains_all ? step.more_parameters : 0);
    });
  });
  row.count(quantity::flops_forward, "flops_forward", [&] {
    return predicted([&] { return times(step.sequences, counts.forward(), loss); });
  });
  const auto backward = row.source.integer("flops_backward");
  const auto forward = row.source.integer("flops_forward");
  if (forward && backward) {
    const auto measured = gpuplan::detail::checked_sum(*forward, *backward);
    if (!measured.ok) row.source.fail("flops_backward", "and flops_forward exceed 64 bits");
    row.add(quantity::flops_total, measured.value, predicted([&] {
              return times(step.sequences, counts.hardware(), 3 * loss);
            }));
  }
  compare_step_memory(row);
  compare_step_time(row);
}

void compare_step_time(row_comparisons& row) {
  const auto measured = row.source.number("step_s");
  if (!measured) return;
  const predicted_step step = predict_eager_step(describe_timed_step(row.source));
  for (const auto& [what, seconds] : {std::pair{quantity::step_time, step.seconds},
                                      std::pair{quantity::step_time_low, step.low},
                                      std::pair{quantity::step_time_high, step.high}})
    row.add(what, *measured, step.why_not.empty() ? prediction(number(seconds)) : step.why_not);
}

void compare_work(row_comparisons& row) {
  const described_setup described = describe_setup(row.source);
  std::string why_not = described.why_not;
  gpuplan::step_counts counts;
  if (why_not.empty()) {
    const auto counted = gpuplan::counts_of(described.setup, described.plan);
    if (counted)
      counts = *counted;
    else
      why_not = gpuplan::failure_text(counted.why()).c_str();
  }
  compare_work(row, counts, std::move(why_not));
}

void compare_work(row_comparisons& row, const gpuplan::step_counts& counts, std::string why_not) {
  const gpuplan::step_work work = counts.work ? *counts.work : gpuplan::step_work{};
  if (why_not.empty() && !counts.work)
    why_not = "what such a step asks of the device is not counted";
  const auto compare = [&](quantity what, const std::string& column, double counted) {
    row.count(what, column, [&]() -> prediction {
      if (!why_not.empty()) return why_not;
      return number(static_cast<std::int64_t>(counted));
    });
  };
  double flops = 0;
  int at = static_cast<int>(quantity::launches_forward);
  const auto compare_part = [&](const gpuplan::work_counts& part, const std::string& name) {
    const auto next = [&](const char* column, double counted) {
      compare(static_cast<quantity>(at++), column + name, counted);
    };
    next("launches_", static_cast<double>(part.launches));
    next("products_", static_cast<double>(part.products));
    next("fills_", static_cast<double>(part.fills));
    next("copies_", static_cast<double>(part.copies));
    next("operators_", static_cast<double>(part.operators));
    next("bytes_", part.traffic.value());
    flops += part.product_flops.value();
  };
  compare_part(work.forward, "forward");
  compare_part(work.backward, "backward");
  compare_part(work.optimizer, "optimizer");
  compare(quantity::product_flops, "product_flops", flops);
}

void compare_layer(row_comparisons& row) {
  const predicted_layer layer = predict_layer(row.source);
  const auto predicted = [&](double seconds) -> prediction {
    if (!layer.why_not.empty()) return layer.why_not;
    return number(seconds);
  };
  row.value(quantity::layer_forward, "forward_s", [&] { return predicted(layer.forward_seconds); });
  row.value(
      quantity::layer_backward, "backward_s", [&] { return predicted(layer.backward_seconds); });
}

void compare_matmul(row_comparisons& row) {
  row.value(quantity::matmul_time, "matmul_s", [&]() -> prediction {
    const predicted_step product = predict_matmul(row.source);
    if (!product.why_not.empty()) return product.why_not;
    return number(product.seconds);
  });
}

}  // namespace accuracy

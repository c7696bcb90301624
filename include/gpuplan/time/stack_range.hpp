#pragma once

// How far a step's time may lie from the estimate because of the software around the model: on the
// same devices, well-tuned stacks and others were published 8 to 40 % apart.

#include <gpuplan/batch.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// What makes a stack faster or slower, as factors of the framework's own costs. The defaults are
/// judgement, not fitted: state your own where you know them.
struct stack_range {
  range<double> product_rate{0.94, 1.06};    // another library, other clocks
  range<double> element_traffic{0.75, 1.5};  // fused kernels, or not
  range<double> host{0.5, 2};                // processor, interpreter, graphs of launches
  range<double> contention{0, 2};            // of communication with kernels
};

namespace detail {

constexpr roofline_time with_stack(roofline_time model,
                                   double product_rate,
                                   double element_traffic,
                                   double host,
                                   double contention) {
  software_costs& costs = model.setup.framework.costs;
  costs.product_rate *= product_rate;
  costs.element_traffic *= element_traffic;
  costs.host_per_operator = host * costs.host_per_operator;
  costs.host_per_step = host * costs.host_per_step;
  costs.contention *= contention;
  return model;
}

}  // namespace detail

/// The range of a step's time that the stack gives, from the favourable ends of all its inputs to
/// the others. It holds the estimate itself where each range holds 1. Preconditions: as the
/// model's; positive factors.
[[nodiscard]] constexpr range<duration> step_range(const roofline_time& model,
                                                   const batch_plan& plan,
                                                   const stack_range& stack = {}) {
  const roofline_time fast = detail::with_stack(model,
                                                stack.product_rate.high(),
                                                stack.element_traffic.low(),
                                                stack.host.low(),
                                                stack.contention.low());
  const roofline_time slow = detail::with_stack(model,
                                                stack.product_rate.low(),
                                                stack.element_traffic.high(),
                                                stack.host.high(),
                                                stack.contention.high());
  return {fast.step(plan), slow.step(plan)};
}

}  // namespace gpuplan

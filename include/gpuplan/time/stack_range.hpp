#pragma once

// How far a step's time may lie from the estimate because of the software around the model, and
// what of it makes it so: on the same devices, well-tuned stacks and others were published 8 to
// 40 % apart.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// What makes a stack faster or slower, as factors of the framework's own costs. The defaults are
/// judgement, not fitted: state your own where you know them.
struct stack_range {
  range<double> matmul_rate{0.94, 1.06};   // another library, other clocks
  range<double> element_rate{0.67, 1.33};  // fused kernels, or not
  range<double> host{0.5, 2};              // processor, interpreter, graphs of launches
  range<double> contention{0, 2};          // of communication with kernels
  // A framework without costs of its own, of which no step was timed: at most these, by the input
  // that each belongs to: judgement, of the size of the most that was fitted to other code in
  // PyTorch's eager mode (catalog::eager_torch, torchtitan, llm_foundry); {} where you know that
  // there are none.
  software_costs untimed{
      .element_rate = 0.9, .host_per_operator = 97_us, .host_per_step = 60_ms, .contention = 0.51};
  // A device of which no step was timed, so that its share of products is the default: this share,
  // with the rate of products. From the least to the most of the generations that were fitted
  // (catalog/device_efficiencies.hpp).
  range<double> untimed_matmuls{0.58, device_efficiency{}.products};
  // Of devices of a node that reach each other by PCIe, or by a bridge that a machine may lack,
  // where nobody states the rate (`cluster::inside_node`): eight of ten of the machines that
  // `unknown_pcie_share` is of, each direction.
  range<bandwidth> unknown_link{3_GBps, 22_GBps};
};

/// The range of a step's time that a stack gives: by all inputs of `stack_range` together, and by
/// each alone while the others are as estimated.
struct step_ranges {
  range<duration> all;
  range<duration> matmul_rate;
  range<duration> element_rate;
  range<duration> host;
  range<duration> contention;
  range<duration> link;  // inside a node, where nobody states its rate
};

/// The rates that the link inside a node may have where nobody states it; of a link that is known,
/// its own.
[[nodiscard]] constexpr range<bandwidth> link_range(const cluster& on,
                                                    const stack_range& stack = {}) {
  const auto links = interconnect_of(on);
  if (!links) return bandwidth{};
  const bandwidth own = detail::is_beyond_bridge(on) ? links->beyond_bridge : links->inside_node;
  if (!detail::is_link_unknown(on)) return own;
  return {own < stack.unknown_link.low() ? own : stack.unknown_link.low(),
          own < stack.unknown_link.high() ? stack.unknown_link.high() : own};
}

/// Whether steps of this software were timed: it has costs of its own.
[[nodiscard]] constexpr bool is_timed(const framework& software) { return software.costs.timed; }
/// Whether steps on a device that reaches this were: its share of products is not the default.
[[nodiscard]] constexpr bool is_timed(const device_efficiency& reached) {
  return reached.products != device_efficiency{}.products;
}

namespace detail {

// The step as estimated, and its ends by some of the inputs.
class stack_ends {
 public:
  constexpr stack_ends(const roofline_time& model, const batch_plan& plan, const stack_range& stack)
      : model_(model), plan_(plan), stack_(stack) {
    const software_costs& own = model.setup.framework.costs;
    fast_ = slow_ = own;
    fast_.matmul_rate *= stack.matmul_rate.high();
    slow_.matmul_rate *= stack.matmul_rate.low();
    fast_.element_rate *= stack.element_rate.high();
    slow_.element_rate *= stack.element_rate.low();
    fast_.host_per_operator = stack.host.low() * own.host_per_operator;
    slow_.host_per_operator = stack.host.high() * own.host_per_operator;
    fast_.host_per_step = stack.host.low() * own.host_per_step;
    slow_.host_per_step = stack.host.high() * own.host_per_step;
    fast_.contention *= stack.contention.low();
    slow_.contention *= stack.contention.high();
    if (is_timed(model.setup.framework)) return;
    slow_.element_rate = smaller_of(slow_.element_rate, stack.untimed.element_rate);
    const auto longer = [](duration one, duration other) { return one < other ? other : one; };
    slow_.host_per_operator = longer(slow_.host_per_operator, stack.untimed.host_per_operator);
    slow_.host_per_step = longer(slow_.host_per_step, stack.untimed.host_per_step);
    slow_.contention = larger_of(slow_.contention, stack.untimed.contention);
  }

  struct inputs {
    bool matmul_rate = false, element_rate = false, host = false, contention = false, link = false;
  };
  constexpr range<duration> range_by(const inputs& vary) const {
    const range<bandwidth> link = link_range(model_.on, stack_);
    const duration fast = end(vary, fast_, stack_.untimed_matmuls.high(), link.high());
    const duration slow = end(vary, slow_, stack_.untimed_matmuls.low(), link.low());
    // What changes nothing may round to either side.
    return fast <= slow ? range<duration>{fast, slow} : range<duration>{slow, fast};
  }

 private:
  const roofline_time& model_;
  const batch_plan& plan_;
  const stack_range& stack_;
  software_costs fast_{};
  software_costs slow_{};

  constexpr duration end(const inputs& vary,
                         const software_costs& to,
                         double products,
                         bandwidth link) const {
    roofline_time model = model_;
    if (vary.link && is_link_unknown(model.on)) model.on.inside_node = link;
    software_costs& costs = model.setup.framework.costs;
    if (vary.matmul_rate) {
      costs.matmul_rate = to.matmul_rate;
      if (!is_timed(model.efficiency)) model.efficiency.products = products;
    }
    if (vary.element_rate) costs.element_rate = to.element_rate;
    if (vary.host) costs.host_per_operator = to.host_per_operator;
    if (vary.host) costs.host_per_step = to.host_per_step;
    if (vary.contention) costs.contention = to.contention;
    return model.step(plan_);
  }
};

}  // namespace detail

/// The range of a step's time that the stack gives, from the favourable ends of all its inputs to
/// the others. It holds the estimate itself where each range holds 1. Preconditions: as the
/// model's; positive factors.
[[nodiscard]] constexpr range<duration> step_range(const roofline_time& model,
                                                   const batch_plan& plan,
                                                   const stack_range& stack = {}) {
  return detail::stack_ends(model, plan, stack)
      .range_by({.matmul_rate = true,
                 .element_rate = true,
                 .host = true,
                 .contention = true,
                 .link = true});
}

/// Likewise, with what each input does. Twelve steps are estimated.
[[nodiscard]] constexpr step_ranges step_ranges_of(const roofline_time& model,
                                                   const batch_plan& plan,
                                                   const stack_range& stack = {}) {
  const detail::stack_ends ends(model, plan, stack);
  return {.all = step_range(model, plan, stack),
          .matmul_rate = ends.range_by({.matmul_rate = true}),
          .element_rate = ends.range_by({.element_rate = true}),
          .host = ends.range_by({.host = true}),
          .contention = ends.range_by({.contention = true}),
          .link = ends.range_by({.link = true})};
}

}  // namespace gpuplan

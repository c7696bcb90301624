#pragma once

// A training step's memory block by block, and about when each comes and goes. At run time.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuplan {

/// What was asked for at once.
struct memory_block {
  std::int64_t bytes = 0;
  int stream = 0;
  step_moment when = step_moment::forward;  // it came,
  int layer = eager::none;                  // and in whose forward or backward
};

/// A block comes or goes.
struct memory_change {
  std::size_t block = 0;
  bool comes = true;
  step_moment when = step_moment::forward;
  int layer = eager::none;
  double flops = 0;     // of matrix products since the step began
  memory_sum in_use{};  // from then on
};

/// A step from its first allocation on.
struct memory_trace {
  std::vector<memory_block> blocks{};
  std::size_t before = 0;  // of the blocks, the first so many were there before it
  memory_sum at_first{};   // what they are for
  std::vector<memory_change> changes{};
};

namespace eager {

/// Takes down every block after `start`, and those that are there then.
class traced_memory final : public memory_events {
 public:
  explicit traced_memory(const transformer& model) : sums_(stacks_of(model)) {}

  int allocate(std::int64_t bytes, int stream) override {
    const int slot = sums_.allocate(bytes, stream);
    const auto at = static_cast<std::size_t>(slot);
    if (at >= block_of_.size()) block_of_.resize(at + 1, gone);
    block_of_[at] = trace_.blocks.size();
    trace_.blocks.push_back(
        {.bytes = bytes, .stream = stream, .when = sums_.moment_now(), .layer = layer_});
    note(block_of_[at], true);
    return slot;
  }
  void release(int slot) override {
    sums_.release(slot);
    const std::size_t block = std::exchange(block_of_[static_cast<std::size_t>(slot)], gone);
    note(block, false);
  }
  void begin(moment now, int layer) override {
    sums_.begin(now, layer);
    layer_ = layer;
  }

  void start(const std::int64_t* parts, const product_flops& products) {
    std::vector<memory_block> alive;
    for (std::size_t& block : block_of_) {
      if (block == gone) continue;
      alive.push_back(trace_.blocks[block]);
      block = alive.size() - 1;
    }
    trace_.blocks = std::move(alive);
    trace_.before = trace_.blocks.size();
    parts_ = parts;
    products_ = &products;
    flops_before_ = flops();
    trace_.at_first = in_use();
  }
  [[nodiscard]] memory_trace take() { return std::move(trace_); }

 private:
  static constexpr std::size_t gone = static_cast<std::size_t>(-1);

  [[nodiscard]] double flops() const {
    return products_->forward + products_->backward + products_->recomputed;
  }
  [[nodiscard]] memory_sum in_use() const { return memory_sum::by(sums_.now(), parts_); }
  void note(std::size_t block, bool comes) {
    if (parts_ == nullptr) return;
    trace_.changes.push_back({.block = block,
                              .comes = comes,
                              .when = sums_.moment_now(),
                              .layer = layer_,
                              .flops = flops() - flops_before_,
                              .in_use = in_use()});
  }

  summed_memory sums_;
  std::vector<std::size_t> block_of_{};  // by slot
  const std::int64_t* parts_ = nullptr;
  const product_flops* products_ = nullptr;
  double flops_before_ = 0;
  int layer_ = none;
  memory_trace trace_{};
};

}  // namespace eager

/// The step that `timeline_of` looks at, with every block that comes and goes. Errors: those of
/// `transformer_memory` of the setup, and of it with the plan; `out_of_bounds` of the device, and
/// of more than 2^20 passes through a layer.
[[nodiscard]] inline result<memory_trace> trace_of(const training_setup& setup,
                                                   const batch_plan& plan,
                                                   const eager::device_traits& device = {}) {
  if (const failure why = detail::flaw_of_replay(setup, plan, device); detail::failed(why))
    return why;
  eager::traced_memory memory(setup.model);
  memory_trace trace;
  eager::train(memory, setup, plan, device, nullptr, [&](eager::training_job& job) {
    job.settle();
    memory.start(job.alive(), job.products());
    job.step();
    trace = memory.take();
  });
  return trace;
}

/// The passes of a step.
enum class step_pass { forward, backward, optimizer };

[[nodiscard]] constexpr step_pass pass_of(step_moment when) {
  switch (when) {
    case step_moment::forward:
    case step_moment::loss:
      return step_pass::forward;
    case step_moment::optimizer:
      return step_pass::optimizer;
    default:
      return step_pass::backward;
  }
}

/// How long the passes of one micro-batch take, and what a device does in a second.
struct step_pace {
  duration forward{};
  duration backward{};   // with what is computed again
  duration optimizer{};  // of the step
  double flops_per_s = 1;
  double bytes_per_s = 1;
};

/// The pace of a step of so many micro-batches: its parts, without what it waits for samples and
/// for other stages. Communication and the host go to forward and backward by their kernels' time,
/// that of gradients to the backward.
[[nodiscard]] constexpr step_pace pace_of(const step_breakdown& parts,
                                          std::int64_t micro_batches,
                                          double flops_per_s,
                                          double bytes_per_s) {
  const duration back = parts.backward + parts.recompute;
  double share = 0.5;
  if (parts.forward + back > duration{}) share = parts.forward / (parts.forward + back);
  const duration both = parts.communication() - parts.gradient_communication + parts.host;
  const double each = 1.0 / static_cast<double>(micro_batches);
  return {.forward = each * (parts.forward + share * both),
          .backward = each * (back + (1 - share) * both + parts.gradient_communication),
          .optimizer = parts.optimizer,
          .flops_per_s = flops_per_s,
          .bytes_per_s = bytes_per_s};
}

/// When each change of a trace is, in seconds from the beginning of its step, and last when the
/// step ends. The passes take what the pace says. Within a pass it is an approximation: an operator
/// is taken to last as long as its matrix products at `flops_per_s`, and as writing what it
/// allocates and reading as much at `bytes_per_s`; what a pass takes beyond that is spread alike,
/// and where it writes nothing, changes come at its end.
/// Of pipelined and of compiled layers the replay counts no products, so that bytes alone tell.
[[nodiscard]] inline std::vector<double> times_of(const memory_trace& trace,
                                                  const step_pace& pace) {
  const std::vector<memory_change>& changes = trace.changes;
  std::vector<double> times(changes.size() + 1, 0);
  double now = 0;
  for (std::size_t first = 0; first < changes.size();) {
    const step_pass pass = pass_of(changes[first].when);
    std::size_t end = first + 1;
    while (end < changes.size() && pass_of(changes[end].when) == pass) ++end;
    // of each change, what is done until the next
    std::vector<double> work(end - first, 0);
    double all = 0;
    for (std::size_t at = first; at < end; ++at) {
      const double before = at == 0 ? 0 : changes[at - 1].flops;
      const double written =
          changes[at].comes ? static_cast<double>(trace.blocks[changes[at].block].bytes) : 0;
      work[at - first] =
          (changes[at].flops - before) / pace.flops_per_s + 2 * written / pace.bytes_per_s;
      all += work[at - first];
    }
    const duration takes = pass == step_pass::forward    ? pace.forward
                           : pass == step_pass::backward ? pace.backward
                                                         : pace.optimizer;
    double done = 0;
    for (std::size_t at = first; at < end; ++at) {
      times[at] = now + takes.value() * (all > 0 ? done / all : 1);
      done += work[at - first];
    }
    now += takes.value();
    first = end;
  }
  times.back() = now;
  return times;
}

}  // namespace gpuplan

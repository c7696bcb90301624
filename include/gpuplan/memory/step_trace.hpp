#pragma once

// An eager step operator by operator: when the host issues each and the device runs it, and when
// each block of memory comes and goes. At run time.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory/trace.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuplan {

/// An operator that asks the device for something, or a collective.
struct traced_operator {
  bool is_collective = false;
  eager::device_work work{};       // of an operator,
  eager::shared_work exchanged{};  // and of a collective
  eager::kernel_times::part pass{};
  int layer = eager::none;
  int stream = eager::streams::operators;
  // s from the beginning of the step
  double issue_begin = 0;
  double issue_end = 0;
  double begin = 0;
  double end = 0;
};

/// A step as `replayed_time` runs it.
struct step_trace {
  std::vector<traced_operator> operators{};  // in the host's order
  memory_trace memory{};
  std::vector<double> memory_times{};  // s of each change, on the host, which asks for memory
  step_breakdown parts{};
};

namespace detail {

class step_tracer final : public eager::memory_events {
 public:
  explicit step_tracer(const transformer& model) : memory_(model) {}

  int allocate(std::int64_t bytes, int stream) override {
    const int block = memory_.allocate(bytes, stream);
    note_change();
    return block;
  }
  void release(int block) override {
    memory_.release(block);
    note_change();
  }
  void begin(eager::moment now, int layer) override {
    memory_.begin(now, layer);
    step_->begin(now, layer);
  }
  [[nodiscard]] bool counts_work() const override { return true; }
  void execute(const eager::device_work& work, bool in_backward) override {
    const int before = step_->items.size();
    step_->execute(work, in_backward);
    note_operator(before, {.work = work});
  }
  void communicate(const eager::shared_work& work, bool in_backward) override {
    const int before = step_->items.size();
    step_->communicate(work, in_backward);
    note_operator(before, {.is_collective = true, .exchanged = work});
  }
  void await_stream(int stream) override { step_->await_stream(stream); }
  void hold_stream(int stream, bool one_behind) override { step_->hold_stream(stream, one_behind); }
  void begin_again() override { step_->begin_again(); }

  static result<step_trace> trace(const replayed_time& model, const batch_plan& plan) {
    step_tracer made(model.setup.model);
    step_trace found;
    const auto wrong = model.with_step(
        plan,
        [&](eager::kernel_times& step) -> eager::memory_events& {
          made.step_ = &step;
          return made;
        },
        [&](eager::training_job& job) { made.memory_.start(job.alive(), job.products()); },
        [&](const eager::kernel_times& step) {
          const double clock = model.clock_of(step, [&](double at) {
            return model.run(step, at, replayed_time::unnoted{}).total().value();
          });
          found.parts =
              model.run(step, clock, [&](int at, double issued, double begin, double end) {
                made.time(step.items[at], at, issued, begin, end);
              });
        });
    if (failed(wrong)) return wrong;
    found.memory = made.memory_.take();
    for (const std::size_t before : made.changes_)
      found.memory_times.push_back(before == 0 ? 0 : made.operators_[before - 1].issue_end);
    found.operators = std::move(made.operators_);
    return found;
  }

 private:
  void note_change() {
    if (step_->is_on) changes_.push_back(operators_.size());
  }
  // Where the step has one more since there were `before`.
  void note_operator(int before, const traced_operator& one) {
    if (step_->items.size() == before) return;
    items_.push_back(before);
    operators_.push_back(one);
  }
  void time(
      const eager::kernel_times::item& item, int at, double issued, double begin, double end) {
    while (items_[timed_] != at) ++timed_;
    traced_operator& one = operators_[timed_];
    one.pass = item.of;
    one.layer = item.layer;
    one.stream = item.stream;
    one.issue_begin = issued - item.issue;
    one.issue_end = issued;
    one.begin = begin;
    one.end = end;
  }

  eager::traced_memory memory_;
  eager::kernel_times* step_ = nullptr;
  std::size_t timed_ = 0;
  std::vector<int> items_{};            // of each operator, which of the step's it is
  std::vector<std::size_t> changes_{};  // operators before each
  std::vector<traced_operator> operators_{};
};

}  // namespace detail

/// The step that `replayed_time::step` times, from its first operator to its last. Errors: as of
/// that.
[[nodiscard]] inline result<step_trace> trace_of(const replayed_time& model,
                                                 const batch_plan& plan) {
  return detail::step_tracer::trace(model, plan);
}

}  // namespace gpuplan

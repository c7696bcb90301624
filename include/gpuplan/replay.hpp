#pragma once

// Training steps replayed, allocation by allocation: the memory that PyTorch will report, to the
// byte where the code of the model is known. At run time.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/caching_allocator.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <limits>

namespace gpuplan {

/// What a step took at most, in bytes: what was asked for (`requested_bytes` of PyTorch's
/// memory_stats), what the allocator gave (`max_memory_allocated`), and what it took from the
/// device
/// (`max_memory_reserved`).
struct step_memory {
  memory_counts before{};     // the step
  memory_counts forward{};    // at most, within the forward,
  memory_counts backward{};   // the backward,
  memory_counts optimizer{};  // and the optimizer's step with the clipping before it
  memory_counts peak{};       // of the three
  bool fits = true;           // false: out of memory, and the rest says nothing
};

namespace eager {

/// Asks the caching allocator, and notes the peaks of the moments.
class moment_peaks final : public memory_events {
 public:
  explicit moment_peaks(std::int64_t capacity) : allocator_(capacity) {}

  int allocate(std::int64_t bytes, int stream) override {
    if (!fits_) return caching_allocator::out_of_memory;
    const int block = allocator_.allocate(bytes, stream);
    if (block == caching_allocator::out_of_memory) fits_ = false;
    return block;
  }
  void release(int block) override {
    if (block != caching_allocator::out_of_memory) allocator_.release(block);
  }
  void empty_cache() override { allocator_.empty_cache(); }
  void begin(moment now, int /*layer*/) override {
    note();
    now_ = now;
  }

  /// Forgets the peaks.
  void reset() {
    allocator_.reset_peak();
    step_ = {};
    step_.before = allocator_.current();
  }
  [[nodiscard]] step_memory result() {
    note();
    step_.fits = fits_;
    for (const memory_counts& part : {step_.forward, step_.backward, step_.optimizer})
      take_larger(step_.peak, part);
    return step_;
  }
  [[nodiscard]] bool fits() const { return fits_; }

 private:
  static void take_larger(memory_counts& most, const memory_counts& other) {
    if (other.requested > most.requested) most.requested = other.requested;
    if (other.allocated > most.allocated) most.allocated = other.allocated;
    if (other.reserved > most.reserved) most.reserved = other.reserved;
  }
  void note() {
    memory_counts& part = now_ == moment::backward ? step_.backward
                          : is_update(now_)        ? step_.optimizer
                                                   : step_.forward;
    take_larger(part, allocator_.peak());
    allocator_.reset_peak();
  }

  caching_allocator allocator_;
  step_memory step_{};
  moment now_ = moment::construct;
  bool fits_ = true;
};

}  // namespace eager

/// The memory of the last of `steps` training steps, from the construction of the model on, on a
/// device that has `capacity` bytes for PyTorch. The optimizer's states come into being in the
/// first step, and the allocator's reserves settle in the second or third. Errors: those of
/// `transformer_memory` of the setup, and of it with the plan; `out_of_bounds` of the device, and
/// of more than 2^20 passes through a layer; `not_positive` of the steps, `negative` of the
/// capacity.
[[nodiscard]] inline result<step_memory> replay(
    const training_setup& setup,
    const batch_plan& plan,
    int steps = 3,
    std::int64_t capacity = std::numeric_limits<std::int64_t>::max(),
    eager::device_traits device = {}) {
  if (const failure why = detail::flaw_of_replay(setup, plan, device, steps); detail::failed(why))
    return why;
  if (capacity < 0) return failure(errc::negative, named_fact{fact::capacity, capacity});
  eager::moment_peaks memory(capacity);
  eager::train(memory, setup, plan, device, nullptr, [&](eager::training_job& job) {
    for (int step = 0; step < steps && memory.fits(); ++step) {
      memory.reset();
      job.step();
    }
  });
  return memory.result();
}

}  // namespace gpuplan

#pragma once

// In which order a rank of a pipeline does the passes of a step. Private.

#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>

namespace gpuplan::eager {

enum class pass_kind : unsigned char { forward, backward, of_input, of_weights };

/// One pass of a micro-batch through one of a rank's chunks.
struct stage_pass {
  pass_kind what = pass_kind::forward;
  int chunk = 0;
  std::int64_t micro_batch = 0;  // of those that go through the chunk
  bool with_next = false;        // runs beside the pass that is next
};

/// The passes of a rank, in order: GPipe; 1F1B; that interleaved as Megatron-Core has it; ZB-H1 as
/// PyTorch's ScheduleInterleavedZeroBubble has it, ZB-V as its ScheduleZBVZeroBubble, DualPipe and
/// DualPipeV as deepseek-ai/DualPipe, whose two passes at once are one behind the other. PyTorch's
/// ScheduleInterleaved1F1B and ScheduleDualPipeV are the same. Preconditions: `validate` accepts
/// the layout, and its micro-batches.
class pass_order {
 public:
  constexpr pass_order(const parallelism& layout, std::int64_t stage, std::int64_t count) {
    const std::int64_t stages = layout.pipeline_parallel;
    switch (layout.schedule) {
      case pipeline_schedule::gpipe:
        for (const pass_kind what : {pass_kind::forward, pass_kind::backward})
          for (std::int64_t at = 0; at < count; ++at) passes_.push({what, 0, at});
        break;
      case pipeline_schedule::one_f_one_b:
        order_one_by_one(layout, stage, count, false);
        break;
      case pipeline_schedule::zero_bubble:
        order_one_by_one(layout, stage, count, true);
        break;
      case pipeline_schedule::zero_bubble_v:
        order_folded(stages, stage, count);
        break;
      case pipeline_schedule::dual_pipe:
        // From the middle on, ranks do as those before it do with their other stage.
        first_ = stage < stages / 2 ? 0 : 1;
        order_dual(stages / 2, stage < stages / 2 ? stage : stages - 1 - stage, count / 2);
        break;
      case pipeline_schedule::dual_pipe_v:
        order_dual(stages, stage, count);
        break;
    }
  }

  [[nodiscard]] constexpr int size() const { return passes_.size(); }
  [[nodiscard]] constexpr const stage_pass& operator[](int at) const { return passes_[at]; }

 private:
  constexpr void add(pass_kind what, int chunk) {
    const int kind = what == pass_kind::forward ? 0 : what == pass_kind::of_weights ? 2 : 1;
    passes_.push({what, chunk, done_[kind][chunk]++});
  }
  constexpr void forward(int phase) { add(pass_kind::forward, phase ^ first_); }
  constexpr void backward(int phase, bool defers) {
    const int chunk = phase ^ first_;
    add(defers ? pass_kind::of_input : pass_kind::backward, chunk);
    if (defers)
      waiting_.push(chunk);
    else
      ++done_[2][chunk];
  }
  constexpr void of_weights() { add(pass_kind::of_weights, waiting_[next_waiting_++]); }

  // Warm-up forwards, then one forward and one backward in turn, then the backwards that are left.
  // Interleaved, groups of as many micro-batches as there are stages go through one chunk after the
  // other, and backwards from the last one. Gradients of weights that wait follow as many backwards
  // later as there are stages before this one.
  constexpr void order_one_by_one(const parallelism& layout,
                                  std::int64_t stage,
                                  std::int64_t count,
                                  bool defers) {
    const std::int64_t stages = layout.pipeline_parallel;
    const std::int64_t chunks = layout.virtual_pipeline;
    const std::int64_t behind = stages - 1 - stage;
    const std::int64_t all = count * chunks;
    const std::int64_t ahead = (chunks == 1 || defers ? 1 : 2) * behind + (chunks - 1) * stages;
    const std::int64_t later = defers ? ahead + stage : ahead;
    const std::int64_t group = chunks == 1 ? 1 : stages;
    const auto nth = [&](pass_kind what, std::int64_t at) {
      const auto chunk = static_cast<int>(at / group % chunks);
      passes_.push({what,
                    what == pass_kind::forward ? chunk : static_cast<int>(chunks) - 1 - chunk,
                    at / (group * chunks) * group + at % group});
    };
    for (std::int64_t at = 0; at < all + later; ++at) {
      if (at < all) nth(pass_kind::forward, at);
      if (at >= ahead && at < all + ahead)
        nth(defers ? pass_kind::of_input : pass_kind::backward, at - ahead);
      if (defers && at >= later) nth(pass_kind::of_weights, at - later);
    }
  }
  // As if of one micro-batch fewer than twice the stages at least.
  constexpr void order_folded(std::int64_t stages, std::int64_t stage, std::int64_t count) {
    const auto defer = [&](int chunk) { backward(chunk, true); };
    const auto weights_of = [&](int chunk) { add(pass_kind::of_weights, chunk); };
    const auto both = [&](int chunk) {
      defer(chunk);
      weights_of(chunk);
    };
    for (std::int64_t at = 0; at < 2 * (stages - stage) - 1; ++at) forward(0);
    for (std::int64_t at = 0; at < stage; ++at) {
      forward(1);
      forward(0);
    }
    for (std::int64_t at = 0; at < stages - stage; ++at) {
      forward(1);
      both(1);
    }
    while (done_[0][1] < done_[0][0] || done_[0][0] < count) {
      if (done_[0][0] < count) forward(0);
      both(0);
      forward(1);
      both(1);
    }
    for (std::int64_t at = 0; at < stage; ++at) {
      defer(0);
      defer(1);
    }
    for (std::int64_t at = 0; at < stages - stage; ++at) both(0);
    for (const int chunk : {1, 0})
      while (done_[2][chunk] < done_[1][chunk]) weights_of(chunk);
  }
  constexpr void order_dual(std::int64_t ranks, std::int64_t rank, std::int64_t count) {
    const std::int64_t behind = ranks - 1 - rank;
    for (std::int64_t at = 0; at < 2 * behind; ++at) forward(0);
    for (std::int64_t at = 0; at <= rank; ++at) {
      forward(0);
      forward(1);
    }
    for (std::int64_t at = 0; at < behind; ++at) {
      backward(1, true);
      of_weights();
      forward(1);
    }
    const auto both = [&](int forwards) {
      forward(forwards);
      passes_.back().with_next = true;
      backward(1 - forwards, false);
    };
    for (std::int64_t at = 0; at < count - 2 * ranks + rank + 1; ++at) {
      both(0);
      if (at == 0 && behind == 0) passes_[passes_.size() - 2].with_next = false;
      both(1);
    }
    for (std::int64_t at = 0; at < behind; ++at) {
      backward(1, false);
      both(1);
    }
    // The second half of the last backwards defer.
    for (std::int64_t at = 0; at < 2 * (rank + 1); ++at) backward(at % 2 == 0 ? 1 : 0, at > rank);
    for (std::int64_t at = 0; at < behind; ++at) {
      of_weights();
      backward(0, true);
    }
    for (std::int64_t at = 0; at <= rank; ++at) of_weights();
  }

  growing_array<stage_pass> passes_{};
  growing_array<int> waiting_{};  // chunks, whose gradients of weights are to come
  int next_waiting_ = 0;
  std::int64_t done_[3][2]{};  // forwards, backwards, gradients of weights, of each chunk
  int first_ = 0;              // the chunk that begins
};

}  // namespace gpuplan::eager

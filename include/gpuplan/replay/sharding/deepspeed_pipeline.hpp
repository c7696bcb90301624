#pragma once

// DeepSpeed's pipeline engine: what the micro-batches of a stage hold on their way. Private.
// Transcribed from DeepSpeed's runtime/pipe/engine.py and runtime/pipe/schedule.py.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/codes/megatron.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// TrainSchedule: one forward, one backward, once the pipeline is full. Tensor-parallel ranks pass
/// a part each of what goes between stages, and keep no more of what they have passed on.
class deepspeed_pipeline {
 public:
  constexpr deepspeed_pipeline(tape& on, const training_setup& of, const batch_plan& with)
      : t_(on),
        count_(with.accumulation),
        ranks_(of.parallelism.tensor_parallel),
        stages_(of.parallelism.pipeline_parallel),
        stage_(of.place.stage) {}
  deepspeed_pipeline(const deepspeed_pipeline&) = delete;
  deepspeed_pipeline& operator=(const deepspeed_pipeline&) = delete;
  constexpr ~deepspeed_pipeline() { delete[] flights_; }

  constexpr void runs(megatron_gpt& code) { code_ = &code; }
  [[nodiscard]] constexpr bool is_on() const { return code_ != nullptr; }

  /// The micro-batches of a step, with what is called before and behind each backward.
  template <class Before, class Behind>
  constexpr void run(Before before, Behind behind) {
    delete[] flights_;
    flights_ = new flight[static_cast<unsigned long>(count_)];
    const std::int64_t ahead = at_most(stages_ - stage_ - 1, count_);
    for (std::int64_t at = 0; at < ahead; ++at) forward(flights_[at]);
    for (std::int64_t at = 0; at < count_; ++at) {
      if (at + ahead < count_) forward(flights_[at + ahead]);
      backward(flights_[at], before);
      behind();
    }
  }

 private:
  struct flight {
    tape::graph_place place{};
    value leaf{};    // the input, as the stage reads it
    value output{};  // whole, or no more than its place in the graph
    value part{};    // of an output, which the other ranks have the rest of
  };

  [[nodiscard]] constexpr bool is_first() const { return stage_ == 0; }
  [[nodiscard]] constexpr bool is_last() const { return stage_ == stages_ - 1; }
  [[nodiscard]] constexpr value whole() const { return t_.make(code_->passed(), code_->format()); }
  [[nodiscard]] constexpr value part() const {
    return t_.make(sizes{code_->passed().count() / ranks_}, code_->format());
  }
  // What came from a neighbour, put together.
  [[nodiscard]] constexpr value received() const {
    if (ranks_ == 1) return whole();
    const value own = part();
    return whole();
  }

  constexpr void forward(flight& one) {
    t_.begin(moment::forward);
    one.place = t_.begin_graph();
    ++live_;
    tensor input{};
    if (!is_first()) {
      const auto charged = t_.charge(purpose::buffers);
      const value came = received();
      one.leaf = t_.leaf(came);
      input = *one.leaf;
    }
    one.output = code_->forward_chunk(0, input, nullptr);
    if (is_last() || ranks_ == 1) return;
    one.part = part();
    value small = t_.make(sizes{1}, one.output->format);
    small.get().node = one.output->node;
    small.get().output = one.output->output;
    one.output = std::move(small);
  }

  template <class Before>
  constexpr void backward(flight& one, Before before) {
    t_.begin(moment::backward);
    if (is_last()) {
      before();
      // from the losses of the tokens: their mean is some numbers more
      const value gradient = t_.make(one.output->size, one.output->format);
      t_.follow(one.output, gradient, one.place.node);
    } else {
      value again;
      if (ranks_ > 1) again = whole();
      const value gradient = received();
      before();
      t_.follow(one.output, gradient, one.place.node);
    }
    value of_input;
    if (!is_first()) of_input = t_.gradient_of(one.leaf);
    if (--live_ == 0) t_.forget({});
    one.output = value();
    one.part = value();
    if (is_first()) return;
    if (ranks_ > 1) const value sent = part();
    one.leaf.drop();
    one.leaf = value();
  }

  tape& t_;
  std::int64_t count_;  // of micro-batches
  std::int64_t ranks_;  // tensor-parallel ones
  std::int64_t stages_;
  std::int64_t stage_;
  megatron_gpt* code_ = nullptr;
  flight* flights_ = nullptr;
  int live_ = 0;  // graphs
};

}  // namespace gpuplan::eager

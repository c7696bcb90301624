#pragma once

// PyTorch's pipelines of stages that fully_shard shares: what a stage's micro-batches hold on their
// way. Private. From torch/distributed/pipelining/schedules.py and stage.py of PyTorch 2.15.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// ScheduleGPipe and Schedule1F1B, of one stage of a rank. A stage's weights are gathered once and
/// stay whole for all micro-batches; their gradients are summed whole, and reduced behind the last
/// backward.
class torch_pipeline {
 public:
  constexpr torch_pipeline(tape& on,
                           model_code& code,
                           sharding& shards,
                           const training_setup& of,
                           const batch_plan& with)
      : t_(on),
        code_(code),
        shards_(shards),
        setup_(of),
        plan_(with),
        stages_(of.parallelism.pipeline_parallel),
        stage_(of.place.stage),
        flights_(new flight[static_cast<unsigned long>(with.accumulation)]) {}
  torch_pipeline(const torch_pipeline&) = delete;
  torch_pipeline& operator=(const torch_pipeline&) = delete;
  constexpr ~torch_pipeline() { delete[] flights_; }

  /// The micro-batches of a step. Their losses stay as long as this.
  constexpr void run() {
    if (setup_.parallelism.schedule == pipeline_schedule::gpipe)
      all_forwards_first();
    else
      one_by_one();
  }

 private:
  struct flight {
    tape::graph_place place{};
    int last_node = 0;
    value leaf{};     // what the stage before sent: where the loss is kept, so is its graph's
    value output{};   // until it is sent, of the last stage until the backward is done
    tensor behind{};  // its place in the graph, from which the backward begins
    value loss{};
  };

  [[nodiscard]] constexpr bool is_first() const { return stage_ == 0; }
  [[nodiscard]] constexpr bool is_last() const { return stage_ == stages_ - 1; }
  // Into a buffer that is there as long as whoever asked for it keeps it.
  [[nodiscard]] constexpr value receive() {
    const parallelism& layout = setup_.parallelism;
    const std::int64_t tokens =
        setup_.sequence_length / layout.context_parallel / layout.tensor_parallel;
    return t_.charge(purpose::buffers)
        ->make({plan_.micro_batch, tokens, setup_.model.hidden_size}, t_.gathering().whole_format);
  }
  // What a stage at the end neither sends nor gets.
  [[nodiscard]] constexpr value input_of_forward() {
    if (is_first()) return {};
    return receive();
  }
  [[nodiscard]] constexpr value input_of_backward() {
    if (is_last()) return {};
    return receive();
  }

  constexpr void forward(std::int64_t which, const tensor& received) {
    flight& one = flights_[which];
    t_.begin_micro_batch();
    shards_.forward_begins(false);
    const auto autocast = code_.autocast();
    t_.begin(moment::forward);
    one.place = t_.begin_graph();
    ++live_;
    value given;
    if (received.defined()) {
      one.leaf = t_.leaf(received);
      given = t_.share(*one.leaf);
    }
    shards_.before_unit(none, &given, 1);
    code_.given_input = given;
    one.output = code_.forward_stage(given);
    shards_.after_unit(none, one.output);
    one.behind = *one.output;
    one.last_node = t_.nodes_so_far();
  }
  // The last stage's, once what the one before has sent is gone.
  constexpr void lose(std::int64_t which) {
    if (!is_last()) return;
    flights_[which].loss = code_.outer_loss(flights_[which].output);
    flights_[which].last_node = t_.nodes_so_far();
  }
  constexpr void is_sent(std::int64_t which) {
    if (which >= 0 && !is_last()) flights_[which].output.drop();
  }

  // The gradient of what was received, where something was.
  constexpr value backward(std::int64_t which, const tensor& received) {
    flight& one = flights_[which];
    t_.begin(moment::backward);
    add_to_sums(one);
    if (is_last()) {
      const value root = t_.make(one.loss->size, one.loss->format, {"gradient of the loss"});
      t_.follow(one.loss, root, one.place.node);
    } else {
      t_.follow(one.behind, received, one.place.node);
    }
    value of_input;
    if (one.leaf->defined()) of_input = t_.gradient_of(one.leaf);
    shards_.pass_is_done();
    if (!is_last()) one.leaf.drop();
    one.output.drop();
    if (--live_ == 0) {
      t_.forget({});
      t_.regions.resize_down(0);
    }
    t_.begin(moment::forward);
    return of_input;
  }
  // The first gradient of a parameter is cast as it will be reduced. What comes later is added as
  // it is.
  constexpr void add_to_sums(const flight& one) {
    for (int at = one.place.node; at < one.last_node; ++at) {
      node& by = t_.nodes[at];
      if (by.kind == &node_kind::accumulate && by.parameter != none)
        by.takes_any_format = t_.parameters[by.parameter].whole_gradient.defined();
    }
  }

  constexpr void all_forwards_first() {
    value sent;  // as variables of Python hold it: until the next is there
    for (std::int64_t at = 0; at < plan_.accumulation; ++at) {
      const value received = input_of_forward();
      forward(at, received);
      lose(at);
    }
    for (std::int64_t at = 0; at < plan_.accumulation; ++at) is_sent(at);
    for (std::int64_t at = 0; at < plan_.accumulation; ++at) {
      const value received = input_of_backward();
      sent.drop();
      sent = backward(at, received);
    }
    shards_.reduce_all();
  }
  constexpr void one_by_one() {
    const std::int64_t count = plan_.accumulation;
    const std::int64_t ahead = at_most(stages_ - stage_, count);
    value activations;  // as variables of Python hold them: until the next are there
    value gradients;
    value sent;
    std::int64_t next = 0;
    const auto forward_next = [&] {
      value received = input_of_forward();
      activations = std::move(received);
      forward(next, activations);
    };
    for (; next < ahead; ++next) {
      forward_next();
      is_sent(next - 1);
      lose(next);
    }
    for (std::int64_t at = 0; at < count; ++at) {
      value received = input_of_backward();
      gradients = std::move(received);
      is_sent(next - 1);
      value of_input = backward(at, gradients);
      sent = std::move(of_input);
      if (next == count) continue;
      gradients.drop();
      forward_next();
      lose(next++);
    }
    shards_.reduce_all();
  }

  tape& t_;
  model_code& code_;
  sharding& shards_;
  const training_setup& setup_;
  const batch_plan& plan_;
  std::int64_t stages_;
  std::int64_t stage_;
  flight* flights_;
  int live_ = 0;  // graphs
};

}  // namespace gpuplan::eager

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

/// Micro-batches of a rank's chunks, as stage.py holds them.
class torch_micro_batches {
 public:
  constexpr torch_micro_batches(tape& on,
                                model_code& code,
                                sharding& shards,
                                const training_setup& of,
                                const batch_plan& with)
      : t_(on),
        code_(code),
        shards_(shards),
        setup_(of),
        plan_(with),
        own_(of),
        flights_(new flight[static_cast<unsigned long>(of.parallelism.virtual_pipeline *
                                                       with.accumulation)]) {}
  torch_micro_batches(const torch_micro_batches&) = delete;
  torch_micro_batches& operator=(const torch_micro_batches&) = delete;

 protected:
  constexpr ~torch_micro_batches() { delete[] flights_; }

  struct flight {
    tape::graph_place place{};
    int last_node = 0;
    value leaf{};     // what the stage before sent: where the loss is kept, so is its graph's
    value output{};   // until it is sent, of the last stage until the backward is done
    tensor behind{};  // its place in the graph, from which the backward begins
    value loss{};
    value given{};  // what has arrived for its forward, and for its backward
    value gradient{};
    // Where gradients of weights wait: the gradient of its input, and who makes theirs.
    value of_input{};
    growing_array<int> waiting{};
  };

  [[nodiscard]] constexpr flight& flight_of(int chunk, std::int64_t micro_batch) {
    return flights_[chunk * plan_.accumulation + micro_batch];
  }
  // Into a buffer that is there as long as whoever asked for it keeps it.
  [[nodiscard]] constexpr value receive() {
    const parallelism& layout = setup_.parallelism;
    const std::int64_t tokens =
        setup_.sequence_length / layout.context_parallel / layout.tensor_parallel;
    return t_.charge(purpose::buffers)
        ->make({plan_.micro_batch, tokens, setup_.model.hidden_size}, t_.gathering().whole_format);
  }

  constexpr void forward(flight& one, int chunk, const tensor& received) {
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
    one.output = code_.forward_stage(chunk, given);
    shards_.after_unit(none, one.output);
    one.behind = *one.output;
    one.last_node = t_.nodes_so_far();
  }
  // The last stage's, once what the one before has sent is gone.
  constexpr void lose(flight& one, int chunk) {
    if (!own_.is_last(chunk)) return;
    one.loss = code_.outer_loss(one.output);
    one.last_node = t_.nodes_so_far();
  }

  // From the loss, or from what was received.
  template <class Follow>
  constexpr void follow(flight& one, int chunk, const tensor& received, const Follow& along) {
    t_.begin(moment::backward);
    add_to_sums(one);
    if (own_.is_last(chunk)) {
      const value root = t_.make(one.loss->size, one.loss->format, {"gradient of the loss"});
      along(*one.loss, *root);
    } else {
      along(one.behind, received);
    }
  }
  // The gradient of what was received, where something was.
  constexpr value backward(flight& one, int chunk, const tensor& received) {
    follow(one, chunk, received, [&](const tensor& from, const tensor& gradient) {
      t_.follow(from, gradient, one.place.node);
    });
    value of_input;
    if (one.leaf->defined()) of_input = t_.gradient_of(one.leaf);
    shards_.pass_is_done();
    end(one, chunk);
    return of_input;
  }
  constexpr void end(flight& one, int chunk) {
    if (!own_.is_last(chunk)) one.leaf.drop();
    one.output.drop();
    if (--live_ == 0) {
      t_.forget({});
      t_.regions.resize_down(0);
    }
    t_.begin(moment::forward);
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

  tape& t_;
  model_code& code_;
  sharding& shards_;
  const training_setup& setup_;
  const batch_plan& plan_;
  chunks_of_rank own_;
  flight* flights_;  // by chunk and micro-batch
  int live_ = 0;     // graphs
};

/// ScheduleGPipe and Schedule1F1B, of one stage of a rank. A stage's weights are gathered once and
/// stay whole for all micro-batches; their gradients are summed whole, and reduced behind the last
/// backward.
class torch_pipeline final : public torch_micro_batches {
 public:
  using torch_micro_batches::torch_micro_batches;

  /// The micro-batches of a step. Their losses stay as long as this.
  constexpr void run() {
    if (setup_.parallelism.schedule == pipeline_schedule::gpipe)
      all_forwards_first();
    else
      one_by_one();
  }

 private:
  // What a stage at the end neither sends nor gets.
  [[nodiscard]] constexpr value input_of_forward() {
    if (own_.is_first(0)) return {};
    return receive();
  }
  [[nodiscard]] constexpr value input_of_backward() {
    if (own_.is_last(0)) return {};
    return receive();
  }
  constexpr void is_sent(std::int64_t which) {
    if (which >= 0 && !own_.is_last(0)) flights_[which].output.drop();
  }

  constexpr void all_forwards_first() {
    value sent;  // as variables of Python hold it: until the next is there
    for (std::int64_t at = 0; at < plan_.accumulation; ++at) {
      const value received = input_of_forward();
      forward(flights_[at], 0, received);
      lose(flights_[at], 0);
    }
    for (std::int64_t at = 0; at < plan_.accumulation; ++at) is_sent(at);
    for (std::int64_t at = 0; at < plan_.accumulation; ++at) {
      const value received = input_of_backward();
      sent.drop();
      sent = backward(flights_[at], 0, received);
    }
    shards_.reduce_chunk(0);
  }
  constexpr void one_by_one() {
    const std::int64_t count = plan_.accumulation;
    const std::int64_t behind = setup_.parallelism.pipeline_parallel - setup_.place.stage;
    const std::int64_t ahead = at_most(behind, count);
    value activations;  // as variables of Python hold them: until the next are there
    value gradients;
    value sent;
    std::int64_t next = 0;
    const auto forward_next = [&] {
      value received = input_of_forward();
      activations = std::move(received);
      forward(flights_[next], 0, activations);
    };
    for (; next < ahead; ++next) {
      forward_next();
      is_sent(next - 1);
      lose(flights_[next], 0);
    }
    for (std::int64_t at = 0; at < count; ++at) {
      value received = input_of_backward();
      gradients = std::move(received);
      is_sent(next - 1);
      value of_input = backward(flights_[at], 0, gradients);
      sent = std::move(of_input);
      if (next == count) continue;
      gradients.drop();
      forward_next();
      lose(flights_[next++], 0);
    }
    shards_.reduce_chunk(0);
  }
};

}  // namespace gpuplan::eager

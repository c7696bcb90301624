#pragma once

// PyTorch's pipelines of several stages of a rank, or whose gradients of weights wait, beside
// fully_shard. Private. From torch/distributed/pipelining/schedules.py, stage.py and _backward.py
// of PyTorch 2.15.

#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/torch_actions.hpp>
#include <gpuplan/replay/sharding/torch_pipeline.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble and
/// ScheduleDualPipeV. All of a chunk's weights are gathered before it runs, and stay whole until
/// its gradients, summed whole, are reduced behind its last backward. What a pass gives stays until
/// the backward of its micro-batch; what a backward sends, until all are done.
class torch_chunks final : public torch_micro_batches {
 public:
  using torch_micro_batches::torch_micro_batches;

  /// The micro-batches of a step. Their losses stay as long as this.
  constexpr void run() {
    const stage_actions actions(setup_.parallelism, setup_.place.stage, plan_.accumulation);
    for (int at = 0; at < actions.size(); ++at) {
      const stage_pass& pass = actions[at].pass;
      switch (actions[at].what) {
        case stage_action_kind::gather:
          shards_.gather_chunk(pass.chunk);
          break;
        case stage_action_kind::free:
          shards_.free_chunk(pass.chunk);
          break;
        case stage_action_kind::reduce:
          shards_.reduce_chunk(pass.chunk);
          break;
        case stage_action_kind::receive:
          arrival_of(pass) = receive();
          break;
        case stage_action_kind::pass:
          shards_.run_chunk(pass.chunk);
          run(pass);
          break;
        case stage_action_kind::wait:
          break;
      }
    }
    for (int at = 0; at < sent_.size(); ++at) t_.release(sent_[at].storage);
  }

 private:
  // What the pass of a micro-batch reads.
  [[nodiscard]] constexpr value& arrival_of(const stage_pass& pass) {
    flight& one = flight_of(pass.chunk, pass.micro_batch);
    return pass.what == pass_kind::forward ? one.given : one.gradient;
  }
  // The rank's chunk at this place among all, or none.
  [[nodiscard]] constexpr int chunk_at(std::int64_t place) const {
    for (int chunk = 0; chunk < setup_.parallelism.virtual_pipeline; ++chunk)
      if (own_.place_of(chunk) == place) return chunk;
    return none;
  }

  constexpr void run(const stage_pass& pass) {
    flight& one = flight_of(pass.chunk, pass.micro_batch);
    const int chunk = pass.chunk;
    // The first stage does both backwards at once, where those of weights are.
    const bool begins = own_.is_first(chunk);
    switch (pass.what) {
      case pass_kind::forward: {
        const value received = std::move(one.given);
        forward(one, chunk, received);
        lose(one, chunk);
        const int next = chunk_at(own_.place_of(chunk) + 1);
        if (next != none) flight_of(next, pass.micro_batch).given = without_graph(one.output);
        break;
      }
      case pass_kind::backward: {
        const value received = std::move(one.gradient);
        hand_back(backward(one, chunk, received), pass);
        break;
      }
      case pass_kind::of_input:
        if (!begins) hand_back(of_input(one, chunk), pass);
        break;
      case pass_kind::of_weights:
        if (begins) {
          const value received = std::move(one.gradient);
          const value nothing = backward(one, chunk, received);
        } else {
          of_weights(one, chunk);
        }
        break;
    }
  }
  [[nodiscard]] constexpr value without_graph(const tensor& of) {
    tensor seen = of;
    seen.node = none;
    t_.hold(seen.storage);
    return {t_, seen};
  }
  constexpr void hand_back(value gradient, const stage_pass& pass) {
    if (own_.is_first(pass.chunk)) return;
    const int before = chunk_at(own_.place_of(pass.chunk) - 1);
    if (before != none)
      flight_of(before, pass.micro_batch).gradient = std::move(gradient);
    else
      sent_.push(gradient.take());
  }

  // stage_backward_input: the graph stays, from the operators on that parameters go into.
  [[nodiscard]] constexpr value of_input(flight& one, int chunk) {
    follow(one, chunk, one.gradient, [&](const tensor& from, const tensor& gradient) {
      t_.follow_to(one.leaf, from, gradient, one.place.node);
    });
    one.of_input = t_.gradient_of(one.leaf);
    shards_.pass_is_done();
    note_waiting(one, chunk);
    const waiting_nodes nodes(t_, one);
    nodes.drop(waiting_nodes::of_none);
    if (own_.is_last(chunk)) one.output.drop();
    t_.begin(moment::forward);
    return t_.share(one.of_input);
  }
  // Operators that left out a parameter, in the order of parameters.
  constexpr void note_waiting(flight& one, int chunk) {
    const growing_array<chunk_begin>& chunks = code_.held_chunks;
    const int first = chunks[chunk].parameter;
    const int last = chunk + 1 < chunks.size() ? chunks[chunk + 1].parameter : t_.parameters.size();
    growing_array<int> of_parameter;
    for (int at = first; at < last; ++at) of_parameter.push(none);
    for (int at = one.place.node; at < one.last_node; ++at)
      if (t_.nodes[at].left_out != 0)
        of_parameter[t_.nodes[t_.accumulate_left_out(at)].parameter - first] = at;
    for (int at = 0; at < of_parameter.size(); ++at)
      if (of_parameter[at] != none) one.waiting.push(of_parameter[at]);
  }
  // Nodes of a graph by the last of the operators in `waiting` that leads to them.
  class waiting_nodes {
   public:
    static constexpr int of_none = 0;

    constexpr waiting_nodes(tape& on, const flight& one) : t_(on) {
      const int first = one.place.node;
      for (int at = first; at < one.last_node; ++at) {
        next_.push(none);
        last_.push(of_none);
      }
      for (int which = 0; which <= one.waiting.size(); ++which) begin_.push(none);
      for (int which = 0; which < one.waiting.size(); ++which)
        last_[one.waiting[which] - first] = which + 1;
      for (int at = one.last_node; at-- > first;) {
        const int by = last_[at - first];
        const node& from = t_.nodes[at];
        for (int which = 0; which < from.inputs; ++which)
          if (from.leads_back(which) && last_[from.input[which].node - first] < by)
            last_[from.input[which].node - first] = by;
        next_[at - first] = begin_[by];
        begin_[by] = at;
      }
      first_ = first;
    }
    // Lets go of what the nodes keep that none later leads to. Operators are counted from 1.
    constexpr void drop(int operators) const {
      for (int at = begin_[operators]; at != none; at = next_[at - first_])
        t_.drop_nodes(at, at + 1);
    }

   private:
    tape& t_;
    int first_ = 0;
    growing_array<int> last_{};
    growing_array<int> next_{};
    growing_array<int> begin_{};
  };

  // stage_backward_weight: parameter by parameter. Variables of Python hold the last one's gradient
  // until the next is there.
  constexpr void of_weights(flight& one, int chunk) {
    t_.begin(moment::backward);
    const waiting_nodes nodes(t_, one);
    value made;
    for (int which = 0; which < one.waiting.size(); ++which) {
      const int by = one.waiting[which];
      const value of_result = t_.share(t_.nodes[by].gradient[0]);
      node& leaf = t_.nodes[t_.accumulate_left_out(by)];
      leaf.format[0] = t_.gathering().first_gradients;
      leaf.takes_any_format = false;
      value next = t_.gradient_left_out(by);
      made = std::move(next);
      add(leaf.parameter, made);
      nodes.drop(which + 1);
    }
    made.drop();
    one.waiting.resize_down(0);
    one.gradient.drop();
    one.of_input.drop();
    one.leaf.drop();
    end(one, chunk);
  }
  constexpr void add(int parameter, const tensor& gradient) {
    tensor& sum = t_.parameters[parameter].whole_gradient;
    if (sum.defined()) {
      t_.executes({&sum, &gradient, &sum});
      return;
    }
    sum = gradient;
    t_.hold(sum.storage);
    t_.mark(sum.storage, purpose::gradients);
    t_.name(sum.storage, {"gradient", parameter, nullptr, &sum});
  }

  growing_array<tensor> sent_{};  // gradients
};

}  // namespace gpuplan::eager

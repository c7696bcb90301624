#pragma once

// What Megatron-Core computes again (tensor_parallel.checkpoint). Private.

#include <gpuplan/replay/codes/megatron/engine.hpp>

#include <cstdint>

namespace gpuplan::eager {

class megatron_checkpoints : public megatron_engine {
 public:
  constexpr megatron_checkpoints(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_engine(on, of, with) {
    checkpoint_backward_.code = this;
    making_again_backward_.code = this;
  }
  constexpr ~megatron_checkpoints() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  static constexpr int core_region = -1;

  /// The layers from `first` up to `last`, or the attention core.
  constexpr virtual value run_region(const tensor* inputs, int count, int first, int last) = 0;

  // That region, without a graph.
  constexpr value checkpoint(const tensor* inputs, int count, int first, int last) {
    const int by = count == 4 ? t.add_node(checkpoint_backward_, {inputs, inputs + 1, inputs + 2})
                              : t.add_node(checkpoint_backward_, {inputs});
    t.note(by, {first, last});
    value result;
    {
      const auto unrecorded = t.without_graph();
      const tape::graph_place place{t.nodes.size(), t.kept.size()};
      result = run_region(inputs, count, first, last);
      t.discard(place);
    }
    if (shares_inputs() && first != core_region)
      t.replace_block(inputs[0].storage, inputs[0].bytes() / tp_);
    for (int at = 0; at < count; ++at)
      if (inputs[at].defined()) keep_of(by, inputs[at]);
    result.get().node = none;
    t.result_of(by, result.get());
    return result;
  }
  constexpr void keep_of(int index, const tensor& of) {
    if (index == none) return;
    tensor entry = of;
    entry.node = none;
    t.hold(entry.storage);
    t.mark_kept(entry.storage);
    t.kept.push(entry);
    ++t.nodes[index].kept;
  }
  [[nodiscard]] constexpr bool shares_inputs() const {
    return setup.parallelism.shares_kept_inputs && tp_ > 1;
  }

  // -- parts that are computed again alone (CheckpointWithoutOutput)

  [[nodiscard]] constexpr bool recomputes(bool recomputed_modules::*part) const {
    return setup.recompute == recompute_mode::selective && setup.modules.*part;
  }
  /// Drops what was made of a part until the backward comes to `result`, which reads it: but for
  /// the result itself.
  constexpr value drop_until_backward(const growing_array<int>& made, const tensor& result) {
    const int first = dropped_.size();
    for (int at = 0; at < made.size(); ++at) {
      const int one = made[at];
      const bool is_there = t.storages[one].holders > 0 && t.has_memory(one);
      if (!is_there || one == result.storage || !is_of_step(one)) continue;
      t.give_back(one);
      t.hold(one);
      dropped_.push(one);
    }
    const int by = t.add_node(making_again_backward_, {&result});
    t.note(by, {first, dropped_.size()});
    tensor seen = result;
    t.result_of(by, seen);
    t.hold(seen.storage);
    return {t, seen};
  }

  static constexpr void list_once(growing_array<int>& all, int storage) {
    for (int at = 0; at < all.size(); ++at)
      if (all[at] == storage) return;
    all.push(storage);
  }
  /// Attention's output through its linear layer.
  constexpr value project_out(const tensor& context, const nn_module& by) {
    if (!setup.offloads.attention_output) return row_linear(context, by);
    growing_array<int> read;
    const value made = row_linear(context, by, true);
    read.push(context.storage);
    return drop_until_backward(read, made);
  }

  struct checkpoint_backward final : own_backward {
    megatron_checkpoints* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      code->run_again(index, *incoming[0], out);
      static_cast<void>(on);
    }
  };
  constexpr void run_again(int index, const tensor& gradient, gradients& out) {
    const node& by = t.nodes[index];
    const auto first = static_cast<int>(by.argument[0]);
    const auto last = static_cast<int>(by.argument[1]);
    const bool is_core = first == core_region;
    tensor inputs[4]{};
    int next = 0;
    // what was kept, in the order of the inputs: those that are there
    tensor kept[4]{};
    for (int at = 0; at < by.kept; ++at) kept[at] = t.kept[by.first_kept + at];
    const int differentiable = is_core ? 3 : 1;
    for (int at = 0; at < differentiable; ++at) inputs[at] = kept[next++];
    if (is_core) {
      if (setup.padding_mask) inputs[3] = kept[next++];
    } else {
      if (setup.padding_mask) inputs[1] = kept[next++];
      if (shares_angles()) inputs[2] = kept[next++];
    }
    value whole;
    if (shares_inputs() && !is_core) {
      whole = t.make(inputs[0].size, inputs[0].format);
      inputs[0].storage = whole->storage;
    }
    const tape::graph_place place = t.begin_graph();
    value leaves[3];
    for (int at = 0; at < differentiable; ++at) {
      leaves[at] = t.leaf(inputs[at]);
      inputs[at] = *leaves[at];
    }
    {
      const auto recorded = t.with_graph();
      const value result = run_region(inputs, is_core ? 4 : 3, first, last);
      t.follow(result, gradient, place.node);
    }
    for (int at = 0; at < differentiable; ++at) {
      if (t.nodes[leaves[at]->node].gradient[0].defined()) out.of[at] = t.gradient_of(leaves[at]);
      leaves[at].get().node = none;
    }
    t.forget(place);
  }

 private:
  [[nodiscard]] constexpr bool is_of_step(int storage) const {
    const purpose what = t.storages[storage].what;
    return what == purpose::working || what == purpose::kept;
  }
  struct making_again_backward final : own_backward {
    megatron_checkpoints* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const node& by = on.nodes[index];
      for (auto at = static_cast<int>(by.argument[0]); at < static_cast<int>(by.argument[1]);
           ++at) {
        const int one = code->dropped_[at];
        if (on.storages[one].holders > 1) on.take_again(one);
        on.release(one);
      }
      out.of[0] = on.share(*incoming[0]);
    }
  };

  growing_array<int> dropped_{};
  making_again_backward making_again_backward_{};
  checkpoint_backward checkpoint_backward_{};
};

}  // namespace gpuplan::eager

#pragma once

// Megatron-Core's mixture of experts: a router, tokens exchanged among the ranks that share the
// experts, grouped products by Transformer Engine, and shared experts. Each expert takes its
// capacity, `expert_capacity` times an equal share of the tokens, which inputs are padded to.
// Private.

#include <gpuplan/replay/codes/megatron/mlp.hpp>
#include <gpuplan/training_setup/dispatch.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_experts : public megatron_mlp {
 public:
  constexpr megatron_experts(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_mlp(on, of, with),
        ranks_(setup.parallelism.expert_parallel),
        parts_(setup.parallelism.expert_tensor_parallel),
        experts_(model.moe.num_experts),
        chosen_(model.moe.num_experts_per_tok) {
    grouped_backward_.code = this;
  }
  constexpr ~megatron_experts() override {}  // NOLINT(modernize-use-equals-default)

  /// Whether the parameter is an expert's that not all ranks have.
  [[nodiscard]] constexpr bool is_of_expert(int parameter) const {
    for (int at = 0; at < blocks_.size(); ++at)
      if (parameter >= blocks_[at].first && parameter < blocks_[at].end) return true;
    return false;
  }
  [[nodiscard]] constexpr bool has_mixture() const { return experts_ != 0; }

 protected:
  struct expert_modules {
    nn_module norm{}, router{};
    nn_module narrow{}, widen{};  // to latent experts and back
    int up = none;                // the first of the local experts' weights
    int down = none;
    int up_bias = none;
    int down_bias = none;
    mlp_modules shared{};
    nn_module shared_gate{};
    int dispatcher = none;
  };

  constexpr expert_modules make_experts() {
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = model.moe.moe_intermediate_size / parts_;
    const std::int64_t shared = model.moe.shared_expert_intermediate_size;
    expert_modules made;
    made.norm = norm_of(width);
    list(made.norm);
    made.router.weight = on_host({experts_, width}, half_);
    if (model.moe.router_bias) made.router.bias = on_host(sizes{experts_}, half_);
    if (splits_) of_parts_.push(made.router.weight);
    list(made.router);
    const std::int64_t latent = model.moe.moe_latent_size;
    if (latent != 0) {
      made.narrow = parallel_linear(latent, width, false);
      made.widen = parallel_linear(width, latent, false);
      list(made.narrow);
      list(made.widen);
    }
    const std::int64_t outside = latent != 0 ? latent : width;
    const std::int64_t gates = model.gated_mlp ? 2 : 1;
    dispatcher_state state;
    const std::int64_t local = experts_ / ranks_;
    {
      const value order = t.make(sizes{experts_ * parts_}, element::int64);
      const bool differs = ranks_ * parts_ > 1 && local > 1;
      for (tensor* one : {&state.sorted, &state.restored}) {
        if (differs)
          *one = t.make(order->size, element::int64).take();
        else
          *one = t.share(order).take();
      }
    }
    made.dispatcher = dispatchers_.push(state);
    made.up = t.parameters.size();
    const auto add = [&](const sizes& size) {
      for (std::int64_t at = 0; at < local; ++at) {
        order_.push(on_device(size));
        if (size.rank == 2) may_be_quantised(order_[order_.size() - 1]);
      }
    };
    const auto add_biases = [&](std::int64_t of, int& first) {
      if (!model.mlp_bias) return;
      first = t.parameters.size();
      add(sizes{of});
    };
    add({gates * inner, outside});
    add_biases(gates * inner, made.up_bias);
    made.down = t.parameters.size();
    add({outside, inner});
    add_biases(outside, made.down_bias);
    if (ranks_ > 1) blocks_.push({made.up, t.parameters.size()});
    if (shared != 0) {
      made.shared.fc1 = parallel_linear(gates * shared / tp_, width, false);
      made.shared.fc2 = parallel_linear(width, shared / tp_, false);
      list(made.shared.fc1);
      list(made.shared.fc2);
    }
    if (model.moe.shared_expert_gate) {
      made.shared_gate.weight = on_device({1, width});
      if (splits_) of_parts_.push(made.shared_gate.weight);
      list(made.shared_gate);
    }
    return made;
  }

  // Rows of an expert, of one rank's tokens.
  [[nodiscard]] constexpr std::int64_t capacity_for(std::int64_t tokens) const {
    if (setup.expert_capacity == 1) return gpuplan::detail::ceil_div(tokens * chosen_, experts_);
    const double rows = static_cast<double>(tokens * chosen_) / static_cast<double>(experts_) *
                        setup.expert_capacity;
    const auto whole = static_cast<std::int64_t>(rows);
    return whole + (static_cast<double>(whole) < rows ? 1 : 0);
  }

  constexpr value mixture(const tensor& x, const expert_modules& by) {
    const std::int64_t tokens = x.size[0] * x.size[1];
    const bool is_latent = by.narrow.weight != none;
    const std::int64_t width = is_latent ? model.moe.moe_latent_size : x.size[2];
    const std::int64_t capacity = capacity_for(tokens);
    const std::int64_t rows = experts_ * capacity;  // sent, and as many received
    const std::int64_t local = experts_ / ranks_;
    const std::int64_t senders = ranks_ * parts_;  // to this rank's experts
    const std::int64_t gathered = rows * parts_;
    value shared;
    if (by.shared.fc1.weight != none) {
      growing_array<int> made;
      {
        const auto listed = t.list_made(made, recomputes(&recomputed_modules::shared_experts));
        shared = mlp(x, by.shared);
        if (by.shared_gate.weight != none) shared = gated_by_token(shared, x, by.shared_gate);
      }
      if (made.size() != 0) shared = drop_until_backward(made, shared);
    }
    dispatcher_state& kept = dispatchers_[by.dispatcher];
    const bool has_kernels = ranks_ > 1 && setup.dispatcher != token_dispatcher::all_to_all;
    {
      value probabilities, map;
      route(gate(x, by.router), tokens, capacity, probabilities, map);
      replace(kept.probabilities, std::move(probabilities));
      replace(kept.map, std::move(map));
    }
    replace(kept.counts, t.make(sizes{experts_ * parts_}, element::int64));
    const auto turned = [&](argument given, const sizes& apart, const sizes& wanted) {
      return view(t, contiguous(t, transpose(t, view(t, given, apart), 0, 1)), wanted);
    };
    const auto narrowed = [&] {
      value narrow = t.share(x);
      if (is_latent) narrow = engine_matmul(x, {}, by.narrow, false, {});
      return view(t, narrow, {tokens, width});
    };
    value permuted, permuted_weights, received, out, result;
    if (has_kernels) {
      dispatched sent = dispatch(narrowed(), kept, rows);
      out = through_experts(sent.rows, sent.weights, by);
      sent.rows.drop();
      sent.weights.drop();
      result = combine(out, sent, kept);
    } else {
      permute(narrowed(), kept, rows, permuted, permuted_weights);
      received = all_to_all(permuted);
      permuted_weights = all_to_all(permuted_weights);
      {
        value by_expert = gather_parts(received);
        value weights = gather_parts(permuted_weights);
        by_expert = turned(by_expert, {senders, local, capacity, width}, {gathered, width});
        weights = turned(weights, {senders, local, capacity}, sizes{gathered});
        out = through_experts(by_expert, weights, by);
      }
      {
        const value by_rank = turned(out, {local, senders, capacity, width}, {gathered, width});
        out = scatter_parts(by_rank);
      }
      out = all_to_all(out);
      result = unpermute(out, kept.places, {tokens, width});
    }
    result = view(t, result, {x.size[0], x.size[1], width});
    if (is_latent) result = engine_matmul(result, {}, by.widen, false, {});
    if (shared->defined()) result = add(t, result, shared);
    return result;
  }

 private:
  // What a layer's dispatcher holds until its next micro-batch.
  struct dispatcher_state {
    tensor sorted{}, restored{};
    tensor probabilities{}, map{}, counts{}, places{};
  };

  // -- DeepEP and HybridEP, as Megatron-Core's _DeepepManager and _HybridEPManager call them

  // Rows of this rank's experts, what weighs them, and what says where they came from.
  struct dispatched {
    value rows{}, weights{};
    value places[4]{};
    std::int64_t tokens = 0;   // of this rank
    std::int64_t arrived = 0;  // of all ranks, each once
  };

  constexpr dispatched dispatch(argument given, dispatcher_state& kept, std::int64_t rows) {
    const held tokens(given);
    dispatched sent;
    sent.tokens = tokens.size[0];
    const double most = static_cast<double>(sent.tokens * ranks_);
    const double reached = gpuplan::detail::groups_reached(model.moe, ranks_) *
                           static_cast<double>(sent.tokens) * setup.expert_capacity;
    sent.arrived = static_cast<std::int64_t>(reached < most ? reached : most);
    if (sent.arrived < 1) sent.arrived = 1;
    if (setup.dispatcher == token_dispatcher::deepep)
      send_by_deepep(tokens, kept, rows, sent);
    else
      send_by_hybridep(tokens, kept, rows, sent);
    return sent;
  }
  // setup_metadata, dispatch, get_permuted_hidden_states_by_experts
  constexpr void send_by_deepep(const tensor& tokens,
                                dispatcher_state& kept,
                                std::int64_t rows,
                                dispatched& sent) {
    const std::int64_t nodes = gpuplan::detail::nodes_of_experts(ranks_);
    const std::int64_t local = experts_ / ranks_;
    const sizes of_arrived{sent.arrived, chosen_};
    value weights = t.make({sent.tokens, chosen_}, half_);  // topk
    value indices = t.make(weights->size, element::int64);
    const int largest = t.add_node(whole_backward_, {&kept.probabilities});
    t.note(largest, {experts_});
    t.keep(largest, indices);
    t.result_of(largest, weights.get());
    weights = cast(t, weights, element::fp32);
    const int by = t.add_node(dispatch_backward_, {&tokens, &*weights});
    t.note(by, {sent.tokens, tokens.size[1], chosen_});
    sent.places[0] = t.make({sent.tokens, ranks_}, element::boolean);  // is_token_in_rank
    value received = t.make({sent.arrived, tokens.size[1]}, half_);
    // recv_src_idx, or recv_src_meta
    sent.places[1] = t.make({sent.arrived, nodes > 1 ? 2 : 1}, element::int32);
    value received_indices = t.make(of_arrived, element::int64);
    value received_weights = t.make(of_arrived, element::fp32);
    // send_head, or send_rdma_head and send_nvl_head of what has come to the node
    sent.places[2] = t.make({sent.tokens, nodes > 1 ? nodes : ranks_}, element::int32);
    if (nodes > 1) {
      const double forwarded = gpuplan::detail::groups_reached(model.moe, nodes);
      sent.places[3] =
          t.make({static_cast<std::int64_t>(forwarded * static_cast<double>(sent.tokens)),
                  gpuplan::detail::nvlink_peers},
                 element::int32);
    }
    keep_places(by, sent);
    t.result_of(by, received.get(), 0);
    t.result_of(by, received_weights.get(), 1);
    indices.drop();
    weights.drop();
    value map = t.make({sent.arrived, local}, element::int64);  // _indices_to_multihot
    value probabilities = t.make({sent.arrived, local}, element::fp32);
    const int spread = t.add_node(whole_backward_, {&*received_weights});
    t.note(spread, {chosen_});
    t.keep(spread, received_indices);
    t.result_of(spread, probabilities.get());
    map = t.make({sent.arrived, local}, element::boolean);
    replace(kept.map, std::move(map));
    replace(kept.probabilities, std::move(probabilities));
    received_indices.drop();
    received_weights.drop();
    permute(std::move(received), kept, rows, sent.rows, sent.weights);
  }
  // dispatch_with_permute
  constexpr void send_by_hybridep(const tensor& tokens,
                                  dispatcher_state& kept,
                                  std::int64_t rows,
                                  dispatched& sent) {
    const std::int64_t nodes = gpuplan::detail::nodes_of_experts(ranks_);
    const std::int64_t local = experts_ / ranks_;
    {
      value probabilities = cast(t, kept.probabilities, element::fp32);
      replace(kept.probabilities, std::move(probabilities));
    }
    const int by = t.add_node(dispatch_backward_, {&tokens, &kept.probabilities});
    kept.probabilities.node = none;
    t.note(by, {sent.tokens, tokens.size[1], experts_});
    const std::int64_t of_all = sent.tokens * ranks_;
    t.touch(of_all * experts_);  // everybody's map
    sent.places[0] = t.make({sent.tokens * nodes, ranks_ / nodes}, element::int32);
    sent.places[1] = t.make({sent.tokens, 2 * nodes - 1}, element::boolean);
    sent.places[2] = t.make({of_all, local}, element::boolean);
    sent.places[3] = t.make({sent.arrived, local}, element::int32);  // row_id_map
    sent.rows = t.make({rows, tokens.size[1]}, half_);
    sent.weights = t.make(sizes{rows}, element::fp32);
    keep_places(by, sent);
    t.result_of(by, sent.rows.get(), 0);
    t.result_of(by, sent.weights.get(), 1);
  }
  constexpr void keep_places(int by, const dispatched& sent) {
    for (const value& each : sent.places)
      if (each->defined()) t.keep(by, each);
  }
  // unpermute, of DeepEP, and the sum of what a token's experts made of it
  constexpr value combine(const tensor& out, const dispatched& sent, const dispatcher_state& kept) {
    const std::int64_t width = out.size[1];
    const bool is_sorted = setup.dispatcher == token_dispatcher::hybridep;
    value restored = t.share(out);
    if (!is_sorted) restored = unpermute(out, kept.places, {sent.arrived, width});
    const int by = t.add_node(combine_backward_, {&*restored});
    t.note(by, {restored->size[0], width});
    keep_places(by, sent);
    value result = t.make({sent.tokens, width}, half_);
    t.result_of(by, result.get());
    return result;
  }
  struct dispatch_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const auto noted = [&](int at) { return on.nodes[index].argument[at]; };
      out.of[0] = on.make({noted(0), noted(1)}, incoming[0]->format);
      out.of[1] = on.make({noted(0), noted(2)}, element::fp32);
    }
  };
  struct combine_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const auto noted = [&](int at) { return on.nodes[index].argument[at]; };
      out.of[0] = on.make({noted(0), noted(1)}, incoming[0]->format);
    }
  };

  constexpr value through_experts(const tensor& by_expert,
                                  const tensor& weights,
                                  const expert_modules& by) {
    const std::int64_t local = experts_ / ranks_;
    value out;
    {
      value up = grouped_gemm(by_expert, by.up, local, setup.offloads.expert_input, by.up_bias);
      if (setup.offloads.expert_input) {
        growing_array<int> read;
        read.push(by_expert.storage);
        up = drop_until_backward(read, up);
      }
      if (recomputes(&recomputed_modules::expert_activation)) {
        growing_array<int> made;
        value activated;
        {
          const auto listed = t.list_made(made, true);
          activated = weighted_gate(up, weights);
        }
        out = grouped_gemm(activated, by.down, local, true, by.down_bias);
        out = drop_until_backward(made, out);
      } else {
        const value activated = weighted_gate(up, weights);
        out = grouped_gemm(activated, by.down, local, false, by.down_bias);
      }
    }
    return out;
  }

  struct parameter_block {
    int first = 0;
    int end = 0;
  };

  constexpr void replace(tensor& variable, value by) {
    const int old = variable.storage;
    t.hold(by->storage);
    variable = *by;
    t.release(old);
  }

  // -- the router

  constexpr value gate(const tensor& x, const nn_module& by) {
    const tensor weight = t.parameter(by.weight);
    const int index = t.add_node(gate_backward_, {&x, &weight});
    t.keep(index, x);
    t.keep(index, weight);
    value logits = t.make({x.size[0], x.size[1], experts_}, half_);
    t.touch_workspace();
    t.result_of(index, logits.get());
    return logits;
  }
  struct gate_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor x = on.kept_by(index, 0);
      const tensor weight = on.kept_by(index, 1);
      out.of[0] = on.make(x.size, incoming[0]->format);
      on.touch_workspace();
      out.of[1] = on.make(weight.size, incoming[0]->format);
      on.touch_workspace();
    }
  };

  // A softmax of the largest logits, scattered; the experts' capacity over that.
  constexpr void route(argument given,
                       std::int64_t tokens,
                       std::int64_t capacity,
                       value& probabilities,
                       value& map) {
    const sizes all{tokens, experts_};
    const sizes few{tokens, chosen_};
    const held of_tokens(given);
    const value logits = view(t, of_tokens, all);
    value routed;
    value chosen_map;
    {
      value largest = t.make(few, half_);
      const value indices = t.make(few, element::int64);
      const int index = t.add_node(whole_backward_, {&*logits});
      t.note(index, {experts_});
      t.keep(index, indices);
      t.result_of(index, largest.get());
      const value weights =
          cast(t, softmax(t, cast(t, largest, element::fp32), element::fp32), half_);
      {
        const int scattered = t.add_node(whole_backward_, {&*weights});
        t.note(scattered, {chosen_});
        t.keep(scattered, indices);
        const value zeros = t.make(all, half_);
        routed = t.make(all, half_);
        t.result_of(scattered, routed.get());
      }
      chosen_map = scattered_map(all, true);
    }
    const value largest = t.make({capacity, experts_}, half_);
    const value indices = t.make({capacity, experts_}, element::int64);
    map = scattered_map(all, false);
    probabilities = multiply(t, routed, map);
  }
  // zeros_like, [int,] scatter, bool
  constexpr value scattered_map(const sizes& all, bool as_integers) {
    value scattered = t.make(all, half_);
    if (as_integers) {
      value integers = t.make(all, element::fp32);
      scattered = std::move(integers);
    }
    value filled = t.make(all, as_integers ? element::fp32 : half_);
    scattered.drop();
    return t.make(all, element::boolean);
  }
  // The gradient for a row of other length.
  struct whole_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      sizes wanted = incoming[0]->size;
      wanted[1] = on.nodes[index].argument[0];
      out.of[0] = on.make(wanted, incoming[0]->format);
    }
  };

  // -- tokens by experts

  constexpr void permute(
      argument given, dispatcher_state& kept, std::int64_t rows, value& permuted, value& weights) {
    const held tokens(given);
    const std::int64_t count = tokens.size[0];
    const int index = t.add_node(permute_backward_, {&tokens, &kept.probabilities});
    const std::int64_t experts = kept.probabilities.size[1];
    value places = t.make({count, 2 * experts + 1}, element::fp32);  // int32
    t.touch(4 * experts * gpuplan::detail::ceil_div(count, 1024));
    permuted = t.make({rows, tokens.size[1]}, half_);
    weights = t.make(sizes{rows}, kept.probabilities.format);
    t.keep(index, places);
    t.result_of(index, permuted.get(), 0);
    t.result_of(index, weights.get(), 1);
    t.note(index, {count});
    replace(kept.places, std::move(places));
    kept.probabilities.node = none;
  }
  struct permute_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor places = on.kept_by(index, 0);
      const std::int64_t tokens = on.nodes[index].argument[0];
      const value zeros = on.make(places.size, places.format);
      out.of[0] = on.make({tokens, incoming[0]->size[1]}, incoming[0]->format);
      const element of_weights = incoming[incoming[1]->defined() ? 1 : 0]->format;
      out.of[1] = on.make({tokens, (places.size[1] - 1) / 2}, of_weights);
    }
  };
  constexpr value unpermute(const tensor& x, const tensor& places, const sizes& wanted) {
    const int index = t.add_node(same_rows_backward_, {&x});
    if (node* made = t.at(index)) made->size[1] = x.size;
    t.keep(index, places);
    value result = t.make(wanted, half_);
    t.result_of(index, result.get());
    return result;
  }
  // all-to-all
  constexpr value all_to_all(const tensor& x) {
    return ranks_ == 1 ? t.share(x) : exchanged(x, x.size[0]);
  }
  // The rows of all ranks that have parts of the same experts, by an all-gather, and each rank's
  // sums of these by a reduce-scatter.
  constexpr value gather_parts(const tensor& x) {
    return parts_ == 1 ? t.share(x) : exchanged(x, x.size[0] * parts_);
  }
  constexpr value scatter_parts(const tensor& x) {
    return parts_ == 1 ? t.share(x) : exchanged(x, x.size[0] / parts_);
  }
  constexpr value exchanged(const tensor& x, std::int64_t rows) {
    const int index = t.add_node(same_rows_backward_, {&x});
    if (node* made = t.at(index)) made->size[1] = x.size;
    sizes made_size = x.size;
    made_size[0] = rows;
    value result = t.make(made_size, x.format);
    t.result_of(index, result.get());
    return result;
  }
  struct same_rows_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const edge to = on.nodes[index].input[0];
      out.of[0] = on.make(on.nodes[to.node].size[to.output], incoming[0]->format);
    }
  };

  // -- the experts

  constexpr value grouped_gemm(
      const tensor& x, int first, std::int64_t count, bool keeps_input = false, int bias = none) {
    const int index = t.add_node(grouped_backward_, {&x});
    const sizes weight = t.parameters[first].data.size;
    t.note(index, {first, count, bias != none ? 1 : 0});
    value read;
    if (quantises_) {
      for (std::int64_t at = 0; at < count; ++at) need_cast_of_weight(first + static_cast<int>(at));
      const value kept = cast_of(x, 1);
      if (copies_of_cast_ == 2) read = cast_of(x, 1);
      t.keep(index, keeps_input ? x : *kept);
    } else {
      t.keep(index, x);
    }
    value result = t.make({x.size[0], weight[0]}, half_);
    need_grouped_workspaces();
    t.result_of(index, result.get());
    return result;
  }
  struct grouped_backward final : own_backward {
    megatron_experts* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const sizes weight = on.parameters[static_cast<int>(on.nodes[index].argument[0])].data.size;
      value cast;
      if (code->quantises_) cast = code->cast_of(*incoming[0], code->copies_of_cast_);
      out.of[0] = on.make({incoming[0]->size[0], weight[1]}, incoming[0]->format);
      if (on.nodes[index].argument[2] == 1)  // of biases, which live until they are added up
        on.touch(on.nodes[index].argument[1] * weight[0] * bytes_of(incoming[0]->format));
      if (!code->defers()) return code->need_dummy(weight);
      code->defer(on.kept_by(index, 0).storage,
                  code->quantises_ ? cast->storage : incoming[0]->storage,
                  static_cast<int>(on.nodes[index].argument[0]));
    }
  };
  // A token's shared experts times the sigmoid of one logit.
  constexpr value gated_by_token(const tensor& of, const tensor& x, const nn_module& by) {
    const tensor weight = t.parameter(by.weight);
    const int index = t.add_node(gated_by_token_backward_, {&of, &x, &weight});
    const value logits = t.make({x.size[0], x.size[1], 1}, half_);
    const value scores = t.make(logits->size, half_);
    value result = t.make(of.size, of.format);
    for (const tensor* one : {&of, &x, &*scores}) t.keep(index, *one);
    t.result_of(index, result.get());
    return result;
  }
  struct gated_by_token_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor of = on.kept_by(index, 0);
      const tensor x = on.kept_by(index, 1);
      out.of[0] = on.make(of.size, of.format);
      on.touch(incoming[0]->bytes());
      out.of[1] = on.make(x.size, x.format);
      out.of[2] = on.make(sizes{x.size[2]}, x.format);
    }
  };
  // silu(y1) * y2 * weight; without a gate relu(y) * relu(y) * weight
  constexpr value weighted_gate(const tensor& given, const tensor& weights) {
    const value clamped = model.clamped_gate_up ? clamp_halves(given) : t.share(given);
    const tensor& y = *clamped;
    const int index = t.add_node(weighted_gate_backward_, {&y, &weights});
    t.keep(index, y);
    t.keep(index, weights);
    value result = t.make({y.size[0], y.size[1] / (model.gated_mlp ? 2 : 1)}, half_);
    t.result_of(index, result.get());
    return result;
  }
  // One tensor again, since the fused activation reads one.
  constexpr value clamp_halves(const tensor& given) {
    const int halves = split(t, given);
    const std::int64_t width = given.size[1] / 2;
    const value gate = clamp(t, part(t, halves, given, 1, width, 0), 1);
    const value up = clamp(t, part(t, halves, given, 1, width, 1), 2);
    return concatenate(t, {&*gate, &*up}, 1);
  }
  struct weighted_gate_backward final : own_backward {
    constexpr void run(tape& on,
                       int index,
                       const value* /*incoming*/,
                       gradients& out) const override {
      for (int which = 0; which < 2; ++which) {
        const tensor of = on.kept_by(index, which);
        out.of[which] = on.make(of.size, of.format);
      }
    }
  };
  // of the streams that grouped products run on
  constexpr void need_grouped_workspaces() {
    if (has_grouped_workspaces_) return;
    has_grouped_workspaces_ = true;
    for (int stream = 0; stream < 4; ++stream)
      static_cast<void>(
          t.charge(purpose::workspace)->new_storage(t.device.matrix_workspace + 1024));
  }

  std::int64_t ranks_;
  std::int64_t parts_;  // of each expert
  std::int64_t experts_;
  std::int64_t chosen_;
  bool has_grouped_workspaces_ = false;
  growing_array<dispatcher_state> dispatchers_{};
  growing_array<parameter_block> blocks_{};

  gate_backward gate_backward_{};
  whole_backward whole_backward_{};
  permute_backward permute_backward_{};
  same_rows_backward same_rows_backward_{};
  dispatch_backward dispatch_backward_{};
  combine_backward combine_backward_{};
  grouped_backward grouped_backward_{};
  weighted_gate_backward weighted_gate_backward_{};
  gated_by_token_backward gated_by_token_backward_{};
};

}  // namespace gpuplan::eager

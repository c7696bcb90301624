#pragma once

// Megatron-Core's GPT on one rank: the layers of its pipeline stage, divided among tensor-parallel
// ranks. Private.

#include <gpuplan/replay/codes/megatron/recurrent.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// The first tensor-parallel and data-parallel rank of a pipeline stage.
class megatron_gpt final : public megatron_recurrent {
 public:
  constexpr megatron_gpt(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_recurrent(on, of, with), stages_(setup.parallelism.pipeline_parallel) {}
  constexpr ~megatron_gpt() override {}  // NOLINT(modernize-use-equals-default)

  // -- what is built

  constexpr void construct() override {
    if (setup.frozen_parameters != 0 && setup.place.stage == 0)
      static_cast<void>(
          t.charge(purpose::weights)->new_storage(setup.frozen_parameters * bytes_of(half_)));
    const std::int64_t chunks = chunks_held(setup.parallelism);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) build(chunk);
    // what was built on the host moves to the device, then everything is cast
    const auto charged = t.charge(purpose::weights);
    for (int at = 0; at < order_.size(); ++at) {
      tensor& data = t.parameters[order_[at]].data;
      if (!data.defined()) data.storage = t.new_storage(data.bytes());
    }
    for (int at = 0; at < order_.size(); ++at) {
      tensor& data = t.parameters[order_[at]].data;
      t.convert(data, half_);
      if (bytes_of_parameter(order_[at]) == data.bytes()) continue;
      t.release(data.storage);
      data.storage = t.new_storage(bytes_of_parameter(order_[at]));
    }
    cast_tables();
  }
  constexpr void make_batch() override {}

  /// Where a chunk begins among the parameters.
  [[nodiscard]] constexpr int first_of_chunk(int chunk) const {
    return chunk < chunks_.size() ? chunks_[chunk].first_parameter : order_.size();
  }
  /// The layer of this rank that the parameter at this place is of, or none: at an end.
  [[nodiscard]] constexpr int layer_of(int place) const {
    int layer = none;
    for (int at = 0; at < first_of_layers_.size() && first_of_layers_[at] <= place; ++at)
      layer = place < end_of_layers_[at] ? at : none;
    return layer;
  }
  [[nodiscard]] constexpr int layers_here() const { return first_of_layers_.size(); }

  /// The table that the first and last stage both have, or none.
  [[nodiscard]] constexpr int table_of_both_ends() const {
    if (stages_ == 1 || traits_of(setup.parallelism.schedule).folds ||
        !(model.has_tied_head() || model.mtp_layers != 0))
      return none;
    for (int at = 0; at < chunks_.size(); ++at) {
      const chunk_record& one = chunks_[at];
      if (one.is_first) return one.tokens.weight;
      if (one.is_last) return model.has_tied_head() ? one.head.weight : one.tokens.weight;
    }
    return none;
  }
  /// What is passed between stages.
  [[nodiscard]] constexpr sizes passed() const {
    return {own_tokens() / (splits_ ? tp_ : 1), plan.micro_batch, model.hidden_size};
  }
  [[nodiscard]] constexpr element format() const { return half_; }
  [[nodiscard]] constexpr bool is_first(int chunk) const { return chunks_[chunk].is_first; }
  [[nodiscard]] constexpr bool is_last(int chunk) const { return chunks_[chunk].is_last; }

  // -- forward

  constexpr value forward() override { return forward_chunk(0, {}, nullptr); }

  /// What a batch leaves behind its forward.
  struct batch_end {
    value loss_mask{};
  };

  /// A micro-batch through a chunk: to its last hidden states, or to the losses of its tokens.
  constexpr value forward_chunk(int chunk, const tensor& received, batch_end* end) {
    chunk_record& by = chunks_[chunk];
    const sizes all{plan.micro_batch, own_tokens()};
    const auto in_batch = [&](const sizes& size, element format) {
      return t.charge(purpose::buffers)->make(size, format);
    };
    const value tokens = in_batch(all, element::int64);
    const value labels = in_batch(all, element::int64);
    value loss_mask = in_batch(all, element::fp32);
    value mask;
    if (setup.padding_mask)
      mask = in_batch({plan.micro_batch, 1, own_tokens(), own_tokens()}, element::boolean);
    const value positions = in_batch(all, element::int64);
    value result = run_model(by, tokens, positions, mask, labels, received);
    if (end != nullptr) end->loss_mask = std::move(loss_mask);
    return result;
  }

 protected:
  // -- recomputation as the library does it, not the base

  constexpr value layer(int /*index*/, const tensor& /*x*/) override { return {}; }

 private:
  struct layer_modules {
    attention_modules attention{};
    latent_modules latent{};
    recurrent_modules recurrent{};
    mlp_modules mlp{};
    expert_modules experts{};
    layer_kind kind{};
  };
  // What leads to the layers of multi-token prediction, and the norm behind them.
  struct mtp_modules {
    nn_module of_embedding{}, of_hidden{}, projection{}, norm{};
    int first_layer = 0;
    int last_layer = 0;
  };
  struct chunk_record {
    bool is_first = false;
    bool is_last = false;
    int first_layer = 0;  // of this rank's
    int layers = 0;
    int first_parameter = 0;
    nn_module tokens{}, positions{}, norm{}, head{};
    tensor angles{};
    int first_mtp = 0;  // of those that have weights of their own
    int mtp_layers = 0;
  };

  constexpr void build(std::int64_t chunk) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t stage = setup.place.stage;
    const std::int64_t place = place_of_chunk(setup.parallelism, stage, chunk);
    chunk_record made;
    made.is_first = place == 0;
    made.is_last = place == chunks_in_all(setup.parallelism) - 1;
    made.first_layer = modules_.size();
    made.first_parameter = order_.size();
    const std::int64_t vocabulary = detail::padded_rows_of_rank(model.vocab_size, tp_);
    // One rank with both ends of a model whose head is tied has one table.
    const bool shares_first =
        model.has_tied_head() && chunks_.size() != 0 && (chunks_[0].is_first || chunks_[0].is_last);
    if (made.is_first || (made.is_last && model.mtp_layers != 0)) {
      if (shares_first) {
        made.tokens = chunks_[0].head;
      } else {
        made.tokens.weight = on_device({vocabulary, width});
        name(made.tokens, "token table");
        list(made.tokens);
      }
      if (made.is_first && model.position_rows != 0) {
        made.positions.weight = on_host({model.position_rows, width});
        name(made.positions, "table");
      }
    }
    list(made.positions);
    if (shares_angles()) {
      // 1.0 / (base ** (arange(0, dim, 2) / dim))
      const sizes half{head / 2};
      const auto next = [&](argument x) { return compute(t, x, half, element::fp32); };
      frequencies_.push(next(next(next(next(t.make(half, element::fp32))))).take());
    }
    const layer_range range = layers_of_chunk(setup.parallelism, layers, stage, chunk);
    for (std::int64_t at = range.first; at < range.last; ++at) {
      first_of_layers_.push(order_.size());
      modules_.push(make_layer(model.kind_of(at)));
      end_of_layers_.push(order_.size());
    }
    made.layers = static_cast<int>(range.size());
    if (made.is_last) {
      made.norm = norm_of(width);
      list(made.norm);
      made.first_mtp = mtp_.size();
      made.mtp_layers = static_cast<int>(own_mtp_layers(model));
      for (int at = 0; at < made.mtp_layers; ++at) mtp_.push(make_mtp_layer());
      if (model.has_tied_head() && (made.is_first || shares_first)) {
        made.head = made.is_first ? made.tokens : chunks_[0].tokens;
      } else {
        made.head.weight = on_device({vocabulary, width});
        name(made.head, "head");
        list(made.head);
      }
    }
    chunks_.push(made);
  }

  // -- a layer

  constexpr mtp_modules make_mtp_layer() {
    const std::int64_t width = model.hidden_size;
    mtp_modules made;
    made.of_embedding = norm_of(width);
    made.of_hidden = norm_of(width);
    made.projection = parallel_linear(width / tp_, 2 * width, false);
    name(made.projection, "mtp_projection");
    for (const nn_module* each : {&made.of_embedding, &made.of_hidden, &made.projection})
      list(*each);
    made.first_layer = modules_.size();
    const std::int64_t letters = model.mtp_pattern.size();
    for (std::int64_t at = 0; at < letters; ++at)
      modules_.push(make_layer(model.mtp_pattern.kind_of(at)));
    if (letters == 0) modules_.push(make_layer(model.kind_of(model.num_hidden_layers - 1)));
    made.last_layer = modules_.size();
    made.norm = norm_of(width);
    list(made.norm);
    return made;
  }
  constexpr layer_modules make_layer(layer_kind kind) {
    const std::int64_t width = model.hidden_size;
    layer_modules one;
    one.kind = kind;
    if (has_linear_attention(kind) || kind == layer_kind::state_space_alone) {
      one.recurrent = make_recurrent(has_linear_attention(kind));
    } else if (has_attention(kind) && model.is_latent()) {
      make_latent_attention(one.latent);
    } else if (has_attention(kind)) {
      if (!has_engine()) one.attention.norm = norm_of(width);
      if (!has_engine()) list(one.attention.norm);
      make_attention(one.attention);
    }
    if (gpuplan::has_mixture(kind)) one.experts = make_experts();
    if (!has_mlp(kind)) return one;
    const std::int64_t ffn = model.intermediate_size / tp_;
    one.mlp.norm = norm_of(width);
    one.mlp.fc1 = parallel_linear(model.gated_mlp ? 2 * ffn : ffn, width, model.mlp_bias);
    one.mlp.fc2 = parallel_linear(width, ffn, model.mlp_bias);
    name(one.mlp.fc1, model.gated_mlp ? "gate_up" : "up");
    name(one.mlp.fc2, "down");
    if (one.mlp.fc2.bias != none) of_parts_.push(one.mlp.fc2.bias);
    list(one.mlp.norm);
    list(one.mlp.fc1);
    list(one.mlp.fc2);
    const lora_targets& targets = setup.trains.adapters.targets;
    one.mlp.beside_fc1 = low_rank_of(targets.up, model.gated_mlp ? 2 * ffn : ffn, width);
    one.mlp.beside_fc2 = low_rank_of(targets.down, width, ffn);
    return one;
  }

  // residual + dropout(x + bias); in a region that will be computed again, it makes a graph too
  constexpr value add_back(const tensor& x, int bias, const tensor& residual) {
    const auto recorded = t.with_graph();
    value sum = t.share(x);
    if (bias != none) sum = add(t, sum, t.parameter(bias));
    const value dropped = dropout(t, sum, drops);
    return add(t, residual, dropped);
  }

  constexpr value run_block(int at, const tensor& input, const tensor& mask, const tensor& angle) {
    const layer_modules by = modules_[at];
    value x = t.share(input);
    if (has_linear_attention(by.kind) || by.kind == layer_kind::state_space_alone) {
      const value normed = input_norm(input, by.recurrent.in_norm);
      const value out = recur(normed, by.recurrent);
      x = add_back(out, none, input);
    } else if (has_attention(by.kind) && model.is_latent()) {
      growing_array<int> of_norm;
      value normed;
      {
        const auto listed = t.list_made(of_norm, recomputes(&recomputed_modules::norms));
        normed = engine_norm(input, by.latent.norm);
      }
      value out = latent_attention_of(normed, by.latent, mask);
      if (of_norm.size() != 0) out = drop_until_backward(of_norm, out);
      x = add_back(out, by.latent.proj.bias, input);
    } else if (has_attention(by.kind)) {
      const value normed = input_norm(input, by.attention.norm);
      const value out = attention(normed, by.attention, mask, angle);
      x = add_back(out, by.attention.proj.bias, input);
    }
    const bool is_mixture = gpuplan::has_mixture(by.kind);
    if (!is_mixture && !has_mlp(by.kind)) return x;
    growing_array<int> of_norm;
    growing_array<int> of_all;
    value normed, out;
    {
      const bool is_again = is_mixture && recomputes(&recomputed_modules::norms);
      const auto listed = t.list_made(of_norm, is_again);
      if (is_mixture)
        normed = engine_norm(x, by.experts.norm);
      else
        normed = input_norm(x, by.mlp.norm);
    }
    {
      const bool is_again =
          recomputes(is_mixture ? &recomputed_modules::experts : &recomputed_modules::mlp);
      const auto listed = t.list_made(of_all, is_again);
      if (is_mixture)
        out = mixture(normed, by.experts);
      else
        out = mlp(normed, by.mlp);
    }
    if (of_all.size() != 0) out = drop_until_backward(of_all, out);
    if (of_norm.size() != 0) out = drop_until_backward(of_norm, out);
    if (has_engine()) normed.drop();  // older layers hold it to their end
    return add_back(out, is_mixture ? none : by.mlp.fc2.bias, x);
  }

  // What a layer keeps goes to the host once the next has begun, and comes back before its
  // backward: its input too, but for that of a chunk's first, which the model holds.
  constexpr value run_offloaded(int at,
                                bool offloads,
                                bool holds_input,
                                const tensor& input,
                                const tensor& mask,
                                const tensor& angle) {
    growing_array<int> made;
    value x;
    {
      const auto listed = t.list_made(made, offloads);
      x = run_block(at, input, mask, angle);
    }
    if (offloads && !holds_input) list_once(made, input.storage);
    if (offloads) x = drop_until_backward(made, x);
    return x;
  }

  constexpr value run_region(const tensor* inputs, int count, int first, int last) override {
    if (first == core_region) return attend(inputs[0], inputs[1], inputs[2], inputs[3]);
    const tensor mask = count > 1 ? inputs[1] : tensor{};
    const tensor angle = count > 2 ? inputs[2] : tensor{};
    value x = t.share(inputs[0]);
    for (int at = first; at < last; ++at) x = run_block(at, x, mask, angle);
    return x;
  }

  constexpr value run_model(chunk_record& by,
                            const tensor& ids,
                            const tensor& positions,
                            const tensor& mask,
                            const tensor& labels,
                            const tensor& received) {
    t.begin(moment::forward);
    value input;
    if (by.is_first)
      input = embed(by.tokens, by.positions, ids, positions);
    else
      input = t.share(received);
    // Layers that are computed again are not in the graph but for a gradient of what they read.
    if (by.is_first && setup.trains.what == training::adapters &&
        setup.recompute == recompute_mode::full)
      input = t.leaf(input);
    tensor angle{};
    if (shares_angles()) angle = angles(by.angles);
    value x = run_layers(by, input, mask, angle);
    // a chunk of nothing gives another tensor than the one that it got
    if (!by.is_first && !by.is_last && by.layers == 0) x = clone(t, x);
    if (!by.is_last) return x;
    if (has_engine())
      x = engine_norm(x, by.norm);
    else
      x = norm(x, by.norm);
    if (model.mtp_layers != 0) x = predict_more(by, x, ids, mask, angle);
    t.begin(moment::loss);
    const value logits = own_column_linear(x, by.head, false);
    const value turned_labels = contiguous(t, transpose(t, labels, 0, 1));
    value loss = parallel_cross_entropy(logits);
    loss = contiguous(t, transpose(t, loss, 0, 1));
    return loss;
  }

  // One token more each: the layers' result and the token's embedding, beside each other, pass its
  // layers, and the head, whose losses hang on the model's own hidden states.
  constexpr value predict_more(const chunk_record& by,
                               const tensor& hidden,
                               const tensor& ids,
                               const tensor& mask,
                               const tensor& angle) {
    value x = t.share(hidden);
    value own = t.share(hidden);
    for (std::int64_t token = 0; token < model.mtp_layers; ++token) {
      const int which = static_cast<int>(token) % by.mtp_layers;
      const mtp_modules layer = mtp_[by.first_mtp + which];
      {
        const value rolled = t.make(ids.size, element::int64);
        const value words = embed(by.tokens, {}, rolled, {});
        const value embedded = engine_norm(words, layer.of_embedding);
        const value normed = engine_norm(x, layer.of_hidden);
        const value both = concatenate(t, embedded, normed, 2);
        x = engine_matmul(both, {}, layer.projection, false, {splits_, false});
        // each rank has a part of the width, and then of the sequence
        if (tp_ > 1) x = gather_width(x);
      }
      if (setup.recompute == recompute_mode::full) {
        const tensor inputs[] = {*x, mask, angle};
        x = checkpoint(inputs, 3, layer.first_layer, layer.last_layer);
      } else {
        for (int at = layer.first_layer; at < layer.last_layer; ++at)
          x = run_block(at, x, mask, angle);
      }
      x = engine_norm(x, layer.norm);
      const value logits = own_column_linear(x, by.head, false);
      const value loss = parallel_cross_entropy(logits);
      const int index = t.add_node(beside_backward_, {&*own, &*loss});
      if (node* made = t.at(index)) made->size[1] = loss->size;
      tensor seen = own.get();
      t.result_of(index, seen);
      t.hold(seen.storage);
      own = value{t, seen};
    }
    return own;
  }
  // The gradient as it came, and ones for the losses.
  struct beside_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      out.of[0] = on.share(*incoming[0]);
      out.of[1] = on.make(on.nodes[index].size[1], element::fp32);
    }
  };
  constexpr value gather_width(const tensor& x) {
    const int index = t.add_node(width_backward_, {&x});
    sizes wanted = x.size;
    wanted[2] *= tp_;
    value whole = t.make(wanted, half_);
    if (splits_) {
      wanted[0] /= tp_;
      value part_of_tokens = t.make(wanted, half_);
      whole = std::move(part_of_tokens);
    }
    t.result_of(index, whole.get());
    return whole;
  }
  struct width_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const edge to = on.nodes[index].input[0];
      out.of[0] = on.make(on.nodes[to.node].size[to.output], incoming[0]->format);
    }
  };

  constexpr value run_layers(const chunk_record& by,
                             const tensor& input,
                             const tensor& mask,
                             const tensor& angle) {
    value x = t.share(input);
    const int count = by.layers;
    const bool again = setup.recompute == recompute_mode::full;
    const auto together = static_cast<int>(setup.recompute_span);
    const int most = setup.recompute_layers == 0 ? count : static_cast<int>(setup.recompute_layers);
    for (int at = 0; at < count;) {
      t.begin(moment::forward, by.first_layer + at);
      const int first = by.first_layer + at;
      if (again && at < most) {
        const tensor inputs[] = {*x, mask, angle};
        const int end = at + together < count ? at + together : count;
        x = checkpoint(inputs, 3, first, by.first_layer + end);
        at = end;
      } else {
        x = run_offloaded(first, at < setup.offloads.layers, at == 0, x, mask, angle);
        ++at;
      }
    }
    t.begin(moment::forward);
    return x;
  }

  std::int64_t stages_;
  growing_array<layer_modules> modules_{};
  growing_array<int> first_of_layers_{};  // among the parameters
  growing_array<int> end_of_layers_{};
  growing_array<mtp_modules> mtp_{};
  growing_array<chunk_record> chunks_{};
  growing_array<tensor> frequencies_{};
  beside_backward beside_backward_{};
  width_backward width_backward_{};
};

}  // namespace gpuplan::eager

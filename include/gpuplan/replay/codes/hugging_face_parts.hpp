#pragma once

// What the model classes of Hugging Face's transformers have in common beside their attention: how
// layers are built, MLPs, norms, losses. Transcribed from transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_attention.hpp>
#include <gpuplan/replay/cut_cross_entropy.hpp>
#include <gpuplan/replay/liger_kernels.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/tiled_log_probs.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gpuplan::eager {

class hugging_face_code : public hugging_face_attention {
 public:
  using hugging_face_attention::hugging_face_attention;
  constexpr ~hugging_face_code() override {
    for (int at = 0; at < held_.size(); ++at) t.release(held_[at]);
  }

 protected:
  // -- construction: a tied head has a table of its own until the end

  /// Modules of a layer, built in this order.
  constexpr void build(layer_modules& made,
                       bool trains,
                       std::initializer_list<nn_module its::*> order) {
    for (nn_module its::*const which : order) made.*which = module_of_layer(which, trains);
  }
  constexpr layer_modules built(bool trains, std::initializer_list<nn_module its::*> order) {
    layer_modules made;
    build(made, trains, order);
    return made;
  }
  /// The modules of a layer with norms before attention and MLP.
  constexpr layer_modules built(bool trains, layer_construction order, bool key_first) {
    using enum layer_construction;
    layer_modules made;
    if (order == norm_attention_norm_mlp) build(made, trains, {&its::before_attention});
    if (key_first)
      build(made, trains, {&its::key, &its::value, &its::query, &its::out});
    else
      build(made, trains, {&its::query, &its::key, &its::value, &its::out});
    if (model.layer_scale) build(made, trains, {&its::attention_scale});
    if (order != norm_attention_norm_mlp) build(made, trains, {&its::before_attention});
    if (order != attention_norm_mlp_norm) build(made, trains, {&its::before_mlp});
    if (model.gated_mlp) build(made, trains, {&its::gate});
    build(made, trains, {&its::up, &its::down});
    if (model.layer_scale) build(made, trains, {&its::mlp_scale});
    if (order == attention_norm_mlp_norm) build(made, trains, {&its::before_mlp});
    return made;
  }
  constexpr nn_module module_of_layer(nn_module layer_modules::*which, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t inner = model.num_attention_heads * head;
    const std::int64_t groups = model.key_value_heads() * head;
    const std::int64_t ffn = model.intermediate_size;
    const auto made = [&](operator_kind kind, std::int64_t to, std::int64_t from, bool bias) {
      return layer_linear(kind, {to, from}, bias, trains);
    };
    const auto projection = [&](operator_kind kind, std::int64_t to) {
      const bool has_own = kind != operator_kind::key || model.key_bias;
      return made(kind, to, width, model.attention_bias && has_own);
    };
    if (which == &its::query) return projection(operator_kind::query, inner);
    if (which == &its::key) return projection(operator_kind::key, groups);
    if (which == &its::value) return projection(operator_kind::value, groups);
    if (which == &its::qkv) return projection(operator_kind::query_key_value, inner + 2 * groups);
    if (which == &its::out)
      return made(operator_kind::attention_output, width, inner, model.attention_out_bias);
    if (which == &its::gate) return made(operator_kind::gate, ffn, width, model.mlp_bias);
    if (which == &its::up) return made(operator_kind::up, ffn, width, model.mlp_bias);
    if (which == &its::gate_up) return made(operator_kind::gate_up, 2 * ffn, width, model.mlp_bias);
    if (which == &its::down) return made(operator_kind::down, width, ffn, model.mlp_bias);
    if (which == &its::attention_scale || which == &its::mlp_scale) {
      nn_module scale;
      scale.weight = parameter(sizes{width}, trains);
      return scale;
    }
    const bool is_of_head = which == &its::query_norm || which == &its::key_norm;
    if (!is_of_head) return norm_module(width, trains);
    const std::int64_t heads = (which == &its::query_norm ? inner : groups) / head;
    if (setup.framework.implementation.decoder.has_norm_of_each_head)
      return norms_of(heads, trains);
    if (setup.framework.implementation.decoder.normalizes_each_head)
      return norm_module_of({heads, head}, trains);
    if (model.qk_norm != qk_norm_scope::full_width) return norm_module(head, trains);
    return norm_module(which == &its::query_norm ? inner : groups, trains);
  }
  /// One of each head, without biases, one behind the other: the first of them.
  constexpr nn_module norms_of(std::int64_t heads, bool trains) {
    nn_module first;
    for (std::int64_t at = heads; at > 0; --at) {
      nn_module made;
      made.weight = parameter(sizes{model.query_dim()}, trains);
      name(made, "norm");
      if (at == heads) first = made;
    }
    return first;
  }
  /// A linear layer of a layer, of (out, in) numbers.
  constexpr virtual nn_module layer_linear(operator_kind kind, sizes size, bool bias, bool trains) {
    return linear_module(kind, size[0], size[1], bias, trains);
  }
  constexpr nn_module head_module(const nn_module& table) {
    if (!model.has_tied_head())
      return linear_module(operator_kind::head,
                           model.vocab_size,
                           model.token_width(),
                           model.lm_head_bias,
                           trains_head());
    value whole;  // of which zero.Init leaves a part
    if (t.gathering().divides_elements)
      whole = t.make({model.vocab_size, model.token_width()}, weight_format);
    const int own =
        quantised.is_on() ? none : t.new_storage(t.parameters[table.weight].data.bytes());
    whole.drop();
    nn_module made;
    made.weight = table.weight;
    add_shared_table(table.weight, model.lm_head_bias);
    if (model.lm_head_bias)
      made.bias =
          parameter(sizes{model.vocab_size}, trains_table() || adapters.trains_all_biases());
    t.release(own);
    // Tying them makes its bias anew, padded by nothing.
    if (model.lm_head_bias) {
      tensor& bias = t.parameters[made.bias].data;
      const int again = t.charge(purpose::weights)->new_storage(bias.bytes());
      t.release(bias.storage);
      bias.storage = again;
    }
    adapt(made, operator_kind::head, model.vocab_size, model.token_width());
    return made;
  }
  /// trunc_normal_: asks whether any number is too small or too large.
  constexpr void truncate(std::int64_t count) {
    const auto mask = [&] { return t.make(sizes{count}, element::boolean); };
    value outside;
    {
      const value below = mask();
      const value above = mask();
      outside = mask();
    }
    ask_about_any(count);
  }
  /// What lives as long as the model.
  constexpr tensor hold(value made) {
    const tensor held = made.take();
    held_.push(held.storage);
    return held;
  }
  constexpr void make_token_batch() {
    const sizes all{plan.micro_batch, setup.sequence_length};
    const auto charged = t.charge(purpose::buffers);
    if (setup.objective == training_objective::group_relative) return make_completions();
    const bool prefers = setup.objective == training_objective::preference;
    ids_ = t.make(all, element::int64, {"token ids"});
    labels_ = t.make(all, element::int64, {prefers ? "completions" : "labels"});
    // TRL's collators say what is padding where nothing is.
    const bool has_mask = setup.objective != training_objective::next_token && !setup.padding_free;
    if (has_mask) reads_whole_mask = true;
    if (prefers && setup.reference == reference_model::precomputed)
      for (value& one : precomputed_)
        one = t.make(sizes{plan.micro_batch / 2}, element::fp32, {"log-probabilities"});
    if (setup.objective == training_objective::supervised)
      tokens_of_step_ = t.make(sizes{1}, element::int64, {"tokens of the step"});
    if (setup.padding_mask || has_mask) padding_ = t.make(all, element::int64, {"padding"});
    if (!setup.padding_free) return;
    positions_ = t.make(all, element::int64, {"positions"});
    // cu_seq_lens_q, which the kernel of FlashAttention's package reads
    const bool is_trl = setup.objective != training_objective::next_token;
    if (is_trl) texts_ = t.make(all, element::int32, {"numbers of texts"});
    if (is_trl || setup.attention == attention_kernel::flash)
      boundaries_ = t.make(sizes{setup.encodings + 1}, element::int32, {"boundaries of texts"});
  }
  /// Of GRPOTrainer: those of all micro-batches, of which each takes its rows.
  constexpr void make_completions() {
    reads_whole_mask = true;
    const std::int64_t rows = plan.micro_batch * plan.accumulation;
    const std::int64_t scored = setup.scored_tokens / plan.micro_batch;
    const sizes prompts{rows, setup.sequence_length - scored};
    const sizes completions{rows, scored};
    for (const sizes& size : {prompts, completions})
      for (const char* what : {"token ids", "padding"})
        completions_.push(hold(t.make(size, element::int64, {what})));
    completions_.push(hold(t.make(sizes{rows}, element::fp32, {"advantages"})));
    completions_.push(hold(t.make(sizes{1}, element::int64, {"tokens of the step"})));
    const int of_engine = setup.generates_apart ? 3 : 0;
    const int of_reference = setup.reference == reference_model::none ? 0 : 1;
    for (int at = 0; at < of_engine + of_reference; ++at)
      completions_.push(hold(t.make(completions, element::fp32, {"log-probabilities"})));
  }
  /// The positions of the batch, or of any row: (1, tokens).
  constexpr value positions_of_row() {
    if (positions_->defined()) return t.share(positions_);
    value made = shifted_range(setup.sequence_length);
    set_contiguous(made.get(), {1, setup.sequence_length});
    return made;
  }

  // -- pytorch_utils.py

  /// Conv1D: its matrix is (in, out).
  constexpr nn_module conv1d_module(operator_kind kind, sizes size, bool trains) {
    const std::int64_t out = size[0];
    const std::int64_t in = size[1];
    nn_module made;
    made.is_quantised = quantised.hold(kind);
    made.weight = made.is_quantised ? quantised.add(out, in) : parameter({in, out}, trains);
    made.bias = parameter(sizes{out}, trains || adapters.trains_bias(kind));
    adapt(made, kind, out, in);
    if (!made.is_quantised) adapters.stands_upright(made.adapter);
    return made;
  }
  /// torch.addmm(bias, x.view(-1, in), weight).view(...)
  constexpr value conv1d(argument given, const nn_module& by) {
    if (by.is_quantised) return linear(given, by);
    const held x(given);
    if (!is_watched) return adapters.add_to(conv1d_of(x, by), by.adapter, x);
    return within_adapter(x, by, [&](const tensor& seen) {
      const value input = shards->module_begins(seen, watched(by));
      value result = conv1d_of(input, by);
      leave(result, by);
      return result;
    });
  }
  constexpr value conv1d_of(const tensor& x, const nn_module& by) {
    sizes wanted = x.size;
    std::int64_t& width = wanted[wanted.rank - 1];
    value made = addmm(t, view(t, x, {x.count() / width, width}), by.weight, by.bias);
    width = made->size[1];
    return view(t, std::move(made), wanted);
  }

  // -- activations.py

  /// The function of an MLP.
  constexpr value act(argument given) {
    if (model.hidden_act != activation_function::gelu_new) return activation(given);
    const held x(given);
    enter();
    value result = new_gelu(x);
    leave(result);
    return result;
  }
  /// NewGELUActivation: 0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
  constexpr value new_gelu(argument given) {
    const held x(given);
    const value half = scale(t, x);
    const auto curve = [&](argument inner) { return keeping_result(t, scale(t, inner)); };
    return multiply(t, half, add_number(t, curve(add(t, x, scale(t, power(t, raised(t, x), 3))))));
  }
  /// down(act(up(x))), with dropout or without; down(act(gate(x)) * up(x))
  constexpr value mlp(const layer_modules& by, argument given, bool drops_result = false) {
    const held x(given);
    if (model.fused_gate_up) return mlp_of_halves(by, x);
    if (uses_liger()) {
      const value gate = linear(x, by.gate);
      return linear(liger.silu_mul(gate, linear(x, by.up)), by.down);
    }
    if (!model.gated_mlp) return dropout(t, linear(act(linear(x, by.up)), by.down), drops_result);
    value hidden = act(linear(x, by.gate));
    hidden = multiply(t, hidden, linear(x, by.up));
    return linear(hidden, by.down);
  }
  // Phi3MLP
  constexpr value mlp_of_halves(const layer_modules& by, const tensor& x) {
    value gate, up;
    {
      const value both = linear(x, by.gate_up);
      const int parts = split(t, both);
      gate = part(t, parts, both, 2, model.intermediate_size, 0);
      up = part(t, parts, both, 2, model.intermediate_size, 1);
    }
    up = multiply(t, up, act(gate));
    return linear(up, by.down);
  }

  // -- norms

  // LlamaRMSNorm, Olmo2RMSNorm: their variance is a variable
  constexpr value eager_rms_norm(const tensor& input, const nn_module& by, bool casts_first) {
    value x = cast(t, input, element::fp32);
    const value variance = mean(t, power(t, x));
    x = multiply(t, x, reciprocal_root(t, add_number(t, variance)));
    const tensor weight = t.parameter(by.weight);
    if (casts_first) return multiply(t, weight, cast(t, x, input.format));
    if (setup.framework.implementation.rms_norm == rms_norm_kind::eager_raised)
      return cast(t, multiply(t, cast(t, weight, element::fp32), x), input.format);
    return cast(t, multiply(t, weight, x), input.format);
  }

  // -- loss/loss_utils.py

  /// ForCausalLMLoss: logits in fp32, labels moved by one token.
  constexpr value causal_lm_loss(const tensor& computed, const tensor& given_labels) {
    const value logits = cast(t, computed, element::fp32);
    const value padded = padded_labels(given_labels);
    const value labels = moved_labels(padded);
    const value rows = view(t, logits, {labels->count(), computed.size[computed.size.rank - 1]});
    return cross_entropy(t, rows, labels);
  }
  /// LigerForCausalLMLoss
  constexpr value liger_causal_lm_loss(const tensor& hidden,
                                       const nn_module& head,
                                       const tensor& given_labels) {
    const value padded = padded_labels(given_labels);
    const value labels = moved_labels(padded);
    const value rows = view(t, hidden, {labels->count(), model.hidden_size});
    return liger.linear_cross_entropy(rows, head.weight, labels);
  }
  constexpr value padded_labels(const tensor& labels) {
    const std::int64_t batch = labels.size[0];
    value padded = t.make({batch, labels.size[1] + 1}, element::int64);
    t.executes({&labels, &*padded}, {.kernels = batch == 1 ? 1 : 2, .copies = batch == 1 ? 1 : 0});
    return padded;
  }
  constexpr value moved_labels(const tensor& padded) {
    const std::int64_t tokens = padded.size[1] - 1;
    const value moved = slice(t, padded, 1, tokens);
    const value labels = contiguous(t, moved);
    return view(t, labels, sizes{padded.size[0] * tokens});
  }

  /// GradientCheckpointingLayer
  [[nodiscard]] constexpr bool gathers_before_checkpoint() const override { return true; }

  [[nodiscard]] constexpr bool uses_liger() const {
    return setup.framework.implementation.liger_kernels;
  }

  liger_kernels liger{t};
  cut_cross_entropy cut_loss{t};
  tiled_log_probs tiled{t};
  value ids_{}, labels_{}, padding_{}, boundaries_{}, texts_{};
  value precomputed_[2]{}, tokens_of_step_{};
  growing_array<tensor> completions_{};

 private:
  growing_array<int> held_{};  // storages
};

/// A decoder that foretells the next token: table, layers, norm, head. A family says what stands
/// where, what a layer does, and what the model does around its layers.
class causal_lm_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~causal_lm_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    construct_stack();
    construct_head();
  }
  /// From the table of tokens to the norm,
  constexpr void construct_stack() {
    tokens_ = token_table(model.vocab_size, model.token_width(), trains_table());
    build_before_layers();
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = building_layer(at);
      layers_.push(build_layer(trains_layer(at)));
    }
    build_behind_layers();
  }
  /// and what is behind it.
  constexpr void construct_head() { head_ = head_module(tokens_); }
  constexpr void make_batch() override { make_token_batch(); }
  constexpr value forward() override {
    t.begin(moment::forward);
    if (setup.objective == training_objective::supervised) return supervised_loss();
    if (setup.objective == training_objective::preference) return preference_loss();
    if (setup.objective == training_objective::group_relative) return group_relative_loss();
    const value hidden = run_model();
    t.begin(moment::loss);
    if (setup.framework.implementation.cut_cross_entropy)
      return cut_loss.loss_of(hidden, head_.weight, labels_);
    if (uses_liger()) return liger_causal_lm_loss(hidden, head_, labels_);
    const value logits = logits_of(hidden);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  constexpr virtual void build_before_layers() {
    if (model.position_rows != 0)
      positions_ = table_module(model.position_rows, model.hidden_size, trains_all());
  }
  constexpr virtual layer_modules build_layer(bool trains) = 0;
  constexpr virtual void build_behind_layers() {
    norm_ = norm_module(model.hidden_size, trains_final_norm());
  }
  /// From the token ids to the head.
  constexpr virtual value run_model() = 0;
  constexpr virtual value logits_of(const tensor& hidden) { return linear(hidden, head_); }

  // -- TRL's trainers

  constexpr token_scores scores(const tensor& labels, const tiled_log_probs::asked_for& asked) {
    const watched_module head = watched(head_);
    if (is_watched) shards->model_begins(head);
    value hidden = run_model();
    t.begin(moment::loss);
    token_scores made =
        tiled.scores(std::move(hidden), head_.weight, labels, setup.scored_tokens, asked);
    if (is_watched) made.log_probs = shards->model_ends(std::move(made.log_probs), head);
    return made;
  }
  // Accelerate's autocast is of the model's forward alone.
  constexpr void end_autocast() { const auto ends = autocast(); }
  // SFTTrainer.compute_loss
  constexpr value supervised_loss() {
    const token_scores out = scores(labels_, {.entropy = true, .is_top1 = true});
    end_autocast();
    const value loss_of_tokens = scale(t, out.log_probs);
    value loss = tiled.share_of(tiled.sum_of(loss_of_tokens));
    loss = scale(t, loss);
    for (const tensor* one : {&*out.label_mask, &*out.is_top1})
      const value count = tiled.count_of(*one, element::int64);
    return loss;
  }
  // DPOTrainer._compute_loss, its loss "sigmoid"
  constexpr value preference_loss() {
    value labels;
    {
      const value is_prompt = compute(t, labels_, labels_->size, element::boolean);
      labels = compute(t, ids_, ids_->size, element::int64);
    }
    const token_scores out =
        scores(labels, {.entropy = true, .mean_logits = true, .is_top1 = true});
    end_autocast();
    const sizes half{labels_->size[0] / 2};
    value policy[2];
    tiled.halves_of_sums(out.log_probs, policy);
    value ratio[2];
    token_scores of_reference;
    if (setup.reference == reference_model::precomputed) {
      for (int which = 0; which < 2; ++which)
        ratio[which] = subtract(t, policy[which], precomputed_[which]);
    } else {
      value sums;
      {
        const auto unrecorded = t.without_graph();
        const auto casts = autocast();
        of_reference = reference_scores(labels);
        sums = tiled.sums_of_rows(of_reference.log_probs);
      }
      for (int which = 0; which < 2; ++which)
        ratio[which] = subtract(t, policy[which], part_of_batch(sums, half));
    }
    const value scores_apart = scale(t, subtract(t, ratio[0], ratio[1]));
    value loss = scale(t, keeping_input(t, scores_apart));  // -logsigmoid
    loss = scale(t, tiled.mean_of(loss));
    return add_number(t, std::move(loss));
  }
  // GRPOTrainer._compute_loss, its loss "dapo"
  constexpr value group_relative_loss() {
    const sizes rows{plan.micro_batch, setup.sequence_length};
    const std::int64_t completion = setup.scored_tokens / plan.micro_batch;
    ids_ = t.make(rows, element::int64, {"token ids"});
    padding_ = t.make(rows, element::int64, {"padding"});
    value log_probs, entropies;
    {
      value labels;
      {
        const value is_padding = compute(t, padding_, rows, element::boolean);
        labels = compute(t, ids_, rows, element::int64);
      }
      const token_scores out = scores(labels, {.entropy = true});
      end_autocast();
      log_probs = last_tokens(out.log_probs, completion);
      entropies = last_tokens(out.entropy, completion);
    }
    const sizes each = log_probs->size;
    const tensor& mask = completions_[3];
    const tensor& advantages = completions_[4];
    const auto with = [&](argument of, const tensor& by) {
      const held x(of);
      const int index = t.add_node(node_kind::scale, {&x});
      t.keep(index, by);
      value made = t.make(each, element::fp32);
      t.executes({&x, &by, &*made});
      t.result_of(index, made.get());
      return made;
    };
    const value ratio = keeping_result(t, scale(t, log_probs));
    value divergence;
    if (setup.reference != reference_model::none) {
      value apart = keeping_result(t, scale(t, log_probs));
      apart = subtract(t, apart, scale(t, log_probs));
      divergence = add_number(t, std::move(apart));
    }
    value loss;
    {
      const value clipped = keeping_input(t, ratio);
      const value first = with(ratio, advantages);
      const value second = with(clipped, advantages);
      loss = scale(t, least_of(first, second));
    }
    if (setup.generates_apart) loss = with(std::move(loss), completions_[7]);
    if (divergence->defined()) loss = add(t, loss, scale(t, divergence));
    value tokens = tiled.number(element::fp32);
    for (int at = 0; at < 3; ++at) tokens = tiled.number(element::fp32);
    loss = tiled.share_of(tiled.sum_of(with(std::move(loss), mask)));
    ids_ = value();
    padding_ = value();
    return loss;
  }
  // torch.cat([x[:, -tokens:]])
  constexpr value last_tokens(const tensor& x, std::int64_t tokens) {
    const value seen = slice(t, x, 1, tokens);
    return clone(t, seen);
  }
  // torch.min, which keeps both
  constexpr value least_of(const tensor& one, const tensor& other) {
    const value kept = keeping_input(t, one);
    return keeping_input(t, add(t, kept, other));
  }
  constexpr void read_reference(model_code& other) override {
    reference_ = static_cast<causal_lm_code*>(&other);
  }
  constexpr token_scores reference_scores(const tensor& labels) {
    if (reference_ == nullptr) {
      adapters.is_off = true;
      token_scores of_base = scores(labels, {});
      adapters.is_off = false;
      return of_base;
    }
    reference_->ids_ = t.share(ids_);
    reference_->padding_ = t.share(padding_);
    reference_->reads_whole_mask = reads_whole_mask;
    return reference_->scores(labels, {});
  }
  static constexpr tensor part_of_batch(const tensor& of, const sizes& size) {
    tensor seen = of;
    seen.size = size;
    seen.is_view = true;
    return seen;
  }

  constexpr value causal_mask(element format, std::int64_t window = 0) {
    return mask_of(ids_->size[0], ids_->size[1], ids_->size[1], format, true, window);
  }
  /// All layers, which read these beside the hidden states.
  constexpr value run_layers(value hidden, std::initializer_list<const tensor*> read) {
    for (std::int64_t at = 0; at < layers; ++at) {
      int place = 0;
      for (const tensor* one : read) beside[place++] = *one;
      hidden = run_layer(at, hidden);
    }
    return hidden;
  }

  // -- norms
  constexpr value normed(argument given, const nn_module& by) override {
    const held x(given);
    const implementation& as = setup.framework.implementation;
    if (as.liger_kernels) return liger.rms_norm(x, by.weight);
    if (model.norm == norm_kind::layer_norm) {
      if (as.decoder.layer_norm == layer_norm_kind::eager) return eager_layer_norm(x, by);
      if (as.decoder.layer_norm == layer_norm_kind::fused_shifted) return shifted_layer_norm(x, by);
      if (model.norm_affine) return layer_norm(t, x, by.weight, by.bias);
      // OlmoLayerNorm
      return cast(t, layer_norm(t, cast(t, x, element::fp32), none, none), x.format);
    }
    switch (as.rms_norm) {
      case rms_norm_kind::eager_shifted:
        return shifted_rms_norm(x, by);
      case rms_norm_kind::eager_raised:
      case rms_norm_kind::eager_whole:
        return eager_rms_norm(x, by, false);
      default:
        return eager_rms_norm(x, by, true);
    }
  }
  // CohereLayerNorm: weight * (x - mean) / sqrt(variance + eps), all in fp32
  constexpr value eager_layer_norm(const tensor& input, const nn_module& by) {
    value x = cast(t, input, element::fp32);
    const value average = mean(t, x);
    const value variance = mean(t, power(t, subtract(t, x, average)));
    {
      const value less = subtract(t, x, average);
      x = multiply(t, less, reciprocal_root(t, add_number(t, variance)));
    }
    const tensor weight = t.parameter(by.weight);
    x = multiply(t, cast(t, weight, element::fp32), x);
    return cast(t, x, input.format);
  }
  // NemotronLayerNorm1P
  constexpr value shifted_layer_norm(const tensor& input, const nn_module& by) {
    value shifted = add_number(t, t.parameter(by.weight));
    const element format = t.computes_in(input.format);
    const value x = cast(t, input, format);
    const value w = cast(t, std::move(shifted), format);
    const value b = cast(t, t.parameter(by.bias), format);
    return layer_norm_of(t, x, w, b);
  }
  // GemmaRMSNorm: (1 + weight), all in fp32
  constexpr value shifted_rms_norm(const tensor& input, const nn_module& by) {
    value output = cast(t, input, element::fp32);
    output = multiply(t, output, inverse_spread(output));
    const tensor weight = t.parameter(by.weight);
    output = multiply(t, output, add_number(t, cast(t, weight, element::fp32)));
    return cast(t, output, input.format);
  }

  causal_lm_code* reference_ = nullptr;
  nn_module tokens_{}, positions_{}, norm_{}, head_{};
  growing_array<layer_modules> layers_{};
};

}  // namespace gpuplan::eager

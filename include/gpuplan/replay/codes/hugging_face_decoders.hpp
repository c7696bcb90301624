#pragma once

// Decoders of Hugging Face's transformers 5.23: those whose modules or operators come in another
// order than a LLaMA's, and the code of all. Private.

#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/replay/codes/hugging_face.hpp>
#include <gpuplan/replay/codes/hugging_face_parts.hpp>
#include <gpuplan/replay/codes/hugging_face_rotary.hpp>
#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// GPT2LMHeadModel, whose linear layers are Conv1D.
class gpt2_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~gpt2_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    return built(
        trains,
        {&its::before_attention, &its::qkv, &its::out, &its::before_mlp, &its::up, &its::down});
  }
  constexpr nn_module layer_linear(operator_kind kind, sizes size, bool, bool trains) override {
    return conv1d_module(kind, size, trains);
  }

  // GPT2Model
  constexpr value run_model() override {
    enter();
    const value inputs_embeds = embed_tokens(ids_, tokens_);
    const value position_ids = positions_of_row();
    const value position_embeds = rows_of(position_ids, positions_);
    value hidden = add(t, inputs_embeds, position_embeds);
    const value mask = causal_mask(inputs_embeds->format);
    hidden = drop_out(hidden);
    hidden = norm(run_layers(std::move(hidden), {&*mask, &*position_ids}), norm_);
    hidden = view(t, hidden, hidden->size);
    leave(hidden);
    return hidden;
  }

  // GPT2Block
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value hidden = norm(x, by.before_attention);
    enter();
    attended attention = attend_to(by, hidden);
    leave(attention.output);
    hidden = add(t, attention.output, x);
    const value residual = t.share(hidden);
    hidden = norm(hidden, by.before_mlp);
    enter();
    value fed = drop_out(conv1d(act(conv1d(hidden, by.up)), by.down));
    leave(fed);
    return add(t, residual, fed);
  }

  // GPT2Attention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    value q, k, v;
    split_in_three(conv1d(x, by.qkv), 2, x.size[2], q, k, v);
    k = heads_of(k);
    v = heads_of(v);
    q = heads_of(q);
    constexpr eager_attention_options code{.softmax_in_fp32 = false, .makes_contiguous = false};
    attended made = attend(q, k, v, beside[the_mask], true, code);
    made.output = drop_out(conv1d(reshape(t, std::move(made.output), x.size), by.out));
    return made;
  }
};

/// GPTBigCodeForCausalLM, which has one head of key and value, or as many as of query.
class gpt_bigcode_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~gpt_bigcode_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    return built(
        trains,
        {&its::before_attention, &its::qkv, &its::out, &its::before_mlp, &its::up, &its::down});
  }
  // And a mask that nobody reads.
  constexpr void build_behind_layers() override {
    causal_lm_code::build_behind_layers();
    const auto charged = t.charge(purpose::buffers);
    const sizes square{model.position_rows, model.position_rows};
    const auto triangle = [&] {
      return compute(t, full(t, square, element::boolean), square, element::boolean);
    };
    triangle_ = triangle();
    const value again = triangle();  // where weights are initialised
    add_numbers(triangle_);
  }
  // GPTBigCodeModel
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    value places = shifted_range(ids_->size[1]);
    set_contiguous(places.get(), {1, ids_->size[1]});
    const value mask = causal_mask(embedded->format);
    const value positions = rows_of(places, positions_);
    value hidden = dropout(t, add(t, embedded, positions), drops);
    hidden = norm(run_layers(std::move(hidden), {&*mask}), norm_);
    return view(t, hidden, hidden->size);
  }
  // GPTBigCodeBlock
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    attended attention = attend_to(by, norm(x, by.before_attention));
    const value hidden = add(t, attention.output, x);
    attention.output.drop();
    const value inner = norm(hidden, by.before_mlp);
    const value fed = dropout(t, linear(activation(linear(inner, by.up)), by.down), drops);
    return add(t, hidden, fed);
  }
  // GPTBigCodeAttention
  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    const std::int64_t head = model.query_dim();
    value q, k, v;
    if (model.key_value_heads() == 1) {
      const value flat = linear(x, by.qkv);
      const value all = view(t, flat, {x.size[0], 1, x.size[1], flat->size[2]});
      const int parts = split(t, all);
      q = part(t, parts, all, 3, model.hidden_size, 0);
      k = part(t, parts, all, 3, head, 1);
      v = part(t, parts, all, 3, head, 2);
      q = view(t, q, {x.size[0], x.size[1], model.num_attention_heads, head});
      q = transpose(t, q, 1, 2);
    } else {
      split_in_three(
          heads_of(linear(x, by.qkv), model.num_attention_heads, 3 * head), 3, head, q, k, v);
    }
    attended made = project_out(attend_in_groups(q, k, v, beside[the_mask], {}), by.out);
    made.output = dropout(t, made.output, drops);
    return made;
  }
  value triangle_{};
};

/// OPTForCausalLM. That of 350 M has narrow embeddings, led to the layers' width and back, and
/// norms behind what it adds.
class opt_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~opt_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_before_layers() override {
    causal_lm_code::build_before_layers();
    const std::int64_t narrow = model.embedding_dim;
    const std::int64_t width = model.hidden_size;
    if (narrow != 0) {
      out_ = linear_module(operator_kind::project_out, narrow, width, false, trains_all());
      in_ = linear_module(operator_kind::project_in, width, narrow, false, trains_all());
    }
    if (model.final_norm) causal_lm_code::build_behind_layers();
  }
  constexpr layer_modules build_layer(bool trains) override {
    return built(trains, layer_construction::attention_norm_mlp_norm, true);
  }
  constexpr void build_behind_layers() override {}

  // OPTDecoder
  constexpr value run_model() override {
    value embedded = embed_tokens(ids_, tokens_);
    const element format = setup.padding_mask ? element::int64 : element::fp32;
    value ones;
    if (!setup.padding_mask) ones = full(t, ids_->size, format);
    const value positions = positions_of(format);
    const value mask = causal_mask(embedded->format);
    const value places = embedding(t, full(t, ids_->size, element::int64), positions_.weight);
    if (in_.weight != none) embedded = linear(std::move(embedded), in_);
    value hidden = run_layers(add(t, embedded, places), {&*mask, &*positions});
    if (model.final_norm) hidden = norm(std::move(hidden), norm_);
    if (out_.weight != none) hidden = linear(std::move(hidden), out_);
    return hidden;
  }
  /// (cumsum(mask) * mask - 1).long()
  constexpr value positions_of(element format) {
    const value sum = full(t, ids_->size, format);
    value less = compute(t, compute(t, sum, ids_->size, format), ids_->size, format);
    if (format == element::int64) return less;
    return compute(t, less, ids_->size, element::int64);
  }

  // OPTDecoderLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    const bool before = model.norm_at == norm_position::before;
    value hidden = before ? norm(x, by.before_attention) : t.share(x);
    attended attention = attend_to(by, hidden);
    hidden = std::move(attention.output);
    hidden = add(t, x, dropout(t, std::move(hidden), drops));
    if (!before) hidden = norm(std::move(hidden), by.before_attention);
    const sizes apart = hidden->size;
    hidden = view(t, hidden, {apart[0] * apart[1], apart[2]});
    const value residual = t.share(hidden);
    if (before) hidden = norm(std::move(hidden), by.before_mlp);
    hidden = linear(std::move(hidden), by.up);
    hidden = dropout(t, linear(act(std::move(hidden)), by.down), drops);
    hidden = add(t, residual, hidden);
    hidden = view(t, hidden, apart);
    return before ? std::move(hidden) : norm(std::move(hidden), by.before_mlp);
  }

  // OPTAttention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    const value q = heads_of(scale(t, linear(x, by.query)));
    value k = linear(x, by.key);
    value v = linear(x, by.value);
    k = heads_of(k);
    v = heads_of(v);
    return project_out(attend(q, k, v, beside[the_mask], true, {}), by.out);
  }
  nn_module in_{}, out_{};  // of narrow embeddings
};

/// GPTNeoXForCausalLM: attention and MLP read the same input, each through a norm of its own, or
/// one after the other (use_parallel_residual).
class gpt_neox_code : public hugging_face_decoder {
 public:
  using hugging_face_decoder::hugging_face_decoder;
  constexpr ~gpt_neox_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    return built(
        trains,
        {&its::before_attention, &its::before_mlp, &its::qkv, &its::out, &its::up, &its::down});
  }

  // GPTNeoXLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    attended attention = attend_to(by, norm(x, by.before_attention));
    attention.output = dropout(t, attention.output, drops);
    if (!model.parallel_attention) attention.output = add(t, attention.output, x);
    const tensor& read = model.parallel_attention ? x : *attention.output;
    const value fed = dropout(t, mlp(by, norm(read, by.before_mlp)), drops);
    if (!model.parallel_attention) return add(t, fed, attention.output);
    return add(t, add(t, fed, attention.output), x);
  }

  // GPTNeoXAttention
  constexpr attended attend_to(const layer_modules& by, argument given) override {
    const held x(given);
    const std::int64_t head = model.query_dim();
    value q, k, v;
    split_in_three(
        heads_of(linear(x, by.qkv), model.num_attention_heads, 3 * head), 3, head, q, k, v);
    {
      head_parts of = parts_of(q, k, rotary_width());
      of.front_q = rotate(of.front_q);
      of.front_k = rotate(of.front_k);
      q = concatenate(t, std::move(of.front_q), of.rest_q, 3);
      k = concatenate(t, std::move(of.front_k), of.rest_k, 3);
    }
    return project_out(attend(q, k, v, beside[the_mask], true, {}), by.out);
  }
};

/// GPTJForCausalLM of transformers 5.24, whose layers read one table of angles.
class gptj_code final : public rotary_lm_code {
 public:
  using rotary_lm_code::rotary_lm_code;
  constexpr ~gptj_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    return built(trains,
                 {&its::before_attention,
                  &its::key,
                  &its::value,
                  &its::query,
                  &its::out,
                  &its::up,
                  &its::down});
  }
  // Made once more where weights are initialised.
  constexpr void build_behind_layers() override {
    causal_lm_code::build_behind_layers();
    {
      const auto charged = t.charge(purpose::buffers);
      table_ = sinusoids();
    }
    static_cast<void>(sinusoids());
    add_buffer(table_);
  }

  // GPTJModel
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    const value positions = shifted_range(ids_->size[1]);
    const value mask = causal_mask(embedded->format);
    value dropped = dropout(t, embedded, drops);
    value rows;
    {
      const value read =
          compute(t, table_, {1, ids_->size[1], rotary_width()}, table_->format, {"rotary table"});
      rows = cast(t, read, dropped->format);
    }
    const value sines = slice(t, rows, 2, rotary_width() / 2);
    const value cosines = slice(t, rows, 2, rotary_width() / 2);
    rows.drop();
    const value hidden =
        norm(run_layers(std::move(dropped), {&*mask, &*cosines, &*sines, &*positions}), norm_);
    return view(t, hidden, hidden->size);
  }

  // GPTJBlock
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    const value normed = norm(x, by.before_attention);
    const attended attention = attend_to(by, normed);
    const value fed = mlp(by, normed, drops);
    return add(t, add(t, attention.output, fed), x);
  }

  // GPTJAttention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    projections of = project_behind_tokens(by, x);
    const head_parts parts = rotate_neighbours(of.k, of.q, beside[the_sines].format);
    of.q = transpose(t, of.q, 1, 2);
    of.k = transpose(t, of.k, 1, 2);
    constexpr eager_attention_options code{
        .softmax_in_fp32 = false, .scores_in_fp32 = true, .keeps_scores = true};
    attended made = project_out(attend(of.q, of.k, of.v, beside[the_mask], true, code), by.out);
    made.output = dropout(t, made.output, drops);
    return made;
  }

 private:
  value table_{};
};

inline constexpr known_code codes_of_decoders[] = {
    {&code_names::decoder, &code_of<hugging_face_decoder>},
    {&code_names::gpt2, &code_of<gpt2_code>},
    {&code_names::gpt_bigcode, &code_of<gpt_bigcode_code>},
    {&code_names::opt, &code_of<opt_code>},
    {&code_names::gpt_neox, &code_of<gpt_neox_code>},
    {&code_names::gptj, &code_of<gptj_code>}};

}  // namespace gpuplan::eager

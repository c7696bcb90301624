#pragma once

// T5ForConditionalGeneration of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class t5_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~t5_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t table = 4 * model.vocab_size * model.hidden_size;
    // transformers 5.23 ties the head to it whatever the configuration says.
    shared_ = token_table(model.vocab_size, model.hidden_size, trains_table(true));
    // Each stack and the head have a table of their own until they are tied.
    int tables[3]{};
    tables[0] = t.new_storage(table);
    add_shared_table();
    build_stack(0, model.num_hidden_layers);
    encoder_norm_ = norm_module(model.hidden_size, trains_all());
    tables[1] = t.new_storage(table);
    add_shared_table();
    build_stack(model.num_hidden_layers, model.layers());
    decoder_norm_ = norm_module(model.hidden_size, trains_final_norm());
    tables[2] = t.new_storage(table);
    add_shared_table();
    for (const int storage : tables) t.release(storage);
  }

  constexpr void make_batch() override {
    const std::int64_t batch = plan.micro_batch;
    const sizes tokens{batch, setup.sequence_length};
    const auto charged = t.charge(purpose::buffers);
    ids_ = t.make(tokens, element::int64, {"token ids"});
    labels_ = t.make({batch, target_length()}, element::int64, {"labels"});
    if (setup.padding_mask) padding_ = t.make(tokens, element::int64, {"padding"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value encoded = run_stack(ids_, {});
    const value decoder_ids = shift_right();
    value decoded = run_stack(decoder_ids, encoded);
    t.begin(moment::loss);
    value scaled;
    if (setup.framework.implementation.scales_decoder_outputs && model.scale_decoder_outputs)
      scaled = scale(t, decoded);
    else
      scaled = value{};
    const value logits = linear(scaled->defined() ? scaled : decoded, shared_);
    const std::int64_t count = labels_->count();
    const value rows = view(t, logits, {count, model.vocab_size});
    const value labels = view(t, labels_, sizes{count});
    return cross_entropy(t, rows, labels);
  }

 protected:
  struct attention_modules {
    nn_module bias, norm;
    layer_modules of;
  };
  struct block {
    attention_modules self, cross;
    layer_modules mlp;
    bool is_decoder = false;
  };
  // What blocks read beside their input, behind the mask.
  static constexpr int the_bias = 1;
  static constexpr int the_encoded = 2;
  static constexpr int the_cross_mask = 3;
  static constexpr int the_cross_bias = 4;

  [[nodiscard]] constexpr std::int64_t target_length() const {
    return setup.target_length != 0 ? setup.target_length : setup.sequence_length;
  }
  [[nodiscard]] constexpr bool trains_block(std::int64_t index) const {
    return trains_all() || (setup.trains.what == training::last_layers &&
                            index >= model.layers() - setup.trains.last_layers);
  }

  // -- construction

  constexpr void build_stack(std::int64_t first, std::int64_t end) {
    for (std::int64_t at = first; at < end; ++at) {
      const bool trains = trains_block(at);
      const auto being_built = t.building_unit(at);
      block made;
      made.is_decoder = first != 0;
      build_attention(made.self, at == first || model.relative_attention_in_layers, trains);
      if (made.is_decoder) build_attention(made.cross, false, trains);
      if (model.gated_mlp)
        made.mlp = built(trains, {&its::gate, &its::up, &its::down});
      else
        made.mlp = built(trains, {&its::up, &its::down});
      made.mlp.before_mlp = norm_module(model.hidden_size, trains);
      blocks_.push(made);
    }
  }
  constexpr void build_attention(attention_modules& made, bool has_bias, bool trains) {
    made.of = built(trains, {&its::query, &its::key, &its::value, &its::out});
    if (has_bias)
      made.bias = table_module(model.relative_attention_buckets, model.num_attention_heads, trains);
    made.norm = norm_module(model.hidden_size, trains);
  }

  // -- the stacks

  /// T5Stack: the encoder, or where there is something encoded the decoder.
  constexpr value run_stack(const tensor& ids, const tensor& encoded) {
    const bool is_decoder = encoded.defined();
    const std::int64_t batch = ids.size[0];
    const std::int64_t tokens = ids.size[1];
    const value embedded = embed_tokens(ids, shared_);
    const value mask = mask_of(batch, tokens, tokens, embedded->format, is_decoder, 0, !is_decoder);
    value cross_mask;
    if (is_decoder) cross_mask = mask_of(batch, tokens, encoded.size[1], encoded.format, false);
    value bias, cross_bias;
    value hidden = dropout(t, embedded, drops);
    const std::int64_t first = is_decoder ? model.num_hidden_layers : 0;
    const std::int64_t end = is_decoder ? model.layers() : model.num_hidden_layers;
    for (std::int64_t at = first; at < end; ++at) {
      beside[the_mask] = mask;
      beside[the_bias] = bias;
      beside[the_encoded] = encoded;
      beside[the_cross_mask] = cross_mask;
      beside[the_cross_bias] = cross_bias;
      hidden = run_layer(at, hidden);
      if (model.relative_attention_in_layers) continue;
      // handed on by each block
      bias.get().node = beside[the_bias].node;
      bias.get().output = beside[the_bias].output;
      cross_bias.get().node = beside[the_cross_bias].node;
      cross_bias.get().output = beside[the_cross_bias].output;
      if (!bias->defined()) {  // the first block makes those of all
        bias = std::move(made_bias_);
        cross_bias = std::move(made_cross_bias_);
      }
    }
    hidden = norm(hidden, is_decoder ? decoder_norm_ : encoder_norm_);
    return dropout(t, hidden, drops);
  }

  /// The decoder's tokens: the labels, behind a first one.
  constexpr value shift_right() {
    const std::int64_t batch = labels_->size[0];
    value shifted = t.make(labels_->size, element::int64);
    t.touch(8 * batch * (labels_->size[1] - 1));
    t.touch(labels_->count());
    return shifted;
  }

  // T5Block
  constexpr value layer(int index, const tensor& x) override {
    const block& by = blocks_[index];
    value bias = t.share(beside[the_bias]);
    value cross_bias = t.share(beside[the_cross_bias]);
    const bool makes_bias = !bias->defined();
    attended attention = attention_layer(by.self, x, {}, beside[the_mask], bias, by.is_decoder);
    value hidden = std::move(attention.output);
    if (by.is_decoder) {
      attention = attention_layer(
          by.cross, hidden, beside[the_encoded], beside[the_cross_mask], cross_bias, false);
      hidden = std::move(attention.output);
    }
    hidden = feed_forward_layer(by, hidden);
    if (makes_bias && !t.is_recomputing() && !model.relative_attention_in_layers) {
      made_bias_ = std::move(bias);
      made_cross_bias_ = std::move(cross_bias);
    }
    return hidden;
  }

  // T5LayerSelfAttention, T5LayerCrossAttention
  constexpr attended attention_layer(const attention_modules& by,
                                     const tensor& x,
                                     const tensor& encoded,
                                     const tensor& mask,
                                     value& bias,
                                     bool causal) {
    const value normed = norm(x, by.norm);
    attended made = attention(by, normed, encoded, mask, bias, causal);
    if (model.relative_attention_in_layers) bias.drop();  // a variable of the attention alone
    made.output = add(t, x, dropout(t, made.output, drops));
    return made;
  }

  // T5LayerFF
  constexpr value feed_forward_layer(const block& by, const tensor& x) {
    const value forwarded = feed_forward(by.mlp, norm(x, by.mlp.before_mlp));
    return add(t, x, dropout(t, forwarded, drops));
  }

  // T5DenseActDense, T5DenseGatedActDense
  constexpr value feed_forward(const layer_modules& by, argument given) {
    const held x(given);
    value hidden = act(linear(x, model.gated_mlp ? by.gate : by.up));
    value gate, up;
    if (model.gated_mlp) {
      gate = std::move(hidden);
      up = linear(x, by.up);
      hidden = multiply(t, gate, up);
    }
    hidden = dropout(t, hidden, drops);
    hidden = cast(t, hidden, t.format_of(by.down.weight));
    return linear(hidden, by.down);
  }

  // T5LayerNorm
  constexpr value norm(argument given, const nn_module& by) {
    const held x(given);
    const value variance = mean(t, power(t, cast(t, x, element::fp32)));
    value hidden = multiply(t, x, reciprocal_root(t, add_number(t, variance)));
    const element format = t.format_of(by.weight);
    if (is_half(format)) hidden = cast(t, hidden, format);
    return multiply(t, t.parameter(by.weight), hidden);
  }

  // -- attention

  // T5Attention
  constexpr attended attention(const attention_modules& by,
                               const tensor& x,
                               const tensor& encoded,
                               const tensor& mask,
                               value& bias,
                               bool causal) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    const tensor& states = encoded.defined() ? encoded : x;
    const auto projected = [&](const tensor& from, const nn_module& through) {
      return heads_of(linear(from, through), heads, head);
    };
    const value q = projected(x, by.of.query);
    const value k = projected(states, by.of.key);
    const value v = projected(states, by.of.value);
    if (!bias->defined()) {
      if (by.bias.weight == none)
        bias = no_bias(q, k);
      else
        bias = relative_bias(by.bias, q, k, !causal);
    }
    attended made;
    if (is_eager()) {
      constexpr eager_attention_options code{.softmax_in_fp32 = false, .casts_weights = false};
      made = eager_attention(q, k, v, mask, code, bias);
    } else {
      const value added = bias_with_mask(bias, mask, causal);
      made = attend(q, k, v, added, false, {});
    }
    made.output = reshape(t, made.output, {x.size[0], x.size[1], heads * head});
    made.output = linear(made.output, by.of.out);
    return made;
  }

  constexpr value no_bias(const tensor& q, const tensor& k) {
    value zeros = t.make({1, q.size[1], q.size[2], k.size[2]}, q.format);
    if (setup.recompute == recompute_mode::full && !model.relative_attention_in_layers)
      t.require_gradient(zeros.get());
    return zeros;
  }

  // create_position_bias_mask
  constexpr value bias_with_mask(const tensor& bias, const tensor& mask, bool causal) {
    value both;
    if (mask.defined()) {
      both = where_visible(mask, bias);
    } else if (causal) {
      both = where_visible(before(bias.size[2], bias.size[3]), bias);
    } else {
      both = t.share(bias);
    }
    return contiguous(t, both);
  }
  constexpr value before(std::int64_t queries, std::int64_t keys) {
    const value query = t.make(sizes{queries}, element::int64);
    const value key = t.make(sizes{keys}, element::int64);
    return t.make({1, 1, queries, keys}, element::boolean);
  }
  /// torch.where(visible, bias, number), in the order of the bias.
  constexpr value where_visible(argument given, const tensor& bias) {
    const held visible(given);
    const int by = t.add_node(node_kind::mask_fill, {&bias});
    t.keep(by, visible);
    t.note(by, {1});
    const int number = t.new_storage(bytes_of(bias.format));
    const sizes wide = broadcast(visible.size, bias.size);
    value made;
    if (bias.is_contiguous()) {
      made = t.make(wide, bias.format);
    } else {
      made = t.make({wide[0], wide[2], wide[3], wide[1]}, bias.format);
      swap_dimensions(made.get(), 2, 3);
      swap_dimensions(made.get(), 1, 2);
    }
    t.release(number);
    t.result_of(by, made.get());
    return made;
  }

  nn_module shared_{}, encoder_norm_{}, decoder_norm_{};
  growing_array<block> blocks_{};
  value made_bias_{}, made_cross_bias_{};
};

}  // namespace gpuplan::eager

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
    if (setup.framework.implementation.scales_decoder_outputs)
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
    module q, k, v, o, bias, norm;
  };
  struct block {
    attention_modules self, cross;
    module wi, wi_1, wo, norm;
    bool is_decoder = false;
  };
  // What blocks read beside their input.
  static constexpr int the_mask = 0;
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
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    for (std::int64_t at = first; at < end; ++at) {
      const bool trains = trains_block(at);
      const auto built = t.building_unit(at);
      block made;
      made.is_decoder = first != 0;
      build_attention(made.self, at == first, trains);
      if (made.is_decoder) build_attention(made.cross, false, trains);
      made.wi = linear_module(
          model.gated_mlp ? operator_kind::gate : operator_kind::up, ffn, width, false, trains);
      if (model.gated_mlp) made.wi_1 = linear_module(operator_kind::up, ffn, width, false, trains);
      made.wo = linear_module(operator_kind::down, width, ffn, false, trains);
      made.norm = norm_module(width, trains);
      blocks_.push(made);
    }
  }
  constexpr void build_attention(attention_modules& made, bool has_bias, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = model.num_attention_heads * model.query_dim();
    made.q = linear_module(operator_kind::query, inner, width, false, trains);
    made.k = linear_module(operator_kind::key, inner, width, false, trains);
    made.v = linear_module(operator_kind::value, inner, width, false, trains);
    made.o = linear_module(operator_kind::attention_output, width, inner, false, trains);
    if (has_bias)
      made.bias = table_module(model.relative_attention_buckets, model.num_attention_heads, trains);
    made.norm = norm_module(width, trains);
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
    if (makes_bias && !t.is_recomputing()) {
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
    const value dropped = dropout(t, made.output, drops);
    made.output = add(t, x, dropped);
    return made;
  }

  // T5LayerFF
  constexpr value feed_forward_layer(const block& by, const tensor& x) {
    value forwarded = norm(x, by.norm);
    forwarded = feed_forward(by, forwarded);
    const value dropped = dropout(t, forwarded, drops);
    return add(t, x, dropped);
  }

  // T5DenseActDense, T5DenseGatedActDense
  constexpr value feed_forward(const block& by, const tensor& x) {
    value gate, up, hidden;
    if (model.gated_mlp) {
      {
        const value flat = linear(x, by.wi);
        gate = mlp_activation(flat);
      }
      up = linear(x, by.wi_1);
      hidden = multiply(t, gate, up);
    } else {
      hidden = linear(x, by.wi);
      hidden = mlp_activation(hidden);
    }
    hidden = dropout(t, hidden, drops);
    hidden = cast(t, hidden, t.format_of(by.wo.weight));
    return linear(hidden, by.wo);
  }
  constexpr value mlp_activation(const tensor& x) {
    if (model.hidden_act == activation_function::gelu_tanh) return new_gelu(x);
    return activation(x);
  }

  // T5LayerNorm
  constexpr value norm(const tensor& x, const module& by) {
    value variance;
    {
      value squares;
      {
        const value wide = cast(t, x, element::fp32);
        squares = power(t, wide);
      }
      variance = mean(t, squares);
    }
    value hidden;
    {
      value root;
      {
        const value shifted = add_number(t, variance);
        root = reciprocal_root(t, shifted);
      }
      hidden = multiply(t, x, root);
    }
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
    const auto projected = [&](const tensor& from, const module& through) {
      const value flat = linear(from, through);
      return heads_of(flat, heads, head);
    };
    const value q = projected(x, by.q);
    const value k = projected(states, by.k);
    const value v = projected(states, by.v);
    if (!bias->defined()) {
      if (by.bias.weight == none)
        bias = no_bias(q, k);
      else
        bias = relative_bias(by.bias, q, k, !causal);
    }
    attended made;
    if (is_eager()) {
      constexpr eager_code code{.softmax_in_fp32 = false, .casts_weights = false};
      made = eager_attention(q, k, v, mask, code, bias);
    } else {
      const value added = bias_with_mask(bias, mask, causal);
      made = attend(q, k, v, added, false, {});
    }
    made.output = reshape(t, made.output, {x.size[0], x.size[1], heads * head});
    made.output = linear(made.output, by.o);
    return made;
  }

  constexpr value no_bias(const tensor& q, const tensor& k) {
    value zeros = t.make({1, q.size[1], q.size[2], k.size[2]}, q.format);
    if (setup.recompute == recompute_mode::full) t.require_gradient(zeros.get());
    return zeros;
  }

  /// A table's row for each distance: (1, heads, queries, keys), the heads next to each other.
  constexpr value relative_bias(const module& table,
                                const tensor& q,
                                const tensor& k,
                                bool bidirectional) {
    const std::int64_t queries = q.size[2];
    const std::int64_t keys = k.size[2];
    const value context_position = shifted_range(queries);
    const value memory_position = t.make(sizes{keys}, element::int64);
    const value distance = t.make({queries, keys}, element::int64);
    const value bucket = bucket_of({queries, keys}, bidirectional);
    value rows = embedding(t, bucket, table.weight);
    rows = transpose(t, rows, 1, 2);
    rows = transpose(t, rows, 0, 1);
    return view(t, rows, {1, rows->size[0], queries, keys});
  }
  // _relative_position_bucket
  constexpr value bucket_of(const sizes& square, bool bidirectional) {
    const auto integers = [&] { return t.make(square, element::int64); };
    const auto numbers = [&] { return t.make(square, element::fp32); };
    value buckets, position;
    if (bidirectional) {
      value product;
      {
        value wide;
        {
          const value is_above = t.make(square, element::boolean);
          wide = integers();
        }
        product = integers();
      }
      buckets = integers();
      product.drop();
      position = integers();
    } else {
      value least;
      {
        const value zeros = integers();
        least = integers();
      }
      position = integers();
    }
    const value is_small = t.make(square, element::boolean);
    value large;
    {
      value number = numbers();
      for (int operation = 0; operation < 4; ++operation) number = numbers();
      const value whole = integers();
      number.drop();
      large = integers();
    }
    {
      const value last = integers();
      large = integers();
    }
    const value chosen = integers();
    if (!bidirectional) buckets = integers();
    return buckets;
  }

  // create_position_bias_mask
  constexpr value bias_with_mask(const tensor& bias, const tensor& mask, bool causal) {
    value visible, both;
    if (mask.defined()) {
      both = where_visible(mask, bias);
    } else if (causal) {
      {
        const value query = t.make(sizes{bias.size[2]}, element::int64);
        const value key = t.make(sizes{bias.size[3]}, element::int64);
        visible = t.make({1, 1, bias.size[2], bias.size[3]}, element::boolean);
      }
      both = where_visible(visible, bias);
    } else {
      both = t.share(bias);
    }
    return contiguous(t, both);
  }
  /// torch.where(visible, bias, number), in the order of the bias.
  constexpr value where_visible(const tensor& visible, const tensor& bias) {
    const int by = t.add_node(node_kind::mask_fill, {&bias});
    t.keep(by, visible);
    if (node* made = t.at(by)) made->argument[0] = 1;
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

  module shared_{}, encoder_norm_{}, decoder_norm_{};
  growing_array<block> blocks_{};
  value made_bias_{}, made_cross_bias_{};
};

}  // namespace gpuplan::eager

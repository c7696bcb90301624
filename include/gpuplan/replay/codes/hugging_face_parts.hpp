#pragma once

// What the model classes of Hugging Face's transformers have in common: masks, attention behind one
// interface, losses. Transcribed from transformers 5.23. Private.

#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gpuplan::eager {

/// What attention returns: its result, (batch, tokens, heads, width), and the weights where the
/// products are written out, which its callers hold with the result.
struct attended {
  value output{};
  value weights{};
};

/// What a layer may consist of: which modules there are and in what order they are built, a family
/// says.
struct layer_modules {
  module query, key, value, qkv, out, query_norm, key_norm;
  module gate, up, gate_up, down;
  module before_attention, behind_attention, before_mlp, behind_mlp;  // norms
};

/// How a class writes its products out.
struct eager_attention_options {
  bool softmax_in_fp32 = true;   // whatever the format of the scores; else as autocast says
  bool makes_contiguous = true;  // of the result
  bool scales_before = false;    // the query, not the scores
  bool caps_scores = false;      // cap * tanh(score / cap)
  bool casts_weights = true;     // back to the format of the values
};

class hugging_face_code : public model_code {
 public:
  using model_code::model_code;
  constexpr ~hugging_face_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  [[nodiscard]] constexpr bool is_eager() const {
    return setup.attention == attention_kernel::eager;
  }

  // -- construction: a tied head has a table of its own until the end

  /// A layer's modules, built in this order.
  constexpr layer_modules built(bool trains, std::initializer_list<module layer_modules::*> order) {
    layer_modules made;
    for (module layer_modules::*const which : order) made.*which = module_of_layer(which, trains);
    return made;
  }
  constexpr module module_of_layer(module layer_modules::*which, bool trains) {
    using at = layer_modules;
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t inner = model.num_attention_heads * head;
    const std::int64_t groups = model.key_value_heads() * head;
    const std::int64_t ffn = model.intermediate_size;
    const auto made = [&](operator_kind kind, std::int64_t to, std::int64_t from, bool bias) {
      return linear_module(kind, to, from, bias, trains);
    };
    const auto projection = [&](operator_kind kind, std::int64_t to) {
      return made(kind, to, width, model.attention_bias);
    };
    if (which == &at::query) return projection(operator_kind::query, inner);
    if (which == &at::key) return projection(operator_kind::key, groups);
    if (which == &at::value) return projection(operator_kind::value, groups);
    if (which == &at::qkv) return projection(operator_kind::query_key_value, inner + 2 * groups);
    if (which == &at::out)
      return made(operator_kind::attention_output, width, inner, model.attention_out_bias);
    if (which == &at::gate) return made(operator_kind::gate, ffn, width, model.mlp_bias);
    if (which == &at::up) return made(operator_kind::up, ffn, width, model.mlp_bias);
    if (which == &at::gate_up) return made(operator_kind::gate_up, 2 * ffn, width, model.mlp_bias);
    if (which == &at::down) return made(operator_kind::down, width, ffn, model.mlp_bias);
    const bool is_of_head = which == &at::query_norm || which == &at::key_norm;
    if (!is_of_head) return norm_module(width, trains);
    if (model.qk_norm != qk_norm_scope::full_width) return norm_module(head, trains);
    return norm_module(which == &at::query_norm ? inner : groups, trains);
  }
  constexpr module head_module(const module& table) {
    if (!model.has_tied_head())
      return linear_module(operator_kind::head,
                           model.vocab_size,
                           model.hidden_size,
                           model.lm_head_bias,
                           trains_head());
    const int own =
        quantised.is_on() ? none : t.new_storage(t.parameters[table.weight].data.bytes());
    module made;
    made.weight = table.weight;
    add_shared_table(model.lm_head_bias);
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
    adapt(made, operator_kind::head, model.vocab_size, model.hidden_size);
    return made;
  }
  constexpr void make_token_batch() {
    const sizes all{plan.micro_batch, setup.sequence_length};
    const auto charged = t.charge(purpose::buffers);
    ids_ = t.make(all, element::int64, {"token ids"});
    labels_ = t.make(all, element::int64, {"labels"});
    if (setup.padding_mask) padding_ = t.make(all, element::int64, {"padding"});
  }

  // -- masking_utils.py

  /// torch.arange(n) + 0
  constexpr value shifted_range(std::int64_t n) {
    const value range = t.make(sizes{n}, element::int64);
    return t.make(sizes{n}, element::int64);
  }
  /// Whether any or all of them are true, read back.
  constexpr void ask_about_any(std::int64_t count) {
    const value answer = t.make(sizes{1}, element::boolean);
    reduction_scratch scratch = scratch_of_reduction(t.device, count, 1, true);
    scratch.buffer /= 4;  // of one byte each
    touch(t, scratch);
  }
  /// tensor.sum() == tensor.numel(), read back
  constexpr void ask_whether_all(std::int64_t count) {
    const value sum = t.make(sizes{1}, element::int64);
    {
      const value wide = t.make(sizes{count}, element::int64);
      touch(t, scratch_of_reduction(t.device, count, 1, true));
    }
    t.touch(1);
  }
  /// The mask of keys that queries see, as the attention reads it: (batch, 1, queries, keys),
  /// boolean, or written out in the format of the embeddings. None where attention does without.
  /// `window`: how many keys a query sees, itself included; 0: all before it.
  constexpr value mask_of(std::int64_t batch,
                          std::int64_t queries,
                          std::int64_t keys,
                          element format,
                          bool causal,
                          std::int64_t window = 0,
                          bool may_pad = true) {
    const bool pads = may_pad && setup.padding_mask;
    const bool is_needed = (is_eager() && causal) || (window != 0 && keys >= window);
    if (!pads && !is_needed) return {};
    value padding;
    if (pads) padding = t.make({batch, keys}, element::boolean);
    value mask;
    {
      if (pads && !is_needed) {
        if (causal) {
          ask_whether_all(batch * keys);
          ask_whether_all(batch * keys);
        } else {
          ask_about_any(batch * keys);
        }
      }
      const value of_batch = t.make(sizes{batch}, element::int64);
      const value of_head = t.make(sizes{1}, element::int64);
      const value of_query = shifted_range(queries);
      const value of_key = shifted_range(keys);
      mask = visible(batch, queries, keys, pads, causal, window != 0);
    }
    if (!is_eager()) return mask;
    const value zero = t.make(sizes{1}, format);
    const value least = t.make(sizes{1}, format);
    return t.make({batch, 1, queries, keys}, format, {"mask"});
  }
  /// The mask functions over index tensors, and what they are joined with.
  constexpr value visible(std::int64_t batch,
                          std::int64_t queries,
                          std::int64_t keys,
                          bool pads,
                          bool causal,
                          bool is_windowed) {
    const sizes by_position = causal ? sizes{1, 1, queries, keys} : sizes{1, 1, queries, 1};
    const auto by_position_alone = [&] {
      if (is_windowed) return near_and_before(by_position);
      return t.make(by_position, element::boolean);
    };
    if (!pads) return by_position_alone();
    value joined;
    {
      const value one = t.make(sizes{1}, element::boolean);
      const value seen = by_position_alone();
      joined = t.make(by_position, element::boolean);
    }
    value read;
    {
      value batch_index, key_index;
      if (keys > 1) batch_index = t.make({batch, 1, 1, keys}, element::int64);
      if (batch > 1) key_index = t.make({batch, 1, 1, keys}, element::int64);
      read = t.make({batch, 1, 1, keys}, element::boolean);
    }
    return t.make({batch, 1, queries, keys}, element::boolean, {"mask"});
  }

  /// (keys > queries - window) & (keys <= queries)
  constexpr value near_and_before(const sizes& square) {
    const element number = element::int64;
    const element truth = element::boolean;
    value joined = t.make(sizes{1}, truth);
    joined =
        compute(t, compute(t, t.make({1, 1, square[2], 1}, number), square, truth), square, truth);
    const value before = t.make(square, truth);
    return compute(t, std::move(joined), square, truth);
  }

  // -- attention

  /// scaled_dot_product_attention: (batch, heads, tokens, width).
  constexpr value scaled_dot_product(const tensor& query,
                                     const tensor& key,
                                     const tensor& val,
                                     const tensor& given_mask,
                                     bool causal) {
    value mask;
    if (given_mask.defined() && given_mask.format != element::boolean)
      mask = lowered(t, given_mask);
    else
      mask = t.share(given_mask);
    const value v = lowered(t, val);
    const value k = lowered(t, key);
    const value q = lowered(t, query);
    attention_kernel kernel = setup.attention;
    if (kernel == attention_kernel::automatic)
      kernel = mask->defined() || !is_half(q->format) ? attention_kernel::efficient
                                                      : attention_kernel::flash;
    if (kernel == attention_kernel::flash) return flash_attention(t, q, k, v, drops);
    value bias = additive(mask, q->size[0], q->format, kernel == attention_kernel::efficient);
    if (kernel == attention_kernel::math)
      return math_attention(t, q, k, v, causal && !bias->defined(), drops, bias);
    if (bias->defined()) bias = expand(t, bias, {q->size[0], q->size[1], q->size[2], k->size[2]});
    return efficient_attention(t, q, k, v, drops, bias);
  }
  /// A mask as what is added to the scores: numbers, of which the efficient kernel reads rows of
  /// whole eights.
  constexpr value additive(const tensor& mask,
                           std::int64_t batch,
                           element format,
                           bool is_for_kernel) {
    value numbers = t.share(mask);
    if (mask.defined() && mask.format == element::boolean) {
      sizes wide = mask.size;
      wide[0] = batch;
      const value least = t.make(sizes{1}, format);
      const value zero = t.make(sizes{1}, format);
      numbers = t.make(wide, format);
    }
    if (!mask.defined() || !is_for_kernel || mask.size[3] % 8 == 0) return numbers;
    return slice(t, padded(numbers, round_up(mask.size[3], 8)), 3, mask.size[3]);
  }
  /// Longer in the last dimension.
  constexpr value padded(const tensor& of, std::int64_t length) {
    sizes wide = of.size;
    wide[wide.rank - 1] = length;
    const int by = t.add_node(node_kind::slice, {&of});
    if (node* made = t.at(by)) made->size[1] = of.size;
    value longer = t.make(wide, of.format, {"mask"});
    t.result_of(by, longer.get());
    return longer;
  }

  /// sdpa_attention_forward or the class's eager_attention_forward. The heads of k and v are q's,
  /// or fewer where the kernel takes that.
  constexpr attended attend(const tensor& q,
                            const tensor& k,
                            const tensor& v,
                            const tensor& mask,
                            bool causal,
                            const eager_attention_options& code) {
    if (is_eager()) return eager_attention(q, k, v, mask, code);
    attended made;
    value result = scaled_dot_product(q, k, v, mask, causal && !mask.defined());
    result = view(t, result, {q.size[0], q.size[1], q.size[2], v.size[3]});
    const value turned = transpose(t, result, 1, 2);
    made.output = contiguous(t, turned);
    return made;
  }

  constexpr attended eager_attention(const tensor& q,
                                     const tensor& k,
                                     const tensor& v,
                                     const tensor& mask,
                                     const eager_attention_options& code,
                                     const tensor& bias = {}) {
    value weights = scale(t, matmul(t, q, transpose(t, k, 2, 3)));
    if (code.caps_scores) weights = capped(std::move(weights));
    if (bias.defined()) weights = add(t, weights, bias);
    if (mask.defined()) weights = add(t, weights, mask);
    if (code.softmax_in_fp32) {
      weights = cast(t, softmax_in_fp32(weights), q.format);
    } else {
      weights = softmax_under_autocast(t, weights);
      if (code.casts_weights) weights = cast(t, weights, v.format);
    }
    weights = dropout(t, weights, drops);
    attended made;
    value result = matmul(t, weights, v);
    result = transpose(t, result, 1, 2);
    if (code.makes_contiguous)
      made.output = contiguous(t, result);
    else
      made.output = std::move(result);
    made.weights = std::move(weights);
    return made;
  }
  /// cap * tanh(x / cap)
  constexpr value capped(argument x) { return scale(t, keeping_result(t, scale(t, x))); }
  /// softmax(x, dtype=torch.float32)
  constexpr value softmax_in_fp32(argument given) {
    const held x(given);
    if (x.format == element::fp32 || x.format == element::fp16) return softmax(t, x, element::fp32);
    return softmax(t, cast(t, x, element::fp32), element::fp32);
  }
  /// x[..., :width], which is x with another name where it has no more.
  constexpr value front_of(argument given, std::int64_t width) {
    const held x(given);
    if (width != x.size[3]) return slice(t, x, 3, width);
    value same = t.share(x);
    const int by = t.add_node(node_kind::pass, {&x});
    t.result_of(by, same.get());
    return same;
  }
  /// Query, key and value, (batch, heads, tokens, width): told apart into heads one by one, or once
  /// all three are there.
  struct projections {
    value q, k, v;
  };
  constexpr projections project(const layer_modules& by, const tensor& x, bool views_behind) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    if (!views_behind)
      return {heads_of(linear(x, by.query), heads, head),
              heads_of(linear(x, by.key), groups, head),
              heads_of(linear(x, by.value), groups, head)};
    projections made{linear(x, by.query), linear(x, by.key), linear(x, by.value)};
    made.q = heads_of(made.q, heads, head);
    made.k = heads_of(made.k, groups, head);
    made.v = heads_of(made.v, groups, head);
    return made;
  }
  /// The front of each head, which is rotated, and the rest.
  struct head_parts {
    value front_q, rest_q, front_k, rest_k;
  };
  constexpr head_parts parts_of(const tensor& q, const tensor& k, std::int64_t width) {
    return {front_of(q, width),
            slice(t, q, 3, q.size[3] - width),
            front_of(k, width),
            slice(t, k, 3, k.size[3] - width)};
  }
  /// Rotates the fronts of query and key and joins them with the rest. What is returned a class may
  /// have in variables of its own.
  template <class Rotate>
  constexpr head_parts rotate_fronts(value& q, value& k, std::int64_t width, Rotate rotate) {
    head_parts of = parts_of(q, k, width);
    of.front_q = rotate(of.front_q);
    of.front_k = rotate(of.front_k);
    q = concatenate(t, of.front_q, of.rest_q, 3);
    k = concatenate(t, of.front_k, of.rest_k, 3);
    return of;
  }

  // -- rotary positions

  /// 1 / base ** (arange(0, width, 2) / width)
  constexpr value inverse_frequencies(std::int64_t width, element of_range) {
    const sizes half{width / 2};
    value exponents = compute(t, t.make(half, of_range), half, element::fp32);
    const value powers = t.make(half, element::fp32);
    t.touch(8);
    exponents.drop();
    const value reciprocals = t.make(half, element::fp32);
    return t.make(half, element::fp32);
  }

  // -- activations.py

  /// The function of an MLP.
  constexpr value act(argument given) {
    if (model.hidden_act != activation_function::gelu_tanh) return activation(given);
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
    return multiply(t, half, add_number(t, curve(add(t, x, scale(t, power(t, raised(t, x)))))));
  }
  /// down(act(up(x))), with dropout or without
  constexpr value mlp(const layer_modules& by, argument given, bool drops_result) {
    const held x(given);
    return dropout(t, linear(act(linear(x, by.up)), by.down), drops_result);
  }

  // -- loss/loss_utils.py

  /// ForCausalLMLoss: logits in fp32, labels moved by one token.
  constexpr value causal_lm_loss(const tensor& computed, const tensor& given_labels) {
    const value logits = cast(t, computed, element::fp32);
    const std::int64_t batch = given_labels.size[0];
    const std::int64_t tokens = given_labels.size[1];
    const value padded = t.make({batch, tokens + 1}, element::int64);
    const value moved = slice(t, padded, 1, tokens);
    value labels = contiguous(t, moved);
    labels = view(t, labels, sizes{batch * tokens});
    const value rows = view(t, logits, {batch * tokens, computed.size[computed.size.rank - 1]});
    return cross_entropy(t, rows, labels);
  }

  /// GradientCheckpointingLayer
  [[nodiscard]] constexpr bool gathers_before_checkpoint() const override { return true; }

  value ids_{}, labels_{}, padding_{};
};

/// A decoder that foretells the next token: table, layers, norm, head. A family says what stands
/// where, what a layer does, and what the model does around its layers.
class causal_lm_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~causal_lm_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    tokens_ = token_table(model.vocab_size, model.hidden_size, trains_table());
    build_before_layers();
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = t.building_unit(at);
      layers_.push(build_layer(trains_layer(at)));
    }
    build_behind_layers();
    head_ = head_module(tokens_);
  }
  constexpr void make_batch() override { make_token_batch(); }
  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_model();
    t.begin(moment::loss);
    const value logits = logits_of(hidden);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  constexpr virtual void build_before_layers() {}
  constexpr virtual layer_modules build_layer(bool trains) = 0;
  constexpr virtual void build_behind_layers() {
    norm_ = norm_module(model.hidden_size, trains_final_norm());
  }
  /// From the token ids to the head.
  constexpr virtual value run_model() = 0;
  constexpr virtual value logits_of(const tensor& hidden) { return linear(hidden, head_); }

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

  module tokens_{}, norm_{}, head_{};
  growing_array<layer_modules> layers_{};
};

}  // namespace gpuplan::eager

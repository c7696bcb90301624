#pragma once

// The attention of Hugging Face's transformers 5.23: projections, kernels behind one interface, the
// eager functions of classes, positions relative to each other. Private.

#include <gpuplan/replay/codes/hugging_face_masks.hpp>
#include <gpuplan/replay/eager/operators/pieces.hpp>
#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// What attention returns: its result, (batch, tokens, heads, width), and the weights of eager
/// attention, which its callers hold with the result.
struct attended {
  value output{};
  value weights{};
};

/// What a layer may consist of: which modules there are and in what order they are built, a family
/// says.
struct layer_modules {
  nn_module query, key, value, qkv, out, query_norm, key_norm;
  nn_module gate, up, gate_up, down;
  nn_module before_attention, behind_attention, before_mlp, behind_mlp;  // norms
  nn_module attention_scale, mlp_scale;                                  // vectors
  nn_module query_down, key_value_down, key_value_up;                    // of latent attention
  int sinks = none;                                                      // a parameter
  int mixture = none;  // in place of the MLP, which of the model's
};

/// How a class does eager attention.
struct eager_attention_options {
  bool softmax_in_fp32 = true;   // whatever the format of the scores; else as autocast says
  bool makes_contiguous = true;  // of the result
  bool scores_in_fp32 = false;   // whatever the format of query and key
  bool caps_scores = false;      // cap * tanh(score / cap)
  bool casts_weights = true;     // back to the format of the values
  bool keeps_scores = false;     // until the weights are cast
};

class hugging_face_attention : public hugging_face_masks {
 public:
  using hugging_face_masks::hugging_face_masks;
  constexpr ~hugging_face_attention() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  using its = layer_modules;
  static constexpr int the_mask = 0;  // of what layers read beside their input

  // -- attention

  /// scaled_dot_product_attention: (batch, heads, tokens, width).
  constexpr value scaled_dot_product(const tensor& query,
                                     const tensor& key,
                                     const tensor& val,
                                     const tensor& given_mask,
                                     bool causal) {
    return scaled_dot_product(query, key, val, given_mask, causal, drops_attention);
  }
  constexpr value scaled_dot_product(const tensor& query,
                                     const tensor& key,
                                     const tensor& val,
                                     const tensor& given_mask,
                                     bool causal,
                                     bool drops_weights) {
    value mask;
    if (given_mask.defined() && given_mask.format != element::boolean)
      mask = lowered(t, given_mask);
    else
      mask = t.share(given_mask);
    const value v = lowered(t, val);
    const value k = lowered(t, key);
    const value q = lowered(t, query);
    attention_kernel kernel = setup.attention;
    if (kernel == attention_kernel::automatic) {
      kernel = mask->defined() || !has_flash(q) || q->size[3] != v->size[3]
                   ? attention_kernel::efficient
                   : attention_kernel::flash;
      // the efficient one reads heads of whole 16 bytes
      const bool is_aligned = q->size[3] * bytes_of(q->format) % 16 == 0;
      if (kernel == attention_kernel::efficient && !is_aligned) kernel = attention_kernel::math;
    }
    if (kernel == attention_kernel::flash) return flash_attention(t, q, k, v, drops_weights);
    value bias = additive(mask, q->size[0], q->format, kernel == attention_kernel::efficient);
    if (kernel == attention_kernel::math)
      return math_attention(t, q, k, v, causal && !bias->defined(), drops_weights, bias);
    if (bias->defined()) bias = expand(t, bias, {q->size[0], q->size[1], q->size[2], k->size[2]});
    return efficient_attention(t, q, k, v, drops_weights, bias);
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
      const value least = full(t, sizes{1}, format);
      const value zero = full(t, sizes{1}, format);
      tensor choices = mask;
      choices.size = wide;
      numbers = compute(t, {&choices, &*least, &*zero}, wide, format);
    }
    if (!mask.defined() || !is_for_kernel) return numbers;
    bool is_aligned = true;
    for (int at = 0; at < 3; ++at) is_aligned = is_aligned && numbers->stride[at] % 8 == 0;
    if (is_aligned) return numbers;
    const std::int64_t whole = (mask.size[3] / 8 + 1) * 8;
    return slice(t, padded(numbers, whole), 3, mask.size[3]);
  }
  /// Longer in the last dimension.
  constexpr value padded(const tensor& of, std::int64_t length) {
    sizes wide = of.size;
    wide[wide.rank - 1] = length;
    const int by = t.add_node(node_kind::slice, {&of});
    if (node* made = t.at(by)) made->size[1] = of.size;
    value longer = t.make(wide, of.format, {"mask"});
    t.executes({&of, &*longer}, {.kernels = 2});
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

  constexpr attended eager_attention(const tensor& query,
                                     const tensor& key,
                                     const tensor& v,
                                     const tensor& mask,
                                     const eager_attention_options& code,
                                     const tensor& bias = {}) {
    value weights;
    {
      const value q = cast(t, query, code.scores_in_fp32 ? element::fp32 : query.format);
      const value k = cast(t, key, code.scores_in_fp32 ? element::fp32 : key.format);
      weights = matmul(t, q, transpose(t, k, 2, 3));
    }
    weights = scale(t, weights);
    if (code.caps_scores) weights = capped(std::move(weights));
    if (bias.defined()) weights = add(t, weights, bias);
    if (mask.defined()) weights = add(t, weights, mask);
    if (code.softmax_in_fp32) {
      weights = cast(t, softmax_in_fp32(weights), query.format);
    } else if (code.keeps_scores) {
      value shares = softmax_under_autocast(t, weights);
      shares = cast(t, shares, v.format);
      weights = std::move(shares);
    } else {
      weights = softmax_under_autocast(t, weights);
      if (code.casts_weights) weights = cast(t, weights, v.format);
    }
    weights = dropout(t, weights, drops_attention);
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
  /// Attention of fewer heads of k and v than of q, each of which is repeated where the kernel does
  /// not take that (repeat_kv).
  constexpr attended attend_in_groups(const tensor& q,
                                      const tensor& k,
                                      const tensor& v,
                                      const tensor& mask,
                                      const eager_attention_options& code) {
    const std::int64_t times = q.size[1] / k.size[1];
    if (times == 1 || (!is_eager() && !mask.defined() && k.size[3] <= 256))
      return attend(q, k, v, mask, true, code);
    const value all_k = repeat_heads(t, k, times, true);
    const value all_v = repeat_heads(t, v, times, true);
    return attend(q, all_k, all_v, mask, true, code);
  }
  /// The heads side by side, through the output's layer.
  constexpr attended project_out(attended made, const nn_module& out) {
    const sizes& apart = made.output->size;
    made.output = view(t, made.output, {apart[0], apart[1], apart[2] * apart[3]});
    made.output = linear(made.output, out);
    return made;
  }

  /// Query, key and value, (batch, heads, tokens, width), with their norms.
  struct projections {
    value q, k, v;
  };
  /// Told apart into heads one by one, or once all three are there.
  constexpr projections project(const layer_modules& by, const tensor& x, bool views_behind) {
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    if (setup.framework.implementation.decoder.normalizes_each_head) {
      const auto apart = [&](const nn_module& dense, std::int64_t count) {
        return view(t, linear(x, dense), {x.size[0], x.size[1], count, model.query_dim()});
      };
      projections made{apart(by.query, heads), apart(by.key, groups), apart(by.value, groups)};
      if (model.qk_norm != qk_norm_scope::none) {
        made.q = norm(made.q, by.query_norm);
        made.k = norm(made.k, by.key_norm);
      }
      for (value* one : {&made.q, &made.k, &made.v}) *one = transpose(t, *one, 1, 2);
      return made;
    }
    if (!views_behind) {
      projections made{heads_through(by.query, by.query_norm, x, heads),
                       heads_through(by.key, by.key_norm, x, groups),
                       heads_through(by.value, {}, x, groups)};
      if (!norms_turned_heads()) return made;
      made.q = norm(made.q, by.query_norm);
      made.k = norm(made.k, by.key_norm);
      return made;
    }
    const bool norms_each = setup.framework.implementation.decoder.has_norm_of_each_head;
    const auto through = [&](const nn_module& dense, const nn_module& norm_by) {
      value flat = linear(x, dense);
      if (norm_by.weight != none && !norms_each) flat = norm(flat, norm_by);
      return flat;
    };
    projections made{
        through(by.query, by.query_norm), through(by.key, by.key_norm), through(by.value, {})};
    if (model.clip_qkv)
      for (value* one : {&made.q, &made.k, &made.v}) *one = clamp_in_place(t, std::move(*one), 2);
    made.q = heads_of(made.q, heads, model.query_dim());
    made.k = heads_of(made.k, groups, model.query_dim());
    made.v = heads_of(made.v, groups, model.query_dim());
    if (norms_each && model.qk_norm != qk_norm_scope::none) {
      made.q = norm_each_head(made.q, by.query_norm.weight);
      made.k = norm_each_head(made.k, by.key_norm.weight);
    }
    return made;
  }
  /// StableLmLayerNormPerHead, of (batch, heads, tokens, width); the norms lie one behind the
  /// other.
  constexpr value norm_each_head(const tensor& x, int first) {
    growing_array<std::int64_t> ones;
    for (std::int64_t at = 0; at < x.size[1]; ++at) ones.push(1);
    held_tensors apart(t), made(t);
    cut(t, x, 1, ones, apart);
    for (int at = 0; at < apart.size(); ++at)
      made.push(norm(apart[at], nn_module{.weight = first + at}));
    return join(t, made, 1);
  }
  constexpr value heads_through(const nn_module& dense,
                                const nn_module& norm_by,
                                const tensor& x,
                                std::int64_t heads) {
    const std::int64_t head = model.query_dim();
    if (norm_by.weight == none || norms_turned_heads() || norms_rotated_heads())
      return heads_of(linear(x, dense), heads, head);
    const sizes apart{x.size[0], x.size[1], heads, head};
    return transpose(t, norm(view(t, linear(x, dense), apart), norm_by), 1, 2);
  }
  /// Whether query and key are normalised when their heads stand before the tokens.
  [[nodiscard]] constexpr bool norms_turned_heads() const {
    return setup.framework.implementation.decoder.normalizes_turned_heads &&
           model.qk_norm != qk_norm_scope::none;
  }

  [[nodiscard]] constexpr bool norms_rotated_heads() const {
    return setup.framework.implementation.decoder.normalizes_rotated_heads;
  }

  // -- positions that are rotated

  /// cat((-x2, x1)) of the halves of the last dimension.
  constexpr value rotate_half(argument given) {
    const held x(given);
    const int last = x.size.rank - 1;
    const std::int64_t half = x.size[last] / 2;
    const value first = slice(t, x, last, half);
    const value second = slice(t, x, last, half);
    return concatenate(t, scale(t, second), first, last);
  }

  // -- positions relative to each other, T5's and MPNet's

  /// A table's row for each distance: (1, heads, queries, keys), the heads next to each other.
  constexpr value relative_bias(const nn_module& table,
                                const tensor& q,
                                const tensor& k,
                                bool bidirectional) {
    const std::int64_t queries = q.size[2];
    const std::int64_t keys = k.size[2];
    const value context_position = shifted_range(queries);
    const value memory_position = full(t, sizes{keys}, element::int64);
    const value distance =
        compute(t, {&*context_position, &*memory_position}, {queries, keys}, element::int64);
    const value bucket = bucket_of({queries, keys}, bidirectional);
    value rows = transpose(t, embedding(t, bucket, table.weight), 1, 2);
    rows = transpose(t, rows, 0, 1);
    return view(t, rows, {1, rows->size[0], queries, keys});
  }
  // _relative_position_bucket
  constexpr value bucket_of(const sizes& square, bool bidirectional) {
    const auto integers = [&] { return full(t, square, element::int64); };
    const auto after = [&](argument x) { return compute(t, x, square, element::int64); };
    value buckets, position;
    if (bidirectional) {
      value product = after(after(full(t, square, element::boolean)));
      buckets = integers();
      product.drop();
      position = integers();
    } else {
      position = after(after(integers()));
    }
    const value is_small = full(t, square, element::boolean);
    value number = full(t, square, element::fp32);
    for (int operation = 0; operation < 4; ++operation) number = full(t, square, element::fp32);
    value large = after(after(std::move(number)));
    large = after(integers());
    const value chosen = integers();
    if (!bidirectional) buckets = integers();
    return buckets;
  }
  /// A learned number for each head and distance of two tokens: (batch, heads, tokens, tokens).
  constexpr value biases_of_distances(const nn_module& table, std::int64_t batch) {
    const std::int64_t tokens = setup.sequence_length;
    const sizes square{tokens, tokens};
    const value rows = full(t, sizes{tokens}, element::int64);
    const value columns = full(t, sizes{tokens}, element::int64);
    const value distances = compute(t, {&*rows, &*columns}, square, element::int64);
    const value buckets = mpnet_buckets_of(square);
    value biases = transpose(t, embedding(t, buckets, table.weight), 1, 2);
    biases = transpose(t, biases, 0, 1);
    biases = expand(t, biases, {batch, model.num_attention_heads, tokens, tokens});
    return clone(t, biases);
  }
  constexpr value mpnet_buckets_of(const sizes& square) {
    const auto number = [&] { return full(t, square, element::int64); };
    const auto real = [&] { return full(t, square, element::fp32); };
    value distance = number();
    value sign = compute(t, full(t, square, element::boolean), square, element::int64);
    sign = number();
    value side = compute(t, std::move(sign), square, element::int64);
    distance = number();
    const value is_small = full(t, square, element::boolean);
    value logarithm = real();
    for (int operation = 0; operation < 4; ++operation) logarithm = real();
    value large = compute(t, std::move(logarithm), square, element::int64);
    large = number();
    large = compute(t, number(), square, element::int64);
    t.touch(8 * square.count());
    return side;
  }
};

}  // namespace gpuplan::eager

#pragma once

// What the model classes of Hugging Face's transformers have in common: masks, attention behind one
// interface, losses. Transcribed from transformers 5.23. Private.

#include <gpuplan/replay/model_code.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// What attention returns: its result, (batch, tokens, heads, width), and the weights where the
/// products are written out, which its callers hold with the result.
struct attended {
  value output{};
  value weights{};
};

/// How a class writes its products out.
struct eager_code {
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

  // -- construction: in fp32, a tied head with a table of its own until the end; then one parameter
  // after the other is cast to the format of the weights

  constexpr void begin_construction() {
    final_format_ = weight_format;
    weight_format = element::fp32;
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
  constexpr void end_construction() {
    weight_format = final_format_;
    for (int at = 0; at < t.parameters.size(); ++at) lower(at);
  }
  constexpr void lower(int parameter) {
    tensor& data = t.parameters[parameter].data;
    if (data.format == weight_format) return;
    const tensor other = t.charge(purpose::weights)->make(data.size, weight_format).take();
    t.release(data.storage);
    data = other;
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
    value joined = t.make(sizes{1}, element::boolean);
    {
      value near;
      {
        const value first = t.make({1, 1, square[2], 1}, element::int64);
        near = t.make(square, element::boolean);
      }
      joined = t.make(square, element::boolean);
    }
    const value before = t.make(square, element::boolean);
    joined = t.make(square, element::boolean);
    return joined;
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
                            const eager_code& code) {
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
                                     const eager_code& code,
                                     const tensor& bias = {}) {
    value weights;
    {
      value product;
      {
        const value turned = transpose(t, k, 2, 3);
        product = matmul(t, q, turned);
      }
      weights = scale(t, product);
    }
    if (code.caps_scores) weights = capped(static_cast<value&&>(weights));
    if (bias.defined()) weights = add(t, weights, bias);
    if (mask.defined()) weights = add(t, weights, mask);
    if (code.softmax_in_fp32) {
      const value wide = softmax_in_fp32(weights);
      weights = cast(t, wide, q.format);
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
      made.output = static_cast<value&&>(result);
    made.weights = static_cast<value&&>(weights);
    return made;
  }
  /// cap * tanh(x / cap)
  constexpr value capped(value x) {
    x = scale(t, x);
    x = keeping_result(t, x);
    return scale(t, x);
  }
  /// softmax(x, dtype=torch.float32)
  constexpr value softmax_in_fp32(const tensor& x) {
    if (x.format == element::fp32 || x.format == element::fp16) return softmax(t, x, element::fp32);
    const value wide = cast(t, x, element::fp32);
    return softmax(t, wide, element::fp32);
  }

  // -- activations.py

  /// NewGELUActivation: 0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
  constexpr value new_gelu(const tensor& x) {
    const value half = scale(t, x);
    value factor;
    {
      value curve;
      {
        value inner;
        {
          value sum;
          {
            value cubic;
            {
              value cube;
              {
                const value wide = raised(t, x);
                cube = power(t, wide);
              }
              cubic = scale(t, cube);
            }
            sum = add(t, x, cubic);
          }
          inner = scale(t, sum);
        }
        curve = keeping_result(t, inner);
      }
      factor = add_number(t, curve);
    }
    return multiply(t, half, factor);
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

  constexpr value core(const tensor& /*q*/, const tensor& /*k*/, const tensor& /*v*/) override {
    return {};  // no class recomputes it alone
  }

  value ids_{}, labels_{}, padding_{};

 private:
  element final_format_ = element::fp32;
};

}  // namespace gpuplan::eager

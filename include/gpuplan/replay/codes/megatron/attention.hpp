#pragma once

// Megatron-Core's attention: one linear layer for query, key and value, rotary positions, and
// eager attention or a kernel. Private.

#include <gpuplan/replay/codes/megatron/ends.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_attention : public megatron_ends {
 public:
  constexpr megatron_attention(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_ends(on, of, with) {
    heads_ = model.num_attention_heads / tp_;
    groups_ = at_least(model.key_value_heads() / tp_, 1);
    if (model.key_value_heads() < tp_) heads_ = model.num_attention_heads / model.key_value_heads();
    spread_backward_.code = this;
  }
  constexpr ~megatron_attention() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  struct attention_modules {
    nn_module norm{}, proj{}, qkv{}, sinks{}, query_norm{}, key_norm{};
    low_rank beside_qkv{}, beside_proj{};
  };

  constexpr void make_attention(attention_modules& made) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t inner = model.num_attention_heads * head / tp_;
    const std::int64_t gates = model.attention_gate ? 2 : 1;
    const std::int64_t all =
        (gates * model.num_attention_heads + 2 * model.key_value_heads()) * head / tp_;
    if (model.attention_sinks)
      made.sinks.weight = on_device(sizes{model.num_attention_heads / tp_});
    list(made.sinks);
    made.proj = parallel_linear(width, inner, model.attention_out_bias);
    if (has_engine()) made.norm = norm_of(width);
    made.qkv = parallel_linear(all, width, model.attention_bias);
    name(made.proj, "attention_output");
    name(made.qkv, "query_key_value");
    if (made.proj.bias != none) of_parts_.push(made.proj.bias);
    list(made.proj);
    if (has_engine()) list(made.norm);
    list(made.qkv);
    const lora_targets& targets = setup.trains.adapters.targets;
    made.beside_qkv = low_rank_of(targets.query, all, width);
    made.beside_proj = low_rank_of(targets.attention_out, width, inner);
    if (model.qk_norm == qk_norm_scope::none) return;
    for (nn_module* each : {&made.query_norm, &made.key_norm}) {
      *each = norm_of(head);
      list(*each);
    }
  }

  // The angles of rotary positions, made once in each chunk.
  constexpr const tensor& angles(tensor& made) {
    if (made.defined()) return made;
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t head = model.query_dim();
    const auto charged = t.charge(purpose::buffers);
    const element fp32 = element::fp32;
    const sizes all{tokens};
    value products = compute(t, compute(t, t.make(all, fp32), all, fp32), {tokens, head / 2}, fp32);
    value whole = t.make({tokens, 1, 1, head}, element::fp32);
    products.drop();
    if (own_tokens() != tokens) {
      const value chunks = t.make(sizes{2}, element::int64);
      value part_of_whole = t.make({own_tokens(), 1, 1, head}, element::fp32);
      whole = std::move(part_of_whole);
    }
    made = whole.take();
    return made;
  }
  constexpr value table_of(const tensor& of_angles) {
    const sizes& all = of_angles.size;
    return cast(t, compute(t, t.make(all, element::fp32), all, element::fp32), half_);
  }
  // (t * cos) + (rotate_half(t) * sin), and nothing behind it
  constexpr value rotate(const tensor& input, const tensor& of_angles) {
    if (has_engine()) return engine_rotation(input);
    value front = pass_through(input);
    const int parts = t.add_node(empty_rest_backward_, {&input});
    tensor nothing = input;
    nothing.size[nothing.size.rank - 1] = 0;
    t.result_of(parts, nothing);
    const value cos = table_of(of_angles);
    const value sin = table_of(of_angles);
    value sum = multiply(t, front, cos);
    sum = add(t, sum, multiply(t, rotate_half(front), sin));
    front.drop();
    return concatenate(t, sum, nothing, 3);
  }
  constexpr value rotate_half(const tensor& x) {
    const int halves = split(t, x);
    const value first = part(t, halves, x, 3, x.size[3] / 2, 0);
    const value second = part(t, halves, x, 3, x.size[3] / 2, 1);
    return concatenate(t, scale(t, second), first, 3);
  }
  // The gradient of an empty slice: zeros of the whole.
  struct empty_rest_backward final : own_backward {
    constexpr void run(tape& on,
                       int index,
                       const value* /*incoming*/,
                       gradients& out) const override {
      const edge to = on.nodes[index].input[0];
      out.of[0] = on.make(on.nodes[to.node].size[to.output], on.nodes[to.node].format[to.output]);
    }
  };

  struct heads {
    value query{}, key{}, val{}, gate{};
  };

  constexpr heads project(const tensor& x, const attention_modules& by) {
    const std::int64_t head = model.query_dim();
    heads made;
    value mixed = adapted_linear(x, by.norm, by.qkv, true, by.beside_qkv);
    const std::int64_t sequence = mixed->size[0];
    const std::int64_t batch = mixed->size[1];
    const std::int64_t each = heads_ / groups_;
    if (model.key_value_heads() < tp_) {
      // every rank gathers all heads, and takes the ones of its group
      const int by_gather = t.add_node(spread_backward_, {&*mixed});
      const std::int64_t own = mixed->size[2];
      value whole;
      {
        const value pieces = t.make({sequence * tp_, batch, own}, half_);
        whole = t.make({sequence, batch, own * tp_}, half_);
      }
      t.result_of(by_gather, whole.get());
      mixed = std::move(whole);
      mixed = slice(t, mixed, 2, own * tp_ / model.key_value_heads());
    }
    const std::int64_t gates = model.attention_gate ? 2 : 1;
    mixed = view(t, mixed, {sequence, batch, groups_, (gates * each + 2) * head});
    const int parts = split(t, mixed);
    value query = part(t, parts, mixed, 3, gates * each * head, 0);
    made.key = part(t, parts, mixed, 3, head, 1);
    made.val = part(t, parts, mixed, 3, head, 2);
    if (model.attention_gate) {
      const int halves = split(t, query);
      made.gate = part(t, halves, query, 3, each * head, 1);
      query = part(t, halves, query, 3, each * head, 0);
      made.gate = reshape(t, made.gate, {sequence, batch, heads_ * head});
    }
    query = reshape(t, query, {sequence, batch, heads_, head});
    if (model.key_value_heads() < tp_)
      query = slice(t, query, 2, heads_ * model.key_value_heads() / tp_);
    made.query = std::move(query);
    return made;
  }
  // The way back of a gather along the last dimension.
  struct spread_backward final : own_backward {
    megatron_attention* code = nullptr;
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const value pieces = on.make(sizes{g.count()}, g.format);
      sizes own = g.size;
      own[2] /= code->tp_;
      out.of[0] = on.make(own, g.format);
    }
  };

  // Keys and values for every head of the query, as a copy.
  constexpr value repeat_groups(const tensor& of, std::int64_t times) {
    const sizes s = of.size;
    tensor apart_tensor = of;
    apart_tensor.size[4] = s[3];
    apart_tensor.stride[4] = of.stride[3];
    apart_tensor.size[3] = 1;
    apart_tensor.stride[3] = of.stride[3] * s[3];
    apart_tensor.size.rank = 5;
    apart_tensor.is_view = true;
    const int by = t.add_node(node_kind::view, {&of});
    if (node* made = t.at(by)) made->size[1] = s;
    t.result_of(by, apart_tensor);
    t.hold(apart_tensor.storage);
    value apart(t, apart_tensor);
    const value wide = expand(t, apart, {s[0], s[1], s[2], times, s[3]});
    apart.drop();
    const value copy = clone(t, wide);
    return view(t, copy, {s[0], s[1], s[2] * times, s[3]});
  }

  // A product into a buffer that is there: baddbmm with beta 0.
  struct scaled_matmul_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      for (int which = 0; which < 2; ++which) {
        const tensor& other = on.kept_by(index, 1 - which);
        sizes wanted = g.size;
        if (which == 0)
          wanted[2] = other.size[1];
        else
          wanted[1] = other.size[2];
        const value product = on.make(wanted, g.format);
        on.touch_workspace();
        out.of[which] = on.make(wanted, g.format);
      }
    }
  };
  constexpr value scaled_matmul(const tensor& query, const tensor& turned_key) {
    const int by = t.add_node(scaled_matmul_backward_, {&query, &turned_key});
    t.keep(by, query);
    t.keep(by, turned_key);
    value result = t.make({query.size[0], query.size[1], turned_key.size[2]}, half_);
    t.touch_workspace();
    t.result_of(by, result.get());
    return result;
  }
  // The mask's fill in place, in a view of the scores: the way back copies the gradient first.
  struct fill_in_view_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      value whole = on.make(g.size, g.format);
      const value piece = on.make(g.size, g.format);
      const value filled = on.make(g.size, g.format);
      out.of[0] = std::move(whole);
    }
  };

  constexpr value causal_mask() {
    const sizes square{setup.sequence_length, setup.sequence_length};
    const value upper = compute(t, t.make(square, element::fp32), square, element::fp32);
    return t.make(square, element::boolean);
  }

  constexpr value eager_core(const tensor& q,
                             const tensor& k,
                             const tensor& v,
                             const tensor& given_mask) {
    const std::int64_t batch = q.size[1];
    const std::int64_t count = q.size[2];
    const std::int64_t tokens = q.size[0];
    const std::int64_t head = q.size[3];
    value key = t.share(k);
    value val = t.share(v);
    if (count != k.size[2]) {
      key = repeat_groups(key, count / k.size[2]);
      val = repeat_groups(val, count / v.size[2]);
    }
    value query = reshape(t, q, {tokens, batch * count, head});
    key = view(t, key, {tokens, batch * count, head});
    value place;
    if (setup.framework.implementation.fuses_softmax)
      place = t.make({batch * count, tokens, tokens}, half_);
    else
      place = shared_buffer({batch * count, tokens, tokens});
    const value left = transpose(t, query, 0, 1);
    const value right = transpose(t, transpose(t, key, 0, 1), 1, 2);
    value product = scaled_matmul(left, right);
    if (setup.framework.implementation.fuses_softmax) place.drop();
    const sizes square{batch, count, tokens, tokens};
    value scores = view(t, product, square);
    value probabilities;
    if (setup.framework.implementation.fuses_softmax)
      probabilities = fused_softmax(scores);
    else
      probabilities = masked_softmax(scores, product, given_mask);
    probabilities = dropout(t, probabilities, drops_attention);
    val = view(t, val, {tokens, batch * count, head});
    probabilities = view(t, probabilities, {batch * count, tokens, tokens});
    const value turned = transpose(t, val, 0, 1);
    value context = product_of(probabilities, turned);
    context = view(t, context, {batch, count, tokens, head});
    context = contiguous(t, transpose(t, transpose(t, context, 0, 2), 1, 2));
    return view(t, context, {tokens, batch, count * head});
  }
  constexpr value product_of(const tensor& a, const tensor& b) {
    const int by = t.add_node(node_kind::bmm, {&a, &b});
    if (a.needs_gradient()) t.keep(by, b);
    if (b.needs_gradient()) t.keep(by, a);
    t.note(by, {a.size[0], a.size[1], a.size[2], b.size[2]});
    value result = t.make({a.size[0], a.size[1], b.size[2]}, a.format);
    t.touch_workspace();
    t.result_of(by, result.get());
    return result;
  }
  // Scaled, masked and normalised at once; the gradient is computed where it came.
  struct fused_softmax_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      out.of[0] = on.share(*incoming[0]);
    }
  };
  constexpr value fused_softmax(const tensor& scores) {
    const int by = t.add_node(fused_softmax_backward_, {&scores});
    value result = t.make(scores.size, half_);
    t.result_of(by, result.get());
    t.keep(by, result);
    return result;
  }
  constexpr value masked_softmax(value& scores, value& product, const tensor& given_mask) {
    value wide = t.share(scores);
    if (setup.framework.implementation.softmax_in_fp32) wide = cast(t, wide, element::fp32);
    value mask;
    if (given_mask.defined())
      mask = t.share(given_mask);
    else
      mask = causal_mask();
    if (setup.framework.implementation.softmax_in_fp32) {
      // masked_fill_ of the copy
      const int by = t.add_node(node_kind::mask_fill, {&*wide});
      t.keep(by, mask);
      t.result_of(by, wide.get());
    } else {
      const int by = t.add_node(fill_in_view_backward_, {&*product});
      t.keep(by, mask);
      t.result_of(by, product.get());
      wide = view(t, product, scores->size);
    }
    value probabilities = softmax(t, wide, wide->format);
    if (setup.framework.implementation.softmax_in_fp32)
      probabilities = cast(t, probabilities, half_);
    return probabilities;
  }

  // By a kernel that takes (batch, heads, sequence, head).
  constexpr value kernel_core(const tensor& q, const tensor& k, const tensor& v) {
    const auto turned = [&](const tensor& x) {
      return transpose(t, transpose(t, x, 0, 2), 0, 1);  // (heads, batch, sequence, head)
    };
    const value query = turned(q);
    const value key = turned(k);
    const value val = turned(v);
    value out = flash_attention(t, query, key, val, drops_attention);
    // in memory it follows the query: (sequence, batch, heads, head)
    tensor& seen = out.get();
    const sizes s = seen.size;
    seen.stride[3] = 1;
    seen.stride[1] = s[3];
    seen.stride[0] = s[3] * s[1];
    seen.stride[2] = s[3] * s[1] * s[0];
    out = contiguous(t, transpose(t, transpose(t, out, 0, 2), 1, 2));
    return view(t, out, {s[2], s[0], s[1] * s[3]});
  }

  // By Transformer Engine, which takes all three out of one tensor, head by head, or none.
  constexpr value engine_core(const tensor& q, const tensor& k, const tensor& v) {
    const bool are_packed = q.storage == v.storage && q.size == k.size && q.size == v.size;
    const auto as_wanted = [&](const tensor& x) {
      if (are_packed) return t.share(x);
      return contiguous(t, x);
    };
    const value query = as_wanted(q);
    const value key = as_wanted(k);
    const value val = as_wanted(v);
    const value out = engine_attention(query, key, val);
    return view(t, out, {q.size[0], q.size[1], q.size[2] * v.size[3]});
  }

  constexpr value attend(const tensor& q, const tensor& k, const tensor& v, const tensor& mask) {
    if (has_engine()) return engine_core(q, k, v);
    if (setup.attention == attention_kernel::eager) return eager_core(q, k, v, mask);
    return kernel_core(q, k, v);
  }

  constexpr value attention(const tensor& x,
                            const attention_modules& by,
                            const tensor& mask,
                            const tensor& of_angles) {
    const heads first = project(x, by);
    value query = t.share(first.query);
    value key = t.share(first.key);
    if (by.query_norm.weight != none) {
      query = engine_norm(query, by.query_norm);
      key = engine_norm(key, by.key_norm);
    }
    if (of_angles.defined()) {
      query = rotate(query, of_angles);
      key = rotate(key, of_angles);
    }
    value context;
    if (recomputes(&recomputed_modules::core_attention)) {
      const tensor inputs[] = {*query, *key, *first.val, mask};
      context = checkpoint(inputs, 4, core_region, core_region);
    } else {
      context = attend(query, key, first.val, mask);
    }
    if (first.gate->defined()) context = gated_output(context, first.gate);
    if (setup.offloads.core_attention) {
      growing_array<int> read;
      for (const int one : {query->storage, key->storage, first.val->storage}) list_once(read, one);
      context = drop_until_backward(read, context);
    }
    if (by.beside_proj.down != none) return adapted_row_linear(context, by.proj, by.beside_proj);
    return project_out(context, by.proj);
  }

 private:
  // x * sigmoid(gate) in fp32, in one kernel
  constexpr value gated_output(const tensor& x, const tensor& gate) {
    const int index = t.add_node(gated_output_backward_, {&x, &gate});
    t.keep(index, x);
    t.keep(index, gate);
    value result = t.make(x.size, x.format);
    t.result_of(index, result.get());
    return result;
  }
  struct gated_output_backward final : own_backward {
    constexpr void run(tape& on, int index, const value*, gradients& out) const override {
      for (int which = 0; which < 2; ++which) {
        const tensor of = on.kept_by(index, which);
        out.of[which] = on.make(of.size, of.format);
      }
    }
  };

  std::int64_t heads_ = 0;   // of this rank
  std::int64_t groups_ = 0;  // of keys and values

  gated_output_backward gated_output_backward_{};
  empty_rest_backward empty_rest_backward_{};
  spread_backward spread_backward_{};
  scaled_matmul_backward scaled_matmul_backward_{};
  fill_in_view_backward fill_in_view_backward_{};
  fused_softmax_backward fused_softmax_backward_{};
};

}  // namespace gpuplan::eager

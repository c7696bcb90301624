#pragma once

// gpt-oss of torchtitan 0.3: attention with sinks, by FlashAttention over the rows of all
// documents, and experts with biases and neighbouring gates. Private.

#include <gpuplan/replay/codes/torchtitan_2026_experts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

// ---- attention to all tokens of the documents

// (rows, heads, width), whose rows are of documents one behind the other, as (documents, heads,
// tokens, width).
constexpr tensor by_document(const tensor& rows, std::int64_t tokens) {
  tensor seen = rows;
  seen.size = {rows.size[0] / tokens, rows.size[1], tokens, rows.size[2]};
  return seen;
}
constexpr void rows_attention_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor q = b.kept(0), k = b.kept(1);
  const std::int64_t heads = q.size[1];
  const std::int64_t width = q.size[2];
  const std::int64_t tokens = b.by.argument[2];
  const std::int64_t documents = q.size[0] / tokens;
  const tensor all_q = by_document(q, tokens), all_k = by_document(k, tokens);
  const double flops = count_attention_backward(t, b.by, all_q, all_k);
  for (int which = 0; which < 3; ++which)
    b.out[which] = t.make(b.kept(which).size, b.kept(which).format);
  const std::int64_t rows = (q.size[0] + 128 * documents) * heads;
  const int row_sums = t.new_storage(4 * rows, {"sums of rows"});
  const int sums = t.new_storage(4 * rows * round_up(width, width > 128 ? 64 : 32),
                                 {"gradient of queries in fp32"});
  int kernels = 3;
  if (heads != k.size[1]) {
    const int of_keys = t.new_storage(q.bytes(), {"gradients of keys of all heads"});
    const int of_values = t.new_storage(q.bytes(), {"gradients of values of all heads"});
    t.release(of_keys);
    t.release(of_values);
    kernels += 2;
  }
  t.executes({&b.g, &*b.out[0], &*b.out[1], &*b.out[2]},
             {.kernels = kernels,
              .product = scores_of(all_q, all_k),
              .attention_flops = flops,
              .is_flash = true,
              .bytes = bytes_of_kept(b)});
  t.release(row_sums);
  t.release(sums);
}
inline constexpr node_kind rows_attention_node{"attention", &rows_attention_backward};
struct attended_rows {
  value out{};
  value sums{};
};
/// FlashAttention-2 of (rows, heads, width), as many `tokens` to a document. Keeps the three, the
/// result, and a number of each row in fp32, which it hands out too: no gradient comes back by it.
constexpr attended_rows attend_rows(
    tape& t, const tensor& q, const tensor& k, const tensor& v, std::int64_t tokens) {
  const int by = t.add_node(rows_attention_node, {&q, &k, &v});
  for (const tensor* one : {&q, &k, &v}) t.keep(by, *one);
  const tensor all_q = by_document(q, tokens), all_k = by_document(k, tokens);
  const attention_flops flops = flops_of_attention(all_q, all_k, q.size[2], v.size[2]);
  t.note(by, {q.size[2], v.size[2], tokens});
  attended_rows made;
  value state;
  const bool stays = t.stays(false);
  if (stays && t.is_recomputing()) {
    made.out = t.saved_result();
    made.sums = t.saved_result();
    state = t.saved_result();
  } else {
    t.count_forward(flops.scores + flops.values);
    made.out = t.make(q.size, q.format, {"attention"});
    made.sums = t.make({q.size[1], q.size[0]}, element::fp32, {"log-sums of scores"});
    {
      const value seed = t.make({2}, element::int64, {"random state"});
      const value unused = t.make({1}, element::int64, {"random state"});
      t.executes({&q, &k, &v, &*made.out, &*made.sums},
                 {.product = scores_of(all_q, all_k),
                  .attention_flops = flops.scores + flops.values,
                  .is_flash = true});
    }
    state = full(t, sizes{2}, element::int64, {"random state"});
    for (const value* result : {&made.out, &made.sums, &state})
      if (stays) t.save_result(*result);
  }
  for (const value* result : {&made.out, &made.sums, &state}) t.keep(by, *result);
  t.result_of(by, made.out.get());
  return made;
}

// ---- biases of experts

/// Rows of a short table, so often as `number_of_each` says: repeat_interleave to a known length.
/// Keeps the numbers of the rows.
constexpr void repeated_by_number_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, {.kernels = 2});
}
inline constexpr node_kind repeated_by_number_node{"repeated rows", &repeated_by_number_backward};
constexpr value repeat_by_number(tape& t,
                                 const tensor& rows,
                                 const tensor& number_of_each,
                                 std::int64_t count) {
  value numbers;
  {
    const value ends = t.make(number_of_each.size, element::int64);
    t.touch(tile_states(number_of_each.count(), 2464, 16));
    t.executes({&number_of_each, &*ends}, device_work{});
    numbers = t.make(sizes{count}, element::int64, {"numbers of rows"});
    t.executes({&*ends, &*numbers});
  }
  const int by = t.add_node(repeated_by_number_node, {&rows});
  if (node* made = t.at(by)) made->size[1] = rows.size;
  t.keep(by, numbers);
  value repeated = t.make({count, rows.size[1]}, rows.format, {"repeated rows", none, &rows});
  t.executes({&rows, &*numbers, &*repeated});
  t.result_of(by, repeated.get());
  return repeated;
}

/// a + b * c, where both are needed again.
constexpr void product_added_backward(const node_backward& b) {
  tape& t = b.t;
  if (b.wants(0)) b.out[0] = t.share(b.g);
  const auto times = [&](const tensor& other) {
    const value scaled = compute(t, other, other.size, other.format);
    value made = t.make_like(b.g.size, b.g.format, b.g, *scaled);
    t.executes({&b.g, &*scaled, &*made});
    return made;
  };
  if (b.wants(1)) b.out[1] = times(b.kept(1));
  if (b.wants(2)) b.out[2] = times(b.kept(0));
}
inline constexpr node_kind product_added_node{"product", &product_added_backward};
constexpr value add_product(tape& t, const tensor& a, const tensor& b, const tensor& c) {
  const int by = t.add_node(product_added_node, {&a, &b, &c});
  t.keep(by, b);
  t.keep(by, c);
  value sum = t.make_like(a.size, a.format, a, b, "sum");
  t.executes({&a, &b, &c, &*sum});
  t.result_of(by, sum.get());
  return sum;
}

class torchtitan_gpt_oss final : public torchtitan_mixture {
 public:
  using torchtitan_mixture::torchtitan_mixture;
  constexpr ~torchtitan_gpt_oss() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  [[nodiscard]] constexpr bool rotates_halves() const override { return true; }

  // VarlenMetadata: where documents begin
  constexpr void make_masks(held_tensors& made) override {
    t.executes(plan.micro_batch * 100, {.kernels = 20});
    made.push(t.make(sizes{plan.micro_batch + 1}, element::int32, {"mask"}));
  }

  constexpr void build_layer(layer_modules& made, std::int64_t at, bool trains) override {
    build_attention(made, trains);
    build_angles(at);
    build_norms(made, trains);
    build_feed_forward(made, at, trains);
  }
  constexpr void build_attention(layer_modules& made, bool trains) override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t heads = own_heads() * model.query_dim();
    const std::int64_t groups = own_groups() * model.query_dim();
    made.sinks = parameter(sizes{own_heads()}, trains);
    t.parameters[made.sinks].name = "sinks";
    made.qkv = linear_module(operator_kind::query, heads + 2 * groups, width, true, trains);
    made.out = linear_module(operator_kind::attention_output, width, heads, true, trains);
  }
  constexpr void build_router(nn_module& made, bool trains) override {
    torchtitan_mixture::build_router(made, trains);
    made.bias = parameter(sizes{model.moe.num_experts}, trains);
  }
  constexpr void build_experts(expert_modules& made, bool trains) override {
    const auto parted = t.parting_along(parted_along());
    const auto apart = t.parting_apart(ranks_with_experts());
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = own_expert_width();
    const std::int64_t count = local_experts();
    const auto matrices = [&](std::int64_t to, std::int64_t from) {
      nn_module all;
      all.weight = parameter({count, to, from}, trains);
      all.bias = parameter({count, to}, trains);
      name(all, "experts");
      return all;
    };
    made.up = matrices(2 * inner, width);
    made.down = matrices(width, inner);
  }

  constexpr value attention(const layer_modules& by, argument given, int index) override {
    const held normed(given);
    const value x = ranks_.gather(normed);
    value q, k, v;
    project(x, by, q, k, v);
    rotate(q, k, index);
    value attended = attend_beside_sinks(by, q, k, v);
    const sizes flat{attended->size[0], attended->size[1], attended->size[2] * attended->size[3]};
    attended = view(t, std::move(attended), flat);
    value result;
    {
      // ScaledBiasRowwiseLinear: the bias over the number of tensor-parallel ranks
      const value bias = scale(t, t.parameter(by.out.bias));
      const value w = lowered_parameter(t, by.out.weight);
      result = multiplied(t, attended, w, bias, by.out.weight);
      if (ranks_.is_on()) result = ranks_.scatter(result);
    }
    attended.drop();
    for (value* const name : {&q, &k, &v}) name->drop();
    return result;
  }

  // GptOssGroupedExperts
  constexpr value inner_experts(const expert_modules& by,
                                const tensor& routed,
                                const tensor& counts) override {
    const std::int64_t rows = routed.size[0];
    value ends = ends_of_groups(counts);
    value number_of_each;
    {
      const value rest = t.make(sizes{1}, element::int32);
      const value wide = t.make(sizes{1}, element::int64);
      number_of_each = t.make(sizes{counts.count() + 1}, element::int64);
      t.executes({&counts, &*rest, &*wide, &*number_of_each}, {.kernels = 3});
    }
    const auto times = [&](const tensor& x, const nn_module& of) {
      return grouped_product(t, x, transpose(t, t.parameter(of.weight), 1, 2), ends);
    };
    const auto padded_bias_of = [&](const nn_module& of) {
      const tensor bias = t.parameter(of.bias);
      const value zeros = full(t, {1, bias.size[1]}, bias.format);
      return concatenate(t, bias, zeros, 0);
    };
    value both = times(routed, by.up);
    value inner_bias = padded_bias_of(by.up);
    value inner_biases = repeat_by_number(t, inner_bias, number_of_each, rows);
    both = add(t, both, inner_biases);
    value hidden = gate(both);
    value out = times(hidden, by.down);
    value bias = padded_bias_of(by.down);
    value biases = repeat_by_number(t, bias, number_of_each, rows);
    value sum = add(t, out, biases);
    // names of a function of Python end with it, in this order
    for (value* const name :
         {&ends, &number_of_each, &both, &inner_bias, &inner_biases, &hidden, &out, &bias, &biases})
      name->drop();
    return sum;
  }

 private:
  // VarlenAttention, whose result is scaled by what the sinks leave of it
  constexpr value attend_beside_sinks(const layer_modules& by,
                                      const tensor& q,
                                      const tensor& k,
                                      const tensor& v) {
    const std::int64_t batch = q.size[0];
    const std::int64_t tokens = q.size[1];
    const std::int64_t heads = q.size[2];
    const auto in_rows = [&](const tensor& of) {
      return view(t, of, {batch * tokens, of.size[2], of.size[3]});
    };
    const value rows_q = in_rows(q);
    const value rows_k = in_rows(k);
    const value rows_v = in_rows(v);
    const attended_rows seen = attend_rows(t, rows_q, rows_k, rows_v, tokens);
    const value out = view(t, seen.out, q.size);
    tensor sums = *seen.sums;
    sums.size = {batch, tokens, heads};
    sums.is_view = true;
    const value sinks = view(t, t.parameter(by.sinks), {1, 1, heads});
    const value left = keeping_result(t, subtract(t, sums, sinks));
    const value share = cast(t, view(t, left, {batch, tokens, heads, 1}), out->format);
    return multiply(t, out, share);
  }
  // swiglu, of neighbours
  constexpr value gate(const tensor& both) {
    value front = every_second(t, both, 1);
    value up = every_second(t, both, 1);
    front = clamp(t, std::move(front), 1);
    up = clamp(t, std::move(up), 2);
    value glu = multiply(t, front, keeping_result(t, scale(t, front)));
    value sum = add_product(t, glu, glu, up);
    for (value* const name : {&front, &up, &glu}) name->drop();
    return sum;
  }
};

/// Whichever of torchtitan's decoders the model is.
inline constexpr code_maker torchtitan_2026_code{
    [](tape& t, const training_setup& setup, const batch_plan& plan, code_user& user) {
      if (setup.model.attention_sinks)
        code_of<torchtitan_gpt_oss>.run(t, setup, plan, user);
      else if (setup.model.is_latent())
        code_of<torchtitan_latent>.run(t, setup, plan, user);
      else if (setup.model.moe.num_experts != 0)
        code_of<torchtitan_mixture>.run(t, setup, plan, user);
      else
        code_of<torchtitan_decoder>.run(t, setup, plan, user);
    }};

}  // namespace gpuplan::eager

#pragma once

// Megatron-Core's layers without attention: Mamba-2 by mamba_ssm's fused function, and the gated
// delta rule by flash-linear-attention. Their kernels are Triton's: what these functions make is
// counted as their Python makes it. Private.

#include <gpuplan/operators.hpp>
#include <gpuplan/replay/codes/megatron/experts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_recurrent : public megatron_experts {
 public:
  constexpr megatron_recurrent(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_experts(on, of, with) {
    scan_backward_.code = this;
    delta_backward_.code = this;
  }
  constexpr ~megatron_recurrent() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  struct recurrent_modules {
    nn_module in_norm{}, in{}, convolution{}, norm{}, out{};
    nn_module of_heads[3]{};
    bool is_delta_rule = false;
  };

  constexpr recurrent_modules make_recurrent(bool is_delta_rule) {
    const std::int64_t width = model.hidden_size;
    const recurrent_operator by =
        is_delta_rule ? operator_of(model.linear) : operator_of(model.mamba);
    const shape of(by, tp_);
    recurrent_modules made;
    made.is_delta_rule = is_delta_rule;
    made.in_norm = norm_of(width);
    made.in = parallel_linear(of.projected, width, false);
    name(made.in, "mixer_in");
    made.convolution.weight = on_device({of.channels, 1, by.kernel});
    if (by.bias) made.convolution.bias = on_device(sizes{of.channels});
    for (std::int64_t at = 0; at < by.vectors_of_head; ++at)
      made.of_heads[at].weight = on_device(sizes{of.heads});
    made.norm.weight = on_device(sizes{is_delta_rule ? by.norm_width : of.inner});
    made.out = parallel_linear(width, of.inner, false);
    name(made.out, "mixer_out");
    for (const nn_module& each : made.of_heads) list(each);
    for (const nn_module* each :
         {&made.in_norm, &made.in, &made.convolution, &made.norm, &made.out})
      list(*each);
    return made;
  }

  constexpr value recur(const tensor& x, const recurrent_modules& by) {
    value mixed = column_linear(x, by.in_norm, by.in, false);
    mixed = transpose(t, mixed, 0, 1);  // (batch, sequence, all that is read)
    if (!by.is_delta_rule) mixed = contiguous(t, mixed);
    value core;
    if (by.is_delta_rule)
      core = delta_rule(mixed, by);
    else
      core = scan(mixed, by);
    mixed.drop();
    if (by.is_delta_rule) {
      core = gated_norm(core, by);
      core = contiguous(t, transpose(t, core, 0, 1));
    } else {
      core = contiguous(t, transpose(t, core, 0, 1));
      core = gated_norm(core, by);
    }
    return row_linear(core, by.out);
  }

 private:
  // On this rank: of context parallelism it has all tokens of a part of its heads.
  struct shape {
    std::int64_t heads = 0, groups = 0, inner = 0, keys = 0, channels = 0, projected = 0;
    std::int64_t value_dim = 0, key_dim = 0, chunk = 0;

    constexpr shape(const recurrent_operator& by, std::int64_t ranks)
        : heads(by.heads / ranks),
          groups(by.groups / ranks),
          inner(heads * by.value_dim),
          keys(groups * by.key_dim),
          channels(inner + 2 * keys),
          projected(channels + inner + (by.is_delta_rule ? 2 : 1) * heads),
          value_dim(by.value_dim),
          key_dim(by.key_dim),
          chunk(by.chunk) {}
  };
  [[nodiscard]] constexpr shape here(bool is_delta_rule) const {
    return {is_delta_rule ? operator_of(model.linear) : operator_of(model.mamba), tp_};
  }

  // -- mamba_split_conv1d_scan_combined

  // What is made beside results of the kernels, again in the backward.
  struct scan_state {
    value convolved{}, sums{}, steps{}, scores{}, states{}, passed{};
  };
  constexpr void make_states(scan_state& made, const sizes& rows, const shape& of) {
    const std::int64_t chunks = gpuplan::detail::ceil_div(rows[1], of.chunk);
    const element fp32 = element::fp32;
    const sizes in_chunks{rows[0], of.heads, chunks * of.chunk};
    made.convolved = t.make({rows[0], rows[1], of.channels}, half_);
    made.sums = t.make(in_chunks, fp32);
    made.steps = t.make(in_chunks, fp32);
    made.states = t.make({rows[0], chunks * of.heads, of.value_dim * of.key_dim}, fp32);
    made.passed = t.make({rows[0], chunks * of.heads, of.value_dim * of.key_dim}, half_);
    {
      const value last = t.make({rows[0], of.heads, of.value_dim * of.key_dim}, fp32);
      made.states.drop();
    }
    made.scores = t.make({rows[0], chunks * of.groups, of.chunk * of.chunk}, fp32);
  }
  constexpr value scan(const tensor& x, const recurrent_modules& by) {
    const shape of = here(false);
    const tensor weight = t.parameter(by.convolution.weight);
    const tensor bias = by.convolution.bias == none ? tensor{} : t.parameter(by.convolution.bias);
    const int index = t.add_node(scan_backward_, {&x, &weight, &bias});
    value result, ungated;
    {
      scan_state made;
      make_states(made, x.size, of);
      result = t.make({x.size[0], x.size[1], of.inner}, half_);
      ungated = t.make({x.size[0], x.size[1], of.inner}, half_);
    }
    t.keep(index, x);
    t.keep(index, ungated);
    t.result_of(index, result.get());
    return result;
  }
  struct scan_backward final : own_backward {
    megatron_recurrent* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const shape of = code->here(false);
      const tensor x = on.kept_by(index, 0);
      const sizes rows = incoming[0]->size;
      const element half = code->half_;
      scan_state made;
      code->make_states(made, rows, of);
      value of_input = on.make(x.size, half);
      {
        const value gradient = on.make(rows, half);  // behind the gate
        const value of_states = on.make(made.passed->size, half);
        const value of_passed = on.make(made.passed->size, half);
        const value of_values = on.make(rows, half);
        const value of_steps = on.make(made.steps->size, element::fp32);
        const sizes keys{rows[0], rows[1], of.keys};
        const value of_keys = on.make(keys, element::fp32);
        const value of_queries = on.make(keys, element::fp32);
        const value of_scores = on.make(made.scores->size, element::fp32);
      }
      for (int which = 1; which < 3; ++which) {
        if (on.nodes[index].input[which].node == none) continue;
        const std::int64_t each = which == 1 ? code->model.mamba.conv_kernel : 1;
        out.of[which] = on.make(sizes{of.channels * each}, half);
      }
      out.of[0] = std::move(of_input);
    }
  };

  // -- chunk_gated_delta_rule, and what leads to it

  constexpr value delta_rule(const tensor& x, const recurrent_modules& by) {
    const shape of = here(true);
    const tensor weight = t.parameter(by.convolution.weight);
    const int index = t.add_node(delta_backward_, {&x, &weight});
    const std::int64_t batch = x.size[0];
    const std::int64_t tokens = x.size[1];
    const sizes narrow{batch, tokens, of.keys};
    const sizes keys{batch, tokens, of.heads * of.key_dim};
    const sizes values{batch, tokens, of.inner};
    const sizes of_head{batch, tokens, of.heads};
    const value turned = t.make({batch, of.channels, tokens}, half_);
    value query, key, val;
    value normed[2];
    {
      const value convolved = t.make(turned->size, half_);
      for (value& one : normed) {
        const value copy = t.make(narrow, half_);
        one = t.make(narrow, half_);
      }
      query = t.make(keys, half_);
      key = t.make(keys, half_);
      val = t.make(values, half_);
    }
    const value gate = t.make(values, half_);
    // -exp(A) * softplus(alpha + bias) in fp32, and sigmoid(beta)
    const value shifted = t.make(of_head, element::fp32);
    const value decay = t.make(of_head, element::fp32);
    const value rate = t.make(of_head, half_);
    const value sums = t.make(of_head, element::fp32);
    const sizes triangles{batch, tokens, of.heads * of.chunk};
    value inverse;
    {
      const value triangle = t.make(triangles, element::fp32);
      inverse = t.make(triangles, half_);
    }
    value result;
    {
      delta_state made;
      make_states(made, batch, tokens, of);
      result = t.make(values, half_);
    }
    const value* const kept[] = {&turned,
                                 &normed[0],
                                 &normed[1],
                                 &query,
                                 &key,
                                 &val,
                                 &gate,
                                 &shifted,
                                 &decay,
                                 &rate,
                                 &sums,
                                 &inverse};
    for (const value* one : kept) t.keep(index, **one);
    t.result_of(index, result.get());
    return result;
  }
  struct delta_state {
    value keys{}, values{}, states{}, corrected{};
  };
  constexpr void make_states(delta_state& made,
                             std::int64_t batch,
                             std::int64_t tokens,
                             const shape& of) {
    const std::int64_t chunks = gpuplan::detail::ceil_div(tokens, of.chunk);
    made.keys = t.make({batch, tokens, of.heads * of.key_dim}, half_);
    made.values = t.make({batch, tokens, of.inner}, half_);
    made.states = t.make({batch, chunks * of.heads, of.value_dim * of.key_dim}, half_);
    made.corrected = t.make({batch, tokens, of.inner}, half_);
  }
  struct delta_backward final : own_backward {
    megatron_recurrent* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const shape of = code->here(true);
      const element half = code->half_;
      const sizes values = incoming[0]->size;
      const sizes keys{values[0], values[1], of.heads * of.key_dim};
      value of_query, of_key, of_value;
      {
        delta_state made;
        code->make_states(made, values[0], values[1], of);
        const value of_states = on.make(made.states->size, half);
        const value of_corrected = on.make(values, half);
        of_value = on.make(values, half);
        of_query = on.make(keys, half);
        of_key = on.make(keys, half);
        const value of_triangle =
            on.make({values[0], values[1], of.heads * of.chunk}, element::fp32);
      }
      value mixed;
      {
        const value joined = on.make({values[0], of.channels, values[1]}, half);
        mixed = on.make(joined->size, half);
      }
      out.of[1] = on.make(sizes{of.channels * code->model.linear.conv_kernel_dim}, half);
      const edge to = on.nodes[index].input[0];
      out.of[0] = on.make(on.nodes[to.node].size[to.output], half);
    }
  };

  // -- the norm of what comes out

  constexpr value gated_norm(const tensor& x, const recurrent_modules& by) {
    const tensor weight = t.parameter(by.norm.weight);
    const int index = t.add_node(gated_norm_backward_, {&x, &weight});
    t.note(index, {by.is_delta_rule ? 1 : 0});
    const std::int64_t groups = by.is_delta_rule ? here(true).heads : here(false).groups;
    const value spreads = t.make(sizes{x.size[0] * x.size[1] * groups}, element::fp32);
    value normed;
    if (by.is_delta_rule) normed = t.make(x.size, half_);
    value result = t.make(x.size, half_);
    t.keep(index, x);
    t.keep(index, spreads);
    if (by.is_delta_rule) t.keep(index, normed);
    t.result_of(index, result.get());
    return result;
  }
  struct gated_norm_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor x = on.kept_by(index, 0);
      value behind;
      if (on.nodes[index].argument[0] == 1) behind = on.make(incoming[0]->size, x.format);
      out.of[0] = on.make(x.size, x.format);
      out.of[1] = on.make(sizes{x.size[x.size.rank - 1]}, x.format);
    }
  };

  scan_backward scan_backward_{};
  delta_backward delta_backward_{};
  gated_norm_backward gated_norm_backward_{};
};

}  // namespace gpuplan::eager

#pragma once

// Mamba2ForCausalLM of Hugging Face's transformers 5.23 by its functions of PyTorch, which run
// where mamba_ssm's kernels are not installed. Private.

#include <gpuplan/catalog/frameworks/hugging_face_mamba.hpp>
#include <gpuplan/replay/codes/hugging_face_parts.hpp>
#include <gpuplan/replay/eager/operators/recurrences.hpp>
#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class mamba2_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~mamba2_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  struct mixer_modules {
    nn_module norm{}, convolution{}, in{}, gated_norm{}, out{};
    int steps = none, rates = none, skips = none;  // dt_bias, A_log, D
  };
  // Mamba2Block
  constexpr layer_modules build_layer(bool trains) override {
    const state_space& mamba = model.mamba;
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = mamba.inner();
    const std::int64_t channels = mamba.channels();
    mixer_modules made;
    made.norm = norm_module(width, trains);
    for (int* one : {&made.steps, &made.rates, &made.skips})
      *one = parameter(sizes{mamba.num_heads}, trains);
    made.convolution.weight = parameter({channels, 1, mamba.conv_kernel}, trains);
    if (mamba.conv_bias) made.convolution.bias = parameter(sizes{channels}, trains);
    made.in = linear_module(operator_kind::mixer_in,
                            inner + channels + mamba.num_heads,
                            width,
                            mamba.proj_bias,
                            trains);
    made.gated_norm = norm_module(inner, trains);
    made.out = linear_module(operator_kind::mixer_out, width, inner, mamba.proj_bias, trains);
    mixers_.push(made);
    return {};
  }

  // Mamba2Model
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    if (setup.padding_mask) {  // asks whether it hides none
      const value is_token = compute(t, padding_, padding_->size, element::boolean);
      const value are_all = compute(t, is_token, sizes{1}, element::boolean);
    }
    return norm(run_layers(t.share(embedded), {&*padding_}), norm_);
  }
  constexpr value logits_of(const tensor& hidden) override {
    return cast(t, linear(cast(t, hidden, weight_format), head_), element::fp32);
  }

  // Mamba2Block
  constexpr value layer(int index, const tensor& x) override {
    const mixer_modules& by = mixers_[index];
    value hidden = norm(cast(t, x, weight_format), by.norm);
    value residual = t.share(x);
    if (model.mamba.residual_in_fp32) residual = cast(t, x, element::fp32);
    hidden = mix(by, hidden);
    return add(t, residual, hidden);
  }

  // Mamba2Mixer
  constexpr value mix(const mixer_modules& by, const tensor& x) {
    const state_space& mamba = model.mamba;
    const std::int64_t batch = x.size[0];
    const std::int64_t tokens = x.size[1];
    value hidden = masked(x);
    const value projected = linear(hidden, by.in);
    const value rates = scale(t, keeping_result(t, cast(t, t.parameter(by.rates), element::fp32)));
    const int of_projected = split(t, projected);
    const value gate = part(t, of_projected, projected, 2, mamba.inner(), 0);
    value mixed = part(t, of_projected, projected, 2, mamba.channels(), 1);
    const value steps = part(t, of_projected, projected, 2, mamba.num_heads, 2);
    mixed = convolve(by, transpose(t, mixed, 1, 2));
    mixed = masked(transpose(t, mixed, 1, 2));
    hidden.drop();
    const std::int64_t keys = mamba.n_groups * mamba.state_size;
    const int of_mixed = split(t, mixed);
    const value values = part(t, of_mixed, mixed, 2, mamba.inner(), 0);
    const value writes = part(t, of_mixed, mixed, 2, keys, 1);
    const value reads = part(t, of_mixed, mixed, 2, keys, 2);
    const sizes of_groups{batch, tokens, mamba.n_groups, mamba.state_size};
    value scanned = scan(by,
                         view(t, values, {batch, tokens, mamba.num_heads, mamba.head_dim}),
                         steps,
                         rates,
                         view(t, writes, of_groups),
                         view(t, reads, of_groups));
    scanned = reshape(t, scanned, {batch, tokens, mamba.inner()});
    scanned = gated_norm(scanned, gate, by.gated_norm);
    return linear(cast(t, scanned, x.format), by.out);
  }
  // apply_mask_to_padding_states
  constexpr value masked(argument given) {
    const held x(given);
    if (!setup.padding_mask) return t.share(x);
    return times_mask(t, x, with_last(t, beside[the_mask]));
  }
  // causal_conv1d_fn
  constexpr value convolve(const mixer_modules& by, argument given) {
    const held x(given);
    const tensor weight = t.parameter(by.convolution.weight);
    const std::int64_t kernel = model.mamba.conv_kernel;
    const value flat = view(t, weight, {weight.size[0], kernel});
    const value kernels = view(t, flat, weight.size);
    value out =
        convolve_each(t, cast(t, x, weight.format), kernels, by.convolution.bias, kernel - 1);
    out = slice(t, out, 2, x.size[2]);
    out = activation(out);
    return cast(t, out, x.format);
  }

  // mamba2_chunk_scan
  constexpr value scan(const mixer_modules& by,
                       argument given_values,
                       const tensor& given_steps,
                       const tensor& given_rates,
                       argument given_writes,
                       argument given_reads) {
    const held of_values(given_values), of_writes(given_writes), of_reads(given_reads);
    const state_space& mamba = model.mamba;
    const element fp32 = element::fp32;
    const std::int64_t batch = of_values.size[0];
    const std::int64_t tokens = of_values.size[1];
    const std::int64_t chunk = mamba.chunk_size;
    const std::int64_t chunks = ceil_div(tokens, chunk);
    value steps = add(t, given_steps, cast(t, t.parameter(by.steps), given_steps.format));
    steps = keeping_input(t, raised(t, steps));
    steps = clamp(t, steps, 2);

    value values = cast(t, of_values, fp32);
    const std::int64_t of_group = mamba.num_heads / mamba.n_groups;
    value writes = repeat_heads(t, cast(t, of_writes, fp32), of_group, false, 2);
    value reads = repeat_heads(t, cast(t, of_reads, fp32), of_group, false, 2);
    const auto padded = [&](const tensor& of) {
      sizes wanted = of.size;
      wanted[1] = chunks * chunk;
      return pad_with_zeros(t, of, wanted);
    };
    value skipped;
    {
      const value skips = with_last(t, t.parameter(by.skips));
      skipped = multiply(t, skips, padded(values));
    }
    values = multiply(t, values, cast(t, with_last(t, steps), fp32));
    value decays = multiply(t, given_rates, cast(t, steps, fp32));
    {
      const auto in_chunks = [&](const tensor& of) {
        sizes wanted{batch, chunks, chunk, of.size[2]};
        if (of.size.rank == 4) wanted[wanted.rank++] = of.size[3];
        return reshape(t, padded(of), wanted);
      };
      value parts[] = {in_chunks(values), in_chunks(decays), in_chunks(writes), in_chunks(reads)};
      values = std::move(parts[0]);
      decays = std::move(parts[1]);
      writes = std::move(parts[2]);
      reads = std::move(parts[3]);
    }
    decays = permute(t, decays, 0, 3, 1, 2);
    const value sums = running_sum_over(t, decays, 3);

    // within chunks
    const value between = keeping_result(t, segment_sum(t.share(decays)));
    const value pairs = contract(t, reads, "bclhn", writes, "bcshn", "bclsh");
    const value weights = multiply(t, pairs, permute(t, between, 0, 2, 3, 4, 1));
    const value near = contract(t, weights, "bclsh", values, "bcshp", "bclhp");
    // what chunks add to the state
    const value to_end = keeping_result(t, subtract(t, slice(t, sums, 3, 1), sums));
    const value written = multiply(t, writes, with_last(t, permute(t, to_end, 0, 2, 3, 1)));
    value states = contract(t, written, "bclhn", values, "bclhp", "bchpn");
    // and what of it is left when later ones begin
    sizes one_state = states->size;
    one_state[1] = 1;
    const value before = full(t, one_state, states->format);
    states = concatenate(t, before, states, 1);
    const value of_chunks =
        transpose(t,
                  keeping_result(t,
                                 segment_sum(pad_with_zeros(
                                     t, select(t, sums, 3), {batch, mamba.num_heads, chunks + 1}))),
                  1,
                  3);
    const value new_states = contract(t, of_chunks, "bzch", states, "bzhpn", "bchpn");
    states = slice(t, new_states, 1, chunks);
    const value from_begin = keeping_result(t, sums);
    const value read = contract(t, reads, "bclhn", states, "bchpn", "bclhp");
    const value far = multiply(t, read, with_last(t, permute(t, from_begin, 0, 2, 3, 1)));

    value output = contiguous(t, add(t, near, far));
    output = reshape(t, output, {batch, chunks * chunk, mamba.num_heads, mamba.head_dim});
    output = add(t, output, skipped);
    if (chunks * chunk > tokens) output = slice(t, output, 1, tokens);
    return output;
  }
  // segment_sum
  constexpr value segment_sum(value of) {
    const std::int64_t length = of->size[of->size.rank - 1];
    const sizes square{length, length};
    const auto triangle = [&] {
      return compute(t, full(t, square, element::boolean), square, element::boolean);
    };
    value masked, sums;
    value mask = triangle();
    {
      sizes wide = of->size;
      wide[wide.rank++] = length;
      const value repeated = expand(t, with_last(t, of), wide);
      masked = filled(t, repeated, compute(t, mask, square, element::boolean));
    }
    of.drop();
    sums = running_sum_over(t, masked, masked->size.rank - 2);
    mask = triangle();
    sums = filled(t, sums, compute(t, mask, square, element::boolean));
    return sums;
  }
  // MambaRMSNormGated
  constexpr value gated_norm(const tensor& input, const tensor& gate, const nn_module& by) {
    value x = cast(t, input, element::fp32);
    x = multiply(t, x, silu(t, cast(t, gate, element::fp32)));
    const sizes flat = x->size;
    const std::int64_t groups = model.mamba.n_groups;
    value grouped = view(t, x, {flat[0], flat[1], groups, flat[2] / groups});
    const value variance = mean(t, power(t, grouped));
    grouped = multiply(t, grouped, reciprocal_root(t, add_number(t, variance)));
    x = view(t, grouped, flat);
    return multiply(t, t.parameter(by.weight), cast(t, x, input.format));
  }

 private:
  growing_array<mixer_modules> mixers_{};
};

inline constexpr known_code codes_of_state_spaces[] = {
    {&code_names::mamba2, &code_of<mamba2_code>}};

}  // namespace gpuplan::eager

#pragma once

// Whisper of Hugging Face's transformers 5.23: two convolutions before an encoder of BART's kind.
// Private.

#include <gpuplan/replay/codes/bart.hpp>
#include <gpuplan/replay/eager/operators/routing.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class whisper_code final : public bart_code {
 public:
  using bart_code::bart_code;
  constexpr ~whisper_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t bins = model.audio.num_mel_bins;
    first_ = convolution(width, bins);
    second_ = convolution(width, width);
    build_stack(false);
    static_cast<void>(sinusoids(model.position_rows));
    shared_ = token_table(model.vocab_size, width, trains_table(model.has_tied_head()));
    build_stack(true);
    build_head();
  }

 protected:
  constexpr void make_input() override {
    // what autocast will cast is given as it was read
    const number_format given_in =
        setup.precision.under_autocast ? number_format::fp32 : setup.precision.weights;
    features_ = t.make({plan.micro_batch, model.audio.num_mel_bins, 2 * model.position_rows},
                       element_of(given_in),
                       {"features"});
  }

  // -- construction

  constexpr nn_module convolution(std::int64_t out, std::int64_t in) {
    nn_module made;
    made.weight = parameter({out, in, 3}, trains_all());
    made.bias = parameter(sizes{out}, trains_all());
    return made;
  }
  constexpr void build_positions(stack& made, bool is_decoder) override {
    made.positions =
        table_module(position_rows(is_decoder), model.hidden_size, is_decoder && trains_all());
  }

  // -- the stacks

  constexpr value encode() override {
    const stack& by = stacks_[0];
    value x = convolve_1d(t, features_, first_.weight, first_.bias, 1, 1);
    if (setup.recompute == recompute_mode::full) t.require_gradient(x.get());
    x = keeping_input(t, x);
    x = keeping_input(t, convolve_1d(t, x, second_.weight, second_.bias, 2, 1));
    const value embedded = transpose(t, x, 1, 2);
    x.drop();
    const value numbers = full(t, sizes{model.position_rows}, element::int64);
    value hidden = add(t, embedded, rows_of(numbers, by.positions));
    hidden = dropout(t, hidden, drops);
    for (std::int64_t at = 0; at < model.num_hidden_layers; ++at) {
      for (tensor& none_there : beside) none_there = {};
      hidden = run_layer(at, hidden);
    }
    return norm(hidden, by.last_norm);
  }
  constexpr value decode(const tensor& ids, const tensor& encoded) override {
    const stack& by = stacks_[1];
    const std::int64_t batch = ids.size[0];
    const std::int64_t tokens = ids.size[1];
    const value embedded = embed_tokens(ids, shared_);
    const value numbers =
        compute(t, shifted_range(tokens), {batch, tokens}, element::int64, {"numbers"});
    const value rows = rows_at(t, t.parameter(by.positions.weight), numbers);
    const value places = view(t, rows, embedded->size);
    value hidden = dropout(t, add(t, embedded, places), drops);
    const value mask = mask_of(batch, tokens, tokens, embedded->format, true, 0, false);
    hidden = run_decoder_layers(std::move(hidden), mask, encoded, {});
    return norm(hidden, by.last_norm);
  }

  // WhisperAttention
  constexpr attended attention_of(const layer_modules& by,
                                  argument given,
                                  const tensor& encoded,
                                  const tensor& mask) override {
    const held x(given);
    const tensor& read = encoded.defined() ? encoded : x;
    const auto in_order = [&](argument flat) { return contiguous(t, heads_of(flat)); };
    const value q = in_order(scale(t, linear(x, by.query)));
    const value k = in_order(linear(read, by.key));
    const value v = in_order(linear(read, by.value));
    constexpr eager_attention_options products{.softmax_in_fp32 = false, .casts_weights = false};
    attended made = attend(q, k, v, mask, false, products);
    made.output = view(t, made.output, x.size);
    made.output = linear(made.output, by.out);
    return made;
  }

  nn_module first_{}, second_{};  // convolutions
  value features_{};
};

}  // namespace gpuplan::eager

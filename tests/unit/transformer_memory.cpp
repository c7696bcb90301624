#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/solver.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

// GPT-2 small, 1,024 tokens, 8 sequences, autocast to bf16, AdamW: PyTorch 2.15 asked for at most
// 8,619,549,484 bytes at once.
constexpr training_setup gpt2{.model = {.num_hidden_layers = 12,
                                        .hidden_size = 768,
                                        .intermediate_size = 3072,
                                        .num_attention_heads = 12,
                                        .vocab_size = 50257,
                                        .attention_bias = true,
                                        .attention_out_bias = true,
                                        .fused_qkv = true,
                                        .gated_mlp = false,
                                        .hidden_act = activation_function::gelu,
                                        .mlp_bias = true,
                                        .norm = norm_kind::layer_norm,
                                        .norm_bias = true,
                                        .position_rows = 1024,
                                        .tied_embeddings = true},
                              .sequence_length = 1024,
                              .precision = bf16_mixed,
                              .attention = attention_kernel::flash,
                              .framework = catalog::torch_gpt};

constexpr training_setup with_layers(training_setup setup, std::int64_t layers) {
  setup.model.num_hidden_layers = layers;
  return setup;
}

constexpr std::int64_t peak(const training_setup& setup, const batch_plan& plan) {
  return peaks_of(setup, plan).peak().total;
}

TEST_CASE("the peak of GPT-2 is PyTorch's, to the byte") {
  CONSTEXPR step_peaks peaks = peaks_of(gpt2, {.micro_batch = 8});
  STATIC_CHECK(peaks.peak().total == 8'619'549'484);
  STATIC_CHECK(peaks.when() == step_moment::loss_backward);
}

TEST_CASE("the parts of the peak are its sum") {
  CONSTEXPR memory_sum sum = peaks_of(gpt2, {.micro_batch = 2}).peak();
  STATIC_CHECK(sum.of[0] + sum.of[1] + sum.of[2] + sum.of[3] + sum.of[4] + sum.of[5] + sum.of[6] ==
               sum.total);
  STATIC_CHECK(sum.of[static_cast<int>(memory_part::weights)] == 4 * 124'439'808);
  STATIC_CHECK(sum.of[static_cast<int>(memory_part::optimizer_states)] == 8 * 124'439'808);
}

TEST_CASE("the parts of a breakdown are its total, and the largest is never the fragmentation") {
  STATIC_CHECK([] {
    memory_breakdown parts{};
    double size = 1;
    for (const memory_breakdown_part& one : memory_breakdown_parts)
      parts.*one.size = bytes::from_value(size *= 2);
    return parts.total().value() == 2 * size - 2;
  }());
  CONSTEXPR memory_breakdown parts = transformer_memory{gpt2}.breakdown({.micro_batch = 8});
  STATIC_CHECK(largest_part_of(parts).size == &memory_breakdown::activations);
  STATIC_CHECK(
      largest_part_of({.gradients = 2_GB, .fragmentation = 3_GB, .communication = 2_GB}).size ==
      &memory_breakdown::gradients);
}

TEST_CASE("few layers stand for many") {
  CONSTEXPR std::int64_t of_few = peak(with_layers(gpt2, 5), {.micro_batch = 1});
  STATIC_CHECK(
      of_few ==
      detail::replayed_peaks(with_layers(gpt2, 5), {.micro_batch = 1}, 5, {}).peak().total);
}

TEST_CASE("memory grows with batch and layers, and recomputation takes some away") {
  STATIC_CHECK(peak(gpt2, {.micro_batch = 1}) < peak(gpt2, {.micro_batch = 2}));
  STATIC_CHECK(peak(with_layers(gpt2, 4), {}) < peak(with_layers(gpt2, 6), {}));
  STATIC_CHECK(peak(
                   [] {
                     training_setup again = gpt2;
                     again.recompute = recompute_mode::full;
                     return again;
                   }(),
                   {.micro_batch = 8}) < 8'619'549'484);
}

TEST_CASE("what fits and what does not") {
  CONSTEXPR auto fits_80 =
      check({.micro_batch = 8}, catalog::h100_sxm5_80gb, transformer_memory{gpt2});
  STATIC_CHECK(fits_80);
  CONSTEXPR auto fits_11 =
      check({.micro_batch = 16}, catalog::rtx_2080_ti, transformer_memory{gpt2});
  STATIC_CHECK(!fits_11);
  STATIC_CHECK(fits_11.why().code == errc::exceeds_gpu_memory);
}

TEST_CASE("a breakdown adds up, and its fragmentation is a share") {
  CONSTEXPR memory_breakdown parts = transformer_memory{gpt2}.breakdown({.micro_batch = 8});
  STATIC_CHECK(parts.when == step_moment::loss_backward);
  STATIC_CHECK(parts.weights == bytes::from_value(4 * 124'439'808.0));
  STATIC_CHECK(transformer_memory{gpt2, 0}.required({.micro_batch = 8}) ==
               bytes::from_value(8'619'549'484.0));
}

TEST_CASE("fragmentation and channels have bounds, which are told") {
  CONSTEXPR failure less = validate(transformer_memory{gpt2, -0.1}).why();
  STATIC_CHECK(less.code == errc::out_of_bounds);
  STATIC_CHECK(less[fact::at_least] == 0 && less[fact::at_most] == 10);
  STATIC_CHECK(validate(transformer_memory{gpt2, 0}) && validate(transformer_memory{gpt2, 10}));
  STATIC_CHECK(!validate(transformer_memory{gpt2, 10.1}));
  CONSTEXPR failure none = validate(transformer_memory{.setup = gpt2, .channels = 0}).why();
  STATIC_CHECK(none[fact::at_least] == 1 && none[fact::at_most] == 1024);
  STATIC_CHECK(validate(transformer_memory{.setup = gpt2, .channels = 1}));
  STATIC_CHECK(validate(transformer_memory{.setup = gpt2, .channels = 1024}));
  STATIC_CHECK(!validate(transformer_memory{.setup = gpt2, .channels = 1025}));
}

TEST_CASE("several devices need memory for what they send") {
  CONSTEXPR transformer_memory memory{gpt2};
  CONSTEXPR memory_breakdown alone = memory.breakdown({.micro_batch = 1});
  STATIC_CHECK(alone.communication == bytes{});
  CONSTEXPR memory_breakdown of_two = memory.breakdown({.micro_batch = 1, .data_parallel = 2});
  STATIC_CHECK(of_two.communication == nccl_connection * (3 * 24));
  STATIC_CHECK(of_two.kernels == bytes{});
}

TEST_CASE("models that no code has are refused") {
  CONSTEXPR auto experts = [] {
    training_setup setup = gpt2;
    setup.model = catalog::mixtral_8x7b_v0_1;
    return validate(setup).why();
  }();
  STATIC_CHECK(experts.code == errc::no_such_code);
  CONSTEXPR auto encoder = [] {
    training_setup setup = gpt2;
    setup.framework = catalog::hugging_face_bert;
    return validate(setup).why();
  }();
  STATIC_CHECK(encoder.code == errc::no_such_code);
  CONSTEXPR auto no_tokens = [] {
    training_setup setup = gpt2;
    setup.sequence_length = 0;
    return validate(transformer_memory{setup}).why();
  }();
  STATIC_CHECK(no_tokens.code == errc::out_of_bounds);
  CONSTEXPR auto dropout = [] {
    training_setup setup = gpt2;
    setup.dropout = 1.5;
    return validate(setup).why();
  }();
  STATIC_CHECK(dropout.code == errc::out_of_bounds);
  CONSTEXPR auto of_adapters = [] {
    training_setup setup = gpt2;
    setup.trains.adapters.dropout = -0.5;
    return validate(setup).why();
  }();
  STATIC_CHECK(of_adapters.code == errc::out_of_bounds);
}

}  // namespace

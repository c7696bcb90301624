// What a step of training counts beyond its forward pass, against steps that PyTorch 2.15 ran.

#include <gpuplan/flops.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

// torch.utils.flop_counter of a step of `batch` sequences.
constexpr bool takes(const transformer& model,
                     const training_pass& pass,
                     double batch,
                     double forward,
                     double backward) {
  const flop_counts one = flops(model, pass);
  return batch * one.forward().value() == forward &&
         batch * one.hardware().value() == forward + backward;
}

constexpr transformer gpt(std::int64_t width,
                          std::int64_t heads,
                          std::int64_t inner,
                          std::int64_t vocabulary,
                          bool tied) {
  return {.num_hidden_layers = 2,
          .hidden_size = width,
          .intermediate_size = inner,
          .num_attention_heads = heads,
          .vocab_size = vocabulary,
          .fused_qkv = true,
          .gated_mlp = false,
          .norm = norm_kind::layer_norm,
          .tied_embeddings = tied};
}

// The backward pass of two linear layers of 16 tokens between two encoders, in products of one
// token with one weight.
constexpr double products_back(training of_first_part, bool connector_trains) {
  composite_model model;
  for (int at = 0; at < 2; ++at)
    model.parts[at] = {.model = gpt(64, 4, 128, 1000, true), .trains = {.what = training::frozen}};
  model.parts[0].trains.what = of_first_part;
  const training_pass pass{.sequence_length = 16};
  const auto back = [&] { return flops(model, pass)[operator_kind::projection].backward; };
  const double without = back();
  model.parts[0].next = {.widths = {64, 32, 64}, .tokens = 16, .trains = connector_trains};
  return (back() - without) / (2 * 16);
}

// Likewise of adapters of rank 4 beside them, which train: of a pass forward and of one back.
constexpr operator_flops adapter_products(training of_first_part) {
  composite_model model;
  for (int at = 0; at < 2; ++at)
    model.parts[at] = {.model = gpt(64, 4, 128, 1000, true), .trains = {.what = training::frozen}};
  model.parts[0].trains.what = of_first_part;
  model.parts[0].next = {
      .widths = {64, 32, 64}, .tokens = 16, .trains = false, .adapters = {.rank = 4}};
  const operator_flops all =
      flops(model, training_pass{.sequence_length = 16})[operator_kind::adapters];
  return {.forward = all.forward / (2 * 16), .backward = all.backward / (2 * 16)};
}

}  // namespace

TEST_CASE("dropout behind the last linear layer of a checkpoint has it run again") {
  CONSTEXPR transformer model = gpt(256, 2, 512, 50257, false);
  CONSTEXPR training_pass pass{.sequence_length = 4096,
                               .recompute = recompute_mode::full,
                               .recompute_stops_early = true,
                               .output_dropout = true};
  STATIC_CHECK(takes(model, pass, 8, 1'186'769'928'192.0, 2'854'576'193'536.0));
}

TEST_CASE("without it, that layer is the one that is not") {
  CONSTEXPR transformer model = gpt(256, 2, 512, 50257, false);
  CONSTEXPR training_pass early{
      .sequence_length = 4096, .recompute = recompute_mode::full, .recompute_stops_early = true};
  CONSTEXPR training_pass late{.sequence_length = 4096, .recompute = recompute_mode::full};
  CONSTEXPR double last = 2.0 * 4096 * 512 * 256;
  STATIC_CHECK(flops(model, late).recomputed().value() - flops(model, early).recomputed().value() ==
               2 * last);
}

TEST_CASE("recomputing attention of two products stops before the second") {
  CONSTEXPR transformer model = gpt(768, 6, 1536, 100277, true);
  CONSTEXPR training_pass pass{.sequence_length = 128,
                               .recompute = recompute_mode::selective,
                               .recompute_stops_early = true,
                               .fused_attention = false};
  STATIC_CHECK(takes(model, pass, 5, 111'159'214'080.0, 222'570'086'400.0));
}

TEST_CASE("a tied head that trains with the last layer wants a gradient of the first") {
  CONSTEXPR transformer model = [] {
    transformer plain = gpt(640, 20, 2560, 16000, true);
    plain.position_rows = 256;
    return plain;
  }();
  CONSTEXPR training_pass pass{
      .sequence_length = 128,
      .trains = {.what = training::last_layers, .last_layers = 1, .tied_head = true}};
  STATIC_CHECK(parameters(model).total() == 20'237'440);
  STATIC_CHECK(trainable_parameters(model, pass.trains) == 15'157'120);
  STATIC_CHECK(takes(model, pass, 32, 167'101'071'360.0, 295'279'001'600.0));
}

TEST_CASE("a head that trains alone leaves the pooler before it frozen") {
  CONSTEXPR transformer bert = [] {
    transformer encoder = gpt(64, 4, 128, 1000, true);
    encoder.kind = model_kind::encoder;
    encoder.pooler = true;
    encoder.head = head_kind::classifier;
    encoder.num_classes = 7;
    return encoder;
  }();
  CONSTEXPR trainable head{.what = training::head};
  STATIC_CHECK(trainable_parameters(bert, head) == 64 * 7 + 7);
  STATIC_CHECK(flops(bert, {.sequence_length = 16, .trains = head}).backward().value() ==
               2.0 * 64 * 7);
  CONSTEXPR trainable last{.what = training::last_layers, .last_layers = 1};
  STATIC_CHECK(trainable_parameters(bert, last) - trainable_parameters(bert, head) ==
               layer_parameters(bert, layer_kind::dense).total() + 64 + 64 * 64 + 64);
}

TEST_CASE("layers between two parts want gradients of what trains, and of what trains before it") {
  STATIC_CHECK(products_back(training::frozen, false) == 0);
  STATIC_CHECK(products_back(training::frozen, true) == 64 * 32 + 2 * 32 * 64);
  STATIC_CHECK(products_back(training::full, false) == 64 * 32 + 32 * 64);
  STATIC_CHECK(products_back(training::full, true) == 2 * (64 * 32 + 32 * 64));
}

TEST_CASE("adapters of layers between two parts want gradients of what trains before each") {
  // 64 to 4 to 32, and 32 to 4 to 64.
  CONSTEXPR double forward = 64 * 4 + 4 * 32 + 32 * 4 + 4 * 64;
  CONSTEXPR operator_flops behind_frozen = adapter_products(training::frozen);
  CONSTEXPR operator_flops behind_trained = adapter_products(training::full);
  STATIC_CHECK(behind_frozen.forward == forward);
  STATIC_CHECK(behind_trained.forward == forward);
  // What comes before the first wants none of what it takes.
  STATIC_CHECK(behind_frozen.backward == 2 * forward - 64 * 4);
  STATIC_CHECK(behind_trained.backward == 2 * forward);
}

// Chowdhery et al. 2022 (arXiv 2204.02311, appendix B): 238,300 tokens/s on 6,144 chips of 275
// TFLOP/s are 45.7 % without attention.
TEST_CASE("PaLM 540B used its chips as published") {
  CONSTEXPR flop_count work = flop_count::from_value(6 * 540.35e9 * 238'300);
  CONSTEXPR compute_rate achieved = achieved_rate(work, duration::from_value(1), 6144);
  CONSTEXPR double used = utilisation(achieved, compute_rate::from_value(275e12));
  STATIC_CHECK(used > 0.4565 && used < 0.4575);
}

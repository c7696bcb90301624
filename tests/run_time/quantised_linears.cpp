#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/precision.hpp>

#include <cstdint>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr std::int64_t layers = 3, hidden = 256, ffn = 768, tokens = 4096, heads = 4;
constexpr std::int64_t of_linears = layers * (4 * hidden * hidden + 3 * hidden * ffn);

training_setup megatron(const precision_recipe& recipe) {
  return {.model = {.num_hidden_layers = layers,
                    .hidden_size = hidden,
                    .intermediate_size = ffn,
                    .num_attention_heads = heads,
                    .vocab_size = 512},
          .sequence_length = tokens,
          .precision = recipe,
          .parallelism = {.zero_stage = 1},
          .framework = catalog::megatron_transformer_engine};
}
memory_breakdown parts_of(const training_setup& setup) {
  const transformer_memory memory{setup};
  CHECK(validate(memory, {.micro_batch = 4}));
  return memory.breakdown({.micro_batch = 4});
}
precision_recipe quantised(scaling_kind scaling, bool is_fp4 = false) {
  precision_recipe recipe = bf16_megatron;
  recipe.fp8_linears = !is_fp4;
  recipe.fp4_linears = is_fp4;
  recipe.scaling = scaling;
  return recipe;
}

}  // namespace

// Each of the 7 matrices' casts is rounded up to whole bytes.
TEST_CASE("casts of weights stay beside them, or take their place") {
  const double plain = parts_of(megatron(bf16_megatron)).weights.value();
  struct expected {
    precision_recipe recipe;
    double copies;
    double each;
  };
  const expected cases[] = {{quantised(scaling_kind::tensor), 2, 1},
                            {quantised(scaling_kind::micro), 2, 1 + 1.0 / 32},
                            {quantised(scaling_kind::blocks), 2, 1 + 4.0 / (128 * 128)},
                            {quantised(scaling_kind::micro, true), 2, 0.5 + 1.0 / 16}};
  for (expected one : cases) {
    const double casts = one.copies * one.each * static_cast<double>(of_linears);
    const auto is_near = [](double a, double b) { return a >= b - 1 && a <= b + 100; };
    CHECK(is_near(parts_of(megatron(one.recipe)).weights.value(), plain + casts));
    one.recipe.quantised_weights = true;
    const double rest = plain - 2.0 * static_cast<double>(of_linears);
    CHECK(is_near(parts_of(megatron(one.recipe)).weights.value(), rest + casts));
    // One scale holds for rows and columns.
    one.recipe.reads_casts_both_ways = true;
    const bool has_one = one.recipe.scaling == scaling_kind::tensor;
    CHECK(is_near(parts_of(megatron(one.recipe)).weights.value(),
                  rest + (has_one ? casts / 2 : casts)));
  }
}

TEST_CASE("linear layers keep what they cast, and attention its result besides") {
  const double plain = parts_of(megatron(bf16_megatron)).activations.value();
  const double fp8 = parts_of(megatron(quantised(scaling_kind::tensor))).activations.value();
  // Three inputs shrink to a byte; attention's result stays, and is cast.
  const double rows = 4.0 * tokens * layers;
  const double less = rows * (hidden + hidden + ffn) - rows * hidden;
  CHECK((plain - fp8 > less - 20 && plain - fp8 <= less));  // casts are rounded up
}

TEST_CASE("an optimizer with narrow moments keeps no gradients in fp32") {
  training_setup narrow = megatron(bf16_megatron);
  const double plain = parts_of(narrow).optimizer_states.value();
  narrow.optimizer = {.states = number_format::bf16, .reads_narrow_gradients = true};
  const double count =
      static_cast<double>(of_linears + 2 * 512 * hidden + (2 * layers + 1) * hidden);
  CHECK(plain - parts_of(narrow).optimizer_states.value() == 4 * count);
}

TEST_CASE("what is computed again is not kept, and a floor stays one") {
  training_setup setup = megatron(bf16_megatron);
  const bytes all = parts_of(setup).total();
  setup.recompute = recompute_mode::selective;
  setup.modules = {.core_attention = false};
  CHECK(parts_of(setup).total() == all);
  setup.modules.mlp = true;
  const double kept = 4.0 * tokens * layers * (2 * hidden + 2 * 3 * ffn);
  const double saved = (all - parts_of(setup).total()).value();
  CHECK(saved > 0.5 * kept * (layers - 1) / layers);
  CHECK(saved < kept);
  for (const scaling_kind scaling : {scaling_kind::tensor, scaling_kind::micro}) {
    setup.precision = quantised(scaling);
    for (const bool stored : {false, true}) {
      setup.precision.quantised_weights = stored;
      const transformer_memory_of ask{};
      const batch_plan plan{.micro_batch = 4};
      CHECK(ask.at_least(setup, plan) <= ask(setup).required(plan));
    }
  }
}

TEST_CASE("a layer whose activations are on the host keeps nothing, its input included") {
  const auto activations_of = [](std::int64_t count, std::int64_t on_host) {
    training_setup setup = megatron(bf16_megatron);
    setup.model.num_hidden_layers = count;
    setup.offloads.layers = on_host;
    return parts_of(setup).activations.value();
  };
  const double of_a_layer = activations_of(13, 0) - activations_of(12, 0);
  CHECK(activations_of(12, 5) - activations_of(12, 6) == of_a_layer);
  // What the first layer reads, the model holds.
  const double input = 2.0 * 4 * tokens * hidden;
  CHECK(activations_of(12, 0) - activations_of(12, 1) == of_a_layer - input);
}

TEST_CASE("products read one cast both ways from Blackwell on") {
  const auto reads_both_ways = [](const gpu_spec& gpu) {
    return transformer_memory_of{}.on(gpu).reads_casts_both_ways;
  };
  CHECK(!reads_both_ways(catalog::h100_sxm5_80gb));
  CHECK(reads_both_ways(catalog::b200_sxm));
  CHECK(reads_both_ways(catalog::rtx_5090));
  CHECK(!reads_both_ways(catalog::mi300x));  // of another maker
  CHECK(transformer_memory_of{.fragmentation = 0.25}.on(catalog::b200_sxm).fragmentation == 0.25);
}

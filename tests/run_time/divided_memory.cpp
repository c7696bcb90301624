// The fullest stage of random layouts, and what is said to be below it.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

using namespace gpuplan;

namespace {

template <class T>
T one_of(dice& roll, std::initializer_list<T> of) {
  return of.begin()[roll.from(0, static_cast<std::int64_t>(of.size()) - 1)];
}

// As Megatron-Core takes it, of about so many layers: the model's are made to fit.
void split_unevenly(dice& roll, training_setup& setup) {
  parallelism& layout = setup.parallelism;
  pipeline_split& split = layout.split;
  const std::int64_t stages = layout.pipeline_parallel;
  std::int64_t& layers = setup.model.num_hidden_layers;
  const std::int64_t each = layers / stages / layout.virtual_pipeline;  // of a chunk
  if (stages == 1 || each == 0) return;
  switch (roll.from(0, 3)) {
    case 0:
      split.embedding_layers = roll.from(0, 1);
      split.head_layers = roll.from(0, 1);
      layers -= split.embedding_layers + split.head_layers;
      break;
    case 1:
      split.first_stage_layers = roll.coin() ? layout.virtual_pipeline * roll.from(1, 2) : 0;
      split.last_stage_layers = layout.virtual_pipeline * roll.from(1, 3);
      layers = split.first_stage_layers + split.last_stage_layers +
               (stages - (split.first_stage_layers != 0 ? 2 : 1)) * layout.virtual_pipeline * each;
      break;
    case 2:
      layers = 0;
      for (std::int64_t place = 0; place < stages * layout.virtual_pipeline; ++place) {
        const std::int64_t here = roll.from(0, 2 * each);
        split.listed.layers[split.listed.count++] = static_cast<std::uint8_t>(here);
        layers += here;
      }
      if (layers != 0) break;
      layers = 1;
      split.listed.layers[0] = 1;
      break;
    default:
      break;
  }
}

training_setup random_division(dice& roll) {
  training_setup setup;
  setup.framework = *one_of(
      roll,
      {&catalog::megatron_lm, &catalog::megatron_core, &catalog::megatron_transformer_engine});
  setup.model = roll.coin() ? catalog::llama_3_8b : catalog::gpt2;
  setup.model.num_hidden_layers = one_of<std::int64_t>(roll, {4, 8, 16});
  setup.model.vocab_size = 51200;
  setup.sequence_length = one_of<std::int64_t>(roll, {256, 1024});
  setup.precision = roll.coin() ? bf16_megatron : bf16_master;
  parallelism& layout = setup.parallelism;
  layout.tensor_parallel = one_of<std::int64_t>(roll, {1, 2, 4});
  layout.pipeline_parallel = one_of<std::int64_t>(roll, {1, 2, 4});
  layout.virtual_pipeline = layout.pipeline_parallel > 1 ? roll.from(1, 2) : 1;
  layout.zero_stage = static_cast<int>(roll.from(0, 1));
  layout.sequence_parallel = layout.tensor_parallel > 1 && roll.coin();
  layout.context_parallel = roll.one_in(4) ? 2 : 1;
  setup.recompute = static_cast<recompute_mode>(roll.from(0, 2));
  setup.dropout = roll.coin() ? 0.1 : 0;
  if (roll.coin()) setup.attention = attention_kernel::flash;
  if (roll.coin()) split_unevenly(roll, setup);
  if (setup.recompute == recompute_mode::full && roll.coin())
    setup.recompute_layers = roll.from(1, 5);
  return setup;
}

// By DeepSpeed's pipeline engine, whose stages may be unequal.
training_setup random_pipeline(dice& roll) {
  training_setup setup = random_division(roll);
  setup.framework = catalog::megatron_deepspeed;
  setup.parallelism.split = {};
  setup.model.num_hidden_layers = one_of<std::int64_t>(roll, {3, 4, 5, 8});
  setup.precision = *one_of(roll, {&bf16_megatron, &bf16_master, &fp16_master});
  parallelism& layout = setup.parallelism;
  layout.pipeline_parallel = one_of<std::int64_t>(roll, {1, 1, 2, 3, 4});
  layout.virtual_pipeline = 1;
  layout.context_parallel = 1;
  layout.zero_stage = static_cast<int>(roll.from(0, 2));
  if (roll.one_in(3)) layout.split = {.embedding_layers = 1, .head_layers = 1};
  layout.shares_kept_inputs = roll.one_in(3);
  return setup;
}

// Layers that choose experts, all or some; with latent attention or without, shared experts or
// none.
training_setup random_mixture(dice& roll) {
  training_setup setup = random_division(roll);
  setup.framework = catalog::megatron_transformer_engine;
  if (roll.one_in(3)) setup.model = catalog::deepseek_v2_lite;
  transformer& model = setup.model;
  model.num_hidden_layers = one_of<std::int64_t>(roll, {4, 4, 8});
  setup.parallelism.split = {};
  if (roll.one_in(3)) split_unevenly(roll, setup);
  model.vocab_size = one_of<std::int64_t>(roll, {1024, 51200});
  const std::int64_t experts = one_of<std::int64_t>(roll, {4, 8, 64});
  model.gated_mlp = true;
  model.mlp_bias = false;
  model.moe = {.num_experts = experts,
               .num_experts_per_tok = roll.from(1, 4),
               .moe_intermediate_size = one_of<std::int64_t>(roll, {256, 1408}),
               .shared_expert_intermediate_size = roll.coin() ? 512 : 0,
               .first_k_dense_layers = roll.one_in(3) ? roll.from(1, 3) : 0,
               .moe_layer_step = roll.one_in(4) ? 2 : 1};
  parallelism& layout = setup.parallelism;
  layout.tensor_parallel = one_of<std::int64_t>(roll, {1, 1, 2, 4});
  layout.sequence_parallel = layout.tensor_parallel > 1;
  layout.expert_parallel = one_of<std::int64_t>(roll, {1, 2, 4});
  layout.expert_tensor_parallel = layout.expert_parallel == 1
                                      ? layout.tensor_parallel
                                      : one_of<std::int64_t>(roll, {1, 1, 2, 4});
  if (!model.is_latent() && roll.coin()) setup.context_exchange = context_exchange::a2a;
  return setup;
}

// Of other code.
training_setup random_replicas(dice& roll) {
  struct pair {
    const framework* by = nullptr;
    const transformer* model = nullptr;
  };
  const pair of = one_of<pair>(roll,
                               {{&catalog::torch_gpt, &catalog::gpt2},
                                {&catalog::torch_llama, &catalog::llama_3_8b},
                                {&catalog::hugging_face_gpt2, &catalog::gpt2},
                                {&catalog::hugging_face_llama, &catalog::llama_3_8b},
                                {&catalog::lit_gpt, &catalog::llama_3_8b},
                                {&catalog::torchtitan, &catalog::llama_3_8b},
                                {&catalog::torchtitan_2025, &catalog::llama_3_8b},
                                {&catalog::megatron_deepspeed, &catalog::gpt2},
                                {&catalog::megatron_deepspeed_zero_3, &catalog::gpt2},
                                {&catalog::hugging_face_gpt2_zero_3, &catalog::gpt2},
                                {&catalog::llm_foundry, &catalog::gpt2}});
  training_setup setup{.model = *of.model, .sequence_length = 128, .framework = *of.by};
  setup.model.num_hidden_layers = one_of<std::int64_t>(roll, {1, 4});
  setup.model.vocab_size = 5120;
  setup.precision = *one_of(roll, {&bf16_mixed, &bf16_master, &bf16_pure, &fp16_master});
  setup.parallelism.zero_stage = static_cast<int>(roll.from(0, 3));
  setup.recompute = roll.coin() ? recompute_mode::full : recompute_mode::none;
  return setup;
}

// How near `at_least` comes to what is required, of a valid layout: never above.
struct floor_sums {
  int valid = 0;
  int mixtures = 0;
  double nearness = 0;

  void add(dice& roll, const training_setup& setup) {
    const transformer_memory_of memory_of{.fragmentation = roll.coin() ? 0.15 : 0};
    const parallelism& layout = setup.parallelism;
    const std::int64_t unit = layout.virtual_pipeline > 1 ? layout.pipeline_parallel : 1;
    const batch_plan plan{
        roll.from(1, 3), one_of<std::int64_t>(roll, {1, 2, 4, 8}), unit * roll.from(1, 4)};
    const fullest_stage_memory memory = memory_of(setup);
    if (!validate(memory) || !validate(memory, plan)) return;
    ++valid;
    mixtures += setup.model.moe.num_experts != 0;
    const double floor = memory_of.at_least(setup, plan) / memory.required(plan);
    CHECK(floor <= 1);
    nearness += floor;
  }
};

}  // namespace

TEST_CASE("what is at least needed is, with experts and without") {
  dice roll{std::mt19937_64(4)};
  floor_sums of_layers;
  floor_sums of_experts;
  floor_sums of_replicas;
  floor_sums of_pipelines;
  for (int layout = 0; layout < 400; ++layout) {
    of_layers.add(roll, random_division(roll));
    of_experts.add(roll, random_mixture(roll));
    of_replicas.add(roll, random_replicas(roll));
    of_pipelines.add(roll, random_pipeline(roll));
  }
  MESSAGE(of_layers.valid, " of ", of_layers.nearness / of_layers.valid);
  MESSAGE(of_experts.valid, " with experts of ", of_experts.nearness / of_experts.valid);
  MESSAGE(of_replicas.valid, " of other code of ", of_replicas.nearness / of_replicas.valid);
  MESSAGE(of_pipelines.valid, " by DeepSpeed of ", of_pipelines.nearness / of_pipelines.valid);
  CHECK(of_pipelines.valid > 200);
  CHECK(of_pipelines.nearness > 0.85 * of_pipelines.valid);
  CHECK(of_replicas.valid > 40);
  CHECK(of_replicas.nearness > 0.3 * of_replicas.valid);
  CHECK(of_layers.valid > 200);
  CHECK(of_layers.nearness > 0.9 * of_layers.valid);
  CHECK(of_experts.mixtures > 200);
  CHECK(of_experts.nearness > 0.9 * of_experts.valid);
}

namespace {

// Layouts that differ in one thing from each other: of few tokens the floor is of states, of many
// it rises with them as what layers keep.
std::vector<training_setup> megatron_layouts() {
  std::vector<training_setup> all;
  training_setup plain;
  plain.framework = catalog::megatron_transformer_engine;
  plain.model = catalog::llama_3_8b;
  plain.model.num_hidden_layers = 8;
  plain.model.vocab_size = 1024;
  plain.sequence_length = 2048;
  plain.precision = bf16_megatron;
  plain.attention = attention_kernel::flash;
  all.push_back(plain);
  const auto with = [&](const training_setup& of, auto change) {
    training_setup setup = of;
    change(setup);
    all.push_back(setup);
    return setup;
  };
  with(plain, [](training_setup& setup) { setup.framework = catalog::megatron_core; });
  with(plain, [](training_setup& setup) {
    setup.framework = catalog::megatron_lm;
    setup.attention = attention_kernel::eager;
    setup.sequence_length = 512;
  });
  with(plain, [](training_setup& setup) { setup.model = catalog::gpt2; });
  with(plain, [](training_setup& setup) { setup.precision = bf16_master; });
  with(plain, [](training_setup& setup) { setup.optimizer.loop = optimizer_loop::foreach; });
  with(plain, [](training_setup& setup) { setup.parallelism.zero_stage = 1; });
  with(plain, [](training_setup& setup) { setup.parallelism.context_parallel = 2; });
  with(plain, [](training_setup& setup) { setup.parallelism.tensor_parallel = 2; });
  with(plain, [](training_setup& setup) {
    setup.parallelism.tensor_parallel = 4;
    setup.parallelism.sequence_parallel = true;
  });
  with(plain, [](training_setup& setup) { setup.recompute = recompute_mode::full; });
  with(plain, [](training_setup& setup) { setup.parallelism.pipeline_parallel = 4; });
  with(plain, [](training_setup& setup) {
    setup.parallelism.pipeline_parallel = 2;
    setup.parallelism.virtual_pipeline = 2;
  });
  const training_setup mixture = with(plain, [](training_setup& setup) {
    setup.model.moe = {.num_experts = 8,
                       .num_experts_per_tok = 2,
                       .moe_intermediate_size = 1408,
                       .shared_expert_intermediate_size = 512};
  });
  with(mixture, [](training_setup& setup) { setup.parallelism.expert_parallel = 4; });
  for (const std::int64_t parts : {2, 4})
    with(mixture, [&](training_setup& setup) {
      setup.parallelism.tensor_parallel = 4;
      setup.parallelism.sequence_parallel = true;
      setup.parallelism.expert_parallel = 4;
      setup.parallelism.expert_tensor_parallel = parts;
    });
  with(mixture, [](training_setup& setup) { setup.model.moe.first_k_dense_layers = 2; });
  // Modules that are computed again, each alone.
  const training_setup latent = with(plain, [](training_setup& setup) {
    setup.model = catalog::deepseek_v2_lite;
    setup.model.num_hidden_layers = 8;
    setup.model.vocab_size = 1024;
  });
  for (bool recomputed_modules::*const part : {&recomputed_modules::latent_projections,
                                               &recomputed_modules::norms,
                                               &recomputed_modules::mlp,
                                               &recomputed_modules::experts,
                                               &recomputed_modules::expert_activation,
                                               &recomputed_modules::shared_experts})
    with(latent, [&](training_setup& setup) {
      setup.recompute = recompute_mode::selective;
      setup.modules = {.core_attention = false};
      setup.modules.*part = true;
    });
  // Layers that mix the sequence in other ways, divided too.
  for (const std::int64_t ranks : {1, 2})
    with(plain, [&](training_setup& setup) {
      setup.model = catalog::nemotron_h_8b;
      setup.model.vocab_size = 1024;
      setup.parallelism.tensor_parallel = ranks;
    });
  with(plain, [](training_setup& setup) {
    setup.model = catalog::qwen3_next_80b_a3b;
    setup.model.num_hidden_layers = 8;
    setup.model.vocab_size = 1024;
    setup.model.moe.num_experts = 16;
  });
  with(mixture, [](training_setup& setup) {
    setup.parallelism.pipeline_parallel = 2;
    setup.parallelism.zero_stage = 1;
    setup.parallelism.expert_parallel = 2;
  });
  return all;
}
std::string named(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  std::string name = setup.framework.name;
  for (const std::int64_t number : {layout.tensor_parallel,
                                    layout.pipeline_parallel,
                                    layout.virtual_pipeline,
                                    layout.context_parallel,
                                    layout.expert_parallel,
                                    layout.expert_tensor_parallel,
                                    std::int64_t{layout.zero_stage},
                                    static_cast<std::int64_t>(setup.recompute),
                                    setup.model.moe.num_experts,
                                    setup.model.moe.first_k_dense_layers,
                                    setup.model.hidden_size})
    name += " " + std::to_string(number);
  return name;
}

}  // namespace

TEST_CASE("what is at least needed rises with a batch's samples as what is needed does") {
  const transformer_memory_of memory_of{.fragmentation = 0};
  for (const training_setup& setup : megatron_layouts()) {
    const fullest_stage_memory memory = memory_of(setup);
    const std::int64_t accumulation = 2 * setup.parallelism.pipeline_parallel;
    const batch_plan few{64, 4, accumulation};
    const batch_plan many{128, 4, accumulation};
    CAPTURE(named(setup));
    REQUIRE(validate(memory));
    REQUIRE(validate(memory, many));
    const double needed = (memory.required(many) - memory.required(few)).value();
    const double known = (memory_of.at_least(setup, many) - memory_of.at_least(setup, few)).value();
    CHECK(known <= needed);
    const bool is_fused = setup.framework.implementation.transformer_engine;
    // What is computed again is there once more, of which that of experts is not known.
    const bool has_experts_again =
        setup.recompute == recompute_mode::selective && setup.modules.experts;
    // Rows that ranks with parts of an expert gather are on their way once more.
    const bool are_in_parts = setup.parallelism.expert_tensor_parallel > 1;
    const double least = has_experts_again                         ? 0.6
                         : setup.model.linear.values() != 0        ? 0.67
                         : setup.recompute == recompute_mode::full ? 0.75
                         : are_in_parts                            ? 0.8
                         : is_fused                                ? 0.89
                                                                   : 0.84;
    CHECK(known >= least * needed);
  }
}

// Korthikanti et al. 2022, equations 1 to 5 and section 4.2.3, of a kernel that keeps no scores and
// without the masks of dropout: of a token and layer 8 h + 24 h / t bytes, all of it shared by
// ranks with sequence parallelism; the input's 2 h where it is computed again, and one such layer
// whole. A first stage has L layers on their way, and interleaved (p - 1) / (p v) more.
TEST_CASE("of a sample at least what is published of layers is kept") {
  const transformer_memory_of memory_of{.fragmentation = 0};
  int compared = 0;
  for (const std::int64_t ranks : {1, 2, 4})
    for (const bool along : {false, true})
      for (const std::int64_t stages : {1, 2, 4})
        for (const std::int64_t chunks : {1, 2})
          for (const std::int64_t context : {1, 2})
            for (const bool is_again : {false, true}) {
              training_setup setup{.model = catalog::gpt2,
                                   .sequence_length = 1024,
                                   .precision = bf16_megatron,
                                   .attention = attention_kernel::flash,
                                   .framework = catalog::megatron_core};
              setup.model.num_hidden_layers = 16;
              setup.model.vocab_size = 40'000;
              setup.parallelism = {.tensor_parallel = ranks,
                                   .pipeline_parallel = stages,
                                   .virtual_pipeline = chunks,
                                   .context_parallel = context,
                                   .sequence_parallel = along};
              if (is_again) setup.recompute = recompute_mode::full;
              const double tokens = 1024.0 / static_cast<double>(context);
              const auto ways = static_cast<double>(ranks);
              const double width = 768;
              const double whole = (along ? 32 / ways : 8 + 24 / ways) * tokens * width;
              const double input = 2 * tokens * width / (along ? ways : 1);
              const double logits = stages == 1 ? 2 * tokens * 40'000 / ways : 0;
              const auto p = static_cast<double>(stages);
              const double more = chunks > 1 ? (p - 1) / (p * static_cast<double>(chunks)) : 0;
              const double layers = 16 * (1 + more);
              const double kept =
                  is_again ? layers * input + std::max(whole, logits) : layers * whole + logits;
              const auto floor = [&](std::int64_t samples) {
                const batch_plan plan{samples, 4, 4 * stages};
                return memory_of.at_least(setup, plan).value();
              };
              if (!validate(memory_of(setup))) continue;
              CAPTURE(named(setup));
              CAPTURE(along);
              CHECK(floor(65) - floor(64) == doctest::Approx(kept).epsilon(1e-9));
              ++compared;
            }
  CHECK(compared > 50);
}

// In bytes of a parameter: weights 2, gradients 4 in fp32, else 2; masters and moments 12, which
// ZeRO-1 shares. At the step such gradients are copied to fp32.
TEST_CASE("at least weights, gradients and a rank's share of the states are needed") {
  const transformer_memory_of memory_of{.fragmentation = 0};
  training_setup setup{.model = catalog::gpt2,
                       .sequence_length = 64,
                       .precision = bf16_megatron,
                       .attention = attention_kernel::flash,
                       .framework = catalog::megatron_core};
  setup.optimizer.loop = optimizer_loop::fused;
  const auto floor = [&](std::int64_t replicas) {
    REQUIRE(validate(memory_of(setup)).why() == failure());
    const batch_plan plan{1, replicas, 1};
    const bytes beside = needs_of(setup, plan, memory_of.channels).total();
    return (memory_of.at_least(setup, plan) - beside).value();
  };
  const auto held = static_cast<double>(parameters(setup.model).total());
  // 12 layers of 32 h bytes a token, and logits.
  const double kept = 64.0 * (12 * 32 * 768 + 2 * static_cast<double>(setup.model.vocab_size));
  const auto is = [&](double found, double bytes_each, double beside) {
    CHECK(found == doctest::Approx(held * bytes_each + beside).epsilon(1e-12));
  };
  is(floor(1), 18, kept);
  is(floor(4), 18, kept);
  setup.parallelism.zero_stage = 1;
  is(floor(1), 18, kept);
  is(floor(2), 12, kept);
  is(floor(8), 7.5, kept);
  setup.parallelism.zero_stage = 0;
  setup.precision = bf16_master;
  is(floor(1), 16 + 4, 0);
  setup.parallelism.zero_stage = 1;
  is(floor(4), 7 + 1, 0);
  setup.precision = bf16_pure;  // with masters all the same
  is(floor(4), 7 + 1, 0);
}

TEST_CASE("of few tokens at least the weights and their states are needed, and little more") {
  const transformer_memory_of memory_of{.fragmentation = 0};
  for (training_setup setup : megatron_layouts())
    for (const precision_recipe& precision : {setup.precision, bf16_pure}) {
      setup.sequence_length = 64;
      setup.precision = precision;
      const fullest_stage_memory memory = memory_of(setup);
      const batch_plan plan{1, 4, setup.parallelism.pipeline_parallel};
      CAPTURE(named(setup));
      REQUIRE(validate(memory));
      REQUIRE(validate(memory, plan));
      const double share = memory_of.at_least(setup, plan) / memory.required(plan);
      CHECK(share <= 1);
      CHECK(share >= (precision == bf16_pure ? 0.965 : 0.97));
    }
}

// Which the planner relies on that looks for the fewest that fit. Where the last layer chooses
// experts and the loss needs less than rows on their way, its recomputation has the gradient that
// comes in beside these: under a hundredth more.
TEST_CASE("memory falls as more of a chunk's layers are recomputed") {
  dice roll{std::mt19937_64(12)};
  const transformer_memory_of memory_of{.fragmentation = 0};
  int compared = 0;
  for (int at = 0; at < 300; ++at) {
    training_setup setup = at % 3 == 0 ? random_mixture(roll) : random_division(roll);
    setup.recompute = recompute_mode::full;
    const parallelism& layout = setup.parallelism;
    const batch_plan plan{roll.from(1, 3), 2, roll.from(1, 4) * layout.pipeline_parallel};
    const std::int64_t most =
        setup.model.num_hidden_layers / (layout.pipeline_parallel * layout.virtual_pipeline);
    bytes before{};
    for (std::int64_t layers = 1; layers <= most; ++layers) {
      setup.recompute_layers = layers < most ? layers : 0;
      const fullest_stage_memory memory = memory_of(setup);
      if (!validate(memory) || !validate(memory, plan)) break;
      const bytes here = memory.required(plan);
      CAPTURE(named(setup));
      CAPTURE(layers);
      const double most_of_before = setup.model.moe.num_experts != 0 ? 1.01 : 1;
      if (layers > 1) CHECK(here <= most_of_before * before);
      compared += layers > 1;
      before = here;
    }
  }
  CHECK(compared > 200);
}

// Of a training of which less is known than of AdamW on all weights, on the device.
TEST_CASE("what is at least needed is so of adapters, other optimizers and states elsewhere") {
  const transformer_memory_of memory_of{.fragmentation = 0};
  int compared = 0;
  const auto check_floor = [&](const training_setup& setup) {
    const fullest_stage_memory memory = memory_of(setup);
    const batch_plan plan{1, 4, 2 * setup.parallelism.pipeline_parallel};
    if (!validate(memory) || !validate(memory, plan)) return;
    CAPTURE(named(setup));
    CHECK(memory_of.at_least(setup, plan) <= memory.required(plan));
    ++compared;
  };
  const framework others[] = {catalog::torch_llama,
                              catalog::hugging_face_llama,
                              catalog::torchtitan,
                              catalog::megatron_deepspeed,
                              catalog::hugging_face_gpt2_zero_3};
  std::vector<training_setup> all = megatron_layouts();
  for (const framework& other : others)
    for (const int zero : {0, 1, 2, 3}) {
      training_setup setup = all.front();
      setup.framework = other;
      setup.parallelism.zero_stage = zero;
      if (other.engine.is == &engine_classes::fsdp2) setup.precision = bf16_mixed;
      all.push_back(setup);
      setup.model = catalog::gpt2;
      all.push_back(setup);
    }
  for (const training_setup& one : all)
    for (const std::int64_t length : {64, 512}) {
      training_setup setup = one;
      setup.sequence_length = length;
      check_floor(setup);
      training_setup other = setup;
      other.trains.what = training::adapters;
      other.trains.adapters.targets = {.query = true, .value = true};
      other.trains.adapters.rank = 8;
      check_floor(other);
      other = setup;
      other.trains.what = training::last_layers;
      other.trains.last_layers = 1;
      check_floor(other);
      other = setup;
      other.parallelism.optimizer_on_host = true;
      check_floor(other);
      other.parallelism.weights_on_host = true;
      check_floor(other);
      for (int kind = 0; kind < 8; ++kind) {
        other = setup;
        other.optimizer.kind = static_cast<optimizer_kind>(kind);
        check_floor(other);
      }
      other = setup;
      other.optimizer.states = number_format::bf16;
      check_floor(other);
    }
  CHECK(compared > 150);
}

namespace {

// The same memory, of which nothing is known before it is asked for.
struct memory_without_floor {
  transformer_memory_of of{};
  fullest_stage_memory operator()(const training_setup& setup) const { return of(setup); }
};

}  // namespace

TEST_CASE("plans of experts are the same without what is at least needed") {
  dice roll{std::mt19937_64(5)};
  int answers = 0;
  int infeasible = 0;
  std::int64_t asked = 0;
  std::int64_t asked_without = 0;
  for (int round = 0; round < 16; ++round) {
    plan_request request{.setup = random_mixture(roll)};
    request.setup.parallelism = {};
    request.setup.model.num_hidden_layers = 4;
    request.on = {.gpu = catalog::a100_sxm4_80gb, .gpus_per_node = 4, .between_nodes = 200_GBps};
    request.efficiency = catalog::ampere;
    request.effective_batch = {roll.from(3, 8), 8};
    const range<std::int64_t> any{1, 4};
    request.space = {.pipeline_parallel = any,
                     .virtual_pipeline = any,
                     .expert_parallel = any,
                     .zero_stage = range<std::int64_t>{0, 1},
                     .recompute = true};
    request.goal = roll.one_in(3) ? plan_goal::least_memory : plan_goal::least_time;
    const transformer_memory_of memory_of{};
    plan_request least = request;
    least.goal = plan_goal::least_memory;
    const auto smallest = plan_training(least, memory_budget(1000_TB), memory_of, 1);
    if (!smallest) continue;
    // at times too little for any
    const double share = round % 8 == 7 ? 0.95 : 1 + 0.05 * static_cast<double>(roll.from(0, 11));
    const memory_budget budget = share * smallest->best().required;
    const auto with = plan_training(request, budget, memory_of, 4);
    const auto without = plan_training(request, budget, memory_without_floor{memory_of}, 4);
    REQUIRE(static_cast<bool>(with) == static_cast<bool>(without));
    if (!with) {
      ++infeasible;
      CHECK(with.why() == without.why());
      continue;
    }
    ++answers;
    asked += with->asked;
    asked_without += without->asked;
    REQUIRE(with->count == without->count);
    for (int at = 0; at < with->count; ++at) {
      CHECK(with->plans[at].batch == without->plans[at].batch);
      CHECK(with->plans[at].layout == without->plans[at].layout);
      CHECK(with->plans[at].recompute == without->plans[at].recompute);
      CHECK(with->plans[at].required == without->plans[at].required);
    }
  }
  CHECK(answers > 8);
  CHECK(infeasible > 0);
  CHECK(asked < asked_without);
}

TEST_CASE("no stage is fuller") {
  dice roll{std::mt19937_64(2)};
  int valid = 0;
  int pipelines = 0;
  int mixtures = 0;
  for (int layout = 0; layout < 400; ++layout) {
    const bool has_experts = roll.coin();
    const training_setup setup = has_experts ? random_mixture(roll) : random_division(roll);
    const std::int64_t unit =
        setup.parallelism.virtual_pipeline > 1 ? setup.parallelism.pipeline_parallel : 1;
    const batch_plan plan{
        roll.from(1, 3), one_of<std::int64_t>(roll, {1, 2, 8}), unit * roll.from(1, 4)};
    const fullest_stage_memory memory = transformer_memory_of{}(setup);
    if (!validate(memory) || !validate(memory, plan)) continue;
    ++valid;
    pipelines += setup.parallelism.pipeline_parallel > 2;
    mixtures += setup.parallelism.pipeline_parallel > 2 && has_experts;
    bytes most{};
    for (std::int64_t stage = 0; stage < setup.parallelism.pipeline_parallel; ++stage) {
      transformer_memory there = memory.of;
      there.setup.place.stage = stage;
      most = std::max(most, there.required(plan));
    }
    CHECK(memory.required(plan) == most);
  }
  CHECK(valid > 150);
  CHECK(pipelines > 40);
  CHECK(mixtures > 20);
}

TEST_CASE("the fullest stage is as full where its replays are constants of their own") {
  static constexpr fullest_stage_memory memory{
      {.setup = {.model = {.num_hidden_layers = 2,
                           .hidden_size = 64,
                           .intermediate_size = 256,
                           .num_attention_heads = 2,
                           .vocab_size = 512},
                 .sequence_length = 32,
                 .precision = bf16_megatron,
                 .parallelism = {.tensor_parallel = 2, .pipeline_parallel = 2},
                 .framework = catalog::megatron_core},
       .fragmentation = 0.125}};
  constexpr batch_plan plan{2, 2, 3};
  REQUIRE(validate(memory));
  constexpr bytes compiled = memory.required_in_chunks<memory, plan>();
  CHECK(compiled == memory.required(plan));
  CHECK(memory.required_in_chunks<memory, plan>() == memory.required(plan));
}

TEST_CASE("of stages that are alike the first is looked at, and the ends") {
  training_setup setup{.model = catalog::gpt2,
                       .sequence_length = 64,
                       .precision = bf16_megatron,
                       .framework = catalog::megatron_transformer_engine};
  setup.model.num_hidden_layers = 16;
  setup.parallelism.pipeline_parallel = 8;
  const auto looked_at = [&] {
    std::vector<std::int64_t> stages;
    for (std::int64_t stage = 0; stage < 8; ++stage)
      if (detail::may_be_fullest(setup, stage)) stages.push_back(stage);
    return stages;
  };
  using stages = std::vector<std::int64_t>;
  CHECK(looked_at() == stages{0, 1, 7});
  setup.parallelism.virtual_pipeline = 2;
  CHECK(looked_at() == stages{0, 1, 7});
  setup.parallelism.virtual_pipeline = 1;
  setup.parallelism.schedule = pipeline_schedule::zero_bubble;
  CHECK(looked_at() == stages{0, 1, 6, 7});
  setup.parallelism.schedule = pipeline_schedule::one_f_one_b;
  pipeline_split& split = setup.parallelism.split;
  for (const int layers : {2, 2, 1, 3, 1, 3, 2, 2})
    split.listed.layers[split.listed.count++] = static_cast<std::uint8_t>(layers);
  CHECK(looked_at() == stages{0, 1, 2, 3, 7});
  split = {};
  // Two layers each: of 3 without experts the last is the second stage's first.
  setup.model.moe = {.num_experts = 4, .num_experts_per_tok = 2, .moe_intermediate_size = 64};
  CHECK(looked_at() == stages{0, 1, 7});
  setup.model.moe.first_k_dense_layers = 3;
  CHECK(looked_at() == stages{0, 1, 2, 7});
  setup.model.moe.first_k_dense_layers = 4;
  CHECK(looked_at() == stages{0, 1, 2, 7});
  setup.model.moe.first_k_dense_layers = 5;
  CHECK(looked_at() == stages{0, 1, 2, 3, 7});
}

namespace {

// Every pass of the step replayed.
step_peaks replayed_in_full(const training_setup& setup, const batch_plan& plan) {
  eager::summed_memory memory(eager::stacks_of(setup.model));
  eager::train(memory, setup, plan, {}, nullptr, [&](eager::training_job& job) {
    job.settle();
    memory.start(job.alive());
    job.step();
  });
  return memory.peaks();
}

}  // namespace

TEST_CASE("passes that do as ones before are told as if they were replayed") {
  dice roll{std::mt19937_64(3)};
  int valid = 0;
  int interleaved = 0;
  int unlike = 0;
  for (int layout = 0; layout < 250; ++layout) {
    training_setup setup = roll.one_in(3) ? random_pipeline(roll) : random_division(roll);
    setup.parallelism.shares_kept_inputs = roll.one_in(3);
    setup.padding_mask = roll.one_in(3);
    setup.place.stage = roll.from(0, setup.parallelism.pipeline_parallel - 1);
    if (setup.framework.implementation.transformer_engine &&
        setup.parallelism.tensor_parallel == 1 && roll.coin())
      setup.model.moe = {.num_experts = 4, .num_experts_per_tok = 2, .moe_intermediate_size = 256};
    const bool in_turns = setup.parallelism.virtual_pipeline > 1;
    const batch_plan plan{roll.from(1, 3),
                          one_of<std::int64_t>(roll, {1, 2, 8}),
                          (in_turns ? setup.parallelism.pipeline_parallel : 1) * roll.from(1, 12)};
    if (!validate(transformer_memory{setup}, plan)) continue;
    ++valid;
    interleaved += in_turns;
    const step_peaks told = peaks_of(setup, plan);
    const step_peaks replayed = replayed_in_full(setup, plan);
    for (int moment = 0; moment < step_moments; ++moment)
      unlike += !(told.at[moment] == replayed.at[moment]);
  }
  CHECK(valid > 80);
  CHECK(interleaved > 20);
  CHECK(unlike == 0);
}

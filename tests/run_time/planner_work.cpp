// How much a question to the planner takes, whatever the model, the framework and the number of
// GPUs: in replayed steps and in floors of memory, which no machine makes faster or slower.

#include "check.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>

#include <cstdint>
#include <string>

using namespace gpuplan;

namespace {

struct work {
  std::int64_t replays = 0;
  std::int64_t floors = 0;
};

// The planner's own memory, counted.
struct counted_memory_of {
  struct model {
    fullest_stage_memory of{};
    work* done = nullptr;

    bytes required(const batch_plan& plan) const {
      ++done->replays;
      return of.required(plan);
    }
    friend auto validate(const model& asked) { return validate(asked.of); }
    friend auto validate(const model& asked, const batch_plan& plan) {
      return validate(asked.of, plan);
    }
  };
  transformer_memory_of of{};
  work* done = nullptr;

  counted_memory_of on(const gpu_spec& gpu) const { return {of.on(gpu), done}; }
  model operator()(const training_setup& setup) const { return {of(setup), done}; }
  bytes at_least(const training_setup& setup,
                 const batch_plan& plan,
                 const parameter_counts& held) const {
    ++done->floors;
    return of.at_least(setup, plan, held);
  }
  bytes at_least(const training_setup& setup, const batch_plan& plan) const {
    return at_least(setup, plan, parameters(setup.model, setup.parallelism, {}));
  }
};

// All degrees that there are, of sequences of 2048 tokens or as many as the model takes.
plan_request question(const transformer& model, const framework& by, std::int64_t gpus) {
  plan_request asked;
  training_setup& setup = asked.setup;
  setup.model = model;
  setup.framework = by;
  setup.precision = by.engine.is == &engine_classes::megatron    ? bf16_megatron
                    : by.engine.is == &engine_classes::deepspeed ? bf16_master
                                                                 : bf16_mixed;
  if (by.engine.is == &engine_classes::fsdp2) setup.parallelism.zero_stage = 3;
  const std::int64_t positions = model.position_rows;
  setup.sequence_length = positions != 0 && positions < 2048 ? positions : 2048;
  setup.parallelism.sequence_parallel = by.implementation.layers == &layer_classes::torchtitan;
  asked.on = {.gpu = gpus < 1024 ? catalog::a100_sxm4_80gb : catalog::h100_sxm5_80gb,
              .nodes = gpus / 8,
              .gpus_per_node = 8,
              .between_nodes = 200_GBps};
  asked.efficiency = gpus < 1024 ? catalog::ampere : catalog::hopper;
  asked.effective_batch = gpus < 1024 ? 64 : 2 * gpus;
  const range<std::int64_t> any{1, gpus};
  asked.space = {.tensor_parallel = any,
                 .pipeline_parallel = any,
                 .virtual_pipeline = range<std::int64_t>{1, 1024},
                 .context_parallel = any,
                 .expert_parallel = any,
                 .zero_stage = range<std::int64_t>{0, 3},
                 .recompute = true,
                 .sequence_parallel = !setup.parallelism.sequence_parallel,
                 .micro_batch = {1, 64}};
  return asked;
}

// What a search took, or nothing where the code has no layout of the model.
work work_of(const transformer& model, const framework& by, std::int64_t gpus) {
  work done;
  const auto found = plan_training(question(model, by, gpus), counted_memory_of{.done = &done}, 5);
  if (found) CHECK(found->asked == done.replays);
  return done;
}

constexpr std::int64_t most_replays = 100;
constexpr std::int64_t most_floors = 50'000;

}  // namespace

TEST_CASE("models of the catalogue are planned by few replays, under any framework") {
  int at = 0;
  int searched = 0;
  work most;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape) continue;
    for (const framework* by : catalog::all_frameworks)
      for (const std::int64_t gpus : {8, 64, 1024, 16384}) {
        if (++at % 449 != 0) continue;  // a sample, of all models, frameworks and numbers
        CAPTURE(std::string(model.id));
        CAPTURE(std::string(by->name));
        CAPTURE(gpus);
        const work done = work_of(*model.shape, *by, gpus);
        searched += done.floors != 0;
        CHECK(done.replays <= most_replays);
        CHECK(done.floors <= most_floors);
        most.replays = done.replays > most.replays ? done.replays : most.replays;
        most.floors = done.floors > most.floors ? done.floors : most.floors;
      }
  }
  MESSAGE(searched, " searches of at most ", most.replays, " replays and ", most.floors, " floors");
  CHECK(searched > 10);
}

TEST_CASE("where no plan fits, what layers keep rules most of them out") {
  CHECK(work_of(catalog::gpt3_13b, catalog::megatron_deepspeed, 8).replays <= 20);
  CHECK(work_of(catalog::command_r_v01, catalog::megatron_deepspeed, 8).replays <= 60);
}

TEST_CASE("of thousands of micro-batches few are replayed") {
  plan_request asked = question(catalog::gpt2, catalog::torch_gpt, 8);
  asked.effective_batch = {1 << 20, 1 << 21};
  asked.space.micro_batch = {1, 10'000};
  for (const plan_goal goal : {plan_goal::least_time, plan_goal::least_memory}) {
    asked.goal = goal;
    work done;
    REQUIRE(plan_training(asked, counted_memory_of{.done = &done}, 1));
    CHECK(done.replays <= 200);
  }
}

TEST_CASE("a space of more layouts than a planner has room for has the best plan of its parts") {
  plan_request asked = question(catalog::deepseek_v3, catalog::megatron_transformer_engine, 2048);
  asked.setup.parallelism.pipeline_parallel = 16;
  asked.setup.parallelism.zero_stage = 1;
  asked.space.pipeline_parallel = asked.space.virtual_pipeline = asked.space.zero_stage = {};
  asked.space.micro_batch = {1, 2};
  work done;
  const auto found = plan_training(asked, counted_memory_of{.done = &done}, 3);
  REQUIRE(found);
  CHECK(found->count == 3);
  CHECK(done.replays <= most_replays);
  duration least = found->best().per_sample();
  std::int64_t plans = 0;
  for (std::int64_t tensor = 1; tensor <= 8; tensor *= 2)
    for (std::int64_t context = 1; context <= 1024; context *= 2) {
      plan_request part = asked;
      part.space.tensor_parallel = range<std::int64_t>{tensor, tensor};
      part.space.context_parallel = range<std::int64_t>{context, context};
      const auto best = plan_training(part, transformer_memory_of{}, 1);
      if (!best) continue;
      plans += best->evaluated + best->excluded;
      if (best->best().per_sample() < least) least = best->best().per_sample();
    }
  CHECK(found->best().per_sample() == least);
  CHECK(found->evaluated + found->excluded >= plans);  // those that do not fit, too
}

namespace {

// Enough for any plan.
struct little_memory {
  affine_memory operator()(const training_setup&) const { return {.fixed = 1_GB}; }
};

}  // namespace

namespace {

// What a micro-batch and accumulation take, which is its floor too; counts those that do not fit.
struct memory_as_its_floor {
  static constexpr double budget = 20e9;

  struct model {
    std::int64_t* too_large = nullptr;
    double each = 0;

    double size(const batch_plan& plan) const {
      return each * static_cast<double>(plan.micro_batch) *
             (8 + static_cast<double>(plan.accumulation));
    }
    bytes required(const batch_plan& plan) const {
      *too_large += size(plan) > budget ? 1 : 0;
      return bytes::from_value(size(plan));
    }
  };
  std::int64_t* too_large = nullptr;

  model operator()(const training_setup& setup) const {
    return {too_large, setup.recompute == recompute_mode::full ? 1e8 : 4e8};
  }
  bytes at_least(const training_setup& setup, const batch_plan& plan) const {
    return bytes::from_value((*this)(setup).size(plan));
  }
};

}  // namespace

TEST_CASE("memory is not asked for a plan that its floor refuses") {
  for (const plan_goal goal : {plan_goal::least_time, plan_goal::least_memory})
    for (const range<std::int64_t>& gpus : {range<std::int64_t>{8}, range<std::int64_t>{1, 8}}) {
      plan_request asked = question(catalog::llama_3_8b, catalog::megatron_lm, 8);
      asked.effective_batch = {250, 256};
      asked.space.gpus = gpus;
      asked.goal = goal;
      std::int64_t too_large = 0;
      const auto found = plan_training(asked,
                                       bytes::from_value(memory_as_its_floor::budget),
                                       memory_as_its_floor{&too_large},
                                       8);
      REQUIRE(found);
      CHECK(found->count == 8);
      CHECK(too_large == 0);
    }
}

// 10,080 layers have many divisors, and each is a number of stages and of chunks.
TEST_CASE("one family of more layouts than there is room for has the best plan of its parts") {
  plan_request asked = question(catalog::gpt2, catalog::megatron_lm, 16384);
  asked.setup.model.num_hidden_layers = 10'080;
  asked.on.nodes = 16384;
  asked.on.gpus_per_node = 1;
  asked.effective_batch = {10'080, 20'160};
  asked.space = {.gpus = range<std::int64_t>{1, 10'080},
                 .pipeline_parallel = range<std::int64_t>{1, 10'080},
                 .virtual_pipeline = range<std::int64_t>{1, 10'080},
                 .zero_stage = range<std::int64_t>{0, 1},
                 .micro_batch = {1, 1},
                 .data_parallel = range<std::int64_t>{1, 1}};
  const auto found = plan_training(asked, 2_GB, little_memory{}, 1);
  REQUIRE(found);
  std::int64_t plans = 0;
  double least = 1e300;
  for (std::int64_t first = 1; first <= 10'080; first *= 2) {
    asked.space.pipeline_parallel = range<std::int64_t>{first, 2 * first - 1};
    const auto part = plan_training(asked, 2_GB, little_memory{}, 1);
    if (!part) continue;
    plans += part->evaluated + part->excluded;
    if (part->best().per_sample().value() < least) least = part->best().per_sample().value();
  }
  MESSAGE(plans, " plans");
  CHECK(found->best().per_sample().value() == least);
  CHECK(found->evaluated + found->excluded == plans);
}

namespace {

// Too much from a fifth sample on; counts how often that is asked.
struct memory_of_four {
  std::int64_t* floors = nullptr;

  affine_memory operator()(const training_setup&) const { return {.per_sample = 10_GB}; }
  bytes at_least(const training_setup&, const batch_plan& plan) const {
    ++*floors;
    return 10_GB * plan.micro_batch;
  }
};

}  // namespace

// 12 heads are divided by 1, 2 and 4 ranks, with and without ZeRO-1, in three modes. Of each layout
// the least micro-batch is looked at, those that fit, the first that does not, and by halves where
// that begins; twice, as the best 16 come first.
TEST_CASE("larger micro-batches than one that is too large are not looked at") {
  const std::int64_t layouts = 3 * 2 * 3;
  for (const plan_goal goal : {plan_goal::least_memory, plan_goal::least_time}) {
    plan_request asked = question(catalog::gpt2, catalog::megatron_lm, 8);
    asked.setup.sequence_length = 1024;
    asked.effective_batch = {512, 1024};
    asked.space = {.tensor_parallel = range<std::int64_t>{1, 8},
                   .zero_stage = range<std::int64_t>{0, 1},
                   .recompute = true,
                   .micro_batch = {1, 64}};
    asked.goal = goal;
    std::int64_t floors = 0;
    const auto found = plan_training(asked, 49_GB, memory_of_four{&floors}, 8);
    REQUIRE(found);
    CHECK(found->count == 8);
    CHECK(found->best().batch.micro_batch == (goal == plan_goal::least_memory ? 1 : 4));
    CHECK(floors <= 2 * layouts * (1 + 4 + 1 + 3));
    // Of several numbers of GPUs each is looked at.
    asked.space.gpus = range<std::int64_t>{4, 8};
    const auto on_any = plan_training(asked, 49_GB, memory_of_four{&floors}, 8);
    REQUIRE(on_any);
    for (const training_plan& plan : *on_any) CHECK(plan.batch.micro_batch <= 4);
  }
}

// Searches while compiling, each in constant expressions of its own, find what the same search
// finds at run time.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/chunks.hpp>
#include <gpuplan/require.hpp>

#include <cstdint>
#include <initializer_list>

using namespace gpuplan;

namespace {

constexpr auto llama_on_64_h100 = [] {
  plan_request asked;
  asked.setup = {.model = catalog::llama_3_8b,
                 .sequence_length = 8192,
                 .precision = bf16_mixed,
                 .parallelism = {.zero_stage = 3},
                 .framework = catalog::torchtitan};
  asked.on = {
      .gpu = catalog::h100_sxm5_80gb, .nodes = 8, .gpus_per_node = 8, .between_nodes = 400_GBps};
  asked.efficiency = catalog::hopper;
  asked.effective_batch = {128, 512};
  asked.space = {.gpus = range<std::int64_t>{8, 64},
                 .tensor_parallel = range<std::int64_t>{1, 8},
                 .zero_stage = range<std::int64_t>{2, 3},
                 .recompute = true,
                 .micro_batch = {1, 4}};
  return asked;
};

constexpr auto llama_on_32_h100 = [] {
  plan_request asked = llama_on_64_h100();
  asked.on.nodes = 4;
  asked.space.gpus = range<std::int64_t>{16, 32};
  asked.space.tensor_parallel = range<std::int64_t>{1, 2};
  asked.space.micro_batch = {1, 2};
  return asked;
};

// A rank's weights, and 30 GB for each sample.
struct by_parameters {
  constexpr affine_memory operator()(const training_setup& setup) const {
    const auto held = parameters(setup.model, setup.parallelism, {}).total();
    return {.fixed = bytes::from_value(4.0 * static_cast<double>(held)), .per_sample = 30_GB};
  }
};

struct too_large_for_any {
  constexpr affine_memory operator()(const training_setup& setup) const {
    affine_memory memory = by_parameters{}(setup);
    memory.fixed = memory.fixed + 100_GB;
    return memory;
  }
};

constexpr cluster_choice others[] = {
    {{.gpu = catalog::a100_sxm4_80gb,
      .nodes = 2,
      .gpus_per_node = 8,
      .between_nodes = 200_GBps,
      .price_per_gpu = dated_price{1_usd_per_hour, "2026-01-01", "a"}},
     catalog::ampere}};
constexpr auto cheapest_of_two = [] {
  plan_request asked = llama_on_32_h100();
  asked.on.price_per_gpu = dated_price{5_usd_per_hour, "2026-01-01", "a test"};
  asked.others = others;
  asked.goal = plan_goal::least_money;
  return asked;
};
constexpr auto in_a_second = [] {
  plan_request asked = llama_on_32_h100();
  asked.samples = 1'000'000;
  asked.finish_in = 1_s;
  return asked;
};

bool same_plan(const training_plan& a, const training_plan& b) {
  return a.gpus == b.gpus && a.cluster == b.cluster && a.layout == b.layout &&
         a.recompute == b.recompute && a.batch == b.batch && a.required == b.required;
}

}  // namespace

TEST_CASE("more than 10,000 plans are searched with exact memory while compiling") {
  constexpr auto answer = require(
      [] { return plan_training(llama_on_64_h100, [] { return transformer_memory_of{}; }); });
  static_assert(answer.evaluated + answer.excluded > 10'000);
  static_assert(answer.count == 1);
  const auto at_run_time = plan_training(llama_on_64_h100(), transformer_memory_of{}, 1);
  REQUIRE(at_run_time);
  CHECK(same_plan(answer.best(), at_run_time->best()));
  CHECK(answer.evaluated + answer.excluded == at_run_time->evaluated + at_run_time->excluded);
}

namespace {

constexpr auto memory_by_parameters = [] { return by_parameters{}; };
constexpr auto memory_too_large = [] { return too_large_for_any{}; };

}  // namespace

TEST_CASE("several plans and clusters are searched while compiling") {
  constexpr auto answer = plan_training<3>(cheapest_of_two, memory_by_parameters);
  static_assert(answer && answer->count == 3);
  static_assert(answer->best().cluster == 1);
  const auto at_run_time = plan_training(cheapest_of_two(), by_parameters{}, 3);
  REQUIRE(at_run_time->count == 3);
  // The last step is the same at run time.
  const auto last_step = plan_training<3>(cheapest_of_two, memory_by_parameters);
  REQUIRE(last_step->count == 3);
  for (int plan = 0; plan < 3; ++plan) {
    CHECK(same_plan(answer->plans[plan], at_run_time->plans[plan]));
    CHECK(same_plan(answer->plans[plan], last_step->plans[plan]));
  }
}

TEST_CASE("where nothing fits while compiling, the reason is the nearest plan's") {
  constexpr auto too_large = plan_training(llama_on_32_h100, memory_too_large);
  static_assert(too_large.why().code == errc::no_plan_in_memory);
  CHECK(plan_training(llama_on_32_h100, memory_too_large).why() == too_large.why());
  const auto at_run_time = plan_training(llama_on_32_h100(), too_large_for_any{}, 1);
  CHECK(too_large.why()[fact::needed_MB] == at_run_time.why()[fact::needed_MB]);
  CHECK(too_large.why()[fact::gpu_has_MB] == at_run_time.why()[fact::gpu_has_MB]);

  constexpr auto too_slow = plan_training(in_a_second, memory_by_parameters);
  static_assert(too_slow.why().code == errc::no_plan_in_time);
  CHECK(plan_training(in_a_second, memory_by_parameters).why() == too_slow.why());
  const auto in_any_memory = plan_training(in_a_second(), 1e9 * 1_GB, by_parameters{}, 1);
  CHECK(too_slow.why()[fact::minutes] == in_any_memory.why()[fact::minutes]);
  const auto also_too_slow = plan_training(in_a_second(), by_parameters{}, 1);
  CHECK(too_slow.why()[fact::minutes] <= also_too_slow.why()[fact::minutes]);
}

TEST_CASE("torchtitan's layouts never need less than is said before they are replayed") {
  dice roll{std::mt19937_64(1)};
  const auto one = [&](std::initializer_list<std::int64_t> of) {
    return of.begin()[roll.from(0, static_cast<std::int64_t>(of.size()) - 1)];
  };
  const transformer_memory_of memory_of{.fragmentation = 0};
  int compared = 0;
  double shares = 0;
  for (int round = 0; round < 600; ++round) {
    training_setup setup = llama_on_32_h100().setup;
    setup.sequence_length = one({512, 2048, 8192});
    setup.parallelism = {.tensor_parallel = one({1, 2, 4}), .context_parallel = one({1, 1, 2})};
    setup.parallelism.zero_stage = static_cast<int>(one({2, 3}));
    if (roll.coin()) setup.recompute = recompute_mode::full;
    transformer& model = setup.model;
    model.num_hidden_layers = one({1, 2, 5, 16});
    model.num_attention_heads = one({8, 16, 32});
    model.head_dim = one({0, 64});
    model.hidden_size = one({512, 2048, 4096});
    model.intermediate_size = one({512, 1024, 14336});
    model.vocab_size = one({1000, 32000, 128256});
    const batch_plan plan{one({1, 2, 7}), one({1, 8, 64}), one({1, 2, 3})};
    const auto memory = memory_of(setup);
    if (!validate(memory) || !validate(memory, plan)) continue;
    const bytes least = memory_of.at_least(setup, plan);
    const bytes required = memory.required(plan);
    CHECK(least <= required);
    CHECK(least > bytes{});
    shares += least / required;
    ++compared;
  }
  CHECK(compared > 300);
  CHECK(shares / compared > 0.6);
}

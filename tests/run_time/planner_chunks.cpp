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

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

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

namespace {

// What a rank holds, and samples in flight; more on GPUs of 40 GB. Asked for in chunks, or at once.
struct asked_memory {
  double fixed = 0;
  double micro_batch = 0;
  std::int64_t in_flight = 1;

  constexpr bytes required(const batch_plan& plan) const {
    const std::int64_t kept = plan.accumulation < in_flight ? plan.accumulation : in_flight;
    return bytes::from_value(fixed + micro_batch * static_cast<double>(plan.micro_batch) *
                                         static_cast<double>(kept));
  }
  template <const asked_memory& Model, batch_plan Plan>
  static constexpr bytes required_in_chunks() {
    return Model.required(Plan);
  }
};
struct asked_memory_of {
  double times = 1;

  asked_memory_of on(const gpu_spec& gpu) const {
    return {usable_memory(gpu) < 50_GB ? 1.5 * times : times};
  }
  asked_memory operator()(const training_setup& setup) const {
    const auto held = static_cast<double>(parameters(setup.model, setup.parallelism, {}).total());
    const double kept[] = {30, 20, 2};
    return {.fixed = times * held * (18 - 3 * setup.parallelism.zero_stage),
            .micro_batch = times * kept[static_cast<int>(setup.recompute)] * 512 * 256,
            .in_flight = setup.parallelism.pipeline_parallel};
  }
};

plan_request random_small_request(dice& roll, std::vector<cluster_choice>& clusters) {
  plan_request asked;
  transformer& model = asked.setup.model;
  model = {.num_hidden_layers = roll.from(2, 6),
           .hidden_size = 256,
           .intermediate_size = 1024,
           .num_attention_heads = 4,
           .vocab_size = 1000,
           .norm = norm_kind::layer_norm,
           .norm_bias = true,
           .position_rows = 512};
  asked.setup.sequence_length = 512;
  asked.setup.precision = bf16_megatron;
  asked.setup.framework = catalog::megatron_core;
  const auto rolled = [&](const gpu_spec& gpu) {
    return cluster{
        .gpu = gpu,
        .nodes = roll.from(1, 2),
        .gpus_per_node = roll.from(1, 4),
        .between_nodes = 25_GBps,
        .price_per_gpu = dated_price{
            static_cast<double>(roll.from(1, 4)) * 1_usd_per_hour, "2026-01-01", "a test"}};
  };
  asked.on = rolled(catalog::a100_sxm4_80gb);
  asked.efficiency = catalog::ampere;
  clusters.clear();
  if (roll.coin()) clusters.push_back({rolled(catalog::a100_pcie_40gb), catalog::ampere});
  if (roll.one_in(3)) clusters.push_back({rolled(catalog::h100_sxm5_80gb), catalog::hopper});
  asked.others = clusters;
  asked.effective_batch = {roll.from(1, 8), 8};
  if (!roll.one_in(4)) {
    const std::int64_t least = roll.from(1, 3);
    asked.space.tensor_parallel = range<std::int64_t>{least, roll.from(least, 6)};
  }
  if (roll.coin()) asked.space.pipeline_parallel = range<std::int64_t>{1, 2};
  asked.space.micro_batch = {1, roll.from(1, 4)};
  asked.space.recompute = roll.one_in(3);
  asked.tensor_within_node = roll.coin();
  asked.goal = static_cast<plan_goal>(roll.from(0, 2));
  return asked;
}

struct search_in_steps {
  detail::search_progress at{};
  bool has_room = true;  // for its questions
  int asked = 0;         // in all
};
// What the compiler does: a step, then the memory that it asked for.
template <class MemoryOf>
search_in_steps searched_in_steps(const plan_request& request,
                                  const MemoryOf& memory_of,
                                  int wanted) {
  const detail::request_parts parts(request);
  search_in_steps search;
  for (detail::search_progress& at = search.at;;) {
    at = detail::advanced(request, memory_of, wanted, at);
    if (at.is_done) return search;
    if (!at.asks) continue;
    search.has_room = at.answered < detail::search_progress::most_questions;
    if (!search.has_room) return search;
    const plan_request here = parts[at.part];
    const bytes needed = detail::memory_on(memory_of, here.on.gpu)(at.setup).required(at.plan);
    // Nothing is asked twice.
    for (int before = 0; before < at.answered; ++before)
      CHECK(!at.questions[before].is_of(at.setup, at.plan));
    at.questions[at.answered++] = {at.setup.parallelism, at.setup.recompute, at.plan, needed};
    at.asks = false;
    ++search.asked;
  }
}

}  // namespace

TEST_CASE("the parts of a request are each cluster with each degree that it has") {
  dice roll{std::mt19937_64(2)};
  std::vector<cluster_choice> clusters;
  for (int round = 0; round < 300; ++round) {
    const plan_request request = random_small_request(roll, clusters);
    const detail::request_parts parts(request);
    std::int64_t part = 0;
    for (std::size_t cluster = 0; cluster <= clusters.size(); ++cluster) {
      const auto& on = cluster == 0 ? request.on : clusters[cluster - 1].on;
      const std::int64_t most = request.tensor_within_node ? on.gpus_per_node : total_gpus(on);
      const auto& degrees = request.space.tensor_parallel;
      const std::int64_t low = degrees ? degrees->low() : 1;
      const std::int64_t high = degrees ? degrees->high() : 1;
      for (std::int64_t degree = low; degree <= high; ++degree) {
        if (degree > low && degree > most) break;  // the first stands for none
        CHECK(parts.cluster_of_part(part) == cluster);
        const plan_request here = parts[part];
        CHECK(here.on.gpus_per_node == on.gpus_per_node);
        CHECK(here.on.gpu.name == on.gpu.name);
        CHECK(here.others.empty());
        CHECK(static_cast<bool>(here.space.tensor_parallel) == static_cast<bool>(degrees));
        if (degrees) CHECK(here.space.tensor_parallel->low() == degree);
        if (degrees) CHECK(here.space.tensor_parallel->high() == degree);
        ++part;
      }
    }
    CHECK(parts.count() == part);
  }
}

TEST_CASE("a search in steps finds what one of all finds, in random spaces") {
  dice roll{std::mt19937_64(3)};
  std::vector<cluster_choice> clusters;
  int found_any = 0;
  int none = 0;
  for (int round = 0; round < 400; ++round) {
    const plan_request request = random_small_request(roll, clusters);
    const asked_memory_of memory_of{std::exp2(static_cast<double>(roll.from(0, 13)))};
    const int wanted = static_cast<int>(roll.from(1, 3));
    const search_in_steps search = searched_in_steps(request, memory_of, wanted);
    if (!search.has_room) continue;
    const auto at_once = plan_training(request, memory_of, wanted);
    const auto in_steps = search.at.found.answer();
    CAPTURE(round);
    if (at_once) {
      ++found_any;
      CHECK(!search.at.is_for_least_memory);
      REQUIRE(in_steps);
      REQUIRE(in_steps->count == at_once->count);
      // Of clusters without a plan a whole search has no counts.
      CHECK(in_steps->evaluated + in_steps->excluded >= at_once->evaluated + at_once->excluded);
      for (int plan = 0; plan < at_once->count; ++plan) {
        const training_plan& there = in_steps->plans[plan];
        const training_plan& here = at_once->plans[plan];
        CHECK(there.required.value() ==
              detail::memory_on(memory_of, cluster_of(request, there).gpu)(setup_of(request, there))
                  .required(there.batch)
                  .value());
        // Of plans that are as good those of less tensor parallelism come first.
        if (!same_plan(there, here)) {
          CHECK(detail::goal_value(request, there) ==
                doctest::Approx(detail::goal_value(request, here)).epsilon(1e-12));
        }
      }
    } else if (at_once.why().code == errc::no_plan_in_memory) {
      ++none;
      // Of all plans in any memory the one that needs least.
      CHECK(search.at.is_for_least_memory);
      REQUIRE(in_steps);
      plan_request least = request;
      least.goal = plan_goal::least_memory;
      const auto smallest = plan_training(least, 1e9 * 1_GB, memory_of, 1);
      REQUIRE(smallest);
      CHECK(in_steps->best().required == smallest->best().required);
    } else {
      // Why is that of the first part: one degree may have no layout, another no batch.
      CHECK(!in_steps);
    }
  }
  MESSAGE(found_any, " with plans, ", none, " without");
  CHECK(found_any > 100);
  CHECK(none > 30);
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

// Plans of small models, worked out while compiling too, and why there is none.

#include "check.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>

#include <cstdint>
#include <span>

using namespace gpuplan;

namespace {

constexpr transformer small{.num_hidden_layers = 4,
                            .hidden_size = 1024,
                            .intermediate_size = 4096,
                            .num_attention_heads = 16,
                            .vocab_size = 32000,
                            .norm = norm_kind::layer_norm,
                            .norm_bias = true,
                            .position_rows = 1024};

// Fixed memory for each parameter that a rank holds, and some for each sample.
struct by_parameters {
  constexpr affine_memory operator()(const training_setup& setup) const {
    const auto held = parameters(setup.model, setup.parallelism, {}).total();
    return {.fixed = bytes::from_value(18.0 * static_cast<double>(held)), .per_sample = 1_GB};
  }
};

constexpr plan_request request(std::int64_t gpus) {
  plan_request asked;
  asked.setup = {.model = small,
                 .sequence_length = 1024,
                 .precision = bf16_megatron,
                 .framework = catalog::megatron_core};
  asked.on = {.gpu = catalog::a100_sxm4_80gb,
              .gpus_per_node = gpus,
              .price_per_gpu = dated_price{2_usd_per_hour, "2026-01-01", "a test"}};
  asked.efficiency = catalog::ampere;
  asked.effective_batch = 16;
  asked.space = {.tensor_parallel = range<std::int64_t>{1, 2}, .micro_batch = {1, 8}};
  return asked;
}

constexpr plan_request with(plan_request asked, std::int64_t samples, known<duration> time) {
  asked.samples = samples;
  asked.finish_in = time;
  return asked;
}
constexpr plan_request for_money(plan_request asked, std::int64_t samples, money most) {
  asked.samples = samples;
  asked.at_most = most;
  return asked;
}

}  // namespace

TEST_CASE("the best plan and the runner-up are worked out in one constant expression") {
  CONSTEXPR auto answer = plan_training(request(4), 20_GB, by_parameters{});
  STATIC_CHECK(answer);
  STATIC_CHECK(answer->count == 2);
  // 1 or 2 tensor-parallel ranks, 4 replicas or 2, micro-batches of 1, 2, 4 and, of 8, 2 replicas.
  STATIC_CHECK(answer->evaluated + answer->excluded == 3 + 4);
  STATIC_CHECK(answer->best().batch.effective_batch() == 16);
  STATIC_CHECK(answer->best().layout.tensor_parallel != answer->runner_up().layout.tensor_parallel);
  STATIC_CHECK(loss_of(answer->runner_up(), answer->best()) > 0);
}

TEST_CASE("its values are those of the estimators") {
  CONSTEXPR auto answer = plan_training(request(2), 20_GB, by_parameters{});
  CONSTEXPR training_plan best = answer->best();
  CONSTEXPR plan_request asked = request(2);
  CONSTEXPR training_setup setup = best.applied_to(asked.setup);
  CONSTEXPR duration step =
      roofline_time{.setup = setup, .on = asked.on, .efficiency = asked.efficiency}.step(
          best.batch);
  STATIC_CHECK(best.step / step - 1 < 1e-12 && best.step / step - 1 > -1e-12);
  STATIC_CHECK(best.required == by_parameters{}(setup).required(best.batch));
}

TEST_CASE("more than 10,000 plans are searched in one constant expression") {
  CONSTEXPR auto answer = plan_training(
      [] {
        plan_request asked = request(8);
        asked.setup.model = catalog::gpt3_175b;
        asked.setup.sequence_length = 2048;
        asked.on.nodes = 64;
        asked.on.between_nodes = 200_GBps;
        asked.effective_batch = {256, 6144};
        asked.space.micro_batch = {1, 6};
        asked.space.tensor_parallel = range<std::int64_t>{8, 8};
        asked.space.pipeline_parallel = range<std::int64_t>{1, 32};
        asked.space.zero_stage = range<std::int64_t>{0, 1};
        return asked;
      }(),
      80_GB,
      by_parameters{});
  STATIC_CHECK(answer);
  STATIC_CHECK(answer->evaluated + answer->excluded > 10'000);
  STATIC_CHECK(answer->excluded > answer->evaluated);
}

TEST_CASE("less memory costs time") {
  CONSTEXPR auto answer = plan_training(request(4), 5_GB, by_parameters{});
  CONSTEXPR auto with_more = plan_training(request(4), 20_GB, by_parameters{});
  STATIC_CHECK(loss_of(answer->best(), with_more->best()) > 0);
}

TEST_CASE("where there is no plan, the reason is one to act on") {
  CONSTEXPR failure memory = plan_training(request(4), 2_GB, by_parameters{}).why();
  STATIC_CHECK(memory.code == errc::no_plan_in_memory);
  STATIC_CHECK(memory[fact::gpu_has_MB] == 2000);
  STATIC_CHECK(memory[fact::needed_MB] > 2000);

  CONSTEXPR failure layout = plan_training(
                                 [] {
                                   plan_request asked = request(4);
                                   asked.space.tensor_parallel = range<std::int64_t>{3, 3};
                                   return asked;
                                 }(),
                                 20_GB,
                                 by_parameters{})
                                 .why();
  STATIC_CHECK(layout.code == errc::no_such_layout);

  CONSTEXPR failure batch = plan_training(
                                [] {
                                  plan_request asked = request(4);
                                  asked.effective_batch = 17;
                                  return asked;
                                }(),
                                20_GB,
                                by_parameters{})
                                .why();
  STATIC_CHECK(batch.code == errc::no_such_batch);

  CONSTEXPR failure time =
      plan_training(with(request(4), 1'000'000, 60_s), 20_GB, by_parameters{}).why();
  STATIC_CHECK(time.code == errc::no_plan_in_time);
  STATIC_CHECK(time[fact::at_most_minutes] == 1 && time[fact::minutes] > 1);

  CONSTEXPR failure cents =
      plan_training(for_money(request(4), 1'000'000, 1_usd), 20_GB, by_parameters{}).why();
  STATIC_CHECK(cents.code == errc::no_plan_for_money);
  STATIC_CHECK(cents[fact::at_most_cents] == 100 && cents[fact::cents] > 100);

  CONSTEXPR failure unknown =
      plan_training(with(request(4), 0, 60_s), 20_GB, by_parameters{}).why();
  STATIC_CHECK(unknown.code == errc::not_known);
}

namespace {

// What keeps a request out whose space, or layout, `change` has made.
template <class Change>
constexpr failure flaw_with(const Change& change) {
  plan_request asked = request(4);
  change(asked);
  return plan_training(asked, 20_GB, by_parameters{}).why();
}

constexpr bool is_out_of_bounds(const failure& why, fact name, std::int64_t value) {
  return why.code == errc::out_of_bounds && why[name] == value;
}

constexpr std::int64_t too_many = (std::int64_t{1} << 20) + 1;
constexpr std::int64_t most_samples = std::int64_t{1} << 40;  // of a step

// Of a range of the space that begins below 1, and of one that ends beyond 2^20.
constexpr bool is_bounded(known<range<std::int64_t>> plan_space::*degree, fact name) {
  const auto of = [&](const range<std::int64_t>& with) {
    return flaw_with([&](plan_request& asked) { asked.space.*degree = with; });
  };
  return is_out_of_bounds(of({0, 4}), name, 0) &&
         is_out_of_bounds(of({1, too_many}), name, too_many);
}

}  // namespace

TEST_CASE("degrees, micro-batches and GPUs that are none or too many are named") {
  STATIC_CHECK(is_bounded(&plan_space::gpus, fact::gpus));
  STATIC_CHECK(is_bounded(&plan_space::tensor_parallel, fact::tensor_parallel));
  STATIC_CHECK(is_bounded(&plan_space::pipeline_parallel, fact::pipeline_parallel));
  STATIC_CHECK(is_bounded(&plan_space::virtual_pipeline, fact::virtual_pipeline));
  STATIC_CHECK(is_bounded(&plan_space::context_parallel, fact::context_parallel));
  STATIC_CHECK(is_bounded(&plan_space::expert_parallel, fact::expert_parallel));
  STATIC_CHECK(is_bounded(&plan_space::data_parallel, fact::data_parallel));
  CONSTEXPR failure accumulation = flaw_with([](plan_request& asked) {
    asked.space.accumulation = range<std::int64_t>{1, most_samples + 1};
  });
  STATIC_CHECK(is_out_of_bounds(accumulation, fact::accumulation, most_samples + 1));
  CONSTEXPR failure batch = flaw_with([](plan_request& asked) {
    asked.effective_batch = {1, most_samples + 1};
  });
  STATIC_CHECK(is_out_of_bounds(batch, fact::samples, most_samples + 1));
  CONSTEXPR failure none = flaw_with([](plan_request& asked) { asked.space.micro_batch = {0, 4}; });
  STATIC_CHECK(is_out_of_bounds(none, fact::micro_batch, 0));
  CONSTEXPR failure micro_batch = flaw_with([](plan_request& asked) {
    asked.space.micro_batch = {1, too_many};
  });
  STATIC_CHECK(is_out_of_bounds(micro_batch, fact::micro_batch, too_many));
  CONSTEXPR failure stage = flaw_with([](plan_request& asked) {
    asked.space.zero_stage = range<std::int64_t>{0, 4};
  });
  STATIC_CHECK(is_out_of_bounds(stage, fact::zero_stage, 4));
  CONSTEXPR failure cluster = flaw_with([](plan_request& asked) {
    asked.on.nodes = too_many;
    asked.on.between_nodes = 200_GBps;
  });
  STATIC_CHECK(is_out_of_bounds(cluster, fact::devices, 4 * too_many));
}

namespace {

template <class Change>
constexpr bool is_taken(const Change& change) {
  plan_request asked = request(4);
  change(asked);
  return static_cast<bool>(validate(asked));
}
constexpr bool takes_most_of_every_degree() {
  for (known<range<std::int64_t>> plan_space::*degree : {&plan_space::gpus,
                                                         &plan_space::tensor_parallel,
                                                         &plan_space::pipeline_parallel,
                                                         &plan_space::virtual_pipeline,
                                                         &plan_space::context_parallel,
                                                         &plan_space::expert_parallel,
                                                         &plan_space::data_parallel,
                                                         &plan_space::accumulation})
    if (!is_taken([&](plan_request& asked) {
          asked.space.*degree = range<std::int64_t>{1, too_many - 1};
        }))
      return false;
  return true;
}

// Whether a request without prices is refused for that.
constexpr bool lacks_prices(plan_goal goal, bool on_several, known<money> most) {
  plan_request asked = request(4);
  asked.on.price_per_gpu = {};
  asked.goal = goal;
  asked.at_most = most;
  asked.samples = 1000;
  const cluster_choice other{asked.on, asked.efficiency};
  if (on_several) asked.others = std::span(&other, 1);
  const failure why = validate(asked).why();
  return why.code == errc::not_known && why.at_fault() == fact::price_per_gpu;
}
constexpr bool asks_for_prices_where_money_decides() {
  for (const plan_goal goal :
       {plan_goal::least_time, plan_goal::least_money, plan_goal::least_memory})
    for (const bool on_several : {false, true}) {
      const bool compares = goal == plan_goal::least_money && on_several;
      if (!lacks_prices(goal, on_several, 1_usd)) return false;
      if (lacks_prices(goal, on_several, {}) != compares) return false;
    }
  return true;
}
constexpr bool lacks_samples(known<duration> time, known<money> most, std::int64_t samples) {
  plan_request asked = with(request(4), samples, time);
  asked.at_most = most;
  const failure why = validate(asked).why();
  return why.code == errc::not_known && why.at_fault() == fact::samples;
}

}  // namespace

TEST_CASE("what is just within its bounds is taken") {
  STATIC_CHECK(takes_most_of_every_degree());
  STATIC_CHECK(is_taken([](plan_request& asked) { asked.space.micro_batch = {1, too_many - 1}; }));
  STATIC_CHECK(is_taken([](plan_request& asked) {
    asked.space.zero_stage = range<std::int64_t>{0, 3};
  }));
  STATIC_CHECK(is_taken([](plan_request& asked) {
    asked.on.nodes = (too_many - 1) / 4;
    asked.on.between_nodes = 200_GBps;
  }));
  STATIC_CHECK(is_taken([](plan_request& asked) { asked.effective_batch = 1; }));
  STATIC_CHECK(is_taken([](plan_request& asked) { asked.effective_batch = {1, most_samples}; }));
  STATIC_CHECK(is_taken([](plan_request& asked) {
    asked.space.accumulation = range<std::int64_t>{1, most_samples};
  }));
  STATIC_CHECK(!is_taken([](plan_request& asked) { asked.effective_batch = {0, 4}; }));
  STATIC_CHECK(!is_taken([](plan_request& asked) { asked.samples = -1; }));
  STATIC_CHECK(is_taken([](plan_request& asked) { asked.straggler_slowdown = 1; }));
  STATIC_CHECK(!is_taken([](plan_request& asked) { asked.straggler_slowdown = 0.99; }));
}

TEST_CASE("prices are asked for where money decides, and samples where a limit is on the run") {
  STATIC_CHECK(asks_for_prices_where_money_decides());
  STATIC_CHECK(lacks_samples(60_s, {}, 0));
  STATIC_CHECK(lacks_samples({}, 1_usd, 0));
  STATIC_CHECK(!lacks_samples({}, {}, 0));
  STATIC_CHECK(!lacks_samples(60_s, 1_usd, 1));
}

TEST_CASE("a layout that no degree is searched of is checked too") {
  CONSTEXPR failure context =
      flaw_with([](plan_request& asked) { asked.setup.parallelism.context_parallel = 0; });
  STATIC_CHECK(context.code == errc::not_positive);
  STATIC_CHECK(context[fact::context_parallel] == 0);
  CONSTEXPR failure of_other = [] {
    training_setup other = request(4).setup;
    other.parallelism.tensor_parallel = -1;
    return flaw_with([&](plan_request& asked) { asked.setups = std::span(&other, 1); });
  }();
  STATIC_CHECK(of_other.code == errc::not_positive);
  STATIC_CHECK(of_other[fact::tensor_parallel] == -1);
}

namespace {

// Less where a mask pads, of which no time is.
struct by_mask {
  constexpr affine_memory operator()(const training_setup& setup) const {
    return {.fixed = setup.padding_mask ? 1_GB : 2_GB, .per_sample = 1_MB};
  }
};
constexpr plan_answer with_and_without_mask(plan_goal goal, int plans) {
  plan_request asked = request(4);
  asked.goal = goal;
  training_setup other = asked.setup;
  other.padding_mask = true;
  asked.setups = std::span(&other, 1);
  return *plan_training(asked, 20_GB, by_mask{}, plans);
}

// Less on smaller GPUs.
struct by_gpu {
  bytes fixed = 2_GB;

  constexpr by_gpu on(const gpu_spec& gpu) const {
    return {usable_memory(gpu) < 50_GB ? 1_GB : 2_GB};
  }
  constexpr affine_memory operator()(const training_setup&) const {
    return {.fixed = fixed, .per_sample = 1_MB};
  }
};
constexpr plan_answer on_large_and_small() {
  plan_request asked = request(4);
  cluster_choice smaller{asked.on, asked.efficiency};
  smaller.on.gpu.memory = 40_GB;
  asked.others = std::span(&smaller, 1);
  return *plan_training(asked, by_gpu{}, 2);
}

}  // namespace

TEST_CASE("of plans with the same time, the one of less memory is the better one") {
  CONSTEXPR plan_answer fastest = with_and_without_mask(plan_goal::least_time, 2);
  STATIC_CHECK(fastest.best().step == fastest.runner_up().step);
  STATIC_CHECK(fastest.best().setup == 1 && fastest.runner_up().setup == 0);
  CONSTEXPR plan_answer cheapest = with_and_without_mask(plan_goal::least_money, 2);
  STATIC_CHECK(cheapest.best().step == cheapest.runner_up().step);
  STATIC_CHECK(cheapest.best().setup == 1 && cheapest.runner_up().setup == 0);
  STATIC_CHECK(with_and_without_mask(plan_goal::least_time, 1).best().setup == 1);
  CONSTEXPR plan_answer of_clusters = on_large_and_small();
  STATIC_CHECK(of_clusters.best().step == of_clusters.runner_up().step);
  STATIC_CHECK(of_clusters.best().cluster == 1 && of_clusters.runner_up().cluster == 0);
}

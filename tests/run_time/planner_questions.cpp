// What the planner asks of a memory model, and what it answers where plans are as good or just meet
// a limit: small spaces, worked out by hand or one by one.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/limits.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace gpuplan;

namespace {

plan_request on_one_gpu(const range<std::int64_t>& batch, const range<std::int64_t>& micro_batch) {
  plan_request request;
  request.setup = {.model = catalog::gpt2,
                   .sequence_length = 1024,
                   .precision = bf16_mixed,
                   .framework = catalog::torch_gpt};
  request.on = {.gpu = catalog::h100_sxm5_80gb,
                .price_per_gpu = dated_price{3_usd_per_hour, "2026-01-01", "a test"}};
  request.efficiency = catalog::hopper;
  request.effective_batch = batch;
  request.space.micro_batch = micro_batch;
  return request;
}

// GB of a plan, or what is refused: below 0. Keeps the plans that it was asked of.
struct questioned_memory_of {
  struct model {
    const questioned_memory_of* from = nullptr;
    training_setup setup{};

    bytes required(const batch_plan& plan) const {
      if (from->asked != nullptr) from->asked->push_back(plan);
      return from->size(setup, plan) * 1_GB;
    }
    friend result<bool> validate(const model& memory, const batch_plan& plan) {
      if (memory.from->size(memory.setup, plan) < 0)
        return failure(errc::out_of_bounds).about(fact::micro_batch);
      return true;
    }
  };
  std::function<double(const training_setup&, const batch_plan&)> size;
  std::vector<batch_plan>* asked = nullptr;

  model operator()(const training_setup& setup) const { return {this, setup}; }
};

questioned_memory_of by_plan(double (*size)(double micro_batch, double accumulation),
                             std::vector<batch_plan>* asked = nullptr) {
  return {[size](const training_setup&, const batch_plan& plan) {
            return size(static_cast<double>(plan.micro_batch),
                        static_cast<double>(plan.accumulation));
          },
          asked};
}

// A sample takes less time the larger its micro-batch is.
struct times_by_micro_batch {
  struct model {
    duration step(const batch_plan& plan) const {
      return static_cast<double>(plan.accumulation) * (1 + static_cast<double>(plan.micro_batch)) *
             1_s;
    }
  };
  model operator()(const training_setup&, const cluster&) const { return {}; }
};

bool is_a100(const gpu_spec& gpu) {
  return std::string_view(gpu.name) == catalog::a100_sxm4_80gb.name;
}

// Steps whose samples take less the more micro-batches there are, which the model says or does not.
template <bool Says>
struct falling_times {
  struct model {
    static constexpr bool sample_time_falls = Says;

    const falling_times* from;
    double factor;
    duration step(const batch_plan& plan) const {
      ++from->asked;
      const double each = 1 + factor * static_cast<double>(plan.micro_batch);
      return (static_cast<double>(plan.accumulation) * each + 3) * 1_s;
    }
  };
  model operator()(const training_setup& setup, const cluster&) const {
    return {this, 1 + 0.3 * static_cast<int>(setup.recompute) + 0.1 * setup.parallelism.zero_stage};
  }
  mutable std::int64_t asked = 0;
};

// Memory that rises with micro-batch and accumulation, and a floor of it, if it has one.
struct rising_memory_of {
  struct model {
    double of_sample, of_layout, of_accumulation;
    bytes required(const batch_plan& plan) const {
      return (of_layout + of_sample * static_cast<double>(plan.micro_batch) +
              of_accumulation * std::log2(static_cast<double>(plan.accumulation))) *
             1_GB;
    }
  };
  double of_sample = 1, of_accumulation = 1, floor = 0;
  model operator()(const training_setup& setup) const {
    return {of_sample / (1 + static_cast<int>(setup.recompute)),
            20.0 / (1 + setup.parallelism.zero_stage),
            of_accumulation};
  }
  bytes at_least(const training_setup& setup, const batch_plan& plan) const {
    return floor * (*this)(setup).required(plan);
  }
};

plan_request of_many_layouts(const range<std::int64_t>& batch) {
  plan_request request = on_one_gpu(batch, {1, 64});
  request.on.gpus_per_node = 8;
  request.space.recompute = true;
  request.space.zero_stage = range<std::int64_t>{0, 3};
  request.setup.framework.engine.is = &engine_classes::deepspeed;
  request.setup.precision = bf16_master;
  return request;
}

std::vector<std::int64_t> micro_batches_of(const std::vector<batch_plan>& asked) {
  std::vector<std::int64_t> all;
  for (const batch_plan& plan : asked) all.push_back(plan.micro_batch);
  return all;
}

}  // namespace

TEST_CASE("where all fits, memory is asked for once of each micro-batch that has a plan") {
  for (const std::int64_t low : {1, 40, 64}) {
    std::vector<batch_plan> asked;
    const auto found = plan_training(on_one_gpu({low, 64}, {1, 64}),
                                     1_TB,
                                     by_plan([](double b, double) { return b; }, &asked),
                                     8);
    REQUIRE(found);
    std::set<std::int64_t> expected;
    for (std::int64_t b = 1; b <= 64; ++b)
      if (64 / b * b >= low) expected.insert(b);
    CHECK(found->count == 1);  // of one layout
    CHECK(asked.size() == expected.size());
    for (const batch_plan& plan : asked) {
      CHECK(expected.erase(plan.micro_batch) == 1);
      CHECK(plan.data_parallel == 1);
      CHECK(plan.accumulation == 64 / plan.micro_batch);
    }
    CHECK(expected.empty());
  }
}

// The sixth that is too large shows that it is worth looking where that begins: by halves, between
// none and it.
TEST_CASE("where too large begins is looked for when six were too large") {
  using numbers = std::vector<std::int64_t>;
  std::vector<batch_plan> asked;
  plan_request request = on_one_gpu({4096, 4096}, {1, 4096});
  request.goal = plan_goal::least_memory;
  const auto least = plan_training(
      request, 1_TB, by_plan([](double b, double) { return 10 + b / 100; }, &asked), 1);
  REQUIRE(least);
  CHECK(least->best().batch == batch_plan{1, 1, 4096});
  CHECK(micro_batches_of(asked) ==
        numbers{1, 2, 4, 8, 16, 32, 64, /* with one accumulation */ 64, 32, 16, 8, 4, 2, 1});

  request.goal = plan_goal::least_time;
  for (const bool fits : {false, true}) {
    asked.clear();
    const bytes budget = fits ? 32_GB : 31_GB;  // 32 samples just fit, or just do not
    const auto fastest = plan_training(request,
                                       budget,
                                       by_plan([](double b, double) { return b; }, &asked),
                                       1,
                                       times_by_micro_batch{});
    REQUIRE(fastest);
    CHECK(fastest->best().batch.micro_batch == (fits ? 32 : 16));
    numbers expected{4096, 2048, 1024, 512, 256, 128, 128, 64, 32};
    for (const std::int64_t more :
         fits ? numbers{48, 40, 36, 34, 33, 32} : numbers{16, 24, 28, 30, 31, 16})
      expected.push_back(more);
    CHECK(micro_batches_of(asked) == expected);
  }
}

TEST_CASE("a micro-batch that just fits with fewer accumulations is not ruled out by more") {
  plan_request request = on_one_gpu({64, 64}, {1, 64});
  request.goal = plan_goal::least_memory;
  const auto found =
      plan_training(request, 1_GB, by_plan([](double, double many) { return many; }), 1);
  REQUIRE(found);
  CHECK(found->best().batch == batch_plan{64, 1, 1});
}

TEST_CASE("what is refused of some micro-batches says nothing of others") {
  plan_request request = on_one_gpu({64, 64}, {1, 64});
  for (const plan_goal goal : {plan_goal::least_time, plan_goal::least_memory}) {
    request.goal = goal;
    const auto largest =
        plan_training(request, 1_TB, by_plan([](double b, double) { return b < 33 ? -1 : b; }), 1);
    REQUIRE(largest);
    CHECK(largest->best().batch.micro_batch == 64);
    const auto smallest =
        plan_training(request, 1_TB, by_plan([](double b, double) { return b > 1 ? -1 : b; }), 1);
    REQUIRE(smallest);
    CHECK(smallest->best().batch.micro_batch == 1);
  }
}

TEST_CASE("of plans that need as much the fastest needs least") {
  plan_request request = on_one_gpu({12, 40}, {1, 4});
  const auto same = by_plan([](double, double) { return 1.0; });
  const auto fastest = plan_training(request, 1_TB, same, 1);
  request.goal = plan_goal::least_memory;
  const auto least = plan_training(request, 1_GB, same, 1);
  REQUIRE((fastest && least));
  CHECK(least->best().batch == fastest->best().batch);
  CHECK(least->best().batch.accumulation == 40 / least->best().batch.micro_batch);
}

// Twenty setups that differ by their names alone, of which memory knows.
TEST_CASE("of setups that take as long the one of least memory comes first, be they many") {
  static constexpr const char* names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                          "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};
  dice roll{std::mt19937_64(5)};
  int ties = 0;
  for (int round = 0; round < 60; ++round) {
    plan_request request = on_one_gpu({64, 64}, {1, 64});
    const auto count = static_cast<std::size_t>(roll.from(1, 20));
    std::vector<training_setup> setups(count, request.setup);
    for (std::size_t at = 0; at < count; ++at) setups[at].framework.name = names[at];
    request.setup = setups[0];
    request.setups = std::span(setups).subspan(1);
    request.goal = static_cast<plan_goal>(roll.from(0, 2));
    std::vector<double> fixed(count);
    for (double& each : fixed) each = static_cast<double>(roll.from(1, 40));
    const questioned_memory_of memory_of{[&](const training_setup& setup, const batch_plan& plan) {
      const auto which = static_cast<std::size_t>(setup.framework.name[0] - 'a');
      return fixed[which] + static_cast<double>(plan.micro_batch);
    }};
    const auto most = static_cast<double>(roll.from(2, 80));
    // The best of each setup, in order.
    struct known_plan {
      double value, per_sample, required;
      std::size_t setup;
      std::int64_t micro_batch;
    };
    std::vector<known_plan> expected;
    for (std::size_t which = 0; which < count; ++which) {
      known<known_plan> best;
      for (std::int64_t b = 1; b <= 64; b *= 2) {
        const double needed = fixed[which] + static_cast<double>(b);
        if (needed > most) continue;
        const training_plan plan{.setup = which, .gpus = 1, .batch = {b, 1, 64 / b}};
        const double time = time_of(request, plan).step(plan.batch).value();
        const double value = request.goal == plan_goal::least_memory ? needed : time;
        if (!best || value < best->value) best = known_plan{value, time, needed, which, b};
      }
      if (best) expected.push_back(*best);
    }
    const auto key = [](const known_plan& of) {
      return std::tuple(of.value, of.per_sample, of.required, of.setup);
    };
    std::sort(expected.begin(), expected.end(), [&](const known_plan& a, const known_plan& b) {
      return key(a) < key(b);
    });
    for (const int wanted : {1, 3, 8}) {
      const auto found = plan_training(request, most * 1_GB, memory_of, wanted);
      REQUIRE(static_cast<bool>(found) == !expected.empty());
      if (!found) break;
      REQUIRE(found->count == std::min(wanted, static_cast<int>(expected.size())));
      for (int at = 0; at < found->count; ++at) {
        const known_plan& there = expected[static_cast<std::size_t>(at)];
        CHECK(found->plans[at].setup == there.setup);
        CHECK(found->plans[at].batch.micro_batch == there.micro_batch);
        if (at > 0) ties += expected[static_cast<std::size_t>(at - 1)].value == there.value;
      }
    }
  }
  CHECK(ties > 100);
}

TEST_CASE("where memory falls with replicas, each number of GPUs is looked at by itself") {
  struct shared_memory_of {
    struct model {
      bytes* most;  // of what was asked for

      bytes required(const batch_plan& plan) const {
        const bytes needed = shared(plan);
        if (*most < needed) *most = needed;
        return needed;
      }
    };
    bytes* most;

    static bytes shared(const batch_plan& plan) {
      return 80.0 / static_cast<double>(plan.data_parallel) * 1_GB;
    }
    model operator()(const training_setup&) const { return {most}; }
    bytes at_least(const training_setup&, const batch_plan& plan) const { return shared(plan); }
  };
  plan_request request = on_one_gpu({840, 840}, {1, 1});
  request.setup.framework = catalog::megatron_lm;
  request.setup.precision = bf16_megatron;
  request.on.gpus_per_node = 8;
  request.space.gpus = range<std::int64_t>{1, 8};
  for (const plan_goal goal :
       {plan_goal::least_time, plan_goal::least_money, plan_goal::least_memory})
    for (std::int64_t fewest = 1; fewest <= 8; ++fewest) {
      request.goal = goal;
      const bytes budget = 80.0 / static_cast<double>(fewest) * 1_GB;
      bytes most{};
      const auto found = plan_training(request, budget, shared_memory_of{&most}, 8);
      REQUIRE(found);
      CHECK(most == budget);  // what the floor refuses is not asked for
      std::set<std::int64_t> gpus;
      for (const training_plan& plan : *found) gpus.insert(plan.gpus);
      CHECK(gpus.size() == static_cast<std::size_t>(9 - fewest));
      CHECK(*gpus.begin() == fewest);
    }
}

TEST_CASE("of a cluster all of whose plans are slower, memory is not asked for") {
  std::vector<batch_plan> asked;
  plan_request request = on_one_gpu({16, 16}, {1, 16});
  cluster_choice slower{request.on, catalog::ampere};
  slower.on.gpu = catalog::a100_sxm4_80gb;
  request.others = std::span(&slower, 1);
  struct memory_on_each {
    std::vector<batch_plan>* asked;
    bool is_slower = false;

    memory_on_each on(const gpu_spec& gpu) const { return {asked, is_a100(gpu)}; }
    questioned_memory_of::model operator()(const training_setup& setup) const {
      static questioned_memory_of known;
      static questioned_memory_of noted;
      const auto size = [](const training_setup&, const batch_plan&) { return 1.0; };
      known = {size, nullptr};
      noted = {size, asked};
      return {is_slower ? &noted : &known, setup};
    }
  };
  const auto found = plan_training(request, 80_GB, memory_on_each{&asked}, 1);
  REQUIRE(found);
  CHECK(found->best().cluster == 0);
  CHECK(asked.empty());
  CHECK(plan_training(request, 80_GB, memory_on_each{&asked}, 2));
  CHECK(!asked.empty());  // of two the second may be there
}

TEST_CASE("two plans are answered where nobody says how many") {
  plan_request request = on_one_gpu({16, 16}, {1, 16});
  request.on.gpus_per_node = 4;
  request.space.gpus = range<std::int64_t>{1, 4};
  const auto memory_of = by_plan([](double b, double) { return b; });
  CHECK(plan_training(request, 80_GB, memory_of, 3)->count == 3);
  CHECK(plan_training(request, 80_GB, memory_of)->count == 2);
  CHECK(plan_training(request, memory_of)->count == 2);
}

namespace {

// A GB for each accumulation, of which each makes a sample faster.
questioned_memory_of by_accumulation() {
  return by_plan([](double, double many) { return many; });
}
// The run of 840 samples by so many accumulations.
planned_run run_by(const plan_request& request, std::int64_t many) {
  training_plan plan{.gpus = 1, .batch = {1, 1, many}};
  plan.step = time_of(request, plan).step(plan.batch);
  return run_of(request, plan);
}

// A second for each accumulation, and without end from four on.
struct ending_times {
  struct model {
    duration step(const batch_plan& plan) const {
      return plan.accumulation < 4 ? static_cast<double>(plan.accumulation) * 1_s
                                   : duration::from_value(std::numeric_limits<double>::infinity());
    }
  };
  model operator()(const training_setup&, const cluster&) const { return {}; }
};

}  // namespace

TEST_CASE("why there is no plan is told by what just fits and what just meets a limit") {
  plan_request request = on_one_gpu({1, 8}, {1, 1});
  request.samples = 840;
  // Five accumulations are in time, and in 5 GB.
  request.finish_in = run_by(request, 5).time * (1 + 1e-12);
  CHECK(plan_training(request, 5_GB, by_accumulation(), 1));
  for (std::int64_t GB = 1; GB < 5; ++GB) {
    const failure why =
        plan_training(request, static_cast<double>(GB) * 1_GB, by_accumulation(), 1).why();
    CHECK(why.code == errc::no_plan_in_time);
    CHECK(why[fact::minutes] ==
          static_cast<std::int64_t>(std::ceil(run_by(request, GB).time.value() / 60)));
  }
  CHECK(plan_training(request, 0.5_GB, by_accumulation(), 1).why().code == errc::no_plan_in_memory);
  // In just as much time as the fastest takes, it is money that is missing.
  request.finish_in =
      run_of(request, plan_training(request, 8_GB, by_accumulation(), 1)->best()).time;
  request.at_most = run_by(request, 8).cost->value() / 2 * money::from_value(1);
  CHECK(plan_training(request, 8_GB, by_accumulation(), 1).why().code == errc::no_plan_for_money);
  // Some plans take too long, and others do not end.
  request.at_most = {};
  request.finish_in = 839_s;
  const failure too_long = plan_training(request, 8_GB, by_accumulation(), 1, ending_times{}).why();
  CHECK(too_long.code == errc::no_plan_in_time);
  CHECK(too_long[fact::minutes] == 14);
  request.finish_in = 840_s;
  CHECK(plan_training(request, 8_GB, by_accumulation(), 1, ending_times{}));
}

namespace {

known<lifted_limit> layers_that_help(const training_setup& setup, double (*size)(double layers)) {
  plan_request request = on_one_gpu({8, 8}, {1, 8});
  request.setup = setup;
  request.goal = plan_goal::least_memory;
  const questioned_memory_of memory_of{[size](const training_setup& of, const batch_plan&) {
    return size(static_cast<double>(of.model.num_hidden_layers));
  }};
  const auto limits = limits_of(request, 1_TB, memory_of);
  REQUIRE(limits);
  REQUIRE(limits->best);
  const lifted_limit* const found = limits->find(plan_limit::layers);
  if (found == nullptr) return {};
  return *found;
}

}  // namespace

TEST_CASE("up to four layers more are tried, of which the fewest are told that help most") {
  const training_setup gpt2 = on_one_gpu({8, 8}, {1, 8}).setup;  // of 12 layers
  const auto falling = layers_that_help(gpt2, [](double layers) { return 100 / layers; });
  REQUIRE(falling);
  CHECK(falling->layers == 16);
  CHECK(falling->gain == doctest::Approx(1 - 12.0 / 16));
  const auto alike = layers_that_help(gpt2, [](double layers) { return layers > 12 ? 5.0 : 6.0; });
  REQUIRE(alike);
  CHECK(alike->layers == 13);
  const auto third = layers_that_help(gpt2, [](double layers) {
    return layers == 15 ? 1.0 : layers == 13 ? 2.0 : 6.0;
  });
  REQUIRE(third);
  CHECK(third->layers == 15);
  CHECK(!layers_that_help(gpt2, [](double layers) { return layers < 17 ? 6.0 : 1.0; }));
}

TEST_CASE("of clusters the one is told that needs fewest GPUs more, be it a later one") {
  plan_request request = on_one_gpu({64, 64}, {1, 1});
  request.setup.framework = catalog::megatron_lm;
  request.setup.precision = bf16_megatron;
  request.on.gpus_per_node = 8;
  request.space.gpus = range<std::int64_t>{1, 1};
  struct memory_by_gpu {
    double fixed = 40;

    memory_by_gpu on(const gpu_spec& gpu) const { return {is_a100(gpu) ? 20.0 : 40.0}; }
    struct model {
      double fixed;
      bytes required(const batch_plan& plan) const {
        return fixed / static_cast<double>(plan.data_parallel) * 1_GB;
      }
    };
    model operator()(const training_setup&) const { return {fixed}; }
  };
  cluster_choice other{request.on, catalog::ampere};
  other.on.gpu = catalog::a100_sxm4_80gb;
  for (const bool comes_later : {false, true}) {
    plan_request here = request;
    cluster_choice choice = other;
    if (!comes_later) std::swap(here.on, choice.on);
    here.others = std::span(&choice, 1);
    const auto limits = limits_of(here, 10_GB, memory_by_gpu{});
    REQUIRE(limits);
    const lifted_limit* const gpus = limits->find(plan_limit::gpus);
    REQUIRE(gpus != nullptr);
    CHECK(gpus->plan.gpus == 2);
    CHECK(gpus->plan.cluster == (comes_later ? 1 : 0));
  }
}

TEST_CASE("a time of a sample that falls with accumulation is asked of the most that fits alone") {
  int found_any = 0;
  for (const double floor : {0.0, 0.5, 1.0})
    for (const double of_sample : {0.3, 2.0})
      for (const double of_accumulation : {0.0, 1.0, 4.0, 15.0})
        for (const std::int64_t high : {8, 64, 100, 777})
          for (const bool money : {false, true}) {
            CAPTURE(floor);
            CAPTURE(of_sample);
            CAPTURE(of_accumulation);
            CAPTURE(high);
            plan_request request = of_many_layouts({high / 2, high});
            if (money) request.goal = plan_goal::least_money;
            const rising_memory_of memory{of_sample, of_accumulation, floor};
            const auto all = plan_training(request, 24_GB, memory, 5, falling_times<false>{});
            const auto most = plan_training(request, 24_GB, memory, 5, falling_times<true>{});
            REQUIRE(static_cast<bool>(all) == static_cast<bool>(most));
            if (!all) continue;
            ++found_any;
            REQUIRE(all->count == most->count);
            for (int at = 0; at < all->count; ++at) {
              const training_plan& one = all->plans[at];
              const training_plan& other = most->plans[at];
              CHECK(one.layout == other.layout);
              CHECK(one.recompute == other.recompute);
              CHECK(one.batch == other.batch);
              CHECK(one.step == other.step);
              CHECK(one.required == other.required);
            }
          }
  CHECK(found_any > 100);
}

TEST_CASE("how often a time is asked does not grow with the batch") {
  const plan_request request = of_many_layouts({1'000'000, 2'000'000});
  const falling_times<true> times;
  const rising_memory_of memory{2, 0.1, 1};
  const auto found = plan_training(request, 24_GB, memory, 5, times);
  REQUIRE(found);
  CHECK(times.asked > 0);
  CHECK(times.asked <= 64 * 12);  // micro-batches of layouts
  const auto limits = limits_of(request, 24_GB, memory, times);
  REQUIRE(limits);
  CHECK(times.asked <= 64 * 12 + 20 * 1024 * 12);
}

// Of which cheap bytes are known, a little below what all plans need alike.
struct like_memory_of : questioned_memory_of {
  static bytes at_least(const training_setup&, const batch_plan&) { return 107_GB; }
};

TEST_CASE("where no plan fits, few of those that need the same are asked of") {
  const plan_request request = on_one_gpu({1, 4096}, {1, 512});
  std::vector<batch_plan> asked;
  const like_memory_of memory{by_plan([](double, double) { return 110.0; }, &asked)};
  const failure why = plan_training(request, 80_GB, memory).why();
  CHECK(why.code == errc::no_plan_in_memory);
  CHECK(why[fact::needed_MB] == 110'000);
  CHECK(asked.size() < 150);
  asked.clear();
  const auto limits = limits_of(request, 80_GB, memory);
  REQUIRE(limits);
  const lifted_limit* more = limits->find(plan_limit::memory);
  REQUIRE(more != nullptr);
  CHECK(more->plan.required == 110_GB);
  CHECK(asked.size() < 10 * 150);
}

TEST_CASE("what keeps a layout from being is told of the degree that was asked for") {
  plan_request request = on_one_gpu({64, 64}, {1, 64});
  request.on.gpus_per_node = 8;
  const auto memory = by_plan([](double, double) { return 1.0; });
  request.space.data_parallel = range<std::int64_t>(4);
  const failure replicas = plan_training(request, 80_GB, memory).why();
  CHECK(replicas.code == errc::no_such_code);
  CHECK(replicas[fact::data_parallel] == 4);
  CHECK(replicas[fact::devices] == 8);
  CHECK(replicas[fact::takes] == 8);
  request.space.virtual_pipeline = range<std::int64_t>(2);
  request.space.pipeline_parallel = range<std::int64_t>{1, 8};
  const failure chunks = plan_training(request, 80_GB, memory).why();
  CHECK(chunks.at_fault() == fact::virtual_pipeline);
  CHECK(chunks[fact::takes] == 1);
  request.space.virtual_pipeline = request.space.pipeline_parallel = {};
  // Else it is the batch's fault.
  request.space.data_parallel = range<std::int64_t>(8);
  request.effective_batch = 63;
  CHECK(plan_training(request, 80_GB, memory).why().code == errc::no_such_batch);

  request = on_one_gpu({64, 64}, {1, 64});
  request.setup.framework = catalog::megatron_lm;
  request.setup.model = catalog::mixtral_8x7b_v0_1;
  request.setup.precision = bf16_megatron;
  request.on.gpus_per_node = 8;
  request.on.nodes = 2;
  request.on.between_nodes = 50_GBps;
  request.space.tensor_parallel = range<std::int64_t>(16);
  const failure tensor = plan_training(request, 80_GB, memory).why();
  CHECK(tensor.code == errc::no_such_code);
  CHECK(tensor[fact::tensor_parallel] == 16);
  CHECK(tensor[fact::gpus_per_node] == 8);
  CHECK(tensor[fact::takes] == 8);
  request.space.tensor_parallel = {};
  request.space.expert_parallel = range<std::int64_t>(3);
  const failure expert = plan_training(request, 80_GB, memory).why();
  CHECK(std::string_view(failure_text(expert).c_str()) ==
        "expert_parallel 3 does not divide num_experts 8; 1, 2, 4 or 8 do");
}

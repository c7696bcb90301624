// Plans on several clusters are the best of those on each, and what a limit keeps away is what
// planning without it finds: shown by planning on both sides of each.

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
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

using namespace gpuplan;

namespace {

// Rises with what a rank holds, and with the micro-batches that its stages keep.
struct rising_memory {
  double fixed = 0;
  double micro_batch = 0;
  std::int64_t in_flight = 1;

  bytes required(const batch_plan& plan) const {
    const auto kept = static_cast<double>(std::min(plan.accumulation, in_flight));
    return bytes::from_value(fixed + kept * static_cast<double>(plan.micro_batch) * micro_batch);
  }
};
// More on GPUs of 40 GB, so that an answer for another one's shows.
struct memory_by_division {
  double times = 1;

  memory_by_division on(const gpu_spec& gpu) const {
    return {usable_memory(gpu) < 50_GB ? 1.5 : 1};
  }
  rising_memory operator()(const training_setup& setup) const {
    const parallelism& layout = setup.parallelism;
    const auto held = static_cast<double>(parameters(setup.model, layout, {}).total());
    const double kept[] = {30, 20, 2};
    const auto ranks = static_cast<double>(layout.tensor_parallel * layout.context_parallel);
    const auto tokens = static_cast<double>(setup.sequence_length * setup.model.hidden_size);
    return {.fixed = times * held * (18 - 3 * layout.zero_stage),
            .micro_batch = times * tokens * kept[static_cast<int>(setup.recompute)] / ranks,
            .in_flight = layout.pipeline_parallel};
  }
};

cluster random_cluster(dice& roll, const gpu_spec& gpu) {
  return {.gpu = gpu,
          .nodes = roll.from(1, 3),
          .gpus_per_node = roll.from(1, 4),
          .between_nodes = 25_GBps,
          .price_per_gpu = dated_price{
              static_cast<double>(roll.from(1, 4)) * 1_usd_per_hour, "2026-01-01", "a test"}};
}

plan_request random_request(dice& roll) {
  plan_request request;
  transformer& model = request.setup.model;
  model.num_hidden_layers = roll.from(3, 8);
  model.num_attention_heads = 4;
  model.hidden_size = 256;
  model.intermediate_size = 1024;
  model.vocab_size = 1000;
  model.position_rows = 512;
  model.norm = norm_kind::layer_norm;
  model.norm_bias = true;
  request.setup.framework = catalog::megatron_lm;
  request.setup.sequence_length = 512;
  request.setup.precision = bf16_master;
  request.on = random_cluster(roll, catalog::a100_sxm4_80gb);
  request.efficiency = catalog::ampere;
  const std::int64_t low = roll.from(1, 24);
  request.effective_batch = {low, low + (roll.coin() ? 0 : roll.from(0, 8))};
  plan_space& space = request.space;
  if (roll.coin()) space.gpus = range<std::int64_t>{1, roll.from(1, 6)};
  if (roll.coin()) space.tensor_parallel = range<std::int64_t>{1, roll.from(1, 4)};
  if (roll.coin()) space.pipeline_parallel = range<std::int64_t>{1, roll.from(1, 4)};
  if (roll.coin()) space.zero_stage = range<std::int64_t>{0, 1};
  space.recompute = roll.coin();
  space.micro_batch = {1, roll.from(1, 6)};
  request.tensor_within_node = roll.coin();
  request.goal = static_cast<plan_goal>(roll.from(0, 2));
  request.samples = 1000;
  return request;
}

double value_of(const plan_request& request, const training_plan& plan) {
  const double time = plan.per_sample().value();
  if (request.goal == plan_goal::least_memory) return plan.required.value();
  if (request.goal == plan_goal::least_time) return time;
  const price each = cluster_of(request, plan).price_per_gpu->each;
  return time * static_cast<double>(plan.gpus) * each.value();
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

plan_request on_cluster_alone(const plan_request& request, std::size_t cluster) {
  plan_request one = request;
  one.others = {};
  if (cluster == 0) return one;
  one.on = request.others[cluster - 1].on;
  one.efficiency = request.others[cluster - 1].efficiency;
  return one;
}

result<plan_answer> planned(const plan_request& request, const known<memory_budget>& budget) {
  return budget ? plan_training(request, *budget, memory_by_division{}, 1)
                : plan_training(request, memory_by_division{}, 1);
}

}  // namespace

TEST_CASE("the best plans of several clusters are the best of all that each has") {
  dice roll{std::mt19937_64(1)};
  std::size_t elsewhere = 0;
  int answers = 0;
  for (int round = 0; round < 400; ++round) {
    plan_request request = random_request(roll);
    request.space.gpus = {};
    const cluster_choice others[] = {
        {random_cluster(roll, catalog::a100_pcie_40gb), catalog::ampere},
        {random_cluster(roll, catalog::h100_sxm5_80gb), catalog::hopper}};
    request.others = others;
    const memory_budget budget = bytes::from_value(1e6 * static_cast<double>(roll.from(40, 400)));
    const int wanted = static_cast<int>(roll.from(1, plan_answer::most_plans));

    std::vector<double> values;
    for (std::size_t at = 0; at < 3; ++at) {
      const plan_request one = on_cluster_alone(request, at);
      const auto there =
          plan_training(one, budget, memory_by_division{}.on(one.on.gpu), plan_answer::most_plans);
      for (int plan = 0; there && plan < there->count; ++plan)
        values.push_back(value_of(one, there->plans[plan]));
    }
    std::sort(values.begin(), values.end());

    const auto answer = plan_training(request, budget, memory_by_division{}, wanted);
    REQUIRE(static_cast<bool>(answer) == !values.empty());
    if (!answer) continue;
    ++answers;
    REQUIRE(answer->count == std::min(wanted, static_cast<int>(values.size())));
    for (int at = 0; at < answer->count; ++at) {
      const training_plan& plan = answer->plans[at];
      CHECK(near(value_of(request, plan), values[static_cast<std::size_t>(at)]));
      CHECK(plan.gpus <= total_gpus(cluster_of(request, plan)));
      CHECK(loss_of(request, plan, answer->best()) >= 0);
      elsewhere += plan.cluster;
    }
  }
  CHECK(answers > 200);
  CHECK(elsewhere > 400);
}

namespace {

// Whether the request has a plan without both limits, which is the one that is said, and none
// without one of them. Of more GPUs: up to as many as that plan has.
bool only_together(const plan_request& request, memory_budget budget, const lifted_limit& both) {
  const auto has_plan = [&](bool first, bool second) {
    plan_request free = request;
    memory_budget most = budget;
    const auto lift = [&](plan_limit limit) {
      if (limit == plan_limit::memory) most = both.plan.required;
      if (limit == plan_limit::finish_in) free.finish_in = run_of(request, both.plan).time;
      if (limit == plan_limit::at_most) free.at_most = *run_of(request, both.plan).cost;
      if (limit != plan_limit::gpus) return;
      const range<std::int64_t> all{total_gpus(request.on)};
      const std::int64_t now =
          std::min(all.high(), (request.space.gpus ? *request.space.gpus : all).high());
      free.on.nodes = (both.plan.gpus + request.on.gpus_per_node - 1) / request.on.gpus_per_node;
      free.space.gpus = range<std::int64_t>{now + 1, both.plan.gpus};
    };
    if (first) lift(both.limit);
    if (second) lift(*both.with);
    return static_cast<bool>(planned(free, most));
  };
  return has_plan(true, true) && !has_plan(true, false) && !has_plan(false, true);
}

// Whether there is a plan of a larger batch, of a smaller one, and on more GPUs, one by one.
struct nearer_plans {
  bool larger = false, smaller = false, gpus = false;
};
nearer_plans has_nearer(const plan_request& request, memory_budget budget) {
  const range<std::int64_t> batch = request.effective_batch;
  const auto of_batch = [&](std::int64_t size) {
    plan_request other = request;
    other.effective_batch = size;
    return static_cast<bool>(planned(other, budget));
  };
  nearer_plans there;
  for (std::int64_t size = batch.high() + 1; size <= 16 * batch.high() && !there.larger; ++size)
    there.larger = of_batch(size);
  for (std::int64_t size = 1; size < batch.low() && !there.smaller; ++size)
    there.smaller = of_batch(size);
  const std::int64_t all = total_gpus(request.on);
  const std::int64_t now = request.space.gpus ? std::min(all, request.space.gpus->high()) : all;
  const std::int64_t in_node = request.on.gpus_per_node;
  // Whole nodes: those in which 16 times as many are.
  const std::int64_t most = (16 * now + in_node - 1) / in_node * in_node;
  for (std::int64_t gpus = now + 1; gpus <= most && !there.gpus; ++gpus) {
    if (gpus > in_node && gpus % in_node != 0) continue;
    plan_request other = request;
    other.on.nodes = (gpus + in_node - 1) / in_node;
    other.space.gpus = range<std::int64_t>{gpus, gpus};
    there.gpus = static_cast<bool>(planned(other, budget));
  }
  return there;
}

// Each limit, or pair of them, by its names, and none that is not there.
bool is_found_by_name(const plan_limits& limits) {
  for (int first = 0; first < plan_limit_count; ++first)
    for (int second = 0; second <= plan_limit_count; ++second) {
      const auto limit = static_cast<plan_limit>(first);
      const auto with = static_cast<plan_limit>(second);
      const bool is_pair = second < plan_limit_count;
      const lifted_limit* there = nullptr;
      for (const lifted_limit& one : limits)
        if (one.limit == limit && (is_pair ? one.with && *one.with == with : !one.with))
          there = &one;
      if ((is_pair ? limits.find(limit, with) : limits.find(limit)) != there) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("a request without one of its limits has the plan that is said") {
  dice roll{std::mt19937_64(2)};
  int infeasible = 0;
  int looked_through = 0;
  int pairs = 0;
  int binding[plan_limit_count]{};
  for (int round = 0; round < 500; ++round) {
    plan_request request = random_request(roll);
    const auto free = planned(request, memory_budget(1000_TB));
    if (!free) continue;
    known<memory_budget> budget =
        memory_budget(free->best().required * (0.3 + 0.1 * static_cast<double>(roll.from(0, 8))));
    const planned_run run = run_of(request, free->best());
    const auto share = [&] { return 0.6 + 0.1 * static_cast<double>(roll.from(0, 6)); };
    if (roll.one_in(3)) request.finish_in = share() * run.time;
    if (roll.one_in(3)) request.at_most = share() * *run.cost;

    const auto found = limits_of(request, *budget, memory_by_division{});
    REQUIRE(found);
    const auto best = planned(request, budget);
    REQUIRE(static_cast<bool>(found->best) == static_cast<bool>(best));
    if (!best && ++looked_through <= 60) {
      const auto [larger, smaller, more] = has_nearer(request, *budget);
      CHECK((found->find(plan_limit::larger_batch) != nullptr) == larger);
      CHECK((found->find(plan_limit::smaller_batch) != nullptr) == smaller);
      CHECK((found->find(plan_limit::gpus) != nullptr) == more);
    }
    infeasible += best ? 0 : 1;
    double gain = 1;
    CHECK(is_found_by_name(*found));
    for (const lifted_limit& one : *found) {
      if (one.with) {
        pairs += 1;
        CHECK(only_together(request, *budget, one));
        continue;
      }
      ++binding[static_cast<int>(one.limit)];
      const training_plan& plan = one.plan;
      CAPTURE(std::string(text(one.limit)));
      CHECK(gain >= one.gain);
      if (best) {
        gain = one.gain;
        CHECK(near(1 - one.gain, value_of(request, plan) / value_of(request, best->best())));
        CHECK(one.gain > 0);
      }
      // The request asks for as much as the plan takes: it is found; for a little less: nothing is.
      const auto is_edge = [&](auto&& change) {
        plan_request enough = request;
        known<memory_budget> with = budget;
        change(enough, with, 1 + 1e-9);
        CHECK(planned(enough, with));
        plan_request too_little = request;
        with = budget;
        change(too_little, with, 1 - 1e-9);
        CHECK(!planned(too_little, with));
      };
      if (best) continue;
      if (one.limit == plan_limit::memory)
        is_edge([&](plan_request&, auto& of, double times) {
          of = memory_budget(times * plan.required);
        });
      if (one.limit == plan_limit::finish_in)
        is_edge([&](plan_request& of, auto&, double times) {
          of.finish_in = times * run_of(of, plan).time;
        });
      if (one.limit == plan_limit::at_most)
        is_edge([&](plan_request& of, auto&, double times) {
          of.at_most = times * *run_of(of, plan).cost;
        });
      const auto none_before = [&](std::int64_t from, std::int64_t to, auto&& change) {
        for (std::int64_t at = from; at <= to; ++at) {
          plan_request other = request;
          change(other, at);
          CHECK(!planned(other, budget));
        }
      };
      if (one.limit == plan_limit::gpus) {
        const std::int64_t in_node = request.on.gpus_per_node;
        const std::int64_t now =
            std::min(total_gpus(request.on),
                     request.space.gpus ? request.space.gpus->high() : std::int64_t{1000});
        CHECK(plan.gpus > now);
        none_before(now + 1, plan.gpus - 1, [&](plan_request& other, std::int64_t gpus) {
          other.on.nodes = (gpus + in_node - 1) / in_node;
          other.space.gpus = range<std::int64_t>{gpus, gpus};
        });
      }
      const range<std::int64_t> batch = request.effective_batch;
      const auto with_batch = [](plan_request& other, std::int64_t size) {
        other.effective_batch = size;
      };
      if (one.limit == plan_limit::micro_batch) {
        CHECK(plan.batch.micro_batch > request.space.micro_batch.high());
        CHECK(plan.batch.micro_batch <= 16 * request.space.micro_batch.high());
      }
      if (one.limit == plan_limit::larger_batch)
        none_before(batch.high() + 1, plan.batch.effective_batch() - 1, with_batch);
      if (one.limit == plan_limit::smaller_batch)
        none_before(plan.batch.effective_batch() + 1, batch.low() - 1, with_batch);
    }
  }
  CHECK(infeasible > 50);
  CHECK(pairs > 50);
  for (int limit = 0; limit < plan_limit_count; ++limit) {
    CAPTURE(std::string(text(static_cast<plan_limit>(limit))));
    if (static_cast<plan_limit>(limit) != plan_limit::layers) CHECK(binding[limit] > 0);
  }
}

namespace {

// The request without one of its limits, as it is stated; none where it has no such limit.
struct freed_request {
  plan_limit limit{};
  plan_request request{};
  known<memory_budget> budget{};
};
std::vector<freed_request> freed_requests(const plan_request& request,
                                          const known<memory_budget>& budget,
                                          bool has_plan) {
  std::vector<freed_request> all;
  const auto with = [&](plan_limit limit, const auto& change) {
    freed_request free{limit, request, budget};
    change(free);
    all.push_back(free);
  };
  with(plan_limit::memory, [](freed_request& of) { of.budget = memory_budget(1e6 * 1_TB); });
  if (request.finish_in)
    with(plan_limit::finish_in, [](freed_request& of) { of.request.finish_in = {}; });
  if (request.at_most)
    with(plan_limit::at_most, [](freed_request& of) { of.request.at_most = {}; });
  const range<std::int64_t> batch = request.effective_batch;
  if (has_plan) {
    with(plan_limit::larger_batch, [&](freed_request& of) {
      of.request.effective_batch = {batch.low(), 2 * batch.high()};
    });
    if (batch.low() > 1)
      with(plan_limit::smaller_batch, [&](freed_request& of) {
        of.request.effective_batch = {batch.low() / 2, batch.high()};
      });
  }
  with(plan_limit::tensor_within_node,
       [](freed_request& of) { of.request.tensor_within_node = false; });
  with(plan_limit::recompute, [](freed_request& of) {
    of.request.space.recompute = of.request.space.recompute_layers = true;
  });
  with(plan_limit::degrees, [](freed_request& of) {
    plan_space& space = of.request.space;
    const range<std::int64_t> any{1, 1024};
    space.tensor_parallel = space.pipeline_parallel = space.virtual_pipeline = any;
    space.context_parallel = space.expert_parallel = any;
    space.zero_stage = range<std::int64_t>{0, 3};
    space.data_parallel = space.accumulation = {};
  });
  with(plan_limit::micro_batch, [](freed_request& of) {
    const range<std::int64_t> some = of.request.space.micro_batch;
    of.request.space.micro_batch = {some.low(), 16 * some.high()};
  });
  for (std::int64_t more = 1; has_plan && more <= 4; ++more)
    with(plan_limit::layers,
         [&](freed_request& of) { of.request.setup.model.num_hidden_layers += more; });
  return all;
}

}  // namespace

TEST_CASE("the limits that bind are those without which there is a better plan, or any") {
  dice roll{std::mt19937_64(21)};
  int binds[2][plan_limit_count]{};
  int free_of[2][plan_limit_count]{};
  for (int round = 0; round < 120; ++round) {
    plan_request request = random_request(roll);
    if (roll.one_in(3)) request.space.data_parallel = range<std::int64_t>{1, roll.from(1, 3)};
    if (roll.one_in(3)) request.space.accumulation = range<std::int64_t>{1, roll.from(1, 4)};
    const auto most = planned(request, memory_budget(1000_TB));
    if (!most) continue;
    const known<memory_budget> budget =
        memory_budget(most->best().required * (0.4 + 0.1 * static_cast<double>(roll.from(0, 12))));
    const planned_run run = run_of(request, most->best());
    const auto share = [&] { return 0.6 + 0.1 * static_cast<double>(roll.from(0, 8)); };
    if (roll.one_in(4)) request.finish_in = share() * run.time;
    if (roll.one_in(4)) request.at_most = share() * *run.cost;
    const auto found = limits_of(request, *budget, memory_by_division{});
    REQUIRE(found);
    const auto best = planned(request, budget);
    REQUIRE(static_cast<bool>(found->best) == static_cast<bool>(best));
    double least[plan_limit_count];
    std::fill(std::begin(least), std::end(least), std::numeric_limits<double>::infinity());
    for (const freed_request& free : freed_requests(request, budget, static_cast<bool>(best))) {
      const auto there = planned(free.request, free.budget);
      if (!there) continue;
      double& least_there = least[static_cast<int>(free.limit)];
      least_there = std::min(least_there, value_of(request, there->best()));
    }
    for (int at = 0; at < plan_limit_count; ++at) {
      const auto limit = static_cast<plan_limit>(at);
      const bool is_of_batch =
          limit == plan_limit::larger_batch || limit == plan_limit::smaller_batch;
      if (limit == plan_limit::gpus || (!best && is_of_batch)) continue;  // by other tests
      const double before =
          best ? value_of(request, best->best()) : std::numeric_limits<double>::infinity();
      const bool does_bind = least[at] < before * (1 - 1e-8);
      if (!does_bind && least[at] < before * (1 - 1e-10)) continue;  // may be rounding
      CAPTURE(round);
      CAPTURE(std::string(text(limit)));
      const lifted_limit* const there = found->find(limit);
      CHECK((there != nullptr) == does_bind);
      ++(does_bind ? binds : free_of)[best ? 1 : 0][at];
      if (there == nullptr) continue;
      CHECK(there->layers ==
            (limit == plan_limit::layers ? there->layers : request.setup.model.num_hidden_layers));
      if (best) CHECK(near(value_of(request, there->plan), least[at]));
    }
    // Two that bind together are told where each alone does not.
    if (best) continue;
    const plan_limit pairs[][2] = {{plan_limit::memory, plan_limit::finish_in},
                                   {plan_limit::memory, plan_limit::at_most},
                                   {plan_limit::finish_in, plan_limit::at_most}};
    for (const auto& [limit, with] : pairs) {
      if (found->find(limit) != nullptr || found->find(with) != nullptr) continue;
      freed_request free{limit, request, budget};
      bool are_there = true;
      for (const plan_limit one : {limit, with}) {
        if (one == plan_limit::memory) free.budget = memory_budget(1e6 * 1_TB);
        if (one == plan_limit::finish_in) are_there = are_there && free.request.finish_in;
        if (one == plan_limit::finish_in) free.request.finish_in = {};
        if (one == plan_limit::at_most) are_there = are_there && free.request.at_most;
        if (one == plan_limit::at_most) free.request.at_most = {};
      }
      const bool do_bind = are_there && planned(free.request, free.budget);
      CHECK((found->find(limit, with) != nullptr) == do_bind);
    }
    // Single ones in their order, then pairs.
    int last = -1;
    bool is_behind = false;
    for (const lifted_limit& one : *found) {
      if (!one.with && is_behind) CHECK(false);
      if (!one.with) CHECK(static_cast<int>(one.limit) > last);
      if (!one.with) last = static_cast<int>(one.limit);
      is_behind = is_behind || one.with;
      CHECK(one.gain == 0);
    }
  }
  for (const plan_limit limit : {plan_limit::memory,
                                 plan_limit::finish_in,
                                 plan_limit::recompute,
                                 plan_limit::degrees,
                                 plan_limit::micro_batch}) {
    CAPTURE(std::string(text(limit)));
    CHECK(binds[0][static_cast<int>(limit)] + binds[1][static_cast<int>(limit)] > 2);
    CHECK(free_of[0][static_cast<int>(limit)] + free_of[1][static_cast<int>(limit)] > 2);
  }
}

// Five layers do not lie on four stages in any way of Megatron's: 2, 2 and 2 would leave none for
// the last. Six do, as 1, 2, 2 and 1.
TEST_CASE("a layer more may be divided where no split of the stages does") {
  dice roll{std::mt19937_64(2)};
  plan_request request = random_request(roll);
  request.setup.model.num_hidden_layers = 5;
  request.on.nodes = 1;
  request.on.gpus_per_node = 4;
  request.effective_batch = 8;
  request.space = {.pipeline_parallel = range<std::int64_t>{1, 4}};
  request.goal = plan_goal::least_memory;
  const auto found = limits_of(request, memory_budget(1000_TB), memory_by_division{});
  REQUIRE(found);
  REQUIRE(found->best);
  CHECK(found->best->layout.pipeline_parallel == 2);
  const lifted_limit* const more = found->find(plan_limit::layers);
  REQUIRE(more != nullptr);
  CHECK(more->layers == 6);
  CHECK(more->plan.layout.pipeline_parallel == 4);
  CHECK(more->plan.layout.split == pipeline_split{.embedding_layers = 1, .head_layers = 1});
}

TEST_CASE("a run's time, money and energy are those of its steps") {
  dice roll{std::mt19937_64(3)};
  plan_request request = random_request(roll);
  request.goal = plan_goal::least_time;
  const training_plan plan{
      .gpus = 4, .batch = {.micro_batch = 3, .data_parallel = 4, .accumulation = 2}, .step = 9_s};
  request.samples = 25;  // of batches of 24: two steps
  request.on.price_per_gpu = dated_price{2_usd_per_hour, "2026-01-01", "a test"};
  request.on.power_per_gpu = 500_W;
  const planned_run run = run_of(request, plan);
  CHECK(run.time == 18_s);
  CHECK(run.gpu_time == 72_s);
  CHECK(in(*run.cost, 1_usd) == doctest::Approx(0.04));
  CHECK(run.energy_used->value() == doctest::Approx(36'000));
  request.on.power_per_gpu = {};
  CHECK(run_of(request, plan).energy_used->value() == doctest::Approx(400 * 72));
  request.on.price_per_gpu = {};
  CHECK(!run_of(request, plan).cost);
}

TEST_CASE("a limit that memory keeps from being met is missed by the best plan that fits") {
  dice roll{std::mt19937_64(11)};
  int of_time = 0;
  int of_money = 0;
  for (int round = 0; round < 400; ++round) {
    plan_request request = random_request(roll);
    request.space.recompute = true;
    request.samples = 100'000'000;
    const memory_budget budget = bytes::from_value(1e6 * static_cast<double>(roll.from(40, 200)));
    request.goal = plan_goal::least_time;
    const auto fastest = planned(request, budget);
    if (!fastest) continue;
    const double least_s = run_of(request, fastest->best()).time.value();
    const double share = static_cast<double>(2 * roll.from(25, 75) + 1) / 100;  // never 1
    request.finish_in = duration::from_value(least_s * share);
    request.goal = plan_goal::least_money;
    const auto cheapest = planned(request, budget);
    if (!cheapest) {
      const failure why = cheapest.why();
      CHECK(why.code == errc::no_plan_in_time);
      CHECK(why[fact::minutes] >= why[fact::at_most_minutes]);
      // The minutes are enough, and one less is not.
      request.finish_in = static_cast<double>(why[fact::minutes]) * 60_s;
      CHECK(planned(request, budget));
      request.finish_in = static_cast<double>(why[fact::minutes] - 1) * 60_s;
      if (why[fact::minutes] > 1) CHECK(!planned(request, budget));
      ++of_time;
      continue;
    }
    request.at_most = 0.9 * *run_of(request, cheapest->best()).cost;
    request.goal = plan_goal::least_time;
    const auto none = planned(request, budget);
    if (none) continue;  // of another batch, whose last step is fuller
    CHECK(none.why().code == errc::no_plan_for_money);
    const auto cents = static_cast<double>(none.why()[fact::cents]);
    request.at_most = cents / 100 * 1_usd;
    CHECK(planned(request, budget));
    request.at_most = (cents - 1) / 100 * 1_usd;
    if (cents > 1) CHECK(!planned(request, budget));
    ++of_money;
  }
  CHECK((of_time > 30 && of_money > 30));
}

namespace {

// Of what nobody can say, or of no end.
struct refusing_memory {
  double size = 0;

  bytes required(const batch_plan&) const { return bytes::from_value(size); }
  friend result<refusing_memory> validate(const refusing_memory& memory) {
    if (memory.size == 0) return failure(errc::overflow, named_fact{fact::sequence_length, 7});
    return memory;
  }
};

}  // namespace

TEST_CASE("a memory model's refusal of all setups is told, whatever the goal and the budget") {
  dice roll{std::mt19937_64(12)};
  plan_request request = random_request(roll);
  const auto refuses = [](const training_setup&) { return refusing_memory{}; };
  const auto knows_no_end = [](const training_setup&) {
    return refusing_memory{std::numeric_limits<double>::infinity()};
  };
  for (const plan_goal goal : {plan_goal::least_time, plan_goal::least_memory}) {
    request.goal = goal;
    for (const bytes& budget : {1_GB, 1e9 * 1_GB}) {
      const failure why = plan_training(request, budget, refuses).why();
      CHECK((why.code == errc::overflow && why[fact::sequence_length] == 7));
    }
    CHECK(plan_training(request, 1_GB, knows_no_end).why().code == errc::not_finite);
  }
}

TEST_CASE("layers of several kinds lie elsewhere in each number of chunks") {
  plan_request request;
  transformer& model = request.setup.model;
  model = catalog::nemotron_h_8b;
  request.setup.framework = catalog::megatron_transformer_engine;
  request.setup.precision = bf16_megatron;
  request.setup.sequence_length = 4096;
  request.on = {.gpu = catalog::h100_sxm5_80gb, .nodes = 1, .gpus_per_node = 4};
  request.efficiency = catalog::hopper;
  request.effective_batch = {16, 16};
  request.space = {.gpus = range<std::int64_t>{4, 4},
                   .pipeline_parallel = range<std::int64_t>{4, 4},
                   .virtual_pipeline = range<std::int64_t>{1, 13},
                   .zero_stage = range<std::int64_t>{1, 1},
                   .micro_batch = {1, 1}};
  const auto free_memory = [](const training_setup&) { return rising_memory{}; };
  const auto answer = plan_training(request, free_memory, plan_answer::most_plans);
  REQUIRE(answer);
  std::int64_t chunks = 1;
  for (const training_plan& plan : *answer) {
    chunks = std::max(chunks, plan.layout.virtual_pipeline);
    CHECK(near(plan.step.value(), time_of(request, plan).step(plan.batch).value()));
  }
  CHECK(chunks > 1);
}

// The numbers of a cluster and its software from a few timed steps, and the ranges that follow.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/time/calibrated.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"

using namespace gpuplan;

namespace {

struct degrees {
  std::int64_t tensor, pipeline, nodes, micro_batch, accumulation;
};

// A LLaMA of 1 B on so many nodes of 8.
roofline_time model_of(const degrees& of) {
  roofline_time model{.setup = {.model = {.num_hidden_layers = 16,
                                          .hidden_size = 2048,
                                          .intermediate_size = 8192,
                                          .num_attention_heads = 16,
                                          .vocab_size = 51200},
                                .sequence_length = 2048,
                                .precision = bf16_megatron,
                                .parallelism = {.tensor_parallel = of.tensor,
                                                .pipeline_parallel = of.pipeline,
                                                .sequence_parallel = true},
                                .framework = catalog::nanotron},
                      .on = {.gpu = catalog::h100_sxm5_80gb,
                             .nodes = of.nodes,
                             .gpus_per_node = 8,
                             .between_nodes = 400_GBps},
                      .efficiency = catalog::hopper};
  model.setup.framework.costs.timed = false;
  return model;
}
batch_plan plan_of(const degrees& of) {
  return {of.micro_batch, 8 * of.nodes / (of.tensor * of.pipeline), of.accumulation};
}

// As different from the catalogue's as stacks are.
roofline_time truth_of(const degrees& of) {
  roofline_time model = model_of(of);
  software_costs& costs = model.setup.framework.costs;
  costs.matmul_rate = 0.9;
  costs.host_per_operator = 2 * costs.host_per_operator;
  costs.host_per_collective = 0.5 * costs.host_per_collective;
  costs.host_per_step = 3 * costs.host_per_step;
  model.on.between_nodes = 250_GBps;
  model.on.hop_between = 20_us;
  return model;
}

constexpr degrees timed_degrees[] = {{1, 1, 1, 8, 2},
                                     {1, 1, 4, 1, 1},
                                     {8, 1, 1, 1, 16},
                                     {2, 2, 1, 2, 8},
                                     {4, 1, 2, 4, 2},
                                     {16, 1, 2, 1, 8},
                                     {1, 4, 2, 1, 8},
                                     {2, 1, 4, 2, 1}};
constexpr degrees other_degrees[] = {{1, 1, 2, 2, 4},
                                     {8, 1, 4, 2, 8},
                                     {4, 2, 2, 1, 16},
                                     {2, 1, 8, 8, 1},
                                     {16, 1, 4, 4, 4},
                                     {2, 4, 2, 2, 8},
                                     {1, 1, 8, 1, 1}};

std::vector<timed_step> timed_steps(std::mt19937& random, double scatter) {
  std::normal_distribution<double> off(0, scatter);
  std::vector<timed_step> steps;
  for (const degrees& of : timed_degrees) {
    const double factor = scatter > 0 ? std::exp(off(random)) : 1;
    steps.push_back({model_of(of), plan_of(of), factor * truth_of(of).step(plan_of(of))});
  }
  return steps;
}

}  // namespace

TEST_CASE("hosts and ranks wait for each other across nodes alone") {
  const auto longer = [](const degrees& of, duration software_costs::*cost) {
    roofline_time with = model_of(of);
    roofline_time without = with;
    with.setup.framework.costs.*cost = 2_ms;
    without.setup.framework.costs.*cost = {};
    return with.step(plan_of(of)) - without.step(plan_of(of));
  };
  const degrees in_node{4, 2, 1, 1, 8};
  const degrees pipeline_across{4, 2, 2, 1, 8};
  const degrees tensors_across{16, 1, 2, 1, 8};
  CHECK(longer(in_node, &software_costs::host_per_rank) == 0_s);
  CHECK(longer(pipeline_across, &software_costs::host_per_rank) > 0_s);
  CHECK(longer(tensors_across, &software_costs::host_per_rank) == 0_s);
  CHECK(longer(in_node, &software_costs::wait_per_node) == 0_s);
  CHECK(longer(pipeline_across, &software_costs::wait_per_node) == 0_s);
  CHECK(longer(tensors_across, &software_costs::wait_per_node) > 1_s);
  // Tensor-parallel groups in two nodes, and in four: two stages send or get four messages a
  // micro-batch, those between the ends of more stages twice as many.
  const degrees two_stages{32, 2, 8, 1, 64};
  const degrees four_stages{32, 4, 16, 1, 64};
  CHECK(longer({16, 2, 4, 1, 8}, &software_costs::stalled_send) == 0_s);
  CHECK(longer({32, 1, 4, 1, 64}, &software_costs::stalled_send) == 0_s);
  CHECK(longer(two_stages, &software_costs::stalled_send).value() ==
        doctest::Approx(2e-3 * 2 * 65).epsilon(0.05));
  const double of_four = longer(four_stages, &software_costs::stalled_send).value();
  CHECK(of_four > 2e-3 * 2 * 67);  // the last stage has the head, and so waits for others less
  CHECK(of_four < 2e-3 * 4 * 67);
  roofline_time slow = model_of(tensors_across);
  slow.setup.framework.costs.network_share = 0.25;
  CHECK(slow.step(plan_of(tensors_across)) >
        model_of(tensors_across).step(plan_of(tensors_across)));
  slow.setup.framework.costs.network_share = 0;
  CHECK(!validate(slow));
  slow = model_of(tensors_across);
  slow.on.hop_between = -1_us;
  CHECK(validate(slow).why().code == errc::negative);
}

TEST_CASE("what makes steps long is found again from their times") {
  std::mt19937 random(1);
  const auto steps = timed_steps(random, 0);
  const auto found = calibrate(steps.front().model.on, steps);
  REQUIRE(found);
  CHECK(found->steps == 8);
  // Each number within what it is said to be known by.
  const roofline_time truth = truth_of(timed_degrees[2]);
  for (const prior_of_number& one : priors_of_numbers) {
    CAPTURE(one.name);
    const double off = std::log(found->value(one.number) / detail::number_in(truth, one.number));
    CHECK(std::abs(off) < 2.5 * found->spread(one.number));
  }
  CHECK(std::abs(std::log(found->value(stack_number::matmul_rate) / 0.9)) < 0.15);
  // What no step tells of stays as far from certain as it was.
  CHECK(found->spread(stack_number::host_per_operator) <
        untimed_estimate(steps.front().model).spread(stack_number::host_per_operator));
  for (const degrees& of : other_degrees) {
    const double right = truth_of(of).step(plan_of(of)).value();
    const double before = std::abs(std::log(model_of(of).step(plan_of(of)).value() / right));
    const double now =
        std::abs(std::log(found->applied_to(model_of(of)).step(plan_of(of)).value() / right));
    CAPTURE(of.tensor);
    CAPTURE(of.nodes);
    CHECK(now < 0.15);
    CHECK(now < before + 0.02);
    const calibrated_time time{.model = model_of(of), .stack = *found};
    CHECK(time.step(plan_of(of)) == found->applied_to(model_of(of)).step(plan_of(of)));
  }
}

TEST_CASE("ranges hold as many of other steps as they say") {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::int64_t held = 0;
  std::int64_t all = 0;
  for (int cluster = 0; cluster < 40; ++cluster) {
    // A cluster whose numbers are drawn from what is known beforehand.
    stack_estimate drawn = untimed_estimate(model_of(timed_degrees[0]));
    for (std::size_t i = 0; i < stack_number_count; ++i) {
      drawn.logarithms[i] += std::sqrt(drawn.covariance.at[i][i]) * normal(random);
      drawn.is_set[i] = true;
    }
    const auto time_of = [&](const degrees& of) {
      return std::exp(drawn.scatter * normal(random)) *
             drawn.applied_to(model_of(of)).step(plan_of(of));
    };
    std::vector<timed_step> steps;
    for (const degrees& of : timed_degrees)
      steps.push_back({model_of(of), plan_of(of), time_of(of)});
    const auto found = calibrate(steps.front().model.on, steps);
    REQUIRE(found);
    for (const degrees& of : other_degrees) {
      const time_interval range = step_interval(model_of(of), plan_of(of), *found);
      CHECK((range.low < range.median && range.median < range.high));
      const duration time = time_of(of);
      held += range.low <= time && time <= range.high ? 1 : 0;
      ++all;
    }
  }
  const double share = static_cast<double>(held) / static_cast<double>(all);
  CAPTURE(share);
  CHECK((share > 0.7 && share < 0.9));
}

TEST_CASE("what a step takes on another device is off by what the two do not share") {
  const degrees of{1, 1, 1, 8, 2};
  const roofline_time one = model_of(of);
  const batch_plan plan = plan_of(of);
  // The same step again: nothing but two scatters.
  roofline_time alone = one;
  alone.on.gpus_per_node = 1;
  const batch_plan of_one{8, 1, 2};
  const times_as_long same = step_ratio(alone, of_one, alone, of_one);
  const double two_scatters = std::sqrt(2.0) * untimed_estimate(alone).scatter * 1.2815515655;
  CHECK(same.median == 1);
  CHECK(std::log(same.high) == doctest::Approx(two_scatters).epsilon(0.005));
  CHECK(std::log(same.low) == doctest::Approx(-two_scatters).epsilon(0.005));

  roofline_time other = one;
  other.on.gpu = catalog::a100_sxm4_80gb;
  other.efficiency = catalog::ampere;
  const times_as_long there = step_ratio(one, plan, other, plan);
  CHECK(there.median == doctest::Approx(other.step(plan) / one.step(plan)));
  // Less than if the software were off by itself on either, and more than the scatters.
  const auto width = [](const auto& range) { return std::log(range.high / range.low); };
  CHECK(width(there) > 2 * two_scatters);
  CHECK(width(there) <
        std::hypot(width(step_interval(one, plan)), width(step_interval(other, plan))));
  CHECK(width(step_ratio(one, plan, other, plan, 0.95)) > width(there));
  // A device that nobody has timed says less.
  roofline_time unknown = other;
  unknown.efficiency = {};
  CHECK(width(step_ratio(one, plan, unknown, plan)) > width(there));

  // As often as it says, where software is drawn for both, links for each, and each step scatters.
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  const stack_estimate known_of[] = {untimed_estimate(one), untimed_estimate(other)};
  const int all = 4000;
  int held = 0;
  for (int draw = 0; draw < all; ++draw) {
    stack_estimate drawn[] = {known_of[0], known_of[1]};
    for (const prior_of_number& number : priors_of_numbers) {
      const auto at = static_cast<std::size_t>(number.number);
      const double both = normal(random);
      for (stack_estimate& each : drawn) {
        const bool is_shared = number.number < stack_number::launch_of_collective;
        each.logarithms[at] += each.spread(number.number) * (is_shared ? both : normal(random));
        each.is_set[at] = true;
      }
    }
    const auto time_of = [&](const roofline_time& model, const stack_estimate& stack) {
      return std::exp(stack.scatter * normal(random)) * stack.applied_to(model).step(plan);
    };
    const double ratio = time_of(other, drawn[1]) / time_of(one, drawn[0]);
    held += there.low <= ratio && ratio <= there.high ? 1 : 0;
  }
  CHECK(held > 0.77 * all);
  CHECK(held < 0.83 * all);
}

TEST_CASE("timed steps narrow the range, and a wider coverage widens it") {
  std::mt19937 random(3);
  const auto steps = timed_steps(random, 0.02);
  const auto found = calibrate(steps.front().model.on, steps);
  REQUIRE(found);
  for (const degrees& of : other_degrees) {
    const auto width = [](const time_interval& range) { return range.high / range.low; };
    const double before = width(step_interval(model_of(of), plan_of(of)));
    CHECK(width(step_interval(model_of(of), plan_of(of), *found)) < before);
    CHECK(width(step_interval(model_of(of), plan_of(of), 0.95)) > before);
    CHECK(step_interval(model_of(of), plan_of(of)).median == model_of(of).step(plan_of(of)));
  }
}

TEST_CASE(
    "a range is wider on more devices than any step was timed on, by as much for each doubling") {
  std::vector<timed_step> timed;
  for (const degrees& of : timed_degrees)
    timed.push_back({model_of(of), plan_of(of), truth_of(of).step(plan_of(of))});
  const auto found = calibrate(timed.front().model.on, timed);
  REQUIRE(found);
  CHECK(found->most_gpus == 32);
  stack_estimate stack = *found;
  const degrees large{2, 1, 16, 1, 1};  // of 128 GPUs
  const auto squares = [&](std::int64_t most_gpus) {
    stack.most_gpus = most_gpus;
    const time_interval step = step_interval(model_of(large), plan_of(large), stack);
    const double above = std::log(step.high / step.median);
    const double below = std::log(step.median / step.low);
    return std::pair{above * above, below * below};
  };
  const auto known = squares(128);
  const double once = 0.1 * 1.2816 * 0.1 * 1.2816;
  for (const auto& [most_gpus, doublings] :
       {std::pair{256, 0}, std::pair{64, 1}, std::pair{32, 2}}) {
    const auto there = squares(most_gpus);
    CHECK(there.first - known.first == doctest::Approx(doublings * once).epsilon(0.02));
    CHECK(there.second - known.second == doctest::Approx(doublings * once).epsilon(0.02));
  }
}

TEST_CASE("the step to time next is one of which nothing like it was timed") {
  std::vector<timed_step> steps;  // on one node alone
  for (const degrees& of : {degrees{1, 1, 1, 8, 2}, degrees{8, 1, 1, 4, 4}, degrees{2, 1, 1, 4, 4}})
    steps.push_back({model_of(of), plan_of(of), truth_of(of).step(plan_of(of))});
  const auto found = calibrate(steps.front().model.on, steps);
  REQUIRE(found);
  std::vector<possible_step> possible;
  for (const degrees& of :
       {degrees{4, 1, 1, 4, 4}, degrees{16, 1, 4, 1, 4}, degrees{1, 1, 1, 4, 4}})
    possible.push_back({model_of(of), plan_of(of)});
  CHECK(step_to_time_next(*found, possible) == 1);
}

TEST_CASE("how fast cards reach each other through the host is not known unless it is stated") {
  const auto spread_of = [](const gpu_spec& gpu, std::int64_t gpus, known<bandwidth> stated) {
    roofline_time model = model_of({1, 1, 1, 1, 1});
    model.on = {.gpu = gpu, .gpus_per_node = gpus, .inside_node = stated};
    return untimed_estimate(model).spread(stack_number::inside_node);
  };
  const double usual = spread_of(catalog::h100_sxm5_80gb, 8, {});
  CHECK(spread_of(catalog::rtx_4090, 2, {}) > 3 * usual);   // PCIe
  CHECK(spread_of(catalog::rtx_a6000, 2, {}) > 3 * usual);  // a bridge, maybe
  CHECK(spread_of(catalog::rtx_4090, 2, 12_GBps) == usual);
  CHECK(spread_of(catalog::rtx_4090, 1, {}) == usual);
  // Beyond a bridge it is PCIe that is not known.
  roofline_time of_four = model_of({1, 1, 1, 1, 1});
  of_four.on = {.gpu = catalog::rtx_a6000, .gpus_per_node = 4};
  CHECK(untimed_estimate(of_four).value(stack_number::inside_node) ==
        doctest::Approx(catalog::rtx_a6000.pcie->each_direction().value()));
}

TEST_CASE("too few steps, and steps that contradict each other, are refused") {
  std::mt19937 random(1);
  auto steps = timed_steps(random, 0);
  const cluster on = steps.front().model.on;
  const auto two = calibrate(on, std::span(steps).first(2));
  REQUIRE(!two);
  CHECK(two.why().code == errc::too_few_steps);
  CHECK(std::string(failure_text(two.why()).c_str()).find("timed_steps 2, at_least 3") !=
        std::string::npos);
  cluster elsewhere = on;
  elsewhere.gpu = catalog::a100_sxm4_80gb;
  CHECK(calibrate(elsewhere, steps).why().code == errc::measured_elsewhere);
  for (std::size_t i = 0; i < steps.size(); ++i)
    steps[i].time = (i % 2 == 0 ? 20.0 : 0.05) * steps[i].time;
  CHECK(calibrate(on, steps).why().code == errc::contradictory_steps);
  steps[3].time = 0_s;
  CHECK(calibrate(on, steps).why().code == errc::not_positive);
}

TEST_CASE("one step that is far from all others changes little") {
  std::mt19937 random(1);
  auto steps = timed_steps(random, 0);
  const auto right = calibrate(steps.front().model.on, steps);
  steps[3].time = 30.0 * steps[3].time;
  const auto found = calibrate(steps.front().model.on, steps);
  REQUIRE((right && found));
  const degrees of = other_degrees[0];
  CHECK(std::abs(std::log(found->applied_to(model_of(of)).step(plan_of(of)) /
                          right->applied_to(model_of(of)).step(plan_of(of)))) < 0.1);
}

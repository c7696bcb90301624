// The numbers of a cluster and its software from a few timed steps, and the ranges that follow.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/time/calibrated.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
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
  // A stack's costs that stay as they are, whatever steps say of nanotron's.
  model.setup.framework.costs = {.element_rate = 0.7,
                                 .host_per_operator = 28_us,
                                 .host_per_collective = 377_us,
                                 .host_per_rank = 346_us,
                                 .wait_per_node = 331_us,
                                 .stalled_send = 0.26_s,
                                 .network_share = 0.56,
                                 .host_per_step = 20_ms,
                                 .hides_parameters = false,
                                 .contention = 0.1,
                                 .scatter = 0.12};
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
  // No launch is hidden behind waits: they take as long where hosts take nothing as where they are
  // the slower.
  const auto waits = [&](duration host) {
    roofline_time model = model_of(tensors_across);
    software_costs& costs = model.setup.framework.costs;
    costs.host_per_operator = {};
    costs.host_per_collective = host;
    costs.wait_per_node = 2_ms;
    const duration with = model.step(plan_of(tensors_across));
    costs.wait_per_node = {};
    return (with - model.step(plan_of(tensors_across))).value();
  };
  CHECK(waits({}) > 1);
  CHECK(waits(20_ms) == doctest::Approx(waits({})));
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
  const degrees long_messages{16, 1, 2, 16, 8};  // of which the host is ahead
  roofline_time slow = model_of(long_messages);
  slow.setup.framework.costs.network_share = 0.25;
  CHECK(slow.step(plan_of(long_messages)) > model_of(long_messages).step(plan_of(long_messages)));
  slow.setup.framework.costs.network_share = 0;
  CHECK(!validate(slow));
  slow = model_of(long_messages);
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
        doctest::Approx(pcie_between_devices(catalog::rtx_a6000).value()));
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

TEST_CASE("steps that are all slower or all faster are followed, and their range holds them") {
  std::mt19937 random(1);
  const auto steps = timed_steps(random, 0);
  double before = -std::numeric_limits<double>::infinity();
  for (const double factor : {0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 1.9}) {
    CAPTURE(factor);
    auto others = steps;
    for (timed_step& one : others) one.time = factor * one.time;
    const auto found = calibrate(others.front().model.on, others);
    REQUIRE(found);
    double sum = 0;
    int held = 0;
    for (const timed_step& one : others) {
      const double now = found->applied_to(one.model).step(one.plan) / steps[0].time;
      sum += std::log(now);
      held += std::abs(std::log(now * (steps[0].time / one.time))) < 1.6 * found->scatter ? 1 : 0;
    }
    CHECK(sum > before);
    before = sum;
    CHECK(2 * held > static_cast<int>(others.size()));
  }
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

namespace {

using detail::stack_matrix;

// Whose inverse and factor exist: the sum of `ranks` outer products, and what is on the diagonal.
stack_matrix random_matrix(std::mt19937& random, int ranks, double diagonal) {
  std::normal_distribution<double> normal;
  stack_matrix sum;
  for (std::size_t i = 0; i < stack_number_count; ++i) sum.at[i][i] = diagonal;
  for (int rank = 0; rank < ranks; ++rank) {
    double by[stack_number_count];
    for (double& one : by) one = normal(random);
    for (std::size_t i = 0; i < stack_number_count; ++i)
      for (std::size_t j = 0; j < stack_number_count; ++j) sum.at[i][j] += by[i] * by[j];
  }
  return sum;
}

// Of i and j, the sum over k of a[i][k] times b[j][k].
double product_at(const stack_matrix& a, const stack_matrix& b, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t k = 0; k < stack_number_count; ++k) sum += a.at[i][k] * b.at[j][k];
  return sum;
}

// Of which nothing is uncertain but one number.
stack_estimate only(const roofline_time& model, stack_number which, double spread) {
  stack_estimate stack = untimed_estimate(model);
  stack.covariance = {};
  const auto at = static_cast<std::size_t>(which);
  stack.covariance.at[at][at] = spread * spread;
  stack.scatter = 0.05;
  return stack;
}

roofline_time with_number(roofline_time model, stack_number which, double factor) {
  detail::set_number(model, which, factor * detail::number_in(model, which));
  return model;
}

}  // namespace

TEST_CASE("a factor times itself is its matrix, and an inverse times it is one") {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const stack_matrix whole = random_matrix(random, 11, 0.5);
    const stack_matrix lower = whole.factor();
    const stack_matrix inverse = whole.inverse();
    for (std::size_t i = 0; i < stack_number_count; ++i)
      for (std::size_t j = 0; j < stack_number_count; ++j) {
        CHECK(std::abs(product_at(lower, lower, i, j) - whole.at[i][j]) < 1e-9);
        CHECK(std::abs(product_at(inverse, whole, i, j) - (i == j ? 1 : 0)) < 1e-9);
        if (j > i) CHECK(lower.at[i][j] == 0);
      }
  }
  // A number of which all is certain has no direction, nor do others move it.
  stack_matrix certain = random_matrix(random, 11, 0.5);
  for (std::size_t i = 0; i < stack_number_count; ++i) certain.at[i][3] = certain.at[3][i] = 0;
  const stack_matrix lower = certain.factor();
  for (std::size_t i = 0; i < stack_number_count; ++i) {
    CHECK(lower.at[3][i] == 0);
    CHECK(lower.at[i][3] == 0);
    for (std::size_t j = 0; j < stack_number_count; ++j)
      CHECK(std::abs(product_at(lower, lower, i, j) - certain.at[i][j]) < 1e-9);
  }
}

TEST_CASE("each number is one of the model's own, and setting it sets no other") {
  const roofline_time model = model_of({2, 2, 4, 1, 8});
  for (const prior_of_number& one : priors_of_numbers) {
    CAPTURE(one.name);
    CHECK(one.least < one.most);
    CHECK((one.least <= one.usual && one.usual <= one.most));
    const double before = detail::number_in(model, one.number);
    CHECK(before > 0);
    const roofline_time changed = with_number(model, one.number, 1.25);
    for (const prior_of_number& other : priors_of_numbers)
      CHECK(detail::number_in(changed, other.number) ==
            doctest::Approx((other.number == one.number ? 1.25 : 1.0) *
                            detail::number_in(model, other.number)));
    // Of which a step takes longer or shorter, as rates and costs do.
    const bool is_rate =
        one.number == stack_number::matmul_rate || one.number == stack_number::element_rate ||
        one.number == stack_number::inside_node || one.number == stack_number::between_nodes;
    const batch_plan plan = plan_of({2, 2, 4, 1, 8});
    // Where the host is the slower, sums of other parts may round to either side.
    const double ratio = changed.step(plan) / model.step(plan);
    CHECK((is_rate ? ratio <= 1 + 1e-12 : ratio >= 1 - 1e-12));
  }
  // Links that there are none of: of one GPU, and of one node whose network nobody states.
  roofline_time alone = model;
  alone.on.nodes = alone.on.gpus_per_node = 1;
  alone.on.between_nodes = {};
  detail::set_number(alone, stack_number::inside_node, 5e9);
  detail::set_number(alone, stack_number::between_nodes, 5e9);
  CHECK(!alone.on.inside_node);
  CHECK(!alone.on.between_nodes);
  CHECK(detail::number_in(alone, stack_number::between_nodes) == 0);
  roofline_time two = alone;
  two.on.gpus_per_node = 2;
  detail::set_number(two, stack_number::inside_node, 5e9);
  CHECK(two.on.inside_node->value() == 5e9);
}

TEST_CASE("what is known beforehand is the model's own, and as far off as its software is timed") {
  for (const bool is_timed : {false, true})
    for (const bool is_known : {false, true}) {
      roofline_time model = model_of({1, 1, 4, 1, 1});
      software_costs& costs = model.setup.framework.costs;
      costs.timed = is_timed;
      costs.host_per_rank = {};  // of which it says nothing
      costs.scatter = is_timed ? 0.04 : 0.001;
      if (!is_known) model.efficiency = {};
      const stack_estimate found = untimed_estimate(model);
      CHECK(found.scatter == (is_timed ? 0.04 : 0.01));
      for (const prior_of_number& one : priors_of_numbers) {
        CAPTURE(one.name);
        const bool is_own = one.number != stack_number::host_per_rank;
        double spread = is_timed && is_own ? one.spread : one.spread_untimed;
        if (one.number == stack_number::matmul_rate && !is_known) spread += 0.1;
        CHECK(found.spread(one.number) == doctest::Approx(spread));
        CHECK(found.value(one.number) ==
              doctest::Approx(is_own ? detail::number_in(model, one.number) : one.usual));
        CHECK(!found.is_set[static_cast<std::size_t>(one.number)]);
      }
    }
}

TEST_CASE("a bridge bounds the devices that it joins, and PCIe more of them") {
  roofline_time model = model_of({1, 1, 1, 1, 1});
  const gpu_spec& gpu = catalog::rtx_a6000;
  REQUIRE(gpu.peers->joins == 2);
  for (const std::int64_t gpus : {1, 2, 3, 4}) {
    CAPTURE(gpus);
    model.on = {.gpu = gpu, .gpus_per_node = gpus};
    CHECK(detail::is_beyond_bridge(model.on) == (gpus > 2));
    CHECK(detail::is_link_unknown(model.on) == (gpus > 1));
    const double rate = detail::number_in(model, stack_number::inside_node);
    CHECK((rate == pcie_between_devices(gpu).value()) == (gpus > 2));
    model.on.inside_node = 3_GBps;
    CHECK(!detail::is_beyond_bridge(model.on));
    CHECK(!detail::is_link_unknown(model.on));
    CHECK(detail::number_in(model, stack_number::inside_node) == 3e9);
    // What is known beforehand is what the model goes by.
    model.on = {.gpu = catalog::rtx_4090, .gpus_per_node = gpus};
    CHECK(detail::number_in(model, stack_number::inside_node) ==
          interconnect_of(model.on)->inside_node.value());
    // NVLink and switches join all.
    model.on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = gpus};
    CHECK(!detail::is_beyond_bridge(model.on));
    CHECK(!detail::is_link_unknown(model.on));
  }
}

TEST_CASE("a range by hand: of one number that may be off either way, and of the scatter") {
  const double z = 1.2815515655446004;  // eight in ten are as near
  const degrees of{2, 1, 4, 2, 4};
  const roofline_time model = model_of(of);
  const duration median = model.step(plan_of(of));
  for (const prior_of_number& one : priors_of_numbers) {
    CAPTURE(one.name);
    for (const double spread : {0.1, 0.5, 9.0}) {  // the last to a bound on either side
      double above = 0.05 * 0.05;
      double below = above;
      for (const double sign : {1.0, -1.0}) {
        const double value = detail::number_in(model, one.number);
        const double moved =
            std::min(one.most, std::max(one.least, value * std::exp(sign * spread)));
        const double off =
            std::log(with_number(model, one.number, moved / value).step(plan_of(of)) / median);
        (off > 0 ? above : below) += off * off;
      }
      const time_interval range =
          step_interval(model, plan_of(of), only(model, one.number, spread));
      CHECK(range.median == median);
      CHECK(std::log(range.high / median) == doctest::Approx(z * std::sqrt(above)).epsilon(5e-4));
      CHECK(std::log(median / range.low) == doctest::Approx(z * std::sqrt(below)).epsilon(5e-4));
    }
  }
}

TEST_CASE("of two clusters, each number's doubt is shared by the software and else adds up") {
  const double z = 1.2815515655446004;
  const degrees of{2, 1, 4, 2, 4};
  const roofline_time one = model_of(of);
  roofline_time other = one;
  other.on.gpu = catalog::a100_sxm4_80gb;
  other.efficiency = {};  // so that its products are known less
  other.on.between_nodes = 100_GBps;
  const batch_plan plan = plan_of(of);
  const double median = other.step(plan) / one.step(plan);
  const stack_estimate from = untimed_estimate(one);
  const stack_estimate to = untimed_estimate(other);
  double above = from.scatter * from.scatter + to.scatter * to.scatter;
  double below = above;
  const auto moved = [&](const roofline_time& model, const prior_of_number& number, double by) {
    const double value = detail::number_in(model, number.number);
    const double there = std::min(number.most, std::max(number.least, value * std::exp(by)));
    return with_number(model, number.number, there / value).step(plan);
  };
  for (const prior_of_number& number : priors_of_numbers) {
    const double by_from = from.spread(number.number);
    const double by_to = to.spread(number.number);
    const bool is_shared = number.number < stack_number::launch_of_collective;
    const double shared = is_shared ? std::min(by_from, by_to) : 0;
    const double alone_from = std::sqrt(by_from * by_from - shared * shared);
    const double alone_to = std::sqrt(by_to * by_to - shared * shared);
    for (const double sign : {1.0, -1.0})
      for (const auto& [here, there] :
           {std::pair{shared, shared}, std::pair{alone_from, 0.0}, std::pair{0.0, alone_to}}) {
        const double ratio = moved(other, number, sign * there) / moved(one, number, sign * here);
        const double off = std::log(ratio / median);
        (off > 0 ? above : below) += off * off;
      }
  }
  const times_as_long found = step_ratio(one, plan, other, plan);
  CHECK(found.median == doctest::Approx(median));
  CHECK(std::log(found.high / median) == doctest::Approx(z * std::sqrt(above)).epsilon(5e-4));
  CHECK(std::log(median / found.low) == doctest::Approx(z * std::sqrt(below)).epsilon(5e-4));
}

TEST_CASE("what several steps know beforehand is of each number what is known least") {
  // A node whose cards are known, two cards that nobody says how they are linked, and one alone.
  roofline_time node = model_of({1, 1, 1, 1, 1});
  roofline_time cards = node;
  cards.on = {.gpu = catalog::rtx_4090, .gpus_per_node = 2};
  roofline_time alone = node;
  alone.on.gpus_per_node = 1;
  alone.on.between_nodes = {};
  const auto spread_of = [](std::vector<roofline_time> models, stack_number which) {
    std::vector<timed_step> steps;
    for (const roofline_time& one : models) steps.push_back({one, {}, 1_s});
    const stack_estimate found = untimed_estimate(std::span<const timed_step>(steps));
    const auto at = static_cast<std::size_t>(which);
    return std::pair{found.is_set[at], found.spread(which)};
  };
  const double known = untimed_estimate(node).spread(stack_number::inside_node);
  const double unknown = untimed_estimate(cards).spread(stack_number::inside_node);
  REQUIRE(unknown > known);
  CHECK(spread_of({node}, stack_number::inside_node) == std::pair{true, known});
  CHECK(spread_of({node, cards}, stack_number::inside_node) == std::pair{true, unknown});
  CHECK(spread_of({cards, node}, stack_number::inside_node) == std::pair{true, unknown});
  CHECK(spread_of({alone, node}, stack_number::inside_node) == std::pair{true, known});
  CHECK(!spread_of({alone}, stack_number::inside_node).first);
  // Nothing of them crosses nodes.
  for (const stack_number which : {stack_number::between_nodes, stack_number::hop_between}) {
    CHECK(!spread_of({node, cards, alone}, which).first);
    CHECK(spread_of({node, model_of({1, 1, 2, 1, 1})}, which).first);
  }
  CHECK(spread_of({alone}, stack_number::host_per_step).first);
  // Of one network nobody says what it carries.
  roofline_time unstated = model_of({1, 1, 2, 1, 1});
  unstated.on.between_nodes = {};
  CHECK(!spread_of({unstated}, stack_number::between_nodes).first);
  CHECK(spread_of({unstated}, stack_number::hop_between).first);
}

TEST_CASE("a step's time rises with each number as its slope says") {
  const degrees of{2, 2, 4, 2, 8};
  const roofline_time model = model_of(of);
  const stack_estimate stack = untimed_estimate(model);
  const detail::step_slopes slopes(model, plan_of(of), stack);
  CHECK(slopes.time == doctest::Approx(std::log(model.step(plan_of(of)).value())));
  for (const prior_of_number& one : priors_of_numbers) {
    CAPTURE(one.name);
    const double more = with_number(model, one.number, std::exp(0.05)).step(plan_of(of)).value();
    const double less = with_number(model, one.number, std::exp(-0.05)).step(plan_of(of)).value();
    CHECK(slopes.by[static_cast<std::size_t>(one.number)] ==
          doctest::Approx(std::log(more / less) / 0.1).epsilon(1e-6));
  }
  CHECK(slopes.by[static_cast<std::size_t>(stack_number::matmul_rate)] < -0.02);
}

TEST_CASE("the step to time next is the one whose time is known least, by hand") {
  const auto rest = [](const degrees& of) { return possible_step{model_of(of), plan_of(of)}; };
  const std::vector<possible_step> possible = {
      rest({1, 1, 1, 8, 2}), rest({8, 1, 1, 1, 1}), rest({16, 1, 4, 1, 4}), rest({1, 4, 4, 1, 8})};
  const roofline_time& any = possible.front().model;
  const auto slope = [&](const possible_step& one, stack_number which) {
    const double more = with_number(one.model, which, std::exp(0.05)).step(one.plan).value();
    return std::log(more / with_number(one.model, which, std::exp(-0.05)).step(one.plan).value());
  };
  // Of one number, the step that it changes most, whichever way; of two that are off together or
  // against each other, the step of the largest sum or difference.
  for (const prior_of_number& one : priors_of_numbers) {
    CAPTURE(one.name);
    std::size_t best = 0;
    for (std::size_t which = 1; which < possible.size(); ++which)
      if (std::abs(slope(possible[which], one.number)) >
          std::abs(slope(possible[best], one.number)))
        best = which;
    CHECK(step_to_time_next(only(any, one.number, 0.3), possible) == best);
    for (const double sign : {1.0, -1.0}) {
      const auto both = [&](const possible_step& of) {
        return std::abs(slope(of, one.number) + sign * slope(of, stack_number::matmul_rate));
      };
      if (one.number == stack_number::matmul_rate) continue;
      stack_estimate stack = only(any, one.number, 0.3);
      const auto at = static_cast<std::size_t>(one.number);
      stack.covariance.at[0][0] = 0.09;
      stack.covariance.at[0][at] = stack.covariance.at[at][0] = sign * 0.09;
      const std::size_t found = step_to_time_next(stack, possible);
      for (const possible_step& other : possible)
        CHECK(both(possible[found]) >= both(other) * (1 - 1e-9));
    }
  }
  // Of equal ones the first.
  const std::vector<possible_step> twice = {possible[0], possible[0]};
  CHECK(step_to_time_next(only(any, stack_number::matmul_rate, 0.3), twice) == 0);
}

// At the least misfit the prior and the steps pull alike, each step by its weight of Student's t;
// the covariance is that of the sum of what they know; what is left makes the scatter.
TEST_CASE("what steps say is where nothing pulls, and is known as well as all of it together") {
  std::mt19937 random(9);
  for (const double scatter : {0.0, 0.03, 0.2}) {
    const std::vector<timed_step> steps = timed_steps(random, scatter);
    const stack_estimate before = untimed_estimate(std::span<const timed_step>(steps));
    const auto found = calibrate(steps.front().model.on, steps);
    REQUIRE(found);
    CHECK(found->steps == 8);
    CHECK(found->most_gpus == 32);
    double pulls[stack_number_count] = {};
    double pulls_at_most[stack_number_count] = {};
    stack_matrix known;
    // At least what the middle step is off by.
    std::vector<double> errors;
    for (const timed_step& one : steps)
      errors.push_back(std::abs(std::log(one.time / found->applied_to(one.model).step(one.plan))));
    std::sort(errors.begin(), errors.end());
    const double assumed = std::max(before.scatter, 1.48 * errors[4]);
    double squares = 4 * assumed * assumed;
    double weights = 4;
    for (std::size_t i = 0; i < stack_number_count; ++i) {
      const double trust = 1 / before.covariance.at[i][i];
      known.at[i][i] = trust;
      pulls[i] = trust * (before.logarithms[i] - found->logarithms[i]);
      pulls_at_most[i] = std::abs(pulls[i]);
      weights -= 1 - found->covariance.at[i][i] / before.covariance.at[i][i];
    }
    for (const timed_step& one : steps) {
      const detail::step_slopes slopes(one.model, one.plan, *found);
      const double error = std::log(one.time.value()) - slopes.time;
      const double off = error / before.scatter;
      const double weight = 5 / (4 + off * off);
      const double further = error / assumed;
      squares += 5 / (4 + further * further) * error * error;
      weights += 1;
      const double trust = weight / (before.scatter * before.scatter);
      for (std::size_t i = 0; i < stack_number_count; ++i) {
        pulls[i] += trust * slopes.by[i] * error;
        pulls_at_most[i] += std::abs(trust * slopes.by[i] * error);
        for (std::size_t j = 0; j < stack_number_count; ++j)
          known.at[i][j] += trust * slopes.by[i] * slopes.by[j];
      }
    }
    for (std::size_t i = 0; i < stack_number_count; ++i) {
      CAPTURE(priors_of_numbers[i].name);
      CHECK(std::abs(pulls[i]) < 0.03 * pulls_at_most[i] + 0.03);
      for (std::size_t j = 0; j < stack_number_count; ++j)
        CHECK(std::abs(product_at(found->covariance, known, i, j) - (i == j ? 1 : 0)) < 1e-6);
    }
    CHECK(found->scatter == doctest::Approx(std::sqrt(squares / weights)).epsilon(1e-6));
  }
}

TEST_CASE("numbers stay within their bounds, and half of the steps may be far off") {
  std::mt19937 random(2);
  std::vector<timed_step> steps = timed_steps(random, 0);
  for (timed_step& one : steps) one.time = 0.25 * one.time;
  const auto shorter = calibrate(steps.front().model.on, steps);
  REQUIRE(shorter);
  for (const prior_of_number& one : priors_of_numbers) {
    CAPTURE(one.name);
    CHECK(shorter->value(one.number) >= one.least * (1 - 1e-9));
    CHECK(shorter->value(one.number) <= one.most * (1 + 1e-9));
  }
  // Four of eight that are all far off are taken, five are not.
  steps = timed_steps(random, 0);
  for (std::size_t far = 0; far < 5; ++far) {
    steps[far].time = (far % 2 == 0 ? 50.0 : 0.02) * steps[far].time;
    const auto found = calibrate(steps.front().model.on, steps);
    CAPTURE(far);
    if (found) continue;
    CHECK(far == 4);
    CHECK(found.why().code == errc::contradictory_steps);
    CHECK(found.why()[fact::rows_out_of_line] >= 5);
    CHECK(found.why()[fact::timed_steps] == 8);
  }
  CHECK(!calibrate(steps.front().model.on, steps));
}

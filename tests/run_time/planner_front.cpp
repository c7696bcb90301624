// Fronts of plans that are known beforehand: one of each accumulation, which makes a sample's time
// less and takes memory.

#include "check.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/planner/front.hpp>
#include <gpuplan/planner/limits.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

using namespace gpuplan;

namespace {

struct memory_by_accumulation {
  struct model {
    bytes each;
    bytes required(const batch_plan& plan) const {
      return each * static_cast<double>(plan.accumulation);
    }
  };
  bytes each = 1_GB;
  model operator()(const training_setup&) const { return {each}; }
};

plan_request up_to(std::int64_t accumulations) {
  plan_request request;
  request.setup = {.model = catalog::gpt2,
                   .sequence_length = 1024,
                   .precision = bf16_mixed,
                   .framework = catalog::torch_gpt};
  request.on = {.gpu = catalog::h100_sxm5_80gb};
  request.efficiency = catalog::hopper;
  request.effective_batch = {1, accumulations};
  request.space.micro_batch = {1, 1};
  return request;
}

}  // namespace

TEST_CASE("a front says whether it is whole, of as many plans as there is room for and of more") {
  constexpr int most = plan_front::most_plans;
  for (const std::int64_t all : {most - 1, most, most + 1}) {
    const auto front = front_of(up_to(all), 1_TB, memory_by_accumulation{}, 0);
    REQUIRE(front);
    CHECK(front->count == std::min<std::int64_t>(all, most));
    CHECK(front->is_whole == (all <= most));
    for (int at = 0; at < front->count; ++at)
      CHECK(front->plans[at].batch.accumulation == all - at);
    // Of 30 the next that need less by a fifth are 24, 19, 15, ...
    const auto steps = front_of(up_to(all), 30_GB, memory_by_accumulation{}, 0.2);
    REQUIRE(steps);
    CHECK(steps->is_whole);
    std::int64_t next = 30;
    for (const training_plan& plan : *steps) {
      CHECK(plan.batch.accumulation == next);
      next = 4 * next / 5;
    }
    CHECK(next == 0);
  }
}

TEST_CASE("a front without a step has every plan that needs less, be it by a byte") {
  for (const bytes& each : {bytes::from_value(1), 1_GB, bytes::from_value(0x1p53)}) {
    const auto front = front_of(up_to(20), 100 * each, memory_by_accumulation{each}, 0);
    REQUIRE(front);
    CHECK(front->count == 20);
    CHECK(front->is_whole);
  }
}

TEST_CASE("fronts are of time or money, in steps below all of the memory") {
  plan_request request = up_to(4);
  const auto code_of = [&](double step) {
    return front_of(request, 1_TB, memory_by_accumulation{}, step).why().code;
  };
  CHECK(code_of(1) == errc::out_of_bounds);
  CHECK(code_of(-0.1) == errc::out_of_bounds);
  request.goal = plan_goal::least_memory;
  CHECK(code_of(0.1) == errc::out_of_bounds);
  CHECK(front_of(up_to(4), 0.5_GB, memory_by_accumulation{}).why().code == errc::no_plan_in_memory);
  // Nothing is less than no memory.
  for (const double step : {0.0, 0.5}) {
    const auto front = front_of(up_to(4), 1_TB, memory_by_accumulation{bytes{}}, step);
    REQUIRE(front);
    CHECK(front->count == 1);
    CHECK(front->is_whole);
  }
}

namespace {

// Of times that no roofline has: a sample takes as many seconds as there are accumulations.
struct times_by_accumulation {
  struct model {
    bool ends = true;
    duration step(const batch_plan& plan) const {
      const auto many = static_cast<double>(plan.accumulation);
      return ends ? many * many * 1_s
                  : duration::from_value(std::numeric_limits<double>::infinity());
    }
  };
  bool ends = true;
  model operator()(const training_setup&, const cluster&) const { return {ends}; }
};

}  // namespace

TEST_CASE("fronts and limits are of the times that are given") {
  plan_request request = up_to(8);
  request.effective_batch = {4, 8};
  const memory_by_accumulation memory_of;
  const times_by_accumulation times;
  const auto front = front_of(request, 1_TB, memory_of, 0, times);
  REQUIRE(front);
  CHECK(front->count == 1);  // the fastest needs least
  CHECK(front->plans[0].batch.accumulation == 4);
  const auto limits = limits_of(request, memory_budget(1_TB), memory_of, times);
  REQUIRE(limits);
  REQUIRE(limits->best);
  CHECK(limits->best->batch.accumulation == 4);
  CHECK(limits->find(plan_limit::larger_batch) == nullptr);
  const lifted_limit* smaller = limits->find(plan_limit::smaller_batch);
  REQUIRE(smaller != nullptr);
  CHECK(smaller->plan.batch.accumulation == 2);
  CHECK(smaller->gain == doctest::Approx(0.5));
  CHECK(front_of(request, 1_TB, memory_of, 0)->plans[0].batch.accumulation == 8);  // by rooflines
}

TEST_CASE("a plan whose time has no end is none") {
  plan_request request = up_to(8);
  const times_by_accumulation endless{.ends = false};
  for (const plan_goal goal :
       {plan_goal::least_time, plan_goal::least_money, plan_goal::least_memory})
    for (const bool has_limits : {false, true}) {
      request.goal = goal;
      if (has_limits) {
        request.samples = 100;
        request.finish_in = 1_h;
      }
      const auto found =
          plan_training(request, memory_budget(1_TB), memory_by_accumulation{}, 1, endless);
      REQUIRE(!found);
      CHECK(found.why().code == errc::not_finite);
    }
}

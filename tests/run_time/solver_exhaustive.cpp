// The solver against brute force: every micro-batch and every accumulation tried.

#include "check.hpp"

#include <gpuplan/solver.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using namespace gpuplan;

namespace {

// One byte a sample: a GPU of n bytes holds micro-batches up to n.
constexpr affine_memory byte_a_sample{.per_sample = 1_B};

bytes gpu_that_holds(std::int64_t micro_batch) { return micro_batch * 1_B; }

// In the solver's order of preference: micro-batch, then effective batch, both descending.
std::vector<batch_plan> brute_force(std::int64_t low,
                                    std::int64_t high,
                                    std::int64_t gpus,
                                    std::int64_t largest_micro_batch) {
  std::vector<batch_plan> plans;
  for (std::int64_t m = largest_micro_batch; m >= 1; --m)
    for (std::int64_t a = high / (m * gpus); a >= 1 && m * gpus * a >= low; --a)
      plans.push_back({m, gpus, a});
  return plans;
}

bool same(const batch_request& request, const std::vector<batch_plan>& expected) {
  const batch_options options(request, byte_a_sample);
  std::size_t i = 0;
  for (const batch_plan& plan : options)
    if (i == expected.size() || !(plan == expected[i++])) return false;
  if (i != expected.size()) return false;
  const auto best = solve_batch(request, byte_a_sample);
  return expected.empty() ? best.why().code == errc::no_such_batch : best && *best == expected[0];
}

}  // namespace

TEST_CASE("every target up to 4096, on up to 64 GPUs, with micro-batches up to 64") {
  constexpr std::int64_t most = 64;
  std::int64_t wrong = 0;
  std::int64_t impossible = 0;
  std::int64_t indivisible = 0;  // targets that the number of GPUs does not divide
  for (std::int64_t gpus = 1; gpus <= 64; ++gpus) {
    indivisible += 4096 - 4096 / gpus;
    for (std::int64_t target = 1; target <= 4096; ++target) {
      batch_request request{
          .effective_batch = target, .data_parallel = gpus, .gpu = gpu_that_holds(most)};
      // All layouts at once: the plans for a smaller GPU are the end of this list.
      const auto plans = brute_force(target, target, gpus, most);
      impossible += plans.empty();
      wrong += !same(request, plans);
      std::size_t first = 0;
      for (std::int64_t micro_batch = most - 1; micro_batch >= 1 && !plans.empty(); --micro_batch) {
        while (plans[first].micro_batch > micro_batch) ++first;
        request.gpu = gpu_that_holds(micro_batch);
        const auto best = solve_batch(request, byte_a_sample);
        wrong += !(best && *best == plans[first]);
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(impossible == indivisible);
}

TEST_CASE("ranges of targets") {
  std::mt19937_64 random(20'260'817);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int wrong = 0;
  int empty = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t gpus = draw(1, 64);
    const std::int64_t low = draw(1, 4096);
    const std::int64_t high = low + draw(0, draw(0, 1) == 0 ? 8 : 512);
    const std::int64_t largest = draw(1, 64);
    const auto plans = brute_force(low, high, gpus, largest);
    empty += plans.empty();
    wrong += !same(
        {.effective_batch = {low, high}, .data_parallel = gpus, .gpu = gpu_that_holds(largest)},
        plans);
  }
  CHECK(wrong == 0);
  CHECK(empty > 1000);
  CHECK(empty < 19'000);
}

TEST_CASE("the largest micro-batch satisfies the comparison and the next does not") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> fixed(0, 40e9);
  std::uniform_real_distribution<double> per_sample(1e6, 4e9);
  std::uniform_real_distribution<double> memory(4e9, 200e9);
  int wrong = 0;
  int fitting = 0;
  for (int i = 0; i < 200'000; ++i) {
    const affine_memory model{.fixed = bytes::from_value(fixed(random)),
                              .per_sample = bytes::from_value(per_sample(random))};
    const bytes gpu = bytes::from_value(memory(random));
    const auto largest = max_micro_batch(gpu, model);
    if (!largest) {
      wrong += fits({}, gpu, model);
      continue;
    }
    ++fitting;
    wrong += !(fits({.micro_batch = *largest}, gpu, model) &&
               !fits({.micro_batch = *largest + 1}, gpu, model));
  }
  CHECK(wrong == 0);
  CHECK(fitting > 100'000);
}

TEST_CASE("a target without a smooth divisor is solved in a few steps") {
  // 2^31 - 1 is prime: only micro-batches of 1 and of everything divide it.
  constexpr std::int64_t prime = (std::int64_t{1} << 31) - 1;
  const auto best = solve_batch(
      {.effective_batch = prime, .data_parallel = 1, .gpu = gpu_that_holds(1000)}, byte_a_sample);
  CHECK(*best == batch_plan{1, 1, prime});
}

namespace {

// Needs more behind the first micro-batch: gradients in another format.
struct memory_of_sums {
  double sum = 0;

  bytes required(const batch_plan& plan) const {
    const auto samples = static_cast<double>(plan.micro_batch);
    return bytes::from_value(
        samples + sum * static_cast<double>(std::min<std::int64_t>(plan.accumulation - 1, 3)));
  }
};

}  // namespace

TEST_CASE("options where accumulation takes memory are those that fit, in their order") {
  for (std::int64_t target = 1; target <= 40; ++target)
    for (const std::int64_t more : {0, 3, 11})
      for (std::int64_t gpus = 1; gpus <= 3; ++gpus)
        for (int budget = 1; budget <= 24; budget += 3)
          for (const double sum : {1.0, 2.0, 5.0}) {
            const batch_request request{.effective_batch = {target, target + more},
                                        .data_parallel = gpus,
                                        .gpu = bytes::from_value(budget)};
            const memory_of_sums memory{sum};
            std::vector<batch_plan> expected;
            for (const batch_plan& plan : brute_force(target, target + more, gpus, 60))
              if (memory.required(plan) <= request.gpu.size()) expected.push_back(plan);
            std::vector<batch_plan> found;
            for (const batch_plan& plan : batch_options(request, memory)) found.push_back(plan);
            CHECK(found == expected);
          }
}

TEST_CASE("an uneven batch has the fewest accumulations, and then the smallest micro-batch") {
  for (std::int64_t target = 1; target <= 120; ++target)
    for (std::int64_t gpus = 1; gpus <= 7; ++gpus)
      for (std::int64_t most = 1; most <= 20; ++most) {
        const auto found = solve_uneven_batch(target, gpus, gpu_that_holds(most), byte_a_sample);
        REQUIRE(static_cast<bool>(found) == (target >= gpus));
        if (!found) continue;
        const std::int64_t share = (target + gpus - 1) / gpus;
        std::int64_t accumulation = 1;
        while (accumulation * most < share) ++accumulation;
        std::int64_t micro_batch = 1;
        while (accumulation * micro_batch < share) ++micro_batch;
        CHECK(found->accumulation == accumulation);
        CHECK(found->micro_batch == micro_batch);
        CHECK(found->larger_share == share);
        CHECK(found->smaller_share == target / gpus);
        CHECK(found->gpus_with_larger_share * found->larger_share +
                  (gpus - found->gpus_with_larger_share) * found->smaller_share ==
              target);
      }
}

TEST_CASE("likewise where accumulation takes memory") {
  for (std::int64_t target = 1; target <= 60; ++target)
    for (std::int64_t gpus = 1; gpus <= 4; ++gpus)
      for (int budget = 1; budget <= 24; ++budget)
        for (const double sum : {1.0, 2.0, 5.0}) {
          const memory_of_sums memory{sum};
          const bytes gpu = bytes::from_value(budget);
          const std::int64_t share = (target + gpus - 1) / gpus;
          batch_plan fewest{.micro_batch = 0};
          for (std::int64_t accumulation = 1; accumulation <= share; ++accumulation) {
            const batch_plan plan{(share + accumulation - 1) / accumulation, gpus, accumulation};
            if (memory.required(plan) > gpu) continue;
            fewest = plan;
            break;
          }
          const auto found = solve_uneven_batch(target, gpus, gpu, memory);
          REQUIRE(static_cast<bool>(found) == (target >= gpus && fewest.micro_batch > 0));
          if (!found) continue;
          CHECK(found->accumulation == fewest.accumulation);
          CHECK(found->micro_batch == fewest.micro_batch);
        }
}

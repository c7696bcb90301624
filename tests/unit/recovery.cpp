#include "check.hpp"

#include <gpuplan/memory_model.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/solver/recovery.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

constexpr affine_memory groot{.fixed = 7_GB, .per_sample = 1.2_GB};

constexpr batch_plan next_plan(batch_plan plan) { return after_out_of_memory(plan)->plan; }

// Whatever the plan, the effective batch stays and the micro-batch at least halves.
constexpr bool halves_and_keeps(std::int64_t largest) {
  for (std::int64_t micro_batch = 2; micro_batch <= largest; ++micro_batch) {
    for (std::int64_t accumulation = 1; accumulation <= 8; ++accumulation) {
      const batch_plan before{micro_batch, 3, accumulation};
      const batch_plan after = next_plan(before);
      if (after.effective_batch() != before.effective_batch()) return false;
      if (after.micro_batch > micro_batch / 2 || after.data_parallel != 3) return false;
      for (std::int64_t m = after.micro_batch + 1; m <= micro_batch / 2; ++m)
        if ((micro_batch * accumulation) % m == 0) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("the micro-batch halves, the accumulation doubles, the effective batch stays") {
  STATIC_CHECK(next_plan({10, 4, 3}) == batch_plan{5, 4, 6});
  STATIC_CHECK(next_plan({16, 1, 1}) == batch_plan{8, 1, 2});
  STATIC_CHECK(!after_out_of_memory({10, 4, 3})->recompute);
}

TEST_CASE("an odd micro-batch goes to the largest divisor up to its half") {
  STATIC_CHECK(next_plan({15, 4, 2}) == batch_plan{6, 4, 5});
  STATIC_CHECK(next_plan({5, 4, 6}) == batch_plan{2, 4, 15});
  STATIC_CHECK(next_plan({7, 1, 1}) == batch_plan{1, 1, 7});
  STATIC_CHECK(next_plan({3, 2, 1}) == batch_plan{1, 2, 3});
  STATIC_CHECK(halves_and_keeps(48));
}

TEST_CASE("at micro-batch 1 activations are recomputed, and then nothing is left") {
  CONSTEXPR auto last = *after_out_of_memory({1, 4, 30});
  STATIC_CHECK(last.action == recovery_action::recompute_activations);
  STATIC_CHECK(last.plan == batch_plan{1, 4, 30});
  STATIC_CHECK(last.recompute);
  STATIC_CHECK(after_out_of_memory({1, 4, 30}, true).why().code == errc::nothing_left_to_try);
  STATIC_CHECK(after_out_of_memory({4, 4, 1}, true)->plan == batch_plan{2, 4, 2});
  STATIC_CHECK(after_out_of_memory({0, 4, 1}).why().code == errc::not_positive);
}

TEST_CASE("what would take too long to search is refused") {
  CONSTEXPR std::int64_t prime = (std::int64_t{1} << 61) - 1;
  CONSTEXPR auto slow = after_out_of_memory({3, 1, prime / 3}).why();
  STATIC_CHECK(slow.code == errc::out_of_bounds);
  STATIC_CHECK(slow[fact::samples] == prime / 3 * 3);
  STATIC_CHECK(slow[fact::at_most] == std::int64_t{1} << 40);
  STATIC_CHECK(recover_from_out_of_memory({prime, 1, 1}, 8_GB, groot, groot).why().code ==
               errc::out_of_bounds);
}

TEST_CASE("a plan finds its way back into memory") {
  CONSTEXPR auto way = require([] {
    return recover_from_out_of_memory({15, 4, 2}, 11_GB, groot, with(groot, checkpointing(0.5)));
  });
  STATIC_CHECK(way.count == 2);
  STATIC_CHECK(way.steps[0].plan == batch_plan{6, 4, 5});
  STATIC_CHECK(way.steps[0].required == 14.2_GB);
  STATIC_CHECK(way.steps[1].required == 10.6_GB);
  STATIC_CHECK(way.plan == batch_plan{3, 4, 10});
  STATIC_CHECK(!way.recompute);

  CONSTEXPR auto recomputed = require([] {
    return recover_from_out_of_memory({4, 1, 1}, 7.7_GB, groot, with(groot, checkpointing(0.5)));
  });
  STATIC_CHECK(recomputed.count == 3);
  STATIC_CHECK(recomputed.recompute);
  STATIC_CHECK(recomputed.steps[2].required == 7.6_GB);

  CONSTEXPR auto already = require([] {
    return recover_from_out_of_memory({3, 4, 1}, 11_GB, groot, groot);
  });
  STATIC_CHECK(already.count == 0);
  STATIC_CHECK(already.plan == batch_plan{3, 4, 1});
}

TEST_CASE("where no step helps, the last one's numbers say so") {
  CONSTEXPR auto lost =
      recover_from_out_of_memory({4, 1, 1}, 7.5_GB, groot, with(groot, checkpointing(0.5)));
  STATIC_CHECK(lost.why()[fact::needed_MB] == 7600);
  STATIC_CHECK(lost.why()[fact::gpu_has_MB] == 7500);
  STATIC_CHECK(lost.why()[fact::micro_batch] == 1);
  STATIC_CHECK(recover_from_out_of_memory({0, 1, 1}, 11_GB, groot, groot).why().code ==
               errc::not_positive);
  STATIC_CHECK(recover_from_out_of_memory({4, 1, 1}, 11_GB, affine_memory{.fixed = -1_GB}, groot)
                   .why()
                   .code == errc::negative);
}

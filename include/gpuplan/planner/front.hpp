#pragma once

// Plans that trade time, or money, for memory.

#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// The Pareto front of a request: the fastest (or cheapest) plan first, each next one the best of
/// those that need less memory, which may be as good.
struct plan_front {
  static constexpr int most_plans = 32;

  training_plan plans[most_plans]{};
  int count = 0;
  bool is_whole = false;  // else there are more, which need still less

  [[nodiscard]] constexpr const training_plan* begin() const { return plans; }
  [[nodiscard]] constexpr const training_plan* end() const { return plans + count; }
};

/// The front by the request's goal and memory, which must be less from plan to plan by the share
/// `step`: at 0, any less. Exact, as `plan_training`, which it asks once for each. Errors:
/// those of `plan_training`; `out_of_bounds` where memory is the goal, or the step is not from 0 to
/// below 1.
template <memory_of_setups MemoryOf, times_of_setups TimesOf = roofline_times>
[[nodiscard]] constexpr result<plan_front> front_of(const plan_request& request,
                                                    memory_budget budget,
                                                    const MemoryOf& memory_of,
                                                    double step = 0.01,
                                                    const TimesOf& times_of = {}) {
  if (request.goal == plan_goal::least_memory || !(step >= 0 && step < 1))
    return failure(errc::out_of_bounds).about(fact::front_goal);
  plan_front front;
  double left = budget.size().value();
  for (;;) {
    const auto found = plan_training(request, bytes::from_value(left), memory_of, 1, times_of);
    if (!found && front.count == 0) return found.why();
    if (!found) front.is_whole = true;
    if (!found || front.count == plan_front::most_plans) break;
    const training_plan& best = found->best();
    front.plans[front.count++] = best;
    const double needed = best.required.value();
    // Where nothing is left, that is refused like memory in which no plan fits.
    left = step > 0 ? needed * (1 - step) : needed - (needed > 0x1p52 ? needed * 0x1p-52 : 1);
  }
  return front;
}

}  // namespace gpuplan

#pragma once

// What the planner answers, of one search or of several for the same request.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>

namespace gpuplan {

/// The best plans, and how they were found.
// NOLINTNEXTLINE(readability-identifier-naming): clang-tidy 14 names what copies the array
struct plan_answer {
  static constexpr int most_plans = 8;

  training_plan plans[most_plans]{};  // best first, of each layout and number of GPUs one
  int count = 0;
  std::int64_t evaluated = 0;  // plans whose time was worked out,
  std::int64_t excluded = 0;   // and those that a bound excluded: no better than what was found
  std::int64_t asked = 0;      // how often the memory model was

  [[nodiscard]] constexpr const training_plan& best() const { return plans[0]; }
  /// The best plan of another layout. Precondition: `count` is at least 2.
  [[nodiscard]] constexpr const training_plan& runner_up() const { return plans[1]; }
  [[nodiscard]] constexpr const training_plan* begin() const { return plans; }
  [[nodiscard]] constexpr const training_plan* end() const { return plans + count; }
};

/// How much longer a sample takes by `plan` than by `best`: 0.05 is 5 %.
[[nodiscard]] constexpr double loss_of(const training_plan& plan, const training_plan& best) {
  return plan.per_sample() / best.per_sample() - 1;
}

namespace detail {

// The request on one of its clusters alone.
constexpr plan_request request_on(const plan_request& request, std::size_t cluster) {
  plan_request here = request;
  here.others = {};
  if (cluster == 0) return here;
  here.on = request.others[cluster - 1].on;
  here.efficiency = request.others[cluster - 1].efficiency;
  return here;
}

constexpr double price_of(const cluster& on) {
  return on.price_per_gpu ? on.price_per_gpu->each.value() : 1;
}
// What the goal counts, on any of the request's clusters.
constexpr double goal_value(const plan_request& request, const training_plan& plan) {
  const double time = plan.per_sample().value();
  switch (request.goal) {
    case plan_goal::least_money:
      return time * static_cast<double>(plan.gpus) * price_of(cluster_of(request, plan));
    case plan_goal::least_memory:
      return plan.required.value();
    case plan_goal::least_time:
      break;
  }
  return time;
}

}  // namespace detail

/// How much more `plan` takes than `best` of what the goal has least of. Precondition: plans of the
/// request, of which the best takes some.
[[nodiscard]] constexpr double loss_of(const plan_request& request,
                                       const training_plan& plan,
                                       const training_plan& best) {
  return detail::goal_value(request, plan) / detail::goal_value(request, best) - 1;
}

namespace detail {

// The plan whose run takes least time, or costs least, in whole steps: what takes least of a sample
// may need a step more. `best_of(request)` is the best plan of a request, or none. Absent where
// that finds none. Precondition: the goal is time or money, and so is what is limited.
template <class BestOf>
constexpr known<training_plan> shortest_run(plan_request request, const BestOf& best_of) {
  known<training_plan> best;
  for (known<training_plan> next = best_of(request); next; next = best_of(request)) {
    best = next;
    const planned_run run = run_of(request, *best);
    const double less = 1 - 1e-12;
    if (request.goal == plan_goal::least_money)
      request.at_most = less * *run.cost;
    else
      request.finish_in = less * run.time;
  }
  return best;
}

// How far off a failure is from a plan: less memory, time or money that is missing is nearer.
constexpr double distance_of(const failure& why) {
  const auto times = [&](fact needed, fact given) {
    const auto most = static_cast<double>(why[given]);
    return static_cast<double>(why[needed]) / (most > 0 ? most : 1);
  };
  switch (why.code) {
    case errc::no_plan_in_memory:
      return times(fact::needed_MB, fact::gpu_has_MB);
    case errc::no_plan_in_time:
      return times(fact::minutes, fact::at_most_minutes);
    case errc::no_plan_for_money:
      return times(fact::cents, fact::at_most_cents);
    default:
      return infinity;
  }
}

// As much of what the goal counts, in what a search on this cluster counts; a little more, since
// products round.
constexpr double ceiling_on(const plan_request& request, const cluster& on, double value) {
  const double each = request.goal == plan_goal::least_money ? price_of(on) : 1;
  return each > 0 ? value / each * (1 + 1e-12) : infinity;
}

// The best plans of several searches for one request, or why the nearest has none.
class gathered_plans {
 public:
  constexpr const plan_answer& plans() const { return all_; }

  constexpr result<plan_answer> answer() const {
    if (all_.count == 0) return failed(why_) ? why_ : failure(errc::no_runs);
    return all_;
  }
  // What a search on this cluster need not go beyond, in what it counts.
  constexpr double ceiling(const plan_request& request, const cluster& on, int wanted) const {
    if (all_.count < wanted) return infinity;
    return ceiling_on(request, on, goal_value(request, all_.plans[wanted - 1]));
  }

  constexpr void add(const plan_request& request,
                     const result<plan_answer>& more,
                     std::size_t cluster,
                     int wanted) {
    if (!more) {
      if (!failed(why_) || distance_of(more.why()) < distance_of(why_)) why_ = more.why();
      return;
    }
    for (training_plan plan : *more) {
      plan.cluster = cluster;
      add(request, plan, wanted);
    }
    all_.evaluated += more->evaluated;
    all_.excluded += more->excluded;
    all_.asked += more->asked;
  }

 private:
  plan_answer all_{};
  failure why_{};

  // Behind those that are as good: of as good ones the first search's come first.
  constexpr void add(const plan_request& request, const training_plan& plan, int wanted) {
    const double value = goal_value(request, plan);
    const auto comes_before = [&](const training_plan& other) {
      const double others = goal_value(request, other);
      if (value != others) return value < others;
      if (plan.per_sample() != other.per_sample()) return plan.per_sample() < other.per_sample();
      if (plan.required != other.required) return plan.required < other.required;
      return plan.cluster == other.cluster && plan.gpus < other.gpus;
    };
    int at = all_.count;
    if (at == wanted) {
      if (!comes_before(all_.plans[--at])) return;
    } else {
      ++all_.count;
    }
    for (; at > 0 && comes_before(all_.plans[at - 1]); --at) all_.plans[at] = all_.plans[at - 1];
    all_.plans[at] = plan;
  }
};

}  // namespace detail

}  // namespace gpuplan

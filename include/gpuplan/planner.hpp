#pragma once

// The planner: which division, micro-batch and accumulation train a model fastest, for the least
// money or in the least memory, on a cluster, and why not better.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/planner/search.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <concepts>
#include <cstdint>

namespace gpuplan {

/// Answers "what does a device need for plans of this setup?" with a memory model: the setup has
/// the division, in every other way it is the request's. Where `memory_of.at_least(setup, plan)`
/// exists, it is bytes that the model never falls below, and cheap: plans are refused by it before
/// the model is asked.
template <class MemoryOf>
concept memory_of_setups = requires(const MemoryOf& memory_of, const training_setup& setup) {
  { memory_of(setup).required(batch_plan{}) } -> std::same_as<bytes>;
};

/// The best plans, and how they were found.
struct plan_answer {
  static constexpr int most_plans = 8;

  training_plan plans[most_plans]{};  // best first, of each division and number of GPUs one
  int count = 0;
  std::int64_t evaluated = 0;  // plans whose time was worked out,
  std::int64_t excluded = 0;   // and those that a bound excluded: no better than what was found
  std::int64_t asked = 0;      // how often the memory model was
  // What would be best if memory had no limit, where that is better: then memory binds.
  known<training_plan> beyond_memory{};

  [[nodiscard]] constexpr const training_plan& best() const { return plans[0]; }
  /// The best plan of another division. Precondition: `count` is at least 2.
  [[nodiscard]] constexpr const training_plan& runner_up() const { return plans[1]; }
  [[nodiscard]] constexpr const training_plan* begin() const { return plans; }
  [[nodiscard]] constexpr const training_plan* end() const { return plans + count; }
};

/// How much longer a sample takes by `plan` than by `best`: 0.05 is 5 %.
[[nodiscard]] constexpr double loss_of(const training_plan& plan, const training_plan& best) {
  return plan.per_sample() / best.per_sample() - 1;
}

namespace detail {

template <memory_of_setups MemoryOf>
class planner {
 public:
  constexpr planner(const plan_request& request, memory_budget budget, const MemoryOf& memory_of)
      : request_(request), budget_(budget.size().value()), memory_of_(memory_of), all_(request) {}

  constexpr result<plan_answer> run(int wanted) {
    wanted_ = wanted;
    if (all_.has_too_many())
      return failure(errc::out_of_bounds, named_fact{fact::at_most, 512}).about("degrees");
    const auto refine = [this](plan_candidate& of, const training_setup& setup) {
      refine_by_floor(of, setup);
    };
    plan_candidate last{};
    const plan_candidate* behind = nullptr;
    for (bool goes_on = true; goes_on;) {
      const candidate_list found = all_.lowest(behind, limit(), refine);
      goes_on = found.is_full();
      for (int at = 0; at < found.size(); ++at) {
        if (found[at].bound > limit()) {
          goes_on = false;
          break;
        }
        examine(found[at]);
      }
      if (!goes_on || answer_.count == wanted_) examine_postponed();
      if (goes_on) last = found[found.size() - 1];
      behind = &last;
    }
    const plan_counts counts = all_.counts();
    answer_.evaluated = counts.evaluated;
    answer_.excluded = counts.excluded;
    if (answer_.count == 0) return why_none(counts);
    if (request_.goal != plan_goal::least_memory) find_beyond_memory();
    return answer_;
  }

 private:
  // A plan's place among others: by what the goal counts, then by time, then the simpler one.
  struct rank {
    double value = infinity;
    double per_sample = 0;
    plan_group group{};

    friend constexpr bool operator<(const rank& a, const rank& b) {
      if (a.value != b.value) return a.value < b.value;
      if (a.per_sample != b.per_sample) return a.per_sample < b.per_sample;
      return a.group < b.group;
    }
  };

  const plan_request& request_;
  double budget_;
  const MemoryOf& memory_of_;
  plan_enumeration all_;
  plan_answer answer_{};
  rank ranks_[plan_answer::most_plans]{};
  int wanted_ = plan_answer::most_plans;
  double least_required_ = infinity;  // of what was asked
  plan_candidate least_{};
  failure refusal_{};                                     // of a setup by the memory model
  plan_candidate postponed_[candidate_list::capacity]{};  // of less accumulation than they may have
  int postponed_count_ = 0;

  static constexpr auto as_it_is = [](const plan_candidate&, const training_setup&) {};

  constexpr double limit() const {
    return answer_.count < wanted_ ? infinity : ranks_[wanted_ - 1].value;
  }

  static constexpr batch_plan batch_of(const plan_candidate& of, std::int64_t accumulation) {
    return {of.group.micro_batch, of.group.data_parallel(), accumulation};
  }
  // Fewer accumulations where more are known not to fit, or none.
  constexpr void refine_by_floor(plan_candidate& of, const training_setup& setup) const {
    if constexpr (requires { memory_of_.at_least(setup, batch_plan{}); }) {
      const auto least = [&](std::int64_t many) {
        return memory_of_.at_least(setup, batch_of(of, many)).value();
      };
      const double lowest = least(of.of.low);
      if (lowest > budget_) {
        of.bound = infinity;
      } else if (request_.goal == plan_goal::least_memory) {
        of.bound = lowest;
      } else if (least(of.of.high) > budget_) {
        of.of.high = most_of(of.of, [&](std::int64_t many) { return least(many) <= budget_; });
        of.bound = all_.value_of(of.group, of.per_sample(of.of.high));
      }
    }
  }
  constexpr double required(const plan_candidate& of, std::int64_t accumulation) {
    const training_setup& setup = all_.divided(of.group);
    const batch_plan plan = batch_of(of, accumulation);
    const auto model = memory_of_(setup);
    ++answer_.asked;
    if constexpr (requires { validate(model); })
      if (const auto valid = validate(model); !valid) return refused(valid.why());
    if constexpr (requires { validate(model, plan); })
      if (const auto valid = validate(model, plan); !valid) return refused(valid.why());
    const double here = model.required(plan).value();
    if (here < least_required_) {
      least_required_ = here;
      least_ = of;
      least_.of.low = least_.of.high = accumulation;
    }
    return here;
  }
  constexpr double refused(const failure& why) {
    if (!failed(refusal_)) refusal_ = why;
    return infinity;
  }

  // The most of `of` for which `holds`, which holds for the least.
  template <class Holds>
  static constexpr std::int64_t most_of(const accumulations& of, const Holds& holds) {
    std::int64_t fitting = 0;
    std::int64_t too_many = of.count();
    while (too_many - fitting > 1) {
      const std::int64_t middle = fitting + (too_many - fitting) / 2;
      (holds(of.low + middle * of.unit) ? fitting : too_many) = middle;
    }
    return of.low + fitting * of.unit;
  }

  constexpr void examine(const plan_candidate& of) {
    if (request_.goal == plan_goal::least_memory) return examine_memory(of);
    const double needed = required(of, of.of.high);
    if (needed <= budget_) return insert(of, of.of.high, needed);
    if (of.of.count() == 1) return;
    plan_candidate less = of;
    less.of.high -= less.of.unit;
    if (postponed_count_ == candidate_list::capacity) examine_postponed();
    postponed_[postponed_count_++] = less;
  }
  // Of what does not fit with the most accumulation, the most that fits, if it is still of
  // interest: when other plans have been found it seldom is.
  constexpr void examine_postponed() {
    for (int at = 0; at < postponed_count_; ++at) {
      plan_candidate& of = postponed_[at];
      const auto value = [&](std::int64_t many) {
        return all_.value_of(of.group, of.per_sample(many));
      };
      if (value(of.of.high) > limit()) continue;
      if (value(of.of.low) > limit())
        of.of.low =
            most_of(of.of, [&](std::int64_t many) { return value(many) > limit(); }) + of.of.unit;
      if (required(of, of.of.low) > budget_) continue;
      const std::int64_t accumulation =
          most_of(of.of, [&](std::int64_t many) { return required(of, many) <= budget_; });
      insert(of, accumulation, required(of, accumulation));
    }
    postponed_count_ = 0;
  }
  // Memory rises and the time of a sample falls with accumulation: the least that meets the limits,
  // and of as much memory the most.
  constexpr void examine_memory(const plan_candidate& of) {
    accumulations left = of.of;
    const auto meets = [&](std::int64_t many) {
      return all_.meets_limits(of.group, of.per_sample(many));
    };
    if (!meets(left.low))
      left.low = most_of(left, [&](std::int64_t many) { return !meets(many); }) + left.unit;
    const double needed = required(of, left.low);
    if (needed > budget_ || needed > limit()) return;
    const std::int64_t accumulation =
        most_of(left, [&](std::int64_t many) { return required(of, many) <= needed; });
    insert(of, accumulation, needed);
  }

  constexpr void insert(const plan_candidate& of, std::int64_t accumulation, double needed) {
    const double per_sample = of.per_sample(accumulation);
    if (!all_.meets_limits(of.group, per_sample)) return;
    const rank place{
        request_.goal == plan_goal::least_memory ? needed : all_.value_of(of.group, per_sample),
        per_sample,
        of.group};
    int at = answer_.count;
    for (int there = 0; there < answer_.count; ++there)
      if (ranks_[there].group.same_division(of.group)) at = there;
    if (at < answer_.count && !(place < ranks_[at])) return;
    if (at == wanted_) {
      if (!(place < ranks_[--at])) return;
    } else if (at == answer_.count) {
      ++answer_.count;
    }
    for (; at > 0 && place < ranks_[at - 1]; --at) {
      ranks_[at] = ranks_[at - 1];
      answer_.plans[at] = answer_.plans[at - 1];
    }
    ranks_[at] = place;
    answer_.plans[at] = plan_of(of, accumulation);
    answer_.plans[at].required = bytes::from_value(needed);
  }
  constexpr training_plan plan_of(const plan_candidate& of, std::int64_t accumulation) {
    const training_setup& setup = all_.divided(of.group);
    return {.gpus = of.group.gpus,
            .division = setup.parallelism,
            .recompute = setup.recompute,
            .batch = batch_of(of, accumulation),
            .step = duration::from_value(of.step(accumulation))};
  }

  constexpr void find_beyond_memory() {
    const candidate_list found = all_.lowest(nullptr, ranks_[0].value, as_it_is);
    if (found.size() == 0 || !(found[0].bound < ranks_[0].value)) return;
    answer_.beyond_memory = plan_of(found[0], found[0].of.high);
  }

  // What keeps every plan out, and how far off the nearest is.
  constexpr failure why_none(const plan_counts& counts) const {
    const named_fact devices{fact::devices, all_.most_gpus()};
    if (!all_.has_divisions()) {
      if (failed(all_.flaw())) return all_.flaw();
      return failure(errc::no_such_division, devices);
    }
    const std::int64_t plans = counts.evaluated + counts.excluded;
    if (plans == 0)
      return failure(errc::no_such_batch,
                     named_fact{fact::effective_batch_low, request_.effective_batch.low()},
                     named_fact{fact::effective_batch_high, request_.effective_batch.high()},
                     devices);
    plan_request free = request_;
    free.finish_in = {};
    free.at_most = {};
    if (counts.refused == plans) return why_too_much(free, devices);
    free.goal = plan_goal::least_memory;
    free.evaluates_all = false;
    planner least(free, bytes::from_value(infinity), memory_of_);
    const auto found = least.run(1);
    if (!found) return failed(least.refusal_) ? least.refusal_ : found.why();
    const training_plan& smallest = found->best();
    if (smallest.required <= bytes::from_value(budget_)) return why_too_much(free, devices);
    return exceeds_gpu_memory(smallest.batch, smallest.required, bytes::from_value(budget_));
  }
  // By the fastest and the cheapest plan, whatever their memory.
  constexpr failure why_too_much(plan_request& free, const named_fact& devices) const {
    const auto samples = static_cast<double>(request_.samples);
    free.goal = plan_goal::least_time;
    if (request_.finish_in) {
      plan_enumeration all(free);
      const double time = all.lowest(nullptr, infinity, as_it_is)[0].bound * samples;
      if (time > request_.finish_in->value() || !request_.at_most)
        return failure(errc::no_plan_in_time,
                       devices,
                       named_fact{fact::minutes, as_fact(time / 60)},
                       named_fact{fact::at_most_minutes,
                                  static_cast<std::int64_t>(request_.finish_in->value() / 60)});
    }
    free.goal = plan_goal::least_money;
    plan_enumeration all(free);
    const double gpu_time = all.lowest(nullptr, infinity, as_it_is)[0].bound * samples;
    const money least = gpu_time * (1_s * request_.on.price_per_gpu->each);
    return failure(errc::no_plan_for_money,
                   devices,
                   named_fact{fact::cents, as_fact(in(least, 1_usd) * 100)},
                   named_fact{fact::at_most_cents,
                              static_cast<std::int64_t>(in(*request_.at_most, 1_usd) * 100)});
  }
};

}  // namespace detail

/// The best plans of the request whose memory is within the budget, at most `plans` of them. Exact:
/// what is not worked out cannot be better, since no plan is faster than its layers on GPUs that
/// never wait, a sample takes less time the more are accumulated, and memory rises with micro-batch
/// and accumulation. Times are those of `roofline_time`. Interleaved schedules take accumulations
/// that the stages divide. Plans as good are in order of GPUs, then degrees. Errors: those of the
/// request; `no_such_division`, or why the first one is none; `no_such_batch`; `no_plan_in_time`
/// and `no_plan_for_money` with what the best one would take; `exceeds_gpu_memory` of the plan that
/// needs least; `out_of_bounds` of more than 512 combinations of tensor, context and expert degrees
/// and recomputation, or 1,024 of pipelines and ZeRO stages.
template <memory_of_setups MemoryOf>
[[nodiscard]] constexpr result<plan_answer> plan_training(const plan_request& request,
                                                          memory_budget budget,
                                                          const MemoryOf& memory_of,
                                                          int plans = 2) {
  if (const auto valid = validate(request); !valid) return valid.why();
  if (const failure flaw = detail::flaw_of_budget(budget); detail::failed(flaw)) return flaw;
  if (plans < 1 || plans > plan_answer::most_plans)
    return failure(errc::out_of_bounds,
                   named_fact{fact::plans, plans},
                   named_fact{fact::at_least, 1},
                   named_fact{fact::at_most, plan_answer::most_plans});
  return detail::planner(request, budget, memory_of).run(plans);
}
/// Likewise, in the memory of the cluster's GPU.
template <memory_of_setups MemoryOf>
[[nodiscard]] constexpr result<plan_answer> plan_training(const plan_request& request,
                                                          const MemoryOf& memory_of) {
  return plan_training(request, request.on.gpu, memory_of);
}

}  // namespace gpuplan

#pragma once

// The planner: which layout, micro-batch and accumulation train a model fastest, for the least
// money or in the least memory, on a cluster, and why not better.

#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner/answer.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/planner/search.hpp>
#include <gpuplan/planner/times.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpuplan {

/// Answers "what does a device need for plans of this setup?" with a memory model: the setup has
/// the layout, in every other way it is the request's. Where `memory_of.at_least(setup, plan)`
/// exists, it is bytes that the model never falls below, and cheap: plans are refused by it before
/// the model is asked. Where `memory_of.on(gpu)` exists, it answers for clusters of that GPU.
template <class MemoryOf>
concept memory_of_setups = requires(const MemoryOf& memory_of, const training_setup& setup) {
  { memory_of(setup).required(batch_plan{}) } -> std::same_as<bytes>;
};

namespace detail {

template <class MemoryOf>
concept has_floor = requires(const MemoryOf& memory_of, const training_setup& setup) {
  memory_of.at_least(setup, batch_plan{});
};

inline constexpr std::int64_t no_end_of_them = std::numeric_limits<std::int64_t>::max();
// How many plans' memory tells enough of the least that any needs, once all others' `at_least` is
// within few percent of it: where the optimizer's step is what needs most, thousands of plans need
// the same but for megabytes.
template <memory_of_setups MemoryOf>
inline constexpr std::int64_t most_told_without_plan = has_floor<MemoryOf> ? 64 : no_end_of_them;

template <memory_of_setups MemoryOf, times_of_setups TimesOf>
class planner {
 public:
  constexpr planner(const plan_request& request,
                    memory_budget budget,
                    const MemoryOf& memory_of,
                    const TimesOf& times_of)
      : request_(request),
        budget_(budget.size().value()),
        memory_of_(memory_of),
        times_of_(times_of),
        all_(request, times_of) {}

  constexpr const plan_tables<TimesOf>& tables() const { return all_.tables(); }

  // Plans that the goal counts as more than `ceiling` are of no interest, nor, once the memory
  // model has told the memory of so many, are those that can need little less than the least.
  constexpr result<plan_answer> run(int wanted,
                                    double ceiling = infinity,
                                    std::int64_t most_told = no_end_of_them) {
    wanted_ = wanted;
    ceiling_ = ceiling;
    const auto refine = [this](plan_candidate& candidate,
                               const training_setup& setup,
                               const parameter_counts& held) {
      if (is_known_too_large(candidate))
        candidate.bound = infinity;
      else
        refine_by_floor(candidate, setup, held);
    };
    plan_counts counts;
    plan_candidate last{};
    const plan_candidate* behind = nullptr;
    for (bool goes_on = true; goes_on;) {
      const auto lowest = all_.lowest(candidate_list::capacity, behind, limit(), refine);
      const candidate_list& found = lowest.candidates;
      counts = lowest.counts;
      goes_on = found.is_full();
      for (int at = 0; at < found.size(); ++at) {
        if (found[at].bound > limit() || (told_ >= most_told && can_need_little_less(found[at]))) {
          goes_on = false;
          break;
        }
        examine(found[at]);
      }
      if (!goes_on || answer_.count == wanted_) examine_postponed();
      if (goes_on) last = found[found.size() - 1];
      behind = &last;
    }
    answer_.evaluated = counts.evaluated;
    answer_.excluded = counts.excluded;
    if (answer_.count == 0 && ceiling_ < infinity) return answer_;
    if (answer_.count == 0) return why_none(counts);
    return answer_;
  }

 private:
  // A plan's place among others: by what the goal counts, then by time, then by memory, then the
  // simpler one.
  struct rank {
    double value = infinity;
    double per_sample = 0;
    double required = 0;
    plan_group group{};

    friend constexpr bool operator<(const rank& a, const rank& b) {
      if (a.value != b.value) return a.value < b.value;
      if (a.per_sample != b.per_sample) return a.per_sample < b.per_sample;
      if (a.required != b.required) return a.required < b.required;
      return a.group < b.group;
    }
  };

  // Of a layout, the micro-batch from which on memory is too much, with so many accumulations or
  // more: it rises with both. Looked for when several were too large, one by one.
  struct too_large {
    plan_group layout{};
    std::int64_t accumulation = 0;
    std::int64_t seen = 0;
    std::int64_t from = std::numeric_limits<std::int64_t>::max();
  };

  const plan_request& request_;
  double budget_;
  const MemoryOf& memory_of_;
  const TimesOf& times_of_;
  plan_search<TimesOf> all_;
  plan_answer answer_{};
  rank ranks_[plan_answer::most_plans]{};
  int wanted_ = plan_answer::most_plans;
  double ceiling_ = infinity;
  failure refusal_{};                                     // of a setup by the memory model
  std::int64_t told_ = 0;                                 // how often it had an answer
  plan_candidate postponed_[candidate_list::capacity]{};  // of less accumulation than they may have
  int postponed_count_ = 0;
  static constexpr int most_too_large = 32;
  static constexpr std::int64_t patience = 6;  // more than powers of two up to 64 that do not fit
  too_large too_large_[most_too_large]{};
  int next_too_large_ = 0;

  static constexpr auto as_it_is =
      [](const plan_candidate&, const training_setup&, const parameter_counts&) {};

  constexpr double limit() const {
    return answer_.count < wanted_ ? ceiling_ : ranks_[wanted_ - 1].value;
  }

  constexpr bool can_need_little_less(const plan_candidate& candidate) const {
    return request_.goal == plan_goal::least_memory && answer_.count == wanted_ &&
           candidate.bound > 0.95 * limit();
  }

  constexpr double value_of(const plan_candidate& candidate, std::int64_t accumulation) const {
    return all_.domain().value_of(candidate.group, candidate.per_sample(accumulation));
  }
  static constexpr batch_plan batch_of(const plan_candidate& candidate, std::int64_t accumulation) {
    return {candidate.group.micro_batch, candidate.group.data_parallel(), accumulation};
  }
  // Fewer accumulations where more are known not to fit, or none.
  constexpr void refine_by_floor(plan_candidate& candidate,
                                 const training_setup& setup,
                                 [[maybe_unused]] const parameter_counts& held) const {
    if constexpr (has_floor<MemoryOf>) {
      const auto least = [&](std::int64_t many) {
        if constexpr (requires { memory_of_.at_least(setup, batch_plan{}, held); })
          return memory_of_.at_least(setup, batch_of(candidate, many), held).value();
        else
          return memory_of_.at_least(setup, batch_of(candidate, many)).value();
      };
      const double lowest = least(candidate.allowed.low);
      if (lowest > budget_) {
        candidate.bound = infinity;
      } else if (request_.goal == plan_goal::least_memory) {
        candidate.bound = lowest;
      } else if (candidate.allowed.high > candidate.allowed.low &&
                 least(candidate.allowed.high) > budget_) {
        candidate.allowed.high =
            most_of(candidate.allowed, [&](std::int64_t many) { return least(many) <= budget_; });
        candidate.allowed.high = all_.limits().most_accumulation(candidate);
        candidate.bound =
            candidate.allowed.high == 0 ? infinity : value_of(candidate, candidate.allowed.high);
      }
    }
  }
  // Of a group with so many layers recomputed.
  constexpr double required(plan_candidate candidate,
                            std::int64_t layers,
                            std::int64_t accumulation) {
    candidate.group.layers = layers;
    return required(candidate, accumulation);
  }
  constexpr double required(const plan_candidate& candidate, std::int64_t accumulation) {
    const training_setup setup = all_.setup_of(candidate.group);
    const batch_plan plan = batch_of(candidate, accumulation);
    const auto model = memory_of_(setup);
    ++answer_.asked;
    if constexpr (requires { validate(model); })
      if (const auto valid = validate(model); !valid) return refused(valid.why());
    if constexpr (requires { validate(model, plan); })
      if (const auto valid = validate(model, plan); !valid) return refused(valid.why());
    ++told_;
    return model.required(plan).value();
  }
  constexpr double refused(const failure& why) {
    if (!failed(refusal_)) refusal_ = why;
    return infinity;
  }

  // The most of these for which `holds`, which holds for the least.
  template <class Holds>
  static constexpr std::int64_t most_of(const accumulations& allowed, const Holds& holds) {
    std::int64_t fitting = 0;
    std::int64_t too_many = allowed.count();
    while (too_many - fitting > 1) {
      const std::int64_t middle = fitting + (too_many - fitting) / 2;
      (holds(allowed.low + middle * allowed.unit) ? fitting : too_many) = middle;
    }
    return allowed.low + fitting * allowed.unit;
  }

  constexpr bool is_known_too_large(const plan_candidate& candidate) const {
    for (const too_large& known : too_large_)
      if (known.seen != 0 && candidate.group.micro_batch >= known.from &&
          candidate.allowed.low >= known.accumulation && known.layout.same_layout(candidate.group))
        return true;
    return false;
  }
  // Of a candidate that needs more than `most` with the least accumulation.
  constexpr void note_too_large(const plan_candidate& candidate, double needed, double most) {
    if (!(needed < infinity)) return;  // refused, maybe for this micro-batch alone
    too_large* noted = nullptr;
    for (too_large& known : too_large_)
      if (known.seen != 0 && known.layout.same_layout(candidate.group)) noted = &known;
    if (noted == nullptr) {
      noted = &too_large_[next_too_large_++ % most_too_large];
      *noted = {.layout = candidate.group};
    }
    if (++noted->seen < patience) return;
    plan_candidate other = candidate;
    // With the least accumulation that there is it may be too much, and most is known then.
    const std::int64_t many = required(candidate, candidate.allowed.unit) > most
                                  ? candidate.allowed.unit
                                  : candidate.allowed.low;
    std::int64_t low = request_.space.micro_batch.low() - 1;
    std::int64_t high = candidate.group.micro_batch;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      other.group.micro_batch = middle;
      const double there = required(other, many);
      (there > most && there < infinity ? high : low) = middle;
    }
    noted->from = high;
    noted->accumulation = many;
    noted->seen = 1;
  }

  constexpr void examine(const plan_candidate& candidate) {
    if (is_known_too_large(candidate)) return;  // since it was found
    const bool chooses_layers = candidate.group.layers != 0;
    if (request_.goal == plan_goal::least_memory)
      return chooses_layers ? examine_memory_by_layers(candidate) : examine_memory(candidate);
    if (candidate.takes_more_layers) return examine_by_layers(candidate);
    const double needed = required(candidate, candidate.allowed.high);
    if (needed <= budget_) return insert(candidate, candidate.allowed.high, needed);
    if (candidate.allowed.count() > 1)
      postpone(candidate);
    else if (!chooses_layers)
      note_too_large(candidate, needed, budget_);
  }
  // With less accumulation.
  constexpr void postpone(plan_candidate less) {
    less.allowed.high -= less.allowed.unit;
    if (postponed_count_ == candidate_list::capacity) examine_postponed();
    postponed_[postponed_count_++] = less;
  }
  // From so many recomputed layers on, the fewest that fit and are still of interest; where none
  // is, the most there are and one. Memory falls with them and time rises.
  struct fewest_layers {
    std::int64_t count = 0;
    double needed = 0;
  };
  constexpr fewest_layers fewest(const plan_candidate& candidate,
                                 std::int64_t accumulation,
                                 std::int64_t most) {
    const std::int64_t fastest = candidate.allowed.high;
    std::int64_t too_few = candidate.group.layers;
    fewest_layers found{too_few, required(candidate, accumulation)};
    if (found.needed <= budget_) return found;
    for (std::int64_t more = 1;; more *= 2) {
      if (too_few == most) return {most + 1, found.needed};
      const std::int64_t next = too_few + more < most ? too_few + more : most;
      if (value_of(all_.recomputing(candidate, too_few + 1), fastest) > limit())
        return {most + 1, infinity};
      found = {next, required(candidate, next, accumulation)};
      if (found.needed <= budget_) break;
      too_few = next;
    }
    while (found.count - too_few > 1) {
      const std::int64_t middle = too_few + (found.count - too_few) / 2;
      const double needed = required(candidate, middle, accumulation);
      if (needed <= budget_)
        found = {middle, needed};
      else
        too_few = middle;
    }
    return found;
  }
  // The most accumulation with the fewest layers that let it fit; with less accumulation fewer may.
  constexpr void examine_by_layers(const plan_candidate& candidate) {
    const std::int64_t most = all_.most_layers(candidate.group);
    const fewest_layers all = fewest(candidate, candidate.allowed.high, most);
    if (all.count <= most) {
      const plan_candidate fitting = all_.recomputing(candidate, all.count);
      const std::int64_t many = all_.limits().most_accumulation(fitting);
      if (many == candidate.allowed.high)
        insert(fitting, many, all.needed);
      else if (many != 0)
        insert(fitting, many, required(fitting, many));
    }
    if (all.count > most && all.needed < infinity) {  // else no more are of interest
      plan_candidate whole = candidate;
      whole.group.layers = most;
      const double needed =
          candidate.allowed.count() == 1 ? all.needed : required(whole, candidate.allowed.low);
      if (needed > budget_) return note_too_large(whole, needed, budget_);
    }
    if (candidate.allowed.count() == 1) return;
    for (std::int64_t layers = candidate.group.layers; layers <= most && layers < all.count;
         ++layers) {
      const plan_candidate less = all_.recomputing(candidate, layers);
      if (value_of(less, less.allowed.high) > limit()) break;
      postpone(less);
    }
  }
  // Of what does not fit with the most accumulation, the most that fits, if it is still of
  // interest: when other plans have been found it seldom is.
  constexpr void examine_postponed() {
    for (int at = 0; at < postponed_count_; ++at) {
      plan_candidate& candidate = postponed_[at];
      const auto value = [&](std::int64_t many) { return value_of(candidate, many); };
      if (value(candidate.allowed.high) > limit()) continue;
      if (value(candidate.allowed.low) > limit())
        candidate.allowed.low =
            most_of(candidate.allowed, [&](std::int64_t many) { return value(many) > limit(); }) +
            candidate.allowed.unit;
      if (is_known_too_large(candidate)) continue;
      if (const double needed = required(candidate, candidate.allowed.low); needed > budget_) {
        if (candidate.group.layers == 0) note_too_large(candidate, needed, budget_);
        continue;
      }
      candidate.allowed.high = most_of(candidate.allowed, [&](std::int64_t many) {
        return required(candidate, many) <= budget_;
      });
      const std::int64_t accumulation = all_.limits().most_accumulation(candidate);
      if (accumulation == 0) continue;
      // Which a model that is asked about each plan was asked about more.
      if constexpr (!plan_tables<TimesOf>::has_times)
        candidate.step = {0,
                          times_of_(all_.setup_of(candidate.group), request_.on)
                              .step(batch_of(candidate, accumulation))
                              .value(),
                          {},
                          {}};
      insert(candidate, accumulation, required(candidate, accumulation));
    }
    postponed_count_ = 0;
  }
  // Memory rises with accumulation: the least, which meets the limits, and of as much memory the
  // most that does.
  constexpr void examine_memory(plan_candidate candidate) {
    const double needed = required(candidate, candidate.allowed.low);
    const double most = limit() < budget_ ? limit() : budget_;
    if (needed > most) return note_too_large(candidate, needed, most);
    candidate.allowed.high = most_of(
        candidate.allowed, [&](std::int64_t many) { return required(candidate, many) <= needed; });
    insert(candidate, all_.limits().most_accumulation(candidate), needed);
  }

  // Most recomputed layers need least; where these take too long, fewer may do.
  constexpr void examine_memory_by_layers(plan_candidate candidate) {
    const std::int64_t low = candidate.allowed.low;
    const std::int64_t high = candidate.allowed.high;
    const std::int64_t recomputed = all_.most_layers(candidate.group);
    for (std::int64_t layers = recomputed; layers > 0; --layers) {
      candidate = all_.recomputing(candidate, layers);
      candidate.allowed.low = low;
      candidate.allowed.high = high;
      double needed = required(candidate, low);
      const double most = limit() < budget_ ? limit() : budget_;
      if (needed > most) {
        if (layers == recomputed) note_too_large(candidate, needed, most);
        return;
      }
      candidate.allowed.low = all_.limits().least_accumulation(candidate);
      if (candidate.allowed.low == 0) continue;
      needed = required(candidate, candidate.allowed.low);
      const bool is_last = !all_.limits().are_there();
      if (is_last) candidate = all_.recomputing(candidate, fewest_layers_within(candidate, needed));
      candidate.allowed.high = most_of(candidate.allowed, [&](std::int64_t many) {
        return required(candidate, many) <= needed;
      });
      if (needed <= most) insert(candidate, all_.limits().most_accumulation(candidate), needed);
      if (is_last) return;
    }
  }
  // The fastest of those that need no more with the least accumulation. Precondition: the candidate
  // needs so much.
  constexpr std::int64_t fewest_layers_within(const plan_candidate& candidate, double needed) {
    std::int64_t fewest = candidate.group.layers;
    std::int64_t too_few = 0;
    while (fewest - too_few > 1) {
      const std::int64_t middle = too_few + (fewest - too_few) / 2;
      (required(candidate, middle, candidate.allowed.low) <= needed ? fewest : too_few) = middle;
    }
    return fewest;
  }

  constexpr void insert(const plan_candidate& candidate, std::int64_t accumulation, double needed) {
    const double per_sample = candidate.per_sample(accumulation);
    const rank place{
        request_.goal == plan_goal::least_memory ? needed : value_of(candidate, accumulation),
        per_sample,
        needed,
        candidate.group};
    int at = answer_.count;
    for (int there = 0; there < answer_.count; ++there)
      if (ranks_[there].group.same_choice(candidate.group)) at = there;
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
    answer_.plans[at] = plan_of(candidate, accumulation);
    answer_.plans[at].required = bytes::from_value(needed);
  }
  constexpr training_plan plan_of(const plan_candidate& candidate, std::int64_t accumulation) {
    const training_setup setup = all_.setup_of(candidate.group);
    return {.setup = static_cast<std::size_t>(candidate.group.setup),
            .gpus = candidate.group.gpus,
            .layout = setup.parallelism,
            .recompute = setup.recompute,
            .recompute_layers = setup.recompute_layers,
            .batch = batch_of(candidate, accumulation),
            .step = duration::from_value(candidate.step(accumulation))};
  }

  // What keeps every plan out, and how far off the nearest is.
  constexpr failure why_none(const plan_counts& counts) const {
    const named_fact devices{fact::devices, all_.domain().most_gpus()};
    if (!all_.tables().has_layouts()) {
      if (failed(all_.tables().flaw())) return flaw_of_layouts(all_.tables().flaw());
      if (const failure why = why_no_family(); failed(why)) return why;
      return failure(errc::no_such_layout, devices);
    }
    const std::int64_t plans = counts.evaluated + counts.excluded;
    if (plans == 0 && request_.space.data_parallel)
      if (const failure why = why_no_replicas(devices); failed(why)) return why;
    if (plans == 0)
      return failure(errc::no_such_batch,
                     named_fact{fact::effective_batch_low, request_.effective_batch.low()},
                     named_fact{fact::effective_batch_high, request_.effective_batch.high()},
                     devices);
    if (counts.endless == plans) return failure(errc::not_finite).about(fact::step_time);
    if (counts.refused + counts.endless == plans) return why_too_much(devices);
    plan_request free = request_;
    free.finish_in = {};
    free.at_most = {};
    free.goal = plan_goal::least_memory;
    free.evaluates_all = false;
    planner least(free, bytes::from_value(infinity), memory_of_, times_of_);
    const auto found =
        least.run(1, std::numeric_limits<double>::max(), most_told_without_plan<MemoryOf>);
    if (!found) return found.why();
    if (found->count == 0)
      return failed(least.refusal_) ? least.refusal_
                                    : failure(errc::not_finite).about(fact::required);
    const training_plan& smallest = found->best();
    if (smallest.required <= bytes::from_value(budget_)) return why_too_much(devices);
    return exceeds_gpu_memory(
        smallest.batch, smallest.required, bytes::from_value(budget_), errc::no_plan_in_memory);
  }
  // Chunks want stages: where code has none of these, and they were not asked for, it is the chunks
  // that it does not take.
  constexpr failure flaw_of_layouts(const failure& first) const {
    const plan_space& space = request_.space;
    const bool asks_chunks = space.virtual_pipeline && space.virtual_pipeline->low() > 1 &&
                             (!space.pipeline_parallel || space.pipeline_parallel->low() == 1);
    if (!asks_chunks || first.at_fault() != fact::pipeline_parallel || first[fact::takes] != 1)
      return first;
    return without_code({{fact::virtual_pipeline, space.virtual_pipeline->low()},
                         {fact::layers, request_.setup.framework.layers().name},
                         {fact::takes, 1}});
  }
  // Of degrees that no family has: tensor ranks that are not linked, and parts of experts that
  // divide those of no setup.
  constexpr failure why_no_family() const {
    const plan_space& space = request_.space;
    const std::int64_t linked = linked_gpus(request_.on);
    if (request_.tensor_within_node && space.tensor_parallel &&
        space.tensor_parallel->low() > linked &&
        space.tensor_parallel->low() <= total_gpus(request_.on))
      return without_code({{fact::tensor_parallel, space.tensor_parallel->low()},
                           {request_.on.gpus_per_link_domain > request_.on.gpus_per_node
                                ? fact::gpus_per_link_domain
                                : fact::gpus_per_node,
                            linked},
                           {fact::takes, linked}});
    const expert_mixture& moe = request_.setup.model.moe;
    if (moe.num_experts == 0 || !space.expert_parallel) return {};
    for (std::int64_t e = space.expert_parallel->low(); e <= space.expert_parallel->high(); ++e)
      if (moe.num_experts % e == 0) return {};
    return flaw_if_indivisible({fact::expert_parallel, space.expert_parallel->low()},
                               {{fact::num_experts, moe.num_experts}});
  }
  // Of a number of replicas that leaves each more or fewer GPUs than any layout has, whatever the
  // batch.
  constexpr failure why_no_replicas(const named_fact& devices) const {
    plan_request free = request_;
    free.goal = plan_goal::least_memory;  // without bounds
    free.effective_batch = {1, most_samples_per_gpu};
    free.space.accumulation = {};
    const auto has_plans = [&] {
      const planner any(free, bytes::from_value(infinity), memory_of_, times_of_);
      return any.tables().plans() != 0;
    };
    if (has_plans()) return {};
    const auto takes = [&](std::int64_t replicas) {
      free.space.data_parallel = range<std::int64_t>(replicas);
      return devices.value % replicas == 0 && has_plans();
    };
    const std::int64_t asked = request_.space.data_parallel->low();
    std::int64_t taken = asked;
    while (taken <= devices.value && !takes(taken)) ++taken;
    if (taken > devices.value)
      for (taken = asked < devices.value ? asked : devices.value; taken > 0 && !takes(taken);)
        --taken;
    if (taken == 0) return {};
    return without_code({{fact::data_parallel, asked},
                         devices,
                         {fact::layers, request_.setup.framework.layers().name},
                         {fact::takes, taken}});
  }
  // By the plan whose run ends first, and by the cheapest that ends in time.
  constexpr failure why_too_much(const named_fact& devices) const {
    if (request_.finish_in) {
      const double time = least_of_run(plan_goal::least_time, {});
      if (time > request_.finish_in->value() || !request_.at_most)
        return failure(errc::no_plan_in_time,
                       devices,
                       named_fact{fact::minutes, as_fact(time / 60)},
                       named_fact{fact::at_most_minutes,
                                  static_cast<std::int64_t>(request_.finish_in->value() / 60)});
    }
    const money least = money::from_value(least_of_run(plan_goal::least_money, request_.finish_in));
    return failure(errc::no_plan_for_money,
                   devices,
                   named_fact{fact::cents, as_fact(in(least, 1_usd) * 100)},
                   named_fact{fact::at_most_cents,
                              static_cast<std::int64_t>(in(*request_.at_most, 1_usd) * 100)});
  }
  // The least time, or money, that a run takes in whole steps: within the budget, but where no plan
  // is within it, in any memory.
  constexpr double least_of_run(plan_goal goal, const known<duration>& finish_in) const {
    plan_request free = request_;
    free.goal = goal;
    free.finish_in = finish_in;
    free.at_most = {};
    free.evaluates_all = false;
    const auto shortest = [&](bool within_budget) {
      return shortest_run(
          free, [&](const plan_request& asked) { return best_run(asked, within_budget); });
    };
    known<training_plan> best = shortest(true);
    if (!best) best = shortest(false);
    const planned_run run = run_of(free, *best);
    return goal == plan_goal::least_money ? run.cost->value() : run.time.value();
  }
  // The best plan, or none; where memory is no matter, it is not asked for.
  constexpr known<training_plan> best_run(const plan_request& asked, bool within_budget) const {
    planner search(asked, bytes::from_value(budget_), memory_of_, times_of_);
    if (!within_budget) {
      const candidate_list found = search.all_.lowest(1, nullptr, infinity, as_it_is).candidates;
      if (found.size() == 0) return {};
      return search.plan_of(found[0], found[0].allowed.high);
    }
    // Beneath a ceiling a search does not look for reasons.
    const auto found = search.run(1, std::numeric_limits<double>::max());
    if (!found || found->count == 0) return {};
    return found->best();
  }
};

// The memory of setups on devices of a kind: what `memory_of` has for it, or itself.
template <class MemoryOf>
constexpr auto memory_on(const MemoryOf& memory_of, const gpu_spec& gpu) {
  if constexpr (requires { memory_of.on(gpu); }) {
    return memory_of.on(gpu);
  } else {
    return memory_of;
  }
}

// The best plans of a request on one of its clusters.
template <memory_of_setups MemoryOf, times_of_setups TimesOf>
struct cluster_search {
  const plan_request& request;
  std::size_t cluster;
  memory_budget budget;
  const MemoryOf& memory_of;  // on that cluster
  const TimesOf& times_of;
  int plans;
  double ceiling;          // of what plans are of interest there
  std::int64_t most_told;  // by the memory model

  // Adds those of `here`, which is the request there or a part of it, to what was found: where it
  // has more layouts than a planner has room for, half of them at a time. Fails where there is no
  // half.
  constexpr failure add(const plan_request& here, gathered_plans& found) const {
    bool by_stages = false;
    if (add_whole(here, found, by_stages)) return {};
    plan_request low = here;
    plan_request high = here;
    if (!halve(low, high, by_stages))
      return failure(errc::out_of_bounds, named_fact{fact::at_most, 512}).about(fact::degrees);
    if (const failure why = add(low, found); failed(why)) return why;
    return add(high, found);
  }
  // Tells else whether it is stages that are too many. Apart, for the room that a planner takes.
  constexpr bool add_whole(const plan_request& here, gathered_plans& found, bool& by_stages) const {
    planner search(here, budget, memory_of, times_of);
    by_stages = search.tables().has_too_many_layouts();
    if (search.tables().has_too_many()) return false;
    const double most = smaller_of(ceiling, found.ceiling(request, here.on, plans));
    found.add(request, search.run(plans, most, most_told), cluster, plans);
    return true;
  }
};

constexpr failure flaw_of_count(int plans) {
  if (plans >= 1 && plans <= plan_answer::most_plans) return {};
  return failure(errc::out_of_bounds,
                 named_fact{fact::plans, plans},
                 named_fact{fact::at_least, 1},
                 named_fact{fact::at_most, plan_answer::most_plans});
}

// Where something is known that the goal counts no more than `at_most` of, plans that it counts
// more of are of no interest; nor is then why there is none.
template <memory_of_setups MemoryOf, times_of_setups TimesOf = roofline_times>
constexpr result<plan_answer> best_plans(const plan_request& request,
                                         const known<memory_budget>& budget,
                                         const MemoryOf& memory_of,
                                         int plans,
                                         const TimesOf& times_of = {},
                                         double at_most = infinity,
                                         std::int64_t most_told = no_end_of_them) {
  if (const auto valid = validate(request); !valid) return valid.why();
  if constexpr (std::same_as<TimesOf, roofline_times>)
    if (const auto valid = validate(times_of, request.setup, request.on); !valid)
      return valid.why();
  if (const failure flaw = flaw_of_count(plans); failed(flaw)) return flaw;
  gathered_plans found;
  for (std::size_t at = 0; at <= request.others.size(); ++at) {
    const plan_request here = request_on(request, at);
    const memory_budget most = budget ? *budget : memory_budget(here.on.gpu);
    if (const failure flaw = flaw_of_budget(most); failed(flaw)) return flaw;
    const auto there = memory_on(memory_of, here.on.gpu);
    const cluster_search<std::remove_const_t<decltype(there)>, TimesOf> search{
        request,
        at,
        most,
        there,
        times_of,
        plans,
        ceiling_on(request, here.on, at_most),
        most_told};
    if (const failure why = search.add(here, found); failed(why)) return why;
  }
  return found.answer();
}

}  // namespace detail

/// The best plans of the request whose memory is within the budget, at most `plans` of them. Exact:
/// what is not worked out cannot be better, since no plan is faster than its layers on GPUs that
/// never wait, a sample takes less time the more are accumulated, and memory rises with micro-batch
/// and accumulation. Times are those of `roofline_time`, of `calibrated_time` with the factors of
/// `times_of`, or of another time model, which is asked about each plan that `at_least` does not
/// refuse; plans without an end to it are none. Where the space has `recompute_layers`, memory
/// falls and time rises as more layers are recomputed: of each layout that plan is one whose number
/// is the best, and plans are counted without it. Interleaved schedules take accumulations that the
/// stages divide. Of plans that the goal counts the same, the faster comes first, then the one of
/// less memory, then they are in order of clusters, GPUs and degrees. Errors: those of the request;
/// of the cluster that is nearest to a plan, where none has one: `no_such_layout`, or why the first
/// one is none; `no_such_batch`; `no_plan_in_time` and `no_plan_for_money` with what the best one
/// within the budget would take, or where none is within it, the best one of all;
/// `no_plan_in_memory` of the plan that needs least, or where there is `at_least`, of one that
/// needs at most 5 % more; what the memory model refuses all setups for; `not_finite` where all
/// times are without an end; `out_of_bounds` of more than 512 combinations of setups, sequence
/// parallelism and recomputation.
template <memory_of_setups MemoryOf, times_of_setups TimesOf = roofline_times>
[[nodiscard]] constexpr result<plan_answer> plan_training(const plan_request& request,
                                                          memory_budget budget,
                                                          const MemoryOf& memory_of,
                                                          int plans = 2,
                                                          const TimesOf& times_of = {}) {
  return detail::best_plans(request, budget, memory_of, plans, times_of);
}
/// Likewise, in the memory of each cluster's GPU.
template <memory_of_setups MemoryOf, times_of_setups TimesOf = roofline_times>
[[nodiscard]] constexpr result<plan_answer> plan_training(const plan_request& request,
                                                          const MemoryOf& memory_of,
                                                          int plans = 2,
                                                          const TimesOf& times_of = {}) {
  return detail::best_plans(request, {}, memory_of, plans, times_of);
}

}  // namespace gpuplan

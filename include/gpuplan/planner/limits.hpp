#pragma once

// What stands in the way of a better plan, or of any: each limit of a request lifted alone.

#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/answer.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>

namespace gpuplan {

/// What a request keeps its plans from.
enum class plan_limit {
  memory,              // a larger budget
  finish_in,           // a longer run
  at_most,             // more money
  gpus,                // more than the cluster has, or `space.gpus` allows
  larger_batch,        // than `effective_batch` allows, up to twice; without a plan up to 16 times
  smaller_batch,       // likewise, down to a half, or to 1
  tensor_within_node,  // tensor parallelism across nodes
  recompute,           // other modes than the setup's, of other numbers of layers
  degrees,             // others than in the space; all that there are, as of ZeRO's stages,
                       // replicas and accumulations
  micro_batch,         // above `space.micro_batch`, up to 16 times and 2^20
  layers               // one to four more, which more stages may divide
};
inline constexpr int plan_limit_count = static_cast<int>(plan_limit::layers) + 1;

/// What is printed of a limit: "memory", "larger batch".
[[nodiscard]] constexpr const char* text(plan_limit limit) {
  constexpr const char* names[plan_limit_count] = {"memory",
                                                   "time",
                                                   "money",
                                                   "GPUs",
                                                   "larger batch",
                                                   "smaller batch",
                                                   "tensor parallelism in a node",
                                                   "recomputation",
                                                   "degrees",
                                                   "larger micro-batch",
                                                   "layers"};
  return names[static_cast<int>(limit)];
}

/// A request without one of its limits, or without two. Where the request has a plan, `plan` is the
/// best there would be; where it has none, the one that exceeds the limit least: it needs least
/// memory, its run takes least time or costs least, it has fewest GPUs, or the nearest batch.
struct lifted_limit {
  plan_limit limit{};
  known<plan_limit> with{};  // the other one, where both must be lifted: neither alone will do
  training_plan plan{};
  double gain = 0;          // the share of what the goal counts that it saves; 0 without a plan
  std::int64_t layers = 0;  // of the model that it trains
};

/// The limits that bind, which is to say that lifting one alone gives a better plan, or any. Those
/// that gain most come first; without a plan they are in `plan_limit`'s order, and behind them are
/// those of memory, time, money and GPUs that only together let a plan be.
struct plan_limits {
  static constexpr int most_pairs = 6;

  known<training_plan> best{};  // with all limits; absent: the request has no plan
  lifted_limit lifted[plan_limit_count + most_pairs]{};
  int count = 0;

  /// The one of this limit, or nullptr where it does not bind by itself.
  [[nodiscard]] constexpr const lifted_limit* find(plan_limit limit) const {
    for (const lifted_limit& each : *this)
      if (each.limit == limit && !each.with) return &each;
    return nullptr;
  }
  /// The one of both together, `limit` before `with` in their order, or nullptr.
  [[nodiscard]] constexpr const lifted_limit* find(plan_limit limit, plan_limit with) const {
    for (const lifted_limit& each : *this)
      if (each.limit == limit && each.with && *each.with == with) return &each;
    return nullptr;
  }
  [[nodiscard]] constexpr const lifted_limit* begin() const { return lifted; }
  [[nodiscard]] constexpr const lifted_limit* end() const { return lifted + count; }
};

namespace detail {

template <memory_of_setups MemoryOf, times_of_setups TimesOf>
class limit_finder {
 public:
  constexpr limit_finder(const plan_request& request,
                         const known<memory_budget>& budget,
                         const MemoryOf& memory_of,
                         const TimesOf& times_of)
      : request_(request), budget_(budget), memory_of_(memory_of), times_of_(times_of) {}

  constexpr result<plan_limits> find() {
    if (const auto valid = validate(request_); !valid) return valid.why();
    const auto best = best_plans(request_, budget_, memory_of_, 1, times_of_, more_than_any);
    if (best) found_.best = best->best();
    for (const plan_limit limit : {plan_limit::memory, plan_limit::finish_in, plan_limit::at_most})
      lift(limit, {});
    if (!best) lift(plan_limit::gpus, {});
    lift_batch();
    if (request_.tensor_within_node)
      look(plan_limit::tensor_within_node,
           [](plan_request& free) { free.tensor_within_node = false; });
    if (!request_.space.recompute || !request_.space.recompute_layers)
      look(plan_limit::recompute,
           [](plan_request& free) { free.space.recompute = free.space.recompute_layers = true; });
    look(plan_limit::degrees, [](plan_request& free) {
      const range<std::int64_t> any{1, most_of_a_degree};
      plan_space& space = free.space;
      space.tensor_parallel = space.pipeline_parallel = space.virtual_pipeline = any;
      space.context_parallel = space.expert_parallel = any;
      space.zero_stage = range<std::int64_t>{0, 3};
      space.data_parallel = space.accumulation = {};
    });
    const std::int64_t most = request_.space.micro_batch.high();
    const std::int64_t more = smaller(most_times * most, most_of_a_degree);
    if (most < request_.effective_batch.high() && most < more)
      look(plan_limit::micro_batch, [more](plan_request& free) {
        free.space.micro_batch = {free.space.micro_batch.low(), more};
      });
    if (best)
      lift_layers();
    else
      lift_pairs();
    return found_;
  }

 private:
  static constexpr std::int64_t most_times = 16;
  static constexpr double more_than_any = 0x1p1000;

  static constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

  const plan_request& request_;
  const known<memory_budget>& budget_;
  const MemoryOf& memory_of_;
  const TimesOf& times_of_;
  plan_limits found_{};

  // More than any device has.
  static constexpr bytes boundless() { return bytes::from_value(0x1p62); }

  constexpr bool has_plan() const { return static_cast<bool>(found_.best); }
  // The best plan, if it is better than the request's.
  constexpr result<plan_answer> plan(const plan_request& asked,
                                     const known<memory_budget>& budget) const {
    // Beneath a ceiling a search does not look for reasons.
    const double most = has_plan() ? goal_value(request_, *found_.best) : more_than_any;
    return best_plans(asked,
                      budget,
                      memory_of_,
                      1,
                      times_of_,
                      most,
                      has_plan() ? no_end_of_them : most_told_without_plan<MemoryOf>);
  }
  constexpr result<plan_answer> plan(const plan_request& asked) const {
    return plan(asked, budget_);
  }

  constexpr void add(plan_limit limit,
                     const training_plan& plan,
                     std::int64_t layers,
                     const known<plan_limit>& with = {}) {
    lifted_limit more{.limit = limit, .with = with, .plan = plan, .layers = layers};
    if (has_plan()) {
      // Bounds and steps are sums whose rounding differs.
      more.gain = 1 - goal_value(request_, plan) / goal_value(request_, *found_.best);
      if (!(more.gain > 1e-9)) return;
    }
    int at = found_.count++;
    for (; at > 0 && found_.lifted[at - 1].gain < more.gain; --at)
      found_.lifted[at] = found_.lifted[at - 1];
    found_.lifted[at] = more;
  }
  constexpr void add(plan_limit limit, const result<plan_answer>& found) {
    if (found) add(limit, found->best(), request_.setup.model.num_hidden_layers);
  }
  template <class Change>
  constexpr void look(plan_limit limit, const Change& change) {
    plan_request free = request_;
    change(free);
    add(limit, plan(free));
  }

  // A request and what it may take.
  struct question {
    plan_request request{};
    known<memory_budget> budget{};
  };
  // Whether the request has this limit, of memory, time or money, which is then lifted. Without a
  // plan it is to be exceeded least.
  constexpr bool is_lifted(plan_limit limit, question& asked) const {
    plan_goal least = plan_goal::least_time;
    if (limit == plan_limit::memory) {
      asked.budget = memory_budget(boundless());
      least = plan_goal::least_memory;
      if (has_plan() && request_.goal == plan_goal::least_memory) return false;
    } else if (limit == plan_limit::finish_in) {
      if (!asked.request.finish_in) return false;
      asked.request.finish_in = {};
    } else {
      if (!asked.request.at_most) return false;
      asked.request.at_most = {};
      least = plan_goal::least_money;
    }
    if (!has_plan()) asked.request.goal = least;
    return true;
  }
  // This limit lifted, and the other one where there is one.
  constexpr void lift(plan_limit limit, const known<plan_limit>& with) {
    question free{request_, budget_};
    const bool adds_gpus = limit == plan_limit::gpus || (with && *with == plan_limit::gpus);
    if (with && *with != plan_limit::gpus && !is_lifted(*with, free)) return;
    if (limit != plan_limit::gpus && !is_lifted(limit, free)) return;
    const auto best_of = [&](const plan_request& asked) {
      known<training_plan> best;
      if (const auto found = plan(asked, free.budget)) best = found->best();
      return best;
    };
    const bool counts_steps =
        !has_plan() && (limit == plan_limit::finish_in || limit == plan_limit::at_most);
    known<training_plan> best;
    if (adds_gpus)
      best = with_fewest_gpus(free);
    else if (counts_steps)
      best = shortest_run(free.request, best_of);
    else
      best = best_of(free.request);
    if (best) add(limit, *best, request_.setup.model.num_hidden_layers, with);
  }
  constexpr void lift_pairs() {
    const plan_limit limits[] = {
        plan_limit::memory, plan_limit::finish_in, plan_limit::at_most, plan_limit::gpus};
    for (const plan_limit& with : limits)
      for (const plan_limit& limit : limits) {
        if (&limit == &with) break;
        if (!found_.find(limit) && !found_.find(with)) lift(limit, with);
      }
  }

  // The best plan of `plans_of(from, to)` at the least `to` in (low, most] where there is any: it
  // is asked for all from behind those that have none.
  template <class PlansOf>
  constexpr result<plan_answer> nearest(std::int64_t low,
                                        std::int64_t most,
                                        const PlansOf& plans_of) const {
    const failure none(errc::no_runs);
    result<plan_answer> best = none;
    std::int64_t high = low;
    for (std::int64_t ahead = 1; !best; ahead *= 2) {
      if (high >= most) return none;
      low = high;
      high = most - low > ahead ? low + ahead : most;
      best = plans_of(low + 1, high);
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto found = plans_of(low + 1, middle);
      if (found) {
        best = found;
        high = middle;
      } else {
        low = middle;
      }
    }
    return best;
  }

  constexpr known<training_plan> with_fewest_gpus(const question& asked) const {
    known<training_plan> fewest;
    for (std::size_t at = 0; at <= request_.others.size(); ++at) {
      const plan_request here = request_on(asked.request, at);
      const std::int64_t all = total_gpus(here.on);
      const std::int64_t now = here.space.gpus ? smaller(here.space.gpus->high(), all) : all;
      const std::int64_t in_node = here.on.gpus_per_node;
      const auto on_any = [&](std::int64_t from, std::int64_t to) {
        plan_request more = here;
        more.on.nodes = ceil_div(to, in_node);
        more.space.gpus = range<std::int64_t>{from, to};
        return plan(more, asked.budget);
      };
      // Of a node any number, then whole nodes.
      result<plan_answer> found = failure(errc::no_runs);
      if (now < in_node) found = nearest(now, in_node, on_any);
      if (!found && here.on.between_nodes)
        found = nearest(now < in_node ? 1 : now / in_node,
                        smaller(ceil_div(most_times * now, in_node), most_of_a_degree / in_node),
                        [&](std::int64_t from, std::int64_t to) {
                          return on_any((from - 1) * in_node + 1, to * in_node);
                        });
      if (!found || (fewest && fewest->gpus <= found->best().gpus)) continue;
      training_plan plan = found->best();
      plan.cluster = at;
      fewest = plan;
    }
    return fewest;
  }

  constexpr void lift_batch() {
    const std::int64_t low = request_.effective_batch.low();
    const std::int64_t high = request_.effective_batch.high();
    const auto within = [&](std::int64_t from, std::int64_t to) {
      plan_request other = request_;
      other.effective_batch = {from, to};
      return plan(other);
    };
    if (has_plan()) {
      add(plan_limit::larger_batch, within(low, 2 * high));
      if (low > 1) add(plan_limit::smaller_batch, within(low / 2, high));
      return;
    }
    add(plan_limit::larger_batch, nearest(high, most_times * high, within));
    add(plan_limit::smaller_batch,
        nearest(0, low - 1, [&](std::int64_t fewer, std::int64_t fewest) {
          return within(low - fewest, low - fewer);
        }));
  }

  // A model of more layers that takes less: its layers can be divided so as the others cannot.
  constexpr void lift_layers() {
    const transformer& model = request_.setup.model;
    if (model.num_decoder_layers != 0 || request_.setup.composite != nullptr) return;
    known<training_plan> best;
    std::int64_t layers = 0;
    for (std::int64_t more = 1; more <= 4; ++more) {
      plan_request other = request_;
      other.setup.model.num_hidden_layers += more;
      const auto found = plan(other);
      if (!found) continue;
      if (best && !(goal_value(request_, found->best()) < goal_value(request_, *best))) continue;
      best = found->best();
      layers = other.setup.model.num_hidden_layers;
    }
    if (best) add(plan_limit::layers, *best, layers);
  }
};

}  // namespace detail

/// The limits of a request that bind, each found by planning without it. Where the request has no
/// plan, the fewest GPUs, up to 16 times as many and 2^20, and the nearest batches are exact too:
/// more of them are looked at than lie before. The least memory is exact, or where the memory model
/// has `at_least`, at most 5 % too much. Two limits at once are looked at of memory, time, money
/// and GPUs. A search that is refused, as of too many degrees, binds nothing. Takes as long as ten
/// to fifty calls of `plan_training`: more than compilers allow one constant expression. Times are
/// those of `plan_training`. Errors: those of the request itself.
template <memory_of_setups MemoryOf, times_of_setups TimesOf = roofline_times>
[[nodiscard]] constexpr result<plan_limits> limits_of(const plan_request& request,
                                                      memory_budget budget,
                                                      const MemoryOf& memory_of,
                                                      const TimesOf& times_of = {}) {
  return detail::limit_finder<MemoryOf, TimesOf>(request, budget, memory_of, times_of).find();
}
/// Likewise, in the memory of each cluster's GPU.
template <memory_of_setups MemoryOf, times_of_setups TimesOf = roofline_times>
[[nodiscard]] constexpr result<plan_limits> limits_of(const plan_request& request,
                                                      const MemoryOf& memory_of,
                                                      const TimesOf& times_of = {}) {
  return detail::limit_finder<MemoryOf, TimesOf>(request, {}, memory_of, times_of).find();
}

}  // namespace gpuplan

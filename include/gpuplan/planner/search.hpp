#pragma once

// The planner's inner loop, in plain numbers: the time of every candidate that no bound leaves out,
// and the lowest of them. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/planner/candidates.hpp>
#include <gpuplan/planner/domain.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/planner/tables.hpp>
#include <gpuplan/planner/times.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <limits>

namespace gpuplan::detail {

// Whether a plan of a candidate meets the limits: then it ends with the most accumulation that
// does, or begins with the least where memory is the goal. The time of a sample falls with
// accumulation, so that of the most is the least of all.
constexpr bool keep_within_limits(const plan_domain& domain,
                                  const run_limits& limits,
                                  plan_candidate& candidate) {
  const bool from_least = domain.request().goal == plan_goal::least_memory;
  std::int64_t best = 0;
  if (limits.may_be_met_by(candidate))
    best = from_least ? limits.least_accumulation(candidate) : limits.most_accumulation(candidate);
  if (best == 0) return false;
  (from_least ? candidate.allowed.low : candidate.allowed.high) = best;
  candidate.bound = from_least ? 0 : domain.value_of(candidate.group, candidate.per_sample(best));
  return true;
}
// Likewise, of all plans of a candidate, which are counted.
constexpr bool settle(const plan_domain& domain,
                      const run_limits& limits,
                      plan_candidate& candidate,
                      plan_counts& counts) {
  const accumulations all = candidate.allowed;
  if (domain.request().evaluates_all) {
    plan_candidate settled = candidate;  // the same but for rounding
    settled.step.settle();
    double longest = 0;
    for (std::int64_t many = all.low; many <= all.high; many += all.unit) {
      const double here = settled.per_sample(many);
      if (here > longest) longest = here;
    }
    counts.evaluated += longest < infinity ? all.count() : 0;
  } else {
    counts.evaluated += 1;
  }
  if (!(candidate.step(all.low) < infinity)) {
    counts.endless += all.count();
    return false;
  }
  if (keep_within_limits(domain, limits, candidate)) return true;
  counts.refused += all.count();
  return false;
}

// The plans of a request. One pass over its families finds the lowest candidates that come behind a
// given one.
template <times_of_setups TimesOf>
class plan_search {
 public:
  constexpr plan_search(const plan_request& request, const TimesOf& times_of)
      : domain_(request), times_of_(times_of), limits_(request), tables_(domain_, times_of) {}

  constexpr const plan_domain& domain() const { return domain_; }
  constexpr const run_limits& limits() const { return limits_; }
  constexpr const plan_tables<TimesOf>& tables() const { return tables_; }

  // The setup with a group's layout.
  constexpr training_setup setup_of(const plan_group& group) const {
    training_setup setup = domain_.setup_of(family_of(group));
    const parallelism& as_set = domain_.setup_at(group.setup).parallelism;
    split_choices(setup, as_set, group.pipeline)[group.split].set(setup.parallelism.split);
    set_stages(setup.parallelism,
               {.pipeline = group.pipeline, .chunks = group.chunks, .zero = group.zero});
    if (group.layers != 0) set_recomputed(setup, group.layers, most_to_recompute(setup));
    return setup;
  }

  // Of a group that chooses how many layers it recomputes: the most, and a candidate with so many.
  constexpr std::int64_t most_layers(const plan_group& group) const {
    return most_to_recompute(setup_of(group));
  }
  constexpr plan_candidate recomputing(plan_candidate candidate, std::int64_t layers) const {
    plan_group& group = candidate.group;
    if (layers == group.layers) return candidate;
    group.layers = layers;
    const training_setup setup = setup_of(group);
    if constexpr (has_times) {
      family_times times(domain_.request(), times_of_, domain_.setup_of(family_of(group)));
      times.tabulate(group.micro_batch);
      times.set_split(stated_split::of(setup.parallelism.split));
      times.set_recomputed(setup.recompute_layers);
      candidate.step = times
                           .line({group.pipeline, group.chunks, group.zero},
                                 group.data_parallel(),
                                 parameters(setup.trained_model(), setup.parallelism, {}))
                           .curve();
    } else {
      candidate.step = step_of_most(setup, candidate);
    }
    return candidate;
  }

  struct lowest_candidates {
    candidate_list candidates;
    plan_counts counts{};
  };
  // The lowest candidates, `most` of them: those behind another one, where there is one, and not
  // above `limit`. `refine(candidate, setup, parameters of its first rank)` may raise a candidate's
  // bound, to infinity where it has no plan.
  template <class Refine>
  constexpr lowest_candidates lowest(int most,
                                     const plan_candidate* behind,
                                     double limit,
                                     const Refine& refine) const {
    lowest_candidates found{.candidates = candidate_list(most)};
    family_layouts layouts;
    for (const plan_family& family : tables_) {
      if (is_excluded(family.bound, found, limit)) break;
      layouts.find(domain_, family);
      training_setup setup = domain_.setup_of(family);
      typename plan_tables<TimesOf>::times times(domain_.request(), times_of_, setup);
      const bool chooses_layers = domain_.chooses_layers(family);
      if (chooses_layers) setup.recompute_layers = 0;
      family_pass<Refine> pass{.search = *this,
                               .domain = domain_,
                               .family = family,
                               .layouts = layouts,
                               .times = times,
                               .setup = setup,
                               .chooses_layers = chooses_layers,
                               .rules_out = domain_.first_gpus() == domain_.most_gpus() &&
                                            !domain_.request().evaluates_all,
                               .behind = behind,
                               .limit = limit,
                               .refine = refine,
                               .found = found};
      const micro_batch_bound* bounds = tables_.bounds_of(family);
      if (bounds == nullptr) {
        for (std::int64_t b = domain_.least_micro_batch(); b <= domain_.largest_micro_batch(); ++b)
          pass.visit(b);
        continue;
      }
      for (int at = 0; at < family.bounds; ++at) {
        if (is_excluded(bounds[at].bound, found, limit)) break;
        pass.visit(bounds[at].micro_batch);
      }
    }
    found.counts.excluded = tables_.plans() - found.counts.evaluated;
    return found;
  }

 private:
  plan_domain domain_;
  const TimesOf& times_of_;
  run_limits limits_;
  plan_tables<TimesOf> tables_;

  static constexpr bool has_times = plan_tables<TimesOf>::has_times;

  // By a model that is asked: exactly of the most accumulation, of fewer no less of each.
  constexpr step_curve step_of_most(const training_setup& setup,
                                    const plan_candidate& candidate) const {
    const plan_group& group = candidate.group;
    const std::int64_t many = candidate.allowed.high;
    const double step = times_of_(setup, domain_.request().on)
                            .step(batch_plan{group.micro_batch, group.data_parallel(), many})
                            .value();
    if (candidate.allowed.count() == 1) return {0, step, {}, {}};
    const double each = step / static_cast<double>(many);
    return {each, step - each * static_cast<double>(many), {}, {}};
  }

  static constexpr plan_family family_of(const plan_group& group) {
    return {.tensor = group.tensor,
            .context = group.context,
            .expert = group.expert,
            .recompute = group.recompute,
            .sequence = group.sequence,
            .setup = group.setup};
  }
  constexpr bool is_excluded(double bound, const lowest_candidates& found, double limit) const {
    if (!tables_.prunes()) return false;
    const double most = found.candidates.limit();
    return bound > (most < limit ? most : limit);
  }

  // One family's plans, micro-batch by micro-batch.
  template <class Refine>
  struct family_pass {
    const plan_search& search;
    const plan_domain& domain;
    const plan_family& family;
    const family_layouts& layouts;
    typename plan_tables<TimesOf>::times& times;
    training_setup setup;  // of the layout that is visited
    bool chooses_layers;   // that are recomputed: all of them in `setup`
    // Of one number of GPUs, so that what is hopeless is so for all plans of a layout.
    bool rules_out;
    const plan_candidate* behind;
    double limit;
    const Refine& refine;
    lowest_candidates& found;
    // Micro-batches of a layout from here on are refused; 0: none was tried.
    std::int64_t refused_from[family_layouts::most_layouts]{};

    constexpr void visit(std::int64_t b) {
      for (const pipeline_layouts& pipeline : layouts)
        if (!is_refused(pipeline, b)) visit(pipeline, b);
    }
    constexpr bool is_excluded(double bound) const {
      return search.is_excluded(bound, found, limit);
    }
    constexpr void visit(const pipeline_layouts& pipeline, std::int64_t b) {
      double busiest = 0;
      pipeline.split.set(setup.parallelism.split);
      if constexpr (has_times) times.set_split(pipeline.split);
      for_each_size(
          domain, setup, pipeline, b, [&](std::int64_t many, const allowed_batches& batches) {
            if constexpr (has_times) {
              times.tabulate(b);
              if (is_excluded(times.bound(domain.request().goal, many))) return;
              if (busiest == 0) busiest = times.of_busiest_stage(pipeline);
            }
            visit(pipeline, many, batches, b, busiest);
          });
    }
    // The layouts of a pipeline on so many GPUs.
    constexpr void visit(const pipeline_layouts& pipeline,
                         std::int64_t many,
                         const allowed_batches& batches,
                         std::int64_t b,
                         double busiest) {
      plan_candidate here{.group = group_of(pipeline, many, b)};
      if (chooses_layers) here.group.layers = 1;
      const double least = busiest / static_cast<double>(b * here.group.data_parallel());
      for (int at = pipeline.first; at < pipeline.first + pipeline.count; ++at) {
        const stage_layout& layout = layouts[at];
        here.allowed = batches.with(layout);
        if (here.allowed.count() == 0 || (refused_from[at] != 0 && b >= refused_from[at])) continue;
        if (is_excluded(domain.value_of(here.group, least * rounding_of_bounds))) break;
        set_stages(setup.parallelism, layout);
        here.group.chunks = layout.chunks;
        here.group.zero = layout.zero;
        if (rules_out && refused_from[at] == 0 && try_least(at, here, pipeline)) continue;
        if constexpr (has_times) {
          const step_line line = times.line(layout, here.group.data_parallel(), pipeline.held);
          const double samples = static_cast<double>(b * here.group.data_parallel());
          const double at_least = line.at_least(here.allowed.high) / samples * rounding_of_bounds;
          if (is_excluded(domain.value_of(here.group, at_least))) continue;
          here.step = here.allowed.count() == 1 ? line.curve_at(here.allowed.low) : line.curve();
          add(at, here, here, pipeline);
        } else {
          using time_model = decltype(search.times_of_(setup, domain.request().on));
          if (sample_time_falls<time_model> && asks_most_alone()) {
            visit_most(at, here, pipeline);
            continue;
          }
          plan_candidate one_plan = here;
          accumulations& alone = one_plan.allowed;
          for (; alone.low <= here.allowed.high; alone.low += alone.unit) {
            alone.high = alone.low;
            // Time may cost as much as memory: it is not asked of what does not fit, nor would
            // more.
            if (!domain.request().evaluates_all && is_refused(one_plan, pipeline)) {
              if (rules_out) find_refused(at, here, pipeline);
              break;
            }
            if (chooses_layers) one_plan.group.layers = fewest_layers(one_plan, pipeline);
            one_plan.step = search.step_of_most(recomputing(one_plan.group.layers), one_plan);
            add(at, here, one_plan, pipeline);
          }
        }
      }
    }
    constexpr bool asks_most_alone() const {
      return domain.request().goal != plan_goal::least_memory && !domain.request().evaluates_all &&
             !search.limits_.are_there();
    }
    // Of a layout's plans that with the most accumulation that memory may take.
    constexpr void visit_most(int at,
                              const plan_candidate& here,
                              const pipeline_layouts& pipeline) {
      plan_candidate most = here;
      refine(most, setup, pipeline.held);
      if (most.bound == infinity) {
        if (rules_out) find_refused(at, here, pipeline);
        return;
      }
      if (chooses_layers) most.group.layers = fewest_layers(most, pipeline);
      most.step = search.step_of_most(recomputing(most.group.layers), most);
      add(at, here, most, pipeline);
    }
    // The setup with so many layers to recompute, where that is chosen.
    constexpr training_setup recomputing(std::int64_t layers) const {
      training_setup made = setup;
      if (chooses_layers) set_recomputed(made, layers, most_to_recompute(made));
      return made;
    }
    // How many layers memory may let a candidate recompute at least, with the least accumulation.
    constexpr std::int64_t fewest_layers(plan_candidate candidate,
                                         const pipeline_layouts& pipeline) {
      if (domain.request().goal == plan_goal::least_memory) return 1;
      candidate.allowed.high = candidate.allowed.low;
      const auto is_too_few = [&](std::int64_t layers, std::int64_t most) {
        set_recomputed(setup, layers, most);
        return is_refused(candidate, pipeline);
      };
      std::int64_t fewest = 1;
      if (is_too_few(1, 2)) {
        fewest = most_to_recompute(setup);
        const std::int64_t most = fewest;
        std::int64_t too_few = 1;
        while (fewest - too_few > 1) {
          const std::int64_t middle = too_few + (fewest - too_few) / 2;
          (is_too_few(middle, most) ? too_few : fewest) = middle;
        }
      }
      setup.recompute_layers = 0;
      return fewest;
    }
    // The candidates of a group by how many layers they recompute: none of fewer than memory may
    // let the least accumulation do with; of each number up to what the most needs, with as much
    // accumulation as memory may let it have; and the last stands for all that recompute more.
    constexpr void add_by_layers(int at,
                                 const plan_candidate& here,
                                 plan_candidate candidate,
                                 const pipeline_layouts& pipeline) {
      plan_candidate whole = candidate;
      refine(whole, setup, pipeline.held);
      if (rules_out && whole.bound == infinity) find_refused(at, here, pipeline);
      if (whole.bound == infinity || is_excluded(whole.bound)) return;
      candidate.allowed.high = whole.allowed.high;
      const std::int64_t fewest = fewest_layers(candidate, pipeline);
      whole.allowed.low = whole.allowed.high;
      const std::int64_t most =
          candidate.allowed.count() == 1 ? fewest : fewest_layers(whole, pipeline);
      const std::int64_t all = most_to_recompute(setup);
      for (std::int64_t layers = fewest; layers <= most; ++layers) {
        set_recomputed(setup, layers, all);
        plan_candidate one = candidate;
        if (layers != candidate.group.layers) {
          one.group.layers = layers;
          if constexpr (has_times) {
            times.set_recomputed(setup.recompute_layers);
            one.step = times
                           .line({one.group.pipeline, one.group.chunks, one.group.zero},
                                 one.group.data_parallel(),
                                 pipeline.held)
                           .curve();
          }
        }
        if (!keep_within_limits(domain, search.limits_, one)) continue;
        one.takes_more_layers = layers == most;
        if (!is_excluded(one.bound)) refine(one, setup, pipeline.held);
        insert(one);
      }
      setup.recompute_layers = 0;
      if constexpr (has_times) times.set_fewest_recomputed();
    }
    constexpr plan_group group_of(const pipeline_layouts& pipeline,
                                  std::int64_t many,
                                  std::int64_t b) const {
      return {.gpus = many,
              .tensor = family.tensor,
              .context = family.context,
              .expert = family.expert,
              .recompute = family.recompute,
              .pipeline = pipeline.stages,
              .split = pipeline.split_choice,
              .sequence = family.sequence,
              .setup = family.setup,
              .micro_batch = b};
    }
    // A candidate of the layout, of which `here` has all accumulations.
    constexpr void add(int at,
                       const plan_candidate& here,
                       plan_candidate candidate,
                       const pipeline_layouts& pipeline) {
      if (!settle(domain, search.limits_, candidate, found.counts)) return;
      if (is_excluded(candidate.bound)) return;
      if (has_times && chooses_layers && domain.request().goal != plan_goal::least_memory)
        return add_by_layers(at, here, candidate, pipeline);
      candidate.takes_more_layers = chooses_layers;
      refine(candidate, setup, pipeline.held);
      if (rules_out && candidate.bound == infinity) find_refused(at, here, pipeline);
      insert(candidate);
    }
    constexpr void insert(const plan_candidate& candidate) {
      if (candidate.bound < infinity && candidate.bound <= limit &&
          (behind == nullptr || *behind < candidate))
        found.candidates.insert(candidate);
    }

    // Whether that is known of all layouts with as many stages.
    constexpr bool is_refused(const pipeline_layouts& pipeline, std::int64_t b) const {
      for (int at = pipeline.first; at < pipeline.first + pipeline.count; ++at)
        if (refused_from[at] == 0 || b < refused_from[at]) return false;
      return true;
    }
    constexpr bool is_refused(plan_candidate candidate, const pipeline_layouts& pipeline) const {
      refine(candidate, setup, pipeline.held);
      return candidate.bound == infinity;
    }
    // Whether memory refuses even the least accumulation. It rises with that and the micro-batch.
    constexpr bool is_refused(plan_candidate candidate,
                              std::int64_t b,
                              const pipeline_layouts& pipeline) const {
      candidate.group.micro_batch = b;
      const std::int64_t least =
          least_of(micro_batches_of(setup.framework.layers(), setup.parallelism));
      candidate.allowed.low = candidate.allowed.high = least;
      return is_refused(candidate, pipeline);
    }
    constexpr bool try_least(int at, const plan_candidate& here, const pipeline_layouts& pipeline) {
      const std::int64_t least = domain.least_micro_batch();
      refused_from[at] =
          is_refused(here, least, pipeline) ? least : std::numeric_limits<std::int64_t>::max();
      return refused_from[at] == least;
    }
    // The least micro-batch that is refused, of which `here` has one.
    constexpr void find_refused(int at,
                                const plan_candidate& here,
                                const pipeline_layouts& pipeline) {
      std::int64_t high = here.group.micro_batch;
      if (!is_refused(here, high, pipeline)) return;
      std::int64_t low = domain.least_micro_batch();
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (is_refused(here, middle, pipeline) ? high : low) = middle;
      }
      refused_from[at] = high;
    }
  };
};

}  // namespace gpuplan::detail

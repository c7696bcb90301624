#pragma once

// What is asked of the planner: what to train on what, which plans there are to choose from, and
// what they must keep to.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// What the best plan has least of: time of a sample, money (GPUs times time), or memory of its
/// fullest device.
enum class plan_goal { least_time, least_money, least_memory };

/// The plans to choose from: every combination of these that uses the GPUs exactly and that the
/// framework has code for, of no more stages than layers. What is absent is as the setup has it.
/// Where layers do not divide by stages and the setup's `split` states nothing, Megatron-Core's are
/// split in its other ways: the embedding, the head or both count as a layer; where none of these
/// divides either, the first stage has fewer layers and the last as many or one less, or the last
/// alone has fewer. All others have as many as the longest must have.
struct plan_space {
  known<range<std::int64_t>> gpus{};  // absent: all. Up to a node's any number, then whole nodes
  known<range<std::int64_t>> tensor_parallel{};
  known<range<std::int64_t>> pipeline_parallel{};
  known<range<std::int64_t>> virtual_pipeline{};
  known<range<std::int64_t>> context_parallel{};
  known<range<std::int64_t>> expert_parallel{};
  known<range<std::int64_t>> zero_stage{};
  bool recompute = false;  // all three modes
  // full: of how many layers, where the code can leave some out: the fewest with which a plan fits
  bool recompute_layers = false;
  bool sequence_parallel = false;  // with and without it, where several ranks share a layer
  // Small models and short sequences may take more: `plan_limit::micro_batch` tells.
  range<std::int64_t> micro_batch{1, 64};
  // What GPUs and batch leave open; absent: any.
  known<range<std::int64_t>> data_parallel{};
  known<range<std::int64_t>> accumulation{};
};

/// A cluster to choose, with what its devices reach.
struct cluster_choice {
  cluster on{};
  device_efficiency efficiency{};
};

/// What to plan. The layout of `setup` is the default of what is not searched.
struct plan_request {
  training_setup setup{};
  // Other setups to choose from: in another precision, with another framework or another setting of
  // it, likewise with defaults of their own. A plan is of one.
  std::span<const training_setup> setups{};
  cluster on{};
  device_efficiency efficiency{};
  // Other clusters to choose from, with GPUs of another kind, price or number. A plan is on one.
  std::span<const cluster_choice> others{};
  range<std::int64_t> effective_batch{1};  // samples of one optimizer step
  plan_space space{};
  bool tensor_within_node = true;  // and no larger than a node
  std::int64_t samples = 0;        // of the run; 0: not known
  known<duration> finish_in{};     // for the samples in whole steps, at most (`run_of`)
  known<money> at_most{};          // likewise, at the cluster's price
  plan_goal goal = plan_goal::least_time;
  // How many times as long the slowest device's kernels take as the others', which wait for it: of
  // `roofline_times`, and beside theirs
  double straggler_slowdown = 1;
  // Works out every plan's time, and excludes none by a bound: for comparison.
  bool evaluates_all = false;
};

/// One way to train.
struct training_plan {
  std::size_t setup = 0;    // 0: the request's `setup`; from 1: of its `setups`
  std::size_t cluster = 0;  // 0: the request's `on`; from 1: of its `others`
  std::int64_t gpus = 0;
  parallelism layout{};
  recompute_mode recompute = recompute_mode::none;
  std::int64_t recompute_layers = 0;  // full: as `training_setup` has it
  batch_plan batch{};
  duration step{};
  bytes required{};  // of the fullest device

  /// What a sample takes.
  [[nodiscard]] constexpr duration per_sample() const {
    return 1.0 / static_cast<double>(batch.effective_batch()) * step;
  }
  /// The setup that it is of, with this layout.
  [[nodiscard]] constexpr training_setup applied_to(const training_setup& given) const {
    training_setup divided = given;
    divided.parallelism = layout;
    divided.recompute = recompute;
    divided.recompute_layers = recompute_layers;
    return divided;
  }
  /// What a run of so many samples takes, in whole steps.
  [[nodiscard]] constexpr duration of_run(std::int64_t samples) const {
    return detail::ceil_div(samples, batch.effective_batch()) * step;
  }
};

namespace detail {

// Of a space, degrees, micro-batches and GPUs alike.
inline constexpr std::int64_t most_of_a_degree = std::int64_t{1} << 20;

constexpr failure flaw_of_degrees(const known<range<std::int64_t>>& degrees,
                                  fact name,
                                  std::int64_t least = 1,
                                  std::int64_t most = most_of_a_degree) {
  if (!degrees) return {};
  for (const std::int64_t end : {degrees->low(), degrees->high()})
    if (end < least || end > most)
      return failure(errc::out_of_bounds,
                     named_fact{name, end},
                     named_fact{fact::at_least, least},
                     named_fact{fact::at_most, most});
  return {};
}

// Of the layout, what is not searched is taken from the setup.
constexpr failure flaw_of_planned(const training_setup& setup) {
  if (const auto valid = validate(setup.model); !valid) return valid.why();
  // Which stages and chunks a schedule takes is asked of each layout.
  parallelism layout = setup.parallelism;
  layout.schedule = pipeline_schedule::one_f_one_b;
  if (const auto valid = validate(layout); !valid) return valid.why();
  return {};
}

// Prices are compared where money is the limit, or the goal on several clusters.
constexpr failure flaw_of_cluster(const plan_request& request,
                                  const cluster& on,
                                  const device_efficiency& reached) {
  if (const auto valid = validate(on); !valid) return valid.why();
  if (total_gpus(on) > most_of_a_degree)
    return failure(errc::out_of_bounds,
                   named_fact{fact::devices, total_gpus(on)},
                   named_fact{fact::at_most, most_of_a_degree})
        .about(fact::gpus);
  const bool compares_money =
      request.at_most || (request.goal == plan_goal::least_money && !request.others.empty());
  if (compares_money && !on.price_per_gpu)
    return failure(errc::not_known).about(fact::price_per_gpu);
  const auto flaw_of = [&](const training_setup& setup) {
    if (const failure why = flaw_of_ceilings(setup, on); failed(why)) return why;
    if (const failure why = flaw_of_software(setup.framework); failed(why)) return why;
    return flaw_of_rates({.setup = setup, .on = on, .efficiency = reached});
  };
  for (const training_setup& setup : request.setups)
    if (const failure why = flaw_of(setup); failed(why)) return why;
  return flaw_of(request.setup);
}

}  // namespace detail

/// What a plan trains, and how. Precondition: a plan of the request.
[[nodiscard]] constexpr training_setup setup_of(const plan_request& request,
                                                const training_plan& plan) {
  return plan.applied_to(plan.setup == 0 ? request.setup : request.setups[plan.setup - 1]);
}
/// The cluster that a plan is on. Precondition: a plan of the request.
[[nodiscard]] constexpr const cluster& cluster_of(const plan_request& request,
                                                  const training_plan& plan) {
  return plan.cluster == 0 ? request.on : request.others[plan.cluster - 1].on;
}

/// What tells the time of the plan's steps, with its parts: `step` of it is the plan's, where the
/// planner went by `roofline_times` without factors. Precondition: a plan of the request.
[[nodiscard]] constexpr roofline_time time_of(const plan_request& request,
                                              const training_plan& plan) {
  return {.setup = setup_of(request, plan),
          .on = cluster_of(request, plan),
          .efficiency =
              plan.cluster == 0 ? request.efficiency : request.others[plan.cluster - 1].efficiency,
          .straggler_slowdown = request.straggler_slowdown};
}

/// What the run of a request takes by a plan.
struct planned_run {
  duration time{};
  duration gpu_time{};          // of all GPUs together
  known<money> cost{};          // where the cluster has a price
  known<energy> energy_used{};  // at its power, else at the TDP, without host and cooling
};

/// The request's samples in whole steps. Preconditions: a plan of the request, which has samples.
[[nodiscard]] constexpr planned_run run_of(const plan_request& request, const training_plan& plan) {
  const cluster& on = cluster_of(request, plan);
  planned_run run;
  run.time = plan.of_run(request.samples);
  run.gpu_time = static_cast<double>(plan.gpus) * run.time;
  if (on.price_per_gpu) run.cost = run.gpu_time * on.price_per_gpu->each;
  if (const known<power> draw = on.power_per_gpu ? on.power_per_gpu : on.gpu.tdp)
    run.energy_used = run.gpu_time * *draw;
  return run;
}

/// The request itself where its clusters, numbers and limits make sense and the device has a peak
/// for its formats. Degrees, micro-batches and GPUs of the space are from 1 to 2^20, ZeRO stages
/// from 0 to 3, and a cluster has 2^20 GPUs at most. Whether a layout is valid is asked of each.
/// Errors: those of the clusters, the models and the setups' layouts; `not_positive`,
/// `out_of_bounds`, `overflow`, `not_known` of a price, a link or the run's samples that a limit or
/// a choice asks for; `unsupported_format`; what is wrong with a share or a cost of a device or
/// framework.
[[nodiscard]] constexpr result<plan_request> validate(const plan_request& request) {
  if (const failure why = detail::flaw_of_planned(request.setup); detail::failed(why)) return why;
  for (const training_setup& setup : request.setups)
    if (const failure why = detail::flaw_of_planned(setup); detail::failed(why)) return why;
  if (request.effective_batch.low() < 1)
    return failure(errc::not_positive,
                   named_fact{fact::effective_batch_low, request.effective_batch.low()});
  if (request.effective_batch.high() > detail::most_samples_per_gpu)
    return detail::too_many_samples_per_gpu(request.effective_batch.high());
  const plan_space& space = request.space;
  for (const failure& why :
       {detail::flaw_of_degrees(space.gpus, fact::gpus),
        detail::flaw_of_degrees(space.micro_batch, fact::micro_batch),
        detail::flaw_of_degrees(space.tensor_parallel, fact::tensor_parallel),
        detail::flaw_of_degrees(space.pipeline_parallel, fact::pipeline_parallel),
        detail::flaw_of_degrees(space.virtual_pipeline, fact::virtual_pipeline),
        detail::flaw_of_degrees(space.context_parallel, fact::context_parallel),
        detail::flaw_of_degrees(space.expert_parallel, fact::expert_parallel),
        detail::flaw_of_degrees(space.zero_stage, fact::zero_stage, 0, 3),
        detail::flaw_of_degrees(space.data_parallel, fact::data_parallel),
        detail::flaw_of_degrees(
            space.accumulation, fact::accumulation, 1, detail::most_samples_per_gpu)})
    if (detail::failed(why)) return why;
  if (const failure why = detail::flaw_of_cluster(request, request.on, request.efficiency);
      detail::failed(why))
    return why;
  for (const cluster_choice& other : request.others)
    if (const failure why = detail::flaw_of_cluster(request, other.on, other.efficiency);
        detail::failed(why))
      return why;
  if (const failure why = detail::check_between(
          request.straggler_slowdown, 1, detail::most_times, fact::straggler_slowdown);
      detail::failed(why))
    return why;
  if (request.samples < 0)
    return failure(errc::negative, named_fact{fact::samples, request.samples});
  if ((request.finish_in || request.at_most) && request.samples == 0)
    return failure(errc::not_known).about(fact::samples);
  if (request.finish_in)
    if (const failure why = detail::check_positive(*request.finish_in, fact::finish_in);
        detail::failed(why))
      return why;
  if (request.at_most) {
    if (const failure why =
            detail::check_positive(*request.at_most, 10_usd, fact::cents, fact::at_most);
        detail::failed(why))
      return why;
  }
  return request;
}

}  // namespace gpuplan

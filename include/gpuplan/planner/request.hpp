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

#include <cstdint>

namespace gpuplan {

/// What the best plan has least of: time of the run, money (GPUs times time), or memory of its
/// fullest device.
enum class plan_goal { least_time, least_money, least_memory };

/// The plans to choose from: every combination of these that uses the GPUs exactly and that the
/// framework has code for. What is absent is as the setup has it.
struct plan_space {
  known<range<std::int64_t>> gpus{};  // absent: all. Up to a node's any number, then whole nodes
  known<range<std::int64_t>> tensor_parallel{};
  known<range<std::int64_t>> pipeline_parallel{};
  known<range<std::int64_t>> virtual_pipeline{};
  known<range<std::int64_t>> context_parallel{};
  known<range<std::int64_t>> expert_parallel{};
  known<range<std::int64_t>> zero_stage{};
  bool recompute = false;  // all three modes
  range<std::int64_t> micro_batch{1, 64};
};

/// What to plan. The division of `setup` is the default of what is not searched.
struct plan_request {
  training_setup setup{};
  cluster on{};
  device_efficiency efficiency{};
  range<std::int64_t> effective_batch{1};  // samples of one optimizer step
  plan_space space{};
  bool tensor_within_node = true;  // and no larger than a node
  std::int64_t samples = 0;        // of the run; 0: not known
  known<duration> finish_in{};     // the run, at most
  known<money> at_most{};          // for the run, at the cluster's price
  plan_goal goal = plan_goal::least_time;
  // Works out every plan's time, and excludes none by a bound: for comparison.
  bool evaluates_all = false;
};

/// One way to train.
struct training_plan {
  std::int64_t gpus = 0;
  parallelism division{};
  recompute_mode recompute = recompute_mode::none;
  batch_plan batch{};
  duration step{};
  bytes required{};  // of the fullest device

  /// What a sample takes.
  [[nodiscard]] constexpr duration per_sample() const {
    return 1.0 / static_cast<double>(batch.effective_batch()) * step;
  }
  /// The setup with this division.
  [[nodiscard]] constexpr training_setup applied_to(const training_setup& setup) const {
    training_setup divided = setup;
    divided.parallelism = division;
    divided.recompute = recompute;
    return divided;
  }
  /// What a run of so many samples takes, in whole steps.
  [[nodiscard]] constexpr duration of_run(std::int64_t samples) const {
    return detail::ceil_div(samples, batch.effective_batch()) * step;
  }
};

namespace detail {

constexpr failure flaw_of_degrees(const known<range<std::int64_t>>& degrees,
                                  fact name,
                                  const char* subject,
                                  std::int64_t least = 1) {
  if (!degrees || degrees->low() >= least) return {};
  return failure(errc::out_of_bounds,
                 named_fact{name, degrees->low()},
                 named_fact{fact::at_least, least})
      .about(subject);
}

}  // namespace detail

/// The request itself where its cluster, numbers and limits make sense and the device has a peak
/// for its formats. Whether a division is valid is asked of each. Errors: those of the cluster and
/// the model; `not_positive`, `out_of_bounds`, `overflow`, `not_known` of a price, a link or the
/// run's samples that a limit asks for; `unsupported_format`.
[[nodiscard]] constexpr result<plan_request> validate(const plan_request& request) {
  if (const auto valid = validate(request.on); !valid) return valid.why();
  if (const auto valid = validate(request.setup.model); !valid) return valid.why();
  if (request.effective_batch.low() < 1)
    return failure(errc::not_positive,
                   named_fact{fact::effective_batch_low, request.effective_batch.low()});
  if (request.effective_batch.high() > detail::most_samples_per_gpu)
    return detail::too_many_samples_per_gpu(request.effective_batch.high());
  const plan_space& space = request.space;
  if (space.micro_batch.low() < 1)
    return failure(errc::not_positive, named_fact{fact::micro_batch, space.micro_batch.low()});
  for (const failure& why :
       {detail::flaw_of_degrees(space.gpus, fact::devices, "gpus"),
        detail::flaw_of_degrees(space.tensor_parallel, fact::tensor_parallel, ""),
        detail::flaw_of_degrees(space.pipeline_parallel, fact::pipeline_parallel, ""),
        detail::flaw_of_degrees(space.virtual_pipeline, fact::at_most, "virtual_pipeline"),
        detail::flaw_of_degrees(space.context_parallel, fact::at_most, "context_parallel"),
        detail::flaw_of_degrees(space.expert_parallel, fact::expert_parallel, ""),
        detail::flaw_of_degrees(space.zero_stage, fact::stage, "zero_stage", 0)})
    if (detail::failed(why)) return why;
  if (const failure why = detail::flaw_of_ceilings(request.setup.precision, request.on);
      detail::failed(why))
    return why;
  if (request.samples < 0)
    return failure(errc::negative, named_fact{fact::samples, request.samples});
  if ((request.finish_in || request.at_most) && request.samples == 0)
    return failure(errc::not_known).about("samples");
  if (request.finish_in)
    if (const failure why = detail::check_positive(*request.finish_in, "finish_in");
        detail::failed(why))
      return why;
  if (request.at_most) {
    if (!request.on.price_per_gpu) return failure(errc::not_known).about("price_per_gpu");
    if (const failure why =
            detail::check_positive(*request.at_most, 10_usd, fact::cents, "at_most");
        detail::failed(why))
      return why;
  }
  return request;
}

}  // namespace gpuplan

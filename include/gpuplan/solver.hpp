#pragma once

// The effective-batch solver: micro-batch x data parallel x accumulation under a memory model.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver/recovery.hpp>

#include <cstdint>

namespace gpuplan {

/// What is asked of the solver. `gpu` is a catalogued device, a MIG slice, or a size.
struct batch_request {
  range<std::int64_t> effective_batch;  // samples of one optimizer step: a value or a range
  std::int64_t data_parallel = 1;
  memory_budget gpu;
};

/// The request itself where the effective batch and the number of GPUs are at least 1; else
/// `errc::not_positive`.
[[nodiscard]] constexpr result<batch_request> validate(const batch_request& request) {
  if (request.effective_batch.low() < 1)
    return failure(errc::not_positive,
                   named_fact{fact::effective_batch_low, request.effective_batch.low()});
  if (request.data_parallel < 1)
    return failure(errc::not_positive, named_fact{fact::data_parallel, request.data_parallel});
  return request;
}

namespace detail {

// The largest micro-batch from 1 to `most` that fits. Precondition: 1 fits.
template <memory_model Model>
constexpr std::int64_t largest_micro_batch(batch_plan plan,
                                           std::int64_t most,
                                           memory_budget gpu,
                                           const Model& model) {
  const auto micro_batch_fits = [&](std::int64_t micro_batch) {
    plan.micro_batch = micro_batch;
    return fits(plan, gpu, model);
  };
  std::int64_t fitting = 1;
  while (fitting < most && micro_batch_fits(fitting < most - fitting ? 2 * fitting : most))
    fitting = fitting < most - fitting ? 2 * fitting : most;
  std::int64_t too_large = fitting < most - fitting ? 2 * fitting : most;
  while (too_large - fitting > 1) {
    const std::int64_t middle = fitting + (too_large - fitting) / 2;
    (micro_batch_fits(middle) ? fitting : too_large) = middle;
  }
  return fitting;
}

// The samples of one step that each GPU can process: what `data_parallel` shares out evenly.
struct samples_per_gpu {
  std::int64_t low = 0;
  std::int64_t high = -1;

  constexpr samples_per_gpu() = default;
  constexpr explicit samples_per_gpu(const batch_request& valid)
      : low(ceil_div(valid.effective_batch.low(), valid.data_parallel)),
        high(floor_div(valid.effective_batch.high(), valid.data_parallel)) {}

  [[nodiscard]] static constexpr failure no_such_batch(const batch_request& request) {
    failure why(errc::no_such_batch,
                named_fact{fact::effective_batch_low, request.effective_batch.low()},
                named_fact{fact::effective_batch_high, request.effective_batch.high()},
                named_fact{fact::data_parallel, request.data_parallel});
    const std::int64_t multiples = request.effective_batch.high() / request.data_parallel;
    if (multiples > 0) why.add(fact::nearest_below, multiples * request.data_parallel);
    if (const auto above = checked_product(multiples + 1, request.data_parallel); above.ok)
      why.add(fact::nearest_above, above.value);
    return why;
  }

  // The largest micro-batch up to `most` of which a multiple lies from low to high; 0 where there
  // is none. high / m is the same for a block of neighbouring m, of which the largest comes closest
  // to high: one look at each block, at most 2 sqrt(high) of them.
  [[nodiscard]] constexpr std::int64_t largest_micro_batch(std::int64_t most) const {
    std::int64_t micro_batch = most < high ? most : high;
    while (micro_batch > 0) {
      const std::int64_t accumulation = high / micro_batch;
      if (accumulation * micro_batch >= low) return micro_batch;
      micro_batch = high / (accumulation + 1);
    }
    return 0;
  }
};

}  // namespace detail

/// The largest micro-batch that fits: the largest for which `required(plan) <= gpu` holds, found by
/// doubling and bisection, and not by dividing the memory that is left, which rounding makes
/// disagree. `plan` gives the other parts; its micro-batch is not read. Errors:
/// `exceeds_gpu_memory` where not even one sample fits; `out_of_bounds` where 2^40 and more do, so
/// that memory does not bound the micro-batch.
template <memory_model Model>
[[nodiscard]] constexpr result<std::int64_t> max_micro_batch(memory_budget gpu,
                                                             const Model& model,
                                                             batch_plan plan = {}) {
  plan.micro_batch = 1;
  if (const auto one = check(plan, gpu, model); !one) return one.why();
  const std::int64_t most = std::int64_t{1} << 40;
  const std::int64_t largest = detail::largest_micro_batch(plan, most, gpu, model);
  if (largest == most)
    return failure(errc::out_of_bounds,
                   named_fact{fact::largest_micro_batch, largest},
                   named_fact{fact::at_most, most - 1});
  return largest;
}

/// Every plan that meets the request and fits, best first: the largest micro-batch, then the
/// effective batch nearest the upper end of the target. Where there is none, `why()` is the reason:
/// what is wrong with the request or the model; `exceeds_gpu_memory` where not even one sample
/// fits; `no_such_batch` where the target holds no multiple of `data_parallel`, with the nearest
/// effective batches that exist; `out_of_bounds` where each GPU has more than 2^40 samples of a
/// step and memory for more than 2^20 at once. A range for `for` loops, without allocation; the
/// model is copied.
template <memory_model Model>
class batch_options {
 public:
  struct end_mark {};

  class iterator {
   public:
    [[nodiscard]] constexpr const batch_plan& operator*() const { return plan_; }
    constexpr iterator& operator++() {
      next();
      skip_what_does_not_fit();
      return *this;
    }
    [[nodiscard]] friend constexpr bool operator==(const iterator& at, end_mark) {
      return at.plan_.micro_batch == 0;
    }

   private:
    friend batch_options;
    const batch_options* options_ = nullptr;
    batch_plan plan_{};

    constexpr void start_at(std::int64_t largest_micro_batch) {
      plan_.micro_batch = options_->each_.largest_micro_batch(largest_micro_batch);
      if (plan_.micro_batch > 0) plan_.accumulation = options_->each_.high / plan_.micro_batch;
    }
    constexpr void next() {
      if ((plan_.accumulation - 1) * plan_.micro_batch >= options_->each_.low) {
        --plan_.accumulation;
      } else {
        start_at(plan_.micro_batch - 1);
      }
    }
    // A model may need more for accumulation than for a single micro-batch. It never needs less, so
    // that the most that fits is found by bisection.
    constexpr void skip_what_does_not_fit() {
      while (plan_.micro_batch > 0 && !fits(plan_, options_->gpu_, options_->model_)) {
        std::int64_t too_many = plan_.accumulation;
        std::int64_t fitting = detail::ceil_div(options_->each_.low, plan_.micro_batch);
        plan_.accumulation = fitting;
        if (!fits(plan_, options_->gpu_, options_->model_)) {
          start_at(plan_.micro_batch - 1);
          continue;
        }
        while (too_many - fitting > 1) {
          plan_.accumulation = fitting + (too_many - fitting) / 2;
          (fits(plan_, options_->gpu_, options_->model_) ? fitting : too_many) = plan_.accumulation;
        }
        plan_.accumulation = fitting;
      }
    }
  };

  // Names that no user has: g++ 12 warns of a global of the same name (-Wshadow) at instantiation.
  constexpr batch_options(const batch_request& the_request, const Model& the_model)
      : gpu_(the_request.gpu),
        model_(the_model),
        smallest_{.data_parallel = the_request.data_parallel} {
    if (const auto valid = validate(the_request); !valid) {
      why_ = valid.why();
    } else if (const auto fitting = check(smallest_, gpu_, model_); !fitting) {
      why_ = fitting.why();
    } else if (each_ = detail::samples_per_gpu(the_request); each_.low > each_.high) {
      why_ = detail::samples_per_gpu::no_such_batch(the_request);
    } else {
      largest_ = detail::largest_micro_batch(smallest_, each_.high, gpu_, model_);
      if (each_.high > detail::most_samples_per_gpu && largest_ > most_to_try) {
        why_ = detail::too_many_samples_per_gpu(each_.high);
        largest_ = 0;
      } else if (begin() == end()) {
        const batch_plan single{1, the_request.data_parallel, each_.low};
        why_ = detail::exceeds_gpu_memory(single, the_model.required(single), gpu_);
      }
    }
  }

  [[nodiscard]] constexpr iterator begin() const {
    iterator first;
    first.options_ = this;
    first.plan_ = smallest_;
    first.start_at(largest_);
    first.skip_what_does_not_fit();
    return first;
  }
  [[nodiscard]] constexpr end_mark end() const { return {}; }

  [[nodiscard]] constexpr const failure& why() const { return why_; }

 private:
  // The work is bounded by this many micro-batches or by the square root of the samples.
  static constexpr std::int64_t most_to_try = std::int64_t{1} << 20;

  memory_budget gpu_;
  Model model_;
  batch_plan smallest_;
  detail::samples_per_gpu each_;
  std::int64_t largest_ = 0;
  failure why_;
};

/// The best plan that meets the request and fits: the largest micro-batch, then the effective batch
/// nearest the upper end of the target, then the fewest accumulations. Errors as `batch_options`.
template <memory_model Model>
[[nodiscard]] constexpr result<batch_plan> solve_batch(const batch_request& request,
                                                       const Model& model) {
  const batch_options<Model> options(request, model);
  if (detail::failed(options.why())) return options.why();
  return *options.begin();
}

/// The best plan for the request or, where its target holds no multiple of `data_parallel`, for the
/// effective batch nearest the target that does; of two as near, the larger. Other errors as
/// `solve_batch`.
template <memory_model Model>
[[nodiscard]] constexpr result<batch_plan> solve_nearest_batch(batch_request request,
                                                               const Model& model) {
  const auto exact = solve_batch(request, model);
  if (exact || exact.why().code != errc::no_such_batch) return exact;
  const std::int64_t below = exact.why()[fact::nearest_below];
  const std::int64_t above = exact.why()[fact::nearest_above];
  const bool take_above = above > 0 && (below == 0 || above - request.effective_batch.high() <=
                                                          request.effective_batch.low() - below);
  request.effective_batch = take_above ? above : below;
  return solve_batch(request, model);
}

/// The best plan with the same effective batch on another number of GPUs. Errors as `solve_batch`.
template <memory_model Model>
[[nodiscard]] constexpr result<batch_plan> keep_effective_batch(const batch_plan& plan,
                                                                std::int64_t data_parallel,
                                                                memory_budget gpu,
                                                                const Model& model) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  return solve_batch(
      {.effective_batch = plan.effective_batch(), .data_parallel = data_parallel, .gpu = gpu},
      model);
}

/// An effective batch on a number of GPUs that does not divide it: some GPUs process one sample
/// more than the others. Each GPU goes through its share in `accumulation` micro-batches of at most
/// `micro_batch`. A GPU's mean gradient counts by its share: `share / effective_batch`, and not
/// `1 / data_parallel`.
struct uneven_batch {
  std::int64_t effective_batch = 0;
  std::int64_t data_parallel = 0;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 0;
  std::int64_t smaller_share = 0;           // samples on each of the other GPUs
  std::int64_t larger_share = 0;            // samples on each GPU that has more
  std::int64_t gpus_with_larger_share = 0;  // all where the shares are equal

  /// The share of all GPUs' sample slots that stays empty: `1 - effective / (GPUs * larger_share)`.
  /// Precondition: `solve_uneven_batch` gave it.
  [[nodiscard]] constexpr double idle_share() const {
    if (data_parallel < 1 || larger_share < 1)
      detail::precondition_violated(
          failure(errc::not_positive, named_fact{fact::data_parallel, data_parallel}));
    // One slot is empty on each of the others.
    return static_cast<double>(data_parallel - gpus_with_larger_share) /
           (static_cast<double>(data_parallel) * static_cast<double>(larger_share));
  }
};

/// Deals the effective batch out as evenly as it goes, with the fewest accumulations and then the
/// smallest micro-batch. Errors: a batch smaller than the number of GPUs is `no_such_batch`; others
/// as `solve_batch`.
template <memory_model Model>
[[nodiscard]] constexpr result<uneven_batch> solve_uneven_batch(std::int64_t effective_batch,
                                                                std::int64_t data_parallel,
                                                                memory_budget gpu,
                                                                const Model& model) {
  if (effective_batch < 1)
    return failure(errc::not_positive, named_fact{fact::effective_batch, effective_batch});
  const auto most = max_micro_batch(gpu, model, {.data_parallel = data_parallel});
  if (!most && most.why().code != errc::out_of_bounds) return most.why();
  if (effective_batch < data_parallel)
    return failure(errc::no_such_batch,
                   named_fact{fact::effective_batch, effective_batch},
                   named_fact{fact::data_parallel, data_parallel},
                   named_fact{fact::nearest_above, data_parallel});
  const std::int64_t larger = detail::ceil_div(effective_batch, data_parallel);
  const std::int64_t smaller = effective_batch / data_parallel;
  std::int64_t accumulation = most ? detail::ceil_div(larger, *most) : 1;
  batch_plan fullest{};
  // A model may need more where it accumulates.
  for (;;) {
    fullest = {detail::ceil_div(larger, accumulation), data_parallel, accumulation};
    const auto fitting = check(fullest, gpu, model);
    if (fitting) break;
    if (fitting.why().code != errc::exceeds_gpu_memory) return fitting.why();
    const auto fewer =
        max_micro_batch(gpu, model, {.data_parallel = data_parallel, .accumulation = accumulation});
    if (fullest.micro_batch == 1 || !fewer) return fitting.why();
    const std::int64_t next = detail::ceil_div(larger, *fewer);
    accumulation = next > accumulation ? next : accumulation + 1;
  }
  return uneven_batch{.effective_batch = effective_batch,
                      .data_parallel = data_parallel,
                      .micro_batch = fullest.micro_batch,
                      .accumulation = accumulation,
                      .smaller_share = smaller,
                      .larger_share = larger,
                      .gpus_with_larger_share =
                          larger == smaller ? data_parallel : effective_batch % data_parallel};
}

}  // namespace gpuplan

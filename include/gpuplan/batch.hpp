#pragma once

// The batch of a training step, and the identity between its parts.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>

namespace gpuplan {

/// How one optimizer step's samples are dealt out. `micro_batch` samples go through each GPU in one
/// forward and backward, `accumulation` times before the optimizer steps, on `data_parallel` GPUs
/// (or groups of GPUs that share a model replica) at once.
struct batch_plan {
  std::int64_t micro_batch = 1;
  std::int64_t data_parallel = 1;
  std::int64_t accumulation = 1;

  /// `micro_batch * data_parallel * accumulation`: the samples of one optimizer step (Megatron's
  /// global batch). Precondition: `validate` accepts the plan.
  [[nodiscard]] constexpr std::int64_t effective_batch() const {
    return micro_batch * data_parallel * accumulation;
  }

  friend constexpr bool operator==(const batch_plan&, const batch_plan&) = default;
};

namespace detail {

// Of one optimizer step: divisors of more take too long to find.
inline constexpr std::int64_t most_samples_per_gpu = std::int64_t{1} << 40;

constexpr failure too_many_samples_per_gpu(std::int64_t samples) {
  return failure(errc::out_of_bounds,
                 named_fact{fact::samples, samples},
                 named_fact{fact::at_most, most_samples_per_gpu})
      .about(fact::samples_of_gpu);
}

}  // namespace detail

/// The plan itself where each part is at least 1 and their product fits into 64 bits; else
/// `errc::not_positive` or `errc::overflow` with the parts.
[[nodiscard]] constexpr result<batch_plan> validate(const batch_plan& plan) {
  if (plan.micro_batch < 1)
    return failure(errc::not_positive, named_fact{fact::micro_batch, plan.micro_batch});
  if (plan.data_parallel < 1)
    return failure(errc::not_positive, named_fact{fact::data_parallel, plan.data_parallel});
  if (plan.accumulation < 1)
    return failure(errc::not_positive, named_fact{fact::accumulation, plan.accumulation});
  if (!detail::checked_product(plan.micro_batch, plan.data_parallel, plan.accumulation).ok)
    return failure(errc::overflow,
                   named_fact{fact::micro_batch, plan.micro_batch},
                   named_fact{fact::data_parallel, plan.data_parallel},
                   named_fact{fact::accumulation, plan.accumulation});
  return plan;
}

}  // namespace gpuplan

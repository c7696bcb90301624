#pragma once

// The time model of a line: a fixed part and a part that grows with the micro-batch.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time_model.hpp>

#include <cstdint>

namespace gpuplan {

/// `step = accumulation * (fixed + per_sample * micro_batch)`. `fixed` holds what a micro-batch
/// takes whatever its size: launches, synchronisation, the optimizer. Since it is counted once per
/// micro-batch, the time of an accumulated step is an upper bound.
struct affine_time {
  duration fixed{};
  duration per_sample{};

  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return (fixed + per_sample * plan.micro_batch) * plan.accumulation;
  }
};

/// The model itself where both parts are finite, `fixed` is not negative and `per_sample` positive.
[[nodiscard]] constexpr result<affine_time> validate(const affine_time& model) {
  if (!detail::is_finite(model.fixed.value()))
    return failure(errc::not_finite, named_fact{fact::fixed, model.fixed.value()});
  if (model.fixed < duration{})
    return failure(errc::negative,
                   named_fact{fact::time_us, detail::as_fact(in(model.fixed, 1_us))})
        .about(fact::fixed);
  if (const failure why = detail::check_positive(model.per_sample, fact::per_sample);
      detail::failed(why))
    return why;
  return model;
}

/// The limit of `batch / time(batch)` for large batches: `1 / per_sample`. Precondition:
/// `per_sample` is positive, as it is in every fit.
[[nodiscard]] constexpr sample_rate saturation_throughput(const affine_time& model) {
  return samples_per(1, model.per_sample);
}

/// The smallest micro-batch whose throughput is at least `share` of the saturation throughput:
/// `per_sample * batch >= share * time(batch)`. With a share of 0.5 it is the knee, n_1/2 of
/// Hockney and Jesshope, "Parallel Computers 2", 1988: from there on the samples take at least as
/// long as what is fixed, and twice the batch gains at most a third. Errors: as `validate(model)`;
/// `out_of_bounds` for a share outside 0 to 1, or one that no batch up to 2^40 reaches: so it is of
/// 1 where something is fixed.
[[nodiscard]] constexpr result<std::int64_t> batch_at_saturation(const affine_time& model,
                                                                 double share) {
  if (const auto valid = validate(model); !valid) return valid.why();
  if (detail::is_nan(share)) return failure(errc::not_finite, named_fact{fact::share, share});
  const auto reaches = [&](std::int64_t n) {
    if (share == 1) return model.fixed == duration{};  // the sum below may round to its larger part
    return model.per_sample * n >= share * model.step({.micro_batch = n});
  };
  const std::int64_t batch = share >= 0 && share <= 1 ? detail::smallest_count(reaches) : 0;
  if (batch == 0)
    return failure(errc::out_of_bounds,
                   named_fact{fact::percent, detail::as_fact(share * 100)},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, share <= 1 ? 99 : 100})
        .about(fact::share);
  return batch;
}

}  // namespace gpuplan

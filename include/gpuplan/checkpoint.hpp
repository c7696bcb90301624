#pragma once

// Saved states of a run: how large, how many, how often.

#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// The bytes of a checkpoint, `parameters x per_parameter`; the rest of a training state (step,
/// schedule, random numbers) is small beside it. Per parameter: 2 for bf16 weights alone; 14 to
/// resume mixed-precision Adam, which are 2 and 12 for the fp32 copy and two moments (Rajbhandari
/// et al. 2020, "ZeRO", section 3.1: K = 12; gradients are not saved); 12 for Adam in fp32. Errors:
/// fewer than 1 parameter, a size that is not positive and finite.
[[nodiscard]] constexpr result<bytes> checkpoint_size(std::int64_t parameters,
                                                      bytes per_parameter) {
  if (parameters < 1) return failure(errc::not_positive, named_fact{fact::parameters, parameters});
  if (const failure why =
          detail::check_positive(per_parameter, 1_GB, fact::checkpoint_MB, fact::per_parameter);
      detail::failed(why))
    return why;
  return detail::positive_answer(bytes(parameters * per_parameter), fact::size);
}

/// How tensors are written to files.
enum class checkpoint_format {
  safetensors,  // weights by Hugging Face's libraries
  torch_save,   // one file by torch.save: an optimizer's state_dict
  distributed   // a folder by torch.distributed.checkpoint, of which each rank writes its shards
};

/// The bytes of files that hold so many tensors with so much data: `data + tensors x overhead`.
/// Each tensor has a name, a shape and, in archives, headers and padding: 110 bytes in safetensors,
/// 225 by torch.save, and 1950 in a distributed checkpoint, of each rank that has a part of it and
/// with its place in the metadata. There, embeddings that the head shares are written twice.
/// Measured of 24 models by PyTorch 2.15 and safetensors 0.8 (tests/run_time/checkpoint_files.cpp),
/// in which it is within 0.1 %, and of a rank's file of two models of 2 million parameters within
/// 0.5 %: 98 to 121, 219 to 263, and 1890 to 2140 bytes. Files of configuration, tokenizer and
/// trainer come besides. Errors: no tensor, data that is not positive and finite.
[[nodiscard]] constexpr result<bytes> file_size(bytes data,
                                                std::int64_t tensors,
                                                checkpoint_format format) {
  if (const failure why = detail::check_positive(data, 1_GB, fact::checkpoint_MB, fact::checkpoint);
      detail::failed(why))
    return why;
  if (const failure why = detail::check_at_least(tensors, 1, fact::value); detail::failed(why))
    return why;
  constexpr std::int64_t overheads[] = {110, 225, 1950};
  const std::int64_t each = overheads[static_cast<int>(format)];
  return detail::positive_answer(
      bytes(data + bytes::from_value(static_cast<double>(tensors) * static_cast<double>(each))),
      fact::size);
}

/// The checkpoints that a run writes: one after every `save_every` steps, `steps / save_every`
/// rounded down. Errors: fewer than 1 step in either.
[[nodiscard]] constexpr result<std::int64_t> checkpoints_saved(std::int64_t steps,
                                                               std::int64_t save_every) {
  if (steps < 1) return failure(errc::not_positive, named_fact{fact::steps, steps});
  if (save_every < 1)
    return failure(errc::not_positive, named_fact{fact::steps, save_every}).about(fact::save_every);
  return steps / save_every;
}

// ---- a quota

/// What a quota must hold: what is there already, the final model, and as many checkpoints as
/// there is room for.
struct checkpoint_storage {
  bytes quota{};
  range<bytes> used = bytes{};         // before the run
  range<bytes> final_model = bytes{};  // written at the end, beside the checkpoints
  range<bytes> checkpoint = bytes{};   // each
};

namespace detail {

constexpr failure flaw_of_size(range<bytes> size, fact name) {
  if (size.low() < bytes{})
    return failure(errc::negative, named_fact{fact::needed_MB, thousandths(in(size.low(), 1_GB))})
        .about(name);
  if (!is_finite(size.high().value())) return failure(errc::not_finite).about(name);
  return {};
}

constexpr failure exceeds_quota(const checkpoint_storage& storage, bytes other, bytes each) {
  return failure(errc::exceeds_quota,
                 named_fact{fact::checkpoint_MB, thousandths(in(each, 1_GB))},
                 named_fact{fact::free_MB, thousandths(in(storage.quota - other, 1_GB))});
}

}  // namespace detail

/// The storage itself where its sizes are finite, the quota and the checkpoint positive, and none
/// negative.
[[nodiscard]] constexpr result<checkpoint_storage> validate(const checkpoint_storage& storage) {
  if (const failure why = detail::check_positive(storage.quota, 1_GB, fact::free_MB, fact::quota);
      detail::failed(why))
    return why;
  if (const failure why =
          detail::check_positive(storage.checkpoint, 1_GB, fact::checkpoint_MB, fact::checkpoint);
      detail::failed(why))
    return why;
  if (const failure why = detail::flaw_of_size(storage.used, fact::used); detail::failed(why))
    return why;
  if (const failure why = detail::flaw_of_size(storage.final_model, fact::final_model);
      detail::failed(why))
    return why;
  return storage;
}

/// What `count` checkpoints take together with what else the quota must hold. Errors: a negative
/// count, `validate`, a sum that is not finite.
[[nodiscard]] constexpr result<range<bytes>> storage_needed(const checkpoint_storage& storage,
                                                            std::int64_t count) {
  if (const auto valid = validate(storage); !valid) return valid.why();
  if (count < 0) return failure(errc::negative, named_fact{fact::checkpoints, count});
  return detail::finite_answer(
      storage.used + storage.final_model + static_cast<double>(count) * storage.checkpoint,
      fact::storage);
}

namespace detail {

inline constexpr std::int64_t most_checkpoints = std::int64_t{1} << 40;

// The largest count for which all of it is at most the quota; 0 where nothing fits. Found by the
// comparison: rounding can put a quotient on the wrong side of a whole number.
constexpr std::int64_t checkpoints_within(bytes quota, bytes other, bytes each) {
  const auto fits = [&](std::int64_t count) {
    return other + static_cast<double>(count) * each <= quota;
  };
  if (!fits(1)) return 0;
  std::int64_t count = static_cast<std::int64_t>(((quota - other) / each).value());
  while (!fits(count)) --count;
  while (fits(count + 1)) ++count;
  return count;
}

}  // namespace detail

/// How many checkpoints the quota holds: from the count that is certain, every size at its upper
/// end, to the count that is possible, every size at its lower end. Errors: `validate`;
/// `exceeds_quota` where not even one is possible, with what one needs; `out_of_bounds` where a
/// checkpoint is less than 2^-40 of the quota.
[[nodiscard]] constexpr result<range<std::int64_t>> checkpoints_that_fit(
    const checkpoint_storage& storage) {
  if (const auto valid = validate(storage); !valid) return valid.why();
  if (storage.checkpoint.low() * detail::most_checkpoints < storage.quota)
    return failure(errc::out_of_bounds, named_fact{fact::at_most, detail::most_checkpoints})
        .about(fact::checkpoints);
  const range<bytes> other = storage.used + storage.final_model;
  const std::int64_t certain =
      detail::checkpoints_within(storage.quota, other.high(), storage.checkpoint.high());
  const std::int64_t possible =
      detail::checkpoints_within(storage.quota, other.low(), storage.checkpoint.low());
  if (possible == 0) return detail::exceeds_quota(storage, other.low(), storage.checkpoint.low());
  return range(certain, possible);
}

/// The shortest save interval, in steps, whose checkpoints the quota holds whatever the sizes turn
/// out to be: `steps / (n + 1) + 1` rounded down, for the `n` checkpoints that are certain to fit.
/// Where a run deletes old checkpoints (`save_total_limit`), the quota bounds how many it may keep
/// instead. Errors: fewer than 1 step; as `checkpoints_that_fit`, and `exceeds_quota` where one is
/// not certain to fit.
[[nodiscard]] constexpr result<std::int64_t> save_interval_within(const checkpoint_storage& storage,
                                                                  std::int64_t steps) {
  if (steps < 1) return failure(errc::not_positive, named_fact{fact::steps, steps});
  const auto fitting = checkpoints_that_fit(storage);
  if (!fitting) return fitting.why();
  if (fitting->low() == 0)
    return detail::exceeds_quota(
        storage, storage.used.high() + storage.final_model.high(), storage.checkpoint.high());
  return steps / (fitting->low() + 1) + 1;
}

// ---- failures

namespace detail {

constexpr failure flaw_of_saving(duration stall, duration mean_time_between_failures) {
  if (const failure why = check_positive(stall, fact::stall); failed(why)) return why;
  return check_positive(mean_time_between_failures, fact::mean_time_between_failures);
}

// exp(-y) - 1 + y for y >= 0, to the last digits also where y is small.
constexpr double over_line(double y) {
  if (y > 0.5) return exp(-y) - 1 + y;
  double sum = 1;
  for (int n = 16; n > 2; --n) sum = 1 - y / n * sum;
  return y * y / 2 * sum;
}

}  // namespace detail

// With d the time that a checkpoint stalls training and M the mean time between failures of the
// whole job: three estimates of the time of training between two checkpoints that loses least.
// Valid for failures that strike at a constant rate.

/// `sqrt(2 d M)`: J. W. Young, "A first order approximation to the optimum checkpoint interval",
/// CACM 17(9), 1974. Good where d is small beside M. Errors: a time, also the interval, that is not
/// positive and finite.
[[nodiscard]] constexpr result<duration> save_interval_of_young(
    duration stall, duration mean_time_between_failures) {
  if (const failure why = detail::flaw_of_saving(stall, mean_time_between_failures);
      detail::failed(why))
    return why;
  const double d = stall.value();
  const double m = mean_time_between_failures.value();
  return detail::positive_answer(duration::from_value(detail::sqrt(2 * d) * detail::sqrt(m)),
                                 fact::interval);
}

/// `sqrt(2 d M) (1 + x / 3 + x^2 / 9) - d` with `x = sqrt(d / (2 M))` for d < 2 M, else M: J. T.
/// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
/// Generation Computer Systems 22(3), 2006. Within 1 % of the best up to d = M / 5. Errors: a time,
/// also the interval, that is not positive and finite.
[[nodiscard]] constexpr result<duration> save_interval_for_failures(
    duration stall, duration mean_time_between_failures) {
  if (const failure why = detail::flaw_of_saving(stall, mean_time_between_failures);
      detail::failed(why))
    return why;
  const double d = stall.value();
  const double m = mean_time_between_failures.value();
  if (d / 2 >= m) return mean_time_between_failures;
  const double x = detail::sqrt(d / m / 2);
  // sqrt(2 d m) as 2 m x, which cannot overflow before its result does
  return detail::positive_answer(duration::from_value(2 * (m * x) * (1 + x / 3 + x * x / 9) - d),
                                 fact::interval);
}

/// The best itself, the t that makes `(exp((t + d) / M) - 1) / t` least: `exp(-y) - 1 + y = d / M`
/// for `y = (t + d) / M`, by Newton's method. How long a restart takes does not change it. Errors:
/// a time, also the interval, that is not positive and finite.
[[nodiscard]] constexpr result<duration> best_save_interval(duration stall,
                                                            duration mean_time_between_failures) {
  const auto first = save_interval_for_failures(stall, mean_time_between_failures);
  if (!first) return first;
  const double d = stall / mean_time_between_failures;
  if (d < 1e-20) return first;  // where Young's square root is exact
  double y = *first / mean_time_between_failures + d;
  for (int i = 0; i < 6; ++i) y += (detail::over_line(y) - d) / detail::exp_minus_1(-y);
  // t = y - d is 1 - exp(-y), without a difference of near numbers
  return detail::positive_answer(duration(-detail::exp_minus_1(-y) * mean_time_between_failures),
                                 fact::interval);
}

}  // namespace gpuplan

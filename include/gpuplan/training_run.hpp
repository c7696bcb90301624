#pragma once

// How long a training run is: in steps, in hours, and day by day.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

// ---- steps, samples, epochs

/// Whether the samples that do not fill the last batch of an epoch make a smaller batch (`kept`) or
/// are left out (`dropped`; PyTorch's `drop_last`).
enum class last_batch { kept, dropped };

/// A number of passes over a data set.
struct training_run {
  std::int64_t samples = 0;  // in the data set
  std::int64_t effective_batch = 1;
  std::int64_t epochs = 1;
  last_batch last = last_batch::kept;
};

/// The run itself where its numbers are at least 1, and `samples x epochs` fits into 64 bits; else
/// `errc::not_positive` or `errc::overflow`.
[[nodiscard]] constexpr result<training_run> validate(const training_run& run) {
  if (run.samples < 1) return failure(errc::not_positive, named_fact{fact::samples, run.samples});
  if (run.effective_batch < 1)
    return failure(errc::not_positive, named_fact{fact::effective_batch, run.effective_batch});
  if (run.epochs < 1) return failure(errc::not_positive, named_fact{fact::epochs, run.epochs});
  if (!detail::checked_product(run.samples, run.epochs).ok)
    return failure(errc::overflow,
                   named_fact{fact::samples, run.samples},
                   named_fact{fact::epochs, run.epochs});
  return run;
}

/// Optimizer steps of one epoch: `samples / effective_batch`, rounded up where the last batch is
/// kept and down where it is dropped; 0 where a dropped batch was the only one. Errors as
/// `validate`.
[[nodiscard]] constexpr result<std::int64_t> steps_per_epoch(const training_run& run) {
  if (const auto valid = validate(run); !valid) return valid.why();
  return run.last == last_batch::kept ? detail::ceil_div(run.samples, run.effective_batch)
                                      : detail::floor_div(run.samples, run.effective_batch);
}

/// Optimizer steps of all epochs. A batch does not reach over the end of an epoch. Errors as
/// `validate`.
[[nodiscard]] constexpr result<std::int64_t> total_steps(const training_run& run) {
  const auto each = steps_per_epoch(run);
  if (!each) return each.why();
  return *each * run.epochs;  // at most samples x epochs
}

/// Samples that all epochs process, repeats counted: those of dropped batches are not among them.
/// Errors as `validate`.
[[nodiscard]] constexpr result<std::int64_t> samples_seen(const training_run& run) {
  const auto each = steps_per_epoch(run);
  if (!each) return each.why();
  return run.epochs * (run.last == last_batch::kept ? run.samples : *each * run.effective_batch);
}

/// Samples that `steps` full batches process. Errors: a number below 1, a product beyond 64 bits.
[[nodiscard]] constexpr result<std::int64_t> samples_in(std::int64_t steps,
                                                        std::int64_t effective_batch) {
  if (steps < 1) return failure(errc::not_positive, named_fact{fact::steps, steps});
  if (effective_batch < 1)
    return failure(errc::not_positive, named_fact{fact::effective_batch, effective_batch});
  const auto product = detail::checked_product(steps, effective_batch);
  if (!product.ok)
    return failure(errc::overflow,
                   named_fact{fact::steps, steps},
                   named_fact{fact::effective_batch, effective_batch});
  return product.value;
}

/// Epochs that `steps` are, as a number with its fraction; `run.epochs` is not read. Errors: fewer
/// than 1 step, `validate`, an epoch of no step.
[[nodiscard]] constexpr result<double> epochs_in(std::int64_t steps, training_run run) {
  if (steps < 1) return failure(errc::not_positive, named_fact{fact::steps, steps});
  run.epochs = 1;
  const auto each = steps_per_epoch(run);
  if (!each) return each.why();
  if (*each == 0)
    return failure(errc::not_positive,
                   named_fact{fact::steps, 0},
                   named_fact{fact::samples, run.samples},
                   named_fact{fact::effective_batch, run.effective_batch});
  return static_cast<double>(steps) / static_cast<double>(*each);
}

// ---- hours

/// The time of `steps` at a step time: `steps x step`. Errors: fewer than 1 step, a time, also that
/// of all steps, that is not positive and finite.
[[nodiscard]] constexpr result<range<duration>> training_time(std::int64_t steps,
                                                              range<duration> step) {
  if (steps < 1) return failure(errc::not_positive, named_fact{fact::steps, steps});
  if (const failure why = detail::check_positive(step, fact::step); detail::failed(why)) return why;
  return detail::positive_answer(static_cast<double>(steps) * step, fact::time);
}

/// The time of `samples` at a throughput of all GPUs together: `samples / throughput`. Errors:
/// fewer than 1 sample, a rate or a time that is not positive and finite.
[[nodiscard]] constexpr result<range<duration>> training_time(std::int64_t samples,
                                                              range<sample_rate> throughput) {
  if (samples < 1) return failure(errc::not_positive, named_fact{fact::samples, samples});
  const range<double> per_second(throughput.low().value(), throughput.high().value());
  if (const failure why = detail::check_positive(per_second, fact::throughput); detail::failed(why))
    return why;
  return detail::positive_answer(static_cast<double>(samples) / per_second * 1_s, fact::time);
}

/// The time of `steps` of a plan by a time model. Errors: fewer than 1 step; what `validate` says
/// of the plan, of the model and of the plan by that model; a step time that is not positive and
/// finite.
template <time_model Model>
[[nodiscard]] constexpr result<range<duration>> training_time(std::int64_t steps,
                                                              const batch_plan& plan,
                                                              const Model& model) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  if constexpr (requires { validate(model); })
    if (const auto valid = validate(model); !valid) return valid.why();
  if constexpr (requires { validate(model, plan); })
    if (const auto valid = validate(model, plan); !valid) return valid.why();
  const duration step = model.step(plan);
  if (const failure why = detail::check_positive(step, fact::step); detail::failed(why)) return why;
  return training_time(steps, step);
}

/// A run as multiples of a reference run: of its work, and of the speed of its hardware.
struct run_ratios {
  range<double> work = 1.0;
  range<double> speed = 1.0;
};

/// The time of a run from that of a reference run on other hardware: `reference x work / speed`.
/// Errors: a time or a ratio that is not positive and finite.
[[nodiscard]] constexpr result<range<duration>> training_time(range<duration> reference,
                                                              const run_ratios& ratios) {
  if (const failure why = detail::check_positive(reference, fact::reference); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(ratios.work, fact::work); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(ratios.speed, fact::speed); detail::failed(why))
    return why;
  // A product beyond all numbers has no quotient.
  const auto worked = detail::positive_answer(reference * ratios.work, fact::time);
  if (!worked) return worked;
  return detail::positive_answer(*worked / ratios.speed, fact::time);
}

// ---- day by day

/// What of one stage runs on one day.
struct schedule_piece {
  std::int64_t day = 1;    // day 1 starts at hour 0, day d at hour 24 (d - 1)
  std::int64_t stage = 0;  // from 0
  duration begin{};        // since the start of the run
  duration end{};
  bool starts = false;     // the stage starts with this piece
  bool completes = false;  // and is complete with it

  friend constexpr bool operator==(const schedule_piece& a, const schedule_piece& b) {
    return a.day == b.day && a.stage == b.stage && a.begin == b.begin && a.end == b.end &&
           a.starts == b.starts && a.completes == b.completes;
  }
};

/// Stages that run one after another, cut where days end: a range of `schedule_piece` for `for`
/// loops, without allocation. It refers to the stage times, which outlive it. A stage that ends
/// within a microsecond of the end of a day ends with that day, so that rounding makes no pieces.
/// There are no pieces where `why()` is a failure: a stage time that is not positive and finite,
/// with its stage; no stage; or more than ten million days.
class schedule {
 public:
  struct end_mark {};

  class iterator {
   public:
    [[nodiscard]] constexpr const schedule_piece& operator*() const { return piece_; }
    constexpr iterator& operator++() {
      piece_.starts = piece_.completes;
      piece_.begin = piece_.end;
      if (piece_.completes) enter(piece_.stage + 1);
      if (!done_) cut();
      return *this;
    }
    [[nodiscard]] friend constexpr bool operator==(const iterator& at, end_mark) {
      return at.done_;
    }

   private:
    friend schedule;
    const schedule* schedule_ = nullptr;
    duration stage_end_{};
    schedule_piece piece_;
    bool done_ = false;

    constexpr void enter(std::int64_t stage) {
      piece_.stage = stage;
      done_ = stage == schedule_->count();
      if (!done_) stage_end_ += schedule_->stages_[static_cast<std::size_t>(stage)];
    }
    constexpr void cut() {
      piece_.day = 1 + static_cast<std::int64_t>(in(piece_.begin + rounding, 1_d));
      const duration day_end = piece_.day * 1_d;
      piece_.completes = stage_end_ <= day_end + rounding;
      piece_.end = piece_.completes ? stage_end_ : day_end;
    }
  };

  constexpr explicit schedule(std::span<const duration> stages) : stages_(stages) {
    why_ = flaw();
    if (detail::failed(why_)) stages_ = {};
    for (const duration& time : stages_) total_ += time;
  }

  [[nodiscard]] constexpr iterator begin() const {
    iterator first;
    first.schedule_ = this;
    first.piece_.starts = true;
    first.enter(0);
    if (!first.done_) first.cut();
    return first;
  }
  [[nodiscard]] constexpr end_mark end() const { return {}; }

  /// From the start of the first stage to the end of the last.
  [[nodiscard]] constexpr duration total() const { return total_; }

  /// The last day on which something runs; 0 without pieces.
  [[nodiscard]] constexpr std::int64_t days() const {
    std::int64_t last = 0;
    for (const schedule_piece& piece : *this) last = piece.day;
    return last;
  }

  [[nodiscard]] constexpr const failure& why() const { return why_; }

 private:
  static constexpr duration rounding = 1_us;
  static constexpr std::int64_t most_days = 10'000'000;  // to the day, doubles hold microseconds

  std::span<const duration> stages_;
  duration total_{};
  failure why_{};

  [[nodiscard]] constexpr std::int64_t count() const {
    return static_cast<std::int64_t>(stages_.size());
  }
  [[nodiscard]] constexpr failure flaw() const {
    if (stages_.empty()) return failure(errc::not_positive).about(fact::stages);
    duration total{};
    std::int64_t index = 0;
    for (const duration& time : stages_) {
      if (failure why = detail::check_positive(time, fact::stage_time); detail::failed(why)) {
        why.add(fact::stage, index);
        return why;
      }
      total += time;
      ++index;
    }
    if (total > most_days * 1_d)
      return failure(
                 errc::out_of_bounds,
                 named_fact{fact::days, detail::thousandths(detail::ceil(in(total, 1_d)) / 1e3)},
                 named_fact{fact::at_most, most_days})
          .about(fact::stages);
    return {};
  }
};

}  // namespace gpuplan

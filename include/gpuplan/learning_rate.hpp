#pragma once

// The learning rate for another effective batch, warm-up, and what a larger batch can still gain.
// Rules of thumb with a theory behind them: each says for which optimizer, and none replaces a run.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <concepts>
#include <cstdint>

namespace gpuplan {

/// A learning rate that is known to work, and the effective batch that it works at.
struct tuned_rate {
  range<double> learning_rate = 1.0;  // 1 where only factors are asked for
  std::int64_t effective_batch = 1;
};

/// The setting itself where its learning rate is positive and finite and its batch at least 1.
[[nodiscard]] constexpr result<tuned_rate> validate(const tuned_rate& tuned) {
  if (const failure why = detail::check_positive(tuned.learning_rate, fact::learning_rate);
      detail::failed(why))
    return why;
  if (tuned.effective_batch < 1)
    return failure(errc::not_positive, named_fact{fact::effective_batch, tuned.effective_batch});
  return tuned;
}

/// A rule that carries a tuned learning rate over to another effective batch. Any type with this
/// member is one; `scaled_learning_rate` has checked what it is given.
template <class Rule>
concept learning_rate_rule = requires(const Rule& rule,
                                      const tuned_rate& tuned,
                                      range<std::int64_t> effective_batch) {
  { rule.learning_rate(tuned, effective_batch) } -> std::same_as<result<range<double>>>;
};

/// The learning rate at `effective_batch` (samples of one optimizer step) by a rule. Errors:
/// `validate(tuned)`, a batch below 1 (`errc::not_positive`), a learning rate that comes out
/// neither positive nor finite, and those of the rule.
template <learning_rate_rule Rule>
[[nodiscard]] constexpr result<range<double>> scaled_learning_rate(
    const tuned_rate& tuned, range<std::int64_t> effective_batch, const Rule& rule) {
  if (const auto valid = validate(tuned); !valid) return valid.why();
  if (effective_batch.low() < 1)
    return failure(errc::not_positive,
                   named_fact{fact::effective_batch_low, effective_batch.low()});
  return rule.learning_rate(tuned, effective_batch);
}

namespace detail {

// How many times the tuned batch.
[[nodiscard]] constexpr range<double> growth(const tuned_rate& tuned,
                                             range<std::int64_t> effective_batch) {
  return effective_batch / tuned.effective_batch;
}

[[nodiscard]] constexpr range<double> sqrt(range<double> r) {
  return {sqrt(r.low()), sqrt(r.high())};
}

// beta at k times the batch; an optimizer without the average has none there either.
[[nodiscard]] constexpr result<range<double>> grown_beta(double beta, range<double> k, fact name) {
  if (const failure why = check_between(beta, 0, 1, name); failed(why)) return why;
  if (beta == 1) return about_range(errc::out_of_bounds, beta, name);
  if (beta == 0) return range<double>(0.0);
  const range<double> grown = 1.0 - k * (1 - beta);
  if (grown.low() <= 0) return about_range(errc::batch_too_far_for_adam, grown, name);
  return grown;
}

}  // namespace detail

/// The learning rate grows with the batch, `k = batch / tuned batch` times: SGD with momentum
/// (Goyal et al. 2017, arXiv:1706.02677, section 2.1). Held there up to 8192 images of ImageNet,
/// with a warm-up; calls for `warm_up`. Not for Adam.
struct linear_rule {
  [[nodiscard]] constexpr result<range<double>> learning_rate(
      const tuned_rate& tuned, range<std::int64_t> effective_batch) const {
    return detail::positive_answer(tuned.learning_rate * detail::growth(tuned, effective_batch),
                                   fact::learning_rate);
  }
};

/// The learning rate grows by `sqrt(k)`, so that the variance of a step stays (Krizhevsky 2014,
/// arXiv:1404.5997, for SGD, who found the linear rule to work better all the same). For Adam
/// take `adam_sde_rule`, which gives the same learning rate and the betas and epsilon with it.
struct square_root_rule {
  [[nodiscard]] constexpr result<range<double>> learning_rate(
      const tuned_rate& tuned, range<std::int64_t> effective_batch) const {
    return detail::positive_answer(
        tuned.learning_rate * detail::sqrt(detail::growth(tuned, effective_batch)),
        fact::learning_rate);
  }
};

/// The learning rate stays.
struct constant_rule {
  [[nodiscard]] constexpr result<range<double>> learning_rate(const tuned_rate& tuned,
                                                              range<std::int64_t>) const {
    return tuned.learning_rate;
  }
};

/// What Adam is set to, beside its weight decay.
struct adam_settings {
  range<double> learning_rate{};
  range<double> beta1{};
  range<double> beta2{};
  range<double> epsilon{};
};

/// Adam at another batch follows the same stochastic differential equation with learning rate
/// `lr * sqrt(k)`, `beta -> 1 - k (1 - beta)` for both betas, and `epsilon / sqrt(k)` (Malladi et
/// al. 2022, arXiv:2205.10287). The betas given belong to the tuned batch; the defaults are those
/// of Kingma and Ba 2015 and of PyTorch. Valid where the noise of the gradient outweighs the
/// gradient, and while `k (1 - beta) < 1`: with beta1 = 0.9, up to below ten times the batch. A
/// beta of 0 stays 0.
struct adam_sde_rule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  /// All settings at `effective_batch`. Errors: betas outside 0 to below 1, a negative or infinite
  /// epsilon; `errc::batch_too_far_for_adam` where a beta would come out at 0 or below.
  [[nodiscard]] constexpr result<adam_settings> settings(
      const tuned_rate& tuned, range<std::int64_t> effective_batch) const {
    if (const auto valid = validate(tuned); !valid) return valid.why();
    if (effective_batch.low() < 1)
      return failure(errc::not_positive,
                     named_fact{fact::effective_batch_low, effective_batch.low()});
    if (!detail::is_finite(epsilon))
      return failure(errc::not_finite, named_fact{fact::epsilon, epsilon});
    if (epsilon < 0) return failure(errc::negative, named_fact{fact::epsilon, epsilon});
    const range<double> k = detail::growth(tuned, effective_batch);
    const range<double> root = detail::sqrt(k);
    const auto grown1 = detail::grown_beta(beta1, k, fact::beta1);
    if (!grown1) return grown1.why();
    const auto grown2 = detail::grown_beta(beta2, k, fact::beta2);
    if (!grown2) return grown2.why();
    const auto rate = detail::positive_answer(tuned.learning_rate * root, fact::learning_rate);
    if (!rate) return rate.why();
    const auto scaled = detail::finite_answer(epsilon / root, fact::epsilon);
    if (!scaled) return scaled.why();
    return adam_settings{*rate, *grown1, *grown2, *scaled};
  }

  [[nodiscard]] constexpr result<range<double>> learning_rate(
      const tuned_rate& tuned, range<std::int64_t> effective_batch) const {
    const result<adam_settings> all = settings(tuned, effective_batch);
    if (!all) return all.why();
    return all->learning_rate;
  }
};

// ---- the critical batch size

/// The learning rate levels off at a ceiling as the batch passes the gradient noise scale B_noise:
/// `lr(B) = lr_max / (1 + B_noise / B)`, for SGD (McCandlish et al. 2018, arXiv:1812.06162, section
/// 2.2). Far below B_noise it is the linear rule. For Adam they found a power of it between 0.5 and
/// 1. B_noise is measured (their appendix A), and grows during training.
struct noise_scale_rule {
  range<double> noise_scale{};  // samples

  /// Errors: a noise scale that is not positive and finite.
  [[nodiscard]] constexpr result<range<double>> learning_rate(
      const tuned_rate& tuned, range<std::int64_t> effective_batch) const {
    if (const failure why = detail::check_positive(noise_scale, fact::noise_scale);
        detail::failed(why))
      return why;
    // Rises with the batch at every noise scale, and rises or falls with the noise scale at every
    // batch: the ends of both hold the range.
    const double least_batch = static_cast<double>(effective_batch.low());
    const double most_batch = static_cast<double>(effective_batch.high());
    const double tuned_batch = static_cast<double>(tuned.effective_batch);
    const auto factor = [&](double batch) {
      const double a = share_of_ceiling(batch, noise_scale.low()) /
                       share_of_ceiling(tuned_batch, noise_scale.low());
      const double b = share_of_ceiling(batch, noise_scale.high()) /
                       share_of_ceiling(tuned_batch, noise_scale.high());
      return hull(range(a), range(b));
    };
    return detail::positive_answer(
        tuned.learning_rate * hull(factor(least_batch), factor(most_batch)), fact::learning_rate);
  }

  /// The learning rate that no batch takes the optimum beyond: `lr (1 + B_noise / B)` of the tuned
  /// setting. Errors: `validate(tuned)`, a noise scale that is not positive and finite.
  [[nodiscard]] constexpr result<range<double>> ceiling(const tuned_rate& tuned) const {
    if (const auto valid = validate(tuned); !valid) return valid.why();
    if (const failure why = detail::check_positive(noise_scale, fact::noise_scale);
        detail::failed(why))
      return why;
    return detail::positive_answer(
        tuned.learning_rate * (1.0 + noise_scale / tuned.effective_batch), fact::learning_rate);
  }

 private:
  [[nodiscard]] static constexpr double share_of_ceiling(double batch, double noise) {
    return 1 / (1 + noise / batch);
  }
};

/// How training time and data trade off to one loss: with S optimizer steps and E samples,
/// `(S / least_steps - 1) (E / least_samples - 1) = 1` (McCandlish et al. 2018, arXiv:1812.06162,
/// section 2.3). Both are fitted to runs at several batches.
struct batch_trade_off {
  range<double> least_steps{};    // at a very large batch
  range<double> least_samples{};  // at a very small one

  /// The critical batch size, `least_samples / least_steps`: there, training takes twice the least
  /// steps and twice the least samples. Errors: a part, or an answer, that is not positive and
  /// finite.
  [[nodiscard]] constexpr result<range<double>> critical_batch() const {
    if (const failure why = flaw(); detail::failed(why)) return why;
    return detail::positive_answer(least_samples / least_steps, fact::critical_batch);
  }

  /// The optimizer steps at `effective_batch` B: `least_steps + least_samples / B`. Errors as
  /// above, a batch below 1.
  [[nodiscard]] constexpr result<range<double>> steps(range<std::int64_t> effective_batch) const {
    if (const failure why = flaw(effective_batch.low()); detail::failed(why)) return why;
    return detail::positive_answer(least_steps + least_samples / effective_batch, fact::steps);
  }

  /// The samples at `effective_batch` B: `least_samples + B least_steps`. Errors as above.
  [[nodiscard]] constexpr result<range<double>> samples(range<std::int64_t> effective_batch) const {
    if (const failure why = flaw(effective_batch.low()); detail::failed(why)) return why;
    return detail::positive_answer(least_samples + effective_batch * least_steps, fact::samples);
  }

 private:
  [[nodiscard]] constexpr failure flaw(std::int64_t effective_batch = 1) const {
    if (const failure why = detail::check_positive(least_steps, fact::least_steps);
        detail::failed(why))
      return why;
    if (const failure why = detail::check_positive(least_samples, fact::least_samples);
        detail::failed(why))
      return why;
    if (effective_batch < 1)
      return failure(errc::not_positive, named_fact{fact::effective_batch_low, effective_batch});
    return {};
  }
};

// ---- warm-up

/// Gradual warm-up: from one learning rate to another in equal increments over `steps` optimizer
/// steps, then constant. Goyal et al. 2017 (arXiv:1706.02677, section 2.2) start at the tuned rate
/// and reach the scaled one after five epochs; many trainers start at 0.
struct warm_up {
  range<double> from{};
  range<double> to{};
  std::int64_t steps = 0;

  /// The learning rate of optimizer step `step`, counted from 0. Errors: a negative `step` or
  /// `steps`, rates that are negative or not finite.
  [[nodiscard]] constexpr result<range<double>> learning_rate(std::int64_t step) const {
    for (const range<double>& rate : {from, to}) {
      if (rate.low() < 0) return detail::about_range(errc::negative, rate, fact::learning_rate);
      if (!detail::is_finite(rate.high()))
        return detail::about_range(errc::not_finite, rate, fact::learning_rate);
    }
    if (steps < 0) return failure(errc::negative, named_fact{fact::steps, steps});
    if (step < 0) return failure(errc::negative, named_fact{fact::step, step});
    if (step >= steps) return to;
    const double part = static_cast<double>(step) / static_cast<double>(steps);
    return from * (1 - part) + to * part;
  }
};

/// The five epochs of gradual warm-up of Goyal et al. 2017, section 2.2.
inline constexpr std::int64_t goyal_warm_up_epochs = 5;

/// A warm-up over whole epochs. Errors: a negative `epochs`, fewer than 1 step an epoch, more steps
/// than 64 bits count.
[[nodiscard]] constexpr result<warm_up> warm_up_over_epochs(range<double> from,
                                                            range<double> to,
                                                            std::int64_t epochs,
                                                            std::int64_t steps_per_epoch) {
  if (epochs < 0) return failure(errc::negative, named_fact{fact::epochs, epochs});
  if (steps_per_epoch < 1)
    return failure(errc::not_positive, named_fact{fact::steps_per_epoch, steps_per_epoch});
  const detail::checked_integer steps = detail::checked_product(epochs, steps_per_epoch);
  if (!steps.ok)
    return failure(errc::overflow,
                   named_fact{fact::epochs, epochs},
                   named_fact{fact::steps_per_epoch, steps_per_epoch});
  return warm_up{from, to, steps.value};
}

// ---- the schedule of a run

/// How a learning rate falls: not at all, in a line, as half a cosine, or as one less the square
/// root of the way (Haegele et al. 2024, arXiv:2405.18392).
enum class rate_decay { none, linear, cosine, one_minus_sqrt };

namespace detail {

// The cosine of pi x for x from 0 to 1, within 1e-16: the series of the sine of pi (1/2 - x).
constexpr double cosine_of_half_turns(double x) {
  const double y = (0.5 - x) * 3.14159265358979323846;
  double sum = 1;
  for (int n = 20; n >= 2; n -= 2) sum = 1 - y * y / (n * (n + 1)) * sum;
  return y * sum;
}

}  // namespace detail

/// The learning rate over a run: it rises in a line from `first` to `peak` in `warm_up_steps`,
/// stays for `stable_steps`, falls to `least` within `decay_steps`, and stays there. transformers'
/// linear and cosine schedules have no stable steps, its warmup_stable_decay (MiniCPM's WSD, Hu et
/// al. 2024, arXiv:2404.06395) some, and its constant ones no decay.
struct learning_rate_schedule {
  double peak = 0;
  double first = 0;
  double least = 0;
  std::int64_t warm_up_steps = 0;
  std::int64_t stable_steps = 0;
  std::int64_t decay_steps = 0;
  rate_decay decay = rate_decay::none;

  /// The learning rate of optimizer step `step`, counted from 0. Errors: rates that are negative or
  /// not finite, a peak of 0 or below another rate (`out_of_bounds`), negative steps.
  [[nodiscard]] constexpr result<double> learning_rate(std::int64_t step) const {
    if (const failure why = detail::check_positive(peak, fact::learning_rate); detail::failed(why))
      return why;
    for (const double other : {first, least}) {
      if (!detail::is_finite(other))
        return failure(errc::not_finite, named_fact{fact::learning_rate, other});
      if (other < 0) return failure(errc::negative, named_fact{fact::learning_rate, other});
      if (other > peak)
        return failure(errc::out_of_bounds,
                       named_fact{fact::learning_rate, other},
                       named_fact{fact::high, peak});
    }
    for (const std::int64_t count : {warm_up_steps, stable_steps, decay_steps})
      if (count < 0) return failure(errc::negative, named_fact{fact::steps, count});
    if (step < 0) return failure(errc::negative, named_fact{fact::step, step});
    if (step < warm_up_steps) return warm_up{first, peak, warm_up_steps}.learning_rate(step)->low();
    step -= warm_up_steps;
    if (step < stable_steps || decay == rate_decay::none) return peak;
    step -= stable_steps;
    if (step >= decay_steps) return least;
    const double way = static_cast<double>(step) / static_cast<double>(decay_steps);
    return least + (peak - least) * left_after(way);
  }

 private:
  [[nodiscard]] constexpr double left_after(double way) const {
    // Rounding may end below 0.
    if (decay == rate_decay::cosine)
      return detail::larger_of(0, 0.5 + 0.5 * detail::cosine_of_half_turns(way));
    return 1 - (decay == rate_decay::linear ? way : detail::sqrt(way));
  }
};

}  // namespace gpuplan

#pragma once

// Which model and how many tokens a budget of computation buys, what repeated tokens are worth, and
// what a larger batch costs. Each rule with its source; none replaces a run.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

// ---- computation

/// A dense model of so many parameters, trained on so many tokens.
struct model_and_tokens {
  double parameters = 0;
  double tokens = 0;
};

namespace detail {

constexpr failure flaw_of(const model_and_tokens& trained) {
  if (const failure why = check_positive(trained.parameters, fact::parameters); failed(why))
    return why;
  return check_positive(trained.tokens, fact::tokens);
}

}  // namespace detail

/// The computation of training: 6 FLOP a parameter and token (Kaplan et al. 2020,
/// arXiv:2001.08361, section 2.1), which leaves attention's products of tokens with tokens out: for
/// a model and length of its own see flops.hpp. Errors: a number, also the answer, that is not
/// positive and finite.
[[nodiscard]] constexpr result<flop_count> training_flops(const model_and_tokens& trained) {
  if (const failure why = detail::flaw_of(trained); detail::failed(why)) return why;
  return detail::positive_answer(flop_count::from_value(6 * trained.parameters * trained.tokens),
                                 fact::work);
}

/// What devices compute in a time at the rate that training reaches on each: the peak times the
/// MFU. Errors: a number, also the answer, that is not positive and finite.
[[nodiscard]] constexpr result<flop_count> computation_in(duration time,
                                                          std::int64_t devices,
                                                          compute_rate reached) {
  if (const failure why = detail::check_positive(time, fact::time); detail::failed(why)) return why;
  if (devices < 1) return failure(errc::not_positive, named_fact{fact::devices, devices});
  if (const failure why = detail::check_positive(reached.value(), fact::speed); detail::failed(why))
    return why;
  return detail::positive_answer(flop_count(static_cast<double>(devices) * (time * reached)),
                                 fact::work);
}

/// What a sum of money computes at a price of a device. Errors as above.
[[nodiscard]] constexpr result<flop_count> computation_for(money budget,
                                                           price each,
                                                           compute_rate reached) {
  if (const failure why = detail::check_positive(budget.value(), fact::cost); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(each.value(), fact::price_per_hour);
      detail::failed(why))
    return why;
  const auto held = detail::positive_answer(duration(budget / each), fact::time);
  if (!held) return held.why();
  return computation_in(*held, 1, reached);
}

// ---- how many parameters, how many tokens

/// The rule that Hoffmann et al. 2022 (arXiv:2203.15556, table 3) are quoted for: so many tokens a
/// parameter.
inline constexpr double chinchilla_tokens_per_parameter = 20;

/// The model and tokens of a computation at so many tokens a parameter r: `N = sqrt(C / (6 r))`,
/// `D = r N`. A smaller model on more tokens costs less to run later. Errors: a number, also the
/// answer, that is not positive and finite.
[[nodiscard]] constexpr result<model_and_tokens> bought_by(
    flop_count computation, double tokens_per_parameter = chinchilla_tokens_per_parameter) {
  if (const failure why = detail::check_positive(computation.value(), fact::work);
      detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(tokens_per_parameter, fact::factor);
      detail::failed(why))
    return why;
  const double parameters = detail::sqrt(computation.value() / 6 / tokens_per_parameter);
  const model_and_tokens found{parameters, tokens_per_parameter * parameters};
  if (const failure why = detail::flaw_of(found); detail::failed(why)) return why;
  return found;
}

/// The loss of a model of N parameters after D tokens, `E + A / N^alpha + B / D^beta`, in nats a
/// token, as fitted to runs on one data set with one tokenizer: what it says of which model to
/// train holds elsewhere, the loss itself does not.
struct loss_law {
  double least = 0;  // E
  double a = 0;      // of parameters
  double b = 0;      // of tokens
  double alpha = 0;
  double beta = 0;

  /// Errors: constants, numbers, also the answer, that are not positive and finite.
  [[nodiscard]] constexpr result<double> loss(const model_and_tokens& trained) const {
    if (const failure why = flaw(); detail::failed(why)) return why;
    if (const failure why = detail::flaw_of(trained); detail::failed(why)) return why;
    return detail::positive_answer(
        least + a / detail::pow(trained.parameters, alpha) + b / detail::pow(trained.tokens, beta),
        fact::value);
  }

  /// The model and tokens of least loss at `C = 6 N D`: `N = G (C / 6)^(beta / (alpha + beta))`
  /// with `G = (alpha A / (beta B))^(1 / (alpha + beta))`, and `D = C / 6 / N` (Hoffmann et al.
  /// 2022, equation 4). Errors as above.
  [[nodiscard]] constexpr result<model_and_tokens> bought_by(flop_count computation) const {
    if (const failure why = flaw(); detail::failed(why)) return why;
    if (const failure why = detail::check_positive(computation.value(), fact::work);
        detail::failed(why))
      return why;
    const double product = computation.value() / 6;
    const double sum = alpha + beta;
    const double parameters =
        detail::pow(alpha * a / (beta * b), 1 / sum) * detail::pow(product, beta / sum);
    const model_and_tokens found{parameters, product / parameters};
    if (const failure why = detail::flaw_of(found); detail::failed(why)) return why;
    return found;
  }

 private:
  [[nodiscard]] constexpr failure flaw() const {
    for (const double constant : {least, a, b, alpha, beta})
      if (const failure why = detail::check_positive(constant, fact::factor); detail::failed(why))
        return why;
    return {};
  }
};

/// As Hoffmann et al. 2022 (arXiv:2203.15556, appendix D.3) printed it.
inline constexpr loss_law hoffmann_2022{
    .least = 1.69, .a = 406.4, .b = 410.7, .alpha = 0.34, .beta = 0.28};
/// As Besiroglu et al. 2024 (arXiv:2404.10102) fitted it to the same runs anew: it agrees with
/// about 20 tokens a parameter, which the constants above do not.
inline constexpr loss_law besiroglu_2024{
    .least = 1.8172, .a = 482.01, .b = 2085.43, .alpha = 0.3478, .beta = 0.3658};

// ---- epochs over unique data

/// What tokens of which only so many are unique are worth, as unique ones: `U + U R* (1 - exp(-R /
/// R*))` after R repetitions (epochs less one), with R* = 15.39 (Muennighoff et al. 2023,
/// arXiv:2305.16264, equation 5). Four epochs are worth 3.7, forty 15, and none more than 16.4.
/// Errors: a number that is not positive and finite.
[[nodiscard]] constexpr result<double> worth_of_tokens(double tokens, double unique) {
  if (const failure why = detail::check_positive(tokens, fact::tokens); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(unique, fact::tokens); detail::failed(why))
    return why;
  if (tokens <= unique) return tokens;
  constexpr double decay = 15.39;
  const double repetitions = tokens / unique - 1;
  return detail::positive_answer(
      unique + unique * (decay * (1 - detail::exp(-repetitions / decay))), fact::tokens);
}

// ---- what a larger batch costs

/// The critical batch in tokens at a loss, `2.1e8 / L^4.8` (Kaplan et al. 2020, arXiv:2001.08361,
/// equation 1.4: B* = 2.1e8 tokens and alpha_B = 0.21, for their data and tokenizer). It grows as
/// the loss falls, and the loss is in nats a token. Errors: a loss, also the batch, that is not
/// positive and finite.
[[nodiscard]] constexpr result<double> critical_batch_at(double loss) {
  if (const failure why = detail::check_positive(loss, fact::value); detail::failed(why))
    return why;
  return detail::positive_answer(2.1e8 / detail::pow(loss, 1 / 0.21), fact::critical_batch);
}

/// Steps and samples at a batch, as multiples of the least that any batch takes.
struct batch_price {
  double steps = 0;    // of those at a very large batch
  double samples = 0;  // of those at a very small one
};

/// `1 + B_crit / B` times the least steps and `1 + B / B_crit` times the least samples, to one loss
/// (McCandlish et al. 2018, arXiv:1812.06162, section 2.3). Batches in one unit, samples or tokens.
/// Errors: a batch, also an answer, that is not positive and finite.
[[nodiscard]] constexpr result<batch_price> price_of_batch(double batch, double critical_batch) {
  if (const failure why = detail::check_positive(batch, fact::effective_batch); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(critical_batch, fact::critical_batch);
      detail::failed(why))
    return why;
  const batch_price found{1 + critical_batch / batch, 1 + batch / critical_batch};
  for (const double part : {found.steps, found.samples})
    if (const failure why = detail::check_positive(part, fact::factor); detail::failed(why))
      return why;
  return found;
}

/// What `tokens` at a tuned batch become at another one, to the same loss: times the ratio of
/// `samples` of `price_of_batch`. Errors as there, and of tokens.
[[nodiscard]] constexpr result<double> tokens_at_batch(double tokens,
                                                       double tuned_batch,
                                                       double batch,
                                                       double critical_batch) {
  if (const failure why = detail::check_positive(tokens, fact::tokens); detail::failed(why))
    return why;
  const auto before = price_of_batch(tuned_batch, critical_batch);
  if (!before) return before.why();
  const auto after = price_of_batch(batch, critical_batch);
  if (!after) return after.why();
  return detail::positive_answer(tokens * (after->samples / before->samples), fact::tokens);
}

}  // namespace gpuplan

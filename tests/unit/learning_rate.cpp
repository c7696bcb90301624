#include <gpuplan/learning_rate.hpp>
#include <gpuplan/require.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) {
  return detail::abs(a - b) <= 1e-12 * (detail::abs(b) + 1e-300);
}
constexpr bool near(range<double> a, range<double> b) {
  return near(a.low(), b.low()) && near(a.high(), b.high());
}

constexpr std::int64_t most_int64 = 0x7fff'ffff'ffff'ffff;

// Goyal et al. 2017: ResNet-50 on ImageNet.
constexpr tuned_rate resnet{.learning_rate = 0.1, .effective_batch = 256};

// A user's own rule: the cube root.
struct cube_root_rule {
  constexpr result<range<double>> learning_rate(const tuned_rate& tuned,
                                                range<std::int64_t> batch) const {
    const auto root = [&](std::int64_t b) {
      const double k = static_cast<double>(b) / static_cast<double>(tuned.effective_batch);
      return detail::pow(k, 1.0 / 3);
    };
    return tuned.learning_rate * range<double>(root(batch.low()), root(batch.high()));
  }
};
struct no_rule {};

// The range of a rule over ranges holds each point's answer, and its ends are reached.
template <class Rule>
constexpr bool holds_every_point(const Rule& rule, range<std::int64_t> batches) {
  const tuned_rate low{.learning_rate = 0.05, .effective_batch = 256};
  const tuned_rate high{.learning_rate = 0.2, .effective_batch = 256};
  const range<double> all =
      *scaled_learning_rate({.learning_rate = {0.05, 0.2}, .effective_batch = 256}, batches, rule);
  double least = 1e9;
  double most = 0;
  for (std::int64_t batch = batches.low(); batch <= batches.high(); ++batch)
    for (const tuned_rate& tuned : {low, high}) {
      const range<double> one = *scaled_learning_rate(tuned, batch, rule);
      if (!all.contains(one)) return false;
      least = one.low() < least ? one.low() : least;
      most = one.high() > most ? one.high() : most;
    }
  return near(all, {least, most});
}

constexpr bool noise_scale_holds_every_point() {
  // A tuned batch inside the range: the answer falls with the noise scale below it and rises above.
  const noise_scale_rule rule{.noise_scale = {500, 3000}};
  const tuned_rate tuned{.learning_rate = 0.1, .effective_batch = 256};
  const range<double> all = *scaled_learning_rate(tuned, {64, 1024}, rule);
  double least = 1e9;
  double most = 0;
  for (int batch = 64; batch <= 1024; batch += 64)
    for (int noise = 500; noise <= 3000; noise += 500) {
      const double one = 0.1 * (1 + noise / 256.0) / (1 + noise / static_cast<double>(batch));
      if (one < all.low() * (1 - 1e-12) || one > all.high() * (1 + 1e-12)) return false;
      least = one < least ? one : least;
      most = one > most ? one : most;
    }
  return near(all, {least, most});
}

// A step of SGD on a quadratic loss with gradient g, curvature h and noise variance s per sample
// gains `lr g^2 - lr^2 h (g^2 + s / B) / 2`. The best rate, searched for, follows the rule with
// noise scale `s / g^2`.
constexpr bool noise_scale_is_the_best_rate_on_a_quadratic() {
  const double g = 2;
  const double h = 4;
  const double s = 800;
  const auto best = [&](double batch) {
    double low = 0;
    double high = 1;
    const auto gain = [&](double lr) { return lr * g * g - lr * lr * h * (g * g + s / batch) / 2; };
    for (int i = 0; i < 200; ++i) {
      const double a = low + (high - low) / 3;
      const double b = high - (high - low) / 3;
      (gain(a) < gain(b) ? low : high) = gain(a) < gain(b) ? a : b;
    }
    return (low + high) / 2;
  };
  const tuned_rate tuned{.learning_rate = best(50), .effective_batch = 50};
  const noise_scale_rule rule{.noise_scale = s / (g * g)};
  for (int batch : {1, 20, 50, 200, 5000}) {
    const double found = best(batch);
    const double by_rule = scaled_learning_rate(tuned, batch, rule)->low();
    if (detail::abs(found / by_rule - 1) > 1e-6) return false;
  }
  return detail::abs(best(1e12) / rule.ceiling(tuned)->low() - 1) < 1e-6;
}

// Adam's averages over the samples seen, rather than over steps: k steps of the small batch and one
// of the k times larger keep the same share of the old average, to first order in 1 - beta.
constexpr bool betas_keep_the_memory_in_samples() {
  const adam_sde_rule rule{.beta1 = 0.9999, .beta2 = 0.99999};
  for (int k : {2, 8, 32}) {
    const adam_settings s = *rule.settings({.learning_rate = 1e-3, .effective_batch = 64}, 64 * k);
    double kept1 = 1;
    double kept2 = 1;
    for (int i = 0; i < k; ++i) {
      kept1 *= rule.beta1;
      kept2 *= rule.beta2;
    }
    if (detail::abs(s.beta1.low() - kept1) > 1e-5) return false;
    if (detail::abs(s.beta2.low() - kept2) > 1e-7) return false;
  }
  return true;
}

constexpr batch_trade_off trade{.least_steps = {1000, 1500}, .least_samples = {2e6, 3e6}};

constexpr bool trade_off_is_the_hyperbola() {
  const batch_trade_off point{.least_steps = 1000.0, .least_samples = 2e6};
  for (std::int64_t batch : {1, 7, 2000, 100000}) {
    const double s = point.steps(batch)->low();
    const double e = point.samples(batch)->low();
    if (!near(e, s * static_cast<double>(batch))) return false;
    if (detail::abs((s / 1000 - 1) * (e / 2e6 - 1) - 1) > 1e-9) return false;
  }
  return near(point.steps(2000)->low(), 2000) && near(point.samples(2000)->low(), 4e6);
}

// Goyal's warm-up, step by step: each adds the same amount.
constexpr bool warm_up_is_even() {
  const warm_up up = *warm_up_over_epochs(0.1, 3.2, goyal_warm_up_epochs, 157);
  if (up.steps != 785) return false;
  if (warm_up_over_epochs(0.1, 3.2, 0, 157)->steps != 0) return false;
  double rate = 0.1;
  for (std::int64_t step = 0; step < 800; ++step) {
    if (detail::abs(up.learning_rate(step)->low() - rate) > 1e-9) return false;
    if (step < 785) rate += (3.2 - 0.1) / 785;
  }
  return up.learning_rate(784)->high() < 3.2 && up.learning_rate(785)->low() == 3.2;
}

}  // namespace

TEST_CASE("a rule is a type, one's own included") {
  STATIC_CHECK(learning_rate_rule<linear_rule>);
  STATIC_CHECK(learning_rate_rule<square_root_rule>);
  STATIC_CHECK(learning_rate_rule<constant_rule>);
  STATIC_CHECK(learning_rate_rule<adam_sde_rule>);
  STATIC_CHECK(learning_rate_rule<noise_scale_rule>);
  STATIC_CHECK(!learning_rate_rule<no_rule>);
  STATIC_CHECK(near(scaled_learning_rate(resnet, 2048, cube_root_rule{})->low(), 0.1 * 2));
}

TEST_CASE("the linear rule: 0.1 at 256 is 3.2 at 8192") {
  STATIC_CHECK(near(scaled_learning_rate(resnet, 8192, linear_rule{})->low(), 3.2));
  STATIC_CHECK(near(*scaled_learning_rate(resnet, {128, 512}, linear_rule{}), {0.05, 0.2}));
  STATIC_CHECK(holds_every_point(linear_rule{}, {100, 600}));
}

TEST_CASE("the square root, and none") {
  STATIC_CHECK(near(scaled_learning_rate(resnet, 4096, square_root_rule{})->low(), 0.4));
  STATIC_CHECK(near(*scaled_learning_rate({}, {4, 9}, square_root_rule{}), {2.0, 3.0}));
  STATIC_CHECK(holds_every_point(square_root_rule{}, {100, 300}));
  STATIC_CHECK(*scaled_learning_rate(resnet, {1, 9999}, constant_rule{}) == range(0.1));
}

TEST_CASE("Adam by its stochastic differential equation") {
  CONSTEXPR auto four = *adam_sde_rule{}.settings({2e-5, 32}, 128);
  STATIC_CHECK(near(four.learning_rate.low(), 4e-5));
  STATIC_CHECK(near(four.beta1.low(), 0.6));
  STATIC_CHECK(near(four.beta2.low(), 0.996));
  STATIC_CHECK(near(four.epsilon.low(), 5e-9));
  STATIC_CHECK(near(scaled_learning_rate({2e-5, 32}, 128, adam_sde_rule{})->low(), 4e-5));
  CONSTEXPR auto span = *adam_sde_rule{}.settings({1e-3, 64}, {64, 256});
  STATIC_CHECK(near(span.beta1, {0.6, 0.9}));
  STATIC_CHECK(near(span.epsilon, {5e-9, 1e-8}));
  // A smaller batch, and the same one.
  STATIC_CHECK(near(adam_sde_rule{}.settings({1e-3, 64}, 16)->beta1.low(), 0.975));
  STATIC_CHECK(near(adam_sde_rule{}.settings({1e-3, 64}, 64)->beta1.low(), 0.9));
  STATIC_CHECK(betas_keep_the_memory_in_samples());
  // Without a first moment there is none at any batch.
  STATIC_CHECK(adam_sde_rule{.beta1 = 0}.settings({1e-3, 64}, 256)->beta1 == range(0.0));
}

TEST_CASE("Adam's rule ends where a beta would reach zero") {
  STATIC_CHECK(adam_sde_rule{}.settings({2e-5, 32}, 9 * 32));
  CONSTEXPR auto too_far = adam_sde_rule{}.settings({2e-5, 32}, {256, 512});
  STATIC_CHECK(too_far.why() == failure(errc::batch_too_far_for_adam,
                                        named_fact{fact::low_thousandths, -600},
                                        named_fact{fact::high_thousandths, 200})
                                    .about(fact::beta1));
  STATIC_CHECK(adam_sde_rule{.beta1 = 0.5}.settings({1, 1}, 2).why().code ==
               errc::batch_too_far_for_adam);
  STATIC_CHECK(adam_sde_rule{.beta1 = 0.999, .beta2 = 0.9}.settings({1, 1}, 11).why().at_fault() ==
               fact::beta2);
  STATIC_CHECK(scaled_learning_rate({2e-5, 32}, 512, adam_sde_rule{}).why().code ==
               errc::batch_too_far_for_adam);
  STATIC_CHECK(adam_sde_rule{.beta1 = 1.5}.settings({1, 1}, 2).why().at_fault() == fact::beta1);
  STATIC_CHECK(adam_sde_rule{.beta1 = 1.5}.settings({1, 1}, 2).why().code == errc::out_of_bounds);
}

TEST_CASE("the ceiling of the gradient noise scale") {
  STATIC_CHECK(noise_scale_is_the_best_rate_on_a_quadratic());
  STATIC_CHECK(noise_scale_holds_every_point());
  STATIC_CHECK(holds_every_point(noise_scale_rule{.noise_scale = 1000.0}, {100, 300}));
  // Half of the ceiling at the noise scale itself.
  STATIC_CHECK(near(noise_scale_rule{.noise_scale = 256.0}.ceiling(resnet)->low(), 0.2));
  STATIC_CHECK(near(*noise_scale_rule{.noise_scale = {256, 512}}.ceiling(resnet), {0.2, 0.3}));
}

TEST_CASE("steps against samples") {
  STATIC_CHECK(trade_off_is_the_hyperbola());
  STATIC_CHECK(near(*trade.critical_batch(), {2e6 / 1500, 3000.0}));
  STATIC_CHECK(near(*trade.steps({1000, 2000}), {2000.0, 4500.0}));
  STATIC_CHECK(near(*trade.samples({1000, 2000}), {3e6, 6e6}));
}

TEST_CASE("warm-up") {
  STATIC_CHECK(warm_up_is_even());
  STATIC_CHECK(warm_up{.from = 0.0, .to = {1, 2}, .steps = 4}.learning_rate(1).value_or_throw() ==
               range(0.25, 0.5));
  STATIC_CHECK(warm_up{.from = 0.0, .to = 1.0}.learning_rate(0)->low() == 1);  // no warm-up
}

TEST_CASE("bad input is named") {
  STATIC_CHECK(scaled_learning_rate({.learning_rate = 0.0}, 1, linear_rule{}).why() ==
               failure(errc::not_positive,
                       named_fact{fact::low_thousandths, 0},
                       named_fact{fact::high_thousandths, 0})
                   .about(fact::learning_rate));
  STATIC_CHECK(scaled_learning_rate({.effective_batch = 0}, 1, linear_rule{}).why() ==
               failure(errc::not_positive, named_fact{fact::effective_batch, 0}));
  STATIC_CHECK(scaled_learning_rate({}, {0, 5}, linear_rule{}).why() ==
               failure(errc::not_positive, named_fact{fact::effective_batch_low, 0}));
  STATIC_CHECK(scaled_learning_rate({}, 5, noise_scale_rule{}).why().code == errc::not_positive);
  STATIC_CHECK(noise_scale_rule{}.ceiling({}).why().code == errc::not_positive);
  STATIC_CHECK(noise_scale_rule{.noise_scale = 1.0}.ceiling({.effective_batch = -1}).why().code ==
               errc::not_positive);
  STATIC_CHECK(adam_sde_rule{}.settings({1, 1}, 0).why().code == errc::not_positive);
  STATIC_CHECK(adam_sde_rule{}.settings({1, 0}, 1).why().code == errc::not_positive);
  STATIC_CHECK(adam_sde_rule{.beta1 = 1}.settings({1, 1}, 1).why().code == errc::out_of_bounds);
  STATIC_CHECK(adam_sde_rule{.beta2 = -1}.settings({1, 1}, 1).why()[fact::low_thousandths] ==
               -1000);
  STATIC_CHECK(adam_sde_rule{.beta2 = detail::not_a_number}.settings({1, 1}, 1).why().code ==
               errc::not_finite);
  STATIC_CHECK(adam_sde_rule{.epsilon = -1}.settings({1, 1}, 1).why().code == errc::negative);
  STATIC_CHECK(adam_sde_rule{.epsilon = detail::infinity}.settings({1, 1}, 1).why().code ==
               errc::not_finite);
  STATIC_CHECK(batch_trade_off{.least_steps = 1.0}.critical_batch().why().at_fault() ==
               fact::least_samples);
  STATIC_CHECK(batch_trade_off{}.steps(1).why().code == errc::not_positive);
  STATIC_CHECK(trade.steps(0).why()[fact::effective_batch_low] == 0);
  STATIC_CHECK(trade.samples({-1, 1}).why()[fact::effective_batch_low] == -1);
  STATIC_CHECK(warm_up{.from = -1.0}.learning_rate(0).why().code == errc::negative);
  STATIC_CHECK(warm_up{.to = detail::infinity}.learning_rate(0).why().code == errc::not_finite);
  STATIC_CHECK(warm_up{.steps = -1}.learning_rate(0).why()[fact::steps] == -1);
  STATIC_CHECK(warm_up{}.learning_rate(-1).why()[fact::step] == -1);
  STATIC_CHECK(warm_up_over_epochs(0, 1, -5, 10).why()[fact::epochs] == -5);
  STATIC_CHECK(warm_up_over_epochs(0, 1, 5, 0).why().code == errc::not_positive);
  STATIC_CHECK(warm_up_over_epochs(0, 1, 5, most_int64).why().code == errc::overflow);
}

namespace {

// What transformers 5.24 has at these steps: the functions behind get_linear_schedule_with_warmup,
// get_cosine_schedule_with_warmup, get_cosine_with_min_lr_schedule_with_warmup,
// get_constant_schedule_with_warmup and get_wsd_schedule, called with num_warmup_steps 100,
// num_training_steps 1000, and of the last 600 stable steps, 300 of decay and min_lr_ratio 0.1.
constexpr std::int64_t asked_steps[] = {
    0, 1, 37, 99, 100, 101, 350, 699, 700, 701, 850, 949, 999, 1000};

struct known_schedule {
  learning_rate_schedule schedule;
  double rates[std::size(asked_steps)];
};

constexpr learning_rate_schedule wsd(rate_decay decay) {
  return {.peak = 1,
          .first = 0.1,
          .least = 0.1,
          .warm_up_steps = 100,
          .stable_steps = 600,
          .decay_steps = 300,
          .decay = decay};
}

constexpr known_schedule schedules_of_transformers[] = {
    {{.peak = 1, .warm_up_steps = 100, .decay_steps = 900, .decay = rate_decay::linear},
     {0.0,
      0.01,
      0.37,
      0.99,
      1.0,
      0.9988888888888889,
      0.7222222222222222,
      0.33444444444444443,
      0.3333333333333333,
      0.3322222222222222,
      0.16666666666666666,
      0.056666666666666664,
      0.0011111111111111111,
      0.0}},
    {{.peak = 1, .warm_up_steps = 100, .decay_steps = 900, .decay = rate_decay::cosine},
     {0.0,
      0.01,
      0.37,
      0.99,
      1.0,
      0.9999969538288952,
      0.8213938048432696,
      0.25151301948622234,
      0.2500000000000001,
      0.24849002668488246,
      0.06698729810778065,
      0.00790219601537906,
      3.046171104803541e-06,
      0.0}},
    {{.peak = 1,
      .least = 0.1,
      .warm_up_steps = 100,
      .decay_steps = 900,
      .decay = rate_decay::cosine},
     {0.0,
      0.01,
      0.37,
      0.99,
      1.0,
      0.9999972584460056,
      0.8392544243589427,
      0.3263617175376001,
      0.3250000000000001,
      0.3236410240163942,
      0.16028856829700258,
      0.10711197641384115,
      0.10000274155399433,
      0.1}},
    {{.peak = 1, .warm_up_steps = 100},
     {0.0, 0.01, 0.37, 0.99, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}},
    {wsd(rate_decay::linear),
     {0.1,
      0.10900000000000001,
      0.43300000000000005,
      0.991,
      1.0,
      1.0,
      1.0,
      1.0,
      1.0,
      0.997,
      0.55,
      0.25300000000000006,
      0.10299999999999998,
      0.1}},
    {wsd(rate_decay::cosine),
     {0.1,
      0.10900000000000001,
      0.43300000000000005,
      0.991,
      1.0,
      1.0,
      1.0,
      1.0,
      1.0,
      0.9999753262144805,
      0.55,
      0.16266608784822542,
      0.10002467378551955,
      0.1}},
    {wsd(rate_decay::one_minus_sqrt),
     {0.1,
      0.10900000000000001,
      0.43300000000000005,
      0.991,
      1.0,
      1.0,
      1.0,
      1.0,
      1.0,
      0.9480384757729337,
      0.36360389693210715,
      0.18006097787701308,
      0.10150125208768378,
      0.1}},
};

constexpr bool schedules_are_those_of_transformers() {
  for (const auto& [schedule, rates] : schedules_of_transformers)
    for (std::size_t at = 0; at < std::size(asked_steps); ++at) {
      const double off = *schedule.learning_rate(asked_steps[at]) - rates[at];
      if (detail::abs(off) > 1e-15) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("the schedule of a run is transformers'") {
  STATIC_CHECK(schedules_are_those_of_transformers());
  // Beyond its end, where transformers' cosine rises again, it stays.
  STATIC_CHECK(*wsd(rate_decay::cosine).learning_rate(5000) == 0.1);
  STATIC_CHECK(*schedules_of_transformers[1].schedule.learning_rate(1500) == 0);
  STATIC_CHECK(*learning_rate_schedule{.peak = 3e-4}.learning_rate(0) == 3e-4);
  STATIC_CHECK(
      *learning_rate_schedule{.peak = 3e-4, .first = 3e-4, .least = 3e-4}.learning_rate(0) == 3e-4);
  // without steps it has fallen at once
  STATIC_CHECK(
      *learning_rate_schedule{.peak = 1, .least = 0.1, .decay = rate_decay::linear}.learning_rate(
          0) == 0.1);
  STATIC_CHECK(learning_rate_schedule{}.learning_rate(0).why().code == errc::not_positive);
  STATIC_CHECK(learning_rate_schedule{.peak = 1, .least = 2}.learning_rate(0).why().code ==
               errc::out_of_bounds);
  STATIC_CHECK(learning_rate_schedule{.peak = 1, .decay_steps = -1}.learning_rate(0).why().code ==
               errc::negative);
  STATIC_CHECK(learning_rate_schedule{.peak = 1}.learning_rate(-1).why().code == errc::negative);
}

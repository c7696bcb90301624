#include <gpuplan/speedup.hpp>
#include <gpuplan/time/documented.hpp>
#include <gpuplan/time_model.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) { return detail::abs(a - b) <= 1e-12 * detail::abs(b); }

// Anything with a step is a time model.
struct one_second_per_micro_batch {
  constexpr duration step(const batch_plan& plan) const { return plan.accumulation * 1_s; }
};
struct no_duration {
  constexpr double step(const batch_plan&) const { return 1; }
};

constexpr documented_time measured{
    .step_time = 1.5_s, .measured_at = {32, 4, 2}, .serial_fraction = 0.02};

// One GPU's share of a step: as many times the reference as there are samples in it.
constexpr bool time_follows_the_samples_of_a_gpu() {
  const documented_time one{.step_time = 1.5_s, .measured_at = {32, 1, 1}};
  for (std::int64_t micro_batch : {1, 8, 32, 96})
    for (std::int64_t accumulation : {1, 2, 7}) {
      double seconds = 0;
      for (std::int64_t sample = 0; sample < micro_batch * accumulation; ++sample)
        seconds += 1.5 / 32;
      if (!near(one.step({micro_batch, 1, accumulation}).value(), seconds)) return false;
    }
  return true;
}

// More GPUs: the throughput is that of one GPU times Amdahl's speed-up.
constexpr bool throughput_follows_amdahl() {
  const documented_time one{
      .step_time = 2_s, .measured_at = {16, 1, 1}, .serial_fraction = 1.0 / 19};
  const amdahl_scaling law{.serial_fraction = 1.0 / 19};
  const double single = throughput({16, 1, 1}, one).value();
  for (std::int64_t n = 1; n <= 64; ++n)
    if (!near(throughput({16, n, 1}, one).value(), single * law.speedup(n)->low())) return false;
  return true;
}

// Any plan may be the reference: carried to another plan and back, a step takes what it took.
constexpr bool the_reference_does_not_matter() {
  for (const batch_plan& plan : {batch_plan{1, 1, 1}, batch_plan{8, 2, 3}, batch_plan{5, 64, 6}}) {
    const documented_time there{measured.step(plan), plan, measured.serial_fraction};
    if (!near(there.step(measured.measured_at).value(), 1.5)) return false;
  }
  return true;
}

constexpr documented_time with_step(duration step) {
  documented_time model = measured;
  model.step_time = step;
  return model;
}
constexpr documented_time with_fraction(double fraction) {
  documented_time model = measured;
  model.serial_fraction = fraction;
  return model;
}

}  // namespace

TEST_CASE("a time model is what has a step") {
  STATIC_CHECK(time_model<documented_time>);
  STATIC_CHECK(time_model<one_second_per_micro_batch>);
  STATIC_CHECK(!time_model<no_duration>);
  STATIC_CHECK(throughput({10, 3, 2}, one_second_per_micro_batch{}) == 30_samples_per_s);
}

TEST_CASE("a documented step time, carried to other plans") {
  STATIC_CHECK(measured.step(measured.measured_at) == 1.5_s);
  STATIC_CHECK(time_follows_the_samples_of_a_gpu());
  STATIC_CHECK(throughput_follows_amdahl());
  STATIC_CHECK(the_reference_does_not_matter());
}

TEST_CASE("a stated efficiency comes out again") {
  // 95 % on two GPUs.
  CONSTEXPR auto fraction = karp_flatt(1.9, 2)->low();
  CONSTEXPR documented_time model{
      .step_time = 1_s, .measured_at = {16, 1, 1}, .serial_fraction = fraction};
  STATIC_CHECK(near(throughput({16, 2, 1}, model).value(), 1.9 * 16));
}

TEST_CASE("a documented throughput") {
  CONSTEXPR auto model = documented_throughput(4000_samples_per_s, {1024, 4, 1}, 0.1);
  STATIC_CHECK(near(model.step_time.value(), 1.024));
  STATIC_CHECK(near(throughput({1024, 4, 1}, model).value(), 4000));
}

TEST_CASE("bad time models are named") {
  STATIC_CHECK(validate(measured).why() == failure());
  STATIC_CHECK(validate(with_step(0_s)).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, 0}).about(fact::step_time));
  STATIC_CHECK(
      validate(with_step(-1.5_ms)).why() ==
      failure(errc::not_positive, named_fact{fact::time_us, -1500}).about(fact::step_time));
  STATIC_CHECK(validate(with_step(duration::from_value(detail::not_a_number))).why() ==
               failure(errc::not_finite, named_fact{fact::step_time, detail::not_a_number}));
  STATIC_CHECK(validate(with_step(duration::from_value(detail::infinity))).why() ==
               failure(errc::not_finite, named_fact{fact::step_time, detail::infinity}));
  STATIC_CHECK(validate(documented_time{.step_time = 1_s, .measured_at = {0, 1, 1}}).why() ==
               failure(errc::not_positive, named_fact{fact::micro_batch, 0}));
  STATIC_CHECK(validate(with_fraction(1.5)).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::low_thousandths, 1500},
                       named_fact{fact::high_thousandths, 1500},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 1})
                   .about(fact::serial_fraction));
  STATIC_CHECK(validate(with_fraction(-0.1)).why().code == errc::out_of_bounds);
  STATIC_CHECK(validate(with_fraction(detail::not_a_number)).why() ==
               failure(errc::not_finite, named_fact{fact::serial_fraction, detail::not_a_number}));
}

#include <gpuplan/speedup.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) { return detail::abs(a - b) <= 1e-12 * detail::abs(b); }
constexpr bool near(range<double> a, range<double> b) {
  return near(a.low(), b.low()) && near(a.high(), b.high());
}

// Amdahl's law by counting: of `work` units, `serial` run on one device; the rest is dealt out.
constexpr double simulated_speedup(int work, int serial, int devices) {
  int time = serial;
  for (int left = work - serial; left > 0; left -= devices) ++time;
  return static_cast<double>(work) / time;
}

constexpr double serial_share(int serial, int work) { return static_cast<double>(serial) / work; }

constexpr bool amdahl_agrees_with_counting() {
  for (int devices : {1, 2, 3, 5, 8, 64})
    for (int serial : {0, 192, 960, 1920}) {
      // 1920 less any of these is a multiple of every number of devices above.
      const double counted = simulated_speedup(1920, serial, devices);
      if ((1920 - serial) % devices != 0) continue;
      const amdahl_scaling model{.serial_fraction = serial_share(serial, 1920)};
      if (!near(model.speedup(devices)->low(), counted)) return false;
      if (devices > 1 &&
          detail::abs(karp_flatt(counted, devices)->low() - serial_share(serial, 1920)) > 1e-12)
        return false;
    }
  return true;
}

// A table made from Amdahl's law must give Amdahl's law back between its entries.
constexpr bool table_keeps_amdahl() {
  const amdahl_scaling law{.serial_fraction = {0.02, 0.07}};
  const scaling_table table({{3, *scaling_efficiency(law, 3)},
                             {8, *scaling_efficiency(law, 8)},
                             {64, *scaling_efficiency(law, 64)}});
  for (std::int64_t n = 1; n <= 64; ++n)
    if (!near(*table.speedup(n), *law.speedup(n))) return false;
  return true;
}

constexpr scaling_table stated({{2, 0.95}, {4, 0.90}, {8, 0.80}});

constexpr bool speedup_rises() {
  for (std::int64_t n = 1; n < 8; ++n)
    if (stated.speedup(n)->low() >= stated.speedup(n + 1)->low()) return false;
  return true;
}

struct my_scaling {
  constexpr result<range<double>> speedup(std::int64_t devices) const {
    return range<double>(static_cast<double>(devices) / 2);
  }
};

// The same random numbers on every compiler: from 0 to 1, by a linear congruential generator.
struct dice {
  std::uint32_t state = 1;
  constexpr double operator()() {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 8) / 0x1p24;
  }
  constexpr double between(range<double> r) { return r.low() + (r.high() - r.low()) * (*this)(); }
};

constexpr phase all_phases[] = {phase::data,
                                phase::forward,
                                phase::backward,
                                phase::optimizer,
                                phase::communication,
                                phase::other};

// A step, phase by phase, at certain shares and factors.
constexpr double simulated_step(const double (&share)[6],
                                const optimisation (&steps)[2],
                                const double (&factor)[2]) {
  double time = 0;
  for (int p = 0; p < 6; ++p) {
    double phase_time = share[p];
    for (int i = 0; i < 2; ++i)
      if (steps[i].touches.contains(all_phases[p])) phase_time /= factor[i];
    time += phase_time;
  }
  return time;
}

// Random shares in their ranges with sum 1, or not: draws five and takes the sixth from the sum.
constexpr bool draw_shares(dice& roll, const phase_shares& ranges, double (&share)[6]) {
  const int last = static_cast<int>(roll() * 6) % 6;
  double left = 1;
  for (int p = 0; p < 6; ++p) {
    if (p == last) continue;
    const range<double> r = ranges[all_phases[p]];
    const double end = roll();
    share[p] = end < 0.3 ? r.low() : end < 0.6 ? r.high() : roll.between(r);
    left -= share[p];
  }
  share[last] = left;
  const range<double> r = ranges[all_phases[last]];
  return r.low() - 1e-12 <= left && left <= r.high() + 1e-12;
}

// The range holds every sample, and some samples come near both of its ends.
constexpr bool combined_holds_every_sample(const phase_shares& ranges,
                                           const optimisation (&steps)[2],
                                           int draws) {
  dice roll;
  const range<double> answer = *combined_speedup(ranges, steps);
  double least = 1e300;
  double most = 0;
  for (int i = 0; i < draws; ++i) {
    double share[6]{};
    if (!draw_shares(roll, ranges, share)) continue;
    const double ends[2] = {roll(), roll()};
    double factor[2]{};
    for (int k = 0; k < 2; ++k)
      factor[k] = ends[k] < 0.5 ? steps[k].factor.low() : steps[k].factor.high();
    const double speedup = 1 / simulated_step(share, steps, factor);
    if (speedup < answer.low() * (1 - 1e-12) || speedup > answer.high() * (1 + 1e-12)) return false;
    least = speedup < least ? speedup : least;
    most = speedup > most ? speedup : most;
  }
  return least < answer.low() * 1.01 && most > answer.high() * 0.99;
}

constexpr optimisation loader{.touches = phase::data, .factor = {1.1, 1.15}};
constexpr optimisation kernels{.touches = {phase::forward, phase::backward}, .factor = {1.2, 1.3}};
constexpr optimisation bf16{.touches = {phase::forward, phase::backward}, .factor = {1.15, 1.25}};

constexpr phase_shares half_known{.data = {0.1, 0.4},
                                  .forward = {0.2, 0.3},
                                  .backward = {0.3, 0.6},
                                  .optimizer = {0.05, 0.1},
                                  .communication = {0.0, 0.2},
                                  .other = 0.0};
constexpr phase_shares known{.data = 0.25, .forward = 0.25, .backward = 0.4, .optimizer = 0.1};

}  // namespace

TEST_CASE("Amdahl's law, and the fraction that Karp and Flatt read off it") {
  STATIC_CHECK(amdahl_agrees_with_counting());
  STATIC_CHECK(near(*amdahl_scaling{.serial_fraction = {0.0, 0.5}}.speedup(4), {1.6, 4.0}));
  // Karp and Flatt 1990, section 3: 1/s = f + (1 - f)/p.
  STATIC_CHECK(near(*karp_flatt({6, 7}, 8), {1.0 / 49, 1.0 / 21}));
  STATIC_CHECK(karp_flatt(9, 8)->high() < 0);  // superlinear
}

TEST_CASE("efficiency and what is lost") {
  STATIC_CHECK(*scaling_efficiency({6, 7}, 8) == range<double>(0.75, 0.875));
  STATIC_CHECK(*communication_share({6, 7}, 8) == range<double>(0.125, 0.25));
  STATIC_CHECK(scaling_efficiency(my_scaling{}, 8)->low() == 0.5);
}

TEST_CASE("a table of efficiencies") {
  STATIC_CHECK(stated.speedup(1)->low() == 1);
  STATIC_CHECK(stated.speedup(2)->low() == 2 * 0.95);
  STATIC_CHECK(stated.speedup(8)->low() == 8 * 0.80);
  STATIC_CHECK(near(stated.speedup(3)->low(), 3 / ((1 / 0.95 + 1 / 0.90) / 2)));
  STATIC_CHECK(speedup_rises());
  STATIC_CHECK(table_keeps_amdahl());
  STATIC_CHECK(scaling_table({{1, 0.5}, {2, 0.4}}).speedup(1)->low() == 0.5);
}

TEST_CASE("bad scaling inputs are named") {
  STATIC_CHECK(stated.speedup(0).why() == failure(errc::out_of_bounds,
                                                  named_fact{fact::devices, 0},
                                                  named_fact{fact::at_least, 1}));
  STATIC_CHECK(stated.speedup(9).why() == failure(errc::out_of_bounds,
                                                  named_fact{fact::devices, 9},
                                                  named_fact{fact::at_most, 8}));
  STATIC_CHECK(scaling_table({{4, 0.9}, {4, 0.8}}).speedup(2).why().code == errc::not_rising);
  STATIC_CHECK(scaling_table({{0, 0.9}}).speedup(1).why().code == errc::not_rising);
  STATIC_CHECK(scaling_table({{2, 0.0}}).speedup(1).why() ==
               failure(errc::not_positive,
                       named_fact{fact::low_thousandths, 0},
                       named_fact{fact::high_thousandths, 0})
                   .about(fact::efficiency));
  STATIC_CHECK(amdahl_scaling{.serial_fraction = {0.5, 1.5}}.speedup(2).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::low_thousandths, 500},
                       named_fact{fact::high_thousandths, 1500},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 1})
                   .about(fact::serial_fraction));
  STATIC_CHECK(amdahl_scaling{}.speedup(0).why()[fact::at_least] == 1);
  STATIC_CHECK(karp_flatt(1, 1).why()[fact::at_least] == 2);
  STATIC_CHECK(karp_flatt(0, 2).why().code == errc::not_positive);
  STATIC_CHECK(communication_share(detail::infinity, 2).why().code == errc::not_finite);
  STATIC_CHECK(scaling_efficiency(-1e300, 2).why()[fact::low_thousandths] < -8e18);
}

TEST_CASE("one process that drives all devices") {
  // Four devices of one unit each, launched in turn by a host that takes 0.3: it keeps up with 3.
  STATIC_CHECK(single_process_scaling{.host_share = 0.3}.speedup(3)->low() == 3);
  STATIC_CHECK(near(single_process_scaling{.host_share = 0.3}.speedup(4)->low(), 10.0 / 3));
  STATIC_CHECK(*single_process_scaling{.host_share = {0.2, 0.25}}.speedup(8) == range(4.0, 5.0));
  STATIC_CHECK(single_process_scaling{}.speedup(2).why().code == errc::not_positive);
  STATIC_CHECK(single_process_scaling{.host_share = 1.5}.speedup(2).why()[fact::at_most] == 1);
}

TEST_CASE("both readings of a percentage") {
  // 1.5 s a step becoming 0.9 s is 40 % less time and 66.7 % more rate.
  STATIC_CHECK(near(factor_of_time_saved(0.4)->low(), 1.5 / 0.9));
  STATIC_CHECK(near(factor_of_rate_gained(0.4)->low(), 1.4));
  STATIC_CHECK(*factor_of_time_saved({0.5, 0.75}) == range(2.0, 4.0));
  STATIC_CHECK(*time_saved({2, 4}) == range(0.5, 0.75));
  STATIC_CHECK(*rate_gained({2, 4}) == range(1.0, 3.0));
  STATIC_CHECK(time_saved(0.5)->low() == -1);
  STATIC_CHECK(factor_of_time_saved(1).why().code == errc::out_of_bounds);
  STATIC_CHECK(factor_of_time_saved({-0.1, 0.1}).why()[fact::low_thousandths] == -100);
  STATIC_CHECK(factor_of_rate_gained(-0.5).why().code == errc::negative);
  STATIC_CHECK(factor_of_rate_gained(detail::infinity).why().code == errc::not_finite);
  STATIC_CHECK(time_saved(0).why().code == errc::not_positive);
  STATIC_CHECK(rate_gained({-1, 1}).why().code == errc::not_positive);
}

TEST_CASE("optimisations of phases compose by Amdahl's law") {
  // By hand: 0.25/2 + 0.25/4 + 0.4/4 + 0.1 = 0.3875.
  STATIC_CHECK(near(combined_speedup(known,
                                     {optimisation{phase::data, 2.0},
                                      optimisation{{phase::forward, phase::backward}, 4.0}})
                        ->low(),
                    1 / 0.3875));
  // One phase optimised is Amdahl's own law: the rest is what does not get faster.
  STATIC_CHECK(
      near(combined_speedup({.data = 0.9, .other = 0.1}, {optimisation{phase::data, 8.0}})->low(),
           amdahl_scaling{.serial_fraction = 0.1}.speedup(8)->low()));
  STATIC_CHECK(combined_speedup(known, {optimisation{}})->low() == 1);
  STATIC_CHECK(combined_holds_every_sample(half_known, {loader, kernels}, 400));
  STATIC_CHECK(combined_holds_every_sample(known, {kernels, bf16}, 100));
  STATIC_CHECK(combined_holds_every_sample({.optimizer = {0.2, 1.0}}, {kernels, loader}, 400));
}

// Shares within a rounding of points: the ends of the answer must not cross.
constexpr bool ends_never_cross() {
  dice roll;
  for (int i = 0; i < 300; ++i) {
    const double data = roll() / 2;
    const double forward = roll() / 2;
    const phase_shares almost{.data = {data, data * (1 + 4e-16)},
                              .forward = {forward, forward * (1 + 4e-16)},
                              .backward = {0, 1},
                              .optimizer = 0.0,
                              .communication = 0.0,
                              .other = 0.0};
    if (!combined_speedup(
            almost,
            {optimisation{phase::data, 1 + roll()}, optimisation{phase::forward, 1 + roll()}}))
      return false;
  }
  return true;
}

TEST_CASE("ends that lie within a rounding of each other") { STATIC_CHECK(ends_never_cross()); }

TEST_CASE("over all shares only the quickest and the slowest phase count") {
  CONSTEXPR auto all = combined_speedup({}, {loader, kernels, bf16});
  STATIC_CHECK(near(*all, {1.0, 1.3 * 1.25}));
  // A slow-down counts too.
  CONSTEXPR auto slower = combined_speedup({}, {loader, optimisation{phase::other, {0.8, 0.9}}});
  STATIC_CHECK(near(*slower, {0.8, 1.15}));
  // Where every phase is touched, the least touched one bounds from below.
  CONSTEXPR auto no_rest = combined_speedup({.optimizer = 0.0, .communication = 0.0, .other = 0.0},
                                            {loader, kernels, bf16});
  STATIC_CHECK(near(*no_rest, {1.1, 1.3 * 1.25}));
}

TEST_CASE("the plain product") {
  STATIC_CHECK(near(*product_of_factors({loader.factor, kernels.factor, bf16.factor}),
                    {1.1 * 1.2 * 1.15, 1.15 * 1.3 * 1.25}));
  STATIC_CHECK(product_of_factors({range(2.0, 3.0), range(0.0, 1.0)}).why().code ==
               errc::not_positive);
}

TEST_CASE("bad phases are named") {
  STATIC_CHECK(validate(known));
  STATIC_CHECK(combined_speedup({.data = 0.7, .forward = {0.4, 0.5}}, {loader}).why() ==
               failure(errc::no_such_shares,
                       named_fact{fact::low_thousandths, 1100},
                       named_fact{fact::high_thousandths, 5200})
                   .about(fact::sum));
  CONSTEXPR phase_shares too_little{.data = 0.1,
                                    .forward = 0.1,
                                    .backward = 0.1,
                                    .optimizer = 0.1,
                                    .communication = 0.1,
                                    .other = 0.1};
  STATIC_CHECK(validate(too_little).why()[fact::high_thousandths] == 600);
  STATIC_CHECK(validate(phase_shares{.data = {-0.1, 0.1}}).why().code == errc::out_of_bounds);
  STATIC_CHECK(combined_speedup(known, {optimisation{phase::data, 0.0}}).why().code ==
               errc::not_positive);
  STATIC_CHECK(combined_speedup(known, {optimisation{phase::data, detail::infinity}}).why().code ==
               errc::not_finite);
  STATIC_CHECK(combined_speedup(
                   known, {optimisation{phase::data, 1e-200}, optimisation{phase::data, 1e-200}})
                   .why()
                   .at_fault() == fact::combined_factor);
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
// A compile error in a constant expression.
TEST_CASE("a factor whose inverse overflows is refused") {
  CHECK(
      combined_speedup({.data = 0.0, .forward = 1.0}, {optimisation{phase::data, 1e-320}}).why() ==
      failure(errc::not_finite,
              named_fact{fact::low_thousandths, 0},
              named_fact{fact::high_thousandths, 0})
          .about(fact::combined_factor));
}
#endif

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
                   .about("efficiency"));
  STATIC_CHECK(amdahl_scaling{.serial_fraction = {0.5, 1.5}}.speedup(2).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::low_thousandths, 500},
                       named_fact{fact::high_thousandths, 1500},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 1})
                   .about("serial_fraction"));
  STATIC_CHECK(amdahl_scaling{}.speedup(0).why()[fact::at_least] == 1);
  STATIC_CHECK(karp_flatt(1, 1).why()[fact::at_least] == 2);
  STATIC_CHECK(karp_flatt(0, 2).why().code == errc::not_positive);
  STATIC_CHECK(communication_share(detail::infinity, 2).why().code == errc::not_finite);
  STATIC_CHECK(scaling_efficiency(-1e300, 2).why()[fact::low_thousandths] < -8e18);
}

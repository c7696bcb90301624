// The constexpr functions against the C library's, over a million random arguments each and the
// neighbours of every special point. Built a second time with contraction allowed.

#include <bit>
#include <cmath>
#include <cstdint>
#include <gpuplan/detail/math.hpp>
#include <limits>

#include "check.hpp"

namespace {

namespace math = gpuplan::detail;

constexpr int draws = 1'000'000;
constexpr double infinity = std::numeric_limits<double>::infinity();

// splitmix64 (Steele, Lea and Flood, 2014): the same draws everywhere, and quick without
// optimisation.
struct random_source {
  std::uint64_t state;

  std::uint64_t bits() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  bool coin() { return bits() % 2 == 0; }
  double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  }
  // Every sign and exponent equally often: subnormals, infinities and NaN among them.
  double any() { return std::bit_cast<double>(bits()); }
  // Either sign; every exponent from low to high equally often.
  double of_magnitude(double low, double high) {
    return std::copysign(std::exp2(between(low, high)), coin() ? 1.0 : -1.0);
  }
  // An exponent that takes x to anywhere between underflow and overflow.
  double exponent_for(double x) { return between(-1080, 1030) / std::log2(x); }
};

// How many doubles two results are apart. NaN equals NaN only; zero is not negative zero.
std::uint64_t ulps_between(double a, double b) {
  constexpr std::uint64_t different = std::numeric_limits<std::uint64_t>::max();
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : different;
  if (std::signbit(a) != std::signbit(b)) return different;
  const auto x = std::bit_cast<std::uint64_t>(a);
  const auto y = std::bit_cast<std::uint64_t>(b);
  return x > y ? x - y : y - x;
}

// Where two functions were found farthest apart.
struct distance {
  std::uint64_t ulps = 0;
  double x = 0;
  double y = 0;

  void see(double ours, double theirs, double at_x, double at_y = 0) {
    const std::uint64_t here = ulps_between(ours, theirs);
    if (here > ulps) *this = {here, at_x, at_y};
  }
};

doctest::String toString(const distance& d) {
  return doctest::toString(d.ulps) + " ulp at x = " + doctest::toString(d.x) +
         ", y = " + doctest::toString(d.y);
}

bool operator<=(const distance& d, std::uint64_t ulps) { return d.ulps <= ulps; }

// Calls `visit` with every special point of both signs and its three neighbours on either side.
template <class Visit>
void near_special_points(Visit visit) {
  constexpr double points[] = {
      0,
      0x1p-1074,
      0x1p-1022,
      0x1p-53,
      0.25,
      0.5,
      0.70710678118654752,
      1,
      1.5,
      2,
      2.5,
      3,
      4,
      10,
      1.4142135623730951,
      1022,
      1023,
      1024,
      1074,
      1075,
      0x1p31,
      0x1p51,
      0x1p52,
      0x1p53,
      0x1p63,
      0x1p64,
      0x1p1023,
      infinity,
      709.782712893384,   // exp(x) overflows
      708.3964185322641,  // exp(-x) becomes subnormal
      745.1332191019412,  // exp(-x) becomes zero
  };
  for (const double point : points) {
    double x = point;
    for (int i = 0; i < 3; ++i) x = std::nextafter(x, -infinity);
    for (int i = 0; i < 7; ++i, x = std::nextafter(x, infinity)) {
      visit(x);
      visit(-x);
    }
  }
  visit(std::numeric_limits<double>::quiet_NaN());
}

using function = double (*)(double);

distance compare(function ours, function theirs, double (*draw)(random_source&)) {
  distance farthest;
  const auto visit = [&](double x) { farthest.see(ours(x), theirs(x), x); };
  near_special_points(visit);
  random_source random{1};
  for (int i = 0; i < draws; ++i) visit(draw(random));
  return farthest;
}

struct arguments {
  double x;
  double y;
};

distance compare_pow(arguments (*draw)(random_source&)) {
  distance farthest;
  random_source random{2};
  for (int i = 0; i < draws; ++i) {
    const auto [x, y] = draw(random);
    farthest.see(math::pow(x, y), std::pow(x, y), x, y);
  }
  return farthest;
}

double anything(random_source& random) { return random.any(); }

double anything_or_small(random_source& random) {
  return random.coin() ? random.any() : random.of_magnitude(-3, 54);
}

double half_integer(random_source& random) { return std::floor(random.of_magnitude(0, 52)) + 0.5; }

double positive(random_source& random) { return std::fabs(random.any()); }

double near_one(random_source& random) {
  return random.coin() ? random.between(0.5, 2) : 1 + random.of_magnitude(-52, -1);
}

// Squares of 26-bit integers and of the midpoints between them, and their neighbours: where
// rounding a root is hardest.
double near_square(random_source& random) {
  const double root = static_cast<double>(random.bits() >> 38) + (random.coin() ? 0.5 : 0);
  return std::nextafter(root * root, random.coin() ? 0 : infinity);
}

}  // namespace

TEST_CASE("floor, ceil, round and abs are exact") {
  CHECK(compare(math::floor, std::floor, anything_or_small) <= 0);
  CHECK(compare(math::ceil, std::ceil, anything_or_small) <= 0);
  CHECK(compare(math::round, std::round, anything_or_small) <= 0);
  CHECK(compare(math::round, std::round, half_integer) <= 0);
  CHECK(compare(math::abs, std::fabs, anything) <= 0);
}

TEST_CASE("is_nan and is_finite are exact") {
  const function ours = [](double x) {
    return (math::is_nan(x) ? 1.0 : 0.0) + (math::is_finite(x) ? 2.0 : 0.0);
  };
  const function theirs = [](double x) {
    return (std::isnan(x) ? 1.0 : 0.0) + (std::isfinite(x) ? 2.0 : 0.0);
  };
  CHECK(compare(ours, theirs, anything) <= 0);
}

TEST_CASE("sqrt is correctly rounded") {
  CHECK(compare(math::sqrt, std::sqrt, anything) <= 0);
  CHECK(compare(math::sqrt, std::sqrt, positive) <= 0);
  CHECK(compare(math::sqrt, std::sqrt, near_one) <= 0);
  CHECK(compare(math::sqrt, std::sqrt, near_square) <= 0);
}

TEST_CASE("log2 is within 1 ulp over all doubles") {
  CHECK(compare(math::log2, std::log2, positive) <= 1);
  CHECK(compare(math::log2, std::log2, near_one) <= 1);
}

TEST_CASE("exp is within 1 ulp from underflow to overflow") {
  CHECK(compare(math::exp, std::exp, [](random_source& random) {
          return random.between(-746, 710);
        }) <= 1);
  CHECK(compare(math::exp, std::exp, [](random_source& random) { return random.between(-1, 1); }) <=
        1);
  CHECK(compare(math::exp, std::exp, [](random_source& random) {
          return random.of_magnitude(-60, 10);
        }) <= 1);
}

TEST_CASE("pow is within 1 ulp from underflow to overflow") {
  CHECK(compare_pow([](random_source& random) -> arguments {
          return {random.between(0, 100), random.between(-10, 10)};
        }) <= 1);
  CHECK(compare_pow([](random_source& random) -> arguments {
          const double x = positive(random);
          return {x, random.exponent_for(x)};
        }) <= 1);
  CHECK(compare_pow([](random_source& random) -> arguments {
          const double x = near_one(random);
          return {x, random.exponent_for(x)};
        }) <= 1);
  // Negative bases with integer exponents, odd and even.
  CHECK(compare_pow([](random_source& random) -> arguments {
          const double x = std::exp2(random.between(-4, 4));
          return {-x, std::round(random.exponent_for(x))};
        }) <= 1);
  CHECK(compare_pow([](random_source& random) -> arguments {
          return {random.any(), random.any()};
        }) <= 1);
}

TEST_CASE("pow agrees at every pair of special points") {
  distance farthest;
  near_special_points([&](double x) {
    near_special_points([&](double y) { farthest.see(math::pow(x, y), std::pow(x, y), x, y); });
  });
  CHECK(farthest <= 1);
}

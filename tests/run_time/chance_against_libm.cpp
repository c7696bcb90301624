// Random numbers and the normal distribution against the C library and against themselves.

#include <gpuplan/detail/chance.hpp>

#include <cmath>

#include "check.hpp"

namespace math = gpuplan::detail;

TEST_CASE("exp_minus_1 is within 2e-15 of expm1") {
  double farthest = 0;
  const auto see = [&](double x) {
    farthest = std::fmax(farthest, std::fabs(math::exp_minus_1(x) / std::expm1(x) - 1));
  };
  for (double x = 1e-300; x < 700; x *= 1.003) {
    see(x);
    see(-x);
  }
  CHECK(farthest < 2e-15);
  CHECK(math::exp_minus_1(0) == 0);
}

TEST_CASE("normal_share is that of erfc") {
  for (double x = -37; x < 37; x += 0.00137) {
    const double expected = std::erfc(-x / std::sqrt(2.0)) / 2;
    CHECK(std::fabs(math::normal_share(x) - expected) < 1e-15);
    CHECK(std::fabs(math::normal_share(x) / expected - 1) < 1e-10);
  }
  CHECK(math::normal_share(-100) == 0);
  CHECK(math::normal_share(100) == 1);
}

TEST_CASE("normal_quantile goes back from normal_share") {
  for (double x = -7; x < 7; x += 0.00137) {
    // Near 1, a share has few digits left of what is beyond it.
    const double lost = 1e-15 / std::exp(-x * x / 2);
    CHECK(std::fabs(math::normal_quantile(math::normal_share(x)) - x) <
          1.2e-9 * std::fabs(x) + 1e-12 + (x > 0 ? 3 * lost : 0));
  }
  CHECK(std::fabs(math::normal_quantile(0.9) - 1.2815515655446004) < 2e-9);
}

TEST_CASE("random numbers have the moments of their distributions") {
  math::random_stream random(11);
  constexpr int count = 1'000'000;
  double shares = 0;
  double times = 0;
  double squared_times = 0;
  double normals = 0;
  double squared_normals = 0;
  for (int i = 0; i < count; ++i) {
    const double share = random.share();
    const double time = random.exponential();
    const double normal = random.normal();
    if (!(share > 0 && share < 1 && time > 0)) CHECK(share == time);
    shares += share / count;
    times += time / count;
    squared_times += time * time / count;
    normals += normal / count;
    squared_normals += normal * normal / count;
  }
  // Within four deviations of a mean of as many.
  CHECK(std::fabs(shares - 0.5) < 4 * 0.29 / 1000);
  CHECK(std::fabs(times - 1) < 4 * 1.0 / 1000);
  CHECK(std::fabs(squared_times - 2) < 4 * 4.5 / 1000);
  CHECK(std::fabs(normals) < 4 * 1.0 / 1000);
  CHECK(std::fabs(squared_normals - 1) < 4 * 1.42 / 1000);
}

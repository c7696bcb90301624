// Interval arithmetic against sampling: no pair of points leaves the range, and the ends are
// reached.

#include "check.hpp"

#include <gpuplan/range.hpp>

#include <random>

using namespace gpuplan;

namespace {

struct spread {
  double low;
  double high;
};

template <class Operation>
void sample(Operation operation, bool divisor_without_zero) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> ends(-10, 10);
  std::uniform_real_distribution<double> part(0, 1);
  int outside = 0;
  int loose = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto draw = [&] {
      const double a = ends(random);
      const double b = ends(random);
      return a < b ? range{a, b} : range{b, a};
    };
    const range a = draw();
    range b = draw();
    while (divisor_without_zero && b.contains(0)) b = draw();
    const range computed = operation(a, b);
    spread seen{1e300, -1e300};
    for (int k = 0; k < 204; ++k) {
      // The corners, where the extremes of monotonic operations lie, and points between them.
      const double s = k < 4 ? k % 2 : part(random);
      const double t = k < 4 ? k / 2 : part(random);
      const double x = a.low() + s * (a.high() - a.low());
      const double y = b.low() + t * (b.high() - b.low());
      const double z = operation(x, y);
      const double rounding = 1e-12 * (1 + (z < 0 ? -z : z));
      outside += !(z >= computed.low() - rounding && z <= computed.high() + rounding);
      seen.low = z < seen.low ? z : seen.low;
      seen.high = z > seen.high ? z : seen.high;
    }
    const double rounding = 1e-9 * (1 + width(computed));
    loose += seen.low > computed.low() + rounding || seen.high < computed.high() - rounding;
  }
  CHECK(outside == 0);
  CHECK(loose == 0);
}

}  // namespace

TEST_CASE("sums, differences, products and quotients contain every sampled pair, tightly") {
  sample([](auto a, auto b) { return a + b; }, false);
  sample([](auto a, auto b) { return a - b; }, false);
  sample([](auto a, auto b) { return a * b; }, false);
  sample([](auto a, auto b) { return a / b; }, true);
}

// The generator of random data: the host runs the same code as the device.

#include <gpuplan/cuda/random_data.cuh>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace gpuplan;
using namespace gpuplan::cuda;

// Known answers that the generator's authors publish (Random123, kat_vectors).
static_assert(philox({{0, 0, 0, 0}}, 0, 0) ==
              philox_words{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
static_assert(philox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff) ==
              philox_words{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
static_assert(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
              philox_words{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});

static_assert(rounded_to_tf32(1.0F) == 1.0F);
static_assert(rounded_to_tf32(1.0F + 0x1p-10F) == 1.0F + 0x1p-10F);
static_assert(rounded_to_tf32(1.0F + 0x1p-11F) == 1.0F);  // ties to even
static_assert(rounded_to_tf32(1.0F + 3 * 0x1p-11F) == 1.0F + 0x1p-9F);
static_assert(rounded_to_tf32(-1.0F - 0x1p-11F - 0x1p-20F) == -1.0F - 0x1p-10F);

// The share of a normal distribution below x.
double normal_share(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

TEST_CASE("normal numbers have the moments and the distribution of a normal variable") {
  constexpr int count = 1 << 18;
  double sums[5] = {};  // of the powers
  double lagged = 0;
  double previous = 0;
  std::vector<int> bins(20);
  for (int i = 0; i < count; ++i) {
    const double x = normal_number(42, i);
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= x;
    }
    lagged += x * previous;
    previous = x;
    ++bins[static_cast<std::size_t>(normal_share(x) * 20)];
  }
  // Five standard errors each: of the n-th moment, the root of its variance over the count.
  const double root = std::sqrt(count);
  CHECK(std::abs(sums[1] / count) < 5 / root);
  CHECK(std::abs(sums[2] / count - 1) < 5 * std::sqrt(2.0) / root);
  CHECK(std::abs(sums[3] / count) < 5 * std::sqrt(15.0) / root);
  CHECK(std::abs(sums[4] / count - 3) < 5 * std::sqrt(96.0) / root);
  CHECK(std::abs(lagged / count) < 5 / root);
  // Chi-square of 19 degrees of freedom: beyond 50 in one of 7000 series.
  double chi_square = 0;
  for (const int bin : bins) chi_square += (bin - count / 20.0) * (bin - count / 20.0);
  CHECK(chi_square / (count / 20.0) < 50);
}

TEST_CASE("series of different seeds have nothing in common") {
  constexpr int count = 1 << 16;
  double matmul = 0;
  for (int i = 0; i < count; ++i) matmul += normal_number(1, i) * normal_number(2, i);
  CHECK(std::abs(matmul / count) < 5 / std::sqrt(count));
  CHECK(normal_number(1, 7) != normal_number(1, 8));
  CHECK(normal_number(1, 1LL << 32) != normal_number(1, 0));
  CHECK(normal_number(1ULL << 32, 0) != normal_number(0, 0));
}

// The nearest of the numbers that a format has, which are few enough to try them all.
template <class Element, class Bits>
void check_nearest(double step_of_x) {
  std::vector<double> all;
  for (std::uint32_t bits = 0; bits <= std::numeric_limits<Bits>::max(); ++bits) {
    const double x = number_of(std::bit_cast<Element>(static_cast<Bits>(bits)));
    if (std::isfinite(x)) all.push_back(x);
  }
  std::sort(all.begin(), all.end());
  int compared = 0;
  for (double x = -5; x < 5; x += step_of_x) {
    const double found =
        number_of(element_of<(sizeof(Element) == 1              ? number_format::fp8
                              : std::is_same_v<Element, __half> ? number_format::fp16
                                                                : number_format::bf16)>(x));
    const auto above = std::lower_bound(all.begin(), all.end(), x);
    const double nearest = std::min(std::abs(*above - x), std::abs(*(above - 1) - x));
    CHECK(std::abs(found - x) == nearest);
    ++compared;
  }
  CHECK(compared > 100);
}

TEST_CASE("elements are the nearest numbers that the format has") {
  check_nearest<__nv_fp8_e4m3, std::uint8_t>(0.0137);
  check_nearest<__half, std::uint16_t>(0.0137);
  check_nearest<__nv_bfloat16, std::uint16_t>(0.0137);
  for (const double x : {0.1, -1.7, 3.999}) {
    CHECK(element_of<number_format::fp64>(x) == x);
    CHECK(element_of<number_format::fp32>(x) == static_cast<float>(x));
    CHECK(std::abs(element_of<number_format::tf32>(x) / x - 1) <= 0x1p-11 * 1.001);
  }
}

TEST_CASE("int8 uses its range and stays in it") {
  CHECK(element_of<number_format::int8>(0) == 0);
  CHECK(element_of<number_format::int8>(1) == 32);
  CHECK(element_of<number_format::int8>(-0.9) == -29);
  CHECK(element_of<number_format::int8>(8.5) == 127);
  CHECK(element_of<number_format::int8>(-8.5) == -127);
  std::set<int> values;
  for (int i = 0; i < 1 << 16; ++i)
    values.insert(element_of<number_format::int8>(normal_number(3, i)));
  CHECK(values.size() > 240);
}

}  // namespace

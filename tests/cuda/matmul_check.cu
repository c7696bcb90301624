// The check of products: right ones pass, however they were added up, and wrong ones do not.

#include <gpuplan/cuda/matmul_check.cuh>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "played_matmuls.hpp"

namespace {

using namespace played;

template <number_format Format>
struct matmul_on_host {
  matmul matmul;
  std::vector<stored_t<Format>> a;
  std::vector<stored_t<Format>> b;
  std::vector<result_t<Format>> c;

  matmul_on_host(const matmul_shape& shape, matmul_pass pass)
      : matmul{Format, shape, pass},
        a(static_cast<std::size_t>(shape.m * shape.k)),
        b(static_cast<std::size_t>(shape.k * shape.n)),
        c(static_cast<std::size_t>(shape.m * shape.n)) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = element_of<Format>(normal_number(1, static_cast<std::int64_t>(i)));
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] = element_of<Format>(normal_number(2, static_cast<std::int64_t>(i)));
  }
  double a_at(std::int64_t row, std::int64_t i) const {
    const auto [m, n, k] = matmul.shape;
    return number_of(
        a[static_cast<std::size_t>(matmul.a_is_transposed() ? i * m + row : row * k + i)]);
  }
  double b_at(std::int64_t i, std::int64_t column) const {
    const auto [m, n, k] = matmul.shape;
    return number_of(
        b[static_cast<std::size_t>(matmul.b_is_transposed() ? column * k + i : i * n + column)]);
  }
  result_t<Format>& c_at(std::int64_t row, std::int64_t column) {
    return c[static_cast<std::size_t>(row * matmul.shape.n + column)];
  }
  template <class Dot>
  void multiply(Dot dot) {
    for (std::int64_t row = 0; row < matmul.shape.m; ++row)
      for (std::int64_t column = 0; column < matmul.shape.n; ++column)
        c_at(row, column) = result_t<Format>(dot(row, column));
  }
  // By the stand-in's device, whose memory is the host's.
  matmul_errors check() const {
    played::reset<Format>();
    const stream on;
    matmul_checker checker(matmul.shape);
    return checker.check<Format>(matmul, a.data(), b.data(), c.data(), 3, on);
  }
};

// What is below the last of `bits` of the largest exponent is cut off, towards zero.
double cut(double x, double largest, int bits) {
  const double unit = std::ldexp(1.0, std::ilogb(largest) - (bits - 1));
  return std::trunc(x / unit) * unit;
}

// A dot product as matrix units make it: `depth` products and the sum so far are aligned to the
// largest of them, cut off, and added.
template <number_format Format>
double dot_of_matrix_unit(const matmul_on_host<Format>& p,
                          std::int64_t row,
                          std::int64_t column,
                          std::int64_t depth,
                          int bits) {
  double sum = 0;
  for (std::int64_t first = 0; first < p.matmul.shape.k; first += depth) {
    const std::int64_t last = std::min(first + depth, p.matmul.shape.k);
    double largest = std::abs(sum);
    for (std::int64_t i = first; i < last; ++i)
      largest = std::max(largest, std::abs(p.a_at(row, i) * p.b_at(i, column)));
    if (largest == 0) continue;
    double next = cut(sum, largest, bits);
    for (std::int64_t i = first; i < last; ++i)
      next += cut(p.a_at(row, i) * p.b_at(i, column), largest, bits);
    sum = next;
  }
  return sum;
}

template <number_format Format>
matmul_on_host<Format> exact_product(const matmul_shape& shape,
                                     matmul_pass pass = matmul_pass::forward) {
  matmul_on_host<Format> p(shape, pass);
  p.multiply([&](std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < shape.k; ++i) sum += p.a_at(row, i) * p.b_at(i, column);
    return sum;
  });
  return p;
}

template <number_format Format>
void check_right_in_all_layouts() {
  CAPTURE(text(Format));
  for (const matmul_pass pass :
       {matmul_pass::forward, matmul_pass::input_gradient, matmul_pass::weight_gradient}) {
    const matmul_errors errors = exact_product<Format>({40, 24, 48}, pass).check();
    CHECK(errors.elements <= 1);
    CHECK(errors.rows <= 1);
  }
}

}  // namespace

TEST_CASE("a matmul that is only rounded is right") {
  check_right_in_all_layouts<number_format::fp64>();
  check_right_in_all_layouts<number_format::fp32>();
  check_right_in_all_layouts<number_format::tf32>();
  check_right_in_all_layouts<number_format::bf16>();
  check_right_in_all_layouts<number_format::fp16>();
  check_right_in_all_layouts<number_format::fp8>();
  check_right_in_all_layouts<number_format::int8>();
}

TEST_CASE("what matrix units cut off is right, in short sums and long ones") {
  for (const std::int64_t k : {16, 256, 4096}) {
    CAPTURE(k);
    matmul_on_host<number_format::tf32> tf32({24, 24, k}, matmul_pass::forward);
    tf32.multiply([&](std::int64_t row, std::int64_t column) {
      return static_cast<float>(dot_of_matrix_unit(tf32, row, column, 8, 24));
    });
    CHECK(tf32.check().are_within_bounds());
    matmul_on_host<number_format::fp16> fp16({24, 24, k}, matmul_pass::forward);
    fp16.multiply([&](std::int64_t row, std::int64_t column) {
      return static_cast<float>(dot_of_matrix_unit(fp16, row, column, 16, 24));
    });
    CHECK(fp16.check().are_within_bounds());
    // Hopper's fp8, all sums in 14 bits.
    matmul_on_host<number_format::fp8> fp8({24, 24, k}, matmul_pass::forward);
    fp8.multiply([&](std::int64_t row, std::int64_t column) {
      return static_cast<float>(dot_of_matrix_unit(fp8, row, column, 32, 14));
    });
    CHECK(fp8.check().are_within_bounds());
  }
}

TEST_CASE("sums in fp16 are not right") {
  matmul_on_host<number_format::fp16> p({24, 24, 4096}, matmul_pass::forward);
  p.multiply([&](std::int64_t row, std::int64_t column) {
    __half sum(0.0F);
    for (std::int64_t i = 0; i < 4096; ++i)
      sum =
          __half(static_cast<float>(sum) + static_cast<float>(p.a_at(row, i) * p.b_at(i, column)));
    return static_cast<float>(sum);
  });
  CHECK(!p.check().are_within_bounds());
}

TEST_CASE("operands rounded further are not right") {
  // As tf32 would be in place of fp32.
  matmul_on_host<number_format::fp32> p({24, 24, 512}, matmul_pass::forward);
  p.multiply([&](std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < 512; ++i)
      sum += static_cast<double>(rounded_to_tf32(static_cast<float>(p.a_at(row, i)))) *
             static_cast<double>(rounded_to_tf32(static_cast<float>(p.b_at(i, column))));
    return static_cast<float>(sum);
  });
  CHECK(!p.check().are_within_bounds());
}

TEST_CASE("one wrong element among many is found by its row") {
  // Of 40 000 elements 256 are computed again, so most wrong ones are not among them.
  int found_by_rows = 0;
  auto p = exact_product<number_format::bf16>({200, 200, 64});
  for (int i = 0; i < 8; ++i) {
    const std::int64_t place = random_words(7, i).word[0] % 40000;
    __nv_bfloat16& element = p.c_at(place / 200, place % 200);
    const __nv_bfloat16 right = element;
    element = __nv_bfloat16(static_cast<float>(right) + 40.0F);  // five standard deviations
    found_by_rows += p.check().rows > 1 ? 1 : 0;
    element = right;
  }
  CHECK(found_by_rows == 8);
  CHECK(p.check().are_within_bounds());
}

TEST_CASE("one integer that is off by one is found") {
  auto p = exact_product<number_format::int8>({64, 96, 128});
  p.c_at(33, 44) += 1;
  CHECK(p.check().rows > 1);
}

TEST_CASE("corners are always computed again") {
  for (const std::int64_t row : {0, 39})
    for (const std::int64_t column : {0, 23}) {
      auto p = exact_product<number_format::fp32>({40, 24, 48});
      p.c_at(row, column) += 1.0F;
      CHECK(p.check().elements > 1);
    }
}

TEST_CASE("a part of the sums that is left out is found, and what is no number") {
  const matmul_shape shape{64, 64, 256};
  matmul_on_host<number_format::bf16> p(shape, matmul_pass::forward);
  p.multiply([&](std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < shape.k - 8; ++i) sum += p.a_at(row, i) * p.b_at(i, column);
    return static_cast<float>(sum);
  });
  CHECK(!p.check().are_within_bounds());
  auto q = exact_product<number_format::bf16>(shape);
  q.c_at(17, 18) = std::bit_cast<__nv_bfloat16>(std::uint16_t{0xFFFF});
  CHECK(std::isinf(q.check().rows));
}

TEST_CASE("zeros are exact, and beside them nothing is") {
  matmul_on_host<number_format::fp16> p({16, 16, 16}, matmul_pass::forward);
  for (auto* of : {&p.a, &p.b})
    for (__half& x : *of) x = __half(0.0F);
  p.multiply([](std::int64_t, std::int64_t) { return 0.0F; });
  const matmul_errors errors = p.check();
  CHECK(errors.elements == 0);
  CHECK(errors.rows == 0);
  p.c_at(3, 4) = __half(1e-3F);
  CHECK(!p.check().are_within_bounds());
}

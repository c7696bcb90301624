#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/matmul_surface.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

// A rate that follows a power of each number.
constexpr double law(const matmul_shape& of) {
  return 1e9 * detail::pow(static_cast<double>(of.m), 0.5) *
         detail::pow(static_cast<double>(of.n), 0.3) * detail::pow(static_cast<double>(of.k), 0.1);
}
constexpr measured_point point(std::int64_t m, std::int64_t n, std::int64_t k) {
  const matmul_shape shape{m, n, k};
  return {.format = number_format::bf16, .shape = shape, .rate = law(shape) * 1_FLOPS};
}

// A grid without its last point, an irregular point, and one of another format.
constexpr measured_point points[] = {
    point(64, 128, 256),
    point(64, 128, 1024),
    point(64, 2048, 256),
    point(64, 2048, 1024),
    point(1024, 128, 256),
    point(1024, 128, 1024),
    point(1024, 2048, 256),
    point(4096, 128, 256),
    point(4096, 128, 1024),
    point(4096, 2048, 256),
    point(4096, 2048, 1024),
    {.format = number_format::bf16, .shape = {64, 1000, 300}, .rate = 5_TFLOPS},
    {.format = number_format::fp16, .shape = {64, 130, 256}, .rate = 7_TFLOPS}};
constexpr measured_device measurement{
    .id = "h100-sxm5-80gb", .date = "2026-11-22", .surface = points};
constexpr gpu_spec measured_gpu = [] {
  gpu_spec gpu = catalog::h100_sxm5_80gb;
  gpu.measured = &measurement;
  return gpu;
}();

constexpr bool follows_law(const matmul_shape& shape, const matmul_shape& as_at) {
  const auto found = matmul_rate(measured_gpu, number_format::bf16, shape);
  return found && found->origin == ceiling_origin::measured &&
         detail::abs(found->value.value() / law(as_at) - 1) < 1e-12;
}
constexpr bool follows_law(const matmul_shape& shape) { return follows_law(shape, shape); }

constexpr bool is_unknown(const gpu_spec& gpu,
                          const matmul_shape& shape,
                          number_format format = number_format::bf16,
                          accumulator sum = accumulator::fp32) {
  return matmul_rate(gpu, format, shape, sum).why().code == errc::not_known;
}

}  // namespace

TEST_CASE("a measured point is given back") {
  STATIC_CHECK(follows_law({64, 128, 256}));
  STATIC_CHECK(follows_law({4096, 2048, 1024}));
  CONSTEXPR auto irregular = matmul_rate(measured_gpu, number_format::bf16, {64, 1000, 300});
  STATIC_CHECK(irregular->value == 5_TFLOPS);
}

TEST_CASE("between points a power law is met") {
  STATIC_CHECK(follows_law({100, 128, 256}));
  STATIC_CHECK(follows_law({64, 500, 256}));
  STATIC_CHECK(follows_law({333, 777, 256}));
  STATIC_CHECK(follows_law({64, 2000, 999}));
  STATIC_CHECK(follows_law({3000, 1999, 256}));
}

TEST_CASE("beyond the largest numbers the rate stays") {
  STATIC_CHECK(follows_law({8192, 128, 256}, {4096, 128, 256}));
  STATIC_CHECK(follows_law({100000, 9999, 5000}, {4096, 2048, 1024}));
  STATIC_CHECK(follows_law({100, 128, 2048}, {100, 128, 1024}));
}

TEST_CASE("what was not measured is not known") {
  STATIC_CHECK(is_unknown(measured_gpu, {63, 128, 256}));      // below the grid
  STATIC_CHECK(is_unknown(measured_gpu, {64, 128, 255}));      // likewise
  STATIC_CHECK(is_unknown(measured_gpu, {512, 2048, 1000}));   // beside the missing point
  STATIC_CHECK(is_unknown(measured_gpu, {1024, 2048, 1024}));  // which is this
  STATIC_CHECK(is_unknown(measured_gpu, {64, 128, 256}, number_format::tf32));
  STATIC_CHECK(is_unknown(measured_gpu, {64, 128, 256}, number_format::bf16, accumulator::fp16));
  STATIC_CHECK(is_unknown(catalog::h100_sxm5_80gb, {64, 128, 256}));
}

TEST_CASE("a format with one point knows its rate from there on") {
  CONSTEXPR auto at = matmul_rate(measured_gpu, number_format::fp16, {64, 130, 256});
  STATIC_CHECK(at->value == 7_TFLOPS);
  CONSTEXPR auto beyond = matmul_rate(measured_gpu, number_format::fp16, {64, 200, 256});
  STATIC_CHECK(detail::abs(beyond->value / 7_TFLOPS - 1) < 1e-12);
  STATIC_CHECK(is_unknown(measured_gpu, {64, 128, 256}, number_format::fp16));
}

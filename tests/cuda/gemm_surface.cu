// Surfaces on the stand-in: which points are there, in which order, and how they are measured.

#include <gpuplan/cuda/gemm_surface.cuh>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "played_matmuls.hpp"

namespace {

using namespace played;

// A device whose products take a fixed time and one that grows with the work.
double seconds_of(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  return 20e-3 + static_cast<double>(2 * m * n * k) / 1e8;
}

void reset_with_known_times() {
  played::reset<number_format::bf16>();
  stand_in::current_matmul().seconds = [](const stand_in::matmul& m) {
    const std::uint64_t k = m.transpose_a == CUBLAS_OP_T ? m.a.rows : m.a.columns;
    return seconds_of(m.d.rows, m.d.columns, k);
  };
}

}  // namespace

TEST_CASE("a grid has every combination once") {
  const auto shapes = shapes_of(surface_grid{.m = {1, 2}, .n = {3}, .k = {4, 5}});
  REQUIRE(shapes.size() == 4);
  CHECK(shapes[0] == matmul_shape{1, 3, 4});
  CHECK(shapes[3] == matmul_shape{2, 3, 5});
  CHECK(shapes_of(surface_grid{}).size() == 80);
  const model_matmul products[] = {{.shape = {1, 2, 3}, .count = 1},
                                   {.shape = {1, 2, 3}, .pass = matmul_pass::weight_gradient},
                                   {.shape = {3, 2, 1}}};
  CHECK(shapes_of(products).size() == 2);
}

TEST_CASE("a surface's points are what the products take") {
  reset_with_known_times();
  {
    session s(virtual_time());
    const auto shapes = shapes_of(surface_grid{.m = {16, 64}, .n = {32, 64}, .k = {16, 48}});
    const gemm_surface surface = measure_gemm_surface(s, number_format::bf16, shapes);
    CHECK(surface.format == number_format::bf16);
    CHECK(surface.missing.empty());
    REQUIRE(surface.points.size() == 8);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      CHECK(surface.points[i].shape == shapes[i]);
      CHECK(surface.points[i].format == number_format::bf16);
      const auto m = static_cast<std::uint64_t>(shapes[i].m);
      const auto n = static_cast<std::uint64_t>(shapes[i].n);
      const auto k = static_cast<std::uint64_t>(shapes[i].k);
      CHECK(
          surface.points[i].rate.value() ==
          doctest::Approx(static_cast<double>(2 * m * n * k) / seconds_of(m, n, k)).epsilon(1e-4));
    }
    // The largest came first, and the cache was flushed.
    CHECK(stand_in::matmuls().front().d.columns == 64);
    CHECK(stand_in::matmuls().front().d.rows == 64);
    CHECK(stand_in::calls().at("cudaMemsetAsync") > 8 * 32);
    // As measured_device takes them.
    const measured_device device{.id = "stand_in", .date = "2026-11-22", .surface = surface.points};
    CHECK(static_cast<bool>(validate(device)));
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("points without room are missing, with the reason, and the others are there") {
  reset_with_known_times();
  session s(virtual_time());
  const std::vector<matmul_shape> shapes{{16, 32, 16}, {16384, 16384, 16384}, {64, 32, 16}};
  const gemm_surface surface = measure_gemm_surface(s, number_format::bf16, shapes);
  REQUIRE(surface.points.size() == 2);
  CHECK(surface.points[0].shape == shapes[0]);
  CHECK(surface.points[1].shape == shapes[2]);
  REQUIRE(surface.missing.size() == 1);
  CHECK(surface.missing[0].shape == shapes[1]);
  CHECK(surface.missing[0].why.find("cudaErrorMemoryAllocation") != std::string::npos);
}

TEST_CASE("the device is heated once, by the first point that runs") {
  const auto virtual_seconds = [](const surface_options& options) {
    reset_with_known_times();
    session s(virtual_time());
    const std::vector<matmul_shape> shapes{
        {16384, 16384, 16384}, {64, 32, 16}, {16, 32, 16}, {16, 16, 16}};
    static_cast<void>(measure_gemm_surface(s, number_format::bf16, shapes, options));
    return stand_in::now_s();
  };
  surface_options longer;
  longer.heat.window_s = 3;  // three windows of it, in place of three of a second
  const double difference = virtual_seconds(longer) - virtual_seconds({});
  CHECK(difference > 5.5);
  CHECK(difference < 6.5);
}

TEST_CASE("of a format that the device has not, all points are missing") {
  played::reset<>();
  session s(virtual_time());
  const auto shapes = shapes_of(surface_grid{.m = {16}, .n = {16}, .k = {16, 32}});
  const gemm_surface surface = measure_gemm_surface(s, number_format::fp4, shapes);
  CHECK(surface.points.empty());
  CHECK(surface.missing.size() == 2);
}

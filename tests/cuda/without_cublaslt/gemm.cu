// Matrix products where cuBLASLt is absent: the own kernel alone, and a plain word about the rest.

#undef GPUPLAN_CUDA_CUBLASLT

#include <gpuplan/cuda/gemm_surface.cuh>

#include <string_view>

#include <doctest/doctest.h>

#include "cuda/played_matmuls.hpp"

namespace {

using namespace played;

const gemm_options brief{.sampling = {.warm_up = {.window_s = 0.1},
                                      .stop = {.window = 4, .least_samples = 4, .least_s = 0}}};

}  // namespace

TEST_CASE("without cuBLASLt the own kernel is measured, and is no ceiling") {
  played::reset<number_format::bf16>();
  play_own_kernel<__nv_bfloat16>(80e-3);
  {
    session s(virtual_time());
    const gemm_result result = measure_gemm(s, {number_format::bf16, {48, 32, 64}}, brief);
    CHECK(result.why_not == "built without cuBLASLt");
    CHECK(!result.sustained);
    CHECK(result.own_kernel.has_value());
    const measured_matmul kept = measured_matmul_of(result);
    CHECK(!kept.sustained);
    CHECK(static_cast<bool>(kept.own_kernel));
  }
  CHECK(stand_in::live().empty());
  CHECK(stand_in::matmuls().empty());
}

TEST_CASE("without cuBLASLt the fastest shape is the own kernel's") {
  played::reset<number_format::fp16>();
  play_own_kernel<__half>(80e-3);
  session s(virtual_time());
  const matmul_shape shapes[] = {{48, 32, 64}, {96, 64, 64}, {32, 32, 64}};
  const gemm_of_format all = measure_fastest_gemm(s, number_format::fp16, shapes, brief);
  CHECK(all.fastest.matmul.shape == shapes[1]);
  CHECK(all.fastest.own_kernel.has_value());
}

TEST_CASE("without cuBLASLt a surface has no points") {
  played::reset<>();
  session s(virtual_time());
  const matmul_shape shapes[] = {{48, 32, 64}};
  const gemm_surface surface = measure_gemm_surface(s, number_format::bf16, shapes);
  CHECK(surface.points.empty());
  REQUIRE(surface.missing.size() == 1);
  CHECK(surface.missing[0].why == "built without cuBLASLt");
}

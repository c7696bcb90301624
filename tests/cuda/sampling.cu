// The protocol of all measurements, on a device whose clock and times are known.

#include <gpuplan/cuda/sampling.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

namespace {

using namespace gpuplan;

__global__ void busy() {}

cuda::session_options virtual_time() {
  return {.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s};
}

void launch_busy(cudaStream_t on) { GPUPLAN_CUDA_LAUNCH(busy<<<4, 128, 0, on>>>()); }

}  // namespace

TEST_CASE("a steady kernel is timed as long as it runs") {
  stand_in::reset();
  stand_in::current().kernels.push_back({.name = "busy", .seconds = stand_in::series({2e-3})});
  {
    cuda::session s(virtual_time());
    const cuda::sampled r = cuda::sample(s, launch_busy, {.what = "busy"});
    CHECK(in(r.median, 1_ms) == doctest::Approx(2));
    CHECK(r.launches_per_sample == 1);
    CHECK(r.ended == measure::stop_reason::steady);
    CHECK(r.warm);
    REQUIRE(r.clock_MHz.has_value());
    CHECK(*r.clock_MHz == doctest::Approx(1980).epsilon(1e-3));
  }
  CHECK(stand_in::live().empty());
}

// The checked calls and the owned objects.

#include <gpuplan/cuda/runtime.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "every_call_fails.hpp"

namespace {

using namespace gpuplan::cuda;

__global__ void scale(float* data, unsigned count, float by) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= by;
}

// What `scale` does, on the host.
void add_scale() {
  stand_in::current().kernels.push_back({.name = "scale", .body = [](const stand_in::launch& l) {
                                           for (unsigned i = 0; i < l.argument<unsigned>(1); ++i)
                                             l.argument<float*>(0)[i] *= l.argument<float>(2);
                                         }});
}

void use_everything() {
  const device_scope on(0);
  const stream s;
  const event start;
  const event stop;
  const device_buffer<float> data(100);
  const pinned_buffer<float> there(100);
  for (float& x : there.elements()) x = 2;
  start.record(s);
  GPUPLAN_CUDA_CALL(
      cudaMemcpyAsync(data.data(), there.data(), data.bytes(), cudaMemcpyHostToDevice, s));
  const graph twice(s, [&](cudaStream_t recorded) {
    GPUPLAN_CUDA_LAUNCH(scale<<<1, 128, 0, recorded>>>(data.data(), 100u, 3.0f));
  });
  twice.launch(s);
  stop.record(s);
  stop.synchronize();
  const double took_s = seconds_between(start, stop);
  CHECK(took_s > 0);
}

}  // namespace

TEST_CASE("an error says where, what and why") {
  stand_in::reset();
  stand_in::fail("cudaDeviceSynchronize", 1, cudaErrorIllegalAddress);
  const int line = __LINE__ + 2;
  try {
    GPUPLAN_CUDA_CALL(cudaDeviceSynchronize());
    FAIL("nothing was thrown");
  } catch (const call_error& error) {
    CHECK(error.line() == line);
    CHECK(std::string(error.file()) == __FILE__);
    CHECK(std::string(error.call()) == "cudaDeviceSynchronize()");
    CHECK(error.status().code == cudaErrorIllegalAddress);
    CHECK(std::string(error.what()) == std::string(__FILE__) + ":" + std::to_string(line) +
                                           ": cudaDeviceSynchronize(): CUDA error 700, "
                                           "cudaErrorIllegalAddress: an error of the stand-in");
  }
  CHECK_FALSE(stand_in::error_waits());
}

TEST_CASE("an error of an earlier call is not blamed on the next launch") {
  stand_in::reset();
  stand_in::fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(device_buffer<float>(4), call_error);
  const stream s;
  CHECK_NOTHROW(GPUPLAN_CUDA_LAUNCH(scale<<<1, 1, 0, s>>>(nullptr, 0u, 1.0f)));
}

TEST_CASE("a launch that is refused says which") {
  stand_in::reset();
  try {
    GPUPLAN_CUDA_LAUNCH(scale<<<1, 2048>>>(nullptr, 0u, 1.0f));
    FAIL("nothing was thrown");
  } catch (const call_error& error) {
    CHECK(std::string(error.call()) == "scale<<<1, 2048>>>(nullptr, 0u, 1.0f)");
    CHECK(error.status().code == cudaErrorInvalidConfiguration);
  }
}

#ifdef GPUPLAN_CUDA_CUBLASLT
TEST_CASE("a status of cuBLASLt is an error like CUDA's") {
  try {
    GPUPLAN_CUDA_CALL(CUBLAS_STATUS_NOT_SUPPORTED);
    FAIL("nothing was thrown");
  } catch (const call_error& error) {
    CHECK(std::string(error.what()).find("CUBLAS_STATUS_NOT_SUPPORTED: cuBLASLt error 15, ") !=
          std::string::npos);
  }
  CHECK_NOTHROW(GPUPLAN_CUDA_CALL(CUBLAS_STATUS_SUCCESS));
}
#endif

#ifdef GPUPLAN_CUDA_NCCL
TEST_CASE("a status of NCCL is an error like CUDA's") {
  try {
    GPUPLAN_CUDA_CALL(ncclSystemError);
    FAIL("nothing was thrown");
  } catch (const call_error& error) {
    CHECK(std::string(error.what()).find("ncclSystemError: NCCL error 2, ") != std::string::npos);
  }
}
#endif

TEST_CASE("what is owned is freed, also after it was moved") {
  stand_in::reset();
  {
    stream s;
    stream moved = std::move(s);
    CHECK(s.get() == nullptr);
    device_buffer<double> a(8);
    a = device_buffer<double>(16);
    CHECK(a.size() == 16);
    CHECK(a.bytes() == 128);
    const pinned_buffer<int> p(3);
    CHECK(p.elements().size() == 3);
    const auto live = stand_in::live();
    CHECK(live.at("cudaMalloc") == 1);
    CHECK(live.at("cudaHostAlloc") == 1);
    CHECK(live.at("cudaStreamCreateWithFlags") == 1);
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("a buffer beyond the address space is refused before the runtime is asked") {
  stand_in::reset();
  CHECK_THROWS_AS(device_buffer<double>(static_cast<std::size_t>(-1) / 4), std::length_error);
  CHECK_THROWS_AS(pinned_buffer<double>(static_cast<std::size_t>(-1) / 4), std::length_error);
  CHECK(stand_in::calls().empty());
}

TEST_CASE("memory runs out where the device's does") {
  stand_in::reset();
  const std::size_t most = stand_in::current().devices[0].properties.totalGlobalMem;
  CHECK_NOTHROW(device_buffer<std::byte>{most});
  CHECK_THROWS_AS(device_buffer<std::byte>(most + 1), call_error);
  stand_in::current().devices[0].context_bytes = 1;
  CHECK_THROWS_AS(device_buffer<std::byte>{most}, call_error);
}

TEST_CASE("a graph runs what was recorded, as often as it is launched") {
  stand_in::reset();
  add_scale();
  const stream s;
  const graph two(s, [](cudaStream_t recorded) {
    for (int i = 0; i < 2; ++i)
      GPUPLAN_CUDA_LAUNCH(scale<<<1, 1, 0, recorded>>>(nullptr, 0u, 1.0f));
  });
  CHECK(stand_in::launches().empty());
  two.launch(s);
  two.launch(s);
  CHECK(stand_in::launches_of("scale").size() == 4);
}

TEST_CASE("a recording that throws leaves a plain stream behind") {
  stand_in::reset();
  {
    const stream s;
    CHECK_THROWS_WITH(graph(s, [](cudaStream_t) { throw std::runtime_error("mine"); }), "mine");
    CHECK(stand_in::live().size() == 1);  // the stream
    CHECK_NOTHROW(s.synchronize());       // which a stream that records refuses
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("the device that was current is current again") {
  stand_in::reset();
  stand_in::current().devices.push_back(stand_in::plain_device());
  {
    const device_scope second(1);
    CHECK(stand_in::current_device() == 1);
    GPUPLAN_CUDA_CALL(cudaSetDevice(0));  // whatever happens inside
    GPUPLAN_CUDA_CALL(cudaSetDevice(1));
  }
  CHECK(stand_in::current_device() == 0);
  try {
    const device_scope second(1);
    throw std::runtime_error("an exception flies");
  } catch (const std::runtime_error&) {
  }
  CHECK(stand_in::current_device() == 0);
  CHECK_THROWS_AS(device_scope(2), call_error);
  CHECK(stand_in::current_device() == 0);
}

TEST_CASE("a kernel that fails is seen by the next call that waits, and by all after it") {
  stand_in::reset();
  stand_in::current().kernels.push_back({.name = "scale", .fails = cudaErrorIllegalAddress});
  {
    const stream s;
    CHECK_NOTHROW(GPUPLAN_CUDA_LAUNCH(scale<<<1, 1, 0, s>>>(nullptr, 0u, 1.0f)));
    CHECK_THROWS_AS(s.synchronize(), call_error);
    CHECK_THROWS_AS(device_buffer<float>(1), call_error);
  }
  CHECK(stand_in::live().empty());
  stand_in::reset();
}

TEST_CASE("every call can fail") { tests::every_call_fails(add_scale, use_everything); }

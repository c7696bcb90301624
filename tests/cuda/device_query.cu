// What CUDA and the management library say of a device, from stand-ins for both.

#include <gpuplan/cuda/device_query.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <cstdlib>
#include <string>

namespace {

using namespace gpuplan;
using namespace std::string_literals;

// What the stand-in for the management library answers, as long as this is.
class nvml_answers {
 public:
  explicit nvml_answers(const std::string& text) { setenv("STAND_IN_NVML", text.c_str(), 1); }
  nvml_answers(const nvml_answers&) = delete;
  nvml_answers& operator=(const nvml_answers&) = delete;
  ~nvml_answers() { unsetenv("STAND_IN_NVML"); }
};

cuda::nvml stand_in_nvml() { return cuda::nvml(GPUPLAN_STAND_IN_NVML); }

}  // namespace

TEST_CASE("devices are counted, and none is no error") {
  stand_in::reset();
  CHECK(cuda::device_count() == 1);
  stand_in::current().devices.clear();
  CHECK(cuda::device_count() == 0);
  CHECK(!stand_in::error_waits());
  stand_in::fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  CHECK(cuda::device_count() == 0);
  stand_in::fail("cudaGetDeviceCount", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(static_cast<void>(cuda::device_count()), cuda::call_error);
}

TEST_CASE("a version reads as people write it") {
  CHECK(cuda::version_text(13000) == "13.0");
  CHECK(cuda::version_text(12080) == "12.8");
  CHECK(cuda::version_text(11080) == "11.8");
}

TEST_CASE("a property struct made by hand is what recognition takes") {
  cudaDeviceProp of{};
  "NVIDIA L40S"s.copy(of.name, sizeof of.name - 1);
  of.major = 8;
  of.minor = 9;
  of.multiProcessorCount = 142;
  of.totalGlobalMem = 47'576'711'168;
  of.l2CacheSize = 100'663'296;
  of.memoryBusWidth = 384;
  of.ECCEnabled = 1;
  const measure::device_properties properties = cuda::properties_of(of, 2'520'000, 9'001'000);
  CHECK(properties.name == of.name);
  CHECK(properties.compute_capability == 89);
  CHECK(properties.sm_count == 142);
  CHECK(properties.clock_MHz == 2520);
  CHECK(properties.memory_clock_MHz == 9001);
  CHECK(properties.memory_bus_bits == 384);
  CHECK(properties.memory == 47'576'711'168_B);
  CHECK(properties.l2 == 96_MiB);
  CHECK(*properties.error_correction);
  const auto found = measure::recognise(properties);
  CHECK(found.spec.id == "l40s"s);
  CHECK(found.disagreements().empty());
}

TEST_CASE("without a management library, what it alone knows is absent") {
  stand_in::reset();
  stand_in::current().devices[0].context_bytes = 56 << 20;
  const cuda::nvml none("libthat-does-not-exist.so");
  CHECK(!none);
  const cuda::queried_device found = cuda::query_device(0, none);
  CHECK(found.properties().name == "Stand-in GPU"s);
  CHECK(found.properties().compute_capability == 90);
  CHECK(found.driver == "CUDA 13.0");
  CHECK(found.runtime == "CUDA 13.0");
  CHECK(found.pci_bus_id.size() > 8);
  CHECK(!found.listed_memory);
  CHECK(!found.context_memory);
  CHECK(!found.power_limit);
  CHECK(!found.pcie);
  CHECK(*found.free_memory == 200_MiB);

  // A library that is there, and does not answer.
  CHECK(!stand_in_nvml());
  CHECK(stand_in_nvml().driver_version().empty());
}

TEST_CASE("the management library adds power, memory and link") {
  stand_in::reset();
  const nvml_answers answers("85520809984 85000000000 699900 123400 5 16");
  const cuda::nvml library = stand_in_nvml();
  CHECK(library);
  const cuda::queried_device found = cuda::query_device(0, library);
  CHECK(found.driver == "0.0 stand-in, CUDA 13.0");
  CHECK(*found.listed_memory == 81559_MiB);
  CHECK(*found.power_limit == 699.9_W);
  CHECK(found.pcie->generation == 5);
  CHECK(found.pcie->lanes == 16);
  CHECK(*found.context_memory == 512_MiB);
  CHECK(*found.properties().listed_memory == 81559_MiB);
  CHECK(*cuda::managed_device(library, found.pci_bus_id).draw() == 123.4_W);
  CHECK(!cuda::managed_device(library, found.pci_bus_id).utilisation());
  setenv("STAND_IN_NVML_BUSY", "87", 1);
  CHECK(*cuda::managed_device(library, found.pci_bus_id).utilisation() == 0.87);
  unsetenv("STAND_IN_NVML_BUSY");
  // A device that it does not know, and a number that it does not.
  CHECK(!cuda::managed_device(library, "").draw());
  setenv("STAND_IN_NVML", "85520809984 85000000000 0 0 0 16", 1);
  CHECK(!cuda::managed_device(library, found.pci_bus_id).power_limit());
  CHECK(!cuda::managed_device(library, found.pci_bus_id).pcie());
}

TEST_CASE("each call that fails is named, and the current device stays") {
  for (const char* call : {"cudaGetDeviceProperties",
                           "cudaDeviceGetAttribute",
                           "cudaDeviceGetPCIBusId",
                           "cudaDriverGetVersion",
                           "cudaRuntimeGetVersion",
                           "cudaGetDevice",
                           "cudaSetDevice",
                           "cudaFree",
                           "cudaMemGetInfo"}) {
    CAPTURE(call);
    stand_in::reset();
    stand_in::current().devices.push_back(stand_in::plain_device());
    stand_in::fail(call, 1, cudaErrorLaunchFailure);
    try {
      static_cast<void>(cuda::query_device(1, cuda::nvml("libthat-does-not-exist.so")));
      FAIL("no error");
    } catch (const cuda::call_error& error) {
      CHECK(std::string(error.call()).find(call) == 0);
    }
    CHECK(stand_in::current_device() == 0);
    CHECK(!stand_in::error_waits());
  }
  CHECK(stand_in::live().empty());
  stand_in::reset();
  CHECK_THROWS_AS(static_cast<void>(cuda::query_device(7)), cuda::call_error);
}

#pragma once

// What CUDA and the driver say of a device, for `measure::recognise`.

#include <gpuplan/cuda/nvml.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/gpu.hpp>
#include <gpuplan/measure/recognise.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <string>

namespace gpuplan::cuda {

/// How many devices there are: 0 also where there is no driver, or one that is too old for this
/// program's CUDA. Throws call_error for all else that is wrong.
[[nodiscard]] inline int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  GPUPLAN_CUDA_CALL(status);
  return count;
}

/// A version of CUDA as people write it: 13.0 for 13000.
[[nodiscard]] inline std::string version_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

/// What a property struct of CUDA says, with the two clocks that it has lacked since CUDA 13.
/// Refers to the name in `of`.
[[nodiscard]] inline measure::device_properties properties_of(const cudaDeviceProp& of,
                                                              int clock_kHz,
                                                              int memory_clock_kHz) {
  return {.name = of.name,
          .compute_capability = 10 * of.major + of.minor,
          .sm_count = of.multiProcessorCount,
          .clock_MHz = clock_kHz / 1000,
          .memory_clock_MHz = memory_clock_kHz / 1000,
          .memory_bus_bits = of.memoryBusWidth,
          .memory = bytes::from_value(static_cast<double>(of.totalGlobalMem)),
          .l2 = bytes::from_value(of.l2CacheSize),
          .error_correction = of.ECCEnabled != 0};
}

/// What is known of a device before anything is measured.
struct queried_device {
  cudaDeviceProp raw{};
  int clock_kHz = 0;
  int memory_clock_kHz = 0;
  std::string pci_bus_id{};
  std::string driver{};   // "580.65.06, CUDA 13.0"
  std::string runtime{};  // "CUDA 13.0"
  known<bytes> listed_memory{};
  known<bytes> free_memory{};     // beside this process's context
  known<bytes> context_memory{};  // of this process
  known<power> power_limit{};
  known<pcie_link> pcie{};

  /// For `measure::recognise`. Refers to this.
  [[nodiscard]] measure::device_properties properties() const {
    measure::device_properties all = properties_of(raw, clock_kHz, memory_clock_kHz);
    all.listed_memory = listed_memory;
    all.power_limit = power_limit;
    all.pcie = pcie;
    return all;
  }
};

/// Asks CUDA and `management` about a device, which gets a context where this process has none on
/// it yet. That context's memory is what the management library finds less of afterwards: known
/// only where the context was made here, and wrong where another process takes or frees memory
/// meanwhile. Throws call_error, also where there is no such device.
[[nodiscard]] inline queried_device query_device(int device, const nvml& management = nvml()) {
  queried_device found;
  GPUPLAN_CUDA_CALL(cudaGetDeviceProperties(&found.raw, device));
  GPUPLAN_CUDA_CALL(cudaDeviceGetAttribute(&found.clock_kHz, cudaDevAttrClockRate, device));
  GPUPLAN_CUDA_CALL(
      cudaDeviceGetAttribute(&found.memory_clock_kHz, cudaDevAttrMemoryClockRate, device));
  char bus_id[64] = "";
  GPUPLAN_CUDA_CALL(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
  found.pci_bus_id = bus_id;
  int version = 0;
  GPUPLAN_CUDA_CALL(cudaDriverGetVersion(&version));
  const std::string of_driver = management.driver_version();
  found.driver = (of_driver.empty() ? "" : of_driver + ", ") + "CUDA " + version_text(version);
  GPUPLAN_CUDA_CALL(cudaRuntimeGetVersion(&version));
  found.runtime = "CUDA " + version_text(version);

  const managed_device managed(management, found.pci_bus_id);
  found.listed_memory = managed.memory();
  found.power_limit = managed.power_limit();
  found.pcie = managed.pcie();
  const known<bytes> before = managed.free_memory();
  const device_scope scope(device);
  GPUPLAN_CUDA_CALL(cudaFree(nullptr));  // makes the context
  const known<bytes> after = managed.free_memory();
  if (before && after && *after < *before) found.context_memory = *before - *after;
  std::size_t free = 0;
  std::size_t total = 0;
  GPUPLAN_CUDA_CALL(cudaMemGetInfo(&free, &total));
  found.free_memory = bytes::from_value(static_cast<double>(free));
  return found;
}

}  // namespace gpuplan::cuda

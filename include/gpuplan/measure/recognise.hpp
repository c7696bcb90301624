#pragma once

// Which device of the catalogue a program runs on, by what CUDA and NVML say of it. Calls neither,
// so that it can be asked about devices that are not at hand; cuda/device_query.cuh asks them.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <span>

namespace gpuplan::measure {

/// What the driver says of a device. What NVML alone says is absent where there is no NVML. A MIG
/// slice is a device of its own, and NVML's numbers are then of the whole GPU.
struct device_properties {
  const char* name = "";       // "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
  int compute_capability = 0;  // 89 for 8.9
  int sm_count = 0;
  int clock_MHz = 0;         // of the SMs, at most
  int memory_clock_MHz = 0;  // two transfers each; 0 where the driver does not say
  int memory_bus_bits = 0;
  bytes memory{};  // as CUDA counts it
  bytes l2{};
  known<bytes> listed_memory{};  // as nvidia-smi lists it
  known<power> power_limit{};
  known<pcie_link> pcie{};  // of the widest and fastest that device and slot allow
  known<bool> error_correction{};
};

/// A number of the catalogue that the device contradicts.
struct disagreement {
  const char* what;
  const char* unit;
  double catalogue;
  double device;
};

/// A device as the catalogue has it, with its own SMs, memory and link to the host.
struct recognised_device {
  gpu_spec spec{};       // without peak rates where the catalogue does not have the device
  bool by_name = false;  // else by compute capability, SMs and memory, which are those of one alone
  failure why{};         // it is not in the catalogue, with the nearest name; else `errc::none`
  disagreement all[8]{};
  std::size_t count = 0;  // of `all`, in use

  [[nodiscard]] constexpr std::span<const disagreement> disagreements() const& {
    return {all, count};
  }
  /// Not of a temporary: a loop over them would outlive it.
  std::span<const disagreement> disagreements() const&& = delete;
};

namespace detail {

// CUDA counts 0.25 GiB to 2 % less than nvidia-smi: 241 MiB on a T4, 480 on an H100, 660 on an
// L40S, 483 on an RTX 4090, where those without ECC switched to it lack a sixteenth.
constexpr bool is_memory_of(bytes catalogue, bytes device) {
  return device <= catalogue * 1.01 && device >= catalogue * 0.985 - 0.25_GiB;
}

constexpr bool is_near(double a, double b, double share) {
  const double difference = a < b ? b - a : a - b;
  return difference <= share * a;
}

// The one NVIDIA device of the catalogue that has these counts and this memory, whatever its name.
constexpr known<const gpu_spec*> only_one_like(const device_properties& given, bytes memory) {
  known<const gpu_spec*> found;
  for (const gpu_spec* gpu : catalog::gpus) {
    if (gpu->vendor != gpu_vendor::nvidia || gpu->sm_count != given.sm_count) continue;
    if (!gpu->compute_capability || *gpu->compute_capability != given.compute_capability) continue;
    if (!gpu->memory || !is_memory_of(*gpu->memory, memory)) continue;
    if (found) return {};
    found = gpu;
  }
  return found;
}

constexpr void compare(const device_properties& given,
                       const gpu_spec& sheet,
                       bytes memory,
                       recognised_device& with) {
  const auto differs = [&](const char* what, const char* unit, double catalogue, double device) {
    with.all[with.count++] = {what, unit, catalogue, device};
  };
  if (sheet.compute_capability && *sheet.compute_capability != given.compute_capability)
    differs("compute capability",
            "",
            *sheet.compute_capability / 10.0,
            given.compute_capability / 10.0);
  if (sheet.sm_count != given.sm_count) differs("SMs", "", sheet.sm_count, given.sm_count);
  if (sheet.memory && !is_memory_of(*sheet.memory, memory))
    differs("memory", "GiB", in(*sheet.memory, 1_GiB), in(memory, 1_GiB));
  // A slice has the clock and the bus of the whole.
  const bandwidth rate =
      bandwidth::from_value(2e6 * given.memory_clock_MHz * given.memory_bus_bits / 8);
  if (*sheet.slice == '\0' && rate > bandwidth{} &&
      !is_near(sheet.memory_bandwidth.value(), rate.value(), 0.05))
    differs("memory bandwidth", "GB/s", in(sheet.memory_bandwidth, 1_GBps), in(rate, 1_GBps));
  if (sheet.clock_MHz && given.clock_MHz > 0 && given.clock_MHz < *sheet.clock_MHz)
    differs("highest clock", "MHz", *sheet.clock_MHz, given.clock_MHz);
  if (sheet.tdp && given.power_limit &&
      !is_near(sheet.tdp->value(), given.power_limit->value(), 0.01))
    differs("power limit", "W", in(*sheet.tdp, 1_W), in(*given.power_limit, 1_W));
  if (!sheet.pcie || !given.pcie) return;
  if (given.pcie->generation != sheet.pcie->generation)
    differs("PCIe generation", "", sheet.pcie->generation, given.pcie->generation);
  if (given.pcie->lanes != sheet.pcie->lanes)
    differs("PCIe lanes", "", sheet.pcie->lanes, given.pcie->lanes);
}

}  // namespace detail

/// The device as a `gpu_spec`: that of the catalogue which has its name, a MIG slice included, or
/// else the one that has its compute capability, SMs and memory where no other has. Counts that the
/// device states itself replace the catalogue's; rates and bandwidths stay, and `disagreements`
/// says where they may be wrong: memory (more than 1 % above, or 1.5 % and 0.25 GiB below),
/// bandwidth by memory clock and bus (5 %), a highest clock below that of the peak rates, a power
/// limit (1 %), the link to the host. A device that the catalogue does not have gets its counts and
/// bandwidth. Refers to `given.name` where it is not in the catalogue.
[[nodiscard]] constexpr recognised_device recognise(const device_properties& given) {
  const auto named = catalog::find_gpu(given.name);
  const bool is_slice = named && *named->slice != '\0';
  const bytes memory = given.listed_memory && !is_slice ? *given.listed_memory : given.memory;
  recognised_device device;
  device.by_name = static_cast<bool>(named);
  known<const gpu_spec*> alike;
  if (!named) alike = detail::only_one_like(given, memory);
  if (named || alike) {
    device.spec = named ? *named : **alike;
    detail::compare(given, device.spec, memory, device);
  } else {
    device.why = named.why();
    device.spec.name = given.name;
    device.spec.memory_bandwidth =
        bandwidth::from_value(2e6 * given.memory_clock_MHz * given.memory_bus_bits / 8);
  }
  device.spec.compute_capability = given.compute_capability;
  device.spec.sm_count = given.sm_count;
  // CUDA's own count is less than the catalogue's without contradicting it.
  if (!device.spec.memory || (given.listed_memory && !is_slice) ||
      !detail::is_memory_of(*device.spec.memory, memory))
    device.spec.memory = memory;
  if (given.pcie) device.spec.pcie = given.pcie;
  return device;
}

}  // namespace gpuplan::measure

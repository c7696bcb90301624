#pragma once

// What the driver's management library (NVML) knows and CUDA does not: power, the memory that
// nvidia-smi lists, the link to the host. Loaded while the program runs, so that machines without
// it build and run the same program; what it cannot say is absent.

#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

namespace gpuplan::cuda {

namespace detail {

// The library's types that are used here, as nvml.h has them since CUDA 4: a status of 0 is
// success, a device is a handle.
using nvml_handle = void*;
struct nvml_memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct nvml_utilisation {
  unsigned gpu;  // percent
  unsigned memory;
};

}  // namespace detail

/// The management library; copies share it, and the last of them lets it go.
class nvml {
 public:
  /// `library` is a file name as dlopen takes it.
  explicit nvml(const char* library = "libnvidia-ml.so.1") {
    std::shared_ptr<void> loaded(dlopen(library, RTLD_LAZY | RTLD_LOCAL), [](void* handle) {
      if (handle != nullptr) dlclose(handle);
    });
    if (loaded == nullptr) return;
    const auto init = function<int()>(loaded.get(), "nvmlInit_v2");
    const auto shut_down = function<int()>(loaded.get(), "nvmlShutdown");
    if (init == nullptr || shut_down == nullptr || init() != 0) return;
    library_ = std::shared_ptr<void>(loaded.get(), [loaded, shut_down](void*) { shut_down(); });
  }

  /// Whether it is there and answers.
  [[nodiscard]] explicit operator bool() const { return library_ != nullptr; }

  /// The driver's version, "580.65.06"; empty where it is not known.
  [[nodiscard]] std::string driver_version() const {
    char text[96] = "";
    const bool said = call("nvmlSystemGetDriverVersion", text, 96U);
    return said ? text : "";
  }

  /// Calls a function of the library. Returns whether there is one of this name and it succeeded.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (library_ == nullptr) return false;
    const auto found = function<int(Arguments...)>(library_.get(), name);
    return found != nullptr && found(arguments...) == 0;
  }

 private:
  std::shared_ptr<void> library_;

  template <class Signature>
  [[nodiscard]] static Signature* function(void* library, const char* name) {
    return reinterpret_cast<Signature*>(dlsym(library, name));
  }
};

/// One device as the management library sees it: the whole GPU, also for a MIG slice.
class managed_device {
 public:
  /// `pci_bus_id` as cudaDeviceGetPCIBusId says it.
  managed_device(nvml library, const std::string& pci_bus_id) : library_(std::move(library)) {
    if (!library_.call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &handle_))
      handle_ = nullptr;
  }

  /// All of its memory, as nvidia-smi lists it.
  [[nodiscard]] known<bytes> memory() const {
    const detail::nvml_memory of = memory_now();
    if (of.total == 0) return {};
    return bytes::from_value(static_cast<double>(of.total));
  }
  /// What no process holds of it.
  [[nodiscard]] known<bytes> free_memory() const {
    const detail::nvml_memory of = memory_now();
    if (of.total == 0) return {};
    return bytes::from_value(static_cast<double>(of.free));
  }
  /// What it draws, averaged by the device over up to a second.
  [[nodiscard]] known<power> draw() const { return milliwatts("nvmlDeviceGetPowerUsage"); }
  /// What it may draw.
  [[nodiscard]] known<power> power_limit() const {
    return milliwatts("nvmlDeviceGetEnforcedPowerLimit");
  }
  /// The share of the last sampling period, a sixth of a second to a second, in which a kernel ran.
  [[nodiscard]] known<double> utilisation() const {
    detail::nvml_utilisation of{};
    if (!ask("nvmlDeviceGetUtilizationRates", &of)) return {};
    return of.gpu / 100.0;
  }
  /// The widest and fastest link to the host that device and slot allow.
  [[nodiscard]] known<pcie_link> pcie() const {
    unsigned generation = 0;
    unsigned lanes = 0;
    if (!ask("nvmlDeviceGetMaxPcieLinkGeneration", &generation) ||
        !ask("nvmlDeviceGetMaxPcieLinkWidth", &lanes))
      return {};
    return pcie_link{static_cast<int>(generation), static_cast<int>(lanes)};
  }

 private:
  nvml library_;
  detail::nvml_handle handle_ = nullptr;

  template <class Answer>
  bool ask(const char* name, Answer* answer) const {
    return handle_ != nullptr && library_.call(name, handle_, answer);
  }
  [[nodiscard]] known<power> milliwatts(const char* name) const {
    unsigned value = 0;
    if (!ask(name, &value)) return {};
    return power::from_value(value / 1e3);
  }
  [[nodiscard]] detail::nvml_memory memory_now() const {
    detail::nvml_memory of{};
    if (!ask("nvmlDeviceGetMemoryInfo", &of)) return {};
    return of;
  }
};

}  // namespace gpuplan::cuda

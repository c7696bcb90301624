#pragma once

// Which devices this machine has.

#include <cstdint>
#include <string>
#include <vector>

namespace setups {

struct seen_device {
  std::string name;
  std::int64_t memory = 0;  // bytes, as the driver reports it; 0: not said
};

struct seen_machine {
  std::vector<seen_device> devices{};
  std::string by{};                  // what said so: "nvidia-smi"
  std::vector<std::string> tried{};  // and what did not, with why
};

/// Asks nvidia-smi, which must answer within `seconds`; then NVML; then, of AMD's devices, the
/// files below `sysfs`. The first that has devices counts.
[[nodiscard]] seen_machine look_at_machine(const std::string& sysfs = "/sys", double seconds = 10);

}  // namespace setups

#pragma once

// What SkyPilot and the clouds behind it call the devices of the catalogue. Private.

#include <string_view>

namespace gpuplan::io::detail {

struct skypilot_name {
  std::string_view device;  // its id in the catalogue
  const char* name;
};
// As clouds' catalogues of SkyPilot 0.14 have them, where one name is one device.
inline constexpr skypilot_name skypilot_names[] = {
    {"gb300", "GB300"},
    {"gb200", "GB200"},
    {"b300_sxm", "B300"},
    {"b200_sxm", "B200"},
    {"gh200_96gb", "GH200"},
    {"h200_sxm", "H200"},
    {"h100_sxm5_80gb", "H100"},
    {"a100_sxm4_80gb", "A100-80GB"},
    {"a100_sxm4_40gb", "A100"},
    {"a10g", "A10G"},
    {"a10", "A10"},
    {"a30", "A30"},
    {"a40", "A40"},
    {"rtx_6000_ada", "RTX6000-Ada"},
    {"l40s", "L40S"},
    {"l40", "L40"},
    {"l4", "L4"},
    {"v100_sxm2_32gb", "V100-32GB"},
    {"v100_sxm2_16gb", "V100"},
    {"p100_pcie_16gb", "P100"},
    {"t4", "T4"},
    {"rtx_pro_6000_bw_server", "RTXPRO6000"},
    {"rtx_5090", "RTX5090"},
    {"rtx_5080", "RTX5080"},
    {"rtx_4090", "RTX4090"},
    {"rtx_4080", "RTX4080"},
    {"rtx_3090", "RTX3090"},
    {"mi300x", "MI300X"},
};

}  // namespace gpuplan::io::detail

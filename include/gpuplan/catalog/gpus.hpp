#pragma once

// The devices: data, and the look-up by name. Sources were read on 2026-11-20 to 29. Rates are in
// TFLOPS (10^12), dense, at the clock stated; `source` and the comments say where sources disagree.
// Projects that collect data sheets are named as they are on GitHub. To add a device, copy a
// similar one, and add it to `gpus` at the end: the tests check it against SM count and clock.

#include <gpuplan/catalog/gpus/amd.hpp>
#include <gpuplan/catalog/gpus/geforce_ada.hpp>
#include <gpuplan/catalog/gpus/geforce_ampere.hpp>
#include <gpuplan/catalog/gpus/geforce_blackwell.hpp>
#include <gpuplan/catalog/gpus/geforce_laptop.hpp>
#include <gpuplan/catalog/gpus/geforce_turing.hpp>
#include <gpuplan/catalog/gpus/nvidia_ampere.hpp>
#include <gpuplan/catalog/gpus/nvidia_blackwell.hpp>
#include <gpuplan/catalog/gpus/nvidia_hopper.hpp>
#include <gpuplan/catalog/gpus/nvidia_others.hpp>
#include <gpuplan/catalog/gpus/nvidia_workstation.hpp>
#include <gpuplan/catalog/gpus/others.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <string_view>

namespace gpuplan::catalog {

/// Every device of the catalogue.
inline constexpr const gpu_spec* gpus[] = {
    &b200_sxm,
    &b300_sxm,
    &gb200,
    &gb300,
    &vr200,
    &gb10,
    &h100_sxm5_80gb,
    &h100_pcie_80gb,
    &h100_nvl,
    &h200_sxm,
    &h200_nvl,
    &gh200_96gb,
    &gh200_144gb,
    &h20,
    &h800_sxm5_80gb,
    &a100_sxm4_40gb,
    &a100_sxm4_80gb,
    &a100_pcie_40gb,
    &a100_pcie_80gb,
    &a800_sxm4_80gb,
    &a30,
    &a40,
    &a10,
    &a10g,
    &a16_per_gpu,
    &l40s,
    &l40,
    &l4,
    &t4,
    &v100_sxm2_16gb,
    &v100_sxm2_32gb,
    &v100_pcie_16gb,
    &v100_pcie_32gb,
    &v100s_pcie_32gb,
    &p100_sxm2_16gb,
    &p100_pcie_16gb,
    &rtx_pro_6000_bw_ws,
    &rtx_pro_6000_bw_server,
    &rtx_pro_6000_bw_maxq,
    &rtx_pro_4000_bw_sff,
    &rtx_6000_ada,
    &rtx_5000_ada,
    &rtx_4500_ada,
    &rtx_4000_ada,
    &rtx_2000_ada,
    &rtx_a6000,
    &rtx_a5000,
    &rtx_a4500,
    &rtx_a4000,
    &quadro_rtx_8000,
    &titan_rtx,
    &rtx_5090,
    &rtx_5080,
    &rtx_5070_ti,
    &rtx_5070,
    &rtx_5060_ti_16gb,
    &rtx_5060,
    &rtx_4090,
    &rtx_4080_super,
    &rtx_4080,
    &rtx_4070_ti,
    &rtx_4070_super,
    &rtx_4070,
    &rtx_4070_ti_super,
    &rtx_4060_ti_16gb,
    &rtx_4060,
    &rtx_3090_ti,
    &rtx_3090,
    &rtx_3080_10gb,
    &rtx_3080_ti,
    &rtx_3080_12gb,
    &rtx_3070_ti,
    &rtx_3070,
    &rtx_3060_ti,
    &rtx_3060,
    &rtx_5090_laptop,
    &rtx_4090_laptop,
    &rtx_4080_laptop,
    &rtx_4070_laptop,
    &rtx_4060_laptop,
    &rtx_3080_laptop_16gb,
    &rtx_3070_laptop,
    &rtx_2080_ti,
    &rtx_2080,
    &rtx_2070,
    &rtx_2060_super,
    &rtx_2060,
    &mi455x,
    &mi355x,
    &mi350x,
    &mi350p,
    &mi325x,
    &mi300x,
    &mi250x,
    &mi250,
    &mi210,
    &mi100,
    &rx_9070_xt,
    &rx_9060_xt_16gb,
    &rx_7900_xtx,
    &rx_7900_xt,
    &gaudi3,
    &gaudi2,
    &tpu_v7x,
    &tpu_v6e,
    &tpu_v5p,
    &tpu_v5e,
    &tpu_v4,
    &trainium3,
    &trainium2,
    &trainium1,
};

}  // namespace gpuplan::catalog

namespace gpuplan::detail {

// Current drivers print "NVIDIA A100-SXM4-40GB" where older ones print "A100-SXM4-40GB" or
// "Tesla T4": the two words are dropped from the beginning.
constexpr plain_name plain_gpu_name(std::string_view name) {
  plain_name plain(name);
  for (const std::string_view word : {"nvidia", "tesla"}) {
    if (plain.text().starts_with(word)) plain = plain_name(plain.text().substr(word.size()));
  }
  return plain;
}

// The device with this name, or the id of the one whose name is nearest.
constexpr result<gpu_spec> find_whole_gpu(std::string_view name) {
  const plain_name wanted = plain_gpu_name(name);
  nearest_name nearest(name, wanted);
  for (const gpu_spec* gpu : catalog::gpus) {
    for (const char* known :
         {gpu->id, gpu->driver_names[0], gpu->driver_names[1], gpu->driver_names[2]}) {
      if (known == nullptr) continue;
      const plain_name candidate = plain_gpu_name(known);
      if (candidate == wanted) return *gpu;
      nearest.offer(known, candidate, gpu->id);
    }
  }
  return failure(errc::unknown_gpu).about(nearest.id());
}

}  // namespace gpuplan::detail

namespace gpuplan::catalog {

/// The device with this id, or with this name as the driver prints it: "rtx_4090", "NVIDIA GeForce
/// RTX 4090", or a MIG slice, "NVIDIA H100 NVL MIG 1g.12gb". Case, spaces and punctuation do not
/// matter. Errors: `unknown_gpu` with the nearest id, `no_mig`, `unknown_mig_profile`.
[[nodiscard]] constexpr result<gpu_spec> find_gpu(std::string_view name) {
  constexpr std::string_view separator = "mig";  // no device has it in its name
  std::size_t at = 0;
  while (at < name.size() &&
         gpuplan::detail::plain_name(name.substr(at, separator.size())).text() != separator)
    ++at;
  const auto gpu = gpuplan::detail::find_whole_gpu(name.substr(0, at));
  if (!gpu || at == name.size()) return gpu;
  const auto slice = mig(*gpu, name.substr(at + separator.size()));
  if (!slice) return slice.why();
  return slice_of(*gpu, *slice);
}

}  // namespace gpuplan::catalog

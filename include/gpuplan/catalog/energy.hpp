#pragma once

// What nodes draw beside their GPUs, what buildings add, and what grids emit: public figures, each
// with its year and source. Written down on 2026-11-26.

#include <gpuplan/gpu.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <string_view>

namespace gpuplan::catalog {

// ---- nodes

/// What a node of so many GPUs draws at most.
struct node_draw {
  std::string_view gpu;  // the id of its GPU
  std::int64_t gpus = 8;
  power rated{};
  const char* source = "";
};

inline constexpr node_draw node_draws[] = {
    {.gpu = "v100_sxm2_16gb", .rated = 3.5_kW, .source = "NVIDIA's data sheet of DGX-1"},
    {.gpu = "v100_sxm2_32gb", .rated = 3.5_kW, .source = "NVIDIA's data sheet of DGX-1"},
    {.gpu = "a100_sxm4_40gb", .rated = 6.5_kW, .source = "NVIDIA's data sheet of DGX A100"},
    {.gpu = "a100_sxm4_80gb", .rated = 6.5_kW, .source = "NVIDIA's data sheet of DGX A100"},
    {.gpu = "h100_sxm5_80gb", .rated = 10.2_kW, .source = "NVIDIA's data sheet of DGX H100"},
    {.gpu = "h200_sxm", .rated = 10.2_kW, .source = "NVIDIA's data sheet of DGX H200"},
    {.gpu = "b200_sxm", .rated = 14.3_kW, .source = "NVIDIA's data sheet of DGX B200"},
};

/// The most that training was seen to draw of what such a node is rated at: 8.4 of 10.2 kW, of
/// eight H100 (Latif et al. 2025, IEEE Access 13, arXiv:2412.08602).
inline constexpr double drawn_of_rated = 8.4 / 10.2;

/// What a GPU's share of its host draws: what training draws of the node's rating, less the GPUs'
/// TDP, by GPU. Of an H100 350 W, of an A100 269 W, of a V100 60 W: with its TDP 360, where
/// Patterson et al. 2021 (arXiv:2104.10350, table 4) measured 330 of a V100 and its host. Not known
/// of other GPUs.
[[nodiscard]] constexpr known<power> host_power_per_gpu(const gpu_spec& gpu) {
  for (const node_draw& node : node_draws)
    if (node.gpu == gpu.id && gpu.tdp)
      return power(drawn_of_rated / static_cast<double>(node.gpus) * node.rated - *gpu.tdp);
  return {};
}

// ---- buildings

/// The power usage effectiveness of somebody's buildings.
struct building_pue {
  std::string_view id;
  double pue = 1;
  std::int64_t year = 0;
  const char* source = "";
};

inline constexpr building_pue building_pues[] = {
    {"survey", 1.56, 2024, "Uptime Institute's survey of data centres: their average"},
    {"aws", 1.15, 2023, "AWS, all regions, stated at re:Invent 2024"},
    {"google", 1.10, 2024, "Google, average, as DatacenterDynamics had it in December 2024"},
    {"meta", 1.08, 2024, "Meta, average, likewise"},
    {"microsoft", 1.18, 2024, "Microsoft, average, likewise"},
    {"jean-zay", 1.20, 2022, "Luccioni et al. 2022, arXiv:2211.02001, of BLOOM's computer"},
};

/// The one of this id; none where there is none.
[[nodiscard]] constexpr const building_pue* find_pue(std::string_view id) {
  for (const building_pue& each : building_pues)
    if (each.id == id) return &each;
  return nullptr;
}

// ---- grids

/// Grams of CO2, or what warms as much, of a kWh that a region generates, over a year.
struct grid_intensity {
  std::string_view id;
  double grams_per_kWh = 0;
  std::int64_t year = 2023;
};

/// By Ember, as Our World in Data shows them ("Carbon intensity of electricity generation", read on
/// 2026-11-26): yearly averages over all that is generated, its life cycle included. An hour's, or
/// a contract's, may be far from it.
inline constexpr grid_intensity grid_intensities[] = {
    {"australia", 549},
    {"austria", 111},
    {"belgium", 138},
    {"brazil", 98},
    {"canada", 170},
    {"china", 582},
    {"denmark", 152},
    {"finland", 79},
    {"france", 56},
    {"germany", 381},
    {"india", 713},
    {"ireland", 291},
    {"norway", 30},
    {"united-states", 369},
    {"world", 481},
};

/// The grid of this id; none where there is none.
[[nodiscard]] constexpr const grid_intensity* find_grid(std::string_view id) {
  for (const grid_intensity& each : grid_intensities)
    if (each.id == id) return &each;
  return nullptr;
}

}  // namespace gpuplan::catalog

#pragma once

// Clusters and prices that other programs list: Slurm's nodes, and a cloud's instances.

#include <gpuplan/cluster.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/known.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "runs/clusters.hpp"

namespace runs {

/// Nodes of a Slurm cluster that could be used, and what their GPUs are.
struct listed_nodes {
  gpuplan::gpu_spec gpu{};
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
};

/// Those of `--slurm-nodes`; `--gpu` says which device the type of some is, and picks these. Throws
/// `guides::bad_request` where a type is no single device of the catalogue, and where no node can
/// be used.
[[nodiscard]] std::vector<listed_nodes> nodes_of(const cluster_words& given);

/// Gives each cluster the least price of its GPU in `--price-list`, of `--region` where it is
/// stated, and with `--spot` of instances that may be reclaimed. Throws `guides::bad_request` where
/// the list has none.
void set_listed_prices(const cluster_words& given, std::vector<named_cluster>& clusters);

/// Grams of CO2 of a kWh, as a number or a region's name.
void add_carbon_option(CLI::App& app, cluster_words& to);

}  // namespace runs

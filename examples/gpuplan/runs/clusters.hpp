#pragma once

// Which GPUs a run is on, how many, and what they cost: the same words in all commands.

#include <gpuplan/cluster.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/io/clusters.hpp>
#include <gpuplan/known.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace runs {

/// What the command line gives, before it is looked up. Each list holds nothing, one number for all
/// clusters, or one for each.
struct cluster_words {
  std::vector<std::string> gpus{};
  std::vector<std::string> systems{};  // in place of `gpus`
  std::vector<std::int64_t> total{};
  std::vector<std::int64_t> nodes{};
  std::vector<std::int64_t> gpus_per_node{};
  std::vector<std::int64_t> link_domain{};  // GPUs that their links join across nodes
  std::vector<double> link{};               // GB/s of a GPU inside a node
  std::vector<double> network{};            // GB/s of a node
  gpuplan::known<gpuplan::network_kind> network_kind{};
  std::vector<double> price{};   // dollars of a GPU and hour
  std::vector<double> power{};   // watts of a GPU
  std::vector<double> carbon{};  // g CO2 of a kWh
  std::string file{};            // of clusters, in TOML
  std::string slurm_file{};      // what scontrol or sinfo printed
  std::string price_list{};      // a cloud's instances, in CSV
  std::string region{};          // of that list; empty: any
  bool spot = false;             // its prices of what may be reclaimed
  std::vector<std::string> names{};
};

/// What holds where neither the command line nor the file says otherwise.
struct cluster_defaults {
  std::vector<std::string> gpus{};
  std::string why_gpus{};             // where files leave these open: which are taken, and why
  std::int64_t total = 0;             // GPUs; 0: a node's
  std::int64_t gpus_per_node = 0;     // 0: `usual_gpus_per_node`
  bool counts_make_clusters = false;  // of one kind, a cluster for each of several numbers
};
inline constexpr std::int64_t usual_gpus_per_node = 8;
inline constexpr double usual_network = 200;  // GB/s of a node: eight adapters of 200 Gbit/s

/// No domain within one node. Throws `guides::bad_request` where a domain is not of whole nodes.
void settle_link_domain(gpuplan::cluster& on);

/// One node of the catalogue's system of this name. Throws `guides::bad_request`, which names the
/// option, where there is none.
[[nodiscard]] gpuplan::cluster node_of_system(const std::string& option, const std::string& name);

/// `--gpu`, `--system`, `--gpus`, `--nodes`, `--gpus-per-node`, `--link-domain`, `--link`,
/// `--network`, `--network-kind`, `--price`, `--power`, `--carbon`, `--prices` and `--cluster`,
/// `--slurm-nodes`, `--price-list`, `--region` and `--spot`.
void add_cluster_options(CLI::App& app, cluster_words& to);
/// Of these, the one of networks, with what is taken where it is not given.
CLI::Option* add_network_kind_option(CLI::App& app,
                                     gpuplan::known<gpuplan::network_kind>& to,
                                     const std::string& otherwise);
/// Of these, those that say what the GPUs cost.
void add_cost_options(CLI::App& app, cluster_words& to);

/// A cluster with what the planner and the costs need to know of it.
struct named_cluster {
  std::string name{};  // of the file; empty where the command line alone says it
  gpuplan::cluster on{};
  gpuplan::device_efficiency efficiency{};
  gpuplan::known<double> carbon_g_per_kWh{};
  gpuplan::known<gpuplan::duration> reclaimed{};                // of a node, as the file has it
  bool states_network = false;                                  // else `usual_network`
  std::shared_ptr<const gpuplan::io::stated_cluster> stated{};  // whose texts `on` points to
};

/// All clusters meant: those of `--cluster` in `--prices`, all of that file, or one for each of
/// `--gpu`. Options go before the file, and the file before the defaults. Throws
/// `guides::bad_request`.
[[nodiscard]] std::vector<named_cluster> clusters_of(const cluster_words& given,
                                                     const cluster_defaults& otherwise);
/// The only one. Throws, with the names, where several are meant.
[[nodiscard]] named_cluster cluster_of(const cluster_words& given,
                                       const cluster_defaults& otherwise);

/// So many GPUs in nodes of as many as the cluster's: whole nodes, or a part of one. Throws
/// `guides::bad_request` with the nearest that are.
void set_total(gpuplan::cluster& on, std::int64_t gpus);

/// "16 x h100_sxm5_80gb", or with its name "lab: 16 x rtx_a6000".
[[nodiscard]] std::string in_words(const gpuplan::cluster& on);

}  // namespace runs

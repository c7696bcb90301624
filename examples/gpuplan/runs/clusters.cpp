#include "runs/clusters.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/systems.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/clusters.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "runs/listed.hpp"
#include "setups/choices.hpp"
#include "setups/gpus.hpp"

namespace runs {
namespace {

using namespace gpuplan;
using guides::bad_request;

constexpr std::int64_t most_gpus = std::int64_t{1} << 20;

// A number for each cluster, or one for all.
template <class Number>
CLI::Option* add_list(CLI::App& app,
                      const char* name,
                      std::vector<Number>& to,
                      const CLI::Validator& takes,
                      const char* what) {
  return app.add_option(name, to, what)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(takes)
      ->type_name("N,...")
      ->group("GPUs");
}
template <class Number>
const Number* of_cluster(const std::vector<Number>& numbers, std::size_t at) {
  if (numbers.empty()) return nullptr;
  return &numbers[numbers.size() == 1 ? 0 : at];
}
template <class Number>
void check_count(const char* option,
                 const std::vector<Number>& numbers,
                 std::size_t clusters,
                 const char* instead = "") {
  if (numbers.size() < 2 || numbers.size() == clusters) return;
  throw bad_request(std::string(option) + " has " + std::to_string(numbers.size()) +
                    " numbers, and there " + (clusters == 1 ? "is " : "are ") +
                    std::to_string(clusters) + (clusters == 1 ? " kind" : " kinds") +
                    " of GPU: one number for all is taken, or one for each" + instead);
}

std::string listed(const std::vector<io::stated_cluster>& clusters) {
  std::string names;
  for (const io::stated_cluster& one : clusters) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

// The clusters of the file that are meant; none where no file is named.
std::vector<std::shared_ptr<const io::stated_cluster>> stated_in_file(const cluster_words& given) {
  std::vector<std::shared_ptr<const io::stated_cluster>> chosen;
  if (given.file.empty()) {
    if (!given.names.empty())
      throw bad_request("--cluster " + io::printable(given.names.front()) +
                        ": --prices FILE names the file that it stands in");
    return chosen;
  }
  const io::read_clusters read = io::read_clusters_of(guides::read_file("--prices", given.file));
  if (!read) throw bad_request("--prices " + io::printable(given.file) + ": " + read.why);
  if (!given.gpus.empty())
    throw bad_request("--gpu: the clusters of --prices say their GPUs; --cluster takes " +
                      listed(read.clusters));
  const auto add = [&](const io::stated_cluster& one) {
    chosen.push_back(std::make_shared<const io::stated_cluster>(one));
  };
  for (const std::string& name : given.names) {
    const auto found = std::find_if(
        read.clusters.begin(), read.clusters.end(), [&](const io::stated_cluster& one) {
          return one.name == name;
        });
    if (found == read.clusters.end())
      throw bad_request("--cluster " + io::printable(name) + ": " + io::printable(given.file) +
                        " has " + listed(read.clusters));
    if (std::count(given.names.begin(), given.names.end(), name) > 1)
      throw bad_request("--cluster names " + name + " twice");
    add(*found);
  }
  if (given.names.empty())
    for (const io::stated_cluster& one : read.clusters) add(one);
  return chosen;
}

catalog::node_system system_named(const std::string& option, const std::string& name) {
  const auto found = catalog::find_system(name);
  if (!found)
    throw bad_request(option + " " + io::printable(name) +
                      ": the catalogue has no such system; the nearest is " + found.why().subject +
                      ", and gpuplan gpus --systems lists all");
  return *found;
}

// Of a node of which nobody says how many there are, one.
void set_system(cluster& on, const catalog::node_system& system) {
  const cluster node = cluster_of(system);
  on.name = node.name;
  on.gpus_per_node = node.gpus_per_node;
  on.gpus_per_link_domain = node.gpus_per_link_domain;
  on.between_nodes = node.between_nodes;
  on.network = node.network;
}

named_cluster made_of(const cluster_words& given,
                      const cluster_defaults& otherwise,
                      const gpu_spec& gpu,
                      const std::shared_ptr<const io::stated_cluster>* in_file,
                      const listed_nodes* listed,
                      std::size_t at) {
  named_cluster made;
  if (in_file != nullptr) made.stated = *in_file;
  const std::shared_ptr<const io::stated_cluster>& stated = made.stated;
  cluster& on = made.on;
  on.gpu = gpu;
  on.gpus_per_node = otherwise.gpus_per_node > 0 ? otherwise.gpus_per_node : usual_gpus_per_node;
  on.between_nodes = usual_network * 1_GBps;
  bool has_number = false;
  made.states_network = !given.systems.empty() || !given.network.empty() ||
                        (stated && (!stated->system.empty() || stated->between_nodes));
  if (!given.systems.empty())
    set_system(on, system_named("--system", given.systems[given.systems.size() == 1 ? 0 : at]));
  if (stated) {
    made.name = stated->name;
    on.nodes = stated->nodes;
    if (!stated->system.empty())
      set_system(on, system_named("--prices: " + stated->name + ".system", stated->system));
    on.name = stated->name.c_str();
    if (stated->gpus_per_node > 0) on.gpus_per_node = stated->gpus_per_node;
    if (stated->gpus_per_link_domain > 0) on.gpus_per_link_domain = stated->gpus_per_link_domain;
    on.inside_node = stated->inside_node;
    if (stated->between_nodes) on.between_nodes = stated->between_nodes;
    if (stated->network) on.network = *stated->network;
    on.power_per_gpu = stated->power_per_gpu;
    if (stated->price_per_gpu)
      on.price_per_gpu =
          dated_price{*stated->price_per_gpu, stated->date.c_str(), stated->source.c_str()};
    made.carbon_g_per_kWh = stated->carbon_g_per_kWh;
    made.reclaimed = stated->reclaimed;
    has_number = true;
  }
  if (listed != nullptr) {
    on.nodes = listed->nodes;
    on.gpus_per_node = listed->gpus_per_node;
    has_number = true;
  }
  if (const auto* in_node = of_cluster(given.gpus_per_node, at)) on.gpus_per_node = *in_node;
  if (const auto* domain = of_cluster(given.link_domain, at)) on.gpus_per_link_domain = *domain;
  if (const auto* nodes = of_cluster(given.nodes, at)) on.nodes = *nodes;
  has_number = has_number || !given.nodes.empty() || !given.gpus_per_node.empty();
  if (const auto* total = of_cluster(given.total, at))
    set_total(on, *total);
  else if (!has_number && otherwise.total > 0)
    set_total(on, otherwise.total);
  if (listed != nullptr && total_gpus(on) > listed->nodes * listed->gpus_per_node)
    throw bad_request("--slurm-nodes: " + std::to_string(listed->nodes) + " nodes of " +
                      std::to_string(listed->gpus_per_node) + " " + on.gpu.id +
                      " could be used, and " + std::to_string(total_gpus(on)) +
                      " GPUs are asked for");
  settle_link_domain(on);
  if (total_gpus(on) > most_gpus)
    throw bad_request("--nodes " + std::to_string(on.nodes) + " of " +
                      std::to_string(on.gpus_per_node) + " GPUs have " +
                      std::to_string(total_gpus(on)) + "; at most " + std::to_string(most_gpus) +
                      " GPUs are taken");
  if (const auto* network = of_cluster(given.network, at)) on.between_nodes = *network * 1_GBps;
  if (const auto* link = of_cluster(given.link, at)) on.inside_node = *link * 1_GBps;
  if (given.network_kind) on.network = *given.network_kind;
  if (const auto* price = of_cluster(given.price, at))
    on.price_per_gpu = dated_price{*price * 1_usd_per_hour, "today", "the command line"};
  if (const auto* power = of_cluster(given.power, at)) on.power_per_gpu = *power * 1_W;
  if (const auto* carbon = of_cluster(given.carbon, at)) made.carbon_g_per_kWh = *carbon;
  made.efficiency = catalog::efficiency_of(on.gpu);
  if (made.carbon_g_per_kWh && !on.power_per_gpu && !on.gpu.tdp)
    guides::remark("no energy or CO2 of " + std::string(on.gpu.id) +
                   ", whose power is not in the catalogue; --power says it");
  return made;
}

}  // namespace

void set_total(cluster& on, std::int64_t gpus) {
  const std::int64_t in_node = on.gpus_per_node;
  if (gpus <= in_node) {
    on.nodes = 1;
    on.gpus_per_node = gpus;
    return;
  }
  if (gpus % in_node != 0) {
    const std::int64_t fewer = gpus - gpus % in_node;
    throw bad_request("--gpus " + std::to_string(gpus) + ": nodes have " + std::to_string(in_node) +
                      " GPUs, so " + std::to_string(fewer) + " or " +
                      std::to_string(fewer + in_node) +
                      " are taken; --gpus-per-node says how many others have");
  }
  on.nodes = gpus / in_node;
}

void add_cost_options(CLI::App& app, cluster_words& to) {
  add_list(app, "--price", to.price, guides::sum_of_dollars(0, 1e6), "Dollars for a GPU and hour");
  add_list(app,
           "--power",
           to.power,
           guides::finite_number(1, 1e5),
           "Watts of a GPU with its share of the host (default: of its TDP, without)");
  add_carbon_option(app, to);
  app.add_option("--prices",
                 to.file,
                 "A file of clusters with GPUs, network, price, power and carbon (clusters.toml)")
      ->type_name("FILE")
      ->group("GPUs");
  app.add_option("--cluster", to.names, "Which clusters of --prices (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...")
      ->group("GPUs");
  CLI::Option* list =
      app.add_option("--price-list",
                     to.price_list,
                     "A cloud's instances and their prices in CSV, as SkyPilot has them: the least "
                     "price of each GPU")
          ->type_name("FILE")
          ->group("GPUs")
          ->excludes("--price");
  app.add_option("--region", to.region, "Of --price-list (default: any)")
      ->type_name("NAME")
      ->group("GPUs")
      ->needs(list);
  app.add_flag("--spot", to.spot, "Prices of --price-list for instances that may be reclaimed")
      ->group("GPUs")
      ->needs(list);
}

CLI::Option* add_network_kind_option(CLI::App& app,
                                     known<network_kind>& to,
                                     const std::string& otherwise) {
  return setups::add_choice<network_kind>(
      app,
      "--network-kind",
      "What links nodes, of which collectives reach more or less; RoCE counts as infiniband " +
          otherwise,
      {std::begin(io::network_names), std::end(io::network_names)},
      [&to](const network_kind& is) { to = is; });
}

void add_cluster_options(CLI::App& app, cluster_words& to) {
  setups::add_gpu_option(
      app, to.gpus, "The GPUs, or kinds to choose from (default: an A100 SXM of 80 GB)")
      ->group("GPUs");
  app.add_option("--system",
                 to.systems,
                 "Nodes by name, with their GPUs, links and network (p5.48xlarge, dgx-h100, "
                 "gb200-nvl72), instead of --gpu")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...")
      ->group("GPUs")
      ->excludes("--gpu");
  app.add_option(
         "--slurm-nodes",
         to.slurm_file,
         "What scontrol show node or sinfo printed: the nodes that could be used; where a type "
         "may be several GPUs, name it by --gpu")
      ->type_name("FILE")
      ->group("GPUs")
      ->excludes("--system");
  add_list(app,
           "--gpus",
           to.total,
           guides::whole_number(1, most_gpus),
           "All GPUs of the run: one number for all kinds, or one for each (8,16); so also --nodes "
           "to --carbon (default: as files or a layout say; of plans a node of 8)");
  add_list(app, "--nodes", to.nodes, guides::whole_number(1, 1 << 16), "Nodes, instead of --gpus")
      ->excludes("--gpus");
  add_list(app,
           "--gpus-per-node",
           to.gpus_per_node,
           guides::whole_number(1, 1 << 10),
           "GPUs of a node (default: 8)");
  add_list(app,
           "--link-domain",
           to.link_domain,
           guides::whole_number(1, 1 << 16),
           "GPUs that NVLink joins across nodes, at most (default: those of a node)");
  add_list(app,
           "--link",
           to.link,
           guides::finite_number(1e-3, 1e6),
           "GB/s of a GPU to the others of its node, each direction (default: of its NVLink, else "
           "what most machines have of PCIe; two cards without a bridge have that too)");
  add_list(app,
           "--network",
           to.network,
           guides::finite_number(1e-3, 1e6),
           "GB/s of a node, each direction, all its adapters together (default: 200)");
  add_network_kind_option(app, to.network_kind, "(default: as --system has it, else infiniband)")
      ->group("GPUs");
  add_cost_options(app, to);
}

void settle_link_domain(cluster& on) {
  // A part of a node is within any domain.
  if (on.nodes == 1) on.gpus_per_link_domain = 0;
  if (on.gpus_per_link_domain % on.gpus_per_node != 0)
    throw bad_request("--link-domain " + std::to_string(on.gpus_per_link_domain) +
                      ": whole nodes are taken, of " + std::to_string(on.gpus_per_node) +
                      " GPUs each");
}

cluster node_of_system(const std::string& option, const std::string& name) {
  return cluster_of(system_named(option, name));
}

std::vector<named_cluster> clusters_of(const cluster_words& given,
                                       const cluster_defaults& otherwise) {
  const auto stated = stated_in_file(given);
  std::vector<gpu_spec> gpus;
  for (const auto& one : stated) {
    try {
      gpus.push_back(one->gpu.empty()
                         ? *system_named("--prices: " + one->name + ".system", one->system).gpu
                         : setups::gpu_named(one->gpu));
    } catch (const bad_request& why) {
      throw bad_request("--prices " + io::printable(given.file) + ": " + one->name +
                        ".gpu: " + why.what());
    }
  }
  if (!stated.empty() && !given.systems.empty())
    throw bad_request("--system: the clusters of --prices say what they are");
  std::vector<listed_nodes> listed;
  if (!given.slurm_file.empty()) {
    if (!stated.empty())
      throw bad_request("--slurm-nodes: the clusters of --prices say what they are");
    listed = nodes_of(given);
    for (const listed_nodes& one : listed) gpus.push_back(one.gpu);
  }
  for (const std::string& name : given.systems) gpus.push_back(*system_named("--system", name).gpu);
  if (gpus.empty() && given.gpus.empty() && !otherwise.why_gpus.empty())
    guides::remark("--from: taken as " + otherwise.why_gpus);
  if (gpus.empty()) gpus = setups::gpus_named(given.gpus.empty() ? otherwise.gpus : given.gpus);
  if (otherwise.counts_make_clusters && gpus.size() == 1 && stated.size() <= 1) {
    const std::size_t counts =
        std::max({given.total.size(), given.nodes.size(), given.gpus_per_node.size()});
    gpus.resize(std::max<std::size_t>(counts, 1), gpus.front());
    if (!listed.empty()) listed.resize(gpus.size(), listed.front());
  }
  check_count("--gpus", given.total, gpus.size());
  check_count("--nodes", given.nodes, gpus.size());
  check_count("--gpus-per-node", given.gpus_per_node, gpus.size());
  check_count("--link-domain", given.link_domain, gpus.size());
  check_count("--link", given.link, gpus.size());
  check_count("--network", given.network, gpus.size());
  check_count("--price", given.price, gpus.size());
  check_count("--power", given.power, gpus.size());
  check_count("--carbon", given.carbon, gpus.size());
  std::vector<named_cluster> clusters;
  for (std::size_t at = 0; at < gpus.size(); ++at)
    clusters.push_back(made_of(given,
                               otherwise,
                               gpus[at],
                               of_cluster(stated, at),
                               listed.empty() ? nullptr : &listed[at],
                               at));
  if (!given.price_list.empty()) set_listed_prices(given, clusters);
  return clusters;
}

named_cluster cluster_of(const cluster_words& given, const cluster_defaults& otherwise) {
  const std::vector<named_cluster> clusters = clusters_of(given, otherwise);
  if (clusters.size() == 1) return clusters.front();
  std::string names;
  for (const named_cluster& one : clusters)
    names += (names.empty() ? "" : ", ") + (one.name.empty() ? one.on.gpu.id : one.name);
  throw bad_request((given.file.empty() ? "--gpu: one kind is taken here, not "
                                        : "--cluster: one is taken here of ") +
                    names);
}

std::string in_words(const cluster& on) {
  const std::string name = on.name;
  return (name.empty() ? "" : name + ": ") + std::to_string(total_gpus(on)) + " x " + on.gpu.id;
}

}  // namespace runs

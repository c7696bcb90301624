#include "runs/listed.hpp"

#include <gpuplan/catalog/energy.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/price_list.hpp>
#include <gpuplan/io/slurm_nodes.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "setups/gpus.hpp"

namespace runs {
namespace {

using namespace gpuplan;
using guides::bad_request;

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

bool may_be(const io::slurm_nodes& group, const gpu_spec& gpu) {
  if (group.gres.empty()) return true;
  for (const gpu_spec* device : group.devices())
    if (std::string(device->id) == gpu.id) return true;
  return false;
}

std::string type_of(const io::slurm_nodes& group) {
  return group.gres.empty() ? "GPUs without a type" : io::printable(group.gres);
}

// A number, or the name of a region.
CLI::Validator grams_of_region() {
  const CLI::Validator number = guides::finite_number(0, 1e5);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        std::string name = text;
        for (char& letter : name)
          letter = letter == '_' || letter == ' ' ? '-' : detail::lower(letter);
        if (const auto* grid = catalog::find_grid(name)) {
          text = io::decimal(grid->grams_per_kWh, -1);
          return {};
        }
        std::string why = number(text);
        if (why.empty() || text.find_first_not_of("0123456789.+-eE") == std::string::npos)
          return why;
        std::vector<std::string> names;
        for (const catalog::grid_intensity& each : catalog::grid_intensities)
          names.emplace_back(each.id);
        return io::printable(text) + " is no region that is known; grams, or one of " +
               joined(names) + " are taken";
      },
      "");
}

}  // namespace

std::vector<listed_nodes> nodes_of(const cluster_words& given) {
  const std::string option = "--slurm-nodes " + io::printable(given.slurm_file) + ": ";
  const auto read = io::read_slurm_nodes_of(guides::read_file("--slurm-nodes", given.slurm_file));
  if (!read) throw bad_request(option + read.why);
  std::vector<listed_nodes> found;
  std::vector<std::string> types;
  if (!given.gpus.empty())
    for (const gpu_spec& gpu : setups::gpus_named(given.gpus)) {
      const std::size_t before = found.size();
      for (const io::slurm_nodes& group : read.groups)
        if (group.usable > 0 && may_be(group, gpu))
          found.push_back({gpu, group.usable, group.gpus_per_node});
      if (found.size() > before) continue;
      for (const io::slurm_nodes& group : read.groups)
        types.push_back(std::to_string(group.usable) + " of " + std::to_string(group.nodes) +
                        " nodes with " + type_of(group) + " usable");
      throw bad_request(option + "no node that could be used has " + gpu.id + "; it has " +
                        joined(types));
    }
  else
    for (const io::slurm_nodes& group : read.groups) {
      if (group.usable == 0) continue;
      const catalog::gpu_list meant = group.devices();
      if (group.gres.empty() || meant.count != 1) {
        for (const gpu_spec* device : meant) types.emplace_back(device->id);
        throw bad_request(option + "nodes have " + type_of(group) +
                          (types.empty() || group.gres.empty()
                               ? std::string()
                               : ", which may be " + joined(types)) +
                          "; --gpu NAME says what they are");
      }
      found.push_back({**meant.begin(), group.usable, group.gpus_per_node});
    }
  if (found.empty()) throw bad_request(option + "no node could be used: all are down or drained");
  return found;
}

void set_listed_prices(const cluster_words& given, std::vector<named_cluster>& clusters) {
  const std::string option = "--price-list " + io::printable(given.price_list) + ": ";
  const io::read_prices read =
      io::read_price_list(guides::read_file("--price-list", given.price_list));
  if (!read) throw bad_request(option + read.why);
  for (named_cluster& one : clusters) {
    const io::listed_price* least = nullptr;
    std::vector<std::string> others;
    std::vector<std::string> regions;  // that have a price of it
    const auto add = [](std::vector<std::string>& to, const std::string& name) {
      if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
    };
    const auto price_of = [&](const io::listed_price& of) -> const known<price>& {
      return given.spot ? of.spot : of.on_demand;
    };
    for (const io::listed_price& each : read.prices) {
      if (each.gpu == nullptr || std::string(each.gpu->id) != one.on.gpu.id) {
        add(others, each.accelerator);
        continue;
      }
      if (!price_of(each)) continue;
      if (!given.region.empty() && each.region != given.region) {
        add(regions, each.region);
        continue;
      }
      if (least == nullptr || *price_of(each) < *price_of(*least)) least = &each;
    }
    if (least == nullptr)
      throw bad_request(option + "it has no" + (given.spot ? " spot" : "") + " price of " +
                        one.on.gpu.id +
                        (given.region.empty() ? "" : " in " + io::printable(given.region)) +
                        (!regions.empty() ? "; --region takes " + joined(regions)
                         : others.empty() ? ""
                                          : "; other GPUs are " + joined(others)));
    one.on.price_per_gpu = dated_price{*price_of(*least), "the list", "--price-list"};
  }
}

void add_carbon_option(CLI::App& app, cluster_words& to) {
  app.add_option("--carbon",
                 to.carbon,
                 "Grams of CO2 of a kWh, or a region's average of 2023 (france, germany, "
                 "united-states, world and others)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(grams_of_region())
      ->type_name("N,...")
      ->group("GPUs");
}

}  // namespace runs

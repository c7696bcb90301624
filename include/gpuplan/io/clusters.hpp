#pragma once

// What a person has to train on, as a file in TOML says it: clusters with their GPUs, network,
// price, power and carbon. Needs toml++, as toml.hpp does.

#include <gpuplan/catalog/gpu_names.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/toml.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// One cluster of a file. What the file does not say is not known, but for the nodes: one.
struct stated_cluster {
  std::string name{};
  std::string gpu{};     // as people write it: "h100", "NVIDIA A100-SXM4-80GB"
  std::string system{};  // as `catalog::find_system` takes it, in place of `gpu` and its numbers
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 0;         // 0: not said
  std::int64_t gpus_per_link_domain = 0;  // as in `cluster`
  known<bandwidth> inside_node{};         // of one GPU, each direction
  known<bandwidth> between_nodes{};       // of one node, each direction, all adapters together
  known<network_kind> network{};
  known<price> price_per_gpu{};  // and then the date on which it was true
  known<power> power_per_gpu{};  // with its share of the host
  known<double> carbon_g_per_kWh{};
  known<duration> reclaimed{};  // of a preemptible node, on average until it is taken back
  std::string date{};           // "2026-08-27"
  std::string source{};         // who asks the price
};

/// What nodes are linked by, in words.
inline constexpr std::pair<const char*, network_kind> network_names[] = {
    {"infiniband", network_kind::infiniband},
    {"roce", network_kind::infiniband},
    {"efa", network_kind::efa},
    {"omni-path", network_kind::omni_path}};

/// The clusters of a file in the order of their names, or what is wrong with it: one of both.
struct read_clusters {
  std::vector<stated_cluster> clusters{};
  std::string why{};  // a sentence with the key; empty: nothing is wrong

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

namespace detail {

// A year, month and day that a calendar may have.
[[nodiscard]] inline bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const auto number = [&](std::size_t from, std::size_t count) {
    int value = 0;
    for (const char digit : text.substr(from, count)) {
      if (digit < '0' || digit > '9') return -1;
      value = 10 * value + (digit - '0');
    }
    return value;
  };
  const int month = number(5, 2);
  const int day = number(8, 2);
  return number(0, 4) > 0 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

// Reads one table of the file, and keeps what is first wrong with it.
class cluster_reader {
 public:
  cluster_reader(const std::string& name, const value::object& given) : given_(given) {
    made_.name = name;
  }

  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] stated_cluster read() {
    for (const auto& [key, is] : given_) {
      if (!why_.empty()) return made_;
      read(key, is);
    }
    if (!why_.empty()) return made_;
    if (made_.gpu.empty() && made_.system.empty())
      lacks("gpu", "the name of its GPUs, such as \"h100-sxm\", or a system is taken");
    if (made_.price_per_gpu && made_.date.empty())
      lacks("date",
            "the day on which price_per_gpu_hour was true, such as \"2026-08-27\", is taken");
    return made_;
  }

 private:
  const value::object& given_;
  stated_cluster made_{};
  std::string why_{};

  void lacks(const std::string& key, const std::string& taken) {
    if (why_.empty()) why_ = printable(made_.name) + "." + key + " is missing; " + taken;
  }
  void refuse(const std::string& key, const value& is, const std::string& taken) {
    const auto said = [&]() -> std::string {
      if (const std::int64_t* const whole = is.integer()) return std::to_string(*whole);
      if (const double* const number = is.number()) return decimal(*number, -1);
      if (const std::string* const text = is.text()) return "\"" + printable(*text) + "\"";
      if (const bool* const flag = is.flag()) return *flag ? "true" : "false";
      return is.items() ? "a list" : "a table";
    };
    why_ =
        printable(made_.name) + "." + printable(key) + " is " + said() + "; " + taken + " is taken";
  }
  void text(const std::string& key, const value& is, std::string& to, const char* taken) {
    if (is.text() && !is.text()->empty() && printable(*is.text()) == *is.text())
      to = *is.text();
    else
      refuse(key, is, taken);
  }
  void gpu(const std::string& key, const value& is) {
    text(key, is, made_.gpu, "the name of its GPUs, such as \"h100-sxm\",");
    if (!why_.empty() || catalog::find_gpu(made_.gpu)) return;
    const catalog::gpu_list meant = catalog::gpus_named(made_.gpu);
    if (meant.count < 2) return;
    std::string names;
    for (const gpu_spec* one : meant)
      names += (names.empty() ? "\"" : ", \"") + std::string(one->id) + "\"";
    refuse(key, is, "one of " + names);
  }
  void count(const std::string& key, const value& is, std::int64_t& to, std::int64_t most) {
    if (is.integer() && *is.integer() >= 1 && *is.integer() <= most)
      to = *is.integer();
    else
      refuse(key, is, "a whole number from 1 to " + std::to_string(most));
  }
  // A number between these, both of which are taken.
  template <class Set>
  void number(const std::string& key, const value& is, double least, double most, const Set& set) {
    double given = least - 1;
    if (is.integer()) given = static_cast<double>(*is.integer());
    if (is.number()) given = *is.number();
    if (given >= least && given <= most)
      set(given);
    else
      refuse(key, is, "a number from " + decimal(least, -1) + " to " + decimal(most, 0));
  }

  void read(const std::string& key, const value& is) {
    if (key == "gpu") return gpu(key, is);
    if (key == "system")
      return text(key, is, made_.system, "the name of a system, such as \"p5.48xlarge\",");
    if (key == "gpus_per_link_domain") return count(key, is, made_.gpus_per_link_domain, 1 << 16);
    if (key == "nodes") return count(key, is, made_.nodes, 1 << 16);
    if (key == "gpus_per_node") return count(key, is, made_.gpus_per_node, 1 << 10);
    if (key == "source") return text(key, is, made_.source, "who asks the price, in quotes,");
    if (key == "date") {
      if (is.text() && is_date(*is.text()))
        made_.date = *is.text();
      else
        refuse(key, is, "a day as \"2026-08-27\"");
      return;
    }
    const auto rate = [&](known<bandwidth>& to) {
      number(key, is, 1e-3, 1e6, [&](double given) { to = given * 1_GBps; });
    };
    if (key == "network_GBps") return rate(made_.between_nodes);
    if (key == "network") {
      std::string names;
      for (const auto& [name, kind] : network_names) {
        if (is.text() && *is.text() == name) made_.network = kind;
        names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
      }
      if (!made_.network) refuse(key, is, "one of " + names);
      return;
    }
    if (key == "link_GBps") return rate(made_.inside_node);
    if (key == "price_per_gpu_hour")
      return number(
          key, is, 0, 1e6, [&](double given) { made_.price_per_gpu = given * 1_usd_per_hour; });
    if (key == "power_W")
      return number(key, is, 1, 1e5, [&](double given) { made_.power_per_gpu = given * 1_W; });
    if (key == "carbon_g_per_kWh")
      return number(key, is, 0, 1e5, [&](double given) { made_.carbon_g_per_kWh = given; });
    if (key == "reclaimed_hours")
      return number(key, is, 1e-2, 1e8, [&](double given) { made_.reclaimed = given * 1_h; });
    why_ = printable(made_.name) + "." + printable(key) +
           " is no key of a cluster; taken are gpu, system, nodes, gpus_per_node, "
           "gpus_per_link_domain, network_GBps, network, link_GBps, price_per_gpu_hour, power_W, "
           "carbon_g_per_kWh, reclaimed_hours, date and source";
  }
};

// Those of a file that was parsed.
[[nodiscard]] inline read_clusters clusters_of(const value& file) {
  read_clusters read;
  for (const auto& [name, is] : *file.members()) {
    if (!is.members())
      return {{}, printable(name) + " stands outside a cluster; [a_name] above it begins one"};
    cluster_reader reader(name, *is.members());
    read.clusters.push_back(reader.read());
    if (!reader.why().empty()) return {{}, reader.why()};
  }
  if (read.clusters.empty()) return {{}, "it names no cluster; [a_name] begins one"};
  return read;
}

}  // namespace detail

/// The clusters that a text in TOML names, a table each:
///
///     [lab]
///     gpu = "rtx_a6000"            # must be there,
///     system = "p5.48xlarge"       # or this in its place
///     gpus_per_node = 8            # as the command line has it
///     gpus_per_link_domain = 72    # those that NVLink joins, where that leads across nodes
///     nodes = 2                    # 1
///     network_GBps = 25            # of a node, each direction
///     network = "efa"              # or "omni-path", or "infiniband" and RoCE
///     link_GBps = 56               # of a GPU inside its node, each direction
///     price_per_gpu_hour = 0.8     # dollars, and then
///     date = "2026-08-27"          # the day on which it was true
///     source = "our own account"
///     power_W = 350                # of a GPU with its share of the host
///     carbon_g_per_kWh = 380       # of the grid's CO2
///     reclaimed_hours = 40         # of a preemptible node, on average until it is taken back
///
/// Refused, with the key, what it is and what would be taken: other keys, values that are no such
/// thing, a name of several devices, and what must be there and is not; what is no TOML, with the
/// line; a file without a cluster.
[[nodiscard]] inline read_clusters read_clusters_of(std::string_view text) {
  const parsed_value file = parse_toml(text);
  if (!file) return {{}, file.why};
  return detail::clusters_of(file.is);
}

}  // namespace gpuplan::io

#pragma once

// The GPUs of a Slurm cluster, from what `scontrol show node` or `sinfo` prints.

#include <gpuplan/catalog/gpu_names.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/slurm_gres.hpp>
#include <gpuplan/io/sweep/columns.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// Nodes with as many GPUs of one type.
struct slurm_nodes {
  std::string gres{};  // the type as the cluster names it, "a100"; empty where it names none
  std::int64_t gpus_per_node = 0;
  std::int64_t nodes = 0;   // all of them
  std::int64_t usable = 0;  // neither down nor drained, failing, in maintenance or not responding
  std::int64_t idle = 0;    // of these, without a job

  /// The devices of the catalogue that the type may be, as `catalog::gpus_named` has it, else
  /// without a "gpu" before it: "gpu4090".
  [[nodiscard]] catalog::gpu_list devices() const {
    const catalog::gpu_list named = catalog::gpus_named(gres);
    if (named.count > 0 || !gres.starts_with("gpu")) return named;
    return catalog::gpus_named(std::string_view(gres).substr(3));
  }
  /// The nodes that are usable as a cluster, where there is one and its type is one device's;
  /// else `out_of_bounds` (nodes), `unknown_gpu`.
  [[nodiscard]] result<cluster> as_cluster() const {
    if (gres.empty() || devices().count != 1) return failure(errc::unknown_gpu).about(gres.c_str());
    return validate(
        cluster{.gpu = **devices().begin(), .nodes = usable, .gpus_per_node = gpus_per_node});
  }
};

/// The nodes that have GPUs, by type and number in the order of both, or what is wrong with the
/// text: one of both.
struct read_slurm_nodes {
  std::vector<slurm_nodes> groups{};
  std::string why{};  // a sentence; empty: nothing is wrong

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

namespace detail {

[[nodiscard]] inline std::vector<std::string_view> blank_separated(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

struct slurm_state {
  bool is_usable = true;
  bool is_idle = false;
};
// "IDLE", "MIXED+DRAIN", "down*", "drng".
[[nodiscard]] inline slurm_state state_of(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  slurm_state found{.is_usable = lower.find_first_of("*$") == std::string::npos};
  for (std::string_view left = lower; !left.empty();) {
    const std::string_view flag = left.substr(0, left.find('+'));
    left.remove_prefix(std::min(flag.size() + 1, left.size()));
    for (const char* word : {"down",  // POWERED_DOWN is no such: a job has it started
                             "drain",
                             "drng",
                             "fail",
                             "maint",
                             "unk",
                             "err",
                             "inval",
                             "not_responding",
                             "no_respond"})
      found.is_usable = found.is_usable && !flag.starts_with(word);
    found.is_idle = found.is_idle || flag.starts_with("idle");
  }
  found.is_idle = found.is_idle && found.is_usable;
  return found;
}

inline constexpr std::size_t most_slurm_nodes = 100'000;

// Adds the names that one part of a list stands for, "node[01-04,07]" or "rack[1-2]n[1-8]"; false
// where it is none, or they are too many.
[[nodiscard]] inline bool add_names(const std::string& before,
                                    std::string_view part,
                                    std::vector<std::string>& to) {
  const std::size_t open = part.find('[');
  if (open == std::string_view::npos) {
    to.push_back(before + std::string(part));
    return to.size() <= most_slurm_nodes && part.find(']') == std::string_view::npos;
  }
  const std::size_t close = part.find(']', open);
  if (close == std::string_view::npos) return false;
  const std::string prefix = before + std::string(part.substr(0, open));
  for (const std::string_view range : parts_of_list(part.substr(open + 1, close - open - 1))) {
    const std::size_t dash = range.find('-');
    const std::string_view from = range.substr(0, dash);
    const std::int64_t first = count_of(from);
    const std::int64_t last =
        dash == std::string_view::npos ? first : count_of(range.substr(dash + 1));
    if (first < 0 || last < first) return false;
    for (std::int64_t number = first; number <= last; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < from.size()) digits.insert(0, from.size() - digits.size(), '0');
      if (!add_names(prefix + digits, part.substr(close + 1), to)) return false;
    }
  }
  return true;
}

struct slurm_node {
  std::string gres{};
  slurm_state state{};
};
using slurm_nodes_by_name = std::map<std::string, slurm_node, std::less<>>;

[[nodiscard]] inline read_slurm_nodes grouped(const slurm_nodes_by_name& nodes) {
  std::map<std::pair<std::string, std::int64_t>, slurm_nodes> groups;
  for (const auto& [name, node] : nodes)
    for (const slurm_gres& each : gpus_in(node.gres)) {
      if (each.count < 1) continue;
      slurm_nodes& group = groups[{each.type, each.count}];
      group.gres = each.type;
      group.gpus_per_node = each.count;
      ++group.nodes;
      group.usable += node.state.is_usable;
      group.idle += node.state.is_idle;
    }
  read_slurm_nodes read;
  for (const auto& [key, group] : groups) read.groups.push_back(group);
  if (read.groups.empty())
    read.why =
        "no node with gres gpu is named; the output of scontrol show node, or of sinfo -o \"%N %G "
        "%t\", is taken";
  return read;
}

[[nodiscard]] inline read_slurm_nodes nodes_of_scontrol(std::string_view text) {
  slurm_nodes_by_name nodes;
  slurm_node* current = nullptr;
  while (!text.empty())
    for (const std::string_view word : blank_separated(take_line(text).text)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = word.substr(0, equals);
      const std::string_view value = word.substr(equals + 1);
      if (key == "NodeName") current = &(nodes[std::string(value)] = {});
      if (current == nullptr) continue;
      if (key == "Gres") current->gres = value;
      if (key == "State") current->state = state_of(value);
    }
  return grouped(nodes);
}

[[nodiscard]] inline read_slurm_nodes nodes_of_sinfo(std::string_view text) {
  const std::vector<std::string_view> heads = blank_separated(take_line(text).text);
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(heads.begin(), heads.end(), name) - heads.begin());
  };
  const std::size_t names = column("NODELIST");
  const std::size_t gres = column("GRES");
  const std::size_t state = column("STATE");
  if (names == heads.size() || gres == heads.size())
    return {.why =
                "sinfo's columns NODELIST and GRES are needed: sinfo -o \"%N %G %t\" prints "
                "them"};
  slurm_nodes_by_name nodes;  // each once, though it stands in each of its partitions
  for (std::int64_t number = 2; !text.empty(); ++number) {
    const std::vector<std::string_view> words = blank_separated(take_line(text).text);
    if (words.empty()) continue;
    if (words.size() != heads.size())
      return {.why = "line " + std::to_string(number) + " has " + std::to_string(words.size()) +
                     " words, and " + std::to_string(heads.size()) + " columns"};
    std::vector<std::string> named;
    for (const std::string_view part : parts_of_list(words[names]))
      if (!add_names("", part, named))
        return {.why = "line " + std::to_string(number) + ": " + printable(words[names]) +
                       " is no list of nodes as node[01-04,07]"};
    const slurm_node node{std::string(words[gres]),
                          state == heads.size() ? slurm_state{} : state_of(words[state])};
    for (const std::string& name : named) nodes[name] = node;
  }
  return grouped(nodes);
}

}  // namespace detail

/// The nodes of `scontrol show node` (also with -o), or of a `sinfo` whose columns, by the names of
/// its first line, have NODELIST and GRES: `sinfo -o "%N %G %t"`. A node that several partitions
/// list counts once. Without a state, all count as usable and none as idle. Refused: a text that
/// names no GPU, and lines that do not have the columns of the first.
[[nodiscard]] inline read_slurm_nodes read_slurm_nodes_of(std::string_view text) {
  return text.find("NodeName=") != std::string_view::npos ? detail::nodes_of_scontrol(text)
                                                          : detail::nodes_of_sinfo(text);
}

}  // namespace gpuplan::io

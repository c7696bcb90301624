#pragma once

// What launchers' files say beside the training itself, and which texts may stand in them.

#include <gpuplan/io/trainer/members.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// How a training is started, where `training_config` has no word for it. Texts go into scripts:
/// single words of letters, digits and ._/:+@=- , else they are refused.
struct launch {
  std::string name = "training";  // of the job; letters, digits and -
  std::string gpu{};              // its type as the cluster names it: "h100", "H100"; empty: any
  std::string device{};  // its id in the catalogue, for clouds whose names are known: "l40s"
  duration wall_time{};  // after which the cluster ends the job; 0: its own limit
  std::string image{};   // of the container, where there is one
  // What every process runs: a script and its words, with a blank between them
  std::string command = script_placeholder;
};

namespace detail {

[[nodiscard]] inline bool is_safe_word(std::string_view word) {
  if (word.empty()) return false;
  for (const char c : word) {
    const bool usual = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!usual && std::string_view("._/:+@=-").find(c) == std::string_view::npos) return false;
  }
  return true;
}
/// Why a text cannot stand in a script, or nothing.
[[nodiscard]] inline std::string flaw_of_word(std::string_view field, std::string_view word) {
  if (is_safe_word(word) && word[0] != '-') return "";
  return std::string(field) + " is " + shown(value(word)) +
         "; a word of letters, digits and ._/:+@=- is taken, without a - in front";
}
/// Likewise of several words, with one blank between them.
[[nodiscard]] inline std::string flaw_of_words(std::string_view field, std::string_view words) {
  std::string_view left = words;
  while (true) {
    const std::size_t end = left.find(' ');
    if (!is_safe_word(left.substr(0, end)) || words.front() == '-') break;
    if (end == std::string_view::npos) return "";
    left = left.substr(end + 1);
  }
  return std::string(field) + " is " + shown(value(words)) +
         "; words of letters, digits and ._/:+@=- are taken, with one blank between them";
}
/// A name as Kubernetes and clusters take it (RFC 1123's label).
[[nodiscard]] inline std::string flaw_of_job_name(std::string_view name) {
  bool is_right = !name.empty() && name.size() <= 63 && name.front() != '-' && name.back() != '-';
  for (const char c : name)
    is_right = is_right && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  if (is_right) return "";
  return "name is " + shown(value(name)) +
         "; up to 63 small letters, digits and - are taken, with no - at the ends";
}

/// The nodes of a job, and the GPUs of each.
struct machines {
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  std::string why{};  // why they are not known

  [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
};
/// From what of them the plan says; GPUs of an unknown number of nodes are one node's where there
/// are 8 at most.
[[nodiscard]] inline machines machines_of(const training_config& config) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  machines made;
  for (const auto& [name, number] : {std::pair{"gpus", config.gpus},
                                     std::pair{"nodes", config.nodes},
                                     std::pair{"gpus_per_node", config.gpus_per_node}})
    if (number && (*number < 1 || *number > most))
      return made.why = std::string(name) + " is " + std::to_string(*number) + "; from 1 to " +
                        std::to_string(most) + " is taken",
             made;
  const auto divide = [&made](std::int64_t gpus, std::int64_t by, const char* what) {
    if (gpus % by != 0)
      made.why = "gpus is " + std::to_string(gpus) + "; a multiple of " + what + ", " +
                 std::to_string(by) + ", is taken";
    return gpus / by;
  };
  if (config.nodes && config.gpus_per_node) {
    made.nodes = *config.nodes;
    made.gpus_per_node = *config.gpus_per_node;
    if (config.gpus && *config.gpus != made.gpus())
      made.why = "gpus is " + std::to_string(*config.gpus) + "; nodes * gpus_per_node, " +
                 std::to_string(made.gpus()) + ", is taken";
  } else if (config.gpus && config.nodes) {
    made.nodes = *config.nodes;
    made.gpus_per_node = divide(*config.gpus, made.nodes, "nodes");
  } else if (config.gpus && config.gpus_per_node) {
    made.gpus_per_node = *config.gpus_per_node;
    made.nodes = divide(*config.gpus, made.gpus_per_node, "gpus_per_node");
  } else if (config.gpus && *config.gpus <= 8) {
    made.gpus_per_node = *config.gpus;
  } else {
    made.why = "nodes and gpus_per_node are not known, so that nobody can say where to start what";
  }
  return made;
}

/// The names of those members that a config says, and that launchers have no word for.
[[nodiscard]] inline std::vector<std::string> what_trainers_say(const training_config& config) {
  return said_but(config, {"gpus", "nodes", "gpus_per_node"});
}

/// What every writer of a launcher refuses.
[[nodiscard]] inline std::string flaw_of_launch(const launch& how) {
  if (const std::string why = flaw_of_job_name(how.name); !why.empty()) return why;
  if (!how.gpu.empty())
    if (const std::string why = flaw_of_word("gpu", how.gpu); !why.empty()) return why;
  if (!how.image.empty())
    if (const std::string why = flaw_of_word("image", how.image); !why.empty()) return why;
  // Every writer puts torchrun before it, which would look for a script of that name.
  const std::string first = how.command.substr(0, how.command.find(' '));
  if (first == "python" || first == "python3")
    return "command '" + how.command +
           "': torchrun starts Python itself; the script and its words " + "are taken, without " +
           first;
  return flaw_of_words("command", how.command);
}

}  // namespace detail
}  // namespace gpuplan::io

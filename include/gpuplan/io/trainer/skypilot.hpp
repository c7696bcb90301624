#pragma once

// SkyPilot's task: how many nodes with how many GPUs of which kind, and what each node runs.

#include <gpuplan/io/skypilot_names.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// Whether an object is a task of SkyPilot: it asks for accelerators, and says what to run.
[[nodiscard]] inline bool looks_like_skypilot(const value& settings) {
  const value* const resources = settings.find("resources");
  if (resources == nullptr || settings.find("run") == nullptr) return false;
  for (const char* const key : {"accelerators", "any_of", "ordered"})
    if (resources->find(key) != nullptr) return true;
  return false;
}

namespace detail {

/// The kinds of accelerators that a task may take, and how many: "H100:8", {H100: 8}, or a list of
/// such.
[[nodiscard]] inline std::vector<std::string> skypilot_kinds(const value& wanted) {
  std::vector<std::string> kinds;
  if (const std::string* const text = wanted.text()) kinds.push_back(*text);
  if (const value::object* const members = wanted.members())
    for (const auto& [name, count] : *members)
      kinds.push_back(count.is_nothing() ? name : name + ":" + plain_word(count));
  if (const value::list* const items = wanted.items())
    for (const value& item : *items)
      if (item.items() == nullptr)
        for (std::string& kind : skypilot_kinds(item)) kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace detail

/// What a task of SkyPilot says: nodes and GPUs of each. What it runs is the trainer's.
[[nodiscard]] inline read_config read_skypilot(const value& settings) {
  read_config read{.tool = "skypilot"};
  detail::settings_reader from(settings, read);
  from.pass_over({"name",
                  "workdir",
                  "envs",
                  "secrets",
                  "file_mounts",
                  "setup",
                  "run",
                  "config",
                  "service",
                  "volumes",
                  "resources.infra",
                  "resources.cloud",
                  "resources.region",
                  "resources.zone",
                  "resources.cpus",
                  "resources.memory",
                  "resources.use_spot",
                  "resources.disk_size",
                  "resources.disk_tier",
                  "resources.ports",
                  "resources.image_id",
                  "resources.labels",
                  "resources.instance_type",
                  "resources.network_tier",
                  "resources.autostop",
                  "resources.job_recovery"});
  read.config.nodes = from.integer("num_nodes");
  if (!read.config.nodes) read.config.nodes = 1;  // as it is documented
  std::vector<std::string> kinds;
  std::string key = "resources.accelerators";
  if (const value* const wanted = from.find(key, true)) kinds = detail::skypilot_kinds(*wanted);
  for (const char* const several : {"resources.any_of", "resources.ordered"}) {
    const value* const all = from.find(several, true);
    if (all == nullptr || all->items() == nullptr) continue;
    key = several;
    for (const value& one : *all->items())
      if (const value* const wanted = one.find("accelerators"))
        for (std::string& kind : detail::skypilot_kinds(*wanted)) kinds.push_back(std::move(kind));
  }
  const std::string_view kind = kinds.empty() ? std::string_view() : kinds[0];
  const std::size_t colon = kind.find(':');
  std::int64_t gpus = 1;
  bool is_whole = !kind.empty();
  if (colon != std::string_view::npos) {
    const std::string_view number = kind.substr(colon + 1);
    const auto end = std::from_chars(number.data(), number.data() + number.size(), gpus);
    is_whole = end.ec == std::errc() && end.ptr == number.data() + number.size() && gpus >= 1;
  }
  if (is_whole) read.gpu = printable(kind.substr(0, std::min<std::size_t>(colon, 40)));
  if (is_whole)
    read.config.gpus_per_node = gpus;
  else
    from.remark_on(remark::kind::doubtful,
                   key,
                   (kinds.empty() ? "names no accelerators" : "is " + detail::shown(kinds[0])) +
                       "; a kind with a whole number, as H100:8, is taken");
  if (is_whole && kinds.size() > 1) {
    std::string others;
    for (std::size_t i = 1; i < kinds.size() && i < 8; ++i)
      others += (i == 1 ? "" : ", ") + printable(kinds[i].substr(0, 40));
    from.remark_on(remark::kind::doubtful,
                   key,
                   "allows several; the first, " + printable(kinds[0].substr(0, 40)) +
                       ", is taken, not " + others);
  }
  from.name_the_others();
  return read;
}

/// A task of SkyPilot, sky.yaml: each node runs torchrun. Tested with SkyPilot 0.14.1. Refused: a
/// plan that does not say its nodes, a launch without the kind of GPU or with a device that has no
/// name there, and texts that are no words.
[[nodiscard]] inline written_config write_skypilot(const training_config& config,
                                                   const launch& how = {}) {
  written_config made;
  const detail::machines on = detail::machines_of(config);
  made.why = on.why.empty() ? detail::flaw_of_launch(how) : on.why;
  std::string gpu = how.gpu;
  for (const detail::skypilot_name& known : detail::skypilot_names)
    if (gpu.empty() && known.device == how.device) gpu = known.name;
  if (made && gpu.empty())
    made.why = how.device.empty()
                   ? "gpu is not known; the kind that the cloud names, as H100, is taken"
                   : "device is " + detail::shown(value(how.device)) +
                         ", whose name in clouds is not known; gpu as the cloud names it is taken";
  if (!made) return made;
  value task;
  task["name"] = how.name;
  task["num_nodes"] = on.nodes;
  task["resources"]["accelerators"] = gpu + ":" + std::to_string(on.gpus_per_node);
  if (!how.image.empty()) task["resources"]["image_id"] = "docker:" + how.image;
  task["run"] =
      "torchrun --nnodes $SKYPILOT_NUM_NODES --node-rank $SKYPILOT_NODE_RANK --nproc-per-node "
      "$SKYPILOT_NUM_GPUS_PER_NODE --master-addr $(echo \"$SKYPILOT_NODE_IPS\" | head -n1) "
      "--master-port 29500 " +
      how.command;
  made.files.push_back({"sky.yaml", "# written for SkyPilot 0.14.1\n" + to_yaml(task)});
  made.command = "sky launch sky.yaml";
  made.not_written = detail::what_trainers_say(config);
  if (how.wall_time > 0_s) made.not_written.emplace_back("wall_time");
  return made;
}

}  // namespace gpuplan::io

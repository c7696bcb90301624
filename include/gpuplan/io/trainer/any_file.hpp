#pragma once

// A trainer's file of whichever tool: told by what it holds. Needs nlohmann/json, yaml-cpp and
// toml++, as what reads each notation does.

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/toml.hpp>
#include <gpuplan/io/trainer/accelerate.hpp>
#include <gpuplan/io/trainer/axolotl.hpp>
#include <gpuplan/io/trainer/command_words.hpp>
#include <gpuplan/io/trainer/deepspeed.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/kubeflow.hpp>
#include <gpuplan/io/trainer/llama_factory.hpp>
#include <gpuplan/io/trainer/megatron_bridge.hpp>
#include <gpuplan/io/trainer/megatron_lm.hpp>
#include <gpuplan/io/trainer/skypilot.hpp>
#include <gpuplan/io/trainer/slurm.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>
#include <gpuplan/io/trainer/torchtitan.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

// A tool whose settings are an object; the first that a file looks like counts, so those that are
// told by keys of their own come first.
struct settings_tool {
  const char* name;
  bool (*looks_like)(const value& settings);
  read_config (*read)(const value& settings);
};
inline constexpr settings_tool settings_tools[] = {
    {"DeepSpeed", looks_like_deepspeed, read_deepspeed},
    {"Megatron-Bridge",
     looks_like_megatron_bridge,
     [](const value& settings) { return read_megatron_bridge(settings); }},
    {"torchtitan",
     looks_like_torchtitan,
     [](const value& settings) { return read_torchtitan(settings); }},
    {"Kubeflow", looks_like_kubeflow, read_kubeflow},
    {"SkyPilot", looks_like_skypilot, read_skypilot},
    {"Accelerate", looks_like_accelerate, read_accelerate},
    {"axolotl", looks_like_axolotl, read_axolotl},
    {"LLaMA-Factory", looks_like_llama_factory, read_llama_factory},
    {"transformers and TRL", looks_like_hugging_face_arguments, read_hugging_face_arguments},
};

[[nodiscard]] inline bool ends_in(std::string_view name, std::string_view with) {
  return name.size() >= with.size() && name.substr(name.size() - with.size()) == with;
}

// By the name where it says the notation; else YAML, of which JSON is a part.
[[nodiscard]] inline parsed_value parse_settings(std::string_view name, std::string_view text) {
  if (ends_in(name, ".json")) return parse_json(text);
  if (ends_in(name, ".toml")) return parse_toml(text);
  return parse_yaml(text);
}

// `--key word`, `--key=word` and `--flag` as an object, as Python's argparse has them.
[[nodiscard]] inline value arguments_of_words(const std::vector<std::string>& words) {
  value made = value::object();
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at].substr(0, 2) != "--") continue;
    std::string key = words[at].substr(2);
    value is = true;
    if (const std::size_t end = key.find('='); end != std::string::npos) {
      is = value_of_word(std::string_view(key).substr(end + 1));
      key.resize(end);
    } else if (at + 1 < words.size() && words[at + 1].substr(0, 2) != "--") {
      is = value_of_word(words[++at]);
      if (const std::string* const word = is.text(); word && (*word == "True" || *word == "False"))
        is = *word == "True";
    }
    for (char& c : key)
      if (c == '-') c = '_';
    made[key] = std::move(is);
  }
  return made;
}

// What a script starts: a trainer that reads flags, or one whose arguments are settings.
[[nodiscard]] inline read_config read_script(std::string_view text) {
  if (text.substr(0, 2) == "--") return read_megatron_lm(text);
  const read_launch started = looks_like_slurm(text) ? read_slurm_script(text)
                                                     : read_torchrun_words(read_shell_script(text));
  if (!started.read) return started.read;
  if (looks_like_megatron_lm(text)) return read_megatron_lm_words(started.words, started.read);
  for (const std::string& word : started.words)
    if (word.find("tensor_model_parallel_size=") != std::string::npos ||
        word.find("micro_batch_size=") == 6)
      return read_megatron_bridge_words(started.words, started.read);
  for (const std::string& word : started.words)
    for (const char* const group : {"--training.", "--parallelism.", "--job.", "--model."})
      if (word.starts_with(group)) return read_torchtitan_words(started.words, started.read);
  const value arguments = arguments_of_words(started.words);
  const bool is_llama_factory = looks_like_llama_factory(arguments);
  if (!is_llama_factory && !looks_like_hugging_face_arguments(arguments)) return started.read;
  read_config read =
      is_llama_factory ? read_llama_factory(arguments) : read_hugging_face_arguments(arguments);
  read.config.nodes = started.read.config.nodes;
  read.config.gpus_per_node = started.read.config.gpus_per_node;
  read.config.gpus = started.read.config.gpus;
  read.remarks.insert(
      read.remarks.begin(), started.read.remarks.begin(), started.read.remarks.end());
  return read;
}

[[nodiscard]] inline bool is_script(std::string_view name, std::string_view text) {
  return ends_in(name, ".sh") || ends_in(name, ".slurm") || ends_in(name, ".sbatch") ||
         ends_in(name, ".args") || text.substr(0, 2) == "#!" || text.substr(0, 2) == "--";
}

}  // namespace detail

/// What a file of a trainer says; of whom it is, its keys tell. `name` ends in .json, .yaml, .yml,
/// .toml, .sh or the like. Refused: what cannot be read in its notation, and settings that are
/// nobody's, with the tools that are known.
[[nodiscard]] inline read_config read_training_file(std::string_view name, std::string_view text) {
  if (detail::is_script(name, text)) return detail::read_script(text);
  read_config none;
  const parsed_value parsed = detail::parse_settings(name, text);
  if (!parsed) {
    none.why = parsed.why;
    return none;
  }
  std::string known;
  for (const detail::settings_tool& tool : detail::settings_tools) {
    if (tool.looks_like(parsed.is)) return tool.read(parsed.is);
    known += (known.empty() ? "" : ", ") + std::string(tool.name);
  }
  none.why = "its keys are of no tool that is known; there are " + known + ", and scripts";
  return none;
}

}  // namespace gpuplan::io

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
#include <gpuplan/io/trainer/nemo_automodel.hpp>
#include <gpuplan/io/trainer/skypilot.hpp>
#include <gpuplan/io/trainer/slurm.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>
#include <gpuplan/io/trainer/torchtitan.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <algorithm>
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
    {"NeMo AutoModel", looks_like_nemo_automodel, read_nemo_automodel},
    {"Kubeflow", looks_like_kubeflow, read_kubeflow},
    {"SkyPilot", looks_like_skypilot, read_skypilot},
    {"Accelerate", looks_like_accelerate, read_accelerate},
    {"axolotl", looks_like_axolotl, read_axolotl},
    {"LLaMA-Factory", looks_like_llama_factory, read_llama_factory},
    {"transformers and TRL",
     looks_like_hugging_face_arguments,
     [](const value& settings) { return read_hugging_face_arguments(settings); }},
};

[[nodiscard]] inline bool ends_in(std::string_view name, std::string_view with) {
  return name.size() >= with.size() && name.substr(name.size() - with.size()) == with;
}

// By the name where it says the notation; else YAML, of which JSON is a part, and which may hold
// several documents.
[[nodiscard]] inline parsed_documents parse_settings(std::string_view name, std::string_view text) {
  if (!ends_in(name, ".json") && !ends_in(name, ".toml")) return parse_yaml_documents(text);
  parsed_value one = ends_in(name, ".json") ? parse_json(text) : parse_toml(text);
  return {{std::move(one.is)}, std::move(one.why)};
}

// `--key word`, `--key=word`, `--key word word` and `--flag` as an object, as Python's argparse has
// them; `--no_flag` as false.
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
      value::list all;
      while (at + 1 < words.size() && words[at + 1].substr(0, 2) != "--")
        all.push_back(value_of_word(words[++at]));
      is = all.size() == 1 ? all[0] : value(std::move(all));
    }
    if (const std::string* const word = is.text(); word && (*word == "True" || *word == "False"))
      is = *word == "True";
    for (char& c : key)
      if (c == '-') c = '_';
    if (key.starts_with("no_") && key != "no_cuda" && is.flag() != nullptr && *is.flag()) {
      key.erase(0, 3);
      is = false;
    }
    made[key] = std::move(is);
    if (made.members()->size() > most_flag_words) return made;
  }
  return made;
}

// Whether a flag names a file that says more of the training.
[[nodiscard]] inline bool names_other_file(std::string key) {
  std::replace(key.begin(), key.end(), '-', '_');
  return is_one_of(key,
                   {"__config",
                    "__config_file",
                    "__job.config_file",
                    "__accelerate_config",
                    "__deepspeed_config",
                    "__hf_ds_config"});
}

// The options of accelerate launch, as Accelerate's file has them.
[[nodiscard]] inline value accelerate_settings_of(const std::vector<std::string>& launcher) {
  value made = value::object();
  std::size_t from = 0;
  while (from < launcher.size() && last_of_path(launcher[from]) != "accelerate" &&
         launcher[from] != "accelerate.commands.launch")
    ++from;
  std::vector<std::string> words(launcher.begin() + static_cast<std::ptrdiff_t>(from),
                                 launcher.end());
  if (!words.empty() && (words.back() == "-m" || words.back() == "--module")) words.pop_back();
  const value flags = arguments_of_words(words);
  for (const auto& [name, is] : *flags.members()) {
    const char* engine = nullptr;
    for (const auto& [flag, word] : {std::pair{"multi_gpu", "MULTI_GPU"},
                                     std::pair{"use_fsdp", "FSDP"},
                                     std::pair{"use_deepspeed", "DEEPSPEED"},
                                     std::pair{"use_megatron_lm", "MEGATRON_LM"}})
      if (name == flag) engine = word;
    const char* group = nullptr;
    for (const auto& [start, of] : {std::pair{"fsdp_", "fsdp_config"},
                                    std::pair{"megatron_lm_", "megatron_lm_config"},
                                    std::pair{"parallelism_config_", "parallelism_config"},
                                    std::pair{"deepspeed_", "deepspeed_config"},
                                    std::pair{"zero", "deepspeed_config"},
                                    std::pair{"offload_", "deepspeed_config"},
                                    std::pair{"gradient_", "deepspeed_config"}})
      if (name.starts_with(start)) group = of;
    const bool is_said_elsewhere =
        is_one_of(name, {"config_file", "num_processes", "num_machines", "use_parallelism_config"});
    const bool is_plain_engine = name == "multi_gpu" && made.find("distributed_type") != nullptr;
    if (is_said_elsewhere || is_plain_engine) continue;
    if (engine != nullptr)
      made["distributed_type"] = engine;
    else if (group != nullptr)
      made[group][name] = is;
    else
      made[name] = is;
  }
  return made;
}

// What accelerate launch is told beside the GPUs, where the trainer's words do not say it.
inline void add_accelerate(const read_launch& started, read_config& to) {
  const value settings = accelerate_settings_of(started.launcher);
  if (settings.members()->empty()) return;
  read_config told = read_accelerate(settings);
  if (!told) return;
  to.remarks.insert(to.remarks.end(), told.remarks.begin(), told.remarks.end());
  to.not_understood.insert(
      to.not_understood.end(), told.not_understood.begin(), told.not_understood.end());
  for_each_member([&](const char*, auto member) {
    if (is_said(told.config.*member) && !is_said(to.config.*member))
      to.config.*member = told.config.*member;
  });
}

// Files that the words of a launcher or a trainer name, and that say more of the training.
inline void remark_on_other_files(const read_launch& started, read_config& to) {
  const auto is_of_settings = [](std::string_view word) {
    return ends_in(word, ".yaml") || ends_in(word, ".yml") || ends_in(word, ".json") ||
           ends_in(word, ".toml");
  };
  for (const std::vector<std::string>* const words : {&started.launcher, &started.words})
    for (std::size_t i = 0; i < words->size(); ++i) {
      std::string key = (*words)[i];
      std::string name = i + 1 < words->size() ? (*words)[i + 1] : "";
      if (const std::size_t equals = key.find('='); equals != std::string::npos) {
        name = key.substr(equals + 1);
        key.resize(equals);
      }
      // of torchtitan a function, which its reader knows or misses
      const bool is_function =
          to.tool == "torchtitan" && key == "--config" && !is_of_settings(name);
      if (names_other_file(key) && !name.empty() && !is_function &&
          !hugging_face::is_accelerate_file_of_trl(name))
        to.remarks.push_back(other_file(key, name));
    }
  // llamafactory-cli train FILE, -m axolotl.cli.train FILE
  const bool is_alone = started.program.find(".py") == std::string::npos;
  if (!is_alone || started.words.empty() || !is_of_settings(started.words[0])) return;
  to.remarks.push_back(
      other_file(is_one_of(started.program, {"train"}) && !started.launcher.empty()
                     ? std::string(last_of_path(started.launcher.back())) + " train"
                     : started.program,
                 started.words[0]));
  if (started.words.size() > 1)
    to.remarks.push_back({remark::kind::doubtful,
                          printable(started.words[1]),
                          "stands behind the file and changes what it says, which is left out; "
                          "write it into the file"});
}

// "--lr", not the "---" of a document.
[[nodiscard]] inline bool begins_with_flag(std::string_view text) {
  return text.size() > 2 && text.substr(0, 2) == "--" && text[2] != '-';
}

// What the trainer's own words say.
[[nodiscard]] inline read_config read_trainer_words(std::string_view text,
                                                    const read_launch& started) {
  if (looks_like_megatron_lm(text)) return read_megatron_lm_words(started.words, started.read);
  for (const std::string& word : started.words)
    if (word.find("tensor_model_parallel_size=") != std::string::npos ||
        word.find("micro_batch_size=") == 6)
      return read_megatron_bridge_words(started.words, started.read);
  if (started.program == "torchtitan.train")
    return read_torchtitan_words(started.words, started.read);
  for (const std::string& word : started.words)
    for (const char* const group : {"--training.", "--parallelism.", "--job.", "--model."})
      if (word.starts_with(group)) return read_torchtitan_words(started.words, started.read);
  const value arguments = arguments_of_words(started.words);
  const bool is_llama_factory = looks_like_llama_factory(arguments);
  if (!is_llama_factory && !looks_like_hugging_face_arguments(arguments)) {
    read_config unknown = started.read;
    for (const auto& [key, is] : *arguments.members())
      if (!names_other_file("--" + key)) unknown.not_understood.push_back(printable("--" + key));
    return unknown;
  }
  read_config read = is_llama_factory ? read_llama_factory(arguments)
                                      : read_hugging_face_arguments(arguments, started.program);
  read.config.nodes = started.read.config.nodes;
  read.config.gpus_per_node = started.read.config.gpus_per_node;
  if (started.read.config.gpus || !read.config.gpus) read.config.gpus = started.read.config.gpus;
  read.remarks.insert(
      read.remarks.begin(), started.read.remarks.begin(), started.read.remarks.end());
  read.not_understood.insert(read.not_understood.begin(),
                             started.read.not_understood.begin(),
                             started.read.not_understood.end());
  return read;
}

// What a script starts: a trainer that reads flags, or one whose arguments are settings.
[[nodiscard]] inline read_config read_script(std::string_view text) {
  if (begins_with_flag(text)) return read_megatron_lm(text);
  const read_launch started = looks_like_slurm(text) ? read_slurm_script(text)
                                                     : read_torchrun_words(read_shell_script(text));
  if (!started.read) return started.read;
  read_config read = read_trainer_words(text, started);
  if (!read) return read;
  read.gpu = started.how.gpu;
  for (const std::string& word : started.launcher)
    if (last_of_path(word) == "accelerate" || word == "accelerate.commands.launch") {
      add_accelerate(started, read);
      break;
    }
  remark_on_other_files(started, read);
  return read;
}

// The documents of one file. Each tool counts once, and what is not read is named.
[[nodiscard]] inline read_config read_documents(const std::vector<value>& documents) {
  read_config read;
  read.why = "none";
  std::string known;
  for (const settings_tool& tool : settings_tools)
    known += (known.empty() ? "" : ", ") + std::string(tool.name);
  std::vector<std::string> not_read;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const value& one = documents[i];
    if (one.is_nothing() || (one.members() != nullptr && one.members()->empty())) continue;
    const settings_tool* is = nullptr;
    for (const settings_tool& tool : settings_tools)
      if (is == nullptr && tool.looks_like(one)) is = &tool;
    if (is != nullptr && read.why == "none") {
      read = is->read(one);
      continue;
    }
    std::string name = "document " + std::to_string(i + 1);
    for (const char* const key : {"kind", "name"})
      if (const value* const found = one.find(key); found != nullptr && found->text() != nullptr)
        name += std::string(", ") + key + " " + printable(found->text()->substr(0, 80));
    if (is != nullptr)
      read.remarks.push_back(
          {remark::kind::doubtful,
           name,
           std::string("is of ") + is->name + " too, and is not read: the first such document is"});
    else
      not_read.push_back(std::move(name));
  }
  if (read.why == "none") {
    read.why = not_read.empty()
                   ? "it is empty"
                   : "its keys are of no tool that is known; there are " + known + ", and scripts";
    return read;
  }
  if (read) read.not_understood.insert(read.not_understood.end(), not_read.begin(), not_read.end());
  return read;
}

[[nodiscard]] inline bool is_script(std::string_view name, std::string_view text) {
  return ends_in(name, ".sh") || ends_in(name, ".slurm") || ends_in(name, ".sbatch") ||
         ends_in(name, ".args") || text.substr(0, 2) == "#!" || begins_with_flag(text);
}

}  // namespace detail

/// What a file of a trainer says; of whom it is, its keys tell. `name` ends in .json, .yaml, .yml,
/// .toml, .sh or the like; Python's modules are not read. Of several documents of YAML the first of
/// a tool that is known counts, and the others are named. Refused: what cannot be read in its
/// notation, and settings that are nobody's, with the tools that are known.
[[nodiscard]] inline read_config read_training_file(std::string_view name, std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {.why = "it is empty"};
  constexpr const char* kinds = "files in JSON, YAML and TOML and scripts of a shell are read";
  if (detail::ends_in(name, ".py"))
    return {.why = std::string("it is a module of Python; ") + kinds};
  if (detail::is_script(name, text)) return detail::read_script(text);
  const parsed_documents parsed = detail::parse_settings(name, text);
  if (parsed) return detail::read_documents(parsed.are);
  const bool is_known = detail::ends_in(name, ".json") || detail::ends_in(name, ".toml") ||
                        detail::ends_in(name, ".yaml") || detail::ends_in(name, ".yml");
  return {.why = is_known ? parsed.why : parsed.why + ", as YAML; " + kinds};
}

}  // namespace gpuplan::io

#pragma once

// The command lines of torchrun, accelerate, deepspeed and the like: on how many GPUs a training
// starts, and which words are the trainer's.

#include <gpuplan/io/trainer/command_words.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// What a launcher's file says: of the GPUs, and in words that are the trainer's own.
struct read_launch {
  read_config read{};  // nodes, gpus_per_node, gpus
  launch how{};        // what of it the file says; `command` is the trainer's with its words
  // "pretrain_gpt.py", or a module's name behind -m; empty: none was found
  std::string program{};
  std::vector<std::string> words{};     // behind it
  std::vector<std::string> launcher{};  // before it, from the start of the command
};

namespace detail {

[[nodiscard]] inline std::string_view last_of_path(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}
[[nodiscard]] inline bool is_python(std::string_view word) {
  word = last_of_path(word);
  return word.substr(0, 6) == "python" &&
         word.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
}
[[nodiscard]] inline bool is_launcher(std::string_view word) {
  return is_one_of(last_of_path(word), {"torchrun", "accelerate", "deepspeed"});
}
/// Of programs that start a trainer of their own on all GPUs they see: `trl sft`.
[[nodiscard]] inline bool is_own_launcher(std::string_view word, std::string_view next) {
  word = last_of_path(word);
  if (word == "trl") return !next.empty() && !is_one_of(next, {"env", "chat", "vllm-serve"});
  return is_one_of(word, {"axolotl", "llamafactory-cli", "lmf"}) && next == "train";
}
/// Where in a command a launcher or Python starts; its size where neither does.
[[nodiscard]] inline std::size_t start_of_training(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_launcher(words[i])) return i;
    if (i + 1 < words.size() && is_own_launcher(words[i], words[i + 1])) return i;
    if (!is_python(words[i]) || i + 1 == words.size()) continue;
    // python -c TEXT and python -m pip train nothing
    std::size_t next = i + 1;
    while (next < words.size() && is_one_of(words[next], {"-u", "-O", "-B", "-s"})) ++next;
    if (next == words.size() || words[next] == "-c") continue;
    if (words[next] == "-m" &&
        (next + 1 == words.size() || is_one_of(words[next + 1], {"pip", "venv", "ensurepip"})))
      continue;
    return i;
  }
  return words.size();
}

/// The words of one launcher, from left to right.
class launcher_words {
 public:
  launcher_words(const shell_command& command, std::size_t from, read_launch& to)
      : words_(command.words), environment_(command.environment), at_(from), to_(to) {}

  void read() {
    const std::string_view first = last_of_path(words_[at_]);
    to_.launcher.assign(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(at_ + 1));
    ++at_;
    if (first == "torchrun") return read_torchrun();
    if (first == "accelerate") return read_accelerate();
    if (first == "deepspeed") return read_deepspeed();
    if (at_ < words_.size() && is_own_launcher(first, words_[at_])) {
      to_.read.config.nodes = said("NNODES");
      to_.read.config.gpus_per_node = said("NPROC_PER_NODE");
      take_visible();
      return program();
    }
    while (at_ < words_.size() && is_one_of(words_[at_], {"-u", "-O", "-B", "-s"})) next();
    if (at_ + 1 < words_.size() && words_[at_] == "-m") {
      next();
      const std::string& module = words_[at_];
      if (module == "torch.distributed.run" || module == "torch.distributed.launch") {
        if (module == "torch.distributed.launch")
          remark_on(remark::kind::outdated, module, "newer versions of PyTorch have torchrun");
        next();
        return read_torchrun();
      }
      const bool is_accelerate = module == "accelerate.commands.launch";
      if (is_accelerate || module == "deepspeed.launcher.runner") {
        next();
        return is_accelerate ? read_accelerate() : read_deepspeed();
      }
    }
    program();
  }

 private:
  void next() { to_.launcher.push_back(words_[at_++]); }
  void remark_on(remark::kind is, const std::string& key, std::string text) {
    to_.read.remarks.push_back({is, printable(key), std::move(text)});
  }
  void program() {
    if (at_ >= words_.size()) return;
    to_.program = words_[at_];
    to_.words.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_ + 1), words_.end());
  }
  // Up to what ends in .py, or follows -m. Of the flags before it, those with a count are read.
  template <class Read>
  void read_flags(const Read& read_flag) {
    for (; at_ < words_.size(); next()) {
      const std::string& is = words_[at_];
      if (is.size() > 3 && is.compare(is.size() - 3, 3, ".py") == 0) break;
      if (at_ > 0 && is_one_of(words_[at_ - 1], {"-m", "--module"})) break;
      if (is.size() < 3 || is[0] != '-') continue;
      const std::size_t equals = is.find('=');
      std::string name = is.substr(0, equals);
      for (char& c : name)
        if (c == '-') c = '_';
      if (equals != std::string::npos)
        read_flag(name, is.substr(0, equals), is.substr(equals + 1));
      else if (at_ + 1 < words_.size() && words_[at_ + 1][0] != '-')
        read_flag(name, is, words_[at_ + 1]);
    }
  }
  void read_accelerate() {
    training_config& config = to_.read.config;
    read_flags([&](const std::string& name, const std::string& key, const std::string& is) {
      if (name == "__num_machines") config.nodes = count(key, is);
      if (name == "__num_processes") config.gpus = count(key, is);
    });
    if (!config.gpus) {
      take_visible();
    } else if (config.nodes && *config.gpus % *config.nodes == 0) {
      config.gpus_per_node = *config.gpus / *config.nodes;
    } else if (config.nodes) {
      remark_on(remark::kind::contradicts,
                "--num_processes",
                "is " + std::to_string(*config.gpus) + "; a multiple of --num_machines, " +
                    std::to_string(*config.nodes) + ", is taken");
      config.nodes = {};
    }
    program();
  }
  void read_deepspeed() {
    training_config& config = to_.read.config;
    bool names_nodes = false;
    read_flags([&](const std::string& name, const std::string& key, const std::string& is) {
      if (name == "__num_nodes") config.nodes = count(key, is);
      if (name == "__num_gpus") config.gpus_per_node = count(key, is);
      if (name == "__include" || name == "_i") read_included(key, is);
      names_nodes = names_nodes || name == "__hostfile" || name == "_H";
    });
    if (names_nodes && !config.nodes)
      remark_on(remark::kind::doubtful,
                "--hostfile",
                "names the nodes, and --num_nodes does not say how many of them");
    if (!names_nodes && !config.nodes) config.nodes = 1;
    take_visible();
    if (config.nodes && config.gpus_per_node) config.gpus = *config.nodes * *config.gpus_per_node;
    program();
  }
  // worker-0@worker-1:0,2: nodes, and which GPUs of each.
  void read_included(const std::string& key, std::string_view is) {
    std::int64_t nodes = 0;
    std::int64_t gpus = 0;
    bool is_even = !has_expansion(is);
    while (!is.empty() && is_even) {
      const std::size_t end = is.find('@');
      const std::string_view node = is.substr(0, end);
      const std::size_t colon = node.find(':');
      std::int64_t of_node = 0;
      if (colon != std::string_view::npos) {
        of_node = 1;
        for (const char c : node.substr(colon + 1)) of_node += c == ',' ? 1 : 0;
      }
      is_even = of_node > 0 && (nodes == 0 || of_node == gpus);
      gpus = of_node;
      ++nodes;
      is = end == std::string_view::npos ? std::string_view() : is.substr(end + 1);
    }
    if (is_even && nodes > 0) {
      to_.read.config.nodes = nodes;
      to_.read.config.gpus_per_node = gpus;
    } else {
      remark_on(remark::kind::doubtful,
                key,
                "does not say one number of GPUs for each node, as localhost:0,1 does");
    }
  }
  // A variable that the launcher takes where its words do not say it.
  known<std::int64_t> said(const char* variable) {
    const auto set = environment_.find(variable);
    if (set == environment_.end()) return {};
    return count(variable, set->second);
  }
  // All GPUs that it may see, where nothing else says how many.
  void take_visible() {
    training_config& config = to_.read.config;
    const auto set = environment_.find("CUDA_VISIBLE_DEVICES");
    if (config.gpus_per_node || config.gpus || set == environment_.end()) return;
    const std::string& list = set->second;
    if (list.empty() || list.find_first_not_of("0123456789,") != std::string::npos) return;
    std::int64_t devices = 1;
    for (const char c : list) devices += c == ',' ? 1 : 0;
    config.gpus_per_node = devices;
    if (!config.nodes) config.nodes = 1;
  }
  void read_torchrun() {
    training_config& config = to_.read.config;
    // What torchrun documents as its defaults: one process on one node.
    config.nodes = 1;
    config.gpus_per_node = 1;
    while (at_ < words_.size() && words_[at_].size() > 1 && words_[at_][0] == '-') {
      std::string name = words_[at_];
      std::string is;
      const std::size_t equals = name.find('=');
      const bool has_value = equals != std::string::npos;
      if (has_value) {
        is = name.substr(equals + 1);
        name.resize(equals);
      }
      const std::string key = name;
      for (char& c : name)
        if (c == '_') c = '-';
      next();
      if (is_one_of(name, {"--standalone", "--virtual-local-rank", "--no-python", "--run-path"}))
        continue;
      if (name == "-m" || name == "--module") continue;
      if (!takes_value(name)) {
        to_.read.not_understood.push_back(printable(key));
        continue;
      }
      if (!has_value) {
        if (at_ >= words_.size()) {
          remark_on(remark::kind::missing, key, "has no value");
          return;
        }
        is = words_[at_];
        next();
      }
      if (name == "--nnodes") config.nodes = count(key, is);
      if (name == "--nproc-per-node") {
        // as many as the node has
        if (is_one_of(is, {"gpu", "auto"}))
          config.gpus_per_node = known<std::int64_t>();
        else
          config.gpus_per_node = count(key, is);
      }
    }
    take_visible();
    if (config.nodes && config.gpus_per_node) config.gpus = *config.nodes * *config.gpus_per_node;
    program();
  }
  static bool takes_value(std::string_view name) {
    return is_one_of(name,
                     {"--nnodes",
                      "--nproc-per-node",
                      "--rdzv-backend",
                      "--rdzv-endpoint",
                      "--rdzv-id",
                      "--rdzv-conf",
                      "--max-restarts",
                      "--monitor-interval",
                      "--start-method",
                      "--event-log-handler",
                      "--role",
                      "--log-dir",
                      "-r",
                      "--redirects",
                      "-t",
                      "--tee",
                      "--log-line-prefix-template",
                      "--local-ranks-filter",
                      "--duplicate-stdout-filters",
                      "--duplicate-stderr-filters",
                      "--node-rank",
                      "--master-addr",
                      "--master-port",
                      "--local-addr",
                      "--logs-specs",
                      "--numa-binding",
                      "--signals-to-handle",
                      "--shutdown-timeout"});
  }
  known<std::int64_t> count(const std::string& key, const std::string& is) {
    if (has_expansion(is)) {
      remark_on(remark::kind::doubtful,
                key,
                "is " + shown(value(is)) + ", which the script does not say");
      return {};
    }
    // 2:4, from and to: where both are the same it is that many
    const std::size_t colon = is.find(':');
    const std::string least = is.substr(0, colon);
    const std::string most = colon == std::string::npos ? least : is.substr(colon + 1);
    constexpr std::size_t digits = 6;
    const bool is_number = !most.empty() && most.size() <= digits &&
                           most.find_first_not_of("0123456789") == std::string::npos &&
                           std::stoll(most) > 0;
    if (!is_number) {
      remark_on(remark::kind::contradicts,
                key,
                "is " + shown(value(is)) + "; a whole number from 1 to 999999 is taken");
      return {};
    }
    if (least != most)
      remark_on(remark::kind::doubtful, key, "is " + shown(value(is)) + "; the most is taken");
    return std::stoll(most);
  }

  const std::vector<std::string>& words_;
  const std::map<std::string, std::string>& environment_;
  std::size_t at_;
  read_launch& to_;
};

/// The training that a script starts: the last command that starts a launcher, or else Python.
[[nodiscard]] inline read_launch training_of(const shell_script& script) {
  read_launch made;
  made.read.why = script.why;
  if (!script) return made;
  // A launcher comes before Python behind other words (srun), and that before Python alone, which
  // may prepare data.
  const shell_command* last = nullptr;
  std::size_t from = 0;
  int best = 0;
  int alike = 0;
  for (const shell_command& each : script.commands) {
    const std::size_t start = start_of_training(each.words);
    if (start == each.words.size()) continue;
    bool launches = is_launcher(each.words[start]) ||
                    (start + 1 < each.words.size() &&
                     is_own_launcher(each.words[start], each.words[start + 1]));
    for (std::size_t i = start + 1; i < each.words.size() && i < start + 4; ++i)
      launches = launches || each.words[i].compare(0, 18, "torch.distributed.") == 0;
    // What is printed counts where nothing starts.
    const bool is_printed = is_one_of(each.words[0], {"echo", "printf"});
    const int rank = is_printed ? 0 : launches ? 3 : start > 0 ? 2 : 1;
    if (rank < best) continue;
    alike = rank == best ? alike + 1 : 1;
    best = rank;
    last = &each;
    from = start;
  }
  if (last == nullptr) {
    made.read.why =
        "no command of it starts torchrun, accelerate, deepspeed, trl, axolotl train, "
        "llamafactory-cli train or Python";
    return made;
  }
  launcher_words(*last, from, made).read();
  for (const shell_guess& each : last->guesses)
    made.read.remarks.push_back(
        {remark::kind::doubtful, printable(each.variable), printable(each.text)});
  if (alike > 1)
    made.read.remarks.push_back({remark::kind::doubtful,
                                 made.program,
                                 "the script starts several trainings; this is the last"});
  return made;
}

}  // namespace detail

/// The training that a script or a command line starts with torchrun, `python -m
/// torch.distributed.run`, `accelerate launch`, deepspeed, `trl`, `axolotl train` or
/// `llamafactory-cli train`, and the trainer's own words. Two numbers of nodes, "2:4", count as the
/// larger. Tested with torch 2.15.
[[nodiscard]] inline read_launch read_torchrun_words(const shell_script& script) {
  read_launch made = detail::training_of(script);
  made.read.tool = "torchrun";
  made.how.command = made.program;
  for (const std::string& word : made.words) made.how.command += " " + word;
  return made;
}
[[nodiscard]] inline read_config read_torchrun(std::string_view text) {
  return read_torchrun_words(read_shell_script(text)).read;
}

/// A script that each node runs, which starts a process for each of its GPUs. With several nodes
/// it takes HEAD_NODE, the name of the first, from its environment.
[[nodiscard]] inline written_config write_torchrun(const training_config& config,
                                                   const launch& how = {}) {
  written_config made;
  const detail::machines on = detail::machines_of(config);
  made.why = on.why.empty() ? detail::flaw_of_launch(how) : on.why;
  if (!made) return made;
  std::string text = "#!/bin/bash\n# written for torchrun of PyTorch 2.15\n";
  if (on.nodes > 1)
    text += "# runs on each of the nodes, with HEAD_NODE set to the name of the first\n";
  text += "torchrun --nnodes " + std::to_string(on.nodes) + " --nproc-per-node " +
          std::to_string(on.gpus_per_node) +
          (on.nodes > 1 ? " --rdzv-id " + how.name +
                              " --rdzv-backend c10d --rdzv-endpoint \"$HEAD_NODE:29500\""
                        : " --standalone") +
          " \\\n  " + how.command + "\n";
  made.files.push_back({"train.sh", std::move(text)});
  made.command = "bash train.sh";
  made.not_written = detail::what_trainers_say(config);
  if (how.wall_time > 0_s) made.not_written.emplace_back("wall_time");
  if (!how.gpu.empty() || !how.device.empty()) made.not_written.emplace_back("gpu");
  if (!how.image.empty()) made.not_written.emplace_back("image");
  return made;
}

}  // namespace gpuplan::io

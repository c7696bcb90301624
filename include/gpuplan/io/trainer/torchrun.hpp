#pragma once

// torchrun's command line: on how many GPUs a training starts, and which words are the trainer's.

#include <gpuplan/io/trainer/command_words.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>

#include <cstddef>
#include <cstdint>
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
/// Where in a command a launcher or Python starts; its size where neither does.
[[nodiscard]] inline std::size_t start_of_training(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_launcher(words[i])) return i;
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
  launcher_words(const std::vector<std::string>& words, std::size_t from, read_launch& to)
      : words_(words), at_(from), to_(to) {}

  void read() {
    const std::string_view first = last_of_path(words_[at_]);
    to_.launcher.assign(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(at_ + 1));
    ++at_;
    if (first == "torchrun") return read_torchrun();
    if (is_launcher(first)) return find_script();
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
      if (is_one_of(module, {"accelerate.commands.launch", "deepspeed.launcher.runner"})) {
        next();
        return find_script();
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
  // Of launchers with readers of their own: what ends in .py, or follows -m.
  void find_script() {
    for (; at_ < words_.size(); next()) {
      const std::string& is = words_[at_];
      if (is.size() > 3 && is.compare(is.size() - 3, 3, ".py") == 0) break;
      if (at_ > 0 && (words_[at_ - 1] == "-m" || words_[at_ - 1] == "--module")) break;
    }
    program();
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
    if (is.find_first_of("$`") != std::string::npos) {
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
    bool launches = is_launcher(each.words[start]);
    for (std::size_t i = start + 1; i < each.words.size() && i < start + 4; ++i)
      launches = launches || each.words[i].compare(0, 18, "torch.distributed.") == 0;
    const int rank = launches ? 3 : start > 0 ? 2 : 1;
    if (rank < best) continue;
    alike = rank == best ? alike + 1 : 1;
    best = rank;
    last = &each;
    from = start;
  }
  if (last == nullptr) {
    made.read.why = "no command of it starts torchrun, accelerate, deepspeed or Python";
    return made;
  }
  launcher_words(last->words, from, made).read();
  if (alike > 1)
    made.read.remarks.push_back({remark::kind::doubtful,
                                 made.program,
                                 "the script starts several trainings; this is the last"});
  return made;
}

}  // namespace detail

/// The training that a script or a command line starts with torchrun, or with
/// `python -m torch.distributed.run`, and the trainer's own words. Two numbers of nodes, "2:4",
/// count as the larger. Tested with torch 2.15.
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
[[nodiscard]] inline bool looks_like_torchrun(std::string_view text) {
  return text.find("torchrun") != std::string_view::npos ||
         text.find("torch.distributed.run") != std::string_view::npos;
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

#pragma once

// Slurm's job scripts that start a training: which GPUs they ask for, and the trainer's words.

#include <gpuplan/io/slurm.hpp>
#include <gpuplan/io/slurm_gres.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

/// Seconds of MIN, MIN:SEC, H:MIN:SEC, D-H, D-H:MIN or D-H:MIN:SEC, as sbatch takes a time; none
/// where it is another text.
[[nodiscard]] inline known<std::int64_t> seconds_of_slurm(std::string_view text) {
  std::int64_t parts[4] = {0, 0, 0, 0};
  int count = 0;
  bool has_days = false;
  while (count < 4) {
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
      parts[count] = parts[count] * 10 + (text[digits] - '0');
      if (++digits > 7) return {};
    }
    if (digits == 0) return {};
    text.remove_prefix(digits);
    ++count;
    if (text.empty()) break;
    if (text[0] != ':' && !(text[0] == '-' && count == 1)) return {};
    has_days = has_days || text[0] == '-';
    text.remove_prefix(1);
    if (text.empty()) return {};
  }
  if (!text.empty() || (!has_days && count > 3)) return {};
  if (has_days) return ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3];
  if (count == 3) return (parts[0] * 60 + parts[1]) * 60 + parts[2];
  return parts[0] * 60 + parts[1];
}

class slurm_reader {
 public:
  explicit slurm_reader(read_launch& to) : to_(to) {}
  /// One that goes on with what another read.
  slurm_reader(read_launch& to, const slurm_reader& before)
      : to_(to),
        nodes_(before.nodes_),
        gpus_(before.gpus_),
        all_gpus_(before.all_gpus_),
        gpus_of_task_(before.gpus_of_task_),
        tasks_(before.tasks_),
        all_tasks_(before.all_tasks_) {}

  /// The options of one line or command, `--nodes=2`, `-N 2`.
  void read(const std::vector<std::string>& words) {
    for (std::size_t at = 0; at < words.size(); ++at) {
      std::string name = words[at];
      std::string is;
      const std::size_t equals = name.find('=');
      if (name.size() < 2 || name[0] != '-') continue;
      if (equals != std::string::npos && name[1] == '-') {
        is = name.substr(equals + 1);
        name.resize(equals);
      } else if (name[1] != '-' && name.size() > 2) {
        is = name.substr(2);
        name.resize(2);
      } else if (at + 1 < words.size() && words[at + 1][0] != '-') {
        is = words[at + 1];
      }
      option(name, is);
    }
  }
  /// What Slurm sets in the job's environment of what its lines say.
  [[nodiscard]] std::map<std::string, std::string> environment() const {
    std::map<std::string, std::string> set;
    const auto put = [&set](std::initializer_list<const char*> names,
                            const known<std::int64_t>& is) {
      for (const char* const name : names)
        if (is) set[name] = std::to_string(*is);
    };
    put({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, nodes_);
    put({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}, gpus_per_node());
    put({"SLURM_NTASKS_PER_NODE"}, tasks_);
    put({"SLURM_GPUS_PER_TASK"}, gpus_of_task_);
    put({"SLURM_NTASKS", "SLURM_NPROCS"}, all_tasks_);
    if (nodes_ && tasks_) put({"SLURM_NTASKS", "SLURM_NPROCS"}, *nodes_ * *tasks_);
    return set;
  }
  /// Joins what the job asks for with what torchrun starts on each node.
  void conclude() {
    training_config& config = to_.read.config;
    const known<std::int64_t> started = config.gpus_per_node;
    if (is_launched_ && config.nodes && nodes_ && *config.nodes != *nodes_)
      say(remark::kind::contradicts,
          "--nnodes",
          "is " + std::to_string(*config.nodes) + "; the job has " + std::to_string(*nodes_) +
              " nodes");
    if (nodes_) config.nodes = nodes_;
    if (!nodes_) nodes_ = config.nodes;
    gpus_ = gpus_per_node();
    if (!gpus_ && gpus_of_task_)
      say(remark::kind::doubtful,
          "--gpus-per-task",
          "is " + std::to_string(*gpus_of_task_) +
              "; with it --nodes and as many tasks on each of them are taken");
    if (gpus_) config.gpus_per_node = gpus_;
    if (is_launched_ && started && gpus_ && *started != *gpus_)
      say(remark::kind::contradicts,
          "--nproc-per-node",
          "is " + std::to_string(*started) + "; the job has " + std::to_string(*gpus_) +
              " GPUs a node");
    if (is_launched_ && tasks_ && *tasks_ != 1)
      say(remark::kind::contradicts,
          "--ntasks-per-node",
          "is " + std::to_string(*tasks_) + "; with torchrun 1 is taken, which starts the others");
    const known<std::int64_t> processes = config.gpus;  // of accelerate
    config.gpus = known<std::int64_t>();
    if (config.nodes && config.gpus_per_node) config.gpus = *config.nodes * *config.gpus_per_node;
    if (!config.gpus) config.gpus = processes;
    const bool is_deepspeed =
        std::any_of(to_.launcher.begin(), to_.launcher.end(), [](const std::string& word) {
          return last_of_path(word) == "deepspeed";
        });
    if (!is_launched_ && processes && config.gpus && *processes != *config.gpus)
      say(remark::kind::contradicts,
          is_deepspeed ? "--num_gpus" : "--num_processes",
          "is " + std::to_string(*processes) + "; the job has " + std::to_string(*config.gpus) +
              " GPUs");
  }
  void launched(bool is) { is_launched_ = is; }

 private:
  [[nodiscard]] known<std::int64_t> gpus_per_node() const {
    if (gpus_) return gpus_;
    if (all_gpus_ && nodes_ && *all_gpus_ % *nodes_ == 0) return *all_gpus_ / *nodes_;
    const known<std::int64_t> tasks = tasks_per_node();
    if (all_gpus_ || !gpus_of_task_ || !tasks || *gpus_of_task_ * *tasks > 999'999) return {};
    return *gpus_of_task_ * *tasks;
  }
  // One task a node, where nothing says how many.
  [[nodiscard]] known<std::int64_t> tasks_per_node() const {
    if (tasks_) return tasks_;
    if (!nodes_ || (all_tasks_ && *all_tasks_ % *nodes_ != 0)) return {};
    return all_tasks_ ? *all_tasks_ / *nodes_ : 1;
  }
  void say(remark::kind is, std::string_view key, std::string text) {
    to_.read.remarks.push_back({is, std::string(key), std::move(text)});
  }
  known<std::int64_t> count(const std::string& name, std::string_view text) {
    const value is = value_of_word(text);
    if (is.integer() != nullptr && *is.integer() >= 1 && *is.integer() <= 999'999)
      return *is.integer();
    say(remark::kind::contradicts,
        name,
        "is " + shown(value(text)) + "; a whole number from 1 to 999999 is taken");
    return {};
  }
  // TYPE:COUNT or COUNT
  void gpus(const std::string& name, std::string_view text, known<std::int64_t>& to) {
    const std::size_t colon = text.find_last_of(':');
    if (colon != std::string_view::npos) to_.how.gpu = printable(text.substr(0, colon));
    to = count(name, colon == std::string_view::npos ? text : text.substr(colon + 1));
  }
  void option(const std::string& name, const std::string& is) {
    if (is_one_of(name, {"--nodes", "-N"})) {
      nodes_ = count(name, is);
    } else if (name == "--gres") {
      const std::vector<slurm_gres> asked = gpus_in(is);
      if (asked.size() == 1 && asked[0].count >= 1) {
        if (!asked[0].type.empty()) to_.how.gpu = printable(asked[0].type);
        gpus_ = asked[0].count;
      } else if (is.find("gpu") != std::string::npos) {
        say(remark::kind::contradicts,
            name,
            "is " + shown(value(is)) + "; gpu:TYPE:COUNT is taken, of one type");
      }
    } else if (name == "--gpus-per-node") {
      gpus(name, is, gpus_);
    } else if (is_one_of(name, {"--gpus", "-G"})) {
      gpus(name, is, all_gpus_);
    } else if (name == "--gpus-per-task") {
      gpus(name, is, gpus_of_task_);
    } else if (name == "--ntasks-per-node") {
      tasks_ = count(name, is);
    } else if (is_one_of(name, {"--ntasks", "-n"})) {
      all_tasks_ = count(name, is);
    } else if (is_one_of(name, {"--time", "-t"})) {
      if (const auto seconds = seconds_of_slurm(is))
        to_.how.wall_time = static_cast<double>(*seconds) * 1_s;
      else
        say(remark::kind::contradicts, name, "is " + shown(value(is)) + "; D-HH:MM:SS is taken");
    } else if (is_one_of(name, {"--job-name", "-J"})) {
      to_.how.name = printable(is);
    }
  }

  read_launch& to_;
  known<std::int64_t> nodes_{};
  known<std::int64_t> gpus_{};
  known<std::int64_t> all_gpus_{};
  known<std::int64_t> gpus_of_task_{};
  known<std::int64_t> tasks_{};  // of a node
  known<std::int64_t> all_tasks_{};
  bool is_launched_ = false;
};

}  // namespace detail

/// What a job script says: the GPUs by its `#SBATCH` lines and srun's options, the training it
/// starts, and the trainer's words. Options that ask for other things are passed over.
[[nodiscard]] inline read_launch read_slurm_script(std::string_view text) {
  read_launch asked;
  detail::slurm_reader lines(asked);
  std::string_view left = text.size() <= most_of_settings ? text : std::string_view();
  bool asks = false;
  while (!left.empty()) {
    const std::size_t end = left.find('\n');
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    if (line.substr(0, 8) != "#SBATCH ") continue;
    asks = true;
    const shell_script words = read_shell_script("sbatch " + std::string(line.substr(8)));
    if (words && !words.commands.empty()) lines.read(words.commands[0].words);
  }
  const shell_script script = read_shell_script(text, lines.environment());
  read_launch made = read_torchrun_words(script);
  made.read.tool = "slurm";
  if (!script) return made;
  made.read.why.clear();
  made.read.remarks.insert(
      made.read.remarks.begin(), asked.read.remarks.begin(), asked.read.remarks.end());
  asked.how.command = made.how.command;
  made.how = asked.how;
  detail::slurm_reader options(made, lines);
  bool is_launched = false;
  for (const std::string& word : made.launcher)
    is_launched =
        is_launched || detail::last_of_path(word) == "torchrun" || word == "torch.distributed.run";
  options.launched(is_launched);
  if (!made.launcher.empty() && made.launcher.front() == "srun") {
    std::vector<std::string> words;
    for (const std::string& word : made.launcher) {
      if (detail::is_launcher(word) || detail::is_python(word)) break;
      words.push_back(word);
    }
    options.read(words);
  }
  if (!asks && made.program.empty())
    made.read.why = "it has no #SBATCH lines, and starts no training";
  options.conclude();
  return made;
}
[[nodiscard]] inline read_config read_slurm(std::string_view text) {
  return read_slurm_script(text).read;
}
[[nodiscard]] inline bool looks_like_slurm(std::string_view text) {
  return text.substr(0, 8) == "#SBATCH " || text.find("\n#SBATCH ") != std::string_view::npos;
}

/// A job script that starts torchrun as one task on each node, which starts a process for each GPU.
[[nodiscard]] inline written_config write_slurm(const training_config& config,
                                                const launch& how = {}) {
  written_config made;
  const detail::machines on = detail::machines_of(config);
  made.why = on.why.empty() ? detail::flaw_of_launch(how) : on.why;
  const bool has_limit = !(how.wall_time == 0_s);
  const auto limit = slurm_time(has_limit ? how.wall_time : 1_s);
  if (made && !limit) made.why = "wall_time: " + std::string(failure_text(limit.why()).c_str());
  if (made && how.gpu.find_first_of(":/@+=") != std::string::npos)
    made.why = "gpu is " + detail::shown(value(how.gpu)) + "; letters, digits and ._- are taken";
  if (!made) return made;
  const std::string gpus = std::to_string(on.gpus_per_node);
  std::string text = "#!/bin/bash\n# written for Slurm 22.05 and torchrun of PyTorch 2.15\n";
  text += "#SBATCH --job-name=" + how.name + "\n#SBATCH --nodes=" + std::to_string(on.nodes) +
          "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:" +
          (how.gpu.empty() ? "" : how.gpu + ":") + gpus + "\n";
  if (has_limit) text += "#SBATCH --time=" + *limit + "\n";
  text +=
      "\nHEAD_NODE=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "srun torchrun --nnodes " +
      std::to_string(on.nodes) + " --nproc-per-node " + gpus +
      " --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d --rdzv-endpoint \"$HEAD_NODE:29500\" "
      "\\\n  " +
      how.command + "\n";
  made.files.push_back({"train.sbatch", std::move(text)});
  made.command = "sbatch train.sbatch";
  made.not_written = detail::what_trainers_say(config);
  if (!how.image.empty()) made.not_written.emplace_back("image");
  return made;
}

}  // namespace gpuplan::io

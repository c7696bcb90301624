#include "program.hpp"

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/version.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "batch/command_line.hpp"
#include "calibrate/command_line.hpp"
#include "check/command_line.hpp"
#include "cost/command_line.hpp"
#include "fits/command_line.hpp"
#include "frameworks/command_line.hpp"
#include "gpus/command_line.hpp"
#include "guide/command_line.hpp"
#include "guides/interruption.hpp"
#include "lr/command_line.hpp"
#include "memory/command_line.hpp"
#include "model/command_line.hpp"
#include "models/command_line.hpp"
#include "plan/command_line.hpp"
#include "read_sweep/command_line.hpp"
#include "report/command_line.hpp"
#include "run/command_line.hpp"
#include "shell/command_line.hpp"
#include "time/command_line.hpp"

namespace gpuplan_program {
namespace {

constexpr command all[] = {
    {"plan",
     "The best ways to train a model on a cluster; how many GPUs, and which",
     plan_program::command},
    {"fits", "Which ways to train a model fit which GPU", fits_program::command},
    {"memory",
     "The memory of a training step: over time, by purpose, tensor by tensor",
     memory_timeline::command},
    {"time", "Where a step of one layout goes, and what its run takes", time_program::command},
    {"calibrate",
     "What a few timed steps say of your cluster, for all other commands",
     calibrate_program::command},
    {"batch",
     "Micro-batch and accumulation of a batch; other GPUs; after out of memory",
     batch_program::command},
    {"lr", "The learning rate at another batch, and its warm-up", learning_rate_program::command},
    {"cost", "Hours, money, energy, CO2 and checkpoints of a run", cost_program::command},
    {"run",
     "A whole run with its failures: days and dollars, how often to save, deadlines",
     run_program::command},
    {"model", "A model's parameters and FLOPs", describe_model::command},
    {"models", "The models of the catalogue", list_models::command},
    {"gpus",
     "The GPUs of the catalogue: listed, compared, in detail, as measured",
     list_gpus::command},
    {"frameworks",
     "The frameworks, and which of them can train a model, with what",
     list_frameworks::command},
    {"check",
     "What a trainer's own files configure: does it fit, how long, what is wrong",
     check_program::command},
    {"sweep",
     "What a batch-size sweep says, and which setting to take",
     read_sweep_program::command},
    {"report",
     "A plan as one HTML file, with pictures and every assumption",
     report_program::command},
    {"guide",
     "The strategy tables of five hand-written guides, recomputed",
     guide_program::command},
    {"completion",
     "A script that completes commands, options and names in your shell",
     shell_program::completion_command},
    {"manual", "The manual page", shell_program::manual_command},
};

std::string usage() {
  using gpuplan::io::wrap;
  const int width = std::min(guides::width_of_output(), 100);
  std::size_t longest = 0;
  for (const command& one : all) longest = std::max(longest, std::string_view(one.name).size());
  const std::string below(longest + 4, ' ');
  std::string text;
  const auto add = [&](const char* paragraph) {
    for (const std::string& line : wrap(paragraph, width)) text += line + "\n";
  };
  add("Plans the training of a model on GPUs: what fits, which batch and layout, how long, how "
      "much.");
  text += "Usage: gpuplan COMMAND [OPTIONS]\n\nCommands:\n";
  for (const command& one : all) {
    std::string before = std::string("  ") + one.name;
    before.resize(below.size(), ' ');
    for (const std::string& line : wrap(one.summary, width - static_cast<int>(below.size()))) {
      text += before + line + "\n";
      before = below;
    }
  }
  text += "\n";
  add("gpuplan COMMAND --help says what a command takes; gpuplan --version which version this is.");
  add("Exit status: 0; 1 where something could not be done, such as writing a file; 2 where the "
      "command line is wrong, or asks for what cannot be: the message says what can; 130 where "
      "Ctrl-C ended it.");
  return text;
}

int complain(const std::string& what) {
  std::fprintf(stderr, "gpuplan: %s\n", gpuplan::io::printable(what).c_str());
  return 2;
}

std::string nearest(std::string_view word) {
  const command* best = &all[0];
  for (const command& one : all)
    if (guides::distance(word, one.name) < guides::distance(word, best->name)) best = &one;
  return best->name;
}

}  // namespace

std::span<const command> commands() { return all; }

guides::program program_of(const command& one) {
  guides::program is = one.make();
  is.states_request =
      std::string_view(one.name) != "completion" && std::string_view(one.name) != "manual";
  return is;
}

int run(int argc, char** argv) {
  guides::end_on_interrupt();
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first.empty() && argc <= 1) {
    std::fputs(usage().c_str(), stderr);
    return 2;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    if (first == "help" && argc > 2) {
      std::string help = "--help";
      char* asked[] = {argv[0], argv[2], help.data(), nullptr};
      return run(3, asked);
    }
    const bool is_said = std::fputs(usage().c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    return is_said ? 0 : 1;
  }
  for (const command& one : all)
    if (first == one.name) return guides::run_program(argc - 1, argv + 1, program_of(one));
  if (first == "--version") return guides::run_program(argc, argv, all[0].make());
  return complain("there is no command " + std::string(first) + "; the nearest is " +
                  nearest(first) + ", and gpuplan --help lists all");
}

}  // namespace gpuplan_program

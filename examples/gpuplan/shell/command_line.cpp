#include "shell/command_line.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/version.hpp>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "guides/help_page.hpp"
#include "program.hpp"

namespace shell_program {
namespace {

using namespace gpuplan;

// A command with its options, as the other commands' help pages have them.
struct described {
  std::string name;
  std::string summary;
  std::string about;
  std::string examples;
  std::string usage;
  std::vector<guides::option_words> options{};
  bool takes_model = false;
  bool takes_file = false;
};

std::vector<described> all_commands() {
  std::vector<described> all;
  for (const gpuplan_program::command& one : gpuplan_program::commands()) {
    const guides::program is = one.make();
    guides::asked_output asked;
    CLI::App app;
    guides::describe(app, is, asked);
    described made{.name = one.name,
                   .summary = one.summary,
                   .about = is.about,
                   .examples = is.examples,
                   .usage = "gpuplan " + std::string(one.name) + " [options]"};
    for (const CLI::Option* const option : app.get_options()) {
      if (option->get_group().empty()) continue;  // which the help of another command shows
      guides::option_words words = guides::words_of(*option);
      if (option->nonpositional()) {
        made.options.push_back(words);
        continue;
      }
      const std::string name = option->get_name(true);
      made.usage += " " + name;
      made.takes_model = made.takes_model || name == "MODEL";
      made.takes_file = made.takes_file || name == "FILE";
    }
    all.push_back(made);
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> names_of_models() {
  std::vector<std::string> names;
  for (const catalog::published_model& model : catalog::models) names.emplace_back(model.id);
  return names;
}

// The words that the value of an option is one of; none: any, or a file.
std::vector<std::string> values_of(const guides::option_words& option) {
  std::vector<std::string> values;
  for (const std::string& name : option.names) {
    if (name == "--gpu")
      for (const gpu_spec* gpu : catalog::gpus) values.emplace_back(gpu->id);
    if (name == "--framework")
      for (const catalog::named_framework& known : catalog::frameworks)
        values.emplace_back(known.name);
  }
  return values.empty() ? option.choices : values;
}
bool takes_file(const guides::option_words& option) { return option.value == "FILE"; }

// In quotes of a shell: what is within is taken as it is.
std::string in_quotes(std::string_view text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

std::string for_bash(const std::vector<described>& all) {
  std::string names;
  for (const described& one : all) names += (names.empty() ? "" : " ") + one.name;
  std::string text =
      "# Completion of gpuplan for bash: source it, or put it where bash-completion looks.\n"
      "_gpuplan() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
      "  COMPREPLY=()\n"
      "  if (( COMP_CWORD == 1 )); then\n"
      "    COMPREPLY=($(compgen -W " +
      in_quotes(names + " --help --version") +
      " -- \"$word\"))\n    return\n  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const described& one : all) {
    text += "    " + one.name + ")\n      case $before in\n";
    std::string options;
    for (const guides::option_words& option : one.options) {
      options += (options.empty() ? "" : " ") + joined(option.names);
      const std::vector<std::string> values = values_of(option);
      if (option.value.empty() || (values.empty() && !takes_file(option))) continue;
      std::string pattern;
      for (const std::string& name : option.names) pattern += (pattern.empty() ? "" : "|") + name;
      text += "        " + pattern + ") ";
      text += values.empty() ? "COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
                             : "COMPREPLY=($(compgen -W " + in_quotes(joined(values)) +
                                   " -- \"$word\")); return ;;\n";
    }
    text += "      esac\n      words=" + in_quotes(options) + "\n";
    if (one.takes_model)
      text += "      [[ $word == -* ]] || words=" + in_quotes(joined(names_of_models())) + "\n";
    if (one.takes_file || one.takes_model)
      text += "      [[ $word == -* ]] || COMPREPLY=($(compgen -f -- \"$word\"))\n";
    text += "      ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -F _gpuplan gpuplan\n";
}

// A text within brackets of zsh's _arguments.
std::string in_brackets(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') made += '\\';
    made += c;
  }
  return made;
}

std::string for_zsh(const std::vector<described>& all) {
  std::string text =
      "#compdef gpuplan\n# Completion of gpuplan for zsh: as _gpuplan in a folder of $fpath.\n"
      "_gpuplan() {\n  local -a commands\n  commands=(\n";
  for (const described& one : all)
    text += "    " + in_quotes(one.name + ":" + in_brackets(one.summary)) + "\n";
  text +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const described& one : all) {
    text += "    " + one.name + ")\n      _arguments";
    for (const guides::option_words& option : one.options) {
      const std::vector<std::string> values = values_of(option);
      for (const std::string& name : option.names) {
        std::string spec = "*" + name + "[" + in_brackets(option.meaning) + "]";
        if (!option.value.empty())
          spec += ":value:" + (values.empty() ? std::string(takes_file(option) ? "_files" : "")
                                              : "(" + joined(values) + ")");
        text += " \\\n        " + in_quotes(spec);
      }
    }
    if (one.takes_model)
      text += " \\\n        " + in_quotes("*:model:(" + joined(names_of_models()) + ")");
    else if (one.takes_file)
      text += " \\\n        " + in_quotes("*:file:_files");
    text += "\n      ;;\n";
  }
  return text + "  esac\n}\n_gpuplan \"$@\"\n";
}

std::string for_fish(const std::vector<described>& all) {
  std::string text =
      "# Completion of gpuplan for fish: as gpuplan.fish among its completions.\n"
      "complete -c gpuplan -f\n";
  for (const described& one : all)
    text += "complete -c gpuplan -n __fish_use_subcommand -a " + one.name + " -d " +
            in_quotes(one.summary) + "\n";
  for (const described& one : all) {
    const std::string begin =
        "complete -c gpuplan -n " + in_quotes("__fish_seen_subcommand_from " + one.name);
    for (const guides::option_words& option : one.options) {
      std::string line = begin;
      for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) {
        const std::vector<std::string> values = values_of(option);
        line += takes_file(option) ? " -r -F" : " -x";
        if (!values.empty()) line += " -a " + in_quotes(joined(values));
      }
      text += line + " -d " + in_quotes(option.meaning) + "\n";
    }
    if (one.takes_model) text += begin + " -a " + in_quotes(joined(names_of_models())) + "\n";
    if (one.takes_file || one.takes_model) text += begin + " -F\n";
  }
  return text;
}

// A text in roff: what would be a command, or a minus that is a hyphen, is not.
std::string in_roff(std::string_view text) {
  std::string made;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) made += "\\&";
    if (c == '\\')
      made += "\\e";
    else if (c == '-')
      made += "\\-";
    else
      made += c;
    begins = c == '\n';
  }
  return made;
}

std::string manual(const std::vector<described>& all) {
  const std::string version = std::to_string(GPUPLAN_VERSION_MAJOR) + "." +
                              std::to_string(GPUPLAN_VERSION_MINOR) + "." +
                              std::to_string(GPUPLAN_VERSION_PATCH);
  std::string text = ".TH GPUPLAN 1 \"\" \"gpuplan " + version +
                     "\"\n.SH NAME\ngpuplan \\- plans the training of models on GPUs\n"
                     ".SH SYNOPSIS\n.B gpuplan\n.I COMMAND\n[options]\n"
                     ".SH DESCRIPTION\nWhat fits, which batch and layout, which learning rate, how "
                     "long, how much.\n.SH COMMANDS\n";
  for (const described& one : all) {
    text += ".SS " + in_roff(one.usage) + "\n.nf\n" + in_roff(one.about) + "\n.fi\n";
    for (const guides::option_words& option : one.options) {
      std::string names;
      for (const std::string& name : option.names)
        names += (names.empty() ? "" : ", ") + ("\\fB" + in_roff(name) + "\\fR");
      if (!option.value.empty()) names += " \\fI" + in_roff(option.value) + "\\fR";
      text += ".TP\n" + names + "\n" + in_roff(option.meaning) + "\n";
    }
    if (!one.examples.empty()) text += ".PP\n.nf\n" + in_roff(one.examples) + "\n.fi\n";
  }
  return text +
         ".SH EXIT STATUS\n.TP\n0\nThe answer is on standard output.\n.TP\n1\nSomething could "
         "not be done, such as writing a file, or what was insisted on does not hold.\n.TP\n2\n"
         "The command line is wrong, or asks for what cannot be; the message says what can.\n"
         ".TP\n130\nIt was interrupted.\n"
         ".SH ENVIRONMENT\n.TP\nNO_COLOR\nWhere it is set, text has no colour.\n";
}

}  // namespace

guides::program completion_command() {
  const auto shell = std::make_shared<std::string>();
  return {.name = "gpuplan completion",
          .about = "A script that completes commands, options, models and GPUs in your shell.",
          .examples =
              "Examples:\n"
              "  source <(gpuplan completion bash)\n"
              "  gpuplan completion zsh >~/.zfunc/_gpuplan\n"
              "  gpuplan completion fish >~/.config/fish/completions/gpuplan.fish",
          .add =
              [=](CLI::App& app) {
                app.add_option("shell", *shell, "bash, zsh or fish")
                    ->required()
                    ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}))
                    ->type_name("");
              },
          .make = [=](const guides::output&) -> guides::printed {
            const std::vector<described> all = all_commands();
            if (*shell == "bash") return for_bash(all);
            return *shell == "zsh" ? for_zsh(all) : for_fish(all);
          }};
}

guides::program manual_command() {
  return {.name = "gpuplan manual",
          .about = "The manual page of all commands, in roff: for man, or a package.",
          .examples = "Examples:\n  gpuplan manual | man -l -",
          .add = [](CLI::App&) {},
          .make = [](const guides::output&) -> guides::printed { return manual(all_commands()); }};
}

}  // namespace shell_program

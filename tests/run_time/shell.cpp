// The program as a whole: which command a line means, its manual, what completes it.

#include <doctest/doctest.h>

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/io/text.hpp>

#include <CLI/CLI.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gpuplan_runs.hpp"
#include "guides/help_page.hpp"
#include "setups/gpus.hpp"
#include "temporary_file.hpp"

namespace {

outcome ran_gpuplan(const std::vector<std::string>& arguments) {
  return output_of(gpuplan_program::run, arguments, "gpuplan");
}

TEST_CASE("the help lists every command, and each has a help page of its own") {
  const outcome help = ran_gpuplan({"--help"});
  CHECK(help.status == 0);
  for (const gpuplan_program::command& one : gpuplan_program::commands()) {
    CAPTURE(one.name);
    CHECK(has(help.out, "  " + std::string(one.name) + " "));
    const outcome page = ran_gpuplan({one.name, "--help"});
    CHECK(page.status == 0);
    CHECK(has(page.out, "Usage: gpuplan " + std::string(one.name)));
    CHECK(page.out == ran_gpuplan({"help", one.name}).out);
  }
}

TEST_CASE("the GPUs of the help's examples are GPUs") {
  const std::regex names("--gpu ([a-z0-9_,-]+)|\\(4090, ([a-z0-9-]+)\\)");
  int count = 0;
  for (const gpuplan_program::command& one : gpuplan_program::commands()) {
    CAPTURE(one.name);
    const std::string page = ran_gpuplan({one.name, "--help"}).out;
    for (std::sregex_iterator at(page.begin(), page.end(), names), end; at != end; ++at) {
      std::istringstream words((*at)[1].str() + (*at)[2].str());
      for (std::string word; std::getline(words, word, ','); ++count) {
        CAPTURE(word);
        CHECK_NOTHROW(static_cast<void>(setups::gpu_named(word)));
      }
    }
  }
  CHECK(count > 20);
}

TEST_CASE("help keeps to the width of a narrow terminal") {
  for (const gpuplan_program::command& one : gpuplan_program::commands()) {
    CAPTURE(one.name);
    CLI::App app;
    guides::asked_output as;
    guides::program is = one.make();
    is.examples.clear();  // commands stay on their lines
    guides::describe(app, is, as);
    const std::string wide = app.help();
    app.formatter(guides::help_page(72));
    std::istringstream lines(app.help());
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      const bool is_table = line.rfind("  ", 0) == 0 && line[2] >= '0' && line[2] <= '9';
      CHECK((is_table || gpuplan::io::display_width(line) <= 72));
    }
    // The words are the same.
    const auto words = [](const std::string& text) {
      std::istringstream from(text);
      return std::vector<std::string>(std::istream_iterator<std::string>(from), {});
    };
    CHECK(words(app.help()) == words(wide));
  }
}

TEST_CASE("a command that there is not is refused with the nearest") {
  const outcome o = ran_gpuplan({"mdoel"});
  CHECK(o.status == 2);
  CHECK(o.out.empty());
  CHECK(o.err ==
        "gpuplan: there is no command mdoel; the nearest is model, and gpuplan --help lists all\n");
  const outcome none = ran_gpuplan({});
  CHECK(none.status == 2);
  CHECK(has(none.err, "Commands:"));
}

TEST_CASE("an option that there is not is refused with the nearest") {
  CHECK(has(ran_gpuplan({"plan", "gpt2", "--bacth", "8"}).err,
            "gpuplan plan: there is no option --bacth; the nearest is --batch\n"));
  CHECK(has(ran_gpuplan({"fits", "gpt2", "--seqence-length=512"}).err,
            "there is no option --seqence-length; the nearest is --sequence-length\n"));
  CHECK(has(ran_gpuplan({"fits", "gpt2", "gpt3"}).err, "not expected: gpt3"));
}

TEST_CASE("JSON says the version, the command and what was asked") {
  const outcome o =
      ran_gpuplan({"fits", "gpt2", "--gpu", "rtx_4090", "--padding-mask", "--format", "json"});
  REQUIRE(o.status == 0);
  const auto all = nlohmann::json::parse(o.out);
  CHECK(all["gpuplan"].get<std::string>().find('.') != std::string::npos);
  CHECK(all["command"] == "gpuplan fits");
  CHECK(all["request"]["model"] == "gpt2");
  CHECK(all["request"]["gpu"] == "rtx_4090");
  CHECK(all["request"]["padding_mask"] == true);
  CHECK_FALSE(all["request"].contains("format"));
  CHECK(all["answer"].is_array());
  CHECK_FALSE(all["answer"].empty());
}

// What bash would offer for the last of these words.
std::string offered(const std::string& words, int at) {
  const outcome script = ran_gpuplan({"completion", "bash"});
  REQUIRE(script.status == 0);
  temporary_file file(script.out + "COMP_WORDS=(" + words + ")\nCOMP_CWORD=" + std::to_string(at) +
                      "\n_gpuplan\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
  std::FILE* const pipe = popen(("bash " + file.name()).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text = "\n";
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  CHECK(pclose(pipe) == 0);
  return text;
}

TEST_CASE("bash completes commands, options, models, and GPUs") {
  CHECK(offered("gpuplan fi", 1) == "\nfits\n");
  CHECK(has(offered("gpuplan plan --net", 2), "\n--network\n"));
  CHECK(has(offered("gpuplan fits mixt", 2), "\nmixtral-8x7b-v0.1\n"));
  const std::string gpus = offered("gpuplan fits gpt2 --gpu ''", 4);
  for (const gpuplan::gpu_spec* gpu : gpuplan::catalog::gpus)
    CHECK(has(gpus, "\n" + std::string(gpu->id) + "\n"));
  CHECK(has(offered("gpuplan plan --format ''", 3), "\nmarkdown\n"));
}

TEST_CASE("scripts for other shells, and the manual, have every command and option") {
  const std::string zsh = ran_gpuplan({"completion", "zsh"}).out;
  const std::string fish = ran_gpuplan({"completion", "fish"}).out;
  const std::string manual = ran_gpuplan({"manual"}).out;
  for (const gpuplan_program::command& one : gpuplan_program::commands()) {
    CAPTURE(one.name);
    CHECK(has(zsh, "    " + std::string(one.name) + ")\n"));
    CHECK(has(fish, "-a " + std::string(one.name) + " "));
    CHECK(has(manual, ".SS gpuplan " + std::string(one.name)));
  }
  CHECK(has(zsh, "'*--network["));
  CHECK(has(fish, "-l network "));
  CHECK(has(manual, "\\fB\\-\\-network\\fR"));
  CHECK(ran_gpuplan({"completion", "ksh"}).status == 2);
}

}  // namespace

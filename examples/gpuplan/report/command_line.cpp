#include "report/command_line.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/planner.hpp>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/options.hpp"
#include "report/findings.hpp"
#include "report/page.hpp"
#include "report/pictures.hpp"

namespace report_program {
namespace {

constexpr const char* about =
    "A plan as one HTML file, with all that a reader asks next: the best plan and its runners-up,\n"
    "where a step goes, memory over the step and by pipeline stage, the pipeline's schedule, "
    "hours\n"
    "against money, scaling over GPUs, the request and every assumption. It loads nothing from "
    "the\n"
    "network, is light or dark as the reader's screen is, and can be printed. Takes the options "
    "of\n"
    "gpuplan plan.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan report llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --batch 64 -o "
    "plan.html\n"
    "  gpuplan report gpt3-175b --framework megatron-te --nodes 64 --batch 1536 --tokens 3e11\n"
    "      --price 1.8 -o plan.html --svg pictures";

struct request {
  plan_program::arguments asked{};
  gpuplan::plan_goal goal = gpuplan::plan_goal::least_time;
  int plans = 5;
  std::string file;
  std::string svg_folder;
};

void make_folder(const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(name, error);
  if (error)
    throw std::runtime_error("--svg: cannot make the folder " + name + ": " + error.message());
}

std::string answer_to(const request& given, const guides::output& as) {
  const findings found = find(given.asked, given.goal, given.plans);
  const std::vector<picture> pictures = pictures_of(found);
  guides::write_file("--output", given.file, page_of(found, pictures));
  gpuplan::io::table written{.title = "Written", .columns = {{.name = "file"}, {.name = "what"}}};
  written.rows.push_back({given.file, "the report"});
  if (!given.svg_folder.empty()) make_folder(given.svg_folder);
  for (const picture& one : pictures) {
    if (given.svg_folder.empty()) break;
    const std::string name =
        (std::filesystem::path(given.svg_folder) / (one.name + ".svg")).string();
    guides::write_file("--svg", name, one.wide);
    written.rows.push_back({name, one.heading});
  }
  return guides::render(written, as);
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan report",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                app.add_option("-o,--output", asked->file, "The HTML file to write")
                    ->type_name("FILE")
                    ->required();
                app.add_option("--svg",
                               asked->svg_folder,
                               "Also write each picture by itself, into this folder")
                    ->type_name("FOLDER");
                plan_program::add_options(app, asked->asked);
                app.add_option_function<std::string>(
                       "--goal",
                       [=](const std::string& name) {
                         if (name == "money") asked->goal = gpuplan::plan_goal::least_money;
                         if (name == "memory") asked->goal = gpuplan::plan_goal::least_memory;
                       },
                       "What to have least of")
                    ->check(CLI::IsMember(std::vector<std::string>{"time", "money", "memory"}))
                    ->default_str("time");
                app.add_option("--plans", asked->plans, "Plans to list, each of another layout")
                    ->transform(guides::whole_number(1, gpuplan::plan_answer::most_plans))
                    ->type_name("N")
                    ->capture_default_str();
              },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace report_program

#include "write/writing.hpp"

#include <gpuplan/io/trainer/any_writer.hpp>
#include <gpuplan/io/trainer/planned_config.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/interruption.hpp"

namespace write_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;

struct written_format {
  const io::plan_writer* by = nullptr;
  io::written_config made{};
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

struct named_schedule {
  const char* name;
  io::rate_schedule is;
};
constexpr named_schedule schedules[] = {{"constant", io::rate_schedule::constant},
                                        {"linear", io::rate_schedule::linear},
                                        {"cosine", io::rate_schedule::cosine},
                                        {"wsd", io::rate_schedule::wsd}};

// Of a run whose steps are in `to`, where they are known.
void add_schedule(const request& asked, io::planned_run_words& to) {
  if (asked.schedule.empty()) return;
  for (const named_schedule& one : schedules)
    if (asked.schedule == one.name) to.schedule = one.is;
  if (asked.least_learning_rate >= 0) {
    if (asked.least_learning_rate > asked.learning_rate)
      throw guides::bad_request(
          "--least-learning-rate " + io::decimal(asked.least_learning_rate, io::cell::shortest) +
          ": at most --learning-rate, " + io::decimal(asked.learning_rate, io::cell::shortest) +
          ", is taken");
    if (*to.schedule == io::rate_schedule::constant)
      throw guides::bad_request("--least-learning-rate " +
                                io::decimal(asked.least_learning_rate, io::cell::shortest) +
                                ": a constant rate does not fall to it; --schedule linear, cosine "
                                "or wsd is taken");
    to.least_learning_rate = asked.least_learning_rate;
  }
  const std::int64_t warm_up = std::max<std::int64_t>(0, asked.warm_up_steps);
  if (to.steps && warm_up >= *to.steps)
    throw guides::bad_request("--warm-up-steps " + std::to_string(warm_up) + ": the run has " +
                              std::to_string(*to.steps) + " steps, fewer are taken");
  if (*to.schedule != io::rate_schedule::wsd) {
    if (asked.decay_steps > 0)
      throw guides::bad_request("--decay-steps is of --schedule wsd; " + asked.schedule +
                                " falls over all steps behind the warm-up, or not at all");
    return;
  }
  if (asked.decay_steps == 0 && !to.steps)
    throw guides::bad_request(
        "--schedule wsd: when does the rate fall? --decay-steps N says it, or --tokens or "
        "--samples the length of the run, of which a tenth is taken");
  to.decay_steps =
      asked.decay_steps > 0 ? asked.decay_steps : std::max<std::int64_t>(1, *to.steps / 10);
  if (to.steps && *to.decay_steps > *to.steps - warm_up)
    throw guides::bad_request("--decay-steps " + std::to_string(*to.decay_steps) +
                              ": behind the warm-up there are " +
                              std::to_string(*to.steps - warm_up) + " steps");
}

// A plan of fewer GPUs than a node has asks for a part of one.
io::training_config config_of(const request& asked,
                              const training_setup& setup,
                              const batch_plan& plan,
                              const cluster& on,
                              std::int64_t steps) {
  const parallelism& layout = setup.parallelism;
  const std::int64_t gpus = plan.data_parallel * layout.tensor_parallel * layout.pipeline_parallel *
                            layout.context_parallel;
  io::planned_run_words run{.model = asked.model.empty() ? io::model_placeholder : asked.model,
                            .nodes = 1,
                            .gpus_per_node = gpus};
  if (gpus > on.gpus_per_node && gpus % on.gpus_per_node == 0) {
    run.nodes = gpus / on.gpus_per_node;
    run.gpus_per_node = on.gpus_per_node;
  }
  if (asked.learning_rate > 0) run.learning_rate = asked.learning_rate;
  if (asked.warm_up_steps >= 0) run.warm_up_steps = static_cast<double>(asked.warm_up_steps);
  if (steps > 0) run.steps = steps;
  add_schedule(asked, run);
  run.never_clips = asked.never_clips;
  return io::planned_config(setup, plan, run);
}

io::launch launch_of(const request& asked, const cluster& on) {
  io::launch how{.gpu = asked.gpu_type, .device = on.gpu.id};
  if (!asked.script.empty()) how.command = asked.script;
  return how;
}

// What is written.
struct planned_words {
  io::training_config config{};
  io::launch how{};
  bool is_one_model = true;

  planned_words(const request& asked,
                const training_setup& setup,
                const batch_plan& plan,
                const cluster& on,
                std::int64_t steps)
      : config(config_of(asked, setup, plan, on, steps)),
        how(launch_of(asked, on)),
        is_one_model(setup.composite == nullptr) {}

  io::written_config by(const io::plan_writer& writer) const {
    if (is_one_model || !writer.runs_model) return writer.write(config, how);
    return {.why = "the model is made of several models, for which it has no words"};
  }
};

std::string formats_that_take(const planned_words& plan) {
  std::vector<std::string> names;
  for (const io::plan_writer& writer : io::plan_writers)
    if (plan.by(writer)) names.emplace_back(writer.name);
  return joined(names);
}

std::vector<written_format> written_by(const request& asked, const planned_words& plan) {
  std::vector<written_format> all;
  for (const io::plan_writer& writer : io::plan_writers)
    if (std::find(asked.formats.begin(), asked.formats.end(), writer.name) != asked.formats.end())
      all.push_back({&writer, plan.by(writer)});
  return all;
}

// Of what nobody says the model's name is the part that an option does.
std::string refusal_in(const std::vector<written_format>& all,
                       const request& asked,
                       const planned_words& plan) {
  for (const written_format& one : all)
    if (!one.made)
      return "--write " + std::string(one.by->name) + ": " + one.made.why +
             (asked.model.empty() && one.made.why.starts_with("which model") ? " (--hub NAME)"
                                                                             : "") +
             "; this plan is taken by " + formats_that_take(plan);
  return "";
}

std::string readme(const std::vector<written_format>& all, bool has_folders) {
  std::string text = "# A plan by gpuplan\n";
  for (const written_format& one : all) {
    const std::string name = one.by->name;
    text += "\n## " + name + "\n\n" + one.by->what + ". Start it with\n\n```sh\n" +
            (has_folders ? "cd " + name + " && " : "") + one.made.command + "\n```\n";
    if (!one.made.not_written.empty())
      text += "\nThe format has no word for: " + joined(one.made.not_written) + ".\n";
  }
  return text +
         "\nWords that begin with YOUR_ are for you to fill in: a plan does not determine them.\n";
}

}  // namespace

void take_rates(const io::training_config& said, request& to) {
  if (to.learning_rate == 0 && said.learning_rate && *said.learning_rate > 0)
    to.learning_rate = *said.learning_rate;
  if (to.warm_up_steps < 0 && said.warm_up_steps && *said.warm_up_steps >= 0 &&
      *said.warm_up_steps < 1e12 && std::trunc(*said.warm_up_steps) == *said.warm_up_steps)
    to.warm_up_steps = static_cast<std::int64_t>(*said.warm_up_steps);
  const bool ends = said.decay_steps && *said.decay_steps > 0;
  if (!to.schedule.empty() || !said.schedule || (*said.schedule == io::rate_schedule::wsd && !ends))
    return;
  for (const named_schedule& one : schedules)
    if (*said.schedule == one.is) to.schedule = one.name;
  if (*said.schedule == io::rate_schedule::wsd && to.decay_steps == 0)
    to.decay_steps = *said.decay_steps;
  if (to.least_learning_rate < 0 && said.least_learning_rate && *said.least_learning_rate >= 0 &&
      *said.least_learning_rate <= to.learning_rate &&
      *said.schedule != io::rate_schedule::constant)
    to.least_learning_rate = *said.least_learning_rate;
}

void add_options(CLI::App& app, request& to) {
  const char* const group = "Files of the best plan";
  std::vector<std::string> names;
  for (const io::plan_writer& writer : io::plan_writers) names.emplace_back(writer.name);
  app.add_option("--write", to.formats, "Write it for these tools")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(names))
      ->group(group)
      ->type_name("TOOL,...");
  app.add_option("--into", to.folder, "The folder to write to, made where it is not there")
      ->group(group)
      ->type_name("FOLDER")
      ->capture_default_str();
  app.add_option("--hub", to.model, "The model as the Hub calls it, or its folder")
      ->group(group)
      ->type_name("NAME");
  app.add_option("--script", to.script, "What launchers start, with its words")
      ->group(group)
      ->type_name("COMMAND");
  app.add_option("--gpu-type",
                 to.gpu_type,
                 "The GPU as the cluster names it, for launchers (default: any; for SkyPilot the "
                 "clouds' name)")
      ->group(group)
      ->type_name("NAME");
  CLI::Option* rate =
      app.add_option("--learning-rate", to.learning_rate, "For the files; `gpuplan lr` scales one")
          ->check(guides::positive_number())
          ->group(group)
          ->type_name("N");
  app.add_option("--warm-up-steps", to.warm_up_steps, "For the files")
      ->transform(guides::whole_number(0, std::int64_t{1} << 40))
      ->group(group)
      ->type_name("N");
  std::vector<std::string> kinds;
  for (const named_schedule& one : schedules) kinds.emplace_back(one.name);
  CLI::Option* by = app.add_option("--schedule",
                                   to.schedule,
                                   "How the rate goes on behind the warm-up, for the files: wsd "
                                   "stays, and falls in a line at the end")
                        ->check(CLI::IsMember(kinds))
                        ->group(group);
  app.add_option("--decay-steps",
                 to.decay_steps,
                 "That wsd falls at the end (default: a tenth of the run's)")
      ->transform(guides::whole_number(1, std::int64_t{1} << 40))
      ->group(group)
      ->type_name("N")
      ->needs(by);
  app.add_option("--least-learning-rate", to.least_learning_rate, "Where it ends (default: 0)")
      ->transform(guides::finite_number(0, 1e6))
      ->group(group)
      ->type_name("N")
      ->needs(by)
      ->needs(rate);
}

std::string refusal_of(const request& asked,
                       const training_setup& setup,
                       const batch_plan& plan,
                       const cluster& on) {
  request of_any_run = asked;
  of_any_run.schedule.clear();  // whose end the run's length says
  const planned_words said(of_any_run, setup, plan, on, 0);
  return refusal_in(written_by(asked, said), asked, said);
}

io::table write(const request& asked,
                const training_setup& setup,
                const batch_plan& plan,
                const cluster& on,
                std::int64_t steps) {
  const planned_words said(asked, setup, plan, on, steps);
  const std::vector<written_format> all = written_by(asked, said);
  if (const std::string why = refusal_in(all, asked, said); !why.empty())
    throw guides::bad_request(why);
  io::table table{.title = "written to " + asked.folder,
                  .columns = {{.name = "format"},
                              {.name = "files"},
                              {.name = "start with"},
                              {.name = "the format has no word for"}}};
  const bool has_folders = all.size() > 1;
  const guides::uninterrupted whole;  // all of the files, or none
  for (const written_format& one : all) {
    const std::filesystem::path folder = has_folders
                                             ? std::filesystem::path(asked.folder) / one.by->name
                                             : std::filesystem::path(asked.folder);
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed)
      throw std::runtime_error("--into: cannot make the folder " + folder.string() + ": " +
                               failed.message());
    std::vector<std::string> names;
    for (const io::written_file& file : one.made.files) {
      guides::write_file("--write", (folder / file.name).string(), file.text);
      names.push_back(has_folders ? one.by->name + ("/" + file.name) : file.name);
    }
    table.rows.push_back(
        {one.by->name, joined(names), one.made.command, joined(one.made.not_written)});
  }
  guides::write_file("--write",
                     (std::filesystem::path(asked.folder) / "README.md").string(),
                     readme(all, has_folders));
  return table;
}

}  // namespace write_program

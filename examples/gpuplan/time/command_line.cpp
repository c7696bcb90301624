#include "time/command_line.hpp"

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/explanation.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/report.hpp"
#include "runs/clusters.hpp"
#include "runs/runs.hpp"
#include "runs/stated_step.hpp"
#include "setups/options.hpp"
#include "time/explained.hpp"
#include "time/measured.hpp"
#include "time/timeline.hpp"

namespace time_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;
using plan_program::described_plan;

constexpr const char* about =
    "Where a step of one layout goes: its parts in seconds and percent, tokens per second, MFU "
    "and\n"
    "HFU, the memory of the fullest GPU, how much faster or slower other software on the same "
    "GPUs\n"
    "may be and by what, and with --tokens or --samples what the run takes.\n"
    "\n"
    "The layout is stated in full; gpuplan plan looks for the best one.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan time llama-3-8b --gpu h100-sxm --gpus 8 --zero 3 --micro-batch 2\n"
    "  gpuplan time llama-3-8b --gpu h100-sxm --gpus 8 --zero 3 --explain\n"
    "  gpuplan time llama-3-70b --framework megatron-te --gpu h100-sxm --gpus 64 --tensor-parallel "
    "4\n"
    "      --pipeline-parallel 4 --batch 512 --tokens 1e10 --price 3 --carbon 380";

struct request {
  runs::step_words step{};
  runs::run_words run{};
  bool explain = false;
  std::string trace_file;
  std::string svg_file;
  std::string measured_file;
};

// What is timed, in one line.
std::string title_of(const runs::stated_step& stated, const runs::named_cluster& on) {
  return stated.named.name + " (" + stated.named.setup.framework.name + ") on " +
         runs::in_words(on.on) + ": " + setups::in_words(stated.named.setup, stated.plan);
}

described_plan described(const runs::stated_step& of, const std::string& precision) {
  const training_setup& setup = of.named.setup;
  const training_plan plan{.gpus = of.gpus,
                           .layout = setup.parallelism,
                           .recompute = setup.recompute,
                           .batch = of.plan,
                           .step = of.parts.total(),
                           .required = of.memory.required(of.plan)};
  return of.replayed ? plan_program::describe(*of.replayed, plan, precision)
                     : plan_program::describe(of.time, plan, precision, of.stack);
}

std::string answer_to(const request& asked, const guides::output& as) {
  const auto place_of = [](const std::string& file) {
    return std::filesystem::absolute(file).lexically_normal();
  };
  if (!asked.trace_file.empty() && !asked.svg_file.empty() &&
      place_of(asked.trace_file) == place_of(asked.svg_file))
    throw guides::bad_request("--svg " + io::printable(asked.svg_file) +
                              ": --trace is written to this file; another one is taken");
  const setups::arguments& given = asked.step.setup;
  const runs::named_cluster on = runs::cluster_of(asked.step.clusters, runs::defaults_of(given));
  const runs::stated_step stated = runs::step_of(asked.step, on);
  const training_setup& setup = stated.named.setup;
  if (asked.explain && stated.replayed)
    throw guides::bad_request("--explain: " + stated.named.name +
                              " is made of several models, whose steps are replayed; --trace and "
                              "--svg show each operator");
  described_plan step = described(stated, setups::precision_of(given, setup));
  const runs::run_words run = runs::run_of(asked.run, given, stated.plan.effective_batch());
  const std::int64_t samples = runs::samples_of(run, setup);
  if (samples > 0) plan_program::add_run(step, samples, on.on, on.carbon_g_per_kWh);
  if (!asked.measured_file.empty()) {
    const io::profiled_step measured = measured_in("--measured", asked.measured_file);
    const auto predicted = eager_step("--measured", stated);
    if (!predicted)
      throw guides::bad_request(
          std::string("--measured: operators are predicted of eager code alone, and not of this "
                      "step: ") +
          failure_text(predicted.why()).c_str());
    return compared(*predicted, measured, on.on.gpu, as);
  }
  std::string drawn;
  if (!asked.trace_file.empty() || !asked.svg_file.empty()) {
    const timeline over = timeline_of(asked.trace_file.empty() ? "--svg" : "--trace", stated);
    if (!asked.trace_file.empty())
      guides::write_file("--trace", asked.trace_file, chrome_trace_of(over));
    if (!asked.svg_file.empty()) guides::write_file("--svg", asked.svg_file, svg_of(over));
    drawn = "\nDrawn: " + over.clock + "; " +
            io::decimal(over.end, plan_program::digits_of(over.end, 4)) + " s.\n";
  }
  if (step.rates.mfu > 1)
    guides::remark("MFU and HFU count attention to all tokens, of which windows skip most");
  if (!traits_of(as.format).for_people) {
    io::table table;
    plan_program::add_columns(table);
    std::vector<cell> row;
    plan_program::add_cells(row, step);
    table.rows.push_back(row);
    if (asked.explain) add_explanation(table, explain_time(stated.time, stated.plan));
    return guides::render(table, as);
  }
  io::table parts = plan_program::seconds_of(step);
  parts.title = title_of(stated, on);
  std::string text =
      guides::render(parts, as) + "\n" + guides::render(plan_program::rates_of(step), as) + "\n";
  if (step.run)
    text += guides::render(plan_program::costs_of(step, runs::in_words(run)), as) + "\n";
  text += plan_program::how_sure({stated.replayed ? "" : "the step", step}, as);
  if (asked.explain) text += "\n" + explained(explain_time(stated.time, stated.plan), as);
  return text + drawn;
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan time",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                runs::add_step_options(app, asked->step);
                runs::add_batch_option(app, asked->step);
                runs::add_run_options(app, asked->run);
                app.add_option("--trace",
                               asked->trace_file,
                               "Also write a trace for Perfetto and chrome://tracing")
                    ->type_name("FILE");
                app.add_option("--svg", asked->svg_file, "Also draw a picture")->type_name("FILE");
                app.add_option("--measured",
                               asked->measured_file,
                               "Compare, instead, with a trace of PyTorch's profiler, operator by "
                               "operator")
                    ->type_name("FILE")
                    ->excludes("--trace")
                    ->excludes("--svg");
                app.add_flag("--explain",
                             asked->explain,
                             "Also what each part is made of, what bounds it, and what 10 % better "
                             "would save");
              },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace time_program

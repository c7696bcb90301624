#include <gpuplan/catalog/energy.hpp>
#include <gpuplan/io/table.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "guides/front_end.hpp"
#include "run/request.hpp"

namespace run_program {
namespace {

// A number, or the name of whose it is.
CLI::Validator pue_of_building() {
  const CLI::Validator number = guides::finite_number(1, 10);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        if (const auto* known = gpuplan::catalog::find_pue(text)) {
          text = gpuplan::io::decimal(known->pue, -1);
          return {};
        }
        return number(text);
      },
      "");
}

void add_failure_options(CLI::App& app, request& to) {
  const char* group = "Failures";
  app.add_option("--failures",
                 to.failures,
                 "How often GPUs interrupt a job: usual, none, or as counted on llama_3_405b, "
                 "opt_175b, bloom_176b, meta_rsc_1, meta_rsc_2, alibaba_a100, alibaba_h100 "
                 "(default: usual, the median of these)")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--between-failures",
                 to.between_failures,
                 "How long the whole job runs on average until something fails, instead")
      ->transform(guides::time_span(guides::time_unit::hours, 1e-3, 1e8))
      ->type_name("TIME")
      ->group(group)
      ->excludes("--failures");
  const auto add_time =
      [&](const char* name, double& time, guides::time_unit unit, const char* help) {
        app.add_option(name, time, help)
            ->transform(guides::time_span(unit, 0, 1e8))
            ->type_name("TIME")
            ->group(group);
      };
  add_time("--detection",
           to.detection,
           guides::time_unit::seconds,
           "Until a failure is noticed (default: 10m, PyTorch's time limit of a collective)");
  add_time("--restart",
           to.restart,
           guides::time_unit::seconds,
           "Then until training goes on, loading included (default: 15m; Meta's clusters took 5 to "
           "20)");
  add_time("--replacement",
           to.replacement,
           guides::time_unit::hours,
           "Until a node that failed is back, on average, where no spare one takes its place "
           "(default: 0)");
  app.add_option("--reclaimed",
                 to.reclaimed,
                 "How long a preemptible node stays on average until it is taken back, which then "
                 "counts as a failure (default: reclaimed_hours of --prices)")
      ->transform(guides::time_span(guides::time_unit::hours, 1e-2, 1e8))
      ->type_name("TIME")
      ->group(group);
  app.add_option("--replaced", to.replaced, "Percent of failures that take a node (default: 100)")
      ->transform(guides::finite_number(0, 100))
      ->type_name("PERCENT")
      ->group(group)
      ->needs("--replacement");
  app.add_option("--spares", to.spares, "Nodes that are paid and wait for failures (default: 0)")
      ->transform(guides::whole_number(0, 100'000))
      ->type_name("N")
      ->group(group)
      ->needs("--replacement");
}

void add_saving_options(CLI::App& app, request& to) {
  const std::string group = "Checkpoints";
  runs::add_checkpoint_option(app, to.timed, group);
  app.add_option("--save-every",
                 to.save_every,
                 "Steps from one to the next (default: what loses least time)")
      ->transform(guides::whole_number(1, std::int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
  app.add_option("--write-rate",
                 to.write_rate,
                 "GB/s that the file system takes of all GPUs together (default: 1.2 of each node, "
                 "as BLOOM's took)")
      ->transform(guides::finite_number(1e-3, 1e6))
      ->type_name("N")
      ->group(group);
  app.add_flag("--async",
               to.is_async,
               "Training waits only for the copy to the host, and goes on while it is written")
      ->group(group);
  app.add_option("--stall",
                 to.stall,
                 "How long one holds training up (default: as it is written, or with --async, "
                 "copied)")
      ->transform(guides::time_span(guides::time_unit::seconds, 1e-3, 1e6))
      ->type_name("TIME")
      ->group(group);
  app.add_option("--keep", to.keep, "So many are kept, the last ones (default: 2)")
      ->transform(guides::whole_number(1, std::int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
  app.add_option("--storage", to.storage, "What there is for them")
      ->transform(guides::byte_count(1, std::int64_t{1} << 60))
      ->type_name("SIZE")
      ->group(group);
}

void add_energy_options(CLI::App& app, request& to) {
  const char* group = "Energy";
  app.add_flag(
         "--energy",
         to.energy,
         "Also print what the run draws: GPUs by what their steps do, and their hosts, unless "
         "--power states both")
      ->group(group);
  app.add_option("--pue",
                 to.pue,
                 "Power usage effectiveness of the building, or whose: survey, aws, google, meta, "
                 "microsoft, jean-zay (default: 1, the computers alone)")
      ->transform(pue_of_building())
      ->type_name("N")
      ->group(group);
  app.add_option("--host-power",
                 to.host_power,
                 "Watts of a node beside its GPUs (default: of NVIDIA's systems, as training was "
                 "measured to draw)")
      ->transform(guides::finite_number(0, 1e6))
      ->type_name("WATTS")
      ->group(group);
}

void add_token_options(CLI::App& app, request& to) {
  const char* group = "Tokens";
  CLI::Option* critical =
      app.add_option("--critical-batch",
                     to.critical_batch,
                     "The batch, in samples, whose gradients are as much noise as signal: also "
                     "print what steps and samples the run's batch costs")
          ->transform(guides::finite_number(1e-3, 1e12))
          ->type_name("N")
          ->group(group);
  app.add_option("--tuned-batch",
                 to.tuned_batch,
                 "The batch at which --tokens are enough; --batch then takes more or fewer, to the "
                 "same loss")
      ->transform(guides::whole_number(1, std::int64_t{1} << 40))
      ->type_name("N")
      ->group(group)
      ->needs(critical)
      ->needs("--tokens")
      ->excludes("--phase");
  app.add_option("--unique-tokens",
                 to.unique_tokens,
                 "That the data has, which is read again where they are fewer than the run's: also "
                 "print what that is worth")
      ->transform(guides::finite_number(1, 1e18))
      ->type_name("N")
      ->group(group);
}

}  // namespace

void add_options(CLI::App& app, request& to) {
  runs::add_timed_options(app, to.timed);
  const char* group = "The run";
  runs::add_phase_options(app, to.phases, group);
  app.add_option("--off",
                 to.off,
                 "Percent that a step of --step may be off: 80 % of cases lie within "
                 "(default: 0; an estimated step has its own range)")
      ->transform(guides::finite_number(0, 1000))
      ->type_name("PERCENT")
      ->group(group)
      ->needs("--step");
  app.add_option("--deadline", to.deadline, "When it must be over")
      ->transform(guides::time_span(guides::time_unit::days, 1e-3, 1e5))
      ->type_name("TIME")
      ->group(group);
  app.add_option("--dollars", to.dollars, "It may cost so much")
      ->transform(guides::sum_of_dollars(1e-2, 1e12))
      ->type_name("N")
      ->group(group);
  app.add_option(
         "--sure",
         to.sure,
         "With what probability --deadline, --dollars and --budget are to be kept (default: "
         "90)")
      ->transform(guides::finite_number(1, 99.9))
      ->type_name("PERCENT")
      ->group(group);
  app.add_option("--time-limit",
                 to.time_limit,
                 "After which the scheduler ends a job; the next one goes on from its "
                 "last checkpoint")
      ->transform(guides::time_span(guides::time_unit::hours, 1e-2, 1e6))
      ->type_name("TIME")
      ->group(group);
  app.add_option("--queue", to.queue, "How long each job waits to start")
      ->transform(guides::time_span(guides::time_unit::hours, 0, 1e5))
      ->type_name("TIME")
      ->group(group);
  add_token_options(app, to);
  add_failure_options(app, to);
  add_saving_options(app, to);
  app.add_option(
         "--windows",
         to.windows,
         "When the GPUs are there: nights, weekends, or times as \"fri 18:00-mon 8:00\" and "
         "\"20:00-8:00\", of every day")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("WHEN,...")
      ->group(group)
      ->excludes("--time-limit");
  app.add_option("--starts", to.starts, "When it starts, with --windows (default: mon 0:00)")
      ->type_name("WHEN")
      ->group(group)
      ->needs("--windows");
  app.add_option("--budget",
                 to.budget,
                 "Instead of --tokens: as many as $1e6, 30d or 500MWh buy, and to be --sure of it")
      ->type_name("BUDGET")
      ->group(group)
      ->excludes("--tokens")
      ->excludes("--samples");
  add_energy_options(app, to);
  app.add_option("--svg", to.svg_file, "Also draw where the days go")->type_name("FILE");
}

}  // namespace run_program

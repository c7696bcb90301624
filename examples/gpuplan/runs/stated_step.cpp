#include "runs/stated_step.hpp"

#include <gpuplan/device_needs.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "guides/front_end.hpp"
#include "runs/own_cluster.hpp"
#include "setups/numbers.hpp"
#include "setups/replicas.hpp"

namespace runs {
namespace {

using namespace gpuplan;
using guides::bad_request;

template <class T>
void check(const result<T>& valid) {
  if (!valid) throw bad_request(setups::sentence_of(valid.why()), valid.why());
}

}  // namespace

void add_step_options(CLI::App& app, step_words& to) {
  setups::add_model_options(app, to.setup);
  setups::add_setup_options(app, to.setup);
  add_cluster_options(app, to.clusters);
  add_estimate_options(app, to.stragglers, to.fragmentation);
  add_timed_steps_option(app, to.own);
}

void add_batch_option(CLI::App& app, step_words& to) {
  app.add_option("--batch", to.batch, "Samples of an optimizer step, instead of --accumulation")
      ->transform(guides::whole_number(1, std::int64_t{1} << 40))
      ->type_name("N")
      ->group("Training")
      ->excludes("--accumulation");
}

void add_estimate_options(CLI::App& app,
                          double& straggler_slowdown,
                          double& fragmentation_percent) {
  app.add_option("--stragglers",
                 straggler_slowdown,
                 "How many times as long the slowest GPU's kernels take as the others', which wait "
                 "for it (default: 1)")
      ->transform(guides::finite_number(1, 1000))
      ->type_name("N");
  app.add_option("--fragmentation",
                 fragmentation_percent,
                 "Percent of the peak that the allocator cannot use (default: 15)")
      ->transform(guides::finite_number(0, 1000))
      ->type_name("N");
}

void add_timed_steps_option(CLI::App& app, std::shared_ptr<const own_cluster>& to) {
  const char* option = "--timed-steps";
  app.add_option_function<std::string>(
         option,
         [&to, option](const std::string& file) {
           to = std::make_shared<const own_cluster>(own_cluster_of(option, file));
         },
         "Go by steps that were timed on these GPUs, as gpuplan calibrate understands them")
      ->type_name("FILE");
}

cluster_defaults defaults_of(const setups::arguments& given) {
  const setups::gpu_of_job device = setups::gpu_of_files(given.files);
  return {.gpus = {device.id},
          .why_gpus = device.why,
          .total = setups::gpus_of(given),
          .gpus_per_node = setups::gpus_per_node_of(given.files.config)};
}

stated_step step_of(const step_words& given, const named_cluster& on) {
  stated_step made;
  made.gpus = total_gpus(on.on);
  const setups::arguments there = setups::on_gpus(given.setup, made.gpus, given.batch);
  made.named = setups::setup_of(there);
  made.plan = there.plan;
  cluster numbers = on.on;
  if (given.own) {
    made.stack = given.own->estimate_of(made.named.setup.framework, on);
    apply(*made.stack, made.named.setup, numbers);
  }
  made.time = {.setup = made.named.setup,
               .on = numbers,
               .efficiency = on.efficiency,
               .straggler_slowdown = given.stragglers};
  if (made.named.setup.composite != nullptr) {
    check_replay(made.named, given.own, given.stragglers);
    made.replayed = time_by_replay(made.named.setup, numbers);
    const auto parts = made.replayed->breakdown(made.plan);
    check(parts);
    made.parts = *parts;
  } else {
    check(validate(made.time));
    check(validate(made.time, made.plan));
    made.parts = made.time.breakdown(made.plan);
  }
  made.memory = {{made.named.setup, given.fragmentation / 100, nccl_channels(on.on.gpu)}};
  check(validate(made.memory));
  check(validate(made.memory, made.plan));
  return made;
}

replayed_time time_by_replay(const training_setup& setup, const cluster& on) {
  return {.setup = setup, .on = on, .kernels = kernel_shares_of(on.gpu)};
}

void check_replay(const setups::named_setup& named,
                  const std::shared_ptr<const own_cluster>& own,
                  double straggler_slowdown) {
  if (named.setup.composite == nullptr) return;
  const std::string model = "MODEL " + named.name + " is made of several models";
  if (own) throw bad_request("--timed-steps: " + model + ", of which timed steps say nothing");
  if (straggler_slowdown != 1)
    throw bad_request("--stragglers: " + model + ", whose steps are replayed on one GPU");
}

time_interval interval_of(const stated_step& of) {
  if (of.replayed) {
    const auto interval = of.replayed->interval(of.plan);
    check(interval);
    return *interval;
  }
  return of.stack ? step_interval(of.time, of.plan, *of.stack) : step_interval(of.time, of.plan);
}

}  // namespace runs

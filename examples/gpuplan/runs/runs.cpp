#include "runs/runs.hpp"

#include <gpuplan/cost.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_run.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "guides/front_end.hpp"
#include "setups/numbers.hpp"

namespace runs {
namespace {

using namespace gpuplan;
using guides::bad_request;
using setups::checked;

// Packing changes how many sequences samples are, and nothing else of a run.
void check_packing(const run_words& given, const setups::arguments& stated) {
  const io::training_config& said = stated.files.config;
  if (!given.packing && given.average_tokens == 0) return;
  if (!given.packing && !(said.packing && *said.packing))
    throw bad_request(
        "--average-tokens is of samples that fill sequences: --packing says that they do");
  const char* option = given.packing ? "--packing" : "--average-tokens";
  if (stated.setup.padding_mask)
    throw bad_request(option + std::string(" fills sequences, which then have no --padding-mask"));
  if (given.tokens > 0)
    throw bad_request(option + std::string(": --tokens are those of full sequences as it is; "
                                           "--samples are packed"));
  if (!given.is_given() && !said.samples)
    throw bad_request(option + std::string(said.steps ? ": the files' steps count sequences as it "
                                                        "is; --samples are packed"
                                                      : ": --samples says how many are packed"));
  if (given.average_tokens == 0)
    throw bad_request(
        "--packing: --average-tokens says how many tokens a sample has, of which "
        "several fill a sequence");
}

}  // namespace

void add_run_options(CLI::App& app, run_words& to) {
  const char* group = "The run";
  app.add_option("--tokens",
                 to.tokens,
                 "Its tokens, in samples of --sequence-length, or images of their patches")
      ->transform(guides::finite_number(1, 1e18))
      ->type_name("N")
      ->group(group);
  app.add_option("--samples", to.samples, "Its samples, instead of --tokens")
      ->transform(guides::whole_number(1, std::int64_t{1} << 53))
      ->type_name("N")
      ->group(group)
      ->excludes("--tokens");
  app.add_option("--epochs", to.epochs, "Times that it passes over --samples (default: 1)")
      ->transform(guides::whole_number(1, 1 << 20))
      ->type_name("N")
      ->group(group)
      ->needs("--samples");
  app.add_flag("--packing",
               to.packing,
               "Sequences are filled with several samples, of --average-tokens: no padding")
      ->group(group);
  app.add_option("--average-tokens", to.average_tokens, "Of a sample, with --packing")
      ->transform(guides::finite_number(1, 1e9))
      ->type_name("N")
      ->group(group);
}

run_words run_of(run_words given, const setups::arguments& stated, std::int64_t samples_of_step) {
  const io::training_config& said = stated.files.config;
  check_packing(given, stated);
  if (!given.is_given() && said.samples)
    given.samples = *said.samples;
  else if (!given.is_given() && said.steps)
    given.samples = checked(samples_in(*said.steps, samples_of_step));
  else if (given.samples > 0 && given.epochs == 0 && said.epochs && *said.epochs < 1)
    given.samples =
        static_cast<std::int64_t>(std::ceil(*said.epochs * static_cast<double>(given.samples)));
  else if (given.samples > 0 && given.epochs == 0 && said.epochs && *said.epochs < 1 << 20)
    given.epochs = static_cast<std::int64_t>(std::ceil(*said.epochs));
  return given;
}

std::int64_t tokens_of_sample(const training_setup& setup) {
  return setup.model.kind == model_kind::vision ? setup.model.image.tokens()
                                                : setup.sequence_length;
}

std::int64_t samples_of(const run_words& given, std::int64_t tokens_of_sample) {
  if (given.tokens > 0)
    return static_cast<std::int64_t>(
        std::ceil(given.tokens / static_cast<double>(tokens_of_sample)));
  if (given.samples == 0) return 0;
  const std::int64_t samples = checked(
      samples_seen({.samples = given.samples, .epochs = std::max<std::int64_t>(given.epochs, 1)}));
  if (!(given.average_tokens > 0)) return samples;
  const double sequences = std::ceil(static_cast<double>(samples) * given.average_tokens /
                                     static_cast<double>(tokens_of_sample));
  if (sequences > 0x1p53)
    throw bad_request("--average-tokens " + io::decimal(given.average_tokens, -1) + ": " +
                      setups::grouped(samples) + " samples fill more than 2^53 sequences");
  return static_cast<std::int64_t>(sequences);
}

std::int64_t samples_of(const run_words& given, const training_setup& setup) {
  if (given.average_tokens > 0 && setup.model.kind == model_kind::vision)
    throw bad_request("--packing: several texts fill a sequence, but no several images");
  return samples_of(given, tokens_of_sample(setup));
}

std::string in_words(const run_words& given) {
  const auto counted = [](std::int64_t count, const char* one) {
    return setups::grouped(count) + " " + one + (count == 1 ? "" : "s");
  };
  if (!(given.tokens > 0)) {
    std::string samples = counted(given.samples, "sample");
    if (given.average_tokens > 0)
      samples += " of " + io::decimal(given.average_tokens, -1) + " tokens on average, packed";
    return given.epochs <= 1 ? samples : counted(given.epochs, "epoch") + " of " + samples;
  }
  for (const auto& [unit, name] :
       {std::pair{1e12, " trillion"}, std::pair{1e9, " billion"}, std::pair{1e6, " million"}})
    if (given.tokens >= unit) return io::decimal(given.tokens / unit, -1) + name + " tokens";
  return io::decimal(given.tokens, -1) + (given.tokens == 1 ? " token" : " tokens");
}

run_costs costs_of(const named_cluster& on,
                   std::int64_t gpus,
                   std::int64_t steps,
                   range<duration> step,
                   double share) {
  run_costs run{.steps = steps};
  run.time = checked(training_time(steps, step));
  run.gpu_time = checked(gpu_time(run.time, gpus));
  if (on.on.price_per_gpu) run.cost = checked(cost(run.time, gpus, on.on.price_per_gpu->each));
  known<power> draw = on.on.power_per_gpu;
  if (!draw && on.on.gpu.tdp) draw = share * *on.on.gpu.tdp;
  if (draw) run.energy = checked(energy_used(run.time, gpus, *draw));
  if (run.energy && on.carbon_g_per_kWh) {
    const auto carbon_of = [&](energy used) {
      return checked(carbon_kg(used, *on.carbon_g_per_kWh));
    };
    run.carbon_kg = range<double>{carbon_of(run.energy->low()), carbon_of(run.energy->high())};
  }
  return run;
}

}  // namespace runs

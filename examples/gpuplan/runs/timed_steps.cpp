#include "runs/timed_steps.hpp"

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <cstddef>

#include "guides/front_end.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace runs {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;

// A weight and what the optimizer keeps of it, as one GPU would have them all. Of adapters, which
// are saved without the model beneath them, likewise.
known<bytes> checkpoint_of(const stated_step& stated) {
  const trainable& trains = stated.named.setup.trains;
  if (trains.what == training::frozen) return {};
  training_setup whole = stated.named.setup;
  setups::put_on_one_gpu(whole);
  const transformer_memory memory{whole, 0};
  if (!validate(memory) || !validate(memory, batch_plan{})) return {};
  const memory_breakdown parts = memory.breakdown({});
  if (trains.what != training::adapters) return parts.weights + parts.optimizer_states;
  const auto adapters =
      static_cast<double>(whole.composite != nullptr ? trainable_parameters(*whole.composite)
                                                     : trainable_parameters(whole.model, trains));
  return adapters * bits_per_element(trains.adapters.weights) / 8 * 1_B + parts.optimizer_states;
}

timed_run measured(const timed_words& given) {
  if (given.steps.empty())
    throw bad_request(
        "what does a step take? --step SECONDS says it, or a MODEL with its layout, from which it "
        "is estimated");
  if (given.stated.batch == 0)
    throw bad_request("--batch says how many samples a step of --step has");
  if (given.stated.clusters.gpus.empty() && given.stated.clusters.file.empty() &&
      given.stated.clusters.slurm_file.empty())
    throw bad_request("on which GPUs? --gpu NAME, --prices FILE or --slurm-nodes FILE says it");
  const bool counts_tokens = given.run.tokens > 0 || given.run.average_tokens > 0;
  if (counts_tokens && given.stated.setup.setup.sequence_length == 0)
    throw bad_request(std::string(given.run.packing ? "--packing" : "--tokens") +
                      ": --sequence-length says how many tokens a sequence has");
  const run_words run = run_of(given.run, given.stated.setup, given.stated.batch);
  const std::int64_t length = given.stated.setup.setup.sequence_length;
  const std::int64_t samples = samples_of(run, length);
  timed_run made{.what = in_words(run) + ", as measured"};
  for (const named_cluster& on :
       clusters_of(given.stated.clusters, {.total = 1, .counts_make_clusters = true}))
    made.on.push_back({.on = on,
                       .gpus = total_gpus(on.on),
                       .batch = given.stated.batch,
                       .steps = detail::ceil_div(samples, given.stated.batch),
                       .tokens = static_cast<double>(samples) * static_cast<double>(length),
                       .tokens_of_sample = length});
  if (given.steps.size() != 1 && given.steps.size() != made.on.size())
    throw bad_request("--step has " + std::to_string(given.steps.size()) +
                      " numbers, and there are " + std::to_string(made.on.size()) +
                      " kinds or numbers of GPUs: one for all is taken, or one for each");
  for (std::size_t at = 0; at < made.on.size(); ++at)
    made.on[at].step = given.steps[given.steps.size() == 1 ? 0 : at] * 1_s;
  return made;
}

timed_run estimated(const timed_words& given) {
  if (!given.steps.empty())
    throw bad_request("--step: the step of " + given.stated.setup.model.text +
                      " is estimated from its layout; leave out one of both");
  cluster_defaults otherwise = defaults_of(given.stated.setup);
  otherwise.counts_make_clusters = true;
  timed_run made;
  std::string step;  // of all clusters; of those that share it otherwise, without how
  for (const named_cluster& on : clusters_of(given.stated.clusters, otherwise)) {
    const auto stated = std::make_shared<const stated_step>(step_of(given.stated, on));
    const std::int64_t batch = stated->plan.effective_batch();
    const run_words run = run_of(given.run, given.stated.setup, batch);
    timed_step one{.on = on,
                   .gpus = stated->gpus,
                   .batch = batch,
                   .steps = detail::ceil_div(samples_of(run, stated->named.setup), batch),
                   .step = stated->parts.total(),
                   .stated = stated};
    one.tokens_of_sample = tokens_of_sample(stated->named.setup);
    one.tokens = static_cast<double>(samples_of(run, stated->named.setup)) *
                 static_cast<double>(one.tokens_of_sample);
    const bytes required = stated->memory.required(stated->plan);
    const bytes usable = usable_memory(on.on.gpu);
    one.fits = required <= usable;
    one.micro_batch = stated->plan.micro_batch;
    if (required > usable)
      one.note = "needs " + io::decimal(in(required, 1_GiB), 1) +
                 " GiB a GPU at a micro-batch of " + std::to_string(one.micro_batch) + ", has " +
                 io::decimal(in(usable, 1_GiB), 1);
    made.on.push_back(one);
    if (!made.checkpoint) made.checkpoint = checkpoint_of(*stated);
    const std::string here = setups::in_words(stated->named.setup, stated->plan);
    step = step.empty() || step == here
               ? here
               : setups::in_words(stated->named.setup, {.micro_batch = stated->plan.micro_batch});
    made.what = in_words(run) + ", " + stated->named.name + " (" +
                stated->named.setup.framework.name + "), " + step;
  }
  return made;
}

}  // namespace

void add_timed_options(CLI::App& app, timed_words& to) {
  add_step_options(app, to.stated);
  add_batch_option(app, to.stated);
  app.add_option("--step", to.steps, "What a step takes, as measured, instead of MODEL")
      ->transform(guides::time_span(guides::time_unit::seconds, 1e-6, 1e9))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("TIME,...")
      ->group("The run");
  add_run_options(app, to.run);
}

void add_checkpoint_option(CLI::App& app, timed_words& to, const std::string& group) {
  app.add_option(
         "--checkpoint",
         to.checkpoint,
         "What one takes (default: the model's weights, or its adapters, and what the optimizer "
         "keeps)")
      ->transform(guides::byte_count(1, std::int64_t{1} << 60))
      ->type_name("SIZE")
      ->group(group);
}

std::string timed_step::name() const { return on.name.empty() ? on.on.gpu.id : on.name; }

io::cell micro_batch_cell(const timed_step& one) {
  return one.micro_batch > 0 ? io::cell(one.micro_batch) : io::cell();
}
io::cell fits_cell(const timed_step& one) {
  return one.fits ? io::cell(*one.fits ? "yes" : "no") : io::cell();
}

std::string parts_of_checkpoint(const timed_words& given, const timed_step& one) {
  if (given.checkpoint > 0) return "";
  const bool adapts = one.stated && one.stated->named.setup.trains.what == training::adapters;
  return adapts ? ": adapters and what the optimizer keeps"
                : ": weights and what the optimizer keeps";
}

timed_run timed_run_of(const timed_words& given) {
  if (!run_of(given.run, given.stated.setup, 1).is_given())
    throw bad_request("how long is the run? --tokens N, or --samples N with --epochs N, says it");
  timed_run made = given.stated.setup.model.is_given() ? estimated(given) : measured(given);
  if (given.checkpoint > 0)
    made.checkpoint = bytes::from_value(static_cast<double>(given.checkpoint));
  return made;
}

}  // namespace runs

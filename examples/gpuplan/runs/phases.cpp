#include "runs/phases.hpp"

#include <gpuplan/io/characters.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/run_phases.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/quantities.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace runs {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;

// The text as the option of this name would have it.
std::string taken(const CLI::Validator& by, const std::string& key, std::string text) {
  const std::string why = by(text);
  if (!why.empty()) throw bad_request(key + "=" + io::printable(text) + ": " + why);
  return text;
}

// Of a layout and of what trains, by the options' names.
constexpr const char* layout_keys[] = {"micro-batch",
                                       "zero",
                                       "tensor-parallel",
                                       "pipeline-parallel",
                                       "pipeline-split",
                                       "context-parallel",
                                       "recompute",
                                       "recompute-layers",
                                       "train",
                                       "last-layers",
                                       "lora"};

std::string keys_of_phase() {
  std::string all = "tokens, samples, batch, sequence-length, step";
  for (const char* key : layout_keys) all += std::string(", ") + key;
  return all;
}

void set_layout(setups::arguments& to, const std::string& key, const std::string& value) {
  if (!to.model.is_given())
    throw bad_request(key + "=" + io::printable(value) +
                      ": a step that was measured has its layout; step= says what it takes");
  CLI::App app;
  setups::add_setup_options(app, to);
  try {
    app.parse(std::vector<std::string>{"--" + key + "=" + value});
  } catch (const CLI::ParseError& error) {
    throw bad_request(key + "=" + io::printable(value) + ": " + error.what());
  }
}

timed_words words_of_phase(timed_words given, const std::string& text) {
  const auto whole = [](std::int64_t most) { return guides::whole_number(1, most); };
  given.run.tokens = 0;
  given.run.samples = given.run.epochs = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "tokens")
      given.run.tokens = std::stod(taken(guides::finite_number(1, 1e18), key, value));
    else if (key == "samples")
      given.run.samples = std::stoll(taken(whole(std::int64_t{1} << 53), key, value));
    else if (key == "batch")
      given.stated.batch = std::stoll(taken(whole(std::int64_t{1} << 40), key, value));
    else if (key == "sequence-length")
      given.stated.setup.setup.sequence_length = std::stoll(taken(whole(1 << 24), key, value));
    else if (key == "step")
      given.steps = {
          std::stod(taken(guides::time_span(guides::time_unit::seconds, 1e-6, 1e9), key, value))};
    else if (std::find(std::begin(layout_keys), std::end(layout_keys), key) !=
             std::end(layout_keys))
      set_layout(given.stated.setup, key, value);
    else
      throw bad_request(io::printable(word) + ": " + keys_of_phase() + " are taken, each with =");
  }
  if (!given.run.is_given()) throw bad_request("tokens=N or samples=N says how long it is");
  return given;
}

constexpr std::int64_t most_stages = 200;

batch_ramp ramp_of(const std::string& text, std::int64_t full) {
  batch_ramp made{.full = full};
  std::size_t at = 0;
  for (const auto& [part, key] : {std::pair{&made.start, "START"},
                                  std::pair{&made.increment, "INCREMENT"},
                                  std::pair{&made.samples, "SAMPLES"}}) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const bool is_last = part == &made.samples;
    if (at > text.size() || is_last != (end == text.size()))
      throw bad_request("START:INCREMENT:SAMPLES is taken, such as 64:64:1000000");
    *part = std::stoll(
        taken(guides::whole_number(1, std::int64_t{1} << 53), key, text.substr(at, end - at)));
    at = end + 1;
  }
  if (const auto valid = validate(made); !valid)
    throw bad_request(setups::sentence_of(valid.why()), valid.why());
  if (made.stages() > most_stages)
    throw bad_request("it has " + setups::grouped(made.stages()) + " batches, of which " +
                      std::to_string(most_stages) + " at most are taken");
  return made;
}

// A ramp's batches as phases, and behind them the rest of the run with the whole batch.
std::vector<std::string> phases_of_ramp(const timed_words& given, const std::string& text) {
  if (!given.steps.empty())
    throw bad_request("a step was measured at one batch; --phase has a step= for each");
  if (given.stated.batch == 0) throw bad_request("--batch says what the batch grows to");
  const batch_ramp ramp = ramp_of(text, given.stated.batch);
  const timed_step whole = timed_run_of(given).on.front();
  const auto samples = static_cast<std::int64_t>(
      std::llround(whole.tokens / static_cast<double>(whole.tokens_of_sample)));
  std::vector<std::string> made;
  std::int64_t rest = samples;
  const auto add = [&](std::int64_t of, std::int64_t batch) {
    made.push_back("samples=" + std::to_string(of) + ",batch=" + std::to_string(batch));
  };
  for (std::int64_t at = 0; at < ramp.stages(); ++at) {
    const ramp_stage stage = stage_of(ramp, at).value_or_throw();
    if (stage.steps == 0) continue;
    rest -= stage.steps * stage.effective_batch;
    add(stage.steps * stage.effective_batch, stage.effective_batch);
  }
  if (rest < 1)
    throw bad_request("it takes more than the run's " + setups::grouped(samples) + " samples");
  add(rest, ramp.full);
  return made;
}

range<double> off_of(const timed_step& one) {
  if (!one.stated) return 1.0;
  const time_interval step = interval_of(*one.stated);
  return {step.low / step.median, step.high / step.median};
}

}  // namespace

void add_phase_options(CLI::App& app, phase_words& to, const std::string& group) {
  app.add_option("--phase",
                 to.each,
                 "A part of the run, as tokens=1e12,batch=1024: " + keys_of_phase() +
                     "; once for each, in their order, instead of --tokens")
      ->allow_extra_args(false)
      ->type_name("WORDS")
      ->group(group)
      ->excludes("--tokens")
      ->excludes("--samples");
  app.add_option("--batch-ramp",
                 to.ramp,
                 "The batch grows from START by INCREMENT to --batch in so many samples, as "
                 "Megatron-LM's --rampup-batch-size has it")
      ->type_name("START:INCREMENT:SAMPLES")
      ->group(group)
      ->excludes("--phase");
  CLI::Option* every =
      app.add_option("--evaluate-every", to.evaluate_every, "Steps from one evaluation to the next")
          ->transform(guides::whole_number(1, std::int64_t{1} << 40))
          ->type_name("N")
          ->group(group);
  CLI::Option* takes = app.add_option("--evaluation", to.evaluation, "What an evaluation takes")
                           ->transform(guides::time_span(guides::time_unit::seconds, 1e-3, 1e8))
                           ->type_name("TIME")
                           ->group(group);
  every->needs(takes);
  takes->needs(every);
}

timed_run timed_run_of(const timed_words& given, const phase_words& phases) {
  std::vector<timed_run> each;
  std::vector<std::string> words = phases.each;
  std::string at = "--phase ";
  if (!phases.ramp.empty()) {
    at = "--batch-ramp " + io::printable(phases.ramp);
    try {
      words = phases_of_ramp(given, phases.ramp);
    } catch (const bad_request& why) {
      throw bad_request(at + ": " + why.what());
    }
    at += ", ";
  }
  if (words.empty()) each.push_back(timed_run_of(given));
  timed_words of_all = given;
  if (!phases.ramp.empty()) of_all.run = {};  // whose samples are sequences
  for (const std::string& text : words) {
    try {
      each.push_back(timed_run_of(words_of_phase(of_all, text)));
    } catch (const bad_request& why) {
      throw bad_request(at + io::printable(text) + ": " + why.what());
    }
  }
  if (each.size() == 1 && phases.evaluate_every == 0) return each.front();
  timed_run made{.what = each.size() == 1 ? each.front().what
                                          : std::to_string(each.size()) + " phases, the last of " +
                                                each.back().what,
                 .checkpoint = each.front().checkpoint};
  for (std::size_t on = 0; on < each.front().on.size(); ++on) {
    std::vector<run_phase> parts;
    timed_step all = each.back().on[on];
    range<double> weighted = 0.0;
    duration longest{};
    all.tokens = 0;
    all.note.clear();
    for (const timed_run& phase : each) {
      const timed_step& one = phase.on[on];
      parts.push_back({.steps = one.steps,
                       .effective_batch = one.batch,
                       .sequence_length = std::max<std::int64_t>(1, one.tokens_of_sample),
                       .step = one.step});
      const duration time = static_cast<double>(one.steps) * one.step;
      weighted = weighted + off_of(one) * in(time, 1_s);
      all.tokens += one.tokens;
      if (all.note.empty() && !one.note.empty())
        all.note =
            (each.size() == 1 ? "" : "phase " + std::to_string(parts.size()) + " ") + one.note;
      if (one.fits && !*one.fits) all.fits = one.fits;
      if (one.micro_batch != all.micro_batch) all.micro_batch = 0;
      if (time > longest) {
        longest = time;
        all.stated = one.stated;
      }
    }
    const auto total =
        total_of(parts, {.every = phases.evaluate_every, .time = phases.evaluation * 1_s});
    if (!total) throw bad_request(setups::sentence_of(total.why()), total.why());
    // All phases are of one stack, which is faster or slower in all of them.
    all.off = weighted / in(total->training, 1_s);
    all.steps = total->steps;
    all.batch = (total->sequences + total->steps / 2) / total->steps;
    all.step = total->time() / static_cast<double>(total->steps);
    all.evaluating = total->evaluating;
    all.phases = parts;
    made.on.push_back(all);
  }
  return made;
}

}  // namespace runs

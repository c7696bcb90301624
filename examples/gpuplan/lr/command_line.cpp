#include "lr/command_line.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace learning_rate_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

constexpr const char* about =
    "The learning rate at another batch, by every rule that is for the optimizer, and its "
    "warm-up.\n"
    "\n"
    "Rules of thumb with a theory behind them; none replaces a run. For SGD: in proportion to the\n"
    "batch (Goyal et al. 2017, with a warm-up), by its square root (Krizhevsky 2014), and with\n"
    "--noise-scale levelling off at the critical batch (McCandlish et al. 2018). For Adam: by the\n"
    "square root, with the betas and epsilon that belong to it (Malladi et al. 2022). Of other\n"
    "optimizers none is derived: between a constant rate and the square root lies what to try.\n"
    "With --schedule also what the rate is on the way: from 0 up in the warm-up, and down to "
    "--least.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan lr --tuned 64:3e-4 --batch 512 --optimizer adamw\n"
    "  gpuplan lr --tuned 256:0.1 --batch 512,1024,8192 --optimizer momentum --samples 1281167\n"
    "  gpuplan lr --tuned 64:3e-4 --batch 512 --warm-up 2000 --format csv\n"
    "  gpuplan lr --tuned 1024:3e-4 --batch 1024 --warm-up 2000 --schedule wsd --steps 100k";

struct request {
  tuned_rate tuned{};
  std::vector<std::int64_t> batches{};
  setups::arguments setup{};  // of which the optimizer counts
  std::string optimizer_name = "adamw";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double noise_scale = 0;    // samples; 0: not known
  std::int64_t warm_up = 0;  // steps at the tuned batch; 0: not known
  std::int64_t samples = 0;  // of the data set; 0: not known
  std::string schedule{};    // empty: none asked for
  std::int64_t steps = 0;    // of the run
  std::int64_t decay = 0;    // steps, of wsd; 0: a tenth
  double least = 0;
  std::vector<std::int64_t> at{};  // steps; none: some of all
};

struct named_schedule {
  const char* name;
  rate_decay decay;
  bool stays;  // at its peak, until the last --decay-steps
};
constexpr named_schedule schedules[] = {{"constant", rate_decay::none, true},
                                        {"linear", rate_decay::linear, false},
                                        {"cosine", rate_decay::cosine, false},
                                        {"wsd", rate_decay::linear, true},
                                        {"wsd-sqrt", rate_decay::one_minus_sqrt, true}};

// "0.000849".
std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

bool is_adam(const optimizer& by) { return by.kind == optimizer_kind::adamw; }
bool is_sgd(const optimizer& by) {
  return by.kind == optimizer_kind::sgd || by.kind == optimizer_kind::sgd_momentum;
}

struct answer {
  std::int64_t batch = 0;
  const char* rule = "";
  known<double> learning_rate{};
  known<adam_settings> adam{};
  std::string note{};
};

// What a person does about a batch that is too far for Adam's equation.
std::string too_far(const request& asked) {
  double most = 0;
  for (const double beta : {asked.beta1, asked.beta2})
    if (beta > 0) most = std::max(most, 1 - beta);
  auto batch =
      static_cast<std::int64_t>(static_cast<double>(asked.tuned.effective_batch) / most) + 1;
  const adam_sde_rule rule{asked.beta1, asked.beta2, asked.epsilon};
  while (!rule.settings(asked.tuned, range<std::int64_t>(batch))) --batch;
  return "holds up to a batch of " + setups::grouped(batch) +
         ", where a beta reaches 0; take that one, or tune again";
}

std::vector<answer> answers_of(const request& asked) {
  std::vector<answer> rows;
  for (const std::int64_t batch : asked.batches) {
    const auto add = [&](const char* name, const auto& rule, const std::string& note) {
      answer row{.batch = batch, .rule = name, .note = note};
      const auto rate = scaled_learning_rate(asked.tuned, range<std::int64_t>(batch), rule);
      if (!rate) throw guides::bad_request(rate.why());
      row.learning_rate = rate->low();
      rows.push_back(row);
    };
    if (is_adam(asked.setup.setup.optimizer)) {
      const adam_sde_rule rule{asked.beta1, asked.beta2, asked.epsilon};
      answer row{.batch = batch, .rule = "square root, with betas and epsilon"};
      const auto settings = rule.settings(asked.tuned, range<std::int64_t>(batch));
      if (settings) {
        row.learning_rate = settings->learning_rate.low();
        row.adam = *settings;
        row.note = "Malladi et al. 2022";
      } else if (settings.why().code == errc::batch_too_far_for_adam) {
        row.note = too_far(asked);
      } else {
        throw guides::bad_request(settings.why());
      }
      rows.push_back(row);
    } else if (is_sgd(asked.setup.setup.optimizer)) {
      add("linear", linear_rule{}, "Goyal et al. 2017; with a warm-up, up to some 8,192 images");
      add("square root", square_root_rule{}, "Krizhevsky 2014, who found linear to work better");
      if (asked.noise_scale > 0)
        add("up to the noise scale",
            noise_scale_rule{range<double>(asked.noise_scale)},
            "McCandlish et al. 2018");
    } else {
      add("square root", square_root_rule{}, "not derived for this optimizer: the most to try");
    }
    add("constant",
        constant_rule{},
        is_adam(asked.setup.setup.optimizer) || is_sgd(asked.setup.setup.optimizer)
            ? "the noise of a step falls as the batch grows"
            : "the least to try");
  }
  return rows;
}

// As many steps as have the samples of the tuned warm-up.
std::int64_t warm_up_steps(const request& asked, std::int64_t batch) {
  const auto samples =
      static_cast<double>(asked.tuned.effective_batch) * static_cast<double>(asked.warm_up);
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::llround(samples / static_cast<double>(batch))));
}

// Of a rate: its warm-up, and where its steps come from.
struct warming {
  warm_up up{};
  std::string because{};
};
known<std::int64_t> steps_per_epoch(const request& asked, std::int64_t batch) {
  if (asked.samples == 0) return {};
  return std::max<std::int64_t>(1, asked.samples / batch);
}
std::vector<warming> warmings_of(const request& asked, const answer& row) {
  std::vector<warming> all;
  if (!row.learning_rate) return all;
  const range<double> to = *row.learning_rate;
  if (asked.warm_up > 0)
    all.push_back({{0.0, to, warm_up_steps(asked, row.batch)}, "as many samples as before"});
  const bool grows = *row.learning_rate > asked.tuned.learning_rate.low();
  if (is_sgd(asked.setup.setup.optimizer) && grows)
    if (const auto each = steps_per_epoch(asked, row.batch)) {
      const auto up =
          warm_up_over_epochs(asked.tuned.learning_rate, to, goyal_warm_up_epochs, *each);
      if (up) all.push_back({*up, "five epochs from the tuned rate (Goyal et al. 2017)"});
    }
  return all;
}

io::table rates(const request& asked, const std::vector<answer>& rows, bool for_people) {
  io::table table;
  const auto add = [&](const char* name, io::alignment align = io::alignment::left) {
    table.columns.push_back({.name = name, .align = align});
  };
  add("batch", io::alignment::right);
  add("rule");
  for (const char* name : {"learning_rate", "times"}) add(name, io::alignment::right);
  const bool has_adam = is_adam(asked.setup.setup.optimizer);
  if (has_adam || !for_people)
    for (const char* name : {"beta1", "beta2", "epsilon"}) add(name, io::alignment::right);
  add("note");
  const auto number = [&](double value) -> cell {
    return for_people ? cell(three_digits(value)) : cell(value);
  };
  for (const answer& row : rows) {
    std::vector<cell> cells{row.batch, row.rule};
    cells.push_back(row.learning_rate ? number(*row.learning_rate) : cell());
    cells.push_back(row.learning_rate ? number(*row.learning_rate / asked.tuned.learning_rate.low())
                                      : cell());
    if (has_adam || !for_people) {
      if (row.adam)
        cells.insert(cells.end(),
                     {cell(row.adam->beta1.low(), for_people ? 5 : cell::shortest),
                      cell(row.adam->beta2.low(), for_people ? 5 : cell::shortest),
                      number(row.adam->epsilon.low())});
      else
        cells.resize(cells.size() + 3);
    }
    cells.emplace_back(row.note);
    table.rows.push_back(cells);
  }
  return table;
}

// The rate at the first step, a quarter, half and three quarters of the way, and behind it.
io::table warm_ups(const request& asked, const std::vector<answer>& rows) {
  io::table table{.title = "warm-up: the learning rate of steps, from 0, and then " +
                           std::string(asked.schedule.empty() || asked.schedule == "constant"
                                           ? "it stays"
                                           : asked.schedule)};
  table.columns = {{.name = "batch", .align = io::alignment::right},
                   {.name = "rule"},
                   {.name = "steps", .align = io::alignment::right},
                   {.name = "first", .align = io::alignment::right},
                   {.name = "half-way", .align = io::alignment::right},
                   {.name = "after", .align = io::alignment::right},
                   {.name = "what"}};
  for (const answer& row : rows)
    for (const warming& one : warmings_of(asked, row)) {
      const auto at = [&](std::int64_t step) {
        return cell(three_digits(one.up.learning_rate(step)->low()));
      };
      table.rows.push_back({row.batch,
                            row.rule,
                            one.up.steps,
                            at(0),
                            at(one.up.steps / 2),
                            at(one.up.steps),
                            one.because});
    }
  return table;
}

const named_schedule& schedule_named(const std::string& name) {
  return *std::find_if(std::begin(schedules), std::end(schedules), [&](const named_schedule& one) {
    return name == one.name;
  });
}

// Options that would change nothing.
void check_schedule(const request& asked) {
  const named_schedule& by = schedule_named(asked.schedule);
  if (asked.decay > 0 && !(by.stays && by.decay != rate_decay::none))
    throw guides::bad_request("--decay-steps " + std::to_string(asked.decay) + ": " +
                              asked.schedule +
                              (by.stays ? " never falls" : " falls from the warm-up to the end") +
                              "; --schedule wsd and wsd-sqrt fall in so many steps");
  if (asked.least > 0 && by.decay == rate_decay::none)
    throw guides::bad_request("--least " + three_digits(asked.least) + ": " + asked.schedule +
                              " never falls; --schedule linear, cosine, wsd and wsd-sqrt do");
  for (const std::int64_t step : asked.at)
    if (step > asked.steps)
      throw guides::bad_request("--at " + std::to_string(step) + ": the run has --steps " +
                                std::to_string(asked.steps) + ", so 0 to that is taken");
}

learning_rate_schedule schedule_of(const request& asked, double peak, std::int64_t warm_up_steps) {
  const named_schedule& by = schedule_named(asked.schedule);
  if (asked.least > peak)
    throw guides::bad_request("--least " + three_digits(asked.least) +
                              ": the rate falls to it from " + three_digits(peak) +
                              ", so 0 to that is taken");
  learning_rate_schedule made{.peak = peak, .least = asked.least, .decay = by.decay};
  made.warm_up_steps = warm_up_steps;
  if (warm_up_steps >= asked.steps)
    throw guides::bad_request("--steps " + std::to_string(asked.steps) + ": the warm-up takes " +
                              std::to_string(warm_up_steps) + " of them");
  const std::int64_t rest = asked.steps - warm_up_steps;
  made.decay_steps = rest;
  if (by.stays && by.decay != rate_decay::none)
    made.decay_steps = asked.decay > 0 ? asked.decay : std::max<std::int64_t>(1, asked.steps / 10);
  if (made.decay_steps > rest)
    throw guides::bad_request("--decay-steps " + std::to_string(made.decay_steps) +
                              ": behind the warm-up there are " + std::to_string(rest));
  made.stable_steps = rest - made.decay_steps;
  return made;
}

// Where it bends, and between.
std::vector<std::int64_t> steps_to_show(const request& asked, const learning_rate_schedule& of) {
  if (!asked.at.empty()) return asked.at;
  const std::int64_t falls = of.warm_up_steps + of.stable_steps;
  std::vector<std::int64_t> steps{0, of.warm_up_steps / 2, of.warm_up_steps, falls};
  for (const std::int64_t quarter : {1, 2, 3})
    steps.push_back(falls + of.decay_steps * quarter / 4);
  steps.push_back(asked.steps - 1);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// A row for each step of each rate.
io::table scheduled(const request& asked, const std::vector<answer>& rows, bool for_people) {
  io::table table{.title = "the learning rate of steps, counted from 0, " + asked.schedule};
  table.columns = {{.name = "batch", .align = io::alignment::right},
                   {.name = "rule"},
                   {.name = "step", .align = io::alignment::right},
                   {.name = "learning_rate", .align = io::alignment::right}};
  for (const answer& row : rows) {
    if (!row.learning_rate) continue;
    const learning_rate_schedule schedule = schedule_of(
        asked, *row.learning_rate, asked.warm_up > 0 ? warm_up_steps(asked, row.batch) : 0);
    for (const std::int64_t step : steps_to_show(asked, schedule)) {
      const auto rate = schedule.learning_rate(step);
      if (!rate) throw guides::bad_request(rate.why());
      table.rows.push_back(
          {row.batch, row.rule, step, for_people ? cell(three_digits(*rate)) : cell(*rate)});
    }
  }
  return table;
}

io::table for_programs(const request& asked, const std::vector<answer>& rows) {
  io::table table = rates(asked, rows, false);
  for (const char* name : {"warm_up_steps", "warm_up_from", "warm_up_of_five_epochs_steps"})
    table.columns.push_back({.name = name});
  for (std::size_t at = 0; at < rows.size(); ++at) {
    cell steps;
    cell from;
    cell epochs;
    for (const warming& one : warmings_of(asked, rows[at])) {
      if (one.up.from.low() > 0) {
        epochs = one.up.steps;
      } else {
        steps = one.up.steps;
        from = 0.0;
      }
    }
    table.rows[at].insert(table.rows[at].end(), {steps, from, epochs});
  }
  return table;
}

std::string answer_to(const request& asked, const guides::output& as) {
  if (asked.noise_scale > 0 && !is_sgd(asked.setup.setup.optimizer))
    throw guides::bad_request(
        "--noise-scale: its rule is for sgd and momentum; for adamw the square root is taken, and "
        "other optimizers have no rule");
  const std::vector<answer> rows = answers_of(asked);
  const bool has_schedule = !asked.schedule.empty();
  if (has_schedule) check_schedule(asked);
  if (!traits_of(as.format).for_people)
    return guides::render(has_schedule ? scheduled(asked, rows, false) : for_programs(asked, rows),
                          as);
  io::table first = rates(asked, rows, true);
  first.title = "from " + three_digits(asked.tuned.learning_rate.low()) + " at " +
                setups::grouped(asked.tuned.effective_batch) + " samples a step, " +
                asked.optimizer_name;
  const io::table second = warm_ups(asked, rows);
  std::string all = guides::render(first, as);
  if (!second.rows.empty()) all += "\n" + guides::render(second, as);
  if (has_schedule) all += "\n" + guides::render(scheduled(asked, rows, true), as);
  return all;
}

// "64:3e-4".
void read_tuned(const std::string& text, tuned_rate& to) {
  const std::size_t colon = text.find(':');
  std::string batch = text.substr(0, colon);
  std::string rate = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_fine = colon != std::string::npos &&
                       guides::whole_number(1, std::int64_t{1} << 40)(batch).empty() &&
                       guides::finite_number(1e-12, 1e6)(rate).empty();
  if (!is_fine)
    throw CLI::ValidationError(
        "--tuned", text + " is no BATCH:RATE such as 64:3e-4, a batch from 1 and a rate above 0");
  to = {.learning_rate = std::stod(rate), .effective_batch = std::stoll(batch)};
}

void add_schedule_options(CLI::App& app, request& to) {
  std::vector<std::string> names;
  for (const named_schedule& one : schedules) names.emplace_back(one.name);
  CLI::Option* by = app.add_option("--schedule",
                                   to.schedule,
                                   "How the rate goes on behind the warm-up: wsd stays and then "
                                   "falls in a line, wsd-sqrt by one less the root of the way")
                        ->check(CLI::IsMember(names));
  CLI::Option* steps = app.add_option("--steps", to.steps, "Of the run, at each batch")
                           ->transform(guides::whole_number(1, std::int64_t{1} << 40))
                           ->type_name("N")
                           ->needs(by);
  by->needs(steps);
  app.add_option("--decay-steps", to.decay, "That wsd falls at the end (default: a tenth)")
      ->transform(guides::whole_number(1, std::int64_t{1} << 40))
      ->type_name("N")
      ->needs(by);
  app.add_option("--least", to.least, "The rate at the end (default: 0)")
      ->transform(guides::finite_number(0, 1e6))
      ->type_name("RATE")
      ->needs(by);
  app.add_option("--at", to.at, "Steps to know the rate of (default: where it bends)")
      ->transform(guides::whole_number(0, std::int64_t{1} << 40))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,...")
      ->needs(by);
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {
      .name = "gpuplan lr",
      .about = about,
      .examples = examples,
      .add =
          [=](CLI::App& app) {
            app.add_option_function<std::string>(
                   "--tuned",
                   [=](const std::string& text) { read_tuned(text, asked->tuned); },
                   "A batch and the learning rate that works at it")
                ->type_name("BATCH:RATE")
                ->required();
            app.add_option("--batch", asked->batches, "Samples of a step to know the rate at")
                ->transform(guides::whole_number(1, std::int64_t{1} << 40))
                ->delimiter(',')
                ->allow_extra_args(false)
                ->type_name("N,...")
                ->required();
            setups::add_optimizer_options(app, asked->setup);
            app.remove_option(app.get_option("--clip"));  // is nothing to a rate
            app.get_option("--optimizer")
                ->group(app.get_option("--tuned")->get_group())
                ->each([=](const std::string& name) { asked->optimizer_name = name; });
            const auto beta = [&](const char* name, double& value, const char* what) {
              app.add_option(name, value, what)
                  ->transform(guides::finite_number(0, 0.9999999))
                  ->type_name("N");
            };
            beta("--beta1", asked->beta1, "Adam's, at the tuned batch (default: 0.9)");
            beta("--beta2", asked->beta2, "Likewise (default: 0.999)");
            app.add_option("--epsilon", asked->epsilon, "Likewise (default: 1e-8)")
                ->transform(guides::finite_number(0, 1))
                ->type_name("N");
            app.add_option("--noise-scale",
                           asked->noise_scale,
                           "Samples at which the gradient's noise is as large as the gradient, for "
                           "SGD: the critical batch")
                ->transform(guides::finite_number(1, 1e15))
                ->type_name("N");
            app.add_option("--warm-up", asked->warm_up, "Steps of the warm-up at the tuned batch")
                ->transform(guides::whole_number(1, std::int64_t{1} << 40))
                ->type_name("N");
            add_schedule_options(app, *asked);
            app.add_option("--samples",
                           asked->samples,
                           "Of the data set, for the warm-up of SGD over five epochs")
                ->transform(guides::whole_number(1, std::int64_t{1} << 53))
                ->type_name("N");
          },
      .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace learning_rate_program

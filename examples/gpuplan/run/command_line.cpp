#include "run/command_line.hpp"

#include <gpuplan/checkpoint.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/chart/stacked_bars.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/run_phases.hpp>
#include <gpuplan/token_budget.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/report.hpp"
#include "run/choosing.hpp"
#include "run/energies.hpp"
#include "run/request.hpp"
#include "run/tokens.hpp"
#include "run/whole_run.hpp"
#include "setups/numbers.hpp"

namespace run_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;
using io::cell;

constexpr const char* about =
    "How long a whole run is, with failures, checkpoints and restarts: the days and dollars that "
    "it\n"
    "takes in 10, 50 and 90 % of cases, where the time goes, how often to save, and whether a\n"
    "deadline is met.\n"
    "\n"
    "A step's time is --step, as measured, or estimated of a MODEL with its layout, as for "
    "gpuplan\n"
    "cost. Failures strike at a constant rate and interrupt the whole job, which goes back to its\n"
    "last checkpoint. 20,000 runs are simulated, from a fixed seed: each draws how far the step "
    "is\n"
    "off, how often such GPUs fail, and when. Of several with a price, those worth choosing are "
    "said,\n"
    "and what an hour less costs.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan run --step 10s --batch 2048 --tokens 1e12 --sequence-length 4096 --gpu h100-sxm\n"
    "      --gpus 1024 --price 3 --checkpoint 980GB --failures llama_3_405b\n"
    "  gpuplan run llama-3-8b --zero 3 --batch 1024 --sequence-length 8192 --tokens 1e11\n"
    "      --gpu h100-sxm --gpus 64,128 --price 3 --async --deadline 14 --sure 95\n"
    "  gpuplan run llama-3-8b --zero 3 --gpu h100-sxm --gpus 64 --async\n"
    "      --phase tokens=1T,batch=512,sequence-length=8192\n"
    "      --phase tokens=50B,batch=128,sequence-length=32768\n"
    "  gpuplan run llama-3-8b --zero 3 --batch 512 --sequence-length 8192 --gpu h100-sxm --gpus "
    "64\n"
    "      --budget 30d --async --energy --carbon france";

struct named_part {
  const char* in_words;
  const char* column;
  duration (*time)(const run& of);
};
constexpr named_part parts_of_time[] = {
    {"training", "training_days", [](const run& of) { return of.training(); }},
    {"evaluation", "evaluation_days", [](const run& of) { return of.of.evaluating; }},
    {"checkpoints", "saving_days", [](const run& of) { return of.parts.saving; }},
    {"work done again", "lost_days", [](const run& of) { return of.parts.lost; }},
    {"failures not yet noticed",
     "detection_days",
     [](const run& of) { return of.parts.detection; }},
    {"restarts", "restart_days", [](const run& of) { return of.parts.restart; }},
    {"waits for a node", "waiting_days", [](const run& of) { return of.parts.waiting; }}};

// What jobs and windows add to them.
struct named_wait {
  const char* in_words;
  duration job_chain::*time;
};
constexpr named_wait waits_of_jobs[] = {{"waits in queues", &job_chain::queue},
                                        {"starts of jobs", &job_chain::starting},
                                        {"saves at their ends", &job_chain::lost},
                                        {"closed windows", &job_chain::closed}};

class answer {
 public:
  explicit answer(const request& asked)
      : asked_(asked), rate_(rate_of(asked)), timed_(timed_of(asked)) {
    for (const runs::timed_step& one : timed_.on)
      runs_.push_back(asked.budget.empty()
                          ? run_of(asked, rate_, timed_.checkpoint, one)
                          : run_within_budget(asked, rate_, timed_.checkpoint, one));
    if (has_limits()) judge(asked, runs_);
    const bool stay = std::any_of(
        runs_.begin(), runs_.end(), [](const run& one) { return !one.of.on.reclaimed; });
    if (asked.timed.stated.clusters.spot && stay && !(asked.reclaimed > 0))
      guides::remark(
          "--spot: no node is taken back in these runs; --reclaimed TIME says how long one stays");
    if (!asked.svg_file.empty()) guides::write_file("--svg", asked.svg_file, picture());
  }

  std::string text(const guides::output& as) const {
    if (!traits_of(as.format).for_people) return guides::render(for_programs(), as);
    std::string all =
        guides::render(for_people(), as) + "\n" + guides::render(where_time_goes(), as);
    if (const run* const one = has_limits() ? chosen(asked_, runs_) : nullptr)
      all += "\n" + guides::render(chances(asked_, rate_, timed_.checkpoint, *one), as);
    if (has_choices(runs_)) all += "\n" + guides::render(choices(asked_, runs_), as);
    if (has_phases()) all += "\n" + guides::render(phases(), as);
    if (saves()) all += "\n" + guides::render(checkpoints(), as);
    if (has_energy()) all += "\n" + guides::render(energies(asked_, runs_), as);
    if (has_models()) all += "\n" + guides::render(models(), as);
    if (asked_.critical_batch > 0) all += "\n" + guides::render(batches(asked_, runs_), as);
    if (asked_.unique_tokens > 0) all += "\n" + guides::render(unique_data(asked_, runs_), as);
    return all;
  }

 private:
  const request& asked_;
  failure_rate rate_;
  runs::timed_run timed_;
  std::vector<run> runs_{};

  // Of a budget, a step of the run, whose length is found.
  static runs::timed_run timed_of(const request& asked) {
    if (asked.budget.empty()) return runs::timed_run_of(at_own_batch(asked), asked.phases);
    if (!asked.phases.each.empty() || !asked.phases.ramp.empty())
      throw bad_request("--budget: how long phases are, they say; it is for a run of one kind");
    runs::timed_words one = asked.timed;
    one.run.samples = 1;
    runs::timed_run timed = runs::timed_run_of(one);
    const std::string length = runs::in_words(one.run);
    timed.what = "what " + io::printable(asked.budget) + " buys, " + io::decimal(asked.sure, -1) +
                 " % sure" + timed.what.substr(length.size());
    return timed;
  }

  [[nodiscard]] bool saves() const {
    for (const run& one : runs_)
      if (one.save_every > 0) return true;
    return false;
  }

  [[nodiscard]] bool has_limits() const { return asked_.deadline > 0 || asked_.dollars > 0; }
  [[nodiscard]] bool has_jobs() const {
    return asked_.windows.empty() && (asked_.time_limit > 0 || asked_.queue > 0);
  }
  [[nodiscard]] bool has_phases() const { return !runs_.front().of.phases.empty(); }
  [[nodiscard]] bool has_energy() const {
    return asked_.energy || asked_.pue > 1 || asked_.host_power >= 0 ||
           !asked_.timed.stated.clusters.carbon.empty() ||
           !asked_.timed.stated.clusters.power.empty();
  }
  // What a budget of computation is best spent on, where the model is known.
  [[nodiscard]] bool has_models() const {
    return !asked_.budget.empty() && runs_.front().of.stated && runs_.front().of.tokens > 0;
  }
  static cell figures(double value) { return {value, plan_program::digits_of(value)}; }
  static double size_of(const run& one) {
    return one.of.tokens > 0
               ? one.of.tokens
               : static_cast<double>(one.of.steps) * static_cast<double>(one.of.batch);
  }
  static std::string percent(double share) { return io::decimal(100 * share, 1); }

  [[nodiscard]] io::table for_people() const {
    io::table table{.title = timed_.what + "; " + rate_.in_words + reclaims(asked_, runs_)};
    table.columns = {{.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}};
    const auto add_number = [&](const std::string& name) {
      table.columns.push_back({.name = name, .align = io::alignment::point});
    };
    const std::string sure = io::decimal(asked_.sure, -1) + " %";
    const bool has_sure = asked_.sure != 90;
    bool has_money = false;
    bool has_notes = false;
    for (const run& one : runs_) {
      has_money = has_money || one.of.on.on.price_per_gpu;
      has_notes = has_notes || !one.note.empty();
    }
    const bool has_tokens = !asked_.budget.empty();
    if (has_tokens) add_number(runs_.front().of.tokens > 0 ? "tokens" : "samples");
    add_number("step_s");
    add_number("days 10 %");
    add_number("50 %");
    add_number("90 %");
    if (has_sure) add_number(sure);
    if (has_money) {
      add_number("usd 10 %");
      add_number("50 % ");
      add_number("90 % ");
    }
    add_number("goodput %");
    add_number("failures");
    if (has_jobs()) table.columns.push_back({.name = "jobs", .align = io::alignment::right});
    if (has_limits()) add_number(asked_.dollars > 0 ? "kept %" : "on time %");
    if (has_notes) table.columns.push_back({.name = "note"});
    for (const run& one : runs_) {
      std::vector<cell> row{one.of.name(), one.of.gpus};
      if (has_tokens) row.emplace_back(plan_program::rounded_count(size_of(one)), 0);
      row.push_back(figures(in(one.step(), 1_s)));
      for (const duration& time : {one.times.low, one.times.median, one.times.high})
        row.push_back(figures(in(time, 1_d)));
      if (has_sure) row.push_back(figures(in(one.times.sure, 1_d)));
      if (has_money)
        for (const duration& time : {one.held.low, one.held.median, one.held.high}) {
          const known<money> paid = one.cost(time);
          row.push_back(paid ? figures(in(*paid, 1_usd)) : cell());
        }
      row.emplace_back(percent(one.goodput()));
      row.push_back(figures(one.parts.failures));
      if (has_jobs()) row.emplace_back(one.jobs);
      if (has_limits()) row.emplace_back(percent(one.kept));
      if (has_notes) row.emplace_back(one.note);
      table.rows.push_back(row);
    }
    return table;
  }

  [[nodiscard]] std::string name_of(const run& one) const {
    return std::to_string(one.of.gpus) + " x " + one.of.name();
  }

  [[nodiscard]] io::table where_time_goes() const {
    io::table table{.title = "where the days go, at the middle rates"};
    if (asked_.phases.evaluate_every > 0) table.title += "; goodput is training alone";
    table.columns.push_back({.name = "what"});
    for (const run& one : runs_) {
      table.columns.push_back({.name = name_of(one), .align = io::alignment::point});
      table.columns.push_back({.name = "%", .align = io::alignment::point});
    }
    const auto add = [&](const char* name, const auto& time_of) {
      std::vector<cell> row{name};
      bool has_any = false;
      for (const run& one : runs_) {
        const double days = in(time_of(one), 1_d);
        const double all = in(one.jobs_of_parts.time(), 1_d);
        has_any = has_any || days > 0;
        row.emplace_back(days, plan_program::digits_of(all, 4));
        row.emplace_back(percent(days / all));
      }
      if (has_any) table.rows.push_back(row);
    };
    for (const named_part& part : parts_of_time) add(part.in_words, part.time);
    for (const named_wait& wait : waits_of_jobs)
      add(wait.in_words, [&](const run& of) { return of.jobs_of_parts.*wait.time; });
    add("the run", [](const run& of) { return of.jobs_of_parts.time(); });
    return table;
  }

  [[nodiscard]] io::table phases() const {
    io::table table{.title = "phases"};
    table.columns = {{.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}};
    table.columns.push_back({.name = "what"});
    for (const char* name : {"steps", "batch", "length"})
      table.columns.push_back({.name = name, .align = io::alignment::right});
    for (const char* name : {"step_s", "days"})
      table.columns.push_back({.name = name, .align = io::alignment::point});
    for (const run& one : runs_) {
      std::int64_t number = 0;
      for (const run_phase& each : one.of.phases)
        table.rows.push_back({one.of.name(),
                              one.of.gpus,
                              std::to_string(++number),
                              each.steps,
                              each.effective_batch,
                              each.sequence_length > 1 ? cell(each.sequence_length) : cell(),
                              figures(in(each.step, 1_s)),
                              figures(in(static_cast<double>(each.steps) * each.step, 1_d))});
      if (one.of.evaluating > duration{})
        table.rows.push_back({one.of.name(),
                              one.of.gpus,
                              "evaluation",
                              one.of.steps / asked_.phases.evaluate_every,
                              cell(),
                              cell(),
                              figures(asked_.phases.evaluation),
                              figures(in(one.of.evaluating, 1_d))});
    }
    return table;
  }

  // By 6 FLOP a parameter and token, as the rules were fitted.
  [[nodiscard]] io::table models() const {
    io::table table{.title = "what that computation is best spent on, for the least loss"};
    table.columns = {
        {.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}, {.name = "what"}};
    for (const char* name : {"parameters", "tokens", "tokens a parameter"})
      table.columns.push_back({.name = name, .align = io::alignment::right});
    for (const run& one : runs_) {
      const auto add = [&](const char* what, const model_and_tokens& of) {
        table.rows.push_back({one.of.name(),
                              one.of.gpus,
                              what,
                              {plan_program::rounded_count(of.parameters), 0},
                              {plan_program::rounded_count(of.tokens), 0},
                              {of.tokens / of.parameters, 1}});
      };
      const model_and_tokens own{
          static_cast<double>(parameters(one.of.stated->named.setup.model).total()), one.of.tokens};
      const flop_count computation = checked(training_flops(own));
      add("this model", own);
      add("20 tokens a parameter (Hoffmann et al. 2022)", checked(bought_by(computation)));
      add("law of Besiroglu et al. 2024", checked(besiroglu_2024.bought_by(computation)));
    }
    return table;
  }

  [[nodiscard]] std::int64_t kept(const run& one) const {
    return std::min(asked_.keep, one.checkpoints);
  }

  [[nodiscard]] io::table checkpoints() const {
    io::table table{.title = "checkpoints"};
    if (timed_.checkpoint)
      table.title += " of " +
                     setups::readable_bytes(static_cast<std::int64_t>(timed_.checkpoint->value())) +
                     runs::parts_of_checkpoint(asked_.timed, runs_.front().of);
    table.columns = {{.name = "gpu"},
                     {.name = "gpus", .align = io::alignment::right},
                     {.name = "every steps", .align = io::alignment::right}};
    for (const char* name : {"minutes", "stall_s", "write_s", "Young min", "Daly min"})
      table.columns.push_back({.name = name, .align = io::alignment::point});
    table.columns.push_back({.name = "kept", .align = io::alignment::right});
    table.columns.push_back({.name = "disk", .align = io::alignment::right});
    if (asked_.storage > 0) table.columns.push_back({.name = "note"});
    for (const run& one : runs_) {
      if (one.save_every == 0) continue;
      std::vector<cell> row{one.of.name(),
                            one.of.gpus,
                            one.save_every,
                            figures(in(one.is.interval, 1_min)),
                            figures(in(one.is.stall, 1_s)),
                            figures(in(one.is.write, 1_s))};
      const known<duration> between = one.is.mean_time_between_interruptions();
      for (const auto& rule : {save_interval_of_young, save_interval_for_failures})
        if (between && one.is.stall > duration{})
          row.push_back(figures(in(checked(rule(one.is.stall, *between)), 1_min)));
        else
          row.emplace_back();
      row.emplace_back(kept(one));
      const known<bytes> disk = disk_of(one);
      row.emplace_back(disk ? setups::readable_bytes(static_cast<std::int64_t>(disk->value()))
                            : std::string());
      if (asked_.storage > 0) row.emplace_back(storage_note(one));
      table.rows.push_back(row);
    }
    return table;
  }

  [[nodiscard]] known<bytes> disk_of(const run& one) const {
    if (!timed_.checkpoint || one.save_every == 0) return {};
    return bytes(static_cast<double>(kept(one)) * *timed_.checkpoint);
  }
  [[nodiscard]] std::string storage_note(const run& one) const {
    const known<bytes> disk = disk_of(one);
    if (!disk) throw bad_request("--storage: --checkpoint SIZE says what each takes");
    const bytes quota = bytes::from_value(static_cast<double>(asked_.storage));
    if (*disk <= quota) return "fits";
    const range<std::int64_t> fitting =
        checked(checkpoints_that_fit({.quota = quota, .checkpoint = *timed_.checkpoint}));
    return "holds " + setups::grouped(fitting.low()) + ": --keep " + std::to_string(fitting.low());
  }

  [[nodiscard]] std::string picture() const {
    io::stacked_bars chart{.title = "Where the days go",
                           .subtitle = timed_.what,
                           .counts = "days of a run, at the middle rates"};
    for (const named_part& part : parts_of_time) chart.parts.emplace_back(part.in_words);
    std::vector<named_wait> waits;
    std::copy_if(std::begin(waits_of_jobs),
                 std::end(waits_of_jobs),
                 std::back_inserter(waits),
                 [&](const named_wait& wait) {
                   return std::any_of(runs_.begin(), runs_.end(), [&](const run& one) {
                     return one.jobs_of_parts.*wait.time > duration{};
                   });
                 });
    for (const named_wait& wait : waits) chart.parts.emplace_back(wait.in_words);
    for (const run& one : runs_) {
      io::stacked_bars::bar bar{};
      bar.name = name_of(one);
      for (const named_part& part : parts_of_time) bar.values.push_back(in(part.time(one), 1_d));
      for (const named_wait& wait : waits)
        bar.values.push_back(in(one.jobs_of_parts.*wait.time, 1_d));
      chart.bars.push_back(bar);
    }
    return to_svg(chart);
  }

  [[nodiscard]] io::table for_programs() const {
    io::table table;
    for (const char* name : {"cluster",
                             "gpu",
                             "gpus",
                             "spare_nodes",
                             "batch",
                             "micro_batch",
                             "fits",
                             "step_s",
                             "steps",
                             "days_low",
                             "days",
                             "days_high",
                             "days_sure",
                             "sure_percent",
                             "usd_low",
                             "usd",
                             "usd_high",
                             "goodput",
                             "failures",
                             "jobs",
                             "queue_days",
                             "between_failures_h",
                             "on_time_share",
                             "kept_share",
                             "save_every_steps",
                             "save_every_s",
                             "checkpoint_GiB",
                             "checkpoints",
                             "disk_GiB",
                             "stall_s",
                             "write_s",
                             "tokens",
                             "draw_W",
                             "host_W",
                             "kWh_low",
                             "kWh",
                             "kWh_high",
                             "CO2_kg",
                             "of_least_steps",
                             "of_least_samples",
                             "epochs",
                             "worth_unique_tokens"})
      table.columns.push_back({.name = name});
    for (const named_part& part : parts_of_time) table.columns.push_back({.name = part.column});
    table.columns.push_back({.name = "note"});
    for (const run& one : runs_) {
      std::vector<cell> row{one.of.on.name,
                            one.of.on.on.gpu.id,
                            one.of.gpus,
                            one.is.spare_nodes,
                            one.of.batch,
                            runs::micro_batch_cell(one.of),
                            runs::fits_cell(one.of),
                            in(one.step(), 1_s),
                            one.of.steps,
                            in(one.times.low, 1_d),
                            in(one.times.median, 1_d),
                            in(one.times.high, 1_d),
                            in(one.times.sure, 1_d),
                            asked_.sure};
      for (const duration& time : {one.held.low, one.held.median, one.held.high}) {
        const known<money> paid = one.cost(time);
        row.push_back(paid ? cell{in(*paid, 1_usd)} : cell());
      }
      row.emplace_back(one.goodput());
      row.emplace_back(one.parts.failures);
      row.emplace_back(one.jobs);
      row.emplace_back(in(one.queued, 1_d));
      const known<duration> between = one.is.mean_time_between_interruptions();
      row.push_back(between ? cell{in(*between, 1_h)} : cell());
      row.push_back(asked_.deadline > 0 ? cell{one.on_time} : cell());
      row.push_back(has_limits() ? cell{one.kept} : cell());
      row.push_back(one.save_every > 0 ? cell{one.save_every} : cell());
      row.push_back(one.save_every > 0 ? cell{in(one.is.interval, 1_s)} : cell());
      row.push_back(timed_.checkpoint ? cell{in(*timed_.checkpoint, 1_GiB)} : cell());
      row.emplace_back(one.checkpoints);
      const known<bytes> disk = disk_of(one);
      row.push_back(disk ? cell{in(*disk, 1_GiB)} : cell());
      row.emplace_back(in(one.is.stall, 1_s));
      row.emplace_back(in(one.is.write, 1_s));
      row.push_back(one.of.tokens > 0 ? cell{one.of.tokens} : cell());
      row.push_back(one.draw ? cell{in(*one.draw, 1_W)} : cell());
      row.push_back(one.host ? cell{in(*one.host, 1_W)} : cell());
      for (const duration& time : {one.held.low, one.held.median, one.held.high})
        row.push_back(one.draw ? cell{in(*one.energy(time), 1_kWh)} : cell());
      row.push_back(
          one.draw && one.of.on.carbon_g_per_kWh
              ? cell{checked(carbon_kg(*one.energy(one.held.median), *one.of.on.carbon_g_per_kWh))}
              : cell());
      if (asked_.critical_batch > 0) {
        const batch_price price = price_of(asked_, one);
        row.insert(row.end(), {price.steps, price.samples});
      } else {
        row.resize(row.size() + 2);
      }
      if (asked_.unique_tokens > 0) {
        const double worth = worth_of(asked_, one);
        row.insert(row.end(), {one.of.tokens / asked_.unique_tokens, worth});
      } else {
        row.resize(row.size() + 2);
      }
      for (const named_part& part : parts_of_time) row.emplace_back(in(part.time(one), 1_d));
      row.emplace_back(one.note);
      table.rows.push_back(row);
    }
    return table;
  }
};

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan run",
          .about = about,
          .examples = examples,
          .add = [=](CLI::App& app) { add_options(app, *asked); },
          .make = [=](const guides::output& as) { return answer(*asked).text(as); }};
}

}  // namespace run_program

#include "cost/command_line.hpp"

#include <gpuplan/checkpoint.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/report.hpp"
#include "runs/clusters.hpp"
#include "runs/runs.hpp"
#include "runs/timed_steps.hpp"
#include "setups/numbers.hpp"

namespace cost_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;
using io::cell;
using setups::checked;

constexpr const char* about =
    "What a run takes: hours, GPU-hours, money, energy and CO2; of several runs which are worth\n"
    "choosing; and its checkpoints.\n"
    "\n"
    "A step's time is --step, as measured, one for each kind or number of GPUs; or, of a MODEL "
    "with\n"
    "its layout, as for gpuplan time, it is estimated, with the range that other software on the\n"
    "same GPUs may take. Energy is that of --power; else of the GPUs alone, without host "
    "and\n"
    "cooling, by what an estimated step does, and at their TDP where it was measured.\n"
    "Dominated is a run that takes longer and costs more than another.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan cost --step 2.5s --batch 512 --samples 1e6 --gpu h100-sxm --gpus 64 --price 3\n"
    "  gpuplan cost --step 10,5.2,2.9 --batch 512 --tokens 1e10 --sequence-length 4096 --gpu "
    "h100-sxm\n"
    "      --gpus 8,16,32 --price 3 --carbon 380\n"
    "  gpuplan cost llama-3-8b --zero 3 --batch 512 --tokens 1e10 --gpu a100-sxm-80gb,h100-sxm\n"
    "      --gpus 16 --price 1.8,3 --save-every 500 --storage 2TB";

struct request {
  runs::timed_words timed{};
  std::int64_t save_every = 0;  // steps
  std::int64_t storage = 0;     // bytes
  double stall = 0;             // seconds that a checkpoint holds training up
  double between_failures = 0;  // hours, of the whole job
};

struct run {
  runs::timed_step of{};
  runs::run_costs costs{};    // of its step
  range<double> by_stack{1};  // of `costs`, as factors
  std::string note{};
};

class answer {
 public:
  explicit answer(const request& asked) : asked_(asked), timed_(runs::timed_run_of(asked.timed)) {
    for (const runs::timed_step& one : timed_.on)
      runs_.push_back(
          {.of = one,
           .costs = runs::costs_of(one.on, one.gpus, one.steps, one.step, share_of_tdp(one)),
           .by_stack = by_stack(one),
           .note = one.note});
    compare();
  }

  std::string text(const guides::output& as) const {
    if (!traits_of(as.format).for_people) return guides::render(for_programs(), as);
    std::string all = guides::render(for_people(), as);
    const io::table saved = checkpoints();
    if (!saved.rows.empty()) all += "\n" + guides::render(saved, as);
    return all;
  }

 private:
  const request& asked_;
  runs::timed_run timed_;
  std::vector<run> runs_{};

  static double share_of_tdp(const runs::timed_step& one) {
    if (!one.stated) return 1;
    return checked(average_draw(one.stated->parts, h100_draws));
  }
  static range<double> by_stack(const runs::timed_step& one) {
    if (!one.stated) return 1.0;
    if (one.stated->has_interval()) {
      const time_interval ends = runs::interval_of(*one.stated);
      return {ends.low / one.step, ends.high / one.step};
    }
    const range<duration> ends = step_range(one.stated->time, one.stated->plan);
    return {ends.low() / one.step, ends.high() / one.step};
  }

  // Runs that fit, with a price.
  void compare() {
    std::vector<priced_run> priced;
    std::vector<run*> of;
    for (run& one : runs_) {
      if (!one.note.empty() || !one.costs.cost) continue;
      priced.push_back({one.of.gpus, one.costs.time.low(), one.costs.cost->low()});
      of.push_back(&one);
    }
    if (priced.size() < 2) return;
    for (std::size_t at = 0; at < priced.size(); ++at)
      of[at]->note = on_pareto_front(priced, at) ? "worth choosing" : "dominated";
    of[checked(cheapest(priced))]->note = "cheapest";
    std::string& note = of[checked(fastest(priced))]->note;
    note = note == "cheapest" ? "cheapest and fastest" : "fastest";
  }

  template <class Has>
  bool any(const Has& has) const {
    for (const run& one : runs_)
      if (has(one)) return true;
    return false;
  }
  io::table for_people() const {
    io::table table{.title = timed_.what};
    const auto add_number = [&](const char* name) {
      table.columns.push_back({.name = name, .align = io::alignment::point});
    };
    const bool has_money = any([](const run& one) { return static_cast<bool>(one.costs.cost); });
    const bool has_energy = any([](const run& one) { return static_cast<bool>(one.costs.energy); });
    const bool has_carbon =
        any([](const run& one) { return static_cast<bool>(one.costs.carbon_kg); });
    const bool has_range =
        any([](const run& one) { return one.by_stack.low() < one.by_stack.high(); });
    const bool has_interval =
        any([](const run& one) { return one.of.stated && one.of.stated->has_interval(); });
    const bool has_notes = any([](const run& one) { return !one.note.empty(); });
    table.columns = {{.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}};
    for (const char* name : {"step_s", "steps", "hours"}) add_number(name);
    if (has_range)
      table.columns.push_back(
          {.name = has_interval ? "80 % within" : "by stack", .align = io::alignment::right});
    add_number("GPU-hours");
    if (has_money) add_number("usd");
    if (has_energy) add_number("kWh");
    if (has_carbon) add_number("kg CO2");
    if (has_notes) table.columns.push_back({.name = "note"});
    const auto number = [](double value) { return cell{value, plan_program::digits_of(value)}; };
    for (const run& one : runs_) {
      const double hours = in(one.costs.time.low(), 1_h);
      std::vector<cell> row{
          one.of.name(), one.of.gpus, number(in(one.of.step, 1_s)), one.costs.steps, number(hours)};
      if (has_range)
        row.push_back(cell{range<double>{hours * one.by_stack.low(), hours * one.by_stack.high()},
                           plan_program::digits_of(hours)});
      row.push_back(number(in(one.costs.gpu_time.low(), 1_h)));
      if (has_money)
        row.push_back(one.costs.cost ? number(in(one.costs.cost->low(), 1_usd)) : cell());
      if (has_energy)
        row.push_back(one.costs.energy ? number(in(one.costs.energy->low(), 1_kWh)) : cell());
      if (has_carbon)
        row.push_back(one.costs.carbon_kg ? number(one.costs.carbon_kg->low()) : cell());
      if (has_notes) row.emplace_back(one.note);
      table.rows.push_back(row);
    }
    return table;
  }

  // How often Daly would save, in seconds.
  known<double> interval_for_failures() const {
    if (!(asked_.between_failures > 0)) return {};
    return in(
        checked(save_interval_for_failures(asked_.stall * 1_s, asked_.between_failures * 1_h)),
        1_s);
  }
  checkpoint_storage storage() const {
    return {.quota = bytes::from_value(static_cast<double>(asked_.storage)),
            .checkpoint = *timed_.checkpoint};
  }
  void check_storage() const {
    if (asked_.storage > 0 && !timed_.checkpoint)
      throw bad_request("--storage: --checkpoint SIZE says what each takes");
  }

  // What each run writes, and how often it should.
  io::table checkpoints() const {
    check_storage();
    io::table table{.title = "checkpoints"};
    if (timed_.checkpoint)
      table.title += " of " +
                     setups::readable_bytes(static_cast<std::int64_t>(timed_.checkpoint->value())) +
                     runs::parts_of_checkpoint(asked_.timed, timed_.on.front());
    table.columns = {{.name = "gpu"},
                     {.name = "gpus", .align = io::alignment::right},
                     {.name = "what"},
                     {.name = "steps", .align = io::alignment::right},
                     {.name = "checkpoints", .align = io::alignment::right},
                     {.name = "together", .align = io::alignment::right}};
    for (const run& one : runs_) {
      const auto add_row = [&](const std::string& what, std::int64_t every, std::int64_t count) {
        const std::string size = timed_.checkpoint
                                     ? setups::readable_bytes(static_cast<std::int64_t>(
                                           static_cast<double>(count) * timed_.checkpoint->value()))
                                     : "";
        table.rows.push_back({one.of.name(), one.of.gpus, what, every, count, size});
      };
      const std::int64_t steps = one.costs.steps;
      if (asked_.save_every > 0)
        add_row("every " + setups::grouped(asked_.save_every) + " steps",
                asked_.save_every,
                checked(checkpoints_saved(steps, asked_.save_every)));
      if (asked_.storage > 0) {
        const std::int64_t every = checked(save_interval_within(storage(), steps));
        add_row("as often as the storage holds", every, checked(checkpoints_saved(steps, every)));
      }
      if (const auto seconds = interval_for_failures()) {
        const auto every = std::max<std::int64_t>(1, std::llround(*seconds / in(one.of.step, 1_s)));
        add_row("least time lost to failures (Daly 2006): every " + io::decimal(*seconds / 60, 0) +
                    " min",
                every,
                checked(checkpoints_saved(steps, every)));
      }
    }
    return table;
  }

  io::table for_programs() const {
    check_storage();
    io::table table;
    for (const char* name : {"cluster",
                             "gpu",
                             "gpus",
                             "batch",
                             "micro_batch",
                             "fits",
                             "step_s",
                             "steps",
                             "hours",
                             "hours_low",
                             "hours_high",
                             "gpu_hours",
                             "usd",
                             "usd_low",
                             "usd_high",
                             "kWh",
                             "CO2_kg",
                             "checkpoint_GiB",
                             "checkpoints",
                             "save_every_within_storage_steps",
                             "save_every_for_failures_s",
                             "note"})
      table.columns.push_back({.name = name});
    for (const run& one : runs_) {
      const double hours = in(one.costs.time.low(), 1_h);
      std::vector<cell> row{one.of.on.name,
                            one.of.on.on.gpu.id,
                            one.of.gpus,
                            one.of.batch,
                            runs::micro_batch_cell(one.of),
                            runs::fits_cell(one.of),
                            in(one.of.step, 1_s),
                            one.costs.steps,
                            hours,
                            hours * one.by_stack.low(),
                            hours * one.by_stack.high(),
                            in(one.costs.gpu_time.low(), 1_h)};
      if (one.costs.cost) {
        const double usd = in(one.costs.cost->low(), 1_usd);
        row.insert(row.end(), {usd, usd * one.by_stack.low(), usd * one.by_stack.high()});
      } else {
        row.resize(row.size() + 3);
      }
      row.push_back(one.costs.energy ? cell{in(one.costs.energy->low(), 1_kWh)} : cell());
      row.push_back(one.costs.carbon_kg ? cell{one.costs.carbon_kg->low()} : cell());
      row.push_back(timed_.checkpoint ? cell{in(*timed_.checkpoint, 1_GiB)} : cell());
      row.push_back(asked_.save_every > 0
                        ? cell{checked(checkpoints_saved(one.costs.steps, asked_.save_every))}
                        : cell());
      row.push_back(asked_.storage > 0
                        ? cell{checked(save_interval_within(storage(), one.costs.steps))}
                        : cell());
      const auto interval = interval_for_failures();
      row.push_back(interval ? cell{*interval} : cell());
      row.emplace_back(one.note);
      table.rows.push_back(row);
    }
    return table;
  }
};

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan cost",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                runs::add_timed_options(app, asked->timed);
                const char* group = "Checkpoints";
                app.add_option("--save-every", asked->save_every, "Steps from one to the next")
                    ->transform(guides::whole_number(1, std::int64_t{1} << 40))
                    ->type_name("N")
                    ->group(group);
                runs::add_checkpoint_option(app, asked->timed, group);
                app.add_option("--storage", asked->storage, "What there is for all of them")
                    ->transform(guides::byte_count(1, std::int64_t{1} << 60))
                    ->type_name("SIZE")
                    ->group(group);
                CLI::Option* stall =
                    app.add_option("--stall", asked->stall, "How long one holds training up")
                        ->transform(guides::time_span(guides::time_unit::seconds, 1e-3, 1e6))
                        ->type_name("TIME")
                        ->group(group);
                app.add_option("--between-failures",
                               asked->between_failures,
                               "How long the whole job runs on average until something fails")
                    ->transform(guides::time_span(guides::time_unit::hours, 1e-3, 1e6))
                    ->type_name("TIME")
                    ->group(group)
                    ->needs(stall);
                stall->needs("--between-failures");
              },
          .make = [=](const guides::output& as) { return answer(*asked).text(as); }};
}

}  // namespace cost_program

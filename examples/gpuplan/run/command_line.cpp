#include "run/command_line.hpp"

#include <gpuplan/catalog/interruptions.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/io/chart/stacked_bars.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/reliability.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/stack_numbers.hpp>
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
#include "runs/timed_steps.hpp"
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
    "off, how often such GPUs fail, and when.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan run --step 10s --batch 2048 --tokens 1e12 --sequence-length 4096 --gpu h100-sxm\n"
    "      --gpus 1024 --price 3 --checkpoint 980GB --failures llama_3_405b\n"
    "  gpuplan run llama-3-8b --zero 3 --batch 1024 --sequence-length 8192 --tokens 1e11\n"
    "      --gpu h100-sxm --gpus 64,128 --price 3 --async --deadline 14 --sure 95";

constexpr std::size_t simulated_runs = 20'000;

struct request {
  runs::timed_words timed{};
  double off = 0;  // percent of a measured step
  std::string failures = "usual";
  double between_failures = 0;  // hours, of the whole job
  double detection = 600;       // seconds
  double restart = 900;         // seconds
  double replaced = 100;        // percent
  double replacement = 0;       // hours
  std::int64_t spares = 0;
  std::int64_t save_every = 0;  // steps
  std::int64_t keep = 2;        // checkpoints
  std::int64_t storage = 0;     // bytes
  double write_rate = 0;        // GB/s of all; 0: of the nodes
  double stall = 0;             // seconds
  bool is_async = false;
  double reclaimed = 0;   // hours until a cloud takes a node back
  double time_limit = 0;  // hours of a job
  double queue = 0;       // hours before a job
  double deadline = 0;    // days
  double sure = 90;       // percent
  std::string svg_file{};
};

// What a node writes to a shared file system: BLOOM's 48 nodes wrote 2.3 TB in 40 s (its training's
// chronicles).
constexpr double usual_write_rate = 1.2;  // GB/s

struct run {
  runs::timed_step of{};
  interrupted_run is{};
  run_uncertainty unknown{};
  run_time_parts parts{};
  run_times times{};
  run_times held{};  // without queues: what is paid
  duration sure{};
  double on_time = 1;
  std::int64_t paid_gpus = 0;
  std::int64_t save_every = 0;  // steps; 0: only at the end
  std::int64_t checkpoints = 0;
  std::int64_t jobs = 1;
  duration queued{};  // of them all, where the run takes its median
  std::string note{};
};

struct named_part {
  const char* in_words;
  const char* column;
  duration run_time_parts::*time;
};
constexpr named_part parts_of_time[] = {
    {"training", "training_days", &run_time_parts::training},
    {"checkpoints", "saving_days", &run_time_parts::saving},
    {"work done again", "lost_days", &run_time_parts::lost},
    {"failures not yet noticed", "detection_days", &run_time_parts::detection},
    {"restarts", "restart_days", &run_time_parts::restart},
    {"waits for a node", "waiting_days", &run_time_parts::waiting}};

template <class Answer>
const Answer& checked(const result<Answer>& answer) {
  if (!answer) throw bad_request(setups::sentence_of(answer.why()));
  return *answer;
}

// How often such a cluster fails, and what is not known of it.
struct failure_rate {
  known<duration> device_time{};
  known<duration> of_job{};
  range<double> factor = 1.0;
  std::string in_words{};
};

failure_rate rate_of(const request& asked) {
  if (asked.between_failures > 0)
    return {.of_job = asked.between_failures * 1_h,
            .in_words = "a failure every " + io::decimal(asked.between_failures, -1) + " h"};
  if (asked.failures == "none") return {.in_words = "nothing fails"};
  if (asked.failures == "usual") {
    constexpr catalog::usual_device_time usual = catalog::usual_time_between_failures();
    return {.device_time = usual.median,
            .factor = usual.factor,
            .in_words = "a failure every " + setups::grouped(std::llround(in(usual.median, 1_h))) +
                        " GPU-hours, as in " + std::to_string(std::size(catalog::interruptions)) +
                        " published clusters, by a factor of " +
                        io::decimal(usual.factor.high(), 1) + " either way"};
  }
  std::string names = "usual, none";
  for (const counted_interruptions& each : catalog::interruptions) {
    if (asked.failures == each.id)
      return {.device_time = checked(device_time_between_failures(each)),
              .in_words = std::string("failures as of ") + each.name};
    names += std::string(", ") + each.id;
  }
  throw bad_request("--failures " + asked.failures + ": one of " + names + " is taken");
}

class answer {
 public:
  explicit answer(const request& asked)
      : asked_(asked), rate_(rate_of(asked)), timed_(runs::timed_run_of(asked.timed)) {
    for (const runs::timed_step& one : timed_.on) runs_.push_back(run_of(one));
    if (asked.deadline > 0) judge();
    if (!asked.svg_file.empty()) guides::write_file("--svg", asked.svg_file, picture());
  }

  std::string text(const guides::output& as) const {
    if (!traits_of(as.format).for_people) return guides::render(for_programs(), as);
    std::string all =
        guides::render(for_people(), as) + "\n" + guides::render(where_time_goes(), as);
    if (saves()) all += "\n" + guides::render(checkpoints(), as);
    return all;
  }

 private:
  const request& asked_;
  failure_rate rate_;
  runs::timed_run timed_;
  std::vector<run> runs_{};

  [[nodiscard]] bool saves() const {
    for (const run& one : runs_)
      if (one.save_every > 0) return true;
    return false;
  }

  [[nodiscard]] run_uncertainty unknown_of(const runs::timed_step& one) const {
    run_uncertainty unknown{.mean_time_between_failures = rate_.factor};
    if (one.stated) {
      const time_interval step = step_interval(one.stated->time, one.stated->plan);
      unknown.work = {step.low / step.median, step.high / step.median};
    } else if (asked_.off > 0) {
      unknown.work = {1 / (1 + asked_.off / 100), 1 + asked_.off / 100};
    }
    return unknown;
  }

  // How a checkpoint holds training up, and how long it is written beside it.
  void add_saving(interrupted_run& to, const runs::timed_step& one) const {
    to.stall = asked_.stall * 1_s;
    if (!timed_.checkpoint) {
      if (asked_.stall > 0 || !to.mean_time_between_failures) return;
      throw bad_request(
          "what does a checkpoint take? --checkpoint SIZE or --stall TIME says it; --failures none "
          "needs neither");
    }
    const double rate = asked_.write_rate > 0
                            ? asked_.write_rate
                            : usual_write_rate * static_cast<double>(one.on.on.nodes);
    const duration written = *timed_.checkpoint / (rate * 1_GBps);
    if (!asked_.is_async) {
      if (!(asked_.stall > 0)) to.stall = written;
      return;
    }
    to.write = written;
    if (asked_.stall > 0) return;
    if (!one.on.on.gpu.pcie)
      throw bad_request(std::string("--async: the link of ") + one.on.on.gpu.id +
                        " to its host is not known; --stall TIME says what a copy takes");
    to.stall =
        *timed_.checkpoint / static_cast<double>(one.gpus) / one.on.on.gpu.pcie->each_direction();
  }

  // Every so many steps, as stated or best; none where nothing fails.
  [[nodiscard]] std::int64_t save_every(const interrupted_run& of,
                                        const runs::timed_step& one) const {
    if (asked_.save_every > 0) return asked_.save_every;
    if (!of.mean_time_between_failures) return 0;
    const duration best = checked(best_interval(of));
    const double least = std::ceil(in(of.write - of.stall, 1_s) / in(one.step, 1_s));
    const double steps = std::max({1.0, std::round(best / one.step), least});
    return std::min(one.steps, static_cast<std::int64_t>(steps));
  }

  [[nodiscard]] run run_of(const runs::timed_step& one) const {
    run made{.of = one, .unknown = unknown_of(one), .note = one.note};
    interrupted_run& is = made.is;
    is.work = static_cast<double>(one.steps) * one.step;
    if (rate_.of_job) is.mean_time_between_failures = rate_.of_job;
    if (rate_.device_time)
      is.mean_time_between_failures =
          checked(mean_time_between_failures(*rate_.device_time, one.gpus));
    if (asked_.reclaimed > 0) {
      const duration of_job =
          asked_.reclaimed * 1_h / static_cast<double>(one.on.on.nodes + asked_.spares);
      is.mean_time_between_failures =
          is.mean_time_between_failures
              ? checked(time_to_either(*is.mean_time_between_failures, of_job))
              : of_job;
    }
    is.detection = asked_.detection * 1_s;
    is.restart = asked_.restart * 1_s;
    is.replaced = asked_.replaced / 100;
    is.replacement = asked_.replacement * 1_h;
    is.spare_nodes = asked_.spares;
    add_saving(is, one);
    made.save_every = save_every(is, one);
    if (made.save_every > 0) is.interval = static_cast<double>(made.save_every) * one.step;
    made.parts = checked(expected_time(is));
    std::vector<duration> times(simulated_runs);
    made.times = checked(simulate(is, made.unknown, times));
    made.held = made.times;
    if (has_jobs()) {
      const job_chain middle = chain_of_jobs(is, made.times.median);
      made.jobs = middle.jobs;
      made.queued = middle.queue;
      for (const auto quantile : {&run_times::low, &run_times::median, &run_times::high}) {
        const job_chain chain = chain_of_jobs(is, made.times.*quantile);
        made.times.*quantile = chain.time();
        made.held.*quantile = chain.held();
      }
      for (duration& time : times)
        if (std::isfinite(time.value())) time = chain_of_jobs(is, time).time();
    }
    made.sure = times[static_cast<std::size_t>(
        std::ceil(asked_.sure / 100 * static_cast<double>(times.size())) - 1)];
    if (!std::isfinite(made.sure.value())) {
      const auto ended = std::count_if(
          times.begin(), times.end(), [](duration time) { return std::isfinite(time.value()); });
      throw bad_request("--sure " + io::decimal(asked_.sure, -1) + ": of such runs only " +
                        percent(static_cast<double>(ended) / static_cast<double>(times.size())) +
                        " % end at all, as often as they may fail");
    }
    if (asked_.deadline > 0) made.on_time = share_within(times, asked_.deadline * 1_d);
    made.paid_gpus = one.gpus + asked_.spares * one.on.on.gpus_per_node;
    if (made.save_every > 0) made.checkpoints = detail::ceil_div(one.steps, made.save_every);
    return made;
  }

  // Jobs behind one another: each queues, starts, and but for the last saves before its limit.
  [[nodiscard]] job_chain chain_of_jobs(const interrupted_run& is, duration work) const {
    return checked(chain_of(work,
                            {.time_limit = asked_.time_limit * 1_h,
                             .queue = asked_.queue * 1_h,
                             .start = is.restart,
                             .lost = is.stall + is.write}));
  }

  void judge() {
    const run* fewest = nullptr;
    for (run& one : runs_) {
      if (!one.note.empty()) continue;
      const bool is_sure = one.on_time >= asked_.sure / 100;
      const double days = in(one.sure, 1_d);
      one.note = is_sure ? "on time"
                         : "reserve " + io::decimal(days, plan_program::digits_of(days)) + " days";
      if (is_sure && (fewest == nullptr || one.paid_gpus < fewest->paid_gpus)) fewest = &one;
    }
    if (fewest != nullptr && runs_.size() > 1)
      runs_[static_cast<std::size_t>(fewest - runs_.data())].note = "fewest GPUs on time";
  }

  [[nodiscard]] bool has_jobs() const { return asked_.time_limit > 0 || asked_.queue > 0; }

  [[nodiscard]] known<money> cost_of(const run& one, duration held) const {
    const known<dated_price>& each = one.of.on.on.price_per_gpu;
    if (!each) return {};
    return checked(cost(range<duration>(held), one.paid_gpus, each->each)).low();
  }
  static cell figures(double value) { return {value, plan_program::digits_of(value)}; }
  static std::string percent(double share) { return io::decimal(100 * share, 1); }

  [[nodiscard]] io::table for_people() const {
    io::table table{.title = timed_.what + "; " + rate_.in_words};
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
    if (asked_.deadline > 0) add_number("on time %");
    if (has_notes) table.columns.push_back({.name = "note"});
    for (const run& one : runs_) {
      std::vector<cell> row{one.of.name(), one.of.gpus, figures(in(one.of.step, 1_s))};
      for (const duration& time : {one.times.low, one.times.median, one.times.high})
        row.push_back(figures(in(time, 1_d)));
      if (has_sure) row.push_back(figures(in(one.sure, 1_d)));
      if (has_money)
        for (const duration& time : {one.held.low, one.held.median, one.held.high}) {
          const known<money> paid = cost_of(one, time);
          row.push_back(paid ? figures(in(*paid, 1_usd)) : cell());
        }
      row.emplace_back(percent(one.parts.goodput()));
      row.push_back(figures(one.parts.failures));
      if (has_jobs()) row.emplace_back(one.jobs);
      if (asked_.deadline > 0) row.emplace_back(percent(one.on_time));
      if (has_notes) row.emplace_back(one.note);
      table.rows.push_back(row);
    }
    return table;
  }

  [[nodiscard]] std::string name_of(const run& one) const {
    return std::to_string(one.of.gpus) + " x " + one.of.name();
  }

  [[nodiscard]] io::table where_time_goes() const {
    io::table table{.title = "where the days go, on average"};
    table.columns.push_back({.name = "what"});
    for (const run& one : runs_) {
      table.columns.push_back({.name = name_of(one), .align = io::alignment::point});
      table.columns.push_back({.name = "%", .align = io::alignment::point});
    }
    const auto add = [&](const char* name, const auto& time_of) {
      std::vector<cell> row{name};
      bool has_any = false;
      for (const run& one : runs_) {
        const double days = in(time_of(one.parts), 1_d);
        const double all = in(one.parts.total(), 1_d);
        has_any = has_any || days > 0;
        row.emplace_back(days, plan_program::digits_of(all, 4));
        row.emplace_back(percent(days / all));
      }
      if (has_any) table.rows.push_back(row);
    };
    for (const named_part& part : parts_of_time)
      add(part.in_words, [&](const run_time_parts& of) { return of.*part.time; });
    add("the run", [](const run_time_parts& of) { return of.total(); });
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
                     (asked_.timed.checkpoint > 0 ? "" : ": weights and what the optimizer keeps");
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
      for (const auto& rule : {save_interval_of_young, save_interval_for_failures})
        if (one.is.mean_time_between_failures && one.is.stall > duration{})
          row.push_back(
              figures(in(checked(rule(one.is.stall, *one.is.mean_time_between_failures)), 1_min)));
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
                           .counts = "days of a run, on average"};
    for (const named_part& part : parts_of_time) chart.parts.emplace_back(part.in_words);
    for (const run& one : runs_) {
      io::stacked_bars::bar bar{};
      bar.name = name_of(one);
      for (const named_part& part : parts_of_time)
        bar.values.push_back(in(one.parts.*part.time, 1_d));
      chart.bars.push_back(bar);
    }
    return to_svg(chart);
  }

  [[nodiscard]] io::table for_programs() const {
    io::table table;
    for (const char* name : {"cluster",       "gpu",
                             "gpus",          "spare_nodes",
                             "batch",         "step_s",
                             "steps",         "days_low",
                             "days",          "days_high",
                             "days_sure",     "sure_percent",
                             "usd_low",       "usd",
                             "usd_high",      "goodput",
                             "failures",      "jobs",
                             "queue_days",    "between_failures_h",
                             "on_time_share", "save_every_steps",
                             "save_every_s",  "checkpoint_GiB",
                             "checkpoints",   "disk_GiB",
                             "stall_s",       "write_s"})
      table.columns.push_back({.name = name});
    for (const named_part& part : parts_of_time) table.columns.push_back({.name = part.column});
    table.columns.push_back({.name = "note"});
    for (const run& one : runs_) {
      std::vector<cell> row{one.of.on.name,
                            one.of.on.on.gpu.id,
                            one.of.gpus,
                            one.is.spare_nodes,
                            one.of.batch,
                            in(one.of.step, 1_s),
                            one.of.steps,
                            in(one.times.low, 1_d),
                            in(one.times.median, 1_d),
                            in(one.times.high, 1_d),
                            in(one.sure, 1_d),
                            asked_.sure};
      for (const duration& time : {one.held.low, one.held.median, one.held.high}) {
        const known<money> paid = cost_of(one, time);
        row.push_back(paid ? cell{in(*paid, 1_usd)} : cell());
      }
      row.emplace_back(one.parts.goodput());
      row.emplace_back(one.parts.failures);
      row.emplace_back(one.jobs);
      row.emplace_back(in(one.queued, 1_d));
      row.push_back(one.is.mean_time_between_failures
                        ? cell{in(*one.is.mean_time_between_failures, 1_h)}
                        : cell());
      row.push_back(asked_.deadline > 0 ? cell{one.on_time} : cell());
      row.push_back(one.save_every > 0 ? cell{one.save_every} : cell());
      row.push_back(one.save_every > 0 ? cell{in(one.is.interval, 1_s)} : cell());
      row.push_back(timed_.checkpoint ? cell{in(*timed_.checkpoint, 1_GiB)} : cell());
      row.emplace_back(one.checkpoints);
      const known<bytes> disk = disk_of(one);
      row.push_back(disk ? cell{in(*disk, 1_GiB)} : cell());
      row.emplace_back(in(one.is.stall, 1_s));
      row.emplace_back(in(one.is.write, 1_s));
      for (const named_part& part : parts_of_time) row.emplace_back(in(one.parts.*part.time, 1_d));
      row.emplace_back(one.note);
      table.rows.push_back(row);
    }
    return table;
  }
};

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
                 "counts as a failure")
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

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan run",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                runs::add_timed_options(app, asked->timed);
                const char* group = "The run";
                app.add_option("--off",
                               asked->off,
                               "Percent that a step of --step may be off: 80 % of cases lie within "
                               "(default: 0; an estimated step has its own range)")
                    ->transform(guides::finite_number(0, 1000))
                    ->type_name("PERCENT")
                    ->group(group)
                    ->needs("--step");
                app.add_option("--deadline", asked->deadline, "When it must be over")
                    ->transform(guides::time_span(guides::time_unit::days, 1e-3, 1e5))
                    ->type_name("TIME")
                    ->group(group);
                app.add_option("--sure", asked->sure, "With what probability (default: 90)")
                    ->transform(guides::finite_number(1, 99.9))
                    ->type_name("PERCENT")
                    ->group(group);
                app.add_option(
                       "--time-limit",
                       asked->time_limit,
                       "After which the scheduler ends a job; the next one goes on from its "
                       "last checkpoint")
                    ->transform(guides::time_span(guides::time_unit::hours, 1e-2, 1e6))
                    ->type_name("TIME")
                    ->group(group);
                app.add_option("--queue", asked->queue, "How long each job waits to start")
                    ->transform(guides::time_span(guides::time_unit::hours, 0, 1e5))
                    ->type_name("TIME")
                    ->group(group);
                add_failure_options(app, *asked);
                add_saving_options(app, *asked);
                app.add_option("--svg", asked->svg_file, "Also draw where the days go")
                    ->type_name("FILE");
              },
          .make = [=](const guides::output& as) { return answer(*asked).text(as); }};
}

}  // namespace run_program

#include "run/whole_run.hpp"

#include <gpuplan/catalog/energy.hpp>
#include <gpuplan/catalog/interruptions.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/reliability.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "guides/quantities.hpp"
#include "runs/windows.hpp"

namespace run_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;

constexpr std::size_t simulated_runs = 20'000;

// "10 min", "3.5 h", "24 h".
std::string readable(duration time) {
  const auto rounded = [](double value, const char* unit) {
    return io::decimal(std::round(100 * value) / 100, -1) + unit;
  };
  if (time < 60_s) return rounded(in(time, 1_s), " s");
  if (time < 1_h) return rounded(in(time, 1_s) / 60, " min");
  return rounded(in(time, 1_h), " h");
}

// What a node writes to a shared file system: BLOOM's 48 nodes wrote 2.3 TB in 40 s (its training's
// chronicles).
constexpr double usual_write_rate = 1.2;  // GB/s

class simulation {
 public:
  simulation(const request& asked, const failure_rate& rate, known<bytes> checkpoint)
      : asked_(asked), rate_(rate), checkpoint_(checkpoint) {
    if (!asked.windows.empty()) windows_ = runs::windows_of(asked.windows, asked.starts);
  }

  [[nodiscard]] run of(const runs::timed_step& one) const {
    run made{.of = one, .unknown = unknown_of(one), .note = one.note};
    interrupted_run& is = made.is;
    is.work = static_cast<double>(one.steps) * one.step;
    is.mean_time_between_failures = between_failures(one);
    is.mean_time_between_reclaims = between_reclaims(one);
    is.detection = asked_.detection * 1_s;
    is.restart = asked_.restart * 1_s;
    is.replaced = asked_.replaced / 100;
    is.replacement = asked_.replacement * 1_h;
    is.spare_nodes = asked_.spares;
    add_saving(is, one);
    made.save_every = save_every(is, one);
    if (made.save_every > 0) is.interval = static_cast<double>(made.save_every) * one.step;
    if (asked_.save_every > 0) check_save_every(is, one);
    made.parts = checked(expected_time(is));
    std::vector<duration> times(simulated_runs);
    static_cast<void>(checked(simulate(is, made.unknown, times)));
    check_end(times);
    made.held = quantiles_of(times, [&](duration work) { return chain(is, work).held(); });
    made.times = quantiles_of(times, [&](duration work) { return chain(is, work).time(); });
    const job_chain middle = chain(is, at(times, 0.5));
    made.jobs = middle.jobs;
    made.queued = middle.queue;
    made.jobs_of_parts = chain(is, made.parts.total());
    made.paid_gpus = one.gpus + asked_.spares * one.on.on.gpus_per_node;
    if (asked_.deadline > 0)
      made.on_time = share_of(
          times, [&](duration work) { return chain(is, work).time() <= asked_.deadline * 1_d; });
    made.kept = made.on_time;
    if (asked_.dollars > 0) {
      if (!made.cost(1_h))
        throw bad_request(std::string("--dollars: what does a ") + one.on.on.gpu.id +
                          " cost? --price N says it");
      // A longer run costs more: the longest that keeps to one keeps to both, or to the other.
      made.kept = std::min(made.kept, share_of(times, [&](duration work) {
                             return *made.cost(chain(is, work).held()) <= asked_.dollars * 1_usd;
                           }));
    }
    if (made.save_every > 0) made.checkpoints = detail::ceil_div(one.steps, made.save_every);
    add_energy(made);
    return made;
  }

 private:
  const request& asked_;
  const failure_rate& rate_;
  known<bytes> checkpoint_;
  runs::run_windows windows_{};

  [[nodiscard]] run_uncertainty unknown_of(const runs::timed_step& one) const {
    run_uncertainty unknown{.mean_time_between_failures = rate_.factor};
    if (one.stated && one.off) {
      unknown.work = *one.off;
    } else if (one.stated) {
      const time_interval step = runs::interval_of(*one.stated);
      unknown.work = {step.low / step.median, step.high / step.median};
    } else if (asked_.off > 0) {
      unknown.work = {1 / (1 + asked_.off / 100), 1 + asked_.off / 100};
    }
    return unknown;
  }

  [[nodiscard]] known<duration> between_failures(const runs::timed_step& one) const {
    if (rate_.device_time) return checked(mean_time_between_failures(*rate_.device_time, one.gpus));
    return rate_.of_job;
  }
  [[nodiscard]] known<duration> between_reclaims(const runs::timed_step& one) const {
    known<duration> of_node = one.on.reclaimed;
    if (asked_.reclaimed > 0) of_node = asked_.reclaimed * 1_h;
    if (!of_node) return {};
    return *of_node / static_cast<double>(one.on.on.nodes);
  }

  // How a checkpoint holds training up, and how long it is written beside it.
  void add_saving(interrupted_run& to, const runs::timed_step& one) const {
    to.stall = asked_.stall * 1_s;
    if (!checkpoint_) {
      if (asked_.stall > 0 || !to.mean_time_between_interruptions()) return;
      throw bad_request(
          "what does a checkpoint take? --checkpoint SIZE or --stall TIME says it; --failures none "
          "needs neither");
    }
    const double rate = asked_.write_rate > 0
                            ? asked_.write_rate
                            : usual_write_rate * static_cast<double>(one.on.on.nodes);
    const duration written = *checkpoint_ / (rate * 1_GBps);
    if (!asked_.is_async) {
      if (!(asked_.stall > 0)) to.stall = written;
      return;
    }
    to.write = written;
    if (asked_.stall > 0) return;
    if (!one.on.on.gpu.pcie)
      throw bad_request(std::string("--async: the link of ") + one.on.on.gpu.id +
                        " to its host is not known; --stall TIME says what a copy takes");
    to.stall = *checkpoint_ / static_cast<double>(one.gpus) / one.on.on.gpu.pcie->each_direction();
  }

  // Every so many steps, as stated or best; none where nothing fails.
  [[nodiscard]] std::int64_t save_every(const interrupted_run& of,
                                        const runs::timed_step& one) const {
    if (asked_.save_every > 0) return asked_.save_every;
    if (!of.mean_time_between_interruptions()) return 0;
    const duration best = checked(best_interval(of));
    const double least = std::ceil(in(of.write - of.stall, 1_s) / in(one.step, 1_s));
    const double steps = std::max({1.0, std::round(best / one.step), least});
    return std::min(one.steps, static_cast<std::int64_t>(steps));
  }

  // The library would say it of the interval in seconds.
  void check_save_every(const interrupted_run& is, const runs::timed_step& one) const {
    const std::string option = "--save-every " + std::to_string(asked_.save_every) + ": ";
    const bool has_intervals = is.interval < is.work;
    if (has_intervals && is.write > is.interval + is.stall)
      throw bad_request(option + "a checkpoint is written for " + readable(is.write) +
                        ", and the next one comes " + readable(is.interval + is.stall) +
                        " after it; " +
                        setups::grouped(std::llround(std::ceil((is.write - is.stall) / one.step))) +
                        " steps or more are taken");
    const known<duration> between = is.mean_time_between_interruptions();
    const duration length = (has_intervals ? is.interval : is.work) + is.stall + is.write;
    if (!between || length < detail::most_of_mean_time * *between) return;
    const double most =
        std::floor((detail::most_of_mean_time * *between - is.stall - is.write) / one.step);
    throw bad_request(
        option + "something fails every " + readable(*between) +
        " on average, so that training would hardly ever get " + readable(length) + " far" +
        (most >= 1 ? "; " + setups::grouped(std::llround(most)) + " steps or fewer are taken"
                   : std::string()));
  }

  // ---- from work, failures included, to the calendar

  [[nodiscard]] bool has_jobs() const { return asked_.time_limit > 0 || asked_.queue > 0; }

  // Jobs behind one another: each queues, starts, and but for the last saves before its limit.
  [[nodiscard]] job_limits limits_of(const interrupted_run& is) const {
    const job_limits limits{.time_limit = asked_.time_limit * 1_h,
                            .queue = asked_.queue * 1_h,
                            .start = is.restart,
                            .lost = is.stall + is.write};
    const duration without_work = limits.start + limits.lost;
    if (limits.time_limit > duration{} && limits.time_limit <= without_work)
      throw bad_request("--time-limit: a job of " + readable(limits.time_limit) +
                        " has no time for work: it takes " + readable(limits.start) +
                        " to start (--restart) and " + readable(limits.lost) +
                        " to save (--checkpoint, --stall), so the limit must be above " +
                        readable(without_work));
    return limits;
  }
  void check_windows(const job_limits& limits) const {
    const duration without_work = limits.queue + limits.start + limits.lost;
    duration longest{};
    for (const week_window& each : windows_.each)
      if (const duration open = each.end - each.begin; longest < open) longest = open;
    if (without_work < longest) return;
    std::string texts;
    for (const std::string& text : asked_.windows) texts += (texts.empty() ? "" : ",") + text;
    throw bad_request("--windows " + io::printable(texts) + ": " + readable(longest) +
                      " have no time for work: it takes " + readable(limits.start) +
                      " to start (--restart) and " + readable(limits.lost) +
                      " to save (--checkpoint, --stall), so a window must be longer than " +
                      readable(without_work));
  }
  [[nodiscard]] job_chain chain(const interrupted_run& is, duration work) const {
    if (!windows_.each.empty()) {
      const job_limits limits = limits_of(is);
      const auto found = chain_of(work, windows_.each, windows_.now, limits);
      if (!found) check_windows(limits);
      return checked(found);
    }
    return has_jobs() ? checked(chain_of(work, limits_of(is))) : job_chain{.jobs = 1, .work = work};
  }

  static duration at(const std::vector<duration>& times, double share) {
    return times[static_cast<std::size_t>(
        std::round(share * static_cast<double>(times.size() - 1)))];
  }
  // Neither a chain of jobs nor a calendar changes the order.
  template <class Map>
  [[nodiscard]] run_quantiles quantiles_of(const std::vector<duration>& times,
                                           const Map& map) const {
    return {map(at(times, 0.1)), map(at(times, 0.5)), map(at(times, 0.9)), map(sure_of(times))};
  }
  [[nodiscard]] duration sure_of(const std::vector<duration>& times) const {
    return times[static_cast<std::size_t>(
        std::ceil(asked_.sure / 100 * static_cast<double>(times.size())) - 1)];
  }
  // Of times in their order: those up to the last one that is so.
  template <class Is>
  [[nodiscard]] static double share_of(const std::vector<duration>& times, const Is& is) {
    const auto end = std::partition_point(times.begin(), times.end(), [&](duration work) {
      return std::isfinite(work.value()) && is(work);
    });
    return static_cast<double>(end - times.begin()) / static_cast<double>(times.size());
  }
  void check_end(const std::vector<duration>& times) const {
    if (std::isfinite(sure_of(times).value())) return;
    const auto ended = std::count_if(
        times.begin(), times.end(), [](duration time) { return std::isfinite(time.value()); });
    throw bad_request(
        "--sure " + io::decimal(asked_.sure, -1) + ": of such runs only " +
        io::decimal(100 * static_cast<double>(ended) / static_cast<double>(times.size()), 1) +
        " % end at all, as often as they may fail");
  }

  // ---- energy

  void add_energy(run& to) const {
    const cluster& on = to.of.on.on;
    run_draw draw{.pue = asked_.pue};
    if (on.power_per_gpu) {
      draw.training = *on.power_per_gpu;
      draw.waiting = draw.training;
    } else if (on.gpu.tdp) {
      const double share = to.of.stated ? checked(average_draw(to.of.stated->parts, h100_draws))
                                        : h100_draws.computing;
      draw.training = share * *on.gpu.tdp;
      draw.waiting = h100_draws.waiting * *on.gpu.tdp;
      if (asked_.host_power >= 0)
        to.host = asked_.host_power / static_cast<double>(on.gpus_per_node) * 1_W;
      else
        to.host = catalog::host_power_per_gpu(on.gpu);
      if (to.host) draw.host = *to.host;
    } else {
      return;
    }
    to.draw = draw.training;
    const duration all = to.parts.total();
    power together = checked(energy_used(to.parts, to.of.gpus, draw)) / all;
    const std::int64_t spares = to.paid_gpus - to.of.gpus;
    together += draw.pue * static_cast<double>(spares) * (draw.waiting + draw.host);
    to.mean = together;
  }
};

// ---- budgets

enum class budgeted { money, time, energy };
struct budget {
  budgeted what = budgeted::money;
  double amount = 0;  // dollars, days, kWh
};

budget budget_of(const std::string& text) {
  std::string amount = text;
  const auto ends_with = [&](const std::string& unit) {
    return text.size() > unit.size() && text.ends_with(unit);
  };
  std::string why;
  if (text.starts_with("$") || ends_with("USD") || ends_with("usd")) {
    why = guides::sum_of_dollars(1e-2, 1e12)(amount);
    if (why.empty()) return {budgeted::money, std::stod(amount)};
  } else if (ends_with("Wh")) {
    double unit = 0;
    for (const auto& [name, kWh] : {std::pair{"kWh", 1.0}, {"MWh", 1e3}, {"GWh", 1e6}})
      if (ends_with(name)) unit = kWh;
    amount = text.substr(0, text.size() - (unit > 0 ? 3 : 0));
    why = unit > 0 ? guides::finite_number(1e-6, 1e12)(amount) : "in kWh, MWh or GWh";
    if (why.empty()) return {budgeted::energy, unit * std::stod(amount)};
  } else if (text.find_first_of("wdhms") != std::string::npos) {
    why = guides::time_span(guides::time_unit::days, 1e-4, 1e5)(amount);
    if (why.empty()) return {budgeted::time, std::stod(amount)};
  } else {
    why = "money ($1e6), time (30d) or energy (500MWh) is taken";
  }
  throw bad_request("--budget " + io::printable(text) + ": " + why);
}

double spent(const run& by, budgeted what) {
  if (what == budgeted::time) return in(by.times.sure, 1_d);
  if (what == budgeted::money) {
    const known<money> paid = by.cost(by.held.sure);
    if (!paid)
      throw bad_request(std::string("--budget: what does a ") + by.of.on.on.gpu.id +
                        " cost? --price N says it");
    return in(*paid, 1_usd);
  }
  const known<energy> used = by.energy(by.held.sure);
  if (!used)
    throw bad_request(std::string("--budget: what does a ") + by.of.on.on.gpu.id +
                      " draw? --power N says it");
  return in(*used, 1_kWh);
}

}  // namespace

failure_rate rate_of(const request& asked) {
  if (asked.between_failures > 0)
    return {.of_job = asked.between_failures * 1_h,
            .in_words = "a failure every " + readable(asked.between_failures * 1_h)};
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

std::string reclaims(const request& asked, const std::vector<run>& runs) {
  if (asked.reclaimed > 0)
    return "; nodes are taken back after " + readable(asked.reclaimed * 1_h) + " on average";
  std::string all;
  for (const run& one : runs)
    if (one.of.on.reclaimed)
      all += "; nodes of " + one.of.name() + " are taken back after " +
             readable(*one.of.on.reclaimed) + " on average";
  return all;
}

duration run::step() const { return of.step - of.evaluating / static_cast<double>(of.steps); }
duration run::training() const { return parts.training - of.evaluating; }
double run::goodput() const { return training() / parts.total(); }

known<money> run::cost(duration held_for) const {
  const known<dated_price>& each = of.on.on.price_per_gpu;
  if (!each) return {};
  return checked(gpuplan::cost(range<duration>(held_for), paid_gpus, each->each)).low();
}

known<energy> run::energy(duration held_for) const {
  if (!mean) return {};
  return gpuplan::energy(*mean * held_for);
}

run run_of(const request& asked,
           const failure_rate& rate,
           known<bytes> checkpoint,
           const runs::timed_step& one) {
  return simulation(asked, rate, checkpoint).of(one);
}

run run_within_budget(const request& asked,
                      const failure_rate& rate,
                      known<bytes> checkpoint,
                      const runs::timed_step& one) {
  const budget given = budget_of(asked.budget);
  const simulation simulated(asked, rate, checkpoint);
  const double tokens_of_step =
      static_cast<double>(one.tokens_of_sample) * static_cast<double>(one.batch);
  const auto of_steps = [&](std::int64_t steps) {
    runs::timed_step longer = one;
    longer.steps = steps;
    longer.tokens = static_cast<double>(steps) * tokens_of_step;
    if (asked.phases.evaluate_every > 0) {
      longer.phases = {{.steps = steps,
                        .effective_batch = one.batch,
                        .sequence_length = std::max<std::int64_t>(1, one.tokens_of_sample),
                        .step = one.step}};
      const phases_total total = checked(
          total_of(longer.phases,
                   {.every = asked.phases.evaluate_every, .time = asked.phases.evaluation * 1_s}));
      longer.evaluating = total.evaluating;
      longer.step = total.time() / static_cast<double>(steps);
    }
    return simulated.of(longer);
  };
  const auto is_within = [&](const run& by) { return spent(by, given.what) <= given.amount; };
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::int64_t within = 1;
  run best = of_steps(within);
  if (!is_within(best))
    throw bad_request("--budget " + io::printable(asked.budget) + " pays for no step on " +
                      std::to_string(one.gpus) + " x " + one.name());
  // What is spent hardly leaves a line, so that each guess is by the line of two; a step in ten
  // thousand on either side of it ends the search.
  double least = spent(best, given.what);
  std::int64_t beyond = most;
  double at_beyond = 0;
  std::int64_t guess = 1024;
  for (int tries = 0; tries < 200 && beyond - within > 1 + within / 10'000; ++tries) {
    guess = std::clamp(guess, within + 1, beyond - 1);
    run other = of_steps(guess);
    const double other_spent = spent(other, given.what);
    const double slope = (other_spent - least) / static_cast<double>(guess - within);
    if (is_within(other)) {
      within = guess;
      least = other_spent;
      best = other;
    } else {
      beyond = guess;
      at_beyond = other_spent;
    }
    // Now and then the middle: a line may approach from one side for ever.
    if (tries % 3 == 2 && beyond < most) {
      guess = within + (beyond - within) / 2;
      continue;
    }
    const double by =
        beyond < most ? (at_beyond - least) / static_cast<double>(beyond - within) : slope;
    const double more = by > 0 ? (given.amount - least) / by : 8.0 * static_cast<double>(within);
    const double next =
        std::min(static_cast<double>(within) * (1 + 2e-5) + more + 1, static_cast<double>(most));
    guess = static_cast<std::int64_t>(next);
  }
  return best;
}

}  // namespace run_program

#include "whole_runs.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/interruptions.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "notes.hpp"
#include "whole_run_setups.hpp"

namespace accuracy {
namespace {

namespace catalog = gpuplan::catalog;

// Where a row does not say so: what was usual for such a model.
double usual_batch_tokens(double parameters, std::int64_t gpus) {
  const double by_size = parameters < 5e8   ? 0.5e6
                         : parameters < 2e9 ? 1e6
                         : parameters < 5e9 ? 2e6
                                            : 4e6;
  return std::max(by_size, 1500.0 * static_cast<double>(gpus));
}
// As many as take five weeks at two fifths of the peak, as half of the published runs of 300
// billion tokens and more did at most, and at least as many as hold the model.
std::int64_t usual_gpus(double parameters, double active, double tokens, double peak_flops) {
  const double busy = 6 * active * tokens / (0.4 * peak_flops) / (35 * 86400.0);
  std::int64_t gpus = 8;
  while (gpus < 16384 &&
         (static_cast<double>(gpus) * 35e6 < parameters || static_cast<double>(gpus) * 1.41 < busy))
    gpus *= 2;
  return gpus;
}

}  // namespace

whole_run describe_whole_run(const row& source) {
  whole_run run;
  gpuplan::plan_request& asked = run.asked;
  const auto tokens = stated_number(source, "tokens");
  if (!tokens || !(*tokens > 0)) return run.why_not = "its tokens are not stated", run;
  const auto active = stated_number(source, "params_active");
  if (!active || !(*active > 0)) return run.why_not = "its parameters are not stated", run;

  std::string device = lower(source.text("gpu"));
  if (device.starts_with("other:")) device.erase(0, 6);
  const auto gpu = catalog::find_gpu(device);
  if (!gpu) return run.why_not = gpuplan::failure_text(gpu.why()).c_str(), run;

  const run_setup described =
      describe_run_setup(source, static_cast<bool>(peak(*gpu, gpuplan::number_format::bf16)));
  if (!described.why_not.empty()) return run.why_not = described.why_not, run;
  asked.setup = described.setup;
  asked.space = described.space;
  run.work = described.work;
  asked.efficiency = catalog::efficiency_of(*gpu);

  const auto length = static_cast<double>(asked.setup.sequence_length);
  const double samples = *tokens / length;
  const auto fastest = peak(*gpu, asked.setup.precision.compute);
  if (!fastest) return run.why_not = gpuplan::failure_text(fastest.why()).c_str(), run;
  const std::int64_t gpus = stated_count(
      source,
      "gpus",
      usual_gpus(std::max(*active, stated_number(source, "params_total").value_or(0) / 8),
                 *active,
                 *tokens,
                 fastest->value()));
  const double batch =
      stated_number(source, "global_batch_tokens").value_or(usual_batch_tokens(*active, gpus)) /
      length;
  if (gpus < 1 || gpus > 10'000'000 || !(batch >= 1) || !(batch < 1e12) || !(samples < 1e15))
    return run.why_not = "no run has so many GPUs, tokens or samples", run;
  std::int64_t in_node = std::min<std::int64_t>(gpus, 8);
  while (gpus % in_node != 0) --in_node;
  asked.on = {.gpu = *gpu, .nodes = gpus / in_node, .gpus_per_node = in_node};
  const bool is_old = std::string_view(gpu->id).starts_with("v100");
  if (asked.on.nodes > 1)
    asked.on.between_nodes = gpuplan::bandwidth::from_value(
        (is_old ? 12.5e9 : 25e9) * static_cast<double>(asked.on.gpus_per_node) *
        (std::string_view("hbg").find(gpu->id[0]) != std::string_view::npos ? 2 : 1));
  const std::int64_t whole = total_gpus(asked.on);
  asked.space.gpus = gpuplan::range<std::int64_t>{whole, whole};
  asked.samples = static_cast<std::int64_t>(std::ceil(samples));
  // A batch that the GPUs divide, near the stated one.
  asked.effective_batch = gpuplan::range<std::int64_t>{
      std::max<std::int64_t>(1, static_cast<std::int64_t>(batch * 0.75)),
      std::max<std::int64_t>(whole, static_cast<std::int64_t>(batch * 1.35))};
  const std::string counted = lower(source.text("what_hours_count"));
  const auto says = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return counted.find(word) != std::string::npos;
    });
  };
  run.counts = says({"step", "no downtime", "throughput", "ideal"})           ? run_hours::steps
               : says({"calendar", "week", "month", "upper bound", "window"}) ? run_hours::calendar
                                                                              : run_hours::training;
  run.power_usage = std::max(1.0, stated_number(source, "pue").value_or(run.power_usage));
  return run;
}

namespace {

// Of published runs over the planner's best plan with its interruptions: what leaves the median of
// them least far off, and the factors of it between which four of five lie, by what their hours
// count. Those of steps alone
// hold what software nobody planned for adds, or saves; those of training also evaluation, restarts
// of which nobody wrote, and what went wrong; those of a calendar also what stood still.
struct beyond_the_plan {
  double median = 1;
  double low = 1;
  double high = 1;
};
constexpr beyond_the_plan beyond_steps{1, 0.78, 1.45};        // of 16 runs
constexpr beyond_the_plan beyond_training{1.15, 0.72, 1.93};  // of 41
constexpr beyond_the_plan beyond_calendar{1.3, 0.76, 1.85};   // of 10
constexpr const beyond_the_plan& beyond(run_hours counted) {
  return counted == run_hours::steps      ? beyond_steps
         : counted == run_hours::training ? beyond_training
                                          : beyond_calendar;
}

// How often a run of so long on so many GPUs is interrupted, with what is usual. Before 2024 it
// took ten minutes until somebody acted and ten until it trained again, and a minute for a
// checkpoint (OPT's logbook; BLOOM's took 40 s). Since then checkpoints are written while training
// goes on and stop it for 6 s (PyTorch 2024), and checks of 5 minutes find what failed
// (arXiv:2410.21680).
double with_interruptions(gpuplan::duration work, std::int64_t gpus, std::int64_t year) {
  gpuplan::interrupted_run run{.work = work};
  const auto between =
      mean_time_between_failures(catalog::usual_time_between_failures().median, gpus);
  if (!between) return 1;
  const bool is_old = year < 2024;
  run.mean_time_between_failures = *between;
  run.stall = gpuplan::duration::from_value(is_old ? 60 : 6);
  run.detection = gpuplan::duration::from_value(is_old ? 600 : 300);
  run.restart = gpuplan::duration::from_value(600);
  const auto interval = best_interval(run);
  if (!interval) return 1;
  run.interval = *interval;
  const auto parts = expected_time(run);
  return parts ? 1 / parts->goodput() : 1;
}

}  // namespace

void compare_whole_run(row_comparisons& row) {
  const auto hours = stated_number(row.source, "gpu_hours");
  const auto days = stated_number(row.source, "days");
  const auto energy = stated_number(row.source, "energy_MWh");
  if (!hours && !days && !energy) return;
  const whole_run run = describe_whole_run(row.source);
  std::string why_not = run.why_not;
  double predicted = 0;
  double draw = 0;  // of the TDP
  if (why_not.empty()) {
    const auto found =
        plan_training(run.asked, gpuplan::transformer_memory_of{}.on(run.asked.on.gpu), 1);
    if (!found) {
      why_not = gpuplan::failure_text(found.why()).c_str();
    } else {
      const gpuplan::duration work = run_of(run.asked, found->best()).time * run.work;
      const std::int64_t gpus = total_gpus(run.asked.on);
      predicted = in(work, gpuplan::duration::from_value(3600)) * static_cast<double>(gpus);
      const auto drawn = average_draw(
          time_of(run.asked, found->best()).breakdown(found->best().batch), gpuplan::h100_draws);
      if (drawn) draw = *drawn;
      if (run.counts != run_hours::steps)
        predicted *= with_interruptions(work, gpus, stated_count(row.source, "year", 2024));
    }
  }
  const beyond_the_plan& own = beyond(run.counts);
  const auto add = [&](quantity what, std::optional<double> measured, double times) {
    if (!measured) return;
    for (const auto& [end, factor] : {std::pair{0, own.median},
                                      std::pair{1, own.median * own.low},
                                      std::pair{2, own.median * own.high}})
      row.add(
          static_cast<quantity>(static_cast<int>(what) + end),
          *measured,
          why_not.empty() ? prediction(number(predicted * times * factor)) : prediction(why_not));
  };
  add(quantity::gpu_hours, hours, 1);
  const auto gpus = stated_number(row.source, "gpus");
  const bool has_gpus = gpus && *gpus > 0;
  if (why_not.empty() && !has_gpus && days) {
    row.add(quantity::days, *days, std::string("its GPUs are not stated"));
  } else {
    add(quantity::days, days, has_gpus ? 1 / (24 * *gpus) : 0);
  }
  const double watts = run.asked.on.gpu.tdp ? run.asked.on.gpu.tdp->value() : 0;
  if (why_not.empty() && watts <= 0) why_not = "the TDP of its GPU is not known";
  add(quantity::energy, energy, draw * watts * run.power_usage / 1e6);
}

void by_other_sources(const csv_file& file, std::vector<comparison>& all) {
  struct published {
    std::string source;
    run_hours counted = run_hours::training;
    double over_the_plan = 1;
  };
  std::map<std::string, row, std::less<>> rows;
  for (const csv_file::row_of_cells& cells : file.rows) {
    const row one(file, cells);
    rows.emplace(std::string(one.text("id")), one);
  }
  // One page may have several models, and names its commit behind "@".
  const auto about = [&](const comparison& one) {
    published found;
    const auto at = rows.find(one.id);
    if (at == rows.end()) return found;
    found.source = at->second.text("source");
    found.source.resize(std::min(found.source.find('@'), found.source.size()));
    found.counted = describe_whole_run(at->second).counts;
    return found;
  };
  std::vector<published> known;
  for (const comparison& one : all) {
    if (one.what != quantity::gpu_hours || !one.predicted.value || one.flagged) continue;
    published found = about(one);
    found.over_the_plan =
        one.measured.value() / one.predicted.value->value() * beyond(found.counted).median;
    known.push_back(found);
  }
  for (comparison& one : all) {
    if (!one.predicted.value) continue;
    const published own = about(one);
    std::vector<double> others;
    for (const published& other : known)
      if (other.source != own.source && other.counted == own.counted)
        others.push_back(other.over_the_plan);
    if (others.size() < 5) continue;
    std::sort(others.begin(), others.end());
    const auto quantile = [&](double share) {
      return others[static_cast<std::size_t>(
          std::round(share * static_cast<double>(others.size() - 1)))];
    };
    const int end = (static_cast<int>(one.what) - static_cast<int>(quantity::gpu_hours)) % 3;
    const beyond_the_plan& mine = beyond(own.counted);
    const double was = mine.median * (end == 0 ? 1 : end == 1 ? mine.low : mine.high);
    one.predicted.value = number(one.predicted.value->value() / was *
                                 quantile(end == 0   ? 0.5
                                          : end == 1 ? 0.1
                                                     : 0.9));
  }
}

}  // namespace accuracy

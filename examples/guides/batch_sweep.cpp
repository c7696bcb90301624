#include "guides/batch_sweep.hpp"

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace guides::batch_sweep {
namespace {

using namespace gpuplan;

constexpr fit_weighting plain = fit_weighting::absolute;
constexpr fit_weighting relative = fit_weighting::relative;

// ---- what the guide prints beside its measurements, row by row

struct claim {
  double total_ms;
  double samples_per_s;
};
constexpr std::array<claim, 13> claims{{{36.35, 27.5},
                                        {37.80, 52.9},
                                        {40.35, 99.1},
                                        {44.13, 181.3},
                                        {49.79, 321.3},
                                        {58.35, 548.4},
                                        {71.46, 895.5},
                                        {91.91, 1392.6},
                                        {127.57, 2006.5},
                                        {187.68, 2728.1},
                                        {287.35, 3563.8},
                                        {499.91, 4096.7},
                                        {921.01, 4447.8}}};

// The rows that the guide's comparisons and its picks are about.
constexpr std::size_t row_128 = 7;
constexpr std::size_t row_1024 = 10;
constexpr std::size_t row_2048 = 11;
constexpr std::size_t row_4096 = 12;

// ---- shorthands

constexpr double ms(duration time) { return in(time, 1_ms); }
constexpr double GB(bytes memory) { return in(memory, 1_GB); }

constexpr double step_ms(const inputs& in, std::size_t row) {
  return ms(step_time(sweep(in)[row]));
}
constexpr double rate(const inputs& in, std::size_t row) {
  return throughput(sweep(in)[row]).value();
}

constexpr bytes memory_at(const inputs& in, std::int64_t batch, fit_weighting weighting = plain) {
  return memory_line(in, weighting).model.required({.micro_batch = batch});
}
constexpr std::int64_t largest_batch(const inputs& in,
                                     memory_budget gpu,
                                     fit_weighting weighting = plain) {
  return *max_micro_batch(gpu, memory_line(in, weighting).model);
}

// A row lies in both bands on this GPU.
constexpr bool in_bands(const inputs& in,
                        std::size_t row,
                        memory_budget gpu,
                        const range<double>& memory_share) {
  const auto d = *diagnose(sweep(in)[row], gpu, thresholds(in, memory_share));
  return !d.memory_head_room && !d.memory_tight &&
         in.good_utilisation.contains(sweep(in)[row].gpu_utilisation);
}

// ---- the results, at compile time

constexpr inputs guide;

constexpr bool near(double a, double b, double tolerance) {
  return a - b <= tolerance && b - a <= tolerance;
}

// T4.1: the last total is one millisecond short, and its rate follows from neither.
static_assert(near(step_ms(guide, row_4096), 922.01, 1e-9));
static_assert(judge(number(4447.8, 1), number(rate(guide, row_4096), 1)) == verdict::rounds);
static_assert(near(rate(guide, row_1024) / rate(guide, row_128), 2.559, 5e-4));

// T4.2: the most efficient row is 64; no row lies in the bands on 80 GB, the last one does on 40.
static_assert(pick_highest_throughput(sweep(guide))->row == row_4096);
static_assert(sweep(guide)[pick_best_efficiency(sweep(guide))->row].micro_batch == 64);
static_assert(pick_recommended(sweep(guide), guide.large_gpu, thresholds(guide, guide.good_memory))
                  .why() == failure(errc::no_row_in_bands,
                                    named_fact{fact::rows_that_ran, 13},
                                    named_fact{fact::rows_in_memory_band, 0},
                                    named_fact{fact::rows_in_utilisation_band, 5},
                                    named_fact{fact::band_low_MB, 48'000},
                                    named_fact{fact::band_high_MB, 64'000},
                                    named_fact{fact::largest_row_MB, 27'850}));
static_assert(pick_recommended(sweep(guide), guide.middle_gpu, thresholds(guide, guide.good_memory))
                  ->row == row_4096);

// T4.3: 8192 fits 80 GB by either line.
static_assert(near(GB(memory_at(guide, guide.ran_out)), 55.70, 0.005));
static_assert(memory_at(guide, guide.ran_out, relative) < guide.large_gpu);
static_assert(largest_batch(guide, guide.small_gpu) == 3506 &&
              largest_batch(guide, guide.middle_gpu) == 5871 &&
              largest_batch(guide, guide.large_gpu) == 11782);
static_assert(*batch_at_saturation(time_line(guide, plain).model, 0.9) == 2241);

// T4.4: the rule of 30 ms finds the fastest row alone.
static_assert(
    diagnose(sweep(guide)[row_4096], guide.large_gpu, thresholds(guide, guide.good_memory))
        ->loading_bound &&
    !diagnose(sweep(guide)[row_2048], guide.large_gpu, thresholds(guide, guide.good_memory))
         ->loading_bound);

// T4.5: batches of the same size, and two learning rates.
static_assert(effective_batch(guide.medium_on_80) == effective_batch(guide.large_on_80));
static_assert(near(learning_rate(guide, guide.large_on_80), 1.5e-4, 1e-18));

// ---- tables

std::string percent_text(double share, int digits = 0) {
  return decimal(100 * share, digits) + " %";
}

std::string range_text(const range<double>& r, int digits) { return text(span_of(r, digits)); }

std::string percent_range(const range<double>& share) {
  return range_text(100.0 * share, 0) + " %";
}

// What rounding each of the three times to the two decimals printed leaves open.
range<double> rate_range(const inputs& in, std::size_t row) {
  const double slack = 3 * 0.005;
  const double batch = 1000 * static_cast<double>(in.ran[row].micro_batch);
  return {batch / (step_ms(in, row) + slack), batch / (step_ms(in, row) - slack)};
}

table recomputed(const inputs& in) {
  table t{.id = "T4.1",
          .title = "step time and throughput of each batch",
          .inputs = "batch; I/O, forward and backward times (the optimizer has no column)"};
  for (std::size_t i = 0; i < in.ran.size(); ++i) {
    const std::string batch = std::to_string(in.ran[i].micro_batch);
    const claim& c = claims[i];
    const double off = step_ms(in, i) - c.total_ms;
    cell& total = t.compare(batch, "total", "ms", number(c.total_ms, 2), number(step_ms(in, i), 2));
    if (total.outcome != verdict::agrees)
      total.note = "the three times add up to " + decimal(off, 2) + " ms more than is printed";
    cell& speed = t.compare(
        batch, "throughput", "samples/s", number(c.samples_per_s, 1), number(rate(in, i), 1));
    if (speed.outcome == verdict::agrees) continue;
    const range<double> open = rate_range(in, i);
    const bool explained = judge(number(c.samples_per_s, 1), span_of(open, 1)) == verdict::agrees;
    speed.note = std::string(explained ? "explained by" : "not explained by") +
                 " rounding of the times, which leaves " + range_text(open, 1);
    if (!explained)
      speed.note += "; the printed total gives " +
                    decimal(1000 * static_cast<double>(in.ran[i].micro_batch) / c.total_ms, 1);
  }
  const auto against = [&](std::size_t larger, const shown& documented) {
    t.compare(std::to_string(in.ran[larger].micro_batch) + " against " +
                  std::to_string(in.ran[row_128].micro_batch),
              "throughput",
              "x",
              documented,
              number(rate(in, larger) / rate(in, row_128), 2));
  };
  against(row_1024, number(2.5, 1));
  against(row_4096, number(3.2, 1));
  return t;
}

// The GPUs of the guide: what it prints, and what the devices of that size leave to a plan.
struct sized_gpu {
  std::string name;
  memory_budget budget;
};
sized_gpu as_printed(bytes size) { return {decimal(GB(size), 0) + " GB as printed", size}; }
sized_gpu usable_part_of(const gpu_spec& gpu) { return {std::string(gpu.name) + ", usable", gpu}; }
std::array<sized_gpu, 7> gpus(const inputs& in) {
  return {as_printed(in.small_gpu),
          usable_part_of(catalog::rtx_4090),
          usable_part_of(catalog::rtx_3090),
          as_printed(in.middle_gpu),
          usable_part_of(catalog::a100_sxm4_40gb),
          as_printed(in.large_gpu),
          usable_part_of(catalog::a100_sxm4_80gb)};
}

// The guide has two memory bands.
struct named_band {
  const char* name;
  range<double> band;
};

table optimal(const inputs& in) {
  table t{.id = "T4.2",
          .title = "optimal configuration",
          .inputs = "the sweep; ideal bands: utilisation " + percent_range(in.good_utilisation) +
                    ", memory " + percent_range(in.good_memory) +
                    " (checklist: " + percent_range(in.checklist_memory) + ")"};
  const auto rows = sweep(in);
  const auto same_everywhere = [&](const std::string& row) {
    t.compare(row, "workers", "", number(4, 0), number(in.workers));
    t.compare(row, "mixed precision", "", word("Yes"), word(in.mixed_precision ? "Yes" : "No"));
  };

  const std::string batch_of_4096 = std::to_string(rows[row_4096].micro_batch);
  const sweep_pick fastest = *pick_highest_throughput(rows);
  const sweep_row& first = rows[fastest.row];
  const std::string speed = "highest throughput";
  t.compare(
      speed, "batch", "samples", number(4096, 0), number(first.micro_batch), text(fastest.rule));
  same_everywhere(speed);
  t.compare(speed, "throughput", "samples/s", number(4447.8, 1), number(fastest.value, 1));
  t.compare(speed, "memory", "GB", number(27.85, 2), number(GB(first.memory), 2));

  const sweep_pick densest = *pick_best_efficiency(rows);
  const std::string density = "best efficiency";
  const double named = samples_per_s_per_GB(rows[row_2048]);
  int better = 0;
  for (std::size_t i = 0; i < in.ran.size(); ++i)
    if (samples_per_s_per_GB(rows[i]) > named) ++better;
  const std::string named_batch = std::to_string(rows[row_2048].micro_batch);
  t.compare(density,
            "batch",
            "samples",
            number(2048, 0),
            number(rows[densest.row].micro_batch),
            text(densest.rule));
  same_everywhere(density);
  t.compare(density,
            "efficiency",
            "samples/s/GB",
            number(287.5, 1),
            number(densest.value, 1),
            std::to_string(better) + " of " + std::to_string(in.ran.size()) +
                " rows have more than " + named_batch);
  t.compare(
      named_batch + " itself", "efficiency", "samples/s/GB", number(287.5, 1), number(named, 1));

  // Recommended, on the sweep's GPU as printed; below, on all of them.

  const auto share = [&](memory_budget gpu) { return gpuplan::in(first.memory, gpu.size()); };
  const memory_budget usable = catalog::a100_sxm4_80gb;
  const auto by_bands = [&](memory_budget gpu, const range<double>& band) {
    const auto pick = pick_recommended(rows, gpu, thresholds(in, band));
    return pick ? number(rows[pick->row].micro_batch) : word("none");
  };
  const auto recommended_in =
      [&](const std::string& row, memory_budget gpu, const range<double>& band) {
        const std::string fills = "highest throughput in the bands; " + batch_of_4096 + " fills " +
                                  percent_text(share(gpu)) + " of the memory; the band is " +
                                  percent_range(band);
        if (in_bands(in, row_4096, gpu, band))
          t.compare(row, "batch", "samples", number(4096, 0), by_bands(gpu, band), fills);
        else
          t.breaks(row, "batch", "samples", number(4096, 0), by_bands(gpu, band), fills);
      };
  for (const named_band& r :
       {named_band{"recommended", in.good_memory},
        named_band{"recommended, checklist", in.checklist_memory},
        named_band{"recommended, upper end alone", {0, in.good_memory.high()}}}) {
    recommended_in(r.name, in.large_gpu, r.band);

    if (r.band.low() == 0) continue;
    for (const auto& [size_name, gpu] :
         {std::pair{"", memory_budget(in.large_gpu)}, std::pair{", usable", usable}}) {
      const auto filling = batches_in(r.band, gpu, memory_line(in, plain).model);
      t.also(std::string(r.name) + size_name,
             "batches that fill the band",
             "samples",
             filling ? span_of(*filling) : word("none"),
             "by the line of T4.3: what to measure; the utilisation there is not known");
    }
  }
  same_everywhere("recommended");
  t.compare("recommended",
            "throughput",
            "samples/s",
            number(4447.8, 1),
            number(rate(in, row_4096), 1),
            "of the documented row");
  t.compare("recommended",
            "memory",
            "GB",
            number(27.85, 2),
            number(GB(rows[row_4096].memory), 2),
            "of the documented row");
  t.compare("recommended",
            "memory below the end of the band",
            "",
            word("safe"),
            word(share(in.large_gpu) <= in.good_memory.high() ? "safe" : "tight"),
            percent_text(share(in.large_gpu)) + " of " + decimal(GB(in.large_gpu), 0) + " GB");
  t.compare("recommended",
            "utilisation",
            "%",
            number(93.8, 1),
            number(100 * rows[row_4096].gpu_utilisation, 1),
            "of the documented row; the band is " + percent_range(in.good_utilisation));

  for (const sized_gpu& gpu : gpus(in))
    for (const auto& [name, band] :
         {named_band{"recommended by the bands", in.good_memory},
          named_band{"recommended by the checklist", in.checklist_memory}}) {
      const auto pick = pick_recommended(rows, gpu.budget, thresholds(in, band));
      cell& c = t.also(
          gpu.name, name, "samples", pick ? number(rows[pick->row].micro_batch) : word("none"));
      if (pick)
        c.note = "fills " + percent_text(gpuplan::in(rows[pick->row].memory, gpu.budget.size()));
    }
  return t;
}

table lines(const inputs& in) {
  table t{.id = "T4.3",
          .title = "memory and time as lines, and where they lead",
          .inputs = "least squares over the rows that ran: plain, and weighted by 1/value^2"};
  const auto rows = sweep(in);
  for (const fit_weighting weighting : {plain, relative}) {
    const std::string name = weighting == plain ? ", plain" : ", relative";
    const auto quality = [&](const std::string& row,
                             const auto& residuals,
                             auto unit,
                             const char* unit_name) {
      t.also(row,
             "largest residual",
             unit_name,
             number(gpuplan::in(residuals.largest, unit), 3),
             "at batch " + std::to_string(rows[residuals.largest_row].micro_batch));
      t.also(
          row, "rms residual", unit_name, number(gpuplan::in(residuals.root_mean_square, unit), 3));
      t.also(row, "largest relative residual", "%", number(100 * residuals.largest_relative, 1));
      t.also(row,
             "R^2",
             "",
             number(residuals.r_squared, 5),
             weighting == plain ? "" : "with the weights of the fit");
    };
    const memory_fit memory = memory_line(in, weighting);
    const std::string memory_row = "memory" + name;
    t.also(
        memory_row,
        "fixed",
        "GB",
        number(GB(memory.model.fixed), 4),
        weighting == plain ? "the largest batches decide this line" : "all batches have their say");
    t.also(memory_row, "per sample", "MB", number(gpuplan::in(memory.model.per_sample, 1_MB), 4));
    quality(memory_row, memory.residuals, 1_GB, "GB");

    const time_fit time = time_line(in, weighting);
    const std::string time_row = "time" + name;
    t.also(time_row, "fixed", "ms", number(ms(time.model.fixed), 2));
    t.also(time_row, "per sample", "ms", number(ms(time.model.per_sample), 5));
    quality(time_row, time.residuals, 1_ms, "ms");

    const double saturation = saturation_throughput(time.model).value();
    const double fastest = pick_highest_throughput(rows)->value;
    t.also(time_row,
           "saturation throughput",
           "samples/s",
           number(saturation, 0),
           "the fastest row has " + percent_text(fastest / saturation) + " of it" +
               (fastest > saturation ? ": this line is too steep for large batches" : ""));
    t.also(time_row,
           "batch at " + percent_text(in.near_saturation) + " of saturation",
           "samples",
           number(*batch_at_saturation(time.model, in.near_saturation)));
    t.also(time_row,
           "batch at the knee, half of saturation",
           "samples",
           number(*batch_at_saturation(time.model, 0.5)));
  }

  for (const sized_gpu& gpu : gpus(in)) {
    for (const fit_weighting weighting : {plain, relative}) {
      const std::int64_t batch = largest_batch(in, gpu.budget, weighting);
      t.also(gpu.name,
             std::string("largest batch that fits, ") + (weighting == plain ? "plain" : "relative"),
             "samples",
             number(batch),
             "runs out at " + std::to_string(batch + 1) +
                 (batch > rows[row_4096].micro_batch ? "; beyond the measured batches" : ""));
    }
  }

  const std::string batch = std::to_string(in.ran_out);
  for (const fit_weighting weighting : {plain, relative})
    t.also(batch,
           std::string("memory by the line, ") + (weighting == plain ? "plain" : "relative"),
           "GB",
           number(GB(memory_at(in, in.ran_out, weighting)), 1),
           "extrapolated from " + std::to_string(rows[row_4096].micro_batch));

  for (const sized_gpu& gpu : {as_printed(in.large_gpu), usable_part_of(catalog::a100_sxm4_80gb)}) {
    const bool fitting =
        fits({.micro_batch = in.ran_out}, gpu.budget, memory_line(in, plain).model);
    const bool other =
        fits({.micro_batch = in.ran_out}, gpu.budget, memory_line(in, relative).model);
    t.compare(batch,
              gpu.name,
              "",
              word("OOM"),
              word(fitting ? "fits" : "OOM"),
              fitting == other ? "by either line" : "the lines disagree");
  }
  return t;
}

std::string with_comma(const std::string& before, const std::string& next) {
  if (before.empty() || next.empty()) return before + next;
  return before + ", " + next;
}

table diagnoses(const inputs& in) {
  table t{.id = "T4.4",
          .title = "diagnosis of each row, on " + decimal(GB(in.large_gpu), 0) + " GB",
          .inputs = "I/O above " + decimal(ms(in.slow_loading), 0) + " ms; utilisation " +
                    percent_range(in.good_utilisation) + ", memory " +
                    percent_range(in.good_memory) +
                    "; compute bound has no number in the guide, here: not under-utilised, and "
                    "computing longer than loading"};
  const auto rows = sweep(in);
  for (std::size_t i = 0; i < in.ran.size(); ++i) {
    const std::string batch = std::to_string(rows[i].micro_batch);
    const auto d = *diagnose(rows[i], in.large_gpu, thresholds(in, in.good_memory));
    std::string found, advice;
    const auto add = [&](bool holds, const char* what, const char* todo) {
      if (!holds) return;
      found = with_comma(found, what);
      advice = with_comma(advice, todo);
    };
    add(d.loading_bound, "loading bound", "more workers, pin_memory, a faster SSD");
    add(d.under_utilised, "under-utilised", "a larger batch, more workers");
    add(d.compute_bound,
        "compute bound",
        in.mixed_precision ? "a larger batch, a lighter model"
                           : "AMP, a larger batch, a lighter model");
    const bool said = advice.find("a larger batch") != std::string::npos;
    add(d.memory_head_room, "memory head-room", said ? "" : "a larger batch");
    add(d.memory_tight, "memory tight", "a smaller batch");
    t.also(batch, "diagnosis", "", word(found.empty() ? "nothing" : found), advice);
    t.also(batch, "waits for data", "%", number(100 * d.data_share, 1));
    t.also(batch,
           "GPU idle in a step",
           "ms",
           number((1 - rows[i].gpu_utilisation) * step_ms(in, i), 1),
           "waits " + decimal(ms(rows[i].data), 1) + " ms of it for data at most");
    t.also(batch, "memory", "%", number(100 * d.memory_share, 1));
  }
  duration longest{};
  for (const measurement& m : in.ran)
    if (longest < m.data) longest = m.data;
  t.also("all rows",
         "longest I/O, of the threshold",
         "%",
         number(100 * gpuplan::in(longest, in.slow_loading), 0));
  t.not_computable(std::to_string(in.ran_out),
                   "diagnosis",
                   "",
                   nothing(),
                   "times, utilisation and memory, which a row that ran out has not");
  return t;
}

table settings(const inputs& in) {
  table t{.id = "T4.5",
          .title = "recommended settings",
          .inputs = "micro-batch x accumulation on one GPU; " +
                    std::to_string(in.samples_per_epoch) + " samples; square-root rule from " +
                    decimal(1e4 * in.tuned.learning_rate.low(), 1) + "e-4 at " +
                    std::to_string(in.tuned.effective_batch)};
  const auto rows = sweep(in);

  struct line {
    const char* name;
    const setting& with;
    shown effective{};  // where the guide prints it
    shown rate{};       // in 1e-4
    shown workers{};
    const expectation* expected = nullptr;
    shown epoch{};
    const char* epoch_unit = "";
    shown memory{};  // GB
    shown memory_share{};
  };
  const line lines_of[] = {
      {.name = "small, 80 GB",
       .with = in.small_on_80,
       .rate = number(3.0, 1),
       .workers = number(12),
       .expected = &in.small,
       .epoch = number(45),
       .epoch_unit = "s",
       .memory = number(28),
       .memory_share = number(35)},
      {.name = "small, 80 GB, or", .with = in.small_on_80_or, .rate = number(3.0, 1)},
      {.name = "medium, 80 GB",
       .with = in.medium_on_80,
       .rate = number(2.0, 1),
       .workers = number(12),
       .expected = &in.medium,
       .epoch = number(2),
       .epoch_unit = "min",
       .memory = number(45),
       .memory_share = number(57)},
      {.name = "medium, 80 GB, or", .with = in.medium_on_80_or, .rate = number(2.0, 1)},
      {.name = "large, 80 GB",
       .with = in.large_on_80,
       .effective = number(1024),
       .rate = number(1.5, 1),
       .workers = number(8),
       .expected = &in.large,
       .epoch = number(7),
       .epoch_unit = "min",
       .memory = number(65),
       .memory_share = number(82)},
      {.name = "large, 80 GB, or",
       .with = in.large_on_80_or,
       .effective = number(1024),
       .rate = number(1.5, 1)},
      {.name = "small, 40 GB", .with = in.small_on_40, .workers = number(8)},
      {.name = "medium, 40 GB",
       .with = in.medium_on_40,
       .effective = number(1024),
       .workers = number(8)},
      {.name = "small, 24 GB", .with = in.small_on_24, .workers = number(6)},
      {.name = "medium, 24 GB",
       .with = in.medium_on_24,
       .effective = number(1024),
       .workers = number(4)},
  };
  const auto or_this = [](std::string_view name) { return name.ends_with(", or"); };
  for (const line& l : lines_of) {
    t.compare(l.name,
              "effective batch",
              "samples",
              l.effective,
              number(effective_batch(l.with)),
              std::to_string(l.with.micro_batch) + " x " + std::to_string(l.with.accumulation) +
                  (or_this(l.name) && l.effective.what != shown::kind::nothing
                       ? "; the guide's comment stands beside both batches"
                       : ""));
    t.compare(l.name,
              "learning rate by the square-root rule",
              "1e-4",
              l.rate,
              number(1e4 * learning_rate(in, l.with), 2),
              &l.with == &in.medium_on_80_or
                  ? "one rate for both batches; to the one digit of 0.0002 this would agree"
              : or_this(l.name)             ? "the guide has one rate for both batches"
              : &l.with == &in.small_on_80  ? "the rule starts here"
              : &l.with == &in.medium_on_80 ? "0.0002 read as 2.0e-4, since 0.00015 is printed too"
                                            : "");
    if (l.workers.what != shown::kind::nothing)
      t.not_computable(
          l.name,
          "workers",
          "",
          l.workers,
          "a sweep over workers: this one has " + std::to_string(in.workers) + " in every row");
    if (l.expected == nullptr) continue;

    const double seconds = gpuplan::in(epoch_time(in, *l.expected), 1_s);
    const bool in_minutes = std::string(l.epoch_unit) == "min";
    t.compare(l.name,
              "epoch",
              l.epoch_unit,
              l.epoch,
              in_minutes ? number(seconds / 60, 2) : number(seconds, 1),
              "at " + decimal(l.expected->throughput.value(), 0) + " samples/s");
    const auto share = [&](memory_budget gpu) {
      return gpuplan::in(l.expected->memory, gpu.size());
    };
    const memory_budget usable = catalog::a100_sxm4_80gb;
    t.compare(l.name,
              "memory",
              "%",
              l.memory_share,
              number(100 * share(in.large_gpu), 1),
              decimal(GB(l.expected->memory), 0) + " GB of " + decimal(GB(in.large_gpu), 0) +
                  " GB as printed");
    t.also(l.name,
           "memory, of the usable",
           "%",
           number(100 * share(usable), 1),
           "of " + decimal(GB(usable.size()), 1) + " GB");
    for (const auto& [name, limits] : {named_band{"memory band, ideal", in.good_memory},
                                       named_band{"memory band, checklist", in.checklist_memory}}) {
      const auto add = [&, band = limits](const std::string& quantity, memory_budget gpu) {
        const double part = share(gpu);
        const shown allowed = span_of(GB(gpu.size()) * band, 1);
        const std::string note = percent_text(part, 1) + "; the band is " + percent_range(band);
        if (band.contains(part))
          t.compare(l.name, quantity, "GB", l.memory, allowed, note);
        else
          t.breaks(l.name, quantity, "GB", l.memory, allowed, note);
      };

      add(name, in.large_gpu);
      add(std::string(name) + ", of the usable", usable);
    }
  }

  // The small model's expectations against the sweep, and its settings on smaller GPUs.
  const sweep_row& fastest = rows[pick_highest_throughput(rows)->row];
  const char* same = "the sweep's fastest row, taken to be this model";
  t.compare("small, 80 GB",
            "throughput",
            "samples/s",
            number(4000, -2),
            number(throughput(fastest).value(), 0),
            "4000 read to the hundred, as 1500 is printed; the sweep's fastest row");
  t.compare("small, 80 GB",
            "memory in the sweep",
            "GB",
            number(28, 0),
            number(GB(fastest.memory), 2),
            same);
  t.compare("small, 80 GB",
            "utilisation",
            "%",
            number(93, 0),
            number(100 * fastest.gpu_utilisation, 1),
            same);
  const std::string refused = "the guide's own sweep ran out at " + std::to_string(in.ran_out);
  if (in.small_on_80_or.micro_batch >= in.ran_out)
    t.breaks(
        "small, 80 GB, or", "batch in the sweep", "samples", number(8192), word("OOM"), refused);
  else
    t.compare("small, 80 GB, or",
              "batch in the sweep",
              "samples",
              number(8192),
              number(in.small_on_80_or.micro_batch),
              refused);

  struct smaller {
    const char* name;
    const setting& with;
    shown documented;
    bytes printed;
    const gpu_spec& device;
  };
  const smaller small_settings[] = {
      {"small, 40 GB", in.small_on_40, number(2048, 0), in.middle_gpu, catalog::a100_sxm4_40gb},
      {"small, 24 GB", in.small_on_24, number(1024, 0), in.small_gpu, catalog::rtx_4090}};
  for (const smaller& s : small_settings) {
    const auto share = [&](memory_budget gpu) {
      return gpuplan::in(memory_at(in, s.with.micro_batch), gpu.size());
    };
    t.also(s.name, "memory", "%", number(100 * share(s.printed), 1), "by the line of T4.3");
    t.also(s.name, "memory, of the usable", "%", number(100 * share(s.device), 1), s.device.name);
    for (const auto& [name, limits] : {named_band{"batch by the ideal band", in.good_memory},
                                       named_band{"batch by the checklist", in.checklist_memory}}) {
      const auto by_band = [&, band = limits](memory_budget gpu) {
        const auto pick = pick_recommended(rows, gpu, thresholds(in, band));
        return pick ? number(rows[pick->row].micro_batch) : word("none");
      };
      const auto add = [&, band = limits](const std::string& quantity, memory_budget gpu) {
        if (band.contains(share(gpu)))
          t.compare(s.name, quantity, "samples", s.documented, by_band(gpu));
        else
          t.breaks(s.name,
                   quantity,
                   "samples",
                   s.documented,
                   by_band(gpu),
                   percent_text(share(gpu)) + " of the memory; the band is " + percent_range(band));
      };

      add(name, s.printed);
    }
  }
  for (const auto& [name, percent, model] :
       {std::tuple{"medium, 80 GB", 88, "medium"}, std::tuple{"large, 80 GB", 85, "large"}})
    t.not_computable(name,
                     "utilisation",
                     "%",
                     number(percent),
                     std::string("a sweep of the ") + model + " model");
  for (const char* name : {"medium, 40 GB", "medium, 24 GB"})
    t.not_computable(name, "memory", "%", nothing(), "the medium model's memory at a second batch");
  return t;
}

// ---- findings

std::vector<std::string> findings(const inputs& in) {
  const auto rows = sweep(in);
  std::vector<std::string> found;
  const auto batch = [&](std::size_t row) { return std::to_string(rows[row].micro_batch); };

  const double total = step_ms(in, row_4096);
  found.push_back("Batch " + batch(row_4096) + ": the three times add up to " + decimal(total, 2) +
                  " ms, not " + decimal(claims[row_4096].total_ms, 2) + "; so it reaches " +
                  decimal(rate(in, row_4096), 1) + " samples/s, not " +
                  decimal(claims[row_4096].samples_per_s, 1) + ".");

  const sweep_pick densest = *pick_best_efficiency(rows);
  found.push_back(
      "Best efficiency is batch " + batch(densest.row) + " with " + decimal(densest.value, 1) +
      " samples/s/GB, " + decimal(densest.value / samples_per_s_per_GB(rows[row_2048]), 1) +
      " times that of " + batch(row_2048) +
      "; but the measure favours small batches and says nothing about how long training "
      "takes: do not choose by it.");

  const auto advised = [&](memory_budget gpu) {
    return pick_recommended(rows, gpu, thresholds(in, in.good_memory));
  };
  const auto filling = batches_in(in.good_memory, in.large_gpu, memory_line(in, plain).model);
  if (!advised(in.large_gpu) && filling)
    found.push_back("No row lies in the guide's own bands on " + decimal(GB(in.large_gpu), 0) +
                    " GB: the recommended " + batch(row_4096) + " fills " +
                    percent_text(gpuplan::in(rows[row_4096].memory, in.large_gpu)) +
                    ". By the memory line batches " + text(span_of(*filling)) +
                    " would; measure some of them.");
  if (const auto pick = advised(in.middle_gpu))
    found.push_back(
        "On " + decimal(GB(in.middle_gpu), 0) + " GB the same rule takes batch " +
        batch(pick->row) + " (" + percent_text(gpuplan::in(rows[pick->row].memory, in.middle_gpu)) +
        " of the memory); the recommended " + std::to_string(in.small_on_40.micro_batch) +
        " leaves " +
        percent_text(1 - gpuplan::in(memory_at(in, in.small_on_40.micro_batch), in.middle_gpu)) +
        " empty.");

  const bytes needed = memory_at(in, in.ran_out);
  const bytes also_needed = memory_at(in, in.ran_out, relative);
  if (needed <= in.large_gpu) {
    const bytes steeper =
        (in.large_gpu - rows[row_4096].memory) / (in.ran_out - rows[row_4096].micro_batch);
    found.push_back("Batch " + std::to_string(in.ran_out) +
                    " should not have run out: the lines say " + decimal(GB(needed), 1) + " and " +
                    decimal(GB(also_needed), 1) + " GB of " + decimal(GB(in.large_gpu), 0) +
                    ". Each sample above " + batch(row_4096) + " would have to take at least " +
                    decimal(gpuplan::in(steeper, 1_MB), 1) + " MB, not " +
                    decimal(gpuplan::in(memory_line(in, plain).model.per_sample, 1_MB), 1) +
                    ": run it again, alone on the GPU. As it stands, \"or " +
                    std::to_string(in.small_on_80_or.micro_batch) +
                    "\" recommends what the guide's sweep could not run.");
  }

  const time_fit time = time_line(in, plain);
  found.push_back(
      "Throughput saturates at about " + decimal(saturation_throughput(time.model).value(), 0) +
      " samples/s; batch " + std::to_string(*batch_at_saturation(time.model, in.near_saturation)) +
      " reaches " + percent_text(in.near_saturation) + " of it. From " + batch(row_2048) + " to " +
      batch(row_4096) + " the sweep gains " +
      percent_text(rate(in, row_4096) / rate(in, row_2048) - 1, 1) + " for " +
      decimal(gpuplan::in(rows[row_4096].memory, rows[row_2048].memory), 2) + " times the memory.");

  const auto waits = [&](std::size_t row) {
    return diagnose(rows[row], in.large_gpu, thresholds(in, in.good_memory))->data_share;
  };
  found.push_back("\"I/O above " + decimal(ms(in.slow_loading), 0) +
                  " ms\" grows with the batch: it blames " + batch(row_4096) + ", which waits " +
                  percent_text(waits(row_4096), 1) + " of its step for data, and not " + batch(0) +
                  ", which waits " + percent_text(waits(0), 1) +
                  ". Judge loading by its share of the step.");

  const double large_printed = gpuplan::in(in.large.memory, in.large_gpu);
  const double large_usable = gpuplan::in(in.large.memory, usable_memory(catalog::a100_sxm4_80gb));
  found.push_back("The large model's " + decimal(GB(in.large.memory), 0) + " GB are " +
                  percent_text(large_printed, 1) + " of " + decimal(GB(in.large_gpu), 0) +
                  " GB, outside the guide's " + percent_range(in.good_memory) +
                  "; of what an A100 80 GB really leaves they are " +
                  percent_text(large_usable, 1) + ", inside.");

  found.push_back("Medium and large train with effective batches of " +
                  std::to_string(effective_batch(in.medium_on_80)) + " and " +
                  std::to_string(effective_batch(in.large_on_80)) +
                  " at two learning rates; the square-root rule gives " +
                  decimal(1e4 * learning_rate(in, in.medium_on_80), 2) + "e-4 and " +
                  decimal(1e4 * learning_rate(in, in.large_on_80), 2) + "e-4, and " +
                  decimal(1e4 * learning_rate(in, in.medium_on_80_or), 2) + "e-4 for the " +
                  std::to_string(effective_batch(in.medium_on_80_or)) + " named beside it.");

  const auto idle = [&](std::size_t row) {
    return (1 - rows[row].gpu_utilisation) * step_ms(in, row);
  };
  range<double> idles = idle(0);
  range<double> loads = ms(rows[0].data);
  for (std::size_t i = 1; i <= row_1024; ++i) {
    idles = hull(idles, idle(i));
    loads = hull(loads, ms(rows[i].data));
  }
  found.push_back("Up to batch " + batch(row_1024) + " the GPU idles " + range_text(idles, 0) +
                  " ms in every step, whatever the batch, of which loading explains at most " +
                  range_text(loads, 0) +
                  " ms: the rest is a fixed cost per step, which workers do not lower and larger "
                  "batches spread.");

  const std::int64_t samples = effective_batch(in.small_on_80);
  std::string small = "The small model's effective batch shrinks with the GPU, " +
                      std::to_string(samples) + ", " +
                      std::to_string(effective_batch(in.small_on_40)) + ", " +
                      std::to_string(effective_batch(in.small_on_24)) +
                      ", and no learning rate is given for the smaller ones: take " +
                      decimal(1e4 * learning_rate(in, in.small_on_40), 2) + "e-4 and " +
                      decimal(1e4 * learning_rate(in, in.small_on_24), 2) + "e-4";
  if (samples % in.small_on_40.micro_batch == 0 && samples % in.small_on_24.micro_batch == 0)
    small += ", or keep it with accumulation " +
             std::to_string(samples / in.small_on_40.micro_batch) + " and " +
             std::to_string(samples / in.small_on_24.micro_batch);
  found.push_back(small + ".");
  return found;
}

}  // namespace

report make_report(const inputs& in) {
  return {.guide = "004",
          .title = "Benchmark sweeps",
          .tables = {recomputed(in), optimal(in), lines(in), diagnoses(in), settings(in)},
          .findings = findings(in)};
}

}  // namespace guides::batch_sweep

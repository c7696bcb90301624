#include <gpuplan/io/sweep/advice.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "guides/batch_sweep/tables.hpp"

namespace guides::batch_sweep {

namespace {

// What rounding each of the three times to the two decimals printed leaves open.
range<double> rate_range(const inputs& in, std::size_t row) {
  const double slack = 3 * 0.005;
  const double batch = 1000 * static_cast<double>(in.ran[row].micro_batch);
  return {batch / (step_ms(in, row) + slack), batch / (step_ms(in, row) - slack)};
}

}  // namespace

// ---- T4.1

// The last total is one millisecond short, and its rate follows from neither.
static_assert(near(step_ms(guide, row_4096), 922.01, 1e-9));
static_assert(judge(number(4447.8, 1), number(rate(guide, row_4096), 1)) == verdict::rounds);
static_assert(near(rate(guide, row_1024) / rate(guide, row_128), 2.559, 5e-4));

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

// ---- T4.4

// The rule of 30 ms finds the fastest row alone.
static_assert(
    diagnose(sweep(guide)[row_4096], guide.large_gpu, thresholds(guide, guide.good_memory))
        ->loading_bound &&
    !diagnose(sweep(guide)[row_2048], guide.large_gpu, thresholds(guide, guide.good_memory))
         ->loading_bound);

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
    const auto [found, advice] = gpuplan::io::advice_on(rows[i], d);
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

namespace {

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

}  // namespace

// ---- T4.2

// The most efficient row is 64; no row lies in the bands on 80 GB, the last one does on 40.
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

// ---- T4.3

// 8192 fits 80 GB by either line.
static_assert(near(GB(memory_at(guide, guide.ran_out)), 55.70, 0.005));
static_assert(memory_at(guide, guide.ran_out, relative) < guide.large_gpu);
static_assert(largest_batch(guide, guide.small_gpu) == 3506 &&
              largest_batch(guide, guide.middle_gpu) == 5871 &&
              largest_batch(guide, guide.large_gpu) == 11782);
static_assert(*batch_at_saturation(time_line(guide, plain).model, 0.9) == 2241);

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

}  // namespace guides::batch_sweep

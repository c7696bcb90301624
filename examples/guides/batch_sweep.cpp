#include "guides/batch_sweep.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "guides/batch_sweep/tables.hpp"

namespace guides::batch_sweep {

// T4.5: batches of the same size, and two learning rates.
static_assert(effective_batch(guide.medium_on_80) == effective_batch(guide.large_on_80));
static_assert(near(learning_rate(guide, guide.large_on_80), 1.5e-4, 1e-18));

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
    const model_size* size = nullptr;
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
       .size = &in.small_model,
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
       .size = &in.medium_model,
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
       .size = &in.large_model,
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
    const range<duration> likely = likely_epoch(in, *l.size, l.with);
    const duration unit = in_minutes ? 1_min : 1_s;
    t.compare(l.name,
              "epoch of T4.6's model, 80 %",
              l.epoch_unit,
              l.epoch,
              span_of({gpuplan::in(likely.low(), unit), gpuplan::in(likely.high(), unit)},
                      in_minutes ? 1 : 0),
              "by a step's time on an A100, 80 GB");
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

namespace {

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
  found.push_back(finding_of_the_models(in));
  found.push_back(finding_of_the_memory(in));
  found.push_back(finding_of_the_hours(in));
  return found;
}

}  // namespace

report make_report(const inputs& in) {
  return {.guide = "004",
          .title = "Benchmark sweeps",
          .tables = {recomputed(in),
                     optimal(in),
                     lines(in),
                     diagnoses(in),
                     settings(in),
                     the_models(in),
                     the_memory(in)},
          .findings = findings(in)};
}

}  // namespace guides::batch_sweep

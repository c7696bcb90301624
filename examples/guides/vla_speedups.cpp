#include "guides/vla_speedups.hpp"

#include <string>
#include <utility>

#include "guides/vla_speedups/tables.hpp"

namespace guides::vla_speedups {
namespace {

// The results, at compile time.
constexpr inputs guide;

// T2.1: the product is 1.1 x 1.2 x 1.15 to 1.15 x 1.3 x 1.25; shares that nobody gave leave
// anything open; the step as nothing but forward and backward gives 38 to 62.5 %.
static_assert(near(product_gain(guide, reading::rate, true).low(), 0.518) &&
              near(product_gain(guide, reading::rate, true).high(), 0.86875));
static_assert(near(product_gain(guide, reading::rate, false).high(), 0.495));
static_assert(gain_at(guide, any_shares).low() == 0 && gain_at(guide, any_shares).high() > 100);
static_assert(near(gain_at(guide, all_compute).low(), 0.38) &&
              near(gain_at(guide, all_compute).high(), 0.625));
static_assert(judge(span_of({40, 60}, 0),
                    span_of(100.0 * product_gain(guide, reading::time, true), 1)) ==
              verdict::differs);

// T2.2: a step 40 % shorter is 66.7 % more throughput; the epochs agree with the steps only where
// the load is not in them.
static_assert(near(time_saved(guide.step_before, guide.step_after), 0.4));
static_assert(near(steps_before(guide, load::before_the_epoch), 1800) &&
              near(steps_after(guide, load::before_the_epoch), 1800));
static_assert(steps_after(guide, load::inside_the_epoch) >
              steps_before(guide, load::inside_the_epoch) + 33);
static_assert(near(in(worker_time(guide, guide.step_after).low(), 1_s), 0.1125));

// T2.3: the line through the A100 points starts at -80 GB.
static_assert(a100_line(guide, memory::as_printed) ==
              gpuplan::affine_memory{.fixed = -1 * 80_GB, .per_sample = 5_GB});
static_assert(validate(a100_line(guide, memory::usable)).why().code == gpuplan::errc::negative);
static_assert(largest_batch(a100_line(guide, memory::as_printed), 24_GB) == 20);
static_assert(least_on_80_gb(guide, memory::as_printed) == 48);

// T2.4
static_assert(documented_plan(guide).effective_batch() == 512);
static_assert(same_effective_batch(guide, guide.gpus[1]) == gpuplan::batch_plan{16, 4, 8});
static_assert(same_effective_batch(guide, guide.gpus[3]) == gpuplan::batch_plan{8, 4, 16});

constexpr range<double> percent(range<double> share) { return 100.0 * share; }
constexpr double in_GB(bytes memory) { return in(memory, 1_GB); }
constexpr range<double> in_seconds(range<duration> time) {
  return {in(time.low(), 1_s), in(time.high(), 1_s)};
}

std::string span_text(range<double> value, int digits) { return text(span_of(value, digits)); }

table gains(const inputs& in) {
  table t{.id = "T2.1",
          .title = "what the speed-ups add up to",
          .inputs = "the gains; per phase, each counts in the phases that it touches only"};
  // The summary table, against the sections that it sums up.
  struct item {
    const char* name;
    range<double> documented;
    range<double> section;
    const char* note;
  };
  const item items[] = {
      {"dataset init",
       {30, 50},
       in.dataset_init,
       "of the time, says the section; no step gets shorter by it"},
      {"data loading", {10, 15}, in.loading, "the section says: of training throughput"},
      {"cuDNN benchmark", {20, 30}, in.cudnn, "of forward and backward, at a fixed input size"},
      {"mixed precision", {15, 25}, in.bf16, "of forward and backward; in use already, says 3.2"},
  };
  for (const item& i : items)
    t.compare(i.name,
              "gain, summary against section",
              "%",
              span_of(i.documented, 0),
              span_of(percent(i.section), 0),
              i.note);
  t.compare("CSV -> NPZ",
            "gain, summary against section",
            "x",
            span_of({10, 100}, 0),
            span_of(in.npz, 0),
            "of reading robot_states only");
  for (const item& i : items) {
    t.also(i.name, "speed-up if of the rate", "x", span_of(factor(i.section, reading::rate), 2));
    t.also(i.name, "speed-up if of the time", "x", span_of(factor(i.section, reading::time), 2));
  }
  t.also("data loading",
         "least share of the step",
         "%",
         span_of(percent(*gpuplan::time_saved(factor(in.loading, reading::rate))), 1),
         "that +10-15 % of training throughput needs, however fast loading gets");
  t.also("CSV -> NPZ",
         "speed-up of smaller files alone",
         "x",
         span_of(npz_by_size(in), 1),
         "reading bound by bytes; the rest of it would be parsing text");
  t.also("mixed precision",
         "activations' share of memory",
         "%",
         span_of(percent(activation_share(in)), 0),
         "that the memory saved implies: autocast halves them and nothing else");

  const auto whole = [&](const char* row, range<double> gain, const char* note) {
    t.compare(row,
              "throughput gain, all together",
              "%",
              span_of({40, 60}, 0),
              span_of(percent(gain), 1),
              note);
  };
  whole("product, of the rate",
        product_gain(in, reading::rate, true),
        "loading x cuDNN x BF16, as if each touched the whole step");
  whole("product, of the time",
        product_gain(in, reading::time, true),
        "the other reading of \"faster\"; the sections say throughput and speed");
  whole("product without BF16",
        product_gain(in, reading::rate, false),
        "if BF16 was on before the changes, as section 3.2 says");
  whole("per phase, any shares",
        gain_at(in, any_shares),
        "no information: without shares, any gain is possible");
  whole("per phase, no robot_states",
        gain_at(in, any_shares_without_robot_states),
        "any shares of loading, forward, backward, optimizer");
  whole("per phase, all compute",
        gain_at(in, all_compute),
        "forward and backward are the whole step");
  whole("per phase, assumed shares",
        gain_at(in, assumed_shares(in)),
        "shares of ours: see the inputs");
  whole("assumed shares without BF16",
        gain_at(in, assumed_shares(in), false),
        "the same, with BF16 on before the changes");
  t.also("product with torch.compile",
         "throughput gain, all together",
         "%",
         span_of(percent(product_gain_with_compile(in)), 1),
         "optional in the guide, and not in its summary");
  return t;
}

table before_and_after(const inputs& in) {
  table t{.id = "T2.2",
          .title = "before and after",
          .inputs = "seconds and minutes before, and those expected after"};
  t.compare("dataset load",
            "time saved",
            "%",
            number(50),
            number(100 * time_saved(in.load_before, in.load_after), 1));
  t.compare("step",
            "time saved",
            "%",
            number(40),
            number(100 * time_saved(in.step_before, in.step_after), 1));
  t.compare("epoch",
            "time saved",
            "%",
            number(40),
            number(100 * time_saved(in.epoch_before, in.epoch_after), 1));
  t.compare("step",
            "throughput gain",
            "%",
            span_of({40, 60}, 0),
            number(100 * (in.step_before / in.step_after - 1), 1),
            "of the expected step; the summary promises less");

  const auto load_row = [&](const char* row, reading as, const char* note) {
    t.compare(
        row, "load after", "s", number(150), span_of(in_seconds(load_by_gain(in, as)), 0), note);
  };
  load_row("30-50 % of the time", reading::time, "the best end of it");
  load_row("30-50 % of the rate",
           reading::rate,
           "the summary's \"faster\" so read; the section says of the time");

  const auto step_row = [&](const char* row, range<double> gain) {
    t.compare(
        row, "step after", "s", number(0.9, 1), span_of(in_seconds(step_by_gain(in, gain)), 2));
  };
  step_row("by the product", product_gain(in, reading::rate, true));
  step_row("by the product without BF16", product_gain(in, reading::rate, false));
  step_row("by the assumed shares", gain_at(in, assumed_shares(in)));

  const auto epoch_rows = [&](const char* row, load is, const char* note) {
    t.also(row, "steps before", "steps", number(steps_before(in, is), 1));
    t.also(row, "steps after", "steps", number(steps_after(in, is), 1), note);
    t.compare(row,
              "epoch after, same steps",
              "min",
              number(27),
              number(gpuplan::in(epoch_by_steps(in, is), 1_min), 1));
  };
  epoch_rows("load before the epoch", load::before_the_epoch, "the same number of steps");
  epoch_rows("load inside the epoch",
             load::inside_the_epoch,
             "2 % more: only the rounding of the minutes can hide it");
  const char* with_load = "first epoch with the load before it";
  t.also(
      "before", with_load, "min", number(gpuplan::in(in.load_before + in.epoch_before, 1_min), 1));
  t.also("after", with_load, "min", number(gpuplan::in(in.load_after + in.epoch_after, 1_min), 1));

  for (const auto& [row, step] :
       {std::pair{"before", in.step_before}, std::pair{"after", in.step_after}})
    t.also(row,
           "a worker's time per sample, at most",
           "s",
           span_of(in_seconds(worker_time(in, step)), 2),
           "workers x step / batch of the A100 80GB: longer, and the step waits for data");
  t.not_computable("num_workers",
                   "workers",
                   "",
                   span_of({4, 8}),
                   "the time that a worker takes for a sample, and the CPU's cores");
  add_likely_steps(t, in);
  return t;
}

table batches(const inputs& in) {
  table t{.id = "T2.3",
          .title = "batch by GPU",
          .inputs = "the guide's four batches; GB as printed, and what the driver leaves"};
  constexpr int documented[] = {32, 24, 16, 12};
  for (const memory which : {memory::as_printed, memory::usable}) {
    const std::string suffix = which == memory::as_printed ? ", GB as printed" : ", usable bytes";
    const auto line = a100_line(in, which);
    t.also("A100 line" + suffix, "per sample", "GB", number(in_GB(line.per_sample), 2));
    t.also(
        "A100 line" + suffix,
        "fixed part",
        "GB",
        number(in_GB(line.fixed), 1),
        validate(line) ? "" : "below 0: no model; one of the two batches leaves its card unfilled");
    for (std::size_t i = 0; i < 4; ++i)
      t.compare(in.gpus[i].name + suffix,
                "batch on the A100 line",
                "samples",
                number(documented[i]),
                number(largest_batch(line, memory_of(in.gpus[i], which))),
                i < 2 ? "a point of the line" : "");
    t.compare(in.gpus[0].name + suffix,
              "least batch if 24 fill 40 GB",
              "samples",
              number(documented[0]),
              number(least_on_80_gb(in, which)),
              "twice the memory holds at least twice the samples");
    const auto fitting = all_fit(in, which);
    t.also("all four fit" + suffix,
           "per sample, at most",
           "GB",
           number(in_GB(fitting.per_sample), 2),
           "with a fixed part of 0; less with one");
    for (std::size_t i = 0; i < 4; ++i)
      t.compare(in.gpus[i].name + suffix,
                "batch if all four fit",
                "samples",
                number(documented[i]),
                number(largest_batch(fitting, memory_of(in.gpus[i], which))),
                memory_of(in.gpus[i], which) / in.gpus[i].micro_batch <= fitting.per_sample
                    ? "sets the most per sample"
                    : "");
  }
  for (const gpu_batch* gpu : {&in.gpus[2], &in.gpus[3]})
    t.also(std::string(gpu->name) + ", usable bytes",
           "memory",
           "GB",
           number(in_GB(memory_of(*gpu, memory::usable)), 2),
           "as much on both, to 0.1 %: memory cannot tell 16 from 12");
  return t;
}

table effective_batches(const inputs& in) {
  table t{.id = "T2.4",
          .title = "the same effective batch",
          .inputs = "batch x accumulation x GPUs; the batches of T2.3 as upper bounds"};
  t.compare("32 x 4 x 4",
            "effective batch",
            "samples",
            number(512),
            number(documented_plan(in).effective_batch()));
  for (const gpu_batch& gpu : in.gpus) {
    const auto plan = same_effective_batch(in, gpu);
    const auto nearest = nearest_at_documented_batch(in, gpu);
    t.also(gpu.name, "micro-batch", "samples", number(plan.micro_batch));
    t.also(gpu.name, "accumulation", "", number(plan.accumulation));
    t.also(gpu.name,
           "effective batch",
           "samples",
           number(plan.effective_batch()),
           plan.micro_batch == gpu.micro_batch ? "at the guide's batch"
                                               : "the guide's batch does not divide it");
    t.also(gpu.name,
           "nearest at the guide's batch",
           "samples",
           number(nearest.effective_batch()),
           std::to_string(nearest.micro_batch) + " x " + std::to_string(nearest.accumulation) +
               " x " + std::to_string(nearest.data_parallel));
  }
  return t;
}

std::vector<std::string> findings(const inputs& in) {
  const auto product = percent(product_gain(in, reading::rate, true));
  const auto assumed = percent(gain_at(in, assumed_shares(in)));
  const auto without_bf16 = percent(gain_at(in, assumed_shares(in), false));
  const auto line = a100_line(in, memory::as_printed);
  std::vector<std::string> found;
  found.push_back(
      "The gains multiply to " + span_text(product, 1) +
      " % if each touched the whole step; per phase, at the shares assumed, they give " +
      span_text(assumed, 1) + " %, and " + span_text(without_bf16, 1) +
      " % if BF16 was on before, as the guide says. Measure the shares first.");
  found.push_back(
      "Forward and backward as the whole step give " +
      span_text(percent(gain_at(in, all_compute)), 1) +
      " %, about the 40-60 % of the summary: whatever else is in the step, robot_states "
      "aside, lowers it.");
  found.push_back("A step of " + decimal(gpuplan::in(in.step_after, 1_s), 1) + " s instead of " +
                  decimal(gpuplan::in(in.step_before, 1_s), 1) + " s is " +
                  decimal(100 * (in.step_before / in.step_after - 1), 1) +
                  " % more throughput, more than the summary's 40-60 %; the time saved is " +
                  decimal(100 * time_saved(in.step_before, in.step_after), 0) + " %.");
  found.push_back("With the dataset load before the epoch, the minutes and seconds give " +
                  decimal(steps_before(in, load::before_the_epoch), 0) + " steps before and " +
                  decimal(steps_after(in, load::before_the_epoch), 0) + " after; with it inside, " +
                  decimal(steps_before(in, load::inside_the_epoch), 0) + " and " +
                  decimal(steps_after(in, load::inside_the_epoch), 0) +
                  ": the guide most likely counts it apart.");
  found.push_back("The A100 batches are not both the largest: the line through them starts at " +
                  decimal(in_GB(line.fixed), 0) + " GB. If " +
                  std::to_string(in.gpus[1].micro_batch) +
                  " fill the 40 GB card, the 80 GB card holds at least " +
                  std::to_string(least_on_80_gb(in, memory::as_printed)) +
                  ". Find the largest batch on each card instead.");
  found.push_back("RTX 4090 and RTX 3090 have the same memory: if " +
                  std::to_string(in.gpus[2].micro_batch) +
                  " fit the one, they fit the other, and " +
                  std::to_string(in.gpus[3].micro_batch) + " is no limit of memory.");
  for (const gpu_batch& gpu : in.gpus) {
    const auto plan = same_effective_batch(in, gpu);
    if (plan.micro_batch == gpu.micro_batch) continue;
    found.push_back("On " + std::to_string(in.data_parallel) + " x " + gpu.name + ", batch " +
                    std::to_string(gpu.micro_batch) + " cannot make an effective batch of " +
                    std::to_string(plan.effective_batch()) + ": run --batch_size " +
                    std::to_string(plan.micro_batch) + " --grad_accum " +
                    std::to_string(plan.accumulation) + ".");
  }
  found.push_back(finding_of_the_model(in));
  found.push_back(finding_of_the_hours(in));
  return found;
}

}  // namespace

report make_report(const inputs& in) {
  return {.guide = "002",
          .title = "VLA training speed-ups",
          .tables =
              {gains(in), before_and_after(in), batches(in), effective_batches(in), the_model(in)},
          .findings = findings(in)};
}

}  // namespace guides::vla_speedups

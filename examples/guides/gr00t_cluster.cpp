#include "guides/gr00t_cluster.hpp"

#include <gpuplan/io/slurm.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace guides::gr00t_cluster {
namespace {

// ---- what holds, at compile time

constexpr inputs guide;

// T0.1: by dense rates that are alike, the guide's first is the last.
static_assert(rank(guide, h100_nvl, printed_rate) == 1 && rank(guide, h100_nvl, dense_rate) == 5);
static_assert(rank(guide, l40s, dense_rate) == 1 && rank(guide, rtx_4090, dense_rate) == 2);
// T0.2: the third strategy breaks the guide's own formula, on the printed and on the real card.
constexpr strategy third = guide.strategies[2];
static_assert(check(plan_of(guide, third), printed(guide, third.gpu), formula(guide)).why().code ==
              errc::exceeds_gpu_memory);
static_assert(!fits(plan_of(guide, third), usable(guide, third.gpu), formula(guide)));
static_assert(*best_plan(guide, third.gpu, printed(guide, third.gpu)) == batch_plan{3, 4, 12});
static_assert(*best_plan(guide, rtx_4090, printed(guide, rtx_4090)) == batch_plan{12, 4, 3});
static_assert(*best_plan(guide, rtx_4090, usable(guide, rtx_4090)) == batch_plan{15, 4, 2});
// T0.3
static_assert(*max_micro_batch(keep_free(aggressive, 24_GB), formula(guide)) == 14);
static_assert(!max_micro_batch(keep_free(conservative, 11_GB), formula(guide)));
// T0.4
static_assert(plan_of(guide, guide.strategies[1]).effective_batch() == 144);
// T0.5: the second strategy's hours follow, the third's do not.
static_assert(time_of(guide, guide.strategies[1], printed_rate).high() < 9_h);
static_assert(time_of(guide, third, printed_rate).low() > 2 * 24_h);
static_assert(time_of(guide, third, dense_rate).low() > 24_h);
// T0.6
static_assert(*checkpoints_saved(guide.steps, guide.save_every) == 5);
static_assert(*checkpoints_that_fit(home(guide)) == range<std::int64_t>{1, 3});
// T0.7: half of 5 is no whole number, so the rule to the letter loses samples.
static_assert(halved_and_doubled(plan_of(guide, third)).effective_batch() == 96);
static_assert(after_out_of_memory(plan_of(guide, third))->plan == batch_plan{2, 4, 15});
// T0.8
static_assert(choice_for_test(guide) == 2 && choice_for_training(guide, true) == 0 &&
              choice_for_training(guide, false) == 1);

// ---- words

constexpr const char* name(card gpu) {
  switch (gpu) {
    case rtx_4090:
      return "RTX 4090";
    case h100_nvl:
      return "H100 NVL (MIG)";
    case l40s:
      return "L40S";
    case rtx_2080_ti:
      return "RTX 2080 Ti";
    case rtx_4070:
      break;
  }
  return "RTX 4070";
}

// Rows are named as the guide counts, whatever the inputs are.
constexpr const char* node_name(card gpu) {
  switch (gpu) {
    case rtx_4090:
      return "4 x RTX 4090";
    case h100_nvl:
      return "1 x H100 NVL (MIG)";
    case l40s:
      return "6 x L40S";
    case rtx_2080_ti:
      return "4 x RTX 2080 Ti";
    case rtx_4070:
      break;
  }
  return "4 x RTX 4070";
}

constexpr const char* strategy_name(int s) {
  return s == 0 ? "1: 4 x RTX 4090" : s == 1 ? "2: 6 x L40S" : "3: 4 x RTX 2080 Ti";
}

constexpr double TFLOPS(compute_rate rate) { return in(rate, 1_TFLOPS); }
constexpr double GB(bytes memory) { return in(memory, 1_GB); }
constexpr range<double> GB(range<bytes> memory) { return {GB(memory.low()), GB(memory.high())}; }
constexpr range<double> hours(range<duration> time) {
  return {in(time.low(), 1_h), in(time.high(), 1_h)};
}
constexpr range<double> minutes(range<duration> time) {
  return {in(time.low(), 1_min), in(time.high(), 1_min)};
}

std::string between(range<double> r, int digits) {
  return decimal(r.low(), digits) + "–" + decimal(r.high(), digits);
}

std::string of(const batch_plan& plan) {
  return std::to_string(plan.micro_batch) + " x " + std::to_string(plan.data_parallel) + " x " +
         std::to_string(plan.accumulation) + " = " + std::to_string(plan.effective_batch());
}

shown largest(memory_budget memory, const affine_memory& model) {
  const auto most = max_micro_batch(memory, model);
  return most ? number(*most) : word("none fits");
}

// The micro-batches that fit.
shown allowed(memory_budget memory, const affine_memory& model) {
  const auto most = max_micro_batch(memory, model);
  return most ? span_of({1, *most}) : word("none fits");
}

// One number where the range is one.
shown counts(range<std::int64_t> r) { return r.is_point() ? number(r.low()) : span_of(r); }

shown plan_or_not(const result<batch_plan>& plan) {
  return plan ? word(of(*plan)) : word("none fits");
}

// ---- T0.1

table nodes(const inputs& given) {
  struct line {
    card gpu;
    double fp32, fp16, gpus, total;
    int place;
    const char* meant;
  };
  const line lines[] = {
      {h100_nvl, 51.2, 1979, 2, 1979, 1, "the H100 SXM's tensor cores with 2:4 sparsity"},
      {l40s, 91.6, 183.2, 12, 1099, 2, "twice the CUDA cores' FP32; its tensor cores do 362"},
      {rtx_4090, 82.6, 165.2, 4, 660, 3, "the tensor cores, dense, summing in FP32"},
      {rtx_4070, 29.1, 58.2, 4, 232, 4, "twice the CUDA cores' FP32; its tensor cores do the same"},
      {rtx_2080_ti, 13.4, 26.9, 60, 107, 5, "the CUDA cores in FP16, without tensor cores"},
  };
  table t{"T0.1",
          "Nodes by total FP16, and what the numbers are",
          "the guide's GPU table; the catalogue's devices"};
  for (const line& l : lines) {
    const char* row = node_name(l.gpu);
    t.compare(row,
              "FP16 of the node, as printed",
              "TFLOPS",
              number(l.total, 0),
              number(TFLOPS(printed_rate(given, l.gpu)), 1),
              l.gpu == h100_nvl ? "one card to a node" : "");
    t.compare(row,
              "place by FP16, as printed",
              "",
              number(l.place),
              number(rank(given, l.gpu, printed_rate)));
  }
  for (const line& l : lines)
    t.compare(node_name(l.gpu),
              "what the FP16 number is",
              "TFLOPS",
              number(l.fp16, l.gpu == h100_nvl ? 0 : 1),
              number(TFLOPS(rate_meant(l.gpu)), 1),
              l.meant);
  for (const line& l : lines)
    t.compare(node_name(l.gpu),
              "FP16 of one GPU, dense tensor, FP32 sums",
              "TFLOPS",
              number(l.fp16, l.gpu == h100_nvl ? 0 : 1),
              number(TFLOPS(*peak(whole_card(l.gpu), number_format::fp16)), 1),
              l.gpu == h100_nvl ? "the whole card" : "");
  for (const line& l : lines)
    t.compare(node_name(l.gpu),
              "FP32 of one GPU",
              "TFLOPS",
              number(l.fp32, 1),
              number(TFLOPS(*peak(whole_card(l.gpu), number_format::fp32)), 1),
              l.gpu == h100_nvl ? "51.2 is the H100 PCIe's" : "");
  for (const line& l : lines) {
    t.also(node_name(l.gpu),
           "dense FP16 that a job gets",
           "TFLOPS",
           number(TFLOPS(dense_rate(given, l.gpu)), 1),
           l.gpu == h100_nvl ? "a 1g slice: 16 of 132 SMs" : "");
    t.compare(node_name(l.gpu),
              "place by dense FP16",
              "",
              number(l.place),
              number(rank(given, l.gpu, dense_rate)));
  }
  struct memory_line {
    card gpu;
    int one;
    shown node;
  };
  const memory_line memories[] = {{rtx_4090, 24, number(96)},
                                  {l40s, 48, number(288)},
                                  {rtx_2080_ti, 11, number(44)},
                                  {rtx_4070, 12, nothing()},
                                  {h100_nvl, 94, nothing()}};
  for (const memory_line& m : memories)
    t.compare(node_name(m.gpu),
              "memory of the node, GB printed",
              "GB",
              m.node,
              number(GB(given.nodes[m.gpu].memory * given.nodes[m.gpu].gpus), 0),
              m.gpu == h100_nvl ? "one MIG slice" : "");
  for (const memory_line& m : memories)
    t.compare(node_name(m.gpu),
              "memory of the node, usable bytes",
              "GB",
              m.node,
              number(GB(usable(given, m.gpu).size() * given.nodes[m.gpu].gpus), 1));
  const auto reported = [&](const char* row, int documented, bytes memory) {
    const auto agrees = [&](double in_unit) {
      return judge(number(documented), number(in_unit, 1)) == verdict::agrees;
    };
    const double as_GiB = in(memory, 1_GiB);
    t.compare(row,
              "memory of one GPU, as its driver reports it",
              "GB",
              number(documented),
              number(GB(memory), 1),
              (!agrees(GB(memory)) && agrees(as_GiB) ? "GiB are meant: " : "") +
                  decimal(as_GiB, 1) + " GiB");
  };
  for (const memory_line& m : memories)
    reported(node_name(m.gpu), m.one, *whole_card(m.gpu).memory);
  reported("a slice of the H100 NVL", 11, *device(given, h100_nvl).memory);
  for (const line& l : lines)
    t.compare(node_name(l.gpu),
              "GPUs of this kind in all",
              "",
              number(l.gpus, 0),
              number(given.nodes[l.gpu].gpus * node_count(given, l.gpu)),
              l.gpu == rtx_2080_ti
                  ? "4 x 15 as printed; classt01-18 less classt06, the RTX 4070's, are 17"
              : l.gpu == l40s ? "6 x 2 as printed"
                              : "");
  return t;
}

// ---- T0.2

table strategies(const inputs& given) {
  struct line {
    int micro_batch;
    int accumulation;
    int effective;
    shown hours;
    range<std::int64_t> micro_batches;
  };
  const line lines[] = {{10, 3, 120, span_of({10, 12}), {8, 12}},
                        {12, 2, 144, span_of({7, 9}), {10, 14}},
                        {5, 6, 120, span_of({18, 24}), {4, 6}}};
  table t{"T0.2",
          "The three strategies",
          "memory = 5 GB + 2 GB + 1.2 GB x micro-batch; effective batch 120–144"};
  const affine_memory model = formula(given);
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const batch_plan plan = plan_of(given, s);
    const char* row = strategy_name(i);
    t.compare(row,
              "effective batch",
              "",
              number(lines[i].effective),
              number(plan.effective_batch()),
              of(plan));
    t.compare(row,
              "meets the target",
              "",
              word("yes"),
              word(given.effective_batch.contains(plan.effective_batch()) ? "yes" : "no"));
  }
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    t.also(strategy_name(i),
           "memory needed",
           "GB",
           number(GB(model.required(plan_of(given, s))), 1),
           "of " + decimal(GB(printed(given, s.gpu).size()), 1) + " printed, " +
               decimal(GB(usable(given, s.gpu).size()), 1) + " usable");
  }
  for (int i = 0; i < 3; ++i) {
    const auto accumulations = accumulations_of(given, given.strategies[i]);
    t.compare(strategy_name(i),
              "accumulation",
              "",
              number(lines[i].accumulation),
              accumulations ? counts(*accumulations) : word("none"),
              "what meets the target at this micro-batch");
  }
  for (int i = 0; i < 3; ++i)
    t.compare(strategy_name(i),
              "hours for 10,000 steps",
              "h",
              lines[i].hours,
              span_of(hours(time_of(given, given.strategies[i], printed_rate)), 1),
              i == 0 ? "an input, which T0.5 computes the others from" : "");
  // A setting agrees where it is one that fits.
  for (int i = 0; i < 3; ++i) {
    const card gpu = given.strategies[i].gpu;
    const shown allowed_as_printed = allowed(printed(given, gpu), model);
    const shown allowed_by_usable = allowed(usable(given, gpu), model);
    const auto setting = [&](const char* name, const shown& documented, std::int64_t largest) {
      const std::string as_printed = std::string(name) + ", GB printed";
      if (fits({.micro_batch = largest}, printed(given, gpu), model)) {
        t.compare(strategy_name(i), as_printed, "", documented, allowed_as_printed, "what fits");
      } else {
        t.breaks(strategy_name(i), as_printed, "", documented, allowed_as_printed, "what fits");
      }
      t.compare(strategy_name(i),
                std::string(name) + ", usable bytes",
                "",
                documented,
                allowed_by_usable,
                "what fits");
    };
    setting("micro-batch", number(lines[i].micro_batch), lines[i].micro_batch);
    setting("range", span_of(lines[i].micro_batches), lines[i].micro_batches.high());
  }
  for (int i = 0; i < 3; ++i) {
    const card gpu = given.strategies[i].gpu;
    t.also(strategy_name(i),
           "run instead, GB printed",
           "",
           plan_or_not(best_plan(given, gpu, printed(given, gpu))),
           "micro-batch x GPUs x accumulation");
    t.also(strategy_name(i),
           "run instead, usable bytes",
           "",
           plan_or_not(best_plan(given, gpu, usable(given, gpu))),
           "micro-batch x GPUs x accumulation");
  }
  return t;
}

// ---- T0.3

table batch_by_memory(const inputs& given) {
  struct line {
    card gpu;
    int batches[3];
  };
  const line lines[] = {{rtx_2080_ti, {2, 4, 6}},
                        {rtx_4070, {3, 5, 7}},
                        {rtx_4090, {6, 10, 14}},
                        {l40s, {12, 16, 20}},
                        {h100_nvl, {2, 4, 6}}};
  const head_room rooms[] = {conservative, recommended, aggressive};
  const char* const names[] = {"conservative", "recommended", "aggressive"};
  table t{"T0.3",
          "Micro-batch by memory",
          "the guide's formula, with 30, 15 and 0 % of the card left free (ours)"};
  const affine_memory model = formula(given);
  for (int i = 0; i < 3; ++i) {
    for (const line& l : lines) {
      const memory_budget card_memory = printed(given, l.gpu);
      const std::string quantity = std::string(names[i]) + ", GB printed";
      const shown computed = largest(keep_free(rooms[i], card_memory), model);
      if (fits({.micro_batch = l.batches[i]}, card_memory, model)) {
        t.compare(name(l.gpu), quantity, "", number(l.batches[i]), computed);
      } else {
        t.breaks(name(l.gpu),
                 quantity,
                 "",
                 number(l.batches[i]),
                 computed,
                 "needs " + decimal(GB(model.required({.micro_batch = l.batches[i]})), 1) +
                     " GB of " + decimal(GB(card_memory.size()), 0));
      }
    }
    for (const line& l : lines)
      t.compare(name(l.gpu),
                std::string(names[i]) + ", usable bytes",
                "",
                number(l.batches[i]),
                largest(keep_free(rooms[i], usable(given, l.gpu)), model));
  }
  return t;
}

// ---- T0.4

table effective_batches(const inputs& given) {
  table t{"T0.4",
          "Effective batches of 120 to 144",
          "micro-batch x GPUs x accumulation; micro-batches that fit"};
  const int documented[] = {120, 144, 120};
  for (int i = 0; i < 3; ++i) {
    const batch_plan plan = plan_of(given, given.strategies[i]);
    t.compare(strategy_name(i),
              "effective batch",
              "",
              number(documented[i]),
              number(plan.effective_batch()),
              of(plan));
  }
  for (const card gpu : cards) {
    const memory_budget as_printed = printed(given, gpu);
    const memory_budget by_usable = usable(given, gpu);
    const memory_budget more = as_printed.size() < by_usable.size() ? by_usable : as_printed;
    const affine_memory model = formula(given);
    const batch_options options({given.effective_batch, given.nodes[gpu].gpus, more}, model);
    // One row for each micro-batch: its accumulations follow one another.
    const std::string quantity = std::string("accumulations on ") + node_name(gpu);
    batch_plan most{.micro_batch = 0};
    std::int64_t fewest = 0;
    const auto flush = [&] {
      if (most.micro_batch == 0) return;
      t.also("micro-batch " + std::to_string(most.micro_batch),
             quantity,
             "",
             counts({fewest, most.accumulation}),
             !fits(most, as_printed, model)  ? "fits the usable bytes, not the GB printed"
             : !fits(most, by_usable, model) ? "fits the GB printed, not the usable bytes"
                                             : "");
    };
    for (const batch_plan& plan : options) {
      if (plan.micro_batch != most.micro_batch) {
        flush();
        most = plan;
      }
      fewest = plan.accumulation;
    }
    flush();
  }
  return t;
}

// ---- T0.5

table training_hours(const inputs& given) {
  table t{"T0.5",
          "Hours, from strategy 1's",
          "10–12 h x samples / node TFLOPS, both relative to strategy 1"};
  const shown documented[] = {nothing(), span_of({7, 9}), span_of({18, 24})};
  for (int i = 1; i < 3; ++i)
    t.compare(strategy_name(i),
              "hours by the TFLOPS printed",
              "h",
              documented[i],
              span_of(hours(time_of(given, given.strategies[i], printed_rate)), 1));
  for (int i = 1; i < 3; ++i)
    t.compare(strategy_name(i),
              "hours by dense peaks",
              "h",
              documented[i],
              span_of(hours(time_of(given, given.strategies[i], dense_rate)), 1));
  for (int i = 1; i < 3; ++i) {
    const char* note =
        i == 1 ? "of its peak, as a multiple of strategy 1's, for the guide's hours" : "";
    const strategy& s = given.strategies[i];
    t.also(strategy_name(i),
           "implied fraction, TFLOPS printed",
           "x",
           span_of(implied_fraction(given, s, printed_rate), 2),
           note);
    t.also(strategy_name(i),
           "implied fraction, dense peaks",
           "x",
           span_of(implied_fraction(given, s, dense_rate), 2),
           note);
  }

  const card test_node = given.strategies[2].gpu;
  const std::int64_t accumulation = given.strategies[2].accumulation;
  const auto test = [&](const char* row, range<duration> time, const char* note) {
    t.compare(
        row, "100 steps on 4 x RTX 2080 Ti", "min", number(30), span_of(minutes(time), 1), note);
  };
  test("accumulation 1, from strategy 1",
       time_on(given, test_node, test_samples(given, 1), printed_rate),
       "the guide names no accumulation");
  test("accumulation of strategy 3, from strategy 1",
       time_on(given, test_node, test_samples(given, accumulation), printed_rate),
       "the reading that gives the guide's half hour");
  test("accumulation of strategy 3, from its hours",
       test_time_by_last_strategy(given, accumulation),
       "18–24 h for strategy 3 contradict the half hour");
  const auto test_fraction = [&](const char* row, std::int64_t accumulations) {
    const std::int64_t samples = test_samples(given, accumulations);
    const range<duration> time = time_on(given, test_node, samples, printed_rate);
    t.also(row,
           "implied fraction, TFLOPS printed",
           "x",
           span_of(time / range<duration>(given.test_time), 2),
           "for the half hour");
  };
  test_fraction("test, accumulation 1", 1);
  test_fraction("test, accumulation of strategy 3", accumulation);

  for (const card gpu : cards) {
    const char* quantity = "FP16 over FP32, as printed";
    t.compare(name(gpu),
              quantity,
              "x",
              number(2),
              number(in(given.nodes[gpu].fp16, given.nodes[gpu].fp32), 2),
              gpu == h100_nvl ? "a sparse rate over another card's" : "");
  }
  for (const card gpu : cards) {
    const gpu_spec d = whole_card(gpu);
    t.compare(name(gpu),
              "FP16 over FP32, dense tensor over CUDA cores",
              "x",
              number(2),
              number(in(*peak(d, number_format::fp16), *peak(d, number_format::fp32)), 2),
              gpu == rtx_4090 ? "the most that mixed precision can gain in computing" : "");
  }
  t.compare("gradient checkpointing",
            "speed lost",
            "%",
            number(20),
            span_of({0, 100 * recomputation_slows_at_most(given)}, 0),
            "at most one more forward beside 3 units of computing; less where less is recomputed");
  t.not_computable("torch.compile()",
                   "speed gained",
                   "%",
                   span_of({30, 40}),
                   "the share of a step that launches and unfused kernels take");
  const range<duration> first = given.strategies[0].hours;
  t.also("gradient checkpointing",
         "strategy 1 with the guide's claim",
         "h",
         span_of(hours(first / (1 - given.checkpointing_slows)), 1));
  t.also("torch.compile()",
         "strategy 1 with the guide's claim",
         "h",
         span_of(hours(first / (1.0 + given.compilation_speeds_up)), 1));
  return t;
}

// ---- T0.6

shown within(const result<range<std::int64_t>>& count) {
  return count ? span_of(*count) : word("none");
}

table storage(const inputs& given) {
  table t{"T0.6",
          "Checkpoints in the home quota",
          "quota 23.8 GB, about 1 GB used; a checkpoint and the final model 5–8 GB each"};
  const checkpoint_storage with_model = home(given);
  checkpoint_storage checkpoints_alone = with_model;
  checkpoints_alone.final_model = bytes{};
  const std::int64_t saved = *checkpoints_saved(given.steps, given.save_every);
  const char* every = "--save-steps 2000";
  t.compare(every, "checkpoints saved", "", number(5), number(saved));
  t.also(every, "all of them", "GB", span_of(GB(static_cast<double>(saved) * given.checkpoint), 0));
  t.also(every,
         "with the final model and what is there",
         "GB",
         span_of(GB(*storage_needed(with_model, saved)), 0),
         "of a quota of " + decimal(GB(given.quota), 1));
  t.compare("10 checkpoints",
            "all of them",
            "GB",
            span_of({50, 80}),
            span_of(GB(10.0 * given.checkpoint), 0));
  t.also("home", "free", "GB", number(GB(given.quota - given.used), 1));
  t.compare("home",
            "checkpoints that fit",
            "",
            number(5),
            within(checkpoints_that_fit(checkpoints_alone)),
            "all that are saved are copied home when the run is done");
  t.compare("home",
            "that fit beside the final model",
            "",
            number(5),
            within(checkpoints_that_fit(with_model)));
  const auto interval = [&](const char* row, checkpoint_storage s) {
    const auto shortest = [&] {
      const auto steps = save_interval_within(s, given.steps);
      return steps ? number(*steps) : word("none");
    };
    t.compare(row,
              "save interval that the quota holds",
              "steps",
              number(2000),
              shortest(),
              "at the largest sizes");
    s.checkpoint = s.checkpoint.low();
    s.final_model = s.final_model.low();
    t.also(row, "the same at the smallest sizes", "steps", shortest());
  };
  interval("checkpoints alone", checkpoints_alone);
  interval("checkpoints and final model", with_model);
  return t;
}

// ---- T0.7

table out_of_memory(const inputs& given) {
  table t{"T0.7",
          "Out of memory: halve the micro-batch, double the accumulation, then checkpointing",
          "the plans of T0.2; checkpointing takes 50 % of the per-sample part"};
  const affine_memory model = formula(given);
  const affine_memory recomputing = with_checkpointing(given);
  const int documented[] = {120, 144, 120};
  for (int i = 0; i < 3; ++i) {
    const batch_plan literal = halved_and_doubled(plan_of(given, given.strategies[i]));
    t.compare(strategy_name(i),
              "effective batch by the rule's words",
              "",
              number(documented[i]),
              number(literal.effective_batch()),
              of(literal));
  }
  for (int i = 0; i < 3; ++i) {
    const auto next = after_out_of_memory(plan_of(given, given.strategies[i]));
    t.compare(strategy_name(i),
              "effective batch by the next divisor",
              "",
              number(documented[i]),
              next ? number(next->plan.effective_batch()) : nothing(),
              next ? of(next->plan) : "");
  }
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const auto way = [&](const char* quantity, memory_budget memory) {
      const auto found = recover_from_out_of_memory(plan_of(given, s), memory, model, recomputing);
      t.also(strategy_name(i),
             quantity,
             "",
             found ? word(of(found->plan) + (found->recompute ? ", checkpointing" : ""))
                   : word("none"),
             found && found->count == 0 ? "fits as it is"
             : found                    ? std::to_string(found->count) + " step, then " +
                           decimal(GB(found->steps[found->count - 1].required), 1) + " GB"
                     : "");
    };
    way("way out, GB printed", printed(given, s.gpu));
    way("way out, usable bytes", usable(given, s.gpu));
  }
  // The whole ladder of strategy 1, as on a card that nothing fits on.
  batch_plan plan = plan_of(given, given.strategies[0]);
  bool recompute = false;
  const char* ladder = "memory on strategy 1's way down";
  t.also("0: " + of(plan), ladder, "GB", number(GB(model.required(plan)), 1));
  for (int step = 1;; ++step) {
    const auto next = after_out_of_memory(plan, recompute);
    if (!next) break;
    plan = next->plan;
    recompute = next->recompute;
    t.also(std::to_string(step) + ": " + of(plan) + (recompute ? ", checkpointing" : ""),
           ladder,
           "GB",
           number(GB((recompute ? recomputing : model).required(plan)), 1));
  }
  for (int i = 0; i < 3; ++i)
    t.compare(
        strategy_name(i),
        "memory saved by checkpointing",
        "%",
        number(50),
        number(100 * memory_saved(
                         given, given.strategies[i], checkpointing(given.checkpointing_saves)),
               1),
        i == 0 ? "half of the per-sample part; the fixed part stays" : "");
  for (int i = 0; i < 3; ++i)
    t.compare(
        strategy_name(i),
        "memory saved by mixed precision",
        "%",
        number(50),
        number(100 * memory_saved(
                         given, given.strategies[i], mixed_precision(given.mixed_precision_saves)),
               1),
        i == 0 ? "half of the per-sample part: weights, gradients and states stay FP32" : "");
  for (const card gpu : cards)
    t.also(name(gpu),
           "largest micro-batch with checkpointing",
           "",
           largest(printed(given, gpu), recomputing));
  return t;
}

// ---- T0.8

table choices(const inputs& given) {
  table t{
      "T0.8",
      "What to run when",
      "waiting + running, by the middle of each range; the words for waiting as hours are ours"};
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const char* const words[] = {"almost none", "low", "medium", "high"};
    const range<duration> wait = wait_for(given, s);
    const range<duration> run = time_of(given, s, printed_rate);
    t.also(strategy_name(i),
           "waiting",
           "h",
           span_of(hours(wait), 1),
           s.from == s.to ? words[s.from] : std::string(words[s.from]) + " to " + words[s.to]);
    t.also(strategy_name(i), "running all steps", "h", span_of(hours(run), 1));
    t.also(strategy_name(i), "done after", "h", span_of(hours(wait + run), 1));
  }
  const auto node = [&](int s) { return word(node_name(given.strategies[s].gpu)); };
  t.compare("quick test", "node", "", word("4 x RTX 2080 Ti"), node(choice_for_test(given)));
  t.compare("balanced",
            "node",
            "",
            word("4 x RTX 4090"),
            node(choice_for_training(given, true)),
            "done first, waiting counted");
  t.compare("fastest",
            "node",
            "",
            word("6 x L40S"),
            node(choice_for_training(given, false)),
            "fewest hours, once it runs");
  t.also("balanced",
         "node, by dense peaks",
         "",
         node(choice_for_training(given, true, dense_rate)),
         "done first, waiting counted");
  t.also("balanced",
         "wait the L40S are worth",
         "h",
         number(in(waiting_worth(given, printed_rate), 1_h), 1),
         "longer than for strategy 1, by TFLOPS printed");
  t.also("balanced",
         "the same, by dense peaks",
         "h",
         number(in(waiting_worth(given, dense_rate), 1_h), 1));
  const affine_memory model = formula(given);
  const card test_node = given.strategies[2].gpu;
  const batch_plan test{.micro_batch = given.test_micro_batch};
  const shown most = largest(printed(given, test_node), model);
  if (fits(test, printed(given, test_node), model)) {
    t.compare("quick test", "micro-batch", "", number(4), number(given.test_micro_batch));
  } else {
    t.breaks("quick test",
             "micro-batch",
             "",
             number(4),
             most,
             "needs " + decimal(GB(model.required(test)), 1) + " GB");
  }
  const std::int64_t test_run = test_samples(given, given.strategies[2].accumulation);
  t.compare("quick test",
            "running",
            "min",
            number(30),
            span_of(minutes(time_on(given, test_node, test_run, printed_rate)), 1),
            "with strategy 3's accumulation; T0.5 has the other readings");
  t.compare("balanced",
            "running",
            "h",
            number(10),
            span_of(hours(time_of(given, given.strategies[0], printed_rate)), 1));
  t.compare("fastest",
            "running",
            "h",
            number(7),
            span_of(hours(time_of(given, given.strategies[1], printed_rate)), 1));
  return t;
}

// ---- T0.9

io::slurm_job job_of(const inputs& given, const strategy& s) {
  return {.gres = s.gres,
          .gpus_per_node = given.nodes[s.gpu].gpus,
          .node_list = s.node_list,
          .wall_time = time_of(given, s, printed_rate).high() * (1 + given.wall_time_margin),
          .script = s.script,
          .log = given.log,
          .command = given.command};
}

// The rest of the line from `part` on; empty where no line holds it.
std::string line_from(const std::string& part, const std::string& text) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

table job_scripts(const inputs& given) {
  struct line {
    const char* gres;
    const char* node_list;
    const char* micro_batch;
    const char* accumulation;
    const char* script;
  };
  const line lines[] = {{"--gres=gpu:gpu4090:4",
                         "--nodelist=classt25",
                         "--batch-size 10",
                         "--gradient-accumulation-steps 3",
                         "finetune_gr00t.slurm"},
                        {"--gres=gpu:gpul40s:6",
                         "--nodelist=classt21",
                         "--batch-size 12",
                         "--gradient-accumulation-steps 2",
                         "finetune_gr00t_l40s.slurm"},
                        {"--gres=gpu:gpu2080:4",
                         "",
                         "--batch-size 5",
                         "--gradient-accumulation-steps 6",
                         "finetune_gr00t_2080.slurm"}};
  table t{"T0.9",
          "Job scripts, line by line",
          "the plans of T0.2; wall time: the upper hours of T0.5 and a fifth more (ours)"};
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const line& l = lines[i];
    const io::slurm_job job = job_of(given, s);
    const std::string script = io::slurm_script(plan_of(given, s), job).value_or_throw();
    const std::string flags = line_from("--batch-size ", script);
    const std::size_t second = flags.find(" --gradient");
    const auto text_or_nothing = [](const std::string& text) {
      return text.empty() ? nothing() : word(text);
    };
    const char* row = strategy_name(i);
    t.compare(row, "#SBATCH: GPUs", "", word(l.gres), word(line_from("--gres=", script)));
    if (*l.node_list != '\0' || *s.node_list != '\0')
      t.compare(row,
                "#SBATCH: node",
                "",
                text_or_nothing(l.node_list),
                text_or_nothing(line_from("--nodelist=", script)));
    t.compare(row, "micro-batch", "", word(l.micro_batch), word(flags.substr(0, second)));
    t.compare(row, "accumulation", "", word(l.accumulation), word(flags.substr(second + 1)));
    t.also(
        row, "#SBATCH: wall time", "", word(line_from("--time=", script)), "the guide sets none");
    t.also(row, "#SBATCH: log", "", word(line_from("--output=", script)));
    t.also(row, "command", "", word(job.command), "Isaac-GR00T's; the guide names none");
    const std::string submit = io::slurm_submit(job).value_or_throw();
    t.compare(row, "script", "", word(l.script), word(submit.substr(submit.rfind(' ') + 1)));
    t.also(row,
           "submitted with",
           "",
           word(submit),
           i == 0 ? "" : "the guide repeats the script's #SBATCH options here");
    t.also(row,
           "run instead",
           "",
           plan_or_not(best_plan(given, s.gpu, usable(given, s.gpu))),
           "micro-batch x GPUs x accumulation; by usable bytes");
  }
  return t;
}

// ---- findings

std::vector<std::string> findings(const inputs& given) {
  const affine_memory model = formula(given);
  const strategy& s2 = given.strategies[1];
  const strategy& s3 = given.strategies[2];
  const batch_plan p3 = plan_of(given, s3);
  const auto most_on = [&](card gpu) { return text(largest(printed(given, gpu), model)); };
  const auto usable_plan = [&](card gpu) {
    return text(plan_or_not(best_plan(given, gpu, usable(given, gpu))));
  };
  const auto printed_plan = [&](card gpu) {
    return text(plan_or_not(best_plan(given, gpu, printed(given, gpu))));
  };
  const auto node_TFLOPS = [&](card gpu) { return decimal(TFLOPS(dense_rate(given, gpu)), 0); };
  const auto time = [&](const strategy& s, node_rate rate) {
    return between(hours(time_of(given, s, rate)), 1) + " h";
  };
  const bytes third_with_checkpointing = with_checkpointing(given).required(p3);
  const batch_plan literal = halved_and_doubled(p3);
  const checkpoint_storage quota = home(given);
  const std::int64_t saved = *checkpoints_saved(given.steps, given.save_every);
  const range<double> all_checkpoints = GB(static_cast<double>(saved) * given.checkpoint);
  const auto fitting = checkpoints_that_fit(quota);
  const auto interval = save_interval_within(quota, given.steps);

  const bytes reported = *catalog::rtx_2080_ti.memory;
  const bytes lost = reported - usable_memory(catalog::rtx_2080_ti);
  const auto test = [&](range<duration> t) { return between(minutes(t), 0) + " min"; };
  const auto saved_by_checkpointing =
      memory_saved(given, given.strategies[0], checkpointing(given.checkpointing_saves));

  const auto best = best_plan(given, rtx_4090, usable(given, rtx_4090));
  const double to_spare = best ? GB(usable(given, rtx_4090).size() - model.required(*best)) : 0;

  std::vector<std::string> found;
  found.push_back("Strategy 3 breaks the guide's formula: micro-batch " +
                  std::to_string(p3.micro_batch) + " needs " + decimal(GB(model.required(p3)), 1) +
                  " GB of " + decimal(GB(printed(given, s3.gpu).size()), 0) + "; at most " +
                  most_on(s3.gpu) + " fits. Run " + usable_plan(s3.gpu) + ", or keep " + of(p3) +
                  " with gradient checkpointing (" + decimal(GB(third_with_checkpointing), 1) +
                  " GB).");
  found.push_back("Nor does its whole range of 4–6 fit, nor the quick test's " +
                  std::to_string(given.test_micro_batch) +
                  ", nor 4 and 6 on 11 GB and 5 and 7 on 12 GB in the table by memory (at most " +
                  most_on(s3.gpu) + " and " + most_on(rtx_4070) + "). 4 needs " +
                  decimal(GB(model.required({.micro_batch = 4})), 1) + " of the " +
                  decimal(GB(reported), 2) +
                  " GB that the RTX 2080 Ti's driver reports; driver and CUDA context take " +
                  decimal(GB(lost), 2) + ", unless the overhead of 2 GB holds these already.");
  found.push_back(
      "The FP16 column mixes another card's sparse rate (1979), twice the FP32 of CUDA "
      "cores (183.2, 58.2), a dense tensor rate (165.2) and one without tensor cores "
      "(26.9). By dense tensor rates a job gets " +
      node_TFLOPS(l40s) + " TFLOPS from 6 x L40S, " + node_TFLOPS(rtx_4090) +
      " from 4 x RTX 4090, " + node_TFLOPS(rtx_4070) + " from 4 x RTX 4070, " +
      node_TFLOPS(rtx_2080_ti) + " from 4 x RTX 2080 Ti and " + node_TFLOPS(h100_nvl) +
      " from a slice of the H100 NVL: the guide's first is last.");
  found.push_back("Strategies 1 and 2 leave memory unused: run " + usable_plan(rtx_4090) +
                  " on the RTX 4090 (" + decimal(to_spare, 2) + " GB to spare; by the GB printed " +
                  printed_plan(rtx_4090) + ") and " + usable_plan(l40s) + " on the L40S.");
  found.push_back("Strategy 3's 18–24 h do not follow from strategy 1's hours: " +
                  time(s3, printed_rate) + " by the TFLOPS printed, " + time(s3, dense_rate) +
                  " by dense peaks. Strategy 2's 7–9 h do (" + time(s2, printed_rate) +
                  "), but they take 183.2 for the " +
                  decimal(TFLOPS(*peak(catalog::l40s, number_format::fp16)), 0) +
                  " TFLOPS of an L40S: " + time(s2, dense_rate) + " by dense peaks.");
  found.push_back(
      "The half hour for 100 steps follows from strategy 1's hours with strategy 3's accumulation "
      "(" +
      test(time_on(given, s3.gpu, test_samples(given, s3.accumulation), printed_rate)) +
      "), and contradicts strategy 3's own hours (" +
      test(test_time_by_last_strategy(given, s3.accumulation)) + ").");
  found.push_back("The home quota does not hold what --save-steps " +
                  std::to_string(given.save_every) +
                  " leaves on scratch to be copied there: " + std::to_string(saved) +
                  " checkpoints are " + between(all_checkpoints, 0) + " GB, " +
                  decimal(GB(given.quota - given.used), 1) + " are free. Beside the final model " +
                  text(within(fitting)) + " fit: copy no more than that, or save every " +
                  (interval ? std::to_string(*interval) : std::string("-")) + " steps or more.");
  found.push_back("Checkpointing halves the activations, not all memory: it saves " +
                  decimal(100 * saved_by_checkpointing, 0) +
                  " % on strategy 1, not 50 %. The 20 % of speed can be: one more forward costs " +
                  decimal(100 * recomputation_slows_at_most(given), 0) + " % at most.");
  found.push_back(
      "\"Halve the batch, double the accumulation\" loses samples where the micro-batch "
      "is odd: strategy 3 becomes " +
      of(literal) + "; " + of(after_out_of_memory(p3)->plan) + " keeps them.");
  found.push_back("No strategy uses the RTX 4070 node, which is called available, has " +
                  decimal(in(printed_rate(given, rtx_4070), printed_rate(given, rtx_2080_ti)), 1) +
                  " times the printed TFLOPS of strategy 3's and holds one sample more: run " +
                  usable_plan(rtx_4070) + ".");
  return found;
}

}  // namespace

report make_report(const inputs& given) {
  return {"000",
          "GR00T fine-tuning on a shared Slurm cluster",
          {nodes(given),
           strategies(given),
           batch_by_memory(given),
           effective_batches(given),
           training_hours(given),
           storage(given),
           out_of_memory(given),
           choices(given),
           job_scripts(given)},
          findings(given)};
}

}  // namespace guides::gr00t_cluster

#include <cstdint>
#include <string>

#include "guides/gr00t_cluster/tables.hpp"

namespace guides::gr00t_cluster {

// T0.1: by dense rates that are alike, the guide's first is the last.
static_assert(rank(guide, h100_nvl, printed_rate) == 1 && rank(guide, h100_nvl, dense_rate) == 5);
static_assert(rank(guide, l40s, dense_rate) == 1 && rank(guide, rtx_4090, dense_rate) == 2);

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

namespace {

// The micro-batches that fit.
shown allowed(memory_budget memory, const affine_memory& model) {
  const auto most = max_micro_batch(memory, model);
  return most ? span_of({1, *most}) : word("none fits");
}

// One number where the range is one.
shown counts(range<std::int64_t> r) { return r.is_point() ? number(r.low()) : span_of(r); }

}  // namespace

// ---- T0.2

// The third strategy breaks the guide's own formula, on the printed and on the real card.
static_assert(check(plan_of(guide, third), printed(guide, third.gpu), formula(guide)).why().code ==
              errc::exceeds_gpu_memory);
static_assert(!fits(plan_of(guide, third), usable(guide, third.gpu), formula(guide)));
static_assert(*best_plan(guide, third.gpu, printed(guide, third.gpu)) == batch_plan{3, 4, 12});
static_assert(*best_plan(guide, rtx_4090, printed(guide, rtx_4090)) == batch_plan{12, 4, 3});
static_assert(*best_plan(guide, rtx_4090, usable(guide, rtx_4090)) == batch_plan{15, 4, 2});

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
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    t.compare(strategy_name(i),
              "hours of the GPUs' work, 80 %",
              "h",
              lines[i].hours,
              span_of(hours(gpus_work(given, s.gpu, plan_of(given, s), given.steps)), 1),
              "by a step of its language model, trained in full, which computes " +
                  decimal(stand_in_works(given), 2) + " times as much");
  }
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

static_assert(*max_micro_batch(keep_free(aggressive, 24_GB), formula(guide)) == 14);
static_assert(!max_micro_batch(keep_free(conservative, 11_GB), formula(guide)));

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

static_assert(plan_of(guide, guide.strategies[1]).effective_batch() == 144);

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

// ---- T0.7

// Half of 5 is no whole number, so the rule to the letter loses samples.
static_assert(halved_and_doubled(plan_of(guide, third)).effective_batch() == 96);
static_assert(after_out_of_memory(plan_of(guide, third))->plan == batch_plan{2, 4, 15});

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

}  // namespace guides::gr00t_cluster

#include "guides/a6000_to_h100.hpp"

#include <array>
#include <string>

namespace guides::a6000_to_h100 {
namespace {

constexpr double in_hours(duration time) { return in(time, 1_h); }
constexpr double in_days(duration time) { return in(time, 1_d); }
constexpr double in_usd(gpuplan::money cost) { return in(cost, 1_usd); }
constexpr range<double> in_usd(range<gpuplan::money> cost) {
  return {in_usd(cost.low()), in_usd(cost.high())};
}
constexpr double in_usd_per_hour(price each) { return in(each, 1_usd_per_hour); }
constexpr range<double> in_hours(range<duration> time) {
  return {in_hours(time.low()), in_hours(time.high())};
}

// The results, at compile time.
constexpr inputs guide;

constexpr bool near(double a, double b) { return a - b < 1e-9 && b - a < 1e-9; }

// T1.1: the column mixes two cards and has all peaks with sparsity; like for like, every format
// gains the same.
constexpr auto h100_fp16 =
    identify(guide.h100.fp16, number_format::fp16, {&guide.h100_pcie, &guide.h100_sxm});
constexpr auto h100_bf16 =
    identify(guide.h100.bf16, number_format::bf16, {&guide.h100_pcie, &guide.h100_sxm});
static_assert(h100_fp16->device == &guide.h100_pcie && h100_fp16->sparse);
static_assert(h100_bf16->device == &guide.h100_sxm && h100_bf16->sparse);
static_assert(identify(guide.a6000.fp16, number_format::fp16, {&guide.a6000_device})->sparse);
static_assert(dense_ratio(guide, guide.h100_pcie, number_format::fp16) ==
              dense_ratio(guide, guide.h100_pcie, number_format::bf16));
static_assert(speedup_by_peaks(guide, guide.h100_pcie).high() < guide.real_speedup.low());

// T1.2: 598 / 6, in hours and in days.
static_assert(near(in_hours(on_h100(guide, 1)), 598.0 / 6));
static_assert(judge(number(4.2, 1), number(in_days(on_h100(guide, 1)), 2)) == verdict::agrees);

// T1.3 and T1.4: two GPUs at 95 % take 52.5 h and not 50, and cost more than one.
static_assert(near(in_hours(on_h100(guide, 2)), 598.0 / 6 / 1.9));
static_assert(near(in_hours(on_h100(guide, 4)), 598.0 / 6 / 3.6) && on_h100(guide, 4) > 1_d);
static_assert(near(in_hours(from_whole_hours(guide, 2)), 100 / 1.9));
static_assert(runs(guide)[2].cost > runs(guide)[1].cost + 15_usd);
static_assert(near(relative(runs(guide), 1), 1.0 / 6));
static_assert(relative(runs_at_own_price(guide), 2) > 0.98);

// T1.5
static_assert(guide.on_2.effective_batch() == 32 && guide.on_4.effective_batch() == 64);
static_assert(*same_batch(guide, guide.on_1, 2) == batch_plan{8, 2, 1});
static_assert(*same_batch(guide, guide.on_1, 8) == batch_plan{2, 8, 1});
static_assert(*same_batch(guide, guide.on_2, 2) == batch_plan{16, 2, 1});
static_assert(rate_factor(guide, guide.on_4, gpuplan::square_root_rule{}) == 2);

// T1.6: on one H100, stage 1 ends on day 3; on two, at 33.8 h of day 2.
static_assert(days(guide, 1) == 5 && days(guide, 2) == 3);
static_assert(on_day(guide, 1, 3).count == 2 && on_day(guide, 1, 3).pieces[1].starts);
static_assert(near(in_hours(on_day(guide, 2, 2).pieces[0].end), 385.0 / 6 / 1.9));

// T1.7: one H100 is cheapest, eight are fastest, and no H100 count is dominated.
constexpr auto priced_runs = runs(guide);
static_assert(*gpuplan::cheapest(priced_runs) == 1 && *gpuplan::fastest(priced_runs) == 4);
static_assert(!on_pareto_front(priced_runs, 0) && on_pareto_front(priced_runs, 1) &&
              on_pareto_front(priced_runs, 2) && on_pareto_front(priced_runs, 3) &&
              on_pareto_front(priced_runs, 4));

// ---- tables

std::string h100s(std::int64_t gpus) { return "H100 x " + std::to_string(gpus); }
std::string name_of(std::size_t run) { return run == 0 ? "A6000 x 1" : h100s(counts[run - 1]); }
shown yes_or_no(bool yes) { return word(yes ? "yes" : "no"); }

table cards(const inputs& in) {
  table t{.id = "T1.1",
          .title = "A6000 against H100",
          .inputs = "the cards as printed; published peaks of RTX A6000, H100 PCIe, H100 SXM5"};

  const auto ratio = [&](const char* row, double documented, int digits, double computed) {
    t.compare(
        row, "H100 / A6000, as printed", "x", number(documented, digits), number(computed, 2));
  };
  ratio("memory", 1.67, 2, in.h100.memory / in.a6000.memory);
  ratio("memory bandwidth", 2.6, 1, in.h100.memory_bandwidth / in.a6000.memory_bandwidth);
  ratio("FP16", 4.9, 1, in.h100.fp16 / in.a6000.fp16);
  ratio("BF16", 6.4, 1, in.h100.bf16 / in.a6000.bf16);
  ratio("TF32", 6.4, 1, in.h100.tf32 / in.a6000.tf32);

  // What the printed numbers are, and the dense peaks beside them.
  const auto printed = [&](const char* row,
                           double documented,
                           int digits,
                           compute_rate rate,
                           number_format format,
                           std::initializer_list<const gpu_spec*> devices) {
    const auto found = identify(rate, format, devices);
    t.compare(row,
              "dense peak of that card",
              "TFLOPS",
              number(documented, digits),
              found ? number(gpuplan::in(found->dense, 1_TFLOPS), 1) : nothing(),
              !found          ? "no peak of these cards"
              : found->sparse ? std::string("printed with sparsity: ") + found->device->name
                              : found->device->name);
  };
  const auto a6000 = {&in.a6000_device};
  const auto h100 = {&in.h100_pcie, &in.h100_sxm};
  printed("A6000 FP16", 309.7, 1, in.a6000.fp16, number_format::fp16, a6000);
  printed("A6000 BF16", 309.7, 1, in.a6000.bf16, number_format::bf16, a6000);
  printed("A6000 TF32", 155, 0, in.a6000.tf32, number_format::tf32, a6000);
  printed("H100 FP16", 1513, 0, in.h100.fp16, number_format::fp16, h100);
  printed("H100 BF16", 1979, 0, in.h100.bf16, number_format::bf16, h100);
  printed("H100 TF32", 989, 0, in.h100.tf32, number_format::tf32, h100);

  // Like for like: one card, dense.
  for (const gpu_spec* device : h100) {
    const std::string quantity = std::string(device->name) + " / A6000, dense";
    const auto like_for_like = [&](const char* row, double documented, double computed) {
      t.compare(row, quantity, "x", number(documented, 1), number(computed, 2));
    };
    t.compare("memory",
              quantity,
              "x",
              number(1.67, 2),
              number(usable_memory(*device) / usable_memory(in.a6000_device), 2),
              "what the drivers leave to a process");
    like_for_like("memory bandwidth", 2.6, bandwidth_ratio(in, *device));
    like_for_like("FP16", 4.9, dense_ratio(in, *device, number_format::fp16));
    like_for_like("BF16", 6.4, dense_ratio(in, *device, number_format::bf16));
    like_for_like("TF32", 6.4, dense_ratio(in, *device, number_format::tf32));
  }

  // What speed-up all that supports.
  const auto real = [&](const char* row, const shown& computed, const char* note) {
    t.compare(row, "real speed-up", "x", span_of({6, 7}, 0), computed, note);
  };
  real("H100/A100 x A100/A6000",
       span_of(speedup_by_a100(in), 1),
       "the guide's own benchmarks; they meet its 6-7 at the upper end");
  real("H100 PCIe, by peaks",
       span_of(speedup_by_peaks(in, in.h100_pcie), 1),
       "bandwidth-bound to compute-bound");
  real("H100 SXM5, by peaks",
       span_of(speedup_by_peaks(in, in.h100_sxm), 1),
       "bandwidth-bound to compute-bound");
  real("H100 PCIe, measured",
       number(in.h100_pcie_reaches / in.a6000_reaches, 1),
       "best matrix products: mag-/gpu_benchmark");
  real("H100 SXM5, measured", number(in.h100_sxm_reaches / in.a6000_reaches, 1), "the same");
  t.compare("computed with",
            "real speed-up",
            "x",
            span_of({6, 7}, 0),
            number(in.speedup, 0),
            "the low end: hours and costs below are the highest of the range");
  return t;
}

table times(const inputs& in) {
  table t{
      .id = "T1.2", .title = "hours on one GPU", .inputs = "stage hours on one A6000 / speed-up"};
  const duration a6000 = on_a6000(in);
  t.compare("A6000 x 1, stage 1", "time", "d", number(16, 0), number(in_days(in.stage_1), 2));
  t.compare("A6000 x 1, stage 2", "time", "d", number(9, 0), number(in_days(in.stage_2), 2));
  t.compare("A6000 x 1, total", "time", "h", number(598, 0), number(in_hours(a6000), 0));
  t.compare("A6000 x 1, total", "time", "d", number(25, 0), number(in_days(a6000), 2));
  const auto on_one =
      [&](const char* row, double hours, double days, duration stage, const char* note) {
        const duration time = on_h100(in, stage, 1);
        t.compare(row, "time", "h", number(hours, 0), number(in_hours(time), 2), note);
        t.compare(row, "time", "d", number(days, 1), number(in_days(time), 2));
      };
  on_one("H100 x 1, stage 1", 64, 2.7, in.stage_1, "");
  on_one("H100 x 1, stage 2", 36, 1.5, in.stage_2, "a tie, rounded up");
  on_one("H100 x 1, total", 100, 4.2, a6000, "");
  t.also("H100 x 1, total",
         "time over the stated speed-ups",
         "h",
         span_of(in_hours(on_h100(in, a6000, 1, in.real_speedup)), 1));
  return t;
}

table scenarios(const inputs& in) {
  table t{.id = "T1.3",
          .title = "1, 2, 4, 8 x H100",
          .inputs = "hours on one H100 / (GPUs x stated efficiency); price x GPUs x hours"};
  const double documented_days[]{4.2, 2.1, 1.1, 0.6};
  const double documented_cost[]{300, 300, 312, 360};
  const auto all = runs(in);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t gpus = counts[i];
    const std::string row = h100s(gpus);
    const priced_run& run = all[i + 1];
    t.compare(row, "time", "d", number(documented_days[i], 1), number(in_days(run.time), 2));
    t.compare(row, "cost", "USD", number(documented_cost[i], 0), number(in_usd(run.cost), 0));
    if (gpus == 1) continue;
    t.also(row, "time at 100 % efficiency", "d", number(in_days(at_perfect_scaling(in, gpus)), 2));
    t.compare(row,
              "speed-up over one H100",
              "x",
              gpus == 2 ? number(2, 0) : nothing(),
              number(all[1].time / run.time, 2));
    t.compare(
        row,
        "communication loss",
        "%",
        gpus == 4 ? number(10, 0) : nothing(),
        number(100 * gpuplan::communication_share(*in.scaling.speedup(gpus), gpus)->low(), 0));
  }
  const gpuplan::money more = all[2].cost - all[1].cost;
  t.compare("H100 x 2",
            "same cost as one H100",
            "",
            word("yes"),
            yes_or_no(more < 0.5_usd && more > -0.5_usd),
            "only at 100 % efficiency");
  t.compare("H100 x 4",
            "done within a day",
            "",
            word("yes"),
            yes_or_no(all[3].time <= 1_d),
            decimal(in_hours(all[3].time), 1) + " h");
  return t;
}

table costs(const inputs& in) {
  table t{.id = "T1.4",
          .title = "cost comparison",
          .inputs = "one price per GPU-hour for both cards; \"efficiency\" is cost / A6000's cost"};
  const double hours[]{598, 100, 50, 26, 15};
  const double gpu_hours[]{598, 100, 100, 104, 120};
  const double cost[]{1794, 300, 300, 312, 360};
  const double efficiency[]{100, 17, 17, 17, 20};
  const auto all = runs(in);
  const auto own_price = runs_at_own_price(in);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string row = name_of(i);
    const priced_run& run = all[i];
    t.compare(row, "time", "h", number(hours[i], 0), number(in_hours(run.time), 1));
    t.compare(row,
              "GPU-hours",
              "h",
              number(gpu_hours[i], 0),
              number(in_hours(gpuplan::gpu_time(run.time, run.devices)->low()), 1));
    t.compare(row, "cost", "USD", number(cost[i], 0), number(in_usd(run.cost), 0));
    t.compare(row,
              "efficiency",
              "%",
              number(efficiency[i], 0),
              number(100 * relative(all, i), 1),
              i == 0 ? "the baseline" : "");
    t.also(row,
           "efficiency, A6000 at its price",
           "%",
           number(100 * relative(own_price, i), 0),
           i == 0 ? "RunPod, 2026-08-27: " + decimal(in_usd_per_hour(in.a6000_price), 2) +
                        " USD per hour, " + decimal(in_usd(own_price[0].cost), 0) + " USD in all"
                  : "");
  }
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto time = on_h100(in, on_a6000(in), counts[i - 1], in.real_speedup);
    t.also(name_of(i),
           "cost over the stated speed-ups",
           "USD",
           span_of(in_usd(*gpuplan::cost(time, counts[i - 1], in.per_gpu)), 0));
  }
  for (std::size_t i = 1; i < all.size(); ++i)
    t.compare(name_of(i),
              "time, from whole hours",
              "h",
              number(hours[i], 0),
              number(in_hours(from_whole_hours(in, counts[i - 1])), 1),
              i == 1 ? "each stage rounded to whole hours first, as in the guide" : "");
  return t;
}

std::string setting_text(const batch_plan& plan) {
  return std::to_string(plan.micro_batch) + " x " + std::to_string(plan.accumulation);
}
std::string setting_text(const gpuplan::result<batch_plan>& plan) {
  return plan ? setting_text(*plan) : "no setting";
}
shown settings(const gpuplan::result<batch_plan>& plan) {
  return plan ? word(setting_text(*plan)) : nothing();
}

table batches(const inputs& in) {
  table t{.id = "T1.5",
          .title = "batch settings (micro-batch x accumulation per GPU)",
          .inputs = "one GPU: micro-batch 16, known to fit; global batch = micro x GPUs x accum"};
  t.also("H100 x 1",
         "global batch",
         "samples",
         number(in.on_1.effective_batch()),
         setting_text(in.on_1));
  t.compare("H100 x 1",
            "the micro-batch fits",
            "",
            word("yes"),
            yes_or_no(usable_memory(in.h100_pcie) >= usable_memory(in.a6000_device)),
            "the same script ran on the A6000; the guide has no memory model");
  struct setting {
    const batch_plan& plan;
    double batch;
    double factor;
  };
  for (const setting& s : {setting{in.on_2, 32, 2}, setting{in.on_4, 64, 4}}) {
    const std::int64_t gpus = s.plan.data_parallel;
    const std::string row = h100s(gpus);
    t.compare(row,
              "global batch",
              "samples",
              number(s.batch, 0),
              number(s.plan.effective_batch()),
              setting_text(s.plan));
    t.compare(row,
              "times that on one GPU",
              "x",
              number(s.factor, 0),
              number(batch_factor(in, s.plan), 2));
    t.also(row,
           "learning rate, linear",
           "x",
           number(rate_factor(in, s.plan, gpuplan::linear_rule{}), 2),
           "SGD (Goyal et al. 2017)");
    t.also(row,
           "learning rate, square root",
           "x",
           number(rate_factor(in, s.plan, gpuplan::square_root_rule{}), 2),
           "Adam, with its betas and epsilon (Malladi et al. 2022)");
    t.also(row,
           "steps for as many samples",
           "x",
           number(1 / batch_factor(in, s.plan), 2),
           "fewer updates at the same number of epochs");
    t.not_computable(
        row, "learning rate", "", nothing(), "the learning rate on one GPU, the optimizer");
    t.not_computable(row, "steps", "", nothing(), "the number of samples and epochs");
    t.also(row,
           "same global batch, fewest accum",
           "",
           settings(same_batch(in, s.plan, gpus)),
           "the micro-batch of one GPU fits here too: accumulation only costs time");
  }
  for (const std::int64_t gpus : counts)
    if (gpus > 1)
      t.also(h100s(gpus),
             "keeps the batch of one GPU",
             "",
             settings(same_batch(in, in.on_1, gpus)),
             gpus == 8 ? "the guide gives no setting for 8" : "");
  return t;
}

// A day of a schedule as the guide prints it.
struct documented_piece {
  int stage;
  double from, to;
};
struct documented_day {
  const char* task;
  documented_piece pieces[2];
  int count;
  const char* progress;
};

constexpr const char* stage_names[]{"TAC", "LoRA"};

// `in_full` as the guide's schedule of one GPU, which says "starts" and "continues" too.
std::string task_of(const day_plan& today, bool in_full) {
  std::string task;
  for (std::size_t i = 0; i < today.count; ++i) {
    const gpuplan::schedule_piece& piece = today.pieces[i];
    if (i > 0) task += " -> ";
    task += "stage " + std::to_string(piece.stage + 1);
    if (piece.completes) {
      task += " done";
    } else if (in_full) {
      task += piece.starts ? " starts" : " continues";
    }
  }
  return task;
}

std::string progress_of(const day_plan& today) {
  if (today.count == 0) return "";
  const gpuplan::schedule_piece& last = today.pieces[today.count - 1];
  if (last.completes && last.stage == 1) return "done";
  const std::string name = stage_names[last.stage];
  return name + (last.stage == 1 && last.starts ? " starts" : " training");
}

void add_schedule(table& t,
                  const inputs& in,
                  std::int64_t gpus,
                  bool in_full,
                  std::array<double, 2> documented_hours,
                  std::initializer_list<documented_day> documented) {
  t.compare(h100s(gpus),
            "days",
            "",
            number(static_cast<double>(documented.size()), 0),
            number(days(in, gpus)));
  const auto taken = stages(in, gpus);
  for (std::size_t stage = 0; stage < taken.size(); ++stage)
    t.compare(h100s(gpus),
              "stage " + std::to_string(stage + 1) + " takes",
              "h",
              number(documented_hours[stage], 0),
              number(in_hours(taken[stage]), 1));
  std::int64_t day = 0;
  for (const documented_day& d : documented) {
    const day_plan today = on_day(in, gpus, ++day);
    const std::string row = h100s(gpus) + ", day " + std::to_string(day);
    t.compare(
        row, "task", "", word(d.task), today.count ? word(task_of(today, in_full)) : nothing());
    for (int i = 0; i < d.count; ++i) {
      const documented_piece& piece = d.pieces[i];
      const gpuplan::schedule_piece* found = nullptr;
      for (std::size_t p = 0; p < today.count; ++p)
        if (today.pieces[p].stage == piece.stage) found = &today.pieces[p];
      const std::string stage = "stage " + std::to_string(piece.stage + 1);
      t.compare(row,
                stage + " from",
                "h",
                number(piece.from, 0),
                found ? number(in_hours(found->begin), 1) : nothing());
      t.compare(row,
                stage + " to",
                "h",
                number(piece.to, 0),
                found ? number(in_hours(found->end), 1) : nothing());
    }
    t.compare(
        row, "progress", "", word(d.progress), today.count ? word(progress_of(today)) : nothing());
  }
}

table schedules(const inputs& in) {
  table t{.id = "T1.6",
          .title = "day by day (day 1 starts at hour 0)",
          .inputs = "stage hours / speed-up / (GPUs x stated efficiency)"};
  add_schedule(t,
               in,
               1,
               true,
               {64, 36},
               {{"stage 1 starts", {{0, 0, 24}}, 1, "TAC training"},
                {"stage 1 continues", {{0, 24, 48}}, 1, "TAC training"},
                {"stage 1 done -> stage 2 starts", {{0, 48, 64}, {1, 64, 72}}, 2, "LoRA starts"},
                {"stage 2 continues", {{1, 72, 96}}, 1, "LoRA training"},
                {"stage 2 done", {{1, 96, 100}}, 1, "done"}});
  add_schedule(t,
               in,
               2,
               false,
               {32, 18},  // to 32 h, and from there to 50 h
               {{"stage 1", {{0, 0, 24}}, 1, "TAC training"},
                {"stage 1 done -> stage 2", {{0, 24, 32}, {1, 32, 48}}, 2, "LoRA starts"},
                {"stage 2 done", {{1, 48, 50}}, 1, "done"}});
  return t;
}

double price_of_an_hour(const priced_run& slower, const priced_run& faster) {
  return in_usd_per_hour(*gpuplan::price_of_time_saved(slower, faster));
}

table recommendation(const inputs& in) {
  table t{.id = "T1.7",
          .title = "which to take",
          .inputs = "the five runs of T1.4, at their computed times and costs"};
  const auto all = runs(in);
  const std::size_t cheapest = *gpuplan::cheapest(all);
  std::string as_cheap;  // to the dollar
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].cost < all[cheapest].cost + 0.5_usd)
      as_cheap += (as_cheap.empty() ? "" : ", ") + name_of(i);
  t.compare("all", "cheapest", "", word("H100 x 1"), word(name_of(cheapest)));
  t.compare("all",
            "best for the money",
            "",
            word("H100 x 1, H100 x 2"),
            word(as_cheap),
            "the guide's two cost the same only at 100 % efficiency");
  t.also("all", "cost of the cheapest", "USD", number(in_usd(all[cheapest].cost), 0));
  const std::size_t fastest = *gpuplan::fastest(all);
  t.also("all", "fastest", "", word(name_of(fastest)));
  t.also("all", "time of the fastest", "h", number(in_hours(all[fastest].time), 1));
  for (std::size_t i = 0; i < all.size(); ++i)
    t.also(name_of(i), "on the time/cost front", "", yes_or_no(on_pareto_front(all, i)));
  const auto perfect = runs_at_perfect_scaling(in);
  for (std::size_t i = 0; i < all.size(); ++i)
    t.also(name_of(i),
           "on the front at 100 % efficiency",
           "",
           yes_or_no(on_pareto_front(perfect, i)),
           i == 1 ? "as the printed 1 and 2 have it: two cost the same, and are faster" : "");
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    t.also(name_of(i) + " -> " + name_of(i + 1),
           "price of an hour saved",
           "USD/h",
           number(price_of_an_hour(all[i], all[i + 1]), 2),
           i == 0 ? "faster and cheaper, at one price for both cards" : "");
  const auto own_price = runs_at_own_price(in);
  t.also("A6000 at its price -> H100 x 1",
         "price of an hour saved",
         "USD/h",
         number(price_of_an_hour(own_price[0], own_price[1]), 2));
  t.also(
      "A6000 at its price", "on the time/cost front", "", yes_or_no(on_pareto_front(own_price, 0)));
  return t;
}

// ---- findings

std::string hours(duration time, int digits = 1) { return decimal(in_hours(time), digits) + " h"; }
std::string usd(gpuplan::money cost) { return "$" + decimal(in_usd(cost), 0); }
std::string times(double factor) { return decimal(factor, 1) + "x"; }

std::vector<std::string> findings(const inputs& in) {
  std::vector<std::string> found;
  const auto all = runs(in);
  const auto own_price = runs_at_own_price(in);
  const auto pcie = speedup_by_peaks(in, in.h100_pcie);
  const auto sxm = speedup_by_peaks(in, in.h100_sxm);

  found.push_back(
      "No H100 has the guide's column: bandwidth and FP16 are those of the PCIe card, "
      "BF16 and TF32 those of the SXM5, and all peaks, the A6000's too, are with "
      "sparsity, which training does not use. Dense, one card gains the same in every "
      "format: " +
      times(pcie.high()) + " (PCIe) or " + times(sxm.high()) + " (SXM5).");
  const double pcie_measured = in.h100_pcie_reaches / in.a6000_reaches;
  const priced_run on_pcie = *gpuplan::priced(
      gpuplan::training_time(on_a6000(in), {.speed = pcie_measured})->low(), 1, in.per_gpu);
  found.push_back("A speed-up of 6-7x is that of an SXM5 (peaks " + times(sxm.low()) + " to " +
                  times(sxm.high()) + ", matrix products measured " +
                  times(in.h100_sxm_reaches / in.a6000_reaches) +
                  "). The PCIe card, whose bandwidth and FP16 the guide prints, has " +
                  times(pcie.low()) + " to " + times(pcie.high()) + " by its peaks and " +
                  times(pcie_measured) + " measured: " + hours(on_pcie.time, 0) + " and " +
                  usd(on_pcie.cost) + " instead of " + hours(all[1].time, 0) + " and " +
                  usd(all[1].cost) + ". Rent an SXM5, or plan for that.");
  std::string slower;
  for (std::size_t i = 2; i < all.size(); ++i)
    slower += (i == 2               ? ""
               : i + 1 < all.size() ? ", "
                                    : " and ") +
              hours(all[i].time) + " (" + usd(all[i].cost) + ")";
  found.push_back(
      "The hours of 2, 4 and 8 H100s do not follow from the stated efficiencies, which "
      "give " +
      slower + "; 50 h for two is what " + hours(on_h100(in, 1)) + " become without any loss, " +
      hours(at_perfect_scaling(in, 2)) + ".");
  found.push_back("Two H100s do not cost the same as one: " + usd(all[2].cost - all[1].cost) +
                  " more. Four are not done within a day: " + hours(all[3].time) + ".");
  found.push_back("The 17 % comes from pricing an A6000 like an H100. At $" +
                  decimal(in_usd_per_hour(in.a6000_price), 2) +
                  " per hour (RunPod, 2026-08-27) the A6000 run costs " + usd(own_price[0].cost) +
                  ", and one H100 " + decimal(100 * relative(own_price, 1), 0) +
                  " % of that: it saves time, hardly money.");
  found.push_back(
      "The settings for 2 and 4 GPUs change the training: global batch " +
      std::to_string(in.on_2.effective_batch()) + " and " +
      std::to_string(in.on_4.effective_batch()) + " instead of " +
      std::to_string(in.on_1.effective_batch()) + ", with " +
      decimal(100 / batch_factor(in, in.on_2), 0) + " and " +
      decimal(100 / batch_factor(in, in.on_4), 0) +
      " % of the steps. To keep the batch, divide TRAIN_BSZ by the number of GPUs and leave "
      "GRAD_ACC_STEPS at 1: " +
      setting_text(same_batch(in, in.on_1, 2)) + " on 2, " +
      setting_text(same_batch(in, in.on_1, 4)) + " on 4, " +
      setting_text(same_batch(in, in.on_1, 8)) + " on 8.");
  found.push_back("Where a global batch of " + std::to_string(in.on_2.effective_batch()) + " or " +
                  std::to_string(in.on_4.effective_batch()) +
                  " is wanted, accumulation is not: " + setting_text(same_batch(in, in.on_2, 2)) +
                  " on 2 and " + setting_text(same_batch(in, in.on_4, 4)) +
                  " on 4 give it, and a micro-batch of " + std::to_string(in.on_1.micro_batch) +
                  " is known to fit.");
  found.push_back(
      name_of(*gpuplan::cheapest(all)) + " is cheapest, " + name_of(*gpuplan::fastest(all)) +
      " fastest, and no number of H100s is beaten in both time and cost. An hour saved costs $" +
      decimal(price_of_an_hour(all[1], all[2]), 2) + " from 1 to 2, $" +
      decimal(price_of_an_hour(all[2], all[3]), 2) + " from 2 to 4 and $" +
      decimal(price_of_an_hour(all[3], all[4]), 2) +
      " from 4 to 8: four are no waste for whom an hour is "
      "worth more than $" +
      decimal(price_of_an_hour(all[2], all[3]), 2) +
      ". At the printed $300 for one and for two, two would be the better choice: the guide's "
      "choice of one does not follow from its table.");
  return found;
}

}  // namespace

report make_report(const inputs& in) {
  return {.guide = "001",
          .title = "From A6000 to H100",
          .tables = {cards(in),
                     times(in),
                     scenarios(in),
                     costs(in),
                     batches(in),
                     schedules(in),
                     recommendation(in)},
          .findings = findings(in)};
}

}  // namespace guides::a6000_to_h100

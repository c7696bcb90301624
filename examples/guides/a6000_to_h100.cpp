#include "guides/a6000_to_h100.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "guides/a6000_to_h100/tables.hpp"

namespace guides::a6000_to_h100 {

// ---- T1.2

// 598 / 6, in hours and in days.
static_assert(near(in_hours(on_h100(guide, 1)), 598.0 / 6));
static_assert(judge(number(4.2, 1), number(in_days(on_h100(guide, 1)), 2)) == verdict::agrees);

table times(const inputs& in, const likely_runs& likely) {
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
        add_likely(t, row, "time", "h", number(hours, 0), 0, [&](h100_card card) {
          return in_hours(likely.time(card, stage, 1));
        });
        add_likely(t, row, "time", "d", number(days, 1), 1, [&](h100_card card) {
          return in_days(likely.time(card, stage, 1));
        });
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

// ---- T1.3 and T1.4

// Two GPUs at 95 % take 52.5 h and not 50, and cost more than one.
static_assert(near(in_hours(on_h100(guide, 2)), 598.0 / 6 / 1.9));
static_assert(near(in_hours(on_h100(guide, 4)), 598.0 / 6 / 3.6) && on_h100(guide, 4) > 1_d);
static_assert(near(in_hours(from_whole_hours(guide, 2)), 100 / 1.9));
static_assert(runs(guide)[2].cost > runs(guide)[1].cost + 15_usd);
static_assert(near(relative(runs(guide), 1), 1.0 / 6));
static_assert(relative(runs_at_own_price(guide), 2) > 0.98);

table scenarios(const inputs& in, const likely_runs& likely) {
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
    add_likely(t, row, "time", "d", number(documented_days[i], 1), 2, [&](h100_card card) {
      return in_days(likely.time(card, on_a6000(in), gpus));
    });
    add_likely(t, row, "cost", "USD", number(documented_cost[i], 0), 0, [&](h100_card card) {
      return in_usd(likely.cost(card, on_a6000(in), gpus));
    });
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

table costs(const inputs& in, const likely_runs& likely) {
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
    const std::int64_t gpus = counts[i - 1];
    const auto time_on = [&](h100_card card) { return likely.time(card, on_a6000(in), gpus); };
    const auto cost_on = [&](h100_card card) { return likely.cost(card, on_a6000(in), gpus); };
    add_likely(t, name_of(i), "time", "h", number(hours[i], 0), 1, [&](h100_card card) {
      return in_hours(time_on(card));
    });
    add_likely(t, name_of(i), "GPU-hours", "h", number(gpu_hours[i], 0), 0, [&](h100_card card) {
      return in_hours(*gpuplan::gpu_time(time_on(card), gpus));
    });
    add_likely(t, name_of(i), "cost", "USD", number(cost[i], 0), 0, [&](h100_card card) {
      return in_usd(cost_on(card));
    });
    add_likely(t, name_of(i), "efficiency", "%", number(efficiency[i], 0), 0, [&](h100_card card) {
      return 100.0 * *gpuplan::relative_cost(cost_on(card), all[0].cost);
    });
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

// ---- T1.6

// On one H100, stage 1 ends on day 3; on two, at 33.8 h of day 2.
static_assert(days(guide, 1) == 5 && days(guide, 2) == 3);
static_assert(on_day(guide, 1, 3).count == 2 && on_day(guide, 1, 3).pieces[1].starts);
static_assert(near(in_hours(on_day(guide, 2, 2).pieces[0].end), 385.0 / 6 / 1.9));

namespace {

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
                  const likely_runs& likely,
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
  for (std::size_t stage = 0; stage < taken.size(); ++stage)
    add_likely(t,
               h100s(gpus),
               "stage " + std::to_string(stage + 1) + " takes",
               "h",
               number(documented_hours[stage], 0),
               0,
               [&](h100_card card) {
                 return in_hours(likely.time(card, stage == 0 ? in.stage_1 : in.stage_2, gpus));
               });
  add_likely(t,
             h100s(gpus),
             "days",
             "",
             number(static_cast<double>(documented.size()), 0),
             0,
             [&](h100_card card) {
               const range<double> lasts = in_days(likely.time(card, on_a6000(in), gpus));
               return range<double>(std::ceil(lasts.low()), std::ceil(lasts.high()));
             });
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

}  // namespace

table schedules(const inputs& in, const likely_runs& likely) {
  table t{.id = "T1.6",
          .title = "day by day (day 1 starts at hour 0)",
          .inputs = "stage hours / speed-up / (GPUs x stated efficiency)"};
  add_schedule(t,
               in,
               likely,
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
               likely,
               2,
               false,
               {32, 18},  // to 32 h, and from there to 50 h
               {{"stage 1", {{0, 0, 24}}, 1, "TAC training"},
                {"stage 1 done -> stage 2", {{0, 24, 32}, {1, 32, 48}}, 2, "LoRA starts"},
                {"stage 2 done", {{1, 48, 50}}, 1, "done"}});
  return t;
}

// ---- T1.7

// One H100 is cheapest, eight are fastest, and no H100 count is dominated.
constexpr auto priced_runs = runs(guide);
static_assert(*gpuplan::cheapest(priced_runs) == 1 && *gpuplan::fastest(priced_runs) == 4);
static_assert(!on_pareto_front(priced_runs, 0) && on_pareto_front(priced_runs, 1) &&
              on_pareto_front(priced_runs, 2) && on_pareto_front(priced_runs, 3) &&
              on_pareto_front(priced_runs, 4));

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

namespace {

std::string hours(duration time, int digits = 1) { return decimal(in_hours(time), digits) + " h"; }
std::string usd(gpuplan::money cost) { return "$" + decimal(in_usd(cost), 0); }
std::string times(double factor) { return decimal(factor, 1) + "x"; }

std::vector<std::string> findings(const inputs& in, const likely_runs& likely) {
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
  found.push_back(finding_of_the_hours(in, likely));
  found.push_back(finding_of_the_model(in));
  return found;
}

}  // namespace

report make_report(const inputs& in) {
  const likely_runs likely(in);
  return {.guide = "001",
          .title = "From A6000 to H100",
          .tables = {cards(in),
                     times(in, likely),
                     scenarios(in, likely),
                     costs(in, likely),
                     batches(in),
                     schedules(in, likely),
                     recommendation(in),
                     the_model(in),
                     the_memory(in)},
          .findings = findings(in, likely)};
}

}  // namespace guides::a6000_to_h100

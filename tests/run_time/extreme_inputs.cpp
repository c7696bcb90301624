// Whatever numbers go in: what comes out is finite and within what it can be, or refused.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/reliability.hpp>
#include <gpuplan/run_phases.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/sweep.hpp>
#include <gpuplan/time/affine.hpp>
#include <gpuplan/time/calibrated.hpp>
#include <gpuplan/time/documented.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/token_budget.hpp>
#include <gpuplan/training_run.hpp>

#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "check.hpp"
#include "random_numbers.hpp"

using namespace gpuplan;

namespace {

constexpr std::int64_t most_whole = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least_whole = std::numeric_limits<std::int64_t>::min();

class extremes {
 public:
  explicit extremes(std::uint64_t seed) : numbers_(seed) {}

  template <class List>
  auto one_of(const List& list) {
    return list[static_cast<std::size_t>(
        numbers_.below(static_cast<std::int64_t>(std::size(list))))];
  }

  double number() {
    static const double from[] = {0,
                                  -0.0,
                                  5e-324,
                                  1e-310,
                                  2.3e-308,
                                  1e-300,
                                  1e-150,
                                  1e-9,
                                  0.1,
                                  0.5,
                                  0.9999999999999999,
                                  1,
                                  1.5,
                                  7,
                                  1e9,
                                  9.3e18,
                                  1e150,
                                  1e300,
                                  1.7e308,
                                  -5e-324,
                                  -1,
                                  -1e308,
                                  detail::infinity,
                                  -detail::infinity,
                                  detail::not_a_number};
    return one_of(from);
  }
  std::int64_t whole() {
    static const std::int64_t from[] = {0,
                                        1,
                                        2,
                                        3,
                                        8,
                                        1000,
                                        1 << 20,
                                        std::int64_t{1} << 32,
                                        std::int64_t{1} << 62,
                                        most_whole - 1,
                                        most_whole,
                                        -1,
                                        -512,
                                        least_whole};
    return one_of(from);
  }
  range<double> numbers() {
    const double a = number();
    const double b = number();
    if (detail::is_nan(a) || detail::is_nan(b)) return 1.0;
    return a <= b ? range<double>(a, b) : range<double>(b, a);
  }
  range<std::int64_t> wholes() {
    const std::int64_t a = whole();
    const std::int64_t b = whole();
    return a <= b ? range(a, b) : range(b, a);
  }
  template <class Quantity>
  Quantity quantity() {
    return Quantity::from_value(number());
  }
  template <class Quantity>
  range<Quantity> quantities() {
    const range<double> ends = numbers();
    return {Quantity::from_value(ends.low()), Quantity::from_value(ends.high())};
  }
  batch_plan plan() { return {whole(), whole(), whole()}; }
  bool one_in(std::int64_t many) { return numbers_.below(many) == 0; }
  std::int64_t below(std::int64_t end) { return numbers_.below(end); }

 private:
  random_numbers numbers_;
};

// What an answer can be.
constexpr double any = -std::numeric_limits<double>::max();
constexpr double above_zero = std::numeric_limits<double>::denorm_min();

bool lies_in(range<double> answer, double least, double most) {
  return least <= answer.low() && answer.high() <= most;
}
template <class Answer>
bool lies_in(const Answer& answer, double least, double most) {
  if constexpr (std::is_same_v<Answer, std::int64_t>)
    return lies_in(range<double>(static_cast<double>(answer)), least, most);
  else if constexpr (std::is_same_v<Answer, range<std::int64_t>>)
    return lies_in(
        range<double>(static_cast<double>(answer.low()), static_cast<double>(answer.high())),
        least,
        most);
  else
    return lies_in(detail::ends_of(answer), least, most);
}

struct tally {
  int answers = 0;
  int refusals = 0;
};

// Calls `ask` so many times; none may throw, and every answer lies between the two.
template <class Ask>
tally asked(const char* what, int times, double least, double most, Ask ask) {
  tally found;
  int wrong = 0;
  for (int i = 0; i < times; ++i) {
    extremes from(static_cast<std::uint64_t>(i) * 977 + 5);
    try {
      const auto answer = ask(from);
      if (!answer) {
        ++found.refusals;
        if (answer.why().code == errc::none) ++wrong;
      } else {
        ++found.answers;
        if (!lies_in(*answer, least, most)) ++wrong;
      }
    } catch (const plan_error& thrown) {
      if (++wrong < 3) MESSAGE(std::string(what) << " throws: " << thrown.what());
    }
  }
  CHECK_MESSAGE(wrong == 0, std::string(what) << ": " << wrong << " of " << times);
  CHECK_MESSAGE(found.answers > 0, std::string(what) << " answers");
  CHECK_MESSAGE(found.refusals > 0, std::string(what) << " refuses");
  return found;
}

constexpr int many = 20'000;
constexpr double largest = std::numeric_limits<double>::max();

}  // namespace

TEST_CASE("costs are finite or refused") {
  asked("gpu_time", many, above_zero, largest, [](extremes& from) {
    return gpu_time(from.quantities<duration>(), from.whole());
  });
  asked("cost", many, 0, largest, [](extremes& from) {
    return cost(from.quantities<duration>(), from.whole(), from.quantities<price>());
  });
  asked("energy_used", many, above_zero, largest, [](extremes& from) {
    return energy_used(from.quantities<duration>(), from.whole(), from.quantities<power>());
  });
  asked("relative_cost", many, above_zero, largest, [](extremes& from) {
    return relative_cost(from.quantities<money>(), from.quantities<money>());
  });
  asked("priced", many, 0, largest, [](extremes& from) -> result<money> {
    const auto run = priced(from.quantity<duration>(), from.whole(), from.quantity<price>());
    if (!run) return run.why();
    CHECK(validate(*run));
    return run->cost;
  });
  const auto run_from = [](extremes& from) {
    return priced_run{from.whole(), from.quantity<duration>(), from.quantity<money>()};
  };
  asked("price_of_time_saved", many, any, largest, [&](extremes& from) {
    const priced_run slower = run_from(from);
    return price_of_time_saved(slower, run_from(from));
  });
  for (const bool by_cost : {true, false})
    asked(by_cost ? "cheapest" : "fastest", many, 0, 1, [&](extremes& from) -> result<double> {
      const priced_run runs[] = {run_from(from), run_from(from)};
      const auto best = by_cost ? cheapest(runs) : fastest(runs);
      if (!best) return best.why();
      CHECK(validate(runs[*best]));
      CHECK(on_pareto_front(runs, *best));
      return static_cast<double>(*best);
    });
}

TEST_CASE("a run whose cost is no number is not the cheapest") {
  const priced_run runs[] = {{1, 1_h, money::from_value(detail::not_a_number)}, {1, 2_h, 5_usd}};
  CHECK(cheapest(runs).why().code == errc::not_finite);
  CHECK(cheapest(runs).why()[fact::position] == 0);
  CHECK_THROWS_AS(static_cast<void>(on_pareto_front(runs, 1)), plan_error);
}

TEST_CASE("lengths of runs are finite or refused") {
  asked("steps at a time", many, above_zero, largest, [](extremes& from) {
    return training_time(from.whole(), from.quantities<duration>());
  });
  asked("samples at a rate", many, above_zero, largest, [](extremes& from) {
    return training_time(from.whole(), from.quantities<sample_rate>());
  });
  asked("beside a reference", many, above_zero, largest, [](extremes& from) {
    const auto reference = from.quantities<duration>();
    return training_time(reference, run_ratios{from.numbers(), from.numbers()});
  });
  asked("by a line", many, above_zero, largest, [](extremes& from) {
    const affine_time line{from.quantity<duration>(), from.quantity<duration>()};
    return training_time(from.whole(), from.plan(), line);
  });
  asked("as documented", many, above_zero, largest, [](extremes& from) {
    const documented_time stated{from.quantity<duration>(), from.plan(), from.number()};
    return training_time(from.whole(), from.plan(), stated);
  });
  const auto run_from = [](extremes& from) {
    return training_run{from.whole(),
                        from.whole(),
                        from.whole(),
                        from.one_in(2) ? last_batch::kept : last_batch::dropped};
  };
  asked(
      "total_steps", many, 0, 0x1p63, [&](extremes& from) { return total_steps(run_from(from)); });
  asked("samples_seen", many, 0, 0x1p63, [&](extremes& from) {
    return samples_seen(run_from(from));
  });
  asked("samples_in", many, 1, 0x1p63, [](extremes& from) {
    return samples_in(from.whole(), from.whole());
  });
  asked("epochs_in", many, above_zero, largest, [&](extremes& from) {
    return epochs_in(from.whole(), run_from(from));
  });
}

TEST_CASE("checkpoints are finite or refused") {
  asked("checkpoint_size", many, above_zero, largest, [](extremes& from) {
    return checkpoint_size(from.whole(), from.quantity<bytes>());
  });
  asked("checkpoints_saved", many, 0, 0x1p63, [](extremes& from) {
    return checkpoints_saved(from.whole(), from.whole());
  });
  const auto storage_from = [](extremes& from) {
    return checkpoint_storage{from.quantity<bytes>(),
                              from.quantities<bytes>(),
                              from.quantities<bytes>(),
                              from.quantities<bytes>()};
  };
  asked("storage_needed", many, 0, largest, [&](extremes& from) {
    return storage_needed(storage_from(from), from.whole());
  });
  asked("checkpoints_that_fit", many, 0, 0x1p41, [&](extremes& from) {
    return checkpoints_that_fit(storage_from(from));
  });
  asked("save_interval_within", 20 * many, 1, 0x1p63, [&](extremes& from) {
    return save_interval_within(storage_from(from), from.whole());
  });
  asked("save_interval_for_failures", many, above_zero, largest, [](extremes& from) {
    return save_interval_for_failures(from.quantity<duration>(), from.quantity<duration>());
  });
}

TEST_CASE("interrupted runs are finite or refused") {
  for (const auto interval : {save_interval_of_young, best_save_interval})
    asked("save interval", many, above_zero, largest, [&](extremes& from) {
      return interval(from.quantity<duration>(), from.quantity<duration>());
    });
  const auto run_from = [](extremes& from) {
    interrupted_run run;
    for (duration* time :
         {&run.interval, &run.stall, &run.write, &run.detection, &run.restart, &run.replacement})
      if (from.one_in(3)) *time = from.quantity<duration>();
    run.work = from.quantity<duration>();
    if (!from.one_in(4)) run.mean_time_between_failures = from.quantity<duration>();
    if (from.one_in(4)) run.mean_time_between_reclaims = from.quantity<duration>();
    if (from.one_in(3)) run.replaced = from.number();
    if (from.one_in(3)) run.spare_nodes = from.whole();
    return run;
  };
  asked("expected_time", 20 * many, above_zero, largest, [&](extremes& from) -> result<duration> {
    const auto parts = expected_time(run_from(from));
    return parts ? result<duration>(parts->total()) : parts.why();
  });
  asked("deviation_of_time", 20 * many, 0, largest, [&](extremes& from) {
    return deviation_of_time(run_from(from));
  });
  asked("best_interval", many, above_zero, largest, [&](extremes& from) {
    return best_interval(run_from(from));
  });
  asked("time_within", 50 * many, above_zero, largest, [&](extremes& from) {
    return time_within(run_from(from), {}, from.one_in(2) ? 0.9 : from.number());
  });
  asked("simulate", 20 * many, above_zero, largest, [&](extremes& from) -> result<duration> {
    duration times[2];
    const auto found = simulate(run_from(from), {}, times);
    return found ? result<duration>(found->high) : found.why();
  });
  asked("mean_time_between_failures", many, above_zero, largest, [](extremes& from) {
    return mean_time_between_failures(from.quantity<duration>(), from.whole());
  });
}

TEST_CASE("jobs and phases of a run are finite or refused") {
  const auto limits_from = [](extremes& from) {
    job_limits limits;
    for (duration* time : {&limits.time_limit, &limits.queue, &limits.start, &limits.lost})
      if (from.one_in(3)) *time = from.quantity<duration>();
    return limits;
  };
  asked("chain_of", 5 * many, above_zero, largest, [&](extremes& from) -> result<duration> {
    const auto chain = chain_of(from.quantity<duration>(), limits_from(from));
    return chain ? result<duration>(chain->time()) : chain.why();
  });
  asked("calendar_time", 5 * many, above_zero, largest, [&](extremes& from) {
    const week_window windows[] = {{from.one_in(2) ? 1_h : from.quantity<duration>(), 50_h},
                                   {60_h, from.one_in(2) ? 168_h : from.quantity<duration>()}};
    return calendar_time(from.quantity<duration>(),
                         windows,
                         from.one_in(2) ? 3_h : from.quantity<duration>(),
                         limits_from(from));
  });
  asked("chain_of windows", many, above_zero, largest, [&](extremes& from) -> result<duration> {
    const week_window windows[] = {{1_h, 50_h},
                                   {60_h, from.one_in(2) ? 168_h : from.quantity<duration>()}};
    const auto chain = chain_of(from.quantity<duration>(), windows, 3_h, limits_from(from));
    return chain ? result<duration>(chain->time()) : chain.why();
  });
  const auto phase_from = [](extremes& from) {
    return run_phase{from.whole(),
                     from.whole(),
                     from.whole(),
                     from.quantity<duration>(),
                     from.one_in(2) ? range<double>(1) : from.numbers()};
  };
  const auto total_from = [&](extremes& from) {
    const run_phase phases[] = {phase_from(from), phase_from(from)};
    return total_of(std::span(phases).first(from.one_in(2) ? 1 : 2),
                    {from.whole(), from.quantity<duration>()});
  };
  asked("total_of", 50 * many, above_zero, largest, [&](extremes& from) -> result<duration> {
    const auto total = total_from(from);
    return total ? result<duration>(total->time()) : total.why();
  });
  asked("total_of: off", 50 * many, 0, largest, [&](extremes& from) -> result<range<double>> {
    const auto total = total_from(from);
    return total ? result<range<double>>(total->off) : total.why();
  });
  asked("steps_for_tokens", many, 1, 0x1p63, [](extremes& from) {
    return steps_for_tokens(from.whole(), from.whole(), from.whole());
  });
  const auto ramp_from = [](extremes& from) {
    return batch_ramp{from.whole(), from.whole(), from.whole(), from.whole()};
  };
  asked("batch_after", 20 * many, 1, 0x1p63, [&](extremes& from) {
    return batch_after(ramp_from(from), from.whole());
  });
  asked("stage_of", 50 * many, 0, 0x1p63, [&](extremes& from) -> result<std::int64_t> {
    const auto stage = stage_of(ramp_from(from), from.below(3) - 1);
    return stage ? result<std::int64_t>(stage->steps) : stage.why();
  });
}

TEST_CASE("budgets of tokens are finite or refused") {
  const auto trained_from = [](extremes& from) {
    return model_and_tokens{from.number(), from.number()};
  };
  const auto either_of = [](const result<model_and_tokens>& found) {
    return found ? result<range<double>>(hull(range(found->parameters), range(found->tokens)))
                 : found.why();
  };
  asked("training_flops", many, above_zero, largest, [&](extremes& from) {
    return training_flops(trained_from(from));
  });
  asked("computation_in", many, above_zero, largest, [](extremes& from) {
    return computation_in(from.quantity<duration>(), from.whole(), from.quantity<compute_rate>());
  });
  asked("computation_for", many, above_zero, largest, [](extremes& from) {
    return computation_for(
        from.quantity<money>(), from.quantity<price>(), from.quantity<compute_rate>());
  });
  asked("bought_by", many, above_zero, largest, [&](extremes& from) {
    return either_of(bought_by(from.quantity<flop_count>(), from.number()));
  });
  const auto law_from = [](extremes& from) {
    return from.one_in(2)
               ? besiroglu_2024
               : loss_law{
                     from.number(), from.number(), from.number(), from.number(), from.number()};
  };
  asked("loss", many, above_zero, largest, [&](extremes& from) {
    return law_from(from).loss(trained_from(from));
  });
  asked("bought by a law", many, above_zero, largest, [&](extremes& from) {
    return either_of(law_from(from).bought_by(from.quantity<flop_count>()));
  });
  asked("worth_of_tokens", many, above_zero, largest, [](extremes& from) {
    return worth_of_tokens(from.number(), from.number());
  });
  asked("critical_batch_at", many, above_zero, largest, [](extremes& from) {
    return critical_batch_at(from.number());
  });
  asked("tokens_at_batch", many, above_zero, largest, [](extremes& from) {
    return tokens_at_batch(from.number(), from.number(), from.number(), from.number());
  });
}

TEST_CASE("learning rates are finite or refused") {
  const auto tuned_from = [](extremes& from) { return tuned_rate{from.numbers(), from.whole()}; };
  const auto by = [&](const char* what, auto rule_from) {
    asked(what, many, above_zero, largest, [&](extremes& from) {
      const auto rule = rule_from(from);
      return scaled_learning_rate(tuned_from(from), from.wholes(), rule);
    });
  };
  by("linear_rule", [](extremes&) { return linear_rule{}; });
  by("square_root_rule", [](extremes&) { return square_root_rule{}; });
  by("constant_rule", [](extremes&) { return constant_rule{}; });
  by("noise_scale_rule", [](extremes& from) { return noise_scale_rule{from.numbers()}; });
  by("adam_sde_rule", [](extremes& from) {
    return adam_sde_rule{from.number(), from.number(), from.number()};
  });
  asked("epsilon of adam_sde_rule", 5 * many, 0, largest, [&](extremes& from) {
    const adam_sde_rule rule{from.number(), from.number(), from.number()};
    const auto found = rule.settings(tuned_from(from), from.wholes());
    return found ? result<range<double>>(found->epsilon) : found.why();
  });
  asked("ceiling", many, above_zero, largest, [&](extremes& from) {
    return noise_scale_rule{from.numbers()}.ceiling(tuned_from(from));
  });
  const auto trade_from = [](extremes& from) {
    return batch_trade_off{from.numbers(), from.numbers()};
  };
  asked("critical_batch", many, above_zero, largest, [&](extremes& from) {
    return trade_from(from).critical_batch();
  });
  asked("trade steps", many, above_zero, largest, [&](extremes& from) {
    return trade_from(from).steps(from.wholes());
  });
  asked("trade samples", many, above_zero, largest, [&](extremes& from) {
    return trade_from(from).samples(from.wholes());
  });
  asked("warm_up", many, 0, largest, [](extremes& from) {
    return warm_up{from.numbers(), from.numbers(), from.whole()}.learning_rate(from.whole());
  });
  asked("learning_rate_schedule", 20 * many, 0, largest, [](extremes& from) {
    return learning_rate_schedule{.peak = from.number(),
                                  .first = from.one_in(2) ? 0 : from.number(),
                                  .least = from.one_in(2) ? 0 : from.number(),
                                  .warm_up_steps = from.whole(),
                                  .stable_steps = from.whole(),
                                  .decay_steps = from.whole(),
                                  .decay = static_cast<rate_decay>(from.below(4))}
        .learning_rate(from.whole());
  });
  asked("warm_up_over_epochs", many, 0, 0x1p63, [](extremes& from) -> result<std::int64_t> {
    const auto found = warm_up_over_epochs(0.0, 1.0, from.whole(), from.whole());
    return found ? result<std::int64_t>(found->steps) : found.why();
  });
}

TEST_CASE("speed-ups are finite or refused") {
  asked("scaling_efficiency", many, above_zero, largest, [](extremes& from) {
    return scaling_efficiency(from.numbers(), from.whole());
  });
  asked("communication_share", many, any, 1, [](extremes& from) {
    return communication_share(from.numbers(), from.whole());
  });
  asked("karp_flatt", many, any, largest, [](extremes& from) {
    return karp_flatt(from.numbers(), from.whole());
  });
  asked("amdahl_scaling", many, above_zero, largest, [](extremes& from) {
    return amdahl_scaling{from.numbers()}.speedup(from.whole());
  });
  asked("single_process_scaling", many, above_zero, largest, [](extremes& from) {
    return single_process_scaling{from.numbers()}.speedup(from.whole());
  });
  asked("scaling_table", 5 * many, above_zero, largest, [](extremes& from) {
    const scaling_table<2> table({{from.whole(), from.numbers()}, {from.whole(), from.numbers()}});
    return table.speedup(from.one_in(2) ? from.whole() : 1 + from.below(9));
  });
  asked("factor_of_time_saved", many, above_zero, largest, [](extremes& from) {
    return factor_of_time_saved(from.numbers());
  });
  asked("factor_of_rate_gained", many, 1, largest, [](extremes& from) {
    return factor_of_rate_gained(from.numbers());
  });
  asked("time_saved", many, any, 1, [](extremes& from) { return time_saved(from.numbers()); });
  asked(
      "rate_gained", many, -1, largest, [](extremes& from) { return rate_gained(from.numbers()); });
  asked("combined_speedup", many, above_zero, largest, [](extremes& from) {
    phase_shares shares;
    if (from.one_in(2)) shares.data = from.numbers();
    if (from.one_in(2)) shares.forward = from.numbers();
    return combined_speedup(
        shares, {{phase::data, from.numbers()}, {{phase::data, phase::backward}, from.numbers()}});
  });
  asked("product_of_factors", many, above_zero, largest, [](extremes& from) {
    return product_of_factors({from.numbers(), from.numbers(), from.numbers()});
  });
}

TEST_CASE("batches are valid or refused") {
  const auto memory_from = [](extremes& from) {
    return affine_memory{from.quantity<bytes>(), from.quantity<bytes>()};
  };
  asked("solve_uneven_batch", 5 * many, 0, 1, [&](extremes& from) -> result<double> {
    const auto found = solve_uneven_batch(
        from.whole(), from.whole(), memory_budget(from.quantity<bytes>()), memory_from(from));
    if (!found) return found.why();
    CHECK(validate(batch_plan{found->micro_batch, found->data_parallel, found->accumulation}));
    return found->idle_share();
  });
  asked("solve_batch", many, 1, 0x1p63, [&](extremes& from) -> result<std::int64_t> {
    const auto found = solve_batch({.effective_batch = from.wholes(),
                                    .data_parallel = from.whole(),
                                    .gpu = memory_budget(from.quantity<bytes>())},
                                   memory_from(from));
    if (!found) return found.why();
    CHECK(validate(*found));
    return found->effective_batch();
  });
  asked("batch_at_saturation", many, 1, 0x1p41, [](extremes& from) {
    const affine_time line{from.quantity<duration>(), from.quantity<duration>()};
    return batch_at_saturation(line, from.number());
  });
}

TEST_CASE("sweeps are read or refused") {
  std::vector<sweep_row> rows;
  const auto fill = [&](extremes& from) -> const std::vector<sweep_row>& {
    rows.clear();
    // Some that are like a sweep, up to more than a model takes.
    const std::int64_t count = from.one_in(3) ? 3 + from.below(60) : 3 + from.below(6);
    const bool repeats = from.one_in(4);
    for (std::int64_t i = 0; i < count; ++i) {
      sweep_row row{.micro_batch = 1 + i,
                    .forward = (1 + static_cast<double>(i)) * 1_s,
                    .memory = (2 + static_cast<double>(i)) * 1_GB};
      if (repeats) row.micro_batch = most_whole;
      if (from.one_in(6)) row.micro_batch = from.whole();
      if (from.one_in(6)) row.forward = from.quantity<duration>();
      if (from.one_in(12)) row.optimizer = from.quantity<duration>();
      if (from.one_in(6)) row.memory = from.quantity<bytes>();
      if (from.one_in(12)) row.status = sweep_status::out_of_memory;
      rows.push_back(row);
    }
    return rows;
  };
  asked("measured_time_of", many, above_zero, largest, [&](extremes& from) -> result<duration> {
    const auto model = measured_time_of(fill(from));
    if (!model) return model.why();
    CHECK(validate(*model));
    const auto beyond = extrapolated(*model);
    CHECK(detail::is_finite(beyond.step({.micro_batch = most_whole}).value()));
    return model->step({.micro_batch = model->micro_batch.span().low()});
  });
  asked("measured_memory_of", many, above_zero, largest, [&](extremes& from) -> result<bytes> {
    known<bytes> gpu;
    if (from.one_in(2)) gpu = from.quantity<bytes>();
    const auto model = measured_memory_of(fill(from), gpu);
    if (!model) return model.why();
    CHECK(validate(*model));
    static_cast<void>(validate(extrapolated(*model), {.micro_batch = most_whole}));
    return model->required({.micro_batch = model->curve.span().high()});
  });
  asked(
      "saturation of a sweep", many, 1, 0x1p63, [&](extremes& from) -> result<range<std::int64_t>> {
        const auto model = measured_time_of(fill(from));
        if (!model) return model.why();
        const auto found = batch_at_saturation(*model, from.number());
        return found ? result<range<std::int64_t>>(found->micro_batch) : found.why();
      });
  for (const fit_weighting by : {fit_weighting::absolute, fit_weighting::relative}) {
    asked("fit_time", many, above_zero, largest, [&](extremes& from) -> result<duration> {
      const auto line = fit_time(fill(from), by);
      if (!line) return line.why();
      CHECK(detail::is_finite(line->residuals.r_squared));
      CHECK(detail::is_finite(line->residuals.root_mean_square.value()));
      CHECK(detail::is_finite(line->model.fixed.value()));
      return line->model.per_sample;
    });
    asked("fit_memory", many, above_zero, largest, [&](extremes& from) -> result<bytes> {
      const auto line = fit_memory(fill(from), by);
      if (!line) return line.why();
      CHECK(detail::is_finite(line->residuals.r_squared));
      return line->model.per_sample;
    });
  }
  asked(
      "pick_highest_throughput", many, above_zero, largest, [&](extremes& from) -> result<double> {
        const auto pick = pick_highest_throughput(fill(from));
        return pick ? result<double>(pick->value) : pick.why();
      });
  asked("pick_best_efficiency", many, above_zero, largest, [&](extremes& from) -> result<double> {
    const auto pick = pick_best_efficiency(fill(from));
    return pick ? result<double>(pick->value) : pick.why();
  });
  asked("batches_in", many, 1, 0x1p41, [](extremes& from) {
    const affine_memory memory{from.quantity<bytes>(), from.quantity<bytes>()};
    return batches_in(from.numbers(), memory_budget(from.quantity<bytes>()), memory);
  });
  asked("diagnose", many, 0, largest, [&](extremes& from) -> result<double> {
    const auto found =
        diagnose(fill(from)[0], memory_budget(from.quantity<bytes>()), sweep_thresholds{});
    if (!found) return found.why();
    CHECK(found->data_share >= 0);
    CHECK(found->data_share <= 1);
    return found->memory_share;
  });
}

TEST_CASE("more rows than a measured model takes are refused, however large their batches") {
  // A row of the largest batch that there is counts like any other.
  std::vector<sweep_row> rows(100);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = {.micro_batch = i < 3 ? static_cast<std::int64_t>(i) + 1 : most_whole,
               .forward = (1 + static_cast<double>(i)) * 1_s,
               .memory = (2 + static_cast<double>(i)) * 1_GB};
  CHECK(measured_time_of(rows).why().code == errc::out_of_bounds);
  CHECK(measured_time_of(rows).why()[fact::rows_that_ran] == 100);
  CHECK(measured_memory_of(rows).why().code == errc::out_of_bounds);
}

TEST_CASE("exchanges among any number of ranks end, and take a time") {
  interconnect links = *interconnect_of(
      {.gpu = catalog::h100_sxm5_80gb, .nodes = 2, .gpus_per_node = 8, .between_nodes = 400_GBps});
  for (int i = 0; i < many; ++i) {
    extremes from(static_cast<std::uint64_t>(i));
    const std::int64_t ranks = from.whole();
    const std::int64_t per_node = from.whole();
    const bytes message = from.quantity<bytes>();
    if (ranks < 1 || per_node < 1 || !(message >= bytes{}) || !(message < 1e300 * 1_B)) {
      CHECK_THROWS_AS(static_cast<void>(collective_time(
                          collective::all_reduce,
                          message < 1e300 * 1_B ? message : bytes::from_value(detail::infinity),
                          {ranks, per_node},
                          links)),
                      plan_error);
      continue;
    }
    for (const collective what : {collective::all_reduce,
                                  collective::all_gather,
                                  collective::all_to_all,
                                  collective::broadcast,
                                  collective::send}) {
      const double time = collective_time(what, message, {ranks, per_node}, links).value();
      if (!(time >= 0 && time <= largest)) {
        CAPTURE(ranks);
        CAPTURE(per_node);
        CAPTURE(message.value());
        CAPTURE(static_cast<int>(what));
        REQUIRE(time >= 0);
        REQUIRE(time <= largest);
      }
    }
  }
}

namespace {

roofline_time roll_roofline(extremes& from) {
  static const transformer models[] = {
      catalog::gpt2, catalog::llama_3_8b, catalog::mixtral_8x7b_v0_1, catalog::t5_base};
  static const framework frameworks[] = {
      catalog::torchtitan, catalog::megatron_lm, catalog::hugging_face_llama};
  roofline_time model;
  training_setup& setup = model.setup;
  setup.model = models[from.below(4)];
  setup.framework = frameworks[from.below(3)];
  setup.sequence_length = 1024;
  setup.precision = from.one_in(2) ? bf16_mixed : bf16_megatron;
  const auto change = [&](std::int64_t& value, std::int64_t usual) {
    value = from.one_in(12) ? from.whole() : usual;
  };
  const auto power_of_two = [&](std::int64_t most) {
    return std::int64_t{1} << from.below(most + 1);
  };
  change(setup.sequence_length, 1024);
  change(setup.target_length, 0);
  change(setup.recompute_layers, 0);
  change(setup.recompute_period, 1);
  change(setup.recompute_span, 1);
  setup.recompute = from.one_in(2) ? recompute_mode::full : recompute_mode::none;
  parallelism& layout = setup.parallelism;
  change(layout.tensor_parallel, power_of_two(3));
  change(layout.pipeline_parallel, power_of_two(2));
  change(layout.context_parallel, power_of_two(1));
  change(layout.expert_parallel, 1);
  change(layout.virtual_pipeline, power_of_two(1));
  change(layout.shard_group, 0);
  layout.zero_stage = static_cast<int>(from.below(5)) - (from.one_in(12) ? 1 : 0);
  if (layout.zero_stage > 3) layout.zero_stage = 0;
  if (from.one_in(12)) setup.dropout = from.number();
  change(setup.encodings, 1);
  setup.trains.what = from.one_in(2) ? training::full : static_cast<training>(from.below(5));
  change(setup.trains.last_layers, 2);
  change(setup.trains.adapters.rank, 8);
  change(setup.trains.adapters.base.block, from.one_in(2) ? 64 : 0);
  change(setup.trains.adapters.base.scale_block, from.one_in(2) ? 256 : 0);
  model.on = {
      .gpu = catalog::h100_sxm5_80gb, .nodes = 64, .gpus_per_node = 8, .between_nodes = 200_GBps};
  if (from.one_in(12)) model.on.nodes = from.whole();
  if (from.one_in(12)) model.on.gpus_per_node = from.whole();
  if (from.one_in(12)) model.on.between_nodes = from.quantity<bandwidth>();
  if (from.one_in(12)) model.on.inside_node = from.quantity<bandwidth>();
  if (from.one_in(24)) model.on.gpu.memory_bandwidth = from.quantity<bandwidth>();
  model.efficiency = catalog::hopper;
  double* const shares[] = {&model.efficiency.products,
                            &model.efficiency.attention_forward,
                            &model.efficiency.memory,
                            &model.straggler_slowdown,
                            &setup.framework.costs.contention,
                            &setup.framework.costs.element_rate,
                            &setup.framework.costs.hidden_pipeline_communication,
                            &setup.framework.costs.matmul_rate};
  if (from.one_in(6)) *shares[from.below(std::ssize(shares))] = from.number();
  if (from.one_in(12)) setup.framework.costs.host_per_step = from.quantity<duration>();
  if (from.one_in(12))
    model.loader = sample_loader{from.quantity<bytes>(), from.quantity<bandwidth>()};
  return model;
}

}  // namespace

TEST_CASE("a step takes a time, of which each part is one, or is refused") {
  int wrong = 0;
  asked("a step", 60'000, above_zero, largest, [&](extremes& from) -> result<duration> {
    const roofline_time model = roll_roofline(from);
    batch_plan plan{1 + from.below(4), 1 + from.below(8), 4 * (1 + from.below(8))};
    if (from.one_in(8)) plan.micro_batch = from.whole();
    if (from.one_in(8)) plan.data_parallel = from.whole();
    if (from.one_in(8)) plan.accumulation = from.whole();
    if (const auto valid = validate(model); !valid) return valid.why();
    if (const auto valid = validate(model, plan); !valid) return valid.why();
    const step_breakdown step = model.breakdown(plan);
    const double all = step.total().value();
    for (const duration& part : {step.data,
                                 step.forward,
                                 step.backward,
                                 step.recompute,
                                 step.tensor_communication,
                                 step.context_communication,
                                 step.expert_communication,
                                 step.pipeline_communication,
                                 step.gradient_communication,
                                 step.parameter_communication,
                                 step.bubble,
                                 step.optimizer,
                                 step.host})
      if (!(part.value() >= 0 && part.value() <= all)) ++wrong;
    // What trains everywhere takes time in each pass; a pipeline's busiest stage may have the rest.
    const training what = model.setup.trains.what;
    if (!(step.forward > duration{})) ++wrong;
    if ((what == training::full || what == training::adapters) && !(step.backward > duration{}))
      ++wrong;
    if (what == training::frozen && step.backward > duration{}) ++wrong;
    return step.total();
  });
  CHECK(wrong == 0);
}

TEST_CASE("a run is not timed with a sequence that has no tokens") {
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{-512}}) {
    extremes from(1);
    roofline_time model{.setup = {.model = catalog::llama_3_8b,
                                  .sequence_length = length,
                                  .precision = bf16_mixed,
                                  .framework = catalog::torchtitan},
                        .on = {.gpu = catalog::h100_sxm5_80gb},
                        .efficiency = catalog::hopper};
    CHECK(training_time(1000, batch_plan{}, model).why()[fact::sequence_length] == length);
    model.setup.sequence_length = 512;
    CHECK(training_time(1000, batch_plan{}, model));
    CHECK(training_time(1000, {.data_parallel = 2}, model).why()[fact::devices] == 2);
  }
}

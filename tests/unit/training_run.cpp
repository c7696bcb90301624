#include <gpuplan/time/documented.hpp>
#include <gpuplan/training_run.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) { return detail::abs(a - b) <= 1e-12 * detail::abs(b); }
constexpr bool near(duration a, duration b) { return near(a.value(), b.value()); }

// ---- steps

struct counted {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
};

// A data loader, sample by sample.
constexpr counted load(const training_run& run) {
  counted all;
  for (std::int64_t epoch = 0; epoch < run.epochs; ++epoch) {
    std::int64_t in_batch = 0;
    for (std::int64_t sample = 0; sample < run.samples; ++sample)
      if (++in_batch == run.effective_batch) {
        ++all.steps;
        all.samples += in_batch;
        in_batch = 0;
      }
    if (in_batch > 0 && run.last == last_batch::kept) {
      ++all.steps;
      all.samples += in_batch;
    }
  }
  return all;
}

constexpr bool steps_are_those_of_a_loader() {
  for (std::int64_t samples = 1; samples <= 26; ++samples)
    for (std::int64_t batch = 1; batch <= 27; batch += 2)
      for (const last_batch last : {last_batch::kept, last_batch::dropped}) {
        const training_run run{samples, batch, 3, last};
        const counted all = load(run);
        if (*total_steps(run) != all.steps || *samples_seen(run) != all.samples) return false;
        if (3 * *steps_per_epoch(run) != all.steps) return false;
        if (all.steps > 0 && *epochs_in(all.steps, run) != 3) return false;
      }
  return true;
}

constexpr std::int64_t most = 9'223'372'036'854'775'807;

// ---- hours

constexpr bool a_range_of_times_holds_the_times_of_its_points() {
  const auto spread = *training_time({300_h, 400_h}, {.work = {0.5, 2}, .speed = {6, 7}});
  if (spread.low() != 300_h * 0.5 / 7.0 || spread.high() != 400_h * 2.0 / 6.0) return false;
  for (double reference : {300.0, 331.0, 400.0})
    for (double work : {0.5, 1.0, 2.0})
      for (double speed : {6.0, 6.4, 7.0}) {
        const auto point = *training_time(reference * 1_h, {.work = work, .speed = speed});
        if (!spread.contains(point)) return false;
      }
  return true;
}

// ---- schedule

// Hour by hour: which of three stages runs in which hour of which day.
constexpr bool agrees_with_an_hourly_clock(std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::int64_t hours[]{a, b, c};
  const duration stages[]{a * 1_h, b * 1_h, c * 1_h};
  const schedule days(stages);
  auto piece = days.begin();
  std::int64_t hour = 0;
  for (std::int64_t stage = 0; stage < 3; ++stage)
    for (std::int64_t done = 0; done < hours[stage]; ++done, ++hour) {
      if (piece == days.end()) return false;
      const schedule_piece& now = *piece;
      if (now.day != hour / 24 + 1 || now.stage != stage) return false;
      if (now.begin > hour * 1_h || now.end < (hour + 1) * 1_h) return false;
      if (now.begin == hour * 1_h && now.starts != (done == 0)) return false;
      const bool last_hour = done + 1 == hours[stage];
      if (now.end == (hour + 1) * 1_h) {
        if (now.completes != last_hour) return false;
        ++piece;
      } else if (last_hour || (hour + 1) % 24 == 0) {
        return false;  // a piece must end with its stage and with its day
      }
    }
  return piece == days.end() && days.total() == hour * 1_h && days.days() == (hour + 23) / 24;
}

constexpr bool schedules_agree_with_an_hourly_clock() {
  for (std::int64_t a : {1, 24, 25})
    for (std::int64_t b : {1, 23, 47})
      for (std::int64_t c : {5, 48})
        if (!agrees_with_an_hourly_clock(a, b, c)) return false;
  return true;
}

// Whatever the times, the pieces lie end to end and add up to their stages.
constexpr bool pieces_tile(std::span<const duration> stages) {
  duration at{};
  duration in_stage{};
  std::int64_t stage = 0;
  for (const schedule_piece& piece : schedule(stages)) {
    if (piece.begin != at || piece.stage != stage || !(piece.end > piece.begin)) return false;
    if (piece.begin < (piece.day - 1) * 1_d - 1_us || piece.end > piece.day * 1_d + 1_us)
      return false;
    in_stage += piece.end - piece.begin;
    at = piece.end;
    if (piece.completes) {
      const duration off = in_stage - stages[static_cast<std::size_t>(stage)];
      if (off > 1_us || off < -1_us) return false;
      in_stage = duration{};
      ++stage;
    }
  }
  return stage == static_cast<std::int64_t>(stages.size());
}

constexpr bool odd_times_tile() {
  const duration stages[]{385_h / 6, 213_h / 6, 0.1_s, 7_d / 3, 86400.0000001_s};
  return pieces_tile(stages);
}

constexpr std::int64_t pieces(std::span<const duration> stages) {
  std::int64_t count = 0;
  for ([[maybe_unused]] const schedule_piece& piece : schedule(stages)) ++count;
  return count;
}

// Three thirds of a day add up to a bit less or more than a day in doubles.
constexpr bool rounding_makes_no_pieces() {
  const duration thirds[]{1_d / 3, 1_d / 3, 1_d / 3, 5_h};
  const duration over[]{1_d + 0.0000004_s, 5_h};
  const duration under[]{1_d - 0.0000004_s, 5_h};
  return pieces(thirds) == 4 && pieces(over) == 2 && pieces(under) == 2 && pieces_tile(over) &&
         pieces_tile(under);
}

constexpr schedule_piece third_piece() {
  const duration stages[]{64_h, 36_h};
  const schedule days(stages);
  auto piece = days.begin();
  ++piece;
  ++piece;
  return *piece;
}

constexpr failure why_not(std::span<const duration> stages) {
  const schedule none(stages);
  return none.begin() == none.end() && none.days() == 0 && none.total() == duration{} ? none.why()
                                                                                      : failure();
}
constexpr failure why_not(duration second) {
  const duration stages[]{1_h, second};
  return why_not(stages);
}

}  // namespace

TEST_CASE("steps and samples are those of a data loader") {
  STATIC_CHECK(steps_are_those_of_a_loader());
  // By hand: 100000 = 195 x 512 + 160 = 97 x 1024 + 672.
  STATIC_CHECK(*total_steps({.samples = 100'000, .effective_batch = 512, .epochs = 5}) == 980);
  STATIC_CHECK(*total_steps({100'000, 1024, 3, last_batch::dropped}) == 291);
  STATIC_CHECK(*samples_seen({100'000, 1024, 3, last_batch::dropped}) == 297'984);
}

TEST_CASE("samples and epochs from steps") {
  STATIC_CHECK(*samples_in(10'000, 120) == 1'200'000);
  STATIC_CHECK(*epochs_in(490, {.samples = 100'000, .effective_batch = 512}) == 2.5);
  STATIC_CHECK(*epochs_in(490, {.samples = 100'000, .effective_batch = 512, .epochs = 0}) == 2.5);
}

TEST_CASE("bad runs are named") {
  STATIC_CHECK(validate(training_run{}).why() ==
               failure(errc::not_positive, named_fact{fact::samples, 0}));
  STATIC_CHECK(steps_per_epoch({100, 0}).why() ==
               failure(errc::not_positive, named_fact{fact::effective_batch, 0}));
  STATIC_CHECK(total_steps({100, 10, -1}).why() ==
               failure(errc::not_positive, named_fact{fact::epochs, -1}));
  STATIC_CHECK(samples_seen({most / 2, 1, 3}).why() == failure(errc::overflow,
                                                               named_fact{fact::samples, most / 2},
                                                               named_fact{fact::epochs, 3}));
  STATIC_CHECK(*total_steps({most, 1, 1}) == most);
  STATIC_CHECK(*total_steps({most, most, 1}) == 1);
  STATIC_CHECK(samples_in(0, 1).why()[fact::steps] == 0);
  STATIC_CHECK(samples_in(0, 1).why().code == errc::not_positive);
  STATIC_CHECK(samples_in(1, -2).why()[fact::effective_batch] == -2);
  STATIC_CHECK(samples_in(most, 2).why().code == errc::overflow);
  STATIC_CHECK(epochs_in(0, {.samples = 1}).why() ==
               failure(errc::not_positive, named_fact{fact::steps, 0}));
  STATIC_CHECK(epochs_in(1, {}).why()[fact::samples] == 0);
  STATIC_CHECK(epochs_in(1, {10, 11, 1, last_batch::dropped}).why() ==
               failure(errc::not_positive,
                       named_fact{fact::steps, 0},
                       named_fact{fact::samples, 10},
                       named_fact{fact::effective_batch, 11}));
}

TEST_CASE("hours from a step time, a throughput, a model, and another run") {
  STATIC_CHECK(training_time(10'000, range(1.5_s, 2_s))->low() == 15'000_s);
  STATIC_CHECK(training_time(10'000, range(1.5_s, 2_s))->high() == 20'000_s);
  STATIC_CHECK(*training_time(178'000, range(400_samples_per_s, 4000_samples_per_s)) ==
               range(44.5_s, 445_s));
  STATIC_CHECK(near(training_time(598_h, {.speed = 6})->low(), 598_h / 6));
  STATIC_CHECK(training_time(10_h, {.work = 1.2})->low() == 12_h);
  STATIC_CHECK(*training_time(10_h, {}) == range(10_h));
  STATIC_CHECK(a_range_of_times_holds_the_times_of_its_points());
}

TEST_CASE("the ways to the hours agree") {
  CONSTEXPR batch_plan plan{.micro_batch = 16, .data_parallel = 4, .accumulation = 2};
  CONSTEXPR documented_time model{.step_time = 0.7_s, .measured_at = plan};
  CONSTEXPR std::int64_t steps = 977;
  STATIC_CHECK(*training_time(steps, plan, model) == *training_time(steps, range(0.7_s)));
  STATIC_CHECK(
      near(training_time(*samples_in(steps, plan.effective_batch()), range(throughput(plan, model)))
               ->low(),
           training_time(steps, plan, model)->low()));
}

TEST_CASE("bad times are named") {
  STATIC_CHECK(training_time(0, range(1_s)).why() ==
               failure(errc::not_positive, named_fact{fact::steps, 0}));
  STATIC_CHECK(training_time(1, range(-2_ms, 1_s)).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, -2000}).about(fact::step));
  STATIC_CHECK(training_time(1, range(duration::from_value(detail::infinity))).why() ==
               failure(errc::not_finite, named_fact{fact::step, detail::infinity}));
  STATIC_CHECK(training_time(-1, range(1_samples_per_s)).why() ==
               failure(errc::not_positive, named_fact{fact::samples, -1}));
  STATIC_CHECK(training_time(1, range(0_samples_per_s, 1_samples_per_s)).why() ==
               failure(errc::not_positive,
                       named_fact{fact::low_thousandths, 0},
                       named_fact{fact::high_thousandths, 1000})
                   .about(fact::throughput));
  STATIC_CHECK(training_time(0_h, {}).why().at_fault() == fact::reference);
  STATIC_CHECK(training_time(1_h, {.work = 0}).why().at_fault() == fact::work);
  STATIC_CHECK(training_time(1_h, {.speed = {-1, 1}}).why() ==
               failure(errc::not_positive,
                       named_fact{fact::low_thousandths, -1000},
                       named_fact{fact::high_thousandths, 1000})
                   .about(fact::speed));
  STATIC_CHECK(training_time(1, {0, 1, 1}, documented_time{.step_time = 1_s}).why() ==
               failure(errc::not_positive, named_fact{fact::micro_batch, 0}));
  STATIC_CHECK(training_time(1, {1, 1, 1}, documented_time{}).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, 0}).about(fact::step_time));
}

TEST_CASE("a schedule by stage and day") {
  STATIC_CHECK(schedules_agree_with_an_hourly_clock());
  STATIC_CHECK(odd_times_tile());
  STATIC_CHECK(rounding_makes_no_pieces());
  STATIC_CHECK(third_piece() == schedule_piece{3, 0, 48_h, 64_h, false, true});
}

TEST_CASE("bad schedules are empty and say why") {
  STATIC_CHECK(why_not(std::span<const duration>()) ==
               failure(errc::not_positive).about(fact::stages));
  STATIC_CHECK(why_not(0_h) ==
               failure(errc::not_positive, named_fact{fact::time_us, 0}, named_fact{fact::stage, 1})
                   .about(fact::stage_time));
  STATIC_CHECK(why_not(duration::from_value(detail::not_a_number)) ==
               failure(errc::not_finite,
                       named_fact{fact::stage_time, detail::not_a_number},
                       named_fact{fact::stage, 1}));
  STATIC_CHECK(why_not(10'000'000_d) == failure(errc::out_of_bounds,
                                                named_fact{fact::days, 10'000'001},
                                                named_fact{fact::at_most, 10'000'000})
                                            .about(fact::stages));
}

#include <gpuplan/solver.hpp>
#include <gpuplan/sweep.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "check.hpp"
#include "guides/batch_sweep.hpp"
#include "measured_on_monday.hpp"
#include "random_numbers.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b, double tolerance = 1e-12) {
  return detail::abs(a - b) <= tolerance * (detail::abs(b) + 1e-300);
}

// Where the true number is whole, rounding may lead to the next one.
constexpr bool is_about(range<std::int64_t> batches, std::int64_t expected) {
  return range(expected - 1, expected + 1).contains(batches);
}

// A row whose memory in bytes is its time in nanoseconds.
constexpr sweep_row row(std::int64_t batch, double value) {
  return {.micro_batch = batch,
          .forward = duration::from_value(value * 0.75e-9),
          .backward = duration::from_value(value * 0.25e-9),
          .memory = bytes::from_value(value)};
}
constexpr sweep_row ran_out(std::int64_t batch) {
  return {.micro_batch = batch, .status = sweep_status::out_of_memory};
}

template <std::size_t Count>
using row_array = std::array<sweep_row, Count>;

// Of 1, 2, 4 and so on samples, on a line.
template <std::size_t Count>
constexpr row_array<Count> on_a_line(double fixed, double per_sample) {
  row_array<Count> rows{};
  for (std::size_t i = 0; i < Count; ++i) {
    const std::int64_t batch = std::int64_t{1} << i;
    rows[i] = row(batch, fixed + per_sample * static_cast<double>(batch));
  }
  return rows;
}

constexpr bytes memory_of(const measured_memory& model, std::int64_t batch) {
  return model.required({.micro_batch = batch});
}

// ---- the line, by its definition: the slope that as many pairs lie above as below

constexpr bool line_agrees_with_counting(int sweeps) {
  random_numbers random(11);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    row_array<7> rows{};
    std::int64_t batch = 0;
    for (sweep_row& r : rows) {
      batch += 1 + random.below(9);
      r = row(batch, static_cast<double>(1'000 + 40 * batch + random.below(12)));
    }
    const auto model = measured_memory_of(rows);
    if (!model) return false;
    const straight_line<bytes>& line = model->curve.line;
    std::int64_t below = 0, above = 0, below_outer = 0, above_outer = 0;
    for (std::size_t i = 0; i < 7; ++i)
      for (std::size_t j = i + 1; j < 7; ++j) {
        const double slope = (rows[j].memory - rows[i].memory).value() /
                             static_cast<double>(rows[j].micro_batch - rows[i].micro_batch);
        if (slope < line.per_sample.value()) ++below;
        if (slope > line.per_sample.value()) ++above;
        if (slope < model->curve.lower.per_sample.value()) ++below_outer;
        if (slope > model->curve.upper.per_sample.value()) ++above_outer;
      }
    if (model->curve.line_from != rows[0].micro_batch) return false;
    if (below > 10 || above > 10 || below_outer != 0 || above_outer != 0) return false;
    for (const auto& one : {line, model->curve.lower, model->curve.upper}) {
      std::int64_t under = 0, over = 0;
      for (const sweep_row& r : rows) {
        const double rest =
            r.memory.value() - one.per_sample.value() * static_cast<double>(r.micro_batch);
        if (rest < one.fixed.value()) ++under;
        if (rest > one.fixed.value()) ++over;
      }
      if (under > 3 || over > 3) return false;
    }
  }
  return true;
}

// Every way to give the ranks from 1 to rows - 1 a sign, by trying them all: the share of those
// whose sum of one sign is below `rank`, both tails.
constexpr double confidence_by_trying(std::int64_t rows, std::int64_t rank) {
  const std::int64_t all = std::int64_t{1} << (rows - 1);
  std::int64_t outside = 0;
  for (std::int64_t signs = 0; signs < all; ++signs) {
    std::int64_t sum = 0;
    for (std::int64_t k = 1; k < rows; ++k)
      if ((signs >> (k - 1)) % 2 != 0) sum += k;
    if (sum < rank) ++outside;
  }
  return 1 - 2 * static_cast<double>(outside) / static_cast<double>(all);
}

// The lower slope lies at the rank that the confidence belongs to, and at the next it would be less
// than 95 %.
template <std::size_t Count>
constexpr bool confidence_agrees_with_trying() {
  random_numbers random(11);
  auto rows = on_a_line<Count>(1e6, 0);
  for (std::size_t i = 0; i < Count; ++i)  // every slope differs
    rows[i] = row(static_cast<std::int64_t>(8 * (i + 1)),
                  1e6 + 1e4 * static_cast<double>(i) + static_cast<double>(random.below(1'000)));
  const measured_curve<bytes> curve = measured_memory_of(rows)->curve;
  std::int64_t below = 0, above = 0;
  for (std::size_t i = 0; i < Count; ++i)
    for (std::size_t j = i + 1; j < Count; ++j) {
      const double slope = (rows[j].memory - rows[i].memory).value() /
                           static_cast<double>(rows[j].micro_batch - rows[i].micro_batch);
      if (slope < curve.lower.per_sample.value()) ++below;
      if (slope > curve.upper.per_sample.value()) ++above;
    }
  return curve.line_from == 8 && below == above &&
         curve.confidence == confidence_by_trying(Count, below + 1) &&
         (below == 0 || curve.confidence >= 0.95) && confidence_by_trying(Count, below + 2) < 0.95;
}

// ---- outliers

// Nine rows on a line, of which two inside are far off it.
constexpr row_array<9> with_outliers(double high, double low) {
  auto rows = on_a_line<9>(1'000, 100);
  rows[3] = row(8, 1'800 * high);
  rows[6] = row(64, 7'400 * low);
  return rows;
}

// ---- what the solvers rely on

constexpr bool memory_never_falls() {
  int sweeps = 1'000;
  if (std::is_constant_evaluated()) sweeps = 4;
  random_numbers random(11);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    row_array<6> rows{};
    std::int64_t batch = 1 + random.below(3);
    for (sweep_row& r : rows) {
      r = row(batch, static_cast<double>(200 + 10 * batch + random.below(300)));
      batch += 1 + random.below(5);
    }
    rows[5].status = random.below(2) == 0 ? sweep_status::ran : sweep_status::out_of_memory;
    const auto model = measured_memory_of(rows, bytes::from_value(700));
    if (!model) continue;  // so bent that no line rises
    const extrapolated_memory beyond = extrapolated(*model);
    const range<std::int64_t> span = model->curve.span();
    for (std::int64_t n = 1; n < batch + 20; ++n) {
      const forecast<bytes> next = model->forecast_of({.micro_batch = n + 1});
      if (memory_of(*model, n + 1) < memory_of(*model, n)) return false;
      if (beyond.required({.micro_batch = n + 1}) < beyond.required({.micro_batch = n}))
        return false;
      if (next.extrapolates == span.contains(n + 1)) return false;
      if (!next.extrapolates && !next.value.is_point()) return false;
      if (span.contains(n + 1) && next.value.high() != memory_of(*model, n + 1)) return false;
    }
    for (const sweep_row& r : rows)
      if (detail::ran(r) && span.contains(r.micro_batch) &&
          memory_of(*model, r.micro_batch) < r.memory)
        return false;
  }
  return true;
}

// ---- a bend, and the guide's sweep

// A floor of 100 up to 16 samples, where a device is not full yet, then 6 for each.
constexpr double floor_then_line(std::int64_t n) {
  return n < 16 ? 96.0 + static_cast<double>(n) / 4 : 4 + 6 * static_cast<double>(n);
}
template <std::size_t Count>
constexpr row_array<Count> bent() {
  row_array<Count> rows{};
  for (std::size_t i = 0; i < Count; ++i) {
    const std::int64_t batch = std::int64_t{1} << i;
    rows[i] = row(batch, floor_then_line(batch));
  }
  return rows;
}

constexpr auto guide = guides::batch_sweep::sweep({});

// The sweep up to each of its rows says the next one, twice as large, within its range.
constexpr bool each_part_foretells_the_next_row() {
  for (std::size_t count = 5; count < 13; ++count) {
    const sweep_rows part = std::span(guide).first(count);
    const batch_plan next{.micro_batch = guide[count].micro_batch};
    if (!measured_memory_of(part)->forecast_of(next).value.contains(guide[count].memory))
      return false;
    if (!measured_time_of(part)->forecast_of(next).value.contains(step_time(guide[count])))
      return false;
  }
  return true;
}

// Without each of its inner rows the sweep says it within 7 % (memory) and 5 % (time).
constexpr bool each_row_is_found_from_the_others() {
  for (std::size_t left_out = 1; left_out < 12; ++left_out) {
    row_array<12> others{};
    for (std::size_t i = 0; i < 12; ++i) others[i] = guide[i < left_out ? i : i + 1];
    const batch_plan plan{.micro_batch = guide[left_out].micro_batch};
    const bytes memory = measured_memory_of(others)->required(plan);
    const duration time = measured_time_of(others)->step(plan);
    if (!near(memory.value(), guide[left_out].memory.value(), 0.07)) return false;
    if (!near(time.value(), step_time(guide[left_out]).value(), 0.05)) return false;
  }
  return true;
}

// ---- bit for bit

template <class Quantity>
constexpr bool same(const measured_curve<Quantity>& a, const measured_curve<Quantity>& b) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(most_curve_rows); ++i)
    if (a.micro_batches[i] != b.micro_batches[i] || a.values[i] != b.values[i] ||
        a.outliers[i] != b.outliers[i])
      return false;
  return a.rows == b.rows && a.line_from == b.line_from && a.straight == b.straight &&
         a.line == b.line && a.lower == b.lower && a.upper == b.upper &&
         a.confidence == b.confidence && a.scatter == b.scatter;
}

// ---- one change to a good sweep

template <class Change>
constexpr failure flaw_after(Change change) {
  auto rows = on_a_line<5>(1'000, 100);
  change(rows);
  return measured_sweep_of(rows, {.date = "2026-11-23", .gpu_memory = 1_GB}).why();
}
template <class Change>
constexpr failure flaw_of_model(Change change) {
  measured_sweep sweep = monday;
  change(sweep);
  return validate(sweep).why();
}

}  // namespace

TEST_CASE("rows on a line: the line, and nothing else") {
  CONSTEXPR auto memory = *measured_memory_of(on_a_line<7>(1'024, 128));
  CONSTEXPR straight_line<bytes> line{1'024_B, 128_B};
  STATIC_CHECK(memory.curve.line == line && memory.curve.lower == line);
  STATIC_CHECK(memory.curve.upper == line && memory.curve.scatter == range(0.0));
  STATIC_CHECK(memory.curve.straight && memory.curve.line_from == 1);
  STATIC_CHECK(memory.curve.confidence == 0.96875);  // 1 - 2 / 2^6
  STATIC_CHECK(memory_of(memory, 50) == 7'424_B);
  STATIC_CHECK(memory.forecast_of({.micro_batch = 50}).value == range(7'424_B));
  CONSTEXPR auto beyond = memory.forecast_of({.micro_batch = 100});
  STATIC_CHECK(beyond.extrapolates && beyond.value == range(13'824_B));
}

TEST_CASE("the line is the median's, its ends are order statistics") {
  STATIC_CHECK(line_agrees_with_counting(30));
  STATIC_CHECK(confidence_agrees_with_trying<3>());
  STATIC_CHECK(confidence_agrees_with_trying<5>());
  STATIC_CHECK(confidence_agrees_with_trying<8>());
  STATIC_CHECK(confidence_agrees_with_trying<11>());
}

TEST_CASE("outliers bend nothing, and memory once taken is always needed") {
  CONSTEXPR auto rows = with_outliers(3, 0.5);
  CONSTEXPR auto memory = *measured_memory_of(rows);
  STATIC_CHECK(memory.curve.straight && memory.curve.line_from == 1);
  STATIC_CHECK(memory.curve.outliers[3] && memory.curve.outliers[6]);
  STATIC_CHECK(!memory.curve.outliers[2] && !memory.curve.outliers[8]);
  STATIC_CHECK(near(memory.curve.line.fixed.value(), 1'000));
  STATIC_CHECK(near(memory.curve.line.per_sample.value(), 100));
  STATIC_CHECK(near(memory_of(memory, 7).value(), 1'700));
  STATIC_CHECK(memory_of(memory, 8) == 5'400_B && memory_of(memory, 44) == 5'400_B);
  STATIC_CHECK(near(memory_of(memory, 64).value(), 7'400));
  STATIC_CHECK(memory.forecast_of({.micro_batch = 512}).value.contains(52'200_B));

  CONSTEXPR auto time = *measured_time_of(rows);
  STATIC_CHECK(near(time.step({.micro_batch = 8}).value(), 1.8e-6));
  STATIC_CHECK(near(time.step({.micro_batch = 64}).value(), 7.4e-6));
}

TEST_CASE("an end that is off may be an outlier or a bend: its row counts, the range says so") {
  CONSTEXPR auto rows = [] {
    auto off = on_a_line<9>(1'000, 100);
    off[8] = row(256, 35'000);
    return off;
  }();
  CONSTEXPR auto memory = *measured_memory_of(rows);
  STATIC_CHECK(!memory.curve.straight && memory.curve.line_from == 16);
  STATIC_CHECK(memory_of(memory, 256) == 35'000_B && memory_of(memory, 128) == 13'800_B);
  CONSTEXPR auto beyond = memory.forecast_of({.micro_batch = 512}).value;
  STATIC_CHECK(beyond.contains(52'200_B) && beyond.contains(35'000_B + 256 * 165.625_B));
}

TEST_CASE("memory never falls and is never below a row") { STATIC_CHECK(memory_never_falls()); }

TEST_CASE("where rows bend, the line is that of the larger ones") {
  CONSTEXPR auto time = *measured_time_of(bent<10>());
  STATIC_CHECK(time.micro_batch.straight && time.micro_batch.line_from == 16);
  STATIC_CHECK(near(time.micro_batch.line.per_sample.value(), 6e-9));
  STATIC_CHECK(near(time.step({.micro_batch = 3}).value(), 96.75e-9));
  STATIC_CHECK(near(time.step({.micro_batch = 100}).value(), 604e-9));
  CONSTEXPR auto beyond = time.forecast_of({.micro_batch = 1024});
  STATIC_CHECK(beyond.extrapolates && near(beyond.value.low().value(), 6'148e-9));
  STATIC_CHECK(near(beyond.value.high().value(), 6'148e-9));
}

TEST_CASE("outside what was measured nothing is said in silence") {
  CONSTEXPR auto sweep =
      *measured_sweep_of(std::span(guide).subspan(3, 10), {.date = "2026-11-23"});
  CONSTEXPR batch_plan within{.micro_batch = 3000};
  CONSTEXPR batch_plan above{.micro_batch = 5000};
  CONSTEXPR batch_plan below{.micro_batch = 4};
  STATIC_CHECK(check(within, 24_GB, sweep.memory));
  STATIC_CHECK(check(above, 800_GB, sweep.memory).why() ==
               failure(errc::not_measured,
                       named_fact{fact::micro_batch, 5'000},
                       named_fact{fact::at_least, 8},
                       named_fact{fact::at_most, 4'096},
                       named_fact{fact::low_MB, 32'139},
                       named_fact{fact::high_MB, 36'782}));
  STATIC_CHECK(check(above, 40_GB, extrapolated(sweep.memory)));
  STATIC_CHECK(fits(sweep.memory.forecast_of(above).value, 35_GB) == fit::perhaps);
  STATIC_CHECK(fits(sweep.memory.forecast_of(above).value, 32_GB) == fit::no);
  STATIC_CHECK(*max_micro_batch(800_GB, sweep.memory) == 4'096);
  STATIC_CHECK(*max_micro_batch(40_GB, extrapolated(sweep.memory)) > 5'000);
  STATIC_CHECK(solve_batch({.effective_batch = 16'384, .gpu = 800_GB}, sweep.memory)->micro_batch ==
               4'096);
  // Below, memory is at most that of the smallest row; half the samples take at least half.
  STATIC_CHECK(check(below, 1_GB, sweep.memory) && memory_of(sweep.memory, 4) == 0.28_GB);
  STATIC_CHECK(sweep.memory.forecast_of(below).value == range(0.14_GB, 0.28_GB));

  STATIC_CHECK(validate(sweep.time, within) && !validate(sweep.time, above));
  STATIC_CHECK(validate(sweep.time, below).why() == failure(errc::not_measured,
                                                            named_fact{fact::micro_batch, 4},
                                                            named_fact{fact::at_least, 8},
                                                            named_fact{fact::at_most, 4'096}));
  STATIC_CHECK(extrapolated(sweep.time).step(above) == sweep.time.forecast_of(above).value.high());
  STATIC_CHECK(near(sweep.time.forecast_of(below).value.low().value(), 0.02213, 1e-2));
}

TEST_CASE("the guide's sweep foretells its own rows") {
  STATIC_CHECK(each_part_foretells_the_next_row());
  STATIC_CHECK(each_row_is_found_from_the_others());
}

TEST_CASE("what ran out needs more than it ran out of") {
  // By its line, 8192 samples take some 57 GB, and yet they did not fit in 80.
  STATIC_CHECK(*monday.memory.ran_out_at == 8'192 && *monday.memory.ran_out_of == 80_GB);
  CONSTEXPR auto denied = monday.memory.forecast_of({.micro_batch = 8'192});
  STATIC_CHECK(denied.value.low() == 80_GB + 1_B && denied.extrapolates);
  STATIC_CHECK(denied.value.high().value() == std::numeric_limits<double>::infinity());
  STATIC_CHECK(monday.memory.forecast_of({.micro_batch = 8'191}).value.high() < 61_GB);
  STATIC_CHECK(check({.micro_batch = 9'000}, 800_GB, extrapolated(monday.memory)).why() ==
               failure(errc::ran_out_when_measured,
                       named_fact{fact::micro_batch, 9'000},
                       named_fact{fact::at_least, 8'192},
                       named_fact{fact::gpu_has_MB, 80'000}));

  // Where the line agrees, it speaks on; rows above the smallest that ran out are not believed.
  CONSTEXPR row_array<5> rows{row(1, 200), row(2, 300), row(4, 500), ran_out(8), row(16, 400)};
  CONSTEXPR auto agreed = *measured_memory_of(rows, bytes::from_value(850));
  STATIC_CHECK(agreed.curve.span() == range<std::int64_t>(1, 4));
  STATIC_CHECK(agreed.forecast_of({.micro_batch = 8}).value == range(900_B));
  STATIC_CHECK(agreed.forecast_of({.micro_batch = 7}).value == range(800_B));
}

TEST_CASE("what a step takes once, and what accumulation adds") {
  CONSTEXPR auto rows = [] {
    auto with_optimizer = on_a_line<5>(1'000, 100);
    for (std::size_t i = 0; i < 5; ++i) {
      with_optimizer[i].optimizer = (10 + static_cast<double>(i)) * 1_us;
      with_optimizer[i].communication = 3_us;
    }
    return with_optimizer;
  }();
  CONSTEXPR auto sweep = *measured_sweep_of(rows, {.date = "2026-11-23"});
  STATIC_CHECK(near(sweep.time.once.value(), 15e-6));
  STATIC_CHECK(near(sweep.time.step({.micro_batch = 4}).value(), 16.4e-6));
  STATIC_CHECK(near(sweep.time.step({.micro_batch = 4, .accumulation = 5}).value(), 22e-6));
  CONSTEXPR auto kept = [&] {
    measured_memory with_gradients = sweep.memory;
    with_gradients.while_accumulating = 50_B;
    return with_gradients;
  }();
  STATIC_CHECK(kept.required({.micro_batch = 4}) == 1'400_B);
  STATIC_CHECK(kept.required({.micro_batch = 4, .accumulation = 2}) == 1'450_B);
}

TEST_CASE("saturation and knee, in closed form") {
  // 50 ms + 0.25 ms a sample: 4000 samples/s, of which 200 samples reach half, 1800 nine tenths.
  CONSTEXPR auto time = *measured_time_of(on_a_line<13>(50e6, 0.25e6));
  STATIC_CHECK(near(saturation_throughput(time).low().value(), 4'000));
  STATIC_CHECK(near(saturation_throughput(time).high().value(), 4'000));
  CONSTEXPR auto knee = *batch_at_saturation(time, 0.5);
  STATIC_CHECK(is_about(knee.micro_batch, 200) && !knee.extrapolates);
  CONSTEXPR auto beyond = *batch_at_saturation(time, 0.99);
  STATIC_CHECK(is_about(beyond.micro_batch, 19'800) && beyond.extrapolates);
  STATIC_CHECK(!batch_at_saturation(time, 1));

  // What a step takes once is fixed too.
  CONSTEXPR auto with_optimizer = [&] {
    measured_time slower = time;
    slower.once = 25_ms;
    return slower;
  }();
  STATIC_CHECK(is_about(batch_at_saturation(with_optimizer, 0.5)->micro_batch, 300));

  // 6 for each sample of at least 96: half of that from 17 samples on by the line, from 9 by the
  // rows, whose time hardly rises: 6 n >= (96 + n / 4) / 2.
  CONSTEXPR auto on_floor = *measured_time_of(bent<10>());
  STATIC_CHECK(batch_at_saturation(on_floor, 0.5)->micro_batch == range<std::int64_t>(9));
  CONSTEXPR auto reached = *batch_at_saturation(on_floor, 0.01);
  STATIC_CHECK(reached.micro_batch == range<std::int64_t>(1) && !reached.extrapolates);
  CONSTEXPR auto all_above =
      *batch_at_saturation(*measured_time_of(std::span(guide).subspan(9, 4)), 0.5);
  STATIC_CHECK(all_above.micro_batch.low() == 1 && all_above.extrapolates);
}

TEST_CASE("a header of Monday holds the fit of its rows, bit for bit") {
  CONSTEXPR auto fitted = *measured_sweep_of(guide, monday.origin);
  STATIC_CHECK(std::string_view(monday.origin.date) == "2026-11-23");
  STATIC_CHECK(*monday.origin.gpu_memory == 80_GB);
  STATIC_CHECK(monday.workers == 4 && monday.mixed_precision && !monday.pinned_memory);
  STATIC_CHECK(same(fitted.memory.curve, monday.memory.curve));
  STATIC_CHECK(same(fitted.time.micro_batch, monday.time.micro_batch));
  STATIC_CHECK(fitted.time.once == monday.time.once);
  STATIC_CHECK(validate(monday));
  STATIC_CHECK(check({.micro_batch = 2'048}, 40_GB, monday.memory));
}

TEST_CASE("what no model is made of") {
  STATIC_CHECK(flaw_after([](auto&) {}) == failure());
  STATIC_CHECK(flaw_after([](auto& rows) {
                 for (const std::size_t i : {1u, 2u, 3u})
                   rows[i].status = sweep_status::out_of_memory;
               }).code == errc::too_few_rows);
  STATIC_CHECK(flaw_after([](auto& rows) { rows[2].micro_batch = 2; }) ==
               failure(errc::measured_twice, named_fact{fact::micro_batch, 2}));
  STATIC_CHECK(flaw_after([](auto& rows) { rows[2].pinned_memory = true; }).code ==
               errc::mixed_rows);
  STATIC_CHECK(flaw_after([](auto& rows) {
                 rows[4].status = sweep_status::out_of_memory;
                 rows[4].mixed_precision = true;
               }).code == errc::mixed_rows);
  STATIC_CHECK(flaw_after([](auto& rows) {
                 for (sweep_row& r : rows) r.memory = 1_MB;
               }).code == errc::does_not_rise);
  STATIC_CHECK(flaw_after([](auto& rows) {
                 rows[1].optimizer = 1_s;
                 rows[1].forward = rows[1].backward = 0_s;
               }) == failure(errc::not_positive, named_fact{fact::row, 1}).about(fact::value));
  STATIC_CHECK(flaw_after([](auto& rows) { rows[1].memory = -1_MB; }).code == errc::not_positive);
  STATIC_CHECK(measured_memory_of(on_a_line<33>(1, 1)).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::rows_that_ran, 33},
                       named_fact{fact::at_most, 32}));
  STATIC_CHECK(measured_memory_of(on_a_line<5>(1, 1), 0_GB).why().code == errc::not_positive);
  STATIC_CHECK(measured_time_of(on_a_line<5>(1, 1), 1.5).why().code == errc::out_of_bounds);
  STATIC_CHECK(measured_sweep_of(on_a_line<5>(1, 1), {.device = "a"}).why() ==
               failure(errc::undated_measurement).about("a"));
}

TEST_CASE("models that were changed by hand") {
  STATIC_CHECK(flaw_of_model([](auto& s) { s.memory.curve.rows = 0; }).code == errc::out_of_bounds);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.memory.curve.micro_batches[3] = 4; }).code ==
               errc::not_rising);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.memory.curve.micro_batches[0] = 0; }).code ==
               errc::not_positive);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.memory.curve.values[2] = 0_B; }) ==
               failure(errc::not_positive, named_fact{fact::row, 2}).about(fact::value));
  STATIC_CHECK(flaw_of_model([](auto& s) { s.memory.curve.outliers[12] = true; }).code ==
               errc::out_of_bounds);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.memory.while_accumulating = -1_B; }).code ==
               errc::negative);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.time.once = -1_ms; }).code == errc::negative);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.time.micro_batch.upper.per_sample = 1_us; }).code ==
               errc::inverted_range);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.time.micro_batch.line.per_sample = -1_us; }).code ==
               errc::not_positive);
  STATIC_CHECK(flaw_of_model([](auto& s) {
                 s.time.micro_batch.scatter = {-1, 0};
               }).code == errc::out_of_bounds);
  STATIC_CHECK(flaw_of_model([](auto& s) { s.origin.date = ""; }).code ==
               errc::undated_measurement);
  STATIC_CHECK([] {
    for (const char* day : {"2026-11-23", "2024-02-29", "2000-02-29", "2026-12-31"})
      if (!detail::is_date(day)) return false;
    for (const char* none : {"notadate",
                             "2026-11-2",
                             "2026-11-231",
                             "2026-13-01",
                             "2026-00-01",
                             "2026-11-31",
                             "2026-02-29",
                             "1900-02-29",
                             "2026-11-00",
                             "2026/11/23",
                             "20261123",
                             ""})
      if (detail::is_date(none)) return false;
    return true;
  }());
  STATIC_CHECK(flaw_of_model([](auto& s) { s.origin.date = "notadate"; }) ==
               failure(errc::undated_measurement).about("notadate"));
}

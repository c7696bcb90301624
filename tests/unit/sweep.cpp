#include <gpuplan/sweep.hpp>
#include <gpuplan/time_model.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "check.hpp"
#include "random_numbers.hpp"

namespace {

using namespace gpuplan;

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr bool near(double a, double b, double tolerance = 1e-12) {
  return detail::abs(a - b) <= tolerance * (detail::abs(b) + 1e-300);
}

constexpr duration seconds(double value) { return duration::from_value(value); }
constexpr bytes byte_count(double value) { return bytes::from_value(value); }

// A row of this step time and memory; how the time splits up matters to the diagnosis alone.
constexpr sweep_row row(std::int64_t batch, double time, double memory, double utilisation = 0.5) {
  return {.micro_batch = batch,
          .workers = 4,
          .mixed_precision = true,
          .data = seconds(time / 4),
          .forward = seconds(time / 4),
          .backward = seconds(time / 2),
          .gpu_utilisation = utilisation,
          .memory = byte_count(memory)};
}

constexpr sweep_row ran_out(std::int64_t batch) {
  return {.micro_batch = batch, .workers = 4, .status = sweep_status::out_of_memory};
}

template <std::size_t Count>
using row_array = std::array<sweep_row, Count>;

// ---- fits

// Rows on a line, and one that ran out, whose empty fields must not count.
constexpr row_array<6> on_a_line(double fixed, double per_sample) {
  row_array<6> rows{};
  std::size_t i = 0;
  for (const std::int64_t batch : {64, 1, 512, 8, 4096}) {
    const double value = fixed + per_sample * static_cast<double>(batch);
    rows[i++] = row(batch, value / 1e10, value);
  }
  rows[i] = ran_out(8192);
  return rows;
}

constexpr bool finds_the_planted_line(double fixed, double per_sample) {
  const auto rows = on_a_line(fixed, per_sample);
  for (const auto weighting : {fit_weighting::absolute, fit_weighting::relative}) {
    const auto memory = fit_memory(rows, weighting);
    const auto time = fit_time(rows, weighting);
    // What rounding leaves of the intercept is relative to the values, not to itself.
    const double most = fixed + per_sample * 4096;
    if (!near(memory->model.per_sample.value(), per_sample)) return false;
    if (!near(time->model.per_sample.value(), per_sample / 1e10)) return false;
    if (detail::abs(memory->model.fixed.value() - fixed) > 1e-13 * most) return false;
    if (detail::abs(time->model.fixed.value() - fixed / 1e10) > 1e-13 * most / 1e10) return false;
    if (!near(memory->residuals.r_squared, 1) || !near(time->residuals.r_squared, 1)) return false;
    if (memory->residuals.largest.value() > 1e-13 * most) return false;
    if (memory->residuals.rows != 5 || memory->residuals.batches != range<std::int64_t>(1, 4096))
      return false;
  }
  return true;
}

// Values above the line by +e, -e, -e, +e at equal distances: orthogonal to the constant and to the
// batch, so plain least squares must give the line back, and every residual is e.
constexpr row_array<4> around_a_line(double fixed, double per_sample, double e) {
  row_array<4> rows{};
  for (int i = 0; i < 4; ++i) {
    const double value = fixed + per_sample * (i + 1) + (i == 0 || i == 3 ? e : -e);
    rows[static_cast<std::size_t>(i)] = row(i + 1, value, value);
  }
  return rows;
}

// (1, 3), (2, 4), (4, 8): fitted by hand, in fractions.
constexpr row_array<3> by_hand{row(1, 3, 3e9), row(2, 4, 4e9), row(4, 8, 8e9)};

// The sum of squares that a fit makes smallest.
constexpr double loss(sweep_rows rows, double fixed, double per_sample, bool relative) {
  double sum = 0;
  for (const sweep_row& r : rows) {
    const double value = r.memory.value();
    const double residual = value - fixed - per_sample * static_cast<double>(r.micro_batch);
    sum += relative ? residual * residual / (value * value) : residual * residual;
  }
  return sum;
}

constexpr bool no_line_nearby_is_better(sweep_rows rows) {
  for (const bool relative : {false, true}) {
    const auto fit =
        *fit_memory(rows, relative ? fit_weighting::relative : fit_weighting::absolute);
    const double a = fit.model.fixed.value();
    const double b = fit.model.per_sample.value();
    const double least = loss(rows, a, b, relative);
    for (const double da : {-1e-3, 0.0, 1e-3})
      for (const double db : {-1e-3, 0.0, 1e-3})
        if ((da != 0 || db != 0) && loss(rows, a + da * a, b + db * b, relative) <= least)
          return false;
  }
  return true;
}

// ---- random rows, the same at compile time and at run time

// Few different values, so that equals come up, and some rows that ran out.
constexpr row_array<9> random_rows(random_numbers& random) {
  row_array<9> rows{};
  for (sweep_row& r : rows) {
    const std::int64_t batch = 1 + random.below(4);
    r = row(batch,
            static_cast<double>(1 + random.below(4)),
            1e9 * static_cast<double>(1 + random.below(6)),
            static_cast<double>(random.below(11)) / 10);
    r.workers = random.below(3);
    if (random.below(5) == 0) r = ran_out(batch);
  }
  return rows;
}

constexpr bool same_pick(const result<sweep_pick>& a,
                         sweep_rows rows_a,
                         const result<sweep_pick>& b,
                         sweep_rows rows_b) {
  if (!a || !b) return a.why() == b.why();
  const sweep_row& x = rows_a[a->row];
  const sweep_row& y = rows_b[b->row];
  return a->value == b->value && a->candidates == b->candidates && x.micro_batch == y.micro_batch &&
         x.memory == y.memory && x.workers == y.workers && step_time(x) == step_time(y);
}

constexpr sweep_thresholds bands{.utilisation = {0.3, 0.8}, .memory_share = {0.25, 0.75}};
constexpr bytes gpu_of_8_GB = 8_GB;

// By plain numbers: throughput in samples/s, GB, and the bands as they are meant.
constexpr bool picks_agree_with_brute_force(int sweeps) {
  random_numbers random(7);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    const auto rows = random_rows(random);
    const auto fastest = pick_highest_throughput(rows);
    const auto densest = pick_best_efficiency(rows);
    const auto advised = pick_recommended(rows, gpu_of_8_GB, bands);
    double most = 0, most_per_GB = 0, most_in_bands = 0;
    int in_bands = 0;
    for (const sweep_row& r : rows) {
      if (r.status == sweep_status::out_of_memory) continue;
      const double time = r.data.value() + r.forward.value() + r.backward.value();
      const double rate = static_cast<double>(r.micro_batch) / time;
      const double GB = r.memory.value() / 1e9;
      if (rate > most) most = rate;
      if (rate / GB > most_per_GB) most_per_GB = rate / GB;
      if (GB < 2 || GB > 6 || r.gpu_utilisation < 0.3 || r.gpu_utilisation > 0.8) continue;
      ++in_bands;
      if (rate > most_in_bands) most_in_bands = rate;
    }
    if (most == 0) continue;  // none ran
    if (fastest->value != most || densest->value != most_per_GB) return false;
    if (samples_per_s_per_GB(rows[densest->row]) != most_per_GB) return false;
    if (throughput(rows[fastest->row]).value() != most) return false;
    if (in_bands == 0) {
      if (advised || advised.why().code != errc::no_row_in_bands) return false;
    } else {
      if (advised->value != most_in_bands || advised->candidates != in_bands) return false;
      if (!bands.utilisation.contains(rows[advised->row].gpu_utilisation)) return false;
    }
  }
  return true;
}

constexpr bool order_changes_no_pick(int sweeps) {
  random_numbers random(7);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    const auto rows = random_rows(random);
    auto moved = rows;
    for (std::size_t i = 0; i < rows.size(); ++i) moved[i] = rows[(5 * i + 3) % rows.size()];
    if (!same_pick(pick_highest_throughput(rows), rows, pick_highest_throughput(moved), moved))
      return false;
    if (!same_pick(pick_best_efficiency(rows), rows, pick_best_efficiency(moved), moved))
      return false;
    if (!same_pick(pick_recommended(rows, gpu_of_8_GB, bands),
                   rows,
                   pick_recommended(moved, gpu_of_8_GB, bands),
                   moved))
      return false;
  }
  return true;
}

constexpr row_array<5> bent{row(1, 0.036, 0.15e9),
                            row(16, 0.050, 0.35e9),
                            row(128, 0.092, 1.15e9),
                            row(1024, 0.287, 7.45e9),
                            row(4096, 0.922, 27.85e9)};

constexpr bool order_changes_no_line(sweep_rows rows) {
  row_array<5> moved{};
  for (std::size_t i = 0; i < 5; ++i) moved[i] = rows[(3 * i + 2) % 5];
  for (const auto weighting : {fit_weighting::absolute, fit_weighting::relative}) {
    const auto a = *fit_time(rows, weighting);
    const auto b = *fit_time(moved, weighting);
    if (!near(a.model.fixed.value(), b.model.fixed.value()) ||
        !near(a.model.per_sample.value(), b.model.per_sample.value()) ||
        !near(a.residuals.root_mean_square.value(), b.residuals.root_mean_square.value()) ||
        !near(a.residuals.r_squared, b.residuals.r_squared) ||
        rows[a.residuals.largest_row].micro_batch != moved[b.residuals.largest_row].micro_batch)
      return false;
  }
  return true;
}

// By a power of two, so that scaling commutes with rounding.
constexpr bool scaling_times_scales_the_line(sweep_rows rows) {
  row_array<5> slower{};
  for (std::size_t i = 0; i < 5; ++i) {
    slower[i] = rows[i];
    for (duration sweep_row::*part :
         {&sweep_row::data, &sweep_row::forward, &sweep_row::backward, &sweep_row::optimizer})
      slower[i].*part = 8 * (rows[i].*part);
  }
  for (const auto weighting : {fit_weighting::absolute, fit_weighting::relative}) {
    const auto a = *fit_time(rows, weighting);
    const auto b = *fit_time(slower, weighting);
    if (b.model.fixed != 8 * a.model.fixed || b.model.per_sample != 8 * a.model.per_sample ||
        b.residuals.largest != 8 * a.residuals.largest ||
        b.residuals.root_mean_square != 8 * a.residuals.root_mean_square ||
        b.residuals.largest_relative != a.residuals.largest_relative ||
        b.residuals.r_squared != a.residuals.r_squared)
      return false;
    if (*batch_at_saturation(b.model, 0.9) != *batch_at_saturation(a.model, 0.9)) return false;
  }
  return true;
}

// ---- what follows from a line

// In integers: b n >= (p / 100) (a + b n) is n b (100 - p) >= p a.
constexpr bool saturation_agrees_with_counting() {
  for (const std::int64_t a : {0, 1, 7, 100, 1000})
    for (const std::int64_t b : {1, 3, 8})
      for (const std::int64_t percent : {0, 25, 50, 75}) {  // shares exact in binary
        std::int64_t n = 1;
        while (n * b * (100 - percent) < percent * a) ++n;
        const affine_time model{.fixed = static_cast<double>(a) * 1_s,
                                .per_sample = static_cast<double>(b) * 1_s};
        if (*batch_at_saturation(model, static_cast<double>(percent) / 100) != n) return false;
      }
  return true;
}

// In whole bytes, by trying every batch: from `low` to `high` eighths of the GPU.
constexpr bool bands_agree_with_counting() {
  for (const std::int64_t fixed : {0, 100, 401})
    for (const std::int64_t per_sample : {1, 7, 64, 333})
      for (const std::int64_t low : {0, 1, 4})
        for (const std::int64_t high : {4, 7, 8}) {
          const std::int64_t size = 800;
          std::int64_t first = 0, last = 0;
          for (std::int64_t n = 1; n <= 1000; ++n) {
            const std::int64_t needed = fixed + per_sample * n;
            if (needed <= size / 8 * high) last = n;
            if (first == 0 && needed >= size / 8 * low) first = n;
          }
          const auto found =
              batches_in({static_cast<double>(low) / 8, static_cast<double>(high) / 8},
                         size * 1_B,
                         affine_memory{.fixed = fixed * 1_B, .per_sample = per_sample * 1_B});
          if (last == 0) {
            if (found.why().code != errc::exceeds_gpu_memory) return false;
          } else if (first > last) {
            if (found.why() != failure(errc::no_batch_in_band,
                                       named_fact{fact::nearest_below, last},
                                       named_fact{fact::nearest_above, first}))
              return false;
          } else if (*found != range(first, last)) {
            return false;
          }
        }
  return true;
}

// ---- one change to a good row

template <class Change>
constexpr failure flaw_after(Change change) {
  row_array<3> rows = by_hand;
  change(rows[1]);
  return validate(rows).why();
}

constexpr failure not_finite(const char* field) {
  return failure(errc::not_finite, named_fact{fact::row, 1}).about(field);
}

}  // namespace

TEST_CASE("a row's derived numbers") {
  CONSTEXPR sweep_row r{.micro_batch = 128,
                        .data = 10_ms,
                        .forward = 30_ms,
                        .backward = 40_ms,
                        .optimizer = 20_ms,
                        .memory = 2_GB};
  STATIC_CHECK(near(step_time(r).value(), 0.1));
  STATIC_CHECK(near(throughput(r).value(), 1280));
  STATIC_CHECK(near(samples_per_s_per_GB(r), 640));
}

TEST_CASE("a planted line is found again") {
  STATIC_CHECK(finds_the_planted_line(3e8, 6.75e6));
  STATIC_CHECK(finds_the_planted_line(5e9, 1.2e9));
  STATIC_CHECK(finds_the_planted_line(1, 1e6));
}

TEST_CASE("residuals known in closed form") {
  CONSTEXPR auto rows = around_a_line(10, 2, 0.5);
  CONSTEXPR auto time = fit_time(rows, fit_weighting::absolute);
  STATIC_CHECK(near(time->model.fixed.value(), 10));
  STATIC_CHECK(near(time->model.per_sample.value(), 2));
  STATIC_CHECK(near(time->residuals.largest.value(), 0.5));
  STATIC_CHECK(near(time->residuals.root_mean_square.value(), 0.5));
  // Of the values 12.5, 13.5, 15.5, 18.5 the first has the largest share.
  STATIC_CHECK(near(time->residuals.largest_relative, 0.5 / 12.5));
  // sum of squares: 4 e^2 of the residuals, 5 b^2 + 4 e^2 of the values.
  STATIC_CHECK(near(time->residuals.r_squared, 1 - 1.0 / 21));
}

TEST_CASE("fits by hand, in fractions") {
  CONSTEXPR auto plain = fit_memory(by_hand, fit_weighting::absolute);
  STATIC_CHECK(near(plain->model.fixed.value(), 1e9));
  STATIC_CHECK(near(plain->model.per_sample.value(), 12e9 / 7));
  STATIC_CHECK(near(plain->residuals.largest.value(), 3e9 / 7));
  STATIC_CHECK(plain->residuals.largest_row == 1);
  STATIC_CHECK(near(plain->residuals.root_mean_square.value(), 1e9 * detail::sqrt(2.0 / 21)));
  STATIC_CHECK(near(plain->residuals.largest_relative, 3.0 / 28));
  STATIC_CHECK(near(plain->residuals.r_squared, 48.0 / 49));
  STATIC_CHECK(plain->residuals.rows == 3);
  STATIC_CHECK(plain->residuals.batches == range<std::int64_t>(1, 4));

  CONSTEXPR auto relative = fit_memory(by_hand, fit_weighting::relative);
  STATIC_CHECK(near(relative->model.fixed.value(), 80e9 / 61));
  STATIC_CHECK(near(relative->model.per_sample.value(), 94e9 / 61));
  STATIC_CHECK(near(relative->residuals.largest.value(), 32e9 / 61));
  STATIC_CHECK(relative->residuals.largest_row == 2);
  STATIC_CHECK(near(relative->residuals.root_mean_square.value(), 41e9 / 61 / detail::sqrt(3)));
  STATIC_CHECK(near(relative->residuals.largest_relative, 6.0 / 61));
  STATIC_CHECK(near(relative->residuals.r_squared, 2209.0 / 2318));

  // The times are the memory in GB: the same line.
  CONSTEXPR auto time = fit_time(by_hand, fit_weighting::relative);
  STATIC_CHECK(near(time->model.fixed.value(), 80.0 / 61));
  STATIC_CHECK(near(time->model.per_sample.value(), 94.0 / 61));
}

TEST_CASE("no line near a fitted one has a smaller sum of squares") {
  STATIC_CHECK(no_line_nearby_is_better(by_hand));
  STATIC_CHECK(no_line_nearby_is_better(bent));
}

TEST_CASE("plain least squares follows the largest batches, relative weights all of them") {
  CONSTEXPR auto plain = fit_memory(bent, fit_weighting::absolute);
  CONSTEXPR auto relative = fit_memory(bent, fit_weighting::relative);
  STATIC_CHECK(plain->residuals.largest < relative->residuals.largest);
  STATIC_CHECK(plain->residuals.largest_relative > relative->residuals.largest_relative);
}

TEST_CASE("the order of rows changes nothing, scaled times scale the line") {
  STATIC_CHECK(order_changes_no_line(bent));
  STATIC_CHECK(scaling_times_scales_the_line(bent));
  STATIC_CHECK(order_changes_no_pick(20));
}

TEST_CASE("picks agree with brute force") { STATIC_CHECK(picks_agree_with_brute_force(20)); }

TEST_CASE("a pick says what it is and why") {
  CONSTEXPR auto fastest = pick_highest_throughput(bent);
  STATIC_CHECK(fastest->row == 4);
  STATIC_CHECK(fastest->rule == pick_rule::highest_throughput);
  STATIC_CHECK(near(fastest->value, 4096 / 0.922));
  STATIC_CHECK(fastest->candidates == 5);

  CONSTEXPR auto densest = pick_best_efficiency(bent);
  STATIC_CHECK(densest->row == 2);
  STATIC_CHECK(densest->rule == pick_rule::best_efficiency);
  STATIC_CHECK(near(densest->value, 128 / 0.092 / 1.15));

  // Both ends of a band belong to it: 7.45 GB of 14.9 GB.
  CONSTEXPR auto half =
      pick_recommended(bent, 14.9_GB, {.utilisation = {0.5, 0.6}, .memory_share = {0.1, 0.5}});
  STATIC_CHECK(half->row == 3);
  STATIC_CHECK(half->candidates == 1);
  STATIC_CHECK(half->rule == pick_rule::highest_throughput_in_bands);
  STATIC_CHECK(text(half->rule)[0] != text(densest->rule)[0]);

  // Where nothing is asked, what fits.
  STATIC_CHECK(pick_recommended(bent, 24_GB, {})->row == 3);
}

TEST_CASE("of equals the one with less memory, then the smaller batch, then fewer workers") {
  CONSTEXPR row_array<2> memory{row(4, 2, 3e9), row(4, 2, 2e9)};
  STATIC_CHECK(pick_highest_throughput(memory)->row == 1);
  CONSTEXPR row_array<2> batch{row(4, 2, 2e9), row(2, 1, 2e9)};
  STATIC_CHECK(pick_highest_throughput(batch)->row == 1);
  STATIC_CHECK(pick_best_efficiency(batch)->row == 1);
  CONSTEXPR auto workers = [] {
    row_array<2> rows{row(4, 2, 2e9), row(4, 2, 2e9)};
    rows[1].workers = 2;
    return rows;
  }();
  STATIC_CHECK(pick_highest_throughput(workers)->row == 1);
}

TEST_CASE("no row in the bands: how many are in each, and how far off memory is") {
  CONSTEXPR auto none =
      pick_recommended(bent, 80_GB, {.utilisation = {0.4, 0.6}, .memory_share = {0.6, 0.8}});
  STATIC_CHECK(none.why() == failure(errc::no_row_in_bands,
                                     named_fact{fact::rows_that_ran, 5},
                                     named_fact{fact::rows_in_memory_band, 0},
                                     named_fact{fact::rows_in_utilisation_band, 5},
                                     named_fact{fact::band_low_MB, 48'000},
                                     named_fact{fact::band_high_MB, 64'000},
                                     named_fact{fact::largest_row_MB, 27'850}));

  CONSTEXPR row_array<3> apart{row(1, 1, 5e9, 0.9), row(2, 1, 3e9, 0.5), row(3, 1, 2e9, 0.3)};
  CONSTEXPR auto either =
      pick_recommended(apart, 8_GB, {.utilisation = {0.4, 0.6}, .memory_share = {0.5, 0.75}});
  STATIC_CHECK(either.why()[fact::rows_in_memory_band] == 1);
  STATIC_CHECK(either.why()[fact::rows_in_utilisation_band] == 1);
  STATIC_CHECK(either.why()[fact::largest_row_MB] == 5'000);
}

TEST_CASE("saturation and knee") {
  STATIC_CHECK(time_model<affine_time>);
  CONSTEXPR affine_time model{.fixed = 50_ms, .per_sample = 0.25_ms};
  STATIC_CHECK(near(saturation_throughput(model).value(), 4000));
  STATIC_CHECK(*batch_at_saturation(model, 0.5) == 200);
  STATIC_CHECK(near(model.step({.micro_batch = 200}).value(), 0.1));
  STATIC_CHECK(near(model.step({.micro_batch = 200, .accumulation = 3}).value(), 0.3));
  STATIC_CHECK(saturation_agrees_with_counting());
}

TEST_CASE("where memory ends by a fitted line") {
  // 300 MB + 6.75 MB a sample.
  CONSTEXPR auto rows = on_a_line(3e8, 6.75e6);
  CONSTEXPR auto memory = fit_memory(rows, fit_weighting::absolute);
  STATIC_CHECK(*max_micro_batch(80_GB, memory->model) == (80'000 - 300) * 4 / 27);
  STATIC_CHECK(fits({.micro_batch = 8192}, 80_GB, memory->model));
  STATIC_CHECK(!fits({.micro_batch = 8192}, 40_GB, memory->model));
  STATIC_CHECK(bands_agree_with_counting());
}

TEST_CASE("a line below zero at batch zero is reported, and no decision is taken on it") {
  CONSTEXPR row_array<2> rows{row(1, 1, 1e9), row(2, 3, 3e9)};
  CONSTEXPR auto memory = fit_memory(rows, fit_weighting::absolute);
  STATIC_CHECK(near(memory->model.fixed.value(), -1e9));
  STATIC_CHECK(max_micro_batch(80_GB, memory->model).why().code == errc::negative);
  CONSTEXPR auto time = fit_time(rows, fit_weighting::absolute);
  STATIC_CHECK(near(saturation_throughput(time->model).value(), 0.5));
  STATIC_CHECK(batch_at_saturation(time->model, 0.5).why() ==
               failure(errc::negative, named_fact{fact::time_us, -1'000'000}).about("fixed"));
}

TEST_CASE("diagnoses, each at its threshold and beyond it") {
  CONSTEXPR sweep_thresholds limits{.data_time = 30_ms,
                                    .data_share = 0.25,
                                    .utilisation = {0.75, 0.9375},
                                    .memory_share = {0.5, 0.75}};
  CONSTEXPR auto with = [](duration data, duration compute, double used, bytes memory) {
    return sweep_row{.micro_batch = 8,
                     .data = data,
                     .forward = compute,
                     .gpu_utilisation = used,
                     .memory = memory};
  };
  CONSTEXPR auto at = *diagnose(with(30_ms, 90_ms, 0.75, 4_GB), 8_GB, limits);
  STATIC_CHECK(at.data_share == 0.25 && at.memory_share == 0.5);
  STATIC_CHECK(!at.loading_bound && !at.under_utilised && at.compute_bound);
  STATIC_CHECK(!at.memory_head_room && !at.memory_tight);
  STATIC_CHECK(!diagnose(with(30_ms, 90_ms, 0.75, 6_GB), 8_GB, limits)->memory_tight);

  CONSTEXPR auto slow = *diagnose(with(31_ms, 310_ms, 0.75, 7_GB), 8_GB, limits);
  STATIC_CHECK(slow.loading_bound && slow.compute_bound && slow.memory_tight);
  CONSTEXPR auto waiting = *diagnose(with(2_ms, 1_ms, 0.75, 3_GB), 8_GB, limits);
  STATIC_CHECK(waiting.loading_bound && !waiting.compute_bound && waiting.memory_head_room);
  CONSTEXPR auto idle = *diagnose(with(1_ms, 9_ms, 0.7, 3_GB), 8_GB, limits);
  STATIC_CHECK(!idle.loading_bound && idle.under_utilised && !idle.compute_bound);

  // Where nothing is asked, nothing is wrong.
  CONSTEXPR auto unasked = *diagnose(with(9_s, 1_ms, 0, 8_GB), 8_GB, {});
  STATIC_CHECK(!unasked.loading_bound && !unasked.under_utilised);
  STATIC_CHECK(!unasked.memory_head_room && !unasked.memory_tight);
}

TEST_CASE("a row's setting, and a step of several ranks") {
  CONSTEXPR sweep_row r{.micro_batch = 8,
                        .workers = 2,
                        .pinned_memory = true,
                        .data = 1_s,
                        .forward = 2_s,
                        .backward = 4_s,
                        .optimizer = 8_s,
                        .communication = 16_s,
                        .memory = 1_GB};
  CONSTEXPR sweep_setting s = setting_of(r);
  STATIC_CHECK(s == sweep_setting{.micro_batch = 8, .workers = 2, .pinned_memory = true});
  STATIC_CHECK(differ_in_batch_alone(s, {.micro_batch = 9, .workers = 2, .pinned_memory = true}));
  STATIC_CHECK(!differ_in_batch_alone(s, {.micro_batch = 8, .workers = 2}));
  STATIC_CHECK(step_time(r) == 31_s);
  STATIC_CHECK(throughput(r) == 8 / 31.0 * 1_samples_per_s);
}

TEST_CASE("bad rows are named by index and field") {
  STATIC_CHECK(validate(by_hand)->size() == 3);
  STATIC_CHECK(
      flaw_after([](sweep_row& r) { r.micro_batch = 0; }) ==
      failure(errc::not_positive, named_fact{fact::row, 1}, named_fact{fact::micro_batch, 0}));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.workers = -1; }) ==
               failure(errc::negative, named_fact{fact::row, 1}, named_fact{fact::workers, -1}));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.data = seconds(not_a_number); }) ==
               not_finite("data"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.forward = seconds(infinite); }) ==
               not_finite("forward"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.optimizer = seconds(-infinite); }) ==
               not_finite("optimizer"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.backward = -0.0000015 * 1_s; }) ==
               failure(errc::negative, named_fact{fact::row, 1}, named_fact{fact::time_us, -2})
                   .about("backward"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.communication = seconds(not_a_number); }) ==
               not_finite("communication"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.data = r.forward = r.backward = 0_s; }) ==
               failure(errc::not_positive, named_fact{fact::row, 1}, named_fact{fact::time_us, 0})
                   .about("step time"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.gpu_utilisation = not_a_number; }) ==
               not_finite("gpu_utilisation"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.gpu_utilisation = 93.75; }) ==
               failure(errc::out_of_bounds,
                       named_fact{fact::row, 1},
                       named_fact{fact::percent, 9375},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 100})
                   .about("gpu_utilisation"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.memory = byte_count(not_a_number); }) ==
               not_finite("memory"));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.memory = 0_B; }) ==
               failure(errc::not_positive, named_fact{fact::row, 1}, named_fact{fact::needed_MB, 0})
                   .about("memory"));
  // Of a row that ran out only the setting is read.
  STATIC_CHECK(flaw_after([](sweep_row& r) { r = ran_out(16); }) == failure());
  STATIC_CHECK(flaw_after([](sweep_row& r) { r = ran_out(0); }).code == errc::not_positive);
}

TEST_CASE("every reader refuses bad rows") {
  CONSTEXPR auto rows = [] {
    row_array<3> bad = by_hand;
    bad[2].memory = byte_count(not_a_number);
    return bad;
  }();
  CONSTEXPR failure why = failure(errc::not_finite, named_fact{fact::row, 2}).about("memory");
  STATIC_CHECK(pick_highest_throughput(rows).why() == why);
  STATIC_CHECK(pick_best_efficiency(rows).why() == why);
  STATIC_CHECK(pick_recommended(rows, 8_GB, {}).why() == why);
  STATIC_CHECK(fit_memory(rows, fit_weighting::absolute).why() == why);
  STATIC_CHECK(fit_time(rows, fit_weighting::relative).why() == why);
  STATIC_CHECK(diagnose(rows[2], 8_GB, {}).why().code == errc::not_finite);
}

TEST_CASE("too few rows, mixed rows, rows that do not rise") {
  CONSTEXPR failure no_rows = failure(errc::too_few_rows,
                                      named_fact{fact::rows_that_ran, 0},
                                      named_fact{fact::different_batches, 0});
  STATIC_CHECK(pick_highest_throughput({}).why() == no_rows);
  CONSTEXPR row_array<1> out{ran_out(4)};
  STATIC_CHECK(pick_best_efficiency(out).why() == no_rows);
  STATIC_CHECK(pick_recommended(out, 8_GB, {}).why() == no_rows);
  STATIC_CHECK(fit_memory(out, fit_weighting::absolute).why() == no_rows);
  STATIC_CHECK(diagnose(out[0], 8_GB, {}).why() ==
               failure(errc::row_ran_out, named_fact{fact::micro_batch, 4}));

  CONSTEXPR row_array<4> same{row(8, 1, 1e9), row(8, 2, 2e9), row(8, 3, 3e9), ran_out(16)};
  STATIC_CHECK(fit_time(same, fit_weighting::absolute).why() ==
               failure(errc::too_few_rows,
                       named_fact{fact::rows_that_ran, 3},
                       named_fact{fact::different_batches, 1}));

  CONSTEXPR auto mixed = [] {
    row_array<3> rows = by_hand;
    rows[2].workers = 8;
    return rows;
  }();
  STATIC_CHECK(fit_memory(mixed, fit_weighting::absolute).why() ==
               failure(errc::mixed_rows, named_fact{fact::row, 2}, named_fact{fact::workers, 8})
                   .about("workers"));
  STATIC_CHECK(pick_highest_throughput(mixed)->candidates == 3);
  CONSTEXPR auto formats = [] {
    row_array<3> rows = by_hand;
    rows[1].mixed_precision = false;
    return rows;
  }();
  STATIC_CHECK(fit_time(formats, fit_weighting::absolute).why() ==
               failure(errc::mixed_rows, named_fact{fact::row, 1}, named_fact{fact::workers, 4})
                   .about("mixed_precision"));
  CONSTEXPR auto pinned = [] {
    row_array<3> rows = by_hand;
    rows[2].pinned_memory = true;
    return rows;
  }();
  STATIC_CHECK(fit_memory(pinned, fit_weighting::relative).why() ==
               failure(errc::mixed_rows, named_fact{fact::row, 2}, named_fact{fact::workers, 4})
                   .about("pinned_memory"));

  CONSTEXPR failure flat = failure(errc::does_not_rise, named_fact{fact::rows_that_ran, 2});
  CONSTEXPR row_array<2> level{row(1, 0.1, 3e9), row(7, 0.1, 3e9)};
  STATIC_CHECK(fit_memory(level, fit_weighting::absolute).why() == flat);
  STATIC_CHECK(fit_time(level, fit_weighting::relative).why() == flat);
  CONSTEXPR row_array<2> falling{row(1, 2, 3e9), row(7, 1, 2e9)};
  STATIC_CHECK(fit_memory(falling, fit_weighting::relative).why() == flat);
}

TEST_CASE("bad thresholds, devices, shares") {
  STATIC_CHECK(pick_recommended(by_hand, 0_B, {}).why().code == errc::not_positive);
  STATIC_CHECK(pick_recommended(by_hand, byte_count(not_a_number), {}).why().code ==
               errc::not_finite);
  STATIC_CHECK(diagnose(by_hand[0], -1 * 1_GB, {}).why().code == errc::not_positive);
  STATIC_CHECK(validate(sweep_thresholds{.data_time = 0_s}).why().code == errc::not_positive);
  STATIC_CHECK(validate(sweep_thresholds{.data_time = seconds(not_a_number)}).why().code ==
               errc::not_positive);
  STATIC_CHECK(validate(sweep_thresholds{.data_share = not_a_number}).why().code ==
               errc::not_finite);
  STATIC_CHECK(validate(sweep_thresholds{.data_share = 30}).why().code == errc::out_of_bounds);
  STATIC_CHECK(pick_recommended(by_hand, 8_GB, {.utilisation = {70, 95}}).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::low_thousandths, 70'000},
                       named_fact{fact::high_thousandths, 95'000},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 1})
                   .about("utilisation"));
  STATIC_CHECK(diagnose(by_hand[0], 8_GB, {.memory_share = {-1, 1}}).why().code ==
               errc::out_of_bounds);

  CONSTEXPR affine_time model{.fixed = 1_s, .per_sample = 1_s};
  STATIC_CHECK(batch_at_saturation(model, 1).why() == failure(errc::out_of_bounds,
                                                              named_fact{fact::percent, 100},
                                                              named_fact{fact::at_least, 0},
                                                              named_fact{fact::at_most, 99})
                                                          .about("share"));
  STATIC_CHECK(*batch_at_saturation({.fixed = 0_s, .per_sample = 1_s}, 1) == 1);
  STATIC_CHECK(batch_at_saturation({.fixed = 1e-9 * 1_s, .per_sample = 1_s}, 1).why().code ==
               errc::out_of_bounds);
  STATIC_CHECK(batch_at_saturation(model, 1.01).why()[fact::at_most] == 100);
  STATIC_CHECK(batch_at_saturation({.fixed = 0_s, .per_sample = 1_s}, 1.01).why().code ==
               errc::out_of_bounds);
  STATIC_CHECK(batch_at_saturation(model, -0.1).why().code == errc::out_of_bounds);
  STATIC_CHECK(batch_at_saturation(model, not_a_number).why().code == errc::not_finite);
  STATIC_CHECK(batch_at_saturation({.fixed = 1_s}, 0.5).why().code == errc::not_positive);
  STATIC_CHECK(
      batch_at_saturation({.fixed = seconds(not_a_number), .per_sample = 1_s}, 0.5).why().code ==
      errc::not_finite);
  STATIC_CHECK(
      batch_at_saturation({.fixed = {}, .per_sample = seconds(infinite)}, 0.5).why().code ==
      errc::not_finite);
  CONSTEXPR affine_memory memory{.fixed = 1_GB, .per_sample = 1_GB};
  STATIC_CHECK(batches_in({0.5, 1.5}, 8_GB, memory).why().code == errc::out_of_bounds);
  STATIC_CHECK(batches_in({0.5, 1}, 1_GB, memory).why().code == errc::exceeds_gpu_memory);
}

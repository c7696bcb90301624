#include <gpuplan/sweep.hpp>
#include <gpuplan/time_model.hpp>

#include <cstddef>
#include <cstdint>

#include "check.hpp"
#include "swept_rows.hpp"

namespace {

using namespace gpuplan;
using namespace swept_rows;

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

}  // namespace

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

TEST_CASE("the order of rows changes no line, scaled times scale it") {
  STATIC_CHECK(order_changes_no_line(bent));
  STATIC_CHECK(scaling_times_scales_the_line(bent));
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
               failure(errc::negative, named_fact{fact::time_us, -1'000'000}).about(fact::fixed));
}

TEST_CASE("too few rows, mixed rows, rows that do not rise") {
  CONSTEXPR row_array<1> out{ran_out(4)};
  STATIC_CHECK(fit_memory(out, fit_weighting::absolute).why() ==
               failure(errc::too_few_rows,
                       named_fact{fact::rows_that_ran, 0},
                       named_fact{fact::different_batches, 0}));
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
                   .about(fact::workers));
  STATIC_CHECK(pick_highest_throughput(mixed)->candidates == 3);
  CONSTEXPR auto formats = [] {
    row_array<3> rows = by_hand;
    rows[1].mixed_precision = false;
    return rows;
  }();
  STATIC_CHECK(fit_time(formats, fit_weighting::absolute).why() ==
               failure(errc::mixed_rows, named_fact{fact::row, 1}, named_fact{fact::workers, 4})
                   .about(fact::mixed_precision));
  CONSTEXPR auto pinned = [] {
    row_array<3> rows = by_hand;
    rows[2].pinned_memory = true;
    return rows;
  }();
  STATIC_CHECK(fit_memory(pinned, fit_weighting::relative).why() ==
               failure(errc::mixed_rows, named_fact{fact::row, 2}, named_fact{fact::workers, 4})
                   .about(fact::pinned_memory));

  CONSTEXPR failure flat = failure(errc::does_not_rise, named_fact{fact::rows_that_ran, 2});
  CONSTEXPR row_array<2> level{row(1, 0.1, 3e9), row(7, 0.1, 3e9)};
  STATIC_CHECK(fit_memory(level, fit_weighting::absolute).why() == flat);
  STATIC_CHECK(fit_time(level, fit_weighting::relative).why() == flat);
  CONSTEXPR row_array<2> falling{row(1, 2, 3e9), row(7, 1, 2e9)};
  STATIC_CHECK(fit_memory(falling, fit_weighting::relative).why() == flat);
}

TEST_CASE("bad shares and lines") {
  CONSTEXPR affine_time model{.fixed = 1_s, .per_sample = 1_s};
  STATIC_CHECK(batch_at_saturation(model, 1).why() == failure(errc::out_of_bounds,
                                                              named_fact{fact::percent, 100},
                                                              named_fact{fact::at_least, 0},
                                                              named_fact{fact::at_most, 99})
                                                          .about(fact::share));
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

TEST_CASE("a share of the saturation throughput is from 0 to 1") {
  CONSTEXPR affine_time line{.fixed = 3_ms, .per_sample = 1_ms};
  STATIC_CHECK(*batch_at_saturation(line, 0) == 1);
  STATIC_CHECK(*batch_at_saturation(line, 0.5) == 3);
  STATIC_CHECK(*batch_at_saturation(line, 0.75) == 9);
  CONSTEXPR failure below = batch_at_saturation(line, -0.5).why();
  STATIC_CHECK(below.code == errc::out_of_bounds);
  STATIC_CHECK(below[fact::percent] == -50 && below[fact::at_least] == 0);
  STATIC_CHECK(batch_at_saturation(line, 1).why()[fact::at_most] == 99);
  STATIC_CHECK(batch_at_saturation(line, 1.5).why()[fact::at_most] == 100);
  STATIC_CHECK(*batch_at_saturation({.per_sample = 1_ms}, 1) == 1);
}

#include <gpuplan/sweep.hpp>

#include <cstddef>
#include <cstdint>

#include "check.hpp"
#include "random_numbers.hpp"
#include "swept_rows.hpp"

namespace {

using namespace gpuplan;
using namespace swept_rows;

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

// ---- one change to a good row

template <class Change>
constexpr failure flaw_after(Change change) {
  row_array<3> rows = by_hand;
  change(rows[1]);
  return validate(rows).why();
}

constexpr failure not_finite(fact field) {
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

TEST_CASE("the order of rows changes no pick") { STATIC_CHECK(order_changes_no_pick(20)); }

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
               not_finite(fact::data));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.forward = seconds(infinite); }) ==
               not_finite(fact::forward));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.optimizer = seconds(-infinite); }) ==
               not_finite(fact::optimizer));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.backward = -0.0000015 * 1_s; }) ==
               failure(errc::negative, named_fact{fact::row, 1}, named_fact{fact::time_us, -2})
                   .about(fact::backward));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.communication = seconds(not_a_number); }) ==
               not_finite(fact::communication));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.data = r.forward = r.backward = 0_s; }) ==
               failure(errc::not_positive, named_fact{fact::row, 1}, named_fact{fact::time_us, 0})
                   .about(fact::step_time));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.gpu_utilisation = not_a_number; }) ==
               not_finite(fact::gpu_utilisation));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.gpu_utilisation = 93.75; }) ==
               failure(errc::out_of_bounds,
                       named_fact{fact::row, 1},
                       named_fact{fact::percent, 9375},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 100})
                   .about(fact::gpu_utilisation));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.memory = byte_count(not_a_number); }) ==
               not_finite(fact::memory));
  STATIC_CHECK(flaw_after([](sweep_row& r) { r.memory = 0_B; }) ==
               failure(errc::not_positive, named_fact{fact::row, 1}, named_fact{fact::needed_MB, 0})
                   .about(fact::memory));
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
  CONSTEXPR failure why = failure(errc::not_finite, named_fact{fact::row, 2}).about(fact::memory);
  STATIC_CHECK(pick_highest_throughput(rows).why() == why);
  STATIC_CHECK(pick_best_efficiency(rows).why() == why);
  STATIC_CHECK(pick_recommended(rows, 8_GB, {}).why() == why);
  STATIC_CHECK(fit_memory(rows, fit_weighting::absolute).why() == why);
  STATIC_CHECK(fit_time(rows, fit_weighting::relative).why() == why);
  STATIC_CHECK(diagnose(rows[2], 8_GB, {}).why().code == errc::not_finite);
}

TEST_CASE("too few rows") {
  CONSTEXPR failure no_rows = failure(errc::too_few_rows,
                                      named_fact{fact::rows_that_ran, 0},
                                      named_fact{fact::different_batches, 0});
  STATIC_CHECK(pick_highest_throughput({}).why() == no_rows);
  CONSTEXPR row_array<1> out{ran_out(4)};
  STATIC_CHECK(pick_best_efficiency(out).why() == no_rows);
  STATIC_CHECK(pick_recommended(out, 8_GB, {}).why() == no_rows);
  STATIC_CHECK(diagnose(out[0], 8_GB, {}).why() ==
               failure(errc::row_ran_out, named_fact{fact::micro_batch, 4}));
}

TEST_CASE("bad thresholds, devices") {
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
                   .about(fact::utilisation));
  STATIC_CHECK(diagnose(by_hand[0], 8_GB, {.memory_share = {-1, 1}}).why().code ==
               errc::out_of_bounds);
}

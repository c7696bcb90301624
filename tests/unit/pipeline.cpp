#include "check.hpp"

#include <gpuplan/time/overlap.hpp>
#include <gpuplan/time/pipeline.hpp>
#include <gpuplan/time/step_line.hpp>

#include <cstdint>

namespace {

using namespace gpuplan;

constexpr stage_time like{.forward = 1_s, .backward = 2_s, .weights = 1_s};
constexpr stage_line four{
    .stages = 4, .micro_batches = 8, .first = like, .middle = like, .last = like};

TEST_CASE("like stages take the published times") {
  // (m + p - 1) (f + b); Narayanan et al. 2021, section 2.2, with 2 chunks; Qi et al. 2023,
  // table 1.
  STATIC_CHECK(pipeline_time(four, pipeline_schedule::gpipe) == 33_s);
  STATIC_CHECK(pipeline_time(four, pipeline_schedule::one_f_one_b) == 33_s);
  STATIC_CHECK(pipeline_bubble(four, pipeline_schedule::one_f_one_b) == 9_s);
  CONSTEXPR stage_line chunks{.stages = 4,
                              .micro_batches = 8,
                              .virtual_pipeline = 2,
                              .first = like,
                              .middle = like,
                              .last = like};
  STATIC_CHECK(pipeline_time(chunks, pipeline_schedule::one_f_one_b) == 28.5_s);
  STATIC_CHECK(pipeline_bubble(chunks, pipeline_schedule::one_f_one_b) == 4.5_s);
  STATIC_CHECK(pipeline_bubble(four, pipeline_schedule::zero_bubble) == 3_s);
  STATIC_CHECK(pipeline_bubble(chunks, pipeline_schedule::zero_bubble) == 1.5_s);
  // Two chunks of half a stage; each stage twice.
  STATIC_CHECK(pipeline_bubble(chunks, pipeline_schedule::zero_bubble_v) == 1.5_s);
  STATIC_CHECK(pipeline_bubble(chunks, pipeline_schedule::dual_pipe_v) == 1.5_s);
  STATIC_CHECK(pipeline_bubble(four, pipeline_schedule::dual_pipe) == 1_s);
}

TEST_CASE("one stage has no bubble") {
  CONSTEXPR stage_line alone{.micro_batches = 5, .first = like};
  STATIC_CHECK(pipeline_time(alone, pipeline_schedule::gpipe) == 15_s);
  STATIC_CHECK(pipeline_time(alone, pipeline_schedule::one_f_one_b) == 15_s);
  STATIC_CHECK(pipeline_time(alone, pipeline_schedule::zero_bubble) == 15_s);
  CONSTEXPR stage_line in_chunks{.micro_batches = 5, .virtual_pipeline = 2, .first = like};
  STATIC_CHECK(pipeline_time(in_chunks, pipeline_schedule::zero_bubble) == 15_s);
}

TEST_CASE("a slow last stage sets the pace") {
  CONSTEXPR stage_line head{.stages = 4,
                            .micro_batches = 8,
                            .first = like,
                            .middle = like,
                            .last = {.forward = 2_s, .backward = 4_s}};
  // Three forwards, then the last stage without a pause, then three backwards.
  STATIC_CHECK(pipeline_time(head, pipeline_schedule::one_f_one_b) == 3_s + 48_s + 6_s);
}

TEST_CASE("exchanges beside kernels") {
  // Each bucket's exchange is longer than its backward: they follow one another after the first.
  STATIC_CHECK(overlapped_time(bucketed_backward{.buckets = 4,
                                                 .backward = 1_s,
                                                 .communication = 2_s,
                                                 .last_backward = 1_s,
                                                 .last_communication = 2_s}) == 9_s);
  // Kernels are: only the first gather and the last reduction show.
  STATIC_CHECK(overlapped_time(sharded_layers{
                   .layers = 4, .kernels = 3_s, .gather = 1_s, .reduce = 1_s}) == 14_s);
  STATIC_CHECK(overlapped_time(attention_ring{.ranks = 4, .kernel = 1_s, .send = 2_s}) == 7_s);
  // 3 of 7 seconds both run.
  STATIC_CHECK(overlapped_time(attention_ring{
                   .ranks = 4, .kernel = 1_s, .send = 2_s, .contention = 0.5}) == 8.5_s);
}

// Of binary fractions, so that sums are exact: 4 like stages of 3 s wait 9 s, of which 2 are slack.
constexpr detail::step_line by_hand(bool reads, bool is_hidden) {
  detail::step_line line;
  line.busy = {.forward = 0.25,
               .backward = 0.5,
               .recompute = 0.125,
               .tensor = 1,
               .context = 2,
               .expert = 4,
               .parameter = 8,
               .host = 16};
  line.point_to_point = 0.125;
  line.hidden_point_to_point = 3;
  line.exposed_point_to_point = 5;
  line.gradients = 32;
  line.parameters = 64;
  line.optimizer = 128;
  line.host = 256;
  const detail::stage_seconds stage{.forward = 1, .backward = 2};
  line.work = {.stages = {.stages = 4, .first = stage, .middle = stage, .last = stage},
               .busiest = 3,
               .slack = 2};
  line.loading = {.each = reads ? 100.0 : 0, .is_hidden = is_hidden};
  return line;
}

TEST_CASE("a step's parts are those of its micro-batches and those that come once") {
  CONSTEXPR step_breakdown parts = by_hand(false, true).at(8);
  STATIC_CHECK(parts.data == 0_s && parts.forward == 2_s && parts.backward == 4_s);
  STATIC_CHECK(parts.recompute == 1_s && parts.tensor_communication == 8_s);
  STATIC_CHECK(parts.context_communication == 16_s && parts.expert_communication == 32_s);
  // Of the 7 s of waiting 5 are for sends.
  STATIC_CHECK(parts.pipeline_communication == 1_s + 3_s + 5_s && parts.bubble == 2_s);
  STATIC_CHECK(parts.gradient_communication == 32_s);
  STATIC_CHECK(parts.parameter_communication == 64_s + 64_s);
  STATIC_CHECK(parts.optimizer == 128_s && parts.host == 128_s + 256_s);
  STATIC_CHECK(parts.total().value() == 8 * 32 + (3 + 32 + 64 + 128 + 256) + 7);
  // No more is for sends than there is to wait.
  CONSTEXPR step_breakdown short_of_waits = [] {
    detail::step_line line = by_hand(false, true);
    line.exposed_point_to_point = 50;
    return line.at(8);
  }();
  STATIC_CHECK(short_of_waits.bubble == 0_s);
  STATIC_CHECK(short_of_waits.total() == parts.total());
}

TEST_CASE("samples show as far as the step does not hide them") {
  constexpr double step = 8 * 32 + 483 + 7;
  STATIC_CHECK(by_hand(true, true).at(8).data.value() == 800 - step);
  STATIC_CHECK(by_hand(true, false).at(8).data == 800_s);
  // 2 are read while a step of 2 runs.
  STATIC_CHECK(by_hand(true, true).at(2).data == 0_s);
}

constexpr bool curves_are_the_parts() {
  for (const double each : {0.0, 1.0, 100.0})  // s that samples of a micro-batch take
    for (const bool is_hidden : {false, true})
      for (const double slow : {1.0, 1.5, 0.25})
        for (const std::int64_t count : {1, 2, 3, 5, 8, 40}) {
          detail::step_line line = by_hand(true, is_hidden);
          line.loading.each = each;
          line.work.stages.first = {.forward = slow, .backward = 2 * slow};
          line.work.slack = 0;
          line.work.busiest = 3 * (slow > 1 ? slow : 1);
          const double whole = line.at(count).total().value();
          detail::step_curve settled = line.curve();
          settled.settle();
          for (const double seconds :
               {line.curve()(count), line.curve_at(count)(count), settled(count)})
            if (detail::abs(seconds - whole) > 1e-12 * whole) return false;
          if (line.at_least(count) * static_cast<double>(count) > whole * (1 + 1e-12)) return false;
        }
  return true;
}

TEST_CASE("a step's curve is the sum of its parts, settled or not, and above what each takes") {
  STATIC_CHECK(curves_are_the_parts());
  STATIC_CHECK(by_hand(false, true).at_least(8) == 32 + 483.0 / 8);
  // One stage waits for none.
  STATIC_CHECK([] {
    detail::step_line line = by_hand(false, true);
    line.work.stages.stages = 1;
    return line.at(8).bubble == 0_s && line.work.waits(8) == 0;
  }());
}

TEST_CASE("two exchanges at once take as much longer as they contend") {
  // Two buckets and half a one: 1 s of backward and 3 s of exchange each, after 1 s all exchanges.
  constexpr bucketed_backward buckets{.buckets = 3,
                                      .backward = 1_s,
                                      .communication = 3_s,
                                      .last_backward = 0.5_s,
                                      .last_communication = 1.5_s};
  STATIC_CHECK(overlapped_time(buckets) == 1_s + 3_s + 3_s + 1.5_s);
  // 2.5 s of backward and 7.5 s of exchange in 8.5 s: both for 1.5 s.
  STATIC_CHECK([=] {
    bucketed_backward contended = buckets;
    contended.contention = 0.5;
    return overlapped_time(contended) == 9.25_s;
  }());
  // One: its exchange follows its backward.
  STATIC_CHECK(
      overlapped_time(bucketed_backward{.last_backward = 2_s, .last_communication = 1_s}) == 3_s);
  // Gathers of 2 s are longer than kernels of 1 s: 2 + 2 + 2 (2 + 0) + 1, both for 4 of them.
  constexpr sharded_layers gathers{.layers = 4, .kernels = 1_s, .gather = 2_s};
  STATIC_CHECK(overlapped_time(gathers) == 9_s);
  STATIC_CHECK([=] {
    sharded_layers kept = gathers;
    kept.first_is_there = true;  // three gathers, the first beside the first kernel
    const bool is_shorter = overlapped_time(kept) == 7_s;
    kept.contention = 0.5;  // 4 + 6 - 7 s of both
    return is_shorter && overlapped_time(kept) == 8.5_s;
  }());
  // One layer has nothing to hide behind.
  STATIC_CHECK(overlapped_time(sharded_layers{
                   .layers = 1, .kernels = 3_s, .gather = 1_s, .reduce = 2_s}) == 6_s);
  // Where no number is stated, one it is.
  STATIC_CHECK(overlapped_time(sharded_layers{.kernels = 3_s, .gather = 1_s, .reduce = 2_s}) ==
               6_s);
  STATIC_CHECK(detail::sharded_pass({.kernels = 3, .gather = 1, .reduce = 2}) == 6);
}

}  // namespace

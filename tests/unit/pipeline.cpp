#include "check.hpp"

#include <gpuplan/time/overlap.hpp>
#include <gpuplan/time/pipeline.hpp>

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

}  // namespace

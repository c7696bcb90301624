#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/memory/step_peaks.hpp>

#include <cstdint>

using namespace gpuplan;

// Stages of pipelines, replayed while compiling too.

namespace {

constexpr training_setup two_stages(std::int64_t stage) {
  training_setup setup;
  setup.model = {.num_hidden_layers = 4,
                 .hidden_size = 512,
                 .intermediate_size = 1536,
                 .num_attention_heads = 8,
                 .num_key_value_heads = 8,
                 .head_dim = 64,
                 .vocab_size = 8192};
  setup.sequence_length = 256;
  setup.parallelism.pipeline_parallel = 2;
  setup.place.stage = stage;
  return setup;
}

constexpr std::int64_t peak_of_torchtitan(
    std::int64_t stage = 0,
    std::int64_t chunks = 1,
    pipeline_schedule schedule = pipeline_schedule::one_f_one_b) {
  training_setup setup = two_stages(stage);
  setup.parallelism.virtual_pipeline = chunks;
  setup.parallelism.schedule = schedule;
  setup.precision.compute = number_format::bf16;
  setup.optimizer.clips_gradients = true;
  setup.framework = catalog::torchtitan;
  setup.parallelism.zero_stage = 2;
  setup.parallelism.split.first_have_more = true;
  return peaks_of(setup, {.micro_batch = 1, .data_parallel = 2, .accumulation = 2}).peak().total;
}

constexpr std::int64_t peak_of_megatron(pipeline_schedule schedule) {
  training_setup setup = two_stages(1);
  setup.precision = bf16_megatron;
  setup.framework = catalog::megatron_zero_bubble;
  setup.parallelism.schedule = schedule;
  return peaks_of(setup, {.micro_batch = 1, .accumulation = 2}).peak().total;
}

}  // namespace

TEST_CASE("a stage that fully_shard shares holds what was measured") {
  CONSTEXPR std::int64_t peak = peak_of_torchtitan();
  STATIC_CHECK(peak == 180998192);  // replay_torch_pipelines.cpp has it
}

TEST_CASE("so does one of two chunks, and one whose gradients of weights wait") {
  CONSTEXPR std::int64_t of_two = peak_of_torchtitan(0, 2);
  STATIC_CHECK(of_two == 161912856);
  CONSTEXPR std::int64_t waits = peak_of_torchtitan(1, 1, pipeline_schedule::zero_bubble);
  STATIC_CHECK(waits == 197279848);
}

TEST_CASE("the last stage of a zero-bubble pipeline holds what waits, too") {
  CONSTEXPR std::int64_t waits = peak_of_megatron(pipeline_schedule::zero_bubble);
  CONSTEXPR std::int64_t at_once = peak_of_megatron(pipeline_schedule::one_f_one_b);
  STATIC_CHECK(waits > at_once);
}

// Memory of schedules whose gradients of weights are passes of their own: what two pipelines differ
// by, beside what their orders hold more of.

#include <doctest/doctest.h>

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

// Layers of 2 to a chunk.
training_setup setup_of(pipeline_schedule schedule, std::int64_t ranks, bool by_engine) {
  training_setup setup;
  setup.model.hidden_size = 256;
  setup.model.num_attention_heads = 4;
  setup.model.intermediate_size = 640;
  setup.model.vocab_size = 1024;
  setup.model.norm = norm_kind::rms_norm;
  setup.model.gated_mlp = true;
  setup.sequence_length = 512;
  setup.precision = bf16_megatron;
  setup.framework = by_engine ? catalog::megatron_dual_pipe : catalog::megatron_zero_bubble;
  setup.framework.engine.schedules = {true, true, true, true};
  setup.parallelism.schedule = schedule;
  setup.parallelism.pipeline_parallel = ranks;
  setup.parallelism.virtual_pipeline = traits_of(schedule).folds ? 2 : 1;
  setup.model.num_hidden_layers = 2 * chunks_in_all(setup.parallelism);
  return setup;
}
std::int64_t peak_of(training_setup setup, std::int64_t stage, std::int64_t count) {
  setup.place.stage = stage;
  const batch_plan plan{.micro_batch = 2, .data_parallel = 1, .accumulation = count};
  REQUIRE(validate(transformer_memory{setup}));
  REQUIRE(validate(setup, plan));
  return peaks_of(setup, plan).peak().total;
}
// What the layers of a chunk keep of a micro-batch: of two stages without ends, the earlier one has
// one more on its way (1F1B).
std::int64_t kept_of_chunk(bool by_engine) {
  const training_setup setup = setup_of(pipeline_schedule::one_f_one_b, 6, by_engine);
  const std::int64_t kept = peak_of(setup, 2, 24) - peak_of(setup, 3, 24);
  CHECK(kept == peak_of(setup, 1, 24) - peak_of(setup, 2, 24));
  return kept;
}

// A linear layer's input and the gradient of its output, in 2 bytes each.
std::int64_t waiting_of_chunk(const training_setup& setup) {
  const transformer& model = setup.model;
  const std::int64_t width = model.hidden_size;
  const std::int64_t elements = (width + 3 * width) +                    // query, key and value
                                (width + width) +                        // output
                                (width + 2 * model.intermediate_size) +  // gate and up
                                (model.intermediate_size + width);       // down
  return 2 * 2 * setup.sequence_length * 2 * elements;                   // layers, tokens, bytes
}

}  // namespace

TEST_CASE("a rank more holds what is on its way more") {
  for (const bool by_engine : {false, true}) {
    const std::int64_t kept = kept_of_chunk(by_engine);
    const auto grows_by = [&](pipeline_schedule schedule, std::int64_t ranks) {
      const auto peak = [&](std::int64_t all) {
        return peak_of(setup_of(schedule, all, by_engine), 1, 24);
      };
      return peak(ranks + 2) - peak(ranks);
    };
    // chunks of twice as many layers' halves: two more of each chunk, and of one direction
    CHECK(grows_by(pipeline_schedule::zero_bubble_v, 4) == 4 * kept);
    CHECK(grows_by(pipeline_schedule::dual_pipe_v, 4) == 4 * kept);
    CHECK(grows_by(pipeline_schedule::dual_pipe, 4) == 2 * kept);
    CHECK(grows_by(pipeline_schedule::zero_bubble, 4) == 2 * kept);
  }
}

TEST_CASE("what waits for gradients of weights is inputs and gradients of products") {
  for (const bool by_engine : {false, true}) {
    // As many stages behind it, one more before: gradients wait for one micro-batch more.
    const auto peak = [&](std::int64_t ranks, std::int64_t stage) {
      return peak_of(setup_of(pipeline_schedule::zero_bubble, ranks, by_engine), stage, 24);
    };
    const std::int64_t waiting =
        waiting_of_chunk(setup_of(pipeline_schedule::zero_bubble, 6, by_engine));
    CHECK(peak(7, 4) - peak(6, 3) == waiting);
    CHECK(peak(8, 5) - peak(6, 3) == 2 * waiting);
  }
}

TEST_CASE("both stages of a rank are there, and the states once for each of the two ranks") {
  const training_setup once = setup_of(pipeline_schedule::one_f_one_b, 4, true);
  const training_setup twice = setup_of(pipeline_schedule::dual_pipe, 4, true);
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const auto held = [&](const training_setup& of, std::int64_t at) {
      return parameters(of.model, of.parallelism, {.stage = at}).total();
    };
    CHECK(held(twice, stage) == held(once, stage) + held(once, 3 - stage));
  }
  // folded, the first has both ends
  const training_setup folded = setup_of(pipeline_schedule::dual_pipe_v, 4, true);
  std::int64_t all = 0;
  for (std::int64_t stage = 0; stage < 4; ++stage)
    all += parameters(folded.model, folded.parallelism, {.stage = stage}).total();
  CHECK(all == parameters(folded.model).total());
  CHECK(parameters(folded.model, folded.parallelism, {}).head == 256 * 1024);
}

TEST_CASE("ranks that have the same two stages take the same") {
  for (const bool tied : {false, true})
    for (const std::int64_t ranks : {2, 4, 6}) {
      training_setup setup = setup_of(pipeline_schedule::dual_pipe, ranks, true);
      setup.model.tied_embeddings = tied;
      for (std::int64_t stage = 0; stage < ranks / 2; ++stage)
        CHECK(peak_of(setup, stage, 2 * ranks) == peak_of(setup, ranks - 1 - stage, 2 * ranks));
    }
}

TEST_CASE("a head that is tied is a table of the rank with both ends") {
  const auto at_first = [](bool tied) {
    training_setup setup = setup_of(pipeline_schedule::dual_pipe_v, 4, true);
    setup.model.tied_embeddings = tied;
    return peak_of(setup, 0, 24);
  };
  // weights in bf16, gradients in fp32, masters and moments
  CHECK(at_first(false) - at_first(true) == 18 * 256 * 1024);
}

TEST_CASE("no layout is below the floor that a planner takes for it") {
  for (const auto schedule : {pipeline_schedule::zero_bubble,
                              pipeline_schedule::zero_bubble_v,
                              pipeline_schedule::dual_pipe,
                              pipeline_schedule::dual_pipe_v})
    for (const bool by_engine : {false, true})
      for (const std::int64_t ranks : {2, 4, 6})
        for (const int zero : {0, 1})
          for (const auto again : {recompute_mode::none, recompute_mode::full}) {
            training_setup setup = setup_of(schedule, ranks, by_engine);
            setup.parallelism.zero_stage = zero;
            setup.recompute = again;
            const batch_plan plan{.micro_batch = 2, .data_parallel = 2, .accumulation = 2 * ranks};
            const transformer_memory_of memory;
            REQUIRE(validate(setup, plan));
            CHECK(memory.at_least(setup, plan) <= memory(setup).required(plan));
          }
}

// Of p ranks: p micro-batches of a stage (ZB1P), 2 p of a half of one (ZB-V), p + 1 of a stage and
// 2 p + 1 of a half (DeepSeek-AI 2024, table 2). A layer keeps of a token inputs and results of two
// norms, query, key, value and result, gate, up and their product. The last chunk has logits.
TEST_CASE("at least as many are on their way as is published") {
  struct row {
    pipeline_schedule schedule{};
    std::int64_t of_ranks = 1;
    std::int64_t more = 0;
  };
  const double layer = 2.0 * (4 * 256 + 4 * 256 + 3 * 640);
  const double logits = 2.0 * 1024;
  const transformer_memory_of memory{.fragmentation = 0};
  for (const row& one : {row{pipeline_schedule::zero_bubble, 1, 0},
                         row{pipeline_schedule::zero_bubble_v, 2, 0},
                         row{pipeline_schedule::dual_pipe, 1, 1},
                         row{pipeline_schedule::dual_pipe_v, 2, 1}})
    for (const bool by_engine : {false, true})
      for (const std::int64_t ranks : {2, 4, 6}) {
        const training_setup setup = setup_of(one.schedule, ranks, by_engine);
        const auto floor = [&](std::int64_t samples) {
          const batch_plan plan{
              .micro_batch = samples, .data_parallel = 2, .accumulation = 2 * ranks};
          return memory.at_least(setup, plan).value();
        };
        const auto ways = static_cast<double>(one.of_ranks * ranks + one.more);
        const bool has_head = one.schedule != pipeline_schedule::zero_bubble;
        CHECK(floor(65) - floor(64) ==
              doctest::Approx(512 * (2 * layer * ways + (has_head ? logits : 0))));
      }
}

TEST_CASE("nor where stages differ in their layers, or in their kinds") {
  int tried = 0;
  for (const std::int64_t ranks : {2, 4})
    for (const std::int64_t layers : {2 * ranks - 1, 2 * ranks + 3, 4 * ranks - 1})
      for (const std::int64_t plain : {0, 1, 3})
        for (const bool is_at_head : {false, true})
          for (const auto again : {recompute_mode::none, recompute_mode::full}) {
            training_setup setup = setup_of(pipeline_schedule::dual_pipe, ranks, true);
            setup.parallelism.zero_stage = 1;
            setup.recompute = again;
            setup.model.num_hidden_layers = layers;
            setup.parallelism.split = {.embedding_layers = is_at_head ? 0 : 1,
                                       .head_layers = is_at_head ? 1 : 0};
            if (plain != 0)
              setup.model.moe = {.num_experts = 4,
                                 .num_experts_per_tok = 2,
                                 .moe_intermediate_size = 256,
                                 .first_k_dense_layers = plain};
            for (const std::int64_t micro_batch : {1, 32}) {
              const batch_plan plan{
                  .micro_batch = micro_batch, .data_parallel = 2, .accumulation = 2 * ranks};
              if (!validate(setup, plan)) continue;
              ++tried;
              const transformer_memory_of memory;
              CHECK(memory.at_least(setup, plan) <= memory(setup).required(plan));
            }
          }
  CHECK(tried > 60);
}

// Ranks of pipelines whose stages fully_shard shares, as torchtitan has them, replayed, beside what
// PyTorch 2.15 reported of the same steps: its Schedule1F1B and ScheduleGPipe, stages and
// fully_shard ran on a device without kernels, one rank alone among ranks that answer nothing.

#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>
#include <string_view>

using namespace gpuplan;

namespace {

struct measured_rank {
  std::int64_t layers = 4;
  std::int64_t width = 512;
  std::int64_t heads = 8;
  std::int64_t groups = 8;
  std::int64_t ffn = 1536;
  std::int64_t vocabulary = 8192;
  std::int64_t tokens = 256;
  std::int64_t micro_batch = 1;
  std::int64_t micro_batches = 4;
  std::int64_t stages = 2;
  std::int64_t stage = 0;
  std::int64_t replicas = 2;
  std::int64_t shards = 0;  // of hybrid shards; 0: all replicas share
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  recompute_mode recompute = recompute_mode::none;
  std::int64_t embedding_layers = 0;
  std::int64_t head_layers = 0;
  number_format reduced = number_format::fp32;
  bool clips = true;
  optimizer_loop loop = optimizer_loop::foreach;
  memory_counts peak{};

  [[nodiscard]] batch_plan plan() const { return {micro_batch, replicas, micro_batches}; }
};

// The bytes that were asked for, and those of whole blocks.
constexpr measured_rank ranks[] = {
    {.micro_batches = 2, .stages = 2, .peak = {180998192, 182048768}},
    {.micro_batches = 8, .stages = 2, .stage = 1, .peak = {198855764, 200959488}},
    {.layers = 8, .stages = 4, .peak = {206213264, 207267840}},
    {.layers = 8, .micro_batches = 12, .stages = 4, .replicas = 4, .peak = {185813184, 185821184}},
    {.layers = 8,
     .micro_batches = 12,
     .stages = 4,
     .stage = 2,
     .replicas = 4,
     .peak = {123644000, 124172288}},
    {.layers = 8,
     .micro_batches = 12,
     .stages = 4,
     .stage = 3,
     .replicas = 4,
     .peak = {166882916, 166891520}},
    {.layers = 8,
     .micro_batches = 8,
     .stages = 4,
     .replicas = 4,
     .schedule = pipeline_schedule::gpipe,
     .peak = {223607120, 223621120}},
    {.layers = 8,
     .micro_batches = 8,
     .stages = 4,
     .stage = 3,
     .replicas = 4,
     .schedule = pipeline_schedule::gpipe,
     .peak = {324281232, 325351936}},
    {.layers = 8,
     .micro_batches = 8,
     .stages = 4,
     .stage = 2,
     .replicas = 8,
     .schedule = pipeline_schedule::gpipe,
     .peak = {177466704, 178008064}},
    {.layers = 8, .stages = 2, .recompute = recompute_mode::full, .peak = {258615320, 259140608}},
    {.layers = 8,
     .stages = 2,
     .stage = 1,
     .recompute = recompute_mode::full,
     .peak = {267787284, 269362688}},
    {.layers = 16,
     .micro_batches = 8,
     .stages = 4,
     .stage = 1,
     .recompute = recompute_mode::full,
     .peak = {209610776, 211184640}},
    {.layers = 6,
     .micro_batches = 6,
     .stages = 2,
     .stage = 1,
     .schedule = pipeline_schedule::gpipe,
     .recompute = recompute_mode::full,
     .peak = {284825648, 288501760}},
    {.stages = 2, .reduced = number_format::bf16, .peak = {171585632, 172638208}},
    {.stages = 2, .stage = 1, .reduced = number_format::bf16, .peak = {175765572, 176818688}},
    {.layers = 8,
     .micro_batches = 6,
     .stages = 3,
     .embedding_layers = 1,
     .head_layers = 1,
     .peak = {266033368, 267615232}},
    {.layers = 8,
     .micro_batches = 6,
     .stages = 3,
     .stage = 1,
     .embedding_layers = 1,
     .head_layers = 1,
     .peak = {197582992, 199161856}},
    {.layers = 8,
     .micro_batches = 6,
     .stages = 3,
     .stage = 2,
     .embedding_layers = 1,
     .head_layers = 1,
     .peak = {198323276, 200425984}},
    {.layers = 7, .micro_batches = 5, .stages = 4, .peak = {218820800, 219877376}},
    {.layers = 7, .micro_batches = 5, .stages = 4, .stage = 3, .peak = {150848560, 151901184}},
    {.stages = 2, .replicas = 1, .peak = {259682400, 262307840}},
    {.stages = 2, .stage = 1, .replicas = 1, .peak = {263866436, 265968128}},
    {.layers = 6,
     .width = 1024,
     .groups = 2,
     .ffn = 3584,
     .vocabulary = 32000,
     .tokens = 1024,
     .micro_batch = 2,
     .stages = 2,
     .peak = {1599250576, 1605548032}},
    {.layers = 6,
     .width = 1024,
     .groups = 2,
     .ffn = 3584,
     .vocabulary = 32000,
     .tokens = 1024,
     .micro_batch = 2,
     .stages = 2,
     .stage = 1,
     .peak = {2167353436, 2172601856}},
    {.layers = 32,
     .width = 4096,
     .heads = 32,
     .ffn = 14336,
     .vocabulary = 128256,
     .tokens = 4096,
     .micro_batches = 16,
     .stages = 8,
     .replicas = 8,
     .peak = {38723633920, 38723665920}},
    {.layers = 32,
     .width = 4096,
     .heads = 32,
     .ffn = 14336,
     .vocabulary = 128256,
     .tokens = 4096,
     .micro_batches = 16,
     .stages = 8,
     .stage = 3,
     .replicas = 8,
     .recompute = recompute_mode::full,
     .peak = {8426111000, 8426112000}},
    {.layers = 32,
     .width = 4096,
     .heads = 32,
     .ffn = 14336,
     .vocabulary = 128256,
     .tokens = 4096,
     .micro_batches = 16,
     .stages = 8,
     .stage = 7,
     .replicas = 8,
     .peak = {22037821604, 22037834240}},
    {.stages = 2, .replicas = 4, .clips = false, .peak = {160573536, 160577536}},
    {.stages = 2,
     .stage = 1,
     .replicas = 4,
     .loop = optimizer_loop::fused,
     .peak = {164753044, 164767744}},
    {.layers = 12,
     .tokens = 128,
     .micro_batch = 4,
     .stages = 4,
     .stage = 1,
     .replicas = 16,
     .peak = {221848024, 223436800}},
    {.layers = 16,
     .tokens = 512,
     .micro_batch = 2,
     .micro_batches = 24,
     .stages = 8,
     .stage = 5,
     .head_layers = 2,
     .peak = {277094544, 279721984}},
    {.layers = 16,
     .tokens = 512,
     .micro_batch = 2,
     .micro_batches = 24,
     .stages = 8,
     .stage = 7,
     .recompute = recompute_mode::full,
     .head_layers = 1,
     .peak = {239622244, 241732096}},
    {.layers = 10,
     .width = 256,
     .heads = 4,
     .groups = 4,
     .ffn = 768,
     .vocabulary = 1024,
     .tokens = 2048,
     .micro_batches = 3,
     .stages = 2,
     .peak = {345209072, 347316224}},
    {.layers = 10,
     .width = 256,
     .heads = 4,
     .groups = 4,
     .ffn = 768,
     .vocabulary = 65536,
     .tokens = 64,
     .micro_batches = 6,
     .stages = 2,
     .stage = 1,
     .peak = {340720532, 340731904}},
    {.replicas = 4, .shards = 2, .peak = {193609824, 194662400}},
    {.stage = 1, .replicas = 4, .shards = 2, .peak = {197790788, 199892480}},
    {.layers = 8,
     .micro_batches = 6,
     .stages = 4,
     .stage = 1,
     .replicas = 8,
     .shards = 4,
     .recompute = recompute_mode::full,
     .peak = {105762840, 106288128}},
    {.layers = 6,
     .stage = 1,
     .replicas = 8,
     .shards = 4,
     .schedule = pipeline_schedule::gpipe,
     .peak = {267857656, 267870720}},
    {.stages = 2, .embedding_layers = 4, .peak = {59097152, 59097600}},  // without layers
    {.stages = 2, .stage = 1, .head_layers = 4, .peak = {103373844, 103376384}},
};

training_setup setup_of(const measured_rank& rank) {
  training_setup setup;
  setup.model = {.num_hidden_layers = rank.layers,
                 .hidden_size = rank.width,
                 .intermediate_size = rank.ffn,
                 .num_attention_heads = rank.heads,
                 .num_key_value_heads = rank.groups,
                 .head_dim = rank.width / rank.heads,
                 .vocab_size = rank.vocabulary};
  setup.sequence_length = rank.tokens;
  setup.precision.compute = number_format::bf16;
  setup.precision.reduced = rank.reduced;
  setup.optimizer.clips_gradients = rank.clips;
  setup.optimizer.loop = rank.loop;
  setup.recompute = rank.recompute;
  setup.framework = catalog::torchtitan;
  setup.parallelism.pipeline_parallel = rank.stages;
  setup.parallelism.zero_stage = 2;
  setup.parallelism.shard_group = rank.shards;
  setup.parallelism.schedule = rank.schedule;
  setup.parallelism.split = {.embedding_layers = rank.embedding_layers,
                             .head_layers = rank.head_layers,
                             .first_have_more = true};
  setup.place.stage = rank.stage;
  return setup;
}

bool is_refused(const training_setup& setup, const batch_plan& plan, const char* says) {
  const auto valid = validate(setup, plan);
  return !valid &&
         std::string_view(failure_text(valid.why()).c_str()).find(says) != std::string_view::npos;
}

}  // namespace

TEST_CASE("ranks of pipelines of sharded stages, replayed beside measured ones") {
  int exact = 0;
  for (const measured_rank& rank : ranks) {
    CAPTURE(rank.stages);
    CAPTURE(rank.stage);
    CAPTURE(rank.layers);
    CAPTURE(rank.micro_batches);
    const auto replayed = replay(setup_of(rank), rank.plan());
    REQUIRE(replayed);
    CHECK(replayed->peak.requested == rank.peak.requested);
    CHECK(peaks_of(setup_of(rank), rank.plan()).peak().total == rank.peak.requested);
    exact += replayed->peak.allocated == rank.peak.allocated ? 1 : 0;
    CHECK(static_cast<double>(replayed->peak.allocated) ==
          doctest::Approx(static_cast<double>(rank.peak.allocated)).epsilon(0.003));
  }
  CHECK(exact == 38);  // of 40
}

TEST_CASE("no stage holds less than planners take for certain") {
  for (const measured_rank& rank : ranks) {
    const training_setup setup = setup_of(rank);
    const transformer_memory_of memory{.fragmentation = 0};
    CHECK(memory.at_least(setup, rank.plan()) <= memory(setup).required(rank.plan()));
  }
}

TEST_CASE("what PyTorch's pipelines of sharded stages have not is refused") {
  const measured_rank& rank = ranks[0];
  const training_setup setup = setup_of(rank);
  CHECK(validate(setup, rank.plan()));
  CHECK(is_refused(setup, {1, 2, 1}, "at least 2 is"));  // fewer micro-batches than stages
  training_setup other = setup;
  other.parallelism.zero_stage = 3;
  CHECK(is_refused(other, rank.plan(), "zero_stage 3"));
  other = setup;
  other.parallelism.virtual_pipeline = 2;
  CHECK(is_refused(other, rank.plan(), "virtual_pipeline 2"));
  other = setup;
  other.parallelism.schedule = pipeline_schedule::zero_bubble;
  CHECK(is_refused(other, rank.plan(), "zero_bubble"));
  other = setup;
  other.framework.implementation.compiles_layers = true;
  CHECK(is_refused(other, rank.plan(), "compiles_layers"));
  other = setup;
  other.framework.engine.is = &engine_classes::ddp;
  other.parallelism.zero_stage = 0;
  CHECK(is_refused(other, rank.plan(), "pipeline_parallel 2"));
  other = setup;
  other.parallelism.split = {};
  other.parallelism.pipeline_parallel = 6;  // one of no layers before that of the head
  CHECK(is_refused(other, {1, 2, 6}, "stage 4"));
  CHECK(!counts_of(setup, rank.plan()));
}

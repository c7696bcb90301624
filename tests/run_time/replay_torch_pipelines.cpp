// Ranks of pipelines whose stages fully_shard shares, as torchtitan has them, replayed, beside what
// PyTorch 2.15 reported of the same steps: its schedules, stages and fully_shard ran on a device
// without kernels, one rank alone among ranks that answer nothing.

#include "check.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/sharding/torch_actions.hpp>

#include <cstdint>
#include <string>
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
  std::int64_t chunks = 1;
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

// Of several chunks, or whose gradients of weights wait: random ones, then larger ones, ones whose
// optimizer's step has the peak, and ones of many micro-batches; last, random ones of ZB-H1 in
// chunks.
using schedule = pipeline_schedule;
constexpr measured_rank ranks_of_chunks[] = {
#include "replay_torch_chunks.inc"
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
  setup.parallelism.virtual_pipeline = rank.chunks;
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

TEST_CASE("ranks of several chunks, and whose gradients of weights wait, beside measured ones") {
  int exact = 0;
  for (const measured_rank& rank : ranks_of_chunks) {
    CAPTURE(rank.schedule);
    CAPTURE(rank.stages);
    CAPTURE(rank.chunks);
    CAPTURE(rank.stage);
    CAPTURE(rank.micro_batches);
    const auto replayed = replay(setup_of(rank), rank.plan());
    REQUIRE(replayed);
    CHECK(replayed->peak.requested == rank.peak.requested);
    CHECK(peaks_of(setup_of(rank), rank.plan()).peak().total == rank.peak.requested);
    exact += replayed->peak.allocated == rank.peak.allocated ? 1 : 0;
    CHECK(static_cast<double>(replayed->peak.allocated) ==
          doctest::Approx(static_cast<double>(rank.peak.allocated)).epsilon(0.006));
  }
  CHECK(exact == 84);  // of 98
}

TEST_CASE("steps of many micro-batches are those of few and a straight line") {
  measured_rank rank{.layers = 8, .width = 64, .heads = 4, .groups = 4, .ffn = 160, .tokens = 32};
  rank.vocabulary = 256;
  struct chunked {
    schedule by;
    std::int64_t chunks;
  };
  for (const auto& [by, chunks] : {chunked{schedule::one_f_one_b, 2},
                                   chunked{schedule::zero_bubble, 1},
                                   chunked{schedule::zero_bubble, 2},
                                   chunked{schedule::zero_bubble_v, 2},
                                   chunked{schedule::dual_pipe_v, 2}}) {
    rank.schedule = by;
    rank.chunks = chunks;
    for (const std::int64_t count : {20, 36})
      for (const std::int64_t stage : {0, 1, 3}) {
        rank.stages = 4;
        rank.stage = stage;
        rank.micro_batches = count;
        const auto replayed = replay(setup_of(rank), rank.plan());
        REQUIRE(replayed);
        CHECK(peaks_of(setup_of(rank), rank.plan()).peak().total == replayed->peak.requested);
      }
  }
}

// What PyTorch 2.15 lowers these schedules to (pipeline_order_with_comms), without what is sent.
TEST_CASE("the actions of a rank are PyTorch's") {
  const auto actions_of = [](schedule by, std::int64_t stages, std::int64_t chunks) {
    parallelism layout;
    layout.schedule = by;
    layout.pipeline_parallel = stages;
    layout.virtual_pipeline = chunks;
    const eager::stage_actions actions(layout, stages - 1, by == schedule::zero_bubble ? 2 : 4);
    std::string text;
    for (int at = 0; at < actions.size(); ++at) {
      const eager::stage_pass& pass = actions[at].pass;
      const auto place = place_of_chunk(layout, stages - 1, pass.chunk);
      const bool forwards = pass.what == eager::pass_kind::forward;
      text += (at == 0 ? "" : " ") + std::to_string(place);
      switch (actions[at].what) {
        case eager::stage_action_kind::gather:
          text += "UNSHARD";
          continue;
        case eager::stage_action_kind::free:
          text += "RESHARD";
          continue;
        case eager::stage_action_kind::reduce:
          text += "REDUCE_GRAD";
          continue;
        case eager::stage_action_kind::wait:
          text += "WAIT_REDUCE_GRAD";
          continue;
        case eager::stage_action_kind::receive:
          text += forwards ? "RECV_F" : "RECV_B";
          break;
        case eager::stage_action_kind::pass:
          text += forwards                                  ? "F"
                  : pass.what == eager::pass_kind::backward ? "B"
                  : pass.what == eager::pass_kind::of_input ? "I"
                                                            : "W";
          break;
      }
      text += std::to_string(pass.micro_batch);
    }
    return text;
  };
  CHECK(actions_of(schedule::one_f_one_b, 2, 2) ==
        "1UNSHARD 3UNSHARD 1RECV_F0 1F0 1RECV_F1 1F1 3RECV_F0 3F0 3RECV_F1 3B0 1RECV_F2 3F1 "
        "1RECV_B0 3B1 1RECV_F3 1F2 1RECV_B1 1B0 3RECV_F2 1F3 1B1 3RECV_F3 3F2 3B2 1RECV_B2 3F3 "
        "3B3 1RECV_B3 3REDUCE_GRAD 3WAIT_REDUCE_GRAD 3RESHARD 1B2 1B3 1REDUCE_GRAD "
        "1WAIT_REDUCE_GRAD 1RESHARD");
  CHECK(actions_of(schedule::one_f_one_b, 1, 4) ==
        "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 1RESHARD 0UNSHARD 2F0 3F0 3B0 "
        "3RESHARD 1UNSHARD 0F1 2B0 1F1 1B0 1RESHARD 3UNSHARD 2F1 0B0 3F1 3B1 3RESHARD 1UNSHARD "
        "0F2 2B1 1F2 1B1 1RESHARD 3UNSHARD 2F2 0B1 3F2 3B2 3RESHARD 1UNSHARD 0F3 2B2 1F3 1B2 "
        "1RESHARD 3UNSHARD 2F3 0B2 0RESHARD 1UNSHARD 3F3 3B3 3REDUCE_GRAD 3WAIT_REDUCE_GRAD "
        "3RESHARD 0UNSHARD 2B3 2REDUCE_GRAD 2WAIT_REDUCE_GRAD 2RESHARD 1B3 1REDUCE_GRAD "
        "1WAIT_REDUCE_GRAD 1RESHARD 0B3 0REDUCE_GRAD 0WAIT_REDUCE_GRAD 0RESHARD");
  CHECK(actions_of(schedule::zero_bubble, 2, 1) ==
        "1UNSHARD 1RECV_F0 1F0 1RECV_F1 1I0 1F1 1I1 1W0 1W1 1REDUCE_GRAD 1WAIT_REDUCE_GRAD "
        "1RESHARD");
  CHECK(actions_of(schedule::zero_bubble, 2, 2) ==
        "1UNSHARD 3UNSHARD 1RECV_F0 1F0 1RECV_F1 1F1 3RECV_F0 3F0 3RECV_F1 3I0 1RECV_B0 3F1 3I1 "
        "1RECV_B1 3W0 1I0 3W1 3REDUCE_GRAD 3WAIT_REDUCE_GRAD 3RESHARD 1I1 1W0 1W1 1REDUCE_GRAD "
        "1WAIT_REDUCE_GRAD 1RESHARD");
  CHECK(actions_of(schedule::dual_pipe_v, 2, 2) ==
        "1UNSHARD 2UNSHARD 1RECV_F0 1F0 1RECV_F1 2F0 1RECV_F2 1F1 2F1 2RECV_B0 1F2 2B0 2F2 1B0 "
        "1RECV_F3 2RECV_B1 1F3 2B1 2F3 1B1 2RECV_B2 2B2 1B2 2RECV_B3 2I3 1I3 2W3 2REDUCE_GRAD "
        "2WAIT_REDUCE_GRAD 2RESHARD 1W3 1REDUCE_GRAD 1WAIT_REDUCE_GRAD 1RESHARD");
}

TEST_CASE("planners take several chunks where one is not taken") {
  const auto best = [](schedule by, range<std::int64_t> chunks) {
    measured_rank rank{.layers = 8, .stages = 2};
    rank.schedule = by;
    rank.chunks = by == schedule::zero_bubble_v ? 2 : 1;
    plan_request asked;
    asked.setup = setup_of(rank);
    asked.on = {.gpu = catalog::a100_sxm4_80gb, .gpus_per_node = 8, .between_nodes = 200_GBps};
    asked.efficiency = catalog::ampere;
    asked.effective_batch = 32;
    asked.space = {.pipeline_parallel = range<std::int64_t>{2}, .virtual_pipeline = chunks};
    const auto found = plan_training(asked, transformer_memory_of{});
    REQUIRE(found);
    const training_plan& plan = found->best();
    CHECK(plan.required ==
          transformer_memory_of{}(plan.applied_to(asked.setup)).required(plan.batch));
    return plan.layout.virtual_pipeline;
  };
  CHECK(best(schedule::one_f_one_b, {1, 8}) == 1);
  CHECK(best(schedule::one_f_one_b, {2, 3}) >= 2);
  CHECK(best(schedule::zero_bubble, {1, 8}) == 1);
  CHECK(best(schedule::zero_bubble, {2, 3}) >= 2);
  CHECK(best(schedule::zero_bubble_v, {1, 8}) == 2);
}

TEST_CASE("no stage holds less than planners take for certain") {
  const auto look_at = [](const measured_rank& rank) {
    const training_setup setup = setup_of(rank);
    const transformer_memory_of memory{.fragmentation = 0};
    CHECK(memory.at_least(setup, rank.plan()) <= memory(setup).required(rank.plan()));
  };
  for (const measured_rank& rank : ranks) look_at(rank);
  for (const measured_rank& rank : ranks_of_chunks) look_at(rank);
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
  CHECK(validate(other, rank.plan()));
  CHECK(is_refused(other, {1, 2, 3}, "accumulation 3"));
  other.parallelism.pipeline_parallel = 3;  // layers are not enough for all chunks
  CHECK(is_refused(other, {1, 2, 3}, "num_hidden_layers 4"));
  other = setup;
  other.parallelism.schedule = pipeline_schedule::zero_bubble;
  CHECK(validate(other, rank.plan()));
  CHECK(is_refused(other, {1, 2, 3}, "2 or 4"));
  other.parallelism.virtual_pipeline = 2;
  CHECK(validate(other, rank.plan()));
  CHECK(is_refused(other, {1, 2, 3}, "2 or 4"));
  other.recompute = recompute_mode::full;
  CHECK(is_refused(other, rank.plan(), "recompute full"));
  other = setup;
  other.parallelism.schedule = pipeline_schedule::dual_pipe;
  CHECK(is_refused(other, rank.plan(), "dual_pipe"));
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

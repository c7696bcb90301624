// Steps of torchtitan 0.3 replayed, beside what PyTorch reported of the same steps.

#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

enum class again { nothing, layers, cheap_results };  // that is computed again
enum class whole { nothing, head, all };              // that stays gathered behind its forward
constexpr qk_norm_scope llama = qk_norm_scope::none;
constexpr qk_norm_scope qwen3 = qk_norm_scope::head;

struct measured_step {
  qk_norm_scope norms;
  std::int64_t layers, hidden, heads, groups, head_dim, ffn, vocab, tokens;
  std::int64_t micro_batch, accumulation, ranks, replicas, chunks;
  again recomputes;
  whole stays;
  bool is_tied;
  memory_counts peak;
};
constexpr measured_step steps[] = {
#include "torchtitan_2026_steps.inc"
};

training_setup setup_of(const measured_step& step) {
  training_setup setup;
  setup.model = {.num_hidden_layers = step.layers,
                 .hidden_size = step.hidden,
                 .intermediate_size = step.ffn,
                 .num_attention_heads = step.heads,
                 .num_key_value_heads = step.groups,
                 .head_dim = step.head_dim,
                 .vocab_size = step.vocab};
  setup.model.tied_embeddings = step.is_tied;
  setup.model.qk_norm = step.norms;
  setup.sequence_length = step.tokens;
  setup.precision.compute = number_format::bf16;
  setup.optimizer.loop = optimizer_loop::fused;
  setup.optimizer.clips_gradients = true;
  setup.parallelism.zero_stage = step.stays == whole::all ? 2 : 3;
  if (step.replicas > 1) setup.parallelism.shard_group = step.ranks / step.replicas;
  if (step.recomputes != again::nothing) setup.recompute = recompute_mode::full;
  setup.saves_costly_results = step.recomputes == again::cheap_results;
  setup.framework = catalog::torchtitan_2026;
  setup.framework.engine.keeps_last_layer = step.stays != whole::nothing;
  setup.framework.implementation.loss_chunks = step.chunks;
  return setup;
}

batch_plan plan_of(const measured_step& step) {
  return {.micro_batch = step.micro_batch,
          .data_parallel = step.ranks,
          .accumulation = step.accumulation};
}

}  // namespace

TEST_CASE("steps of torchtitan 0.3 take what they were measured to take") {
  int reserved = 0;
  int count = 0;
  for (const measured_step& step : steps) {
    CAPTURE(count);
    const training_setup setup = setup_of(step);
    REQUIRE(validate(setup, plan_of(step)));
    const memory_counts got = replay(setup, plan_of(step), 4)->peak;
    CHECK(got.requested == step.peak.requested);
    CHECK(got.allocated == step.peak.allocated);
    reserved += got.reserved == step.peak.reserved ? 1 : 0;
    ++count;
  }
  CHECK(100 * reserved >= 90 * count);
}

TEST_CASE("a few layers tell what all of torchtitan 0.3's take") {
  for (const qk_norm_scope norms : {llama, qwen3})
    for (const again recomputes : {again::nothing, again::layers, again::cheap_results})
      for (const std::int64_t chunks : {0, 4}) {
        const measured_step step{.norms = norms,
                                 .layers = 11,
                                 .hidden = 256,
                                 .heads = 4,
                                 .groups = 2,
                                 .head_dim = 64,
                                 .ffn = 512,
                                 .vocab = 2000,
                                 .tokens = 256,
                                 .micro_batch = 2,
                                 .accumulation = 2,
                                 .ranks = 4,
                                 .replicas = 1,
                                 .chunks = chunks,
                                 .recomputes = recomputes,
                                 .stays = whole::head,
                                 .is_tied = norms == qwen3,
                                 .peak = {}};
        const training_setup setup = setup_of(step);
        CHECK(peaks_of(setup, plan_of(step)).peak().total ==
              replay(setup, plan_of(step))->peak.requested);
      }
}

TEST_CASE("a loss in chunks keeps logits of one") {
  training_setup setup;
  setup.model = catalog::qwen3_1_7b;
  setup.sequence_length = 4096;
  setup.precision.compute = number_format::bf16;
  setup.parallelism.zero_stage = 3;
  setup.framework = catalog::torchtitan_2026;
  const batch_plan plan{.micro_batch = 2, .data_parallel = 8};
  const std::int64_t chunked = peaks_of(setup, plan).peak().total;
  setup.framework.implementation.loss_chunks = 0;
  const std::int64_t at_once = peaks_of(setup, plan).peak().total;
  CHECK(4 * at_once > 5 * chunked);
}

TEST_CASE("what torchtitan 0.3 has and the replay has not is refused by name") {
  training_setup setup;
  setup.model = catalog::llama_3_8b;
  setup.sequence_length = 8192;
  setup.precision.compute = number_format::bf16;
  setup.parallelism.zero_stage = 3;
  setup.framework = catalog::torchtitan_2026;
  CHECK(validate(setup));
  const auto refused = [&](fact field, const auto& change) {
    training_setup changed = setup;
    change(changed);
    const auto valid = validate(changed);
    return !valid && valid.why().facts[0].name == field;
  };
  CHECK(refused(fact::loss_chunks,
                [](training_setup& of) { of.framework.implementation.loss_chunks = 3; }));
  CHECK(refused(fact::loss_chunks,
                [](training_setup& of) { of.framework.implementation.loss_chunks = -1; }));
  CHECK(refused(fact::loss_chunks, [](training_setup& of) {
    of.framework.implementation.layers = &layer_classes::torchtitan;
  }));
  CHECK(refused(fact::compiles_layers,
                [](training_setup& of) { of.framework.implementation.compiles_layers = true; }));
  CHECK(refused(fact::num_experts,
                [](training_setup& of) { of.model = catalog::mixtral_8x7b_v0_1; }));
  CHECK(refused(fact::tensor_parallel,
                [](training_setup& of) { of.parallelism.tensor_parallel = 2; }));
  CHECK(refused(fact::pipeline_parallel,
                [](training_setup& of) { of.parallelism.pipeline_parallel = 2; }));
  CHECK(refused(fact::recompute_period, [](training_setup& of) {
    of.recompute = recompute_mode::full;
    of.recompute_period = 2;
  }));
  setup.framework.implementation.loss_chunks = 0;
  CHECK(validate(setup));
}

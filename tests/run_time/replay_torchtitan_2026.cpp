// Steps of torchtitan 0.3 replayed, beside what PyTorch reported of the same steps.

#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

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

// Experts, and latent attention where its widths are set.
struct measured_mixture {
  measured_step step;
  std::int64_t experts, chosen, width, shared, dense, groups, chosen_groups;
  bool is_of_sigmoid;
  latent_attention latent;
};
constexpr latent_attention latent_widths{.q_lora_rank = 96,
                                         .kv_lora_rank = 64,
                                         .qk_nope_head_dim = 32,
                                         .qk_rope_head_dim = 16,
                                         .v_head_dim = 32};
constexpr measured_mixture mixtures[] = {
#include "torchtitan_2026_mixtures.inc"
};

// Attention with sinks by FlashAttention-2, and experts with biases, on a device with the numbers
// of an A100.
struct measured_sinks {
  measured_step step;
  std::int64_t experts, chosen;
};
constexpr measured_sinks with_sinks[] = {
#include "torchtitan_2026_gpt_oss.inc"
};
// On several tensor-parallel ranks, or context-parallel ones.
struct divided_step {
  measured_step step;
  std::int64_t tensor_ranks, context_ranks, bytes;
};
constexpr divided_step divided[] = {
#include "torchtitan_2026_tensors.inc"
};
// On one stage of a pipeline.
using schedule = pipeline_schedule;
struct staged_step {
  measured_step step;
  std::int64_t experts, chosen, width;
  std::int64_t tensor_ranks, stages, chunks, stage;
  pipeline_schedule by;
  std::int64_t bytes;
  std::int64_t expert_ranks = 1;
};
constexpr staged_step staged[] = {
#include "torchtitan_2026_pipelines.inc"
};
// On one of the ranks that share the experts, which tokens choose evenly, the sequences or tensors.
struct sharing_step {
  measured_mixture mixture;
  std::int64_t expert_ranks, context_ranks, tensor_ranks;
};
constexpr sharing_step sharing[] = {
#include "torchtitan_2026_shared_experts.inc"
};
struct sharing_sinks {
  measured_sinks sinks;
  std::int64_t expert_ranks, context_ranks, tensor_ranks;
};
constexpr sharing_sinks sharing_with_sinks[] = {
#include "torchtitan_2026_shared_sinks.inc"
};
// The passes as one CUDA graph: what is there while it runs, with the most that its pool has at
// once.
struct captured_step {
  measured_step step;
  std::int64_t experts, chosen, width;
  optimizer_loop loop;
  std::int64_t bytes;
};
constexpr captured_step graphs[] = {
#include "torchtitan_2026_graphs.inc"
};
constexpr eager::device_traits ampere{.multiprocessors = 108, .matrix_workspace = 8'519'680};

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

training_setup setup_of(const measured_mixture& mixture) {
  training_setup setup = setup_of(mixture.step);
  setup.model.moe = {.num_experts = mixture.experts,
                     .num_experts_per_tok = mixture.chosen,
                     .moe_intermediate_size = mixture.width,
                     .shared_expert_intermediate_size = mixture.shared * mixture.width,
                     .norm_topk_prob = mixture.is_of_sigmoid,
                     .n_group = mixture.groups,
                     .topk_group = mixture.chosen_groups,
                     .first_k_dense_layers = mixture.dense};
  setup.model.mla = mixture.latent;
  return setup;
}

training_setup setup_of(const measured_sinks& measured) {
  training_setup setup = setup_of(measured.step);
  const transformer shape = setup.model;
  setup.model = catalog::gpt_oss_20b;
  setup.model.num_hidden_layers = shape.num_hidden_layers;
  setup.model.hidden_size = shape.hidden_size;
  setup.model.num_attention_heads = shape.num_attention_heads;
  setup.model.num_key_value_heads = shape.num_key_value_heads;
  setup.model.head_dim = shape.head_dim;
  setup.model.vocab_size = shape.vocab_size;
  setup.model.moe.num_experts = measured.experts;
  setup.model.moe.num_experts_per_tok = measured.chosen;
  setup.model.moe.moe_intermediate_size = shape.intermediate_size;
  return setup;
}

training_setup setup_of(const captured_step& measured) {
  const auto& [step, experts, chosen, width, loop, bytes] = measured;
  training_setup setup =
      experts == 0
          ? setup_of(step)
          : setup_of(measured_mixture{step, experts, chosen, width, 0, 0, 0, 0, false, {}});
  setup.optimizer.loop = loop;
  setup.graphs.iteration = true;
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

TEST_CASE("steps of torchtitan 0.3's mixtures take what they were measured to take") {
  int count = 0;
  for (const measured_mixture& mixture : mixtures) {
    CAPTURE(count++);
    const training_setup setup = setup_of(mixture);
    const batch_plan plan = plan_of(mixture.step);
    REQUIRE(validate(setup, plan));
    CHECK(replay(setup, plan, 4)->peak == mixture.step.peak);
  }
}

TEST_CASE("steps of torchtitan 0.3's gpt-oss take what they were measured to take") {
  int count = 0;
  for (const measured_sinks& measured : with_sinks) {
    CAPTURE(count++);
    const training_setup setup = setup_of(measured);
    const batch_plan plan = plan_of(measured.step);
    REQUIRE(validate(setup, plan));
    CHECK(replay(setup, plan, 4, std::numeric_limits<std::int64_t>::max(), ampere)->peak ==
          measured.step.peak);
  }
}

TEST_CASE("steps of torchtitan 0.3 that ranks divide request what they were measured to") {
  int count = 0;
  for (const divided_step& measured : divided) {
    CAPTURE(count);
    ++count;
    training_setup setup = setup_of(measured.step);
    setup.parallelism.tensor_parallel = measured.tensor_ranks;
    setup.parallelism.context_parallel = measured.context_ranks;
    const batch_plan plan = plan_of(measured.step);
    REQUIRE(validate(setup, plan));
    CHECK(replay(setup, plan, 4)->peak.requested == measured.bytes);
    CHECK(peaks_of(setup, plan).peak().total == measured.bytes);
  }
  CHECK(count == 38);
}

TEST_CASE("stages of torchtitan 0.3's pipelines request what they were measured to") {
  for (const staged_step& measured : staged) {
    training_setup setup = setup_of(measured.step);
    if (measured.experts != 0)
      setup.model.moe = {.num_experts = measured.experts,
                         .num_experts_per_tok = measured.chosen,
                         .moe_intermediate_size = measured.width};
    parallelism& layout = setup.parallelism;
    layout.tensor_parallel = measured.tensor_ranks;
    layout.sequence_parallel = measured.tensor_ranks > 1;
    layout.pipeline_parallel = measured.stages;
    layout.expert_parallel = measured.expert_ranks;
    layout.virtual_pipeline = measured.chunks;
    layout.schedule = measured.by;
    layout.split = {.embedding_layers = 1, .head_layers = 1, .first_have_more = true};
    setup.place.stage = measured.stage;
    const batch_plan plan{
        measured.step.micro_batch, measured.step.ranks, measured.step.accumulation};
    CAPTURE(measured.bytes);
    const auto replayed = replay(setup, plan, 4);
    REQUIRE(replayed);
    CHECK(replayed->peak.requested == measured.bytes);
    CHECK(peaks_of(setup, plan).peak().total == measured.bytes);
  }
}

namespace {

// The replay is exact in what is requested, but for these bytes, and near in what is allocated.
template <class Measured>
void check_shared(training_setup setup,
                  const Measured& measured,
                  const measured_step& step,
                  const eager::device_traits& device = {},
                  std::int64_t missing = 0) {
  setup.parallelism.expert_parallel = measured.expert_ranks;
  setup.parallelism.context_parallel = measured.context_ranks;
  setup.parallelism.tensor_parallel = measured.tensor_ranks;
  const batch_plan plan = plan_of(step);
  CAPTURE(step.peak.requested);
  REQUIRE(validate(setup, plan));
  const auto replayed = replay(setup, plan, 4, std::numeric_limits<std::int64_t>::max(), device);
  REQUIRE(replayed);
  CHECK(replayed->peak.requested == step.peak.requested - missing);
  const auto allocated = static_cast<double>(step.peak.allocated);
  CHECK(std::abs(static_cast<double>(replayed->peak.allocated) / allocated - 1) < 0.015);
  const transformer_memory_of memory;
  CHECK(memory.at_least(setup, plan) <= memory(setup).required(plan));
}

}  // namespace

TEST_CASE("ranks that share torchtitan 0.3's experts request what they were measured to") {
  for (const sharing_step& measured : sharing)
    check_shared(setup_of(measured.mixture), measured, measured.mixture.step);
  // Which has fewer sinks than ranks share them, beside replicas, takes 8 bytes more a layer.
  for (const sharing_sinks& measured : sharing_with_sinks) {
    const measured_step& step = measured.sinks.step;
    const bool has_fewer = step.heads < step.ranks / step.replicas && step.replicas > 1;
    const std::int64_t missing = has_fewer ? 8 * step.layers : 0;
    check_shared(setup_of(measured.sinks), measured, step, ampere, missing);
  }
}

TEST_CASE("torchtitan 0.3's tensor- and context-parallel ranks divide some decoders") {
  const auto why = [](const transformer& model, const parallelism& layout) {
    training_setup setup;
    setup.model = model;
    setup.sequence_length = 1024;
    setup.precision.compute = number_format::bf16;
    setup.parallelism = layout;
    setup.parallelism.zero_stage = 3;
    setup.framework = catalog::torchtitan_2026;
    const auto valid = validate(setup);
    return std::string(valid ? "" : failure_text(valid.why()).c_str());
  };
  for (const auto& [layout, ranks] :
       {std::pair{parallelism{.tensor_parallel = 2}, "tensor_parallel 2"},
        std::pair{parallelism{.context_parallel = 2}, "context_parallel 2"}}) {
    const std::string beside = std::string(" is not taken beside ") + ranks;
    CHECK(why(catalog::llama_3_8b, layout).empty());
    CHECK(why(catalog::qwen3_8b, layout).empty());
    // Tensor-parallel ranks have parts of each expert, or of a sequence for experts of their own.
    parallelism shared = layout;
    shared.expert_parallel = 4;
    for (const parallelism& one : {layout, shared}) {
      CHECK(why(catalog::qwen3_30b_a3b, one).empty());
      CHECK(why(catalog::deepseek_v3, one).empty());
      CHECK(why(catalog::gpt_oss_20b, one) ==
            (layout.tensor_parallel > 1 ? "" : "attention_sinks true" + beside + "; false is"));
    }
  }
}

TEST_CASE("a graph of torchtitan 0.3's passes takes what it was measured to take") {
  int count = 0;
  for (const captured_step& measured : graphs) {
    CAPTURE(count++);
    const training_setup setup = setup_of(measured);
    const batch_plan plan = plan_of(measured.step);
    REQUIRE(validate(setup, plan));
    const std::int64_t got = peaks_of(setup, plan).peak().total;
    CHECK(got >= measured.bytes);
    // Where the optimizer needs less than the batch, the batch makes room for it.
    const std::int64_t tokens = plan.micro_batch * setup.sequence_length;
    CHECK(got <= measured.bytes + (measured.loop == optimizer_loop::fused ? 12 : 16 * tokens));
  }
}

TEST_CASE("graphs of torchtitan 0.3 keep gradients, and compute the same") {
  training_setup setup;
  setup.model = catalog::llama_3_8b;
  setup.sequence_length = 1024;
  setup.precision.compute = number_format::bf16;
  setup.parallelism.zero_stage = 3;
  setup.framework = catalog::torchtitan_2026;
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  const auto forward = [&] {
    return peaks_of(setup, plan)
        .at[static_cast<int>(step_moment::forward)]
        .of[static_cast<int>(memory_part::gradients)];
  };
  const auto counts = counts_of(setup, plan);
  CHECK(forward() == 0);
  setup.graphs.iteration = true;
  CHECK(forward() * 8 == 4 * parameters(setup.model).total());
  const auto captured = counts_of(setup, plan);
  CHECK(captured->forward == counts->forward);
  CHECK(captured->backward == counts->backward);
  setup.graphs = {.attention = true};
  const auto valid = validate(setup);
  CHECK(valid.why().facts[0].name == fact::graph_of_attention);
  setup.graphs = {.iteration = true};
  setup.framework = catalog::torchtitan;
  CHECK(validate(setup).why().facts[0].name == fact::graph_of_iteration);
}

TEST_CASE("a few layers tell what all of torchtitan 0.3's gpt-oss take") {
  for (const again recomputes : {again::nothing, again::layers, again::cheap_results}) {
    const measured_sinks measured{.step = {.norms = llama,
                                           .layers = 9,
                                           .hidden = 256,
                                           .heads = 4,
                                           .groups = 2,
                                           .head_dim = 64,
                                           .ffn = 384,
                                           .vocab = 2000,
                                           .tokens = 256,
                                           .micro_batch = 2,
                                           .accumulation = 2,
                                           .ranks = 4,
                                           .replicas = 1,
                                           .chunks = 4,
                                           .recomputes = recomputes,
                                           .stays = whole::head,
                                           .is_tied = false,
                                           .peak = {}},
                                  .experts = 8,
                                  .chosen = 2};
    const training_setup setup = setup_of(measured);
    const batch_plan plan = plan_of(measured.step);
    CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
    const auto counted = counts_of(setup, {.micro_batch = 1});
    REQUIRE(counted);
    CHECK(counted->parameters == parameters(setup.model).total());
    training_setup by_another = setup;
    by_another.framework = catalog::hugging_face_gpt_oss;
    by_another.parallelism = {};
    by_another.precision = bf16_under_autocast;
    by_another.attention = attention_kernel::eager;
    by_another.recompute = recompute_mode::none;
    by_another.saves_costly_results = false;
    const auto alike = counts_of(by_another, {.micro_batch = 1});
    REQUIRE(alike);
    CHECK(counted->forward == alike->forward);
    CHECK(counted->backward == alike->backward);
  }
}

TEST_CASE("a few layers tell what all of torchtitan 0.3's mixtures take") {
  for (const bool is_latent : {false, true})
    for (const again recomputes : {again::nothing, again::layers, again::cheap_results})
      for (const std::int64_t ranks : {1, 4, 16}) {
        const measured_mixture mixture{.step = {.norms = is_latent ? llama : qwen3,
                                                .layers = 9,
                                                .hidden = 256,
                                                .heads = 4,
                                                .groups = 4,
                                                .head_dim = 32,
                                                .ffn = 384,
                                                .vocab = 2000,
                                                .tokens = 256,
                                                .micro_batch = 1,
                                                .accumulation = 2,
                                                .ranks = ranks,
                                                .replicas = 1,
                                                .chunks = 4,
                                                .recomputes = recomputes,
                                                .stays = whole::head,
                                                .is_tied = false,
                                                .peak = {}},
                                       .experts = 8,
                                       .chosen = 2,
                                       .width = 128,
                                       .shared = is_latent ? 1 : 0,
                                       .dense = is_latent ? 3 : 0,
                                       .groups = is_latent ? 4 : 0,
                                       .chosen_groups = is_latent ? 2 : 0,
                                       .is_of_sigmoid = is_latent,
                                       .latent = is_latent ? latent_widths : latent_attention{}};
        const training_setup setup = setup_of(mixture);
        const batch_plan plan = plan_of(mixture.step);
        CAPTURE(is_latent);
        CAPTURE(ranks);
        CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
        const auto counted = counts_of(setup, {.micro_batch = 1});
        REQUIRE(counted);
        CHECK(counted->parameters == parameters(setup.model).total());
      }
}

TEST_CASE("more ranks than experts have parts of each, which must be even") {
  measured_mixture mixture{.step = mixtures[0].step,
                           .experts = 4,
                           .chosen = 2,
                           .width = 96,
                           .shared = 0,
                           .dense = 0,
                           .groups = 0,
                           .chosen_groups = 0,
                           .is_of_sigmoid = false,
                           .latent = {}};
  mixture.step.norms = qwen3;
  mixture.step.hidden = 256;
  const training_setup setup = setup_of(mixture);
  const auto valid_among = [&](std::int64_t ranks, const training_setup& of) {
    return validate(of, {.micro_batch = 1, .data_parallel = ranks});
  };
  CHECK(valid_among(3, setup));
  CHECK(valid_among(8, setup));
  CHECK_FALSE(valid_among(64, setup));
  CHECK(valid_among(64, setup).why().facts[0].name == fact::moe_intermediate_size);
  training_setup in_groups = setup;
  in_groups.parallelism.shard_group = 16;
  CHECK(valid_among(64, in_groups));
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
    of.sequence_length = 12;  // four parts of it, and none of a rank's six tokens
    of.parallelism.context_parallel = 2;
    of.framework.implementation.loss_chunks = 4;
  }));
  CHECK(refused(fact::loss_chunks, [](training_setup& of) {
    of.framework.implementation.layers = &layer_classes::torchtitan;
  }));
  CHECK(refused(fact::compiles_layers,
                [](training_setup& of) { of.framework.implementation.compiles_layers = true; }));
  CHECK(refused(fact::qk_norm, [](training_setup& of) { of.model = catalog::mixtral_8x7b_v0_1; }));
  const auto changes_sinks = [](auto member, auto value) {
    return [=](training_setup& of) {
      of.model = catalog::gpt_oss_20b;
      of.model.*member = value;
    };
  };
  CHECK(refused(fact::attention_bias, changes_sinks(&transformer::attention_bias, false)));
  CHECK(refused(fact::attention_out_bias, changes_sinks(&transformer::attention_out_bias, false)));
  CHECK(refused(fact::mlp_bias, changes_sinks(&transformer::mlp_bias, false)));
  CHECK(refused(fact::tied_embeddings, changes_sinks(&transformer::tied_embeddings, true)));
  CHECK(refused(fact::qk_norm, changes_sinks(&transformer::qk_norm, qk_norm_scope::head)));
  CHECK(refused(fact::attention_sinks, [](training_setup& of) {
    of.model = catalog::deepseek_v3;
    of.model.attention_sinks = true;
  }));
  CHECK(refused(fact::precision_compute, [](training_setup& of) {
    of.model = catalog::gpt_oss_20b;
    of.precision.compute = number_format::fp32;
  }));
  const auto changes = [](const transformer& model, auto member, auto value) {
    return [=](training_setup& of) {
      of.model = model;
      of.model.moe.*member = value;
    };
  };
  const transformer& qwen = catalog::qwen3_30b_a3b;
  const transformer& deepseek = catalog::deepseek_v3;
  using moe = expert_mixture;
  CHECK(refused(fact::router_bias, changes(qwen, &moe::router_bias, true)));
  CHECK(refused(fact::n_group, changes(qwen, &moe::n_group, 2)));
  CHECK(refused(fact::first_k_dense_layers, [](training_setup& of) {
    of.model = catalog::qwen3_30b_a3b;
    of.model.intermediate_size = 6144;
    of.model.moe.first_k_dense_layers = 1;
  }));
  CHECK(refused(fact::shared_expert_intermediate_size,
                changes(qwen, &moe::shared_expert_intermediate_size, 768)));
  CHECK(refused(fact::moe_layer_step, changes(deepseek, &moe::moe_layer_step, 2)));
  CHECK(refused(fact::tied_embeddings, [](training_setup& of) {
    of.model = catalog::deepseek_v2_lite;
    of.model.tied_embeddings = true;
  }));
  CHECK(refused(fact::shared_expert_intermediate_size,
                changes(deepseek, &moe::shared_expert_intermediate_size, 0)));
  CHECK(refused(fact::shared_expert_intermediate_size,
                changes(deepseek, &moe::shared_expert_intermediate_size, 1000)));
  CHECK(refused(fact::num_experts, changes(deepseek, &moe::n_group, 7)));
  CHECK(refused(fact::n_group, changes(deepseek, &moe::n_group, 256)));
  CHECK(refused(fact::topk_group, changes(deepseek, &moe::n_group, 64)));
  const auto shared = [&](auto change) {
    return [=](training_setup& of) {
      of.model = catalog::qwen3_30b_a3b;
      of.parallelism.expert_parallel = 4;
      of.parallelism.zero_stage = 3;
      change(of);
    };
  };
  CHECK_FALSE(refused(fact::expert_parallel, shared([](training_setup&) {})));
  CHECK(refused(fact::expert_parallel,
                shared([](training_setup& of) { of.model = catalog::llama_3_8b; })));
  CHECK(refused(fact::expert_parallel,
                shared([](training_setup& of) { of.parallelism.expert_parallel = 3; })));
  CHECK(refused(fact::expert_parallel,
                shared([](training_setup& of) { of.parallelism.shard_group = 2; })));
  CHECK(refused(fact::expert_parallel,
                shared([](training_setup& of) { of.graphs.iteration = true; })));
  CHECK_FALSE(refused(fact::expert_parallel, shared([](training_setup& of) {
                        of.parallelism.pipeline_parallel = 2;
                        of.parallelism.zero_stage = 2;
                      })));
  CHECK(refused(fact::attention_sinks, shared([](training_setup& of) {
                  of.model = catalog::gpt_oss_20b;
                  of.parallelism.context_parallel = 2;
                })));
  // Tensor-parallel ranks count among those that share the experts.
  CHECK_FALSE(refused(fact::expert_parallel, shared([](training_setup& of) {
                        of.parallelism.shard_group = 2;
                        of.parallelism.tensor_parallel = 2;
                      })));
  CHECK(refused(fact::dispatcher,
                shared([](training_setup& of) { of.dispatcher = token_dispatcher::deepep; })));
  // what its trainer has no setting of
  for (const engine_class* by : engine_classes::all) {
    training_setup of = setup;
    of.framework.engine.is = by;
    of.parallelism.zero_stage = by->least_zero_stage;
    const auto valid = validate(of);
    CAPTURE(by->name->text);
    CAPTURE(valid ? std::string() : std::string(failure_text(valid.why()).c_str()));
    CHECK(static_cast<bool>(valid) == (by == &engine_classes::fsdp2));
  }
  CHECK(refused(fact::precision_compute,
                [](training_setup& of) { of.precision.compute = number_format::fp16; }));
  for (const transformer& taken : {catalog::qwen3_30b_a3b,
                                   catalog::deepseek_v2_lite,
                                   deepseek,
                                   catalog::gpt_oss_20b,
                                   catalog::gpt_oss_120b}) {
    training_setup of = setup;
    of.model = taken;
    CAPTURE(std::string(taken.name));
    const auto valid = validate(of);
    CAPTURE(valid ? std::string() : std::string(failure_text(valid.why()).c_str()));
    CHECK(valid);
  }
  const auto staged_by = [](pipeline_schedule by, auto change) {
    return [=](training_setup& of) {
      of.parallelism.pipeline_parallel = 2;
      of.parallelism.virtual_pipeline = traits_of(by).folds ? 2 : 1;
      of.parallelism.zero_stage = 2;
      of.parallelism.schedule = by;
      change(of);
    };
  };
  const auto as_it_is = [](training_setup&) {};
  for (const pipeline_schedule by :
       {pipeline_schedule::one_f_one_b, pipeline_schedule::gpipe, pipeline_schedule::zero_bubble_v})
    CHECK(!refused(fact::schedule, staged_by(by, as_it_is)));
  CHECK(refused(fact::schedule, staged_by(pipeline_schedule::dual_pipe_v, as_it_is)));
  CHECK(refused(fact::zero_stage, staged_by(pipeline_schedule::gpipe, [](training_setup& of) {
                  of.parallelism.zero_stage = 3;
                })));
  CHECK(refused(fact::tied_embeddings, staged_by(pipeline_schedule::gpipe, [](training_setup& of) {
                  of.model.tied_embeddings = true;
                })));
  CHECK(refused(
      fact::graph_of_iteration,
      staged_by(pipeline_schedule::gpipe, [](training_setup& of) { of.graphs.iteration = true; })));
  CHECK(refused(fact::recompute_period, [](training_setup& of) {
    of.recompute = recompute_mode::full;
    of.recompute_period = 2;
  }));
  setup.framework.implementation.loss_chunks = 0;
  CHECK(validate(setup));
}

// What is trained, how, and in which batch, with any value in any field: counts, memory and time
// are sound, or refused with a reason.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/memory/trace.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/nanotron.hpp>
#include <gpuplan/training_setup.hpp>

#include "asked_doors.hpp"

using namespace gpuplan;

namespace {

struct described_step {
  training_setup setup{};
  batch_plan plan{};
  eager::device_traits device{};
};

struct described_pass {
  transformer model{};
  training_pass pass{};
};

transformer cut(transformer model, std::int64_t layers) {
  if (model.num_decoder_layers != 0) model.num_decoder_layers = layers;
  model.num_hidden_layers = layers;
  return model;
}

const described_step steps[] = {
    {{.model = cut(catalog::gpt2, 2),
      .sequence_length = 64,
      .precision = bf16_mixed,
      .framework = catalog::hugging_face_gpt2}},
    {{.model = cut(catalog::llama_3_8b, 2),
      .sequence_length = 128,
      .precision = bf16_mixed,
      .parallelism = {.zero_stage = 3},
      .framework = catalog::torchtitan},
     {.data_parallel = 8}},
    {{.model = cut(catalog::llama_3_8b, 3),
      .sequence_length = 128,
      .precision = bf16_mixed,
      .parallelism = {.pipeline_parallel = 2,
                      .split = {.head_layers = 1, .first_have_more = true},
                      .zero_stage = 2},
      .framework = catalog::torchtitan},
     {.data_parallel = 2, .accumulation = 3}},
    {{.model = cut(catalog::mixtral_8x7b_v0_1, 4),
      .sequence_length = 128,
      .precision = bf16_megatron,
      .parallelism = {.tensor_parallel = 2,
                      .pipeline_parallel = 2,
                      .expert_parallel = 4,
                      .sequence_parallel = true,
                      .zero_stage = 1},
      .framework = catalog::megatron_transformer_engine},
     {.data_parallel = 4, .accumulation = 4}},
    {{.model = cut(catalog::llama_3_2_1b, 4),
      .sequence_length = 64,
      .precision = bf16_megatron,
      .parallelism = {.pipeline_parallel = 2, .schedule = pipeline_schedule::dual_pipe},
      .framework = catalog::megatron_dual_pipe},
     {.data_parallel = 2, .accumulation = 4}},
    {{.model = cut(catalog::llama_3_2_1b, 4),
      .sequence_length = 64,
      .precision = bf16_megatron,
      .parallelism = {.pipeline_parallel = 2,
                      .virtual_pipeline = 2,
                      .schedule = pipeline_schedule::zero_bubble_v},
      .framework = catalog::megatron_zero_bubble},
     {.accumulation = 3}},
    {{.model = cut(catalog::llama_3_2_1b, 2),
      .sequence_length = 64,
      .precision = bf16_pure,
      .objective = training_objective::group_relative,
      .scored_tokens = 32,
      .framework = catalog::hugging_face_llama},
     {.micro_batch = 2, .accumulation = 2}},
    {{.model = cut(catalog::bert_base_uncased, 2),
      .sequence_length = 64,
      .encodings = 2,
      .framework = catalog::hugging_face_bert}},
    {{.model = cut(catalog::t5_small, 2),
      .sequence_length = 64,
      .target_length = 32,
      .framework = catalog::hugging_face_t5}},
};

void ask_about_step(const described_step& given, door_log& log) {
  const auto& [setup, plan, device] = given;
  log("counts_of", counts_of(setup, plan));
  log("nanotron_reserved", nanotron_reserved(setup, plan));
  const auto step = replay(setup, plan, 1, 80'000'000'000, device);
  log("replay", step);
  const auto points = timeline_of(setup, plan, device);
  log.holds("timeline_of", !points || !points->empty(), "answers with nothing");
  const auto trace = trace_of(setup, plan, device);
  log.holds("trace_of", !trace || !trace->changes.empty(), "answers with nothing");
  const auto why = explain(setup, plan, device);
  if (why) {
    log.holds("explain", !why->pieces.empty(), "answers with nothing");
    std::int64_t total = 0;
    for (const memory_piece& piece : why->pieces) {
      total += piece.total();
      log.holds("formula", !formula(piece).empty(), "answers with nothing");
    }
    log.holds("explain", total == why->peak.total, "has pieces that do not make the peak");
  }
  const transformer_memory memory{setup};
  const bool is_valid = validate(memory) && validate(memory, plan);
  log.holds("replay", is_valid || !step, "takes what validate refuses");
  if (!is_valid) return;
  log("required", memory.required(plan));
  log("breakdown", memory.breakdown(plan).total());
  log("largest_part_of", memory.breakdown(plan).*largest_part_of(memory.breakdown(plan)).size);
  if (step) log("peaks_of", peaks_of(setup, plan, device).peak().total);
  log("communicators", communicators(setup, plan));
  log("needs_of", needs_of(setup, plan, catalog::h100_sxm5_80gb).total());
  log("tokens_of_sequence", tokens_of_sequence(setup, true));
  log("exchanges_heads", exchanges_heads(setup));
  const fullest_stage_memory fullest{memory};
  if (validate(fullest) && validate(fullest, plan)) log("fullest stage", fullest.required(plan));
}

void ask_about_pass(const described_pass& given, door_log& log) {
  const auto& [model, pass] = given;
  if (!log.takes(validate(model))) return;
  log("parameters", parameters(model).total());
  log.holds("parameters", parameters(model).total() > 0, "are none");
  log("mtp_layers_of", mtp_layers_of(model));
  log("own_mtp_layers", own_mtp_layers(model));
  log("layers_between", layers_between(model, 0, model.layers()));
  if (model.mtp_layers != 0) log("mtp_layer_parameters", mtp_layer_parameters(model).total());
  if (const auto valid = validate(pass.trains, model); valid) {
    log("trainable_parameters", trainable_parameters(model, pass.trains));
    log.holds("trainable_parameters",
              pass.trains.what == training::adapters ||
                  trainable_parameters(model, pass.trains) <= parameters(model).total(),
              "are more than all");
  }
  if (!log.takes(validate(pass, model))) return;
  log("flops", flops(model, pass).hardware());
  log("tokens_of", tokens_of(model, pass));
  log("rule_of_thumb_flops", rule_of_thumb_flops(model, pass));
}

}  // namespace

TEST_CASE("steps with any value in any field have a memory, or are refused") {
  for (const described_step& base : steps)
    ask_doors(std::string(base.setup.framework.name) + " " + base.setup.model.name,
              base,
              96,
              30,
              ask_about_step);
}

TEST_CASE("what such values broke once is refused") {
  training_setup experts{.model = catalog::mixtral_8x7b_v0_1,
                         .sequence_length = 256,
                         .precision = bf16_megatron,
                         .parallelism = {.tensor_parallel = 2,
                                         .expert_parallel = 2,
                                         .sequence_parallel = true,
                                         .zero_stage = 1},
                         .framework = catalog::megatron_transformer_engine};
  const batch_plan plan{.data_parallel = 2};
  CHECK(validate(experts, plan));
  experts.model.moe.shared_expert_intermediate_size = 1;
  CHECK(validate(experts, plan).why().code == errc::does_not_divide);
  training_setup text{.model = catalog::bert_base_uncased,
                      .sequence_length = 128,
                      .encodings = 2,
                      .precision = bf16_mixed,
                      .framework = catalog::hugging_face_bert};
  CHECK(validate(text));
  text.model.position_rows = 0;
  CHECK_FALSE(validate(text));
  transformer latent = catalog::mixtral_8x7b_v0_1;
  latent.moe.moe_latent_size = std::int64_t{1} << 40;
  CHECK_FALSE(validate(latent));
}

TEST_CASE("models with any value in any field have parameters and operations, or are refused") {
  for (const transformer& model : {catalog::gpt2,
                                   catalog::llama_3_8b,
                                   catalog::mixtral_8x7b_v0_1,
                                   catalog::deepseek_v3,
                                   catalog::bert_base_uncased,
                                   catalog::t5_small,
                                   catalog::vit_base_patch16_224})
    ask_doors(model.name,
              described_pass{model, {.sequence_length = model.image.patch_size == 0 ? 64 : 0}},
              8,
              250,
              ask_about_pass);
}

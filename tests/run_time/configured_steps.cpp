// Models by their configuration files, against their training steps in transformers.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "check.hpp"

using namespace gpuplan;

namespace {

// Sizes in tokens; of waveforms in samples. `texts`: of a sample, of a sentence encoder.
struct configured_step {
  const char* config;
  precision_recipe precision;
  optimizer_kind optimizer;
  optimizer_loop loop;
  attention_kernel attention;
  bool clips_gradients, recomputes, pads;
  std::int64_t micro_batch, accumulation, sequence_length, target_length, texts;
  std::int64_t parameters, requested, allocated;
};

// Made by transformers 5.23 and PyTorch 2.15, on a CUDA device without kernels: the third step.
const configured_step steps[] = {
#include "configured_deberta.inc"
#include "configured_decoders.inc"
#include "configured_encoders.inc"
#include "configured_sequences.inc"
#include "configured_speech.inc"
};

training_setup setup_of(const configured_step& row) {
  const auto read = io::read_hugging_face_config(row.config);
  REQUIRE(read.reason == "");
  auto by = catalog::implementation_of(read.architecture);
  if (!by) by = catalog::implementation_of(read.model_type);
  REQUIRE(by);
  training_setup setup{.model = *read.shape,
                       .sequence_length = row.sequence_length,
                       .target_length = row.target_length,
                       .encodings = row.texts,
                       .precision = row.precision,
                       .optimizer = {.kind = row.optimizer,
                                     .loop = row.loop,
                                     .clips_gradients = row.clips_gradients},
                       .attention = row.attention,
                       .padding_mask = row.pads,
                       .framework = by->framework};
  set_dropouts(read.dropouts, setup);
  if (row.recomputes) setup.recompute = recompute_mode::full;
  if (row.texts > 1) setup.model.head = head_kind::none;
  return setup;
}

// OpenVLA with a small language model, under fully_shard, each layer of each transformer a unit.
struct shared_step {
  int hidden_size, intermediate_size, layers, heads, key_value_heads, vocabulary;
  int zero_stage;
  std::int64_t ranks;
  number_format weights, gathered, reduced;
  optimizer_kind optimizer;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch, accumulation, sequence_length;
  std::int64_t parameters, requested;
};

// Likewise, by timm 0.9.16 and a transcription of OpenVLA's modeling_prismatic.py, which as a whole
// asks for what its own does.
const shared_step shared_steps[] = {
#include "shared_openvla.inc"
};

std::string config_of(const shared_step& row) {
  const auto number = [](const char* key, int value) {
    return ",\"" + std::string(key) + "\":" + std::to_string(value);
  };
  return R"({"model_type":"openvla","architectures":["OpenVLAForActionPrediction"],)"
         R"("arch_specifier":"no-align+fused-gelu-mlp","image_sizes":[224,224],)"
         R"("timm_model_ids":["vit_large_patch14_reg4_dinov2.lvd142m",)"
         R"("vit_so400m_patch14_siglip_224"],"use_fused_vision_backbone":true,)"
         R"("text_config":{"model_type":"llama","tie_word_embeddings":false)" +
         number("hidden_size", row.hidden_size) +
         number("intermediate_size", row.intermediate_size) +
         number("num_hidden_layers", row.layers) + number("num_attention_heads", row.heads) +
         number("num_key_value_heads", row.key_value_heads) +
         number("head_dim", row.hidden_size / row.heads) + number("vocab_size", row.vocabulary) +
         "}}";
}

}  // namespace

TEST_CASE("steps of OpenVLA that ranks share, to the byte that was asked for") {
  for (const shared_step& row : shared_steps) {
    const auto read = io::read_hugging_face_config(config_of(row));
    REQUIRE(read.reason == "");
    const composite_model model = read.composite;
    training_setup setup{
        .model = *read.shape,
        .composite = &model,
        .sequence_length = row.sequence_length,
        .optimizer = {.kind = row.optimizer, .clips_gradients = row.clips_gradients},
        .framework = catalog::openvla};
    setup.precision.weights = row.weights;
    setup.precision.compute = row.gathered;
    setup.precision.reduced = row.reduced;
    setup.parallelism.zero_stage = row.zero_stage;
    setup.framework.engine.is = &engine_classes::fsdp2;
    if (row.recomputes) setup.recompute = recompute_mode::full;
    const batch_plan plan{row.micro_batch, row.ranks, row.accumulation};
    CAPTURE(row.parameters);
    REQUIRE(validate(setup, plan));
    CHECK(replay(setup, plan)->peak.requested == row.requested);
    const auto counts = counts_of(setup, plan);
    REQUIRE(counts);
    CHECK(counts->parameters == row.parameters);
  }
}

TEST_CASE("steps of models by their configurations, to the byte") {
  for (const configured_step& row : steps) {
    CAPTURE(row.config);
    const training_setup setup = setup_of(row);
    const batch_plan plan{.micro_batch = row.micro_batch, .accumulation = row.accumulation};
    REQUIRE(validate(setup, plan));
    const step_memory memory = *replay(setup, plan);
    CHECK(memory.peak.requested == row.requested);
    CHECK(memory.peak.allocated == row.allocated);
    const auto counts = counts_of(setup, plan);
    REQUIRE(counts);
    CHECK(counts->parameters == row.parameters);
  }
}

TEST_CASE("ELECTRA's discriminator reads as many tokens as a mask leaves, which no shape says") {
  for (const configured_step& row : steps) {
    if (std::string_view(row.config).find("ElectraForPreTraining") == std::string_view::npos)
      continue;
    training_setup setup = setup_of(row);
    setup.padding_mask = true;
    CHECK(validate(setup).why().at_fault() == fact::padding_mask);
  }
}

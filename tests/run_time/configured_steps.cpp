// Models by their configuration files, against their training steps in transformers.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>
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
                       .dropout = read.hidden_dropout,
                       .attention_dropout = read.attention_dropout,
                       .activation_dropout = read.activation_dropout,
                       .classifier_dropout = read.classifier_dropout,
                       .padding_mask = row.pads,
                       .framework = by->framework};
  if (row.recomputes) setup.recompute = recompute_mode::full;
  if (row.texts > 1) setup.model.head = head_kind::none;
  return setup;
}

}  // namespace

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

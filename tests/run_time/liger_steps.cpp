// Liger's kernels in transformers' decoders, against training steps with them.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

struct liger_step {
  const char* config;
  precision_recipe precision;
  optimizer_kind optimizer;
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch = 1, accumulation = 1, sequence_length = 0, rank = 0;
  lora_targets targets{};
  std::int64_t parameters = 0, requested = 0, allocated = 0;
};

// Made by transformers 5.23, Liger 0.8, PEFT 0.21 and PyTorch 2.15, on a CUDA device without
// kernels: the third step. Of 108 such, drawn at random, all are equal in what is requested, 106 in
// what is allocated, and the others within 0.014 %.
const liger_step steps_with_liger[] = {
#include "liger_steps.inc"
};

// Likewise under fully_shard, weights gathered in bf16: 16 of 16 are equal.
struct shared_liger_step {
  const char* config;
  std::int64_t ranks;
  int zero_stage;
  number_format reduced;
  optimizer_kind optimizer;
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch, sequence_length;
  std::int64_t requested, allocated;
};
const shared_liger_step shared_steps_with_liger[] = {
#include "liger_shared_steps.inc"
};

training_setup setup_of_liger(const liger_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.framework.implementation.liger_kernels = true;
  return setup;
}

training_setup with_liger(const transformer& model, const framework& by) {
  training_setup setup{
      .model = model, .sequence_length = 512, .precision = bf16_mixed, .framework = by};
  setup.framework.implementation.liger_kernels = true;
  return setup;
}

}  // namespace

TEST_CASE("steps with Liger's kernels, to the byte") {
  for (const liger_step& row : steps_with_liger) {
    CAPTURE(row.config);
    const training_setup setup = setup_of_liger(row);
    const batch_plan plan{.micro_batch = row.micro_batch, .accumulation = row.accumulation};
    check_measured(row, setup);
    const auto counts = counts_of(setup, plan);
    REQUIRE(counts);
    CHECK(counts->parameters == row.parameters);
  }
}

TEST_CASE("steps with Liger's kernels under fully_shard, to the byte") {
  for (const shared_liger_step& row : shared_steps_with_liger) {
    CAPTURE(row.config);
    training_setup setup = setup_of_liger({.config = row.config,
                                           .precision = bf16_mixed,
                                           .optimizer = row.optimizer,
                                           .loop = row.loop,
                                           .clips_gradients = row.clips_gradients,
                                           .recomputes = row.recomputes,
                                           .sequence_length = row.sequence_length});
    setup.precision.reduced = row.reduced;
    setup.framework.engine.is = &engine_classes::fsdp2;
    setup.parallelism.zero_stage = row.zero_stage;
    const batch_plan plan{.micro_batch = row.micro_batch, .data_parallel = row.ranks};
    REQUIRE(validate(setup, plan));
    const memory_counts peak = replay(setup, plan)->peak;
    CHECK(peak.requested == row.requested);
    CHECK(peak.allocated == row.allocated);
  }
}

TEST_CASE("with Liger the logits are never all there") {
  training_setup setup = with_liger(catalog::llama_3_2_1b, catalog::hugging_face_llama);
  setup.sequence_length = 4096;
  const batch_plan plan{.micro_batch = 8};
  const std::int64_t with = replay(setup, plan)->peak.requested;
  setup.framework.implementation.liger_kernels = false;
  const std::int64_t without = replay(setup, plan)->peak.requested;
  // In bf16, and in fp32 with their gradient.
  CHECK(without - with > 8 * setup.sequence_length * setup.model.vocab_size * (2 + 4 + 4));
}

TEST_CASE("what Liger's kernels are not there for is refused") {
  const auto refused = [](const training_setup& setup) { return validate(setup).why(); };
  CHECK(refused(with_liger(catalog::gpt2, catalog::hugging_face_gpt2))[fact::liger_kernels] == 1);
  CHECK(refused(with_liger(catalog::llama_3_8b, catalog::torch_llama))[fact::liger_kernels] == 1);
  CHECK(refused(with_liger(catalog::gemma_2_9b,
                           catalog::hugging_face_gemma_2))[fact::liger_kernels] == 1);
  training_setup shared = with_liger(catalog::llama_3_8b, catalog::hugging_face_llama);
  CHECK(validate(shared));
  shared.framework.engine.is = &engine_classes::fsdp2;
  shared.parallelism.zero_stage = 3;
  CHECK(validate(shared));
  shared.framework.engine.is = &engine_classes::deepspeed;
  shared.precision = bf16_master;
  CHECK(refused(shared)[fact::liger_kernels] == 1);
  // A gate of another function, an MLP without one, and a head whose input has no gradient.
  training_setup other = with_liger(catalog::llama_3_8b, catalog::hugging_face_llama);
  other.model.hidden_act = activation_function::gelu;
  CHECK(refused(other)[fact::hidden_act] == static_cast<int>(activation_function::gelu));
  CHECK_FALSE(validate(with_liger(catalog::nemotron_3_8b, catalog::hugging_face_nemotron)));
  training_setup head = with_liger(catalog::llama_3_8b, catalog::hugging_face_llama);
  head.trains.what = training::head;
  CHECK(refused(head)[fact::liger_kernels] == 1);
  head.trains = {.what = training::adapters,
                 .adapters = {.rank = 8, .targets = {.query = true, .head = true}}};
  CHECK(refused(head)[fact::liger_kernels] == 1);
}

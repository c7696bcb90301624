// QLoRA's base in blocks beside FSDP 1 and 2, whose ranks share its elements and have all scales.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

constexpr precision_recipe shared_in_bf16{.weights = number_format::bf16,
                                          .compute = number_format::bf16,
                                          .under_autocast = true,
                                          .reduced = number_format::bf16};
constexpr precision_recipe all_in_bf16{
    .weights = number_format::bf16, .compute = number_format::bf16, .reduced = number_format::bf16};

struct shared_step {
  const char* config;
  const engine_class* by;
  std::int64_t ranks;
  int zero_stage;
  bool reduces_every_micro_batch;
  quantised_base base;
  number_format weights;  // of adapters
  double dropout;         // before them
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch, accumulation, sequence_length;
  std::int64_t requested, allocated;
  std::int64_t rank;
  lora_targets targets;
  precision_recipe precision = shared_in_bf16;
  bool original_parameters = true;
  optimizer_kind optimizer = optimizer_kind::adamw;
};

// Made by Accelerate 1.15, bitsandbytes 0.50, PEFT 0.21, transformers 5.23 and PyTorch 2.15, on a
// CUDA device without kernels: the third step, of a model that was made on the host. Of 90 such
// under FSDP 1, drawn at random, all are equal in what is requested and 88 in what is allocated,
// the others within 0.4 %; of 108 under FSDP 2, around each layer and then the model, 105 and 105,
// the others within 3.7 %.
const shared_step steps_of_blocks[] = {
#include "shared_blocks.inc"
};

training_setup setup_of(const shared_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.framework.engine.is = row.by;
  setup.framework.engine.reduces_every_micro_batch = row.reduces_every_micro_batch;
  setup.framework.engine.original_parameters = row.original_parameters;
  setup.parallelism.zero_stage = row.zero_stage;
  setup.trains.adapters.weights = row.weights;
  setup.trains.adapters.dropout = row.dropout;
  setup.trains.adapters.base = row.base;
  return setup;
}

training_setup qlora_under(const engine_class& engine) {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 2048,
                       .precision = shared_in_bf16,
                       .framework = catalog::hugging_face_llama};
  setup.framework.engine.is = &engine;
  setup.parallelism.zero_stage = 3;
  setup.trains.what = training::adapters;
  setup.trains.adapters.rank = 16;
  setup.trains.adapters.base = double_quantised_base;
  return setup;
}

std::int64_t peak(const training_setup& setup, std::int64_t ranks) {
  return replay(setup, {.micro_batch = 1, .data_parallel = ranks})->peak.requested;
}

}  // namespace

TEST_CASE("steps with a base in blocks that ranks share, to the byte") {
  for (const shared_step& row : steps_of_blocks) {
    CAPTURE(row.by->name->text);
    CAPTURE(row.requested);
    check_measured(row, setup_of(row), row.ranks);
  }
}

TEST_CASE("each rank has all scales, and a part of the elements") {
  for (const engine_class* by : {&engine_classes::fsdp1, &engine_classes::fsdp2}) {
    const training_setup setup = qlora_under(*by);
    const auto weights = [&](std::int64_t ranks) {
      const batch_plan plan{.micro_batch = 1, .data_parallel = ranks};
      return in(transformer_memory{setup}.breakdown(plan).weights, 1_B);
    };
    const double linears = 16.0 * 2048 * (2 * 2048 + 2 * 512 + 3 * 8192);
    const double others = 128256.0 * 2048;  // its table is its head, in bf16
    const double shared = linears / 2 + 2 * others;
    const double scales = linears / 64;
    // What is shared comes down from an eighth to a sixteenth; scales do not.
    CHECK(weights(8) - weights(16) > 0.99 * shared / 16);
    CHECK(weights(8) - weights(16) < 1.05 * shared / 16);
    CHECK(weights(16) > shared / 16 + scales);
  }
}

TEST_CASE("from a few layers shared blocks take what all of them take") {
  for (const engine_class* by : {&engine_classes::fsdp1, &engine_classes::fsdp2})
    for (const std::int64_t ranks : {2, 8}) {
      const training_setup setup = qlora_under(*by);
      const batch_plan plan{.micro_batch = 2, .data_parallel = ranks};
      CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
    }
}

TEST_CASE("what ranks share is not cast to fp32 beside its blocks") {
  for (const engine_class* by : {&engine_classes::fsdp1, &engine_classes::fsdp2}) {
    training_setup setup = qlora_under(*by);
    const std::int64_t without = peak(setup, 4);
    setup.trains.adapters.base.rest_in_fp32 = true;
    CHECK(peak(setup, 4) == without);
  }
}

TEST_CASE("what PyTorch stops at, and what shared blocks are not described for, is refused") {
  const auto refuses = [](const engine_class& by, fact what, auto change) {
    training_setup changed = qlora_under(by);
    CHECK(validate(changed));
    change(changed);
    const auto valid = validate(changed);
    return !valid && valid.why()[what] >= 1;
  };
  const auto& fsdp1 = engine_classes::fsdp1;
  const auto& fsdp2 = engine_classes::fsdp2;
  const auto share_gradients = [](training_setup& of) { of.parallelism.zero_stage = 2; };
  CHECK(refuses(fsdp1, fact::zero_stage, share_gradients));
  CHECK_FALSE(refuses(fsdp2, fact::zero_stage, share_gradients));
  for (const engine_class* by : {&fsdp1, &fsdp2})
    CHECK(refuses(*by, fact::precision_weights, [](training_setup& of) {
      of.precision = bf16_mixed;
      of.precision.reduced = number_format::bf16;
    }));
  // Its policy casts adapters, though autocast does not.
  const auto without_autocast = [](training_setup& of) { of.precision = all_in_bf16; };
  CHECK(refuses(fsdp1, fact::adapter_weights, without_autocast));
  CHECK_FALSE(refuses(fsdp2, fact::adapter_weights, without_autocast));
}

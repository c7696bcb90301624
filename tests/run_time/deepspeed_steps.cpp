// DeepSpeed's engine, alone and with adapters, against training steps with it.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

struct deepspeed_step {
  const char* config;
  std::int64_t ranks;
  int zero_stage;
  bool overlaps_reduction;
  zero_settings zero;
  std::int64_t micro_batch, accumulation, sequence_length;
  bool recomputes, reenters;
  optimizer_loop loop;
  bool clips_gradients;
  std::int64_t requested, allocated;
  std::int64_t rank = 0;  // all trains
  lora_targets targets{};
  number_format weights{};  // of adapters
  double dropout = 0;       // before them
  precision_recipe precision = bf16_master;
  bool optimizer_on_host = false;
  optimizer_kind optimizer = optimizer_kind::adamw;
  quantised_base base{};
  bool magnitudes = false;  // of adapters
};

// Made by DeepSpeed 0.19.8, transformers 5.23, PEFT 0.21 and PyTorch 2.15, on a CUDA device without
// kernels: the fourth step. Of 265 such with adapters, drawn at random, 264 are equal in what is
// requested and 263 in what is allocated; the others are within 0.2 %.
const deepspeed_step deepspeed_steps[] = {
#include "deepspeed_steps.inc"
};

training_setup setup_of(const deepspeed_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.framework.implementation.builds_in_fp32 = false;
  setup.framework.implementation.checkpoints_reenter = row.reenters;
  setup.framework.engine.is = &engine_classes::deepspeed;
  setup.framework.engine.overlaps_reduction = row.overlaps_reduction;
  setup.framework.engine.zero = row.zero;
  setup.parallelism.zero_stage = row.zero_stage;
  setup.parallelism.optimizer_on_host = row.optimizer_on_host;
  setup.trains.adapters.weights = row.weights;
  setup.trains.adapters.dropout = row.dropout;
  setup.trains.adapters.base = row.base;
  setup.trains.adapters.magnitudes = row.magnitudes;
  return setup;
}

training_setup lora_under(int zero_stage) {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 2048,
                       .precision = bf16_master,
                       .framework = catalog::hugging_face_llama};
  setup.framework.engine.is = &engine_classes::deepspeed;
  setup.parallelism.zero_stage = zero_stage;
  setup.trains.what = training::adapters;
  setup.trains.adapters.rank = 16;
  return setup;
}

}  // namespace

TEST_CASE("steps of DeepSpeed, to the byte") {
  for (const deepspeed_step& row : deepspeed_steps) {
    CAPTURE(row.zero_stage);
    CAPTURE(row.requested);
    check_measured(row, setup_of(row), row.ranks);
  }
}

TEST_CASE("beside ZeRO-3 frozen weights are divided, and adapters' states alone are there") {
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  const auto weights = [&](const training_setup& setup) {
    return in(transformer_memory{setup}.breakdown(plan).weights, 1_B);
  };
  const training_setup whole = lora_under(2);
  training_setup divided = lora_under(3);
  divided.framework.engine.zero.prefetch_bucket = 0;
  divided.framework.engine.zero.max_reuse_distance = 0;
  const double all = static_cast<double>(parameters(whole.model).total());
  CHECK(weights(whole) > 2 * all);
  // Its part, and the largest that is gathered at the peak.
  CHECK(weights(divided) < all);
  for (const training_setup& setup : {whole, divided}) {
    const double states = in(transformer_memory{setup}.breakdown(plan).optimizer_states, 1_B);
    const double trained = static_cast<double>(trainable_parameters(setup.model, setup.trains));
    CHECK(states > 0.99 * trained);
    CHECK(states < 1.1 * trained);
  }
}

TEST_CASE("adapters are cast to the weights' format, but where zero.Init made the model") {
  const batch_plan plan{.micro_batch = 1, .data_parallel = 2};
  training_setup narrow = lora_under(3);
  training_setup wide = narrow;
  narrow.trains.adapters.weights = number_format::bf16;
  wide.trains.adapters.weights = number_format::fp32;
  CHECK(replay(narrow, plan)->peak.requested == replay(wide, plan)->peak.requested);
  for (training_setup* const one : {&narrow, &wide})
    one->framework.engine.zero.divides_while_building = true;
  CHECK(replay(narrow, plan)->peak.requested < replay(wide, plan)->peak.requested);
}

TEST_CASE("four-bit matrices are divided, but stay whole where a graph has them") {
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  const auto peak = [&](int zero_stage, bool reenters) {
    training_setup setup = lora_under(zero_stage);
    setup.trains.adapters.base = double_quantised_base;
    setup.recompute = recompute_mode::full;
    setup.framework.implementation.checkpoints_reenter = reenters;
    setup.framework.engine.zero.prefetch_bucket = 0;
    setup.framework.engine.zero.max_reuse_distance = 0;
    setup.framework.engine.zero.reduce_bucket = 1'000'000;
    return replay(setup, plan)->peak.requested;
  };
  const auto frozen = parameters(catalog::llama_3_2_1b).total() - 2048 * 128'256;
  CHECK(peak(3, false) - peak(3, true) > frozen * 9 / 20);
  CHECK(peak(2, true) - peak(3, true) > frozen * 9 / 20);
  CHECK(peak(2, false) == peak(2, true));
}

TEST_CASE("zero.Init makes no quantised model") {
  training_setup setup = lora_under(3);
  setup.trains.adapters.base = four_bit_base;
  const batch_plan plan{.micro_batch = 1, .data_parallel = 2};
  const std::int64_t behind = replay(setup, plan)->peak.requested;
  setup.framework.engine.zero.divides_while_building = true;
  CHECK(replay(setup, plan)->peak.requested == behind);
}

TEST_CASE("what DeepSpeed is not described for beside adapters is refused") {
  const training_setup setup = lora_under(3);
  CHECK(validate(setup));
  const auto refuses = [&](fact what, auto change) {
    training_setup changed = setup;
    change(changed.trains.adapters);
    const auto valid = validate(changed);
    return !valid && valid.why()[what] >= 1;
  };
  CHECK(refuses(fact::adapter_magnitudes, [](lora& of) { of.magnitudes = true; }));
  CHECK(refuses(fact::copies_head, [](lora& of) { of.copy_head = true; }));
  CHECK(refuses(fact::adapter_embedding, [](lora& of) { of.targets.embedding = true; }));
  CHECK(refuses(fact::trainable_biases, [](lora& of) { of.bias = lora_bias::all; }));
  const auto refused = [](const training_setup& of) { return validate(of).why(); };
  training_setup others = setup;
  others.model = catalog::gpt2;
  others.framework = catalog::megatron_deepspeed;
  others.parallelism.zero_stage = 1;
  CHECK(refused(others)[fact::trains] == static_cast<int>(training::adapters));
  training_setup encoder = lora_under(2);
  encoder.model = catalog::bert_base_uncased;
  encoder.framework = catalog::hugging_face_bert;
  encoder.framework.engine.is = &engine_classes::deepspeed;
  encoder.sequence_length = 128;
  encoder.encodings = 2;
  CHECK(refused(encoder)[fact::model_kind] == static_cast<int>(model_kind::encoder));
}

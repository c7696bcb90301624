// FullyShardedDataParallel with flat parameters (FSDP1), against training steps with it.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

struct flat_step {
  const char* config;
  std::int64_t ranks, shard_group;
  int zero_stage;
  precision_recipe precision;
  bool reduces_every_micro_batch;
  optimizer_kind optimizer;
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch, accumulation, sequence_length;
  double dropout;
  std::int64_t requested, allocated;
  std::int64_t rank = 0;  // all trains
  lora_targets targets{};
};

constexpr precision_recipe reduced_in_bf16{.compute = number_format::bf16,
                                           .reduced = number_format::bf16};

// Made by transformers 5.23 and PyTorch 2.15, on a CUDA device without kernels: the third step. Of
// 136 such, drawn at random, all are equal in what is requested, 134 in what is allocated, and the
// others within 0.2 %.
const flat_step steps[] = {
#include "flat_parameters.inc"
};

training_setup setup_of(const flat_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.dropout = row.dropout;
  setup.framework.engine.is = &engine_classes::fsdp1;
  setup.framework.engine.reduces_every_micro_batch = row.reduces_every_micro_batch;
  setup.parallelism.zero_stage = row.zero_stage;
  setup.parallelism.shard_group = row.shard_group;
  return setup;
}

training_setup llama_under(const engine_class& engine, int zero_stage) {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 2048,
                       .precision = bf16_mixed,
                       .framework = catalog::hugging_face_llama};
  setup.framework.engine.is = &engine;
  setup.parallelism.zero_stage = zero_stage;
  return setup;
}

training_setup lora_under(const engine_class& engine, int zero_stage) {
  training_setup setup = llama_under(engine, zero_stage);
  setup.precision = bf16_under_autocast;
  setup.trains.what = training::adapters;
  setup.trains.adapters.rank = 16;
  return setup;
}

}  // namespace

TEST_CASE("steps with flat parameters, to the byte") {
  for (const flat_step& row : steps) {
    CAPTURE(row.shard_group);
    check_measured(row, setup_of(row), row.ranks);
  }
}

TEST_CASE("without reductions gradients stay whole") {
  for (const engine_class* by : {&engine_classes::fsdp1, &engine_classes::fsdp2}) {
    training_setup setup = llama_under(*by, 3);
    const batch_plan plan{.micro_batch = 1, .data_parallel = 8, .accumulation = 4};
    const std::int64_t reduced = replay(setup, plan)->peak.requested;
    setup.framework.engine.reduces_every_micro_batch = false;
    const std::int64_t whole = replay(setup, plan)->peak.requested;
    const std::int64_t count = parameters(setup.model).total();
    // Those of the layers, in the format of products or of the reduction, less what a rank has of
    // their sums.
    CHECK(whole - reduced > count);
    CHECK(whole - reduced < 4 * count);
  }
}

TEST_CASE("from a few layers flat parameters take what all of them take") {
  for (const int stage : {2, 3})
    for (const std::int64_t ranks : {1, 8}) {
      const batch_plan plan{.micro_batch = 2, .data_parallel = ranks};
      training_setup adapted = lora_under(engine_classes::fsdp1, stage);
      adapted.model.tied_embeddings = false;
      for (const training_setup& setup : {llama_under(engine_classes::fsdp1, stage), adapted})
        CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
    }
}

TEST_CASE("what flat parameters are not described for is refused") {
  training_setup setup = llama_under(engine_classes::fsdp1, 3);
  CHECK(validate(setup));
  setup.parallelism.zero_stage = 1;
  CHECK_FALSE(validate(setup));
  setup = llama_under(engine_classes::fsdp1, 3);
  setup.trains.what = training::last_layers;
  setup.trains.last_layers = 1;
  CHECK(validate(setup).why()[fact::trains] == static_cast<int>(training::last_layers));
}

TEST_CASE("of adapters it is refused what trains beside them, and what PyTorch stops at") {
  const training_setup setup = lora_under(engine_classes::fsdp1, 3);
  CHECK(validate(setup));
  const auto refuses = [&](fact what, auto change) {
    training_setup changed = setup;
    change(changed.trains.adapters);
    const auto valid = validate(changed);
    return !valid && valid.why()[what] == 1;
  };
  CHECK(refuses(fact::adapter_magnitudes, [](lora& of) { of.magnitudes = true; }));
  CHECK(refuses(fact::copies_head, [](lora& of) { of.copy_head = true; }));
  CHECK(refuses(fact::copies_embedding, [](lora& of) { of.copy_embedding = true; }));
  CHECK(refuses(fact::adapter_embedding, [](lora& of) { of.targets.embedding = true; }));
  CHECK(refuses(fact::trainable_biases, [](lora& of) { of.bias = lora_bias::all; }));
  // Its embeddings would be a unit too, and encoder-decoders were not as replayed.
  training_setup encoder = setup;
  encoder.model = catalog::bert_base_uncased;
  encoder.framework = catalog::hugging_face_bert;
  encoder.framework.engine.is = &engine_classes::fsdp1;
  encoder.sequence_length = 128;
  encoder.encodings = 2;
  CHECK(validate(encoder).why()[fact::model_kind] == static_cast<int>(model_kind::encoder));
  encoder.model = catalog::t5_base;
  encoder.framework.implementation = catalog::hugging_face_t5.implementation;
  encoder.encodings = 1;
  CHECK(validate(encoder).why()[fact::model_kind] == static_cast<int>(model_kind::encoder_decoder));

  // Llama 3.2 1B's head is its table. A rank alone may have it cast, or shared with another.
  const batch_plan alone{.micro_batch = 1, .data_parallel = 1};
  CHECK(validate(setup, alone).why()[fact::data_parallel] == 1);
  CHECK(validate(setup, {.micro_batch = 1, .data_parallel = 2}));
  training_setup changed = setup;
  changed.precision = bf16_mixed;
  CHECK(validate(changed, alone));
  changed = setup;
  changed.model.tied_embeddings = false;
  CHECK(validate(changed, alone));
  changed = setup;
  changed.framework.engine.original_parameters = false;
  CHECK(validate(changed, alone));
  changed.trains = {};
  changed.precision = bf16_mixed;
  CHECK(validate(changed).why()[fact::trains] == static_cast<int>(training::full));
}

TEST_CASE("each matrix of the adapters is a unit beside those of the layers") {
  const training_setup whole = llama_under(engine_classes::fsdp1, 3);
  training_setup adapted = lora_under(engine_classes::fsdp1, 3);
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  // What trains is a thousandth: neither its gradients nor their states are of the whole model.
  const std::int64_t all = parameters(whole.model).total();
  CHECK(replay(adapted, plan)->peak.requested + all < replay(whole, plan)->peak.requested);
  // What its modules see of a part is fp32, to which PEFT casts what they read.
  const std::int64_t freed = replay(adapted, plan)->peak.requested;
  training_setup in_bf16 = adapted;
  in_bf16.trains.adapters.weights = number_format::bf16;
  CHECK(replay(in_bf16, plan)->peak.requested < freed);
  // Without the original parameters, too, and their parts stay fp32.
  adapted.framework.engine.original_parameters = false;
  CHECK(replay(adapted, plan)->peak.requested < freed);
  CHECK(replay(adapted, plan)->peak.requested > replay(in_bf16, plan)->peak.requested);
}

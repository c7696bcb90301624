// Weights, gradients and states on the host under FSDP 1 (CPUOffload) and 2 (CPUOffloadPolicy).

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

constexpr precision_recipe under_autocast{.weights = number_format::bf16,
                                          .compute = number_format::bf16,
                                          .under_autocast = true,
                                          .reduced = number_format::bf16};
constexpr precision_recipe all_in_bf16{
    .weights = number_format::bf16, .compute = number_format::bf16, .reduced = number_format::bf16};
constexpr precision_recipe reduced_in_bf16{.compute = number_format::bf16,
                                           .reduced = number_format::bf16};

struct offloaded_step {
  const char* config;
  const engine_class* by;
  std::int64_t ranks;
  int zero_stage;
  precision_recipe precision;
  bool reduces_every_micro_batch;
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch, accumulation, sequence_length;
  std::int64_t requested, allocated;
  std::int64_t rank = 0;  // all trains
  lora_targets targets{};
  number_format weights = number_format::fp32;  // of adapters
  double dropout = 0;                           // before them
  quantised_base base{};
  bool original_parameters = true;
  optimizer_kind optimizer = optimizer_kind::adamw;
  bool checkpoints_reenter = false;
};

// Made by bitsandbytes 0.50, PEFT 0.21, transformers 5.23 and PyTorch 2.15, on a CUDA device
// without kernels: the third step; of QLoRA of a model that was made on the host. Of 167 such,
// drawn at random, 162 are equal in what is requested, 163 in what is allocated; one asks for 3
// bytes more, and four of QLoRA, of 128 to 256 tokens, for up to 3.2 % less. Of six under FSDP 1
// whose checkpoints re-enter all are equal.
const offloaded_step steps[] = {
#include "weights_on_host.inc"
};

training_setup setup_of(const offloaded_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.framework.engine.is = row.by;
  setup.framework.engine.reduces_every_micro_batch = row.reduces_every_micro_batch;
  setup.framework.engine.original_parameters = row.original_parameters;
  setup.framework.implementation.checkpoints_reenter = row.checkpoints_reenter;
  setup.parallelism.zero_stage = row.zero_stage;
  setup.parallelism.weights_on_host = setup.parallelism.optimizer_on_host = true;
  setup.trains.adapters.weights = row.weights;
  setup.trains.adapters.dropout = row.dropout;
  setup.trains.adapters.base = row.base;
  return setup;
}

training_setup llama_under(const engine_class& engine, bool on_host) {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 2048,
                       .precision = bf16_mixed,
                       .framework = catalog::hugging_face_llama};
  setup.framework.engine.is = &engine;
  setup.parallelism.zero_stage = 3;
  setup.parallelism.weights_on_host = setup.parallelism.optimizer_on_host = on_host;
  return setup;
}

training_setup qlora_under(const engine_class& engine, bool on_host) {
  training_setup setup = llama_under(engine, on_host);
  setup.precision = under_autocast;
  setup.trains.what = training::adapters;
  setup.trains.adapters.rank = 16;
  setup.trains.adapters.base = double_quantised_base;
  return setup;
}

constexpr const engine_class* both[] = {&engine_classes::fsdp1, &engine_classes::fsdp2};

}  // namespace

TEST_CASE("steps with weights on the host, to the byte") {
  for (const offloaded_step& row : steps) {
    CAPTURE(row.by->name->text);
    CAPTURE(row.requested);
    check_measured(row, setup_of(row), row.ranks);
  }
}

TEST_CASE("on the host weights and states take nothing of the device but scales of blocks") {
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  for (const engine_class* by : both) {
    const auto parts = [&](bool on_host) {
      return transformer_memory{llama_under(*by, on_host)}.breakdown(plan);
    };
    // Weights and two moments in fp32.
    const double share = 4.0 * static_cast<double>(parameters(catalog::llama_3_2_1b).total()) / 8;
    CHECK(parts(true).optimizer_states.value() == 0);
    CHECK(in(parts(false).total() - parts(true).total(), 1_B) > 2.9 * share);
    // Gathered layers and scales are as many on any number of ranks.
    const auto weights = [&](bool on_host, std::int64_t ranks) {
      const batch_plan on_ranks{.micro_batch = 1, .data_parallel = ranks};
      return in(transformer_memory{qlora_under(*by, on_host)}.breakdown(on_ranks).weights, 1_B);
    };
    const double linears = 16.0 * 2048 * (2 * 2048 + 2 * 512 + 3 * 8192);
    CHECK(weights(true, 8) > linears / 64);
    CHECK(weights(true, 8) - weights(true, 16) < 4096);
    CHECK(weights(false, 8) > weights(true, 8) + linears / 2 / 8);
  }
}

TEST_CASE("from a few layers steps with weights on the host take what all of them take") {
  for (const engine_class* by : both)
    for (const std::int64_t ranks : {2, 8})
      for (const training_setup& setup : {llama_under(*by, true), qlora_under(*by, true)}) {
        const batch_plan plan{.micro_batch = 2, .data_parallel = ranks};
        CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
      }
}

TEST_CASE("FSDP has weights, gradients and states on the host, or none of them") {
  for (const engine_class* by : both) {
    training_setup setup = qlora_under(*by, true);
    CHECK(validate(setup));
    setup.parallelism.optimizer_on_host = false;
    CHECK(validate(setup).why()[fact::weights_on_host] == 1);
  }
}

TEST_CASE("a rank alone of FSDP 1 has weights on the host where they are cast") {
  const batch_plan alone{.micro_batch = 1, .data_parallel = 1};
  for (const engine_class* by : both) CHECK(validate(llama_under(*by, true), alone));
  training_setup setup = qlora_under(engine_classes::fsdp1, true);
  setup.model.tied_embeddings = false;
  CHECK(validate(setup, alone).why()[fact::weights_on_host] == 1);
  CHECK(validate(setup, {.micro_batch = 1, .data_parallel = 2}));
  setup.parallelism.weights_on_host = setup.parallelism.optimizer_on_host = false;
  CHECK(validate(setup, alone));
}

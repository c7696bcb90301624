// bitsandbytes' optimizers beside DDP, FSDP 1 and DeepSpeed, against training steps with them.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

constexpr precision_recipe reduced_in_bf16{.compute = number_format::bf16,
                                           .reduced = number_format::bf16};
constexpr precision_recipe stepped_in_bf16{.weights = number_format::bf16,
                                           .compute = number_format::bf16,
                                           .under_autocast = true,
                                           .reduced = number_format::bf16};

struct optimizer_step {
  const char* config;
  const engine_class* by;
  std::int64_t ranks;
  int zero_stage;
  precision_recipe precision;
  optimizer_kind optimizer;
  number_format states;
  bool pages_states, widens_embeddings, clips_gradients;
  bool original_parameters, reduces_every_micro_batch;
  bool overlaps_reduction;
  zero_settings zero;
  bool recomputes, reenters;
  std::int64_t micro_batch, accumulation, sequence_length;
  std::int64_t requested, allocated;
  std::int64_t rank = 0;  // all trains
  lora_targets targets{};
  quantised_base base{};
  optimizer_loop loop = optimizer_loop::foreach;
};

// Made by bitsandbytes 0.50, DeepSpeed 0.19.8, PEFT 0.21, transformers 5.23 and PyTorch 2.15, on a
// CUDA device without kernels: the third step, of DeepSpeed the fourth. Paged states were on the
// host. Of 207 such, drawn at random, all are equal in what is requested and allocated, but where
// ZeRO-3 divided the model while it was built: tables of angles were in bf16 there, and are in
// fp32.
const optimizer_step optimizer_steps[] = {
#include "shared_optimizers.inc"
};

training_setup setup_of(const optimizer_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.optimizer.library = optimizer_library::bitsandbytes;
  setup.optimizer.states = row.states;
  setup.optimizer.pages_states = row.pages_states;
  setup.optimizer.widens_embeddings = row.widens_embeddings;
  const bool is_cast = row.by == &engine_classes::ddp && row.base.block == 0;
  setup.framework.implementation.builds_in_fp32 = is_cast;
  setup.framework.implementation.checkpoints_reenter = row.reenters;
  gpuplan::engine& around = setup.framework.engine;
  around.is = row.by;
  around.original_parameters = row.original_parameters;
  around.reduces_every_micro_batch = row.reduces_every_micro_batch;
  around.overlaps_reduction = row.overlaps_reduction;
  around.zero = row.zero;
  setup.parallelism.zero_stage = row.zero_stage;
  setup.trains.adapters.base = row.base;
  if (row.base.block != 0) setup.trains.adapters.base.in_weights_format = true;
  return setup;
}

training_setup stepped_by(const optimizer& steps, const engine_class& engine, int zero_stage) {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 1024,
                       .precision = bf16_mixed,
                       .optimizer = steps,
                       .framework = catalog::hugging_face_llama};
  if (engine.has_own_step) setup.precision = bf16_master;
  setup.framework.engine.is = &engine;
  setup.parallelism.zero_stage = zero_stage;
  return setup;
}

constexpr optimizer adamw_8_bits{.library = optimizer_library::bitsandbytes,
                                 .states = number_format::int8};

}  // namespace

TEST_CASE("steps of bitsandbytes' optimizers on ranks, to the byte") {
  for (const optimizer_step& row : optimizer_steps) {
    CAPTURE(row.by->name->text);
    CAPTURE(row.zero_stage);
    check_measured(row, setup_of(row), row.ranks);
  }
}

TEST_CASE("tables have states in fp32, unless an engine updates copies of them") {
  const batch_plan plan{.micro_batch = 1, .data_parallel = 2};
  const auto states_of = [&](const engine_class& engine, int zero_stage, bool widens) {
    optimizer steps = adamw_8_bits;
    steps.widens_embeddings = widens;
    const transformer_memory memory{stepped_by(steps, engine, zero_stage)};
    return in(memory.breakdown(plan).optimizer_states, 1_B);
  };
  // Two moments of 3 bytes more for each element, less a scale of 4 for each 256.
  const double wider = 2 * (3 - 4.0 / 256) * 2048 * 128'256;
  CHECK(states_of(engine_classes::ddp, 0, true) - states_of(engine_classes::ddp, 0, false) ==
        doctest::Approx(wider).epsilon(1e-9));
  // The table lies in one flat parameter with the last norm.
  CHECK(states_of(engine_classes::fsdp1, 3, true) - states_of(engine_classes::fsdp1, 3, false) ==
        doctest::Approx(wider / 2).epsilon(1e-4));
  for (const int stage : {0, 1, 2, 3})
    CHECK(states_of(engine_classes::deepspeed, stage, true) ==
          states_of(engine_classes::deepspeed, stage, false));
}

TEST_CASE("from a few layers bitsandbytes' optimizers take what all of them take") {
  const batch_plan plan{.micro_batch = 1, .data_parallel = 4};
  for (const int stage : {1, 3}) {
    const training_setup setup = stepped_by(adamw_8_bits, engine_classes::deepspeed, stage);
    CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
  }
  const training_setup flat = stepped_by(adamw_8_bits, engine_classes::fsdp1, 3);
  CHECK(peaks_of(flat, plan).peak().total == replay(flat, plan)->peak.requested);
}

TEST_CASE("where bitsandbytes does not step, it is refused") {
  const auto refuses = [](const training_setup& setup, fact what) {
    const auto valid = validate(setup);
    return !valid && valid.why().at_fault() == what;
  };
  // PyTorch has no rule of how its operators share a DTensor.
  CHECK(refuses(stepped_by(adamw_8_bits, engine_classes::fsdp2, 3), fact::optimizer_library));
  training_setup on_host = stepped_by(adamw_8_bits, engine_classes::deepspeed, 2);
  CHECK(validate(on_host));
  on_host.parallelism.optimizer_on_host = true;
  CHECK(refuses(on_host, fact::optimizer_library));
  training_setup of_torchao = stepped_by(adamw_8_bits, engine_classes::deepspeed, 2);
  of_torchao.optimizer.library = optimizer_library::torchao;
  CHECK(refuses(of_torchao, fact::optimizer_library));
  training_setup of_torch = stepped_by({.widens_embeddings = true}, engine_classes::ddp, 0);
  CHECK(refuses(of_torch, fact::widens_embeddings));
}

// torchtitan's steps replayed, beside what PyTorch 2.15 reported of the same steps: its allocator,
// autograd, fully_shard and DTensor ran on a device without kernels.

#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

struct measured_step {
  transformer model;
  std::int64_t sequence_length;
  std::int64_t micro_batch;
  std::int64_t ranks;
  training_setup with;  // what is not the usual
  memory_counts peak;
};

transformer llama(std::int64_t layers,
                  std::int64_t width,
                  std::int64_t heads,
                  std::int64_t groups,
                  std::int64_t head_dim,
                  std::int64_t ffn,
                  std::int64_t vocabulary,
                  norm_kind norm = norm_kind::rms_norm) {
  return {.num_hidden_layers = layers,
          .hidden_size = width,
          .intermediate_size = ffn,
          .num_attention_heads = heads,
          .num_key_value_heads = groups,
          .head_dim = head_dim,
          .vocab_size = vocabulary,
          .norm = norm};
}

memory_counts replayed(const measured_step& step) {
  training_setup setup = step.with;
  setup.model = step.model;
  setup.sequence_length = step.sequence_length;
  setup.precision.compute = number_format::bf16;
  setup.optimizer.clips_gradients = true;
  setup.parallelism.zero_stage = 3;
  setup.framework = catalog::torchtitan;
  setup.framework.implementation.loss_parallel = step.with.framework.implementation.loss_parallel;
  setup.framework.implementation.compiles_layers =
      step.with.framework.implementation.compiles_layers;
  CHECK(validate(setup));
  return replay(setup, {.micro_batch = step.micro_batch, .data_parallel = step.ranks})->peak;
}

constexpr training_setup checkpoint_each{.recompute = recompute_mode::full};
constexpr training_setup selective{.recompute = recompute_mode::full, .saves_costly_results = true};

training_setup every(std::int64_t period) {
  training_setup setup = checkpoint_each;
  setup.recompute_period = period;
  return setup;
}
training_setup reduced_in_bf16(training_setup setup) {
  setup.precision.reduced = number_format::bf16;
  return setup;
}
training_setup fused(training_setup setup) {
  setup.optimizer.loop = optimizer_loop::fused;
  return setup;
}
training_setup divided(training_setup setup, std::int64_t ranks, bool loss = false) {
  setup.parallelism.tensor_parallel = ranks;
  setup.parallelism.sequence_parallel = true;
  setup.framework.implementation.loss_parallel = loss;
  return setup;
}
training_setup compiled(training_setup setup) {
  setup.framework.implementation.compiles_layers = true;
  return setup;
}
training_setup in_groups_of(std::int64_t ranks, training_setup setup) {
  setup.parallelism.shard_group = ranks;
  return setup;
}
transformer without_norm_weights(transformer model) {
  model.norm_affine = false;
  return model;
}

}  // namespace

TEST_CASE("torchtitan's steps take what they were measured to take") {
  const measured_step steps[] = {
      {llama(3, 512, 8, 2, 64, 1536, 32'000),
       2048,
       2,
       8,
       {},
       {1'961'483'600, 1'963'721'216, 2'432'696'320}},
      {llama(5, 512, 8, 8, 64, 1408, 50'257),
       1024,
       3,
       24,
       checkpoint_each,
       {1'921'793'952, 1'922'944'512, 2'581'594'112}},
      {llama(6, 1024, 8, 1, 128, 2816, 16'384),
       4096,
       1,
       16,
       selective,
       {1'284'601'752, 1'286'191'616, 1'740'636'160}},
      {llama(7, 768, 12, 4, 64, 2048, 8192, norm_kind::layer_norm),
       2048,
       2,
       4,
       reduced_in_bf16(every(3)),
       {1'199'444'864, 1'207'064'576, 1'419'771'904}},
      {llama(4, 512, 4, 2, 128, 2048, 65'536),
       512,
       4,
       1,
       fused(every(2)),
       {2'743'009'492, 2'743'032'320, 3'464'495'104}},
      {without_norm_weights(llama(4, 768, 6, 3, 128, 3072, 20'000, norm_kind::layer_norm)),
       1024,
       2,
       8,
       in_groups_of(4, reduced_in_bf16(selective)),
       {821'559'400, 825'873'408, 1'174'405'120}},
      {llama(4, 1024, 16, 8, 64, 4096, 32'000),
       4096,
       2,
       4,
       divided({}, 4, true),
       {1'754'643'564, 1'755'828'736, 2'063'597'568}},
      {llama(5, 1024, 8, 4, 128, 3072, 50'304),
       2048,
       3,
       6,
       fused(divided(checkpoint_each, 2)),
       {3'951'581'436, 3'959'706'624, 5'848'956'928}},
      {llama(4, 1024, 8, 4, 128, 3072, 50'304, norm_kind::layer_norm),
       2048,
       1,
       2,
       divided(selective, 2),
       {1'804'568'680, 1'814'535'168, 2'539'651'072}},
      {llama(3, 512, 8, 2, 64, 1408, 1000),
       2048,
       2,
       8,
       compiled({}),
       {291'641'672, 295'301'632, 408'944'640}},
      {llama(3, 512, 8, 2, 64, 1408, 1000),
       2048,
       2,
       8,
       compiled(selective),
       {175'717'712, 176'775'680, 289'406'976}},
      {llama(3, 512, 8, 2, 64, 1408, 1000),
       2048,
       2,
       8,
       compiled(checkpoint_each),
       {153'554'720, 154'217'472, 241'172'480}},
  };
  for (const measured_step& step : steps) {
    const memory_counts got = replayed(step);
    CHECK(got.requested == step.peak.requested);
    CHECK(got.allocated == step.peak.allocated);
    CHECK(got.reserved == step.peak.reserved);
  }
}

TEST_CASE("a few layers tell what all of torchtitan's take") {
  for (const training_setup& with : {training_setup{}, every(3), selective, compiled(selective)}) {
    training_setup setup = with;
    setup.model = llama(11, 256, 4, 2, 64, 512, 2000);
    setup.sequence_length = 256;
    setup.precision.compute = number_format::bf16;
    setup.parallelism.zero_stage = 3;
    setup.framework = catalog::torchtitan;
    setup.framework.implementation.compiles_layers = with.framework.implementation.compiles_layers;
    const batch_plan plan{.micro_batch = 2, .data_parallel = 4};
    CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
  }
}

TEST_CASE("compiled layers are those of torchtitan on one tensor-parallel rank") {
  training_setup setup;
  setup.model = llama(2, 256, 4, 2, 64, 512, 2000);
  setup.sequence_length = 256;
  setup.precision.compute = number_format::bf16;
  setup.parallelism.zero_stage = 3;
  setup.framework = catalog::torchtitan;
  setup.framework.implementation.compiles_layers = true;
  CHECK(validate(setup));
  training_setup changed = setup;
  changed.parallelism.tensor_parallel = 2;
  CHECK(!validate(changed));
  changed = setup;
  changed.model.num_key_value_heads = 4;
  CHECK(!validate(changed));
  changed = setup;
  changed.framework.implementation.layers = &layer_classes::llama;
  CHECK(!validate(changed));
}

// Parameters and products that the codes count as they run, against the closed forms of the shape.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/require.hpp>

#include <cstdint>
#include <string>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr transformer cut(transformer model) {
  const std::int64_t layers = 3;
  if (model.num_hidden_layers > layers) model.num_hidden_layers = layers;
  if (model.num_decoder_layers > layers) model.num_decoder_layers = layers;
  return model;
}

training_setup setup_of(const transformer& model, const framework& code) {
  training_setup setup{.model = cut(model), .sequence_length = 48, .framework = code};
  setup.precision = code.implementation.layers == &layer_classes::lit_gpt ? bf16_pure : bf16_mixed;
  if (code.engine.is == &engine_classes::deepspeed) setup.precision = bf16_master;
  const bool gathers =
      code.engine.is == &engine_classes::fsdp2 || &code == &catalog::hugging_face_gpt2_zero_3;
  if (gathers) setup.parallelism.zero_stage = 3;
  return setup;
}

// Their parts ask for a gradient of the layers' input where layers are computed again.
bool is_of_hugging_face(const training_setup& setup) {
  return std::string(setup.framework.name).starts_with("transformers") &&
         setup.model.kind != model_kind::vision;
}

training_pass pass_of(const training_setup& setup) {
  return {.sequence_length = setup.model.kind == model_kind::vision ? 0 : setup.sequence_length,
          .trains = setup.trains,
          .recompute = setup.recompute,
          .recompute_stops_early = !setup.framework.implementation.checkpoints_reenter &&
                                   setup.framework.layers().stops_early,
          .fused_attention = setup.chosen_attention() != attention_kernel::eager,
          // torch.nn's BERT has the code of transformers'.
          .input_requires_grad = setup.recompute == recompute_mode::full &&
                                 (is_of_hugging_face(setup) ||
                                  setup.framework.implementation.layers == &layer_classes::bert)};
}

// T5's classes share their head, LitGPT's do not: what the shape says otherwise, they do not build.
bool has_head_of_its_own(const training_setup& setup) {
  const layer_class* layers = setup.framework.implementation.layers;
  return (layers == &layer_classes::t5 && !setup.model.has_tied_head()) ||
         (layers == &layer_classes::lit_gpt && setup.model.has_tied_head());
}

// Hugging Face's classes have no layers that predict further tokens, and keep the biases that
// choose experts as buffers.
transformer built(const training_setup& setup) {
  transformer model = setup.model;
  if (setup.framework.implementation.layers->name == layer_classes::megatron_core.name)
    return model;
  model.mtp_layers = 0;
  if (setup.framework.implementation.experts.corrects_choice && !model.attention_sinks)
    model.moe.router_bias = false;
  return model;
}

// Whether there is code for it.
bool compare(const training_setup& setup) {
  // Of images' encoders the closed form knows no gradient of what the first layer reads.
  if (setup.model.kind == model_kind::vision && setup.trains.what == training::adapters &&
      setup.recompute == recompute_mode::full)
    return false;
  if (has_head_of_its_own(setup) && setup.trains.what != training::full) return false;
  // LitGPT has adapters of its own, one for query, key and value together.
  if (setup.framework.implementation.layers == &layer_classes::lit_gpt &&
      setup.trains.what == training::adapters)
    return false;
  const batch_plan plan{2, 1, 2};
  const result<step_counts> counted = counts_of(setup, plan);
  if (!counted) return false;
  CAPTURE(std::string(setup.model.name));
  CAPTURE(std::string(setup.framework.name));
  CAPTURE(static_cast<int>(setup.trains.what));
  CAPTURE(static_cast<int>(setup.recompute));
  const transformer model = built(setup);
  const bool is_ernie = setup.framework.implementation.layers == &layer_classes::ernie_moe;
  const flop_counts each = flops(model, pass_of(setup));
  // Pegasus never trains its positions, of which the shape does not say that.
  const bool has_frozen_rows =
      setup.framework.implementation.sequences.positions == position_table::frozen_sinusoids;
  if (!has_head_of_its_own(setup) && !has_frozen_rows) {
    transformer trained = model;
    if (is_ernie) trained.moe.router_bias = false;  // its biases are parameters that never train
    CHECK(counted->trainable == trainable_parameters(trained, setup.trains));
    if (setup.trains.what != training::adapters)
      CHECK(counted->parameters == parameters(model).total());
  }
  // Llama 4's experts each multiply all tokens, also those that did not choose them.
  if (setup.framework.implementation.layers == &layer_classes::llama4) return true;
  CHECK(counted->forward.value() == 4 * each.forward().value());
  CHECK(counted->backward.value() == 4 * each.backward().value());
  // Whose shared experts come first, so that the routed ones are computed again.
  if (is_ernie) return true;
  // ZeRO-3's products are done before what they read is kept: so is the last adapter's.
  if (setup.framework.engine.is == &engine_classes::deepspeed &&
      setup.trains.what == training::adapters && setup.recompute == recompute_mode::full) {
    CHECK(counted->recomputed.value() > 4 * each.recomputed().value());
    return true;
  }
  CHECK(counted->recomputed.value() == 4 * each.recomputed().value());
  return true;
}

}  // namespace

TEST_CASE("each code multiplies what the closed form says") {
  constexpr trainable parts[] = {
      {},
      {.what = training::adapters, .adapters = {.rank = 8, .targets = all_linear}},
      {.what = training::head},
      {.what = training::last_layers, .last_layers = 2}};
  int compared = 0;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape) continue;
    for (const framework* code : catalog::all_frameworks) {
      training_setup setup = setup_of(*model.shape, *code);
      for (const trainable& part : parts) {
        setup.trains = part;
        for (const recompute_mode again : {recompute_mode::full, recompute_mode::none}) {
          setup.recompute = again;
          compared += compare(setup);
        }
      }
    }
  }
  CHECK(compared > 3300);
}

TEST_CASE("codes whose products are not counted are refused") {
  training_setup setup = setup_of(catalog::llama_3_8b, catalog::torchtitan);
  setup.framework.implementation.compiles_layers = true;
  CHECK(std::string(failure_text(counts_of(setup).why()).c_str()) ==
        "layers torchtitan is not taken beside compiles_layers true; false is");
  setup = setup_of(catalog::llama_3_8b, catalog::megatron_core);
  setup.precision = bf16_megatron;
  CHECK(std::string(failure_text(counts_of(setup).why()).c_str()) ==
        "layers megatron_core is not taken");
}

TEST_CASE("what a step asks of the device") {
  const training_setup setup{.model = catalog::gpt2,
                             .sequence_length = 1024,
                             .precision = bf16_mixed,
                             .framework = catalog::hugging_face_gpt2};
  const auto work_of = [](const training_setup& of, const batch_plan& plan) {
    return *counts_of(of, plan)->work;
  };
  const step_work one = work_of(setup, {.micro_batch = 2});
  const step_work two = work_of(setup, {.micro_batch = 2, .accumulation = 2});
  // A product forward is two backward; of attention's kernels none is one.
  CHECK(one.forward.products == 4 * 12 + 1);
  CHECK(one.backward.products == 2 * one.forward.products);
  CHECK(one.optimizer.products == 0);
  // Micro-batches repeat but for the division of the loss, and sums of gradients.
  CHECK(two.forward.products == 2 * one.forward.products);
  CHECK(two.forward.launches == 2 * (one.forward.launches + 1));
  CHECK(two.backward.launches > 2 * one.backward.launches);
  CHECK((two.optimizer == one.optimizer));
  // What is computed again is of the backward.
  training_setup again = setup;
  again.recompute = recompute_mode::full;
  const step_work recomputed = work_of(again, {.micro_batch = 2});
  CHECK((recomputed.forward == one.forward));
  CHECK(recomputed.backward.products > one.backward.products);
  // A rank of FSDP2 reads and writes its own part of DTensors alone.
  training_setup shared = setup;
  shared.framework.engine = catalog::engines::fsdp2;
  shared.parallelism.zero_stage = 3;
  const step_work part = work_of(shared, {.micro_batch = 2, .data_parallel = 4});
  CHECK(part.forward.copies > one.forward.copies);
  const double own = (part.optimizer.traffic - part.optimizer.traffic_elsewhere).value();
  CHECK(own < 0.26 * one.optimizer.traffic.value());
}

TEST_CASE("each loop of each optimizer that is counted reads and writes all weights") {
  training_setup setup{
      .model = cut(catalog::gpt2), .sequence_length = 64, .framework = catalog::hugging_face_gpt2};
  for (const optimizer_kind kind : {optimizer_kind::adamw,
                                    optimizer_kind::sgd,
                                    optimizer_kind::sgd_momentum,
                                    optimizer_kind::rmsprop,
                                    optimizer_kind::adagrad})
    for (const optimizer_loop loop :
         {optimizer_loop::foreach, optimizer_loop::fused, optimizer_loop::parameter}) {
      setup.optimizer = {.kind = kind, .loop = loop, .clips_gradients = false};
      if (!validate(setup, {})) continue;
      CAPTURE(static_cast<int>(kind));
      CAPTURE(static_cast<int>(loop));
      const auto counts = counts_of(setup);
      REQUIRE(counts);
      if (!counts->work) continue;
      const double weights = 4.0 * static_cast<double>(counts->parameters);
      CHECK(counts->work->optimizer.traffic.value() >= 2 * weights);
      CHECK(counts->work->optimizer.launches > 0);
    }
}

TEST_CASE("work is known where all of it is counted") {
  training_setup setup{.model = catalog::llama_3_8b,
                       .sequence_length = 128,
                       .framework = catalog::hugging_face_llama};
  setup.model.num_hidden_layers = 1;
  CHECK(counts_of(setup)->work);
  setup.optimizer.kind = optimizer_kind::lion;
  CHECK(!counts_of(setup)->work);
  setup.optimizer = {};
  setup.precision = bf16_with_fp8;
  CHECK(!counts_of(setup)->work);
  setup = setup_of(catalog::llama_3_8b, catalog::lit_gpt);
  CHECK(!counts_of(setup)->work);
}

namespace {
constexpr step_counts of_gpt2 = require([] {
  return counts_of({.model = cut(catalog::gpt2),
                    .sequence_length = 64,
                    .framework = catalog::hugging_face_gpt2});
});
static_assert(of_gpt2.work->forward.products == 4 * 3 + 1);
}  // namespace

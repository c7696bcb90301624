// Steps whose loss is cut cross-entropy, which never has logits.

#include <doctest/doctest.h>

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/time/explanation.hpp>
#include <gpuplan/time/roofline.hpp>

#include <cstdint>

#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

// Made by the Python of cut_cross_entropy 25.1.1, with its locks as in Apple's repository of 2025,
// behind transformers 5.23's decoders, on a CUDA device without kernels, Triton's launches left out
// and its sort not compiled: the third step. Of 28 steps drawn at random all are equal.
struct cut_step {
  const char* config;
  precision_recipe precision;
  optimizer_kind optimizer;
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  std::int64_t micro_batch, accumulation, sequence_length, rank;
  lora_targets targets;
  std::int64_t requested, allocated;
};

const cut_step cut_steps[] = {
#include "cut_cross_entropy_steps.inc"
};

training_setup llama_that_cuts(bool cuts) {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 4096,
                       .precision = bf16_pure,
                       .framework = catalog::hugging_face_llama};
  setup.framework.implementation.cut_cross_entropy = cuts;
  return setup;
}

}  // namespace

TEST_CASE("steps with cut cross-entropy, to the byte") {
  for (const cut_step& row : cut_steps) {
    training_setup setup = setup_of_measured(row);
    setup.framework.implementation.cut_cross_entropy = true;
    check_measured(row, setup);
    const batch_plan plan{.micro_batch = row.micro_batch, .accumulation = row.accumulation};
    CHECK(peaks_of(setup, plan).peak().total == row.requested);
  }
}

TEST_CASE("without logits a batch takes less, and the head is multiplied with once more") {
  const batch_plan plan{.micro_batch = 4};
  const double whole = transformer_memory{llama_that_cuts(false)}.required(plan).value();
  const double cut = transformer_memory{llama_that_cuts(true)}.required(plan).value();
  // of all tokens: fp32 logits, their softmax and its gradient at least
  const double logits = 4.0 * 4 * 4096 * 128256;
  CHECK(whole - cut > 1.5 * logits);
  roofline_time time{.setup = llama_that_cuts(true), .on = {.gpu = catalog::h100_sxm5_80gb}};
  REQUIRE(validate(time));
  const step_breakdown by_cut = time.breakdown(plan);
  time.setup = llama_that_cuts(false);
  const step_breakdown by_whole = time.breakdown(plan);
  CHECK(by_cut.forward < by_whole.forward);  // six passes over the logits
  const auto multiplied = [&](bool cuts) {
    time.setup = llama_that_cuts(cuts);
    double flops = 0;
    const time_explanation explained = explain_time(time, plan);
    for (const time_piece& piece : explained.pieces())
      if (piece.unit == amount_unit::flop) flops += piece.times * piece.amount;
    return flops;
  };
  const double once = 2.0 * 4 * 4096 * 2048 * 128256;
  CHECK(multiplied(true) - multiplied(false) == doctest::Approx(once).epsilon(1e-9));
  training_setup frozen = llama_that_cuts(true);
  frozen.trains.what = training::frozen;
  time.setup = frozen;
  CHECK(time.breakdown(plan).backward == 0_s);
}

TEST_CASE("what cut cross-entropy has no kernels for is refused") {
  const auto refuses = [](training_setup of, fact which) {
    const auto valid = validate(of);
    REQUIRE_FALSE(valid);
    CHECK(valid.why()[which]);
  };
  REQUIRE(validate(llama_that_cuts(true)));
  training_setup wide = llama_that_cuts(true);
  wide.precision = bf16_mixed;
  refuses(wide, fact::cut_cross_entropy);
  wide.framework.engine.is = &engine_classes::fsdp2;  // gathers in bf16
  wide.parallelism.zero_stage = 3;
  CHECK(validate(wide));
  training_setup scored = llama_that_cuts(true);
  scored.objective = training_objective::supervised;
  refuses(scored, fact::cut_cross_entropy);
  training_setup other{.model = catalog::gpt2,
                       .sequence_length = 1024,
                       .precision = bf16_pure,
                       .framework = catalog::hugging_face_gpt2};
  other.framework.implementation.cut_cross_entropy = true;
  refuses(other, fact::cut_cross_entropy);
}

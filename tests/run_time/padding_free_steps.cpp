// Samples one behind the other in a row, against training steps of transformers.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"
#include "measured_steps.hpp"

using namespace gpuplan;

namespace {

struct padding_free_step {
  const char* config;
  precision_recipe precision;
  optimizer_kind optimizer;
  optimizer_loop loop;
  bool clips_gradients, recomputes;
  attention_kernel attention;
  std::int64_t micro_batch = 1, accumulation = 1, sequence_length = 0, rank = 0;
  lora_targets targets{};
  std::int64_t requested = 0, allocated = 0;
};

// Made by transformers 5.23, PEFT 0.21 and PyTorch 2.15, on a CUDA device without kernels: the
// third step. Of 88 such, drawn at random, with the kernels of PyTorch and eager, all are equal in
// what is requested and allocated. FlashAttention's package is played by PyTorch's kernel of it,
// which takes texts of any lengths too: of 36, of texts of one length, all are equal in what is
// requested, 35 in what is allocated, and the other within 0.002 %.
const padding_free_step rows_of_samples[] = {
#include "padding_free_steps.inc"
};

training_setup setup_of_row(const padding_free_step& row) {
  training_setup setup = setup_of_measured(row);
  setup.attention = row.attention;
  setup.padding_free = true;
  return setup;
}

}  // namespace

TEST_CASE("steps of samples in a row, to the byte") {
  for (const padding_free_step& row : rows_of_samples) check_measured(row, setup_of_row(row));
}

TEST_CASE("samples in a row are as one long text to what a mask hides") {
  training_setup setup{.model = catalog::llama_3_2_1b,
                       .sequence_length = 256,
                       .precision = bf16_mixed,
                       .padding_free = true,
                       .framework = catalog::hugging_face_llama};
  const auto peak = [&](std::int64_t samples) {
    const batch_plan plan{.micro_batch = samples};
    const auto bytes = replay(setup, plan)->peak.requested;
    CHECK(peaks_of(setup, plan).peak().total == bytes);
    return bytes;
  };
  const std::int64_t of_eight = peak(8);
  setup.sequence_length *= 8;
  CHECK(peak(1) == of_eight);
  // Each layer keeps its own bias of bf16, which grows as the square of the row.
  const std::int64_t tokens = setup.sequence_length;
  setup.sequence_length = tokens / 8;
  setup.padding_free = false;
  CHECK(of_eight - peak(8) > 16 * 2 * tokens * tokens);
  // The kernel of FlashAttention reads none.
  const std::int64_t of_eight_apart = peak(8);
  setup.padding_free = true;
  setup.attention = attention_kernel::flash;
  CHECK(peak(8) - of_eight_apart < 2 * tokens * tokens);
}

TEST_CASE("what lays no samples in a row is refused") {
  training_setup setup{.model = catalog::mixtral_8x7b_v0_1,
                       .sequence_length = 256,
                       .precision = bf16_mixed,
                       .padding_free = true,
                       .framework = catalog::hugging_face_mixtral};
  CHECK(validate(setup).why()[fact::padding_free] == 1);
  setup.model = catalog::llama_3_2_1b;
  setup.framework = catalog::hugging_face_llama;
  CHECK(validate(setup));
  setup.padding_mask = true;
  CHECK(validate(setup).why()[fact::padding_mask] == 1);
  setup.padding_mask = false;
  setup.sequence_length = std::int64_t{1} << 40;
  CHECK_FALSE(validate(setup, {.micro_batch = std::int64_t{1} << 40}));
}

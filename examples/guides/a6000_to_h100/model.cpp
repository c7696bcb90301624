// Guide 001: the model, and what a sample of each stage takes.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/catalog/models/llama.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

#include "guides/a6000_to_h100/tables.hpp"
#include "guides/model_cells.hpp"

namespace guides::a6000_to_h100 {
namespace {

using gpuplan::composite_model;
using gpuplan::flop_count;
using gpuplan::training;
using gpuplan::training_pass;

/// RAD-DINO: DINOv2's ViT-B/14 on images of 518 x 518.
constexpr gpuplan::transformer rad_dino() {
  gpuplan::transformer vision{
      .name = "rad-dino",
      .kind = gpuplan::model_kind::vision,
      .num_hidden_layers = 12,
      .hidden_size = 768,
      .intermediate_size = 3072,
      .num_attention_heads = 12,
      .layer_scale = true,
      .position_rows = 1370,
      .image = {.image_size = 518, .patch_size = 14, .mask_token = true},
      .head = gpuplan::head_kind::none,
  };
  return gpuplan::catalog::classic(vision);
}

/// The Temporal Alignment Connector of Libra (arXiv 2411.19378, section 2), as X-iZhang/Libra
/// builds it, but for its last four layers, which are a connector here: a mix of the encoder's 12
/// layers, attention of each image's patches, attention of the current to the prior image, and an
/// MLP. Each attention adds a key and a value.
constexpr std::int64_t tac_width = 768;
constexpr std::int64_t tac_parameters() {
  constexpr std::int64_t w = tac_width;
  constexpr std::int64_t mix = (12 * 6 + 6) + (6 * 12 + 12) + 12 * 6 + (6 * 3 + 3) + (3 * 6 + 6) +
                               6 * 3 + (3 + 1) + (3 + 3) + 3 + 1;
  return mix + 3 * (4 * w * w + 4 * w + 2 * w) + 4 * 2 * w + 2 * (w * w + w);
}
constexpr flop_count tac_forward() {
  const auto patches = static_cast<double>(rad_dino().image.patches());
  constexpr double w = tac_width;
  return flop_count::from_value(2 * patches * (3 * 4 + 2) * w * w +
                                3 * 4 * patches * (patches + 1) * w);
}

enum class stage { tac, lora };

constexpr composite_model libra(const inputs& in, stage which) {
  const gpuplan::trainable frozen{.what = training::frozen};
  const std::int64_t patches = rad_dino().image.patches();
  composite_model model{.name = "libra-v1.0-7b",
                        .parts = {{.model = rad_dino(),
                                   .trains = frozen,
                                   .sequences = 2,  // the current and the prior image
                                   .next = {.widths = {tac_width, 4096, 4096, 4096, 4096},
                                            .tokens = patches,
                                            .trains = which == stage::tac}},
                                  // Meditron 7B is Llama 2 7B, trained on.
                                  {.model = gpuplan::catalog::llama_2_7b, .trains = frozen}},
                        .other_parameters = tac_parameters(),
                        .others_train = which == stage::tac};
  if (which == stage::lora) {
    gpuplan::lora_targets targets = gpuplan::all_linear;
    targets.other = false;
    model.parts[1].trains = {.what = training::adapters,
                             .adapters = {.rank = in.lora_rank, .targets = targets}};
  }
  return model;
}

constexpr std::int64_t trained_in(const inputs& in, stage which) {
  return trainable_parameters(libra(in, which));
}

struct sample_work {
  flop_count model{};
  flop_count hardware{};
};

/// The work of one sample with so much text behind its image, with every layer recomputed.
constexpr sample_work of_a_sample(const inputs& in, stage which, std::int64_t text) {
  const composite_model model = libra(in, which);
  const training_pass pass{.sequence_length = rad_dino().image.patches() + text,
                           .recompute = gpuplan::recompute_mode::full,
                           .recompute_stops_early = true};
  const gpuplan::flop_counts counts = flops(model, pass);
  // Where all of the connector trains, its first layer passes gradients to attention.
  const auto& next = model.parts[0].next;
  const flop_count to_attention = flop_count::from_value(
      2 * static_cast<double>(next.tokens * next.widths[0] * next.widths[1]));
  const flop_count tac = which == stage::tac ? 3 * tac_forward() + to_attention : tac_forward();
  return {counts.model() + tac, counts.hardware() + tac};
}

constexpr range<flop_count> model_work(const inputs& in, stage which) {
  return {of_a_sample(in, which, in.text_tokens.low()).model,
          of_a_sample(in, which, in.text_tokens.high()).model};
}
constexpr range<flop_count> hardware_work(const inputs& in, stage which) {
  return {of_a_sample(in, which, in.text_tokens.low()).hardware,
          of_a_sample(in, which, in.text_tokens.high()).hardware};
}

/// How many samples a stage's hours hold at the rate that the A6000 reaches.
constexpr range<double> samples_at_most(const inputs& in, stage which) {
  const duration time = which == stage::tac ? in.stage_1 : in.stage_2;
  const flop_count work = time * in.a6000_reaches;
  const auto each = hardware_work(in, which);
  return {work / each.high(), work / each.low()};
}

static_assert(parameters(rad_dino()).total() == 86'580'480);  // as DINOv2's own code counts it
static_assert(tac_parameters() == 8'279'351);
static_assert(trained_in(guide, stage::tac) == 8'279'351 + 53'493'760);
static_assert(trained_in(guide, stage::lora) == 319'815'680);  // PEFT: twice rank 64's 159,907,840

}  // namespace

table the_model(const inputs& in) {
  table t{.id = "T1.8",
          .title = "the model: Libra v1.0 7B",
          .inputs = "X-iZhang/Libra, whose guide this is: two images of 1,369 patches, rank 128"};
  const std::int64_t all = parameters(libra(in, stage::tac)).total();
  t.also("Libra v1.0 7B",
         "parameters",
         parameter_unit,
         millions(all),
         "the repository's README has the 213 h of stage 2 on an A6000 for it");
  t.also("Libra v1.0 7B", "of RAD-DINO", parameter_unit, millions(parameters(rad_dino()).total()));
  t.also("Libra v1.0 7B",
         "of TAC",
         parameter_unit,
         millions(trained_in(in, stage::tac)),
         "from its code: attention within and between two images, then four layers");
  t.also("Libra v1.0 7B",
         "of Meditron 7B",
         parameter_unit,
         millions(parameters(gpuplan::catalog::llama_2_7b).total()),
         "Llama 2 7B, but for a few rows that it may have added to the token table");
  for (const stage which : {stage::tac, stage::lora}) {
    const char* row = which == stage::tac ? "stage 1: TAC" : "stage 2: LoRA";
    const std::int64_t trained = trained_in(in, which);
    t.also(row,
           "parameters that train",
           parameter_unit,
           millions(trained),
           decimal(100 * static_cast<double>(trained) / static_cast<double>(all), 1) + " % of all");
    t.also(row,
           "work of a sample",
           "TFLOP",
           span_of(in_TFLOP(model_work(in, which)), 1),
           "forward and backward, 100 to 679 tokens of text");
    t.also(row,
           "with layers recomputed",
           "TFLOP",
           span_of(in_TFLOP(hardware_work(in, which)), 1),
           "as its scripts do: --gradient_checkpointing True");
    t.also(row,
           "samples in the hours, at most",
           "thousands",
           span_of(samples_at_most(in, which) / 1000.0, 0),
           "at the best rate measured on an A6000");
  }
  return t;
}

std::string finding_of_the_model(const inputs& in) {
  const auto tac = model_work(in, stage::tac);
  const auto lora = model_work(in, stage::lora);
  return "Stage 1 trains " + decimal(static_cast<double>(trained_in(in, stage::tac)) / 1e6, 0) +
         " of " + decimal(static_cast<double>(parameters(libra(in, stage::tac)).total()) / 1e6, 0) +
         " million parameters, and a sample of it costs as much as one of stage 2 (" +
         text(span_of(in_TFLOP(tac), 0)) + " against " + text(span_of(in_TFLOP(lora), 0)) +
         " TFLOP): gradients pass through the frozen language model to reach what is before it.";
}

}  // namespace guides::a6000_to_h100

// Guide 002: the model, and what its steps imply.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models/qwen.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "guides/model_cells.hpp"
#include "guides/vla_speedups/tables.hpp"

namespace guides::vla_speedups {
namespace {

using gpuplan::composite_model;
using gpuplan::compute_rate;
using gpuplan::flop_count;

/// Qwen2.5-VL 3B, all of it frozen, on images of so many pixels a side. Vision: the technical
/// report's table 1 (arXiv 2502.13923), with an RMS norm and a linear layer of two for the merger,
/// which joins four patches to a token. The published total confirms the shape.
constexpr composite_model qwen2_5_vl_3b(std::int64_t image_size) {
  const gpuplan::transformer vision{
      .name = "qwen2.5-vl-vision",
      .kind = gpuplan::model_kind::vision,
      .num_hidden_layers = 32,
      .hidden_size = 1280,
      .intermediate_size = 3420,
      .num_attention_heads = 16,
      .attention_bias = true,
      .attention_out_bias = true,
      .fused_qkv = true,
      .mlp_bias = true,
      .image = {.image_size = image_size,
                .patch_size = 14,
                .num_channels = 2 * 3,  // two frames, which a still image fills both
                .patch_bias = false,
                .class_tokens = 0},
      .head = gpuplan::head_kind::none,
  };
  const gpuplan::trainable frozen{.what = gpuplan::training::frozen};
  return {.name = "qwen2.5-vl-3b",
          .parts = {{.model = vision,
                     .trains = frozen,
                     .next = {.widths = {4 * 1280, 4 * 1280, 2048},
                              .tokens = vision.image.patches() / 4,
                              .trains = false}},
                    {.model = gpuplan::catalog::qwen2_5_3b, .trains = frozen}}};
}

/// The forward pass of a sample. The action expert reads hidden states, so the head leads to
/// nothing.
constexpr flop_count of_a_sample(const inputs& in, std::int64_t images) {
  composite_model model = qwen2_5_vl_3b(in.image_size);
  gpuplan::component& vision = model.parts[0];
  gpuplan::component& language = model.parts[1];
  vision.sequences = images;
  vision.next.tokens *= images;
  language.model.head = gpuplan::head_kind::none;
  language.sequence_length = vision.next.tokens + in.text_tokens;
  return flops(model, {}).forward();
}

constexpr range<flop_count> of_a_sample(const inputs& in) {
  return {of_a_sample(in, in.images.low()), of_a_sample(in, in.images.high())};
}

/// What the GPU does in a step of the first card's batch, if the model runs in it.
constexpr range<compute_rate> implied_rate(const inputs& in, duration step) {
  const auto batch = static_cast<double>(in.gpus[0].micro_batch);
  return {batch * of_a_sample(in).low() / step, batch * of_a_sample(in).high() / step};
}

constexpr range<double> share_of_peak(const inputs& in, duration step) {
  const compute_rate peak = *gpuplan::peak(in.gpus[0].device, gpuplan::number_format::bf16);
  const auto rate = implied_rate(in, step);
  return {100 * utilisation(rate.low(), peak), 100 * utilisation(rate.high(), peak)};
}

constexpr inputs documented;
// embeddings-benchmark/mteb, n_parameters of a model that keeps all of it.
static_assert(parameters(qwen2_5_vl_3b(documented.image_size)).total() == 3'754'622'976);

/// Where 80 % of the forward passes of the frozen parts lie, at the first card's batch. One
/// software runs both, so that their ranges add up end by end.
range<duration> frozen_part(const inputs& in, std::int64_t images) {
  const gpuplan::gpu_spec& gpu = in.gpus[0].device;
  const composite_model model = qwen2_5_vl_3b(in.image_size);
  const std::int64_t batch = in.gpus[0].micro_batch;
  const auto part = [&](const gpuplan::transformer& of,
                        const gpuplan::framework& by,
                        std::int64_t tokens,
                        std::int64_t sequences) {
    gpuplan::roofline_time time{.setup = {.model = of,
                                          .trains = {.what = gpuplan::training::frozen},
                                          .sequence_length = tokens,
                                          .precision = gpuplan::bf16_under_autocast,
                                          .framework = by},
                                .on = {.gpu = gpu},
                                .efficiency = gpuplan::catalog::efficiency_of(gpu)};
    time.setup.model.head = gpuplan::head_kind::none;
    return step_interval(time, {.micro_batch = sequences});
  };
  const gpuplan::component& vision = model.parts[0];
  const auto seen = part(vision.model, gpuplan::catalog::hugging_face_vit, 0, images * batch);
  const auto read = part(model.parts[1].model,
                         gpuplan::catalog::hugging_face_qwen,
                         images * vision.next.tokens + in.text_tokens,
                         batch);
  return {seen.low + read.low, seen.high + read.high};
}

}  // namespace

void add_likely_steps(table& t, const inputs& in) {
  const double steps = steps_before(in, load::before_the_epoch);
  for (const std::int64_t images : {in.images.low(), in.images.high()}) {
    const range<duration> least = frozen_part(in, images);
    const auto shown_in = [&](double count, duration unit, int digits) {
      return span_of({count * (least.low() / unit), count * (least.high() / unit)}, digits);
    };
    const std::string of = std::to_string(images) + (images == 1 ? " image" : " images");
    const char* what = "T2.5's frozen model forward on an A100, without what trains and what loads";
    t.compare(of, "step after, at least, 80 %", "s", number(0.9, 1), shown_in(1, 1_s, 2), what);
    t.compare(of,
              "epoch after, at least, 80 %",
              "min",
              number(27),
              shown_in(steps, 1_min, 0),
              decimal(steps, 0) + " steps");
    t.also(of,
           "share of the step before, 80 %",
           "%",
           shown_in(100, in.step_before, 0),
           "more than all of it cannot have been measured");
  }
  for (const auto& [row, seconds] : {std::pair{"before", 300}, {"after", 150}})
    t.not_computable(row,
                     "dataset load, 80 %",
                     "s",
                     number(seconds),
                     "how many files the data set has, and what their storage delivers");
}

std::string finding_of_the_hours(const inputs& in) {
  const auto step = [&](std::int64_t images) {
    const range<duration> least = frozen_part(in, images);
    return text(span_of({gpuplan::in(least.low(), 1_s), gpuplan::in(least.high(), 1_s)}, 1));
  };
  return "The frozen model alone takes " + step(in.images.low()) +
         " s of a step in 80 % of cases on " + std::to_string(in.images.low()) + " image, and " +
         step(in.images.high()) + " s on " + std::to_string(in.images.high()) + ": a step of " +
         decimal(gpuplan::in(in.step_after, 1_s), 1) +
         " s needs one image and next to nothing beside it, or features that are computed once.";
}

table the_model(const inputs& in) {
  const composite_model model = qwen2_5_vl_3b(in.image_size);
  table t{.id = "T2.5",
          .title = "the model: Qwen2.5-VL 3B and an action expert",
          .inputs = "1 to 3 images of 504 x 504, 32 tokens of text; vision's attention in full"};
  const char* row = "Qwen2.5-VL 3B";
  t.also(row,
         "parameters",
         parameter_unit,
         millions(parameters(model).total()),
         "why this one: the default of a public models/unified_model.py, QwenVLAUnified");
  t.also(row,
         "parameters of vision",
         parameter_unit,
         millions(parameters(model.parts[0].model).total() + parameters(model.parts[0].next)));
  t.also(row,
         "parameters of language",
         parameter_unit,
         millions(parameters(model.parts[1].model).total()));
  t.also(row,
         "parameters that train",
         parameter_unit,
         millions(trainable_parameters(model)),
         "frozen by default; it may get adapters instead");
  t.also("action expert, sensor encoder",
         "parameters that train",
         parameter_unit,
         word("not said"),
         "which of them, and how wide");
  t.also(row,
         "work of a sample",
         "TFLOP",
         span_of(in_TFLOP(of_a_sample(in)), 2),
         "forward alone; 0 where the features are cached");
  for (const auto& [when, step] : {std::pair{"before", in.step_before}, {"after", in.step_after}}) {
    const std::string name = std::string("A100 80GB, ") + when;
    t.also(name,
           "rate that the step implies",
           "TFLOPS",
           span_of(in_TFLOPS(implied_rate(in, step)), 0),
           "if nothing is cached; without what trains");
    t.also(name, "of the dense BF16 peak", "%", span_of(share_of_peak(in, step), 0));
  }
  return t;
}

std::string finding_of_the_model(const inputs& in) {
  const auto before = share_of_peak(in, in.step_before);
  const auto after = share_of_peak(in, in.step_after);
  return "If Qwen2.5-VL 3B runs in each step, batch " + std::to_string(in.gpus[0].micro_batch) +
         " on one image takes " + decimal(before.low(), 0) +
         " % of an A100's dense peak for a step of " +
         decimal(gpuplan::in(in.step_before, 1_s), 1) + " s and " + decimal(after.low(), 0) +
         " % for " + decimal(gpuplan::in(in.step_after, 1_s), 1) + " s; on three images " +
         decimal(before.high(), 0) + " and " + decimal(after.high(), 0) +
         " %: with several images the hoped-for step needs cached features.";
}

}  // namespace guides::vla_speedups

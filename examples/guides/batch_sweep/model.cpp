// Guide 004: the models, and what their throughput implies.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

#include "guides/batch_sweep/tables.hpp"
#include "guides/model_cells.hpp"

namespace guides::batch_sweep {
namespace {

struct named_size {
  const char* row;
  const model_size& size;
  const expectation& expected;
};

constexpr std::array<named_size, 3> sizes(const inputs& in) {
  return {{{"small", in.small_model, in.small},
           {"medium", in.medium_model, in.medium},
           {"large", in.large_model, in.large}}};
}

/// The blocks of GENESIS' PMTDit: attention and an MLP of four times the width on one token per
/// photomultiplier, norms without weights. `other_parameters` is what conditions them and leads in
/// and out: four linear layers and two gates a block that scale and shift by one vector, 128 steps
/// of time and 6 labels to that vector, 2 signals and 3 coordinates to a token, a norm, 2 signals.
constexpr transformer diffusion(const inputs& in, const model_size& size) {
  const std::int64_t h = size.hidden;
  transformer blocks = catalog::classic({
      .name = "PMTDit",
      .kind = model_kind::encoder,
      .num_hidden_layers = size.depth,
      .hidden_size = h,
      .intermediate_size = 4 * h,
      .num_attention_heads = in.heads,
      .norm_affine = false,
      .head = head_kind::none,
  });
  const std::int64_t conditioning = size.depth * (4 * (h * h + h) + 2);
  const std::int64_t condition = (128 * h + h) + (6 * h + h) + 2 * (h * h / 2 + h / 2);
  const std::int64_t ends = (2 * h + h) + (3 * h + h) + 2 * (h * h + h) + (6 * h + h) +
                            (h * 2 * h + 2 * h) + 2 * h + (2 * h + 2);
  blocks.other_parameters = conditioning + condition + ends;
  return blocks;
}

/// One sample, forward and backward; what works on one vector a sample is left out.
constexpr flop_count work_of_a_sample(const inputs& in, const model_size& size) {
  const double h = static_cast<double>(size.hidden);
  const double tokens = static_cast<double>(in.photomultipliers);
  const training_pass pass{.sequence_length = in.photomultipliers, .input_requires_grad = true};
  // Weights of all of these get gradients, the signals and coordinates none.
  const double first = 2 * tokens * (2 * h + 3 * h);
  const double others = 2 * tokens * (2 * h * h + 2 * h);
  return flops(diffusion(in, size), pass).model() + flop_count::from_value(2 * first + 3 * others);
}

constexpr compute_rate implied_rate(const inputs& in, const model_size& size, double samples) {
  return samples * work_of_a_sample(in, size) / 1_s;
}

constexpr double of_peak(compute_rate rate) {
  return utilisation(rate, *peak(catalog::a100_sxm4_80gb, number_format::fp16));
}

// By hand, for h = 16: 16 h^2 + 13 h + 2 a block, 2448 to condition them, 1378 to lead in and out.
static_assert(parameters(diffusion(guide, guide.small_model)).total() == 3 * 4306 + 2448 + 1378);

}  // namespace

table the_models(const inputs& in) {
  table t{
      .id = "T4.6",
      .title = "the models: GENESIS' PMTDit in three sizes",
      .inputs = "depth and hidden as printed; 5,160 tokens and 8 heads, the defaults of its code"};
  for (const named_size& one : sizes(in)) {
    t.also(one.row,
           "parameters",
           "",
           number(parameters(diffusion(in, one.size)).total()),
           "all train; the code that this benchmark is of, an IceCube diffusion model");
    t.also(one.row,
           "work of a sample",
           "GFLOP",
           number(1e3 * in_TFLOP(work_of_a_sample(in, one.size)), 1),
           "forward and backward, attention in full");
    const compute_rate rate = implied_rate(in, one.size, one.expected.throughput.value());
    t.also(one.row,
           "rate that the throughput implies",
           "TFLOPS",
           number(in_TFLOPS(rate), 1),
           decimal(one.expected.throughput.value(), 0) + " samples/s, as printed");
    t.also(one.row, "of an A100's dense FP16 peak", "%", number(100 * of_peak(rate), 1));
    t.also(one.row, "elements of a head", "", number(one.size.hidden / in.heads));
  }
  return t;
}

std::string finding_of_the_models(const inputs& in) {
  const auto share = [&](const named_size& one) {
    return percent_text(of_peak(implied_rate(in, one.size, one.expected.throughput.value())));
  };
  const auto all = sizes(in);
  return "With one token for each of " + std::to_string(in.photomultipliers) +
         " photomultipliers the printed throughputs are " + share(all[0]) + ", " + share(all[1]) +
         " and " + share(all[2]) +
         " of an A100's dense peak, nearly all of it attention with heads of " +
         std::to_string(all[0].size.hidden / in.heads) + ", " +
         std::to_string(all[1].size.hidden / in.heads) + " and " +
         std::to_string(all[2].size.hidden / in.heads) +
         " elements; a matrix instruction for FP16 takes 8 or 16 of them. Measure the medium and "
         "large model before you plan with 1500 and 400 samples/s.";
}

}  // namespace guides::batch_sweep

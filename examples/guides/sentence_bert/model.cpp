// Guide 003: the model, and what its hours imply.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models/bert.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

#include "guides/model_cells.hpp"
#include "guides/sentence_bert/tables.hpp"

namespace guides::sentence_bert {
namespace {

using gpuplan::compute_rate;
using gpuplan::flop_count;

constexpr const gpuplan::transformer& encoder = gpuplan::catalog::bert_base_uncased;

/// A pair, forward and backward. Tokens are averaged, so that BERT's pooler leads to nothing; the
/// layers behind the average are of one vector, and left out.
constexpr flop_count of_a_pair(const inputs& in) {
  gpuplan::transformer model = encoder;
  model.pooler = false;
  return static_cast<double>(in.texts) *
         flops(model, {.sequence_length = in.tokens_of_a_text}).model();
}

constexpr range<flop_count> of_a_step(const inputs& in, const strategy& how) {
  const auto batch = effective_batch(in, how);
  return {static_cast<double>(batch.low()) * of_a_pair(in),
          static_cast<double>(batch.high()) * of_a_pair(in)};
}

constexpr flop_count of_the_training(const inputs& in, const strategy& how) {
  return static_cast<double>(in.samples * how.epochs) * of_a_pair(in);
}

/// What one GPU does in the 10 h, if they are this strategy's training.
constexpr compute_rate alone(const inputs& in, const strategy& how) {
  return of_the_training(in, how) / in.single_gpu;
}

/// What each of all GPUs does in the hours kept of T3.4.
constexpr range<compute_rate> together(const inputs& in, const strategy& how) {
  const auto time = hours(in, how, work::of_each_strategy, amp::not_counted);
  return {achieved_rate(of_the_training(in, how), time.high(), in.gpus),
          achieved_rate(of_the_training(in, how), time.low(), in.gpus)};
}

// The slowest card with tensor cores in these guides.
constexpr compute_rate slow_peak() {
  return *gpuplan::peak(gpuplan::catalog::rtx_2080_ti, gpuplan::number_format::fp16);
}

constexpr inputs documented;
static_assert(parameters(encoder).total() == 109'482'240);  // keras-hub's bert_base_en_uncased
static_assert(near(in_TFLOPS(alone(documented, documented.ddp)), 1.862, 1e-3));

}  // namespace

table the_model(const inputs& in) {
  table t{.id = "T3.6",
          .title = "the model: BERT base, uncased",
          .inputs = "two texts a sample, padded to 128 tokens; T3.4's hours as kept"};
  t.also("BERT base",
         "parameters",
         parameter_unit,
         millions(parameters(encoder).total()),
         "why this one: a public train_sentence_bert.py in Korean, on pairs of SNLI, trains it");
  t.also("BERT base",
         "parameters that train",
         parameter_unit,
         millions(trainable_parameters(encoder, {})),
         "all; the pooler gets no gradient, since tokens are averaged");
  t.also("BERT base",
         "work of a sample",
         "TFLOP",
         number(in_TFLOP(of_a_pair(in)), 3),
         "forward and backward; less where texts are shorter and padding is per batch");
  for (const strategy* how : {&in.ddp, &in.dp}) {
    t.also(how->name, "work of a step", "TFLOP", span_of(in_TFLOP(of_a_step(in, *how)), 0));
    t.also(how->name,
           "work of the training",
           "PFLOP",
           number(in_TFLOP(of_the_training(in, *how)) / 1e3, 1));
    t.also(how->name,
           "rate of one GPU in the 10 h",
           "TFLOPS",
           number(in_TFLOPS(alone(in, *how)), 2),
           "at most: no text is longer");
    t.also(
        how->name, "rate of each of all GPUs", "TFLOPS", span_of(in_TFLOPS(together(in, *how)), 2));
  }
  return t;
}

std::string finding_of_the_model(const inputs& in) {
  return "Five epochs of " + std::to_string(in.samples) + " pairs are " +
         decimal(in_TFLOP(of_the_training(in, in.ddp)) / 1e3, 0) +
         " PFLOP of BERT base. In 10 h that is " + decimal(in_TFLOPS(alone(in, in.ddp)), 1) +
         " TFLOPS; an RTX 2080 Ti has " + decimal(in_TFLOPS(slow_peak()), 0) +
         ". Something other than matrix products takes these hours: measure one GPU before you "
         "take "
         "eight.";
}

}  // namespace guides::sentence_bert

// Guide 003: the memory of its model.

#include "guides/memory.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models/bert.hpp>

#include <cstdint>
#include <string>

#include "guides/sentence_bert/tables.hpp"

namespace guides::sentence_bert {
namespace {

using gpuplan::batch_plan;
using gpuplan::bytes;
using gpuplan::gpu_spec;
using gpuplan::training_setup;

batch_plan one_gpu(const inputs& in, std::int64_t micro_batch) {
  return {.micro_batch = micro_batch, .data_parallel = in.gpus};
}

range<double> in_GB(const inputs& in, const strategy& how, bool mixed) {
  const auto taken = [&](std::int64_t micro_batch) {
    return gpuplan::in(peak_memory(pairs(in, mixed), one_gpu(in, micro_batch)), 1_GB);
  };
  return {taken(how.micro_batch.low()), taken(how.micro_batch.high())};
}

range<double> saved(const inputs& in, const strategy& how) {
  const auto with = in_GB(in, how, true);
  const auto without = in_GB(in, how, false);
  const double low = 100 * (1 - with.low() / without.low());
  const double high = 100 * (1 - with.high() / without.high());
  return {low < high ? low : high, low < high ? high : low};
}

}  // namespace

training_setup pairs(const inputs& in, bool mixed) {
  return {.model = gpuplan::catalog::bert_base_uncased,
          .sequence_length = in.tokens_of_a_text,
          .encodings = in.texts,
          .precision = mixed ? gpuplan::fp16_mixed : gpuplan::fp32_precision,
          .optimizer = {.clips_gradients = true},
          .dropout = 0.1,
          .padding_mask = true,
          .framework = gpuplan::catalog::hugging_face_bert};
}

table the_memory(const inputs& in) {
  table t{
      .id = "T3.7",
      .title = "memory of one GPU: BERT base on pairs",
      .inputs = "T3.6's model in PyTorch: AdamW, gradients clipped, dropout 0.1, DDP's buckets"};
  for (const strategy* how : {&in.ddp, &in.dp}) {
    t.also(how->name,
           "peak memory, FP32",
           "GB",
           span_of(in_GB(in, *how, false), 1),
           "over the micro-batches of T3.2; texts as long as they may be");
    t.also(how->name, "peak memory, AMP", "GB", span_of(in_GB(in, *how, true), 1));
    t.compare(how->name,
              "memory that AMP saves",
              "%",
              number(50),
              span_of(saved(in, *how), 0),
              "weights, gradients and moments stay in FP32");
  }
  for (const auto& [name, gpu] :
       {std::pair<const char*, const gpu_spec&>{"RTX 2080 Ti", gpuplan::catalog::rtx_2080_ti},
        {"RTX 4090", gpuplan::catalog::rtx_4090}})
    for (const bool mixed : {false, true})
      t.also(name,
             mixed ? "largest micro-batch, AMP" : "largest micro-batch, FP32",
             "pairs",
             number(largest_micro_batch(pairs(in, mixed), one_gpu(in, 1), gpu)),
             "the guide names no card");
  return t;
}

std::string finding_of_the_memory(const inputs& in) {
  const auto ddp = saved(in, in.ddp);
  const auto dp = saved(in, in.dp);
  return "AMP saves " + text(span_of({dp.low(), ddp.high()}, 0)) +
         " % of a GPU's memory for BERT base, not " + decimal(100 * in.amp_memory, 0) +
         " %: it halves activations, and adds copies of the weights in FP16 to the FP32 ones.";
}

}  // namespace guides::sentence_bert

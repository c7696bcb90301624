#include <cstdint>
#include <initializer_list>
#include <string>

#include "guides/a6000_to_h100/tables.hpp"

namespace guides::a6000_to_h100 {

// T1.1: the column mixes two cards and has all peaks with sparsity; like for like, every format
// gains the same.
constexpr auto h100_fp16 =
    identify(guide.h100.fp16, number_format::fp16, {&guide.h100_pcie, &guide.h100_sxm});
constexpr auto h100_bf16 =
    identify(guide.h100.bf16, number_format::bf16, {&guide.h100_pcie, &guide.h100_sxm});
static_assert(h100_fp16->device == &guide.h100_pcie && h100_fp16->sparse);
static_assert(h100_bf16->device == &guide.h100_sxm && h100_bf16->sparse);
static_assert(identify(guide.a6000.fp16, number_format::fp16, {&guide.a6000_device})->sparse);
static_assert(dense_ratio(guide, guide.h100_pcie, number_format::fp16) ==
              dense_ratio(guide, guide.h100_pcie, number_format::bf16));
static_assert(speedup_by_peaks(guide, guide.h100_pcie).high() < guide.real_speedup.low());

table cards(const inputs& in) {
  table t{.id = "T1.1",
          .title = "A6000 against H100",
          .inputs = "the cards as printed; published peaks of RTX A6000, H100 PCIe, H100 SXM5"};

  const auto ratio = [&](const char* row, double documented, int digits, double computed) {
    t.compare(
        row, "H100 / A6000, as printed", "x", number(documented, digits), number(computed, 2));
  };
  ratio("memory", 1.67, 2, in.h100.memory / in.a6000.memory);
  ratio("memory bandwidth", 2.6, 1, in.h100.memory_bandwidth / in.a6000.memory_bandwidth);
  ratio("FP16", 4.9, 1, in.h100.fp16 / in.a6000.fp16);
  ratio("BF16", 6.4, 1, in.h100.bf16 / in.a6000.bf16);
  ratio("TF32", 6.4, 1, in.h100.tf32 / in.a6000.tf32);

  // What the printed numbers are, and the dense peaks beside them.
  const auto printed = [&](const char* row,
                           double documented,
                           int digits,
                           compute_rate rate,
                           number_format format,
                           std::initializer_list<const gpu_spec*> devices) {
    const auto found = identify(rate, format, devices);
    t.compare(row,
              "dense peak of that card",
              "TFLOPS",
              number(documented, digits),
              found ? number(gpuplan::in(found->dense, 1_TFLOPS), 1) : nothing(),
              !found          ? "no peak of these cards"
              : found->sparse ? std::string("printed with sparsity: ") + found->device->name
                              : found->device->name);
  };
  const auto a6000 = {&in.a6000_device};
  const auto h100 = {&in.h100_pcie, &in.h100_sxm};
  printed("A6000 FP16", 309.7, 1, in.a6000.fp16, number_format::fp16, a6000);
  printed("A6000 BF16", 309.7, 1, in.a6000.bf16, number_format::bf16, a6000);
  printed("A6000 TF32", 155, 0, in.a6000.tf32, number_format::tf32, a6000);
  printed("H100 FP16", 1513, 0, in.h100.fp16, number_format::fp16, h100);
  printed("H100 BF16", 1979, 0, in.h100.bf16, number_format::bf16, h100);
  printed("H100 TF32", 989, 0, in.h100.tf32, number_format::tf32, h100);

  // Like for like: one card, dense.
  for (const gpu_spec* device : h100) {
    const std::string quantity = std::string(device->name) + " / A6000, dense";
    const auto like_for_like = [&](const char* row, double documented, double computed) {
      t.compare(row, quantity, "x", number(documented, 1), number(computed, 2));
    };
    t.compare("memory",
              quantity,
              "x",
              number(1.67, 2),
              number(usable_memory(*device) / usable_memory(in.a6000_device), 2),
              "what the drivers leave to a process");
    like_for_like("memory bandwidth", 2.6, bandwidth_ratio(in, *device));
    like_for_like("FP16", 4.9, dense_ratio(in, *device, number_format::fp16));
    like_for_like("BF16", 6.4, dense_ratio(in, *device, number_format::bf16));
    like_for_like("TF32", 6.4, dense_ratio(in, *device, number_format::tf32));
  }

  // What speed-up all that supports.
  const auto real = [&](const char* row, const shown& computed, const char* note) {
    t.compare(row, "real speed-up", "x", span_of({6, 7}, 0), computed, note);
  };
  real("H100/A100 x A100/A6000",
       span_of(speedup_by_a100(in), 1),
       "the guide's own benchmarks; they meet its 6-7 at the upper end");
  real("H100 PCIe, by peaks",
       span_of(speedup_by_peaks(in, in.h100_pcie), 1),
       "bandwidth-bound to compute-bound");
  real("H100 SXM5, by peaks",
       span_of(speedup_by_peaks(in, in.h100_sxm), 1),
       "bandwidth-bound to compute-bound");
  real("H100 PCIe, measured",
       number(in.h100_pcie_reaches / in.a6000_reaches, 1),
       "best matrix products: mag-/gpu_benchmark");
  real("H100 SXM5, measured", number(in.h100_sxm_reaches / in.a6000_reaches, 1), "the same");
  t.compare("computed with",
            "real speed-up",
            "x",
            span_of({6, 7}, 0),
            number(in.speedup, 0),
            "the low end: hours and costs below are the highest of the range");
  return t;
}

namespace {

shown settings(const gpuplan::result<batch_plan>& plan) {
  return plan ? word(setting_text(*plan)) : nothing();
}

}  // namespace

// T1.5
static_assert(guide.on_2.effective_batch() == 32 && guide.on_4.effective_batch() == 64);
static_assert(*same_batch(guide, guide.on_1, 2) == batch_plan{8, 2, 1});
static_assert(*same_batch(guide, guide.on_1, 8) == batch_plan{2, 8, 1});
static_assert(*same_batch(guide, guide.on_2, 2) == batch_plan{16, 2, 1});
static_assert(rate_factor(guide, guide.on_4, gpuplan::square_root_rule{}) == 2);

table batches(const inputs& in) {
  table t{.id = "T1.5",
          .title = "batch settings (micro-batch x accumulation per GPU)",
          .inputs = "one GPU: micro-batch 16, known to fit; global batch = micro x GPUs x accum"};
  t.also("H100 x 1",
         "global batch",
         "samples",
         number(in.on_1.effective_batch()),
         setting_text(in.on_1));
  t.compare("H100 x 1",
            "the micro-batch fits",
            "",
            word("yes"),
            yes_or_no(usable_memory(in.h100_pcie) >= usable_memory(in.a6000_device)),
            "the same script ran on the A6000; the guide has no memory model");
  struct setting {
    const batch_plan& plan;
    double batch;
    double factor;
  };
  for (const setting& s : {setting{in.on_2, 32, 2}, setting{in.on_4, 64, 4}}) {
    const std::int64_t gpus = s.plan.data_parallel;
    const std::string row = h100s(gpus);
    t.compare(row,
              "global batch",
              "samples",
              number(s.batch, 0),
              number(s.plan.effective_batch()),
              setting_text(s.plan));
    t.compare(row,
              "times that on one GPU",
              "x",
              number(s.factor, 0),
              number(batch_factor(in, s.plan), 2));
    t.also(row,
           "learning rate, linear",
           "x",
           number(rate_factor(in, s.plan, gpuplan::linear_rule{}), 2),
           "SGD (Goyal et al. 2017)");
    t.also(row,
           "learning rate, square root",
           "x",
           number(rate_factor(in, s.plan, gpuplan::square_root_rule{}), 2),
           "Adam, with its betas and epsilon (Malladi et al. 2022)");
    t.also(row,
           "steps for as many samples",
           "x",
           number(1 / batch_factor(in, s.plan), 2),
           "fewer updates at the same number of epochs");
    t.not_computable(
        row, "learning rate", "", nothing(), "the learning rate on one GPU, the optimizer");
    t.not_computable(row, "steps", "", nothing(), "the number of samples and epochs");
    t.also(row,
           "same global batch, fewest accum",
           "",
           settings(same_batch(in, s.plan, gpus)),
           "the micro-batch of one GPU fits here too: accumulation only costs time");
  }
  for (const std::int64_t gpus : counts)
    if (gpus > 1)
      t.also(h100s(gpus),
             "keeps the batch of one GPU",
             "",
             settings(same_batch(in, in.on_1, gpus)),
             gpus == 8 ? "the guide gives no setting for 8" : "");
  return t;
}

}  // namespace guides::a6000_to_h100

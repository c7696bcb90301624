// Guide 003: the hours by a step's time.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "guides/sentence_bert/tables.hpp"

namespace guides::sentence_bert {
namespace {

using gpuplan::gpu_spec;
using gpuplan::roofline_time;
using gpuplan::time_interval;

struct named_card {
  const char* name;
  const gpu_spec& gpu;
};
// The slowest and the fastest of these guides' cards that teams of this size have eight of.
constexpr named_card cards[] = {{"RTX 2080 Ti", gpuplan::catalog::rtx_2080_ti},
                                {"RTX 4090", gpuplan::catalog::rtx_4090}};

/// Where 80 % of DDP's runs lie, over its micro-batches.
range<double> hours_on(const inputs& in, const gpu_spec& gpu, std::int64_t gpus, bool mixed) {
  const roofline_time model{.setup = pairs(in, mixed),
                            .on = {.gpu = gpu, .gpus_per_node = gpus},
                            .efficiency = gpuplan::catalog::efficiency_of(gpu)};
  const auto of = [&](std::int64_t micro_batch) {
    const gpuplan::batch_plan plan{.micro_batch = micro_batch, .data_parallel = gpus};
    const time_interval step = step_interval(model, plan);
    const double steps = static_cast<double>(in.samples * in.ddp.epochs) /
                         static_cast<double>(plan.effective_batch());
    return range<double>(steps * gpuplan::in(step.low, 1_h), steps * gpuplan::in(step.high, 1_h));
  };
  const range<double> small = of(in.ddp.micro_batch.low());
  const range<double> large = of(in.ddp.micro_batch.high());
  return {small.low() < large.low() ? small.low() : large.low(),
          small.high() > large.high() ? small.high() : large.high()};
}

}  // namespace

void add_likely_hours(table& t, const inputs& in) {
  for (const named_card& one : cards)
    for (const bool mixed : {false, true}) {
      const std::string row = std::string(one.name) + (mixed ? ", AMP" : ", FP32");
      t.compare(row,
                "one GPU, 80 %",
                "h",
                number(10),
                span_of(hours_on(in, one.gpu, 1, mixed), 2),
                "DDP's run of BERT base on pairs; the guide names no card");
      t.compare(row,
                "DDP on all, 80 %",
                "h",
                span_of({1.5, 2}, 1),
                span_of(hours_on(in, one.gpu, in.gpus, mixed), 2));
    }
  t.not_computable("any card",
                   "DP on all, 80 %",
                   "h",
                   span_of({2, 3}, 0),
                   "what one process that drives all GPUs loses, which nobody here has timed");
}

std::string finding_of_the_hours(const inputs& in) {
  const auto on = [&](const named_card& card, std::int64_t gpus) {
    return text(span_of(hours_on(in, card.gpu, gpus, true), gpus == 1 ? 1 : 2));
  };
  return "By a step's time with AMP, 80 % of DDP's runs take " + on(cards[0], 1) +
         " h on one RTX 2080 Ti and " + on(cards[1], 1) + " h on one RTX 4090, " +
         on(cards[0], in.gpus) + " and " + on(cards[1], in.gpus) +
         " h on eight. The guide's 10 h and 1.5–2 h lie far outside: its GPUs wait for something, "
         "such "
         "as tokenising in the training loop.";
}

}  // namespace guides::sentence_bert

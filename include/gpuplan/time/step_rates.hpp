#pragma once

// What a step of a given time achieves: tokens, FLOPs, and the share of the dense peak.

#include <gpuplan/batch.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/time/layers.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// What one optimizer step achieves.
struct step_rates {
  token_rate tokens{};      // of all devices together; of an encoder-decoder the encoder's
  compute_rate model{};     // of each device: the forward and the backward pass,
  compute_rate hardware{};  // and what the backward pass computes again
  double mfu = 0;           // `model` over the dense peak of the format of linear layers
  double hfu = 0;           // `hardware` likewise
};

/// What a step of this plan achieves in `step`, by `flops`. HFU counts recomputation that the setup
/// asks for, and not the scores that fused attention computes again, as papers have it; of
/// `saves_costly_results` it counts all of a layer. Preconditions: model, layout and plan are
/// valid, the device has a dense peak for the format, a step takes more than no time.
[[nodiscard]] constexpr step_rates rates_of(const training_setup& setup,
                                            const gpu_spec& gpu,
                                            const batch_plan& plan,
                                            duration step,
                                            attention_pairs pairs = attention_pairs::full) {
  const training_pass pass{.sequence_length = setup.sequence_length,
                           .decoder_sequence_length = setup.target_length,
                           .trains = setup.trains,
                           .recompute = setup.recompute,
                           .recompute_stops_early = detail::stops_early(setup.framework),
                           .fused_attention = false,
                           .pairs = pairs};
  const transformer model = setup.trained_model();
  const flop_counts each = flops(model, pass);
  const parallelism& layout = setup.parallelism;
  const std::int64_t devices = plan.data_parallel * layout.tensor_parallel *
                               layout.pipeline_parallel * layout.context_parallel;
  const std::int64_t sequences = plan.effective_batch() * setup.encodings;
  const flop_count again = detail::recomputed_share(setup, layout) * each.recomputed();
  const compute_rate dense = *peak(gpu, format_of_linears(setup.precision));
  step_rates rates{.tokens = tokens_per(sequences * tokens_of(model, pass), step),
                   .model = achieved_rate(sequences * each.model(), step, devices),
                   .hardware = achieved_rate(sequences * (each.model() + again), step, devices)};
  rates.mfu = utilisation(rates.model, dense);
  rates.hfu = utilisation(rates.hardware, dense);
  return rates;
}

}  // namespace gpuplan

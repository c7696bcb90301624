#pragma once

// How a model is divided among GPUs, and what of its forward pass is computed twice. The
// data-parallel size is in the batch_plan alone.

#include <gpuplan/result.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// What is recomputed in the backward pass instead of kept (Korthikanti et al. 2022, arXiv
/// 2205.05198, sections 4 and 5).
enum class recompute_mode {
  none,
  selective,  // scores, softmax and weighted values
  full        // every layer, from its input
};

/// In which order a pipeline's stages do their forwards and backwards.
enum class pipeline_schedule {
  one_f_one_b,  // a backward as soon as there is one (PipeDream-Flush, arXiv 2006.09503);
                // interleaved where a stage has several chunks (Narayanan et al. 2021, 2104.04473)
  gpipe,        // all forwards, then all backwards (Huang et al. 2018, arXiv 1811.06965)
  zero_bubble   // ZB-H1: weights' gradients where it would wait (Qi et al. 2023, arXiv 2401.10241)
};

/// The degrees of model parallelism. Comments name Megatron-Core's options where they are called
/// otherwise.
struct parallelism {
  std::int64_t tensor_parallel = 1;    // tensor_model_parallel_size
  std::int64_t pipeline_parallel = 1;  // pipeline_model_parallel_size
  // Of the routed experts; inside data parallelism: expert_model_parallel_size.
  std::int64_t expert_parallel = 1;
  // Model chunks of a stage, interleaved: virtual_pipeline_model_parallel_size.
  std::int64_t virtual_pipeline = 1;
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  std::int64_t context_parallel = 1;  // parts of a sequence: context_parallel_size
  // Stages are equally long where the embedding and the head count as a layer each:
  // account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split. Else the layers
  // alone are divided.
  bool ends_are_layers = false;
  // Stages are equally long by what they compute, where the head counts as so many layers: each
  // ends with the layer that takes it beyond its share (nanotron). 0: by the number of layers.
  double head_in_layers = 0;
  bool sequence_parallel =
      false;  // norms and residuals along the sequence, within tensor parallelism
  // Tensor-parallel ranks keep a part each of recomputed inputs: distribute_saved_activations.
  bool shares_kept_inputs = false;
  // What data-parallel ranks share (ZeRO): 1 optimizer states, 2 gradients too (FSDP's
  // SHARD_GRAD_OP), 3 weights too (FSDP's full shard).
  int zero_stage = 0;
  std::int64_t shard_group = 0;  // ranks that share; 0: all data-parallel ones (else hybrid shard)
  // Its states, its weights and its step: DeepSpeed's offload_optimizer (ZeRO-Offload).
  bool optimizer_on_host = false;
  // And the model's weights, which come for their layers alone; gradients go there as they are
  // reduced (fully_shard's CPUOffloadPolicy).
  bool weights_on_host = false;

  friend constexpr bool operator==(const parallelism&, const parallelism&) = default;
};

/// One place in the layout, counted from 0.
struct model_rank {
  std::int64_t stage = 0;
  std::int64_t tensor_rank = 0;
  std::int64_t expert_rank = 0;

  friend constexpr bool operator==(const model_rank&, const model_rank&) = default;
};

/// The layers of one pipeline stage, `first <= layer < last`.
struct layer_range {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] constexpr std::int64_t size() const { return last - first; }
  friend constexpr bool operator==(const layer_range&, const layer_range&) = default;
};

/// Which of a model's layers a pipeline stage has: all layers, an encoder's before the decoder's,
/// in order. Where they cannot be divided equally, the last stages have fewer, or none (DeepSpeed's
/// partition by layers).
[[nodiscard]] constexpr layer_range layers_of_stage(const parallelism& layout,
                                                    std::int64_t layers,
                                                    std::int64_t stage) {
  const std::int64_t stages = layout.pipeline_parallel;
  if (layout.head_in_layers > 0) {
    const double share =
        (static_cast<double>(layers) + layout.head_in_layers) / static_cast<double>(stages);
    const auto layers_before = [&](std::int64_t which) {
      if (which == 0) return std::int64_t{0};
      const auto before = static_cast<std::int64_t>(static_cast<double>(which) * share) + 1;
      return which < stages && before < layers ? before : layers;
    };
    return {layers_before(stage), layers_before(stage + 1)};
  }
  const std::int64_t end = layout.ends_are_layers ? 1 : 0;
  const std::int64_t places = (layers + 2 * end + stages - 1) / stages;
  const auto layers_before = [&](std::int64_t which) {
    const std::int64_t before = which == 0 ? 0 : which * places - end;
    return before < layers ? before : layers;
  };
  return {layers_before(stage), layers_before(stage + 1)};
}

/// The layout itself where every degree and `virtual_pipeline` are from 1 to 2^20, `zero_stage`
/// from 0 to 3, `shard_group` from 0 to 2^20, and no other schedule than 1F1B goes through several
/// chunks of a stage. Errors: `not_positive`, `out_of_bounds`, `no_such_code`.
[[nodiscard]] constexpr result<parallelism> validate(const parallelism& layout) {
  const std::int64_t most = std::int64_t{1} << 20;
  for (const named_fact degree : {named_fact{fact::tensor_parallel, layout.tensor_parallel},
                                  named_fact{fact::pipeline_parallel, layout.pipeline_parallel},
                                  named_fact{fact::expert_parallel, layout.expert_parallel},
                                  named_fact{fact::virtual_pipeline, layout.virtual_pipeline},
                                  named_fact{fact::context_parallel, layout.context_parallel}}) {
    if (degree.value < 1) return failure(errc::not_positive, degree);
    if (degree.value > most)
      return failure(errc::out_of_bounds, degree, named_fact{fact::at_most, most});
  }
  const auto is_from_0_to = [](std::int64_t last, std::int64_t value) {
    return value >= 0 && value <= last;
  };
  if (!is_from_0_to(3, layout.zero_stage))
    return failure(errc::out_of_bounds,
                   named_fact{fact::zero_stage, layout.zero_stage},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, 3});
  if (!is_from_0_to(most, layout.shard_group))
    return failure(errc::out_of_bounds,
                   named_fact{fact::shard_group, layout.shard_group},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, most});
  if (layout.schedule != pipeline_schedule::one_f_one_b && layout.virtual_pipeline > 1)
    return failure(errc::no_such_code,
                   {{fact::virtual_pipeline, layout.virtual_pipeline},
                    {fact::schedule, layout.schedule},
                    {fact::takes, 1}});
  return layout;
}

}  // namespace gpuplan

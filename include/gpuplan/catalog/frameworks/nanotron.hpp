#pragma once

// nanotron.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {
namespace code_names {
inline constexpr code_name nanotron{"nanotron"};
}  // namespace code_names

namespace engine_classes {
/// nanotron's pipeline engines, its sums of gradients in fp32 and its ZeRO-1. Its steps are timed,
/// and `nanotron_reserved` (replay/nanotron.hpp) says what they reserve; `validate` does not take
/// it.
inline constexpr engine_class nanotron{.name = &code_names::nanotron,
                                       .holds = held_states::masters,
                                       .has_own_step = true,
                                       .has_fp32_gradients = true,
                                       .runs_pipelines = true,
                                       .runs_others = false,
                                       .has_all_optimizers = false,
                                       .adds_gradients_in_kernels = false};
}  // namespace engine_classes

namespace catalog {

/// nanotron of the turn of 2024 to 2025, as 891 steps on 8 to 256 H100 were published of it: a
/// LLaMA whose norms, rotary positions and attention are fused kernels, and nothing else. Its costs
/// are of eight of the sources' 15 questions; in the middle of these it is 6.7 % off, of the other
/// seven 7.3, up to 32 GPUs 5.2. In 186 of 611 steps of pipelines through several nodes each
/// message between stages took 0.26 s longer, whatever its size: in 64 of 68 whose tensor-parallel
/// groups are in four nodes, and in 122 of 543 others, by when they ran and not by their layout.
inline constexpr framework nanotron{
    .name = "nanotron",
    .implementation = {.layers = &layer_classes::megatron_core, .builds_in_fp32 = false},
    // 25 MB of bf16 gradients, which are summed in fp32
    .engine = {.is = &engine_classes::nanotron, .bucket_bytes = 50 << 20},
    .costs = {.matmul_rate = 1.04,
              .host_per_operator = 17_us,
              .host_per_collective = 450_us,
              .host_per_rank = 288_us,
              .wait_per_node = 313_us,
              .stalled_send = 0.26_s,
              .network_share = 0.9,
              .host_per_step = 56_ms,
              .hides_parameters = false,
              .contention = 0.23,
              .scatter = 0.12,
              .timed = true}};

inline constexpr listed_framework nanotron_frameworks[] = {{&nanotron}};

}  // namespace catalog
}  // namespace gpuplan

#pragma once

// Models as a person writes them with torch.nn, and LLM Foundry, whose layers are such.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {
namespace catalog {

/// A GPT as a person writes it with torch.nn: one linear layer for query, key and value.
inline constexpr framework torch_gpt{.name = "torch.nn, GPT",
                                     .implementation = {.layers = &layer_classes::gpt},
                                     .costs = eager_torch};

/// A LLaMA likewise, with the fused RMS norm and rotary positions in the format of the query.
inline constexpr framework torch_llama{.name = "torch.nn, LLaMA",
                                       .implementation = {.layers = &layer_classes::llama},
                                       .costs = eager_torch};

/// A LLaMA as many model files have it: norms and rotary positions by hand in fp32, key-value heads
/// copied to all heads.
inline constexpr framework torch_llama_fp32{
    .name = "torch.nn, LLaMA in fp32",
    .implementation = {.layers = &layer_classes::llama,
                       .rms_norm = rms_norm_kind::eager,
                       .rotary = rotary_kind::halves_fp32,
                       .grouped_heads = grouped_heads_kind::repeated},
    .costs = eager_costs};

/// LLM Foundry on FSDP of PyTorch 2.1: MPT with FlashAttention. With older versions of PyTorch its
/// checkpoints re-enter.
inline constexpr framework llm_foundry{.name = "LLM Foundry",
                                       .implementation = {.layers = &layer_classes::gpt},
                                       .engine = engines::fsdp2,
                                       .costs = {.matmul_rate = 1.04,
                                                 .host_per_operator = 62_us,
                                                 .host_per_step = 19_ms,
                                                 .contention = 0.61,
                                                 .scatter = 0.02,
                                                 .timed = true}};

inline constexpr listed_framework torch_frameworks[] = {
    {&torch_gpt, "torch-gpt"},
    {&torch_llama, "torch-llama"},
    {&torch_llama_fp32, "torch-llama-fp32"},
    {&llm_foundry},
};

}  // namespace catalog
}  // namespace gpuplan

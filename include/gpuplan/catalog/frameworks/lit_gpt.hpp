#pragma once

// LitGPT 0.5.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>

namespace gpuplan {
namespace code_names {
inline constexpr code_name lit_gpt{"lit_gpt"};
}  // namespace code_names

namespace detail {

constexpr failure flaw_of_lit_gpt(const transformer& model, const implementation& as) {
  if (const failure why = flaw_of_lone_decoders(model, as); failed(why)) return why;
  if (const failure why = flaw_of_rotation(model, as, false); failed(why)) return why;
  return flaw_if_any({{fact::norm_at, model.norm_at},
                      {fact::qk_norm, model.qk_norm},
                      {fact::sliding_window, model.sliding_window}},
                     {fact::layers, as.layers->name});
}

}  // namespace detail

namespace layer_classes {
/// LitGPT's, with its own adapters.
inline constexpr layer_class lit_gpt{.name = &code_names::lit_gpt,
                                     .flaw_of = detail::flaw_of_lit_gpt,
                                     .code = &eager::library_code,
                                     .has_flash_alone = true,
                                     .has_dropout = false,
                                     .calls_gelu = true,
                                     .trains_parts = false,
                                     .adapts_fused_parts = true};
}  // namespace layer_classes

namespace catalog {

/// LitGPT's own modules and adapters, whose operators are launched by more code than is counted:
/// phi-1.5 with adapters on an A100 takes 97 ms a micro-batch (95 estimated), in four bits 106
/// (115).
inline constexpr software_costs lit_gpt_costs = [] {
  software_costs changed = eager_costs;
  changed.host_per_operator = 97_us;
  return changed;
}();

/// LitGPT 0.5 under Lightning Fabric in bf16-true. Its models differ in its configuration: what of
/// a head is rotated, and Gemma's norms and embedding.
inline constexpr framework lit_gpt{.name = "LitGPT",
                                   .implementation = {.layers = &layer_classes::lit_gpt,
                                                      .rms_norm = rms_norm_kind::eager,
                                                      .grouped_heads = grouped_heads_kind::repeated,
                                                      .logits = logits_kind::to_fp32,
                                                      .builds_in_fp32 = false},
                                   .costs = lit_gpt_costs};

inline constexpr framework lit_gpt_gemma{
    .name = "LitGPT, Gemma",
    .implementation = {.layers = &layer_classes::lit_gpt,
                       .rms_norm = rms_norm_kind::eager_shifted,
                       .grouped_heads = grouped_heads_kind::repeated,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.scales_embedding = true},
                       .builds_in_fp32 = false},
    .costs = lit_gpt_costs};

inline constexpr listed_framework lit_gpt_frameworks[] = {
    {&lit_gpt, "litgpt"},
    {&lit_gpt_gemma, "litgpt-gemma"},
};

}  // namespace catalog
}  // namespace gpuplan

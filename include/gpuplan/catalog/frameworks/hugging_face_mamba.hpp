#pragma once

// State spaces of Hugging Face's transformers 5.23, where no kernels of mamba_ssm are installed.

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
inline constexpr code_name mamba2{"mamba2"};
}  // namespace code_names

namespace detail {
constexpr failure flaw_of_mamba2(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const state_space& mamba = model.mamba;
  const std::int64_t recurrent = model.hybrid_pattern.before(model.hybrid_pattern.size(), 'M');
  if (recurrent != model.num_hidden_layers)
    return without_code(
        {{fact::mamba_layers, recurrent}, layers, {fact::takes, model.num_hidden_layers}});
  transformer alike = model;
  alike.hybrid_pattern = {};
  if (const failure why = flaw_of_lone_decoders(alike, as); failed(why)) return why;
  if (mamba.num_heads % mamba.n_groups != 0)
    return failure(
        errc::does_not_divide,
        {{fact::mamba_groups, mamba.n_groups}, {fact::mamba_num_heads, mamba.num_heads}});
  // Sums of one product are no products of matrices.
  for (const named_fact& length :
       {named_fact{fact::ssm_state_size, mamba.state_size}, {fact::chunk_size, mamba.chunk_size}})
    if (length.value < 2) return without_code({length, layers, {fact::at_least, 2}});
  if (model.norm != norm_kind::rms_norm)
    return without_code({{fact::norm, model.norm}, layers, {fact::takes, norm_kind::rms_norm}});
  return flaw_if_any({{fact::norm_at, model.norm_at}, {fact::lm_head_bias, model.lm_head_bias}},
                     layers);
}
}  // namespace detail

namespace layer_classes {
/// Hugging Face's Mamba-2.
inline constexpr layer_class mamba2{.name = &code_names::mamba2,
                                    .flaw_of = detail::flaw_of_mamba2,
                                    .code = &eager::library_code,
                                    .composes_recurrences = true,
                                    .trains_parts = false};
}  // namespace layer_classes

namespace catalog {

/// Mamba2ForCausalLM.
inline constexpr framework hugging_face_mamba_2{
    .name = "transformers, Mamba2ForCausalLM",
    .implementation = {.layers = &layer_classes::mamba2, .rms_norm = rms_norm_kind::eager},
    .costs = eager_costs};

inline constexpr listed_framework state_space_frameworks[] = {
    {&hugging_face_mamba_2, "mamba-2", {"mamba2", "mamba-2"}}};

}  // namespace catalog
}  // namespace gpuplan

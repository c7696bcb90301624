#pragma once

// Whose code a setup needs, and in which formats it computes: what keeps it from it. Private.

#include <gpuplan/training_setup/description.hpp>

#include <cstdint>

namespace gpuplan::detail {

constexpr failure flaw_of_asked(const asked_property& asked, named_fact beside) {
  if (asked.is_there) return {};
  return flaw_unless({{asked.field, asked.takes}}, beside);
}
constexpr failure flaw_of_properties(const training_setup& setup) {
  const layer_class& code = setup.framework.layers();
  const engine_class& by = *setup.framework.engine.is;
  for (const asked_property& asked : asked_of_layers(code, setup))
    if (const failure why = flaw_of_asked(asked, {fact::layers, code.name}); failed(why))
      return why;
  for (const asked_property& asked : asked_of_engine(by, setup))
    if (const failure why = flaw_of_asked(asked, {fact::sharding, by.name}); failed(why))
      return why;
  return {};
}

// Whether the framework compiles such layers, and such a loss.
constexpr failure flaw_of_compilation(const training_setup& setup) {
  const transformer& model = setup.model;
  const implementation& by = setup.framework.implementation;
  const named_fact compiles_layers{fact::compiles_layers, by.compiles_layers};
  if (!by.compiles_layers) return {};
  if (setup.trains.what != training::full)
    return without_code(
        {{fact::trains, setup.trains.what}, compiles_layers, {fact::takes, training::full}});
  if (setup.parallelism.tensor_parallel > 1)
    return without_code({{fact::tensor_parallel, setup.parallelism.tensor_parallel},
                         compiles_layers,
                         {fact::takes, 1}});
  if (model.norm != norm_kind::rms_norm)
    return without_code(
        {{fact::norm, model.norm}, compiles_layers, {fact::takes, norm_kind::rms_norm}});
  if (!model.norm_affine)
    return without_code({{fact::norm_affine, false}, compiles_layers, {fact::takes, true}});
  if (model.key_value_heads() == model.num_attention_heads)
    return without_code({{fact::num_key_value_heads, model.key_value_heads()},
                         compiles_layers,
                         {fact::at_most, model.num_attention_heads - 1}});
  return {};
}

constexpr failure flaw_of_precision(const training_setup& setup) {
  const precision_recipe& recipe = setup.precision;
  const named_fact sharding{fact::sharding, setup.framework.engine.is->name};
  const named_fact weights{fact::precision_weights, recipe.weights};
  const named_fact compute{fact::precision_compute, recipe.compute};
  const named_fact reduced{fact::precision_reduced, recipe.reduced};
  const named_fact fp32{fact::takes, number_format::fp32};
  const named_fact bf16{fact::takes, number_format::bf16};
  const named_fact fp16{fact::takes, number_format::fp16};
  const engine_class& engine = *setup.framework.engine.is;
  const bool gathers = engine.gathers_weights;
  const bool has_half_weights = is_half(recipe.weights);
  if (recipe.weights != number_format::fp32 && !has_half_weights)
    return without_code({weights, fp32, bf16, fp16});
  if (recipe.compute != number_format::fp32 && recipe.compute != number_format::tf32 &&
      !is_half(recipe.compute))
    return without_code({compute, fp32, {fact::takes, number_format::tf32}, bf16, fp16});
  const layer_class& layers = setup.framework.layers();
  if (recipe.compute == number_format::fp16 && !layers.scales_loss)
    return without_code({compute, {fact::layers, layers.name}, fp32, bf16});
  if (layers.sinks_in_bf16_alone && setup.model.attention_sinks &&
      recipe.compute != number_format::bf16)
    return without_code(
        {compute, {fact::attention_sinks, true}, {fact::layers, layers.name}, bf16});
  if (!gathers && !is_half(recipe.compute) && has_half_weights)
    return without_code({compute, weights, sharding, bf16, fp16});
  const bool casts_alone = gathers && !wraps_adapters(setup) && !is_quantised(setup.trains);
  if (gathers)
    if (const failure why =
            flaw_if_any({{fact::under_autocast, recipe.under_autocast && casts_alone},
                         {fact::master_weights, recipe.master_weights}},
                        sharding);
        failed(why))
      return why;
  if (recipe.reduced != number_format::fp32 && !gathers)
    return without_code({reduced, sharding, fp32});
  if (recipe.reduced != number_format::fp32 && !is_half(recipe.reduced))
    return without_code({reduced, fp32, bf16, fp16});
  if (recipe.master_weights && !has_half_weights)
    return without_code({{fact::master_weights, true}, weights, {fact::takes, false}});
  if (!recipe.master_weights && engine.has_own_step)
    return without_code({{fact::master_weights, false}, sharding, {fact::takes, true}});
  return {};
}

constexpr failure flaw_of_fp8(const training_setup& setup) {
  const precision_recipe& recipe = setup.precision;
  const named_fact layers{fact::layers, setup.framework.layers().name};
  const named_fact fp8 = recipe.fp4_linears ? named_fact{fact::fp4_linears, true}
                                            : named_fact{fact::fp8_linears, recipe.fp8_linears};
  const bool by_engine = setup.framework.layers().quantises_linears;
  const named_fact scaling{fact::scaling, recipe.scaling};
  const named_fact by_tensor{fact::takes, scaling_kind::tensor};
  if (recipe.fp8_linears && recipe.fp4_linears)
    return without_code({fp8, {fact::fp8_linears, true}, {fact::takes, false}});
  if (!quantises_linears(recipe)) {
    if (recipe.scaling != scaling_kind::tensor)
      return without_code({scaling, {fact::fp8_linears, false}, by_tensor});
    return flaw_if_any({{fact::quantised_weights, recipe.quantised_weights}}, fp8);
  }
  if (recipe.compute != number_format::bf16)
    return without_code(
        {{fact::precision_compute, recipe.compute}, fp8, {fact::takes, number_format::bf16}});
  if (by_engine) {
    if (recipe.scaling == scaling_kind::row)
      return without_code({scaling, layers, by_tensor, {fact::takes, scaling_kind::micro}});
    if (recipe.fp4_linears && recipe.scaling != scaling_kind::micro)
      return without_code({scaling, fp8, {fact::takes, scaling_kind::micro}});
    if (recipe.quantised_weights && recipe.weights != number_format::bf16)
      return without_code({{fact::precision_weights, recipe.weights},
                           {fact::quantised_weights, true},
                           {fact::takes, number_format::bf16}});
    return flaw_if_no_multiple({{fact::hidden_size, setup.model.hidden_size}},
                               {fact::fp8_block, 16});
  }
  if (recipe.scaling != scaling_kind::tensor) return without_code({scaling, layers, by_tensor});
  if (setup.parallelism.tensor_parallel > 1)
    return without_code(
        {fp8, {fact::tensor_parallel, setup.parallelism.tensor_parallel}, {fact::takes, false}});
  if (setup.trains.what == training::adapters)
    return without_code({fp8, {fact::trains, setup.trains.what}, {fact::takes, false}});
  const transformer& model = setup.model;
  const std::int64_t head_dim = model.query_dim();
  return flaw_if_no_multiple({{fact::hidden_size, model.hidden_size},
                              {fact::intermediate_size, model.intermediate_size},
                              {fact::query_size, model.num_attention_heads * head_dim},
                              {fact::key_value_size, model.key_value_heads() * head_dim}},
                             {fact::fp8_block, 16});
}

}  // namespace gpuplan::detail

#pragma once

// What most transformers before LLaMA have in common.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

/// The shape with layer norms, an MLP without a gate, and a bias wherever there can be one in a
/// layer: GPT-2, BERT, ViT. What names no function has GELU, since none of them has SiLU. The rest
/// of it stays.
[[nodiscard]] constexpr transformer classic(transformer shape) {
  shape.attention_bias = true;
  shape.attention_out_bias = true;
  shape.gated_mlp = false;
  if (shape.hidden_act == activation_function::silu) shape.hidden_act = activation_function::gelu;
  shape.mlp_bias = true;
  shape.norm = norm_kind::layer_norm;
  shape.norm_bias = true;
  return shape;
}

}  // namespace gpuplan::catalog

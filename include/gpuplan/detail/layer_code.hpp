#pragma once

// Whether a framework has code for the layers of a model.

#include <gpuplan/framework.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>

namespace gpuplan::detail {

constexpr failure without_code(const char* what) { return failure(errc::no_such_code).about(what); }

constexpr bool is_half(number_format format) {
  return format == number_format::bf16 || format == number_format::fp16;
}
constexpr bool is_plain(layer_code code) {
  return code == layer_code::gpt || code == layer_code::llama;
}
constexpr bool is_megatron(layer_code code) { return code == layer_code::megatron_core; }

// Of models as a person writes them with torch.nn.
constexpr failure flaw_of_plain_code(const transformer& model, layer_code code) {
  if (model.gated_mlp != (code == layer_code::llama)) return without_code("gated MLP, or none");
  if (model.fused_qkv != (code == layer_code::gpt))
    return without_code("fused query, key and value");
  if (model.fused_gate_up) return without_code("fused gate");
  if (model.parallel_attention) return without_code("attention beside the MLP");
  if (model.norm_at != norm_position::before || model.norms_per_layer != 2 || !model.final_norm ||
      model.embedding_norm || !model.norm_affine)
    return without_code("norms elsewhere");
  if (model.sliding_window != 0) return without_code("sliding window");
  if (model.head != head_kind::language_model || model.lm_head_bias || model.head_dense)
    return without_code("such a head");
  if (model.type_vocab_size != 0 || model.relative_attention_buckets != 0)
    return without_code("such an embedding");
  if (code == layer_code::llama) return {};
  if (model.qk_norm != qk_norm_scope::none) return without_code("norms of query and key");
  if (model.key_value_heads() != model.num_attention_heads) return without_code("grouped heads");
  return {};
}

constexpr failure flaw_of_torchtitan(const transformer& model) {
  if (!model.gated_mlp) return without_code("plain MLP");
  if (model.attention_bias || model.attention_out_bias || model.mlp_bias ||
      (model.norm_bias && model.norm_affine))
    return without_code("biases");
  if (model.qk_norm != qk_norm_scope::none) return without_code("norms of query and key");
  if (model.position_rows != 0) return without_code("learned positions");
  if (model.has_tied_head()) return without_code("tied head");
  return {};
}

// Whether the framework's layer code has what the model has.
constexpr failure flaw_of_code(const transformer& model, const framework& by) {
  const layer_code code = by.layers;
  model_kind kind = model_kind::decoder;
  if (code == layer_code::bert) kind = model_kind::encoder;
  if (code == layer_code::vit) kind = model_kind::vision;
  if (code == layer_code::t5) kind = model_kind::encoder_decoder;
  if (model.kind != kind) return without_code("kind of model");
  if (code == layer_code::bert || code == layer_code::vit) {
    if (model.gated_mlp) return without_code("gated MLP");
    if (model.norm != norm_kind::layer_norm) return without_code("RMS norms");
    if (model.key_value_heads() * model.query_dim() != model.hidden_size)
      return without_code("heads that make another width");
    if (code == layer_code::vit && model.head != head_kind::classifier)
      return without_code("head without classes");
  }
  if (code == layer_code::torchtitan)
    if (const failure why = flaw_of_torchtitan(model); failed(why)) return why;
  const expert_mixture& moe = model.moe;
  if (moe.num_experts != 0) {
    if (!by.transformer_engine) return without_code("experts");
    if (moe.shared_expert_gate) return without_code("gate of shared experts");
    if (moe.router_bias || model.mlp_bias || !model.gated_mlp) return without_code("such experts");
  }
  if (model.is_latent() && !by.transformer_engine) return without_code("latent attention");
  if (model.attention_sinks) return without_code("attention sinks");
  if (model.mtp_layers != 0) return without_code("multi-token prediction");
  if (model.layer_scale) return without_code("layer scale");
  if (model.embedding_dim != 0) return without_code("narrow embedding");
  if (is_plain(code)) return flaw_of_plain_code(model, code);
  return {};
}

}  // namespace gpuplan::detail

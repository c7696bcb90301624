#pragma once

// Whether a framework has code for the layers of a model.

#include <gpuplan/framework.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan::detail {

// The value there is no code for, what it stands beside, and what would be taken.
constexpr failure without_code(std::initializer_list<named_fact> known) {
  return failure(errc::no_such_code, known);
}
// The first of these that is there (not 0, `false` or `none`), where there is code for none.
constexpr failure flaw_if_any(std::initializer_list<named_fact> fields, named_fact beside) {
  for (const named_fact& field : fields) {
    named_fact taken = field;
    taken.name = fact::takes;
    taken.value = 0;
    if (field.value != 0) return without_code({field, beside, taken});
  }
  return {};
}
// The first of these that is not what alone is taken.
struct taken_alone {
  named_fact field{};
  std::int64_t takes = 1;
};
constexpr failure flaw_unless(std::initializer_list<taken_alone> fields, named_fact beside) {
  for (const taken_alone& one : fields) {
    named_fact taken = one.field;
    taken.name = fact::takes;
    taken.value = one.takes;
    if (one.field.value != one.takes) return without_code({one.field, beside, taken});
  }
  return {};
}
// Likewise where a number must divide others, or be a multiple of one.
constexpr failure flaw_if_indivisible(named_fact number, std::initializer_list<named_fact> wholes) {
  for (const named_fact& whole : wholes)
    if (whole.value % number.value != 0) return failure(errc::does_not_divide, {number, whole});
  return {};
}
constexpr failure flaw_if_no_multiple(std::initializer_list<named_fact> numbers, named_fact of) {
  for (const named_fact& number : numbers)
    if (number.value % of.value != 0) return failure(errc::not_a_multiple, {number, of});
  return {};
}

constexpr bool is_half(number_format format) {
  return format == number_format::bf16 || format == number_format::fp16;
}
constexpr bool is_plain(layer_code code) {
  return code == layer_code::gpt || code == layer_code::llama;
}
constexpr bool is_megatron(layer_code code) { return code == layer_code::megatron_core; }

// Of models as a person writes them with torch.nn.
constexpr failure flaw_of_plain_code(const transformer& model, layer_code code) {
  const named_fact layers{fact::layers, code};
  const bool is_llama = code == layer_code::llama;
  if (model.gated_mlp != is_llama)
    return without_code({{fact::gated_mlp, model.gated_mlp}, layers, {fact::takes, is_llama}});
  if (model.fused_qkv == is_llama)
    return without_code({{fact::fused_qkv, model.fused_qkv}, layers, {fact::takes, !is_llama}});
  if (!model.final_norm)
    return without_code({{fact::final_norm, false}, layers, {fact::takes, true}});
  if (!model.norm_affine)
    return without_code({{fact::norm_affine, false}, layers, {fact::takes, true}});
  if (model.norms_per_layer != 2 && model.norm_at == norm_position::before)
    return without_code({{fact::norms_per_layer, model.norms_per_layer}, layers, {fact::takes, 2}});
  if (model.head != head_kind::language_model)
    return without_code(
        {{fact::head, model.head}, layers, {fact::takes, head_kind::language_model}});
  if (const failure why =
          flaw_if_any({{fact::fused_gate_up, model.fused_gate_up},
                       {fact::parallel_attention, model.parallel_attention},
                       {fact::norm_at, model.norm_at},
                       {fact::embedding_norm, model.embedding_norm},
                       {fact::sliding_window, model.sliding_window},
                       {fact::lm_head_bias, model.lm_head_bias},
                       {fact::head_dense, model.head_dense},
                       {fact::type_vocab_size, model.type_vocab_size},
                       {fact::relative_attention_buckets, model.relative_attention_buckets}},
                      layers);
      failed(why))
    return why;
  if (is_llama) return {};
  if (model.key_value_heads() != model.num_attention_heads)
    return without_code({{fact::num_key_value_heads, model.key_value_heads()},
                         layers,
                         {fact::takes, model.num_attention_heads}});
  return flaw_if_any({{fact::qk_norm, model.qk_norm}}, layers);
}

constexpr failure flaw_of_torchtitan(const transformer& model) {
  const named_fact layers{fact::layers, layer_code::torchtitan};
  if (!model.gated_mlp)
    return without_code({{fact::gated_mlp, false}, layers, {fact::takes, true}});
  return flaw_if_any({{fact::attention_bias, model.attention_bias},
                      {fact::attention_out_bias, model.attention_out_bias},
                      {fact::mlp_bias, model.mlp_bias},
                      {fact::norm_bias, model.norm_bias && model.norm_affine},
                      {fact::parallel_attention, model.parallel_attention},
                      {fact::fused_qkv, model.fused_qkv},
                      {fact::fused_gate_up, model.fused_gate_up},
                      {fact::tied_embeddings, model.has_tied_head()}},
                     layers);
}

// One matrix for each of query, key and value, of as many heads, and layer norms with biases.
constexpr failure flaw_of_first_decoders(const transformer& model, layer_code code) {
  const named_fact layers{fact::layers, code};
  const bool is_gptj = code == layer_code::gptj;
  const bool is_neox = code == layer_code::gpt_neox;
  const bool is_parallel = is_gptj || is_neox;
  if (const failure why = flaw_unless(
          {{{fact::gated_mlp, model.gated_mlp}, false},
           {{fact::norm, model.norm}, static_cast<std::int64_t>(norm_kind::layer_norm)},
           {{fact::norm_bias, model.norm_bias}, true},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::parallel_attention, model.parallel_attention}, is_parallel},
           {{fact::norms_per_layer, model.norms_per_layer}, is_gptj ? 1 : 2},
           {{fact::fused_qkv, model.fused_qkv}, code == layer_code::gpt2 || is_neox},
           {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads},
           {{fact::mlp_bias, model.mlp_bias}, true}},
          layers);
      failed(why))
    return why;
  if (is_neox)
    return flaw_unless(
        {{{fact::attention_out_bias, model.attention_out_bias}, model.attention_bias}}, layers);
  return flaw_unless({{{fact::attention_bias, model.attention_bias}, !is_gptj},
                      {{fact::attention_out_bias, model.attention_out_bias}, !is_gptj}},
                     layers);
}

// LlamaForCausalLM and its kin, told apart by what their frameworks say.
constexpr failure flaw_of_decoder(const transformer& model, const framework& by) {
  const named_fact layers{fact::layers, by.layers};
  const bool is_phi = by.decoder.rotary_parts == rotary_parts_code::in_attention;
  const bool is_phi_3 = by.decoder.rotary_parts == rotary_parts_code::in_rotation;
  const bool is_olmo = by.rms_norm == rms_norm_code::eager_whole;
  const bool is_late_gemma = by.decoder.masks_by_kind && by.decoder.scales_embedding;
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (!is_olmo)
    if (const failure why =
            flaw_unless({{{fact::norm, model.norm},
                          number(is_phi ? norm_kind::layer_norm : norm_kind::rms_norm)},
                         {{fact::norm_affine, model.norm_affine}, true},
                         {{fact::norm_at, model.norm_at},
                          number(is_late_gemma ? norm_position::around : norm_position::before)}},
                        layers);
        failed(why))
      return why;
  if (model.norm_at == norm_position::after_residual || (is_olmo && model.norms_per_layer != 2))
    return without_code(
        {{fact::norm_at, model.norm_at}, layers, {fact::takes, norm_position::before}});
  if (model.qk_norm == qk_norm_scope::full_width && !is_olmo)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::none}});
  const bool norms_heads = by.decoder.masks_by_kind || by.decoder.normalizes_turned_heads;
  if (model.qk_norm == qk_norm_scope::head && !norms_heads)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::none}});
  return flaw_unless({{{fact::gated_mlp, model.gated_mlp}, !is_phi},
                      {{fact::parallel_attention, model.parallel_attention}, is_phi},
                      {{fact::fused_qkv, model.fused_qkv}, is_phi_3},
                      {{fact::fused_gate_up, model.fused_gate_up}, is_phi_3}},
                     layers);
}

// Megatron-Core, whose norms of layers have biases.
constexpr failure flaw_of_megatron_code(const transformer& model) {
  const named_fact layers{fact::layers, layer_code::megatron_core};
  if (model.norm == norm_kind::layer_norm)
    if (const failure why = flaw_unless({{{fact::norm_bias, model.norm_bias}, true}}, layers);
        failed(why))
      return why;
  return flaw_if_any({{fact::parallel_attention, model.parallel_attention},
                      {fact::norm_at, model.norm_at},
                      {fact::lm_head_bias, model.lm_head_bias}},
                     layers);
}

// What is common to decoders: no code of Hugging Face's, LitGPT's or Megatron's has more.
constexpr failure flaw_of_decoders(const transformer& model, const framework& by) {
  const layer_code code = by.layers;
  const named_fact layers{fact::layers, code};
  if (model.head != head_kind::language_model)
    return without_code(
        {{fact::head, model.head}, layers, {fact::takes, head_kind::language_model}});
  if (!model.final_norm)
    return without_code({{fact::final_norm, false}, layers, {fact::takes, true}});
  if (const failure why =
          flaw_if_any({{fact::type_vocab_size, model.type_vocab_size},
                       {fact::relative_attention_buckets, model.relative_attention_buckets}},
                      layers);
      failed(why))
    return why;
  const bool is_of_megatron = is_megatron(code);
  const bool has_table = code == layer_code::gpt2 || code == layer_code::opt;
  if (has_table && model.position_rows == 0)
    return without_code({{fact::position_rows, 0}, layers, {fact::at_least, 1}});
  if (!has_table && !is_of_megatron)
    if (const failure why = flaw_if_any({{fact::position_rows, model.position_rows}}, layers);
        failed(why))
      return why;
  // Megatron-LM's forks have a norm behind the embedding, of no account in memory.
  if (!is_of_megatron)
    if (const failure why = flaw_if_any({{fact::embedding_norm, model.embedding_norm}}, layers);
        failed(why))
      return why;
  switch (code) {
    case layer_code::gpt2:
    case layer_code::opt:
    case layer_code::gpt_neox:
    case layer_code::gptj:
      if (const failure why = flaw_of_first_decoders(model, code); failed(why)) return why;
      return flaw_if_any({{fact::norm_at, model.norm_at}, {fact::qk_norm, model.qk_norm}}, layers);
    case layer_code::decoder:
      return flaw_of_decoder(model, by);
    case layer_code::megatron_core:
      return flaw_of_megatron_code(model);
    default:
      return flaw_if_any({{fact::norm_at, model.norm_at}, {fact::qk_norm, model.qk_norm}}, layers);
  }
}

// Encoders of text, norms behind residuals, and of images, before: with all biases.
constexpr failure flaw_of_encoders(const transformer& model, layer_code code) {
  const norm_position at =
      code == layer_code::bert ? norm_position::after_residual : norm_position::before;
  return flaw_unless({{{fact::norm_at, model.norm_at}, static_cast<std::int64_t>(at)},
                      {{fact::norm_bias, model.norm_bias}, true},
                      {{fact::norm_affine, model.norm_affine}, true},
                      {{fact::attention_bias, model.attention_bias}, true},
                      {{fact::attention_out_bias, model.attention_out_bias}, true},
                      {{fact::mlp_bias, model.mlp_bias}, true}},
                     {fact::layers, code});
}

// Whether the framework's layer code has what the model has.
constexpr failure flaw_of_code(const transformer& model, const framework& by) {
  const layer_code code = by.layers;
  const named_fact layers{fact::layers, code};
  model_kind kind = model_kind::decoder;
  if (code == layer_code::bert) kind = model_kind::encoder;
  if (code == layer_code::vit) kind = model_kind::vision;
  if (code == layer_code::t5) kind = model_kind::encoder_decoder;
  if (model.kind != kind)
    return without_code({{fact::model_kind, model.kind}, layers, {fact::takes, kind}});
  if (code == layer_code::bert || code == layer_code::vit) {
    if (model.gated_mlp)
      return without_code({{fact::gated_mlp, true}, layers, {fact::takes, false}});
    if (model.norm != norm_kind::layer_norm)
      return without_code({{fact::norm, model.norm}, layers, {fact::takes, norm_kind::layer_norm}});
    const std::int64_t heads = model.key_value_heads();
    if (heads * model.query_dim() != model.hidden_size)
      return without_code({{fact::hidden_size, model.hidden_size},
                           {fact::num_key_value_heads, heads},
                           {fact::head_dim, model.query_dim()},
                           layers,
                           {fact::takes, heads * model.query_dim()}});
    if (code == layer_code::vit && model.head != head_kind::classifier)
      return without_code({{fact::head, model.head}, layers, {fact::takes, head_kind::classifier}});
    if (const failure why = flaw_of_encoders(model, code); failed(why)) return why;
  }
  if (model.norm == norm_kind::rms_norm && !model.norm_affine)
    return without_code(
        {{fact::norm_affine, false}, {fact::norm, model.norm}, {fact::takes, true}});
  if (kind == model_kind::decoder && !is_plain(code))
    if (const failure why = flaw_of_decoders(model, by); failed(why)) return why;
  if (code == layer_code::torchtitan)
    if (const failure why = flaw_of_torchtitan(model); failed(why)) return why;
  const expert_mixture& moe = model.moe;
  const named_fact engine{fact::transformer_engine, by.transformer_engine};
  if (!by.transformer_engine)
    if (const failure why = flaw_if_any(
            {{fact::num_experts, moe.num_experts}, {fact::kv_lora_rank, model.mla.kv_lora_rank}},
            engine);
        failed(why))
      return why;
  if (moe.num_experts != 0) {
    const named_fact experts{fact::num_experts, moe.num_experts};
    if (!model.gated_mlp)
      return without_code({{fact::gated_mlp, false}, experts, layers, {fact::takes, true}});
    if (const failure why = flaw_if_any({{fact::shared_expert_gate, moe.shared_expert_gate},
                                         {fact::router_bias, moe.router_bias},
                                         {fact::mlp_bias, model.mlp_bias}},
                                        experts);
        failed(why))
      return why;
  }
  if (const failure why = flaw_if_any({{fact::attention_sinks, model.attention_sinks},
                                       {fact::mtp_layers, model.mtp_layers},
                                       {fact::layer_scale, model.layer_scale},
                                       {fact::embedding_dim, model.embedding_dim}},
                                      layers);
      failed(why))
    return why;
  if (is_plain(code)) return flaw_of_plain_code(model, code);
  return {};
}

}  // namespace gpuplan::detail

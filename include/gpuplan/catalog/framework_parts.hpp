#pragma once

// Implementations and engines, as far as memory and time tell them apart. Operators, orders and
// formats were read from their sources, and checked against recorded steps of the versions named.

#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>

namespace gpuplan::catalog {

namespace implementations {

/// A GPT as a person writes it with torch.nn: one linear layer for query, key and value.
inline constexpr implementation torch_gpt{.layers = &layer_classes::gpt};
/// A LLaMA likewise, with the fused RMS norm and rotary positions in the format of the query.
inline constexpr implementation torch_llama{.layers = &layer_classes::llama};
/// A LLaMA as many model files have it: norms and rotary positions by hand in fp32, key-value heads
/// copied to all heads.
inline constexpr implementation torch_llama_fp32{.layers = &layer_classes::llama,
                                                 .rms_norm = rms_norm_kind::eager,
                                                 .rotary = rotary_kind::halves_fp32,
                                                 .grouped_heads = grouped_heads_kind::repeated};
/// A BERT likewise, with the head for masked tokens.
inline constexpr implementation torch_bert{.layers = &layer_classes::bert,
                                           .encoder = {.shares_head_bias = false}};
/// A ViT likewise, which classifies by the first token.
inline constexpr implementation torch_vit{.layers = &layer_classes::vit};
/// GPT2LMHeadModel.
inline constexpr implementation hugging_face_gpt2{.layers = &layer_classes::gpt2};
/// OPTForCausalLM.
inline constexpr implementation hugging_face_opt{.layers = &layer_classes::opt};
/// GPTNeoXForCausalLM, which rotates a quarter of each head.
inline constexpr implementation hugging_face_gpt_neox{
    .layers = &layer_classes::gpt_neox,
    .decoder = {.rotary_percent = 25, .drops_embedding = true, .holds_undropped_embedding = true}};
/// GPTJForCausalLM, whose table of angles is as long as the sequences.
inline constexpr implementation hugging_face_gptj{.layers = &layer_classes::gptj,
                                                  .decoder = {.most_rotated = 64}};
/// T5ForConditionalGeneration of T5's first version, which scales the decoder's output,
inline constexpr implementation hugging_face_t5{
    .layers = &layer_classes::t5, .rms_norm = rms_norm_kind::eager, .scales_decoder_outputs = true};
/// and of version 1.1 and what followed it.
inline constexpr implementation hugging_face_t5_1_1{.layers = &layer_classes::t5,
                                                    .rms_norm = rms_norm_kind::eager};
/// LlamaForCausalLM; MistralForCausalLM, whose model may have a window.
inline constexpr implementation hugging_face_llama{.layers = &layer_classes::decoder,
                                                   .rms_norm = rms_norm_kind::eager,
                                                   .rotary = rotary_kind::rotate_half,
                                                   .logits = logits_kind::to_fp32};
/// Qwen2ForCausalLM, Qwen3ForCausalLM: layers with a window have a mask of their own.
inline constexpr implementation hugging_face_qwen{.layers = &layer_classes::decoder,
                                                  .rms_norm = rms_norm_kind::eager,
                                                  .rotary = rotary_kind::rotate_half,
                                                  .logits = logits_kind::to_fp32,
                                                  .decoder = {.masks_by_kind = true}};
/// GemmaForCausalLM,
inline constexpr implementation hugging_face_gemma{.layers = &layer_classes::decoder,
                                                   .rms_norm = rms_norm_kind::eager_shifted,
                                                   .rotary = rotary_kind::rotate_half,
                                                   .logits = logits_kind::to_fp32,
                                                   .decoder = {.scales_embedding = true}};
/// Gemma2ForCausalLM,
inline constexpr implementation hugging_face_gemma_2{
    .layers = &layer_classes::decoder,
    .rms_norm = rms_norm_kind::eager_shifted,
    .rotary = rotary_kind::rotate_half,
    .logits = logits_kind::to_fp32,
    .decoder = {
        .masks_by_kind = true, .scales_embedding = true, .caps_scores = true, .caps_logits = true}};
/// Gemma3ForCausalLM.
inline constexpr implementation hugging_face_gemma_3{.layers = &layer_classes::decoder,
                                                     .rms_norm = rms_norm_kind::eager_shifted,
                                                     .rotary = rotary_kind::rotate_half,
                                                     .logits = logits_kind::to_fp32,
                                                     .decoder = {.masks_by_kind = true,
                                                                 .rotates_by_kind = true,
                                                                 .normalizes_turned_heads = true,
                                                                 .scales_embedding = true}};
/// PhiForCausalLM,
inline constexpr implementation hugging_face_phi{
    .layers = &layer_classes::decoder,
    .rotary = rotary_kind::rotate_half,
    .logits = logits_kind::to_fp32,
    .decoder = {.rotary_parts = rotary_parts_kind::in_attention,
                .rotary_percent = 50,
                .builds_rotary_first = true,
                .normalizes_turned_heads = true,
                .drops_embedding = true,
                .drops_residual = true}};
/// Phi3ForCausalLM.
inline constexpr implementation hugging_face_phi_3{
    .layers = &layer_classes::decoder,
    .rms_norm = rms_norm_kind::eager,
    .rotary = rotary_kind::rotate_half,
    .logits = logits_kind::to_fp32,
    .decoder = {.rotary_parts = rotary_parts_kind::in_rotation, .drops_residual = true}};
/// OlmoForCausalLM, Olmo2ForCausalLM.
inline constexpr implementation hugging_face_olmo{
    .layers = &layer_classes::decoder,
    .rms_norm = rms_norm_kind::eager_whole,
    .rotary = rotary_kind::rotate_half,
    .logits = logits_kind::to_fp32,
    .decoder = {.rotates_in_fp32 = true, .views_behind_projections = true}};
/// BertForMaskedLM, BertForSequenceClassification, BertModel.
inline constexpr implementation hugging_face_bert{.layers = &layer_classes::bert,
                                                  .encoder = {.pools = true}};
/// Likewise RoBERTa.
inline constexpr implementation hugging_face_roberta{
    .layers = &layer_classes::bert,
    .encoder = {.positions = position_numbers::counted_after_cache,
                .positions_behind_norm = true,
                .drops_before_dense = true,
                .gelu_in_head = true}};
/// Likewise MPNet, which writes its attention out, with a bias by distance.
inline constexpr implementation hugging_face_mpnet{
    .layers = &layer_classes::bert,
    .encoder = {
        .positions = position_numbers::counted, .drops_before_dense = true, .gelu_in_head = true}};
/// Likewise DistilBERT.
inline constexpr implementation hugging_face_distilbert{
    .layers = &layer_classes::bert, .encoder = {.outputs_inside = true, .shares_head_bias = false}};
/// ViTForImageClassification.
inline constexpr implementation hugging_face_vit{.layers = &layer_classes::vit};
/// CLIPForImageClassification.
inline constexpr implementation hugging_face_clip{
    .layers = &layer_classes::vit,
    .images = {.built = layer_construction::attention_norm_mlp_norm,
               .positions_in_table = true,
               .builds_key_first = true,
               .views_behind_projections = true,
               .adds_to_residual = true,
               .drops_hidden = false,
               .means_patches = true,
               .norms_first_token = true}};
/// SiglipForImageClassification.
inline constexpr implementation hugging_face_siglip{
    .layers = &layer_classes::vit,
    .images = {.built = layer_construction::norm_attention_norm_mlp,
               .positions_in_table = true,
               .builds_key_first = true,
               .adds_to_residual = true,
               .drops_hidden = false,
               .means_patches = true,
               .truncates_weights = true}};
/// LitGPT 0.5 under Lightning Fabric in bf16-true. Its models differ in its configuration: what of
/// a head is rotated, and Gemma's norms and embedding.
inline constexpr implementation lit_gpt{.layers = &layer_classes::lit_gpt,
                                        .rms_norm = rms_norm_kind::eager,
                                        .grouped_heads = grouped_heads_kind::repeated,
                                        .logits = logits_kind::to_fp32,
                                        .builds_in_fp32 = false};
inline constexpr implementation lit_gpt_gemma{.layers = &layer_classes::lit_gpt,
                                              .rms_norm = rms_norm_kind::eager_shifted,
                                              .grouped_heads = grouped_heads_kind::repeated,
                                              .logits = logits_kind::to_fp32,
                                              .decoder = {.scales_embedding = true},
                                              .builds_in_fp32 = false};
/// Megatron-Core 0.16 without Transformer Engine and Apex.
inline constexpr implementation megatron_core{.layers = &layer_classes::megatron_core,
                                              .builds_in_fp32 = false,
                                              .softmax_in_fp32 = true,
                                              .fuses_bias_activation = true};
/// Megatron-Core with Transformer Engine 2.11.
inline constexpr implementation megatron_transformer_engine{.layers = &layer_classes::megatron_core,
                                                            .builds_in_fp32 = false,
                                                            .fuses_bias_activation = true,
                                                            .compiles_functions = true,
                                                            .fuses_loss = true,
                                                            .transformer_engine = true};
/// torchtitan of December 2024.
inline constexpr implementation torchtitan{.layers = &layer_classes::torchtitan,
                                           .rms_norm = rms_norm_kind::eager,
                                           .grouped_heads = grouped_heads_kind::repeated,
                                           .logits = logits_kind::to_fp32};
/// Megatron-DeepSpeed's, of early 2022.
inline constexpr implementation megatron_deepspeed{.layers = &layer_classes::megatron_core,
                                                   .loads_all_kernels = true,
                                                   .builds_in_fp32 = false,
                                                   .fuses_softmax = true,
                                                   .fuses_bias_activation = true,
                                                   .compiles_functions = true};
/// Megatron-LM's, of 2021.
inline constexpr implementation megatron_lm{.layers = &layer_classes::megatron_core,
                                            .builds_in_fp32 = false,
                                            .fuses_softmax = true,
                                            .fuses_bias_activation = true,
                                            .compiles_functions = true};

}  // namespace implementations

namespace engines {

/// DistributedDataParallel, or one device alone.
inline constexpr engine ddp{};
/// fully_shard with its defaults,
inline constexpr engine fsdp2{.is = &engine_classes::fsdp2};
/// and as torchtitan calls it.
inline constexpr engine titan_fsdp2{
    .is = &engine_classes::fsdp2, .keeps_last_layer = true, .gathers_before_checkpoint = true};
/// DeepSpeed with its defaults,
inline constexpr engine deepspeed{.is = &engine_classes::deepspeed};
/// and as Megatron-DeepSpeed of early 2022 had it.
inline constexpr engine megatron_deepspeed{.is = &engine_classes::deepspeed,
                                           .zero = {.flattens_on_host = true,
                                                    .reduces_in_place = true,
                                                    .steps_while_building = true,
                                                    .renews_gradients = true}};
/// Megatron-Core's schedules and distributed optimizer.
inline constexpr engine megatron{.is = &engine_classes::megatron};

}  // namespace engines

}  // namespace gpuplan::catalog

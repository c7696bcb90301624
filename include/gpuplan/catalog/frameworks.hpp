#pragma once

// Frameworks, as far as memory and time tell them apart. Operators, orders and formats were read
// from their sources, and checked against recorded steps of the versions named. Their `costs` were
// fitted to published steps as device_efficiencies.hpp says; where no step of a framework was there
// to fit them to, they are those of its like, and say so.

#include <gpuplan/framework.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

/// PyTorch 2.11 without compilation, fitted to 111 steps of the four models below on one H100
/// (benchmarks/results), in bf16 and fp16: within 10 % of them on average, 13 % of those of a model
/// that the fit does not see, whose fits take 89 to 107 us. That is of one machine's processor.
inline constexpr software_costs eager_torch{.element_traffic = 1.1,
                                            .score_traffic = 2.4,
                                            .host_per_operator = 97_us,
                                            .host_of_backward = 0.47};

/// The same of other code without compilation, whose operators Python launches one by one too, with
/// what torchtitan loses by exchanges beside kernels, which are of the same library. No step of
/// such code was timed but LitGPT's: phi-1.5 with adapters on an A100 takes 97 ms a micro-batch (95
/// estimated), in four bits 106 (115).
inline constexpr software_costs eager_code = [] {
  software_costs changed = eager_torch;
  changed.contention = 0.105;
  changed.of_its_like = true;
  return changed;
}();
/// Likewise of LLaMA and its like, with what torchtitan, the published code most like it, loses of
/// its products and once a step.
inline constexpr software_costs eager_decoder = [] {
  software_costs changed = eager_code;
  changed.matmul_rate = 0.95;
  changed.host_per_step = 60_ms;
  return changed;
}();

/// A GPT as a person writes it with torch.nn: one linear layer for query, key and value.
inline constexpr framework torch_gpt{
    .name = "torch.nn, GPT", .layers = layer_code::gpt, .costs = eager_torch};
/// A LLaMA likewise, with the fused RMS norm and rotary positions in the format of the query.
inline constexpr framework torch_llama{
    .name = "torch.nn, LLaMA", .layers = layer_code::llama, .costs = eager_torch};
/// A LLaMA as many model files have it: norms and rotary positions by hand in fp32, key-value heads
/// copied to all heads.
inline constexpr framework torch_llama_fp32{.name = "torch.nn, LLaMA in fp32",
                                            .layers = layer_code::llama,
                                            .rms_norm = rms_norm_code::eager,
                                            .rotary = rotary_code::halves_fp32,
                                            .grouped_heads = grouped_heads_code::repeated,
                                            .costs = eager_code};
/// A BERT likewise, with the head for masked tokens.
inline constexpr framework torch_bert{.name = "torch.nn, BERT",
                                      .layers = layer_code::bert,
                                      .encoder = {.shares_head_bias = false},
                                      .costs = eager_torch};
/// A ViT likewise, which classifies by the first token.
inline constexpr framework torch_vit{
    .name = "torch.nn, ViT", .layers = layer_code::vit, .costs = eager_torch};

// transformers 5.23.

/// GPT2LMHeadModel.
inline constexpr framework hugging_face_gpt2{
    .name = "transformers, GPT2LMHeadModel", .layers = layer_code::gpt2, .costs = eager_code};

/// OPTForCausalLM.
inline constexpr framework hugging_face_opt{
    .name = "transformers, OPTForCausalLM", .layers = layer_code::opt, .costs = eager_code};

/// GPTNeoXForCausalLM, which rotates a quarter of each head.
inline constexpr framework hugging_face_gpt_neox{
    .name = "transformers, GPTNeoXForCausalLM",
    .layers = layer_code::gpt_neox,
    .decoder = {.rotary_percent = 25, .drops_embedding = true, .holds_undropped_embedding = true},
    .costs = eager_code};

/// GPTJForCausalLM, whose table of angles is as long as the sequences.
inline constexpr framework hugging_face_gptj{.name = "transformers, GPTJForCausalLM",
                                             .layers = layer_code::gptj,
                                             .decoder = {.most_rotated = 64},
                                             .costs = eager_code};

/// T5ForConditionalGeneration of T5's first version, which scales the decoder's output,
inline constexpr framework hugging_face_t5{.name = "transformers, T5ForConditionalGeneration",
                                           .layers = layer_code::t5,
                                           .rms_norm = rms_norm_code::eager,
                                           .scales_decoder_outputs = true,
                                           .costs = eager_code};
/// and of version 1.1 and what followed it.
inline constexpr framework hugging_face_t5_1_1{
    .name = "transformers, T5ForConditionalGeneration 1.1",
    .layers = layer_code::t5,
    .rms_norm = rms_norm_code::eager,
    .costs = eager_code};

/// LlamaForCausalLM; MistralForCausalLM, whose model may have a window.
inline constexpr framework hugging_face_llama{.name = "transformers, LlamaForCausalLM",
                                              .layers = layer_code::decoder,
                                              .rms_norm = rms_norm_code::eager,
                                              .rotary = rotary_code::rotate_half,
                                              .logits = logits_code::to_fp32,
                                              .costs = eager_decoder};
/// Qwen2ForCausalLM, Qwen3ForCausalLM: layers with a window have a mask of their own.
inline constexpr framework hugging_face_qwen{.name = "transformers, Qwen2ForCausalLM",
                                             .layers = layer_code::decoder,
                                             .rms_norm = rms_norm_code::eager,
                                             .rotary = rotary_code::rotate_half,
                                             .logits = logits_code::to_fp32,
                                             .decoder = {.masks_by_kind = true},
                                             .costs = eager_decoder};
/// GemmaForCausalLM,
inline constexpr framework hugging_face_gemma{.name = "transformers, GemmaForCausalLM",
                                              .layers = layer_code::decoder,
                                              .rms_norm = rms_norm_code::eager_shifted,
                                              .rotary = rotary_code::rotate_half,
                                              .logits = logits_code::to_fp32,
                                              .decoder = {.scales_embedding = true},
                                              .costs = eager_decoder};
/// Gemma2ForCausalLM,
inline constexpr framework hugging_face_gemma_2{.name = "transformers, Gemma2ForCausalLM",
                                                .layers = layer_code::decoder,
                                                .rms_norm = rms_norm_code::eager_shifted,
                                                .rotary = rotary_code::rotate_half,
                                                .logits = logits_code::to_fp32,
                                                .decoder = {.masks_by_kind = true,
                                                            .scales_embedding = true,
                                                            .caps_scores = true,
                                                            .caps_logits = true},
                                                .costs = eager_decoder};
/// Gemma3ForCausalLM.
inline constexpr framework hugging_face_gemma_3{.name = "transformers, Gemma3ForCausalLM",
                                                .layers = layer_code::decoder,
                                                .rms_norm = rms_norm_code::eager_shifted,
                                                .rotary = rotary_code::rotate_half,
                                                .logits = logits_code::to_fp32,
                                                .decoder = {.masks_by_kind = true,
                                                            .rotates_by_kind = true,
                                                            .normalizes_turned_heads = true,
                                                            .scales_embedding = true},
                                                .costs = eager_decoder};
/// PhiForCausalLM,
inline constexpr framework hugging_face_phi{
    .name = "transformers, PhiForCausalLM",
    .layers = layer_code::decoder,
    .rotary = rotary_code::rotate_half,
    .logits = logits_code::to_fp32,
    .decoder = {.rotary_parts = rotary_parts_code::in_attention,
                .rotary_percent = 50,
                .builds_rotary_first = true,
                .normalizes_turned_heads = true,
                .drops_embedding = true,
                .drops_residual = true},
    .costs = eager_decoder};
/// Phi3ForCausalLM.
inline constexpr framework hugging_face_phi_3{
    .name = "transformers, Phi3ForCausalLM",
    .layers = layer_code::decoder,
    .rms_norm = rms_norm_code::eager,
    .rotary = rotary_code::rotate_half,
    .logits = logits_code::to_fp32,
    .decoder = {.rotary_parts = rotary_parts_code::in_rotation, .drops_residual = true},
    .costs = eager_decoder};
/// OlmoForCausalLM, Olmo2ForCausalLM.
inline constexpr framework hugging_face_olmo{
    .name = "transformers, OlmoForCausalLM",
    .layers = layer_code::decoder,
    .rms_norm = rms_norm_code::eager_whole,
    .rotary = rotary_code::rotate_half,
    .logits = logits_code::to_fp32,
    .decoder = {.rotates_in_fp32 = true, .views_behind_projections = true},
    .costs = eager_decoder};

/// BertForMaskedLM, BertForSequenceClassification, BertModel.
inline constexpr framework hugging_face_bert{.name = "transformers, BERT",
                                             .layers = layer_code::bert,
                                             .encoder = {.pools = true},
                                             .costs = eager_code};
/// Likewise RoBERTa.
inline constexpr framework hugging_face_roberta{
    .name = "transformers, RoBERTa",
    .layers = layer_code::bert,
    .encoder = {.positions = position_numbers::counted_after_cache,
                .positions_behind_norm = true,
                .drops_before_dense = true,
                .gelu_in_head = true},
    .costs = eager_code};
/// Likewise MPNet, which writes its attention out, with a bias by distance.
inline constexpr framework hugging_face_mpnet{.name = "transformers, MPNet",
                                              .layers = layer_code::bert,
                                              .encoder = {.positions = position_numbers::counted,
                                                          .drops_before_dense = true,
                                                          .gelu_in_head = true},
                                              .costs = eager_code};
/// Likewise DistilBERT.
inline constexpr framework hugging_face_distilbert{
    .name = "transformers, DistilBERT",
    .layers = layer_code::bert,
    .encoder = {.outputs_inside = true, .shares_head_bias = false},
    .costs = eager_code};

/// ViTForImageClassification.
inline constexpr framework hugging_face_vit{
    .name = "transformers, ViT", .layers = layer_code::vit, .costs = eager_code};
/// CLIPForImageClassification.
inline constexpr framework hugging_face_clip{
    .name = "transformers, CLIP",
    .layers = layer_code::vit,
    .images = {.built = layer_construction::attention_norm_mlp_norm,
               .positions_in_table = true,
               .builds_key_first = true,
               .views_behind_projections = true,
               .adds_to_residual = true,
               .drops_hidden = false,
               .means_patches = true,
               .norms_first_token = true},
    .costs = eager_code};
/// SiglipForImageClassification.
inline constexpr framework hugging_face_siglip{
    .name = "transformers, SigLIP",
    .layers = layer_code::vit,
    .images = {.built = layer_construction::norm_attention_norm_mlp,
               .positions_in_table = true,
               .builds_key_first = true,
               .adds_to_residual = true,
               .drops_hidden = false,
               .means_patches = true,
               .truncates_weights = true},
    .costs = eager_code};

/// LitGPT 0.5 under Lightning Fabric in bf16-true. Its models differ in its configuration: what of
/// a head is rotated, and Gemma's norms and embedding.
inline constexpr framework lit_gpt{.name = "LitGPT",
                                   .layers = layer_code::lit_gpt,
                                   .rms_norm = rms_norm_code::eager,
                                   .grouped_heads = grouped_heads_code::repeated,
                                   .logits = logits_code::to_fp32,
                                   .builds_in_fp32 = false,
                                   .costs = eager_code};
inline constexpr framework lit_gpt_gemma{.name = "LitGPT, Gemma",
                                         .layers = layer_code::lit_gpt,
                                         .rms_norm = rms_norm_code::eager_shifted,
                                         .grouped_heads = grouped_heads_code::repeated,
                                         .logits = logits_code::to_fp32,
                                         .decoder = {.scales_embedding = true},
                                         .builds_in_fp32 = false,
                                         .costs = eager_code};

/// Megatron-Core's layers, as Megatron-Bridge's published steps have them.
inline constexpr software_costs megatron_costs{.element_traffic = 4.2,
                                               .host_per_operator = 178_us,
                                               .host_per_step = 22_ms,
                                               .hides_gradients = false,
                                               .hides_parameters = false};
/// Megatron-Core 0.16 without Transformer Engine and Apex: softmax and its mask written out, the
/// activation a function of its own.
inline constexpr framework megatron_core{.name = "Megatron-Core",
                                         .layers = layer_code::megatron_core,
                                         .sharding = sharding_code::megatron,
                                         .builds_in_fp32 = false,
                                         .softmax_in_fp32 = true,
                                         .fuses_bias_activation = true,
                                         .costs = [] {
                                           software_costs changed = megatron_costs;
                                           changed.of_its_like = true;
                                           return changed;
                                         }()};
/// Megatron-Core with Transformer Engine 2.11, whose fused loss it uses, and gradients of weights
/// that products add into the buffers.
inline constexpr framework megatron_transformer_engine{.name = "Megatron-Core, Transformer Engine",
                                                       .layers = layer_code::megatron_core,
                                                       .sharding = sharding_code::megatron,
                                                       .builds_in_fp32 = false,
                                                       .fuses_bias_activation = true,
                                                       .compiles_functions = true,
                                                       .fuses_loss = true,
                                                       .transformer_engine = true,
                                                       .costs = megatron_costs};

/// torchtitan of December 2024, on fully_shard of PyTorch 2.15: key-value heads are copied to all
/// heads, and logits are in fp32 for the loss. Not compiled; a setup says `compiles_layers`. Of a
/// ring of context-parallel ranks only their shares of tokens and weights are counted: 5 % below
/// four published peaks.
inline constexpr framework torchtitan{.name = "torchtitan",
                                      .layers = layer_code::torchtitan,
                                      .rms_norm = rms_norm_code::eager,
                                      .grouped_heads = grouped_heads_code::repeated,
                                      .logits = logits_code::to_fp32,
                                      .sharding = sharding_code::fsdp2,
                                      .keeps_last_layer = true,
                                      .gathers_before_checkpoint = true,
                                      .costs = {.matmul_rate = 0.95,
                                                .element_traffic = 1,
                                                .host_per_operator = 16_us,
                                                .host_per_step = 60_ms,
                                                .contention = 0.105}};
/// torchtitan of 2025, which compiles the loss where it compiles layers.
inline constexpr framework torchtitan_2025 = [] {
  framework changed = torchtitan;
  changed.compiles_loss = true;
  return changed;
}();

/// torchtitan that takes tensor-parallel products apart, to exchange one part while the next is
/// computed.
inline constexpr framework torchtitan_async = [] {
  framework changed = torchtitan;
  changed.name = "torchtitan, async tensor parallelism";
  changed.costs.hidden_tensor_communication = 0.3;
  return changed;
}();

/// Megatron-DeepSpeed as BigScience trained BLOOM with it (early 2022): DeepSpeed's pipeline engine
/// and ZeRO-1 or its optimizer for bf16, Megatron-LM's layers and fused kernels.
inline constexpr framework megatron_deepspeed{.name = "Megatron-DeepSpeed",
                                              .layers = layer_code::megatron_core,
                                              .sharding = sharding_code::deepspeed,
                                              .loads_all_kernels = true,
                                              .builds_in_fp32 = false,
                                              .fuses_softmax = true,
                                              .fuses_bias_activation = true,
                                              .compiles_functions = true,
                                              .zero = {.flattens_on_host = true,
                                                       .reduces_in_place = true,
                                                       .steps_while_building = true,
                                                       .renews_gradients = true},
                                              .costs = {.element_traffic = 4,
                                                        .score_traffic = 1.5,
                                                        .host_per_operator = 469_us,
                                                        .hides_gradients = false,
                                                        .hides_parameters = false}};

/// Megatron-DeepSpeed with ZeRO-3 of 2021, and transformers' GPT-2 with it: weights are gathered
/// one parameter after the other, and waited for.
inline constexpr framework megatron_deepspeed_zero_3 = [] {
  framework changed = megatron_deepspeed;
  changed.name = "Megatron-DeepSpeed, ZeRO-3";
  changed.costs.matmul_rate = 0.86;
  changed.costs.hides_gathers = false;
  changed.costs.gathered_at_most = 6.3_GBps;
  return changed;
}();
inline constexpr framework hugging_face_gpt2_zero_3 = [] {
  framework changed = hugging_face_gpt2;
  changed.name = "transformers, GPT2LMHeadModel, ZeRO-3";
  changed.sharding = sharding_code::deepspeed;
  changed.costs = {.hides_gathers = false, .gathered_at_most = 4.4_GBps};
  return changed;
}();

/// LLM Foundry on FSDP of PyTorch 2.1: MPT with FlashAttention. With older versions of PyTorch its
/// checkpoints re-enter.
inline constexpr framework llm_foundry{.name = "LLM Foundry",
                                       .layers = layer_code::gpt,
                                       .sharding = sharding_code::fsdp2,
                                       .costs = {.element_traffic = 1.11,
                                                 .host_per_operator = 62_us,
                                                 .host_per_step = 40_ms,
                                                 .contention = 0.51}};

/// Megatron-LM of 2021: its fused kernels, gradients reduced behind the backward pass.
inline constexpr framework megatron_lm{.name = "Megatron-LM",
                                       .layers = layer_code::megatron_core,
                                       .sharding = sharding_code::megatron,
                                       .builds_in_fp32 = false,
                                       .fuses_softmax = true,
                                       .fuses_bias_activation = true,
                                       .compiles_functions = true,
                                       .costs = {.element_traffic = 0.71,
                                                 .score_traffic = 1.49,
                                                 .host_per_operator = 268_us,
                                                 .hides_gradients = false,
                                                 .hides_parameters = false}};

/// Megatron-LM's layers as a profiler timed them one by one, with the host's part of each (vTrain,
/// arXiv 2312.12391, composes steps of them).
inline constexpr framework megatron_lm_profiled = [] {
  framework changed = megatron_lm;
  changed.name = "Megatron-LM, profiled";
  changed.costs.element_traffic = 2.55;
  changed.costs.score_traffic = 1.36;
  changed.costs.host_per_operator = 169_us;
  changed.costs.host_of_backward = 0.357;
  changed.costs.host_per_step = 0.73_ms;
  changed.costs.hidden_pipeline_communication = 1;
  changed.costs.launches_ahead = false;
  return changed;
}();

/// DeepSpeed's ZeRO-3 of 2021 beside Megatron-LM's layers, as the paper of the latter measured it:
/// it gathered weights one parameter after the other, and waited.
inline constexpr framework megatron_zero_3 = [] {
  framework changed = megatron_lm;
  changed.name = "Megatron-LM, ZeRO-3";
  changed.sharding = sharding_code::deepspeed;
  changed.costs.hides_gradients = true;
  changed.costs.hides_parameters = true;
  changed.costs.hides_gathers = false;
  changed.costs.gathered_at_most = 41.6_GBps;
  return changed;
}();

/// Megatron-Bridge, whose recipes hide exchanges behind kernels, and its releases since 26.06,
/// which launch more of a step at once.
inline constexpr framework megatron_bridge = [] {
  framework changed = megatron_transformer_engine;
  changed.name = "Megatron-Bridge";
  changed.overlaps_reduction = true;
  changed.costs = {.element_traffic = 4.92,
                   .host_per_operator = 264_us,
                   .host_per_step = 274_ms,
                   .hidden_tensor_communication = 0.37,
                   .hidden_expert_communication = 0.83,
                   .hidden_pipeline_communication = 0.5};
  return changed;
}();
inline constexpr framework megatron_bridge_2606 = [] {
  framework changed = megatron_bridge;
  changed.name = "Megatron-Bridge 26.06";
  changed.costs.element_traffic = 2.39;
  changed.costs.host_per_operator = 134_us;
  changed.costs.host_per_step = 203_ms;
  changed.costs.hidden_expert_communication = 1;
  return changed;
}();

}  // namespace gpuplan::catalog

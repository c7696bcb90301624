#pragma once

// Frameworks, as far as memory and time tell them apart. Operators, orders and formats were read
// from their sources, and checked against recorded steps of the versions named. Their `costs` were
// fitted to published steps as device_efficiencies.hpp says; where no step of a framework was there
// to fit them to, they are those of its like, and say so.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

/// PyTorch 2.11 without compilation, fitted to 111 steps of the four models below on one H100
/// (benchmarks/results), in bf16 and fp16: within 10 % of them on average, 13 % of those of a model
/// that the fit does not see, whose fits take 89 to 107 us. That is of one machine's processor.
inline constexpr software_costs eager_torch{.element_traffic = 1.1,
                                            .score_traffic = 2.4,
                                            .host_per_operator = 97_us,
                                            .host_of_backward = 0.47,
                                            .timed = true};

/// The same of other code without compilation, whose operators Python launches one by one too, with
/// what torchtitan loses by exchanges beside kernels, which are of the same library. No step of
/// such code was timed but LitGPT's: phi-1.5 with adapters on an A100 takes 97 ms a micro-batch (95
/// estimated), in four bits 106 (115).
inline constexpr software_costs eager_costs = [] {
  software_costs changed = eager_torch;
  changed.contention = 0.105;
  changed.timed = false;
  return changed;
}();
/// Likewise of LLaMA and its like, with what torchtitan, the published code most like it, loses of
/// its products and once a step.
inline constexpr software_costs eager_decoder = [] {
  software_costs changed = eager_costs;
  changed.matmul_rate = 0.95;
  changed.host_per_step = 60_ms;
  return changed;
}();

inline constexpr framework torch_gpt{
    "torch.nn, GPT", implementations::torch_gpt, engines::ddp, eager_torch};
inline constexpr framework torch_llama{
    "torch.nn, LLaMA", implementations::torch_llama, engines::ddp, eager_torch};
inline constexpr framework torch_llama_fp32{
    "torch.nn, LLaMA in fp32", implementations::torch_llama_fp32, engines::ddp, eager_costs};
inline constexpr framework torch_bert{
    "torch.nn, BERT", implementations::torch_bert, engines::ddp, eager_torch};
inline constexpr framework torch_vit{
    "torch.nn, ViT", implementations::torch_vit, engines::ddp, eager_torch};

// transformers 5.23.

inline constexpr framework hugging_face_gpt2{
    "transformers, GPT2LMHeadModel", implementations::hugging_face_gpt2, engines::ddp, eager_costs};
inline constexpr framework hugging_face_opt{
    "transformers, OPTForCausalLM", implementations::hugging_face_opt, engines::ddp, eager_costs};
inline constexpr framework hugging_face_gpt_neox{"transformers, GPTNeoXForCausalLM",
                                                 implementations::hugging_face_gpt_neox,
                                                 engines::ddp,
                                                 eager_costs};
inline constexpr framework hugging_face_gptj{
    "transformers, GPTJForCausalLM", implementations::hugging_face_gptj, engines::ddp, eager_costs};
inline constexpr framework hugging_face_t5{"transformers, T5ForConditionalGeneration",
                                           implementations::hugging_face_t5,
                                           engines::ddp,
                                           eager_costs};
inline constexpr framework hugging_face_t5_1_1{"transformers, T5ForConditionalGeneration 1.1",
                                               implementations::hugging_face_t5_1_1,
                                               engines::ddp,
                                               eager_costs};
inline constexpr framework hugging_face_llama{"transformers, LlamaForCausalLM",
                                              implementations::hugging_face_llama,
                                              engines::ddp,
                                              eager_decoder};
inline constexpr framework hugging_face_qwen{"transformers, Qwen2ForCausalLM",
                                             implementations::hugging_face_qwen,
                                             engines::ddp,
                                             eager_decoder};
inline constexpr framework hugging_face_gemma{"transformers, GemmaForCausalLM",
                                              implementations::hugging_face_gemma,
                                              engines::ddp,
                                              eager_decoder};
inline constexpr framework hugging_face_gemma_2{"transformers, Gemma2ForCausalLM",
                                                implementations::hugging_face_gemma_2,
                                                engines::ddp,
                                                eager_decoder};
inline constexpr framework hugging_face_gemma_3{"transformers, Gemma3ForCausalLM",
                                                implementations::hugging_face_gemma_3,
                                                engines::ddp,
                                                eager_decoder};
inline constexpr framework hugging_face_phi{
    "transformers, PhiForCausalLM", implementations::hugging_face_phi, engines::ddp, eager_decoder};
inline constexpr framework hugging_face_phi_3{"transformers, Phi3ForCausalLM",
                                              implementations::hugging_face_phi_3,
                                              engines::ddp,
                                              eager_decoder};
inline constexpr framework hugging_face_olmo{"transformers, OlmoForCausalLM",
                                             implementations::hugging_face_olmo,
                                             engines::ddp,
                                             eager_decoder};
inline constexpr framework hugging_face_bert{
    "transformers, BERT", implementations::hugging_face_bert, engines::ddp, eager_costs};
inline constexpr framework hugging_face_roberta{
    "transformers, RoBERTa", implementations::hugging_face_roberta, engines::ddp, eager_costs};
inline constexpr framework hugging_face_mpnet{
    "transformers, MPNet", implementations::hugging_face_mpnet, engines::ddp, eager_costs};
inline constexpr framework hugging_face_distilbert{"transformers, DistilBERT",
                                                   implementations::hugging_face_distilbert,
                                                   engines::ddp,
                                                   eager_costs};
inline constexpr framework hugging_face_vit{
    "transformers, ViT", implementations::hugging_face_vit, engines::ddp, eager_costs};
inline constexpr framework hugging_face_clip{
    "transformers, CLIP", implementations::hugging_face_clip, engines::ddp, eager_costs};
inline constexpr framework hugging_face_siglip{
    "transformers, SigLIP", implementations::hugging_face_siglip, engines::ddp, eager_costs};
inline constexpr framework lit_gpt{"LitGPT", implementations::lit_gpt, engines::ddp, eager_costs};
inline constexpr framework lit_gpt_gemma{
    "LitGPT, Gemma", implementations::lit_gpt_gemma, engines::ddp, eager_costs};
/// Megatron-Core's layers, as Megatron-Bridge's published steps have them.
inline constexpr software_costs megatron_costs{.element_traffic = 4.2,
                                               .host_per_operator = 178_us,
                                               .host_per_step = 22_ms,
                                               .hides_gradients = false,
                                               .hides_parameters = false,
                                               .timed = true};
/// Megatron-Core 0.16 without Transformer Engine and Apex: softmax and its mask written out, the
/// activation a function of its own.
inline constexpr framework megatron_core{.name = "Megatron-Core",
                                         .implementation = implementations::megatron_core,
                                         .engine = engines::megatron,
                                         .costs = [] {
                                           software_costs changed = megatron_costs;
                                           changed.timed = false;
                                           return changed;
                                         }()};
/// Megatron-Core with Transformer Engine 2.11, whose fused loss it uses, and gradients of weights
/// that products add into the buffers.
inline constexpr framework megatron_transformer_engine{
    .name = "Megatron-Core, Transformer Engine",
    .implementation = implementations::megatron_transformer_engine,
    .engine = engines::megatron,
    .costs = megatron_costs};

/// torchtitan of December 2024, on fully_shard of PyTorch 2.15: key-value heads are copied to all
/// heads, and logits are in fp32 for the loss. Not compiled; a setup says `compiles_layers`. Of a
/// ring of context-parallel ranks only their shares of tokens and weights are counted: 5 % below
/// four published peaks.
inline constexpr framework torchtitan{.name = "torchtitan",
                                      .implementation = implementations::torchtitan,
                                      .engine = engines::titan_fsdp2,
                                      .costs = {.matmul_rate = 0.95,
                                                .element_traffic = 1,
                                                .host_per_operator = 16_us,
                                                .host_per_step = 60_ms,
                                                .contention = 0.105,
                                                .timed = true}};
/// torchtitan of 2025, which compiles the loss where it compiles layers.
inline constexpr framework torchtitan_2025 = [] {
  framework changed = torchtitan;
  changed.implementation.compiles_loss = true;
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
                                              .implementation = implementations::megatron_deepspeed,
                                              .engine = engines::megatron_deepspeed,
                                              .costs = {.element_traffic = 4,
                                                        .score_traffic = 1.5,
                                                        .host_per_operator = 469_us,
                                                        .hides_gradients = false,
                                                        .hides_parameters = false,
                                                        .timed = true}};

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
  changed.engine.is = &engine_classes::deepspeed;
  changed.costs = {.hides_gathers = false, .gathered_at_most = 4.4_GBps, .timed = true};
  return changed;
}();

/// LLM Foundry on FSDP of PyTorch 2.1: MPT with FlashAttention. With older versions of PyTorch its
/// checkpoints re-enter.
inline constexpr framework llm_foundry{.name = "LLM Foundry",
                                       .implementation = implementations::torch_gpt,
                                       .engine = engines::fsdp2,
                                       .costs = {.element_traffic = 1.11,
                                                 .host_per_operator = 62_us,
                                                 .host_per_step = 40_ms,
                                                 .contention = 0.51,
                                                 .timed = true}};

/// Megatron-LM of 2021: its fused kernels, gradients reduced behind the backward pass.
inline constexpr framework megatron_lm{.name = "Megatron-LM",
                                       .implementation = implementations::megatron_lm,
                                       .engine = engines::megatron,
                                       .costs = {.element_traffic = 0.71,
                                                 .score_traffic = 1.49,
                                                 .host_per_operator = 268_us,
                                                 .hides_gradients = false,
                                                 .hides_parameters = false,
                                                 .timed = true}};

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
  changed.engine.is = &engine_classes::deepspeed;
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
  changed.engine.overlaps_reduction = true;
  changed.costs = {.element_traffic = 4.92,
                   .host_per_operator = 264_us,
                   .host_per_step = 274_ms,
                   .hidden_tensor_communication = 0.37,
                   .hidden_expert_communication = 0.83,
                   .hidden_pipeline_communication = 0.5,
                   .timed = true};
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

/// All of these, variants that differ in costs alone included; `frameworks` (implementations.hpp)
/// names those that people choose among.
inline constexpr const framework* all_frameworks[] = {&torch_gpt,
                                                      &torch_llama,
                                                      &torch_llama_fp32,
                                                      &torch_bert,
                                                      &torch_vit,
                                                      &hugging_face_gpt2,
                                                      &hugging_face_opt,
                                                      &hugging_face_gpt_neox,
                                                      &hugging_face_gptj,
                                                      &hugging_face_t5,
                                                      &hugging_face_t5_1_1,
                                                      &hugging_face_llama,
                                                      &hugging_face_qwen,
                                                      &hugging_face_gemma,
                                                      &hugging_face_gemma_2,
                                                      &hugging_face_gemma_3,
                                                      &hugging_face_phi,
                                                      &hugging_face_phi_3,
                                                      &hugging_face_olmo,
                                                      &hugging_face_bert,
                                                      &hugging_face_roberta,
                                                      &hugging_face_mpnet,
                                                      &hugging_face_distilbert,
                                                      &hugging_face_vit,
                                                      &hugging_face_clip,
                                                      &hugging_face_siglip,
                                                      &lit_gpt,
                                                      &lit_gpt_gemma,
                                                      &megatron_core,
                                                      &megatron_transformer_engine,
                                                      &torchtitan,
                                                      &torchtitan_2025,
                                                      &torchtitan_async,
                                                      &megatron_deepspeed,
                                                      &megatron_deepspeed_zero_3,
                                                      &hugging_face_gpt2_zero_3,
                                                      &llm_foundry,
                                                      &megatron_lm,
                                                      &megatron_lm_profiled,
                                                      &megatron_zero_3,
                                                      &megatron_bridge,
                                                      &megatron_bridge_2606};

}  // namespace gpuplan::catalog

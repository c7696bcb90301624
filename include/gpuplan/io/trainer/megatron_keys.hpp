#pragma once

// The names of Megatron's settings: Megatron-LM's flag and the path in Megatron-Bridge's
// configuration of each, once.

#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/precision.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::io::detail {

/// Whose names: Megatron-LM's flags, or paths in Megatron-Bridge's configuration.
enum class megatron_dialect { flags, bridge };

struct megatron_key {
  const char* flag = "";
  const char* path = "";

  [[nodiscard]] const char* in(megatron_dialect dialect) const {
    return dialect == megatron_dialect::flags ? flag : path;
  }
};

inline constexpr megatron_key megatron_chunks{"--num-virtual-stages-per-pipeline-rank",
                                              "model.virtual_pipeline_model_parallel_size"};

struct megatron_integer {
  megatron_key key{};
  known<std::int64_t> training_config::*member = nullptr;
};
inline constexpr megatron_integer megatron_integers[] = {
    {{"--seq-length", "model.seq_length"}, &training_config::sequence_length},
    {{"--micro-batch-size", "train.micro_batch_size"}, &training_config::micro_batch},
    {{"--global-batch-size", "train.global_batch_size"}, &training_config::global_batch},
    {{"--tensor-model-parallel-size", "model.tensor_model_parallel_size"},
     &training_config::tensor_parallel},
    {{"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
     &training_config::pipeline_parallel},
    {{"--context-parallel-size", "model.context_parallel_size"},
     &training_config::context_parallel},
    {{"--expert-model-parallel-size", "model.expert_model_parallel_size"},
     &training_config::expert_parallel},
    {megatron_chunks, &training_config::virtual_pipeline},
    {{"--train-iters", "train.train_iters"}, &training_config::steps},
    {{"--train-samples", "train.train_samples"}, &training_config::samples},
};

struct megatron_number {
  megatron_key key{};
  known<double> training_config::*member = nullptr;
};
inline constexpr megatron_number megatron_numbers[] = {
    {{"--lr", "optimizer.lr"}, &training_config::learning_rate},
    {{"--min-lr", "optimizer.min_lr"}, &training_config::least_learning_rate},
    {{"--lr-warmup-iters", "scheduler.lr_warmup_iters"}, &training_config::warm_up_steps},
    {{"--lr-warmup-fraction", "scheduler.lr_warmup_fraction"}, &training_config::warm_up_share},
    {{"--weight-decay", "optimizer.weight_decay"}, &training_config::weight_decay},
    {{"--clip-grad", "optimizer.clip_grad"}, &training_config::clip_norm},
};

struct megatron_flag {
  megatron_key key{};
  known<bool> training_config::*member = nullptr;
};
// Megatron-LM's are false where they are not given; the Bridge's are its recipe's.
inline constexpr megatron_flag megatron_flags[] = {
    {{"--sequence-parallel", "model.sequence_parallel"}, &training_config::sequence_parallel},
    {{"--distribute-saved-activations", "model.distribute_saved_activations"},
     &training_config::shares_kept_inputs},
    {{"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload"},
     &training_config::optimizer_on_host},
};

inline constexpr megatron_key megatron_distributed{"--use-distributed-optimizer",
                                                   "ddp.use_distributed_optimizer"};
inline constexpr megatron_flag megatron_overlaps[] = {
    {{"--overlap-grad-reduce", "ddp.overlap_grad_reduce"}, &training_config::overlaps_reduction},
    {{"--overlap-param-gather", "ddp.overlap_param_gather"}, &training_config::overlaps_gathers}};
inline constexpr megatron_key megatron_fsdp{"--use-megatron-fsdp", "dist.use_megatron_fsdp"};
inline constexpr megatron_key megatron_sharding{"--data-parallel-sharding-strategy",
                                                "ddp.data_parallel_sharding_strategy"};
inline constexpr megatron_key megatron_instances{"--num-distributed-optimizer-instances",
                                                 "ddp.num_distributed_optimizer_instances"};
inline constexpr megatron_key megatron_granularity{"--recompute-granularity",
                                                   "model.recompute_granularity"};
inline constexpr megatron_key megatron_method{"--recompute-method", "model.recompute_method"};
inline constexpr megatron_key megatron_recomputed{"--recompute-num-layers",
                                                  "model.recompute_num_layers"};
inline constexpr megatron_key megatron_modules{"--recompute-modules", "model.recompute_modules"};
inline constexpr megatron_key megatron_first{"--account-for-embedding-in-pipeline-split",
                                             "model.account_for_embedding_in_pipeline_split"};
inline constexpr megatron_key megatron_last{"--account-for-loss-in-pipeline-split",
                                            "model.account_for_loss_in_pipeline_split"};
inline constexpr megatron_key megatron_first_layers{"--decoder-first-pipeline-num-layers",
                                                    "model.num_layers_in_first_pipeline_stage"};
inline constexpr megatron_key megatron_last_layers{"--decoder-last-pipeline-num-layers",
                                                   "model.num_layers_in_last_pipeline_stage"};
inline constexpr megatron_key megatron_layout{"--pipeline-model-parallel-layout",
                                              "model.pipeline_model_parallel_layout"};
inline constexpr megatron_key megatron_optimizer{"--optimizer", "optimizer.optimizer"};
inline constexpr megatron_key megatron_schedule{"--lr-decay-style", "scheduler.lr_decay_style"};
inline constexpr megatron_key megatron_wsd_steps{"--lr-wsd-decay-iters",
                                                 "scheduler.lr_wsd_decay_iters"};
inline constexpr megatron_key megatron_wsd_style{"--lr-wsd-decay-style",
                                                 "scheduler.lr_wsd_decay_style"};
inline constexpr megatron_key megatron_attention{"--attention-backend", "model.attention_backend"};
/// The ranks that have parts of each expert; none said: as many as of other weights.
inline constexpr megatron_key megatron_expert_tensors{"--expert-tensor-parallel-size",
                                                      "model.expert_tensor_parallel_size"};
inline constexpr megatron_key megatron_expert_capacity{"--moe-expert-capacity-factor",
                                                       "model.moe_expert_capacity_factor"};
inline constexpr megatron_key megatron_padded_experts{"--moe-pad-expert-input-to-capacity",
                                                      "model.moe_pad_expert_input_to_capacity"};
inline constexpr megatron_key megatron_dispatcher{"--moe-token-dispatcher-type",
                                                  "model.moe_token_dispatcher_type"};
inline constexpr megatron_key megatron_flex_backend{"--moe-flex-dispatcher-backend",
                                                    "model.moe_flex_dispatcher_backend"};
inline constexpr megatron_key megatron_grouped{"--moe-grouped-gemm", "model.moe_grouped_gemm"};
inline constexpr megatron_key megatron_deepep{"--moe-enable-deepep", "model.moe_enable_deepep"};
inline constexpr megatron_key megatron_fp8_weights{"--fp8-param-gather", "model.fp8_param"};
inline constexpr megatron_key megatron_fp4_weights{"--fp4-param-gather", "model.fp4_param"};
inline constexpr megatron_key megatron_offloaded{"--cpu-offloading-num-layers",
                                                 "model.cpu_offloading_num_layers"};
inline constexpr megatron_key megatron_graphs{"--cuda-graph-impl", "model.cuda_graph_impl"};
inline constexpr megatron_key megatron_context_exchange{"--cp-comm-type", "model.cp_comm_type"};
inline constexpr megatron_key megatron_fused_loss{"--cross-entropy-loss-fusion",
                                                  "model.cross_entropy_loss_fusion"};
inline constexpr megatron_key megatron_code_of_loss{"--cross-entropy-fusion-impl",
                                                    "model.cross_entropy_fusion_impl"};
inline constexpr megatron_key megatron_hidden_dropout{"--hidden-dropout", "model.hidden_dropout"};
inline constexpr megatron_key megatron_attention_dropout{"--attention-dropout",
                                                         "model.attention_dropout"};

/// An optimizer that knows of gradients and numbers of its own below fp32, and in which they are.
inline constexpr megatron_key megatron_aware{"--use-precision-aware-optimizer",
                                             "optimizer.use_precision_aware_optimizer"};
inline constexpr megatron_key megatron_main_gradients{"--main-grads-dtype",
                                                      "optimizer.main_grads_dtype"};
inline constexpr megatron_key megatron_masters{"--main-params-dtype",
                                               "optimizer.main_params_dtype"};
inline constexpr megatron_key megatron_first_moment{"--exp-avg-dtype", "optimizer.exp_avg_dtype"};
inline constexpr megatron_key megatron_second_moment{"--exp-avg-sq-dtype",
                                                     "optimizer.exp_avg_sq_dtype"};
/// A format by Megatron-LM's word and PyTorch's.
struct megatron_format {
  const char* word;
  const char* dtype;
  number_format is;
};
inline constexpr megatron_format megatron_formats[] = {{"fp32", "float32", number_format::fp32},
                                                       {"bf16", "bfloat16", number_format::bf16},
                                                       {"fp16", "float16", number_format::fp16}};

inline constexpr std::pair<const char*, optimizer_kind> megatron_optimizers[] = {
    {"adam", optimizer_kind::adamw},
    {"sgd", optimizer_kind::sgd_momentum},
    {"muon", optimizer_kind::muon},
    {"lion", optimizer_kind::lion}};
inline constexpr std::pair<const char*, rate_schedule> megatron_schedules[] = {
    {"constant", rate_schedule::constant},
    {"linear", rate_schedule::linear},
    {"cosine", rate_schedule::cosine},
    {"WSD", rate_schedule::wsd}};
inline constexpr std::pair<const char*, attention_kernel> megatron_kernels[] = {
    {"flash", attention_kernel::flash},
    {"auto", attention_kernel::automatic},
    {"unfused", attention_kernel::eager}};
inline constexpr std::pair<const char*, context_exchange> megatron_context_exchanges[] = {
    {"p2p", context_exchange::p2p}, {"a2a", context_exchange::a2a}};

/// How fp8 is scaled: the word of Megatron-LM's --fp8-recipe, and the Bridge's mixed_precision.
struct megatron_scaling {
  const char* flag;
  const char* mixed_precision;
  scaling_kind is;
};
inline constexpr megatron_scaling megatron_scalings[] = {
    {"delayed", "bf16_with_fp8_delayed_scaling_mixed", scaling_kind::delayed},
    {"tensorwise", "bf16_with_fp8_current_scaling_mixed", scaling_kind::tensor},
    {"blockwise", "bf16_with_fp8_subchannel_scaling_mixed", scaling_kind::blocks},
    {"mxfp8", "bf16_with_mxfp8_mixed", scaling_kind::micro}};

// Where none is said, one scale for each tensor, found each time.
[[nodiscard]] inline const megatron_scaling& scaling_for_megatron(const known<scaling_kind>& said) {
  for (const megatron_scaling& one : megatron_scalings)
    if (one.is == (said ? *said : scaling_kind::tensor)) return one;
  return megatron_scalings[1];
}

/// What changes memory or time, and that a plan has no word for.
inline constexpr megatron_key megatron_doubts[] = {
    {"--fine-grained-activation-offloading", "model.fine_grained_activation_offloading"},
    {"--moe-layer-recompute", "model.moe_layer_recompute"},
    {"--rampup-batch-size", "train.rampup_batch_size"},
    {"--step-batch-size-schedule", "train.step_batch_size_schedule"},
    {"--use-torch-fsdp2", "dist.use_torch_fsdp2"},
    {"--enable-cuda-graph", "model.enable_cuda_graph"},
    {"--external-cuda-graph", "model.external_cuda_graph"},
    {"--hierarchical-context-parallel-sizes", "model.hierarchical_context_parallel_sizes"},
    {"--hybrid-context-parallel", "model.hybrid_context_parallel"},
    {"--fp32-residual-connection", "model.fp32_residual_connection"},
    {"--first-last-layers-bf16", "model.first_last_layers_bf16"},
    {"--defer-embedding-wgrad-compute", "model.defer_embedding_wgrad_compute"},
    {"--moe-paged-stash", "model.moe_paged_stash"},
    {"--overlap-moe-expert-parallel-comm", "model.overlap_moe_expert_parallel_comm"},
    {"--moe-shared-expert-overlap", "model.moe_shared_expert_overlap"},
    {"--moe-enable-routing-replay", "model.moe_enable_routing_replay"},
    {"--moe-router-padding-for-quantization", "model.moe_router_padding_for_quantization"},
    {"--moe-router-padding-for-fp8", "model.moe_router_padding_for_fp8"},
    {"--moe-router-dtype", "model.moe_router_dtype"},
    {"--moe-z-loss-coeff", "model.moe_z_loss_coeff"},
    {"--moe-input-jitter-eps", "model.moe_input_jitter_eps"},
    {"--moe-apply-probs-on-input", "model.moe_apply_probs_on_input"},
    {"--moe-expert-rank-capacity-factor", "model.moe_expert_rank_capacity_factor"},
    {"--moe-ncclep-static-shape", "model.moe_ncclep_static_shape"},
    {"--moe-single-grouped-weight", "model.moe_single_grouped_weight"},
    {"--tensor-parallel-num-weight-shards", "model.tensor_parallel_num_weight_shards"},
    {"--expert-tensor-parallel-num-weight-shards",
     "model.expert_tensor_parallel_num_weight_shards"},
    {"--deterministic-mode", "model.deterministic_mode"},
    {"--tp-comm-overlap", "model.tp_comm_overlap"},
    {"--delay-wgrad-compute", "model.delay_wgrad_compute"},
    {"--overlap-dispatch-backward-with-experts-wgrad",
     "model.overlap_dispatch_backward_with_experts_wgrad"},
    {"--ep-overlap-early-attn-memory-release", "model.ep_overlap_early_attn_memory_release"},
    {"--mtp-use-repeated-layer", "model.mtp_use_repeated_layer"},
    {"--mtp-detach-heads", "model.mtp_detach_heads"},
    {"--fp16-lm-cross-entropy", "model.fp16_lm_cross_entropy"},
    {"--batch-invariant-mode", "model.batch_invariant_mode"},
    {"--fused-residual-rmsnorm", "model.fused_residual_rmsnorm"},
    {"--use-transformer-engine-op-fuser", "model.use_transformer_engine_op_fuser"},
    {"--use-te-activation-func", "model.use_te_activation_func"},
    {"--use-fused-weighted-squared-relu", "model.use_fused_weighted_squared_relu"},
    {"--use-kitchen-attention", "model.use_kitchen_attention"},
    {"--max-seqlen-per-dp-cp-rank", "model.max_seqlen_per_dp_cp_rank"},
    {"--mlp-chunks-for-training", "model.mlp_chunks_for_training"},
    {"--qk-clip", "model.qk_clip"},
    {"--optimizer-cuda-graph", "optimizer.optimizer_cuda_graph"},
    {"--reuse-grad-buf-for-mxfp8-param-ag", "optimizer.reuse_grad_buf_for_mxfp8_param_ag"},
    {"--use-nccl-ub", "ddp.nccl_ub"},
    {"--ddp-bucket-size", "ddp.bucket_size"},
    {"--ddp-num-buckets", "ddp.num_buckets"},
    {"--ddp-reduce-scatter-with-fp32-accumulation", "ddp.reduce_scatter_with_fp32_accumulation"},
    {"--use-sharp", "dist.use_sharp"},
    {"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping"},
    {"--overlap-p2p-communication-warmup-flush", "model.overlap_p2p_comm_warmup_flush"},
    {"--microbatch-group-size-per-virtual-pipeline-stage",
     "model.microbatch_group_size_per_vp_stage"},
    {"--te-precision-config-file", "model.te_precision_config_file"},
    {"--perform-rl-step", "rl.perform_rl_step"},
    {"--logits-load-dir", "distill.logits_load_dir"},
    {"--disable-jit-fuser", "dist.disable_jit_fuser"},
    {"--use-checkpoint-args", "checkpoint.use_checkpoint_args"},
    {"--empty-unused-memory-level", "train.empty_unused_memory_level"},
};
/// Likewise what is on unless a flag is there, or the Bridge's field false.
inline constexpr megatron_key megatron_fusions[] = {
    {"--no-masked-softmax-fusion", "model.masked_softmax_fusion"},
    {"--no-bias-gelu-fusion", "model.bias_activation_fusion"},
    {"--no-bias-swiglu-fusion", "model.bias_activation_fusion"},
    {"--no-bias-dropout-fusion", "model.bias_dropout_fusion"},
    {"--no-rope-fusion", "model.apply_rope_fusion"},
    {"--no-persist-layer-norm", "model.persist_layer_norm"},
    {"--no-gradient-accumulation-fusion", "model.gradient_accumulation_fusion"},
    {"--no-clone-scatter-output-in-embedding", "model.clone_scatter_output_in_embedding"},
    {"--no-fp8-wgrad", "model.fp8_wgrad"},
    {"--no-gradient-reduce-div-fusion", "model.gradient_reduce_div_fusion"},
    {"--no-overlap-p2p-communication", "model.overlap_p2p_comm"},
};

}  // namespace gpuplan::io::detail

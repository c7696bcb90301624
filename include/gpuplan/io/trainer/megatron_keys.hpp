#pragma once

// The names of Megatron's settings: Megatron-LM's flag and the path in Megatron-Bridge's
// configuration of each, once.

#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/optimizer.hpp>

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
inline constexpr megatron_key megatron_fused_loss{"--cross-entropy-loss-fusion",
                                                  "model.cross_entropy_loss_fusion"};
inline constexpr megatron_key megatron_code_of_loss{"--cross-entropy-fusion-impl",
                                                    "model.cross_entropy_fusion_impl"};
inline constexpr megatron_key megatron_hidden_dropout{"--hidden-dropout", "model.hidden_dropout"};
inline constexpr megatron_key megatron_attention_dropout{"--attention-dropout",
                                                         "model.attention_dropout"};

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
    {"--cpu-offloading-num-layers", "model.cpu_offloading_num_layers"},
    {"--fine-grained-activation-offloading", "model.fine_grained_activation_offloading"},
    {"--use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer"},
    {"--main-grads-dtype", "optimizer.main_grads_dtype"},
    {"--main-params-dtype", "optimizer.main_params_dtype"},
    {"--exp-avg-dtype", "optimizer.exp_avg_dtype"},
    {"--exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype"},
    {"--fp8-param-gather", "model.fp8_param"},
    {"--fp4-param-gather", "model.fp4_param"},
    {"--fp4-format", "model.fp4"},
    {"--moe-layer-recompute", "model.moe_layer_recompute"},
    {"--rampup-batch-size", "train.rampup_batch_size"},
    {"--step-batch-size-schedule", "train.step_batch_size_schedule"},
    {"--use-torch-fsdp2", "dist.use_torch_fsdp2"},
    {"--cuda-graph-impl", "model.cuda_graph_impl"},
    {"--enable-cuda-graph", "model.enable_cuda_graph"},
    {"--external-cuda-graph", "model.external_cuda_graph"},
    {"--hierarchical-context-parallel-sizes", "model.hierarchical_context_parallel_sizes"},
    {"--hybrid-context-parallel", "model.hybrid_context_parallel"},
    {"--fp32-residual-connection", "model.fp32_residual_connection"},
    {"--first-last-layers-bf16", "model.first_last_layers_bf16"},
    {"--defer-embedding-wgrad-compute", "model.defer_embedding_wgrad_compute"},
    {"--moe-expert-capacity-factor", "model.moe_expert_capacity_factor"},
    {"--moe-paged-stash", "model.moe_paged_stash"},
    {"--overlap-moe-expert-parallel-comm", "model.overlap_moe_expert_parallel_comm"},
};

}  // namespace gpuplan::io::detail

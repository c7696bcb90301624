#pragma once

// DeepSpeed's JSON. Keys and defaults are those of DeepSpeed 0.19.8 (runtime/config.py,
// runtime/zero/config.py); what transformers and Accelerate leave to their own arguments is "auto",
// and absent here.

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/precision.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail::deepspeed {

using kind = remark::kind;

inline constexpr plain_key plain_keys[] = {
    {"train_batch_size", &training_config::global_batch},
    {"train_micro_batch_size_per_gpu", &training_config::micro_batch},
    {"gradient_accumulation_steps", &training_config::accumulation},
    {"gradient_clipping", &training_config::clip_norm},  // default: 0, which does not clip
    {"sequence_parallel_size", &training_config::context_parallel},
    {"expert_parallel.autoep_size", &training_config::expert_parallel},
};
inline constexpr plain_key optimizer_keys[] = {
    {"optimizer.params.lr", &training_config::learning_rate},
    {"optimizer.params.weight_decay", &training_config::weight_decay},
};

// DeepSpeed's own kernels have these names in any case; others are torch.optim's classes. The
// first of a rule is what is written.
inline constexpr word<gpuplan::optimizer> optimizer_words[] = {
    {"AdamW", {.loop = optimizer_loop::fused}},
    {"Adam", {.loop = optimizer_loop::fused}},
    {"Lion", {.kind = optimizer_kind::lion, .loop = optimizer_loop::fused}},
    {"Muon", {.kind = optimizer_kind::muon}},
    {"Adagrad", {.kind = optimizer_kind::adagrad}},
    {"SGD", {.kind = optimizer_kind::sgd}},
    {"RMSprop", {.kind = optimizer_kind::rmsprop}},
    {"Adafactor", {.kind = optimizer_kind::adafactor}},
};
// torch.optim's AdamW
inline constexpr gpuplan::optimizer torch_adam{};

inline constexpr word<rate_schedule> schedule_words[] = {
    {"WarmupLR", rate_schedule::constant},
    {"WarmupDecayLR", rate_schedule::linear},  // to 0
    {"WarmupCosineLR", rate_schedule::cosine},
};

inline std::string lower(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

inline void doubt_if_true(settings_reader& from, std::initializer_list<const char*> keys) {
  for (const char* const key : keys)
    if (const auto is = from.flag(key); is && *is)
      from.remark_on(kind::doubtful, key, "is true, which the estimate leaves out");
}

inline void doubt_if_false(settings_reader& from, std::initializer_list<const char*> keys) {
  for (const char* const key : keys)
    if (says(from.flag(key), false))
      from.remark_on(kind::doubtful, key, "is false; the estimate is as if it were true");
}

inline void read_batch_and_layout(settings_reader& from, training_config& to) {
  read_plain(from, plain_keys, to);
  // 0: it is not used.
  if (const auto degree = from.integer("tensor_parallel.autotp_size", 0); degree && *degree > 0)
    to.tensor_parallel = degree;
  if (to.context_parallel && *to.context_parallel > 1)
    from.remark_on(kind::doubtful,
                   "sequence_parallel_size",
                   "exchanges heads for parts of the sequence (Ulysses); the estimate has it as "
                   "context parallelism");
  const auto has_experts = from.flag("expert_parallel.enabled");
  if (to.expert_parallel && *to.expert_parallel > 1 && !(has_experts && *has_experts))
    from.remark_on(kind::missing,
                   "expert_parallel.enabled",
                   "is not true, without which autoep_size is not obeyed");
  if (from.has("pipeline.stages")) to.pipeline_parallel = from.integer("pipeline.stages");
}

inline void read_precision(settings_reader& from, training_config& to) {
  const auto bf16 = from.flag("bf16.enabled");
  const auto fp16 = from.flag("fp16.enabled");
  const auto autocast = from.flag("torch_autocast.enabled");
  const auto is_cast_to =
      from.word<training_precision>("torch_autocast.dtype",
                                    {{"bfloat16", training_precision::bf16},
                                     {"float16", training_precision::fp16},
                                     {"torch.bfloat16", training_precision::bf16},
                                     {"torch.float16", training_precision::fp16}});
  const bool is_bf16 = bf16 && *bf16;
  const bool is_fp16 = fp16 && *fp16;
  if (is_bf16 && is_fp16)
    from.remark_on(kind::contradicts,
                   "fp16.enabled",
                   "is true, and bf16.enabled too; DeepSpeed takes one of both");
  const auto masters = from.flag("bf16.bf16_master_weights_and_grads");
  const auto states = from.flag("bf16.bf16_optimizer_states");
  if (states && *states && !(masters && *masters))
    from.remark_on(kind::missing,
                   "bf16.bf16_master_weights_and_grads",
                   "is not true, which bf16_optimizer_states needs");
  if (is_bf16 && masters && *masters && states && *states)
    to.precision = training_precision::pure_bf16;
  else if (is_bf16)
    to.precision = training_precision::bf16;
  else if (is_fp16)
    to.precision = training_precision::fp16;
  else if (autocast && *autocast && is_cast_to)
    to.precision = is_cast_to;
  else if (bf16 && fp16)
    to.precision = training_precision::fp32;
  if (is_bf16 && masters && *masters && !(states && *states))
    from.remark_on(kind::doubtful,
                   "bf16.bf16_master_weights_and_grads",
                   "is true without bf16_optimizer_states; the estimate has masters in fp32");
  if (const std::string sums = from.text("data_types.grad_accum_dtype"); !sums.empty())
    from.remark_on(kind::doubtful,
                   "data_types.grad_accum_dtype",
                   "is \"" + printable(sums) + "\", which the estimate leaves out");
}

inline void read_offload(settings_reader& from,
                         const std::string& key,
                         std::int64_t least_stage,
                         known<bool> training_config::*member,
                         training_config& to) {
  const std::string path = "zero_optimization." + key;
  to.*member = from.word<bool>(path + ".device", {{"none", false}, {"cpu", true}, {"nvme", true}});
  if (!(to.*member) || !*(to.*member)) return;
  if (from.text(path + ".device") == "nvme")
    from.remark_on(
        kind::doubtful, path + ".device", "is \"nvme\"; the estimate has it in the host's memory");
  if (to.zero_stage && *to.zero_stage < least_stage)
    from.remark_on(kind::contradicts,
                   path,
                   "needs ZeRO stage " + std::to_string(least_stage) +
                       (least_stage < 3 ? " or higher" : "") + "; the stage is " +
                       std::to_string(*to.zero_stage));
  from.pass_over_words(
      path + ".",
      "nvme_path buffer_count buffer_size max_in_cpu pin_memory pipeline pipeline_read "
      "pipeline_write fast_init cpuadam_cores_perc");
  if (const auto share = from.number(path + ".ratio"); share && *share != 1)
    from.remark_on(kind::doubtful, path + ".ratio", "is not 1; the estimate has it as 1");
}

// Sizes of buffers in elements, and how they are used.
inline void read_buffers(settings_reader& from, training_config& to) {
  said_zero_settings said;
  bool is_any = false;
  const std::string in = "zero_optimization.";
  const auto take_size =
      [&](const char* key, std::int64_t zero_settings::*size, std::int64_t least = 0) {
        if (const auto elements = from.integer(in + key, least))
          said.is.*size = *elements, is_any = true;
      };
  take_size("reduce_bucket_size", &zero_settings::reduce_bucket, 1);
  take_size("stage3_max_live_parameters", &zero_settings::max_live_parameters);
  take_size("stage3_max_reuse_distance", &zero_settings::max_reuse_distance);
  take_size("sub_group_size", &zero_settings::sub_group);
  if (said.is.sub_group == 0) said.is.sub_group = 1;  // a parameter fills a group of either size
  take_size("stage3_prefetch_bucket_size", &zero_settings::prefetch_bucket);
  take_size("stage3_param_persistence_threshold", &zero_settings::persistence_threshold);
  const auto take_flag = [&](const char* key, bool zero_settings::*flag) {
    if (const auto is = from.flag(in + key)) said.is.*flag = *is, is_any = true;
  };
  take_flag("contiguous_gradients", &zero_settings::contiguous_gradients);
  take_flag("reduce_scatter", &zero_settings::reduce_scatter);
  take_flag("round_robin_gradients", &zero_settings::round_robin_gradients);
  to.overlaps_reduction = from.flag(in + "overlap_comm");
  if (is_any) to.zero = said;
}

/// Which buffers' sizes are left to transformers and Accelerate: "auto".
inline void read_automatic_buffers(const value& settings, training_config& to) {
  const value* const zero = settings.find("zero_optimization");
  const auto is_automatic = [zero](const char* key) {
    const value* const found = zero == nullptr ? nullptr : zero->find(key);
    return found != nullptr && found->text() != nullptr && *found->text() == "auto";
  };
  said_zero_settings said = to.zero ? *to.zero : said_zero_settings{};
  const bool divides_weights = says(to.zero_stage, 3);
  said.reduce_bucket_of_width = is_automatic("reduce_bucket_size");
  said.prefetch_bucket_of_width = divides_weights && is_automatic("stage3_prefetch_bucket_size");
  said.persistence_threshold_of_width =
      divides_weights && is_automatic("stage3_param_persistence_threshold");
  if (said != said_zero_settings{}) to.zero = said;
}

inline void read_zero(settings_reader& from, training_config& to) {
  if (const value* const all = from.find("zero_optimization"); all != nullptr && all->flag()) {
    from.remark_on(
        kind::outdated, "zero_optimization", "is true or false; an object with \"stage\" is taken");
    to.zero_stage = *all->flag() ? 1 : 0;
    return;
  }
  if (const auto stage = from.integer("zero_optimization.stage", 0)) {
    if (*stage <= 3)
      to.zero_stage = static_cast<int>(*stage);
    else
      from.remark_on(kind::contradicts,
                     "zero_optimization.stage",
                     "is " + std::to_string(*stage) + "; 0 to 3 are taken");
  }
  read_offload(from, "offload_optimizer", 1, &training_config::optimizer_on_host, to);
  read_offload(from, "offload_param", 3, &training_config::weights_on_host, to);
  doubt_if_true(from, {"zero_optimization.offload_optimizer.super_offload"});
  const auto outdated = [&](const char* key, known<bool> training_config::*member, const char* is) {
    const std::string path = std::string("zero_optimization.") + key;
    const auto found = from.flag(path);
    if (!found) return;
    from.remark_on(kind::outdated, path, std::string("is now ") + is);
    if (!(to.*member)) to.*member = found;
  };
  outdated("cpu_offload", &training_config::optimizer_on_host, "offload_optimizer.device");
  outdated("cpu_offload_params", &training_config::weights_on_host, "offload_param.device");
  outdated("cpu_offload_param", &training_config::weights_on_host, "offload_param.device");
  read_buffers(from, to);
  constexpr const char* gathered = "zero_optimization.allgather_bucket_size";
  if (const auto elements = from.number(gathered); elements && *elements != 5e8)
    from.remark_on(kind::doubtful,
                   gathered,
                   "is " + decimal(*elements, cell::shortest) +
                       "; the estimate has DeepSpeed's default, 5e+08");
  for (const char* const key : {"stage3_model_persistence_threshold",
                                "stage3_module_granularity_threshold",
                                "zenflow",
                                "leaf_module"})
    if (from.find(std::string("zero_optimization.") + key, true) != nullptr)
      from.remark_on(kind::doubtful,
                     std::string("zero_optimization.") + key,
                     "is there, which the estimate leaves out");
  if (const auto ranks = from.integer("zero_optimization.zero_hpz_partition_size");
      ranks && *ranks > 1)
    from.remark_on(kind::doubtful,
                   "zero_optimization.zero_hpz_partition_size",
                   "keeps a second part of the weights, which the estimate leaves out");
  doubt_if_true(from,
                {"zero_optimization.zero_quantized_weights",
                 "zero_optimization.zero_quantized_nontrainable_weights",
                 "zero_optimization.zero_quantized_gradients",
                 "zero_optimization.stage3_use_all_reduce_for_fetch_params",
                 "zero_optimization.stage3_allgather_sequential",
                 "zero_optimization.legacy_stage1",
                 "zero_optimization.parameter_alignment",
                 "zero_optimization.enable_sanity_checks"});
  doubt_if_false(from,
                 {"zero_optimization.use_multi_rank_bucket_allreduce",
                  "zero_optimization.allgather_partitions",
                  "zero_optimization.memory_efficient_linear"});
  for (const char* key : {"mics_shard_size", "mics_hierarchical_params_gather"})
    if (from.has(std::string("zero_optimization.") + key))
      from.remark_on(kind::outdated,
                     std::string("zero_optimization.") + key,
                     "was removed, and is refused by DeepSpeed 0.19");
  from.pass_over_words(
      "zero_optimization.",
      "compute_grad_norm load_from_fp32_weights elastic_checkpoint cpu_offload_use_pin_memory "
      "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save "
      "ignore_unused_parameters pipeline_loading_checkpoint override_module_apply "
      "log_trace_cache_warnings save_muon_momentum_buffer_in_memory");
}

inline void read_optimizer(settings_reader& from, training_config& to) {
  read_plain(from, optimizer_keys, to);
  const std::string name = from.text("optimizer.type");
  const auto momentum = from.number("optimizer.params.momentum");
  const auto is_torchs = from.flag("optimizer.params.torch_adam");
  for (const auto& one : optimizer_words)
    if (lower(name) == lower(one.name)) to.optimizer = one.is;
  if (!name.empty() && !to.optimizer)
    from.remark_on(kind::doubtful,
                   "optimizer.type",
                   "is \"" + printable(name) + "\", whose states gpuplan does not know");
  if (to.optimizer) {
    gpuplan::optimizer is = *to.optimizer;
    if (is.kind == optimizer_kind::sgd && momentum && *momentum > 0)
      is.kind = optimizer_kind::sgd_momentum;
    if (is.kind == optimizer_kind::adamw && is_torchs && *is_torchs) is = torch_adam;
    to.optimizer = is;
  }
  if (from.has("optimizer.params.max_grad_norm"))
    from.remark_on(kind::outdated,
                   "optimizer.params.max_grad_norm",
                   "is refused by DeepSpeed; gradient_clipping is taken");
  doubt_if_true(from, {"optimizer.params.amsgrad"});
  doubt_if_false(from, {"optimizer.params.fp32_optimizer_states"});
  from.pass_over_words("optimizer.params.",
                       "betas eps bias_correction adam_w_mode ns_steps "
                       "nesterov muon_lr adam_lr");
  from.pass_over_words("", "optimizer.legacy_fusion");
}

inline void read_schedule(settings_reader& from, training_config& to) {
  const std::string name = from.text("scheduler.type");
  for (const auto& one : schedule_words)
    if (name == one.name) to.schedule = one.is;
  if (!name.empty() && !to.schedule)
    from.remark_on(kind::doubtful,
                   "scheduler.type",
                   "is \"" + printable(name) + "\", which gpuplan does not know");
  if (const auto rate = from.number("scheduler.params.warmup_max_lr")) {
    if (to.learning_rate && *to.learning_rate != *rate)
      from.remark_on(kind::contradicts,
                     "scheduler.params.warmup_max_lr",
                     "is " + decimal(*rate, cell::shortest) + ", and optimizer.params.lr " +
                         decimal(*to.learning_rate, cell::shortest));
    if (!to.learning_rate) to.learning_rate = rate;
  }
  if (const auto steps = from.integer("scheduler.params.warmup_num_steps", 0))
    to.warm_up_steps = static_cast<double>(*steps);
  to.steps = from.integer("scheduler.params.total_num_steps");
  // Default: 0.0001.
  const auto share = from.number("scheduler.params.cos_min_ratio");
  if (share && to.learning_rate) to.least_learning_rate = *share * *to.learning_rate;
  from.pass_over_words("scheduler.params.",
                       "warmup_min_lr warmup_min_ratio warmup_type last_batch_iteration");
}

inline void read_the_rest(settings_reader& from) {
  doubt_if_true(from,
                {"activation_checkpointing.partition_activations",
                 "activation_checkpointing.cpu_checkpointing",
                 "activation_checkpointing.contiguous_memory_optimization"});
  doubt_if_true(from,
                {"fp16.fp16_master_weights_and_grads",
                 "bf16.immediate_grad_update",
                 "tensor_parallel.tp_overlap_comm",
                 "tensor_parallel.vocab_parallel_lm_head",
                 "tensor_parallel.keep_module_on_host",
                 "tensor_parallel.kernel_inject",
                 "hybrid_engine.enabled",
                 "data_efficiency.enabled",
                 "autotuning.enabled",
                 "flops_profiler.enabled",
                 "comms_logger.enabled",
                 "wall_clock_breakdown",
                 "memory_breakdown",
                 "disable_allgather",
                 "disable_python_gc"});
  doubt_if_false(from, {"managed_gradient_accumulation", "zero_force_ds_cpu_optimizer"});
  for (const char* const key : {"communication_data_type",
                                "seq_parallel_communication_data_type",
                                "torch_autocast.lower_precision_safe_modules",
                                "pipeline.activation_checkpoint_interval",
                                "pipeline.partition"})
    if (from.find(key, true) != nullptr)
      from.remark_on(kind::doubtful, key, "is there, which the estimate leaves out");
  if (const auto is = from.flag("compile.deepcompile"); is && *is)
    from.remark_on(kind::doubtful,
                   "compile.deepcompile",
                   "is true; the estimate is of layers that are not compiled");
  for (const char* key : {"amp",
                          "sparse_gradients",
                          "sparse_attention",
                          "elasticity",
                          "curriculum_learning",
                          "progressive_layer_drop",
                          "compression_training",
                          "quantize_training",
                          "eigenvalue",
                          "nebula",
                          "graph_harvesting"})
    if (from.find(key, true) != nullptr)
      from.remark_on(
          kind::outdated, key, "was removed, and is refused by DeepSpeed 0.19; leave it out");
  from.pass_over_words("fp16.",
                       "auto_cast loss_scale initial_scale_power loss_scale_window hysteresis "
                       "consecutive_hysteresis min_loss_scale");
  from.pass_over_words("activation_checkpointing.",
                       "number_checkpoints synchronize_checkpoint_boundary profile");
  from.pass_over_words("tensor_parallel.",
                       "dtype tp injection_policy_tuple partition_config preset_model "
                       "vocab_parallel_ce_backend");
  from.pass_over_words("hybrid_engine.",
                       "max_out_tokens inference_tp_size release_inference_cache pin_parameters "
                       "tp_gather_partition_size enable_cuda_graph");
  from.pass_over_words("comms_logger.", "prof_all prof_ops verbose debug");
  from.pass_over_words("flops_profiler.",
                       "recompute_fwd_factor profile_step module_depth top_modules detailed "
                       "output_file");
  from.find("autotuning", true), from.find("data_efficiency", true);
  // Without deepcompile these do nothing.
  from.pass_over_words(
      "compile.",
      "autoep_non_moe free_activation free_activation_threshold offload_activation "
      "offload_activation_pin_memory offload_opt_states double_buffer symmetric_memory debug_log "
      "offload_parameters sync_before_reduce sync_after_reduce sync_before_allgather "
      "sync_after_allgather keep_int_input_tensors keep_all_input_tensors passes");
  from.pass_over_words(
      "",
      "bf16.check_grad_overflow data_types expert_parallel pipeline steps_per_print dump_state "
      "check_overflow prescale_gradients "
      "gradient_predivide_factor gradient_allreduce_op zero_allow_untested_optimizer "
      "tensorboard wandb comet csv_monitor monitor_config "
      "aio checkpoint datastates_ckpt dataloader_drop_last use_data_before_expert_parallelism "
      "weight_quantization timers log_level vocabulary_size train_iters "
      "seed");
}

// Why DeepSpeed would train something else.
inline std::string refusal_of(const training_config& config) {
  if (std::string flaw = flaw_of(config); !flaw.empty()) return flaw;
  if (!config.engine.empty() && config.engine != "deepspeed")
    return "engine " + printable(config.engine) + ": DeepSpeed's file is for deepspeed";
  if (config.pipeline_parallel && *config.pipeline_parallel > 1)
    return "pipeline_parallel " + std::to_string(*config.pipeline_parallel) +
           ": DeepSpeed's stages are written in the model's code (PipelineModule), not in its "
           "file; 1 is taken";
  if (says(config.precision, training_precision::fp8))
    return "precision fp8: DeepSpeed has none; bf16, fp16, fp32 are taken";
  const bool shares = config.zero_stage && *config.zero_stage > 0;
  if (says(config.precision, training_precision::pure_bf16) && !shares)
    return "precision pure_bf16: DeepSpeed has it with ZeRO stages 1 to 3 alone; bf16 is taken";
  if (says(config.weights_on_host, true) && config.zero_stage && *config.zero_stage != 3)
    return "weights_on_host true: DeepSpeed has it with ZeRO stage 3 alone; the stage is " +
           std::to_string(*config.zero_stage);
  if (says(config.optimizer_on_host, true) && says(config.zero_stage, 0))
    return "optimizer_on_host true: DeepSpeed has it with ZeRO stages 1 to 3; the stage is 0";
  if (config.shard_group && config.data_parallel && *config.shard_group != *config.data_parallel)
    return "shard_group " + std::to_string(*config.shard_group) +
           ": DeepSpeed shares among all replicas, " + std::to_string(*config.data_parallel);
  return "";
}

inline void write_precision(settings_writer& to, const training_config& config) {
  if (!config.precision || says(config.precision, training_precision::tf32)) return;
  const training_precision is = *to.take(&training_config::precision);
  const bool is_pure = is == training_precision::pure_bf16;
  const bool is_bf16 = is_pure || is == training_precision::bf16;
  if (is != training_precision::fp16) to.put("bf16.enabled", is_bf16);
  if (is_pure) {
    to.put("bf16.bf16_master_weights_and_grads", true);
    to.put("bf16.bf16_optimizer_states", true);
  }
  if (!is_bf16) to.put("fp16.enabled", is == training_precision::fp16);
}

inline void write_buffers(settings_writer& to, const training_config& config) {
  const std::string in = "zero_optimization.";
  if (config.overlaps_reduction)
    to.put(in + "overlap_comm", *to.take(&training_config::overlaps_reduction));
  if (!config.zero) return;
  const said_zero_settings& said = *to.take(&training_config::zero);
  const auto put_size = [&](const char* key, std::int64_t elements, bool is_automatic = false) {
    to.put(in + key, is_automatic ? value("auto") : value(elements));
  };
  put_size("reduce_bucket_size", said.is.reduce_bucket, said.reduce_bucket_of_width);
  put_size("stage3_prefetch_bucket_size", said.is.prefetch_bucket, said.prefetch_bucket_of_width);
  put_size("stage3_param_persistence_threshold",
           said.is.persistence_threshold,
           said.persistence_threshold_of_width);
  put_size("stage3_max_live_parameters", said.is.max_live_parameters);
  put_size("stage3_max_reuse_distance", said.is.max_reuse_distance);
  put_size("sub_group_size", said.is.sub_group);
  to.put(in + "contiguous_gradients", said.is.contiguous_gradients);
  to.put(in + "reduce_scatter", said.is.reduce_scatter);
  to.put(in + "round_robin_gradients", said.is.round_robin_gradients);
}

inline void write_optimizer(settings_writer& to, const training_config& config) {
  if (!config.optimizer) return;
  gpuplan::optimizer is = *config.optimizer;
  is.clips_gradients = false;  // clip_norm says it
  const char* name = nullptr;
  for (const auto& one : optimizer_words)
    if (name == nullptr && one.is == is) name = one.name;
  if (is == torch_adam) name = "AdamW";
  if (name == nullptr) return;
  to.take(&training_config::optimizer);
  to.put("optimizer.type", name);
  if (is == torch_adam) to.put("optimizer.params.torch_adam", true);
  to.put_plain(optimizer_keys);
}

// A scheduler has defaults for what is left out, 1000 steps among them: all or nothing.
inline void write_schedule(settings_writer& to, const training_config& config) {
  if (!config.schedule || !config.warm_up_steps || !config.learning_rate || !config.optimizer ||
      says(config.schedule, rate_schedule::wsd))
    return;
  const double warm_up = *config.warm_up_steps;
  const bool is_constant = says(config.schedule, rate_schedule::constant);
  if (warm_up < 1 || warm_up > 0x1p40 || std::trunc(warm_up) != warm_up ||
      (!is_constant && !config.steps) || to.settings.find("optimizer") == nullptr)
    return;
  to.put_word("scheduler.type", &training_config::schedule, schedule_words);
  to.take(&training_config::warm_up_steps);
  to.put("scheduler.params.warmup_num_steps", static_cast<std::int64_t>(warm_up));
  to.put("scheduler.params.warmup_type", "linear");
  if (!is_constant) to.put("scheduler.params.total_num_steps", *to.take(&training_config::steps));
  if (!says(config.schedule, rate_schedule::cosine)) {
    to.put("scheduler.params.warmup_max_lr", *config.learning_rate);
  } else if (config.least_learning_rate && *config.learning_rate > 0) {
    to.put("scheduler.params.cos_min_ratio",
           *to.take(&training_config::least_learning_rate) / *config.learning_rate);
  }
}

}  // namespace detail::deepspeed

/// Whether an object of JSON is DeepSpeed's.
[[nodiscard]] inline bool looks_like_deepspeed(const value& settings) {
  for (const char* const key :
       {"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"})
    if (settings.find(key) != nullptr) return true;
  const value* const bf16 = settings.find("bf16");
  return settings.find("train_batch_size") != nullptr &&
         (settings.find("optimizer") != nullptr || (bf16 != nullptr && bf16->members() != nullptr));
}

/// What a file of DeepSpeed says: batch, ZeRO, offloading, precision, optimizer, schedule, tensor,
/// sequence and expert parallelism. The engine is "deepspeed". Tested with DeepSpeed 0.19.8.
[[nodiscard]] inline read_config read_deepspeed(const value& settings) {
  read_config read{.tool = "deepspeed"};
  if (settings.members() == nullptr) {
    read.why = "it is " + detail::shown(settings) + "; DeepSpeed's file is an object";
    return read;
  }
  const value said = detail::without_word(settings, "auto");
  detail::settings_reader reader(said, read);
  read.config.engine = "deepspeed";
  detail::deepspeed::read_batch_and_layout(reader, read.config);
  detail::deepspeed::read_precision(reader, read.config);
  detail::deepspeed::read_zero(reader, read.config);
  detail::deepspeed::read_automatic_buffers(settings, read.config);
  detail::deepspeed::read_optimizer(reader, read.config);
  detail::deepspeed::read_schedule(reader, read.config);
  detail::deepspeed::read_the_rest(reader);
  detail::remark_on_contradictions(reader, read.config, [](std::string_view member) {
    return member == "global_batch" ? "train_batch_size" : "tensor_parallel.autotp_size";
  });
  reader.name_the_others();
  return read;
}

/// DeepSpeed's file, deepspeed.json, and how its launcher starts it. What the training script says
/// (the model, its length, what trains, recomputation) is in `not_written`. Written for DeepSpeed
/// 0.19.8. Refused: several pipeline stages, fp8, pure bf16 or offloading without the ZeRO stage
/// that has it, shares of a part of the replicas, another engine, and what contradicts itself.
[[nodiscard]] inline written_config write_deepspeed(const training_config& config) {
  written_config written;
  written.why = detail::deepspeed::refusal_of(config);
  if (!written) return written;
  detail::settings_writer to(config);
  to.take(&training_config::engine);
  if (config.pipeline_parallel) to.take(&training_config::pipeline_parallel);
  to.put_plain(detail::deepspeed::plain_keys);
  detail::deepspeed::write_buffers(to, config);
  if (config.expert_parallel) to.put("expert_parallel.enabled", *config.expert_parallel > 1);
  if (config.tensor_parallel)
    to.put("tensor_parallel.autotp_size", *to.take(&training_config::tensor_parallel));
  detail::deepspeed::write_precision(to, config);
  if (config.zero_stage)
    to.put("zero_optimization.stage", std::int64_t{*to.take(&training_config::zero_stage)});
  if (config.shard_group && config.data_parallel) to.take(&training_config::shard_group);
  if (config.optimizer_on_host)
    to.put("zero_optimization.offload_optimizer.device",
           *to.take(&training_config::optimizer_on_host) ? "cpu" : "none");
  if (config.weights_on_host)
    to.put("zero_optimization.offload_param.device",
           *to.take(&training_config::weights_on_host) ? "cpu" : "none");
  detail::deepspeed::write_optimizer(to, config);
  detail::deepspeed::write_schedule(to, config);
  written.command = "deepspeed ";
  if (const auto on = detail::machines_of(config); on.why.empty()) {
    for (const auto member :
         {&training_config::gpus, &training_config::nodes, &training_config::gpus_per_node})
      to.take(member);
    if (config.data_parallel) to.take(&training_config::data_parallel);  // what is left of the GPUs
    written.command += "--num_nodes " + std::to_string(on.nodes) + " --num_gpus " +
                       std::to_string(on.gpus_per_node) + " ";
  }
  written.command +=
      std::string(script_placeholder) + " --deepspeed --deepspeed_config deepspeed.json";
  written.files.push_back({"deepspeed.json", to_json(to.settings)});
  written.not_written = to.not_written();
  return written;
}

}  // namespace gpuplan::io

#pragma once

// axolotl's YAML. Keys and defaults are those of axolotl 0.21 (utils/schemas).

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace gpuplan::io {
namespace detail::axolotl {

using kind = remark::kind;

inline constexpr plain_key plain_keys[] = {
    {"base_model", &training_config::model},
    {"sequence_len", &training_config::sequence_length},
    {"sample_packing", &training_config::packing},
    {"micro_batch_size", &training_config::micro_batch},
    {"gradient_accumulation_steps", &training_config::accumulation},
    {"max_grad_norm", &training_config::clip_norm},
    {"learning_rate", &training_config::learning_rate},
    {"weight_decay", &training_config::weight_decay},
    {"num_epochs", &training_config::epochs},
    {"tensor_parallel_size", &training_config::tensor_parallel},
    {"context_parallel_size", &training_config::context_parallel},
    hugging_face::summing_key,
};
inline constexpr hugging_face::schedule_keys schedule{
    .type = "lr_scheduler", .least_rate = nullptr, .least_share = "cosine_min_lr_ratio"};

// Beside those of transformers
inline constexpr word<gpuplan::optimizer> own_optimizers[] = {
    {"muon", {.kind = optimizer_kind::muon}},
    {"ao_adamw_8bit", {.library = optimizer_library::torchao, .states = number_format::int8}},
};

inline void read_optimizer(settings_reader& from, training_config& to) {
  const std::string name = from.text("optimizer");
  for (const auto& one : own_optimizers)
    if (name == one.name) to.optimizer = one.is;
  if (!to.optimizer)
    to.optimizer = hugging_face::read_word<gpuplan::optimizer>(
        from, "optimizer", hugging_face::optimizer_words);
}

inline bool says_word(settings_reader& from, const char* key, std::string_view word) {
  const value* const found = from.find(key);
  return found != nullptr && found->text() != nullptr && *found->text() == word;
}

inline void read_precision(settings_reader& from, training_config& to) {
  const value* const bf16 = from.find("bf16");
  const auto take_flags = [&] {
    // tf32's default: where the device has it
    if (!says_word(from, "tf32", "auto")) return hugging_face::read_precision(from, to);
    if (says(from.flag("fp16"), true)) to.precision = training_precision::fp16;
    if (says(from.flag("bf16"), true)) to.precision = training_precision::bf16;
  };
  if (bf16 == nullptr || bf16->text() == nullptr) {
    take_flags();
  } else {
    // "auto", the default: where the device has it; "full": without autocast
    if (*bf16->text() == "auto") to.precision = training_precision::bf16;
    if (*bf16->text() == "full") to.precision = training_precision::pure_bf16;
    if (to.precision && says(from.flag("fp16"), true))
      from.remark_on(kind::contradicts,
                     "fp16",
                     "is true, and bf16 " + shown(*bf16) + " too; one of both is taken");
    for (const char* key : {"fp16", "tf32"}) from.find(key);
    if (!to.precision) take_flags();
  }
  if (const auto is = from.flag("fp8"); is && *is) to.precision = training_precision::fp8;
  const auto is_loaded_so = from.flag("bfloat16");
  if (says(to.precision, training_precision::fp32) && is_loaded_so && *is_loaded_so)
    to.precision = training_precision::pure_bf16;
}

// The format in which axolotl has the weights that autocast casts: bf16 where it casts to that, but
// for those that Accelerate makes fp32: all that FSDP divides, but for what is frozen beside
// adapters of FSDP 1, or with a base in four bits.
inline known<number_format> weights_of(const training_config& is) {
  const bool is_half = says(is.precision, training_precision::fp16);
  if (is_half && !is.adapters) return {};
  if (!is_half && !says(is.precision, training_precision::bf16) &&
      !says(is.precision, training_precision::fp8))
    return {};
  if (is.engine == "deepspeed") return {};
  const bool keeps_frozen = is.adapters && (is.engine == "fsdp1" || is.adapters->base.block != 0);
  if (hugging_face::is_fsdp(is.engine) && !keeps_frozen) return number_format::fp32;
  return is_half ? number_format::fp16 : number_format::bf16;
}

inline void read_attention(settings_reader& from, training_config& to) {
  if (from.text("attn_implementation") == "xformers")
    to.attention = attention_kernel::efficient;
  else
    to.attention = hugging_face::read_word<attention_kernel>(
        from, "attn_implementation", hugging_face::attention_words);
  for (const auto& [key, is] : {std::pair{"flash_attention", attention_kernel::flash},
                                std::pair{"sdp_attention", attention_kernel::automatic},
                                std::pair{"xformers_attention", attention_kernel::efficient},
                                std::pair{"eager_attention", attention_kernel::eager}})
    if (const auto flag = from.flag(key); flag && *flag && !to.attention) to.attention = is;
}

inline void read_adapters(settings_reader& from, training_config& to, std::string& why) {
  const std::string adapter = from.text("adapter");
  const auto four_bits = from.flag("load_in_4bit");
  const auto nested = from.flag("bnb_config_kwargs.bnb_4bit_use_double_quant");
  hugging_face::doubt_keys(from, {"bnb_config_kwargs.bnb_4bit_compute_dtype"});
  from.pass_over_words("bnb_config_kwargs.",
                       "load_in_4bit llm_int8_has_fp16_weight llm_int8_threshold "
                       "bnb_4bit_quant_type bnb_4bit_quant_storage");
  lora adapters{.rank = 8};
  if (const auto rank = from.integer("lora_r")) adapters.rank = *rank;
  hugging_face::read_targets(from, "lora_target_modules", adapters);
  if (const auto all = from.flag("lora_target_linear"); all && *all) adapters.targets = all_linear;
  hugging_face::read_saved_modules(from, "lora_modules_to_save", adapters);
  if (const auto share = from.number("lora_dropout")) adapters.dropout = *share;
  if (const auto is = from.flag("peft_use_dora")) adapters.magnitudes = *is;
  // axolotl quantises scales too, unless it is told otherwise.
  if (adapter == "qlora" || (four_bits && *four_bits))
    adapters.base = nested && !*nested ? four_bit_base : double_quantised_base;
  if (adapter == "lora" || adapter == "qlora") {
    to.trains = training::adapters;
    to.adapters = adapters;
    if (!from.has("lora_r"))
      from.remark_on(kind::missing, "lora_r", "is not there; the estimate has 8");
    if (from.find("peft_layers_to_transform", true) != nullptr)
      from.remark_on(kind::doubtful,
                     "peft_layers_to_transform",
                     "leaves layers without adapters; the estimate has them in all");
  } else if (!adapter.empty()) {
    from.remark_on(kind::doubtful,
                   "adapter",
                   "is " + shown(value(adapter)) + "; gpuplan knows lora and qlora");
  } else if (four_bits && *four_bits) {
    from.remark_on(kind::missing, "adapter", "is not there; four bits train with adapters alone");
  }
  if (adapter == "qlora" && !(four_bits && *four_bits))
    from.remark_on(kind::missing, "load_in_4bit", "is not true, which adapter qlora needs");
  const bool has_eight_bits = says(from.flag("load_in_8bit"), true);
  if (has_eight_bits && adapter == "qlora")
    from.remark_on(kind::contradicts, "load_in_8bit", "is true; with qlora four bits are taken");
  else if (has_eight_bits && !adapter.empty())
    why = hugging_face::refusal_of_quantised_base("load_in_8bit is true", "load_in_4bit: true");
  else if (has_eight_bits)
    from.remark_on(kind::missing, "adapter", "is not there; eight bits train with adapters alone");
  hugging_face::doubt_flags(from, {"relora"});
}

inline void read_engine(settings_reader& from, training_config& to) {
  const auto version = from.integer("fsdp_version");
  if (version && *version > 2)
    from.remark_on(kind::contradicts,
                   "fsdp_version",
                   "is " + std::to_string(*version) + "; 1 and 2 are taken");
  const bool has_list = from.find("fsdp", true) != nullptr;
  if (has_list)
    from.remark_on(kind::outdated, "fsdp", "is old; fsdp_version 2 and fsdp_config are taken");
  if (has_list || from.find("fsdp_config") != nullptr) {
    hugging_face::read_fsdp(from, true, version && *version == 1 ? 1 : 2, to);
    if (!to.zero_stage) to.zero_stage = 3;  // default: reshard_after_forward true
  }
  from.pass_over_words("fsdp_config.", "cpu_offload_pin_memory mixed_precision_policy");
  if (const value* const file = from.find("deepspeed", true)) {
    if (hugging_face::is_fsdp(to.engine))
      from.remark_on(
          kind::contradicts, "deepspeed", "is there, and fsdp_config too; one of both is taken");
    if (file->text() != nullptr) {
      from.remark_on_file("deepspeed", *file->text());
    } else {
      from.remark_on(
          kind::contradicts, "deepspeed", "is " + shown(*file) + "; the name of a file is taken");
    }
    to.engine = "deepspeed";
  }
  if (const auto parts = from.integer("sequence_parallel_degree")) {
    from.remark_on(kind::outdated, "sequence_parallel_degree", "is now context_parallel_size");
    if (!to.context_parallel) to.context_parallel = parts;
  }
  const auto shards = from.integer("dp_shard_size");
  const auto copies = from.integer("dp_replicate_size");
  if (shards) to.shard_group = shards;
  if (shards) {
    const auto both = gpuplan::detail::checked_product(*shards, copies ? *copies : 1);
    if (both.ok) to.data_parallel = both.value;
  } else if (copies && *copies > 1) {
    from.remark_on(kind::doubtful,
                   "dp_replicate_size",
                   "is " + std::to_string(*copies) +
                       " without dp_shard_size; the estimate shares among all replicas");
  }
}

inline void read_recomputation(settings_reader& from, training_config& to) {
  const auto reenters = from.flag("gradient_checkpointing_kwargs.use_reentrant");
  const value* const found = from.find("gradient_checkpointing");
  const std::string* const word = found == nullptr ? nullptr : found->text();
  if (word != nullptr && (word->rfind("offload", 0) == 0 || *word == "unsloth")) {
    to.recompute = recompute_mode::full;
    from.remark_on(kind::doubtful,
                   "gradient_checkpointing",
                   "moves inputs of layers to the host; the estimate keeps them on the device");
  } else if (const auto is = from.flag("gradient_checkpointing")) {
    to.recompute = *is ? recompute_mode::full : recompute_mode::none;
    to.checkpoints_reenter = reenters;
    if (!reenters && (from.has("unfrozen_parameters") || from.has("rl")))
      to.checkpoints_reenter = false;
  }
}

// Plug-ins, of which the estimate knows two. That of cut cross-entropy is on unless it is told
// otherwise.
inline void read_plugins(settings_reader& from, training_config& to) {
  const value* const found = from.find("plugins", true);
  const value::list* const items = found == nullptr ? nullptr : found->items();
  if (found != nullptr && items == nullptr)
    from.remark_on(
        kind::contradicts, "plugins", "is " + shown(*found) + "; a list of names is taken");
  to.cut_cross_entropy = from.flag("cut_cross_entropy");  // in place of Liger's
  for (std::size_t at = 0; items != nullptr && at < items->size(); ++at) {
    const std::string* const text = (*items)[at].text();
    const std::string_view name = text == nullptr ? std::string_view() : *text;
    if (name.ends_with(".CutCrossEntropyPlugin")) {
      if (!to.cut_cross_entropy) to.cut_cross_entropy = true;
    } else if (!name.ends_with(".LigerPlugin")) {
      from.remark_on(kind::doubtful,
                     "plugins",
                     "has " + shown((*items)[at]) + ", which the estimate leaves out");
    }
  }
}

// Its plugin has a switch for each of Liger's functions.
inline void read_liger(settings_reader& from, training_config& to) {
  const auto is_on = [&](const char* key) {
    const auto is = from.flag(key);
    return is && *is;
  };
  constexpr const char* loss = "liger_fused_linear_cross_entropy";
  int on = 0;
  for (const char* const key : {"liger_rope", "liger_rms_norm", "liger_glu_activation"})
    if (is_on(key)) ++on;
  const bool has_loss = is_on(loss);
  if (on == 3 && (has_loss || says(to.cut_cross_entropy, true)))
    to.liger_kernels = true;
  else if (on != 0 || has_loss)
    from.remark_on(kind::doubtful,
                   loss,
                   "and liger_rope, liger_rms_norm and liger_glu_activation are not all true; the "
                   "estimate has all of Liger's functions or none, and takes none");
}

/// Fills in what axolotl documents; what DeepSpeed's own file may say as what is usual.
inline void take_defaults(settings_reader& from, read_config& read) {
  training_config& to = read.config;
  if (!to.micro_batch) to.micro_batch = 1;
  if (!to.accumulation) to.accumulation = 1;
  if (!to.sequence_length) to.sequence_length = 512;
  if (!to.epochs && !to.steps) to.epochs = 1;
  training_config& usual = to.engine == "deepspeed" ? read.usual : to;
  if (!to.optimizer && !from.has("optimizer"))
    usual.optimizer = gpuplan::optimizer{.loop = optimizer_loop::fused};
  if (!to.clip_norm) usual.clip_norm = 1.0;  // TrainingArguments'
  // A micro-batch is one row where attention tells its parts from each other.
  const auto has_rows = from.flag("multipack_real_batches");
  const bool tells_parts = says(to.attention, attention_kernel::flash) ||
                           says(to.attention, attention_kernel::efficient);
  if (says(to.packing, true) && (has_rows ? !*has_rows : tells_parts)) to.padding_free = true;
}

// What changes a step, and the estimate has not.
inline void doubt_the_rest(settings_reader& from) {
  hugging_face::doubt_flags(from,
                            {"torch_compile",
                             "layer_offloading",
                             "tiled_mlp",
                             "lora_mlp_kernel",
                             "lora_qkv_kernel",
                             "lora_o_kernel",
                             "lora_embedding_kernel",
                             "lora_fp32_gradients",
                             "chunked_cross_entropy",
                             "liger_cross_entropy",
                             "auto_find_batch_size",
                             "deepcompile",
                             "use_kernels",
                             "s2_attention",
                             "flash_attn_cross_entropy",
                             "flash_attn_rms_norm",
                             "flash_attn_fuse_mlp",
                             "flash_optimum",
                             "flex_attention",
                             "sage_attention",
                             "fused_attn_kernel",
                             "fp8_enable_fsdp_float8_all_gather",
                             "float16",
                             "fp32_norms",
                             "full_determinism",
                             "quantize_moe_experts",
                             "gptq",
                             "ple_cpu_offload",
                             "lr_quadratic_warmup",
                             "use_dft",
                             "use_eaft",
                             "use_onebitllms",
                             "resize_token_embeddings_to_32x",
                             "shrink_embeddings",
                             "relora_cpu_offload",
                             "reward_model",
                             "process_reward_model",
                             "reinit_weights",
                             "pretrain_multipack_attn"});
  hugging_face::doubt_numbers(from,
                              {"gc_steps",
                               "gc_collect_steps",
                               "torch_empty_cache_steps",
                               "neftune_noise_alpha",
                               "noisy_embedding_alpha"});
  hugging_face::doubt_keys(from,
                           {"optim_args",
                            "lr_groups",
                            "cosine_constant_lr_ratio",
                            "device_map",
                            "max_memory",
                            "gpu_memory_limit",
                            "model_quantization_config",
                            "tokens",
                            "ring_attn_func",
                            "selective_checkpointing",
                            "experts_implementation",
                            "overrides_of_model_config",
                            "overrides_of_model_kwargs",
                            "lora_target_parameters",
                            "lora_rank_pattern",
                            "peft_layer_replication",
                            "peft_trainable_token_indices",
                            "lisa_n_layers",
                            "qat",
                            "fp8_config",
                            "diffusion_lm"});
  if (const auto bucket = from.number("ddp_bucket_cap_mb"); bucket && *bucket != 25)
    from.remark_on(kind::doubtful, "ddp_bucket_cap_mb", "is not 25, as the estimate has it");
  if (says(from.flag("peft_autocast_adapter_dtype"), false))
    from.remark_on(kind::doubtful,
                   "peft_autocast_adapter_dtype",
                   "is false; the estimate has adapters in fp32");
  // A flag, or a place to go to
  if (const value* const found = from.find("activation_offloading");
      found != nullptr && found->text() != nullptr)
    from.remark_on(kind::doubtful,
                   "activation_offloading",
                   "is " + shown(*found) + ", which the estimate leaves out");
  else
    hugging_face::doubt_flags(from, {"activation_offloading"});
  if (const std::string backend = from.text("nf4_backend");
      !backend.empty() && backend != "bitsandbytes")
    from.remark_on(kind::doubtful,
                   "nf4_backend",
                   "is " + shown(value(backend)) + "; the estimate has bitsandbytes' four bits");
}

inline void pass_the_rest_over(settings_reader& from, const training_config& to) {
  doubt_the_rest(from);
  if (from.find("batch_size", true) != nullptr)
    from.remark_on(kind::outdated, "batch_size", "is old; gradient_accumulation_steps is taken");
  if (const std::string rl = from.text("rl"); !rl.empty())
    from.remark_on(kind::doubtful,
                   "rl",
                   "is " + shown(value(rl)) + "; the estimate is of one model and one answer");
  if (from.find("unfrozen_parameters", true) != nullptr)
    from.remark_on(kind::doubtful,
                   "unfrozen_parameters",
                   to.adapters ? "is passed over; the estimate trains adapters alone"
                               : "is passed over; the estimate trains all");
  from.pass_over_words("gradient_checkpointing_kwargs.", "preserve_rng_state determinism_check");
  from.pass_over_words(
      "",
      "trl ebft num_labels orpo_alpha rl_beta kto_desirable_weight kto_undesirable_weight "
      "model_quantization_config_kwargs relora_prune_ratio lisa_step_interval "
      "jagged_restart_steps eaft_alpha flex_attn_compile_kwargs "
      "tokenizer_use_mistral_common tokenizer_save_jinja_files processor_kwargs "
      "experimental_skip_move_to_device nvfp4_merge_aware lora_alpha_pattern "
      "peft_ensure_weight_tying merge_method torchdistx_path use_wandb mlflow_run_name "
      "hf_mlflow_log_artifacts comet_experiment_key comet_mode comet_online "
      "comet_experiment_config use_trackio trackio_project_name trackio_run_name "
      "trackio_space_id use_otel_metrics otel_metrics_host otel_metrics_port gradio_title "
      "gradio_share gradio_server_name gradio_server_port gradio_max_new_tokens "
      "gradio_temperature use_ray ray_run_name mean_resizing_embeddings "
      "dynamic_checkpoint shuffle_before_merging_datasets dataset_shard_num dataset_shard_idx "
      "num_dataset_shards_to_save dataset_exact_deduplication dataset_keep_in_memory "
      "bench_dataset bench_split balance_labels label_balance_window_optim_steps "
      "sample_packing_mp_start_method fa_varlen_kwargs_in_collator curriculum_sampling "
      "pretrain_multipack_buffer_size streaming_multipack_buffer_size eval_on_start "
      "logging_nan_inf_filter sync_profiler_steps sync_profiler_start_step chat_template_kwargs "
      "is_preprocess preprocess_iterable total_supervised_tokens axolotl_config_path "
      "generate_samples num_generation_samples generation_max_new_tokens generation_temperature "
      "generation_top_p generation_top_k generation_prompt_ratio generation_do_sample "
      "hub_revision role_boundaries "
      "base_model_config cls_model_config model_type model_config_type tokenizer_type "
      "tokenizer_config tokenizer_use_fast tokenizer_legacy processor_type trust_remote_code "
      "revision_of_model is_falcon_derived_model "
      "is_llama_derived_model is_mistral_derived_model is_qwen_derived_model strict "
      "datasets test_datasets pretraining_dataset streaming shuffle_merged_datasets "
      "dataset_prepared_path dataset_processes dataset_num_proc val_set_size chat_template "
      "chat_template_jinja default_system_message special_tokens added_tokens_overrides "
      "eot_tokens train_on_inputs group_by_length output_dir hub_model_id hub_strategy "
      "push_dataset_to_hub hf_use_auth_token wandb_project wandb_entity wandb_watch wandb_name "
      "wandb_run_id wandb_log_model wandb_mode mlflow_tracking_uri mlflow_experiment_name "
      "comet_api_key comet_workspace comet_project_name use_tensorboard use_comet use_mlflow "
      "logging_steps eval_steps evals_per_epoch eval_strategy eval_batch_size eval_table_size "
      "eval_max_new_tokens eval_sample_packing eval_sequence_len eval_causal_lm_metrics "
      "do_causal_lm_eval do_bench_eval save_steps saves_per_epoch save_strategy "
      "save_total_limit save_only_model save_first_step save_safetensors load_best_model_at_end "
      "metric_for_best_model greater_is_better early_stopping_patience resume_from_checkpoint "
      "auto_resume_from_checkpoints seed debug local_rank device "
      "low_cpu_mem_usage pad_to_sequence_len pad_to_multiple_of "
      "excess_length_strategy min_sample_len sample_packing_bin_size "
      "sample_packing_group_size sample_packing_sequentially sample_packing_eff_est "
      "total_num_tokens adam_beta1 adam_beta2 adam_beta3 "
      "adam_epsilon adam_epsilon2 optim_target_modules embedding_lr "
      "peft_layers_to_transform embedding_lr_scale loraplus_lr_ratio "
      "loraplus_lr_embedding lora_alpha "
      "lora_fan_in_fan_out lora_model_dir lora_on_cpu peft_use_rslora peft_init_lora_weights "
      "peft qlora_sharded_model_loading "
      "merge_lora ddp ddp_timeout ddp_broadcast_buffers "
      "ddp_find_unused_parameters heads_k_stride dataloader_num_workers "
      "dataloader_pin_memory dataloader_prefetch_factor dataloader_drop_last "
      "remove_unused_columns "
      "liger_layer_norm torch_compile_backend "
      "torch_compile_mode loss_watchdog_threshold loss_watchdog_patience profiler_steps "
      "profiler_steps_start include_tkps include_tokens_per_second mode "
      "dp_replicate_size "
      "fsdp_final_state_dict_type skip_prepare_dataset "
      "embeddings_skip_upcast float32 context_length");
}

inline std::string refusal_of(const training_config& config) {
  if (std::string flaw = flaw_of(config); !flaw.empty()) return flaw;
  if (std::string flaw = hugging_face::flaw_of_adapters(config); !flaw.empty()) return flaw;
  const std::string& engine = config.engine;
  if (!engine.empty() && engine != "ddp" && engine != "fsdp2")
    return "engine " + printable(engine) +
           ": ddp and fsdp2 are taken; of DeepSpeed axolotl takes a file of its own";
  const auto weights = weights_of(config);
  if (config.weights && weights && *config.weights != *weights)
    return std::string("weights ") + text(*config.weights) + ": axolotl holds them in " +
           text(*weights) + " beside such products, which is taken";
  const bool has_own_word =
      std::any_of(std::begin(own_optimizers), std::end(own_optimizers), [&](const auto& one) {
        return says(config.optimizer, one.is);
      });
  if (config.optimizer && !has_own_word && hugging_face::word_near(*config.optimizer) == nullptr)
    return "optimizer: axolotl has no word for one of its kind with such states; AdamW, Adafactor, "
           "Lion, Muon, SGD without momentum, RMSprop or Adagrad is taken";
  const auto is_above_1 = [](const known<std::int64_t>& degree) { return degree && *degree > 1; };
  if (is_above_1(config.pipeline_parallel))
    return "pipeline_parallel " + std::to_string(*config.pipeline_parallel) +
           ": axolotl has no pipelines; 1 is taken";
  if (is_above_1(config.expert_parallel))
    return "expert_parallel " + std::to_string(*config.expert_parallel) +
           ": axolotl has it with a plug-in, of which gpuplan writes nothing; 1 is taken";
  if (is_above_1(config.context_parallel) && says(config.attention, attention_kernel::eager))
    return "attention eager: axolotl has no context parallelism with it; another is taken";
  const bool is_of_8_bits = config.optimizer && config.optimizer->kind == optimizer_kind::adamw &&
                            config.optimizer->library == optimizer_library::bitsandbytes &&
                            config.optimizer->states == number_format::int8;
  if (is_above_1(config.tensor_parallel) && is_of_8_bits)
    return "optimizer: axolotl has no tensor parallelism with bitsandbytes' AdamW in 8 bits; "
           "torch's "
           "or torchao's is taken";
  if (engine == "fsdp2" && is_of_8_bits && !config.optimizer->pages_states)
    return "optimizer: axolotl has no FSDP 2 with bitsandbytes' AdamW in 8 bits; torch's or "
           "torchao's is taken";
  if (engine == "fsdp2") return hugging_face::flaw_of_fsdp(config);
  if (config.zero_stage && *config.zero_stage > 0)
    return "zero_stage " + std::to_string(*config.zero_stage) + ": engine fsdp2 is taken for it";
  for (const auto& [name, degree] : {std::pair{"tensor_parallel", config.tensor_parallel},
                                     std::pair{"shard_group", config.shard_group}})
    if (is_above_1(degree))
      return std::string(name) + " " + std::to_string(*degree) + ": engine fsdp2 is taken for it";
  return "";
}

inline void write_adapters(settings_writer& to, const training_config& config) {
  if (says(config.trains, training::full)) to.take(&training_config::trains);
  if (!config.adapters) return;
  to.take(&training_config::trains);
  const lora& is = *to.take(&training_config::adapters);
  to.put("adapter", is.base.block != 0 ? "qlora" : "lora");
  if (is.base.block != 0) to.put("load_in_4bit", true);
  if (is.base.block != 0 && is.base.scale_block == 0)
    to.put("bnb_config_kwargs.bnb_4bit_use_double_quant", false);
  to.put("lora_r", is.rank);
  if (is.targets == all_linear)
    to.put("lora_target_linear", true);
  else
    to.put("lora_target_modules", hugging_face::target_names(is.targets));
  if (is.dropout > 0) to.put("lora_dropout", is.dropout);
  if (is.magnitudes) to.put("peft_use_dora", true);
  hugging_face::write_saved_modules(to, "lora_modules_to_save", is);
  hugging_face::leave_parts_of_adapters(to, is);
}

inline void write_schedule(settings_writer& to, const training_config& config) {
  hugging_face::write_schedule(to, schedule, config);
  if (config.warm_up_share && to.settings.find("warmup_steps") != nullptr &&
      !config.warm_up_steps) {
    // A share has a key of its own.
    value::object& all = *to.settings.members();
    for (auto& member : all)
      if (member.first == "warmup_steps") member.first = "warmup_ratio";
  }
  if (says(config.schedule, rate_schedule::cosine) && config.least_learning_rate &&
      config.learning_rate && *config.learning_rate > 0)
    to.put("cosine_min_lr_ratio",
           *to.take(&training_config::least_learning_rate) / *config.learning_rate);
}

}  // namespace detail::axolotl

/// Whether a file of YAML is axolotl's.
[[nodiscard]] inline bool looks_like_axolotl(const value& settings) {
  return settings.find("base_model") != nullptr &&
         (settings.find("micro_batch_size") != nullptr ||
          settings.find("sequence_len") != nullptr || settings.find("adapter") != nullptr ||
          settings.find("datasets") != nullptr);
}

/// What a file of axolotl says. Its documented defaults are filled in: samples one by one, no
/// accumulation, 512 tokens, one epoch, bf16 "auto", nothing recomputed; but for what DeepSpeed's
/// file may say fused AdamW, gradients clipped at 1. Without `adapter` all parameters train. Keys
/// were looked up in axolotl 0.21.
[[nodiscard]] inline read_config read_axolotl(const value& settings) {
  namespace words = detail::axolotl;
  read_config read{.tool = "axolotl"};
  if (settings.members() == nullptr) {
    read.why = "it is " + detail::shown(settings) + "; axolotl's file is an object";
    return read;
  }
  detail::settings_reader from(settings, read);
  training_config& to = read.config;
  detail::read_plain(from, words::plain_keys, to);
  if (const auto steps = from.integer("max_steps", -1); steps && *steps > 0) to.steps = *steps;
  to.expert_parallel = from.integer("expert_parallel_size");  // of a plug-in
  words::read_optimizer(from, to);
  detail::hugging_face::read_schedule(from, words::schedule, to);
  words::read_recomputation(from, to);
  words::read_adapters(from, to, read.why);
  words::read_engine(from, to);
  words::read_precision(from, to);
  words::read_attention(from, to);
  if (!to.precision) to.precision = training_precision::bf16;
  to.weights = words::weights_of(to);
  if (!to.recompute) to.recompute = recompute_mode::none;
  if (!to.trains && !from.has("adapter")) to.trains = training::full;
  detail::remark_on_contradictions(from, to, [](std::string_view) { return "dp_shard_size"; });
  detail::hugging_face::read_accelerator(from, to);
  detail::hugging_face::doubt_quantised(from, "base_model", "load_in_4bit: true", to);
  words::read_plugins(from, to);
  words::read_liger(from, to);
  words::take_defaults(from, read);
  words::pass_the_rest_over(from, to);
  from.name_the_others();
  return read;
}

/// axolotl's file, axolotl.yaml, and its command. Refused: pipelines, experts in parallel,
/// DeepSpeed, parts of a model that train, degrees without an engine that has them.
[[nodiscard]] inline written_config write_axolotl(const training_config& config) {
  namespace words = detail::axolotl;
  written_config written;
  written.why = words::refusal_of(config);
  if (!written) return written;
  detail::settings_writer to(config);
  to.put_plain(words::plain_keys);
  to.put("datasets", value::list{value::object{{"path", data_set_placeholder}}});
  to.put("output_dir", output_placeholder);
  if (config.steps) to.put("max_steps", *to.take(&training_config::steps));
  if (!to.put_word(
          "optimizer", &training_config::optimizer, detail::hugging_face::optimizer_words) &&
      !to.put_word("optimizer", &training_config::optimizer, words::own_optimizers))
    to.put("optimizer", detail::hugging_face::word_near(*config.optimizer));
  words::write_schedule(to, config);
  words::write_adapters(to, config);
  if (says(config.precision, training_precision::fp8)) {
    to.take(&training_config::precision);
    to.put("bf16", true);
    to.put("fp8", true);
  } else if (!says(config.precision, training_precision::pure_bf16)) {
    detail::hugging_face::write_precision(to, config);
  }
  if (words::weights_of(config)) to.take(&training_config::weights);
  if (says(config.attention, attention_kernel::efficient)) {
    to.take(&training_config::attention);
    to.put("attn_implementation", "xformers");
  } else {
    to.put_word(
        "attn_implementation", &training_config::attention, detail::hugging_face::attention_words);
  }
  if (config.engine == "fsdp2") {
    to.take(&training_config::engine);
    to.put("fsdp_version", 2);
    detail::hugging_face::write_fsdp(to, "", "offload_params", config);
    // The version stands outside.
    to.settings["fsdp_config"].members()->erase(to.settings["fsdp_config"].members()->begin());
    if (config.data_parallel) {
      const std::int64_t replicas = *to.take(&training_config::data_parallel);
      const std::int64_t shards =
          config.shard_group ? *to.take(&training_config::shard_group) : replicas;
      to.put("dp_shard_size", shards);
      to.put("dp_replicate_size", replicas / shards);
    }
  } else if (config.recompute && *config.recompute != recompute_mode::selective) {
    const bool is_full = *to.take(&training_config::recompute) == recompute_mode::full;
    to.put("gradient_checkpointing", is_full);
    if (is_full)
      to.put("gradient_checkpointing_kwargs.use_reentrant",
             says(to.take(&training_config::checkpoints_reenter), true));
  }
  // What packing makes of a micro-batch
  if (says(config.packing, true) &&
      (says(config.attention, attention_kernel::flash) ||
       says(config.attention, attention_kernel::efficient)) &&
      says(config.padding_free, true))
    to.take(&training_config::padding_free);
  if (says(config.pipeline_parallel, std::int64_t{1})) to.take(&training_config::pipeline_parallel);
  if (config.micro_batch && config.accumulation && config.data_parallel)
    to.take(&training_config::global_batch);
  const std::string comment = "# written for axolotl 0.21\n";
  written.files.push_back({"axolotl.yaml", comment + to_yaml(to.settings)});
  written.command = "axolotl train axolotl.yaml";
  if (const auto on = detail::machines_of(config); on.why.empty()) {
    for (const auto member :
         {&training_config::gpus, &training_config::nodes, &training_config::gpus_per_node})
      to.take(member);
    written.command += " --launcher torchrun -- --nnodes " + std::to_string(on.nodes) +
                       " --nproc-per-node " + std::to_string(on.gpus_per_node);
  }
  written.not_written = to.not_written();
  return written;
}

}  // namespace gpuplan::io

#pragma once

// transformers' TrainingArguments, TRL's SFTConfig and DPOConfig, and the arguments of TRL's
// scripts, as an object of JSON or YAML. Keys and defaults are those of transformers 5.23 and TRL
// 1.16; older names are read too.

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/deepspeed.hpp>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail::hugging_face {

// Of accelerator_config
inline constexpr plain_key summing_key{
    "accelerator_config.gradient_accumulation_kwargs.sync_each_batch",
    &training_config::reduces_every_micro_batch};
// Of TrainingArguments
inline constexpr plain_key argument_keys[] = {
    {"per_device_train_batch_size", &training_config::micro_batch},
    {"gradient_accumulation_steps", &training_config::accumulation},
    {"max_grad_norm", &training_config::clip_norm},
    {"learning_rate", &training_config::learning_rate},
    {"weight_decay", &training_config::weight_decay},
    {"num_train_epochs", &training_config::epochs},
    {"use_liger_kernel", &training_config::liger_kernels},
    summing_key,
};
// Of TRL's configs and scripts
inline constexpr plain_key trl_keys[] = {
    {"model_name_or_path", &training_config::model},
    {"max_length", &training_config::sequence_length},
    {"packing", &training_config::packing},
};
// That TrainingArguments do not have, and TRL's do
inline constexpr const char* words_of_trl[] = {"use_peft",
                                               "lora_r",
                                               "lora_target_modules",
                                               "max_length",
                                               "max_seq_length",
                                               "packing",
                                               "padding_free",
                                               "load_in_4bit",
                                               "dataset_name",
                                               "beta",
                                               "assistant_only_loss",
                                               "completion_only_loss",
                                               "disable_dropout",
                                               "precompute_ref_log_probs",
                                               "num_generations",
                                               "max_completion_length",
                                               "use_vllm",
                                               "reward_funcs"};

inline constexpr const char* reentrant_keys[] = {"activation_checkpointing_kwargs.use_reentrant",
                                                 "gradient_checkpointing_kwargs.use_reentrant"};

inline void doubt_flags(settings_reader& from, std::initializer_list<const char*> keys) {
  for (const char* const key : keys)
    if (const auto is = from.flag(key); is && *is)
      from.remark_on(kind::doubtful, key, "is true, which the estimate leaves out");
}
/// Of numbers above 0.
inline void doubt_numbers(settings_reader& from, std::initializer_list<const char*> keys) {
  for (const char* const key : keys)
    if (const auto is = from.number(key); is && *is > 0)
      from.remark_on(kind::doubtful, key, "is above 0, which the estimate leaves out");
}
/// Of keys with any value.
inline void doubt_keys(settings_reader& from, std::initializer_list<const char*> keys) {
  for (const char* const key : keys)
    if (from.find(key, true) != nullptr)
      from.remark_on(kind::doubtful, key, "is there, which the estimate leaves out");
}
inline void say_outdated(settings_reader& from,
                         std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [old, now] : names)
    if (from.find(old, true) != nullptr)
      from.remark_on(kind::outdated, old, std::string("is refused by transformers 5; ") + now);
}

/// accelerator_config: Accelerate's part of the batch.
inline void read_accelerator(settings_reader& from, training_config& to) {
  const char* const key = "accelerator_config";
  if (const value* const found = from.find(key); found != nullptr && found->text() != nullptr)
    from.remark_on_file(key, *found->text());
  const std::string in = std::string(key) + ".";
  if (says(from.flag(in + "split_batches"), true))
    from.remark_on(kind::doubtful,
                   in + "split_batches",
                   "is true: the batch is then of all GPUs together, and the estimate has it on "
                   "each");
  const std::string steps = in + "gradient_accumulation_kwargs.num_steps";
  if (const auto said = from.integer(steps)) {
    if (to.accumulation && *to.accumulation > 1)
      from.remark_on(kind::contradicts,
                     steps,
                     "is there, and gradient_accumulation_steps too; one of both is taken");
    else
      to.accumulation = said;
  }
  from.pass_over_words(in,
                       "dispatch_batches even_batches use_seedable_sampler non_blocking "
                       "use_configured_state gradient_accumulation_kwargs.adjust_scheduler "
                       "gradient_accumulation_kwargs.sync_with_dataloader");
}

/// What all that take TrainingArguments say in the same words, LLaMA-Factory too; of the learning
/// rate also what its documentation has where nothing is said.
inline void read_arguments(settings_reader& from,
                           double usual_learning_rate,
                           training_config& to,
                           read_config& all) {
  read_plain(from, argument_keys, to);
  // DeepSpeed's own file may say it.
  if (!to.learning_rate)
    (from.has("deepspeed") ? all.usual : to).learning_rate = usual_learning_rate;
  // -1: as many as there are epochs.
  if (const auto steps = from.integer("max_steps", -1); steps && *steps > 0) to.steps = *steps;
  read_schedule(from, {}, to);
  if (from.has("warmup_ratio"))
    from.remark_on(kind::outdated,
                   "warmup_ratio",
                   "is refused by transformers 5; warmup_steps takes a share below 1");
  read_precision(from, to);
  to.optimizer = read_word<gpuplan::optimizer>(from, "optim", optimizer_words);
  for (const char* key : {"activation_checkpointing", "gradient_checkpointing"})
    if (const auto is = from.flag(key); is && !to.recompute)
      to.recompute = *is ? recompute_mode::full : recompute_mode::none;
  read_accelerator(from, to);
  // A flag, or in words of older versions: "full_shard auto_wrap", a list of them too.
  if (const value* const fsdp = from.find("fsdp", true)) {
    std::string words = fsdp->text() != nullptr ? *fsdp->text() : std::string();
    if (const value::list* const items = fsdp->items())
      for (const value& each : *items)
        if (each.text() != nullptr) words += (words.empty() ? "" : " ") + *each.text();
    const bool is_on = fsdp->flag() != nullptr ? *fsdp->flag() : !words.empty() && words != "false";
    const auto has = [&](const char* word) { return words.find(word) != std::string::npos; };
    if (is_on) {
      to.zero_stage = has("shard_grad_op") ? 2 : 3;  // default: reshard_after_forward true
      if (has("offload")) to.weights_on_host = to.optimizer_on_host = true;
      if (!words.empty() && words != "true")
        from.remark_on(kind::outdated, "fsdp", "in words is old; true is taken, with fsdp_config");
      read_fsdp(from, true, 2, to);
      if (has("no_shard")) to.zero_stage = 0, to.engine = "ddp";
    }
  }
  if (!is_fsdp(to.engine) && from.find("fsdp_config", true) != nullptr && !from.has("fsdp"))
    from.remark_on(
        kind::missing, "fsdp", "is not there, without which transformers passes fsdp_config over");
  if (const value* const deepspeed = from.find("deepspeed", true)) {
    if (is_fsdp(to.engine))
      from.remark_on(
          kind::contradicts, "deepspeed", "is there, and fsdp too; one of both is taken");
    if (deepspeed->members() != nullptr) {
      const read_config inner = read_deepspeed(*deepspeed);
      if (replaces_optimizer(inner.config.optimizer, to.optimizer)) {
        to.optimizer = inner.config.optimizer;
        from.remark_on(kind::contradicts,
                       "deepspeed.optimizer",
                       "is another than the trainer's; DeepSpeed's is taken");
      }
      take_deepspeed(from, "deepspeed", inner, to, all);
    } else if (deepspeed->text() != nullptr)
      from.remark_on_file("deepspeed", *deepspeed->text());
    else
      from.remark_on(kind::contradicts,
                     "deepspeed",
                     "is " + shown(*deepspeed) + "; an object or a file's name is taken");
    to.engine = "deepspeed";
  }
  if (from.find("liger_kernel_config", true) != nullptr)
    from.remark_on(kind::doubtful,
                   "liger_kernel_config",
                   "is passed over; the estimate has all of Liger's functions or none");
  doubt_flags(
      from, {"torch_compile", "auto_find_batch_size", "use_cache", "use_cpu", "full_determinism"});
  for (const char* const key : reentrant_keys)
    if (const auto is = from.flag(key)) to.checkpoints_reenter = is;
  // Each of these two compiles without the flag.
  doubt_keys(from,
             {"torch_compile_backend",
              "torch_compile_mode",
              "optim_args",
              "neftune_noise_alpha",
              "torch_empty_cache_steps"});
  if (const std::string library = from.text("ddp_backend"); !library.empty() && library != "nccl")
    from.remark_on(kind::doubtful,
                   "ddp_backend",
                   "is " + shown(value(library)) + "; the estimate communicates as NCCL does");
  if (!from.text("debug").empty())
    from.remark_on(kind::doubtful, "debug", "is there; the estimate has no checks of a step");
  if (const auto bucket = from.number("ddp_bucket_cap_mb"); bucket && *bucket != 25)
    from.remark_on(kind::doubtful, "ddp_bucket_cap_mb", "is not 25, as the estimate has it");
  say_outdated(from,
               {{"evaluation_strategy", "eval_strategy is taken"},
                {"group_by_length", "train_sampling_strategy: group_by_length is taken"},
                {"overwrite_output_dir", "leave it out"},
                {"no_cuda", "use_cpu is taken"},
                {"use_mps_device", "leave it out"},
                {"fp16_backend", "leave it out"},
                {"fp16_opt_level", "leave it out"},
                {"half_precision_backend", "leave it out"},
                {"per_gpu_train_batch_size", "per_device_train_batch_size is taken"},
                {"xla", "fsdp_config.xla is taken"},
                {"tpu_num_cores", "leave it out"},
                {"torchdynamo", "torch_compile is taken"},
                {"ray_scope", "leave it out"},
                {"jit_mode_eval", "leave it out"},
                {"past_index", "leave it out"},
                {"logging_dir", "the environment's TENSORBOARD_LOGGING_DIR is taken"},
                {"save_safetensors", "leave it out"}});
  doubt_numbers(from, {"label_smoothing_factor"});
  for (const char* key : {"activation_checkpointing_kwargs.", "gradient_checkpointing_kwargs."})
    from.pass_over_words(key, "preserve_rng_state determinism_check debug");
  from.pass_over_words(
      "",
      "output_dir optim_target_modules adam_beta1 adam_beta2 "
      "adam_epsilon average_tokens_across_devices bf16_full_eval "
      "fp16_full_eval logging_strategy logging_steps "
      "logging_first_step log_on_each_node logging_nan_inf_filter "
      "include_num_input_tokens_seen include_tokens_per_second log_level log_level_replica "
      "disable_tqdm report_to run_name project trackio_space_id trackio_bucket_id "
      "trackio_static_space_id eval_strategy eval_steps eval_delay per_device_eval_batch_size "
      "prediction_loss_only eval_on_start eval_do_concat_batches eval_use_gather_object "
      "eval_accumulation_steps include_for_metrics include_inputs_for_metrics "
      "batch_eval_metrics save_only_model save_strategy save_steps save_on_each_node "
      "save_total_limit enable_jit_checkpoint push_to_hub push_to_hub_token "
      "push_to_hub_model_id hub_token hub_private_repo hub_model_id hub_strategy "
      "hub_always_push hub_revision load_best_model_at_end metric_for_best_model "
      "greater_is_better ignore_data_skip restore_callback_states_from_checkpoint "
      "seed data_seed dataloader_drop_last "
      "dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers "
      "dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order "
      "remove_unused_columns label_names train_sampling_strategy length_column_name "
      "ddp_find_unused_parameters ddp_broadcast_buffers ddp_static_graph "
      "ddp_timeout skip_memory_metrics do_train do_eval do_predict "
      "resume_from_checkpoint local_rank fsdp_min_num_params "
      "fsdp_transformer_layer_cls_to_wrap predict_with_generate generation_max_length "
      "generation_num_beams sortish_sampler");
}

/// Whose file it is: another trainer of TRL's has other defaults.
enum class trainer_kind {
  transformers,
  supervised,
  pairs,        // DPOTrainer
  preferences,  // others that learn what is preferred: KTO, ORPO, CPO, a reward model
  policy
};
[[nodiscard]] inline bool learns_preferences(trainer_kind by) {
  return by == trainer_kind::pairs || by == trainer_kind::preferences;
}

/// `program` is the script, module or word of `trl` that reads them; empty: none is known.
[[nodiscard]] inline trainer_kind trainer_of(const value& settings, std::string_view program) {
  const std::string_view script = program.substr(program.find_last_of('/') + 1);
  const bool is_script = script.ends_with(".py");
  const std::string_view word = is_script ? script : script.substr(script.find_last_of('.') + 1);
  const auto names = [&](std::string_view trainer) {
    return word.find(trainer) != std::string_view::npos;
  };
  if (names("grpo")) return trainer_kind::policy;
  if (names("dpo")) return names("online") ? trainer_kind::preferences : trainer_kind::pairs;
  for (const char* const other : {"kto", "reward", "orpo", "cpo", "bco", "gkd", "rloo"})
    if (names(other)) return trainer_kind::preferences;
  if (names("sft")) return trainer_kind::supervised;
  // as transformers names its examples: run_clm.py, run_mlm.py, run_glue.py
  if (is_script && word.starts_with("run_")) return trainer_kind::transformers;
  const auto has_any = [&settings](std::initializer_list<const char*> keys) {
    for (const char* const key : keys)
      if (settings.find(key) != nullptr) return true;
    return false;
  };
  if (has_any({"num_generations", "max_completion_length", "use_vllm", "reward_funcs"}))
    return trainer_kind::policy;
  if (has_any({"desirable_weight",
               "undesirable_weight",
               "reward_model_path",
               "cpo_alpha",
               "simpo_gamma",
               "lmbda",
               "teacher_model_name_or_path"}))
    return trainer_kind::preferences;
  if (has_any({"beta", "precompute_ref_log_probs", "sync_ref_model"})) return trainer_kind::pairs;
  if (has_any({"disable_dropout"})) return trainer_kind::preferences;
  for (const char* const key : words_of_trl)
    if (settings.find(key) != nullptr) return trainer_kind::supervised;
  return trainer_kind::transformers;
}

[[nodiscard]] inline double usual_learning_rate(trainer_kind by) {
  if (by == trainer_kind::transformers) return 5e-5;
  return by == trainer_kind::supervised ? 2e-5 : 1e-6;
}

/// Fills in what TrainingArguments and TRL's configs document; beside DeepSpeed, whose file may say
/// it, as what is usual.
inline void take_defaults(read_config& read, trainer_kind by) {
  training_config& to = read.config.engine == "deepspeed" ? read.usual : read.config;
  if (!to.micro_batch) to.micro_batch = 8;
  if (!to.accumulation) to.accumulation = 1;
  if (!to.clip_norm) to.clip_norm = 1.0;
  // Since 5.0, with PyTorch 2.8 and later
  if (!to.optimizer) to.optimizer = gpuplan::optimizer{.loop = optimizer_loop::fused};
  if (!read.config.epochs && !read.config.steps) to.epochs = 3;
  // TRL's; without them Accelerate's own file may say it.
  if (by == trainer_kind::transformers) return;
  if (!to.precision) to.precision = training_precision::bf16;
  if (!to.recompute) to.recompute = recompute_mode::full;
  if (!to.sequence_length && by != trainer_kind::policy) to.sequence_length = 1024;
  if (!to.weights) to.weights = number_format::fp32;
}

/// TRL's own files for Accelerate, by the names that its command takes.
struct named_accelerate_file {
  const char* name;
  const char* engine;
  int zero_stage;
  std::int64_t gpus = 8;
};
inline constexpr named_accelerate_file accelerate_files_of_trl[] = {{"single_gpu", "ddp", 0, 1},
                                                                    {"multi_gpu", "ddp", 0},
                                                                    {"fsdp1", "fsdp1", 3},
                                                                    {"fsdp2", "fsdp2", 3},
                                                                    {"zero1", "deepspeed", 1},
                                                                    {"zero2", "deepspeed", 2},
                                                                    {"zero3", "deepspeed", 3}};
[[nodiscard]] inline bool is_accelerate_file_of_trl(std::string_view name) {
  for (const named_accelerate_file& each : accelerate_files_of_trl)
    if (name == each.name) return true;
  return false;
}
/// Of `trl sft` what it hands on to Accelerate.
inline void read_trl_launch(settings_reader& from, training_config& to) {
  if (const auto processes = from.integer("num_processes")) to.gpus = processes;
  const std::string file = from.text("accelerate_config");
  for (const named_accelerate_file& each : accelerate_files_of_trl) {
    if (file != each.name) continue;
    if (to.engine.empty()) {
      to.engine = each.engine;
      to.zero_stage = each.zero_stage;
    }
    if (!to.gpus) to.gpus = each.gpus;
  }
}

inline void read_adapters(settings_reader& from, training_config& to) {
  lora adapters{.rank = 16, .dropout = 0.05};  // TRL's defaults
  if (const auto rank = from.integer("lora_r")) adapters.rank = *rank;
  read_targets(from, "lora_target_modules", adapters);
  read_saved_modules(from, "lora_modules_to_save", adapters);
  if (const auto share = from.number("lora_dropout")) adapters.dropout = *share;
  if (const auto is = from.flag("use_dora")) adapters.magnitudes = *is;
  const auto four_bits = from.flag("load_in_4bit");
  const auto nested = from.flag("use_bnb_nested_quant");
  if (four_bits && *four_bits)
    adapters.base = nested && *nested ? double_quantised_base : four_bit_base;
  lora of_parameters{.targets = {}};
  read_targets(from, "lora_target_parameters", of_parameters);
  const lora_targets& parameters = of_parameters.targets;
  if (!(parameters == lora_targets{}) && !from.has("lora_target_modules")) adapters.targets = {};
  adapters.targets.expert_gate_up = parameters.expert_gate_up;
  adapters.targets.expert_down = parameters.expert_down;
  from.pass_over_words("",
                       "lora_alpha lora_task_type use_rslora bnb_4bit_quant_type "
                       "bnb_4bit_quant_storage");
  const auto is_used = from.flag("use_peft");
  if (is_used) to.trains = *is_used ? training::adapters : training::full;
  if (is_used && *is_used) to.adapters = adapters;
  if (!is_used && (from.has("lora_r") || from.has("lora_target_modules")))
    from.remark_on(kind::missing,
                   "use_peft",
                   "is not there, without which TRL passes lora_r and its like over; the estimate "
                   "trains all parameters");
  if (!(is_used && *is_used) && four_bits && *four_bits)
    from.remark_on(kind::missing, "use_peft", "is not true; four bits train with adapters alone");
}

/// What of a step trainers with a reference or a policy do, and the estimate of a file has not. It
/// is said of the program where no argument shows it.
inline void doubt_objective(settings_reader& from,
                            training_config& to,
                            trainer_kind by,
                            std::string_view program) {
  const bool is_policy = by == trainer_kind::policy;
  // Of pairs it is taken back where the estimate is of them.
  const auto remark_on = [&](std::string_view key, const char* why) {
    if (by == trainer_kind::pairs)
      from.remark_on_objective(key, why);
    else
      from.remark_on(kind::doubtful, key, why);
  };
  const char* const of_policy =
      "belongs to GRPOTrainer; the estimate is of one model and one answer; --objective grpo of "
      "gpuplan memory has its steps, but not beside FSDP, --scored-tokens the longest completion, "
      "--generates-apart and --inference-memory an engine such as vLLM beside it";
  const char* const of_reference =
      "belongs to a training with a reference model, or with pairs of answers; the estimate is of "
      "one model and one answer; of DPOTrainer gpuplan check and --objective dpo of gpuplan memory "
      "have both, but not beside FSDP, Liger's kernels and four bits at ZeRO-3";
  const char* said = nullptr;
  // Of several keys with one reason the first
  const auto doubt = [&](const char* key, const char* why) {
    if (from.find(key, true) == nullptr || said == why) return;
    remark_on(key, why);
    said = why;
  };
  for (const char* const key : {"num_generations", "max_completion_length", "use_vllm"})
    doubt(key, of_policy);
  // Of a policy without it there is no reference.
  const auto strength = from.number("beta");
  for (const char* const key : {"beta", "precompute_ref_log_probs", "sync_ref_model"})
    if (!is_policy) doubt(key, of_reference);
  if (said == nullptr && !program.empty() && (is_policy || learns_preferences(by)))
    remark_on(printable(program), is_policy ? of_policy : of_reference);
  if (by == trainer_kind::pairs) {
    to.pairs_of_answers = true;
    if (says(from.flag("precompute_ref_log_probs"), true)) to.precomputed_reference = true;
  }
  if (is_policy && strength && *strength > 0)
    from.remark_on(kind::doubtful,
                   "beta",
                   "is above 0, so that a reference model stands beside; --objective grpo with "
                   "--reference of gpuplan memory has it");
  if (is_policy) doubt_flags(from, {"sync_ref_model"});
  doubt_flags(from,
              {"cast_lm_head_to_fp32",
               "use_adaptive_entropy",
               "use_transformers_continuous_batching",
               "use_transformers_paged"});
  doubt_numbers(from, {"entropy_coef"});
  doubt_keys(from,
             {"generation_batch_size",
              "steps_per_generation",
              "off_policy_mask_threshold",
              "vllm_gpu_memory_utilization",
              "vllm_max_model_length",
              "vllm_tensor_parallel_size",
              "vllm_enable_sleep_mode"});
  if (const auto times = from.number("num_iterations"); times && *times != 1)
    from.remark_on(kind::doubtful,
                   "num_iterations",
                   "is not 1: completions count for more than one step, which the estimate does "
                   "not have");
  if (const auto share = from.number("top_entropy_quantile"); share && *share < 1)
    from.remark_on(
        kind::doubtful, "top_entropy_quantile", "is below 1, which the estimate leaves out");
  from.pass_over_words(
      "",
      "num_generations_eval ds3_gather_for_generation temperature top_p top_k min_p "
      "generation_kwargs chat_template_kwargs repetition_penalty cache_implementation vllm_mode "
      "vllm_model_impl vllm_structured_outputs_regex vllm_server_base_url vllm_server_host "
      "vllm_server_port vllm_server_timeout vllm_group_port epsilon delta epsilon_high "
      "sapo_temperature_neg sapo_temperature_pos vespo_k_pos vespo_lambda_pos vespo_k_neg "
      "vespo_lambda_neg importance_sampling_level reward_weights multi_objective_aggregation "
      "scale_rewards mask_truncated_completions entropy_coef_min entropy_coef_max "
      "entropy_coef_delta entropy_target max_tool_calling_iterations "
      "vllm_importance_sampling_correction vllm_importance_sampling_mode "
      "vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min "
      "vllm_importance_sampling_cap use_bias_correction_kl log_completions log_multimodal "
      "num_completions_to_print log_unique_prompts log_completions_hub_repo "
      "transformers_continuous_batching_config reward_model_name_or_path reward_funcs");
}

inline void read_trl(settings_reader& from,
                     training_config& to,
                     trainer_kind by,
                     std::string_view program) {
  read_plain(from, trl_keys, to);
  if (const auto length = from.integer("max_seq_length")) {
    from.remark_on(kind::outdated, "max_seq_length", "is refused by TRL; max_length is taken");
    if (!to.sequence_length) to.sequence_length = length;
  }
  // Of scripts that took after Stanford's Alpaca, and of transformers' run_clm.py
  for (const char* const key : {"model_max_length", "block_size"})
    if (const auto length = from.integer(key); length && !to.sequence_length)
      to.sequence_length = length;
  // A policy's sequence is a prompt and its completion.
  if (const auto prompt = from.integer("max_prompt_length")) {
    std::string taken;
    const auto completion = from.integer("max_completion_length");
    if (by == trainer_kind::policy && completion && !to.sequence_length) {
      to.sequence_length = *prompt + *completion;
      taken = "; sequences of " + std::to_string(*to.sequence_length) +
              " tokens are taken, with max_completion_length";
    }
    from.remark_on(kind::outdated,
                   "max_prompt_length",
                   "is " + std::to_string(*prompt) +
                       ", a key of older versions: TRL 1.16 cuts no prompt" + taken);
  }
  for (const char* const key : {"attn_implementation", "model_init_kwargs.attn_implementation"})
    if (const auto is = read_word<attention_kernel>(from, key, attention_words); !to.attention)
      to.attention = is;
  read_adapters(from, to);
  for (const char* key :
       {"dtype", "torch_dtype", "model_init_kwargs.dtype", "model_init_kwargs.torch_dtype"}) {
    known<number_format> weights = number_format::bf16;
    if (from.text(key) == "auto")
      from.remark_on(kind::doubtful,
                     key,
                     "is \"auto\", the format of the stored model; the estimate has bf16");
    else
      weights = read_word<number_format>(from, key, weights_words);
    if (!to.weights) to.weights = weights;
    if (std::string_view(key).ends_with("torch_dtype") && from.has(key))
      from.remark_on(kind::outdated, key, "is now dtype");
  }
  doubt_keys(from, {"model_init_kwargs.quantization_config", "model_init_kwargs.device_map"});
  from.pass_over_words("model_init_kwargs.",
                       "trust_remote_code revision use_cache low_cpu_mem_usage cache_dir token");
  to.padding_free = from.flag("padding_free");
  const bool packs = says(to.packing, true);
  if (says(to.padding_free, true) && !packs)
    from.remark_on(
        kind::doubtful, "padding_free", "is true; the estimate has samples of max_length tokens");
  // Of its strategies one alone leaves rows apart.
  const auto is_one_row = from.word<bool>(
      "packing_strategy",
      {{"bfd", true}, {"bfd_split", true}, {"bfd-requeue", true}, {"wrapped", false}});
  if (packs && !says(to.padding_free, true)) to.padding_free = !says(is_one_row, false);
  doubt_flags(from, {"activation_offloading", "use_liger_loss"});
  doubt_numbers(from, {"router_aux_loss_coef"});
  if (from.find("loss_type", true) != nullptr && by == trainer_kind::supervised)
    if (const std::string loss = from.text("loss_type"); loss != "nll" && loss != "chunked_nll")
      from.remark_on(kind::doubtful,
                     "loss_type",
                     "is " + shown(value(loss)) + "; the estimate has the usual loss");
  if (to.adapters && !to.weights && to.engine != "deepspeed" && by != trainer_kind::transformers)
    from.remark_on(
        kind::missing,
        "dtype",
        "is not there, so that TRL holds the frozen weights in float32; bfloat16 is half "
        "of that");
  // DPOTrainer's default is true; adapters' too are set to 0.
  if (const auto is = from.flag("disable_dropout"); is ? *is : learns_preferences(by)) {
    to.dropout = 0.0;
    if (to.adapters) {
      lora adapters = *to.adapters;
      adapters.dropout = 0;
      to.adapters = adapters;
    }
  }
  doubt_objective(from, to, by, program);
  from.pass_over_words(
      "",
      "model_revision trust_remote_code router_aux_loss_coef "
      "chat_template_path dataset_text_field dataset_kwargs dataset_num_proc eos_token "
      "pad_token truncation_mode shuffle_dataset pad_to_multiple_of "
      "eval_packing completion_only_loss assistant_only_loss loss_weights ld_alpha "
      "f_divergence_type f_alpha_divergence_coef label_smoothing "
      "use_weighting discopop_tau ref_model_mixup_alpha ref_model_sync_steps "
      "precompute_ref_batch_size dataset_name "
      "dataset_config dataset_train_split dataset_test_split dataset_streaming "
      "ignore_bias_buffers datasets dataset_mixture trl_config config_name tokenizer_name "
      "cache_dir use_fast_tokenizer token dataset_config_name train_file validation_file "
      "max_train_samples max_eval_samples preprocessing_num_workers "
      "overwrite_cache env");
}

/// What weights are beside the precision. Without autocast all else has their format.
inline void settle_weights(settings_reader& from, training_config& to) {
  if (says(to.precision, training_precision::fp32) && says(to.weights, number_format::bf16)) {
    to.precision = training_precision::pure_bf16;
    to.weights = {};
  }
  if (says(to.precision, training_precision::fp16) && says(to.weights, number_format::fp16) &&
      !to.adapters)
    from.remark_on(kind::contradicts,
                   "dtype",
                   "is float16 beside fp16, whose gradients torch's scaler refuses; float32 is "
                   "taken");
}

inline std::string refusal_of_arguments(const training_config& config) {
  if (std::string flaw = flaw_of(config); !flaw.empty()) return flaw;
  if (std::string flaw = flaw_of_adapters(config); !flaw.empty()) return flaw;
  if (!config.engine.empty() && config.engine != "ddp" && config.engine != "fsdp2" &&
      config.engine != "deepspeed")
    return "engine " + printable(config.engine) + ": ddp, fsdp2 and deepspeed are taken";
  if (config.pipeline_parallel && *config.pipeline_parallel > 1)
    return "pipeline_parallel " + std::to_string(*config.pipeline_parallel) +
           ": transformers' Trainer has no pipelines; 1 is taken";
  if (config.optimizer && word_near(*config.optimizer) == nullptr)
    return "optimizer: TrainingArguments have no word for one of its kind with such states; AdamW, "
           "Adafactor, Lion, SGD without momentum, RMSprop or Adagrad is taken";
  if (says(config.precision, training_precision::fp8))
    return "precision fp8: TrainingArguments have no word for it; Accelerate's file has";
  if (config.engine == "fsdp2") return flaw_of_fsdp(config);
  if (config.engine == "deepspeed" && !config.zero_stage)
    return "zero_stage is not known, which transformers wants of DeepSpeed";
  if (config.engine == "deepspeed") return deepspeed::refusal_of(config);
  if (config.zero_stage && *config.zero_stage > 0)
    return "zero_stage " + std::to_string(*config.zero_stage) +
           ": without an engine that shares it is 0; engine fsdp2 or deepspeed is taken";
  return "";
}

inline void write_inner_deepspeed(settings_writer& to, const training_config& config) {
  for (const char* key : {"train_micro_batch_size_per_gpu",
                          "gradient_accumulation_steps",
                          "gradient_clipping",
                          "bf16.enabled",
                          "fp16.enabled"})
    to.put(std::string("deepspeed.") + key, "auto");
  const std::string zero = "deepspeed.zero_optimization.";
  if (config.zero_stage) to.put(zero + "stage", *to.take(&training_config::zero_stage));
  if (config.optimizer_on_host)
    to.put(zero + "offload_optimizer.device",
           *to.take(&training_config::optimizer_on_host) ? "cpu" : "none");
  if (config.weights_on_host)
    to.put(zero + "offload_param.device",
           *to.take(&training_config::weights_on_host) ? "cpu" : "none");
  if (config.tensor_parallel)
    to.put("deepspeed.tensor_parallel.autotp_size", *to.take(&training_config::tensor_parallel));
}

/// The members of TrainingArguments that a config says; LLaMA-Factory's too.
inline void write_arguments(settings_writer& to, const training_config& config) {
  to.put_plain(argument_keys);
  if (config.steps) to.put("max_steps", *to.take(&training_config::steps));
  write_schedule(to, {}, config);
  if (config.optimizer && !to.put_word("optim", &training_config::optimizer, optimizer_words))
    if (const char* const near = word_near(*config.optimizer)) to.put("optim", near);
  write_precision(to, config);
  if (config.engine == "fsdp2") {
    to.put("fsdp", true);
    // FSDP's own instead, which gathers once; TRL's default is true.
    if (config.recompute && *config.recompute != recompute_mode::selective)
      to.put("gradient_checkpointing", false);
    write_fsdp(to, "", "cpu_offload", config);
  } else if (config.recompute && *config.recompute != recompute_mode::selective) {
    // Every version knows it; since 5.23 activation_checkpointing is its name.
    to.put("gradient_checkpointing", *to.take(&training_config::recompute) == recompute_mode::full);
    if (config.checkpoints_reenter)
      to.put(reentrant_keys[1], *to.take(&training_config::checkpoints_reenter));
  }
  if (config.engine == "deepspeed") write_inner_deepspeed(to, config);
  if (config.engine != "ddp") to.take(&training_config::engine);
  // What the launcher makes of the GPUs.
  if (machines_of(config).why.empty())
    for (const auto member :
         {&training_config::gpus, &training_config::nodes, &training_config::gpus_per_node})
      to.take(member);
  if (config.micro_batch && config.accumulation && config.data_parallel)
    to.take(&training_config::global_batch);
  to.take(&training_config::data_parallel);
  if (says(config.pipeline_parallel, std::int64_t{1})) to.take(&training_config::pipeline_parallel);
}

inline void write_adapters(settings_writer& to, const training_config& config) {
  if (config.trains) to.put("use_peft", *to.take(&training_config::trains) == training::adapters);
  if (!config.adapters) return;
  const lora& is = *to.take(&training_config::adapters);
  to.put("lora_r", is.rank);
  value::list names = target_names(is.targets);
  to.put("lora_target_modules", std::move(names));
  to.put("lora_dropout", is.dropout);
  if (is.magnitudes) to.put("use_dora", true);
  write_saved_modules(to, "lora_modules_to_save", is);
  if (is.base.block != 0) to.put("load_in_4bit", true);
  if (is.base.scale_block != 0) to.put("use_bnb_nested_quant", true);
  leave_parts_of_adapters(to, is);
}

// torchrun's part of a command, where the machines are known.
inline std::string started_by(const training_config& config) {
  const auto on = machines_of(config);
  if (!on.why.empty()) return "torchrun ";
  return "torchrun --nnodes " + std::to_string(on.nodes) + " --nproc-per-node " +
         std::to_string(on.gpus_per_node) + " ";
}

}  // namespace detail::hugging_face

/// Whether an object has arguments of transformers' Trainer, or of TRL.
[[nodiscard]] inline bool looks_like_hugging_face_arguments(const value& settings) {
  for (const char* const key : {"model_name_or_path",
                                "per_device_train_batch_size",
                                "num_train_epochs",
                                "lr_scheduler_type",
                                "save_strategy",
                                "lora_target_modules",
                                "use_peft"})
    if (settings.find(key) != nullptr)
      // axolotl's and LLaMA-Factory's own
      return settings.find("base_model") == nullptr &&
             settings.find("finetuning_type") == nullptr && settings.find("stage") == nullptr &&
             settings.find("template") == nullptr;
  return false;
}

/// What arguments of transformers' Trainer or of TRL say. What they document as defaults is filled
/// in where it matters: 8 samples of a micro-batch, no accumulation, fused AdamW, gradients clipped
/// at 1, 3 epochs; with TRL's keys bf16 over weights in fp32, recomputation, and, but with those of
/// GRPO, 1024 tokens.
/// Beside `deepspeed`, whose own file may say it, they are `read_config::usual`. Tested with
/// transformers 5.23 and TRL 1.16. `program` is what reads them, which says whose they are: "dpo"
/// of TRL, run_clm.py.
[[nodiscard]] inline read_config read_hugging_face_arguments(const value& settings,
                                                             std::string_view program = {}) {
  read_config read{.tool = "hugging face"};
  if (settings.members() == nullptr) {
    read.why = "it is " + detail::shown(settings) + "; arguments are an object";
    return read;
  }
  const auto by = detail::hugging_face::trainer_of(settings, program);
  if (by != detail::hugging_face::trainer_kind::transformers) read.tool = "trl";
  detail::settings_reader reader(settings, read);
  detail::hugging_face::read_arguments(
      reader, detail::hugging_face::usual_learning_rate(by), read.config, read);
  detail::hugging_face::read_trl(reader, read.config, by, program);
  if (by != detail::hugging_face::trainer_kind::transformers)
    detail::hugging_face::read_trl_launch(reader, read.config);
  detail::hugging_face::take_defaults(read, by);
  if (says(reader.flag("load_in_8bit"), true))
    read.why = detail::hugging_face::refusal_of_quantised_base("load_in_8bit is true",
                                                               "load_in_4bit: true");
  detail::hugging_face::settle_weights(reader, read.config);
  detail::hugging_face::doubt_quantised(
      reader, "model_name_or_path", "load_in_4bit: true", read.config);
  detail::remark_on_contradictions(
      reader, read.config, [](std::string_view) { return "per_device_train_batch_size"; });
  reader.name_the_others();
  return read;
}

/// Arguments as YAML: for TRL's `sft` where the config says a model, a length or adapters, else for
/// a script of transformers' Trainer; DeepSpeed's object in them. Degrees above 1 that Accelerate's
/// file says are in `not_written`. Refused: pipelines, fp8, parts of a model that train, modules
/// without a name, ZeRO without an engine.
[[nodiscard]] inline written_config write_hugging_face_arguments(const training_config& config) {
  namespace words = detail::hugging_face;
  written_config written;
  written.why = words::refusal_of_arguments(config);
  if (!written) return written;
  detail::settings_writer to(config);
  const bool is_trl = is_said(config.model) || is_said(config.sequence_length) ||
                      is_said(config.packing) || is_said(config.padding_free) ||
                      is_said(config.trains) || is_said(config.attention) ||
                      says(config.precision, training_precision::pure_bf16);
  if (is_trl) to.put_plain(words::trl_keys);
  if (is_trl) to.put("dataset_name", data_set_placeholder);
  to.put("output_dir", output_placeholder);
  words::write_arguments(to, config);
  if (says(config.precision, training_precision::pure_bf16))
    to.put("dtype", "bfloat16");
  else if (is_trl)
    to.put_word("dtype", &training_config::weights, words::weights_words);
  if (says(config.packing, true) && says(config.padding_free, false))
    to.put("packing_strategy", "wrapped");
  if (config.padding_free) to.put("padding_free", *to.take(&training_config::padding_free));
  words::write_adapters(to, config);
  to.put_word("attn_implementation", &training_config::attention, words::attention_words);
  const std::string comment = "# written for transformers 5.23 and TRL 1.16\n";
  written.files.push_back({"arguments.yaml", comment + to_yaml(to.settings)});
  written.command =
      words::started_by(config) + (is_trl ? "-m trl.scripts.sft --config arguments.yaml"
                                          : std::string(script_placeholder) + " arguments.yaml");
  written.not_written = to.not_written();
  return written;
}

}  // namespace gpuplan::io

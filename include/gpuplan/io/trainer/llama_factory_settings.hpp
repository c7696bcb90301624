#pragma once

// The keys of LLaMA-Factory, and what each says.

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::io {
namespace detail::llama_factory {

using kind = remark::kind;

inline constexpr plain_key plain_keys[] = {
    {"model_name_or_path", &training_config::model},
    {"cutoff_len", &training_config::sequence_length},
};
// Beside USE_MCA=1 (0.9.5) or USE_MEGATRON_BRIDGE=1 (later) in the environment
inline constexpr plain_key megatron_keys[] = {
    {"tensor_model_parallel_size", &training_config::tensor_parallel},
    {"pipeline_model_parallel_size", &training_config::pipeline_parallel},
    {"virtual_pipeline_model_parallel_size", &training_config::virtual_pipeline},
    {"context_parallel_size", &training_config::context_parallel},
    {"expert_model_parallel_size", &training_config::expert_parallel},
    {"sequence_parallel", &training_config::sequence_parallel},
};
// Beside those: a file with any of all these is Megatron's.
inline constexpr const char* other_megatron_keys[] = {
    "use_distributed_optimizer", "recompute_granularity", "expert_tensor_parallel_size"};

inline constexpr word<attention_kernel> attention_words[] = {
    {"sdpa", attention_kernel::automatic},
    {"auto", attention_kernel::automatic},  // transformers' choice
    {"fa2", attention_kernel::flash},
    {"fa3", attention_kernel::flash},
    {"disabled", attention_kernel::eager},
};
inline constexpr gpuplan::optimizer muon{.kind = optimizer_kind::muon};

// What of TrainingArguments it takes where transformers is newer than what it is made for.
inline void forget_what_it_takes(read_config& read) {
  std::erase_if(read.remarks, [](const remark& one) {
    return one.is == kind::outdated &&
           (one.key == "overwrite_output_dir" || one.key == "fsdp" || one.key == "warmup_ratio");
  });
}

// Names with commas between them, or a list of names.
inline std::vector<std::string> names_of(settings_reader& from, const char* key) {
  std::vector<std::string> names;
  const value* const found = from.find(key, true);
  if (found == nullptr) return names;
  if (const value::list* const items = found->items()) {
    for (const value& item : *items)
      if (const std::string* const name = item.text()) names.push_back(*name);
  } else if (const std::string* const text = found->text()) {
    std::string_view left = *text;
    while (!left.empty()) {
      const std::size_t end = left.find(',');
      names.emplace_back(left.substr(0, end));
      std::erase(names.back(), ' ');
      left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
    }
  } else {
    from.remark_on(kind::contradicts, key, "is " + shown(*found) + "; names of modules are taken");
  }
  return names;
}

inline void read_adapters(settings_reader& from,
                          training_config& to,
                          bool is_used,
                          std::string& why) {
  lora adapters{.rank = 8, .targets = all_linear};  // its defaults
  if (const auto rank = from.integer("lora_rank")) adapters.rank = *rank;
  hugging_face::read_targets(from, "lora_target", adapters);
  for (const std::string& name : names_of(from, "additional_target")) {
    if (name == "embed_tokens" || name == "wte")
      adapters.copy_embedding = true;
    else if (name == "lm_head")
      adapters.copy_head = true;
    else
      from.remark_on(kind::doubtful,
                     "additional_target",
                     "has " + shown(value(name)) + ", which the estimate leaves out");
  }
  if (const auto share = from.number("lora_dropout")) adapters.dropout = *share;
  if (const auto is = from.flag("use_dora")) adapters.magnitudes = *is;
  const auto twice = from.flag("double_quantization");
  const std::string method = from.text("quantization_method");
  if (const auto bits = from.integer("quantization_bit")) {
    if (!is_used)
      from.remark_on(kind::contradicts,
                     "quantization_bit",
                     "is there without adapters, which LLaMA-Factory refuses; finetuning_type lora "
                     "is taken");
    if (*bits == 4 && (method.empty() || method == "bnb" || method == "bitsandbytes"))
      adapters.base = twice && !*twice ? four_bit_base : double_quantised_base;
    else
      why = hugging_face::refusal_of_quantised_base(
          "quantization_bit is " + std::to_string(*bits) + (method.empty() ? "" : " with ") +
              printable(method.substr(0, 80)),
          "quantization_bit 4 with quantization_method bnb");
  }
  const bool makes_new = says(from.flag("create_new_adapter"), true);
  if (from.find("adapter_name_or_path", true) != nullptr && is_used && !makes_new)
    from.remark_on(kind::doubtful,
                   "adapter_name_or_path",
                   "has adapters that go on; the estimate has those of this file");
  if (is_used) {
    to.trains = training::adapters;
    to.adapters = adapters;
  }
}

inline void read_frozen(settings_reader& from, training_config& to, bool is_used) {
  const auto layers = from.integer("freeze_trainable_layers", -(std::int64_t{1} << 40));
  const std::vector<std::string> modules = names_of(from, "freeze_trainable_modules");
  const std::vector<std::string> others = names_of(from, "freeze_extra_modules");
  if (!is_used) return;
  if (layers && *layers < 1) {
    from.remark_on(kind::doubtful,
                   "freeze_trainable_layers",
                   "is " + std::to_string(*layers) +
                       ": the first layers train, for which gpuplan has no word; the estimate "
                       "trains all");
    return;
  }
  to.trains = training::last_layers;
  to.last_layers = layers ? *layers : 2;  // its default
  if (!modules.empty() && modules != std::vector<std::string>{"all"})
    from.remark_on(kind::doubtful,
                   "freeze_trainable_modules",
                   "has some modules of a layer alone; the estimate trains all of them");
  if (others.empty())
    from.remark_on(kind::doubtful,
                   "freeze_extra_modules",
                   "is not there, so that the last norm and the head stay as they are; the "
                   "estimate trains them too");
}

// Of a model of several parts. What a file does not say is as `configured` takes it.
inline void read_parts(settings_reader& from, training_config& to) {
  if (const auto is = from.flag("freeze_vision_tower")) to.towers_train = !*is;
  if (const auto is = from.flag("freeze_multi_modal_projector")) to.connectors_train = !*is;
  if (const auto is = from.flag("freeze_language_model")) to.language_trains = !*is;
  if (const auto is = from.flag("train_mm_proj_only"); is && *is) {
    to.towers_train = to.language_trains = false;
    to.connectors_train = true;
  }
}

inline void read_method(settings_reader& from, training_config& to, std::string& why) {
  if (!says(from.flag("do_train"), true))
    from.remark_on(kind::missing,
                   "do_train",
                   "is not true, without which LLaMA-Factory trains nothing; the estimate is of a "
                   "training");
  const std::string stage = from.text("stage");
  if (stage == "rm" || stage == "ppo" || stage == "dpo" || stage == "kto")
    from.remark_on(kind::doubtful,
                   "stage",
                   "is " + shown(value(stage)) + "; the estimate is of one model and one answer");
  else if (!stage.empty() && stage != "pt" && stage != "sft")
    from.remark_on(kind::contradicts,
                   "stage",
                   "is " + shown(value(stage)) + "; one of pt, sft, rm, ppo, dpo, kto is taken");
  const std::string given = from.text("finetuning_type");
  const std::string type = given.empty() ? "lora" : given;
  read_adapters(from, to, type == "lora", why);
  read_frozen(from, to, type == "freeze");
  if (type == "full")
    to.trains = training::full;
  else if (type == "oft")
    from.remark_on(kind::doubtful,
                   "finetuning_type",
                   "is \"oft\"; of adapters the estimate knows LoRA and DoRA");
  else if (type != "lora" && type != "freeze")
    from.remark_on(kind::contradicts,
                   "finetuning_type",
                   "is " + shown(value(type)) + "; one of lora, oft, freeze, full is taken");
  read_parts(from, to);
  to.packing = from.flag("packing");
  if (!to.packing && stage == "pt") to.packing = true;  // its default there
  if (const auto neat = from.flag("neat_packing"); neat && *neat) {
    to.packing = true;
    if (stage != "sft" && !stage.empty())
      from.remark_on(kind::contradicts, "neat_packing", "is true, which stage sft alone takes");
  }
}

inline void read_precision(settings_reader& from, training_config& to) {
  const auto fp8 = from.flag("fp8");
  if (const auto pure = from.flag("pure_bf16"); pure && *pure) {
    if (to.engine == "deepspeed" && says(to.zero_stage, 3))
      from.remark_on(kind::contradicts, "pure_bf16", "is true, which ZeRO-3 does not take");
    // Beside bf16 autocast goes over weights in bf16.
    if (says(to.precision, training_precision::bf16))
      to.weights = number_format::bf16;
    else
      to.precision = training_precision::pure_bf16;
  } else if (fp8 && *fp8) {
    to.precision = training_precision::fp8;
    if (to.adapters && to.adapters->base.block != 0)
      from.remark_on(
          kind::contradicts, "fp8", "is true, which LLaMA-Factory refuses beside quantization_bit");
  }
}

// The format in which LLaMA-Factory has the weights that autocast casts: those that train in fp32,
// frozen ones in that of the products, but for those that Accelerate makes fp32 before fully_shard
// divides them, where the base is not in four bits.
inline known<number_format> weights_of(const training_config& is) {
  const bool is_half = says(is.precision, training_precision::fp16);
  const bool is_cast = is_half || says(is.precision, training_precision::bf16) ||
                       says(is.precision, training_precision::fp8);
  if (!is_cast || is.engine == "deepspeed" || is.engine == "megatron" || is.last_layers) return {};
  const bool stay =
      !hugging_face::is_fsdp(is.engine) || (is.adapters && is.adapters->base.block != 0);
  if (!is.adapters || !stay) return number_format::fp32;
  return is_half ? number_format::fp16 : number_format::bf16;
}

inline bool is_megatron(settings_reader& from) {
  bool found = false;
  for (const plain_key& key : megatron_keys) found = from.has(key.path) || found;
  for (const char* const key : other_megatron_keys) found = from.has(key) || found;
  return found;
}
inline void read_megatron(settings_reader& from, training_config& to) {
  if (!to.engine.empty())
    from.remark_on(kind::contradicts,
                   to.engine == "deepspeed" ? "deepspeed" : "fsdp",
                   "is there, and Megatron's keys too; one of both is taken");
  to.engine = "megatron";
  read_plain(from, megatron_keys, to);
  if (const auto is = from.flag("use_distributed_optimizer")) to.zero_stage = *is ? 1 : 0;
  to.recompute = from.word<recompute_mode>(
      "recompute_granularity",
      {{"full", recompute_mode::full}, {"selective", recompute_mode::selective}});
  if (!to.recompute) to.recompute = recompute_mode::none;
  const bool has_input = says(from.flag("account_for_embedding_in_pipeline_split"), true);
  const bool has_loss = says(from.flag("account_for_loss_in_pipeline_split"), true);
  if (has_input || has_loss)
    to.split =
        pipeline_split{.embedding_layers = has_input ? 1 : 0, .head_layers = has_loss ? 1 : 0};
  const std::string method = from.text("recompute_method");
  const auto layers = from.integer("recompute_num_layers");
  if (method == "block")
    to.recompute_layers = layers;
  else if (method == "uniform")
    to.recompute_span = layers ? *layers : 1;
  const std::string mixed = from.text("mixed_precision");
  if (mixed.find("fp8") != std::string::npos)
    to.precision = training_precision::fp8;
  else if (mixed.starts_with("bf16"))
    to.precision = training_precision::bf16;
  else if (mixed.starts_with("fp16"))
    to.precision = training_precision::fp16;
  else if (!mixed.empty())
    from.remark_on(kind::doubtful,
                   "mixed_precision",
                   "is " + shown(value(mixed)) + ", which gpuplan does not know");
  for (const char* const key :
       {"expert_tensor_parallel_size", "recompute_modules", "extra_config", "transformer_impl"})
    if (from.find(key, true) != nullptr)
      from.remark_on(kind::doubtful, key, "may change memory or time; the estimate leaves it out");
  from.pass_over_words("",
                       "overlap_param_gather overlap_grad_reduce bias_activation_fusion "
                       "apply_rope_fusion masked_softmax_fusion cross_entropy_loss_fusion "
                       "moe_grouped_gemm moe_token_dispatcher_type use_packed_sequences "
                       "sequence_packing megatron_pretrained_checkpoint export_hf_on_finish");
}

// Unlike the Trainer, it recomputes layers unless it is told not to.
inline void read_recomputation(settings_reader& from, training_config& to) {
  const bool is_off = says(from.flag("disable_gradient_checkpointing"), true);
  const bool of_fsdp = hugging_face::is_fsdp(to.engine) &&
                       (says(from.flag("fsdp_config.activation_checkpointing"), true) ||
                        says(from.flag("fsdp_config.fsdp_activation_checkpointing"), true));
  if (to.engine == "megatron") return;
  if (!is_off && of_fsdp)
    from.remark_on(kind::doubtful,
                   "disable_gradient_checkpointing",
                   "is not true beside FSDP's activation_checkpointing, so that layers are "
                   "recomputed twice");
  if (!is_off && !of_fsdp && says(to.recompute, recompute_mode::none))
    from.remark_on(kind::doubtful,
                   "gradient_checkpointing",
                   "is false, which LLaMA-Factory does not obey; disable_gradient_checkpointing: "
                   "true is taken");
  // Which of torch's two checkpoints; of FSDP 2 always the newer.
  const auto reentrant = from.flag("use_reentrant_gc");
  if (!is_off && to.engine != "fsdp2" && !says(reentrant, false)) to.checkpoints_reenter = true;
  if (!is_off)
    to.recompute = recompute_mode::full;
  else if (!to.recompute)
    to.recompute = recompute_mode::none;
}

inline void pass_the_rest_over(settings_reader& from, training_config& to) {
  if (const auto is = from.flag("enable_liger_kernel")) to.liger_kernels = *is;
  hugging_face::doubt_flags(from,
                            {"use_llama_pro",
                             "use_unsloth",
                             "use_unsloth_gc",
                             "shift_attn",
                             "use_kt",
                             "upcast_lmhead_output",
                             "use_v1_kernels",
                             "use_hyper_parallel",
                             "use_dft_loss",
                             "use_asft_loss",
                             "use_eaft_loss",
                             "use_galore",
                             "use_apollo",
                             "use_badam",
                             "use_adam_mini",
                             "upcast_layernorm",
                             "fp8_enable_fsdp_float8_all_gather",
                             "resize_vocab"});
  hugging_face::doubt_numbers(from, {"moe_aux_loss_coef"});
  hugging_face::doubt_keys(
      from,
      {"add_tokens", "add_special_tokens", "new_special_tokens_config", "quantization_device_map"});
  for (const char* const key :
       {"image_max_pixels", "image_min_pixels", "video_max_pixels", "video_min_pixels"})
    if (from.find(key, true) != nullptr)
      from.remark_on(kind::doubtful,
                     key,
                     "is there; the estimate has an image as large as the model's configuration "
                     "says");
  if (const auto workers = from.integer("ray_num_workers")) to.gpus = workers;
  if (from.find("mixture_of_depths", true) != nullptr)
    from.remark_on(kind::doubtful,
                   "mixture_of_depths",
                   "is there; the estimate takes every token through every layer");
  from.pass_over_words(
      "",
      "adapter_folder cache_dir use_fast_tokenizer split_special_tokens init_special_tokens "
      "model_revision "
      "low_cpu_mem_usage rope_scaling "
      "train_from_scratch infer_backend offload_folder use_kv_cache infer_dtype hf_hub_token "
      "ms_hub_token om_hub_token print_param_status trust_remote_code quantization_type "
      "image_do_pan_and_scan "
      "crop_to_patches video_fps video_maxlen "
      "use_audio_in_video audio_sampling_rate export_dir export_size export_device "
      "export_quantization_bit export_quantization_dataset export_quantization_nsamples "
      "export_quantization_maxlen export_legacy_format export_hub_model_id kt_weight_path "
      "kt_expert_checkpoint_path kt_use_lora_experts kt_lora_expert_num "
      "kt_lora_expert_intermediate_size vllm_maxlen vllm_gpu_util vllm_enforce_eager "
      "vllm_max_lora_rank vllm_config sglang_maxlen sglang_mem_fraction sglang_tp_size "
      "sglang_config sglang_lora_backend template dataset eval_dataset dataset_dir media_dir "
      "train_on_prompt mask_history streaming buffer_size mix_strategy interleave_probs "
      "overwrite_cache preprocessing_batch_size preprocessing_num_workers max_samples "
      "eval_num_beams ignore_pad_token_for_loss val_size eval_on_each_dataset tool_format "
      "default_system enable_thinking preserve_thinking tokenized_path "
      "data_shared_file_system generation_config ray_init_kwargs master_addr "
      "master_port ray_storage_path ray_run_name resources_per_worker placement_strategy "
      "fp8_backend enable_torch_profiler "
      "profiler_output_dir profiler_wait_steps profiler_warmup_steps profiler_active_steps "
      "profiler_repeat profiler_record_shapes profiler_profile_memory profiler_with_stack "
      "profile_modules module_dropout oft_rank oft_block_size oft_target lora_alpha "
      "loraplus_lr_ratio loraplus_lr_embedding use_rslora pissa_init pissa_iter "
      "pissa_convert pref_beta pref_ftx pref_bco_weight pref_loss dpo_label_smoothing "
      "kto_chosen_weight kto_rejected_weight simpo_gamma ppo_buffer_size ppo_epochs "
      "ppo_score_norm ppo_target ppo_whiten_rewards ref_model ref_model_adapters "
      "ref_model_quantization_bit reward_model reward_model_adapters "
      "reward_model_quantization_bit reward_model_type ld_alpha galore_target galore_rank "
      "galore_update_interval galore_scale galore_proj_type galore_layerwise apollo_target "
      "apollo_rank apollo_update_interval apollo_scale apollo_proj apollo_proj_type "
      "apollo_scale_type apollo_layerwise apollo_scale_front badam_mode badam_start_block "
      "badam_switch_mode badam_switch_interval badam_update_ratio badam_mask_mode "
      "badam_verbose use_swanlab swanlab_project swanlab_workspace swanlab_run_name "
      "swanlab_mode swanlab_api_key swanlab_logdir swanlab_lark_webhook_url "
      "swanlab_lark_secret use_mca hyper_parallel_args asft_alpha eaft_alpha "
      "compute_accuracy disable_shuffling early_stopping_steps plot_loss "
      "include_effective_tokens_per_second "
      "include_mfu do_sample temperature top_p top_k num_beams max_length max_new_tokens "
      "repetition_penalty length_penalty skip_special_tokens");
}

}  // namespace detail::llama_factory
}  // namespace gpuplan::io

#pragma once

// LLaMA-Factory's YAML: transformers' TrainingArguments, and keys of its own. Keys and defaults are
// those of LLaMA-Factory 0.9.5 (hparams) with transformers 5; older names are read too.

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/llama_factory_settings.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail::llama_factory {

inline std::string refusal_for_megatron(const training_config& config) {
  if (std::string flaw = flaw_of(config); !flaw.empty()) return flaw;
  if (config.adapters || (config.trains && *config.trains != training::full))
    return "trains: with Megatron LLaMA-Factory 0.9.5 trains all parameters";
  if (config.zero_stage && *config.zero_stage > 1)
    return "zero_stage " + std::to_string(*config.zero_stage) +
           ": 0 or 1, Megatron's distributed optimizer, is taken";
  if (says(config.weights_on_host, true)) return "weights_on_host is true; false is taken";
  if (config.precision && *config.precision != training_precision::fp32 &&
      *config.precision != training_precision::fp16 &&
      *config.precision != training_precision::bf16)
    return "precision: with Megatron fp32, fp16 and bf16 are taken";
  if (config.recompute_layers && *config.recompute_layers > 0 && config.recompute_span &&
      *config.recompute_span != 1)
    return "recompute_span and recompute_layers are both known";
  return "";
}
// What it does with pure_bf16 beside bf16.
inline bool casts_bf16(const training_config& config) {
  return !config.adapters && !hugging_face::is_fsdp(config.engine) &&
         config.engine != "deepspeed" && says(config.precision, training_precision::bf16) &&
         says(config.weights, number_format::bf16);
}
inline std::string refusal_of(const training_config& config) {
  if (config.engine == "megatron") return refusal_for_megatron(config);
  // What it has words for, and transformers has not.
  training_config others = config;
  if (says(config.precision, training_precision::fp8)) others.precision = training_precision::bf16;
  if (says(config.optimizer, muon)) others.optimizer = {};
  if (says(config.trains, training::last_layers)) {
    if (config.adapters) return "adapters are there, and trains is not adapters";
    if (!config.last_layers || *config.last_layers < 1)
      return "last_layers is not known, of which trains speaks; 1 or more is taken";
    others.trains = training::full;
  }
  const std::string& engine = config.engine;
  if (!engine.empty() && engine != "ddp" && engine != "fsdp2" && engine != "deepspeed")
    return "engine " + printable(engine) + ": ddp, fsdp2, deepspeed and megatron are taken";
  if (says(config.precision, training_precision::fp8) && config.adapters &&
      config.adapters->base.block != 0)
    return "precision fp8: LLaMA-Factory refuses it beside a base in four bits";
  const auto weights = weights_of(config);
  if (config.weights && weights && *config.weights != *weights && !casts_bf16(config))
    return std::string("weights ") + text(*config.weights) + ": LLaMA-Factory holds them in " +
           text(*weights) + ", which is taken";
  if (says(config.precision, training_precision::pure_bf16) && engine == "deepspeed")
    return "precision pure_bf16: DeepSpeed's own bf16 has masters; bf16 is taken";
  return hugging_face::refusal_of_arguments(others);
}

inline void remove(settings_writer& from, std::string_view key) {
  std::erase_if(*from.settings.members(), [&](const auto& member) { return member.first == key; });
}

inline std::string joined_names(const value::list& names) {
  std::string all;
  for (const value& name : names) all += (all.empty() ? "" : ",") + *name.text();
  return all;
}
inline void write_method(settings_writer& to, const training_config& config) {
  to.put("stage", "sft");
  to.put("do_train", true);
  to.take(&training_config::trains);
  if (says(config.trains, training::last_layers)) {
    to.put("finetuning_type", "freeze");
    to.put("freeze_trainable_layers", *to.take(&training_config::last_layers));
    // Their modules' names differ from model to model.
    to.leave("last_layers.final_norm");
    to.leave("last_layers.head");
  } else if (!config.adapters) {
    to.put("finetuning_type", "full");
  } else {
    const lora& is = *to.take(&training_config::adapters);
    to.put("finetuning_type", "lora");
    to.put("lora_rank", is.rank);
    to.put("lora_target",
           is.targets == all_linear ? "all" : joined_names(hugging_face::target_names(is.targets)));
    if (is.dropout > 0) to.put("lora_dropout", is.dropout);
    if (is.magnitudes) to.put("use_dora", true);
    value::list saved;
    if (is.copy_embedding) saved.emplace_back("embed_tokens");
    if (is.copy_head) saved.emplace_back("lm_head");
    if (!saved.empty()) to.put("additional_target", joined_names(saved));
    if (is.base.block != 0) to.put("quantization_bit", 4);
    if (is.base.block != 0 && is.base.scale_block == 0) to.put("double_quantization", false);
    hugging_face::leave_parts_of_adapters(to, is);
  }
}

inline void write_fsdp_in_words(settings_writer& to, const training_config& config) {
  // transformers before 5.23 takes no flag, and offloads only where it is told so here.
  to.put("fsdp",
         std::string(says(config.zero_stage, 2) ? "shard_grad_op" : "full_shard") + " auto_wrap" +
             (says(config.weights_on_host, true) ? " offload" : ""));
}

inline void write_recomputation(settings_writer& to, const training_config& config) {
  remove(to, "gradient_checkpointing");
  remove(to, "gradient_checkpointing_kwargs");
  if (!config.recompute) return;
  const recompute_mode is = *config.recompute;
  if (config.engine != "megatron") {
    if (is != recompute_mode::selective)
      to.put("disable_gradient_checkpointing",
             is == recompute_mode::none || config.engine == "fsdp2");
    if (is == recompute_mode::full && config.engine != "fsdp2")
      to.put("use_reentrant_gc", says(to.take(&training_config::checkpoints_reenter), true));
    return;
  }
  to.take(&training_config::recompute);
  if (is == recompute_mode::none) return;
  to.put("recompute_granularity", is == recompute_mode::full ? "full" : "selective");
  if (is != recompute_mode::full) return;
  const auto& span = to.take(&training_config::recompute_span);
  const auto& layers = to.take(&training_config::recompute_layers);
  const bool is_block = layers && *layers > 0;
  to.put("recompute_method", is_block ? "block" : "uniform");
  to.put("recompute_num_layers", is_block ? *layers : span ? *span : std::int64_t{1});
}

inline void write_own_precision(settings_writer& to, const training_config& config) {
  if (weights_of(config) || casts_bf16(config)) to.take(&training_config::weights);
  if (casts_bf16(config)) to.put("pure_bf16", true);
  if (says(config.precision, training_precision::pure_bf16)) {
    remove(to, "bf16");
    remove(to, "fp16");
    to.put("pure_bf16", true);
  } else if (says(config.precision, training_precision::fp8)) {
    to.take(&training_config::precision);
    to.put("bf16", true);
    to.put("fp8", true);
  }
}

}  // namespace detail::llama_factory

/// Whether a file of YAML is LLaMA-Factory's.
[[nodiscard]] inline bool looks_like_llama_factory(const value& settings) {
  for (const char* const key : {"finetuning_type", "cutoff_len", "pure_bf16", "lora_target"})
    if (settings.find(key) != nullptr) return true;
  return settings.find("model_name_or_path") != nullptr &&
         (settings.find("stage") != nullptr || settings.find("template") != nullptr);
}

/// What a file of LLaMA-Factory says. Its defaults that matter are filled in: LoRA of rank 8 at all
/// linear layers, 2048 tokens, two last layers of `freeze`, recomputation unless it is disabled,
/// and those of TrainingArguments (8 samples, fused AdamW, gradients clipped at 1, fp32), the
/// latter beside `deepspeed` as `read_config::usual`. A file with Megatron's keys is one of
/// USE_MCA=1 or USE_MEGATRON_BRIDGE=1. Tested with LLaMA-Factory 0.9.5.
[[nodiscard]] inline read_config read_llama_factory(const value& settings) {
  namespace words = detail::llama_factory;
  read_config read{.tool = "llama-factory"};
  if (settings.members() == nullptr) {
    read.why = "it is " + detail::shown(settings) + "; LLaMA-Factory's file is an object";
    return read;
  }
  detail::settings_reader from(settings, read);
  training_config& to = read.config;
  detail::hugging_face::read_arguments(from, 5e-5, to, read);
  words::forget_what_it_takes(read);
  detail::read_plain(from, words::plain_keys, to);
  if (!to.sequence_length) to.sequence_length = 2048;
  words::read_method(from, to, read.why);
  if (words::is_megatron(from)) words::read_megatron(from, to);
  words::read_precision(from, to);
  if (!to.weights) to.weights = words::weights_of(to);
  words::read_recomputation(from, to);
  if (says(from.flag("use_muon"), true)) to.optimizer = words::muon;
  to.attention =
      detail::hugging_face::read_word<attention_kernel>(from, "flash_attn", words::attention_words);
  if (to.engine == "megatron") to.attention = {};  // Megatron chooses its own
  detail::hugging_face::take_defaults(read, detail::hugging_face::trainer_kind::transformers);
  detail::hugging_face::doubt_quantised(from, "model_name_or_path", "quantization_bit: 4", to);
  detail::remark_on_contradictions(
      from, to, [](std::string_view) { return "per_device_train_batch_size"; });
  words::pass_the_rest_over(from, to);
  from.name_the_others();
  return read;
}

/// LLaMA-Factory's file, llama_factory.yaml, and its command; all parameters train where the config
/// does not say what does. Refused: what transformers' arguments refuse, but for fp8, the last
/// layers and Megatron's degrees; four bits beside fp8; pure bf16 beside DeepSpeed; adapters with
/// Megatron.
[[nodiscard]] inline written_config write_llama_factory(const training_config& config) {
  namespace words = detail::llama_factory;
  written_config written;
  written.why = words::refusal_of(config);
  if (!written) return written;
  const bool is_megatron = config.engine == "megatron";
  detail::settings_writer to(config);
  to.put_plain(words::plain_keys);
  words::write_method(to, config);
  to.put("dataset", data_set_placeholder);
  if (config.packing) to.put("packing", *to.take(&training_config::packing));
  to.put("output_dir", output_placeholder);
  detail::hugging_face::write_arguments(to, config);
  if (config.engine == "fsdp2") words::write_fsdp_in_words(to, config);
  words::write_recomputation(to, config);
  words::write_own_precision(to, config);
  if (says(config.optimizer, words::muon)) {
    to.take(&training_config::optimizer);
    to.put("use_muon", true);
  }
  if (is_megatron) {
    if (!config.tensor_parallel) to.put("tensor_model_parallel_size", 1);
    to.put_plain(words::megatron_keys);
    if (config.zero_stage)
      to.put("use_distributed_optimizer", *to.take(&training_config::zero_stage) == 1);
    // Megatron has an AdamW of its own.
    words::remove(to, "optim");
    words::remove(to, "use_muon");
    if (is_said(to.take(&training_config::optimizer))) to.leave("optimizer");
  } else {
    to.put_word("flash_attn", &training_config::attention, words::attention_words);
  }
  const std::string comment = "# written for LLaMA-Factory 0.9.5 with transformers 5\n";
  written.files.push_back({"llama_factory.yaml", comment + to_yaml(to.settings)});
  written.command = is_megatron ? "USE_MCA=1 " : "";
  written.command += detail::machines_of(config).why.empty()
                         ? detail::hugging_face::started_by(config) + "-m llamafactory.launcher "
                         : "llamafactory-cli train ";
  written.command += "llama_factory.yaml";
  written.not_written = to.not_written();
  return written;
}

}  // namespace gpuplan::io

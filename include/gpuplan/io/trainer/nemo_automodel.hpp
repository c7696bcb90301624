#pragma once

// NeMo AutoModel's YAML recipes, which fine-tune and train transformers' classes.

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail::nemo_automodel {

using kind = remark::kind;

inline constexpr plain_key keys[] = {
    {"model.pretrained_model_name_or_path", &training_config::model},
    {"step_scheduler.local_batch_size", &training_config::micro_batch},
    {"step_scheduler.global_batch_size", &training_config::global_batch},
    {"step_scheduler.max_steps", &training_config::steps},
    {"step_scheduler.num_epochs", &training_config::epochs},
    {"distributed.tp_size", &training_config::tensor_parallel},
    {"distributed.pp_size", &training_config::pipeline_parallel},
    {"distributed.cp_size", &training_config::context_parallel},
    {"distributed.ep_size", &training_config::expert_parallel},
    {"distributed.sequence_parallel", &training_config::sequence_parallel},
    {"optimizer.lr", &training_config::learning_rate},
    {"optimizer.weight_decay", &training_config::weight_decay},
    {"lr_scheduler.lr_warmup_steps", &training_config::warm_up_steps},
    {"lr_scheduler.min_lr", &training_config::least_learning_rate},
};

inline constexpr word<number_format> format_words[] = {
    {"bf16", number_format::bf16},
    {"bfloat16", number_format::bf16},
    {"torch.bfloat16", number_format::bf16},
    {"fp32", number_format::fp32},
    {"float32", number_format::fp32},
    {"torch.float32", number_format::fp32},
    {"auto", number_format::bf16},
};
inline constexpr word<const char*> engine_words[] = {
    {"fsdp2", "fsdp2"},
    {"ddp", "ddp"},
};
inline constexpr word<rate_schedule> schedule_words[] = {
    {"cosine", rate_schedule::cosine},
    {"linear", rate_schedule::linear},
    {"constant", rate_schedule::constant},
    {"WSD", rate_schedule::wsd},
};
inline constexpr word<gpuplan::optimizer> optimizer_words[] = {
    {"torch.optim.Adam", {}},
    {"torch.optim.AdamW", {}},
    {"torch.optim.SGD", {.kind = optimizer_kind::sgd}},
};

// Its own ranks: dp_size of all replicas, of which dp_replicate_size hold all weights.
inline void read_layout(settings_reader& from, training_config& to) {
  const auto engine =
      hugging_face::read_word<const char*>(from, "distributed.strategy", engine_words);
  to.engine = engine ? *engine : "fsdp2";  // its default
  const value* const replicas = from.find("distributed.dp_size");
  const bool is_left_open =
      replicas == nullptr || (replicas->text() != nullptr && *replicas->text() == "none");
  if (!is_left_open) to.data_parallel = from.integer("distributed.dp_size");
  const auto copies = from.integer("distributed.dp_replicate_size");
  if (copies && *copies > 1) {
    if (!to.data_parallel)
      from.remark_on(kind::missing,
                     "distributed.dp_size",
                     "is not there beside dp_replicate_size; the estimate has all replicas share");
    else if (*to.data_parallel % *copies != 0)
      from.remark_on(kind::contradicts,
                     "distributed.dp_replicate_size",
                     "is " + std::to_string(*copies) + ", which does not divide dp_size " +
                         std::to_string(*to.data_parallel));
    else
      to.shard_group = *to.data_parallel / *copies;
  }
  if (to.engine == "fsdp2") {
    const auto reshards = from.flag("distributed.reshard_after_forward");
    to.zero_stage = reshards && !*reshards ? 2 : 3;
    const auto defers = from.flag("distributed.defer_fsdp_grad_sync");
    to.reduces_every_micro_batch = defers && !*defers;
  }
  if (from.has("distributed.offload_policy")) to.weights_on_host = to.optimizer_on_host = true;
  from.find("distributed.offload_policy", true);
  const value* const again = from.find("distributed.activation_checkpointing");
  if (again != nullptr) {
    const std::string* const word = again->text();
    if (word != nullptr && *word == "selective")
      to.recompute = recompute_mode::full, to.saves_costly_results = true;
    else if (word != nullptr && *word == "full")
      to.recompute = recompute_mode::full;
    else if (const auto is = from.flag("distributed.activation_checkpointing"))
      to.recompute = *is ? recompute_mode::full : recompute_mode::none;
  }
  hugging_face::doubt_flags(from, {"distributed.enable_compile", "compile.enabled"});
  hugging_face::doubt_keys(from,
                           {"distributed.tp_plan",
                            "distributed.autocast_dtype",
                            "distributed.pipeline",
                            "distributed.moe",
                            "distributed.enable_async_tensor_parallel"});
  from.pass_over_words("distributed.",
                       "patch_is_packed_sequence activation_checkpointing_scope "
                       "enable_fsdp2_prefetch fsdp2_backward_prefetch_depth "
                       "fsdp2_forward_prefetch_depth backend timeout_minutes");
}

// Weights as they are stored; without a word in bf16, and the optimizer's states with them.
// Products are in bf16, and gradients are summed in fp32, unless a policy says otherwise.
inline void read_formats(settings_reader& from, training_config& to) {
  const auto format = [&](std::string_view key, number_format otherwise) {
    const auto found = hugging_face::read_word<number_format>(from, key, format_words);
    return found ? *found : otherwise;
  };
  const number_format weights = format("model.torch_dtype", number_format::bf16);
  const number_format products = format("distributed.mp_policy.param_dtype", number_format::bf16);
  to.reduced = format("distributed.mp_policy.reduce_dtype", number_format::fp32);
  if (weights == number_format::bf16 && products == number_format::bf16) {
    to.precision = training_precision::pure_bf16;
  } else if (products == number_format::bf16) {
    to.precision = training_precision::bf16;
    to.weights = weights;
  } else {
    to.precision = training_precision::fp32;
  }
  from.pass_over_words("distributed.mp_policy.", "_target_ output_dtype cast_forward_inputs");
  hugging_face::doubt_flags(from, {"fp8.enabled"});
  from.find("fp8", true);
}

inline void read_adapters(settings_reader& from, training_config& to) {
  if (from.find("peft") == nullptr) return;
  lora adapters{.rank = 8, .weights = number_format::bf16};  // its defaults
  if (const auto rank = from.integer("peft.dim")) adapters.rank = *rank;
  const auto is_of_all = [](const value& name) {
    return name.text() != nullptr && *name.text() == "*_proj";
  };
  const value* const targets = from.find("peft.target_modules", true);
  bool all = targets != nullptr && is_of_all(*targets);
  if (targets != nullptr && targets->items() != nullptr)
    for (const value& name : *targets->items()) all = all || is_of_all(name);
  if (const auto is = from.flag("peft.match_all_linear"); is && *is) all = true;
  if (all)
    adapters.targets = all_linear;
  else
    hugging_face::read_targets(from, "peft.target_modules", adapters);
  if (const auto share = from.number("peft.dropout")) adapters.dropout = *share;
  if (const auto is = from.flag("peft.use_dora")) adapters.magnitudes = *is;
  if (const auto is = from.flag("quantization.load_in_4bit"); is && *is)
    adapters.base = four_bit_base;
  hugging_face::doubt_flags(from, {"quantization.load_in_8bit"});
  hugging_face::doubt_keys(from, {"peft.exclude_modules"});
  from.pass_over_words("peft.",
                       "_target_ alpha dropout_position lora_A_init lora_dtype use_triton");
  from.find("quantization", true);
  to.trains = training::adapters;
  to.adapters = adapters;
}

inline void read_step(settings_reader& from, training_config& to) {
  to.clip_norm = from.number("clip_grad_norm.max_norm");
  if (!to.clip_norm) to.clip_norm = 1.0;  // its default
  to.schedule =
      hugging_face::read_word<rate_schedule>(from, "lr_scheduler.lr_decay_style", schedule_words);
  const auto fused = from.flag("optimizer.fused");
  if (from.has("optimizer._target_"))
    if (const auto found = hugging_face::read_word<gpuplan::optimizer>(
            from, "optimizer._target_", optimizer_words)) {
      gpuplan::optimizer is = *found;
      if (fused && *fused) is.loop = optimizer_loop::fused;
      to.optimizer = is;
    }
  to.liger_kernels = from.flag("model.use_liger_kernel");
  to.attention = hugging_face::read_word<attention_kernel>(
      from, "model.attn_implementation", hugging_face::attention_words);
  if (const std::string loss = from.text("loss_fn._target_");
      loss.find("FusedLinearCrossEntropy") != std::string::npos)
    to.cut_cross_entropy = true;
  const auto packed = from.integer("packed_sequence.packed_sequence_size", 0);
  if (packed && *packed > 0) to.packing = true, to.sequence_length = packed;
  for (const char* const key : {"dataset.seq_length", "dataset.seq_len"})
    if (const auto length = from.integer(key); length && !to.sequence_length)
      to.sequence_length = length;
}

}  // namespace detail::nemo_automodel

/// What a recipe of NeMo AutoModel says. Its defaults are filled in: FSDP 2 that reduces with a
/// step's last micro-batch, weights that are stored in bf16, products in bf16, gradients that are
/// summed in fp32 and clipped at 1. Models that it has own classes of are estimated as
/// transformers'. Keys are those of version 0.5; none of its steps was measured.
[[nodiscard]] inline read_config read_nemo_automodel(const value& settings) {
  namespace own = detail::nemo_automodel;
  read_config read{.tool = "nemo-automodel"};
  detail::settings_reader from(settings, read);
  detail::read_plain(from, own::keys, read.config);
  // of a model without weights, from_config
  const std::string shape = from.text("model.config.pretrained_model_name_or_path");
  if (read.config.model.empty()) read.config.model = shape;
  from.pass_over_words("model.config.", "_target_ trust_remote_code");
  own::read_layout(from, read.config);
  own::read_formats(from, read.config);
  own::read_adapters(from, read.config);
  own::read_step(from, read.config);
  from.pass_over_words("model.",
                       "_target_ backend trust_remote_code is_meta_device output_hidden_states");
  from.pass_over_words("step_scheduler.",
                       "ckpt_every_steps val_every_steps log_remote_every_steps gc_every_steps");
  from.pass_over_words("optimizer.", "betas eps foreach");
  from.pass_over({"recipe",
                  "seed",
                  "benchmark",
                  "dist_env",
                  "rng",
                  "checkpoint",
                  "dataset",
                  "dataloader",
                  "validation_dataset",
                  "validation_dataloader",
                  "tokenizer",
                  "processor",
                  "lr_scheduler",
                  "loss_fn",
                  "packed_sequence",
                  "wandb",
                  "mlflow",
                  "logging",
                  "ci",
                  "slurm"});
  from.name_the_others();
  return read;
}

[[nodiscard]] inline bool looks_like_nemo_automodel(const value& settings) {
  const value* const schedule = settings.find("step_scheduler");
  return schedule != nullptr && schedule->members() != nullptr && settings.find("model") != nullptr;
}

}  // namespace gpuplan::io

#pragma once

// Accelerate's YAML, which `accelerate config` writes and `accelerate launch` takes. Keys are those
// of Accelerate 1.15.

#include <gpuplan/io/trainer/config_members.hpp>
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
namespace detail::accelerate {

using kind = remark::kind;

inline constexpr plain_key machine_keys[] = {
    {"num_processes", &training_config::gpus},
    {"num_machines", &training_config::nodes},
};
inline constexpr plain_key layout_keys[] = {
    {"parallelism_config.parallelism_config_tp_size", &training_config::tensor_parallel},
    {"parallelism_config.parallelism_config_cp_size", &training_config::context_parallel},
};
inline constexpr plain_key deepspeed_keys[] = {
    {"deepspeed_config.gradient_accumulation_steps", &training_config::accumulation},
    {"deepspeed_config.gradient_clipping", &training_config::clip_norm},
};
inline constexpr plain_key megatron_keys[] = {
    {"megatron_lm_config.megatron_lm_tp_degree", &training_config::tensor_parallel},
    {"megatron_lm_config.megatron_lm_pp_degree", &training_config::pipeline_parallel},
    {"megatron_lm_config.megatron_lm_context_parallel_size", &training_config::context_parallel},
    {"megatron_lm_config.megatron_lm_expert_model_parallel_size",
     &training_config::expert_parallel},
    {"megatron_lm_config.megatron_lm_sequence_parallelism", &training_config::sequence_parallel},
    {"megatron_lm_config.megatron_lm_num_micro_batches", &training_config::accumulation},
    {"megatron_lm_config.megatron_lm_gradient_clipping", &training_config::clip_norm},
};

inline constexpr word<const char*> engine_words[] = {
    {"MULTI_GPU", "ddp"},
    {"FSDP", "fsdp2"},
    {"DEEPSPEED", "deepspeed"},
    {"MEGATRON_LM", "megatron"},
    {"NO", ""},
};
inline constexpr word<training_precision> precision_words[] = {
    {"no", training_precision::fp32},
    {"fp16", training_precision::fp16},
    {"bf16", training_precision::bf16},
    {"fp8", training_precision::fp8},
};

inline void read_parallelism(settings_reader& from, training_config& to) {
  const std::string prefix = "parallelism_config.parallelism_config_";
  read_plain(from, layout_keys, to);
  const auto shards = from.integer(prefix + "dp_shard_size");
  const auto copies = from.integer(prefix + "dp_replicate_size");
  // Default: 1 each.
  if (shards) to.shard_group = shards;
  if (shards || copies) {
    const auto both = gpuplan::detail::checked_product(shards ? *shards : 1, copies ? *copies : 1);
    if (both.ok) to.data_parallel = both.value;
  }
  if (const auto parts = from.integer(prefix + "sp_size"); parts && *parts > 1) {
    to.context_parallel = parts;
    from.remark_on(kind::doubtful,
                   prefix + "sp_size",
                   "exchanges heads for parts of the sequence (Ulysses); the estimate has it as "
                   "context parallelism");
  }
  if (shards && to.engine != "fsdp2")
    from.remark_on(
        kind::contradicts,
        "parallelism_config",
        "is there, and distributed_type is not FSDP with fsdp_version 2, without which Accelerate "
        "refuses it");
  from.pass_over_words(prefix,
                       "cp_backend cp_comm_strategy sp_backend sp_seq_length "
                       "sp_seq_length_is_variable sp_attn_implementation");
}

inline void read_deepspeed_part(settings_reader& from, training_config& to) {
  read_plain(from, deepspeed_keys, to);
  if (const auto stage = from.integer("deepspeed_config.zero_stage", 0)) {
    if (*stage <= 3)
      to.zero_stage = static_cast<int>(*stage);
    else
      from.remark_on(kind::contradicts,
                     "deepspeed_config.zero_stage",
                     "is " + std::to_string(*stage) + "; 0 to 3 are taken");
  }
  const auto offload = [&](const char* key) {
    return from.word<bool>(key, {{"none", false}, {"cpu", true}, {"nvme", true}});
  };
  to.optimizer_on_host = offload("deepspeed_config.offload_optimizer_device");
  to.weights_on_host = offload("deepspeed_config.offload_param_device");
  if (says(to.weights_on_host, true) && to.zero_stage && *to.zero_stage != 3)
    from.remark_on(kind::contradicts,
                   "deepspeed_config.offload_param_device",
                   "needs zero_stage 3; it is " + std::to_string(*to.zero_stage));
  constexpr const char* file = "deepspeed_config.deepspeed_config_file";
  if (const std::string name = from.text(file); !name.empty() && name != "none")
    from.remark_on_file(file, name);
  from.pass_over_words("deepspeed_config.",
                       "zero3_init_flag zero3_save_16bit_model offload_optimizer_nvme_path "
                       "offload_param_nvme_path deepspeed_hostfile deepspeed_multinode_launcher "
                       "deepspeed_exclusion_filter deepspeed_inclusion_filter "
                       "deepspeed_moe_layer_cls_names");
}

inline void read_megatron_part(settings_reader& from, training_config& to) {
  read_plain(from, megatron_keys, to);
  const std::string prefix = "megatron_lm_config.megatron_lm_";
  if (const auto is = from.flag(prefix + "use_distributed_optimizer")) to.zero_stage = *is ? 1 : 0;
  if (const auto is = from.flag(prefix + "recompute_activations"))
    to.recompute = *is ? recompute_mode::selective : recompute_mode::none;
  static constexpr word<recompute_mode> words[] = {{"selective", recompute_mode::selective},
                                                   {"full", recompute_mode::full}};
  if (const auto is =
          hugging_face::read_word<recompute_mode>(from, prefix + "recompute_granularity", words))
    to.recompute = is;
  const std::string method = from.text(prefix + "recompute_method");
  if (const auto layers = from.integer(prefix + "recompute_num_layers")) {
    if (method == "block") to.recompute_layers = layers;
    if (method == "uniform") to.recompute_span = layers;
  }
  for (const char* const key : {"hidden_dropout", "attention_dropout"})
    if (const auto share = from.number(prefix + key);
        share && (!to.dropout || *to.dropout < *share))
      to.dropout = share;
  for (const char* const key : {"expert_tensor_parallel_size",
                                "decoder_last_pipeline_num_layers",
                                "num_layers_per_virtual_pipeline_stage",
                                "attention_backend"})
    if (from.find(prefix + key, true) != nullptr)
      from.remark_on(kind::doubtful, prefix + key, "is there, which the estimate leaves out");
  for (const char* key :
       {"use_custom_fsdp", "optimizer_cpu_offload", "use_precision_aware_optimizer"})
    if (const auto is = from.flag(prefix + key); is && *is)
      from.remark_on(kind::doubtful, prefix + key, "is true, which the estimate leaves out");
  from.pass_over_words(prefix,
                       "overlap_cpu_optimizer_d2h_h2d no_load_optim no_save_optim eod_mask_loss "
                       "attention_softmax_in_fp32 calculate_per_token_loss "
                       "use_rotary_position_embeddings pipeline_model_parallel_split_rank "
                       "optimizer_offload_fraction");
}

inline std::string engine_of(const training_config& config) {
  if (!config.engine.empty()) return config.engine;
  return config.zero_stage && *config.zero_stage >= 2 ? "fsdp2" : "ddp";
}

inline std::string refusal_of(const training_config& config) {
  if (std::string flaw = flaw_of(config); !flaw.empty()) return flaw;
  const std::string engine = engine_of(config);
  const bool is_megatron = engine == "megatron";
  const bool is_fsdp = engine == "fsdp2";
  if (engine != "ddp" && engine != "deepspeed" && !is_fsdp && !is_megatron)
    return "engine " + printable(engine) + ": ddp, fsdp2, deepspeed and megatron are taken";
  const auto is_above_1 = [](const known<std::int64_t>& degree) { return degree && *degree > 1; };
  if (is_above_1(config.pipeline_parallel) && !is_megatron)
    return "pipeline_parallel " + std::to_string(*config.pipeline_parallel) +
           ": Accelerate has pipelines with engine megatron alone; 1 is taken";
  if (is_above_1(config.virtual_pipeline))
    return "virtual_pipeline " + std::to_string(*config.virtual_pipeline) +
           ": Accelerate has no key for it; 1 is taken";
  if (is_above_1(config.expert_parallel) && !is_megatron)
    return "expert_parallel " + std::to_string(*config.expert_parallel) +
           ": Accelerate has it with engine megatron alone; 1 is taken";
  for (const auto& [name, degree] : {std::pair{"tensor_parallel", config.tensor_parallel},
                                     std::pair{"context_parallel", config.context_parallel}})
    if (is_above_1(degree) && !is_fsdp && !is_megatron)
      return std::string(name) + " " + std::to_string(*degree) +
             ": Accelerate has it with engines fsdp2 and megatron; 1 is taken";
  const int stage = config.zero_stage ? *config.zero_stage : 0;
  if (engine == "ddp" && stage > 0)
    return "zero_stage " + std::to_string(stage) + ": with ddp it is 0";
  if (is_megatron && stage > 1)
    return "zero_stage " + std::to_string(stage) + ": with megatron it is 0 or 1";
  if (engine == "deepspeed" && says(config.weights_on_host, true) && stage != 3)
    return "weights_on_host true: DeepSpeed has it with ZeRO stage 3 alone";
  if (!is_fsdp) {
    if (config.shard_group && config.data_parallel && *config.shard_group != *config.data_parallel)
      return "shard_group " + std::to_string(*config.shard_group) +
             ": Accelerate has it with engine fsdp2 alone";
    return "";
  }
  if (std::string flaw = hugging_face::flaw_of_fsdp(config); !flaw.empty()) return flaw;
  const bool divides = is_above_1(config.tensor_parallel) || is_above_1(config.context_parallel) ||
                       config.shard_group;
  if (divides && !config.data_parallel)
    return "data_parallel is not known, which Accelerate's parallelism_config wants";
  if (const auto on = machines_of(config); on.why.empty() && config.data_parallel) {
    const auto or_1 = [](const known<std::int64_t>& degree) { return degree ? *degree : 1; };
    const auto ranks = gpuplan::detail::checked_product(
        *config.data_parallel, or_1(config.tensor_parallel), or_1(config.context_parallel));
    if (!ranks.ok || ranks.value != on.gpus())
      return "gpus is " + std::to_string(on.gpus()) +
             ", and Accelerate wants data_parallel x tensor_parallel x context_parallel, " +
             std::to_string(ranks.value);
  }
  if (says(config.shard_group, std::int64_t{1}) && !says(config.data_parallel, std::int64_t{1}))
    return "shard_group 1: with fsdp2 two ranks or more share; engine ddp is taken";
  return "";
}

inline void write_engine(settings_writer& to,
                         const std::string& engine,
                         const training_config& config) {
  if (engine == "fsdp2") {
    hugging_face::write_fsdp(to, "fsdp_", "offload_params", config);
    to.put("fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
    if (!config.data_parallel) return;
    const std::int64_t replicas = *to.take(&training_config::data_parallel);
    const std::int64_t shards =
        config.shard_group ? *to.take(&training_config::shard_group) : replicas;
    to.put("parallelism_config.parallelism_config_dp_replicate_size", replicas / shards);
    to.put("parallelism_config.parallelism_config_dp_shard_size", shards);
    to.put_plain(layout_keys);
  } else if (engine == "deepspeed") {
    if (config.zero_stage)
      to.put("deepspeed_config.zero_stage", *to.take(&training_config::zero_stage));
    if (config.optimizer_on_host)
      to.put("deepspeed_config.offload_optimizer_device",
             *to.take(&training_config::optimizer_on_host) ? "cpu" : "none");
    if (config.weights_on_host)
      to.put("deepspeed_config.offload_param_device",
             *to.take(&training_config::weights_on_host) ? "cpu" : "none");
    to.put_plain(deepspeed_keys);
  } else if (engine == "megatron") {
    const std::string prefix = "megatron_lm_config.megatron_lm_";
    to.put_plain(megatron_keys);
    if (config.zero_stage)
      to.put(prefix + "use_distributed_optimizer", *to.take(&training_config::zero_stage) == 1);
    if (config.recompute) {
      const recompute_mode is = *to.take(&training_config::recompute);
      if (is == recompute_mode::full)
        to.put(prefix + "recompute_granularity", "full");
      else
        to.put(prefix + "recompute_activations", is == recompute_mode::selective);
    }
  }
}

}  // namespace detail::accelerate

/// Whether a file of YAML is Accelerate's.
[[nodiscard]] inline bool looks_like_accelerate(const value& settings) {
  return settings.find("distributed_type") != nullptr ||
         (settings.find("compute_environment") != nullptr &&
          settings.find("num_processes") != nullptr);
}

/// What a file of Accelerate says: machines, engine, precision, ZeRO, offloading, degrees; of
/// FSDP that it shares weights too, where it does not say. Tested with Accelerate 1.15.
[[nodiscard]] inline read_config read_accelerate(const value& settings) {
  namespace words = detail::accelerate;
  read_config read{.tool = "accelerate"};
  if (settings.members() == nullptr) {
    read.why = "it is " + detail::shown(settings) + "; Accelerate's file is an object";
    return read;
  }
  // DeepSpeed's part may leave things to the script.
  const value said = detail::without_word(settings, "auto");
  detail::settings_reader from(said, read);
  training_config& to = read.config;
  // -1: the command line says it.
  const value* const processes = from.find("num_processes");
  if (processes == nullptr || processes->integer() == nullptr || *processes->integer() != -1)
    detail::read_plain(from, words::machine_keys, to);
  else
    to.nodes = from.integer("num_machines");
  const auto engine =
      detail::hugging_face::read_word<const char*>(from, "distributed_type", words::engine_words);
  if (engine) to.engine = *engine;
  to.precision = detail::hugging_face::read_word<training_precision>(
      from, "mixed_precision", words::precision_words);
  if (to.engine == "fsdp2") {
    detail::hugging_face::read_fsdp(from, false, 1, to);
    if (!to.zero_stage) to.zero_stage = 3;
    for (const char* key :
         {"fsdp_config.fsdp_activation_checkpointing", "fsdp_config.activation_checkpointing"})
      if (const auto is = from.flag(key); is && !*is && !to.recompute)
        to.recompute = recompute_mode::none;
    if (!from.has("fsdp_config"))
      from.remark_on(remark::kind::missing,
                     "fsdp_config",
                     "is not there, so that all layers are gathered at once");
  } else {
    from.find("fsdp_config", true);
  }
  if (to.engine == "deepspeed")
    words::read_deepspeed_part(from, to);
  else
    from.find("deepspeed_config", true);
  if (to.engine == "megatron")
    words::read_megatron_part(from, to);
  else
    from.find("megatron_lm_config", true);
  words::read_parallelism(from, to);
  for (const char* key :
       {"dynamo_config.dynamo_backend", "dynamo_config.backend", "dynamo_backend"})
    if (const std::string by = from.text(key); !by.empty() && by != "NO" && by != "no")
      from.remark_on(
          remark::kind::doubtful,
          key,
          "is " + detail::shown(by) + "; the estimate is of layers that are not compiled");
  if (says(from.flag("use_cpu"), true))
    from.remark_on(
        remark::kind::doubtful, "use_cpu", "is true; the estimate is of training on GPUs");
  if (from.find("fp8_config", true) != nullptr && says(to.precision, training_precision::fp8))
    from.remark_on(remark::kind::doubtful, "fp8_config", "is there, which the estimate leaves out");
  if (const auto ranks = from.integer("tp_config.tp_size"); ranks && *ranks > 1)
    from.remark_on(remark::kind::outdated,
                   "tp_config.tp_size",
                   "is old, and left out; parallelism_config_tp_size is taken");
  if (from.find("fp16", true) != nullptr)
    from.remark_on(remark::kind::outdated, "fp16", "is old; mixed_precision is taken");
  detail::remark_on_contradictions(from, to, [](std::string_view) { return "num_processes"; });
  from.pass_over_words(
      "",
      "compute_environment machine_rank gpu_ids main_process_ip main_process_port rdzv_backend "
      "same_network main_training_function enable_cpu_affinity debug downcast_bf16 "
      "tpu_name tpu_zone tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env "
      "mpirun_config dynamo_config ipex_config tp_config");
  from.name_the_others();
  return read;
}

/// Accelerate's file, accelerate.yaml, and its command. Without an engine it is fsdp2 from ZeRO
/// stage 2 on, else ddp. What the script says (model, batch, optimizer) is in `not_written`.
/// Written for Accelerate 1.15. Refused: what the engine has no keys for.
[[nodiscard]] inline written_config write_accelerate(const training_config& config) {
  namespace words = detail::accelerate;
  written_config written;
  written.why = words::refusal_of(config);
  if (!written) return written;
  const std::string engine = words::engine_of(config);
  detail::settings_writer to(config);
  to.take(&training_config::engine);
  to.put("compute_environment", "LOCAL_MACHINE");
  for (const auto& one : words::engine_words)
    if (engine == one.is) to.put("distributed_type", one.name);
  if (!to.put_word("mixed_precision", &training_config::precision, words::precision_words))
    to.put("mixed_precision", "no");
  if (const auto on = detail::machines_of(config); on.why.empty()) {
    to.put("num_machines", on.nodes);
    to.put("num_processes", on.gpus());
    for (const auto member :
         {&training_config::gpus, &training_config::nodes, &training_config::gpus_per_node})
      to.take(member);
    if (on.nodes > 1) {
      to.put("machine_rank", 0);
      to.put("same_network", true);
    }
    // What is left of the GPUs
    if (engine != "fsdp2") to.take(&training_config::data_parallel);
  }
  for (const auto member : {&training_config::tensor_parallel,
                            &training_config::context_parallel,
                            &training_config::pipeline_parallel,
                            &training_config::virtual_pipeline,
                            &training_config::expert_parallel})
    if (engine != "megatron" && says(config.*member, std::int64_t{1}) &&
        (engine != "fsdp2" || !config.data_parallel ||
         (member != &training_config::tensor_parallel &&
          member != &training_config::context_parallel)))
      to.take(member);
  words::write_engine(to, engine, config);
  const std::string comment = "# written for Accelerate 1.15\n";
  written.files.push_back({"accelerate.yaml", comment + to_yaml(to.settings)});
  written.command =
      "accelerate launch --config_file accelerate.yaml " + std::string(script_placeholder);
  written.not_written = to.not_written();
  return written;
}

}  // namespace gpuplan::io

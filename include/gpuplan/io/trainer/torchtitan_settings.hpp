#pragma once

// torchtitan's settings by their paths, and what they say.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/parallelism.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace gpuplan::io::detail {

struct torchtitan_integer {
  const char* path = "";
  known<std::int64_t> training_config::*member = nullptr;
};
inline constexpr torchtitan_integer torchtitan_integers[] = {
    {"training.seq_len", &training_config::sequence_length},
    {"training.steps", &training_config::steps},
    {"parallelism.tensor_parallel_degree", &training_config::tensor_parallel},
    {"parallelism.pipeline_parallel_degree", &training_config::pipeline_parallel},
    {"parallelism.context_parallel_degree", &training_config::context_parallel},
    {"parallelism.expert_parallel_degree", &training_config::expert_parallel},
};

/// Models of the Hub, where torchtitan's registry has them, and what it sets there: float32 weights
/// and bfloat16 products, a loss in 8 chunks, gradients clipped at 1, fused AdamW with a weight
/// decay of 0.1, CUDA graphs unless ranks share experts, and the rate falling to 0 along a line.
/// Source: torchtitan/models/*/config_registry.py of 0.3.0.
struct torchtitan_model {
  const char* name;
  const char* module;
  const char* function;
  std::int64_t length;
  std::int64_t local_batch;
  std::int64_t steps;
  std::int64_t warm_up;
  double rate;
  const char* recomputes;  // FullAC or SelectiveAC: activation_checkpoint.mode of its flags
  std::int64_t tensor_parallel = 1;
  std::int64_t expert_parallel = 1;
  bool compiles = false;
  bool is_cosine = false;      // over the last 0.8 of the steps, to 0.1 of the rate
  const char* converter = "";  // of linear layers
};
inline constexpr torchtitan_model torchtitan_models[] = {
    {"meta-llama/Llama-3.1-8B", "llama3", "llama3_8b", 8192, 1, 1000, 200, 3e-4, "selective"},
    {"meta-llama/Llama-3.1-70B", "llama3", "llama3_70b", 8192, 8, 1000, 200, 1.5e-4, "full", 8},
    {.name = "meta-llama/Llama-3.1-405B",
     .module = "llama3",
     .function = "llama3_405b",
     .length = 8192,
     .local_batch = 2,
     .steps = 3000,
     .warm_up = 600,
     .rate = 8e-5,
     .recomputes = "full",
     .tensor_parallel = 8,
     .compiles = true,
     .converter = "float8"},
    {"Qwen/Qwen3-0.6B", "qwen3", "qwen3_0_6b", 4096, 4, 10, 2, 3e-4, "selective"},
    {"Qwen/Qwen3-1.7B", "qwen3", "qwen3_1_7b", 4096, 4, 100, 20, 8e-4, "selective"},
    {"Qwen/Qwen3-14B", "qwen3", "qwen3_14b", 4096, 4, 3000, 600, 8e-4, "full"},
    {"Qwen/Qwen3-32B", "qwen3", "qwen3_32b", 4096, 2, 3000, 600, 8e-4, "full"},
    {"Qwen/Qwen3-30B-A3B", "qwen3", "qwen3_30b_a3b", 4096, 2, 3000, 600, 8e-4, "full"},
    {.name = "deepseek-ai/DeepSeek-V3",
     .module = "deepseek_v3",
     .function = "deepseek_v3_671b",
     .length = 4096,
     .local_batch = 4,
     .steps = 10000,
     .warm_up = 2000,
     .rate = 2.2e-4,
     .recomputes = "selective",
     .expert_parallel = 2,
     .compiles = true,
     .is_cosine = true},
    {.name = "openai/gpt-oss-20b",
     .module = "gpt_oss",
     .function = "gpt_oss_20b",
     .length = 8192,
     .local_batch = 1,
     .steps = 10000,
     .warm_up = 2000,
     .rate = 8e-4,
     .recomputes = "full",
     .is_cosine = true},
    {.name = "openai/gpt-oss-120b",
     .module = "gpt_oss",
     .function = "gpt_oss_120b",
     .length = 8192,
     .local_batch = 1,
     .steps = 10000,
     .warm_up = 2000,
     .rate = 8e-4,
     .recomputes = "full",
     .is_cosine = true},
};
[[nodiscard]] inline const torchtitan_model* registered_torchtitan(std::string_view function) {
  for (const torchtitan_model& each : torchtitan_models)
    if (function == each.function) return &each;
  return nullptr;
}

/// `settings`, and what the registry's function sets beside them.
[[nodiscard]] inline value with_registered(value settings, const torchtitan_model& by) {
  const auto set = [&](const char* group, const char* name, value is) {
    if (value& at = settings[group]; at.find(name) == nullptr) at[name] = std::move(is);
  };
  const value* const training = settings.find("training");
  const auto says = [&](const char* name) {
    return training != nullptr && training->find(name) != nullptr;
  };
  if (!says("local_batch_size") && !says("num_tokens_per_microbatch_per_dp_rank"))
    set("training", "local_batch_size", by.local_batch);
  set("training", "seq_len", by.length);
  set("training", "steps", by.steps);
  set("training", "max_norm", 1.0);
  set("training", "dtype", "float32");
  set("training", "disable_cuda_graphs", by.expert_parallel > 1);
  set("parallelism", "tensor_parallel_degree", by.tensor_parallel);
  set("parallelism", "expert_parallel_degree", by.expert_parallel);
  set("activation_checkpoint", "mode", by.recomputes);
  set("activation_checkpoint", "selective_ac_option", "op");
  set("loss", "num_chunks", 8);
  set("optimizer", "name", "AdamW");
  set("optimizer", "lr", by.rate);
  set("optimizer", "weight_decay", 0.1);
  set("lr_scheduler", "warmup_steps", by.warm_up);
  set("lr_scheduler", "decay_type", by.is_cosine ? "cosine" : "linear");
  if (by.is_cosine) set("lr_scheduler", "min_lr_factor", 0.1);
  set("compile", "enable", by.compiles);
  if (*by.converter != '\0') set("model", "converters", value::list{by.converter});
  return settings;
}

/// PyTorch's schedules of pipelines that torchtitan takes: those of several stages have two on each
/// rank where nothing else is said.
struct torchtitan_schedule {
  const char* name;
  pipeline_schedule is;
  std::int64_t chunks;
};
inline constexpr torchtitan_schedule torchtitan_schedules[] = {
    {"1F1B", pipeline_schedule::one_f_one_b, 1},
    {"GPipe", pipeline_schedule::gpipe, 1},
    {"Interleaved1F1B", pipeline_schedule::one_f_one_b, 2},
    {"InterleavedZeroBubble", pipeline_schedule::zero_bubble, 2},
    {"ZBVZeroBubble", pipeline_schedule::zero_bubble_v, 2},
    {"DualPipeV", pipeline_schedule::dual_pipe_v, 2},
};
[[nodiscard]] inline std::string known_torchtitan_schedules() {
  std::string names;
  for (const torchtitan_schedule& each : torchtitan_schedules)
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

class torchtitan_reader {
 public:
  // Of a whole file what it leaves out has the documented defaults.
  torchtitan_reader(const value& settings, bool is_whole, read_config& to)
      : from_(settings, to), config_(to.config), is_whole_(is_whole) {}

  void read() {
    for (const auto& [path, member] : torchtitan_integers) config_.*member = from_.integer(path);
    config_.clip_norm = from_.number("training.max_norm");
    config_.sequence_parallel = from_.flag("parallelism.enable_sequence_parallel");
    if (is_whole_ && !config_.sequence_length) config_.sequence_length = 2048;
    if (is_whole_ && !config_.clip_norm) config_.clip_norm = 1.0;
    if (const auto is = from_.flag("training.enable_cpu_offload"))
      config_.weights_on_host = config_.optimizer_on_host = *is;
    read_model();
    read_layout();
    read_batch();
    read_precision();
    read_recomputation();
    read_rates();
    read_loss();
    read_compilation();
    pass_over();
    from_.name_the_others();
  }

 private:
  void say(remark::kind is, const char* key, std::string text) {
    from_.remark_on(is, key, std::move(text));
  }
  void read_model() {
    std::string function = from_.text("config");
    // Of earlier versions, model.name "llama3" and model.flavor "8B".
    const std::string family = from_.text("model.name");
    if (const std::string flavor = from_.text("model.flavor"); !flavor.empty()) {
      function = family + '_';
      for (const char c : flavor)
        function += c == '.' || c == '-' ? '_' : gpuplan::detail::lower(c);
    }
    if (const torchtitan_model* const by = registered_torchtitan(function)) {
      config_.model = by->name;
      return;
    }
    if (!from_.has("model.flavor")) return;
    std::string known;
    for (const torchtitan_model& each : torchtitan_models)
      known += (known.empty() ? "" : ", ") + std::string(each.function);
    say(remark::kind::doubtful,
        "model.flavor",
        "with its model is " + printable(function) + "; sizes are known of " + known);
  }
  void read_layout() {
    // -1: what is left of the ranks
    const auto replicas = from_.integer("parallelism.data_parallel_replicate_degree");
    const auto shards = from_.integer("parallelism.data_parallel_shard_degree", -1);
    const std::string reshards = from_.text("parallelism.fsdp_reshard_after_forward");
    constexpr std::int64_t most = std::int64_t{1} << 20;
    if (shards && (*shards == 0 || *shards > most))
      say(remark::kind::contradicts,
          "parallelism.data_parallel_shard_degree",
          "is " + std::to_string(*shards) + "; -1 or at least 1 is taken");
    // context-parallel ranks share too
    const bool is_sharded =
        !shards || *shards != 1 || (config_.context_parallel && *config_.context_parallel > 1);
    if (shards && *shards >= 1 && *shards <= most && (!replicas || *replicas <= most)) {
      config_.data_parallel = *shards * (replicas ? *replicas : 1);
      config_.shard_group = *shards;
    } else if (replicas && *replicas > 1) {
      say(remark::kind::doubtful,
          "parallelism.data_parallel_replicate_degree",
          "is " + std::to_string(*replicas) +
              " beside shards of what is left; the estimate shares among all ranks; a "
              "data_parallel_shard_degree has copies");
    }
    config_.engine = is_sharded ? "fsdp2" : "ddp";
    if (!is_sharded) config_.zero_stage = 0;
    const bool is_pipelined = config_.pipeline_parallel && *config_.pipeline_parallel > 1;
    // The default keeps gathered weights where a pipeline would gather them for every micro-batch.
    if (reshards == "always" || ((reshards.empty() || reshards == "default") && !is_pipelined)) {
      if (is_sharded) config_.zero_stage = 3;
    } else if (reshards == "never" || reshards.empty() || reshards == "default") {
      if (is_sharded) config_.zero_stage = 2;
    } else {
      say(remark::kind::contradicts,
          "parallelism.fsdp_reshard_after_forward",
          "is " + shown(value(reshards)) + "; default, always or never is taken");
    }
    const std::string schedule = from_.text("parallelism.pipeline_parallel_schedule");
    bool is_known = schedule.empty();
    for (const torchtitan_schedule& each : torchtitan_schedules) {
      if (schedule != each.name) continue;
      is_known = true;
      if (!is_pipelined) continue;  // files ship with one, which does nothing then
      config_.schedule_of_pipeline = each.is;
      // of two stages each where nothing else is said
      if (each.chunks > 1) config_.virtual_pipeline = each.chunks;
    }
    if (!is_known)
      say(remark::kind::doubtful,
          "parallelism.pipeline_parallel_schedule",
          "is " + shown(value(schedule)) + "; " + known_torchtitan_schedules() + " are known");
    // It deals the layers, and one each for what the ends stand for, to the stages.
    const auto at_start = from_.integer("parallelism.pipeline_parallel_first_stage_less_layers", 0);
    const auto at_end = from_.integer("parallelism.pipeline_parallel_last_stage_less_layers", 0);
    if (is_pipelined)
      config_.split = pipeline_split{.embedding_layers = at_start ? *at_start : 1,
                                     .head_layers = at_end ? *at_end : 1,
                                     .first_have_more = true};
    for (const char* const path : {"parallelism.module_fqns_per_model_part",
                                   "parallelism.pipeline_parallel_layers_per_stage",
                                   "parallelism.pipeline_parallel_split_points"})
      if (from_.find(path, true) != nullptr)
        say(remark::kind::doubtful,
            path,
            "divides the layers in a way that the estimate leaves out");
  }
  void read_batch() {
    auto local = from_.integer("training.local_batch_size");
    if (const auto old = from_.integer("training.batch_size")) {
      say(remark::kind::outdated,
          "training.batch_size",
          "newer versions take training.local_batch_size");
      if (!local) local = old;
    }
    if (is_whole_ && !local && !from_.has("training.num_tokens_per_microbatch_per_dp_rank"))
      local = 8;
    // -1: the local batches of all replicas
    auto global = from_.integer("training.global_batch_size", -1);
    if (global && *global < 1) global = known<std::int64_t>();
    const auto tokens = [this](const char* path) -> known<std::int64_t> {
      const auto is = from_.integer(path);
      if (!is || !config_.sequence_length) return {};
      if (*is % *config_.sequence_length == 0) return *is / *config_.sequence_length;
      say(remark::kind::contradicts,
          path,
          "is " + std::to_string(*is) + "; a multiple of training.seq_len, " +
              std::to_string(*config_.sequence_length) + ", is taken");
      return {};
    };
    if (const auto is = tokens("training.num_tokens_per_microbatch_per_dp_rank")) local = is;
    if (const auto is = tokens("training.num_tokens_per_train_step")) global = is;
    const auto part = from_.integer("parallelism.pipeline_parallel_microbatch_size");
    const bool is_pipelined = config_.pipeline_parallel && *config_.pipeline_parallel > 1;
    config_.global_batch = global;
    config_.micro_batch = local;
    if (!local) return;
    constexpr std::int64_t most = std::int64_t{1} << 30;
    if (*local > most) return;
    const auto samples = gpuplan::detail::checked_product(
        *local, config_.data_parallel ? *config_.data_parallel : 1);
    if (!samples.ok)
      return say(remark::kind::contradicts,
                 "training.local_batch_size",
                 "is " + std::to_string(*local) + " for each of " +
                     std::to_string(*config_.data_parallel) + " replicas, more than 64 bits hold");
    if (!global && config_.data_parallel) config_.global_batch = samples.value;
    if (is_pipelined) {
      // a stage gets the local batch in parts, of one sample where nothing else is said
      config_.micro_batch = part ? *part : 1;
      if (*local % *config_.micro_batch != 0)
        say(remark::kind::contradicts,
            "parallelism.pipeline_parallel_microbatch_size",
            "is " + std::to_string(*config_.micro_batch) +
                "; a divisor of training.local_batch_size, " + std::to_string(*local) +
                ", is taken");
      if (global && *global > samples.value)
        say(remark::kind::doubtful,
            "training.local_batch_size",
            "is " + std::to_string(*local) +
                ": the pipeline drains behind so many samples of a replica; where a step has more "
                "the estimate lets all through at once, as a local_batch_size of all of them");
    }
    // By default as many replicas as there are GPUs, whose local batches are the global one.
    if (!global && *local % *config_.micro_batch == 0)
      config_.accumulation = *local / *config_.micro_batch;
    if (!config_.data_parallel || !config_.global_batch) return;
    if (*config_.global_batch % samples.value != 0)
      say(remark::kind::contradicts,
          "training.global_batch_size",
          "is " + std::to_string(*config_.global_batch) +
              "; a multiple of local_batch_size * data-parallel degree, " +
              std::to_string(samples.value) + ", is taken");
    else
      config_.accumulation =
          *config_.global_batch / samples.value * (*local / *config_.micro_batch);
  }
  void read_precision() {
    const std::string weights = from_.text("training.dtype");
    const std::string products = from_.text("training.mixed_precision_param");
    if (weights == "float32") config_.weights = number_format::fp32;
    if (weights == "bfloat16")
      config_.precision = training_precision::pure_bf16;
    else if (products == "float32")
      config_.precision = training_precision::fp32;
    else if (products == "bfloat16" || products.empty())  // its default
      config_.precision = training_precision::bf16;
    else {
      config_.precision = training_precision::bf16;
      say(remark::kind::contradicts,
          "training.mixed_precision_param",
          "is " + shown(value(products)) + "; bfloat16 or float32 is taken, and bfloat16 assumed");
    }
    const value* const converters = from_.find("model.converters", true);
    if (converters == nullptr) return;
    const value::list one{*converters};  // of a flag
    const value::list& all = converters->items() != nullptr ? *converters->items() : one;
    for (const value& each : all)
      if (each.text() != nullptr && each.text()->find("float8") != std::string::npos)
        config_.precision = training_precision::fp8;
      else
        say(remark::kind::doubtful,
            "model.converters",
            "has " + shown(each) + ", which the estimate leaves out");
  }
  void read_recomputation() {
    std::string mode = from_.text("activation_checkpoint.mode");
    std::string option = from_.text("activation_checkpoint.selective_ac_option");
    // What the versions with these words document
    if (is_whole_ && mode.empty()) mode = "selective";
    if (is_whole_ && option.empty()) option = "2";
    if (mode == "none") {
      config_.recompute = recompute_mode::none;
    } else if (mode == "full") {
      config_.recompute = recompute_mode::full;
    } else if (mode == "selective") {
      config_.recompute = recompute_mode::full;
      std::int64_t period = 0;
      for (const char c : option)
        period = c >= '0' && c <= '9' && period < 1'000'000 ? 10 * period + (c - '0') : -1'000'000;
      if (period > 0)
        config_.recompute_period = period;
      else
        config_.saves_costly_results = true;
      if (!option.empty() && option != "op" && period < 1)
        say(remark::kind::contradicts,
            "activation_checkpoint.selective_ac_option",
            "is " + shown(value(option)) + "; op, or every how many layers, is taken");
    } else if (!mode.empty()) {
      say(remark::kind::doubtful,
          "activation_checkpoint.mode",
          "is " + shown(value(mode)) + "; the estimate knows none, selective and full");
    }
  }
  // Of versions from 0.3 on
  void read_loss() {
    config_.loss_chunks = from_.integer("loss.num_chunks");
    if (const auto without = from_.flag("training.disable_cuda_graphs"))
      config_.cuda_graphs = !*without;
  }
  void read_rates() {
    config_.learning_rate = from_.number("optimizer.lr");
    config_.weight_decay = from_.number("optimizer.weight_decay");
    const std::string name = from_.text("optimizer.name");
    const auto loop = from_.word<optimizer_loop>("optimizer.implementation",
                                                 {{"fused", optimizer_loop::fused},
                                                  {"foreach", optimizer_loop::foreach},
                                                  {"for-loop", optimizer_loop::parameter}});
    if (name == "AdamW" || name == "Adam" || (name.empty() && (is_whole_ || loop)))
      config_.optimizer =
          gpuplan::optimizer{.loop = loop ? *loop : optimizer_loop::fused};  // its default
    else if (!name.empty())
      say(remark::kind::doubtful,
          "optimizer.name",
          "is " + shown(value(name)) + "; the estimate knows AdamW");
    config_.warm_up_steps = from_.number("lr_scheduler.warmup_steps");
    const std::string decay = from_.text("lr_scheduler.decay_type");
    if (decay == "linear") config_.schedule = rate_schedule::linear;
    if (decay == "cosine") config_.schedule = rate_schedule::cosine;
    if (decay == "sqrt")
      say(remark::kind::doubtful, "lr_scheduler.decay_type", "is sqrt; linear or cosine is known");
    const auto ratio = from_.number("lr_scheduler.decay_ratio");
    if (ratio && *ratio == 0) config_.schedule = rate_schedule::constant;
    if (ratio && *ratio > 0 && *ratio < 1 && decay == "linear" && config_.steps) {
      config_.schedule = rate_schedule::wsd;
      config_.decay_steps = std::llround(*ratio * static_cast<double>(*config_.steps));
    }
    auto least = from_.number("lr_scheduler.min_lr_factor");
    if (!least) least = from_.number("lr_scheduler.lr_min");
    if (least && config_.learning_rate)
      config_.least_learning_rate = *least * *config_.learning_rate;
  }
  // Layers one by one, and since 2025 the loss, unless `components` says otherwise.
  void read_compilation() {
    const auto compiles = from_.flag("compile.enable");
    const value* const parts = from_.find("compile.components", true);
    if (const auto before = from_.flag("training.compile"); before && !compiles)
      config_.compiles_layers = *before;
    if (!compiles) return;
    config_.compiles_layers = config_.compiles_loss = *compiles;
    if (parts == nullptr || !*compiles) return;
    config_.compiles_layers = config_.compiles_loss = false;
    const value::list one{*parts};  // of a flag
    for (const value& each : parts->items() != nullptr ? *parts->items() : one) {
      const std::string name = each.text() != nullptr ? *each.text() : std::string();
      if (name == "model")
        config_.compiles_layers = true;
      else if (name == "loss")
        config_.compiles_loss = true;
      else
        say(remark::kind::contradicts,
            "compile.components",
            "has " + shown(each) + "; model and loss are taken");
    }
  }
  void doubt_the_rest() {
    for (const char* const path : {"optimizer.early_step_in_backward",
                                   "training.deterministic",
                                   "debug.deterministic",
                                   "debug.detect_anomaly",
                                   "debug.batch_invariant",
                                   "compile.enable_async_tensor_parallel",
                                   "parallelism.enable_fsdp_symm_mem",
                                   "parallelism.enable_compiled_autograd",
                                   "parallelism.enable_async_tensor_parallel",
                                   "parallelism.disable_loss_parallel",
                                   "fault_tolerance.enable"})
      if (const auto is = from_.flag(path); is && *is)
        say(remark::kind::doubtful, path, "is true, which the estimate leaves out");
    if (const std::string sums = from_.text("training.mixed_precision_reduce");
        !sums.empty() && sums != "float32")
      say(remark::kind::doubtful,
          "training.mixed_precision_reduce",
          "is " + shown(value(sums)) + "; the estimate reduces gradients in float32");
    if (const auto ranks = from_.integer("parallelism.expert_tensor_parallel_degree");
        ranks && *ranks > 1)
      say(remark::kind::doubtful,
          "parallelism.expert_tensor_parallel_degree",
          "is above 1, which the estimate leaves out");
    for (const char* const path :
         {"parallelism.pipeline_parallel_schedule_csv", "lr_scheduler.total_steps", "override"})
      if (const value* const found = from_.find(path, true);
          found != nullptr && (found->text() == nullptr || !found->text()->empty()))
        say(remark::kind::doubtful, path, "is there, which the estimate leaves out");
  }
  void pass_over() {
    doubt_the_rest();
    from_.pass_over({"job",
                     "profiling",
                     "profiler",
                     "metrics",
                     "checkpoint",
                     "comm",
                     "validation",
                     "validator",
                     "dataloader",
                     "experimental",
                     "fault_tolerance",
                     "float8",
                     "mx",
                     "quantize",  // of converters, which model.converters names
                     "model",
                     "module",
                     "config",
                     "hf_assets_path",
                     "tokenizer",
                     "memory_estimation",
                     "dump_folder"});
    from_.pass_over_words("activation_checkpoint.",
                          "memory_budget visualize_memory_budget_pareto "
                          "per_op_sac_force_recompute_mm_shapes_by_fqns early_stop "
                          "preserve_rng_state determinism_check debug");
    from_.pass_over_words("optimizer.", "beta1 beta2 eps");
    from_.pass_over_words("compile.", "backend");
    from_.pass_over_words("loss.", "loss_fn");
    from_.pass_over_words("debug.",
                          "seed spmd_typechecking deterministic_warn_only moe_force_load_balance "
                          "print_config save_config_file enable_structured_logging");
    from_.pass_over_words("training.",
                          "dataset dataset_path seed deterministic_warn_only gc_freq gc_debug "
                          "tokenizer_path");
    from_.pass_over_words("parallelism.",
                          "spmd_backend context_parallel_load_balancer "
                          "context_parallel_ptrr_mask_key context_parallel_rotate_method");
  }

  settings_reader from_;
  training_config& config_;
  bool is_whole_ = false;
};

}  // namespace gpuplan::io::detail

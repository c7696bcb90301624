#pragma once

// torchtitan: its flags (--training.seq_len 4096), TOML files of its earlier versions, and a Python
// module for its registry, in both directions.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/members.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/torchtitan_settings.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

[[nodiscard]] inline remark missing_torchtitan(const std::string& function) {
  std::string known;
  for (const torchtitan_model& each : torchtitan_models)
    known += (known.empty() ? "" : ", ") + std::string(each.function);
  return {remark::kind::missing,
          "--config",
          "is " + shown(value(function)) +
              ", a function of Python, which is not run; of torchtitan's registry are known " +
              known};
}

}  // namespace detail

/// What a tree of torchtitan's settings says: a TOML file of versions up to 0.2, or flags. Defaults
/// are torchtitan's where they matter: the local batches of all replicas make a step; a pipeline's
/// micro-batch is one sample; weights stay gathered in a pipeline alone; products are in bf16. Of a
/// whole file, which names no other configuration, also 8 samples of a local batch, 2048 tokens,
/// fused AdamW, gradients clipped at 1, and each second layer recomputed.
/// Tested with 0.3.0.
[[nodiscard]] inline read_config read_torchtitan(const value& settings, read_config known = {}) {
  known.tool = "torchtitan";
  // Flags, or a file that names another one, change a configuration that says the rest.
  const value* const job = settings.find("job");
  const bool is_whole = settings.find("module") == nullptr && settings.find("config") == nullptr &&
                        (job == nullptr || job->find("config_file") == nullptr);
  detail::torchtitan_reader(settings, is_whole, known).read();
  return known;
}

/// The same of flags: `--module llama3 --config llama3_8b --training.seq_len 4096`, which change
/// what a function of torchtitan's registry sets. Of another function the settings are missing.
[[nodiscard]] inline read_config read_torchtitan_words(const std::vector<std::string>& words,
                                                       read_config known = {}) {
  known.tool = "torchtitan";
  if (words.size() > detail::most_flag_words) {
    known.why = "it has more than " + std::to_string(detail::most_flag_words) + " words";
    return known;
  }
  const value flags = detail::flags_of_words(words, known);
  value settings = value::object();
  for (const auto& [name, given] : *flags.members()) {
    std::string path = name.substr(2);
    for (char& c : path)
      if (c == '-') c = '_';
    value is = given;
    // --compile.no-enable
    const std::size_t last = path.find_last_of('.') + 1;
    if (path.compare(last, 3, "no_") == 0 && is.flag() != nullptr) {
      path.erase(last, 3);
      is = !*is.flag();
    }
    value* at = &settings;
    std::string_view left = path;
    int depth = 0;
    for (std::size_t end = left.find('.'); end != std::string_view::npos && depth < 16;
         end = left.find('.'), ++depth) {
      at = &(*at)[left.substr(0, end)];
      left.remove_prefix(end + 1);
    }
    (*at)[left] = std::move(is);
  }
  if (const value* const function = settings.find("config");
      function != nullptr && function->text() != nullptr) {
    const std::string name = *function->text();
    if (const detail::torchtitan_model* const by = detail::registered_torchtitan(name))
      settings = detail::with_registered(std::move(settings), *by);
    else if (settings.find("module") != nullptr)
      known.remarks.push_back(detail::missing_torchtitan(name));
  }
  detail::torchtitan_reader(settings, false, known).read();
  return known;
}

[[nodiscard]] inline bool looks_like_torchtitan(const value& settings) {
  const value* const parallelism = settings.find("parallelism");
  const value* const training = settings.find("training");
  return (parallelism != nullptr && (parallelism->find("data_parallel_shard_degree") != nullptr ||
                                     parallelism->find("tensor_parallel_degree") != nullptr)) ||
         (training != nullptr && training->find("local_batch_size") != nullptr);
}

namespace detail {

// A decay's share needs the steps.
[[nodiscard]] inline bool has_torchtitan_schedule(const training_config& config) {
  if (!config.schedule) return false;
  return *config.schedule != rate_schedule::wsd ||
         (config.steps && config.decay_steps && *config.decay_steps >= 1 &&
          *config.decay_steps < *config.steps);
}

// The schedule of a configuration; null where torchtitan has none of its chunks.
[[nodiscard]] inline const torchtitan_schedule* torchtitan_schedule_of(
    const training_config& config) {
  const pipeline_schedule wanted =
      config.schedule_of_pipeline ? *config.schedule_of_pipeline : pipeline_schedule::one_f_one_b;
  const std::int64_t chunks = config.virtual_pipeline ? *config.virtual_pipeline : 1;
  for (const torchtitan_schedule& each : torchtitan_schedules)
    if (each.is == wanted && each.chunks == chunks) return &each;
  return nullptr;
}

struct torchtitan_plan {
  value settings = value::object();
  std::string why{};
};

[[nodiscard]] inline bool is_named(const training_config& config) {
  return !config.model.empty() && config.model != model_placeholder;
}

/// The registry's model of the name; without one, that whose shape is the catalogue's of a name
/// that differs in nothing but the owner and marks. Null where it has none.
[[nodiscard]] inline const torchtitan_model* torchtitan_model_of(const training_config& config) {
  for (const torchtitan_model& each : torchtitan_models) {
    if (config.model == each.name) return &each;
    if (is_named(config) || !config.shape) continue;
    const std::string_view whole = each.name;
    const std::string_view name = whole.substr(whole.rfind('/') + 1);
    if (gpuplan::detail::same_but_for_marks(name, config.shape->name)) return &each;
  }
  return nullptr;
}

/// The settings of a plan, as `read_torchtitan` reads them.
[[nodiscard]] inline torchtitan_plan torchtitan_settings_of(const training_config& config) {
  torchtitan_plan made;
  const auto is_set = [](const known<bool>& is) { return is && *is; };
  if (!config.engine.empty() && config.engine != "fsdp2")
    made.why = "engine is " + shown(value(config.engine)) + "; \"fsdp2\" is taken";
  if ((config.trains && *config.trains != training::full) || config.adapters)
    made.why = "trains is not full; torchtitan's registry trains all parameters";
  if (config.zero_stage && *config.zero_stage != 2 && *config.zero_stage != 3)
    made.why = "zero_stage is " + std::to_string(*config.zero_stage) + "; 2 or 3 is taken";
  if (is_set(config.optimizer_on_host) != is_set(config.weights_on_host))
    made.why = "optimizer_on_host and weights_on_host differ; torchtitan offloads both or none";
  const torchtitan_schedule* const schedule = torchtitan_schedule_of(config);
  if (schedule == nullptr)
    made.why = "schedule_of_pipeline and virtual_pipeline are those of none of " +
               known_torchtitan_schedules();
  if (config.precision && *config.precision != training_precision::bf16 &&
      *config.precision != training_precision::pure_bf16 &&
      *config.precision != training_precision::fp32)
    made.why = "precision is another than bf16, pure_bf16 and fp32, which are taken";
  if (config.optimizer && (config.optimizer->kind != optimizer_kind::adamw ||
                           config.optimizer->library != optimizer_library::torch))
    made.why = "optimizer is another than torch's AdamW, which is taken";
  if (config.recompute && *config.recompute == recompute_mode::selective)
    made.why =
        "recompute is selective; none or full, with saves_costly_results or without, is taken";
  constexpr std::int64_t most = std::int64_t{1} << 20;
  if (config.loss_chunks && (*config.loss_chunks < 0 || *config.loss_chunks > most))
    made.why = "loss_chunks is " + std::to_string(*config.loss_chunks) + "; 0 to " +
               std::to_string(most) + " is taken";
  for (const auto& part :
       {config.micro_batch, config.accumulation, config.data_parallel, config.shard_group})
    if (part && (*part < 1 || *part > most)) made.why = "a part of the batch is too large, or none";
  if (config.data_parallel && config.shard_group && *config.shard_group > 0 &&
      *config.data_parallel % *config.shard_group != 0)
    made.why = "shard_group is no divisor of data_parallel";
  if (config.zero_stage && config.data_parallel && *config.data_parallel > 1 &&
      config.shard_group && *config.shard_group == 1)
    made.why = "shard_group is 1, so that nobody shares; more is taken with zero_stage 2 or 3";
  if (!made.why.empty()) return made;

  value& to = made.settings;
  for (const auto& [path, member] : torchtitan_integers)
    if (config.*member) {
      const std::string_view whole = path;
      const std::size_t point = whole.find('.');
      to[whole.substr(0, point)][whole.substr(point + 1)] = *(config.*member);
    }
  // made beside it: members move where others are added
  value training = to["training"];
  value parallelism = to["parallelism"];
  if (config.data_parallel) {
    const std::int64_t shards = config.shard_group ? *config.shard_group : *config.data_parallel;
    parallelism["data_parallel_shard_degree"] = shards;
    parallelism["data_parallel_replicate_degree"] = *config.data_parallel / shards;
  }
  if (config.sequence_parallel) parallelism["enable_sequence_parallel"] = *config.sequence_parallel;
  if (config.zero_stage)
    parallelism["fsdp_reshard_after_forward"] = *config.zero_stage == 3 ? "always" : "never";
  if (config.schedule_of_pipeline || schedule->chunks > 1)
    parallelism["pipeline_parallel_schedule"] = std::string(schedule->name);
  const bool is_pipelined = config.pipeline_parallel && *config.pipeline_parallel > 1;
  // The ends count as a layer each where nothing is said.
  const pipeline_split split = config.split ? *config.split : pipeline_split{};
  if (split.first_have_more || (is_pipelined && split.is_even())) {
    parallelism["pipeline_parallel_first_stage_less_layers"] = split.embedding_layers;
    parallelism["pipeline_parallel_last_stage_less_layers"] = split.head_layers;
  }
  if (config.weights_on_host) training["enable_cpu_offload"] = *config.weights_on_host;
  training["disable_cuda_graphs"] = !is_set(config.cuda_graphs);  // on by default
  if (config.micro_batch && is_pipelined) {
    parallelism["pipeline_parallel_microbatch_size"] = *config.micro_batch;
    training["local_batch_size"] =
        *config.micro_batch * (config.accumulation ? *config.accumulation : 1);
  } else if (config.micro_batch) {
    training["local_batch_size"] = *config.micro_batch;
  }
  if (config.micro_batch && config.accumulation && config.data_parallel)
    training["global_batch_size"] =
        *config.micro_batch * *config.accumulation * *config.data_parallel;
  else if (config.global_batch)
    training["global_batch_size"] = *config.global_batch;
  if (config.clip_norm) training["max_norm"] = *config.clip_norm;
  if (config.precision) {
    training["dtype"] = *config.precision == training_precision::pure_bf16 ? "bfloat16" : "float32";
    training["mixed_precision_param"] =
        *config.precision == training_precision::fp32 ? "float32" : "bfloat16";
  }
  if (config.loss_chunks && *config.loss_chunks > 0) to["loss"]["num_chunks"] = *config.loss_chunks;
  to["training"] = std::move(training);
  to["parallelism"] = std::move(parallelism);
  if (config.compiles_layers || config.compiles_loss) {
    value::list parts;
    if (is_set(config.compiles_layers)) parts.emplace_back("model");
    if (is_set(config.compiles_loss)) parts.emplace_back("loss");
    to["compile"]["enable"] = !parts.empty();
    if (!parts.empty()) to["compile"]["components"] = std::move(parts);
  }
  if (config.warm_up_steps && std::trunc(*config.warm_up_steps) == *config.warm_up_steps &&
      *config.warm_up_steps >= 0 && *config.warm_up_steps < 1e12)
    to["lr_scheduler"]["warmup_steps"] = static_cast<std::int64_t>(*config.warm_up_steps);
  // Without a share the rate falls from the warm-up on; of none it never does.
  if (has_torchtitan_schedule(config)) {
    to["lr_scheduler"]["decay_type"] =
        *config.schedule == rate_schedule::cosine ? "cosine" : "linear";
    if (*config.schedule == rate_schedule::constant) to["lr_scheduler"]["decay_ratio"] = 0.0;
    if (*config.schedule == rate_schedule::wsd)
      to["lr_scheduler"]["decay_ratio"] =
          static_cast<double>(*config.decay_steps) / static_cast<double>(*config.steps);
  }
  if (config.least_learning_rate && config.learning_rate && *config.learning_rate > 0)
    to["lr_scheduler"]["min_lr_factor"] = *config.least_learning_rate / *config.learning_rate;
  return made;
}

}  // namespace detail

/// A module whose function `planned` changes a configuration of torchtitan 0.3's registry as a plan
/// says, and the command that starts it. Refused: models that the registry has not under a name
/// of the Hub, and plans that torchtitan would train otherwise.
[[nodiscard]] inline written_config write_torchtitan(const training_config& config) {
  written_config made;
  const detail::torchtitan_model* const model = detail::torchtitan_model_of(config);
  if (model == nullptr) {
    made.why = detail::is_named(config) ? "model is " + detail::shown(value(config.model))
                                        : "which model of the Hub it is nobody says";
    made.why += "; one of torchtitan's registry is taken: ";
    const char* separator = "";
    for (const detail::torchtitan_model& each : detail::torchtitan_models)
      made.why += std::exchange(separator, ", ") + std::string(each.name);
  }
  const detail::torchtitan_plan plan = detail::torchtitan_settings_of(config);
  if (!plan.why.empty()) made.why = plan.why;
  const detail::machines on = detail::machines_of(config);
  if (!on.why.empty()) made.why = on.why;
  for (const auto& number : {config.learning_rate, config.weight_decay, config.clip_norm})
    if (number && !(std::isfinite(*number) && *number >= 0))
      made.why = "learning_rate, weight_decay or clip_norm is no finite number of at least 0";
  if (!made) return made;

  std::string text = "# written for torchtitan 0.3.0\n";
  if (config.recompute && *config.recompute == recompute_mode::full)
    text += "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n";
  if (config.loss_chunks && *config.loss_chunks != 0)
    text += "from torchtitan.components.loss import ChunkedLossWrapper\n";
  if (config.learning_rate) text += "from torchtitan.components.optimizer import default_adamw\n";
  text += std::string("from torchtitan.models.") + model->module + ".config_registry import " +
          model->function + "\n\n\ndef planned():\n    c = " + model->function + "()\n";
  for (const auto& [group, settings] : *plan.settings.members()) {
    if (settings.members() == nullptr || group == "loss") continue;
    for (const auto& [name, is] : *settings.members()) {
      std::string literal = detail::plain_word(is);
      if (is.text() != nullptr) literal = "\"" + literal + "\"";
      if (is.flag() != nullptr) literal = *is.flag() ? "True" : "False";
      if (is.items() != nullptr) {
        literal = "[";
        for (const value& each : *is.items())
          literal += (literal.size() > 1 ? ", \"" : "\"") + detail::plain_word(each) + "\"";
        literal += "]";
      }
      text += "    c." + group + "." + name + " = " + literal + "\n";
    }
  }
  // The registry's losses are in chunks, but for some.
  if (config.loss_chunks) {
    const std::string whole = "getattr(c.loss, \"loss_fn\", c.loss)";
    text += "    c.loss = " +
            (*config.loss_chunks == 0
                 ? whole
                 : "ChunkedLossWrapper.Config(num_chunks=" + std::to_string(*config.loss_chunks) +
                       ", loss_fn=" + whole + ")") +
            "\n";
  }
  if (config.recompute && *config.recompute == recompute_mode::none)
    text += "    c.activation_checkpoint = None\n";
  if (config.recompute && *config.recompute == recompute_mode::full)
    text +=
        std::string("    c.activation_checkpoint = ") +
        (config.saves_costly_results && *config.saves_costly_results ? "SelectiveAC" : "FullAC") +
        ".Config()\n";
  if (config.learning_rate)
    text += "    c.optimizer = default_adamw(lr=" + decimal(*config.learning_rate, cell::shortest) +
            (config.weight_decay ? ", weight_decay=" + decimal(*config.weight_decay, cell::shortest)
                                 : std::string()) +
            ")\n";
  // fused where nothing is said
  if (config.optimizer && config.optimizer->loop != optimizer_loop::fused)
    text +=
        std::string("    c.optimizer.implementation = ") +
        (config.optimizer->loop == optimizer_loop::foreach ? "\"foreach\"\n" : "\"for-loop\"\n");
  made.files.push_back({"gpuplan_torchtitan.py", text + "    return c\n"});
  made.command = "torchrun --nnodes " + std::to_string(on.nodes) + " --nproc-per-node " +
                 std::to_string(on.gpus_per_node) +
                 " -m torchtitan.train --module gpuplan_torchtitan --config planned";
  std::vector<std::string> said = {"model",
                                   "sequence_length",
                                   "trains",
                                   "gpus",
                                   "nodes",
                                   "gpus_per_node",
                                   "data_parallel",

                                   "tensor_parallel",
                                   "pipeline_parallel",
                                   "virtual_pipeline",
                                   "schedule_of_pipeline",
                                   "context_parallel",
                                   "expert_parallel",
                                   "sequence_parallel",
                                   "zero_stage",
                                   "optimizer_on_host",
                                   "weights_on_host",
                                   "engine",
                                   "precision",
                                   "optimizer",
                                   "recompute",
                                   "saves_costly_results",
                                   "loss_chunks",
                                   "compiles_layers",
                                   "compiles_loss",
                                   "cuda_graphs",
                                   "clip_norm",
                                   "learning_rate",
                                   "steps",
                                   "micro_batch"};
  const auto says_if = [&said](bool is, const char* name) {
    if (is) said.emplace_back(name);
  };
  says_if(config.split && config.split->first_have_more, "split");
  says_if(config.precision && *config.precision != training_precision::pure_bf16 &&
              config.weights && *config.weights == number_format::fp32,
          "weights");
  says_if(!!config.learning_rate, "weight_decay");
  says_if(!!config.learning_rate, "least_learning_rate");
  says_if(plan.settings.find("training")->find("global_batch_size") != nullptr, "global_batch");
  says_if(config.micro_batch && config.data_parallel, "accumulation");
  says_if(plan.settings.find("lr_scheduler") != nullptr &&
              plan.settings.find("lr_scheduler")->find("warmup_steps") != nullptr,
          "warm_up_steps");
  says_if(detail::has_torchtitan_schedule(config), "schedule");
  says_if(detail::has_torchtitan_schedule(config) && *config.schedule == rate_schedule::wsd,
          "decay_steps");
  says_if(!config.shard_group || config.data_parallel, "shard_group");
  made.not_written = detail::said_but(config, said);
  return made;
}

}  // namespace gpuplan::io

#pragma once

// What trainers' files say, as a setup and a batch that the library estimates: several files
// merged, what they leave open filled in and said, what contradicts itself refused with the
// numbers.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/io/framework_words.hpp>
#include <gpuplan/io/trainer/members.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/optimizer.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// What is taken because no file says it.
struct assumption {
  std::string member{};  // of `training_config`: "sequence_length"
  std::string text{};    // "sequences of 2048 tokens: no file says how long they are"
};

/// A training as the library takes it, and how it came to be so.
struct configured_training {
  training_setup setup{};
  std::shared_ptr<const composite_model> parts{};  // the setup's, if it has several
  batch_plan plan{};
  std::int64_t gpus = 1;
  std::vector<assumption> assumed{};
  std::vector<remark> remarks{};  // what contradicts itself, and what is left out
  std::string why{};  // why there is none; then the others say what was found until there. Empty:
                      // there is

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

/// What the files do not say and a person may: the model's shape, of several parts the language
/// model's and all parts, what it is called (a name of the catalogue, or a `model_type`), what its
/// own code drops, and how many GPUs there are.
struct training_context {
  transformer shape{};
  std::shared_ptr<const composite_model> parts{};
  std::string called{};
  layer_dropouts dropouts{};
  known<std::int64_t> gpus{};
};

/// The tokens of a sequence where no file says how long they are; of a model with fewer learned
/// positions, as many as it has.
inline constexpr std::int64_t usual_sequence_length_of_files = 2048;

/// The tokens of a sample: where no file says how long they are 2048, and no more than the model
/// has learned positions. Of images 0.
[[nodiscard]] inline std::int64_t sequence_length_of(const training_config& config,
                                                     const transformer& model) {
  if (model.kind == model_kind::vision) return 0;
  if (config.sequence_length) return *config.sequence_length;
  constexpr std::int64_t usual = usual_sequence_length_of_files;
  return model.position_rows != 0 ? std::min(usual, model.position_rows) : usual;
}

/// The tokens that the decoder of an encoder-decoder reads where nobody says: 0, as many as the
/// encoder, or no more than it has learned positions (of Whisper 448).
[[nodiscard]] constexpr std::int64_t usual_target_length(const transformer& model,
                                                         std::int64_t sequence_length) {
  const std::int64_t rows = model.decoder.position_rows;
  return model.kind == model_kind::encoder_decoder && rows != 0 && rows < sequence_length ? rows
                                                                                          : 0;
}

/// The recipe that these words mean to such an engine. Absent where it has none.
[[nodiscard]] constexpr known<precision_recipe> recipe_of(training_precision precision,
                                                          const engine_class& engine) {
  const bool has_masters = engine.has_own_step || engine.has_fp32_gradients;
  precision_recipe bf16 = bf16_mixed;
  if (engine.has_own_step)
    bf16 = bf16_master;
  else if (engine.has_fp32_gradients)
    bf16 = bf16_megatron;
  switch (precision) {
    case training_precision::fp32:
      return fp32_precision;
    case training_precision::tf32:
      return precision_recipe{.compute = number_format::tf32};
    case training_precision::fp16:
      return has_masters ? fp16_master : fp16_mixed;
    case training_precision::bf16:
      return bf16;
    case training_precision::fp8:
      bf16.fp8_linears = true;
      return bf16;
    case training_precision::pure_bf16:
      return bf16_pure;
  }
  return {};
}

/// The layout that files mean: a degree that none says is 1, and of an engine that always shares
/// states the stage is its highest.
[[nodiscard]] inline parallelism layout_of(const training_config& config) {
  const auto or_one = [](const known<std::int64_t>& degree) { return degree ? *degree : 1; };
  const auto is = [](const known<bool>& flag) { return flag && *flag; };
  parallelism layout;
  layout.tensor_parallel = or_one(config.tensor_parallel);
  layout.pipeline_parallel = or_one(config.pipeline_parallel);
  layout.virtual_pipeline = or_one(config.virtual_pipeline);
  layout.context_parallel = or_one(config.context_parallel);
  layout.expert_parallel = or_one(config.expert_parallel);
  layout.expert_tensor_parallel = or_one(config.expert_tensor_parallel);
  layout.sequence_parallel = is(config.sequence_parallel);
  layout.optimizer_on_host = is(config.optimizer_on_host);
  layout.weights_on_host = is(config.weights_on_host);
  if (config.schedule_of_pipeline) layout.schedule = *config.schedule_of_pipeline;
  if (config.split) layout.split = *config.split;
  layout.shares_kept_inputs = is(config.shares_kept_inputs);
  if (config.zero_stage) layout.zero_stage = *config.zero_stage;
  if (!config.zero_stage)
    for (const engine_class* const known : engine_classes::all)
      if (config.engine == known->name->text && known->least_zero_stage > 0)
        layout.zero_stage = known->most_zero_stage;
  return layout;
}

/// How many GPUs files mean.
struct said_gpus {
  known<std::int64_t> count{};  // absent where it does not follow from what they say
  std::string assumed{};        // what no file says, if it counts
  std::string why{};            // why the number is none; empty: nothing is wrong with it
};

/// All GPUs, where a file says so; else those of the nodes, those of so many replicas of
/// `model_ranks` GPUs each, or as many as the batch needs.
[[nodiscard]] inline said_gpus gpus_of(const training_config& config, std::int64_t model_ranks) {
  said_gpus all;
  const auto product = [&](std::int64_t one, std::int64_t other, const char* too_many) {
    const auto is = gpuplan::detail::checked_product(one, other);
    if (is.ok)
      all.count = is.value;
    else
      all.why = too_many;
  };
  if (config.gpus) {
    all.count = config.gpus;
  } else if (config.gpus_per_node) {
    if (!config.nodes)
      all.assumed = "one node of " + std::to_string(*config.gpus_per_node) + " GPUs";
    product(config.nodes ? *config.nodes : 1,
            *config.gpus_per_node,
            "nodes times GPUs of a node are more than fit into 64 bits");
  } else if (config.data_parallel) {
    product(*config.data_parallel,
            model_ranks,
            "data_parallel times the other degrees does not fit into 64 bits");
  } else if (config.global_batch && config.micro_batch && config.accumulation) {
    const auto samples =
        gpuplan::detail::checked_product(*config.micro_batch, *config.accumulation);
    if (!samples.ok || *config.global_batch % samples.value != 0) return all;
    const auto gpus =
        gpuplan::detail::checked_product(*config.global_batch / samples.value, model_ranks);
    if (!gpus.ok || gpus.value > (std::int64_t{1} << 20)) return all;
    all.count = gpus.value;
    all.assumed = (gpus.value == 1 ? "one GPU" : std::to_string(gpus.value) + " GPUs") +
                  ", which the batch needs: no file says how many";
  }
  if (all.count && *all.count > (std::int64_t{1} << 20))
    all.why = std::to_string(*all.count) + " GPUs: plans are of 1048576 GPUs at most";
  return all;
}

/// Sets what files say of a step, but for the number formats, which depend on the engine.
inline void set_step(const training_config& config, training_setup& to) {
  if (config.trains) to.trains.what = *config.trains;
  if (config.last_layers) to.trains.last_layers = *config.last_layers;
  if (config.adapters) {
    to.trains.what = training::adapters;
    to.trains.adapters = *config.adapters;
  }
  if (config.optimizer) to.optimizer = *config.optimizer;
  if (config.clip_norm) to.optimizer.clips_gradients = *config.clip_norm > 0;
  if (config.recompute) to.recompute = *config.recompute;
  if (config.recompute_span) to.recompute_span = *config.recompute_span;
  if (config.recompute_layers) to.recompute_layers = *config.recompute_layers;
  if (config.recompute_period) to.recompute_period = *config.recompute_period;
  if (config.modules) to.modules = *config.modules;
  if (config.offloaded_layers) to.offloads.layers = *config.offloaded_layers;
  if (config.saves_costly_results) to.saves_costly_results = *config.saves_costly_results;
  if (config.expert_capacity) to.expert_capacity = *config.expert_capacity;
  // Megatron passes over it where there are no experts.
  if (config.dispatcher && to.model.moe.num_experts != 0) to.dispatcher = *config.dispatcher;
  // It means nothing where a rank has whole sequences.
  if (config.context_exchange && config.context_parallel && *config.context_parallel > 1)
    to.context_exchange = *config.context_exchange;
  if (config.attention) to.attention = *config.attention;
  if (config.dropout) set_dropouts({.hidden = *config.dropout}, to);
  if (config.padding_free) to.padding_free = *config.padding_free;
}

/// The engine that files name for a setup's model; FSDP 2 where it is FSDP 1 and the estimate knows
/// no more of that: parts that train, but for most adapters, and models of several transformers.
[[nodiscard]] inline std::string_view estimated_engine(const training_config& config,
                                                       const training_setup& of) {
  const bool trains_parts =
      config.adapters || config.last_layers || (config.trains && *config.trains != training::full);
  const auto wraps_adapters = [&](const engine_class& by) {
    if (!config.adapters || of.composite != nullptr || !by.wraps_adapters) return false;
    training_setup asked = of;
    asked.framework.engine.is = &by;
    asked.trains = {.what = training::adapters, .adapters = *config.adapters};
    return !gpuplan::detail::failed(gpuplan::detail::flaw_of_plain_adapters(asked));
  };
  for (const engine_class* const known : engine_classes::all)
    if (config.engine == known->name->text && known->gathers_weights &&
        ((trains_parts && !known->trains_parts && !wraps_adapters(*known)) ||
         (of.composite != nullptr && !known->shards_parts)))
      return "fsdp2";
  return config.engine;
}

/// Has FSDP share as Accelerate does, under which transformers and the trainers on it run:
/// gradients are reduced in the format of products, which its policy names, unless files name
/// another, and in micro-batches before the last not at all, unless files say so
/// (`sync_each_batch`). Parameters that files do not want as they were (`use_orig_params`) are so
/// beside adapters alone.
inline void share_as_accelerate(const training_config& config, training_setup& setup) {
  engine& by = setup.framework.engine;
  // As trainers store four-bit matrices, which matters where DeepSpeed divides them.
  quantised_base& base = setup.trains.adapters.base;
  base.in_weights_format = base.block != 0 && by.is->casts_adapters;
  if (!by.is->gathers_weights) return;
  by.original_parameters = !gpuplan::detail::wraps_adapters(setup) || !config.original_parameters ||
                           *config.original_parameters;
  by.reduces_every_micro_batch =
      config.reduces_every_micro_batch && *config.reduces_every_micro_batch;
  if (config.reduced)
    setup.precision.reduced = *config.reduced;
  else if (setup.precision.autocast())
    setup.precision.reduced = setup.precision.compute;
}

/// Has DeepSpeed's buffers as files say, where they say it. With ZeRO-3 transformers builds the
/// model under zero.Init, and PEFT makes adapters behind it, which stay as they are.
inline void set_zero(const training_config& config, training_setup& setup) {
  engine& by = setup.framework.engine;
  if (!by.is->has_own_step) return;
  if (config.overlaps_reduction) by.overlaps_reduction = *config.overlaps_reduction;
  if (config.zero) by.zero = config.zero->is;
  by.zero.divides_while_building = config.adapters && setup.parallelism.zero_stage == 3;
  if (!config.zero) return;
  const std::int64_t width = setup.model.hidden_size;
  const auto square = gpuplan::detail::checked_product(width, width);
  if (!square.ok || square.value < 1) return;
  if (config.zero->reduce_bucket_of_width) by.zero.reduce_bucket = square.value;
  if (config.zero->prefetch_bucket_of_width)
    by.zero.prefetch_bucket = static_cast<std::int64_t>(0.9 * static_cast<double>(square.value));
  if (config.zero->persistence_threshold_of_width) by.zero.persistence_threshold = 10 * width;
}

/// What files say of Megatron's step: exchanges hide behind its passes, gradients', in buckets,
/// behind the backward, and weights' behind the forward; and whether its loss is one operator.
inline void set_as_megatron(const training_config& config, training_setup& setup) {
  framework& by = setup.framework;
  if (!by.layers().is_pipelined || by.engine.is->has_own_step) return;
  if (config.fuses_loss && by.implementation.transformer_engine)
    by.implementation.fuses_loss = *config.fuses_loss;
  if (config.overlaps_reduction)
    by.engine.overlaps_reduction = by.costs.hides_gradients = *config.overlaps_reduction;
  if (config.overlaps_gathers) by.costs.hides_parameters = *config.overlaps_gathers;
}

/// Has torchtitan's code of before 0.3 in place of a newer one's; it compiles what is asked for.
inline void take_older_torchtitan(training_setup& of) {
  const implementation newer = of.framework.implementation;
  of.framework = catalog::torchtitan;
  of.framework.implementation.compiles_layers = newer.compiles_layers;
  of.framework.implementation.compiles_loss = newer.compiles_loss;
  of.graphs = {};
}

/// The framework of a tool that runs its own layers, or of one of several ("torchrun and
/// megatron-lm"); nothing of those that run the model's own.
[[nodiscard]] inline const char* framework_of_tool(std::string_view tool) {
  const auto has = [&](const char* name) { return tool.find(name) != std::string_view::npos; };
  return has("megatron") ? "megatron-te" : has("torchtitan") ? "torchtitan" : nullptr;
}

/// The recipe with weights that are held in this format. Where the engine has copies of them in
/// fp32 it is the recipe itself, since theirs is the engine's; without autocast all is in the
/// format.
[[nodiscard]] constexpr precision_recipe with_weights(precision_recipe recipe,
                                                      number_format weights) {
  if (recipe.master_weights || recipe.fp32_gradients) return recipe;
  const bool is_cast = recipe.autocast();
  recipe.weights = weights;
  if (!is_cast && weights != number_format::fp32) recipe.compute = weights;
  recipe.under_autocast = is_cast && recipe.compute == weights;
  return recipe;
}

/// What files mean by their number formats, and what no file says of them.
struct said_recipe {
  precision_recipe is{};
  std::vector<assumption> assumed{};
};

/// The recipe of files whose training has such an engine. Weights are held as a file states, but
/// for those that the engine has copies of in fp32, or that Accelerate makes fp32 before
/// FSDP 2 divides them, unless the base is in four bits; of FSDP 1 those that train. Where none
/// states it they are in fp32; frozen ones beside adapters in bf16, as they are stored, where
/// products are.
[[nodiscard]] inline said_recipe recipe_of(const training_config& config,
                                           training trains,
                                           const engine_class& engine) {
  said_recipe made;
  const auto assume = [&](const char* member, const std::string& what) {
    made.assumed.push_back({member, what});
  };
  if (!config.precision) assume("precision", "fp32: no file states a mixed precision");
  const training_precision precision =
      config.precision ? *config.precision : training_precision::fp32;
  precision_recipe& recipe = made.is;
  recipe = *recipe_of(precision, engine);
  if (recipe.fp8_linears && config.scaling) recipe.scaling = *config.scaling;
  if (config.reduced && recipe.master_weights && !engine.has_own_step)
    recipe.fp32_gradients = *config.reduced == number_format::fp32;
  if (precision == training_precision::bf16 && config.fp4_linears && *config.fp4_linears) {
    recipe.fp4_linears = true;
    recipe.scaling = scaling_kind::micro;
  }
  if (precision == training_precision::pure_bf16) return made;
  const bool is_mixed = recipe.autocast();
  const bool has_adapters = trains == training::adapters;
  const std::string in_fp32 =
      std::string("weights in fp32, of which ") + text(recipe.compute) + " is made";
  const bool has_blocks = config.adapters && config.adapters->base.block != 0;
  const bool stay = has_adapters && (engine.wraps_adapters || has_blocks);
  if (engine.gathers_weights && is_mixed && !stay) {
    if (config.weights ? *config.weights != number_format::fp32 : has_adapters)
      assume("weights", in_fp32 + ": Accelerate casts what " + engine.name->text + " shares");
  } else if (config.weights) {
    recipe = with_weights(recipe, *config.weights);
  } else if (is_mixed && has_adapters && precision == training_precision::bf16) {
    recipe = bf16_under_autocast;
    assume("weights",
           "the frozen weights in bf16, as they are stored: no file states their format");
  } else if (is_mixed) {
    assume("weights", in_fp32 + ": no file states their format");
  }
  return made;
}

namespace detail {

// One member of several files: the first that says it, and a remark where another says otherwise.
template <class T>
void merge(T& into,
           const T& more,
           const char* name,
           const std::string& tool,
           std::vector<remark>& remarks) {
  if (!is_said(more)) return;
  if (!is_said(into)) {
    into = more;
    return;
  }
  const auto contradict = [&](const std::string& first, const std::string& second) {
    if (first != second)
      remarks.push_back({remark::kind::contradicts,
                         name,
                         "is " + first + " in one file and " + second + " in that of " + tool +
                             "; the first is taken"});
  };
  if constexpr (std::is_same_v<T, std::string>) {
    contradict("\"" + printable(into) + "\"", "\"" + printable(more) + "\"");
  } else if constexpr (requires { value(*into); }) {
    contradict(shown(value(*into)), shown(value(*more)));
  } else if constexpr (requires { *into == *more; }) {
    if (!(*into == *more))
      remarks.push_back(
          {remark::kind::contradicts,
           name,
           "is another in the file of " + tool + " than in one before it, which is taken"});
  }
}

[[nodiscard]] inline bool has_text(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}
[[nodiscard]] inline std::string lower_name(std::string_view path) {
  std::string name;
  for (const char c : path.substr(path.find_last_of('/') + 1)) name += gpuplan::detail::lower(c);
  return name;
}
// The stage of ZeRO that the name of DeepSpeed's file says: 3 of "ds_z3_config.json",
// "zero3_bf16.json" and "stage_3.json".
[[nodiscard]] inline known<int> stage_of_name(std::string_view path) {
  const std::string name = lower_name(path);
  const auto is_digit = [&](std::size_t at) {
    return at < name.size() && name[at] >= '0' && name[at] <= '9';
  };
  for (const std::string_view word : {"zero", "stage", "z"})
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      std::size_t next = at + word.size();
      if (next < name.size() && (name[next] == '_' || name[next] == '-')) ++next;
      if (is_digit(next) && name[next] <= '3' && !is_digit(next + 1)) return name[next] - '0';
    }
  return {};
}

// DeepSpeed's file may be named and not be there; a name may still say what counts most.
inline void take_names_of_stages(read_config& of) {
  training_config& to = of.config;
  if (to.engine != "deepspeed" || to.zero_stage) return;
  for (remark& said : of.remarks) {
    if (said.file.empty() || !has_text(said.key, "deepspeed")) continue;
    const known<int> stage = stage_of_name(said.file);
    if (!stage) continue;
    to.zero_stage = *stage;
    said.text += "; ZeRO-" + std::to_string(*stage) + " is taken, as its name has it";
    if (!has_text(lower_name(said.file), "offload") || to.optimizer_on_host) return;
    to.optimizer_on_host = true;
    to.weights_on_host = *stage == 3;
    said.text += ", with states on the host";
    return;
  }
}

// Which depends on several files: axolotl has checkpoints re-enter with ZeRO-3, where nothing else
// is said; TRL beside adapters of ZeRO-3, whatever is said, and it casts adapters of a base in four
// bits. Accelerate has DeepSpeed's own optimizer where states are on the host.
inline void take_as_trainers_do(read_config& of) {
  training_config& to = of.config;
  if (to.engine == "deepspeed" && to.optimizer_on_host && *to.optimizer_on_host && to.optimizer &&
      to.optimizer->library == optimizer_library::bitsandbytes) {
    const bool is_lion =
        to.optimizer->kind == optimizer_kind::lion && to.optimizer->states == number_format::fp32;
    to.optimizer =
        gpuplan::optimizer{.kind = is_lion ? optimizer_kind::lion : optimizer_kind::adamw,
                           .loop = is_lion ? optimizer_loop::foreach : optimizer_loop::fused};
    of.remarks.push_back(
        {remark::kind::contradicts,
         "optimizer",
         "is of bitsandbytes, with states on the host; Accelerate takes DeepSpeed's "
         "own in its stead"});
  }
  const bool is_third = to.engine == "deepspeed" && to.zero_stage && *to.zero_stage == 3;
  if (is_third && !to.checkpoints_reenter && has_text(of.tool, "axolotl"))
    to.checkpoints_reenter = true;
  if (!to.adapters || !has_text(of.tool, "trl")) return;
  lora adapters = *to.adapters;
  if (adapters.base.block != 0) adapters.weights = number_format::bf16;
  to.adapters = adapters;
  if (!is_third) return;
  if (to.checkpoints_reenter && !*to.checkpoints_reenter)
    of.remarks.push_back(
        {remark::kind::contradicts,
         "use_reentrant",
         "is false, which TRL overrules beside adapters of ZeRO-3; true is taken"});
  to.checkpoints_reenter = true;
}

}  // namespace detail

/// Several files of one training as one: an earlier file counts before a later one, and what both
/// say in different words is a remark.
[[nodiscard]] inline read_config merged(const std::vector<read_config>& files) {
  read_config all;
  // Of FSDP's own recomputation, which Accelerate's file switches off, a trainer's is independent.
  const auto switches_off = [](const read_config& file) {
    const auto& is = file.config.recompute;
    return file.tool == "accelerate" && is && *is == recompute_mode::none;
  };
  const auto take = [&](const training_config& from, const std::string& tool, bool is_usual) {
    detail::for_each_member([&](const char* name, auto member) {
      if (is_usual && detail::is_said(all.config.*member)) return;
      detail::merge(all.config.*member, from.*member, name, tool, all.remarks);
    });
  };
  bool is_said_elsewhere = false;
  known<gpuplan::optimizer> of_deepspeed;
  for (const read_config& file : files) {
    is_said_elsewhere = is_said_elsewhere || (file.config.recompute && !switches_off(file));
    if (file.tool == "deepspeed" && !of_deepspeed) of_deepspeed = file.config.optimizer;
  }
  for (const read_config& file : files) {
    all.tool += (all.tool.empty() ? "" : " and ") + file.tool;
    if (all.gpu.empty()) all.gpu = file.gpu;
    all.remarks.insert(all.remarks.end(), file.remarks.begin(), file.remarks.end());
    all.not_understood.insert(
        all.not_understood.end(), file.not_understood.begin(), file.not_understood.end());
    training_config from = file.config;
    if (is_said_elsewhere && switches_off(file)) from.recompute = {};
    if (detail::replaces_optimizer(of_deepspeed, from.optimizer)) {
      from.optimizer = {};
      all.remarks.push_back({remark::kind::contradicts,
                             "optimizer",
                             "is another in the file of " + file.tool +
                                 " than in that of deepspeed, which is taken"});
    }
    take(from, file.tool, false);
  }
  for (const read_config& file : files) take(file.usual, file.tool, true);
  detail::take_names_of_stages(all);
  detail::take_as_trainers_do(all);
  return all;
}

/// Fills in what Megatron-Bridge's recipes have, which its files override, where these do not say
/// it: bf16_mixed, a distributed optimizer, and fused AdamW. What was taken.
inline std::vector<assumption> take_usual_recipe(read_config& read) {
  std::vector<assumption> taken;
  if (!detail::has_text(read.tool, "megatron-bridge")) return taken;
  training_config& config = read.config;
  if (!config.precision) {
    config.precision = training_precision::bf16;
    taken.push_back({"precision", "bf16_mixed, as recipes have it: no file states another"});
  }
  if (!config.zero_stage) {
    config.zero_stage = 1;
    taken.push_back({"zero_stage",
                     "ZeRO-1, the distributed optimizer, as recipes have it: no file says "
                     "use_distributed_optimizer"});
  }
  if (!config.optimizer) {
    config.optimizer = gpuplan::optimizer{.loop = optimizer_loop::fused};
    taken.push_back({"optimizer", "fused AdamW, as recipes have it: no file names another"});
  }
  return taken;
}

namespace detail {

// Fills in a setup from what was read, field by field.
class training_builder {
 public:
  training_builder(const read_config& read, const training_context& context)
      : read_(read), context_(context) {
    to_.assumed = take_usual_recipe(read_);
    const bool has_other_gpus =
        context.gpus && read.config.gpus && *context.gpus != *read.config.gpus;
    // What Megatron's readers make of the files' number of GPUs holds for no other.
    if (has_other_gpus && has_text(tool_, "megatron"))
      read_.config.data_parallel = read_.config.accumulation = {};
    for (const remark& one : read_.remarks)
      if (!has_other_gpus || !one.is_of_gpus) to_.remarks.push_back(one);
  }

  [[nodiscard]] configured_training build() {
    to_.setup.model = config_.shape ? *config_.shape : context_.shape;
    if (!config_.shape) to_.parts = context_.parts;
    to_.setup.composite = to_.parts.get();
    set_length();
    if (!failed()) set_layout();
    if (!failed()) set_batch();
    if (!failed()) set_framework();
    if (!failed()) set_step();
    if (!failed() && to_.parts != nullptr) set_parts();
    if (!failed()) check();
    return to_;
  }

 private:
  read_config read_;
  const training_config& config_ = read_.config;
  const std::string& tool_ = read_.tool;
  const training_context& context_;
  configured_training to_{};

  [[nodiscard]] bool failed() const { return !to_.why.empty(); }
  void refuse(const std::string& why) { to_.why = why; }
  void assume(const char* member, const std::string& what) {
    to_.assumed.push_back({member, what});
  }
  static std::string text(std::int64_t number) { return std::to_string(number); }
  static std::int64_t or_one(const known<std::int64_t>& degree) { return degree ? *degree : 1; }
  static bool says_yes(const known<bool>& is) { return is && *is; }

  void set_length() {
    to_.setup.sequence_length = sequence_length_of(config_, to_.setup.model);
    if (to_.setup.sequence_length != 0 && !config_.sequence_length)
      assume("sequence_length",
             "sequences of " + text(to_.setup.sequence_length) +
                 " tokens: no file says how long they are");
    const transformer& model = to_.setup.model;
    if (const std::int64_t rows = model.position_rows;
        model.kind != model_kind::vision && rows != 0 && to_.setup.sequence_length > rows)
      return refuse("sequence_length " + text(to_.setup.sequence_length) + ": the model has " +
                    text(rows) + " learned positions, and no more tokens are taken");
    std::int64_t& target = to_.setup.target_length;
    target = usual_target_length(to_.setup.model, to_.setup.sequence_length);
    if (target != 0)
      assume("target_length",
             "targets of " + text(target) + " tokens, as many as the decoder has positions");
  }

  void set_layout() {
    parallelism& layout = to_.setup.parallelism;
    if (config_.engine == "deepspeed" && !config_.zero_stage)
      for (const remark& said : to_.remarks)
        if (!said.file.empty() && has_text(said.key, "deepspeed"))
          return refuse(said.key + " is " + shown(value(said.file)) +
                        ", a file that is not here, and says the stage of ZeRO, on which memory "
                        "depends; give it too");
    layout = layout_of(config_);
    const auto model_ranks = gpuplan::detail::checked_product(
        layout.tensor_parallel, layout.pipeline_parallel, layout.context_parallel);
    if (!model_ranks.ok || model_ranks.value > (std::int64_t{1} << 20))
      return refuse("tensor_parallel " + text(layout.tensor_parallel) + " x pipeline_parallel " +
                    text(layout.pipeline_parallel) + " x context_parallel " +
                    text(layout.context_parallel) + " are more than 1048576 GPUs");
    set_gpus(model_ranks.value);
    if (failed()) return;
    to_.plan.data_parallel = to_.gpus / model_ranks.value;
    if (config_.shard_group && *config_.shard_group < to_.plan.data_parallel)
      layout.shard_group = *config_.shard_group;
  }

  void set_gpus(std::int64_t model_ranks) {
    training_config config = config_;
    if (context_.gpus) config.gpus = context_.gpus;
    const said_gpus said = gpus_of(config, model_ranks);
    if (!said.why.empty()) return refuse(said.why);
    if (!said.assumed.empty()) assume("gpus", said.assumed);
    if (!said.count) {
      to_.gpus = model_ranks;
      return assume(
          "gpus",
          (to_.gpus == 1 ? "one GPU" : text(to_.gpus) + " GPUs") + ": no file says how many");
    }
    to_.gpus = *said.count;
    if (to_.gpus % model_ranks != 0)
      return refuse(text(to_.gpus) + " GPUs are no multiple of " + text(model_ranks) +
                    ", the product of tensor, pipeline and context parallelism; " +
                    text((to_.gpus / model_ranks + 1) * model_ranks) + " GPUs would be");
    if (config_.data_parallel && *config_.data_parallel != to_.gpus / model_ranks)
      to_.remarks.push_back({remark::kind::contradicts,
                             "data_parallel",
                             "is " + text(*config_.data_parallel) + ", but " + text(to_.gpus) +
                                 " GPUs and the other degrees leave " +
                                 text(to_.gpus / model_ranks) + " replicas, which is taken"});
  }

  void set_batch() {
    batch_plan& plan = to_.plan;
    const std::int64_t replicas = plan.data_parallel;
    plan.micro_batch = or_one(config_.micro_batch);
    plan.accumulation = or_one(config_.accumulation);
    // As DeepSpeed shares train_batch_size out
    const auto others = gpuplan::detail::checked_product(replicas, plan.accumulation);
    const bool is_shared = !config_.micro_batch && config_.global_batch && others.ok &&
                           config_.engine == "deepspeed" &&
                           *config_.global_batch % others.value == 0;
    if (is_shared) plan.micro_batch = *config_.global_batch / others.value;
    if (!config_.micro_batch && !is_shared)
      assume("micro_batch", "one sample of a forward and backward: no file states the micro-batch");
    if (config_.global_batch && !config_.accumulation) {
      const auto once = gpuplan::detail::checked_product(plan.micro_batch, replicas);
      if (!once.ok || *config_.global_batch % once.value != 0)
        return refuse("global_batch " + text(*config_.global_batch) + " is no multiple of " +
                      text(plan.micro_batch) + (plan.micro_batch == 1 ? " sample" : " samples") +
                      " on each of " + text(replicas) + (replicas == 1 ? " replica" : " replicas"));
      plan.accumulation = *config_.global_batch / once.value;
    }
    const auto samples =
        gpuplan::detail::checked_product(plan.micro_batch, replicas, plan.accumulation);
    if (!samples.ok) return refuse("the batch does not fit into 64 bits");
    if (config_.global_batch && *config_.global_batch != samples.value)
      to_.remarks.push_back({remark::kind::contradicts,
                             "global_batch",
                             "is " + text(*config_.global_batch) + ", but " +
                                 text(plan.micro_batch) + " samples x " + text(replicas) +
                                 " replicas x " + text(plan.accumulation) + " accumulated are " +
                                 text(samples.value) + ", which is taken"});
  }

  // Code of experts, of latent attention and of heads with norms it has since.
  [[nodiscard]] bool is_of_new_torchtitan_alone() const {
    const transformer& model = to_.setup.model;
    return model.moe.num_experts != 0 || model.is_latent() || model.qk_norm == qk_norm_scope::head;
  }
  void set_framework() {
    const char* own = framework_of_tool(tool_);
    const auto found =
        own != nullptr ? catalog::find_framework(own) : catalog::implementation_of(context_.called);
    if (!found)
      return refuse("no code of transformers is known for " + printable(context_.called) + "; " +
                    who_runs(to_.setup));
    framework& software = to_.setup.framework;
    software = found->framework;
    if (std::string_view(software.name) == catalog::torchtitan.name &&
        (config_.loss_chunks || is_of_new_torchtitan_alone())) {
      software = catalog::torchtitan_2026;
      std::int64_t& chunks = software.implementation.loss_chunks;
      if (config_.loss_chunks)
        chunks = *config_.loss_chunks;
      else
        assume("loss_chunks",
               "a loss in " + text(chunks) +
                   " chunks, as torchtitan 0.3 has it, whose code alone has the model");
    }
    software.implementation.compiles_layers = says_yes(config_.compiles_layers);
    software.implementation.compiles_loss = says_yes(config_.compiles_loss);
    if (own != nullptr) return set_as_megatron(config_, to_.setup);
    std::string_view engine = config_.engine;
    const int stage = to_.setup.parallelism.zero_stage;
    if (engine.empty()) engine = stage >= 2 ? "fsdp2" : "ddp";
    if (estimated_engine(config_, to_.setup) != config_.engine) {
      engine = estimated_engine(config_, to_.setup);
      assume("engine",
             "FSDP 2: of FSDP 1 the estimate knows LoRA's plain adapters of language models, but "
             "no other parts that train and no models of several transformers");
    }
    for (const engine_class* const known : engine_classes::all)
      if (engine == known->name->text) software.engine.is = known;
    set_zero(config_, to_.setup);
    software.implementation.liger_kernels = says_yes(config_.liger_kernels);
    software.implementation.checkpoints_reenter = says_yes(config_.checkpoints_reenter);
    software.implementation.cut_cross_entropy = says_yes(config_.cut_cross_entropy);
    if (to_.setup.parallelism.optimizer_on_host)
      assume("host_optimizer_rate",
             "an optimizer on a host that reads and writes " +
                 text(static_cast<std::int64_t>(in(host_optimizer_rate, 1_GBps))) +
                 " GB/s of its states for each GPU: no file says what the host can; 6 to 103 were "
                 "measured");
    if (!config_.zero_stage && stage > 0)
      assume("zero_stage",
             "ZeRO-" + text(stage) + ", which " + std::string(engine) +
                 " does where nothing else is said");
  }

  void set_step() {
    training_setup& setup = to_.setup;
    if (framework_of_tool(tool_) == nullptr) set_dropouts(context_.dropouts, setup);
    io::set_step(config_, setup);
    setup.graphs.iteration =
        says_yes(config_.cuda_graphs) && setup.framework.layers().captures_graphs;
    if (says_yes(config_.cuda_graphs) && !setup.graphs.iteration)
      assume("cuda_graphs", "none: of this code the estimate knows no graphs");
    if (setup.graphs.iteration && setup.framework.layers().divides_stages &&
        setup.parallelism.pipeline_parallel > 1) {
      setup.graphs.iteration = false;
      to_.remarks.push_back({remark::kind::contradicts,
                             "cuda_graphs",
                             "is true, which torchtitan refuses in a pipeline; the estimate has "
                             "none, as with training.disable_cuda_graphs"});
    }
    const said_recipe said = recipe_of(config_, setup.trains.what, *setup.framework.engine.is);
    setup.precision = said.is;
    setup.precision.quantised_weights =
        says_yes(config_.quantised_weights) && quantises_linears(setup.precision);
    if (framework_of_tool(tool_) == nullptr) share_as_accelerate(config_, setup);
    if (config_.original_parameters && !*config_.original_parameters &&
        setup.framework.engine.original_parameters)
      assume("original_parameters",
             "true: of use_orig_params false the estimate knows adapters of FSDP 1 alone");
    to_.assumed.insert(to_.assumed.end(), said.assumed.begin(), said.assumed.end());
  }

  // What trains of each part. LLaMA-Factory freezes towers and what leads on from them unless told
  // otherwise, and has adapters beside the layers of parts alone.
  void set_parts() {
    training_setup& setup = to_.setup;
    const trainable all = std::exchange(setup.trains, {});
    const bool adapts = all.what == training::adapters;
    if (all.what != training::full && !adapts)
      return refuse(
          "trains: of a model of several parts all weights train, or those of some parts, or "
          "adapters; a share of the weights is not taken");
    if (adapts && all.adapters.targets != all_linear)
      return refuse(
          "adapters: of a model of several parts they are beside every linear layer of those that "
          "train; all of these are taken, not layers by their names");
    const bool is_by_part = has_text(tool_, "llama-factory");
    const auto trains = [](const known<bool>& said, bool usual) { return said ? *said : usual; };
    auto made = std::make_shared<composite_model>(*to_.parts);
    if (adapts && !is_by_part) *made = with_adapters(*made, all.adapters);
    for (int at = 0; is_by_part && at < made->size(); ++at) {
      component& part = made->parts[at];
      const bool is_trained = part.model.kind == model_kind::vision
                                  ? trains(config_.towers_train, false)
                                  : trains(config_.language_trains, true);
      if (!is_trained) part.trains = {.what = training::frozen};
      if (is_trained && adapts) part.trains = all;
      if (adapts || !trains(config_.connectors_train, false)) part.next.trains = false;
    }
    if (adapts) made->others_train = false;
    to_.parts = made;
    setup.composite = made.get();
    for (const component& part : made->parts)
      if (part.model.kind == model_kind::vision && part.model.image.patches() != 0)
        assume("images",
               text(part.sequences) + (part.sequences == 1 ? " image" : " images") + " of " +
                   text(part.model.image.patches()) +
                   " patches in a sample, as its configuration has them: no file says how many");
  }

  // What the estimate has not beside the rest is left out, one after the other, until it takes the
  // rest. What was not in the way stays.
  result<training_setup> give_up() {
    struct left_out {
      const char* member;
      std::string text;
      void (*change)(training_setup&);
    };
    const training_setup asked = to_.setup;
    std::vector<left_out> all;
    auto valid = validate(asked, to_.plan);
    const auto without = [&](bool has,
                             const char* member,
                             const char* taken,
                             void (*change)(training_setup&)) {
      if (valid || !has) return;
      all.push_back({member, taken + (failure_text(valid.why()).c_str() + std::string()), change});
      change(to_.setup);
      valid = validate(to_.setup, to_.plan);
    };
    const implementation& as = asked.framework.implementation;
    without(as.cut_cross_entropy,
            "cut_cross_entropy",
            "a loss of whole logits: ",
            [](training_setup& of) { of.framework.implementation.cut_cross_entropy = false; });
    without(as.liger_kernels, "liger_kernels", "none of Liger's kernels: ", [](training_setup& of) {
      of.framework.implementation.liger_kernels = false;
    });
    without(as.checkpoints_reenter,
            "checkpoints_reenter",
            "checkpoints that do not re-enter: ",
            [](training_setup& of) { of.framework.implementation.checkpoints_reenter = false; });
    without(as.compiles_layers,
            "compiles_layers",
            "layers that are not compiled, which take longer and keep more: ",
            [](training_setup& of) { of.framework.implementation.compiles_layers = false; });
    without(
        as.compiles_loss, "compiles_loss", "a loss that is not compiled: ", [](training_setup& of) {
          of.framework.implementation.compiles_loss = false;
        });
    without(asked.framework.layers().chunks_loss && !is_of_new_torchtitan_alone(),
            "loss_chunks",
            "torchtitan of December 2024, its loss of whole logits and no CUDA graphs: ",
            take_older_torchtitan);
    without(quantises_linears(asked.precision) && config_.precision,
            "precision",
            asked.precision.fp4_linears ? "bf16, whose products take longer than those in fp4: "
                                        : "bf16, whose products take longer than those in fp8: ",
            [](training_setup& of) {
              of.precision.fp8_linears = of.precision.fp4_linears = false;
              of.precision.quantised_weights = false;
              of.precision.scaling = precision_recipe{}.scaling;
            });
    without(asked.padding_free,
            "padding_free",
            "each sample in a row of its own: ",
            [](training_setup& of) { of.padding_free = false; });
    if (!valid) {
      to_.setup = asked;
      return valid;
    }
    for (std::size_t at = 0; at + 1 < all.size();) {
      training_setup with_it = asked;
      for (const left_out& other : all)
        if (&other != &all[at]) other.change(with_it);
      if (validate(with_it, to_.plan)) {
        to_.setup = with_it;
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        ++at;
      }
    }
    for (const left_out& one : all) assume(one.member, one.text);
    return valid;
  }

  // Of pairs of answers, where the replay has those.
  bool takes_objective() {
    if (!says_yes(config_.pairs_of_answers)) return false;
    training_setup pairs = to_.setup;
    const bool adapts = pairs.trains.what == training::adapters;
    pairs.objective = training_objective::preference;
    pairs.reference = adapts ? reference_model::without_adapters : reference_model::separate;
    if (says_yes(config_.precomputed_reference)) pairs.reference = reference_model::precomputed;
    pairs.padding_free = false;  // which DPOTrainer passes over
    if (!validate(pairs, to_.plan)) return false;
    to_.setup = pairs;
    std::vector<remark> others;
    for (const remark& one : to_.remarks)
      if (!one.is_of_objective) others.push_back(one);
    to_.remarks = others;
    return true;
  }

  void check() {
    const training_setup& setup = to_.setup;
    const engine_class& by = *setup.framework.engine.is;
    if (says_yes(config_.weights_on_host) && !by.offloads_weights) {
      const bool is_accelerates = has_text(tool_, "accelerate");
      const std::string key = config_.engine != "deepspeed" ? "weights_on_host"
                              : is_accelerates              ? "offload_param_device"
                                                            : "offload_param";
      return refuse(key +
                    ": of weights in the host's memory the estimate knows FSDP's alone, not " +
                    by.name->text + "'s; without " + key + " it is taken");
    }
    if (to_.plan.accumulation > 1 && !setup.framework.engine.reduces_every_micro_batch &&
        !config_.reduces_every_micro_batch)
      assume("sync_each_batch",
             "sync_each_batch false, as Accelerate has it: each GPU adds up whole gradients until "
             "the last micro-batch");
    if (to_.plan.accumulation > 1 && setup.framework.engine.reduces_every_micro_batch &&
        by.joins_parameters && setup.parallelism.weights_on_host)
      to_.remarks.push_back({remark::kind::contradicts,
                             "sync_each_batch",
                             "is true; FSDP 1 with weights on the host then keeps the gradients of "
                             "the last micro-batch alone"});
    if (to_.parts == nullptr && setup.model.kind == model_kind::encoder &&
        setup.model.head == head_kind::none && setup.framework.layers().compares_texts) {
      to_.setup.encodings = 2;
      assume("encodings",
             "two texts a sample, which are compared: no file says that the encoder has a head");
    }
    const auto valid = give_up();
    if (valid) {
      if (takes_objective()) return;
      training_setup in_parts = setup;
      in_parts.objective = training_objective::supervised;
      if (has_text(tool_, "trl") && validate(in_parts, to_.plan))
        assume("objective",
               "a loss of all logits at once; TRL's trainers have parts of them, which gpuplan "
               "memory --from FILE --objective sft, dpo or grpo counts");
      return;
    }
    if (!config_.precision && by.has_own_step)
      return refuse(
          "no file states a mixed precision, as bf16 or fp16, or it is left to the "
          "trainer's arguments; give them too: of fp32 with " +
          std::string(by.name->text) + " there is no estimate");
    const bool is_model = to_.parts == nullptr && !catalog::runs(setup.framework, setup);
    refuse(failure_text(valid.why()).c_str() + (is_model ? "; " + who_runs(setup) : std::string()));
  }
};

}  // namespace detail

/// The setup and the batch that the files mean, after `merged`, which fills in what a tool takes
/// where none of them says it: one file is merged, too. `context.shape` counts where no file has
/// the model's shape. Where the library cannot estimate it, `why` says which field is in the way;
/// what no file says is taken as `assumed` lists it.
[[nodiscard]] inline configured_training configured(const read_config& read,
                                                    const training_context& context) {
  return detail::training_builder(read, context).build();
}

}  // namespace gpuplan::io

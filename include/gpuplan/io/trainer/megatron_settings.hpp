#pragma once

// Settings that Megatron-LM's flags and Megatron-Bridge's configuration share, in both directions.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/module_names.hpp>
#include <gpuplan/io/trainer/megatron_keys.hpp>
#include <gpuplan/io/trainer/members.hpp>
#include <gpuplan/io/trainer/pipeline_layout.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io::detail {

/// The format of Megatron's weights, in which gradients and moments may be, too.
[[nodiscard]] inline number_format half_of(const training_config& config) {
  if (!config.precision || *config.precision == training_precision::fp32)
    return number_format::fp32;
  return *config.precision == training_precision::fp16 ? number_format::fp16 : number_format::bf16;
}

/// Reads what both dialects have. `gpus`, where they are known, are in `to.config` already.
class megatron_reader {
 public:
  megatron_reader(settings_reader& from, read_config& to, megatron_dialect dialect)
      : from_(from), to_(to), dialect_(dialect), config_(to.config) {}

  void read() {
    config_.engine = "megatron";
    for (const auto& [key, member] : megatron_integers)
      if (const auto is = integer(key)) config_.*member = is;
    refuse_wrong_length(name(megatron_integers[0].key));
    for (const auto& [key, member] : megatron_numbers) config_.*member = from_.number(name(key));
    for (const auto& [key, member] : megatron_flags) config_.*member = from_.flag(name(key));
    if (is_flags())
      for (const auto& [key, member] : megatron_flags)
        if (!(config_.*member)) config_.*member = false;
    for (const auto& [key, member] : megatron_overlaps) config_.*member = from_.flag(name(key));
    read_sharding();
    read_recomputation();
    read_optimizer();
    read_split();
    read_capacity();
    read_dispatcher();
    read_context_exchange();
    read_graphs();
    for (const megatron_key& key : megatron_doubts) {
      const value* const is = from_.find(name(key), true);
      if (is == nullptr || (is->flag() != nullptr && !*is->flag()) ||
          (is->integer() != nullptr && *is->integer() == 0))
        continue;
      remark_on(
          remark::kind::doubtful, name(key), "changes memory or time; the estimate leaves it out");
    }
    for (const megatron_key& key : megatron_fusions) {
      const value* const is = from_.find(name(key), true);
      if (is == nullptr || (!is_flags() && (is->flag() == nullptr || *is->flag()))) continue;
      remark_on(remark::kind::doubtful,
                name(key),
                "is off, which changes memory or time; the estimate has it on");
    }
  }
  /// Refuses a length that is stated and none: what is taken where none is known would be another
  /// training than the file means.
  void refuse_wrong_length(const char* key) {
    const value* const is = from_.find(key);
    if (config_.sequence_length || is == nullptr || is->members() != nullptr) return;
    const std::string* const text = is->text();
    if (text != nullptr && text->find_first_of("$`") != std::string::npos) return;
    to_.why = std::string(key) + " is " + shown(*is) + "; a whole number from 1 to " +
              std::to_string(most_of_a_number) + " is taken";
  }
  /// Whether weights are gathered as products read them: to call when the precision is read.
  void read_gathered_weights() {
    const bool is_fp4 = is_true(config_.fp4_linears);
    const bool is_fp8 = config_.precision && *config_.precision == training_precision::fp8;
    const auto read = [&](const megatron_key& key, bool has_format, const char* format) {
      const auto is = from_.flag(name(key));
      if (has_format && is)
        config_.quantised_weights = is;
      else if (is_true(is))
        remark_on(remark::kind::doubtful,
                  name(key),
                  std::string("is taken with linear layers in ") + format + " alone");
    };
    read(megatron_fp8_weights, is_fp8, "fp8");
    read(megatron_fp4_weights, is_fp4, "fp4");
  }
  /// What gradients and the optimizer's numbers are in: to call when the precision is read.
  void read_formats() {
    const megatron_key keys[] = {
        megatron_first_moment, megatron_second_moment, megatron_masters, megatron_main_gradients};
    known<number_format> are[4];
    for (int at = 0; at < 4; ++at) are[at] = format(keys[at]);
    const known<number_format>& masters = are[2];
    const known<number_format>& gradients = are[3];
    const bool is_aware = is_true(from_.flag(name(megatron_aware)));
    // A recipe of the Bridge's is bf16 where nothing is said.
    const number_format half =
        config_.precision || is_flags() ? half_of(config_) : number_format::bf16;
    // Beside states on the host it says no more than that they are there.
    if (half == number_format::fp32 || (is_aware && is_true(config_.optimizer_on_host))) return;
    for (int at = 0; at < 4 && !is_aware; ++at)
      if (is_narrow(are[at]))  // where Megatron stops
        remark_on(remark::kind::contradicts,
                  name(keys[at]),
                  std::string("is ") + text(*are[at]) + "; fp32 is taken without " +
                      name(megatron_aware));
    if (!is_aware) return;
    const bool is_adam = !config_.optimizer || config_.optimizer->kind == optimizer_kind::adamw;
    if (!is_adam || (config_.zero_stage && *config_.zero_stage != 1))
      return remark_on(
          remark::kind::contradicts,
          name(megatron_aware),
          "is taken with adam and " + std::string(name(megatron_distributed)) + " alone");
    // The Bridge's gradients are as its mixed_precision has them.
    if (is_flags() && gradients && *gradients == half && !config_.reduced) config_.reduced = half;
    gpuplan::optimizer by = config_.optimizer ? *config_.optimizer : gpuplan::optimizer{};
    by.loop = optimizer_loop::fused;
    if (is_narrow(are[0]) && is_narrow(are[1])) by.states = half;
    for (int at = 0; at < 3; ++at) {
      const number_format estimated = at == 2 ? number_format::fp32 : by.states;
      if (is_narrow(are[at]) && *are[at] != estimated)
        remark_on(remark::kind::doubtful,
                  name(keys[at]),
                  std::string("is ") + text(*are[at]) + "; the estimate has " + text(estimated) +
                      (at == 2 ? "" : " for both moments"));
    }
    // Beside fp8 whose scales are found each time its masters are Megatron's own, and gradients are
    // copied for them.
    const bool are_copied = is_flags() && *config_.precision == training_precision::fp8 &&
                            !is_narrow(masters) && config_.scaling &&
                            *config_.scaling != scaling_kind::delayed;
    by.reads_narrow_gradients = !are_copied || by.states != number_format::fp32;
    config_.optimizer = by;
    if (are_copied && by.reads_narrow_gradients && config_.reduced && *config_.reduced == half)
      remark_on(remark::kind::doubtful,
                name(megatron_aware),
                "copies gradients in fp32 beside such fp8; the estimate has no copies");
    if (!are_copied && !is_narrow(masters) && half == number_format::bf16)
      remark_on(remark::kind::doubtful,
                name(megatron_aware),
                "has of masters the half that bf16 weights have not (store_param_remainders); the "
                "estimate has them whole, 2 bytes more for each");
  }
  /// What contradicts itself, and what follows from the rest: to call when all is read.
  void conclude() {
    const std::int64_t tensor = config_.tensor_parallel ? *config_.tensor_parallel : 1;
    const std::int64_t expert = config_.expert_parallel ? *config_.expert_parallel : 1;
    std::int64_t ranks = 1;  // of one replica
    for (const auto& degree :
         {config_.tensor_parallel, config_.pipeline_parallel, config_.context_parallel}) {
      if (!degree) continue;
      if (*degree > most_ranks || ranks > most_ranks) return;
      ranks *= *degree;
    }
    if (tensor == 1 && is_true(config_.sequence_parallel))
      remark_on(remark::kind::doubtful,
                "--sequence-parallel",
                "is passed over where tensor-model-parallel-size is 1");
    if (tensor > 1 && expert > 1 && config_.sequence_parallel && !*config_.sequence_parallel)
      remark_on(remark::kind::contradicts,
                "--expert-model-parallel-size",
                "with tensor parallelism Megatron-LM wants --sequence-parallel too");
    if (config_.shape) {
      const transformer& model = *config_.shape;
      divides(
          "--tensor-model-parallel-size", tensor, "num-attention-heads", model.num_attention_heads);
      if (model.moe.num_experts != 0)
        divides("--expert-model-parallel-size", expert, "num-experts", model.moe.num_experts);
    }
    check_split();
    check_context_exchange();
    read_expert_tensors(tensor, expert);
    if (config_.context_parallel && config_.sequence_length)
      divides("--context-parallel-size",
              *config_.context_parallel == 1 ? 1 : *config_.context_parallel * 2,
              "seq-length (each rank has two parts)",
              *config_.sequence_length);
    if (!config_.gpus) return;
    if (!divides("--tensor-, pipeline- and context-parallel sizes",
                 ranks,
                 "the number of GPUs",
                 *config_.gpus)) {
      to_.remarks.back().is_of_gpus = true;
      return;
    }
    // Megatron-LM's own arithmetic: these are no flags.
    config_.data_parallel = *config_.gpus / ranks;
    if (!config_.micro_batch || *config_.micro_batch > most_ranks || *config_.gpus > most_ranks)
      return;
    const std::int64_t samples = *config_.micro_batch * *config_.data_parallel;
    if (!config_.global_batch) return;
    if (divides("micro-batch-size * data-parallel size",
                samples,
                "--global-batch-size",
                *config_.global_batch))
      config_.accumulation = *config_.global_batch / samples;
    else
      to_.remarks.back().is_of_gpus = true;
  }

  void remark_on(remark::kind is, std::string_view key, std::string text) {
    from_.remark_on(is, key, std::move(text));
  }
  [[nodiscard]] static bool is_true(const known<bool>& is) { return is && *is; }

 private:
  static constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
  static constexpr std::int64_t most_of_a_number = std::int64_t{1} << 40;

  [[nodiscard]] bool is_flags() const { return dialect_ == megatron_dialect::flags; }
  [[nodiscard]] const char* name(const megatron_key& key) const { return key.in(dialect_); }

  // A number beyond 64 bits is a whole one, too.
  known<std::int64_t> integer(const megatron_key& key) {
    const value* const is = from_.find(name(key));
    const double* const number = is != nullptr ? is->number() : nullptr;
    if (number == nullptr || std::abs(*number) < 0x1p53) return from_.integer(name(key));
    remark_on(remark::kind::contradicts,
              name(key),
              "is " + shown(*is) + "; a whole number from 1 to " +
                  std::to_string(most_of_a_number) + " is taken");
    return {};
  }
  bool divides(const char* key, std::int64_t by, const char* whole, std::int64_t number) {
    if (number % by == 0) return true;
    remark_on(remark::kind::contradicts,
              key,
              "is " + std::to_string(by) + "; a divisor of " + whole + ", " +
                  std::to_string(number) + ", is taken");
    return false;
  }
  /// Megatron-LM's default is as many as have parts of other weights; the Bridge's recipes say 1.
  void read_expert_tensors(std::int64_t tensor, std::int64_t expert) {
    const auto said = from_.integer(name(megatron_expert_tensors));
    const bool has_experts = expert > 1 || (config_.shape && config_.shape->moe.num_experts != 0);
    const std::int64_t parts = said ? *said : is_flags() ? tensor : 1;
    if (!has_experts || parts <= 1) return;
    config_.expert_tensor_parallel = parts;
    if (config_.shape && config_.shape->moe.num_experts != 0 && parts <= most_ranks)
      divides("--expert-tensor-parallel-size",
              parts,
              "moe-ffn-hidden-size",
              config_.shape->moe.moe_intermediate_size);
    const std::int64_t stages = config_.pipeline_parallel ? *config_.pipeline_parallel : 1;
    for (const std::int64_t degree : {parts, expert, stages})
      if (degree < 1 || degree > most_ranks) return;
    if (config_.gpus && parts * expert <= most_ranks &&
        !divides("--expert-tensor-, expert-model- and pipeline-model-parallel sizes",
                 parts * expert * stages,
                 "the number of GPUs",
                 *config_.gpus))
      to_.remarks.back().is_of_gpus = true;
  }
  /// Megatron-LM's default, p2p, has no code for windows and sinks; a recipe of the Bridge's may
  /// say something else.
  void check_context_exchange() {
    const bool is_divided = config_.context_parallel && *config_.context_parallel > 1;
    if (!is_divided || !config_.shape) return;
    if (config_.shape->sliding_window == 0 && !config_.shape->attention_sinks) return;
    const bool is_ring =
        config_.context_exchange ? *config_.context_exchange == context_exchange::p2p : is_flags();
    if (is_ring)
      remark_on(remark::kind::contradicts,
                name(megatron_context_exchange),
                "is p2p, which takes neither windows nor sinks; a2a does");
  }
  /// The meaning of a word, or a remark that the estimate has none for it.
  template <class Meaning, std::size_t Size>
  known<Meaning> word(const megatron_key& key,
                      const std::pair<const char*, Meaning> (&words)[Size]) {
    const std::string is = from_.text(name(key));
    if (is.empty()) return {};
    for (const auto& [each, meaning] : words)
      if (is == each) return meaning;
    remark_on(remark::kind::doubtful,
              name(key),
              "is " + shown(value(is)) + "; the estimate has nothing for it");
    return {};
  }
  [[nodiscard]] static bool is_narrow(const known<number_format>& is) {
    return is && *is != number_format::fp32;
  }
  /// A format by its name, PyTorch's too, or the class that a whole configuration has.
  known<number_format> format(const megatron_key& key) {
    const value* is = from_.find(name(key), true);
    if (is == nullptr) return {};
    if (const value* const of_class = is->find("_target_")) is = of_class;
    std::string_view word = is->text() != nullptr ? std::string_view(*is->text()) : "";
    if (word.substr(0, 6) == "torch.") word.remove_prefix(6);
    for (const megatron_format& one : megatron_formats)
      if (word == one.word || word == one.dtype) return one.is;
    remark_on(remark::kind::doubtful,
              name(key),
              "is " + shown(*is) + "; the estimate knows fp32, bf16 and fp16");
    return {};
  }
  void read_sharding() {
    const auto distributed = from_.flag(name(megatron_distributed));
    const std::string strategy = from_.text(name(megatron_sharding));
    if (distributed || is_flags()) config_.zero_stage = is_true(distributed) ? 1 : 0;
    if (is_true(from_.flag(name(megatron_fsdp)))) {
      remark_on(remark::kind::doubtful,
                name(megatron_fsdp),
                "the estimate knows Megatron's own data parallelism alone");
      // "no_shard" is the default in Megatron-Core
      config_.zero_stage = strategy == "optim"                ? 1
                           : strategy == "optim_grads"        ? 2
                           : strategy == "optim_grads_params" ? 3
                                                              : 0;
    } else if (!strategy.empty() && strategy != "no_shard") {
      remark_on(remark::kind::missing,
                name(megatron_sharding),
                std::string("does nothing without ") + name(megatron_fsdp));
    }
    const auto instances = from_.integer(name(megatron_instances));
    if (instances && *instances > 1)
      remark_on(remark::kind::doubtful,
                name(megatron_instances),
                "shares the states among a part of the replicas; the estimate counts with all");
  }
  // Which layers are on which stage.
  void read_split() {
    pipeline_split split;
    split.embedding_layers = is_true(from_.flag(name(megatron_first))) ? 1 : 0;
    split.head_layers = is_true(from_.flag(name(megatron_last))) ? 1 : 0;
    if (const auto is = from_.integer(name(megatron_first_layers))) split.first_stage_layers = *is;
    if (const auto is = from_.integer(name(megatron_last_layers))) split.last_stage_layers = *is;
    if (const std::string text = pipeline_layout_text(from_.find(name(megatron_layout), true));
        !text.empty()) {
      const read_pipeline_layout read = pipeline_layout_of(text);
      if (read) {
        split.listed = read.chunks;
        listed_mtp_ = read.mtp_layers;
        if (read.mtp_is_apart)
          remark_on(remark::kind::doubtful,
                    name(megatron_layout),
                    "has m in a chunk before L; the estimate has it in the last one");
      } else {
        remark_on(remark::kind::doubtful, name(megatron_layout), read.why);
      }
    }
    if (!split.is_even()) config_.split = split;
  }
  // A list says how many chunks there are; and all of them have the model's layers.
  void check_split() {
    if (!config_.split) return;
    const listed_chunks& listed = config_.split->listed;
    const std::int64_t stages = config_.pipeline_parallel ? *config_.pipeline_parallel : 1;
    if (listed.count != 0) {
      if (config_.virtual_pipeline && is_flags())
        remark_on(remark::kind::contradicts,
                  name(megatron_layout),
                  std::string("stands beside ") + name(megatron_chunks));
      if (!divides(name(megatron_layout), stages, "the number of its chunks", listed.count)) return;
      if (!config_.virtual_pipeline && listed.count > stages)
        config_.virtual_pipeline = listed.count / stages;
      if (config_.shape && config_.shape->mtp_layers != listed_mtp_)
        remark_on(remark::kind::contradicts,
                  name(megatron_layout),
                  "has " + std::to_string(listed_mtp_) + " m; " +
                      std::to_string(config_.shape->mtp_layers) +
                      ", the layers of multi-token prediction, are taken");
    }
    if (!config_.shape) return;
    parallelism layout;
    layout.pipeline_parallel = stages;
    layout.virtual_pipeline = config_.virtual_pipeline ? *config_.virtual_pipeline : 1;
    layout.split = *config_.split;
    failure why = validate(layout).why();
    if (!gpuplan::detail::failed(why))
      why = gpuplan::detail::flaw_of_equal_stages(layout, config_.shape->layers());
    if (gpuplan::detail::failed(why))
      remark_on(remark::kind::contradicts,
                name(listed.count != 0                        ? megatron_layout
                     : config_.split->first_stage_layers != 0 ? megatron_first_layers
                     : config_.split->last_stage_layers != 0  ? megatron_last_layers
                     : config_.split->embedding_layers != 0   ? megatron_first
                                                              : megatron_last),
                failure_text(why).c_str());
  }
  void read_recomputation() {
    const std::string granularity = from_.text(name(megatron_granularity));
    const std::string method = from_.text(name(megatron_method));
    const auto layers = from_.integer(name(megatron_recomputed));
    read_offloading(granularity);
    const value* const modules = from_.find(name(megatron_modules), true);
    bool is_old = false;
    if (is_flags()) {
      config_.recompute = recompute_mode::none;
      is_old = is_true(from_.flag("--recompute-activations"));
    }
    if (granularity == "selective" || is_old) {
      config_.recompute = recompute_mode::selective;
    } else if (granularity == "full") {
      config_.recompute = recompute_mode::full;
      if (method == "uniform")
        config_.recompute_span = layers ? *layers : 1;
      else if (method == "block")
        config_.recompute_layers = layers;
      else if (is_flags())
        remark_on(remark::kind::missing,
                  name(megatron_method),
                  "is to be uniform or block where all of a layer is computed again");
    } else if (!granularity.empty() && granularity != "None" && granularity != "none") {
      remark_on(remark::kind::contradicts,
                name(megatron_granularity),
                "is " + shown(value(granularity)) + "; full or selective is taken");
    } else if (!granularity.empty()) {
      config_.recompute = recompute_mode::none;
    }
    if (!method.empty() && granularity == "selective")
      remark_on(
          remark::kind::contradicts, name(megatron_method), "is for full recomputation alone");
    if (modules == nullptr || modules->is_nothing()) return;
    recomputed_modules again{.core_attention = false};
    value::list said;
    if (modules->items() != nullptr) {
      said = *modules->items();
    } else {
      said.push_back(*modules);
    }
    for (const value& part : said)
      if (part.text() == nullptr || !add_module(*part.text(), again))
        return remark_on(remark::kind::doubtful,
                         name(megatron_modules),
                         "has " + shown(part) + "; " + list_of_modules() + " is taken");
    if (!config_.recompute || *config_.recompute != recompute_mode::selective) return;
    if (said.empty())
      config_.recompute = recompute_mode::none;  // an empty list
    else
      config_.modules = again;
  }
  // A recipe of the Bridge's says by a flag of its own that the number counts.
  void read_offloading(const std::string& granularity) {
    const char* const key = name(megatron_offloaded);
    const auto layers = from_.integer(key, 0);
    const bool is_on = is_flags() || is_true(from_.flag("model.cpu_offloading"));
    if (!layers || *layers == 0) return;
    if (!is_on)
      return remark_on(remark::kind::missing, key, "does nothing without model.cpu_offloading");
    config_.offloaded_layers = layers;
    const std::int64_t stages = config_.pipeline_parallel ? *config_.pipeline_parallel : 1;
    if (stages > 1)
      remark_on(remark::kind::contradicts,
                key,
                "is " + std::to_string(*layers) + " beside pipeline-model-parallel-size " +
                    std::to_string(stages) + "; 1 is taken with it");
    if (!granularity.empty() && granularity != "none" && granularity != "None")
      remark_on(remark::kind::contradicts,
                key,
                "is " + std::to_string(*layers) + " beside recompute-granularity " +
                    printable(granularity) + "; none is taken with it");
  }
  // Megatron-LM fuses where it is told to, by code of its own or by Transformer Engine's, which the
  // estimate has.
  void read_loss() {
    config_.fuses_loss = from_.flag(name(megatron_fused_loss));
    if (!config_.fuses_loss && is_flags()) config_.fuses_loss = false;
    const std::string by = from_.text(name(megatron_code_of_loss));
    if (is_true(config_.fuses_loss) && by != "te" && (is_flags() || !by.empty()))
      remark_on(remark::kind::doubtful,
                name(megatron_code_of_loss),
                by.empty() ? "is native where nothing is said; the estimate has te"
                           : "is " + printable(by) + "; the estimate has te");
  }
  // Rows of experts are the factor's where inputs are padded to it; else those that choose them, up
  // to it.
  void read_capacity() {
    const auto factor = from_.number(name(megatron_expert_capacity));
    const auto pads = from_.flag(name(megatron_padded_experts));
    if (factor && is_true(pads)) {
      config_.expert_capacity = factor;
    } else if (factor || is_true(pads)) {
      remark_on(remark::kind::doubtful,
                name(factor ? megatron_expert_capacity : megatron_padded_experts),
                std::string("changes memory or time without ") +
                    name(factor ? megatron_padded_experts : megatron_expert_capacity) +
                    "; the estimate has an equal share for each expert");
    }
  }
  // Flex takes DeepEP where nothing else is said; older versions asked for that by a flag.
  void read_dispatcher() {
    const std::string type = from_.text(name(megatron_dispatcher));
    const std::string backend = from_.text(name(megatron_flex_backend));
    const bool asks_for_deepep = is_true(from_.flag(name(megatron_deepep)));
    const auto doubt = [&](const megatron_key& key, const std::string& is) {
      remark_on(remark::kind::doubtful,
                name(key),
                "is " + printable(is) + "; alltoall, and deepep or hybridep of flex, are taken");
    };
    if (type == "flex" && (backend.empty() || backend == "deepep" || asks_for_deepep)) {
      config_.dispatcher = token_dispatcher::deepep;
    } else if (type == "flex" && backend == "hybridep") {
      config_.dispatcher = token_dispatcher::hybridep;
    } else if (type == "flex") {
      doubt(megatron_flex_backend, backend);
    } else if (!type.empty() && type != "alltoall") {
      doubt(megatron_dispatcher, type);
    }
    const bool has_experts = from_.find("--num-experts", true) != nullptr;
    if (is_flags() && has_experts && type.empty() && !asks_for_deepep)
      remark_on(remark::kind::doubtful,
                name(megatron_dispatcher),
                "is not there, which means allgather; the estimate takes alltoall");
    const auto grouped = from_.flag(name(megatron_grouped));
    if (is_flags() ? has_experts && !is_true(grouped) : grouped && !*grouped)
      remark_on(remark::kind::doubtful,
                name(megatron_grouped),
                std::string(grouped ? "is false" : "is not there") +
                    ", which means a product for each expert; the estimate takes one for all");
    if (type == "flex") return;
    if (asks_for_deepep)
      remark_on(remark::kind::contradicts, name(megatron_deepep), "does nothing without flex");
  }
  // Of graphs the estimate has the one of all passes; older versions asked for that by a scope.
  void read_graphs() {
    const std::string is = from_.text(name(megatron_graphs));
    const value* scope =
        from_.find(is_flags() ? "--cuda-graph-scope" : "model.cuda_graph_scope", true);
    if (scope != nullptr && scope->items() != nullptr && scope->items()->size() == 1)
      scope = &scope->items()->front();
    const bool is_whole =
        scope != nullptr && scope->text() != nullptr && *scope->text() == "full_iteration";
    if (is == "full_iteration" || (is == "local" && is_whole))
      config_.cuda_graphs = true;
    else if (!is.empty() && is != "none")
      remark_on(remark::kind::doubtful,
                name(megatron_graphs),
                "is " + shown(value(is)) + "; full_iteration or none is taken");
  }
  /// A word, or one for each layer; the estimate has the same for all.
  void read_context_exchange() {
    const value* const is = from_.find(name(megatron_context_exchange), true);
    if (is == nullptr) return;
    const std::string* type = is->text();
    if (const auto* const of_layers = is->items(); of_layers != nullptr && !of_layers->empty()) {
      type = of_layers->front().text();
      for (const value& each : *of_layers)
        if (type != nullptr && (each.text() == nullptr || *each.text() != *type)) type = nullptr;
    }
    for (const auto& [word, meaning] : megatron_context_exchanges)
      if (type != nullptr && *type == word) config_.context_exchange = meaning;
    if (!config_.context_exchange)
      remark_on(remark::kind::doubtful,
                name(megatron_context_exchange),
                "is " + shown(*is) + "; p2p or a2a, the same for all layers, is taken");
  }
  void read_optimizer() {
    if (const auto kind = word(megatron_optimizer, megatron_optimizers))
      config_.optimizer = gpuplan::optimizer{.kind = *kind, .loop = optimizer_loop::fused};
    else if (is_flags() && !from_.has(name(megatron_optimizer)))
      config_.optimizer = gpuplan::optimizer{.loop = optimizer_loop::fused};  // adam
    config_.schedule = word(megatron_schedule, megatron_schedules);
    config_.decay_steps = from_.integer(name(megatron_wsd_steps));
    const std::string falls = from_.text(name(megatron_wsd_style));
    const bool is_wsd = config_.schedule && *config_.schedule == rate_schedule::wsd;
    if (is_wsd && falls != "linear")
      remark_on(remark::kind::doubtful,
                name(megatron_wsd_style),
                "is " + (falls.empty() ? "not stated" : printable(falls)) +
                    ", by which the rate falls; gpuplan knows linear");
    config_.attention = word(megatron_attention, megatron_kernels);
    read_loss();
    const auto hidden = from_.number(name(megatron_hidden_dropout));
    const auto attention = from_.number(name(megatron_attention_dropout));
    // 0.1 each, where Megatron-LM is told nothing
    if (hidden || attention || is_flags()) {
      const double otherwise = is_flags() ? 0.1 : 0;
      const double first = hidden ? *hidden : otherwise;
      const double second = attention ? *attention : otherwise;
      config_.dropout = first > second ? first : second;
      if (first != second)
        remark_on(remark::kind::doubtful,
                  name(megatron_hidden_dropout),
                  "differs from attention-dropout; the estimate takes the larger for both");
    }
  }

  settings_reader& from_;
  read_config& to_;
  megatron_dialect dialect_;
  training_config& config_;
  std::int64_t listed_mtp_ = 0;  // layers of multi-token prediction in the layout
};

/// A plan's settings in the order in which they are written; the batch as a global one.
struct megatron_plan {
  std::vector<std::pair<megatron_key, value>> settings{};
  std::string why{};
};

template <class Meaning, std::size_t Size>
[[nodiscard]] const char* word_of(const Meaning& is,
                                  const std::pair<const char*, Meaning> (&words)[Size]) {
  for (const auto& [word, meaning] : words)
    if (meaning == is) return word;
  return nullptr;
}

/// Whether gradients are in another format than Megatron has them where nothing is said.
[[nodiscard]] inline bool has_other_sums(const training_config& config) {
  const bool is_fp16 = half_of(config) == number_format::fp16;
  return config.reduced && (*config.reduced == number_format::fp32) == is_fp16;
}

/// Why Megatron would train something else than a plan, or nothing.
[[nodiscard]] inline std::string flaw_for_megatron(const training_config& config) {
  if (!config.engine.empty() && config.engine != "megatron")
    return "engine is " + shown(value(config.engine)) + "; \"megatron\" is taken";
  if (config.trains && *config.trains != training::full)
    return "trains is not full; Megatron trains all parameters";
  if (config.adapters) return "adapters are known; Megatron trains all parameters";
  if (config.zero_stage && (*config.zero_stage < 0 || *config.zero_stage > 1))
    return "zero_stage is " + std::to_string(*config.zero_stage) +
           "; 0 or 1, the distributed optimizer, is taken";
  if (config.weights_on_host && *config.weights_on_host)
    return "weights_on_host is true; false is taken";
  if (config.schedule_of_pipeline && *config.schedule_of_pipeline != pipeline_schedule::one_f_one_b)
    return "schedule_of_pipeline is another than 1F1B, which alone is taken";
  if (config.precision && (*config.precision == training_precision::tf32 ||
                           *config.precision == training_precision::pure_bf16))
    return "precision is tf32 or pure_bf16; fp32, fp16, bf16 or fp8 is taken";
  const auto is_true = [](const known<bool>& is) { return is && *is; };
  const bool is_fp8 = config.precision && *config.precision == training_precision::fp8;
  const bool is_fp4 = is_true(config.fp4_linears);
  if (is_fp4 && !(config.precision && *config.precision == training_precision::bf16))
    return "fp4_linears is true; precision bf16 is taken with it";
  if (is_true(config.quantised_weights) && !is_fp4 && !is_fp8)
    return "quantised_weights is true; linear layers in fp8 or fp4 are taken with it";
  if (is_true(config.quantised_weights) && is_fp8 && config.zero_stage && *config.zero_stage == 0)
    return "quantised_weights is true; zero_stage 1, the distributed optimizer, is taken with it";
  const number_format half = half_of(config);
  if (config.optimizer) {
    const gpuplan::optimizer& is = *config.optimizer;
    if (word_of(is.kind, megatron_optimizers) == nullptr)
      return "optimizer is none of AdamW, SGD with momentum, Muon and Lion";
    const bool is_aware = is.reads_narrow_gradients;
    if (is.library != optimizer_library::torch || is.pages_states ||
        (is.states != number_format::fp32 && (!is_aware || is.states != half)))
      return "optimizer has states of another format or library; Megatron's are fp32, and with "
             "reads_narrow_gradients in the format of weights";
    if (is_aware && (is.kind != optimizer_kind::adamw || half == number_format::fp32 ||
                     !config.zero_stage || *config.zero_stage != 1))
      return "optimizer.reads_narrow_gradients is true; AdamW, bf16, fp16 or fp8, and zero_stage "
             "1 are taken with it";
  }
  if (config.reduced && *config.reduced != number_format::fp32 && *config.reduced != half)
    return "reduced is " + std::string(text(*config.reduced)) + "; fp32" +
           (half == number_format::fp32 ? "" : " or " + std::string(text(half))) + " is taken";
  for (const auto& [key, member] : megatron_numbers)
    if (config.*member && !(std::isfinite(*(config.*member)) && *(config.*member) >= 0))
      return std::string(key.flag + 2) + " is no finite number of at least 0";
  if (config.dropout && !(*config.dropout >= 0 && *config.dropout <= 1))
    return "dropout is no number from 0 to 1";
  for (const auto& [key, member] : megatron_integers)
    if (config.*member && (*(config.*member) < 1 || *(config.*member) > std::int64_t{1} << 40))
      return std::string(key.flag + 2) + " is " + std::to_string(*(config.*member)) +
             "; at least 1 is taken";
  if (is_true(config.shares_kept_inputs)) {
    if (!config.tensor_parallel || *config.tensor_parallel < 2)
      return "shares_kept_inputs is true without a tensor_parallel of at least 2, which is taken";
    if (!config.recompute || *config.recompute != recompute_mode::full)
      return "shares_kept_inputs is true; recompute full is taken with it";
    if (is_true(config.sequence_parallel))
      return "shares_kept_inputs and sequence_parallel are true; one of them is taken";
  }
  const std::int64_t stages = config.pipeline_parallel ? *config.pipeline_parallel : 1;
  if (config.offloaded_layers) {
    const std::string is = "offloaded_layers is " + std::to_string(*config.offloaded_layers) + "; ";
    const std::int64_t layers = config.shape ? config.shape->num_hidden_layers : 0;
    if (*config.offloaded_layers < 1) return is + "at least 1 is taken";
    if (config.shape && *config.offloaded_layers >= layers)
      return is + "fewer than all layers, " + std::to_string(layers) + ", are taken";
    if (stages > 1) return is + "pipeline_parallel 1 is taken with it";
    if (config.recompute && *config.recompute != recompute_mode::none)
      return is + "recompute none is taken with it";
  }
  if (config.virtual_pipeline && *config.virtual_pipeline > 1 && stages < 2)
    return "virtual_pipeline is " + std::to_string(*config.virtual_pipeline) +
           "; a pipeline_parallel of at least 2 is taken with it";
  if (config.split) {
    const pipeline_split& split = *config.split;
    if (split.first_have_more || split.head_cost != 0 || split.embedding_layers > 1 ||
        split.head_layers > 1)
      return "split deals layers by another rule than Megatron's: equal stages, with the embedding "
             "or the head as a layer, stated first and last ones, or a list, are taken";
    parallelism layout;
    layout.pipeline_parallel = stages;
    layout.virtual_pipeline = config.virtual_pipeline ? *config.virtual_pipeline : 1;
    layout.split = split;
    if (const auto valid = validate(layout); !valid)
      return "split does not fit: " + std::string(failure_text(valid.why()).c_str());
  }
  if (config.learning_rate && config.least_learning_rate &&
      *config.least_learning_rate > *config.learning_rate)
    return "least_learning_rate is more than learning_rate; at most as much is taken";
  if (config.samples && !config.steps && config.warm_up_steps && *config.warm_up_steps > 0)
    return "warm_up_steps is known with samples; warm_up_share, or steps, is taken";
  return "";
}

// WSD has no end where the steps are not known.
[[nodiscard]] inline bool says_schedule_to_megatron(const training_config& config) {
  if (!config.schedule) return false;
  return *config.schedule != rate_schedule::wsd ||
         (config.steps && config.decay_steps && *config.decay_steps >= 1 &&
          *config.decay_steps <= *config.steps);
}

/// The settings, without the model's sizes and the precision, which the dialects say each in their
/// own way.
[[nodiscard]] inline megatron_plan megatron_settings_of(const training_config& given) {
  megatron_plan made;
  training_config config = given;
  made.why = flaw_for_megatron(config);
  if (!made.why.empty()) return made;
  if (config.micro_batch && config.data_parallel && config.accumulation) {
    constexpr std::int64_t most = std::int64_t{1} << 20;
    const std::int64_t parts[] = {*config.micro_batch, *config.data_parallel, *config.accumulation};
    for (const std::int64_t part : parts)
      if (part < 1 || part > most) {
        made.why = "micro_batch, data_parallel or accumulation is " + std::to_string(part) +
                   "; from 1 to " + std::to_string(most) + " is taken";
        return made;
      }
    const std::int64_t global = parts[0] * parts[1] * parts[2];
    if (config.global_batch && *config.global_batch != global)
      made.why = "global_batch is " + std::to_string(*config.global_batch) +
                 "; micro_batch * data_parallel * accumulation, " + std::to_string(global) +
                 ", is taken";
    config.global_batch = global;
  }
  const auto put = [&made](const megatron_key& key, value is) {
    made.settings.emplace_back(key, std::move(is));
  };
  for (const auto& [key, member] : megatron_integers)
    if (config.*member && !(member == &training_config::samples && config.steps))
      put(key, *(config.*member));
  for (const auto& [key, member] : megatron_flags)
    if (config.*member) put(key, *(config.*member));
  if (config.zero_stage) put(megatron_distributed, *config.zero_stage == 1);
  if (config.split && config.split->listed.count != 0) {
    put(megatron_layout,
        text_of(config.split->listed, config.shape ? config.shape->mtp_layers : 0));
  } else if (config.split && config.split->states_ends()) {
    if (config.split->first_stage_layers != 0)
      put(megatron_first_layers, config.split->first_stage_layers);
    if (config.split->last_stage_layers != 0)
      put(megatron_last_layers, config.split->last_stage_layers);
  } else if (config.split) {
    put(megatron_first, config.split->embedding_layers != 0);
    put(megatron_last, config.split->head_layers != 0);
  }
  if (config.recompute) {
    const bool is_full = *config.recompute == recompute_mode::full;
    const bool is_block = config.recompute_layers && *config.recompute_layers > 0;
    if (*config.recompute == recompute_mode::none)
      put(megatron_granularity, value());
    else
      put(megatron_granularity, is_full ? "full" : "selective");
    if (is_full) {
      const std::int64_t span = config.recompute_span ? *config.recompute_span : 1;
      put(megatron_method, is_block ? "block" : "uniform");
      put(megatron_recomputed, is_block ? *config.recompute_layers : span);
      if (is_block && span != 1) made.why = "recompute_span and recompute_layers are both known";
    }
    if (*config.recompute == recompute_mode::selective && config.modules) {
      value::list names;
      for (const module_name& one : module_names)
        if ((*config.modules).*one.is) names.emplace_back(one.name);
      put(megatron_modules, names);
    }
  }
  for (const auto& [key, member] : megatron_overlaps)
    if (config.*member) put(key, *(config.*member));
  if (config.optimizer)
    put(megatron_optimizer, word_of(config.optimizer->kind, megatron_optimizers));
  if (config.optimizer && config.optimizer->reads_narrow_gradients) put(megatron_aware, true);
  if (config.optimizer && config.optimizer->states != number_format::fp32)
    for (const megatron_key& key : {megatron_first_moment, megatron_second_moment})
      put(key, text(config.optimizer->states));
  for (const auto& [key, member] : megatron_numbers)
    if (config.*member && !(member == &training_config::warm_up_share && config.warm_up_steps))
      put(key,
          member == &training_config::warm_up_steps
              ? value(static_cast<std::int64_t>(std::round(std::min(*config.warm_up_steps, 1e12))))
              : value(*(config.*member)));
  if (says_schedule_to_megatron(config))
    put(megatron_schedule, word_of(*config.schedule, megatron_schedules));
  if (says_schedule_to_megatron(config) && *config.schedule == rate_schedule::wsd) {
    put(megatron_wsd_style, "linear");
    put(megatron_wsd_steps, *config.decay_steps);
  }
  if (config.attention)
    if (const char* const word = word_of(*config.attention, megatron_kernels))
      put(megatron_attention, word);
  const bool has_experts = config.shape ? config.shape->moe.num_experts != 0
                                        : config.expert_parallel && *config.expert_parallel > 1;
  // Its own are as many as have parts of other weights.
  if (has_experts)
    put(megatron_expert_tensors,
        config.expert_tensor_parallel ? *config.expert_tensor_parallel : std::int64_t{1});
  if (config.expert_capacity) {
    put(megatron_expert_capacity, *config.expert_capacity);
    put(megatron_padded_experts, true);
  }
  if (config.quantised_weights && *config.quantised_weights)
    put(config.fp4_linears && *config.fp4_linears ? megatron_fp4_weights : megatron_fp8_weights,
        true);
  if (config.offloaded_layers) put(megatron_offloaded, *config.offloaded_layers);
  // Its own are allgather, and a product for each expert.
  if (has_experts) put(megatron_grouped, true);
  if (!config.dispatcher || *config.dispatcher == token_dispatcher::all_to_all) {
    if (has_experts) put(megatron_dispatcher, "alltoall");
  } else {
    put(megatron_dispatcher, "flex");
    put(megatron_flex_backend,
        *config.dispatcher == token_dispatcher::deepep ? "deepep" : "hybridep");
  }
  if (config.context_exchange)
    if (const char* const word = word_of(*config.context_exchange, megatron_context_exchanges))
      put(megatron_context_exchange, word);
  if (config.fuses_loss) put(megatron_fused_loss, *config.fuses_loss);
  if (config.fuses_loss && *config.fuses_loss) put(megatron_code_of_loss, "te");
  // Its own is a tenth.
  for (const megatron_key& key : {megatron_hidden_dropout, megatron_attention_dropout})
    put(key, config.dropout ? *config.dropout : 0.0);
  return made;
}

/// What of a plan those settings do not say.
[[nodiscard]] inline std::vector<std::string> not_said_to_megatron(const training_config& config,
                                                                   std::vector<std::string> said) {
  for (const char* const name : {"sequence_length",
                                 "trains",
                                 "micro_batch",
                                 "global_batch",
                                 "tensor_parallel",
                                 "pipeline_parallel",
                                 "virtual_pipeline",
                                 "schedule_of_pipeline",
                                 "split",
                                 "context_parallel",
                                 "expert_parallel",
                                 "expert_tensor_parallel",
                                 "expert_capacity",
                                 "dispatcher",
                                 "context_exchange",
                                 "sequence_parallel",
                                 "zero_stage",
                                 "optimizer_on_host",
                                 "weights_on_host",
                                 "engine",
                                 "precision",
                                 "scaling",
                                 "fp4_linears",
                                 "quantised_weights",
                                 "optimizer",
                                 "recompute",
                                 "recompute_span",
                                 "recompute_layers",
                                 "offloaded_layers",
                                 "modules",
                                 "shares_kept_inputs",
                                 "fuses_loss",
                                 "overlaps_reduction",
                                 "overlaps_gathers",
                                 "dropout",
                                 "clip_norm",
                                 "learning_rate",
                                 "least_learning_rate",
                                 "weight_decay",
                                 "steps"})
    said.emplace_back(name);
  const auto says_if = [&said](bool is, const char* name) {
    if (is) said.emplace_back(name);
  };
  says_if(!has_other_sums(config), "reduced");
  says_if(!config.steps, "samples");
  says_if(says_schedule_to_megatron(config), "schedule");
  says_if(says_schedule_to_megatron(config) && *config.schedule == rate_schedule::wsd,
          "decay_steps");
  says_if(!config.warm_up_steps, "warm_up_share");
  says_if(config.warm_up_steps && std::trunc(*config.warm_up_steps) == *config.warm_up_steps,
          "warm_up_steps");
  says_if(config.attention && word_of(*config.attention, megatron_kernels) != nullptr, "attention");
  says_if(config.packing && *config.packing, "packing");  // pretraining packs its documents
  says_if(config.micro_batch && config.data_parallel, "accumulation");
  return said_but(config, said);
}

}  // namespace gpuplan::io::detail

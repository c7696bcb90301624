#pragma once

// Megatron-Bridge's configuration, in both directions: overrides of a recipe as words
// (model.tensor_model_parallel_size=4), or the same tree in YAML.

#include <gpuplan/io/trainer/megatron_lm_flags.hpp>
#include <gpuplan/io/trainer/megatron_settings.hpp>
#include <gpuplan/io/trainer/megatron_shape.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>
#include <gpuplan/known.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

// Where a field of Megatron-Core has another name than Megatron-LM's flag, or the opposite sense.
struct bridge_size {
  const char* field;
  const char* flag;
  bool is_opposite = false;
};
inline constexpr bridge_size bridge_sizes[] = {
    {"gated_linear_unit", "--swiglu"},
    {"num_moe_experts", "--num-experts"},
    {"add_bias_linear", "--disable-bias-linear", true},
    {"share_embeddings_and_output_weights", "--untie-embeddings-and-output-weights", true},
};

inline constexpr const char* also_distributed = "optimizer.use_distributed_optimizer";

[[nodiscard]] inline std::string flag_of_field(std::string_view field) {
  std::string flag = "--" + std::string(field);
  for (char& c : flag)
    if (c == '_') c = '-';
  return flag;
}

/// What stands behind `=`, in the words of Hydra's overrides: `null`, `true`, a number, a text in
/// quotes or without, and lists of these, `[moe,layernorm]`, of lists too. What is no whole list is
/// a text.
class override_value {
 public:
  explicit override_value(std::string_view text) : text_(text) {}

  [[nodiscard]] value read() {
    value is = next(0);
    return !bad_ && at_ == text_.size() ? is : scalar(text_);
  }

 private:
  static constexpr int most_deep = 8;

  [[nodiscard]] static value scalar(std::string_view text) {
    const bool is_quoted = text.size() > 1 && (text.front() == '\'' || text.front() == '"') &&
                           text.back() == text.front();
    if (is_quoted) return text.substr(1, text.size() - 2);
    if (text == "null" || text == "None" || text == "~") return {};
    if (is_one_of(text, {"true", "True"})) return true;
    if (is_one_of(text, {"false", "False"})) return false;
    return value_of_word(text);
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  // Behind a quote up to the next such, else up to what ends an entry of a list.
  [[nodiscard]] value entry() {
    const std::size_t from = at_;
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) {
      const std::size_t end = text_.find(text_[at_], at_ + 1);
      bad_ = bad_ || end == std::string_view::npos;
      at_ = bad_ ? text_.size() : end + 1;
    } else {
      at_ = std::min(text_.find_first_of("[],", at_), text_.size());
    }
    std::size_t end = at_;
    while (end > from && text_[end - 1] == ' ') --end;
    bad_ = bad_ || end == from;
    return scalar(text_.substr(from, end - from));
  }
  [[nodiscard]] value next(int deep) {
    if (at_ >= text_.size() || text_[at_] != '[') return deep == 0 ? whole() : entry();
    value::list made;
    ++at_;
    skip_spaces();
    bool is_first = true;
    while (!bad_ && at_ < text_.size() && text_[at_] != ']') {
      if (!is_first) {
        bad_ = text_[at_] != ',';
        ++at_;
        skip_spaces();
      }
      bad_ = bad_ || deep == most_deep;
      if (!bad_) made.push_back(next(deep + 1));
      skip_spaces();
      is_first = false;
    }
    bad_ = bad_ || at_ >= text_.size();
    ++at_;
    return made;
  }
  [[nodiscard]] value whole() {
    at_ = text_.size();
    return scalar(text_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool bad_ = false;
};

/// `a.b=c` as members of members; words without = are named.
[[nodiscard]] inline value overrides_of_words(const std::vector<std::string>& words,
                                              read_config& to) {
  value made = value::object();
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      to.not_understood.push_back(printable(word.substr(0, 80)));
      continue;
    }
    // +key=value adds a key, ++key=value adds or replaces it
    std::string_view path = std::string_view(word).substr(0, equals);
    while (!path.empty() && path.front() == '+') path.remove_prefix(1);
    value* at = &made;
    int depth = 0;
    for (std::size_t end = path.find('.'); end != std::string_view::npos && depth < 16;
         end = path.find('.'), ++depth) {
      at = &(*at)[path.substr(0, end)];
      path.remove_prefix(end + 1);
    }
    (*at)[path] = override_value(std::string_view(word).substr(equals + 1)).read();
  }
  return made;
}

class megatron_bridge_reader {
 public:
  megatron_bridge_reader(const value& settings, read_config& to)
      : settings_(settings),
        from_(settings, to),
        to_(to),
        core_(from_, to, megatron_dialect::bridge) {}

  void read() {
    training_config& config = to_.config;
    core_.read();
    if ((config.warm_up_share || config.samples) && config.warm_up_steps &&
        *config.warm_up_steps == 0)
      config.warm_up_steps = known<double>();  // which takes away the recipe's
    // Where one of the two is true, both are.
    const auto shares = from_.flag(also_distributed);
    if (shares && *shares && (!config.zero_stage || *config.zero_stage == 0)) config.zero_stage = 1;
    // null is what the recipe may have set otherwise
    const value* const model = settings_.find("model");
    const value* const granularity =
        model != nullptr ? model->find("recompute_granularity") : nullptr;
    if (granularity != nullptr && granularity->is_nothing())
      config.recompute = recompute_mode::none;
    read_precision();
    read_lengths();
    read_adapters();
    if (model != nullptr) read_sizes(*model);
    core_.conclude();
    pass_over();
    from_.name_the_others();
  }

 private:
  // A recipe's name, or its fields.
  void read_precision() {
    const value* const said = settings_.find("mixed_precision");
    if (said != nullptr && said->members() != nullptr)
      read_fields_of_precision();
    else
      read_recipe_of_precision();
    // The recipe of precision has the last word.
    const auto in_fp32 = from_.flag("ddp.grad_reduce_in_fp32");
    const bool is_fp16 = half_of(to_.config) == number_format::fp16;
    const bool sums_in_fp32 =
        to_.config.reduced ? *to_.config.reduced == number_format::fp32 : !is_fp16;
    if (in_fp32 && *in_fp32 != sums_in_fp32)
      core_.remark_on(remark::kind::contradicts,
                      "ddp.grad_reduce_in_fp32",
                      std::string("is ") + (*in_fp32 ? "true" : "false") +
                          ", which mixed_precision overrules; its own grad_reduce_in_fp32, " +
                          (*in_fp32 ? "false" : "true") + ", is taken");
    if (const std::string fp4 = from_.text("model.fp4"); !fp4.empty() && !to_.config.fp4_linears)
      core_.remark_on(remark::kind::doubtful,
                      "model.fp4",
                      "is " + shown(value(fp4)) +
                          "; the estimate takes mixed_precision bf16_with_nvfp4_mixed alone");
    core_.read_gathered_weights();
    core_.read_formats();
  }
  void read_recipe_of_precision() {
    std::string is = from_.text("mixed_precision");
    for (char& c : is)
      if (c == '-') c = '_';
    const auto has = [&is](const char* part) { return is.find(part) != std::string::npos; };
    if (has("nvfp4")) {
      to_.config.precision = training_precision::bf16;
      to_.config.fp4_linears = true;
    } else if (has("fp8")) {
      to_.config.precision = training_precision::fp8;
      for (const megatron_scaling& one : megatron_scalings)
        if (has(one.mixed_precision)) to_.config.scaling = one.is;
    } else if (is == "bf16_mixed")
      to_.config.precision = training_precision::bf16;
    else if (is == "fp16_mixed")
      to_.config.precision = training_precision::fp16;
    else if (!is.empty())
      core_.remark_on(remark::kind::doubtful,
                      "mixed_precision",
                      "is " + shown(value(is)) + "; a recipe such as bf16_mixed is taken");
  }
  void read_fields_of_precision() {
    training_config& config = to_.config;
    const auto is_true = [this](const char* field) {
      const auto is = from_.flag(std::string("mixed_precision.") + field);
      return is && *is;
    };
    const std::string fp8 = from_.text("mixed_precision.fp8");
    const std::string scaling = from_.text("mixed_precision.fp8_recipe");
    const bool is_fp4 = !from_.text("mixed_precision.fp4").empty();
    const bool is_fp16 = is_true("fp16");
    const bool is_fp32 = is_true("fp32");
    if (is_true("bf16") || is_fp4)
      config.precision = training_precision::bf16;
    else if (is_fp16)
      config.precision = training_precision::fp16;
    else if (is_fp32)
      config.precision = training_precision::fp32;
    if (is_fp4) config.fp4_linears = true;
    if (!fp8.empty()) config.precision = training_precision::fp8;
    for (const megatron_scaling& one : megatron_scalings)
      if (!fp8.empty() && scaling == one.flag) config.scaling = one.is;
    if (!fp8.empty() && !scaling.empty() && !config.scaling)
      core_.remark_on(
          remark::kind::doubtful,
          "mixed_precision.fp8_recipe",
          "is " + shown(value(scaling)) + "; delayed, tensorwise, blockwise or mxfp8 is taken");
    const bool gathers = is_true("fp8_param_gather") || is_true("fp8_param");
    if (!fp8.empty() && gathers) config.quantised_weights = true;
    // Its default is true.
    if (const auto in_fp32 = from_.flag("mixed_precision.grad_reduce_in_fp32");
        in_fp32 && !*in_fp32)
      config.reduced = is_fp16 ? number_format::fp16 : number_format::bf16;
    else if (is_fp16)
      config.reduced = number_format::fp32;
    from_.pass_over_words("mixed_precision.",
                          "_target_ params_dtype pipeline_dtype autocast_dtype autocast_enabled "
                          "fp8_margin fp8_amax_history_len fp8_amax_compute_algo fp4_recipe "
                          "loss_scale initial_loss_scale min_loss_scale loss_scale_window "
                          "hysteresis num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 "
                          "fp8_wgrad reuse_grad_buf_for_mxfp8_param_ag");
    for (const char* const field :
         {"first_last_layers_bf16", "fp8_dot_product_attention", "fp8_multi_head_attention"})
      if (is_true(field))
        core_.remark_on(remark::kind::doubtful,
                        std::string("mixed_precision.") + field,
                        "is true, which the estimate leaves out");
  }
  void read_lengths() {
    auto length = from_.integer("dataset.seq_length");
    if (!length) length = from_.integer("dataset.sequence_length");
    if (!length) return core_.refuse_wrong_length("dataset.seq_length");
    if (to_.config.sequence_length && *to_.config.sequence_length != *length)
      core_.remark_on(remark::kind::contradicts,
                      "dataset.seq_length",
                      "is " + std::to_string(*length) + "; model.seq_length, " +
                          std::to_string(*to_.config.sequence_length) + ", is taken");
    if (!to_.config.sequence_length) to_.config.sequence_length = length;
  }
  void read_adapters() {
    const auto rank = from_.integer("peft.dim");
    if (!rank) return;
    to_.config.trains = training::adapters;
    const auto dropout = from_.number("peft.dropout");
    // Its default: the four linear layers of attention and MLP.
    to_.config.adapters = lora{.rank = *rank,
                               .weights = number_format::bf16,
                               .targets = {.query = true,
                                           .key = true,
                                           .value = true,
                                           .attention_out = true,
                                           .gate = true,
                                           .up = true,
                                           .down = true},
                               .dropout = dropout ? *dropout : 0.0};
    if (from_.find("peft.target_modules", true) != nullptr)
      core_.remark_on(remark::kind::doubtful,
                      "peft.target_modules",
                      "the estimate takes linear_qkv, linear_proj, linear_fc1 and linear_fc2");
  }
  // A whole tree states the model: its fields are Megatron-LM's flags under other names.
  void read_sizes(const value& model) {
    if (model.find("num_layers") == nullptr || model.find("hidden_size") == nullptr ||
        model.find("num_attention_heads") == nullptr || model.members() == nullptr)
      return;
    value flags = value::object();
    std::vector<std::pair<std::string, std::string>> fields;  // and their flags
    for (const auto& [field, is] : *model.members()) {
      if (is.is_nothing()) continue;
      std::string flag = flag_of_field(field);
      value given = is;
      for (const bridge_size& each : bridge_sizes) {
        if (field != each.field) continue;
        flag = each.flag;
        if (each.is_opposite && is.flag() != nullptr) given = !*is.flag();
      }
      if (field == "num_query_groups")
        flags.members()->emplace_back("--group-query-attention", true);
      flags.members()->emplace_back(flag, std::move(given));
      fields.emplace_back("model." + field, std::move(flag));
    }
    read_config shape;
    shape.config.tensor_parallel = to_.config.tensor_parallel;
    settings_reader sizes(flags, shape);
    megatron_shape_reader(sizes, shape).read();
    sizes.name_the_others();
    const std::set<std::string> others(shape.not_understood.begin(), shape.not_understood.end());
    for (const auto& [field, flag] : fields)
      if (others.count(flag) == 0) from_.find(field, true);
    to_.config.shape = shape.config.shape;
    for (remark& each : shape.remarks) {
      std::string field = each.key.substr(each.key.size() > 2 ? 2 : 0);
      for (char& c : field)
        if (c == '-') c = '_';
      core_.remark_on(each.is, "model." + field, std::move(each.text));
    }
  }
  void pass_over() {
    from_.pass_over({"checkpoint",
                     "logger",
                     "tokenizer",
                     "rng",
                     "ft",
                     "straggler",
                     "nvrx_straggler",
                     "profiling",
                     "rerun_state_machine",
                     "validation",
                     "comm_overlap",
                     "tensor_inspect",
                     "inprocess_restart",
                     "env_vars",
                     "dataset",
                     "optimizer_config_override_provider",
                     "_target_",
                     "scheduler.max_steps"});
    // `_target_` and what else Hydra writes begins with a line.
    from_.pass_over_words("peft.",
                          "_target_ dim dropout alpha dropout_position lora_A_init_method "
                          "lora_B_init_method a2a_experimental lora_dtype canonical_mapping "
                          "exclude_modules target_modules share_expert_adapters normalize_moe_lora "
                          "experts_shared_outer_loras sequence_parallel_input_regather");
    for (const char* const group : {"model", "optimizer", "scheduler", "train", "ddp", "dist"}) {
      const value* const in = settings_.find(group);
      if (in == nullptr || in->members() == nullptr) continue;
      for (const auto& [field, is] : *in->members()) {
        const std::string flag = flag_of_field(field);
        const bool is_private = !field.empty() && field.front() == '_';
        if (is_private || is_of_passed_family(flag) || is_passed_over(flag))
          from_.find(std::string(group) + "." + field, true);
      }
    }
  }

  const value& settings_;
  settings_reader from_;
  read_config& to_;
  megatron_reader core_;
};

}  // namespace detail

/// What a tree of Megatron-Bridge's says: overrides of a recipe in YAML, or a whole configuration.
/// What it does not say is the recipe's. `known` stays: the number of GPUs. The names are those of
/// megatron-bridge 0.6.2.
[[nodiscard]] inline read_config read_megatron_bridge(const value& settings,
                                                      read_config known = {}) {
  known.tool = "megatron-bridge";
  if (const value::object* const all = settings.members())
    for (const auto& [group, in] : *all)
      if (in.members() != nullptr && in.members()->size() > detail::most_flag_words) {
        known.why = "it has more than " + std::to_string(detail::most_flag_words) + " settings";
        return known;
      }
  detail::megatron_bridge_reader(settings, known).read();
  return known;
}

/// The same of words: `model.tensor_model_parallel_size=4 train.micro_batch_size=1`.
[[nodiscard]] inline read_config read_megatron_bridge_words(const std::vector<std::string>& words,
                                                            read_config known = {}) {
  if (words.size() > detail::most_flag_words) {
    known.tool = "megatron-bridge";
    known.why = "it has more than " + std::to_string(detail::most_flag_words) + " words";
    return known;
  }
  const value settings = detail::overrides_of_words(words, known);
  return read_megatron_bridge(settings, std::move(known));
}

[[nodiscard]] inline bool looks_like_megatron_bridge(const value& settings) {
  const value* const model = settings.find("model");
  const value* const train = settings.find("train");
  return (model != nullptr && model->find("tensor_model_parallel_size") != nullptr) ||
         (train != nullptr && train->find("micro_batch_size") != nullptr);
}

/// A plan as overrides of a recipe in YAML, and a command with the same as words. Refused: a plan
/// that Megatron would train otherwise, fp32 (no recipe of precision is), and a batch whose
/// accumulation is known without its data-parallel size.
[[nodiscard]] inline written_config write_megatron_bridge(const training_config& planned) {
  written_config made;
  // An enumeration of its own, which no override can set: a text would be there, and do nothing.
  training_config config = planned;
  config.attention = known<attention_kernel>();
  const detail::megatron_plan plan = detail::megatron_settings_of(config);
  made.why = plan.why;
  // No override has a format of PyTorch's.
  if (config.optimizer && config.optimizer->states != number_format::fp32)
    made.why =
        std::string("optimizer.states is ") + text(config.optimizer->states) + "; fp32 is taken";
  if (config.precision && *config.precision == training_precision::fp32)
    made.why = "precision is fp32; bf16, fp16 or fp8 is taken";
  if (config.gpus || config.nodes || config.gpus_per_node)
    if (const detail::machines on = detail::machines_of(config); !on.why.empty()) made.why = on.why;
  if (!made) return made;
  value settings = value::object();
  std::string words;
  const auto put = [&](std::string_view path, const value& is) {
    const std::size_t point = path.find('.');
    if (point == std::string_view::npos)
      settings[path] = is;
    else
      settings[path.substr(0, point)][path.substr(point + 1)] = is;
    // quoted for the overrides' grammar, and for the shell
    std::string word = is.items() != nullptr ? "" : detail::plain_word(is);
    if (is.items() != nullptr) {
      for (const value& one : *is.items())
        word += (word.empty() ? "[" : ",") + detail::plain_word(one);
      word += "]";
    }
    const bool is_quoted = word.find_first_of("(|*") != std::string::npos;
    words += is_quoted ? " \"" + std::string(path) + "='" + word + "'\""
                       : " " + std::string(path) + "=" + word;
  };
  for (const auto& [key, is] : plan.settings) put(key.path, is);
  if (config.zero_stage) put(detail::also_distributed, *config.zero_stage == 1);
  // Most recipes have these, beside which the Bridge takes no others.
  const bool counts_samples = config.samples && !config.steps;
  if (counts_samples) put("train.train_iters", value());
  if (!config.warm_up_steps && (counts_samples || config.warm_up_share))
    put("scheduler.lr_warmup_iters", 0);
  if (config.sequence_length) put("dataset.seq_length", *config.sequence_length);
  if (config.offloaded_layers) put("model.cpu_offloading", true);
  if (config.precision)
    put("mixed_precision",
        config.fp4_linears && *config.fp4_linears ? "bf16_with_nvfp4_mixed"
        : *config.precision == training_precision::fp8
            ? detail::scaling_for_megatron(config.scaling).mixed_precision
        : *config.precision == training_precision::fp16 ? "fp16_mixed"
                                                        : "bf16_mixed");
  made.files.push_back(
      {"megatron_bridge.yaml",
       "# written for Megatron-Bridge 0.6.2: overrides of a recipe\n" + to_yaml(settings)});
  std::vector<std::string> said;
  made.command = "python";
  if (config.gpus || config.nodes) {
    const detail::machines on = detail::machines_of(config);
    made.command = "torchrun --nnodes " + std::to_string(on.nodes) + " --nproc-per-node " +
                   std::to_string(on.gpus_per_node);
    said = {"gpus", "nodes", "gpus_per_node"};
    if (config.gpus || (config.nodes && config.gpus_per_node)) said.emplace_back("data_parallel");
  }
  made.command += std::string(" ") + script_placeholder + words;
  made.not_written = detail::not_said_to_megatron(config, std::move(said));
  if (planned.attention) made.not_written.emplace_back("attention");
  return made;
}

}  // namespace gpuplan::io

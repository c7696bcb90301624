#pragma once

// Words that Hugging Face's libraries and what is built on them share: names of optimizers,
// schedules, kernels of attention, and modules with adapters; and the keys of FSDP.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/settings_writer.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gpuplan::io {

/// Adds the linear layers that modules of this name are, as Hugging Face's classes call them and
/// PEFT's `target_modules` lists them, or one of gpuplan's own words (q, experts, attention,
/// all-linear, ...). False where no layers are known by that name.
[[nodiscard]] inline bool add_lora_target(std::string_view name, lora_targets& targets) {
  struct target {
    std::string_view names;  // with spaces around each
    lora_targets layers;
  };
  static constexpr target known[] = {
      {" q q_proj query wq q_lin ", {.query = true}},
      {" k k_proj key wk k_lin ", {.key = true}},
      {" v v_proj value wv v_lin ", {.value = true}},
      {" qkv qkv_proj query_key_value c_attn Wqkv ", {.query = true, .key = true, .value = true}},
      {" o o_proj out_proj wo out_lin ", {.attention_out = true}},
      {" q_a_proj ", {.query_down = true}},
      {" q_b_proj ", {.query = true}},
      {" kv_a_proj_with_mqa ", {.key_value_down = true}},
      {" kv_b_proj ", {.key_value_up = true}},
      {" gate gate_proj w1 ", {.gate = true}},
      {" up up_proj w3 fc1 c_fc fc_in lin1 dense_h_to_4h ", {.up = true}},
      {" gate_up_proj ", {.gate = true, .up = true}},
      {" down down_proj w2 fc2 fc_out lin2 dense_4h_to_h ", {.down = true}},
      {" c_proj ", {.attention_out = true, .down = true}},  // GPT-2 has two of that name
      {" experts ", {.experts = true}},
      {" experts.gate_up_proj mlp.experts.gate_up_proj ", {.expert_gate_up = true}},
      {" experts.down_proj mlp.experts.down_proj ", {.expert_down = true}},
      {" router ", {.router = true}},
      {" shared_expert_gate ", {.shared_expert_gate = true}},
      {" embedding embed_tokens wte ", {.embedding = true}},
      {" head lm_head ", {.head = true}},
      {" in_proj ", {.mixer_in = true}},
      {" attention ", attention_layers},
      {" all-linear ", all_linear},
  };
  for (const target& one : known) {
    if (name.empty() || name.find(' ') != std::string_view::npos ||
        one.names.find(" " + std::string(name) + " ") == std::string_view::npos)
      continue;
    for (bool lora_targets::*layers : {&lora_targets::query,
                                       &lora_targets::key,
                                       &lora_targets::value,
                                       &lora_targets::attention_out,
                                       &lora_targets::query_down,
                                       &lora_targets::key_value_down,
                                       &lora_targets::key_value_up,
                                       &lora_targets::gate,
                                       &lora_targets::up,
                                       &lora_targets::down,
                                       &lora_targets::experts,
                                       &lora_targets::expert_gate_up,
                                       &lora_targets::expert_down,
                                       &lora_targets::router,
                                       &lora_targets::shared_expert_gate,
                                       &lora_targets::other,
                                       &lora_targets::mixer_in,
                                       &lora_targets::classifier,
                                       &lora_targets::embedding,
                                       &lora_targets::head})
      targets.*layers = targets.*layers || one.layers.*layers;
    return true;
  }
  return false;
}

namespace detail::hugging_face {

using kind = remark::kind;

// transformers' OptimizerNames; what names the same stands behind the name that is written.
inline constexpr word<gpuplan::optimizer> optimizer_words[] = {
    {"adamw_torch", {}},
    {"adamw_torch_fused", {.loop = optimizer_loop::fused}},
    {"adamw_apex_fused", {.loop = optimizer_loop::fused}},
    {"adamw_bnb_8bit",
     {.library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .widens_embeddings = true}},
    {"adamw_8bit",
     {.library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .widens_embeddings = true}},
    {"paged_adamw_32bit", {.library = optimizer_library::bitsandbytes, .pages_states = true}},
    {"paged_adamw", {.library = optimizer_library::bitsandbytes, .pages_states = true}},
    {"paged_adamw_8bit",
     {.library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .pages_states = true,
      .widens_embeddings = true}},
    {"lion_32bit", {.kind = optimizer_kind::lion, .library = optimizer_library::bitsandbytes}},
    {"lion", {.kind = optimizer_kind::lion, .library = optimizer_library::bitsandbytes}},
    {"lion_8bit",
     {.kind = optimizer_kind::lion,
      .library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .widens_embeddings = true}},
    {"paged_lion_32bit",
     {.kind = optimizer_kind::lion,
      .library = optimizer_library::bitsandbytes,
      .pages_states = true}},
    {"paged_lion_8bit",
     {.kind = optimizer_kind::lion,
      .library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .pages_states = true,
      .widens_embeddings = true}},
    {"adamw_torch_8bit", {.library = optimizer_library::torchao, .states = number_format::int8}},
    {"adamw_anyprecision", {.loop = optimizer_loop::parameter, .states = number_format::bf16}},
    // transformers' own
    {"adafactor", {.kind = optimizer_kind::adafactor, .loop = optimizer_loop::parameter}},
    {"sgd", {.kind = optimizer_kind::sgd}},
    {"adagrad", {.kind = optimizer_kind::adagrad}},
    {"rmsprop", {.kind = optimizer_kind::rmsprop}},
    {"rmsprop_bnb_32bit",
     {.kind = optimizer_kind::rmsprop, .library = optimizer_library::bitsandbytes}},
    {"rmsprop_bnb", {.kind = optimizer_kind::rmsprop, .library = optimizer_library::bitsandbytes}},
    {"rmsprop_bnb_8bit",
     {.kind = optimizer_kind::rmsprop,
      .library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .widens_embeddings = true}},
};

/// The word for an optimizer; of one that has none that of its kind with such states, or nullptr.
[[nodiscard]] inline const char* word_near(const gpuplan::optimizer& is) {
  const char* near = nullptr;
  for (const word<gpuplan::optimizer>& one : optimizer_words) {
    if (one.is == is) return one.name;
    if (near == nullptr && one.is.kind == is.kind && one.is.states == is.states) near = one.name;
  }
  return near;
}

inline constexpr word<attention_kernel> attention_words[] = {
    {"sdpa", attention_kernel::automatic},
    {"flash_attention_2", attention_kernel::flash},
    {"flash_attention_3", attention_kernel::flash},
    {"kernels-community/flash-attn2", attention_kernel::flash},
    {"kernels-community/flash-attn", attention_kernel::flash},
    {"eager", attention_kernel::eager},
};

/// What a word of such a table stands for; another word is a remark.
template <class T, class Words>
known<T> read_word(settings_reader& from, std::string_view key, const Words& words) {
  const std::string name = from.text(key);
  if (name.empty()) return {};
  for (const auto& one : words)
    if (name == one.name) return one.is;
  from.remark_on(kind::doubtful,
                 key,
                 "is \"" + printable(name.substr(0, 80)) + "\", which gpuplan does not know");
  return {};
}

/// The keys of a schedule; nullptr: there is none.
struct schedule_keys {
  const char* type = "lr_scheduler_type";
  const char* least_rate = "lr_scheduler_kwargs.min_lr";
  const char* least_share = "lr_scheduler_kwargs.min_lr_rate";
};
// Of warmup_stable_decay, whose decay is a cosine where nothing is said.
inline constexpr const char* wsd_steps_key = "lr_scheduler_kwargs.num_decay_steps";
inline constexpr const char* wsd_decay_key = "lr_scheduler_kwargs.decay_type";
inline constexpr const char* wsd_least_key = "lr_scheduler_kwargs.min_lr_ratio";

inline void read_schedule(settings_reader& from, const schedule_keys& keys, training_config& to) {
  static constexpr word<rate_schedule> words[] = {
      {"linear", rate_schedule::linear},
      {"cosine", rate_schedule::cosine},
      {"cosine_with_min_lr", rate_schedule::cosine},
      {"cosine_warmup_with_min_lr", rate_schedule::cosine},
      {"constant", rate_schedule::constant},
      {"constant_with_warmup", rate_schedule::constant},
      {"warmup_stable_decay", rate_schedule::wsd},
  };
  to.schedule = read_word<rate_schedule>(from, keys.type, words);
  if (keys.least_rate != nullptr) to.least_learning_rate = from.number(keys.least_rate);
  if (keys.least_share != nullptr)
    if (const auto share = from.number(keys.least_share); share && to.learning_rate)
      to.least_learning_rate = *share * *to.learning_rate;
  if (says(to.schedule, rate_schedule::wsd)) {
    to.decay_steps = from.integer(wsd_steps_key);
    const std::string decay = from.text(wsd_decay_key);
    if (decay != "linear")
      from.remark_on(kind::doubtful,
                     wsd_decay_key,
                     "is " + (decay.empty() ? "not stated" : printable(decay.substr(0, 80))) +
                         "; gpuplan knows linear");
    if (const auto share = from.number(wsd_least_key); share && to.learning_rate)
      to.least_learning_rate = *share * *to.learning_rate;
  }
  // Below 1 it is a share of all steps.
  if (const auto steps = from.number("warmup_steps")) {
    if (*steps > 0 && *steps < 1)
      to.warm_up_share = steps;
    else
      to.warm_up_steps = steps;
  }
  if (const auto share = from.number("warmup_ratio")) {
    if (is_said(to.warm_up_steps) && *to.warm_up_steps > 0)
      from.remark_on(kind::contradicts, "warmup_ratio", "is passed over beside warmup_steps");
    else
      to.warm_up_share = share, to.warm_up_steps = {};
  }
}

inline void write_schedule(settings_writer& to,
                           const schedule_keys& keys,
                           const training_config& config) {
  const auto& steps = config.warm_up_steps;
  const bool has_steps = steps && *steps >= 0 && *steps < 0x1p40 && std::trunc(*steps) == *steps;
  const bool has_share =
      !steps && config.warm_up_share && *config.warm_up_share > 0 && *config.warm_up_share < 1;
  if (has_steps)
    to.put("warmup_steps", static_cast<std::int64_t>(*to.take(&training_config::warm_up_steps)));
  else if (has_share)
    to.put("warmup_steps", *to.take(&training_config::warm_up_share));
  if (!config.schedule) return;
  if (says(config.schedule, rate_schedule::wsd)) {
    if (!config.decay_steps || *config.decay_steps < 1) return;
    to.take(&training_config::schedule);
    to.put(keys.type, "warmup_stable_decay");
    to.put(wsd_steps_key, *to.take(&training_config::decay_steps));
    to.put(wsd_decay_key, "linear");
    if (config.least_learning_rate && config.learning_rate && *config.learning_rate > 0)
      to.put(wsd_least_key,
             *to.take(&training_config::least_learning_rate) / *config.learning_rate);
    return;
  }
  const bool warms_up = has_share || (has_steps && *steps > 0);
  const char* name = "linear";
  switch (*to.take(&training_config::schedule)) {
    case rate_schedule::linear:
      break;
    case rate_schedule::constant:  // which passes a warm-up over
      name = warms_up ? "constant_with_warmup" : "constant";
      break;
    case rate_schedule::cosine:
      name = "cosine";
      if (config.least_learning_rate && keys.least_rate != nullptr) {
        name = "cosine_with_min_lr";
        to.put(keys.least_rate, *to.take(&training_config::least_learning_rate));
      }
      break;
    case rate_schedule::wsd:
      break;
  }
  to.put(keys.type, name);
}

/// bf16, fp16 and tf32, flags of that name. Of bf16 "auto" and "full" are axolotl's.
inline void read_precision(settings_reader& from, training_config& to) {
  const auto bf16 = from.flag("bf16");
  const auto fp16 = from.flag("fp16");
  const auto tf32 = from.flag("tf32");
  if (bf16 && *bf16 && fp16 && *fp16)
    from.remark_on(kind::contradicts, "fp16", "is true, and bf16 too; one of both is taken");
  if (bf16 && *bf16)
    to.precision = training_precision::bf16;
  else if (fp16 && *fp16)
    to.precision = training_precision::fp16;
  else if (tf32 && *tf32)
    to.precision = training_precision::tf32;
  else if ((bf16 || fp16) && !to.precision)
    to.precision = training_precision::fp32;
}
/// False where there is no word for it: fp8.
inline bool write_precision(settings_writer& to, const training_config& config) {
  if (!config.precision) return true;
  const training_precision is = *config.precision;
  if (is == training_precision::fp8) return false;
  to.take(&training_config::precision);
  to.put("bf16", is == training_precision::bf16);
  to.put("fp16", is == training_precision::fp16);
  if (is == training_precision::tf32) to.put("tf32", true);
  return true;
}

/// A model that its name calls quantised, as Qwen/Qwen3-8B-AWQ does. Of such weights the estimate
/// has bitsandbytes' four bits alone, where `flag` is there beside adapters.
inline void doubt_quantised(settings_reader& from,
                            const char* key,
                            const char* flag,
                            const training_config& is) {
  const bool has_four_bits = is.adapters && is.adapters->base.block != 0;
  std::string_view left = is.model;
  left.remove_prefix(left.find_last_of('/') + 1);
  while (!left.empty()) {
    const std::size_t end = left.find_first_of("-_.");
    std::string word = " ";
    for (const char letter : left.substr(0, end)) word += gpuplan::detail::lower(letter);
    word += ' ';
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
    const std::string_view of_four_bits = " bnb 4bit ";
    const std::string_view others =
        " 8bit int4 int8 gptq awq fp8 nvfp4 mxfp4 quantized w4a16 w8a8 w8a16 ";
    if (others.find(word) == std::string_view::npos &&
        (has_four_bits || of_four_bits.find(word) == std::string_view::npos))
      continue;
    std::string held = "in bitsandbytes' four bits";
    if (!has_four_bits)
      held = (is.weights ? std::string("in ") + text(*is.weights) : "unquantised") + ", or " +
             held + " with adapters and " + flag;
    return from.remark_on(kind::doubtful,
                          key,
                          "is " + shown(value(is.model)) +
                              ", by whose name weights are quantised; the estimate has them " +
                              held);
  }
}

/// Why a base in eight bits, or by another library, is refused: what would be taken as unquantised
/// needs twice as much, or more. `said` is the key with its value, `taken` that of four bits.
[[nodiscard]] inline std::string refusal_of_quantised_base(const std::string& said,
                                                           const std::string& taken) {
  return said +
         "; of quantised weights the estimate knows bitsandbytes' four bits alone: " + taken +
         ", or none, is taken";
}

inline constexpr word<number_format> weights_words[] = {{"float32", number_format::fp32},
                                                        {"bfloat16", number_format::bf16},
                                                        {"float16", number_format::fp16}};

inline void read_targets(settings_reader& from, const std::string& key, lora& to) {
  const value* const found = from.find(key, true);
  if (found == nullptr) return;
  lora_targets targets;
  const auto add = [&](const std::string& name) {
    if (add_lora_target(name == "all" ? "all-linear" : name, targets)) return;
    from.remark_on(kind::doubtful,
                   key,
                   "has \"" + printable(name.substr(0, 80)) +
                       "\", a module of which the estimate knows nothing");
  };
  if (const std::string* const text = found->text()) {
    std::string_view left = *text;
    while (!left.empty()) {
      const std::size_t end = left.find(',');
      std::string name(left.substr(0, end));
      std::erase(name, ' ');
      add(name);
      left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
    }
  } else if (const value::list* const items = found->items()) {
    for (const value& item : *items)
      if (const std::string* const name = item.text()) add(*name);
  } else {
    from.remark_on(kind::contradicts, key, "is " + shown(*found) + "; names of modules are taken");
  }
  if (!(targets == lora_targets{})) to.targets = targets;
}

/// The names of a model's modules as LLaMA, Mistral, Qwen and their like call them, or of
/// "all-linear"; an empty list where these have no name for a target.
inline value::list target_names(const lora_targets& targets) {
  if (targets == all_linear) return {"all-linear"};
  struct name {
    const char* is;
    bool lora_targets::*of;
  };
  value::list names;
  lora_targets named;
  for (const name& one : {name{"q_proj", &lora_targets::query},
                          name{"k_proj", &lora_targets::key},
                          name{"v_proj", &lora_targets::value},
                          name{"o_proj", &lora_targets::attention_out},
                          name{"gate_proj", &lora_targets::gate},
                          name{"up_proj", &lora_targets::up},
                          name{"down_proj", &lora_targets::down},
                          name{"embed_tokens", &lora_targets::embedding},
                          name{"lm_head", &lora_targets::head}})
    if (targets.*one.of) {
      names.emplace_back(one.is);
      named.*one.of = true;
    }
  return named == targets ? names : value::list{};
}

inline void read_saved_modules(settings_reader& from, const char* key, lora& to) {
  const value* const found = from.find(key, true);
  const value::list* const items = found == nullptr ? nullptr : found->items();
  if (found != nullptr && items == nullptr)
    from.remark_on(kind::contradicts, key, "is " + shown(*found) + "; a list of modules is taken");
  for (std::size_t at = 0; items != nullptr && at < items->size(); ++at) {
    const std::string* const name = (*items)[at].text();
    if (name != nullptr && (*name == "embed_tokens" || *name == "wte"))
      to.copy_embedding = true;
    else if (name != nullptr && *name == "lm_head")
      to.copy_head = true;
    else
      from.remark_on(
          kind::doubtful, key, "has " + shown((*items)[at]) + ", which the estimate leaves out");
  }
}
inline void write_saved_modules(settings_writer& to, const char* key, const lora& adapters) {
  value::list names;
  if (adapters.copy_embedding) names.emplace_back("embed_tokens");
  if (adapters.copy_head) names.emplace_back("lm_head");
  if (!names.empty()) to.put(key, std::move(names));
}

/// Parts of adapters that formats with words for PEFT have none for. In which format the rest of a
/// base in four bits is, trainers decide: axolotl has it in the one that it loads.
inline void leave_parts_of_adapters(settings_writer& to, const lora& adapters) {
  if (adapters.bias != lora_bias::none) to.leave("adapters.bias");
  if (adapters.weights != number_format::fp32) to.leave("adapters.weights");
  if (adapters.base.rest_in_fp32) to.leave("adapters.base.rest_in_fp32");
}

/// Why no adapters of PEFT are these; empty: they can be.
inline std::string flaw_of_adapters(const training_config& config) {
  if (config.trains && *config.trains != training::full && *config.trains != training::adapters)
    return "trains: the file has words for all parameters and for adapters, not for a part of the "
           "layers";
  const bool trains_adapters = says(config.trains, training::adapters);
  if (trains_adapters != is_said(config.adapters))
    return trains_adapters ? "trains is adapters, and there are none"
                           : "adapters are there, and trains is not adapters";
  if (!config.adapters) return "";
  const lora& is = *config.adapters;
  if (is.rank < 1) return "adapters.rank is " + std::to_string(is.rank) + "; 1 or more is taken";
  if (!(is.dropout >= 0 && is.dropout <= 1)) return "adapters.dropout is no number from 0 to 1";
  if (target_names(is.targets).empty())
    return "adapters.targets: not all of them are modules that LLaMA and its like have";
  quantised_base base = is.base;
  base.rest_in_fp32 = base.in_weights_format = false;  // the trainer's own matter
  const bool is_usual =
      base == quantised_base{} || base == four_bit_base || base == double_quantised_base;
  if (!is_usual)
    return "adapters.base: four_bit_base and double_quantised_base are taken, bitsandbytes' blocks "
           "of 64 and 256";
  return "";
}

/// Whether the engine is one of PyTorch's two that share weights.
inline bool is_fsdp(std::string_view engine) {
  for (const engine_class* const known : engine_classes::all)
    if (engine == known->name->text) return known->gathers_weights;
  return false;
}

/// Whether a name, or names with commas or in a list, are classes of layers as transformers calls
/// them; nothing is.
inline bool wraps_layers(const value* names) {
  if (names == nullptr) return true;
  if (const value::list* const items = names->items()) {
    for (const value& item : *items)
      if (!wraps_layers(&item)) return false;
    return true;
  }
  const std::string* const text = names->text();
  std::string_view left = text == nullptr ? std::string_view() : *text;
  while (!left.empty()) {
    const std::size_t end = left.find(',');
    std::string_view name = left.substr(0, end);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.ends_with("Layer") && !name.ends_with("Block")) return false;
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
  }
  return true;
}

/// The engine, and FSDP's keys, in `fsdp_config`, with the prefix fsdp_ (Accelerate's) or without
/// it. `has_policy`: without fsdp_auto_wrap_policy layers are wrapped anyway; `version`: FSDP's,
/// where it is not said.
inline void read_fsdp(settings_reader& from, bool has_policy, int version, training_config& to) {
  const auto run_by = [&to](std::int64_t of) { to.engine = of == 1 ? "fsdp1" : "fsdp2"; };
  run_by(version);
  if (from.find("fsdp_config") == nullptr) return;
  const auto path = [&from](const char* key) {
    const std::string with_prefix = std::string("fsdp_config.fsdp_") + key;
    const std::string without = std::string("fsdp_config.") + key;
    const bool has_prefix = from.has(with_prefix);
    return from.has(without) ? without : has_prefix ? with_prefix : without;
  };
  if (const auto said = from.integer(path("version")); said && (*said == 1 || *said == 2))
    run_by(*said);
  else if (said)
    from.remark_on(
        kind::contradicts, path("version"), "is " + std::to_string(*said) + "; 1 and 2 are taken");
  const bool is_first = to.engine == "fsdp1";
  static constexpr word<int> strategies[] = {{"FULL_SHARD", 3},
                                             {"SHARD_GRAD_OP", 2},
                                             {"NO_SHARD", 0},
                                             {"HYBRID_SHARD", 3},
                                             {"HYBRID_SHARD_ZERO2", 2}};
  const auto take_strategy = [&](const std::string& key) {
    if (const auto stage = read_word<int>(from, key, strategies)) to.zero_stage = *stage;
    if (from.text(key).rfind("HYBRID", 0) != 0) return;
    if (to.gpus && to.nodes && *to.gpus % *to.nodes == 0)
      to.shard_group = *to.gpus / *to.nodes;
    else
      from.remark_on(
          kind::doubtful, key, "shares in each node; the file does not say among how many");
  };
  const std::string reshard = path("reshard_after_forward");
  const value* const reshards = from.find(reshard);
  // Of FSDP 1 it is the newer name of the strategy.
  if (is_first && reshards != nullptr && reshards->flag() != nullptr) {
    from.remark_on(kind::contradicts,
                   reshard,
                   "is " + shown(*reshards) +
                       ", which is of FSDP 2; of FSDP 1 FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, "
                       "HYBRID_SHARD or HYBRID_SHARD_ZERO2 is taken");
  } else if (reshards != nullptr && reshards->text() != nullptr && reshards->text()->size() > 5) {
    take_strategy(reshard);
  } else if (const auto is = from.flag(reshard)) {
    to.zero_stage = *is ? 3 : 2;
  }
  const value* const strategy = from.find(path("sharding_strategy"));
  if (const std::int64_t* const number = strategy == nullptr ? nullptr : strategy->integer()) {
    // As FSDP 1 counts them
    static constexpr int stages[] = {3, 2, 0, 3, 2};
    if (*number >= 1 && *number <= 5) to.zero_stage = stages[*number - 1];
  } else if (strategy != nullptr) {
    take_strategy(path("sharding_strategy"));
  }
  const auto doubt = [&](const char* key, const char* what) {
    from.remark_on(kind::doubtful, path(key), what);
  };
  if (const value* const ahead = from.find(path("backward_prefetch"), true);
      is_first && (ahead == nullptr || ahead->text() == nullptr ||
                   (*ahead->text() != "BACKWARD_PRE" && *ahead->text() != "backward_pre")))
    doubt("backward_prefetch", "is not BACKWARD_PRE; the estimate gathers a layer ahead");
  if (const auto is = from.flag(path("use_orig_params")); is_first) to.original_parameters = is;
  for (const char* key : {"offload_params", "cpu_offload"})
    if (const auto is = from.flag(path(key))) to.weights_on_host = to.optimizer_on_host = *is;
  // Where it is false, gradient_checkpointing may still be true.
  if (const auto is = from.flag(path("activation_checkpointing")); is && *is) {
    if (says(to.recompute, recompute_mode::full))
      from.remark_on(kind::contradicts,
                     path("activation_checkpointing"),
                     "is true, and gradient_checkpointing too; weights are gathered twice then");
    to.recompute = recompute_mode::full;
  }
  const std::string policy = from.text(path("auto_wrap_policy"));
  if (policy.empty() ? !has_policy : policy == "NO_WRAP")
    from.remark_on(kind::missing,
                   path("auto_wrap_policy"),
                   "is not TRANSFORMER_BASED_WRAP, so that all layers are gathered at once");
  if (policy == "SIZE_BASED_WRAP")
    doubt("auto_wrap_policy", "is SIZE_BASED_WRAP; the estimate wraps each layer");
  else if (!policy.empty() && policy != "TRANSFORMER_BASED_WRAP" && policy != "NO_WRAP")
    from.remark_on(kind::contradicts,
                   path("auto_wrap_policy"),
                   "is " + shown(value(policy)) +
                       "; one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP is taken");
  if (!wraps_layers(from.find(path("transformer_layer_cls_to_wrap"), true)))
    doubt("transformer_layer_cls_to_wrap",
          "has a class that is no layer by its name; the estimate wraps each layer");
  // FSDP 2 passes these over.
  if (says(from.flag(path("forward_prefetch")), true) && is_first)
    doubt("forward_prefetch", "is true; the estimate gathers a layer ahead going back alone");
  if (says(from.flag(path("limit_all_gathers")), false) && is_first)
    doubt("limit_all_gathers", "is false; the estimate is as if it were true");
  for (const char* const key : {"ignored_modules", "ignored_parameters", "mixed_precision_policy"})
    if (from.find(path(key), true) != nullptr)
      doubt(key, "is there, which the estimate leaves out");
  if (says(from.flag(path("activation_checkpointing_offload")), true))
    doubt("activation_checkpointing_offload",
          "is true; the estimate keeps inputs of layers on the device");
  for (const char* const key : {"xla", "xla_fsdp_v2", "xla_fsdp_grad_ckpt"})
    if (says(from.flag(path(key)), true)) doubt(key, "is true; gpuplan knows nothing of XLA");
  for (const char* const key : {"min_num_params",
                                "sync_module_states",
                                "cpu_ram_efficient_loading",
                                "state_dict_type",
                                "final_state_dict_type",
                                "xla_fsdp_settings"})
    from.find(path(key), true);
}

/// Why FSDP 2 cannot do it; empty: it can.
inline std::string flaw_of_fsdp(const training_config& config) {
  if (config.zero_stage && *config.zero_stage < 2)
    return "zero_stage " + std::to_string(*config.zero_stage) +
           ": FSDP 2 shares gradients (2) or "
           "weights too (3)";
  if (config.weights_on_host && config.optimizer_on_host &&
      *config.weights_on_host != *config.optimizer_on_host)
    return "optimizer_on_host and weights_on_host differ; FSDP offloads both or none";
  return "";
}
inline void write_fsdp(settings_writer& to,
                       const std::string& prefix,
                       const char* offload,
                       const training_config& config) {
  const auto key = [&](const char* name) { return "fsdp_config." + prefix + name; };
  to.put(key("version"), 2);
  to.put(key("auto_wrap_policy"), "TRANSFORMER_BASED_WRAP");
  if (config.zero_stage)
    to.put(key("reshard_after_forward"), *to.take(&training_config::zero_stage) == 3);
  // Weights, gradients and states go together.
  if (config.weights_on_host || config.optimizer_on_host) {
    const known<bool> weights = to.take(&training_config::weights_on_host);
    const known<bool> states = to.take(&training_config::optimizer_on_host);
    to.put(key(offload), weights ? *weights : *states);
  }
  if (config.recompute && *config.recompute != recompute_mode::selective)
    to.put(key("activation_checkpointing"),
           *to.take(&training_config::recompute) == recompute_mode::full);
}

/// What an object of DeepSpeed says, under `key`: what the file itself does not say.
inline void take_deepspeed(settings_reader& from,
                           const std::string& key,
                           const read_config& inner,
                           training_config& to,
                           read_config& all) {
  for (const remark& one : inner.remarks) from.remark_on(one.is, key + "." + one.key, one.text);
  for (const std::string& name : inner.not_understood)
    all.not_understood.push_back(key + "." + name);
  for_each_member(to, [&](const char* name, auto& member) {
    for_each_member(inner.config, [&](const char* other_name, const auto& other) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>,
                                   std::remove_cvref_t<decltype(other)>>)
        if (std::string_view(name) == other_name && is_said(other) && !is_said(member))
          member = other;
    });
  });
}

}  // namespace detail::hugging_face
}  // namespace gpuplan::io

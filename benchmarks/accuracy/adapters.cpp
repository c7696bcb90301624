#include "adapters.hpp"

#include <gpuplan/detail/integer.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <vector>

namespace accuracy {
namespace {

using gpuplan::lora_targets;

const std::map<std::string_view, lora_targets>& known_names() {
  constexpr lora_targets query{.query = true};
  constexpr lora_targets key{.key = true};
  constexpr lora_targets value{.value = true};
  constexpr lora_targets fused{.query = true, .key = true, .value = true};
  constexpr lora_targets out{.attention_out = true};
  constexpr lora_targets gate{.gate = true};
  constexpr lora_targets up{.up = true};
  constexpr lora_targets down{.down = true};
  constexpr lora_targets table{.embedding = true};
  constexpr lora_targets head{.head = true};
  static const std::map<std::string_view, lora_targets> names{
      {"q_proj", query},
      {"query", query},
      {"q", query},
      {"wq", query},
      {"q_lin", query},
      {"q_b_proj", query},
      {"query_proj", query},
      {"k_proj", key},
      {"key_proj", key},
      {"key", key},
      {"k", key},
      {"wk", key},
      {"k_lin", key},
      {"v_proj", value},
      {"value_proj", value},
      {"value", value},
      {"v", value},
      {"wv", value},
      {"v_lin", value},
      {"query_key_value", fused},
      {"c_attn", fused},
      {"Wqkv", fused},
      {"Wi", {.gate = true, .up = true}},
      {"Wo", {.attention_out = true, .down = true}},
      {"qkv_proj", fused},
      {"qkv", fused},
      {"q_a_proj", {.query_down = true}},
      {"in_proj", {.mixer_in = true}},
      {"kv_a_proj_with_mqa", {.key_value_down = true}},
      {"kv_b_proj", {.key_value_up = true}},
      {"o_proj", out},
      {"out_proj", out},
      {"o", out},
      {"proj", out},
      {"out_lin", out},
      {"projection", out},
      {"gate_proj", gate},
      {"gate", gate},
      {"wi_0", gate},
      {"up_proj", up},
      {"up", up},
      {"wi_1", up},
      {"wi", up},
      {"fc1", up},
      {"fc_in", up},
      {"lin1", up},
      {"c_fc", up},
      {"dense_h_to_4h", up},
      {"down_proj", down},
      {"down", down},
      {"wo", down},
      {"fc2", down},
      {"fc_out", down},
      {"lin2", down},
      {"dense_4h_to_h", down},
      {"gate_up_proj", {.gate = true, .up = true}},
      {"experts.gate_up_proj", {.expert_gate_up = true}},
      {"experts.down_proj", {.expert_down = true}},
      {"c_proj", {.attention_out = true, .down = true}},
      {"mlp", {.gate = true, .up = true, .down = true}},
      {"embed_tokens", table},
      {"wte", table},
      {"embed_in", table},
      {"word_embeddings", table},
      {"embeddings", table},
      {"lm_head", head},
      {"head", head},
      {"embed_out", head},
      {"all-linear", gpuplan::all_linear},
  };
  return names;
}

void add(lora_targets& sum, const lora_targets& more) {
  for (bool lora_targets::*target : {&lora_targets::query,
                                     &lora_targets::key,
                                     &lora_targets::value,
                                     &lora_targets::attention_out,
                                     &lora_targets::query_down,
                                     &lora_targets::key_value_down,
                                     &lora_targets::key_value_up,
                                     &lora_targets::gate,
                                     &lora_targets::up,
                                     &lora_targets::down,
                                     &lora_targets::expert_gate_up,
                                     &lora_targets::expert_down,
                                     &lora_targets::shared_expert_gate,
                                     &lora_targets::other,
                                     &lora_targets::mixer_in,
                                     &lora_targets::classifier,
                                     &lora_targets::embedding,
                                     &lora_targets::head})
    sum.*target = sum.*target || more.*target;
}

// The parts before each separator.
std::vector<std::string_view> split(std::string_view names, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find_first_of(separators), names.size());
    parts.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return parts;
}

// What a name stands for in this model; none where it is not known.
std::optional<lora_targets> targets_of(std::string_view name, const gpuplan::transformer& model) {
  const bool is_encoder =
      model.kind == gpuplan::model_kind::encoder || model.kind == gpuplan::model_kind::vision;
  // An encoder calls three of its layers so, and those that pool or precede the head.
  // MPNet has another name for attention's.
  if (name == "dense" && is_encoder)
    return lora_targets{.attention_out = model.relative_attention_buckets == 0,
                        .up = true,
                        .down = true,
                        .other = true};
  if (name == "dense") return lora_targets{.attention_out = true};
  // T5's MLP calls its last layer so; elsewhere it is attention's.
  if (name == "wo" && model.kind != gpuplan::model_kind::encoder_decoder)
    return lora_targets{.attention_out = true};
  const auto found = known_names().find(name);
  if (found == known_names().end()) return {};
  return found->second;
}

}  // namespace

described_adapters describe_adapters(std::string_view method,
                                     std::int64_t rank,
                                     std::string_view names,
                                     gpuplan::transformer& model) {
  constexpr std::array<std::string_view, 7> methods{
      "lora", "qlora", "dora", "qdora", "hira", "rslora", "pissa"};
  if (std::find(methods.begin(), methods.end(), method) == methods.end())
    return {.why_not = "what trains with method " + std::string(method) + " is not known"};
  if (names.empty()) return {.why_not = "the row does not say which layers have adapters"};

  described_adapters described;
  described.trains.what = gpuplan::training::adapters;
  gpuplan::lora& adapters = described.trains.adapters;
  adapters.rank = rank;
  adapters.magnitudes = method == "dora" || method == "qdora";
  adapters.targets = {};
  // A remark may follow: "q_proj,v_proj (PEFT default for qwen2)".
  for (const std::string_view name : split(names.substr(0, names.find(" (")), ",+")) {
    const auto targets = targets_of(name, model);
    if (!targets) return {.why_not = "no layer is known by the name " + std::string(name)};
    add(adapters.targets, *targets);
  }
  const lora_targets& all = adapters.targets;
  if (all.query != all.key || all.key != all.value) model.fused_qkv = false;
  if (all.gate != all.up) model.fused_gate_up = false;
  return described;
}

void add_copies(std::string_view names, described_adapters& adapters) {
  constexpr std::array<std::string_view, 4> tables{
      "embed_tokens", "wte", "embed_in", "word_embeddings"};
  constexpr std::array<std::string_view, 5> heads{
      "lm_head", "head", "embed_out", "classifier", "score"};
  for (const std::string_view name : split(names, ",+")) {
    if (std::find(tables.begin(), tables.end(), name) != tables.end())
      adapters.trains.adapters.copy_embedding = true;
    else if (std::find(heads.begin(), heads.end(), name) != heads.end())
      adapters.trains.adapters.copy_head = true;
    else
      adapters.why_not = "what module " + std::string(name) + " holds is not known";
  }
}

std::optional<std::int64_t> trainable_parameters_of_shapes(const row& source,
                                                           std::string_view column,
                                                           std::int64_t rank) {
  static const std::regex shape(R"(^\s*(\d{1,9})x\((\d{1,12})->(\d{1,12})\)\s*$)");
  gpuplan::detail::checked_integer sum = 0;
  for (const std::string_view part : split(source.text(column), "+")) {
    std::match_results<std::string_view::const_iterator> match;
    if (!std::regex_match(part.begin(), part.end(), match, shape))
      source.fail(column, "has a part that is not like 16x(2048->512): " + std::string(part));
    const auto number = [&](std::size_t i) { return std::stoll(match[i].str()); };
    sum =
        checked_sum(sum, gpuplan::detail::checked_product(number(1), rank, number(2) + number(3)));
  }
  if (!sum.ok) return {};
  return sum.value;
}

}  // namespace accuracy

#include "adapters.hpp"

#include <map>

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
      {"q_lin", query},
      {"q_b_proj", query},
      {"k_proj", key},
      {"key", key},
      {"k", key},
      {"k_lin", key},
      {"v_proj", value},
      {"value", value},
      {"v", value},
      {"v_lin", value},
      {"query_key_value", fused},
      {"c_attn", fused},
      {"Wqkv", fused},
      {"qkv_proj", fused},
      {"q_a_proj", {.query_down = true}},
      {"kv_a_proj_with_mqa", {.key_value_down = true}},
      {"kv_b_proj", {.key_value_up = true}},
      {"o_proj", out},
      {"out_proj", out},
      {"o", out},
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
      {"c_proj", {.attention_out = true, .down = true}},
      {"mlp", {.gate = true, .up = true, .down = true}},
      {"embed_tokens", table},
      {"wte", table},
      {"embed_in", table},
      {"word_embeddings", table},
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
                                     &lora_targets::shared_expert_gate,
                                     &lora_targets::other,
                                     &lora_targets::embedding,
                                     &lora_targets::head})
    sum.*target = sum.*target || more.*target;
}

}  // namespace

std::optional<lora_targets> targets_of(std::string_view names,
                                       const gpuplan::transformer& model,
                                       std::string& unknown) {
  lora_targets targets;
  // A remark may follow: "q_proj,v_proj (PEFT default for qwen2)".
  names = names.substr(0, names.find(" ("));
  while (!names.empty()) {
    const std::size_t end = std::min(names.find_first_of(",+"), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    const bool is_encoder =
        model.kind == gpuplan::model_kind::encoder || model.kind == gpuplan::model_kind::vision;
    if (name == "dense") {
      // An encoder calls three of its layers so, and those that pool or precede the head.
      add(targets,
          is_encoder ? lora_targets{.attention_out = true, .up = true, .down = true, .other = true}
                     : lora_targets{.attention_out = true});
      continue;
    }
    const auto found = known_names().find(name);
    if (found == known_names().end()) {
      unknown = name;
      return {};
    }
    add(targets, found->second);
  }
  return targets;
}

}  // namespace accuracy

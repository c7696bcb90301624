#pragma once

// Parts of layers that are computed again, by the names that Megatron-Core's recompute_modules has.

#include <gpuplan/parallelism.hpp>

#include <iterator>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// The name of a member of `recomputed_modules`.
struct module_name {
  std::string_view name{};
  bool recomputed_modules::*is = nullptr;
};
inline constexpr module_name module_names[] = {
    {"core_attn", &recomputed_modules::core_attention},
    {"mla_up_proj", &recomputed_modules::latent_projections},
    {"layernorm", &recomputed_modules::norms},
    {"mlp", &recomputed_modules::mlp},
    {"moe", &recomputed_modules::experts},
    {"moe_act", &recomputed_modules::expert_activation},
    {"shared_experts", &recomputed_modules::shared_experts}};

/// Adds the part of this name; false where none has it.
[[nodiscard]] constexpr bool add_module(std::string_view name, recomputed_modules& to) {
  for (const module_name& one : module_names)
    if (one.name == name) return to.*one.is = true;
  return false;
}

/// "core_attn, mla_up_proj, ... or shared_experts".
[[nodiscard]] inline std::string list_of_modules() {
  std::string list;
  for (const module_name& one : module_names) {
    const bool is_last = &one + 1 == std::end(module_names);
    list += (list.empty() ? "" : is_last ? " or " : ", ") + std::string(one.name);
  }
  return list;
}

}  // namespace gpuplan::io

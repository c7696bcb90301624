#pragma once

// The members of a training_config, one after the other, and what they say of each other.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/io/trainer/members.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// Calls `function(name, member)` for each member of a config, in their order.
template <class Config, class Function>
void for_each_member(Config& config, Function&& function) {
  detail::for_each_member([&](const char* name, auto member) { function(name, config.*member); });
}

using detail::is_said;  // NOLINT(misc-unused-using-decls): what readers and writers call

/// Whether a config says that the member is this.
template <class T>
[[nodiscard]] bool says(const known<T>& member, const T& is) {
  return member && *member == is;
}

/// Two members that cannot both be so: the first one's name, and a sentence.
struct contradiction {
  const char* member = "";
  std::string text{};
};

/// Where a config says the batch or the number of GPUs twice, and
/// differently. Degrees that it does not say may be any number.
[[nodiscard]] inline std::vector<contradiction> contradictions_in(const training_config& config) {
  std::vector<contradiction> found;
  // Whether the known ones make up `all`, or, where one is absent, divide it.
  const auto compare = [&](const char* member,
                           const known<std::int64_t>& all,
                           const std::vector<std::pair<const char*, known<std::int64_t>>>& parts) {
    if (!all) return;
    gpuplan::detail::checked_integer product = 1;
    bool is_complete = true;
    std::string text;
    for (const auto& [name, part] : parts) {
      is_complete = is_complete && part;
      if (!part || (*part == 1 && !text.empty())) continue;
      product = gpuplan::detail::checked_product(product, *part);
      text += (text.empty() ? "" : " x ") + std::string(name) + " " + std::to_string(*part);
    }
    const bool fits = product.ok && product.value > 0 &&
                      (is_complete ? *all == product.value : *all % product.value == 0);
    if (fits) return;
    found.push_back({member,
                     std::string(member) + " is " + std::to_string(*all) + ", which is not " +
                         (is_complete ? "" : "a multiple of ") + text});
  };
  compare("global_batch",
          config.global_batch,
          {{"micro_batch", config.micro_batch},
           {"accumulation", config.accumulation},
           {"data_parallel", config.data_parallel}});
  compare("gpus", config.gpus, {{"nodes", config.nodes}, {"gpus_per_node", config.gpus_per_node}});
  compare("gpus",
          config.gpus,
          {{"data_parallel", config.data_parallel},
           {"tensor_parallel", config.tensor_parallel},
           {"pipeline_parallel", config.pipeline_parallel},
           {"context_parallel", config.context_parallel}});
  if (config.shard_group && *config.shard_group > 0)
    compare("data_parallel", config.data_parallel, {{"shard_group", config.shard_group}, {"", {}}});
  return found;
}

}  // namespace gpuplan::io

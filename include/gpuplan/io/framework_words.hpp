#pragma once

// Which frameworks of the catalogue run a model, in words.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::io {

/// "of the frameworks these run it: megatron-te"; or where none does, what is in the way:
/// "none of the frameworks runs it: num_experts 256 is in the way of 20; router_bias true of
/// megatron-te". Frameworks for another kind of model are passed over where others are left. `runs`
/// says what of the setup counts, and beside it the kernels that its implementation is asked to
/// have in place of a framework's own; `of` is what the frameworks are called.
[[nodiscard]] inline std::string who_runs(const training_setup& setup,
                                          const std::string& of = "the frameworks") {
  struct obstacle {
    std::string what;
    std::vector<const char*> names;
    bool is_kind;
  };
  std::string able;
  std::vector<obstacle> all;
  bool are_kinds = true;
  for (const catalog::named_framework& known : catalog::frameworks) {
    framework by = known.framework;
    const implementation& asked = setup.framework.implementation;
    by.implementation.liger_kernels = asked.liger_kernels || by.implementation.liger_kernels;
    by.implementation.cut_cross_entropy =
        asked.cut_cross_entropy || by.implementation.cut_cross_entropy;
    by.implementation.compiles_layers = asked.compiles_layers;
    by.implementation.compiles_loss = asked.compiles_loss;
    const auto can = catalog::runs(by, setup);
    if (can) {
      able += (able.empty() ? "" : ", ") + std::string(known.name);
      continue;
    }
    // "num_experts 256" of "num_experts 256 is not taken beside ...", or the whole sentence
    const failure_text text(can.why());
    std::string_view what = text.c_str();
    what = what.substr(0, what.find(" is not taken"));
    std::size_t at = 0;
    while (at < all.size() && all[at].what != what) ++at;
    const fact fault = can.why().at_fault();
    const bool is_kind = fault == fact::model_kind || fault == fact::composite;
    if (at == all.size()) all.push_back({std::string(what), {}, is_kind});
    all[at].names.push_back(known.name);
    are_kinds = are_kinds && is_kind;
  }
  if (!able.empty()) return "of " + of + " these run it: " + able;
  std::string why;
  for (const obstacle& one : all) {
    if (one.is_kind && !are_kinds) continue;
    why += why.empty() ? one.what + " is in the way of " : "; " + one.what + " of ";
    constexpr std::size_t most_names = 3;
    if (one.names.size() > most_names) {
      why += std::to_string(one.names.size());
      continue;
    }
    for (std::size_t at = 0; at < one.names.size(); ++at)
      why += (at == 0                      ? ""
              : at + 1 == one.names.size() ? " and "
                                           : ", ") +
             std::string(one.names[at]);
  }
  return "none of " + of + " runs it: " + why;
}

}  // namespace gpuplan::io

#pragma once

// Which frameworks of the catalogue run a model: by its name, the `model_type` of its config.json
// or its class, and by what `validate` says of a setup.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace gpuplan::catalog {

/// A framework by a short name, as `--framework` of the programs takes it.
struct named_framework {
  const char* name = "";
  gpuplan::framework framework{};
};

/// Those that have a name, in the order of the lists: they train a model as they stand, each
/// implementation once.
inline constexpr auto frameworks = [] {
  constexpr auto has_name = [](const listed_framework& one) { return *one.name != '\0'; };
  constexpr auto size = std::count_if(listed_frameworks.begin(), listed_frameworks.end(), has_name);
  std::array<named_framework, size> named{};
  std::size_t count = 0;
  for (const listed_framework& one : listed_frameworks)
    if (has_name(one)) named[count++] = {one.name, *one.software};
  return named;
}();

/// The framework of this name. Case does not matter, nor which punctuation there is. Errors:
/// `unknown_framework` with the nearest name.
[[nodiscard]] constexpr result<named_framework> find_framework(std::string_view name) {
  for (const named_framework& known : frameworks)
    if (gpuplan::detail::same_but_for_marks(name, known.name)) return known;
  using gpuplan::detail::plain_name;
  gpuplan::detail::nearest_name nearest(name, plain_name(name));
  for (const named_framework& known : frameworks)
    nearest.offer(known.name, plain_name(known.name), known.name);
  return failure(errc::unknown_framework).about(nearest.id());
}

/// The line of transformers' implementation of a model that is called so: by its id in the
/// catalogue ("llama-3-8b"), the `model_type` of its config.json ("gemma3_text"), or its class
/// among the `architectures` ("Qwen2ForCausalLM"); the longest beginning counts. Case does not
/// matter. None where there is none.
[[nodiscard]] constexpr const listed_framework* listed_implementation_of(std::string_view model) {
  const auto begins = [&](std::string_view with) {
    if (model.size() < with.size()) return false;
    for (std::size_t at = 0; at < with.size(); ++at)
      if (gpuplan::detail::lower(model[at]) != with[at]) return false;
    return true;
  };
  std::size_t longest = 0;
  const listed_framework* found = nullptr;
  for (const listed_framework& known : listed_frameworks)
    for (const char* with : known.models)
      if (with != nullptr && std::string_view(with).size() > longest && begins(with)) {
        longest = std::string_view(with).size();
        found = &known;
      }
  return found;
}

/// Likewise, the framework. Whether it has what this model has is for `runs`. Errors:
/// `no_implementation`.
[[nodiscard]] constexpr result<named_framework> implementation_of(std::string_view model) {
  const listed_framework* const found = listed_implementation_of(model);
  if (found == nullptr) return failure(errc::no_implementation);
  return named_framework{found->name, *found->software};
}

/// A model of several parts of the catalogue as the implementation of its name trains it: its parts
/// in the order of those classes, each by the implementation of the part's own name. Errors:
/// `no_implementation`, about the model or the part.
[[nodiscard]] constexpr result<composite_model> as_trained(const composite_model& given) {
  const listed_framework* const whole = listed_implementation_of(given.name);
  if (whole == nullptr || !whole->software->layers().runs_composites ||
      (whole->software->layers().has_robots && given.actions.embodiments == 0))
    return failure(errc::no_implementation).about(given.name);
  composite_model model = given;
  bool is_taken[composite_model::most_parts]{};
  for (int at = 0; at < composite_model::most_parts; ++at) {
    const layer_class* const by = whole->software->layers().parts[at];
    if (by == nullptr) break;
    model.parts[at].by = nullptr;
    for (int from = 0; from < given.size(); ++from) {
      const listed_framework* const own = listed_implementation_of(given.parts[from].model.name);
      if (is_taken[from] || own == nullptr || own->software->implementation.layers != by) continue;
      model.parts[at] = given.parts[from];
      model.parts[at].by = &own->software->implementation;
      is_taken[from] = true;
      break;
    }
    if (model.parts[at].by == nullptr)
      return failure(errc::no_implementation).about(given.parts[at].model.name);
  }
  return model;
}

/// Whether the framework trains the setup's model, undivided and whole, in one of its usual
/// formats: of the setup, the model, its lengths and its encodings count. Errors: those of the
/// first format.
[[nodiscard]] constexpr result<bool> runs(const framework& software, const training_setup& given) {
  training_setup setup{.model = given.model,
                       .composite = given.composite,
                       .sequence_length = given.sequence_length,
                       .target_length = given.target_length,
                       .encodings = given.encodings,
                       .framework = software};
  failure why;
  for (const precision_recipe& recipe : {bf16_mixed, bf16_master, bf16_megatron, fp32_precision}) {
    setup.precision = recipe;
    auto valid = validate(setup);
    if (!valid && valid.why().at_fault() == fact::zero_stage) {
      setup.parallelism.zero_stage = 3;  // what shares weights has no other
      valid = validate(setup);
    }
    if (valid) return true;
    if (!gpuplan::detail::failed(why)) why = valid.why();
  }
  return why;
}

/// Frameworks of the catalogue, in its order.
struct framework_list {
  const named_framework* entries[frameworks.size()]{};
  std::size_t count = 0;

  [[nodiscard]] constexpr const named_framework* const* begin() const { return entries; }
  [[nodiscard]] constexpr const named_framework* const* end() const { return entries + count; }
};

/// Those that run the setup's model, as `runs` says.
[[nodiscard]] constexpr framework_list frameworks_for(const training_setup& setup) {
  framework_list all;
  for (const named_framework& known : frameworks)
    if (runs(known.framework, setup)) all.entries[all.count++] = &known;
  return all;
}

}  // namespace gpuplan::catalog

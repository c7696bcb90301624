#pragma once

// Which models of the catalogue people mean by the names that they write.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/detail/name_words.hpp>

#include <cstddef>
#include <iterator>
#include <string_view>

namespace gpuplan::catalog {

/// Models of the catalogue, in its order.
struct model_list {
  const published_model* entries[std::size(models)]{};
  std::size_t count = 0;

  [[nodiscard]] constexpr const published_model* const* begin() const { return entries; }
  [[nodiscard]] constexpr const published_model* const* end() const { return entries + count; }
};

}  // namespace gpuplan::catalog

namespace gpuplan::detail {

// Words that tell versions of a model of one shape from each other: how it was trained further, how
// its file is stored.
constexpr bool tells_versions(std::string_view word) {
  return is_one_of(
      word,
      " meta nvidia instruct it chat base pt hf instruction tuned preview 8k gguf gptq "
      "awq bnb 4bit 8bit int4 int8 fp8 bf16 mlx unsloth ");
}
// A number of a version or a date: "v1.0", "2507".
constexpr bool is_version(std::string_view word) {
  if (word.size() > 1 && word[0] == 'v' && word[1] >= '0' && word[1] <= '9') return true;
  return word.size() == 4 && number_of(word) >= 0;
}

// The words that count.
struct model_words {
  name_words units{};
  name_words parts{};

  template <class Counts>
  constexpr model_words(std::string_view name, Counts counts) {
    const name_words all(name);
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (!counts(all[at])) continue;
      units.add_word(all[at]);
      parts.add(all[at], ends_of_words::numbers);
    }
  }
};

// Those whose id has all these words: alone those that have no other, else those that have them as
// they stand, else those that have them where letters and digits part too.
constexpr catalog::model_list models_with(const model_words& wanted) {
  catalog::model_list meant;
  if (wanted.units.size() == 0) return meant;
  int best = 1;
  for (const catalog::published_model& model : catalog::models) {
    const name_words parts(model.id, ends_of_words::numbers);
    if (!parts.has_all_of(wanted.parts)) continue;
    const int likeness = wanted.parts.has_all_of(parts)                  ? 3
                         : name_words(model.id).has_all_of(wanted.units) ? 2
                                                                         : 1;
    if (likeness < best) continue;
    if (likeness > best) meant.count = 0;
    best = likeness;
    meant.entries[meant.count++] = &model;
  }
  return meant;
}

}  // namespace gpuplan::detail

namespace gpuplan::catalog {

/// The models that people mean by a name: the one that `find_model` finds; else those that have all
/// its words, "mixtral-8x7b", "llama3.1:8b", "gpt2 xl"; else those that have them but for what
/// tells versions of one shape, "Llama-3.1-8B-Instruct", "gemma-2-9b-it", and at last but for
/// numbers of versions and dates. What stands before a slash is an owner. None where no model has
/// the words.
[[nodiscard]] constexpr model_list models_named(std::string_view name) {
  name = gpuplan::detail::without_owner(name);
  if (const auto found = find_model(name)) {
    for (const published_model& model : models)
      if (std::string_view(model.id) == found->id) return {{&model}, 1};
  }
  using gpuplan::detail::is_version;
  using gpuplan::detail::model_words;
  using gpuplan::detail::models_with;
  using gpuplan::detail::tells_versions;
  model_list meant = models_with(model_words(name, [](std::string_view) { return true; }));
  if (meant.count == 0)
    meant =
        models_with(model_words(name, [](std::string_view word) { return !tells_versions(word); }));
  if (meant.count == 0)
    meant = models_with(model_words(
        name, [](std::string_view word) { return !tells_versions(word) && !is_version(word); }));
  return meant;
}

}  // namespace gpuplan::catalog

#pragma once

// Which models of the catalogue people mean by the names that they write.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/detail/name_words.hpp>

#include <cstddef>
#include <iterator>
#include <string_view>

namespace gpuplan::catalog {

/// Models of the catalogue, those that are called otherwise last.
struct model_list {
  const published_model* entries[std::size(models)]{};
  std::size_t count = 0;
  bool is_base = false;  // what is named is a fine-tune of these, by its name, which nobody checked

  [[nodiscard]] constexpr const published_model* const* begin() const { return entries; }
  [[nodiscard]] constexpr const published_model* const* end() const { return entries + count; }
};

/// Another name of a model's shape.
struct other_name {
  const char* name = "";
  const char* id = "";
};

/// Published models of a shape that the catalogue has by another name: their `safetensors.total` in
/// AlexsJones/llmfit 1.1.17 is its number of parameters, or litgpt 0.5.13 litgpt/config.py has its
/// layers, heads, widths and rows of vocabulary. Windows are taken to be those of what they were
/// trained from. Bases of rotary angles are no part of a shape.
inline constexpr other_name other_names[] = {
    {"llama-3.3-70b", "llama-3.1-70b"},
    {"llama-3.1-nemotron-70b", "llama-3.1-70b"},
    {"deepseek-r1-distill-llama-8b", "llama-3.1-8b"},
    {"deepseek-r1-distill-llama-70b", "llama-3.1-70b"},
    {"deepseek-r1-distill-qwen-7b", "qwen2.5-7b"},
    {"deepseek-r1-distill-qwen-14b", "qwen2.5-14b"},
    {"deepseek-r1-distill-qwen-32b", "qwen2.5-32b"},
    {"deepseek-r1-0528", "deepseek-r1"},
    {"deepseek-r1-0528-qwen3-8b", "qwen3-8b"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"vicuna-7b-v1.5", "llama-2-7b"},
    {"vicuna-13b-v1.5", "llama-2-13b"},
    {"codellama-7b-python", "llama-2-7b"},
    {"codellama-13b-python", "llama-2-13b"},
    {"codellama-34b-python", "codellama-34b"},
    {"codellama-70b-python", "codellama-70b"},
    {"yi-1.5-6b", "yi-6b"},
    {"yi-1.5-9b", "yi-9b"},
    {"yi-1.5-34b", "yi-34b"},
    {"yi-coder-9b", "yi-9b"},
    {"zephyr-7b-beta", "mistral-7b-v0.1"},
    {"mistral-nemo", "mistral-nemo-12b"},
    {"mistral-nemo-2407", "mistral-nemo-12b"},
    {"devstral-small-2505", "mistral-small-24b-2501"},
    {"qwen2-math-1.5b", "qwen2-1.5b"},
    {"qwen2-math-7b", "qwen2-7b"},
    {"qwen2.5-math-1.5b", "qwen2.5-1.5b"},
    {"qwen2.5-math-7b", "qwen2.5-7b"},
    {"qwen2.5-math-72b", "qwen2.5-72b"},
    {"qwen2.5-coder-0.5b", "qwen2.5-0.5b"},
    {"qwen2.5-coder-1.5b", "qwen2.5-1.5b"},
    {"qwen2.5-coder-3b", "qwen2.5-3b"},
    {"qwen2.5-coder-7b", "qwen2.5-7b"},
    {"qwen2.5-coder-14b", "qwen2.5-14b"},
    {"qwen2.5-coder-32b", "qwen2.5-32b"},
    {"qwq-32b", "qwen2.5-32b"},
    {"qwen3-coder-30b-a3b", "qwen3-30b-a3b"},
    {"qwen3-coder-next", "qwen3-next-80b-a3b"},
    {"qwen3.6-27b", "qwen3.5-27b"},
    {"qwen3.6-35b-a3b", "qwen3.5-35b-a3b"},
    {"gemma-1.1-2b", "gemma-2b"},
    {"gemma-1.1-7b", "gemma-7b"},
    {"codegemma-2b", "gemma-2b"},
    {"codegemma-7b", "gemma-7b"},
    {"gemma-3-4b-pt", "gemma-3-4b-it"},
    {"gemma-3-12b-pt", "gemma-3-12b-it"},
    {"gemma-3-27b-pt", "gemma-3-27b-it"},
    {"phi-4-reasoning", "phi-4"},
    {"phi-4-reasoning-plus", "phi-4"},
    {"phi-4-mini-reasoning", "phi-4-mini"},
    {"bloomz-560m", "bloom-560m"},
    {"bloomz-1b1", "bloom-1b1"},
    {"bloomz-1b7", "bloom-1b7"},
    {"bloomz-3b", "bloom-3b"},
    {"bloomz-7b1", "bloom-7b1"},
    {"bloomz-7b1-mt", "bloom-7b1"},
    {"bloomz-7b1-p3", "bloom-7b1"},
    {"bloomz", "bloom"},
    {"bloomz-mt", "bloom"},
    {"bloomz-p3", "bloom"},
};

}  // namespace gpuplan::catalog

namespace gpuplan::detail {

// Words that tell versions of a model of one shape from each other: how it was trained further, how
// its file is stored.
constexpr bool tells_versions(std::string_view word) {
  return is_one_of(
      word,
      " meta nvidia instruct it chat base pt hf instruction tuned thinking deduped preview 8k gguf "
      "gptq awq bnb 4bit 8bit int4 int8 fp8 bf16 mlx unsloth ");
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

constexpr const catalog::published_model* model_of_id(std::string_view id) {
  for (const catalog::published_model& model : catalog::models)
    if (id == model.id) return &model;
  return nullptr;
}

// The word that names a family: "llama" of "meta-llama-3-8b".
constexpr std::string_view family_of(const name_words& parts) {
  if (parts.size() == 0) return {};
  return parts[parts.size() > 1 && parts[0] == "meta" ? 1 : 0];
}

// Those that have all these words in a name: alone those that have no other, as they stand before
// others, else those that have them as they stand, their family among them, else those that have
// them where letters and digits part too.
class models_with_words {
 public:
  constexpr explicit models_with_words(const model_words& wanted) : wanted_(wanted) {}

  constexpr void offer(const catalog::published_model& model) {
    const name_words parts(model.id, ends_of_words::numbers);
    offer(model.id, parts, wanted_.parts.has(family_of(parts)), model);
  }
  // By another name, whose family is named: "qwen 7b" are no distillates.
  constexpr void offer(const catalog::other_name& other) {
    const name_words parts(other.name, ends_of_words::numbers);
    if (wanted_.parts.has(family_of(parts))) offer(other.name, parts, true, *model_of_id(other.id));
  }
  [[nodiscard]] constexpr const catalog::model_list& meant() const { return meant_; }

  // Keeps each of the best once.
  static constexpr void add(const catalog::published_model& model,
                            int likeness,
                            catalog::model_list& to,
                            int& best) {
    if (likeness < best) return;
    if (likeness > best) to.count = 0;
    best = likeness;
    for (const catalog::published_model* one : to)
      if (one == &model) return;
    to.entries[to.count++] = &model;
  }

 private:
  constexpr void offer(std::string_view name,
                       const name_words& parts,
                       bool has_family,
                       const catalog::published_model& model) {
    if (!parts.has_each_of(wanted_.parts)) return;
    const bool has_units = name_words(name).has_all_of(wanted_.units);
    const bool has_no_other = wanted_.parts.has_each_of(parts);
    const int likeness = has_no_other ? (has_units ? 4 : 3) : has_family && has_units ? 2 : 1;
    add(model, likeness, meant_, best_);
  }

  const model_words& wanted_;
  catalog::model_list meant_{};
  int best_ = 1;
};

constexpr catalog::model_list models_with(const model_words& wanted) {
  models_with_words found(wanted);
  if (wanted.units.size() == 0) return {};
  for (const catalog::published_model& model : catalog::models) found.offer(model);
  for (const catalog::other_name& other : catalog::other_names) found.offer(other);
  return found.meant();
}

// "7b", "0.5b", "8x7b", "a3b", "135m".
constexpr bool is_size(std::string_view word) {
  if (word.size() < 2 || (word.back() != 'b' && word.back() != 'm')) return false;
  word.remove_suffix(1);
  if (word.size() > 1 && word[0] == 'a') word.remove_prefix(1);
  if (word[0] < '0' || word[0] > '9') return false;
  return word.find_first_not_of("0123456789.x") == std::string_view::npos;
}

// Words that make another model of the one that is named beside them: parts that see or hear,
// another head, mixtures, layers cut, drafts that run beside it, rows of another vocabulary.
constexpr bool changes_shape(std::string_view word) {
  return is_one_of(
      word,
      " vision visual vl vlm llava ovis blip onevision video multimodal omni audio speech tts ocr "
      "vla moe embed embedding embeddings reranker encoder llm2vec t5gemma reward rm classifier "
      "minitron pruned sparse reap ream depth width mini draft eagle medusa speculator dflash "
      "dspark pard domino dflare hybrid mamba diffusion chinese ");
}
constexpr bool any_changes_shape(const name_words& words) {
  for (std::size_t at = 0; at < words.size(); ++at)
    if (changes_shape(words[at])) return true;
  return false;
}

// Of a fine-tune that says its base: a model of one transformer whose whole name stands in this
// one, its size too, of those with most words. Another size beside it, or a word that changes the
// shape, and it is none. Of 943 such names in AlexsJones/llmfit 1.1.17 755 have the base's
// parameters, 79 those but for 0.2 %, 48 those and a tied head once more; most others have another
// vocabulary, and some parts beside it that their names do not tell.
constexpr catalog::model_list bases_in(const model_words& name) {
  catalog::model_list meant;
  int best = 1;
  const auto offer = [&](std::string_view base, const catalog::published_model& model) {
    if (!model.has_shape) return;
    const model_words words(base, [](std::string_view word) { return !tells_versions(word); });
    bool has_size = false;
    for (std::size_t at = 0; at < words.units.size(); ++at)
      has_size = has_size || is_size(words.units[at]);
    for (std::size_t at = 0; at < name.units.size(); ++at)
      if (is_size(name.units[at]) && !words.units.has(name.units[at])) return;
    if (has_size && name.parts.has_run_of(words.parts))
      models_with_words::add(model, static_cast<int>(words.parts.size()), meant, best);
  };
  if (any_changes_shape(name.units) || any_changes_shape(name.parts)) return meant;
  for (const catalog::published_model& model : catalog::models) offer(model.id, model);
  for (const catalog::other_name& other : catalog::other_names)
    offer(other.name, *model_of_id(other.id));
  meant.is_base = meant.count != 0;
  return meant;
}

}  // namespace gpuplan::detail

namespace gpuplan::catalog {

/// The models that people mean by a name: the one that `find_model` finds; else those that have all
/// its words, as ids or `other_names`, "mixtral-8x7b", "llama3.1:8b", "gpt2 xl"; else those that
/// have them but for what tells versions of one shape, "Llama-3.1-8B-Instruct", "gemma-2-9b-it",
/// then but for numbers of versions and dates; at last the base that a fine-tune names,
/// "Hermes-3-Llama-3.1-8B". What stands before a slash is an owner. None where no model has the
/// words.
[[nodiscard]] constexpr model_list models_named(std::string_view name) {
  name = gpuplan::detail::without_owner(name);
  if (const auto found = find_model(name)) return {{gpuplan::detail::model_of_id(found->id)}, 1};
  using gpuplan::detail::is_version;
  using gpuplan::detail::model_words;
  using gpuplan::detail::models_with;
  using gpuplan::detail::tells_versions;
  model_list meant = models_with(model_words(name, [](std::string_view) { return true; }));
  if (meant.count != 0) return meant;
  const model_words shape(name, [](std::string_view word) { return !tells_versions(word); });
  meant = models_with(shape);
  if (meant.count == 0)
    meant = models_with(model_words(
        name, [](std::string_view word) { return !tells_versions(word) && !is_version(word); }));
  if (meant.count == 0) meant = gpuplan::detail::bases_in(shape);
  return meant;
}

/// The id that is near to a name by which no model is meant: of the same family, by its first word,
/// or that name but for a few characters. Empty where none is.
[[nodiscard]] constexpr std::string_view nearest_model(std::string_view name) {
  using gpuplan::detail::ends_of_words;
  using gpuplan::detail::name_words;
  name = gpuplan::detail::without_owner(name);
  const auto wanted = gpuplan::detail::plain_model_name(name);
  const std::string_view id = gpuplan::detail::nearest_model_id(name);
  const name_words parts(id, ends_of_words::numbers);
  if (wanted.size == 0) return {};
  if (name_words(name, ends_of_words::numbers).has(gpuplan::detail::family_of(parts))) return id;
  const int few = wanted.size / 4;
  const auto candidate = gpuplan::detail::plain_model_name(id);
  return gpuplan::detail::infix_distance(wanted, candidate, few) <= few ? id : std::string_view();
}

}  // namespace gpuplan::catalog

#pragma once

// Which devices of the catalogue people mean by the names that they write.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/detail/name_words.hpp>
#include <gpuplan/gpu.hpp>

#include <cstddef>
#include <iterator>
#include <string_view>

namespace gpuplan::catalog {

/// Devices of the catalogue, in its order.
struct gpu_list {
  const gpu_spec* entries[std::size(gpus)]{};
  std::size_t count = 0;

  [[nodiscard]] constexpr const gpu_spec* const* begin() const { return entries; }
  [[nodiscard]] constexpr const gpu_spec* const* end() const { return entries + count; }
};

}  // namespace gpuplan::catalog

namespace gpuplan::detail {

// What a name says of a device: its words, and the memory that stands among them, 80 of
// "A100-80GB".
struct gpu_words {
  name_words units{};   // "a100"
  name_words parts{};   // "a", "100"
  name_words proper{};  // parts that are no brand
  int memory_GB = 0;    // 0: not said

  constexpr gpu_words() = default;
  constexpr explicit gpu_words(std::string_view name) { add(name); }

  constexpr void add(std::string_view name) {
    const name_words all(name);
    for (std::size_t at = 0; at < all.size(); ++at) {
      const std::string_view word = all[at];
      if (is_one_of(word, makers)) continue;
      std::size_t digits = 0;
      while (digits < word.size() && word[digits] >= '0' && word[digits] <= '9') ++digits;
      const int number = number_of(word.substr(0, digits));
      const bool has_unit = is_one_of(word.substr(digits), units_of_memory);
      const bool has_unit_behind =
          digits == word.size() && at + 1 < all.size() && is_one_of(all[at + 1], units_of_memory);
      if (number > 0 && (has_unit || has_unit_behind)) {
        memory_GB = number;
        if (has_unit_behind) ++at;
        continue;
      }
      units.add_word(word);
      const name_words split(word, ends_of_words::numbers);
      for (std::size_t part = 0; part < split.size(); ++part) {
        parts.add_word(split[part]);
        if (!is_one_of(split[part], brands)) proper.add_word(split[part]);
      }
    }
  }

 private:
  static constexpr std::string_view makers =
      " nvidia tesla geforce amd instinct radeon intel habana google aws gpu graphics card tensor "
      "core ";
  static constexpr std::string_view brands = " rtx quadro ";
  static constexpr std::string_view units_of_memory = " g gb gib ";
};

// Whether the letters and digits of a word follow each other in a name, whatever marks stand
// between them.
constexpr bool may_have(std::string_view name, std::string_view word) {
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    std::size_t same = 0;
    for (std::size_t at = begin; at < name.size() && same < word.size(); ++at) {
      if (lower(name[at]) == word[same])
        ++same;
      else if (same == 0 || letter_or_digit(name[at]))
        break;
    }
    if (same == word.size()) return true;
  }
  return false;
}
// What no device lacks whose words are those of a name: few have it, and words take a compiler long
// to tell.
constexpr bool may_be(const gpu_words& wanted, const gpu_spec& gpu) {
  for (std::size_t at = 0; at < wanted.proper.size(); ++at) {
    const std::string_view word = wanted.proper[at];
    bool has = may_have(gpu.id, word) || may_have(gpu.name, word);
    for (const char* name : gpu.driver_names)
      if (name != nullptr && !has) has = may_have(name, word);
    if (!has) return false;
  }
  return true;
}

// How well a name says which device: 0 where it does not.
constexpr int likeness(const gpu_words& wanted, const gpu_spec& gpu) {
  if (wanted.units.size() == 0 && wanted.memory_GB == 0) return 0;
  if (wanted.memory_GB != 0 && wanted.memory_GB != gpu.memory_label_GB) return 0;
  if (!may_be(wanted, gpu)) return 0;
  const gpu_words id(gpu.id);
  if (wanted.proper.size() != 0 && wanted.proper.joined() == id.proper.joined()) return 3;
  gpu_words known = id;
  known.add(gpu.name);
  for (const char* name : gpu.driver_names)
    if (name != nullptr) known.add(name);
  if (known.units.has_all_of(wanted.units)) return 2;
  return known.parts.has_all_of(wanted.parts) ? 1 : 0;
}

}  // namespace gpuplan::detail

namespace gpuplan::catalog {

/// The devices that people mean by a name: the one of this id or driver's name, as `find_gpu` has
/// it, but for MIG slices; else those whose id is the name but for words such as "NVIDIA",
/// "GeForce" and "RTX" and the memory ("4090", "RTX A6000", "4080": not the 4080 SUPER), else those
/// that have all its words ("h100": three; "H100 PCIe": one), else those that have them where
/// letters and digits part too ("rtx4090ti", "h100sxm"). A memory in the name, "80GB" or "80 G", is
/// as sold, and must be the device's. None where no device has all the words.
[[nodiscard]] constexpr gpu_list gpus_named(std::string_view name) {
  gpu_list meant;
  const gpuplan::detail::plain_name plain = gpuplan::detail::plain_gpu_name(name);
  const gpuplan::detail::gpu_words wanted(name);
  int best = 1;
  for (const gpu_spec* gpu : gpus) {
    int likeness = gpuplan::detail::likeness(wanted, *gpu);
    for (const char* known :
         {gpu->id, gpu->driver_names[0], gpu->driver_names[1], gpu->driver_names[2]})
      if (known != nullptr && gpuplan::detail::plain_gpu_name(known) == plain) likeness = 4;
    if (likeness < best) continue;
    if (likeness > best) meant.count = 0;
    best = likeness;
    meant.entries[meant.count++] = gpu;
  }
  return meant;
}

}  // namespace gpuplan::catalog

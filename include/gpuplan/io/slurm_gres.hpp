#pragma once

// Lists as Slurm writes them, and the GPUs in those of generic resources. Private.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gpuplan::io::detail {

// Digits alone.
[[nodiscard]] inline std::int64_t count_of(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && count >= 0 && count <= 1'000'000 ? count : -1;
}

// Splits at commas that stand in no brackets: "gpu:a100:4(S:0,1),nvme:1", "n[1,3],m1".
[[nodiscard]] inline std::vector<std::string_view> parts_of_list(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && (text[at] == '(' || text[at] == '[')) ++depth;
    if (at < text.size() && (text[at] == ')' || text[at] == ']')) --depth;
    if (at < text.size() && !(text[at] == ',' && depth <= 0)) continue;
    if (at > begin) parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  return parts;
}

struct slurm_gres {
  std::string type{};
  std::int64_t count = 0;
};
// "gpu:a100:4(S:0-1)", "gpu:4" or "gpu:a100", which is one; what is no GPU has none.
[[nodiscard]] inline std::vector<slurm_gres> gpus_in(std::string_view gres) {
  std::vector<slurm_gres> found;
  for (std::string_view part : parts_of_list(gres)) {
    part = part.substr(0, part.find('('));
    if (part == "gpu") found.push_back({"", 1});
    if (part.substr(0, 4) != "gpu:") continue;
    part.remove_prefix(4);
    const std::size_t colon = part.rfind(':');
    const std::int64_t count =
        count_of(colon == std::string_view::npos ? part : part.substr(colon + 1));
    if (count >= 0)
      found.push_back(
          {std::string(colon == std::string_view::npos ? "" : part.substr(0, colon)), count});
    else if (colon == std::string_view::npos)
      found.push_back({std::string(part), 1});
  }
  return found;
}

}  // namespace gpuplan::io::detail

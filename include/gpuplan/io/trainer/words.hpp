#pragma once

// Words of a command line as values, and back.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gpuplan::io::detail {

/// A whole number, a finite number, or the text.
[[nodiscard]] inline value value_of_word(std::string_view word) {
  const char* const end = word.data() + word.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(word.data(), end, whole);
      read.ec == std::errc() && read.ptr == end)
    return whole;
  double number = 0;
  if (const auto read = std::from_chars(word.data(), end, number);
      read.ec == std::errc() && read.ptr == end && std::isfinite(number))
    return number;
  return word;
}

/// A number or a text as a word.
[[nodiscard]] inline std::string plain_word(const value& is) {
  if (const bool* const flag = is.flag()) return *flag ? "true" : "false";
  if (const std::int64_t* const whole = is.integer()) return std::to_string(*whole);
  if (const double* const number = is.number()) return decimal(*number, cell::shortest);
  return is.text() != nullptr ? *is.text() : "null";
}

/// Of a command line that is read: a reader looks through all of them for each.
inline constexpr std::size_t most_flag_words = std::size_t{1} << 13;

/// Flags with their values, as members: `--lr 1e-4`, `--lr=1e-4`; true where a flag has none, a
/// list where it has several. The last of a flag counts. Words that belong to no flag are named.
[[nodiscard]] inline value flags_of_words(const std::vector<std::string>& words, read_config& to) {
  const auto is_flag = [](const std::string& word) {
    return word.size() > 2 && word[0] == '-' && word[1] == '-' && word[2] != '-';
  };
  value made = value::object();
  for (std::size_t at = 0; at < words.size();) {
    std::string name = words[at++];
    if (!is_flag(name)) {
      to.not_understood.push_back(printable(name.substr(0, 80)));
      continue;
    }
    value::list values;
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      values.push_back(value_of_word(std::string_view(name).substr(equals + 1)));
      name.resize(equals);
    } else {
      for (; at < words.size() && !is_flag(words[at]); ++at)
        values.push_back(value_of_word(words[at]));
    }
    value is = true;
    if (values.size() == 1) is = values.front();
    if (values.size() > 1) is = std::move(values);
    made.members()->emplace_back(std::move(name), std::move(is));
  }
  return made;
}

}  // namespace gpuplan::io::detail

#pragma once

// What --help prints.

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class FormatterBase;
class Option;
}  // namespace CLI

namespace guides {

/// Prints options as manual pages do: `--batch N`, `--goal time|money|memory`, with what they mean,
/// their default and whether they must be given beside them, in lines of at most so many
/// characters, and at most 100.
inline constexpr int widest_help = 100;
std::shared_ptr<CLI::FormatterBase> help_page(int width = widest_help);

/// What help, manual and completion say of an option.
struct option_words {
  std::vector<std::string> names;    // "-h", "--help"; of an argument none
  std::string value;                 // "N", "FILE", "text|csv"; empty: it takes none
  std::vector<std::string> choices;  // where there is a list of them
  std::string meaning;
};
[[nodiscard]] option_words words_of(const CLI::Option& option);

}  // namespace guides

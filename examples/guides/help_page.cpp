#include "guides/help_page.hpp"

#include <gpuplan/io/text.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace guides {
namespace {

constexpr std::size_t indent = 30;

// CLI11 tells a type and what is checked as "TEXT:{a,b}", "INT:INT in [1 - 8]", ":{a->0,b->1} OR
// {0,1}".
std::vector<std::string> choices(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return words;
  for (const std::string& word : CLI::detail::split(type.substr(begin + 1, end - begin - 1), ','))
    words.push_back(word.substr(0, word.find("->")));
  return words;
}

std::string joined(const std::vector<std::string>& words, const char* separator) {
  return CLI::detail::join(words, separator);
}

bool is_short(const std::vector<std::string>& words) { return joined(words, "|").size() <= 44; }

// "--list", or "-h, --help"; CLI11 tells what a flag sets as "--no-list{false}".
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : CLI::detail::split(option.get_name(false, true), ','))
    names += (names.empty() ? "" : ", ") + name.substr(0, name.find('{'));
  return names;
}

std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};  // a flag
  const std::string type = option.get_type_name();
  const std::vector<std::string> words = choices(type);
  const std::string name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT" || name == "FLOAT") return " N";
  if (!name.empty() && name != "TEXT") return " " + name;
  if (!words.empty() && is_short(words)) return " " + joined(words, "|");
  const bool is_number = type.find("in [") != std::string::npos ||
                         type.find("POSITIVE") != std::string::npos ||
                         type.find("NONNEGATIVE") != std::string::npos;
  return is_number ? " N" : words.empty() ? " VALUE" : " NAME";
}

std::string meaning_of(const CLI::Option& option) {
  std::string text = option.get_description();
  const std::vector<std::string> words = choices(option.get_type_name());
  if (!is_short(words)) text += ": " + joined(words, ", ");
  if (!option.get_default_str().empty()) text += " (default: " + option.get_default_str() + ")";
  if (option.get_required() && option.nonpositional()) text += " (required)";
  const auto add_others = [&](const char* before, const std::set<CLI::Option*>& others) {
    std::set<std::string> names;  // the set of options has them as they lie in memory
    for (const CLI::Option* other : others) names.insert(other->get_name());
    for (const std::string& name : names) {
      text += before + name;
      before = ", ";
    }
  };
  add_others("; with ", option.get_needs());
  add_others("; not with ", option.get_excludes());
  return text;
}

}  // namespace

option_words words_of(const CLI::Option& option) {
  std::string value = value_of(option);
  if (!value.empty()) value.erase(0, 1);
  return {.names = CLI::detail::split(names_of(option), ','),
          .value = value,
          .choices = choices(option.get_type_name()),
          .meaning = meaning_of(option)};
}

namespace {

// Paragraphs whose lines are too long, in lines that are not; what is indented stays as it is.
std::string rewrapped(const std::string& text, int width) {
  std::vector<std::string> paragraphs(1);
  for (const std::string& line : CLI::detail::split(text, '\n')) {
    const bool goes_on = !line.empty() && line.front() != ' ' && !paragraphs.back().empty() &&
                         paragraphs.back().front() != ' ';
    if (goes_on)
      paragraphs.back() += ' ' + line;
    else
      paragraphs.push_back(line);
  }
  std::string all;
  for (std::size_t i = 1; i < paragraphs.size(); ++i) {
    const bool is_indented = !paragraphs[i].empty() && paragraphs[i].front() == ' ';
    all += (is_indented ? paragraphs[i] : joined(gpuplan::io::wrap(paragraphs[i], width), "\n")) +
           '\n';
  }
  return all;
}

class page : public CLI::Formatter {
 public:
  explicit page(int width) : width_(width) {
    label("OPTIONS", "options");
    label("Positionals", "Arguments");
  }

  std::string make_description(const CLI::App* app) const override {
    const std::string text = CLI::Formatter::make_description(app);
    return width_ < widest_help ? rewrapped(text, width_) : text;
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string line =
        "  " + (is_positional ? option->get_name(true) : names_of(*option) + value_of(*option));
    // what is too long for its column stands above what it means
    if (line.size() + 2 > indent) {
      line += '\n' + std::string(indent, ' ');
    } else {
      line.resize(indent, ' ');
    }
    const std::vector<std::string> lines =
        gpuplan::io::wrap(meaning_of(*option), width_ - static_cast<int>(indent));
    return line + joined(lines, ('\n' + std::string(indent, ' ')).c_str()) + '\n';
  }

 private:
  int width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_page(int width) {
  return std::make_shared<page>(std::min(width, widest_help));
}

}  // namespace guides

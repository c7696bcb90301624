#pragma once

// Settings in YAML. Needs yaml-cpp (Debian's libyaml-cpp-dev; link yaml-cpp), which nothing else
// does.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/value.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

// Whether YAML 1.1, which PyYAML reads, has the word as true or false.
[[nodiscard]] inline value flag_or_text(const std::string& word) {
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (word == yes) return true;
  for (const char* no : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (word == no) return false;
  return word;
}

// A word without quotes: a number as most trainers take it, so 1e-4 too, which PyYAML alone has as
// a text; nothing, true or false; or a text.
[[nodiscard]] inline value plain_scalar(const std::string& word) {
  if (word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL") return {};
  std::string digits = word;
  if (digits.front() == '+') digits.erase(0, 1);
  std::erase(digits, '_');
  const char* const first = digits.data();
  const char* const last = first + digits.size();
  const bool may_be_number = !digits.empty() &&
                             digits.find_first_not_of("0123456789+-.eE") == std::string::npos &&
                             digits.find_first_of("0123456789") != std::string::npos;
  if (!may_be_number || word.front() == '_') return flag_or_text(word);
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(first, last, whole);
      read.ec == std::errc{} && read.ptr == last)
    return whole;
  double number = 0;
  if (const auto read = std::from_chars(first, last, number);
      read.ec == std::errc{} && read.ptr == last)
    return number;
  return word;
}

// Adds what a merge key (<<) holds: a map, or a list of maps, of which earlier ones go before later
// ones. In `to` the last member of a name counts.
inline void merge(const YAML::Node& key,
                  const YAML::Node& node,
                  const value& held,
                  value::object& to) {
  const auto add = [&](const value& map) {
    const value::object* const members = map.members();
    if (members == nullptr)
      throw YAML::Exception(
          key.Mark(),
          "<< is " +
              (held.items() != nullptr ? "a list with more than maps"
                                       : '"' + node.Scalar().substr(0, 80) + '"') +
              "; a map or a list of maps is taken");
    for (const auto& member : *members) to.push_back(member);
  };
  const value::list* const maps = held.items();
  if (maps == nullptr) return add(held);
  for (std::size_t at = maps->size(); at-- > 0;) add((*maps)[at]);
}

// Of several members of a name the last, behind those that no later one replaces. Each is held
// against all others, so that there may not be many.
[[nodiscard]] inline value::object last_of_each(const value::object& members) {
  constexpr std::size_t most = 1024;
  if (members.size() > most)
    throw std::length_error("a map with << has more than " + std::to_string(most) + " keys");
  value::object made;
  for (std::size_t at = 0; at < members.size(); ++at) {
    bool is_last = true;
    for (std::size_t later = at + 1; later < members.size() && is_last; ++later)
      is_last = members[later].first != members[at].first;
    if (is_last) made.push_back(members[at]);
  }
  return made;
}

// `left`: values that may still be read; an alias is read again wherever it stands, so a few lines
// could stand for more than any memory holds.
[[nodiscard]] inline value value_of(const YAML::Node& node, int depth, std::size_t& left) {
  if (depth > most_depth_of_settings)
    throw std::length_error("it nests deeper than " + std::to_string(most_depth_of_settings) +
                            " levels");
  if (left-- == 0)
    throw std::length_error("it holds more than " + std::to_string(most_values) + " values");
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      if (node.Tag() == "!") return node.Scalar();  // in quotes
      return plain_scalar(node.Scalar());
    case YAML::NodeType::Sequence: {
      value::list items;
      for (const YAML::Node& item : node) items.push_back(value_of(item, depth + 1, left));
      return items;
    }
    case YAML::NodeType::Map: {
      value::object merged;
      value::object members;
      for (const auto& member : node) {
        if (!member.first.IsScalar()) throw std::length_error("a key of it is no word");
        value held = value_of(member.second, depth + 1, left);
        if (member.first.Scalar() == "<<" && member.first.Tag() != "!")  // not in quotes
          merge(member.first, member.second, held, merged);
        else
          members.emplace_back(member.first.Scalar(), std::move(held));
      }
      if (merged.empty()) return members;
      for (auto& member : members) merged.push_back(std::move(member));
      return last_of_each(merged);
    }
    default:
      return {};
  }
}

// A text up to the "---" of its next document, and the rest. What has only comments and directives
// before it is the beginning of the same. (YAML::LoadAll never ends on a text such as ", a".)
[[nodiscard]] inline std::string_view take_document(std::string_view& text) {
  bool has_content = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const bool is_mark =
        line.substr(0, 3) == "---" &&
        (line.size() == 3 || std::string_view(" \t\r").find(line[3]) != std::string_view::npos);
    if (is_mark && has_content) {
      const std::string_view document = text.substr(0, at);
      text.remove_prefix(at);
      return document;
    }
    const std::size_t first = line.find_first_not_of(" \t\r");
    has_content = has_content || is_mark ||
                  (first != std::string_view::npos && line[first] != '#' && line[0] != '%');
    at += line.size() + 1;
  }
  return std::exchange(text, std::string_view());
}

inline void emit(YAML::Emitter& to, const value& is) {
  if (const bool* const flag = is.flag()) {
    to << *flag;
  } else if (const std::int64_t* const integer = is.integer()) {
    to << *integer;
  } else if (const double* const number = is.number()) {
    // PyYAML reads a number with an exponent only where it has a point.
    std::string digits = decimal(*number, -1);
    if (const std::size_t exponent = digits.find('e');
        exponent != std::string::npos && digits.find('.') == std::string::npos)
      digits.insert(exponent, ".0");
    else if (std::isfinite(*number) && digits.find_first_of(".e") == std::string::npos)
      digits += ".0";
    to << digits;
  } else if (const std::string* const text = is.text()) {
    const value read_back = plain_scalar(*text);
    if (!read_back.text()) to << YAML::DoubleQuoted;
    to << *text;
  } else if (const value::list* const items = is.items()) {
    if (items->empty()) to << YAML::Flow;
    to << YAML::BeginSeq;
    for (const value& item : *items) emit(to, item);
    to << YAML::EndSeq;
  } else if (const value::object* const members = is.members()) {
    if (members->empty()) to << YAML::Flow;
    to << YAML::BeginMap;
    for (const auto& [name, member] : *members) {
      to << YAML::Key << name << YAML::Value;
      emit(to, member);
    }
    to << YAML::EndMap;
  } else {
    to << YAML::Null;
  }
}

}  // namespace detail

/// The documents of a text, or what is wrong with it.
struct parsed_documents {
  std::vector<value> are{};
  std::string why{};  // as `parsed_value` has it

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

/// What the documents of a text in YAML hold. Words without quotes are numbers, true and
/// false, or nothing, where YAML 1.1 has them so; 1e-4 is a number too. Aliases and merge keys (<<)
/// are followed, as PyYAML does. Refused: what is no YAML, merge keys of what is no map, and what
/// exceeds `most_of_settings`, `most_depth_of_settings` or, with aliases written out,
/// `most_values`.
[[nodiscard]] inline parsed_documents parse_yaml_documents(std::string_view text) {
  if (text.size() > most_of_settings)
    return {{}, "it has more than " + std::to_string(most_of_settings >> 20) + " MiB"};
  std::int64_t lines = 1;  // before a document, and its first
  try {
    std::size_t left = most_values;
    parsed_documents made;
    while (!text.empty()) {
      const std::string document(detail::take_document(text));
      made.are.push_back(detail::value_of(YAML::Load(document), 1, left));
      lines += std::count(document.begin(), document.end(), '\n');
    }
    return made;
  } catch (const YAML::Exception& wrong) {
    const std::string line =
        wrong.mark.is_null() ? "" : "line " + std::to_string(wrong.mark.line + lines) + ": ";
    return {{}, printable(line + wrong.msg)};
  } catch (const std::length_error& wrong) {
    return {{}, wrong.what()};
  }
}

/// What the first of them holds.
[[nodiscard]] inline parsed_value parse_yaml(std::string_view text) {
  parsed_documents all = parse_yaml_documents(text);
  return {all.are.empty() ? value() : std::move(all.are[0]), std::move(all.why)};
}

/// The value in YAML as PyYAML reads it: two spaces a level, texts in quotes only where they would
/// be something else, an end of line.
[[nodiscard]] inline std::string to_yaml(const value& is) {
  YAML::Emitter out;
  detail::emit(out, is);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace gpuplan::io

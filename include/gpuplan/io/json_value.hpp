#pragma once

// Settings in JSON. Needs nlohmann/json, as json.hpp does.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/json_depth.hpp>
#include <gpuplan/io/value.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail {

[[nodiscard]] inline value value_of(const nlohmann::ordered_json& json) {
  using kind = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case kind::boolean:
      return json.get<bool>();
    case kind::number_unsigned:
      if (json.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return json.get<double>();
      return json.get<std::int64_t>();
    case kind::number_integer:
      return json.get<std::int64_t>();
    case kind::number_float:
      return json.get<double>();
    case kind::string:
      return json.get<std::string>();
    case kind::array: {
      value::list items;
      for (const auto& item : json) items.push_back(value_of(item));
      return items;
    }
    case kind::object: {
      value::object members;
      for (const auto& [name, member] : json.items()) members.emplace_back(name, value_of(member));
      return members;
    }
    default:
      return {};
  }
}

[[nodiscard]] inline nlohmann::ordered_json json_of(const value& is) {
  if (const bool* const flag = is.flag()) return *flag;
  if (const std::int64_t* const integer = is.integer()) return *integer;
  if (const double* const number = is.number()) {
    if (std::isfinite(*number)) return *number;
    return nullptr;
  }
  if (const std::string* const text = is.text()) return *text;
  if (const value::list* const items = is.items()) {
    auto array = nlohmann::ordered_json::array();
    for (const value& item : *items) array.push_back(json_of(item));
    return array;
  }
  if (const value::object* const members = is.members()) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& [name, member] : *members) object[name] = json_of(member);
    return object;
  }
  return nullptr;
}

}  // namespace detail

/// What a text in JSON holds. Refused: what is no JSON, nests deeper than `most_json_depth`, or is
/// longer than `most_of_settings`. Comments (`//`, as DeepSpeed's examples have them) are passed
/// over.
[[nodiscard]] inline parsed_value parse_json(std::string_view text) {
  if (text.size() > most_of_settings)
    return {{}, "it has more than " + std::to_string(most_of_settings >> 20) + " MiB"};
  if (is_too_deep(text))
    return {{}, "it nests deeper than " + std::to_string(most_json_depth) + " levels"};
  try {
    return {detail::value_of(nlohmann::ordered_json::parse(text, nullptr, true, true)), ""};
  } catch (const nlohmann::ordered_json::exception& wrong) {
    // Its messages begin with a name in brackets, which says nothing to a person.
    const std::string_view said = wrong.what();
    const std::size_t end = said.find("] ");
    return {{}, printable(end == std::string_view::npos ? said : said.substr(end + 2))};
  }
}

/// The value in JSON, indented by two, with an end of line. What is no finite number is null.
[[nodiscard]] inline std::string to_json(const value& is) {
  return detail::json_of(is).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace gpuplan::io

#pragma once

// Settings in JSON. Needs nlohmann/json, as json.hpp does.

#include <gpuplan/io/json_depth.hpp>
#include <gpuplan/io/json_flaw.hpp>
#include <gpuplan/io/value.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

// Makes a value of what nlohmann's reader meets, in time that grows with the text alone: an
// `ordered_json` looks for each name among all of its object.
class value_maker {
 public:
  value made{};
  std::string why{};        // it stopped
  bool is_no_json = false;  // likewise

  bool null() { return add({}); }
  bool boolean(bool is) { return add(is); }
  bool number_integer(std::int64_t is) { return add(is); }
  bool number_unsigned(std::uint64_t is) {
    if (is > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return add(static_cast<double>(is));
    return add(static_cast<std::int64_t>(is));
  }
  bool number_float(double is, const std::string&) { return add(is); }
  bool string(std::string& is) { return add(std::move(is)); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // which no text has
  bool key(std::string& is) {
    name_ = std::move(is);
    return true;
  }
  bool start_object(std::size_t) { return open(value::object()); }
  bool start_array(std::size_t) { return open(value::list()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) {
    is_no_json = true;
    return false;
  }

 private:
  bool add(value is) {
    if (++count_ > most_values) {
      why = "it holds more than " + std::to_string(most_values) + " values";
      return false;
    }
    if (open_.empty())
      made = std::move(is);
    else if (value::list* const items = open_.back().second.items())
      items->push_back(std::move(is));
    else
      open_.back().second.members()->emplace_back(std::move(name_), std::move(is));
    return true;
  }
  bool open(value is) {
    open_.emplace_back(std::move(name_), std::move(is));
    return true;
  }
  bool close() {
    value is = std::move(open_.back().second);
    name_ = std::move(open_.back().first);
    open_.pop_back();
    return add(std::move(is));
  }

  std::vector<value::member> open_{};  // each with its own name
  std::string name_{};                 // of what comes next in an object
  std::size_t count_ = 0;
};

template <class Json = nlohmann::ordered_json>
[[nodiscard]] Json json_of(const value& is) {
  if (const bool* const flag = is.flag()) return *flag;
  if (const std::int64_t* const integer = is.integer()) {
    if (*integer >= 0) return static_cast<std::uint64_t>(*integer);  // as nlohmann's parser has it
    return *integer;
  }
  if (const double* const number = is.number()) {
    if (std::isfinite(*number)) return *number;
    return nullptr;
  }
  if (const std::string* const text = is.text()) return *text;
  if (const value::list* const items = is.items()) {
    auto array = Json::array();
    for (const value& item : *items) array.push_back(json_of<Json>(item));
    return array;
  }
  if (const value::object* const members = is.members()) {
    auto object = Json::object();
    for (const auto& [name, member] : *members) object[name] = json_of<Json>(member);
    return object;
  }
  return nullptr;
}

}  // namespace detail

/// What a text in JSON holds. Refused: what is no JSON, nests deeper than `most_json_depth`, or
/// exceeds `most_of_settings` or `most_values`. Comments (`//`, as DeepSpeed's examples have them)
/// are passed over. An object keeps each member of a name that it has several times.
[[nodiscard]] inline parsed_value parse_json(std::string_view text) {
  if (text.size() > most_of_settings)
    return {{}, "it has more than " + std::to_string(most_of_settings >> 20) + " MiB"};
  if (is_too_deep(text))
    return {{}, "it nests deeper than " + std::to_string(most_json_depth) + " levels"};
  detail::value_maker maker;
  nlohmann::json::sax_parse(text, &maker, nlohmann::json::input_format_t::json, true, true);
  if (maker.is_no_json) return {{}, flaw_of_json(text, true)};
  return {maker.why.empty() ? std::move(maker.made) : value(), std::move(maker.why)};
}

/// The value in JSON, indented by two, with an end of line. What is no finite number is null.
[[nodiscard]] inline std::string to_json(const value& is) {
  return detail::json_of(is).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace gpuplan::io

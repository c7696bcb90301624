#pragma once

// Where a text is no JSON. Needs nlohmann/json, as what reads JSON does.

#include <gpuplan/io/characters.hpp>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail {

// Passes over all that is right.
class json_flaw_finder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit json_flaw_finder(std::string_view text) : text_(text) {}

  std::string found{};

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at,
                   const std::string&,
                   const nlohmann::json::exception& wrong) override {
    // Its messages begin with a name in brackets, which says nothing to a person.
    std::string_view said = wrong.what();
    if (const std::size_t end = said.find("] "); end != std::string_view::npos)
      said.remove_prefix(end + 2);
    found = printable(said);
    if (said.find(" at line ") != std::string_view::npos) return false;
    const std::string_view before = text_.substr(0, at);
    const std::size_t start = before.rfind('\n') + 1;  // 0 on the first line
    found += " at line " + std::to_string(std::count(before.begin(), before.end(), '\n') + 1) +
             ", column " + std::to_string(before.size() - start);
    return false;
  }

 private:
  std::string_view text_;
};

}  // namespace detail

/// What is wrong with a text in JSON, with line and column; empty: nothing is. Comments are passed
/// over where `has_comments`. Precondition: it is not too deep.
[[nodiscard]] inline std::string flaw_of_json(std::string_view text, bool has_comments = false) {
  detail::json_flaw_finder finder(text);
  nlohmann::json::sax_parse(
      text, &finder, nlohmann::json::input_format_t::json, true, has_comments);
  return finder.found;
}

}  // namespace gpuplan::io

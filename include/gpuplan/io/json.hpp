#pragma once

// Tables as JSON. Needs nlohmann/json, as what reads JSON does, and nothing outside of io/.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace gpuplan::io {
namespace detail {

// JSON has no infinity: a text says it, since null would say that there is nothing.
[[nodiscard]] inline nlohmann::ordered_json json_number(double value, int digits) {
  if (!std::isfinite(value)) return decimal(value, cell::shortest);
  if (digits == 0 && std::trunc(value) == value && std::abs(value) < 0x1p53)
    return static_cast<std::int64_t>(value);
  return value;
}

[[nodiscard]] inline nlohmann::ordered_json json_value(const cell& c) {
  switch (c.what()) {
    case cell::kind::nothing:
      break;
    case cell::kind::number:
      return json_number(c.value().low(), c.digits());
    case cell::kind::range:
      return nlohmann::ordered_json::array(
          {json_number(c.value().low(), c.digits()), json_number(c.value().high(), c.digits())});
    case cell::kind::text:
      return c.text();
  }
  return nullptr;
}

}  // namespace detail

/// The table as an array with one object per row, keyed by the names of the columns in their order;
/// title and units are left out. A number is a number in full, a range `[low, high]`, nothing is
/// null; control characters are escaped, and bytes that are not UTF-8 become U+FFFD. Throws as
/// `validate` says, and `errc::malformed_table` where two columns have one name.
[[nodiscard]] inline std::string to_json(const table& t) {
  static_cast<void>(validate(t).value_or_throw());
  for (std::size_t i = 0; i < t.columns.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (t.columns[i].name == t.columns[j].name)
        gpuplan::detail::precondition_violated(
            failure(errc::malformed_table).about(t.columns[i].name.c_str()));
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : t.rows) {
    auto object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i)
      object[t.columns[i].name] = detail::json_value(row[i]);
    rows.push_back(std::move(object));
  }
  // JSON lets stand what a terminal obeys beyond U+001F; in texts, which alone have it, it has the
  // escapes of `printable`.
  return printable(rows.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                   line_ends::are_kept) +
         "\n";
}

}  // namespace gpuplan::io

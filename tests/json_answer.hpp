#pragma once

// What a program prints as JSON: rows of tables.

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "program_output.hpp"

/// The answer in the JSON that `run`, a command of gpuplan, prints with these arguments, after
/// checking that it is some, and states what was asked.
template <class Run>
nlohmann::json json_answer(Run run, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const outcome o = run(arguments);
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  const nlohmann::json all = nlohmann::json::parse(o.out, nullptr, false);
  REQUIRE(all.is_object());
  CHECK(all.contains("gpuplan"));
  CHECK(all.contains("request"));
  return all["answer"];
}

/// Whole bytes of a number in GiB, a power of two of them, which no number in full loses.
inline std::int64_t bytes_of(const nlohmann::json& in_GiB) {
  REQUIRE(in_GiB.is_number());
  const double bytes = in_GiB.get<double>() * 0x1p30;
  CHECK(bytes == std::floor(bytes));
  return static_cast<std::int64_t>(bytes);
}

/// The value of one row and column of a table; null where there is none.
inline nlohmann::json value(const nlohmann::json& rows,
                            const std::string& table,
                            const std::string& row,
                            const std::string& column) {
  for (const nlohmann::json& one : rows)
    if (one["table"] == table && one["row"] == row && one["column"] == column) return one["value"];
  return nullptr;
}

#pragma once

// Tables of a model as text for a terminal, as Markdown, or as one long table for programs.

#include <cstdint>
#include <string>
#include <vector>

#include "guides/render.hpp"
#include "model/description.hpp"

namespace describe_model {

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t value);

/// Three digits with a prefix: "8.03 B" of parameters, with K, M, B and T.
[[nodiscard]] std::string rounded(std::int64_t value);

/// The tables in the format asked for. Formats for programs have numbers in full: of several tables
/// one row per number or word, with the columns table, row, column, value and unit; one table as it
/// is.
[[nodiscard]] std::string render(const std::vector<section>& tables, const guides::output& as);

}  // namespace describe_model

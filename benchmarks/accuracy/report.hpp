#pragma once

// Comparisons as text for a terminal, or as data.

#include <string>
#include <vector>

#include "comparison.hpp"
#include "guides/render.hpp"

namespace accuracy {

/// One line per row and quantity.
std::string rows_report(const std::vector<file_comparison>& files, const guides::output& as);

/// One line per file and quantity.
std::string summary_report(const std::vector<file_comparison>& files, const guides::output& as);

}  // namespace accuracy

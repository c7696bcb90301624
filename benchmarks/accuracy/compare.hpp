#pragma once

// Files of measurements beside what the library says of their rows.

#include <vector>

#include "comparison.hpp"
#include "comparison_options.hpp"
#include "csv.hpp"

namespace accuracy {

/// Compares every quantity that a row holds a measurement of. A file's kind is known by its
/// columns, in any order and with others beside them. Throws `bad_file` for a cell that should be a
/// number and is none, and for a file that lacks few of the columns of a kind.
std::vector<file_comparison> compare(const std::vector<csv_file>& files,
                                     const comparison_options& options = {});

}  // namespace accuracy

#pragma once

// Published runs beside what the library says of them: memory, rates, time.

#include <cstdint>
#include <string_view>

#include "memory.hpp"
#include "row_comparisons.hpp"

namespace accuracy {

/// Compares a column in GiB with bytes.
void compare_gibibytes(row_comparisons& row,
                       quantity what,
                       std::string_view column,
                       const predicted_memory& memory,
                       std::int64_t predicted);

/// Compares whether the run fitted, where the row says it.
void compare_fitting(row_comparisons& row, const predicted_fit& fit);

/// Compares what a row of `runs_*.csv` measured.
void compare_run(row_comparisons& row);

}  // namespace accuracy

#pragma once

// What a guide's program prints: tables of comparisons, and what was found.

#include <gpuplan/io/table.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "guides/comparison.hpp"

namespace guides {

/// `value` with `digits` after the point, in the C locale; negative digits print as none.
[[nodiscard]] std::string decimal(double value, int digits);

[[nodiscard]] gpuplan::io::cell as_cell(const shown& side);

/// As printed: "12.5", "8–12", the word itself, or "".
[[nodiscard]] std::string text(const shown& side);

struct cell {
  std::string row;       // the line of the guide's table: "4 x RTX 4090"
  std::string quantity;  // its column: "total FP16"
  std::string unit;      // "TFLOPS", or empty
  shown documented, computed;
  verdict outcome = verdict::not_compared;
  std::string note;
};

struct table {
  std::string id;        // "T0.1"
  std::string title;     // "nodes by total FP16"
  std::string inputs{};  // what the computed column follows from, in one line
  std::vector<cell> cells{};

  /// Adds a comparison and judges it.
  cell& compare(std::string_view row,
                std::string_view quantity,
                std::string_view unit,
                const shown& documented,
                const shown& computed,
                std::string_view note = {});

  /// Adds a computed value that the guide prints nothing for.
  cell& also(std::string_view row,
             std::string_view quantity,
             std::string_view unit,
             const shown& computed,
             std::string_view note = {});

  /// Adds a documented setting that the guide's own formula forbids; `computed` is what the formula
  /// gives instead.
  cell& breaks(std::string_view row,
               std::string_view quantity,
               std::string_view unit,
               const shown& documented,
               const shown& computed,
               std::string_view note = {});

  /// Adds a documented value that needs an input which the guide does not give.
  cell& not_computable(std::string_view row,
                       std::string_view quantity,
                       std::string_view unit,
                       const shown& documented,
                       std::string_view missing_input);
};

struct report {
  std::string guide;  // "000"
  std::string title;
  std::vector<table> tables{};
  std::vector<std::string> findings{};
};

}  // namespace guides

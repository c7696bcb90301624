#pragma once

// What a guide's program prints: tables of comparisons, and what was found.

#include <gpuplan/io/table.hpp>

#include <string>
#include <utility>
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
  cell& compare(std::string row,
                std::string quantity,
                std::string unit,
                const shown& documented,
                const shown& computed,
                std::string note = {}) {
    return add({std::move(row),
                std::move(quantity),
                std::move(unit),
                documented,
                computed,
                judge(documented, computed),
                std::move(note)});
  }

  /// Adds a computed value that the guide prints nothing for.
  cell& also(std::string row,
             std::string quantity,
             std::string unit,
             const shown& computed,
             std::string note = {}) {
    return compare(
        std::move(row), std::move(quantity), std::move(unit), nothing(), computed, std::move(note));
  }

  /// Adds a documented setting that the guide's own formula forbids; `computed` is what the formula
  /// gives instead.
  cell& breaks(std::string row,
               std::string quantity,
               std::string unit,
               const shown& documented,
               const shown& computed,
               std::string note = {}) {
    return add({std::move(row),
                std::move(quantity),
                std::move(unit),
                documented,
                computed,
                verdict::breaks_its_own_formula,
                std::move(note)});
  }

  /// Adds a documented value that needs an input which the guide does not give.
  cell& not_computable(std::string row,
                       std::string quantity,
                       std::string unit,
                       const shown& documented,
                       const std::string& missing_input) {
    return add({std::move(row),
                std::move(quantity),
                std::move(unit),
                documented,
                nothing(),
                verdict::not_computable,
                "needs " + missing_input});
  }

 private:
  cell& add(cell added) { return cells.emplace_back(std::move(added)); }
};

struct report {
  std::string guide;  // "000"
  std::string title;
  std::vector<table> tables{};
  std::vector<std::string> findings{};
};

}  // namespace guides

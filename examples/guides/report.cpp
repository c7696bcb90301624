#include "guides/report.hpp"

namespace guides {

std::string decimal(double value, int digits) {
  return gpuplan::io::decimal(value, digits < 0 ? 0 : digits);
}

gpuplan::io::cell as_cell(const shown& side) {
  const int digits = side.digits < 0 ? 0 : side.digits;
  switch (side.what) {
    case shown::kind::nothing:
      break;
    case shown::kind::number:
      return {side.value.low(), digits};
    case shown::kind::span:
      return {side.value, digits};
    case shown::kind::word:
      return side.word();
  }
  return {};
}

std::string text(const shown& side) { return to_text(as_cell(side)); }

namespace {

cell& add(table& t,
          std::string_view row,
          std::string_view quantity,
          std::string_view unit,
          const shown& documented,
          const shown& computed,
          verdict outcome,
          std::string_view note) {
  return t.cells.emplace_back(cell{.row = std::string(row),
                                   .quantity = std::string(quantity),
                                   .unit = std::string(unit),
                                   .documented = documented,
                                   .computed = computed,
                                   .outcome = outcome,
                                   .note = std::string(note)});
}

}  // namespace

cell& table::compare(std::string_view row,
                     std::string_view quantity,
                     std::string_view unit,
                     const shown& documented,
                     const shown& computed,
                     std::string_view note) {
  return add(*this, row, quantity, unit, documented, computed, judge(documented, computed), note);
}

cell& table::also(std::string_view row,
                  std::string_view quantity,
                  std::string_view unit,
                  const shown& computed,
                  std::string_view note) {
  return compare(row, quantity, unit, nothing(), computed, note);
}

cell& table::breaks(std::string_view row,
                    std::string_view quantity,
                    std::string_view unit,
                    const shown& documented,
                    const shown& computed,
                    std::string_view note) {
  return add(
      *this, row, quantity, unit, documented, computed, verdict::breaks_its_own_formula, note);
}

cell& table::not_computable(std::string_view row,
                            std::string_view quantity,
                            std::string_view unit,
                            const shown& documented,
                            std::string_view missing_input) {
  const std::string note = "needs " + std::string(missing_input);
  return add(*this, row, quantity, unit, documented, nothing(), verdict::not_computable, note);
}

}  // namespace guides

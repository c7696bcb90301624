#pragma once

// What proves that a guide's program copies nothing: change an input, and the computed cells of the
// tables that it belongs to must follow, while no documented one does.

#include <cstddef>
#include <string>
#include <vector>

#include "check.hpp"
#include "guides/report.hpp"

template <class Inputs>
struct perturbation {
  const char* name;            // of the input
  void (*change)(Inputs& in);  // by 10 %, or by 1 where that is more
  std::vector<std::string> tables;
};

inline std::string joined(const std::vector<std::string>& ids) {
  std::string all;
  for (const std::string& id : ids) all += id + " ";
  return all;
}

template <class Inputs>
void check_perturbations(guides::report (*make_report)(const Inputs&),
                         const std::vector<perturbation<Inputs>>& all) {
  const guides::report before = make_report(Inputs{});
  for (const perturbation<Inputs>& one : all) {
    CAPTURE(std::string(one.name));
    Inputs in{};
    one.change(in);
    const guides::report after = make_report(in);
    REQUIRE(after.tables.size() == before.tables.size());
    std::vector<std::string> followed;
    for (std::size_t t = 0; t < before.tables.size(); ++t) {
      const guides::table& a = before.tables[t];
      const guides::table& b = after.tables[t];
      CAPTURE(a.id);
      REQUIRE(a.cells.size() == b.cells.size());
      bool moved = false;
      for (std::size_t c = 0; c < a.cells.size(); ++c) {
        CAPTURE(a.cells[c].row);
        CAPTURE(a.cells[c].quantity);
        CHECK(static_cast<bool>(a.cells[c].documented == b.cells[c].documented));
        moved = moved || !(a.cells[c].computed == b.cells[c].computed);
      }
      if (moved) followed.push_back(a.id);
    }
    CHECK(joined(followed) == joined(one.tables));
  }
}

/// How many cells of a report have this verdict.
inline int count(const guides::report& report, guides::verdict wanted) {
  int found = 0;
  for (const guides::table& table : report.tables)
    for (const guides::cell& cell : table.cells) found += cell.outcome == wanted ? 1 : 0;
  return found;
}

/// The verdict of one cell; fails where there is none of that row and quantity.
inline guides::verdict verdict_of(const guides::report& report,
                                  const std::string& table_id,
                                  const std::string& row,
                                  const std::string& quantity) {
  for (const guides::table& table : report.tables)
    for (const guides::cell& cell : table.cells)
      if (table.id == table_id && cell.row == row && cell.quantity == quantity) return cell.outcome;
  FAIL("no such cell: ", table_id, ", ", row, ", ", quantity);
  return {};
}

#pragma once

// What becomes of one row of a file.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparison.hpp"
#include "comparison_options.hpp"
#include "csv.hpp"
#include "notes.hpp"

namespace accuracy {

/// Gathers the comparisons of one row.
class row_comparisons {
 public:
  row_comparisons(const row& the_source,
                  const comparison_options& the_options,
                  std::vector<comparison>& the_result)
      : source(the_source), options(the_options), result_(the_result) {}

  const row& source;
  const comparison_options& options;

  // Where the cell holds a count, compares it with what `predict` returns.
  template <class Predict>
  void count(quantity what, std::string_view column, Predict predict) {
    if (const auto measured = source.integer(column)) add(what, *measured, predict());
  }
  template <class Predict>
  void value(quantity what, std::string_view column, Predict predict) {
    if (const auto measured = source.number(column)) add(what, *measured, predict());
  }
  void add(quantity what, number measured, prediction predicted, bool by_a_margin = false) {
    const std::string_view notes = source.text("notes");
    result_.push_back({.id = source.blank("id") ? "line " + std::to_string(source.line())
                                                : std::string(source.text("id")),
                       .what = what,
                       .measured = measured,
                       .predicted = std::move(predicted),
                       .flagged = is_flagged(notes),
                       .by_a_margin = by_a_margin,
                       .repeated_of = std::string(repeated_id(notes))});
  }

 private:
  std::vector<comparison>& result_;
};

}  // namespace accuracy

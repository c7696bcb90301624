#pragma once

// Files of comma-separated values (RFC 4180), and typed access to their cells by column name.

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace accuracy {

/// What is wrong with a file, and where: "runs.csv:12:7: ...", line and column counted from 1. The
/// column is that of the cell, as a spreadsheet counts.
class bad_file : public std::runtime_error {
 public:
  bad_file(const std::string& path, std::size_t line, std::size_t column, const std::string& what);
};

/// A file: the names of its columns, and its rows.
struct csv_file {
  struct row_of_cells {
    std::size_t line = 0;  // on which it begins
    std::vector<std::string> cells;
  };

  std::string path;
  std::vector<std::string> columns;
  std::map<std::string, std::size_t, std::less<>> places;  // of columns
  std::vector<row_of_cells> rows;

  [[nodiscard]] bool has(std::string_view column) const { return places.contains(column); }
};

/// Reads a file. Throws `bad_file` where it cannot be opened, has no header, a column twice, a row
/// with too few or too many cells, or a quote that does not end.
csv_file read_csv(const std::string& path);

/// One row of a file. A column that the file does not have reads as blank.
class row {
 public:
  row(const csv_file& the_file, const csv_file::row_of_cells& the_cells)
      : file_(&the_file), cells_(&the_cells) {}

  [[nodiscard]] const csv_file& file() const { return *file_; }
  [[nodiscard]] std::size_t line() const { return cells_->line; }
  [[nodiscard]] std::string_view text(std::string_view column) const;
  [[nodiscard]] bool blank(std::string_view column) const { return text(column).empty(); }

  // A cell that is not blank must be a number, or `bad_file` says which it is.
  [[nodiscard]] std::optional<double> number(std::string_view column) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view column) const;
  [[nodiscard]] std::int64_t integer_or(std::string_view column, std::int64_t otherwise) const {
    return integer(column).value_or(otherwise);
  }
  /// Whether the cell is a number other than 0.
  [[nodiscard]] bool flag(std::string_view column) const { return integer_or(column, 0) != 0; }

  /// Whether the other row has the same cells in the same columns.
  [[nodiscard]] bool says_the_same(const row& other) const {
    return cells_->cells == other.cells_->cells && file_->columns == other.file_->columns;
  }

  /// Throws `bad_file` about the cell of this column.
  [[noreturn]] void fail(std::string_view column, const std::string& what) const;

 private:
  const csv_file* file_;
  const csv_file::row_of_cells* cells_;
};

}  // namespace accuracy

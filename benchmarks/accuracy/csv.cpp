#include "csv.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace accuracy {
namespace {

std::string place(const std::string& path, std::size_t line, std::size_t column) {
  std::string text = path;
  if (line != 0) text += ":" + std::to_string(line);
  if (column != 0) text += ":" + std::to_string(column);
  return text + ": ";
}

// Cuts text into rows of cells.
class reader {
 public:
  reader(const std::string& path, std::string text) : path_(path), text_(std::move(text)) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  // False at the end of the text. Blank lines are passed over.
  bool next(csv_file::row_of_cells& row) {
    for (; at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r'); ++at_)
      if (text_[at_] == '\n') ++line_;
    if (at_ == text_.size()) return false;
    row.line = line_;
    row.cells.clear();
    do row.cells.push_back(cell(row.cells.size() + 1));
    while (take(','));
    const bool returned = take('\r');
    if (at_ < text_.size() && !take('\n'))
      throw bad_file(
          path_,
          line_,
          row.cells.size(),
          returned ? "a carriage return without a line feed" : "text behind a closing quote");
    ++line_;
    return true;
  }

 private:
  const std::string& path_;
  std::string text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;

  bool take(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  std::string cell(std::size_t column) {
    if (!take('"')) {
      const std::size_t begin = at_;
      at_ = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      return text_.substr(begin, at_ - begin);
    }
    const std::size_t first_line = line_;
    std::string quoted;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] != '"') return quoted;
      }
      if (text_[at_] == '\n') ++line_;
      quoted += text_[at_];
    }
    throw bad_file(path_, first_line, column, "a quote that does not end");
  }
};

}  // namespace

bad_file::bad_file(const std::string& path,
                   std::size_t line,
                   std::size_t column,
                   const std::string& what)
    : std::runtime_error(place(path, line, column) + what) {}

csv_file read_csv(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw bad_file(path, 0, 0, "is a directory");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw bad_file(path, 0, 0, std::string("cannot be opened: ") + strerror(errno));
  std::string text;
  std::array<char, 1 << 16> block{};
  do {
    stream.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
  } while (stream);
  if (stream.bad()) throw bad_file(path, 0, 0, "cannot be read");

  csv_file file{.path = path, .columns = {}, .places = {}, .rows = {}};
  reader rows(file.path, std::move(text));
  csv_file::row_of_cells row;
  if (!rows.next(row)) throw bad_file(path, 1, 0, "is empty: the first line names the columns");
  file.columns = row.cells;
  for (std::size_t i = 0; i < file.columns.size(); ++i)
    if (!file.places.emplace(file.columns[i], i).second)
      throw bad_file(path, row.line, i + 1, "there are two columns " + file.columns[i]);
  while (rows.next(row)) {
    if (row.cells.size() != file.columns.size())
      throw bad_file(path,
                     row.line,
                     std::min(row.cells.size(), file.columns.size()) + 1,
                     std::to_string(row.cells.size()) + " cells, where the header has " +
                         std::to_string(file.columns.size()));
    file.rows.push_back(row);
  }
  return file;
}

std::string_view row::text(std::string_view column) const {
  const auto found = file_->places.find(column);
  if (found == file_->places.end()) return {};
  return cells_->cells[found->second];
}

void row::fail(std::string_view column, const std::string& what) const {
  const auto found = file_->places.find(column);
  const std::size_t place = found == file_->places.end() ? 0 : found->second + 1;
  throw bad_file(file_->path, cells_->line, place, std::string(column) + " " + what);
}

std::optional<double> row::number(std::string_view column) const {
  const std::string_view cell = text(column);
  if (cell.empty()) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(value))
    fail(column, "is not a number: " + std::string(cell));
  return value;
}

std::optional<std::int64_t> row::integer(std::string_view column) const {
  const std::string_view cell = text(column);
  if (cell.empty()) return {};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error == std::errc{} && end == cell.data() + cell.size()) return value;
  const double real = *number(column);  // 1e9, 8.0
  if (real != std::floor(real)) fail(column, "is not a whole number: " + std::string(cell));
  if (std::abs(real) >= 0x1p63) fail(column, "does not fit into 64 bits: " + std::string(cell));
  return static_cast<std::int64_t>(real);
}

}  // namespace accuracy

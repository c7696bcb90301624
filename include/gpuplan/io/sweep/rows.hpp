#pragma once

// Reads sweeps that were made elsewhere: a benchmark's printed table, CSV, JSON lines. Needs
// nlohmann/json.

#include <gpuplan/io/sweep/columns.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// A sweep that was read: every row passes `validate`.
struct sweep_file {
  sweep_format format{};
  std::vector<sweep_row> rows{};
  std::vector<bad_line> bad{};      // in the order of the file
  std::vector<bad_line> remarks{};  // on lines that say nothing of use, or contradict themselves
  bool has_utilisation = false;     // else that of the rows is 0, and means nothing
};

namespace detail {

// A row that ran, or ran out; nothing where the line tells of a setting that was not measured.
struct read_row {
  std::optional<sweep_row> row{};
  std::string remark{};
};

[[nodiscard]] inline bool is_any(std::string_view word,
                                 std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What a line says of its end. Marks such as U+2705 are no letters and count as themselves.
enum class said_outcome { ran, out_of_memory, not_measured };
[[nodiscard]] inline said_outcome outcome_of(const std::optional<std::string>& text) {
  if (!text) return said_outcome::ran;
  const gpuplan::detail::plain_name plain(*text);
  if (is_any(plain.text(), {"ran", "ok", "okay", "done", "success", "passed"}) ||
      is_any(*text, {"✅", "✓", "✔"}))
    return said_outcome::ran;
  if (is_any(plain.text(), {"oom", "outofmemory", "ranoutofmemory"}))
    return said_outcome::out_of_memory;
  if (is_any(plain.text(), {"skipped", "failed", "outoftime", "error", "timeout"}))
    return said_outcome::not_measured;
  refuse(sweep_field::outcome, "is not known: " + *text);
}

inline void require_valid(const sweep_row& row) {
  const failure why = gpuplan::detail::flaw_of(row, 0);
  if (!gpuplan::detail::failed(why)) return;
  std::string name(why.subject);
  if (name.empty()) name = text(why.facts[1].name);
  throw unreadable(name + ": " + text(why.code));
}

// How far a sum of printed numbers may be from their printed sum.
[[nodiscard]] inline double rounding_of(const std::string& text, double scale, int numbers) {
  const std::size_t point = text.find('.');
  const auto digits = point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
  return 0.5 * (numbers + 1) * scale * std::pow(10.0, -digits) * (1 + 1e-9);
}

inline constexpr sweep_field phase_fields[] = {sweep_field::data,
                                               sweep_field::forward,
                                               sweep_field::backward,
                                               sweep_field::optimizer,
                                               sweep_field::communication,
                                               sweep_field::other};

[[nodiscard]] inline read_row row_of(const sweep_cells& cells, sweep_format format) {
  read_row out;
  sweep_row row;
  const auto batch = count_in(cells, sweep_field::micro_batch);
  if (!batch) refuse(sweep_field::micro_batch, "is missing");
  row.micro_batch = *batch;
  row.workers = count_in(cells, sweep_field::workers).value_or(0);
  row.mixed_precision = truth_in(cells, sweep_field::mixed_precision).value_or(false);
  row.pinned_memory = truth_in(cells, sweep_field::pinned_memory).value_or(false);
  switch (outcome_of(cells.text(sweep_field::outcome))) {
    case said_outcome::not_measured:
      out.remark = shown(*cells.text(sweep_field::outcome)) + ", so there is nothing to read";
      return out;
    case said_outcome::out_of_memory:
      row.status = sweep_status::out_of_memory;
      require_valid(row);
      out.row = row;
      return out;
    case said_outcome::ran:
      break;
  }

  double sum = 0;
  int phases = 0;
  for (const sweep_field field : phase_fields)
    if (const auto seconds = number_in(cells, field)) {
      sum += *seconds;
      ++phases;
    }
  const auto time = [&](sweep_field field) {
    return duration::from_value(number_in(cells, field).value_or(0));
  };
  row.data = time(sweep_field::data);
  row.forward = time(sweep_field::forward) + time(sweep_field::other);
  row.backward = time(sweep_field::backward);
  row.optimizer = time(sweep_field::optimizer);
  row.communication = time(sweep_field::communication);
  const auto step = number_in(cells, sweep_field::step);
  if (phases == 0) {
    if (!step) throw unreadable("there is no time");
    row.forward = duration::from_value(*step);
    out.remark = "has the time of the whole step alone, which is taken as that of the forward pass";
  } else if (step && format == sweep_format::printed_table) {
    const std::string& text = *cells.text(sweep_field::step);
    const double scale = cells.scales[static_cast<std::size_t>(sweep_field::step)];
    if (std::abs(sum - *step) > rounding_of(text, scale, phases))
      out.remark = "its times add up to " + decimal(sum * 1e3, 2) + " ms, and its total is " +
                   decimal(*step * 1e3, 2) + " ms";
  }
  const auto memory = number_in(cells, sweep_field::memory);
  if (!memory) refuse(sweep_field::memory, "is missing");
  row.memory = bytes::from_value(std::round(*memory));
  row.gpu_utilisation = number_in(cells, sweep_field::utilisation).value_or(0);
  require_valid(row);
  out.row = row;
  return out;
}

inline void add_line(sweep_file& to, const sweep_cells& cells) {
  try {
    const read_row read = row_of(cells, to.format);
    if (!read.remark.empty()) to.remarks.push_back({cells.line, read.remark});
    if (!read.row) return;
    to.rows.push_back(*read.row);
    to.has_utilisation = to.has_utilisation || cells.text(sweep_field::utilisation).has_value();
  } catch (const unreadable& why) {
    to.bad.push_back({cells.line, why.reason});
  }
}

// The places of a head's columns; nothing where it is no head of a sweep.
[[nodiscard]] inline std::optional<std::vector<column_place>> places_of(
    const std::vector<std::string>& head) {
  std::vector<column_place> places;
  bool has_batch = false;
  std::size_t known = 0;
  for (const std::string& heading : head) {
    places.push_back(place_of(without_spaces_around(heading)));
    known += places.back().field.has_value();
    has_batch = has_batch || places.back().field == sweep_field::micro_batch;
  }
  if (!has_batch || known < 3) return std::nullopt;
  return places;
}

// Which column is missing or cannot be read, if one is.
[[nodiscard]] inline failure flaw_of_head(const std::vector<column_place>& places) {
  bool has_time = false;
  bool has_memory = false;
  for (const column_place& place : places) {
    if (!place.field) continue;
    if (!place.flaw.empty())
      return failure(errc::sweep_column_without_unit)
          .about(std::string(split_head(column_of(*place.field).name).name).c_str());
    has_time = has_time || column_of(*place.field).unit == sweep_unit::time;
    has_memory = has_memory || place.field == sweep_field::memory;
  }
  if (!has_time) return failure(errc::malformed_sweep).about("time");
  if (!has_memory) return failure(errc::malformed_sweep).about("memory");
  return {};
}

// The words of a line of a printed table; a unit in brackets belongs to the word before.
[[nodiscard]] inline std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!(line = without_spaces_around(line)).empty()) {
    const std::size_t end = line.find_first_of(" \t");
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(word.size());
    if (!words.empty() && (word.front() == '(' || word.front() == '['))
      words.back() += word;
    else
      words.emplace_back(word);
  }
  return words;
}

// Lines that only draw.
[[nodiscard]] inline bool is_rule(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    for (std::size_t at = 0; at < word.size();)
      if (is_any(word.substr(at, 1), {"-", "=", "|", "+"}))
        at += 1;
      else if (is_any(word.substr(at, 3), {"─", "═", "━"}))
        at += 3;
      else
        return false;
  return true;
}

// A row has a cell for each column; one that ran out, its setting and its outcome alone.
inline sweep_cells cells_of_words(const std::vector<std::string>& words,
                                  const std::vector<column_place>& places,
                                  std::int64_t line) {
  sweep_cells cells{.line = line};
  const bool is_short = words.size() < places.size();
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool is_last = at + 1 == words.size();
    const std::size_t column = is_short && is_last ? places.size() - 1 : at;
    const bool fits =
        column < places.size() &&
        (!is_short || is_last || (places[at].field && *places[at].field < sweep_field::outcome));
    if (!fits || (is_short && is_last && places[column].field != sweep_field::outcome))
      throw unreadable("has " + std::to_string(words.size()) + " cells, and its head " +
                       std::to_string(places.size()));
    cells.set(places[column], words[at]);
  }
  if (is_short && outcome_of(cells.text(sweep_field::outcome)) == said_outcome::ran)
    throw unreadable("has cells missing");
  return cells;
}

[[nodiscard]] inline result<sweep_file> read_printed(std::string_view text) {
  sweep_file out{.format = sweep_format::printed_table};
  std::optional<std::vector<column_place>> places;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const auto words = words_of(take_line(text).text);
    if (!places) {
      places = places_of(words);
      if (!places) continue;
      if (const failure why = flaw_of_head(*places); gpuplan::detail::failed(why)) return why;
    } else if (!is_rule(words)) {
      try {
        add_line(out, cells_of_words(words, *places, line));
      } catch (const unreadable& why) {
        out.bad.push_back({line, why.reason});
      }
    } else if (!out.rows.empty() || !out.bad.empty()) {
      break;  // what stands below the table is no row
    }
  }
  if (!places) return failure(errc::malformed_sweep).about("micro_batch");
  return out;
}

[[nodiscard]] inline result<sweep_file> read_csv(std::string_view text) {
  sweep_file out{.format = sweep_format::csv};
  std::optional<std::vector<column_place>> places;
  for (std::int64_t line = 1; !text.empty();) {
    const csv_record record = take_csv_record(text);
    const std::int64_t first = line;
    line += record.lines;
    if (record.cells.size() == 1 && without_spaces_around(record.cells.front()).empty()) continue;
    if (!places) {
      places = places_of(record.cells);
      if (!places) return failure(errc::malformed_sweep).about("micro_batch");
      if (const failure why = flaw_of_head(*places); gpuplan::detail::failed(why)) return why;
    } else if (!record.is_quoted_right) {
      out.bad.push_back({first, "a quotation mark is not closed"});
    } else if (record.cells.size() != places->size()) {
      out.bad.push_back({first,
                         "has " + std::to_string(record.cells.size()) + " cells, and its head " +
                             std::to_string(places->size())});
    } else {
      sweep_cells cells{.line = first};
      for (std::size_t at = 0; at < places->size(); ++at)
        cells.set((*places)[at], std::string(without_spaces_around(record.cells[at])));
      add_line(out, cells);
    }
  }
  return out;
}

[[nodiscard]] inline sweep_file read_json_lines(std::string_view text) {
  sweep_file out{.format = sweep_format::json_lines};
  places_by_key places;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view object = without_spaces_around(take_line(text).text);
    if (object.empty()) continue;
    try {
      add_line(out, cells_of_json(object, line, places));
    } catch (const unreadable& why) {
      out.bad.push_back({line, why.reason});
    }
  }
  return out;
}

}  // namespace detail

/// Reads a sweep in whichever of the formats it is. Columns may be called and measured as other
/// programs have it ("Batch", "I/O(ms)", "GPU%", "memory_GiB", "batch_size"); times and memory must
/// state their unit, and columns that are not known are passed over. A printed table ends with a
/// blank line or a rule. Missing workers are 0, missing precision is full; time in no phase counts
/// as forward. Lines that cannot be used are in `bad`, with their reasons; for all or nothing see
/// `all_rows`. Errors, of the whole file: `malformed_sweep` with the column that is missing;
/// `sweep_column_without_unit`.
[[nodiscard]] inline result<sweep_file> read_sweep(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string_view rest = text;
  std::string_view first;
  while (first.empty() && !rest.empty())
    first = detail::without_spaces_around(detail::take_line(rest).text);
  if (first.starts_with('{')) return detail::read_json_lines(text);
  std::string_view record = first;
  if (detail::places_of(detail::take_csv_record(record).cells)) return detail::read_csv(text);
  return detail::read_printed(text);
}

/// The rows of a file of which every line could be read. Errors: `bad_sweep_lines` with the first
/// that could not, why (in short) and how many there are.
[[nodiscard]] inline result<sweep_rows> all_rows(const sweep_file& file) {
  if (!file.bad.empty())
    return failure(errc::bad_sweep_lines,
                   named_fact{fact::line, file.bad.front().line},
                   named_fact{fact::bad_lines, static_cast<std::int64_t>(file.bad.size())})
        .about(file.bad.front().reason.c_str());
  return sweep_rows(file.rows);
}

}  // namespace gpuplan::io

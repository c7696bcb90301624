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
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// A sweep that was read: every row passes `validate`, but for a memory of 0 where none was
/// measured.
struct sweep_file {
  sweep_format format{};
  std::vector<sweep_row> rows{};
  std::vector<std::int64_t> lines{};  // of the rows, counted from 1
  std::vector<bad_line> bad{};        // in the order of the file
  std::vector<bad_line> remarks{};    // on lines that say nothing of use, or contradict themselves
  bool has_utilisation = false;       // else that of the rows is 0, and means nothing
  bool has_memory = false;            // else that of the rows is 0, and means nothing
  bool has_precision = false;         // else that of the rows is full, and means nothing
};

namespace detail {

// A row that ran, or ran out; nothing where the line tells of a setting that was not measured.
struct read_row {
  std::optional<sweep_row> row{};
  std::string remark{};
  std::string general_remark{};  // said once of a file
};

[[nodiscard]] inline bool is_any(std::string_view word,
                                 std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

[[nodiscard]] inline bool says_out_of_memory(std::string_view text) {
  return is_any(gpuplan::detail::plain_name(text).text(), {"oom", "outofmemory", "ranoutofmemory"});
}

// What a line says of its end. Marks such as U+2705 are no letters and count as themselves.
enum class said_outcome { ran, out_of_memory, not_measured };
[[nodiscard]] inline said_outcome outcome_of(const std::optional<std::string>& text) {
  if (!text) return said_outcome::ran;
  const gpuplan::detail::plain_name plain(*text);
  if (is_any(plain.text(), {"ran", "ok", "okay", "done", "success", "passed"}) ||
      is_any(*text, {"✅", "✓", "✔"}))
    return said_outcome::ran;
  if (says_out_of_memory(*text)) return said_outcome::out_of_memory;
  if (is_any(plain.text(), {"skipped", "failed", "outoftime", "error", "timeout"}))
    return said_outcome::not_measured;
  refuse(sweep_field::outcome, "is not known: " + *text);
}

// Likewise, of a whole line: without a column for it a time or the memory says that it ran out.
[[nodiscard]] inline said_outcome outcome_of(const sweep_cells& cells) {
  const auto says = [&](sweep_field field) {
    return cells.text(field) && says_out_of_memory(*cells.text(field));
  };
  if (!cells.text(sweep_field::outcome))
    for (std::size_t at = 0; at < sweep_fields; ++at) {
      const auto field = static_cast<sweep_field>(at);
      const sweep_unit unit = column_of(field).unit;
      if ((unit == sweep_unit::time || unit == sweep_unit::memory) && says(field))
        return said_outcome::out_of_memory;
    }
  return outcome_of(cells.text(sweep_field::outcome));
}

inline void require_valid(const sweep_row& row) {
  const failure why = gpuplan::detail::flaw_of(row, 0);
  if (!gpuplan::detail::failed(why)) return;
  const fact name = why.field != fact::none ? why.field : why.facts[1].name;
  throw unreadable(std::string(text(name)) + ": " + text(why.code));
}

// The same of the times alone, each by its name: their sum may still be 0.
inline void require_valid_times(sweep_row row) {
  if (step_time(row) == duration{}) row.forward = 1_s;
  require_valid(row);
}

// How far a sum of written numbers may be from their written sum, which is `value`: they are
// rounded to as many digits as it has, and in doubles.
[[nodiscard]] inline double rounding_of(const std::string& text,
                                        double value,
                                        double scale,
                                        int numbers) {
  const std::size_t power = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = std::min(text.find('.'), power);
  // Of the last digit, as a power of ten; a double, since a text may state any.
  double digit = -static_cast<double>(power - std::min(point + 1, power));
  if (power < text.size()) digit += std::strtod(text.c_str() + power + 1, nullptr);
  return 0.5 * (numbers + 1) * scale * std::pow(10.0, digit) * (1 + 1e-9) + 1e-12 * value;
}

inline constexpr sweep_field phase_fields[] = {sweep_field::data,
                                               sweep_field::forward,
                                               sweep_field::backward,
                                               sweep_field::optimizer,
                                               sweep_field::communication,
                                               sweep_field::other};

// What a step's total says beside its phases. Medians of phases do not add up to that of the step,
// which counts. Of other times, what the phases leave out is of the forward pass.
inline void apply_total(read_row& out, sweep_row& row, const sweep_cells& cells, int phases) {
  const auto step = number_in(cells, sweep_field::step);
  if (!step) return;
  const double sum = step_time(row).value();
  if (phases == 0 || (sum == 0 && *step > 0)) {
    row.forward = duration::from_value(*step);
    if (phases == 0)
      out.general_remark =
          "has the time of the whole step alone, which is taken as that of the forward pass here "
          "and on later lines";
    return;
  }
  if (cells.text(sweep_field::step_lower)) {
    row = gpuplan::detail::scaled_to(duration::from_value(*step), row);
    return;
  }
  const double unit = cells.scales[static_cast<std::size_t>(sweep_field::step)];
  if (std::abs(sum - *step) <= rounding_of(*cells.text(sweep_field::step), *step, unit, phases))
    return;
  if (*step > sum) {
    row.forward += duration::from_value(*step - sum);
    out.general_remark =
        "has a total above the sum of its times; what is in none of them counts as forward, here "
        "and on later lines";
  } else {
    out.remark = "its times add up to " + decimal(sum * 1e3, 2) + " ms, and its total is " +
                 decimal(*step * 1e3, 2) + " ms";
  }
}

inline constexpr std::int64_t most_of_a_count = std::int64_t{1} << 40;
inline constexpr double shortest_step_s = 1e-12;
inline constexpr double longest_step_s = 1e9;
inline constexpr double most_memory_bytes = 1e18;

[[nodiscard]] inline read_row row_of(const sweep_cells& cells) {
  read_row out;
  sweep_row row;
  // More than anyone can have, and no more than sums of them can hold.
  const auto count = [&](sweep_field field) {
    const std::optional<std::int64_t> value = count_in(cells, field);
    if (value && *value > most_of_a_count)
      refuse(field, "is above 2^40: " + std::to_string(*value));
    return value;
  };
  const auto batch = count(sweep_field::micro_batch);
  if (!batch) refuse(sweep_field::micro_batch, "is missing");
  row.micro_batch = *batch;
  row.workers = count(sweep_field::workers).value_or(0);
  row.mixed_precision = truth_in(cells, sweep_field::mixed_precision).value_or(false);
  row.pinned_memory = truth_in(cells, sweep_field::pinned_memory).value_or(false);
  switch (outcome_of(cells)) {
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

  const auto phases = static_cast<int>(
      std::count_if(std::begin(phase_fields), std::end(phase_fields), [&](sweep_field field) {
        return cells.text(field).has_value();
      }));
  const auto time = [&](sweep_field field) {
    return duration::from_value(number_in(cells, field).value_or(0));
  };
  row.data = time(sweep_field::data);
  row.forward = time(sweep_field::forward) + time(sweep_field::other);
  row.backward = time(sweep_field::backward);
  row.optimizer = time(sweep_field::optimizer);
  row.communication = time(sweep_field::communication);
  if (phases == 0 && !cells.text(sweep_field::step)) throw unreadable("there is no time");
  row.gpu_utilisation = number_in(cells, sweep_field::utilisation).value_or(0);
  if (row.gpu_utilisation < 0 || row.gpu_utilisation > 1)
    refuse(sweep_field::utilisation,
           "is " + decimal(100 * row.gpu_utilisation, -1) +
               " %, not from 0 to 100 %; a head such as GPU% says that it is in per cent");
  // A memory that is there must be valid; whether it may be missing, the whole file tells.
  const auto memory = number_in(cells, sweep_field::memory);
  row.memory = memory ? bytes::from_value(std::round(*memory)) : 1_B;
  // First the times as they stand, so that each is named where it is wrong.
  if (phases > 0) require_valid_times(row);
  apply_total(out, row, cells, phases);
  require_valid(row);
  // Beyond these ends rates and products leave the range of doubles.
  const double step = step_time(row).value();
  if (!(step >= shortest_step_s && step <= longest_step_s))
    throw unreadable("its step takes " + decimal(step, -1) + " s, not from 1e-12 to 1e9 s");
  if (row.memory.value() > most_memory_bytes)
    refuse(sweep_field::memory, "is above 1e18 bytes: " + *cells.text(sweep_field::memory));
  if (!memory) row.memory = {};
  out.row = row;
  return out;
}

// `said` is what was said once of the file.
inline void add_line(sweep_file& to, const sweep_cells& cells, std::set<std::string>& said) {
  try {
    const read_row read = row_of(cells);
    if (!read.remark.empty()) to.remarks.push_back({cells.line, read.remark});
    if (!read.general_remark.empty() && said.insert(read.general_remark).second)
      to.remarks.push_back({cells.line, read.general_remark});
    if (!read.row) return;
    to.rows.push_back(*read.row);
    to.lines.push_back(cells.line);
    const auto has = [&](sweep_field field) { return cells.text(field).has_value(); };
    to.has_utilisation = to.has_utilisation || has(sweep_field::utilisation);
    to.has_precision = to.has_precision || has(sweep_field::mixed_precision);
    to.has_memory = to.has_memory || (gpuplan::detail::ran(*read.row) && has(sweep_field::memory));
  } catch (const unreadable& why) {
    to.bad.push_back({cells.line, why.reason});
  }
}

// Rows without memory beside rows with it cannot be used; where no row has any, none was measured.
inline void settle_memory(sweep_file& file) {
  const auto misses = [](const sweep_row& row) {
    return gpuplan::detail::ran(row) && row.memory == bytes{};
  };
  const auto first = std::find_if(file.rows.begin(), file.rows.end(), misses);
  if (first == file.rows.end()) return;
  const auto before = [](const bad_line& a, const bad_line& b) { return a.line < b.line; };
  if (!file.has_memory) {
    const bad_line remark{file.lines[static_cast<std::size_t>(first - file.rows.begin())],
                          "has no memory, and no other line has"};
    file.remarks.insert(std::upper_bound(file.remarks.begin(), file.remarks.end(), remark, before),
                        remark);
    return;
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at < file.rows.size(); ++at) {
    if (misses(file.rows[at])) {
      file.bad.push_back({file.lines[at], "memory is missing"});
      continue;
    }
    file.rows[kept] = file.rows[at];
    file.lines[kept++] = file.lines[at];
  }
  file.rows.resize(kept);
  file.lines.resize(kept);
  std::sort(file.bad.begin(), file.bad.end(), before);
}

// The places of a head's columns; nothing where it is no head of a sweep: among the words of a
// printed table two must be known where all are, else three, and of cells between commas one.
[[nodiscard]] inline std::optional<std::vector<column_place>> places_of(
    const std::vector<std::string>& head, bool is_printed) {
  std::vector<column_place> places;
  bool has_batch = false;
  std::size_t known = 0;
  for (const std::string& heading : head) {
    places.push_back(place_of(without_spaces_around(heading)));
    known += places.back().field.has_value();
    has_batch = has_batch || places.back().field == sweep_field::micro_batch;
  }
  if (!has_batch || head.size() < 2) return std::nullopt;
  if (is_printed && known < 3 && known < head.size()) return std::nullopt;
  return places;
}

// Which column is missing or cannot be read, if one is.
[[nodiscard]] inline failure flaw_of_head(const std::vector<column_place>& places) {
  bool has_time = false;
  for (const column_place& place : places) {
    if (!place.field) continue;
    if (!place.flaw.empty())
      return failure(errc::sweep_column_without_unit)
          .about(std::string(split_head(column_of(*place.field).name).name).c_str());
    has_time = has_time || column_of(*place.field).unit == sweep_unit::time;
  }
  if (!has_time) return failure(errc::malformed_sweep).about("time");
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
  std::set<std::string> said;
  std::optional<std::vector<column_place>> places;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const auto words = words_of(take_line(text).text);
    if (!places) {
      places = places_of(words, true);
      if (!places) continue;
      if (const failure why = flaw_of_head(*places); gpuplan::detail::failed(why)) return why;
    } else if (!is_rule(words)) {
      try {
        add_line(out, cells_of_words(words, *places, line), said);
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
  std::set<std::string> said;
  std::optional<std::vector<column_place>> places;
  for (std::int64_t line = 1; !text.empty();) {
    const csv_record record = take_csv_record(text);
    const std::int64_t first = line;
    line += record.lines;
    if (record.cells.size() == 1 && without_spaces_around(record.cells.front()).empty()) continue;
    if (!places) {
      places = places_of(record.cells, false);
      if (!places) return failure(errc::malformed_sweep).about("micro_batch");
      if (const failure why = flaw_of_head(*places); gpuplan::detail::failed(why)) return why;
    } else if (!record.is_quoted_right) {
      out.bad.push_back({first,
                         "a quotation mark is not closed within " +
                             std::to_string(most_quoted_lines) + " lines"});
    } else if (record.cells.size() != places->size()) {
      out.bad.push_back({first,
                         "has " + std::to_string(record.cells.size()) + " cells, and its head " +
                             std::to_string(places->size())});
    } else {
      sweep_cells cells{.line = first};
      for (std::size_t at = 0; at < places->size(); ++at)
        cells.set((*places)[at], std::string(without_spaces_around(record.cells[at])));
      add_line(out, cells, said);
    }
  }
  return out;
}

[[nodiscard]] inline sweep_file read_json_lines(std::string_view text) {
  sweep_file out{.format = sweep_format::json_lines};
  std::set<std::string> said;
  places_by_key places;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view object = without_spaces_around(take_line(text).text);
    if (object.empty()) continue;
    try {
      add_line(out, cells_of_json(object, line, places), said);
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
/// blank line or a rule. A line ran out of memory where its outcome says so, or without one a time
/// or the memory ("OOM"). Missing workers are 0, missing precision is full, and memory is 0 where
/// no line has any. Time in no phase counts as forward, also what a total has beyond its phases;
/// where it has less, they count, and a remark says so. Counts reach to 2^40, steps from 1e-12 to
/// 1e9 s, memory to 1e18 bytes. With quartiles of the step, as gpuplan writes them, times are
/// medians: the phases are then scaled to the step's. Lines that cannot be used are in `bad`, with
/// their reasons; for all or nothing see `all_rows`. Errors, of the whole file: `malformed_sweep`
/// with the column that is missing; `sweep_column_without_unit`.
[[nodiscard]] inline result<sweep_file> read_sweep(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string_view rest = text;
  std::string_view first;
  while (first.empty() && !rest.empty())
    first = detail::without_spaces_around(detail::take_line(rest).text);
  std::string_view record = first;
  result<sweep_file> read = first.starts_with('{') ? detail::read_json_lines(text)
                            : detail::places_of(detail::take_csv_record(record).cells, false)
                                ? detail::read_csv(text)
                                : detail::read_printed(text);
  if (!read) return read;
  sweep_file file = *std::move(read);
  detail::settle_memory(file);
  return file;
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

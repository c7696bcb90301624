#pragma once

// The columns of a file of sweep results: what they are called, in which units, and the text of
// their cells. Needs nlohmann/json.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/json_depth.hpp>
#include <gpuplan/io/table.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// The ways to write a sweep down: as a benchmark prints its table, and line by line for programs.
enum class sweep_format { printed_table, csv, json_lines };

/// A line of a file that could not be read, counted from 1, and why.
struct bad_line {
  std::int64_t line = 0;
  std::string reason{};

  friend bool operator==(const bad_line&, const bad_line&) = default;
};

namespace detail {

// What a column holds. Those that gpuplan writes have its names; the others are other programs'.
enum class sweep_field {
  micro_batch,
  workers,
  mixed_precision,
  pinned_memory,
  outcome,
  message,
  set_up,
  warm_up_steps,
  steps,
  outliers,
  discarded,
  why_ended,
  data,
  data_lower,
  data_upper,
  forward,
  forward_lower,
  forward_upper,
  backward,
  backward_lower,
  backward_upper,
  optimizer,
  optimizer_lower,
  optimizer_upper,
  communication,
  communication_lower,
  communication_upper,
  other,
  other_lower,
  other_upper,
  step,
  step_lower,
  step_upper,
  utilisation,
  memory,
  subject,
  date,
  count
};
inline constexpr auto sweep_fields = static_cast<std::size_t>(sweep_field::count);

enum class sweep_unit { none, time, share, memory };

struct sweep_column {
  const char* name;  // in files that gpuplan writes
  sweep_unit unit;
  std::array<const char*, 8> others{};  // letters and digits alone, without the unit
};

[[nodiscard]] inline const sweep_column& column_of(sweep_field field) {
  static constexpr sweep_column columns[sweep_fields] = {
      {"micro_batch", sweep_unit::none, {"batch", "batchsize", "bs", "microbatchsize"}},
      {"workers", sweep_unit::none, {"numworkers", "worker", "dataworkers"}},
      {"mixed_precision", sweep_unit::none, {"amp", "mixed", "useamp"}},
      {"pinned_memory", sweep_unit::none, {"pinmemory", "pinned", "pin"}},
      {"outcome", sweep_unit::none, {"status"}},
      {"message", sweep_unit::none},
      {"set_up_s", sweep_unit::time},
      {"warm_up_steps", sweep_unit::none},
      {"steps", sweep_unit::none},
      {"outliers", sweep_unit::none},
      {"discarded", sweep_unit::none},
      {"why_ended", sweep_unit::none},
      {"data_s", sweep_unit::time, {"io", "load", "loading", "dataloading", "datatime"}},
      {"data_lower_s", sweep_unit::time},
      {"data_upper_s", sweep_unit::time},
      {"forward_s", sweep_unit::time, {"fwd", "forwardtime", "fwdtime"}},
      {"forward_lower_s", sweep_unit::time},
      {"forward_upper_s", sweep_unit::time},
      {"backward_s", sweep_unit::time, {"bwd", "backwardtime", "bwdtime"}},
      {"backward_lower_s", sweep_unit::time},
      {"backward_upper_s", sweep_unit::time},
      {"optimizer_s", sweep_unit::time, {"opt", "optimiser", "optim", "optimizertime"}},
      {"optimizer_lower_s", sweep_unit::time},
      {"optimizer_upper_s", sweep_unit::time},
      {"communication_s", sweep_unit::time, {"comm", "allreduce", "communicationtime"}},
      {"communication_lower_s", sweep_unit::time},
      {"communication_upper_s", sweep_unit::time},
      {"other_s", sweep_unit::time},
      {"other_lower_s", sweep_unit::time},
      {"other_upper_s", sweep_unit::time},
      {"step_s", sweep_unit::time, {"total", "steptime", "totaltime"}},
      {"step_lower_s", sweep_unit::time},
      {"step_upper_s", sweep_unit::time},
      {"utilisation",
       sweep_unit::share,
       {"gpu", "gpuutil", "utilization", "gpuutilization", "util"}},
      {"memory_bytes",
       sweep_unit::memory,
       {"mem",
        "gpumemory",
        "gpumem",
        "peakmemory",
        "peakmem",
        "maxmemory",
        "maxmem",
        "maxmemoryallocated"}},
      {"subject", sweep_unit::none},
      {"date", sweep_unit::none},
  };
  return columns[static_cast<std::size_t>(field)];
}

// ---- heads

struct named_unit {
  const char* name;
  sweep_unit quantity;
  double size;  // in s, bytes, or of 1
};

[[nodiscard]] inline const named_unit* unit_named(std::string_view name) {
  static constexpr named_unit units[] = {{"s", sweep_unit::time, 1},
                                         {"sec", sweep_unit::time, 1},
                                         {"ms", sweep_unit::time, 1e-3},
                                         {"us", sweep_unit::time, 1e-6},
                                         {"µs", sweep_unit::time, 1e-6},
                                         {"ns", sweep_unit::time, 1e-9},
                                         {"%", sweep_unit::share, 1e-2},
                                         {"percent", sweep_unit::share, 1e-2},
                                         {"b", sweep_unit::memory, 1},
                                         {"bytes", sweep_unit::memory, 1},
                                         {"kb", sweep_unit::memory, 1e3},
                                         {"mb", sweep_unit::memory, 1e6},
                                         {"gb", sweep_unit::memory, 1e9},
                                         {"kib", sweep_unit::memory, 0x1p10},
                                         {"mib", sweep_unit::memory, 0x1p20},
                                         {"gib", sweep_unit::memory, 0x1p30}};
  std::string plain(name);
  for (char& c : plain) c = gpuplan::detail::lower(c);
  for (const named_unit& known : units)
    if (plain == known.name) return &known;
  return nullptr;
}

struct head {
  std::string_view name{};
  std::string_view unit{};  // empty where it states none
};

// "I/O(ms)", "memory [GB]", "GPU%", "forward_ms" and "utilisation".
[[nodiscard]] inline head split_head(std::string_view text) {
  const std::size_t open = text.find_first_of("([");
  if (open != std::string_view::npos && open > 0) {
    const std::size_t close = text.find_first_of(")]", open);
    return {text.substr(0, open),
            text.substr(open + 1, close == std::string_view::npos ? close : close - open - 1)};
  }
  if (text.size() > 1 && text.back() == '%')
    return {text.substr(0, text.size() - 1), text.substr(text.size() - 1)};
  const std::size_t gap = text.find_last_of("_ ");
  if (gap != std::string_view::npos && gap > 0 && unit_named(text.substr(gap + 1)) != nullptr)
    return {text.substr(0, gap), text.substr(gap + 1)};
  return {text, {}};
}

[[nodiscard]] inline std::optional<sweep_field> field_named(std::string_view name) {
  using fields_by_name = std::map<std::string, sweep_field, std::less<>>;
  static const fields_by_name all = [] {
    fields_by_name names;
    for (std::size_t at = 0; at < sweep_fields; ++at) {
      const sweep_column& column = column_of(static_cast<sweep_field>(at));
      const gpuplan::detail::plain_name own(split_head(column.name).name);
      names.emplace(own.text(), static_cast<sweep_field>(at));
      for (const char* other : column.others)
        if (other != nullptr) names.emplace(other, static_cast<sweep_field>(at));
    }
    return names;
  }();
  const auto found = all.find(gpuplan::detail::plain_name(name).text());
  if (found == all.end()) return std::nullopt;
  return found->second;
}

// Where a column of a file goes, and what one of its units is; nothing for a column that is not
// read.
struct column_place {
  std::optional<sweep_field> field{};
  double scale = 1;
  std::string flaw{};  // why it cannot be read, where it should be
};

[[nodiscard]] inline column_place place_of(std::string_view heading) {
  const head split = split_head(heading);
  column_place place{.field = field_named(split.name)};
  if (!place.field) return place;
  const sweep_unit wanted = column_of(*place.field).unit;
  if (split.unit.empty()) {
    if (wanted == sweep_unit::time || wanted == sweep_unit::memory)
      place.flaw = "column \"" + std::string(heading) + "\" states no unit, such as " +
                   std::string(split.name) + (wanted == sweep_unit::time ? "_ms" : "_GB");
    return place;
  }
  const named_unit* unit = unit_named(split.unit);
  if (unit == nullptr || unit->quantity != wanted) {
    // A rate or a share in a column that is otherwise called like ours is none of ours.
    place.field.reset();
    return place;
  }
  place.scale = unit->size;
  return place;
}

// ---- cells

// One line of a file: the text of the cells it has, and the size of their units.
struct sweep_cells {
  std::int64_t line = 0;
  std::array<std::optional<std::string>, sweep_fields> texts{};
  std::array<double, sweep_fields> scales{};

  void set(const column_place& place, std::string text) {
    if (!place.field || text.empty()) return;
    const auto at = static_cast<std::size_t>(*place.field);
    texts[at] = std::move(text);
    scales[at] = place.scale;
  }
  [[nodiscard]] const std::optional<std::string>& text(sweep_field field) const {
    return texts[static_cast<std::size_t>(field)];
  }
};

// What a file holds, as a terminal may show it: on one line, without what it would obey, and short.
[[nodiscard]] inline std::string shown(std::string text) {
  constexpr std::size_t most = 160;
  if (text.size() > most) {
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    text = text.substr(0, end) + "...";
  }
  return printable(text);
}

// Why a line cannot be read.
struct unreadable {
  std::string reason;
  explicit unreadable(std::string why) : reason(shown(std::move(why))) {}
};

[[noreturn]] inline void refuse(sweep_field field, const std::string& what) {
  throw unreadable(std::string(split_head(column_of(field).name).name) + ' ' + what);
}

// A number in s, bytes or of 1; nothing where there is no cell.
[[nodiscard]] inline std::optional<double> number_in(const sweep_cells& cells, sweep_field field) {
  const std::optional<std::string>& text = cells.text(field);
  if (!text) return std::nullopt;
  double value = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stopped != end) refuse(field, "is no number: " + *text);
  return value * cells.scales[static_cast<std::size_t>(field)];
}

[[nodiscard]] inline std::optional<std::int64_t> count_in(const sweep_cells& cells,
                                                          sweep_field field) {
  const std::optional<std::string>& text = cells.text(field);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stopped != end) refuse(field, "is no whole number: " + *text);
  return value;
}

[[nodiscard]] inline std::optional<bool> truth_in(const sweep_cells& cells, sweep_field field) {
  const std::optional<std::string>& text = cells.text(field);
  if (!text) return std::nullopt;
  const gpuplan::detail::plain_name plain(*text);
  for (const char* yes : {"yes", "true", "1", "on"})
    if (plain.text() == yes) return true;
  for (const char* no : {"no", "false", "0", "off"})
    if (plain.text() == no) return false;
  refuse(field, "is neither yes nor no: " + *text);
}

// ---- lines

// Takes the next line off a text, without what ends it; whether something ended it.
struct taken_line {
  std::string_view text{};
  bool ended = false;
};
[[nodiscard]] inline taken_line take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  taken_line line{.text = rest.substr(0, end), .ended = end != std::string_view::npos};
  rest.remove_prefix(line.ended ? end + 1 : rest.size());
  if (!line.text.empty() && line.text.back() == '\r') line.text.remove_suffix(1);
  return line;
}

[[nodiscard]] inline std::string_view without_spaces_around(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// Takes one record off a text in CSV (RFC 4180). A quote that nothing ends within so many lines
// takes its own line alone, so that what follows can still be read, in a time that grows with it.
inline constexpr std::int64_t most_quoted_lines = 100;
struct csv_record {
  std::vector<std::string> cells{};
  std::int64_t lines = 1;
  bool ended = false;  // by a line's end
  bool is_quoted_right = true;
};
[[nodiscard]] inline csv_record take_csv_record(std::string_view& rest) {
  csv_record record;
  record.cells.emplace_back();
  bool in_quotes = false;
  std::size_t at = 0;
  for (; at < rest.size() && record.lines <= most_quoted_lines; ++at) {
    const char c = rest[at];
    if (in_quotes) {
      if (c != '"') {
        record.lines += c == '\n';
        record.cells.back() += c;
      } else if (at + 1 < rest.size() && rest[at + 1] == '"') {
        record.cells.back() += rest[++at];
      } else {
        in_quotes = false;
      }
    } else if (c == '"' && record.cells.back().empty()) {
      in_quotes = true;
    } else if (c == ',') {
      record.cells.emplace_back();
    } else if (c == '\n') {
      record.ended = true;
      break;
    } else if (c != '\r') {
      record.cells.back() += c;
    }
  }
  if (in_quotes || record.lines > most_quoted_lines) {
    const taken_line line = take_line(rest);
    return {.cells = {std::string(line.text)}, .ended = line.ended, .is_quoted_right = false};
  }
  rest.remove_prefix(record.ended ? at + 1 : at);
  return record;
}

// One object of plain values, keyed by the names of columns. The lines of a file have the same
// keys, whose places are found once.
using places_by_key = std::map<std::string, column_place, std::less<>>;
[[nodiscard]] inline sweep_cells cells_of_json(std::string_view text,
                                               std::int64_t line,
                                               places_by_key& places) {
  if (is_too_deep(text)) throw unreadable("nests deeper than " + std::to_string(most_json_depth));
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (object.is_discarded() && (text.find("NaN") != std::string_view::npos ||
                                text.find("Infinity") != std::string_view::npos))
    throw unreadable("is no JSON, which has no NaN or Infinity: write null instead");
  if (!object.is_object()) throw unreadable("is no JSON object");
  sweep_cells cells{.line = line};
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    auto found = places.find(key);
    if (found == places.end()) found = places.emplace(key, place_of(key)).first;
    const column_place& place = found->second;
    if (!place.field) continue;
    if (!place.flaw.empty()) throw unreadable(place.flaw);
    if (value.is_structured()) throw unreadable(key + " is no plain value");
    cells.set(place, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return cells;
}

}  // namespace detail
}  // namespace gpuplan::io

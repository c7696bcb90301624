#pragma once

// The results of a sweep, setting by setting: as lines of CSV or JSON, out and in. Needs
// nlohmann/json.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/csv.hpp>
#include <gpuplan/io/sweep/columns.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// What a trial was measured of, and when.
struct trial_origin {
  std::string subject{};  // all that must be the same for trials to be of one sweep, in words
  std::string date{};     // "2026-11-23"

  friend bool operator==(const trial_origin&, const trial_origin&) = default;
};

namespace detail {

// A trial's phases, each with the column of its median; quartiles are in the two columns after it.
template <class Trial, class Visit>
void visit_phases(Trial& trial, Visit visit) {
  visit(sweep_field::data, trial.data);
  visit(sweep_field::forward, trial.forward);
  visit(sweep_field::backward, trial.backward);
  visit(sweep_field::optimizer, trial.optimizer);
  visit(sweep_field::communication, trial.communication);
  visit(sweep_field::other, trial.other);
  visit(sweep_field::step, trial.step);
}

[[nodiscard]] inline sweep_field after(sweep_field field, int columns) {
  return static_cast<sweep_field>(static_cast<int>(field) + columns);
}

// What a trial has to say, column by column; what it has not is null.
using trial_values = std::array<nlohmann::ordered_json, sweep_fields>;
[[nodiscard]] inline trial_values values_of(const measure::trial& t, const trial_origin& origin) {
  trial_values values;
  const auto set = [&values](sweep_field field, auto value) {
    if constexpr (std::is_same_v<decltype(value), double>)
      if (!std::isfinite(value)) return;
    values[static_cast<std::size_t>(field)] = std::move(value);
  };
  set(sweep_field::micro_batch, t.setting.micro_batch);
  set(sweep_field::workers, t.setting.workers);
  set(sweep_field::mixed_precision, t.setting.mixed_precision);
  set(sweep_field::pinned_memory, t.setting.pinned_memory);
  set(sweep_field::outcome, std::string(name(t.outcome)));
  const auto set_text = [&](sweep_field field, const std::string& text) {
    // A line's end within a line would keep half of it from being told from a whole one.
    if (!text.empty()) set(field, printable(text));
  };
  set_text(sweep_field::message, t.message);
  set_text(sweep_field::subject, origin.subject);
  set_text(sweep_field::date, origin.date);
  set(sweep_field::set_up, t.set_up_s);
  set(sweep_field::warm_up_steps, t.warm_up_steps);
  set(sweep_field::steps, t.steps);
  if (t.steps == 0) return values;
  set(sweep_field::outliers, t.outliers);
  set(sweep_field::discarded, t.discarded);
  set(sweep_field::why_ended, std::string(name(t.why_ended)));
  visit_phases(t, [&](sweep_field median, const measure::quartiles& seconds) {
    set(median, seconds.median);
    set(after(median, 1), seconds.lower);
    set(after(median, 2), seconds.upper);
  });
  if (t.utilisation) set(sweep_field::utilisation, *t.utilisation);
  if (t.memory_bytes) set(sweep_field::memory, *t.memory_bytes);
  return values;
}

template <class Enum>
[[nodiscard]] Enum enumerator_in(const sweep_cells& cells,
                                 sweep_field field,
                                 std::initializer_list<Enum> all) {
  const std::optional<std::string>& text = cells.text(field);
  if (!text) refuse(field, "is missing");
  for (const Enum known : all)
    if (gpuplan::detail::plain_name(*text) == gpuplan::detail::plain_name(name(known)))
      return known;
  refuse(field, "is not known: " + *text);
}

template <class Value>
[[nodiscard]] Value needed(const std::optional<Value>& value, sweep_field field) {
  if (!value) refuse(field, "is missing");
  return *value;
}

[[nodiscard]] inline measure::trial trial_of(const sweep_cells& cells) {
  using measure::stop_reason;
  using measure::trial_outcome;
  const auto number = [&](sweep_field field) { return needed(number_in(cells, field), field); };
  const auto count = [&](sweep_field field) {
    const std::int64_t value = needed(count_in(cells, field), field);
    if (value < 0) refuse(field, "is negative");
    return value;
  };
  measure::trial t;
  t.setting.micro_batch = count(sweep_field::micro_batch);
  if (t.setting.micro_batch == 0) refuse(sweep_field::micro_batch, "is 0");
  t.setting.workers = count(sweep_field::workers);
  t.setting.mixed_precision =
      needed(truth_in(cells, sweep_field::mixed_precision), sweep_field::mixed_precision);
  t.setting.pinned_memory =
      needed(truth_in(cells, sweep_field::pinned_memory), sweep_field::pinned_memory);
  t.outcome = enumerator_in(cells,
                            sweep_field::outcome,
                            {trial_outcome::ran,
                             trial_outcome::out_of_memory,
                             trial_outcome::skipped,
                             trial_outcome::failed,
                             trial_outcome::out_of_time});
  t.message = cells.text(sweep_field::message).value_or("");
  t.set_up_s = number(sweep_field::set_up);
  t.warm_up_steps = count(sweep_field::warm_up_steps);
  t.steps = count(sweep_field::steps);
  if (t.steps == 0) {
    if (t.outcome == trial_outcome::ran) refuse(sweep_field::steps, "is 0, and the outcome: ran");
    return t;
  }
  t.outliers = count(sweep_field::outliers);
  t.discarded = count(sweep_field::discarded);
  t.why_ended = enumerator_in(cells,
                              sweep_field::why_ended,
                              {stop_reason::steady,
                               stop_reason::median_known,
                               stop_reason::most_samples,
                               stop_reason::out_of_time});
  visit_phases(t, [&](sweep_field median, measure::quartiles& seconds) {
    seconds.median = number(median);
    seconds.lower = number(after(median, 1));
    seconds.upper = number(after(median, 2));
  });
  t.utilisation = number_in(cells, sweep_field::utilisation);
  t.memory_bytes = number_in(cells, sweep_field::memory);
  return t;
}

}  // namespace detail

/// The first line of a file of trials in CSV, ended.
[[nodiscard]] inline std::string csv_head_of_trials() {
  std::string line;
  for (std::size_t at = 0; at < detail::sweep_fields; ++at)
    line += (at == 0 ? "" : ",") +
            std::string(detail::column_of(static_cast<detail::sweep_field>(at)).name);
  return line + "\r\n";
}

/// A trial as one line of CSV or JSON, ended: seconds, bytes and shares, each number in as many
/// digits as it needs, texts on one line. What the trial or its origin has not is empty in CSV and
/// has no key in JSON. A printed table has no such lines: precondition.
[[nodiscard]] inline std::string line_of(const measure::trial& t,
                                         sweep_format format,
                                         const trial_origin& origin = {}) {
  if (format == sweep_format::printed_table)
    gpuplan::detail::precondition_violated(failure(errc::malformed_table).about("format"));
  const detail::trial_values values = detail::values_of(t, origin);
  if (format == sweep_format::json_lines) {
    auto object = nlohmann::ordered_json::object();
    for (std::size_t at = 0; at < values.size(); ++at)
      if (!values[at].is_null())
        object[detail::column_of(static_cast<detail::sweep_field>(at)).name] = values[at];
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  }
  std::string line;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (at > 0) line += ',';
    if (values[at].is_string())
      line += detail::csv_field(values[at].get<std::string>());
    else if (!values[at].is_null())
      line += values[at].dump();
  }
  return line + "\r\n";
}

/// A file of trials that was read.
struct trials_file {
  std::vector<measure::trial> trials{};  // of a setting with several, the last
  std::vector<trial_origin> origins{};   // of the trials
  std::vector<bad_line> bad{};
  std::size_t whole_size = 0;  // in characters, of the lines that are ended
  bool is_cut = false;         // the last line was not ended, and is not read
};

/// Reads what `line_of` wrote, after its head where it is CSV. A line that is not ended, as a
/// program leaves it that was killed while it wrote, is passed over. Errors: `malformed_sweep` for
/// a file in CSV that begins with another head.
[[nodiscard]] inline result<trials_file> read_trials(std::string_view text, sweep_format format) {
  trials_file out;
  out.whole_size = text.rfind('\n') + 1;  // 0 where there is none
  out.is_cut = out.whole_size < text.size();
  text = text.substr(0, out.whole_size);
  const auto add = [&out](const detail::sweep_cells& cells) {
    measure::trial trial = detail::trial_of(cells);
    const auto text_in = [&](detail::sweep_field field) { return cells.text(field).value_or(""); };
    trial_origin origin{.subject = text_in(detail::sweep_field::subject),
                        .date = text_in(detail::sweep_field::date)};
    auto same = std::find_if(out.trials.begin(), out.trials.end(), [&](const measure::trial& t) {
      return t.setting == trial.setting;
    });
    if (same == out.trials.end()) {
      out.trials.push_back(std::move(trial));
      out.origins.push_back(std::move(origin));
    } else {
      out.origins[static_cast<std::size_t>(same - out.trials.begin())] = std::move(origin);
      *same = std::move(trial);
    }
  };
  detail::places_by_key places;
  std::int64_t line = 1;
  if (format == sweep_format::csv && !text.empty()) {
    const std::string head = csv_head_of_trials();
    const detail::taken_line first = detail::take_line(text);
    if (first.text != std::string_view(head).substr(0, head.size() - 2))
      return failure(errc::malformed_sweep).about("micro_batch, workers and so on");
    ++line;
  }
  while (!text.empty()) {
    const std::int64_t first = line;
    try {
      if (format == sweep_format::csv) {
        const detail::csv_record record = detail::take_csv_record(text);
        line += record.lines;
        if (!record.is_quoted_right || record.cells.size() != detail::sweep_fields)
          throw detail::unreadable("has " + std::to_string(record.cells.size()) +
                                   " cells, and its head " + std::to_string(detail::sweep_fields));
        detail::sweep_cells cells{.line = first};
        for (std::size_t at = 0; at < record.cells.size(); ++at)
          cells.set({.field = static_cast<detail::sweep_field>(at)}, record.cells[at]);
        add(cells);
      } else {
        const std::string_view object = detail::take_line(text).text;
        ++line;
        if (!object.empty()) add(detail::cells_of_json(object, first, places));
      }
    } catch (const detail::unreadable& why) {
      out.bad.push_back({first, why.reason});
    }
  }
  return out;
}

}  // namespace gpuplan::io

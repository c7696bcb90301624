#pragma once

// What a sweep says, for people: its table, the setting to take by each rule and why, what holds
// each setting back, and what else follows.

#include <gpuplan/io/markdown.hpp>
#include <gpuplan/io/sweep/advice.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/sweep.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// What the rows of a sweep are judged by.
struct sweep_judgement {
  std::optional<memory_budget> device{};  // what it has for tensors; without it none is recommended
  std::string device_name{};
  sweep_thresholds thresholds{};
  bool has_utilisation = true;  // else that of the rows means nothing
  sweep_offers offers{};        // what may be advised
};

/// Tables in the order to read them, and sentences.
struct sweep_report {
  std::vector<table> tables{};
  std::vector<std::string> notes{};
};

namespace detail {

[[nodiscard]] inline std::string percent_of(double share, int digits = 0) {
  return decimal(100 * share, digits) + " %";
}
[[nodiscard]] inline std::string percent_of(const gpuplan::range<double>& shares) {
  return to_text(cell(gpuplan::range<double>(100 * shares.low(), 100 * shares.high()), 0)) + " %";
}
[[nodiscard]] inline bool is_any_share(const gpuplan::range<double>& shares) {
  return shares == gpuplan::range<double>(0, 1);
}
[[nodiscard]] inline std::string gigabytes(bytes memory) {
  return memory < 1_GB ? short_decimal(in(memory, 1_MB), 2) + " MB"
                       : short_decimal(in(memory, 1_GB), 2) + " GB";
}

class sweep_reading {
 public:
  sweep_reading(const shown_rows& shown, const sweep_judgement& judgement)
      : rows_(shown.rows), judgement_(judgement), has_memory_(shown.has_memory) {
    for (const sweep_row& row : rows_) {
      has_pinned_ = has_pinned_ || row.pinned_memory;
      if (!gpuplan::detail::ran(row)) continue;
      has_optimizer_ = has_optimizer_ || row.optimizer != duration{};
      has_communication_ = has_communication_ || row.communication != duration{};
      largest_ = std::max(largest_, row.memory.value());
      shortest_ = std::min(shortest_, step_time(row).value());
    }
    static_cast<void>(validate(judgement_.thresholds).value_or_throw());
    if (!judgement_.has_utilisation) judgement_.thresholds.utilisation = {0, 1};
  }

  [[nodiscard]] table measured() const {
    table t{.title = "What was measured"};
    add_setting_columns(t);
    const auto add_number = [&t](const char* name, const char* unit) {
      t.columns.push_back({.name = name, .unit = unit, .align = alignment::point});
    };
    add_number("I/O", "ms");
    add_number("Fwd", "ms");
    add_number("Bwd", "ms");
    if (has_optimizer_) add_number("Opt", "ms");
    if (has_communication_) add_number("Comm", "ms");
    add_number("Total", "ms");
    add_number("Samples/s", "");
    if (judgement_.has_utilisation) add_number("GPU", "%");
    if (has_memory_) add_number("Mem", is_small() ? "MB" : "GB");
    t.columns.push_back({.name = "Status"});
    for (const sweep_row& row : rows_) {
      std::vector<cell> cells;
      add_setting(cells, setting_of(row));
      const bool ran = gpuplan::detail::ran(row);
      const auto time = [&](duration value) {
        cells.push_back(ran ? cell(in(value, 1_ms), shortest_ < 1e-3 ? 4 : 2) : cell());
      };
      time(row.data);
      time(row.forward);
      time(row.backward);
      if (has_optimizer_) time(row.optimizer);
      if (has_communication_) time(row.communication);
      time(step_time(row));
      cells.push_back(ran ? cell(throughput(row).value(), 1) : cell());
      if (judgement_.has_utilisation)
        cells.push_back(ran ? cell(100 * row.gpu_utilisation, 1) : cell());
      if (has_memory_) cells.push_back(ran ? memory_cell(row) : cell());
      cells.push_back(ran ? cell("ran").in(tone::good) : cell("OOM").in(tone::bad));
      t.rows.push_back(std::move(cells));
    }
    return t;
  }

  [[nodiscard]] table optimal() const {
    table t{.title = "The setting to take"};
    t.columns.push_back({.name = "by"});
    add_setting_columns(t);
    t.columns.push_back({.name = "Samples/s", .align = alignment::point});
    if (has_memory_)
      t.columns.push_back(
          {.name = "Mem", .unit = is_small() ? "MB" : "GB", .align = alignment::point});
    t.columns.push_back({.name = "why"});
    const auto add = [&](const char* rule, const result<sweep_pick>& pick, std::string why) {
      std::vector<cell> cells{rule};
      if (pick) {
        const sweep_row& row = rows_[pick->row];
        add_setting(cells, setting_of(row));
        cells.push_back(cell(throughput(row).value(), 1));
        if (has_memory_) cells.push_back(memory_cell(row));
      } else {
        cells.resize(t.columns.size() - 1, cell());
      }
      cells.emplace_back(std::move(why));
      t.rows.push_back(std::move(cells));
    };
    const auto fastest = pick_highest_throughput(rows_);
    add("throughput",
        fastest,
        fastest ? "the highest of " + count_of_rows(fastest->candidates) : "no row ran");
    const auto densest = pick_best_efficiency(rows_);
    if (!has_memory_)
      add("samples/s/GB", failure(errc::not_known), "no memory was measured");
    else
      add("samples/s/GB",
          densest,
          densest ? decimal(densest->value, 1) + " samples/s/GB, the most of " +
                        count_of_rows(densest->candidates)
                  : "no row ran");
    if (!has_memory_ || !judgement_.device) {
      add("recommended",
          failure(errc::not_known),
          has_memory_ ? "what the device has is not stated" : "no memory was measured");
    } else {
      const auto recommended = pick_recommended(rows_, *judgement_.device, judgement_.thresholds);
      add("recommended",
          recommended,
          recommended ? why(*recommended) : why_none(recommended.why()));
    }
    return t;
  }

  // Of each row, and what may help against each of the diagnoses.
  [[nodiscard]] std::pair<table, table> diagnoses() const {
    table t{.title = "What holds each setting back"};
    add_setting_columns(t);
    t.columns.push_back({.name = "data", .unit = "%", .align = alignment::point});
    const bool has_share = has_memory_ && judgement_.device.has_value();
    if (has_share) t.columns.push_back({.name = "memory", .unit = "%", .align = alignment::point});
    t.columns.push_back({.name = "diagnosis"});
    table help{.title = "What may help",
               .columns = {{.name = "diagnosis"},
                           {.name = "settings", .align = alignment::right},
                           {.name = "what may help"}}};
    std::vector<std::pair<sweep_advice, std::int64_t>> said;
    sweep_thresholds thresholds = judgement_.thresholds;
    if (!has_share) thresholds.memory_share = {0, 1};
    for (const sweep_row& row : rows_) {
      if (!gpuplan::detail::ran(row)) continue;
      const auto found =
          diagnose(row, has_share ? *judgement_.device : memory_budget(row.memory), thresholds);
      const sweep_advice words = advice_on(row, found.value_or_throw(), judgement_.offers);
      std::vector<cell> cells;
      add_setting(cells, setting_of(row));
      cells.emplace_back(100 * found->data_share, 1);
      if (has_share) cells.emplace_back(100 * found->memory_share, 1);
      cells.emplace_back(words.found.empty() ? "nothing" : words.found);
      t.rows.push_back(std::move(cells));
      if (words.found.empty()) continue;
      const auto same = std::find_if(
          said.begin(), said.end(), [&](const auto& one) { return one.first == words; });
      if (same == said.end())
        said.emplace_back(words, 1);
      else
        ++same->second;
    }
    for (const auto& [words, count] : said) help.rows.push_back({words.found, count, words.advice});
    return {std::move(t), std::move(help)};
  }

  [[nodiscard]] std::string criteria() const {
    return criteria_of(judgement_.thresholds, has_memory_ && judgement_.device.has_value());
  }

  // Where the series of the fastest row leads.
  [[nodiscard]] std::vector<std::string> beyond_the_rows() const {
    const auto fastest = pick_highest_throughput(rows_);
    if (!fastest) return {};
    const std::vector<sweep_row> alike = rows_like(rows_[fastest->row]);
    const std::string of_setting = "with " + in_words(setting_of(rows_[fastest->row]));
    const std::string beginning = 'W' + of_setting.substr(1) + ", ";
    std::vector<std::string> notes;
    const auto no_model = [&](const char* what, const failure& why) {
      notes.push_back("No model of " + std::string(what) + ' ' + of_setting + ": " +
                      failure_text(why).c_str() + '.');
    };
    const auto time = measured_time_of(alike);
    if (!time) {
      no_model("time", time.why());
    } else {
      std::string note = beginning + "throughput tends to " + rates(saturation_throughput(*time)) +
                         confidence(time->micro_batch.confidence);
      if (const auto batch = batch_at_saturation(*time, 0.9)) {
        note += "; 90 % of that takes a micro-batch of " + counts(batch->micro_batch);
        if (batch->extrapolates) note += ", in part by extrapolation";
      }
      notes.push_back(note + '.');
    }
    if (!has_memory_ || !judgement_.device) return notes;
    const auto memory = measured_memory_of(alike, judgement_.device->size());
    if (!memory) {
      no_model("memory", memory.why());
    } else {
      const auto surely = max_micro_batch(*judgement_.device, extrapolated(*memory));
      const auto measured = memory->curve.span().high();
      if (surely && *surely > measured)
        notes.push_back(beginning + "micro-batches up to " + std::to_string(measured) +
                        " were measured; by extrapolation, up to " + std::to_string(*surely) +
                        " fit " + device() + confidence(memory->curve.confidence) +
                        far_beyond(*surely, measured) + ran_out(alike) + '.');
    }
    return notes;
  }

 private:
  [[nodiscard]] bool is_small() const { return largest_ < 1e9; }
  [[nodiscard]] cell memory_cell(const sweep_row& row) const {
    return is_small() ? cell(in(row.memory, 1_MB), 1) : cell(in(row.memory, 1_GB), 2);
  }
  void add_setting_columns(table& t) const {
    t.columns.push_back({.name = "Batch", .align = alignment::right});
    t.columns.push_back({.name = "Workers", .align = alignment::right});
    t.columns.push_back({.name = "AMP"});
    if (has_pinned_) t.columns.push_back({.name = "Pinned"});
  }
  void add_setting(std::vector<cell>& cells, const sweep_setting& setting) const {
    cells.emplace_back(setting.micro_batch);
    cells.emplace_back(setting.workers);
    cells.emplace_back(setting.mixed_precision ? "yes" : "no");
    if (has_pinned_) cells.emplace_back(setting.pinned_memory ? "yes" : "no");
  }
  [[nodiscard]] static std::string count_of_rows(std::int64_t count) {
    return count == 1 ? "1 row that ran" : std::to_string(count) + " rows that ran";
  }
  // "fill 60–80 % of 80 GB", and "fit 80 GB" where any share of it is well.
  [[nodiscard]] std::string memory_band(bool is_one) const {
    const gpuplan::range<double>& shares = judgement_.thresholds.memory_share;
    return is_any_share(shares)
               ? (is_one ? "fits " : "fit ") + device()
               : (is_one ? "fills " : "fill ") + percent_of(shares) + " of " + device();
  }
  [[nodiscard]] bool has_utilisation_band() const {
    return judgement_.has_utilisation && !is_any_share(judgement_.thresholds.utilisation);
  }
  [[nodiscard]] std::string bands(bool is_one) const {
    std::string words = memory_band(is_one);
    if (has_utilisation_band())
      words += std::string(is_one ? " and uses " : " and use ") +
               percent_of(judgement_.thresholds.utilisation) + " of its time";
    return words;
  }
  [[nodiscard]] std::string device() const {
    return gigabytes(judgement_.device->size()) +
           (judgement_.device_name.empty() ? "" : " (" + judgement_.device_name + ")");
  }
  [[nodiscard]] std::string why(const sweep_pick& pick) const {
    const bool is_one = pick.candidates == 1;
    return "the highest throughput of " + std::to_string(pick.candidates) +
           (is_one ? " row that " : " rows that ") + bands(is_one);
  }
  [[nodiscard]] std::string why_none(const failure& reason) const {
    if (reason.code == errc::too_few_rows) return "no row ran";
    if (reason.code != errc::no_row_in_bands) return text(reason.code);
    const auto count = [&](fact name) { return std::to_string(reason[name]); };
    std::string words = "of " + count_of_rows(reason[fact::rows_that_ran]) + ", " +
                        count(fact::rows_in_memory_band) + ' ' + memory_band(false);
    if (has_utilisation_band())
      words += ", " + count(fact::rows_in_utilisation_band) + " use " +
               percent_of(judgement_.thresholds.utilisation) + " of its time, none both";
    const std::vector<sweep_row> alike = rows_like(rows_[pick_highest_throughput(rows_)->row]);
    const auto memory = fit_memory(alike, fit_weighting::absolute);
    if (!memory || reason[fact::rows_in_memory_band] > 0) return words;
    const auto next =
        batches_in(judgement_.thresholds.memory_share, *judgement_.device, memory->model);
    if (!next) return words;
    return words + "; by the line through memory, micro-batches of " + counts(*next) +
           " would fill it" + beyond(alike, next->high());
  }
  [[nodiscard]] static std::string rates(const gpuplan::range<sample_rate>& rate) {
    const double low = rate.low().value();
    const double high = rate.high().value();
    if (!gpuplan::detail::is_finite(high)) return "more than " + decimal(low, 1) + " samples/s";
    if (decimal(low, 1) == decimal(high, 1)) return decimal(low, 1) + " samples/s";
    return to_text(cell(gpuplan::range<double>(low, high), 1)) + " samples/s";
  }
  [[nodiscard]] static std::string confidence(double share) {
    return " with a confidence of " + percent_of(std::floor(100 * share) / 100);
  }
  [[nodiscard]] static std::string far_beyond(std::int64_t batch, std::int64_t measured) {
    const std::int64_t times = batch / measured;
    return times < 2 ? "" : ", " + std::to_string(times) + " times what was measured";
  }
  [[nodiscard]] static std::string counts(const gpuplan::range<std::int64_t>& count) {
    return count.low() == count.high()
               ? std::to_string(count.low())
               : std::to_string(count.low()) + " to " + std::to_string(count.high());
  }
  // What ran out although the line has room for it.
  [[nodiscard]] static std::string beyond(const std::vector<sweep_row>& rows, std::int64_t most) {
    for (const sweep_row& row : rows)
      if (!gpuplan::detail::ran(row) && row.micro_batch <= most)
        return ", but " + std::to_string(row.micro_batch) + " ran out of memory";
    return {};
  }
  [[nodiscard]] static std::string ran_out(const std::vector<sweep_row>& rows) {
    for (const sweep_row& row : rows)
      if (!gpuplan::detail::ran(row))
        return "; " + std::to_string(row.micro_batch) + " ran out of memory";
    return {};
  }
  [[nodiscard]] std::vector<sweep_row> rows_like(const sweep_row& row) const {
    std::vector<sweep_row> alike;
    for (const sweep_row& other : rows_)
      if (differ_in_batch_alone(setting_of(other), setting_of(row))) alike.push_back(other);
    return alike;
  }

  std::vector<sweep_row> rows_;
  sweep_judgement judgement_;
  bool has_memory_;
  bool has_pinned_ = false;
  bool has_optimizer_ = false;
  bool has_communication_ = false;
  double largest_ = 0;
  double shortest_ = gpuplan::detail::infinity;
};

// Why the series of a setting ended; of a trial, "out of time" is that no step did.
[[nodiscard]] inline const char* why_ended(measure::stop_reason why) {
  return why == measure::stop_reason::out_of_time ? "time was up" : name(why);
}

// How well each median is known.
[[nodiscard]] inline table spreads(const std::vector<measure::trial>& trials) {
  table t{.title = "How well the steps are known",
          .columns = {{.name = "Batch", .align = alignment::right},
                      {.name = "setting"},
                      {.name = "median", .unit = "ms", .align = alignment::point},
                      {.name = "quartiles", .unit = "ms", .align = alignment::right},
                      {.name = "steps", .align = alignment::right},
                      {.name = "outliers", .align = alignment::right},
                      {.name = "set up", .unit = "ms", .align = alignment::point},
                      {.name = "ended"}}};
  for (const measure::trial& trial : trials) {
    if (trial.outcome != measure::trial_outcome::ran) continue;
    t.rows.push_back(
        {trial.setting.micro_batch,
         in_words(trial.setting),
         cell(1e3 * trial.step.median, 3),
         cell(gpuplan::range<double>(1e3 * trial.step.lower, 1e3 * trial.step.upper), 3),
         trial.steps,
         trial.outliers,
         cell(1e3 * trial.set_up_s, 1),
         why_ended(trial.why_ended)});
  }
  return t;
}

// Where the quartiles of a step lie far apart its median says less; empty where none do.
[[nodiscard]] inline std::string scattered(const std::vector<measure::trial>& trials) {
  std::int64_t ran = 0;
  std::int64_t wide = 0;
  for (const measure::trial& trial : trials) {
    if (trial.outcome != measure::trial_outcome::ran) continue;
    ++ran;
    if (trial.step.upper > 1.5 * trial.step.lower) ++wide;
  }
  if (wide == 0) return {};
  return "In " + std::to_string(wide) + " of " + std::to_string(ran) +
         (ran == 1 ? " setting" : " settings") +
         " a quarter of the steps took over 1.5 times as long as the quickest quarter: these steps "
         "differ, or other programs had the machine too.";
}

// The settings without a result; those that ran out are in the table of rows.
[[nodiscard]] inline table without_result(const std::vector<measure::trial>& trials) {
  table t{.title = "What was not measured",
          .columns = {{.name = "Batch", .align = alignment::right},
                      {.name = "setting"},
                      {.name = "outcome"},
                      {.name = "why"}}};
  for (const measure::trial& trial : trials)
    if (trial.outcome != measure::trial_outcome::ran)
      t.rows.push_back(
          {trial.setting.micro_batch, in_words(trial.setting), name(trial.outcome), trial.message});
  return t;
}

// The end of a search. Only what ran out of memory bounds what fits.
[[nodiscard]] inline std::string largest_that_ran(const std::vector<measure::trial>& trials,
                                                  const sweep_setting& largest) {
  const measure::trial* next = nullptr;  // the smallest above it
  for (const measure::trial& trial : trials)
    if (differ_in_batch_alone(trial.setting, largest) &&
        trial.setting.micro_batch > largest.micro_batch &&
        (next == nullptr || trial.setting.micro_batch < next->setting.micro_batch))
      next = &trial;
  const std::string ran = "The largest micro-batch that ran with " + in_words(largest) + " is " +
                          std::to_string(largest.micro_batch);
  if (next == nullptr) return ran + "; the search was not to try larger ones.";
  const std::string above = std::to_string(next->setting.micro_batch);
  if (next->outcome == measure::trial_outcome::out_of_memory)
    return ran + "; " + above + " ran out of memory.";
  if (next->outcome == measure::trial_outcome::out_of_time)
    return ran + "; the search ended by time, not by memory: no step of " + above +
           " ended in its time.";
  return ran + "; " + above + " failed, which says nothing of its memory.";
}

}  // namespace detail

/// The report of rows; where one that ran has a memory of 0, none was measured. Throws as
/// `validate` of the rows and of the thresholds says.
[[nodiscard]] inline sweep_report report_on(sweep_rows rows, const sweep_judgement& judgement) {
  const detail::sweep_reading reading(detail::shown_rows(rows), judgement);
  sweep_report out{.tables = {reading.measured(), reading.optimal()},
                   .notes = reading.beyond_the_rows()};
  auto [diagnoses, help] = reading.diagnoses();
  if (!diagnoses.rows.empty()) out.tables.push_back(std::move(diagnoses));
  if (!help.rows.empty()) {
    out.tables.push_back(std::move(help));
    out.notes.push_back(reading.criteria());
  }
  return out;
}

/// The report of a sweep that was run: the same, with how well each step is known and what was not
/// measured.
[[nodiscard]] inline sweep_report report_on(const measure::sweep_result& sweep,
                                            sweep_judgement judgement) {
  judgement.has_utilisation =
      std::any_of(sweep.trials.begin(), sweep.trials.end(), [](const measure::trial& t) {
        return t.utilisation.has_value();
      });
  sweep_report out = report_on(rows_of(sweep.trials), judgement);
  for (table more : {detail::spreads(sweep.trials), detail::without_result(sweep.trials)})
    if (!more.rows.empty()) out.tables.push_back(std::move(more));
  out.notes.push_back("Times are medians. To read the clock takes " +
                      decimal(sweep.clock_cost_s * 1e9, 0) + " ns, and each phase reads it twice.");
  if (std::string wide = detail::scattered(sweep.trials); !wide.empty())
    out.notes.push_back(std::move(wide));
  for (const sweep_setting& largest : sweep.largest_that_fits)
    out.notes.push_back(detail::largest_that_ran(sweep.trials, largest));
  if (!sweep.stopped_by.empty())
    out.notes.push_back("The sweep ended before it was done: " + sweep.stopped_by + '.');
  else if (sweep.interrupted)
    out.notes.push_back("The sweep was interrupted: this is what was measured until then.");
  return out;
}

/// The report as text in lines of `layout.width`, but for tables that do not end in sentences:
/// these have one line for each row, however long.
[[nodiscard]] inline std::string to_text(const sweep_report& report,
                                         const text_layout& layout = {}) {
  std::string out;
  for (table t : report.tables) {
    out += layout.color ? "\033[1m" + t.title + "\033[0m\n\n" : t.title + "\n\n";
    t.title.clear();
    text_layout of_table = layout;
    const auto is_sentence = [](const std::vector<cell>& row) {
      return display_width(to_text(row.back())) > detail::narrowest_last_column;
    };
    if (std::none_of(t.rows.begin(), t.rows.end(), is_sentence)) of_table.width = 0;
    out += to_text(t, of_table) + '\n';
  }
  for (const std::string& note : report.notes) {
    std::string before = "• ";
    const int room = layout.width > 0 ? layout.width - 2 : display_width(note);
    for (const std::string& line : wrap(note, room)) {
      out += before + line + '\n';
      before = "  ";
    }
  }
  return out;
}

/// The report as Markdown.
[[nodiscard]] inline std::string to_markdown(const sweep_report& report) {
  std::string out;
  for (const table& t : report.tables) out += to_markdown(t) + '\n';
  for (const std::string& note : report.notes) out += "- " + detail::markdown_field(note) + '\n';
  return out;
}

/// The report as one table for programs: table, row (counted from 1), column, value, unit.
[[nodiscard]] inline table flat(const sweep_report& report) {
  table out{.columns = {{.name = "table"},
                        {.name = "row"},
                        {.name = "column"},
                        {.name = "value", .align = alignment::right},
                        {.name = "unit"}}};
  for (const table& t : report.tables)
    for (std::size_t row = 0; row < t.rows.size(); ++row)
      for (std::size_t at = 0; at < t.columns.size(); ++at)
        if (t.rows[row][at].what() != cell::kind::nothing)
          out.rows.push_back(
              {t.title, row + 1, t.columns[at].name, t.rows[row][at], t.columns[at].unit});
  for (std::size_t at = 0; at < report.notes.size(); ++at)
    out.rows.push_back({"Notes", at + 1, "note", report.notes[at], ""});
  return out;
}

}  // namespace gpuplan::io

#include "runs/own_cluster.hpp"

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/sweep/columns.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "guides/front_end.hpp"

namespace runs {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;

constexpr std::size_t most_steps = 1000;

// One column: an option, the model, or the time.
struct column {
  std::string name;         // without dashes
  bool is_flag = false;     // an option without a value
  double unit_of_time = 0;  // s; 0: no time
};
struct line_of_table {
  std::int64_t line = 0;
  std::vector<std::string> cells;
};
struct table_of_steps {
  std::vector<column> columns;
  std::vector<line_of_table> lines;
};

std::string trimmed(std::string_view text) {
  return std::string(io::detail::without_spaces_around(text));
}

// The options that a step has, and whether they are flags.
std::map<std::string, bool> options_of_steps() {
  CLI::App app;
  step_words words;
  add_step_options(app, words);
  add_batch_option(app, words);
  std::map<std::string, bool> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (name != "help" && name != "timed-steps")
        options[name] = option->get_items_expected_max() == 0;
  return options;
}

std::vector<column> columns_of(const std::vector<std::string>& head) {
  const std::map<std::string, bool> options = options_of_steps();
  std::vector<column> columns;
  std::set<std::string> names;
  for (const std::string& cell : head) {
    const std::string said = io::printable(trimmed(cell));
    column one{.name = said};
    one.name.erase(0, one.name.find_first_not_of('-'));
    std::replace(one.name.begin(), one.name.end(), '_', '-');
    const auto option = options.find(one.name);
    if (one.name == "step-s") {
      one.unit_of_time = 1;
    } else if (one.name == "step-ms") {
      one.unit_of_time = 1e-3;
    } else if (option != options.end()) {
      one.is_flag = option->second;
    } else if (one.name != "model") {
      const auto near = [&](const auto& left, const auto& right) {
        return guides::distance(one.name, left.first) < guides::distance(one.name, right.first);
      };
      throw bad_request("column " + said + " is no option of gpuplan time, of which " +
                        std::min_element(options.begin(), options.end(), near)->first +
                        " is the nearest; beside them there are model, step_s and step_ms");
    }
    if (!names.insert(one.unit_of_time > 0 ? "the time of a step" : one.name).second)
      throw bad_request("column " + said + " says again what another column says");
    columns.push_back(one);
  }
  if (!names.contains("the time of a step"))
    throw bad_request("column step_s, or step_ms, is missing: the time of each step");
  return columns;
}

table_of_steps table_of(std::string_view text) {
  table_of_steps table;
  const io::detail::csv_record head = io::detail::take_csv_record(text);
  table.columns = columns_of(head.cells);
  for (std::int64_t line = 1 + head.lines; !text.empty();) {
    const io::detail::csv_record record = io::detail::take_csv_record(text);
    const std::int64_t here = line;
    line += record.lines;
    if (record.cells.size() == 1 && trimmed(record.cells[0]).empty()) continue;
    if (record.cells.size() != table.columns.size())
      throw bad_request("line " + std::to_string(here) + " has " +
                        std::to_string(record.cells.size()) + " cells, and there are " +
                        std::to_string(table.columns.size()) + " columns");
    if (table.lines.size() == most_steps)
      throw bad_request("there are more than " + std::to_string(most_steps) + " steps");
    table.lines.push_back({here, {}});
    for (const std::string& cell : record.cells) table.lines.back().cells.push_back(trimmed(cell));
  }
  return table;
}

known<duration> time_in(const std::string& cell, double unit) {
  if (cell.empty()) return {};
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc() || end != cell.data() + cell.size() || !(number > 0) ||
      !std::isfinite(number))
    throw bad_request("the time of a step is a number above 0, and not " + io::printable(cell));
  return number * unit * 1_s;
}

// As a command line has it.
std::vector<std::string> words_of(const table_of_steps& table, const line_of_table& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.cells.size(); ++at) {
    const column& is = table.columns[at];
    const std::string& cell = line.cells[at];
    if (cell.empty() || is.unit_of_time > 0) continue;
    if (is.name == "model") {
      words.insert(words.begin(), cell);
    } else if (!is.is_flag) {
      words.push_back("--" + is.name + "=" + cell);
    } else if (cell == "yes" || cell == "true" || cell == "1") {
      words.push_back("--" + is.name);
    } else if (cell != "no" && cell != "false" && cell != "0") {
      throw bad_request(is.name + " is yes or no, and not " + io::printable(cell));
    }
  }
  return words;
}

// "8 GPUs", "tensor-parallel 4": a part of what tells a step from the others.
std::string in_words(const column& is, const std::string& cell) {
  const std::string said = io::printable(cell);
  if (is.name == "gpus") return said + (cell == "1" ? " GPU" : " GPUs");
  if (is.name == "zero") return "ZeRO-" + said;
  if (is.name == "micro-batch") return said + (cell == "1" ? " sample" : " samples");
  if (is.name == "accumulation") return "x " + said;
  if (is.name == "model") return said;
  return is.name + " " + said;
}

own_step step_in(const table_of_steps& table, const line_of_table& line) {
  own_step made{.line = line.line};
  for (std::size_t at = 0; at < line.cells.size(); ++at) {
    const column& is = table.columns[at];
    const std::string& cell = line.cells[at];
    if (is.unit_of_time > 0) made.time = time_in(cell, is.unit_of_time);
    const bool is_same = std::all_of(table.lines.begin(), table.lines.end(), [&](const auto& one) {
      return one.cells[at] == cell;
    });
    if (is.unit_of_time > 0 || is_same || cell.empty()) continue;
    if (is.name.ends_with("-parallel") && cell == "1") continue;
    made.words += made.words.empty() ? "" : is.name == "accumulation" ? " " : ", ";
    made.words += in_words(is, cell);
  }
  const auto given = std::make_shared<step_words>();
  static_cast<void>(guides::answer({.name = "gpuplan time",
                                    .about = "",
                                    .examples = "",
                                    .add =
                                        [&](CLI::App& app) {
                                          add_step_options(app, *given);
                                          add_batch_option(app, *given);
                                        },
                                    .make =
                                        [&](const guides::output&) {
                                          made.on = cluster_of(given->clusters,
                                                               defaults_of(given->setup));
                                          made.is = step_of(*given, made.on);
                                          return std::string();
                                        }},
                                   words_of(table, line),
                                   {}));
  made.given = given;
  return made;
}

}  // namespace

own_cluster own_cluster_of(const std::string& option, const std::string& file) {
  const std::string where = option + ": " + file + ": ";
  own_cluster own;
  std::int64_t line = 0;
  try {
    const table_of_steps table = table_of(guides::read_file(option, file));
    for (const line_of_table& one : table.lines) {
      line = one.line;
      own.steps.push_back(step_in(table, one));
    }
  } catch (const bad_request& error) {
    const std::string said = error.what();
    if (said.starts_with(option + ": ")) throw;
    throw bad_request(where + (line > 0 ? "line " + std::to_string(line) + ": " : "") + said,
                      error.why());
  }
  std::vector<timed_step> timed;
  for (const own_step& one : own.steps) {
    if (one.time) timed.push_back({one.is.time, one.is.plan, *one.time});
    if (std::string_view(one.on.on.gpu.id) != own.steps.front().on.on.gpu.id)
      throw bad_request(where + "line " + std::to_string(one.line) + " is on " + one.on.on.gpu.id +
                        ", and line " + std::to_string(own.steps.front().line) + " on " +
                        own.steps.front().on.on.gpu.id + ": one kind of GPU is taken");
  }
  if (timed.empty()) throw bad_request(where + "no step has a time in step_s");
  const auto found = calibrate(timed.front().model.on, timed);
  if (!found) throw bad_request(where + failure_text(found.why()).c_str(), found.why());
  own.found = *found;
  own.before = detail::estimate_before(timed);
  return own;
}

void apply(const own_cluster& own, training_setup& setup, cluster& on) {
  const own_step& first = own.steps.front();
  if (std::string_view(first.on.on.gpu.id) != on.gpu.id)
    throw bad_request(std::string("--timed-steps: its steps were timed on ") + first.on.on.gpu.id +
                      ", and this is " + on.gpu.id);
  const roofline_time with = own.found.applied_to({.setup = setup, .on = on});
  setup = with.setup;
  setup.framework.costs.timed = true;
  setup.framework.costs.scatter = own.found.scatter;
  on = with.on;
}

}  // namespace runs

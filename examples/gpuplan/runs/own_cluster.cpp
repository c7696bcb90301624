#include "runs/own_cluster.hpp"

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/sweep/columns.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/step_rates.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
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

constexpr std::size_t most_steps = 300;  // which take a second or two

// One column: an option, the model, or the time.
struct column {
  std::string name;      // without dashes
  bool is_flag = false;  // an option without a value
  bool says_nothing = false;
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

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
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

// What no table of steps begins with.
std::string flaw_of_head(std::string_view text, const std::vector<std::string>& head) {
  if (text.empty()) return "it is empty";
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.find('\0') != std::string_view::npos || line.size() > 4096)
    return "it is no table in CSV";
  if (head.size() == 1 && line.find_first_of(";\t") != std::string_view::npos)
    return "its columns are not separated by commas";
  return {};
}

std::vector<column> columns_of(const std::vector<std::string>& head) {
  std::map<std::string, bool> options = options_of_steps();
  for (const char* name : {"model", "step-s", "step-ms"}) options[name] = false;
  std::vector<column> columns;
  std::set<std::string> names;
  for (const std::string& cell : head) {
    const std::string said = io::printable(trimmed(cell));
    column one{.name = said};
    one.name.erase(0, one.name.find_first_not_of('-'));
    one.name = in_lower_case(one.name);
    std::replace(one.name.begin(), one.name.end(), '_', '-');
    const auto option = options.find(one.name);
    if (one.name == "step-s") {
      one.unit_of_time = 1;
    } else if (one.name == "step-ms") {
      one.unit_of_time = 1e-3;
    } else if (option != options.end()) {
      one.is_flag = option->second;
    } else if (one.name == "note" || one.name == "notes" || one.name == "date") {
      one.says_nothing = true;
    } else {
      const auto distance = [&](const std::string& option) {
        return option.starts_with(one.name) ? std::size_t{0} : guides::distance(one.name, option);
      };
      const auto near = [&](const auto& left, const auto& right) {
        return distance(left.first) < distance(right.first);
      };
      std::string nearest = std::min_element(options.begin(), options.end(), near)->first;
      std::replace(nearest.begin(), nearest.end(), '-', '_');
      throw bad_request((said.empty() ? "a column without a name" : "column " + said) +
                        " says nothing of a step; the nearest that does is " + nearest +
                        ", and note, notes and date are left out");
    }
    if (!names.insert(one.unit_of_time > 0 ? "the time of a step" : one.name).second)
      throw bad_request("column " + said + " says again what another column says");
    columns.push_back(one);
  }
  if (!names.contains("gpu") && !names.contains("system") && !names.contains("prices"))
    throw bad_request("column gpu is missing: the kind of GPU, one for all steps");
  if (!names.contains("the time of a step"))
    throw bad_request("column step_s, or step_ms, is missing: the time of each step");
  return columns;
}

table_of_steps table_of(std::string_view text) {
  table_of_steps table;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const std::string_view whole = text;
  const io::detail::csv_record head = io::detail::take_csv_record(text);
  if (const std::string flaw = flaw_of_head(whole, head.cells); !flaw.empty())
    throw bad_request(flaw);
  table.columns = columns_of(head.cells);
  for (std::int64_t line = 1 + head.lines; !text.empty();) {
    const io::detail::csv_record record = io::detail::take_csv_record(text);
    const std::int64_t here = line;
    line += record.lines;
    const bool is_empty =
        std::all_of(record.cells.begin(), record.cells.end(), [](const std::string& cell) {
          return trimmed(cell).empty();
        });
    if (is_empty || record.cells.front().starts_with("#")) continue;
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
  const double least = 1e-6;
  const double most = 1e6;
  if (error != std::errc() || end != cell.data() + cell.size() ||
      !(number * unit >= least && number * unit <= most))
    throw bad_request("the time of a step is a number, of 1e-6 to 1e6 s, and not " +
                      io::printable(cell) + "; leave it empty where nobody timed it");
  return number * unit * 1_s;
}

// As a command line has it.
std::vector<std::string> words_of(const table_of_steps& table,
                                  const line_of_table& line,
                                  const std::filesystem::path& folder) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.cells.size(); ++at) {
    const column& is = table.columns[at];
    const std::string& cell = line.cells[at];
    if (cell.empty() || is.unit_of_time > 0 || is.says_nothing) continue;
    if (is.name == "model") {
      std::error_code none;
      const std::filesystem::path beside = folder / cell;
      const bool is_there = std::filesystem::is_regular_file(beside, none) ||
                            std::filesystem::exists(beside / "config.json", none);
      words.insert(words.begin(), is_there ? beside.string() : cell);
    } else if (!is.is_flag) {
      words.push_back("--" + is.name + "=" + cell);
    } else {
      const std::string said = in_lower_case(cell);
      if (said == "yes" || said == "true" || said == "1")
        words.push_back("--" + is.name);
      else if (said != "no" && said != "false" && said != "0")
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

void check_is_one_model(const setups::named_setup& named) {
  if (named.setup.composite == nullptr) return;
  throw bad_request("MODEL " + named.name +
                    " is made of several models, of which timed steps say nothing: their "
                    "steps are replayed");
}

own_step step_in(const table_of_steps& table,
                 const line_of_table& line,
                 const std::filesystem::path& folder) {
  own_step made{.line = line.line};
  for (std::size_t at = 0; at < line.cells.size(); ++at) {
    const column& is = table.columns[at];
    const std::string& cell = line.cells[at];
    if (is.unit_of_time > 0) made.time = time_in(cell, is.unit_of_time);
    const bool is_same = std::all_of(table.lines.begin(), table.lines.end(), [&](const auto& one) {
      return one.cells[at] == cell;
    });
    if (is.unit_of_time > 0 || is.says_nothing || is_same || cell.empty()) continue;
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
                                          check_is_one_model(made.is.named);
                                          return std::string();
                                        }},
                                   words_of(table, line, folder),
                                   {}));
  made.given = given;
  return made;
}

bool is_across(const own_step& one) { return one.on.on.nodes > 1; }

std::string network_of(const own_step& one) {
  const known<bandwidth>& rate = one.on.on.between_nodes;
  return (rate ? io::decimal(in(*rate, 1_GBps), -1) + " GB/s" : std::string("none")) +
         (one.on.on.network == network_kind::infiniband
              ? std::string()
              : std::string(" by ") + constants_between_nodes(one.on.on.network).kind);
}

// Throws where a step would have done more than the device's peak, of the pairs that a mask leaves.
void check_is_possible(const own_step& one) {
  const training_setup& setup = one.is.time.setup;
  const gpu_spec& gpu = one.is.time.on.gpu;
  if (!one.time || !(*one.time > duration{}) || !peak(gpu, format_of_linears(setup.precision)))
    return;
  const step_rates rates = rates_of(setup, gpu, one.is.plan, *one.time, attention_pairs::visible);
  const double reached = setup.saves_costly_results ? rates.mfu : rates.hfu;
  if (reached > 1)
    throw bad_request("step_s " + io::decimal(in(*one.time, 1_s), 3) + " s is " +
                      io::decimal(100 * reached, 0) + " % of the peak of " + gpu.id +
                      "; at most 100 % is taken");
}

// Throws where steps differ in what one cluster and one software have alike.
void check_alike(const own_cluster& own, const std::string& where) {
  const own_step* across = nullptr;
  for (const own_step& one : own.steps) {
    const auto check = [&](bool is_alike,
                           const own_step& other,
                           const std::string& here,
                           const std::string& there,
                           const char* what) {
      if (is_alike) return;
      throw bad_request(where + "line " + std::to_string(one.line) + " is " + here + ", and line " +
                        std::to_string(other.line) + " " + there + ": one " + what + " is taken");
    };
    const own_step& first = own.steps.front();
    const std::string gpu = one.on.on.gpu.id;
    const std::string first_gpu = first.on.on.gpu.id;
    check(gpu == first_gpu, first, "on " + gpu, "on " + first_gpu, "kind of GPU");
    const framework& by = one.is.named.setup.framework;
    const framework& first_by = first.is.named.setup.framework;
    check(own.is_of(by),
          first,
          std::string("of ") + by.name,
          std::string("of ") + first_by.name,
          "software");
    if (!is_across(one)) continue;
    if (across == nullptr) across = &one;
    const std::string network = network_of(one);
    const std::string other = network_of(*across);
    check(network == other, *across, "on a network of " + network, "on one of " + other, "network");
  }
}

}  // namespace

own_cluster own_cluster_of(const std::string& option, const std::string& file) {
  return own_cluster_in(guides::read_file(option, file == "-" ? "/dev/stdin" : file), option, file);
}

own_cluster own_cluster_in(std::string_view text,
                           const std::string& option,
                           const std::string& file) {
  const std::string where = option + ": " + file + ": ";
  own_cluster own{.file = file};
  std::int64_t line = 0;
  try {
    const table_of_steps table = table_of(text);
    for (const line_of_table& one : table.lines) {
      line = one.line;
      own.steps.push_back(step_in(table, one, std::filesystem::path(file).parent_path()));
      check_is_possible(own.steps.back());
    }
  } catch (const bad_request& error) {
    const std::string said = error.what();
    if (said.starts_with(option + ": ")) throw;
    throw bad_request(where + (line > 0 ? "line " + std::to_string(line) + ": " : "") + said,
                      error.why());
  }
  check_alike(own, where);
  std::vector<timed_step> timed;
  for (const own_step& one : own.steps)
    if (one.time) timed.push_back({one.is.time, one.is.plan, *one.time});
  if (timed.empty()) throw bad_request(where + "no step has a time in step_s");
  const auto found = calibrate(timed.front().model.on, timed);
  if (!found) throw bad_request(where + failure_text(found.why()).c_str(), found.why());
  own.found = *found;
  own.before = untimed_estimate(timed);
  return own;
}

bool own_cluster::is_of(const framework& software) const {
  const auto tool = [](const framework& one) {
    const std::string_view name = one.name;
    return name.substr(0, name.find(','));
  };
  return tool(steps.front().is.named.setup.framework) == tool(software);
}

stack_estimate own_cluster::estimate_of(const framework& software, const named_cluster& on) const {
  const own_step& first = steps.front();
  if (std::string_view(first.on.on.gpu.id) != on.on.gpu.id)
    throw bad_request("--timed-steps: the steps of " + file + " are on " + first.on.on.gpu.id +
                      ", and this is on " + on.on.gpu.id + "; name " + first.on.on.gpu.id +
                      " alone");
  if (!is_of(software))
    throw bad_request("--timed-steps: the steps of " + file + " are of " +
                      first.is.named.setup.framework.name + ", and this is of " + software.name +
                      ", whose host and kernels are others; time steps of it");
  stack_estimate stack = found;
  const auto keep_own = [&](stack_number number) {
    stack.is_set[static_cast<std::size_t>(number)] = false;
  };
  const auto across = std::find_if(steps.begin(), steps.end(), is_across);
  if (across != steps.end() && on.states_network) {
    if (across->on.on.between_nodes && on.on.between_nodes)
      stack.logarithms[static_cast<std::size_t>(stack_number::between_nodes)] +=
          std::log(*on.on.between_nodes / *across->on.on.between_nodes);
    if (across->on.on.network != on.on.network) keep_own(stack_number::hop_between);
  }
  const auto within = std::find_if(
      steps.begin(), steps.end(), [](const own_step& one) { return linked_gpus(one.on.on) > 1; });
  const auto stated = [](const cluster& of) {
    return of.inside_node ? of.inside_node->value() : 0;
  };
  if (within != steps.end() &&
      (detail::is_beyond_bridge(on.on) != detail::is_beyond_bridge(within->on.on) ||
       stated(on.on) != stated(within->on.on)))
    keep_own(stack_number::inside_node);
  return stack;
}

bool own_cluster::tells(stack_number number) const {
  if (!found.is_set[static_cast<std::size_t>(number)]) return false;
  const double narrower = 0.98;
  const double moved = 0.1;  // of what was known
  const double spread = before.spread(number);
  return found.spread(number) < narrower * spread ||
         std::abs(std::log(found.value(number) / before.value(number))) > moved * spread;
}

double factor_either_way(const stack_estimate& by, stack_number number) {
  return std::exp(detail::deviations_of(0.8) * by.spread(number));
}

void apply(const stack_estimate& stack, training_setup& setup, cluster& on) {
  const roofline_time with = stack.applied_to({.setup = setup, .on = on});
  setup = with.setup;
  setup.framework.costs.timed = true;
  setup.framework.costs.scatter = stack.scatter;
  on = with.on;
}

}  // namespace runs

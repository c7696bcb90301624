// Readers of files against any value in any field: files are parsed once, and what they hold is
// changed instead of their bytes. Of each file each field takes each value at the edges, then each
// two fields each two of these; what comes behind changes three of any file by chance, of which
// some are fields of another file.
//   run --inputs N [--from K] FOLDER   N inputs, from the K-th on, of the folders training_files
//   and
//                             other_files there and of configurations of each class
// Its number alone makes an input: --inputs 1 --from K makes the K-th once more.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/clusters.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/measured_device.hpp>
#include <gpuplan/io/price_list.hpp>
#include <gpuplan/io/slurm_nodes.hpp>
#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/io/toml.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inputs.hpp"
#include "random_numbers.hpp"

namespace io = gpuplan::io;
using io::value;

namespace {

struct counted {
  const char* config;
  std::int64_t parameters;
};
#include "run_time/hugging_face_config_rows.inc"

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "values: %s\n", what);
  std::abort();
}

// ---- what is read, each told whether it was, and what holds of it

bool read_configuration(const value& file) {
  const io::hugging_face_config config =
      io::detail::hugging_face::configuration_of(io::detail::json_of<nlohmann::json>(file));
  if (!config.shape) {
    require(!config.reason.empty(), "a configuration is read, or there is a reason");
    return false;
  }
  const auto valid = validate(*config.shape);
  require(valid ? parameters(*config.shape).total() > 0
                : *gpuplan::failure_text(valid.why()).c_str() != '\0',
          "a model has parameters, or a reason why it is none");
  if (config.composite.size() != 0) {
    const auto whole = validate(config.composite);
    require(whole ? parameters(config.composite).total() > 0
                  : *gpuplan::failure_text(whole.why()).c_str() != '\0',
            "parts have parameters, or a reason why they are no model");
  }
  return static_cast<bool>(valid);
}

bool configure(const io::read_config& read) {
  if (!read) return false;
  const io::configured_training made = io::configured(
      io::merged({read, read}), {.shape = gpuplan::catalog::llama_3_8b, .called = "llama-3-8b"});
  require(!made || (made.plan.micro_batch >= 1 && made.plan.accumulation >= 1),
          "a step has a batch");
  return static_cast<bool>(made);
}

bool read_settings(const value& file) { return configure(io::detail::read_documents({file})); }

bool read_megatron(const value& flags) {
  if (flags.members() == nullptr) return false;
  io::read_config read{.tool = "megatron-lm"};
  io::detail::megatron_lm_reader(flags, read).read(flags);
  return configure(read);
}

// The words of commands, a list of lists.
bool read_commands(const value& file) {
  if (file.items() == nullptr) return false;
  io::shell_script script;
  std::string text;
  for (const value& command : *file.items()) {
    if (command.items() == nullptr || command.items()->empty()) continue;
    script.commands.emplace_back();
    for (const value& word : *command.items()) {
      script.commands.back().words.push_back(io::detail::plain_word(word));
      text += " " + script.commands.back().words.back();
    }
  }
  const io::read_launch started = io::read_torchrun_words(script);
  return configure(started.read ? io::detail::read_trainer_words(text, started) : started.read);
}

bool read_clusters(const value& file) {
  if (file.members() == nullptr) return false;
  const io::read_clusters clusters = io::detail::clusters_of(file);
  require(clusters || !clusters.why.empty(), "clusters are read, or there is a reason");
  return static_cast<bool>(clusters);
}

bool read_measurement(const value& file) {
  const auto record = io::detail::measurement_of(io::detail::json_of<nlohmann::json>(file));
  require(record || *gpuplan::failure_text(record.why()).c_str() != '\0',
          "a measurement is read, or there is a reason");
  return static_cast<bool>(record);
}

// A list of lists of cells, as CSV.
std::string text_of_cells(const value& file, char between) {
  std::string text;
  if (file.items() == nullptr) return text;
  for (const value& line : *file.items()) {
    if (line.items() != nullptr)
      for (const value& cell : *line.items()) {
        if (&cell != line.items()->data()) text += between;
        text += io::detail::plain_word(cell);
      }
    text += '\n';
  }
  return text;
}

bool read_prices(const value& file) {
  const io::read_prices prices = io::read_price_list(text_of_cells(file, ','));
  require(prices.prices.empty() != static_cast<bool>(prices), "prices are read, or why not");
  return static_cast<bool>(prices);
}

bool read_sweep(const value& file) {
  const auto sweep = io::read_sweep(text_of_cells(file, ','));
  if (!sweep) return false;
  require(sweep->rows.size() == sweep->lines.size(), "each row has its line");
  for (const gpuplan::sweep_row& row : sweep->rows)
    require(row.micro_batch >= 1, "a row has a batch");
  return sweep->bad.empty();
}

bool read_slurm(const value& file) {
  const io::read_slurm_nodes nodes = io::read_slurm_nodes_of(text_of_cells(file, ' '));
  require(nodes.groups.empty() != static_cast<bool>(nodes), "nodes are read, or why not");
  for (const io::slurm_nodes& each : nodes.groups)
    require(each.usable <= each.nodes, "no more nodes are usable than there are");
  return static_cast<bool>(nodes);
}

// ---- fields and values

// What is done to a field.
struct edge {
  value is{};
  bool is_absent = false;
};

const std::vector<edge>& edges() {
  static const std::vector<edge> all = [] {
    std::vector<edge> made{{{}, true}};
    for (const value& is : std::initializer_list<value>{value(),
                                                        true,
                                                        false,
                                                        0,
                                                        -1,
                                                        1,
                                                        3,
                                                        std::int64_t{1} << 31,
                                                        std::int64_t{1} << 62,
                                                        std::numeric_limits<std::int64_t>::max(),
                                                        0.5,
                                                        1e308,
                                                        std::numeric_limits<double>::quiet_NaN(),
                                                        std::numeric_limits<double>::infinity(),
                                                        "",
                                                        std::string(1000, 'x'),
                                                        "auto",
                                                        value::list(),
                                                        value::object(),
                                                        value::list{value::object{{"a", 1}}},
                                                        value::object{{"a", value::list{1, "b"}}}})
      made.push_back({is});
    return made;
  }();
  return all;
}

// Where a value is: of each object or list from the file's own on, the how many-th.
using place = std::vector<std::size_t>;

struct input_file {
  const char* what = "";
  bool (*read)(const value& file) = nullptr;
  value is{};
  std::vector<place> fields{};
  std::int64_t first = 0;  // input whose changes of this file are systematic

  [[nodiscard]] std::int64_t fields_count() const {
    return static_cast<std::int64_t>(fields.size());
  }
  // Each change of one field, then of two.
  [[nodiscard]] std::int64_t of_one() const {
    return fields_count() * static_cast<std::int64_t>(edges().size());
  }
  [[nodiscard]] std::int64_t of_two() const {
    const auto many = static_cast<std::int64_t>(edges().size());
    return fields_count() * (fields_count() - 1) / 2 * many * many;
  }
};

void add_fields(const value& in, place& at, std::vector<place>& to) {
  const std::size_t count = in.members() ? in.members()->size()
                            : in.items() ? in.items()->size()
                                         : 0;
  for (std::size_t child = 0; child < count; ++child) {
    at.push_back(child);
    to.push_back(at);
    add_fields(in.members() ? (*in.members())[child].second : (*in.items())[child], at, to);
    at.pop_back();
  }
}

// The value there, or nullptr where an earlier change took it away.
value* find(value& in, std::span<const std::size_t> at) {
  value* found = &in;
  for (const std::size_t child : at) {
    if (found->members() && child < found->members()->size())
      found = &(*found->members())[child].second;
    else if (found->items() && child < found->items()->size())
      found = &(*found->items())[child];
    else
      return nullptr;
  }
  return found;
}

// Changes of a file, taken back in the end.
class changed_file {
 public:
  explicit changed_file(value& file) : file_(file) {}
  changed_file(const changed_file&) = delete;
  changed_file& operator=(const changed_file&) = delete;
  ~changed_file() {
    for (; !undo_.empty(); undo_.pop_back()) {
      taken& last = undo_.back();
      const auto child = static_cast<std::ptrdiff_t>(last.at.back());
      value& parent = *find(file_, std::span(last.at).first(last.at.size() - 1));
      if (last.was_added)
        parent.members()->pop_back();
      else if (!last.is_absent)
        *find(file_, last.at) = std::move(last.was.second);
      else if (parent.members())
        parent.members()->insert(parent.members()->begin() + child, std::move(last.was));
      else
        parent.items()->insert(parent.items()->begin() + child, std::move(last.was.second));
    }
  }

  void change(const place& at, const edge& to) {
    value* const found = find(file_, at);
    if (found == nullptr) return;
    taken& was = undo_.emplace_back();
    was.at = at;
    was.is_absent = to.is_absent;
    if (!to.is_absent) {
      was.was.second = std::exchange(*found, to.is);
      return;
    }
    const auto child = static_cast<std::ptrdiff_t>(at.back());
    value& parent = *find(file_, std::span(at).first(at.size() - 1));
    if (parent.members()) {
      was.was = std::move((*parent.members())[at.back()]);
      parent.members()->erase(parent.members()->begin() + child);
    } else {
      was.was.second = std::move(*found);
      parent.items()->erase(parent.items()->begin() + child);
    }
  }
  void add(value::member more) {
    if (!file_.members()) return;
    undo_.push_back({.at = {file_.members()->size()}, .was_added = true});
    file_.members()->push_back(std::move(more));
  }

 private:
  struct taken {
    place at{};
    value::member was{};
    bool is_absent = false;
    bool was_added = false;
  };
  value& file_;
  std::vector<taken> undo_{};
};

// ---- files

std::vector<value> words_as_values(const std::vector<std::string>& words) {
  std::vector<value> made;
  for (const std::string& word : words) made.push_back(io::detail::value_of_word(word));
  return made;
}

// The first lines, but for those that only draw.
value cells_of(std::string_view text, bool is_csv) {
  constexpr std::size_t most = 5;
  value::list lines;
  while (!text.empty() && lines.size() < most) {
    const std::vector<std::string> cells =
        is_csv ? io::detail::take_csv_record(text).cells
               : io::detail::words_of(io::detail::take_line(text).text);
    if (cells.size() > 1) lines.emplace_back(words_as_values(cells));
  }
  return lines;
}

void add_training_file(std::vector<input_file>& to, const std::string& bytes) {
  static constexpr const char* names[] = {"a.json", "a.yaml", "a.toml", "a.sh", "a"};
  const char* const name = names[static_cast<unsigned char>(bytes[0]) % 5];
  const std::string_view text = std::string_view(bytes).substr(1);
  if (!io::detail::is_script(name, text)) {
    for (value& one : io::detail::parse_settings(name, text).are)
      to.push_back({"settings", read_settings, std::move(one)});
    return;
  }
  const io::shell_script script = io::read_shell_script(text);
  value::list commands;
  for (const io::shell_command& each : script.commands)
    commands.emplace_back(words_as_values(each.words));
  io::read_config unread;
  const std::vector<std::string> words = io::detail::begins_with_flag(text)
                                             ? script.commands.at(0).words
                                             : io::read_torchrun_words(script).words;
  to.push_back({"flags", read_megatron, io::detail::flags_of_words(words, unread)});
  if (!io::detail::begins_with_flag(text)) to.push_back({"commands", read_commands, commands});
}

void add_other_file(std::vector<input_file>& to, const std::string& bytes) {
  const std::string_view text = std::string_view(bytes).substr(1);
  switch (static_cast<unsigned char>(bytes[0]) % 8) {
    case 0:
      return to.push_back({"configuration", read_configuration, io::parse_json(text).is});
    case 1:
      return to.push_back({"clusters", read_clusters, io::parse_toml(text).is});
    case 2:
      return to.push_back({"measurement", read_measurement, io::parse_json(text).is});
    case 4:
      return to.push_back({"sweep", read_sweep, cells_of(text, text.find(',') < text.find('\n'))});
    case 6:
      return to.push_back({"nodes", read_slurm, cells_of(text, false)});
    case 7:
      return to.push_back({"prices", read_prices, cells_of(text, true)});
    default:  // pickles and traces are no settings
      return;
  }
}

std::vector<input_file> all_files(const std::string& folder) {
  std::vector<input_file> all;
  for (const std::string& bytes : files_of({(folder + "/training_files").c_str()}))
    add_training_file(all, bytes);
  for (const std::string& bytes : files_of({(folder + "/other_files").c_str()}))
    add_other_file(all, bytes);
  for (const counted& row : rows)
    all.push_back({"configuration", read_configuration, io::parse_json(row.config).is});
  std::erase_if(all, [](const input_file& file) {
    place at;
    std::vector<place> fields;
    add_fields(file.is, at, fields);
    return fields.empty();
  });
  std::int64_t next = 0;
  for (input_file& file : all) {
    place at;
    add_fields(file.is, at, file.fields);
    file.first = next;
    next += file.of_one() + file.of_two();
  }
  return all;
}

// ---- inputs

class inputs {
 public:
  explicit inputs(const std::string& folder) : files_(all_files(folder)) {
    systematic_ = files_.back().first + files_.back().of_one() + files_.back().of_two();
  }

  [[nodiscard]] std::int64_t systematic() const { return systematic_; }
  // Whether the input of this number was read.
  bool run(std::int64_t number) {
    if (number >= systematic_) return run_by_chance(number);
    const auto behind = std::upper_bound(
        files_.begin(), files_.end(), number, [](std::int64_t at, const input_file& file) {
          return at < file.first;
        });
    input_file& file = *std::prev(behind);
    number -= file.first;
    const auto many = static_cast<std::int64_t>(edges().size());
    changed_file changed(file.is);
    const auto change = [&](std::int64_t field, std::int64_t to) {
      changed.change(file.fields[static_cast<std::size_t>(field)],
                     edges()[static_cast<std::size_t>(to)]);
    };
    if (number < file.of_one()) {
      change(number / many, number % many);
    } else {
      number -= file.of_one();
      const std::int64_t pair = number / (many * many);
      // Of fields in their order: the later first, whose place the earlier may move.
      std::int64_t later = 1;
      for (std::int64_t before = 0; before + later <= pair; ++later) before += later;
      std::int64_t earlier = pair - later * (later - 1) / 2;
      change(later, number / many % many);
      change(earlier, number % many);
    }
    return file.read(file.is);
  }

 private:
  template <class List>
  static auto& one_of(List& list, random_numbers& random) {
    return list[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(list.size())))];
  }
  bool run_by_chance(std::int64_t number) {
    random_numbers random(static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15u);
    input_file& file = one_of(files_, random);
    std::array<const place*, 3> at{};
    for (const place*& each : at) each = &one_of(file.fields, random);
    std::sort(at.begin(), at.end(), [](const place* a, const place* b) { return *b < *a; });
    changed_file changed(file.is);
    for (const place* const each : at) {
      input_file& other = one_of(files_, random);
      const place& from = one_of(other.fields, random);
      switch (random.below(4)) {
        case 0:  // another's value
          if (&other != &file) changed.change(*each, {*find(other.is, from)});
          break;
        case 1:  // another's field
          if (&other != &file && other.read == file.read && other.is.members())
            changed.add((*other.is.members())[from[0]]);
          break;
        default:
          changed.change(*each, one_of(edges(), random));
      }
    }
    return file.read(file.is);
  }

  std::vector<input_file> files_;
  std::int64_t systematic_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  std::int64_t wanted = 0;
  std::int64_t first = 0;
  const char* folder = nullptr;
  for (int at = 1; at < count; ++at) {
    const std::string_view word = arguments[at];
    if (word == "--inputs")
      wanted = number_of("--inputs", arguments[++at], 1);
    else if (word == "--from")
      first = number_of("--from", arguments[++at], 0);
    else
      folder = arguments[at];
  }
  if (folder == nullptr) {
    std::fprintf(stderr, "no folder of seeds was given\n");
    return 2;
  }
  if (wanted > std::numeric_limits<std::int64_t>::max() - first) {
    std::fprintf(stderr, "--inputs and --from are refused: their sum must be below 2^63\n");
    return 2;
  }
  inputs all(folder);
  std::int64_t read = 0;
  tell_which_ends("--inputs");
  for (now = first; now < first + wanted; ++now) read += all.run(now);
  std::printf("%lld inputs, of which %lld were read; all of one and two fields are %lld\n",
              static_cast<long long>(wanted),
              static_cast<long long>(read),
              static_cast<long long>(all.systematic()));
  return 0;
}

#pragma once

// The command line that the example programs share.

#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guides/quantities.hpp"
#include "guides/render.hpp"
#include "guides/report.hpp"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace guides {

/// What a person asked for cannot be done: the exit status is 2.
class bad_request : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// In the library's sentence, or in one that says more.
  explicit bad_request(const gpuplan::failure& because)
      : bad_request(gpuplan::failure_text(because).c_str(), because) {}
  bad_request(const std::string& sentence, const gpuplan::failure& because)
      : runtime_error(sentence), why_(because) {}

  /// With its facts, where the library refused; else of `errc::none`.
  [[nodiscard]] const gpuplan::failure& why() const { return why_; }

 private:
  gpuplan::failure why_{};
};

/// What a program prints, and what it could not do, line by line, for standard error.
struct printed {
  printed(std::string says) : text(std::move(says)) {}  // NOLINT(google-explicit-constructor)
  printed(std::string says, std::vector<std::string> left)
      : text(std::move(says)), problems(std::move(left)) {}

  std::string text;
  std::vector<std::string> problems{};
};

/// A program: what its help says, its options, and what it prints of them.
struct program {
  std::string name;      // as a person calls it, "gpuplan fits"
  std::string about;     // what it does; the first line alone says it
  std::string examples;  // below the options; may be empty
  std::function<void(CLI::App&)> add;
  std::function<printed(const output&)> make;
  // JSON is an object: the version, the command, the request as it was given, and the answer.
  bool states_request = false;
};

/// How many letters to change, add or leave out to make one word of the other.
[[nodiscard]] std::size_t distance(std::string_view from, std::string_view to);

/// Characters of a line of standard output: those of its terminal, of 60 to 160, or 100.
[[nodiscard]] int width_of_output();

/// Makes `app` the program's command line: its options, and `--format`, `--color`, `--version` and
/// `--help`. Parsed values go to `as`, which must live as long.
struct asked_output {
  std::string format;
  std::string color = "auto";
  // The texts of each option, as they were given.
  std::shared_ptr<std::map<const CLI::Option*, std::vector<std::string>>> texts =
      std::make_shared<std::map<const CLI::Option*, std::vector<std::string>>>();
};
void describe(CLI::App& app, const program& is, asked_output& as);

/// Parses the command line and prints what `make` returns. The exit status: 0; 1 with a message
/// where standard output cannot be written, `make` throws, or there are problems; 2 with a message,
/// and nothing on standard output, where the command line is wrong (then with a line of usage) or
/// `make` throws `bad_request`.
int run_program(int argc, char** argv, const program& is);

/// What the program makes of these options and arguments, none of which is of `describe`, for who
/// shows it in another way. JSON states the request. Throws `bad_request` where `run_program` ends
/// with 2, else what `make` throws.
[[nodiscard]] printed answer(const program& is,
                             const std::vector<std::string>& words,
                             const output& as);

/// Tells a person what the answer does not: how files or this machine were understood. It goes to
/// standard error, as a line of gpuplan's, unless `heard_remarks` of this thread hears it.
void remark(const std::string& line);

/// While one lives, it hears what this thread remarks.
class heard_remarks {
 public:
  heard_remarks();
  heard_remarks(const heard_remarks&) = delete;
  heard_remarks& operator=(const heard_remarks&) = delete;
  ~heard_remarks();

  std::vector<std::string> lines{};

 private:
  heard_remarks* before_;
};

/// The most that `read_file` takes: a hundred times what a config.json or a sweep's table has.
inline constexpr std::size_t most_of_a_file = std::size_t{4} << 20;

/// What a file holds, or a pipe or device until its end. Throws `bad_request`, after the option
/// that named it, where it cannot be read or holds more than `most` bytes.
[[nodiscard]] std::string read_file(const std::string& option,
                                    const std::string& name,
                                    std::size_t most = most_of_a_file);

/// Makes a file of this text, in place of an earlier one only once all of it is on the disk; what
/// is no regular file, such as a pipe, is written to. Throws, after the option, where it cannot be
/// written; an earlier file is then as it was.
void write_file(const std::string& option, const std::string& name, const std::string& text);

/// Lets through what a constant of C++ can be called.
[[nodiscard]] CLI::Validator identifier();

struct guide {
  const char* id;       // "000"
  const char* program;  // that prints this guide alone
  const char* title;
  report (*make)();
};

/// A program that prints the reports of the guides asked for.
[[nodiscard]] program program_of(const std::string& name, std::initializer_list<guide> held);

/// Prints the reports of the guides asked for, in the format asked for. The exit status: 0; 1 with
/// a message where standard output cannot be written; 2 with a message and a line of usage, and
/// nothing on standard output, where the command line is wrong.
int run(int argc, char** argv, std::initializer_list<guide> held);

/// The same for a program that prints one table.
int run(
    int argc, char** argv, const char* program, const char* about, gpuplan::io::table (*make)());

}  // namespace guides

#pragma once

// The command line that the example programs share.

#include <gpuplan/io/table.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "guides/render.hpp"
#include "guides/report.hpp"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace guides {

/// What a person asked for cannot be done: the exit status is 2.
class bad_request : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses the command line, with the options that `add` adds to `--format`, `--color`, `--version`
/// and `--help`, and prints what `make` returns. The exit status: 0; 1 with a message where
/// standard output cannot be written or `make` throws; 2 with a message, and nothing on standard
/// output, where the command line is wrong (then with a line of usage) or `make` throws
/// `bad_request`.
int run_program(int argc,
                char** argv,
                const std::string& program,
                const std::string& about,
                const std::function<void(CLI::App&)>& add,
                const std::function<std::string(const output&)>& make);

/// The most that `read_file` takes: a hundred times what a config.json or a sweep's table has.
inline constexpr std::size_t most_of_a_file = std::size_t{4} << 20;

/// What a file holds, or a pipe or device until its end. Throws `bad_request`, after the option
/// that named it, where it cannot be read or holds more than `most_of_a_file`.
[[nodiscard]] std::string read_file(const std::string& option, const std::string& name);

/// Makes a file of this text, in place of an earlier one only once all of it is on the disk; what
/// is no regular file, such as a pipe, is written to. Throws, after the option, where it cannot be
/// written; an earlier file is then as it was.
void write_file(const std::string& option, const std::string& name, const std::string& text);

/// Lets through whole numbers in decimal digits from `least` to `most`, and hands them on without
/// leading zeros, which would make them octal: for `CLI::Option::transform`.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// Lets through finite decimal numbers from `least` to `most`, or above 0: for
/// `CLI::Option::check`.
[[nodiscard]] CLI::Validator finite_number(double least, double most);
[[nodiscard]] CLI::Validator positive_number();

/// Lets through what a constant of C++ can be called.
[[nodiscard]] CLI::Validator identifier();

struct guide {
  const char* id;       // "000"
  const char* program;  // that prints this guide alone
  const char* title;
  report (*make)();
};

/// Prints the reports of the guides asked for, in the format asked for. The exit status: 0; 1 with
/// a message where standard output cannot be written; 2 with a message and a line of usage, and
/// nothing on standard output, where the command line is wrong.
int run(int argc, char** argv, std::initializer_list<guide> held);

/// The same for a program that prints one table.
int run(
    int argc, char** argv, const char* program, const char* about, gpuplan::io::table (*make)());

}  // namespace guides

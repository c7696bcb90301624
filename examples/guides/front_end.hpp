#pragma once

// The command line that the example programs share.

#include <gpuplan/io/table.hpp>

#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "guides/render.hpp"
#include "guides/report.hpp"

namespace CLI {
class App;
}

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

/// What a file holds. Throws `bad_request`, after the option that named it, where it cannot be
/// read.
[[nodiscard]] std::string read_file(const std::string& option, const std::string& name);

/// Makes a file of this text. Throws, after the option, where it cannot be written.
void write_file(const std::string& option, const std::string& name, const std::string& text);

/// Empty where an argument is a finite number above 0, or none that can be read, which is for the
/// option itself to say; else what is wrong with it: a check for options.
[[nodiscard]] std::string flaw_of_positive(const std::string& number);

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

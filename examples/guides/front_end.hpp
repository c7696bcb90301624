#pragma once

// The command line that the example programs share.

#include <gpuplan/io/table.hpp>

#include <initializer_list>

#include "guides/report.hpp"

namespace guides {

struct guide {
  const char* id;       // "000"
  const char* program;  // that prints this guide alone
  const char* title;
  report (*make)();
};

/// Prints the reports of the guides asked for, in the format asked for. The exit status: 0; 1 with
/// a message where standard output cannot be written; 2 with a message and the usage, and nothing
/// on standard output, where the command line is wrong.
int run(int argc, char** argv, std::initializer_list<guide> held);

/// The same for a program that prints one table.
int run(
    int argc, char** argv, const char* program, const char* about, gpuplan::io::table (*make)());

}  // namespace guides

#pragma once

// Runs a program's function in the test's own process, and keeps what it prints.

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

struct outcome {
  int status = 0;
  std::string out, err;
};

/// The text of a temporary file that a descriptor wrote to.
inline std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

/// Runs `call` with standard output going to `out` and standard error to a file of its own.
template <class Call>
outcome redirected(int out, Call call) {
  outcome result;
  std::FILE* err = std::tmpfile();
  std::fflush(stdout);
  std::fflush(stderr);
  const int old_out = dup(STDOUT_FILENO);
  const int old_err = dup(STDERR_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(fileno(err), STDERR_FILENO);
  result.status = call();
  std::clearerr(stdout);
  dup2(old_out, STDOUT_FILENO);
  dup2(old_err, STDERR_FILENO);
  close(old_out);
  close(old_err);
  result.err = text_of(err);
  std::fclose(err);
  return result;
}

/// Runs `main`, which takes what a main function takes, under a name and with arguments.
template <class Main>
outcome output_of(Main main, std::vector<std::string> arguments, const std::string& program) {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::FILE* out = std::tmpfile();
  outcome result = redirected(
      fileno(out), [&] { return main(static_cast<int>(arguments.size()), argv.data()); });
  result.out = text_of(out);
  std::fclose(out);
  return result;
}

/// Whether `text` has `part` in it.
inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

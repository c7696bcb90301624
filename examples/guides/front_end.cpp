#include "guides/front_end.hpp"

#include <sys/ioctl.h>
#include <unistd.h>
#include <gpuplan/version.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "guides/help_page.hpp"
#include "guides/render.hpp"

#define GUIDES_TEXT_(x) #x
#define GUIDES_TEXT(x) GUIDES_TEXT_(x)

namespace guides {
namespace {

constexpr const char* version_text = "gpuplan " GUIDES_TEXT(GPUPLAN_VERSION_MAJOR) "." GUIDES_TEXT(
    GPUPLAN_VERSION_MINOR) "." GUIDES_TEXT(GPUPLAN_VERSION_PATCH);

int complain(const std::string& program, const std::string& what, int status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), what.c_str());
  return status;
}

// All of it, or a failure: what a full disk or a closed pipe leaves unsaid must not pass for
// success. Who closes the pipe, as `head` does, has read enough and is not told.
int print(const std::string& program, const std::string& text) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error like others
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  if (errno == EPIPE) return 1;
  return complain(program, std::string("cannot write to standard output: ") + strerror(errno), 1);
}

// The same text everywhere but on a terminal.
output for_standard_output(const std::string& format, const std::string& color) {
  output as{.format = format, .color = color == "always"};
  if (isatty(STDOUT_FILENO) == 0) return as;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    as.width = std::clamp<int>(size.ws_col, 60, 160);
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  const char* terminal = std::getenv("TERM");
  if (color == "auto")
    as.color = (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
               std::strcmp(terminal, "dumb") != 0;
  return as;
}

}  // namespace

int run_program(int argc,
                char** argv,
                const std::string& program,
                const std::string& about,
                const std::function<void(CLI::App&)>& add,
                const std::function<std::string(const output&)>& make) {
  std::string format = "text";
  std::string color = "auto";
  CLI::App app(about, program);
  app.formatter(help_page());
  app.set_version_flag("--version", version_text);
  app.add_option("--format", format, "How to print")
      ->check(CLI::IsMember(std::vector<std::string>{"text", "markdown", "csv", "json"}))
      ->capture_default_str();
  app.add_option("--color", color, "Colour in text; auto is on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember(std::vector<std::string>{"auto", "always", "never"}))
      ->capture_default_str();
  add(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    if (app.exit(error, out, err) == 0) return print(program, out.str());
    app.description("");
    const std::string help = app.help();
    return complain(
        program,
        error.what() + ("\n" + help.substr(0, help.find('\n'))) + "\n--help says what there is",
        2);
  }
  try {
    return print(program, make(for_standard_output(format, color)));
  } catch (const bad_request& error) {
    return complain(program, error.what(), 2);
  } catch (const std::exception& error) {
    return complain(program, error.what(), 1);
  }
}

std::string read_file(const std::string& option, const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  // To take nothing out of an empty file is an error of << alone.
  const bool is_empty = file && file.peek() == std::ifstream::traits_type::eof() && !file.bad();
  if (is_empty) return {};
  if (!file || !(text << file.rdbuf())) throw bad_request(option + ": cannot read " + name);
  return text.str();
}

void write_file(const std::string& option, const std::string& name, const std::string& text) {
  errno = 0;
  std::FILE* file = std::fopen(name.c_str(), "wb");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed)
    throw std::runtime_error(option + ": cannot write " + name + ": " + std::strerror(errno));
}

std::string flaw_of_positive(const std::string& number) {
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  const bool is_read = end != number.c_str() && *end == '\0';
  if (!is_read || (value > 0 && std::isfinite(value))) return {};
  return number + " is no finite number above 0";
}

int run(int argc, char** argv, std::initializer_list<guide> held) {
  const bool several = held.size() > 1;
  std::vector<std::string> ids;
  std::string about =
      "The tables of the guides, computed from their inputs, beside what they print:";
  for (const guide& g : held) {
    ids.emplace_back(g.id);
    about += std::string("\n  ") + g.id + "  " + g.title;
    if (several) about += std::string(" (") + g.program + ")";
  }
  std::vector<std::string> wanted;
  return run_program(
      argc,
      argv,
      several ? "strategy_tables" : held.begin()->program,
      about,
      [&](CLI::App& app) {
        app.add_option("--guide", wanted, "Which guide; may be given again (default: all)")
            ->check(CLI::IsMember(ids))
            ->allow_extra_args(false);
      },
      [&](const output& as) {
        std::vector<report> reports;
        for (const guide& g : held)
          if (wanted.empty() || std::find(wanted.begin(), wanted.end(), g.id) != wanted.end())
            reports.push_back(g.make());
        return render(reports, as);
      });
}

int run(
    int argc, char** argv, const char* program, const char* about, gpuplan::io::table (*make)()) {
  return run_program(
      argc,
      argv,
      program,
      about,
      [](CLI::App&) {},
      [&](const output& as) { return render(make(), as); });
}

}  // namespace guides

#include "guides/front_end.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/header.hpp>
#include <gpuplan/io/html.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/version.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "guides/help_page.hpp"
#include "guides/interruption.hpp"
#include "guides/render.hpp"

#define GUIDES_TEXT_(x) #x
#define GUIDES_TEXT(x) GUIDES_TEXT_(x)

namespace guides {
namespace {

#define GUIDES_VERSION               \
  GUIDES_TEXT(GPUPLAN_VERSION_MAJOR) \
  "." GUIDES_TEXT(GPUPLAN_VERSION_MINOR) "." GUIDES_TEXT(GPUPLAN_VERSION_PATCH)
constexpr const char* version_number = GUIDES_VERSION;
constexpr const char* version_text = "gpuplan " GUIDES_VERSION;

int complain(const std::string& program, const std::string& what, int status) {
  using namespace gpuplan::io;
  std::fprintf(stderr, "%s: %s\n", program.c_str(), printable(what, line_ends::are_kept).c_str());
  return status;
}

// Text without what a terminal would obey, but for the colours that stay.
std::string safe(const std::string& text, bool color) {
  using namespace gpuplan::io;
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find("\033["); color && at != std::string::npos;) {
    const std::size_t end = text.find_first_not_of("0123456789;", at + 2);
    if (end != std::string::npos && text[end] == 'm') {
      out += printable(std::string_view(text).substr(done, at - done), line_ends::are_kept);
      out += text.substr(at, end + 1 - at);
      done = end + 1;
    }
    at = text.find("\033[", at + 1);
  }
  return out + printable(std::string_view(text).substr(done), line_ends::are_kept);
}

// All of it, or a failure: what a full disk or a closed pipe leaves unsaid must not pass for
// success. Who closes the pipe, as `head` does, has read enough and is not told.
int print(const std::string& program, const std::string& text) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error like others
  // A file gets all of it, while Ctrl-C must end what waits for the reader of a pipe.
  struct stat about {};
  const bool is_file = fstat(STDOUT_FILENO, &about) == 0 && S_ISREG(about.st_mode);
  const auto whole = is_file ? std::make_unique<uninterrupted>() : nullptr;
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  if (errno == EPIPE) return 1;
  return complain(program, std::string("cannot write to standard output: ") + strerror(errno), 1);
}

// Where a standard stream is closed, the next file that is opened would be that stream, and what is
// printed there would be written into it. Held by what fails to read or write as a closed one does.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// What the command line said, option by option: a text, several, or true of a flag.
nlohmann::ordered_json request_of(const CLI::App& app, const asked_output& asked) {
  auto request = nlohmann::ordered_json::object();
  for (const CLI::Option* const option : app.get_options()) {
    if (option->count() == 0) continue;
    std::string name = option->get_single_name();
    for (char& c : name)  // "sequence_length", and "model" of MODEL
      c = c == '-' ? '_' : gpuplan::detail::lower(c);
    if (name == "format" || name == "color") continue;
    const auto given = asked.texts->find(option);
    const std::vector<std::string> texts =
        given == asked.texts->end() ? option->results() : given->second;
    if (option->get_items_expected_max() == 0) {
      request[name] = option->as<bool>();
    } else if (texts.size() == 1) {
      request[name] = texts.front();
    } else {
      request[name] = texts;
    }
  }
  return request;
}

// The answer with what was asked, as docs/answer.schema.json describes it.
std::string with_request(const program& is,
                         const CLI::App& app,
                         const asked_output& asked,
                         const std::string& answer) {
  const nlohmann::ordered_json all = {{"gpuplan", version_number},
                                      {"command", is.name},
                                      {"request", request_of(app, asked)},
                                      {"answer", nlohmann::ordered_json::parse(answer)}};
  return gpuplan::io::printable(
             all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
             gpuplan::io::line_ends::are_kept) +
         "\n";
}

// The same text everywhere but on a terminal.
output for_standard_output(gpuplan::io::format format, const std::string& color) {
  output as{.format = format, .width = width_of_output(), .color = color == "always"};
  if (isatty(STDOUT_FILENO) == 0) return as;
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  const char* terminal = std::getenv("TERM");
  if (color == "auto")
    as.color = (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
               std::strcmp(terminal, "dumb") != 0;
  return as;
}

// What CLI11 says of a value, which it does not name of an option that the help page leaves out.
std::string with_option(const CLI::App& app, const std::string& said) {
  const std::string nameless = ": ";
  if (said.rfind(nameless, 0) != 0) return said;
  for (const CLI::Option* const option : app.get_options())
    for (const std::string& value : option->results())
      if (option->get_group().empty() && said.compare(nameless.size(), value.size(), value) == 0)
        return "--" + option->get_lnames().front() + said;
  return said;
}

// How far what somebody wrote is from a word; what begins it may stand for it.
std::size_t mistypes(std::string_view written, std::string_view word) {
  return word.substr(0, written.size()) == written ? 0 : distance(written, word);
}

// CLI11 lists all words that an option takes; the nearest one helps more, and of many it alone.
std::string with_nearest(const std::string& said) {
  constexpr std::string_view none = " not in {";
  const std::size_t at = said.find(none);
  if (at == std::string::npos || said.back() != '}') return said;
  const std::size_t colon = said.find(": ");
  const std::size_t begin = colon < at ? colon + 2 : 0;
  const std::string word = said.substr(begin, at - begin);
  const std::size_t most_of_a_word = 100;
  if (word.size() > most_of_a_word) return said;
  std::string nearest;
  std::size_t count = 0;
  std::istringstream words(said.substr(at + none.size(), said.size() - at - none.size() - 1));
  for (std::string one; std::getline(words, one, ','); ++count)
    if (nearest.empty() || mistypes(word, one) < mistypes(word, nearest)) nearest = one;
  const std::size_t most_listed = 16;
  if (count <= most_listed) return said + "; the nearest is " + nearest;
  return said.substr(0, at) + " is none of its " + std::to_string(count) +
         " words, of which the nearest is " + nearest;
}

// What CLI11 says, and of an option or word that there is not the nearest one.
std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)
    return with_nearest(with_option(app, error.what()));
  for (const std::string& word : app.remaining()) {
    if (word.size() < 3 || word.rfind("--", 0) != 0) continue;
    const std::string name = word.substr(2, word.find('=') - 2);
    std::string nearest = "help";
    for (const CLI::Option* const option : app.get_options())
      for (const std::string& other : option->get_lnames())
        if (mistypes(name, other) < mistypes(name, nearest)) nearest = other;
    return "there is no option --" + name + "; the nearest is --" + nearest;
  }
  return error.what();
}

printed made_of(const program& is,
                const CLI::App& app,
                const asked_output& asked,
                const output& as) {
  printed made = is.make(as);
  if (is.states_request && as.format == gpuplan::io::format::json)
    made.text = with_request(is, app, asked, made.text);
  return made;
}

thread_local heard_remarks* listener = nullptr;

// What a program says as a document of its format.
std::string as_document(const program& is, const std::string& said, const output& as) {
  using gpuplan::io::format;
  if (as.format == format::text) return safe(said, as.color);
  if (as.format == format::html)
    return gpuplan::io::html_page(is.name, "<main>\n" + said + "</main>\n");
  return said;
}

}  // namespace

std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t at = 0; at <= to.size(); ++at) row[at] = at;
  for (std::size_t line = 1; line <= from.size(); ++line) {
    std::size_t diagonal = row[0];
    row[0] = line;
    for (std::size_t at = 1; at <= to.size(); ++at) {
      const std::size_t above = row[at];
      row[at] = std::min(
          {row[at] + 1, row[at - 1] + 1, diagonal + (from[line - 1] == to[at - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[to.size()];
}

int width_of_output() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
             ? std::clamp<int>(size.ws_col, 60, 160)
             : output{}.width;
}

void describe(CLI::App& app, const program& is, asked_output& as) {
  as.format = gpuplan::io::formats[0].name;
  std::vector<std::string> formats;
  for (const auto& traits : gpuplan::io::formats) formats.emplace_back(traits.name);
  app.name(is.name);
  app.description(is.about);
  app.footer(is.examples);
  app.formatter(help_page(width_of_output()));
  app.set_version_flag("--version", version_text);
  app.add_option("--format", as.format, "How to print")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  app.add_option(
         "--color", as.color, "Colour in text; auto is on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember(std::vector<std::string>{"auto", "always", "never"}))
      ->capture_default_str();
  is.add(app);
  // Before what reads a text and puts a number in its place.
  for (CLI::Option* const option : app.get_options())
    if (option->get_items_expected_max() != 0)
      option->transform(CLI::Validator(
          [texts = as.texts, option](std::string& text) {
            (*texts)[option].push_back(text);
            return std::string();
          },
          ""));
}

int run_program(int argc, char** argv, const program& is) {
  hold_standard_streams();
  asked_output asked;
  CLI::App app;
  describe(app, is, asked);
  try {
    app.parse(argc, argv);
  } catch (const bad_request& error) {
    return complain(is.name, error.what(), 2);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    if (app.exit(error, out, err) == 0) return print(is.name, out.str());
    app.description("");
    const std::string help = app.help();
    return complain(is.name,
                    sentence_of(app, error) + ("\n" + help.substr(0, help.find('\n'))) +
                        "\n--help says what there is",
                    2);
  }
  try {
    const output as = for_standard_output(*gpuplan::io::format_named(asked.format), asked.color);
    const printed made = made_of(is, app, asked, as);
    const int status = print(is.name, as_document(is, made.text, as));
    for (const std::string& problem : made.problems) complain(is.name, problem, 1);
    return made.problems.empty() ? status : 1;
  } catch (const bad_request& error) {
    return complain(is.name, error.what(), 2);
  } catch (const std::exception& error) {
    return complain(is.name, error.what(), 1);
  }
}

printed answer(const program& is, const std::vector<std::string>& words, const output& as) {
  asked_output asked;
  CLI::App app;
  describe(app, is, asked);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw bad_request(sentence_of(app, error));
  }
  return made_of(is, app, asked, as);
}

void remark(const std::string& line) {
  const std::string shown = gpuplan::io::printable(line);
  if (listener != nullptr)
    listener->lines.push_back(shown);
  else
    std::fprintf(stderr, "gpuplan: %s\n", shown.c_str());
}

heard_remarks::heard_remarks() : before_(std::exchange(listener, this)) {}
heard_remarks::~heard_remarks() { listener = before_; }

std::string read_file(const std::string& option, const std::string& name, std::size_t most) {
  const auto refuse = [&](int error) {
    return bad_request(option + ": cannot read " + name + ": " + std::strerror(error));
  };
  const int file = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw refuse(errno);
  std::string text;
  int error = 0;
  // One byte more than there may be tells of what is too long.
  while (error == 0 && text.size() <= most) {
    char some[1 << 16];
    const ssize_t more = read(file, some, std::min(sizeof some, most + 1 - text.size()));
    if (more == 0) break;
    if (more > 0)
      text.append(some, static_cast<std::size_t>(more));
    else if (errno != EINTR)
      error = errno;
  }
  struct stat about {};
  const bool has_size = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  close(file);
  if (error != 0) throw refuse(error);
  if (text.size() > most)
    throw bad_request(
        option + ": " + name + " holds " +
        (has_size ? std::to_string(about.st_size) : "more than " + std::to_string(most)) +
        " bytes, and at most " + std::to_string(most) + " are read");
  return text;
}

namespace {

// Writes all of it to the disk, or says why it cannot.
int write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t more = write(file, text.data() + done, text.size() - done);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return more < 0 ? errno : EIO;
    done += static_cast<std::size_t>(more);
  }
  // What is no file of a disk has nothing to wait for.
  return fsync(file) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
}

// Puts a draft beside a file in its place once it is whole, or says why it cannot.
int replace(const std::string& name, const std::string& text, mode_t mode) {
  const uninterrupted whole;
  std::string draft = name + ".XXXXXX";
  const int file = mkostemp(draft.data(), O_CLOEXEC);
  if (file < 0) return errno;
  int error = fchmod(file, mode) != 0 ? errno : write_all(file, text);
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(draft.c_str(), name.c_str()) != 0) error = errno;
  if (error != 0) unlink(draft.c_str());
  return error;
}

}  // namespace

void write_file(const std::string& option, const std::string& name, const std::string& text) {
  const auto insist = [&](int error) {
    if (error != 0)
      throw std::runtime_error(option + ": cannot write " + name + ": " + std::strerror(error));
  };
  struct stat about {};
  if (stat(name.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) {
    const int file = open(name.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) insist(errno);
    const int error = write_all(file, text);
    close(file);
    return insist(error);
  }
  const bool is_there = about.st_mode != 0;
  if (is_there && access(name.c_str(), W_OK) != 0) insist(errno);
  // Where the name is a link, what it points to is replaced.
  std::error_code unknown;
  const std::filesystem::path target = std::filesystem::weakly_canonical(name, unknown);
  const mode_t hidden = umask(0);
  umask(hidden);
  insist(replace(
      unknown ? name : target.string(), text, is_there ? about.st_mode & 07777U : 0666U & ~hidden));
}

CLI::Validator identifier() {
  return {[](std::string& name) -> std::string {
            return gpuplan::io::is_identifier(name)
                       ? ""
                       : name + " is no identifier of C++, or one that it keeps for itself";
          },
          ""};
}

program program_of(const std::string& name, std::initializer_list<guide> held) {
  const std::vector<guide> all = held;
  std::vector<std::string> ids;
  std::string about =
      "The tables of the guides, computed from their inputs, beside what they print:";
  for (const guide& g : all) {
    ids.emplace_back(g.id);
    about += std::string("\n  ") + g.id + "  " + g.title;
    if (all.size() > 1) about += std::string(" (") + g.program + ")";
  }
  const auto wanted = std::make_shared<std::vector<std::string>>();
  return {.name = name,
          .about = about,
          .examples = "",
          .add =
              [=](CLI::App& app) {
                app.add_option("--guide", *wanted, "Which guide; may be given again (default: all)")
                    ->check(CLI::IsMember(ids))
                    ->allow_extra_args(false);
              },
          .make =
              [=](const output& as) {
                std::vector<report> reports;
                for (const guide& g : all)
                  if (wanted->empty() ||
                      std::find(wanted->begin(), wanted->end(), g.id) != wanted->end())
                    reports.push_back(g.make());
                return render(reports, as);
              }};
}

int run(int argc, char** argv, std::initializer_list<guide> held) {
  const std::string name = held.size() > 1 ? "strategy_tables" : held.begin()->program;
  return run_program(argc, argv, program_of(name, held));
}

int run(
    int argc, char** argv, const char* program, const char* about, gpuplan::io::table (*make)()) {
  return run_program(argc,
                     argv,
                     {.name = program,
                      .about = about,
                      .examples = "",
                      .add = [](CLI::App&) {},
                      .make = [&](const output& as) { return render(make(), as); }});
}

}  // namespace guides

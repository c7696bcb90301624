#include "guides/front_end.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "program_output.hpp"
#include "temporary_file.hpp"

using namespace guides;

namespace {

report first() {
  report r{.guide = "000", .title = "First"};
  table& peaks = r.tables.emplace_back(table{.id = "T0.1", .title = "Peaks", .inputs = "cards"});
  peaks.compare("4 x RTX 4090", "total FP16", "TFLOPS", number(660), number(660.8, 1), "cut|short");
  peaks.compare("6 x L40S", "total FP16", "TFLOPS", number(1099), number(1099.2, 1));
  peaks.compare("2 x H100", "total FP16", "TFLOPS", number(1979), number(1.0e4 / 3, 2), "a, \"b\"");
  table& plans = r.tables.emplace_back(table{.id = "T0.2", .title = "Plans"});
  plans.breaks("3", "micro-batch", "", number(5), number(3), "needs 13.0 GB of 11 GB");
  plans.compare("1", "hours", "h", span_of({10, 12}), span_of({10.5, 12.25}, 2));
  plans.not_computable("2", "hours", "h", span_of({7, 9}), "the queue time");
  plans.also("2", "micro-batch", "", number(14));
  plans.compare("1", "line", "", word("--gres=gpu:4"), word("--gres=gpu:4"));
  r.findings = {"Strategy 3 does not fit."};
  return r;
}

report second() {
  report r{.guide = "001", .title = "Second"};
  table& costs = r.tables.emplace_back(table{.id = "T1.1", .title = "Costs"});
  costs.compare("1 GPU", "cost", "$", number(300), number(300.0, 0));
  return r;
}

report broken() { throw std::runtime_error("no report today"); }

constexpr guide held[] = {{"000", "first", "The first", first},
                          {"001", "second", "The second", second}};

int call_run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "strategy_tables");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return run(static_cast<int>(arguments.size()), argv.data(), {held[0], held[1]});
}

outcome ran(const std::vector<std::string>& arguments) {
  return output_of(
      [](int argc, char** argv) {
        return run(argc, argv, {held[0], held[1]});
      },
      arguments,
      "strategy_tables");
}

// A row of a Markdown table, without escapes.
std::vector<std::string> markdown_fields(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '|') {
      fields.emplace_back();
    } else {
      if (line[i] == '\\') ++i;
      fields.back() += line[i];
    }
  }
  for (std::string& field : fields)
    field = field.size() > 2 ? field.substr(1, field.size() - 2) : "";
  return fields;
}

// A line of CSV in which no field holds a line break.
std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else if (line[i] != '\r') {
      fields.back() += line[i];
    }
  }
  return fields;
}

// Whether `json` is what `text` says, to the digits of `text`.
bool same(const nlohmann::ordered_json& json, const std::string& text) {
  if (json.is_null()) return text.empty();
  if (json.is_string()) return json.get<std::string>() == text;
  if (json.is_array()) {
    const std::size_t dash = text.find("–");
    return dash != std::string::npos && same(json.at(0), text.substr(0, dash)) &&
           same(json.at(1), text.substr(dash + std::string("–").size()));
  }
  const std::size_t point = text.find('.');
  const auto digits =
      point == std::string::npos ? 0.0 : static_cast<double>(text.size() - point - 1);
  return std::abs(json.get<double>() - std::stod(text)) <= 0.5001 * std::pow(10.0, -digits);
}

constexpr const char* keys[] = {
    "guide", "table", "row", "quantity", "documented", "computed", "unit", "verdict", "note"};

}  // namespace

TEST_CASE("without arguments all guides are printed") {
  const outcome o = ran({});
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  for (const char* part : {"000 · First",
                           "T0.1  Peaks",
                           "total FP16 (TFLOPS)",
                           "✓ agrees",
                           "≈ rounds",
                           "✗ differs",
                           "! breaks its own formula",
                           "? not computable",
                           "Strategy 3 does not fit.",
                           "001 · Second"})
    CHECK_MESSAGE(has(o.out, part), part);
}

TEST_CASE("a guide can be asked for, and twice is once") {
  const outcome one = ran({"--guide", "001"});
  CHECK(one.status == 0);
  CHECK(has(one.out, "001 · Second"));
  CHECK(!has(one.out, "000 · First"));
  CHECK(ran({"--guide", "001", "--guide", "001"}).out == one.out);
  CHECK(ran({"--guide", "001", "--guide", "000"}).out == ran({}).out);
}

TEST_CASE("json is an array of objects with these keys, one per cell") {
  const outcome o = ran({"--format", "json"});
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  const auto rows = nlohmann::ordered_json::parse(o.out);
  REQUIRE(rows.size() == 9);
  for (const auto& row : rows) {
    REQUIRE(row.size() == std::size(keys));
    std::size_t i = 0;
    for (const auto& item : row.items()) CHECK(item.key() == keys[i++]);
  }
  CHECK(
      rows[0].dump() ==
      R"({"guide":"000","table":"T0.1","row":"4 x RTX 4090","quantity":"total FP16",)"
      R"("documented":660,"computed":660.8,"unit":"TFLOPS","verdict":"rounds","note":"cut|short"})");
  CHECK(rows[2]["computed"] == 1.0e4 / 3);
  CHECK(rows[3]["verdict"] == "breaks its own formula");
  CHECK(rows[4]["documented"].dump() == "[10,12]");
  CHECK(rows[5]["computed"].is_null());
  CHECK(rows[5]["verdict"] == "not computable");
  CHECK(rows[6]["documented"].is_null());
  CHECK(rows[6]["verdict"].is_null());
  CHECK(rows[7]["computed"] == "--gres=gpu:4");
}

TEST_CASE("json, csv and markdown hold the same rows") {
  const auto json = nlohmann::ordered_json::parse(ran({"--format", "json"}).out);
  std::istringstream csv(ran({"--format", "csv"}).out);
  std::istringstream markdown(ran({"--format", "markdown"}).out);
  std::string csv_line;
  std::string markdown_line;
  std::getline(csv, csv_line);
  std::getline(markdown, markdown_line);
  CHECK(csv_fields(csv_line) == std::vector<std::string>(std::begin(keys), std::end(keys)));
  CHECK(markdown_fields(markdown_line) == csv_fields(csv_line));
  std::getline(markdown, markdown_line);
  for (const auto& row : json) {
    REQUIRE(std::getline(csv, csv_line));
    REQUIRE(std::getline(markdown, markdown_line));
    const auto fields = csv_fields(csv_line);
    REQUIRE(fields.size() == std::size(keys));
    CHECK(markdown_fields(markdown_line) == fields);
    for (std::size_t i = 0; i < fields.size(); ++i) CHECK(same(row[keys[i]], fields[i]));
  }
  CHECK(!std::getline(csv, csv_line));
  CHECK(!std::getline(markdown, markdown_line));
}

TEST_CASE("a wrong command line is told with option and value, and prints nothing") {
  struct wrong {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const wrong cases[] = {{{"--format", "xml"}, {"--format", "xml", "markdown"}},
                         {{"--format", "JSON"}, {"--format", "JSON"}},
                         {{"--format"}, {"--format"}},
                         {{"--format="}, {"--format"}},
                         {{"--format", "csv", "--format", "json"}, {"--format"}},
                         {{"--guide", "005"}, {"--guide", "005", "000"}},
                         {{"--guide", "000", "7"}, {"7"}},
                         {{"--guide", ""}, {"--guide"}},
                         {{"--guide"}, {"--guide"}},
                         {{"--color", "red"}, {"--color", "red", "never"}},
                         {{"--colour", "always"}, {"--colour"}},
                         {{"tables"}, {"tables"}}};
  for (const wrong& w : cases) {
    const outcome o = ran(w.arguments);
    CAPTURE(o.err);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(has(o.err, "Usage: strategy_tables"));
    const std::string message = o.err.substr(0, o.err.find('\n'));
    for (const std::string& part : w.said) CHECK_MESSAGE(has(message, part), part);
  }
}

TEST_CASE("help and version go to standard output") {
  const outcome help = ran({"--help"});
  CHECK(help.status == 0);
  CHECK(help.err.empty());
  for (const char* part :
       {"Usage: strategy_tables", "--format", "--guide", "--color", "The second"})
    CHECK_MESSAGE(has(help.out, part), part);
  const outcome version = ran({"--version"});
  CHECK(version.status == 0);
  CHECK(version.out.rfind("gpuplan ", 0) == 0);
}

TEST_CASE("colour is for terminals, or when asked for") {
  CHECK(!has(ran({}).out, "\033"));
  CHECK(!has(ran({"--color", "never"}).out, "\033"));
  CHECK(has(ran({"--color", "always"}).out, "\033[31m✗ differs\033[0m"));
  for (const char* format : {"json", "csv", "markdown"})
    CHECK(!has(ran({"--color", "always", "--format", format}).out, "\033"));
}

TEST_CASE("what cannot be written is an error") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{}, {"--format", "json"}, {"--help"}}) {
    const int full = open("/dev/full", O_WRONLY);
    REQUIRE(full >= 0);
    const outcome o = redirected(full, [&] { return call_run(arguments); });
    close(full);
    CHECK(o.status == 1);
    CHECK(has(o.err, "cannot write to standard output"));
  }
}

TEST_CASE("a closed pipe is a failure without a message") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  const outcome o = redirected(ends[1], [] { return call_run({}); });
  close(ends[1]);
  CHECK(o.status == 1);
  CHECK(o.err.empty());
}

TEST_CASE("a guide that fails leaves nothing half-printed") {
  std::FILE* out = std::tmpfile();
  char name[] = "broken";
  char* argv[] = {name, nullptr};
  const outcome o = redirected(fileno(out), [&] {
    return run(1, argv, {held[0], guide{"002", "broken", "Broken", broken}});
  });
  CHECK(o.status == 1);
  CHECK(has(o.err, "no report today"));
  CHECK(text_of(out).empty());
  std::fclose(out);
}

TEST_CASE("a file that cannot be written whole is as it was, and one that can has its rights") {
  const temporary_file file("earlier");
  REQUIRE(chmod(file.name().c_str(), 0640) == 0);
  const std::string link = file.name() + ".link";
  REQUIRE(symlink(file.name().c_str(), link.c_str()) == 0);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS(guides::write_file("--svg", file.name(), std::string(1000, 'x')));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  CHECK(file.text() == "earlier");
  guides::write_file("--svg", link, "later");
  CHECK(file.text() == "later");
  struct stat about {};
  REQUIRE(lstat(link.c_str(), &about) == 0);
  CHECK(S_ISLNK(about.st_mode));
  REQUIRE(stat(file.name().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777U) == 0640);
  CHECK_THROWS(guides::write_file("--svg", "/dev/full", "x"));
  std::remove(link.c_str());
}

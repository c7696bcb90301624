#include <algorithm>
#include <gpuplan/io/text.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "guides/held.hpp"
#include "guides/render.hpp"

using namespace guides;

namespace {

constexpr guide held[] = {guide_000, guide_001, guide_002, guide_003, guide_004};
constexpr int tables_of[] = {10, 9, 5, 7, 7};  // T0.1 to T0.10, T1.1 to T1.8, ...

bool has_verdict(const report& r, verdict wanted) {
  for (const table& t : r.tables)
    for (const cell& c : t.cells)
      if (c.outcome == wanted) return true;
  return false;
}

}  // namespace

TEST_CASE("every table is there, in order, with cells that are compared or computed") {
  for (std::size_t g = 0; g < std::size(held); ++g) {
    const report r = held[g].make();
    CHECK(r.guide == held[g].id);
    CHECK(!r.title.empty());
    REQUIRE(r.tables.size() == static_cast<std::size_t>(tables_of[g]));
    for (std::size_t i = 0; i < r.tables.size(); ++i) {
      const table& t = r.tables[i];
      CAPTURE(t.id);
      CHECK(t.id == "T" + std::to_string(g) + "." + std::to_string(i + 1));
      CHECK(!t.title.empty());
      CHECK(!t.inputs.empty());
      CHECK(!t.cells.empty());
    }
  }
}

TEST_CASE("verdicts say what the two sides show") {
  for (const guide& g : held) {
    for (const table& t : g.make().tables) {
      for (const cell& c : t.cells) {
        CAPTURE(t.id);
        CAPTURE(c.row);
        CAPTURE(c.quantity);
        CHECK(!c.row.empty());
        CHECK(!c.quantity.empty());
        using kind = shown::kind;
        CHECK((c.computed.what == kind::nothing) == (c.outcome == verdict::not_computable));
        // A setting that its formula forbids is no setting that the formula gives.
        if (c.outcome == verdict::breaks_its_own_formula)
          CHECK(c.documented != c.computed);
        else if (c.outcome != verdict::not_computable)
          CHECK(c.outcome == judge(c.documented, c.computed));
      }
    }
  }
}

TEST_CASE("no line of a table is there twice") {
  for (const guide& g : held) {
    for (const table& t : g.make().tables) {
      std::vector<std::string> lines;
      for (const cell& c : t.cells) lines.push_back(c.row + " / " + c.quantity + " / " + c.unit);
      std::sort(lines.begin(), lines.end());
      const auto twice = std::adjacent_find(lines.begin(), lines.end());
      CHECK_MESSAGE(twice == lines.end(), t.id, ": ", twice == lines.end() ? "" : *twice);
    }
  }
}

TEST_CASE("each guide has something that agrees, something that does not, and findings") {
  for (const guide& g : held) {
    CAPTURE(g.id);
    const report r = g.make();
    CHECK(has_verdict(r, verdict::agrees));
    CHECK(has_verdict(r, verdict::differs));
    CHECK(!r.findings.empty());
  }
}

TEST_CASE("each guide has a table of the model that it trains") {
  for (const guide& g : held) {
    CAPTURE(g.id);
    const std::vector<table> tables = g.make().tables;
    const auto found = std::find_if(tables.begin(), tables.end(), [](const table& one) {
      return one.title.rfind("the model", 0) == 0;
    });
    REQUIRE(found != tables.end());
    const table& t = *found;
    bool parameters = false;
    bool work = false;
    for (const cell& c : t.cells) {
      parameters = parameters || c.quantity == "parameters";
      work = work || c.quantity.rfind("work of a sample", 0) == 0;
    }
    CHECK(parameters);
    CHECK(work);
    CHECK(!t.cells.front().note.empty());  // why this model
  }
}

TEST_CASE("no line is longer than the terminal is wide") {
  std::vector<report> reports;
  for (const guide& g : held) reports.push_back(g.make());
  for (const int width : {60, 80, 100, 160}) {
    CAPTURE(width);
    std::istringstream lines(render(reports, {.width = width}));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(gpuplan::io::display_width(line) <= width);
    }
  }
}

TEST_CASE("the JSON of all guides has one object per cell, with one of five verdicts or none") {
  std::vector<report> reports;
  std::size_t cells = 0;
  for (const guide& g : held) {
    reports.push_back(g.make());
    for (const table& t : reports.back().tables) cells += t.cells.size();
  }
  const auto rows = nlohmann::json::parse(render(reports, {.format = gpuplan::io::format::json}));
  CHECK(rows.size() == cells);
  const std::vector<std::string> words = {
      "agrees", "rounds", "differs", "breaks its own formula", "not computable"};
  for (const auto& row : rows) {
    CHECK(row.size() == 9);
    const auto& verdict = row.at("verdict");
    if (verdict.is_null())
      CHECK(row.at("documented").is_null());
    else
      CHECK(std::find(words.begin(), words.end(), verdict.get<std::string>()) != words.end());
  }
}

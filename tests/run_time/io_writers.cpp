#include <cstdint>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/csv.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/html.hpp>
#include <gpuplan/io/json.hpp>
#include <gpuplan/io/markdown.hpp>
#include <gpuplan/io/text.hpp>
#include <locale>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"

using namespace gpuplan::io;

namespace {

using gpuplan::range;

table gpus() {
  return {.title = "Devices",
          .columns = {{.name = "device"},
                      {.name = "peak", .unit = "TFLOPS", .align = alignment::point},
                      {.name = "batch", .align = alignment::right},
                      {.name = "note"}},
          .rows = {{"RTX 4090", {165.2, 1}, {range<double>(8, 12), 0}, "24 GB"},
                   {"L40S", 1099, {}, "6 cards, \"dense\""}}};
}

// As a program would have it that speaks German.
struct comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

// The fields of RFC 4180 text, read by its grammar.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> line(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      line.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      line.emplace_back();
    } else if (!quoted && c == '\r') {
      ++i;
      lines.push_back(line);
      line.assign(1, "");
    } else {
      line.back() += c;
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("decimal has the digits asked for, in every locale") {
  CHECK(decimal(1099.2, 1) == "1099.2");
  CHECK(decimal(1234567.891, 2) == "1234567.89");
  CHECK(decimal(0.1, cell::shortest) == "0.1");
  CHECK(decimal(1.0 / 3.0, 3) == "0.333");
  CHECK(decimal(-2.5, 0) == "-2");
  CHECK(decimal(-0.001, 2) == "0.00");
  CHECK(decimal(-0.0, cell::shortest) == "0");
  CHECK(decimal(-0.1, 1) == "-0.1");
  CHECK(decimal(1.7976931348623157e308, 3).size() == 313);
  CHECK(decimal(1.0 / 3.0, 60).size() == 62);
}

TEST_CASE("cells as people read them") {
  CHECK(to_text(cell()) == "");
  CHECK(to_text(cell("x")) == "x");
  CHECK(to_text(cell(12)) == "12");
  CHECK(to_text(cell(std::int64_t{9007199254740991})) == "9007199254740991");
  CHECK(to_text(cell(range<double>(1.5, 2), 1)) == "1.5–2.0");
  CHECK(to_text(cell(range<double>(-3, 5), 0)) == "-3 to 5");
}

TEST_CASE("display width counts the cells of a terminal") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("8–12") == 4);
  CHECK(display_width("학습") == 4);
  CHECK(display_width("漢字, ok") == 8);
  CHECK(display_width("e\xcc\x81") == 1);         // e and a combining acute accent
  CHECK(display_width("\xf0\x9f\x9a\x80") == 2);  // a rocket
  CHECK(display_width("a\xff\xc3") == 3);         // bytes that are not UTF-8
  CHECK(display_width("\xe2\x82") == 2);          // cut in the middle of a character
}

TEST_CASE("wrap breaks at spaces alone") {
  CHECK(wrap("", 10) == std::vector<std::string>{""});
  CHECK(wrap("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap("one two three", 13) == std::vector<std::string>{"one two three"});
  CHECK(wrap("unbreakable word", 4) == std::vector<std::string>{"unbreakable", "word"});
  CHECK(wrap("학습 전략 표", 9) == std::vector<std::string>{"학습 전략", "표"});
}

TEST_CASE("text is aligned, numbers at the decimal point") {
  CHECK(to_text(gpus()) ==
        "Devices\n"
        "device    peak (TFLOPS)  batch  note\n"
        "────────  ─────────────  ─────  ────────────────\n"
        "RTX 4090          165.2   8–12  24 GB\n"
        "L40S             1099           6 cards, \"dense\"\n");
}

TEST_CASE("text aligns by width on the screen, not by bytes") {
  const table t{.columns = {{.name = "a"}, {.name = "b"}}, .rows = {{"학습", 1}, {"ab", 2}}};
  CHECK(to_text(t, {.indent = 2}) ==
        "  a     b\n"
        "  ────  ─\n"
        "  학습  1\n"
        "  ab    2\n");
}

TEST_CASE("the last column is wrapped to the width, then goes below, then all becomes records") {
  const table t{.columns = {{.name = "name"}, {.name = "note"}},
                .rows = {{"a", "some words that need more than one line"}, {"bb", ""}}};
  CHECK(to_text(t, {.width = 30}) ==
        "name  note\n"
        "────  ────────────────────────\n"
        "a     some words that need\n"
        "      more than one line\n"
        "bb\n");
  CHECK(to_text(t, {.width = 22}) ==
        "name\n"
        "────\n"
        "a\n"
        "    some words that\n"
        "    need more than one\n"
        "    line\n"
        "bb\n");
  const table wide{.columns = {{.name = "command"}, {.name = "n"}, {.name = "note"}},
                   .rows = {{"srun python train.py", 1, "x"}, {"srun", {}, "y"}}};
  CHECK(to_text(wide, {.width = 20}) ==
        "command  srun python\n"
        "         train.py\n"
        "n        1\n"
        "note     x\n"
        "\n"
        "command  srun\n"
        "note     y\n");
  CHECK(to_text(wide, {.width = 12}) ==
        "command\n"
        "    srun\n"
        "    python\n"
        "    train.py\n"
        "n\n"
        "    1\n"
        "note\n"
        "    x\n"
        "\n"
        "command\n"
        "    srun\n"
        "note\n"
        "    y\n");
  CHECK(to_text(table{.title = "two words", .columns = {{.name = "a"}}}, {.width = 6}) ==
        "two\n"
        "words\n"
        "a\n"
        "─\n");
}

TEST_CASE("numbers that go below their row have their names, and tables stay tables") {
  using enum alignment;
  const table runs{.columns = {{.name = "gpu"},
                               {.name = "hours", .align = point},
                               {.name = "kWh", .align = point},
                               {.name = "CO2", .unit = "kg", .align = point}},
                   .rows = {{"h100", 6.5, 25, 10}, {"a100", 20.5, 64, {}}}};
  CHECK(to_text(runs, {.width = 18}) ==
        "gpu   hours  kWh\n"
        "────  ─────  ───\n"
        "h100    6.5   25\n"
        "    CO2 (kg): 10\n"
        "a100   20.5   64\n");
  CHECK(to_text(runs, {.width = 14}) ==
        "gpu   hours\n"
        "────  ─────\n"
        "h100    6.5\n"
        "    kWh: 25,\n"
        "    CO2 (kg):\n"
        "    10\n"
        "a100   20.5\n"
        "    kWh: 64\n");
  // Less than half of them on a line: records.
  CHECK(to_text(runs, {.width = 10}).find("gpu   h100") == std::string::npos);
  CHECK(to_text(runs, {.width = 10}).find("────") == std::string::npos);
}

TEST_CASE("no line of text is longer than the width") {
  for (int width = 30; width < 120; ++width) {
    std::istringstream lines(to_text(gpus(), {.width = width, .indent = 2}));
    std::string line;
    while (std::getline(lines, line)) CHECK(display_width(line) <= width);
  }
}

TEST_CASE("text has escape sequences only where colour is asked for") {
  const table t{.columns = {{.name = "verdict"}}, .rows = {{cell("differs").in(tone::bad)}}};
  CHECK(to_text(t).find('\033') == std::string::npos);
  CHECK(to_text(t, {.color = true}).find("\033[31mdiffers\033[0m") != std::string::npos);
  const table sly{.columns = {{.name = "x"}}, .rows = {{"a\033[2Jb\nc\td"}}};
  CHECK(to_text(sly) == "x\n───────────────\na\\u001b[2Jb c d\n");
}

TEST_CASE("markdown escapes what would be markup") {
  CHECK(to_markdown(gpus()) ==
        "### Devices\n"
        "\n"
        "| device | peak (TFLOPS) | batch | note |\n"
        "| --- | ---: | ---: | --- |\n"
        "| RTX 4090 | 165.2 | 8–12 | 24 GB |\n"
        "| L40S | 1099 |  | 6 cards, \"dense\" |\n");
  const table t{.columns = {{.name = "a|b"}}, .rows = {{"x|y\nz*_`<~[\\"}}};
  CHECK(to_markdown(t) == "| a\\|b |\n| --- |\n| x\\|y<br>z\\*\\_\\`\\<\\~\\[\\\\ |\n");
}

TEST_CASE("a text of markup is content and attribute, on one line unless its ends are kept") {
  const std::string text = "<a b=\"1\">&\n\033é";
  const std::string safe = "&lt;a b=&quot;1&quot;&gt;&amp;";
  CHECK(markup_escaped(text) == safe + " \\u001bé");
  CHECK(markup_escaped(text, line_ends::are_kept) == safe + "\n\\u001bé");
  CHECK(html_escaped(text) == safe + "<br>\\u001bé");
}

TEST_CASE("html is one element, in which texts stay texts") {
  CHECK(
      to_html(gpus()) ==
      "<p class=\"caption\">Devices</p>\n"
      "<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"Devices\">"
      "<table aria-label=\"Devices\">\n"
      "<thead><tr><th scope=\"col\">device</th><th scope=\"col\" class=\"number\">peak (TFLOPS)"
      "</th><th scope=\"col\" class=\"number\">batch</th><th scope=\"col\">note</th></tr></thead>\n"
      "<tbody>\n"
      "<tr><th scope=\"row\" class=\"short\">RTX 4090</th><td class=\"number\">165.2</td>"
      "<td class=\"number\">8–12</td><td class=\"short\">24 GB</td></tr>\n"
      "<tr><th scope=\"row\" class=\"short\">L40S</th><td class=\"number\">1099</td>"
      "<td class=\"number\"></td><td class=\"short\">6 cards, &quot;dense&quot;</td></tr>\n"
      "</tbody></table></div>\n");
  const table t{.title = "a\"><script>\n",
                .columns = {{.name = "<b>"}},
                .rows = {{cell("x&y\n\033[0m").in(tone::bad)}}};
  const std::string html = to_html(t);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("aria-label=\"a&quot;&gt;&lt;script&gt; \"") != std::string::npos);
  CHECK(html.find(">&lt;b&gt;</th>") != std::string::npos);
  CHECK(html.find("class=\"short bad\">x&amp;y<br>\\u001b[0m</th>") != std::string::npos);
  const std::string page = html_page("<t>", html);
  CHECK(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
  CHECK(page.find("<title>&lt;t&gt;</title>") != std::string::npos);
}

TEST_CASE("csv is RFC 4180") {
  CHECK(to_csv(gpus()) ==
        "device,peak (TFLOPS),batch,note\r\n"
        "RTX 4090,165.2,8–12,24 GB\r\n"
        "L40S,1099,,\"6 cards, \"\"dense\"\"\"\r\n");
  const std::vector<std::string> nasty = {
      "", "a,b", "\"", "line\nbreak", "cr\rlf\r\n", " space ", "漢字", "\"\",\"\""};
  table t{.columns = {{.name = "x"}, {.name = "y"}}};
  for (const auto& text : nasty) t.rows.push_back({text, 1});
  const auto lines = parse_csv(to_csv(t));
  REQUIRE(lines.size() == nasty.size() + 1);
  for (std::size_t i = 0; i < nasty.size(); ++i)
    CHECK(lines[i + 1] == std::vector<std::string>{nasty[i], "1"});
}

TEST_CASE("json keeps numbers numbers, ranges pairs, and nothing null") {
  const auto parsed = nlohmann::ordered_json::parse(to_json(gpus()));
  REQUIRE(parsed.size() == 2);
  CHECK(parsed[0].dump() == R"({"device":"RTX 4090","peak":165.2,"batch":[8,12],"note":"24 GB"})");
  CHECK(parsed[1].dump() ==
        R"({"device":"L40S","peak":1099,"batch":null,"note":"6 cards, \"dense\""})");
}

TEST_CASE("json has every digit of a number, and text where JSON has no number") {
  const table t{.columns = {{.name = "x"}},
                .rows = {{{1.0 / 3.0, 2}}, {{2.5, 0}}, {"\xff\x01"}, {__builtin_inf()}}};
  const auto parsed = nlohmann::ordered_json::parse(to_json(t));
  CHECK(parsed[0]["x"] == 1.0 / 3.0);
  CHECK(parsed[1]["x"] == 2.5);
  CHECK(parsed[2]["x"] == "\xef\xbf\xbd\x01");
  CHECK(parsed[3]["x"] == "inf");
}

TEST_CASE("an empty table is a table") {
  const table none{.columns = {{.name = "x"}}};
  CHECK(to_text(none) == "x\n─\n");
  CHECK(to_markdown(none) == "| x |\n| --- |\n");
  CHECK(to_csv(none) == "x\r\n");
  CHECK(to_json(none) == "[]\n");
  CHECK(to_text(table{}).empty());
}

TEST_CASE("a malformed table is refused before the first character") {
  table t = gpus();
  t.rows.push_back({"short", 1});
  const gpuplan::failure why(gpuplan::errc::malformed_table,
                             gpuplan::named_fact{gpuplan::fact::row, 2},
                             gpuplan::named_fact{gpuplan::fact::cells, 2},
                             gpuplan::named_fact{gpuplan::fact::columns, 4});
  CHECK(validate(t).why() == why);
  std::ostringstream out;
  for (const format_traits& traits : formats) {
    CAPTURE(traits.name);
    CHECK_THROWS_AS(write(out, t, *format_named(traits.name)), gpuplan::plan_error);
  }
  const table twins{.columns = {{.name = "x"}, {.name = "x"}}};
  CHECK_THROWS_AS(write(out, twins, format::json), gpuplan::plan_error);
  CHECK(out.str().empty());
}

TEST_CASE("the locale of a stream or of the program changes nothing") {
  std::string classic;
  for (const format_traits& traits : formats) classic += traits.write(gpus(), {});
  std::ostringstream german;
  german.imbue(std::locale(std::locale::classic(), new comma));
  const std::locale before = std::locale::global(german.getloc());
  for (const format_traits& traits : formats) write(german, gpus(), *format_named(traits.name));
  std::locale::global(before);
  CHECK(german.str() == classic);
  CHECK(german.str().starts_with(to_text(gpus()) + to_markdown(gpus()) + to_csv(gpus()) +
                                 to_json(gpus())));
}

TEST_CASE("each format has its name, and writes any table") {
  CHECK(traits_of(format::text).name == std::string("text"));
  CHECK(traits_of(format::markdown).name == std::string("markdown"));
  CHECK(traits_of(format::csv).name == std::string("csv"));
  CHECK(traits_of(format::json).name == std::string("json"));
  CHECK(traits_of(format::html).name == std::string("html"));
  CHECK(!format_named("xml"));
  CHECK(!format_named(""));
  const table none{.columns = {{.name = "x"}}};
  for (const format_traits& traits : formats) {
    CAPTURE(traits.name);
    const format f = *format_named(traits.name);
    CHECK(&traits_of(f) == &traits);
    CHECK(write(gpus(), f).find("RTX 4090") != std::string::npos);
    CHECK(!write(none, f).empty());
  }
  CHECK(write(gpus(), format::text, {.indent = 2}) == to_text(gpus(), {.indent = 2}));
}

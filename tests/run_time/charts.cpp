#include <cmath>
#include <cstdlib>
#include <gpuplan/io/chart/frame.hpp>
#include <gpuplan/io/chart/gantt.hpp>
#include <gpuplan/io/chart/points.hpp>
#include <gpuplan/io/chart/stacked_areas.hpp>
#include <gpuplan/io/chart/stacked_bars.hpp>
#include <gpuplan/io/html.hpp>
#include <string>
#include <vector>

#include "check.hpp"

using namespace gpuplan::io;

namespace {

// WCAG 2.2: relative luminance, and the contrast of two.
double luminance(const std::string& colour) {
  double sum = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (std::size_t at = 0; at < 3; ++at) {
    const double share =
        static_cast<double>(std::strtol(colour.substr(1 + 2 * at, 2).c_str(), nullptr, 16)) / 255;
    sum +=
        weights[at] * (share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4));
  }
  return sum;
}
double contrast(const std::string& one, const std::string& other) {
  const double a = luminance(one);
  const double b = luminance(other);
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}
bool holds(const std::string& text, const std::string& part) { return count_of(text, part) > 0; }

// The value of the variable `--name:#...` of the style sheet, the first or the second.
std::string styled(const std::string& name, bool dark) {
  const std::string styles = detail::html_styles;
  std::size_t at = styles.find("--" + name + ":#");
  if (dark) at = styles.find("--" + name + ":#", at + 1);
  REQUIRE(at != std::string::npos);
  return styles.substr(at + name.size() + 3, 7);
}

// A document whose elements are closed, without scripts and without numbers that are none.
void check_document(const std::string& svg) {
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count_of(svg, "<text ") == count_of(svg, "</text>"));
  CHECK(count_of(svg, "\"") % 2 == 0);
  for (const char* none : {"<script", "href", "nan", "inf\"", "=\"-inf"})
    CHECK_MESSAGE(!holds(svg, none), none);
}

}  // namespace

TEST_CASE("texts can be read by day and by night") {
  CHECK(contrast("#000000", "#ffffff") == doctest::Approx(21));
  for (const chart_colour& text : {chart_ink, chart_faint}) {
    CHECK(contrast(text.light, chart_paper.light) >= 4.5);
    CHECK(contrast(text.dark, chart_paper.dark) >= 4.5);
  }
  // Areas that are pale on white have edges of ink; on dark paper none is dark.
  for (const chart_colour& area : chart_colours) CHECK(contrast(area.dark, chart_paper.dark) >= 3);
  for (const bool dark : {false, true})
    for (const char* text : {"ink", "faint", "good", "fair", "bad"})
      for (const char* paper : {"paper", "band"}) {
        CAPTURE(text);
        CHECK(contrast(styled(text, dark), styled(paper, dark)) >= 4.5);
      }
}

TEST_CASE("areas that touch differ in lightness or hue, for every eye") {
  // Okabe and Ito's eight, as published but for black, yellow and a darker grey.
  for (std::size_t one = 0; one < chart_colour_count; ++one)
    for (std::size_t other = 0; other < one; ++other) {
      CHECK(std::string(chart_colours[one].light) != chart_colours[other].light);
      CHECK(std::string(chart_colours[one].dark) != chart_colours[other].dark);
    }
}

TEST_CASE("texts are wrapped and shortened to their width") {
  CHECK(text_width("mmm", 10) > text_width("iii", 10));
  CHECK(text_width("mm", 10, true) > text_width("mm", 10));
  const std::string long_text = "one two three four five six seven";
  for (const std::string& line : wrapped_to(long_text, 60, 12)) CHECK(text_width(line, 12) <= 60);
  CHECK(wrapped_to("word", 1, 12).size() == 1);
  CHECK(shortened_to("short", 100, 12) == "short");
  CHECK(text_width(shortened_to(long_text, 60, 12), 12) <= 60);
  CHECK(shortened_to(long_text, 60, 12).ends_with("…"));
}

TEST_CASE("numbers on axes are short and round") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(950) == "950");
  CHECK(short_number(12'000) == "12k");
  CHECK(short_number(3'460'000) == "3.46M");
  CHECK(short_number(0.5) == "0.5");
  const chart_axis axis = linear_axis(7.3, 5);
  CHECK(axis.to == 8);
  CHECK(axis.ticks.size() == 5);
  CHECK(axis.ticks[1].name == "2");
  const chart_axis times = logarithmic_axis(8, 1000);
  CHECK(times.ticks.front().name == "10");
  CHECK(times.from < 8);
  CHECK(times.to > 1000);
}

TEST_CASE("a part of size zero is in no legend") {
  const stacked_bars chart{.title = "a<b",
                           .counts = "GiB",
                           .parts = {"weights", "nothing", "activations"},
                           .bars = {{"one", {1, 0, 2}, "3 GiB"}, {"two", {1, 0, 0}, "1 GiB"}},
                           .limit = 4,
                           .limit_name = "a GPU: 4 GiB"};
  for (const double width : {328.0, 880.0}) {
    const std::string svg = to_svg(chart, width);
    check_document(svg);
    CHECK(holds(svg, ">weights</text>"));
    CHECK(!holds(svg, "nothing"));
    CHECK(holds(svg, "<title>activations: 2 GiB</title>"));
    CHECK(holds(svg, "a&lt;b"));
    CHECK(holds(svg, ">a GPU: 4 GiB</text>"));
  }
}

TEST_CASE("areas show what is most in each column, and nothing that is never there") {
  stacked_areas chart{.title = "memory",
                      .counts_along = "ms",
                      .counts_upwards = "GiB",
                      .times = {0, 50, 50.001, 100},
                      .layers = {{"weights", {1, 1, 1}, 0, "1 GiB"},
                                 {"never", {0, 0, 0}, 3, ""},
                                 {"spike", {0, 7, 0}, 4, "7 GiB"}},
                      .spans = {{"forward", 0, 50}, {"backward", 50, 100}},
                      .limit = 40,
                      .limit_name = "a GPU",
                      .peak_name = "8 GiB, loss"};
  const std::string svg = to_svg(chart);
  check_document(svg);
  CHECK(holds(svg, ">spike 7 GiB</text>"));
  CHECK(!holds(svg, "never"));
  CHECK(holds(svg, ">a GPU, above this picture</text>"));
  CHECK(holds(svg, ">forward</text>"));
  chart.outlines = {{"measured", {0, 100}, {9}}};
  CHECK(holds(to_svg(chart), ">measured</text>"));
  // A name that is wider than the picture has nowhere to go but the left.
  chart.spans[0].name = std::string(400, 'w');
  check_document(to_svg(chart));
}

TEST_CASE("a schedule's boxes have their labels where these fit") {
  const gantt_chart chart{
      .title = "who",
      .counts = "s",
      .rows = {"stage 0", "stage 1"},
      .kinds = {{"forward", "#b3d9f0", "#1a1a1a"}, {"idle", "#000000", "#ffffff"}},
      .tasks = {{0, 0, 0, 1, "first", "says"}, {1, 0, 1, 1.001, "tiny", ""}}};
  const std::string svg = to_svg(chart);
  check_document(svg);
  CHECK(holds(svg, ">first</text>"));
  CHECK(holds(svg, "<title>says</title>"));
  CHECK(!holds(svg, "tiny"));
  CHECK(!holds(svg, ">idle<"));
  for (const gantt_chart::kind& one : chart.kinds) CHECK(contrast(one.fill, one.ink) >= 4.5);
}

TEST_CASE("points have labels that do not touch") {
  point_chart chart{.title = "front",
                    .counts_along = "hours",
                    .counts_upwards = "dollars",
                    .all = {{.name = "runs",
                             .points = {{1, 5, "a"}, {1, 5, "b"}, {2, 3, "c"}},
                             .are = point_chart::joined::by_lines},
                            {.name = "none"}}};
  check_document(to_svg(chart));
  CHECK(!holds(to_svg(chart), ">none</text>"));
  chart.is_logarithmic = true;
  chart.names_each = true;
  const std::string svg = to_svg(chart, 328);
  check_document(svg);
  CHECK(holds(svg, ">2</text>"));
}

#include <cmath>
#include <string>
#include <vector>

#include "check.hpp"
#include "summary.hpp"

using namespace accuracy;

namespace {

comparison of(const std::string& id, double measured, double predicted) {
  return {.id = id, .what = quantity::mfu, .measured = measured, .predicted = number(predicted)};
}

summary only(const std::vector<comparison>& comparisons) {
  const auto all = summarise({.path = "", .kind = "", .comparisons = comparisons});
  REQUIRE(all.size() == 1);
  return all.front();
}

bool near(double a, double b) { return std::abs(a - b) < 1e-12; }

}  // namespace

TEST_CASE("mean, median, 90th percentile, bias and worst row") {
  std::vector<comparison> rows;
  for (int i = 1; i <= 10; ++i)  // errors of 1, -2, 3, -4 … -10 %
    rows.push_back(of("r" + std::to_string(i), 100, 100 + (i % 2 != 0 ? i : -i)));
  const summary sum = only(rows);
  CHECK(sum.rows == 10);
  CHECK(sum.exact == 0);
  CHECK(near(sum.mean, 5.5));
  CHECK(near(sum.median, 5.5));
  CHECK(near(sum.p90, 9));
  CHECK(near(sum.bias, -0.5));
  CHECK(near(sum.worst, -10));
  CHECK(sum.worst_id == "r10");

  rows.push_back(of("r11", 100, 100));
  const summary odd = only(rows);
  CHECK(odd.exact == 1);
  CHECK(near(odd.median, 5));
  CHECK(near(odd.p90, 9));
}

TEST_CASE("one row, and none") {
  const summary one = only({of("a", 4, 5)});
  CHECK((one.mean == 25 && one.median == 25 && one.p90 == 25 && one.bias == 25));
  comparison skipped = of("a", 4, 5);
  skipped.predicted = std::string("no shape");
  const summary none = only({skipped});
  CHECK((none.rows == 0 && none.skipped == 1 && none.worst_id.empty()));
  CHECK(summarise({.path = "", .kind = ""}).empty());
}

TEST_CASE("flagged rows do not count") {
  comparison flagged = of("b", 1, 9);
  flagged.flagged = true;
  const summary sum = only({of("a", 4, 5), flagged});
  CHECK((sum.rows == 1 && sum.flagged == 1 && sum.worst == 25));
}

TEST_CASE("repeats of one configuration count once, by their means") {
  std::vector<comparison> rows{of("a", 90, 100), of("b", 110, 100), of("c", 50, 60)};
  rows[0].repeated_of = rows[1].repeated_of = "a";
  const summary sum = only(rows);
  CHECK(sum.rows == 2);
  CHECK(sum.exact == 1);
  CHECK(near(sum.mean, 10));
}

TEST_CASE("what was judged to fit, by what became of it") {
  const auto run = [](bool ran, bool fits, bool by_a_margin) {
    return comparison{.id = "r",
                      .what = quantity::fits,
                      .measured = std::int64_t{ran ? 1 : 0},
                      .predicted = number(std::int64_t{fits ? 1 : 0}),
                      .by_a_margin = by_a_margin};
  };
  std::vector<comparison> runs{run(true, true, true),
                               run(true, true, false),
                               run(true, false, false),
                               run(false, true, false),
                               run(false, true, true),
                               run(false, false, false)};
  comparison doubtful = run(false, true, true);
  doubtful.flagged = true;
  runs.push_back(doubtful);
  comparison unknown = run(false, true, true);
  unknown.predicted = std::string("no shape");
  runs.push_back(unknown);
  const file_comparison file{.path = "", .kind = "", .comparisons = runs};
  const fit_table table = count_fits(file);
  CHECK(table.rows() == 6);
  CHECK((table.fitted_and_ran == 2 && table.exceeded_and_ran == 1));
  CHECK((table.fitted_and_ran_out == 2 && table.exceeded_and_ran_out == 1));
  CHECK(table.fitted_by_a_margin_and_ran_out == 1);
  CHECK(summarise(file).empty());
}

TEST_CASE("quantities are apart, in their own order") {
  comparison other = of("a", 1, 1);
  other.what = quantity::parameters;
  const auto all = summarise({.path = "", .kind = "", .comparisons = {of("a", 1, 2), other}});
  REQUIRE(all.size() == 2);
  CHECK((all[0].what == quantity::parameters && all[0].exact == 1));
  CHECK((all[1].what == quantity::mfu && all[1].exact == 0));
}

TEST_CASE("a reason to skip counts once a row") {
  comparison a = of("a", 1, 1);
  a.predicted = std::string("no shape");
  comparison again = a;
  again.what = quantity::hfu;
  comparison b = of("b", 1, 1);
  b.predicted = std::string("no time");
  comparison c = b;
  c.id = "c";
  const auto reasons = reasons_to_skip({.path = "", .kind = "", .comparisons = {a, again, b, c}});
  REQUIRE(reasons.size() == 2);
  CHECK((reasons[0].first == "no time" && reasons[0].second == 2));
  CHECK((reasons[1].first == "no shape" && reasons[1].second == 1));
}

TEST_CASE("every quantity is where its enumerator says") {
  for (const quantity_text& text : quantities) CHECK(text_of(text.what).what == text.what);
}

// The fit finds the parameters that made the times it is given.

#include "time_fit.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "check.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

const time_parameter& parameter(const std::string& name) {
  for (const time_parameter& what : time_parameters())
    if (name == what.name) return what;
  FAIL("no parameter " << name);
  return time_parameters().front();
}

// The rows of the file, as long as the model says with these parameters.
std::vector<timed_row> rows_with(double products, double host_per_step) {
  std::vector<timed_row> rows = timed_rows({read_csv(data("timed_runs.csv"))});
  for (timed_row& row : rows) {
    gpuplan::roofline_time other = row.model;
    parameter("products").set(other, products);
    parameter("host_per_step").set(other, host_per_step);
    row.seconds = other.step(row.batch).value();
  }
  return rows;
}

}  // namespace

TEST_CASE("the parameters behind made-up times are found, and cells left out follow") {
  const fit_settings settings{.only = {"products", "host_per_step"}, .folds = 3, .resamples = 3};
  const time_fit fit = fit_time(rows_with(0.7, 0.1), settings);
  std::size_t products = 0;
  for (const fitted_parameter& one : fit.parameters) {
    CAPTURE(one.owner);
    CAPTURE(one.what->name);
    CHECK((one.low <= one.value && one.value <= one.high));
    if (std::string(one.what->name) != "products") continue;
    ++products;
    // Of other generations there are fewer rows than parameters.
    if (one.owner == "Ampere") CHECK(std::abs(one.value - 0.7) < 0.01);
  }
  CHECK(products >= 3);
  for (const source_errors& one : fit.sources) {
    CAPTURE(one.source);
    if (one.fitted.rows != 0) CHECK(one.fitted.mean < std::max(1.0, one.before.mean / 5));
    CHECK(one.fitted.rows + one.unseen.rows == one.before.rows);
    CHECK(one.left_out_cells.rows == one.fitted.rows);
  }
}

TEST_CASE("what no row determines stays where it was") {
  std::vector<timed_row> rows = rows_with(0.7, 0.1);
  std::erase_if(rows, [](const timed_row& row) { return row.source != "vtrain_multi"; });
  const time_fit fit = fit_time(
      rows, {.only = {"products_fp8", "hidden_expert_communication"}, .folds = 1, .resamples = 0});
  CHECK(fit.parameters.empty());
  REQUIRE(fit.sources.size() == 1);
  CHECK(fit.sources[0].before.rows == rows.size());
}

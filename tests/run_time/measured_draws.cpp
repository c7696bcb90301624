// What energy.hpp states of an H100 is what was recorded of one.

#include <gpuplan/energy.hpp>
#include <gpuplan/io/measured_device.hpp>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"

namespace {

using namespace gpuplan;

const std::string folder = GPUPLAN_MEASURED_DEVICES;
constexpr double limit = 700;  // watts

using row = std::map<std::string, std::string>;

// No cell of these files has a comma.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}
std::vector<row> rows_of(const std::string& name) {
  std::ifstream file(folder + "/" + name);
  REQUIRE(file.good());
  std::string line;
  REQUIRE(std::getline(file, line));
  const std::vector<std::string> columns = cells_of(line);
  std::vector<row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE(cells.size() == columns.size());
    row one;
    for (std::size_t at = 0; at < cells.size(); ++at) one[columns[at]] = cells[at];
    if (!one["power_W"].empty()) rows.push_back(one);
  }
  return rows;
}

double quantile(std::vector<double> values, double share) {
  REQUIRE(!values.empty());
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace

TEST_CASE("a device that computes draws what long steps drew") {
  std::vector<double> draws;
  double least = 1;
  for (row& one : rows_of("h100_sxm5_80gb_torch_steps.csv")) {
    if (std::stod(one["step_s"]) < 0.2) continue;
    const double share = std::stod(one["power_W"]) / limit;
    least = std::min(least, share);
    if (one["attention"] == "flash" && one["precision"].find("bf16") != std::string::npos)
      draws.push_back(share);
  }
  CHECK(draws.size() == 16);
  CHECK(quantile(draws, 0.5) == doctest::Approx(h100_draws.computing).epsilon(0.005));
  CHECK(quantile(draws, 0.1) == doctest::Approx(0.93).epsilon(0.005));
  CHECK(quantile(draws, 0.9) == doctest::Approx(0.99).epsilon(0.005));
  CHECK(least == doctest::Approx(0.76).epsilon(0.005));
}

TEST_CASE("a device that waits draws what layers drew that the host hardly kept busy") {
  std::vector<double> draws;
  for (row& one : rows_of("h100_sxm5_80gb_layers.csv"))
    draws.push_back(std::stod(one["power_W"]) / limit);
  CHECK(draws.size() == 249);
  CHECK(*std::min_element(draws.begin(), draws.end()) ==
        doctest::Approx(h100_draws.waiting).epsilon(0.005));
}

TEST_CASE("a device that moves bytes draws what copies did") {
  std::ifstream file(folder + "/h100_sxm5_80gb.json");
  std::ostringstream text;
  text << file.rdbuf();
  const auto read = io::read_measurement(text.str());
  REQUIRE(read);
  const measured_device device = read->view();
  std::vector<double> draws;
  for (const auto* one : {&device.copy, &device.triad, &device.read, &device.write})
    draws.push_back((*one)->draw->value() / limit);
  CHECK(quantile(draws, 0.5) == doctest::Approx(h100_draws.moving).epsilon(0.01));
  CHECK(quantile(draws, 0) == doctest::Approx(0.71).epsilon(0.005));
  CHECK(quantile(draws, 1) == doctest::Approx(0.99).epsilon(0.005));
  CHECK(h100_draws.communicating == doctest::Approx((h100_draws.waiting + h100_draws.moving) / 2));
}

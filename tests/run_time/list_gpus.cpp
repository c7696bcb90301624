#include <gpuplan/catalog/gpus.hpp>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

namespace {

using nlohmann::json;

outcome gpus_listed(const std::vector<std::string>& arguments) {
  return output_of_command("gpus", arguments);
}
json gpu_rows(const std::vector<std::string>& arguments) {
  return json_answer(gpus_listed, arguments);
}

}  // namespace

TEST_CASE("all devices are listed with their numbers") {
  const json rows = gpu_rows({});
  REQUIRE(rows.size() == std::size(gpuplan::catalog::gpus));
  for (const json& row : rows) {
    CAPTURE(row.dump());
    CHECK(!row["source"].get<std::string>().empty());
    CHECK(row["memory_for_training_GiB"].get<double>() < row["memory_as_sold_GB"].get<double>());
  }
  CHECK(has(gpus_listed({}).out, "rtx_4090"));
}

TEST_CASE("one device is told in detail, several side by side") {
  const json one = gpu_rows({"4090"});
  REQUIRE(one.size() == 1);
  CHECK(one[0]["gpu"] == "rtx_4090");
  CHECK(one[0]["memory_as_sold_GB"] == 24);
  CHECK(one[0]["bf16_TFLOPS"].get<double>() == doctest::Approx(165.2));
  // The three that a name may mean are compared.
  CHECK(gpu_rows({"h100"}).size() == 3);
  CHECK(gpu_rows({"h100,4090"}).size() == 4);
  const std::string text = gpus_listed({"4090,a6000"}).out;
  for (const char* part : {"Side by side", "rtx_4090", "rtx_a6000", "bf16 TFLOPS", "source"})
    CHECK_MESSAGE(has(text, part), part);
  CHECK(has(gpus_listed({"h100nvl mig 1g.12gb"}).out, "1g.12gb"));
  const outcome none = gpus_listed({"h900"});
  CHECK(none.status == 2);
  CHECK(has(none.err, "the nearest is"));
}

TEST_CASE("what was measured stands beside the data sheet") {
  const json rows = gpu_rows({"--measured", GPUPLAN_MEASURED_DEVICE});
  bool is_there = false;
  for (const json& row : rows)
    if (row["what"] == "products in bf16, sustained") {
      is_there = true;
      CHECK(row["measured"].get<double>() == doctest::Approx(665).epsilon(0.01));
      CHECK(row["data_sheet"].get<double>() == doctest::Approx(989).epsilon(0.01));
      CHECK(row["share_percent"].get<double>() == doctest::Approx(67.2).epsilon(0.01));
    }
  CHECK(is_there);
  const temporary_file broken("{}");
  CHECK(has(gpus_listed({"--measured", broken.name()}).err, "--measured "));
  CHECK(gpus_listed({"--measured", broken.name()}).status == 2);
  CHECK(gpus_listed({"4090,a6000", "--measured", GPUPLAN_MEASURED_DEVICE}).status == 2);
  CHECK(has(gpus_listed({"4090", "--measured", GPUPLAN_MEASURED_DEVICE}).err, "not of rtx_4090"));
  CHECK(gpus_listed({"--systems", "--measured", GPUPLAN_MEASURED_DEVICE}).status == 2);
}

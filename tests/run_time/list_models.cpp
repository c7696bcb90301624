#include <gpuplan/catalog/models.hpp>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"

namespace {

using nlohmann::json;

outcome listed(const std::vector<std::string>& arguments) {
  return output_of_command("models", arguments);
}
json rows_of(const std::vector<std::string>& arguments) { return json_answer(listed, arguments); }

}  // namespace

TEST_CASE("the catalogue is listed, with published numbers that agree") {
  const json rows = rows_of({});
  REQUIRE(rows.size() == std::size(gpuplan::catalog::models));
  for (const json& row : rows) {
    CAPTURE(row.dump());
    CHECK(row.size() == 10);
    if (row["published"].is_null() || row["parameters"].is_null()) continue;
    CHECK(row["published"].get<std::int64_t>() - row["published_extra"].get<std::int64_t>() ==
          row["parameters"].get<std::int64_t>());
  }
  CHECK(has(listed({}).out, "7,541,237,184  7.54 B"));
  CHECK(has(listed({"--format", "csv"}).out,
            "model,kind,layers,hidden_size,parameters,active,published,"));
  CHECK(has(listed({"--format", "markdown"}).out, "| openvla-7b | 3 parts |"));
}

TEST_CASE("a part of a name, or a kind, is asked for") {
  for (const json& row : rows_of({"qwen3"}))
    CHECK(row["model"].get<std::string>().starts_with("qwen3"));
  CHECK(rows_of({"Llama-3.1-8B-Instruct"}).size() == 1);
  CHECK(has(listed({"llama3"}).out, "llama-3.1-8b"));  // whatever marks are between
  CHECK(has(listed({"llama", "3"}).out, "llama-3.1-8b"));
  const json vision = rows_of({"--kind", "vision"});
  CHECK(!vision.empty());
  for (const json& row : vision) CHECK(row["kind"] == "vision encoder");
  CHECK(has(listed({"gpt9"}).err, "the catalogue has no model gpt9; the nearest is"));
  CHECK(listed({"gpt2", "--kind", "vision"}).status == 2);
}

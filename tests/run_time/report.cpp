#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "report/findings.hpp"
#include "temporary_file.hpp"

using namespace gpuplan;

namespace {

outcome reported(const std::vector<std::string>& arguments) {
  return output_of_command("report", arguments);
}

const std::vector<std::string> two_stages{"llama-3-8b",
                                          "--framework",
                                          "megatron-te",
                                          "--gpus",
                                          "8",
                                          "--batch",
                                          "32",
                                          "--pipeline-parallel",
                                          "2",
                                          "--virtual-pipeline",
                                          "1",
                                          "--tensor-parallel",
                                          "1-4",
                                          "--tokens",
                                          "1e9",
                                          "--price",
                                          "2"};

std::vector<std::string> two_stages_and(const std::vector<std::string>& more) {
  std::vector<std::string> all = two_stages;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("a report is one file that asks nobody for anything") {
  const temporary_file page("", "report.html");
  const std::filesystem::path folder = page.name() + ".pictures";
  const outcome o = reported(two_stages_and({"-o", page.name(), "--svg", folder.string()}));
  INFO(o.err);
  REQUIRE(o.status == 0);
  const std::string html = page.text();
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(html.ends_with("</html>\n"));
  for (const char* section : {"plans",
                              "step",
                              "memory",
                              "stages",
                              "schedule",
                              "money",
                              "scaling",
                              "request",
                              "assumptions"})
    CHECK_MESSAGE(has(html, "<section id=\"" + std::string(section) + "\">"), section);
  for (const char* none : {"<script", "<link", "<img", "src=", "@import", "url(", "nan<", ">inf"})
    CHECK_MESSAGE(!has(html, none), none);
  // The only addresses are the name of SVG's language, and places in the page.
  for (std::size_t at = html.find("http"); at != std::string::npos; at = html.find("http", at + 1))
    CHECK((html.substr(at, 26) == "http://www.w3.org/2000/svg" ||
           html.substr(at, 10) == "http-equiv"));
  std::size_t pictures = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path());
    const std::string svg{std::istreambuf_iterator<char>(in), {}};
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(has(html, svg));
    CHECK(has(o.out, file.path().string()));
    ++pictures;
  }
  CHECK(pictures == 6);
  std::filesystem::remove_all(folder);
}

TEST_CASE("without a run there is no money, and on one GPU no schedule") {
  const temporary_file page("");
  REQUIRE(reported({"gpt2", "--gpus", "1", "--batch", "8", "-o", page.name()}).status == 0);
  const std::string html = page.text();
  for (const char* none : {"id=\"money\"", "id=\"schedule\"", "id=\"scaling\"", "dollars</dt>"})
    CHECK_MESSAGE(!has(html, none), none);
  CHECK(has(html, "Memory of a GPU"));
}

TEST_CASE("an assumption that timed steps changed is of them") {
  const auto step = [](const char* gpus, const char* micro_batch) {
    return json_answer([](const auto& words) { return output_of_command("time", words); },
                       {"gpt2",
                        "--gpu",
                        "a100-sxm",
                        "--gpus",
                        gpus,
                        "--micro-batch",
                        micro_batch})[0]["step_s"]
        .get<double>();
  };
  std::string table = "model,gpu,gpus,micro_batch,step_s\n";
  for (const char* gpus : {"1", "2"})
    for (const char* micro_batch : {"1", "8"})
      table += std::string("gpt2,a100-sxm,") + gpus + ',' + micro_batch + ',' +
               std::to_string(1.03 * step(gpus, micro_batch)) + '\n';
  const temporary_file steps(table);
  const temporary_file page("");
  const auto assumptions = [&](const std::vector<std::string>& more) {
    std::vector<std::string> asked{
        "gpt2", "--gpu", "a100-sxm", "--gpus", "2", "--batch", "16", "-o", page.name()};
    asked.insert(asked.end(), more.begin(), more.end());
    const outcome o = reported(asked);
    REQUIRE_MESSAGE(o.status == 0, o.err);
    const std::string html = page.text();
    std::map<std::string, std::pair<std::string, std::string>> rows;  // values and origins
    const std::regex row("<tr><th[^>]*>([^<]*)</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>");
    const auto begin =
        html.begin() + static_cast<std::ptrdiff_t>(html.find("<section id=\"assumptions\">"));
    for (std::sregex_iterator at(begin, html.end(), row), end; at != end; ++at)
      rows[(*at)[1]] = {(*at)[2], (*at)[3]};
    return rows;
  };
  const auto before = assumptions({});
  const auto after = assumptions({"--timed-steps", steps.name()});
  REQUIRE(after.contains("a GPU's link inside its node"));
  int moved = 0;
  for (const auto& [what, is] : after) {
    CAPTURE(what);
    const bool is_theirs = is.second.starts_with("timed steps of ");
    if (is.first != before.at(what).first) CHECK(is_theirs);
    if (is.first != before.at(what).first) ++moved;
    CHECK(is.second != "stated");
  }
  CHECK(moved >= 2);
}

TEST_CASE("energy and CO2 of a run are those of its power and grid") {
  const temporary_file page("");
  const auto page_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> asked{"gpt2", "--gpus", "1", "--batch", "8", "-o", page.name()};
    asked.insert(asked.end(), more.begin(), more.end());
    REQUIRE(reported(asked).status == 0);
    return page.text();
  };
  const std::string run = page_with({"--tokens", "1e9", "--power", "500", "--carbon", "2000"});
  const auto number_behind = [&](const std::string& key) {
    const std::string begin = "<dt>" + key + "</dt><dd>";
    const std::size_t at = run.find(begin);
    REQUIRE(at != std::string::npos);
    return std::stod(run.substr(at + begin.size()));
  };
  CHECK(number_behind("kWh") == doctest::Approx(number_behind("GPU-hours") / 2).epsilon(0.02));
  CHECK(number_behind("kg CO2") == doctest::Approx(number_behind("GPU-hours")).epsilon(0.02));
  for (const char* part : {">kWh</th>",
                           ">kg CO2</th>",
                           "a GPU draws</th><td class=\"short\">500 W</td>",
                           "a kWh emits</th><td class=\"short\">2000 g of CO2</td>"})
    CHECK_MESSAGE(has(run, part), part);
  const std::string without_grid = page_with({"--tokens", "1e9"});
  CHECK(has(without_grid, "<dt>kWh</dt>"));
  CHECK(has(without_grid, "draws of its TDP; without host and cooling"));
  CHECK(!has(without_grid, "CO2"));
  CHECK(!has(page_with({"--power", "500", "--carbon", "2000"}), "CO2"));
}

TEST_CASE("the front has the runs that no other beats in both") {
  plan_program::arguments given{};
  given.setup.model.text = "llama-3-8b";
  given.setup.framework = "torchtitan";
  given.clusters.gpus = {"h100_sxm5_80gb"};
  given.batch = gpuplan::range<std::int64_t>(64);
  given.run.tokens = 1e9;
  given.clusters.price = {3};
  const report_program::findings found = report_program::find(given, plan_goal::least_time, 2);
  REQUIRE(found.counts.size() >= 2);
  int on_front = 0;
  for (const auto& one : found.counts) {
    bool is_beaten = false;
    for (const auto& other : found.counts)
      is_beaten = is_beaten || (other.is.run->time < one.is.run->time &&
                                *other.is.run->cost < *one.is.run->cost);
    if (one.is_on_front) CHECK(!is_beaten);
    on_front += one.is_on_front ? 1 : 0;
  }
  CHECK(on_front >= 1);
  double parts = 0;
  for (const plan_program::step_part& part : plan_program::step_parts())
    parts += (found.best().parts.*part.time).value();
  CHECK(parts == doctest::Approx(found.best().plan->step.value()));
  double most = 0;
  for (const memory_breakdown& stage : found.stages) most = std::max(most, stage.total().value());
  CHECK(most == found.best().plan->required.value());
}

TEST_CASE("a report that cannot be is refused") {
  const temporary_file page("before");
  CHECK(reported({"gpt2", "--batch", "8"}).status == 2);
  const outcome o = reported({"gpt3-175b",
                              "--framework",
                              "megatron-te",
                              "--gpus",
                              "1",
                              "--batch",
                              "8",
                              "-o",
                              page.name()});
  CHECK(o.status == 2);
  CHECK(has(o.err, "gpuplan plan with the same options"));
  CHECK(page.text() == "before");
}

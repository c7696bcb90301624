// Choices between plans and the terms of the time model, on rows whose times are made up from it.

#include "plan_choice.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "check.hpp"
#include "csv.hpp"
#include "files.hpp"
#include "time_parameters.hpp"

using namespace accuracy;

namespace {

// The rows of the file, each as long as the model says.
std::vector<timed_row> predicted_rows() {
  std::vector<timed_row> rows = timed_rows({read_csv(data("timed_runs.csv"))});
  for (timed_row& row : rows) row.seconds = row.model.step(row.batch).value();
  return rows;
}

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

}  // namespace

TEST_CASE("errors in percent, their mean and median") {
  CHECK(near(percent_of_log(std::log(1.25)), 25));
  CHECK(near(percent_of_log(std::log(0.8)), 20));
  const error_size size = size_of({std::log(1.1), std::log(0.98), std::log(1.03)});
  CHECK(size.rows == 3);
  CHECK(near(size.mean, 5));
  CHECK(near(size.median, 3));
  CHECK(size_of({}).rows == 0);
}

TEST_CASE("where the model is right nothing is lost") {
  const auto choices = plan_choices(predicted_rows());
  // vTrain: three plans of one model, two of another
  REQUIRE(choices.size() == 2);
  std::vector<std::size_t> plans{choices[0].plans, choices[1].plans};
  std::sort(plans.begin(), plans.end());
  CHECK((plans[0] == 2 && plans[1] == 3));
  for (const plan_choice& one : choices) {
    CHECK(one.source == "vtrain_multi");
    CHECK(one.regret == 0);
    CHECK(one.chosen == one.fastest);
  }
}

TEST_CASE("the regret is what the chosen plan took beyond the fastest") {
  std::vector<timed_row> rows = predicted_rows();
  // The one that is predicted to be the fastest took 30 % longer than the slowest did, and each
  // other plan as long as the slowest.
  double slowest = 0;
  for (const timed_row& row : rows)
    if (row.question == rows[0].question) slowest = std::max(slowest, row.seconds);
  const auto fastest =
      std::min_element(rows.begin(), rows.begin() + 3, [](const auto& a, const auto& b) {
        return a.seconds < b.seconds;
      });
  for (timed_row& row : rows)
    if (row.question == rows[0].question) row.seconds = slowest;
  fastest->seconds = 1.3 * slowest;
  const auto choices = plan_choices(rows);
  const auto changed = std::find_if(choices.begin(), choices.end(), [&](const plan_choice& one) {
    return one.question == rows[0].question;
  });
  REQUIRE(changed != choices.end());
  CHECK(changed->chosen == fastest->plan);
  CHECK(near(changed->regret, 30));
}

TEST_CASE("runs of one plan count as one") {
  std::vector<timed_row> rows = predicted_rows();
  const std::size_t before = plan_choices(rows).size();
  rows.push_back(rows[0]);
  const auto choices = plan_choices(rows);
  CHECK(choices.size() == before);
  for (const plan_choice& one : choices) CHECK(one.plans <= 3);
}

TEST_CASE("without a term, rows that have it are off and others are not") {
  const auto table = ablation(predicted_rows());
  CHECK(table.size() % (time_terms_by_name().size() + 1) == 0);
  const auto error = [&](const std::string& term, const std::string& source) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const term_error& one) {
      return one.term == term && one.source == source;
    });
    REQUIRE(found != table.end());
    return found->size.mean;
  };
  for (const std::string source : {"vtrain_multi", "torchtitan", "nemo_megatron_bridge"})
    CHECK(error("none", source) == 0);
  CHECK(error("none", "all") == 0);
  CHECK(error("recompute", "all") > 0);
  CHECK(error("none", "regret") == 0);
  CHECK(error("recompute", "vtrain_multi") > 5);
  CHECK(error("recompute", "vtrain_single") == 0);
  CHECK(error("tensor_communication", "vtrain_multi") > 1);
  CHECK(error("tensor_communication", "llm_foundry_mpt") == 0);
  CHECK(error("expert_communication", "nemo_megatron_bridge") > 0.1);
  CHECK(error("expert_communication", "torchtitan") == 0);
  CHECK(error("bubble", "llm_foundry_mpt") == 0);
  CHECK(error("bubble", "torchtitan") > 1);
}

TEST_CASE("parameters are read and written by name, within what is possible") {
  const auto rows = predicted_rows();
  for (const time_parameter& what : time_parameters()) {
    CAPTURE(what.name);
    gpuplan::roofline_time model = rows[0].model;
    what.set(model, what.high);
    CHECK(what.get(model) == what.high);
    CHECK(what.low < what.high);
    CHECK(!owner_name(model, what.owner).empty());
  }
}

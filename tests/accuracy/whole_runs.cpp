// Whole runs: from model, tokens and GPUs to GPU-hours, days and energy.

#include "whole_runs.hpp"

#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"
#include "summary.hpp"

using namespace accuracy;

namespace {

constexpr const char* columns =
    "id,year,params_active,layers,hidden,heads,kv_heads,ffn,gated_mlp,vocab,experts,seq_len,tokens,"
    "global_batch_tokens,gpu,gpus,framework,precision,gpu_hours,days,energy_MWh,pue,"
    "what_hours_count,notes\n";
constexpr const char* llama_2_7b =
    "2023,6738000000,32,4096,32,32,11008,yes,32000,,4096,2000000000000,4000000,a100_sxm4_80gb,";

file_comparison compared(const std::string& rows) {
  const short_file file(columns + rows, "whole_runs");
  const std::vector<csv_file> files{read_csv(file.path())};
  const auto found = compare(files, {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "whole runs");
  return found[0];
}
double predicted(const file_comparison& file, quantity what) {
  for (const comparison& one : file.comparisons)
    if (one.what == what) {
      REQUIRE_MESSAGE(one.predicted.value.has_value(), one.predicted.why_not);
      return one.predicted.value->value();
    }
  FAIL("it is not predicted");
  return 0;
}
std::string refusal_of(const std::string& row) {
  const auto file = compared(row);
  REQUIRE(file.comparisons.size() == 3);
  CHECK(!file.comparisons[0].predicted.value);
  return file.comparisons[0].predicted.why_not;
}

}  // namespace

TEST_CASE("hours, days and energy of a run follow from one another, and each has its range") {
  const auto file =
      compared(std::string("a,") + llama_2_7b + "256,,bf16,184320,30,80,1.1,pretraining,\n");
  CHECK(file.comparisons.size() == 9);
  const double hours = predicted(file, quantity::gpu_hours);
  CHECK(hours > 130'000);
  CHECK(hours < 250'000);
  CHECK(predicted(file, quantity::gpu_hours_low) < hours);
  CHECK(predicted(file, quantity::gpu_hours_high) > hours);
  CHECK(predicted(file, quantity::days) == doctest::Approx(hours / 256 / 24));
  // A device that computes draws 97 % of its TDP, and less while it waits.
  const double drawn = predicted(file, quantity::energy) / (hours * 400 * 1.1 / 1e6);
  CHECK(drawn > 0.85);
  CHECK(drawn < 0.97);
  CHECK(count_ranges(file, quantity::gpu_hours).rows == 1);
  CHECK(count_ranges(file, quantity::gpu_hours).held == 1);
}

TEST_CASE("runs of other sources say what a source's own took over the plan") {
  const std::string with_source = std::string(columns).substr(0, std::string(columns).size() - 1);
  const auto row = [&](const std::string& id, double hours, const char* source) {
    return id + "," + llama_2_7b + "256,,bf16," + std::to_string(hours) + ",,,,pretraining,," +
           source + "\n";
  };
  const double plan =
      predicted(compared(std::string("a,") + llama_2_7b + "256,,bf16,1,,,,pretraining,\n"),
                quantity::gpu_hours);
  std::string rows = with_source + ",source\n" + row("own", 3 * plan, "a@1");
  rows += row("too", 5 * plan, "a@2");
  for (const double times : {0.5, 0.8, 1.5, 2.0, 2.5})
    rows += row("b" + std::to_string(times), times * plan, "b");
  const short_file file(rows, "whole_runs");
  const std::vector<csv_file> files{read_csv(file.path())};
  const auto left_out = compare(files, {.leaves_out = true});
  const auto of = [&](std::size_t at) {
    return left_out[0].comparisons[at].predicted.value->value() / plan;
  };
  // The middle, the least and the largest of five; of the others there are but two, too few.
  CHECK(of(0) == doctest::Approx(1.5).epsilon(1e-3));
  CHECK(of(1) == doctest::Approx(0.5).epsilon(1e-3));
  CHECK(of(2) == doctest::Approx(2.5).epsilon(1e-3));
  CHECK(of(6) == doctest::Approx(1).epsilon(1e-3));
}

TEST_CASE("twice the tokens take twice the hours, and what hours leave out is left out") {
  const auto hours = [](const std::string& row) {
    return predicted(compared(row), quantity::gpu_hours);
  };
  const std::string shape = "2023,6738000000,32,4096,32,32,11008,yes,32000,,4096,";
  const std::string rest = ",4000000,a100_sxm4_80gb,256,,bf16,1,,,,";
  const double once = hours("a," + shape + "1000000000000" + rest + "steps x step time,\n");
  const double twice = hours("a," + shape + "2000000000000" + rest + "steps x step time,\n");
  CHECK(twice == doctest::Approx(2 * once).epsilon(1e-3));
  const double with_failures = hours("a," + shape + "1000000000000" + rest + "pretraining,\n");
  CHECK(with_failures > once);
  CHECK(with_failures < 1.2 * once);
}

TEST_CASE("a run without a shape is taken as the model nearest in size") {
  const auto file =
      compared("a,2024,7000000000,,,,,,,,,,1e12,,a100_sxm4_80gb,,,,100000,,,,pretraining,\n");
  const double hours = predicted(file, quantity::gpu_hours);
  // Between all and a tenth of the dense peak.
  const double least = 6 * 7e9 * 1e12 / 312e12 / 3600;
  CHECK(hours > least);
  CHECK(hours < 10 * least);
}

TEST_CASE("what is not stated, and what is no number, is said or taken as usual") {
  CHECK(refusal_of("a,2023,7e9,,,,,,,,,,,,a100_sxm4_80gb,,,,1,,,,,\n") ==
        "its tokens are not stated");
  CHECK(refusal_of("a,2023,,,,,,,,,,,1e12,,a100_sxm4_80gb,,,,1,,,,,\n") ==
        "its parameters are not stated");
  CHECK(refusal_of("a,2023,7e9,,,,,,,,,,1e12,,other:TPU v3,,,,1,,,,,\n")
            .starts_with("the catalogue has no GPU of this name"));
  CHECK(refusal_of("a,2023,nan,,,,,,,,,,1e12,,a100_sxm4_80gb,,,,1,,,,,\n") ==
        "its parameters are not stated");
  CHECK(refusal_of("a,2023,7e9,,,,,,,,,,-1,,a100_sxm4_80gb,,,,1,,,,,\n") ==
        "its tokens are not stated");
  const auto odd =
      compared("a,2024,7e9,x,-1,0,,,,,16,many,1e12,4096 images,a100_sxm4_80gb,~200,,?,1,,,0,,\n");
  CHECK(predicted(odd, quantity::gpu_hours) > 0);
  CHECK(compared("a,2024,7e9,,,,,,,,,,1e12,,a100_sxm4_80gb,,,,,,,,,\n").comparisons.empty());
  CHECK(refusal_of("a,2024,7e9,,,,,,,,,4096,1e12,1e25,a100_sxm4_80gb,,,,1,,,,,\n") ==
        "no run has so many GPUs, tokens or samples");
  // What a row states is predicted or refused, each with its sentence.
  const auto all = compared("a,2024,7e9,,,,,,,,,,,,a100_sxm4_80gb,64,,,1,1,1,,,\n");
  CHECK(all.comparisons.size() == 9);
  for (const comparison& one : all.comparisons)
    CHECK(one.predicted.why_not == "its tokens are not stated");
  const auto without_gpus = compared("a,2024,7e9,,,,,,,,,,1e12,,a100_sxm4_80gb,,,,,1,,,,\n");
  CHECK(without_gpus.comparisons.size() == 1);
  CHECK(without_gpus.comparisons[0].predicted.why_not == "its GPUs are not stated");
}

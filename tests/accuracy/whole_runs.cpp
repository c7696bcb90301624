// Whole runs: from model, tokens and GPUs to GPU-hours, days and energy.

#include "whole_runs.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>

#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"
#include "summary.hpp"
#include "whole_run_setups.hpp"

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

// Of one row, a100 unless it says otherwise.
run_setup described(const std::string& columns_of_row, const std::string& cells) {
  const short_file file(columns_of_row + "\n" + cells + "\n", "whole_runs");
  const csv_file rows = read_csv(file.path());
  const row one(rows, rows.rows.front());
  return describe_run_setup(one, true);
}
whole_run asked(const std::string& columns_of_row, const std::string& cells) {
  const short_file file(columns_of_row + "\n" + cells + "\n", "whole_runs");
  const csv_file rows = read_csv(file.path());
  return describe_whole_run(row(rows, rows.rows.front()));
}

}  // namespace

TEST_CASE(
    "a mixture of experts is one, by its name, by its notes, by its columns or by its totals") {
  const auto is_deepseek_v3 = [](const gpuplan::transformer& model) {
    CHECK(model.moe.num_experts == 256);
    CHECK(model.moe.num_experts_per_tok == 8);
    CHECK(model.moe.first_k_dense_layers == 3);
    CHECK(model.mla.kv_lora_rank == 512);
  };
  const auto named = described("model,params_total,params_active",
                               "DeepSeek-V3 671B-A37B,671000000000,37000000000");
  is_deepseek_v3(named.setup.model);
  CHECK(named.work == 1);
  is_deepseek_v3(described("params_active,layers,hidden,heads,vocab,ffn,notes",
                           "37e9,61,7168,128,129280,18432,arch: gpuplan catalogue deepseek-v3")
                     .setup.model);
  // A name of other parameters is another model.
  CHECK(described("model,params_total,params_active", "DeepSeek-V3 small,7e9,7e9")
            .setup.model.moe.num_experts == 0);

  const auto stated = described(
      "params_total,params_active,layers,hidden,heads,kv_heads,ffn,gated_mlp,vocab,experts,"
      "experts_per_token,expert_ffn",
      "4e9,1e9,16,2048,16,16,,yes,50304,64,8+2,1024");
  CHECK(stated.setup.model.moe.num_experts == 64);
  CHECK(stated.setup.model.moe.num_experts_per_tok == 8);
  CHECK(stated.setup.model.moe.moe_intermediate_size == 1024);
  CHECK(stated.setup.model.moe.shared_expert_intermediate_size == 2048);
  CHECK(stated.space.expert_parallel);

  // Nothing but totals: 109 billion parameters, of which a token uses 17.
  const auto totals =
      described("params_total,params_active,experts,experts_per_token", "109e9,17e9,16,1+shared");
  const auto counted = gpuplan::parameters(totals.setup.model);
  CHECK(totals.setup.model.moe.num_experts == 16);
  CHECK(static_cast<double>(counted.total()) == doctest::Approx(109e9).epsilon(0.03));
  CHECK(static_cast<double>(counted.active()) * totals.work == doctest::Approx(17e9));
  CHECK(totals.work == doctest::Approx(1).epsilon(0.2));
}

TEST_CASE("the software is the row's, else that of its year") {
  const auto of = [](const std::string& framework, const std::string& year) {
    return described("params_active,year,framework,gated_mlp",
                     "6738000000," + year + "," + framework + ",yes");
  };
  using gpuplan::attention_kernel;
  using gpuplan::recompute_mode;
  CHECK(of("", "2024").setup.attention == attention_kernel::flash);
  CHECK(of("", "2024").setup.recompute == recompute_mode::none);
  CHECK(of("", "2024").space.recompute);
  CHECK(of("", "2022").setup.attention == attention_kernel::eager);
  CHECK(of("", "2022").setup.recompute == recompute_mode::full);
  CHECK(!of("", "2022").space.recompute);
  CHECK(of("GPT-NeoX", "2023").setup.recompute == recompute_mode::full);
  CHECK(of("GPT-NeoX", "2023").setup.attention == attention_kernel::flash);
  const auto fsdp = of("Composer FSDP", "2023");
  CHECK(fsdp.setup.parallelism.zero_stage == 3);
  CHECK(!fsdp.space.tensor_parallel);
  // Metaseq's is within Megatron's ranks.
  CHECK(of("metaseq (FSDP + Megatron TP)", "2022").space.tensor_parallel);
  CHECK(of("llm.c", "2024").setup.framework.costs.host_per_operator <
        of("", "2024").setup.framework.costs.host_per_operator);
  CHECK(of("", "2023").setup.sequence_length == 2048);
  CHECK(of("", "2024").setup.sequence_length == 4096);
}

TEST_CASE("GPUs that nobody states are as many as take some weeks") {
  const auto gpus = [](const std::string& tokens, const std::string& stated) {
    return total_gpus(asked("year,params_active,tokens,gpu,gpus",
                            "2024,8e9," + tokens + ",h100_sxm5_80gb," + stated)
                          .asked.on);
  };
  CHECK(gpus("15e12", "96") == 96);
  const auto usual = gpus("15e12", "");
  CHECK(gpus("60e12", "") == 4 * usual);
  CHECK(gpus("1e9", "") < usual);
  // 6 x 8e9 x 15e12 FLOP at 396 TFLOP/s of each.
  const double weeks = 6 * 8e9 * 15e12 / (0.4 * 989.4e12) / static_cast<double>(usual) / 604800;
  CHECK(weeks > 2.5);
  CHECK(weeks < 7.1);
}

TEST_CASE("hours of a calendar, of training and of steps are three") {
  const auto counts = [](const std::string& words) {
    return asked("params_active,tokens,gpu,what_hours_count", "8e9,1e12,a100_sxm4_80gb," + words)
        .counts;
  };
  CHECK(counts("steps x step time (no eval)") == run_hours::steps);
  CHECK(counts("derived from throughput") == run_hours::steps);
  CHECK(counts("ideal training time; calendar about 56 days") == run_hours::steps);
  CHECK(counts("rounded calendar") == run_hours::calendar);
  CHECK(counts("pretraining only") == run_hours::training);
  CHECK(counts("") == run_hours::training);
}

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

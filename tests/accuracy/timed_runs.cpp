// Rows of published runs as setups, plans and clusters, and the time that follows.

#include "timed_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"
#include "timed_rows.hpp"

using namespace accuracy;

namespace {

std::map<std::string, timed_run> described_data() {
  const csv_file file = read_csv(data("timed_runs.csv"));
  std::map<std::string, timed_run> runs;
  for (const csv_file::row_of_cells& cells : file.rows) {
    const row source(file, cells);
    runs[std::string(source.text("id"))] = describe_timed_run(source);
  }
  return runs;
}

// The first row of the file, with other cells in some columns.
timed_run changed(const std::vector<std::pair<std::string, std::string>>& cells) {
  csv_file file = read_csv(data("timed_runs.csv"));
  for (const auto& [column, text] : cells) file.rows[0].cells[file.places.at(column)] = text;
  return describe_timed_run(row(file, file.rows[0]));
}

double GBps(const gpuplan::known<gpuplan::bandwidth>& rate) { return rate->value() / 1e9; }

}  // namespace

TEST_CASE("what a row says is what is described") {
  const auto runs = described_data();
  for (const auto& row : runs) {  // clang 14 captures no structured binding
    const timed_run& run = row.second;
    CAPTURE(row.first);
    CHECK(run.why_not == "");
  }
  const timed_run& multi = runs.at("vtrain_multi_0033");
  CHECK(multi.setup.parallelism.tensor_parallel == 4);
  CHECK(multi.setup.parallelism.pipeline_parallel == 2);
  CHECK(multi.plan == gpuplan::batch_plan{2, 32, 16});
  CHECK(multi.setup.recompute == gpuplan::recompute_mode::full);
  CHECK((multi.on.nodes == 32 && multi.on.gpus_per_node == 8));
  CHECK(GBps(multi.on.between_nodes) == 100);
  CHECK(runs.at("vtrain_single_0001").setup.model.vocab_size == 50257);
  CHECK(runs.at("vtrain_single_0001").setup.recompute == gpuplan::recompute_mode::none);
  CHECK(runs.at("llm_foundry_mpt_0078").setup.precision.reduced == gpuplan::number_format::bf16);
  CHECK(runs.at("bigscience_0106").setup.model.vocab_size == 250880);
  CHECK(runs.at("megascale_0007").setup.model.parallel_attention);
  CHECK(runs.at("megascale_0007").setup.parallelism.virtual_pipeline == 6);
  CHECK(runs.at("simumax_b200_0006").setup.parallelism.expert_parallel == 8);
}

TEST_CASE("what rows do not print") {
  const auto runs = described_data();
  // 15 layers a stage: the fewest chunks of an interleaved schedule are 3.
  CHECK(runs.at("megatron_2021_0006").setup.parallelism.virtual_pipeline == 3);
  const timed_run& interleaved = runs.at("torchtitan_0014");
  CHECK(interleaved.setup.parallelism.virtual_pipeline == 2);
  CHECK(interleaved.plan == gpuplan::batch_plan{4, 8, 8});
  const timed_run& slow_memory = runs.at("torchtitan_0001");
  CHECK(slow_memory.on.gpu.memory_bandwidth.value() == 2.4e12);
  CHECK(slow_memory.on.gpu.tdp->value() == 500);
  CHECK(!slow_memory.setup.precision.fp8_linears);
  CHECK(runs.at("torchtitan_0004").setup.precision.fp8_linears);
  CHECK(GBps(runs.at("torchtitan_0034").on.between_nodes) == 200);
  // 256 GPUs in domains of 72: four of 64 each.
  const timed_run& domains = runs.at("nemo_megatron_bridge_0001");
  CHECK((domains.on.nodes == 4 && domains.on.gpus_per_node == 64));
  CHECK(GBps(domains.on.between_nodes) == 6400);
  CHECK(domains.setup.model.mtp_layers == 1);
  CHECK(runs.at("nemo_megatron_bridge_0116").setup.precision.fp4_linears);
  CHECK(!runs.at("nemo_megatron_bridge_0116").on.between_nodes);
  CHECK(runs.at("nemo_megatron_bridge_0086").setup.model.sliding_window == 128);
}

TEST_CASE("rows that cannot be described say why") {
  CHECK(changed({}).why_not.empty());
  CHECK(changed({{"layers", ""}}).why_not == "its model's dimensions are blank");
  CHECK(changed({{"dp", ""}, {"tp", ""}}).why_not == "its layout is not stated");
  CHECK(changed({{"dp", "16"}}).why_not ==
        "its degrees of parallelism do not multiply to its GPUs");
  CHECK(changed({{"grad_accum", "7"}}).why_not ==
        "micro-batch, accumulation and data-parallel size do not multiply to its batch");
  CHECK(changed({{"grad_accum", ""}, {"global_batch", ""}}).why_not == "its batch is not stated");
  CHECK(!changed({{"gpu", "abacus"}}).why_not.empty());
  CHECK(!changed({{"micro_batch", "0"}}).why_not.empty());
}

TEST_CASE("a row that nobody described is read by its columns") {
  const auto nearest = [](std::vector<std::pair<std::string, std::string>> cells) {
    cells.emplace_back("source", "a_friend");
    return changed(cells);
  };
  const timed_run divided = nearest({});
  CHECK(divided.why_not == "");
  CHECK(divided.setup.framework.layers().is_pipelined);
  CHECK(!divided.setup.framework.costs.timed);
  // 8 GPUs of one node, by ZeRO-3 and without
  std::vector<std::pair<std::string, std::string>> alone{{"gpus", "8"},
                                                         {"dp", "8"},
                                                         {"tp", "1"},
                                                         {"pp", "1"},
                                                         {"zero_stage", "3"},
                                                         {"grad_accum", "1"},
                                                         {"global_batch", ""},
                                                         {"grad_bytes", "4"}};
  const timed_run sharded = nearest(alone);
  CHECK(sharded.why_not == "");
  CHECK(sharded.setup.framework.engine.is == &gpuplan::engine_classes::fsdp2);
  CHECK(sharded.setup.precision.autocast());
  alone[4].second = "0";
  CHECK(nearest(alone).setup.framework.engine.is == &gpuplan::engine_classes::ddp);
  // Where no batch is printed, tokens of a second are those of a step of the run's own.
  std::vector<std::pair<std::string, std::string>> rate{
      {"grad_accum", ""}, {"global_batch", ""}, {"step_s", ""}, {"tokens_per_s_per_gpu", "1000"}};
  CHECK(nearest(rate).why_not == "");
}

TEST_CASE("the time of a step comes from seconds or from tokens") {
  csv_file file = read_csv(data("timed_runs.csv"));
  auto& cells = file.rows[0].cells;
  const row source(file, file.rows[0]);
  CHECK(measured_step(source) == 9.9276);
  cells[file.places.at("step_s")] = "";
  CHECK(!measured_step(source));
  // 1,024 sequences of 2,048 tokens on 256 GPUs
  cells[file.places.at("tokens_per_s_per_gpu")] = "1024";
  CHECK(measured_step(source) == 8);
}

TEST_CASE("step time, throughput and MFU come of one prediction") {
  const csv_file file = read_csv(data("timed_runs.csv"));
  std::map<std::string, std::map<quantity, double>> predicted;
  std::map<std::string, std::map<quantity, double>> measured;
  const auto compared = compare({file}, {.time_only = true});
  for (const comparison& one : compared.front().comparisons) {
    CAPTURE(one.id);
    CAPTURE(one.predicted.why_not);
    REQUIRE(one.predicted.value);
    predicted[one.id][one.what] = one.predicted.value->value();
    measured[one.id][one.what] = one.measured.value();
  }
  CHECK(predicted.size() == file.rows.size());
  std::size_t several = 0;
  for (auto& row : predicted) {
    const std::string& id = row.first;
    auto& of = row.second;
    CAPTURE(id);
    CHECK(of.at(quantity::step_time) > 0);
    for (const quantity other : {quantity::throughput, quantity::step_mfu}) {
      if (!of.contains(other)) continue;
      // What is as fast as was measured has the rate that was measured, as far as that is printed.
      const double slower = of.at(quantity::step_time) / measured[id][quantity::step_time];
      const double rate = of.at(other) / measured[id][other];
      CHECK(std::abs(rate * slower - 1) < (other == quantity::step_mfu ? 0.01 : 1e-3));
      ++several;
    }
  }
  CHECK(several > 8);
}

TEST_CASE("a cell is unseen as a whole, and a quarter of many are") {
  csv_file file = read_csv(data("timed_runs.csv"));
  std::size_t unseen = 0;
  for (int width = 1; width <= 1000; ++width) {
    file.rows[0].cells[file.places.at("hidden")] = std::to_string(8 * width);
    const row source(file, file.rows[0]);
    const bool was = is_unseen(source);
    file.rows[0].cells[file.places.at("pp")] = "7";
    CHECK(is_unseen(source) == was);
    file.rows[0].cells[file.places.at("pp")] = "1";
    unseen += was ? 1 : 0;
  }
  CHECK((unseen > 200 && unseen < 300));
  const auto comparisons = [](std::optional<bool> of) {
    const csv_file all = read_csv(data("timed_runs.csv"));
    return compare({all}, {.time_only = true, .unseen = of}).front().comparisons.size();
  };
  CHECK(comparisons(true) + comparisons(false) == comparisons({}));
  CHECK(comparisons(true) > 0);
}

TEST_CASE("flagged rows do not count, and repeats are one row with the mean of their times") {
  csv_file file = read_csv(data("timed_runs.csv"));
  file.rows.resize(3);
  const std::size_t notes = file.places.at("notes");
  const std::size_t step = file.places.at("step_s");
  file.rows[1] = file.rows[0];
  file.rows[0].cells[notes] = "repeat 1/2 of a";
  file.rows[1].cells[notes] = "repeat 2/2 of a";
  file.rows[0].cells[step] = "9";
  file.rows[1].cells[step] = "10";
  const auto rows = timed_rows({file});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].seconds == 9.5);
  file.rows[2].cells[notes] = "flag=no";
  CHECK(timed_rows({file}).size() == 1);
}

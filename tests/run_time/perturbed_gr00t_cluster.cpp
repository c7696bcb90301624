#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "check.hpp"
#include "guides/gr00t_cluster.hpp"
#include "guides/gr00t_cluster/tables.hpp"

using namespace guides;
using namespace guides::gr00t_cluster;

namespace {

struct change {
  std::string what;
  void (*apply)(inputs&);
  std::vector<std::string> tables;  // exactly those whose computed cells change
};

constexpr double more = 1.1;

template <class T>
gpuplan::range<T> raised(gpuplan::range<T> r) {
  return {r.low(), r.high() * more};
}

gpuplan::range<std::int64_t> raised(gpuplan::range<std::int64_t> r) {
  return {r.low(), r.high() + std::max<std::int64_t>(1, r.high() / 10)};
}

// More GPUs do more work in as much more speed, so that hours by speed stay. The strategies are on
// the RTX 4090, the L40S and the RTX 2080 Ti.
const change changes[] = {
    {"RTX 4090, GPUs",
     [](inputs& in) { in.nodes[rtx_4090].gpus += 1; },
     {"T0.1", "T0.2", "T0.4", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"H100 NVL, GPUs", [](inputs& in) { in.nodes[h100_nvl].gpus += 1; }, {"T0.1", "T0.4"}},
    {"L40S, GPUs",
     [](inputs& in) { in.nodes[l40s].gpus += 1; },
     {"T0.1", "T0.2", "T0.4", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"RTX 2080 Ti, GPUs",
     [](inputs& in) { in.nodes[rtx_2080_ti].gpus += 1; },
     {"T0.1", "T0.2", "T0.4", "T0.5", "T0.7", "T0.9", "T0.10"}},
    {"RTX 4070, GPUs", [](inputs& in) { in.nodes[rtx_4070].gpus += 1; }, {"T0.1", "T0.4"}},
    {"RTX 4090, memory",
     [](inputs& in) { in.nodes[rtx_4090].memory *= more; },
     {"T0.1", "T0.2", "T0.3", "T0.4", "T0.7", "T0.10"}},
    {"H100 NVL, memory",
     [](inputs& in) { in.nodes[h100_nvl].memory *= more; },
     {"T0.1", "T0.3", "T0.4", "T0.7"}},
    {"L40S, memory",
     [](inputs& in) { in.nodes[l40s].memory *= more; },
     {"T0.1", "T0.2", "T0.3", "T0.7", "T0.10"}},
    {"RTX 2080 Ti, memory",
     [](inputs& in) { in.nodes[rtx_2080_ti].memory *= more; },
     {"T0.1", "T0.2", "T0.3", "T0.4", "T0.7", "T0.8"}},
    {"RTX 4070, memory",
     [](inputs& in) { in.nodes[rtx_4070].memory *= more; },
     {"T0.1", "T0.3", "T0.4", "T0.7"}},
    {"RTX 4090, FP32", [](inputs& in) { in.nodes[rtx_4090].fp32 *= more; }, {"T0.5"}},
    {"H100 NVL, FP32", [](inputs& in) { in.nodes[h100_nvl].fp32 *= more; }, {"T0.5"}},
    {"L40S, FP32", [](inputs& in) { in.nodes[l40s].fp32 *= more; }, {"T0.5"}},
    {"RTX 2080 Ti, FP32", [](inputs& in) { in.nodes[rtx_2080_ti].fp32 *= more; }, {"T0.5"}},
    {"RTX 4070, FP32", [](inputs& in) { in.nodes[rtx_4070].fp32 *= more; }, {"T0.5"}},
    {"RTX 4090, FP16",
     [](inputs& in) { in.nodes[rtx_4090].fp16 *= more; },
     {"T0.1", "T0.2", "T0.5", "T0.8", "T0.9"}},
    {"H100 NVL, FP16", [](inputs& in) { in.nodes[h100_nvl].fp16 *= more; }, {"T0.1", "T0.5"}},
    {"L40S, FP16",
     [](inputs& in) { in.nodes[l40s].fp16 *= more; },
     {"T0.1", "T0.2", "T0.5", "T0.8", "T0.9"}},
    {"RTX 2080 Ti, FP16",
     [](inputs& in) { in.nodes[rtx_2080_ti].fp16 *= more; },
     {"T0.1", "T0.2", "T0.5", "T0.8", "T0.9"}},
    {"RTX 4070, FP16", [](inputs& in) { in.nodes[rtx_4070].fp16 *= more; }, {"T0.1", "T0.5"}},
    {"RTX 4090, names", [](inputs& in) { in.nodes[rtx_4090].last += 1; }, {"T0.1"}},
    {"H100 NVL, names", [](inputs& in) { in.nodes[h100_nvl].last += 2; }, {"T0.1"}},
    {"L40S, names", [](inputs& in) { in.nodes[l40s].first -= 1; }, {"T0.1"}},
    {"RTX 2080 Ti, names", [](inputs& in) { in.nodes[rtx_2080_ti].last += 2; }, {"T0.1"}},
    {"RTX 4070, names", [](inputs& in) { in.nodes[rtx_4070].last += 1; }, {"T0.1"}},

    {"base", [](inputs& in) { in.base *= more; }, {"T0.2", "T0.3", "T0.4", "T0.7", "T0.8", "T0.9"}},
    {"overhead",
     [](inputs& in) { in.overhead *= more; },
     {"T0.2", "T0.3", "T0.4", "T0.7", "T0.9", "T0.10"}},
    {"per sample",
     [](inputs& in) { in.per_sample *= more; },
     {"T0.2", "T0.3", "T0.4", "T0.7", "T0.9", "T0.10"}},
    {"target",
     [](inputs& in) { in.effective_batch = raised(in.effective_batch); },
     {"T0.2", "T0.4", "T0.9"}},
    {"steps",
     [](inputs& in) { in.steps += in.steps / 10; },
     {"T0.2", "T0.5", "T0.6", "T0.8", "T0.10"}},

    {"strategy 1, micro-batch",
     [](inputs& in) { in.strategies[0].micro_batch += 1; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 2, micro-batch",
     [](inputs& in) { in.strategies[1].micro_batch += 1; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 3, micro-batch",
     [](inputs& in) { in.strategies[2].micro_batch += 1; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 1, accumulation",
     [](inputs& in) { in.strategies[0].accumulation += 1; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 2, accumulation",
     [](inputs& in) { in.strategies[1].accumulation += 1; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 3, accumulation",
     [](inputs& in) { in.strategies[2].accumulation += 1; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 1, hours",
     [](inputs& in) { in.strategies[0].hours = raised(in.strategies[0].hours); },
     {"T0.2", "T0.5", "T0.8", "T0.9", "T0.10"}},
    {"strategy 2, hours",
     [](inputs& in) { in.strategies[1].hours = raised(in.strategies[1].hours); },
     {"T0.5", "T0.10"}},
    {"strategy 3, hours",
     [](inputs& in) { in.strategies[2].hours = raised(in.strategies[2].hours); },
     {"T0.5", "T0.10"}},
    {"strategy 1, waits from", [](inputs& in) { in.strategies[0].from = almost_none; }, {"T0.8"}},
    {"strategy 1, waits to", [](inputs& in) { in.strategies[0].to = high; }, {"T0.8"}},
    {"strategy 1, GPU",
     [](inputs& in) { in.strategies[0].gpu = l40s; },
     {"T0.2", "T0.4", "T0.5", "T0.7", "T0.8", "T0.9", "T0.10"}},
    {"strategy 2, gres", [](inputs& in) { in.strategies[1].gres = "l40s"; }, {"T0.9"}},
    {"strategy 2, node", [](inputs& in) { in.strategies[1].node_list = "classt22"; }, {"T0.9"}},
    {"strategy 2, script", [](inputs& in) { in.strategies[1].script = "l40s.slurm"; }, {"T0.9"}},

    {"test, steps", [](inputs& in) { in.test_steps += 10; }, {"T0.5", "T0.8"}},
    {"test, micro-batch", [](inputs& in) { in.test_micro_batch += 1; }, {"T0.5", "T0.8"}},
    {"test, time", [](inputs& in) { in.test_time *= more; }, {"T0.5"}},
    {"checkpointing saves", [](inputs& in) { in.checkpointing_saves *= more; }, {"T0.7"}},
    {"checkpointing slows", [](inputs& in) { in.checkpointing_slows *= more; }, {"T0.5"}},
    {"mixed precision saves", [](inputs& in) { in.mixed_precision_saves *= more; }, {"T0.7"}},
    {"compilation speeds up",
     [](inputs& in) { in.compilation_speeds_up = raised(in.compilation_speeds_up); },
     {"T0.5"}},
    {"quota", [](inputs& in) { in.quota *= more; }, {"T0.6"}},
    {"used", [](inputs& in) { in.used *= more; }, {"T0.6"}},
    {"checkpoint", [](inputs& in) { in.checkpoint = raised(in.checkpoint); }, {"T0.6"}},
    {"final model", [](inputs& in) { in.final_model = raised(in.final_model); }, {"T0.6"}},
    {"save every", [](inputs& in) { in.save_every += in.save_every / 10; }, {"T0.6"}},

    {"model, parameters",
     [](inputs& in) { in.model.parameters += in.model.parameters / 10; },
     {"T0.6", "T0.10"}},
    {"model, trainable",
     [](inputs& in) { in.model.trainable += in.model.trainable / 10; },
     {"T0.6", "T0.10"}},
    {"model, frozen bytes", [](inputs& in) { in.model.frozen_bytes += 1; }, {"T0.6", "T0.10"}},
    {"model, trained bytes", [](inputs& in) { in.model.trained_bytes += 1; }, {"T0.6", "T0.10"}},
    {"model, gradient bytes", [](inputs& in) { in.model.gradient_bytes += 1; }, {"T0.10"}},
    {"model, Adam's bytes", [](inputs& in) { in.model.adam_bytes += 1; }, {"T0.6", "T0.10"}},
    {"model, cameras",
     [](inputs& in) { in.model.cameras = raised(in.model.cameras); },
     {"T0.2", "T0.5", "T0.8", "T0.10"}},
    {"model, text",
     [](inputs& in) { in.model.text_tokens += 64; },
     {"T0.2", "T0.5", "T0.8", "T0.10"}},

    {"almost no wait",
     [](inputs& in) {
       in.waits[almost_none] = {1_h, 2_h};
     },
     {"T0.8"}},
    {"low wait",
     [](inputs& in) {
       in.waits[low] = {1_h, 2_h};
     },
     {"T0.8"}},
    {"medium wait", [](inputs& in) { in.waits[medium] = raised(in.waits[medium]); }, {"T0.8"}},
    {"high wait", [](inputs& in) { in.waits[high] = raised(in.waits[high]); }, {"T0.8"}},
    {"MIG profile", [](inputs& in) { in.mig_profile = "1g.24gb"; }, {"T0.1", "T0.3", "T0.4"}},
    {"backward", [](inputs& in) { in.backward_per_forward *= more; }, {"T0.5"}},
    {"wall-time margin", [](inputs& in) { in.wall_time_margin *= more; }, {"T0.9"}},
    {"command", [](inputs& in) { in.command = "python train.py"; }, {"T0.9"}},
    {"log", [](inputs& in) { in.log = "logs/%x.out"; }, {"T0.9"}},
};

std::vector<std::string> computed_of(const table& t) {
  std::vector<std::string> all;
  for (const cell& c : t.cells) all.push_back(c.row + "|" + c.quantity + "|" + text(c.computed));
  return all;
}

std::vector<std::string> documented_of(const report& r) {
  std::vector<std::string> all;
  for (const table& t : r.tables)
    for (const cell& c : t.cells)
      if (c.documented.what != shown::kind::nothing)
        all.push_back(t.id + "|" + c.row + "|" + c.quantity + "|" + c.unit + "|" +
                      text(c.documented));
  return all;
}

const cell* find(const report& r, const char* id, const char* row, const char* quantity) {
  for (const table& t : r.tables)
    for (const cell& c : t.cells)
      if (t.id == id && c.row == row && c.quantity == quantity) return &c;
  return nullptr;
}

}  // namespace

TEST_CASE("computed cells follow each input, and documented ones do not") {
  const report before = make_report();
  const auto documented = documented_of(before);
  REQUIRE(documented.size() > 100);
  for (const change& c : changes) {
    CAPTURE(c.what);
    inputs in;
    c.apply(in);
    const report after = make_report(in);
    REQUIRE(after.tables.size() == before.tables.size());
    std::vector<std::string> changed;
    for (std::size_t i = 0; i < before.tables.size(); ++i)
      if (computed_of(before.tables[i]) != computed_of(after.tables[i]))
        changed.push_back(before.tables[i].id);
    std::string list;
    for (const std::string& id : changed) list += id + " ";
    CAPTURE(list);
    CHECK(changed == c.tables);
    CHECK(documented_of(after) == documented);
  }
}

TEST_CASE("every table of the guide is there, and the verdicts are those found") {
  const report r = make_report();
  REQUIRE(r.tables.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(r.tables[i].id == "T0." + std::to_string(i + 1));
  const auto outcome = [&](const char* id, const char* row, const char* quantity) {
    const cell* found = find(r, id, row, quantity);
    REQUIRE(found != nullptr);
    return found->outcome;
  };
  CHECK(outcome("T0.1", "6 x L40S", "FP16 of the node, as printed") == verdict::agrees);
  CHECK(outcome("T0.1", "4 x RTX 4090", "FP16 of the node, as printed") == verdict::rounds);
  CHECK(outcome("T0.1", "1 x H100 NVL (MIG)", "place by dense FP16") == verdict::differs);
  CHECK(outcome("T0.2", "1: 4 x RTX 4090", "micro-batch, GB printed") == verdict::agrees);
  CHECK(outcome("T0.2", "3: 4 x RTX 2080 Ti", "micro-batch, GB printed") ==
        verdict::breaks_its_own_formula);
  CHECK(outcome("T0.2", "3: 4 x RTX 2080 Ti", "range, GB printed") ==
        verdict::breaks_its_own_formula);
  CHECK(outcome("T0.2", "3: 4 x RTX 2080 Ti", "micro-batch, usable bytes") == verdict::differs);
  CHECK(outcome("T0.2", "3: 4 x RTX 2080 Ti", "accumulation") == verdict::agrees);
  CHECK(outcome("T0.2", "3: 4 x RTX 2080 Ti", "hours for 10,000 steps") == verdict::differs);
  CHECK(outcome("T0.3", "RTX 4070", "recommended, GB printed") == verdict::breaks_its_own_formula);
  CHECK(outcome("T0.3", "RTX 4090", "aggressive, GB printed") == verdict::agrees);
  CHECK(outcome("T0.3", "RTX 4090", "aggressive, usable bytes") == verdict::differs);
  CHECK(outcome("T0.4", "2: 6 x L40S", "effective batch") == verdict::agrees);
  CHECK(outcome("T0.5", "2: 6 x L40S", "hours by the TFLOPS printed") == verdict::agrees);
  CHECK(outcome("T0.5", "2: 6 x L40S", "hours by dense peaks") == verdict::differs);
  CHECK(outcome("T0.5", "3: 4 x RTX 2080 Ti", "hours by the TFLOPS printed") == verdict::differs);
  CHECK(outcome("T0.5", "gradient checkpointing", "speed lost") == verdict::agrees);
  CHECK(outcome("T0.5", "torch.compile()", "speed gained") == verdict::not_computable);
  CHECK(outcome("T0.6", "10 checkpoints", "all of them") == verdict::agrees);
  CHECK(outcome("T0.6", "home", "checkpoints that fit") == verdict::differs);
  CHECK(outcome("T0.6", "checkpoints alone", "save interval that the quota holds") ==
        verdict::differs);
  CHECK(outcome("T0.7", "3: 4 x RTX 2080 Ti", "effective batch by the rule's words") ==
        verdict::differs);
  CHECK(outcome("T0.8", "quick test", "micro-batch") == verdict::breaks_its_own_formula);
  CHECK(outcome("T0.8", "quick test", "running") == verdict::agrees);
  CHECK(outcome("T0.8", "balanced", "node") == verdict::agrees);
  CHECK(outcome("T0.9", "2: 6 x L40S", "#SBATCH: GPUs") == verdict::agrees);
  CHECK(outcome("T0.10", "GR00T N1.5 3B", "a checkpoint") == verdict::agrees);
  CHECK(outcome("T0.10", "GR00T N1.5 3B", "memory before the first sample") == verdict::differs);
  // The guide's hours may be those of its GPUs, whose links nobody states; its checkpoints have no
  // optimizer.
  CHECK(outcome("T0.2", "1: 4 x RTX 4090", "hours of the GPUs' work, 80 %") == verdict::agrees);
  CHECK(outcome("T0.2", "3: 4 x RTX 2080 Ti", "hours of the GPUs' work, 80 %") == verdict::agrees);
  CHECK(outcome("T0.8", "balanced", "the GPUs' work, 80 %") == verdict::agrees);
  CHECK(outcome("T0.6", "a checkpoint", "weights alone") == verdict::agrees);
  CHECK(outcome("T0.6", "a checkpoint", "to resume from") == verdict::differs);
  CHECK(outcome("T0.6", "10 checkpoints", "weights alone") == verdict::agrees);
  // What its language model computes stands in for a step.
  CHECK(std::abs(stand_in_works(inputs{}) - 1) < 0.1);
  CHECK(r.findings.size() == 14);
}

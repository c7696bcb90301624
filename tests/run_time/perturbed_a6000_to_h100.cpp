#include <cstdint>

#include "guides/a6000_to_h100.hpp"
#include "perturbation.hpp"

using guides::verdict;
using guides::a6000_to_h100::inputs;
using guides::a6000_to_h100::make_report;

namespace {

using gpuplan::range;

void scale(range<double>& r) { r = r * 1.1; }
template <class Quantity>
void scale(gpuplan::known<Quantity>& q) {
  q = *q * 1.1;
}
template <class Number>
void scale(Number& n) {
  n *= 1.1;
}
void scale(std::int64_t& n) { n += n / 10 + 1; }

const std::vector<perturbation<inputs>> perturbations = {
    {"a6000.memory", [](inputs& in) { scale(in.a6000.memory); }, {"T1.1"}},
    {"a6000.memory_bandwidth", [](inputs& in) { scale(in.a6000.memory_bandwidth); }, {"T1.1"}},
    {"a6000.fp16", [](inputs& in) { scale(in.a6000.fp16); }, {"T1.1"}},
    {"a6000.bf16", [](inputs& in) { scale(in.a6000.bf16); }, {"T1.1"}},
    {"a6000.tf32", [](inputs& in) { scale(in.a6000.tf32); }, {"T1.1"}},
    {"h100.memory", [](inputs& in) { scale(in.h100.memory); }, {"T1.1"}},
    {"h100.memory_bandwidth", [](inputs& in) { scale(in.h100.memory_bandwidth); }, {"T1.1"}},
    {"h100.fp16", [](inputs& in) { scale(in.h100.fp16); }, {"T1.1"}},
    {"h100.bf16", [](inputs& in) { scale(in.h100.bf16); }, {"T1.1"}},
    {"h100.tf32", [](inputs& in) { scale(in.h100.tf32); }, {"T1.1"}},
    {"a6000_device memory", [](inputs& in) { scale(in.a6000_device.memory); }, {"T1.1", "T1.9"}},
    {"a6000_device bandwidth",
     [](inputs& in) { scale(in.a6000_device.memory_bandwidth); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6"}},
    {"a6000_device fp16", [](inputs& in) { scale(in.a6000_device.dense.fp16); }, {"T1.1"}},
    {"a6000_device bf16",
     [](inputs& in) { scale(in.a6000_device.dense.bf16); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6"}},
    {"a6000_device tf32", [](inputs& in) { scale(in.a6000_device.dense.tf32); }, {"T1.1"}},
    {"a6000_device sparse", [](inputs& in) { scale(in.a6000_device.sparse.fp16); }, {"T1.1"}},
    {"h100_pcie memory", [](inputs& in) { scale(in.h100_pcie.memory); }, {"T1.1", "T1.9"}},
    {"h100_pcie bandwidth",
     [](inputs& in) { scale(in.h100_pcie.memory_bandwidth); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6"}},
    {"h100_pcie bf16",
     [](inputs& in) { scale(in.h100_pcie.dense.bf16); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6"}},
    {"h100_pcie sparse", [](inputs& in) { scale(in.h100_pcie.sparse.fp16); }, {"T1.1"}},
    {"h100_sxm memory", [](inputs& in) { scale(in.h100_sxm.memory); }, {"T1.1"}},
    {"h100_sxm bandwidth",
     [](inputs& in) { scale(in.h100_sxm.memory_bandwidth); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6"}},
    {"h100_sxm fp16",
     [](inputs& in) { scale(in.h100_sxm.dense.fp16); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6"}},
    {"h100_sxm sparse", [](inputs& in) { scale(in.h100_sxm.sparse.tf32); }, {"T1.1"}},
    {"h100_over_a100", [](inputs& in) { scale(in.h100_over_a100); }, {"T1.1"}},
    {"a100_over_a6000", [](inputs& in) { scale(in.a100_over_a6000); }, {"T1.1"}},
    {"real_speedup", [](inputs& in) { scale(in.real_speedup); }, {"T1.2", "T1.4"}},
    {"speedup",
     [](inputs& in) { scale(in.speedup); },
     {"T1.1", "T1.2", "T1.3", "T1.4", "T1.6", "T1.7"}},
    {"stage_1",
     [](inputs& in) { scale(in.stage_1); },
     {"T1.2", "T1.3", "T1.4", "T1.6", "T1.7", "T1.8"}},
    {"stage_2",
     [](inputs& in) { scale(in.stage_2); },
     {"T1.2", "T1.3", "T1.4", "T1.6", "T1.7", "T1.8"}},
    {"efficiency of 2",
     [](inputs& in) { scale(in.scaling.entries[0].efficiency); },
     {"T1.3", "T1.4", "T1.6", "T1.7"}},
    {"efficiency of 4",
     [](inputs& in) { scale(in.scaling.entries[1].efficiency); },
     {"T1.3", "T1.4", "T1.7"}},
    {"efficiency of 8",
     [](inputs& in) { scale(in.scaling.entries[2].efficiency); },
     {"T1.3", "T1.4", "T1.7"}},
    {"per_gpu", [](inputs& in) { scale(in.per_gpu); }, {"T1.3", "T1.4", "T1.7"}},
    {"micro-batch on 1",
     [](inputs& in) { scale(in.on_1.micro_batch); },
     {"T1.2", "T1.3", "T1.4", "T1.5", "T1.6", "T1.9"}},
    {"accumulation on 1",
     [](inputs& in) { scale(in.on_1.accumulation); },
     {"T1.2", "T1.3", "T1.4", "T1.5", "T1.6"}},
    {"GPUs of on_1", [](inputs& in) { scale(in.on_1.data_parallel); }, {"T1.5"}},
    {"GPUs of on_2",
     [](inputs& in) { scale(in.on_2.data_parallel); },
     {"T1.3", "T1.4", "T1.5", "T1.6"}},
    {"GPUs of on_4", [](inputs& in) { scale(in.on_4.data_parallel); }, {"T1.3", "T1.4", "T1.5"}},
    {"micro-batch on 2",
     [](inputs& in) { scale(in.on_2.micro_batch); },
     {"T1.3", "T1.4", "T1.5", "T1.6", "T1.9"}},
    {"accumulation on 2",
     [](inputs& in) { scale(in.on_2.accumulation); },
     {"T1.3", "T1.4", "T1.5", "T1.6"}},
    {"micro-batch on 4",
     [](inputs& in) { scale(in.on_4.micro_batch); },
     {"T1.3", "T1.4", "T1.5", "T1.9"}},
    {"accumulation on 4",
     [](inputs& in) { scale(in.on_4.accumulation); },
     {"T1.3", "T1.4", "T1.5"}},
    {"a6000_reaches", [](inputs& in) { scale(in.a6000_reaches); }, {"T1.1", "T1.8"}},
    {"h100_pcie_reaches", [](inputs& in) { scale(in.h100_pcie_reaches); }, {"T1.1"}},
    {"h100_sxm_reaches", [](inputs& in) { scale(in.h100_sxm_reaches); }, {"T1.1"}},
    {"lora_rank",
     [](inputs& in) { scale(in.lora_rank); },
     {"T1.2", "T1.3", "T1.4", "T1.6", "T1.8", "T1.9"}},
    {"text_tokens",
     [](inputs& in) {
       in.text_tokens = range<std::int64_t>{110, 747};
     },
     {"T1.2", "T1.3", "T1.4", "T1.6", "T1.8", "T1.9"}},
    {"a6000_price", [](inputs& in) { scale(in.a6000_price); }, {"T1.4", "T1.7"}},
};

}  // namespace

TEST_CASE("guide 001 follows its inputs") { check_perturbations(&make_report, perturbations); }

TEST_CASE("guide 001 has the verdicts that were found") {
  const guides::report report = make_report();
  CHECK(verdict_of(report, "T1.1", "BF16", "H100 / A6000, as printed") == verdict::agrees);
  CHECK(verdict_of(report, "T1.1", "BF16", "H100 PCIe 80 GB / A6000, dense") == verdict::differs);
  CHECK(verdict_of(report, "T1.1", "FP16", "H100 SXM5 80 GB / A6000, dense") == verdict::differs);
  CHECK(verdict_of(report, "T1.1", "H100 PCIe, by peaks", "real speed-up") == verdict::differs);
  CHECK(verdict_of(report, "T1.2", "H100 x 1, stage 2", "time") == verdict::agrees);
  CHECK(verdict_of(report, "T1.3", "H100 x 2", "time") == verdict::rounds);
  // The hours lie where 80 % of runs on an SXM5 do; a PCIe card is slower.
  for (const char* row : {"H100 x 1", "H100 x 2", "H100 x 4", "H100 x 8"}) {
    CHECK(verdict_of(report, "T1.4", row, "time on SXM5, 80 %") == verdict::agrees);
    CHECK(verdict_of(report, "T1.4", row, "time on PCIe, 80 %") == verdict::differs);
    CHECK(verdict_of(report, "T1.4", row, "cost on SXM5, 80 %") == verdict::agrees);
    CHECK(verdict_of(report, "T1.3", row, "cost on PCIe, 80 %") == verdict::differs);
  }
  CHECK(verdict_of(report, "T1.2", "H100 x 1, total", "time on SXM5, 80 %") == verdict::agrees);
  CHECK(verdict_of(report, "T1.6", "H100 x 1", "days on SXM5, 80 %") == verdict::agrees);
  CHECK(verdict_of(report, "T1.6", "H100 x 1", "stage 1 takes on PCIe, 80 %") == verdict::differs);
  CHECK(verdict_of(report, "T1.3", "H100 x 2", "same cost as one H100") == verdict::differs);
  CHECK(verdict_of(report, "T1.3", "H100 x 4", "done within a day") == verdict::differs);
  CHECK(verdict_of(report, "T1.4", "H100 x 4", "cost") == verdict::differs);
  CHECK(verdict_of(report, "T1.4", "H100 x 2", "time, from whole hours") == verdict::differs);
  CHECK(verdict_of(report, "T1.5", "H100 x 4", "global batch") == verdict::agrees);
  CHECK(verdict_of(report, "T1.5", "H100 x 4", "learning rate") == verdict::not_computable);
  CHECK(verdict_of(report, "T1.6", "H100 x 2", "stage 1 takes") == verdict::differs);
  CHECK(verdict_of(report, "T1.6", "H100 x 2", "stage 2 takes") == verdict::rounds);
  CHECK(verdict_of(report, "T1.6", "H100 x 1, day 3", "stage 1 to") == verdict::agrees);
  CHECK(verdict_of(report, "T1.6", "H100 x 2, day 2", "stage 1 to") == verdict::differs);
  CHECK(verdict_of(report, "T1.7", "all", "cheapest") == verdict::agrees);
  CHECK(verdict_of(report, "T1.7", "all", "best for the money") == verdict::differs);
  CHECK(report.tables.size() == 9);
  CHECK(report.findings.size() == 10);
}

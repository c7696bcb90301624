#include "guides/vla_speedups.hpp"
#include "perturbation.hpp"

using guides::verdict;
using guides::vla_speedups::inputs;
using guides::vla_speedups::make_report;

namespace {

using gpuplan::range;

void scale(range<double>& r) { r = r * 1.1; }
template <class Number>
void scale(Number& n) {
  n *= 1.1;
}
void scale_memory(guides::vla_speedups::gpu_batch& gpu) {
  gpu.device.memory = 1.1 * *gpu.device.memory;
}
void scale_peak(guides::vla_speedups::gpu_batch& gpu) {
  gpu.device.dense.bf16 = 1.1 * *gpu.device.dense.bf16;
}

const std::vector<perturbation<inputs>> perturbations = {
    {"dataset_init", [](inputs& in) { scale(in.dataset_init); }, {"T2.1", "T2.2"}},
    {"loading", [](inputs& in) { scale(in.loading); }, {"T2.1", "T2.2"}},
    {"cudnn", [](inputs& in) { scale(in.cudnn); }, {"T2.1", "T2.2"}},
    {"bf16", [](inputs& in) { scale(in.bf16); }, {"T2.1", "T2.2"}},
    {"compile", [](inputs& in) { scale(in.compile); }, {"T2.1"}},
    {"npz", [](inputs& in) { scale(in.npz); }, {"T2.1", "T2.2"}},
    {"bf16_memory", [](inputs& in) { scale(in.bf16_memory); }, {"T2.1"}},
    {"npz_files", [](inputs& in) { scale(in.npz_files); }, {"T2.1"}},
    {"load_before", [](inputs& in) { scale(in.load_before); }, {"T2.2"}},
    {"load_after", [](inputs& in) { scale(in.load_after); }, {"T2.2"}},
    {"step_before", [](inputs& in) { scale(in.step_before); }, {"T2.2", "T2.5"}},
    {"step_after", [](inputs& in) { scale(in.step_after); }, {"T2.2", "T2.5"}},
    {"epoch_before", [](inputs& in) { scale(in.epoch_before); }, {"T2.2"}},
    {"epoch_after", [](inputs& in) { scale(in.epoch_after); }, {"T2.2"}},
    {"memory of the A100 80GB", [](inputs& in) { scale(in.gpus[0].memory); }, {"T2.3"}},
    {"memory of the A100 40GB", [](inputs& in) { scale(in.gpus[1].memory); }, {"T2.3"}},
    {"memory of the RTX 4090", [](inputs& in) { scale(in.gpus[2].memory); }, {"T2.3"}},
    {"memory of the RTX 3090", [](inputs& in) { scale(in.gpus[3].memory); }, {"T2.3"}},
    {"batch of the A100 80GB",
     [](inputs& in) { in.gpus[0].micro_batch += 3; },
     {"T2.2", "T2.3", "T2.4", "T2.5"}},
    {"batch of the A100 40GB", [](inputs& in) { in.gpus[1].micro_batch += 2; }, {"T2.3", "T2.4"}},
    {"batch of the RTX 4090", [](inputs& in) { in.gpus[2].micro_batch += 1; }, {"T2.3", "T2.4"}},
    {"batch of the RTX 3090", [](inputs& in) { in.gpus[3].micro_batch += 1; }, {"T2.4"}},
    {"device A100 80GB", [](inputs& in) { scale_memory(in.gpus[0]); }, {"T2.3"}},
    {"device A100 40GB", [](inputs& in) { scale_memory(in.gpus[1]); }, {"T2.3"}},
    {"device RTX 4090", [](inputs& in) { scale_memory(in.gpus[2]); }, {"T2.3"}},
    {"device RTX 3090", [](inputs& in) { scale_memory(in.gpus[3]); }, {"T2.3"}},
    {"accumulation", [](inputs& in) { in.accumulation += 1; }, {"T2.4"}},
    {"workers",
     [](inputs& in) {
       in.workers = range<std::int64_t>{5, 9};
     },
     {"T2.2"}},
    {"data_parallel", [](inputs& in) { in.data_parallel += 1; }, {"T2.4"}},
    {"peak of the A100 80GB", [](inputs& in) { scale_peak(in.gpus[0]); }, {"T2.2", "T2.5"}},
    {"image_size", [](inputs& in) { in.image_size += 28; }, {"T2.2", "T2.5"}},
    {"images",
     [](inputs& in) {
       in.images = range<std::int64_t>{1, 4};
     },
     {"T2.2", "T2.5"}},
    {"text_tokens", [](inputs& in) { in.text_tokens += 4; }, {"T2.2", "T2.5"}},
    {"assumed_loading_share",
     [](inputs& in) { scale(in.assumed_loading_share); },
     {"T2.1", "T2.2"}},
    {"assumed_robot_states_share",
     [](inputs& in) { scale(in.assumed_robot_states_share); },
     {"T2.1", "T2.2"}},
    {"assumed_optimizer_share",
     [](inputs& in) { scale(in.assumed_optimizer_share); },
     {"T2.1", "T2.2"}},
};

}  // namespace

TEST_CASE("guide 002 follows its inputs") { check_perturbations(&make_report, perturbations); }

TEST_CASE("guide 002 has the verdicts that were found") {
  const guides::report report = make_report();
  const char* gain = "throughput gain, all together";
  CHECK(verdict_of(report, "T2.1", "product, of the rate", gain) == verdict::differs);
  CHECK(verdict_of(report, "T2.1", "product, of the time", gain) == verdict::differs);
  CHECK(verdict_of(report, "T2.1", "assumed shares without BF16", gain) == verdict::differs);
  CHECK(verdict_of(report, "T2.2", "step", "throughput gain") == verdict::differs);
  CHECK(verdict_of(report, "T2.2", "step", "time saved") == verdict::agrees);
  CHECK(verdict_of(report, "T2.2", "30-50 % of the rate", "load after") == verdict::differs);
  CHECK(verdict_of(report, "T2.2", "num_workers", "workers") == verdict::not_computable);
  CHECK(verdict_of(report, "T2.2", "1 image", "step after, at least, 80 %") == verdict::agrees);
  CHECK(verdict_of(report, "T2.2", "3 images", "epoch after, at least, 80 %") == verdict::differs);
  CHECK(verdict_of(report, "T2.2", "after", "dataset load, 80 %") == verdict::not_computable);
  CHECK(verdict_of(report, "T2.3", "RTX 4090 24GB, GB as printed", "batch on the A100 line") ==
        verdict::differs);
  CHECK(verdict_of(report, "T2.4", "32 x 4 x 4", "effective batch") == verdict::agrees);
  CHECK(report.findings.size() == 10);
}

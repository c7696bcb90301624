#include "guides/sentence_bert.hpp"
#include "perturbation.hpp"

using guides::verdict;
using guides::sentence_bert::inputs;
using guides::sentence_bert::make_report;

namespace {

using gpuplan::range;
using micro_batches = range<std::int64_t>;

const std::vector<perturbation<inputs>> perturbations = {
    {"gpus", [](inputs& in) { in.gpus += 1; }, {"T3.1", "T3.2", "T3.3", "T3.4", "T3.5", "T3.6"}},
    {"single_gpu", [](inputs& in) { in.single_gpu *= 1.1; }, {"T3.4", "T3.6"}},
    {"speed-up of DDP",
     [](inputs& in) { in.ddp.speedup = in.ddp.speedup * 1.1; },
     {"T3.1", "T3.4", "T3.6"}},
    {"speed-up of DP",
     [](inputs& in) { in.dp.speedup = in.dp.speedup * 1.1; },
     {"T3.1", "T3.4", "T3.6"}},
    {"micro-batch of DDP",
     [](inputs& in) {
       in.ddp.micro_batch = micro_batches{71, 141};
     },
     {"T3.2", "T3.3", "T3.4", "T3.5", "T3.6", "T3.7"}},
    {"micro-batch of DP",
     [](inputs& in) {
       in.dp.micro_batch = micro_batches{36, 71};
     },
     {"T3.2", "T3.3", "T3.5", "T3.6", "T3.7"}},
    {"epochs of DDP", [](inputs& in) { in.ddp.epochs += 1; }, {"T3.3", "T3.4", "T3.5", "T3.6"}},
    {"epochs of DP", [](inputs& in) { in.dp.epochs += 1; }, {"T3.3", "T3.4", "T3.5", "T3.6"}},
    {"AMP of DDP", [](inputs& in) { in.ddp.amp = !in.ddp.amp; }, {"T3.4"}},
    {"AMP of DP", [](inputs& in) { in.dp.amp = !in.dp.amp; }, {"T3.4"}},
    {"amp_speed", [](inputs& in) { in.amp_speed = in.amp_speed * 1.1; }, {"T3.4"}},
    {"amp_memory", [](inputs& in) { in.amp_memory *= 1.1; }, {"T3.2"}},
    {"base_rate", [](inputs& in) { in.base_rate *= 1.1; }, {"T3.3"}},
    {"base_batch", [](inputs& in) { in.base_batch += 4; }, {"T3.3"}},
    {"samples",
     [](inputs& in) { in.samples += in.samples / 10; },
     {"T3.3", "T3.4", "T3.5", "T3.6"}},
    {"texts", [](inputs& in) { in.texts += 1; }, {"T3.4", "T3.6", "T3.7"}},
    {"tokens_of_a_text", [](inputs& in) { in.tokens_of_a_text += 13; }, {"T3.4", "T3.6", "T3.7"}},
    {"adam_beta1", [](inputs& in) { in.adam_beta1 = 0.91; }, {"T3.3"}},
    {"adam_beta2", [](inputs& in) { in.adam_beta2 = 0.9989; }, {"T3.3"}},
    {"paper_warm_up", [](inputs& in) { in.paper_warm_up *= 1.1; }, {"T3.3"}},
};

}  // namespace

TEST_CASE("guide 003 follows its inputs") { check_perturbations(&make_report, perturbations); }

TEST_CASE("guide 003 has the verdicts that were found") {
  const guides::report report = make_report();
  CHECK(count(report, verdict::breaks_its_own_formula) == 1);
  CHECK(count(report, verdict::not_computable) == 2);
  CHECK(verdict_of(report, "T3.1", "DDP", "scaling") == verdict::differs);
  CHECK(verdict_of(report, "T3.2", "DDP", "effective batch") == verdict::agrees);
  CHECK(verdict_of(report, "T3.2", "DP command as PyTorch reads it", "effective batch") ==
        verdict::differs);
  CHECK(verdict_of(report, "T3.3", "DP command", "--lr as the base rate") ==
        verdict::breaks_its_own_formula);
  const char* kept = "same run, AMP on both sides or neither";
  CHECK(verdict_of(report, "T3.4", kept, "DDP, hours") == verdict::agrees);
  CHECK(verdict_of(report, "T3.4", kept, "DP, hours") == verdict::agrees);
  CHECK(verdict_of(report, "T3.4", "same run, 10 h without AMP", "DDP, hours") == verdict::differs);
  // On no card are its GPUs that slow.
  for (const char* row :
       {"RTX 2080 Ti, FP32", "RTX 2080 Ti, AMP", "RTX 4090, FP32", "RTX 4090, AMP"}) {
    CHECK(verdict_of(report, "T3.4", row, "one GPU, 80 %") == verdict::differs);
    CHECK(verdict_of(report, "T3.4", row, "DDP on all, 80 %") == verdict::differs);
  }
  CHECK(verdict_of(report, "T3.4", "DDP x AMP", "speed-up with AMP, at most") == verdict::differs);
}

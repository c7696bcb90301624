#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guides/batch_sweep.hpp"
#include "perturbation.hpp"

using guides::verdict;
using guides::batch_sweep::inputs;
using guides::batch_sweep::make_report;
using guides::batch_sweep::measurement;

namespace {

template <class Number>
void scale(Number& n, double by = 1.1) {
  n = n * by;
}
void scale(std::int64_t& n) { n += n < 10 ? 1 : n / 10; }

template <class Change>
void all_rows(inputs& in, Change change) {
  for (measurement& m : in.ran) change(m);
}

const std::vector<std::string> settings_only = {"T4.5"};

const std::vector<perturbation<inputs>> perturbations = {
    {"micro_batch",
     [](inputs& in) { all_rows(in, [](measurement& m) { scale(m.micro_batch); }); },
     {"T4.1", "T4.2", "T4.3", "T4.5"}},
    {"data",
     [](inputs& in) { all_rows(in, [](measurement& m) { scale(m.data); }); },
     {"T4.1", "T4.2", "T4.3", "T4.4", "T4.5"}},
    {"forward",
     [](inputs& in) { all_rows(in, [](measurement& m) { scale(m.forward); }); },
     {"T4.1", "T4.2", "T4.3", "T4.4", "T4.5"}},
    {"backward",
     [](inputs& in) { all_rows(in, [](measurement& m) { scale(m.backward); }); },
     {"T4.1", "T4.2", "T4.3", "T4.4", "T4.5"}},
    {"gpu_utilisation",
     [](inputs& in) { all_rows(in, [](measurement& m) { scale(m.gpu_utilisation, 0.9); }); },
     {"T4.2", "T4.4", "T4.5"}},
    {"memory",
     [](inputs& in) { all_rows(in, [](measurement& m) { scale(m.memory); }); },
     {"T4.2", "T4.3", "T4.4", "T4.5"}},
    {"ran_out", [](inputs& in) { scale(in.ran_out); }, {"T4.3", "T4.5"}},
    {"workers", [](inputs& in) { scale(in.workers); }, {"T4.2"}},
    {"mixed_precision", [](inputs& in) { in.mixed_precision = false; }, {"T4.2"}},
    {"slow_loading", [](inputs& in) { scale(in.slow_loading); }, {"T4.4"}},
    {"good_utilisation, low",
     [](inputs& in) {
       in.good_utilisation = {0.77, 0.95};
     },
     {"T4.4"}},
    {"good_utilisation, high",
     [](inputs& in) {
       in.good_utilisation = {0.70, 0.855};
     },
     {"T4.2", "T4.5"}},
    {"good_memory, low",
     [](inputs& in) {
       in.good_memory = {0.54, 0.80};
     },
     {"T4.2", "T4.5"}},
    {"good_memory, high",
     [](inputs& in) {
       in.good_memory = {0.60, 0.72};
     },
     {"T4.2", "T4.5"}},
    {"checklist_memory, low",
     [](inputs& in) {
       in.checklist_memory = {0.55, 0.80};
     },
     {"T4.2", "T4.5"}},
    {"checklist_memory, high",
     [](inputs& in) {
       in.checklist_memory = {0.50, 0.72};
     },
     {"T4.2", "T4.5"}},
    {"near_saturation", [](inputs& in) { scale(in.near_saturation, 0.9); }, {"T4.3"}},
    {"large_gpu", [](inputs& in) { scale(in.large_gpu); }, {"T4.2", "T4.3", "T4.4", "T4.5"}},
    {"middle_gpu", [](inputs& in) { scale(in.middle_gpu); }, {"T4.3", "T4.5"}},
    {"small_gpu", [](inputs& in) { scale(in.small_gpu); }, {"T4.3", "T4.5"}},
    {"small_on_80", [](inputs& in) { scale(in.small_on_80.micro_batch); }, {"T4.5", "T4.7"}},
    {"small_on_80_or", [](inputs& in) { scale(in.small_on_80_or.micro_batch); }, settings_only},
    {"medium_on_80", [](inputs& in) { scale(in.medium_on_80.micro_batch); }, {"T4.5", "T4.7"}},
    {"medium_on_80_or", [](inputs& in) { scale(in.medium_on_80_or.micro_batch); }, settings_only},
    {"large_on_80", [](inputs& in) { scale(in.large_on_80.micro_batch); }, {"T4.5", "T4.7"}},
    {"large_on_80_or", [](inputs& in) { scale(in.large_on_80_or.micro_batch); }, settings_only},
    {"small_on_40", [](inputs& in) { scale(in.small_on_40.micro_batch); }, settings_only},
    {"medium_on_40", [](inputs& in) { scale(in.medium_on_40.micro_batch); }, settings_only},
    {"small_on_24", [](inputs& in) { scale(in.small_on_24.micro_batch); }, settings_only},
    {"medium_on_24", [](inputs& in) { scale(in.medium_on_24.micro_batch); }, settings_only},
    {"small_on_80, x", [](inputs& in) { scale(in.small_on_80.accumulation); }, settings_only},
    {"small_on_80_or, x", [](inputs& in) { scale(in.small_on_80_or.accumulation); }, settings_only},
    {"medium_on_80, x", [](inputs& in) { scale(in.medium_on_80.accumulation); }, settings_only},
    {"medium_on_80_or, x",
     [](inputs& in) { scale(in.medium_on_80_or.accumulation); },
     settings_only},
    {"large_on_80, x", [](inputs& in) { scale(in.large_on_80.accumulation); }, settings_only},
    {"large_on_80_or, x", [](inputs& in) { scale(in.large_on_80_or.accumulation); }, settings_only},
    {"small_on_40, x", [](inputs& in) { scale(in.small_on_40.accumulation); }, settings_only},
    {"medium_on_40, x", [](inputs& in) { scale(in.medium_on_40.accumulation); }, settings_only},
    {"small_on_24, x", [](inputs& in) { scale(in.small_on_24.accumulation); }, settings_only},
    {"medium_on_24, x", [](inputs& in) { scale(in.medium_on_24.accumulation); }, settings_only},
    {"small, throughput", [](inputs& in) { scale(in.small.throughput); }, {"T4.5", "T4.6"}},
    {"small, memory", [](inputs& in) { scale(in.small.memory); }, settings_only},
    {"medium, throughput", [](inputs& in) { scale(in.medium.throughput); }, {"T4.5", "T4.6"}},
    {"medium, memory", [](inputs& in) { scale(in.medium.memory); }, settings_only},
    {"large, throughput", [](inputs& in) { scale(in.large.throughput); }, {"T4.5", "T4.6"}},
    {"large, memory", [](inputs& in) { scale(in.large.memory); }, settings_only},
    {"samples_per_epoch", [](inputs& in) { scale(in.samples_per_epoch); }, settings_only},
    {"small, depth", [](inputs& in) { scale(in.small_model.depth); }, {"T4.5", "T4.6", "T4.7"}},
    {"small, hidden", [](inputs& in) { in.small_model.hidden += 8; }, {"T4.5", "T4.6", "T4.7"}},
    {"medium, depth", [](inputs& in) { scale(in.medium_model.depth); }, {"T4.5", "T4.6", "T4.7"}},
    {"medium, hidden", [](inputs& in) { in.medium_model.hidden += 8; }, {"T4.5", "T4.6", "T4.7"}},
    {"large, depth", [](inputs& in) { scale(in.large_model.depth); }, {"T4.5", "T4.6", "T4.7"}},
    {"large, hidden", [](inputs& in) { in.large_model.hidden += 8; }, {"T4.5", "T4.6", "T4.7"}},
    {"photomultipliers", [](inputs& in) { scale(in.photomultipliers); }, {"T4.5", "T4.6", "T4.7"}},
    {"heads", [](inputs& in) { in.heads = 4; }, {"T4.6", "T4.7"}},
    {"tuned, learning_rate", [](inputs& in) { scale(in.tuned.learning_rate); }, settings_only},
    {"tuned, effective_batch", [](inputs& in) { scale(in.tuned.effective_batch); }, settings_only},
};

// Whether a computed cell of this table changes with the inputs.
bool moves(const guides::report& before, const inputs& in, std::size_t table) {
  const guides::report after = make_report(in);
  const auto& a = before.tables[table].cells;
  const auto& b = after.tables[table].cells;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i].computed == b[i].computed)) return true;
  return false;
}

}  // namespace

TEST_CASE("guide 004 follows its inputs") { check_perturbations(&make_report, perturbations); }

TEST_CASE("guide 004 follows every row of its sweep") {
  const guides::report before = make_report();
  for (std::size_t row = 0; row < inputs{}.ran.size(); ++row) {
    CAPTURE(row);
    const auto after = [&](auto change) {
      inputs in;
      change(in.ran[row]);
      return in;
    };
    // 0 is T4.1.
    CHECK(moves(before, after([](measurement& m) { scale(m.micro_batch); }), 0));
    CHECK(moves(before, after([](measurement& m) { scale(m.data); }), 0));
    CHECK(moves(before, after([](measurement& m) { scale(m.forward); }), 0));
    CHECK(moves(before, after([](measurement& m) { scale(m.backward); }), 0));
    CHECK(moves(before, after([](measurement& m) { scale(m.memory); }), 2));
    CHECK(moves(before, after([](measurement& m) { scale(m.gpu_utilisation, 0.9); }), 3));
  }
}

TEST_CASE("guide 004 has the verdicts that were found") {
  const guides::report report = make_report();
  CHECK(verdict_of(report, "T4.1", "2048", "total") == verdict::agrees);
  CHECK(verdict_of(report, "T4.1", "4096", "total") == verdict::rounds);
  CHECK(verdict_of(report, "T4.1", "4096 against 128", "throughput") == verdict::agrees);
  CHECK(verdict_of(report, "T4.2", "highest throughput", "batch") == verdict::agrees);
  CHECK(verdict_of(report, "T4.2", "best efficiency", "batch") == verdict::differs);
  CHECK(verdict_of(report, "T4.2", "recommended", "batch") == verdict::breaks_its_own_formula);
  CHECK(verdict_of(report, "T4.2", "recommended, upper end alone", "batch") == verdict::agrees);
  CHECK(verdict_of(report, "T4.3", "8192", "80 GB as printed") == verdict::differs);
  CHECK(verdict_of(report, "T4.4", "8192", "diagnosis") == verdict::not_computable);
  CHECK(verdict_of(report, "T4.2", "2048 itself", "efficiency") == verdict::agrees);
  CHECK(verdict_of(report, "T4.5", "small, 80 GB, or", "batch in the sweep") ==
        verdict::breaks_its_own_formula);
  CHECK(verdict_of(report, "T4.5", "large, 80 GB", "memory band, ideal") ==
        verdict::breaks_its_own_formula);
  CHECK(verdict_of(report, "T4.5", "large, 80 GB", "memory band, ideal, of the usable") ==
        verdict::agrees);
  CHECK(verdict_of(report, "T4.5", "medium, 80 GB", "learning rate by the square-root rule") ==
        verdict::differs);
  for (const char* row : {"small, 80 GB", "medium, 80 GB", "large, 80 GB"})
    CHECK(verdict_of(report, "T4.5", row, "epoch of T4.6's model, 80 %") == verdict::differs);
  CHECK(report.findings.size() == 14);
}

#pragma once

// Guide 004: a batch-size sweep of one model on one A100 80 GB, how to read it, and the settings
// that it recommends for three models on three sizes of GPU.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/sweep.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include "guides/report.hpp"

namespace guides::batch_sweep {

using namespace gpuplan::literals;

/// A row of the sweep that ran. The guide's total is the sum of these three times: the optimizer,
/// which it says is measured too, has no column.
struct measurement {
  std::int64_t micro_batch = 1;
  gpuplan::duration data{}, forward{}, backward{};
  double gpu_utilisation = 0;
  gpuplan::bytes memory{};
};

/// A recommended training setting.
struct setting {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
};

/// What the guide expects of a setting on the 80 GB GPU.
struct expectation {
  gpuplan::sample_rate throughput{};
  gpuplan::bytes memory{};
};

/// A model as the guide names it: "depth=3, hidden=16".
struct model_size {
  std::int64_t depth = 1;
  std::int64_t hidden = 1;
};

struct inputs {
  // ---- the sweep
  std::array<measurement, 13> ran{{
      {1, 5.23_ms, 12.45_ms, 18.67_ms, 0.152, 0.15_GB},
      {2, 5.45_ms, 13.12_ms, 19.23_ms, 0.184, 0.18_GB},
      {4, 5.67_ms, 14.23_ms, 20.45_ms, 0.221, 0.22_GB},
      {8, 6.12_ms, 15.67_ms, 22.34_ms, 0.285, 0.28_GB},
      {16, 6.78_ms, 17.89_ms, 25.12_ms, 0.352, 0.35_GB},
      {32, 7.45_ms, 21.23_ms, 29.67_ms, 0.428, 0.48_GB},
      {64, 8.23_ms, 26.45_ms, 36.78_ms, 0.513, 0.72_GB},
      {128, 9.12_ms, 34.56_ms, 48.23_ms, 0.625, 1.15_GB},
      {256, 10.45_ms, 48.67_ms, 68.45_ms, 0.742, 2.05_GB},
      {512, 12.78_ms, 72.34_ms, 102.56_ms, 0.825, 3.85_GB},
      {1024, 16.23_ms, 112.45_ms, 158.67_ms, 0.887, 7.45_GB},
      {2048, 22.45_ms, 198.34_ms, 279.12_ms, 0.923, 14.25_GB},
      {4096, 35.67_ms, 367.89_ms, 518.45_ms, 0.938, 27.85_GB},
  }};
  std::int64_t ran_out = 8192;  // the row without numbers
  std::int64_t workers = 4;     // of every row
  bool mixed_precision = true;  // of every row

  // ---- how to read it
  gpuplan::duration slow_loading = 30_ms;  // above: "data loading bottleneck"
  gpuplan::range<double> good_utilisation{0.70, 0.95};
  gpuplan::range<double> good_memory{0.60, 0.80};       // "ideal"
  gpuplan::range<double> checklist_memory{0.50, 0.80};  // the same, at the guide's end
  double near_saturation = 0.9;                         // ours: where more batch stops to pay

  // ---- the GPUs, as printed; the sweep ran on the largest
  gpuplan::bytes large_gpu = 80_GB;
  gpuplan::bytes middle_gpu = 40_GB;
  gpuplan::bytes small_gpu = 24_GB;

  // ---- the recommended settings. The sweep is taken to be of the small model: that is where
  // batch, memory and utilisation are those of its last row; the guide does not say.
  setting small_on_80{4096, 1};
  setting small_on_80_or{8192, 1};
  setting medium_on_80{1024, 1};
  setting medium_on_80_or{2048, 1};
  setting large_on_80{256, 4};
  setting large_on_80_or{512, 4};
  setting small_on_40{2048, 1};
  setting medium_on_40{512, 2};
  setting small_on_24{1024, 1};
  setting medium_on_24{256, 4};
  expectation small{4000_samples_per_s, 28_GB};
  expectation medium{1500_samples_per_s, 45_GB};
  expectation large{400_samples_per_s, 65_GB};
  std::int64_t samples_per_epoch = 178'000;
  model_size small_model{3, 16};
  model_size medium_model{6, 64};
  model_size large_model{12, 128};
  // The defaults of the code that the guide's benchmark_gpu.py runs.
  std::int64_t photomultipliers = 5160;  // tokens
  std::int64_t heads = 8;
  gpuplan::tuned_rate tuned{.learning_rate = 3e-4, .effective_batch = 4096};
};

/// The rows that ran, then the one that ran out.
[[nodiscard]] constexpr std::array<gpuplan::sweep_row, 14> sweep(const inputs& in) {
  std::array<gpuplan::sweep_row, 14> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    gpuplan::sweep_row& row = rows[i];
    row.workers = in.workers;
    row.mixed_precision = in.mixed_precision;
    if (i == in.ran.size()) {
      row.micro_batch = in.ran_out;
      row.status = gpuplan::sweep_status::out_of_memory;
      continue;
    }
    const measurement& m = in.ran[i];
    row.micro_batch = m.micro_batch;
    row.data = m.data;
    row.forward = m.forward;
    row.backward = m.backward;
    row.gpu_utilisation = m.gpu_utilisation;
    row.memory = m.memory;
  }
  return rows;
}

[[nodiscard]] constexpr gpuplan::sweep_thresholds thresholds(
    const inputs& in, const gpuplan::range<double>& memory_share) {
  return {.data_time = in.slow_loading,
          .utilisation = in.good_utilisation,
          .memory_share = memory_share};
}

[[nodiscard]] constexpr gpuplan::memory_fit memory_line(const inputs& in,
                                                        gpuplan::fit_weighting weighting) {
  return *gpuplan::fit_memory(sweep(in), weighting);
}

[[nodiscard]] constexpr gpuplan::time_fit time_line(const inputs& in,
                                                    gpuplan::fit_weighting weighting) {
  return *gpuplan::fit_time(sweep(in), weighting);
}

/// Samples of one optimizer step on one GPU.
[[nodiscard]] constexpr std::int64_t effective_batch(const setting& s) {
  return gpuplan::batch_plan{.micro_batch = s.micro_batch, .accumulation = s.accumulation}
      .effective_batch();
}

/// By the square-root rule from the tuned setting.
[[nodiscard]] constexpr double learning_rate(const inputs& in, const setting& s) {
  return gpuplan::scaled_learning_rate(in.tuned, effective_batch(s), gpuplan::square_root_rule{})
      ->low();
}

[[nodiscard]] constexpr gpuplan::duration epoch_time(const inputs& in, const expectation& e) {
  return gpuplan::time_for(in.samples_per_epoch, e.throughput);
}

/// Documented numbers beside computed ones. Precondition: inputs that the library accepts; else a
/// `plan_error`.
[[nodiscard]] report make_report(const inputs& in = {});

}  // namespace guides::batch_sweep

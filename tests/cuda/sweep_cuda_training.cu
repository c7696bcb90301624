// A sweep of training on a GPU under the harness, on a stand-in for CUDA: no time here is of a
// device.

#include <gpuplan/measure/sweep/options.hpp>

#include <doctest/doctest.h>
#include <stand_in/cublaslt.hpp>
#include <stand_in/stand_in.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "measure_gpu/devices.hpp"
#include "program_output.hpp"

#include "sweep/data_set.hpp"
#include "sweep_cuda/training.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using measure::trial_outcome;

const std::vector<std::int64_t> widths{sweep_examples::pixels, 32, sweep_examples::digits};

// Products take 1 ms, and all else 10 us.
measure::sweep_result sweep(measure::sweep_options asked,
                            const sweep_cuda::training_options& training) {
  const temporary_file file("");
  sweep_examples::write_data_set(file.name(), 64, 1);
  asked.now_s = stand_in::now_s;
  asked.warm_up_steps = 1;
  asked.stop.least_samples = 4;
  asked.stop.most_samples = 4;
  asked.stop.least_s = 0;
  const sweep_examples::data_set samples(file.name());
  auto found = sweep_cuda::run_sweep(samples, training, std::move(asked));
  CHECK(stand_in::live().empty());
  CHECK_FALSE(stand_in::error_waits());
  return found;
}

TEST_CASE("each phase has its work, by the device's clock") {
  stand_in::reset();
  stand_in::current().call_s = 0;
  measure::sweep_options asked;
  asked.micro_batches = {4};
  asked.mixed_precision = {false, true};
  asked.pinned_memory = {false, true};
  const auto found = sweep(asked, {.widths = widths});
  REQUIRE(found.trials.size() == 4);
  for (const measure::trial& one : found.trials) {
    CAPTURE(one.setting.mixed_precision);
    CAPTURE(one.setting.pinned_memory);
    CHECK(one.message == "");
    CHECK(one.outcome == trial_outcome::ran);
    CHECK(one.steps == 4);
    const auto takes = [](double seconds) { return doctest::Approx(seconds).epsilon(1e-3); };
    // The inputs and a byte for each class, and in mixed precision the inputs' conversion.
    const double rate = one.setting.pinned_memory ? 50e9 : 10e9;
    const double copied = (4 * sweep_examples::pixels * 4) / rate + 4 / 10e9;
    CHECK(one.data.median ==
          doctest::Approx(copied + (one.setting.mixed_precision ? 10e-6 : 0)).epsilon(0.02));
    CHECK(one.forward.median == takes(2e-3 + 3 * 10e-6));   // two layers with bias, and the loss
    CHECK(one.backward.median == takes(3e-3 + 5 * 10e-6));  // two sums for each bias, one cut
    CHECK(one.optimizer.median == takes(4 * 10e-6));
    CHECK(one.other.median == doctest::Approx(0).scale(1e-9));
    CHECK(!one.utilisation.has_value());
  }
  // Half the bytes for each element of what is kept beside parameters.
  const double full = found.trials[0].memory_bytes.value();
  CHECK(found.trials[1].memory_bytes.value() == full);
  CHECK(full > static_cast<double>(std::size_t{32} << 20));  // cuBLASLt's room
}

TEST_CASE("what the management library says is in the row") {
  stand_in::reset();
  setenv("STAND_IN_NVML", "85520809984 85000000000 500000 321000 4 16", 1);
  setenv("STAND_IN_NVML_BUSY", "87", 1);
  const auto found = sweep({}, {.widths = widths});
  unsetenv("STAND_IN_NVML");
  unsetenv("STAND_IN_NVML_BUSY");
  REQUIRE(found.trials.size() == 1);
  CHECK(found.trials[0].utilisation == 0.87);
}

TEST_CASE("memory runs out where the device has no more, and the sweep goes on") {
  stand_in::reset();
  stand_in::current().devices[0].properties.totalGlobalMem = std::size_t{64} << 20;
  measure::sweep_options asked;
  asked.micro_batches = {1, 128, 16'384, 32'768};
  asked.mixed_precision = {false, true};
  const auto found = sweep(asked, {.widths = widths});
  REQUIRE(found.trials.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    const trial_outcome expected = i % 4 < 2    ? trial_outcome::ran
                                   : i % 4 == 2 ? trial_outcome::out_of_memory
                                                : trial_outcome::skipped;
    CHECK(found.trials[i].outcome == expected);
    if (expected == trial_outcome::out_of_memory)
      CHECK(has(found.trials[i].message, "cudaErrorMemoryAllocation"));
  }
  // Inputs, outputs and gradients of a sample: fp32, rounded to 256 bytes at most.
  const double rise = *found.trials[1].memory_bytes - *found.trials[0].memory_bytes;
  const double of_sample = 4.0 * (sweep_examples::pixels + 2 * (32 + sweep_examples::digits));
  CHECK(rise == doctest::Approx(127 * (of_sample + 5)).epsilon(0.01));
}

TEST_CASE("a limit takes the rest of the memory away") {
  stand_in::reset();
  const sweep_cuda::training_options limited{.widths = widths,
                                             .memory_limit = std::size_t{33} << 20};
  CHECK(sweep_cuda::device_of(limited).memory_bytes == limited.memory_limit);
  measure::sweep_options asked;
  asked.micro_batches = {1, 1024};
  const auto found = sweep(asked, limited);
  REQUIRE(found.trials.size() == 2);
  CHECK(found.trials[0].outcome == trial_outcome::ran);
  CHECK(found.trials[1].outcome == trial_outcome::out_of_memory);

  stand_in::reset();
  const auto search = [&] {
    measure::sweep_options options;
    options.order = measure::search_order::largest_that_fits;
    return sweep(options, limited);
  }();
  REQUIRE(search.largest_that_fits.size() == 1);
  const std::int64_t most = search.largest_that_fits[0].micro_batch;
  // What 1 MiB beside cuBLASLt's room has left for samples, beside the parameters' 16 bytes each.
  const std::int64_t parameters = (sweep_examples::pixels + 1) * 32 + 33 * sweep_examples::digits;
  const std::int64_t expected = ((std::int64_t{1} << 20) - 16 * parameters) / (4 * (784 + 84) + 5);
  CHECK(most <= expected);
  CHECK(most >= expected - 2);
  CHECK(static_cast<std::int64_t>(search.trials.size()) <= search.trials_bound);
}

TEST_CASE("what fails otherwise is said with its setting, and the rest is measured") {
  stand_in::reset();
  measure::sweep_options asked;
  asked.micro_batches = {1, 2, 3};
  int set_up = 0;
  stand_in::current_matmul().seconds = [&](const stand_in::matmul& m) {
    if (m.d.columns == 2 && ++set_up == 1) stand_in::fail("cudaLaunchKernel", 1, 98);
    return 1e-3;
  };
  const auto found = sweep(asked, {.widths = widths});
  REQUIRE(found.trials.size() == 3);
  CHECK(found.trials[0].outcome == trial_outcome::ran);
  CHECK(found.trials[1].outcome == trial_outcome::failed);
  CHECK(has(found.trials[1].message, "CUDA error 98"));
  CHECK(found.trials[2].outcome == trial_outcome::ran);
}

TEST_CASE("devices are asked for by number") {
  stand_in::reset();
  CHECK(sweep_cuda::device_of({.widths = widths}).name == "Stand-in GPU");
  CHECK(sweep_cuda::device_of({.widths = widths}).memory_bytes == 256 << 20);
  CHECK_THROWS_AS(static_cast<void>(sweep_cuda::device_of({.device = 3})), guides::bad_request);
  stand_in::current().devices.clear();
  CHECK_THROWS_AS(static_cast<void>(sweep_cuda::device_of({})), measure_gpu_program::no_device);
}

}  // namespace

#include <gpuplan/io/measured_sweep.hpp>
#include <gpuplan/sweep.hpp>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "measured_on_monday.hpp"

using namespace gpuplan;

namespace {

// The text of a file beside this folder.
std::string text_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// How errors spread: alike in all rows, in proportion to the time, or to what is not fixed of it.
enum class errors { alike, of_the_time, of_the_samples };

// Steps of 10 s and 0.2 s a sample, timed with errors of 1 % or so.
class noisy_line {
 public:
  static constexpr double fixed = 10;
  static constexpr double per_sample = 0.2;
  [[nodiscard]] static double at(std::int64_t batch) {
    return fixed + per_sample * static_cast<double>(batch);
  }

  noisy_line(errors spread, bool doubling) : spread_(spread), doubling_(doubling) {}

  [[nodiscard]] std::vector<sweep_row> rows(std::int64_t count) {
    std::vector<sweep_row> made;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t batch = doubling_ ? std::int64_t{1} << i : 8 * (i + 1);
      const double scale = spread_ == errors::alike ? 0.01 * fixed
                           : spread_ == errors::of_the_time
                               ? 0.01 * at(batch)
                               : 0.01 * per_sample * static_cast<double>(batch);
      made.push_back({.micro_batch = batch,
                      .forward = duration::from_value(at(batch) + scale * normal_(random_)),
                      .memory = 1_GB});
    }
    return made;
  }

 private:
  errors spread_;
  bool doubling_;
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_;
};

}  // namespace

TEST_CASE("the true slope lies in its range at least as often as stated") {
  constexpr int sweeps = 500;
  for (const errors spread : {errors::alike, errors::of_the_time, errors::of_the_samples})
    for (const bool doubling : {false, true})
      for (const std::int64_t count : {3, 5, 7, 9, 13}) {
        CAPTURE(static_cast<int>(spread));
        CAPTURE(doubling);
        CAPTURE(count);
        noisy_line line(spread, doubling);
        double stated = 0;
        int in_range = 0;
        int foretold = 0;
        for (int i = 0; i < sweeps; ++i) {
          const auto model = measured_time_of(line.rows(count));
          REQUIRE(model);
          const measured_curve<duration>& curve = model->micro_batch;
          stated += curve.confidence / sweeps;
          const range<duration> slope(curve.lower.per_sample, curve.upper.per_sample);
          if (slope.contains(duration::from_value(noisy_line::per_sample))) ++in_range;
          const std::int64_t twice = 2 * curve.span().high();
          const auto said = model->forecast_of({.micro_batch = twice});
          CHECK(said.extrapolates);
          if (said.value.contains(duration::from_value(noisy_line::at(twice)))) ++foretold;
        }
        // Less three standard deviations of a count.
        const double least = stated - 3 * std::sqrt(stated * (1 - stated) / sweeps);
        CHECK(in_range >= least * sweeps);
        CHECK(foretold >= least * sweeps);
      }
}

TEST_CASE("two rows of nine that are far off change a noisy line by a few percent") {
  noisy_line line(errors::of_the_time, true);
  std::mt19937_64 random(5);
  int near = 0;
  constexpr int sweeps = 500;
  for (int i = 0; i < sweeps; ++i) {
    std::vector<sweep_row> rows = line.rows(9);
    const std::size_t high = 1 + random() % 3;
    const std::size_t low = 5 + random() % 3;
    rows[high].forward = 3 * rows[high].forward;
    rows[low].forward = 0.5 * rows[low].forward;
    const auto model = measured_time_of(rows);
    REQUIRE(model);
    bool all_near = model->micro_batch.outliers[high] && model->micro_batch.outliers[low];
    for (std::int64_t n = 1; n <= 256; n *= 2) {
      const double step = model->step({.micro_batch = n}).value();
      if (std::abs(step / noisy_line::at(n) - 1) > 0.04) all_near = false;
    }
    if (all_near) ++near;
  }
  CHECK(near >= 0.99 * sweeps);
}

TEST_CASE("a step that was not measured is no estimate") {
  CHECK_THROWS_AS(static_cast<void>(monday.time.step({.micro_batch = 5'000})), plan_error);
  CHECK(monday.time.step({.micro_batch = 4'096}) < 1_s);
}

TEST_CASE("the header of Monday is what is written") {
  CHECK(io::to_header(monday, "monday") == text_of(GPUPLAN_MEASURED_ON_MONDAY));
}

TEST_CASE("a header says no more than is known, and texts as they are") {
  measured_sweep sweep = monday;
  sweep.origin = {.device = "a \"b\"\n", .date = "2026-11-23"};
  sweep.memory.ran_out_at = {};
  sweep.memory.ran_out_of = {};
  sweep.time.micro_batch.outliers[10] = true;
  const std::string text = io::to_header(sweep, "x");
  CHECK(text.find(".device = \"a \\\"b\\\"\\012\"") != std::string::npos);
  CHECK(text.find("gpu_memory") == std::string::npos);
  CHECK(text.find("ran_out") == std::string::npos);
  CHECK(text.find("false, true, false, false}") != std::string::npos);
}

TEST_CASE("what no header is written of") {
  CHECK_THROWS_AS(static_cast<void>(io::to_header(monday, "2monday")), plan_error);
  measured_sweep undated = monday;
  undated.origin.date = "";
  CHECK_THROWS_AS(static_cast<void>(io::to_header(undated, "monday")), plan_error);
}

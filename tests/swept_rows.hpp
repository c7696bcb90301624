#pragma once

// Rows of sweeps, for tests of what is read off them; the same at compile time and at run time.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace swept_rows {

using namespace gpuplan;

inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr bool near(double a, double b, double tolerance = 1e-12) {
  return detail::abs(a - b) <= tolerance * (detail::abs(b) + 1e-300);
}

constexpr duration seconds(double value) { return duration::from_value(value); }
constexpr bytes byte_count(double value) { return bytes::from_value(value); }

// A row of this step time and memory; how the time splits up matters to the diagnosis alone.
constexpr sweep_row row(std::int64_t batch, double time, double memory, double utilisation = 0.5) {
  return {.micro_batch = batch,
          .workers = 4,
          .mixed_precision = true,
          .data = seconds(time / 4),
          .forward = seconds(time / 4),
          .backward = seconds(time / 2),
          .gpu_utilisation = utilisation,
          .memory = byte_count(memory)};
}

constexpr sweep_row ran_out(std::int64_t batch) {
  return {.micro_batch = batch, .workers = 4, .status = sweep_status::out_of_memory};
}

template <std::size_t Count>
using row_array = std::array<sweep_row, Count>;

// Lines through these are fitted by hand, in fractions.
inline constexpr row_array<3> by_hand{row(1, 3, 3e9), row(2, 4, 4e9), row(4, 8, 8e9)};

inline constexpr row_array<5> bent{row(1, 0.036, 0.15e9),
                                   row(16, 0.050, 0.35e9),
                                   row(128, 0.092, 1.15e9),
                                   row(1024, 0.287, 7.45e9),
                                   row(4096, 0.922, 27.85e9)};

}  // namespace swept_rows

#pragma once

// How the guides' tables show models: parameters in millions, work in TFLOP.

#include <gpuplan/range.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

#include "guides/comparison.hpp"

namespace guides {

inline constexpr const char* parameter_unit = "M";

[[nodiscard]] constexpr shown millions(std::int64_t parameters) {
  return number(static_cast<double>(parameters) / 1e6, 2);
}

[[nodiscard]] constexpr double in_TFLOP(gpuplan::flop_count work) { return work.value() / 1e12; }
[[nodiscard]] constexpr gpuplan::range<double> in_TFLOP(gpuplan::range<gpuplan::flop_count> work) {
  return {in_TFLOP(work.low()), in_TFLOP(work.high())};
}

[[nodiscard]] constexpr double in_TFLOPS(gpuplan::compute_rate rate) { return rate.value() / 1e12; }
[[nodiscard]] constexpr gpuplan::range<double> in_TFLOPS(
    gpuplan::range<gpuplan::compute_rate> rate) {
  return {in_TFLOPS(rate.low()), in_TFLOPS(rate.high())};
}

}  // namespace guides

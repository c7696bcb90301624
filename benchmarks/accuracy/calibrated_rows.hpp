#pragma once

// Timed runs of one source and device, predicted with what a few of them say of their cluster and
// its software.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comparison.hpp"
#include "timed_rows.hpp"

namespace accuracy {

/// The runs of one source on one device.
struct calibrated_group {
  std::string source;
  std::string gpu;
  std::size_t steps = 0;            // that the numbers are estimated from,
  std::vector<timed_row> rows{};    // and the others, by models with these numbers
  std::vector<comparison> times{};  // of these: the time of a step, and the ends of its range
  std::string why_not{};            // blank where there are numbers
};

/// All groups, each with the numbers that so many of its rows give. Which, `seed` says: of rows of
/// no more than 32 GPUs, where there are as many.
std::vector<calibrated_group> calibrated_groups(const std::vector<timed_row>& rows,
                                                std::size_t steps,
                                                std::uint32_t seed);

}  // namespace accuracy

#pragma once

// What an all-reduce among the ranks takes, by size: measured, and as the latency and the bandwidth
// of gpuplan/communication.hpp.

#include <gpuplan/communication.hpp>
#include <gpuplan/measure/curves.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <optional>
#include <vector>

#include "sweep_mpi/ranks.hpp"

namespace sweep_mpi {

/// An all-reduce over sizes, each four times the one before, in the median of its calls. A call is
/// as long as that of the rank for which it was longest.
struct all_reduce_reading {
  int ranks = 1;
  std::vector<gpuplan::measure::transfer_time> times{};
  std::optional<gpuplan::measure::transfer_line> line{};  // t = latency + size / rate
};

struct all_reduce_options {
  std::size_t least_bytes = std::size_t{1} << 10;
  std::size_t most_bytes = std::size_t{4} << 20;
  int calls = 31;      // of each size at most, behind one that is not counted
  double cap_s = 0.2;  // of which these take so much, and one more
};

/// Measures the sum of 32-bit floating-point numbers. Every call starts when all ranks are there.
/// Collective. Throws `std::runtime_error`, on all ranks, where a sum is wrong.
[[nodiscard]] all_reduce_reading measure_all_reduce(const ranks& among,
                                                    const all_reduce_options& options = {});

/// Links by which `collective_time` of an all-reduce among so many ranks of one node, in a ring,
/// takes what the line says: each of the ring's 2 (n - 1) steps has its part of the latency, and a
/// rank sends 2 (n - 1) / n of the message. Precondition: at least 2 ranks.
[[nodiscard]] gpuplan::interconnect links_of(const gpuplan::measure::transfer_line& line,
                                             int ranks);

}  // namespace sweep_mpi

#pragma once

// Measured collectives as the library describes them: rows of `collectives.csv`.

#include <gpuplan/communication.hpp>

#include <string>

#include "comparison.hpp"
#include "csv.hpp"

namespace accuracy {

/// A collective, or a copy, on links of stated rates.
struct described_collective {
  std::string system;  // what rows of one machine have in common: "h200_sxm x 1"
  gpuplan::collective what = gpuplan::collective::all_reduce;
  gpuplan::collective_algorithm by = gpuplan::collective_algorithm::fastest;
  bool is_copy = false;  // between two devices, or a device and its host
  gpuplan::bytes message{};
  gpuplan::device_group group{};
  gpuplan::interconnect links{};
  std::string why_not;  // blank where the library can say how long it takes
};

/// A row's collective. `system` and what does not depend on the links' rates are there for rows too
/// that do not state these. Throws `bad_file` for a cell that none can have.
described_collective describe_collective(const row& source);

/// What is predicted of it: nccl-tests' bus bandwidth, of a copy its rate.
gpuplan::bandwidth predicted_bandwidth(const described_collective& given);

/// The seconds of a collective with this bus bandwidth.
double seconds_at(const described_collective& given, gpuplan::bandwidth bus);

/// What the row measured in GB/s beside what the library predicts.
prediction bus_bandwidth_of(const row& source);

}  // namespace accuracy

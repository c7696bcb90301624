#pragma once

// What was measured, as tables beside the data sheet.

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/measurement_record.hpp>

#include <string>
#include <vector>

#include "guides/render.hpp"

namespace measure_gpu_program {

/// A device and what was measured of it.
struct report {
  gpuplan::gpu_spec spec{};  // whose rates are the data sheet's, where there is one
  gpuplan::io::measurement_record measured{};
  std::vector<std::string> warnings{};  // where the device contradicts its data sheet
};

/// The report in the format asked for. Formats for programs have one row for each measurement, and
/// the quartiles of its samples.
[[nodiscard]] std::string render(const report& of, const guides::output& as);

}  // namespace measure_gpu_program

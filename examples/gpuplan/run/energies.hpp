#pragma once

// What runs draw, as a table.

#include <gpuplan/io/table.hpp>

#include <vector>

#include "run/request.hpp"
#include "run/whole_run.hpp"

namespace run_program {

/// What a GPU and its host draw, and kilowatt-hours and CO2 of each run. Throws
/// `guides::bad_request` where the draw of a GPU is not known.
[[nodiscard]] gpuplan::io::table energies(const request& asked, const std::vector<run>& runs);

}  // namespace run_program

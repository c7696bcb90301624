#pragma once

// DeepSpeed's part of the rows of `runs_null_frameworks.csv`.

#include <gpuplan/training_setup.hpp>

#include <string>

#include "csv.hpp"

namespace accuracy {

/// What the options of a row say, beside the model's shape; the answer is why there is no replay,
/// or blank.
std::string read_deepspeed(const row& source, gpuplan::training_setup& setup);

}  // namespace accuracy

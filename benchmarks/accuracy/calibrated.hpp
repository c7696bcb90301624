#pragma once

// Timed runs predicted from other timed runs: the time model with parts that those scale.

#include <vector>

#include "comparison.hpp"
#include "csv.hpp"

namespace accuracy {

/// Step times by `calibrated_time`. Each row's is calibrated with the other rows of its cell, of
/// these with those of its data-parallel size where there are six: they know what its layers take.
/// A row of several measurements of one configuration counts once.
std::vector<file_comparison> compare_calibrated(const std::vector<csv_file>& files);

}  // namespace accuracy

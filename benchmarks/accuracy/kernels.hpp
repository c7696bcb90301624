#pragma once

// Single kernels, in the columns of `kernels.csv` that measure_torch.py writes.

#include "comparison.hpp"
#include "csv.hpp"

namespace accuracy {

/// Seconds of one kernel in a step of eager code, by the shares that `replayed_time` takes for its
/// device, at the highest clock; or why the library has none: it is no kernel of a step, or ran for
/// so long that the clock fell.
prediction kernel_time_of(const row& source);

}  // namespace accuracy

#pragma once

// Single kernels that others published: rows with `achieved`, a rate in the row's own `unit`.

#include "comparison.hpp"
#include "csv.hpp"

namespace accuracy {

/// What the library says of a row's kernel, in its unit: products, attention and copies by the
/// shares that `replayed_time` takes for the device, layers by `replayed_time::layer`, collectives
/// by `collective_time`. Or why it says nothing: a row that leaves out what its rate is of.
prediction published_rate_of(const row& source);

}  // namespace accuracy

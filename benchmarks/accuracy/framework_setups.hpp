#pragma once

// Training setups of frameworks, in the columns of `runs_null_frameworks.csv`.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row: its columns, and `framework_options`. Throws `bad_file` for a
/// cell that no run can have.
described_setup describe_framework_setup(const row& source);

}  // namespace accuracy

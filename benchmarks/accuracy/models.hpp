#pragma once

// Models as rows of a file describe them, in the columns of `models.csv` and `torch_models.csv`.

#include <gpuplan/model.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "csv.hpp"

namespace accuracy {

/// What the library can say of a row's model.
struct described_model {
  gpuplan::transformer shape{};
  /// Why the row's columns make no model; blank where they do.
  std::string why_not;
  /// What of the model has products that no column describes; blank where nothing has.
  std::string unknown_matmuls;
};

/// The model of one row that is no sum of others. Throws `bad_file` for a cell that no model can
/// have.
described_model describe_model(const row& source);

/// The ids that the column `sum_of` joins with +.
std::vector<std::string> parts_of_sum(const row& source);

}  // namespace accuracy

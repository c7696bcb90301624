#pragma once

// Configurations that NVIDIA published with their models' sizes: runs of source nvidia_exemplar.

#include "comparison.hpp"
#include "csv.hpp"
#include "recipes.hpp"

namespace accuracy {

/// The configuration, whose notes name the recipe that it is of: linear layers cast as there.
described_recipe describe_exemplar(const row& source);

/// Whether it fits its devices, or why that is not known.
prediction exemplar_fits(const row& source);

}  // namespace accuracy

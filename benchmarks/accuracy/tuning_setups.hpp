#pragma once

// Fine-tunes, in the columns of `finetune.csv`.

#include "csv.hpp"
#include "model_index.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row, where its source says all that matters: LitGPT's adapters on
/// one GPU.
described_setup describe_tuning(const row& source, const model_index& models);

}  // namespace accuracy

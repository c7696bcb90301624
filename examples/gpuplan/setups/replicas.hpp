#pragma once

// How many GPUs a layout has, and what replicas and accumulations they make of a batch.

#include <cstdint>

#include "setups/options.hpp"

namespace setups {

/// The GPUs that hold one replica of the model by the degrees.
[[nodiscard]] std::int64_t gpus_of_replica(const arguments& given);
/// All GPUs that files say; 0: they do not. Throws `guides::bad_request` where they are too many.
[[nodiscard]] std::int64_t gpus_of_files(const arguments& given);
/// The GPUs of a node by files; 0: they do not say it.
[[nodiscard]] std::int64_t gpus_per_node_of(const gpuplan::io::training_config& said);
/// All GPUs: those of `--data-parallel` replicas, or where it is not given those that files say,
/// or one replica's.
[[nodiscard]] std::int64_t gpus_of(const arguments& given);

/// The options with the replicas that so many GPUs hold and as many accumulations as a `batch`
/// takes; 0: the batch that files say, or the accumulations. Throws `guides::bad_request`
/// where the degrees do not divide the GPUs or the replicas' micro-batches the batch, with what
/// would be taken.
[[nodiscard]] arguments on_gpus(arguments given, std::int64_t gpus, std::int64_t batch = 0);

}  // namespace setups

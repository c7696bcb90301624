#pragma once

#include <gpuplan/cluster.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/training_config.hpp>

#include <string>
#include <vector>

#include "check/verdict.hpp"
#include "guides/render.hpp"

namespace check_program {

/// A cluster, and what is said of the training on it.
struct judged_cluster {
  gpuplan::cluster on{};
  verdict says{};
};

/// All that is to be said of a training that files configure.
struct answer {
  std::string model;
  gpuplan::io::read_config read{};
  gpuplan::io::configured_training training{};
  std::vector<judged_cluster> clusters{};  // one for each kind of GPU
};

[[nodiscard]] std::string render(const answer& made, const guides::output& as);

}  // namespace check_program

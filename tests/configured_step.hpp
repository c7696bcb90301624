#pragma once

// Training steps of models that Hugging Face configurations describe, as PyTorch measured them.

#include "check.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>

namespace configured {

struct measured_step {
  const char* config = "";         // of config.json, with the class
  gpuplan::batch_plan plan{};      // of one device
  gpuplan::training_setup with{};  // what is not of the configuration
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
  std::int64_t flops = 0;      // of forward and backward
  std::int64_t requested = 0;  // at most,
  std::int64_t allocated = 0;  // likewise
};

inline void check(const measured_step& step) {
  using namespace gpuplan;
  const auto read = io::read_hugging_face_config(step.config);
  INFO(step.config);
  REQUIRE(read.shape);
  training_setup setup = step.with;
  setup.model = *read.shape;
  setup.framework = catalog::implementation_of(read.architecture)->framework;
  REQUIRE(validate(setup, step.plan));
  const memory_counts peak = replay(setup, step.plan)->peak;
  const auto counts = counts_of(setup, step.plan);
  REQUIRE(counts);
  CHECK(counts->parameters == step.parameters);
  CHECK(counts->trainable == step.trainable);
  CHECK(static_cast<std::int64_t>(counts->hardware().value()) == step.flops);
  CHECK(peak.requested == step.requested);
  CHECK(peak.allocated == step.allocated);
}

}  // namespace configured

#pragma once

// Training steps that were measured over a device without kernels, as rows of a test.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

#include "check.hpp"

/// The step that a row is of: its `config` is a config.json, `rank` 0 trains all.
template <class Row>
gpuplan::training_setup setup_of_measured(const Row& row) {
  const auto read = gpuplan::io::read_hugging_face_config(row.config);
  REQUIRE(read.reason == "");
  gpuplan::training_setup setup{
      .model = *read.shape,
      .sequence_length = row.sequence_length,
      .precision = row.precision,
      .optimizer = {.kind = row.optimizer,
                    .loop = row.loop,
                    .clips_gradients = row.clips_gradients},
      .framework = gpuplan::catalog::implementation_of(read.architecture)->framework};
  if (row.recomputes) setup.recompute = gpuplan::recompute_mode::full;
  if (row.rank == 0) return setup;
  setup.trains.what = gpuplan::training::adapters;
  setup.trains.adapters.rank = row.rank;
  setup.trains.adapters.targets = row.targets;
  return setup;
}

/// Whether a row's step takes what was measured on the first of so many ranks, to the byte.
template <class Row>
void check_measured(const Row& row, const gpuplan::training_setup& setup, std::int64_t ranks = 1) {
  CAPTURE(row.config);
  CAPTURE(ranks);
  const gpuplan::batch_plan plan{
      .micro_batch = row.micro_batch, .data_parallel = ranks, .accumulation = row.accumulation};
  REQUIRE(validate(setup, plan));
  const gpuplan::memory_counts peak = gpuplan::replay(setup, plan)->peak;
  CHECK(peak.requested == row.requested);
  CHECK(peak.allocated == row.allocated);
}

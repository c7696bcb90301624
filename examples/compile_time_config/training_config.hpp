#pragma once

// The training configuration of an imaginary repository, as a header: whoever changes a number so
// that the run cannot work gets a compile error that says why. Launcher and trainer include it too,
// so that there is one place for each number.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

#include <cstdint>

namespace policy_training {

using namespace gpuplan;

/// What people decide.
struct training_config {
  gpu_spec gpu;
  batch_plan batch;
  range<std::int64_t> effective_batch;  // the batches in which training is known to converge
  affine_memory memory;
  head_room free;
  tuned_rate tuned;
  std::int64_t steps = 0;
  std::int64_t save_every = 0;  // steps
  checkpoint_storage storage;
};

/// What follows.
struct training_plan {
  bytes memory_needed{};
  bytes memory_allowed{};
  double learning_rate = 0;
  std::int64_t samples = 0;
  std::int64_t checkpoints = 0;
};

/// The plan, or the first thing that is wrong with the configuration.
[[nodiscard]] constexpr result<training_plan> plan(const training_config& c) {
  const memory_budget allowed = keep_free(c.free, c.gpu);
  if (const auto fitting = check(c.batch, allowed, c.memory); !fitting) return fitting.why();

  // A rule of this repository, with an error of the library.
  const std::int64_t effective_batch = c.batch.effective_batch();
  if (!c.effective_batch.contains(effective_batch))
    return failure(errc::out_of_bounds,
                   named_fact{fact::effective_batch, effective_batch},
                   named_fact{fact::effective_batch_low, c.effective_batch.low()},
                   named_fact{fact::effective_batch_high, c.effective_batch.high()});

  const auto rate = scaled_learning_rate(c.tuned, effective_batch, square_root_rule{});
  if (!rate) return rate.why();
  const auto saved = checkpoints_saved(c.steps, c.save_every);
  if (!saved) return saved.why();
  const auto room = checkpoints_that_fit(c.storage);
  if (!room) return room.why();
  if (*saved > room->low())
    return failure(errc::out_of_bounds,
                   named_fact{fact::checkpoints, *saved},
                   named_fact{fact::at_most, room->low()})
        .about(fact::save_every);

  return training_plan{.memory_needed = c.memory.required(c.batch),
                       .memory_allowed = allowed.size(),
                       .learning_rate = midpoint(*rate),
                       .samples = c.steps * effective_batch,
                       .checkpoints = *saved};
}

inline constexpr training_config config{
    .gpu = catalog::rtx_4090,
    .batch = {.micro_batch = 11, .data_parallel = 4, .accumulation = 3},
    .effective_batch = {120, 144},
    .memory = {.fixed = 7_GB, .per_sample = 1.2_GB},
    .free = recommended,
    .tuned = {.learning_rate = 1e-4, .effective_batch = 32},
    .steps = 10'000,
    .save_every = 5'000,
    .storage = {.quota = 40_GB, .used = 1_GB, .final_model = 8_GB, .checkpoint = 8_GB},
};

// This line is the validation.
inline constexpr training_plan planned = require([] { return plan(config); });

// What this team has agreed on, beside what the library knows.
static_assert(*solve_batch({.effective_batch = config.effective_batch,
                            .data_parallel = config.batch.data_parallel,
                            .gpu = keep_free(config.free, config.gpu)},
                           config.memory) == config.batch,
              "there is a better batch for these GPUs: take what solve_batch gives");
static_assert(config.steps % config.save_every == 0, "the last step must be saved");

}  // namespace policy_training

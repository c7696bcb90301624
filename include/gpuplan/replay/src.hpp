#pragma once

// What replays a step at run time takes a compiler some twenty seconds to optimise, in each file
// that calls it. A program of many such files links gpuplan::replay, or without CMake defines
// GPUPLAN_COMPILED_REPLAY for all of them and includes this in one. While compiling nothing
// changes.

#include <gpuplan/replay/training_job.hpp>

namespace gpuplan::eager {

// NOLINTBEGIN(misc-definitions-in-headers)
void train_compiled(memory_events& memory,
                    const training_setup& setup,
                    const batch_plan& plan,
                    device_traits device,
                    storage_watcher* watcher,
                    job_user& user) {
  train_here(memory, setup, plan, device, watcher, user);
}
// NOLINTEND(misc-definitions-in-headers)

}  // namespace gpuplan::eager

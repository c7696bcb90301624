#pragma once

// What replays a step at run time takes a compiler some twenty seconds to optimise, in each file
// that calls it. A program of many such files links gpuplan::replay, or without CMake defines
// GPUPLAN_COMPILED_REPLAY for all of them and includes this in one. While compiling nothing
// changes.

#include <gpuplan/replay/training_job.hpp>

namespace gpuplan::eager {

// NOLINTBEGIN(misc-definitions-in-headers)
training_job_here* build_training_job(memory_events& memory,
                                      const training_setup& setup,
                                      const batch_plan& plan,
                                      device_traits device,
                                      storage_watcher* watcher) {
  return new training_job_here(memory, setup, plan, device, watcher);
}
void tear_down(training_job_here* job) { delete job; }
void settle(training_job_here& job) { job.settle(); }
void step(training_job_here& job) { job.step(); }
// NOLINTEND(misc-definitions-in-headers)

}  // namespace gpuplan::eager

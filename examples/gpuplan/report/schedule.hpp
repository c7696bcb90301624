#pragma once

// Which stage of a pipeline does what when.

#include <gpuplan/parallelism.hpp>
#include <gpuplan/time/pipeline.hpp>

#include <vector>

namespace report_program {

/// A forward or a backward of one micro-batch through one chunk of a stage.
struct pipeline_task {
  int stage = 0;
  int micro_batch = 0;
  int chunk = 0;
  bool is_forward = true;
  double begin = 0;  // s
  double end = 0;
};

/// Every task of the line, stage by stage in the order of the schedule: GPipe; one forward, one
/// backward; or that interleaved, as Megatron-LM has it. A task begins once its stage is free and
/// what it needs has come. What the first stage takes more than the middle ones belongs to its
/// first chunk, what the last one takes more to its last: the last of all tasks ends at
/// `detail::pipeline_time`, as exactly as that is. Preconditions: those of `pipeline_time`; the
/// schedule defers no gradients of weights.
[[nodiscard]] std::vector<pipeline_task> tasks_of(const gpuplan::detail::pipeline_seconds& line,
                                                  gpuplan::pipeline_schedule schedule);

}  // namespace report_program

#pragma once

// Which stage of a pipeline does what when.

#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/sharding/pass_order.hpp>
#include <gpuplan/time/pipeline.hpp>

#include <string>
#include <vector>

namespace report_program {

/// A pass of one micro-batch through one chunk of a stage.
struct pipeline_task {
  int stage = 0;
  int micro_batch = 0;  // of the step's
  int chunk = 0;
  gpuplan::eager::pass_kind what{};
  double begin = 0;  // s
  double end = 0;
};

/// Every task of the line, stage by stage in the order in which the replay does them
/// (`eager::pass_order`). A task begins once its stage is free and what it needs has come. What the
/// first stage takes more than the middle ones belongs to its first chunk, what the last one takes
/// more to its last, and where a rank has both ends all of it to the head's: the last of all tasks
/// ends at `detail::pipeline_time`, as exactly as that is. Preconditions: those of `pipeline_time`.
[[nodiscard]] std::vector<pipeline_task> tasks_of(const gpuplan::detail::pipeline_seconds& line,
                                                  gpuplan::pipeline_schedule schedule);

/// How passes are drawn, in the order of `pass_kind`. Whoever sees fewer colours tells them too.
inline constexpr struct {
  const char* name;
  const char* fill;
} pass_looks[] = {{"forward", "#b3d9f0"},
                  {"backward", "#3d9bdc"},
                  {"backward of inputs", "#f7d06b"},
                  {"backward of weights", "#b07aa1"}};
inline constexpr const char* ink_of_passes = "#1a1a1a";

/// What the passes are that are drawn with a line along their foot: those of odd chunks.
[[nodiscard]] std::string mark_of(const gpuplan::parallelism& layout);

/// "stage 2, waits 13 %": of the time from the first pass of all to the last.
[[nodiscard]] std::vector<std::string> names_of_stages(const std::vector<pipeline_task>& tasks);

}  // namespace report_program

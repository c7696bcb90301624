#pragma once

// What a row of a sweep says about its setting.

#include <gpuplan/memory_model.hpp>
#include <gpuplan/sweep/rows.hpp>

namespace gpuplan {

/// What a row says about its setting: any of these may hold at once.
struct sweep_diagnosis {
  double data_share = 0;    // of the step
  double memory_share = 0;  // of the GPU's memory

  bool loading_bound = false;     // waits for data longer than either threshold allows
  bool under_utilised = false;    // utilisation below its band
  bool compute_bound = false;     // not under-utilised, and computes longer than it waits for data
  bool memory_head_room = false;  // memory below its band: the batch can grow
  bool memory_tight = false;      // memory above its band: near running out
};

/// Reads one row on `gpu`. Errors: as `validate`; `row_ran_out` for a row without measurements;
/// `not_finite` where the GPU has next to no memory.
[[nodiscard]] constexpr result<sweep_diagnosis> diagnose(const sweep_row& row,
                                                         memory_budget gpu,
                                                         const sweep_thresholds& thresholds) {
  if (const failure why = detail::flaw_of(row, 0); detail::failed(why)) return why;
  if (const auto valid = validate(thresholds); !valid) return valid.why();
  if (const failure why = detail::flaw_of_budget(gpu); detail::failed(why)) return why;
  if (!detail::ran(row))
    return failure(errc::row_ran_out, named_fact{fact::micro_batch, row.micro_batch});

  sweep_diagnosis found{.data_share = row.data.value() / step_time(row).value(),
                        .memory_share = in(row.memory, gpu.size())};
  if (!detail::is_finite(found.memory_share))
    return failure(errc::not_finite, named_fact{fact::memory_share, found.memory_share});
  found.loading_bound = row.data > thresholds.data_time || found.data_share > thresholds.data_share;
  found.under_utilised = row.gpu_utilisation < thresholds.utilisation.low();
  const duration computed = row.forward + row.backward + row.optimizer;
  found.compute_bound =
      !found.under_utilised && computed > row.data && computed > row.communication;
  found.memory_head_room = row.memory < gpu.size() * thresholds.memory_share.low();
  found.memory_tight = row.memory > gpu.size() * thresholds.memory_share.high();
  return found;
}

}  // namespace gpuplan

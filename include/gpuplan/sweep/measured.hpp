#pragma once

// One setting of a sweep as what plans are made from: a memory model and a time model, with the
// device, the model and the day that they are of.

#include <gpuplan/sweep/measured_memory.hpp>
#include <gpuplan/sweep/measured_time.hpp>
#include <gpuplan/sweep/rows.hpp>

namespace gpuplan {

/// What a sweep ran on, and when. The texts outlive what is made of them.
struct sweep_origin {
  const char* device = "";    // by the name that its driver gives
  const char* model = "";     // what was trained
  const char* date = "";      // "2026-11-23"
  known<bytes> gpu_memory{};  // what a step could take
};

/// What a sweep measured of one setting, as io/measured_sweep.hpp writes it to a header.
struct measured_sweep {
  sweep_origin origin{};
  std::int64_t workers = 0;
  bool mixed_precision = false;
  bool pinned_memory = false;
  measured_memory memory{};
  measured_time time{};
};

/// The sweep itself where it is dated and both models are valid. Errors: `undated_measurement`, and
/// as `validate` of the models.
[[nodiscard]] constexpr result<measured_sweep> validate(const measured_sweep& sweep) {
  if (*sweep.origin.date == '\0')
    return failure(errc::undated_measurement).about(sweep.origin.device);
  if (const auto valid = validate(sweep.memory); !valid) return valid.why();
  if (const auto valid = validate(sweep.time); !valid) return valid.why();
  return sweep;
}

/// Both models of the rows of one setting. Errors: as `measured_memory_of` and `measured_time_of`;
/// `undated_measurement`.
[[nodiscard]] constexpr result<measured_sweep> measured_sweep_of(
    sweep_rows rows, const sweep_origin& origin, double line_tolerance = usual_line_tolerance) {
  if (*origin.date == '\0') return failure(errc::undated_measurement).about(origin.device);
  const auto memory = measured_memory_of(rows, origin.gpu_memory, line_tolerance);
  if (!memory) return memory.why();
  const auto time = measured_time_of(rows, line_tolerance);
  if (!time) return time.why();
  return measured_sweep{.origin = origin,
                        .workers = rows[0].workers,
                        .mixed_precision = rows[0].mixed_precision,
                        .pinned_memory = rows[0].pinned_memory,
                        .memory = *memory,
                        .time = *time};
}

}  // namespace gpuplan

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
  const char* date = "";      // "2026-11-23": year, month and day
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

namespace detail {

// Whether a text is a day of the Gregorian calendar as "2026-11-23".
constexpr bool is_date(const char* text) {
  int numbers[3]{};
  constexpr int digits[3]{4, 2, 2};
  for (int part = 0; part < 3; ++part) {
    if (part > 0 && *text++ != '-') return false;
    for (int i = 0; i < digits[part]; ++i, ++text) {
      if (*text < '0' || *text > '9') return false;
      numbers[part] = 10 * numbers[part] + (*text - '0');
    }
  }
  if (*text != '\0') return false;
  const int year = numbers[0];
  const int month = numbers[1];
  if (month < 1 || month > 12) return false;
  constexpr int days[12]{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  const int last = days[month - 1] + (month == 2 && is_leap ? 1 : 0);
  return numbers[2] >= 1 && numbers[2] <= last;
}

// What is wrong with an origin, or no failure.
constexpr failure flaw_of_origin(const sweep_origin& origin) {
  if (is_date(origin.date)) return {};
  return failure(errc::undated_measurement)
      .about(*origin.date == '\0' ? origin.device : origin.date);
}

}  // namespace detail

/// The sweep itself where it is dated and both models are valid. Errors: `undated_measurement`
/// without a date as "2026-11-23", with that or the device's name, and as `validate` of the models.
[[nodiscard]] constexpr result<measured_sweep> validate(const measured_sweep& sweep) {
  if (const failure why = detail::flaw_of_origin(sweep.origin); detail::failed(why)) return why;
  if (const auto valid = validate(sweep.memory); !valid) return valid.why();
  if (const auto valid = validate(sweep.time); !valid) return valid.why();
  return sweep;
}

/// Both models of the rows of one setting. Errors: as `measured_memory_of` and `measured_time_of`;
/// `undated_measurement`.
[[nodiscard]] constexpr result<measured_sweep> measured_sweep_of(
    sweep_rows rows, const sweep_origin& origin, double line_tolerance = usual_line_tolerance) {
  if (const failure why = detail::flaw_of_origin(origin); detail::failed(why)) return why;
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

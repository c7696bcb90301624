#pragma once

// How often jobs on many devices are interrupted: as somebody counted it, and for another job.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// Interruptions that nobody planned, of all jobs together that ran on so many devices for so long.
/// What is published as a rate is stated as a count of as many device-days.
struct counted_interruptions {
  const char* id = "";
  const char* name = "";
  std::int64_t devices = 0;
  duration time{};
  double device = 0;    // GPUs and their memory
  double node = 0;      // hosts: processor, memory, disk, power, maintenance
  double network = 0;   // switches, cables, adapters
  double software = 0;  // and what nobody found out
  double unsorted = 0;  // of any of these kinds, where they were not told apart
  const char* source = "";

  [[nodiscard]] constexpr double total() const {
    return device + node + network + software + unsorted;
  }
};

/// The counts themselves where there is a device, a positive finite time, no negative count and an
/// interruption at all; else `not_positive`, `negative` or `not_finite`.
[[nodiscard]] constexpr result<counted_interruptions> validate(
    const counted_interruptions& counted) {
  if (counted.devices < 1)
    return failure(errc::not_positive, named_fact{fact::devices, counted.devices});
  if (const failure why = detail::check_positive(counted.time, fact::time); detail::failed(why))
    return why;
  for (const double count :
       {counted.device, counted.node, counted.network, counted.software, counted.unsorted}) {
    if (!detail::is_finite(count))
      return failure(errc::not_finite, named_fact{fact::interruptions, count});
    if (count < 0) return failure(errc::negative, named_fact{fact::interruptions, count});
  }
  if (const failure why = detail::check_positive(counted.total(), fact::interruptions);
      detail::failed(why))
    return why;
  return counted;
}

/// The device-time between two interruptions: `devices x time / total`. Errors: `validate`, an
/// answer that is not positive and finite.
[[nodiscard]] constexpr result<duration> device_time_between_failures(
    const counted_interruptions& counted) {
  if (const auto valid = validate(counted); !valid) return valid.why();
  return detail::positive_answer(
      duration(static_cast<double>(counted.devices) * (counted.time / counted.total())),
      fact::mean_time_between_failures);
}

/// The mean time between failures of a job: the device-time over its devices. Valid where devices
/// fail independently at a constant rate, and each failure interrupts the whole job; Meta found it
/// to hold to thousands of GPUs (Kokolis et al. 2024, arXiv:2410.21680, section on job failures).
/// Errors: a time, also the answer, that is not positive and finite; fewer than 1 device.
[[nodiscard]] constexpr result<duration> mean_time_between_failures(duration device_time,
                                                                    std::int64_t devices) {
  if (const failure why = detail::check_positive(device_time, fact::mean_time_between_failures);
      detail::failed(why))
    return why;
  if (devices < 1) return failure(errc::not_positive, named_fact{fact::devices, devices});
  return detail::positive_answer(duration(device_time / static_cast<double>(devices)),
                                 fact::mean_time_between_failures);
}

}  // namespace gpuplan

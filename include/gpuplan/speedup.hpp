#pragma once

// Speed-ups: of more devices, and of optimisations that each touch a part of the training step.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace gpuplan {

// ---- more devices

/// A model of scaling: `speedup(devices)` is how many times the throughput of one device `devices`
/// of them reach.
template <class Model>
concept scaling_model = requires(const Model& model, std::int64_t devices) {
  { model.speedup(devices) } -> std::same_as<result<range<double>>>;
};

/// What share of its ideal speed-up a number of devices reaches: `speedup / devices`. Above 1 where
/// the speed-up is superlinear. Errors: fewer devices than 1, a speed-up that is not positive and
/// finite.
[[nodiscard]] constexpr result<range<double>> scaling_efficiency(range<double> speedup,
                                                                 std::int64_t devices) {
  if (const failure why = detail::check_at_least(devices, 1, fact::devices); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(speedup, "speedup"); detail::failed(why))
    return why;
  return speedup / static_cast<double>(devices);
}

/// The efficiency that a model gives; errors as the model's.
template <scaling_model Model>
[[nodiscard]] constexpr result<range<double>> scaling_efficiency(const Model& model,
                                                                 std::int64_t devices) {
  const result<range<double>> speedup = model.speedup(devices);
  if (!speedup) return speedup;
  return scaling_efficiency(*speedup, devices);
}

/// The share of the devices' time that is not useful work, `1 - speedup / devices`: communication,
/// where nothing else is lost. Errors as `scaling_efficiency`.
[[nodiscard]] constexpr result<range<double>> communication_share(range<double> speedup,
                                                                  std::int64_t devices) {
  const result<range<double>> efficiency = scaling_efficiency(speedup, devices);
  if (!efficiency) return efficiency;
  return 1.0 - *efficiency;
}

/// The serial fraction of Amdahl's law that a measured speed-up S on N >= 2 devices implies,
/// `(N/S - 1) / (N - 1)`: the metric of Karp and Flatt, "Measuring Parallel Processor Performance",
/// CACM 33(5), 1990. Negative where the speed-up is superlinear. A fraction that grows with N says
/// that overhead grows, not that work is serial. Errors as `scaling_efficiency`.
[[nodiscard]] constexpr result<range<double>> karp_flatt(range<double> speedup,
                                                         std::int64_t devices) {
  if (const failure why = detail::check_at_least(devices, 2, fact::devices); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(speedup, "speedup"); detail::failed(why))
    return why;
  const double n = static_cast<double>(devices);
  return (n / speedup - 1.0) / (n - 1);
}

/// Amdahl's law (AFIPS 1967): a share of the work, 0 to 1, does not spread over devices. The
/// speed-up is `1 / (f + (1 - f) / N)` and stays below `1 / f`.
struct amdahl_scaling {
  range<double> serial_fraction;

  /// Errors: fewer devices than 1, a serial fraction outside 0 to 1.
  [[nodiscard]] constexpr result<range<double>> speedup(std::int64_t devices) const {
    if (const failure why = detail::check_at_least(devices, 1, fact::devices); detail::failed(why))
      return why;
    if (const failure why = detail::check_between(serial_fraction, 0, 1, "serial_fraction");
        detail::failed(why))
      return why;
    // Written so that f stands there once: interval arithmetic is exact only then.
    const double n = static_cast<double>(devices);
    return n / (1.0 + serial_fraction * (n - 1));
  }
};

/// The efficiency stated or measured for one number of devices, 1 for perfect scaling.
struct scaling_entry {
  std::int64_t devices = 1;
  range<double> efficiency = 1.0;
};

/// Efficiencies as a table, by rising number of devices: `scaling_table({{2, 0.95}, {4, 0.9}})`.
/// One device has efficiency 1 and needs no entry. Between two entries the *inverse* efficiency,
/// N/S, is linear in N: a constant overhead per added device, which Amdahl's law has throughout. So
/// the speed-up rises between two entries if it rises from the one to the other.
template <std::size_t Count>
struct scaling_table {
  scaling_entry entries[Count]{};

  constexpr scaling_table() = default;
  constexpr explicit scaling_table(const scaling_entry (&given)[Count]) {
    for (std::size_t i = 0; i < Count; ++i) entries[i] = given[i];
  }

  /// Errors: fewer devices than 1 or more than the last entry has, since a table knows nothing
  /// beyond; a table that `validate` rejects.
  [[nodiscard]] constexpr result<range<double>> speedup(std::int64_t devices) const {
    if (const auto valid = validate(*this); !valid) return valid.why();
    if (const failure why = detail::check_at_least(devices, 1, fact::devices); detail::failed(why))
      return why;
    const double n = static_cast<double>(devices);
    scaling_entry below{};
    for (const scaling_entry& above : entries) {
      if (above.devices == devices) return n * above.efficiency;
      if (above.devices > devices) {
        const double part = static_cast<double>(devices - below.devices) /
                            static_cast<double>(above.devices - below.devices);
        return n / ((1 - part) / below.efficiency + part / above.efficiency);
      }
      below = above;
    }
    return failure(errc::out_of_bounds,
                   named_fact{fact::devices, devices},
                   named_fact{fact::at_most, below.devices});
  }
};

/// The table itself where its numbers of devices rise from at least 1 and its efficiencies are
/// positive and finite.
template <std::size_t Count>
[[nodiscard]] constexpr result<scaling_table<Count>> validate(const scaling_table<Count>& table) {
  std::int64_t previous = 0;
  for (const scaling_entry& entry : table.entries) {
    if (entry.devices <= previous)
      return failure(errc::not_rising, named_fact{fact::devices, entry.devices});
    if (const failure why = detail::check_positive(entry.efficiency, "efficiency");
        detail::failed(why))
      return why;
    previous = entry.devices;
  }
  return table;
}

}  // namespace gpuplan

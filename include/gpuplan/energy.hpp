#pragma once

// What a run takes from the socket: what devices draw in each phase of a step and while nothing
// runs, their share of the host, the building's cooling, and the grid's CO2.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// What a device draws while it does one thing, as shares of its power limit.
struct phase_draws {
  double computing = 0;      // forward, backward and recomputation: products, most of the time
  double moving = 0;         // the optimizer: bound by the device's memory
  double communicating = 0;  // kernels of exposed communication alone
  double waiting = 0;        // for launches, samples, other stages; and while nothing runs
};

/// Those of an H100 SXM5 at 700 W, measured on 2026-11-22 (benchmarks/results). Computing: the
/// median of 16 steps of 0.2 s and longer in bf16 with FlashAttention; 80 % of them lie from 0.93
/// to 0.99, and steps with eager attention or in fp32 go down to 0.76. Moving: the middle of copy,
/// triad, read and write, 0.71 to 0.99. Waiting: the least of 249 layers, which the host hardly
/// kept busy; a device without a job draws half of that. Communicating was not measured: the middle
/// of waiting and moving, which bound it; operators see it fall towards waiting (Choukse et al.
/// 2025, arXiv:2508.14318).
inline constexpr phase_draws h100_draws{
    .computing = 0.97, .moving = 0.86, .communicating = 0.53, .waiting = 0.2};

/// The draws themselves where each is a share, and a device that waits draws something; else
/// `not_finite`, `out_of_bounds`, `not_positive`.
[[nodiscard]] constexpr result<phase_draws> validate(const phase_draws& draws) {
  for (const double share : {draws.computing, draws.moving, draws.communicating, draws.waiting})
    if (const failure why = detail::check_between(share, 0, 1, fact::share); detail::failed(why))
      return why;
  if (const failure why = detail::check_positive(draws.waiting, fact::share); detail::failed(why))
    return why;
  return draws;
}

/// The average share of its power limit that a device draws in a step: the draws of its phases,
/// each for as long as it takes. Errors: `validate`; a step that takes no finite time
/// (`not_positive`, `not_finite`), or a phase that takes less than none (`negative`).
[[nodiscard]] constexpr result<double> average_draw(const step_breakdown& step,
                                                    const phase_draws& draws) {
  if (const auto valid = validate(draws); !valid) return valid.why();
  const duration waiting = step.data + step.bubble + step.host;
  const duration computing = step.forward + step.backward + step.recompute;
  for (const duration& part : {computing, step.optimizer, step.communication(), waiting})
    if (part < duration{}) return failure(errc::negative, named_fact{fact::step, part.value()});
  const duration all = step.total();
  if (const failure why = detail::check_positive(all, fact::step); detail::failed(why)) return why;
  const double drawn = (draws.computing * computing + draws.moving * step.optimizer +
                        draws.communicating * step.communication() + draws.waiting * waiting) /
                       all;
  return drawn;
}

/// What a device and what belongs to it draw.
struct run_draw {
  power training{};  // of a device in a step: its limit times `average_draw`
  power waiting{};   // of a device while nothing trains: failures, restarts, checkpoints
  power host{};      // its share of processors, host memory, network and fans
  double pue = 1;    // power usage effectiveness: of the building over its computers
};

/// The draw itself where no power is negative or infinite, the device's in a step is positive, and
/// the PUE is 1 to 10. Errors: `not_finite`, `negative`, `not_positive`, `out_of_bounds`.
[[nodiscard]] constexpr result<run_draw> validate(const run_draw& draw) {
  for (const power& each : {draw.training, draw.waiting, draw.host}) {
    if (!detail::is_finite(each.value()))
      return failure(errc::not_finite, named_fact{fact::power_draw, each.value()});
    if (each < power{}) return failure(errc::negative, named_fact{fact::power_draw, each.value()});
  }
  if (const failure why = detail::check_positive(draw.training.value(), fact::power_draw);
      detail::failed(why))
    return why;
  if (const failure why = detail::check_between(draw.pue, 1, 10, fact::factor); detail::failed(why))
    return why;
  return draw;
}

/// The energy of a run on so many devices: `PUE devices ((training + lost) x training's draw + the
/// rest x waiting's draw + all x host)`. Errors: `validate`; fewer than 1 device; parts that are
/// negative or take no time; an energy that is not positive and finite.
[[nodiscard]] constexpr result<energy> energy_used(const run_time_parts& parts,
                                                   std::int64_t devices,
                                                   const run_draw& draw) {
  if (const auto valid = validate(draw); !valid) return valid.why();
  if (const failure why = detail::check_at_least(devices, 1, fact::devices); detail::failed(why))
    return why;
  const duration busy = parts.training + parts.lost;
  const duration rest = parts.saving + parts.detection + parts.restart + parts.waiting;
  for (const duration& part : {busy, rest})
    if (part < duration{}) return failure(errc::negative, named_fact{fact::time, part.value()});
  if (const failure why = detail::check_positive(duration(busy + rest), fact::time);
      detail::failed(why))
    return why;
  const energy each = busy * draw.training + rest * draw.waiting + (busy + rest) * draw.host;
  return detail::positive_answer(energy(draw.pue * static_cast<double>(devices) * each),
                                 fact::energy_used);
}

/// Kilograms of CO2 of an energy at a grid's grams of CO2 of a kWh. Errors: an energy that is not
/// positive and finite; grams that are negative or not finite; an answer that is not finite.
[[nodiscard]] constexpr result<double> carbon_kg(energy used, double grams_per_kWh) {
  if (const failure why = detail::check_positive(used.value(), fact::energy_used);
      detail::failed(why))
    return why;
  if (!detail::is_finite(grams_per_kWh))
    return failure(errc::not_finite, named_fact{fact::value, grams_per_kWh});
  if (grams_per_kWh < 0) return failure(errc::negative, named_fact{fact::value, grams_per_kWh});
  return detail::finite_answer(in(used, 1_kWh) * (grams_per_kWh / 1000), fact::value);
}

}  // namespace gpuplan

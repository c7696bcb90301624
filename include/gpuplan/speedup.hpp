#pragma once

// Speed-ups: of more devices, and of optimisations that each touch a part of the training step.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

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
  if (const failure why = detail::check_positive(speedup, fact::speedup); detail::failed(why))
    return why;
  return detail::positive_answer(speedup / static_cast<double>(devices), fact::efficiency);
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
  if (const failure why = detail::check_positive(speedup, fact::speedup); detail::failed(why))
    return why;
  const double n = static_cast<double>(devices);
  return detail::finite_answer((n / speedup - 1.0) / (n - 1), fact::serial_fraction);
}

/// Amdahl's law (AFIPS 1967): a share of the work, 0 to 1, does not spread over devices. The
/// speed-up is `1 / (f + (1 - f) / N)` and stays below `1 / f`.
struct amdahl_scaling {
  range<double> serial_fraction{};

  /// Errors: fewer devices than 1, a serial fraction outside 0 to 1.
  [[nodiscard]] constexpr result<range<double>> speedup(std::int64_t devices) const {
    if (const failure why = detail::check_at_least(devices, 1, fact::devices); detail::failed(why))
      return why;
    if (const failure why = detail::check_between(serial_fraction, 0, 1, fact::serial_fraction);
        detail::failed(why))
      return why;
    // Written so that f stands there once: interval arithmetic is exact only then.
    const double n = static_cast<double>(devices);
    return n / (1.0 + serial_fraction * (n - 1));
  }
};

/// One process that drives all devices (`torch.nn.DataParallel`, under Python's global interpreter
/// lock): it launches their work in turn, so that it holds the devices up once its own work for all
/// of them outlasts theirs. The speed-up is at most `min(N, 1 / host_share)`, where `host_share` is
/// the host's part of the time of a step on one device; gathering on the first device, which comes
/// on top, is left out. A process per device (DistributedDataParallel) has no such bound.
struct single_process_scaling {
  range<double> host_share{};  // above 0, up to 1

  /// Errors: fewer devices than 1, a host share outside 0 to 1 or of 0.
  [[nodiscard]] constexpr result<range<double>> speedup(std::int64_t devices) const {
    if (const failure why = detail::check_at_least(devices, 1, fact::devices); detail::failed(why))
      return why;
    if (const failure why = detail::check_positive(host_share, fact::host_share);
        detail::failed(why))
      return why;
    if (const failure why = detail::check_between(host_share, 0, 1, fact::host_share);
        detail::failed(why))
      return why;
    const double n = static_cast<double>(devices);
    const range<double> bound = 1.0 / host_share;
    return range<double>(bound.low() < n ? bound.low() : n, bound.high() < n ? bound.high() : n);
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
      if (above.devices == devices)
        return detail::positive_answer(n * above.efficiency, fact::speedup);
      if (above.devices > devices) {
        const double part = static_cast<double>(devices - below.devices) /
                            static_cast<double>(above.devices - below.devices);
        const range<double> overhead = (1 - part) / below.efficiency + part / above.efficiency;
        return detail::positive_answer(n / overhead, fact::speedup);
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
    if (const failure why = detail::check_positive(entry.efficiency, fact::efficiency);
        detail::failed(why))
      return why;
    previous = entry.devices;
  }
  return table;
}

// ---- what "faster" means

/// How many times as fast something runs whose time falls by `share`, 0 to below 1:
/// `1 / (1 - share)`. "40 % faster" read so is 1.67 times.
[[nodiscard]] constexpr result<range<double>> factor_of_time_saved(range<double> share) {
  if (const failure why = detail::check_between(share, 0, 1, fact::time_saved); detail::failed(why))
    return why;
  if (share.high() == 1) return detail::about_range(errc::out_of_bounds, share, fact::time_saved);
  return 1.0 / (1.0 - share);
}

/// How many times as fast something runs whose rate grows by `share` of itself, at least 0:
/// `1 + share`. "40 % faster" read so is 1.4 times.
[[nodiscard]] constexpr result<range<double>> factor_of_rate_gained(range<double> share) {
  if (share.low() < 0) return detail::about_range(errc::negative, share, fact::rate_gained);
  if (!detail::is_finite(share.high()))
    return detail::about_range(errc::not_finite, share, fact::rate_gained);
  return 1.0 + share;
}

/// The share of the time that a speed-up saves: `1 - 1 / factor`. Negative for a slow-down.
[[nodiscard]] constexpr result<range<double>> time_saved(range<double> factor) {
  if (const failure why = detail::check_positive(factor, fact::factor); detail::failed(why))
    return why;
  return detail::finite_answer(1.0 - 1.0 / factor, fact::time_saved);
}

/// The share by which a speed-up raises the rate: `factor - 1`. Negative for a slow-down.
[[nodiscard]] constexpr result<range<double>> rate_gained(range<double> factor) {
  if (const failure why = detail::check_positive(factor, fact::factor); detail::failed(why))
    return why;
  return factor - 1.0;
}

// ---- optimisations of a part of the step

/// The parts of a training step, one after another. `other` is what the caller means by it.
enum class phase { data, forward, backward, optimizer, communication, other };
inline constexpr int phase_count = 6;

/// A set of phases: `{phase::forward, phase::backward}`.
class phases {
 public:
  constexpr phases() = default;
  constexpr phases(phase one) { add(one); }                 // NOLINT(google-explicit-constructor)
  constexpr phases(std::initializer_list<phase> members) {  // NOLINT(google-explicit-constructor)
    for (const phase member : members) add(member);
  }

  [[nodiscard]] constexpr bool contains(phase p) const { return (bits_ & bit(p)) != 0; }

 private:
  unsigned bits_ = 0;

  static constexpr unsigned bit(phase p) { return 1U << static_cast<unsigned>(p); }
  constexpr void add(phase p) { bits_ |= bit(p); }
};

/// Something that makes some phases `factor` times as fast and leaves the others alone.
struct optimisation {
  phases touches{};
  range<double> factor = 1.0;
};

/// The optimisation itself where its factor is positive and finite.
[[nodiscard]] constexpr result<optimisation> validate(const optimisation& step) {
  if (const failure why = detail::check_positive(step.factor, fact::factor); detail::failed(why))
    return why;
  return step;
}

/// The share of the step's time that each phase takes, before any optimisation. A range says that
/// it is not known better, and the default that it is not known at all; the true shares add up to
/// 1, so that phases not named take nothing where those named already do.
struct phase_shares {
  range<double> data{0, 1};
  range<double> forward{0, 1};
  range<double> backward{0, 1};
  range<double> optimizer{0, 1};
  range<double> communication{0, 1};
  range<double> other{0, 1};

  [[nodiscard]] constexpr range<double> operator[](phase p) const {
    const range<double> all[phase_count]{data, forward, backward, optimizer, communication, other};
    return all[static_cast<int>(p)];
  }
};

/// The shares themselves where each lies within 0 to 1 and some of them add up to 1, to 1e-9 (else
/// `errc::no_such_shares` with the lowest and the highest sum).
[[nodiscard]] constexpr result<phase_shares> validate(const phase_shares& shares) {
  double low = 0;
  double high = 0;
  for (int p = 0; p < phase_count; ++p) {
    const range<double> share = shares[static_cast<phase>(p)];
    if (const failure why = detail::check_between(share, 0, 1, fact::share); detail::failed(why))
      return why;
    low += share.low();
    high += share.high();
  }
  if (low > 1 + 1e-9 || high < 1 - 1e-9)
    return detail::about_range(errc::no_such_shares, {low, high}, fact::sum);
  return shares;
}

namespace detail {

// The least time of a step whose phases take `time[p]` times what they took, over all shares that
// add up to 1; for the most time, call it with negative times. What the lower ends leave over goes
// to the quickest phases first.
[[nodiscard]] constexpr double least_time(const phase_shares& shares,
                                          const double (&time)[phase_count]) {
  double left = 1;
  double total = 0;
  bool full[phase_count]{};
  for (int p = 0; p < phase_count; ++p) {
    const double share = shares[static_cast<phase>(p)].low();
    left -= share;
    total += share * time[p];
  }
  for (int round = 0; round < phase_count && left > 0; ++round) {
    int quickest = -1;
    for (int p = 0; p < phase_count; ++p)
      if (!full[p] && (quickest < 0 || time[p] < time[quickest])) quickest = p;
    full[quickest] = true;
    const double room = width(shares[static_cast<phase>(quickest)]);
    const double share = room < left ? room : left;
    left -= share;
    total += share * time[quickest];
  }
  return total;
}

[[nodiscard]] constexpr result<range<double>> combined_speedup(const phase_shares& shares,
                                                               const optimisation* steps,
                                                               std::size_t count) {
  if (const auto valid = validate(shares); !valid) return valid.why();
  double least[phase_count]{};
  double minus_most[phase_count]{};
  for (int p = 0; p < phase_count; ++p) {
    range<double> factor = 1.0;
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto valid = validate(steps[i]); !valid) return valid.why();
      if (steps[i].touches.contains(static_cast<phase>(p))) factor = factor * steps[i].factor;
    }
    if (const failure why = check_positive(factor, fact::combined_factor); failed(why)) return why;
    least[p] = 1 / factor.high();
    minus_most[p] = -1 / factor.low();
    if (!is_finite(minus_most[p]))
      return about_range(errc::not_finite, factor, fact::combined_factor);
  }
  // Where shares and factors are all but points, rounding may put the least above the most.
  const double one_end = least_time(shares, least);
  const auto time = positive_answer(hull(range<double>(one_end), -least_time(shares, minus_most)),
                                    fact::time_of_step);
  if (!time) return time;
  return positive_answer(1.0 / *time, fact::speedup);
}

}  // namespace detail

/// How many times as fast a step becomes under optimisations that each touch some of its phases,
/// Amdahl's law for more than one part: `1 / sum(share / product of the factors that touch it)`.
/// The range holds every combination of shares that add up to 1 and of factors, and no more. Valid
/// for phases that follow one another: what overlaps gains less. Errors: `validate` of the shares
/// and of each optimisation.
template <std::size_t Count>
[[nodiscard]] constexpr result<range<double>> combined_speedup(const phase_shares& shares,
                                                               const optimisation (&steps)[Count]) {
  return detail::combined_speedup(shares, steps, Count);
}

/// The plain product of the factors, as if each touched the whole step: what a list of percentages
/// suggests, and more than it gives wherever a factor above 1 touches a part only.
template <std::size_t Count>
[[nodiscard]] constexpr result<range<double>> product_of_factors(
    const range<double> (&factors)[Count]) {
  range<double> product = 1.0;
  for (const range<double>& factor : factors) {
    if (const failure why = detail::check_positive(factor, fact::factor); detail::failed(why))
      return why;
    product = product * factor;
    if (const auto so_far = detail::positive_answer(product, fact::product); !so_far) return so_far;
  }
  return product;
}

}  // namespace gpuplan

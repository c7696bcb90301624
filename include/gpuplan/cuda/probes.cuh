#pragma once

// What the silicon issues: the rate of one instruction, with nothing to wait for but itself. In
// operations per clock of an SM, which no clock rate or power limit changes, and in operations per
// second, which they do.

#include <gpuplan/cuda/probes/fma.cuh>
#include <gpuplan/cuda/probes/instructions.hpp>
#include <gpuplan/cuda/probes/mma.cuh>
#include <gpuplan/cuda/probes/wgmma.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/cuda/sampling.cuh>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuplan::cuda {

/// The rate of one instruction.
struct issue_reading {
  instruction which = instruction::fma_fp32;
  double flop_per_clock = 0;  // of one SM: the median over the SMs
  int sms = 0;                // that got work: all of them, on a device that does nothing else
  compute_rate rate{};        // of the device: operations of a launch over its median time
  sampled timing{};
};

/// How to measure it.
struct probe_options {
  sampling_options sampling{};
  duration launch = duration::from_value(5e-3);  // about so long, at the device's highest clock
};

namespace detail {

/// The one interface of all probes. A block of `threads` leaves `values` numbers per thread; a pair
/// is the least unit of its loop, and `flop_per_pair` what a block computes in it.
template <instruction Which>
struct probe {
  static constexpr instruction_facts facts = facts_of(Which);
  static_assert(facts.by == issuer::warp);
  using value = typename mma<Which>::sum_type;
  static constexpr int threads = mma_threads;
  static constexpr int values = mma_chains * mma<Which>::sums;
  static constexpr std::int64_t pairs_at_once = 1;
  static constexpr std::int64_t flop_per_pair = flop_of(facts) * 2 * mma_chains * (threads / 32);

  static void enqueue(cudaStream_t on,
                      unsigned blocks,
                      long long pairs,
                      bool odd,
                      value* out,
                      block_clock* clocks) {
    GPUPLAN_CUDA_LAUNCH(mma_probe<Which><<<blocks, threads, 0, on>>>(pairs, odd, out, clocks));
  }
  [[nodiscard]] static value expected(int thread, int i, long long pairs, bool odd) {
    return expected_of_mma<Which>(thread, i, pairs, odd);
  }
};

template <instruction Which>
requires(facts_of(Which).by == issuer::warpgroup) struct probe<Which> {
  static constexpr instruction_facts facts = facts_of(Which);
  using value = wgmma_sum<Which>;
  static constexpr int threads = wgmma_threads;
  static constexpr int values = wgmma_sums;
  static constexpr std::int64_t pairs_at_once = 1;
  static constexpr std::int64_t flop_per_pair =
      flop_of(facts) * 2 * (wgmma_row_bytes / wgmma_step_bytes) * (threads / 128);

  static void enqueue(cudaStream_t on,
                      unsigned blocks,
                      long long pairs,
                      bool odd,
                      value* out,
                      block_clock* clocks) {
    GPUPLAN_CUDA_LAUNCH(wgmma_probe<Which><<<blocks, threads, 0, on>>>(pairs, odd, out, clocks));
  }
  [[nodiscard]] static value expected(int thread, int i, long long pairs, bool odd) {
    return expected_of_wgmma<Which>(thread, i, pairs, odd);
  }
};

template <instruction Which>
requires(facts_of(Which).by == issuer::thread) struct probe<Which> {
  static constexpr instruction_facts facts = facts_of(Which);
  using value = typename fma_chain<Which>::type;
  static constexpr int threads = fma_threads;
  static constexpr int values = fma_chains;
  static constexpr std::int64_t pairs_at_once = fma_unrolled;
  static constexpr std::int64_t flop_per_pair = flop_of(facts) * 2 * fma_chains * threads;

  static void enqueue(cudaStream_t on,
                      unsigned blocks,
                      long long pairs,
                      bool odd,
                      value* out,
                      block_clock* clocks) {
    GPUPLAN_CUDA_LAUNCH(fma_probe<Which>
                        <<<blocks, threads, 0, on>>>(pairs,
                                                     odd,
                                                     in_chain<Which>(-1),
                                                     in_chain<Which>(3),
                                                     in_chain<Which>(second_addend<Which>()),
                                                     out,
                                                     clocks));
  }
  [[nodiscard]] static value expected(int thread, int i, long long pairs, bool odd) {
    return expected_of_fma<Which>(thread, i, pairs, odd);
  }
};

/// Whether two values of a probe are the same; pairs of fp16 (as bits) but for the sign of zero.
template <class T>
[[nodiscard]] constexpr bool same_number(T a, T b) {
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    constexpr std::uint32_t sign_of_low = 0x8000;
    if ((a & 0x7fffU) == 0) a &= ~sign_of_low;
    if ((b & 0x7fffU) == 0) b &= ~sign_of_low;
    if ((a & 0x7fff0000U) == 0) a &= ~(sign_of_low << 16);
    if ((b & 0x7fff0000U) == 0) b &= ~(sign_of_low << 16);
  }
  return a == b;
}

/// Throws measurement_error unless the values of all blocks are what they must be.
template <class Probe>
void require_expected(std::span<const typename Probe::value> values, long long pairs, bool odd) {
  constexpr auto per_block = static_cast<std::size_t>(Probe::threads * Probe::values);
  std::vector<typename Probe::value> expected;
  expected.reserve(per_block);
  for (int thread = 0; thread < Probe::threads; ++thread)
    for (int i = 0; i < Probe::values; ++i)
      expected.push_back(Probe::expected(thread, i, pairs, odd));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!same_number(values[i], expected[i % per_block]))
      throw measurement_error(std::string(Probe::facts.name) + ": value " +
                              std::to_string(i % per_block) + " of block " +
                              std::to_string(i / per_block) + " is wrong after " +
                              std::to_string(pairs) + (odd ? ".5 pairs" : " pairs"));
}

}  // namespace detail

/// How many operations per clock each SM did, of those that got blocks: `flop_per_block` times the
/// blocks that ran on it, over the cycles from the first one's start to the last one's end. Blocks
/// without a clock (stop <= start) are left out. Ascending.
[[nodiscard]] inline std::vector<double> flop_per_clock_by_sm(std::span<const block_clock> clocks,
                                                              double flop_per_block) {
  std::vector<block_clock> sorted;
  for (const block_clock& block : clocks)
    if (block.stop > block.start) sorted.push_back(block);
  std::ranges::sort(sorted, {}, &block_clock::sm);
  std::vector<double> rates;
  for (std::size_t i = 0; i < sorted.size();) {
    block_clock whole = sorted[i];
    double blocks = 0;
    for (; i < sorted.size() && sorted[i].sm == whole.sm; ++i, ++blocks) {
      whole.start = std::min(whole.start, sorted[i].start);
      whole.stop = std::max(whole.stop, sorted[i].stop);
    }
    rates.push_back(blocks * flop_per_block / static_cast<double>(whole.stop - whole.start));
  }
  std::ranges::sort(rates);
  return rates;
}

/// How many pairs make a launch last `launch` at `clock_MHz`, where `cycles` went by in `pairs` of
/// them: a multiple of `at_once`, from it to `most_pairs`, whose sums are still exact.
[[nodiscard]] constexpr std::int64_t pairs_lasting(
    duration launch, double clock_MHz, std::int64_t pairs, double cycles, std::int64_t at_once) {
  const double wanted =
      launch.value() * clock_MHz * 1e6 * static_cast<double>(pairs) / std::max(cycles, 1.0);
  const double limited = std::min(wanted, static_cast<double>(most_pairs));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(limited) / at_once) * at_once;
}

/// The rate of one instruction on a session's device, one block per SM. What the kernel leaves is
/// checked in full against its closed form, after a short launch that ends with half a pair and
/// after the last one that was timed. Nothing where the device lacks the instruction, or the
/// program was not compiled for it (`wgmma` exists in code for sm_90a alone). Throws call_error,
/// and measurement_error where a result is wrong.
template <instruction Which>
[[nodiscard]] std::optional<issue_reading> measure_issue_rate(session& s,
                                                              const probe_options& options = {}) {
  using probe = detail::probe<Which>;
  using value = typename probe::value;
  const cudaDeviceProp& device = s.properties();
  if (!exists_on(probe::facts, 10 * device.major + device.minor)) return std::nullopt;
  const auto blocks = static_cast<unsigned>(device.multiProcessorCount);
  const device_buffer<value> values(std::size_t{blocks} * probe::threads * probe::values);
  const device_buffer<block_clock> clocks(blocks);
  std::vector<value> found(values.size());
  std::vector<block_clock> times(blocks);
  const cudaStream_t on = s.stream();
  const detail::waits_at_end waits(on);
  const auto fetch = [&] {
    GPUPLAN_CUDA_CALL(
        cudaMemcpyAsync(found.data(), values.data(), values.bytes(), cudaMemcpyDeviceToHost, on));
    GPUPLAN_CUDA_CALL(
        cudaMemcpyAsync(times.data(), clocks.data(), clocks.bytes(), cudaMemcpyDeviceToHost, on));
    s.stream().synchronize();
  };

  // All bits set is no number that a probe leaves, and no SM: what stays so was never written.
  GPUPLAN_CUDA_CALL(cudaMemsetAsync(values.data(), 0xff, values.bytes(), on));
  GPUPLAN_CUDA_CALL(cudaMemsetAsync(clocks.data(), 0xff, clocks.bytes(), on));
  constexpr std::int64_t few = 64;
  for (int i = 0; i < 2; ++i)  // once to load the code, once for its time
    probe::enqueue(on, blocks, few, true, values.data(), clocks.data());
  fetch();
  if (std::ranges::all_of(times, [](const block_clock& block) { return block.sm == UINT_MAX; }))
    return std::nullopt;
  detail::require_expected<probe>(found, few, true);
  const std::vector<double> short_rates =
      flop_per_clock_by_sm(times, static_cast<double>(few * probe::flop_per_pair));
  if (short_rates.empty())
    throw measurement_error(std::string(probe::facts.name) + ": no cycles passed on any SM");
  const double cycles =
      static_cast<double>(few * probe::flop_per_pair) / measure::quantile(short_rates, 0.5);

  const std::int64_t pairs =
      pairs_lasting(options.launch, s.clock_limit_MHz(), few, cycles, probe::pairs_at_once);
  const double flop_per_block = static_cast<double>(pairs * probe::flop_per_pair);
  issue_reading reading{.which = Which};
  reading.timing = sample(
      s,
      [&](cudaStream_t to) {
        probe::enqueue(to, blocks, pairs, false, values.data(), clocks.data());
      },
      options.sampling);
  fetch();
  detail::require_expected<probe>(found, pairs, false);
  const std::vector<double> rates = flop_per_clock_by_sm(times, flop_per_block);
  if (rates.empty())
    throw measurement_error(std::string(probe::facts.name) + ": no cycles passed on any SM");
  reading.flop_per_clock = measure::quantile(rates, 0.5);
  reading.sms = static_cast<int>(rates.size());
  reading.rate = flop_count::from_value(flop_per_block * blocks) / reading.timing.median;
  return reading;
}

namespace detail {

template <std::size_t... I>
std::optional<issue_reading> measure_by_value(session& s,
                                              instruction which,
                                              const probe_options& options,
                                              std::index_sequence<I...>) {
  std::optional<issue_reading> reading;
  static_cast<void>(((which == all_instructions[I] &&
                      (reading = measure_issue_rate<all_instructions[I]>(s, options), true)) ||
                     ...));
  return reading;
}

}  // namespace detail

/// The same for an instruction that is known at run time only: compiles all probes.
[[nodiscard]] inline std::optional<issue_reading> measure_issue_rate(
    session& s, instruction which, const probe_options& options = {}) {
  return detail::measure_by_value(
      s, which, options, std::make_index_sequence<std::size(all_instructions)>{});
}

}  // namespace gpuplan::cuda

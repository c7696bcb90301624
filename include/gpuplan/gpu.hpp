#pragma once

// What one device can do: memory, bandwidth, peak rates, links, MIG slices, and where its numbers
// come from. Plain data; the devices themselves are in catalog/gpus.hpp.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuplan {

/// Bytes of one element as stored; half a byte for `fp4`.
[[nodiscard]] constexpr bytes bytes_per_element(number_format format) {
  return bytes::from_value(bits_per_element(format) / 8.0);
}

enum class gpu_vendor { nvidia, amd, intel, google, aws };

/// Peak rates as data sheets state them; absent where the device has no such unit, or nothing is
/// published. Vector units are the CUDA cores or their like, matrix units the tensor cores.
struct peak_rates {
  known<compute_rate> fp64{};  // vector units
  known<compute_rate> fp64_matrix{};
  known<compute_rate> fp32{};  // vector units
  known<compute_rate> tf32{};  // matrix units, as all below but fp16_vector
  known<compute_rate> bf16{};
  known<compute_rate> fp16{};
  known<compute_rate> fp16_sum_fp16{};  // accumulating in fp16
  known<compute_rate> fp16_vector{};    // accumulating in fp16
  known<compute_rate> fp8{};
  known<compute_rate> fp8_sum_fp16{};  // accumulating in fp16
  known<compute_rate> fp4{};
  known<compute_rate> int8{};  // operations, not floating-point
};

/// The link between devices of one node or pod: NVLink, Infinity Fabric, Ethernet, ICI, NeuronLink.
struct peer_link {
  const char* name = "";
  bandwidth both_directions{};  // of one device, as vendors print it
  int joins = 0;                // so many devices by a bridge; 0: all of a node

  /// What one device can send while it receives as much: half of what vendors print.
  [[nodiscard]] constexpr bandwidth each_direction() const { return both_directions / 2; }
};

/// The link to the host.
struct pcie_link {
  int generation = 4;
  int lanes = 16;

  /// Lane rate (8 GT/s in generation 3, doubling with each) less the encoding: 128/130, and 242/256
  /// from generation 6 on (PCI Express Base Specification). Valid from generation 3 on; copies
  /// reach 80 to 90 % of it.
  [[nodiscard]] constexpr bandwidth each_direction() const {
    const double transfers = 1e9 * static_cast<double>(1LL << generation) * lanes;
    return bandwidth::from_value(transfers / 8 * (generation >= 6 ? 242.0 / 256.0 : 128.0 / 130.0));
  }
};

/// A MIG profile: the part of a GPU that a slice gets, which the name overstates. The engines that
/// a suffix such as `+me` adds or `-me` removes do not count here. Slices have no peer link.
struct mig_slice {
  const char* name = "";   // "1g.12gb"
  const char* alias = "";  // what other versions of the tools call it
  int most = 1;            // how many of them fit on one GPU
  int sm_count = 0;
  int memory_eighths = 8;  // of the GPU's memory slices, and so of its bandwidth
  bytes memory{};          // as the driver reports it for the slice

  [[nodiscard]] constexpr double bandwidth_share() const { return memory_eighths / 8.0; }
};

/// The MIG profiles of a GPU: refers to an array of them that outlives it.
class mig_profiles {
 public:
  constexpr mig_profiles() = default;
  template <std::size_t Count>
  constexpr mig_profiles(const mig_slice (&slices)[Count])  // NOLINT(google-explicit-constructor)
      : first_(slices), count_(Count) {}

  [[nodiscard]] constexpr const mig_slice* begin() const { return first_; }
  [[nodiscard]] constexpr const mig_slice* end() const { return first_ + count_; }
  [[nodiscard]] constexpr bool empty() const { return count_ == 0; }

 private:
  const mig_slice* first_ = nullptr;
  std::size_t count_ = 0;
};

/// How far the numbers of a device can be trusted.
enum class confidence {
  two_sources,  // the vendor's table, or two sources that agree
  one_source,   // one good source, and consistent with SM count and clock
  formula,      // from the rate of this generation's SM, SM count and clock
  unverified    // some numbers were not found in a source
};

struct measured_device;  // measured_device.hpp

/// One device: a GPU, or a TPU, Trainium or Gaudi chip, for which an SM is the vendor's own core. A
/// device that is one of several on a board is described alone. What is not known is absent.
struct gpu_spec {
  const char* id = "";               // as in the catalogue
  const char* name = "";             // for people
  const char* driver_names[3] = {};  // as CUDA and nvidia-smi print them; nullptr ends the list
  gpu_vendor vendor = gpu_vendor::nvidia;
  const char* architecture = "";
  known<int> compute_capability{};  // 89 for 8.9
  int year = 0;                     // of release
  int sm_count = 0;
  known<int> clock_MHz{};   // at which the matrix rates are stated
  int memory_label_GB = 0;  // as sold, in GB or GiB at the vendor's whim: to print
  known<bytes> memory{};    // as the driver (nvidia-smi) reports it
  bandwidth memory_bandwidth{};
  peak_rates dense{};
  peak_rates sparse{};       // with structured sparsity: no denominator for training
  known<peer_link> peers{};  // absent: none, or none published
  known<pcie_link> pcie{};
  known<power> tdp{};
  mig_profiles mig{};
  const char* slice = "";  // the MIG profile, where this is a slice: see slice_of
  const char* source = "";
  confidence trust = confidence::unverified;
  known<const measured_device*> measured{};  // outlives this: see measured_as
};

namespace detail {

constexpr known<compute_rate> larger(known<compute_rate> a, known<compute_rate> b) {
  return !a || (b && *a < *b) ? b : a;
}

constexpr known<compute_rate> rate(const peak_rates& rates, number_format format, accumulator sum) {
  const bool wide = sum == accumulator::fp32;
  switch (format) {
    case number_format::fp16:
      return wide ? rates.fp16 : larger(rates.fp16_sum_fp16, rates.fp16_vector);
    case number_format::fp8:
      return wide ? rates.fp8 : rates.fp8_sum_fp16;
    default:
      break;
  }
  if (!wide) return {};
  switch (format) {
    case number_format::fp64:
      return larger(rates.fp64, rates.fp64_matrix);
    case number_format::fp32:
      return rates.fp32;
    case number_format::tf32:
      return rates.tf32;
    case number_format::bf16:
      return rates.bf16;
    case number_format::fp4:
      return rates.fp4;
    case number_format::int8:
      return rates.int8;
    default:
      return {};
  }
}

// Named, since nvcc puts parentheses around what is declared otherwise.
using rate_of_a_format = known<compute_rate> peak_rates::*;
inline constexpr rate_of_a_format all_peak_rates[] = {&peak_rates::fp64,
                                                      &peak_rates::fp64_matrix,
                                                      &peak_rates::fp32,
                                                      &peak_rates::tf32,
                                                      &peak_rates::bf16,
                                                      &peak_rates::fp16,
                                                      &peak_rates::fp16_sum_fp16,
                                                      &peak_rates::fp16_vector,
                                                      &peak_rates::fp8,
                                                      &peak_rates::fp8_sum_fp16,
                                                      &peak_rates::fp4,
                                                      &peak_rates::int8};

// What is wrong with what is known, or no failure: rates of 10^30 are none.
template <class Quantity>
constexpr failure flaw_of_rate(const known<Quantity>& stated, const char* name) {
  if (!stated) return {};
  const double value = stated->value();
  if (!(value < 1e30)) return failure(errc::not_finite).about(name);
  return value > 0 ? failure() : failure(errc::not_positive).about(name);
}

constexpr result<compute_rate> rate_or_failure(const gpu_spec& gpu,
                                               const peak_rates& rates,
                                               number_format format,
                                               accumulator sum) {
  if (const auto found = rate(rates, format, sum)) {
    if (const failure why = flaw_of_rate(found, gpu.id); failed(why)) return why;
    return *found;
  }
  return failure(errc::unsupported_format,
                 named_fact{fact::format, format},
                 named_fact{fact::accumulator, sum})
      .about(gpu.id);
}

}  // namespace detail

/// The dense peak rate of `gpu` in `format`, accumulating in `sum`, by its fastest units that are
/// stated: the denominator of MFU. Real clocks can exceed the stated one, so more than 100 % of it
/// is possible. Errors: `unsupported_format`; `not_positive` or `not_finite` of the rate.
[[nodiscard]] constexpr result<compute_rate> peak(const gpu_spec& gpu,
                                                  number_format format,
                                                  accumulator sum = accumulator::fp32) {
  return detail::rate_or_failure(gpu, gpu.dense, format, sum);
}

/// The peak rate with structured sparsity, which vendors like to print: for comparison with their
/// tables. Errors: `unsupported_format`.
[[nodiscard]] constexpr result<compute_rate> sparse_peak(const gpu_spec& gpu,
                                                         number_format format,
                                                         accumulator sum = accumulator::fp32) {
  return detail::rate_or_failure(gpu, gpu.sparse, format, sum);
}

/// What a process cannot have of the memory that nvidia-smi lists: a fixed part, the CUDA context,
/// and a share. Of 14 kinds of GPUs from 11 GB to 180 GB, CUDA itself reports 0.25 to 0.75 GiB less
/// than nvidia-smi, more on larger ones, and contexts take 0.25 to 0.6 GiB more (PyTorch's
/// out-of-memory messages in public issues and logs, 2024 to 2026). These two leave 0.17 to 0.61
/// GiB for the context. A process that runs on the device should ask `cudaMemGetInfo` instead.
inline constexpr bytes context_memory = 0.6_GiB;
inline constexpr double driver_share = 0.004;

namespace detail {

// Whole bytes, rounded down. What 64 bits do not hold stays as it is, for decisions to refuse.
constexpr bytes less_context(bytes reported) {
  const bytes left = reported - context_memory - reported * driver_share;
  const checked_integer whole = to_int64(left.value());
  return whole.ok ? bytes::from_value(static_cast<double>(whole.value)) : left;
}

}  // namespace detail

namespace detail {

struct count_of_gpu {
  named_fact count;
  std::int64_t least;
  std::int64_t most;
};

// What is wrong with a device's numbers, or no failure.
constexpr failure flaw_of_gpu(const gpu_spec& gpu) {
  const std::int64_t most = 1 << 20;
  const peer_link peers = gpu.peers ? *gpu.peers : peer_link{};
  const pcie_link host = gpu.pcie ? *gpu.pcie : pcie_link{};
  for (const auto& [count, least_count, most_count] :
       {count_of_gpu{{fact::year, gpu.year}, 0, 9999},
        count_of_gpu{
            {fact::compute_capability, gpu.compute_capability ? *gpu.compute_capability : 1},
            1,
            most},
        count_of_gpu{{fact::sm_count, gpu.sm_count}, 0, most},
        count_of_gpu{{fact::memory_label_GB, gpu.memory_label_GB}, 0, most},
        count_of_gpu{{fact::clock_MHz, gpu.clock_MHz ? *gpu.clock_MHz : 1}, 1, most},
        count_of_gpu{{fact::joins, peers.joins}, 0, most},
        count_of_gpu{{fact::pcie_generation, host.generation}, 3, 16},
        count_of_gpu{{fact::pcie_lanes, host.lanes}, 1, 1024}})
    if (count.value < least_count || count.value > most_count)
      return failure(errc::out_of_bounds,
                     {count, {fact::at_least, least_count}, {fact::at_most, most_count}})
          .about(gpu.id);
  for (const peak_rates* rates : {&gpu.dense, &gpu.sparse})
    for (const auto rate : all_peak_rates)
      if (const failure why = flaw_of_rate(rates->*rate, gpu.id); failed(why)) return why;
  known<bandwidth> memory_rate;  // 0: not stated
  if (gpu.memory_bandwidth != bandwidth{}) memory_rate = gpu.memory_bandwidth;
  known<bandwidth> link;
  if (gpu.peers) link = peers.both_directions;
  if (const failure why = flaw_of_rate(memory_rate, "memory_bandwidth"); failed(why)) return why;
  if (const failure why = flaw_of_rate(link, "peers"); failed(why)) return why;
  if (const failure why = flaw_of_rate(gpu.tdp, "tdp"); failed(why)) return why;
  if (const failure why = flaw_of_rate(gpu.memory, "memory"); failed(why)) return why;
  if (gpu.memory && !(less_context(*gpu.memory) > bytes{}))
    return failure(errc::not_positive).about("memory less the context");
  return {};
}

}  // namespace detail

/// The device itself where its numbers make sense. Errors: `not_positive`, `not_finite` of a rate,
/// the memory, the power; `out_of_bounds` of year, compute capability, SMs, label and clock, of
/// what a bridge joins, of PCIe's generation (3 to 16) and lanes.
[[nodiscard]] constexpr result<gpu_spec> validate(const gpu_spec& gpu) {
  if (const failure why = detail::flaw_of_gpu(gpu); detail::failed(why)) return why;
  return gpu;
}

/// What a plan may use of a device whose memory is known: what its driver reports, or the label in
/// GB of 10^9 bytes where that is not known (less than the driver reports, on every device where it
/// is), less `context_memory` and `driver_share`. Other vendors' runtimes keep memory for
/// themselves too; how much is not published, so theirs is assumed to be the same.
[[nodiscard]] constexpr bytes usable_memory(const gpu_spec& gpu) {
  return detail::less_context(gpu.memory ? *gpu.memory : gpu.memory_label_GB * 1_GB);
}

/// What a plan may use of a MIG slice: what the driver reports for it, less the same.
[[nodiscard]] constexpr bytes usable_memory(const mig_slice& slice) {
  return detail::less_context(slice.memory);
}

/// The MIG profile of `gpu` with this name, by either of its names, with or without a suffix such
/// as `+me`, in any case. Errors: `no_mig`, `unknown_mig_profile` with the nearest name.
[[nodiscard]] constexpr result<mig_slice> mig(const gpu_spec& gpu, std::string_view name) {
  if (gpu.mig.empty()) return failure(errc::no_mig).about(gpu.id);
  name = name.substr(0, name.find_first_of("+-"));
  const detail::plain_name wanted(name);
  detail::nearest_name nearest(name, wanted);
  for (const mig_slice& slice : gpu.mig) {
    for (const char* known : {slice.name, slice.alias}) {
      if (*known == '\0') continue;
      const detail::plain_name candidate(known);
      if (candidate == wanted) return slice;
      nearest.offer(known, candidate, known);
    }
  }
  return failure(errc::unknown_mig_profile).about(nearest.id());
}

/// The share of `gpu`'s SMs, and so of its peak rates, that a slice gets: less than its name says,
/// 16 of 132 for the "1g" of an H100. Precondition: `gpu.sm_count` is stated.
[[nodiscard]] constexpr double sm_share(const gpu_spec& gpu, const mig_slice& slice) {
  if (gpu.sm_count < 1)
    detail::precondition_violated(failure(errc::not_positive).about(fact::sm_count));
  return static_cast<double>(slice.sm_count) / gpu.sm_count;
}

/// A slice as a device of its own: SMs and peak rates by `sm_share`, bandwidth by
/// `bandwidth_share`, no peer link, nothing measured. The power limit stays that of the whole GPU,
/// which its slices share. Precondition: as `sm_share`, where `gpu` states a rate.
[[nodiscard]] constexpr gpu_spec slice_of(const gpu_spec& gpu, const mig_slice& slice) {
  gpu_spec part = gpu;
  part.slice = slice.name;
  part.sm_count = slice.sm_count;
  part.memory = slice.memory;
  part.memory_bandwidth = gpu.memory_bandwidth * slice.bandwidth_share();
  for (peak_rates* rates : {&part.dense, &part.sparse})
    for (const auto member : detail::all_peak_rates)
      if (auto& rate = rates->*member) rate = *rate * sm_share(gpu, slice);
  part.peers = {};
  part.mig = {};
  part.measured = {};
  return part;
}

}  // namespace gpuplan

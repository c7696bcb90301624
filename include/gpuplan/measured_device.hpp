#pragma once

// What one device was measured to reach, and how that stands in for what its data sheet says. Plain
// data, as `examples/measure_gpu` writes it: what was not measured is absent.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gpuplan {

/// A measured quantity: the median of its samples, their quartiles, and what the device did
/// meanwhile.
template <any_quantity Quantity>
struct reading {
  Quantity median{};
  Quantity lower_quartile{};
  Quantity upper_quartile{};
  std::int64_t samples = 0;
  known<int> clock_MHz{};  // of an SM, the median: counted, not what the driver states
  known<power> draw{};     // of the whole device
};

/// The product of an m x k and a k x n matrix: 2 m n k FLOPs.
struct matmul_shape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  friend constexpr bool operator==(const matmul_shape&, const matmul_shape&) = default;
};

/// Matrix products in one format, by the library that training uses (cuBLASLt), of random data.
struct measured_matmul {
  number_format format{};
  accumulator sum = accumulator::fp32;
  matmul_shape shape{};                       // the fastest of those tried
  known<reading<compute_rate>> sustained{};   // back to back, on a device that is warm
  known<reading<compute_rate>> burst{};       // a few after a pause: clocks have not fallen yet
  known<reading<compute_rate>> zeros{};       // sustained, of zeros, which cost less power
  known<reading<compute_rate>> own_kernel{};  // gpuplan's plain kernel: a lower bound, no ceiling
};

/// What a probe of the SMs issues: `mma.sync`, `wgmma` of Hopper, or FMAs of the vector units.
enum class issue_probe { mma_sync, wgmma, fma };

/// The instruction's name.
[[nodiscard]] constexpr const char* text(issue_probe probe) {
  switch (probe) {
    case issue_probe::mma_sync:
      return "mma.sync";
    case issue_probe::wgmma:
      return "wgmma";
    case issue_probe::fma:
      return "fma";
  }
  return "";
}

/// What the SMs issue of one instruction, on operands in registers or shared memory.
struct measured_issue {
  issue_probe probe{};
  number_format format{};
  accumulator sum = accumulator::fp32;
  reading<compute_rate> rate{};
  double flop_per_clock_per_sm = 0;
};

/// The rate at which all SMs read a buffer of this size again and again.
struct measured_footprint {
  bytes footprint{};
  bandwidth rate{};
};

/// Copies between host and device.
struct measured_host_link {
  known<reading<bandwidth>> to_device{};
  known<reading<bandwidth>> from_device{};
  known<reading<bandwidth>> both_ways{};  // the sum, both at once
};

/// NCCL's all-reduce of a group: `size` takes `latency + size / rate`.
struct measured_all_reduce {
  std::int64_t devices = 2;
  duration latency{};
  bandwidth rate{};
};

/// One point of a surface over shapes: how fast one matrix product is.
struct measured_point {
  number_format format{};
  accumulator sum = accumulator::fp32;
  matmul_shape shape{};
  compute_rate rate{};
};

/// What was measured of one device. Rows are referred to, and outlive this.
struct measured_device {
  const char* id = "";     // as in the catalogue; empty where the device is not in it
  const char* slice = "";  // the MIG profile, where it is a slice
  const char* name = "";   // as the driver prints it
  const char* date = "";   // "2026-11-22"
  const char* driver = "";
  const char* runtime = "";  // of CUDA
  const char* library = "";  // of matrix products
  int sm_count = 0;
  known<bytes> memory{};          // as CUDA counts it, which is less than nvidia-smi lists
  known<bytes> free_memory{};     // beside the context of the program that measured
  known<bytes> context_memory{};  // of that program
  known<power> power_limit{};
  known<bool> error_correction{};

  std::span<const measured_matmul> matmuls{};
  std::span<const measured_issue> issue{};
  std::span<const measured_point> surface{};
  // Bytes read and written, without what a cache fetches in order to write.
  known<reading<bandwidth>> copy{};
  known<reading<bandwidth>> triad{};
  known<reading<bandwidth>> read{};
  known<reading<bandwidth>> write{};
  known<reading<bandwidth>> l2{};  // of a buffer well below the knee
  known<bytes> l2_knee{};          // the largest buffer read at the L2 cache's rate
  std::span<const measured_footprint> footprints{};
  measured_host_link pinned{};
  measured_host_link pageable{};
  known<reading<duration>> kernel_launch{};   // of an empty kernel on an idle stream
  known<reading<duration>> kernel_enqueue{};  // of the host alone, while the device is busy
  known<reading<duration>> empty_kernel{};    // of the device, from one kernel's end to the next's
  known<reading<duration>> graph_node{};      // the same in a replayed graph
  known<reading<bandwidth>> peer_copy{};      // to another device, one way
  std::span<const measured_all_reduce> all_reduces{};
};

// ---- what is asked of a device

/// Where a ceiling comes from: the data sheet, a measurement of the device, or the caller.
enum class ceiling_origin { data_sheet, measured, stated };

[[nodiscard]] constexpr const char* text(ceiling_origin origin) {
  switch (origin) {
    case ceiling_origin::data_sheet:
      return "data sheet";
    case ceiling_origin::measured:
      return "measured";
    case ceiling_origin::stated:
      return "stated";
  }
  return "";
}

/// What can be reached at most, or at least be waited for, and who says so. A ceiling of a data
/// sheet is a rate that nothing reaches; a measured one is what well-written code reached.
template <any_quantity Quantity>
struct ceiling {
  Quantity value{};
  ceiling_origin origin = ceiling_origin::data_sheet;
};

namespace detail {

template <any_quantity Quantity>
constexpr ceiling<Quantity> measured_ceiling(const reading<Quantity>& measured) {
  return {measured.median, ceiling_origin::measured};
}

template <any_quantity Quantity>
constexpr result<ceiling<Quantity>> measured_or_failure(const known<reading<Quantity>>& measured,
                                                        const char* name) {
  if (measured) return measured_ceiling(*measured);
  return failure(errc::not_known).about(name);
}

}  // namespace detail

/// What matrix products reach on `gpu`: as measured, `sustained`, else the dense `peak`. MFU keeps
/// that peak as its denominator either way. Errors: `unsupported_format`.
[[nodiscard]] constexpr result<ceiling<compute_rate>> matmul_ceiling(
    const gpu_spec& gpu, number_format format, accumulator sum = accumulator::fp32) {
  if (gpu.measured)
    for (const measured_matmul& matmul : (*gpu.measured)->matmuls)
      if (matmul.format == format && matmul.sum == sum && matmul.sustained)
        return detail::measured_ceiling(*matmul.sustained);
  const auto sheet = peak(gpu, format, sum);
  if (!sheet) return sheet.why();
  return ceiling<compute_rate>{*sheet};
}

/// What a kernel does with memory: which of the measured bandwidths is meant.
enum class memory_traffic { copy, triad, read, write };

/// What kernels reach of the device's memory, bytes read and written together: as measured, else
/// the data sheet's bandwidth, which is the same for all traffic.
[[nodiscard]] constexpr ceiling<bandwidth> memory_ceiling(
    const gpu_spec& gpu, memory_traffic traffic = memory_traffic::copy) {
  known<reading<bandwidth>> found;
  if (gpu.measured) {
    if (traffic == memory_traffic::copy) found = (*gpu.measured)->copy;
    if (traffic == memory_traffic::triad) found = (*gpu.measured)->triad;
    if (traffic == memory_traffic::read) found = (*gpu.measured)->read;
    if (traffic == memory_traffic::write) found = (*gpu.measured)->write;
  }
  if (found) return detail::measured_ceiling(*found);
  return {gpu.memory_bandwidth};
}

/// What kernels read of buffers that the L2 cache holds. Data sheets do not state it. Errors:
/// `not_known`.
[[nodiscard]] constexpr result<ceiling<bandwidth>> l2_ceiling(const gpu_spec& gpu) {
  if (!gpu.measured) return failure(errc::not_known).about("l2");
  return detail::measured_or_failure((*gpu.measured)->l2, "l2");
}

enum class host_copy { to_device, from_device };

/// What copies between the device and pinned memory of the host reach: as measured, else the rate
/// of the PCIe link, of which they reach 80 to 90 %. Errors: `not_known`.
[[nodiscard]] constexpr result<ceiling<bandwidth>> host_link_ceiling(const gpu_spec& gpu,
                                                                     host_copy direction) {
  if (gpu.measured) {
    const measured_host_link& link = (*gpu.measured)->pinned;
    const auto found = direction == host_copy::to_device ? link.to_device : link.from_device;
    if (found) return detail::measured_ceiling(*found);
  }
  if (gpu.pcie) return ceiling<bandwidth>{gpu.pcie->each_direction()};
  return failure(errc::not_known).about("pcie");
}

/// What one device sends to another of its node: as measured, else its peer link in one direction,
/// else PCIe. Errors: `not_known`.
[[nodiscard]] constexpr result<ceiling<bandwidth>> peer_ceiling(const gpu_spec& gpu) {
  if (gpu.measured && (*gpu.measured)->peer_copy)
    return detail::measured_ceiling(*(*gpu.measured)->peer_copy);
  if (gpu.peers) return ceiling<bandwidth>{gpu.peers->each_direction()};
  if (gpu.pcie) return ceiling<bandwidth>{gpu.pcie->each_direction()};
  return failure(errc::not_known).about("peers");
}

/// What a kernel costs that does nothing: from its call to its end on an idle device
/// (`round_trip`); the host's part, which kernels that are shorter wait for (`enqueue`); the
/// device's part, from one kernel's end to the next's, in a stream (`kernel`) and in a replayed
/// graph (`graph_node`).
enum class launch_cost { round_trip, enqueue, kernel, graph_node };

/// What launching costs. Data sheets do not state it. Errors: `not_known`.
[[nodiscard]] constexpr result<ceiling<duration>> launch_latency(
    const gpu_spec& gpu, launch_cost which = launch_cost::round_trip) {
  known<reading<duration>> found;
  if (gpu.measured) {
    if (which == launch_cost::round_trip) found = (*gpu.measured)->kernel_launch;
    if (which == launch_cost::enqueue) found = (*gpu.measured)->kernel_enqueue;
    if (which == launch_cost::kernel) found = (*gpu.measured)->empty_kernel;
    if (which == launch_cost::graph_node) found = (*gpu.measured)->graph_node;
  }
  return detail::measured_or_failure(found, "launch_latency");
}

/// The all-reduce that was measured of a group of this many devices. Errors: `not_known`.
[[nodiscard]] constexpr result<measured_all_reduce> all_reduce_of(const gpu_spec& gpu,
                                                                  std::int64_t devices) {
  if (gpu.measured)
    for (const measured_all_reduce& all_reduce : (*gpu.measured)->all_reduces)
      if (all_reduce.devices == devices) return all_reduce;
  return failure(errc::not_known, named_fact{fact::devices, devices}).about("all_reduce");
}

/// The share of the dense `peak` that one point of a surface reaches: above 1 where the clock is
/// higher than the data sheet's. Errors: `unsupported_format`.
[[nodiscard]] constexpr result<double> share_of_peak(const gpu_spec& gpu,
                                                     const measured_point& point) {
  const auto sheet = peak(gpu, point.format, point.sum);
  if (!sheet) return sheet.why();
  return static_cast<double>(point.rate / *sheet);
}

// ---- a measurement in place of the data sheet

namespace detail {

template <any_quantity Quantity>
constexpr failure flaw(Quantity value, const char* name) {
  if (!is_finite(value.value())) return failure(errc::not_finite).about(name);
  if (!(value > Quantity{})) return failure(errc::not_positive).about(name);
  return {};
}
template <any_quantity Quantity>
constexpr failure flaw(const known<Quantity>& value, const char* name) {
  return value ? flaw(*value, name) : failure();
}
template <any_quantity Quantity>
constexpr failure flaw(const reading<Quantity>& measured, const char* name) {
  // An array with a name: nvcc 13.0 passes a list in a loop of a template on without its type.
  const Quantity rising[] = {measured.lower_quartile, measured.median, measured.upper_quartile};
  for (const Quantity& value : rising)
    if (const failure why = flaw(value, name); failed(why)) return why;
  if (measured.median < measured.lower_quartile || measured.upper_quartile < measured.median)
    return failure(errc::not_rising).about(name);
  if (measured.clock_MHz && *measured.clock_MHz < 1) return failure(errc::not_positive).about(name);
  if (const failure why = flaw(measured.draw, name); failed(why)) return why;
  const failure why = check_at_least(measured.samples, 1, fact::samples);
  return failed(why) ? why.about(name) : why;
}
template <any_quantity Quantity>
constexpr failure flaw(const known<reading<Quantity>>& measured, const char* name) {
  return measured ? flaw(*measured, name) : failure();
}
constexpr failure flaw(const measured_host_link& link, const char* name) {
  for (const auto& rate : {link.to_device, link.from_device, link.both_ways})
    if (const failure why = flaw(rate, name); failed(why)) return why;
  return {};
}
constexpr failure flaw(const matmul_shape& shape, const char* name) {
  if (shape.m > 0 && shape.n > 0 && shape.k > 0) return {};
  return failure(errc::not_positive).about(name);
}
constexpr failure flaw(const measured_matmul& matmul, const char* name) {
  if (const failure why = flaw(matmul.shape, name); failed(why)) return why;
  for (const auto& rate : {matmul.sustained, matmul.burst, matmul.zeros, matmul.own_kernel})
    if (const failure why = flaw(rate, name); failed(why)) return why;
  return {};
}
constexpr failure flaw(const measured_issue& issue, const char* name) {
  if (const failure why = flaw(issue.rate, name); failed(why)) return why;
  if (is_finite(issue.flop_per_clock_per_sm) && issue.flop_per_clock_per_sm > 0) return {};
  return failure(errc::not_positive).about(name);
}
constexpr failure flaw(const measured_point& point, const char* name) {
  if (const failure why = flaw(point.shape, name); failed(why)) return why;
  return flaw(point.rate, name);
}
constexpr failure flaw(const measured_footprint& footprint, const char* name) {
  if (const failure why = flaw(footprint.footprint, name); failed(why)) return why;
  return flaw(footprint.rate, name);
}
constexpr failure flaw(const measured_all_reduce& all_reduce, const char* name) {
  if (const failure why = check_at_least(all_reduce.devices, 2, fact::devices); failed(why))
    return why.about(name);
  if (const failure why = flaw(all_reduce.latency, name); failed(why)) return why;
  return flaw(all_reduce.rate, name);
}

constexpr bool same_measured(const measured_matmul& a, const measured_matmul& b) {
  return a.format == b.format && a.sum == b.sum;
}
constexpr bool same_measured(const measured_issue& a, const measured_issue& b) {
  return a.probe == b.probe && a.format == b.format && a.sum == b.sum;
}
constexpr bool same_measured(const measured_point& a, const measured_point& b) {
  return a.format == b.format && a.sum == b.sum && a.shape == b.shape;
}
constexpr bool same_measured(const measured_footprint& a, const measured_footprint& b) {
  return a.footprint == b.footprint;
}
constexpr bool same_measured(const measured_all_reduce& a, const measured_all_reduce& b) {
  return a.devices == b.devices;
}

template <class Row>
constexpr failure flaw(std::span<const Row> rows, const char* name) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    failure why = flaw(rows[i], name);
    for (std::size_t j = 0; j < i && !failed(why); ++j)
      if (same_measured(rows[i], rows[j])) why = failure(errc::measured_twice).about(name);
    if (!failed(why)) continue;
    why.add(fact::row, static_cast<std::int64_t>(i));
    return why;
  }
  return {};
}

}  // namespace detail

/// The measurement itself where it has a date and its readings are finite, positive and in order;
/// else `undated_measurement`, or the name of what is wrong, with its row, counted from 0, where it
/// has rows: `not_positive`, `not_finite`, `not_rising` (quartiles), `out_of_bounds` (SMs, samples,
/// devices, more of its memory than there is), `measured_twice`.
[[nodiscard]] constexpr result<measured_device> validate(const measured_device& given) {
  using detail::failed;
  if (*given.date == '\0') return failure(errc::undated_measurement).about(given.name);
  const std::int64_t most_sms = std::int64_t{1} << 20;
  if (given.sm_count < 0 || given.sm_count > most_sms)
    return failure(errc::out_of_bounds,
                   named_fact{fact::devices, given.sm_count},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, most_sms})
        .about("sm_count");
  const failure flaws[] = {detail::flaw(given.memory, "memory"),
                           detail::flaw(given.free_memory, "free_memory"),
                           detail::flaw(given.context_memory, "context_memory"),
                           detail::flaw(given.power_limit, "power_limit"),
                           detail::flaw(given.matmuls, "matmuls"),
                           detail::flaw(given.issue, "issue"),
                           detail::flaw(given.surface, "surface"),
                           detail::flaw(given.copy, "copy"),
                           detail::flaw(given.triad, "triad"),
                           detail::flaw(given.read, "read"),
                           detail::flaw(given.write, "write"),
                           detail::flaw(given.l2, "l2"),
                           detail::flaw(given.l2_knee, "l2_knee"),
                           detail::flaw(given.footprints, "footprints"),
                           detail::flaw(given.pinned, "pinned"),
                           detail::flaw(given.pageable, "pageable"),
                           detail::flaw(given.kernel_launch, "kernel_launch"),
                           detail::flaw(given.kernel_enqueue, "kernel_enqueue"),
                           detail::flaw(given.empty_kernel, "empty_kernel"),
                           detail::flaw(given.graph_node, "graph_node"),
                           detail::flaw(given.peer_copy, "peer_copy"),
                           detail::flaw(given.all_reduces, "all_reduces")};
  for (const failure& why : flaws)
    if (failed(why)) return why;
  if (given.free_memory && given.memory && *given.free_memory > *given.memory)
    return failure(errc::out_of_bounds,
                   named_fact{fact::needed_MB, detail::as_fact(in(*given.free_memory, 1_MB))},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, detail::as_fact(in(*given.memory, 1_MB))})
        .about("free_memory");
  return given;
}

/// `gpu` with `measured` in place of its data sheet wherever a ceiling is asked. Refers to
/// `measured`, which outlives the answer. Errors: as `validate`; `measured_elsewhere` where it is
/// of another device, or of another MIG slice.
[[nodiscard]] constexpr result<gpu_spec> measured_as(const gpu_spec& gpu,
                                                     const measured_device& measured) {
  if (const auto valid = validate(measured); !valid) return valid.why();
  if (std::string_view(gpu.id) != measured.id || std::string_view(gpu.slice) != measured.slice)
    return failure(errc::measured_elsewhere).about(measured.name);
  gpu_spec with = gpu;
  with.measured = &measured;
  return with;
}
result<gpu_spec> measured_as(const gpu_spec& gpu, const measured_device&& measured) = delete;

}  // namespace gpuplan

#pragma once

// Copies between the host and a device.

#include <gpuplan/cuda/memory.cuh>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan::cuda {

/// Which way a copy goes; `both` is two at once.
enum class transfer_direction { to_device, to_host, both };

/// Whether the host's memory is locked in place, so that the device fetches it by itself, or is
/// ordinary memory, which the driver copies to such first.
enum class host_memory { pinned, pageable };

/// How to measure copies.
struct transfer_options {
  sampling_options sampling{};
  std::size_t bytes = std::size_t{512} << 20;  // one way
};

/// A rate of copies, of both directions together where there are two.
struct transfer_reading {
  bandwidth rate{};
  bytes size{};  // one way
  sampled timing{};
};

/// All rates of copies between a device and its host. Copies of pageable memory keep the calling
/// thread, so that two at once are not measured.
struct transfer_readings {
  transfer_reading pinned_to_device{};
  transfer_reading pinned_to_host{};
  transfer_reading pinned_both{};
  transfer_reading pageable_to_device{};
  transfer_reading pageable_to_host{};
};

namespace detail {

// Memory of the host, of either kind.
class host_words {
 public:
  host_words(host_memory kind, std::size_t words) : words_(words) {
    if (kind == host_memory::pinned)
      pinned_.emplace(words);
    else
      pageable_.resize(words);
  }
  [[nodiscard]] std::uint32_t* data() { return pinned_ ? pinned_->data() : pageable_.data(); }
  void fill(std::uint32_t value) { std::fill(data(), data() + words_, value); }
  void fill(ramp values) {
    for (std::size_t i = 0; i < words_; ++i) data()[i] = values.word(static_cast<long long>(i));
  }
  void require(const char* what, ramp values) {
    for (std::size_t i = 0; i < words_; ++i)
      if (data()[i] != values.word(static_cast<long long>(i)))
        throw measurement_error(std::string(what) + ": word " + std::to_string(i) + " of " +
                                std::to_string(words_) + " is wrong");
  }

 private:
  std::size_t words_;
  std::optional<pinned_buffer<std::uint32_t>> pinned_;
  std::vector<std::uint32_t> pageable_;
};

inline constexpr ramp to_device_ramp{};
inline constexpr ramp to_host_ramp{.factor = 0x85ebca6bU, .offset = 999};

}  // namespace detail

/// The rate of copies of one kind. What arrives is checked word by word, after one more copy into
/// memory that was overwritten. `bytes` is rounded down to 4 KiB. Throws call_error, and
/// measurement_error where what arrived is wrong, or where both directions are asked for in
/// pageable memory.
[[nodiscard]] inline transfer_reading measure_transfer(session& s,
                                                       transfer_direction direction,
                                                       host_memory kind,
                                                       const transfer_options& options = {}) {
  const bool to_device = direction != transfer_direction::to_host;
  const bool to_host = direction != transfer_direction::to_device;
  if (to_device && to_host && kind == host_memory::pageable)
    throw measurement_error("copies of pageable memory both ways at once are not measured");
  constexpr const char* what = "copy between host and device";
  const std::size_t words = std::max<std::size_t>(1, options.bytes / 4096) * 1024;
  const std::size_t size = words * sizeof(std::uint32_t);
  const unsigned blocks = detail::plenty_of_blocks(s);
  detail::host_words source(kind, to_device ? words : 1);
  detail::host_words target(kind, to_host ? words : 1);
  const device_buffer<std::uint32_t> into(to_device ? words : 1);
  const device_buffer<std::uint32_t> from(to_host ? words : 1);
  const stream other;
  const event fork(cudaEventDisableTiming);
  const event joined(cudaEventDisableTiming);
  const cudaStream_t on = s.stream();
  const detail::waits_at_end waits_other(other);
  const detail::waits_at_end waits(on);
  if (to_device) source.fill(detail::to_device_ramp);
  if (to_host) {
    target.fill(0);
    detail::write_ramp(on, blocks, from.data(), size, detail::to_host_ramp);
  }

  const auto send = [&](cudaStream_t to) {
    GPUPLAN_CUDA_CALL(
        cudaMemcpyAsync(into.data(), source.data(), size, cudaMemcpyHostToDevice, to));
  };
  const auto receive = [&](cudaStream_t to) {
    GPUPLAN_CUDA_CALL(
        cudaMemcpyAsync(target.data(), from.data(), size, cudaMemcpyDeviceToHost, to));
  };
  const auto launch = [&](cudaStream_t to) {
    if (!to_host) return send(to);
    if (!to_device) return receive(to);
    // The second copy begins with the first, and the stream goes on when both have ended.
    fork.record(to);
    GPUPLAN_CUDA_CALL(cudaStreamWaitEvent(other, fork, 0));
    send(to);
    receive(other);
    joined.record(other);
    GPUPLAN_CUDA_CALL(cudaStreamWaitEvent(to, joined, 0));
  };

  transfer_reading reading;
  reading.timing = sample(s, launch, options.sampling);
  reading.size = bytes::from_value(static_cast<double>(size));
  reading.rate = (to_device && to_host ? 2 : 1) * reading.size / reading.timing.median;

  if (to_device) GPUPLAN_CUDA_CALL(cudaMemsetAsync(into.data(), 0xff, size, on));
  if (to_host) target.fill(0);
  launch(on);
  if (to_device) detail::require_ramp(on, blocks, what, into.data(), size, detail::to_device_ramp);
  s.stream().synchronize();
  if (to_host) target.require(what, detail::to_host_ramp);
  return reading;
}

/// All kinds of copies. Throws as `measure_transfer` does.
[[nodiscard]] inline transfer_readings measure_transfers(session& s,
                                                         const transfer_options& options = {}) {
  const auto measure = [&](transfer_direction direction, host_memory kind) {
    return measure_transfer(s, direction, kind, options);
  };
  return {.pinned_to_device = measure(transfer_direction::to_device, host_memory::pinned),
          .pinned_to_host = measure(transfer_direction::to_host, host_memory::pinned),
          .pinned_both = measure(transfer_direction::both, host_memory::pinned),
          .pageable_to_device = measure(transfer_direction::to_device, host_memory::pageable),
          .pageable_to_host = measure(transfer_direction::to_host, host_memory::pageable)};
}

}  // namespace gpuplan::cuda

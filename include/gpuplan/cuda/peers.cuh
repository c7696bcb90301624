#pragma once

// Copies between devices, and NCCL's all-reduce of them, the latter where GPUPLAN_CUDA_NCCL is
// defined and NCCL is linked. For programs with one thread and several devices.

#include <gpuplan/cuda/memory.cuh>
#include <gpuplan/measure/curves.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpuplan::cuda {

namespace detail {

// Does something with a device current. The one before is set again by a checked call, for the end
// of a device_scope does not tell when it fails.
template <class Work>
void on_device(int device, Work&& do_it) {
  int previous = 0;
  GPUPLAN_CUDA_CALL(cudaGetDevice(&previous));
  const device_scope scope(device);
  do_it();
  GPUPLAN_CUDA_CALL(cudaSetDevice(previous));
}

// Ends the access of a device to a peer at its own end.
class ends_peer_access {
 public:
  ends_peer_access(int device, int peer) : device_(device), peer_(peer) {}
  ~ends_peer_access() {
    try {
      const device_scope scope(device_);
      GPUPLAN_CUDA_CALL(cudaDeviceDisablePeerAccess(peer_));
    } catch (const call_error&) {
      // There is no one left to tell.
    }
  }
  ends_peer_access(const ends_peer_access&) = delete;
  ends_peer_access& operator=(const ends_peer_access&) = delete;

 private:
  int device_;
  int peer_;
};

}  // namespace detail

/// Lets a device reach another's memory directly, where it can, until its own end; where it could
/// already, that stays so.
class peer_access {
 public:
  peer_access(int device, int peer) {
    int can = 0;
    GPUPLAN_CUDA_CALL(cudaDeviceCanAccessPeer(&can, device, peer));
    direct_ = can != 0;
    if (!direct_) return;
    detail::on_device(device, [&] {
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) {
        static_cast<void>(cudaGetLastError());
        return;
      }
      detail::check(status, "cudaDeviceEnablePeerAccess(peer, 0)", __FILE__, __LINE__);
      end_.emplace(device, peer);
    });
  }

  [[nodiscard]] bool direct() const { return direct_; }

 private:
  bool direct_ = false;
  std::optional<detail::ends_peer_access> end_;
};

/// How to measure copies between devices.
struct peer_options {
  sampling_options sampling{};
  std::size_t bytes = std::size_t{512} << 20;  // one way
};

/// A rate of copies from one device to another, or both ways at once, and then of both together.
struct peer_reading {
  int device = 0;
  int peer = 0;
  bool direct = false;  // not by way of the host
  bandwidth one_way{};  // from `device` to `peer`
  bandwidth both_ways{};
  bytes size{};
  sampled one_way_timing{};
  sampled both_ways_timing{};
};

namespace detail {

// What one of several devices takes part with. It may be freed with any device current.
class device_side {
 public:
  [[nodiscard]] static std::unique_ptr<device_side> make(int device, std::size_t words) {
    std::unique_ptr<device_side> made;
    on_device(device, [&] { made.reset(new device_side(device, words)); });
    return made;
  }

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::uint32_t* sent() const { return sent_.data(); }
  [[nodiscard]] std::uint32_t* received() const { return received_.data(); }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  /// An event of this device, reached with what is on its stream now.
  [[nodiscard]] const event& mark() const {
    on_device(device_, [&] { mark_.record(stream_); });
    return mark_;
  }

  /// Writes what is to be sent, and waits for it.
  void fill(std::size_t bytes, ramp values) const {
    on_device(device_, [&] {
      write_ramp(stream_, blocks_, sent(), bytes, values);
      stream_.synchronize();
    });
  }
  /// Overwrites what was received, and waits for it.
  void clear(std::size_t bytes) const {
    on_device(device_, [&] {
      GPUPLAN_CUDA_CALL(cudaMemsetAsync(received(), 0xff, bytes, stream_));
      stream_.synchronize();
    });
  }
  /// Throws measurement_error where what was received is wrong.
  void require(const char* what, std::size_t bytes, ramp values) const {
    on_device(device_, [&] { require_ramp(stream_, blocks_, what, received(), bytes, values); });
  }

 private:
  device_side(int device, std::size_t words) : device_(device), sent_(words), received_(words) {
    int multiprocessors = 0;
    GPUPLAN_CUDA_CALL(
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    blocks_ = 8 * static_cast<unsigned>(multiprocessors);
  }

  int device_;
  unsigned blocks_ = 0;
  device_buffer<std::uint32_t> sent_;
  device_buffer<std::uint32_t> received_;
  event mark_{cudaEventDisableTiming};
  cuda::stream stream_{};
  waits_at_end waits_{stream_};
};

}  // namespace detail

/// The rate of copies between the session's device and another. What arrives is checked in full.
/// `bytes` is rounded down to 4 KiB. Throws call_error (there is no such device, no room), and
/// measurement_error where what arrived is wrong. Precondition: `peer` is another device than the
/// session's.
[[nodiscard]] inline peer_reading measure_peer(session& s,
                                               int peer,
                                               const peer_options& options = {}) {
  constexpr const char* what = "copy between devices";
  const std::size_t words = std::max<std::size_t>(1, options.bytes / 4096) * 1024;
  const std::size_t size = words * sizeof(std::uint32_t);
  const peer_access there(s.device(), peer);
  const peer_access back(peer, s.device());
  const auto mine = detail::device_side::make(s.device(), words);
  const auto theirs = detail::device_side::make(peer, words);
  const event fork(cudaEventDisableTiming);
  const detail::waits_at_end waits(s.stream());
  constexpr ramp of_mine{.offset = 3};
  constexpr ramp of_theirs{.offset = 7};
  mine->fill(size, of_mine);
  theirs->fill(size, of_theirs);

  const auto copy =
      [&](const detail::device_side& from, const detail::device_side& to, cudaStream_t on) {
        GPUPLAN_CUDA_CALL(
            cudaMemcpyPeerAsync(to.received(), to.device(), from.sent(), from.device(), size, on));
      };
  const auto send = [&](cudaStream_t on) { copy(*mine, *theirs, on); };
  const auto send_both = [&](cudaStream_t on) {
    // The second copy begins with the first, and the stream goes on when both have ended.
    fork.record(on);
    GPUPLAN_CUDA_CALL(cudaStreamWaitEvent(theirs->stream(), fork, 0));
    send(on);
    copy(*theirs, *mine, theirs->stream());
    GPUPLAN_CUDA_CALL(cudaStreamWaitEvent(on, theirs->mark(), 0));
  };

  peer_reading reading{.device = s.device(),
                       .peer = peer,
                       .direct = there.direct() && back.direct(),
                       .size = bytes::from_value(static_cast<double>(size))};
  reading.one_way_timing = sample(s, send, options.sampling);
  reading.both_ways_timing = sample(s, send_both, options.sampling);
  reading.one_way = reading.size / reading.one_way_timing.median;
  reading.both_ways = 2 * reading.size / reading.both_ways_timing.median;
  mine->clear(size);
  theirs->clear(size);
  send_both(s.stream());
  s.stream().synchronize();
  mine->require(what, size, of_theirs);
  theirs->require(what, size, of_mine);
  return reading;
}

#ifdef GPUPLAN_CUDA_NCCL

/// How to measure an all-reduce.
struct all_reduce_options {
  sampling_options sampling{};
  std::size_t least_bytes = 1024;
  std::size_t most_bytes = std::size_t{8} << 30;  // as far as there is room for two such buffers
};

/// An all-reduce of one size.
struct all_reduce_point {
  bytes size{};                // of the buffer on each device
  bandwidth algorithm_rate{};  // size over time
  bandwidth bus_rate{};        // times 2 (n - 1) / n: what each link carried, if in a ring
  sampled timing{};
};

/// An all-reduce over sizes, each twice the one before.
struct all_reduce_reading {
  int devices = 0;
  std::vector<all_reduce_point> points{};
  std::optional<measure::transfer_line> line{};  // t = latency + size / rate
};

namespace detail {

// NCCL's communicators of several devices of this process.
class communicators {
 public:
  explicit communicators(std::span<const int> devices) : handles_(devices.size()) {
    GPUPLAN_CUDA_CALL(
        ncclCommInitAll(handles_.data(), static_cast<int>(devices.size()), devices.data()));
  }
  ~communicators() {
    for (const ncclComm_t handle : handles_) static_cast<void>(ncclCommDestroy(handle));
  }
  communicators(const communicators&) = delete;
  communicators& operator=(const communicators&) = delete;

  [[nodiscard]] ncclComm_t operator[](std::size_t rank) const { return handles_[rank]; }

 private:
  std::vector<ncclComm_t> handles_;
};

/// The ramp that rank `rank` sends, and the sum of the first `ranks` of them, which is one too:
/// modulo 2^32, so that sums are exact in any order.
[[nodiscard]] constexpr ramp ramp_of_rank(std::uint32_t rank) {
  return {.factor = 0x9e3779b9U * (rank + 1), .offset = rank};
}
[[nodiscard]] constexpr ramp sum_of_ramps(std::uint32_t ranks) {
  return {.factor = 0x9e3779b9U * (ranks * (ranks + 1) / 2), .offset = ranks * (ranks - 1) / 2};
}

// The largest buffer of which each device has room for two, up to `most`.
[[nodiscard]] inline std::size_t buffer_bytes_on_all(std::span<const int> devices,
                                                     std::size_t least,
                                                     std::size_t most) {
  for (const int device : devices) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    on_device(device, [&] { GPUPLAN_CUDA_CALL(cudaMemGetInfo(&free_bytes, &total_bytes)); });
    most = std::min(most, free_bytes / 10 * 4);  // NCCL's own buffers need room too
  }
  std::size_t size = least;
  while (size * 2 <= most) size *= 2;
  return size;
}

}  // namespace detail

/// An all-reduce (sum of 32-bit integers, so that it is exact in any order) over `devices`, the
/// first of which is the session's. Every size's result is checked in full on every device. Throws
/// call_error, and measurement_error where a sum is wrong, or for fewer than two devices, the first
/// of which must be the session's.
[[nodiscard]] inline all_reduce_reading measure_all_reduce(session& s,
                                                           std::span<const int> devices,
                                                           const all_reduce_options& options = {}) {
  constexpr const char* what = "all-reduce";
  if (devices.size() < 2 || devices.front() != s.device())
    throw measurement_error("an all-reduce takes two devices, of which the session's is the first");
  const std::size_t least = std::max<std::size_t>(16, options.least_bytes / 16 * 16);
  const std::size_t most =
      detail::buffer_bytes_on_all(devices, least, std::max(least, options.most_bytes));
  const auto ranks = static_cast<std::uint32_t>(devices.size());
  const detail::communicators communicators(devices);
  std::vector<std::unique_ptr<detail::device_side>> sides;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sides.push_back(detail::device_side::make(devices[rank], most / 4));
    sides.back()->fill(most, detail::ramp_of_rank(rank));
  }
  const detail::waits_at_end waits(s.stream());

  all_reduce_reading reading{.devices = static_cast<int>(ranks)};
  std::vector<measure::transfer_time> times;
  for (std::size_t size = least; size <= most; size *= 2) {
    const auto launch = [&](cudaStream_t on) {
      GPUPLAN_CUDA_CALL(ncclGroupStart());
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        GPUPLAN_CUDA_CALL(ncclAllReduce(sides[rank]->sent(),
                                        sides[rank]->received(),
                                        size / 4,
                                        ncclUint32,
                                        ncclSum,
                                        communicators[rank],
                                        rank == 0 ? on : sides[rank]->stream()));
      GPUPLAN_CUDA_CALL(ncclGroupEnd());
    };
    all_reduce_point point{.size = bytes::from_value(static_cast<double>(size))};
    point.timing = sample(s, launch, options.sampling);
    point.algorithm_rate = point.size / point.timing.median;
    point.bus_rate = point.algorithm_rate * (2.0 * (ranks - 1) / ranks);
    for (const auto& side : sides) side->clear(size);
    launch(s.stream());
    s.stream().synchronize();
    for (const auto& side : sides) side->require(what, size, detail::sum_of_ramps(ranks));
    times.push_back({point.size, point.timing.median});
    reading.points.push_back(point);
  }
  reading.line = measure::line_through(times);
  return reading;
}

#endif

}  // namespace gpuplan::cuda

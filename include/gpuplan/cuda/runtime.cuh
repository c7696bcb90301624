#pragma once

// The CUDA runtime with its errors checked and its objects owned. Needs nvcc, and for statuses of
// cuBLASLt and NCCL the macros GPUPLAN_CUDA_CUBLASLT and GPUPLAN_CUDA_NCCL.

#include <cuda_runtime.h>
#ifdef GPUPLAN_CUDA_CUBLASLT
#include <cublasLt.h>
#endif
#ifdef GPUPLAN_CUDA_NCCL
#include <nccl.h>
#endif

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace gpuplan::cuda {

/// What a library says of one of its statuses.
struct status_text {
  const char* library;
  int code;
  const char* name;
  const char* description;
};

/// A call that failed. `what()` reads
/// `file:line: call: CUDA error 2, cudaErrorMemoryAllocation: out of memory`.
class call_error : public std::runtime_error {
 public:
  call_error(status_text status, const char* call, const char* file, int line)
      : std::runtime_error(std::string(file) + ':' + std::to_string(line) + ": " + call + ": " +
                           status.library + " error " + std::to_string(status.code) + ", " +
                           status.name + ": " + status.description),
        status_(status),
        call_(call),
        file_(file),
        line_(line) {}

  [[nodiscard]] const status_text& status() const noexcept { return status_; }
  [[nodiscard]] const char* call() const noexcept { return call_; }
  [[nodiscard]] const char* file() const noexcept { return file_; }
  [[nodiscard]] int line() const noexcept { return line_; }

 private:
  status_text status_;  // the libraries' texts, and those below, live as long as the program
  const char* call_;
  const char* file_;
  int line_;
};

/// A measurement without an answer: nothing usable was sampled, or what a kernel wrote is wrong.
class measurement_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

inline status_text describe(cudaError_t status) {
  return {"CUDA", status, cudaGetErrorName(status), cudaGetErrorString(status)};
}
#ifdef GPUPLAN_CUDA_CUBLASLT
inline status_text describe(cublasStatus_t status) {
  return {"cuBLASLt", status, cublasLtGetStatusName(status), cublasLtGetStatusString(status)};
}
#endif
#ifdef GPUPLAN_CUDA_NCCL
inline status_text describe(ncclResult_t status) {
  return {"NCCL", status, "ncclResult_t", ncclGetErrorString(status)};
}
#endif

template <class Status>
void check(Status status, const char* call, const char* file, int line) {
  if (status == Status{}) return;
  // The runtime keeps the last error: left there, it would be read as that of the next launch.
  if constexpr (std::is_same_v<Status, cudaError_t>) static_cast<void>(cudaGetLastError());
  throw call_error(describe(status), call, file, line);
}

}  // namespace detail

/// Evaluates a call that returns cudaError_t, cublasStatus_t or ncclResult_t; throws
/// gpuplan::cuda::call_error with this place and the call's text where it did not succeed.
#define GPUPLAN_CUDA_CALL(...) \
  ::gpuplan::cuda::detail::check((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

/// `GPUPLAN_CUDA_LAUNCH(kernel<<<grid, block, shared, stream>>>(arguments));` launches, and throws
/// gpuplan::cuda::call_error where the launch was refused, or where an earlier call of other code
/// failed and was not asked for its error. What fails later on the device is seen by the next call
/// that waits for it.
#define GPUPLAN_CUDA_LAUNCH(...)                                                          \
  do {                                                                                    \
    __VA_ARGS__;                                                                          \
    ::gpuplan::cuda::detail::check(cudaGetLastError(), #__VA_ARGS__, __FILE__, __LINE__); \
  } while (false)

namespace detail {

// Calls Destroy on a handle. An error there has no one left to tell, and belongs to earlier work
// that was waited for: it is taken off the runtime, so that no later launch is blamed for it.
template <auto Destroy>
struct destroyer {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    if (Destroy(handle) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
};

template <class Handle, auto Destroy>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Destroy>>;

inline cudaError_t free_device(void* data) { return cudaFree(data); }
inline cudaError_t free_pinned(void* data) { return cudaFreeHost(data); }

// `count` elements of `size` bytes, as bytes.
inline std::size_t checked_bytes(std::size_t count, std::size_t size) {
  if (count > static_cast<std::size_t>(-1) / size)
    throw std::length_error("gpuplan::cuda: a buffer of more bytes than can be addressed");
  return count * size;
}

}  // namespace detail

/// Makes a device the current one, and the one that was current again at its end.
class device_scope {
 public:
  /// Throws call_error where there is no such device.
  explicit device_scope(int device) {
    GPUPLAN_CUDA_CALL(cudaGetDevice(&previous_));
    if (device != previous_) GPUPLAN_CUDA_CALL(cudaSetDevice(device));
  }
  ~device_scope() {
    int current = previous_;
    if (cudaGetDevice(&current) == cudaSuccess && current == previous_) return;
    static_cast<void>(cudaSetDevice(previous_));
    static_cast<void>(cudaGetLastError());  // of either call
  }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;

 private:
  int previous_ = 0;
};

/// A stream of the current device that does not wait for the default stream.
class stream {
 public:
  stream() {
    cudaStream_t made = nullptr;
    GPUPLAN_CUDA_CALL(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    handle_.reset(made);
  }
  [[nodiscard]] cudaStream_t get() const noexcept { return handle_.get(); }
  operator cudaStream_t() const noexcept { return get(); }
  /// Waits for all that was put on it, and throws what failed there.
  void synchronize() const { GPUPLAN_CUDA_CALL(cudaStreamSynchronize(get())); }

 private:
  detail::owned<cudaStream_t, cudaStreamDestroy> handle_;
};

namespace detail {

// Waits for a stream at the end of a scope, whatever ended it: what the stream still uses may be
// freed after this, and not before.
class waits_at_end {
 public:
  explicit waits_at_end(cudaStream_t on) : on_(on) {}
  ~waits_at_end() {
    if (cudaStreamSynchronize(on_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  waits_at_end(const waits_at_end&) = delete;
  waits_at_end& operator=(const waits_at_end&) = delete;

 private:
  cudaStream_t on_;
};

}  // namespace detail

/// A mark on a stream that keeps its time, or with cudaEventDisableTiming does not.
class event {
 public:
  explicit event(unsigned flags = cudaEventDefault) {
    cudaEvent_t made = nullptr;
    GPUPLAN_CUDA_CALL(cudaEventCreateWithFlags(&made, flags));
    handle_.reset(made);
  }
  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }
  operator cudaEvent_t() const noexcept { return get(); }
  void record(cudaStream_t on) const { GPUPLAN_CUDA_CALL(cudaEventRecord(get(), on)); }
  void synchronize() const { GPUPLAN_CUDA_CALL(cudaEventSynchronize(get())); }

 private:
  detail::owned<cudaEvent_t, cudaEventDestroy> handle_;
};

/// The seconds from one event that was reached to another. The device counts in steps of about half
/// a microsecond.
[[nodiscard]] inline double seconds_between(const event& start, const event& stop) {
  float ms = 0;
  GPUPLAN_CUDA_CALL(cudaEventElapsedTime(&ms, start, stop));
  return static_cast<double>(ms) / 1e3;
}

/// `size` elements in the memory of the current device, uninitialised. Throws call_error where they
/// do not fit.
template <class T>
class device_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit device_buffer(std::size_t size)
      : size_(size), bytes_(detail::checked_bytes(size, sizeof(T))) {
    void* made = nullptr;
    GPUPLAN_CUDA_CALL(cudaMalloc(&made, bytes_));
    data_.reset(made);
  }
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(data_.get()); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t size_;
  std::size_t bytes_;
  detail::owned<void*, detail::free_device> data_;
};

/// `size` elements of host memory that does not move, uninitialised, which the device reads and
/// writes under the same address.
template <class T>
class pinned_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit pinned_buffer(std::size_t size)
      : size_(size), bytes_(detail::checked_bytes(size, sizeof(T))) {
    void* made = nullptr;
    GPUPLAN_CUDA_CALL(cudaHostAlloc(&made, bytes_, cudaHostAllocPortable | cudaHostAllocMapped));
    data_.reset(made);
  }
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(data_.get()); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::span<T> elements() const noexcept { return {data(), size_}; }

 private:
  std::size_t size_;
  std::size_t bytes_;
  detail::owned<void*, detail::free_pinned> data_;
};

/// The work that a callable puts on a stream, recorded once and launched as a whole.
class graph {
 public:
  /// Records what `enqueue(cudaStream_t)` puts on `on`; nothing of it runs. Where `enqueue` throws,
  /// the recording is ended and dropped, and `on` is a plain stream again.
  template <class Enqueue>
  graph(cudaStream_t on, Enqueue&& enqueue) {
    GPUPLAN_CUDA_CALL(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
    try {
      std::forward<Enqueue>(enqueue)(on);
    } catch (...) {
      cudaGraph_t dropped = nullptr;
      if (cudaStreamEndCapture(on, &dropped) != cudaSuccess) static_cast<void>(cudaGetLastError());
      if (dropped != nullptr) static_cast<void>(cudaGraphDestroy(dropped));
      throw;
    }
    cudaGraph_t captured = nullptr;
    GPUPLAN_CUDA_CALL(cudaStreamEndCapture(on, &captured));
    graph_.reset(captured);
    cudaGraphExec_t made = nullptr;
    GPUPLAN_CUDA_CALL(cudaGraphInstantiate(&made, captured, 0));
    executable_.reset(made);
  }
  void launch(cudaStream_t on) const { GPUPLAN_CUDA_CALL(cudaGraphLaunch(executable_.get(), on)); }

 private:
  detail::owned<cudaGraph_t, cudaGraphDestroy> graph_;
  detail::owned<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

}  // namespace gpuplan::cuda

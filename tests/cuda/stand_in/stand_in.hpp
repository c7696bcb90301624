#pragma once

// A CUDA runtime that has no device and says so: it answers the calls of gpuplan's CUDA module from
// a script, so that every path of a measurement, the failing ones too, runs on any machine. Linked
// in place of the real libraries. What it "measures" is what the script says and nothing else.
//
// Time is virtual. The host's clock goes on by `call_s` with every call; work on a stream starts
// when the stream is free and takes what the script says; waiting takes the host's clock to the end
// of what it waits for. Events, device timers and clocks all read this time, and so may the code
// under test: gpuplan::cuda::session_options{.now_s = stand_in::now_s, .sleep_s =
// stand_in::sleep_s}.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stand_in {

/// A kernel as it was launched. `arguments[i]` points to the i-th argument while the rules for it
/// are asked, and to nothing afterwards.
struct launch {
  std::string name;  // demangled, with parameters
  dim3 grid{};
  dim3 block{};
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  int device = 0;
  std::int64_t index = 0;  // how many kernels matched the same rule before
  void** arguments = nullptr;
  double start_s = 0;
  double end_s = 0;  // not yet known where the rule's `seconds` is asked

  template <class T>
  [[nodiscard]] T& argument(std::size_t i) const {
    return *static_cast<T*>(arguments[i]);
  }
};

/// What kernels do whose demangled name holds `name`. The rule that was added last comes first.
struct kernel_rule {
  std::string name;
  std::function<double(const launch&)> seconds{};  // `script.kernel_s` where empty
  std::function<void(const launch&)> body{};       // what the kernel writes, run at once
  cudaError_t fails = cudaSuccess;  // the next call that waits fails with it, and all calls then
  std::int64_t launched = 0;        // so far
};

/// A device that does not exist.
struct device {
  cudaDeviceProp properties{};
  std::map<cudaDeviceAttr, int> attributes{};  // those that the properties do not answer
  std::size_t context_bytes = 0;               // taken from its memory from the start
  std::function<double(double now_s)> clock_MHz{};
  std::vector<int> peers{};  // the devices whose memory it can access
};

/// All that the stand-in answers from. Plain data: change what a test needs.
struct script {
  std::vector<device> devices;
  std::vector<kernel_rule> kernels;
  double call_s = 1e-6;              // of the host, each call
  double kernel_s = 10e-6;           // a kernel without a rule that says it
  double device_bytes_per_s = 1e12;  // written by memset; read and written by a copy on the device
  double pinned_bytes_per_s = 50e9;
  double pageable_bytes_per_s = 10e9;
  double peer_bytes_per_s = 300e9;
  std::size_t touched_bytes = std::size_t{16}
                              << 20;  // of one copy or memset: more costs the tests time
  int driver_version = 13000;
  int runtime_version = 13000;
  int blocks_per_multiprocessor = 2;  // what occupancy is answered with
};

/// The script in force.
script& current();

/// One device, "Stand-in GPU" (compute capability 9.0, 4 SMs, 1 MiB of L2, 256 MiB), no rules but
/// those of gpuplan's own clock kernels, no failures, no counts, time 0.
void reset();

/// A device as `reset` makes it.
device plain_device();

/// The n-th call from now of a function (n from 1, "cudaMalloc") fails with this code. Of a
/// function that frees, the thing is freed all the same, as where the code comes from earlier work.
void fail(std::string_view function, std::int64_t nth, int code);

/// Where a function is called by this name from now on, it fails every time.
void fail_always(std::string_view function, int code);

/// How often each function was called since `reset`.
const std::map<std::string, std::int64_t>& calls();

/// What was made and not freed yet: "cudaMalloc" 2. Empty where nothing leaks. `reset` keeps it.
std::map<std::string, std::int64_t> live();

/// The kernels that were launched since `reset`, graphs' included.
const std::vector<launch>& launches();
/// Those of them whose name holds `name`.
std::vector<launch> launches_of(std::string_view name);

/// The device that is current.
int current_device();
/// Whether an error waits in cudaGetLastError.
bool error_waits();

double now_s();
void sleep_s(double seconds);

/// What the next samples take: a rule's `seconds` that goes through the series and stays at its
/// last value.
std::function<double(const launch&)> series(std::vector<double> seconds);

}  // namespace stand_in

#pragma once

// The measurements of a device, part by part. Compiled by nvcc; included by host code.

#include <gpuplan/measured_device.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "measure_gpu/devices.hpp"
#include "measure_gpu/report.hpp"

namespace measure_gpu_program {

/// A part of the measurements, as a person asks for it.
struct part {
  const char* name;
  const char* about;
  bool usual;  // measured unless others are asked for
};

/// Every part, in the order in which they are measured.
[[nodiscard]] const std::vector<part>& parts();

struct request {
  int device = 0;
  bool quick = false;               // seconds for each measurement, not tens: spreads are wider
  std::vector<std::string> only{};  // names of parts; empty: the usual ones
  std::string model{};              // of the catalogue: its layers' products are measured; or empty
  std::int64_t micro_batch = 1;     // of that model
  std::int64_t sequence_length = 2048;
};

/// What is around the program, and how large the things are that it measures. The defaults are
/// those of a real device; tests have another clock, and less patience.
struct surroundings {
  std::function<double()> now_s{};        // empty: the steady clock's
  std::function<void(double)> sleep_s{};  // likewise
  std::vector<gpuplan::matmul_shape> shapes{
      {4096, 4096, 4096}, {8192, 8192, 8192}, {16384, 8192, 1280}};
  std::vector<gpuplan::matmul_shape> grid{};            // of the surface; empty: the usual
  std::size_t array_bytes = std::size_t{1} << 30;       // of memory, at least four L2 caches
  std::size_t least_footprint = std::size_t{1} << 20;   // of the L2 cache
  double cache_traffic = 4e9;                           // that a launch reads of it at least
  std::size_t transfer_bytes = std::size_t{512} << 20;  // of copies from and to the host
  std::size_t all_reduce_bytes = std::size_t{8} << 30;  // at most
};

/// Told the part, what of it is measured, and which share of that is done, 0 to 1.
using progress_listener = std::function<void(std::string_view, std::string_view, double)>;

struct outcome {
  report made{};
  std::vector<std::string> failed{};  // "part: why", of what could not be measured
};

/// Measures a device. What cannot be measured is in `failed`, and all else is measured still.
/// Throws `no_device`, `guides::bad_request` where the device or the model asked for does not
/// exist, and `std::runtime_error` where the device cannot even be asked what it is.
[[nodiscard]] outcome measure(const request& asked,
                              const progress_listener& listener,
                              const surroundings& around = {});

}  // namespace measure_gpu_program

#pragma once

// Fault injection: every call that a measurement makes fails once.

#include <gpuplan/cuda/runtime.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tests {

// Those that end something. What fails there has no one to tell: it must end all the same.
inline bool ends_something(std::string_view call) {
  return call.find("Destroy") != call.npos || call.find("Free") != call.npos;
}

// Those that stand in destructors too, and are as silent there.
inline bool may_end_something(std::string_view call) {
  return call == "cudaStreamSynchronize" || call == "cudaSetDevice" || call == "cudaGetDevice" ||
         call == "cudaStreamEndCapture" || call == "cudaDeviceDisablePeerAccess";
}

/// Runs a measurement once as it is, and once more for each call it made (of a function called more
/// than `most` times, for the first and the last ones), with that call failing. `prepare` writes
/// the script after each reset. Each failure must come out as a call_error that names the call;
/// nothing may leak, no error may wait for the next one who asks, and the current device must be
/// the one that was current before.
inline void every_call_fails(const std::function<void()>& prepare,
                             const std::function<void()>& run,
                             std::int64_t most = 12) {
  const auto begin = [&] {
    stand_in::reset();
    if (prepare) prepare();
  };
  begin();
  const int device = stand_in::current_device();
  const auto left_as_found = [&] {
    CHECK(stand_in::live().empty());
    CHECK_FALSE(stand_in::error_waits());
    CHECK(stand_in::current_device() == device);
  };
  run();
  left_as_found();
  const std::map<std::string, std::int64_t> calls = stand_in::calls();
  REQUIRE_FALSE(calls.empty());
  for (const auto& [call, count] : calls) {
    // Each library has an error of its own with the number 2; it is no success in any.
    constexpr int code = cudaErrorMemoryAllocation;
    for (std::int64_t n = 1; n <= count; ++n) {
      if (n > most / 2 && n <= count - most / 2) continue;
      INFO(call << " fails at call " << n << " of " << count);
      begin();
      stand_in::fail(call, n, code);
      std::string said;
      try {
        run();
      } catch (const gpuplan::cuda::call_error& error) {
        said = error.what();
        CHECK(error.line() > 0);
        CHECK(error.status().code == code);
      }
      left_as_found();
      if (ends_something(call)) {
        CHECK(said.empty());
      } else if (!may_end_something(call) || !said.empty()) {
        CHECK(said.find(call == "cudaLaunchKernel" ? std::string("<<<") : call) !=
              std::string::npos);
      }
    }
  }
}

}  // namespace tests

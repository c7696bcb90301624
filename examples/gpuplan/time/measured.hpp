#pragma once

// A predicted step beside one that PyTorch's profiler saw.

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/profiler_trace.hpp>
#include <gpuplan/memory/step_trace.hpp>

#include <string>

#include "guides/render.hpp"

namespace time_program {

/// Reads a trace. Throws `guides::bad_request`, after the option, where it is none.
[[nodiscard]] gpuplan::io::profiled_step measured_in(const std::string& option,
                                                     const std::string& file);

/// By kind of operator and, of matmuls, by size: how many, how long, and the ratio, those where the
/// two part most first; then launches and times of host and device, and how far matmuls are alike
/// one after the other. A trace without kernels is compared by the host's times. Remarks that it
/// was made on another device than `on`, or is of another step.
[[nodiscard]] std::string compared(const gpuplan::step_trace& predicted,
                                   const gpuplan::io::profiled_step& measured,
                                   const gpuplan::gpu_spec& on,
                                   const guides::output& as);

}  // namespace time_program

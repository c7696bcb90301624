#pragma once

// Which of CUDA's devices a person may ask for.

#include <stdexcept>
#include <string>

#include "guides/front_end.hpp"

namespace measure_gpu_program {

/// There is nothing to measure.
class no_device : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws `no_device` where there are none, and `guides::bad_request` where this is none of them.
inline void require_device(int device, int of_devices) {
  if (of_devices == 0)
    throw no_device("there is no device to measure: CUDA finds no GPU, or no driver for one");
  if (device >= of_devices)
    throw guides::bad_request(
        "--device " + std::to_string(device) + ": there " +
        (of_devices == 1 ? "is 1 device" : "are " + std::to_string(of_devices) + " devices") +
        ", counted from 0");
}

}  // namespace measure_gpu_program

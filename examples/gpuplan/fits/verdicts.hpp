#pragma once

// Whether a way to train fits, and what is in the way.

#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/transformer.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "fits/methods.hpp"

namespace fits_program {

struct verdict {
  std::string method;
  std::string recompute;
  std::int64_t gpus = 1;
  std::string why_not{};           // that there is no answer; the rest says nothing then
  std::int64_t at_one = 0;         // bytes that a micro-batch of 1 needs
  std::int64_t largest = 0;        // micro-batch that fits; 0: none
  std::int64_t at_largest = 0;     // bytes that it needs
  std::string when{};              // is the peak, of the largest, or of 1 where that does not fit
  std::string binds{};             // what the next larger one has most of
  std::int64_t binding_bytes = 0;  // and how much
};

struct judged_gpu {
  std::string name;
  std::int64_t usable = 0;  // bytes
  std::vector<verdict> verdicts{};
};

[[nodiscard]] judged_gpu judge(const gpuplan::gpu_spec& gpu,
                               const std::vector<method>& methods,
                               double fragmentation);

}  // namespace fits_program

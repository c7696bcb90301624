#pragma once

// Operators over lists of tensors (torch._foreach_...): how many kernels they are. Private.

#include <gpuplan/detail/integer.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// A kernel takes so many tensors, the fewer the more lists they are of, and so many chunks of
/// 65,536 elements (MultiTensorApply.cuh of PyTorch built with CUDA 13).
class list_kernels {
 public:
  static constexpr int most_lists = 4;

  /// `has_numbers`: beside each tensor of one list.
  constexpr explicit list_kernels(int lists, bool has_numbers = false) {
    constexpr int most[most_lists] = {770, 448, 336, 252};
    most_tensors_ = has_numbers && lists == 1 ? 672 : most[lists - 1];
  }

  /// The next tensor of each list has so many elements.
  constexpr void add(std::int64_t elements) {
    std::int64_t left = detail::ceil_div(elements, std::int64_t{65'536});
    ++tensors_;
    while (left > 0) {
      const std::int64_t room = most_chunks - chunks_;
      const std::int64_t taken = left < room ? left : room;
      chunks_ += taken;
      left -= taken;
      if (chunks_ < most_chunks && (left > 0 || tensors_ < most_tensors_)) continue;
      ++launched_;
      chunks_ = 0;
      tensors_ = left == 0 ? 0 : 1;
    }
  }
  [[nodiscard]] constexpr int count() const { return launched_ + (chunks_ > 0 ? 1 : 0); }

 private:
  static constexpr std::int64_t most_chunks = 2240;

  int most_tensors_ = 0;
  int launched_ = 0;
  int tensors_ = 0;  // of the next kernel
  std::int64_t chunks_ = 0;
};

}  // namespace gpuplan::eager

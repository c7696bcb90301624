#pragma once

// NCCL's part of the stand-in.

#include <nccl.h>

#include <cstddef>
#include <functional>

namespace stand_in {

/// What NCCL answers. All ranks of a group are of this process, one for each device.
struct nccl_script {
  int version = 22800;
  std::function<double(std::size_t bytes, int ranks)> all_reduce_s{};  // 100 us where empty
  bool sums = true;  // whether an all-reduce writes the sums; a broken one does not
};

/// The script in force; `reset()` makes it as above.
nccl_script& current_nccl();

}  // namespace stand_in

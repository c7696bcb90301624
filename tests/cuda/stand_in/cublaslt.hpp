#pragma once

// cuBLASLt's part of the stand-in.

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace stand_in {

/// A matrix product as cuBLASLt was asked for it: D = alpha op(A) op(B) + beta C.
struct matmul {
  struct matrix {
    cudaDataType type = CUDA_R_32F;
    std::uint64_t rows = 0;
    std::uint64_t columns = 0;
    std::int64_t leading = 0;
    cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  };
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  matrix a, b, c, d;
  const void* alpha = nullptr;
  const void* a_data = nullptr;
  const void* b_data = nullptr;
  const void* beta = nullptr;
  const void* c_data = nullptr;
  void* d_data = nullptr;
  const void* a_scale = nullptr;  // on the device, as are those below
  const void* b_scale = nullptr;
  int algorithm = 0;  // the place in the heuristic's answer
  std::size_t workspace_bytes = 0;
};

/// What cuBLASLt answers.
struct matmul_script {
  int algorithms = 3;                              // that the heuristic knows
  std::size_t workspace_bytes = 0;                 // that each of them wants
  std::function<double(const matmul&)> seconds{};  // 1 ms where empty
  std::function<void(const matmul&)> body{};       // what it writes, run at once
};

/// The script in force; `reset()` makes it as above.
matmul_script& current_matmul();

/// The products asked for since `reset`.
const std::vector<matmul>& matmuls();

}  // namespace stand_in

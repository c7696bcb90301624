#pragma once

// A matrix product as cuBLASLt wants it described. Needs the macro GPUPLAN_CUDA_CUBLASLT.

#include <gpuplan/cuda/matmul.cuh>
#include <gpuplan/cuda/runtime.cuh>

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace gpuplan::cuda {

/// The types that cuBLASLt names for a product in a format.
struct cublaslt_types {
  cudaDataType_t operand;
  cudaDataType_t result;
  cudaDataType_t scale;  // of alpha and beta
  cublasComputeType_t compute;
};

/// Sums are of 32 bits, but fp64's. Nothing for fp4, which has scales for blocks.
[[nodiscard]] constexpr std::optional<cublaslt_types> cublaslt_types_of(number_format format) {
  switch (format) {
    case number_format::fp64:
      return cublaslt_types{CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case number_format::fp32:
      return cublaslt_types{CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case number_format::tf32:
      return cublaslt_types{CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case number_format::bf16:
      return cublaslt_types{CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case number_format::fp16:
      return cublaslt_types{CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case number_format::fp8:
      return cublaslt_types{CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case number_format::int8:
      return cublaslt_types{CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I};
    case number_format::fp4:
      break;
  }
  return std::nullopt;
}

namespace detail {

template <auto Destroy>
struct cublaslt_destroyer {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    static_cast<void>(Destroy(handle));
  }
};
template <class Handle, auto Destroy>
using cublaslt_owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublaslt_destroyer<Destroy>>;

using matrix_layout = cublaslt_owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

// A matrix by columns, without gaps.
inline matrix_layout layout_by_columns(cudaDataType_t type,
                                       std::int64_t rows,
                                       std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  GPUPLAN_CUDA_CALL(cublasLtMatrixLayoutCreate(
      &made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), rows));
  return matrix_layout(made);
}

}  // namespace detail

/// One of cuBLASLt's ways to make a product. (Its own type has no name, which nvcc 13.0 does not
/// survive in a vector.)
struct cublaslt_algorithm {
  cublasLtMatmulAlgo_t of_library{};
};

/// cuBLASLt on the current device.
class cublaslt {
 public:
  cublaslt() {
    cublasLtHandle_t made = nullptr;
    GPUPLAN_CUDA_CALL(cublasLtCreate(&made));
    handle_.reset(made);
  }
  [[nodiscard]] cublasLtHandle_t get() const noexcept { return handle_.get(); }

 private:
  detail::cublaslt_owned<cublasLtHandle_t, cublasLtDestroy> handle_;
};

/// One product, described to cuBLASLt. It reads matrices by columns, and what lies by rows as its
/// transpose: C = A B by rows is C^T = B^T A^T by columns, so B is its first operand.
class cublaslt_matmul {
 public:
  /// `unit_scale` is a 1 of fp32 in the device's memory, which fp8's operands are scaled by.
  /// `fast_sums` lets fp8 add up in what precision the matrix units have, as frameworks do in the
  /// forward pass. Throws call_error. Precondition: cuBLASLt has types for the format.
  cublaslt_matmul(const matmul& matmul, const float* unit_scale, bool fast_sums)
      : types_(cublaslt_types_of(matmul.format).value()) {
    const auto [m, n, k] = matmul.shape;
    cublasLtMatmulDesc_t made = nullptr;
    GPUPLAN_CUDA_CALL(cublasLtMatmulDescCreate(&made, types_.compute, types_.scale));
    operation_.reset(made);
    set(CUBLASLT_MATMUL_DESC_TRANSA, matmul.b_is_transposed() ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, matmul.a_is_transposed() ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (matmul.format == number_format::fp8) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, unit_scale);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, unit_scale);
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(fast_sums ? 1 : 0));
    }
    first_ = matmul.b_is_transposed() ? detail::layout_by_columns(types_.operand, k, n)
                                      : detail::layout_by_columns(types_.operand, n, k);
    second_ = matmul.a_is_transposed() ? detail::layout_by_columns(types_.operand, m, k)
                                       : detail::layout_by_columns(types_.operand, k, m);
    result_ = detail::layout_by_columns(types_.result, n, m);
  }

  /// The algorithms that cuBLASLt proposes, at most `most`, those it thinks fastest first. None
  /// where it has none for this product on this device. Throws call_error.
  [[nodiscard]] std::vector<cublaslt_algorithm> algorithms(const cublaslt& library,
                                                           int most,
                                                           std::size_t workspace_bytes) const {
    cublasLtMatmulPreference_t made = nullptr;
    GPUPLAN_CUDA_CALL(cublasLtMatmulPreferenceCreate(&made));
    const detail::cublaslt_owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>
        preference(made);
    const std::uint64_t bytes = workspace_bytes;
    GPUPLAN_CUDA_CALL(cublasLtMatmulPreferenceSetAttribute(
        made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    const auto found =
        std::make_unique<cublasLtMatmulHeuristicResult_t[]>(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library.get(),
                                                                 operation_.get(),
                                                                 first_.get(),
                                                                 second_.get(),
                                                                 result_.get(),
                                                                 result_.get(),
                                                                 made,
                                                                 most,
                                                                 found.get(),
                                                                 &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    detail::check(status, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
    std::vector<cublaslt_algorithm> usable;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& one = found[static_cast<std::size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS && one.workspaceSize <= workspace_bytes)
        usable.push_back({one.algo});
    }
    return usable;
  }

  /// Puts C = A B on a stream. Throws call_error where cuBLASLt refuses it.
  void launch(const cublaslt& library,
              const cublaslt_algorithm& algorithm,
              const void* a,
              const void* b,
              void* c,
              void* workspace,
              std::size_t workspace_bytes,
              cudaStream_t on) const {
    GPUPLAN_CUDA_CALL(cublasLtMatmul(library.get(),
                                     operation_.get(),
                                     scale(1),
                                     b,
                                     first_.get(),
                                     a,
                                     second_.get(),
                                     scale(0),
                                     c,
                                     result_.get(),
                                     c,
                                     result_.get(),
                                     &algorithm.of_library,
                                     workspace,
                                     workspace_bytes,
                                     on));
  }

 private:
  cublaslt_types types_;
  detail::cublaslt_owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation_;
  detail::matrix_layout first_;
  detail::matrix_layout second_;
  detail::matrix_layout result_;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    GPUPLAN_CUDA_CALL(
        cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof value));
  }

  // 0 or 1, on the host, in the type of alpha and beta.
  [[nodiscard]] const void* scale(int value) const {
    static constexpr std::array<float, 2> fp32{0, 1};
    static constexpr std::array<double, 2> fp64{0, 1};
    static constexpr std::array<std::int32_t, 2> int32{0, 1};
    const auto i = static_cast<std::size_t>(value);
    if (types_.scale == CUDA_R_64F) return &fp64[i];
    if (types_.scale == CUDA_R_32I) return &int32[i];
    return &fp32[i];
  }
};

}  // namespace gpuplan::cuda

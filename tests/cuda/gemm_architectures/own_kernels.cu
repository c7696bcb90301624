#include <gpuplan/cuda/own_gemm.cuh>

namespace gpuplan::cuda::own_gemm {

template __global__ void kernel(const own_gemm_call<__half>);
template __global__ void kernel(const own_gemm_call<__nv_bfloat16>);

}  // namespace gpuplan::cuda::own_gemm

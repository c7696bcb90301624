#include <gpuplan/cuda/own_gemm.cuh>

namespace gpuplan::cuda::own_gemm {

template __global__ void kernel(const own_product<__half>);
template __global__ void kernel(const own_product<__nv_bfloat16>);

}  // namespace gpuplan::cuda::own_gemm

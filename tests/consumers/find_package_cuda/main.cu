#include <gpuplan/cuda/launch.cuh>

#include <cstdio>

double ms_of_an_empty_kernel(gpuplan::cuda::session& s);  // second.cu

// Measures where there is a device; elsewhere, that it links and runs is all there is to see.
int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no device");
    return 0;
  }
  gpuplan::cuda::session s;
  return ms_of_an_empty_kernel(s) > 0 ? 0 : 1;
}

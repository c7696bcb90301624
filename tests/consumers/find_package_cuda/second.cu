#include <gpuplan/cuda/launch.cuh>

// A second translation unit with the same headers: they must link together.
double ms_of_an_empty_kernel(gpuplan::cuda::session& s) {
  using gpuplan::operator""_ms;
  const auto launch = [](cudaStream_t on) { gpuplan::cuda::detail::launch_nothing(on); };
  return gpuplan::in(gpuplan::cuda::sample(s, launch).median, 1_ms);
}

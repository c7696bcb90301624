#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/device_needs.hpp>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr training_setup divided(std::int64_t tensor, std::int64_t pipeline) {
  training_setup setup;
  setup.parallelism.tensor_parallel = tensor;
  setup.parallelism.pipeline_parallel = pipeline;
  return setup;
}

TEST_CASE("NCCL's channels by the link between devices") {
  STATIC_CHECK(nccl_channels(catalog::v100_sxm2_32gb) == 12);
  STATIC_CHECK(nccl_channels(catalog::a100_sxm4_80gb) == 24);
  STATIC_CHECK(nccl_channels(catalog::h100_sxm5_80gb) == 32);
  STATIC_CHECK(nccl_channels(catalog::rtx_4090) == 2);
}

TEST_CASE("a communicator of four A100 takes what was measured: 688 MB") {
  CONSTEXPR bytes buffers =
      needs_of(training_setup{}, {.data_parallel = 4}, catalog::a100_sxm4_40gb).communication;
  STATIC_CHECK(buffers > 0.99 * 688_MB);
  STATIC_CHECK(buffers < 1.01 * 688_MB);
}

TEST_CASE("one device talks to nobody; each direction of a layout has a communicator") {
  STATIC_CHECK(communicators(divided(1, 1), {}) == 0);
  STATIC_CHECK(communicators(divided(1, 1), {.data_parallel = 8}) == 1);
  STATIC_CHECK(communicators(divided(8, 1), {}) == 1);
  STATIC_CHECK(communicators(divided(8, 4), {.data_parallel = 2}) == 4);
  STATIC_CHECK(needs_of(divided(1, 1), {}, catalog::a100_sxm4_80gb).total() == bytes{});
}

TEST_CASE("kernels that are loaded at once: with the context 1573 MiB by nvidia-smi") {
  CONSTEXPR bytes kernels = [] {
    training_setup old;
    old.framework = catalog::megatron_deepspeed;
    return needs_of(old, {}, catalog::a100_sxm4_40gb).kernels;
  }();
  STATIC_CHECK(kernels + context_memory == bytes::from_value(1573.0 * 1024 * 1024));
}

TEST_CASE("cuBLAS has more to work in from Hopper on") {
  STATIC_CHECK(cublas_workspace(catalog::h100_sxm5_80gb) == bytes::from_value(33'554'432.0));
  STATIC_CHECK(cublas_workspace(catalog::a100_sxm4_80gb) == bytes::from_value(8'519'680.0));
}

}  // namespace

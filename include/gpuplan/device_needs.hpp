#pragma once

// What a training process takes from a device beside the memory of its tensors: memory, and what
// the device has to compute with.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/training_setup/dispatch.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// The device, where it has a peak in the number formats of `setup` and the kernels that it names:
/// Transformer Engine multiplies with scales of blocks from compute capability 9.0 on and with
/// those of MXFP8 from 10.0 on, or where there is a peak in fp4, and FlashAttention-2 is for 8.0
/// and later. What else a device lacks is not known. Errors: `no_such_code` of kernels, and those
/// of `peak`.
[[nodiscard]] constexpr result<gpu_spec> runs_on(const gpu_spec& gpu, const training_setup& setup) {
  const precision_recipe& precision = setup.precision;
  const auto flaw_of_kernels = [&](const named_fact& what, int least) -> failure {
    if (!gpu.compute_capability || *gpu.compute_capability >= least) return {};
    return failure(errc::no_such_code,
                   what,
                   named_fact{fact::compute_capability, *gpu.compute_capability},
                   named_fact{fact::at_least, least});
  };
  const int least_of_scaling = !precision.fp8_linears                      ? 0
                               : precision.scaling == scaling_kind::micro  ? 100
                               : precision.scaling == scaling_kind::blocks ? 90
                                                                           : 0;
  for (const failure& why : {flaw_of_kernels({fact::attention, setup.attention},
                                             setup.attention == attention_kernel::flash ? 80 : 0),
                             flaw_of_kernels({fact::scaling, precision.scaling}, least_of_scaling)})
    if (detail::failed(why)) return why;
  // Of devices without one those that multiply in fp4 have MX formats, as AMD's since CDNA 4.
  if (least_of_scaling == 100 && !gpu.compute_capability && !peak(gpu, number_format::fp4))
    return failure(errc::no_such_code,
                   {{fact::scaling, precision.scaling}, {fact::takes, scaling_kind::delayed}})
        .about(gpu.id);
  if (const auto rate = peak(gpu, precision.compute); !rate) return rate.why();
  if (precision.fp8_linears)
    if (const auto rate = peak(gpu, number_format::fp8); !rate) return rate.why();
  if (precision.fp4_linears)
    if (const auto rate = peak(gpu, number_format::fp4); !rate) return rate.why();
  return gpu;
}

/// One connection of NCCL: the buffers of its protocols Simple (NCCL_BUFFSIZE, 4 MiB), LL128 and LL
/// (8 steps of 640 threads x 120 elements of 8 bytes, and of 512 threads x 8 lines of 16; init.cc
/// of NCCL 2.7 to 2.28).
inline constexpr bytes nccl_connection = bytes::from_value((4 << 20) + 4'915'200.0 + 524'288.0);
/// Those of a channel on which a device receives: one of a ring, two of a tree. Four A100 with 24
/// channels were measured to take 688 MB for a communicator (github.com/NVIDIA/nccl/issues/964), of
/// which these make 693.6.
inline constexpr std::int64_t nccl_connections = 3;
/// Channels at most (MAXCHANNELS of NCCL 2), and where devices have no link of their own.
inline constexpr std::int64_t most_nccl_channels = 32;
inline constexpr std::int64_t nccl_channels_without_link = 2;

/// What the driver loads beyond `context_memory` where every kernel of PyTorch and its libraries is
/// loaded at once, as before CUDA 11.7 and PyTorch 1.13: on an A100 a first tensor took 1573 MiB by
/// nvidia-smi (BigScience, tr11-176B-ml/chronicles-prequel.md, PyTorch 1.11).
inline constexpr bytes kernels_loaded_at_once =
    bytes::from_value(1573.0 * 1024 * 1024) - context_memory;

/// What PyTorch takes from its own allocator for a matrix product (CUBLAS_WORKSPACE_CONFIG, with
/// the sizes that cuBLAS recommends for the device: getChosenWorkspaceSize in
/// CublasHandlePool.cpp): 32 MiB from compute capability 9.0 on, two pieces of 4 MiB and eight of
/// 16 KiB before.
[[nodiscard]] constexpr bytes cublas_workspace(const gpu_spec& gpu) {
  const bool is_hopper_or_later = gpu.compute_capability && *gpu.compute_capability >= 90;
  return bytes::from_value(is_hopper_or_later ? 32.0 * 1024 * 1024 : (2 * 4096 + 8 * 16) * 1024.0);
}

/// Memory outside of PyTorch's allocator. The CUDA context is not in it: `usable_memory` has taken
/// that off the device, with the kernels and handles of cuBLAS and cuDNN that a process loads as it
/// uses them. The workspaces of cuBLAS come from PyTorch's allocator.
struct device_needs {
  bytes kernels{};        // where they are all loaded at once
  bytes communication{};  // buffers of NCCL, and of DeepEP or HybridEP
  bytes inference{};      // an engine that generates on the same device, as stated

  [[nodiscard]] constexpr bytes total() const { return kernels + communication + inference; }
};

/// Channels by which NCCL joins devices: as many as the link between them has parts of 25 GB/s,
/// which is 12 on a V100, 24 on an A100.
[[nodiscard]] constexpr std::int64_t nccl_channels(const gpu_spec& gpu) {
  if (!gpu.peers) return nccl_channels_without_link;
  const double parts = gpu.peers->both_directions.value() / 25e9;
  if (!(parts > static_cast<double>(nccl_channels_without_link))) return nccl_channels_without_link;
  if (!(parts < static_cast<double>(most_nccl_channels))) return most_nccl_channels;
  return static_cast<std::int64_t>(parts);
}

/// Groups of ranks that talk to each other: one in each direction in which the model is divided,
/// and where there are several, that of all.
[[nodiscard]] constexpr std::int64_t communicators(const training_setup& setup,
                                                   const batch_plan& plan) {
  std::int64_t groups = 0;
  for (const std::int64_t ranks : {setup.parallelism.tensor_parallel,
                                   setup.parallelism.pipeline_parallel,
                                   setup.parallelism.context_parallel,
                                   setup.parallelism.expert_parallel,
                                   setup.parallelism.expert_tensor_parallel,
                                   plan.data_parallel})
    if (ranks > 1) ++groups;
  return groups > 1 ? groups + 1 : groups;
}

/// The needs of one process. Buffers between nodes may be fewer.
[[nodiscard]] constexpr device_needs needs_of(const training_setup& setup,
                                              const batch_plan& plan,
                                              std::int64_t channels) {
  device_needs needs;
  if (setup.framework.implementation.loads_all_kernels) needs.kernels = kernels_loaded_at_once;
  const auto connections = static_cast<double>(nccl_connections * communicators(setup, plan));
  needs.communication = nccl_connection * (connections * static_cast<double>(channels)) +
                        bytes::from_value(detail::dispatch_buffers(setup, plan.micro_batch));
  needs.inference = bytes::from_value(static_cast<double>(setup.inference_bytes));
  return needs;
}
[[nodiscard]] constexpr device_needs needs_of(const training_setup& setup,
                                              const batch_plan& plan,
                                              const gpu_spec& gpu) {
  return needs_of(setup, plan, nccl_channels(gpu));
}

}  // namespace gpuplan

#pragma once

// The instructions whose rate a probe measures, and the rates that vendors publish for them. Host
// code, without CUDA.

#include <gpuplan/cuda/host_device.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/precision.hpp>

#include <cstdint>

namespace gpuplan::cuda {

/// An instruction that a probe issues from registers (`wgmma`: from shared memory).
enum class instruction {
  fma_fp32,
  fma_fp64,
  fma_half2,
  mma_bf16,
  mma_fp16,
  mma_fp16_sum_fp16,
  mma_tf32,
  mma_fp8,
  mma_int8,
  mma_fp64,
  mma_fp64_m16n8k8,
  wgmma_bf16,
  wgmma_fp16,
  wgmma_tf32,
  wgmma_fp8,
  wgmma_int8
};

/// All of them, in the order of the enumeration.
inline constexpr instruction all_instructions[] = {instruction::fma_fp32,
                                                   instruction::fma_fp64,
                                                   instruction::fma_half2,
                                                   instruction::mma_bf16,
                                                   instruction::mma_fp16,
                                                   instruction::mma_fp16_sum_fp16,
                                                   instruction::mma_tf32,
                                                   instruction::mma_fp8,
                                                   instruction::mma_int8,
                                                   instruction::mma_fp64,
                                                   instruction::mma_fp64_m16n8k8,
                                                   instruction::wgmma_bf16,
                                                   instruction::wgmma_fp16,
                                                   instruction::wgmma_tf32,
                                                   instruction::wgmma_fp8,
                                                   instruction::wgmma_int8};

/// Who executes an instruction together: a thread, a warp, or a group of four warps.
enum class issuer { thread, warp, warpgroup };

/// What an instruction is. It computes D = A B + D of m x k by k x n, an FMA of one number (two
/// with half2) counting as m = lanes, n = k = 1.
struct instruction_facts {
  const char* name = "";  // as PTX spells it
  issuer by = issuer::thread;
  number_format format = number_format::fp32;  // of A and B
  accumulator sum = accumulator::fp32;  // fp32 also stands for fp64 of fp64 and int32 of int8
  int m = 1;
  int n = 1;
  int k = 1;
  int least_compute_capability = 80;
  bool only_90a = false;  // exists on compute capability 9.0 alone, in code made for sm_90a
};

[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr instruction_facts facts_of(instruction which) {
  using enum number_format;
  constexpr auto warp = issuer::warp;
  constexpr auto group = issuer::warpgroup;
  constexpr auto wide = accumulator::fp32;
  constexpr auto narrow = accumulator::fp16;
  switch (which) {
    case instruction::fma_fp32:
      return {"fma.rn.f32"};
    case instruction::fma_fp64:
      return {"fma.rn.f64", issuer::thread, fp64};
    case instruction::fma_half2:
      return {"fma.rn.f16x2", issuer::thread, fp16, narrow, 2};
    case instruction::mma_bf16:
      return {"mma.sync.m16n8k16.f32.bf16", warp, bf16, wide, 16, 8, 16};
    case instruction::mma_fp16:
      return {"mma.sync.m16n8k16.f32.f16", warp, fp16, wide, 16, 8, 16};
    case instruction::mma_fp16_sum_fp16:
      return {"mma.sync.m16n8k16.f16.f16", warp, fp16, narrow, 16, 8, 16};
    case instruction::mma_tf32:
      return {"mma.sync.m16n8k8.f32.tf32", warp, tf32, wide, 16, 8, 8};
    case instruction::mma_fp8:
      return {"mma.sync.m16n8k32.f32.e4m3", warp, fp8, wide, 16, 8, 32, 89};
    case instruction::mma_int8:
      return {"mma.sync.m16n8k32.s32.s8", warp, int8, wide, 16, 8, 32};
    case instruction::mma_fp64:
      return {"mma.sync.m8n8k4.f64", warp, fp64, wide, 8, 8, 4};
    case instruction::mma_fp64_m16n8k8:
      return {"mma.sync.m16n8k8.f64", warp, fp64, wide, 16, 8, 8, 90};
    case instruction::wgmma_bf16:
      return {"wgmma.m64n256k16.f32.bf16", group, bf16, wide, 64, 256, 16, 90, true};
    case instruction::wgmma_fp16:
      return {"wgmma.m64n256k16.f32.f16", group, fp16, wide, 64, 256, 16, 90, true};
    case instruction::wgmma_tf32:
      return {"wgmma.m64n256k8.f32.tf32", group, tf32, wide, 64, 256, 8, 90, true};
    case instruction::wgmma_fp8:
      return {"wgmma.m64n256k32.f32.e4m3", group, fp8, wide, 64, 256, 32, 90, true};
    case instruction::wgmma_int8:
      return {"wgmma.m64n256k32.s32.s8", group, int8, wide, 64, 256, 32, 90, true};
  }
  return {};
}

/// Operations of one instruction, by all who execute it together: 2 m n k (integer operations count
/// as floating-point ones).
[[nodiscard]] constexpr std::int64_t flop_of(const instruction_facts& facts) {
  return std::int64_t{2} * facts.m * facts.n * facts.k;
}

/// Whether devices of this compute capability (89 for 8.9) have the instruction.
[[nodiscard]] constexpr bool exists_on(const instruction_facts& facts, int compute_capability) {
  return facts.only_90a ? compute_capability == 90
                        : compute_capability >= facts.least_compute_capability;
}

/// A published rate of one SM.
struct published_rate {
  double flop_per_clock = 0;     // of one SM, dense
  double of_halved_devices = 0;  // on those that the vendor halves: GeForce cards, and few others
  const char* source = "";
};

/// The rate that the vendor publishes for an SM of this compute capability, where it does: for
/// probes to be compared with. Absent also where the published rate belongs to other instructions
/// than this one, as that of Hopper's and of Blackwell's large tensor cores does: `mma.sync` does
/// not reach it there (63 to 65 % of it on H800, arXiv:2501.12084).
[[nodiscard]] constexpr known<published_rate> published(instruction which, int compute_capability) {
  constexpr const char* guide =
      "CUDA C++ Programming Guide, throughput of native arithmetic instructions";
  constexpr const char* ga100 = "NVIDIA A100 Tensor Core GPU Architecture";
  constexpr const char* ga102 = "NVIDIA Ampere GA102 GPU Architecture";
  constexpr const char* ada = "NVIDIA Ada GPU Architecture, V2.02";
  constexpr const char* gh100 = "NVIDIA H100 Tensor Core GPU Architecture";
  constexpr const char* gb202 = "NVIDIA RTX Blackwell GPU Architecture";
  const int cc = compute_capability;
  const bool consumer_die = cc == 86 || cc == 89 || cc == 120;
  const bool large_die = cc == 80 || cc == 90 || cc == 100;
  if (!consumer_die && !large_die) return {};
  if (!exists_on(facts_of(which), cc)) return {};
  const auto rate = [](double each, const char* source) {
    return published_rate{each, each, source};
  };
  const char* const paper = cc == 86 ? ga102 : cc == 89 ? ada : gb202;
  switch (which) {
    case instruction::fma_fp32:
      return rate(cc == 80 ? 128 : 256, guide);
    case instruction::fma_fp64:
      return rate(consumer_die ? 4 : cc == 80 ? 64 : 128, guide);
    case instruction::fma_half2:
      return rate(consumer_die ? 256 : 512, guide);
    case instruction::mma_bf16:
    case instruction::mma_fp16:
      if (consumer_die) return published_rate{1024, 512, paper};
      if (cc == 80) return rate(2048, ga100);
      return {};
    case instruction::mma_fp16_sum_fp16:
      if (consumer_die) return rate(1024, paper);
      if (cc == 80) return rate(2048, ga100);
      return {};
    case instruction::mma_tf32:
      if (consumer_die) return published_rate{512, 256, paper};
      if (cc == 80) return rate(1024, ga100);
      return {};
    case instruction::mma_fp8:
      if (consumer_die) return published_rate{2048, 1024, paper};
      return {};
    case instruction::mma_int8:
      if (consumer_die) return rate(2048, paper);
      if (cc == 80) return rate(4096, ga100);
      return {};
    case instruction::mma_fp64:
      if (cc == 80) return rate(128, ga100);
      return {};
    case instruction::mma_fp64_m16n8k8:
      if (cc == 90) return rate(256, gh100);
      return {};
    case instruction::wgmma_bf16:
    case instruction::wgmma_fp16:
      return rate(4096, gh100);
    case instruction::wgmma_tf32:
      return rate(2048, gh100);
    case instruction::wgmma_fp8:
    case instruction::wgmma_int8:
      return rate(8192, gh100);
  }
  return {};
}

}  // namespace gpuplan::cuda

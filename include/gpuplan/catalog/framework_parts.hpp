#pragma once

// What frameworks of the catalogue are made of: engines as they set them, costs of code without
// compilation, and the line of a list.

#include <gpuplan/framework.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

namespace engines {

/// DistributedDataParallel, or one device alone.
inline constexpr engine ddp{};
/// fully_shard with its defaults,
inline constexpr engine fsdp2{.is = &engine_classes::fsdp2};
/// and as torchtitan calls it.
inline constexpr engine titan_fsdp2{
    .is = &engine_classes::fsdp2,
    .schedules = {.zero_bubble = true, .zero_bubble_v = true, .dual_pipe_v = true, .gpipe = true},
    .keeps_last_layer = true,
    .gathers_before_checkpoint = true};
/// DeepSpeed with its defaults,
inline constexpr engine deepspeed{.is = &engine_classes::deepspeed};
/// and as Megatron-DeepSpeed of early 2022 had it.
inline constexpr engine megatron_deepspeed{.is = &engine_classes::deepspeed,
                                           .zero = {.flattens_on_host = true,
                                                    .reduces_in_place = true,
                                                    .steps_while_building = true,
                                                    .renews_gradients = true}};
/// Megatron-Core's schedules and distributed optimizer.
inline constexpr engine megatron{.is = &engine_classes::megatron};
/// The same with the schedules of sail-sg's zero-bubble-pipeline-parallelism,
inline constexpr engine zero_bubble{.is = &engine_classes::megatron,
                                    .schedules = {.zero_bubble = true, .zero_bubble_v = true}};
/// and of deepseek-ai/DualPipe.
inline constexpr engine dual_pipe{.is = &engine_classes::megatron,
                                  .schedules = {.dual_pipe = true, .dual_pipe_v = true}};

}  // namespace engines

/// PyTorch 2.11 without compilation, whose bytes and launches are counted: of 133 steps of
/// torch.nn's GPT, LLaMA, BERT and ViT on one H100 (benchmarks/results) 8 % off in the mean, 5.4 in
/// the middle. Fitted are what the host takes, of one machine's processor, and by how much products
/// are faster than in long steps, which the board's limit slows.
inline constexpr software_costs eager_torch{.matmul_rate = 1.12,
                                            .host_per_operator = 40_us,
                                            .host_of_backward = 0.47,
                                            .scatter = 0.125,
                                            .timed = true};

/// The same of other code without compilation, whose operators Python launches one by one too, with
/// what torchtitan loses by exchanges beside kernels, which are of the same library. No step of
/// such code was timed but LitGPT's.
inline constexpr software_costs eager_costs = [] {
  software_costs changed = eager_torch;
  changed.contention = 0.12;
  changed.timed = false;
  return changed;
}();
/// Likewise of LLaMA and its like, with what torchtitan, the published code most like it, loses of
/// its products and once a step.
inline constexpr software_costs eager_decoder = [] {
  software_costs changed = eager_costs;
  changed.matmul_rate = 0.95;
  changed.host_per_step = 17_ms;
  return changed;
}();

/// Of eager code that nobody timed, whose bytes and launches are counted: one set for 622 published
/// steps of nine sources on A100, V100, H100, MI350X, RTX 3090 and A6000, from LLM Foundry to timm.
/// In the mean of a source it is 3 to 15 % off. Scores are moved more often than
/// counted by old versions of PyTorch.
inline constexpr software_costs untimed_eager{.score_traffic = 1.6,
                                              .host_per_operator = 17_us,
                                              .host_of_backward = 0.5,
                                              .host_per_collective = 50_us,
                                              .host_per_step = 4.6_ms,
                                              .contention = 0.55};
/// Likewise of code under torch.compile, of which Languini and modded-nanogpt are known.
inline constexpr software_costs untimed_compiled{.matmul_rate = 1.15,
                                                 .score_traffic = 2,
                                                 .host_per_operator = 137_us,
                                                 .host_of_backward = 0.48,
                                                 .host_per_collective = 50_us,
                                                 .host_per_step = 4.3_ms,
                                                 .contention = 0.51};

/// A framework in a list of the catalogue.
struct listed_framework {
  const framework* software = nullptr;
  const char* name = "";  // of --framework; none: it changes one that has a name
  /// How names, types and classes of the models that it is transformers' implementation of begin,
  /// in lower case.
  const char* models[8]{};
};

}  // namespace gpuplan::catalog

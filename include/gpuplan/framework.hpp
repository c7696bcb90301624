#pragma once

// What the software around a model does, as far as memory and time tell it apart: whose layers, by
// which engine, at what cost.

#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <array>
#include <cstdint>

namespace gpuplan {

/// DeepSpeed's `zero_optimization`, with its defaults (runtime/zero/config.py of DeepSpeed 0.19).
/// Sizes are in elements; their options end in _size, those of stage 3 begin with stage3_.
struct zero_settings {
  std::int64_t reduce_bucket = 500'000'000;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  bool round_robin_gradients = false;
  bool flattens_on_host = false;  // weights go there while their flat buffer is made
  bool reduces_in_place = false;  // each rank's part of a bucket by itself; else copied together
  bool steps_while_building = false;  // so that the optimizer's states are there from then on
  bool renews_gradients = false;      // before each backward, where their sums are in fp32
  // stage 3
  bool divides_while_building = false;  // deepspeed.zero.Init; of four-bit matrices never
  std::int64_t prefetch_bucket = 50'000'000;
  std::int64_t persistence_threshold = 100'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group = 1'000'000'000;
};

/// What a rank has of weights, gradients and the optimizer's states, at least.
enum class held_states {
  copies,   // whole, but for the states of parameters that another rank updates
  parts,    // of all three
  masters,  // whole weights, a part of fp32 masters and states
  buffers   // likewise, and a buffer of all gradients
};

/// By what the gradients of a bucket are counted.
enum class bucket_unit { of_bytes, of_elements, of_ranks };

/// What goes round a model's layers in training, as far as it matters which: what it shares among
/// the ranks of data parallelism, and what it has code for. Told apart by address.
struct engine_class {
  const code_name* name = nullptr;
  int least_zero_stage = 0;
  int most_zero_stage = 1;
  held_states holds = held_states::copies;
  bucket_unit buckets = bucket_unit::of_bytes;

  bool gathers_weights = false;      // of a layer before it runs, cast to the compute format
  bool shards_parts = false;         // likewise of several transformers in one step
  bool offloads_weights = false;     // with their gradients and states, if asked to
  bool has_own_step = false;         // its optimizer, with fp32 masters, is its own
  bool has_fp32_gradients = false;   // sums of gradients
  bool runs_pipelines = false;       // and layers of pipelined classes
  bool runs_stages = false;          // of classes that divide them, by PyTorch's schedules
  bool runs_others = true;           // classes that are not pipelined
  bool runs_chunks = false;          // several of a stage, in turns
  bool defers_weights = false;       // the gradients of weights may be passes of their own
  bool divides_equally = false;      // layers by stages, but for what `pipeline_split` states
  bool has_all_optimizers = true;    // PyTorch's; else AdamW alone,
  bool takes_any_optimizer = false;  // and of other libraries
  bool has_fp8_linears = true;
  bool joins_parameters = false;          // of a unit, in one tensor that ranks share: flat
  bool trains_parts = true;               // beside all: adapters, last layers, a head
  bool wraps_adapters = false;            // else adapters alone, whose matrices are units each,
  bool casts_adapters = false;            // or are cast to the weights' format; tables are not
  bool recomputes_whole_stages = false;   // where layers are recomputed, all of a stage's
  bool stops_early = true;                // recomputation, as the layers' classes may
  bool repeats_layers = false;            // a layer adds the same memory wherever it stands,
  bool repeats_shared_layers = false;     // and where ranks share whole parameters' states
  bool notes_losses = false;              // of each micro-batch
  bool adds_gradients_in_kernels = true;  // of products; else in one behind them
  bool counts_work = false;  // its copies and collectives say what they ask of the device
};

namespace code_names {
inline constexpr code_name ddp{"ddp"};
inline constexpr code_name fsdp1{"fsdp1"};
inline constexpr code_name fsdp2{"fsdp2"};
inline constexpr code_name deepspeed{"deepspeed"};
inline constexpr code_name megatron{"megatron"};
inline constexpr code_name megatron_fsdp{"megatron_fsdp"};
}  // namespace code_names

namespace engine_classes {
/// DistributedDataParallel with ZeRO-0; ZeroRedundancyOptimizer with ZeRO-1.
inline constexpr engine_class ddp{.name = &code_names::ddp,
                                  .takes_any_optimizer = true,
                                  .repeats_layers = true,
                                  .counts_work = true};
/// `fully_shard` of PyTorch.
inline constexpr engine_class fsdp2{.name = &code_names::fsdp2,
                                    .least_zero_stage = 2,
                                    .most_zero_stage = 3,
                                    .holds = held_states::parts,
                                    .gathers_weights = true,
                                    .shards_parts = true,
                                    .offloads_weights = true,
                                    .runs_stages = true,
                                    .runs_chunks = true,
                                    .defers_weights = true,
                                    .repeats_layers = true,
                                    .repeats_shared_layers = true,
                                    .counts_work = true};
/// `FullyShardedDataParallel` of PyTorch, with use_orig_params: layers in flat parameters.
inline constexpr engine_class fsdp1 = [] {
  engine_class changed = fsdp2;
  changed.name = &code_names::fsdp1;
  changed.takes_any_optimizer = true;
  changed.trains_parts = false;
  changed.joins_parameters = changed.wraps_adapters = true;
  changed.shards_parts = changed.runs_stages = false;
  changed.runs_chunks = changed.defers_weights = false;
  changed.counts_work = false;
  return changed;
}();
/// DeepSpeed, its ZeRO stages and its pipeline engine.
inline constexpr engine_class deepspeed{.name = &code_names::deepspeed,
                                        .most_zero_stage = 3,
                                        .holds = held_states::masters,
                                        .buckets = bucket_unit::of_elements,
                                        .has_own_step = true,
                                        .has_fp32_gradients = true,
                                        .runs_pipelines = true,
                                        .has_all_optimizers = false,
                                        .takes_any_optimizer = true,
                                        .has_fp8_linears = false,
                                        .trains_parts = false,
                                        .casts_adapters = true,
                                        .recomputes_whole_stages = true,
                                        .stops_early = false,
                                        .adds_gradients_in_kernels = false};
/// Megatron-Core, its schedules and its distributed optimizer.
inline constexpr engine_class megatron{.name = &code_names::megatron,
                                       .holds = held_states::buffers,
                                       .buckets = bucket_unit::of_ranks,
                                       .has_fp32_gradients = true,
                                       .runs_pipelines = true,
                                       .runs_others = false,
                                       .runs_chunks = true,
                                       .defers_weights = true,
                                       .divides_equally = true,
                                       .has_all_optimizers = false,
                                       .notes_losses = true};
/// Megatron-FSDP, all shared (optim_grads_params): a layer is gathered before it runs, while the
/// one before runs; its gradients are shared behind it.
inline constexpr engine_class megatron_fsdp = [] {
  engine_class changed = megatron;
  changed.name = &code_names::megatron_fsdp;
  changed.least_zero_stage = changed.most_zero_stage = 3;
  changed.runs_chunks = changed.defers_weights = false;
  return changed;
}();

inline constexpr const engine_class* all[] = {
    &ddp, &fsdp1, &fsdp2, &deepspeed, &megatron, &megatron_fsdp};
}  // namespace engine_classes

namespace detail {

// What a setup asks of its engine, as of its layers.
template <class Setup>
constexpr auto asked_of_engine(const engine_class& by, const Setup& of) {
  const auto& ranks = of.parallelism;
  const bool is_reduced = of.framework.engine.reduces_every_micro_batch;
  const bool are_original = of.framework.engine.original_parameters;
  return std::to_array<asked_property>({
      {by.gathers_weights, {fact::shard_group, ranks.shard_group}},
      {by.offloads_weights, {fact::weights_on_host, ranks.weights_on_host}},
      {by.gathers_weights, {fact::reduces_every_micro_batch, is_reduced}, true},
      {by.wraps_adapters, {fact::original_parameters, are_original}, true},
      {by.has_fp32_gradients, {fact::fp32_gradients, of.precision.fp32_gradients}},
      {by.has_fp8_linears, {fact::fp8_linears, of.precision.fp8_linears}},
  });
}

}  // namespace detail

/// Which schedules of pipelines software offers beside 1F1B.
struct offered_schedules {
  bool zero_bubble = false;
  bool zero_bubble_v = false;
  bool dual_pipe = false;
  bool dual_pipe_v = false;
  bool gpipe = false;

  [[nodiscard]] constexpr bool has(pipeline_schedule wanted) const {
    switch (wanted) {
      case pipeline_schedule::one_f_one_b:
        return true;
      case pipeline_schedule::gpipe:
        return gpipe;
      case pipeline_schedule::zero_bubble:
        return zero_bubble;
      case pipeline_schedule::zero_bubble_v:
        return zero_bubble_v;
      case pipeline_schedule::dual_pipe:
        return dual_pipe;
      case pipeline_schedule::dual_pipe_v:
        return dual_pipe_v;
    }
    return false;
  }
};

/// An engine and its settings.
struct engine {
  const engine_class* is = &engine_classes::ddp;

  offered_schedules schedules{};

  // DistributedDataParallel
  std::int64_t first_bucket_bytes = 1 << 20;  // dist._DEFAULT_FIRST_BUCKET_BYTES
  std::int64_t bucket_bytes = 25 << 20;       // bucket_cap_mb
  bool gradients_are_views = false;           // gradient_as_bucket_view

  // FSDP: false is no_sync, or set_requires_gradient_sync(False), for all micro-batches but the
  // last. A pipeline's stages reduce once, behind the last one.
  bool reduces_every_micro_batch = true;
  // FSDP 1: use_orig_params. Without them, which beside adapters alone is replayed, modules see
  // what was gathered even when it is freed.
  bool original_parameters = true;
  bool keeps_last_layer = false;  // whole, to its backward: reshard_after_forward=False of it
  bool gathers_before_checkpoint = false;  // of a layer; else its checkpoint gathers

  bool overlaps_reduction = false;  // with the backward: Megatron's overlap_grad_reduce

  zero_settings zero{};
};

/// What a step costs in this software beside the products and bytes of its operators. Which of its
/// kernels are fused, the fields of `framework` say. What is hidden is a share from 0 to 1.
struct software_costs {
  double matmul_rate = 1;  // of products, over what the device's kernels reach: by library
  // Of element-wise kernels, likewise: 1 of all software that was timed.
  double element_rate = 1;
  // How often tokens of experts are read and written before them, and behind, in the forward pass
  // and again in the backward: by how much of it is one kernel, or in the exchange.
  double routed_moves = 2;
  double score_traffic = 1;       // likewise of scores, in eager attention
  duration host_per_operator{};   // the host's time to launch one operator of a layer
  double host_of_backward = 0.4;  // of that, where autograd launches it: without Python
  bool launches_ahead = true;     // while exchanges run; else the host waits for these too
  // The host's time for one exchange among ranks that divide a layer, beside its operators',
  duration host_per_collective{};
  // and for each of these ranks where the stages of a pipeline are in several nodes: hosts that
  // poll for what other nodes send keep each other waiting.
  duration host_per_rank{};
  // What ranks that divide a layer wait for each other in one exchange, for each node that they are
  // in, where these are several, for their hosts, so that no launch is hidden meanwhile. Exchanges
  // that nothing waits for, as of gradients, even this out.
  duration wait_per_node{};
  // What a message between stages takes longer where each tensor-parallel group is in more than two
  // nodes, and stops whoever sends or gets it.
  duration stalled_send{};
  double network_share = 1;  // of what links between nodes carry, that its exchanges reach
  duration host_per_step{};  // logging, the loader, the optimizer's launches
  double hidden_tensor_communication = 0;  // behind products
  // Behind other micro-batches or shared experts, and no more than the kernels of as many layers.
  double hidden_expert_communication = 0;
  double hidden_pipeline_communication = 0;  // behind the next micro-batch
  bool hides_by_dual_pipe = false;  // experts' and stages': in its schedules alone, behind the
                                    // passes of the other direction
  bool hides_gradients = true;      // behind the backward pass of the last micro-batch
  bool hides_gathers = true;     // of weights that passes gather, and of gradients, behind layers
  bandwidth gathered_at_most{};  // of a rank, by ZeRO-3: 0 as the links allow
  bool hides_parameters = true;  // behind the forward pass: ZeRO-1's, which stage 3 always does
  double contention = 0;         // s lost for each s of communication that runs beside kernels
  // How far steps lie from what these costs give, as the standard deviation of the logarithm
  double scatter = 0.125;
  // Steps of this software were timed; else these are of other code, or nobody's.
  bool timed = false;
};

/// The software around a model: whose layers, by which engine, at what cost.
struct framework {
  const char* name = "";
  gpuplan::implementation implementation{};
  gpuplan::engine engine{};
  software_costs costs{};

  /// What the layers' classes have code for.
  [[nodiscard]] constexpr const layer_class& layers() const { return *implementation.layers; }
};

}  // namespace gpuplan

#include "runs/remedies.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/precision.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace runs {
namespace {

using namespace gpuplan;

// Of one request, whose remedies are tried as they are found.
class search {
 public:
  search(const training_setup& setup,
         const batch_plan& plan,
         const gpu_spec& gpu,
         double fragmentation)
      : setup_(setup), one_(plan), gpu_(gpu), fragmentation_(fragmentation) {
    // of the same batch: what is summed over micro-batches is there then
    const auto micro_batches = detail::checked_product(plan.micro_batch, plan.accumulation);
    if (micro_batches.ok) one_.accumulation = micro_batches.value;
    one_.micro_batch = 1;
  }

  std::vector<remedy> all() {
    recomputing_is_enough_ = try_recomputing("", "", setup_);
    reduce_always();
    take_liger();
    share();
    if (setup_.trains.what == training::full) train_adapters();
    if (setup_.trains.what == training::adapters) quantise();
    shorten();
    find_gpu();
    return found_;
  }

 private:
  const training_setup& setup_;
  batch_plan one_;
  const gpu_spec& gpu_;
  double fragmentation_;
  std::vector<remedy> found_{};
  bool recomputing_is_enough_ = false;

  [[nodiscard]] known<bytes> needed_by(const training_setup& setup) const {
    const fullest_stage_memory memory{{setup, fragmentation_, nccl_channels(gpu_)}};
    if (!validate(memory) || !validate(memory, one_)) return {};
    return memory.required(one_);
  }
  bool try_out(const std::string& options, const std::string& words, const training_setup& setup) {
    const auto needed = needed_by(setup);
    const bool fits = needed && *needed <= usable_memory(gpu_);
    if (fits) found_.push_back({options, words, *needed});
    return fits;
  }
  bool try_recomputing(const std::string& options, const std::string& words, training_setup setup) {
    const bool is_part =
        setup.recompute_layers != 0 || setup.recompute_period != 1 || setup.saves_costly_results;
    if (setup.recompute == recompute_mode::full && !is_part) return false;
    if (recomputing_is_enough_) return false;  // without anything else
    setup.recompute = recompute_mode::full;
    setup.recompute_layers = 0;
    setup.recompute_period = 1;
    setup.saves_costly_results = false;
    return try_out(options + (options.empty() ? "" : " ") + "--recompute full",
                   words + (words.empty() ? "" : ", ") + "full recomputation",
                   setup);
  }

  // Gradients that wait for the last micro-batch are whole.
  void reduce_always() {
    const engine& by = setup_.framework.engine;
    if (one_.accumulation == 1 || !by.is->gathers_weights || by.reduces_every_micro_batch) return;
    // FSDP 1 would keep the last micro-batch's on the host.
    if (by.is->joins_parameters && setup_.parallelism.weights_on_host) return;
    training_setup reduced = setup_;
    reduced.framework.engine.reduces_every_micro_batch = true;
    try_out("sync_each_batch: true in the file",
            "gradients reduced in each micro-batch (sync_each_batch: true)",
            reduced);
  }

  // Its loss has no logits, which are the most of small batches.
  void take_liger() {
    if (!setup_.framework.layers().has_liger_kernels ||
        setup_.framework.implementation.liger_kernels)
      return;
    training_setup kernels = setup_;
    kernels.framework.implementation.liger_kernels = true;
    if (!try_out("--liger", "Liger's kernels", kernels))
      try_recomputing("--liger", "Liger's kernels", kernels);
  }

  void share() {
    const engine_class& own = *setup_.framework.engine.is;
    const int stage = setup_.parallelism.zero_stage;
    if (one_.data_parallel == 1 || stage == 3) return;
    // What has no stage that shares more, or none that shares enough, fully_shard may share.
    if (own.most_zero_stage > stage && share_by(own)) return;
    if (own.most_zero_stage < 3) share_by(engine_classes::fsdp2);
  }
  bool share_by(const engine_class& engine) {
    training_setup shared = setup_;
    shared.framework.engine.is = &engine;
    const int stage = shared.parallelism.zero_stage = engine.most_zero_stage;
    std::string options = "--zero " + std::to_string(stage);
    if (engine.gathers_weights && !engine.wraps_adapters && shared.precision.under_autocast &&
        shared.trains.adapters.base.block == 0) {
      shared.precision = bf16_mixed;
      options += " --precision bf16";
    }
    const std::string words = "ZeRO-" + std::to_string(stage);
    return try_out(options, words, shared) || try_recomputing(options, words, shared);
  }

  void train_adapters() {
    training_setup small = setup_;
    std::string before;
    if (setup_.parallelism.zero_stage > 0 || setup_.framework.engine.is->has_own_step) {
      small.framework.engine.is = &engine_classes::ddp;
      small.parallelism.zero_stage = 0;
      small.parallelism.shard_group = 0;
      small.parallelism.optimizer_on_host = small.parallelism.weights_on_host = false;
      before = "--zero 0 --sharding ddp ";
    }
    small.precision = bf16_under_autocast;
    small.trains.adapters.targets = query_and_value;
    small.trains.adapters.targets.key = small.model.fused_qkv;
    for (const bool four_bits : {false, true}) {
      setups::train_adapters(small, 16, four_bits);
      const std::string options =
          before + (four_bits ? "--qlora" : "--lora") + " 16 --precision bf16-autocast";
      const std::string words = std::string(four_bits ? "QLoRA" : "LoRA") + " of rank 16";
      if (!try_out(options, words, small)) try_recomputing(options, words, small);
    }
  }

  void quantise() {
    const lora& held = setup_.trains.adapters;
    if (held.base.block != 0 || held.magnitudes) return;
    training_setup small = setup_;
    small.trains.adapters.base = double_quantised_base;
    const std::string rank = std::to_string(held.rank);
    const std::string words = "QLoRA of rank " + rank;
    if (try_out("--qlora " + rank, words, small) ||
        try_recomputing("--qlora " + rank, words, small))
      found_.back().options += " instead of --lora " + rank;
  }

  void shorten() {
    constexpr std::int64_t shortest = 128;
    training_setup shorter = setup_;
    while (shorter.sequence_length >= 2 * shortest) {
      shorter.sequence_length /= 2;
      const std::string option = "--sequence-length " + std::to_string(shorter.sequence_length);
      const std::string words =
          "sequences of " + setups::grouped(shorter.sequence_length) + " tokens";
      if (try_out(option, words, shorter) || try_recomputing(option, words, shorter)) return;
    }
  }

  // Which has the setup's formats and kernels, and is of a like kind: reads at no less than half
  // the rate.
  void find_gpu() {
    const auto needed = needed_by(setup_);
    const gpu_spec* smallest = nullptr;
    for (const gpu_spec* other : catalog::gpus)
      if (needed && other->vendor == gpu_.vendor && usable_memory(*other) >= *needed &&
          runs_on(*other, setup_) && usable_memory(*other) > usable_memory(gpu_) &&
          2.0 * other->memory_bandwidth >= gpu_.memory_bandwidth &&
          (smallest == nullptr || usable_memory(*other) < usable_memory(*smallest)))
        smallest = other;
    if (smallest != nullptr)
      found_.push_back({std::string("--gpu ") + smallest->id, smallest->name, *needed});
  }
};

}  // namespace

std::vector<remedy> remedies_of(const training_setup& setup,
                                const batch_plan& plan,
                                const gpu_spec& gpu,
                                double fragmentation) {
  return search(setup, plan, gpu, fragmentation).all();
}

}  // namespace runs

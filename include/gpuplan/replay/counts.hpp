#pragma once

// Parameters, matrix products and all other work of a training step, counted as it is replayed: of
// models that are described by their code alone too.

#include <gpuplan/batch.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// What a part of a step asks of one device, as PyTorch's dispatcher and the CUDA runtime see it.
struct work_counts {
  std::int64_t launches = 0;   // of kernels, without matrix products
  std::int64_t products = 0;   // calls of cuBLAS
  std::int64_t fills = 0;      // cudaMemset
  std::int64_t copies = 0;     // cudaMemcpy
  std::int64_t operators = 0;  // of ATen, that ask for any of these
  /// Of their tensor arguments and results: what is written in place counts as both, a view as what
  /// it shows.
  bytes traffic{};
  bytes traffic_elsewhere{};   // of these, of the parts of DTensors that other ranks hold
  flop_count product_flops{};  // of the calls of cuBLAS

  friend constexpr bool operator==(const work_counts&, const work_counts&) = default;
};

/// Of a step, all its micro-batches. What is computed again is of the backward. A collective of n
/// ranks counts as the copies that would put its parts together on one device: n - 1 of a gather, 1
/// of a reduction; DDP's all-reduces as none. Kernels inside one call of cuBLAS are not counted.
/// As PyTorch 2.15 built with CUDA 13 does it: each number equal to what it was counted to be, by a
/// device that runs nothing, in 397 of 399 steps; in two, of DDP with micro-batches that are added
/// up, copies of buffers differ.
struct step_work {
  work_counts forward{};
  work_counts backward{};
  work_counts optimizer{};
};

/// Of a rank: its parameters, whole where ranks share them, with adapters; of one step, all its
/// micro-batches, the operations of matrix products, 2 for each multiplication with its addition.
struct step_counts {
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
  flop_count forward{};
  flop_count backward{};
  // Of the forward once more, attention's scores in fused kernels included.
  flop_count recomputed{};
  /// Known of layers' classes and engines whose operators all say it (`counts_work`), with
  /// PyTorch's AdamW, SGD, RMSprop and Adagrad, without tensor parallelism, 4-bit bases and fp8.
  /// Equal to what PyTorch asks of a device, but for kernels forward of BLOOM (3 % fewer), MPT and
  /// DeBERTa (2 %), and for several models in one step: in 50 steps kernels are 0.3 % off in the
  /// mean and 3 at worst, bytes 0.05 and 0.6, products equal but for SigLIP's backward, 2 % more.
  /// Those of Qwen-VL, SmolVLM and GR00T's head were not compared. Keys are not cached, as
  /// transformers does where `use_cache` is not false: two copies of a layer.
  known<step_work> work{};

  [[nodiscard]] constexpr flop_count model() const { return forward + backward; }
  [[nodiscard]] constexpr flop_count hardware() const { return model() + recomputed; }
};

namespace eager {

/// Adds up the work of a step, and does not look at memory.
class added_work final : public memory_events {
 public:
  constexpr explicit added_work(bool counts) : counts_(counts) {}
  constexpr int allocate(std::int64_t, int) override { return 0; }
  constexpr void release(int) override {}
  [[nodiscard]] constexpr bool counts_work() const override { return counts_; }
  constexpr void begin(moment now, int /*layer*/) override { updates_ = is_update(now); }
  constexpr void execute(const device_work& work, bool in_backward) override {
    work_counts& into = in_backward ? sums.backward : updates_ ? sums.optimizer : sums.forward;
    into.launches += work.kernels;
    into.products += work.products;
    into.fills += work.fills;
    into.copies += work.copies;
    ++into.operators;
    into.traffic += bytes::from_value(static_cast<double>(work.bytes));
    into.product_flops += flop_count::from_value(work.products * work.product.flops());
    into.traffic_elsewhere += bytes::from_value(static_cast<double>(work.elsewhere));
  }

  step_work sums{};

 private:
  bool counts_;
  bool updates_ = false;
};

}  // namespace eager

namespace detail {

// What keeps the work of a step from being counted, or no failure.
constexpr failure flaw_of_work(const training_setup& setup) {
  const layer_class& classes = setup.framework.layers();
  const engine_class& engine = *setup.framework.engine.is;
  const named_fact layers{fact::layers, classes.name};
  if (!classes.counts_work) return without_code({layers});
  if (!engine.counts_work)
    return with_engines(
        without_code({{fact::sharding, engine.name}, layers}), [&](const engine_class& taken) {
          return taken.counts_work &&
                 (setup.composite == nullptr || !taken.gathers_weights || classes.shards_parts);
        });
  if (setup.parallelism.pipeline_parallel > 1)
    return without_code(
        {{fact::pipeline_parallel, setup.parallelism.pipeline_parallel}, layers, {fact::takes, 1}});
  const auto number = [](auto of) { return static_cast<std::int64_t>(of); };
  const optimizer& by = setup.optimizer;
  for (const failure& why :
       {flaw_unless({{{fact::optimizer_library, by.library}, number(optimizer_library::torch)},
                     {{fact::optimizer_states, by.states}, number(number_format::fp32)},
                     {{fact::objective, setup.objective}, number(training_objective::next_token)},
                     {{fact::tensor_parallel, setup.parallelism.tensor_parallel}, 1},
                     {{fact::context_parallel, setup.parallelism.context_parallel}, 1}},
                    layers),
        flaw_if_any(
            {{fact::adapter_base_block,
              setup.trains.what == training::adapters ? setup.trains.adapters.base.block : 0},
             {fact::padding_free, setup.padding_free},
             {fact::liger_kernels, setup.framework.implementation.liger_kernels},
             {fact::fp8_linears, setup.precision.fp8_linears},
             {fact::master_weights, setup.precision.master_weights}},
            layers)})
    if (failed(why)) return why;
  failure why = without_code({{fact::optimizer_kind, by.kind}, layers});
  for (const optimizer_kind counted : {optimizer_kind::adamw,
                                       optimizer_kind::sgd,
                                       optimizer_kind::sgd_momentum,
                                       optimizer_kind::rmsprop,
                                       optimizer_kind::adagrad}) {
    if (by.kind == counted) return {};
    why.facts[why.count++] = {fact::takes, counted};
  }
  return why;
}
constexpr bool counts_work(const training_setup& setup) { return !failed(flaw_of_work(setup)); }

}  // namespace detail

/// What `parameters`, `trainable_parameters` and `flops` say of the shape, said by the code: of the
/// library's equal to the integer. Attention counts all pairs of a query and a key
/// (`attention_pairs::full`), though a causal kernel leaves half of them out; a base in 4 bits has
/// the parameters that it stands for. Optimizers' products are not counted. Constexpr. Errors:
/// those of `transformer_memory` of the setup, and of it with the plan; `no_such_code` of pipelined
/// layers, of a pipeline's stages, and of compiled layers, which multiply in kernels of their own.
[[nodiscard]] constexpr result<step_counts> counts_of(const training_setup& setup,
                                                      const batch_plan& plan = {}) {
  if (const failure why = detail::flaw_of_replay(setup, plan, {}); detail::failed(why)) return why;
  const implementation& by = setup.framework.implementation;
  const named_fact layers{fact::layers, by.layers->name};
  if (by.layers->is_pipelined) return detail::without_code({layers});
  if (setup.parallelism.pipeline_parallel > 1) return detail::flaw_of_work(setup);
  if (by.compiles_layers)
    return detail::without_code({layers, {fact::compiles_layers, true}, {fact::takes, false}});
  step_counts counts;
  const bool counts_work = detail::counts_work(setup);
  eager::added_work memory(counts_work);
  eager::train(memory, setup, plan, {}, nullptr, [&](eager::training_job& job) {
    for (int at = job.first_of_model(); at < job.end_of_model(); ++at) {
      const eager::parameter_record& one = job.parameters()[at];
      if (one.twin != eager::none) continue;
      const std::int64_t size = one.whole.defined() ? one.whole.count() : one.data.count();
      counts.parameters += size;
      if (one.trains) counts.trainable += size;
    }
    if (counts_work) job.settle();  // a later step, which makes no states
    memory.sums = {};
    job.step();
    if (counts_work) counts.work = memory.sums;
    counts.forward = flop_count::from_value(job.products().forward);
    counts.backward = flop_count::from_value(job.products().backward);
    counts.recomputed = flop_count::from_value(job.products().recomputed);
  });
  return counts;
}

}  // namespace gpuplan

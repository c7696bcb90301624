#pragma once

// Parameters and matrix products of a training step, counted as it is replayed: of models that are
// described by their code alone too.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// Of a rank: its parameters, whole where ranks share them, with adapters; of one step, all its
/// micro-batches, the operations of matrix products, 2 for each multiplication with its addition.
struct step_counts {
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
  flop_count forward{};
  flop_count backward{};
  // Of the forward once more, attention's scores in fused kernels included.
  flop_count recomputed{};

  [[nodiscard]] constexpr flop_count model() const { return forward + backward; }
  [[nodiscard]] constexpr flop_count hardware() const { return model() + recomputed; }
};

namespace eager {

/// Memory that nobody looks at.
class unseen_memory final : public memory_events {
 public:
  constexpr int allocate(std::int64_t, int) override { return 0; }
  constexpr void release(int) override {}
};

}  // namespace eager

/// What `parameters`, `trainable_parameters` and `flops` say of the shape, said by the code: of the
/// library's equal to the integer. Attention counts all pairs of a query and a key
/// (`attention_pairs::full`), though a causal kernel leaves half of them out; a base in 4 bits has
/// the parameters that it stands for. Optimizers' products are not counted. Constexpr. Errors:
/// those of the setup; `no_such_code` of pipelined and of compiled layers, which multiply in
/// kernels of their own.
[[nodiscard]] constexpr result<step_counts> counts_of(const training_setup& setup,
                                                      const batch_plan& plan = {}) {
  if (const auto valid = validate(setup, plan); !valid) return valid.why();
  const implementation& by = setup.framework.implementation;
  const named_fact layers{fact::layers, by.layers->name};
  if (by.layers->is_pipelined) return detail::without_code({layers});
  if (by.compiles_layers)
    return detail::without_code({layers, {fact::compiles_layers, true}, {fact::takes, false}});
  step_counts counts;
  eager::unseen_memory memory;
  eager::train(memory, setup, plan, {}, nullptr, [&](eager::training_job& job) {
    for (int at = 0; at < job.parameters_of_model(); ++at) {
      const eager::parameter_record& one = job.parameters()[at];
      const std::int64_t size = one.whole.defined() ? one.whole.count() : one.data.count();
      counts.parameters += size;
      if (one.trains) counts.trainable += size;
    }
    job.step();
    counts.forward = flop_count::from_value(job.products().forward);
    counts.backward = flop_count::from_value(job.products().backward);
    counts.recomputed = flop_count::from_value(job.products().recomputed);
  });
  return counts;
}

}  // namespace gpuplan

#pragma once

// Training steps of eager mode, from the construction of the model on: what they ask a device's
// memory for. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/codes.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/optimizer_step.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#ifdef GPUPLAN_COMPILED_REPLAY
#include <memory>
#endif

namespace gpuplan::eager {

/// A training job on one rank, compiled wherever it is used.
class training_job_here {
 public:
  constexpr training_job_here(memory_events& memory,
                              const training_setup& setup,
                              const batch_plan& plan,
                              device_traits device = {},
                              storage_watcher* watcher = nullptr)
      : tape_(memory,
              device,
              {.keeps_workspaces = setup.framework.keeps_workspaces,
               .random_states_on_host = setup.framework.random_states_on_host},
              watcher),
        described_(setup),
        setup_(as_operators_see(setup)),
        plan_(plan),
        code_(tape_, setup_, plan_),
        any_shards_(tape_, described_, plan_),
        shards_(any_shards_.get()),
        states_(tape_, setup_) {
    tape_.begin(moment::construct);
    code_->shards = shards_;
    if (shards_ != nullptr) shards_->begins(*code_);
    code_->construct();
    move_to_device();
    if (setup_.parallelism.tensor_parallel > 1) code_->divide_among_ranks();
    code_->quantised.cast_rest();
    code_->adapters.construct();
    if (shards_ != nullptr) shards_->model_is_built();
    if (shards_ == nullptr)
      states_.construct();
    else if (!shards_->has_own_step())
      states_.construct(shards_->updated());
    code_->make_batch();
  }
  training_job_here(const training_job_here&) = delete;
  training_job_here& operator=(const training_job_here&) = delete;

  /// Makes the optimizer's states, which come into being in the first step: the next step is as any
  /// later one, but for where in memory they are.
  constexpr void settle() {
    if (shards_ != nullptr && shards_->has_own_step())
      shards_->step();
    else
      states_.make_all();
    code_->make_leftovers();
  }
  /// Bytes in use, by what they are for.
  [[nodiscard]] constexpr const std::int64_t* alive() const { return tape_.alive; }

  /// Forward, backward, optimizer, and the gradients are gone.
  constexpr void step() {
    if (shards_ != nullptr && shards_->has_own_step()) return shards_->step();
    for (std::int64_t micro = 0; micro < plan_.accumulation; ++micro) {
      if (shards_ != nullptr) shards_->forward_begins(micro + 1 == plan_.accumulation);
      const value loss = forward();
      const value scaled = states_.scaled(loss);
      tape_.backward(scaled);
      // whoever measures does so before the loss goes
      if (micro + 1 == plan_.accumulation) tape_.begin(moment::optimizer);
      tape_.drop_leaves();
    }
    states_.step();
    for (int at = 0; at < tape_.parameters.size(); ++at) {
      tensor& gradient = tape_.parameters[at].gradient;
      tape_.release(gradient.storage);
      gradient = {};
    }
  }

 private:
  constexpr value forward() {
    const auto autocast = code_->autocast();
    tape_.begin(moment::forward);
    value loss;
    {
      value given = tape_.share(code_->input());
      if (shards_ != nullptr) shards_->before_unit(none, &given, 1);
      code_->given = given;
      loss = code_->forward();
      if (shards_ != nullptr) shards_->after_unit(none, loss);
    }
    loss = code_->outer_loss(loss);
    if (plan_.accumulation > 1) loss = scale(tape_, loss);
    return loss;
  }
  // From the meta device, where the model was built there.
  constexpr void move_to_device() {
    const bool from_meta = tape_.leave_meta();
    code_->cast_model();
    if (!from_meta) return;
    for (int at = 0; at < tape_.buffers.size(); ++at) {
      const int storage = tape_.buffers[at].storage;
      if (!tape_.has_memory(storage)) tape_.take_again(storage);
    }
  }
  // Weights that are cast while they are gathered leave no casts to the operators.
  static constexpr training_setup as_operators_see(training_setup setup) {
    if (setup.framework.sharding == sharding_code::fsdp2) {
      setup.precision.compute = setup.precision.weights;
      setup.framework.builds_in_fp32 = false;
    }
    return setup;
  }

  tape tape_;
  training_setup described_;
  training_setup setup_;
  batch_plan plan_;
  any_code code_;
  any_sharding any_shards_;
  sharding* shards_;  // none where nothing is shared
  optimizer_states states_;
};

#ifndef GPUPLAN_COMPILED_REPLAY
using training_job = training_job_here;
#else
// Defined in gpuplan::replay: <gpuplan/replay/src.hpp>.
training_job_here* build_training_job(memory_events& memory,
                                      const training_setup& setup,
                                      const batch_plan& plan,
                                      device_traits device,
                                      storage_watcher* watcher);
void tear_down(training_job_here* job);
void settle(training_job_here& job);
void step(training_job_here& job);

/// A training job on one rank. What runs at run time is compiled in gpuplan::replay.
/// (Without optimisation g++ 12 would keep both branches of `std::is_constant_evaluated()`.)
class training_job {
 public:
  constexpr training_job(memory_events& memory,
                         const training_setup& setup,
                         const batch_plan& plan,
                         device_traits device = {},
                         storage_watcher* watcher = nullptr)
      : none_() {
    if (__builtin_is_constant_evaluated())
      job_ = std::construct_at(&here_, memory, setup, plan, device, watcher);
    else
      job_ = build_training_job(memory, setup, plan, device, watcher);
  }
  training_job(const training_job&) = delete;
  training_job& operator=(const training_job&) = delete;
  constexpr ~training_job() {
    if (__builtin_is_constant_evaluated())
      std::destroy_at(job_);
    else
      tear_down(job_);
  }

  constexpr void settle() {
    if (__builtin_is_constant_evaluated())
      job_->settle();
    else
      eager::settle(*job_);
  }
  [[nodiscard]] constexpr const std::int64_t* alive() const { return job_->alive(); }
  constexpr void step() {
    if (__builtin_is_constant_evaluated())
      job_->step();
    else
      eager::step(*job_);
  }

 private:
  union {
    char none_;
    training_job_here here_;
  };
  training_job_here* job_ = nullptr;
};
#endif

}  // namespace gpuplan::eager

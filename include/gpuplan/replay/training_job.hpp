#pragma once

// Training steps of eager mode, from the construction of the model on: what they ask a device's
// memory for. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/codes.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/optimizer_step.hpp>
#include <gpuplan/replay/sharding/deepspeed_reference.hpp>
#include <gpuplan/replay/sharding/torch_chunks.hpp>
#include <gpuplan/replay/sharding/torch_pipeline.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// A training job on one rank: the model is built, the first batch is there.
class training_job {
 public:
  /// Makes the optimizer's states, which come into being in the first step: the next step is as any
  /// later one, but for where in memory they are.
  constexpr virtual void settle() = 0;
  /// Bytes in use, by what they are for.
  [[nodiscard]] constexpr virtual const std::int64_t* alive() const = 0;
  /// Parameters of the rank, those of adapters and frozen ones included, and which of them train.
  [[nodiscard]] constexpr virtual const growing_array<parameter_record>& parameters() const = 0;
  /// Which of these are the model's, from the first to before the end. A reference lies before or
  /// behind them, and an engine's copies behind.
  [[nodiscard]] constexpr virtual int first_of_model() const = 0;
  [[nodiscard]] constexpr virtual int end_of_model() const = 0;
  /// The matrix products so far.
  [[nodiscard]] constexpr virtual const product_flops& products() const = 0;
  /// Forward, backward, optimizer, and the gradients are gone.
  constexpr virtual void step() = 0;

 protected:
  constexpr ~training_job() = default;
};

/// Who is handed a job, for as long as that is there.
class job_user {
 public:
  constexpr virtual void use(training_job& job) = 0;

 protected:
  constexpr ~job_user() = default;
};

/// A job of this code.
class running_job final : public training_job {
 public:
  constexpr running_job(tape& t,
                        model_code& code,
                        const training_setup& described,
                        const training_setup& setup,
                        const batch_plan& plan,
                        model_code* reference = nullptr)
      : tape_(t),
        setup_(setup),
        plan_(plan),
        code_(&code),
        any_shards_(t, described, plan),
        shards_(any_shards_.get()),
        divided_reference_(t, described, plan),
        states_(t, setup) {
    tape_.begin(moment::construct);
    // DeepSpeed takes the model to its device when the reference is there.
    const bool is_before = shards_ != nullptr && shards_->has_own_step() && !divides_reference();
    if (reference != nullptr && is_before) build_reference(*reference);
    first_of_model_ = tape_.parameters.size();
    code_->shards = shards_;
    if (shards_ != nullptr) shards_->begins(*code_);
    code_->construct();
    move_to_device();
    if (setup_.parallelism.tensor_parallel > 1) code_->divide_among_ranks();
    if (shards_ != nullptr) shards_->base_is_built();
    code_->construct_adapters();
    end_of_model_ = tape_.parameters.size();
    if (shards_ != nullptr) shards_->model_is_built();
    if (shards_ == nullptr)
      states_.construct();
    else if (!shards_->has_own_step())
      states_.construct(shards_->updated(), &code_->held_chunks);
    if (reference != nullptr && !is_before) build_reference(*reference);
    code_->make_batch();
  }
  running_job(const running_job&) = delete;
  running_job& operator=(const running_job&) = delete;

  constexpr void settle() override {
    if (shards_ != nullptr && shards_->has_own_step()) {
      shards_->step();
    } else {
      states_.make_all();
      if (setup_.graphs.iteration) step();  // before it is captured, whose gradients stay
    }
    code_->make_leftovers();
  }
  [[nodiscard]] constexpr const std::int64_t* alive() const override { return tape_.alive; }
  [[nodiscard]] constexpr const growing_array<parameter_record>& parameters() const override {
    return tape_.parameters;
  }
  [[nodiscard]] constexpr int first_of_model() const override { return first_of_model_; }
  [[nodiscard]] constexpr int end_of_model() const override { return end_of_model_; }
  [[nodiscard]] constexpr const product_flops& products() const override { return tape_.products; }

  constexpr void step() override {
    if (shards_ != nullptr && shards_->has_own_step()) return shards_->step();
    if (setup_.parallelism.pipeline_parallel > 1) return step_of_stage();
    for (std::int64_t micro = 0; micro < plan_.accumulation; ++micro) {
      tape_.begin_micro_batch();
      if (shards_ != nullptr) shards_->forward_begins(micro + 1 == plan_.accumulation);
      const value loss = forward();
      value scaled;
      {
        const auto goes_back = tape_.going_back();
        // Accelerate divides by its own number of micro-batches, which is 1.
        const bool divides = setup_.objective == training_objective::group_relative;
        value divided = tape_.share(loss);
        if (divides) divided = scale(tape_, loss);
        scaled = states_.scaled(divided);
      }
      tape_.backward(scaled);
      // whoever measures does so before the loss goes
      if (micro + 1 == plan_.accumulation) tape_.begin(moment::optimizer);
      tape_.drop_leaves();
    }
    update();
  }

 private:
  constexpr void update() {
    states_.prepare_gradients();
    code_->before_update();
    states_.update();
    if (shards_ != nullptr) shards_->step_is_done();
    // graphs add to gradients where they are, which the next step sets to zero
    if (setup_.graphs.iteration) return;
    for (int at = 0; at < tape_.parameters.size(); ++at) {
      tensor& gradient = tape_.parameters[at].gradient;
      tape_.release(gradient.storage);
      gradient = {};
    }
  }
  constexpr void step_of_stage() {
    const parallelism& layout = setup_.parallelism;
    const auto finish = [&] {
      code_->stage_is_done();
      tape_.begin(moment::optimizer);
      update();
    };
    code_->stage_begins();
    if (layout.virtual_pipeline > 1 || traits_of(layout.schedule).defers_weights) {
      torch_chunks micro_batches(tape_, *code_, *shards_, setup_, plan_);
      micro_batches.run();
      finish();
    } else {
      torch_pipeline micro_batches(tape_, *code_, *shards_, setup_, plan_);
      micro_batches.run();
      finish();
    }
  }
  [[nodiscard]] constexpr bool divides_reference() const {
    return shards_ != nullptr && shards_->has_own_step() && setup_.parallelism.zero_stage == 3;
  }
  constexpr void build_reference(model_code& reference) {
    const int first = tape_.parameters.size();
    // Those of the model, which is on its device; a move is of all that are not yet there.
    for (int at = 0; at < first; ++at) tape_.parameters[at].is_moved = true;
    if (divides_reference()) {
      reference.shards = &divided_reference_;
      divided_reference_.begins(reference);
    }
    reference.construct();
    reference.cast_model();
    // Its parameters would train, and no loss follows them back; an engine is not told of them.
    for (int at = first; at < tape_.parameters.size(); ++at) {
      tape_.parameters[at].is_idle = true;
      if (shards_ != nullptr && shards_->has_own_step()) tape_.parameters[at].trains = false;
    }
    if (divides_reference()) {
      divided_reference_.base_is_built();
      divided_reference_.model_is_built();
    }
    tape_.recompute_by(*code_);
    code_->read_reference(reference);
  }
  constexpr value forward() {
    const auto autocast = code_->autocast();
    tape_.begin(moment::forward);
    value loss;
    {
      value given = tape_.share(code_->input());
      if (shards_ != nullptr) shards_->before_unit(none, &given, 1);
      code_->given_input = given;
      loss = code_->forward();
      if (shards_ != nullptr) shards_->after_unit(none, loss);
    }
    loss = code_->outer_loss(loss);
    // TRL's supervised loss, and that of a policy, are sums over the tokens of all micro-batches.
    const bool is_whole = setup_.objective == training_objective::supervised ||
                          setup_.objective == training_objective::group_relative ||
                          setup_.framework.layers().divides_by_tokens;
    if (plan_.accumulation > 1 && !is_whole) loss = scale(tape_, loss);
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
  tape& tape_;
  const training_setup& setup_;
  const batch_plan& plan_;
  model_code* code_;
  any_sharding any_shards_;
  sharding* shards_;  // none where nothing is shared
  deepspeed_reference divided_reference_;
  optimizer_states states_;
  int first_of_model_ = 0;
  int end_of_model_ = 0;
};

// Samples that lie one behind the other are a row, of as many texts.
constexpr batch_plan rows_of(const training_setup& setup, batch_plan plan) {
  if (setup.padding_free) plan.micro_batch = 1;
  if (setup.objective == training_objective::preference) plan.micro_batch *= 2;
  return plan;
}

// Weights that are cast while they are gathered leave no casts to the operators, but for adapters.
constexpr training_setup as_operators_see(training_setup setup, const batch_plan& plan) {
  setup.attention = setup.chosen_attention();
  if (setup.objective != training_objective::next_token)
    setup.scored_tokens = plan.micro_batch * scored_tokens_of(setup);
  if (setup.padding_free) {
    setup.sequence_length *= plan.micro_batch;
    setup.encodings = plan.micro_batch;
  }
  if (setup.framework.engine.is->gathers_weights) {
    if (!detail::wraps_adapters(setup)) setup.precision.compute = setup.precision.weights;
    setup.framework.implementation.builds_in_fp32 = false;
  }
  return setup;
}

/// Runs a job of the setup's code, and hands it to `user`.
constexpr void train_here(memory_events& memory,
                          const training_setup& setup,
                          const batch_plan& plan,
                          device_traits device,
                          storage_watcher* watcher,
                          job_user& user) {
  class job_of_code final : public code_user {
   public:
    constexpr job_of_code(tape& t,
                          const training_setup& described,
                          const training_setup& seen,
                          const batch_plan& plan,
                          job_user& user)
        : t_(t), described_(described), seen_(seen), plan_(plan), user_(user) {}
    constexpr void use(model_code& code) override {
      if (policy_ == nullptr && has_reference()) {
        policy_ = &code;
        with_code(t_, seen_, plan_, *this);
        return;
      }
      model_code* const reference = policy_ == nullptr ? nullptr : &code;
      running_job job(
          t_, policy_ == nullptr ? code : *policy_, described_, seen_, plan_, reference);
      user_.use(job);
    }

   private:
    [[nodiscard]] constexpr bool has_reference() const {
      const bool compares = seen_.objective == training_objective::preference ||
                            seen_.objective == training_objective::group_relative;
      return compares && seen_.reference == reference_model::separate;
    }

    tape& t_;
    const training_setup& described_;
    const training_setup& seen_;
    const batch_plan& plan_;
    job_user& user_;
    model_code* policy_ = nullptr;  // whose reference is being made
  };
  tape t(memory,
         device,
         {.keeps_workspaces = setup.framework.implementation.keeps_workspaces,
          .random_states_on_host = setup.framework.implementation.random_states_on_host},
         watcher);
  const training_setup seen = as_operators_see(setup, plan);
  const batch_plan rows = rows_of(setup, plan);
  job_of_code job(t, setup, seen, rows, user);
  with_code(t, seen, rows, job);
}

#ifdef GPUPLAN_COMPILED_REPLAY
// Defined in gpuplan::replay: <gpuplan/replay/src.hpp>.
void train_compiled(memory_events& memory,
                    const training_setup& setup,
                    const batch_plan& plan,
                    device_traits device,
                    storage_watcher* watcher,
                    job_user& user);
#endif

/// Calls `use` with a training job on one rank. What runs at run time is compiled in
/// gpuplan::replay where the program links that. (Without optimisation g++ 12 would keep both
/// branches of `std::is_constant_evaluated()`.)
template <class Use>
constexpr void train(memory_events& memory,
                     const training_setup& setup,
                     const batch_plan& plan,
                     device_traits device,
                     storage_watcher* watcher,
                     const Use& use) {
  class calls final : public job_user {
   public:
    constexpr explicit calls(const Use& given) : use_(given) {}
    constexpr void use(training_job& job) override { use_(job); }

   private:
    const Use& use_;
  };
  calls user(use);
#ifdef GPUPLAN_COMPILED_REPLAY
  if (!__builtin_is_constant_evaluated()) {
    train_compiled(memory, setup, plan, device, watcher, user);
    return;
  }
#endif
  train_here(memory, setup, plan, device, watcher, user);
}

}  // namespace gpuplan::eager

#pragma once

// The memory of plans, of which many are asked about again while limits are looked for.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/progress.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace plan_program {

/// What a program has asked for so far, and how far it is: where it takes more than a second, a bar
/// on standard error says so, if that is a terminal.
class asked_memory {
 public:
  /// Of how many questions the program has answered so many.
  void answered(std::size_t questions, std::size_t of_all);
  /// A plan was looked at, of many that need no replay.
  void looked_at();
  /// The memory of the plan: worked out where it was not asked for before.
  [[nodiscard]] gpuplan::bytes required(const gpuplan::fullest_stage_memory& model,
                                        const gpuplan::batch_plan& plan);
  [[nodiscard]] std::int64_t replayed() const { return replayed_; }

 private:
  // In which the setups of one request differ beside their layouts.
  struct code_and_precision {
    const char* code = nullptr;
    const gpuplan::engine_class* engine = nullptr;
    gpuplan::precision_recipe precision{};

    friend bool operator==(const code_and_precision&, const code_and_precision&) = default;
  };

  void show();
  std::int64_t index_of(const gpuplan::training_setup& setup);

  std::vector<code_and_precision> seen_{};
  std::map<std::vector<std::int64_t>, gpuplan::bytes> answers_{};
  std::int64_t replayed_ = 0;
  std::int64_t looked_at_ = 0;
  double share_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  gpuplan::io::progress_line line_{stderr};
};

/// `transformer_memory_of` that works out no plan twice, of one model.
class remembered_memory {
 public:
  struct model {
    gpuplan::fullest_stage_memory of{};
    asked_memory* asked = nullptr;

    [[nodiscard]] gpuplan::bytes required(const gpuplan::batch_plan& plan) const {
      return asked->required(of, plan);
    }
    friend gpuplan::result<gpuplan::fullest_stage_memory> validate(const model& memory) {
      return gpuplan::validate(memory.of);
    }
    friend gpuplan::result<gpuplan::batch_plan> validate(const model& memory,
                                                         const gpuplan::batch_plan& plan) {
      return gpuplan::validate(memory.of, plan);
    }
  };

  explicit remembered_memory(const gpuplan::transformer_memory_of& of)
      : of_(of), asked_(std::make_shared<asked_memory>()) {}

  [[nodiscard]] asked_memory& asked() const { return *asked_; }
  [[nodiscard]] remembered_memory on(const gpuplan::gpu_spec& gpu) const {
    remembered_memory there = *this;
    there.of_ = of_.on(gpu);
    return there;
  }
  [[nodiscard]] model operator()(const gpuplan::training_setup& setup) const {
    return {of_(setup), asked_.get()};
  }
  [[nodiscard]] gpuplan::bytes at_least(const gpuplan::training_setup& setup,
                                        const gpuplan::batch_plan& plan) const {
    asked_->looked_at();
    return of_.at_least(setup, plan);
  }
  [[nodiscard]] gpuplan::bytes at_least(const gpuplan::training_setup& setup,
                                        const gpuplan::batch_plan& plan,
                                        const gpuplan::parameter_counts& of_rank) const {
    asked_->looked_at();
    return of_.at_least(setup, plan, of_rank);
  }

 private:
  gpuplan::transformer_memory_of of_;
  std::shared_ptr<asked_memory> asked_;
};

}  // namespace plan_program

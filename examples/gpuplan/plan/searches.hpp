#pragma once

// Searches for plans, of which one command makes many.

#include <gpuplan/planner.hpp>
#include <gpuplan/planner/front.hpp>
#include <gpuplan/planner/limits.hpp>
#include <gpuplan/result.hpp>

#include <cstddef>
#include <memory>

namespace plan_program {

class asked_steps;

/// What the planner answers about one model, by the memory of replayed steps, and where several
/// models make a step by their time too. No step is worked out twice. Where it takes more than a
/// second, a bar on standard error says how far it is, if that is a terminal.
class searches {
 public:
  explicit searches(double fragmentation_percent);

  /// `plan_training`, `limits_of` and `front_of` of the request. What keeps all steps from being
  /// timed is the failure of these.
  [[nodiscard]] gpuplan::result<gpuplan::plan_answer> plans_of(const gpuplan::plan_request& request,
                                                               int plans) const;
  [[nodiscard]] gpuplan::result<gpuplan::plan_limits> limits_of(
      const gpuplan::plan_request& request) const;
  [[nodiscard]] gpuplan::result<gpuplan::plan_front> front_of(const gpuplan::plan_request& request,
                                                              double step) const;

  /// Of how many questions the program has answered so many.
  void answered(std::size_t questions, std::size_t of_all) const;

 private:
  std::shared_ptr<asked_steps> asked_;
  double fragmentation_;
};

}  // namespace plan_program

#pragma once

// Runs that differ in nothing but their plan: does the model choose the one that was fastest?

#include <gpuplan/time/rates.hpp>
#include <string>
#include <vector>

#include "timed_rows.hpp"

namespace accuracy {

/// One question: a model, GPUs and a batch that were run by several plans.
struct plan_choice {
  std::string source;
  std::string question;  // as `timed_row` has it
  std::size_t plans = 0;
  std::string chosen;  // the one whose prediction is the shortest
  std::string fastest;
  double regret = 0;  // by how much the chosen one took longer than the fastest, in percent of it
};

/// The questions with several plans, by these terms of the model. Runs of one plan count as one, by
/// their mean.
std::vector<plan_choice> plan_choices(const std::vector<timed_row>& rows,
                                      const gpuplan::time_terms& terms = {});

/// One term of the model switched off, and the error of a source without it, in percent.
struct term_error {
  std::string term;    // "none" where all are on
  std::string source;  // "all": of every row; "regret": of the questions, instead of an error
  error_size size;
};

/// All sources, and all rows together, without each of the terms, by parameters as they are.
std::vector<term_error> ablation(const std::vector<timed_row>& rows);

}  // namespace accuracy

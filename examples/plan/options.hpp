#pragma once

// What is planned, as command lines say it.

#include <gpuplan/planner.hpp>

#include <cstdint>
#include <string>

#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace plan_program {

/// What the command line gives, before it is checked.
struct arguments {
  setups::arguments setup{};
  std::string gpu = "a100_sxm4_80gb";
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 8;
  double network = 200;  // GB/s of a node
  std::int64_t batch = 0;
  std::int64_t largest_batch = 0;  // 0: the same
  double tokens = 0;               // of the run; 0: not known
  double days = 0;
  double dollars = 0;
  double price = 0;  // of a GPU and hour; 0: not known
  double fragmentation = 15;
};

/// What there is to plan, with the name of the model.
struct named_request {
  std::string name;
  gpuplan::plan_request request{};
};

void add_options(CLI::App& app, arguments& to);

/// What the options say: all degrees that the framework has code for are searched. Throws
/// `guides::bad_request`.
[[nodiscard]] named_request request_of(const arguments& given);

/// "t4 c2 e2 p8 v2 ZeRO-1": the degrees above 1 of tensor, context, expert, pipeline and chunks.
[[nodiscard]] std::string in_words(const gpuplan::training_plan& plan);
/// "none", "attention", "layers".
[[nodiscard]] std::string recomputed(const gpuplan::training_plan& plan);

}  // namespace plan_program

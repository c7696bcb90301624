#pragma once

// What is planned, as command lines say it.

#include <gpuplan/planner.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guides/render.hpp"
#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace plan_program {

/// What the command line gives, before it is checked.
struct arguments {
  setups::arguments setup{};
  std::vector<std::string> gpus{"a100_sxm4_80gb"};
  // Of each kind of GPU, or one of all.
  std::vector<std::int64_t> total{};  // GPUs; none: as many as the nodes have
  std::vector<std::int64_t> nodes{1};
  std::vector<std::int64_t> gpus_per_node{8};
  std::vector<double> network{200};             // GB/s of a node
  std::vector<double> price{};                  // of a GPU and hour; none: not known
  std::vector<double> power{};                  // watts of a GPU; none: its TDP
  std::string sharding{};                       // empty: the framework's own
  std::vector<std::string> precisions{"bf16"};  // to choose from
  std::int64_t batch = 0;
  std::int64_t largest_batch = 0;  // 0: the same
  double tokens = 0;               // of the run; 0: not known
  std::int64_t samples = 0;        // of the run, instead
  double days = 0;
  double dollars = 0;
  double fragmentation = 15;
  // What plans there are to choose from; absent: all.
  gpuplan::known<gpuplan::range<std::int64_t>> tensor_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> pipeline_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> virtual_pipeline{};
  gpuplan::known<gpuplan::range<std::int64_t>> context_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> expert_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> zero_stage{};
  gpuplan::known<gpuplan::recompute_mode> recompute{};
  gpuplan::range<std::int64_t> micro_batch = gpuplan::plan_space{}.micro_batch;
};

/// What there is to plan, with the name of the model.
struct named_request {
  std::string name;
  gpuplan::plan_request request{};
  std::vector<std::string> precisions{};  // of the request's setup, then of its setups
  std::shared_ptr<const std::vector<gpuplan::training_setup>> setups{};  // the request's
  std::shared_ptr<const std::vector<gpuplan::cluster_choice>> others{};  // likewise
};

void add_options(CLI::App& app, arguments& to);

/// What the options say: all degrees that the framework has code for are searched, but for those
/// that are given. Throws
/// `guides::bad_request`.
[[nodiscard]] named_request request_of(const arguments& given);

/// "t4s c2 e2 p8 v2 ZeRO-1": the degrees above 1 of tensor, context, expert, pipeline and chunks,
/// and an s where tensor ranks have a part each of the sequence between their products.
[[nodiscard]] std::string in_words(const gpuplan::training_plan& plan);
/// Whether its tensor ranks do.
[[nodiscard]] bool divides_sequence(const gpuplan::training_plan& plan);
/// "8x2x4": replicas, micro-batch, accumulation.
[[nodiscard]] std::string in_words(const gpuplan::batch_plan& plan);
/// Whether people read it: they take the parts of a batch side by side, programs one by one.
[[nodiscard]] bool is_for_people(const guides::output& as);
/// "1.5 billion tokens", "1 token", "512 samples".
[[nodiscard]] std::string run_in_words(const arguments& given);
/// Of the largest of the clusters.
[[nodiscard]] std::int64_t most_gpus(const gpuplan::plan_request& request);
/// Of its sequence, or of its image: patches and what is beside them.
[[nodiscard]] std::int64_t tokens_of_sample(const gpuplan::training_setup& setup);
/// "llama-3-8b (torchtitan; sequences of 4096 tokens)".
[[nodiscard]] std::string what_of(const named_request& asked);
/// "64 x h100_sxm5_80gb", or of several clusters all there are: "8 x a, 16 x b".
[[nodiscard]] std::string gpus_of(const gpuplan::plan_request& request);
/// As much of the GPU's id as tells it from the request's others: "h100".
[[nodiscard]] std::string short_id(const gpuplan::plan_request& request,
                                   const gpuplan::training_plan& plan);
/// Why there is no plan, in few words: "needs 93.3 GB of memory".
[[nodiscard]] std::string in_words(const gpuplan::failure& why);
/// "none", "attention", "layers".
[[nodiscard]] std::string recomputed(const gpuplan::training_plan& plan);

}  // namespace plan_program

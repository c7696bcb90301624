#pragma once

// What is planned, as command lines say it.

#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guides/render.hpp"
#include "runs/clusters.hpp"
#include "runs/runs.hpp"
#include "runs/stated_step.hpp"
#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace plan_program {

/// What the command line gives, before it is checked.
struct arguments {
  setups::arguments setup{};
  runs::cluster_words clusters{};
  runs::run_words run{};
  std::vector<std::string> precisions{};                 // to choose from; none: the usual one
  gpuplan::known<gpuplan::range<std::int64_t>> batch{};  // absent: that of the files
  double days = 0;
  double dollars = 0;
  double stragglers = 1;
  double fragmentation = 100 * gpuplan::usual_fragmentation;
  std::shared_ptr<const runs::own_cluster> own{};  // what steps timed there say; may be none
  // What plans there are to choose from; absent: all.
  gpuplan::known<gpuplan::range<std::int64_t>> tensor_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> pipeline_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> virtual_pipeline{};
  gpuplan::known<gpuplan::pipeline_schedule> schedule{};  // absent: all that the code offers
  gpuplan::known<gpuplan::range<std::int64_t>> context_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> expert_parallel{};
  std::int64_t expert_tensor_parallel = 1;  // of all plans
  gpuplan::known<gpuplan::range<std::int64_t>> zero_stage{};
  gpuplan::known<setups::recomputation> recompute{};
  std::int64_t recompute_layers = 0;  // of full recomputation; 0: all, or where that is absent, any
  gpuplan::known<gpuplan::range<std::int64_t>> micro_batch{};
  gpuplan::known<gpuplan::range<std::int64_t>> data_parallel{};
  gpuplan::known<gpuplan::range<std::int64_t>> accumulation{};
};

/// What there is to plan, with the name of the model.
struct named_request {
  std::string name;
  gpuplan::plan_request request{};
  std::shared_ptr<const gpuplan::composite_model> parts{};  // which keeps those of its setups
  runs::run_words run{};                                    // that its samples are of
  std::vector<std::string> precisions{};        // of the request's setup, then of its setups
  std::vector<runs::named_cluster> clusters{};  // the request's, then its others
  std::shared_ptr<const std::vector<gpuplan::training_setup>> setups{};  // the request's
  std::shared_ptr<const std::vector<gpuplan::cluster_choice>> others{};  // likewise
  std::shared_ptr<const runs::own_cluster> own{};  // whose numbers setups and clusters have
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
/// Of the largest of the clusters.
[[nodiscard]] std::int64_t most_gpus(const gpuplan::plan_request& request);
/// The code of a plan in a word, its own or that of what shares among replicas: "torchtitan",
/// "ddp".
[[nodiscard]] std::string code_of(const gpuplan::framework& by);
/// Whether plans of several precisions, or codes, are compared.
[[nodiscard]] bool has_precisions(const named_request& asked);
[[nodiscard]] bool has_codes(const named_request& asked);
/// "llama-3-8b (torchtitan; sequences of 4,096 tokens; bf16 mixed, AdamW)".
[[nodiscard]] std::string what_of(const named_request& asked);
/// "64 x h100_sxm5_80gb", or of several clusters all there are: "8 x a, 16 x b".
[[nodiscard]] std::string gpus_of(const gpuplan::plan_request& request);
/// As much of the GPU's id as tells it from the request's others: "h100".
[[nodiscard]] std::string short_id(const gpuplan::plan_request& request,
                                   const gpuplan::training_plan& plan);
/// Why there is no plan, in few words: "needs 93.3 GiB of memory, has 78.1".
[[nodiscard]] std::string in_words(const gpuplan::failure& why);
/// The word of `--recompute`, or "3 of 8 layers".
[[nodiscard]] std::string recomputed(const gpuplan::training_setup& setup);

}  // namespace plan_program

#include "plan/options.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "guides/front_end.hpp"
#include "setups/frameworks.hpp"
#include "setups/options.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;

precision_recipe usual_precision(sharding_code sharding) {
  switch (sharding) {
    case sharding_code::megatron:
      return bf16_megatron;
    case sharding_code::deepspeed:
      return bf16_master;
    case sharding_code::none:
    case sharding_code::fsdp2:
      break;
  }
  return bf16_mixed;
}

void add_number(
    CLI::App& app, const char* name, double& to, double least, double most, const char* what) {
  app.add_option(name, to, what)->check(CLI::Range(least, most))->type_name("");
}
void add_count(
    CLI::App& app, const char* name, std::int64_t& to, std::int64_t most, const char* what) {
  app.add_option(name, to, what)->check(CLI::Range(std::int64_t{1}, most))->type_name("");
}

}  // namespace

void add_options(CLI::App& app, arguments& to) {
  setups::add_model_options(app, to.setup);
  app.add_option("--gpu", to.gpu, "The device")->type_name("")->capture_default_str();
  add_count(app, "--nodes", to.nodes, 1 << 16, "Nodes (default: 1)");
  add_count(app, "--gpus-per-node", to.gpus_per_node, 1 << 10, "GPUs of a node (default: 8)");
  add_number(app,
             "--network",
             to.network,
             0.1,
             1e5,
             "GB/s of a node, each direction, all its adapters together (default: 200)");
  app.add_option("--batch", to.batch, "Samples of an optimizer step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("")
      ->required();
  add_count(app,
            "--largest-batch",
            to.largest_batch,
            std::int64_t{1} << 30,
            "Where the batch may be larger: at most (default: the same)");
  add_number(app, "--tokens", to.tokens, 1, 1e18, "Tokens of the run, in its samples' lengths");
  add_number(app, "--price", to.price, 1e-6, 1e6, "Dollars for a GPU and hour");
  add_number(app,
             "--fragmentation",
             to.fragmentation,
             0,
             1000,
             "Percent of the peak that the allocator cannot use (default: 15)");
}

named_request request_of(const arguments& given) {
  setups::arguments setup = given.setup;
  if (!setup.framework.empty()) {
    const sharding_code sharding = setups::framework_named(setup.framework).sharding;
    setup.setup.precision = usual_precision(sharding);
    if (sharding == sharding_code::fsdp2) setup.setup.parallelism.zero_stage = 3;
  }
  const setups::named_setup named = setups::model_of(setup);
  named_request made{.name = named.name};
  plan_request& request = made.request;
  request.setup = named.setup;
  request.setup.precision = usual_precision(named.setup.framework.sharding);
  request.on = {.gpu = setups::gpu_named(given.gpu),
                .nodes = given.nodes,
                .gpus_per_node = given.gpus_per_node,
                .between_nodes = given.network * 1_GBps};
  if (given.price > 0)
    request.on.price_per_gpu =
        dated_price{given.price * 1_usd_per_hour, "today", "the command line"};
  request.efficiency = catalog::efficiency_of(request.on.gpu);
  const std::int64_t largest =
      given.largest_batch > given.batch ? given.largest_batch : given.batch;
  request.effective_batch = {given.batch, largest};
  const std::int64_t gpus = total_gpus(request.on);
  const range<std::int64_t> any{1, gpus};
  request.space = {.tensor_parallel = any,
                   .pipeline_parallel = any,
                   .virtual_pipeline = range<std::int64_t>{1, 1 << 10},
                   .context_parallel = any,
                   .expert_parallel = any,
                   .zero_stage = range<std::int64_t>{0, 3},
                   .recompute = true};
  if (given.tokens > 0) {
    const double samples = given.tokens / static_cast<double>(request.setup.sequence_length);
    request.samples = static_cast<std::int64_t>(samples) + 1;
  }
  if (request.samples == 0 && (given.days > 0 || given.dollars > 0))
    throw guides::bad_request("--tokens says how long the run is that has a limit");
  if (given.days > 0) request.finish_in = 24 * given.days * 1_h;
  if (given.dollars > 0) {
    if (given.price <= 0) throw guides::bad_request("--price says what the money pays for");
    request.at_most = given.dollars * 1_usd;
  }
  if (const auto valid = validate(request); !valid)
    throw guides::bad_request(failure_text(valid.why()).c_str());
  return made;
}

std::string in_words(const training_plan& plan) {
  const parallelism& division = plan.division;
  std::string words;
  const auto add = [&](const std::string& more) { words += (words.empty() ? "" : " ") + more; };
  const auto degree = [&](const char* letter, std::int64_t ranks) {
    if (ranks > 1) add(letter + std::to_string(ranks));
  };
  degree("t", division.tensor_parallel);
  degree("c", division.context_parallel);
  degree("e", division.expert_parallel);
  degree("p", division.pipeline_parallel);
  degree("v", division.virtual_pipeline);
  if (division.zero_stage > 0) add("ZeRO-" + std::to_string(division.zero_stage));
  return words.empty() ? "replicas" : words;
}

std::string recomputed(const training_plan& plan) {
  switch (plan.recompute) {
    case recompute_mode::selective:
      return "attention";
    case recompute_mode::full:
      return "layers";
    case recompute_mode::none:
      break;
  }
  return "none";
}

}  // namespace plan_program

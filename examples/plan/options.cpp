#include "plan/options.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

template <class Number>
void add_number(
    CLI::App& app, const char* name, Number& to, Number least, Number most, const char* what) {
  app.add_option(name, to, what)->check(CLI::Range(least, most))->type_name("");
}
// A number for each kind of GPU, or one for all.
template <class Number>
void add_numbers(CLI::App& app,
                 const char* name,
                 std::vector<Number>& to,
                 Number least,
                 Number most,
                 const char* what) {
  app.add_option(name, to, what)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(least, most))
      ->type_name("");
}
template <class Number>
Number of_kind(const std::vector<Number>& numbers, std::size_t kind) {
  return numbers.size() == 1 ? numbers[0] : numbers[kind];
}

cluster_choice cluster_of_kind(const arguments& given, std::size_t kind) {
  cluster_choice made{.on = {.gpu = setups::gpu_named(given.gpus[kind]),
                             .nodes = of_kind(given.nodes, kind),
                             .gpus_per_node = of_kind(given.gpus_per_node, kind),
                             .between_nodes = of_kind(given.network, kind) * 1_GBps}};
  if (!given.price.empty())
    made.on.price_per_gpu =
        dated_price{of_kind(given.price, kind) * 1_usd_per_hour, "today", "the command line"};
  if (!given.power.empty()) made.on.power_per_gpu = of_kind(given.power, kind) * 1_W;
  made.efficiency = catalog::efficiency_of(made.on.gpu);
  return made;
}

}  // namespace

void add_options(CLI::App& app, arguments& to) {
  setups::add_model_options(app, to.setup);
  app.add_option("--gpu", to.gpus, "The device, or kinds to choose from: a,b (default: an A100)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("");
  add_numbers(app,
              "--nodes",
              to.nodes,
              std::int64_t{1},
              std::int64_t{1} << 16,
              "Nodes (default: 1); this and the next five of all kinds of GPU, or of each: 8,16");
  add_numbers(app,
              "--gpus-per-node",
              to.gpus_per_node,
              std::int64_t{1},
              std::int64_t{1} << 10,
              "GPUs of a node (default: 8)");
  add_numbers(app,
              "--network",
              to.network,
              0.1,
              1e5,
              "GB/s of a node, each direction, all its adapters together (default: 200)");
  add_numbers(app, "--price", to.price, 1e-6, 1e6, "Dollars for a GPU and hour");
  add_numbers(app,
              "--power",
              to.power,
              1.0,
              1e5,
              "Watts of a GPU with its share of host and cooling (default: its TDP, without)");
  app.add_option("--batch", to.batch, "Samples of an optimizer step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("")
      ->required();
  add_number(app,
             "--largest-batch",
             to.largest_batch,
             std::int64_t{1},
             std::int64_t{1} << 30,
             "Where the batch may be larger: at most (default: the same)");
  add_number(app, "--tokens", to.tokens, 1.0, 1e18, "Tokens of the run, in its samples' lengths");
  add_number(app, "--days", to.days, 1e-6, 1e6, "The run must end in so many days");
  add_number(app, "--dollars", to.dollars, 1e-6, 1e15, "The run may cost so much");
  add_number(app,
             "--fragmentation",
             to.fragmentation,
             0.0,
             1000.0,
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
  const std::size_t kinds = given.gpus.size();
  for (const std::size_t numbers : {given.nodes.size(),
                                    given.gpus_per_node.size(),
                                    given.network.size(),
                                    given.price.size(),
                                    given.power.size()})
    if (numbers > 1 && numbers != kinds)
      throw guides::bad_request("--gpu names " + std::to_string(kinds) +
                                " kinds, and another option has " + std::to_string(numbers) +
                                " numbers: give one for all, or one for each");
  for (std::size_t kind = 1; kind < kinds; ++kind)
    for (std::size_t before = 0; before < kind; ++before)
      if (given.gpus[before] == given.gpus[kind])
        throw guides::bad_request("--gpu names " + given.gpus[kind] + " twice");
  auto others = std::make_shared<std::vector<cluster_choice>>();
  for (std::size_t kind = 1; kind < kinds; ++kind) others->push_back(cluster_of_kind(given, kind));
  const cluster_choice first = cluster_of_kind(given, 0);
  request.on = first.on;
  request.efficiency = first.efficiency;
  request.others = *others;
  made.others = others;
  if (given.largest_batch != 0 && given.largest_batch < given.batch)
    throw guides::bad_request("--largest-batch is less than --batch");
  const std::int64_t largest = given.largest_batch != 0 ? given.largest_batch : given.batch;
  request.effective_batch = {given.batch, largest};
  std::int64_t gpus = total_gpus(request.on);
  for (const cluster_choice& other : request.others)
    if (total_gpus(other.on) > gpus) gpus = total_gpus(other.on);
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
    request.samples = static_cast<std::int64_t>(std::ceil(samples));
  }
  if (request.samples == 0 && (given.days > 0 || given.dollars > 0))
    throw guides::bad_request("--tokens says how long the run is that has a limit");
  if (given.days > 0) request.finish_in = 24 * given.days * 1_h;
  if (given.dollars > 0) {
    if (given.price.empty()) throw guides::bad_request("--price says what the money pays for");
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

std::string in_words(const batch_plan& plan) {
  return std::to_string(plan.data_parallel) + "x" + std::to_string(plan.micro_batch) + "x" +
         std::to_string(plan.accumulation);
}

bool is_for_people(const guides::output& as) {
  return as.format == "text" || as.format == "markdown";
}

std::string gpus_of(const plan_request& request) {
  const auto of = [](const cluster& on) {
    return std::to_string(total_gpus(on)) + " x " + on.gpu.id;
  };
  std::string all = of(request.on);
  for (const cluster_choice& other : request.others) all += ", " + of(other.on);
  return all;
}

std::string short_id(const plan_request& request, const training_plan& plan) {
  const std::string id = cluster_of(request, plan).gpu.id;
  const auto is_shared = [&](const std::string& start) {
    int same = request.on.gpu.id == id ? 0 : std::string(request.on.gpu.id).starts_with(start);
    for (const cluster_choice& other : request.others)
      same += other.on.gpu.id == id ? 0 : std::string(other.on.gpu.id).starts_with(start);
    return same != 0;
  };
  std::size_t end = id.find('_');
  while (end != std::string::npos && is_shared(id.substr(0, end))) end = id.find('_', end + 1);
  return id.substr(0, end);
}

std::string in_words(const failure& why) {
  const auto thousandths = [&](fact of) {
    return io::decimal(static_cast<double>(why[of]) / 1000, 1);
  };
  switch (why.code) {
    case errc::exceeds_gpu_memory:
      return "needs " + thousandths(fact::needed_MB) + " GB of memory, has " +
             thousandths(fact::gpu_has_MB);
    case errc::no_plan_in_time:
      return "takes " + io::decimal(static_cast<double>(why[fact::minutes]) / 60, 1) + " hours";
    case errc::no_plan_for_money:
      return "costs " + io::decimal(static_cast<double>(why[fact::cents]) / 100, 0) + " dollars";
    case errc::no_such_division:
      return "no division has so many ranks";
    case errc::no_such_batch:
      return "nothing meets the batch";
    default:
      return failure_text(why).c_str();
  }
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

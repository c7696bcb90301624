#include "plan/options.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "setups/options.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;

// What "bf16" and the like mean to code that shares so. Nothing where it has no such.
known<precision_recipe> recipe_of(const std::string& name, const engine_class* sharding) {
  const bool gathers = sharding == &engine_classes::fsdp2;
  const bool has_masters =
      sharding == &engine_classes::megatron || sharding == &engine_classes::deepspeed;
  precision_recipe bf16 = bf16_mixed;
  if (sharding == &engine_classes::megatron) bf16 = bf16_megatron;
  if (sharding == &engine_classes::deepspeed) bf16 = bf16_master;
  if (name == "bf16") return bf16;
  if (name == "fp8") {
    bf16.fp8_linears = true;
    return bf16;
  }
  if (name == "fp16" && !gathers) return has_masters ? fp16_master : fp16_mixed;
  if (name == "fp32" && sharding != &engine_classes::deepspeed) return fp32_precision;
  return {};
}

void set_sharding(const arguments& given, training_setup& to) {
  if (given.sharding.empty()) return;
  if (to.framework.implementation.layers == &layer_classes::megatron_core)
    throw guides::bad_request("--sharding: " + std::string(to.framework.name) + " has its own");
  to.framework.engine.is = given.sharding == "fsdp2"       ? &engine_classes::fsdp2
                           : given.sharding == "deepspeed" ? &engine_classes::deepspeed
                                                           : &engine_classes::ddp;
  to.parallelism.zero_stage = to.framework.engine.is == &engine_classes::fsdp2 ? 3 : 0;
}

// One setup for each precision.
std::vector<training_setup> setups_of(const arguments& given, training_setup setup) {
  std::vector<training_setup> setups;
  for (const std::string& name : given.precisions) {
    const known<precision_recipe> recipe = recipe_of(name, setup.framework.engine.is);
    if (!recipe)
      throw guides::bad_request("--precision " + name + ": " + setup.framework.name +
                                " does not train in it");
    setup.precision = *recipe;
    training_setup alone = setup;  // what any layout keeps it from says too little
    alone.parallelism = {.zero_stage = setup.parallelism.zero_stage};
    if (const auto valid = validate(alone); !valid)
      throw guides::bad_request("--precision " + name + ": what " + setup.framework.name +
                                " takes in it is not known" +
                                (recipe->fp8_linears ? "; of torch-gpt, torch-llama and "
                                                       "transformers' llama, qwen and gemma it is"
                                                     : ""));
    for (const std::string& kind : given.gpus)
      if (const gpu_spec gpu = setups::gpu_named(kind); !peak(gpu, format_of_linears(*recipe)))
        throw guides::bad_request(
            "--precision " + name + ": " + gpu.id +
            " has no dense rate of it in the catalogue; take another precision");
    setups.push_back(setup);
  }
  return setups;
}

CLI::Validator between(std::int64_t least, std::int64_t most) {
  return guides::whole_number(least, most);
}
CLI::Validator between(double least, double most) { return guides::finite_number(least, most); }

template <class Number>
void add_number(
    CLI::App& app, const char* name, Number& to, Number least, Number most, const char* what) {
  app.add_option(name, to, what)->transform(between(least, most))->type_name("N");
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
      ->transform(between(least, most))
      ->type_name("N,...");
}
template <class Number>
Number of_kind(const std::vector<Number>& numbers, std::size_t kind) {
  return numbers.size() == 1 ? numbers[0] : numbers[kind];
}

// "4", or from one to another: "1-8".
template <class Range>
void add_degrees(CLI::App& app,
                 const char* name,
                 Range& to,
                 std::int64_t least,
                 std::int64_t most,
                 const char* what) {
  app.add_option_function<std::string>(
         name,
         [name, least, most, &to](const std::string& text) {
           std::int64_t ends[2] = {0, 0};
           const char* const end = text.data() + text.size();
           auto read = std::from_chars(text.data(), end, ends[0]);
           ends[1] = ends[0];
           if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '-')
             read = std::from_chars(read.ptr + 1, end, ends[1]);
           if (read.ec != std::errc{} || read.ptr != end || ends[0] < least || ends[1] < ends[0] ||
               ends[1] > most)
             throw CLI::ValidationError(name,
                                        text + " is no number from " + std::to_string(least) +
                                            " to " + std::to_string(most) +
                                            ", and no two of them as 2-8");
           to = range<std::int64_t>{ends[0], ends[1]};
         },
         what)
      ->type_name("N|N-N");
}

// Whole nodes, or a part of one.
void set_total(cluster& on, std::int64_t gpus) {
  const std::int64_t in_node = on.gpus_per_node;
  if (gpus <= in_node) {
    on.nodes = 1;
    on.gpus_per_node = gpus;
    return;
  }
  if (gpus % in_node != 0) {
    const std::int64_t fewer = gpus - gpus % in_node;
    throw guides::bad_request("--gpus " + std::to_string(gpus) + ": nodes have " +
                              std::to_string(in_node) + " GPUs, so " + std::to_string(fewer) +
                              " or " + std::to_string(fewer + in_node) +
                              "; --gpus-per-node says how many others have");
  }
  on.nodes = gpus / in_node;
}

cluster_choice cluster_of_kind(const arguments& given, std::size_t kind) {
  cluster_choice made{.on = {.gpu = setups::gpu_named(given.gpus[kind]),
                             .nodes = of_kind(given.nodes, kind),
                             .gpus_per_node = of_kind(given.gpus_per_node, kind),
                             .between_nodes = of_kind(given.network, kind) * 1_GBps}};
  if (!given.total.empty()) set_total(made.on, of_kind(given.total, kind));
  if (total_gpus(made.on) > std::int64_t{1} << 20)
    throw guides::bad_request("--nodes " + std::to_string(made.on.nodes) + " of " +
                              std::to_string(made.on.gpus_per_node) + " GPUs have " +
                              std::to_string(total_gpus(made.on)) +
                              "; plans are of 1048576 GPUs at most");
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
      ->type_name("NAME,...");
  add_numbers(
      app,
      "--gpus",
      to.total,
      std::int64_t{1},
      std::int64_t{1} << 20,
      "GPUs (default: one node's): one number for all kinds, or one for each (8,16); so also "
      "--nodes to --power");
  add_numbers(app,
              "--nodes",
              to.nodes,
              std::int64_t{1},
              std::int64_t{1} << 16,
              "Nodes, instead of --gpus (default: 1)");
  app.get_option("--nodes")->excludes("--gpus");
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
  app.add_option("--sharding",
                 to.sharding,
                 "Whose code shares among replicas, for layers other than Megatron's (default: "
                 "the framework's, of transformers and torch.nn ddp)")
      ->check(CLI::IsMember(std::vector<std::string>{"ddp", "fsdp2", "deepspeed"}));
  app.add_option("--precision",
                 to.precisions,
                 "Number formats to choose from: bf16, fp16, fp8 (of linear layers, beside bf16), "
                 "fp32")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(std::vector<std::string>{"bf16", "fp16", "fp8", "fp32"}))
      ->type_name("NAME,...")
      ->default_str("bf16");
  app.add_option("--batch", to.batch, "Samples of an optimizer step")
      ->transform(guides::whole_number(1, 1 << 30))
      ->type_name("N")
      ->required();
  add_number(app,
             "--largest-batch",
             to.largest_batch,
             std::int64_t{1},
             std::int64_t{1} << 30,
             "Where the batch may be larger: at most (default: the same)");
  add_number(app,
             "--tokens",
             to.tokens,
             1.0,
             1e18,
             "Tokens of the run, in samples of --sequence-length, or images of their patches");
  add_number(app,
             "--samples",
             to.samples,
             std::int64_t{1},
             std::int64_t{1} << 60,
             "Samples of the run, instead of --tokens");
  app.get_option("--samples")->excludes("--tokens");
  add_number(app, "--days", to.days, 1e-6, 1e6, "The run must end in so many days");
  add_number(app, "--dollars", to.dollars, 1e-6, 1e15, "The run may cost so much");
  add_number(app,
             "--fragmentation",
             to.fragmentation,
             0.0,
             1000.0,
             "Percent of the peak that the allocator cannot use (default: 15)");
  const std::int64_t most = std::int64_t{1} << 20;
  const std::size_t before = app.get_options().size();
  add_degrees(app, "--tensor-parallel", to.tensor_parallel, 1, most, "GPUs that share each layer");
  add_degrees(app, "--pipeline-parallel", to.pipeline_parallel, 1, most, "Stages of layers");
  add_degrees(
      app, "--virtual-pipeline", to.virtual_pipeline, 1, most, "Chunks of layers of a stage");
  add_degrees(
      app, "--context-parallel", to.context_parallel, 1, most, "GPUs that share each sequence");
  add_degrees(app, "--expert-parallel", to.expert_parallel, 1, most, "GPUs that share the experts");
  add_degrees(app, "--zero", to.zero_stage, 0, 3, "ZeRO stage: 0 to 3");
  app.add_option_function<std::string>(
         "--recompute",
         [&to](const std::string& name) {
           to.recompute = name == "none"        ? recompute_mode::none
                          : name == "attention" ? recompute_mode::selective
                                                : recompute_mode::full;
         },
         "What is computed again")
      ->check(CLI::IsMember(std::vector<std::string>{"none", "attention", "layers"}));
  add_degrees(app,
              "--micro-batch",
              to.micro_batch,
              1,
              most,
              "Samples of one forward and backward (default: 1-64)");
  const auto all = app.get_options();
  for (std::size_t at = before; at < all.size(); ++at)
    app.get_option(all[at]->get_name())->group("Plans to choose from (default: all there are)");
}

named_request request_of(const arguments& given) {
  setups::arguments setup = given.setup;
  if (!setup.framework.empty()) {
    const engine_class* sharding = catalog::find_framework(setup.framework)->framework.engine.is;
    setup.setup.precision = *recipe_of("bf16", sharding);
    if (sharding == &engine_classes::fsdp2) setup.setup.parallelism.zero_stage = 3;
  }
  setups::named_setup named = setups::model_of(setup);
  set_sharding(given, named.setup);
  // Its tensor ranks always have parts of the sequence, which of others is a choice.
  named.setup.parallelism.sequence_parallel =
      named.setup.framework.implementation.layers == &layer_classes::torchtitan;
  if (given.recompute) named.setup.recompute = *given.recompute;
  named_request made{.name = named.name, .precisions = given.precisions};
  plan_request& request = made.request;
  const std::size_t kinds = given.gpus.size();
  const auto check_count = [&](const char* option, std::size_t numbers, const char* instead = "") {
    if (numbers > 1 && numbers != kinds)
      throw guides::bad_request(std::string(option) + " has " + std::to_string(numbers) +
                                " numbers, and --gpu " + std::to_string(kinds) +
                                (kinds == 1 ? " kind" : " kinds") +
                                ": give one number for all, or one for each" + instead);
  };
  check_count("--gpus", given.total.size(), "; how_many_gpus compares numbers of GPUs");
  check_count("--nodes", given.nodes.size());
  check_count("--gpus-per-node", given.gpus_per_node.size());
  check_count("--network", given.network.size());
  check_count("--price", given.price.size());
  check_count("--power", given.power.size());
  for (std::size_t at = 1; at < given.precisions.size(); ++at)
    for (std::size_t before = 0; before < at; ++before)
      if (given.precisions[before] == given.precisions[at])
        throw guides::bad_request("--precision names " + given.precisions[at] + " twice");
  const std::vector<training_setup> setups = setups_of(given, named.setup);
  request.setup = setups.front();
  made.setups =
      std::make_shared<const std::vector<training_setup>>(setups.begin() + 1, setups.end());
  request.setups = *made.setups;
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
  const std::int64_t gpus = most_gpus(request);
  const range<std::int64_t> any{1, gpus};
  const auto searched = [](const known<range<std::int64_t>>& asked, range<std::int64_t> all) {
    return asked ? *asked : all;
  };
  request.space = {.tensor_parallel = searched(given.tensor_parallel, any),
                   .pipeline_parallel = searched(given.pipeline_parallel, any),
                   .virtual_pipeline = searched(given.virtual_pipeline, {1, 1 << 10}),
                   .context_parallel = searched(given.context_parallel, any),
                   .expert_parallel = searched(given.expert_parallel, any),
                   .zero_stage = searched(given.zero_stage, {0, 3}),
                   .recompute = !given.recompute,
                   .sequence_parallel = !request.setup.parallelism.sequence_parallel,
                   .micro_batch = given.micro_batch};
  // One GPU shares with nobody.
  if (gpus == 1 && !given.zero_stage && request.setup.framework.engine.is != &engine_classes::fsdp2)
    request.space.zero_stage = range<std::int64_t>{0, 0};
  request.samples = given.samples;
  if (given.tokens > 0) {
    const double samples = given.tokens / static_cast<double>(tokens_of_sample(request.setup));
    request.samples = static_cast<std::int64_t>(std::ceil(samples));
  }
  if (request.samples == 0 && (given.days > 0 || given.dollars > 0))
    throw guides::bad_request("--tokens, or --samples, says how long the run is that has a limit");
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
  const parallelism& layout = plan.layout;
  std::string words;
  const auto add = [&](const std::string& more) { words += (words.empty() ? "" : " ") + more; };
  const auto degree = [&](const char* letter, std::int64_t ranks) {
    if (ranks > 1) add(letter + std::to_string(ranks));
  };
  degree("t", layout.tensor_parallel);
  if (divides_sequence(plan)) words += "s";
  degree("c", layout.context_parallel);
  degree("e", layout.expert_parallel);
  degree("p", layout.pipeline_parallel);
  degree("v", layout.virtual_pipeline);
  if (layout.zero_stage > 0) add("ZeRO-" + std::to_string(layout.zero_stage));
  return words.empty() ? "replicas" : words;
}

bool divides_sequence(const training_plan& plan) {
  return plan.layout.tensor_parallel > 1 && plan.layout.sequence_parallel;
}

std::string in_words(const batch_plan& plan) {
  return std::to_string(plan.data_parallel) + "x" + std::to_string(plan.micro_batch) + "x" +
         std::to_string(plan.accumulation);
}

bool is_for_people(const guides::output& as) { return traits_of(as.format).for_people; }

std::int64_t tokens_of_sample(const training_setup& setup) {
  return setup.model.kind == model_kind::vision ? setup.model.image.tokens()
                                                : setup.sequence_length;
}

std::string what_of(const named_request& asked) {
  const training_setup& setup = asked.request.setup;
  const bool is_vision = setup.model.kind == model_kind::vision;
  return asked.name + " (" + setup.framework.name + "; " + (is_vision ? "images" : "sequences") +
         " of " + std::to_string(tokens_of_sample(setup)) + " tokens)";
}

std::string run_in_words(const arguments& given) {
  if (given.tokens == 0)
    return std::to_string(given.samples) + (given.samples == 1 ? " sample" : " samples");
  for (const auto& [unit, name] :
       {std::pair{1e12, " trillion"}, std::pair{1e9, " billion"}, std::pair{1e6, " million"}})
    if (given.tokens >= unit) return io::decimal(given.tokens / unit, -1) + name + " tokens";
  return io::decimal(given.tokens, -1) + (given.tokens == 1 ? " token" : " tokens");
}

std::int64_t most_gpus(const plan_request& request) {
  std::int64_t gpus = total_gpus(request.on);
  for (const cluster_choice& other : request.others) gpus = std::max(gpus, total_gpus(other.on));
  return gpus;
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
    case errc::no_plan_in_memory:
      return "needs " + thousandths(fact::needed_MB) + " GB of memory, has " +
             thousandths(fact::gpu_has_MB);
    case errc::no_plan_in_time:
      return "takes " + io::decimal(static_cast<double>(why[fact::minutes]) / 60, 1) + " hours";
    case errc::no_plan_for_money:
      return "costs " + io::decimal(static_cast<double>(why[fact::cents]) / 100, 0) + " dollars";
    case errc::no_such_layout:
      return "no layout has so many ranks";
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

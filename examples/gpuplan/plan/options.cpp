#include "plan/options.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "runs/clusters.hpp"
#include "runs/own_cluster.hpp"
#include "runs/ranges.hpp"
#include "runs/runs.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"
#include "setups/replicas.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;
using guides::bad_request;

// Above it, code that divides the model is a choice without being asked for.
constexpr double large_model = 15e9;

// What a code trains by itself on one GPU, or on as few as it takes.
training_setup undivided(training_setup setup) {
  setup.parallelism = {.zero_stage = setups::usual_zero_stage(*setup.framework.engine.is)};
  setup.dispatcher = {};
  return setup;
}

// In this precision, where the code has it.
known<training_setup> in_precision(training_setup setup, const std::string& name) {
  const known<precision_recipe> recipe = setups::recipe_named(name, setup.framework.engine.is);
  if (!recipe) return {};
  setup.precision = *recipe;
  const training_setup alone = undivided(setup);
  if (!validate(alone) || !validate(alone.trains, alone.model)) return {};
  return setup;
}

// With this code in place of its own.
training_setup with_code(training_setup setup, const framework& code) {
  setup.framework = code;
  // Its tensor ranks always have parts of the sequence, which of others is a choice.
  setup.parallelism = {.sequence_parallel =
                           code.implementation.layers == &layer_classes::torchtitan};
  return setup;
}
training_setup with_engine(training_setup setup, const engine_class& engine) {
  setup.framework.engine.is = &engine;
  setup.parallelism.zero_stage = setups::usual_zero_stage(engine);
  return setup;
}

// The codes to choose from, the usual one first.
std::vector<training_setup> codes_of(const arguments& given,
                                     const training_setup& setup,
                                     std::int64_t most) {
  std::vector<training_setup> codes;
  const training_setup usual = with_code(setup, setup.framework);
  setups::arguments asked = given.setup;
  if (asked.sharding.empty() && asked.files.config.engine == "deepspeed")
    asked.sharding = "deepspeed";
  if (!asked.sharding.empty()) {
    training_setup chosen = usual;
    chosen.parallelism.zero_stage =
        setups::usual_zero_stage(*setups::sharding_named(asked.sharding));
    setups::choose_sharding(asked, chosen);
    return {chosen};
  }
  const bool shares = setup.framework.engine.is == &engine_classes::ddp;
  if (!shares) return {with_engine(usual, *setup.framework.engine.is)};
  codes.push_back(usual);
  if (most > 1) codes.push_back(with_engine(usual, engine_classes::fsdp2));
  const bool is_large = static_cast<double>(parameters(setup.model).total()) >= large_model;
  if (!given.setup.framework.empty() || most == 1 || !is_large) return codes;
  for (const char* name : {"torchtitan", "megatron-te"}) {
    const auto other = catalog::find_framework(name);
    if (other && catalog::runs(other->framework, setup))
      codes.push_back(with_engine(with_code(setup, other->framework), *other->framework.engine.is));
  }
  return codes;
}

// Code that divides experts does so in all its plans as it is asked to.
void take_parts_of_experts(const arguments& given,
                           const std::string& name,
                           std::vector<training_setup>& setups) {
  const std::int64_t parts = given.expert_tensor_parallel;
  if (parts == 1) return;
  bool is_taken = false;
  bool has_experts = false;
  for (training_setup& one : setups) {
    has_experts = has_experts || one.model.moe.num_experts != 0;
    if (!one.framework.layers().has_every_part || one.model.moe.num_experts == 0) continue;
    one.parallelism.expert_tensor_parallel = parts;
    is_taken = true;
  }
  if (is_taken) return;
  throw bad_request("--expert-tensor-parallel " + std::to_string(parts) + ": " +
                    (has_experts ? std::string("Megatron-Core's code alone takes more than 1; "
                                               "--framework megatron-te is that")
                                 : name + " has no experts, and 1 is taken"));
}

// "; of --sharding these do: ..." of those that train the model so; where none was asked for, of
// --framework.
std::string what_takes(const arguments& given,
                       const training_setup& setup,
                       const std::string& precision) {
  std::string names;
  if (!given.setup.sharding.empty()) {
    const training_setup code = with_code(setup, setup.framework);
    for (const std::string& name : setups::sharding_names())
      if (in_precision(with_engine(code, *setups::sharding_named(name)), precision))
        names += (names.empty() ? "; of --sharding these do: " : ", ") + name;
    return names;
  }
  for (const catalog::named_framework* known : catalog::frameworks_for(setup)) {
    const training_setup other =
        with_engine(with_code(setup, known->framework), *known->framework.engine.is);
    if (in_precision(other, precision))
      names += (names.empty() ? "; of --framework these do: " : ", ") + std::string(known->name);
  }
  return names;
}

// One setup for each code and each precision that it has, with the names of the precisions: those
// asked for, or of each code the usual one of what trains of all parts.
struct choices {
  std::vector<training_setup> setups{};
  std::vector<std::string> precisions{};
};
choices choices_of(const arguments& given,
                   const training_setup& setup,
                   const trainable& all_parts,
                   std::int64_t most) {
  const std::vector<training_setup> codes = codes_of(given, setup, most);
  std::vector<std::string> asked = given.precisions;
  const bool is_asked = !asked.empty();
  const auto usual = [&](training_setup code) {
    code.trains = all_parts;
    return setups::precision_of(given.setup, code);
  };
  if (!is_asked) asked = {usual(codes.front())};
  if (asked.front().empty())
    throw bad_request("--precision: no word of it means the number formats of the files; name one");
  choices all;
  for (const std::string& name : asked) {
    if (std::count(asked.begin(), asked.end(), name) > 1)
      throw bad_request("--precision names " + name + " twice");
    bool is_there = false;
    for (const training_setup& code : codes) {
      const std::string own = is_asked ? name : usual(code);
      const known<training_setup> chosen = in_precision(code, own);
      if (!chosen) continue;
      is_there = true;
      for (const pipeline_schedule schedule : setups::schedules_of(*chosen, given.schedule)) {
        all.setups.push_back(*chosen);
        all.setups.back().parallelism.schedule = schedule;
        all.precisions.push_back(own);
      }
    }
    if (is_there) continue;
    const known<precision_recipe> recipe =
        setups::recipe_named(name, codes.front().framework.engine.is);
    std::string why = setup.framework.name + std::string(" does not train in it");
    // Only where another one would do it is at fault.
    const bool is_at_fault =
        !recipe || (is_asked && in_precision(codes.front(), usual(codes.front())));
    if (recipe) {
      training_setup alone = undivided(codes.front());
      alone.precision = *recipe;
      const auto valid = validate(alone);
      const auto trains = validate(alone.trains, alone.model);
      if (!valid || !trains)
        why = setup.framework.name + std::string(": ") +
              setups::sentence_of(valid ? trains.why() : valid.why());
    }
    throw bad_request((is_at_fault ? "--precision " + name + ": " : "") + why +
                      what_takes(given, setup, name));
  }
  return all;
}

// The batch of a step that files say, where their training has so many GPUs.
std::int64_t batch_of_files(const setups::arguments& given, std::int64_t gpus) {
  const io::training_config& said = given.files.config;
  if (!said.global_batch && !said.micro_batch)
    throw bad_request(given.from.empty()
                          ? "--batch is required: how many samples an optimizer step has, of " +
                                std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs together")
                          : "--batch says how many samples a step has, which the files of --from "
                            "do not");
  return setups::on_gpus(given, gpus).plan.effective_batch();
}

// Each precision has a rate on each kind of GPU.
void check_rates(const choices& all, const std::vector<runs::named_cluster>& clusters) {
  for (std::size_t at = 0; at < all.setups.size(); ++at)
    for (const runs::named_cluster& one : clusters)
      if (!peak(one.on.gpu, format_of_linears(all.setups[at].precision)))
        throw bad_request("--precision " + all.precisions[at] + ": " + one.on.gpu.id +
                          " has no dense rate of it in the catalogue; gpuplan gpus " +
                          one.on.gpu.id + " lists those that it has");
}

}  // namespace

void add_options(CLI::App& app, arguments& to) {
  setups::add_model_options(app, to.setup);
  setups::add_optimizer_options(app, to.setup);
  setups::add_trained_options(app, to.setup);
  const char* group = "Training";
  app.add_option("--precision",
                 to.precisions,
                 "Number formats to choose from; bf16, fp16 and fp8 are mixed as the engine mixes "
                 "them (default: bf16, of adapters bf16-autocast unless fully_shard divides them)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(setups::precision_names()))
      ->type_name("NAME,...")
      ->group(group);
  app.add_option("--sharding",
                 to.setup.sharding,
                 "Whose code shares among replicas (default: the framework's, of transformers and "
                 "torch.nn whichever of ddp and fsdp2 is better)")
      ->check(CLI::IsMember(setups::sharding_names()))
      ->type_name("")
      ->group(group);
  runs::add_range(
      app,
      "--batch",
      to.batch,
      1,
      1 << 30,
      "Samples of an optimizer step, or from one number of them to another; or what --from "
      "says")
      ->group(group);
  runs::add_cluster_options(app, to.clusters);
  runs::add_run_options(app, to.run);
  const char* run = "The run";
  app.add_option("--days", to.days, "It must end in so many days")
      ->transform(guides::time_span(guides::time_unit::days, 1e-6, 1e6))
      ->type_name("N")
      ->group(run);
  app.add_option("--dollars", to.dollars, "It may cost so much")
      ->transform(guides::sum_of_dollars(1e-6, 1e15))
      ->type_name("N")
      ->group(run);
  runs::add_estimate_options(app, to.stragglers, to.fragmentation);
  runs::add_timed_steps_option(app, to.own);
  const std::int64_t most = std::int64_t{1} << 20;
  const char* choose = "Plans to choose from (default: all there are)";
  const auto add = [&](const char* name,
                       known<range<std::int64_t>>& degrees,
                       std::int64_t least,
                       std::int64_t largest,
                       const char* what) {
    runs::add_range(app, name, degrees, least, largest, what)->group(choose);
  };
  add("--data-parallel", to.data_parallel, 1, most, "Replicas, each with its own samples");
  add("--tensor-parallel", to.tensor_parallel, 1, most, "GPUs that share each layer");
  add("--pipeline-parallel", to.pipeline_parallel, 1, most, "Stages of layers");
  add("--virtual-pipeline", to.virtual_pipeline, 1, most, "Chunks of layers of a stage");
  setups::add_schedule_option(app,
                              "In which order stages pass micro-batches",
                              [&to](pipeline_schedule is) { to.schedule = is; })
      ->group(choose);
  add("--context-parallel", to.context_parallel, 1, most, "GPUs that share each sequence");
  add("--expert-parallel", to.expert_parallel, 1, most, "GPUs that share the experts");
  app.add_option("--expert-tensor-parallel",
                 to.expert_tensor_parallel,
                 "Parts of each expert that GPUs share, by Megatron-Core (default: 1)")
      ->transform(guides::whole_number(1, most))
      ->type_name("N")
      ->group(choose);
  add("--zero", to.zero_stage, 0, 3, "ZeRO stage: 0 to 3");
  app.add_option_function<std::string>(
         "--recompute",
         [&to](const std::string& name) { to.recompute = setups::recompute_named(name); },
         "What is computed again")
      ->check(CLI::IsMember(setups::recompute_names()))
      ->type_name("")
      ->group(choose);
  setups::add_recompute_layers_option(app, [&to](std::int64_t layers) {
    to.recompute = setups::recomputation{recompute_mode::full};
    to.recompute_layers = layers;
  })->group(choose);
  add("--micro-batch",
      to.micro_batch,
      1,
      most,
      "Samples of one forward and backward (default: 1-64)");
  add("--accumulation", to.accumulation, 1, 1 << 30, "Micro-batches of a step");
}

// Leaves the setups that timed steps are of, and gives these and all clusters their numbers.
void go_by(const runs::own_cluster& own, choices& all, named_request& made) {
  choices timed;
  std::string left_out;
  for (std::size_t at = 0; at < all.setups.size(); ++at) {
    const framework& by = all.setups[at].framework;
    if (own.is_of(by)) {
      timed.setups.push_back(all.setups[at]);
      timed.precisions.push_back(all.precisions[at]);
    } else if (left_out.find(by.name) == std::string::npos) {
      left_out += (left_out.empty() ? "" : " and ") + std::string(by.name);
    }
  }
  if (timed.setups.empty())
    static_cast<void>(own.estimate_of(all.setups.front().framework, made.clusters.front()));
  if (!left_out.empty())
    guides::remark("--timed-steps: of " + left_out + " no step was timed, and none is planned");
  all = timed;
  const cluster as_stated = made.request.on;
  for (training_setup& setup : all.setups) {
    made.request.on = as_stated;
    runs::apply(own.estimate_of(setup.framework, made.clusters.front()), setup, made.request.on);
  }
  auto others = std::make_shared<std::vector<cluster_choice>>(*made.others);
  for (std::size_t at = 0; at < others->size(); ++at) {
    training_setup setup = all.setups.front();
    runs::apply(own.estimate_of(setup.framework, made.clusters[at + 1]), setup, (*others)[at].on);
  }
  made.others = others;
  made.request.others = *others;
}

named_request request_of(const arguments& given) {
  named_request made;
  const setups::arguments setting = setups::without_layout(given.setup);
  const io::training_config& said = given.setup.files.config;
  if ((said.optimizer_on_host && *said.optimizer_on_host) ||
      (said.weights_on_host && *said.weights_on_host))
    guides::remark(
        "--from: these files keep the optimizer or weights on the host, and plans keep all on the "
        "GPUs; gpuplan check says what such a training takes");
  const std::int64_t gpus_of_files = setups::gpus_of_files(given.setup);
  const setups::gpu_of_job device = setups::gpu_of_files(given.setup.files);
  made.clusters =
      runs::clusters_of(given.clusters,
                        {.gpus = {device.id},
                         .why_gpus = device.why,
                         .total = gpus_of_files,
                         .gpus_per_node = setups::gpus_per_node_of(given.setup.files.config)});
  plan_request& request = made.request;
  auto others = std::make_shared<std::vector<cluster_choice>>();
  for (const runs::named_cluster& one : made.clusters) others->push_back({one.on, one.efficiency});
  request.on = others->front().on;
  request.efficiency = others->front().efficiency;
  others->erase(others->begin());
  request.others = *others;
  made.others = others;
  const std::int64_t gpus = most_gpus(request);

  setups::named_setup named = setups::model_of(setting);
  setups::choose_trained(setting, named.setup);
  const trainable all_parts = named.setup.trains;
  setups::adapt_parts(named);
  runs::check_replay(named, given.own, given.stragglers);
  if (given.recompute) given.recompute->set(named.setup);
  named.setup.recompute_layers = given.recompute_layers;
  if (const auto& experts = given.expert_parallel;
      experts && experts->low() > 1 && named.setup.model.moe.num_experts == 0)
    throw bad_request("--expert-parallel " + std::to_string(experts->low()) + ": " + named.name +
                      " has no experts, and 1 is taken");
  made.name = named.name;
  made.parts = named.parts;
  choices all = choices_of(given, named.setup, all_parts, gpus);
  check_rates(all, made.clusters);
  take_parts_of_experts(given, named.name, all.setups);
  made.own = given.own;
  if (given.own) go_by(*given.own, all, made);
  made.precisions = all.precisions;
  request.setup = all.setups.front();
  made.setups =
      std::make_shared<const std::vector<training_setup>>(all.setups.begin() + 1, all.setups.end());
  request.setups = *made.setups;

  request.effective_batch =
      given.batch ? *given.batch
                  : range<std::int64_t>(batch_of_files(
                        given.setup, gpus_of_files > 0 ? gpus_of_files : total_gpus(request.on)));
  request.straggler_slowdown = given.stragglers;
  // Replicas alone share several models.
  const bool is_one_model = made.parts == nullptr;
  const range<std::int64_t> any{1, is_one_model ? gpus : 1};
  const auto searched = [](const known<range<std::int64_t>>& asked, range<std::int64_t> range) {
    return asked ? *asked : range;
  };
  request.space = {
      .tensor_parallel = searched(given.tensor_parallel, any),
      .pipeline_parallel = searched(given.pipeline_parallel, any),
      .virtual_pipeline = searched(given.virtual_pipeline, {1, is_one_model ? 1 << 10 : 1}),
      .context_parallel = searched(given.context_parallel, any),
      .expert_parallel = searched(given.expert_parallel, any),
      .zero_stage = searched(given.zero_stage, {0, 3}),
      .recompute = !given.recompute,
      .recompute_layers = !given.recompute,
      .sequence_parallel = !request.setup.parallelism.sequence_parallel,
      .micro_batch = searched(given.micro_batch, plan_space{}.micro_batch),
      .data_parallel = given.data_parallel,
      .accumulation = given.accumulation};
  // One GPU shares with nobody.
  if (gpus == 1 && !given.zero_stage && request.setup.framework.engine.is->least_zero_stage == 0)
    request.space.zero_stage = range<std::int64_t>{0, 0};
  made.run = runs::run_of(given.run, given.setup, request.effective_batch.high());
  request.samples = runs::samples_of(made.run, request.setup);
  if (request.samples == 0 && (given.days > 0 || given.dollars > 0))
    throw bad_request("--tokens, or --samples, says how long the run is that has a limit");
  if (given.days > 0) request.finish_in = 24 * given.days * 1_h;
  if (given.dollars > 0) {
    for (const runs::named_cluster& one : made.clusters)
      if (!one.on.price_per_gpu)
        throw bad_request(std::string("--dollars: --price, or the file of --prices, says what a ") +
                          one.on.gpu.id + " costs an hour");
    request.at_most = given.dollars * 1_usd;
  }
  if (const auto valid = validate(request); !valid) throw bad_request(valid.why());
  return made;
}

std::string code_of(const framework& by) {
  const engine_class* engine = by.engine.is;
  if (by.implementation.layers == &layer_classes::megatron_core ||
      by.implementation.layers == &layer_classes::torchtitan)
    for (const catalog::named_framework& known : catalog::frameworks)
      if (std::string(known.framework.name) == by.name) return known.name;
  return engine->name->text;
}

bool has_precisions(const named_request& asked) {
  return std::any_of(asked.precisions.begin(), asked.precisions.end(), [&](const auto& name) {
    return name != asked.precisions.front();
  });
}

bool has_codes(const named_request& asked) {
  const std::string first = code_of(asked.request.setup.framework);
  return std::any_of(
      asked.request.setups.begin(), asked.request.setups.end(), [&](const training_setup& other) {
        return code_of(other.framework) != first;
      });
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
  degree("et", layout.expert_tensor_parallel);
  degree("p", layout.pipeline_parallel);
  if (layout.pipeline_parallel > 1) words += setups::split_in_letters(layout.split);
  degree("v", layout.virtual_pipeline);
  if (layout.schedule != pipeline_schedule::one_f_one_b) add(setups::in_words(layout.schedule));
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

std::string what_of(const named_request& asked) {
  const training_setup& setup = asked.request.setup;
  const bool is_vision = setup.model.kind == model_kind::vision;
  const bool has_frameworks = std::any_of(
      asked.request.setups.begin(), asked.request.setups.end(), [&](const training_setup& other) {
        return std::string(other.framework.name) != setup.framework.name;
      });
  training_setup one = setup;
  one.parallelism = {};
  const std::string method = setups::method_in_words(one);
  return asked.name + " (" + (has_frameworks ? "" : setup.framework.name + std::string("; ")) +
         (is_vision ? "images" : "sequences") + " of " +
         setups::grouped(runs::tokens_of_sample(setup)) + " tokens" +
         (method.empty() ? "" : "; " + method) + ")";
}

std::int64_t most_gpus(const plan_request& request) {
  std::int64_t gpus = total_gpus(request.on);
  for (const cluster_choice& other : request.others) gpus = std::max(gpus, total_gpus(other.on));
  return gpus;
}

std::string gpus_of(const plan_request& request) {
  std::string all = runs::in_words(request.on);
  for (const cluster_choice& other : request.others) all += ", " + runs::in_words(other.on);
  return all;
}

std::string short_id(const plan_request& request, const training_plan& plan) {
  const cluster& on = cluster_of(request, plan);
  if (*on.name != '\0') return on.name;
  const std::string id = on.gpu.id;
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
  const auto gibibytes = [&](fact of) {
    return io::decimal(static_cast<double>(why[of]) * 1e6 / setups::gibibyte, 1);
  };
  switch (why.code) {
    case errc::no_plan_in_memory:
      return "needs " + gibibytes(fact::needed_MB) + " GiB of memory, has " +
             gibibytes(fact::gpu_has_MB);
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

std::string recomputed(const training_setup& setup) {
  const auto again = setups::recomputation::of(setup);
  const std::string some = setups::recomputed_layers_in_words(setup);
  return some.empty() || again.saves_costly_results ? setups::word_of(again) : some;
}

}  // namespace plan_program

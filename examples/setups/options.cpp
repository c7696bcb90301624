#include "setups/options.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/trainable.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "describe_model/command_line.hpp"
#include "describe_model/description.hpp"
#include "guides/front_end.hpp"
#include "setups/numbers.hpp"

namespace setups {
namespace {

using namespace gpuplan;
using guides::bad_request;

template <class Value>
struct word {
  const char* name;
  const char* in_words;
  Value is;
};

constexpr word<precision_recipe> precisions[] = {
    {"fp32", "fp32", fp32_precision},
    {"bf16-mixed", "bf16 mixed", bf16_mixed},
    {"fp16-mixed", "fp16 mixed", fp16_mixed},
    {"bf16-pure", "pure bf16", bf16_pure},
    {"bf16-master", "bf16 with fp32 masters", bf16_master},
    {"fp16-master", "fp16 with fp32 masters", fp16_master},
    {"bf16-autocast", "bf16 under autocast", bf16_under_autocast},
};
constexpr word<optimizer> optimizers[] = {
    {"adamw", "AdamW", {}},
    {"adamw-fused", "fused AdamW", {.loop = optimizer_loop::fused}},
    {"adamw-8bit",
     "8-bit AdamW",
     {.library = optimizer_library::bitsandbytes, .states = number_format::int8}},
    {"sgd", "SGD", {.kind = optimizer_kind::sgd}},
    {"momentum", "SGD with momentum", {.kind = optimizer_kind::sgd_momentum}},
    {"adafactor", "Adafactor", {.kind = optimizer_kind::adafactor}},
    {"lion", "Lion", {.kind = optimizer_kind::lion}},
    {"muon", "Muon", {.kind = optimizer_kind::muon}},
    {"rmsprop", "RMSprop", {.kind = optimizer_kind::rmsprop}},
    {"adagrad", "Adagrad", {.kind = optimizer_kind::adagrad}},
};
constexpr word<recompute_mode> recomputes[] = {
    {"none", "", recompute_mode::none},
    {"selective", "selective recomputation", recompute_mode::selective},
    {"full", "full recomputation", recompute_mode::full},
};
constexpr word<attention_kernel> attentions[] = {
    {"automatic", "", attention_kernel::automatic},
    {"flash", "FlashAttention", attention_kernel::flash},
    {"efficient", "memory-efficient attention", attention_kernel::efficient},
    {"math", "attention by PyTorch's products", attention_kernel::math},
    {"eager", "attention written out", attention_kernel::eager},
};
constexpr word<const engine_class*> shardings[] = {
    {"ddp", "", &engine_classes::ddp},
    {"fsdp2", "fully_shard", &engine_classes::fsdp2},
    {"deepspeed", "DeepSpeed", &engine_classes::deepspeed},
    {"megatron", "", &engine_classes::megatron},
};

// `--precision bf16-mixed` and the like.
template <class Value, std::size_t Count>
void add_words(CLI::App& app,
               const char* option,
               const char* what,
               const word<Value> (&words)[Count],
               std::function<void(const Value&)> set) {
  std::vector<std::string> known;
  for (const word<Value>& one : words) known.emplace_back(one.name);
  app.add_option_function<std::string>(
         option,
         [&words, set](const std::string& name) {
           for (const word<Value>& one : words)
             if (name == one.name) set(one.is);
         },
         what)
      ->check(CLI::IsMember(known))
      ->type_name("");
}
template <class Value, std::size_t Count>
std::string said(const word<Value> (&words)[Count], const Value& value) {
  for (const word<Value>& one : words)
    if (one.is == value) return one.in_words;
  return {};
}

void check(const failure& why) { throw bad_request(failure_text(why).c_str()); }
template <class T>
void check(const result<T>& valid) {
  if (!valid) check(valid.why());
}

transformer from_catalogue(const std::string& name, std::string& id) {
  const auto found = catalog::find_model(name);
  if (!found)
    throw bad_request("the catalogue has no model " + name + "; the nearest is " +
                      std::string(found.why().subject) + ", and describe_model --list prints all");
  id = found->id;
  if (found->parts != nullptr)
    throw bad_request(id + " is made of several models, whose training step is not known");
  if (found->shape == nullptr)
    throw bad_request(id + " has no shape in the catalogue: " + found->note);
  return *found->shape;
}

transformer from_config(const std::string& file, std::string& type) {
  const auto read = io::read_hugging_face_config(guides::read_file("--config", file));
  if (!read.shape) throw bad_request("--config " + file + ": " + read.reason);
  type = read.model_type;
  return *read.shape;
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const catalog::named_framework& known : catalog::frameworks) names.emplace_back(known.name);
  return names;
}

void choose_framework(const arguments& given, const std::string& known_as, training_setup& to) {
  const auto chosen = given.framework.empty() ? catalog::implementation_of(known_as)
                                              : catalog::find_framework(given.framework);
  if (!chosen) {
    std::string all;
    for (const std::string& name : framework_names()) all += (all.empty() ? "" : ", ") + name;
    throw bad_request("no code is known for " + known_as + ": --framework names one of " + all);
  }
  to.framework = chosen->framework;
}

// Of another architecture it has none; then others may have.
void check_code(const training_setup& setup) {
  const auto can = catalog::runs(setup.framework, setup);
  if (can) return;
  std::string others;
  for (const catalog::named_framework* known : catalog::frameworks_for(setup))
    others +=
        (others.empty() ? "; of --framework these run it: " : ", ") + std::string(known->name);
  throw bad_request(setup.framework.name + std::string(": ") + failure_text(can.why()).c_str() +
                    others);
}

// Shares that nobody has.
void check_shares(const training_setup& setup, const batch_plan& plan) {
  const int stage = setup.parallelism.zero_stage;
  if (stage > 0 && plan.data_parallel == 1)
    throw bad_request("--zero " + std::to_string(stage) +
                      ": one GPU shares with nobody; --data-parallel gives more");
}

void choose_sharding(const arguments& given, training_setup& to) {
  if (to.framework.implementation.layers == &layer_classes::megatron_core) {
    if (!given.sharding.empty() && given.sharding != "megatron")
      throw bad_request("--sharding " + given.sharding + ": Megatron's code has its own");
    return;
  }
  if (given.sharding == "megatron")
    throw bad_request("--sharding megatron: only of Megatron's code");
  to.framework.engine.is =
      to.parallelism.zero_stage >= 2 ? &engine_classes::fsdp2 : &engine_classes::ddp;
  for (const word<const engine_class*>& one : shardings)
    if (given.sharding == one.name) to.framework.engine.is = one.is;
  const int stage = to.parallelism.zero_stage;
  if (to.framework.engine.is == &engine_classes::ddp && stage >= 2)
    throw bad_request("--sharding ddp: it has no ZeRO stage " + std::to_string(stage));
  if (to.framework.engine.is == &engine_classes::fsdp2 && stage < 2)
    throw bad_request("--sharding fsdp2: it has the ZeRO stages 2 and 3, which --zero gives");
}

CLI::Validator positive_count() { return guides::whole_number(1, 1 << 30); }

// The model with its code; how it trains is not checked.
named_setup read_model(const arguments& given) {
  if (given.model.empty() && given.config_file.empty())
    throw bad_request(
        "which model? Give a name of the catalogue (describe_model --list prints them) or "
        "--config FILE");
  if (!given.model.empty() && !given.config_file.empty())
    throw bad_request("--config " + given.config_file + ": the model is " + given.model +
                      " already");
  named_setup made{.name = io::printable(given.config_file), .setup = given.setup};
  std::string known_as;
  if (given.config_file.empty()) {
    made.setup.model = from_catalogue(given.model, known_as);
    made.name = known_as;
  } else {
    made.setup.model = from_config(given.config_file, known_as);
  }
  check(validate(made.setup.model));
  choose_framework(given, known_as, made.setup);
  if (made.setup.sequence_length == 0)
    made.setup.sequence_length = describe_model::usual_sequence_length(made.setup.model);
  const bool compares =
      made.setup.model.kind == model_kind::encoder && made.setup.model.head == head_kind::none;
  if (compares) made.setup.encodings = 2;
  check_code(made.setup);
  return made;
}

}  // namespace

void add_model_options(CLI::App& app, arguments& to) {
  app.add_option("model", to.model, "A model of the catalogue, such as llama-3-8b");
  app.add_option("--config", to.config_file, "A Hugging Face config.json")->type_name("FILE");
  const char* group = "Model";
  app.add_option("--framework",
                 to.framework,
                 "Whose code runs the layers (default: transformers' for the model)")
      ->check(CLI::IsMember(framework_names()))
      ->type_name("")
      ->group(group);
  app.add_option("--sequence-length",
                 to.setup.sequence_length,
                 "Tokens of a sequence (default: 4096 of decoders, else 512, and no more than the "
                 "model has positions)")
      ->group(group)
      ->type_name("N")
      ->transform(positive_count());
  add_words<attention_kernel>(
      app, "--attention", "What computes attention", attentions, [&to](const auto& is) {
        to.setup.attention = is;
      });
  app.get_option("--attention")->group(group);
  app.add_option("--dropout", to.setup.dropout, "Probability (default: 0)")
      ->check(guides::finite_number(0, 1))
      ->group(group)
      ->type_name("");
  app.add_flag("--padding-mask", to.setup.padding_mask, "Sequences have a mask of padding")
      ->group(group);
}

void add_setup_options(CLI::App& app, arguments& to) {
  const char* group = "Training";
  const auto count = [&](const char* name, std::int64_t& value, const char* what) {
    app.add_option(name, value, what)->group(group)->type_name("N")->transform(positive_count());
  };
  count("--micro-batch", to.plan.micro_batch, "Samples of one forward and backward (default: 1)");
  count("--accumulation", to.plan.accumulation, "Micro-batches of a step (default: 1)");
  add_words<precision_recipe>(app,
                              "--precision",
                              "Number formats (default: bf16-mixed)",
                              precisions,
                              [&to](const auto& is) { to.setup.precision = is; });
  to.setup.precision = bf16_mixed;
  add_words<optimizer>(
      app, "--optimizer", "The optimizer (default: adamw)", optimizers, [&to](const auto& is) {
        const bool clips = to.setup.optimizer.clips_gradients;
        to.setup.optimizer = is;
        to.setup.optimizer.clips_gradients = clips;
      });
  app.add_flag("--clip", to.setup.optimizer.clips_gradients, "Clip gradients by their norm");
  add_words<recompute_mode>(app,
                            "--recompute",
                            "What is computed again (default: none)",
                            recomputes,
                            [&to](const auto& is) { to.setup.recompute = is; });
  for (const char* name : {"--precision", "--optimizer", "--clip", "--recompute"})
    app.get_option(name)->group(group);
  count("--lora-rank", to.setup.trains.adapters.rank, "Low-rank adapters train, of this rank");
  app.add_option("--lora-targets",
                 to.lora_targets,
                 "What has adapters, as for describe_model (default: q,v)")
      ->delimiter(',')
      ->group(group)
      ->type_name("")
      ->needs("--lora-rank");
  app.add_flag("--four-bits", to.four_bits, "The base under adapters is in four bits (QLoRA)")
      ->group(group)
      ->needs("--lora-rank");

  group = "Parallelism";
  count("--data-parallel", to.plan.data_parallel, "GPUs that share a batch (default: 1)");
  count("--tensor-parallel", to.setup.parallelism.tensor_parallel, "GPUs that share each layer");
  count("--pipeline-parallel", to.setup.parallelism.pipeline_parallel, "Stages of layers");
  app.add_option("--zero", to.setup.parallelism.zero_stage, "ZeRO stage: 0, 1, 2, 3 (default: 0)")
      ->transform(guides::whole_number(0, 3))
      ->group(group)
      ->type_name("");
  std::vector<std::string> known;
  for (const word<const engine_class*>& one : shardings) known.emplace_back(one.name);
  app.add_option("--sharding",
                 to.sharding,
                 "Whose code shares among data-parallel GPUs (default: ddp, from ZeRO-2 on fsdp2)")
      ->check(CLI::IsMember(known))
      ->group(group)
      ->type_name("");
}

named_setup model_of(const arguments& given) {
  const named_setup made = read_model(given);
  check(validate(made.setup));
  return made;
}

named_setup setup_of(const arguments& given) {
  named_setup made = read_model(given);
  if (given.setup.trains.adapters.rank > 0)
    train_adapters(made.setup, given.setup.trains.adapters.rank, given.four_bits);
  lora_targets targets;
  for (const std::string& name : given.lora_targets)
    if (!describe_model::add_target(name, targets))
      throw bad_request("--lora-targets: no layers are called " + name);
  if (!given.lora_targets.empty()) made.setup.trains.adapters.targets = targets;
  choose_sharding(given, made.setup);
  check_shares(made.setup, given.plan);
  check(validate(made.setup.trains, made.setup.model));
  check(validate(made.setup, given.plan));
  return made;
}

void train_adapters(training_setup& setup, std::int64_t rank, bool four_bits) {
  setup.trains.what = training::adapters;
  setup.trains.adapters.rank = rank;
  if (four_bits) setup.trains.adapters.base = double_quantised_base;
}

gpu_spec gpu_named(const std::string& name) {
  const auto found = catalog::find_gpu(name);
  if (!found) check(found.why());
  return *found;
}

std::string in_words(const training_setup& setup, const batch_plan& plan) {
  const auto counted = [](std::int64_t count, const std::string& one) {
    return grouped(count) + " " + one + (count == 1 ? "" : "s");
  };
  const bool is_vision = setup.model.kind == model_kind::vision;
  std::string text = counted(plan.micro_batch, is_vision ? "image" : "sample");
  if (!is_vision) text += " of " + counted(setup.sequence_length, "token");
  if (plan.accumulation > 1) text += " " + grouped(plan.accumulation) + " times";
  const std::int64_t gpus =
      plan.data_parallel * setup.parallelism.tensor_parallel * setup.parallelism.pipeline_parallel;
  if (gpus > 1) text += " on each of " + grouped(gpus) + " GPUs";
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += ", " + more;
  };
  add(said(precisions, setup.precision));
  optimizer steps = setup.optimizer;
  steps.clips_gradients = false;
  add(said(optimizers, steps));
  if (setup.trains.what == training::adapters)
    add((setup.trains.adapters.base.block != 0 ? "QLoRA of rank " : "LoRA of rank ") +
        grouped(setup.trains.adapters.rank));
  add(said(recomputes, setup.recompute));
  add(said(attentions, setup.attention));
  if (setup.parallelism.zero_stage > 0) add("ZeRO-" + std::to_string(setup.parallelism.zero_stage));
  add(said(shardings, setup.framework.engine.is));
  return text;
}

}  // namespace setups

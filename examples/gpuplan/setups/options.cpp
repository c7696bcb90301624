#include "setups/options.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/framework_words.hpp>
#include <gpuplan/io/module_names.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/planner/domain.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/trainable.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "model/description.hpp"
#include "setups/choices.hpp"
#include "setups/numbers.hpp"
#include "setups/trainer_files.hpp"

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

// By any engine; what the first three words and fp8 mean depends on it.
constexpr word<precision_recipe> precisions[] = {
    {"fp32", "fp32", fp32_precision},
    {"tf32", "tf32", {.compute = number_format::tf32}},
    {"bf16", "bf16 mixed", bf16_mixed},
    {"fp16", "fp16 mixed", fp16_mixed},
    {"fp8", "fp8 in linear layers, else bf16 mixed", bf16_mixed_with_fp8},
    {"bf16-pure", "pure bf16", bf16_pure},
    {"bf16-master", "bf16 with fp32 masters", bf16_master},
    {"fp16-master", "fp16 with fp32 masters", fp16_master},
    {"bf16-autocast", "bf16 under autocast", bf16_under_autocast},
};
// Of Transformer Engine: how it casts what linear layers multiply.
struct engine_precision {
  const char* name;
  scaling_kind scaling;
  bool is_fp4 = false;
};
constexpr engine_precision engine_precisions[] = {{"fp8-current", scaling_kind::tensor},
                                                  {"fp8-delayed", scaling_kind::delayed},
                                                  {"fp8-blocks", scaling_kind::blocks},
                                                  {"mxfp8", scaling_kind::micro},
                                                  {"nvfp4", scaling_kind::micro, true}};
constexpr word<optimizer> optimizers[] = {
    {"adamw", "AdamW", {}},
    {"adamw-fused", "fused AdamW", {.loop = optimizer_loop::fused}},
    {"adamw-8bit",
     "8-bit AdamW",
     {.library = optimizer_library::bitsandbytes,
      .states = number_format::int8,
      .widens_embeddings = true}},
    {"sgd", "SGD", {.kind = optimizer_kind::sgd}},
    {"momentum", "SGD with momentum", {.kind = optimizer_kind::sgd_momentum}},
    {"adafactor", "Adafactor", {.kind = optimizer_kind::adafactor}},
    {"lion", "Lion", {.kind = optimizer_kind::lion}},
    {"muon", "Muon", {.kind = optimizer_kind::muon}},
    {"rmsprop", "RMSprop", {.kind = optimizer_kind::rmsprop}},
    {"adagrad", "Adagrad", {.kind = optimizer_kind::adagrad}},
};
constexpr word<recomputation> recomputes[] = {
    {"none", "", {recompute_mode::none}},
    {"selective", "selective recomputation", {recompute_mode::selective}},
    {"full", "full recomputation", {recompute_mode::full}},
    {"operators", "selective recomputation of operators", {recompute_mode::full, true}},
};
constexpr word<training_objective> objectives[] = {
    {"next_token", "", training_objective::next_token},
    {"sft", "TRL's supervised loss", training_objective::supervised},
    {"dpo", "TRL's preference loss", training_objective::preference},
    {"grpo", "TRL's loss of a policy", training_objective::group_relative},
};
constexpr word<reference_model> references[] = {
    {"model", "a reference model", reference_model::separate},
    {"without-adapters",
     "the model without adapters as reference",
     reference_model::without_adapters},
    {"precomputed", "precomputed log-probabilities", reference_model::precomputed},
    {"none", "no reference", reference_model::none},
};
constexpr word<pipeline_schedule> schedules[] = {
    {"1f1b", "", pipeline_schedule::one_f_one_b},
    {"gpipe", "GPipe", pipeline_schedule::gpipe},
    {"zero-bubble", "zero-bubble", pipeline_schedule::zero_bubble},
    {"zero-bubble-v", "zero-bubble V", pipeline_schedule::zero_bubble_v},
    {"dualpipe", "DualPipe", pipeline_schedule::dual_pipe},
    {"dualpipev", "DualPipeV", pipeline_schedule::dual_pipe_v},
};
constexpr word<token_dispatcher> dispatchers[] = {
    {"all-to-all", "", token_dispatcher::all_to_all},
    {"deepep", "tokens sent by DeepEP", token_dispatcher::deepep},
    {"hybridep", "tokens sent by HybridEP", token_dispatcher::hybridep},
};
constexpr word<context_exchange> context_exchanges[] = {
    {"automatic", "", context_exchange::automatic},
    {"p2p", "keys and values round a ring", context_exchange::p2p},
    {"a2a", "heads exchanged for tokens", context_exchange::a2a},
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
    {"fsdp1", "FullyShardedDataParallel", &engine_classes::fsdp1},
    {"fsdp2", "fully_shard", &engine_classes::fsdp2},
    {"deepspeed", "DeepSpeed", &engine_classes::deepspeed},
    {"megatron", "", &engine_classes::megatron},
};

template <class Value, std::size_t Count>
std::vector<std::string> names_of(const word<Value> (&words)[Count]) {
  std::vector<std::string> names;
  for (const word<Value>& one : words) names.emplace_back(one.name);
  return names;
}
template <class Value, std::size_t Count>
CLI::Option* add_words(CLI::App& app,
                       const char* option,
                       const char* what,
                       const word<Value> (&words)[Count],
                       std::function<void(const Value&)> set) {
  choices<Value> all;
  for (const word<Value>& one : words) all.emplace_back(one.name, one.is);
  return add_choice<Value>(app, option, what, all, std::move(set));
}
template <class Value, std::size_t Count>
std::string said(const word<Value> (&words)[Count], const Value& value) {
  for (const word<Value>& one : words)
    if (one.is == value) return one.in_words;
  return {};
}

std::string who_runs(const training_setup& setup) { return io::who_runs(setup, "--framework"); }

// Whether ranks that the options ask for can share a model of this code.
bool divides(const framework& software, const training_setup& given, const parallelism& ranks) {
  training_setup setup = given;
  setup.framework = software;
  setup.parallelism = ranks;
  setup.precision = *recipe_named("bf16", software.engine.is);
  setup.parallelism.zero_stage = usual_zero_stage(*software.engine.is);
  return static_cast<bool>(validate(setup));
}
bool shares_experts(const framework& software, const training_setup& given) {
  const parallelism& asked = given.parallelism;
  parallelism ranks{.expert_parallel = asked.expert_parallel,
                    .expert_tensor_parallel = asked.expert_tensor_parallel};
  // Where none shares the experts, their parts are those of other weights.
  if (asked.expert_parallel == 1) {
    ranks.tensor_parallel = asked.tensor_parallel;
    ranks.sequence_parallel = asked.sequence_parallel;
  }
  return divides(software, given, ranks);
}

// Those that have the degrees which this code has not: "; --framework megatron-core divides it so".
std::string who_divides(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const parallelism ranks{.tensor_parallel = layout.tensor_parallel,
                          .pipeline_parallel = layout.pipeline_parallel,
                          .expert_parallel = layout.expert_parallel,
                          .expert_tensor_parallel = layout.expert_tensor_parallel,
                          .virtual_pipeline = layout.virtual_pipeline,
                          .context_parallel = layout.context_parallel};
  std::string names;
  for (const catalog::named_framework& one : catalog::frameworks)
    if (divides(one.framework, setup, ranks))
      names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names.empty() ? std::string() : "; --framework " + names + " can divide it so";
}

// Splits of layers that do not divide by the stages: "; with --pipeline-split EL or [..5] they do".
std::string who_splits(training_setup setup) {
  const std::int64_t stages = setup.parallelism.pipeline_parallel;
  const detail::split_choices splits(setup, setup.parallelism, stages);
  std::string names;
  for (std::int64_t which = 1; which < detail::split_choices::most; ++which) {
    if (!splits.has(which)) continue;
    splits[which].set(setup.parallelism.split);
    if (validate(setup))
      names += (names.empty() ? "; with --pipeline-split " : " or ") +
               split_in_letters(setup.parallelism.split);
  }
  return names.empty() ? names : names + " it does";
}

// Of what its code has not, the code is said, which may have been chosen for the model.
template <class T>
void check(const result<T>& valid, const training_setup& setup) {
  if (valid) return;
  const bool is_of_code = valid.why().code == errc::no_such_code;
  const fact at_fault = valid.why().at_fault();
  const bool is_of_ranks =
      at_fault == fact::pipeline_parallel || at_fault == fact::tensor_parallel ||
      at_fault == fact::context_parallel || at_fault == fact::expert_parallel ||
      at_fault == fact::expert_tensor_parallel || at_fault == fact::virtual_pipeline;
  const bool splits =
      valid.why().code == errc::does_not_divide && at_fault == fact::pipeline_parallel;
  throw bad_request((is_of_code ? setup.framework.name + std::string(": ") : std::string()) +
                        sentence_of(valid.why()) +
                        (is_of_code && is_of_ranks ? who_divides(setup) : std::string()) +
                        (splits ? who_splits(setup) : std::string()),
                    valid.why());
}

// torchtitan's files are of 0.3 where they say so or it alone has the model, as for `gpuplan
// check`.
bool are_of_torchtitan_2026(const arguments& given, const training_setup& to) {
  return given.framework == "torchtitan" && !given.from.empty() &&
         (given.files.config.loss_chunks || !catalog::runs(catalog::torchtitan, to)) &&
         catalog::runs(catalog::torchtitan_2026, to);
}

// By its name; else as transformers calls the model's, or where that does not run it or cannot
// share its experts, the first of the catalogue that does. Trainers' files mean their own code, and
// parts are put together by that of their model alone.
void choose_framework(const arguments& given, const named_model& model, training_setup& to) {
  auto chosen = given.framework.empty()
                    ? catalog::implementation_of(model.known_as)
                    : catalog::find_framework(are_of_torchtitan_2026(given, to) ? "torchtitan-2026"
                                                                                : given.framework);
  const bool shares = given.from.empty() && ranks_of_experts(to.parallelism) > 1;
  const auto trains = [&](const framework& by) { return !shares || shares_experts(by, to); };
  const bool is_run = chosen && catalog::runs(chosen->framework, to);
  if (given.framework.empty() && to.composite == nullptr &&
      (!is_run || !trains(chosen->framework))) {
    const catalog::framework_list able = catalog::frameworks_for(to);
    const auto* const other = std::find_if(
        able.begin(), able.end(), [&](const auto* one) { return trains(one->framework); });
    if (other != able.end())
      chosen = **other;
    else if (!is_run && able.count != 0)
      chosen = *able.entries[0];
  }
  if (!chosen)
    throw bad_request("no code of transformers is known for " + model.name + "; " + who_runs(to));
  to.framework = chosen->framework;
  to.framework.implementation.liger_kernels = given.liger;
  to.framework.implementation.cut_cross_entropy = given.cut_cross_entropy;
  to.framework.implementation.checkpoints_reenter = given.checkpoints_reenter;
  // Of files the newest code may compile nothing, and an older one may be taken for it.
  const bool compiles = given.from.empty() || to.framework.layers().is_compiled;
  to.framework.implementation.compiles_layers = given.compiles_layers && compiles;
  to.framework.implementation.compiles_loss = given.compiles_loss && compiles;
  const io::training_config& said = given.files.config;
  if (!given.from.empty()) io::set_as_megatron(said, to);
  if (said.loss_chunks && to.framework.layers().chunks_loss)
    to.framework.implementation.loss_chunks = *said.loss_chunks;
  if (to.dispatcher != token_dispatcher::all_to_all && to.model.moe.num_experts == 0) {
    if (!said.dispatcher || to.dispatcher != *said.dispatcher)
      throw bad_request("--dispatcher: " + model.name + " has no experts to send tokens to");
    to.dispatcher = {};  // as Megatron passes over it
  }
  const bool in_stages =
      to.framework.layers().divides_stages && to.parallelism.pipeline_parallel > 1;
  to.graphs.iteration = given.cuda_graphs || (said.cuda_graphs && *said.cuda_graphs && !in_stages &&
                                              to.framework.layers().captures_graphs);
  if (given.reference && to.objective != training_objective::preference &&
      to.objective != training_objective::group_relative)
    throw bad_request("--reference: of --objective dpo and grpo, which compare with one");
  if (given.reference)
    to.reference = *given.reference;
  else if (said.precomputed_reference && *said.precomputed_reference &&
           to.objective == training_objective::preference)
    to.reference = reference_model::precomputed;
  else if (to.objective == training_objective::group_relative)
    to.reference = reference_model::none;
  else if (to.objective == training_objective::preference && to.trains.what == training::adapters)
    to.reference = reference_model::without_adapters;
  if (const auto can = catalog::runs(to.framework, to); !can)
    throw bad_request(to.framework.name + std::string(": ") + sentence_of(can.why()) +
                          (to.composite != nullptr ? std::string() : "; " + who_runs(to)),
                      can.why());
}

// Shares that nobody has.
void check_shares(const arguments& given, const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const int stage = layout.zero_stage;
  if (layout.sequence_parallel && layout.tensor_parallel == 1)
    throw bad_request(
        "--sequence-parallel: one GPU has all of a sequence; --tensor-parallel gives more");
  if (!layout.split.is_even() && layout.pipeline_parallel == 1)
    throw bad_request("--pipeline-split: one stage has all layers; --pipeline-parallel gives more");
  const std::int64_t sharing = given.plan.data_parallel * layout.context_parallel;
  if (given.has_zero_stage && stage > 0 && sharing == 1)
    throw bad_request("--zero " + std::to_string(stage) +
                      ": one GPU shares with nobody; --data-parallel gives more");
}

std::string counted(std::int64_t count, const std::string& one) {
  return grouped(count) + " " + one + (count == 1 ? "" : "s");
}

CLI::Validator positive_count() { return guides::whole_number(1, 1 << 30); }

// What `compares` texts has two in a sample.
void set_length_and_encodings(const arguments& given, training_setup& to) {
  if (to.model.kind == model_kind::vision && to.composite == nullptr && to.sequence_length != 0) {
    if (given.from.empty())
      throw bad_request(
          "--sequence-length: an image's tokens are its patches; --image-size and "
          "--patch-size give it others");
    to.sequence_length = 0;
  }
  if (to.sequence_length == 0)
    to.sequence_length = given.from.empty() ? describe_model::usual_sequence_length(to.model)
                                            : io::sequence_length_of(given.files.config, to.model);
  if (const std::int64_t rows = to.model.position_rows;
      to.model.kind != model_kind::vision && rows != 0 && to.sequence_length > rows) {
    const std::string length = std::to_string(to.sequence_length);
    throw bad_request("--sequence-length " + length + ": the model has " + std::to_string(rows) +
                      " learned positions; --position-rows " + length + " gives it more");
  }
  const bool has_targets = to.model.kind == model_kind::encoder_decoder;
  if (to.target_length == 0)
    to.target_length = io::usual_target_length(to.model, to.sequence_length);
  else if (const std::int64_t rows = to.model.decoder.position_rows; !has_targets)
    throw bad_request("--target-length: the model has no encoder beside a decoder");
  else if (rows != 0 && to.target_length > rows)
    throw bad_request("--target-length " + std::to_string(to.target_length) + ": the decoder has " +
                      std::to_string(rows) + " learned positions");
  const bool is_alone = to.composite == nullptr;
  if (is_alone && to.model.kind == model_kind::encoder && to.model.head == head_kind::none)
    to.encodings = 2;
}

// The model with its code; how it trains is not checked.
named_setup read_model(const arguments& given) {
  const named_model model = trained_model_named(given.model);
  if (!model.assumed.empty()) guides::remark(model.assumed);
  named_setup made{.name = model.name, .setup = given.setup, .parts = model.parts};
  made.setup.model = model.shape;
  made.setup.composite = model.parts.get();
  set_length_and_encodings(given, made.setup);
  if (given.dropout) made.setup.dropout = *given.dropout;
  choose_framework(given, model, made.setup);
  // Those of a config.json are of its class's own code; TRL's DPOTrainer has none of them.
  const auto own = catalog::implementation_of(model.known_as);
  const bool is_own =
      own && made.setup.framework.implementation.layers == own->framework.implementation.layers;
  if (!given.dropout && is_own && made.setup.objective != training_objective::preference)
    set_dropouts(model.dropouts, made.setup);
  return made;
}

// Which files say, or is usual.
precision_recipe recipe_of(const arguments& given, const training_setup& setup) {
  const engine_class& engine = *setup.framework.engine.is;
  if (!given.from.empty()) return io::recipe_of(given.files.config, setup.trains.what, engine).is;
  const bool has_fp32_copies =
      engine.gathers_weights || engine.has_own_step || engine.has_fp32_gradients;
  const bool stay =
      engine.wraps_adapters || (engine.gathers_weights && setup.trains.adapters.base.block != 0);
  const bool is_held = setup.trains.what == training::adapters && (!has_fp32_copies || stay);
  return is_held ? bf16_under_autocast : *recipe_named("bf16", &engine);
}

// By its name, where it has one; else by its parts.
std::string in_words(const precision_recipe& recipe) {
  if (recipe == bf16_megatron) return "bf16 with fp32 masters and gradients";
  if (const std::string name = said(precisions, recipe); !name.empty()) return name;
  precision_recipe rest = recipe;
  rest.reduced = precision_recipe{}.reduced;
  if (quantises_linears(recipe)) {
    rest.fp8_linears = rest.fp4_linears = rest.quantised_weights = false;
    rest.reads_casts_both_ways = false;
    rest.scaling = precision_recipe{}.scaling;
    std::string name = recipe.fp4_linears ? "fp4" : "fp8";
    for (const engine_precision& one : engine_precisions)
      if (one.is_fp4 == recipe.fp4_linears && one.scaling == recipe.scaling) name = one.name;
    return name + " in linear layers, else " + in_words(rest);
  }
  if (!(rest == recipe)) return in_words(rest);
  const std::string weights = text(recipe.weights);
  return weights + " weights" +
         (recipe.compute == recipe.weights ? ""
                                           : std::string(", products in ") + text(recipe.compute));
}

void choose_precision(const arguments& given, training_setup& to) {
  if (given.precision.empty()) {
    to.precision = recipe_of(given, to);
  } else {
    const known<precision_recipe> recipe = recipe_named(given.precision, to.framework.engine.is);
    if (!recipe)
      throw bad_request("--precision " + given.precision + ": " +
                        to.framework.engine.is->name->text + " has no such; bf16 it has");
    to.precision = *recipe;
  }
  const known<bool>& said = given.files.config.quantised_weights;
  if (given.quantised_weights || (said && *said && quantises_linears(to.precision)))
    to.precision.quantised_weights = true;
}

void add_degree(
    CLI::App& app, const char* name, std::int64_t& to, const char* what, const char* group) {
  app.add_option(name, to, what)->group(group)->type_name("N")->transform(positive_count());
}

}  // namespace

void add_model_options(CLI::App& app, arguments& to) {
  add_from_option(app, to);
  add_model_argument(app, to.model);
  const char* group = "Model";
  app.add_option("--framework",
                 to.framework,
                 "Whose code runs the layers (default: transformers' for the model); gpuplan "
                 "frameworks MODEL lists those that can")
      ->check(CLI::IsMember(framework_names()))
      ->type_name("NAME")
      ->group(group);
  app.add_option("--sequence-length",
                 to.setup.sequence_length,
                 "Tokens of a sequence (default: 4096 of decoders, else 512, and no more than the "
                 "model has positions)")
      ->group(group)
      ->type_name("N")
      ->transform(positive_count());
  app.add_option("--target-length",
                 to.setup.target_length,
                 "Tokens of the decoder beside an encoder (default: as many, and no more than it "
                 "has positions)")
      ->group(group)
      ->type_name("N")
      ->transform(positive_count());
  add_words<attention_kernel>(app,
                              "--attention",
                              "What computes attention",
                              attentions,
                              [&to](const auto& is) { to.setup.attention = is; })
      ->group(group);
  app.add_flag("--liger",
               to.liger,
               "Liger's kernels in place of transformers' own: norms, MLP, positions and loss")
      ->group(group);
  app.add_flag("--cuda-graphs",
               to.cuda_graphs,
               "The passes of a step are one CUDA graph, as torchtitan 0.3 has them by default and "
               "Megatron-Core's full_iteration")
      ->group(group);
  app.add_flag("--cut-cross-entropy",
               to.cut_cross_entropy,
               "Apple's kernels in place of the loss, which never write logits")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--compile",
         [&to](const std::vector<std::string>& parts) {
           to.compiles_layers = std::count(parts.begin(), parts.end(), "model") > 0;
           to.compiles_loss = std::count(parts.begin(), parts.end(), "loss") > 0;
         },
         "What torch.compile makes kernels of: model (its layers, one by one), loss; of "
         "torchtitan before 0.3 alone")
      ->check(CLI::IsMember({"model", "loss"}))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...")
      ->group(group);
  add_words<training_objective>(
      app,
      "--objective",
      "The loss: next_token (the model's own), or for memory and fits sft, "
      "dpo or grpo (TRL's trainers; of dpo a sample is two sequences)",
      objectives,
      [&to](const auto& is) { to.setup.objective = is; })
      ->group(group);
  add_words<reference_model>(app,
                             "--reference",
                             "What dpo compares with: a model of its own, the model without its "
                             "adapters (the default where there are adapters), or precomputed "
                             "numbers; of grpo none (the default, beta 0) or either model",
                             references,
                             [&to](const auto& is) { to.reference = is; })
      ->group(group);
  app.add_option("--scored-tokens",
                 to.setup.scored_tokens,
                 "Tokens of a sample whose log-probabilities sft, dpo and grpo compute: its "
                 "completions' (default: all but the first of a sequence)")
      ->group(group)
      ->type_name("N")
      ->transform(positive_count());
  app.add_flag("--generates-apart",
               to.setup.generates_apart,
               "Another engine generates for grpo, as vLLM: its log-probabilities come with the "
               "batch")
      ->group(group);
  app.add_option(
         "--inference-memory",
         to.setup.inference_bytes,
         "What vLLM or another engine that generates holds of each GPU while a step runs: vLLM's "
         "gpu_memory_utilization times the GPU's memory, or what it keeps asleep")
      ->transform(guides::byte_count(0, std::int64_t{1} << 50))
      ->group(group)
      ->type_name("SIZE");
  app.add_option(
         "--expert-capacity",
         to.setup.expert_capacity,
         "Rows of each expert over an equal share of the tokens, as Megatron-Core's "
         "moe_expert_capacity_factor pads them, or the busiest rank's where experts are not "
         "balanced (default: 1)")
      ->transform(guides::finite_number(0.001, 1000))
      ->group(group)
      ->type_name("N");
  add_words<token_dispatcher>(app,
                              "--dispatcher",
                              "What sends tokens to experts on other GPUs: NCCL, or what "
                              "Megatron-Core's flex dispatcher calls",
                              dispatchers,
                              [&to](const auto& is) { to.setup.dispatcher = is; })
      ->group(group);
  add_words<context_exchange>(app,
                              "--cp-comm-type",
                              "How Transformer Engine's context-parallel ranks see all keys and "
                              "values: p2p as Megatron-Core does, a2a with windows or sinks",
                              context_exchanges,
                              [&to](const auto& is) { to.setup.context_exchange = is; })
      ->group(group);
  app.add_option_function<double>(
         "--dropout",
         [&to](double is) { to.dropout = is; },
         "Probability (default: as the model's config.json has it, else 0)")
      ->transform(guides::finite_number(0, 1))
      ->group(group)
      ->type_name("");
  app.add_flag("--padding-mask", to.setup.padding_mask, "Sequences have a mask of padding")
      ->group(group);
  app.add_flag("--padding-free",
               to.setup.padding_free,
               "The samples of a micro-batch one behind the other in one row, as TRL packs them")
      ->group(group);
}

void add_adapter_options(CLI::App& app, arguments& to, const char* group) {
  const auto adapters = [&](const char* name, const char* what, bool four_bits, bool magnitudes) {
    app.add_option_function<std::int64_t>(
           name,
           [=, &to](std::int64_t rank) {
             to.trained_by.emplace_back(name);
             train_adapters(to.setup, rank, four_bits);
             to.setup.trains.adapters.magnitudes = magnitudes;
           },
           what)
        ->transform(positive_count())
        ->type_name("RANK")
        ->group(group);
  };
  adapters("--lora", "Low-rank adapters of this rank", false, false);
  adapters("--qlora", "Likewise, on a base in four bits, doubly quantised (QLoRA)", true, false);
  adapters("--dora", "Likewise, with magnitudes (DoRA)", false, true);
  app.add_option("--lora-targets",
                 to.lora_targets,
                 "What has adapters: q, k, v, o, gate, up, down, experts, router, embedding, head, "
                 "names such as q_proj, in_proj or experts.down_proj, attention, or all-linear "
                 "(default: q,v)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group)
      ->type_name("NAME,...");
  app.add_option("--lora-dropout",
                 to.lora_dropout,
                 "Probability that an adapter drops an element of what it reads (default: 0)")
      ->transform(guides::finite_number(0, 1))
      ->group(group)
      ->type_name("");
}

void add_trained_options(CLI::App& app, arguments& to) {
  const char* group = "What trains (default: all)";
  add_adapter_options(app, to, group);
  app.add_option_function<std::int64_t>(
         "--last-layers",
         [&to](std::int64_t layers) {
           to.trained_by.emplace_back("--last-layers");
           to.setup.trains = {.what = training::last_layers, .last_layers = layers};
         },
         "So many of the last layers")
      ->transform(positive_count())
      ->type_name("N")
      ->group(group);
  add_choice<training>(
      app,
      "--train",
      "All, the head alone, or nothing",
      {{"full", training::full}, {"head", training::head}, {"frozen", training::frozen}},
      [&to](const training& what) {
        to.trained_by.emplace_back("--train");
        to.setup.trains = {.what = what};
      })
      ->group(group);
}

void add_optimizer_options(CLI::App& app, arguments& to) {
  const char* group = "Training";
  add_words<optimizer>(app,
                       "--optimizer",
                       "The optimizer (default: adamw)",
                       optimizers,
                       [&to](const auto& is) {
                         const bool clips = to.setup.optimizer.clips_gradients;
                         to.setup.optimizer = is;
                         to.setup.optimizer.clips_gradients = clips;
                       })
      ->group(group);
  app.add_flag_function(
         "--clip,!--no-clip",
         [&to](std::int64_t times) {
           to.setup.optimizer.clips_gradients = times > 0;
           to.never_clips = times < 0;
         },
         "Clip gradients by their norm, or never, which files that are written say too")
      ->group(group);
}

// What Megatron-Core has beside: its own words.
void add_engine_options(CLI::App& app, arguments& to, const char* group) {
  std::vector<std::string> names;
  for (const io::module_name& one : io::module_names) names.emplace_back(one.name);
  app.add_option_function<std::vector<std::string>>(
         "--recompute-modules",
         [&to](const std::vector<std::string>& chosen) {
           to.setup.recompute = recompute_mode::selective;
           to.setup.modules = {.core_attention = false};
           for (const std::string& name : chosen)
             static_cast<void>(io::add_module(name, to.setup.modules));
         },
         "Parts of layers that are computed again, each alone: " + io::list_of_modules() +
             " (Megatron-Core's; selective is core_attn)")
      ->check(CLI::IsMember(names))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes("--recompute")
      ->excludes("--recompute-layers")
      ->type_name("NAME,...")
      ->group(group);
  app.add_flag("--fp8-param-gather",
               to.quantised_weights,
               "Weights are stored as products read them, and gathered so (Megatron-Core's)")
      ->group(group);
  app.add_option_function<std::int64_t>(
         "--cpu-offloading-num-layers",
         [&to](std::int64_t layers) { to.setup.offloads.layers = layers; },
         "So many layers keep their activations on the host (Megatron-Core's)")
      ->transform(positive_count())
      ->type_name("N")
      ->group(group);
}

void add_setup_options(CLI::App& app, arguments& to) {
  const char* group = "Training";
  add_degree(app,
             "--micro-batch",
             to.plan.micro_batch,
             "Samples of one forward and backward (default: 1)",
             group);
  app.get_option("--micro-batch")->each([&to](const std::string&) { to.has_micro_batch = true; });
  app.add_option_function<std::int64_t>(
         "--accumulation",
         [&to](std::int64_t micro_batches) {
           to.plan.accumulation = micro_batches;
           to.files.config.global_batch = {};
         },
         "Micro-batches of a step (default: 1)")
      ->group(group)
      ->type_name("N")
      ->transform(positive_count());
  app.add_option(
         "--precision",
         to.precision,
         "Number formats; bf16, fp16 and fp8 are mixed as the engine mixes them; fp8-current to "
         "nvfp4 are Transformer Engine's (default: bf16, of adapters bf16-autocast unless "
         "fully_shard divides them)")
      ->check(CLI::IsMember(precision_names()))
      ->type_name("")
      ->group(group);
  add_optimizer_options(app, to);
  add_words<recomputation>(app,
                           "--recompute",
                           "What is computed again: operators is torchtitan's SelectiveAC, which "
                           "keeps what is costly (default: none)",
                           recomputes,
                           [&to](const auto& is) {
                             is.set(to.setup);
                             to.setup.recompute_layers = 0;
                           })
      ->group(group);
  add_recompute_layers_option(app, [&to](std::int64_t layers) {
    to.setup.recompute = recompute_mode::full;
    to.setup.recompute_layers = layers;
  })->group(group);
  add_engine_options(app, to, group);
  add_trained_options(app, to);

  group = "Parallelism";
  parallelism& layout = to.setup.parallelism;
  app.add_option_function<std::int64_t>(
         "--data-parallel",
         [&to](std::int64_t replicas) {
           to.plan.data_parallel = replicas;
           to.has_replicas = true;
         },
         "Replicas, each with its own samples (default: 1)")
      ->group(group)
      ->type_name("N")
      ->transform(positive_count());
  add_degree(app, "--tensor-parallel", layout.tensor_parallel, "GPUs that share each layer", group);
  add_degree(app, "--pipeline-parallel", layout.pipeline_parallel, "Stages of layers", group);
  add_degree(
      app, "--virtual-pipeline", layout.virtual_pipeline, "Chunks of layers of a stage", group);
  add_schedule_option(app,
                      "In which order stages pass micro-batches (default: 1f1b; interleaved where "
                      "there are chunks)",
                      [&layout, &app](pipeline_schedule is) {
                        layout.schedule = is;
                        if (traits_of(is).folds && app.count("--virtual-pipeline") == 0)
                          layout.virtual_pipeline = 2;
                      })
      ->group(group);
  app.add_option_function<std::string>(
         "--pipeline-split",
         [&layout](const std::string& words) { layout.split = *split_named(words); },
         "Of stages that are not alike: E, L or EL where the embedding, the head or both count as "
         "a layer, or [3..2], [3..], [..2] with the layers of the first and the last one")
      ->check(CLI::Validator(
          [](const std::string& words) {
            return split_named(words) ? std::string()
                                      : io::printable(words) +
                                            ": E, L, EL and [FIRST..LAST] are "
                                            "taken, with numbers of layers";
          },
          ""))
      ->type_name("")
      ->group(group);
  app.add_flag_function(
         "--sequence-parallel,!--no-sequence-parallel",
         [&layout](std::int64_t times) { layout.sequence_parallel = times > 0; },
         "The GPUs that share layers have a part each of the sequence between their products")
      ->group(group);
  add_degree(
      app, "--context-parallel", layout.context_parallel, "GPUs that share each sequence", group);
  add_degree(
      app, "--expert-parallel", layout.expert_parallel, "GPUs that share the experts", group);
  add_degree(app,
             "--expert-tensor-parallel",
             layout.expert_tensor_parallel,
             "Parts of each expert there, on GPUs beside each other: Megatron-Core's (default: 1)",
             group);
  app.add_option("--zero",
                 layout.zero_stage,
                 "ZeRO stage: 0, 1, 2, 3 (default: 0; of code that one engine alone runs, its own)")
      ->transform(guides::whole_number(0, 3))
      ->each([&to](const std::string&) { to.has_zero_stage = true; })
      ->group(group)
      ->type_name("");
  app.add_option("--sharding",
                 to.sharding,
                 "Whose code shares among data-parallel GPUs (default: ddp, from ZeRO-2 on fsdp2)")
      ->check(CLI::IsMember(sharding_names()))
      ->group(group)
      ->type_name("");
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names = names_of(precisions);
  for (const engine_precision& one : engine_precisions) names.emplace_back(one.name);
  return names;
}
CLI::Option* add_schedule_option(CLI::App& app,
                                 const char* what,
                                 std::function<void(pipeline_schedule)> set) {
  return add_words<pipeline_schedule>(app, "--pipeline-schedule", what, schedules, std::move(set));
}
std::vector<pipeline_schedule> schedules_of(const training_setup& setup,
                                            const known<pipeline_schedule>& asked) {
  if (asked) return {*asked};
  std::vector<pipeline_schedule> all;
  // GPipe takes as long as 1F1B, and never less memory. Where PyTorch puts off gradients of weights
  // it keeps whole graphs: who wants that says so.
  const auto is_tried = [&](pipeline_schedule one) {
    return one != pipeline_schedule::gpipe &&
           !(setup.framework.layers().divides_stages && traits_of(one).defers_weights);
  };
  for (const word<pipeline_schedule>& one : schedules)
    if (is_tried(one.is) && setup.framework.engine.schedules.has(one.is)) all.push_back(one.is);
  return all;
}
std::string in_words(pipeline_schedule schedule) { return said(schedules, schedule); }
const char* word_of(pipeline_schedule schedule) {
  for (const word<pipeline_schedule>& one : schedules)
    if (one.is == schedule) return one.name;
  return "";
}
known<pipeline_split> split_named(const std::string& words) {
  if (words == "E") return pipeline_split{.embedding_layers = 1};
  if (words == "L") return pipeline_split{.head_layers = 1};
  if (words == "EL") return pipeline_split{.embedding_layers = 1, .head_layers = 1};
  const bool has_brackets = words.size() > 2 && words.front() == '[' && words.back() == ']';
  const std::string ends = has_brackets ? words.substr(1, words.size() - 2) : words;
  const std::size_t dots = ends.find("..");
  if (dots == std::string::npos) return {};
  const auto layers = [](const std::string& digits) {
    known<std::int64_t> count = std::int64_t{0};
    for (const char digit : digits) {
      if (digit < '0' || digit > '9' || *count > 1'000'000) return known<std::int64_t>();
      count = 10 * *count + (digit - '0');
    }
    return count;
  };
  const known<std::int64_t> first = layers(ends.substr(0, dots));
  const known<std::int64_t> last = layers(ends.substr(dots + 2));
  if (!first || !last || *first + *last == 0) return {};
  return pipeline_split{.first_stage_layers = *first, .last_stage_layers = *last};
}
std::string split_in_letters(const pipeline_split& split) {
  const auto number = [](std::int64_t layers) {
    return layers == 0 ? std::string() : std::to_string(layers);
  };
  if (split.listed.count != 0) return "[listed]";
  if (split.states_ends())
    return "[" + number(split.first_stage_layers) + ".." + number(split.last_stage_layers) + "]";
  return std::string(split.embedding_layers != 0 ? "E" : "") + (split.head_layers != 0 ? "L" : "");
}
CLI::Option* add_recompute_layers_option(CLI::App& app, std::function<void(std::int64_t)> set) {
  return app
      .add_option_function<std::int64_t>(
          "--recompute-layers",
          std::move(set),
          "So many layers of each stage, or of each of its chunks, are computed again, from the "
          "first")
      ->transform(positive_count())
      ->excludes("--recompute")
      ->type_name("N");
}
std::string recomputed_layers_in_words(const training_setup& setup) {
  const std::int64_t most = detail::most_to_recompute(setup);
  if (setup.recompute != recompute_mode::full) return {};
  if (setup.recompute_period > 1) return "one in " + counted(setup.recompute_period, "layer");
  if (setup.recompute_layers == 0 || setup.recompute_layers >= most) return {};
  return grouped(setup.recompute_layers) + " of " + counted(most, "layer");
}
std::vector<std::string> recompute_names() { return names_of(recomputes); }
std::vector<std::string> sharding_names() { return names_of(shardings); }
const optimizer* optimizer_named(const std::string& name) {
  for (const word<optimizer>& one : optimizers)
    if (one.name == name) return &one.is;
  return nullptr;
}
const engine_class* sharding_named(const std::string& name) {
  for (const word<const engine_class*>& one : shardings)
    if (one.name == name) return one.is;
  return nullptr;
}
std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const catalog::named_framework& known : catalog::frameworks) names.emplace_back(known.name);
  return names;
}

known<precision_recipe> recipe_named(const std::string& name, const engine_class* engine) {
  const bool is_megatron = engine != nullptr && engine->holds == held_states::buffers;
  const bool is_deepspeed = engine == &engine_classes::deepspeed;
  const precision_recipe bf16 = is_megatron    ? bf16_megatron
                                : is_deepspeed ? bf16_master
                                               : bf16_mixed;
  if (name == "bf16") return bf16;
  if (name == "fp8") {
    precision_recipe recipe = bf16;
    recipe.fp8_linears = true;
    return recipe;
  }
  for (const engine_precision& one : engine_precisions) {
    if (name != one.name) continue;
    if (!is_megatron) return {};
    precision_recipe recipe = bf16;
    recipe.fp8_linears = !one.is_fp4;
    recipe.fp4_linears = one.is_fp4;
    recipe.scaling = one.scaling;
    return recipe;
  }
  if (name == "fp16") {
    if (engine != nullptr && engine->gathers_weights) return {};
    return is_megatron || is_deepspeed ? fp16_master : fp16_mixed;
  }
  if (is_deepspeed && (name == "fp32" || name == "tf32")) return {};
  for (const word<precision_recipe>& one : precisions)
    if (name == one.name) return one.is;
  return {};
}

const char* word_of(const recomputation& is) {
  for (const word<recomputation>& one : recomputes)
    if (is == one.is) return one.name;
  return "";
}
recomputation recompute_named(const std::string& name) {
  for (const word<recomputation>& one : recomputes)
    if (name == one.name) return one.is;
  return {};
}

named_setup model_of(const arguments& given) {
  named_setup made = read_model(given);
  const engine_class* engine = made.setup.framework.engine.is;
  made.setup.precision = *recipe_named("bf16", engine);
  made.setup.parallelism.zero_stage = usual_zero_stage(*engine);
  training_setup all_trains = made.setup;
  if (all_trains.composite != nullptr)
    all_trains.trains = {};  // adapters are its parts'
  else if (all_trains.trains.what == training::adapters)
    choose_trained(given, all_trains);
  all_trains.dispatcher = {};  // between ranks that a layout has
  check(validate(all_trains), all_trains);
  return made;
}

named_setup setup_of(const arguments& given) {
  named_setup made = read_model(given);
  choose_trained(given, made.setup);
  choose_sharding(given, made.setup);
  choose_precision(given, made.setup);
  if (!given.from.empty() && io::framework_of_tool(given.files.tool) == nullptr)
    io::share_as_accelerate(given.files.config, made.setup);
  adapt_parts(made);
  if (given.from.empty()) check_shares(given, made.setup);
  check(validate(made.setup.trains, made.setup.model), made.setup);
  // As `gpuplan check` takes files: of torchtitan the older code where the newer has not all,
  if (!given.from.empty() && made.setup.framework.layers().chunks_loss &&
      !validate(made.setup, given.plan)) {
    training_setup in_older = made.setup;
    in_older.framework.implementation.compiles_layers = given.compiles_layers;
    in_older.framework.implementation.compiles_loss = given.compiles_loss;
    io::take_older_torchtitan(in_older);
    if (validate(in_older, given.plan)) made.setup = in_older;
  }
  // bf16 where the code is not known in fp8,
  if (!given.from.empty() && given.precision.empty() && made.setup.precision.fp8_linears &&
      !validate(made.setup, given.plan)) {
    training_setup in_bf16 = made.setup;
    in_bf16.precision.fp8_linears = in_bf16.precision.fp4_linears = false;
    in_bf16.precision.quantised_weights = false;
    in_bf16.precision.scaling = precision_recipe{}.scaling;
    if (validate(in_bf16, given.plan)) made.setup = in_bf16;
  }
  // or each sample in a row of its own.
  if (!given.from.empty() && !validate(made.setup, given.plan)) made.setup.padding_free = false;
  check(validate(made.setup, given.plan), made.setup);
  return made;
}

std::string precision_of(const arguments& given, const training_setup& setup) {
  if (!given.precision.empty()) return given.precision;
  const precision_recipe recipe = recipe_of(given, setup);
  for (const std::string& name : precision_names())
    if (const auto is = recipe_named(name, setup.framework.engine.is); is && *is == recipe)
      return name;
  return {};
}

arguments without_layout(arguments given) {
  given.setup.parallelism = {};
  given.setup.recompute = {};
  given.setup.recompute_span = training_setup{}.recompute_span;
  given.setup.recompute_layers = 0;
  given.setup.saves_costly_results = false;
  given.plan = {};
  return given;
}

int usual_zero_stage(const engine_class& engine) {
  return engine.least_zero_stage == 0 ? 0 : engine.most_zero_stage;
}

void put_on_one_gpu(training_setup& to) {
  const engine_class* const alone = to.framework.layers().engine;
  if (!to.framework.layers().is_pipelined)  // Megatron's has its own
    to.framework.engine.is = alone != nullptr ? alone : &engine_classes::ddp;
  to.parallelism = {.zero_stage = usual_zero_stage(*to.framework.engine.is)};
  to.dispatcher = {};
}

void choose_sharding(const arguments& given, training_setup& to) {
  if (to.framework.implementation.layers == &layer_classes::megatron_core) {
    if (!given.sharding.empty() && given.sharding != "megatron")
      throw bad_request("--sharding " + given.sharding + ": Megatron's code has its own");
    return;
  }
  if (given.sharding == "megatron")
    throw bad_request("--sharding megatron: only of Megatron's code");
  const engine_class* const alone = to.framework.layers().engine;
  const engine_class* const asked = given.sharding.empty() ? alone : sharding_named(given.sharding);
  if (asked != nullptr && !given.has_zero_stage && given.from.empty() &&
      to.parallelism.zero_stage < asked->least_zero_stage)
    to.parallelism.zero_stage = usual_zero_stage(*asked);
  const int stage = to.parallelism.zero_stage;
  to.framework.engine.is = stage >= 2 ? &engine_classes::fsdp2 : &engine_classes::ddp;
  for (const word<const engine_class*>& one : shardings) {
    // Unless --zero asks for a stage that it has not.
    const bool has_stage = stage == io::layout_of(given.files.config).zero_stage ||
                           (one.is->least_zero_stage <= stage && stage <= one.is->most_zero_stage);
    const bool is_of_files = given.sharding.empty() && has_stage &&
                             io::estimated_engine(given.files.config, to) == one.name &&
                             io::framework_of_tool(given.files.tool) == nullptr;
    if (given.sharding == one.name || is_of_files) to.framework.engine.is = one.is;
  }
  if (alone != nullptr && given.sharding.empty()) to.framework.engine.is = alone;
  io::set_zero(given.files.config, to);
  if (to.framework.engine.is == &engine_classes::ddp && stage >= 2)
    throw bad_request("--sharding ddp: it has no ZeRO stage " + std::to_string(stage));
  if (to.framework.engine.is->gathers_weights && stage < 2 && given.sharding.empty())
    throw bad_request("--zero " + std::to_string(stage) + ": " +
                      to.framework.engine.is->name->text +
                      ", which alone runs this code, has the ZeRO stages 2 and 3");
  if (to.framework.engine.is->gathers_weights && stage < 2)
    throw bad_request(std::string("--sharding ") + to.framework.engine.is->name->text +
                      ": it has the ZeRO stages 2 and 3, which --zero gives");
}

void choose_trained(const arguments& given, training_setup& to) {
  if (given.trained_by.size() > 1)
    throw bad_request(given.trained_by[0] + " and " + given.trained_by[1] +
                      " both say what trains; give one of them");
  if (given.lora_dropout) {
    if (to.trains.what != training::adapters)
      throw bad_request("--lora-dropout: --lora, --qlora or --dora says of which rank");
    to.trains.adapters.dropout = *given.lora_dropout;
  }
  const bool has_frozen_parts =
      to.composite != nullptr &&
      std::any_of(to.composite->parts, to.composite->parts + to.composite->size(), [](auto& part) {
        return part.trains.what == training::frozen;
      });
  if (has_frozen_parts && to.trains.what == training::full && !given.trained_by.empty())
    throw bad_request(given.trained_by.front() +
                      " full: parts of this model are frozen, as it is trained; what is estimated "
                      "is a step that trains the others");
  if (to.composite != nullptr && to.trains.what != training::full) {
    const bool adapts = to.framework.layers().adapts_connectors;
    const bool has_adapters = to.trains.what == training::adapters;
    if (!(adapts && has_adapters) && !given.trained_by.empty())
      throw bad_request(given.trained_by.front() +
                        ": of a model of several parts, as of this one, what is estimated is a "
                        "step that trains all weights" +
                        (adapts ? ", or adapters" : "") + "; a share of the weights is not");
    const std::vector<std::string> all{"all-linear"};
    const bool says_others = given.lora_targets.empty()
                                 ? !given.from.empty() && to.trains.adapters.targets != all_linear
                                 : given.lora_targets != all;
    if (adapts && says_others)
      throw bad_request(
          (given.lora_targets.empty() ? "--from" : "--lora-targets " + given.lora_targets.front()) +
          ": of a model of several parts adapters are beside every linear layer, all-linear");
    if (adapts) {
      to.trains.adapters.targets = all_linear;
      return;
    }
  }
  // What PEFT adapts of a fused layer is all of it.
  if (given.lora_targets.empty()) {
    if (to.trains.adapters.targets == query_and_value)
      to.trains.adapters.targets.key = to.model.fused_qkv;
    return;
  }
  if (to.trains.what != training::adapters)
    throw bad_request("--lora-targets: --lora, --qlora or --dora says of which rank");
  lora_targets targets;
  for (const std::string& name : given.lora_targets)
    if (!io::add_lora_target(name, targets))
      throw bad_request("--lora-targets: no layers are called " + name);
  to.trains.adapters.targets = targets;
}

std::shared_ptr<const composite_model> adapted_parts(const training_setup& of) {
  return std::make_shared<const composite_model>(with_adapters(*of.composite, of.trains.adapters));
}

void adapt_parts(named_setup& to) {
  if (to.setup.composite == nullptr || to.setup.trains.what != training::adapters) return;
  to.parts = adapted_parts(to.setup);
  to.setup.composite = to.parts.get();
  to.setup.trains = {};
}

void train_adapters(training_setup& setup, std::int64_t rank, bool four_bits) {
  setup.trains = {.what = training::adapters,
                  .adapters = {.rank = rank, .targets = setup.trains.adapters.targets}};
  if (four_bits) setup.trains.adapters.base = double_quantised_base;
}

std::string in_words(const lora& adapters) {
  return std::string(adapters.base.block != 0 ? "Q" : "") + (adapters.magnitudes ? "DoRA" : "LoRA");
}

std::string in_words(optimizer steps) {
  steps.clips_gradients = false;
  if (std::string listed = said(optimizers, steps); !listed.empty()) return listed;
  std::string text = said(optimizers, optimizer{.kind = steps.kind});
  if (steps.loop == optimizer_loop::fused) text = "fused " + text;
  if (steps.states == number_format::int8) text = "8-bit " + text;
  if (steps.pages_states) text = "paged " + text;
  if (steps.states == number_format::bf16) text += " with states in bf16";
  if (steps.library == optimizer_library::bitsandbytes) text += " of bitsandbytes";
  if (steps.library == optimizer_library::torchao) text += " of torchao";
  return text;
}

std::string in_words(const training_setup& setup, const batch_plan& plan) {
  const bool is_vision = setup.model.kind == model_kind::vision;
  std::string text = counted(plan.micro_batch, is_vision ? "image" : "sample");
  if (!is_vision) text += " of " + counted(setup.sequence_length, "token");
  if (setup.target_length != 0) text += " and " + grouped(setup.target_length) + " of the decoder";
  if (plan.accumulation > 1) text += " " + grouped(plan.accumulation) + " times";
  const parallelism& layout = setup.parallelism;
  const bool is_divided =
      layout.tensor_parallel > 1 || layout.pipeline_parallel > 1 || layout.context_parallel > 1;
  if (plan.data_parallel > 1)
    text += " on each of " + grouped(plan.data_parallel) + (is_divided ? " replicas" : " GPUs");
  const std::string method = method_in_words(setup);
  return method.empty() ? text : text + ", " + method;
}

std::string in_words(const pipeline_split& split) {
  if (split.listed.count != 0) return "layers listed for " + counted(split.listed.count, "chunk");
  std::string text;
  const auto add = [&](std::int64_t layers, const std::string& more) {
    if (layers != 0) text += (text.empty() ? "" : " and ") + more;
  };
  add(split.first_stage_layers, counted(split.first_stage_layers, "layer") + " on the first stage");
  add(split.last_stage_layers, counted(split.last_stage_layers, "layer") + " on the last");
  const auto as_layers = [](const char* end, std::int64_t layers) {
    return end + (layers == 1 ? std::string(" as a layer") : " as " + counted(layers, "layer"));
  };
  if (split.embedding_layers == 1 && split.head_layers == 1) return "embedding and head as layers";
  add(split.embedding_layers, as_layers("embedding", split.embedding_layers));
  add(split.head_layers, as_layers("head", split.head_layers));
  return text;
}

std::string method_in_words(const training_setup& setup) {
  std::string text;
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
  };
  const auto add_degree = [&](const char* name, std::int64_t degree) {
    if (degree > 1) add(name + grouped(degree));
  };
  const parallelism& layout = setup.parallelism;
  add_degree("tensor-parallel ", layout.tensor_parallel);
  add_degree("pipeline-parallel ", layout.pipeline_parallel);
  const std::string schedule = said(schedules, layout.schedule);
  if (traits_of(layout.schedule).interleaves)
    add_degree("virtual-pipeline ", layout.virtual_pipeline);
  add(schedule);
  if (layout.pipeline_parallel > 1) add(in_words(layout.split));
  add_degree("context-parallel ", layout.context_parallel);
  add_degree("expert-parallel ", layout.expert_parallel);
  add_degree("expert-tensor-parallel ", layout.expert_tensor_parallel);
  add(said(dispatchers, setup.dispatcher));
  add(said(context_exchanges, setup.context_exchange));
  add(in_words(setup.precision));
  add(in_words(setup.optimizer));
  // Of several models those of the first that has adapters
  const trainable* trains = &setup.trains;
  for (int at = 0; setup.composite != nullptr && at < setup.composite->size(); ++at)
    if (const trainable& part = setup.composite->parts[at].trains;
        trains->what != training::adapters && part.what == training::adapters)
      trains = &part;
  if (trains->what == training::adapters)
    add(in_words(trains->adapters) + " of rank " + grouped(trains->adapters.rank));
  if (setup.trains.what == training::last_layers)
    add("the last " + counted(setup.trains.last_layers, "layer"));
  if (setup.trains.what == training::head) add("the head alone");
  if (setup.trains.what == training::frozen) add("nothing trains");
  const recomputation again = recomputation::of(setup);
  const std::string layers = recomputed_layers_in_words(setup);
  add(layers.empty() || again.saves_costly_results ? said(recomputes, again)
                                                   : "recomputation of " + layers);
  add(said(attentions, setup.attention));
  if (setup.graphs.iteration) add("CUDA graphs");
  if (setup.framework.implementation.liger_kernels) add("Liger's kernels");
  if (setup.framework.implementation.cut_cross_entropy) add("cut cross-entropy");
  if (setup.framework.implementation.compiles_layers) add("compiled layers");
  if (setup.framework.implementation.compiles_loss) add("compiled loss");
  if (setup.padding_free) add("samples in one row");
  if (setup.objective != training_objective::next_token) add(said(objectives, setup.objective));
  if (setup.objective == training_objective::preference ||
      setup.objective == training_objective::group_relative)
    add(said(references, setup.reference));
  if (setup.inference_bytes > 0)
    add(readable_bytes(setup.inference_bytes) + " for an inference engine");
  if (layout.zero_stage > 0) add("ZeRO-" + std::to_string(layout.zero_stage));
  add(said(shardings, setup.framework.engine.is));
  return text;
}

}  // namespace setups

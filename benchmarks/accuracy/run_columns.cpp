#include "run_columns.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/parameters.hpp>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "adapters.hpp"
#include "notes.hpp"
#include "runs.hpp"

namespace accuracy {
namespace {

using gpuplan::attention_kernel;
using gpuplan::framework;
using gpuplan::number_format;
using gpuplan::training_setup;
namespace catalog = gpuplan::catalog;

bool has_word(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// Who ran the row, and with what, in lower case.
std::string who_of(const row& source) {
  std::string who = lower(source.text("framework"));
  if (who.empty()) who = lower(value_in(source.text("notes"), "framework"));
  return who + ' ' + lower(source.text("framework_version"));
}

// ---- frameworks

// What framework a word in the column names, the first one that is there.
struct named_framework {
  std::string_view word;
  const framework* software;
  bool is_timed;  // its costs are of steps of this very code, on such a cluster
};
constexpr named_framework frameworks[] = {
    {"nanotron", &catalog::nanotron, true},
    {"torchtitan", &catalog::torchtitan_2025, false},
    {"megatron-deepspeed", &catalog::megatron_deepspeed, false},
    {"megatron deepspeed", &catalog::megatron_deepspeed, false},
    {"megatron-bridge", &catalog::megatron_bridge_2606, false},
    {"megatron bridge", &catalog::megatron_bridge_2606, false},
    {"nemo", &catalog::megatron_transformer_engine, false},
    {"megatron-core", &catalog::megatron_transformer_engine, false},
    {"transformer engine", &catalog::megatron_transformer_engine, false},
    {"primus", &catalog::megatron_transformer_engine, false},
    {"megatron", &catalog::megatron_lm, false},
    {"libai", &catalog::megatron_lm, false},  // the same layers and fused kernels in OneFlow
    {"foundry", &catalog::llm_foundry, false},
    {"composer", &catalog::llm_foundry, false},
    {"litgpt", &catalog::lit_gpt, false},
    {"lit-gpt", &catalog::lit_gpt, false},
};

bool is_of_megatrons_kind(const row& source) {
  return source.integer_or("tp", 1) > 1 || source.integer_or("pp", 1) > 1;
}

// Plain layers of the model's kind, by the engine that the layout needs.
framework nearest_framework(const row& source, const gpuplan::transformer& model) {
  if (is_of_megatrons_kind(source)) {
    const bool is_llama = model.norm == gpuplan::norm_kind::rms_norm;
    framework nearest = is_llama ? catalog::megatron_transformer_engine : catalog::megatron_lm;
    if (is_llama) nearest.costs = catalog::untimed_megatron;
    nearest.implementation.fuses_loss = source.flag("fused_cross_entropy");
    return nearest;
  }
  framework nearest = model.kind != gpuplan::model_kind::decoder     ? catalog::torch_bert
                      : model.norm == gpuplan::norm_kind::layer_norm ? catalog::torch_gpt
                                                                     : catalog::torch_llama;
  const std::int64_t zero = source.integer_or("zero_stage", 0);
  if (zero >= 2) nearest.engine = catalog::engines::fsdp2;
  if (zero >= 2 && has_word(who_of(source), "fsdp1"))
    nearest.engine.is = &gpuplan::engine_classes::fsdp1;
  nearest.costs = catalog::untimed_eager;
  return nearest;
}

void read_who_ran(const row& source, training_setup& setup) {
  const std::string who = who_of(source);
  const named_framework* found = nullptr;
  for (const named_framework& one : frameworks)
    if (found == nullptr && has_word(who, one.word)) found = &one;
  const bool is_whole = found != nullptr;
  setup.framework = is_whole ? *found->software : nearest_framework(source, setup.model);
  if (!is_whole || !found->is_timed) {
    setup.framework.costs.timed = false;
    setup.framework.costs.scatter = gpuplan::software_costs{}.scatter;
  }
  gpuplan::implementation& layers = setup.framework.implementation;
  const bool is_compiled = source.flag("compile") || has_word(who, "llm.c");
  if (is_compiled && layers.layers != &gpuplan::layer_classes::megatron_core) {
    layers.compiles_layers = true;
    layers.compiles_loss = true;
    if (!is_whole) setup.framework.costs = catalog::untimed_compiled;
  }
  if (source.flag("fused_cross_entropy")) layers.fuses_loss = true;
}

// ---- formats, kernels, the optimizer

bool has_own_masters(const row& source) {
  if (!source.blank("master_weights")) return source.flag("master_weights");
  return is_of_megatrons_kind(source) || source.integer_or("zero_stage", 0) == 1;
}

void read_precision(const row& source, training_setup& setup) {
  const std::string precision = lower(source.text("precision"));
  gpuplan::precision_recipe& recipe = setup.precision;
  recipe = gpuplan::fp32_precision;
  if (precision == "fp32") return;
  if (precision == "tf32") {
    recipe.compute = number_format::tf32;
    return;
  }
  recipe.compute = precision == "fp16" ? number_format::fp16 : number_format::bf16;
  recipe.fp8_linears = has_word(precision, "fp8");
  recipe.fp4_linears = has_word(precision, "fp4");
  const bool has_half_gradients = source.text("grad_bytes") == "2";
  if (has_own_masters(source)) {
    recipe.weights = recipe.compute;
    recipe.master_weights = true;
    recipe.fp32_gradients =
        !has_half_gradients && (is_of_megatrons_kind(source) || source.text("grad_bytes") == "4");
  } else if (has_half_gradients) {
    recipe.weights = recipe.compute;
    recipe.reduced = recipe.compute;
  }
}

void read_optimizer(const row& source, training_setup& setup) {
  const std::string name = lower(source.text("optimizer"));
  using gpuplan::optimizer_kind;
  optimizer_kind& kind = setup.optimizer.kind;
  kind = optimizer_kind::adamw;
  if (has_word(name, "sgd")) kind = optimizer_kind::sgd_momentum;
  if (name == "lion") kind = optimizer_kind::lion;
  if (name == "muon") kind = optimizer_kind::muon;
  if (name == "adafactor") kind = optimizer_kind::adafactor;
  const std::string who = who_of(source) + lower(source.text("notes"));
  const bool is_fused = is_of_megatrons_kind(source) || has_word(who, "fused") ||
                        has_word(who, "apex") || has_word(who, "megatron") ||
                        source.flag("compile");
  // NVIDIA's examples have apex's Adam where apex casts too, and a loop of operators elsewhere.
  const bool is_by_parameter = has_word(who, "deeplearningexamples") && has_word(name, "adam") &&
                               setup.precision.compute != number_format::fp16;
  setup.optimizer.loop = is_by_parameter ? gpuplan::optimizer_loop::parameter
                         : is_fused      ? gpuplan::optimizer_loop::fused
                                         : gpuplan::optimizer_loop::foreach;
  setup.optimizer.clips_gradients = kind != optimizer_kind::sgd_momentum;
}

void read_attention(const row& source, training_setup& setup) {
  const bool is_decoder = setup.model.kind == gpuplan::model_kind::decoder;
  const bool is_fused =
      source.blank("flash_attention") ? is_decoder : source.flag("flash_attention");
  setup.attention = is_fused ? attention_kernel::flash : attention_kernel::eager;
}

std::string read_recomputation(const row& source, training_setup& setup) {
  const std::string_view again = source.text("recompute");
  using gpuplan::recompute_mode;
  if (again.empty() || again == "none") return {};
  setup.recompute = again == "selective" ? recompute_mode::selective : recompute_mode::full;
  if (again == "selective_op") setup.saves_costly_results = true;
  if (again == "full" || again == "selective" || again == "selective_op") return {};
  return "what recomputation '" + std::string(again) + "' repeats is not known";
}

// ---- adapters

// "k,q,v,up,down,gate proj ASSUMED" as modules of LLaMA are called.
std::string modules_in(std::string_view notes) {
  const std::size_t at = notes.find("targets=");
  std::string modules;
  if (at == std::string_view::npos)
    return "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj";
  std::string_view rest = notes.substr(at + 8);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(", ;"), rest.size());
    const std::string_view name = rest.substr(0, end);
    if (!modules.empty()) modules += ',';
    modules += std::string(name);
    if (!has_word(name, "_")) modules += "_proj";
    if (end == rest.size() || rest[end] != ',') break;
    rest.remove_prefix(end + 1);
  }
  return modules;
}

std::string read_adapters(const row& source, training_setup& setup) {
  const std::string_view notes = source.text("notes");
  const std::string_view method = value_in(notes, "method");
  if (!has_word(method, "lora")) return {};
  std::int64_t rank = 16;
  const std::string_view printed = value_in(notes, "lora_rank");
  std::from_chars(printed.data(), printed.data() + printed.size(), rank);
  const described_adapters adapters =
      describe_adapters("lora", rank, modules_in(notes), setup.model);
  if (!adapters.why_not.empty()) return adapters.why_not;
  setup.trains = adapters.trains;
  setup.precision = gpuplan::bf16_pure;
  setup.precision.reduced = number_format::bf16;
  setup.trains.adapters.weights = number_format::bf16;
  if (has_word(method, "qlora")) setup.trains.adapters.base = gpuplan::four_bit_base;
  return {};
}

// ---- the batch

// Where a row does not say how many micro-batches a step has: as many as hide nine tenths of its
// pipeline.
std::int64_t usual_accumulation(const gpuplan::parallelism& layout) {
  return layout.pipeline_parallel == 1 ? 1 : 8 * layout.pipeline_parallel;
}

gpuplan::batch_plan read_batch(const row& source, const gpuplan::parallelism& layout) {
  gpuplan::batch_plan plan = batch_in(source);
  const std::int64_t ranks =
      layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel;
  const std::int64_t gpus = source.integer_or("gpus", 1);
  if (source.blank("dp") && ranks > 0 && gpus % ranks == 0) plan.data_parallel = gpus / ranks;
  const auto batch = source.integer("global_batch");
  if (source.blank("micro_batch") && batch && !source.blank("grad_accum"))
    plan.micro_batch = std::max<std::int64_t>(1, *batch / (plan.data_parallel * plan.accumulation));
  else if (source.blank("grad_accum") && batch)
    plan.accumulation = std::max<std::int64_t>(1, *batch / (plan.data_parallel * plan.micro_batch));
  else if (source.blank("grad_accum"))
    plan.accumulation = usual_accumulation(layout);
  return plan;
}

void pad_vocabulary(std::int64_t multiple, gpuplan::transformer& model) {
  model.vocab_size = (model.vocab_size + multiple - 1) / multiple * multiple;
}

}  // namespace

bool has_small_output(const row& source) {
  const std::string notes = lower(source.text("notes"));
  return has_word(notes, "vision transformer") || has_word(notes, "no vocabulary output") ||
         has_word(notes, "masked positions") || has_word(notes, "classif") ||
         has_word(notes, "image classes");
}

described_setup read_run_columns(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  training_setup& setup = described.setup;
  setup.model = run.shape;
  gpuplan::transformer& model = setup.model;
  if (!model.gated_mlp) model.hidden_act = gpuplan::activation_function::gelu;
  if (has_small_output(source)) {
    model.head = gpuplan::head_kind::classifier;
    model.num_classes = 2;
  }
  setup.sequence_length = source.integer_or("seq_len", 4096);
  setup.parallelism = layout_in(source);
  read_who_ran(source, setup);
  model.fused_qkv = setup.framework.layers().is_pipelined;
  // Megatron's code pads tables to a multiple of 128 rows on each rank, llm.c to one of 128.
  if (setup.framework.layers().is_pipelined &&
      setup.framework.engine.is != &gpuplan::engine_classes::nanotron)
    pad_vocabulary(128 * setup.parallelism.tensor_parallel, model);
  if (has_word(who_of(source), "llm.c")) pad_vocabulary(128, model);
  if (setup.framework.engine.is == &gpuplan::engine_classes::nanotron) {
    const double head = static_cast<double>(model.vocab_size * model.hidden_size);
    const auto layer = gpuplan::layer_parameters(model, gpuplan::layer_kind::dense).total();
    setup.parallelism.split.head_cost = head / static_cast<double>(layer);
  }
  if (source.blank("zero_stage") && setup.framework.layers().is_pipelined)
    setup.parallelism.zero_stage = 1;
  read_precision(source, setup);
  read_optimizer(source, setup);
  read_attention(source, setup);
  const bool has_dropout = model.norm == gpuplan::norm_kind::layer_norm &&
                           setup.attention == attention_kernel::eager &&
                           !has_word(lower(source.text("notes")), "vision");
  setup.dropout = has_dropout ? 0.1 : 0;
  described.plan = read_batch(source, setup.parallelism);
  if (has_word(lower(source.text("notes")), "cpu_offload of parameters"))
    setup.parallelism.weights_on_host = setup.parallelism.optimizer_on_host = true;
  described.why_not = read_recomputation(source, setup);
  if (described.why_not.empty()) described.why_not = read_adapters(source, setup);
  return described;
}

}  // namespace accuracy

#include "whole_run_setups.hpp"

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/catalog/frameworks/torch.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "notes.hpp"

namespace accuracy {

std::optional<double> stated_number(const row& source, std::string_view column) {
  const std::string_view text = source.text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !(std::abs(value) < 1e30))
    return {};
  return value;
}
std::int64_t stated_count(const row& source, std::string_view column, std::int64_t otherwise) {
  const auto value = stated_number(source, column);
  return value && *value >= 1 && *value < 1e15 ? static_cast<std::int64_t>(*value) : otherwise;
}

namespace {

namespace catalog = gpuplan::catalog;
using gpuplan::transformer;
using namespace gpuplan::literals;

// ---- the model

double active_parameters(const transformer& model) {
  return static_cast<double>(gpuplan::parameters(model).active());
}

// "8" and "8+1": routed experts, and how many every token shares, one where it is a word.
struct experts_of_token {
  std::int64_t routed = 2;
  std::int64_t shared = 0;
};
experts_of_token experts_of_token_in(std::string_view text) {
  experts_of_token found;
  const auto number = [&](std::int64_t otherwise) {
    std::int64_t value = otherwise;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    return std::clamp<std::int64_t>(value, 1, 1 << 20);
  };
  found.routed = number(found.routed);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    found.shared = number(1);
  }
  return found;
}

// What the row's columns say, where they say all of it.
std::optional<transformer> stated_shape(const row& source) {
  for (const char* column : {"layers", "hidden", "heads", "vocab"})
    if (source.blank(column)) return {};
  transformer model{.kind = gpuplan::model_kind::decoder};
  model.num_hidden_layers = stated_count(source, "layers", 0);
  model.hidden_size = stated_count(source, "hidden", 0);
  model.num_attention_heads = stated_count(source, "heads", 0);
  model.num_key_value_heads = stated_count(source, "kv_heads", model.num_attention_heads);
  model.intermediate_size = stated_count(source, "ffn", stated_count(source, "expert_ffn", 0));
  model.vocab_size = stated_count(source, "vocab", 0);
  model.gated_mlp = source.text("gated_mlp") == "yes";
  if (model.gated_mlp) model.norm = gpuplan::norm_kind::rms_norm;
  if (model.num_attention_heads > 0) model.head_dim = model.hidden_size / model.num_attention_heads;
  if (source.blank("ffn") && source.blank("expert_ffn")) return {};
  if (source.blank("experts")) return model;
  const experts_of_token token = experts_of_token_in(source.text("experts_per_token"));
  model.moe.num_experts = stated_count(source, "experts", 0);
  model.moe.num_experts_per_tok = token.routed;
  model.moe.moe_intermediate_size = stated_count(source, "expert_ffn", model.intermediate_size);
  model.moe.shared_expert_intermediate_size = token.shared * model.moe.moe_intermediate_size;
  if (model.moe.num_experts == 0) return {};
  return model;
}

// "| arch: gpuplan catalogue llama-2-7b | ..."
std::string_view catalogued_name(std::string_view notes) {
  constexpr std::string_view words = "arch: gpuplan catalogue ";
  const std::size_t at = notes.find(words);
  if (at == std::string_view::npos) return {};
  notes.remove_prefix(at + words.size());
  return notes.substr(0, notes.find_first_of(" |;,"));
}

bool is_decoder(const catalog::published_model& known) {
  return known.has_shape && known.shape->kind == gpuplan::model_kind::decoder;
}

// "DeepSeek-V3 671B-A37B" is looked for, then "DeepSeek-V3".
const transformer* shape_by_name(std::string_view name, double parameters) {
  for (; !name.empty(); name = name.substr(0, name.find_last_of(' '))) {
    const auto known = catalog::find_model(name);
    if (known && is_decoder(*known) &&
        std::abs(std::log(static_cast<double>(gpuplan::parameters(*known->shape).total()) /
                          parameters)) < 0.05)
      return known->shape;
    if (name.find(' ') == std::string_view::npos) break;
  }
  return nullptr;
}

// Of the catalogue's decoders without experts or linear attention the one nearest in parameters.
const transformer& nearest_shape(double parameters) {
  const transformer* nearest = nullptr;
  double apart = std::numeric_limits<double>::infinity();
  for (const catalog::published_model& known : catalog::models) {
    if (!is_decoder(known) || known.shape->moe.num_experts != 0 ||
        known.shape->full_attention_interval != 0 ||
        known.shape->norm != gpuplan::norm_kind::rms_norm ||
        known.shape->norm_at != gpuplan::norm_position::before)
      continue;
    const double distance = std::abs(std::log(active_parameters(*known.shape) / parameters));
    if (distance < apart) {
      apart = distance;
      nearest = known.shape;
    }
  }
  return *nearest;
}

// The nearest dense shape with experts in place of its MLP, so wide that all parameters are the
// stated ones: those of one expert are what the others have over their number. What a token uses
// besides attention, table and head it uses of a shared expert.
transformer nearest_mixture(const row& source, double total, double active) {
  transformer model = nearest_shape(active);
  const experts_of_token token = experts_of_token_in(source.text("experts_per_token"));
  const std::int64_t experts =
      std::max(stated_count(source, "experts", 8), std::int64_t{token.routed + 1});
  const double of_expert = (total - active) / static_cast<double>(experts - token.routed);
  const double row_of_widths =
      3.0 * static_cast<double>(model.hidden_size) * static_cast<double>(model.num_hidden_layers);
  const auto whole = [](double width) {  // of 64, as tensors are divided
    return 64 * static_cast<std::int64_t>(std::round(width / 64));
  };
  model.moe = {
      .num_experts = experts,
      .num_experts_per_tok = token.routed,
      .moe_intermediate_size = std::max<std::int64_t>(64, whole(of_expert / row_of_widths))};
  const double left = active - active_parameters(model);
  model.moe.shared_expert_intermediate_size =
      left > 0 ? whole(left / row_of_widths) : std::int64_t{0};
  return model;
}

// The run's own shape, where anything says it.
std::optional<transformer> known_shape(const row& source, double total) {
  if (const std::string_view name = catalogued_name(source.text("notes")); !name.empty())
    if (const auto known = catalog::find_model(name); known && is_decoder(*known))
      return *known->shape;
  if (const auto stated = stated_shape(source)) return stated;
  if (const transformer* named = shape_by_name(source.text("model"), total)) return *named;
  return {};
}

// ---- who ran it

// C++ that launches kernels written by hand for this model: what they move is counted, and an
// operator costs the host what CUDA takes to launch one or two.
constexpr gpuplan::software_costs costs_by_hand{
    .host_per_operator = 5_us, .host_of_backward = 1, .host_per_step = 1_ms};

void choose_software(const row& source, bool has_bf16, run_setup& run) {
  gpuplan::training_setup& setup = run.setup;
  const std::string who = lower(source.text("framework"));
  const auto says = [&](std::string_view word) { return who.find(word) != std::string::npos; };
  const bool is_half = source.text("precision") == "fp16" || !has_bf16;
  const std::int64_t year = stated_count(source, "year", 2024);
  const auto up_to = [](std::int64_t most) { return gpuplan::range<std::int64_t>{1, most}; };

  // Before FlashAttention was there (2023) scores were written, and layers recomputed as a whole.
  const bool is_old = year < 2023;
  setup.attention = is_old ? gpuplan::attention_kernel::eager : gpuplan::attention_kernel::flash;
  setup.precision = is_half ? gpuplan::fp16_master : gpuplan::bf16_master;
  setup.model.fused_qkv = true;
  run.space.recompute = true;
  run.space.micro_batch = up_to(64);

  if (says("nanogpt")) {
    setup.framework = catalog::torch_gpt;
    setup.framework.costs = catalog::untimed_compiled;
    setup.precision = is_half ? gpuplan::fp16_mixed : gpuplan::bf16_mixed;
    return;
  }
  if (says("llm.c")) {  // weights in bf16 with a copy in fp32
    setup.framework = catalog::megatron_transformer_engine;
    setup.framework.costs = costs_by_hand;
    run.space.zero_stage = gpuplan::range<std::int64_t>{0, 1};
    return;
  }
  const bool is_of_megatron = says("megatron") || says("neox") || says("metaseq");
  const bool has_experts = setup.model.moe.num_experts != 0;
  if (!is_of_megatron && !has_experts && (says("fsdp") || says("composer") || says("foundry"))) {
    setup.framework = setup.model.gated_mlp ? catalog::torch_llama : catalog::torch_gpt;
    setup.framework.engine = catalog::engines::fsdp2;
    setup.framework.costs = catalog::untimed_eager;
    setup.precision = is_half ? gpuplan::fp16_mixed : gpuplan::bf16_mixed;
    setup.model.fused_qkv = !setup.model.gated_mlp;
    setup.parallelism.zero_stage = 3;
    return;
  }

  run.space.tensor_parallel = up_to(8);
  run.space.pipeline_parallel = up_to(32);
  run.space.virtual_pipeline = up_to(4);
  run.space.zero_stage = gpuplan::range<std::int64_t>{0, 1};
  run.space.sequence_parallel = true;
  if (has_experts) run.space.expert_parallel = up_to(64);
  const bool is_of_deepspeed = says("neox") || says("megatron-deepspeed");
  setup.framework = is_of_deepspeed ? catalog::megatron_deepspeed
                    : is_old        ? catalog::megatron_lm
                                    : catalog::megatron_transformer_engine;
  if (!is_old && !is_of_deepspeed) setup.framework.costs = catalog::untimed_megatron;
  if (is_old || is_of_deepspeed) {
    setup.recompute = gpuplan::recompute_mode::full;
    run.space.recompute = false;
  }
  setup.precision.fp32_gradients = true;
  setup.precision.fp8_linears = source.text("precision").starts_with("fp8");
  if (!setup.model.gated_mlp) setup.model.hidden_act = gpuplan::activation_function::gelu;
}

// The widths alone, where software has no code for what else a shape is.
transformer plain(const transformer& shape) {
  transformer widths{.kind = gpuplan::model_kind::decoder};
  widths.num_hidden_layers = shape.num_hidden_layers;
  widths.hidden_size = shape.hidden_size;
  widths.intermediate_size = shape.intermediate_size;
  widths.num_attention_heads = shape.num_attention_heads;
  widths.num_key_value_heads = shape.num_key_value_heads;
  widths.head_dim = shape.head_dim;
  widths.vocab_size = shape.vocab_size;
  widths.norm = shape.norm;
  widths.gated_mlp = shape.gated_mlp;
  widths.tied_embeddings = shape.tied_embeddings;
  if (shape.moe.num_experts != 0)
    widths.moe = {.num_experts = shape.moe.num_experts,
                  .num_experts_per_tok = shape.moe.num_experts_per_tok,
                  .moe_intermediate_size = shape.moe.moe_intermediate_size,
                  .shared_expert_intermediate_size = shape.moe.shared_expert_intermediate_size};
  return widths;
}

// Where a row does not say so: what was usual of its year.
std::int64_t usual_sequence(const row& source) {
  return stated_count(source, "year", 2024) < 2024 ? 2048 : 4096;
}

}  // namespace

run_setup describe_run_setup(const row& source, bool has_bf16) {
  const auto active = stated_number(source, "params_active");
  run_setup run;
  if (!active || !(*active > 0)) return run.why_not = "its parameters are not stated", run;
  const double total = std::max(*active, stated_number(source, "params_total").value_or(*active));
  const auto known = known_shape(source, total);
  const transformer& nearest = nearest_shape(*active);
  const transformer shape = known                   ? *known
                            : total > 1.2 * *active ? nearest_mixture(source, total, *active)
                                                    : nearest;
  const transformer widths = plain(shape);
  for (const transformer* model : {&shape, &widths, &nearest}) {
    run = {};
    if (const auto valid = validate(*model); !valid) {
      run.why_not = gpuplan::failure_text(valid.why()).c_str();
      continue;
    }
    run.setup.model = *model;
    run.setup.optimizer.clips_gradients = true;
    run.setup.sequence_length = stated_count(source, "seq_len", usual_sequence(source));
    choose_software(source, has_bf16, run);
    if (const auto valid = validate(run.setup); !valid) {
      run.why_not = gpuplan::failure_text(valid.why()).c_str();
      continue;
    }
    if (!known || model == &nearest) run.work = *active / active_parameters(*model);
    return run;
  }
  return run;
}

}  // namespace accuracy

#include "runs.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "measured_rows.hpp"
#include "notes.hpp"
#include "setups.hpp"

namespace accuracy {
namespace {

using gpuplan::flop_count;
using gpuplan::norm_kind;
using gpuplan::operator_kind;
using gpuplan::recompute_mode;
using gpuplan::training_pass;
using gpuplan::transformer;

// A value, or the reason why there is none.
template <class Value>
struct maybe {
  std::optional<Value> value;
  std::string why_not;

  maybe(Value the_value) : value(the_value) {}
  maybe(std::string reason) : why_not(std::move(reason)) {}
  explicit operator bool() const { return value.has_value(); }
  const Value& operator*() const { return *value; }
};

// ---- the model

void read_experts(const row& source, transformer& model) {
  const std::int64_t width = source.integer_or("expert_ffn", 0);
  const auto shared =
      gpuplan::detail::checked_product(source.integer_or("shared_experts", 0), width);
  model.moe = {.num_experts = source.integer_or("experts", 0),
               .num_experts_per_tok = source.integer_or("experts_per_token", 0),
               .moe_intermediate_size = width,
               // Beyond 64 bits it is beyond what `validate` takes.
               .shared_expert_intermediate_size =
                   shared.ok ? shared.value : std::numeric_limits<std::int64_t>::max(),
               .first_k_dense_layers = source.integer_or("dense_layers", 0)};
}

// Where a row cannot say it: the models of transformers that DeepSpeed's rows run, and OLMo's norm.
void read_options(const row& source, transformer& model) {
  const std::string_view options = source.text("framework_options");
  const std::string_view code = value_in(options, "model");
  if (code == "hf gpt2") model.fused_qkv = true;
  if (code == "hf qwen2") model.attention_bias = true;
  if (code == "hf bert") {
    model.kind = gpuplan::model_kind::encoder;
    model.norm_at = gpuplan::norm_position::after_residual;
    model.final_norm = false;
    model.embedding_norm = true;
    model.type_vocab_size = 2;
    model.head_dense = true;
    model.head_norm = true;
    model.lm_head_bias = true;
  }
  // torchtitan's layer norms have no bias, and one of them no weight either.
  const std::string_view norm = value_in(options, "norm");
  if (norm == "layernorm") model.norm_bias = false;
  if (norm == "np_layernorm") model.norm_affine = false;
}

maybe<transformer> model_of(const row& source) {
  if (source.blank("layers") || source.blank("hidden"))
    return std::string("its model's dimensions are blank");
  transformer model{.num_hidden_layers = source.integer_or("layers", 0),
                    .hidden_size = source.integer_or("hidden", 0),
                    .intermediate_size = source.integer_or("ffn", 0),
                    // How many heads share the width makes no difference to what is counted here.
                    .num_attention_heads = source.integer_or("heads", 1),
                    .num_key_value_heads = source.integer_or("kv_heads", 0),
                    .head_dim = source.integer_or("head_dim", 0),
                    .vocab_size = source.integer_or("vocab", 0)};
  if (source.text("attention") == "mla")
    model.mla = {.q_lora_rank = source.integer_or("q_lora_rank", 0),
                 .kv_lora_rank = source.integer_or("kv_lora_rank", 0),
                 .qk_nope_head_dim = source.integer_or("qk_nope_head_dim", 0),
                 .qk_rope_head_dim = source.integer_or("qk_rope_head_dim", 0),
                 .v_head_dim = source.integer_or("v_head_dim", 0)};
  const bool bias = source.flag("linear_bias");
  model.attention_bias = model.attention_out_bias = model.mlp_bias = bias;
  model.gated_mlp = source.flag("gated_mlp");
  model.norm = source.text("norm") == "layernorm" ? norm_kind::layer_norm : norm_kind::rms_norm;
  model.norm_bias = model.norm == norm_kind::layer_norm;
  model.position_rows = source.integer_or("learned_positions", 0);
  model.tied_embeddings = source.flag("tied_embeddings");
  if (source.text("causal") == "0") model.kind = gpuplan::model_kind::encoder;
  read_experts(source, model);
  read_options(source, model);
  if (const auto valid = validate(model); !valid)
    return std::string(gpuplan::failure_text(valid.why()).c_str());
  return model;
}

// ---- the time

// Sequences of one GPU in a second, by the row's own time where no other is given.
maybe<double> sequences_per_second(const row& source, std::optional<double> step) {
  const auto length = source.number("seq_len");
  if (!step) step = source.number("step_s");
  const auto batch = source.number("global_batch");
  const auto gpus = source.number("gpus");
  const auto tokens = source.number("tokens_per_s_per_gpu");
  if (!length || *length <= 0) return std::string("seq_len is blank or not positive");
  if (step && batch && gpus) {
    if (*step <= 0 || *gpus <= 0) return std::string("step_s and gpus must be positive");
    return *batch / *step / *gpus;
  }
  if (tokens) return *tokens / *length;
  return std::string("the row has no time of a step");
}

// ---- what is counted of one sequence

struct step_flops {
  flop_count model{};             // of one sequence
  flop_count hardware{};          // with what is computed twice
  bool is_hardware_rate = false;  // of the two, what the source prints as its rate
};

maybe<training_pass> pass_of(const row& source, const transformer& model) {
  training_pass pass{.sequence_length = source.integer_or("seq_len", 0)};
  const std::string_view recompute = source.text("recompute");
  if (recompute == "full") pass.recompute = recompute_mode::full;
  if (recompute == "selective") pass.recompute = recompute_mode::selective;
  if (const auto valid = validate(pass, model); !valid)
    return std::string(gpuplan::failure_text(valid.why()).c_str());
  // Sources count FlashAttention's second run of the scores as none.
  pass.fused_attention = false;
  return pass;
}

// Whether `recompute` says what is computed twice, in words that the library has.
bool knows_recomputation(const row& source) {
  const std::string_view recompute = source.text("recompute");
  return recompute == "none" || recompute == "full" || recompute == "selective";
}

const std::string unknown_recomputation =
    "what is recomputed, by the column, is none of none, selective and full";

// 6 x parameters and attention in full; the hardware's, where all is recomputed, 8 x parameters and
// 4/3 of attention: LLM Foundry's MFU and HFU, torchtitan's MFU.
maybe<step_flops> rule_of_thumb(const row& source, const transformer& model) {
  const auto pass = pass_of(source, model);
  if (!pass) return pass.why_not;
  step_flops flops{.model = rule_of_thumb_flops(model, *pass)};
  flops.hardware = flops.model;
  if ((*pass).recompute == recompute_mode::full) flops.hardware = flops.model * (4.0 / 3.0);
  if ((*pass).recompute == recompute_mode::selective)
    flops.hardware = flops.model + gpuplan::flops(model, *pass).recomputed();
  return flops;
}

// As the rule of thumb, of parameters that are not an embedding or tied to one: N as Kaplan et al.
// 2020 (arXiv 2001.08361, section 1.3) have it, and after them PaLM's MFU, which MegaScale (arXiv
// 2402.15627) reports.
maybe<step_flops> rule_of_thumb_without_embedding(const row& source, const transformer& model) {
  const auto flops = rule_of_thumb(source, model);
  if (!flops) return flops;
  const double embedding = static_cast<double>(gpuplan::parameters(model).embedding) *
                           static_cast<double>(source.integer_or("seq_len", 0));
  step_flops less = *flops;
  less.model = less.model - flop_count::from_value(6 * embedding);
  less.hardware = less.hardware -
                  flop_count::from_value((source.text("recompute") == "full" ? 8 : 6) * embedding);
  return less;
}

// Every matrix product. The hardware's with what the row recomputes: for GPT, Megatron-LM's 96 B s
// l h^2 (1 + s/6h + V/16lh) (Narayanan et al. 2021, arXiv 2104.04473, equation 3).
maybe<step_flops> products(const row& source, const transformer& model) {
  auto pass = pass_of(source, model);
  if (!pass) return pass.why_not;
  if (!knows_recomputation(source)) pass.value->recompute = recompute_mode::full;  // as the formula
  const gpuplan::flop_counts counts = flops(model, *pass);
  return step_flops{
      .model = counts.model(), .hardware = counts.hardware(), .is_hardware_rate = true};
}

// Megatron-Core's and Megatron-Bridge's own count (flop_utils.py): half of causal attention, layers
// of multi-token prediction, no routers. Releases of Megatron-Bridge before 26.06 leave out sliding
// windows, and take an MLP whose gate is not a SiLU for one without a gate.
maybe<step_flops> megatron_count(const row& source, transformer model) {
  add_unlisted_parts(source, model);
  const bool has_windows = model.sliding_window != 0;
  bool counts_windows = false;
  if (has_windows) {
    const std::string_view release = value_in(source.text("notes"), "container");
    if (release.empty()) return std::string("which release of Megatron-Bridge counted is not said");
    counts_windows = release >= "26.06";
    model.gated_mlp = counts_windows;
  }
  auto pass = pass_of(source, model);
  if (!pass) return pass.why_not;
  pass.value->pairs =
      counts_windows ? gpuplan::attention_pairs::visible : gpuplan::attention_pairs::causal_half;
  const gpuplan::flop_counts counts = flops(model, *pass);
  const gpuplan::operator_flops& router = counts[operator_kind::router];
  const auto uncounted = flop_count::from_value(router.forward + router.backward);
  return step_flops{.model = counts.model() - uncounted, .hardware = counts.hardware() - uncounted};
}

// 8 x parameters, by which BigScience counted hardware FLOPs until attention joined them; its notes
// say of which parameters.
maybe<step_flops> eight_per_parameter(double parameters, const row& source) {
  const double tokens = static_cast<double>(source.integer_or("seq_len", 0));
  return step_flops{.model = flop_count::from_value(6 * parameters * tokens),
                    .hardware = flop_count::from_value(8 * parameters * tokens),
                    .is_hardware_rate = true};
}

maybe<step_flops> step_flops_of(const row& source) {
  const std::string_view kind = source.text("tflops_kind");
  const std::string_view convention = source.text("flops_convention");
  const std::string_view notes = source.text("notes");
  if (kind == "hardware" && notes.find("size_in_B*4*2*") != std::string_view::npos) {
    if (const auto printed = source.number("params_printed"))
      return eight_per_parameter(*printed, source);
    return std::string("params_printed, by which its source counts, is blank");
  }
  const auto model = model_of(source);
  if (!model) return model.why_not;
  if (kind == "hardware" && notes.find("8*l*(12h^2+13h)") != std::string_view::npos) {
    const auto layers = gpuplan::layer_parameters(*model, gpuplan::layer_kind::dense).total();
    return eight_per_parameter(static_cast<double>(layers * (*model).layers()), source);
  }
  if (kind == "hardware" && convention == "full_attention") {
    return products(source, *model);
  }
  if (kind == "model" && convention == "full_attention")
    return source.text("source") == "megascale" ? rule_of_thumb_without_embedding(source, *model)
                                                : rule_of_thumb(source, *model);
  if (kind == "model" &&
      (convention == "causal_half" || source.text("source") == "nemo_megatron_bridge"))
    return megatron_count(source, *model);
  return "no formula is known that gives FLOPs of kind '" + std::string(kind) +
         "' and convention '" + std::string(convention) + "'";
}

// ---- rates

maybe<double> flops_per_second(const row& source, bool hardware, std::optional<double> step = {}) {
  const auto rate = sequences_per_second(source, step);
  if (!rate) return rate.why_not;
  const auto flops = step_flops_of(source);
  if (!flops) return flops.why_not;
  return *rate * (hardware ? (*flops).hardware : (*flops).model).value();
}

maybe<double> peak_of(const row& source) {
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (!gpu) return std::string(gpuplan::failure_text(gpu.why()).c_str());
  using gpuplan::number_format;
  const std::string_view precision = source.text("precision");
  for (const number_format format : {number_format::bf16,
                                     number_format::fp16,
                                     number_format::fp32,
                                     number_format::tf32,
                                     number_format::fp8,
                                     number_format::fp4}) {
    if (precision != text(format)) continue;
    const auto peak = gpuplan::peak(*gpu, format);
    if (!peak) return std::string(gpuplan::failure_text(peak.why()).c_str());
    return (*peak).value();
  }
  return "precision '" + std::string(precision) + "' is no number format";
}

prediction utilisation(const row& source, bool hardware, std::optional<double> step = {}) {
  const auto rate = flops_per_second(source, hardware, step);
  if (!rate) return rate.why_not;
  const auto peak = peak_of(source);
  if (!peak) return peak.why_not;
  return number(100 * *rate / *peak);
}

}  // namespace

described_run describe_run(const row& source) {
  const auto model = model_of(source);
  if (!model) return {.why_not = model.why_not};
  return {.shape = *model, .why_not = {}};
}

gpuplan::parallelism layout_in(const row& source) {
  return {.tensor_parallel = source.integer_or("tp", 1),
          .pipeline_parallel = source.integer_or("pp", 1),
          .expert_parallel = source.integer_or("ep", 1),
          .virtual_pipeline = source.integer_or("vpp", 1),
          .context_parallel = source.integer_or("cp", 1),
          .sequence_parallel = source.flag("sequence_parallel"),
          .zero_stage = static_cast<int>(source.integer_or("zero_stage", 0))};
}

gpuplan::batch_plan batch_in(const row& source) {
  return {.micro_batch = source.integer_or("micro_batch", 1),
          .data_parallel = source.integer_or("dp", 1),
          .accumulation = source.integer_or("grad_accum", 1)};
}

void add_unlisted_parts(const row& source, gpuplan::transformer& model) {
  const std::string_view notes = source.text("notes");
  if (const std::string_view layers = value_in(notes, "mtp"); !layers.empty())
    std::from_chars(layers.data(), layers.data() + layers.size(), model.mtp_layers);
  // openai/gpt-oss, config.json
  if (value_in(notes, "model").starts_with("GPT OSS") ||
      value_in(notes, "recipe").starts_with("gpt-oss")) {
    model.sliding_window = 128;
    model.global_layer_step = 2;
    model.clamped_gate_up = true;
  }
}

prediction run_parameters(const row& source) {
  if (source.text("source") == measured_source) {
    const described_setup described = describe_measured_run(source);
    if (!described.why_not.empty()) return described.why_not;
    return number(gpuplan::parameters(described.setup.model).total());
  }
  const auto model = model_of(source);
  if (!model) return model.why_not;
  return number(gpuplan::parameters(*model).total());
}

prediction run_tflops(const row& source) {
  const auto flops = step_flops_of(source);
  if (!flops) return flops.why_not;
  const auto rate = flops_per_second(source, (*flops).is_hardware_rate);
  if (!rate) return rate.why_not;
  return number(*rate / 1e12);
}

prediction run_mfu(const row& source, std::optional<double> step) {
  return utilisation(source, false, step);
}

prediction run_hfu(const row& source) {
  if (!knows_recomputation(source)) return unknown_recomputation;
  return utilisation(source, true);
}

}  // namespace accuracy

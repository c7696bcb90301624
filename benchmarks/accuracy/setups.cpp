#include "setups.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <charconv>
#include <string_view>
#include <system_error>

#include "configured_steps.hpp"
#include "measured_rows.hpp"
#include "steps.hpp"

namespace accuracy {
namespace {

using gpuplan::attention_kernel;
using gpuplan::optimizer_kind;
using gpuplan::optimizer_loop;
using gpuplan::training_setup;

template <class Value>
struct named {
  std::string_view name;
  Value value;
};

// The value of this name, or false.
template <class Value, std::size_t Size>
bool look_up(std::string_view name, const named<Value> (&values)[Size], Value& into) {
  for (const named<Value>& one : values) {
    if (one.name != name) continue;
    into = one.value;
    return true;
  }
  return false;
}

// What the catalogue's frameworks are not named after.
constexpr named<gpuplan::framework> codes[] = {
    {"plain_gpt", gpuplan::catalog::torch_gpt},
    {"plain_llama", gpuplan::catalog::torch_llama},
    {"plain_llama_fp32", gpuplan::catalog::torch_llama_fp32},
    {"plain_bert", gpuplan::catalog::torch_bert},
    {"plain_vit", gpuplan::catalog::torch_vit},
    {"hf:MistralForCausalLM", gpuplan::catalog::hugging_face_llama},
    {"hf:Qwen3ForCausalLM", gpuplan::catalog::hugging_face_qwen},
    {"hf:Olmo2ForCausalLM", gpuplan::catalog::hugging_face_olmo},
    {"hf:BertForMaskedLM", gpuplan::catalog::hugging_face_bert},
    {"hf:BertForSequenceClassification", gpuplan::catalog::hugging_face_bert},
    {"sbert:BertModel", gpuplan::catalog::hugging_face_bert},
    {"hf:RobertaForMaskedLM", gpuplan::catalog::hugging_face_roberta},
    {"hf:RobertaForSequenceClassification", gpuplan::catalog::hugging_face_roberta},
    {"sbert:RobertaModel", gpuplan::catalog::hugging_face_roberta},
    {"hf:MPNetForMaskedLM", gpuplan::catalog::hugging_face_mpnet},
    {"hf:MPNetForSequenceClassification", gpuplan::catalog::hugging_face_mpnet},
    {"sbert:MPNetModel", gpuplan::catalog::hugging_face_mpnet},
    {"hf:DistilBertForMaskedLM", gpuplan::catalog::hugging_face_distilbert},
    {"sbert:DistilBertModel", gpuplan::catalog::hugging_face_distilbert},
    {"hf:ViTForImageClassification", gpuplan::catalog::hugging_face_vit},
    {"hf:CLIPForImageClassification", gpuplan::catalog::hugging_face_clip},
    {"hf:SiglipForImageClassification", gpuplan::catalog::hugging_face_siglip},
};
constexpr named<gpuplan::precision_recipe> precisions[] = {
    {"fp32", gpuplan::fp32_precision},
    {"bf16", gpuplan::bf16_pure},
    {"autocast_bf16", gpuplan::bf16_mixed},
    {"autocast_fp16", gpuplan::fp16_mixed},
    {"bf16_autocast", gpuplan::bf16_under_autocast},
};
constexpr named<gpuplan::number_format> formats[] = {
    {"fp32", gpuplan::number_format::fp32},
    {"bf16", gpuplan::number_format::bf16},
    {"fp16", gpuplan::number_format::fp16},
};
constexpr named<attention_kernel> kernels[] = {
    {"flash", attention_kernel::flash},
    {"efficient", attention_kernel::efficient},
    {"math", attention_kernel::math},
    {"eager", attention_kernel::eager},
    {"sdpa", attention_kernel::automatic},
    {"flash+efficient", attention_kernel::automatic},  // layers with a window take another
};
constexpr named<optimizer_kind> optimizers[] = {
    {"sgd", optimizer_kind::sgd},
    {"sgd_momentum", optimizer_kind::sgd_momentum},
    {"adamw", optimizer_kind::adamw},
    {"adafactor", optimizer_kind::adafactor},
    {"muon", optimizer_kind::muon},
    {"rmsprop", optimizer_kind::rmsprop},
    {"adagrad", optimizer_kind::adagrad},
};
constexpr named<optimizer_loop> loops[] = {
    {"foreach", optimizer_loop::foreach},
    {"fused", optimizer_loop::fused},
    {"for_loop", optimizer_loop::parameter},
};
constexpr named<gpuplan::activation_function> activations[] = {
    {"silu", gpuplan::activation_function::silu},
    {"gelu", gpuplan::activation_function::gelu},
    {"gelu_tanh", gpuplan::activation_function::gelu_tanh},
    {"relu", gpuplan::activation_function::relu},
    {"quick_gelu", gpuplan::activation_function::quick_gelu},
};

std::string not_known(std::string_view column, std::string_view value) {
  return "what " + std::string(column) + " '" + std::string(value) + "' takes is not known";
}

template <class Value, std::size_t Size>
std::string read_word(const row& source,
                      std::string_view column,
                      const named<Value> (&values)[Size],
                      Value& into) {
  return look_up(source.text(column), values, into) ? std::string()
                                                    : not_known(column, source.text(column));
}

// Windows, which no count of operations sees; the configurations of Gemma have one by default.
void read_window(const row& source, gpuplan::transformer& model) {
  const std::string_view code = source.text("code");
  model.sliding_window = source.integer_or("sliding_window", 0);
  const auto set_default = [&](std::int64_t window, std::int64_t step) {
    if (model.sliding_window == 0) model.sliding_window = window;
    model.global_layer_step = step;
  };
  if (code == "hf:Gemma2ForCausalLM") set_default(4096, 2);
  if (code == "hf:Gemma3ForCausalLM") set_default(512, 6);
}

// Whether this version of PyTorch, "2.11.0+cu130", is one before 2.15.
bool is_before_2_15(std::string_view version) {
  int number[2]{};  // major, minor
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& one : number) {
    const auto [rest, error] = std::from_chars(at, end, one);
    if (error != std::errc{} || rest == end) return false;
    at = rest + 1;
  }
  return number[0] == 2 && number[1] < 15;
}

// The framework of which a column names the code: "hf:X" is the catalogue's "transformers, X".
bool look_up_framework(std::string_view code, gpuplan::framework& into) {
  if (look_up(code, codes, into)) return true;
  constexpr std::string_view begin = "transformers, ";
  for (const gpuplan::framework* one : gpuplan::catalog::all_frameworks) {
    const std::string_view name = one->name;
    if (code.substr(0, 3) != "hf:" || name.substr(0, begin.size()) != begin) continue;
    if (name.substr(begin.size()) != code.substr(3)) continue;
    into = *one;
    return true;
  }
  return false;
}

// What the columns say beside the model and what trains of it.
std::string read_setup(const row& source, training_setup& setup) {
  if (!look_up_framework(source.text("code"), setup.framework))
    return not_known("code", source.text("code"));
  for (const std::string& why :
       {read_numerics(source, setup),
        read_word(source, "attention", kernels, setup.attention),
        read_word(source, "activation", activations, setup.model.hidden_act)})
    if (!why.empty()) return why;
  // The tables call by the same word what these classes compute in operators of their own.
  if (setup.model.hidden_act == gpuplan::activation_function::gelu_tanh)
    for (const std::string_view of : {"hf:GPT2", "hf:GPTJ", "hf:Phi", "hf:T5"})
      if (source.text("code").substr(0, of.size()) == of)
        setup.model.hidden_act = gpuplan::activation_function::gelu_new;
  // T5 ties its head whatever its configuration says, which tells the versions apart.
  if (setup.framework.implementation.scales_decoder_outputs && !source.flag("tied_embeddings"))
    setup.framework = gpuplan::catalog::hugging_face_t5_1_1;
  if (const std::string why = read_parallel(source, setup); !why.empty()) return why;
  read_version(source, setup);
  if (source.text("loss") == "cross_entropy_fp32_logits")
    setup.framework.implementation.logits = gpuplan::logits_kind::to_fp32;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.target_length = source.integer_or("decoder_seq_len", 0);
  setup.encodings = source.integer_or("encodings", 1);
  setup.dropout = source.number("dropout").value_or(0);
  // Sentence encoders are always given one.
  setup.padding_mask = source.flag("padding_mask") || source.text("code").starts_with("sbert:");
  read_window(source, setup.model);
  return {};
}

}  // namespace

std::string read_parallel(const row& source, training_setup& setup) {
  const std::string_view parallel = source.text("parallel");
  if (parallel == "ddp" || parallel == "zero1") {
    setup.parallelism.zero_stage = parallel == "zero1" ? 1 : 0;
    setup.framework.engine.gradients_are_views = source.flag("ddp_bucket_view");
  } else if (parallel == "fsdp1_full" || parallel == "fsdp1_grad_op" || parallel == "fsdp2_full" ||
             parallel == "fsdp2_grad_op") {
    const bool is_first = parallel.substr(0, 5) == "fsdp1";
    setup.parallelism.zero_stage = parallel.substr(6) == "full" ? 3 : 2;
    setup.framework.engine.is =
        is_first ? &gpuplan::engine_classes::fsdp1 : &gpuplan::engine_classes::fsdp2;
    setup.framework.engine.reduces_every_micro_batch = source.text("every") != "0";
    setup.framework.engine.original_parameters = source.text("orig") != "0";
    const std::string_view gathered = source.text("fsdp_param_dtype");
    const std::string_view reduced = source.text("fsdp_reduce_dtype");
    // Its own formats are what the setup says of casts. Autocast is beside those of FSDP 1, whose
    // adapters need both.
    if (setup.precision.autocast() && (!is_first || gathered.empty()))
      return not_known("precision", source.text("precision"));
    if (!gathered.empty() && !look_up(gathered, formats, setup.precision.compute))
      return not_known("fsdp_param_dtype", gathered);
    if (gathered.empty()) setup.precision.compute = setup.precision.weights;
    setup.precision.reduced = is_first ? setup.precision.compute : setup.precision.weights;
    if (!reduced.empty() && !look_up(reduced, formats, setup.precision.reduced))
      return not_known("fsdp_reduce_dtype", reduced);
  } else if (parallel.substr(0, 2) == "tp") {
    setup.parallelism.tensor_parallel = source.integer_or("world_size", 1);
    setup.parallelism.sequence_parallel = parallel != "tp";
    setup.framework.implementation.loss_parallel = parallel == "tp_sp_loss";
  } else if (parallel != "single") {
    return not_known("parallel", parallel);
  }
  return {};
}

void read_version(const row& source, training_setup& setup) {
  setup.framework.implementation.keeps_workspaces =
      setup.framework.implementation.random_states_on_host =
          is_before_2_15(source.text("torch_version"));
}

std::string read_numerics(const row& source, training_setup& setup) {
  setup.optimizer.clips_gradients = source.flag("grad_clip");
  for (const std::string& why : {read_word(source, "precision", precisions, setup.precision),
                                 read_word(source, "optimizer", optimizers, setup.optimizer.kind),
                                 read_word(source, "optimizer_impl", loops, setup.optimizer.loop)})
    if (!why.empty()) return why;
  return {};
}

void refuse_invalid(described_setup& described) {
  if (!described.why_not.empty()) return;
  if (const auto valid = validate(described.setup); !valid)
    described.why_not = gpuplan::failure_text(valid.why()).c_str();
}

described_setup describe_setup(const row& source) {
  if (!source.blank("config_file")) return describe_configured_step(source);
  described_setup described;
  const described_step step = describe_step(source);
  described.why_not = step.why_not;
  if (!described.why_not.empty()) return described;
  described.setup.model = step.shape;
  described.setup.trains = step.pass.trains;
  described.setup.recompute = step.pass.recompute;
  described.why_not = read_setup(source, described.setup);
  described.plan = {.micro_batch = source.integer_or("micro_batch", 1),
                    .data_parallel = described.setup.parallelism.tensor_parallel > 1
                                         ? 1
                                         : source.integer_or("world_size", 1),
                    .accumulation = source.integer_or("accumulation", 1)};
  if (described.why_not.empty())
    if (const auto valid = validate(described.setup, described.plan); !valid)
      described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

described_setup describe_measured_run(const row& run) {
  const csv_file file = step_of_run(run);
  return describe_setup(row(file, file.rows[0]));
}

}  // namespace accuracy

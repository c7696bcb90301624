#pragma once

// The sizes of a model as Megatron-LM's flags, in both directions.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io::detail {

struct megatron_size {
  const char* flag = "";
  std::int64_t transformer::*member = nullptr;
};
inline constexpr megatron_size megatron_sizes[] = {
    {"--num-layers", &transformer::num_hidden_layers},
    {"--hidden-size", &transformer::hidden_size},
    {"--num-attention-heads", &transformer::num_attention_heads},
    {"--ffn-hidden-size", &transformer::intermediate_size},
    {"--kv-channels", &transformer::head_dim},
    {"--mtp-num-layers", &transformer::mtp_layers},
};
struct megatron_expert_size {
  const char* flag = "";
  std::int64_t expert_mixture::*member = nullptr;
};
inline constexpr megatron_expert_size megatron_expert_sizes[] = {
    {"--num-experts", &expert_mixture::num_experts},
    {"--moe-router-topk", &expert_mixture::num_experts_per_tok},
    {"--moe-ffn-hidden-size", &expert_mixture::moe_intermediate_size},
    {"--moe-shared-expert-intermediate-size", &expert_mixture::shared_expert_intermediate_size},
    {"--moe-router-num-groups", &expert_mixture::n_group},
    {"--moe-router-group-topk", &expert_mixture::topk_group},
};
struct megatron_latent_size {
  const char* flag = "";
  std::int64_t latent_attention::*member = nullptr;
  std::int64_t otherwise = 0;  // Megatron-Core's default
};
inline constexpr megatron_latent_size megatron_latent_sizes[] = {
    {"--q-lora-rank", &latent_attention::q_lora_rank, 0},
    {"--kv-lora-rank", &latent_attention::kv_lora_rank, 32},
    {"--qk-head-dim", &latent_attention::qk_nope_head_dim, 128},
    {"--qk-pos-emb-head-dim", &latent_attention::qk_rope_head_dim, 64},
    {"--v-head-dim", &latent_attention::v_head_dim, 128},
};

/// The tokens of published tokenizers, by what a name of the Hub begins with behind its owner: of
/// these a model's configuration has as many. (Of Qwen and DeepSeek it has more.)
struct megatron_tokenizer {
  const char* name = "";
  std::int64_t tokens = 0;
};
inline constexpr megatron_tokenizer megatron_tokenizers[] = {
    {"gpt2", 50'257},
    {"llama-2-", 32'000},
    {"meta-llama-3", 128'256},
    {"llama-3.1-", 128'256},
    {"llama-3.2-1b", 128'256},
    {"llama-3.2-3b", 128'256},
    {"llama-3.3-", 128'256},
    {"mixtral-8x7b", 32'000},
};
/// How many tokens a tokenizer has that is named so; 0: nobody knows.
[[nodiscard]] inline std::int64_t tokens_of_megatron_tokenizer(std::string_view model) {
  const std::string_view name = model.substr(model.rfind('/') + 1);
  for (const megatron_tokenizer& each : megatron_tokenizers) {
    const std::string_view begin = each.name;
    bool is_it = name.size() >= begin.size();
    for (std::size_t i = 0; i < begin.size() && is_it; ++i)
      is_it = gpuplan::detail::lower(name[i]) == begin[i];
    if (is_it) return each.tokens;
  }
  return 0;
}

/// Which layers have experts, by Megatron's expression: [0]*3+[1]*58, ([1]*3+[0])*2, or lists of
/// 0 and 1 in any such sum and product. Empty where it is another, or has more than 2^16 layers.
class layer_pattern {
 public:
  explicit layer_pattern(std::string_view text) : text_(text) {}
  std::vector<char> read() {
    std::vector<char> all = sum(0);
    skip();
    if (is_wrong_ || at_ != text_.size()) all.clear();
    return all;
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool takes(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::vector<char> sum(int depth) {
    std::vector<char> all = product(depth);
    while (!is_wrong_ && takes('+')) {
      const std::vector<char> more = product(depth);
      is_wrong_ = is_wrong_ || all.size() + more.size() > most;
      if (!is_wrong_) all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  std::vector<char> product(int depth) {
    std::vector<char> once;
    if (takes('(')) {
      is_wrong_ = is_wrong_ || depth > 16;
      if (!is_wrong_) once = sum(depth + 1);
      is_wrong_ = is_wrong_ || !takes(')');
    } else if (takes('[')) {
      do {
        skip();
        const char c = at_ < text_.size() ? text_[at_++] : '\0';
        is_wrong_ = is_wrong_ || (c != '0' && c != '1') || once.size() >= most;
        once.push_back(c == '1' ? 1 : 0);
      } while (!is_wrong_ && takes(','));
      is_wrong_ = is_wrong_ || !takes(']');
    } else {
      is_wrong_ = true;
    }
    while (!is_wrong_ && takes('*')) {
      skip();
      std::size_t times = 0;
      const std::size_t from = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && times < most)
        times = times * 10 + static_cast<std::size_t>(text_[at_++] - '0');
      is_wrong_ = at_ == from || times * once.size() > most;
      if (is_wrong_) break;
      spent_ += times + times * once.size();
      is_wrong_ = spent_ > 16 * most;  // *1*1*1... would copy for hours
      if (is_wrong_) break;
      std::vector<char> all;
      for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
      once = std::move(all);
    }
    return once;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t spent_ = 0;
  bool is_wrong_ = false;
};

/// What gpt-oss clamps gate and up to: swiglu_limit of its config.json.
inline constexpr double bound_of_gpt_oss = 7;

class megatron_shape_reader {
 public:
  megatron_shape_reader(settings_reader& from, read_config& to) : from_(from), to_(to) {}

  void read() {
    for (const auto& [flag, member] : megatron_sizes)
      if (const auto is = from_.integer(flag)) model_.*member = *is;
    read_attention();
    read_mlp();
    read_norms();
    read_experts();
    read_ends();
    read_vocabulary();
    doubt_the_rest();
    if (is_hybrid() || !has_all_sizes()) return;
    const auto valid = validate(model_);
    if (valid)
      to_.config.shape = model_;
    else
      from_.remark_on(remark::kind::contradicts,
                      "--num-layers",
                      std::string("with the other sizes it makes no model: ") +
                          std::string(failure_text(valid.why()).c_str()));
  }

 private:
  bool flag(const char* name) {
    const auto is = from_.flag(name);
    return is && *is;
  }
  void doubt(const char* name, std::string text) {
    from_.remark_on(remark::kind::doubtful, name, std::move(text));
  }
  void read_attention() {
    model_.fused_qkv = true;
    const auto groups = from_.integer("--num-query-groups");
    const bool is_grouped = flag("--group-query-attention");
    if (is_grouped && groups) model_.num_key_value_heads = *groups;
    if (is_grouped && !groups) model_.num_key_value_heads = 1;  // Megatron's default
    if (groups && !is_grouped)
      from_.remark_on(remark::kind::missing,
                      "--num-query-groups",
                      "does nothing without --group-query-attention");
    const bool has_biases = !flag("--disable-bias-linear");
    model_.attention_out_bias = model_.mlp_bias = has_biases;
    model_.attention_bias = flag("--add-qkv-bias") || has_biases;
    const bool is_latent = flag("--multi-latent-attention");
    for (const auto& [name, member, otherwise] : megatron_latent_sizes) {
      const auto is = from_.integer(name);
      if (is_latent) model_.mla.*member = is ? *is : otherwise;
    }
    if (is_latent) model_.num_key_value_heads = 0;
    if (is_latent) model_.head_dim = 0;
    const bool has_qk_norm = flag("--qk-layernorm");
    if (has_qk_norm && !is_latent) model_.qk_norm = qk_norm_scope::head;
    model_.attention_sinks = from_.text("--softmax-type") == "learnable";
    read_window();
    for (const char* const name : {"--experimental-attention-variant",
                                   "--attention-output-gate",
                                   "--qk-l2-norm",
                                   "--linear-attention-freq"})
      if (from_.find(name, true) != nullptr)
        doubt(name, "is another attention than the estimate knows");
  }
  void read_window() {
    const value* const window = from_.find("--window-size", true);
    const auto step = from_.integer("--window-attn-skip-freq");
    if (window == nullptr) return;
    // "(127, 0)": tokens before and behind
    const std::string text = window->text() != nullptr      ? *window->text()
                             : window->integer() != nullptr ? std::to_string(*window->integer())
                                                            : std::string();
    std::int64_t before = 0;
    std::size_t at = text.find_first_of("0123456789");
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && before < (1 << 30); ++at)
      before = before * 10 + (text[at] - '0');
    if (text.find_first_of("0123456789") == std::string::npos ||
        text.find('-') != std::string::npos)
      return doubt("--window-size", "is " + shown(*window) + "; two numbers, 127,0, are taken");
    model_.sliding_window = before + 1;
    if (step && *step > 1) model_.global_layer_step = *step;
  }
  void read_mlp() {
    model_.gated_mlp = flag("--swiglu");
    model_.hidden_act = model_.gated_mlp ? activation_function::silu : activation_function::gelu;
    if (flag("--openai-gelu")) model_.hidden_act = activation_function::gelu_tanh;
    if (flag("--squared-relu")) {
      model_.hidden_act = activation_function::relu_squared;
      doubt("--squared-relu", "the estimate counts two operators, where Megatron compiles one");
    }
    if (flag("--quick-geglu")) {
      model_.gated_mlp = true;
      model_.hidden_act = activation_function::quick_gelu;
    }
    if (const auto bound = from_.number("--activation-func-clamp-value")) {
      model_.clamped_gate_up = model_.gated_mlp && from_.has("--num-experts");
      if (!model_.clamped_gate_up)
        doubt("--activation-func-clamp-value",
              "is of an MLP that the estimate does not clamp; gated experts are taken");
      else if (*bound != bound_of_gpt_oss)
        doubt("--activation-func-clamp-value",
              "is " + decimal(*bound, cell::shortest) + "; what is written has 7, gpt-oss' bound");
    }
    const std::int64_t width = model_.hidden_size;
    if (model_.intermediate_size == 0 && width <= most_of_a_width)
      model_.intermediate_size = model_.gated_mlp ? 4 * width * 2 / 3 / 64 * 64 : 4 * width;
  }
  void read_norms() {
    const std::string is = from_.text("--normalization");
    if (!is.empty() && is != "RMSNorm" && is != "LayerNorm")
      doubt("--normalization", "is " + shown(value(is)) + "; LayerNorm or RMSNorm is taken");
    model_.norm = is == "RMSNorm" ? norm_kind::rms_norm : norm_kind::layer_norm;
    model_.norm_bias = model_.norm == norm_kind::layer_norm;
    if (flag("--apply-residual-connection-post-layernorm"))
      doubt("--apply-residual-connection-post-layernorm", "the estimate has the norms before");
  }
  void read_experts() {
    expert_mixture& moe = model_.moe;
    moe.num_experts_per_tok = 2;  // Megatron-Core's default
    for (const auto& [name, member] : megatron_expert_sizes)
      if (const auto is = from_.integer(name)) moe.*member = *is;
    moe.shared_expert_gate = flag("--moe-shared-expert-gate");
    moe.router_bias = flag("--moe-router-enable-expert-bias");
    const value* const frequency = from_.find("--moe-layer-freq", true);
    if (moe.num_experts == 0) {
      moe = {};
      return;
    }
    if (moe.moe_intermediate_size == 0) moe.moe_intermediate_size = model_.intermediate_size;
    if (frequency == nullptr) return;
    if (const std::int64_t* const step = frequency->integer()) {
      if (*step < 1 || *step > most_of_a_width)
        return doubt("--moe-layer-freq", "is " + shown(*frequency) + "; at least 1 is taken");
      moe.moe_layer_step = *step;
      if (*step > 1)
        doubt("--moe-layer-freq",
              "begins with the first layer; the estimate with the last of so many");
      return;
    }
    const std::vector<char> layers =
        layer_pattern(frequency->text() != nullptr ? *frequency->text() : "").read();
    if (layers.empty() || layers.size() != static_cast<std::size_t>(model_.num_hidden_layers))
      return doubt("--moe-layer-freq",
                   "is " + shown(*frequency) + "; a list of 0 and 1 for each layer is taken");
    const std::int64_t first = std::find(layers.begin(), layers.end(), char{1}) - layers.begin();
    for (std::int64_t step = 1; step <= 64; ++step)
      for (const std::int64_t dense : {first, std::int64_t{0}}) {
        transformer tried = model_;
        tried.moe.moe_layer_step = step;
        tried.moe.first_k_dense_layers = dense;
        bool is_so = true;
        for (std::size_t i = 0; i < layers.size() && is_so; ++i)
          is_so = tried.has_experts(static_cast<std::int64_t>(i)) == (layers[i] == 1);
        if (!is_so) continue;
        // what is dense because of the step alone is not said twice
        model_.moe = tried.moe;
        if (step > 1 && dense < step) model_.moe.first_k_dense_layers = 0;
        return;
      }
    doubt("--moe-layer-freq", "is another order of layers than the estimate knows");
  }
  static bool is_known_position(const std::string& positions) {
    for (const char* const one : {"rope", "yarn", "mrope", "relative", "none"})
      if (positions == one) return true;
    return false;
  }
  void read_ends() {
    const std::string positions = from_.text("--position-embedding-type");
    const auto rows = from_.integer("--max-position-embeddings");
    const bool is_rotary = flag("--use-rotary-position-embeddings");
    if ((positions.empty() && !is_rotary) || positions == "learned_absolute")
      model_.position_rows = rows ? *rows : 0;
    else if (!positions.empty() && !is_known_position(positions))
      doubt("--position-embedding-type",
            "is " + shown(value(positions)) +
                "; learned_absolute, rope, yarn, mrope, relative or none is taken");
    else if (positions == "relative")
      doubt("--position-embedding-type", "is relative, for which the estimate has nothing");
    model_.tied_embeddings = !flag("--untie-embeddings-and-output-weights");
  }
  void read_vocabulary() {
    const auto padded = from_.integer("--padded-vocab-size");
    const auto unpadded = from_.integer("--vocab-size");
    const auto multiple = from_.integer("--make-vocab-size-divisible-by");
    const known<std::int64_t> tensor = to_.config.tensor_parallel;
    const std::string tokenizer = from_.text("--tokenizer-type");
    const bool is_gpt2 = tokenizer == "GPT2BPETokenizer" ||
                         (tokenizer.empty() && from_.find("--merge-file", true) != nullptr);
    if (padded) {
      model_.vocab_size = *padded;
      return;
    }
    const std::string model = from_.text("--tokenizer-model");
    const std::int64_t published =
        tokenizer == "HuggingFaceTokenizer" ? tokens_of_megatron_tokenizer(model) : 0;
    if (unpadded || is_gpt2 || published != 0) {
      const std::int64_t tokens = unpadded ? *unpadded : is_gpt2 ? 50'257 : published;
      if (!unpadded && is_gpt2)
        doubt("--vocab-size",
              "is not there; GPT2BPETokenizer has 50257 tokens where its own files are taken");
      else if (!unpadded)
        doubt("--vocab-size",
              "is not there; the tokenizer of " + printable(model) + " has " +
                  std::to_string(tokens) + " tokens");
      const std::int64_t by = std::min(multiple ? *multiple : 128, most_of_a_width) *
                              std::min(tensor ? *tensor : 1, most_of_a_width);
      model_.vocab_size = (tokens + by - 1) / by * by;
    }
  }
  void doubt_the_rest() {
    for (const char* const name : {"--heterogeneous-layers-config-path",
                                   "--heterogeneous-layers-config-encoded-json",
                                   "--moe-latent-size",
                                   "--spec",
                                   "--yaml-cfg"})
      if (from_.find(name, true) != nullptr)
        doubt(name, "makes another model than the other flags say");
  }

  // Where some are there, which are not is said.
  bool has_all_sizes() {
    const char* const flags[] = {
        "--num-layers", "--hidden-size", "--num-attention-heads", "--vocab-size"};
    const std::int64_t are[] = {model_.num_hidden_layers,
                                model_.hidden_size,
                                model_.num_attention_heads,
                                model_.vocab_size};
    const char* first = nullptr;
    std::string others;
    for (int at = 0; at < 4; ++at) {
      if (are[at] != 0) continue;
      if (first != nullptr) others += ", nor " + std::string(flags[at]);
      if (first == nullptr) first = flags[at];
    }
    if (first == nullptr) return true;
    if (are[0] == 0 && are[1] == 0 && are[2] == 0) return false;
    from_.remark_on(remark::kind::missing,
                    first,
                    "is not there" + others +
                        (are[0] != 0 && are[1] != 0 && are[2] != 0
                             ? ", since the tokenizer says it; give its number of tokens, without "
                               "which nobody knows the model's size"
                             : ", without which nobody knows the model's size"));
    return false;
  }

  // Layers of several kinds, of which a shape of the other flags would say nothing: who names the
  // model has its shape.
  bool is_hybrid() {
    std::string sizes;
    for (const char* const name :
         {"--mamba-state-dim", "--mamba-head-dim", "--mamba-num-heads", "--mamba-num-groups"})
      if (from_.find(name, true) != nullptr)
        sizes += (sizes.empty() ? ", as " : ", ") + std::string(name);
    bool is = false;
    for (const char* const name : {"--hybrid-layer-pattern",
                                   "--hybrid-override-pattern",
                                   "--hybrid-attention-ratio",
                                   "--hybrid-mlp-ratio",
                                   "--is-hybrid-model"}) {
      const value* const said = from_.find(name, true);
      const double* const share = said != nullptr ? said->number() : nullptr;
      if (said == nullptr || said->is_nothing() || (share != nullptr && *share == 0)) continue;
      if (const std::int64_t* const none = said->integer(); none != nullptr && *none == 0) continue;
      if (const bool* const wanted = said->flag(); wanted != nullptr && !*wanted) continue;
      if (!is)
        from_.remark_on(remark::kind::missing,
                        name,
                        "makes layers of Mamba-2, attention and MLPs" + sizes +
                            ", whose shape is not read of flags; name the model, which has it");
      is = true;
    }
    return is;
  }

  static constexpr std::int64_t most_of_a_width = std::int64_t{1} << 20;

  settings_reader& from_;
  read_config& to_;
  transformer model_{};
};

/// Why Megatron-LM's flags cannot say such a model, or Megatron does not divide it so; or nothing.
[[nodiscard]] inline std::string flaw_of_shape_for_megatron(const transformer& model,
                                                            const training_config& config) {
  if (const auto valid = validate(model); !valid)
    return "shape makes no model: " + std::string(failure_text(valid.why()).c_str());
  const bool is_layer_norm = model.norm == norm_kind::layer_norm;
  const std::int64_t tensor_parallel = config.tensor_parallel ? *config.tensor_parallel : 1;
  parallelism layout;
  layout.pipeline_parallel = config.pipeline_parallel ? *config.pipeline_parallel : 1;
  layout.virtual_pipeline = config.virtual_pipeline ? *config.virtual_pipeline : 1;
  if (config.split) layout.split = *config.split;
  const bool is_split =
      validate(layout) && !gpuplan::detail::failed(gpuplan::detail::flaw_of_equal_stages(
                              layout, model.num_hidden_layers));
  const expert_mixture& moe = model.moe;
  if (model.hybrid_pattern)
    return "shape has hybrid_pattern " + shown(value(std::string(model.hybrid_pattern.letters))) +
           ", where none, attention and an MLP or experts in each layer, is taken";
  if (model.full_attention_interval != 0)
    return "shape has full_attention_interval " + std::to_string(model.full_attention_interval) +
           ", where 0, attention in all layers, is taken";
  if (moe.moe_latent_size != 0)
    return "shape has moe_latent_size " + std::to_string(moe.moe_latent_size) +
           ", where 0 is taken";
  if ((moe.n_group != 0) != (moe.topk_group != 0))
    return "shape has n_group " + std::to_string(moe.n_group) + " and topk_group " +
           std::to_string(moe.topk_group) + ", where both or none are taken";
  const std::pair<bool, const char*> wrong[] = {
      {model.attention_gate, "attention_gate true, where false is taken"},
      {moe.router_bias && model.mlp_bias,
       "router_bias true beside mlp_bias true, a bias of the router's products, where false is "
       "taken"},
      {model.kind != model_kind::decoder, "kind, where a decoder is taken"},
      {model.norm_at != norm_position::before, "norm_at, where norms before are taken"},
      {model.norm_bias != is_layer_norm || !model.norm_affine, "norm_bias or norm_affine"},
      {!model.final_norm || model.embedding_norm || model.layer_scale || model.head_norm, "norms"},
      {model.norms_per_layer != 2 || model.parallel_attention, "parallel_attention"},
      {model.qk_norm == qk_norm_scope::full_width || model.qk_norm_bias, "qk_norm"},
      {model.is_latent() && model.qk_norm != qk_norm_scope::none, "qk_norm with latent attention"},
      {model.attention_out_bias != model.mlp_bias, "attention_out_bias other than mlp_bias"},
      {model.mlp_bias && !model.attention_bias, "mlp_bias without attention_bias"},
      {model.gated_mlp && model.hidden_act != activation_function::silu &&
           model.hidden_act != activation_function::quick_gelu,
       "hidden_act, where silu or quick_gelu is taken"},
      {!model.gated_mlp && model.hidden_act != activation_function::gelu &&
           model.hidden_act != activation_function::gelu_tanh &&
           model.hidden_act != activation_function::gelu_new &&
           model.hidden_act != activation_function::relu_squared,
       "hidden_act, where gelu, gelu_tanh, gelu_new or relu_squared is taken"},
      {model.head != head_kind::language_model || model.lm_head_bias || model.pooler, "head"},
      {model.type_vocab_size != 0 || model.embedding_dim != 0 ||
           model.relative_attention_buckets != 0 || model.other_parameters != 0,
       "embedding_dim, type_vocab_size, relative_attention_buckets or other_parameters"},
      {model.vocab_size < 1 || model.vocab_size % tensor_parallel != 0,
       "vocab_size, where a multiple of tensor_parallel is taken"},
      {model.num_attention_heads % tensor_parallel != 0,
       "num_attention_heads, where a multiple of tensor_parallel is taken"},
      {model.moe.num_experts != 0 && model.mlp_bias && tensor_parallel > 1,
       "mlp_bias with experts, where tensor_parallel 1 is taken"},
      {!is_split,
       "num_hidden_layers, where a multiple of pipeline_parallel * virtual_pipeline is taken, with "
       "the ends that split counts as layers, or what it states adds up to"},
      {model.position_rows != 0 && config.sequence_length &&
           model.position_rows < *config.sequence_length,
       "position_rows, where at least sequence_length is taken"},
      {model.position_rows != 0 && model.mtp_layers != 0,
       "mtp_layers, which are taken without position_rows"},
  };
  for (const auto& [is, what] : wrong)
    if (is) return std::string("shape has ") + what;
  return "";
}

/// Flags and their values; an empty value: the flag alone.
using megatron_words = std::vector<std::pair<std::string, std::string>>;

/// The flags of a model that has no flaw. The length is what positions must reach.
inline void put_shape(const transformer& model, std::int64_t length, megatron_words& to) {
  const auto put = [&to](const char* flag, std::int64_t is) {
    if (is != 0) to.emplace_back(flag, std::to_string(is));
  };
  const auto put_word = [&to](const char* flag, const char* word) { to.emplace_back(flag, word); };
  const auto put_if = [&](bool is, const char* flag) {
    if (is) put_word(flag, "");
  };
  for (const auto& [flag, member] : megatron_sizes)
    if (member != &transformer::head_dim || !model.is_latent()) put(flag, model.*member);
  if (!model.is_latent() && model.num_key_value_heads != 0) {
    put_word("--group-query-attention", "");
    put("--num-query-groups", model.num_key_value_heads);
  }
  put_if(model.is_latent(), "--multi-latent-attention");
  if (model.is_latent())
    for (const auto& [flag, member, otherwise] : megatron_latent_sizes)
      put(flag, model.mla.*member);
  put_if(!model.mlp_bias, "--disable-bias-linear");
  put_if(model.attention_bias && !model.mlp_bias, "--add-qkv-bias");
  put_if(model.qk_norm == qk_norm_scope::head, "--qk-layernorm");
  if (model.attention_sinks) put_word("--softmax-type", "learnable");
  if (model.sliding_window != 0) {
    to.emplace_back("--window-size", std::to_string(model.sliding_window - 1) + ",0");
    put("--window-attn-skip-freq", model.global_layer_step);
  }
  put_if(model.hidden_act == activation_function::silu, "--swiglu");
  put_if(model.hidden_act == activation_function::quick_gelu, "--quick-geglu");
  if (model.clamped_gate_up)
    put_word("--activation-func-clamp-value", decimal(bound_of_gpt_oss, cell::shortest).c_str());
  put_if(model.hidden_act == activation_function::gelu_tanh ||
             model.hidden_act == activation_function::gelu_new,
         "--openai-gelu");
  put_if(model.hidden_act == activation_function::relu_squared, "--squared-relu");
  put_word("--normalization", model.norm == norm_kind::rms_norm ? "RMSNorm" : "LayerNorm");
  const expert_mixture& moe = model.moe;
  if (moe.num_experts != 0) {
    for (const auto& [flag, member] : megatron_expert_sizes) put(flag, moe.*member);
    put_if(moe.shared_expert_gate, "--moe-shared-expert-gate");
    if (moe.router_bias) {
      put_word("--moe-router-score-function", "sigmoid");  // without which it stops
      put_word("--moe-router-enable-expert-bias", "");
    }
    put_if(moe.num_experts_per_tok == 1, "--moe-router-pre-softmax");  // a softmax of one is 1
    if (moe.first_k_dense_layers != 0 || moe.moe_layer_step != 1) {
      std::string layers;
      for (std::int64_t i = 0; i < model.num_hidden_layers; ++i)
        layers += (i == 0 ? "[" : ",") + std::string(model.has_experts(i) ? "1" : "0");
      to.emplace_back("--moe-layer-freq", layers + "]");
    }
  }
  put_word("--position-embedding-type", model.position_rows != 0 ? "learned_absolute" : "rope");
  put("--max-position-embeddings", model.position_rows != 0 ? model.position_rows : length);
  put_if(!model.tied_embeddings, "--untie-embeddings-and-output-weights");
  put("--vocab-size", model.vocab_size);
  put("--make-vocab-size-divisible-by", 1);
}

}  // namespace gpuplan::io::detail

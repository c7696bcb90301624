#pragma once

// The shape of one transformer: plain data in Hugging Face's words.

#include <gpuplan/sequence_mixers.hpp>

#include <cstdint>

namespace gpuplan {

/// What a stack of layers reads, and how its tokens see each other.
enum class model_kind {
  decoder,          // every token sees those before it
  encoder,          // every token sees all
  encoder_decoder,  // a decoder whose layers also read an encoder's output
  vision            // an encoder of image patches
};

enum class norm_kind { rms_norm, layer_norm };

/// Where a layer normalises.
enum class norm_position {
  before,          // the input of attention and MLP: GPT-2, LLaMA
  after_residual,  // the sum of their output and the residual: BERT, the first Transformer
  after_sublayer,  // their output, before it is added: OLMo 2
  around           // input and output: Gemma 2, Grok-1
};

/// What the norms of query and key, where there are some, have a weight for.
enum class qk_norm_scope {
  none,
  head,       // each element of a head, shared by the heads: Qwen3, Gemma 3
  full_width  // each element of all heads: OLMo 2, Command R+
};

/// What an MLP applies between its linear layers.
enum class activation_function {
  silu,
  gelu,
  gelu_tanh,  // its approximation by tanh, in one kernel
  gelu_new,   // the same, which transformers' classes compute in seven operators
  relu,
  quick_gelu,   // x * sigmoid(1.702 x), as operators
  relu_squared  // relu(x)^2, likewise
};

enum class head_kind {
  none,            // the last hidden states, or what pools and projects them
  language_model,  // vocab_size logits of every token
  classifier       // num_classes logits of a sequence or an image
};

/// What the logits of a classifier are of.
enum class classified_kind {
  sequences,  // or images
  tokens,
  aligned,  // tokens, with labels that are fewer: connectionist temporal classification
  spans,    // of tokens: each token as the first, and as the last, of an answer
  replaced  // tokens: one logit each, of a binary cross entropy (ELECTRA's discriminator)
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): query, and key and
/// value together, pass through narrow latent vectors, each with an RMS norm.
struct latent_attention {
  std::int64_t q_lora_rank = 0;  // 0: the query does not
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  bool rope_interleave = false;  // neighbours are rotated, not halves of a head

  friend constexpr bool operator==(const latent_attention&, const latent_attention&) = default;
};

/// What Llama 4 does to query and key beside rotating them, where layers have windows: these are
/// chunks of tokens, and the layers without rotate nothing.
struct chunked_attention {
  bool use_qk_norm = false;  // of the rotated ones, without weights
  bool attn_temperature_tuning = false;

  friend constexpr bool operator==(const chunked_attention&, const chunked_attention&) = default;
};

/// A mixture of experts in place of the MLP of a decoder's layers.
struct expert_mixture {
  std::int64_t num_experts = 0;  // routed ones, in each such layer
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;            // of one routed expert
  std::int64_t shared_expert_intermediate_size = 0;  // of all shared experts together
  bool shared_expert_gate = false;                   // one logit that scales the shared experts
  bool router_bias = false;
  bool norm_topk_prob = false;        // a token's weights of its experts sum to one
  std::int64_t n_group = 0;           // groups of experts, of which a token's are chosen first;
  std::int64_t topk_group = 0;        // how many of these
  bool output_router_logits = false;  // for a loss that balances the experts, where there is one
  std::int64_t first_k_dense_layers = 0;  // these have an MLP
  std::int64_t moe_layer_step = 1;   // of the others, every this-manieth of the model has experts
  std::int64_t moe_latent_size = 0;  // routed experts read and write a vector of this width, to
                                     // which one linear layer leads and another back

  friend constexpr bool operator==(const expert_mixture&, const expert_mixture&) = default;
};

/// What a decoder behind an encoder has otherwise; 0: as the encoder.
struct decoder_stack {
  std::int64_t intermediate_size = 0;
  std::int64_t position_rows = 0;

  friend constexpr bool operator==(const decoder_stack&, const decoder_stack&) = default;
};

/// Layers that run more than once (ALBERT): groups of so many layers, where there are some. The
/// model's layers are as many runs of a group as the groups share equally, one group behind the
/// other.
struct shared_layers {
  std::int64_t num_hidden_groups = 0;
  std::int64_t inner_group_num = 1;

  friend constexpr bool operator==(const shared_layers&, const shared_layers&) = default;
};

/// Numbers of layers, which are counted from 0.
struct layer_numbers {
  static constexpr int most = 16;

  std::int64_t of[most]{};
  std::int64_t count = 0;

  [[nodiscard]] constexpr bool has(std::int64_t layer) const {
    for (int at = 0; at < count && at < most; ++at)
      if (of[at] == layer) return true;
    return false;
  }

  friend constexpr bool operator==(const layer_numbers&, const layer_numbers&) = default;
};

/// How an image becomes tokens: square patches, each through one linear map, and extra tokens.
struct image_input {
  std::int64_t image_size = 0;  // pixels of a side
  std::int64_t patch_size = 0;  // likewise
  std::int64_t num_channels = 3;
  bool patch_bias = true;
  std::int64_t class_tokens = 1;
  std::int64_t register_tokens = 0;
  bool mask_token = false;  // a parameter, no token of an image
  bool drop_path = false;   // branches beside residuals are left out of some samples
  // An image of any size: patches above and beside each other; 0: as many as image_size has.
  std::int64_t grid_height = 0;
  std::int64_t grid_width = 0;
  std::int64_t window_size = 0;  // pixels of a side; patches within see each other; 0: all do,
  layer_numbers whole{};         // likewise in these layers
  layer_numbers tapped{};        // whose results the language model adds to those of its own

  [[nodiscard]] constexpr std::int64_t patches() const {
    if (grid_height != 0) return grid_height * grid_width;
    const std::int64_t side = image_size / patch_size;
    return side * side;
  }
  /// The tokens of one image.
  [[nodiscard]] constexpr std::int64_t tokens() const {
    return patches() + class_tokens + register_tokens;
  }

  friend constexpr bool operator==(const image_input&, const image_input&) = default;
};

/// An encoder of images in stages: between them points grow fewer and wider.
struct image_stages {
  static constexpr int most = 6;

  std::int64_t depths[most]{};  // layers of each stage; no stages: the model has no such
  std::int64_t widths[most]{};
  std::int64_t heads[most]{};
  std::int64_t inner[most]{};    // the width of the MLP
  std::int64_t window_size = 0;  // of attention, points of a side

  [[nodiscard]] constexpr int size() const {
    int count = 0;
    while (count < most && depths[count] != 0) ++count;
    return count;
  }

  friend constexpr bool operator==(const image_stages&, const image_stages&) = default;
};

/// Attention whose scores also join what tokens say with how far apart they are (DeBERTa, arXiv
/// 2006.03654, section 3.1): a table has a row for each distance.
struct disentangled_attention {
  std::int64_t distances = 0;  // on either side; 0: the model has no such attention
  bool buckets = false;        // far ones share rows
  bool c2p = false;            // what a token says with where the other stands,
  bool p2c = false;            // and the other way round
  bool share_att_key = false;  // by the projections of tokens
  bool normalizes_table = false;
  std::int64_t position_numbers = 0;  // a buffer

  /// Of the table.
  [[nodiscard]] constexpr std::int64_t rows() const { return 2 * distances; }

  friend constexpr bool operator==(const disentangled_attention&,
                                   const disentangled_attention&) = default;
};

/// How sound becomes tokens: convolutions over time, before the layers.
struct audio_input {
  static constexpr int most = 8;

  std::int64_t num_mel_bins = 0;  // of a frame; two convolutions halve the frames: Whisper

  // Of a waveform: wav2vec 2.0.
  std::int64_t conv_dim[most]{};  // no convolutions: the model reads none
  std::int64_t conv_kernel[most]{};
  std::int64_t conv_stride[most]{};
  bool conv_bias = false;
  bool normalizes_all = false;  // layer norms behind all; else one of each channel behind the first
  std::int64_t num_conv_pos_embeddings = 0;  // places that a convolution for positions reads
  std::int64_t num_conv_pos_embedding_groups = 1;
  bool forgets_features = false;  // once they are projected: HuBERT

  [[nodiscard]] constexpr int convolutions() const {
    int count = 0;
    while (count < most && conv_dim[count] != 0) ++count;
    return count;
  }
  /// The samples of a waveform that become one place; 0 of none.
  [[nodiscard]] constexpr std::int64_t least_samples() const {
    std::int64_t samples = convolutions() == 0 ? 0 : 1;
    for (int at = convolutions(); at-- > 0;)
      samples = (samples - 1) * conv_stride[at] + conv_kernel[at];
    return samples;
  }

  friend constexpr bool operator==(const audio_input&, const audio_input&) = default;
};

/// The shape of one transformer. What is left out is what a decoder like LLaMA has; zero stands for
/// absent unless the line says otherwise. Names are those of Hugging Face's configurations where
/// they have one.
struct transformer {
  const char* name = "";
  model_kind kind = model_kind::decoder;

  std::int64_t num_hidden_layers = 0;   // encoder-decoder: of the encoder
  std::int64_t num_decoder_layers = 0;  // encoder-decoder only
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  // of the MLP; none is needed where all layers have experts
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // 0, and with latent attention: as many as attention heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t vocab_size = 0;           // rows of the token table, padding included

  decoder_stack decoder{};  // encoder-decoder only
  shared_layers shared{};   // where num_hidden_groups is set

  // Attention.
  latent_attention mla{};                 // where kv_lora_rank is set
  disentangled_attention disentangled{};  // where distances is set
  bool attention_bias = false;            // of query, key and value,
  bool key_bias = true;                   // where it is apart; false: Whisper, DINOv3
  bool attention_out_bias = false;
  bool fused_qkv = false;           // one linear layer makes query, key and value
  bool parallel_attention = false;  // attention and MLP read the same residual
  bool attention_sinks = false;     // one logit a head
  chunked_attention chunks{};
  std::int64_t sliding_window = 0;     // how many tokens a token sees, itself included; 0: all
  std::int64_t global_layer_step = 0;  // every this-manieth layer has no window; 0: all have it
  std::int64_t max_window_layers = 0;  // the first so many have none either
  std::int64_t rotary_dim = 0;         // elements of a head that are rotated; 0: as its class says
  std::int64_t no_rope_layer_interval = 0;  // every this-manieth layer rotates none; 0: all do
  bool global_layer_first = false;          // of so many, the first has none; else the last
  bool clip_qkv = false;                    // no element of query, key and value is beyond a bound
  bool attention_gate = false;  // another part of the query scales the result (Qwen3-Next)

  // In place of attention.
  linear_attention linear{};                 // where it has heads, in all layers but
  std::int64_t full_attention_interval = 0;  // every this-manieth; 0: in those of the pattern
  state_space mamba{};                       // in those of the pattern
  layer_pattern hybrid_pattern{};            // layers of one part each, one for each letter

  // MLP and experts.
  bool gated_mlp = true;  // down(act(gate(x)) * up(x)); else down(act(up(x)))
  activation_function hidden_act = activation_function::silu;
  bool mlp_bias = false;         // experts included
  bool fused_gate_up = false;    // one linear layer makes both
  bool clamped_gate_up = false;  // both are clamped before they meet (gpt-oss' swiglu_limit)
  expert_mixture moe{};          // where num_experts is set

  // Norms.
  norm_kind norm = norm_kind::rms_norm;
  norm_position norm_at = norm_position::before;
  std::int64_t norms_per_layer = 2;  // cross-attention has one more; 4 where they are around
  bool norm_bias = false;
  bool norm_affine = true;  // false: norms have no parameters
  bool final_norm = true;
  bool embedding_norm = false;
  bool embedding_norm_is_first = false;  // and the first layer has none before its attention
  qk_norm_scope qk_norm = qk_norm_scope::none;
  bool qk_norm_bias = false;
  bool layer_scale = false;  // a vector scales the output of attention, another that of the MLP

  // Input.
  std::int64_t position_rows = 0;    // of a learned table
  std::int64_t sinusoid_rows = 0;    // of one that is no parameter, a stack
  std::int64_t alibi_positions = 0;  // biases by distance (ALiBi): of their table; 1: as they come
  std::int64_t relative_attention_buckets = 0;  // a table of biases, buckets x heads, a stack,
  bool relative_attention_in_layers = false;    // or each layer's attention to its own tokens
  std::int64_t type_vocab_size = 0;             // token types
  std::int64_t embedding_dim = 0;  // 0: hidden_size; else linear layers lead from it and back
  bool embedding_projection_bias = false;
  image_input image{};    // vision only
  image_stages stages{};  // likewise; the widths above are the last stage's
  audio_input audio{};

  // Output.
  head_kind head = head_kind::language_model;
  bool tied_embeddings = false;       // the head's matrix is the token table
  bool scale_decoder_outputs = true;  // before the head, where the class does that: T5
  bool lm_head_bias = false;
  bool pooler = false;             // hidden_size x hidden_size with bias, of one token
  bool attention_pooling = false;  // a learned query attends to all tokens, then an MLP: SigLIP
  bool head_dense = false;         // hidden_size x hidden_size before the head's matrix,
  bool head_dense_bias = true;     // with a bias,
  bool head_norm = false;          // and a norm behind it: BERT's masked language model
  std::int64_t num_classes = 0;    // of a classifier
  classified_kind classified = classified_kind::sequences;
  bool classifier_bias = true;
  std::int64_t classifier_inputs = 1;  // hidden vectors that a class reads: DINOv2 2
  bool classifier_reads_mean = false;  // of all tokens, in place of the first: ModernBERT
  std::int64_t projection_dim = 0;     // of a linear layer behind the pooled token: CLIP
  bool projection_bias = false;
  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): tokens beyond the next.
  std::int64_t mtp_layers = 0;
  layer_pattern mtp_pattern{};     // the layers of each; none: one like the model's last
  bool repeats_mtp_layer = false;  // each has the same weights

  std::int64_t other_parameters = 0;  // what no line above describes

  // What the lines above leave to be derived.

  [[nodiscard]] constexpr bool is_latent() const { return mla.kv_lora_rank != 0; }
  [[nodiscard]] constexpr std::int64_t key_value_heads() const {
    return num_key_value_heads != 0 && !is_latent() ? num_key_value_heads : num_attention_heads;
  }
  /// Elements of one head's query and key.
  [[nodiscard]] constexpr std::int64_t query_dim() const {
    if (is_latent()) return mla.qk_nope_head_dim + mla.qk_rope_head_dim;
    return head_dim != 0 || num_attention_heads == 0 ? head_dim : hidden_size / num_attention_heads;
  }
  /// Elements of one head's value.
  [[nodiscard]] constexpr std::int64_t value_dim() const {
    return is_latent() ? mla.v_head_dim : query_dim();
  }
  [[nodiscard]] constexpr std::int64_t token_width() const {
    return embedding_dim != 0 ? embedding_dim : hidden_size;
  }
  /// Layers of all stacks; not those of multi-token prediction.
  [[nodiscard]] constexpr std::int64_t layers() const {
    return num_hidden_layers + num_decoder_layers;
  }
  /// How many of them have parameters of their own.
  [[nodiscard]] constexpr std::int64_t built_layers() const {
    if (shared.num_hidden_groups == 0) return layers();
    return shared.num_hidden_groups * shared.inner_group_num;
  }
  [[nodiscard]] constexpr bool has_experts(std::int64_t layer) const {
    if (hybrid_pattern) return hybrid_pattern.letters[layer] == 'E';
    return moe.num_experts != 0 && layer >= moe.first_k_dense_layers &&
           (layer + 1) % moe.moe_layer_step == 0;
  }
  /// How many of the first `count` layers have experts.
  [[nodiscard]] constexpr std::int64_t moe_layers_before(std::int64_t count) const {
    if (hybrid_pattern) return hybrid_pattern.before(count, 'E');
    if (moe.num_experts == 0 || count <= moe.first_k_dense_layers) return 0;
    return count / moe.moe_layer_step - moe.first_k_dense_layers / moe.moe_layer_step;
  }
  /// How a layer of the only stack, or of an encoder, is made.
  [[nodiscard]] constexpr layer_kind kind_of(std::int64_t layer) const {
    if (hybrid_pattern) return hybrid_pattern.kind_of(layer);
    const bool mixture = has_experts(layer);
    if (full_attention_interval != 0 && (layer + 1) % full_attention_interval != 0)
      return mixture ? layer_kind::linear_experts : layer_kind::linear_dense;
    return mixture ? layer_kind::experts : layer_kind::dense;
  }
  /// Whether layers differ in what passes between tokens.
  [[nodiscard]] constexpr bool mixes_kinds() const {
    return hybrid_pattern || full_attention_interval != 0;
  }
  [[nodiscard]] constexpr bool is_windowed(std::int64_t layer) const {
    const std::int64_t number = layer + (global_layer_first ? 0 : 1);
    return sliding_window != 0 && layer >= max_window_layers &&
           (global_layer_step == 0 || number % global_layer_step != 0);
  }
  /// How many of the first `count` layers of a stack have a window.
  [[nodiscard]] constexpr std::int64_t windowed_layers_before(std::int64_t count) const {
    if (sliding_window == 0 || count <= max_window_layers) return 0;
    if (global_layer_step == 0) return count - max_window_layers;
    const std::int64_t ahead = global_layer_first ? global_layer_step - 1 : 0;
    const auto of_first = [&](std::int64_t n) { return n - (n + ahead) / global_layer_step; };
    return of_first(count) - of_first(max_window_layers);
  }
  /// Whether a layer rotates queries and keys by their positions, where its class does.
  [[nodiscard]] constexpr bool has_rope(std::int64_t layer) const {
    return no_rope_layer_interval == 0 || (layer + 1) % no_rope_layer_interval != 0;
  }
  /// Whether the head has logits of every token.
  [[nodiscard]] constexpr bool reads_all_tokens() const {
    return head == head_kind::language_model ||
           (head == head_kind::classifier && classified != classified_kind::sequences);
  }
  /// Whether the head's matrix is the token table.
  [[nodiscard]] constexpr bool has_tied_head() const {
    return tied_embeddings && head == head_kind::language_model;
  }
};

}  // namespace gpuplan

#pragma once

// What a model is: a transformer (transformer.hpp), or several with connectors between them, and
// which can be. Plain data; the models themselves are in catalog/models.hpp.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/transformer.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpuplan {

struct implementation;

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
  gelu_tanh,
  relu,
  quick_gelu  // x * sigmoid(1.702 x), as operators
};

enum class head_kind {
  none,            // the last hidden states, or what pools and projects them
  language_model,  // vocab_size logits of every token
  classifier       // num_classes logits of a sequence or an image
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
  std::int64_t moe_layer_step = 1;  // of the others, every this-manieth of the model has experts

  friend constexpr bool operator==(const expert_mixture&, const expert_mixture&) = default;
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

  [[nodiscard]] constexpr std::int64_t patches() const {
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

  // Attention.
  latent_attention mla{};       // where kv_lora_rank is set
  bool attention_bias = false;  // of query, key and value
  bool attention_out_bias = false;
  bool fused_qkv = false;              // one linear layer makes query, key and value
  bool parallel_attention = false;     // attention and MLP read the same residual
  bool attention_sinks = false;        // one logit a head
  std::int64_t sliding_window = 0;     // how many tokens a token sees, itself included; 0: all
  std::int64_t global_layer_step = 0;  // every this-manieth layer has no window; 0: all have it

  // MLP and experts.
  bool gated_mlp = true;  // down(act(gate(x)) * up(x)); else down(act(up(x)))
  activation_function hidden_act = activation_function::silu;
  bool mlp_bias = false;       // experts included
  bool fused_gate_up = false;  // one linear layer makes both
  expert_mixture moe{};        // where num_experts is set

  // Norms.
  norm_kind norm = norm_kind::rms_norm;
  norm_position norm_at = norm_position::before;
  std::int64_t norms_per_layer = 2;  // cross-attention has one more; 4 where they are around
  bool norm_bias = false;
  bool norm_affine = true;  // false: norms have no parameters
  bool final_norm = true;
  bool embedding_norm = false;
  qk_norm_scope qk_norm = qk_norm_scope::none;
  bool qk_norm_bias = false;
  bool layer_scale = false;  // a vector scales the output of attention, another that of the MLP

  // Input.
  std::int64_t position_rows = 0;               // of a learned table
  std::int64_t relative_attention_buckets = 0;  // a table of biases, buckets x heads, a stack
  std::int64_t type_vocab_size = 0;             // token types
  std::int64_t embedding_dim = 0;  // 0: hidden_size; else linear layers lead from it and back
  bool embedding_projection_bias = false;
  image_input image{};    // vision only
  image_stages stages{};  // likewise; the widths above are the last stage's

  // Output.
  head_kind head = head_kind::language_model;
  bool tied_embeddings = false;  // the head's matrix is the token table
  bool lm_head_bias = false;
  bool pooler = false;             // hidden_size x hidden_size with bias, of one token
  bool attention_pooling = false;  // a learned query attends to all tokens, then an MLP: SigLIP
  bool head_dense = false;         // hidden_size x hidden_size before the head's matrix,
  bool head_dense_bias = true;     // with a bias,
  bool head_norm = false;          // and a norm behind it: BERT's masked language model
  std::int64_t num_classes = 0;    // of a classifier
  bool classifier_bias = true;
  std::int64_t classifier_inputs = 1;  // hidden vectors that a class reads: DINOv2 2
  std::int64_t projection_dim = 0;     // of a linear layer behind the pooled token: CLIP
  bool projection_bias = false;
  std::int64_t mtp_layers =
      0;  // multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2)

  std::int64_t other_parameters = 0;  // what no line above describes

  // What the lines above leave to be derived.

  [[nodiscard]] constexpr bool is_latent() const { return mla.kv_lora_rank != 0; }
  [[nodiscard]] constexpr std::int64_t key_value_heads() const {
    return num_key_value_heads != 0 && !is_latent() ? num_key_value_heads : num_attention_heads;
  }
  /// Elements of one head's query and key.
  [[nodiscard]] constexpr std::int64_t query_dim() const {
    if (is_latent()) return mla.qk_nope_head_dim + mla.qk_rope_head_dim;
    return head_dim != 0 ? head_dim : hidden_size / num_attention_heads;
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
  [[nodiscard]] constexpr bool has_experts(std::int64_t layer) const {
    return moe.num_experts != 0 && layer >= moe.first_k_dense_layers &&
           (layer + 1) % moe.moe_layer_step == 0;
  }
  /// How many of the first `count` layers have experts.
  [[nodiscard]] constexpr std::int64_t moe_layers_before(std::int64_t count) const {
    if (moe.num_experts == 0 || count <= moe.first_k_dense_layers) return 0;
    return count / moe.moe_layer_step - moe.first_k_dense_layers / moe.moe_layer_step;
  }
  [[nodiscard]] constexpr bool is_windowed(std::int64_t layer) const {
    return sliding_window != 0 && (global_layer_step == 0 || (layer + 1) % global_layer_step != 0);
  }
  /// How many of the first `count` layers of a stack have a window.
  [[nodiscard]] constexpr std::int64_t windowed_layers_before(std::int64_t count) const {
    if (sliding_window == 0) return 0;
    return global_layer_step == 0 ? count : count - count / global_layer_step;
  }
  /// Whether the head's matrix is the token table.
  [[nodiscard]] constexpr bool has_tied_head() const {
    return tied_embeddings && head == head_kind::language_model;
  }
};

/// Linear layers with biases between two parts of a model, with activations between them: `widths`
/// as a token passes through them, zero behind the last. One layer has two widths.
struct connector {
  std::int64_t widths[6]{};
  std::int64_t tokens = 0;  // of one sample
  bool trains = true;
  activation_function act = activation_function::gelu;

  /// The number of linear layers.
  [[nodiscard]] constexpr int layers() const {
    int count = 0;
    while (count < 5 && widths[count + 1] != 0) ++count;
    return count;
  }
};

/// A part of a composite model.
struct component {
  transformer model{};
  trainable trains{};
  std::int64_t sequences = 1;        // of one sample: camera images, texts of a pair
  std::int64_t sequence_length = 0;  // of one of them; 0: an image's own, or the caller's
  connector next{};                  // what this part and those before it feed; none without widths
  std::int64_t unread_layers = 0;    // the last ones, whose results no part reads
  bool class_token_read = true;      // by the next part, beside the patches
  const implementation* by =
      nullptr;  // whose code runs it in a step of all, whoever says so keeps it
};

/// What makes actions of what the parts have seen: of one step, the widths of a robot's state and
/// of its actions, and how many actions follow each other. With layers it is a diffusion
/// transformer (GR00T N1, arXiv 2503.14734): each scales and shifts by the time of the noise and
/// attends to the last part's result and to itself in turns.
struct action_head {
  std::int64_t num_hidden_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t state_dim = 0;
  std::int64_t action_dim = 0;
  std::int64_t horizon = 0;
};

/// A model of several transformers, in the order in which data flows: vision towers, a language
/// model, an action head. What trains in one part sends gradients through all parts behind it, but
/// for vision, which reads images.
struct composite_model {
  static constexpr int most_parts = 6;

  const char* name = "";
  component parts[most_parts]{};
  action_head actions{};
  std::int64_t other_parameters = 0;  // those of `actions` too

  /// The number of parts.
  [[nodiscard]] constexpr int size() const {
    int count = 0;
    while (count < most_parts && parts[count].model.num_hidden_layers != 0) ++count;
    return count;
  }
};

namespace detail {

inline constexpr std::int64_t most_of_a_dimension = std::int64_t{1} << 40;
inline constexpr std::int64_t most_layers = std::int64_t{1} << 16;
inline constexpr std::int64_t most_patches_of_a_side = std::int64_t{1} << 16;

constexpr failure flaw_of_dimensions(std::initializer_list<named_fact> dimensions,
                                     std::int64_t most) {
  for (const named_fact dimension : dimensions) {
    if (dimension.value < 0) return failure(errc::negative, dimension);
    if (dimension.value > most)
      return failure(errc::out_of_bounds, dimension, named_fact{fact::at_most, most});
  }
  return {};
}

constexpr failure flaw_if_not_positive(std::initializer_list<named_fact> dimensions) {
  for (const named_fact dimension : dimensions)
    if (dimension.value < 1) return failure(errc::not_positive, dimension);
  return {};
}

// What may only be there where something else is.
constexpr failure flaw_if_present(named_fact dimension, named_fact beside) {
  if (dimension.value == 0) return {};
  return failure(errc::out_of_bounds, dimension, beside, named_fact{fact::at_most, 0});
}

constexpr failure flaw_of_attention(const transformer& model) {
  const named_fact heads{fact::num_attention_heads, model.num_attention_heads};
  const latent_attention& mla = model.mla;
  if (model.is_latent())
    return flaw_if_not_positive({{fact::qk_nope_head_dim, mla.qk_nope_head_dim},
                                 {fact::qk_rope_head_dim, mla.qk_rope_head_dim},
                                 {fact::v_head_dim, mla.v_head_dim}});
  if (model.num_attention_heads % model.key_value_heads() != 0)
    return failure(errc::heads_do_not_divide,
                   heads,
                   named_fact{fact::num_key_value_heads, model.num_key_value_heads});
  if (model.head_dim == 0 && model.hidden_size % model.num_attention_heads != 0)
    return failure(
        errc::heads_do_not_divide, heads, named_fact{fact::hidden_size, model.hidden_size});
  return {};
}

constexpr failure flaw_of_experts(const transformer& model) {
  const expert_mixture& moe = model.moe;
  if (moe.num_experts == 0) return {};
  const named_fact experts{fact::num_experts, moe.num_experts};
  if (model.kind != model_kind::decoder)
    return flaw_if_present(experts, {fact::model_kind, model.kind});
  if (const failure why =
          flaw_if_not_positive({{fact::num_experts_per_tok, moe.num_experts_per_tok},
                                {fact::moe_intermediate_size, moe.moe_intermediate_size},
                                {fact::moe_layer_step, moe.moe_layer_step}});
      failed(why))
    return why;
  if (moe.num_experts_per_tok > moe.num_experts)
    return failure(errc::too_many_experts_per_token,
                   named_fact{fact::num_experts_per_tok, moe.num_experts_per_tok},
                   experts);
  if (moe.shared_expert_gate && moe.shared_expert_intermediate_size == 0)
    return failure(errc::not_positive, named_fact{fact::shared_expert_intermediate_size, 0});
  if (moe.first_k_dense_layers > model.num_hidden_layers)
    return failure(errc::out_of_bounds,
                   named_fact{fact::first_k_dense_layers, moe.first_k_dense_layers},
                   named_fact{fact::at_most, model.num_hidden_layers});
  return {};
}

// Stages of which the last has the model's own widths, and none has wider ones.
constexpr failure flaw_of_stages(const transformer& model) {
  const image_stages& stages = model.stages;
  const named_fact count{fact::stages, stages.size()};
  if (count.value == 0) return {};
  if (model.kind != model_kind::vision)
    return flaw_if_present(count, {fact::model_kind, model.kind});
  std::int64_t layers = 0;
  for (int at = 0; at < count.value; ++at) {
    const std::int64_t heads = stages.heads[at];
    const named_fact width{fact::stage_width, stages.widths[at]};
    if (const failure why =
            flaw_of_dimensions({{fact::num_hidden_layers, stages.depths[at]}}, most_layers);
        failed(why))
      return why;
    if (const failure why = flaw_if_not_positive({width,
                                                  {fact::num_attention_heads, heads},
                                                  {fact::intermediate_size, stages.inner[at]}});
        failed(why))
      return why;
    if (width.value > model.hidden_size)
      return failure(errc::out_of_bounds, width, named_fact{fact::at_most, model.hidden_size});
    if (stages.inner[at] > model.intermediate_size)
      return failure(errc::out_of_bounds,
                     named_fact{fact::intermediate_size, stages.inner[at]},
                     named_fact{fact::at_most, model.intermediate_size});
    if (width.value % heads != 0)
      return failure(
          errc::heads_do_not_divide, named_fact{fact::num_attention_heads, heads}, width);
    layers += stages.depths[at];
  }
  if (layers != model.num_hidden_layers)
    return failure(errc::out_of_bounds,
                   named_fact{fact::num_hidden_layers, model.num_hidden_layers},
                   named_fact{fact::at_most, layers});
  const named_fact window{fact::window_size, stages.window_size};
  if (window.value < 1 || window.value > most_patches_of_a_side)
    return failure(errc::out_of_bounds,
                   window,
                   named_fact{fact::at_least, 1},
                   named_fact{fact::at_most, most_patches_of_a_side});
  return {};
}

constexpr failure flaw_of_ends(const transformer& model) {
  if (model.kind == model_kind::vision) {
    const image_input& image = model.image;
    if (const failure why = flaw_if_not_positive(
            {{fact::patch_size, image.patch_size}, {fact::num_channels, image.num_channels}});
        failed(why))
      return why;
    const named_fact size{fact::image_size, image.image_size};
    if (image.image_size < image.patch_size)
      return failure(errc::out_of_bounds, size, named_fact{fact::at_least, image.patch_size});
    if (image.image_size / image.patch_size > most_patches_of_a_side)
      return failure(errc::out_of_bounds,
                     size,
                     named_fact{fact::at_most, most_patches_of_a_side * image.patch_size});
  }
  if (model.head == head_kind::language_model && model.vocab_size < 1)
    return failure(errc::not_positive, named_fact{fact::vocab_size, model.vocab_size});
  if (model.head == head_kind::classifier)
    return flaw_if_not_positive({{fact::num_classes, model.num_classes},
                                 {fact::classifier_inputs, model.classifier_inputs}});
  return {};
}

// The part of the model that may make its parameters too many for 64 bits. Each part is bounded
// from above, in doubles, biases and norms included.
constexpr failure flaw_of_size(const transformer& model) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const latent_attention& mla = model.mla;
  const image_input& image = model.image;
  const double layers = d(model.layers() + model.mtp_layers);
  const double width = d(model.hidden_size) + 1;
  const double widest = width + d(model.token_width());
  const double latent = d(mla.q_lora_rank) + d(mla.kv_lora_rank);
  const double heads = d(model.num_attention_heads);
  const double attention = heads * (d(model.query_dim()) + d(model.value_dim()));
  struct part {
    double size;
    named_fact field;
  };
  const part parts[] = {
      {(16 + 2 * d(model.mtp_layers)) * widest * widest, {fact::hidden_size, model.hidden_size}},
      {16 * layers * (attention + latent) * (width + latent),
       {fact::num_attention_heads, model.num_attention_heads}},
      {(4 * layers + 2) * width * d(model.intermediate_size),
       {fact::intermediate_size, model.intermediate_size}},
      {4 * layers * width * d(model.decoder.intermediate_size),
       {fact::decoder_intermediate_size, model.decoder.intermediate_size}},
      {4 * layers * width * d(model.moe.num_experts) * (d(model.moe.moe_intermediate_size) + 1),
       {fact::num_experts, model.moe.num_experts}},
      {4 * layers * width * d(model.moe.shared_expert_intermediate_size),
       {fact::shared_expert_intermediate_size, model.moe.shared_expert_intermediate_size}},
      {3 * widest * d(model.vocab_size), {fact::vocab_size, model.vocab_size}},
      {2 * widest * d(model.position_rows), {fact::position_rows, model.position_rows}},
      {2 * widest * d(model.sinusoid_rows), {fact::sinusoid_rows, model.sinusoid_rows}},
      {widest * d(model.decoder.position_rows),
       {fact::decoder_position_rows, model.decoder.position_rows}},
      {2 * heads * d(model.relative_attention_buckets),
       {fact::relative_attention_buckets, model.relative_attention_buckets}},
      {widest * d(model.type_vocab_size), {fact::type_vocab_size, model.type_vocab_size}},
      {width * d(image.num_channels) * d(image.patch_size) * d(image.patch_size),
       {fact::patch_size, image.patch_size}},
      {4 * layers * width * d(model.stages.window_size) * d(model.stages.window_size),
       {fact::window_size, model.stages.window_size}},
      {width * d(image.class_tokens), {fact::class_tokens, image.class_tokens}},
      {width * d(image.register_tokens), {fact::register_tokens, image.register_tokens}},
      {width * d(model.num_classes) * d(model.classifier_inputs),
       {fact::num_classes, model.num_classes}},
      {width * d(model.projection_dim), {fact::projection_dim, model.projection_dim}},
  };
  double total = d(model.other_parameters);
  const part* largest = parts;
  for (const part& each : parts) {
    total += each.size;
    if (each.size > largest->size) largest = &each;
  }
  if (total < 0x1p62) return {};
  return failure(errc::overflow,
                 largest->field,
                 named_fact{fact::hidden_size, model.hidden_size},
                 named_fact{fact::num_hidden_layers, model.num_hidden_layers})
      .about(model.name);
}

constexpr failure flaw_of_stack(const transformer& model) {
  const named_fact decoder_layers{fact::num_decoder_layers, model.num_decoder_layers};
  if (model.kind != model_kind::encoder_decoder) {
    if (const failure why = flaw_if_present(decoder_layers, {fact::model_kind, model.kind});
        failed(why))
      return why;
  } else {
    if (model.num_decoder_layers < 1) return failure(errc::not_positive, decoder_layers);
    if (model.parallel_attention)
      return flaw_if_present(decoder_layers, {fact::parallel_attention, true});
  }
  if (model.kind != model_kind::decoder || model.head != head_kind::language_model)
    if (const failure why =
            flaw_if_present({fact::mtp_layers, model.mtp_layers}, {fact::head, model.head});
        failed(why))
      return why;
  if (model.moe_layers_before(model.num_hidden_layers) < model.num_hidden_layers &&
      model.intermediate_size < 1)
    return failure(errc::not_positive,
                   named_fact{fact::intermediate_size, model.intermediate_size});
  const std::int64_t norms = model.norms_per_layer;
  const bool around = model.norm_at == norm_position::around;
  if (model.parallel_attention
          ? (norms != 1 && norms != 2) || model.norm_at != norm_position::before
          : norms != (around ? 4 : 2))
    return failure(errc::norms_do_not_match, named_fact{fact::norms_per_layer, norms});
  return {};
}

constexpr failure flaw_of_shared_layers(const transformer& model) {
  const named_fact groups{fact::num_hidden_groups, model.shared.num_hidden_groups};
  const named_fact inner{fact::inner_group_num, model.shared.inner_group_num};
  const named_fact layers{fact::num_hidden_layers, model.num_hidden_layers};
  if (const failure why = flaw_of_dimensions({groups, inner}, most_layers); failed(why)) return why;
  if (groups.value == 0) return {};
  if (model.kind != model_kind::encoder)
    return flaw_if_present(groups, {fact::model_kind, model.kind});
  if (const failure why = flaw_if_not_positive({inner}); failed(why)) return why;
  if (layers.value % inner.value != 0) return failure(errc::does_not_divide, {inner, layers});
  if (groups.value * inner.value > layers.value)
    return failure(errc::out_of_bounds, {groups, {fact::at_most, layers.value / inner.value}});
  return {};
}

constexpr failure flaw_of(const transformer& model) {
  const latent_attention& mla = model.mla;
  const expert_mixture& moe = model.moe;
  if (const failure why = flaw_of_dimensions({{fact::num_hidden_layers, model.num_hidden_layers},
                                              {fact::num_decoder_layers, model.num_decoder_layers},
                                              {fact::mtp_layers, model.mtp_layers}},
                                             most_layers);
      failed(why))
    return why;
  if (const failure why = flaw_of_shared_layers(model); failed(why)) return why;
  if (const failure why = flaw_of_dimensions(
          {{fact::hidden_size, model.hidden_size},
           {fact::intermediate_size, model.intermediate_size},
           {fact::num_attention_heads, model.num_attention_heads},
           {fact::num_key_value_heads, model.num_key_value_heads},
           {fact::head_dim, model.head_dim},
           {fact::vocab_size, model.vocab_size},
           {fact::q_lora_rank, mla.q_lora_rank},
           {fact::kv_lora_rank, mla.kv_lora_rank},
           {fact::qk_nope_head_dim, mla.qk_nope_head_dim},
           {fact::qk_rope_head_dim, mla.qk_rope_head_dim},
           {fact::v_head_dim, mla.v_head_dim},
           {fact::num_experts, moe.num_experts},
           {fact::num_experts_per_tok, moe.num_experts_per_tok},
           {fact::n_group, moe.n_group},
           {fact::topk_group, moe.topk_group},
           {fact::moe_intermediate_size, moe.moe_intermediate_size},
           {fact::shared_expert_intermediate_size, moe.shared_expert_intermediate_size},
           {fact::first_k_dense_layers, moe.first_k_dense_layers},
           {fact::sliding_window, model.sliding_window},
           {fact::global_layer_step, model.global_layer_step},
           {fact::position_rows, model.position_rows},
           {fact::sinusoid_rows, model.sinusoid_rows},
           {fact::decoder_position_rows, model.decoder.position_rows},
           {fact::decoder_intermediate_size, model.decoder.intermediate_size},
           {fact::relative_attention_buckets, model.relative_attention_buckets},
           {fact::type_vocab_size, model.type_vocab_size},
           {fact::embedding_dim, model.embedding_dim},
           {fact::image_size, model.image.image_size},
           {fact::patch_size, model.image.patch_size},
           {fact::num_channels, model.image.num_channels},
           {fact::class_tokens, model.image.class_tokens},
           {fact::register_tokens, model.image.register_tokens},
           {fact::num_classes, model.num_classes},
           {fact::classifier_inputs, model.classifier_inputs},
           {fact::projection_dim, model.projection_dim},
           {fact::other_parameters, model.other_parameters}},
          most_of_a_dimension);
      failed(why))
    return why;
  if (const failure why =
          flaw_if_not_positive({{fact::num_hidden_layers, model.num_hidden_layers},
                                {fact::hidden_size, model.hidden_size},
                                {fact::num_attention_heads, model.num_attention_heads}});
      failed(why))
    return why;
  if (const failure why = flaw_of_attention(model); failed(why)) return why;
  if (const failure why = flaw_of_experts(model); failed(why)) return why;
  if (const failure why = flaw_of_stack(model); failed(why)) return why;
  if (const failure why = flaw_of_stages(model); failed(why)) return why;
  if (const failure why = flaw_of_ends(model); failed(why)) return why;
  return flaw_of_size(model);
}

}  // namespace detail

/// The model itself where its numbers make one. Errors: `negative`, `not_positive`, `out_of_bounds`
/// (of a dimension 2^40 is the most, of layers 2^16, of patches 2^32) with the field;
/// `heads_do_not_divide`; `too_many_experts_per_token`; `norms_do_not_match`; `overflow` where the
/// parameters may be too many for 64 bits, with the field that makes most of them.
[[nodiscard]] constexpr result<transformer> validate(const transformer& model) {
  if (const failure why = detail::flaw_of(model); detail::failed(why)) return why;
  return model;
}

}  // namespace gpuplan

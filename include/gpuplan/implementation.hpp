#pragma once

// Whose code builds and runs a model's layers, as data: which classes, and how they do what others
// do in another way.

#include <gpuplan/result.hpp>

#include <array>
#include <cstdint>

namespace gpuplan {

struct transformer;
struct implementation;
struct engine_class;
struct training_setup;
struct batch_plan;

namespace eager {
class tape;
class code_user;

/// What makes the code of layers and hands it on, for as long as a step is replayed.
struct code_maker {
  void (*run)(tape& t, const training_setup& setup, const batch_plan& plan, code_user& user);
};
/// The replay's own: which, it knows by the address of the classes' name.
inline constexpr code_maker library_code{nullptr};
}  // namespace eager

/// Classes that build and run the layers of a model, as far as it matters who they are: what they
/// have code for. What is asked of them is asked by these properties alone: classes of a user's own
/// need no more than one of these (docs/add_an_implementation.md).
struct layer_class {
  const code_name* name = nullptr;
  model_kind kind{};
  /// What keeps the classes from running such a model, or no failure; none: nothing does.
  failure (*flaw_of)(const transformer& model, const implementation& as) = nullptr;
  /// Their code: `eager::code_of<my_code>`, or `eager::library_code`, where the name is of the
  /// library's.
  const eager::code_maker* code = nullptr;

  /// The engine that alone runs them; none: any.
  const engine_class* engine = nullptr;

  // Kinds of parallelism
  bool divides_tensors = false;   // among tensor-parallel ranks
  bool divides_replicas = true;   // that are themselves divided among tensor-parallel ranks
  bool divides_sequence = false;  // always, where tensors are
  bool divides_context = false;   // among context-parallel ranks
  bool divides_experts = false;   // among ranks that fully_shard shares the rest among
  bool gathers_context = false;   // keys and values of all of these, before attention
  bool is_pipelined = false;      // in stages, by engines that send what is between them
  bool divides_stages = false;    // likewise, by PyTorch's own schedules beside fully_shard
  bool runs_dual_pipe_v = true;   // ScheduleDualPipeV, among these
  bool has_module_hooks = false;  // ZeRO-3 of DeepSpeed knows each module's forward

  // Recomputation
  bool recomputes_layers = true;           // recompute_mode::full
  bool recomputes_attention = false;       // alone: recompute_mode::selective
  bool recomputes_modules = false;         // parts of a layer, each alone
  bool offloads_activations = false;       // to the host
  bool captures_graphs = false;            // a CUDA graph of a step's passes,
  bool captures_layers = false;            // or graphs of parts of layers
  bool recomputes_in_spans = false;        // of several layers
  bool recomputes_periodically = true;     // each so many-th layer
  bool recomputes_first_layers = true;     // and not all
  bool chooses_recomputed_layers = false;  // how many of these, by a setting: plans may too
  bool has_gradients_beside = false;       // of what layers read beside their input
  bool keeps_costly_results = false;       // by operator
  bool stops_early = true;  // at the last value that is needed, where checkpoints do not re-enter

  // Parts of decoders: layers of several kinds with state spaces and linear attention, gated
  // attention, sinks, multi-token prediction, experts without a gate, with biases, in a latent
  // space or beside gated shared ones.
  bool has_every_part = false;

  // Kernels
  bool is_compiled = false;        // has torch.compile around its layers
  bool has_fp8_linears = false;    // torchao's
  bool quantises_linears = false;  // Transformer Engine's fp8 and fp4, where that runs them
  bool has_flash = true;           // a fused kernel without a bias
  bool has_flash_alone = false;    // no other kernel
  bool reads_padding = true;       // a mask of which tokens are there
  bool has_dropout = true;
  bool scales_loss = true;            // in fp16
  bool biases_scores = false;         // by distance: a number for each pair of tokens and head
  bool has_liger_kernels = false;     // Liger's in place of its functions
  bool cuts_cross_entropy = false;    // Apple's kernels in place of its loss
  bool joins_samples = false;         // one behind the other in a row
  bool scores_in_tiles = false;       // TRL's log-probabilities
  bool chunks_loss = false;           // `loss_chunks`
  bool divides_by_tokens = false;     // its loss, by those of all micro-batches
  bool composes_recurrences = false;  // of operators, whose time nobody knows
  bool calls_gelu = false;            // PyTorch's, where transformers composes `gelu_new`

  // What trains
  bool trains_parts = true;  // a head or last layers, beside all and adapters
  bool trains_adapters = true;
  bool adapts_fused_parts = false;  // its adapters are of a part of a fused linear layer, too
  bool adapts_patches = false;      // likewise of what makes tokens of patches of images
  bool adapts_experts = false;      // likewise of the tensors of all experts
  bool compares_texts = false;      // an encoder without a head: those of a sample
  bool reads_targets = false;       // a decoder beside an encoder, with a length of its own
  bool runs_composites = false;     // several transformers in one step, and never one alone,
  const layer_class* parts[6]{};    // of these classes, in the order of its parts
  bool pools_by_attention = false;  // of these, the towers of images
  bool has_image_tokens = false;    // of these, the first's images are tokens of the second's text
  bool joins_towers = false;        // of these, the first two see one image; their patches are
                                    // joined, and stand behind the first token of the third's text
  bool shards_parts = false;        // of these, a layer of a part is a unit that ranks share
  std::int64_t scalar_parameters = 0;  // numbers without a dimension, which fully_shard refuses
  bool adapts_connectors = false;      // adapters are beside all linear layers between these, too
  bool has_robots = false;  // weights for each kind in an action head, and frozen parts in
                            // the format that autocast computes in

  // Of fully_shard's ranks, more than there are experts have parts of each.
  bool parts_experts_by_width = false;
  // Experts beside attention with sinks give bf16, which is added to the format of the rest.
  bool sinks_in_bf16_alone = false;

  bool has_known_floor = false;           // of what its layers keep, with as many keys as queries
  std::int64_t layer_period = 1;          // a layer is like the one so many before it, and adds
  bool repeats_layers = true;             // the same memory wherever it stands,
  bool repeats_recomputed_layers = true;  // and where it is computed again or gathered too
  bool counts_work = false;               // every operator says what it asks of the device
};

namespace detail {

// A property that one field of a setup asks for.
struct asked_property {
  bool is_there = false;
  named_fact field{};
  std::int64_t takes = 0;  // where the property is not there
};

// What a setup asks of its layers' classes. A template, because a setup is made of these.
template <class Setup>
constexpr auto asked_of_layers(const layer_class& code, const Setup& of) {
  const auto& ranks = of.parallelism;
  const auto& as = of.framework.implementation;
  const bool quantises = code.quantises_linears && as.transformer_engine;
  return std::to_array<asked_property>({
      {code.is_pipelined || code.divides_stages,
       {fact::pipeline_parallel, ranks.pipeline_parallel},
       1},
      {code.is_pipelined, {fact::shares_kept_inputs, ranks.shares_kept_inputs}},
      {code.has_every_part, {fact::frozen_parameters, of.frozen_parameters}},
      {code.offloads_activations, {fact::offloaded_layers, of.offloads.layers}},
      {code.offloads_activations, {fact::core_attention, of.offloads.core_attention}},
      {code.offloads_activations, {fact::attention_output, of.offloads.attention_output}},
      {code.offloads_activations, {fact::expert_input, of.offloads.expert_input}},
      {code.recomputes_in_spans, {fact::recompute_span, of.recompute_span}, 1},
      {code.recomputes_periodically, {fact::recompute_period, of.recompute_period}, 1},
      {code.recomputes_first_layers, {fact::recompute_layers, of.recompute_layers}},
      {code.keeps_costly_results, {fact::saves_costly_results, of.saves_costly_results}},
      {code.is_compiled, {fact::compiles_layers, as.compiles_layers}},
      {code.is_compiled, {fact::compiles_loss, as.compiles_loss}},
      {code.has_liger_kernels, {fact::liger_kernels, as.liger_kernels}},
      {code.cuts_cross_entropy, {fact::cut_cross_entropy, as.cut_cross_entropy}},
      {code.chunks_loss, {fact::loss_chunks, as.loss_chunks}},
      {code.joins_samples, {fact::padding_free, of.padding_free}},
      {code.scores_in_tiles, {fact::objective, of.objective}},
      {code.has_fp8_linears || quantises, {fact::fp8_linears, of.precision.fp8_linears}},
      {quantises, {fact::fp4_linears, of.precision.fp4_linears}},
      {quantises, {fact::quantised_weights, of.precision.quantised_weights}},
      {code.reads_targets, {fact::target_length, of.target_length}},
      {code.runs_composites, {fact::composite, of.composite != nullptr}},
  });
}

}  // namespace detail

/// How RMS norms are computed.
enum class rms_norm_kind {
  fused,         // one kernel
  eager,         // power, mean, root and product, in fp32; cast, then times the weight
  eager_whole,   // cast behind the weight
  eager_raised,  // likewise, and the weight is cast to fp32
  eager_shifted  // likewise, and the weight counts from 1
};

/// How Hugging Face's decoders compute layer norms.
enum class layer_norm_kind {
  fused,         // one kernel
  eager,         // in fp32, the weight too, by operators: Cohere
  fused_shifted  // one kernel, in autocast's format; the weight counts from 1: Nemotron
};

/// How rotary positions are applied.
enum class rotary_kind {
  halves,       // in the format of the query
  halves_fp32,  // in fp32
  rotate_half   // Hugging Face: x * cos + rotate_half(x) * sin
};

/// How fewer key-value heads meet the query's.
enum class grouped_heads_kind {
  by_kernel,  // as the kernel supports it
  repeated    // copied to all heads first
};

/// What happens to a language model's logits before the loss.
enum class logits_kind { as_computed, to_fp32 };

/// Where an encoder's numbers of positions come from.
enum class position_numbers {
  range,
  counted,             // over the tokens that are no padding
  counted_after_cache  // likewise, and what a cache holds is added
};

/// What encoders of BERT's kin do in different ways.
struct encoder_options {
  position_numbers positions = position_numbers::range;
  bool positions_behind_norm = false;  // are built
  // The output layers are in the functions of attention, there without dropout, and of the MLP;
  // else in functions of their own, with the norms behind them.
  bool outputs_inside = false;
  bool pools = false;               // a classifier reads the pooler's result
  bool drops_before_dense = false;  // of a classifier
  bool shares_head_bias = true;     // that of the masked head stands outside its layer
  bool gelu_in_head = false;        // whatever the layers' activation
  bool builds_head_first = false;   // before the encoder
  bool builds_head_norm_first = false;
  bool drops_before_spans = false;  // of a classifier of spans
  bool gelu_in_classifier = false;  // of sequences
  bool reads_labelled = false;      // how many of them have a label
};

/// Where BART's kin have their positions.
enum class position_table {
  learned,
  learned_behind_two,  // rows that no position reads
  frozen_sinusoids,    // a parameter that does not train
  counted_sinusoids    // a buffer, read by the number of each token that is no padding
};

/// What encoder-decoders of BART's kin do in different ways.
struct sequence_options {
  position_table positions = position_table::learned;
  bool scales_behind_table = false;     // and not within the module of the table
  bool norms_before_positions = false;  // the decoder its embedding
  bool keeps_first_mask = false;        // the decoder's, of ones, as long as it runs
  bool starts_with_last_label = false;  // the decoder's tokens; else with one of the configuration
  bool adds_logits_bias = true;         // a buffer
};

/// In which order a layer of an encoder of images builds its parts.
enum class layer_construction {
  attention_norms_mlp,
  attention_norm_mlp_norm,
  norm_attention_norm_mlp
};

/// What encoders of images do in different ways. What is not said is as in ViT.
struct image_options {
  layer_construction built = layer_construction::attention_norms_mlp;
  bool positions_in_table = false;          // read by number; else one parameter, which is added
  bool counts_patches = false;              // for these numbers, which differ by image
  bool builds_key_first = false;            // then value and query
  bool views_behind_projections = false;    // heads are told apart when all three are computed
  bool adds_to_residual = false;            // the residual is the first operand
  bool registers_behind_positions = false;  // which those tokens do not have
  bool drops_embedding = true;
  bool drops_hidden = true;        // dropout in layers
  bool softmax_in_fp32 = true;     // of eager attention; else as autocast says
  bool means_patches = false;      // for the classifier; else it reads the first token, or
                                   // where it has two inputs, both
  bool norms_first_token = false;  // alone, and in vain
  bool scales_in_layer = false;    // what scales a layer's branches stands before its modules
  // When they are initialised: a truncated normal distribution takes memory.
  bool truncates_weights = false;
  bool truncates_positions = true;  // and the first token
  bool initializes_layers_first = false;
};

/// What of a head is rotated by its position.
enum class rotary_parts_kind {
  none,             // all of it
  in_attention,     // its front; the attention's function holds both parts
  in_rotation,      // likewise the rotation's, which joins the query's before it turns the key's
  behind_rotation,  // and when both are turned,
  returned          // which it holds until the end
};
/// Which elements of a head are rotated together.
enum class rotary_pairs_kind {
  halves,
  neighbours,          // by tables whose first half each layer repeats: GLM
  neighbours_of_table  // by tables of neighbours, in fp32, cast back: Cohere
};

/// What Hugging Face's decoders do in different ways.
struct decoder_options {
  // What their models have.
  bool has_layer_norms = false;   // else RMS norms
  bool norms_around = false;      // input and output of attention and MLP,
  bool norms_outputs = false;     // or output alone; else input alone
  bool norms_heads = false;       // of query and key, where the model says so
  bool runs_in_parallel = false;  // attention and MLP, where the model says so
  bool has_plain_mlp = false;     // without gate
  bool fuses_qkv = false;
  bool fuses_gate_up = false;

  bool masks_by_kind = false;     // of layers: a mask for windows beside one for all tokens
  bool makes_both_masks = false;  // where no layer has a window too
  bool rotates_by_kind = false;   // likewise tables of angles
  bool rotates_in_fp32 = false;   // and casts the result back
  rotary_parts_kind rotary_parts = rotary_parts_kind::none;
  rotary_pairs_kind rotary_pairs = rotary_pairs_kind::halves;
  std::int64_t rotary_percent = 100;     // of a head's width that is rotated
  std::int64_t most_rotated = 0;         // elements of a head; 0: all
  bool builds_rotary_first = false;      // before the last norm
  bool normalizes_turned_heads = false;  // query and key, when their heads stand before the tokens
  bool views_behind_projections =
      false;  // heads are told apart once query, key and value are there
  bool scales_embedding = false;
  bool drops_embedding = false;
  bool holds_undropped_embedding = false;  // as long as the model runs
  bool drops_residual = false;             // what attention and MLP add,
  bool drops_within = false;               // while they have their variables still,
  bool drops_mlp_alone = false;            // or what the MLP does
  bool holds_attention = false;            // its input and output, as long as the layer runs
  bool normalizes_rotated_heads = false;   // once they are rotated
  bool normalizes_each_head = false;       // the weights of each head are its own: Cohere
  bool has_norm_of_each_head = false;      // by a module for each, once they are turned: StableLM
  bool clips_projections = false;          // where the model has clip_qkv: MPT, OLMo, OLMoE
  bool adds_to_residual = false;           // what runs in parallel, one after the other
  bool multiplies_embedding = false;       // by a number,
  bool multiplies_residual = false;        // likewise what attention and MLP add,
  bool multiplies_logits = false;          // and the logits: Granite
  bool scales_queries = false;             // by their positions: Ministral 3
  layer_norm_kind layer_norm = layer_norm_kind::fused;
  bool caps_scores = false;  // cap * tanh(score / cap), in eager attention
  bool caps_logits = false;

  friend constexpr bool operator==(const decoder_options&, const decoder_options&) = default;
};

/// How a router of Hugging Face's chooses experts and weighs them.
enum class router_kind {
  softmax,            // of all experts, of which the largest are chosen
  softmax_of_chosen,  // the largest logits
  softmax_in_fp32,    // likewise of logits in fp32, maybe of the best groups: DeepSeek-V2
  sigmoid,            // of each logit, in fp32
  sigmoid_in_groups   // of the best groups of experts the largest: DeepSeek-V3
};

/// When shared experts run.
enum class shared_kind {
  none,   // never: the class has none
  first,  // before the router
  last    // behind the routed experts
};

/// What Hugging Face's mixtures of experts do in different ways.
struct expert_options {
  router_kind router = router_kind::softmax;
  bool casts_logits = false;     // to fp32 before the softmax, by an operator of its own
  bool casts_weights = false;    // back to the format of the logits
  bool corrects_choice = false;  // by a buffer; beside it the router has a bias with sinks alone
  bool builds_experts_first = false;  // then the router
  bool is_transposed = false;         // matrices are (experts, in, out)
  shared_kind shared = shared_kind::none;
  bool normalizes = false;  // the weights of a token's experts, whatever the model says
  bool balances = false;    // by a loss of the logits that routers hand out
  // By PEFT, whatever layers are named; else it adapts experts and routers as linear layers.
  bool never_adapted = false;
};

namespace layer_classes {
// What a framework has where nobody says which; layer_classes.hpp defines it.
extern const layer_class llama;
}  // namespace layer_classes

/// Whose code runs the layers, and how its functions do what other code does in another way.
struct implementation {
  const layer_class* layers = &layer_classes::llama;
  rms_norm_kind rms_norm = rms_norm_kind::fused;
  rotary_kind rotary = rotary_kind::halves;
  grouped_heads_kind grouped_heads = grouped_heads_kind::by_kernel;
  logits_kind logits = logits_kind::as_computed;
  // Attention by a kernel of PyTorch's where nobody says which; else its scores are written out.
  bool has_sdpa = true;
  bool is_part = false;  // of a model of several; refused where it stands alone
  // Logits stay divided among tensor-parallel ranks, where there are such; not of a compiled loss.
  bool loss_parallel = false;
  bool scales_decoder_outputs = false;  // T5's first version, before the head
  encoder_options encoder{};
  sequence_options sequences{};
  decoder_options decoder{};
  expert_options experts{};
  image_options images{};

  // Liger's RMS norm, gated MLP, rotary positions and loss in place of transformers' own
  // (use_liger_kernel): the loss never has all logits.
  bool liger_kernels = false;
  // Apple's cut cross-entropy in place of the loss, Liger's too (axolotl's cut_cross_entropy): its
  // kernels write no logits, and compute them again for the backward. Weights are in bf16 or fp16.
  bool cut_cross_entropy = false;
  // Into so many parts torchtitan's ChunkedLossWrapper cuts what the head reads of a sequence, with
  // context parallelism of a rank's part of it: head, loss and their backward run for one after the
  // other. 0: the loss has all logits.
  std::int64_t loss_chunks = 0;

  // PyTorch's version
  bool loads_all_kernels = false;  // at once: before 1.13
  // A thread's workspaces of cuBLAS, from its first product on: before 2.15 (seen in 2.11), which
  // has one thread for forward passes and one for backward passes. False: each product's own.
  bool keeps_workspaces = false;
  bool random_states_on_host = false;  // of the efficient kernel of attention: likewise

  bool builds_in_fp32 = true;  // and casts the model then; false: built in its weights' format
  bool checkpoints_reenter = false;  // torch.utils.checkpoint with use_reentrant=True

  // torch.compile
  bool compiles_layers = false;  // one by one
  bool compiles_loss = false;

  // Megatron
  bool softmax_in_fp32 = false;  // of eager attention
  bool fuses_softmax = false;    // and its scale and mask: one kernel
  // The activation with the bias before it is one function, which is computed again in the
  // backward; without gate and bias the activation stays as it is.
  bool fuses_bias_activation = false;
  bool compiles_functions = false;  // such functions are one kernel, without temporaries
  bool fuses_loss = false;          // its gradient is bf16
  // Transformer Engine's layers and optimizer; a fused loss writes its gradient over the logits.
  bool transformer_engine = false;
};

}  // namespace gpuplan

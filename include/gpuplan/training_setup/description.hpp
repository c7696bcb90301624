#pragma once

// What is trained, and how: all but the batch. Part of training_setup.hpp, which says what is
// valid.

#include <gpuplan/framework.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

namespace gpuplan {

/// What computes softmax(query x key) x value.
enum class attention_kernel {
  automatic,  // as PyTorch chooses: flash where it can, else efficient
  flash,      // FlashAttention-2; by name it is the package's, which needs no mask of a window
  efficient,  // xFormers' memory-efficient attention
  math,       // PyTorch's own matmuls, in fp32
  eager       // the model's own operators
};

/// How tokens reach experts on other ranks, and come back: by Megatron-Core's dispatcher alltoall,
/// or by the kernels behind its flex. Those were read, not run: what they hold and send is what
/// their public source of November 2026 says, of DeepEP that of its first version (Buffer). Tokens
/// are taken to choose experts evenly, each by itself. Of 12 published rates of these kernels
/// (4,096 tokens of 7,168 elements on H800, H100, B200, GB200, 8 to 64 ranks) the time is
/// 7 % off in the median, 28 % at most. Not in it: the SMs that they take from products beside.
enum class token_dispatcher {
  all_to_all,  // NCCL's: each token once for each of its experts
  deepep,   // DeepEP's Buffer: once to each rank with any of them, across nodes once to each node
  hybridep  // NVIDIA's HybridEP: likewise, and they come and go sorted by expert
};

/// How context-parallel ranks of Transformer Engine see all keys and values, as Megatron-Core's
/// cp_comm_type names it. Memory of a2a is within 0.01 % of two published peaks on eight ranks; p2p
/// was read in its source and not run.
enum class context_exchange {
  automatic,  // p2p, Megatron-Core's own default; a2a with windows or sinks, which p2p does not
              // take
  p2p,        // parts of keys and values go round a ring, beside attention to the part before
  a2a         // all-to-all: each rank has all tokens of a part of the heads
};

/// What the loss is.
enum class training_objective {
  next_token,  // the class's own, of all tokens
  supervised,  // TRL 1.16's SFTTrainer: log-probabilities in tiles
  preference,  // TRL 1.16's DPOTrainer, likewise: a sample is a chosen and a rejected sequence
  // TRL 1.16's GRPOTrainer, likewise, its loss "dapo": a sample is a prompt and a completion of it,
  // which was generated before. `scored_tokens` are as many as the longest completion has.
  group_relative
};

/// What a preference, or a policy, is measured against.
enum class reference_model {
  separate,          // a second model, which does not train
  without_adapters,  // the model without its adapters
  precomputed,       // log-probabilities that come with the batch
  none               // of a policy: TRL's beta is 0
};

struct training_setup {
  transformer model{};
  // Of several transformers in one step, whoever says so keeps it; `model` is then the one whose
  // tokens `sequence_length` counts. Null: `model` alone.
  const composite_model* composite = nullptr;
  trainable trains{};
  // Of frozen towers before the model, on the first stage: their weights are counted, and neither
  // what passes through them nor its time.
  std::int64_t frozen_parameters = 0;
  std::int64_t sequence_length = 0;  // vision: the image's own
  std::int64_t target_length = 0;    // of an encoder-decoder's decoder; 0: the same
  std::int64_t encodings = 1;        // texts of a sample, of one graph
  precision_recipe precision{};
  gpuplan::optimizer optimizer{};
  gpuplan::parallelism parallelism{};
  model_rank place{};  // whose memory it is
  recompute_mode recompute = recompute_mode::none;
  recomputed_modules modules{};  // selective: which
  offloaded_activations offloads{};
  captured_parts graphs{};
  // Rows of each expert over an equal share of the tokens, which inputs are padded to:
  // Megatron-Core's moe_expert_capacity_factor. Where experts are not balanced it stands for the
  // busiest rank's.
  double expert_capacity = 1;
  token_dispatcher dispatcher = token_dispatcher::all_to_all;
  gpuplan::context_exchange context_exchange = gpuplan::context_exchange::automatic;
  // full: layers between two inputs that are kept, Megatron's recompute_method uniform with
  // recompute_num_layers,
  std::int64_t recompute_span = 1;
  // so many of each stage, from the first (recompute_method block); 0: all
  std::int64_t recompute_layers = 0;
  std::int64_t recompute_period = 1;  // of these the last of so many: torchtitan's selective, "2"
  // full: the results of attention, of reductions among ranks, and of every other matrix product
  // of a layer stay: torchtitan's selective, "op"
  bool saves_costly_results = false;
  attention_kernel attention = attention_kernel::automatic;
  double dropout = 0;
  known<double> attention_dropout{};   // of the weights of attention; else `dropout`
  known<double> activation_dropout{};  // within an MLP, where a class has one; likewise
  known<double> classifier_dropout{};  // before a classifier; likewise
  bool padding_mask = false;
  // The samples of a micro-batch lie one behind the other in one row, each with positions of its
  // own, and see themselves alone (transformers' DataCollatorWithFlattening, TRL's padding_free and
  // packing).
  bool padding_free = false;
  training_objective objective = training_objective::next_token;
  reference_model reference = reference_model::separate;  // of preferences and policies
  // Of a policy: another engine generates, as vLLM, whose log-probabilities come with the batch.
  bool generates_apart = false;
  // What such an engine holds of the same GPU while a step runs, in bytes: vLLM's
  // gpu_memory_utilization times the device's memory, or what it keeps when it sleeps. Stated, not
  // worked out.
  std::int64_t inference_bytes = 0;
  // Of a sample, whose log-probabilities the loss reads: its completions' (TRL). 0: all that have
  // one, each token but the first of a sequence.
  std::int64_t scored_tokens = 0;
  gpuplan::framework framework{};

  /// What computes attention: what is asked for, or where nothing is and the code knows no kernel
  /// of PyTorch's, eager.
  [[nodiscard]] constexpr attention_kernel chosen_attention() const {
    const bool chooses = attention == attention_kernel::automatic;
    return chooses && !framework.implementation.has_sdpa ? attention_kernel::eager : attention;
  }
  /// The model's layers that predict further tokens, where the code has them: transformers leaves
  /// them out.
  [[nodiscard]] constexpr std::int64_t trained_mtp_layers() const {
    return framework.layers().has_every_part ? model.mtp_layers : 0;
  }
  /// The model with these layers alone.
  [[nodiscard]] constexpr transformer trained_model() const {
    transformer trained = model;
    trained.mtp_layers = trained_mtp_layers();
    return trained;
  }
};

/// Whether context-parallel ranks exchange parts of the sequence for parts of the heads.
[[nodiscard]] constexpr bool exchanges_heads(const training_setup& setup) {
  if (!setup.framework.implementation.transformer_engine) return false;
  if (setup.context_exchange != context_exchange::automatic)
    return setup.context_exchange == context_exchange::a2a;
  return setup.model.sliding_window != 0 || setup.model.attention_sinks;
}

namespace detail {
/// Whether each matrix of the adapters is a unit of the engine's own, within those of the layers.
/// Where the engine casts what it gathers, operators are under autocast besides: PEFT's adapters
/// cast what they read to the format of the part that they see before they are gathered.
[[nodiscard]] constexpr bool wraps_adapters(const training_setup& setup) {
  return setup.framework.engine.is->wraps_adapters && setup.trains.what == training::adapters;
}
/// Whether the base beside adapters is stored in blocks.
[[nodiscard]] constexpr bool is_quantised(const trainable& what) {
  return what.what == training::adapters && what.adapters.base.block != 0;
}
/// Whether zero.Init makes the model; transformers has it make no quantised one.
[[nodiscard]] constexpr bool divides_while_building(const training_setup& setup) {
  return setup.parallelism.zero_stage == 3 && setup.framework.engine.zero.divides_while_building &&
         !is_quantised(setup.trains);
}
/// In which format adapters train: as they were made, unless the engine casts them. DeepSpeed does
/// not where zero.Init has made the model.
[[nodiscard]] constexpr number_format format_of_adapters(const training_setup& setup) {
  const bool are_cast = setup.framework.engine.is->casts_adapters && !divides_while_building(setup);
  return are_cast ? setup.precision.weights : setup.trains.adapters.weights;
}
}  // namespace detail

/// With which probabilities the layers of a model drop in training.
struct layer_dropouts {
  double hidden = 0;
  known<double> attention{};   // of the weights of attention; else `hidden`
  known<double> activation{};  // within an MLP, where a class has one; likewise
  known<double> classifier{};  // before a classifier; likewise
};

/// A step of `to` drops with the probabilities of `from`, which `validate` holds within [0, 1].
constexpr void set_dropouts(const layer_dropouts& from, training_setup& to) {
  to.dropout = from.hidden;
  to.attention_dropout = from.attention;
  to.activation_dropout = from.activation;
  to.classifier_dropout = from.classifier;
}

/// The tokens of one sequence as the layers see it: an image's own; of an encoder-decoder's decoder
/// `target_length`, where it is stated.
[[nodiscard]] constexpr std::int64_t tokens_of_sequence(const training_setup& setup,
                                                        bool in_decoder) {
  if (setup.model.kind == model_kind::vision) return setup.model.image.tokens();
  const bool has_own = in_decoder && setup.model.kind == model_kind::encoder_decoder;
  return has_own && setup.target_length != 0 ? setup.target_length : setup.sequence_length;
}

/// The setup of a part of several, as if it trained alone. Precondition: the part says whose code
/// runs it.
[[nodiscard]] constexpr training_setup setup_of_part(const training_setup& all,
                                                     const component& part) {
  training_setup setup = all;
  setup.model = part.model;
  setup.composite = nullptr;
  setup.trains = part.trains;
  if (part.sequence_length != 0) setup.sequence_length = part.sequence_length;
  if (part.frozen_in_compute_format && all.precision.autocast()) {
    setup.precision.weights = all.precision.compute;
    setup.precision.under_autocast = true;
  }
  const bool builds_in_fp32 = all.framework.implementation.builds_in_fp32;
  setup.framework.implementation = *part.by;
  setup.framework.implementation.builds_in_fp32 = builds_in_fp32;
  return setup;
}

/// The tokens of a sample whose log-probabilities a loss reads that counts them: those stated, or
/// all that have one.
[[nodiscard]] constexpr std::int64_t scored_tokens_of(const training_setup& setup) {
  if (setup.scored_tokens != 0) return setup.scored_tokens;
  const std::int64_t sequences = setup.objective == training_objective::preference ? 2 : 1;
  return sequences * (setup.sequence_length - 1);
}

/// How many micro-batches of a step go through a pipeline of such layers: as the schedule takes
/// them; by PyTorch's Schedule1F1B at least as many as there are stages, by its
/// ScheduleInterleavedZeroBubble a multiple of them.
[[nodiscard]] constexpr micro_batch_rule micro_batches_of(const layer_class& code,
                                                          const parallelism& layout) {
  micro_batch_rule taken = micro_batches_of(layout);
  if (!code.divides_stages) return taken;
  if (layout.schedule == pipeline_schedule::one_f_one_b && layout.pipeline_parallel > taken.least)
    taken.least = layout.pipeline_parallel;
  if (layout.schedule == pipeline_schedule::zero_bubble)
    taken.multiple_of = layout.pipeline_parallel;
  return taken;
}

/// The texts of a sample that a sentence encoder compares at most.
inline constexpr std::int64_t most_texts_beside = 5;

}  // namespace gpuplan

#pragma once

// What the software around a model does, as far as memory and time tell it apart.

#include <gpuplan/precision.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// Whose code runs the layers: in which order, and what its functions hold meanwhile.
enum class layer_code {
  gpt,       // one linear layer for query, key and value; attention within the block's function
  llama,     // three; attention in a function of its own
  gpt2,      // Hugging Face's GPT-2: Conv1D
  decoder,   // Hugging Face's LLaMA and what was copied from it
  bert,      // Hugging Face's BERT and what was copied from it
  vit,       // Hugging Face's ViT
  t5,        // Hugging Face's T5
  opt,       // Hugging Face's OPT
  gpt_neox,  // Hugging Face's GPT-NeoX
  gptj,      // Hugging Face's GPT-J
  lit_gpt,   // LitGPT's, with its own adapters
  megatron_core,  // (sequence, batch, hidden), tensor-parallel linear layers
  torchtitan      // complex rotary embeddings
};

/// How RMS norms are computed.
enum class rms_norm_code {
  fused,         // one kernel
  eager,         // power, mean, root and product, in fp32; cast, then times the weight
  eager_whole,   // cast behind the weight
  eager_shifted  // likewise, and the weight counts from 1
};

/// How rotary positions are applied.
enum class rotary_code {
  halves,       // in the format of the query
  halves_fp32,  // in fp32
  rotate_half   // Hugging Face: x * cos + rotate_half(x) * sin
};

/// How fewer key-value heads meet the query's.
enum class grouped_heads_code {
  by_kernel,  // as the kernel supports it
  repeated    // copied to all heads first
};

/// What happens to a language model's logits before the loss.
enum class logits_code { as_computed, to_fp32 };

/// How the ranks of data parallelism share states.
enum class sharding_code {
  none,       // DistributedDataParallel with ZeRO-0; ZeroRedundancyOptimizer with ZeRO-1
  fsdp2,      // fully_shard
  deepspeed,  // its ZeRO stages
  megatron    // its distributed optimizer
};

/// Where an encoder's numbers of positions come from.
enum class position_numbers {
  range,
  counted,             // over the tokens that are no padding
  counted_after_cache  // likewise, and what a cache holds is added
};

/// What encoders of BERT's kin do in different ways.
struct encoder_code {
  position_numbers positions = position_numbers::range;
  bool positions_behind_norm = false;  // are built
  // The output layers are in the functions of attention, there without dropout, and of the MLP;
  // else in functions of their own, with the norms behind them.
  bool outputs_inside = false;
  bool pools = false;               // a classifier reads the pooler's result
  bool drops_before_dense = false;  // of a classifier
  bool shares_head_bias = true;     // that of the masked head stands outside its layer
  bool gelu_in_head = false;        // whatever the layers' activation
};

/// In which order a layer of an encoder of images builds its parts.
enum class layer_construction {
  attention_norms_mlp,
  attention_norm_mlp_norm,
  norm_attention_norm_mlp
};

/// What encoders of images do in different ways. What is not said is as in ViT.
struct image_code {
  layer_construction built = layer_construction::attention_norms_mlp;
  bool positions_in_table = false;        // read by number; else one parameter, which is added
  bool builds_key_first = false;          // then value and query
  bool views_behind_projections = false;  // heads are told apart when all three are computed
  bool adds_to_residual = false;          // the residual is the first operand
  bool drops_hidden = true;               // dropout behind the embedding and in layers
  bool means_patches = false;             // for the classifier; else it reads the first token
  bool norms_first_token = false;         // alone, and in vain
  bool truncates_weights = false;         // when they are initialised
};

/// What of a head is rotated by its position.
enum class rotary_parts_code {
  none,          // all of it
  in_attention,  // its front; the attention's function holds both parts
  in_rotation    // likewise the rotation's
};

/// What Hugging Face's decoders do in different ways.
struct decoder_code {
  bool masks_by_kind = false;    // of layers: a mask for windows beside one for all tokens
  bool rotates_by_kind = false;  // likewise tables of angles
  bool rotates_in_fp32 = false;  // and casts the result back
  rotary_parts_code rotary_parts = rotary_parts_code::none;
  std::int64_t rotary_percent = 100;     // of a head's width that is rotated
  std::int64_t most_rotated = 0;         // elements of a head; 0: all
  bool builds_rotary_first = false;      // before the last norm
  bool normalizes_turned_heads = false;  // query and key, when their heads stand before the tokens
  bool views_behind_projections =
      false;  // heads are told apart once query, key and value are there
  bool scales_embedding = false;
  bool drops_embedding = false;
  bool holds_undropped_embedding = false;  // as long as the model runs
  bool drops_residual = false;             // what attention and MLP add
  bool caps_scores = false;  // cap * tanh(score / cap), where attention is written out
  bool caps_logits = false;
};

/// DeepSpeed's `zero_optimization`, with its defaults (runtime/zero/config.py of DeepSpeed 0.19).
/// Sizes are in elements.
struct zero_settings {
  std::int64_t reduce_bucket = 500'000'000;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  bool round_robin_gradients = false;
  bool flattens_on_host = false;  // weights go there while their flat buffer is made
  bool reduces_in_place = false;  // each rank's part of a bucket by itself; else copied together
  bool steps_while_building = false;  // so that the optimizer's states are there from then on
  bool renews_gradients = false;      // before each backward, where their sums are in fp32
  // stage 3
  bool divides_while_building = false;  // deepspeed.zero.Init
  std::int64_t prefetch_bucket = 50'000'000;
  std::int64_t persistence_threshold = 100'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group = 1'000'000'000;
};

/// What a step costs in this software beside the products and bytes of its operators. Which of its
/// kernels are fused, the fields of `framework` say. What is hidden is a share from 0 to 1.
struct software_costs {
  double matmul_rate = 1;  // of products, over what the device's kernels reach: by library
  // Bytes of element-wise kernels, over those counted: below 1 where caches hold some of them,
  // above where kernels are less fused than the fields of `framework` say.
  double element_traffic = 1;
  double score_traffic = 1;                // likewise of scores, where attention is written out
  duration host_per_operator{};            // the host's time to launch one operator of a layer
  double host_of_backward = 0.4;           // of that, where autograd launches it: without Python
  bool launches_ahead = true;              // while exchanges run; else the host waits for these too
  duration host_per_step{};                // logging, the loader, the optimizer's launches
  double hidden_tensor_communication = 0;  // behind products
  double hidden_expert_communication = 0;  // behind other micro-batches or shared experts
  double hidden_pipeline_communication = 0;  // behind the next micro-batch
  bool hides_gradients = true;               // behind the backward pass of the last micro-batch
  bool hides_gathers = true;     // of weights that passes gather, and of gradients, behind layers
  bandwidth gathered_at_most{};  // of a rank, by ZeRO-3: 0 as the links allow
  bool hides_parameters = true;  // behind the forward pass: ZeRO-1's, which stage 3 always does
  double contention = 0;         // s lost for each s of communication that runs beside kernels
  bool of_its_like = false;      // no step of this software was timed: these are of other code

  friend constexpr bool operator==(const software_costs&, const software_costs&) = default;
};

struct framework {
  const char* name = "";
  layer_code layers = layer_code::llama;
  rms_norm_code rms_norm = rms_norm_code::fused;
  rotary_code rotary = rotary_code::halves;
  grouped_heads_code grouped_heads = grouped_heads_code::by_kernel;
  logits_code logits = logits_code::as_computed;
  bool loss_parallel = false;           // logits stay divided among tensor-parallel ranks
  bool scales_decoder_outputs = false;  // T5's first version, before the head
  sharding_code sharding = sharding_code::none;
  encoder_code encoder{};
  decoder_code decoder{};
  image_code images{};

  bool loads_all_kernels = false;  // of PyTorch at once: before its version 1.13

  // A thread's workspaces of cuBLAS, from its first product on: PyTorch before 2.15 (seen in 2.11),
  // which has one thread for forward passes and one for backward passes. False: each product's own.
  bool keeps_workspaces = false;
  bool random_states_on_host = false;  // of the efficient kernel of attention: likewise

  bool builds_in_fp32 = true;  // and casts the model then; false: built in its weights' format

  // DistributedDataParallel
  std::int64_t first_bucket_bytes = 1 << 20;
  std::int64_t bucket_bytes = 25 << 20;
  bool gradients_are_views = false;  // of the buckets

  // torch.compile
  bool compiles_layers = false;  // one by one
  bool compiles_loss = false;

  // fully_shard: false sets set_requires_gradient_sync(False) for all micro-batches but the last
  bool reduces_every_micro_batch = true;
  bool keeps_last_layer = false;           // whole, from its forward to its backward
  bool gathers_before_checkpoint = false;  // of a layer; else its checkpoint gathers

  // Megatron
  bool softmax_in_fp32 = false;  // of attention written out
  bool fuses_softmax = false;    // and its scale and mask: one kernel
  // The activation with the bias before it is one function, which is computed again in the
  // backward; without gate and bias the activation stays as it is.
  bool fuses_bias_activation = false;
  bool compiles_functions = false;  // such functions are one kernel, without temporaries
  bool fuses_loss = false;          // its gradient is bf16
  bool overlaps_reduction = false;  // of gradients with the backward, bucket by bucket
  // Transformer Engine's layers and optimizer; a fused loss writes its gradient over the logits.
  bool transformer_engine = false;

  bool checkpoints_reenter = false;  // torch.utils.checkpoint with use_reentrant=True
  zero_settings zero{};

  software_costs costs{};
};

}  // namespace gpuplan

#pragma once

// Which parameters of a model train: all, none, a part, or low-rank adapters beside frozen ones.

#include <gpuplan/precision.hpp>

#include <cstdint>

namespace gpuplan {

/// The linear layers that get an adapter, by what they compute. A fused layer counts under each of
/// its parts, and needs all of them.
struct lora_targets {
  bool query = false;
  bool key = false;
  bool value = false;
  bool attention_out = false;
  bool query_down = false;      // latent attention: to the query's latent vector,
  bool key_value_down = false;  // to that of key and value,
  bool key_value_up = false;    // and from it
  bool gate = false;            // of MLP and shared experts
  bool up = false;
  bool down = false;
  bool experts = false;  // those of the routed experts that gate, up and down name
  // The matrices of all routed experts as the tensors that transformers 5 keeps them in, by PEFT's
  // `target_parameters`: gates and ups have one adapter. It is added to them once for a forward,
  // which `flops` counts for each sequence.
  bool expert_gate_up = false;
  bool expert_down = false;
  bool router = false;
  bool shared_expert_gate = false;
  bool other = false;  // pooler, projections, the dense layer before a head; state spaces, linear
                       // attention, and what leads to latent experts
  bool mixer_in = false;    // what leads into state spaces and linear attention, alone
  bool classifier = false;  // its matrix
  bool patches = false;
  bool embedding = false;  // the token table
  bool head = false;

  friend constexpr bool operator==(const lora_targets&, const lora_targets&) = default;
};

/// Query and value, as in the paper.
inline constexpr lora_targets query_and_value{.query = true, .value = true};
/// The linear layers of attention.
inline constexpr lora_targets attention_layers{.query = true,
                                               .key = true,
                                               .value = true,
                                               .attention_out = true,
                                               .query_down = true,
                                               .key_value_down = true,
                                               .key_value_up = true};
/// PEFT's `all-linear`: every linear layer but the language-model head. Routers and routed experts,
/// which Hugging Face keeps as plain tensors, are passed over; PEFT 0.21 adapts those of some
/// classes, which are refused then.
inline constexpr lora_targets all_linear{.query = true,
                                         .key = true,
                                         .value = true,
                                         .attention_out = true,
                                         .query_down = true,
                                         .key_value_down = true,
                                         .key_value_up = true,
                                         .gate = true,
                                         .up = true,
                                         .down = true,
                                         .shared_expert_gate = true,
                                         .other = true,
                                         .classifier = true};

/// Which biases train beside adapters.
enum class lora_bias {
  none,
  adapted,  // those of the layers that have an adapter; PEFT's `lora_only`
  all
};

/// How the frozen matrices of linear layers, all but the head's, are stored beside adapters: in
/// blocks of four-bit elements that share a scale (QLoRA: Dettmers et al. 2023, arXiv 2305.14314,
/// section 3). A product makes its matrix in full, in the format of products, forward and backward.
/// Where ranks share weights they share the elements (bitsandbytes' `quant_storage` in the weights'
/// format), and each has all scales.
struct quantised_base {
  std::int64_t block = 0;        // elements that share a scale; 0: nothing is quantised
  std::int64_t scale_block = 0;  // int8 scales, so many of which share one; 0: fp32 scales
  bool rest_in_fp32 = false;     // what is not quantised is cast to fp32 before training (PEFT's
                                 // prepare_model_for_kbit_training); not where FSDP shares it, and
                                 // DeepSpeed casts it back
  bool in_weights_format = false;  // stored as elements of that, not as bytes
                                   // (bnb_4bit_quant_storage)

  friend constexpr bool operator==(const quantised_base&, const quantised_base&) = default;
};

/// NF4 or FP4 as bitsandbytes has them, with fp32 scales: 4.5 bits an element.
inline constexpr quantised_base four_bit_base{.block = 64};
/// Likewise with double quantisation: 4.127 bits.
inline constexpr quantised_base double_quantised_base{.block = 64, .scale_block = 256};

/// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685): beside a frozen matrix of `in x out`, a
/// trained one of `in x rank` and one of `rank x out`.
struct lora {
  std::int64_t rank = 0;
  number_format weights = number_format::fp32;  // whatever the model's are; PEFT's default
  lora_targets targets = query_and_value;
  double dropout = 0;       // of what an adapter reads; a table's rows are not dropped
  bool magnitudes = false;  // DoRA: a trained vector of `out` beside each
  lora_bias bias = lora_bias::none;
  bool copy_embedding = false;  // a trained copy of the token table; PEFT's `modules_to_save`
  bool copy_head = false;       // likewise of the head
  quantised_base base{};

  friend constexpr bool operator==(const lora&, const lora&) = default;
};

enum class training {
  full,
  frozen,
  head,         // its matrix, which may be the token table; of a classifier the dense layer too
  last_layers,  // as many layers as `last_layers` says, the final norm, pooler, a head not tied
  adapters      // as `adapters` says
};

/// What of a model trains.
struct trainable {
  training what = training::full;
  std::int64_t last_layers = 0;
  bool tied_head = false;  // with the last layers: the token table too, where it is the head
  bool final_norm = true;  // likewise the norm behind them
  lora adapters{};

  friend constexpr bool operator==(const trainable&, const trainable&) = default;
};

}  // namespace gpuplan

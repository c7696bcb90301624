#pragma once

// What is trained, and how: all but the batch.

#include <gpuplan/framework.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

namespace gpuplan {

/// What computes softmax(query x key) x value.
enum class attention_kernel {
  automatic,   // as PyTorch chooses: flash where it can, else efficient
  flash,       // FlashAttention-2
  efficient,   // xFormers' memory-efficient attention
  math,        // PyTorch's own products, in fp32
  written_out  // the model's own products
};

struct training_setup {
  transformer model{};
  trainable trains{};
  std::int64_t sequence_length = 0;  // vision: the image's own
  std::int64_t target_length = 0;    // of an encoder-decoder's decoder; 0: the same
  std::int64_t encodings = 1;        // texts of a sample, of one graph
  precision_recipe precision{};
  gpuplan::optimizer optimizer{};
  gpuplan::parallelism parallelism{};
  model_rank place{};  // whose memory it is
  recompute_mode recompute = recompute_mode::none;
  // full: layers between two inputs that are kept (Megatron's uniform method),
  std::int64_t recompute_span = 1;
  std::int64_t recompute_layers = 0;  // so many of each stage, from the first; 0: all
  std::int64_t recompute_period = 1;  // of these the last of so many
  // full: the results of attention, of reductions among ranks, and of every other matrix product
  // of a layer stay
  bool saves_costly_results = false;
  attention_kernel attention = attention_kernel::automatic;
  double dropout = 0;
  bool padding_mask = false;
  gpuplan::framework framework{};
};

/// The texts of a sample that a sentence encoder compares at most.
inline constexpr std::int64_t most_texts_beside = 5;

namespace detail {

// Whether the framework's layer code has what the model has.
constexpr failure flaw_of_code(const transformer& model, const framework& by) {
  const layer_code code = by.layers;
  const auto without = [](const char* what) { return failure(errc::no_such_code).about(what); };
  model_kind kind = model_kind::decoder;
  if (code == layer_code::bert) kind = model_kind::encoder;
  if (code == layer_code::vit) kind = model_kind::vision;
  if (code == layer_code::t5) kind = model_kind::encoder_decoder;
  if (model.kind != kind) return without("kind of model");
  if (code == layer_code::bert || code == layer_code::vit) {
    if (model.gated_mlp) return without("gated MLP");
    if (model.norm != norm_kind::layer_norm) return without("RMS norms");
    if (model.key_value_heads() * model.query_dim() != model.hidden_size)
      return without("heads that are not as wide as the model");
    if (code == layer_code::vit && model.head != head_kind::classifier)
      return without("head without classes");
  }
  const expert_mixture& moe = model.moe;
  if (moe.num_experts != 0) {
    if (!by.transformer_engine) return without("experts");
    if (moe.shared_expert_gate) return without("gate of shared experts");
    if (moe.router_bias || model.mlp_bias || !model.gated_mlp) return without("such experts");
  }
  if (model.is_latent() && !by.transformer_engine) return without("latent attention");
  if (model.attention_sinks) return without("attention sinks");
  if (model.mtp_layers != 0) return without("multi-token prediction");
  if (model.layer_scale) return without("layer scale");
  if (model.embedding_dim != 0) return without("narrow embedding");
  return {};
}

// What Megatron-Core can divide, as far as its code is known.
constexpr failure flaw_of_megatron(const training_setup& setup) {
  const auto without = [](const char* what) { return failure(errc::no_such_code).about(what); };
  const parallelism& division = setup.parallelism;
  const expert_mixture& moe = setup.model.moe;
  if (division.context_parallel > 1) {
    if (!setup.framework.transformer_engine) return without("context parallelism");
    if (setup.model.is_latent()) return without("latent context parallelism");
  }
  if (moe.num_experts == 0) return {};
  if (division.tensor_parallel > 1) return without("experts in tensor parallelism");
  if (moe.num_experts % division.expert_parallel != 0) return without("experts for so many ranks");
  return {};
}

}  // namespace detail

/// The setup itself where its model and division are valid, the framework's code has such models,
/// lengths are from 1 to 2^32 (of a vision model they are not read), and dropout is a probability.
/// Errors: those of the model and of the division; `no_such_code`; `out_of_bounds`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup) {
  if (const auto valid = validate(setup.model); !valid) return valid.why();
  if (const auto valid = validate(setup.parallelism); !valid) return valid.why();
  if (const failure why = detail::flaw_of_code(setup.model, setup.framework); detail::failed(why))
    return why;
  // Its gradient would leave the layer that is computed again.
  if (setup.recompute == recompute_mode::full && setup.framework.checkpoints_reenter &&
      setup.model.relative_attention_buckets != 0)
    return failure(errc::no_such_code).about("re-entrant checkpoints of layers that share a bias");
  if (setup.framework.layers == layer_code::megatron_core)
    if (const failure why = detail::flaw_of_megatron(setup); detail::failed(why)) return why;
  const std::int64_t longest = std::int64_t{1} << 32;
  const bool reads_tokens = setup.model.kind != model_kind::vision;
  for (const named_fact count :
       {named_fact{fact::sequence_length, reads_tokens ? setup.sequence_length : 1},
        named_fact{fact::decoder_sequence_length,
                   setup.target_length != 0 ? setup.target_length : 1},
        named_fact{fact::encodings, setup.encodings},
        named_fact{fact::recompute_span, setup.recompute_span},
        named_fact{fact::recompute_period, setup.recompute_period}})
    if (count.value < 1 || count.value > longest)
      return failure(errc::out_of_bounds,
                     count,
                     named_fact{fact::at_least, 1},
                     named_fact{fact::at_most, longest});
  // An encoder without a head trains on the texts of a sample beside each other.
  const named_fact texts{fact::encodings, setup.encodings};
  if (setup.framework.layers == layer_code::bert && setup.model.head == head_kind::none &&
      (texts.value < 2 || texts.value > most_texts_beside))
    return failure(errc::out_of_bounds,
                   texts,
                   named_fact{fact::at_least, 2},
                   named_fact{fact::at_most, most_texts_beside});
  if (!(setup.dropout >= 0 && setup.dropout <= 1))
    return failure(errc::out_of_bounds, named_fact{fact::at_least, 0}, named_fact{fact::at_most, 1})
        .about("dropout");
  return setup;
}

}  // namespace gpuplan

#pragma once

// What a model computes, operator by operator in the order of the forward pass: the one list from
// which parameters, FLOPs and adapters are counted.

#include <gpuplan/model.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// What multiplies matrices, by its place in the model.
enum class operator_kind {
  patch_embedding,
  project_in,  // from a narrow token table
  query_down,  // latent attention: to the latent vector
  query,
  key_value_down,
  key_value_up,
  key,
  value,
  query_key_value,  // one matrix for the three
  scores,           // query x key; no parameters
  weighted_values,  // softmax of scores x value; no parameters
  attention_output,
  gate,
  up,
  gate_up,  // one matrix for both
  down,
  router,
  expert_gate,
  expert_up,
  expert_gate_up,
  expert_down,
  shared_gate,
  shared_up,
  shared_gate_up,
  shared_down,
  shared_expert_gate,
  latent_down,  // to what routed experts read
  latent_up,    // and back
  mixer_in,     // of state spaces and linear attention: all that they read,
  convolution,  // of it along the tokens,
  recurrence,   // what passes from token to token,
  mixer_out,    // and their result
  mtp_projection,
  pooler,
  projection,
  project_out,  // to the width of a tied narrow token table
  head_dense,
  head,
  adapters  // LoRA's, wherever they are
};
inline constexpr int operator_kinds = static_cast<int>(operator_kind::adapters) + 1;

/// Whether it is of a routed expert.
[[nodiscard]] constexpr bool is_of_expert(operator_kind kind) {
  return kind == operator_kind::expert_gate || kind == operator_kind::expert_up ||
         kind == operator_kind::expert_gate_up || kind == operator_kind::expert_down;
}

/// The name, as the enumerator is spelled.
[[nodiscard]] constexpr const char* text(operator_kind kind) {
  constexpr const char* names[operator_kinds] = {"patch_embedding",
                                                 "project_in",
                                                 "query_down",
                                                 "query",
                                                 "key_value_down",
                                                 "key_value_up",
                                                 "key",
                                                 "value",
                                                 "query_key_value",
                                                 "scores",
                                                 "weighted_values",
                                                 "attention_output",
                                                 "gate",
                                                 "up",
                                                 "gate_up",
                                                 "down",
                                                 "router",
                                                 "expert_gate",
                                                 "expert_up",
                                                 "expert_gate_up",
                                                 "expert_down",
                                                 "shared_gate",
                                                 "shared_up",
                                                 "shared_gate_up",
                                                 "shared_down",
                                                 "shared_expert_gate",
                                                 "latent_down",
                                                 "latent_up",
                                                 "mixer_in",
                                                 "convolution",
                                                 "recurrence",
                                                 "mixer_out",
                                                 "mtp_projection",
                                                 "pooler",
                                                 "projection",
                                                 "project_out",
                                                 "head_dense",
                                                 "head",
                                                 "adapters"};
  return names[static_cast<int>(kind)];
}

/// The values that operators read and write, as far as gradients tell them apart.
enum class slot {
  stream,            // the residual stream
  memory,            // the encoder's output, for cross-attention
  input,             // of a sublayer
  query_latent,      // of latent attention
  key_value_latent,  // likewise
  query,
  key,
  value,
  attention,       // the result
  hidden,          // of an MLP or of routed experts
  shared_hidden,   // of shared experts
  expert_output,   // of routed experts, before it is weighted
  shared_output,   // of gated shared experts, likewise
  routing,         // the weights of routed experts
  shared_routing,  // the weight of shared experts
  output,          // of a sublayer, before it is added to the stream
  pooled,          // one vector of a sequence
  head_input,      // where it is not the stream or what is pooled
  logits,          // of a head
  learned,         // a parameter that stands in for a token: SigLIP's query
  image            // never has a gradient
};
inline constexpr int slots = static_cast<int>(slot::image) + 1;

/// Which tokens an operator works on.
enum class token_set {
  own,     // those of its stack
  memory,  // the encoder's, in cross-attention
  pooled,  // one of a sequence
  patches  // of an image
};

/// How tensor parallelism divides a matrix (Shoeybi et al. 2019, arXiv 1909.08053, section 3).
enum class tensor_split {
  none,     // every rank holds all of it
  columns,  // of its outputs, and the bias with them
  rows      // of its inputs; every rank holds the bias
};

/// What is divided: `units` of `unit_size` each, and `groups` (key-value heads) of `group_size`,
/// which are repeated where there are fewer of them than ranks.
struct split_extent {
  std::int64_t units = 0;
  std::int64_t unit_size = 1;
  std::int64_t groups = 0;
  std::int64_t group_size = 1;
};

/// A linear layer, `in x out` with or without bias.
struct linear_operator {
  operator_kind kind{};
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  slot from = slot::stream;
  slot to = slot::stream;
  tensor_split split = tensor_split::none;
  split_extent extent{};  // of outputs or inputs, as `split` says
  token_set tokens = token_set::own;
  std::int64_t copies = 1;  // routed experts: how many there are
  std::int64_t uses = 1;    // and how many a token uses
  bool tied = false;        // the matrix is the token table
  bool again = false;       // it was visited before: the head, behind multi-token prediction
};

/// Query x key, softmax, x value. The key-value heads are repeated, so products are those of
/// `heads`.
struct attention_operator {
  std::int64_t heads = 0;
  std::int64_t query_dim = 0;
  std::int64_t value_dim = 0;
  token_set keys = token_set::own;
  bool pooled = false;  // one query a sequence
};

/// What passes between tokens beside attention: a convolution of each channel along the tokens, a
/// state of `key_dim x value_dim` for each head that tokens write and read, and a norm of the
/// result, which is gated. Each chunk of tokens is done by products.
struct recurrent_operator {
  bool is_delta_rule = false;  // else a state space
  std::int64_t heads = 0;      // of values
  std::int64_t value_dim = 0;  // of a head
  std::int64_t key_dim = 0;
  std::int64_t groups = 0;           // of heads that share their keys
  std::int64_t chunk = 0;            // tokens
  std::int64_t kernel = 0;           // tokens that the convolution reads
  bool bias = false;                 // of the convolution
  bool linear_bias = false;          // of the linear layers that lead in and out
  std::int64_t vectors_of_head = 0;  // numbers that each head has
  std::int64_t norm_width = 0;       // of its weights;
  bool divides_norm = false;         // which tensor parallelism divides with the heads

  /// What is convolved, as tensor parallelism divides it.
  [[nodiscard]] constexpr split_extent channels() const {
    return {.units = heads, .unit_size = value_dim, .groups = groups, .group_size = 2 * key_dim};
  }
  /// Multiplications and additions of one token's products, and what they read and write of a
  /// chunk's state beside.
  [[nodiscard]] constexpr double products_of_token(double heads_here, double groups_here) const {
    const auto d = [](std::int64_t count) { return static_cast<double>(count); };
    const double state = d(key_dim) * d(value_dim);
    const double pairs = d(chunk);
    // Both write the chunk's state and read the last one's; the delta rule's values are first
    // corrected by what the state says, which a triangular system of the chunk's keys gives.
    if (!is_delta_rule)
      return 4 * heads_here * state +
             2 * pairs * (groups_here * d(key_dim) + heads_here * d(value_dim));
    return heads_here *
           (6 * state + 2 * pairs * (3 * d(key_dim) + 2 * d(value_dim)) + pairs * pairs);
  }
};

namespace detail {

// Whether adapters of experts are added to the matrices of all of them before these are multiplied.
constexpr bool is_folded(const lora_targets& targets, operator_kind kind) {
  return kind == operator_kind::expert_down ? targets.expert_down
                                            : is_of_expert(kind) && targets.expert_gate_up;
}
// Whether adapters are for this linear layer. One that has a trained copy needs none.
constexpr bool is_adapted(const lora& adapters,
                          const transformer& model,
                          const linear_operator& op) {
  const lora_targets& targets = adapters.targets;
  const bool is_classifier = model.head == head_kind::classifier;
  const bool of_words = model.head == head_kind::language_model;
  switch (op.kind) {
    case operator_kind::patch_embedding:
      return targets.patches;
    case operator_kind::query_down:
      return targets.query_down;
    case operator_kind::query:
      return targets.query;
    case operator_kind::key_value_down:
      return targets.key_value_down;
    case operator_kind::key_value_up:
      return targets.key_value_up;
    case operator_kind::key:
      return targets.key;
    case operator_kind::value:
      return targets.value;
    case operator_kind::query_key_value:
      return targets.query && targets.key && targets.value;
    case operator_kind::attention_output:
      return targets.attention_out;
    case operator_kind::gate:
    case operator_kind::shared_gate:
      return targets.gate;
    case operator_kind::up:
    case operator_kind::shared_up:
      return targets.up;
    case operator_kind::gate_up:
    case operator_kind::shared_gate_up:
      return targets.gate && targets.up;
    case operator_kind::down:
    case operator_kind::shared_down:
      return targets.down;
    case operator_kind::expert_gate:
      return targets.expert_gate_up || (targets.experts && targets.gate);
    case operator_kind::expert_up:
      return targets.expert_gate_up || (targets.experts && targets.up);
    case operator_kind::expert_gate_up:
      return targets.expert_gate_up || (targets.experts && targets.gate && targets.up);
    case operator_kind::expert_down:
      return targets.expert_down || (targets.experts && targets.down);
    case operator_kind::router:
      return targets.router;
    case operator_kind::shared_expert_gate:
      return targets.shared_expert_gate;
    case operator_kind::head:
      return !adapters.copy_head && (targets.head || (targets.classifier && is_classifier));
    case operator_kind::head_dense:
      return targets.other && (of_words || !adapters.copy_head);
    case operator_kind::project_in:
    case operator_kind::project_out:
    case operator_kind::mtp_projection:
    case operator_kind::pooler:
    case operator_kind::projection:
      return targets.other;
    case operator_kind::mixer_in:
      return targets.other || targets.mixer_in;
    case operator_kind::mixer_out:
    case operator_kind::latent_down:
    case operator_kind::latent_up:
      return targets.other;
    case operator_kind::scores:
    case operator_kind::weighted_values:
    case operator_kind::convolution:
    case operator_kind::recurrence:
    case operator_kind::adapters:
      break;
  }
  return false;
}

}  // namespace detail

// A visitor has
//   repeat(count)                    what follows is there so often
//   begin_sublayer()                 the stream becomes the sublayer's input
//   norm(slot, width)                weights of the model's norm, or of a latent's RMS norm
//   latent_norm(slot, width)
//   head_norm(slot, width)           of query or key
//   output_norm(slot, width)         between the dense layer of a head and its matrix
//   linear(linear_operator)
//   share(slot from, slot to)        the second value is part of the same result
//   sinks(heads)
//   attention(attention_operator)
//   recur(recurrent_operator)
//   weigh(slot of, slot by)          the second value scales the first, which makes the output
//   scale(width)                     a vector scales the output
//   add_residual()                   the stream takes the output in

/// What Mamba-2 does between its linear layers; each head has a rate, a step and a skip.
[[nodiscard]] constexpr recurrent_operator operator_of(const state_space& by) {
  return {.heads = by.num_heads,
          .value_dim = by.head_dim,
          .key_dim = by.state_size,
          .groups = by.n_groups,
          .chunk = by.chunk_size,
          .kernel = by.conv_kernel,
          .bias = by.conv_bias,
          .linear_bias = by.proj_bias,
          .vectors_of_head = 3,
          .norm_width = by.inner(),
          .divides_norm = true};
}
/// And the gated delta rule; each head has a rate and a step.
[[nodiscard]] constexpr recurrent_operator operator_of(const linear_attention& by) {
  return {.is_delta_rule = true,
          .heads = by.num_value_heads,
          .value_dim = by.value_head_dim,
          .key_dim = by.key_head_dim,
          .groups = by.num_key_heads,
          .chunk = by.chunk_size,
          .kernel = by.conv_kernel_dim,
          .vectors_of_head = 2,
          .norm_width = by.value_head_dim};
}

namespace detail {

// Of a visitor that looks at linear layers: what it passes over.
struct matrices_alone {
  constexpr void begin_sublayer() {}
  constexpr void norm(slot, std::int64_t) {}
  constexpr void latent_norm(slot, std::int64_t) {}
  constexpr void head_norm(slot, std::int64_t) {}
  constexpr void output_norm(slot, std::int64_t) {}
  constexpr void share(slot, slot) {}
  constexpr void sinks(std::int64_t) {}
  constexpr void attention(const attention_operator&) {}
  constexpr void recur(const recurrent_operator&) {}
  constexpr void weigh(slot, slot) {}
  constexpr void scale(std::int64_t) {}
  constexpr void add_residual() {}
};

template <class Visitor>
constexpr void visit_attention(const transformer& model, bool cross, Visitor& visitor) {
  const std::int64_t width = model.hidden_size;
  const std::int64_t heads = model.num_attention_heads;
  const std::int64_t groups = model.key_value_heads();
  const std::int64_t query_dim = model.query_dim();
  const std::int64_t value_dim = model.value_dim();
  const bool bias = model.attention_bias;
  const std::int64_t gates = model.attention_gate ? 2 : 1;
  const split_extent queries{.units = heads, .unit_size = query_dim};
  const slot keys_from = cross ? slot::memory : slot::input;
  const token_set keys = cross ? token_set::memory : token_set::own;

  if (model.is_latent()) {
    const latent_attention& mla = model.mla;
    slot query_from = slot::input;
    std::int64_t query_in = width;
    if (mla.q_lora_rank != 0) {
      visitor.linear({.kind = operator_kind::query_down,
                      .in = width,
                      .out = mla.q_lora_rank,
                      .bias = bias,
                      .from = slot::input,
                      .to = slot::query_latent});
      visitor.latent_norm(slot::query_latent, mla.q_lora_rank);
      query_from = slot::query_latent;
      query_in = mla.q_lora_rank;
    }
    visitor.linear({.kind = operator_kind::query,
                    .in = query_in,
                    .out = heads * query_dim,
                    .from = query_from,
                    .to = slot::query,
                    .split = tensor_split::columns,
                    .extent = queries});
    visitor.linear({.kind = operator_kind::key_value_down,
                    .in = width,
                    .out = mla.kv_lora_rank + mla.qk_rope_head_dim,
                    .bias = bias,
                    .from = slot::input,
                    .to = slot::key_value_latent});
    visitor.latent_norm(slot::key_value_latent, mla.kv_lora_rank);
    const std::int64_t up = mla.qk_nope_head_dim + mla.v_head_dim;
    visitor.linear({.kind = operator_kind::key_value_up,
                    .in = mla.kv_lora_rank,
                    .out = heads * up,
                    .from = slot::key_value_latent,
                    .to = slot::key,
                    .split = tensor_split::columns,
                    .extent = {.units = heads, .unit_size = up}});
    visitor.share(slot::key, slot::value);
  } else if (model.fused_qkv && !cross) {
    visitor.linear({.kind = operator_kind::query_key_value,
                    .in = width,
                    .out = (gates * heads + 2 * groups) * query_dim,
                    .bias = bias,
                    .from = slot::input,
                    .to = slot::query,
                    .split = tensor_split::columns,
                    .extent = {.units = heads,
                               .unit_size = gates * query_dim,
                               .groups = groups,
                               .group_size = 2 * query_dim}});
    visitor.share(slot::query, slot::key);
    visitor.share(slot::query, slot::value);
  } else {
    visitor.linear({.kind = operator_kind::query,
                    .in = width,
                    .out = gates * heads * query_dim,
                    .bias = bias,
                    .from = slot::input,
                    .to = slot::query,
                    .split = tensor_split::columns,
                    .extent = {.units = heads, .unit_size = gates * query_dim}});
    for (const bool is_key : {true, false})
      visitor.linear({.kind = is_key ? operator_kind::key : operator_kind::value,
                      .in = width,
                      .out = groups * query_dim,
                      .bias = bias && (!is_key || model.key_bias),
                      .from = keys_from,
                      .to = is_key ? slot::key : slot::value,
                      .split = tensor_split::columns,
                      .extent = {.groups = groups, .group_size = query_dim},
                      .tokens = keys});
  }

  if (model.qk_norm != qk_norm_scope::none) {
    const bool all = model.qk_norm == qk_norm_scope::full_width;
    visitor.head_norm(slot::query, all ? heads * query_dim : query_dim);
    visitor.head_norm(slot::key, all ? groups * query_dim : query_dim);
  }
  if (model.attention_sinks) visitor.sinks(heads);
  visitor.attention({.heads = heads, .query_dim = query_dim, .value_dim = value_dim, .keys = keys});
  visitor.linear({.kind = operator_kind::attention_output,
                  .in = heads * value_dim,
                  .out = width,
                  .bias = model.attention_out_bias,
                  .from = slot::attention,
                  .to = slot::output,
                  .split = tensor_split::rows,
                  .extent = {.units = heads, .unit_size = value_dim}});
}

// One linear layer makes all that it reads: values, what gates them, keys of groups for reading and
// writing, and so many numbers of each head.
template <class Visitor>
constexpr void visit_recurrent(const transformer& model,
                               const recurrent_operator& op,
                               std::int64_t numbers_of_head,
                               Visitor& visitor) {
  const std::int64_t of_head = 2 * op.value_dim + numbers_of_head;
  visitor.linear({.kind = operator_kind::mixer_in,
                  .in = model.hidden_size,
                  .out = op.heads * of_head + 2 * op.groups * op.key_dim,
                  .bias = op.linear_bias,
                  .from = slot::input,
                  .to = slot::hidden,
                  .split = tensor_split::columns,
                  .extent = {.units = op.heads,
                             .unit_size = of_head,
                             .groups = op.groups,
                             .group_size = 2 * op.key_dim}});
  visitor.recur(op);
  visitor.linear({.kind = operator_kind::mixer_out,
                  .in = op.heads * op.value_dim,
                  .out = model.hidden_size,
                  .bias = op.linear_bias,
                  .from = slot::hidden,
                  .to = slot::output,
                  .split = tensor_split::rows,
                  .extent = {.units = op.heads, .unit_size = op.value_dim}});
}
template <class Visitor>
constexpr void visit_state_space(const transformer& model, Visitor& visitor) {
  visit_recurrent(model, operator_of(model.mamba), 1, visitor);
}
template <class Visitor>
constexpr void visit_linear_attention(const transformer& model, Visitor& visitor) {
  visit_recurrent(model, operator_of(model.linear), 2, visitor);
}

// What the linear layers of an MLP are, and where its values are.
struct mlp_parts {
  operator_kind gate, up, gate_up, down;
  slot hidden, output;
};

// Inlined, the parts are constants.
template <class Visitor>
[[gnu::always_inline]] constexpr void visit_mlp(const transformer& model,
                                                mlp_parts parts,
                                                std::int64_t outside,
                                                std::int64_t width,
                                                std::int64_t copies,
                                                std::int64_t uses,
                                                Visitor& visitor) {
  const auto widen = [&](operator_kind kind, std::int64_t matrices) __attribute__((always_inline)) {
    visitor.linear({.kind = kind,
                    .in = outside,
                    .out = matrices * width,
                    .bias = model.mlp_bias,
                    .from = slot::input,
                    .to = parts.hidden,
                    .split = tensor_split::columns,
                    .extent = {.units = width, .unit_size = matrices},
                    .copies = copies,
                    .uses = uses});
  };
  if (model.gated_mlp && model.fused_gate_up) {
    widen(parts.gate_up, 2);
  } else {
    if (model.gated_mlp) widen(parts.gate, 1);
    widen(parts.up, 1);
  }
  visitor.linear({.kind = parts.down,
                  .in = width,
                  .out = outside,
                  .bias = model.mlp_bias,
                  .from = parts.hidden,
                  .to = parts.output,
                  .split = tensor_split::rows,
                  .extent = {.units = width},
                  .copies = copies,
                  .uses = uses});
}

template <class Visitor>
constexpr void visit_dense_mlp(const transformer& model, Visitor& visitor) {
  visit_mlp(model,
            {operator_kind::gate,
             operator_kind::up,
             operator_kind::gate_up,
             operator_kind::down,
             slot::hidden,
             slot::output},
            model.hidden_size,
            model.intermediate_size,
            1,
            1,
            visitor);
}

template <class Visitor>
constexpr void visit_shared_experts(const transformer& model, Visitor& visitor) {
  if (model.moe.shared_expert_intermediate_size == 0) return;
  visit_mlp(model,
            {operator_kind::shared_gate,
             operator_kind::shared_up,
             operator_kind::shared_gate_up,
             operator_kind::shared_down,
             slot::shared_hidden,
             model.moe.shared_expert_gate ? slot::shared_output : slot::output},
            model.hidden_size,
            model.moe.shared_expert_intermediate_size,
            1,
            1,
            visitor);
}

template <class Visitor>
constexpr void visit_experts(const transformer& model, Visitor& visitor) {
  const expert_mixture& moe = model.moe;
  // As Hugging Face orders them: gated shared experts come first, the others last.
  if (moe.shared_expert_gate) visit_shared_experts(model, visitor);
  visitor.linear({.kind = operator_kind::router,
                  .in = model.hidden_size,
                  .out = moe.num_experts,
                  .bias = moe.router_bias,
                  .from = slot::input,
                  .to = slot::routing});
  const bool is_latent = moe.moe_latent_size != 0;
  if (is_latent)
    visitor.linear({.kind = operator_kind::latent_down,
                    .in = model.hidden_size,
                    .out = moe.moe_latent_size,
                    .from = slot::input,
                    .to = slot::hidden});
  visit_mlp(model,
            {operator_kind::expert_gate,
             operator_kind::expert_up,
             operator_kind::expert_gate_up,
             operator_kind::expert_down,
             slot::hidden,
             slot::expert_output},
            is_latent ? moe.moe_latent_size : model.hidden_size,
            moe.moe_intermediate_size,
            moe.num_experts,
            moe.num_experts_per_tok,
            visitor);
  visitor.weigh(slot::expert_output, slot::routing);
  if (is_latent)
    visitor.linear({.kind = operator_kind::latent_up,
                    .in = moe.moe_latent_size,
                    .out = model.hidden_size,
                    .from = slot::output,
                    .to = slot::output});
  if (moe.shared_expert_gate) {
    visitor.linear({.kind = operator_kind::shared_expert_gate,
                    .in = model.hidden_size,
                    .out = 1,
                    .from = slot::input,
                    .to = slot::shared_routing});
    visitor.weigh(slot::shared_output, slot::shared_routing);
  } else {
    visit_shared_experts(model, visitor);
  }
}

// The norms and the residual around a sublayer's operators.
template <class Visitor, class Operators>
constexpr void visit_sublayer(const transformer& model, Visitor& visitor, Operators operators) {
  const bool first =
      model.norm_at == norm_position::before || model.norm_at == norm_position::around;
  const bool last =
      model.norm_at == norm_position::after_sublayer || model.norm_at == norm_position::around;
  visitor.begin_sublayer();
  if (first) visitor.norm(slot::input, model.hidden_size);
  operators();
  if (last) visitor.norm(slot::output, model.hidden_size);
  if (model.layer_scale) visitor.scale(model.hidden_size);
  visitor.add_residual();
  if (model.norm_at == norm_position::after_residual) visitor.norm(slot::stream, model.hidden_size);
}

// A layer without its MLP.
template <class Visitor>
constexpr void visit_attention_part(const transformer& model, bool cross, Visitor& visitor) {
  if (model.parallel_attention) {
    visitor.begin_sublayer();
    visitor.norm(slot::input, model.hidden_size);
    visit_attention(model, false, visitor);
    if (model.layer_scale) visitor.scale(model.hidden_size);
    return;
  }
  visit_sublayer(model, visitor, [&] { visit_attention(model, false, visitor); });
  if (cross) visit_sublayer(model, visitor, [&] { visit_attention(model, true, visitor); });
}

// The MLP of a layer, or its experts.
template <class Visitor>
constexpr void visit_mlp_part(const transformer& model, bool experts, Visitor& visitor) {
  const auto mlp = [&] {
    if (experts)
      visit_experts(model, visitor);
    else
      visit_dense_mlp(model, visitor);
  };
  if (!model.parallel_attention) return visit_sublayer(model, visitor, mlp);
  if (model.norms_per_layer == 2) {
    visitor.begin_sublayer();
    visitor.norm(slot::input, model.hidden_size);
  }
  mlp();
  if (model.layer_scale) visitor.scale(model.hidden_size);
  visitor.add_residual();
}

constexpr transformer with_mlp_of_decoder(transformer model) {
  model.intermediate_size = model.decoder.intermediate_size;
  return model;
}

}  // namespace detail

/// Visits the operators of a layer. Precondition: `validate` accepts the model, which has such a
/// layer.
template <class Visitor>
constexpr void visit_layer(const transformer& model, layer_kind kind, Visitor& visitor) {
  if (has_attention(kind)) detail::visit_attention_part(model, kind == layer_kind::cross, visitor);
  if (has_linear_attention(kind))
    detail::visit_sublayer(model, visitor, [&] { detail::visit_linear_attention(model, visitor); });
  if (kind == layer_kind::state_space_alone)
    detail::visit_sublayer(model, visitor, [&] { detail::visit_state_space(model, visitor); });
  if (kind == layer_kind::cross && model.decoder.intermediate_size != 0)
    detail::visit_mlp_part(detail::with_mlp_of_decoder(model), false, visitor);
  else if (has_mlp(kind) || has_mixture(kind))
    detail::visit_mlp_part(model, has_mixture(kind), visitor);
}

/// How many layers of each kind.
struct layer_counts {
  std::int64_t of[layer_kinds]{};

  [[nodiscard]] constexpr std::int64_t operator[](layer_kind kind) const {
    return of[static_cast<int>(kind)];
  }
  constexpr void add(layer_kind kind, std::int64_t count) { of[static_cast<int>(kind)] += count; }
  constexpr void add(const layer_counts& more, std::int64_t times = 1) {
    for (int kind = 0; kind < layer_kinds; ++kind) of[kind] += times * more.of[kind];
  }
  /// Of all that `is` says so of.
  [[nodiscard]] constexpr std::int64_t all(bool (*is)(layer_kind)) const {
    std::int64_t sum = 0;
    for (int kind = 0; kind < layer_kinds; ++kind)
      if (is(static_cast<layer_kind>(kind))) sum += of[kind];
    return sum;
  }
};

/// What one token more of multi-token prediction passes: the layers of its pattern, or one like the
/// model's last.
[[nodiscard]] constexpr layer_counts mtp_layers_of(const transformer& model) {
  layer_counts layers;
  const std::int64_t letters = model.mtp_pattern.size();
  for (std::int64_t at = 0; at < letters; ++at) layers.add(model.mtp_pattern.kind_of(at), 1);
  if (letters == 0) layers.add(model.kind_of(model.num_hidden_layers - 1), 1);
  return layers;
}
/// How many of them have weights of their own.
[[nodiscard]] constexpr std::int64_t own_mtp_layers(const transformer& model) {
  return model.repeats_mtp_layer && model.mtp_layers > 1 ? 1 : model.mtp_layers;
}

/// The layers `first <= layer < last` of the model, an encoder's before the decoder's.
[[nodiscard]] constexpr layer_counts layers_between(const transformer& model,
                                                    std::int64_t first,
                                                    std::int64_t last) {
  const std::int64_t end = model.num_hidden_layers;
  const std::int64_t first_here = first < end ? first : end;
  const std::int64_t last_here = last < end ? last : end;
  layer_counts layers;
  layers.add(layer_kind::cross, last - first - (last_here - first_here));
  if (model.mixes_kinds()) {
    for (std::int64_t at = first_here; at < last_here; ++at) layers.add(model.kind_of(at), 1);
    return layers;
  }
  const std::int64_t mixtures =
      model.moe_layers_before(last_here) - model.moe_layers_before(first_here);
  layers.add(layer_kind::experts, mixtures);
  layers.add(layer_kind::dense, last_here - first_here - mixtures);
  return layers;
}

/// Visits the operators of many layers, those that are alike once.
template <class Visitor>
constexpr void visit_layers(const transformer& model,
                            const layer_counts& layers,
                            Visitor& visitor) {
  const auto repeat = [&](std::int64_t count) {
    visitor.repeat(count);
    return count != 0;
  };
  const std::int64_t cross = layers[layer_kind::cross];
  if (repeat(layers.all(has_attention) - cross))
    detail::visit_attention_part(model, false, visitor);
  if (repeat(cross)) detail::visit_attention_part(model, true, visitor);
  if (repeat(layers.all(has_linear_attention)))
    detail::visit_sublayer(model, visitor, [&] { detail::visit_linear_attention(model, visitor); });
  if (repeat(layers[layer_kind::state_space_alone]))
    detail::visit_sublayer(model, visitor, [&] { detail::visit_state_space(model, visitor); });
  const bool is_alike = model.decoder.intermediate_size == 0;
  if (repeat(layers.all(has_mlp) - (is_alike ? 0 : cross)))
    detail::visit_mlp_part(model, false, visitor);
  if (!is_alike && repeat(cross))
    detail::visit_mlp_part(detail::with_mlp_of_decoder(model), false, visitor);
  if (repeat(layers.all(has_mixture))) detail::visit_mlp_part(model, true, visitor);
  visitor.repeat(1);
}

/// Visits the operators before the first layer, tables apart.
template <class Visitor>
constexpr void visit_input(const transformer& model, Visitor& visitor) {
  if (model.kind == model_kind::vision) {
    const image_input& image = model.image;
    visitor.linear({.kind = operator_kind::patch_embedding,
                    .in = image.num_channels * image.patch_size * image.patch_size,
                    .out = model.hidden_size,
                    .bias = image.patch_bias,
                    .from = slot::image,
                    .to = slot::stream,
                    .tokens = token_set::patches});
  }
  if (model.embedding_norm && !model.embedding_norm_is_first)
    visitor.norm(slot::stream, model.token_width());
  if (model.embedding_dim != 0)
    visitor.linear({.kind = operator_kind::project_in,
                    .in = model.token_width(),
                    .out = model.hidden_size,
                    .bias = model.embedding_projection_bias});
}

namespace detail {

template <class Visitor>
constexpr void visit_language_model_head(const transformer& model,
                                         slot from,
                                         bool again,
                                         Visitor& visitor) {
  visitor.linear({.kind = operator_kind::head,
                  .in = model.token_width(),
                  .out = model.vocab_size,
                  .bias = model.lm_head_bias,
                  .from = from,
                  .to = slot::logits,
                  .split = tensor_split::columns,
                  .extent = {.units = model.vocab_size},
                  .tied = model.tied_embeddings,
                  .again = again});
}

// SigLIP's: one learned query attends to all tokens, and the result passes through an MLP.
template <class Visitor>
constexpr void visit_attention_pooling(const transformer& model, Visitor& visitor) {
  const std::int64_t width = model.hidden_size;
  linear_operator square{
      .kind = operator_kind::pooler, .in = width, .out = width, .bias = true, .from = slot::stream};
  square.to = slot::key;
  if (model.fused_qkv) {  // timm's, which make key and value together
    square.out = 2 * width;
    visitor.linear(square);
    visitor.share(slot::key, slot::value);
    square.out = width;
  } else {
    visitor.linear(square);
    square.to = slot::value;
    visitor.linear(square);
  }
  square.tokens = token_set::pooled;
  square.from = slot::learned;
  square.to = slot::query;
  visitor.linear(square);
  visitor.attention({.heads = model.num_attention_heads,
                     .query_dim = model.query_dim(),
                     .value_dim = model.value_dim(),
                     .pooled = true});
  square.from = slot::attention;
  square.to = slot::pooled;
  visitor.linear(square);
  visitor.norm(slot::pooled, width);
  square.out = model.intermediate_size;
  square.from = slot::pooled;
  square.to = slot::hidden;
  visitor.linear(square);
  square.in = model.intermediate_size;
  square.out = width;
  square.from = slot::hidden;
  square.to = slot::pooled;
  visitor.linear(square);
}

}  // namespace detail

/// Visits the operators behind the last layer, those of multi-token prediction apart.
template <class Visitor>
constexpr void visit_output(const transformer& model, Visitor& visitor) {
  const std::int64_t width = model.hidden_size;
  const bool of_words = model.head == head_kind::language_model;
  const bool of_all_tokens = model.reads_all_tokens();
  if (model.final_norm) visitor.norm(slot::stream, width);
  if (model.attention_pooling) detail::visit_attention_pooling(model, visitor);
  slot pooled = model.attention_pooling ? slot::pooled : slot::stream;
  if (model.pooler) {
    visitor.linear({.kind = operator_kind::pooler,
                    .in = width,
                    .out = width,
                    .bias = true,
                    .from = pooled,
                    .to = slot::pooled,
                    .tokens = token_set::pooled});
    pooled = slot::pooled;
  }
  if (model.projection_dim != 0) {
    visitor.linear({.kind = operator_kind::projection,
                    .in = width,
                    .out = model.projection_dim,
                    .bias = model.projection_bias,
                    .from = pooled,
                    .to = slot::pooled,
                    .tokens = token_set::pooled});
    pooled = slot::pooled;
  }
  slot read = of_all_tokens ? slot::stream : pooled;
  const std::int64_t head_width = of_words ? model.token_width() : width;
  if (model.head_dense)
    visitor.linear({.kind = operator_kind::head_dense,
                    .in = width,
                    .out = head_width,
                    .bias = model.head_dense_bias,
                    .from = read,
                    .to = slot::head_input,
                    .tokens = of_all_tokens ? token_set::own : token_set::pooled});
  else if (head_width != width)
    visitor.linear({.kind = operator_kind::project_out,
                    .in = width,
                    .out = head_width,
                    .bias = model.embedding_projection_bias,
                    .from = read,
                    .to = slot::head_input});
  if (model.head_dense || head_width != width) read = slot::head_input;
  if (model.head_norm) visitor.output_norm(read, head_width);
  if (of_words) detail::visit_language_model_head(model, read, false, visitor);
  if (model.head == head_kind::classifier)
    visitor.linear({.kind = operator_kind::head,
                    .in = model.classifier_inputs * width,
                    .out = model.num_classes,
                    .bias = model.classifier_bias,
                    .from = read,
                    .to = slot::logits,
                    .tokens = of_all_tokens ? token_set::own : token_set::pooled});
}

/// Visits the operators of a layer of multi-token prediction before and behind its layer, which is
/// like the model's last: norms of the stream and of the next token's embedding and a projection of
/// both; a norm and the model's head once more (DeepSeek-V3, arXiv 2412.19437, section 2.2).
template <class Visitor>
constexpr void visit_mtp_input(const transformer& model, Visitor& visitor) {
  visitor.norm(slot::stream, model.hidden_size);
  visitor.norm(slot::stream, model.hidden_size);
  visitor.linear({.kind = operator_kind::mtp_projection,
                  .in = 2 * model.hidden_size,
                  .out = model.hidden_size});
}
template <class Visitor>
constexpr void visit_mtp_output(const transformer& model, Visitor& visitor) {
  visitor.norm(slot::stream, model.hidden_size);
  detail::visit_language_model_head(model, slot::stream, true, visitor);
}

}  // namespace gpuplan

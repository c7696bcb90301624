#pragma once

// How many parameters a model has: exact integers, whole or of one rank.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

namespace gpuplan {

/// Parameters by where they are. Shared ones (a tied head) count once, buffers not at all.
struct parameter_counts {
  std::int64_t embedding = 0;  // tables of tokens, positions and token types; patches, extra tokens
  std::int64_t attention = 0;  // with its own norms and sinks
  std::int64_t recurrent = 0;  // state spaces and linear attention, with their own norms
  std::int64_t mlp = 0;        // of layers without experts
  std::int64_t router = 0;     // the gates of shared experts included
  std::int64_t experts = 0;    // the routed ones
  std::int64_t shared_experts = 0;  // and what leads to latent experts and back
  std::int64_t norms = 0;           // and layer scales
  std::int64_t head = 0;            // what the head does not share with the embedding
  std::int64_t other = 0;           // poolers, projections, relative positions, other_parameters
  std::int64_t idle = 0;            // of `experts`: what a token does not use

  [[nodiscard]] constexpr std::int64_t total() const { return non_embedding() + embedding; }
  [[nodiscard]] constexpr std::int64_t non_embedding() const {
    return attention + recurrent + mlp + router + experts + shared_experts + norms + head + other;
  }
  /// What one token passes through: all but the routed experts that it is not sent to.
  [[nodiscard]] constexpr std::int64_t active() const { return total() - idle; }

  friend constexpr bool operator==(const parameter_counts&, const parameter_counts&) = default;
};

/// The sums, part by part.
[[nodiscard]] constexpr parameter_counts operator+(const parameter_counts& a,
                                                   const parameter_counts& b) {
  return {.embedding = a.embedding + b.embedding,
          .attention = a.attention + b.attention,
          .recurrent = a.recurrent + b.recurrent,
          .mlp = a.mlp + b.mlp,
          .router = a.router + b.router,
          .experts = a.experts + b.experts,
          .shared_experts = a.shared_experts + b.shared_experts,
          .norms = a.norms + b.norms,
          .head = a.head + b.head,
          .other = a.other + b.other,
          .idle = a.idle + b.idle};
}

/// The same of `count` layers.
[[nodiscard]] constexpr parameter_counts operator*(std::int64_t count, const parameter_counts& a) {
  return {.embedding = count * a.embedding,
          .attention = count * a.attention,
          .recurrent = count * a.recurrent,
          .mlp = count * a.mlp,
          .router = count * a.router,
          .experts = count * a.experts,
          .shared_experts = count * a.shared_experts,
          .norms = count * a.norms,
          .head = count * a.head,
          .other = count * a.other,
          .idle = count * a.idle};
}

namespace detail {

// Part `index` of `count` things dealt to `ways`: the first ones get one more where they must.
constexpr std::int64_t dealt(std::int64_t count, std::int64_t ways, std::int64_t index) {
  return count / ways + (index < count % ways ? 1 : 0);
}
constexpr std::int64_t dealt(const split_extent& extent, std::int64_t ways, std::int64_t index) {
  const bool repeated = extent.groups != 0 && extent.groups < ways;
  return dealt(extent.units, ways, index) * extent.unit_size +
         (repeated ? 1 : dealt(extent.groups, ways, index)) * extent.group_size;
}

// Where an operator counts. No pointer to a member: g++ 12 loses sums through them at -O3.
constexpr std::int64_t& part_of(parameter_counts& counts, operator_kind kind) {
  switch (kind) {
    case operator_kind::patch_embedding:
      return counts.embedding;
    case operator_kind::query_down:
    case operator_kind::query:
    case operator_kind::key_value_down:
    case operator_kind::key_value_up:
    case operator_kind::key:
    case operator_kind::value:
    case operator_kind::query_key_value:
    case operator_kind::scores:
    case operator_kind::weighted_values:
    case operator_kind::attention_output:
      return counts.attention;
    case operator_kind::mixer_in:
    case operator_kind::convolution:
    case operator_kind::recurrence:
    case operator_kind::mixer_out:
      return counts.recurrent;
    case operator_kind::gate:
    case operator_kind::up:
    case operator_kind::gate_up:
    case operator_kind::down:
      return counts.mlp;
    case operator_kind::router:
    case operator_kind::shared_expert_gate:
      return counts.router;
    case operator_kind::expert_gate:
    case operator_kind::expert_up:
    case operator_kind::expert_gate_up:
    case operator_kind::expert_down:
      return counts.experts;
    case operator_kind::shared_gate:
    case operator_kind::shared_up:
    case operator_kind::shared_gate_up:
    case operator_kind::shared_down:
    case operator_kind::latent_down:
    case operator_kind::latent_up:
      return counts.shared_experts;
    case operator_kind::head_dense:
    case operator_kind::head:
      return counts.head;
    case operator_kind::project_in:
    case operator_kind::project_out:
    case operator_kind::mtp_projection:
    case operator_kind::pooler:
    case operator_kind::projection:
    case operator_kind::adapters:
      break;
  }
  return counts.other;
}

class parameter_visitor {
 public:
  constexpr parameter_visitor(const transformer& the_model,
                              const parallelism& the_layout = {},
                              const model_rank& the_rank = {})
      : model_(the_model),
        tensor_ways_(the_layout.tensor_parallel),
        tensor_rank_(the_rank.tensor_rank),
        expert_ways_(the_layout.expert_parallel),
        expert_rank_(the_rank.expert_rank),
        parts_(parts_of_expert(the_layout)) {}

  parameter_counts counts{};

  constexpr void repeat(std::int64_t count) { times_ = count; }
  constexpr void begin_sublayer() {}
  constexpr void norm(slot, std::int64_t width) { counts.norms += times_ * of_norm(width); }
  constexpr void latent_norm(slot, std::int64_t width) { counts.attention += times_ * width; }
  constexpr void head_norm(slot, std::int64_t width) {
    if (model_.norm_affine) counts.attention += times_ * width * (model_.qk_norm_bias ? 2 : 1);
  }
  constexpr void output_norm(slot, std::int64_t width) { counts.head += times_ * of_norm(width); }
  constexpr void share(slot, slot) {}
  constexpr void sinks(std::int64_t heads) { counts.attention += times_ * mine(heads); }
  constexpr void attention(const attention_operator&) {}
  constexpr void recur(const recurrent_operator& op) {
    const std::int64_t channels = dealt(op.channels(), tensor_ways_, tensor_rank_);
    const std::int64_t heads = mine(op.heads);
    counts.recurrent +=
        times_ * (channels * (op.kernel + (op.bias ? 1 : 0)) + heads * op.vectors_of_head +
                  (op.divides_norm ? heads * op.value_dim : op.norm_width));
  }
  constexpr void weigh(slot, slot) {}
  constexpr void scale(std::int64_t width) { counts.norms += times_ * width; }
  constexpr void add_residual() {}

  // Inlined, the kind of operator is a constant: half the time of a count.
  [[gnu::always_inline]] constexpr void linear(const linear_operator& op) {
    const std::int64_t size = times_ * of(op);
    if (!is_of_expert(op.kind)) {
      part_of(counts, op.kind) += size;
      return;
    }
    // A token's experts may be anywhere: those it does not use are counted as spread evenly.
    const std::int64_t here = dealt(op.copies, expert_ways_, expert_rank_);
    counts.experts += here * size;
    counts.idle += (here - dealt(op.uses, expert_ways_, expert_rank_)) * size;
  }

 private:
  const transformer& model_;
  std::int64_t tensor_ways_;
  std::int64_t tensor_rank_;
  std::int64_t expert_ways_;
  std::int64_t expert_rank_;
  std::int64_t parts_;  // of an expert
  std::int64_t times_ = 1;

  constexpr std::int64_t mine(std::int64_t units) const {
    return tensor_ways_ == 1 ? units : dealt(units, tensor_ways_, tensor_rank_);
  }
  constexpr std::int64_t of_norm(std::int64_t width) const {
    return model_.norm_affine ? width * (model_.norm_bias ? 2 : 1) : 0;
  }
  // On this rank.
  constexpr std::int64_t of(const linear_operator& op) const {
    if (op.again) return 0;
    std::int64_t in = op.in;
    std::int64_t out = op.out;
    const std::int64_t ways = is_of_expert(op.kind) ? parts_ : tensor_ways_;
    if (ways != 1 && op.split == tensor_split::rows)
      in = dealt(op.extent, ways, tensor_rank_ % ways);
    if (ways != 1 && op.split == tensor_split::columns)
      out = dealt(op.extent, ways, tensor_rank_ % ways);
    return (op.tied ? 0 : in * out) + (op.bias ? out : 0);
  }
};

constexpr void count_tables(const transformer& model,
                            std::int64_t ways,
                            std::int64_t rank,
                            parameter_counts& counts) {
  const std::int64_t width = model.token_width();
  const bool is_decoder = model.kind == model_kind::decoder;
  const std::int64_t stacks = model.kind == model_kind::encoder_decoder ? 2 : 1;
  const std::int64_t rows_of_decoder =
      model.decoder.position_rows != 0 ? model.decoder.position_rows : model.position_rows;
  const std::int64_t position_rows = model.position_rows + (stacks == 2 ? rows_of_decoder : 0);
  counts.embedding += dealt(model.vocab_size, ways, rank) * width +
                      position_rows * (is_decoder ? model.hidden_size : width) +
                      model.type_vocab_size * width;
  if (model.kind == model_kind::vision) {
    const image_input& image = model.image;
    counts.embedding += (image.class_tokens + image.register_tokens + (image.mask_token ? 1 : 0)) *
                        model.hidden_size;
  }
  if (model.relative_attention_buckets != 0)
    counts.other += (model.relative_attention_in_layers ? model.layers() : stacks) *
                    model.relative_attention_buckets * dealt(model.num_attention_heads, ways, rank);
}

// What is behind the layers, and the second stack's norms.
template <class Visitor>
constexpr void visit_end(const transformer& model, Visitor& visitor) {
  visit_output(model, visitor);
  if (model.kind == model_kind::encoder_decoder) {
    if (model.final_norm) visitor.norm(slot::memory, model.hidden_size);
    if (model.embedding_norm) visitor.norm(slot::memory, model.token_width());
  }
  if (model.mtp_layers == 0) return;
  visitor.repeat(own_mtp_layers(model));
  visit_mtp_input(model, visitor);
  visit_mtp_output(model, visitor);
  visitor.repeat(1);
}

// Of layers that run more than once those are counted that run first.
constexpr layer_counts layers_with_parameters(const transformer& model,
                                              std::int64_t first,
                                              std::int64_t last) {
  const std::int64_t end = model.built_layers();
  return layers_between(model, first < end ? first : end, last < end ? last : end);
}

}  // namespace detail

/// The parameters of one layer of a kind that the model has. Precondition: `validate` accepts the
/// model.
[[nodiscard]] constexpr parameter_counts layer_parameters(const transformer& model,
                                                          layer_kind kind) {
  detail::parameter_visitor visitor(model);
  visit_layer(model, kind, visitor);
  return visitor.counts;
}

/// The parameters of one token more of multi-token prediction, without its copies of head and
/// table. Precondition: `validate` accepts the model.
[[nodiscard]] constexpr parameter_counts mtp_layer_parameters(const transformer& model) {
  detail::parameter_visitor visitor(model);
  visit_mtp_input(model, visitor);
  visit_layers(model, mtp_layers_of(model), visitor);
  visit_mtp_output(model, visitor);
  return visitor.counts;
}

/// The parameters that one rank holds. Tensor parallelism divides heads, MLP widths and the
/// vocabulary, repeats key-value heads of which there are fewer than ranks, and leaves norms,
/// routers, latent vectors and everything of odd shape whole (Megatron-LM). What cannot be divided
/// evenly is dealt out, without padding. Experts that ranks share are whole, or in as many parts as
/// `expert_tensor_parallel` says, of which a tensor rank has those in turn. The first stage holds
/// the tables, the last one all that is behind the layers; where a stage other than the first needs
/// the token table, for a tied head or a decoder behind an encoder, it holds a copy, counted under
/// `embedding`. Of a schedule that folds, the first stage has both ends; of one that runs both ways
/// the two stages of a rank are counted, and one table where they tie. Preconditions: `validate`
/// accepts model and layout, and the rank is one of it.
[[nodiscard]] constexpr parameter_counts parameters(const transformer& model,
                                                    const parallelism& layout,
                                                    const model_rank& rank = {}) {
  bool is_first = false;
  bool is_last = false;
  detail::parameter_visitor visitor(model, layout, rank);
  layer_counts layers;
  bool starts_decoder = false;
  for (std::int64_t chunk = 0; chunk < chunks_held(layout); ++chunk) {
    const std::int64_t place = place_of_chunk(layout, rank.stage, chunk);
    is_first = is_first || place == 0;
    is_last = is_last || place == chunks_in_all(layout) - 1;
    const layer_range range = layers_of_chunk(layout, model.layers(), rank.stage, chunk);
    layers.add(detail::layers_with_parameters(model, range.first, range.last));
    starts_decoder = starts_decoder || (model.kind == model_kind::encoder_decoder &&
                                        range.first <= model.num_hidden_layers &&
                                        model.num_hidden_layers < range.last);
  }
  if (is_last) layers.add(mtp_layers_of(model), own_mtp_layers(model));
  visit_layers(model, layers, visitor);
  if (is_first) {
    visit_input(model, visitor);
    detail::count_tables(model, layout.tensor_parallel, rank.tensor_rank, visitor.counts);
  }
  if (is_last) {
    detail::visit_end(model, visitor);
    visitor.counts.other +=
        model.other_parameters + (model.attention_pooling ? model.hidden_size : 0);
  }
  const bool ties = is_last && (model.has_tied_head() || model.mtp_layers != 0);
  if (!is_first && (starts_decoder || ties))
    visitor.counts.embedding +=
        detail::dealt(model.vocab_size, layout.tensor_parallel, rank.tensor_rank) *
        model.token_width();
  return visitor.counts;
}

namespace detail {

// Of an encoder in stages: as many encoders behind each other, a table of biases by distance for
// each head of a layer, and between two stages a norm of four points and a linear layer that makes
// one of them, twice as wide.

constexpr transformer encoder_of_stage(const transformer& model, int at) {
  transformer one = model;
  one.num_hidden_layers = model.stages.depths[at];
  one.hidden_size = model.stages.widths[at];
  one.intermediate_size = model.stages.inner[at];
  one.num_attention_heads = model.stages.heads[at];
  one.stages = {};
  return one;
}
constexpr linear_operator reduction_of(std::int64_t width) {
  return {.kind = operator_kind::projection, .in = 4 * width, .out = 2 * width, .bias = false};
}
constexpr parameter_counts parameters_of_stages(const transformer& model) {
  const image_stages& stages = model.stages;
  parameter_counts sum;
  for (int at = 0; at < stages.size(); ++at) {
    const transformer one = encoder_of_stage(model, at);
    const std::int64_t width = one.hidden_size;
    const std::int64_t distances = 2 * stages.window_size - 1;
    parameter_visitor visitor(one, {}, {});
    layer_counts layers;
    layers.add(layers_between(one, 0, one.num_hidden_layers));
    visit_layers(one, layers, visitor);
    if (at == 0) {
      visit_input(one, visitor);
      count_tables(one, 1, 0, visitor.counts);
    }
    if (at + 1 == stages.size())
      visit_end(model, visitor);
    else
      visitor.counts.other += reduction_of(width).in * reduction_of(width).out + 8 * width;
    visitor.counts.other += stages.depths[at] * stages.heads[at] * distances * distances;
    sum = sum + visitor.counts;
  }
  return sum;
}

}  // namespace detail

/// The parameters of the whole model. Formula: the sum over its operators (operators.hpp); exact.
/// Precondition: `validate` accepts the model.
[[nodiscard]] constexpr parameter_counts parameters(const transformer& model) {
  if (model.stages.size() != 0) return detail::parameters_of_stages(model);
  return parameters(model, {}, {});
}

namespace detail {

// Counts what adapters, and the biases beside them, add to what trains.
class adapter_visitor : public matrices_alone {
 public:
  constexpr adapter_visitor(const transformer& the_model, const lora& the_adapters)
      : model_(the_model), adapters_(the_adapters) {}

  std::int64_t adapters = 0;
  std::int64_t biases = 0;
  std::int64_t adapted_layers = 0;

  constexpr void repeat(std::int64_t count) { times_ = count; }
  constexpr void norm(slot, std::int64_t width) {
    if (model_.norm_bias) bias_of_norm(width);
  }
  constexpr void head_norm(slot, std::int64_t width) {
    if (model_.qk_norm_bias) bias_of_norm(width);
  }
  constexpr void output_norm(slot, std::int64_t width) {
    if (model_.norm_bias && !is_copied(operator_kind::head_dense)) bias_of_norm(width);
  }

  [[gnu::always_inline]] constexpr void linear(const linear_operator& op) {
    if (op.again) return;
    const std::int64_t copies = times_ * op.copies;
    const bool adapted = is_adapted(adapters_, model_, op);
    if (adapted) {
      // One leads to an expert's gate and up.
      const bool is_second =
          op.kind == operator_kind::expert_up && is_folded(adapters_.targets, op.kind);
      adapters += copies * (adapters_.rank * ((is_second ? 0 : op.in) + op.out) +
                            (adapters_.magnitudes ? op.out : 0));
      adapted_layers += times_;
    }
    if (op.bias && !is_copied(op.kind) &&
        (adapters_.bias == lora_bias::all || (adapted && adapters_.bias == lora_bias::adapted)))
      biases += copies * op.out;
  }

 private:
  const transformer& model_;
  const lora& adapters_;
  std::int64_t times_ = 1;

  // A copy of a classifier includes the dense layer before it.
  constexpr bool is_copied(operator_kind kind) const {
    return adapters_.copy_head &&
           (kind == operator_kind::head ||
            (kind == operator_kind::head_dense && model_.head != head_kind::language_model));
  }
  constexpr void bias_of_norm(std::int64_t width) {
    if (model_.norm_affine && adapters_.bias == lora_bias::all) biases += times_ * width;
  }
};

constexpr adapter_visitor adapted(const transformer& model, const lora& adapters) {
  adapter_visitor sum(model, adapters);
  for (int at = 0; at < model.stages.size(); ++at) {
    const transformer one = encoder_of_stage(model, at);
    if (at == 0) visit_input(one, sum);
    visit_layers(one, layers_between(one, 0, one.num_hidden_layers), sum);
    if (at + 1 < model.stages.size()) {
      if (model.norm_bias) sum.norm(slot::stream, 4 * one.hidden_size);
      sum.linear(reduction_of(one.hidden_size));
    } else {
      visit_end(model, sum);
    }
  }
  if (model.stages.size() != 0) return sum;
  if (const int last = model.audio.convolutions(); last != 0)
    sum.linear({.kind = operator_kind::project_in,
                .in = model.audio.conv_dim[last - 1],
                .out = model.hidden_size,
                .bias = true});
  layer_counts layers = layers_with_parameters(model, 0, model.layers());
  layers.add(mtp_layers_of(model), own_mtp_layers(model));
  visit_input(model, sum);
  visit_layers(model, layers, sum);
  visit_end(model, sum);
  if (adapters.targets.embedding && model.vocab_size != 0) {
    sum.adapters += adapters.rank * (model.vocab_size + model.token_width());
    ++sum.adapted_layers;
  }
  return sum;
}

// What trains with the head: its matrix, tied or not, and bias; of a classifier the dense layer
// before it too.
constexpr std::int64_t parameters_of_head(const transformer& model) {
  if (model.head != head_kind::language_model) {
    parameter_visitor visitor(model);
    visit_output(model, visitor);
    return visitor.counts.head;
  }
  return model.vocab_size * (model.token_width() + (model.lm_head_bias ? 1 : 0));
}
constexpr std::int64_t parameters_of_pooler(const transformer& model) {
  const std::int64_t width = model.hidden_size;
  std::int64_t sum = model.pooler ? (width + 1) * width : 0;
  if (model.attention_pooling) {
    parameter_visitor visitor(model);
    visit_attention_pooling(model, visitor);
    sum += visitor.counts.total() + width;
  }
  return sum;
}

}  // namespace detail

/// The parameters that train. Adapters: `rank x (in + out)` beside each linear layer that they are
/// for, `rank x (vocab_size + hidden_size)` beside the token table; trained copies of table and
/// head count whole. Equal to the integer to what PEFT 0.21 makes. Precondition: `validate` accepts
/// the model and what trains of it.
[[nodiscard]] constexpr std::int64_t trainable_parameters(const transformer& model,
                                                          const trainable& trains) {
  switch (trains.what) {
    case training::full:
      return parameters(model).total();
    case training::frozen:
      return 0;
    case training::head:
      return detail::parameters_of_head(model);
    case training::last_layers: {
      const std::int64_t layers = model.layers();
      detail::parameter_visitor visitor(model);
      visit_layers(model, layers_between(model, layers - trains.last_layers, layers), visitor);
      if (model.final_norm && trains.final_norm) visitor.norm(slot::stream, model.hidden_size);
      const bool has_head = !model.has_tied_head() || trains.tied_head;
      return visitor.counts.total() + detail::parameters_of_pooler(model) +
             (has_head ? detail::parameters_of_head(model) : 0);
    }
    case training::adapters:
      break;
  }
  const lora& adapters = trains.adapters;
  const detail::adapter_visitor counted = detail::adapted(model, adapters);
  return counted.adapters + counted.biases +
         (adapters.copy_embedding ? model.vocab_size * model.token_width() : 0) +
         (adapters.copy_head ? detail::parameters_of_head(model) : 0);
}

/// What trains, where it is a part of the model. Errors: `not_positive` or `overflow` for a rank,
/// `out_of_bounds` for more last layers than there are or a block of four-bit elements that is
/// none, `splits_fused_layer`, `no_such_target` also for a head that the model has not.
/// Precondition: `validate` accepts the model.
[[nodiscard]] constexpr result<trainable> validate(const trainable& trains,
                                                   const transformer& model) {
  if (trains.what == training::last_layers &&
      (trains.last_layers < 1 || trains.last_layers > model.layers()))
    return failure(errc::out_of_bounds,
                   named_fact{fact::last_layers, trains.last_layers},
                   named_fact{fact::at_least, 1},
                   named_fact{fact::at_most, model.layers()});
  if (trains.what == training::head && trainable_parameters(model, trains) == 0)
    return failure(errc::no_such_target).about(model.name);
  if (trains.what != training::adapters) return trains;
  const lora& adapters = trains.adapters;
  const named_fact rank{fact::lora_rank, adapters.rank};
  if (rank.value < 1) return failure(errc::not_positive, rank);
  // An adapter has at most `2 x rank` parameters for each of its matrix.
  const std::int64_t all = parameters(model).total();
  if (8 * static_cast<double>(rank.value) * static_cast<double>(all) >= 0x1p62)
    return failure(errc::overflow, rank, named_fact{fact::parameters, all}).about(model.name);
  const std::int64_t longest = std::int64_t{1} << 32;
  for (const named_fact block :
       {named_fact{fact::adapter_base_block, adapters.base.block},
        named_fact{fact::adapter_base_scale_block, adapters.base.scale_block}})
    if (block.value < 0 || block.value > longest)
      return failure(errc::out_of_bounds,
                     block,
                     named_fact{fact::at_least, 0},
                     named_fact{fact::at_most, longest});
  const lora_targets& targets = adapters.targets;
  if (model.fused_qkv && !model.is_latent() &&
      (targets.query != targets.key || targets.key != targets.value))
    return failure(errc::splits_fused_layer).about(fact::fused_qkv);
  if (model.fused_gate_up && model.gated_mlp && targets.gate != targets.up)
    return failure(errc::splits_fused_layer).about(fact::fused_gate_up);
  if (detail::adapted(model, adapters).adapted_layers == 0)
    return failure(errc::no_such_target, rank).about(model.name);
  return trains;
}

// ---- models of several parts

/// The parameters of a connector: linear layers with biases.
[[nodiscard]] constexpr std::int64_t parameters(const connector& between) {
  std::int64_t sum = 0;
  for (int i = 0; i < between.layers(); ++i) sum += (between.widths[i] + 1) * between.widths[i + 1];
  return sum;
}

/// The parameters of a composite model; those of connectors are in `other`. Precondition:
/// `validate` accepts the model.
[[nodiscard]] constexpr parameter_counts parameters(const composite_model& model) {
  parameter_counts sum{.other = model.other_parameters};
  for (int i = 0; i < model.size(); ++i) {
    sum = sum + parameters(model.parts[i].model);
    sum.other += parameters(model.parts[i].next);
  }
  return sum;
}

/// The parameters of the adapters beside what leads on from a part; beside as many such layers for
/// each layer of it that is tapped.
[[nodiscard]] constexpr std::int64_t adapter_parameters(const component& part) {
  std::int64_t widths = 0;
  for (int layer = 0; layer < part.next.layers(); ++layer)
    widths += part.next.widths[layer] + part.next.widths[layer + 1];
  return part.next.adapters.rank * widths * (1 + part.model.image.tapped.count);
}

/// The parameters of a composite model that train: each part's, and connectors and others that do.
/// Precondition: `validate` accepts the model.
[[nodiscard]] constexpr std::int64_t trainable_parameters(const composite_model& model) {
  std::int64_t sum = model.others_train ? model.other_parameters : 0;
  for (int i = 0; i < model.size(); ++i) {
    const component& part = model.parts[i];
    sum += trainable_parameters(part.model, part.trains) +
           (part.next.trains ? parameters(part.next) : 0) + adapter_parameters(part);
  }
  return sum;
}

namespace detail {

constexpr failure flaw_of(const connector& between) {
  bool ended = false;
  for (const std::int64_t width : between.widths) {
    const named_fact fact{fact::hidden_size, width};
    if (width < 0) return failure(errc::negative, fact).about(fact::connector);
    if (width > most_of_a_dimension)
      return failure(errc::out_of_bounds, fact, named_fact{fact::at_most, most_of_a_dimension})
          .about(fact::connector);
    // A width behind a zero would be passed over.
    if (ended && width != 0)
      return failure(errc::not_positive, named_fact{fact::hidden_size, 0}).about(fact::connector);
    ended = width == 0;
  }
  if (between.widths[0] != 0 && between.widths[1] == 0)
    return failure(errc::not_positive, named_fact{fact::hidden_size, 0}).about(fact::connector);
  if (between.layers() != 0 && between.tokens < 1)
    return failure(errc::not_positive, named_fact{fact::sequence_length, between.tokens})
        .about(fact::connector);
  const lora& adapters = between.adapters;
  const named_fact rank{fact::lora_rank, adapters.rank};
  if (rank.value < 0) return failure(errc::negative, rank).about(fact::connector);
  if (rank.value > most_of_a_dimension)
    return failure(errc::out_of_bounds, rank, named_fact{fact::at_most, most_of_a_dimension})
        .about(fact::connector);
  return {};
}

}  // namespace detail

/// The model itself where each part is one, trains something that it has, and is passed at least
/// once. Errors: those of the parts and of what trains, `not_positive`, `negative`,
/// `out_of_bounds`, `overflow`.
[[nodiscard]] constexpr result<composite_model> validate(const composite_model& model) {
  const int parts = model.size();
  // A part behind one without layers would be passed over.
  for (int i = parts; i < composite_model::most_parts; ++i)
    if (parts == 0 || model.parts[i].model.hidden_size != 0 ||
        model.parts[i].model.num_hidden_layers != 0)
      return failure(errc::not_positive, named_fact{fact::num_hidden_layers, 0}).about(model.name);
  if (model.other_parameters < 0)
    return failure(errc::negative, named_fact{fact::other_parameters, model.other_parameters});
  double total = static_cast<double>(model.other_parameters);
  for (int i = 0; i < parts; ++i) {
    const component& part = model.parts[i];
    if (const auto valid = validate(part.model); !valid) return valid.why();
    if (const auto valid = validate(part.trains, part.model); !valid) return valid.why();
    if (part.sequences < 1)
      return failure(errc::not_positive, named_fact{fact::sequences, part.sequences});
    if (part.sequence_length < 0)
      return failure(errc::negative, named_fact{fact::sequence_length, part.sequence_length});
    if (const failure why = detail::flaw_of(part.next); detail::failed(why)) return why;
    total += static_cast<double>(parameters(part.model).total());
    const double rank = static_cast<double>(part.next.adapters.rank);
    const double times = 1 + static_cast<double>(part.model.image.tapped.count);
    for (int layer = 0; layer < part.next.layers(); ++layer) {
      const double in = static_cast<double>(part.next.widths[layer]) + 1;
      const double out = static_cast<double>(part.next.widths[layer + 1]);
      total += in * out + rank * (in + out) * times;
    }
  }
  if (total >= 0x1p62)
    return failure(errc::overflow,
                   named_fact{fact::parameters, parameters(model.parts[0].model).total()})
        .about(model.name);
  return model;
}

/// The model with such adapters beside every linear layer of its parts and between them, while
/// nothing else trains: PEFT's `all-linear`, of which `adapters.targets` says what else there is. A
/// part that has none of these layers is frozen.
[[nodiscard]] constexpr composite_model with_adapters(composite_model model, const lora& adapters) {
  for (int i = 0; i < model.size(); ++i) {
    component& part = model.parts[i];
    part.trains = {.what = training::adapters, .adapters = adapters};
    if (detail::adapted(part.model, adapters).adapted_layers == 0)
      part.trains = {.what = training::frozen};
    part.next.trains = false;
    if (part.next.layers() != 0) part.next.adapters = adapters;
  }
  model.others_train = false;
  return model;
}

}  // namespace gpuplan

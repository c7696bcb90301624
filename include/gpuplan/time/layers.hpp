#pragma once

// The time of a model's layers on one device, operator by operator: what a planner tabulates once
// per micro-batch, tensor, context and expert degree.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan {

/// What one pass over operators takes on one rank, in base units.
struct pass_cost {
  double products = 0;    // s of matrix products,
  double weights = 0;     // of these, what gives gradients of weights
  double attention = 0;   // s of scores, softmax and weighted values, or of states passed on
  double elements = 0;    // bytes that element-wise kernels move
  double operators = 0;   // that the host launches
  double reductions = 0;  // of sublayers' results, which tensor-parallel ranks add up
  double routings = 0;    // of tokens to their experts, or back
  double passed_on = 0;   // bytes of keys and values that go round the ring of context parallelism
  double exchanges = 0;   // all-to-alls of parts of the sequence for parts of the heads, or back,
  double exchanged = 0;   // and the bytes that a rank gives to all of them

  [[nodiscard]] constexpr double kernels(const kernel_rates& on) const {
    return products + attention + elements / on.elements;
  }
};

[[nodiscard]] constexpr pass_cost operator+(const pass_cost& a, const pass_cost& b) {
  return {.products = a.products + b.products,
          .weights = a.weights + b.weights,
          .attention = a.attention + b.attention,
          .elements = a.elements + b.elements,
          .operators = a.operators + b.operators,
          .reductions = a.reductions + b.reductions,
          .routings = a.routings + b.routings,
          .passed_on = a.passed_on + b.passed_on,
          .exchanges = a.exchanges + b.exchanges,
          .exchanged = a.exchanged + b.exchanged};
}

[[nodiscard]] constexpr pass_cost operator*(double count, const pass_cost& a) {
  return {.products = count * a.products,
          .weights = count * a.weights,
          .attention = count * a.attention,
          .elements = count * a.elements,
          .operators = count * a.operators,
          .reductions = count * a.reductions,
          .routings = count * a.routings,
          .passed_on = count * a.passed_on,
          .exchanges = count * a.exchanges,
          .exchanged = count * a.exchanged};
}

/// The matmul and attention kernels of a pass, by what bounds them.
struct pass_kernels {
  bounded_kernels linear{};  // in the format of linear layers
  bounded_kernels others{};
  bounded_kernels attention{};
  double score_bytes = 0;  // that kernels of eager attention beside products move
};
[[nodiscard]] constexpr pass_kernels operator+(const pass_kernels& a, const pass_kernels& b) {
  return {a.linear + b.linear,
          a.others + b.others,
          a.attention + b.attention,
          a.score_bytes + b.score_bytes};
}
[[nodiscard]] constexpr pass_kernels operator*(double count, const pass_kernels& a) {
  return {count * a.linear, count * a.others, count * a.attention, count * a.score_bytes};
}

/// Those of the passes of a `layer_cost`.
struct layer_kernels {
  pass_kernels forward{};
  pass_kernels backward{};
  pass_kernels again{};
};
[[nodiscard]] constexpr layer_kernels operator+(const layer_kernels& a, const layer_kernels& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.again + b.again};
}
[[nodiscard]] constexpr layer_kernels operator*(double count, const layer_kernels& a) {
  return {count * a.forward, count * a.backward, count * a.again};
}

/// The forward and backward pass of one micro-batch through something, and what of the forward pass
/// the backward pass repeats.
struct layer_cost {
  pass_cost forward{};
  pass_cost backward{};
  pass_cost again{};
  double adapters = 0;  // parameters of the adapters that train in it,
  double matrices = 0;  // in as many matrices
};

[[nodiscard]] constexpr layer_cost operator+(const layer_cost& a, const layer_cost& b) {
  return {a.forward + b.forward,
          a.backward + b.backward,
          a.again + b.again,
          a.adapters + b.adapters,
          a.matrices + b.matrices};
}

[[nodiscard]] constexpr layer_cost operator*(double count, const layer_cost& a) {
  return {count * a.forward,
          count * a.backward,
          count * a.again,
          count * a.adapters,
          count * a.matrices};
}

/// What kernels that make four-bit matrices whole reach of what element-wise kernels do. Of runs
/// with LitGPT and bitsandbytes 0.30 to 0.37 on an A10G (four models) and 0.55 on an A100, from how
/// much longer they took than with the matrices in bf16.
inline constexpr double dequantising_share = 0.34;

namespace detail {

// Whether the norms, activations and residuals of such a layer are kernels of their own.
constexpr bool fuses_elements(const framework& software) {
  const implementation& by = software.implementation;
  return by.compiles_layers || by.transformer_engine || by.liger_kernels;
}

// transformers' NewGELUActivation, 0.5 x (1 + tanh(...)), is eight operators; others call one.
constexpr bool composes_gelu(const training_setup& setup) {
  const layer_class& by = setup.framework.layers();
  return setup.model.hidden_act == activation_function::gelu_new &&
         by.code == &eager::library_code && !by.calls_gelu;
}

// Whether recomputation ends with the last value that the backward pass needs: checkpoints of
// PyTorch that do not re-enter, from its version 2.1. Megatron-LM's and DeepSpeed's run all.
constexpr bool stops_early(const framework& software) {
  return !software.implementation.checkpoints_reenter && software.layers().stops_early &&
         software.engine.is->stops_early;
}

// What of a part of the model gets a gradient.
struct gradients_wanted {
  bool values = true;   // what operators read
  bool weights = true;  // what they own

  constexpr bool any() const { return values || weights; }
};

// Whether the table that is read before the layers trains, maybe as the head that it is too.
constexpr bool trains_table(const training_setup& setup) {
  const trainable& trains = setup.trains;
  const bool is_tied = setup.model.has_tied_head();
  switch (trains.what) {
    case training::full:
      return true;
    case training::head:
      return is_tied;
    case training::last_layers:
      return is_tied && trains.tied_head;
    case training::adapters:
      return trains.adapters.copy_embedding || trains.adapters.targets.embedding;
    case training::frozen:
      break;
  }
  return false;
}
// Of layers: those that train, or those before them where the last ones train. Gradients go through
// all to a table that trains. Adapters stand in every layer, so that they do too: of the first
// layer's inputs that is too many.
constexpr gradients_wanted gradients_in_layers(const training_setup& setup, bool that_train) {
  switch (setup.trains.what) {
    case training::full:
      return {};
    case training::adapters:
      return {true, false};
    case training::last_layers:
      return {that_train || trains_table(setup), that_train};
    case training::head:
    case training::frozen:
      break;
  }
  return {trains_table(setup), false};
}
// Of what is before the layers: the table.
constexpr gradients_wanted gradients_before_layers(const training_setup& setup) {
  return {setup.trains.what == training::full, trains_table(setup)};
}
// And of the head.
constexpr gradients_wanted gradients_behind_layers(const training_setup& setup) {
  const trainable& trains = setup.trains;
  switch (trains.what) {
    case training::full:
      return {};
    case training::adapters:
      return {true, trains.adapters.copy_head};
    case training::last_layers:
      return {true, !setup.model.has_tied_head() || trains.tied_head};
    case training::head:
      return {trains_table(setup), true};
    case training::frozen:
      break;
  }
  return {false, false};
}

// Costs operators as they are visited: those of one layer, or before or behind the layers.
class cost_visitor {
 public:
  constexpr cost_visitor(const training_setup& the_setup,
                         const kernel_rates& the_rates,
                         std::int64_t micro_batch,
                         const gradients_wanted& wanted,
                         bool in_decoder = false)
      : model_(the_setup.model),
        setup_(the_setup),
        on_(the_rates),
        batch_(static_cast<double>(micro_batch) * static_cast<double>(the_setup.encodings)),
        ways_(static_cast<double>(the_setup.parallelism.tensor_parallel)),
        rings_(static_cast<double>(the_setup.parallelism.context_parallel)),
        parts_(static_cast<double>(the_setup.parallelism.expert_tensor_parallel)),
        sequence_(static_cast<double>(tokens_of_sequence(the_setup, in_decoder))),
        memory_(static_cast<double>(tokens_of_sequence(the_setup, false))),
        element_(detail::is_half(the_setup.precision.compute) ? 2 : 4),
        gradient_(gradient_traffic(the_setup, element_)),
        is_compiled_(the_setup.framework.implementation.compiles_layers),
        is_eager_(runs_operators_one_by_one(the_setup)),
        casts_weights_(casts_operands(the_setup) && element_ == 2),
        casts_(is_eager_ && casts_weights_),
        residual_(casts_ ? 4 : element_),
        wanted_(wanted) {
    own_ = batch_ * sequence_ / rings_;
    alone_ = the_setup.parallelism.sequence_parallel ? own_ / ways_ : own_;
  }

  layer_cost cost{};
  pass_cost of_modules{};  // of the forward pass: what `recomputed_modules` name but attention
  pass_kernels kernels_of_modules{};
  pass_cost kept{};  // of the forward pass: what leads to the last value that the backward needs
  layer_kernels* kernels = nullptr;  // taken down where they are asked for; `again` as `kept`
  bool windowed = false;
  bool causal = false;

  constexpr void begin_sublayer() {
    stream_is_read_ = false;
    before_sublayer_ = launches();
  }
  // A graph is one launch, whatever it holds: of attention, all before the last sublayer. Experts
  // and what moves their tokens stay outside.
  constexpr void capture(layer_kind kind) {
    const captured_parts& parts = setup_.graphs;
    if (!parts.any()) return;
    const launch_counts all = launches();
    const bool mixes_alone =
        kind == layer_kind::attention_alone || kind == layer_kind::linear_alone;
    const bool is_captured = kind == layer_kind::state_space_alone ? parts.state_spaces
                             : mixes_alone                         ? parts.attention
                             : has_mixture(kind)                   ? parts.router
                                                                   : parts.mlp;
    const auto of_sublayers = [&](double first, double whole, double moving) {
      const double second = whole - first;
      return (parts.attention ? smaller_of(1, first) : first) +
             (is_captured ? smaller_of(1, second - moving) + moving : second);
    };
    cost.forward.operators =
        of_sublayers(before_sublayer_.forward, all.forward, of_experts_.forward);
    cost.backward.operators =
        of_sublayers(before_sublayer_.backward, all.backward, of_experts_.backward);
  }
  constexpr void norm(slot which, std::int64_t width) {
    add_norm((which == slot::pooled ? batch_ : alone_) * static_cast<double>(width));
  }
  constexpr void latent_norm(slot, std::int64_t width) {
    add_norm(own_ * static_cast<double>(width));
  }
  constexpr void head_norm(slot which, std::int64_t width) {
    const bool whole = model_.qk_norm == qk_norm_scope::full_width;
    const double heads = which == slot::query ? heads_here() : groups_here();
    add_norm(own_ * static_cast<double>(width) * (whole ? 1 / ways_ : heads));
  }
  constexpr void output_norm(slot of, std::int64_t width) { norm(of, width); }
  constexpr void share(slot, slot) {}
  constexpr void sinks(std::int64_t) {}
  constexpr void weigh(slot which, slot) {
    keep();
    // Tokens are sorted by expert and, weighted, put back.
    if (which != slot::expert_output) return;
    const std::int64_t latent = model_.moe.moe_latent_size;
    // Sorted by expert are the rows of all ranks that have parts of these.
    const double sent = routed_tokens() * (1 + 1 / parts_) / 2 *
                        static_cast<double>(latent != 0 ? latent : model_.hidden_size);
    const launch_counts before = launches();
    const double moved = setup_.framework.costs.routed_moves * 2 * element_;
    stream(sent, 4, moved, moved);
    note_launches_of_experts(before);
    if (ranks_of_experts(setup_.parallelism) == 1) return;
    cost.forward.routings += 2;
    if (wanted_.any()) cost.backward.routings += 2;
  }
  constexpr void scale(std::int64_t width) {
    stream(alone_ * static_cast<double>(width), 1, 2 * element_, 4 * element_);
  }
  constexpr void add_residual() {
    const double elements = alone_ * static_cast<double>(model_.hidden_size);
    const bool drops = setup_.dropout > 0;
    const bool fused =
        fuses_elements(setup_.framework) || setup_.framework.implementation.fuses_softmax;
    // Dropout writes a mask of a byte; by itself it reads and writes its value too.
    const double dropped = drops ? 1 + (fused ? 0 : 2 * element_) : 0;
    if (is_eager_)
      // What is added has the format of products, the stream its own, and the gradient of what was
      // added is cast back; gradients of both branches are added.
      stream(elements,
             drops ? 2 : 1,
             element_ + 2 * residual_ + dropped,
             3 * residual_ + (casts_ ? element_ + residual_ : 0) + dropped);
    else
      stream(elements, drops && !fused ? 2 : 1, 3 * element_ + dropped, 2 * element_ + 2 * dropped);
    if (drops) keep();
    if (casts_ && wanted_.any()) cost.backward.operators += 1;
    if (!sublayer_is_divided_) return;
    cost.forward.reductions += 1;
    if (wanted_.any()) cost.backward.reductions += 1;
    sublayer_is_divided_ = false;
  }

  constexpr void linear(const linear_operator& op) {
    const pass_cost before = cost.forward;
    const pass_kernels kernels_before = kernels == nullptr ? pass_kernels{} : kernels->forward;
    multiply_by(op);
    if (!is_recomputed(op.kind)) return;
    of_modules = of_modules + cost.forward + -1.0 * before;
    if (kernels != nullptr)
      kernels_of_modules = kernels_of_modules + kernels->forward + -1.0 * kernels_before;
  }
  constexpr void multiply_by(const linear_operator& op) {
    if (op.copies > 1) {
      const launch_counts before = launches();
      expert(op);
      return note_launches_of_experts(before);
    }
    double in = static_cast<double>(op.in);
    double out = static_cast<double>(op.out);
    double tokens = tokens_of(op.tokens);
    if (op.split == tensor_split::columns) {
      const split_extent& extent = op.extent;
      const double groups = static_cast<double>(extent.groups);
      out = ceil_div(static_cast<double>(extent.units), ways_) *
                static_cast<double>(extent.unit_size) +
            (extent.groups != 0 ? ceil_div(groups, ways_) * static_cast<double>(extent.group_size)
                                : 0);
    } else if (op.split == tensor_split::rows) {
      in = ceil_div(static_cast<double>(op.extent.units), ways_) *
           static_cast<double>(op.extent.unit_size);
      sublayer_is_divided_ = ways_ > 1;
    } else if (op.tokens == token_set::own) {
      tokens = alone_;
    }
    const bool is_head = op.kind == operator_kind::head;
    if (is_head && setup_.framework.implementation.loss_chunks != 0)
      return add_chunked_head(tokens, in, out);
    if (op.kind == operator_kind::down || op.kind == operator_kind::shared_down)
      add_activation(tokens * in);
    keep();
    add_adapter(op, tokens, in, out);
    make_whole(op, in * out);
    if (is_eager_) add_operands(op, tokens, in);
    if (casts_weights_)
      stream(in * out, is_eager_ ? 2 : 1, element_ + 4, wanted_.weights ? element_ + 4 : 0);
    multiply(tokens, in, out, 1, op.from != slot::image, !is_head && is_of_layer(op.kind));
    if (op.bias && !is_head && wanted_.weights) {
      cost.backward.elements += tokens * out * element_ * (is_eager_ ? larger_of(1, on_.sums) : 1);
      cost.backward.operators += is_eager_ ? 1 : 0;
    }
    if (is_head) add_loss(tokens, out);
  }

  constexpr void attention(const attention_operator& op) {
    const double heads = ceil_div(static_cast<double>(op.heads), ways_);
    const double keys = op.keys == token_set::memory ? memory_ : sequence_;
    const double queries = op.pooled ? 1 : sequence_ / rings_;
    const bool own = op.keys == token_set::own && !op.pooled;
    const double pairs =
        own ? visible_pairs(sequence_, windowed ? model_.sliding_window : 0, causal) / rings_
            : queries * keys;
    const double dims = static_cast<double>(op.query_dim + op.value_dim);
    if (writes_scores()) {
      add_eager_attention(heads, queries, keys, op);
    } else {
      const double flops = 2 * batch_ * heads * pairs * dims;
      // A block of 128 queries of one head on each SM.
      const double blocks = batch_ * heads * ceil_div(queries, 128);
      const double waves = ceil_div(blocks, on_.sms) * on_.sms / blocks;
      const double moving = batch_ * heads * (queries + keys) * dims * element_ / on_.bytes;
      if (kernels != nullptr) {
        const auto note = [&](pass_kernels& to, double times, double rate) {
          const double all = times * flops;
          to.attention =
              to.attention +
              bounded(all, rate, all * waves / rate, times * moving, 0, on_.bytes, on_.floor);
        };
        note(kernels->forward, 1, on_.attention_forward);
        if (wanted_.any()) note(kernels->backward, 2.5, on_.attention_backward);
      }
      cost.forward.attention +=
          larger_of(larger_of(flops * waves / on_.attention_forward, moving), on_.floor);
      cost.forward.operators += 1;
      if (wanted_.any()) {
        cost.backward.attention += larger_of(
            larger_of(2.5 * flops * waves / on_.attention_backward, 2.5 * moving), on_.floor);
        cost.backward.operators += 1;
      }
    }
    keep();
    const double values = own_ * element_ * static_cast<double>(op.query_dim);
    const bool rotates = model_.position_rows == 0 && model_.relative_attention_buckets == 0 && own;
    const bool fused = fuses_elements(setup_.framework);
    if (rotates)
      stream(
          values / element_ * (heads_here() + groups_here()) * (fused ? slower(on_.reorders) : 1),
          fused ? 2 : 8,
          (fused ? 2 : 8) * element_,
          (fused ? 2 : 8) * element_);
    if (model_.attention_gate && own)
      stream(values / element_ * heads_here(), fused ? 1 : 2, 3 * element_, 5 * element_);
    if (setup_.framework.implementation.grouped_heads == grouped_heads_kind::repeated &&
        groups_here() < heads_here())
      stream(values / element_ * 2 * heads_here(), 2, element_, element_);
    if (rings_ > 1) see_all_parts(op);
  }
  // Of context-parallel ranks.
  constexpr void see_all_parts(const attention_operator& op) {
    const double dims = static_cast<double>(op.query_dim + op.value_dim);
    if (exchanges_heads(setup_)) {
      // Query, key and value, and the result; each is put in order before it is sent and behind.
      const double all = own_ * (heads_here() + groups_here()) * dims;
      exchange(4, all);
      stream(4 * all, 12, element_, element_);
      return;
    }
    const double keys_and_values = own_ * groups_here() * dims;
    if (setup_.framework.layers().gathers_context) {
      // A rank gets as much as by an all-to-all to which it gave what all ranks have.
      exchange(2, keys_and_values * rings_);
      stream(keys_and_values * rings_, 2, 2 * element_, 2 * element_);
      return;
    }
    // Each rank sends the keys and values of its part on, as often as there are other parts; so
    // with their gradients in the backward pass.
    const double part = element_ * keys_and_values * (rings_ - 1);
    cost.forward.passed_on += part;
    if (wanted_.any()) cost.backward.passed_on += 2 * part;
    if (!setup_.framework.implementation.transformer_engine) return;
    // What the parts give is added up: results and gradients of queries from the first on, which is
    // copied; keys and values are copied into what is sent first, their gradients all added.
    const double added = (2 + 3 * (rings_ - 1)) * element_;
    stream(own_ * heads_here() * static_cast<double>(op.value_dim), 2 * rings_, added, added);
    stream(keys_and_values, rings_, 2 * element_, 3 * rings_ * element_);
  }
  constexpr void exchange(double times, double elements) {
    cost.forward.exchanges += times;
    cost.forward.exchanged += elements * element_;
    if (!wanted_.any()) return;
    cost.backward.exchanges += times;
    cost.backward.exchanged += elements * element_;
  }

  /// State spaces and linear attention, as their Triton kernels do them: chunks of tokens by
  /// products, and between them a state for each head in fp32 and in the format of products, and
  /// the chunk's own scores. The delta rule's code cuts what it reads into parts, repeats keys for
  /// the heads that share them, and computes the chunk's triangular system. Counted from their
  /// code; no step with such layers has been timed.
  constexpr void recur(const recurrent_operator& op) {
    const double heads = ceil_div(static_cast<double>(op.heads), ways_);
    const double groups = ceil_div(static_cast<double>(op.groups), ways_);
    const double keys = static_cast<double>(op.key_dim);
    const double inner = heads * static_cast<double>(op.value_dim);
    const double channels = inner + 2 * groups * keys;
    const double chunk = static_cast<double>(op.chunk);
    const double states = inner * keys / chunk;
    const double scores = (op.is_delta_rule ? 2 * heads : groups) * chunk;
    const double flops = own_ * op.products_of_token(heads, groups);
    const double copies = op.is_delta_rule ? 4 * channels + 4 * heads * keys : 0;
    const auto pass = [&](pass_cost& to, pass_kernels* seen, double times, double rate) {
      const double all = times * flops;
      const double moved =
          own_ * times *
          (element_ * (4 * channels + 6 * inner + copies) + 12 * states + 8 * scores);
      const double moving = moved / on_.bytes;
      if (seen != nullptr)
        seen->attention =
            seen->attention + bounded(all, rate, all / rate, moving, 0, on_.bytes, on_.floor);
      to.attention += larger_of(larger_of(all / rate, moving), on_.floor);
      to.operators += times * (op.is_delta_rule ? 24 : 10);
    };
    pass(cost.forward, kernels == nullptr ? nullptr : &kernels->forward, 1, on_.attention_forward);
    if (wanted_.any())
      pass(cost.backward,
           kernels == nullptr ? nullptr : &kernels->backward,
           2.5,
           on_.attention_backward);
    keep();
    add_norm(own_ * inner);
    if (rings_ == 1) return;
    // Ranks exchange parts of the sequence for parts of the heads: five tensors before, one behind.
    exchange(6, own_ * (channels + 3 * inner));
  }

  /// The table's lookup, and the sum of its gradient.
  constexpr void look_up() {
    const double elements = alone_ * static_cast<double>(model_.hidden_size);
    stream(elements, 3, (setup_.dropout > 0 ? 4 : 2) * element_, 3 * element_ + 4);
    if (ways_ > 1) cost.forward.reductions += 1;
  }

 private:
  struct launch_counts {
    double forward = 0;
    double backward = 0;
  };
  constexpr launch_counts launches() const {
    return {cost.forward.operators, cost.backward.operators};
  }
  constexpr void note_launches_of_experts(const launch_counts& before) {
    of_experts_.forward += cost.forward.operators - before.forward;
    of_experts_.backward += cost.backward.operators - before.backward;
  }
  launch_counts before_sublayer_{};
  launch_counts of_experts_{};

  const transformer& model_;
  const training_setup& setup_;
  const kernel_rates& on_;
  double batch_;
  double ways_;
  double rings_;
  double parts_;  // that Megatron-Core's ranks have of an expert
  double sequence_;
  double memory_;  // tokens of a sequence that a decoder reads of its encoder
  double element_;
  double gradient_;  // bytes that a product for a weight's gradient writes, and reads to add to
  bool is_compiled_;
  bool is_eager_;       // each operator of PyTorch is a kernel
  bool casts_weights_;  // torch.autocast: linear layers cast their weights for each micro-batch,
  bool casts_;          // and what they read, by kernels of their own
  double residual_;     // bytes of an element between sublayers
  gradients_wanted wanted_;
  double own_ = 0;    // tokens of the rank's part of sequences
  double alone_ = 0;  // those between sublayers: sequence parallelism divides them further
  bool sublayer_is_divided_ = false;
  bool stream_is_read_ = false;  // by a linear layer of this sublayer

  // Engines that gather weights gather them in the format of products; four-bit ones are made so.
  static constexpr bool casts_operands(const training_setup& setup) {
    const engine_class& engine = *setup.framework.engine.is;
    return setup.framework.layers().counts_work && engine.counts_work && !engine.gathers_weights &&
           setup.precision.weights == number_format::fp32 && setup.precision.autocast() &&
           !(setup.trains.what == training::adapters && setup.trains.adapters.base.block != 0);
  }
  static constexpr bool runs_operators_one_by_one(const training_setup& setup) {
    const framework& software = setup.framework;
    return software.layers().counts_work && software.engine.is->counts_work &&
           !fuses_elements(software);
  }
  // Whether a linear layer reads what lies between sublayers, or its norm.
  static constexpr bool reads_stream(operator_kind kind) {
    switch (kind) {
      case operator_kind::query:
      case operator_kind::key:
      case operator_kind::value:
      case operator_kind::query_key_value:
      case operator_kind::gate:
      case operator_kind::up:
      case operator_kind::gate_up:
      case operator_kind::head:
        return true;
      default:
        return false;
    }
  }
  // An operator of the backward pass alone.
  constexpr void add_gradients(double elements, double traffic) {
    if (!wanted_.any()) return;
    cost.backward.elements += elements * traffic / setup_.framework.costs.element_rate;
    cost.backward.operators += 1;
  }
  // Gradients of several linear layers that read the same are added; under torch.autocast, operands
  // are cast, and gradients of them back.
  constexpr void add_operands(const linear_operator& op, double tokens, double in) {
    const bool reads = reads_stream(op.kind);
    if (reads && stream_is_read_) add_gradients(tokens * in, 3 * residual_);
    stream_is_read_ = stream_is_read_ || reads;
    // The gradients of queries, keys and values are put beside each other.
    if (op.kind == operator_kind::query_key_value) add_gradients(tokens * 3 * in, 2 * element_);
    if (casts_ && reads) stream(tokens * in, 1, element_ + residual_, element_ + residual_);
  }

  // Sums in fp32 are read and written by the product itself, in DeepSpeed by a kernel behind it.
  static constexpr double gradient_traffic(const training_setup& setup, double element) {
    if (!setup.precision.fp32_gradients) return element;
    return setup.framework.engine.is->adds_gradients_in_kernels ? 8 : 2 * element + 8;
  }
  static constexpr bool is_of_layer(operator_kind kind) {
    return kind != operator_kind::router && kind != operator_kind::shared_expert_gate &&
           kind != operator_kind::mtp_projection && kind != operator_kind::pooler;
  }
  constexpr double heads_here() const {
    return ceil_div(static_cast<double>(model_.num_attention_heads), ways_);
  }
  constexpr double groups_here() const {
    return ceil_div(static_cast<double>(model_.key_value_heads()), ways_);
  }
  constexpr double routed_tokens() const {
    const bool are_shared = setup_.parallelism.expert_parallel > 1;
    return (are_shared ? own_ / ways_ * parts_ : own_) *
           static_cast<double>(model_.moe.num_experts_per_tok) * setup_.expert_capacity;
  }
  constexpr double tokens_of(token_set set) const {
    switch (set) {
      case token_set::pooled:
        return batch_;
      case token_set::patches:
        return batch_ * static_cast<double>(model_.image.patches());
      case token_set::memory:
        return batch_ * memory_ / rings_;
      case token_set::own:
        break;
    }
    return own_;
  }
  constexpr bool writes_scores() const {
    const attention_kernel by = setup_.chosen_attention();
    return by == attention_kernel::eager || by == attention_kernel::math;
  }

  constexpr void keep() {
    kept = cost.forward;
    if (kernels != nullptr) kernels->again = kernels->forward;
  }

  // By how much a kernel is slower than one that only moves its bytes. Of those that a compiler
  // writes none was timed alone, and steps of theirs take no longer than for their bytes.
  constexpr double slower(double times) const { return is_compiled_ ? 1 : larger_of(1, times); }

  // So many elements, each with so many bytes read and written.
  constexpr void stream(double elements, double operators, double forward, double backward) {
    const double traffic = elements / setup_.framework.costs.element_rate;
    cost.forward.elements += traffic * forward;
    cost.forward.operators += operators;
    if (!wanted_.any()) return;
    cost.backward.elements += traffic * backward;
    cost.backward.operators += operators;
  }
  constexpr void add_norm(double elements) {
    keep();
    const bool is_eager = setup_.framework.implementation.rms_norm != rms_norm_kind::fused &&
                          model_.norm == norm_kind::rms_norm && !fuses_elements(setup_.framework);
    if (is_eager)  // cast, square, mean, root, product, cast, product with the weight
      stream(elements, 7, 4 * element_ + 24, 8 * element_ + 48);
    else
      stream(elements,
             1,
             slower(model_.norm == norm_kind::rms_norm ? on_.rms_norms : on_.norms) * 2 * residual_,
             slower(on_.norm_gradients) * 3 * residual_);
  }
  constexpr void add_activation(double elements) {
    const bool fused =
        fuses_elements(setup_.framework) || setup_.framework.implementation.fuses_bias_activation;
    if (model_.gated_mlp)
      stream(elements * (fused ? slower(on_.functions) : 1),
             fused ? 1 : 2,
             (fused ? 3 : 5) * element_,
             (fused       ? 5
              : is_eager_ ? 9
                          : 12) *
                 element_);
    else
      stream(elements * slower(on_.functions), 1, 2 * element_, 3 * element_);
    if (!fused && composes_gelu(setup_)) compose_gelu(elements);
  }
  // Of gate and up, each of so many elements: kernels of their own, unless the layer is compiled.
  // Megatron-Core puts both into one tensor again, which its fused activation reads. Backward,
  // three comparisons with bounds and what joins two of them write a byte each.
  constexpr void add_clamps(double elements) {
    if (!model_.clamped_gate_up || is_compiled_) return;
    const double joined = setup_.framework.layers().is_pipelined ? 4 * element_ : 0;
    stream(elements, joined > 0 ? 3 : 2, 4 * element_ + joined, 7 * element_ + 8 + joined);
    if (wanted_.any()) cost.backward.operators += joined > 0 ? 4 : 3;
  }
  // What its operators move beyond one. Under autocast x ** 3, and what follows from it, is fp32.
  constexpr void compose_gelu(double elements) {
    const bool raises = element_ == 2 && setup_.precision.autocast();
    stream(elements, raises ? 9 : 7, raises ? 72 : 16 * element_, raises ? 112 : 25 * element_);
    if (wanted_.any()) cost.backward.operators += raises ? 5 : 3;
  }
  // The loss of logits: a fused one writes the gradient over them.
  constexpr void add_loss(double tokens, double classes) {
    const implementation& layers = setup_.framework.implementation;
    if (layers.cut_cross_entropy) return add_cut_loss(tokens, classes);
    const double elements = tokens * classes;
    const bool fused = layers.fuses_loss || layers.compiles_loss || layers.liger_kernels;
    if (fused)
      stream(elements * slower(on_.softmaxes), 2, 2 * element_, element_);
    else
      stream(elements, 6, element_ + 4 + 4 + 8, 8 + 4 + element_);
  }

  // Head and loss of one part of the sequences after the other. What reaches the head's input and
  // matrix is cast to fp32 and added there.
  constexpr void add_chunked_head(double tokens, double in, double out) {
    const auto parts = static_cast<double>(setup_.framework.implementation.loss_chunks);
    keep();
    stream(tokens * in, 2 * parts + 2, 2 * element_, 2 * element_ + 20);
    const layer_cost before = cost;
    const layer_kernels kernels_before = kernels != nullptr ? *kernels : layer_kernels{};
    cost = {};
    if (kernels != nullptr) *kernels = {};
    multiply(tokens / parts, in, out, 1, true, false);
    add_loss(tokens / parts, out);
    cost = before + parts * cost;
    if (kernels != nullptr) *kernels = kernels_before + parts * *kernels;
    if (!wanted_.weights) return;
    const double once = element_ + 4;
    cost.backward.elements += in * out * (parts * once + (parts - 1) * 12);
    cost.backward.operators += 2 * parts - 1;
  }

  // Cut cross-entropy writes no logits, and multiplies for them again in the backward. What its
  // gradients leave out of small probabilities depends on the text, and is counted.
  constexpr void add_cut_loss(double tokens, double classes) {
    if (!wanted_.any()) return;
    const auto width = static_cast<double>(model_.hidden_size);
    const double rate = on_.half * alignment_share(width, classes, element_, on_);
    const matmul_size shape{tokens, classes, width, 1};
    cost.backward.products += matmul_time(shape, rate, element_, element_, on_);
    cost.backward.operators += 1;
    if (kernels != nullptr) {
      bounded_kernels& sum = kernels->backward.others;
      sum = sum + bounds_of_matmul(shape, on_.half, rate, element_, element_, on_);
    }
  }

  constexpr void multiply(
      double tokens, double in, double out, double batch, bool gradient_of_input, bool linear) {
    const double width = linear ? on_.linear_bytes : element_;
    const double rate = (linear ? on_.linear : on_.half) * alignment_share(in, out, width, on_);
    const auto time = [&](double m, double n, double k, double result) {
      return matmul_time({m, n, k, batch}, rate, width, result, on_);
    };
    const auto note = [&](pass_kernels& to, double m, double n, double k, double result) {
      bounded_kernels& sum = linear ? to.linear : to.others;
      const double full = linear ? on_.linear : on_.half;
      sum = sum + bounds_of_matmul({m, n, k, batch}, full, rate, width, result, on_);
    };
    gradient_of_input = gradient_of_input && wanted_.values;
    if (kernels != nullptr) {
      note(kernels->forward, tokens, out, in, element_);
      if (wanted_.weights) note(kernels->backward, out, in, tokens, gradient_);
      if (gradient_of_input) note(kernels->backward, tokens, in, out, element_);
    }
    cost.forward.products += time(tokens, out, in, element_);
    cost.forward.operators += 1;
    if (wanted_.weights) {
      const double of_weights = time(out, in, tokens, gradient_);
      cost.backward.products += of_weights;
      cost.backward.weights += of_weights;
      cost.backward.operators += 1;
    }
    if (gradient_of_input) {
      cost.backward.products += time(tokens, in, out, element_);
      cost.backward.operators += 1;
    }
    if (width < element_) {  // casts of operands, once for each layout that products read
      const double cast = element_ + 2 * width;
      // Transformer Engine keeps those of weights from one micro-batch to the next.
      const double weights = setup_.framework.implementation.transformer_engine ? 0 : in * out;
      cost.forward.elements += (tokens * in + weights) * batch * cast;
      if (wanted_.any()) cost.backward.elements += tokens * out * batch * cast;
    }
  }
  // Beside a product its adapter's two, whose result is scaled and added to its own. What they read
  // is dropped by an operator of its own, and its gradient too.
  constexpr void add_adapter(
      const linear_operator& op, double tokens, double in, double out, double batch = 1) {
    if (setup_.trains.what != training::adapters) return;
    const lora& adapters = setup_.trains.adapters;
    if (!is_adapted(adapters, model_, op)) return;
    const double rank = static_cast<double>(adapters.rank);
    if (adapters.dropout > 0) stream(tokens * batch * in, 1, 2 * element_ + 1, 2 * element_ + 1);
    const gradients_wanted frozen_beside = wanted_;
    wanted_.weights = true;
    multiply(tokens, in, rank, batch, op.from != slot::image, false);
    multiply(tokens, rank, out, batch, true, false);
    wanted_ = frozen_beside;
    stream(tokens * batch * out, 2, 5 * element_, 3 * element_);
    cost.adapters += batch * rank * (in + out);
    cost.matrices += batch * 2;
  }
  // An adapter that is added to the matrices of all experts before they are multiplied: they are
  // made to be checked, and again to be read, and have a gradient, from which those of its factors
  // are made.
  constexpr void fold_adapter(const linear_operator& op, double in, double out, double experts) {
    const double rank = static_cast<double>(setup_.trains.adapters.rank);
    for (const bool is_read : {false, true}) {
      wanted_ = {.values = is_read, .weights = is_read};
      multiply(out, rank, in, experts, true, false);
      stream(experts * in * out, 1, 2 * element_, 0);
    }
    stream(experts * rank * (in + out), 2, 0, 2 * element_);
    const bool shares_down = op.kind == operator_kind::expert_up;  // with the gate
    cost.adapters += experts * rank * (shares_down ? out : in + out);
  }
  // A matrix that is stored in four bits is made whole for its product, and again for the gradient
  // of what it read: a kernel reads codes and scales, and writes it in the format of products;
  // scales of 8 bits are made whole before, by two kernels.
  constexpr void make_whole(const linear_operator& op, double elements) {
    const quantised_base& base = setup_.trains.adapters.base;
    if (setup_.trains.what != training::adapters || base.block == 0 ||
        op.kind == operator_kind::head || op.kind == operator_kind::head_dense)
      return;
    const bool has_small_scales = base.scale_block != 0;
    const double scales = elements / static_cast<double>(base.block);
    const double traffic =
        (elements * (0.5 + element_) + scales * (has_small_scales ? 1 + 4 * 4 : 4)) /
        dequantising_share;
    cost.forward.elements += traffic;
    cost.forward.operators += 1;
    if (!wanted_.values) return;
    cost.backward.elements += traffic;
    cost.backward.operators += 1;
  }
  // Of `recomputed_modules`, what is computed again.
  [[nodiscard]] constexpr bool is_recomputed(operator_kind kind) const {
    const recomputed_modules& parts = setup_.modules;
    switch (kind) {
      case operator_kind::query:
      case operator_kind::key_value_up:
        return parts.latent_projections && model_.is_latent();
      case operator_kind::gate:
      case operator_kind::up:
      case operator_kind::gate_up:
      case operator_kind::down:
        return parts.mlp;
      case operator_kind::router:
      case operator_kind::expert_gate:
      case operator_kind::expert_up:
      case operator_kind::expert_gate_up:
      case operator_kind::expert_down:
        return parts.experts;
      case operator_kind::shared_gate:
      case operator_kind::shared_up:
      case operator_kind::shared_gate_up:
      case operator_kind::shared_down:
      case operator_kind::shared_expert_gate:
        return parts.experts || parts.shared_experts;
      default:
        return false;
    }
  }
  // Products of many matrices at once do not add biases. Megatron-Core weighs each expert's bias by
  // its tokens' shares and adds it, in fp32 and one expert after the other, before it puts the
  // results beside each other (`_apply_bias` of its grouped experts); the first one is added
  // by Transformer Engine's products.
  constexpr void add_expert_bias(const linear_operator& op, double elements) {
    if (!setup_.framework.layers().is_pipelined)
      stream(elements, 1, 2 * element_, element_);
    else if (op.kind == operator_kind::expert_down)
      stream(elements, 4, 5 * 4 + 2 * element_ + 4, 7 * 4 + 2 * element_ + 4);
    else
      stream(elements, 0, 0, element_);
  }
  // Each rank has its experts' tokens of all ranks, as many as it sends where they are balanced.
  constexpr void expert(const linear_operator& op) {
    const double ranks = static_cast<double>(setup_.parallelism.expert_parallel);
    const double experts = static_cast<double>(op.copies) / ranks;
    const double tokens = routed_tokens() / experts;
    const double parts = static_cast<double>(parts_of_expert(setup_.parallelism));
    const bool narrows = op.split == tensor_split::rows;
    const double in = static_cast<double>(op.in) / (narrows ? parts : 1);
    const double out = static_cast<double>(op.out) / (narrows ? 1 : parts);
    if (op.kind == operator_kind::expert_down) {
      const pass_cost before = cost.forward;
      add_clamps(tokens * experts * in);
      add_activation(tokens * experts * in);
      if (setup_.modules.expert_activation && !setup_.modules.experts)
        of_modules = of_modules + cost.forward + -1.0 * before;
    }
    keep();
    const gradients_wanted of_layer = wanted_;
    if (setup_.trains.what == training::adapters &&
        is_folded(setup_.trains.adapters.targets, op.kind))
      fold_adapter(op, in, out, experts);
    else
      add_adapter(op, tokens, in, out, experts);
    make_whole(op, in * out * experts);
    multiply(tokens, in, out, experts, true, true);
    wanted_ = of_layer;
    if (op.bias) add_expert_bias(op, tokens * experts * out);
    // Megatron-Core's gather rows and add them up as they are routed.
    if (narrows && ranks == 1 && parts_ == 1) sublayer_is_divided_ = ways_ > 1;
  }
  // Scores lie in memory: softmax and dropout go over them.
  constexpr void add_eager_attention(double heads,
                                     double queries,
                                     double keys,
                                     const attention_operator& op) {
    const double batch = batch_ * heads;
    const double dim = static_cast<double>(op.query_dim);
    const double value = static_cast<double>(op.value_dim);
    // Batched products whose heads no load of 16 bytes fits leave the tensor cores.
    const double share = alignment_share(dim, value, element_, on_);
    const double rate = share < 1 ? smaller_of(on_.scalar, on_.half * share) : on_.half;
    const auto time = [&](double m, double n, double k) {
      return matmul_time({m, n, k, batch}, rate, element_, element_, on_);
    };
    const auto note = [&](pass_kernels& to, double m, double n, double k) {
      to.attention = to.attention +
                     bounds_of_matmul({m, n, k, batch}, on_.half, rate, element_, element_, on_);
    };
    cost.forward.attention += time(queries, keys, dim) + time(queries, value, keys);
    const double scores = batch * queries * keys * setup_.framework.costs.score_traffic;
    // Megatron-LM's fused softmax takes multiples of four heads (fused_softmax.py).
    const bool fused = setup_.framework.implementation.fuses_softmax && divides(4, batch);
    const double dropped = setup_.dropout > 0 ? 1 : 0;
    // Softmax reads and writes; in eager attention so do scale and mask, in fp32 where it is.
    // Dropout reads, writes and has a mask.
    double softmax = fused ? 2 * element_ : 6 * element_ + 4;
    double softmax_back = 1.5 * softmax;
    double forward_operators = fused ? 3 : 8;
    double backward_operators = fused ? 5 : 12;
    if (is_eager_) {
      // A mask is added, and of decoders scores are scaled before. torch.autocast has the softmax,
      // and what follows it, in fp32; scores in bf16 are made that before.
      const bool in_fp32 = casts_ && setup_.precision.compute == number_format::bf16;
      const double beside =
          (causal ? 2 : 1) * 2 * element_ + (casts_ ? element_ + 4 : 0) + (in_fp32 ? 6 : 0);
      const double read = in_fp32 ? 4 : element_;
      const double written = casts_ ? 4 : element_;
      const double softmaxes = larger_of(1, on_.softmaxes);
      softmax = beside + softmaxes * (read + written);
      softmax_back = beside + softmaxes * (read + 2 * written);
      const double casts = (casts_ ? 1 : 0) + (in_fp32 ? 1 : 0);
      forward_operators = 8 + (causal ? 3 : 0) + casts + dropped;
      backward_operators = 10 + casts + dropped;
      // Heads are moved beside each other for the products, and back.
      const double values = batch_ * queries * heads * static_cast<double>(op.query_dim);
      stream(values, 0, 8 * element_, 8 * element_);
    }
    const double drop = dropped * (2 * (casts_ ? 4 : element_) + 1);
    cost.forward.attention += scores * (softmax + drop) / on_.bytes;
    if (kernels != nullptr) {
      note(kernels->forward, queries, keys, dim);
      note(kernels->forward, queries, value, keys);
      kernels->forward.score_bytes += scores * (softmax + drop);
    }
    cost.forward.operators += forward_operators;
    if (!wanted_.any()) return;
    cost.backward.attention += time(queries, dim, keys) + time(keys, dim, queries) +
                               time(queries, keys, value) + time(keys, value, queries);
    cost.backward.attention += scores * (softmax_back + drop) / on_.bytes;
    if (kernels != nullptr) {
      note(kernels->backward, queries, dim, keys);
      note(kernels->backward, keys, dim, queries);
      note(kernels->backward, queries, keys, value);
      note(kernels->backward, keys, value, queries);
      kernels->backward.score_bytes += scores * (softmax_back + drop);
    }
    cost.backward.operators += backward_operators;
  }
};

// Whether full recomputation leaves some layers out.
constexpr bool recomputes_some(const training_setup& setup) {
  return setup.recompute == recompute_mode::full &&
         (setup.recompute_layers != 0 || setup.recompute_period != 1);
}
// Of layers one behind the other, those of a chunk, or by PyTorch's schedules of all chunks of a
// rank, so many are computed again: each `period`-th of the first ones (0: of all).
constexpr std::int64_t recomputed_of(std::int64_t layers, std::int64_t first, std::int64_t period) {
  return (first != 0 && first < layers ? first : layers) / period;
}

// Of the model's layers, those that are computed again where full recomputation is chosen.
constexpr double recomputed_share(const training_setup& setup, const parallelism& layout) {
  if (!recomputes_some(setup)) return 1;
  const std::int64_t layers = setup.model.layers();
  const bool counts_ranks = setup.framework.layers().divides_stages;
  std::int64_t again = 0;
  const auto add = [&](std::int64_t here) {
    again += recomputed_of(here, setup.recompute_layers, setup.recompute_period);
  };
  for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage) {
    if (counts_ranks) add(layers_of_stage(layout, layers, stage));
    for (std::int64_t chunk = 0; chunk < layout.virtual_pipeline && !counts_ranks; ++chunk)
      add(layers_of_chunk(layout, layers, stage, chunk).size());
  }
  return static_cast<double>(again) / static_cast<double>(layers);
}

}  // namespace detail

/// The cost of one micro-batch through one layer of a kind that the model has, with a window or
/// without; where the last layers train, of one of these or of one before. Preconditions:
/// `validate` accepts model and layout, whose degrees divide the model.
[[nodiscard]] constexpr layer_cost cost_of_layer(const training_setup& setup,
                                                 const kernel_rates& on,
                                                 std::int64_t micro_batch,
                                                 layer_kind kind,
                                                 bool windowed,
                                                 bool trains = true,
                                                 layer_kernels* kernels = nullptr) {
  const detail::gradients_wanted wanted = detail::gradients_in_layers(setup, trains);
  detail::cost_visitor visitor(setup, on, micro_batch, wanted, kind == layer_kind::cross);
  visitor.kernels = kernels;
  visitor.windowed = windowed;
  visitor.causal = setup.model.kind == model_kind::decoder || kind == layer_kind::cross;
  visit_layer(setup.model, kind, visitor);
  visitor.capture(kind);
  layer_cost cost = visitor.cost;
  pass_kernels kept;
  if (kernels != nullptr) kept = std::exchange(kernels->again, {});
  if (!wanted.any()) return cost;  // nor does anything need its values again
  switch (setup.recompute) {
    case recompute_mode::none:
      break;
    case recompute_mode::selective:
      cost.again = visitor.of_modules;
      if (setup.modules.core_attention && has_attention(kind))
        cost.again.attention += cost.forward.attention;
      if (kernels == nullptr) break;
      kernels->again = visitor.kernels_of_modules;
      if (setup.modules.core_attention && has_attention(kind))
        kernels->again = kernels->again + pass_kernels{.attention = kernels->forward.attention,
                                                       .score_bytes = kernels->forward.score_bytes};
      break;
    case recompute_mode::full:
      cost.again = detail::stops_early(setup.framework) ? visitor.kept : cost.forward;
      if (kernels != nullptr)
        kernels->again = detail::stops_early(setup.framework) ? kept : kernels->forward;
      if (setup.saves_costly_results) {
        cost.again.attention = 0;
        cost.again.products /= 2;
        cost.again.reductions = 0;
        if (kernels != nullptr)
          kernels->again = {.linear = 0.5 * kernels->again.linear,
                            .others = 0.5 * kernels->again.others};
      }
      break;
  }
  return cost;
}

/// The cost of what is before the layers, and of what is behind them: the head and the loss.
[[nodiscard]] constexpr layer_cost cost_of_input(const training_setup& setup,
                                                 const kernel_rates& on,
                                                 std::int64_t micro_batch,
                                                 layer_kernels* kernels = nullptr) {
  const detail::gradients_wanted wanted = detail::gradients_before_layers(setup);
  detail::cost_visitor visitor(setup, on, micro_batch, wanted);
  visitor.kernels = kernels;
  if (setup.model.kind != model_kind::vision) visitor.look_up();
  visit_input(setup.model, visitor);
  if (kernels != nullptr) kernels->again = {};
  if (setup.model.kind != model_kind::encoder_decoder) return visitor.cost;
  detail::cost_visitor decoder(setup, on, micro_batch, wanted, true);
  decoder.look_up();
  return visitor.cost + decoder.cost;
}
[[nodiscard]] constexpr layer_cost cost_of_output(const training_setup& setup,
                                                  const kernel_rates& on,
                                                  std::int64_t micro_batch,
                                                  layer_kernels* kernels = nullptr) {
  detail::cost_visitor visitor(
      setup, on, micro_batch, detail::gradients_behind_layers(setup), true);
  visitor.kernels = kernels;
  visit_output(setup.model, visitor);
  if (kernels != nullptr) kernels->again = {};
  return visitor.cost;
}

}  // namespace gpuplan

#pragma once

// How many floating-point operations a model takes, operator by operator, forward and backward:
// those of matrix products, 2 for each multiplication with its addition. What is not a product
// (norms, activations, softmax, the optimizer) is not counted, as nobody counts it.

#include <gpuplan/model.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// Which pairs of a query and a key count.
enum class attention_pairs {
  full,         // s x s, as PyTorch's counter, PaLM's MFU and torchtitan do
  causal_half,  // half of that where a decoder attends to itself, as Megatron-Core does
  visible       // those that masks and sliding windows let through
};

/// What is run, of one sequence or image.
struct training_pass {
  std::int64_t sequence_length = 0;          // vision: 0 stands for the image's tokens
  std::int64_t decoder_sequence_length = 0;  // encoder-decoder; 0: as long as the encoder's
  trainable trains{};
  recompute_mode recompute = recompute_mode::none;
  /// Recomputation ends with the last value that the backward pass needs, as PyTorch's
  /// non-reentrant checkpoints do; else it runs the whole layer, or attention, like Megatron-LM.
  bool recompute_stops_early = false;
  /// Dropout of what attention and MLP add to the stream: its backward pass needs a mask, which
  /// recomputation cannot draw before its input is there.
  bool output_dropout = false;
  /// The backward pass of attention computes the scores again (FlashAttention) instead of keeping
  /// them.
  bool fused_attention = true;
  attention_pairs pairs = attention_pairs::full;
  /// Gradients are wanted for the embeddings though the table is frozen: PEFT does so under
  /// recomputation.
  bool input_requires_grad = false;
};

/// The operations of one kind of operator.
struct operator_flops {
  double forward = 0;
  double backward = 0;
  double recomputed = 0;  // forward operations that are done again in the backward pass
};

/// The operations of one sequence by kind of operator. They are exact below 2^53 FLOP of one sum,
/// and beyond within a few units of the last place of a double.
struct flop_counts {
  operator_flops by_operator[operator_kinds]{};

  [[nodiscard]] constexpr const operator_flops& operator[](operator_kind kind) const {
    return by_operator[static_cast<int>(kind)];
  }
  [[nodiscard]] constexpr flop_count forward() const { return sum(&operator_flops::forward); }
  [[nodiscard]] constexpr flop_count backward() const { return sum(&operator_flops::backward); }
  [[nodiscard]] constexpr flop_count recomputed() const { return sum(&operator_flops::recomputed); }
  /// What the model needs: forward and backward. MFU counts these.
  [[nodiscard]] constexpr flop_count model() const { return forward() + backward(); }
  /// What the device does: recomputation too. HFU counts these.
  [[nodiscard]] constexpr flop_count hardware() const { return model() + recomputed(); }

 private:
  [[nodiscard]] constexpr flop_count sum(double operator_flops::*part) const {
    // Three sums side by side take a third of the time: each addition waits for the one before.
    static_assert(operator_kinds % 3 == 0);
    double a = 0;
    double b = 0;
    double c = 0;
    for (int i = 0; i < operator_kinds; i += 3) {
      a += by_operator[i].*part;
      b += by_operator[i + 1].*part;
      c += by_operator[i + 2].*part;
    }
    return flop_count::from_value(a + b + c);
  }
};

/// The sums, kind by kind.
[[nodiscard]] constexpr flop_counts operator+(flop_counts a, const flop_counts& b) {
  for (int i = 0; i < operator_kinds; ++i) {
    a.by_operator[i].forward += b.by_operator[i].forward;
    a.by_operator[i].backward += b.by_operator[i].backward;
    a.by_operator[i].recomputed += b.by_operator[i].recomputed;
  }
  return a;
}

/// The same of `count` sequences.
[[nodiscard]] constexpr flop_counts operator*(double count, flop_counts a) {
  for (operator_flops& each : a.by_operator) {
    each.forward *= count;
    each.backward *= count;
    each.recomputed *= count;
  }
  return a;
}

namespace detail {

// Pairs of a query and a key of one head where no query sees a later key, and each at most `window`
// keys; 0: all.
constexpr double causal_pairs(double tokens, double window) {
  if (window == 0 || window >= tokens) return tokens * (tokens + 1) / 2;
  return window * (window + 1) / 2 + (tokens - window) * window;
}

// The same; an encoder's window lies around the query.
constexpr double visible_pairs(double tokens, std::int64_t window, bool causal) {
  if (causal) return causal_pairs(tokens, static_cast<double>(window));
  if (window == 0) return tokens * tokens;
  const std::int64_t before = window / 2;
  return causal_pairs(tokens, static_cast<double>(before + 1)) +
         causal_pairs(tokens, static_cast<double>(window - before)) - tokens;
}

// Counts the operations of operators as they are visited, and follows which values need a gradient.
class flop_visitor {
 public:
  constexpr flop_visitor(const transformer& the_model,
                         const training_pass& the_pass,
                         std::int64_t own_tokens,
                         std::int64_t memory_tokens,
                         flop_counts& the_counts)
      : counts_(the_counts),
        model_(the_model),
        pass_(the_pass),
        all_trains_(the_pass.trains.what == training::full),
        adapters_(the_pass.trains.what == training::adapters),
        recomputes_layers_(the_pass.recompute == recompute_mode::full),
        own_(static_cast<double>(own_tokens)),
        memory_(static_cast<double>(memory_tokens)) {}

  bool trains = false;       // what the visited operators own
  bool trains_head = false;  // the head's own matrix, of a classifier the dense layer too
  bool trains_tied = false;  // the token table, as a head
  bool trains_pooler = false;
  bool causal = false;  // attention of a stack to itself

  constexpr bool gradient(slot of) const { return all_trains_ || (gradients_ & bit(of)) != 0; }
  constexpr void want_gradient(slot of, bool wanted) { gradients_ |= wanted ? bit(of) : 0; }

  constexpr void repeat(std::int64_t count) { times_ = static_cast<double>(count); }
  // So many of the layers that are visited at once have a window.
  constexpr void see_windows(std::int64_t layers) { windowed_ = static_cast<double>(layers); }
  constexpr void begin_layer() { size_ = kept_ = 0; }
  constexpr void end_layer() {
    if (!recomputes_layers_ || !gradient(slot::stream)) return;
    const int last = pass_.recompute_stops_early ? kept_ : size_;
    for (int i = 0; i < last; ++i) at(done_[i].kind).recomputed += done_[i].flops;
  }

  constexpr void begin_sublayer() {
    gradients_ &= ~bit(slot::input);
    want_gradient(slot::input, gradient(slot::stream));
  }
  constexpr void norm(slot which, std::int64_t) {
    normalise(which, model_.norm_affine, model_.norm_bias);
  }
  constexpr void latent_norm(slot of, std::int64_t) { normalise(of, true, false); }
  constexpr void head_norm(slot which, std::int64_t) {
    normalise(which, model_.norm_affine, model_.qk_norm_bias);
  }
  constexpr void output_norm(slot which, std::int64_t) {
    const bool weight = model_.head == head_kind::language_model ? all_trains_ : trains_head;
    want_gradient(which,
                  model_.norm_affine && (weight || (model_.norm_bias && all_biases_train())));
  }
  constexpr void share(slot from, slot to) { want_gradient(to, gradient(from)); }
  constexpr void sinks(std::int64_t) { want_gradient(slot::query, trains); }
  constexpr void weigh(slot which, slot scores) {
    if (!gradient(which) && !gradient(scores)) return;
    want_gradient(slot::output, true);
    keep();
  }
  constexpr void scale(std::int64_t) {
    want_gradient(slot::output, trains);
    if (gradient(slot::output)) keep();
  }
  constexpr void add_residual() {
    if (pass_.output_dropout && gradient(slot::output)) keep();
    want_gradient(slot::stream, gradient(slot::output));
    gradients_ &= bit(slot::stream) | bit(slot::memory);
  }

  // Inlined, the kind of operator is a constant: half the time of a count.
  [[gnu::always_inline]] constexpr void linear(const linear_operator& op) {
    const double samples = 2 * times_ * tokens(op.tokens) * static_cast<double>(op.uses);
    const double forward = samples * static_cast<double>(op.in) * static_cast<double>(op.out);
    if (all_trains_) {  // so all values but images have a gradient
      keep();
      add(op.kind, forward, op.from == slot::image ? 1 : 2);
    } else {
      add_where_some_trains(op, samples, forward);
    }
  }

  constexpr void attention(const attention_operator& op) {
    const bool query = gradient(slot::query);
    const bool key = gradient(slot::key);
    const bool value = gradient(slot::value);
    const bool any = query || key || value;
    const double products = 2 * static_cast<double>(op.heads) * pairs_of(op);
    const double scores = products * static_cast<double>(op.query_dim);
    const double values = products * static_cast<double>(op.value_dim);
    const bool fused = pass_.fused_attention && !op.pooled;
    if (fused) {
      add(operator_kind::scores, scores, any ? 2 : 0);
      add(operator_kind::weighted_values, values, any ? 2 : 0);
      if (any) at(operator_kind::scores).recomputed += scores;
    } else {
      add(operator_kind::scores, scores, (query ? 1 : 0) + (key ? 1 : 0));
      if (any) keep();
      add(operator_kind::weighted_values, values, (query || key ? 1 : 0) + (value ? 1 : 0));
    }
    if (any && fused) keep();
    if (any && pass_.recompute == recompute_mode::selective) {
      at(operator_kind::scores).recomputed += scores;
      if (fused || !pass_.recompute_stops_early)
        at(operator_kind::weighted_values).recomputed += values;
    }
    want_gradient(slot::attention, any);
  }

  // Their gradients take what their products take, twice: each has two operands.
  constexpr void recur(const recurrent_operator& op) {
    const bool any = gradient(slot::hidden) || trains;
    const double tokens = times_ * own_;
    const double channels =
        static_cast<double>(op.heads * op.value_dim + 2 * op.groups * op.key_dim);
    if (any) keep();
    add(operator_kind::convolution,
        2 * tokens * channels * static_cast<double>(op.kernel),
        any ? 2 : 0);
    add(operator_kind::recurrence,
        tokens *
            op.products_of_token(static_cast<double>(op.heads), static_cast<double>(op.groups)),
        any ? 2 : 0);
    if (any) keep();
    want_gradient(slot::hidden, any);
  }

  // The product of a low-rank table's second matrix, where the token table has an adapter.
  constexpr void adapted_table(double width) {
    add(operator_kind::adapters,
        2 * own_ * static_cast<double>(pass_.trains.adapters.rank) * width,
        2);
    want_gradient(slot::stream, true);
  }

 private:
  struct step {
    operator_kind kind;
    double flops;
  };

  flop_counts& counts_;
  const transformer& model_;
  const training_pass& pass_;
  bool all_trains_;
  bool adapters_;
  bool recomputes_layers_;
  double times_ = 1;
  double windowed_ = 0;
  double own_;
  double memory_;
  unsigned gradients_ = 0;  // a bit for each slot whose value needs one
  step done_[64];           // the forward pass of a layer, where it is recomputed
  int size_ = 0;
  int kept_ = 0;  // of these: what leads to the last value that the backward pass needs

  static constexpr unsigned bit(slot of) { return 1U << static_cast<int>(of); }
  constexpr operator_flops& at(operator_kind kind) {
    return counts_.by_operator[static_cast<int>(kind)];
  }
  constexpr void add(operator_kind kind, double forward, int backward) {
    at(kind).forward += forward;
    at(kind).backward += forward * backward;
    if (recomputes_layers_) done_[size_++] = {kind, forward};
  }
  constexpr void keep() { kept_ = size_; }
  constexpr void add_where_some_trains(const linear_operator& op, double samples, double forward) {
    const bool input = op.from == slot::learned ? trains_pooler : gradient(op.from);
    const bool adapted = adapters_ && is_adapted(pass_.trains.adapters, model_, op);
    const bool folded = adapted && is_folded(pass_.trains.adapters.targets, op.kind);
    const bool weight = weight_trains(op) || folded;
    if (folded) {  // before the matrices are checked, and again before they are multiplied
      const double rank = 2 * times_ * static_cast<double>(pass_.trains.adapters.rank);
      const double elements = static_cast<double>(op.in) * static_cast<double>(op.out);
      keep();
      add(operator_kind::adapters, 2 * rank * static_cast<double>(op.copies) * elements, 1);
    }
    if (input || weight) keep();
    add(op.kind, forward, (input ? 1 : 0) + (weight ? 1 : 0));
    if (adapted && !folded) {
      const double rank = static_cast<double>(pass_.trains.adapters.rank);
      keep();
      add(operator_kind::adapters, samples * static_cast<double>(op.in) * rank, input ? 2 : 1);
      keep();
      add(operator_kind::adapters, samples * rank * static_cast<double>(op.out), 2);
    }
    want_gradient(op.to, input || weight || adapted || bias_trains(op, adapted));
  }
  constexpr void normalise(slot which, bool has_weight, bool has_bias) {
    const bool weight = trains && has_weight;
    const bool bias = has_weight && has_bias && all_biases_train();
    want_gradient(which, weight || bias);
    if (gradient(which)) keep();
  }
  constexpr bool all_biases_train() const {
    return adapters_ && pass_.trains.adapters.bias == lora_bias::all;
  }
  constexpr bool bias_trains(const linear_operator& op, bool adapted) const {
    return op.bias &&
           (all_biases_train() || (adapted && pass_.trains.adapters.bias == lora_bias::adapted));
  }
  constexpr bool weight_trains(const linear_operator& op) const {
    switch (op.kind) {
      case operator_kind::head:
        return op.tied ? trains_tied : trains_head;
      case operator_kind::head_dense:
        return model_.head == head_kind::language_model ? all_trains_ : trains_head;
      case operator_kind::pooler:
        return trains_pooler;
      case operator_kind::projection:
      case operator_kind::project_out:
        return all_trains_;
      default:
        return trains;
    }
  }
  constexpr double tokens(token_set set) const {
    switch (set) {
      case token_set::own:
        return own_;
      case token_set::memory:
        return memory_;
      case token_set::pooled:
        return 1;
      case token_set::patches:
        return static_cast<double>(model_.image.patches());
    }
    return 0;
  }
  // Of all layers that are visited at once.
  constexpr double pairs_of(const attention_operator& op) const {
    if (op.pooled) return times_ * own_;
    if (op.keys == token_set::memory) return times_ * own_ * memory_;
    if (pass_.pairs == attention_pairs::visible)
      return windowed_ * visible_pairs(own_, model_.sliding_window, causal) +
             (times_ - windowed_) * visible_pairs(own_, 0, causal);
    const double all = times_ * own_ * own_;
    return causal && pass_.pairs == attention_pairs::causal_half ? all / 2 : all;
  }
};

// The layers of one stack in their order, in runs of equal ones.
constexpr void visit_in_order(const transformer& model,
                              std::int64_t layers,
                              bool cross,
                              std::int64_t first_that_trains,
                              flop_visitor& visitor) {
  bool unchanged = false;  // the last layer left the stream as it was: so do its like
  const bool alternate =
      model.mixes_kinds() || (model.moe.num_experts != 0 && model.moe.moe_layer_step != 1);
  for (std::int64_t layer = 0; layer < layers;) {
    const layer_kind kind = cross ? layer_kind::cross : model.kind_of(layer);
    std::int64_t end = layers;
    if (alternate) end = layer + 1;
    const std::int64_t dense_end = model.moe.first_k_dense_layers;
    if (model.moe.num_experts != 0 && layer < dense_end && dense_end < end) end = dense_end;
    if (layer < first_that_trains && first_that_trains < end) end = first_that_trains;
    visitor.trains = layer >= first_that_trains;
    while (layer < end) {
      const bool before = visitor.gradient(slot::stream);
      const std::int64_t run = before || unchanged ? end - layer : 1;
      visitor.repeat(run);
      visitor.see_windows(model.windowed_layers_before(layer + run) -
                          model.windowed_layers_before(layer));
      visitor.begin_layer();
      visit_layer(model, kind, visitor);
      visitor.end_layer();
      unchanged = visitor.gradient(slot::stream) == before;
      layer += run;
    }
    unchanged = false;
  }
  visitor.repeat(1);
}

}  // namespace detail

/// The tokens of one sequence of a pass: `sequence_length`, or an image's.
[[nodiscard]] constexpr std::int64_t tokens_of(const transformer& model,
                                               const training_pass& pass) {
  return pass.sequence_length == 0 && model.kind == model_kind::vision ? model.image.tokens()
                                                                       : pass.sequence_length;
}

/// The matrix products of one sequence, or image, through the model and back. Formula: each
/// operator of operators.hpp takes `2 x tokens x in x out` forward, and once more for each of its
/// input and its weights that needs a gradient; an adapter of `rank` beside it the same with `in x
/// rank + rank x out`; scores and weighted values take `2 x heads x pairs x dim` each. Experts
/// count as often as a token uses them, without padding or capacity. DoRA's norms of weights are
/// not counted. Equal to the integer to what PyTorch 2.15 counts for 35 families of models (frozen,
/// LoRA and recomputed ones included). Preconditions: `validate` accepts model and pass.
[[nodiscard]] constexpr flop_counts flops(const transformer& model, const training_pass& pass) {
  const trainable& trains = pass.trains;
  const bool all = trains.what == training::full;
  const bool adapters = trains.what == training::adapters;
  const bool last_layers = trains.what == training::last_layers;
  const bool head = all || trains.what == training::head || (last_layers && trains.tied_head);
  const bool trains_table =
      all || (head && model.has_tied_head()) || (adapters && trains.adapters.copy_embedding);
  const std::int64_t tokens = tokens_of(model, pass);
  const bool has_decoder = model.kind == model_kind::encoder_decoder;
  const std::int64_t layers = model.layers();
  const std::int64_t none = layers + 1;
  const std::int64_t first_that_trains = all ? 0 : last_layers ? layers - trains.last_layers : none;

  flop_counts counts;
  const auto begin = [&](detail::flop_visitor& stack) {
    stack.begin_layer();
    stack.trains = all;
    const bool reads_tokens = model.kind != model_kind::vision;
    stack.want_gradient(slot::stream,
                        all || (reads_tokens && (trains_table || pass.input_requires_grad)));
    if (reads_tokens && adapters && trains.adapters.targets.embedding && model.vocab_size != 0)
      stack.adapted_table(static_cast<double>(model.token_width()));
  };
  detail::flop_visitor visitor(model, pass, tokens, 0, counts);
  visitor.causal = model.kind == model_kind::decoder;
  begin(visitor);
  visit_input(model, visitor);

  // Where every value has a gradient, layers that are alike can be visited at once.
  const bool in_order = !all || pass.recompute == recompute_mode::full;
  const layer_counts of_mtp = mtp_layers_of(model);
  // Windows are those of a layer like the model's last.
  const bool mtp_has_window = !model.mtp_pattern && model.is_windowed(model.num_hidden_layers - 1);
  const auto visit_stack = [&](std::int64_t first, std::int64_t last, detail::flop_visitor& stack) {
    if (in_order)
      return detail::visit_in_order(
          model, last - first, first != 0, first_that_trains - first, stack);
    layer_counts kinds = layers_between(model, first, last);
    std::int64_t windowed = model.windowed_layers_before(last - first);
    kinds.add(of_mtp, model.mtp_layers);
    if (mtp_has_window) windowed += model.mtp_layers;
    stack.see_windows(windowed);
    visit_layers(model, kinds, stack);
  };
  visit_stack(0, model.num_hidden_layers, visitor);

  const auto finish = [&](detail::flop_visitor& last) {
    const bool copied = adapters && trains.adapters.copy_head;
    last.trains = all || last_layers;
    last.trains_pooler = last.trains;
    last.trains_head = head || last_layers || copied;
    last.trains_tied = head || copied;
    last.begin_layer();
    visit_output(model, last);
    last.trains = all;
    const std::int64_t at_once = in_order ? 1 : model.mtp_layers;
    for (std::int64_t i = 0; i < model.mtp_layers; i += at_once) {
      last.repeat(at_once);
      last.begin_layer();
      visit_mtp_input(model, last);
      if (in_order) {
        last.see_windows(mtp_has_window ? 1 : 0);
        visit_layers(model, of_mtp, last);
        last.end_layer();
      }
      visit_mtp_output(model, last);
    }
  };
  if (!has_decoder) {
    finish(visitor);
    return counts;
  }

  const std::int64_t decoder_tokens =
      pass.decoder_sequence_length != 0 ? pass.decoder_sequence_length : tokens;
  detail::flop_visitor decoder(model, pass, decoder_tokens, tokens, counts);
  decoder.causal = true;
  begin(decoder);
  if (model.final_norm) visitor.norm(slot::stream, model.hidden_size);
  decoder.want_gradient(slot::memory, visitor.gradient(slot::stream));
  if (model.embedding_norm) decoder.norm(slot::stream, model.token_width());
  visit_stack(model.num_hidden_layers, layers, decoder);
  finish(decoder);
  return counts;
}

/// A pass that the model can run. Errors: `not_positive` or `out_of_bounds` for a length, beyond
/// the rows of a learned position table too; those of what trains.
[[nodiscard]] constexpr result<training_pass> validate(const training_pass& pass,
                                                       const transformer& model) {
  const bool is_vision = model.kind == model_kind::vision;
  if (const failure why = detail::flaw_if_present({fact::stages, model.stages.size()},
                                                  {fact::model_kind, model.kind});
      detail::failed(why))
    return why;
  const std::int64_t most =
      model.position_rows != 0 && !is_vision ? model.position_rows : std::int64_t{1} << 32;
  const std::int64_t tokens = tokens_of(model, pass);
  const std::int64_t decoder_tokens = pass.decoder_sequence_length;
  for (const named_fact length :
       {named_fact{fact::sequence_length, tokens},
        named_fact{fact::decoder_sequence_length, decoder_tokens == 0 ? tokens : decoder_tokens}}) {
    if (length.value < 1) return failure(errc::not_positive, length);
    if (length.value > most)
      return failure(errc::out_of_bounds, length, named_fact{fact::at_most, most});
  }
  if (const auto valid = validate(pass.trains, model); !valid) return valid.why();
  return pass;
}

/// The rule of thumb that papers and trainers report MFU by: 6 FLOP per parameter and token, token
/// tables included and idle experts not (Kaplan et al. 2020, arXiv 2001.08361, section 2.1), and
/// attention as `pairs` says. It takes norms, biases and lookups for products (a tied table counts
/// once, as the head) and so lies above `flops().model()`: by 0.6 % (GPT-2 small, 1024 tokens), 1.3
/// % (LLaMA 3 70B, 8192), 5.4 % (LLaMA 3 8B, 8192). A decoder behind an encoder counts with the
/// encoder's tokens. Preconditions: `validate` accepts model and pass, all of the model trains.
[[nodiscard]] constexpr flop_count rule_of_thumb_flops(const transformer& model,
                                                       const training_pass& pass) {
  const flop_counts exact = flops(model, pass);
  const auto attention = [&](operator_kind kind) {
    return exact[kind].forward + exact[kind].backward;
  };
  return flop_count::from_value(6.0 * static_cast<double>(parameters(model).active()) *
                                    static_cast<double>(tokens_of(model, pass)) +
                                attention(operator_kind::scores) +
                                attention(operator_kind::weighted_values));
}

/// What each of `devices` achieves when together they take `time` for `work`.
[[nodiscard]] constexpr compute_rate achieved_rate(flop_count work,
                                                   duration time,
                                                   std::int64_t devices) {
  return work / time / static_cast<double>(devices);
}

/// The share of a dense peak that is achieved: MFU of `flop_counts::model`, HFU of
/// `flop_counts::hardware` (Chowdhery et al. 2022, arXiv 2204.02311, appendix B).
[[nodiscard]] constexpr double utilisation(compute_rate achieved, compute_rate dense_peak) {
  return achieved.value() / dense_peak.value();
}

// ---- models of several parts

/// The tokens of one sequence of a part, where the caller's sequences have `sequence_length`.
[[nodiscard]] constexpr std::int64_t tokens_of(const component& part,
                                               std::int64_t sequence_length) {
  if (part.model.kind == model_kind::vision) return part.model.image.tokens();
  return part.sequence_length != 0 ? part.sequence_length : sequence_length;
}

/// A pass that every part of the model can run; what trains is each part's own. Errors: those of a
/// pass of one model.
[[nodiscard]] constexpr result<training_pass> validate(const training_pass& pass,
                                                       const composite_model& model) {
  for (int i = 0; i < model.size(); ++i) {
    const component& part = model.parts[i];
    training_pass own = pass;
    own.sequence_length = tokens_of(part, pass.sequence_length);
    own.trains = part.trains;
    if (const auto valid = validate(own, part.model); !valid) return valid.why();
  }
  return pass;
}

/// The matrix products of one sample through a composite model and back: each part's, as often as
/// a sample has sequences for it, and the connectors' (counted as `projection`), not those of
/// `actions`: `counts_of` has these. `pass` says what holds for all parts; what trains is each
/// part's own. Preconditions: `validate` accepts model and pass.
[[nodiscard]] constexpr flop_counts flops(const composite_model& model, training_pass pass) {
  flop_counts sum;
  bool trained_before = pass.input_requires_grad;
  const std::int64_t sequence_length = pass.sequence_length;
  for (int i = 0; i < model.size(); ++i) {
    const component& part = model.parts[i];
    pass.sequence_length = tokens_of(part, sequence_length);
    pass.trains = part.trains;
    pass.input_requires_grad = trained_before;
    sum = sum + static_cast<double>(part.sequences) * flops(part.model, pass);
    trained_before = trained_before || part.trains.what != training::frozen;
    for (int layer = 0; layer < part.next.layers(); ++layer) {
      const double forward = 2 * static_cast<double>(part.next.tokens) *
                             static_cast<double>(part.next.widths[layer]) *
                             static_cast<double>(part.next.widths[layer + 1]);
      operator_flops& projection = sum.by_operator[static_cast<int>(operator_kind::projection)];
      projection.forward += forward;
      projection.backward += forward * ((trained_before ? 1 : 0) + (part.next.trains ? 1 : 0));
      const double of_rank =
          2 * static_cast<double>(part.next.tokens) * static_cast<double>(part.next.adapters.rank);
      const double down = of_rank * static_cast<double>(part.next.widths[layer]);
      const double up = of_rank * static_cast<double>(part.next.widths[layer + 1]);
      operator_flops& adapters = sum.by_operator[static_cast<int>(operator_kind::adapters)];
      adapters.forward += down + up;
      adapters.backward += down * (trained_before ? 2 : 1) + up * 2;
      trained_before = trained_before || part.next.trains || part.next.adapters.rank != 0;
    }
  }
  return sum;
}

}  // namespace gpuplan

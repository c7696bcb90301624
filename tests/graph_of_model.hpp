#pragma once

// A second count of operations: the steps of one pass, layer by layer, as a program would record
// them, and a sweep back over them. Values know whether they need a gradient; a step is
// differentiated where its result was reached from the loss.

#include "listed_model.hpp"

#include <gpuplan/flops.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace graph {

using gpuplan::operator_kind;

class tape {
 public:
  using value = int;

  value leaf(bool needs_gradient) {
    values_.push_back({needs_gradient, false});
    return static_cast<value>(values_.size()) - 1;
  }
  bool needs(value of) const { return at(of).needs_gradient; }

  /// input x matrix.
  value product(operator_kind kind, double flops, value input, bool trains) {
    step one{.kind = kind, .flops = flops, .inputs = {input}, .trains = trains};
    one.saves_before = needs(input) || trains;
    return record(one, needs(input) || trains);
  }
  /// a x b, values both.
  value product_of(operator_kind kind, double flops, value a, value b) {
    step one{.kind = kind, .flops = flops, .inputs = {a, b}};
    one.saves_before = needs(a) || needs(b);
    return record(one, one.saves_before);
  }
  /// Scores, softmax and weighted values as one kernel.
  value fused_attention(double scores, double values, value query, value key, value v) {
    step one{.kind = operator_kind::scores, .flops = scores, .inputs = {query, key, v}};
    one.fused_values = values;
    one.saves_after = needs(query) || needs(key) || needs(v);
    return record(one, one.saves_after);
  }
  /// An element-wise function that needs its input or its result to be differentiated.
  value function(const std::vector<value>& inputs, bool trains) {
    step one{.inputs = inputs, .trains = trains};
    bool needed = trains;
    for (const value input : inputs) needed = needed || needs(input);
    one.saves_after = needed;
    return record(one, needed);
  }
  /// A sum, which does not.
  value sum(const std::vector<value>& inputs, bool trains = false) {
    const value result = function(inputs, trains);
    steps_.back().saves_after = false;
    return result;
  }

  std::size_t mark() const { return steps_.size(); }
  /// What was recorded since the mark is computed again when `result` is differentiated.
  void checkpoint(std::size_t since, value result, bool stops_early) {
    segments_.push_back({since, steps_.size(), result, stops_early});
  }

  gpuplan::flop_counts sweep(const std::vector<value>& losses) {
    gpuplan::flop_counts counts;
    const auto of = [&](operator_kind kind) -> gpuplan::operator_flops& {
      return counts.by_operator[static_cast<int>(kind)];
    };
    for (const value loss : losses) values_[index(loss)].reached = true;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      const step& one = steps_[i];
      of(one.kind).forward += one.flops;
      of(operator_kind::weighted_values).forward += one.fused_values;
      if (!at(one.output).reached || !needs(one.output)) continue;
      int operands = one.trains ? 1 : 0;
      for (const value input : one.inputs)
        if (needs(input)) {
          ++operands;
          values_[index(input)].reached = true;
        }
      if (one.fused_values != 0) {
        // The kernel makes the scores again, and all gradients.
        of(operator_kind::scores).backward += 2 * one.flops;
        of(operator_kind::scores).recomputed += one.flops;
        of(operator_kind::weighted_values).backward += 2 * one.fused_values;
      } else {
        of(one.kind).backward += operands * one.flops;
      }
    }
    for (const segment& again : segments_) {
      if (!needs(again.result)) continue;
      std::size_t end = again.last;
      bool with_last = true;
      if (again.stops_early) {
        end = again.first;
        with_last = false;
        for (std::size_t i = again.first; i < again.last; ++i) {
          if (steps_[i].saves_before) end = i, with_last = false;
          if (steps_[i].saves_after) end = i, with_last = true;
        }
        if (with_last) ++end;
      }
      for (std::size_t i = again.first; i < end; ++i) {
        of(steps_[i].kind).recomputed += steps_[i].flops;
        of(operator_kind::weighted_values).recomputed += steps_[i].fused_values;
      }
    }
    return counts;
  }

 private:
  struct node {
    bool needs_gradient;
    bool reached;
  };
  struct step {
    operator_kind kind{};
    double flops = 0;
    double fused_values = 0;
    std::vector<value> inputs{};
    value output = 0;
    bool trains = false;
    bool saves_before = false;
    bool saves_after = false;
  };
  struct segment {
    std::size_t first;
    std::size_t last;
    value result;
    bool stops_early;
  };

  static std::size_t index(value of) { return static_cast<std::size_t>(of); }
  const node& at(value of) const { return values_[index(of)]; }
  value record(step one, bool needs_gradient) {
    one.output = leaf(needs_gradient);
    steps_.push_back(one);
    return one.output;
  }

  std::vector<node> values_;
  std::vector<step> steps_;
  std::vector<segment> segments_;
};

class run {
 public:
  run(const gpuplan::transformer& the_shape, const gpuplan::training_pass& the_pass)
      : shape(the_shape), pass(the_pass), trains(the_pass.trains) {}

  gpuplan::flop_counts count() {
    using gpuplan::model_kind;
    own_ = shape.kind == model_kind::vision && pass.sequence_length == 0
               ? (shape.image.image_size / shape.image.patch_size) *
                         (shape.image.image_size / shape.image.patch_size) +
                     shape.image.class_tokens + shape.image.register_tokens
               : pass.sequence_length;
    causal_ = shape.kind == model_kind::decoder;
    value stream = embed();
    for (std::int64_t i = 0; i < shape.num_hidden_layers; ++i) stream = layer(stream, i, i);
    if (shape.kind == model_kind::encoder_decoder) {
      memory_ = shape.final_norm ? norm(stream, all()) : stream;
      memory_tokens_ = own_;
      if (pass.decoder_sequence_length != 0) own_ = pass.decoder_sequence_length;
      causal_ = true;
      stream = embed();
      for (std::int64_t i = 0; i < shape.num_decoder_layers; ++i)
        stream = layer(stream, i, shape.num_hidden_layers + i);
    }
    finish(stream);
    return tape_.sweep(losses_);
  }

 private:
  using value = tape::value;
  using training = gpuplan::training;

  const gpuplan::transformer& shape;
  const gpuplan::training_pass& pass;
  const gpuplan::trainable& trains;
  tape tape_;
  std::vector<value> losses_;
  std::int64_t own_ = 0;
  std::int64_t memory_tokens_ = 0;
  value memory_ = -1;
  bool causal_ = false;

  bool all() const { return trains.what == training::full; }
  bool has_adapters() const { return trains.what == training::adapters; }
  bool last_layers() const { return trains.what == training::last_layers; }
  bool of_words() const { return shape.head == gpuplan::head_kind::language_model; }
  bool is_tied() const { return shape.tied_embeddings && of_words(); }
  bool head_trains() const {
    if (all() || trains.what == training::head) return true;
    if (has_adapters()) return trains.adapters.copy_head;
    return last_layers() && (!is_tied() || trains.tied_head);
  }
  bool all_biases() const {
    return has_adapters() && trains.adapters.bias == gpuplan::lora_bias::all;
  }

  struct matrix {
    operator_kind kind;
    const char* role;
    std::int64_t in;
    std::int64_t out;
    bool bias = false;
    bool trains = false;
  };
  value linear(const matrix& of, value input, std::int64_t tokens) {
    const gpuplan::lora& adapters = trains.adapters;
    const bool adapted =
        has_adapters() && listed::is_target({.name = {}, .role = of.role}, adapters, shape);
    const bool bias_trains =
        of.bias && (all_biases() || (adapted && adapters.bias == gpuplan::lora_bias::adapted));
    const auto flops = [&](std::int64_t in, std::int64_t out) {
      return 2.0 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
    };
    value result = tape_.product(of.kind, flops(of.in, of.out), input, of.trains);
    if (bias_trains) result = tape_.sum({result}, true);
    if (!adapted) return result;
    const value narrow =
        tape_.product(operator_kind::adapters, flops(of.in, adapters.rank), input, true);
    const value wide =
        tape_.product(operator_kind::adapters, flops(adapters.rank, of.out), narrow, true);
    return tape_.sum({result, wide});
  }
  value norm(value input, bool weight) {
    return normalise(input, weight, shape.norm_affine, shape.norm_bias);
  }
  value normalise(value input, bool weight, bool affine, bool bias) {
    return tape_.function({input}, affine && (weight || (bias && all_biases())));
  }

  value embed() {
    const gpuplan::lora& adapters = trains.adapters;
    const std::int64_t width = shape.embedding_dim != 0 ? shape.embedding_dim : shape.hidden_size;
    value stream = 0;
    if (shape.kind == gpuplan::model_kind::vision) {
      const gpuplan::image_input& image = shape.image;
      const std::int64_t side = image.image_size / image.patch_size;
      stream = linear({operator_kind::patch_embedding,
                       "patches",
                       image.num_channels * image.patch_size * image.patch_size,
                       shape.hidden_size,
                       image.patch_bias,
                       all()},
                      tape_.leaf(false),
                      side * side);
      stream = tape_.sum({stream}, all());  // positions
    } else {
      const bool table = all() || (is_tied() && head_trains() && !has_adapters()) ||
                         (has_adapters() && adapters.copy_embedding);
      stream = tape_.leaf(table || pass.input_requires_grad);
      if (has_adapters() && adapters.targets.embedding) {
        const value low = tape_.leaf(true);  // looked up in the narrow table
        const value wide = tape_.product(operator_kind::adapters,
                                         2.0 * static_cast<double>(own_ * adapters.rank * width),
                                         low,
                                         true);
        stream = tape_.sum({stream, wide});
      }
    }
    if (shape.embedding_norm) stream = norm(stream, all());
    const bool second = memory_ >= 0;
    if (shape.embedding_dim != 0 && !second)
      stream = linear({operator_kind::project_in,
                       "other",
                       width,
                       shape.hidden_size,
                       shape.embedding_projection_bias,
                       all()},
                      stream,
                      own_);
    return stream;
  }

  double pairs(std::int64_t keys, bool cross, std::int64_t layer) const {
    const double every = static_cast<double>(own_) * static_cast<double>(keys);
    if (cross || pass.pairs == gpuplan::attention_pairs::full) return every;
    if (pass.pairs == gpuplan::attention_pairs::causal_half) return causal_ ? every / 2 : every;
    const std::int64_t window = shape.sliding_window;
    const std::int64_t step = shape.global_layer_step;
    const bool windowed = window != 0 && (step == 0 || layer % step != step - 1);
    std::int64_t seen = 0;
    for (std::int64_t query = 0; query < own_; ++query)
      for (std::int64_t key = 0; key < keys; ++key) {
        const std::int64_t behind = query - key;
        const std::int64_t most_behind = causal_ ? window - 1 : window / 2;
        const std::int64_t most_ahead = causal_ ? 0 : window - 1 - window / 2;
        if (causal_ && key > query) continue;
        if (windowed && (behind > most_behind || -behind > most_ahead)) continue;
        ++seen;
      }
    return static_cast<double>(seen);
  }

  // Scores, softmax, weighted values.
  value attend(value query,
               value key,
               value v,
               double of_pairs,
               std::int64_t query_dim,
               std::int64_t value_dim,
               bool fused) {
    const double heads = 2 * static_cast<double>(shape.num_attention_heads) * of_pairs;
    const double scores = heads * static_cast<double>(query_dim);
    const double values = heads * static_cast<double>(value_dim);
    const std::size_t start = tape_.mark();
    value result = 0;
    if (fused) {
      result = tape_.fused_attention(scores, values, query, key, v);
    } else {
      const value logits = tape_.product_of(operator_kind::scores, scores, query, key);
      const value weights = tape_.function({logits}, false);
      result = tape_.product_of(operator_kind::weighted_values, values, weights, v);
    }
    if (pass.recompute == gpuplan::recompute_mode::selective)
      tape_.checkpoint(start, result, pass.recompute_stops_early);
    return result;
  }

  value attention(value input, bool cross, bool learns, std::int64_t number) {
    const std::int64_t width = shape.hidden_size;
    const std::int64_t heads = shape.num_attention_heads;
    const bool grouped = shape.num_key_value_heads != 0 && shape.mla.kv_lora_rank == 0;
    const std::int64_t groups = grouped ? shape.num_key_value_heads : heads;
    const bool bias = shape.attention_bias;
    std::int64_t query_dim = shape.head_dim != 0 ? shape.head_dim : width / heads;
    std::int64_t value_dim = query_dim;
    const value source = cross ? memory_ : input;
    const std::int64_t keys = cross ? memory_tokens_ : own_;
    value query = 0;
    value key = 0;
    value v = 0;
    if (shape.mla.kv_lora_rank != 0) {
      const gpuplan::latent_attention& mla = shape.mla;
      query_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
      value_dim = mla.v_head_dim;
      value from = input;
      std::int64_t from_width = width;
      if (mla.q_lora_rank != 0) {
        from =
            linear({operator_kind::query_down, "query_down", width, mla.q_lora_rank, bias, learns},
                   input,
                   own_);
        from = normalise(from, learns, true, false);
        from_width = mla.q_lora_rank;
      }
      query = linear({operator_kind::query, "query", from_width, heads * query_dim, false, learns},
                     from,
                     own_);
      value latent = linear({operator_kind::key_value_down,
                             "key_value_down",
                             width,
                             mla.kv_lora_rank + mla.qk_rope_head_dim,
                             bias,
                             learns},
                            input,
                            own_);
      latent = normalise(latent, learns, true, false);
      key = v = linear({operator_kind::key_value_up,
                        "key_value_up",
                        mla.kv_lora_rank,
                        heads * (mla.qk_nope_head_dim + mla.v_head_dim),
                        false,
                        learns},
                       latent,
                       own_);
    } else if (shape.fused_qkv && !cross) {
      query = key = v = linear({operator_kind::query_key_value,
                                "query_key_value",
                                width,
                                (heads + 2 * groups) * query_dim,
                                bias,
                                learns},
                               input,
                               own_);
    } else {
      query = linear(
          {operator_kind::query, "query", width, heads * query_dim, bias, learns}, input, own_);
      key = linear(
          {operator_kind::key, "key", width, groups * query_dim, bias && shape.key_bias, learns},
          source,
          keys);
      v = linear(
          {operator_kind::value, "value", width, groups * query_dim, bias, learns}, source, keys);
    }
    if (shape.qk_norm != gpuplan::qk_norm_scope::none) {
      query = normalise(query, learns, shape.norm_affine, shape.qk_norm_bias);
      key = normalise(key, learns, shape.norm_affine, shape.qk_norm_bias);
    }
    const value mixed = attend(
        query, key, v, pairs(keys, cross, number), query_dim, value_dim, pass.fused_attention);
    return linear({operator_kind::attention_output,
                   "attention_out",
                   heads * value_dim,
                   width,
                   shape.attention_out_bias,
                   learns},
                  mixed,
                  own_);
  }

  struct mlp_kinds {
    operator_kind gate, up, gate_up, down;
    const char* gate_role;
    const char* up_role;
    const char* gate_up_role;
    const char* down_role;
  };
  value mlp(const mlp_kinds& kinds, value input, std::int64_t inner, bool learns) {
    const std::int64_t width = shape.hidden_size;
    const bool bias = shape.mlp_bias;
    value hidden = 0;
    if (shape.gated_mlp && shape.fused_gate_up) {
      hidden =
          linear({kinds.gate_up, kinds.gate_up_role, width, 2 * inner, bias, learns}, input, own_);
      hidden = tape_.function({hidden}, false);
    } else {
      std::vector<value> factors;
      if (shape.gated_mlp)
        factors.push_back(
            linear({kinds.gate, kinds.gate_role, width, inner, bias, learns}, input, own_));
      factors.push_back(linear({kinds.up, kinds.up_role, width, inner, bias, learns}, input, own_));
      hidden = tape_.function(factors, false);
    }
    return linear({kinds.down, kinds.down_role, inner, width, bias, learns}, hidden, own_);
  }

  value experts(value input, bool learns) {
    const gpuplan::expert_mixture& moe = shape.moe;
    const auto shared = [&] {
      return mlp({operator_kind::shared_gate,
                  operator_kind::shared_up,
                  operator_kind::shared_gate_up,
                  operator_kind::shared_down,
                  "gate",
                  "up",
                  "gate_up",
                  "down"},
                 input,
                 moe.shared_expert_intermediate_size,
                 learns);
    };
    std::vector<value> terms;
    value gated = -1;
    if (moe.shared_expert_gate) gated = shared();
    const value routing = linear({operator_kind::router,
                                  "router",
                                  shape.hidden_size,
                                  moe.num_experts,
                                  moe.router_bias,
                                  learns},
                                 input,
                                 own_);
    for (std::int64_t i = 0; i < moe.num_experts_per_tok; ++i) {
      const value one = mlp({operator_kind::expert_gate,
                             operator_kind::expert_up,
                             operator_kind::expert_gate_up,
                             operator_kind::expert_down,
                             "expert_gate",
                             "expert_up",
                             "expert_gate_up",
                             "expert_down"},
                            input,
                            moe.moe_intermediate_size,
                            learns);
      terms.push_back(tape_.function({one, routing}, false));
    }
    if (moe.shared_expert_gate) {
      const value weight = linear({operator_kind::shared_expert_gate,
                                   "shared_expert_gate",
                                   shape.hidden_size,
                                   1,
                                   false,
                                   learns},
                                  input,
                                  own_);
      terms.push_back(tape_.function({gated, weight}, false));
    } else if (moe.shared_expert_intermediate_size != 0) {
      terms.push_back(shared());
    }
    return tape_.sum(terms);
  }

  value mlp_or_experts(value input, std::int64_t number, bool learns) {
    const gpuplan::expert_mixture& moe = shape.moe;
    if (memory_ < 0 && moe.num_experts != 0 && number >= moe.first_k_dense_layers &&
        number % moe.moe_layer_step == moe.moe_layer_step - 1)
      return experts(input, learns);
    return mlp({operator_kind::gate,
                operator_kind::up,
                operator_kind::gate_up,
                operator_kind::down,
                "gate",
                "up",
                "gate_up",
                "down"},
               input,
               shape.intermediate_size,
               learns);
  }

  template <class Operators>
  value sublayer(value stream, bool learns, Operators operators) {
    using gpuplan::norm_position;
    const bool around = shape.norm_at == norm_position::around;
    value input = stream;
    if (around || shape.norm_at == norm_position::before) input = norm(input, learns);
    value output = operators(input);
    if (around || shape.norm_at == norm_position::after_sublayer) output = norm(output, learns);
    if (shape.layer_scale) output = tape_.function({output}, learns);
    if (pass.output_dropout) output = tape_.function({output}, false);
    stream = tape_.sum({stream, output});
    if (shape.norm_at == norm_position::after_residual) stream = norm(stream, learns);
    return stream;
  }

  // `number` in its stack, `index` among all.
  value layer(value stream, std::int64_t number, std::int64_t index) {
    const bool learns = all() || (last_layers() && index >= shape.layers() - trains.last_layers);
    const std::size_t start = tape_.mark();
    stream = operators_of_layer(stream, number, learns);
    if (pass.recompute == gpuplan::recompute_mode::full)
      tape_.checkpoint(start, stream, pass.recompute_stops_early);
    return stream;
  }
  value operators_of_layer(value stream, std::int64_t number, bool learns) {
    if (shape.parallel_attention) {
      value input = norm(stream, learns);
      value mixed = attention(input, false, learns, number);
      if (shape.layer_scale) mixed = tape_.function({mixed}, learns);
      if (shape.norms_per_layer == 2) input = norm(stream, learns);
      value output = mlp_or_experts(input, number, learns);
      if (shape.layer_scale) output = tape_.function({output}, learns);
      output = tape_.sum({mixed, output});
      if (pass.output_dropout) output = tape_.function({output}, false);
      return tape_.sum({stream, output});
    }
    stream = sublayer(
        stream, learns, [&](value input) { return attention(input, false, learns, number); });
    if (memory_ >= 0)
      stream = sublayer(
          stream, learns, [&](value input) { return attention(input, true, learns, number); });
    return sublayer(
        stream, learns, [&](value input) { return mlp_or_experts(input, number, learns); });
  }

  value attention_pooling(value stream) {
    const std::int64_t width = shape.hidden_size;
    const bool learns = all() || last_layers();
    const auto square = [&](value input, std::int64_t in, std::int64_t out, std::int64_t tokens) {
      return linear({operator_kind::pooler, "other", in, out, true, learns}, input, tokens);
    };
    value key = 0;
    value v = 0;
    if (shape.fused_qkv) {
      key = v = square(stream, width, 2 * width, own_);
    } else {
      key = square(stream, width, width, own_);
      v = square(stream, width, width, own_);
    }
    const value query = square(tape_.leaf(learns), width, width, 1);
    const std::int64_t dim =
        shape.head_dim != 0 ? shape.head_dim : width / shape.num_attention_heads;
    value pooled = attend(query, key, v, static_cast<double>(own_), dim, dim, false);
    pooled = square(pooled, width, width, 1);
    pooled = norm(pooled, learns);
    pooled = tape_.function({square(pooled, width, shape.intermediate_size, 1)}, false);
    return square(pooled, shape.intermediate_size, width, 1);
  }

  void finish(value stream) {
    const std::int64_t width = shape.hidden_size;
    const std::int64_t narrow = shape.embedding_dim != 0 ? shape.embedding_dim : width;
    const bool end_trains = all() || last_layers();
    if (shape.final_norm) stream = norm(stream, end_trains);
    value pooled = stream;
    if (shape.attention_pooling) pooled = attention_pooling(pooled);
    if (shape.pooler)
      pooled = linear({operator_kind::pooler, "other", width, width, true, end_trains}, pooled, 1);
    if (shape.projection_dim != 0)
      pooled = linear({operator_kind::projection,
                       "other",
                       width,
                       shape.projection_dim,
                       shape.projection_bias,
                       all()},
                      pooled,
                      1);
    value read = of_words() ? stream : pooled;
    const std::int64_t read_width = of_words() ? narrow : width;
    const std::int64_t tokens = of_words() ? own_ : 1;
    // Of a classifier the dense layer is part of the head.
    const bool dense_trains = of_words() ? all() : head_trains();
    if (shape.head_dense)
      read = linear({operator_kind::head_dense,
                     "head_dense",
                     width,
                     read_width,
                     shape.head_dense_bias,
                     dense_trains},
                    read,
                    tokens);
    else if (read_width != width)
      read = linear({operator_kind::project_out,
                     "other",
                     width,
                     read_width,
                     shape.embedding_projection_bias,
                     all()},
                    read,
                    tokens);
    if (shape.head_norm) read = norm(read, dense_trains);
    if (of_words()) {
      losses_.push_back(words(read));
    } else if (shape.head == gpuplan::head_kind::classifier) {
      losses_.push_back(linear({operator_kind::head,
                                "head",
                                shape.classifier_inputs * width,
                                shape.num_classes,
                                shape.classifier_bias,
                                head_trains()},
                               read,
                               1));
    }
    losses_.push_back(stream);
    losses_.push_back(pooled);
    losses_.push_back(read);
    for (std::int64_t i = 0; i < shape.mtp_layers; ++i) {
      const std::size_t start = tape_.mark();
      stream = norm(stream, all());
      stream = linear(
          {operator_kind::mtp_projection, "other", 2 * width, width, false, all()}, stream, own_);
      stream = operators_of_layer(stream, shape.num_hidden_layers - 1, all());
      if (pass.recompute == gpuplan::recompute_mode::full)
        tape_.checkpoint(start, stream, pass.recompute_stops_early);
      stream = norm(stream, all());
      losses_.push_back(words(stream));
    }
  }
  value words(value read) {
    const std::int64_t narrow = shape.embedding_dim != 0 ? shape.embedding_dim : shape.hidden_size;
    return linear(
        {operator_kind::head, "head", narrow, shape.vocab_size, shape.lm_head_bias, head_trains()},
        read,
        own_);
  }
};

inline gpuplan::flop_counts flops(const gpuplan::transformer& shape,
                                  const gpuplan::training_pass& pass) {
  return run(shape, pass).count();
}

}  // namespace graph

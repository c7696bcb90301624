#pragma once

// torchtitan's Llama. Private.

#include <gpuplan/replay/codes/torchtitan_compiled.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/tensor_parallel.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class torchtitan_llama final : public model_code {
 public:
  constexpr torchtitan_llama(tape& on, const training_setup& of, const batch_plan& with)
      : model_code(on, of, with), own_(of), parts_(on, of.parallelism.tensor_parallel, true) {
    layers = own_.layers_in_all();
  }
  constexpr ~torchtitan_llama() override { delete[] angles_; }

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t count = setup.parallelism.virtual_pipeline;
    angles_ = new value[static_cast<unsigned long>(count)];
    for (int chunk = 0; chunk < count; ++chunk) {
      held_chunks.push({modules_.size(), t.parameters.size()});
      if (own_.is_first(chunk))
        tokens_ = token_table(parts_.part_of(model.vocab_size), width, trains_all());
      for (const std::int64_t last = modules_.size() + own_.layers_of(chunk).size();
           modules_.size() < last;) {
        const std::int64_t at = modules_.size();
        const auto built = t.building_unit(at);
        build_layer(trains_layer(at));
      }
      if (own_.is_last(chunk)) {
        norm_ = norm_module(width, trains_final_norm());
        head_ = linear_module(
            operator_kind::head, parts_.part_of(model.vocab_size), width, false, trains_head());
      }
      angles_[chunk] = new_angles();
      add_numbers(angles_[chunk]);
    }
  }

  /// It was built in its parts.
  constexpr void divide_among_ranks() override {
    for (int at = 0; at < t.parameters.size(); ++at) {
      parameter_record& parameter = t.parameters[at];
      parameter.is_distributed = true;
      parameter.casts_whole_gradient = parameter.data.size.rank == 1;
      parameter.sums_whole_gradient = parameter.casts_whole_gradient || at == tokens_.weight;
    }
    if (tokens_.weight != none)
      t.parameters[tokens_.weight].gradient_size = {model.vocab_size, model.hidden_size};
  }

  /// Once the model has memory, other tables of angles come from the host.
  constexpr void cast_model() override {
    move_model();
    for (int chunk = 0; chunk < held_chunks.size(); ++chunk) {
      angles_[chunk] = new_angles();
      t.buffers[t.buffers.size() - held_chunks.size() + chunk] = *angles_[chunk];
    }
  }

  constexpr void make_batch() override {
    // Each stage has those of all micro-batches.
    const std::int64_t count = setup.parallelism.pipeline_parallel == 1 ? 1 : plan.accumulation;
    const sizes all{count * plan.micro_batch, tokens_of_rank()};
    const auto charged = t.charge(purpose::buffers);
    ids_ = t.make(all, element::int64);
    labels_ = t.make(all, element::int64);
  }

  constexpr value forward() override { return forward_stage(0, {}); }
  constexpr value forward_stage(int chunk, const tensor& received) override {
    t.begin(moment::forward);
    value x;
    if (own_.is_first(chunk))
      x = embedded();
    else
      x = t.share(received);
    beside[0] = angles_[chunk];
    const std::int64_t first = held_chunks[chunk].layer;
    for (std::int64_t at = first; at < first + own_.layers_of(chunk).size(); ++at)
      x = run_layer(at, x);
    if (!own_.is_last(chunk)) return x;
    t.begin(moment::loss);
    x = norm(x, norm_);
    if (!parts_.is_on()) return linear(x, head_);
    return parts_.by_rows(x, head_.weight, none, divides_classes() ? 0 : model.vocab_size);
  }
  constexpr value outer_loss(const tensor& logits) override {
    const value numbers = of_micro_batch(labels_);
    const value flat = view(t, logits, {numbers->count(), logits.size[2]});
    if (setup.framework.implementation.compiles_loss) return compiled_loss(flat);
    const value wide = cast(t, flat, element::fp32);
    const value labels = view(t, numbers, sizes{numbers->count()});
    if (parts_.is_on() && divides_classes()) return parts_.cross_entropy(wide, labels);
    return cross_entropy(t, wide, labels);
  }

 private:
  [[nodiscard]] constexpr bool divides_classes() const {
    const implementation& by = setup.framework.implementation;
    return by.loss_parallel && !by.compiles_loss;
  }
  /// One function, which reads the logits and keeps two numbers of each token.
  constexpr value compiled_loss(const tensor& logits) {
    const int by = t.add_node(of_loss_, {&logits});
    t.keep(by, logits);
    const value most = t.make(sizes{logits.size[0]}, element::fp32);
    const value sum = t.make(sizes{logits.size[0]}, element::fp32);
    const value count = t.make(sizes{1}, element::fp32);
    value loss = t.make(sizes{1}, element::fp32);
    loss.get().size.rank = 0;
    for (const value* kept : {&most, &sum, &count}) t.keep(by, *kept);
    t.result_of(by, loss.get());
    return loss;
  }
  struct gradient_of_loss final : own_backward {
    constexpr void run(tape& on, int by, const value*, gradients& out) const override {
      const tensor& logits = on.kept_by(by, 0);
      out.of[0] = on.make(logits.size, logits.format);
    }
  };

  struct layer_modules {
    nn_module query{}, key{}, value{}, out{}, gate{}, down{}, up{}, attention_norm{}, mlp_norm{};
  };

  constexpr value embedded() {
    const value ids = of_micro_batch(ids_);
    if (parts_.is_on()) return parts_.embed(ids, tokens_.weight, model.vocab_size);
    return rows_of(ids, tokens_);
  }
  [[nodiscard]] constexpr value of_micro_batch(const tensor& of_all) {
    tensor seen = of_all;
    seen.size[0] = plan.micro_batch;
    seen.is_view = true;
    t.hold(seen.storage);
    return {t, seen};
  }
  /// Of a sequence; what a ring of ranks passes on for attention is not in it.
  [[nodiscard]] constexpr std::int64_t tokens_of_rank() const {
    return setup.sequence_length / setup.parallelism.context_parallel;
  }
  [[nodiscard]] constexpr value new_angles() {
    value made = t.charge(purpose::buffers)
                     ->make({tokens_of_rank(), model.query_dim() / 2}, element::complex64);
    return made;
  }

  constexpr void build_layer(bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = parts_.part_of(model.num_attention_heads * model.query_dim());
    const std::int64_t groups = parts_.part_of(model.key_value_heads() * model.query_dim());
    const std::int64_t ffn = parts_.part_of(model.intermediate_size);
    layer_modules made;
    made.query = linear_module(operator_kind::query, inner, width, false, trains);
    made.key = linear_module(operator_kind::key, groups, width, false, trains);
    made.value = linear_module(operator_kind::value, groups, width, false, trains);
    made.out = linear_module(operator_kind::attention_output, width, inner, false, trains);
    made.gate = linear_module(operator_kind::gate, ffn, width, false, trains);
    made.down = linear_module(operator_kind::down, width, ffn, false, trains);
    made.up = linear_module(operator_kind::up, ffn, width, false, trains);
    made.attention_norm = norm_module(width, trains);
    made.mlp_norm = norm_module(width, trains);
    modules_.push(made);
    if (setup.framework.implementation.compiles_layers) compile(made);
  }

  constexpr void compile(const layer_modules& made) {
    const bool again = is_computed_again(modules_.size() - 1);
    compiled_.push(compiled_llama_layer({.query = made.query.weight,
                                         .key = made.key.weight,
                                         .value = made.value.weight,
                                         .out = made.out.weight,
                                         .gate = made.gate.weight,
                                         .down = made.down.weight,
                                         .up = made.up.weight,
                                         .attention_norm = made.attention_norm.weight,
                                         .mlp_norm = made.mlp_norm.weight},
                                        {.width = model.hidden_size,
                                         .heads = model.num_attention_heads,
                                         .groups = model.key_value_heads(),
                                         .head_dim = model.query_dim(),
                                         .ffn = model.intermediate_size},
                                        !again                       ? compiled_saves::all
                                        : setup.saves_costly_results ? compiled_saves::costly
                                                                     : compiled_saves::nothing));
  }

  constexpr value layer(int index, const tensor& input) override {
    if (setup.framework.implementation.compiles_layers) return compiled_[index].forward(t, input);
    const layer_modules& by = modules_[index];
    const value x = add(t, input, attention(by, norm(input, by.attention_norm)));
    return add(t, x, mlp(by, norm(x, by.mlp_norm)));
  }

  constexpr value norm(argument given, const nn_module& by) {
    const held x(given);
    if (!parts_.is_on()) return own_norm(x, by);
    const auto distributed = t.on_distributed();
    const value part = parts_.pass(x);
    return own_norm(part, by);
  }
  constexpr value own_norm(const tensor& x, const nn_module& by) {
    if (model.norm == norm_kind::layer_norm) return model_code::norm(x, by);
    value wide = cast(t, x, element::fp32);
    wide = multiply(t, wide, inverse_spread(wide));
    const value narrow = cast(t, std::move(wide), x.format);
    return multiply(t, narrow, t.parameter(by.weight));
  }

  /// All tokens, where ranks have parts of them.
  constexpr value gathered(const tensor& x) {
    if (!parts_.is_on()) return t.share(x);
    return parts_.gather_tokens(x);
  }
  /// The rank's part of the result, from all of the input,
  constexpr value divided(argument given, const nn_module& by) {
    const held x(given);
    if (!parts_.is_on()) return linear(x, by);
    return parts_.by_own(x, by.weight, none);
  }
  /// and the sum of the ranks' results, from a part of it.
  constexpr value summed(argument given, const nn_module& by) {
    const held x(given);
    if (!parts_.is_on()) return linear(x, by);
    return parts_.by_columns(x, by.weight, none);
  }

  constexpr value attention(const layer_modules& by, argument given) {
    const held normed(given);
    const std::int64_t head = model.query_dim();
    const value x = gathered(normed);
    value q = divided(x, by.query);
    value k = divided(x, by.key);
    value v = divided(x, by.value);
    q = view(t, q, {q->size[0], q->size[1], q->size[2] / head, head});
    k = view(t, k, {k->size[0], k->size[1], k->size[2] / head, head});
    v = view(t, v, {v->size[0], v->size[1], v->size[2] / head, head});
    rotate(q, k);
    const value all_k = all_heads(k, q->size[2]);
    const value all_v = all_heads(v, q->size[2]);
    q = transpose(t, q, 1, 2);
    k = transpose(t, all_k, 1, 2);
    v = transpose(t, all_v, 1, 2);
    const value y = run_core(q, k, v);
    const sizes flat{y->size[0], y->size[2], y->size[1] * y->size[3]};
    return summed(view(t, contiguous(t, transpose(t, y, 1, 2)), flat), by.out);
  }

  /// Neighbours as complex numbers, times their angles.
  constexpr void rotate(value& q, value& k) {
    const value complex_q = complex(q);
    const value complex_k = complex(k);
    const value wide_q = turn(complex_q);
    const value wide_k = turn(complex_k);
    value turned_q = cast(t, wide_q, q->format);
    k = cast(t, wide_k, k->format);
    q = std::move(turned_q);
  }
  constexpr value complex(const tensor& x) {
    sizes pairs = x.size;
    pairs[3] /= 2;
    return view_as(t, cast(t, x, element::fp32), pairs, element::complex64);
  }
  constexpr value turn(const tensor& x) {
    tensor seen = beside[0];
    set_contiguous(seen, {1, x.size[1], 1, x.size[3]});
    seen.is_view = true;
    sizes all = x.size;
    all[3] *= 2;
    return view_as(t, multiply_complex(t, x, seen), all, element::fp32);
  }
  constexpr value all_heads(const tensor& x, std::int64_t heads) {
    if (x.size[2] == heads) return t.share(x);
    return repeat_heads(t, x, heads / x.size[2], true, 2);
  }
  constexpr value core(const tensor& q, const tensor& k, const tensor& v) override {
    return flash_attention(t, q, k, v, drops);
  }

  constexpr value mlp(const layer_modules& by, argument given) {
    const held normed(given);
    const value x = gathered(normed);
    value hidden = activation(divided(x, by.gate));
    hidden = multiply(t, hidden, divided(x, by.up));
    return summed(hidden, by.down);
  }

  chunks_of_rank own_;
  tensor_parallel parts_;
  nn_module tokens_{}, norm_{}, head_{};
  growing_array<layer_modules> modules_{};
  growing_array<compiled_llama_layer> compiled_{};
  gradient_of_loss of_loss_{};
  value* angles_ = nullptr;  // by chunk
  value ids_{}, labels_{};
};

}  // namespace gpuplan::eager

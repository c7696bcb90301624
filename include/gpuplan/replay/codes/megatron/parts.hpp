#pragma once

// What the parts of Megatron-Core's models are made of: parameters on the host or the device, and
// linear layers that tensor-parallel ranks divide. Tensors are (sequence, batch, hidden). Private.

#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_parts : public model_code {
 public:
  constexpr megatron_parts(tape& on, const training_setup& of, const batch_plan& with)
      : model_code(on, of, with),
        tp_(setup.parallelism.tensor_parallel),
        splits_(setup.parallelism.sequence_parallel && tp_ > 1),
        half_(element_of(setup.precision.weights)),
        quantises_(setup.framework.implementation.transformer_engine &&
                   quantises_linears(setup.precision)),
        copies_of_cast_(copies_of_cast(setup.precision)) {
    linear_backward_.code = this;
    gather_backward_.code = this;
  }
  constexpr ~megatron_parts() override {}  // NOLINT(modernize-use-equals-default)

  /// The parameters in the order of the model's modules.
  [[nodiscard]] constexpr const growing_array<int>& order() const { return order_; }
  /// The bytes of a parameter: of a weight that is stored in fp8 or fp4, of all its copies.
  [[nodiscard]] constexpr std::int64_t bytes_of_parameter(int parameter) const {
    const std::int64_t count = t.parameters[parameter].data.count();
    if (setup.precision.quantised_weights)
      for (int at = 0; at < quantised_weights_.size(); ++at)
        if (quantised_weights_[at] == parameter) return bytes_of_cast(count, true, copies_of_cast_);
    return count * bytes_of(half_);
  }
  /// Whether each tensor-parallel rank sees the parameter's gradient of a part of the sequence.
  [[nodiscard]] constexpr bool is_of_sequence_parts(int parameter) const {
    for (int at = 0; at < of_parts_.size(); ++at)
      if (of_parts_[at] == parameter) return true;
    return false;
  }

 protected:
  // -- modules

  // On the device, in the weights' format; or on the host in fp32. Of a model with adapters nothing
  // else trains.
  constexpr int on_device(const sizes& size) {
    return t.add_parameter(size, half_, setup.trains.what != training::adapters);
  }
  constexpr int on_host(const sizes& size, element format = element::fp32) {
    parameter_record record;
    record.trains = setup.trains.what != training::adapters;
    record.data.format = format;
    set_contiguous(record.data, size);
    return t.parameters.push(record);
  }
  // A norm, which torch.nn builds on the host.
  constexpr nn_module norm_of(std::int64_t width) {
    const auto made_of = [&] {
      return setup.framework.implementation.transformer_engine ? on_device(sizes{width})
                                                               : on_host(sizes{width});
    };
    nn_module made;
    made.weight = made_of();
    if (model.norm == norm_kind::layer_norm) made.bias = made_of();
    of_parts_.push(made.weight);
    if (made.bias != none) of_parts_.push(made.bias);
    name(made, "norm");
    return made;
  }
  constexpr nn_module parallel_linear(std::int64_t out, std::int64_t in, bool bias) {
    nn_module made;
    made.weight = on_device({out, in});
    if (bias) made.bias = on_device(sizes{out});
    may_be_quantised(made.weight);
    return made;
  }
  /// LoRA beside a linear layer: two matrices of the weights' format, or none.
  struct low_rank {
    int down = none;
    int up = none;
  };
  constexpr low_rank low_rank_of(bool wanted, std::int64_t out, std::int64_t in) {
    low_rank made;
    if (setup.trains.what != training::adapters || !wanted) return made;
    const std::int64_t rank = setup.trains.adapters.rank;
    made.down = t.add_parameter({rank, in}, half_, true);
    made.up = t.add_parameter({out, rank}, half_, true);
    order_.push(made.down);
    order_.push(made.up);
    return made;
  }
  constexpr void list(const nn_module& one) {
    if (one.weight != none) order_.push(one.weight);
    if (one.bias != none) order_.push(one.bias);
  }

  // -- products in fp8 and fp4

  /// A weight that such products read.
  constexpr void may_be_quantised(int weight) {
    if (quantises_) quantised_weights_.push(weight);
  }
  [[nodiscard]] constexpr std::int64_t bytes_of_cast(std::int64_t count,
                                                     bool is_weight,
                                                     int copies) const {
    const double each = quantised_bytes(setup.precision, is_weight) * static_cast<double>(count);
    return copies * (static_cast<std::int64_t>(each) + 1);
  }
  /// What products read in place of a tensor, as flat bytes.
  constexpr value cast_of(const tensor& x, int copies) {
    return t.make(sizes{bytes_of_cast(x.count(), false, copies)}, element::boolean);
  }
  /// The casts of a weight that stay beside it, from the first product on.
  constexpr void need_cast_of_weight(int weight) {
    if (!quantises_ || setup.precision.quantised_weights) return;
    while (casts_of_weights_.size() <= weight) casts_of_weights_.push(none);
    if (casts_of_weights_[weight] != none) return;
    casts_of_weights_[weight] =
        t.charge(purpose::weights)
            ->new_storage(bytes_of_cast(t.parameters[weight].data.count(), true, copies_of_cast_));
  }

  // -- functions with a backward of their own

  // A buffer that stays: scores are computed in it, sequences gathered into it.
  constexpr value shared_buffer(const sizes& size) {
    if (buffer_.count() < size.count()) {
      const auto charged = t.charge(purpose::buffers);
      tensor larger;
      larger.format = half_;
      set_contiguous(larger, sizes{size.count()});
      larger.storage = t.new_storage(larger.bytes());
      t.release(buffer_.storage);
      buffer_ = larger;
    }
    tensor part = buffer_;
    set_contiguous(part, size);
    t.hold(part.storage);
    return {t, part};
  }

  /// Of a sequence, on this rank of context parallelism.
  [[nodiscard]] constexpr std::int64_t own_tokens() const {
    return setup.sequence_length / setup.parallelism.context_parallel;
  }
  /// Whether rotary angles are made once in each chunk, for all its layers.
  [[nodiscard]] constexpr bool shares_angles() const {
    return model.position_rows == 0 && !model.is_latent();
  }

  // -- gradients of weights

  /// Whether Transformer Engine's functions run: products add weights' gradients into the buffer.
  [[nodiscard]] constexpr bool has_engine() const {
    return setup.framework.implementation.transformer_engine;
  }
  /// Whether products add weights' gradients to those of micro-batches before.
  [[nodiscard]] constexpr bool adds_into_buffers() const {
    return has_engine() && setup.trains.what != training::adapters;
  }
  /// What is known of a tensor that nobody keeps.
  static constexpr tensor shape_of(tensor of) {
    of.storage = none;
    return of;
  }
  [[nodiscard]] constexpr bool is_compiled() const {
    return setup.framework.implementation.compiles_functions;
  }
  /// What autograd is then given as such a gradient: one tensor for all weights of these sizes.
  constexpr void need_dummy(const sizes& size) {
    for (int at = 0; at < dummies_.size(); ++at)
      if (dummies_[at] == size) return;
    static_cast<void>(t.charge(purpose::buffers)->new_storage(size.count() * bytes_of(half_)));
    dummies_.push(size);
  }

 public:
  /// What a product needs for its weight's gradient, until that is computed.
  struct waiting_product {
    int input = none;  // a storage
    int gradient = none;
    int weight = none;
    sizes gathered{};  // the whole input, where that is gathered again
  };
  using waiting_products = growing_array<waiting_product>;
  /// Whose gradients of weights wait from here on; null: nobody's.
  constexpr void defer_to(waiting_products* given) { waiting_ = given; }
  /// Computes them. What they read is held to the end (WeightGradStore.pop).
  constexpr void catch_up(waiting_products& of) {
    for (int at = 0; at < of.size(); ++at) {
      if (has_engine()) continue;  // products add into the buffer
      value whole;
      if (of[at].gathered.rank != 0) whole = shared_buffer(of[at].gathered);
      const value gradient = t.make(t.parameters[of[at].weight].data.size, half_);
      t.touch_workspace();
    }
    for (int at = 0; at < of.size(); ++at) {
      t.release(of[at].input);
      t.release(of[at].gradient);
    }
    of.resize_down(0);
  }

 protected:
  [[nodiscard]] constexpr bool defers() const { return waiting_ != nullptr; }
  constexpr void defer(int input, int gradient, int weight, const sizes& gathered = {}) {
    t.hold(input);
    t.hold(gradient);
    waiting_->push({input, gradient, weight, gathered});
  }

  // LinearWithGradAccumulationAndAsyncCommunication
  struct linear_backward final : own_backward {
    megatron_parts* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const tensor input = on.kept_by(index, 0);
      const tensor weight = on.kept_by(index, 1);
      const bool gathers = on.nodes[index].argument[0] == 1;
      value whole;
      if (gathers) {
        sizes gathered = input.size;
        gathered[0] *= code->tp_;
        whole = code->shared_buffer(gathered);
      }
      const std::int64_t in = weight.size[1];
      value of_input = on.make({g.size[0], g.size[1], in}, g.format);
      on.touch_workspace();
      value part;
      if (gathers) part = on.make(input.size, input.format);
      value of_weight;
      if (!on.parameters[on.nodes[index].parameter].trains) {
        // frozen
      } else if (code->defers()) {
        code->defer(
            input.storage, g.storage, on.nodes[index].parameter, gathers ? whole->size : sizes{});
      } else if (code->adds_into_buffers()) {
        code->need_dummy(weight.size);
      } else {
        of_weight = on.make(weight.size, g.format);
        on.touch_workspace();
      }
      value of_bias;
      if (on.nodes[index].inputs > 2 && on.nodes[index].input[2].node != none)
        of_bias = sum_to(on, flat(g), sizes{weight.size[0]});
      if (gathers)
        out.of[0] = std::move(part);
      else
        out.of[0] = std::move(of_input);
      out.of[1] = std::move(of_weight);
      out.of[2] = std::move(of_bias);
    }
  };
  static constexpr tensor flat(const tensor& of) {
    tensor seen = of;
    const std::int64_t width = of.size[of.size.rank - 1];
    set_contiguous(seen, {of.count() / width, width});
    return seen;
  }

  constexpr value parallel_matmul(const tensor& input, int weight, int bias, bool gathers) {
    const tensor w = t.parameter(weight);
    const tensor b = bias == none ? tensor{} : t.parameter(bias);
    const tensor trained = adds_into_buffers() ? tensor{} : w;
    const int by = t.add_node(linear_backward_, {&input, &trained, &b});
    if (node* made = t.at(by)) {
      made->parameter = weight;
      made->argument[0] = gathers ? 1 : 0;
    }
    t.keep(by, t.parameters[weight].trains ? input : shape_of(input));
    t.keep(by, w);
    value result;
    {
      value whole;
      sizes rows = input.size;
      if (gathers) {
        rows[0] *= tp_;
        whole = shared_buffer(rows);
      }
      sizes wanted = rows;
      wanted[2] = w.size[0];
      result = t.make(wanted, half_, {"output", weight});
      t.touch_workspace();
      if (bias != none) result = t.make(wanted, half_, {"output", weight});
    }
    t.result_of(by, result.get());
    return result;
  }
  constexpr value pass_through(const tensor& of) {
    const int by = t.add_node(node_kind::pass, {&of});
    tensor seen = of;
    t.result_of(by, seen);
    t.hold(seen.storage);
    return {t, seen};
  }

  // Gathers the gradient of a part of the sequence.
  struct gather_backward final : own_backward {
    megatron_parts* code = nullptr;
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      sizes whole = incoming[0]->size;
      whole[0] *= code->tp_;
      out.of[0] = on.make(whole, incoming[0]->format);
    }
  };
  constexpr value reduce_scatter(const tensor& of) {
    const int by = t.add_node(gather_backward_, {&of});
    sizes part = of.size;
    part[0] /= tp_;
    value result = t.make(part, of.format);
    t.result_of(by, result.get());
    return result;
  }
  constexpr value scatter(const tensor& of) {
    const int by = t.add_node(gather_backward_, {&of});
    tensor part = of;
    part.size[0] /= tp_;
    t.result_of(by, part);
    t.hold(part.storage);
    return {t, part};
  }

  /// Megatron-Core's own linear layers.
  constexpr value own_column_linear(const tensor& x, const nn_module& by, bool adds_bias) {
    value input;
    if (splits_ || tp_ > 1)
      input = t.share(x);
    else
      input = pass_through(x);
    return parallel_matmul(input, by.weight, adds_bias ? by.bias : none, splits_);
  }
  constexpr value own_row_linear(const tensor& x, const nn_module& by) {
    const value product = parallel_matmul(x, by.weight, none, false);
    if (splits_) return reduce_scatter(product);
    return pass_through(product);
  }
  /// Of tokens outside this rank's part of the vocabulary: below it or above.
  constexpr value either(const sizes& size) {
    const value below = t.make(size, element::boolean);
    const value above = t.make(size, element::boolean);
    return t.make(size, element::boolean);
  }

  std::int64_t tp_;
  bool splits_;  // along the sequence
  element half_;
  bool quantises_;
  int copies_of_cast_;
  growing_array<int> order_{};
  growing_array<int> of_parts_{};
  tensor buffer_{};

 private:
  growing_array<int> quantised_weights_{};
  growing_array<int> casts_of_weights_{};
  growing_array<sizes> dummies_{};
  waiting_products* waiting_ = nullptr;
  linear_backward linear_backward_{};
  gather_backward gather_backward_{};
};

}  // namespace gpuplan::eager

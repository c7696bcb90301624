#pragma once

// Transformer Engine's functions, as Megatron-Core calls them. Weights' gradients are added into
// the buffer by the products that make them. Private.

#include <gpuplan/replay/codes/megatron/parts.hpp>
#include <gpuplan/replay/eager/operators/pieces.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_engine : public megatron_parts {
 public:
  constexpr megatron_engine(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_parts(on, of, with) {
    matmul_backward_.code = this;
    exchanged_backward_.code = this;
    ring_backward_.ranks = of.parallelism.context_parallel;
  }
  constexpr ~megatron_engine() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  [[nodiscard]] constexpr element format_of_gradients() const {
    return setup.precision.fp32_gradients ? element::fp32 : half_;
  }

  // -- what stays

  /// The workspace of its matrix products, there from the first on.
  constexpr void need_workspace() {
    if (workspace_ != none) return;
    workspace_ = t.charge(purpose::workspace)->new_storage(t.device.matrix_workspace + 1024);
  }
  /// Where the sequences of a batch begin, likewise.
  constexpr void need_lengths(std::int64_t batch) {
    if (lengths_ != none) return;
    lengths_ = t.charge(purpose::buffers)->new_storage(4 * (batch + 1));
  }
  // -- norms

  /// What a norm keeps of each row.
  struct row_statistics {
    value means{}, spreads{};
  };
  constexpr row_statistics make_statistics(const tensor& x) {
    const sizes rows{x.count() / x.size[x.size.rank - 1]};
    row_statistics made;
    if (model.norm == norm_kind::layer_norm) made.means = t.make(rows, element::fp32);
    made.spreads = t.make(rows, element::fp32);
    return made;
  }
  constexpr void keep_statistics(int index, const row_statistics& of) {
    t.keep(index, of.spreads);
    if (of.means->defined()) t.keep(index, of.means);
  }
  constexpr value engine_norm(const tensor& x, const nn_module& by) {
    const tensor scale_of = t.parameter(by.weight);
    const tensor shift = by.bias == none ? tensor{} : t.parameter(by.bias);
    const int index = t.add_node(norm_backward_, {&x, &scale_of, &shift});
    const row_statistics statistics = make_statistics(x);
    value result = t.make(x.size, x.format);
    t.keep(index, x);
    keep_statistics(index, statistics);
    t.result_of(index, result.get());
    return result;
  }

  // -- linear layers

  /// What of the sequence this rank has before a product and behind it.
  struct sequence_parts {
    bool before = false;
    bool behind = false;
  };
  /// The product with a weight; of the input's norm, where one is given.
  constexpr value engine_matmul(const tensor& x,
                                const nn_module& norm_by,
                                const nn_module& by,
                                bool adds_bias,
                                sequence_parts parts,
                                bool keeps_input = false) {
    const bool norms = norm_by.weight != none;
    const tensor scale_of = norms ? t.parameter(norm_by.weight) : tensor{};
    const tensor shift = norm_by.bias == none ? tensor{} : t.parameter(norm_by.bias);
    const tensor bias = adds_bias && by.bias != none ? t.parameter(by.bias) : tensor{};
    const tensor& weight = t.parameters[by.weight].data;
    const int index = t.add_node(matmul_backward_, {&x, &scale_of, &shift, &bias});
    t.note(index, {norms ? 1 : 0, parts.before ? 1 : 0, parts.behind ? 1 : 0, by.weight});
    if (node* made = t.at(index)) made->size[1] = x.size;
    if (norms) t.keep(index, x);
    value input = t.share(x);
    row_statistics statistics;
    if (norms) {
      statistics = make_statistics(x);
      if (!casts_in_norm()) input = t.make(x.size, x.format);
    }
    value read;  // along its rows, by the product
    if (quantises_) {
      need_cast_of_weight(by.weight);
      value kept = cast_of(x, 1);
      if (copies_of_cast_ == 2) read = cast_of(x, 1);
      if (!keeps_input) input = std::move(kept);
    }
    t.keep(index, t.parameters[by.weight].trains ? *input : shape_of(*input));
    if (norms) keep_statistics(index, statistics);
    value result;
    {
      sizes rows = x.size;
      value whole;
      if (parts.before) {
        rows[0] *= tp_;
        whole = gathered(rows);
      }
      need_workspace();
      rows[rows.rank - 1] = weight.size[0];
      result = t.make(rows, half_);
    }
    if (parts.behind) {
      sizes rows = result->size;
      rows[0] /= tp_;
      value part = t.make(rows, half_);
      result = std::move(part);
    }
    t.result_of(index, result.get());
    return result;
  }

  /// Whether the norm writes what the product reads, and not what is cast then.
  [[nodiscard]] constexpr bool casts_in_norm() const {
    return quantises_ && setup.precision.scaling != scaling_kind::tensor &&
           setup.precision.scaling != scaling_kind::blocks;
  }
  /// The whole sequence, as a product reads it.
  constexpr value gathered(const sizes& rows) {
    if (!quantises_) return t.make(rows, half_);
    tensor whole;
    set_contiguous(whole, rows);
    return cast_of(whole, 1);
  }

  // -- linear layers of either

  /// The norm before a linear layer, which Transformer Engine has inside.
  constexpr value input_norm(const tensor& x, const nn_module& by) {
    if (has_engine()) return t.share(x);
    return norm(x, by);
  }
  constexpr value column_linear(const tensor& x,
                                const nn_module& norm_inside,
                                const nn_module& by,
                                bool adds_bias) {
    if (has_engine()) return engine_matmul(x, norm_inside, by, adds_bias, {splits_, false});
    return own_column_linear(x, by, adds_bias);
  }
  constexpr value row_linear(const tensor& x, const nn_module& by, bool keeps_input = false) {
    if (has_engine()) return engine_matmul(x, {}, by, false, {false, splits_}, keeps_input);
    return own_row_linear(x, by);
  }

  /// A linear layer with LoRA beside it: the norm's result is read twice.
  constexpr value adapted_linear(const tensor& x,
                                 const nn_module& norm_inside,
                                 const nn_module& by,
                                 bool adds_bias,
                                 const low_rank& adapter) {
    if (adapter.down == none) return column_linear(x, norm_inside, by, adds_bias);
    value normed = t.share(x);
    if (norm_inside.weight != none) normed = engine_norm(x, norm_inside);
    const value made = column_linear(normed, {}, by, adds_bias);
    return add(t, made, beside_of(normed, adapter));
  }
  constexpr value adapted_row_linear(const tensor& x,
                                     const nn_module& by,
                                     const low_rank& adapter) {
    const value made = row_linear(x, by);
    if (adapter.down == none) return t.share(made);
    return add(t, made, beside_of(x, adapter));
  }
  constexpr value beside_of(const tensor& x, const low_rank& by) {
    const value narrow = parallel_matmul(x, by.down, none, false);
    return scale(t, parallel_matmul(narrow, by.up, none, false));
  }

  // -- rotary positions

  /// In one kernel.
  constexpr value engine_rotation(const tensor& x) {
    const int index = t.add_node(rotation_backward_, {&x});
    value result = t.make(x.size, x.format);
    t.result_of(index, result.get());
    return result;
  }

  // -- attention by cuDNN

  /// (sequence, batch, heads, width) each; the result likewise.
  constexpr value engine_attention(const tensor& q, const tensor& k, const tensor& v) {
    if (setup.parallelism.context_parallel > 1)
      return exchanges_heads(setup) ? exchanged_attention(q, k, v) : ring_attention(q, k, v);
    const int index = t.add_node(attention_backward_, {&q, &k, &v});
    sizes wanted = q.size;
    wanted[3] = v.size[3];
    need_lengths(q.size[1]);
    value result = t.make(wanted, q.format);
    const value seeds = t.make(sizes{2}, element::int64);
    const value sums = t.make({q.size[1], q.size[2], q.size[0]}, element::fp32);
    for (const tensor* one : {&q, &k, &v}) t.keep(index, *one);
    t.keep(index, result);
    t.keep(index, sums);
    t.keep(index, seeds);
    t.result_of(index, result.get());
    return result;
  }

  // -- between parts of the sequence and parts of the heads (cp_comm_type=a2a)

  constexpr void need_chunks(int& made) {
    if (made != none) return;
    made = t.charge(purpose::buffers)->new_storage(4 * 2 * setup.parallelism.context_parallel);
  }
  constexpr value on_side_stream(const sizes& size) { return t.on_stream(1)->make(size, half_); }
  /// All tokens, of a part of the heads.
  constexpr void exchange_in(const tensor* given_parts, int count, value* exchanged) {
    const std::int64_t ranks = setup.parallelism.context_parallel;
    value copies[3];
    value arrived[3];
    for (int at = 0; at < count + 2; ++at) {
      if (at > 0 && at < count + 1) arrived[at - 1] = t.make(copies[at - 1]->size, half_);
      if (at > 1) {
        sizes wanted = copies[at - 2]->size;
        wanted[0] *= ranks;
        wanted[2] /= ranks;
        exchanged[at - 2] = on_side_stream(wanted);
        arrived[at - 2].drop();
      }
      if (at < count) copies[at] = t.make(given_parts[at].size, half_);
    }
    for (int at = count - 1; at >= 0; --at) copies[at].drop();
  }
  /// And back: all heads, of a part of the tokens.
  constexpr void exchange_out(const tensor* given_parts, int count, value* exchanged) {
    const std::int64_t ranks = setup.parallelism.context_parallel;
    value copies[3];
    value arrived[3];
    for (int at = 0; at < count + 2; ++at) {
      if (at > 0 && at < count + 1) arrived[at - 1] = t.make(copies[at - 1]->size, half_);
      if (at < count) copies[at] = t.make(given_parts[at].size, half_);
      if (at > 1) {
        sizes wanted = copies[at - 2]->size;
        wanted[0] /= ranks;
        wanted[2] *= ranks;
        exchanged[at - 2] = on_side_stream(wanted);
        arrived[at - 2].drop();
      }
    }
    for (int at = count - 1; at >= 0; --at) copies[at].drop();
  }
  constexpr value exchanged_attention(const tensor& q, const tensor& k, const tensor& v) {
    const int index = t.add_node(exchanged_backward_, {&q, &k, &v});
    need_lengths(q.size[1]);
    need_chunks(chunks_in_);
    const tensor own[] = {q, k, v};
    value whole[3];
    exchange_in(own, 3, whole);
    value result;
    {
      sizes wanted = whole[0]->size;
      wanted[3] = v.size[3];
      const value out = t.make(wanted, half_);
      const value seeds = t.make(sizes{2}, element::int64);
      const value sums = t.make({wanted[1], wanted[2], wanted[0]}, element::fp32);
      need_chunks(chunks_out_);
      exchange_out(&*out, 1, &result);
      for (const value& one : whole) t.keep(index, one);
      t.keep(index, out);
      t.keep(index, sums);
      t.keep(index, seeds);
    }
    t.result_of(index, result.get());
    return result;
  }

  // -- around a ring of ranks (cp_comm_type=p2p)

  /// Of the ring's last rank, whose queries see all tokens of the first half of every part: its
  /// results of all parts are as long as its own, and stay until they are added up.
  constexpr value ring_attention(const tensor& q, const tensor& k, const tensor& v) {
    const int index = t.add_node(ring_backward_, {&q, &k, &v});
    if (node* const by = t.at(index)) {
      by->size[1] = k.size;
      by->size[2] = v.size;
    }
    need_lengths(q.size[1]);
    need_lengths_of_parts(q.size[1]);
    const std::int64_t ranks = setup.parallelism.context_parallel;
    const sizes passed_on{k.count() + v.count()};
    sizes wanted = q.size;
    wanted[3] = v.size[3];
    const sizes rows{q.size[1], q.size[2], q.size[0]};
    value result;
    {
      held_tensors keys_and_values(t), results(t), seeds(t), sums(t);
      keys_and_values.push(t.make(passed_on, half_));
      value all_sums;
      const int own = t.stream();
      for (int at = 0; at < ranks; ++at) {
        const auto aside = t.on_stream(at % 2 == 0 ? own : 1);
        if (at + 1 < ranks) keys_and_values.push(t.make(passed_on, half_));
        results.push(t.make(wanted, half_));
        seeds.push(t.make(sizes{2}, element::int64));
        sums.push(t.make(rows, element::fp32));
        if (at == 1) all_sums = t.on_stream(own)->make(rows, element::fp32);
      }
      result = t.make(wanted, half_);
      t.keep(index, q);
      t.keep(index, keys_and_values[static_cast<int>(ranks) - 1]);
      t.keep(index, result);
      t.keep(index, all_sums);
      for (int at = 0; at < ranks; ++at) t.keep(index, seeds[at]);
    }
    t.result_of(index, result.get());
    return result;
  }
  /// Of a part of a sequence and of half of one.
  constexpr void need_lengths_of_parts(std::int64_t batch) {
    for (int* const made : {&lengths_of_part_, &lengths_of_half_})
      if (*made == none) *made = t.charge(purpose::buffers)->new_storage(4 * (batch + 1));
  }

  // -- the loss, whose gradient takes the place of the logits in the forward

  constexpr value engine_loss(const tensor& logits) {
    const int index = t.add_node(loss_backward_, {&logits});
    const sizes tokens{logits.size[0], logits.size[1]};
    value loss = t.make(tokens, element::fp32);
    {
      const value sums = t.make(sizes{3 * tokens.count()}, element::fp32);
      if (tp_ > 1) t.touch(4 * 3 * tp_ * tokens.count());
    }
    t.keep(index, logits);
    t.result_of(index, loss.get());
    return loss;
  }

 private:
  struct norm_backward final : own_backward {
    constexpr void run(tape& on,
                       int index,
                       const value* /*incoming*/,
                       gradients& out) const override {
      const tensor x = on.kept_by(index, 0);
      const std::int64_t width = x.size[x.size.rank - 1];
      out.of[0] = on.make(x.size, x.format);
      out.of[0].get().is_view = true;
      out.of[1] = on.make(sizes{width}, x.format);
      const bool shifts = on.nodes[index].input[2].node != none;
      if (shifts) out.of[2] = on.make(sizes{width}, x.format);
      on.touch(4 * (shifts ? 2 : 1) * on.device.multiprocessors * width);
    }
  };
  struct rotation_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      out.of[0] = on.make(incoming[0]->size, incoming[0]->format);
    }
  };
  struct attention_backward final : own_backward {
    constexpr void run(tape& on,
                       int index,
                       const value* /*incoming*/,
                       gradients& out) const override {
      const tensor query = on.kept_by(index, 0);
      const bool is_packed = query.storage == on.kept_by(index, 1).storage;
      value packed;
      if (is_packed) packed = on.make(sizes{3 * query.count()}, query.format);
      for (int which = 0; which < 3; ++which) {
        const tensor of = on.kept_by(index, which);
        if (!is_packed) {
          out.of[which] = on.make(of.size, of.format);
          continue;
        }
        tensor seen = of;
        seen.storage = packed->storage;
        out.of[which] = on.share(seen);
      }
    }
  };
  struct exchanged_backward final : own_backward {
    megatron_engine* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      value whole;
      const tensor& gradient = *incoming[0];
      code->exchange_in(&gradient, 1, &whole);
      value parts[3];
      for (int which = 0; which < 3; ++which) {
        const tensor of = on.kept_by(index, which);
        parts[which] = on.make(of.size, of.format);
      }
      const tensor given_parts[] = {*parts[0], *parts[1], *parts[2]};
      code->exchange_out(given_parts, 3, out.of);
    }
  };
  /// From the last part to its own; the first half of keys and values but for those of its own.
  struct ring_backward final : own_backward {
    std::int64_t ranks = 1;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const element format = incoming[0]->format;
      const node& by = on.nodes[index];
      const sizes of_keys = by.size[1];
      const sizes of_values = by.size[2];
      const sizes queries = on.kept_by(index, 0).size;
      out.of[0] = on.make(queries, format);
      // keys and values, and their gradients, as they are sent and as they arrive
      const sizes passed_on{2 * (of_keys.count() + of_values.count())};
      const value buffers[] = {on.make(passed_on, format), on.make(passed_on, format)};
      for (std::int64_t at = 0; at < ranks; ++at) {
        const std::int64_t parts = at + 1 == ranks ? 1 : 2;
        const value of_query = on.make(queries, format);
        const value of_key = on.make(sizes{of_keys.count() / parts}, format);
        const value of_value = on.make(sizes{of_values.count() / parts}, format);
      }
      const auto part = [&](const sizes& size) {
        tensor seen = *buffers[ranks % 2];
        set_contiguous(seen, size);
        seen.is_view = true;
        return on.share(seen);
      };
      out.of[1] = part(of_keys);
      out.of[2] = part(of_values);
    }
  };
  struct loss_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      on.touch(4);
      if (!incoming[0]->is_contiguous()) on.touch(incoming[0]->bytes());
      out.of[0] = on.share(on.kept_by(index, 0));
    }
  };
  struct matmul_backward final : own_backward {
    megatron_engine* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const node& by = on.nodes[index];
      const bool norms = by.argument[0] == 1;
      const bool gathers = by.argument[1] == 1;
      const tensor& weight = on.parameters[static_cast<int>(by.argument[3])].data;
      const sizes input = on.nodes[index].size[1];
      const element format = incoming[0]->format;
      sizes rows = incoming[0]->size;
      value of_input, part;
      {
        value whole, cast;
        value of_kept;  // where the input itself was kept
        if (code->quantises_) {
          cast = code->cast_of(*incoming[0], code->copies_of_cast_);
          const tensor kept = on.kept_by(index, norms ? 1 : 0);
          if (kept.format != element::boolean && kept.storage != none)
            of_kept = code->cast_of(kept, 1);
        }
        if (by.argument[2] == 1) {
          rows[0] *= code->tp_;
          whole = code->gathered(rows);
        }
        rows[rows.rank - 1] = weight.size[1];
        if (gathers) whole = code->gathered(rows);
        of_input = on.make(rows, format);
        if (gathers) part = on.make(input, format);
        if (by.input[3].node != none)
          out.of[3] = on.make(sizes{weight.size[0]}, code->format_of_gradients());
        if (code->defers()) {
          // what the product with the gradient reads: gathered, and as it was cast
          const int gradient = by.argument[2] == 1 ? whole->storage
                               : code->quantises_  ? cast->storage
                                                   : incoming[0]->storage;
          const int read = gathers ? whole->storage
                           : of_kept->storage != eager::none
                               ? of_kept->storage
                               : on.kept_by(index, norms ? 1 : 0).storage;
          code->defer(read, gradient, static_cast<int>(by.argument[3]));
        }
        if (norms) on.release_kept(index, 1);
      }
      if (norms) {
        norm_backward{}.run(on, index, incoming, out);
        part.drop();
        on.release_kept(index, 2);
      } else if (gathers) {
        out.of[0] = std::move(part);
      } else {
        out.of[0] = std::move(of_input);
      }
      if (on.parameters[static_cast<int>(by.argument[3])].trains && !code->defers())
        code->need_dummy(weight.size);
    }
  };

  int workspace_ = none;
  int lengths_ = none;
  int lengths_of_part_ = none;
  int lengths_of_half_ = none;
  int chunks_in_ = none;
  int chunks_out_ = none;

  norm_backward norm_backward_{};
  rotation_backward rotation_backward_{};
  attention_backward attention_backward_{};
  exchanged_backward exchanged_backward_{};
  ring_backward ring_backward_{};
  loss_backward loss_backward_{};
  matmul_backward matmul_backward_{};
};

}  // namespace gpuplan::eager

#pragma once

// A layer of torchtitan's Llama as torch.compile makes one function of it: which of its tensors
// its backward is given, and what its kernels write to, in their order. Private.
//
// Read from the code that Inductor of PyTorch 2.15 generates: elementwise operators, norms and
// copies to all heads are one kernel each with what they read, complex numbers are left to eager
// mode, and a buffer that nobody reads any more is written to again where the sizes agree.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// What of a compiled layer's forward its backward is given, beside the layer's input.
enum class compiled_saves : unsigned char {
  all,     // that it reads
  costly,  // results of attention and of every other matrix product
  nothing,
};

class compiled_llama_layer final : public own_backward {
 public:
  struct sizes_of_layer {
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t groups = 0;  // of key-value heads
    std::int64_t head_dim = 0;
    std::int64_t ffn = 0;
  };
  struct parameters {
    int query = none, key = none, value = none, out = none;
    int gate = none, down = none, up = none;
    int attention_norm = none, mlp_norm = none;
  };

  constexpr compiled_llama_layer() = default;
  constexpr compiled_llama_layer(const parameters& of,
                                 const sizes_of_layer& size,
                                 compiled_saves saves)
      : own_(of), size_(size), saves_(saves) {}

  constexpr value forward(tape& t, const tensor& x) const {
    const int by = t.add_node(*this, {&x});
    t.keep(by, x);
    const shape of = shape_of(x);
    value result;
    if (saves_ == compiled_saves::all)
      result = forward_keeping_all(t, of, by);
    else
      result = forward_keeping_some(t, of, by);
    result.get().size = x.size;
    set_contiguous(result.get(), x.size);
    t.result_of(by, result.get());
    return result;
  }

  constexpr void run(tape&, int, const value*, gradients&) const override {}
  constexpr void consume(tape& t, int by, value* incoming, gradients& out) const override {
    const value x = t.take_kept(by, 0);
    const shape of = shape_of(x);
    switch (saves_) {
      case compiled_saves::all:
        backward_of_all(t, of, by, incoming[0], out);
        break;
      case compiled_saves::costly:
        backward_of_some(t, of, by, incoming[0], out);
        break;
      case compiled_saves::nothing:
        backward_of_none(t, of, incoming[0], out);
        break;
    }
    set_contiguous(out.of[0].get(), x->size);
  }

 private:
  struct shape {
    std::int64_t batch = 0;
    std::int64_t tokens = 0;
    std::int64_t rows = 0;  // of both
    std::int64_t width = 0;
    std::int64_t inner = 0;  // of all heads,
    std::int64_t outer = 0;  // and of those of keys
    std::int64_t ffn = 0;
  };
  [[nodiscard]] constexpr shape shape_of(const tensor& x) const {
    return {x.size[0],
            x.size[1],
            x.size[0] * x.size[1],
            size_.width,
            size_.heads * size_.head_dim,
            size_.groups * size_.head_dim,
            size_.ffn};
  }

  // -- kernels

  static constexpr value half(tape& t, std::int64_t rows, std::int64_t columns) {
    return t.make({rows, columns}, element::bf16);
  }
  static constexpr value wide(tape& t, std::int64_t rows, std::int64_t columns) {
    return t.make({rows, columns}, element::fp32);
  }
  // A matrix product, which writes to a new tensor, or to one that is not read any more.
  static constexpr value multiplied(tape& t, std::int64_t rows, std::int64_t columns) {
    value made = half(t, rows, columns);
    t.touch_workspace();
    return made;
  }
  static constexpr value reused(tape& t, value old, std::int64_t rows, std::int64_t columns) {
    if (old->count() != rows * columns || old->format != element::bf16)
      return half(t, rows, columns);
    set_contiguous(old.get(), {rows, columns});
    return old;
  }
  static constexpr value multiplied_into(tape& t,
                                         value old,
                                         std::int64_t rows,
                                         std::int64_t columns) {
    value made = reused(t, std::move(old), rows, columns);
    t.touch_workspace();
    return made;
  }
  // The tensor of all heads that a kernel of attention reads.
  [[nodiscard]] constexpr tensor heads_of(const tensor& rows, const shape& of) const {
    tensor seen = rows;
    set_contiguous(seen, {of.batch, of.tokens, size_.heads, size_.head_dim});
    swap_dimensions(seen, 1, 2);
    return seen;
  }
  [[nodiscard]] constexpr std::int64_t table_bytes(const shape& of) const {
    return of.tokens * size_.head_dim / 2 * bytes_of(element::complex64);
  }
  // Sums of a norm's weight gradients by parts of the rows.
  static constexpr value partial_sums(tape& t, const shape& of) {
    constexpr std::int64_t rows_of_part = 32;
    return wide(t, of.width, gpuplan::detail::ceil_div(of.rows, rows_of_part));
  }
  constexpr void hand_over(tape& t, int parameter, value gradient, bool is_vector = false) const {
    if (is_vector) set_contiguous(gradient.get(), sizes{gradient->count()});
    t.arrive(parameter, gradient.take());
  }

  // -- forwards (a `drop` of what has been given away does nothing)

  constexpr value forward_keeping_some(tape& t, const shape& of, int by) const {
    const bool keeps = saves_ == compiled_saves::costly;
    value normed = half(t, of.rows, of.width);
    value q = multiplied(t, of.rows, of.inner);
    value k = multiplied(t, of.rows, of.outer);
    value v = multiplied(t, of.rows, of.outer);
    value wide_q = wide(t, of.rows, of.inner);
    value wide_k = wide(t, of.rows, of.outer);
    k.drop();
    value turned_q = wide(t, of.rows, of.inner);
    wide_q.drop();
    value turned_k = wide(t, of.rows, of.outer);
    wide_k.drop();
    if (keeps) t.keep(by, q);
    if (keeps) t.keep(by, v);
    value query;
    if (keeps)
      query = reused(t, static_cast<value&&>(normed), of.rows, of.inner);
    else
      query = reused(t, static_cast<value&&>(q), of.rows, of.inner);
    q.drop();
    turned_q.drop();
    value key;
    if (keeps)
      key = half(t, of.rows, of.inner);
    else
      key = reused(t, static_cast<value&&>(normed), of.rows, of.inner);
    normed.drop();
    turned_k.drop();
    value val = half(t, of.rows, of.inner);
    v.drop();
    flash_results attended =
        flash_kernel(t, heads_of(query, of), heads_of(key, of), heads_of(val, of), false);
    query.drop();
    if (keeps)
      for (const value* result : {&attended.out, &attended.sums, &attended.seed, &attended.unused})
        t.keep(by, *result);
    if (!keeps) key.drop();
    attended.sums.drop();
    attended.seed.drop();
    attended.unused.drop();
    value out = multiplied_into(t, static_cast<value&&>(val), of.rows, of.width);
    value normed_2;
    if (keeps)
      normed_2 = reused(t, static_cast<value&&>(key), of.rows, of.width);
    else
      normed_2 = reused(t, static_cast<value&&>(attended.out), of.rows, of.width);
    attended.out.drop();
    value gate = multiplied(t, of.rows, of.ffn);
    value up = multiplied(t, of.rows, of.ffn);
    normed_2.drop();
    if (keeps) t.keep(by, gate);
    value gated;
    if (keeps)
      gated = static_cast<value&&>(up);
    else
      gated = static_cast<value&&>(gate);
    gate.drop();
    up.drop();
    {
      const value down = multiplied(t, of.rows, of.width);
      gated.drop();
    }
    return out;
  }

  constexpr value forward_keeping_all(tape& t, const shape& of, int by) const {
    const value spread = wide(t, of.rows, 1);
    const value normed = half(t, of.rows, of.width);
    value q = multiplied(t, of.rows, of.inner);
    value k = multiplied(t, of.rows, of.outer);
    value v = multiplied(t, of.rows, of.outer);
    value wide_q = wide(t, of.rows, of.inner);
    value wide_k = wide(t, of.rows, of.outer);
    k.drop();
    value turned_q = wide(t, of.rows, of.inner);
    wide_q.drop();
    value turned_k = wide(t, of.rows, of.outer);
    wide_k.drop();
    turned_q.drop();
    const value key = half(t, of.rows, of.inner);
    turned_k.drop();
    const value val = half(t, of.rows, of.inner);
    v.drop();
    const flash_results attended =
        flash_kernel(t, heads_of(q, of), heads_of(key, of), heads_of(val, of), false);
    const value out = multiplied(t, of.rows, of.width);
    const value spread_2 = wide(t, of.rows, 1);
    const value normed_2 = half(t, of.rows, of.width);
    const value gate = multiplied(t, of.rows, of.ffn);
    const value up = multiplied(t, of.rows, of.ffn);
    const value gated = half(t, of.rows, of.ffn);
    for (const value* saved : {&spread,
                               &normed,
                               static_cast<const value*>(&q),
                               &key,
                               &val,
                               &attended.out,
                               &attended.sums,
                               &attended.seed,
                               &attended.unused,
                               &out,
                               &spread_2,
                               &normed_2,
                               &gate,
                               &up,
                               &gated})
      t.keep(by, *saved);
    return multiplied(t, of.rows, of.width);
  }

  // -- backwards

  constexpr void backward_of_all(
      tape& t, const shape& of, int by, value& incoming, gradients& out) const {
    value spread = t.take_kept(by, 1);
    value normed = t.take_kept(by, 2);
    attention_inputs read;
    read.q = t.take_kept(by, 3);
    read.k = t.take_kept(by, 4);
    read.v = t.take_kept(by, 5);
    flash_results attended = results_kept(t, by, 6);
    value residual = t.take_kept(by, 10);
    value spread_2 = t.take_kept(by, 11);
    value normed_2 = t.take_kept(by, 12);
    value gate = t.take_kept(by, 13);
    value up = t.take_kept(by, 14);
    value gated = t.take_kept(by, 15);

    value of_down = multiplied(t, of.width, of.ffn);
    gated.drop();
    value to_gated = multiplied(t, of.rows, of.ffn);
    value to_up = half(t, of.rows, of.ffn);
    value to_gate = std::move(up);
    to_gated.drop();
    gate.drop();
    hand_over(t, own_.down, std::move(of_down));
    value from_up, from_gate;
    mlp_gradients(t, of, to_up, to_gate, normed_2, false, from_up, from_gate);
    value to_attention = half(t, of.rows, of.width);
    incoming.drop();
    value to_heads = multiplied(t, of.rows, of.inner);
    attention_gradients made = attended_gradients(t, of, to_heads, read, attended, true);
    finish_attention(t, of, made, std::move(to_heads), {}, {}, {});
    finish(t, of, made, from_up, from_gate, residual, spread_2, spread, normed, attended.out);
    out.of[0] = std::move(to_attention);
  }

  constexpr void backward_of_some(
      tape& t, const shape& of, int by, value& incoming, gradients& out) const {
    value q = t.take_kept(by, 1);
    value v = t.take_kept(by, 2);
    flash_results attended = results_kept(t, by, 3);
    value gate = t.take_kept(by, 7);

    value residual = multiplied(t, of.rows, of.width);
    value spread_2 = wide(t, of.rows, 1);
    value normed_2 = half(t, of.rows, of.width);
    value up = multiplied(t, of.rows, of.ffn);
    value from_up, from_gate;
    through_mlp(t, of, gate, up, normed_2, from_up, from_gate);
    value spread = wide(t, of.rows, 1);
    value to_attention = half(t, of.rows, of.width);
    value normed = half(t, of.rows, of.width);
    incoming.drop();
    value to_heads = multiplied(t, of.rows, of.inner);
    attention_inputs read;
    value wide_q = wide(t, of.rows, of.inner);
    q.drop();
    {
      const value turned = wide(t, of.rows, of.inner);
      read.q = half(t, of.rows, of.inner);
    }
    value k = multiplied(t, of.rows, of.outer);
    value wide_k = wide(t, of.rows, of.outer);
    {
      const value turned = wide(t, of.rows, of.outer);
      read.k = half(t, of.rows, of.inner);
    }
    read.v = half(t, of.rows, of.inner);
    v.drop();
    value spare_v;
    spare_v = t.share(read.v);
    attention_gradients made = attended_gradients(t, of, to_heads, read, attended, false);
    finish_attention(
        t, of, made, std::move(spare_v), std::move(k), std::move(wide_k), std::move(wide_q));
    finish(t, of, made, from_up, from_gate, residual, spread_2, spread, normed, attended.out);
    out.of[0] = std::move(to_attention);
  }

  constexpr void backward_of_none(tape& t, const shape& of, value& incoming, gradients& out) const {
    value spread = wide(t, of.rows, 1);
    value normed = half(t, of.rows, of.width);
    value q = multiplied(t, of.rows, of.inner);
    value k = multiplied(t, of.rows, of.outer);
    value v = multiplied(t, of.rows, of.outer);
    value wide_q = wide(t, of.rows, of.inner);
    value wide_k = wide(t, of.rows, of.outer);
    k.drop();
    value turned_q = wide(t, of.rows, of.inner);
    wide_q.drop();
    value turned_k = wide(t, of.rows, of.outer);
    wide_k.drop();
    // read by the kernels of the forward and of the backward, a copy each
    attention_inputs read;
    value query = std::move(q);
    read.q = half(t, of.rows, of.inner);
    turned_q.drop();
    value key = half(t, of.rows, of.inner);
    read.k = half(t, of.rows, of.inner);
    turned_k.drop();
    value val = half(t, of.rows, of.inner);
    read.v = half(t, of.rows, of.inner);
    v.drop();
    flash_results attended =
        flash_kernel(t, heads_of(query, of), heads_of(key, of), heads_of(val, of), false);
    query.drop();
    value residual = multiplied_into(t, std::move(val), of.rows, of.width);
    value spread_2 = wide(t, of.rows, 1);
    value normed_2 = reused(t, std::move(key), of.rows, of.width);
    value gate = multiplied(t, of.rows, of.ffn);
    value up = multiplied(t, of.rows, of.ffn);
    value from_up, from_gate;
    through_mlp(t, of, gate, up, normed_2, from_up, from_gate);
    value to_attention = half(t, of.rows, of.width);
    incoming.drop();
    value to_heads = multiplied(t, of.rows, of.inner);
    value spare_v = t.share(read.v);
    attention_gradients made = attended_gradients(t, of, to_heads, read, attended, false);
    finish_attention(t, of, made, std::move(spare_v), {}, {}, {});
    finish(t, of, made, from_up, from_gate, residual, spread_2, spread, normed, attended.out);
    out.of[0] = std::move(to_attention);
  }

  static constexpr flash_results results_kept(tape& t, int by, int first) {
    flash_results kept;
    kept.out = t.take_kept(by, first);
    kept.sums = t.take_kept(by, first + 1);
    kept.seed = t.take_kept(by, first + 2);
    kept.unused = t.take_kept(by, first + 3);
    return kept;
  }

  // The MLP's gradients, from the two products of its forward.
  constexpr void through_mlp(tape& t,
                             const shape& of,
                             value& gate,
                             value& up,
                             value& normed,
                             value& from_up,
                             value& from_gate) const {
    value to_gated = multiplied(t, of.rows, of.ffn);
    value gated = half(t, of.rows, of.ffn);
    value to_up = half(t, of.rows, of.ffn);
    value to_gate = half(t, of.rows, of.ffn);
    up.drop();
    to_gated.drop();
    gate.drop();
    hand_over(t, own_.down, multiplied(t, of.width, of.ffn));
    gated.drop();
    mlp_gradients(t, of, to_up, to_gate, normed, true, from_up, from_gate);
  }
  constexpr void mlp_gradients(tape& t,
                               const shape& of,
                               value& to_up,
                               value& to_gate,
                               value& normed,
                               bool reuses,
                               value& from_up,
                               value& from_gate) const {
    hand_over(t, own_.up, multiplied(t, of.ffn, of.width));
    from_up = multiplied(t, of.rows, of.width);
    to_up.drop();
    hand_over(t, own_.gate, multiplied(t, of.ffn, of.width));
    if (reuses) {
      from_gate = multiplied_into(t, std::move(normed), of.rows, of.width);
    } else {
      normed.drop();
      from_gate = multiplied(t, of.rows, of.width);
    }
    to_gate.drop();
  }

  struct attention_inputs {
    value q{}, k{}, v{};
  };
  struct attention_gradients {
    value q{}, k{}, v{};
    value to_q{}, to_k{}, to_v{};        // in the rows of the products,
    value from_q{}, from_k{}, from_v{};  // and what comes of them
  };

  constexpr attention_gradients attended_gradients(tape& t,
                                                   const shape& of,
                                                   value& incoming,
                                                   attention_inputs& read,
                                                   flash_results& attended,
                                                   bool keeps_incoming) const {
    gradients made;
    std::int64_t bytes_read = 0;
    for (const value* one : {&read.q, &read.k, &read.v, &attended.out, &attended.sums})
      bytes_read += (*one)->bytes();
    flash_gradients(t,
                    heads_of(incoming, of),
                    heads_of(read.q, of),
                    heads_of(read.k, of),
                    heads_of(read.v, of),
                    heads_of(attended.out, of),
                    bytes_read,
                    made.of);
    if (!keeps_incoming) incoming.drop();
    for (value* done :
         {&read.q, &read.k, &read.v, &attended.sums, &attended.seed, &attended.unused})
      done->drop();
    attention_gradients all;
    all.q = std::move(made.of[0]);
    all.k = std::move(made.of[1]);
    all.v = std::move(made.of[2]);
    return all;
  }

  // Back through the rotation and the three products; what is given is written to again.
  constexpr void finish_attention(tape& t,
                                  const shape& of,
                                  attention_gradients& made,
                                  value spare,
                                  value k,
                                  value wide_k,
                                  value wide_q) const {
    if (k->defined())
      made.to_v = std::move(k);
    else
      made.to_v = half(t, of.rows, of.outer);
    made.from_v = multiplied_into(t, std::move(made.v), of.rows, of.width);
    if (!wide_k->defined()) wide_k = wide(t, of.rows, of.outer);
    const int conjugate = t.new_storage(table_bytes(of));
    {
      const value turned = wide(t, of.rows, of.outer);
      wide_k.drop();
      made.to_k = half(t, of.rows, of.outer);
    }
    made.from_k = multiplied_into(t, std::move(made.k), of.rows, of.width);
    if (!wide_q->defined()) wide_q = wide(t, of.rows, of.inner);
    {
      const value turned = wide(t, of.rows, of.inner);
      t.release(conjugate);
      wide_q.drop();
      made.to_q = reused(t, std::move(made.q), of.rows, of.inner);
    }
    made.from_q = multiplied_into(t, std::move(spare), of.rows, of.width);
  }

  constexpr void finish(tape& t,
                        const shape& of,
                        attention_gradients& made,
                        value& from_up,
                        value& from_gate,
                        value& residual,
                        value& spread_2,
                        value& spread,
                        value& normed,
                        value& attended) const {
    value of_mlp_norm = partial_sums(t, of);
    value of_attention_norm = partial_sums(t, of);
    for (value* done : {&residual, &spread_2, &from_gate, &from_up}) done->drop();
    hand_over(t, own_.mlp_norm, half(t, 1, of.width), true);
    of_mlp_norm.drop();
    hand_over(t, own_.out, multiplied(t, of.width, of.inner));
    attended.drop();
    hand_over(t, own_.value, multiplied(t, of.outer, of.width));
    made.to_v.drop();
    hand_over(t, own_.key, multiplied(t, of.outer, of.width));
    made.to_k.drop();
    hand_over(t, own_.query, multiplied(t, of.inner, of.width));
    normed.drop();
    made.to_q.drop();
    hand_over(t, own_.attention_norm, half(t, 1, of.width), true);
    of_attention_norm.drop();
    spread.drop();
    for (value* done : {&made.from_v, &made.from_k, &made.from_q}) done->drop();
  }

  parameters own_{};
  sizes_of_layer size_{};
  compiled_saves saves_ = compiled_saves::all;
};

}  // namespace gpuplan::eager

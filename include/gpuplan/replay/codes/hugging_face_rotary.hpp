#pragma once

// Rotary positions of Hugging Face's transformers 5.24: tables of angles that all layers read, with
// halves of a head rotated or with neighbours. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// A decoder whose queries and keys are rotated.
class rotary_lm_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~rotary_lm_code() override {}  // NOLINT(modernize-use-equals-default)

  std::int64_t position_rows = 1;  // of the batch, where each sequence has its own positions

 protected:
  // Of what layers read beside their input, behind the mask.
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;

  [[nodiscard]] constexpr const decoder_options& code() const {
    return setup.framework.implementation.decoder;
  }
  [[nodiscard]] constexpr std::int64_t rotary_width() const {
    return detail::rotated_width(model, code());
  }

  // -- tables for all layers

  /// How many tables of angles there are: one, or one for each kind of layer.
  [[nodiscard]] constexpr int kinds_of_tables() const {
    if (!code().rotates_by_kind) return 1;
    const std::int64_t windowed = model.windowed_layers_before(layers);
    return windowed != 0 && windowed != layers ? 2 : 1;
  }

  constexpr value frequencies() {
    if (t.gathers()) return t.make(sizes{rotary_width() / 2}, element::fp32);  // without memory
    return inverse_frequencies(rotary_width(), element::fp32);
  }
  constexpr void build_rotary() {
    const auto charged = t.charge(purpose::buffers);
    for (int kind = 0; kind < kinds_of_tables(); ++kind) {
      value* const pair = frequencies_[kind];
      pair[0] = frequencies();
      pair[1] = t.make(pair[0]->size, element::fp32);
      add_buffer(pair[0]);
      add_buffer(pair[1]);
    }
  }
  /// 1 / base ** (arange(0, width, 2) / width)
  constexpr value inverse_frequencies(std::int64_t width, element of_range) {
    const sizes half{width / 2};
    value exponents = compute(t, t.make(half, of_range), half, element::fp32);
    const value powers = t.make(half, element::fp32);
    t.touch(8);
    exponents.drop();
    const value reciprocals = t.make(half, element::fp32);
    return t.make(half, element::fp32);
  }
  /// Each angle stands for two elements of a head, which both read it.
  [[nodiscard]] constexpr virtual bool doubles_angles() const { return true; }
  constexpr virtual void rotary_tables(const tensor& inverse,
                                       element format,
                                       value& cosines,
                                       value& sines) {
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t rows = position_rows;
    const sizes table{rows, tokens, doubles_angles() ? rotary_width() : rotary_width() / 2};
    value angles;
    {
      const value positions = t.make({rows, tokens, 1}, element::fp32);
      t.executes(8 * rows * tokens + positions->bytes());
      const value frequencies = cast(t, inverse, element::fp32);
      angles = compute(
          t, {&*positions, &*frequencies}, {rows, tokens, rotary_width() / 2}, element::fp32);
    }
    value both;
    if (doubles_angles())
      both = compute(t, {&*angles, &*angles}, table, element::fp32, {"rotary angles"});
    else
      both = t.share(angles);
    const auto made = [&] { return compute(t, both, table, element::fp32, {"rotary table"}); };
    const value cosine = compute(t, made(), table, element::fp32, {"rotary table"});
    const value sine = compute(t, made(), table, element::fp32, {"rotary table"});
    const element wanted = code().rotates_in_fp32 ? element::fp32 : format;
    cosines = cast(t, cosine, wanted);
    sines = cast(t, sine, wanted);
  }

  // -- halves

  // apply_rotary_pos_emb
  constexpr void rotate_both(value& q, value& k) {
    using enum rotary_parts_kind;
    if (uses_liger()) {
      liger.rotate(q, k, beside[the_cosines], beside[the_sines]);
      return;
    }
    const rotary_parts_kind parts = code().rotary_parts;
    repeat_tables();
    head_parts of;
    if (parts != none) of = parts_of(q, k, rotary_width());
    value rotated_q, rotated_k;
    if (parts == none) {
      const bool raises = code().rotary_pairs == rotary_pairs_kind::neighbours_of_table;
      const value own_q = cast(t, q, raises ? element::fp32 : q->format);
      const value own_k = cast(t, k, raises ? element::fp32 : k->format);
      rotated_q = rotate(own_q);
      rotated_k = rotate(own_k);
      if (raises || code().rotates_in_fp32) {
        value back_q = cast(t, rotated_q, q->format);
        rotated_k = cast(t, rotated_k, k->format);
        rotated_q = std::move(back_q);
      }
    } else if (parts == in_rotation) {
      rotated_q = concatenate(t, rotate(of.front_q), of.rest_q, 3);
      rotated_k = concatenate(t, rotate(of.front_k), of.rest_k, 3);
    } else {
      value front_q = rotate(of.front_q);
      value front_k = rotate(of.front_k);
      rotated_q = concatenate(t, front_q, of.rest_q, 3);
      if (parts == behind_rotation) front_q.drop();
      rotated_k = concatenate(t, front_k, of.rest_k, 3);
    }
    repeated_cosines_.drop();
    repeated_sines_.drop();
    q = std::move(rotated_q);
    k = std::move(rotated_k);
  }
  /// x * cos + rotate_half(x) * sin
  constexpr value rotate(const tensor& x) {
    const bool turns_halves = code().rotary_pairs == rotary_pairs_kind::halves;
    const bool raises = !turns_halves && code().rotates_in_fp32;
    const element format = raises ? element::fp32 : x.format;
    const value straight = multiply(t, cast(t, x, format), table(the_cosines));
    if (turns_halves) return add(t, straight, multiply(t, rotate_half(x), table(the_sines)));
    return add(t, straight, multiply(t, cast(t, rotate_every_two(x), format), table(the_sines)));
  }
  /// cos[..., : width / 2].repeat_interleave(2), likewise of the sines
  constexpr void repeat_tables() {
    if (code().rotary_pairs != rotary_pairs_kind::neighbours) return;
    const auto repeated = [&](const tensor& of) {
      return compute(t, of, {1, 1, of.size[1], of.size[2]}, of.format, {"rotary table"});
    };
    repeated_cosines_ = repeated(beside[the_cosines]);
    repeated_sines_ = repeated(beside[the_sines]);
  }
  constexpr tensor table(int which) const {
    const value& repeated = which == the_cosines ? repeated_cosines_ : repeated_sines_;
    if (repeated->defined()) return *repeated;
    tensor seen = beside[which];
    set_contiguous(seen, {seen.size[0], 1, seen.size[1], seen.size[2]});
    return seen;
  }

  // -- neighbours as complex numbers, which a table turns

  // DeepseekV2RotaryEmbedding
  constexpr value complex_table(const tensor& inverse) {
    const sizes size{1, setup.sequence_length, rotary_width() / 2};
    value angles;
    {
      const value positions = full(t, {1, size[1], 1}, element::fp32);
      const value frequencies = cast(t, inverse, element::fp32);
      angles = compute(t, {&*positions, &*frequencies}, size, element::fp32);
    }
    value turns;
    {
      const value ones = full(t, size, element::fp32);
      turns = compute(t, {&*ones, &*angles}, size, element::complex64);
    }
    return compute(t, turns, size, element::complex64, {"rotary table"});
  }
  /// apply_rotary_emb: four dimensions, of which one is the tokens'. `casts_last`: once both are
  /// turned.
  constexpr void turn_pairs(value& q, value& k, int tokens_at, bool casts_last) {
    const value pairs_q = as_complex(t, cast(t, q, element::fp32));
    const value pairs_k = as_complex(t, cast(t, k, element::fp32));
    tensor turns = beside[the_cosines];
    sizes seen{1, 1, 1, turns.size[2]};
    seen[tokens_at] = turns.size[1];
    set_contiguous(turns, seen);
    const element format = casts_last ? element::fp32 : q->format;
    const auto turned_by = [&](const tensor& pairs) {
      return cast(t, as_real(t, multiply_complex(t, pairs, turns)), format);
    };
    const value turned_q = turned_by(pairs_q);
    const value turned_k = turned_by(pairs_k);
    value cast_q = cast(t, turned_q, q->format);
    k = cast(t, turned_k, k->format);
    q = std::move(cast_q);
  }

  // -- fronts of heads

  /// x[..., :width], which is x with another name where it has no more.
  constexpr value front_of(argument given, std::int64_t width) {
    const held x(given);
    if (width != x.size[3]) return slice(t, x, 3, width);
    value same = t.share(x);
    const int by = t.add_node(node_kind::pass, {&x});
    t.result_of(by, same.get());
    return same;
  }
  /// The front of each head, which is rotated, and the rest.
  struct head_parts {
    value front_q, rest_q, front_k, rest_k;
  };
  constexpr head_parts parts_of(const tensor& q, const tensor& k, std::int64_t width) {
    return {front_of(q, width),
            slice(t, q, 3, q.size[3] - width),
            front_of(k, width),
            slice(t, k, 3, k.size[3] - width)};
  }
  /// Rotates the fronts of query and key and joins them with the rest. What is returned a class may
  /// have in variables of its own.
  template <class Rotate>
  constexpr head_parts rotate_fronts(value& q, value& k, std::int64_t width, Rotate rotate) {
    head_parts of = parts_of(q, k, width);
    of.front_q = rotate(of.front_q);
    of.front_k = rotate(of.front_k);
    q = concatenate(t, of.front_q, of.rest_q, 3);
    k = concatenate(t, of.front_k, of.rest_k, 3);
    return of;
  }

  // -- neighbours, by a table of sines and cosines

  // create_sinusoidal_positions
  constexpr value sinusoids() {
    const sizes rows{model.sinusoid_rows != 0 ? model.sinusoid_rows : setup.sequence_length};
    const sizes half{rows[0], rotary_width() / 2};
    const value inverse = inverse_frequencies(rotary_width(), element::int64);
    const value angles = compute(
        t, compute(t, t.make(rows, element::int64), rows, element::fp32), half, element::fp32);
    const value sines = t.make(half, element::fp32);
    const value cosines = t.make(half, element::fp32);
    return t.make({rows[0], rotary_width()}, element::fp32);
  }
  /// Heads of query and key behind the tokens.
  constexpr projections project_behind_tokens(const layer_modules& by, const tensor& x) {
    const sizes apart{x.size[0], x.size[1], model.num_attention_heads, model.query_dim()};
    projections made{linear(x, by.query), linear(x, by.key), linear(x, by.value)};
    made.q = view(t, made.q, apart);
    made.k = view(t, made.k, apart);
    made.v = heads_of(made.v);
    return made;
  }
  constexpr head_parts rotate_neighbours(value& q, value& k, element of_table) {
    return rotate_fronts(q, k, rotary_width(), [&](const tensor& front) {
      return rotate_neighbours(front, of_table);
    });
  }
  /// x * cos + rotate_every_two(x) * sin, of which each element stands for two neighbours.
  constexpr value rotate_neighbours(const tensor& x, element format) {
    const sizes table{1, x.size[1], 1, x.size[3]};
    const value sines = full(t, table, format);
    const value cosines = full(t, table, format);
    const value straight = multiply(t, x, cosines);
    return add(t, straight, multiply(t, rotate_every_two(x), sines));
  }
  constexpr value rotate_every_two(const tensor& x) {
    const sizes pairs{x.size[0], x.size[1], x.size[2], x.size[3] / 2, 1};
    const value first = every_second(t, x, 3);
    const value second = every_second(t, x, 3);
    const value left = view(t, scale(t, second), pairs);
    const value right = view(t, first, pairs);
    return view(t, concatenate(t, left, right, 4), x.size);
  }

  value frequencies_[2][2]{};                    // of each kind of layer, and its copy
  value repeated_cosines_{}, repeated_sines_{};  // while query and key are rotated
};

}  // namespace gpuplan::eager

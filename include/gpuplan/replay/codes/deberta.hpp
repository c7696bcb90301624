#pragma once

// DeBERTa-v2 and v3 of Hugging Face's transformers 5.23: attention to what tokens say and to where
// they stand. Private.

#include <gpuplan/replay/codes/bert.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class deberta_code final : public bert_code {
 public:
  using bert_code::bert_code;
  constexpr ~deberta_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // What layers read beside their input, behind the mask.
  static constexpr int the_distances = 1;
  static constexpr int the_places = 2;  // rows of the table of distances

  [[nodiscard]] constexpr const disentangled_attention& apart() const { return model.disentangled; }

  // -- construction

  constexpr layer_modules build_layer(bool trains) override {
    const std::int64_t width = model.hidden_size;
    layer_modules made = built(trains, {&its::query, &its::key, &its::value});
    place_modules places;
    if (!apart().share_att_key) {
      if (apart().c2p) places.key = linear_module(width, width, true, trains);
      if (apart().p2c) places.query = linear_module(width, width, true, trains);
    }
    places_.push(places);
    build(
        made, trains, {&its::out, &its::behind_attention, &its::up, &its::down, &its::behind_mlp});
    return made;
  }
  constexpr void build_behind_layers() override {
    table_ = table_module(apart().rows(), model.hidden_size, trains_all());
    if (apart().normalizes_table) table_norm_ = norm_module(model.hidden_size, trains_all());
  }
  /// One for each position, whether there is a table of positions or not.
  constexpr void build_numbers() override {
    model_code::add_numbers(
        hold(t.charge(purpose::buffers)
                 ->make({1, model.disentangled.position_numbers}, element::int64)));
  }

  // -- the model

  constexpr value encode(const tensor& ids) override {
    const std::int64_t batch = ids.size[0];
    const std::int64_t tokens = ids.size[1];
    const bool is_given = setup.padding_mask;
    value ones;
    if (!is_given) {
      look_for_padding(batch);
      ones = full(t, ids.size, element::fp32);
    }
    const element format_of_mask = is_given ? element::int64 : element::fp32;
    const value types = full(t, ids.size, element::int64);
    const value embedded = embed_masked(ids, ones);
    value mask = full(t, {batch, 1, tokens, tokens}, format_of_mask);
    value distances = bucketed_distances(tokens);
    value places;
    if (table_norm_.weight != none)
      places = norm(t.parameter(table_.weight), table_norm_);
    else
      places = t.share(t.parameter(table_.weight));
    value hidden = t.share(embedded);
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[the_mask] = mask;
      beside[the_distances] = distances;
      beside[the_places] = places;
      hidden = run_layer(at, hidden);
      places.get().node = beside[the_places].node;
      places.get().output = beside[the_places].output;
      outputs_.push(hold_for_now(hidden));
    }
    for (value* one : {&mask, &distances, &places, &ones}) one->drop();
    drop_outputs();
    return hidden;
  }
  /// Whether the first or last tokens are padding, read back.
  constexpr void look_for_padding(std::int64_t batch) {
    const value columns = full(t, sizes{2}, element::int64);
    const value ends = compute(t, columns, {batch, 2}, element::int64);
    const value are_padding = compute(t, ends, {batch, 2}, element::boolean);
    const value any = compute(t, are_padding, sizes{1}, element::boolean);
    t.executes(1, device_work::copy());
  }
  constexpr value embed_masked(const tensor& ids, const tensor& ones) {
    const value words = embed_tokens(ids, tokens_);
    value places;
    if (positions_.weight != none) {
      tensor numbers = t.buffers[0];
      numbers.size[1] = ids.size[1];
      numbers.is_view = true;
      places = rows_of(numbers, positions_);
    } else {
      places = full(t, words->size, words->format);
    }
    value sum = t.share(words);
    if (positions_.weight != none) sum = add(t, sum, places);
    value types;
    if (types_.weight != none) {
      const value zeros = full(t, ids.size, element::int64);
      types = rows_of(zeros, types_);
      sum = add(t, sum, types);
    }
    sum = norm(sum, norm_);
    const sizes column{ids.size[0], ids.size[1], 1};
    value mask;
    if (ones.defined() && sum->format == ones.format)
      mask = view(t, ones, column);
    else
      mask = full(t, column, sum->format);
    sum = multiply(t, sum, mask);
    return drop_out(sum);
  }
  // build_relative_position: (1, tokens, tokens)
  constexpr value bucketed_distances(std::int64_t tokens) {
    const sizes square{tokens, tokens};
    const value rows = full(t, sizes{tokens}, element::int64);
    const value columns = full(t, sizes{tokens}, element::int64);
    value distance = compute(t, {&*rows, &*columns}, square, element::int64);
    if (!apart().buckets) return distance;
    {
      const auto real = [&](argument of) { return compute(t, of, square, element::fp32); };
      const auto truth = [&](argument of) { return compute(t, of, square, element::boolean); };
      value sign = compute(t, distance, square, element::int64);
      value length;
      {
        value is_near;
        {
          const value below = truth(distance);
          const value above = truth(distance);
          is_near = truth(below);
        }
        value number = full(t, sizes{1}, element::int64);
        value lengths = compute(t, distance, square, element::int64);
        length = compute(t, lengths, square, element::int64);
        for (value* one : {&is_near, &number, &lengths}) one->drop();
      }
      value logarithm = real(length);
      for (int operation = 0; operation < 5; ++operation) logarithm = real(logarithm);
      value is_small = truth(length);
      value exact = real(distance);
      value signed_logarithm = real(logarithm);
      value bucket = real(exact);
      for (value* one : {&is_small, &exact, &signed_logarithm, &sign, &length, &logarithm})
        one->drop();
      distance = std::move(bucket);
    }
    return compute(t, distance, square, element::int64);
  }

  // DisentangledSelfAttention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) override {
    attended made;
    made.output = attention_of(by, places_[current_], x);
    made.output = add_and_norm(made.output, by.out, by.behind_attention, x);
    return made;
  }
  constexpr value layer(int index, const tensor& input) override {
    current_ = index;
    return bert_code::layer(index, input);
  }

  struct place_modules {
    nn_module key, query;
  };
  constexpr value attention_of(const layer_modules& by,
                               const place_modules& of_places,
                               const tensor& x) {
    const std::int64_t tokens = x.size[1];
    const std::int64_t heads = model.num_attention_heads;
    const sizes scores_size{x.size[0], heads, tokens, tokens};
    value q = heads_in_rows(linear(x, by.query));
    value k = heads_in_rows(linear(x, by.key));
    value v = heads_in_rows(linear(x, by.value));
    value scores = matmul(t, q, scale(t, transpose(t, k, 1, 2)));
    value places = dropout(t, beside[the_places], drops);
    value by_place = place_scores(by, of_places, q, k, places);
    if (by_place->defined()) scores = add(t, scores, by_place);
    scores = view(t, scores, scores_size);
    value mask = compute(t, beside[the_mask], beside[the_mask].size, element::boolean, {"mask"});
    {
      const value hidden = compute(t, mask, mask->size, element::boolean, {"mask"});
      scores = masked_fill(t, scores, hidden);
    }
    value weights = softmax_under_autocast(t, scores);
    weights = dropout(t, weights, drops_attention);
    value result = matmul(t, view(t, weights, {x.size[0] * heads, tokens, tokens}), v);
    result = view(t, result, {x.size[0], heads, tokens, model.query_dim()});
    result = contiguous(t, transpose(t, result, 1, 2));
    for (value* one : {&mask, &places, &q, &k, &v, &by_place, &scores, &weights}) one->drop();
    return view(t, result, x.size);
  }
  // transpose_for_scores: (batch * heads, tokens, width)
  constexpr value heads_in_rows(argument given) {
    const held x(given);
    const value made = contiguous(t, heads_of(x));
    return view(t, made, {x.size[0] * made->size[1], x.size[1], made->size[3]});
  }
  // disentangled_attention_bias
  constexpr value place_scores(const layer_modules& by,
                               const place_modules& of_places,
                               const tensor& q,
                               const tensor& k,
                               const tensor& given_places) {
    const std::int64_t times = q.size[0] / model.num_attention_heads;
    const std::int64_t tokens = q.size[1];
    const value places = view(t, given_places, {1, given_places.size[0], given_places.size[1]});
    const auto repeated = [&](const nn_module& through) {
      return repeat(t, heads_in_rows(linear(places, through)), times);
    };
    value keys, queries;
    value unread;  // whose graph is gone with the function
    const auto repeated_for = [&](bool is_read, const nn_module& through) {
      if (is_read) return repeated(through);
      const auto unrecorded = t.without_graph();
      unread = lowered(t, places);
      return repeat(t, heads_in_rows(linear(unread, through)), times);
    };
    if (apart().share_att_key) {
      queries = repeated_for(apart().p2c, by.query);
      keys = repeated_for(apart().c2p, by.key);
    } else {
      if (apart().c2p) keys = repeated(of_places.key);
      if (apart().p2c) queries = repeated(of_places.query);
    }
    const sizes square{1, 1, tokens, tokens};
    const sizes wide{q.size[0], tokens, tokens};
    const auto clamped = [&](argument numbers) {
      return compute(t, compute(t, numbers, square, element::int64), square, element::int64);
    };
    value score, numbers, found, turned_numbers;
    if (apart().c2p) {
      found = matmul(t, q, transpose(t, keys, 1, 2));
      numbers = clamped(beside[the_distances]);
      found = gather(t, found, expand(t, view(t, numbers, {1, tokens, tokens}), wide));
      score = add_number(t, scale(t, found));
    }
    if (apart().p2c) {
      turned_numbers = clamped(compute(t, beside[the_distances], square, element::int64));
      value other = matmul(t, k, transpose(t, queries, 1, 2));
      other = gather(t, other, expand(t, view(t, turned_numbers, {1, tokens, tokens}), wide));
      other = transpose(t, other, 1, 2);
      const value scaled = scale(t, other);
      if (score->defined())
        score = add_in_place(t, score, scaled);
      else
        score = add_number(t, scaled);
    }
    return score;
  }

  /// Results of layers live as long as the model runs.
  constexpr tensor hold_for_now(const tensor& of) {
    t.hold(of.storage);
    return of;
  }
  constexpr void drop_outputs() {
    for (int at = outputs_.size(); at-- > 0;) t.release(outputs_[at].storage);
    outputs_.resize_down(0);
  }

  nn_module table_{}, table_norm_{};
  growing_array<place_modules> places_{};
  growing_array<tensor> outputs_{};
  int current_ = 0;
};

}  // namespace gpuplan::eager

#pragma once

// What encoders of text of Hugging Face's transformers 5.23 have in common: embeddings of tokens,
// their types and positions, and heads for masked tokens and for classes, or none, as sentence
// encoders train. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// A family says what a layer is, and what its layers read beside their input.
class text_encoder_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~text_encoder_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    if (code().builds_head_first) build_head();
    build_embeddings();
    build_projection();
    for (std::int64_t at = 0; at < built_layers(); ++at) {
      const auto built = t.building_unit(at);
      layers_.push(build_layer(trains_layer(at)));
    }
    build_behind_layers();
    const int behind_layers = t.parameters.size();
    if (model.pooler || reads_pooled())
      dense_ = linear_module(operator_kind::pooler, width, width, true, trains_head());
    if (!reads_pooled()) leave_idle(behind_layers);
    t.touch(8 * model.position_rows);  // the numbers of positions, written again
    if (!code().builds_head_first) build_head();
    if (model.head == head_kind::language_model) tie_head();
  }
  /// A bias that the module of the head has, and shares with the layer in it, is cast with that.
  constexpr void cast_model() override {
    if (!code().builds_head_first || bias_ == none) return move_model(bias_);
    const int last = head_.bias > head_.weight ? head_.bias : head_.weight;
    for (int at = bias_ + 1; at <= last; ++at) move(at);
    move_model();
  }

  constexpr void make_batch() override {
    const sizes all{plan.micro_batch, setup.sequence_length};
    const auto charged = t.charge(purpose::buffers);
    for (std::int64_t text = 0; text < setup.encodings; ++text) make_input(all);
    if (model.head == head_kind::none) {
      for (std::int64_t text = 0; text < setup.encodings; ++text) make_input(all);
    } else {
      make_input(model.reads_all_tokens() && !finds_spans() ? all : sizes{plan.micro_batch});
      if (finds_spans()) make_input(sizes{plan.micro_batch});
      if (setup.padding_mask) make_input(all);
    }
  }

  constexpr value forward() override {
    switch (model.head) {
      case head_kind::language_model:
        return masked_loss();
      case head_kind::classifier:
        return class_loss();
      case head_kind::none:
        break;
    }
    return pairs_loss();
  }

 protected:
  constexpr virtual layer_modules build_layer(bool trains) = 0;
  constexpr virtual void build_behind_layers() {}
  /// How many layers there are; they may run more than once.
  [[nodiscard]] constexpr virtual std::int64_t built_layers() const { return layers; }
  constexpr virtual value run_layers(value hidden, const tensor& mask) = 0;
  /// Whether embeddings stay as long as the model runs where layers have another width.
  [[nodiscard]] constexpr virtual bool holds_embeddings() const { return false; }

  [[nodiscard]] constexpr const encoder_options& code() const {
    return setup.framework.implementation.encoder;
  }

  [[nodiscard]] constexpr bool finds_spans() const {
    return model.head == head_kind::classifier && model.classified == classified_kind::spans;
  }
  [[nodiscard]] constexpr bool classifies_sequences() const {
    return model.head == head_kind::classifier && model.classified == classified_kind::sequences;
  }
  /// Whether a classifier reads the pooler's result.
  [[nodiscard]] constexpr bool reads_pooled() const {
    return classifies_sequences() && code().pools;
  }

  // -- construction

  constexpr void build_embeddings() {
    const std::int64_t width = model.token_width();
    if (model.has_tied_head() && code().builds_head_first)
      build_table_of_head();
    else
      tokens_ = token_table(model.vocab_size, width, trains_table());
    if (!code().positions_behind_norm) build_positions();
    if (model.type_vocab_size != 0)
      types_ = table_module(model.type_vocab_size, width, trains_all());
    norm_ = norm_module(width, trains_all());
    build_numbers();
    if (code().positions_behind_norm) build_positions();
  }
  /// Numbers of positions, and of the types of tokens there.
  constexpr virtual void build_numbers() {
    if (model.position_rows != 0) add_numbers();
    if (model.type_vocab_size != 0) add_numbers();
  }
  constexpr void build_positions() {
    if (model.position_rows == 0) return;
    positions_ = table_module(model.position_rows, model.token_width(), trains_all());
  }
  /// Of embeddings to the width of the layers.
  constexpr void build_projection() {
    if (model.embedding_dim == 0) return;
    projection_ = linear_module(
        operator_kind::project_in, model.hidden_size, model.embedding_dim, true, trains_all());
  }
  /// The table that a head built before it has a place for.
  constexpr void build_table_of_head() {
    t.build_parameter(head_.weight, {model.vocab_size, model.token_width()}, element::fp32);
    tokens_.weight = head_.weight;
    name(tokens_, "token table");
    tokens_.adapter = adapters.add_table(model.vocab_size, model.token_width(), tokens_.weight);
  }
  // A number for each position.
  constexpr void add_numbers() {
    model_code::add_numbers(
        hold(t.charge(purpose::buffers)->make({1, model.position_rows}, element::int64)));
  }
  constexpr virtual void build_head() {
    const std::int64_t width = model.hidden_size;
    if (model.head == head_kind::language_model) return build_masked_head();
    if (model.head != head_kind::classifier) return;
    if (model.head_norm) build_transform(trains_head());
    if (model.head_dense && !model.head_norm && !reads_pooled())
      dense_ = linear_module(operator_kind::head_dense, width, width, true, trains_head());
    classes_ = linear_module(operator_kind::head, model.num_classes, width, true, trains_head());
  }
  /// A dense layer and a norm before the head's matrix.
  constexpr void build_transform(bool trains) {
    const std::int64_t width = model.token_width();
    if (code().builds_head_norm_first) head_norm_ = norm_module(width, trains);
    dense_ = linear_module(
        operator_kind::head_dense, width, model.hidden_size, model.head_dense_bias, trains);
    if (!code().builds_head_norm_first) head_norm_ = norm_module(width, trains);
  }
  constexpr void build_masked_head() {
    const std::int64_t width = model.token_width();
    const std::int64_t rows = model.vocab_size;
    const bool trains = trains_all() || (!model.tied_embeddings && trains_head());
    const bool trains_own_bias = trains || trains_table() || adapters.trains_all_biases();
    const bool is_first = code().builds_head_first;
    const int first = t.parameters.size();
    build_transform(trains);
    if (model.has_tied_head()) {
      if (is_first) head_.weight = t.reserve_parameter(trains_table());
      if (!is_first) head_.weight = tokens_.weight;
      if (is_built_here()) own_table_ = t.new_storage(4 * rows * width);
      if (!code().shares_head_bias) head_.bias = parameter(sizes{rows}, trains_own_bias);
      if (code().shares_head_bias && is_built_here()) own_bias_ = t.new_storage(4 * rows);
    } else {
      head_ = linear_module(operator_kind::head, rows, width, true, trains);
    }
    if (!code().shares_head_bias) return;
    // stands before the layers of its module, one of which reads it where the table is tied
    bias_ = parameter(sizes{rows}, trains_own_bias);
    t.place_parameter(first);
    adapters.make_room(first);
    for (int* at : {&dense_.weight, &dense_.bias, &head_norm_.weight, &head_norm_.bias}) ++*at;
    if (!model.has_tied_head() || is_first) ++head_.weight;
    if (model.has_tied_head())
      head_.bias = first;
    else
      ++head_.bias;
    bias_ = first;
  }
  constexpr void tie_head() {
    t.release(own_table_);
    if (model.has_tied_head()) add_shared_table();
    if (!model.has_tied_head() || !is_built_here()) return;
    // biases are padded to the rows of the table
    if (own_bias_ != none) {
      const int padded = t.new_storage(4 * model.vocab_size);
      t.release(own_bias_);
      t.release(padded);
    }
    tensor& data = t.parameters[head_.bias].data;
    const int own = t.charge(purpose::weights)->new_storage(data.bytes());
    t.release(data.storage);
    data.storage = own;
  }
  /// And not on a device without memory.
  [[nodiscard]] constexpr bool is_built_here() const { return !t.gathers(); }
  constexpr void make_input(const sizes& size) { inputs_.push(hold(t.make(size, element::int64))); }

  // -- the model

  constexpr virtual value encode(const tensor& ids) {
    enter();
    value embedded = embed(ids);
    const value mask =
        mask_of(ids.size[0], setup.sequence_length, setup.sequence_length, embedded->format, false);
    value hidden;
    if (projection_.weight != none) {
      hidden = linear(embedded, projection_);
      if (!holds_embeddings()) embedded.drop();
    } else {
      hidden = t.share(embedded);
    }
    enter();
    hidden = run_layers(std::move(hidden), mask);
    leave(hidden);
    if (reads_pooled()) pooled_ = pool(hidden);
    if (model.head == head_kind::none && model.pooler) pool_in_vain(hidden);
    leave(hidden);
    return hidden;
  }

  constexpr value embed(const tensor& ids) {
    enter();
    value numbers;
    if (code().positions == position_numbers::range) {
      tensor seen = t.buffers[0];
      seen.size[1] = setup.sequence_length;
      seen.is_view = true;
      numbers = t.share(seen);
    } else {
      numbers = counted_positions(ids);
    }
    value types_of_tokens;
    if (types_.weight != none) {
      value gathered = t.make(numbers->size, element::int64);
      t.executes(8 * numbers->size[0] * model.position_rows + 2 * gathered->bytes());
      types_of_tokens = expand(t, gathered, ids.size);
    }
    value words = word_embeddings(ids);
    value types, sum;
    if (types_.weight != none) {
      types = rows_of(types_of_tokens, types_);
      sum = add(t, words, types);
    }
    value places = rows_of(numbers, positions_);
    sum = add(t, types_.weight != none ? *sum : *words, places);
    sum = norm(sum, norm_);
    sum = drop_out(sum);
    leave(sum);
    // Python lets go of a function's variables in the order in which they came.
    for (value* one : {&words, &types, &places}) one->drop();
    return sum;
  }
  constexpr value word_embeddings(const tensor& ids) { return embed_tokens(ids, tokens_); }
  /// How many tokens that are no padding there are up to each.
  constexpr value counted_positions(const tensor& ids) {
    constexpr element int32 = element::fp32;  // of as many bytes
    const auto after = [&](const tensor& of, element format) {
      return compute(t, of, ids.size, format);
    };
    const value is_token = compute(t, after(ids, element::boolean), ids.size, int32);
    value counted = t.make(ids.size, element::int64);
    {
      const value wide = t.make(ids.size, element::int64);
      t.executes({&*is_token, &*counted}, {.kernels = 2});
      if (ids.size[0] == 1) t.touch(256 + tile_states(ids.count(), 896, 16));  // CUB's scan
    }
    counted = after(counted, int32);
    if (code().positions == position_numbers::counted_after_cache) counted = after(counted, int32);
    counted = compute(t, {&*counted, &*is_token}, ids.size, int32);
    const value wide = after(counted, element::int64);
    return after(wide, element::int64);
  }
  // -- heads

  constexpr value masked_loss() {
    const value hidden = encode(inputs_[0]);
    t.begin(moment::loss);
    const nn_module own{.bias = bias_};
    enter();
    value x = t.share(hidden);
    if (is_watched) x = shards->module_begins(hidden, watched(own, true));
    enter();
    x = transform(x);
    leave(x);
    value logits = linear(std::move(x), head_);
    leave(logits, own, true);
    leave(logits);
    if (setup.framework.implementation.logits == logits_kind::to_fp32) {
      const value wide = cast(t, logits, element::fp32);
      return loss_of(wide, inputs_[1]);
    }
    return loss_of(logits, inputs_[1]);
  }
  /// norm(act(dense(x)))
  constexpr value transform(argument given) {
    value x = linear(given, dense_);
    if (code().gelu_in_head)
      x = keeping_input(t, x);
    else
      x = act(x);
    return norm(x, head_norm_);
  }
  constexpr value loss_of(const tensor& logits, const tensor& labels) {
    const value rows = view(t, logits, {labels.count(), logits.size[logits.size.rank - 1]});
    const value of_rows = view(t, labels, sizes{labels.count()});
    return cross_entropy(t, rows, of_rows);
  }

  constexpr value pool(const tensor& hidden) {
    return keeping_result(t, linear(select(t, hidden, 1), dense_));
  }
  /// Of what has no use nothing is kept once the model has returned.
  constexpr void pool_in_vain(const tensor& hidden) {
    const auto unrecorded = t.without_graph();
    const value first = select(t, hidden, 1);
    value dense;
    if (trains_all()) {
      const value bias = lowered_parameter(t, dense_.bias);
      const value weight = lowered_parameter(t, dense_.weight);
      unused_[1] = lowered(t, first);
      dense = linear(unused_[1], dense_);
    } else {
      dense = linear(first, dense_);
    }
    unused_[0] = keeping_result(t, dense);
  }

  constexpr value class_loss() {
    const value hidden = encode(inputs_[0]);
    t.begin(moment::loss);
    switch (model.classified) {
      case classified_kind::tokens:
        return token_loss(hidden);
      case classified_kind::spans:
        return span_loss(hidden);
      case classified_kind::replaced:
        return replaced_loss(hidden);
      case classified_kind::aligned:
      case classified_kind::sequences:
        break;
    }
    value pooled = std::move(pooled_);
    if (!code().pools) {
      value first = select(t, hidden, 1);
      if (code().drops_before_dense) first = dropout(t, first, drops_classifier);
      value dense = linear(std::move(first), dense_);
      if (code().gelu_in_head || code().gelu_in_classifier)
        pooled = keeping_input(t, dense);
      else
        pooled = keeping_result(t, dense);
    }
    pooled = dropout(t, pooled, drops_classifier);
    const value logits = linear(pooled, classes_);
    if (code().reads_labelled) return labelled_loss(logits);
    return loss_of(logits, inputs_[1]);
  }
  /// Of the samples that have a label, whose number is read back: all.
  constexpr value labelled_loss(const tensor& logits) {
    const std::int64_t batch = logits.size[0];
    value index;
    {
      const value have = compute(t, inputs_[1], sizes{batch}, element::boolean);
      const int count = t.new_storage(4, {"number of labels"});  // CUB's scratch beside it
      t.touch(1);
      index = t.make({batch, 1}, element::int64);
      t.touch(tile_states(batch, 1024, 16));
      t.release(count);
    }
    const value all = expand(t, index, logits.size);
    const value chosen = gather(t, logits, all);
    const value labels = compute(t, inputs_[1], sizes{batch}, element::int64);
    const value wide = cast(t, chosen, element::fp32);
    return loss_of(wide, labels);
  }
  constexpr value token_loss(const tensor& hidden) {
    const value dropped = dropout(t, hidden, drops_classifier);
    const value logits = linear(dropped, classes_);
    return loss_of(logits, inputs_[1]);
  }
  /// Of the first token of an answer and of the last: the mean of both.
  constexpr value span_loss(const tensor& hidden) {
    value states = t.share(hidden);
    if (code().drops_before_spans) states = dropout(t, states, drops_classifier);
    const value logits = linear(states, classes_);
    const std::int64_t batch = logits->size[0];
    const sizes all{batch, logits->size[1]};
    const int parts = split(t, logits);
    value first = part(t, parts, logits, 2, 1, 0);
    value last = part(t, parts, logits, 2, 1, 1);
    first = contiguous(t, view(t, first, all));
    last = contiguous(t, view(t, last, all));
    const value from = compute(t, inputs_[1], sizes{batch}, element::int64);
    const value to = compute(t, inputs_[2], sizes{batch}, element::int64);
    const value of_first = cross_entropy(t, first, from);
    const value of_last = cross_entropy(t, last, to);
    return scale(t, add(t, of_first, of_last));
  }
  constexpr value replaced_loss(const tensor& hidden) {
    const value logits = linear(act(linear(hidden, dense_)), classes_);
    const sizes all{logits->size[0], logits->size[1]};
    return binary_cross_entropy(t, view(t, logits, all), cast(t, inputs_[1], element::fp32));
  }

  /// Means of the texts' hidden states, of length 1: the first text of a sample among the others of
  /// all samples (multiple negatives).
  constexpr value pairs_loss() {
    const auto texts = static_cast<int>(setup.encodings);
    value of_text[most_texts];
    value hidden, wide, mean_of_text;
    for (int text = 0; text < texts; ++text) {
      hidden = encode(inputs_[text]);
      for (value& unused : unused_) unused.drop();
      wide = full(t, hidden->size, hidden->format);
      mean_of_text = mean_of(hidden, wide);
      of_text[text] = normalize(t, mean_of_text);
    }
    t.begin(moment::loss);
    const value scores =
        scale(t, product(t, of_text[0], transpose(t, stack_rows(t, of_text + 1, texts - 1), 0, 1)));
    const value labels = full(t, sizes{scores->size[0]}, element::int64);
    return cross_entropy(t, scores, labels);
  }
  constexpr value mean_of(const tensor& hidden, const tensor& wide) {
    const value sums = sum_over(t, multiply(t, hidden, wide), 1);
    value counts = sum_over(t, wide, 1);
    counts = compute(t, counts, counts->size, counts->format);  // at least something
    return divide(t, sums, counts);
  }

  static constexpr int most_texts = static_cast<int>(most_texts_beside);
  static_assert(most_texts - 1 <= most_inputs);

  nn_module tokens_{}, positions_{}, types_{}, norm_{}, projection_{};
  nn_module dense_{}, head_norm_{}, head_{}, classes_{};
  growing_array<layer_modules> layers_{};
  growing_array<tensor> inputs_{};
  int bias_ = none;
  int own_table_ = none;  // of a tied head, until it is tied,
  int own_bias_ = none;   // and likewise
  value pooled_{};
  value unused_[2]{};
};

}  // namespace gpuplan::eager

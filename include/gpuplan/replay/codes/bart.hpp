#pragma once

// Encoder-decoders of Hugging Face's transformers 5.23 that were copied from BART: mBART, PLBart,
// Pegasus, Marian, Blenderbot, M2M100. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class bart_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~bart_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t table = 4 * model.vocab_size * model.hidden_size;
    shared_ = token_table(model.vocab_size, model.hidden_size, trains_table(model.has_tied_head()));
    // Each stack and the head have a table of their own until they are tied.
    int tables[2]{};
    for (const bool is_decoder : {false, true}) {
      tables[is_decoder ? 1 : 0] = t.new_storage(table);
      add_shared_table();
      build_stack(is_decoder);
    }
    for (const int storage : tables) t.release(storage);
    build_head();
  }

  constexpr void make_batch() override {
    const auto charged = t.charge(purpose::buffers);
    make_input();
    labels_ = t.make({plan.micro_batch, target_length()}, element::int64, {"labels"});
    if (setup.padding_mask)
      padding_ = t.make({plan.micro_batch, setup.sequence_length}, element::int64, {"padding"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value decoder_ids = shifted_labels();
    const value encoded = encode();
    const value decoded = decode(decoder_ids, encoded);
    t.begin(moment::loss);
    value logits = linear(decoded, head_);
    if (logits_bias_->defined()) logits = add(t, logits, logits_bias_);
    const value rows = view(t, logits, {labels_->count(), model.vocab_size});
    return cross_entropy(t, rows, view(t, labels_, sizes{labels_->count()}));
  }

 protected:
  struct block {
    layer_modules self, cross;
    nn_module cross_norm;
    bool is_decoder = false;
  };
  struct stack {
    nn_module positions{};  // a table that is read by number
    value sinusoids{};      // or a buffer
    nn_module embedding_norm{};
    nn_module last_norm{};
  };
  // What blocks read beside their input, behind the mask.
  static constexpr int the_encoded = 1;
  static constexpr int the_cross_mask = 2;

  [[nodiscard]] constexpr const sequence_options& code() const {
    return setup.framework.implementation.sequences;
  }
  [[nodiscard]] constexpr std::int64_t target_length() const {
    return setup.target_length != 0 ? setup.target_length : setup.sequence_length;
  }
  [[nodiscard]] constexpr bool norms_before() const {
    return model.norm_at == norm_position::before;
  }
  [[nodiscard]] constexpr bool trains_block(std::int64_t index) const {
    return trains_all() || (setup.trains.what == training::last_layers &&
                            index >= model.layers() - setup.trains.last_layers);
  }
  constexpr virtual void make_input() {
    ids_ = t.make({plan.micro_batch, setup.sequence_length}, element::int64, {"token ids"});
  }

  // -- construction

  constexpr void build_stack(bool is_decoder) {
    const std::int64_t width = model.hidden_size;
    stack& made = stacks_[is_decoder ? 1 : 0];
    build_positions(made, is_decoder);
    const std::int64_t first = is_decoder ? model.num_hidden_layers : 0;
    const std::int64_t end = is_decoder ? model.layers() : model.num_hidden_layers;
    for (std::int64_t at = first; at < end; ++at) {
      const auto being_built = t.building_unit(at);
      blocks_.push(build_block(is_decoder, trains_block(at)));
    }
    if (model.embedding_norm) made.embedding_norm = norm_module(width, trains_all());
    if (model.final_norm)
      made.last_norm = norm_module(width, is_decoder ? trains_final_norm() : trains_all());
    initialize_positions(made);
  }
  [[nodiscard]] constexpr std::int64_t position_rows(bool is_decoder) const {
    return is_decoder && model.decoder.position_rows != 0 ? model.decoder.position_rows
                                                          : model.position_rows;
  }
  constexpr virtual void build_positions(stack& made, bool is_decoder) {
    const std::int64_t rows = position_rows(is_decoder);
    switch (code().positions) {
      case position_table::learned:
      case position_table::learned_behind_two:
        made.positions = table_module(rows, model.hidden_size, trains_all());
        return;
      case position_table::frozen_sinusoids:
        made.positions = table_module(rows, model.hidden_size, false);
        return;
      case position_table::counted_sinusoids:
        break;
    }
    made.sinusoids = sinusoids(model.sinusoid_rows);
    add_buffer(made.sinusoids);
  }
  constexpr value sinusoids(std::int64_t rows) {
    const auto charged = t.charge(purpose::buffers);
    const std::int64_t half = model.hidden_size / 2;
    value steps = compute(t, full(t, sizes{half}, element::int64), sizes{half}, element::fp32);
    steps = compute(t, steps, sizes{half}, element::fp32);
    if (model.audio.num_mel_bins == 0) steps = compute(t, steps, sizes{half}, element::fp32);
    value numbers = full(t, sizes{rows}, element::int64);
    if (model.audio.num_mel_bins == 0) numbers = compute(t, numbers, sizes{rows}, element::fp32);
    const value angles = compute(t, {&*numbers, &*steps}, {rows, half}, element::fp32);
    numbers.drop();
    if (model.audio.num_mel_bins == 0) steps.drop();
    const value sines = compute(t, angles, {rows, half}, element::fp32);
    const value cosines = compute(t, angles, {rows, half}, element::fp32);
    return compute(t, {&*sines, &*cosines}, {rows, model.hidden_size}, element::fp32);
  }
  constexpr void initialize_positions(const stack& made) {
    if (code().positions == position_table::frozen_sinusoids)
      t.touch(t.parameters[made.positions.weight].data.bytes());
    if (code().positions == position_table::counted_sinusoids)
      static_cast<void>(sinusoids(model.sinusoid_rows));
  }
  constexpr block build_block(bool is_decoder, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = is_decoder && model.decoder.intermediate_size != 0
                                 ? model.decoder.intermediate_size
                                 : model.intermediate_size;
    block made;
    made.is_decoder = is_decoder;
    made.self = built(trains, {&its::key, &its::value, &its::query, &its::out});
    made.self.before_attention = norm_module(width, trains);
    if (is_decoder) {
      made.cross = built(trains, {&its::key, &its::value, &its::query, &its::out});
      made.cross_norm = norm_module(width, trains);
    }
    made.self.up = layer_linear(operator_kind::up, {ffn, width}, true, trains);
    made.self.down = layer_linear(operator_kind::down, {width, ffn}, true, trains);
    made.self.before_mlp = norm_module(width, trains);
    return made;
  }
  constexpr virtual void build_head() {
    if (code().adds_logits_bias) {
      const auto charged = t.charge(purpose::buffers);
      logits_bias_ = t.make({1, model.vocab_size}, element::fp32, {"bias of logits"});
      add_buffer(logits_bias_);
    }
    head_ = head_module(shared_);
  }

  // -- the stacks

  /// The decoder's tokens: the labels, behind a first one.
  constexpr value shifted_labels() {
    const std::int64_t batch = labels_->size[0];
    const std::int64_t count = labels_->count();
    const std::int64_t moved = 8 * batch * (labels_->size[1] - 1);
    value shifted = t.make(labels_->size, element::int64);
    if (!code().starts_with_last_label) {
      t.touch(moved);
      t.touch(count);
      return shifted;
    }
    t.touch(count);
    value last;
    {
      value sums;
      {
        const value seen = full(t, labels_->size, element::boolean);
        sums = compute(t, seen, sizes{batch}, element::int64);
      }
      last = compute(t, sums, sizes{batch}, element::int64);
    }
    const value starts = compute(t, last, sizes{batch}, element::int64);
    t.touch(moved);
    return shifted;
  }

  /// Rows of the token table, times a number.
  constexpr value scaled_rows(const tensor& ids) {
    if (code().scales_behind_table) return scale(t, embed_tokens(ids, shared_));
    value rows = scale(t, rows_of(ids, shared_));
    if (setup.recompute == recompute_mode::full) t.require_gradient(rows.get());
    return rows;
  }

  constexpr virtual value encode() {
    const stack& by = stacks_[0];
    const std::int64_t batch = ids_->size[0];
    const std::int64_t tokens = ids_->size[1];
    const value embedded = scaled_rows(ids_);
    const value places = encoder_positions(by, embedded);
    value hidden = add(t, embedded, places);
    if (model.embedding_norm) hidden = norm(hidden, by.embedding_norm);
    hidden = dropout(t, hidden, drops);
    const value mask = mask_of(batch, tokens, tokens, embedded->format, false);
    for (std::int64_t at = 0; at < model.num_hidden_layers; ++at) {
      beside[the_mask] = mask;
      beside[the_encoded] = {};
      beside[the_cross_mask] = {};
      hidden = run_layer(at, hidden);
    }
    if (model.final_norm) hidden = norm(hidden, by.last_norm);
    return hidden;
  }
  constexpr value encoder_positions(const stack& by, const tensor& embedded) {
    const sizes all{embedded.size[0], embedded.size[1]};
    if (by.sinusoids->defined()) return counted_positions(by, all);
    const value numbers = full(t, sizes{all[1]}, element::int64);
    if (code().positions != position_table::learned_behind_two)
      return rows_of(numbers, by.positions);
    const value moved = compute(t, numbers, all, element::int64);
    return rows_of(moved, by.positions);
  }
  /// Sinusoids of the tokens that are no padding, in their order.
  constexpr value counted_positions(const stack& by, const sizes& all) {
    constexpr element int32 = element::fp32;  // of as many bytes
    value numbers;
    {
      const value is_token = compute(t, full(t, all, element::boolean), all, int32);
      value counted = t.make(all, element::int64);
      {
        const value wide = t.make(all, element::int64);
        t.executes({&*is_token, &*counted}, {.kernels = 2});
        if (all[0] == 1) t.touch(256 + tile_states(all.count(), 896, 16));  // CUB's scan
      }
      counted = compute(t, counted, all, int32);
      counted = compute(t, counted, all, int32);
      counted = compute(t, {&*counted, &*is_token}, all, int32);
      const value wide = compute(t, counted, all, element::int64);
      numbers = compute(t, wide, all, element::int64);
    }
    return compute(
        t, {&*by.sinusoids, &*numbers}, {all[0], all[1], model.hidden_size}, by.sinusoids->format);
  }

  constexpr virtual value decode(const tensor& ids, const tensor& encoded) {
    const stack& by = stacks_[1];
    const std::int64_t batch = ids.size[0];
    const std::int64_t tokens = ids.size[1];
    // BlenderbotSmallDecoder scales nothing.
    value embedded = code().norms_before_positions ? embed_tokens(ids, shared_) : scaled_rows(ids);
    value numbers;
    if (!by.sinusoids->defined()) numbers = shifted_range(tokens);
    value ones = full(t, {batch, tokens}, element::fp32);
    const value mask = decoder_mask(batch, tokens, embedded->format);
    if (!code().keeps_first_mask) ones.drop();
    const value cross_mask = mask_of(batch, tokens, encoded.size[1], encoded.format, false);
    value places;
    if (by.sinusoids->defined())
      places = counted_positions(by, {batch, tokens});
    else
      places = decoder_positions(by, numbers);
    if (code().keeps_first_mask && !by.sinusoids->defined()) numbers.drop();
    value hidden;
    if (code().norms_before_positions) {
      embedded = norm(embedded, by.embedding_norm);
      hidden = add(t, embedded, places);
    } else {
      hidden = add(t, embedded, places);
      if (model.embedding_norm) hidden = norm(hidden, by.embedding_norm);
    }
    hidden = dropout(t, hidden, drops);
    hidden = run_decoder_layers(std::move(hidden), mask, encoded, cross_mask);
    if (model.final_norm) hidden = norm(hidden, by.last_norm);
    return hidden;
  }
  constexpr value run_decoder_layers(value hidden,
                                     const tensor& mask,
                                     const tensor& encoded,
                                     const tensor& cross_mask) {
    for (std::int64_t at = model.num_hidden_layers; at < model.layers(); ++at) {
      beside[the_mask] = mask;
      beside[the_encoded] = encoded;
      beside[the_cross_mask] = cross_mask;
      hidden = run_layer(at, hidden);
    }
    return hidden;
  }
  constexpr value decoder_positions(const stack& by, const tensor& numbers) {
    if (code().positions != position_table::learned_behind_two)
      return rows_of(numbers, by.positions);
    const value moved = compute(t, numbers, {1, numbers.size[0]}, element::int64);
    return rows_of(moved, by.positions);
  }
  /// What a mask of ones says, which the decoder makes.
  constexpr value decoder_mask(std::int64_t batch, std::int64_t tokens, element format) {
    reads_whole_mask = true;
    value mask = mask_of(batch, tokens, tokens, format, true);
    reads_whole_mask = false;
    return mask;
  }

  // -- a layer

  constexpr value layer(int index, const tensor& input) override {
    const block& by = blocks_[index];
    attended made = attend_to(by.self, by.self.before_attention, input, {}, beside[the_mask]);
    value hidden = std::move(made.output);
    if (by.is_decoder) {
      made =
          attend_to(by.cross, by.cross_norm, hidden, beside[the_encoded], beside[the_cross_mask]);
      hidden = std::move(made.output);
    }
    return feed_forward(by.self, hidden);
  }
  constexpr attended attend_to(const layer_modules& by,
                               const nn_module& norm_by,
                               const tensor& x,
                               const tensor& encoded,
                               const tensor& mask) {
    attended made;
    if (norms_before())
      made = attention_of(by, norm(x, norm_by), encoded, mask);
    else
      made = attention_of(by, x, encoded, mask);
    made.output = add(t, x, dropout(t, made.output, drops));
    if (!norms_before()) made.output = norm(made.output, norm_by);
    return made;
  }
  // BartAttention
  constexpr virtual attended attention_of(const layer_modules& by,
                                          argument given,
                                          const tensor& encoded,
                                          const tensor& mask) {
    const held x(given);
    const tensor& read = encoded.defined() ? encoded : x;
    const value q = heads_of(linear(x, by.query));
    value k = linear(read, by.key);
    value v = linear(read, by.value);
    k = heads_of(k);
    v = heads_of(v);
    constexpr eager_attention_options products{.softmax_in_fp32 = false, .casts_weights = false};
    attended made = attend(q, k, v, mask, false, products);
    made.output = view(t, made.output, x.size);
    made.output = linear(made.output, by.out);
    return made;
  }
  constexpr value feed_forward(const layer_modules& by, const tensor& x) {
    value hidden;
    if (norms_before())
      hidden = norm(x, by.before_mlp);
    else
      hidden = t.share(x);
    hidden = act(linear(hidden, by.up));
    hidden = dropout(t, hidden, drops_activation);
    hidden = linear(hidden, by.down);
    hidden = add(t, x, dropout(t, hidden, drops));
    if (!norms_before()) hidden = norm(hidden, by.before_mlp);
    return hidden;
  }

  nn_module shared_{}, head_{};
  stack stacks_[2]{};
  value logits_bias_{};
  growing_array<block> blocks_{};
};

}  // namespace gpuplan::eager

#pragma once

// torchtitan's decoders as they are in 0.3: Llama 3, and Qwen3 where heads of query and key have
// norms. Those with experts are made from them. Private.

#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/operators/pieces.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/explicit_collectives.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Table and head are units of sharding beside the layers: the table alone, the head with the norm
/// before it; tied, all three. `Module.parallelize` parts what was tied, so that each of the two is
/// gathered by itself.
class torchtitan_decoder : public model_code {
 public:
  constexpr torchtitan_decoder(tape& on, const training_setup& of, const batch_plan& with)
      : model_code(on, of, with),
        own_(of),
        ranks_(on, of.parallelism.tensor_parallel),
        context_(on, of.parallelism.context_parallel),
        is_tied_(model.has_tied_head()) {
    t.recompute_to_the_end();
    layers = own_.layers_in_all();
  }
  constexpr ~torchtitan_decoder() override { delete[] angles_; }

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    first_unit_ = static_cast<int>(layers);
    last_unit_ = is_tied_ ? first_unit_ : first_unit_ + 1;
    t.end_layers_at(first_unit_);
    angles_ = new value[static_cast<unsigned long>(layers)];
    for (std::int64_t chunk = 0; chunk < setup.parallelism.virtual_pipeline; ++chunk) {
      if (is_stage()) held_chunks.push({modules_.size(), t.parameters.size()});
      if (own_.is_first(chunk)) {
        const auto built = t.building_unit(first_unit_);
        table_ = token_table(ranks_.part_of(model.vocab_size), width, trains_all());
      }
      for (const std::int64_t last = modules_.size() + own_.layers_of(chunk).size();
           modules_.size() < last;) {
        const std::int64_t at = modules_.size();
        const auto built = t.building_unit(at);
        layer_modules made;
        build_layer(made, at, trains_layer(at));
        modules_.push(made);
      }
      if (!own_.is_last(chunk)) continue;
      const auto built = t.building_unit(last_unit_);
      norm_ = norm_module(width, trains_final_norm());
      if (!is_tied_)
        head_ = linear_module(
            operator_kind::head, ranks_.part_of(model.vocab_size), width, false, trains_head());
    }
  }

  /// It was built in its parts. Ranks have the norms' gradients of their own tokens or heads, which
  /// are summed as wide as they are added up. gpt-oss' sinks and biases, of which ranks have parts,
  /// count as norms: no peak that was measured tells them apart.
  constexpr void divide_among_ranks() override {
    for (int at = 0; at < t.parameters.size(); ++at) {
      parameter_record& parameter = t.parameters[at];
      parameter.is_distributed = true;
      parameter.casts_whole_gradient = parameter.sums_whole_gradient =
          parameter.data.size.rank == 1;
    }
  }

  /// Once the model has memory, the tables of angles are made anew.
  constexpr void cast_model() override {
    move_model();
    // The head's memory stays; nobody lets go of the table's before the first forward.
    const int stale = is_tied_ ? renew(table_.weight) : none;
    int buffer = 0;
    for (std::int64_t at = 0; at < layers; ++at) {
      angles_[at] = new_angles();
      t.buffers[buffer++] = *angles_[at];
      renew_buffers(modules_[static_cast<int>(at)], buffer);
    }
    t.release(stale);
    if (!is_tied_) return;
    const bool is_shared = t.parameters[table_.weight].whole.defined();
    head_.weight = is_shared ? t.add_twin(table_.weight) : table_.weight;
    name(head_, "head");
  }

  /// Each micro-batch has its own.
  constexpr void make_batch() override {}
  /// What the graph of a step reads, into which each micro-batch and the number of all tokens is
  /// copied; and where its random numbers begin.
  constexpr void make_leftovers() override {
    if (!setup.graphs.iteration) return;
    const auto charged = t.charge(purpose::buffers);
    for (int at = 0; at < 3; ++at)
      read_by_graph_.push(t.make({plan.micro_batch, own_tokens()}, element::int64));
    make_masks(read_by_graph_);
    const int scalars = setup.recompute != recompute_mode::none ? 3 : 1;
    for (int at = 0; at < scalars; ++at) read_by_graph_.push(t.make(sizes{1}, element::int64));
  }

  /// All micro-batches of a pipeline's step are there from its beginning; no pass makes its own.
  constexpr void stage_begins() override {
    const auto charged = t.charge(purpose::buffers);
    forget_tokens();
    for (std::int64_t at = 0; at < plan.accumulation; ++at) make_tokens();
    for (std::int64_t at = 0; at < plan.accumulation; ++at) {
      make_masks(read_by_stage_);
      if (context_.is_on()) take_own_tokens(read_by_stage_);
    }
  }
  constexpr void stage_is_done() override { read_by_stage_.drop(); }

  constexpr value forward() override {
    make_micro_batch();
    return forward_stage(0, {});
  }
  constexpr value forward_stage(int chunk, const tensor& received) override {
    t.begin(moment::forward);
    value x;
    if (own_.is_first(chunk)) {
      enter_unit(first_unit_, nullptr, 0);
      x = embedded();
      if (!is_tied_) leave_unit(first_unit_, x);
    } else {
      x = t.share(received);
    }
    const std::int64_t first = is_stage() ? held_chunks[chunk].layer : 0;
    for (std::int64_t at = first; at < first + own_.layers_of(chunk).size(); ++at)
      x = run_layer(at, x);
    if (!own_.is_last(chunk)) return x;
    t.begin(moment::loss);
    if (!is_tied_) enter_unit(last_unit_, &x, 1);
    x = norm(x, norm_);
    x = ranks_.gather(x);
    if (chunks() == 0) x = linear(x, head_);
    leave_unit(last_unit_, x);
    return x;
  }
  constexpr value outer_loss(const tensor& result) override {
    value loss;
    if (chunks() != 0) {
      loss = chunked_loss(result);
    } else {
      const value numbers = view(t, labels(), sizes{labels().count()});
      loss = loss_of(result, numbers);
    }
    if (!is_stage()) loss_ = t.share(loss);
    return loss;
  }

 protected:
  struct layer_modules {
    nn_module qkv{}, out{}, query_norm{}, key_norm{}, gate{}, down{}, up{};
    nn_module attention_norm{}, mlp_norm{};
    // of latent attention, whose query is `qkv`
    nn_module query_down{}, key_value_down{}, key_value_up{};
    int sinks = none;    // of heads
    int mixture = none;  // its place among those of experts
  };

  [[nodiscard]] constexpr std::int64_t chunks() const {
    return setup.framework.implementation.loss_chunks;
  }
  /// Of a pipeline.
  [[nodiscard]] constexpr bool is_stage() const { return setup.parallelism.pipeline_parallel > 1; }
  /// Of a layer of this rank, its number among all.
  [[nodiscard]] constexpr std::int64_t number_of(std::int64_t at) const {
    int chunk = held_chunks.size() - 1;
    while (chunk > 0 && held_chunks[chunk].layer > at) --chunk;
    if (chunk < 0) return at;
    return own_.layers_of(chunk).first + at - held_chunks[chunk].layer;
  }
  [[nodiscard]] constexpr bool has_head_norms() const {
    return model.qk_norm != qk_norm_scope::none;
  }
  [[nodiscard]] constexpr virtual bool rotates_halves() const { return has_head_norms(); }
  [[nodiscard]] constexpr std::int64_t rotated_width() const {
    return model.is_latent() ? model.mla.qk_rope_head_dim : model.query_dim();
  }
  // Complex numbers for pairs of neighbours, or cosines and sines of halves.
  [[nodiscard]] constexpr std::int64_t angles_of_token() const {
    return rotates_halves() ? 2 * rotated_width() : rotated_width() / 2;
  }
  [[nodiscard]] constexpr element table_format() const {
    return rotates_halves() ? element::fp32 : element::complex64;
  }

  constexpr value new_angles() {
    const auto charged = t.charge(purpose::buffers);
    const sizes half{setup.sequence_length, rotated_width() / 2};
    const sizes whole{setup.sequence_length, rotated_width()};
    const value of_pairs = t.make(half, element::fp32);
    // of halves, all angles
    const value ones = t.make(rotates_halves() ? whole : half, element::fp32);
    value cosines, sines;
    if (rotates_halves()) {
      cosines = t.make(whole, element::fp32);
      sines = t.make(whole, element::fp32);
    }
    return t.make({setup.sequence_length, angles_of_token()}, table_format());
  }
  /// Those of a layer beside its angles, once the model has memory, from this place on among the
  /// tape's.
  constexpr virtual void renew_buffers(const layer_modules& /*of*/, int& /*at*/) {}

  constexpr virtual void build_layer(layer_modules& made, std::int64_t at, bool trains) {
    build_angles(at);
    build_attention(made, trains);
    build_feed_forward(made, at, trains);
    build_norms(made, trains);
  }
  constexpr void build_angles(std::int64_t at) {
    angles_[at] = t.charge(purpose::buffers)
                      ->make({setup.sequence_length, angles_of_token()}, table_format());
    add_numbers(angles_[at]);
  }
  constexpr void build_norms(layer_modules& made, bool trains) {
    made.attention_norm = norm_module(model.hidden_size, trains);
    made.mlp_norm = norm_module(model.hidden_size, trains);
  }
  constexpr virtual void build_attention(layer_modules& made, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = own_heads();
    made.qkv = linear_module(
        operator_kind::query, (heads + 2 * own_groups()) * head, width, false, trains);
    made.out = linear_module(operator_kind::attention_output, width, heads * head, false, trains);
    if (!has_head_norms()) return;
    made.query_norm = norm_module(head, trains);
    made.key_norm = norm_module(head, trains);
  }
  constexpr virtual void build_feed_forward(layer_modules& made, std::int64_t /*at*/, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = ranks_.part_of(model.intermediate_size);
    made.gate = linear_module(operator_kind::gate, ffn, width, false, trains);
    made.down = linear_module(operator_kind::down, width, ffn, false, trains);
    made.up = linear_module(operator_kind::up, ffn, width, false, trains);
  }

  constexpr void enter_unit(int unit, value* inputs, int count) {
    if (shards != nullptr) shards->before_unit(unit, inputs, count);
  }
  constexpr void leave_unit(int unit, const tensor& result) {
    if (shards != nullptr) shards->after_unit(unit, result);
  }

  // Ids and positions of all micro-batches live to the end of the step, in a pipeline labels too;
  // the loss of the last one to the end of the present one.
  constexpr void forget_tokens() {
    last_loss_.drop();
    ids_.drop();
    positions_.drop();
    labels_.drop();
    tokens_in_all_ = t.make(sizes{1}, element::int64);
    tokens_in_all_.get().size.rank = 0;
  }
  constexpr void make_tokens() {
    const sizes all{plan.micro_batch, setup.sequence_length};
    ids_.push(t.make(all, element::int64));
    positions_.push(t.make(all, element::int64));
    value labels = t.make(all, element::int64);
    if (!is_stage()) labels_.drop();
    labels_.push(std::move(labels));
  }
  constexpr void make_micro_batch() {
    const auto charged = t.charge(purpose::buffers);
    if (++micro_ == plan.accumulation) micro_ = 0;
    last_loss_ = std::move(loss_);
    if (micro_ == 0) forget_tokens();
    make_tokens();
    held_tensors masks(t);
    make_masks(masks);
    if (context_.is_on()) take_own_tokens(masks);
    for (int at = 0; at < masks.size(); ++at) t.hold_with_graph(masks[at]);
  }
  // What the layers and the loss read of a micro-batch: of a context rank copies of its tokens, the
  // first and the last part of each sequence that ranks pair (headtail).
  constexpr void take_own_tokens(held_tensors& made) {
    const int first = made.size();
    for (int at = 0; at < 3; ++at)
      made.push(t.make({plan.micro_batch, own_tokens()}, element::int64));
    own_ids_ = made[first];
    own_labels_ = made[first + 1];
    own_positions_ = made[first + 2];
  }
  [[nodiscard]] constexpr std::int64_t own_tokens() const {
    return setup.sequence_length / setup.parallelism.context_parallel;
  }
  [[nodiscard]] constexpr tensor ids() const { return context_.is_on() ? own_ids_ : ids_[micro_]; }
  [[nodiscard]] constexpr tensor positions() const {
    return context_.is_on() ? own_positions_ : positions_[micro_];
  }
  [[nodiscard]] constexpr tensor labels() const {
    return context_.is_on() ? own_labels_ : labels_[labels_.size() - 1];
  }
  // Where documents end, and which blocks of queries and keys see each other at all, partly or
  // whole, by query and by key.
  constexpr virtual void make_masks(held_tensors& made) {
    const std::int64_t rows = plan.micro_batch;
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t blocks = ceil_div(tokens, 128);
    const auto make = [&](const sizes& size) { made.push(t.make(size, element::int32, {"mask"})); };
    if (rows == 1) {
      make(sizes{tokens});
      make(sizes{round_up(tokens + 1, 128)});
    } else {
      make({rows, tokens});
    }
    t.executes(rows * tokens * 100, {.kernels = 20});
    if (context_.is_on()) {
      // in which order ranks have the tokens, and the blocks of a rank's queries
      make(sizes{tokens});
      const std::int64_t own = ceil_div(own_tokens(), 128);
      for (int at = 0; at < 2; ++at) {
        make({rows, own});
        make({rows, own, blocks});
        make({rows, blocks});
        make({rows, blocks, own});
      }
      return;
    }
    for (int at = 0; at < 4; ++at) {
      make({rows, blocks});
      make({rows, blocks, blocks});
    }
    t.executes(rows * blocks * blocks * 100, {.kernels = 12});
  }

  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = modules_[index];
    const value x = add(t, input, attention(by, norm(input, by.attention_norm), index));
    return add(t, x, feed_forward(by, norm(x, by.mlp_norm)));
  }
  constexpr value embedded() {
    if (!ranks_.is_on()) return rows_of(ids(), table_);
    const value rows = ranks_.embed(ids(), table_.weight);
    return ranks_.scatter(rows);
  }
  [[nodiscard]] constexpr std::int64_t own_heads() const {
    return ranks_.part_of(model.num_attention_heads);
  }
  [[nodiscard]] constexpr std::int64_t own_groups() const {
    return ranks_.part_of(model.key_value_heads());
  }

  constexpr virtual value attention(const layer_modules& by, argument given, int index) {
    value q, k, v;
    {
      const held normed(given);
      const value x = ranks_.gather(normed);
      project(x, by, q, k, v);
      if (has_head_norms()) {
        q = norm(q, by.query_norm);
        k = norm(k, by.key_norm);
      }
      rotate(q, k, index);
      const value own_k = t.share(k);
      const value own_v = t.share(v);
      k = context_.gather(own_k);
      v = context_.gather(own_v);
      q = transpose(t, q, 1, 2);
      k = transpose(t, k, 1, 2);
      v = transpose(t, v, 1, 2);
      return summed(attend(q, k, v), by.out);
    }
  }
  /// By the rank's columns of a matrix: its tokens of the sum.
  constexpr value summed(argument given, const nn_module& by) {
    if (!ranks_.is_on()) return linear(given, by);
    const held x(given);
    const value part = linear(x, by);
    return ranks_.scatter(part);
  }
  /// FlexAttention of (batch, heads, tokens, width), to (batch, tokens, heads * width).
  constexpr value attend(const tensor& q, const tensor& k, const tensor& v) {
    const value y = flex_attention(t, q, k, v);
    const sizes flat{y->size[0], y->size[2], y->size[1] * y->size[3]};
    return view(t, transpose(t, y, 1, 2), flat);
  }
  // One product, whose parts are copied apart: a key-value head stands behind the heads of its
  // queries.
  constexpr void project(const tensor& x, const layer_modules& by, value& q, value& k, value& v) {
    const std::int64_t rows = x.size[0];
    const std::int64_t tokens = x.size[1];
    const std::int64_t head = model.query_dim();
    const std::int64_t groups = own_groups();
    const std::int64_t heads = own_heads();
    const value qkv = linear(x, by.qkv);
    const value grouped = view(t, qkv, {rows * tokens, groups, heads / groups + 2, head});
    growing_array<std::int64_t> lengths;
    for (const std::int64_t length : {heads / groups, std::int64_t{1}, std::int64_t{1}})
      lengths.push(length);
    held_tensors parts(t);
    cut(t, grouped, 2, lengths, parts);
    const auto apart = [&](int which, std::int64_t of) {
      return view(t, clone(t, parts[which]), {rows, tokens, of, head});
    };
    q = apart(0, heads);
    k = apart(1, groups);
    v = apart(2, groups);
  }

  // By a copy of the angles at the tokens' positions, which are held against their table's length.
  constexpr void rotate(value& q, value& k, int index) {
    const sizes tokens{q->size[0], q->size[1]};
    {
      const value fits = compute(t, positions(), tokens, element::boolean);
      const value all = t.make(sizes{1}, element::boolean);
      t.executes({&*fits, &*all}, {.kernels = 2});
    }
    const tensor at = positions();
    const value angles = compute(t,
                                 {&at, &*angles_[index]},
                                 {q->size[0], q->size[1], 1, angles_of_token()},
                                 table_format(),
                                 {"angles"});
    if (rotates_halves())
      rotate_halves(q, k, angles);
    else
      rotate_neighbours(q, k, angles);
  }
  constexpr void rotate_neighbours(value& q, value& k, const tensor& angles) {
    const auto complex = [&](const tensor& x) {
      sizes pairs = x.size;
      pairs[3] /= 2;
      return view_as(t, cast(t, x, element::fp32), pairs, element::complex64);
    };
    const auto turn = [&](const tensor& x, const tensor& as) {
      return view_as(t, multiply_complex(t, x, angles), as.size, element::fp32);
    };
    value turned_q, turned_k;
    {
      const value complex_q = complex(q);
      const value complex_k = complex(k);
      const value wide_q = turn(complex_q, q);
      const value wide_k = turn(complex_k, k);
      turned_q = cast(t, wide_q, q->format);
      turned_k = cast(t, wide_k, k->format);
    }
    q = std::move(turned_q);
    k = std::move(turned_k);
  }
  // query * cos + rotate_half(query) * sin, in fp32
  constexpr void rotate_halves(value& q, value& k, const tensor& angles) {
    tensor half = angles;
    half.size[3] /= 2;
    half.is_view = true;
    const auto turn = [&](const tensor& x) {
      const value straight = multiply(t, x, half);
      value turned = multiply(t, rotate_half(x), half);
      return add(t, straight, std::move(turned));
    };
    value turned_q, turned_k;
    {
      const value wide_q = cast(t, q, element::fp32);
      const value wide_k = cast(t, k, element::fp32);
      const value rotated_q = turn(wide_q);
      const value rotated_k = turn(wide_k);
      turned_q = cast(t, rotated_q, q->format);
      turned_k = cast(t, rotated_k, k->format);
    }
    q = std::move(turned_q);
    k = std::move(turned_k);
  }
  constexpr value rotate_half(const tensor& x) {
    const value first = slice(t, x, 3, x.size[3] / 2);
    const value second = slice(t, x, 3, x.size[3] / 2);
    return concatenate(t, scale(t, second), first, 3);
  }

  constexpr virtual value feed_forward(const layer_modules& by, argument given) {
    const held normed(given);
    const value x = ranks_.gather(normed);
    return gated(x, by.gate, by.up, by.down);
  }
  constexpr value gated(const tensor& x,
                        const nn_module& gate,
                        const nn_module& up,
                        const nn_module& down) {
    value hidden = activation(linear(x, gate));
    hidden = multiply(t, hidden, linear(x, up));
    return summed(hidden, down);
  }

  chunks_of_rank own_;
  explicit_collectives ranks_;    // of tensors, and of the tokens between layers
  explicit_collectives context_;  // of the tokens that attention reads

 private:
  // -- the loss

  // A sum, over the number of all ranks' tokens.
  constexpr value loss_of(const tensor& logits, const tensor& labels) {
    value flat = view(t, logits, {logits.size[0] * logits.size[1], logits.size[2]});
    value wide = cast(t, std::move(flat), element::fp32);
    if (!ranks_.is_on())
      return divide(t, cross_entropy(t, std::move(wide), labels), tokens_in_all_);
    value sum = ranks_.cross_entropy(wide, labels);
    wide.drop();
    return divide(t, std::move(sum), tokens_in_all_);
  }

  /// ChunkedLossWrapper: head, loss and their backward for one part of the sequences after the
  /// other, while the head stays whole; its gradient is reduced behind the last one. What arrives
  /// of the norm's result is put together in fp32.
  constexpr value chunked_loss(const tensor& hidden) {
    const sizes part{hidden.size[0], hidden.size[1] / chunks(), hidden.size[2]};
    const auto cut_off = [&](const tensor& of, sizes size) {
      tensor seen = of;
      seen.node = none;
      seen.size = size;
      seen.is_view = true;
      return contiguous(t, seen);
    };
    value total;
    value gradient;
    {
      held_tensors inputs(t), labels(t), positions(t);
      const sizes tokens{part[0], part[1]};
      for (std::int64_t at = 0; at < chunks(); ++at) inputs.push(cut_off(hidden, part));
      for (std::int64_t at = 0; at < chunks(); ++at) labels.push(cut_off(this->labels(), tokens));
      // which the loss does not read, and of a pipeline's is not given
      for (std::int64_t at = 0; at < chunks() && !is_stage(); ++at)
        positions.push(cut_off(this->positions(), tokens));
      const value sum = full(t, hidden.size, element::fp32, {"gradient of the head's input"});
      total = full(t, sizes{1}, element::fp32, {"loss"});
      if (shards != nullptr) shards->gather_unit(last_unit_);
      value logits;
      value loss;
      for (int at = 0; at < chunks(); ++at)
        run_chunk(inputs[at], labels[at], at + 1 == chunks(), sum, logits, loss, total);
      if (shards != nullptr) shards->free_unit(last_unit_);
      gradient = cast(t, sum, hidden.format);
    }
    const int by = t.add_node(hands_back_, {&hidden});
    t.keep(by, gradient);
    total.get().size.rank = 0;
    t.result_of(by, total.get());
    return total;
  }
  constexpr void run_chunk(const tensor& input,
                           const tensor& labels,
                           bool is_last,
                           const tensor& sum,
                           value& logits,
                           value& loss,
                           value& total) {
    parameter_record& head = t.parameters[head_.weight];
    const bool casts = head.casts_whole_gradient;
    const gathered_parameters gathering = t.gathering();
    head.casts_whole_gradient = true;
    t.take_gradients(gathering.first_gradients);
    const tape::graph_place place = t.begin_graph();
    value arrived;
    {
      const value leaf = t.leaf(input);
      logits = linear(leaf, head_);
      const value flat = view(t, labels, sizes{labels.count()});
      loss = loss_of(logits, flat);
      total = compute(t, {&*total, &*loss}, sizes{1}, element::fp32, {"loss"});
      const auto goes_back = t.going_back();
      const value root = t.make(loss->size, loss->format, {"gradient of the loss"});
      t.executes({&*loss, &*root});
      t.follow(loss, root, place.node);
      arrived = t.gradient_of(leaf);
      t.forget(place);
      logits.get().node = loss.get().node = none;
      if (is_last && shards != nullptr) shards->reduce_unit(last_unit_);
    }
    const auto goes_back = t.going_back();
    const value wide = cast(t, arrived, element::fp32);
    tensor part = sum;
    part.size = wide->size;
    t.executes({&*wide, &part}, {.is_strided = true});
    head.casts_whole_gradient = casts;
    t.take_gradients(gathering.first_gradients, gathering.takes_any_gradient);
  }
  struct hand_back final : own_backward {
    constexpr void run(tape& on, int by, const value*, gradients& out) const override {
      out.of[0] = on.share(on.kept_by(by, 0));
    }
  };

  hand_back hands_back_{};
  bool is_tied_;
  int first_unit_ = 0;
  int last_unit_ = 0;
  nn_module table_{}, norm_{}, head_{};
  growing_array<layer_modules> modules_{};
  value* angles_ = nullptr;  // by layer
  int micro_ = static_cast<int>(plan.accumulation) - 1;
  held_tensors ids_{t}, positions_{t};  // by micro-batch
  held_tensors labels_{t};              // of the present one; in a pipeline, of all
  held_tensors read_by_stage_{t};
  held_tensors read_by_graph_{t};
  tensor own_ids_{}, own_positions_{}, own_labels_{};  // of the present micro-batch
  value tokens_in_all_{};
  value loss_{}, last_loss_{};
};

}  // namespace gpuplan::eager

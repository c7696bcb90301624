#pragma once

// Megatron-Core's GPT on one rank: the layers of its pipeline stage, divided among tensor-parallel
// ranks. Tensors are (sequence, batch, hidden). Private.

#include <gpuplan/replay/model_code.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// The first tensor-parallel and data-parallel rank of a pipeline stage.
class megatron_gpt final : public model_code {
 public:
  constexpr megatron_gpt(tape& on, const training_setup& of, const batch_plan& with)
      : model_code(on, of, with),
        tp_(setup.parallelism.tensor_parallel),
        splits_(setup.parallelism.sequence_parallel && tp_ > 1),
        stages_(setup.parallelism.pipeline_parallel),
        half_(element_of(setup.precision.weights)) {
    const std::int64_t chunks = setup.parallelism.virtual_pipeline;
    per_chunk_ = layers / (stages_ * chunks);
    heads_ = model.num_attention_heads / tp_;
    groups_ = at_least(model.key_value_heads() / tp_, 1);
    if (model.key_value_heads() < tp_) heads_ = model.num_attention_heads / model.key_value_heads();
    linear_backward_.code = this;
    gather_backward_.code = this;
    spread_backward_.code = this;
    checkpoint_backward_.code = this;
  }
  constexpr ~megatron_gpt() override {}  // NOLINT(modernize-use-equals-default)

  // -- what is built

  constexpr void construct() override {
    const std::int64_t chunks = setup.parallelism.virtual_pipeline;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) build(chunk);
    // what was built on the host moves to the device, then everything is cast
    for (int at = 0; at < order_.size(); ++at) {
      tensor& data = t.parameters[order_[at]].data;
      t.what = purpose::weights;
      if (!data.defined()) data.storage = t.new_storage(data.bytes());
    }
    for (int at = 0; at < order_.size(); ++at) t.convert(t.parameters[order_[at]].data, half_);
    t.what = purpose::working;
  }
  constexpr void make_batch() override {}

  /// The parameters in the order of the model's modules; `first_of_chunk` is where a chunk begins.
  [[nodiscard]] constexpr const growing_array<int>& order() const { return order_; }
  [[nodiscard]] constexpr int first_of_chunk(int chunk) const {
    return chunk < chunks_.size() ? chunks_[chunk].first_parameter : order_.size();
  }
  /// The table that the first and last stage both have, or none.
  [[nodiscard]] constexpr int table_of_both_ends() const {
    if (stages_ == 1 || !model.has_tied_head()) return none;
    for (int at = 0; at < chunks_.size(); ++at) {
      const chunk_record& one = chunks_[at];
      if (one.is_first) return one.tokens.weight;
      if (one.is_last) return one.head.weight;
    }
    return none;
  }
  /// What is passed between stages.
  [[nodiscard]] constexpr sizes passed() const {
    return {setup.sequence_length / (splits_ ? tp_ : 1), plan.micro_batch, model.hidden_size};
  }
  [[nodiscard]] constexpr element format() const { return half_; }
  [[nodiscard]] constexpr bool is_last(int chunk) const { return chunks_[chunk].is_last; }
  /// Whether each tensor-parallel rank sees the parameter's gradient of a part of the sequence.
  [[nodiscard]] constexpr bool is_of_sequence_parts(int parameter) const {
    for (int at = 0; at < of_parts_.size(); ++at)
      if (of_parts_[at] == parameter) return true;
    return false;
  }

  // -- forward

  constexpr value forward() override { return forward_chunk(0, {}, nullptr); }

  /// What a batch leaves behind its forward.
  struct batch_end {
    value loss_mask{};
  };

  /// A micro-batch through a chunk: to its last hidden states, or to the losses of its tokens.
  constexpr value forward_chunk(int chunk, const tensor& received, batch_end* end) {
    chunk_record& by = chunks_[chunk];
    const sizes all{plan.micro_batch, setup.sequence_length};
    t.what = purpose::buffers;
    const value tokens = t.make(all, element::int64);
    const value labels = t.make(all, element::int64);
    value loss_mask = t.make(all, element::fp32);
    value mask;
    if (setup.padding_mask)
      mask = t.make({plan.micro_batch, 1, setup.sequence_length, setup.sequence_length},
                    element::boolean);
    const value positions = t.make(all, element::int64);
    t.what = purpose::working;
    value result = run_model(by, tokens, positions, mask, labels, received);
    if (end != nullptr) end->loss_mask = static_cast<value&&>(loss_mask);
    return result;
  }

 protected:
  // -- recomputation as the library does it, not the base

  constexpr value layer(int /*index*/, const tensor& /*x*/) override { return {}; }
  constexpr value core(const tensor& q, const tensor& /*k*/, const tensor& /*v*/) override {
    return t.share(q);
  }

 private:
  struct layer_modules {
    module norm_1, proj, qkv, norm_2, fc1, fc2;
  };
  struct chunk_record {
    bool is_first = false;
    bool is_last = false;
    int first_layer = 0;
    int first_parameter = 0;
    module tokens{}, positions{}, norm{}, head{};
    tensor angles{};
  };

  // -- modules

  // On the device, in the weights' format; or on the host in fp32.
  constexpr int on_device(const sizes& size) { return t.add_parameter(size, half_, true); }
  constexpr int on_host(const sizes& size) {
    parameter_record record;
    record.data.format = element::fp32;
    set_contiguous(record.data, size);
    return t.parameters.push(record);
  }
  constexpr module norm_on_host() {
    module made;
    made.weight = on_host(sizes{model.hidden_size});
    if (model.norm == norm_kind::layer_norm) made.bias = on_host(sizes{model.hidden_size});
    of_parts_.push(made.weight);
    if (made.bias != none) of_parts_.push(made.bias);
    return made;
  }
  constexpr module parallel_linear(std::int64_t out, std::int64_t in, bool bias) {
    module made;
    made.weight = on_device({out, in});
    if (bias) made.bias = on_device(sizes{out});
    return made;
  }
  constexpr void list(const module& one) {
    if (one.weight != none) order_.push(one.weight);
    if (one.bias != none) order_.push(one.bias);
  }

  constexpr void build(std::int64_t chunk) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t stage = setup.place.stage;
    chunk_record made;
    made.is_first = stage == 0 && chunk == 0;
    made.is_last = stage == stages_ - 1 && chunk == setup.parallelism.virtual_pipeline - 1;
    made.first_layer = modules_.size();
    made.first_parameter = order_.size();
    const std::int64_t vocabulary = model.vocab_size / tp_;
    if (made.is_first) {
      made.tokens.weight = on_device({vocabulary, width});
      if (model.position_rows != 0) made.positions.weight = on_host({model.position_rows, width});
    }
    list(made.tokens);
    list(made.positions);
    if (model.position_rows == 0) {
      value inverse;
      {
        // 1.0 / (base ** (arange(0, dim, 2) / dim))
        value range = t.make(sizes{head / 2}, element::fp32);
        value quotient = t.make(sizes{head / 2}, element::fp32);
        range.drop();
        value powers = t.make(sizes{head / 2}, element::fp32);
        quotient.drop();
        value reciprocal = t.make(sizes{head / 2}, element::fp32);
        powers.drop();
        inverse = t.make(sizes{head / 2}, element::fp32);
      }
      frequencies_.push(inverse.take());
    }
    for (std::int64_t at = 0; at < per_chunk_; ++at) {
      layer_modules one;
      const std::int64_t inner = model.num_attention_heads * head / tp_;
      const std::int64_t all =
          (model.num_attention_heads + 2 * model.key_value_heads()) * head / tp_;
      const std::int64_t ffn = model.intermediate_size / tp_;
      one.norm_1 = norm_on_host();
      one.proj = parallel_linear(width, inner, model.attention_out_bias);
      one.qkv = parallel_linear(all, width, model.attention_bias);
      one.norm_2 = norm_on_host();
      one.fc1 = parallel_linear(model.gated_mlp ? 2 * ffn : ffn, width, model.mlp_bias);
      one.fc2 = parallel_linear(width, ffn, model.mlp_bias);
      if (one.proj.bias != none) of_parts_.push(one.proj.bias);
      if (one.fc2.bias != none) of_parts_.push(one.fc2.bias);
      modules_.push(one);
      for (const module* each : {&one.norm_1, &one.proj, &one.qkv, &one.norm_2, &one.fc1, &one.fc2})
        list(*each);
    }
    if (made.is_last) {
      made.norm = norm_on_host();
      list(made.norm);
      if (model.has_tied_head() && made.is_first) {
        made.head = made.tokens;
      } else {
        made.head.weight = on_device({vocabulary, width});
        list(made.head);
      }
    }
    chunks_.push(made);
  }

  // -- functions with a backward of their own

  // A buffer that stays: scores are computed in it, sequences gathered into it.
  constexpr value shared_buffer(const sizes& size) {
    if (buffer_.count() < size.count()) {
      t.what = purpose::buffers;
      tensor larger;
      larger.format = half_;
      set_contiguous(larger, sizes{size.count()});
      larger.storage = t.new_storage(larger.bytes());
      t.release(buffer_.storage);
      buffer_ = larger;
      t.what = purpose::working;
    }
    tensor part = buffer_;
    set_contiguous(part, size);
    t.hold(part.storage);
    return {t, part};
  }

  // LinearWithGradAccumulationAndAsyncCommunication
  struct linear_backward final : own_backward {
    megatron_gpt* code = nullptr;
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
      on.touch(on.device.matrix_workspace);
      value part;
      if (gathers) part = on.make(input.size, input.format);
      value of_weight = on.make(weight.size, g.format);
      on.touch(on.device.matrix_workspace);
      value of_bias;
      if (on.nodes[index].inputs > 2 && on.nodes[index].input[2].node != none)
        of_bias = sum_to(on, flat(g), sizes{weight.size[0]});
      if (gathers)
        out.of[0] = static_cast<value&&>(part);
      else
        out.of[0] = static_cast<value&&>(of_input);
      out.of[1] = static_cast<value&&>(of_weight);
      out.of[2] = static_cast<value&&>(of_bias);
    }
  };
  static constexpr tensor flat(const tensor& of) {
    tensor seen = of;
    const std::int64_t width = of.size[of.size.rank - 1];
    set_contiguous(seen, {of.count() / width, width});
    return seen;
  }

  constexpr value parallel_product(const tensor& input, int weight, int bias, bool gathers) {
    const tensor w = t.parameter(weight);
    const tensor b = bias == none ? tensor{} : t.parameter(bias);
    const int by = t.add_node(node_kind::function, {&input, &w, &b});
    if (node* made = t.at(by)) {
      made->own = &linear_backward_;
      made->argument[0] = gathers ? 1 : 0;
    }
    t.keep(by, input);
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
      result = t.make(wanted, half_);
      t.touch(t.device.matrix_workspace);
      if (bias != none) result = t.make(wanted, half_);
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
    megatron_gpt* code = nullptr;
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      sizes whole = incoming[0]->size;
      whole[0] *= code->tp_;
      out.of[0] = on.make(whole, incoming[0]->format);
    }
  };
  constexpr value reduce_scatter(const tensor& of) {
    const int by = t.add_node(node_kind::function, {&of});
    if (node* made = t.at(by)) made->own = &gather_backward_;
    sizes part = of.size;
    part[0] /= tp_;
    value result = t.make(part, of.format);
    t.result_of(by, result.get());
    return result;
  }
  constexpr value scatter(const tensor& of) {
    const int by = t.add_node(node_kind::function, {&of});
    if (node* made = t.at(by)) made->own = &gather_backward_;
    tensor part = of;
    part.size[0] /= tp_;
    t.result_of(by, part);
    t.hold(part.storage);
    return {t, part};
  }

  constexpr value column_linear(const tensor& x, const module& by, bool adds_bias) {
    value input;
    if (splits_ || tp_ > 1)
      input = t.share(x);
    else
      input = pass_through(x);
    return parallel_product(input, by.weight, adds_bias ? by.bias : none, splits_);
  }
  constexpr value row_linear(const tensor& x, const module& by) {
    const value product = parallel_product(x, by.weight, none, false);
    if (splits_) return reduce_scatter(product);
    return pass_through(product);
  }

  // -- embedding

  // x[mask] = 0, in place
  struct zeroing_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      out.of[0] = on.make(incoming[0]->size, incoming[0]->format);
    }
  };
  constexpr value either(const sizes& size) {
    const value below = t.make(size, element::boolean);
    const value above = t.make(size, element::boolean);
    return t.make(size, element::boolean);
  }

  constexpr value embed_tokens(const tensor& ids, int weight, bool scatters) {
    value result;
    {
      value outside, inside;
      if (tp_ > 1) {
        outside = either(ids.size);
        const value copy = t.make(ids.size, element::int64);
        inside = t.make(ids.size, element::int64);
      } else {
        inside = t.share(ids);
      }
      value rows = embedding(t, inside, weight);
      if (tp_ > 1) {
        const int by = t.add_node(node_kind::function, {&*rows});
        if (node* made = t.at(by)) made->own = &zeroing_backward_;
        t.keep(by, outside);
        t.result_of(by, rows.get());
      }
      if (scatters) {
        {
          const value turned = transpose(t, rows, 0, 1);
          rows = contiguous(t, turned);
        }
        result = reduce_scatter(rows);
      } else {
        result = pass_through(rows);
      }
    }
    return result;
  }

  constexpr value embed(const chunk_record& by, const tensor& ids, const tensor& positions) {
    const bool scatters = splits_ && by.positions.weight == none;
    const value words = embed_tokens(ids, by.tokens.weight, scatters);
    value x;
    value of_positions;
    if (by.positions.weight != none) {
      of_positions = embedding(t, positions, by.positions.weight);
      x = add(t, words, of_positions);
    } else {
      x = t.share(words);
    }
    if (!scatters) {
      const value turned = transpose(t, x, 0, 1);
      x = contiguous(t, turned);
    }
    if (splits_) {
      if (!scatters) x = scatter(x);
      x = clone(t, x);
    }
    x = dropout(t, x, drops);
    return x;
  }

  // The angles of rotary positions, made once in each chunk.
  constexpr const tensor& angles(chunk_record& by) {
    if (by.angles.defined()) return by.angles;
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t head = model.query_dim();
    t.what = purpose::buffers;
    value products;
    {
      value positions;
      {
        const value range = t.make(sizes{tokens}, element::fp32);
        positions = t.make(sizes{tokens}, element::fp32);
      }
      products = t.make({tokens, head / 2}, element::fp32);
    }
    by.angles = t.make({tokens, 1, 1, head}, element::fp32).take();
    t.what = purpose::working;
    return by.angles;
  }

  // -- attention

  constexpr value table_of(const tensor& of_angles) {
    value wave;
    {
      const value plain = t.make(of_angles.size, element::fp32);
      wave = t.make(of_angles.size, element::fp32);
    }
    return cast(t, wave, half_);
  }
  // (t * cos) + (rotate_half(t) * sin), and nothing behind it
  constexpr value rotate(const tensor& input, const tensor& of_angles) {
    value front = pass_through(input);
    const int parts = t.add_node(node_kind::function, {&input});
    if (node* made = t.at(parts)) made->own = &empty_rest_backward_;
    tensor nothing = input;
    nothing.size[nothing.size.rank - 1] = 0;
    t.result_of(parts, nothing);
    const value cos = table_of(of_angles);
    const value sin = table_of(of_angles);
    {
      value left, right;
      left = multiply(t, front, cos);
      {
        value turned;
        {
          const int halves = split(t, front);
          const value first = part(t, halves, front, 3, front->size[3] / 2, 0);
          const value second = part(t, halves, front, 3, front->size[3] / 2, 1);
          const value negative = scale(t, second);
          turned = concatenate(t, negative, first, 3);
        }
        right = multiply(t, turned, sin);
      }
      front = add(t, left, right);
    }
    return concatenate(t, front, nothing, 3);
  }
  // The gradient of an empty slice: zeros of the whole.
  struct empty_rest_backward final : own_backward {
    constexpr void run(tape& on,
                       int index,
                       const value* /*incoming*/,
                       gradients& out) const override {
      const edge to = on.nodes[index].input[0];
      out.of[0] = on.make(on.nodes[to.node].size[to.output], on.nodes[to.node].format[to.output]);
    }
  };

  struct heads {
    value query{}, key{}, val{};
  };

  constexpr heads project(const tensor& x, const layer_modules& by) {
    const std::int64_t head = model.query_dim();
    heads made;
    value mixed = column_linear(x, by.qkv, true);
    const std::int64_t sequence = mixed->size[0];
    const std::int64_t batch = mixed->size[1];
    const std::int64_t each = heads_ / groups_;
    if (model.key_value_heads() < tp_) {
      // every rank gathers all heads, and takes the ones of its group
      const int by_gather = t.add_node(node_kind::function, {&*mixed});
      if (node* node_made = t.at(by_gather)) node_made->own = &spread_backward_;
      const std::int64_t own = mixed->size[2];
      value whole;
      {
        const value pieces = t.make({sequence * tp_, batch, own}, half_);
        whole = t.make({sequence, batch, own * tp_}, half_);
      }
      t.result_of(by_gather, whole.get());
      mixed = static_cast<value&&>(whole);
      mixed = slice(t, mixed, 2, own * tp_ / model.key_value_heads());
    }
    mixed = view(t, mixed, {sequence, batch, groups_, (each + 2) * head});
    const int parts = split(t, mixed);
    value query = part(t, parts, mixed, 3, each * head, 0);
    made.key = part(t, parts, mixed, 3, head, 1);
    made.val = part(t, parts, mixed, 3, head, 2);
    query = reshape(t, query, {sequence, batch, heads_, head});
    if (model.key_value_heads() < tp_)
      query = slice(t, query, 2, heads_ * model.key_value_heads() / tp_);
    made.query = static_cast<value&&>(query);
    return made;
  }
  // The way back of a gather along the last dimension.
  struct spread_backward final : own_backward {
    megatron_gpt* code = nullptr;
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const value pieces = on.make(sizes{g.count()}, g.format);
      sizes own = g.size;
      own[2] /= code->tp_;
      out.of[0] = on.make(own, g.format);
    }
  };

  // Keys and values for every head of the query, as a copy.
  constexpr value repeat_groups(const tensor& of, std::int64_t times) {
    const sizes s = of.size;
    tensor apart_tensor = of;
    apart_tensor.size[4] = s[3];
    apart_tensor.stride[4] = of.stride[3];
    apart_tensor.size[3] = 1;
    apart_tensor.stride[3] = of.stride[3] * s[3];
    apart_tensor.size.rank = 5;
    apart_tensor.is_view = true;
    const int by = t.add_node(node_kind::view, {&of});
    if (node* made = t.at(by)) made->size[1] = s;
    t.result_of(by, apart_tensor);
    t.hold(apart_tensor.storage);
    value apart(t, apart_tensor);
    const value wide = expand(t, apart, {s[0], s[1], s[2], times, s[3]});
    apart.drop();
    const value copy = clone(t, wide);
    return view(t, copy, {s[0], s[1], s[2] * times, s[3]});
  }

  // A product into a buffer that is there: baddbmm with beta 0.
  struct scaled_product_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      for (int which = 0; which < 2; ++which) {
        const tensor& other = on.kept_by(index, 1 - which);
        sizes wanted = g.size;
        if (which == 0)
          wanted[2] = other.size[1];
        else
          wanted[1] = other.size[2];
        const value product = on.make(wanted, g.format);
        on.touch(on.device.matrix_workspace);
        out.of[which] = on.make(wanted, g.format);
      }
    }
  };
  constexpr value scaled_product(const tensor& query, const tensor& turned_key) {
    const int by = t.add_node(node_kind::function, {&query, &turned_key});
    if (node* made = t.at(by)) made->own = &scaled_product_backward_;
    t.keep(by, query);
    t.keep(by, turned_key);
    value result = t.make({query.size[0], query.size[1], turned_key.size[2]}, half_);
    t.touch(t.device.matrix_workspace);
    t.result_of(by, result.get());
    return result;
  }
  // The mask's fill in place, in a view of the scores: the way back copies the gradient first.
  struct fill_in_view_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      value whole = on.make(g.size, g.format);
      const value piece = on.make(g.size, g.format);
      const value filled = on.make(g.size, g.format);
      out.of[0] = static_cast<value&&>(whole);
    }
  };

  constexpr value causal_mask() {
    const sizes square{setup.sequence_length, setup.sequence_length};
    value upper;
    {
      const value ones = t.make(square, element::fp32);
      upper = t.make(square, element::fp32);
    }
    return t.make(square, element::boolean);
  }

  constexpr value written_out_core(const tensor& q,
                                   const tensor& k,
                                   const tensor& v,
                                   const tensor& given_mask) {
    const std::int64_t batch = q.size[1];
    const std::int64_t count = q.size[2];
    const std::int64_t tokens = q.size[0];
    const std::int64_t head = q.size[3];
    value key = t.share(k);
    value val = t.share(v);
    if (count != k.size[2]) {
      key = repeat_groups(key, count / k.size[2]);
      val = repeat_groups(val, count / v.size[2]);
    }
    value query = reshape(t, q, {tokens, batch * count, head});
    key = view(t, key, {tokens, batch * count, head});
    const value place = shared_buffer({batch * count, tokens, tokens});
    value product;
    {
      const value left = transpose(t, query, 0, 1);
      value right;
      {
        const value turned = transpose(t, key, 0, 1);
        right = transpose(t, turned, 1, 2);
      }
      product = scaled_product(left, right);
    }
    const sizes square{batch, count, tokens, tokens};
    value scores = view(t, product, square);
    value probabilities = masked_softmax(scores, product, given_mask);
    probabilities = dropout(t, probabilities, drops);
    val = view(t, val, {tokens, batch * count, head});
    probabilities = view(t, probabilities, {batch * count, tokens, tokens});
    value context;
    {
      const value turned = transpose(t, val, 0, 1);
      context = product_of(probabilities, turned);
    }
    context = view(t, context, {batch, count, tokens, head});
    {
      value turned;
      {
        const value first = transpose(t, context, 0, 2);
        turned = transpose(t, first, 1, 2);
      }
      context = contiguous(t, turned);
    }
    return view(t, context, {tokens, batch, count * head});
  }
  constexpr value product_of(const tensor& a, const tensor& b) {
    const int by = t.add_node(node_kind::bmm, {&a, &b});
    if (b.needs_gradient()) t.keep(by, a);
    if (a.needs_gradient()) t.keep(by, b);
    if (node* made = t.at(by)) {
      made->argument[0] = a.size[0];
      made->argument[1] = a.size[1];
      made->argument[2] = a.size[2];
      made->argument[3] = b.size[2];
    }
    value result = t.make({a.size[0], a.size[1], b.size[2]}, a.format);
    t.touch(t.device.matrix_workspace);
    t.result_of(by, result.get());
    return result;
  }
  constexpr value masked_softmax(value& scores, value& product, const tensor& given_mask) {
    value wide = t.share(scores);
    if (setup.framework.softmax_in_fp32) wide = cast(t, wide, element::fp32);
    value mask;
    if (given_mask.defined())
      mask = t.share(given_mask);
    else
      mask = causal_mask();
    if (setup.framework.softmax_in_fp32) {
      // masked_fill_ of the copy
      const int by = t.add_node(node_kind::mask_fill, {&*wide});
      t.keep(by, mask);
      t.result_of(by, wide.get());
    } else {
      const int by = t.add_node(node_kind::function, {&*product});
      if (node* made = t.at(by)) made->own = &fill_in_view_backward_;
      t.keep(by, mask);
      t.result_of(by, product.get());
      wide = view(t, product, scores->size);
    }
    value probabilities = softmax(t, wide, wide->format);
    if (setup.framework.softmax_in_fp32) probabilities = cast(t, probabilities, half_);
    return probabilities;
  }

  // By a kernel that takes (batch, heads, sequence, head).
  constexpr value kernel_core(const tensor& q, const tensor& k, const tensor& v) {
    const auto turned = [&](const tensor& x) {
      const value first = transpose(t, x, 0, 2);  // (heads, batch, sequence, head)
      return transpose(t, first, 0, 1);
    };
    value out;
    {
      const value query = turned(q);
      const value key = turned(k);
      const value val = turned(v);
      out = flash_attention(t, query, key, val, drops);
    }
    // in memory it follows the query: (sequence, batch, heads, head)
    tensor& seen = out.get();
    const sizes s = seen.size;
    seen.stride[3] = 1;
    seen.stride[1] = s[3];
    seen.stride[0] = s[3] * s[1];
    seen.stride[2] = s[3] * s[1] * s[0];
    {
      value back;
      {
        const value first = transpose(t, out, 0, 2);  // (sequence, heads, batch, head)
        back = transpose(t, first, 1, 2);
      }
      out = contiguous(t, back);
    }
    return view(t, out, {s[2], s[0], s[1] * s[3]});
  }

  constexpr value attend(const tensor& q, const tensor& k, const tensor& v, const tensor& mask) {
    if (setup.attention == attention_kernel::written_out) return written_out_core(q, k, v, mask);
    return kernel_core(q, k, v);
  }

  constexpr value attention(const tensor& x,
                            const layer_modules& by,
                            const tensor& mask,
                            const tensor& of_angles) {
    const heads first = project(x, by);
    value query = t.share(first.query);
    value key = t.share(first.key);
    if (of_angles.defined()) {
      query = rotate(query, of_angles);
      key = rotate(key, of_angles);
    }
    value context;
    if (setup.recompute == recompute_mode::selective) {
      const tensor inputs[] = {*query, *key, *first.val, mask};
      context = checkpoint(inputs, 4, core_region, core_region);
    } else {
      context = attend(query, key, first.val, mask);
    }
    return row_linear(context, by.proj);
  }

  // -- MLP

  // y + b, then x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
  constexpr value fused_gelu(const tensor& y, int bias) {
    const tensor b = t.parameter(bias);
    const int by = t.add_node(node_kind::function, {&y, &b});
    if (node* made = t.at(by)) made->own = &fused_gelu_backward_;
    t.keep(by, y);
    t.keep(by, b);
    const auto like = [&] { return t.make(y.size, y.format); };
    value result;
    {
      const value x = like();
      const value half_x = like();
      value inner = like();
      {
        value scaled = like();
        scaled = like();
        scaled = like();
        inner = like();
      }
      inner = like();
      inner = like();
      result = like();
    }
    t.result_of(by, result.get());
    return result;
  }
  struct fused_gelu_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const auto like = [&] { return on.make(g.size, g.format); };
      value result;
      {
        const value x = like();
        value angle = like();
        {
          value scaled = like();
          scaled = like();
          scaled = like();
          angle = like();
        }
        angle = like();
        value sum;
        {
          const value half_x = like();
          value product;
          {
            value square = like();
            value rest = like();
            square.drop();
            value scaled = like();
            scaled = like();
            scaled = like();
            product = like();
            rest.drop();
          }
          sum = like();
        }
        value plus = like();
        plus = like();
        sum = like();
        plus.drop();
        result = like();
      }
      out.of[0] = on.share(result);
      out.of[1] = static_cast<value&&>(result);
    }
  };

  // silu(y1) * y2 of the halves, with a bias added first where there is one
  constexpr value fused_swiglu(const tensor& input, int bias) {
    const tensor b = bias == none ? tensor{} : t.parameter(bias);
    const value y = view(t, input, {input.size[0] * input.size[1], input.size[2]});
    const int by = t.add_node(node_kind::function, {&*y, &b});
    if (node* made = t.at(by)) made->own = &fused_swiglu_backward_;
    t.keep(by, y);
    if (bias != none) t.keep(by, b);
    const sizes half{y->size[0], y->size[1] / 2};
    value result;
    {
      value sum;
      if (bias != none) sum = t.make(y->size, y->format);
      const value activated = t.make(half, y->format);
      result = t.make(half, y->format);
    }
    t.result_of(by, result.get());
    return view(t, result, {input.size[0], input.size[1], half[1]});
  }
  struct fused_swiglu_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const tensor y = on.kept_by(index, 0);
      const bool has_bias = on.nodes[index].input[1].node != none;
      const auto like = [&] { return on.make(g.size, g.format); };
      value result;
      {
        value sum;
        if (has_bias) sum = on.make(y.size, y.format);
        // g * sigmoid(y1) * (1 + y1 * (1 - sigmoid(y1))) * y2, and g * silu(y1)
        value left, right;
        {
          value product = like();
          product = like();
          value rest = like();
          rest = like();
          rest = like();
          rest = like();
          left = like();
        }
        left = like();
        right = like();
        right = like();
        result = on.make(y.size, y.format);
      }
      if (has_bias) out.of[1] = on.share(result);
      out.of[0] = static_cast<value&&>(result);
    }
  };

  constexpr value mlp(const tensor& x, const layer_modules& by) {
    value hidden = column_linear(x, by.fc1, false);
    if (setup.framework.fuses_bias_activation) {
      if (model.gated_mlp)
        hidden = fused_swiglu(hidden, by.fc1.bias);
      else
        hidden = fused_gelu(hidden, by.fc1.bias);
    } else {
      if (by.fc1.bias != none) hidden = add(t, hidden, t.parameter(by.fc1.bias));
      if (model.gated_mlp) {
        value product;
        {
          const int halves = split(t, hidden);
          const value gate = part(t, halves, hidden, 2, hidden->size[2] / 2, 0);
          const value up = part(t, halves, hidden, 2, hidden->size[2] / 2, 1);
          const value activated = activation(gate);
          const value shifted = add_number(t, up);
          product = multiply(t, activated, shifted);
        }
        hidden = static_cast<value&&>(product);
      } else {
        hidden = activation(hidden);
      }
    }
    return row_linear(hidden, by.fc2);
  }

  // -- a layer

  // residual + dropout(x + bias); in a region that will be computed again, it makes a graph too
  constexpr value add_back(const tensor& x, int bias, const tensor& residual) {
    const bool recorded = t.records;
    t.records = true;
    value out;
    {
      value sum = t.share(x);
      if (bias != none) sum = add(t, sum, t.parameter(bias));
      const value dropped = dropout(t, sum, drops);
      out = add(t, residual, dropped);
    }
    t.records = recorded;
    return out;
  }

  constexpr value run_block(int at, const tensor& input, const tensor& mask, const tensor& angle) {
    const layer_modules by = modules_[at];
    value x;
    {
      const value normed = norm(input, by.norm_1);
      const value out = attention(normed, by, mask, angle);
      x = add_back(out, by.proj.bias, input);
    }
    const value normed = norm(x, by.norm_2);
    const value out = mlp(normed, by);
    return add_back(out, by.fc2.bias, x);
  }

  // -- what is computed again (tensor_parallel.checkpoint)

  static constexpr int core_region = -1;

  // The layers from `first` up to `last`, or the attention core, without a graph.
  constexpr value checkpoint(const tensor* inputs, int count, int first, int last) {
    const int by = count == 4 ? t.add_node(node_kind::function, {inputs, inputs + 1, inputs + 2})
                              : t.add_node(node_kind::function, {inputs});
    if (node* made = t.at(by)) {
      made->own = &checkpoint_backward_;
      made->argument[0] = first;
      made->argument[1] = last;
    }
    value result;
    {
      const bool recorded = t.records;
      t.records = false;
      const tape::graph_place place{t.nodes.size(), t.kept.size()};
      result = run_region(inputs, count, first, last);
      t.discard(place);
      t.records = recorded;
    }
    if (shares_inputs() && first != core_region)
      t.replace_block(inputs[0].storage, inputs[0].bytes() / tp_);
    for (int at = 0; at < count; ++at)
      if (inputs[at].defined()) keep_of(by, inputs[at]);
    result.get().node = none;
    t.result_of(by, result.get());
    return result;
  }
  constexpr void keep_of(int index, const tensor& of) {
    if (index == none) return;
    tensor entry = of;
    entry.node = none;
    t.hold(entry.storage);
    t.mark_kept(entry.storage);
    t.kept.push(entry);
    ++t.nodes[index].kept;
  }
  [[nodiscard]] constexpr bool shares_inputs() const {
    return setup.parallelism.shares_kept_inputs && tp_ > 1;
  }

  constexpr value run_region(const tensor* inputs, int count, int first, int last) {
    if (first == core_region) return attend(inputs[0], inputs[1], inputs[2], inputs[3]);
    const tensor mask = count > 1 ? inputs[1] : tensor{};
    const tensor angle = count > 2 ? inputs[2] : tensor{};
    value x = t.share(inputs[0]);
    for (int at = first; at < last; ++at) x = run_block(at, x, mask, angle);
    return x;
  }

  struct checkpoint_backward final : own_backward {
    megatron_gpt* code = nullptr;
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      code->run_again(index, *incoming[0], out);
      static_cast<void>(on);
    }
  };
  constexpr void run_again(int index, const tensor& gradient, gradients& out) {
    const node& by = t.nodes[index];
    const auto first = static_cast<int>(by.argument[0]);
    const auto last = static_cast<int>(by.argument[1]);
    const int count = by.inputs;
    const bool is_core = first == core_region;
    tensor inputs[4]{};
    int next = 0;
    // what was kept, in the order of the inputs: those that are there
    tensor kept[4]{};
    for (int at = 0; at < by.kept; ++at) kept[at] = t.kept[by.first_kept + at];
    const int differentiable = is_core ? 3 : 1;
    for (int at = 0; at < differentiable; ++at) inputs[at] = kept[next++];
    if (is_core) {
      if (setup.padding_mask) inputs[3] = kept[next++];
    } else {
      if (setup.padding_mask) inputs[1] = kept[next++];
      if (model.position_rows == 0) inputs[2] = kept[next++];
    }
    static_cast<void>(count);
    value whole;
    if (shares_inputs() && !is_core) {
      whole = t.make(inputs[0].size, inputs[0].format);
      inputs[0].storage = whole->storage;
    }
    const tape::graph_place place = t.begin_graph();
    value leaves[3];
    for (int at = 0; at < differentiable; ++at) {
      leaves[at] = t.leaf(inputs[at]);
      inputs[at] = *leaves[at];
    }
    {
      const bool recorded = t.records;
      t.records = true;
      const value result = run_region(inputs, is_core ? 4 : 3, first, last);
      t.follow(result, gradient, place.node);
      t.records = recorded;
    }
    for (int at = 0; at < differentiable; ++at) {
      if (t.nodes[leaves[at]->node].gradient[0].defined()) out.of[at] = t.gradient_of(leaves[at]);
      leaves[at].get().node = none;
    }
    t.forget(place);
  }

  // -- loss

  struct loss_backward final : own_backward {
    constexpr void run(tape& on,
                       int index,
                       const value* /*incoming*/,
                       gradients& out) const override {
      const tensor softmax = on.kept_by(index, 0);
      const sizes tokens{softmax.size[0] * softmax.size[1]};
      value grad;
      {
        const value range = on.make(tokens, element::int64);
        value update;
        {
          const value wide = on.make(tokens, element::fp32);
          update = on.make(tokens, element::fp32);
        }
        on.touch(4 * tokens[0]);
        const bool casts = on.nodes[index].argument[0] == 1;
        if (casts)
          grad = on.make(softmax.size, element::bf16);
        else
          grad = on.share(softmax);
      }
      out.of[0] = static_cast<value&&>(grad);
    }
  };

  // (sequence, batch, a part of the vocabulary) and (sequence, batch) to (sequence, batch)
  constexpr value parallel_cross_entropy(const tensor& logits) {
    const bool fuses = setup.framework.fuses_loss;
    const int by = t.add_node(node_kind::function, {&logits});
    if (node* made = t.at(by)) {
      made->own = &loss_backward_;
      made->argument[0] = fuses ? 1 : 0;
    }
    const sizes tokens{logits.size[0], logits.size[1]};
    const value wide = t.make(logits.size, element::fp32);
    value most = t.make(tokens, element::fp32);
    {
      const value place = t.make(tokens, element::int64);
      // beyond 32 bits of bytes the kernel runs in parts, which meet in pairs
      if (wide->bytes() > 2'147'483'647) t.touch(16 * tokens.count());
    }
    value outside, target, joined, loss;
    {
      value predicted, sums;
      outside = either(tokens);
      {
        const value copy = t.make(tokens, element::int64);
        target = t.make(tokens, element::int64);
      }
      {
        const value range = t.make(sizes{tokens.count()}, element::int64);
        predicted = t.make(tokens, element::fp32);
        predicted = t.make(tokens, element::fp32);
        sums = t.make(tokens, element::fp32);
      }
      if (fuses) {
        joined = t.make(sizes{2 * tokens.count()}, element::fp32);
        predicted.drop();
        sums.drop();
      }
      const value logarithm = t.make(tokens, element::fp32);
      loss = t.make(tokens, element::fp32);
    }
    t.keep(by, wide);
    t.keep(by, outside);
    t.keep(by, target);
    t.result_of(by, loss.get());
    return loss;
  }

  constexpr value run_model(chunk_record& by,
                            const tensor& ids,
                            const tensor& positions,
                            const tensor& mask,
                            const tensor& labels,
                            const tensor& received) {
    t.begin(moment::forward);
    value input;
    if (by.is_first)
      input = embed(by, ids, positions);
    else
      input = t.share(received);
    tensor angle{};
    if (model.position_rows == 0) angle = angles(by);
    value x = run_layers(by, input, mask, angle);
    if (!by.is_last) return x;
    x = norm(x, by.norm);
    t.begin(moment::loss);
    const value logits = column_linear(x, by.head, false);
    value turned_labels;
    {
      const value turned = transpose(t, labels, 0, 1);
      turned_labels = contiguous(t, turned);
    }
    value loss = parallel_cross_entropy(logits);
    {
      const value turned = transpose(t, loss, 0, 1);
      loss = contiguous(t, turned);
    }
    return loss;
  }

  constexpr value run_layers(const chunk_record& by,
                             const tensor& input,
                             const tensor& mask,
                             const tensor& angle) {
    value x = t.share(input);
    const auto count = static_cast<int>(per_chunk_);
    const bool again = setup.recompute == recompute_mode::full;
    const auto together = static_cast<int>(setup.recompute_span);
    const int most = setup.recompute_layers == 0 ? count : static_cast<int>(setup.recompute_layers);
    for (int at = 0; at < count;) {
      t.begin(moment::forward, by.first_layer + at);
      const int first = by.first_layer + at;
      if (again && at < most) {
        const tensor inputs[] = {*x, mask, angle};
        x = checkpoint(inputs, 3, first, first + together);
        at += together;
      } else {
        x = run_block(first, x, mask, angle);
        ++at;
      }
    }
    t.begin(moment::forward);
    return x;
  }

  std::int64_t tp_;
  bool splits_;  // along the sequence
  std::int64_t stages_;
  element half_;
  std::int64_t per_chunk_ = 0;
  std::int64_t heads_ = 0;   // of this rank
  std::int64_t groups_ = 0;  // of keys and values
  growing_array<layer_modules> modules_{};
  growing_array<chunk_record> chunks_{};
  growing_array<int> order_{};
  growing_array<int> of_parts_{};
  growing_array<tensor> frequencies_{};
  tensor buffer_{};

  linear_backward linear_backward_{};
  gather_backward gather_backward_{};
  zeroing_backward zeroing_backward_{};
  empty_rest_backward empty_rest_backward_{};
  spread_backward spread_backward_{};
  scaled_product_backward scaled_product_backward_{};
  fill_in_view_backward fill_in_view_backward_{};
  fused_gelu_backward fused_gelu_backward_{};
  fused_swiglu_backward fused_swiglu_backward_{};
  checkpoint_backward checkpoint_backward_{};
  loss_backward loss_backward_{};
};

}  // namespace gpuplan::eager

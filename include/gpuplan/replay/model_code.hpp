#pragma once

// What the code of a model derives from, a user's own too (docs/add_an_implementation.md):
// parameters as modules, norms and attention as the framework does them, and layers that are
// computed again.

#include <gpuplan/batch.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/replay/adapters.hpp>
#include <gpuplan/replay/eager/backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/float8_linear.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// How the matrix of a linear layer is divided among tensor-parallel ranks.
enum class layout : unsigned char { whole, rows, columns };

/// A linear layer, a norm or a table: its parameters' places on the tape.
struct nn_module {
  int weight = none;
  int bias = none;
  eager::layout layout = eager::layout::whole;
  int adapter = none;  // its place among the adapted layers
  int copy = none;     // of a table: what is read in its stead
  bool is_quantised = false;
  bool is_in_fp8 = false;
};

class model_code;

/// Where a chunk of a pipeline's stage begins, among the rank's layers and parameters.
struct chunk_begin {
  int layer = 0;
  int parameter = 0;
};

/// The chunks of a rank in a pipeline that PyTorch divides, or the whole model as one. The first of
/// all chunks has the model's beginning, the last its end.
class chunks_of_rank {
 public:
  constexpr explicit chunks_of_rank(const training_setup& of) : of_(of) {}

  /// Among those of all ranks.
  [[nodiscard]] constexpr std::int64_t place_of(std::int64_t chunk) const {
    return place_of_chunk(of_.parallelism, of_.place.stage, chunk);
  }
  [[nodiscard]] constexpr bool is_first(std::int64_t chunk) const { return place_of(chunk) == 0; }
  [[nodiscard]] constexpr bool is_last(std::int64_t chunk) const {
    return place_of(chunk) == chunks_in_all(of_.parallelism) - 1;
  }
  [[nodiscard]] constexpr layer_range layers_of(std::int64_t chunk) const {
    return layers_of_chunk(of_.parallelism, of_.model.num_hidden_layers, of_.place.stage, chunk);
  }
  [[nodiscard]] constexpr std::int64_t layers_in_all() const {
    std::int64_t sum = 0;
    for (std::int64_t chunk = 0; chunk < of_.parallelism.virtual_pipeline; ++chunk)
      sum += layers_of(chunk).size();
    return sum;
  }

 private:
  const training_setup& of_;
};

/// A module of Python whose forward and backward have hooks: its own parameters' places.
struct watched_module {
  int weight = none;
  int bias = none;
  bool is_second = false;      // of the modules that have the same parameters
  bool holds_adapter = false;  // around a layer and its adapter, whose weight it looks at
  int layer = none;

  [[nodiscard]] constexpr bool has_parameters() const { return weight != none || bias != none; }
  friend constexpr bool operator==(const watched_module&, const watched_module&) = default;
};

/// What data parallelism adds to a step.
class sharding {
 public:
  /// The model will be built.
  constexpr virtual void begins(model_code& /*code*/) {}
  /// Whether it trains by a loop of its own, with its own optimizer.
  [[nodiscard]] constexpr virtual bool has_own_step() const { return false; }
  constexpr virtual void step() {}
  /// The parameters of the model are there, those of adapters are not;
  constexpr virtual void base_is_built() {}
  /// all are, the batch is not.
  constexpr virtual void model_is_built() {}
  /// The parameters that the optimizer updates here, in its order; none: all.
  [[nodiscard]] constexpr virtual const growing_array<int>* updated() const { return nullptr; }
  constexpr virtual void forward_begins(bool /*last_micro_batch*/) {}
  /// Around the forward of a layer, or of the whole model (`none`): changes what it will read, and
  /// is told its result.
  constexpr virtual void before_unit(int /*layer*/, value* /*inputs*/, int /*count*/) {}
  constexpr virtual void after_unit(int /*layer*/, const tensor& /*result*/) {}
  /// Around the forward of a module, where the code is watched: what it reads of its input, and its
  /// result.
  constexpr virtual value module_begins(const tensor& /*input*/, const watched_module& /*by*/) {
    return {};
  }
  constexpr virtual value module_ends(value /*result*/, const watched_module& /*by*/) { return {}; }
  /// Around the forward of a model that reads its head's matrix itself.
  constexpr virtual void model_begins(const watched_module& /*head*/) {}
  constexpr virtual value model_ends(value result, const watched_module& /*head*/) {
    return result;
  }
  /// What stands for torch.nn.functional.linear there.
  constexpr virtual value linear(const tensor& /*x*/, const watched_module& /*by*/) { return {}; }
  /// Of a unit that runs apart, with backwards of its own: its weights are gathered; the gradients
  /// that are there are reduced; its weights go.
  constexpr virtual void gather_unit(int /*unit*/) {}
  constexpr virtual void reduce_unit(int /*unit*/) {}
  constexpr virtual void free_unit(int /*unit*/) {}
  constexpr virtual void before_backward(int /*unit*/) {}
  constexpr virtual void after_backward(int /*unit*/) {}
  constexpr virtual void gradient_is_there(int /*parameter*/) {}
  constexpr virtual void before_adapter(int /*weight*/) {}
  constexpr virtual void after_adapter(int /*weight*/, const tensor& /*result*/) {}
  constexpr virtual void backward_is_done() {}
  /// Of a chunk of a pipeline's stage: its weights are gathered, all at once; it runs next; its
  /// weights go; a micro-batch's backward is done, and all of a step's are.
  constexpr virtual void gather_chunk(int /*chunk*/) {}
  constexpr virtual void run_chunk(int /*chunk*/) {}
  constexpr virtual void free_chunk(int /*chunk*/) {}
  constexpr virtual void pass_is_done() {}
  constexpr virtual void reduce_chunk(int /*chunk*/) {}
  /// The optimizer has updated the parameters.
  constexpr virtual void step_is_done() {}

  constexpr virtual ~sharding() {}  // NOLINT(modernize-use-equals-default): g++ 12 knows no other
};

/// The code of a model class: what it builds, and its forward. A class of a user's own says
/// `construct`, `make_batch`, `forward` and `layer`.
class model_code : public recomputer, public watched_adapters {
 public:
  constexpr model_code(tape& on, const training_setup& of, const batch_plan& with)
      : t(on),
        setup(of),
        model(setup.model),
        plan(with),
        quantised(on, of),
        in_fp8(on),
        adapters(on, of, quantised) {
    t.recompute_by(*this);
    weight_format = element_of(setup.precision.weights);
    drops = setup.dropout > 0;
    drops_attention = setup.attention_dropout ? *setup.attention_dropout > 0 : drops;
    drops_activation = setup.activation_dropout ? *setup.activation_dropout > 0 : drops;
    drops_classifier = setup.classifier_dropout ? *setup.classifier_dropout > 0 : drops;
    layers = model.num_hidden_layers;
  }
  model_code(const model_code&) = delete;
  model_code& operator=(const model_code&) = delete;

  /// Makes the parameters, in the order of the modules; a layer's within `t.building_unit(layer)`.
  constexpr virtual void construct() = 0;
  /// model.to(bf16), and to_empty of a model that has no memory yet.
  constexpr virtual void cast_model() { move_model(); }
  /// The floating-point input of the model, where it has one.
  [[nodiscard]] constexpr virtual tensor input() const { return {}; }
  /// Divides the model among tensor-parallel ranks.
  constexpr virtual void divide_among_ranks() {}
  /// Makes what a micro-batch reads, which lives as long as the model.
  constexpr virtual void make_batch() = 0;
  /// Makes what a step leaves behind for the next.
  constexpr virtual void make_leftovers() {}
  /// Builds what trains beside layers, once the model is on its device.
  constexpr virtual void construct_adapters() {
    begin_adapters();
    adapters.finish();
  }
  constexpr void begin_adapters() {
    quantised.cast_rest();
    adapters.construct();
  }
  /// One micro-batch, to the loss, or to what `outer_loss` makes it of outside the model.
  constexpr virtual value forward() = 0;
  /// One micro-batch through a chunk of a pipeline's stage, from what the one before has sent; to
  /// what is sent on, or `outer_loss` reads.
  constexpr virtual value forward_stage(int /*chunk*/, const tensor& /*received*/) {
    return forward();
  }
  /// A pipeline's step begins on this rank; all its passes are done.
  constexpr virtual void stage_begins() {}
  constexpr virtual void stage_is_done() {}
  constexpr virtual value outer_loss(const tensor& result) { return t.share(result); }
  /// What is done when the gradients are there, before the optimizer updates.
  constexpr virtual void before_update() {}
  /// Another model of its class, whose log-probabilities its loss reads.
  constexpr virtual void read_reference(model_code& /*other*/) {}
  /// As long as what it returns lives, operators cast as the setup's precision says.
  [[nodiscard]] constexpr auto autocast() {
    return t.autocast(setup.precision.autocast(), element_of(setup.precision.compute));
  }
  /// The tables so far, which keep this format.
  constexpr void cast_tables(element format) {
    for (int at = 0; at < buffers_.size(); ++at) {
      if (buffers_[at].table == nullptr) continue;
      t.convert(*buffers_[at].table, format);
      buffers_[at].numbers = *buffers_[at].table;
      buffers_[at].table = nullptr;
    }
  }

  growing_array<chunk_begin> held_chunks{};  // of a pipeline's stage that PyTorch divided
  model_code* whole_model = this;            // the model that this is a part of
  int first_unit = 0;                        // of its layers, among those of all parts
  sharding* shards = nullptr;
  bool is_watched = false;  // the sharding has hooks around every module
  tensor given_input{};     // the input as the present forward was given it
  tape& t;
  const training_setup& setup;
  const transformer& model;
  const batch_plan plan;
  quantised_weights quantised;
  float8_linear in_fp8;
  trained_beside adapters;
  element weight_format = element::fp32;
  bool drops = false;
  bool drops_attention = false;   // weights of attention
  bool drops_activation = false;  // within an MLP
  bool drops_classifier = false;  // what a classifier reads
  std::int64_t layers = 0;

  constexpr virtual ~model_code() {
    for (int at = 0; at < reruns_.size(); ++at) {
      rerun& left = reruns_[at];
      for (int which = 0; which < left.inputs; ++which) t.release(left.input[which].storage);
    }
  }

 protected:
  // -- what trains

  [[nodiscard]] constexpr bool trains_all() const { return setup.trains.what == training::full; }
  [[nodiscard]] constexpr bool trains_layer(std::int64_t layer) const {
    return trains_all() || (setup.trains.what == training::last_layers &&
                            layer >= layers - setup.trains.last_layers);
  }
  /// The norm behind the layers.
  [[nodiscard]] constexpr bool trains_final_norm() const {
    return trains_end() && (trains_all() || setup.trains.final_norm);
  }
  /// A pooler.
  [[nodiscard]] constexpr bool trains_end() const {
    return trains_all() || setup.trains.what == training::last_layers;
  }
  /// A head of its own.
  [[nodiscard]] constexpr bool trains_head() const {
    return trains_end() || setup.trains.what == training::head;
  }
  /// The token table: with all, or as the head's matrix.
  [[nodiscard]] constexpr bool trains_table() const { return trains_table(model.has_tied_head()); }
  [[nodiscard]] constexpr bool trains_table(bool is_head) const {
    if (trains_all() || !is_head) return trains_all();
    return trains_head() && (setup.trains.what == training::head || setup.trains.tied_head);
  }

  // -- modules

  /// Parameters are built for this layer.
  [[nodiscard]] constexpr auto building_layer(std::int64_t at) {
    return t.building_unit(first_unit + at);
  }
  constexpr int parameter(const sizes& size, bool trains) {
    // a base is quantised on its way to the device
    const bool in_fp32 = setup.framework.implementation.builds_in_fp32 && !quantised.is_on();
    const element format = in_fp32 ? element::fp32 : weight_format;
    if (reserved_ == none) return t.add_parameter(size, format, trains);
    t.parameters[reserved_].trains = trains;
    t.parameters[reserved_].unit = t.unit();
    t.build_parameter(reserved_, size, format);
    return reserved_++;
  }

 public:
  /// Keeps places for the parameters that this code builds from here on, which come before those of
  /// others that are built first; `end_reserved` when they are built.
  constexpr void reserve(std::int64_t count) {
    reserved_ = t.parameters.size();
    for (std::int64_t at = 0; at < count; ++at) t.reserve_parameter(true);
  }
  constexpr void end_reserved() { reserved_ = none; }

 protected:
  // -- its way to the device and its format, in the order of the modules

  /// Parameter by parameter, tables where they were added, what `last` names in the end.
  constexpr void move_model(int last = none) {
    int buffer = 0;
    int shared = 0;
    for (int at = 0; at < t.parameters.size(); ++at) {
      const int replaced = move_tables(at, buffer, shared);
      if (at != last) move(at);
      t.release(replaced);
    }
    const bool is_shared = shared < shared_tables_.size() && renews_shared() && last != none;
    // what a module had lives until its next parameter is there
    const int was = is_shared ? renew(shared_tables_[shared].table) : none;
    if (last != none) move(last);
    t.release(was);
    if (is_shared)
      t.release(renew(last));
    else
      t.release(move_tables(t.parameters.size(), buffer, shared));
    for (int at = 0; at < buffers_.size(); ++at) t.buffers.push(buffers_[at].seen());
  }
  constexpr void move(int parameter) {
    parameter_record& record = t.parameters[parameter];
    if (record.is_moved) return;
    record.is_moved = true;
    t.moved.push(parameter);
    if (t.gathering().weights_on_host || t.gathering().are_made_later)
      record.data.format = weight_format;
    else
      t.convert(record.data, weight_format);
  }
  /// Whether a table that modules share gets memory as often as it is met (`to_empty`).
  [[nodiscard]] constexpr bool renews_shared() const {
    const gathered_parameters& how = t.gathering();
    return how.is_on && !how.weights_on_host && !how.are_made_later && !how.divides_elements;
  }
  /// Not of a model in blocks, which cannot be cast.
  [[nodiscard]] constexpr bool casts_tables() const {
    if (quantised.is_on()) return false;
    return !setup.framework.engine.is->casts_adapters;
  }
  /// Gives the parameter new memory, and hands out the old.
  constexpr int renew(int parameter) {
    tensor& data = t.parameters[parameter].data;
    const int was = data.storage;
    data.storage = t.charge(purpose::weights)
                       ->new_storage(data.bytes(), {"weight", parameter, nullptr, &data});
    return was;
  }
  /// What lives until the next parameter of its module is there.
  constexpr int move_tables(int before, int& buffer, int& shared) {
    int replaced = none;
    for (; shared < shared_tables_.size() && shared_tables_[shared].before <= before; ++shared) {
      if (!renews_shared()) continue;
      t.release(replaced);
      replaced = renew(shared_tables_[shared].table);
      if (shared_tables_[shared].is_followed) continue;
      t.release(replaced);
      replaced = none;
    }
    for (; buffer < buffers_.size() && buffers_[buffer].before <= before; ++buffer) {
      if (tensor* const table = buffers_[buffer].table; table == nullptr) {
        if (!t.has_memory(buffers_[buffer].numbers.storage))
          t.take_again(buffers_[buffer].numbers.storage);
      } else if (casts_tables()) {
        t.convert(*table, weight_format);
      }
    }
    return replaced;
  }
  /// A module shares this table: what moves the model to its device meets that again.
  constexpr void add_shared_table(int table = 0, bool is_followed = false) {
    whole_model->shared_tables_.push({t.parameters.size(), table, is_followed});
  }
  /// A table of numbers that the model has beside its parameters, and casts with them.
  constexpr void add_buffer(value& table) { add_buffer(table.get(), t.parameters.size()); }
  /// Likewise, before the parameter named.
  constexpr void add_buffer(tensor& table, int before) {
    whole_model->buffers_.push({&table, {}, before});
  }
  /// One of integers, which keep their format.
  constexpr void add_numbers(const tensor& table) {
    whole_model->buffers_.push({nullptr, table, t.parameters.size()});
  }
  constexpr nn_module linear_module(std::int64_t out, std::int64_t in, bool bias, bool trains) {
    nn_module made;
    made.weight = parameter({out, in}, trains);
    if (bias) made.bias = parameter(sizes{out}, trains);
    return made;
  }
  /// One that may have an adapter.
  constexpr nn_module linear_module(
      operator_kind kind, std::int64_t out, std::int64_t in, bool bias, bool trains) {
    nn_module made;
    made.is_quantised = quantised.hold(kind);
    made.is_in_fp8 = setup.precision.fp8_linears && kind != operator_kind::head;
    made.weight = made.is_quantised ? quantised.add(out, in) : parameter({out, in}, trains);
    if (bias) made.bias = parameter(sizes{out}, trains || adapters.trains_bias(kind));
    adapt(made, kind, out, in);
    return made;
  }
  /// No loss reads the parameters from this place on.
  constexpr void leave_idle(int first) {
    for (int at = first; at < t.parameters.size(); ++at) t.parameters[at].is_idle = true;
  }
  constexpr void leave_module_idle(const nn_module& of) {
    if (of.weight != none) t.parameters[of.weight].is_idle = true;
    if (of.bias != none) t.parameters[of.bias].is_idle = true;
  }
  /// What its parameters belong to, for people.
  constexpr void name(const nn_module& made, const char* as) {
    t.parameters[made.weight].name = as;
    if (made.bias != none) t.parameters[made.bias].name = as;
  }
  /// What trains beside a layer that is there.
  constexpr void adapt(nn_module& made, operator_kind kind, std::int64_t out, std::int64_t in) {
    if (*t.parameters[made.weight].name == '\0') name(made, text(kind));
    made.adapter = adapters.add(kind, in, out, made.weight, made.bias);
    if (!adapters.copies(kind)) return;
    made.weight = adapters.add_copy(made.weight);
    if (made.bias != none) made.bias = adapters.add_copy(made.bias);
  }
  constexpr nn_module norm_module(std::int64_t width, bool trains) {
    return norm_module_of(sizes{width}, trains);
  }
  constexpr nn_module norm_module_of(const sizes& size, bool trains) {
    nn_module made;
    if (!model.norm_affine) return made;
    made.weight = parameter(size, trains);
    if (model.norm == norm_kind::layer_norm && model.norm_bias)
      made.bias = parameter(size, trains || adapters.trains_all_biases());
    name(made, "norm");
    return made;
  }
  /// The table of token embeddings.
  constexpr nn_module token_table(std::int64_t rows, std::int64_t width, bool trains) {
    nn_module made = table_module(rows, width, trains);
    name(made, "token table");
    made.adapter = adapters.add_table(rows, width, made.weight);
    if (adapters.copies_table()) made.copy = adapters.add_copy(made.weight);
    return made;
  }
  constexpr nn_module table_module(std::int64_t rows, std::int64_t width, bool trains) {
    nn_module made;
    made.weight = parameter({rows, width}, trains);
    t.parameters[made.weight].is_table = true;
    name(made, "table");
    return made;
  }

  // -- modules that hooks watch

  [[nodiscard]] static constexpr watched_module watched(const nn_module& by,
                                                        bool is_second = false) {
    return {by.weight, by.bias, is_second};
  }
  /// One that has no parameters, or whose input needs no gradient, begins
  constexpr void enter(const nn_module& by = {}, bool is_second = false) {
    if (is_watched) static_cast<void>(shards->module_begins({}, watched(by, is_second)));
  }
  /// and ends.
  constexpr void leave(value& result, const nn_module& by = {}, bool is_second = false) {
    if (!is_watched) return;
    result = shards->module_ends(std::move(result), watched(by, is_second));
  }
  /// torch.nn.Dropout with the setup's probability.
  constexpr value drop_out(argument given) {
    const held x(given);
    enter();
    value result = dropout(t, x, drops);
    leave(result);
    return result;
  }

  // -- operators

  /// torch.nn.Linear, with its adapter, over a base in 4 bits or in fp8 where it is.
  constexpr value linear(argument given, const nn_module& by) {
    const held x(given);
    if (is_watched) return watched_linear(x, by);
    value made;
    if (by.is_quantised)
      made = quantised.linear(x, by.weight, by.bias);
    else if (by.is_in_fp8)
      made = in_fp8(x, by.weight, by.bias);
    else
      made = eager::linear(t, x, by.weight, by.bias);
    return adapters.add_to(std::move(made), by.adapter, x);
  }
  constexpr value run_linear(const tensor& x, int weight) override {
    return shards->linear(x, {.weight = weight});
  }
  constexpr value run_dropout(const tensor& x, bool drops_elements) override {
    enter();
    value result = dropout(t, x, drops_elements);
    leave(result);
    return result;
  }
  constexpr value watched_linear(const tensor& given, const nn_module& by) {
    return within_adapter(given, by, [&](const tensor& x) {
      if (!by.is_quantised) return shards->linear(x, watched(by));
      const value input = shards->module_begins(x, watched(by));
      return shards->module_ends(quantised.linear(input, by.weight, by.bias), watched(by));
    });
  }
  /// What runs a watched layer, within the module that is around it and its adapter.
  template <class Run>
  constexpr value within_adapter(const tensor& given, const nn_module& by, const Run& run) {
    if (by.adapter == none) return run(given);
    const watched_module around{.weight = adapters.first_matrix(by.adapter), .holds_adapter = true};
    const value x = shards->module_begins(given, around);
    value result = adapters.add_to(run(*x), by.adapter, x);
    return shards->module_ends(std::move(result), around);
  }
  /// Rows of the token table, as transformers takes them: where layers are computed again, it wants
  /// a gradient of their input whatever trains (enable_input_require_grads).
  constexpr value embed_tokens(const tensor& ids, const nn_module& table) {
    return rows_of(ids, table, setup.recompute == recompute_mode::full);
  }
  constexpr value rows_of(const tensor& ids, const nn_module& table, bool wants_gradient = false) {
    enter(table, true);
    value rows = embedding(t, ids, table.copy != none ? table.copy : table.weight);
    if (wants_gradient) t.require_gradient(rows.get());  // its hook is there before an engine's
    leave(rows, table, true);
    return adapters.add_to_rows(std::move(rows), table.adapter, ids);
  }
  /// The model's norm, as the implementation does it.
  constexpr value norm(argument given, const nn_module& by) {
    if (!is_watched) return normed(given, by);
    const held x(given);
    const value input = shards->module_begins(x, watched(by));
    value result = normed(input, by);
    leave(result, by);
    return result;
  }
  constexpr virtual value normed(argument x, const nn_module& by) {
    if (model.norm == norm_kind::layer_norm) return layer_norm(t, x, by.weight, by.bias);
    if (setup.framework.implementation.rms_norm == rms_norm_kind::eager)
      return eager_rms_norm(x, by.weight);
    return rms_norm(t, x, by.weight);
  }
  /// weight * (x.float() * rsqrt(mean(x.float() ** 2) + eps)).to(x.dtype)
  constexpr value eager_rms_norm(argument given, int weight) {
    const held input(given);
    value x = cast(t, input, element::fp32);
    x = multiply(t, x, inverse_spread(x));
    const tensor factor = t.parameter(weight);
    return multiply(t, factor, cast(t, x, input.format));
  }
  /// rsqrt(mean(x ** 2) + eps)
  constexpr value inverse_spread(argument x) {
    return reciprocal_root(t, add_number(t, mean(t, power(t, x))));
  }
  /// The model's activation function; keeps what it reads, ReLU what it makes.
  constexpr value activation(argument given) {
    const held x(given);
    enter();
    value result = activated(x);
    leave(result);
    return result;
  }
  constexpr value activated(argument given) {
    if (model.hidden_act == activation_function::quick_gelu) {
      const held x(given);
      return multiply(t, x, keeping_result(t, scale(t, x)));
    }
    if (model.hidden_act == activation_function::relu) return keeping_result(t, given);
    if (model.hidden_act == activation_function::relu_squared)
      return power(t, raised(t, keeping_result(t, given)));
    return keeping_input(t, given);
  }
  /// (batch, tokens, heads * width) to (batch, heads, tokens, width).
  constexpr value heads_of(argument given, std::int64_t heads, std::int64_t width) {
    const held x(given);
    return transpose(t, view(t, x, {x.size[0], x.size[1], heads, width}), 1, 2);
  }
  /// Likewise, all the model's heads.
  constexpr value heads_of(argument x) {
    return heads_of(x, model.num_attention_heads, model.query_dim());
  }

  /// qkv.split(length, dimension)
  constexpr void split_in_three(
      argument given, int dimension, std::int64_t length, value& q, value& k, value& v) {
    const held qkv(given);
    const int parts = split(t, qkv);
    q = part(t, parts, qkv, dimension, length, 0);
    k = part(t, parts, qkv, dimension, length, 1);
    v = part(t, parts, qkv, dimension, length, 2);
  }
  /// Whether PyTorch takes FlashAttention for it: half formats, heads no wider than 256.
  [[nodiscard]] constexpr bool has_flash(const tensor& q) const {
    return is_half(t.computes_in(q.format)) && q.size[3] <= 256;
  }
  /// scaled_dot_product_attention of (batch, heads, tokens, width) by the kernel that the setup
  /// names, or eager. `drops_weights`: of softmax, by dropout.
  constexpr value attention(
      const tensor& q, const tensor& k, const tensor& v, bool is_causal, bool drops_weights) {
    switch (setup.attention) {
      case attention_kernel::automatic:
        if (has_flash(q)) return flash_attention(t, q, k, v, drops_weights);
        return efficient_attention(t, q, k, v, drops_weights);
      case attention_kernel::flash:
        return flash_attention(t, q, k, v, drops_weights);
      case attention_kernel::efficient:
        return efficient_attention(t, q, k, v, drops_weights);
      case attention_kernel::math:
        return math_attention(t, q, k, v, is_causal, drops_weights);
      case attention_kernel::eager:
        break;
    }
    const value scores = scale(t, matmul(t, q, transpose(t, k, 2, 3)));
    value hidden, filled;
    if (is_causal) {
      const sizes square{q.size[2], k.size[2]};
      const value ones = full(t, square, element::boolean, {"mask"});
      hidden = compute(t, ones, square, element::boolean, {"mask"});
      filled = masked_fill(t, scores, hidden);
    } else {
      filled = t.share(scores);
    }
    const value weights = softmax_under_autocast(t, std::move(filled));
    return matmul(t, dropout(t, weights, drops_weights), v);
  }

  // -- what is computed again

  /// What layers read beside their input: masks, tables of positions. Whoever makes it holds it; a
  /// layer that will be computed again holds it too.
  static constexpr int most_beside = 5;
  tensor beside[most_beside]{};

  /// The layer from its input, kept or recomputed as the setup says.
  constexpr value run_layer(std::int64_t index, const tensor& x) {
    const auto at = static_cast<int>(index);
    t.begin(moment::forward, at);
    value result;
    if (is_checkpointed(at) && !gathers_before_checkpoint()) {
      begin_rerun(at, x);
      result = run_unit(at, x);
      end_rerun();
    } else {
      result = run_unit(at, x);
    }
    t.begin(moment::forward);
    return result;
  }
  /// Whether a layer checkpoints its own forward, within the hooks of sharding.
  [[nodiscard]] constexpr virtual bool gathers_before_checkpoint() const {
    return setup.framework.engine.gathers_before_checkpoint;
  }
  [[nodiscard]] constexpr bool is_computed_again(int index) const {
    const bool is_chosen = (index + 1) % setup.recompute_period == 0 &&
                           (setup.recompute_layers == 0 || index < setup.recompute_layers);
    return setup.recompute == recompute_mode::full && is_chosen;
  }
  /// By a checkpoint that does not re-enter; a compiled layer has none.
  [[nodiscard]] constexpr bool is_checkpointed(int index) const {
    return is_computed_again(index) && !setup.framework.implementation.checkpoints_reenter &&
           !setup.framework.implementation.compiles_layers;
  }
  /// Whether what runs as a layer is a unit of sharding; else it is of the root.
  [[nodiscard]] constexpr virtual bool is_unit(int /*index*/) const { return true; }
  constexpr value run_unit(int index, const tensor& x) {
    if (shards == nullptr || !is_unit(index)) return run_code(index, x);
    value read[1 + most_beside];
    tensor was[most_beside];
    read[0] = t.share(x);
    for (int at = 0; at < most_beside; ++at) {
      was[at] = beside[at];
      read[1 + at] = t.share(beside[at]);
    }
    shards->before_unit(first_unit + index, read, 1 + most_beside);
    for (int at = 0; at < most_beside; ++at) beside[at] = read[1 + at];
    value result = run_code(index, read[0]);
    shards->after_unit(first_unit + index, result);
    for (int at = 0; at < most_beside; ++at) {
      was[at].node = beside[at].node;
      was[at].output = beside[at].output;
      beside[at] = was[at];
    }
    return result;
  }
  /// The forward of a layer, with what `beside` holds.
  constexpr virtual value layer(int index, const tensor& x) = 0;
  /// What a checkpoint of the layer holds.
  constexpr virtual value compute_again(int index, const tensor& x) {
    if (gathers_before_checkpoint()) return layer(index, x);
    return run_unit(index, x);
  }

  constexpr value run_code(int index, const tensor& x) {
    if (is_computed_again(index) && setup.framework.implementation.checkpoints_reenter)
      return run_apart(index, x);
    if (!is_checkpointed(index) || !gathers_before_checkpoint()) return layer(index, x);
    begin_rerun(index, x);
    value result = layer(index, x);
    end_rerun();
    return result;
  }
  /// CheckpointFunction: a function without a graph, whose backward computes the layer again with
  /// one, and follows that.
  constexpr value run_apart(int index, const tensor& x) {
    const int by = t.add_node(run_again_, {&x});
    if (node* made = t.at(by)) {
      made->argument[0] = index;
      made->argument[1] = besides_.size();
      for (const tensor& one : beside) {
        besides_.push(one);
        t.hold_with_graph(one);
      }
      t.keep(by, x);
    }
    value result;
    {
      const auto unrecorded = t.without_graph();
      result = layer(index, x);
    }
    t.result_of(by, result.get());
    return result;
  }
  constexpr void run_again(int by, const tensor& gradient, gradients& out) {
    const auto index = static_cast<int>(t.nodes[by].argument[0]);
    const auto first = static_cast<int>(t.nodes[by].argument[1]);
    for (int at = 0; at < most_beside; ++at) beside[at] = besides_[first + at];
    const tape::graph_place place = t.begin_graph();
    const int leaves = t.leaves_so_far();
    {
      const value input = t.leaf(t.kept_by(by, 0));
      const value result = layer(index, input);
      t.follow(result, gradient, place.node);
      out.of[0] = t.gradient_of(input);
    }
    t.forget(place);
    t.drop_leaves(leaves);
  }

  /// The attention core, likewise.
  constexpr value run_core(const tensor& q, const tensor& k, const tensor& v) {
    if (setup.recompute != recompute_mode::selective || t.is_recomputing()) return core(q, k, v);
    begin_rerun(none, {&q, &k, &v});
    value result = core(q, k, v);
    end_rerun();
    return result;
  }
  /// What is computed again where attention alone is.
  constexpr virtual value core(const tensor& q, const tensor& k, const tensor& v) {
    return attention(q, k, v, model.kind == model_kind::decoder, drops_attention);
  }

  constexpr void begin_rerun(int index, const tensor& x) {
    begin_rerun(index, {&x, &beside[0], &beside[1], &beside[2], &beside[3], &beside[4]});
    if (setup.saves_costly_results) t.save_results();
  }
  constexpr void begin_rerun(int layer_index, std::initializer_list<const tensor*> inputs) {
    const int region = t.begin_region(*this);
    if (region == none) return;
    rerun made;
    made.layer = layer_index;
    for (const tensor* input : inputs) {
      made.input[made.inputs++] = *input;
      t.hold(input->storage);
      t.mark_kept(input->storage);
    }
    if (region < reruns_.size()) reruns_.resize_down(region);
    while (reruns_.size() < region) reruns_.push(rerun());  // those of other codes on the tape
    reruns_.push(made);
  }
  /// What keeps nothing will not be computed again.
  constexpr void end_rerun() {
    const int region = t.regions.size() - 1;
    if (t.end_region() && t.regions[region].count == 0) region_is_done(region);
  }

 public:
  constexpr void recompute(int region) override {
    t.begin_recompute(region);
    rerun_region(rerun(reruns_[region]));
    t.end_recompute();
  }
  constexpr void region_is_done(int region) override {
    rerun& done = reruns_[region];
    for (int at = 0; at < done.inputs; ++at) t.release(done.input[at].storage);
    done.inputs = 0;
  }
  constexpr void gradient_is_there(int parameter_index) override {
    if (shards != nullptr) shards->gradient_is_there(parameter_index);
  }
  constexpr void before_adapter(int weight) override {
    if (shards != nullptr) shards->before_adapter(weight);
  }
  constexpr void after_adapter(int weight, const tensor& result) override {
    if (shards != nullptr) shards->after_adapter(weight, result);
  }
  constexpr void before_backward(int unit) override { shards->before_backward(unit); }
  constexpr void after_backward(int unit) override { shards->after_backward(unit); }
  constexpr void backward_is_done() override {
    besides_.resize_down(0);
    if (shards != nullptr) shards->backward_is_done();
  }

 private:
  struct rerun {
    int layer = none;
    int inputs = 0;
    tensor input[1 + most_beside]{};
  };
  constexpr void rerun_region(const rerun& again) {
    const auto casting = autocast();
    if (again.layer != none) {
      for (int which = 1; which < again.inputs; ++which) beside[which - 1] = again.input[which];
      const value result = compute_again(again.layer, again.input[0]);
    } else {
      const value result = core(again.input[0], again.input[1], again.input[2]);
    }
  }
  struct moved_buffer {
    tensor* table = nullptr;
    tensor numbers{};
    int before = 0;  // of the parameters

    [[nodiscard]] constexpr const tensor& seen() const {
      return table == nullptr ? numbers : *table;
    }
  };
  struct shared_table {
    int before = 0;            // of the parameters
    int table = 0;             // its place among them
    bool is_followed = false;  // by another parameter of its module
  };
  struct backward_of_layer final : own_backward {
    model_code* code = nullptr;
    constexpr explicit backward_of_layer(model_code* of) : code(of) {}
    constexpr void run(tape&, int by, const value* incoming, gradients& out) const override {
      code->run_again(by, *incoming[0], out);
    }
  };
  backward_of_layer run_again_{this};
  int reserved_ = none;              // the place of the next parameter
  growing_array<tensor> besides_{};  // of layers computed apart
  growing_array<rerun> reruns_{};
  growing_array<moved_buffer> buffers_{};
  growing_array<shared_table> shared_tables_{};
};

/// Who is handed a code, for as long as that is there.
class code_user {
 public:
  constexpr virtual void use(model_code& code) = 0;

 protected:
  constexpr ~code_user() = default;
};

/// The maker of a class which derives from `model_code`, and is made as that is.
template <class Code>
inline constexpr code_maker code_of{
    [](tape& t, const training_setup& setup, const batch_plan& plan, code_user& user) {
      Code code(t, setup, plan);
      user.use(code);
    }};

/// Code that the replay has of classes of this name.
struct known_code {
  const code_name* name = nullptr;
  const code_maker* code = nullptr;
};

}  // namespace gpuplan::eager

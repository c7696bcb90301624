#pragma once

// Low-rank adapters beside frozen layers, and trained copies of them, as PEFT 0.21 computes them.
// Private.

#include <gpuplan/operators.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/quantised_base.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Who runs the modules of adapters where hooks watch all modules.
class watched_adapters {
 public:
  constexpr virtual value run_linear(const tensor& x, int weight) = 0;
  constexpr virtual value run_dropout(const tensor& x, bool drops) = 0;

 protected:
  constexpr ~watched_adapters() = default;
};

/// What trains beside the frozen parameters of a model. A layer is told of when it is built, so
/// that its adapter has its place among the parameters; adapters themselves are built last.
class trained_beside {
 public:
  constexpr trained_beside(tape& on, const training_setup& of, quantised_weights& base)
      : t_(on), setup_(of), base_(base) {}

  /// The place of a linear layer of `in x out` among those that have an adapter, or none.
  constexpr int add(operator_kind kind, std::int64_t in, std::int64_t out, int weight, int bias) {
    if (!is_adapted(kind)) return none;
    const int place = add(layer{
        .in = in, .out = out, .weight = weight, .bias = bias, .is_quantised = base_.hold(kind)});
    if (given().magnitudes) layers_[place].magnitude = t_.reserve_parameter(true);
    return place;
  }
  /// Likewise of a convolution of patches of so many pixels a side: two, of which the second reads
  /// each patch alone.
  constexpr int add_patches(
      std::int64_t channels, std::int64_t side, std::int64_t out, int weight, int bias) {
    if (!is_adapted(operator_kind::patch_embedding)) return none;
    return add(layer{.in = channels * side * side,
                     .out = out,
                     .channels = channels,
                     .side = side,
                     .weight = weight,
                     .bias = bias});
  }
  /// Likewise of the token table, whose rows are looked up.
  constexpr int add_table(std::int64_t rows, std::int64_t width, int weight) {
    if (!has_adapters() || !given().targets.embedding || given().copy_embedding) return none;
    return add(layer{.in = rows, .out = width, .weight = weight});
  }
  /// Likewise of the matrices of all experts, (experts, out, in), or (experts, in, out).
  constexpr int add_experts(
      operator_kind kind, std::int64_t in, std::int64_t out, int weight, bool is_transposed) {
    if (!is_adapted(kind)) return none;
    return add(layer{.in = in,
                     .out = out,
                     .experts = setup_.model.moe.num_experts,
                     .weight = weight,
                     .is_upright = is_transposed});
  }
  /// The matrix of the layer at a place is `in x out`.
  constexpr void stands_upright(int place) {
    if (place != none) layers_[place].is_upright = true;
  }
  /// The place of the parameter's trained copy, which is read in its stead.
  constexpr int add_copy(int of) {
    const int place = t_.reserve_parameter(true);
    t_.parameters[place].is_table = t_.parameters[of].is_table;
    copies_.push({of, place});
    return place;
  }

  /// A parameter was placed before those told of so far.
  constexpr void make_room(int place) {
    const auto move = [&](int& parameter) { parameter += parameter >= place ? 1 : 0; };
    for (int at = 0; at < layers_.size(); ++at) {
      layer& one = layers_[at];
      for (int* parameter : {&one.weight, &one.bias, &one.down, &one.up, &one.magnitude})
        move(*parameter);
    }
    for (int at = 0; at < copies_.size(); ++at) {
      move(copies_[at].of);
      move(copies_[at].copy);
    }
  }

  [[nodiscard]] constexpr bool copies_table() const {
    return has_adapters() && given().copy_embedding;
  }
  /// A classifier's copy includes the dense layer before its matrix.
  [[nodiscard]] constexpr bool copies(operator_kind kind) const {
    if (!has_adapters() || !given().copy_head) return false;
    return kind == operator_kind::head ||
           (kind == operator_kind::head_dense && setup_.model.head != head_kind::language_model);
  }
  /// Whether a bias trains though its layer, or norm, does not.
  [[nodiscard]] constexpr bool trains_all_biases() const {
    return has_adapters() && given().bias == lora_bias::all;
  }
  [[nodiscard]] constexpr bool trains_bias(operator_kind kind) const {
    return trains_all_biases() ||
           (has_adapters() && given().bias == lora_bias::adapted && is_adapted(kind));
  }

  /// Builds what was told of, once the model is there. An adapter moves to the device in the format
  /// of the layer beside it; when the last has, `finish` casts all to their own.
  constexpr void construct() {
    const element format = element_of(given().weights);
    for (int at = 0; at < layers_.size(); ++at) {
      layer& one = layers_[at];
      const element first = format_of_base(one, format);
      move_to_device(one.moved[0], one.down, size_of_down(one), first, format);
      move_to_device(one.moved[1], one.up, size_of_up(one), first, format);
      if (one.magnitude == none) continue;
      const value weight = weight_of(one);
      const value product = t_.make({one.out, one.in}, first, {"adapter product"});
      t_.touch_workspace();
      const tensor norm = norm_of_rows(by_rows(one, weight), product).take();
      if (norm.format != format) {
        one.moved[2] = norm.storage;
        continue;
      }
      t_.parameters[one.magnitude].data = norm;
      t_.mark(norm.storage, purpose::weights);
    }
  }
  /// And casts them to their own format, and copies what trained copies are of.
  constexpr void finish() {
    const element format = element_of(given().weights);
    for (int at = 0; at < layers_.size(); ++at) {
      layer& one = layers_[at];
      cast_to_own(one.moved[0], one.down, size_of_down(one), format);
      cast_to_own(one.moved[1], one.up, size_of_up(one), format);
      cast_to_own(one.moved[2], one.magnitude, sizes{one.out}, format);
    }
    for (int at = 0; at < copies_.size(); ++at) {
      const tensor& original = t_.parameters[copies_[at].of].data;
      t_.build_parameter(copies_[at].copy, original.size, original.format);
    }
  }

  /// The result of a layer, and that of its adapter added to it.
  constexpr value add_to(value result, int place, const tensor& input) {
    if (place == none || is_off) return result;
    const layer& by = layers_[place];
    if (by.is_quantised) return add_to_quantised(std::move(result), by, input);
    const element format = result->format;
    const value x = cast(t_, input, t_.format_before(by.down));
    if (by.magnitude == none)
      result = eager::add(t_, result, scaled_matmul(by, x));
    else
      result = add_rescaled(by, x, result);
    return cast(t_, result, format);
  }
  /// Likewise of what a convolution makes of patches.
  constexpr value add_to_patches(value result, int place, const tensor& images) {
    if (place == none || is_off) return result;
    const layer& by = layers_[place];
    const element format = result->format;
    const value x = cast(t_, images, t_.format_of(by.down));
    const value low = convolve(t_, dropout(t_, x, drops()), by.down, none);
    result = eager::add(t_, result, scale(t_, convolve(t_, low, by.up, none)));
    return cast(t_, result, format);
  }
  /// Likewise of the rows of a table; where these are multiplied by a factor, both are.
  constexpr value add_to_rows(value result,
                              int place,
                              const tensor& ids,
                              const tensor& factor = {}) {
    if (place == none || is_off) return result;
    const layer& by = layers_[place];
    const element format = result->format;
    value scaled;
    {
      const value down = transposed(by.down);
      const value up = transposed(by.up);
      const value low = embedding(t_, ids, *down);
      const value rows = view(t_, low, {low->count() / given().rank, given().rank});
      const value product = eager::product(t_, rows, up);
      sizes wanted = low->size;
      wanted[wanted.rank - 1] = by.out;
      const value shaped = view(t_, product, wanted);
      scaled = scale(t_, shaped);
    }
    if (factor.defined()) scaled = multiply(t_, scaled, cast(t_, factor, scaled->format));
    result = eager::add(t_, result, scaled);
    scaled.drop();
    return cast(t_, result, format);
  }

  /// What the matrices of all experts read are multiplied by, while a layer's experts run.
  struct folded_experts {
    int place = none;
    value left{}, right{};  // whose product, of each expert, is added
    value whole{};          // to its matrix
  };
  /// ParamWrapper: the factors, by which a parametrization is checked before it is read.
  constexpr folded_experts prepare_experts(int place) {
    folded_experts made{.place = is_off ? none : place};
    if (made.place == none) return made;
    const layer& by = layers_[place];
    const std::int64_t rank = given().rank;
    value down = view(t_, t_.parameter(by.down), {by.experts, rank, by.in});
    value up = view(t_, t_.parameter(by.up), {by.out, rank, by.experts});
    up = transpose(t_, transpose(t_, up, 0, 2), 1, 2);
    if (by.is_upright) {
      down = transpose(t_, down, 1, 2);
      up = transpose(t_, up, 1, 2);
    }
    const element format = t_.parameter(by.weight).format;
    made.left = cast(t_, by.is_upright ? down : up, format);
    made.right = cast(t_, by.is_upright ? up : down, format);
    const auto unrecorded = t_.without_graph();  // of what is checked nothing is left
    const value checked = fold(made);
    return made;
  }
  /// The matrices, added to on first reading.
  constexpr tensor matrices_of(int weight, folded_experts& by) {
    if (by.place == none) return t_.parameter(weight);
    if (!by.whole->defined()) by.whole = fold(by);
    return *by.whole;
  }

  /// The first matrix of the adapter at a place.
  [[nodiscard]] constexpr int first_matrix(int place) const { return layers_[place].down; }

  bool is_off = false;                  // disable_adapter(): layers are as without
  watched_adapters* watched = nullptr;  // none: modules are run here

 private:
  struct layer {
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t experts = 0;   // whose matrices are one parameter
    std::int64_t channels = 0;  // of a convolution
    std::int64_t side = 0;      // of its patches
    int weight = none;
    int bias = none;
    int down = none;
    int up = none;
    int magnitude = none;
    bool is_quantised = false;
    bool is_upright = false;         // its matrix is in x out
    int moved[3]{none, none, none};  // on the device, in the format of the layer beside
  };
  struct copied {
    int of = none;
    int copy = none;
  };

  [[nodiscard]] constexpr const lora& given() const { return setup_.trains.adapters; }
  [[nodiscard]] constexpr bool drops() const { return given().dropout > 0; }
  [[nodiscard]] constexpr sizes size_of_down(const layer& of) const {
    if (of.channels != 0) return {given().rank, of.channels, of.side, of.side};
    if (of.experts != 0) return {given().rank * of.experts, of.in};
    return {given().rank, of.in};
  }
  [[nodiscard]] constexpr sizes size_of_up(const layer& of) const {
    if (of.channels != 0) return {of.out, given().rank, 1, 1};
    if (of.experts != 0) return {of.out, given().rank * of.experts};
    return {of.out, given().rank};
  }
  [[nodiscard]] constexpr bool has_adapters() const {
    return setup_.trains.what == training::adapters;
  }
  [[nodiscard]] constexpr bool is_adapted(operator_kind kind) const {
    return has_adapters() && detail::is_adapted(given(), setup_.model, {.kind = kind});
  }
  constexpr int add(layer one) {
    one.down = t_.reserve_parameter(true);
    one.up = t_.reserve_parameter(true);
    t_.parameters[one.down].name = "adapter, down";
    t_.parameters[one.up].name = "adapter, up";
    return layers_.push(one);
  }

  /// The format that an adapter takes on first: bytes are no number's.
  constexpr element format_of_base(const layer& one, element own) const {
    const bool has_none = one.is_quantised && base_.stored_as() == element::uint8;
    return has_none ? own : t_.parameters[one.weight].data.format;
  }
  constexpr void move_to_device(
      int& moved, int parameter, const sizes& size, element first, element own) {
    if (first == own)
      t_.build_parameter(parameter, size, own);
    else
      moved = t_.new_storage(size.count() * bytes_of(first));
  }
  constexpr void cast_to_own(int& moved, int parameter, const sizes& size, element own) {
    if (moved == none) return;
    t_.build_parameter(parameter, size, own);
    t_.release(moved);
    moved = none;
  }

  /// Beside a matrix in blocks the result is copied first, and casts are left to autocast where
  /// that is on.
  constexpr value add_to_quantised(value result, const layer& by, const tensor& input) {
    result = clone(t_, result);
    const element format = result->format;
    const element own = t_.parameters[by.down].data.format;
    const value x = cast(t_, input, t_.autocasts() ? input.format : own);
    if (by.magnitude == none) {
      value more = scaled_matmul(by, x);
      if (!t_.autocasts()) more = cast(t_, more, format);
      return eager::add(t_, result, more);
    }
    result = add_rescaled(by, x, result);
    if (t_.autocasts()) return result;
    return cast(t_, result, format);
  }
  constexpr value weight_of(const layer& by) {
    if (by.is_quantised) return base_.whole(by.weight);
    return t_.share(t_.parameter(by.weight));
  }

  // torch.baddbmm(matrices, left, right, alpha=scaling), in the format of the matrices
  constexpr value fold(const folded_experts& by) {
    const auto as_they_are = t_.without_autocast();
    return baddbmm(t_, t_.parameter(layers_[by.place].weight), by.left, by.right);
  }

  /// lora_B(lora_A(dropout(x))) * scaling
  constexpr value scaled_matmul(const layer& by, const tensor& x) {
    if (watched != nullptr) return scale(t_, product(by, watched->run_dropout(x, drops())));
    return scale(t_, product(by, dropout(t_, x, drops())));
  }
  constexpr value product(const layer& by, argument x) {
    return multiplied_by(multiplied_by(x, by.down), by.up);
  }
  constexpr value multiplied_by(argument given, int weight) {
    const held x(given);
    if (watched != nullptr) return watched->run_linear(x, weight);
    t_.begin_adapter(weight);
    value made = linear(t_, x, weight, none);
    t_.end_adapter(weight, made);
    return made;
  }

  constexpr value add_rescaled(const layer& by, const tensor& x, const tensor& result) {
    const value read = dropout(t_, x, drops());
    return eager::add(t_, result, rescaled(by, read, result));
  }
  /// DoRA (Liu et al. 2024, arXiv 2402.09353): the whole matrix keeps the norm of its rows, but for
  /// the trained magnitudes. Its norm is computed from the adapter's product with an identity.
  /// Where elements of what it reads are dropped, the layer's own product is computed again from
  /// the rest.
  constexpr value rescaled(const layer& by, const tensor& x, const tensor& result) {
    // What the graph of that product would keep; nothing follows it back.
    value eye, low, both;
    {
      const value identity = t_.make({by.in, by.in}, t_.format_of(by.down));
      const value down = lowered_parameter(t_, by.down);
      eye = lowered(t_, identity);
      low = unrecorded_linear(eye, by.down);
      const value up = lowered_parameter(t_, by.up);
      const value turned = unrecorded_linear(low, by.up);
      both = transpose(t_, turned, 0, 1);
    }
    both = cast(t_, both, x.format);
    value weight = weight_of(by);
    weight = cast(t_, weight, x.format);
    const value norm = norm_of_rows(by_rows(by, weight), both);
    value factor = multiply(t_, t_.parameter(by.magnitude), norm);
    factor = view(t_, factor, {1, by.out});
    const value raised = product(by, x);
    value base;
    if (drops())
      base = linear_by(t_, x, matrix_of(by, weight));
    else if (by.bias == none)
      base = t_.share(result);
    else
      base = subtract(t_, result, t_.parameter(by.bias));
    const value of_base = multiply(t_, add_number(t_, factor), base);
    return eager::add(t_, of_base, scale(t_, multiply(t_, factor, raised)));
  }
  constexpr value unrecorded_linear(const tensor& x, int weight) {
    const auto unrecorded = t_.without_graph();
    return linear(t_, x, weight, none);
  }
  static constexpr tensor by_rows(const layer& by, tensor weight) {
    if (by.is_upright) swap_dimensions(weight, 0, 1);
    return weight;
  }
  /// Of an upright matrix PEFT makes a parameter of its own, which trains in vain.
  constexpr tensor matrix_of(const layer& by, const tensor& weight) {
    tensor matrix = by_rows(by, weight);
    if (!by.is_upright || weight.storage != t_.parameters[by.weight].data.storage) return matrix;
    matrix.is_view = false;
    t_.require_gradient(matrix);
    return matrix;
  }
  /// The norm of each row of weight + scaling * more.
  constexpr value norm_of_rows(const tensor& weight, const tensor& more) {
    const std::int64_t out = more.size[0];
    const std::int64_t in = more.size[1];
    value whole;
    {
      const value scaled = t_.make_like(more.size, more.format, more);
      whole = t_.make_like(more.size, weight.format, weight, *scaled);
    }
    value norm = t_.make(sizes{out}, whole->format);
    touch(t_, scratch_of_reduction(t_.device, in, out, whole->stride[1] == 1));
    return norm;
  }
  constexpr value transposed(int parameter) { return transpose(t_, t_.parameter(parameter), 0, 1); }

  tape& t_;
  const training_setup& setup_;
  quantised_weights& base_;
  growing_array<layer> layers_{};
  growing_array<copied> copies_{};
};

}  // namespace gpuplan::eager

#pragma once

// The matrix products of training: their shapes and how their operands lie in memory. Host code.

#include <gpuplan/flops.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace gpuplan::cuda {

/// Which of the three products of a linear layer `Y = X W^T`, where X and Y have a row for each
/// token and W one for each output. It says which operand is read along its columns.
enum class matmul_pass {
  forward,         // Y = X W^T
  input_gradient,  // dX = dY W
  weight_gradient  // dW = dY^T X
};

[[nodiscard]] constexpr const char* name(matmul_pass pass) {
  switch (pass) {
    case matmul_pass::forward:
      return "forward";
    case matmul_pass::input_gradient:
      return "input gradient";
    case matmul_pass::weight_gradient:
      return "weight gradient";
  }
  return "";
}

/// C = A B in one format; A is m x k, B k x n, C m x n and lies by rows.
struct matmul {
  number_format format{};
  matmul_shape shape{};
  matmul_pass pass = matmul_pass::forward;

  /// Whether A lies in memory as k x m by rows, or B as n x k. Matrix units of 8-bit formats read
  /// both along k, so frameworks transpose copies for the backward pass.
  [[nodiscard]] constexpr bool a_is_transposed() const {
    return pass == matmul_pass::weight_gradient && !is_8_bit();
  }
  [[nodiscard]] constexpr bool b_is_transposed() const {
    return pass == matmul_pass::forward || is_8_bit();
  }
  [[nodiscard]] constexpr bool is_8_bit() const { return bits_per_element(format) == 8; }
};

/// 2 m n k.
[[nodiscard]] constexpr flop_count flops(const matmul_shape& of) {
  return flop_count::from_value(2 * static_cast<double>(of.m) * static_cast<double>(of.n) *
                                static_cast<double>(of.k));
}

/// A product that a model needs, as often as it does in one forward and backward pass.
struct model_matmul {
  operator_kind kind{};  // the first that has it
  matmul_shape shape{};
  matmul_pass pass = matmul_pass::forward;
  std::int64_t count = 0;
};

namespace detail {

class matmul_visitor {
 public:
  matmul_visitor(const transformer& model,
                 std::int64_t sequences,
                 std::int64_t sequence_length,
                 std::int64_t tensor_parallel)
      : model_(model),
        sequences_(sequences),
        tokens_(sequences * sequence_length),
        ways_(tensor_parallel) {}

  std::vector<model_matmul> products;

  void repeat(std::int64_t count) { times_ = count; }
  void begin_sublayer() {}
  void norm(slot, std::int64_t) {}
  void latent_norm(slot, std::int64_t) {}
  void head_norm(slot, std::int64_t) {}
  void output_norm(slot, std::int64_t) {}
  void share(slot, slot) {}
  void sinks(std::int64_t) {}
  void attention(const attention_operator&) {}
  void weigh(slot, slot) {}
  void recur(const recurrent_operator&) {}
  void scale(std::int64_t) {}
  void add_residual() {}

  void linear(const linear_operator& op) {
    const bool is_divided = ways_ > 1;
    const std::int64_t in = is_divided && op.split == tensor_split::rows
                                ? gpuplan::detail::dealt(op.extent, ways_, 0)
                                : op.in;
    const std::int64_t out = is_divided && op.split == tensor_split::columns
                                 ? gpuplan::detail::dealt(op.extent, ways_, 0)
                                 : op.out;
    // Routed tokens spread evenly over the experts.
    const std::int64_t tokens =
        gpuplan::detail::ceil_div(tokens_of(op.tokens) * op.uses, op.copies);
    add(op, {tokens, out, in}, matmul_pass::forward);
    if (op.from != slot::image) add(op, {tokens, in, out}, matmul_pass::input_gradient);
    add(op, {out, in, tokens}, matmul_pass::weight_gradient);
  }

 private:
  const transformer& model_;
  std::int64_t sequences_;
  std::int64_t tokens_;
  std::int64_t ways_;
  std::int64_t times_ = 1;

  std::int64_t tokens_of(token_set set) const {
    switch (set) {
      case token_set::pooled:
        return sequences_;
      case token_set::patches:
        return sequences_ * model_.image.patches();
      case token_set::own:
      case token_set::memory:
        break;
    }
    return tokens_;
  }
  void add(const linear_operator& op, const matmul_shape& shape, matmul_pass pass) {
    const std::int64_t count = times_ * op.copies;
    for (model_matmul& known : products)
      if (known.shape == shape && known.pass == pass) {
        known.count += count;
        return;
      }
    products.push_back({op.kind, shape, pass, count});
  }
};

}  // namespace detail

/// The products of a model's linear layers in one forward and backward pass of `sequences` on one
/// of `tensor_parallel` devices, where all of it trains: each shape once, in the order of the
/// forward pass. A decoder behind an encoder has as many tokens as it. Those of attention and of
/// recurrences are not among them: their kernels fuse them. Preconditions: `validate` accepts the
/// model, `sequence_length` is at least 1 (an image's tokens for vision), and so are the others.
[[nodiscard]] inline std::vector<model_matmul> matmuls_of(const transformer& model,
                                                          std::int64_t sequences,
                                                          std::int64_t sequence_length,
                                                          std::int64_t tensor_parallel = 1) {
  detail::matmul_visitor visitor(model, sequences, sequence_length, tensor_parallel);
  visit_input(model, visitor);
  layer_counts layers = layers_between(model, 0, model.layers());
  layers.add(mtp_layers_of(model), model.mtp_layers);
  visit_layers(model, layers, visitor);
  gpuplan::detail::visit_end(model, visitor);
  return std::move(visitor.products);
}

}  // namespace gpuplan::cuda

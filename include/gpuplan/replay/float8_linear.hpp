#pragma once

// Linear layers whose products are in fp8, as torchao 0.18 computes them in eager mode with one
// scale a tensor, found anew each time. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// Float8Linear: a function that keeps its input and its weight as they come, and casts them to fp8
/// where it multiplies.
class float8_linear {
 public:
  constexpr explicit float8_linear(tape& on) : t_(on) {}
  float8_linear(const float8_linear&) = delete;
  float8_linear& operator=(const float8_linear&) = delete;

  constexpr value operator()(const tensor& input, int weight, int bias) {
    const value x = cast(t_, input, t_.computes_in(input.format));
    const value w = transpose(t_, t_.parameter(weight), 0, 1);
    value result = product(x, w);
    if (bias == none) return result;
    return add(t_, result, cast(t_, t_.parameter(bias), result->format));
  }

 private:
  // With its scale.
  struct in_fp8 {
    value elements{};
    value scale{};
  };

  constexpr value product(const tensor& x, const tensor& w) {
    const int by = t_.add_node(backward_, {&x, &w});
    value result;
    {
      in_fp8 left = to_fp8(t_, x);
      in_fp8 right = to_fp8(t_, w);
      sizes wanted = x.size;
      wanted[wanted.rank - 1] = w.size[1];
      result = multiplied(t_, wanted, x.format);
      t_.count_product({x.count() / w.size[0], w.size[0], w.size[1]},
                       {&*left.elements, &*right.elements, &*result});
      for (in_fp8* one : {&right, &left}) drop(*one);
    }
    t_.keep(by, x);
    t_.keep(by, w);
    t_.result_of(by, result.get());
    return result;
  }

  static constexpr void drop(in_fp8& one) {
    one.elements.drop();
    one.scale.drop();
  }

  // hp_tensor_to_float8_dynamic
  static constexpr in_fp8 to_fp8(tape& t, const tensor& of) {
    in_fp8 made;
    {
      const value largest = largest_magnitude(t, of);
      const value wide = scalar(t, element::int64);  // as wide as fp64
      value clamped = scalar(t, element::int64);
      value inverse = scalar(t, element::int64);
      const value quotient = scalar(t, element::int64);
      inverse.drop();
      clamped.drop();
      made.scale = scalar(t, element::fp32);
    }
    value scaled;
    {
      const value in_fp32 = cast_unrecorded(t, of);
      scaled = t.make(of.size, element::fp32);
    }
    const value clamped = t.make(of.size, element::fp32);
    made.elements = t.make(of.size, element::fp8);
    return made;
  }
  // max(abs(x)), of a copy where x has another order
  static constexpr value largest_magnitude(tape& t, const tensor& of) {
    const value magnitudes = t.make(of.size, of.format);
    value largest = scalar(t, of.format);
    value dense;
    if (!of.is_contiguous()) dense = t.make(of.size, of.format);
    touch(t, scratch_of_reduction(t.device, of.count(), 1, true));
    return largest;
  }
  static constexpr value cast_unrecorded(tape& t, const tensor& of) {
    if (of.format == element::fp32) return {};
    return t.make(of.size, element::fp32);
  }
  static constexpr value scalar(tape& t, element format) { return t.make(sizes{}, format); }
  // torch._scaled_mm, and the inverse of both scales
  static constexpr value multiplied(tape& t, const sizes& size, element format) {
    value left = scalar(t, element::fp32);
    const value right = scalar(t, element::fp32);
    value made = t.make(size, format);
    t.touch_workspace(true);
    left.drop();
    return made;
  }

  struct matmul_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const tensor x = t.kept_by(by, 0);
      const tensor w = t.kept_by(by, 1);
      const std::int64_t rows = g.count() / w.size[1];
      in_fp8 of_g = to_fp8(t, g);
      in_fp8 of_w = to_fp8(t, w);
      {
        const value turned = t.make(w.size, element::fp8);
        out.of[0] = multiplied(t, x.size, g.format);
        t.count_backward({rows, w.size[1], w.size[0]},
                         {&*of_g.elements, &*of_w.elements, &*out.of[0]});
      }
      in_fp8 of_g_again = to_fp8(t, g);
      in_fp8 of_x = to_fp8(t, x);
      {
        value turned = t.make({w.size[1], rows}, element::fp8);
        const value dense = t.make(x.size, element::fp8);
        out.of[1] = multiplied(t, {w.size[1], w.size[0]}, g.format);
        t.count_backward({w.size[0], rows, w.size[1]},
                         {&*of_g_again.elements, &*of_x.elements, &*out.of[1]});
        turned.drop();
      }
      swap_dimensions(out.of[1].get(), 0, 1);
      for (in_fp8* one : {&of_g, &of_w, &of_g_again, &of_x}) drop(*one);
    }
  };

  tape& t_;
  matmul_backward backward_{};
};

}  // namespace gpuplan::eager

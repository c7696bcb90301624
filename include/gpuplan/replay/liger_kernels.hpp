#pragma once

// The functions that Liger 0.8 puts in place of transformers' own (use_liger_kernel): Triton
// kernels that write over what they read. Transcribed from liger_kernel/ops. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class liger_kernels {
 public:
  constexpr explicit liger_kernels(tape& on) : t_(on) {}
  liger_kernels(const liger_kernels&) = delete;
  liger_kernels& operator=(const liger_kernels&) = delete;

  /// LigerRMSNorm: keeps its input and a number of each row.
  constexpr value rms_norm(argument given, int weight) {
    const held x(given);
    const tensor w = t_.parameter(weight);
    const int by = t_.add_node(norm_backward_, {&x, &w});
    value result = t_.make(x.size, x.format, {"output", weight, &x});
    const value spread = t_.make(sizes{rows_of(x)}, element::fp32, {"spreads of rows", weight});
    t_.executes({&x, &w, &*result, &*spread}, {.kind = kernel_kind::rms_norms});
    t_.keep(by, x);
    t_.keep(by, w);
    t_.keep(by, spread);
    t_.result_of(by, result.get());
    return result;
  }

  /// LigerSiLUMul: silu(gate) * up; keeps both, and writes their gradients over them.
  constexpr value silu_mul(argument given_gate, argument given_up) {
    const held gate(given_gate), up(given_up);
    const int by = t_.add_node(silu_backward_, {&gate, &up});
    value result = t_.make(gate.size, gate.format, {"activated", none, &gate});
    t_.executes({&gate, &up, &*result});
    t_.keep(by, gate);
    t_.keep(by, up);
    t_.result_of(by, result.get());
    return result;
  }

  /// LigerRope: turns query and key, (batch, heads, tokens, width), where they lie.
  constexpr void rotate(value& q, value& k, const tensor& cosines, const tensor& sines) {
    const int by = t_.add_node(rope_backward_, {&*q, &*k});
    t_.executes({&*q, &*k, &cosines, &sines, &*q, &*k});
    t_.keep(by, cosines);
    t_.keep(by, sines);
    value turned_q = t_.share(q);
    value turned_k = t_.share(k);
    t_.result_of(by, turned_q.get(), 0);
    t_.result_of(by, turned_k.get(), 1);
    q = std::move(turned_q);
    k = std::move(turned_k);
  }

  /// LigerFusedLinearCrossEntropy: the mean loss of rows (tokens, width) through the head's matrix.
  /// Logits are there for a part of the tokens at a time, and gradients are made with them.
  constexpr value linear_cross_entropy(const tensor& x, int head, const tensor& labels) {
    const tensor w = t_.parameter(head);
    const std::int64_t rows = x.size[0];
    const std::int64_t width = x.size[1];
    const std::int64_t classes = w.size[0];
    const int by = t_.add_node(loss_backward_, {&x, &w});
    const value gradient = full(t_, x.size, x.format, {"gradient of the head's input"});
    value of_weight;
    if (w.needs_gradient()) of_weight = full(t_, w.size, w.format, {"gradient of the head", head});
    const value losses = full(t_, sizes{rows}, element::fp32);
    const value is_counted = compute(t_, labels, labels.size, element::boolean);
    count_labels(is_counted);
    const element format = t_.computes_in(x.format);
    // Products write where they should, as long as autocast would change nothing.
    const bool in_place = x.format == w.format && x.format == format;
    const std::int64_t part = rows_of_part(rows, width, classes);
    value kept_logits;
    if (in_place) kept_logits = t_.make({part, classes}, format, {"logits of a part", head});
    for (std::int64_t from = 0; from < rows; from += part) {
      const std::int64_t count = at_most(part, rows - from);
      const tensor seen = part_of(x, count);
      value logits;
      if (in_place) {
        logits = t_.share(kept_logits);
        multiply({count, width, classes});
      } else {
        const value lowered_x = cast(t_, seen, format);
        const value lowered_w = cast(t_, w, format);
        logits = t_.make({count, classes}, format, {"logits of a part", head});
        multiply({count, width, classes});
      }
      t_.executes({&*logits, &labels, &*logits});
      multiply_by_head(in_place, format, head, count, width, classes);
      if (of_weight->defined()) add_to_weight(of_weight, seen, format, {classes, count, width});
    }
    kept_logits.drop();
    value loss = sum_to(t_, losses, sizes{});
    t_.keep(by, gradient);
    if (of_weight->defined()) t_.keep(by, of_weight);
    t_.result_of(by, loss.get());
    return loss;
  }

 private:
  [[nodiscard]] static constexpr std::int64_t rows_of(const tensor& x) {
    return x.count() / x.size[x.size.rank - 1];
  }
  /// As many tokens as have about as many logits as all have hidden numbers; a power of two.
  [[nodiscard]] static constexpr std::int64_t rows_of_part(std::int64_t rows,
                                                           std::int64_t width,
                                                           std::int64_t classes) {
    const std::int64_t parts = detail::ceil_div(classes, width);
    std::int64_t part = 1;
    while (part < detail::ceil_div(rows, parts)) part *= 2;
    return at_most(part, rows);
  }
  [[nodiscard]] static constexpr tensor part_of(const tensor& x, std::int64_t rows) {
    tensor seen = x;
    seen.node = none;
    seen.is_view = true;
    seen.size[0] = rows;
    return seen;
  }
  // The mask's sum, which the host reads.
  constexpr void count_labels(const tensor& mask) {
    const value sum = t_.make(sizes{}, element::int64);
    touch(t_, scratch_of_reduction(t_.device, mask.count(), 1, true));
  }
  constexpr void multiply(const matrix_product& product) {
    t_.touch_workspace();
    t_.count_product(product, {});
  }
  // The gradient of the part of the input.
  constexpr void multiply_by_head(bool in_place,
                                  element format,
                                  int head,
                                  std::int64_t rows,
                                  std::int64_t width,
                                  std::int64_t classes) {
    value matrix, result;
    if (!in_place) {
      matrix = lowered_parameter(t_, head);
      result = t_.make({rows, width}, format);
    }
    multiply({rows, classes, width});
  }
  constexpr void add_to_weight(const tensor& sum,
                               const tensor& x,
                               element format,
                               const matrix_product& product) {
    const bool adds_in_product = is_half(format);
    value lowered_x, made;
    if (adds_in_product)
      lowered_x = cast(t_, x, format);
    else
      made = t_.make(sum.size, sum.format);
    multiply(product);
    if (!adds_in_product) t_.executes({&sum, &*made, &sum});
  }

  struct norm_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor x = t.kept_by(by, 0);
      const std::int64_t width = x.size[x.size.rank - 1];
      value together;
      if (!incoming[0]->is_contiguous()) together = compute(t, *incoming[0], x.size, x.format);
      const value& g = together->defined() ? together : incoming[0];
      const bool wants_weight = t.nodes[by].input[1].node != none;
      value parts;
      if (wants_weight)
        parts = t.make({t.device.multiprocessors, width}, element::fp32, {"gradient in parts"});
      t.executes({&*g, &x, &*g}, {.kind = kernel_kind::rms_norms});
      if (wants_weight) {
        const value sum = sum_to(t, parts, sizes{width});
        out.of[1] = cast(t, sum, t.kept_by(by, 1).format);
      }
      out.of[0] = t.share(g);
    }
  };
  struct silu_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      static_cast<void>(t.kept_by(by, 0));
      value together;
      const tensor& g = *incoming[0];
      if (!g.is_contiguous()) together = compute(t, g, g.size, g.format);
      out.of[0] = t.take_kept(by, 0);
      out.of[1] = t.take_kept(by, 1);
      t.executes({&g, &*out.of[0], &*out.of[1], &*out.of[0], &*out.of[1]});
    }
  };
  struct rope_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      static_cast<void>(t.kept_by(by, 0));
      for (int which = 0; which < 2; ++which) {
        tensor turned = *incoming[which];
        swap_dimensions(turned, 1, 2);
        if (turned.is_contiguous())
          out.of[which] = t.share(turned);
        else
          out.of[which] = compute(t, turned, turned.size, turned.format);
        t.executes({&*out.of[which], &*out.of[which]});
        swap_dimensions(out.of[which].get(), 1, 2);
      }
    }
  };
  // Its gradients are there: the host asks whether they are to be scaled.
  struct loss_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* /*incoming*/, gradients& out) const override {
      {
        const value one = t.make(sizes{}, element::fp32);
        const value is_equal = t.make(sizes{}, element::boolean);
        const value are_all = t.make(sizes{}, element::boolean);
      }
      out.of[0] = t.take_kept(by, 0);
      if (t.nodes[by].input[1].node != none) out.of[1] = t.take_kept(by, 1);
    }
  };

  tape& t_;
  norm_backward norm_backward_{};
  silu_backward silu_backward_{};
  rope_backward rope_backward_{};
  loss_backward loss_backward_{};
};

}  // namespace gpuplan::eager

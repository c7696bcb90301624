#pragma once

// Cut cross-entropy: the mean loss of tokens through the head's matrix by kernels that never write
// logits. Transcribed from cut_cross_entropy/cce.py and what it calls (apple/ml-cross-entropy),
// with its defaults: gradients of small probabilities are left out, in an order of the vocabulary
// by the mean of its logits. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

class cut_cross_entropy {
 public:
  constexpr explicit cut_cross_entropy(tape& on) : t_(on) {}
  cut_cross_entropy(const cut_cross_entropy&) = delete;
  cut_cross_entropy& operator=(const cut_cross_entropy&) = delete;

  /// Of states (rows, tokens, width), each but the first token of a row foretold.
  constexpr value loss_of(const tensor& x, int head, const tensor& labels) {
    const tensor w = t_.parameter(head);
    const std::int64_t count = x.size[0] * (x.size[1] - 1);
    const std::int64_t classes = w.size[0];
    const int by = t_.add_node(backward_, {&x, &w});
    const value counted = places_of(labels, count);
    const value sums = full(t_, sizes{count}, element::fp32, {"sums of exponentials"});
    const value locks = full(t_, sizes{detail::ceil_div(count, lock_rows)}, element::int32);
    value averages;
    if (by != none) averages = full(t_, sizes{classes}, element::fp32, {"means of logits"});
    t_.count_product({count, x.size[2], classes}, {});
    const value losses = full(t_, sizes{count}, element::fp32);
    value loss = sum_to(t_, losses, sizes{});
    t_.keep(by, x);
    t_.keep(by, w);
    t_.keep(by, sums);
    t_.keep(by, labels);
    t_.keep(by, counted);
    t_.hold_with_graph(counted);  // beside what is kept, by the function's context
    if (averages->defined()) t_.keep(by, averages);
    t_.result_of(by, loss.get());
    return loss;
  }

 private:
  static constexpr std::int64_t lock_rows = 128;
  static constexpr std::int64_t lock_width = 64;

  // Where the tokens are that have a label: (labels[..., 1:] != -100).nonzero(), flattened.
  constexpr value places_of(const tensor& labels, std::int64_t count) {
    value narrow;
    {
      const value mask =
          compute(t_, labels, {labels.size[0], labels.size[1] - 1}, element::boolean);
      const value found = t_.make(sizes{1}, element::int32, {"number"});
      t_.touch(1);
      const value places = t_.make({count, 2}, element::int64, {"places"});
      t_.touch(256 + tile_states(mask->count(), 896, 16));
      narrow = t_.make({count, 2}, element::int32, {"places"});
    }
    return t_.make(sizes{count}, element::int64, {"places"});
  }

  struct gradient_of_loss final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor x = t.kept_by(by, 0);
      const tensor w = t.kept_by(by, 1);
      const std::int64_t count = t.kept_by(by, 2).count();
      const std::int64_t width = w.size[1];
      const std::int64_t classes = w.size[0];
      const bool wants_states = t.nodes[by].input[0].node != none;
      const bool wants_weight = t.nodes[by].input[1].node != none;
      value order;
      {
        const value sorted = t.make(sizes{classes}, element::fp32, {"means of logits"});
        const value places = t.make(sizes{classes}, element::int64, {"order of the vocabulary"});
        order = t.make(sizes{classes}, element::int32, {"order of the vocabulary"});
      }
      value of_states, of_weight;
      if (wants_states) of_states = full(t, x.size, x.format, {"gradient of the head's input"});
      if (wants_weight) of_weight = full(t, w.size, w.format, {"gradient of the head"});
      const std::int64_t across = detail::ceil_div(width, lock_width);
      value locks[2];
      if (wants_states) locks[0] = full(t, sizes{locks_of(count, across)}, element::int32);
      if (wants_weight) locks[1] = full(t, sizes{locks_of(classes, across)}, element::int32);
      // the logits again, and what they give
      t.count_backward({count, width, classes}, {&x, &w, &*incoming[0]});
      if (wants_states) t.count_backward({count, classes, width}, {&*of_states});
      if (wants_weight) t.count_backward({classes, count, width}, {&*of_weight});
      out.of[0] = std::move(of_states);
      out.of[1] = std::move(of_weight);
    }
    [[nodiscard]] static constexpr std::int64_t locks_of(std::int64_t rows, std::int64_t across) {
      return detail::ceil_div(rows, lock_rows) * across;
    }
  };

  tape& t_;
  gradient_of_loss backward_{};
};

}  // namespace gpuplan::eager

#pragma once

// Tensors divided among ranks by collectives that the code calls itself, as torchtitan 0.3 does
// with spmd_types: operators see a rank's part as a plain tensor. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Between layers a rank has its part of the tokens, within them all tokens and a part of heads,
/// columns or rows of the vocabulary; of (batch, tokens, width), on the first rank.
class explicit_collectives {
 public:
  constexpr explicit_collectives(tape& on, std::int64_t ranks) : t_(on), ranks_(ranks) {
    gathered_.owner = scattered_.owner = this;
  }
  explicit_collectives(const explicit_collectives&) = delete;
  explicit_collectives& operator=(const explicit_collectives&) = delete;

  [[nodiscard]] constexpr bool is_on() const { return ranks_ > 1; }
  [[nodiscard]] constexpr std::int64_t part_of(std::int64_t size) const {
    return ceil_div(size, ranks_);
  }

  /// All tokens, of the ranks' parts; alone, the tensor itself.
  constexpr value gather(const tensor& x) {
    if (!is_on()) return t_.share(x);
    const int by = t_.add_node(gathered_, {&x});
    value all = gathered(t_, x);
    t_.result_of(by, all.get());
    return all;
  }
  /// The rank's part of the tokens, of a sum over ranks; alone, the tensor itself.
  constexpr value scatter(const tensor& x) {
    if (!is_on()) return t_.share(x);
    const int by = t_.add_node(scattered_, {&x});
    value part = scattered(t_, x);
    t_.result_of(by, part.get());
    return part;
  }

  /// Rows of a table of which each rank has some: zeros for those of others.
  constexpr value embed(const tensor& ids, int weight) {
    value own, numbers;
    {
      const value below = compute(t_, ids, ids.size, element::boolean);
      const value above = compute(t_, ids, ids.size, element::boolean);
      own = compute(t_, {&*below, &*above}, ids.size, element::boolean);
    }
    {
      const value shifted = compute(t_, ids, ids.size, element::int64);
      numbers = compute(t_, shifted, ids.size, element::int64);
    }
    const value rows = embedding(t_, numbers, weight);
    const value factor = compute(t_, own, {ids.size[0], ids.size[1], 1}, rows->format);
    return multiply(t_, rows, factor);
  }

  /// The sum of the cross entropies of logits in fp32 whose classes are divided; what is kept are
  /// the logarithms of the rank's probabilities.
  constexpr value cross_entropy(const tensor& logits, const tensor& labels) {
    const int by = t_.add_node(of_loss_, {&logits});
    const std::int64_t rows = logits.size[0];
    const sizes column{rows, 1};
    const element wide = element::fp32;
    value loss;
    {
      value largest = reduced(logits, column);
      largest = compute(t_, largest, column, wide);  // of all ranks
      const value shifted = compute(t_, {&logits, &*largest}, logits.size, wide);
      value sum;
      {
        const value powers = compute(t_, shifted, logits.size, wide);
        sum = reduced(powers, column);
      }
      sum = compute(t_, sum, column, wide);
      value logs;
      {
        const value logarithm = compute(t_, sum, column, wide);
        logs = compute(t_, {&*shifted, &*logarithm}, logits.size, wide);
      }
      const own_labels mine(t_, labels);
      value chosen = compute(t_, {&*logs, &*mine.numbers}, column, wide);
      chosen = compute(t_, chosen, column, wide);
      value each = compute(t_, chosen, {rows}, wide);
      {
        const value counts = compute(t_, labels, {rows}, element::boolean);
        each = compute(t_, {&*counts, &*each}, {rows}, wide);
      }
      loss = reduced(each, sizes{1});
      loss.get().size.rank = 0;
      t_.keep(by, logs);
      t_.keep(by, labels);
    }
    t_.result_of(by, loss.get());
    return loss;
  }

 private:
  // Labels that count, which of them are other ranks', and their numbers among the rank's own.
  struct own_labels {
    value safe{}, outside{}, numbers{};
    constexpr own_labels(tape& t, const tensor& labels) {
      const sizes all{labels.count()};
      {
        const value counts = compute(t, labels, all, element::boolean);
        safe = compute(t, {&*counts, &labels}, all, element::int64);
      }
      {
        const value below = compute(t, safe, all, element::boolean);
        const value above = compute(t, safe, all, element::boolean);
        outside = compute(t, {&*below, &*above}, all, element::boolean);
      }
      numbers = compute(t, safe, all, element::int64);
    }
  };
  class backward_of : public own_backward {
   public:
    const explicit_collectives* owner = nullptr;

   protected:
    constexpr ~backward_of() = default;
  };
  class scatters_gradient final : public backward_of {
   public:
    constexpr void run(tape& t, int, const value* incoming, gradients& out) const override {
      out.of[0] = owner->scattered(t, incoming[0]);
    }
  };
  class gathers_gradient final : public backward_of {
   public:
    constexpr void run(tape& t, int, const value* incoming, gradients& out) const override {
      out.of[0] = owner->gathered(t, incoming[0]);
    }
  };
  class loss_gradient final : public own_backward {
   public:
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor logs = t.kept_by(by, 0);
      const tensor labels = t.kept_by(by, 1);
      const std::int64_t rows = logs.size[0];
      const element wide = element::fp32;
      const own_labels mine(t, labels);
      const value at_labels = compute(t, logs, logs.size, wide);
      const value range = t.make({rows}, element::int64);
      value update = compute(t, mine.outside, {rows}, wide);
      update = compute(t, update, {rows}, wide);
      value share;
      {
        const value counts = compute(t, labels, {rows}, element::boolean);
        share = compute(t, {&*counts, &*incoming[0]}, {rows, 1}, wide);
      }
      value sum;
      {
        const value powers = compute(t, logs, logs.size, wide);
        sum = compute(t, {&*at_labels, &*powers}, logs.size, wide);
      }
      out.of[0] = compute(t, {&*sum, &*share}, logs.size, wide);
    }
  };

  // One number of each row, or of all.
  constexpr value reduced(const tensor& of, const sizes& to) {
    value made = compute(t_, of, to, element::fp32);
    touch(t_, scratch_of_reduction(t_.device, of.count() / to.count(), to.count(), true));
    return made;
  }
  // Parts arrive one behind the other, and are put together along the tokens.
  constexpr value gathered(tape& t, const tensor& x) const {
    value in_order;
    if (!x.is_contiguous()) in_order = compute(t, x, x.size, x.format);
    sizes size = x.size;
    size[0] *= ranks_;
    const value arrived = t.make(size, x.format);
    sizes whole = x.size;
    whole[1] *= ranks_;
    return compute(t, arrived, whole, x.format);
  }
  // Tokens stand first where they are summed, and still do so in memory afterwards.
  constexpr value scattered(tape& t, const tensor& x) const {
    tensor by_token = x;
    swap_first_two(by_token);
    value in_order;
    if (!by_token.is_contiguous()) in_order = compute(t, x, by_token.size, x.format);
    sizes size = by_token.size;
    size[0] /= ranks_;
    value part = t.make(size, x.format);
    swap_first_two(part.get());
    return part;
  }
  static constexpr void swap_first_two(tensor& of) {
    std::swap(of.size[0], of.size[1]);
    std::swap(of.stride[0], of.stride[1]);
  }

  tape& t_;
  std::int64_t ranks_;
  scatters_gradient gathered_{};
  gathers_gradient scattered_{};
  loss_gradient of_loss_{};
};

}  // namespace gpuplan::eager

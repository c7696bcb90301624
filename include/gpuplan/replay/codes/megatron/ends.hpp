#pragma once

// Both ends of Megatron-Core's models: tables of which each tensor-parallel rank has a part of the
// vocabulary, and the loss of logits divided likewise. Private.

#include <gpuplan/replay/codes/megatron/checkpoints.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_ends : public megatron_checkpoints {
 public:
  using megatron_checkpoints::megatron_checkpoints;
  constexpr ~megatron_ends() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // -- embedding

  // x[mask] = 0, in place
  struct zeroing_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      out.of[0] = on.make(incoming[0]->size, incoming[0]->format);
    }
  };

  constexpr value embed_tokens(const tensor& ids, int weight, bool scatters) {
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
      const int by = t.add_node(zeroing_backward_, {&*rows});
      t.keep(by, outside);
      t.result_of(by, rows.get());
    }
    if (!scatters) return pass_through(rows);
    rows = contiguous(t, transpose(t, rows, 0, 1));
    return reduce_scatter(rows);
  }

  constexpr value embed(const nn_module& table,
                        const nn_module& of_numbers,
                        const tensor& ids,
                        const tensor& positions) {
    const bool scatters = splits_ && of_numbers.weight == none;
    const value words = embed_tokens(ids, table.weight, scatters);
    value x;
    value of_positions;
    if (of_numbers.weight != none) {
      of_positions = embedding(t, positions, of_numbers.weight);
      x = add(t, words, of_positions);
    } else {
      x = t.share(words);
    }
    if (!scatters) x = contiguous(t, transpose(t, x, 0, 1));
    if (splits_) {
      if (!scatters) x = scatter(x);
      x = clone(t, x);
    }
    return dropout(t, x, drops);
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
        const value update = compute(on, on.make(tokens, element::fp32), tokens, element::fp32);
        on.touch(4 * tokens[0]);
        const bool casts = on.nodes[index].argument[0] == 1;
        if (casts)
          grad = on.make(softmax.size, element::bf16);
        else
          grad = on.share(softmax);
      }
      out.of[0] = std::move(grad);
    }
  };

  // (sequence, batch, a part of the vocabulary) and (sequence, batch) to (sequence, batch)
  constexpr value parallel_cross_entropy(const tensor& logits) {
    const bool fuses = setup.framework.implementation.fuses_loss;
    if (fuses && has_engine()) return engine_loss(logits);
    const int by = t.add_node(loss_backward_, {&logits});
    t.note(by, {fuses ? 1 : 0});
    const sizes tokens{logits.size[0], logits.size[1]};
    const value wide = t.make(logits.size, element::fp32, {"logits in fp32", none, &logits});
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
      target = compute(t, t.make(tokens, element::int64), tokens, element::int64);
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

 private:
  zeroing_backward zeroing_backward_{};
  loss_backward loss_backward_{};
};

}  // namespace gpuplan::eager

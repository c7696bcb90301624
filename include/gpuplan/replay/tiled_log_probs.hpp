#pragma once

// The head of TRL 1.16's trainers: log-probabilities of the tokens that have a label, from products
// of 4,096 tokens with 32,768 rows of the head's matrix at a time, which its backward computes
// again. Transcribed from trl/kernels/chunked_logprob.py and add_fused_lm_head of
// trl/trainer/utils.py. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// FusedCausalLMOutput, each of (rows, tokens - 1); what nobody asked for is not there.
struct token_scores {
  value log_probs, entropy, mean_logits, is_top1;
  value label_mask;
  value labels_there, loss;  // numbers
};

class tiled_log_probs {
 public:
  constexpr explicit tiled_log_probs(tape& on) : t_(on) {}
  tiled_log_probs(const tiled_log_probs&) = delete;
  tiled_log_probs& operator=(const tiled_log_probs&) = delete;

  /// What more than log-probabilities is asked for.
  struct asked_for {
    bool entropy = false;
    bool mean_logits = false;
    bool is_top1 = false;
  };

  /// Of states (rows, tokens, width) through the head's matrix those of `scored` tokens that have a
  /// label, (rows, tokens) of int64.
  constexpr token_scores scores(argument given_states,
                                int head,
                                const tensor& labels,
                                std::int64_t scored,
                                const asked_for& asked) {
    const held states(given_states);
    const std::int64_t moved = states.size[1] - 1;
    const value before = slice(t_, states, 1, moved);
    token_scores made;
    const sizes all{states.size[0], moved};
    made.label_mask = compute(t_, labels, all, element::boolean);
    of_tokens raw;
    {
      const value hidden = chosen(before, made.label_mask, {scored, states.size[2]}, true);
      const value targets = chosen(labels, made.label_mask, sizes{scored}, false);
      raw = log_probs_of(hidden, head, targets, asked);
    }
    made.log_probs = spread(raw.log_probs, made.label_mask);
    if (asked.entropy) made.entropy = spread(raw.entropy, made.label_mask);
    if (asked.mean_logits) made.mean_logits = spread(raw.mean_logits, made.label_mask);
    if (asked.is_top1) made.is_top1 = spread(raw.is_top1, made.label_mask);
    raw = {};
    // -log_probs.sum() / mask.sum().clamp(min=1), which nobody reads
    const value negative = number(element::fp32);
    made.labels_there = count_of(made.label_mask, element::int64);
    made.labels_there = number(element::int64);
    made.loss = number(element::fp32);
    return made;
  }

  /// x.sum()
  constexpr value sum_of(argument given) {
    const held x(given);
    const int by = t_.add_node(sum_backward_, {&x});
    if (node* made = t_.at(by)) made->size[1] = x.size;
    value sum = t_.make(sizes{}, x.format, {"sum"});
    touch(t_, scratch_of_reduction(t_.device, x.count(), 1, true));
    t_.executes({&x, &*sum});
    t_.result_of(by, sum.get());
    return sum;
  }
  /// x.mean()
  constexpr value mean_of(argument given) { return sum_of(given); }
  /// x / number.clamp(min=1), which it keeps.
  constexpr value share_of(argument given) {
    const held x(given);
    const value among = number(element::int64);
    const int by = t_.add_node(share_backward_, {&x});
    t_.keep(by, among);
    value share = t_.make(x.size, x.format, {"loss"});
    t_.result_of(by, share.get());
    return share;
  }
  /// (rows, tokens).sum(dim=1)
  constexpr value sums_of_rows(argument given) { return sum_over(t_, given, 1); }
  /// x[:, -tokens:].sum(dim=1).chunk(2)
  constexpr void halves_of_sums(argument given, value* half) {
    const held x(given);
    const value all = slice(t_, x, 1, x.size[1]);
    const value sums = sums_of_rows(all);
    const int parts = split(t_, sums);
    for (int which = 0; which < 2; ++which)
      half[which] = part(t_, parts, sums, 0, x.size[0] / 2, which);
  }

  constexpr value number(element format) { return full(t_, sizes{}, format, {"number"}); }
  /// tensor.sum() of integers or truths, which are cast first.
  constexpr value count_of(const tensor& of, element format) {
    value sum = number(element::int64);
    value wide;
    if (of.format != format) wide = compute(t_, of, of.size, format);
    touch(t_, scratch_of_reduction(t_.device, of.count(), 1, true));
    return sum;
  }

 private:
  static constexpr std::int64_t tokens_of_tile = 4096;
  static constexpr std::int64_t words_of_tile = 32768;

  struct of_tokens {
    value log_probs, entropy, mean_logits, is_top1;
  };

  // The places of what is true, of which the host reads the number.
  constexpr value places_of(const tensor& mask, std::int64_t count) {
    const value found = t_.make(sizes{1}, element::int32, {"number"});
    t_.touch(1);
    value places = t_.make({count, mask.size.rank}, element::int64, {"places"});
    t_.touch(256 + tile_states(mask.count(), 896, 16));
    return places;
  }
  // of[mask]
  constexpr value chosen(const tensor& of, const tensor& mask, const sizes& size, bool has_graph) {
    const int by = has_graph ? t_.add_node(chosen_backward_, {&of}) : none;
    if (node* made = t_.at(by)) made->size[1] = of.size;
    if (by != none) t_.keep(by, mask);
    const value places = places_of(mask, size[0]);
    value made = t_.make(size, of.format, {"scored tokens", none, &of});
    t_.executes({&of, &*places, &*made});
    t_.note(by, {size[0]});
    t_.result_of(by, made.get());
    return made;
  }
  // new_zeros(mask.shape).masked_scatter(mask, x)
  constexpr value spread(const tensor& x, const tensor& mask) {
    const int by = t_.add_node(spread_backward_, {&x});
    t_.keep(by, mask);
    t_.note(by, {x.count()});
    const value zeros = full(t_, mask.size, x.format);
    value made = t_.make(mask.size, x.format, {"numbers of tokens"});
    const value before = t_.make(mask.size, element::int64, {"places"});
    t_.touch(scan_scratch(mask.count()));
    t_.executes({&x, &mask, &*zeros, &*made});
    t_.result_of(by, made.get());
    return made;
  }
  [[nodiscard]] static constexpr std::int64_t scan_scratch(std::int64_t count) {
    return tile_states(count, 2464, 16);
  }

  // ChunkedLogProbFunction
  constexpr of_tokens log_probs_of(const tensor& hidden,
                                   int head,
                                   const tensor& targets,
                                   const asked_for& asked) {
    const tensor w = t_.parameter(head);
    const std::int64_t count = hidden.size[0];
    const int by = t_.add_node(log_probs_backward_, {&hidden, &w});
    const element format = t_.computes_in(hidden.format);
    const auto made = [&] { return full(t_, sizes{count}, element::fp32); };
    of_tokens results;
    value log_sums;
    {
      value running[7];  // statistics of each token
      for (value& one : running) one = made();
      tiles at{*this, hidden, w, format};
      at.run();
      {
        const value logarithms = made();
        log_sums = made();
      }
      results.log_probs = made();
      if (asked.entropy) {
        const value share = made();
        results.entropy = made();
      }
      if (asked.mean_logits) results.mean_logits = made();
      if (asked.is_top1) {
        const value largest = full(t_, sizes{count}, element::boolean);
        const value first = full(t_, sizes{count}, element::boolean);
        results.is_top1 = full(t_, sizes{count}, element::boolean);
      }
    }
    t_.keep(by, hidden);
    t_.keep(by, w);
    t_.keep(by, targets);
    t_.keep(by, log_sums);
    if (asked.entropy) t_.keep(by, results.entropy);
    t_.note(by, {static_cast<std::int64_t>(format)});
    t_.result_of(by, results.log_probs.get());
    return results;
  }

  // The loops over tiles, of which each is a product in the same buffer.
  struct tiles {
    tiled_log_probs& of;
    const tensor& hidden;
    const tensor& w;
    element format;

    value buffer{}, states{}, rows{};  // as long as the function runs

    /// Of a backward: the sums that each product of the gradient adds to, where they are there. It
    /// holds the matrix's rows until the next are there.
    constexpr void run(const value* of_hidden = nullptr,
                       const value* of_weight = nullptr,
                       const tensor* gradient = nullptr) {
      tape& t = of.t_;
      const std::int64_t count = few_of(hidden.size[0], tokens_of_tile, 4096);
      const std::int64_t width = hidden.size[1];
      const std::int64_t words = few_of(w.size[0], words_of_tile, 128);
      buffer =
          t.make({at_most(count, tokens_of_tile), words_of_tile}, format, {"logits of a tile"});
      for (std::int64_t from = 0; from < count; from += tokens_of_tile) {
        const std::int64_t tokens = at_most(tokens_of_tile, count - from);
        states = in_format(part_of(hidden, tokens), format);
        for (std::int64_t first = 0; first < words; first += words_of_tile) {
          const std::int64_t of_tile = at_most(words_of_tile, words - first);
          rows = in_format(part_of(w, of_tile), format);
          of.multiply({tokens, width, of_tile});
          t.executes({&*buffer, &*buffer});
          if (gradient == nullptr) {
            rows.drop();
            continue;
          }
          add_to(*of_hidden, {tokens, of_tile, width}, *gradient);
          add_to(*of_weight, {of_tile, tokens, width}, *gradient);
        }
      }
    }
    // Tiles are alike: of more than anybody trains on, a few stand for all.
    [[nodiscard]] static constexpr std::int64_t few_of(std::int64_t all,
                                                       std::int64_t in_tile,
                                                       std::int64_t most) {
      return all / in_tile <= most ? all : 3 * in_tile + all % in_tile;
    }
    constexpr void add_to(const value& sum, const matrix_product& product, const tensor& gradient) {
      if (!sum->defined()) return;
      of.t_.touch_workspace();
      of.t_.count_backward(product, {&*sum, &gradient});
    }
    [[nodiscard]] constexpr value in_format(const tensor& x, element wanted) const {
      if (x.format == wanted) return of.t_.share(x);
      return compute(of.t_, x, x.size, wanted);
    }
    [[nodiscard]] static constexpr tensor part_of(const tensor& x, std::int64_t rows) {
      tensor seen = x;
      seen.node = none;
      seen.is_view = true;
      seen.size[0] = rows;
      return seen;
    }
  };
  constexpr void multiply(const matrix_product& product) {
    t_.touch_workspace();
    t_.count_product(product, {});
  }

  struct log_probs_backward final : own_backward {
    tiled_log_probs* of = nullptr;
    constexpr explicit log_probs_backward(tiled_log_probs* given) : of(given) {}
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor hidden = t.kept_by(by, 0);
      const tensor w = t.kept_by(by, 1);
      const auto format = static_cast<element>(t.nodes[by].argument[0]);
      const bool wants_weight = t.nodes[by].input[1].node != none;
      const bool wants_hidden = t.nodes[by].input[0].node != none;
      value of_hidden, of_weight;
      if (wants_hidden)
        of_hidden = full(t, hidden.size, element::fp32, {"gradient of the head's input"});
      if (wants_weight) of_weight = full(t, w.size, element::fp32, {"gradient of the head"});
      tiles at{*of, hidden, w, format};
      at.run(&of_hidden, &of_weight, &*incoming[0]);
      if (wants_hidden) out.of[0] = cast(t, of_hidden, hidden.format);
      if (wants_weight) out.of[1] = cast(t, of_weight, w.format);
    }
  };
  // masked_select
  struct spread_backward final : own_backward {
    tiled_log_probs* of = nullptr;
    constexpr explicit spread_backward(tiled_log_probs* given) : of(given) {}
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const std::int64_t count = t.nodes[by].argument[0];
      const value places = of->places_of(t.kept_by(by, 0), count);
      out.of[0] = t.make(sizes{count}, incoming[0]->format);
      t.executes({&*incoming[0], &*places, &*out.of[0]});
    }
  };
  // new_zeros().index_put(mask, gradient, accumulate=True), which sorts the places.
  struct chosen_backward final : own_backward {
    tiled_log_probs* of = nullptr;
    constexpr explicit chosen_backward(tiled_log_probs* given) : of(given) {}
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const std::int64_t count = t.nodes[by].argument[0];
      const value zeros = t.make(t.nodes[by].size[1], incoming[0]->format);
      out.of[0] = t.make(zeros->size, zeros->format);
      const value places = of->places_of(t.kept_by(by, 0), count);
      value sorted[4];
      for (value& one : sorted) one = t.make(sizes{count}, element::int64, {"places"});
      t.executes({&*incoming[0], &*places, &*out.of[0]});
    }
  };

  struct sum_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      tensor seen = *incoming[0];
      seen.size = t.nodes[by].size[1];
      for (int at = 0; at < seen.size.rank; ++at) seen.stride[at] = 0;
      seen.is_view = true;
      out.of[0] = t.share(seen);
    }
  };
  struct share_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      static_cast<void>(t.kept_by(by, 0));
      out.of[0] = compute(t, *incoming[0], incoming[0]->size, incoming[0]->format);
    }
  };

  tape& t_;
  log_probs_backward log_probs_backward_{this};
  spread_backward spread_backward_{this};
  chosen_backward chosen_backward_{this};
  sum_backward sum_backward_{};
  share_backward share_backward_{};
};

}  // namespace gpuplan::eager

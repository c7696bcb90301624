#pragma once

// Linear layers divided among ranks as PyTorch's DTensor does it: where it gathers, reduces and
// copies. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Parameters of which each rank has a part, and the tensors between them, on the first rank.
/// With sequence parallelism a rank has its part of the tokens between the divided layers.
class tensor_parallel {
 public:
  constexpr tensor_parallel(tape& on, std::int64_t ranks, bool sequence)
      : t_(on), ranks_(ranks), sequence_(sequence) {
    reduced_.owner = gathered_.owner = gathered_last_.owner = scattered_.owner = this;
  }
  tensor_parallel(const tensor_parallel&) = delete;
  tensor_parallel& operator=(const tensor_parallel&) = delete;

  [[nodiscard]] constexpr bool is_on() const { return ranks_ > 1; }
  [[nodiscard]] constexpr bool divides_sequence() const { return is_on() && sequence_; }
  /// Of `size` along a dimension; the last ranks may have less.
  [[nodiscard]] constexpr std::int64_t part_of(std::int64_t size) const {
    return ceil_div(size, ranks_);
  }

  // -- parameters

  /// Keeps the rank's rows, a view of the whole's until they are copied.
  constexpr void divide_rows(int index) {
    tensor& data = t_.parameters[index].data;
    sizes part = data.size;
    part[0] = part_of(data.size[0]);
    const std::int64_t short_ranks = ranks_ - data.size[0] / part[0];
    growing_array<int> padded;
    tensor one = data;
    set_contiguous(one, part);
    for (std::int64_t rank = 0; rank < short_ranks; ++rank)
      padded.push(t_.new_storage(one.bytes()));
    replace(index, part, padded);
  }
  /// Keeps the rank's columns. Precondition: the ranks' are equally many.
  constexpr void divide_columns(int index) {
    const tensor& data = t_.parameters[index].data;
    sizes part = data.size;
    part[1] = part_of(data.size[1]);
    growing_array<int> parts;
    for (std::int64_t rank = 0; rank < ranks_; ++rank)
      parts.push(t_.new_storage(part.count() * bytes_of(data.format)));
    replace(index, part, parts);
  }
  /// A second parameter of the same rows, where two layers shared one.
  constexpr int divide_rows_again(int index) {
    parameter_record other;
    other.data = t_.share(t_.parameters[index].data).take();
    other.trains = t_.parameters[index].trains;
    return t_.parameters.push(other);
  }
  /// Keeps the rank's rows of a table; its gradient has all.
  constexpr void divide_table(int index) {
    const sizes whole = t_.parameters[index].data.size;
    divide_rows(index);
    parameter_record& record = t_.parameters[index];
    record.gradient_size = whole;
    record.redistributed_bytes = record.data.bytes();
  }
  /// The parameter stays whole; its gradient is the rank's share of a sum.
  constexpr void keep_whole(int index) {
    parameter_record& record = t_.parameters[index];
    record.is_distributed = true;
    record.redistributed_bytes = record.data.bytes();
  }

  // -- operators

  /// By a matrix whose rows are divided: every rank has all of the input, and a part of the result,
  /// which is put together where it is given a width.
  constexpr value by_rows(const tensor& x, int weight, int bias, std::int64_t width = 0) {
    value all;
    if (sequence_)
      all = gather_tokens(x);
    else
      all = all_of(x);
    value part = by_own(all, weight, bias);
    if (width == 0) return part;
    return gather_last(part, width);
  }
  /// By the rank's part of a matrix: its part of the result.
  constexpr value by_own(const tensor& x, int weight, int bias) {
    const auto distributed = t_.on_distributed();
    return linear(t_, x, weight, bias);
  }
  /// All tokens, of a rank's part of them.
  constexpr value gather_tokens(const tensor& x) { return result_of(gathered_, x, gather(t_, x)); }
  /// By a matrix whose columns are divided: the ranks' results are summed.
  constexpr value by_columns(const tensor& x, int weight, int bias) {
    const value partial = by_own(x, weight, bias);
    return sum_of_ranks(partial);
  }
  /// Rows of a table that is divided: each rank looks up its own.
  constexpr value embed(const tensor& ids, int weight, std::int64_t rows) {
    const tensor w = t_.parameter(weight);
    value found;
    {
      value outside, own;
      mask(ids, outside, own);
      const int by = t_.add_node(node_kind::embedding, {&w});
      t_.keep(by, ids);
      t_.note(by, {ids.count(), rows, w.size[1]});
      sizes wanted = ids.size;
      wanted[wanted.rank++] = w.size[1];
      found = t_.make(wanted, w.format);
      t_.result_of(by, found.get());
    }
    const value summed = sum_of_ranks(found);
    return pass(summed);
  }
  /// All of a last dimension that is divided.
  constexpr value gather_last(const tensor& part, std::int64_t width) {
    sizes padded = part.size;
    padded[padded.rank - 1] *= ranks_;
    value all;
    {
      const value gathered = t_.make(padded, part.format);
      all = t_.make(padded, part.format);
    }
    if (padded[padded.rank - 1] != width) {
      padded[padded.rank - 1] = width;
      all = t_.make(padded, part.format);
    }
    return result_of(gathered_last_, part, std::move(all));
  }
  /// A part of the tokens as what the operators of a norm read.
  constexpr value pass(const tensor& x) {
    const int by = t_.add_node(node_kind::pass, {&x});
    value same = t_.share(x);
    t_.result_of(by, same.get());
    return same;
  }

  /// Cross entropy of logits whose classes are divided (loss_parallel).
  constexpr value cross_entropy(const tensor& logits, const tensor& labels) {
    const auto distributed = t_.on_distributed();
    value logs = log_softmax(logits);
    const value x = raised(t_, logs);
    logs.drop();
    return negative_log_likelihood(x, labels);
  }

 private:
  // What comes back through a node.
  class backward_of : public own_backward {
   public:
    const tensor_parallel* owner = nullptr;

   protected:
    constexpr ~backward_of() = default;
  };
  // from_local of a tensor that all ranks have: the ranks' gradients are summed.
  class sums_gradient final : public backward_of {
   public:
    constexpr void run(tape& t, int, const value* incoming, gradients& out) const override {
      out.of[0] = t.make(incoming[0]->size, incoming[0]->format);
    }
  };
  // A gather of tokens.
  class scatters_gradient final : public backward_of {
   public:
    constexpr void run(tape& t, int, const value* incoming, gradients& out) const override {
      out.of[0] = owner->scatter(t, incoming[0]);
    }
  };
  // A gather along the last dimension.
  class takes_part final : public backward_of {
   public:
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      out.of[0] = t.make(t.nodes[by].size[1], incoming[0]->format);
    }
  };
  // A sum of which each rank keeps some tokens.
  class gathers_gradient final : public backward_of {
   public:
    constexpr void run(tape& t, int, const value* incoming, gradients& out) const override {
      out.of[0] = owner->gather(t, incoming[0]);
    }
  };
  class loss_gradient final : public own_backward {
   public:
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor logs = t.kept_by(by, 0);
      const std::int64_t rows = logs.size[0];
      const element format = logs.format;
      value share = t.make(sizes{1}, incoming[0]->format);
      const value labels = counted(t, {rows}, element::int64);
      const value at_labels = t.make(logs.size, format);
      value outside, own;
      mask(t, labels, outside, own);
      const value update = compute(t, t.make({rows}, format), {rows}, format);
      const value range = t.make({rows}, element::int64);
      share = counted(t, {rows, 1}, format);
      const value sum = compute(t, t.make(logs.size, format), logs.size, format);
      out.of[0] = t.make(logs.size, format);
    }
  };
  // The loss has done its work.
  class passes final : public own_backward {
   public:
    constexpr void run(tape& t, int, const value* incoming, gradients& out) const override {
      out.of[0] = t.share(incoming[0]);
    }
  };

  constexpr void replace(int index, const sizes& part, const growing_array<int>& temporaries) {
    parameter_record& record = t_.parameters[index];
    tensor own = t_.charge(purpose::weights)->make(part, record.data.format).take();
    for (int at = temporaries.size() - 1; at >= 0; --at) t_.release(temporaries[at]);
    t_.release(record.data.storage);
    record.data = own;
    record.is_distributed = true;
  }

  constexpr value result_of(const own_backward& way_back, const tensor& from, value made) {
    const int by = t_.on_distributed()->add_node(way_back, {&from});
    t_.result_of(by, made.get());
    if (node* of = t_.at(by)) of->size[1] = from.size;
    return made;
  }

  constexpr value all_of(const tensor& x) { return result_of(reduced_, x, t_.share(x)); }
  constexpr value sum_of_ranks(const tensor& x) {
    if (sequence_) return result_of(scattered_, x, scatter(t_, x));
    return result_of(passed_, x, t_.make(x.size, x.format));
  }

  constexpr value gather(tape& t, const tensor& x) const {
    sizes all = x.size;
    all[1] *= ranks_;
    value gathered = t.make(all, x.format);
    if (x.size[0] == 1) return gathered;  // the ranks' parts lie behind each other
    return t.make(all, x.format);
  }
  constexpr value scatter(tape& t, const tensor& x) const {
    sizes part = x.size;
    part[1] /= ranks_;
    const value joined = t.make(x.size, x.format);
    const bool stays = t.stays(false);
    if (stays && t.is_recomputing()) return t.saved_result();
    value made = t.make(part, x.format);
    if (stays) t.save_result(made);
    return made;
  }

  // torch.where(labels != ignored, values, 0)
  static constexpr value counted(tape& t, const sizes& size, element format) {
    const value counts = t.make({size[0]}, element::boolean);
    const value zero = t.make({1}, format);
    return t.make(size, format);
  }

  // Which ids are of other ranks' rows, and the ids counted from the rank's first row.
  constexpr void mask(const tensor& ids, value& outside, value& own) {
    mask(t_, ids, outside, own);
  }
  static constexpr void mask(tape& t, const tensor& ids, value& outside, value& own) {
    const sizes size{ids.count()};
    {
      const value below = t.make(size, element::boolean);
      const value above = t.make(size, element::boolean);
      outside = t.make(size, element::boolean);
    }
    const value copy = t.make(size, element::int64);
    own = t.make(size, element::int64);
  }

  // In fp32, over all ranks' classes.
  constexpr value log_softmax(const tensor& logits) {
    const int by = t_.add_node(passed_, {&logits});
    value logs;
    {
      const sizes one{logits.size[0], 1};
      const element wide = element::fp32;
      value x;
      if (logits.format == wide)
        x = t_.share(logits);
      else
        x = t_.make(logits.size, wide);
      value largest = t_.make(one, wide);
      touch(t_, scratch_of_reduction(t_.device, logits.size[1], logits.size[0], true));
      largest = t_.make(one, wide);
      const value shifted = t_.make(logits.size, wide);
      value sum;
      {
        const value powers = t_.make(logits.size, wide);
        sum = t_.make(one, wide);
        touch(t_, scratch_of_reduction(t_.device, logits.size[1], logits.size[0], true));
      }
      sum = t_.make(one, wide);
      const value logarithm = t_.make(one, wide);
      logs = t_.make(logits.size, wide);
      if (logits.format != wide) logs = t_.make(logits.size, logits.format);
    }
    t_.keep(by, logs);
    t_.result_of(by, logs.get());
    return logs;
  }

  constexpr value negative_log_likelihood(const tensor& logs, const tensor& labels) {
    const int by = t_.add_node(of_loss_, {&logs});
    const std::int64_t rows = logs.size[0];
    const element format = logs.format;
    value loss, total;
    {
      const value safe_labels = counted(t_, {rows}, element::int64);
      value outside, own;
      mask(safe_labels, outside, own);
      const value chosen = t_.make({rows, 1}, format);
      outside.drop();
      const value of_all = t_.make({rows, 1}, format);
      value each = t_.make({rows}, format);
      each = counted(t_, {rows}, format);
      {
        value count;
        {
          const value counts = t_.make({rows}, element::boolean);
          count = t_.make({1}, element::int64);
          const value wide = t_.make({rows}, element::int64);
          touch(t_, scratch_of_reduction(t_.device, rows, 1, true));
        }
        total = t_.make({1}, format);
      }
      const value sum = t_.make({1}, format);
      touch(t_, scratch_of_reduction(t_.device, rows, 1, true));
      loss = t_.make({1}, format);
      loss.get().size.rank = 0;
    }
    t_.keep(by, logs);
    t_.keep(by, labels);
    t_.keep(by, total);
    t_.result_of(by, loss.get());
    return loss;
  }

  tape& t_;
  std::int64_t ranks_;
  bool sequence_;
  sums_gradient reduced_{};
  scatters_gradient gathered_{};
  takes_part gathered_last_{};
  gathers_gradient scattered_{};
  passes passed_{};
  loss_gradient of_loss_{};
};

}  // namespace gpuplan::eager

#pragma once

// What Megatron-Core holds beside its models: gradients in one buffer, and an optimizer over fp32
// copies of a share of the parameters. Private.

#include <gpuplan/replay/codes/megatron.hpp>
#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <numeric>

namespace gpuplan::eager {

/// Megatron-Core's DistributedDataParallel and its optimizers, of the first data-parallel rank.
class megatron_states : public sharding {
 public:
  constexpr megatron_states(tape& on, const training_setup& of, const batch_plan& with)
      : t_(on),
        setup_(of),
        plan_(with),
        stages_(of.parallelism.pipeline_parallel),
        stage_(of.place.stage),
        chunks_(static_cast<int>(chunks_held(of.parallelism))),
        shares_(of.parallelism.zero_stage > 0),
        of_gradients_(of.precision.fp32_gradients ? element::fp32
                                                  : element_of(of.precision.weights)) {}
  constexpr ~megatron_states() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void begins(model_code& code) override { code_ = static_cast<megatron_gpt*>(&code); }

  constexpr void model_is_built() override {
    for (int chunk = 0; chunk < chunks_; ++chunk)
      for (const bool of_experts : {false, true}) make_buffers(chunk, of_experts);
    make_main_parameters();
  }

  /// The gradient of a parameter is added into the buffer at once.
  constexpr void gradient_is_there(int parameter) override {
    tensor& gradient = t_.parameters[parameter].gradient;
    t_.release(gradient.storage);
    gradient = {};
  }

 protected:
  // What a step begins with: no fp32 copies of gradients.
  constexpr void forget_gradients() {
    for (int at = 0; at < shards_.size(); ++at) drop(shards_[at].gradient);
  }

  // -- buffers

  // What does not train lies as it was built.
  [[nodiscard]] constexpr bool trains(int parameter) const {
    return t_.parameters[parameter].trains;
  }

  // Where a parameter lies in its buffer, and in which bucket.
  struct place_in_buffer {
    int parameter = none;
    std::int64_t first = 0;
    std::int64_t end = 0;
    int bucket = 0;
  };
  struct bucket_range {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };
  static constexpr std::int64_t padded(std::int64_t n, std::int64_t to) {
    return ceil_div(n, to) * to;
  }

  // The parameters from the last to the first; with shared states each begins at a multiple of 64
  // elements, and buckets end where all ranks' shares are equal.
  constexpr void make_buffers(int chunk, bool of_experts) {
    growing_array<int> order;
    for (int at = code_->first_of_chunk(chunk); at < code_->first_of_chunk(chunk + 1); ++at)
      if (trains(code_->order()[at]) && code_->is_of_expert(code_->order()[at]) == of_experts)
        order.push(code_->order()[at]);
    const int end = order.size();
    if (end == 0) return;
    const std::int64_t all = ranks_with_chunk(setup_.parallelism) * plan_.data_parallel *
                             setup_.parallelism.context_parallel;
    const std::int64_t ranks =
        of_experts ? all * setup_.parallelism.tensor_parallel / ranks_of_experts(setup_.parallelism)
                   : all;
    const int both_ends = code_->table_of_both_ends();
    const bool in_buckets = setup_.framework.engine.overlaps_reduction && stage_ == 0 && chunk == 0;
    const std::int64_t most = at_least(40'000'000, 1'000'000 * ranks);
    const std::int64_t multiple = std::lcm(ranks, std::int64_t{128});
    growing_array<place_in_buffer> places;
    growing_array<bucket_range> buckets;
    std::int64_t at = 0;
    bucket_range open{};
    bool any = false;
    const auto close = [&](std::int64_t last) {
      open.end = shares_ ? padded(last, multiple) : last;
      buckets.push(open);
      open.first = open.end;
      any = false;
      return open.end;
    };
    for (int which = end - 1; which >= 0; --which) {
      const int parameter = order[which];
      const bool is_apart = parameter == both_ends && shares_;
      if (shares_) at = padded(at, 64);
      if (is_apart && any) at = close(at);
      const std::int64_t last = at + t_.parameters[parameter].data.count();
      places.push({parameter, at, last, buckets.size()});
      any = true;
      at = last;
      if ((in_buckets && last - open.first >= most) || is_apart) at = close(last);
    }
    if (any) at = close(at);
    // Each lies in one bucket, of which the first rank has the front.
    for (int which = 0; shares_ && which < places.size(); ++which) {
      const place_in_buffer& place = places[which];
      const bucket_range& range = buckets[place.bucket];
      const std::int64_t share = (range.end - range.first) / ranks;
      const std::int64_t to = at_most(place.end, range.first + share);
      if (to > place.first) pieces_.push({place.parameter, to - place.first, of_experts});
    }
    if (is_fully_shared()) return share_buffers(order, at, ranks);
    int weights = none;
    std::int64_t bytes = at * bytes_of(code_->format());
    for (int which = 0; which < end; ++which)
      bytes += code_->bytes_of_parameter(order[which]) -
               t_.parameters[order[which]].data.count() * bytes_of(code_->format());
    if (shares_) weights = t_.charge(purpose::weights)->new_storage(bytes);
    gradient_buffers_.push(
        t_.charge(purpose::gradients)->new_storage(at * bytes_of(of_gradients_)));
    if (!shares_) return;
    for (int which = end - 1; which >= 0; --which) {
      tensor& data = t_.parameters[order[which]].data;
      t_.release(data.storage);
      data.storage = weights;
      t_.hold(weights);
    }
    t_.release(weights);
  }

  // -- all shared (Megatron-FSDP)

  [[nodiscard]] constexpr bool is_fully_shared() const {
    return setup_.parallelism.zero_stage == 3;
  }
  // A rank's share of weights and gradients; whole are weights of both ends, the gradient of one of
  // their tables, and of two layers both: one that runs, and one that is gathered, or whose
  // gradients are shared, meanwhile.
  constexpr void share_buffers(const growing_array<int>& order,
                               std::int64_t elements,
                               std::int64_t ranks) {
    std::int64_t bytes = 0, ends = 0, gradients_of_ends = 0, most = 0, most_gradients = 0;
    growing_array<std::int64_t> of_layer;
    growing_array<std::int64_t> gradients_of_layer;
    for (int at = 0; at < code_->layers_here(); ++at) {
      of_layer.push(0);
      gradients_of_layer.push(0);
    }
    int next = 0;  // of `order`, whose parameters come in the same order
    for (int at = 0; at < code_->order().size(); ++at) {
      const int parameter = code_->order()[at];
      if (next == order.size() || parameter != order[next]) continue;
      ++next;
      const std::int64_t own = code_->bytes_of_parameter(parameter);
      const std::int64_t count = t_.parameters[parameter].data.count();
      bytes += own;
      const int layer = code_->layer_of(at);
      (layer == none ? ends : of_layer[layer]) += own;
      if (layer == none)
        gradients_of_ends = at_least(count, gradients_of_ends);
      else
        gradients_of_layer[layer] += count;
    }
    for (int at = 0; at < of_layer.size(); ++at) {
      most = at_least(of_layer[at], most);
      most_gradients = at_least(gradients_of_layer[at], most_gradients);
    }
    const bool gathers = ranks > 1;
    const std::int64_t whole = gathers ? ends + 2 * most : 0;
    const std::int64_t whole_gradients = gathers ? gradients_of_ends + 2 * most_gradients : 0;
    const int weights = t_.charge(purpose::weights)->new_storage(ceil_div(bytes, ranks) + whole);
    gradient_buffers_.push(t_.charge(purpose::gradients)
                               ->new_storage(ceil_div(elements, ranks) * bytes_of(of_gradients_) +
                                             whole_gradients * bytes_of(code_->format())));
    for (int which = order.size() - 1; which >= 0; --which) {
      tensor& data = t_.parameters[order[which]].data;
      t_.release(data.storage);
      data.storage = weights;
      t_.hold(weights);
    }
    t_.release(weights);
  }

  // -- the optimizer

  struct piece {
    int parameter = none;
    std::int64_t count = 0;
    bool is_of_expert = false;
  };
  struct shard {
    int parameter = none;
    std::int64_t count = 0;
    bool is_counted_elsewhere = false;  // by the first stage, which has the same table
    tensor weights{};
    tensor gradient{};
    tensor first{};
    tensor second{};
    tensor steps{};
  };
  constexpr void drop(tensor& one) {
    t_.release(one.storage);
    one = {};
  }
  [[nodiscard]] constexpr value number() { return t_.make(sizes{1}, element::fp32); }
  [[nodiscard]] constexpr tensor fp32_of(std::int64_t count,
                                         const char* what,
                                         int parameter = none) {
    return t_.make(sizes{count}, element::fp32, {what, parameter}).take();
  }

  constexpr void make_main_parameters() {
    const growing_array<int>& order = code_->order();
    bool any_expert = false;
    for (int at = 0; at < order.size(); ++at) {
      const bool is_of_expert = code_->is_of_expert(order[at]);
      any_expert = any_expert || is_of_expert;
      if (!shares_ && trains(order[at]))
        pieces_.push({order[at], t_.parameters[order[at]].data.count(), is_of_expert});
    }
    const auto charged = t_.charge(purpose::optimizer_states);
    make_optimizer(false);
    if (any_expert) make_optimizer(true);
  }
  // Matrices decay and come first, then vectors. Experts have only matrices, and an optimizer of
  // their own.
  constexpr void make_optimizer(bool of_experts) {
    // the loss's scale; in fp16 it grows and falls
    const int numbers = (code_->format() == element::fp16 ? 6 : 1) +
                        (setup_.framework.implementation.transformer_engine ? 1 : 0);
    for (int at = 0; at < numbers; ++at) scales_.push(number().take());
    for (const bool decays : {true, false}) {
      for (int at = 0; at < pieces_.size(); ++at) {
        const piece& one = pieces_[at];
        if (one.is_of_expert != of_experts) continue;
        if ((t_.parameters[one.parameter].data.size.rank > 1) != decays) continue;
        const int copy = t_.new_storage(one.count * bytes_of(code_->format()));
        shard made;
        made.parameter = one.parameter;
        made.count = one.count;
        made.is_counted_elsewhere = stage_ != 0 && one.parameter == code_->table_of_both_ends();
        made.weights = fp32_of(one.count, "fp32 master", one.parameter);
        t_.release(copy);
        shards_.push(made);
      }
      if (decays && !of_experts) first_without_decay_ = shards_.size();
    }
  }

  // A norm of each gradient, and the norm of those.
  constexpr void measure_gradients() {
    const value overflow = number();
    if (setup_.framework.implementation.transformer_engine) {
      const value norm = t_.make(sizes{320}, element::fp32);
      const value total = number();
      t_.touch(4);
      return;
    }
    growing_array<int> norms;
    for (int at = 0; at < shards_.size(); ++at) {
      if (shards_[at].is_counted_elsewhere) continue;
      norms.push(t_.new_storage(4));
      touch(t_, scratch_of_reduction(t_.device, shards_[at].count, 1, true));
    }
    const value norm = number();
    for (int at = norms.size() - 1; at >= 0; --at) t_.release(norms[at]);
    t_.touch(4);
  }

  // What belongs to the parts of the sequence is summed over the tensor-parallel ranks.
  constexpr void finish_gradients() {
    t_.begin(moment::backward);
    if (!setup_.parallelism.sequence_parallel || setup_.parallelism.tensor_parallel == 1) return;
    std::int64_t elements = 0;
    const growing_array<int>& order = code_->order();
    for (int at = 0; at < order.size(); ++at)
      if (code_->is_of_sequence_parts(order[at]) && trains(order[at]))
        elements += t_.parameters[order[at]].data.count();
    t_.touch(elements * bytes_of(of_gradients_));
  }

  [[nodiscard]] constexpr bool has_narrow_moments() const {
    return setup_.optimizer.states != number_format::fp32;
  }
  constexpr void widen_gradients() {
    if (of_gradients_ == element::fp32 || setup_.optimizer.reads_narrow_gradients) return;
    const auto charged = t_.charge(purpose::gradients);
    for (int at = 0; at < shards_.size(); ++at)
      shards_[at].gradient = fp32_of(shards_[at].count, "gradient in fp32", shards_[at].parameter);
  }
  constexpr void make_moments(shard& of) {
    if (of.first.defined()) return;
    const auto charged = t_.charge(purpose::optimizer_states);
    if (setup_.optimizer.loop == optimizer_loop::fused &&
        !setup_.framework.implementation.transformer_engine)
      of.steps = fp32_of(1, "number of steps");
    const element format =
        has_narrow_moments() ? element_of(setup_.optimizer.states) : element::fp32;
    for (const bool is_first : {true, false})
      (is_first ? of.first : of.second) =
          t_.make(sizes{of.count},
                  format,
                  {is_first ? "first moment" : "second moment", of.parameter})
              .take();
  }
  constexpr void update() {
    t_.begin(moment::optimizer);
    widen_gradients();
    measure_gradients();
    for (const bool decays : {true, false}) {
      const int begin = decays ? 0 : first_without_decay_;
      const int end = decays ? first_without_decay_ : shards_.size();
      for (int at = begin; at < end; ++at) make_moments(shards_[at]);
      if (setup_.optimizer.loop == optimizer_loop::foreach) {
        growing_array<int> roots;
        for (int at = begin; at < end; ++at) roots.push(t_.new_storage(4 * shards_[at].count));
        for (int at = 0; at < roots.size(); ++at) t_.release(roots[at]);
      } else if (setup_.optimizer.loop == optimizer_loop::parameter) {
        value denominator;
        for (int at = begin; at < end; ++at) {
          const value root = t_.make(sizes{shards_[at].count}, element::fp32);
          denominator = t_.make(sizes{shards_[at].count}, element::fp32);
        }
      }
    }
    // fp16: the multi-tensor copy scales what it copies
    if (!shares_ && code_->format() == element::fp16)
      for (int at = 0; at < shards_.size(); ++at) t_.touch(4 * shards_[at].count);
  }

  tape& t_;
  const training_setup& setup_;
  const batch_plan plan_;
  std::int64_t stages_;
  std::int64_t stage_;
  int chunks_;
  bool shares_;
  element of_gradients_;
  megatron_gpt* code_ = nullptr;

 private:
  growing_array<piece> pieces_{};
  growing_array<int> gradient_buffers_{};
  growing_array<shard> shards_{};
  int first_without_decay_ = 0;
  growing_array<tensor> scales_{};
};

}  // namespace gpuplan::eager

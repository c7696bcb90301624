#pragma once

// DistributedDataParallel, and ZeroRedundancyOptimizer over it. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// Gradients are copied into buckets, which are reduced. With ZeRO-1 a rank has the states of some
/// parameters; this is the first rank.
class gradient_buckets final : public sharding {
 public:
  constexpr gradient_buckets(tape& on, const training_setup& of, const batch_plan& with)
      : t_(on), setup_(of), ranks_(with.data_parallel) {}
  constexpr ~gradient_buckets() override {
    for (int at = 0; at < buckets_.size(); ++at) t_.release(buckets_[at]);
  }

  constexpr void model_is_built() override {
    fill_buckets();
    if (setup_.parallelism.zero_stage == 1) deal_out_states();
  }

  constexpr const growing_array<int>* updated() const override {
    return setup_.parallelism.zero_stage == 1 ? &own_ : nullptr;
  }

  /// The model's buffers are made equal on all ranks, after a backward that reduced gradients.
  constexpr void forward_begins(bool last_micro_batch) override {
    if (reduces_) broadcast_buffers();
    reduces_ = last_micro_batch;
    if (!t_.counts_work()) return;
    next_ = buckets_.size() - 1;
    for (int at = 0; at < waits_for_.size(); ++at) waits_for_[at] = 0;
    for (int at = 0; at < bucket_of_.size(); ++at)
      if (bucket_of_[at] != none) ++waits_for_[bucket_of_[at]];
  }

  constexpr void backward_is_done() override { t_.awaits_stream(streams::gradients); }

  /// Each rank sends the parameters that it updated to the others.
  constexpr void step_is_done() override {
    if (setup_.parallelism.zero_stage != 1 || !t_.counts_work()) return;
    {
      const auto aside = t_.on_stream(streams::weights);
      for (int at = 0; at < t_.parameters.size(); ++at)
        if (t_.parameters[at].trains)
          t_.communicates(shared(collective::broadcast, t_.parameters[at].data.bytes()));
    }
    t_.awaits_stream(streams::weights);
  }

  /// The gradient is copied into its bucket, and can be a view of that then.
  constexpr void gradient_is_there(int parameter) override {
    if (!reduces_) return;
    copy_into_bucket(parameter);
    if (t_.counts_work()) reduce_full_buckets(bucket_of_[parameter]);
  }

 private:
  constexpr void copy_into_bucket(int parameter) {
    tensor& gradient = t_.parameters[parameter].gradient;
    const int bucket = buckets_[bucket_of_[parameter]];
    if (gradient.storage == bucket) return;
    tensor in_bucket = gradient;
    set_contiguous(in_bucket, gradient.size);
    t_.executes({&in_bucket, &gradient, &in_bucket}, work_of_copy(gradient, in_bucket));
    if (!setup_.framework.engine.gradients_are_views) return;
    t_.hold(bucket);
    t_.release(gradient.storage);
    gradient.storage = bucket;
    gradient.is_view = true;
  }
  [[nodiscard]] constexpr shared_work shared(collective what, std::int64_t bytes) const {
    return {.what = what,
            .bytes = bytes,
            .ranks = ranks_,
            .stride = setup_.parallelism.tensor_parallel};
  }
  // In the order of the buckets, each once all of its gradients are there.
  constexpr void reduce_full_buckets(int arrived_in) {
    --waits_for_[arrived_in];
    const auto aside = t_.on_stream(streams::gradients);
    for (; next_ >= 0 && waits_for_[next_] <= 0; --next_)
      t_.communicates(shared(collective::all_reduce, t_.storages[buckets_[next_]].bytes));
  }
  // Cut in the order of the parameters, of one format each, and made in the reverse order
  // (compute_bucket_assignment_by_size of PyTorch's reducer).
  constexpr void fill_buckets() {
    struct open_bucket {
      std::int64_t bytes = 0;
      int number = none;
      bool is_first = true;
    };
    struct cut_bucket {
      std::int64_t bytes = 0;
      int first = none;
    };
    open_bucket open[5]{};
    growing_array<cut_bucket> cut;
    for (int at = 0; at < t_.parameters.size(); ++at) {
      bucket_of_.push(none);
      const parameter_record& parameter = t_.parameters[at];
      if (!parameter.trains) continue;
      open_bucket& into = open[static_cast<int>(parameter.data.format)];
      if (into.number == none) into.number = cut.push({.bytes = 0, .first = at});
      bucket_of_[at] = into.number;
      cut[into.number].bytes += parameter.data.bytes();
      const std::int64_t limit = into.is_first ? setup_.framework.engine.first_bucket_bytes
                                               : setup_.framework.engine.bucket_bytes;
      if (cut[into.number].bytes < limit) continue;
      into.is_first = false;
      into.number = none;
    }
    const auto charged = t_.charge(purpose::buffers);
    for (int at = 0; at < cut.size(); ++at) buckets_.push(none);
    for (int at = 0; at < cut.size(); ++at) waits_for_.push(0);
    for (int at = cut.size() - 1; at >= 0; --at)
      buckets_[at] = t_.new_storage(cut[at].bytes, {"gradient bucket"});
  }

  // By falling size, each to the rank that has least.
  constexpr void deal_out_states() {
    growing_array<int> order;
    for (int at = 0; at < t_.parameters.size(); ++at)
      if (t_.parameters[at].trains) order.push(at);
    const auto count = [&](int at) { return t_.parameters[at].data.count(); };
    // merges runs, which keeps equal ones in order
    growing_array<int> merged;
    for (int at = 0; at < order.size(); ++at) merged.push(none);
    for (int run = 1; run < order.size(); run *= 2) {
      for (int begin = 0; begin < order.size(); begin += 2 * run) {
        const int middle = begin + run < order.size() ? begin + run : order.size();
        const int end = middle + run < order.size() ? middle + run : order.size();
        int left = begin;
        int right = middle;
        for (int at = begin; at < end; ++at) {
          const bool takes_left =
              left < middle && (right >= end || count(order[left]) >= count(order[right]));
          merged[at] = takes_left ? order[left++] : order[right++];
        }
      }
      for (int at = 0; at < order.size(); ++at) order[at] = merged[at];
    }
    growing_array<std::int64_t> held;
    for (std::int64_t rank = 0; rank < ranks_ && rank < order.size(); ++rank) held.push(0);
    for (int at = 0; at < order.size(); ++at) {
      int least = 0;
      for (int rank = 1; rank < held.size(); ++rank)
        if (held[rank] < held[least]) least = rank;
      held[least] += count(order[at]);
      if (least == 0) own_.push(order[at]);
    }
  }

  constexpr void broadcast_buffers() {
    growing_array<int> flat;
    for (const element format : {element::fp32, element::fp16, element::bf16, element::int64}) {
      std::int64_t bytes = 0;
      int count = 0;
      for (int at = 0; at < t_.buffers.size(); ++at) {
        if (t_.buffers[at].format != format) continue;
        bytes += t_.buffers[at].bytes();
        ++count;
      }
      if (count < 2) continue;
      flat.push(t_.new_storage(bytes, {"buffers in one piece"}));
      t_.executes(2 * bytes);
      for (int at = 0; at < t_.buffers.size(); ++at)
        if (t_.buffers[at].format == format)
          t_.executes(3 * t_.buffers[at].bytes(), device_work::copy());
    }
    for (int at = 0; at < flat.size(); ++at) t_.release(flat[at]);
  }

  tape& t_;
  const training_setup& setup_;
  std::int64_t ranks_;
  bool reduces_ = true;
  growing_array<int> buckets_{};    // their storages,
  growing_array<int> bucket_of_{};  // and which of them a parameter is in
  growing_array<int> waits_for_{};  // how many gradients each still waits for,
  int next_ = none;                 // and which is reduced next
  growing_array<int> own_{};        // parameters whose states are here
};

}  // namespace gpuplan::eager

#pragma once

// DeepSpeed's ZeRO-3. Private.
// Transcribed from DeepSpeed 0.19: runtime/zero/stage3.py and
// runtime/comm/coalesced_collectives.py.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/sharding/deepspeed_gathering.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// DeepSpeedZeroOptimizer_Stage3: of gradients, too, and of what the optimizer has, every rank has
/// a part.
class deepspeed_stage_3 final : public deepspeed_gathering {
 public:
  constexpr deepspeed_stage_3(tape& on, const training_setup& of, const batch_plan& with)
      : deepspeed_gathering(on, of, with),
        reducing_stream_(of.framework.engine.overlaps_reduction ? 2 : 0),
        on_host_(of.parallelism.optimizer_on_host),
        in_fp32_(of.precision.fp32_gradients) {}
  constexpr ~deepspeed_stage_3() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void gradient_is_there(int parameter) override {
    const std::int64_t elements = states_of_[parameter].elements;
    if (in_bucket_ + elements > zero_.reduce_bucket && in_bucket_ > 0) reduce_bucket();
    if (zero_.contiguous_gradients && in_bucket_ + elements <= zero_.reduce_bucket)
      move_to(arrived(parameter), buffer_);
    bucket_.push(parameter);
    in_bucket_ += elements;
  }

 private:
  struct sub_group {
    int first = 0;  // of the trained parameters
    int end = 0;
    std::int64_t elements = 0;
  };

  [[nodiscard]] constexpr tensor& arrived(int parameter) const {
    parameter_record& record = t_.parameters[parameter];
    return record.whole.defined() ? record.whole_gradient : record.gradient;
  }

  // -- construction

  constexpr void initialize() override {
    std::int64_t all = 0;
    for (int at = 0; at < t_.parameters.size(); ++at) {
      divide(at);
      if (t_.parameters[at].trains) all += states_of_[at].part;
    }
    if (!on_host_) make_lasting(purpose::buffers, 1);  // inf_or_nan_tracker
    // defragment, by way of the host
    for (int at = 0; at < trained_.size(); ++at) drop(t_.parameters[trained_[at]].data.storage);
    t_.empty_cache();
    const int flat = make_lasting(purpose::weights, all * bytes_of(trained_format()));
    for (int at = 0; at < trained_.size(); ++at) move_to(t_.parameters[trained_[at]].data, flat);
    divide_into_groups(all);
    make_masters();
    if (zero_.contiguous_gradients)
      buffer_ = make_lasting(purpose::buffers, zero_.reduce_bucket * bytes_of(format_));
    if (!on_host_) make_lasting(purpose::gradients, all * bytes_of_sum());
    for (int at = 0; at < trained_.size(); ++at)
      t_.touch(ranks_ * states_of_[trained_[at]].part * bytes_of(trained_format()));
    construct_states();
  }

  [[nodiscard]] constexpr element trained_format() const { return states_of_[trained_[0]].format; }

  constexpr void divide_into_groups(std::int64_t all) {
    sub_group open;
    for (int at = 0; at < trained_.size(); ++at) {
      open.elements += states_of_[trained_[at]].part;
      open.end = at + 1;
      const bool is_full = zero_.sub_group < all && open.elements >= zero_.sub_group;
      if (!is_full && open.end < trained_.size()) continue;
      groups_.push(open);
      open = {open.end, open.end, 0};
    }
  }

  constexpr void make_masters() {
    if (on_host_) return;
    std::int64_t largest = 0;
    for (int at = 0; at < groups_.size(); ++at) {
      const int converted = t_.new_storage(4 * groups_[at].elements);
      add_master(groups_[at].elements);
      t_.release(converted);
      largest = at_least(largest, groups_[at].elements);
    }
    t_.touch(4 * largest);
  }

  [[nodiscard]] constexpr std::int64_t bytes_of_sum() const {
    return in_fp32_ ? 4 : bytes_of(format_);
  }

  // -- gradients

  constexpr void reduce_bucket() {
    if (bucket_.size() == 0) return;
    const auto aside = t_.on_stream(reducing_stream_);
    growing_array<int> made;
    if (zero_.contiguous_gradients && in_bucket_ <= zero_.reduce_bucket && !zero_.reduce_scatter)
      average_whole(made);
    else
      scatter(made);
    for (int at = 0; at < bucket_.size(); ++at) {
      if (on_host_) copy_to_host(states_of_[bucket_[at]].part);
      drop(arrived(bucket_[at]));
    }
    drop_storages(made);
    bucket_.resize_down(0);
    in_bucket_ = 0;
  }

  // __avg_scatter_contiguous_grads
  constexpr void average_whole(growing_array<int>& made) {
    if (ranks_ > 1) made.push(t_.new_storage(in_bucket_ * bytes_of(format_)));
    if (!in_fp32_) return;
    const int wide = t_.new_storage(in_bucket_ * 4);
    drop_storages(made);
    made.push(wide);
  }

  // reduce_scatter_coalesced: every tensor is padded to equal parts.
  constexpr void scatter(growing_array<int>& made) {
    const auto count_of = [&](int at) { return states_of_[bucket_[at]].elements; };
    for (int at = 0; at < bucket_.size(); ++at) {
      const tensor& whole = arrived(bucket_[at]);
      if (whole.format != format_ && whole.storage != buffer_)
        made.push(t_.new_storage(count_of(at) * bytes_of(format_)));
    }
    if (bucket_.size() > 1 || count_of(0) % ranks_ != 0) {
      std::int64_t elements = 0;
      for (std::int64_t rank = 0; rank < ranks_; ++rank) {
        for (int at = 0; at < bucket_.size(); ++at) {
          const std::int64_t part = states_of_[bucket_[at]].part;
          const std::int64_t there =
              at_least(0, at_most(count_of(at), (rank + 1) * part) - rank * part);
          if (part > there) made.push(t_.new_storage((part - there) * bytes_of(format_)));
          elements += part;
        }
      }
      made.push(t_.new_storage(elements * bytes_of(format_)));
    }
    if (!in_fp32_) return;
    growing_array<int> wide;
    for (int at = 0; at < bucket_.size(); ++at)
      wide.push(t_.new_storage(4 * states_of_[bucket_[at]].part));
    drop_storages(made);
    for (int at = 0; at < wide.size(); ++at) made.push(wide[at]);
  }

  // By way of a copy on the device, of which the norm is taken.
  constexpr void copy_to_host(std::int64_t part) {
    constexpr std::int64_t together = 250'000'000;
    const int copy = t_.new_storage(part * bytes_of_sum());
    if (is_last_) {
      for (std::int64_t from = 0; from < part; from += together)
        t_.touch(8 * at_most(together, part - from));
      if (!in_fp32_) t_.touch(4 * part);
    }
    t_.release(copy);
  }

  constexpr void reduce_gradients() override {
    reduce_bucket();
    end_backward();
  }

  // -- the optimizer

  constexpr void update() override {
    free_all();
    if (!on_host_) {
      if (format_ == element::fp16) look_for_infinities();
      for (int at = 0; at < trained_.size(); ++at) t_.touch(8 * states_of_[trained_[at]].part);
      const value scaled = note_norm(2);  // in fp64
      for (int at = 0; at < groups_.size(); ++at) update(at);
    }
    gather_persistent();
  }

  constexpr void look_for_infinities() {
    std::int64_t elements = 0;
    for (int at = 0; at < groups_.size(); ++at) elements += groups_[at].elements;
    const auto aside = t_.on_stream(reducing_stream_);
    const int sizes_only = t_.new_storage(elements * bytes_of_sum());
    const int found = t_.new_storage(elements);
    t_.release(sizes_only);
    t_.release(found);
    t_.touch(elements);
  }

  constexpr void update(int group) {
    const sub_group& of = groups_[group];
    const bool is_copied = of.end - of.first > 1;
    int flat = none;
    if (is_copied && !in_fp32_) flat = t_.new_storage(of.elements * bytes_of(format_));
    const bool has_own = is_copied || !in_fp32_;
    give_gradient(group, has_own ? make(purpose::gradients, 4 * of.elements) : none);
    t_.release(flat);
    states_.step();
    drop(gradient(masters_[group]));
  }

  int reducing_stream_;
  bool on_host_;
  bool in_fp32_;
  growing_array<sub_group> groups_{};
  int buffer_ = none;  // of gradients, before they are reduced
  growing_array<int> bucket_{};
  std::int64_t in_bucket_ = 0;
};

}  // namespace gpuplan::eager

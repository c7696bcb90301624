#pragma once

// What each operator of a replayed step takes of the host and of the device. Private.

#include <gpuplan/cluster.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/kernel_shares.hpp>
#include <gpuplan/time/communication.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// The kernels and collectives of a step in their order, with what they take at the highest clock.
class kernel_times final : public memory_events {
 public:
  constexpr kernel_times(const training_setup& setup,
                         const cluster& on,
                         const kernel_shares& reaches,
                         const host_costs& host)
      : reaches_(reaches),
        host_(host),
        communication_(setup, on, {}),
        is_causal_(setup.model.kind == model_kind::decoder) {
    const gpu_spec& gpu = on.gpu;
    const auto half =
        setup.precision.compute == number_format::fp16 ? number_format::fp16 : number_format::bf16;
    half_ = peak_of(gpu, half);
    is_tf32_ = setup.precision.compute == number_format::tf32;
    single_ = peak_of(gpu, is_tf32_ ? number_format::tf32 : number_format::fp32);
    fp8_ = peak_of(gpu, number_format::fp8);
    bytes_ = gpu.memory_bandwidth.value();
    processors_ = gpu.sm_count;
    if (gpu.tdp) watts_ = gpu.tdp->value();
    if (gpu.clock_MHz) clocks_ = 1e6 * *gpu.clock_MHz * processors_;
  }
  constexpr int allocate(std::int64_t, int) override { return 0; }
  constexpr void release(int) override {}
  [[nodiscard]] constexpr bool counts_work() const override { return true; }
  constexpr void begin(moment now, int layer) override {
    updates_ = is_update(now);
    layer_ = layer;
  }
  constexpr void begin_micro_batch() override {
    if (is_on) micro_batches_.push({items.size(), joules_of_flops, joules_of_bytes});
  }
  constexpr void begin_again() override { before_ = host_.checkpoint.value(); }
  constexpr void execute(const device_work& work, bool in_backward) override {
    if (!is_on || work.is_shared) return;
    item made = begun(in_backward, work.is_again);
    made.stream = work.stream;
    const int calls = work.kernels + work.products + work.copies + work.fills;
    made.issue += (calls - 1) * host_.launch.value();
    made.fixed = calls * reaches_.between.value();
    const auto moved = static_cast<double>(work.bytes - work.elsewhere + work.in_place);
    double flops = 0;
    if (work.products > 0) {
      flops = energy_of(work.operands) * work.products * work.product.flops();
      add_product(work, in_backward, made);
    } else if (work.attention_flops > 0) {
      flops = work.attention_flops * (is_causal_ ? 0.5 : 1);
      add_attention(work, in_backward && !work.is_again, moved, made);
    } else {
      made.fixed += moved / (bytes_ * share_of(work, in_backward && !work.is_again));
      if (work.kind != kernel_kind::elements && work.kind != kernel_kind::functions)
        made.fixed += reaches_.reduction.value();
    }
    limit_clock(reaches_.joules_per_flop * flops, made);
    joules_of_flops += reaches_.joules_per_flop * flops;
    joules_of_bytes += reaches_.joules_per_byte * moved;
    items.push(made);
  }
  constexpr void communicate(const shared_work& work, bool in_backward) override {
    if (!is_on) return;
    item made = begun(in_backward, false);
    made.is = item_kind::collective;
    made.stream = work.stream;
    made.follows = work.follows;
    made.fixed =
        communication_.seconds(work.what, static_cast<double>(work.bytes), work.ranks, work.stride);
    items.push(made);
  }
  constexpr void await_stream(int stream) override { mark(item_kind::await, stream); }
  constexpr void hold_stream(int stream, bool one_behind) override {
    mark(one_behind ? item_kind::hold_one_behind : item_kind::hold, stream);
  }

  enum class item_kind : unsigned char { kernels, collective, await, hold, hold_one_behind };
  enum class part : unsigned char { forward, backward, again, optimizer };
  struct item {
    part of{};
    item_kind is{};
    int layer = none;
    int stream = streams::operators;
    int follows = none;    // of a collective: the stream that it begins behind
    double issue = 0;      // s of the host
    double computing = 0;  // s of the device at the highest clock, which others prolong,
    double moving = 0;     // but for at least so long,
    double fixed = 0;      // and what no clock changes
    double most = 1;       // of the clock, of these kernels alone

    [[nodiscard]] constexpr double at(double clock) const {
      const double computes = computing / (clock < most ? clock : most);
      return (computes > moving ? computes : moving) + fixed;
    }
  };
  growing_array<item> items{};
  // Those from `repeated` up to `repeated_end` run so many times more.
  int repeated = 0;
  int repeated_end = 0;
  std::int64_t repeats = 0;
  double joules_of_flops = 0;
  double joules_of_bytes = 0;
  bool is_on = false;

  // The second of three micro-batches stands for so many more; false where there are no three.
  constexpr bool repeat_second(std::int64_t more) {
    if (micro_batches_.size() != 3) return false;
    const micro_batch_start& second = micro_batches_[1];
    const micro_batch_start& third = micro_batches_[2];
    repeated = second.item;
    repeated_end = third.item;
    repeats = more;
    const auto times = static_cast<double>(more);
    joules_of_flops += times * (third.joules_of_flops - second.joules_of_flops);
    joules_of_bytes += times * (third.joules_of_bytes - second.joules_of_bytes);
    return true;
  }

 private:
  struct micro_batch_start {
    int item = 0;
    double joules_of_flops = 0;  // until then
    double joules_of_bytes = 0;
  };

  // Of what the host issues now.
  constexpr item begun(bool in_backward, bool again) {
    item made;
    made.layer = layer_;
    made.of = in_backward ? (again ? part::again : part::backward)
                          : (updates_ ? part::optimizer : part::forward);
    const duration issue = made.of == part::optimizer  ? host_.optimizer
                           : made.of == part::backward ? host_.backward
                                                       : host_.forward;
    made.issue = before_ + issue.value();
    before_ = 0;
    return made;
  }
  // At a clock of c such a kernel draws idle + joules x c x c / computing.
  constexpr void limit_clock(double joules, item& made) const {
    if (joules == 0 || made.computing == 0 || watts_ == 0) return;
    const double most = (reaches_.burst * watts_ - reaches_.idle.value()) * made.computing / joules;
    if (most < 1) made.most = detail::sqrt(most);
  }
  constexpr void mark(item_kind is, int stream) {
    if (!is_on) return;
    item made;
    made.is = is;
    made.stream = stream;
    items.push(made);
  }
  static constexpr double peak_of(const gpu_spec& gpu, number_format format) {
    const auto found = peak(gpu, format);
    return found ? found->value() : 0;
  }
  // Of a FLOP, in those of half formats: tensor cores draw as much in each format, and take longer.
  // What CUDA cores draw is not known.
  [[nodiscard]] constexpr double energy_of(element operands) const {
    if (operands == element::fp8) return 0.5;
    if (operands == element::fp32) return is_tf32_ ? 2 : 0;
    return 1;
  }
  constexpr void add_product(const device_work& work, bool in_backward, item& made) const {
    const matrix_product& one = work.product;
    const double peak = is_half(work.operands)          ? half_
                        : work.operands == element::fp8 ? fp8_
                                                        : single_;
    kernel_rates on;
    on.bytes = on.elements = detail::infinity;
    on.sms = processors_;
    const bool on_tensor_cores = work.operands != element::fp32 || is_tf32_;
    double rate = (on_tensor_cores ? reaches_.products : reaches_.fp32_products) * peak;
    // of transposed gradients the rows are neighbours
    const std::int64_t size = bytes_of(work.operands);
    const auto divides = [&](std::int64_t bytes) {
      return one.inner * size % bytes == 0 && one.columns * size % bytes == 0 &&
             (!in_backward || one.rows * size % bytes == 0);
    };
    if (on_tensor_cores && !divides(16))
      rate *= divides(4)    ? reaches_.unaligned_products
              : in_backward ? reaches_.odd_gradients
                            : reaches_.odd_products;
    made.computing = work.products * matmul_time({.m = static_cast<double>(one.rows),
                                                  .n = static_cast<double>(one.columns),
                                                  .k = static_cast<double>(one.inner),
                                                  .batch = static_cast<double>(one.batch)},
                                                 rate,
                                                 0,
                                                 0,
                                                 on);
    made.fixed += work.products * reaches_.product.value();
    made.fixed += work.products * static_cast<double>(work.unfolds) * reaches_.unfolding.value();
    const auto read =
        static_cast<double>((one.rows + one.columns) * one.inner + one.rows * one.columns);
    made.moving =
        work.products * read * static_cast<double>(one.batch * size) / (bytes_ * reaches_.elements);
  }
  // Pairs that are computed: of whole blocks, of which a causal mask leaves those up to the last
  // key that a query may see; as if all SMs had as many as that of the longest.
  [[nodiscard]] constexpr double pairs_of(const matrix_product& scores, std::int64_t block) const {
    const std::int64_t queries = detail::ceil_div(scores.rows, block);
    const std::int64_t keys = detail::ceil_div(scores.columns, block);
    std::int64_t blocks = queries * keys;
    if (is_causal_ && keys >= queries) blocks -= queries * (queries - 1) / 2;
    const double all = static_cast<double>(blocks) * static_cast<double>(scores.batch);
    const double longest = static_cast<double>(keys) * processors_;
    return (all > longest ? all : longest) * static_cast<double>(block * block);
  }
  constexpr void add_attention(const device_work& work,
                               bool is_backward,
                               double moved,
                               item& made) const {
    const matrix_product& scores = work.product;
    const attention_shares& reached =
        work.is_flash ? (is_backward ? reaches_.flash_backward : reaches_.flash_forward)
                      : (is_backward ? reaches_.efficient_backward : reaches_.efficient_forward);
    const std::int64_t width = round_up(scores.inner, scores.inner > 128 ? 64 : 32);
    const double flops_of_pair = (is_backward ? 10.0 : 4.0) * static_cast<double>(width);
    const bool half = is_half(work.input);
    double pair = flops_of_pair / (half || is_tf32_ ? reached.products * (half ? half_ : single_)
                                                    : reaches_.fp32_attention * single_);
    if ((half || is_tf32_) && reached.exponentials > 0 && clocks_ > 0)
      pair += 1 / (reached.exponentials * clocks_);
    // Gradients of queries add up in fp32: zeroed, added to, and read.
    if (is_backward && work.is_flash)
      moved += 3.0 * 4.0 * static_cast<double>(scores.rows * width * scores.batch);
    made.computing = pairs_of(scores, reached.block) * pair;
    made.fixed += moved / (bytes_ * reaches_.elements) + reached.tail.value();
  }
  // Of the bandwidth.
  [[nodiscard]] constexpr double share_of(const device_work& work, bool is_backward) const {
    const auto of = [&](const format_shares& shares) {
      return bytes_of(work.input) <= 2 ? shares.half : shares.single;
    };
    switch (work.kind) {
      case kernel_kind::norms:
        return of(is_backward ? reaches_.norm_gradients : reaches_.norms);
      case kernel_kind::rms_norms:
        return of(reaches_.rms_norms);
      case kernel_kind::softmaxes:
        return of(is_backward ? reaches_.softmax_gradients : reaches_.softmaxes);
      case kernel_kind::sums:
        return of(reaches_.sums);
      default:
        break;
    }
    if (updates_) return of(reaches_.updates);
    if (work.is_strided) return reaches_.strided;
    return is_half(work.input) && work.operands == element::fp32 ? reaches_.widening
                                                                 : reaches_.elements;
  }

  growing_array<micro_batch_start> micro_batches_{};
  kernel_shares reaches_;
  host_costs host_;
  detail::layout_communication communication_;
  bool is_causal_;
  double half_ = 0, single_ = 0, fp8_ = 0, bytes_ = 0, processors_ = 1, clocks_ = 0, watts_ = 0;
  bool is_tf32_ = false;
  bool updates_ = false;
  int layer_ = none;
  double before_ = 0;  // s of the host, before the next operator
};

}  // namespace gpuplan::eager

#pragma once

// The time of a training step on one rank from the operators that its replay runs: the host issues
// them one after the other, the device works them off, and ranks exchange what they share beside.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/communication.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// What a kernel of attention reaches. Formula: seconds = pairs x (products / rate + 1 /
/// exponentials) + bytes / bandwidth + tail; pairs of a query and a key are those of whole blocks
/// that a causal mask leaves, and at the least those of the longest block of queries on its SM.
struct attention_shares {
  double products = 0;       // of the peak of half formats
  double exponentials = 0;   // of an SM in each clock: one for a pair; 0: none are counted
  std::int64_t block = 128;  // queries and keys that are computed together
  duration tail{};           // from the first SM that has nothing left to the last
};
/// Of a kernel's bandwidth, by what its elements are kept in.
struct format_shares {
  double half = 1;
  double single = 1;
};

/// What each kind of kernel reaches of a device. Shares are of the data sheet's dense peak and of
/// its bandwidth, at the highest clock, which may be above that of the peak. The defaults are an
/// H100's with PyTorch 2.11: single kernels of `h100_sxm5_80gb_kernels.csv` (benchmarks/results),
/// none of it fitted to layers or steps but for the power.
struct kernel_shares {
  double products = 0.963;     // of half formats and TF32, where tiles fill the device
  double fp32_products = 0.8;  // of fp32
  // Of the product's rate, where rows of an operand or of the result are no multiple of 4 bytes,
  // forward and backward; or of none of 16.
  double odd_products = 0.111;
  double odd_gradients = 0.142;
  double unaligned_products = 0.25;
  attention_shares flash_forward{0.461, 14.8, 128, 11.4_us};
  attention_shares flash_backward{0.363, 7.07, 128, 13.2_us};
  attention_shares efficient_forward{0.226, 5.15, 64};
  attention_shares efficient_backward{0.163, 2.25, 64};
  double fp32_attention = 0.44;        // of the peak of fp32, all of the efficient kernel
  double elements = 0.873;             // of the bandwidth: what reads and writes what it is handed,
  double widening = 0.596;             // to formats of more bytes,
  double strided = 0.41;               // that do not lie in the same order in all operands
  format_shares updates{0.64, 0.787};  // of weights and states
  format_shares norms{0.458, 0.67};
  format_shares rms_norms{0.81, 0.881};
  format_shares norm_gradients{0.323, 0.406};
  format_shares softmaxes{0.665, 0.912};  // and losses
  format_shares softmax_gradients{0.456, 0.463};
  format_shares sums{0.53, 0.662};
  duration between{2_us};    // the end of a kernel and the next one's work, at the least
  duration reduction{3_us};  // more, where threads wait for one another,
  duration product{2.1_us};  // and before tensor cores have their operands
  // For each input of a patch, of convolutions without cuDNN: a thread reads them one by one.
  duration unfolding{0.041_us};
  // Clocks fall until the board draws no more than its limit on average: fitted to the power of
  // steps; and at once where a kernel alone would draw more than this many times the limit.
  double burst = 1.3;
  power idle{120_W};
  double joules_per_flop = 1.3e-12;  // of half formats at the highest clock, in proportion to it
  double joules_per_byte = 105e-12;
};

/// What issuing an operator costs the host, Python included: of PyTorch 2.11 on three machines of
/// 16 virtual cores the one in the middle, of which the fastest took 19 and 18 us forward and
/// backward; a launch costs 4 to 6 us wherever it was measured, a checkpoint was fitted to steps.
struct host_costs {
  duration forward{30_us};
  duration backward{27_us};  // by autograd's thread
  duration optimizer{15_us};
  duration launch{5_us};        // each further kernel, product, copy or fill of an operator
  duration checkpoint{2.2_ms};  // states of random numbers and hooks of one that is computed again
};

namespace eager {

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
    single_ = is_tf32_ ? reaches.products * peak_of(gpu, number_format::tf32)
                       : reaches.fp32_products * peak_of(gpu, number_format::fp32);
    bytes_ = gpu.memory_bandwidth.value();
    processors_ = gpu.sm_count;
    if (gpu.tdp) watts_ = gpu.tdp->value();
    if (gpu.clock_MHz) clocks_ = 1e6 * *gpu.clock_MHz * processors_;
  }
  constexpr int allocate(std::int64_t, int) override { return 0; }
  constexpr void release(int) override {}
  [[nodiscard]] constexpr bool counts_work() const override { return true; }
  constexpr void begin(moment now, int layer) override {
    updates_ = now == moment::clip || now == moment::optimizer;
    layer_ = layer;
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
      flops = is_half(work.operands) ? work.products * work.product.flops() : 0;
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
  double joules_of_flops = 0;
  double joules_of_bytes = 0;
  bool is_on = false;

 private:
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
  constexpr void add_product(const device_work& work, bool in_backward, item& made) const {
    const matrix_product& one = work.product;
    const bool half = is_half(work.operands);
    kernel_rates on;
    on.bytes = on.elements = detail::infinity;
    on.sms = processors_;
    double rate = half ? reaches_.products * half_ : single_;
    // of transposed gradients the rows are neighbours
    const std::int64_t size = bytes_of(work.operands);
    const auto divides = [&](std::int64_t bytes) {
      return one.inner * size % bytes == 0 && one.columns * size % bytes == 0 &&
             (!in_backward || one.rows * size % bytes == 0);
    };
    if (takes_tensor_cores(work.operands) && !divides(16))
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
    if (work.products > 1 && work.kernels >= work.products)
      made.fixed += work.products * static_cast<double>(one.inner) * reaches_.unfolding.value();
    const auto read =
        static_cast<double>((one.rows + one.columns) * one.inner + one.rows * one.columns);
    made.moving =
        work.products * read * static_cast<double>(one.batch * size) / (bytes_ * reaches_.elements);
  }
  [[nodiscard]] constexpr bool takes_tensor_cores(element format) const {
    return is_half(format) || is_tf32_;
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
    double pair = 0;
    if (is_half(work.input) || is_tf32_) {
      pair = flops_of_pair / (reached.products * (is_tf32_ ? half_ / 2 : half_));
      if (reached.exponentials > 0 && clocks_ > 0) pair += 1 / (reached.exponentials * clocks_);
    } else {
      pair = flops_of_pair / (reaches_.fp32_attention * single_ / reaches_.fp32_products);
    }
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

  kernel_shares reaches_;
  host_costs host_;
  detail::layout_communication communication_;
  bool is_causal_;
  double half_ = 0, single_ = 0, bytes_ = 0, processors_ = 1, clocks_ = 0, watts_ = 0;
  bool is_tf32_ = false;
  bool updates_ = false;
  int layer_ = none;
  double before_ = 0;  // s of the host, before the next operator
};

}  // namespace eager

namespace detail {
class step_tracer;  // memory/step_trace.hpp
}

/// How long a layer's kernels take, without waiting for the host.
struct layer_time {
  duration forward{};
  duration backward{};
};

/// The time of eager PyTorch's steps on one rank. Formula: each operator is issued by the host
/// after the one before, and runs once that is done and it is issued; a product takes the longer of
/// computing, in waves of tiles, and of moving its operands, attention its FLOPs (half of them
/// where it is causal), everything else its bytes; the clock is the highest at which the board
/// draws no more than its limit on average. Collectives take what `collective_time` says, on
/// streams of their own, begin when what they send is there, and are waited for where the engine
/// does: DDP's buckets and ZeRO-1's broadcasts, FSDP2's gathers one unit ahead and its reductions.
/// Each second of one beside operators costs these as much as the framework's `contention` says.
/// Valid where `counts_of` knows the work. Measured on an H100 (benchmarks/results): 249 layers
/// within 4.8 % in the mean forward and backward, 131 steps within 7.2, 28 at worst; 95 steps of
/// transformers on an H100 and an H200, which gave no number to it, within 3.6 and 5.3 % where the
/// device is the slower, else up to 75 %, as the host differs. Steps of several ranks were not
/// measured. Errors: as `counts_of`; `no_such_code` of what
/// is not counted; `out_of_bounds` of more ranks than the cluster has; `not_known` where the device
/// has no peak for the format, or several ranks no link.
struct replayed_time {
  training_setup setup{};
  cluster on{};
  kernel_shares kernels{};
  host_costs host{};

 private:
  constexpr failure flaw_of_ranks(const batch_plan& plan) const {
    if (const auto valid = validate(on); !valid) return valid.why();
    const auto ranks =
        detail::checked_product(setup.parallelism.context_parallel, plan.data_parallel);
    if (!ranks.ok || ranks.value > total_gpus(on))
      return failure(errc::out_of_bounds,
                     named_fact{fact::data_parallel, plan.data_parallel},
                     named_fact{fact::at_most, total_gpus(on)});
    if (ranks.value == 1) return {};
    const auto links = interconnect_of(on);
    return links ? failure{} : links.why();
  }
  // What `watched` makes of the kernels takes down the step; `begin` is told where it begins.
  template <class Watched, class Begin, class Use>
  constexpr failure with_step(const batch_plan& plan,
                              const Watched& watched,
                              const Begin& begin,
                              const Use& use) const {
    if (const failure why = detail::flaw_of_replay(setup, plan, {}); detail::failed(why))
      return why;
    if (const failure why = flaw_of_ranks(plan); detail::failed(why)) return why;
    if (const auto most = peak(on.gpu, setup.precision.compute); !most) return most.why();
    if (!detail::counts_work(setup))
      return detail::without_code({{fact::layers, setup.framework.layers().name}});
    eager::kernel_times step(setup, on, kernels, host);
    eager::train(watched(step), setup, plan, {}, nullptr, [&](eager::training_job& job) {
      job.settle();
      begin(job);
      step.is_on = true;
      job.step();
    });
    use(step);
    return {};
  }
  template <class Use>
  constexpr failure with_step(const batch_plan& plan, const Use& use) const {
    return with_step(
        plan,
        [](eager::kernel_times& step) -> eager::memory_events& { return step; },
        [](eager::training_job&) {},
        use);
  }
  friend class detail::step_tracer;
  // The share of the highest clock at which the board draws no more than its limit.
  template <class Seconds>
  constexpr double clock_of(const eager::kernel_times& step, const Seconds& seconds) const {
    if (!on.gpu.tdp) return 1;
    const auto draws_too_much = [&](double clock) {
      const double joules = step.joules_of_flops * clock + step.joules_of_bytes;
      return kernels.idle.value() + joules / seconds(clock) > on.gpu.tdp->value();
    };
    if (!draws_too_much(1)) return 1;
    double low = 0.3;
    double high = 1;
    for (int halving = 0; halving < 10; ++halving) {
      const double middle = (low + high) / 2;
      (draws_too_much(middle) ? high : low) = middle;
    }
    return low;
  }
  // Of each stream of the device.
  struct stream_times {
    using of_each = double[eager::streams::count];

    of_each done{};
    of_each busy{};     // since it was waited for
    of_each before{};   // the operators', at the last moment that held it
    of_each waited{};   // by operators, for it; at their own place for the host
    double slowed = 0;  // operators, by collectives beside them

    constexpr void await(int stream, double contention) {
      double& operators = done[eager::streams::operators];
      const double late = done[stream] - operators;
      if (late > 0) {
        waited[stream] += late;
        operators += late;
      }
      const double beside = busy[stream] - (late > 0 ? late : 0);
      if (beside > 0) {
        slowed += contention * beside;
        operators += contention * beside;
      }
      busy[stream] = 0;
    }
    constexpr void hold(int stream, double until) {
      if (until > done[stream]) done[stream] = until;
      before[stream] = done[eager::streams::operators];
    }
  };
  // Of `run`, for whom the sums are enough.
  struct unnoted {
    constexpr void operator()(int, double, double, double) const {}
  };
  // `note(item, issued, begin, end)`: when the host has issued it, and when the device runs it.
  template <class Note>
  constexpr step_breakdown run(const eager::kernel_times& step,
                               double clock,
                               const Note& note) const {
    using eager::kernel_times;
    namespace streams = eager::streams;
    const double contention = setup.framework.costs.contention;
    double issued = 0;
    double parts[4] = {0, 0, 0, 0};
    stream_times times;
    for (int at = 0; at < step.items.size(); ++at) {
      const auto& item = step.items[at];
      double& done = times.done[item.stream];
      issued += item.issue;
      switch (item.is) {
        case kernel_times::item_kind::await:
          times.await(item.stream, contention);
          continue;
        case kernel_times::item_kind::hold:
          times.hold(item.stream, times.done[eager::streams::operators]);
          continue;
        case kernel_times::item_kind::hold_one_behind:
          times.hold(item.stream, times.before[item.stream]);
          continue;
        case kernel_times::item_kind::collective:
          if (item.follows != eager::none && times.done[item.follows] > done)
            done = times.done[item.follows];
          break;
        case kernel_times::item_kind::kernels:
          break;
      }
      const double late = issued - done;
      if (late > 0) done = issued;
      const double takes = item.at(clock);
      note(at, issued, done, done + takes);
      done += takes;
      times.busy[item.stream] += takes;
      if (item.stream != streams::operators) continue;
      if (late > 0) times.waited[streams::operators] += late;
      parts[static_cast<int>(item.of)] += takes;
    }
    const auto seconds = [](double value) { return duration::from_value(value); };
    return {.forward = seconds(parts[0]),
            .backward = seconds(parts[1] + times.slowed),
            .recompute = seconds(parts[2]),
            .gradient_communication =
                seconds(times.waited[streams::gradients] + times.waited[streams::replicas]),
            .parameter_communication = seconds(times.waited[streams::weights]),
            .optimizer = seconds(parts[3]),
            .host = seconds(times.waited[streams::operators])};
  }

 public:
  [[nodiscard]] constexpr result<step_breakdown> breakdown(const batch_plan& plan) const {
    step_breakdown sum;
    const auto wrong = with_step(plan, [&](const eager::kernel_times& step) {
      const double clock =
          clock_of(step, [&](double at) { return run(step, at, unnoted{}).total().value(); });
      sum = run(step, clock, unnoted{});
    });
    if (detail::failed(wrong)) return wrong;
    return sum;
  }
  [[nodiscard]] constexpr result<duration> step(const batch_plan& plan) const {
    const auto parts = breakdown(plan);
    if (!parts) return parts.why();
    return parts->total();
  }
  /// Of the layer at this place, which runs again and again.
  [[nodiscard]] constexpr result<layer_time> layer(const batch_plan& plan, int at = 0) const {
    layer_time made;
    const auto wrong = with_step(plan, [&](const eager::kernel_times& step) {
      const auto kernels_of = [&](eager::kernel_times::part part, double clock) {
        double sum = 0;
        for (int which = 0; which < step.items.size(); ++which)
          if (step.items[which].layer == at && step.items[which].of == part)
            sum += step.items[which].at(clock);
        return duration::from_value(sum);
      };
      using enum eager::kernel_times::part;
      const double clock = clock_of(step, [&](double of) {
        double sum = 0;
        for (int which = 0; which < step.items.size(); ++which) sum += step.items[which].at(of);
        return sum;
      });
      made = {kernels_of(forward, clock), kernels_of(backward, clock)};
    });
    if (detail::failed(wrong)) return wrong;
    return made;
  }
};

}  // namespace gpuplan

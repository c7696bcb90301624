#pragma once

// The time of a training step on one rank from the operators that its replay runs: the host issues
// them one after the other, the device works them off, and ranks exchange what they share beside.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/eager/kernel_times.hpp>
#include <gpuplan/replay/kernel_shares.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time/time_interval.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

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
/// computing, in waves of tiles, and of moving its operands, attention what `attention_shares`
/// says, everything else its bytes; the clock is the highest at which the board draws no more than
/// its limit on average, and of a kernel alone no more than `kernel_shares::burst` of it.
/// Collectives take what `collective_time` says, on streams of their own, begin when what they send
/// is there, and are waited for where the engine does: DDP's buckets and ZeRO-1's broadcasts,
/// FSDP2's gathers one unit ahead and its reductions. Each second of one beside operators costs
/// these as much as the framework's `contention` says.
/// Valid where `counts_of` knows the work. Off by, in the mean (benchmarks/results): of 249 layers
/// on an H100 4.8 % forward and backward, of 131 steps 6.9, 31 at worst; of 95 steps of
/// transformers on an H100 and an H200, which gave no number to it, 3.2 and 5.1 % where the device
/// is the slower, else up to 75, as the host differs. Steps of several ranks were not measured.
/// Errors: as `counts_of`; `no_such_code` of what is not counted; `out_of_bounds` of more ranks
/// than the cluster has; `not_known` where the device has no peak for the format, or several ranks
/// no link.
struct replayed_time {
  training_setup setup{};
  cluster on{};
  kernel_shares kernels{};
  host_costs host{};
  // Of what is waited for links, one standard deviation: judgement, between that of links inside a
  // node and of those between nodes (`priors_of_numbers`).
  double spread_of_links = 0.3;

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
    if (const failure why = detail::flaw_of_work(setup); detail::failed(why)) return why;
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
  // Micro-batches between the first and the last do all the same, so that one of them is replayed.
  template <class Use>
  constexpr failure with_repeated_step(const batch_plan& plan, const Use& use) const {
    constexpr std::int64_t different = 3;
    if (plan.accumulation <= different) return with_step(plan, use);
    if (const failure why = detail::flaw_of_replay(setup, plan, {}); detail::failed(why))
      return why;
    batch_plan few = plan;
    few.accumulation = different;
    bool repeats = false;
    const failure why = with_step(few, [&](eager::kernel_times& step) {
      repeats = step.repeat_second(plan.accumulation - different);
      if (repeats) use(step);
    });
    return repeats || detail::failed(why) ? why : with_step(plan, use);
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
  // How far a step has come.
  struct progress {
    using of_each = double[eager::streams::count];

    double issued = 0;  // by the host
    // Of each stream of the device:
    of_each done{};
    of_each busy{};     // since it was waited for
    of_each before{};   // the operators', at the last moment that held it
    of_each waited{};   // by operators, for it; at their own place for the host
    double slowed = 0;  // operators, by collectives beside them
    double parts[4]{};  // operators, of each part

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
    // Calls `use` with each number of all of these.
    template <class Use, class... Others>
    static constexpr void for_each(const Use& use, Others&... of) {
      use(of.issued...);
      use(of.slowed...);
      for (int at = 0; at < eager::streams::count; ++at) {
        use(of.done[at]...);
        use(of.busy[at]...);
        use(of.before[at]...);
        use(of.waited[at]...);
      }
      for (int at = 0; at < 4; ++at) use(of.parts[at]...);
    }
    constexpr progress since(const progress& earlier) const {
      progress way = *this;
      for_each([](double& to, const double& from) { to -= from; }, way, earlier);
      return way;
    }
    constexpr void go(const progress& way, std::int64_t times) {
      const auto all = static_cast<double>(times);
      for_each([&](double& to, const double& each) { to += all * each; }, *this, way);
    }
    // Whether what came next went the same way from here, but for rounding.
    constexpr bool leads_to(const progress& next, const progress& way) const {
      const double all = way.issued + way.done[eager::streams::operators];
      bool is_same = true;
      for_each(
          [&](const double& from, const double& to, const double& each) {
            const double off = to - from - each;
            const double rounding = 1e-9 * all + 1e-12 * from;
            is_same = is_same && off <= rounding && -off <= rounding;
          },
          *this,
          next,
          way);
      return is_same;
    }
  };
  // Of `run`, for whom the sums are enough.
  struct unnoted {
    constexpr void operator()(int, double, double, double) const {}
  };
  // The items from one up to another, once.
  template <class Note>
  constexpr void play(const eager::kernel_times& step,
                      int from,
                      int end,
                      double clock,
                      const Note& note,
                      double host_times,
                      progress& now) const {
    using eager::kernel_times;
    namespace streams = eager::streams;
    const double contention = setup.framework.costs.contention;
    for (int at = from; at < end; ++at) {
      const auto& item = step.items[at];
      double& done = now.done[item.stream];
      now.issued += host_times * item.issue;
      switch (item.is) {
        case kernel_times::item_kind::await:
          now.await(item.stream, contention);
          continue;
        case kernel_times::item_kind::hold:
          now.hold(item.stream, now.done[streams::operators]);
          continue;
        case kernel_times::item_kind::hold_one_behind:
          now.hold(item.stream, now.before[item.stream]);
          continue;
        case kernel_times::item_kind::collective:
          if (item.follows != eager::none && now.done[item.follows] > done)
            done = now.done[item.follows];
          break;
        case kernel_times::item_kind::kernels:
          break;
      }
      const double late = now.issued - done;
      if (late > 0) done = now.issued;
      const double takes = item.at(clock);
      note(at, now.issued, done, done + takes);
      done += takes;
      now.busy[item.stream] += takes;
      if (item.stream != streams::operators) continue;
      if (late > 0) now.waited[streams::operators] += late;
      now.parts[static_cast<int>(item.of)] += takes;
    }
  }
  // `note(item, issued, begin, end)`: when the host has issued it, and when the device runs it; not
  // of what is repeated.
  template <class Note>
  constexpr step_breakdown run(const eager::kernel_times& step,
                               double clock,
                               const Note& note,
                               double host_times = 1) const {
    namespace streams = eager::streams;
    progress now;
    play(step, 0, step.repeated_end, clock, note, host_times, now);
    const auto repeat = [&](progress& from) {
      play(step, step.repeated, step.repeated_end, clock, unnoted{}, host_times, from);
    };
    // What waits for what is one and the same in all repeats, but for the first of them and where
    // the host or a stream catches up. In between all moments are straight lines, and so is the
    // difference of any two: where a repeat goes the same way behind a leap, all that were left out
    // did.
    progress way;
    std::int64_t leap = 0;
    for (std::int64_t left = step.repeats; left > 0;) {
      const std::int64_t most = leap < left - 1 ? leap : left - 1;
      progress far = now;
      far.go(way, most);
      progress next = far;
      repeat(next);
      if (most > 0 && !far.leads_to(next, way)) {
        leap = 0;
        continue;
      }
      if (most == 0) {
        way = next.since(now);
        now = next;
      } else {
        now.go(way, most + 1);
      }
      left -= most + 1;
      leap = 2 * most + 1;
    }
    play(step, step.repeated_end, step.items.size(), clock, note, host_times, now);
    const auto seconds = [](double value) { return duration::from_value(value); };
    return {.forward = seconds(now.parts[0]),
            .backward = seconds(now.parts[1] + now.slowed),
            .recompute = seconds(now.parts[2]),
            .gradient_communication =
                seconds(now.waited[streams::gradients] + now.waited[streams::replicas]),
            .parameter_communication = seconds(now.waited[streams::weights]),
            .optimizer = seconds(now.parts[3]),
            .host = seconds(now.waited[streams::operators])};
  }

 public:
  [[nodiscard]] constexpr result<step_breakdown> breakdown(const batch_plan& plan) const {
    step_breakdown sum;
    const auto wrong = with_repeated_step(plan, [&](const eager::kernel_times& step) {
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
  /// The time of the step on a host and links that nobody measured, with the range that holds as
  /// many of such steps as `coverage` says. Formula: to either side, the root of the sum of squares
  /// of the logarithms of what the step takes by a host that is `host.spread` slower or faster, of
  /// what it waits for links by `spread_of_links` longer, and of `kernels.scatter`, times as many
  /// standard deviations as hold that part of a normal distribution. Of 232 steps alone on an H100
  /// and an H200 the range of 80 % holds 85 %; of several ranks none was measured. Precondition: a
  /// coverage between 0 and 1. Errors: as `breakdown`.
  [[nodiscard]] constexpr result<time_interval> interval(const batch_plan& plan,
                                                         double coverage = 0.8) const {
    time_interval found;
    const auto wrong = with_repeated_step(plan, [&](const eager::kernel_times& step) {
      const double clock =
          clock_of(step, [&](double at) { return run(step, at, unnoted{}).total().value(); });
      const step_breakdown parts = run(step, clock, unnoted{});
      const double median = parts.total().value();
      const double exchanged =
          parts.gradient_communication.value() + parts.parameter_communication.value();
      const double of_links = detail::natural_log(1 + spread_of_links * exchanged / median);
      const auto away = [&](double host_times) {
        const double other = run(step, clock, unnoted{}, host_times).total().value();
        const double of_host = detail::natural_log(other / median);
        const double all = detail::sqrt(of_host * of_host + of_links * of_links +
                                        kernels.scatter * kernels.scatter);
        return detail::exp(detail::deviations_of(coverage) * all);
      };
      found.median = duration::from_value(median);
      found.high = away(detail::exp(host.spread)) * found.median;
      found.low = found.median / away(detail::exp(-host.spread));
    });
    if (detail::failed(wrong)) return wrong;
    return found;
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

#pragma once

// A transformer's memory as straight lines of the micro-batch, for searches over many plans.

#include <gpuplan/batch.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup/dispatch.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan {

namespace detail {

struct profile_point {
  std::int64_t micro_batch = 0;
  std::int64_t requested = 0;
};

/// Straight lines between points, and on as the last two go. It falls nowhere.
class rising_lines {
 public:
  static constexpr int most_points = 32;

  constexpr rising_lines() = default;
  /// By rising micro-batch. Precondition: there is room.
  constexpr void add(const profile_point& point) {
    const auto at = static_cast<double>(point.micro_batch);
    auto bytes = static_cast<double>(point.requested);
    if (count_ > 0) {
      const int last = count_ - 1;
      if (bytes < bytes_[last]) bytes = bytes_[last];
      slope_[last] = (bytes - bytes_[last]) / (at - from_[last]);
    }
    from_[count_] = at;
    bytes_[count_] = bytes;
    slope_[count_] = count_ > 0 ? slope_[count_ - 1] : bytes;
    ++count_;
  }

  [[nodiscard]] constexpr double at(double micro_batch) const {
    int line = 0;
    for (int half = most_points / 2; half > 0; half /= 2)
      if (line + half < count_ && from_[line + half] <= micro_batch) line += half;
    return bytes_[line] + slope_[line] * (micro_batch - from_[line]);
  }

 private:
  int count_ = 0;
  double from_[most_points]{};
  double bytes_[most_points]{};
  double slope_[most_points]{};
};

/// Finds the lines of what `requested(micro_batch)` answers, from 1 to `last`. What is between two
/// points is tried at one within. Where that is off, and two lines go on from both sides to where
/// they meet, these are the lines; else the point within is one more, the worst first.
template <class Requested>
class line_finder {
 public:
  constexpr explicit line_finder(const Requested& requested) : requested_(requested) {}

  [[nodiscard]] constexpr rising_lines find(std::int64_t last) {
    profile_point low = point(1);
    for (std::int64_t high = 2; high < last && high <= most_unlike; high *= 2) {
      const profile_point end = point(high);
      add(low, end);
      low = end;
    }
    add(low, point(last));
    while (count_ + 3 <= rising_lines::most_points) {
      int worst = 0;
      for (int at = 1; at < count_; ++at)
        if (pieces_[at].off > pieces_[worst].off) worst = at;
      if (pieces_[worst].off <= tolerance) break;
      const piece split = pieces_[worst];
      pieces_[worst] = pieces_[--count_];
      if (meet(split)) continue;
      add(split.low, split.inside);
      add(split.inside, split.high);
    }
    return lines();
  }

 private:
  // Of what is requested.
  static constexpr double tolerance = 0x1p-14;
  // Kernels choose by how many rows there are: up to here, lines are short.
  static constexpr std::int64_t most_unlike = 64;

  struct piece {
    profile_point low{};
    profile_point inside{};
    profile_point high{};
    double off = 0;
  };

  [[nodiscard]] static constexpr double off(double line, std::int64_t requested) {
    const auto there = static_cast<double>(requested);
    return (line < there ? there - line : line - there) / there;
  }
  [[nodiscard]] static constexpr double line(const profile_point& from,
                                             double slope,
                                             std::int64_t at) {
    return static_cast<double>(from.requested) + slope * static_cast<double>(at - from.micro_batch);
  }
  [[nodiscard]] static constexpr double slope(const profile_point& a, const profile_point& b) {
    return static_cast<double>(b.requested - a.requested) /
           static_cast<double>(b.micro_batch - a.micro_batch);
  }
  [[nodiscard]] constexpr profile_point point(std::int64_t micro_batch) const {
    return {micro_batch, requested_(micro_batch)};
  }
  // Near the geometric mean; the mean where that is an end.
  [[nodiscard]] static constexpr std::int64_t middle(std::int64_t low, std::int64_t high) {
    std::int64_t at = low;
    for (std::int64_t left = high / low; left >= 4; left /= 4) at *= 2;
    return at > low ? at : low + (high - low) / 2;
  }

  constexpr void add(const profile_point& low, const profile_point& high) {
    piece added{low, low, high, 0};
    if (high.micro_batch - low.micro_batch > 1) {
      added.inside = point(middle(low.micro_batch, high.micro_batch));
      added.off =
          off(line(low, slope(low, high), added.inside.micro_batch), added.inside.requested);
    }
    pieces_[count_++] = added;
  }
  // Whether it is two lines, of which the second rises more.
  constexpr bool meet(const piece& other) {
    const std::int64_t width = other.high.micro_batch - other.low.micro_batch;
    if (width < 4 || slope(other.low, other.inside) >= slope(other.inside, other.high))
      return false;
    const double first = slope(other.low, point(other.low.micro_batch + 1));
    const double second = slope(point(other.high.micro_batch - 1), other.high);
    if (!(second > first)) return false;
    const double share = (second * static_cast<double>(width) -
                          static_cast<double>(other.high.requested - other.low.requested)) /
                         (second - first);
    if (!(share >= 0 && share < static_cast<double>(width))) return false;
    const std::int64_t end = other.low.micro_batch + static_cast<std::int64_t>(share);
    const auto is_on = [&](const profile_point& seen) {
      const double there = seen.micro_batch <= end ? line(other.low, first, seen.micro_batch)
                                                   : line(other.high, second, seen.micro_batch);
      return off(there, seen.requested) <= tolerance;
    };
    if (!is_on(other.inside)) return false;
    const profile_point before = point(end);
    const profile_point behind = point(end + 1);
    if (!is_on(before) || !is_on(behind)) return false;
    if (end > other.low.micro_batch) add(other.low, before);
    add(before, behind);
    if (end + 1 < other.high.micro_batch) add(behind, other.high);
    return true;
  }

  [[nodiscard]] constexpr rising_lines lines() {
    rising_lines all;
    std::int64_t from = 1;
    for (int left = count_; left > 0; --left)
      for (int at = 0; at < count_; ++at) {
        if (pieces_[at].low.micro_batch != from) continue;
        all.add(pieces_[at].low);
        from = pieces_[at].high.micro_batch;
        if (left == 1) all.add(pieces_[at].high);
        break;
      }
    return all;
  }

  const Requested& requested_;
  int count_ = 0;
  piece pieces_[rising_lines::most_points]{};
};

// The counts of micro-batches of a step between which memory is a straight line of the count, and
// whether it goes on beyond them, as where Megatron-Core notes each loss, or all completions stay.
struct profiled_counts {
  static constexpr int most = 5;
  std::int64_t of[most]{};
  int count = 0;
  bool goes_on = false;

  constexpr void add(std::int64_t micro_batches) {
    if (count == 0 || of[count - 1] < micro_batches) of[count++] = micro_batches;
  }
};

constexpr profiled_counts profiled_counts_of(const training_setup& setup,
                                             std::int64_t data_parallel) {
  profiled_counts counts;
  const std::int64_t stages = setup.parallelism.pipeline_parallel;
  if (!setup.framework.layers().is_pipelined && stages == 1) {
    for (const std::int64_t count : {1, 2}) counts.add(count);
    counts.goes_on = keeps_all_micro_batches(setup);
    // one between the first and the last, which alone are unlike each other
    const bool differ =
        setup.framework.engine.is->holds == held_states::copies && data_parallel > 1;
    if (differ || counts.goes_on) counts.add(3);
    if (counts.goes_on) counts.add(4);
    return counts;
  }
  counts.goes_on = true;
  if (traits_of(setup.parallelism.schedule).defers_weights) {
    const micro_batch_rule taken = micro_batches_of(setup.framework.layers(), setup.parallelism);
    const std::int64_t full = taken.least > 1 ? taken.least : 2 * stages;
    if (taken.least == 1)
      for (const std::int64_t count : {taken.multiple_of, stages}) counts.add(count);
    for (std::int64_t more = 0; more < 3; ++more) counts.add(full + more * taken.multiple_of);
    return counts;
  }
  if (setup.parallelism.virtual_pipeline > 1) {
    for (const std::int64_t rounds : {1, 2, 3, 4}) counts.add(rounds * stages);
    return counts;
  }
  const bool all_are = setup.parallelism.schedule == pipeline_schedule::gpipe;
  const std::int64_t in_flight = all_are ? 1 : stages - setup.place.stage;
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{2}, in_flight, in_flight + 1, in_flight + 2})
    counts.add(count);
  if (counts.count < 3) counts.add(3);
  return counts;
}

template <const transformer_memory& Memory, std::int64_t DataParallel, std::int64_t... MicroBatches>
constexpr auto profile_in_chunks();

}  // namespace detail

/// What `transformer_memory` requires of plans of one data-parallel size, as straight lines of the
/// micro-batch, for one, two and more micro-batches of a step. The sizes of allocations are such
/// lines, but for thresholds between kernels and blocks of threads that are not full. It is never
/// less than at a smaller micro-batch. Against replayed steps of the settings of 1,090 measured
/// ones, at random micro-batches from 2 to 300: exact in 6,508 of 6,540, off by 0.5 % at most. Of a
/// stage with fewer micro-batches than it can hold it may be too large, by up to 3 % of stages that
/// were tried, where the peak changes its moment between two counts; where gradients of weights
/// wait also too small, by up to 0.25 %. One evaluation takes some nanoseconds; to find the lines,
/// steps are replayed at the micro-batches where they may meet, which takes some milliseconds.
class memory_profile {
 public:
  /// Fits nothing.
  constexpr memory_profile() = default;
  /// Where `validate` refuses the memory, it refuses the profile for the same reason.
  constexpr explicit memory_profile(const transformer_memory& memory,
                                    std::int64_t data_parallel = 1)
      : memory_profile(memory, data_parallel, without_lines()) {
    detail::profiled_counts counts;
    if (!detail::failed(why_)) counts = detail::profiled_counts_of(memory.setup, data_parallel);
    for (int at = 0; at < counts.count; ++at) {
      begin_count(counts.of[at]);
      const auto requested = [&](std::int64_t micro_batch) {
        return peaks_of(memory.setup, {micro_batch, data_parallel, counts.of[at]}).peak().total;
      };
      lines_[at] = detail::line_finder(requested).find(largest_of_interest(requested));
    }
  }

  /// Precondition: `validate` accepts this, and this with the plan.
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    const bytes of_tensors = requested(plan);
    const bytes sent = bytes::from_value(dispatch_.bytes_for(plan.micro_batch));
    return of_tensors + fragmentation_ * of_tensors + beside_.total() + sent;
  }
  /// What the step's tensors and temporaries have of it. Precondition: likewise.
  [[nodiscard]] constexpr bytes requested(const batch_plan& plan) const {
    return bytes::from_value(at_most(plan.accumulation, static_cast<double>(plan.micro_batch)));
  }

  /// The profile itself where its memory is valid.
  [[nodiscard]] friend constexpr result<memory_profile> validate(const memory_profile& profile) {
    if (detail::failed(profile.why_)) return profile.why_;
    return profile;
  }
  /// The plan itself where it is one of the profile's. Errors: `out_of_bounds` of another
  /// data-parallel size.
  [[nodiscard]] friend constexpr result<batch_plan> validate(const memory_profile& profile,
                                                             const batch_plan& plan) {
    if (plan.data_parallel != profile.data_parallel_)
      return failure(errc::out_of_bounds,
                     named_fact{fact::data_parallel, plan.data_parallel},
                     named_fact{fact::at_least, profile.data_parallel_},
                     named_fact{fact::at_most, profile.data_parallel_});
    return plan;
  }

 private:
  template <const transformer_memory&, std::int64_t, std::int64_t...>
  friend constexpr auto detail::profile_in_chunks();

  struct without_lines {};
  constexpr memory_profile(const transformer_memory& memory,
                           std::int64_t data_parallel,
                           without_lines /*yet*/)
      : data_parallel_(data_parallel), fragmentation_(memory.fragmentation) {
    const batch_plan largest{1, data_parallel, most_micro_batches};
    why_ = validate(memory).why();
    if (!detail::failed(why_)) why_ = validate(memory, largest).why();
    if (detail::failed(why_)) return;
    training_setup without = memory.setup;
    without.dispatcher = token_dispatcher::all_to_all;
    beside_ = needs_of(without, {1, data_parallel, 1}, memory.channels);
    dispatch_ = detail::dispatch_line(memory.setup);
    goes_on_ = detail::profiled_counts_of(memory.setup, data_parallel).goes_on;
  }
  constexpr void begin_count(std::int64_t micro_batches) {
    counted_[count_++] = static_cast<double>(micro_batches);
  }

  // The power of two at which a step takes a terabyte: no device has so much.
  template <class Requested>
  static constexpr std::int64_t largest_of_interest(const Requested& requested) {
    const std::int64_t sample = requested(2) - requested(1) + 1;
    std::int64_t largest = 4;
    while (largest < most_micro_batch && largest * sample < terabyte) largest *= 2;
    return largest;
  }

  [[nodiscard]] constexpr double at_most(std::int64_t accumulation, double micro_batch) const {
    const auto wanted = static_cast<double>(accumulation);
    int at = 0;
    while (at + 1 < count_ && counted_[at] < wanted) ++at;
    const bool is_beyond = counted_[at] < wanted;
    if (at == 0 || counted_[at] == wanted || (is_beyond && !goes_on_))
      return lines_[at].at(micro_batch);
    const double below = lines_[at - 1].at(micro_batch);
    const double each = (lines_[at].at(micro_batch) - below) / (counted_[at] - counted_[at - 1]);
    return below + each * (wanted - counted_[at - 1]);
  }

  static constexpr std::int64_t most_micro_batches = 1024;
  static constexpr std::int64_t most_micro_batch = std::int64_t{1} << 20;
  static constexpr std::int64_t terabyte = std::int64_t{1} << 40;

  failure why_{errc::not_positive};
  std::int64_t data_parallel_ = 1;
  double fragmentation_ = 0;
  device_needs beside_{};  // tensors
  detail::dispatch_line dispatch_{};
  bool goes_on_ = false;
  int count_ = 0;
  double counted_[detail::profiled_counts::most]{};  // micro-batches of a step
  detail::rising_lines lines_[detail::profiled_counts::most]{};
};

namespace detail {

// Each replay is a constant expression of its own, so that none meets a compiler's limit of steps.
template <const transformer_memory& Memory, batch_plan Plan, std::int64_t Layers>
inline constexpr eager::place_peaks peaks_in_one_chunk =
    replayed_peaks(Memory.setup, Plan, Layers, {});

template <const transformer_memory& Memory, batch_plan Plan>
constexpr std::int64_t requested_in_chunks() {
  constexpr repetition layers = repeated_layers(Memory.setup, Plan);
  if constexpr (layers.steps == 0)
    return peaks_in_one_chunk<Memory, Plan, layers.fewer>.peak().total;
  else
    return extrapolated(peaks_in_one_chunk<Memory, Plan, layers.fewer>,
                        peaks_in_one_chunk<Memory, Plan, layers.fewer + layers.period>,
                        layers.steps)
        .peak()
        .total;
}

template <const transformer_memory& Memory, std::int64_t DataParallel, std::int64_t... MicroBatches>
constexpr auto profile_in_chunks() {
  constexpr memory_profile::without_lines without_lines;
  memory_profile profile(Memory, DataParallel, without_lines);
  constexpr bool is_valid = !failed(memory_profile(Memory, DataParallel, without_lines).why_);
  if constexpr (is_valid) {
    constexpr profiled_counts counts = profiled_counts_of(Memory.setup, DataParallel);
    const auto add = [&]<int At>() {
      profile.begin_count(counts.of[At]);
      (profile.lines_[At].add(
           {MicroBatches,
            requested_in_chunks<Memory, batch_plan{MicroBatches, DataParallel, counts.of[At]}>()}),
       ...);
    };
    [&]<int... At>(std::integer_sequence<int, At...>) { (add.template operator()<At>(), ...); }
    (std::make_integer_sequence<int, counts.count>{});
  }
  return profile;
}

}  // namespace detail

/// The profile that is exact at these micro-batches, which rise from 1, with straight lines between
/// them and on from the last two: for searches while compiling, where each replay is a constant
/// expression of its own and takes about a quarter of a second. Between the micro-batches it may be
/// too large, where the steps' peaks change their moment, and beyond them too small.
template <const transformer_memory& Memory, std::int64_t DataParallel, std::int64_t... MicroBatches>
inline constexpr memory_profile profile_at =
    detail::profile_in_chunks<Memory, DataParallel, MicroBatches...>();

}  // namespace gpuplan

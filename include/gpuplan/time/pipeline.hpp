#pragma once

// What a pipeline of stages takes for the micro-batches of a step, by its schedule.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// One micro-batch on one stage.
struct stage_time {
  duration forward{};
  duration backward{};  // with what it recomputes
  duration weights{};   // of it, the gradients of the weights: schedules that defer them ask
};

/// Stages that pass micro-batches on. All but the first, which has the embedding, and the last,
/// which has the head, are alike. Of a schedule that folds the first has both ends; of one that
/// runs both ways a rank's time is the mean of its two stages', and first and last have both ends.
struct stage_line {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t virtual_pipeline = 1;  // chunks of a stage, interleaved: of 1F1B and ZB-H1
  stage_time first{};                 // the only one, where there is one
  stage_time middle{};                // of two interleaved stages too: one without ends
  stage_time last{};
  duration send{};  // from one stage to the next while both go on; what stops them is stage time
};

namespace detail {

// In plain seconds. All but the first and the last stage are alike. Each function is the longest of
// a fixed number of paths through the schedule's dependencies.

// One micro-batch on one stage.
struct stage_seconds {
  double forward = 0;
  double backward = 0;  // all of it
  double weights = 0;   // of it, the gradients of the weights

  [[nodiscard]] constexpr double both() const { return forward + backward; }
  [[nodiscard]] constexpr double of_input() const { return backward - weights; }
  // What it takes more than another.
  [[nodiscard]] constexpr stage_seconds beyond(const stage_seconds& other) const {
    return {forward - other.forward, backward - other.backward, weights - other.weights};
  }
};

struct pipeline_seconds {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;  // of a stage, where these are interleaved
  stage_seconds first{};    // the only one, where there is one
  stage_seconds middle{};
  stage_seconds last{};
  double send = 0;  // from a stage's end to its neighbour's start

  [[nodiscard]] constexpr const stage_seconds& stage(std::int64_t which) const {
    if (which == 0) return first;
    return which == stages - 1 ? last : middle;
  }
  // Both passes of the first `count` stages.
  [[nodiscard]] constexpr double both_of_first(std::int64_t count) const {
    if (count == 0) return 0;
    const std::int64_t inner = (count == stages ? count - 1 : count) - 1;
    return first.both() + static_cast<double>(inner > 0 ? inner : 0) * middle.both() +
           (count == stages && stages > 1 ? last.both() : 0);
  }
  // A micro-batch's way down from stage `from` to stage `to` and back to `from`, both included.
  [[nodiscard]] constexpr double way(std::int64_t from, std::int64_t to) const {
    return both_of_first(to + 1) - both_of_first(from) + 2 * send * static_cast<double>(to - from);
  }
  // Likewise without `from` itself.
  [[nodiscard]] constexpr double way_below(std::int64_t from, std::int64_t to) const {
    return to > from ? way(from, to) - stage(from).both() : 0;
  }
  // The busiest stage's own work.
  [[nodiscard]] constexpr double work() const {
    double most = first.both();
    if (stages > 1) most = larger_of(most, last.both());
    if (stages > 2) most = larger_of(most, middle.both());
    return static_cast<double>(micro_batches) * most;
  }
};

// All forwards, then all backwards. A flow shop of like jobs: exact.
[[nodiscard]] constexpr double gpipe(const pipeline_seconds& line) {
  double forward = line.first.forward;
  double backward = line.first.backward;
  if (line.stages > 1) {
    forward = larger_of(forward, line.last.forward);
    backward = larger_of(backward, line.last.backward);
  }
  if (line.stages > 2) {
    forward = larger_of(forward, line.middle.forward);
    backward = larger_of(backward, line.middle.backward);
  }
  return line.way(0, line.stages - 1) +
         static_cast<double>(line.micro_batches - 1) * (forward + backward);
}

// One forward, one backward. Stage i begins with w = stages - 1 - i forwards and ends with as many
// backwards. A path comes down to i, has a first way below it (or waits for warm-up forwards),
// passes the remaining micro-batches on i or on a way from i to a stage below and back, and has a
// last way below it (or waits for cool-down backwards).
[[nodiscard]] constexpr double one_forward_one_backward(const pipeline_seconds& line) {
  const std::int64_t p = line.stages;
  const std::int64_t m = line.micro_batches;
  if (p == 1) return line.work();
  // A last stage that is never faster than others never waits once it has begun.
  const auto is_last_slower = [&](const stage_seconds& than) {
    return than.forward <= line.last.forward && than.backward <= line.last.backward;
  };
  if (line.send == 0 && is_last_slower(line.first) && (p == 2 || is_last_slower(line.middle)))
    return line.way(0, p - 1) + static_cast<double>(m - 1) * line.last.both();
  double longest = 0;
  // One way for all, and every other micro-batch in a stage's warm-up or cool-down.
  const double once = line.way(0, p - 1);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, p - 1})
    if (m - 1 <= p - 1 - i) {
      const double each = larger_of(line.stage(i).forward, line.stage(i).backward);
      longest = larger_of(longest, once + static_cast<double>(m - 1) * each);
    }
  // Of like stages the first has the longest path, if it has enough micro-batches.
  std::int64_t done = -1;
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, p + 1 - m, p - 1}) {
    if (i <= done || i >= p) continue;
    done = i;
    const double above = line.way(0, i) - line.stage(i).both();
    double forward = line.first.forward;
    double backward = line.first.backward;
    if (i > 0) {
      forward = larger_of(forward, line.stage(i).forward);
      backward = larger_of(backward, line.stage(i).backward);
    }
    if (i > 1) {
      forward = larger_of(forward, line.middle.forward);
      backward = larger_of(backward, line.middle.backward);
    }
    double first_way = 0;
    double last_way = 0;
    std::int64_t turned = i - 1;
    for (const std::int64_t j : {i, std::int64_t{1}, p - m, p - 2, p - 1}) {
      if (j <= turned || j >= p) continue;
      turned = j;
      forward = larger_of(forward, line.stage(j).forward);
      backward = larger_of(backward, line.stage(j).backward);
      const auto waits = static_cast<double>(p - 1 - j);
      const double below = line.way_below(i, j);
      first_way = larger_of(first_way, below + waits * forward);
      last_way = larger_of(last_way, below + waits * backward);
      if (m == p - j)  // all before stage j's first backward, and all after it
        longest =
            larger_of(longest, above + line.stage(i).both() + below + waits * (forward + backward));
    }
    const std::int64_t others = m - 2 - (p - 1 - i);
    if (others < 0) continue;
    const double ends = above + 2 * line.stage(i).both() + first_way + last_way;
    longest = larger_of(longest, ends + static_cast<double>(others) * line.stage(i).both());
    if (line.send == 0) continue;
    for (const std::int64_t j : {p - 2, p - 1}) {
      if (j <= i) continue;
      const std::int64_t length = j - i + 1;
      const std::int64_t ways = others / length;
      const std::int64_t rest = others % length;
      double passed = static_cast<double>(ways) * line.way(i, j);
      if (rest > 0) passed += larger_of(line.way(i, i + rest - 1), line.way(j - rest + 1, j));
      longest = larger_of(longest, ends + passed);
    }
  }
  return longest;
}

// Of interleaved stages, when the first micro-batch has been through all chunks. The first stage
// does its first chunk of as many as there are stages before it goes on.
[[nodiscard]] constexpr double way_down(const pipeline_seconds& line) {
  const auto p = static_cast<double>(line.stages);
  const auto v = static_cast<double>(line.chunks);
  const double first = line.first.beyond(line.middle).forward;
  return p * line.middle.forward + line.last.beyond(line.middle).forward +
         (v * p - p - 1) * line.send + larger_of(p * first, first + p * line.send);
}

// Megatron-LM's interleaved schedule: stages in `chunks` parts, micro-batches in groups of
// `stages`. What the first stage takes more than the middle ones belongs to its first chunk, what
// the last takes more to its last. Stage i has 2 (stages - 1 - i) + (chunks - 1) stages warm-up
// forwards.
[[nodiscard]] constexpr double interleaved(const pipeline_seconds& line) {
  if (line.stages == 1 || line.chunks == 1) return one_forward_one_backward(line);
  const auto p = static_cast<double>(line.stages);
  const auto m = static_cast<double>(line.micro_batches);
  const auto v = static_cast<double>(line.chunks);
  const stage_seconds& plain = line.middle;  // of two stages too: what a chunk without ends takes
  const double forward = plain.forward / v;
  const double backward = plain.backward / v;
  const stage_seconds first = line.first.beyond(plain);
  const stage_seconds last = line.last.beyond(plain);
  // The first micro-batch through all chunks, and the last one back.
  const double down = way_down(line);
  const double back = v * p * backward + last.backward + (v * p - p - 1) * line.send +
                      larger_of(p * first.backward, first.backward + p * line.send);
  double longest = 0;
  for (const std::int64_t i :
       {std::int64_t{0}, std::int64_t{1}, line.stages - 2, line.stages - 1}) {
    const auto above = static_cast<double>(i);
    const double below = p - 1 - above;
    const double before = v * p + p - 1 - 2 * above;  // forwards up to the first backward
    if (before > m * v) continue;
    const double of_first = i == 0 ? 2 * p - 1 : 0;  // how many of these are longer
    const double of_last = i == line.stages - 1 ? 1 : 0;
    const double starts =
        larger_of(down + (1 - of_last) * last.backward + below * (backward + line.send),
                  above * (forward + line.send) + before * forward +
                      (i == 0 ? of_first : p) * first.forward + of_last * last.forward);
    const double ends =
        larger_of(back + (1 - of_last) * last.forward + below * (forward + line.send),
                  above * (backward + line.send) + before * backward +
                      (i == 0 ? of_first : p) * first.backward + of_last * last.backward);
    const double between = m * line.stage(i).both() - before * (forward + backward) -
                           of_first * first.both() - of_last * last.both();
    longest = larger_of(longest, starts + between + ends);
  }
  return longest;
}

// ZB-H1: as one forward, one backward, but the gradients of the weights fill what would be idle,
// and a stage holds as many micro-batches as the first one does.
[[nodiscard]] constexpr double zero_bubble(const pipeline_seconds& line) {
  const std::int64_t p = line.stages;
  const auto m = static_cast<double>(line.micro_batches);
  double longest = 0;
  std::int64_t done = -1;
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, p - 2, p - 1}) {
    if (i <= done || i >= p) continue;
    done = i;
    const stage_seconds& stage = line.stage(i);
    const auto above = static_cast<double>(i);
    const auto below = static_cast<double>(p - 1 - i);
    const auto alike = static_cast<double>(i > 0 ? i - 1 : 0);
    const auto one = static_cast<double>(i > 0 ? 1 : 0);
    const double reaches =
        one * line.first.forward + alike * line.middle.forward + above * line.send;
    // Its first backward waits for the way below, without the gradients of the weights there.
    const auto inner = static_cast<double>(p - 2 - i > 0 ? p - 2 - i : 0);
    double way = 2 * below * line.send;
    if (i < p - 1)
      way +=
          inner * (line.middle.both() - line.middle.weights) + line.last.both() - line.last.weights;
    const double waits = larger_of(0, way - below * stage.forward);
    // After its last one, those above follow, and the first stage's weights.
    const double after = one * (line.first.backward - line.first.weights) +
                         alike * (line.middle.backward - line.middle.weights) + above * line.send +
                         line.first.weights;
    const double left = i > 0 ? larger_of(0, after - (above + 1) * stage.weights) : 0;
    longest = larger_of(longest, reaches + waits + m * stage.both() + left);
  }
  return longest;
}

// ZB-H1 of several chunks, in the fixed order of PyTorch: stage i has chunks * stages - i forwards
// up to its first backward, and gradients of weights follow i backwards later. What the ends take
// more lies as in `interleaved`.
[[nodiscard]] constexpr double interleaved_zero_bubble(const pipeline_seconds& line) {
  if (line.stages == 1 || line.chunks == 1) return zero_bubble(line);
  const auto p = static_cast<double>(line.stages);
  const auto m = static_cast<double>(line.micro_batches);
  const auto v = static_cast<double>(line.chunks);
  const bool goes_on = line.micro_batches > line.stages;  // beyond the first round
  const stage_seconds chunk{
      line.middle.forward / v, line.middle.backward / v, line.middle.weights / v};
  const stage_seconds first = line.first.beyond(line.middle);
  const stage_seconds last = line.last.beyond(line.middle);
  const double longer = last.forward + last.of_input();
  double longest = 0;
  for (const std::int64_t i :
       {std::int64_t{0}, std::int64_t{1}, line.stages - 2, line.stages - 1}) {
    const bool is_first = i == 0;
    const bool is_last = i == line.stages - 1;
    const auto above = static_cast<double>(i);
    const double below = p - 1 - above;
    // Until its first backward, less its own forwards before.
    double starts =
        way_down(line) + below * (chunk.of_input() + line.send) - (v * p - above) * chunk.forward;
    if (is_first) starts -= p * first.forward;
    starts += is_last ? -last.forward : last.of_input();
    double round = 0;  // by which its first round may take longer than its own work
    if (is_last) {
      // A backward goes up to the second stage, or the first, and a forward comes down from there.
      round = (p - 2) * (2 * line.send - longer);
      if (goes_on)
        round = larger_of(
            round, 2 * (p - 1) * line.send + first.forward - (p - 1) * longer - last.weights);
    } else {
      // The last stage's work comes before the round's last backward.
      round = (p - 1) * longer - below * chunk.weights;
      if (!goes_on) round += below * chunk.forward;
      if (goes_on && is_first) round -= (p - 1) * first.forward;
    }
    // After its last backward, or before the first stage's first chunk: those above follow, whose
    // gradients of weights wait less.
    double ends = 0;
    if (!is_first) {
      const double waiting = is_last && line.chunks == 2 ? last.weights : 0;
      ends = above * (chunk.of_input() + line.send - chunk.weights) +
             larger_of(first.backward, p * (first.backward - waiting));
    }
    longest = larger_of(
        longest, starts + larger_of(0, round) + m * line.stage(i).both() + larger_of(0, ends));
  }
  return longest;
}

// ZB-V and DualPipeV, in the fixed orders of PyTorch: `ranks` have two chunks each, of whose passes
// `chunk` is one without ends. The first rank has both, and so waits less where it works longer.
struct folded_line {
  std::int64_t ranks = 1;
  double micro_batches = 1;
  stage_seconds chunk{};
  double first = 0;    // of a micro-batch: what the first rank works,
  double weights = 0;  // and its gradients of weights beyond two chunks'
  double send = 0;
};
[[nodiscard]] constexpr double folded(const folded_line& line, bool is_dual) {
  const double busy = line.micro_batches * line.first;
  if (line.ranks == 1) return busy;
  const auto others = static_cast<double>(line.ranks - 1);
  const auto& [forward, backward, weights] = line.chunk;
  const double of_input = backward - weights;
  const double middle = line.micro_batches * 2 * line.chunk.both();
  if (is_dual) {
    // Gradients of inputs come back over all ranks, while each has those of weights to fill with.
    const double back = others * larger_of(0, of_input - weights);
    return larger_of(middle + others * (forward + 3 * line.send) + back,
                     busy + others * 4 * line.send + back);
  }
  const double longer = larger_of(forward, of_input) + 2 * line.send;
  return larger_of(
      middle + others * longer,
      busy + larger_of(0, (others - 1) * weights - line.weights) + others * 3 * line.send);
}
[[nodiscard]] constexpr double folded(const pipeline_seconds& line, pipeline_schedule schedule) {
  // Two interlocked pipelines of half the ranks and micro-batches are one that runs both ways.
  const bool runs_both_ways = schedule == pipeline_schedule::dual_pipe;
  const double share = runs_both_ways ? 2 : 1;
  const stage_seconds& plain = line.stages > (runs_both_ways ? 3 : 2) ? line.middle : line.last;
  return folded(
      {.ranks = line.stages / (runs_both_ways ? 2 : 1),
       .micro_batches = static_cast<double>(line.micro_batches) / share,
       .chunk = {share / 2 * plain.forward, share / 2 * plain.backward, share / 2 * plain.weights},
       .first = share * line.first.both(),
       .weights = share * (line.first.weights - plain.weights),
       .send = line.send},
      schedule != pipeline_schedule::zero_bubble_v);
}

[[nodiscard]] constexpr stage_seconds seconds_of(const stage_time& stage) {
  return {stage.forward.value(), stage.backward.value(), stage.weights.value()};
}
[[nodiscard]] constexpr pipeline_seconds seconds_of(const stage_line& line) {
  return {line.stages,
          line.micro_batches,
          line.virtual_pipeline,
          seconds_of(line.first),
          seconds_of(line.middle),
          seconds_of(line.last),
          line.send.value()};
}

[[nodiscard]] constexpr double pipeline_time(const pipeline_seconds& line,
                                             pipeline_schedule schedule) {
  switch (schedule) {
    case pipeline_schedule::gpipe:
      return gpipe(line);
    case pipeline_schedule::zero_bubble:
      return interleaved_zero_bubble(line);
    case pipeline_schedule::zero_bubble_v:
    case pipeline_schedule::dual_pipe:
    case pipeline_schedule::dual_pipe_v:
      return folded(line, schedule);
    default:
      return interleaved(line);  // 1F1B where a stage is one chunk
  }
}

}  // namespace detail

/// From the first forward to the last backward. Of m micro-batches on p like stages of f forward
/// and b backward, without sends: (m + p - 1) (f + b); interleaved in v chunks, (m + (p - 1) / v)
/// (f + b); of ZB-H1 with w of b for weights, m (f + b) + (p - 1) (f + b - 2 w) where w is less
/// than b - w, and in v chunks, m (f + b) + (p - 1) / v (f + b - 2 w); of ZB-V, with f and b of a
/// stage's two chunks and w of one, m (f + b) + (p - 1) max(f / 2, b / 2 - w); of DualPipeV, m (f +
/// b) + (p - 1) (f / 2 + max(0, b / 2 - 2 w)); of DualPipe, m (f + b) + (p / 2 - 1) (f + max(0, b -
/// 2 w)), which with passes one behind the other waits less than its README's bound of (p / 2 - 1)
/// (F&B + B - 3 W) for two at once. Beside event simulations of the schedules, with ends from half
/// to almost twice the middle (thousands of random pipelines,
/// tests/run_time/pipeline_schedules.cpp), GPipe is exact, and 1F1B without sends. Else the forms
/// are of the longest of some paths and so below: 1F1B by 0.001 % in the mean and 0.3 % at most,
/// interleaved by 0.4 % and 7 %, zero-bubble by 1.2 % and 6 %, and up to 1 % above where an end is
/// short, in chunks by 0.3 % and 4 %, of like stages not at all; the others are off by 0.7 % in the
/// mean and 4 % at most, either way. Preconditions: numbers of at least 1, times not negative,
/// micro-batches as `micro_batches_of` has them, stages even where the schedule runs both ways.
[[nodiscard]] constexpr duration pipeline_time(const stage_line& line, pipeline_schedule schedule) {
  return duration::from_value(detail::pipeline_time(detail::seconds_of(line), schedule));
}

/// Of it, what the busiest stage waits. Preconditions: as `pipeline_time`.
[[nodiscard]] constexpr duration pipeline_bubble(const stage_line& line,
                                                 pipeline_schedule schedule) {
  const detail::pipeline_seconds plain = detail::seconds_of(line);
  return duration::from_value(detail::pipeline_time(plain, schedule) - plain.work());
}

}  // namespace gpuplan

#pragma once

// What the planner's inner loop keeps of plans. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/time/step_line.hpp>

#include <compare>
#include <cstdint>

namespace gpuplan::detail {

// A layout on so many GPUs, and a micro-batch.
struct plan_group {
  std::int64_t gpus = 0;
  std::int64_t tensor = 1, context = 1, expert = 1;
  std::int64_t recompute = 0;
  std::int64_t layers = 0;  // recomputed of a chunk's, where that is chosen
  std::int64_t pipeline = 1, split = 0, chunks = 1;  // of `split_choices`
  std::int64_t zero = 0;
  std::int64_t sequence = 0;  // norms and residuals along it
  std::int64_t setup = 0;     // of the request
  std::int64_t micro_batch = 1;

  constexpr std::int64_t model_ranks() const { return tensor * context * pipeline; }
  constexpr std::int64_t data_parallel() const { return gpus / model_ranks(); }
  // But for how many layers are recomputed.
  constexpr bool same_layout(const plan_group& other) const {
    return recompute == other.recompute && same_degrees(other);
  }
  // Where that is chosen none is one of the numbers, of which one is the best.
  constexpr bool same_choice(const plan_group& other) const {
    const auto chooses = [](const plan_group& a, const plan_group& b) {
      return a.layers != 0 && static_cast<recompute_mode>(b.recompute) == recompute_mode::none;
    };
    return same_degrees(other) &&
           (recompute == other.recompute || chooses(*this, other) || chooses(other, *this));
  }
  constexpr bool same_degrees(const plan_group& other) const {
    return gpus == other.gpus && tensor == other.tensor && context == other.context &&
           expert == other.expert && pipeline == other.pipeline && split == other.split &&
           chunks == other.chunks && zero == other.zero && sequence == other.sequence &&
           setup == other.setup;
  }
  // Of plans as good, the one that is simpler comes first.
  friend constexpr auto operator<=>(const plan_group&,
                                    const plan_group&) = default;  // NOLINT(modernize-use-nullptr)
};

// Degrees to search; none where it ends before it starts.
struct degree_span {
  std::int64_t low = 1;
  std::int64_t high = 0;
};

// The accumulations that meet a request's effective batch: multiples of `unit`.
struct accumulations {
  std::int64_t low = 1;
  std::int64_t high = 0;
  std::int64_t unit = 1;

  constexpr std::int64_t count() const { return high < low ? 0 : (high - low) / unit + 1; }
  // Those of them that a space has.
  constexpr accumulations in(const known<range<std::int64_t>>& space) const {
    if (!space) return *this;
    const std::int64_t from = ceil_div(space->low(), unit) * unit;
    const std::int64_t to = space->high() / unit * unit;
    return {low < from ? from : low, high < to ? high : to, unit};
  }
};

// Of a schedule that goes through such numbers of micro-batches.
constexpr std::int64_t least_of(const micro_batch_rule& rule) {
  return ceil_div(rule.least, rule.multiple_of) * rule.multiple_of;
}
constexpr accumulations accumulations_for(const range<std::int64_t>& effective_batch,
                                          std::int64_t samples_at_once,
                                          const micro_batch_rule& rule) {
  const std::int64_t unit = rule.multiple_of;
  const std::int64_t each = samples_at_once * unit;
  const std::int64_t low = ceil_div(effective_batch.low(), each) * unit;
  const std::int64_t least = least_of(rule);
  return {low < least ? least : low, effective_batch.high() / each * unit, unit};
}

// A group, the accumulations that are left of it, and what none of its plans is below.
struct plan_candidate {
  double bound = 0;
  plan_group group{};
  accumulations allowed{};
  step_curve step{};               // seconds by its accumulation
  bool takes_more_layers = false;  // to recompute than its group has, with more time

  constexpr double per_sample(std::int64_t accumulation) const {
    return step(accumulation) /
           static_cast<double>(group.micro_batch * group.data_parallel() * accumulation);
  }

  friend constexpr bool operator<(const plan_candidate& a, const plan_candidate& b) {
    if (a.bound != b.bound) return a.bound < b.bound;
    return a.group != b.group ? a.group < b.group : a.allowed.high < b.allowed.high;
  }
};

// What a run may take, of its samples in whole steps, as `run_of` counts them.
class run_limits {
 public:
  constexpr explicit run_limits(const plan_request& request) : samples_(request.samples) {
    if (request.finish_in) time_ = request.finish_in->value();
    if (request.at_most) money_ = request.at_most->value();
    if (request.on.price_per_gpu) price_ = request.on.price_per_gpu->each.value();
  }

  constexpr bool are_met_by(const plan_candidate& candidate, std::int64_t accumulation) const {
    if (!are_there()) return true;
    const std::int64_t batch =
        candidate.group.micro_batch * candidate.group.data_parallel() * accumulation;
    return hold(candidate,
                static_cast<double>(ceil_div(samples_, batch)) * candidate.step(accumulation));
  }
  // Whether they would be met with the most accumulation if the last step could be a part of one.
  // The time of a sample falls with accumulation: if not, they are by no plan of the candidate.
  constexpr bool may_be_met_by(const plan_candidate& candidate) const {
    const double in_parts =
        static_cast<double>(samples_) * candidate.per_sample(candidate.allowed.high);
    return !are_there() || hold(candidate, in_parts * (1 - 1e-12));
  }
  // The most accumulation with which they are met, or 0; and the least.
  constexpr std::int64_t most_accumulation(const plan_candidate& candidate) const {
    for (std::int64_t many = candidate.allowed.high; many >= candidate.allowed.low;
         many -= candidate.allowed.unit)
      if (are_met_by(candidate, many)) return many;
    return 0;
  }
  constexpr std::int64_t least_accumulation(const plan_candidate& candidate) const {
    for (std::int64_t many = candidate.allowed.low; many <= candidate.allowed.high;
         many += candidate.allowed.unit)
      if (are_met_by(candidate, many)) return many;
    return 0;
  }

  constexpr bool are_there() const { return time_ < infinity || money_ < infinity; }

 private:
  std::int64_t samples_;
  double time_ = infinity;  // seconds
  double money_ = infinity;
  double price_ = 0;  // of a GPU and second

  constexpr bool hold(const plan_candidate& candidate, double run) const {
    if (run > time_) return false;
    return money_ == infinity || static_cast<double>(candidate.group.gpus) * run * price_ <= money_;
  }
};

// The lowest candidates, in order.
class candidate_list {
 public:
  static constexpr int capacity = 16;

  // At most so many.
  constexpr explicit candidate_list(int most = capacity) : most_(most) {}

  constexpr bool is_full() const { return count_ == most_; }
  constexpr int size() const { return count_; }
  constexpr const plan_candidate& operator[](int at) const { return list_[at]; }
  // What a candidate must be below to be kept.
  constexpr double limit() const { return is_full() ? list_[most_ - 1].bound : infinity; }
  constexpr void insert(const plan_candidate& candidate) {
    if (is_full() && !(candidate < list_[most_ - 1])) return;
    int at = is_full() ? most_ - 1 : count_++;
    for (; at > 0 && candidate < list_[at - 1]; --at) list_[at] = list_[at - 1];
    list_[at] = candidate;
  }

 private:
  plan_candidate list_[capacity]{};
  int most_;
  int count_ = 0;
};

struct plan_counts {
  std::int64_t evaluated = 0;  // plans whose time was worked out
  std::int64_t excluded = 0;   // by a bound
  std::int64_t refused = 0;    // of both: known to take too long or cost too much,
  std::int64_t endless = 0;    // or to take no finite time
};

}  // namespace gpuplan::detail

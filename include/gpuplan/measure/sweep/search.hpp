#pragma once

// Which micro-batches a sweep tries for one combination of its other settings, each chosen by how
// those before it ended.

#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/trial.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace gpuplan::measure {

/// Says the micro-batches of one combination one by one: `next()`, then `ended(...)` of it, until
/// there is none. Precondition: options that `validate` accepts, which outlive the search.
class batch_search {
 public:
  explicit batch_search(const sweep_options& options)
      : order_(options.order),
        batches_(options.micro_batches),
        limit_(options.largest_micro_batch),
        resolution_(options.resolution) {
    if (order_ != search_order::grid) next_ = batches_.front();
  }

  [[nodiscard]] std::optional<std::int64_t> next() const {
    if (order_ != search_order::grid) return next_;
    if (tried_ < batches_.size()) return batches_[tried_];
    return std::nullopt;
  }

  /// Whether the next one is larger than one that ran out of memory, so need not be tried.
  [[nodiscard]] bool next_is_skipped() const {
    return order_ == search_order::grid && next() && *next() >= ran_out_;
  }

  /// How the next one ended. Precondition: there is a next one.
  void ended(trial_outcome outcome) {
    const std::int64_t batch = *next();
    ++tried_;
    const bool ran = outcome == trial_outcome::ran;
    if (outcome == trial_outcome::out_of_memory && batch < ran_out_) ran_out_ = batch;
    if (ran && batch > largest_) largest_ = batch;
    if (order_ == search_order::grid) return;
    const bool ran_out = outcome == trial_outcome::out_of_memory;
    const bool ends_doubling = order_ == search_order::largest_that_fits
                                   ? !ran
                                   : ran_out || outcome == trial_outcome::out_of_time;
    if (!bisects_ && !ends_doubling) {
      next_ = doubled(batch, limit_);
      return;
    }
    next_.reset();
    if (order_ == search_order::doubling) return;
    // What took too long or failed need not do so again: no bound of what fits.
    if (!ran && !ran_out) return;
    bisects_ = true;
    const std::int64_t gap = ran_out_ - largest_;
    if (gap > resolution_) next_ = largest_ + gap / 2;
  }

  /// The largest that ran, 0 before one did.
  [[nodiscard]] std::int64_t largest() const { return largest_; }

  /// Never more trials than this, however they end: of a search for the largest that fits,
  /// the doublings until the first that does not, and a bisection of what they leave open.
  [[nodiscard]] static std::int64_t most_trials(const sweep_options& options) {
    if (options.order == search_order::grid)
      return static_cast<std::int64_t>(options.micro_batches.size());
    std::int64_t most = 0;
    std::int64_t doublings = 0;
    std::int64_t below = 0;
    for (std::optional<std::int64_t> batch = options.micro_batches.front(); batch;
         batch = doubled(below, options.largest_micro_batch)) {
      ++doublings;
      std::int64_t trials = doublings;
      if (options.order == search_order::largest_that_fits)
        for (std::int64_t gap = *batch - below; gap > options.resolution; gap = gap / 2 + gap % 2)
          ++trials;
      if (trials > most) most = trials;
      below = *batch;
    }
    return most;
  }

 private:
  search_order order_;
  std::span<const std::int64_t> batches_;
  std::int64_t limit_;
  std::int64_t resolution_;
  std::size_t tried_ = 0;
  std::optional<std::int64_t> next_{};  // of a search
  bool bisects_ = false;                // the doubling is over
  std::int64_t largest_ = 0;            // that ran
  // The smallest that ran out of memory.
  std::int64_t ran_out_ = std::numeric_limits<std::int64_t>::max();

  // Twice the batch, or the limit where that is less, which is tried too.
  static std::optional<std::int64_t> doubled(std::int64_t batch, std::int64_t limit) {
    if (batch >= limit) return std::nullopt;
    return batch > limit / 2 ? limit : 2 * batch;
  }
};

}  // namespace gpuplan::measure

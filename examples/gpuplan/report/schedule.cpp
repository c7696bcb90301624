#include "report/schedule.hpp"

#include <gpuplan/parallelism.hpp>
#include <gpuplan/time/pipeline.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace report_program {
namespace {

using gpuplan::pipeline_schedule;
using gpuplan::detail::pipeline_seconds;
using gpuplan::detail::stage_seconds;

class simulation {
 public:
  simulation(const pipeline_seconds& line, pipeline_schedule schedule)
      : line_(line),
        stages_(static_cast<int>(line.stages)),
        micro_batches_(static_cast<int>(line.micro_batches)),
        chunks_(static_cast<int>(line.chunks)),
        ends_(static_cast<std::size_t>(2 * micro_batches_ * stages_ * chunks_), not_yet) {
    orders_.reserve(static_cast<std::size_t>(stages_));
    for (int stage = 0; stage < stages_; ++stage)
      orders_.push_back(schedule == pipeline_schedule::gpipe ? all_forwards_first(stage)
                                                             : one_by_one(stage));
  }

  std::vector<pipeline_task> run() {
    std::vector<std::size_t> next(orders_.size(), 0);
    std::vector<double> free_at(orders_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < orders_.size(); ++stage)
        for (; next[stage] < orders_[stage].size(); ++next[stage]) {
          pipeline_task& task = orders_[stage][next[stage]];
          const double ready = ready_at(task);
          if (ready < 0) break;
          task.begin = std::max(ready, free_at[stage]);
          task.end = free_at[stage] = task.begin + seconds(task);
          end_of(task.is_forward, task.micro_batch, place(task)) = task.end;
          moved = true;
        }
    }
    std::vector<pipeline_task> all;
    for (const std::vector<pipeline_task>& order : orders_)
      all.insert(all.end(), order.begin(), order.end());
    return all;
  }

 private:
  static constexpr double not_yet = -1;

  // Along the way of a micro-batch through all chunks of all stages.
  [[nodiscard]] int place(const pipeline_task& task) const {
    return task.chunk * stages_ + task.stage;
  }
  double& end_of(bool is_forward, int micro_batch, int at) {
    const int row = (is_forward ? 0 : micro_batches_) + micro_batch;
    return ends_[static_cast<std::size_t>(row * stages_ * chunks_ + at)];
  }

  [[nodiscard]] std::vector<pipeline_task> all_forwards_first(int stage) const {
    std::vector<pipeline_task> order;
    for (const bool is_forward : {true, false})
      for (int at = 0; at < micro_batches_; ++at)
        order.push_back({.stage = stage, .micro_batch = at, .is_forward = is_forward});
    return order;
  }
  // Warm-up forwards, then one forward and one backward in turn, then the backwards that are left.
  [[nodiscard]] std::vector<pipeline_task> one_by_one(int stage) const {
    const int after = stages_ - 1 - stage;
    const int all = micro_batches_ * chunks_;
    const int warm_up = std::min(all, chunks_ == 1 ? after : 2 * after + (chunks_ - 1) * stages_);
    std::vector<pipeline_task> order;
    for (int at = 0; at < warm_up; ++at) order.push_back(nth(stage, true, at));
    for (int at = warm_up; at < all; ++at) {
      order.push_back(nth(stage, true, at));
      order.push_back(nth(stage, false, at - warm_up));
    }
    for (int at = all - warm_up; at < all; ++at) order.push_back(nth(stage, false, at));
    return order;
  }
  // Interleaved, passes go through the chunks in groups of as many micro-batches as there are
  // stages, and backwards from the last chunk.
  [[nodiscard]] pipeline_task nth(int stage, bool is_forward, int at) const {
    pipeline_task task{.stage = stage, .micro_batch = at, .is_forward = is_forward};
    if (chunks_ == 1) return task;
    const int group = stages_ * chunks_;
    const int chunk = at % group / stages_;
    task.chunk = is_forward ? chunk : chunks_ - 1 - chunk;
    task.micro_batch = at / group * stages_ + at % stages_;
    return task;
  }

  [[nodiscard]] double ready_at(const pipeline_task& task) {
    const int last = stages_ * chunks_ - 1;
    const int at = place(task);
    const auto sent = [&](double end) { return end < 0 || stages_ == 1 ? end : end + line_.send; };
    if (task.is_forward) return at == 0 ? 0 : sent(end_of(true, task.micro_batch, at - 1));
    const double own = end_of(true, task.micro_batch, at);
    if (at == last || own < 0) return own;
    const double next = sent(end_of(false, task.micro_batch, at + 1));
    return next < 0 ? next : std::max(own, next);
  }
  [[nodiscard]] double seconds(const pipeline_task& task) const {
    const auto pass = task.is_forward ? &stage_seconds::forward : &stage_seconds::backward;
    const double whole = line_.stage(task.stage).*pass;
    if (chunks_ == 1 || stages_ == 1) return whole / chunks_;
    const double plain = line_.middle.*pass / chunks_;
    const bool has_end = (task.stage == 0 && task.chunk == 0) ||
                         (task.stage == stages_ - 1 && task.chunk == chunks_ - 1);
    return has_end ? plain + whole - line_.middle.*pass : plain;
  }

  const pipeline_seconds& line_;
  int stages_;
  int micro_batches_;
  int chunks_;
  std::vector<double> ends_;
  std::vector<std::vector<pipeline_task>> orders_{};
};

}  // namespace

std::vector<pipeline_task> tasks_of(const pipeline_seconds& line, pipeline_schedule schedule) {
  return simulation(line, schedule).run();
}

}  // namespace report_program

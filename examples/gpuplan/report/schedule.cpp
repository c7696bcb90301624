#include "report/schedule.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/sharding/pass_order.hpp>
#include <gpuplan/time/pipeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace report_program {
namespace {

using gpuplan::parallelism;
using gpuplan::pipeline_schedule;
using gpuplan::schedule_traits;
using gpuplan::detail::pipeline_seconds;
using gpuplan::detail::stage_seconds;
using gpuplan::eager::pass_kind;

class simulation {
 public:
  simulation(const pipeline_seconds& line, pipeline_schedule schedule)
      : line_(line), by_(traits_of(schedule)) {
    layout_.pipeline_parallel = line.stages;
    layout_.virtual_pipeline = by_.folds ? 2 : line.chunks;
    layout_.schedule = schedule;
    places_ = static_cast<std::size_t>(chunks_in_all(layout_));
    micro_batches_ = static_cast<std::size_t>(line.micro_batches);
    ends_.assign(2 * places_ * micro_batches_, not_yet);
    for (std::int64_t stage = 0; stage < line.stages; ++stage) {
      std::vector<pipeline_task>& order = orders_.emplace_back();
      const gpuplan::eager::pass_order passes(layout_, stage, line.micro_batches);
      for (int at = 0; at < passes.size(); ++at) {
        const gpuplan::eager::stage_pass& one = passes[at];
        // Of two directions each has half of the micro-batches.
        const std::int64_t first = by_.runs_both_ways ? one.chunk * line.micro_batches / 2 : 0;
        order.push_back({.stage = static_cast<int>(stage),
                         .micro_batch = static_cast<int>(first + one.micro_batch),
                         .chunk = one.chunk,
                         .what = one.what});
      }
    }
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
          if (task.what != pass_kind::of_weights)
            end_of(task.what == pass_kind::forward, task.micro_batch, place(task)) = task.end;
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
  [[nodiscard]] std::size_t place(const pipeline_task& task) const {
    return static_cast<std::size_t>(place_of_chunk(layout_, task.stage, task.chunk));
  }
  double& end_of(bool is_forward, int micro_batch, std::size_t at) {
    const std::size_t row =
        (is_forward ? 0 : micro_batches_) + static_cast<std::size_t>(micro_batch);
    return ends_[row * places_ + at];
  }

  [[nodiscard]] double ready_at(const pipeline_task& task) {
    if (task.what == pass_kind::of_weights) return 0;  // its stage did the rest before
    const std::size_t at = place(task);
    const std::size_t last = places_ - 1;
    // What a pipeline that folds hands on at the fold stays on its rank.
    const auto sent = [&](double end, std::size_t first) {
      const bool stays = line_.stages == 1 || (by_.folds && first == last / 2);
      return end < 0 || stays ? end : end + line_.send;
    };
    if (task.what == pass_kind::forward)
      return at == 0 ? 0 : sent(end_of(true, task.micro_batch, at - 1), at - 1);
    const double own = end_of(true, task.micro_batch, at);
    if (at == last || own < 0) return own;
    const double next = sent(end_of(false, task.micro_batch, at + 1), at);
    return next < 0 ? next : std::max(own, next);
  }

  [[nodiscard]] double seconds(const pipeline_task& task) const {
    const auto of = [&](const stage_seconds& stage) {
      switch (task.what) {
        case pass_kind::forward:
          return stage.forward;
        case pass_kind::backward:
          return stage.backward;
        case pass_kind::of_input:
          return stage.backward - stage.weights;
        case pass_kind::of_weights:
          break;
      }
      return stage.weights;
    };
    const std::int64_t held = chunks_held(layout_);
    // A rank of two directions has two stages, and its time is their mean.
    const double chunks = by_.runs_both_ways ? 1 : static_cast<double>(held);
    const double mean = of(line_.stage(task.stage)) / chunks;
    const bool folded = by_.folds || by_.runs_both_ways;
    const bool has_end = task.stage == 0 || (!by_.folds && task.stage == line_.stages - 1);
    if (held == 1 || line_.stages == 1 || !has_end) return mean;
    const bool has_middle = !folded || line_.stages > (by_.runs_both_ways ? 3 : 2);
    const double plain = of(has_middle ? line_.middle : line_.last) / chunks;
    const std::size_t at = place(task);
    const bool is_end = at == places_ - 1 || (!folded && at == 0);
    return is_end ? mean * static_cast<double>(held) - plain * static_cast<double>(held - 1)
                  : plain;
  }

  const pipeline_seconds& line_;
  schedule_traits by_;
  parallelism layout_{};
  std::size_t places_ = 0;
  std::size_t micro_batches_ = 0;
  std::vector<double> ends_{};
  std::vector<std::vector<pipeline_task>> orders_{};
};

}  // namespace

std::vector<pipeline_task> tasks_of(const pipeline_seconds& line, pipeline_schedule schedule) {
  return simulation(line, schedule).run();
}

std::string mark_of(const parallelism& layout) {
  const schedule_traits by = traits_of(layout.schedule);
  if (by.runs_both_ways) return "from the last stage on";
  return layout.virtual_pipeline > 2 ? "odd chunks" : "second chunk";
}

std::vector<std::string> names_of_stages(const std::vector<pipeline_task>& tasks) {
  double end = 0;
  std::vector<double> work;
  for (const pipeline_task& one : tasks) {
    end = std::max(end, one.end);
    work.resize(static_cast<std::size_t>(one.stage) + 1);
    work.back() += one.end - one.begin;
  }
  std::vector<std::string> names;
  for (const double busy : work)
    names.push_back("stage " + std::to_string(names.size()) + ", waits " +
                    gpuplan::io::decimal(end > 0 ? 100 * (1 - busy / end) : 0, 0) + " %");
  return names;
}

}  // namespace report_program

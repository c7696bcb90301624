#pragma once

// What a rank does in a step of a pipeline whose stages are several of a rank's, or whose gradients
// of weights wait: passes, and what PyTorch puts between them. Private. From
// torch/distributed/pipelining/schedules.py of PyTorch 2.15.

#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/eager/tensor.hpp>
#include <gpuplan/replay/sharding/pass_order.hpp>

#include <cstdint>

namespace gpuplan::eager {

enum class stage_action_kind : unsigned char {
  gather,  // UNSHARD: a chunk's weights
  free,    // RESHARD
  pass,
  reduce,  // REDUCE_GRAD: a chunk's gradients, behind its last backward
  wait,    // WAIT_REDUCE_GRAD
  receive  // RECV_F or RECV_B: what the pass will read
};

struct stage_action {
  stage_action_kind what = stage_action_kind::pass;
  stage_pass pass{};  // or its chunk alone
};

/// The actions of one rank, in order, as _PipelineScheduleRuntime lowers a schedule with its
/// defaults: of the chunks that the next passes are of, three are gathered; a chunk is reduced
/// behind its last backward; a buffer is there as soon as the other rank sends, which a walk over
/// all ranks tells, one action of each in turn. Preconditions: those of `pass_order`.
class stage_actions {
 public:
  constexpr stage_actions(const parallelism& layout, std::int64_t stage, std::int64_t count)
      : layout_(layout), count_(count) {
    for (std::int64_t of = 0; of < layout.pipeline_parallel; ++of) {
      first_.push(all_.size());
      lower(pass_order(layout, of, count));
    }
    first_.push(all_.size());
    for (std::int64_t at = 0; at < chunks_in_all(layout) * count; ++at) {
      forwards_.push(false);
      backwards_.push(false);
    }
    walk(static_cast<int>(stage));
  }
  stage_actions(const stage_actions&) = delete;
  stage_actions& operator=(const stage_actions&) = delete;

  [[nodiscard]] constexpr int size() const { return own_.size(); }
  [[nodiscard]] constexpr const stage_action& operator[](int at) const { return own_[at]; }

 private:
  static constexpr int most_gathered = 3;  // max_active_stages

  // A rank's passes, with what is between them but what is received.
  constexpr void lower(const pass_order& order) {
    growing_array<int> last_of;  // passes, of each chunk
    for (std::int64_t chunk = 0; chunk < chunks_held(layout_); ++chunk) last_of.push(none);
    for (int at = 0; at < order.size(); ++at) last_of[order[at].chunk] = at;
    growing_array<int> gathered;
    const auto has = [](const growing_array<int>& some, int one) {
      for (int at = 0; at < some.size(); ++at)
        if (some[at] == one) return true;
      return false;
    };
    for (int at = 0; at < order.size(); ++at) {
      growing_array<int> wanted;
      int left = 0;  // chunks that still have passes
      for (int chunk = 0; chunk < last_of.size(); ++chunk) left += last_of[chunk] >= at ? 1 : 0;
      for (int next = at; wanted.size() < most_gathered && wanted.size() < left; ++next)
        if (!has(wanted, order[next].chunk)) wanted.push(order[next].chunk);
      int kept = 0;
      for (int which = 0; which < gathered.size(); ++which) {
        if (has(wanted, gathered[which]))
          gathered[kept++] = gathered[which];
        else
          add(stage_action_kind::free, gathered[which]);
      }
      gathered.resize_down(kept);
      for (int which = 0; which < wanted.size(); ++which) {
        if (has(gathered, wanted[which])) continue;
        gathered.push(wanted[which]);
        add(stage_action_kind::gather, wanted[which]);
      }
      const int first = at;
      all_.push({stage_action_kind::pass, order[at]});
      if (order[at].with_next) all_.push({stage_action_kind::pass, order[++at]});
      for (int done = first; done <= at; ++done) {
        if (last_of[order[done].chunk] != done) continue;
        add(stage_action_kind::reduce, order[done].chunk);
        add(stage_action_kind::wait, order[done].chunk);
      }
    }
    for (int which = 0; which < gathered.size(); ++which)
      add(stage_action_kind::free, gathered[which]);
  }
  constexpr void add(stage_action_kind what, int chunk) { all_.push({what, {.chunk = chunk}}); }

  [[nodiscard]] constexpr std::int64_t place_of(int rank, const stage_pass& pass) const {
    return place_of_chunk(layout_, rank, pass.chunk);
  }
  [[nodiscard]] constexpr int at(std::int64_t place, std::int64_t micro_batch) const {
    return static_cast<int>(place * count_ + micro_batch);
  }
  [[nodiscard]] constexpr bool can_run(int rank, const stage_action& action) const {
    if (action.what != stage_action_kind::pass) return true;
    const std::int64_t place = place_of(rank, action.pass);
    switch (action.pass.what) {
      case pass_kind::forward:
        return place == 0 || forwards_[at(place - 1, action.pass.micro_batch)];
      case pass_kind::backward:
      case pass_kind::of_input:
        return place == chunks_in_all(layout_) - 1 ||
               backwards_[at(place + 1, action.pass.micro_batch)];
      case pass_kind::of_weights:
        break;
    }
    return true;
  }
  // The chunk of a rank that has this place among all, or none.
  [[nodiscard]] constexpr int chunk_at(int rank, std::int64_t place) const {
    for (int chunk = 0; chunk < chunks_held(layout_); ++chunk)
      if (place_of_chunk(layout_, rank, chunk) == place) return chunk;
    return none;
  }

  // Passes that run beside each other wait for each other, and send behind both.
  constexpr void walk(int own) {
    growing_array<int> next;
    for (int rank = 0; rank + 1 < first_.size(); ++rank) next.push(first_[rank]);
    for (bool moves = true; moves && next[own] < first_[own + 1];) {
      moves = false;
      for (int rank = 0; rank < next.size(); ++rank) {
        const int from = next[rank];
        if (from == first_[rank + 1]) continue;
        const int to = from + (all_[from].pass.with_next ? 2 : 1);
        bool can = true;
        for (int which = from; which < to; ++which) can = can && can_run(rank, all_[which]);
        if (!can) continue;
        for (int which = from; which < to; ++which)
          if (rank == own) own_.push(all_[which]);
        for (int which = from; which < to; ++which) send(rank, all_[which], own);
        next[rank] = to;
        moves = true;
      }
    }
  }
  constexpr void send(int rank, const stage_action& action, int own) {
    if (action.what != stage_action_kind::pass || action.pass.what == pass_kind::of_weights) return;
    const bool forwards = action.pass.what == pass_kind::forward;
    const std::int64_t place = place_of(rank, action.pass);
    (forwards ? forwards_ : backwards_)[at(place, action.pass.micro_batch)] = true;
    // A rank hands on to itself.
    const int chunk = chunk_at(own, forwards ? place + 1 : place - 1);
    if (chunk == none || rank == own) return;
    own_.push({stage_action_kind::receive,
               {.what = forwards ? pass_kind::forward : pass_kind::backward,
                .chunk = chunk,
                .micro_batch = action.pass.micro_batch}});
  }

  const parallelism& layout_;
  std::int64_t count_;
  growing_array<stage_action> all_{};  // rank by rank
  growing_array<int> first_{};
  growing_array<bool> forwards_{};  // that are done, by place and micro-batch
  growing_array<bool> backwards_{};
  growing_array<stage_action> own_{};
};

}  // namespace gpuplan::eager

// The closed forms of pipelines beside an event simulation of their schedules: every forward and
// backward of every micro-batch starts when its stage is free, in the schedule's order, and what it
// needs has come.

#include <doctest/doctest.h>

#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/sharding/pass_order.hpp>
#include <gpuplan/time/pipeline.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

using namespace gpuplan;
using detail::pipeline_seconds;
using detail::stage_seconds;

namespace {

enum class pass { forward, backward, weights };

struct task {
  pass what;
  int micro_batch;
  int chunk;
};
using order = std::vector<task>;  // of one stage

struct chunk_seconds {
  double forward, backward, weights;
};

// A pipeline whose every chunk has times of its own.
struct simulated_pipeline {
  int stages;
  int micro_batches;
  int chunks;
  double send;
  std::vector<std::vector<chunk_seconds>> times;  // of each stage's chunks

  [[nodiscard]] double seconds(int stage, const task& one) const {
    const chunk_seconds& chunk =
        times[static_cast<std::size_t>(stage)][static_cast<std::size_t>(one.chunk)];
    switch (one.what) {
      case pass::forward:
        return chunk.forward;
      case pass::backward:
        return chunk.backward;
      default:
        return chunk.weights;
    }
  }
};

// A stage's backward without the gradients of the weights, where these are passes of their own.
simulated_pipeline simulate_as(const pipeline_seconds& line, bool weights_apart) {
  simulated_pipeline made{static_cast<int>(line.stages),
                          static_cast<int>(line.micro_batches),
                          static_cast<int>(line.chunks),
                          line.send,
                          {}};
  const auto chunk_of = [&](const stage_seconds& stage) {
    const double apart = weights_apart ? stage.weights : 0;
    return chunk_seconds{stage.forward, stage.backward - apart, apart};
  };
  for (int i = 0; i < made.stages; ++i) {
    const auto chunks = static_cast<double>(made.chunks);
    chunk_seconds plain = chunk_of(made.stages > 1 ? line.middle : line.first);
    plain = {plain.forward / chunks, plain.backward / chunks, plain.weights / chunks};
    auto& of_stage = made.times.emplace_back(static_cast<std::size_t>(made.chunks), plain);
    // What the ends take more: of the first stage's first chunk, of the last one's last.
    const chunk_seconds whole = chunk_of(line.stage(i));
    chunk_seconds& end = i == 0 ? of_stage.front() : of_stage.back();
    end.forward += whole.forward - chunks * plain.forward;
    end.backward += whole.backward - chunks * plain.backward;
    end.weights += whole.weights - chunks * plain.weights;
  }
  return made;
}

std::vector<order> gpipe_orders(const simulated_pipeline& line) {
  order one;
  for (int k = 0; k < line.micro_batches; ++k) one.push_back({pass::forward, k, 0});
  for (int k = 0; k < line.micro_batches; ++k) one.push_back({pass::backward, k, 0});
  return std::vector<order>(static_cast<std::size_t>(line.stages), one);
}

// Warm-up forwards, then one forward and one backward in turn, then the backwards that are left.
// Forwards go through the chunks in groups of as many micro-batches as there are stages; backwards
// likewise, from the last chunk.
std::vector<order> one_by_one_orders(const simulated_pipeline& line) {
  std::vector<order> orders;
  const int total = line.micro_batches * line.chunks;
  const auto nth = [&](pass what, int n) {
    if (line.chunks == 1) return task{what, n, 0};
    const int group = line.stages * line.chunks;
    const int chunk = n % group / line.stages;
    return task{what,
                n / group * line.stages + n % line.stages,
                what == pass::forward ? chunk : line.chunks - 1 - chunk};
  };
  for (int stage = 0; stage < line.stages; ++stage) {
    const int after = line.stages - 1 - stage;
    const int wanted = line.chunks == 1 ? after : 2 * after + (line.chunks - 1) * line.stages;
    const int warm_up = std::min(total, wanted);
    order& one = orders.emplace_back();
    for (int n = 0; n < warm_up; ++n) one.push_back(nth(pass::forward, n));
    for (int n = warm_up; n < total; ++n) {
      one.push_back(nth(pass::forward, n));
      one.push_back(nth(pass::backward, n - warm_up));
    }
    for (int n = total - warm_up; n < total; ++n) one.push_back(nth(pass::backward, n));
  }
  return orders;
}

// When each pass ended; negative before it did.
class pass_ends {
 public:
  explicit pass_ends(const simulated_pipeline& line)
      : line_(line),
        ends_(2 * static_cast<std::size_t>(line.micro_batches) *
                  static_cast<std::size_t>(line.stages * line.chunks),
              -1) {}

  double& operator()(pass what, int micro_batch, int place) {
    const int passes = line_.stages * line_.chunks;
    const int half = what == pass::forward ? 0 : 1;
    const int at = (half * line_.micro_batches + micro_batch) * passes + place;
    return ends_[static_cast<std::size_t>(at)];
  }
  // When a task's input is there; negative where that is not known yet.
  double ready(int stage, const task& one) {
    if (one.what == pass::weights) return 0;  // its stage did the rest before
    const int place = one.chunk * line_.stages + stage;
    const int last = line_.stages * line_.chunks - 1;
    const auto sent = [&](double end) {
      return end < 0 ? end : end + (line_.stages > 1 ? line_.send : 0);
    };
    if (one.what == pass::forward)
      return place == 0 ? 0 : sent((*this)(pass::forward, one.micro_batch, place - 1));
    const double own = (*this)(pass::forward, one.micro_batch, place);
    if (place == last || own < 0) return own;
    const double next = sent((*this)(pass::backward, one.micro_batch, place + 1));
    return next < 0 ? next : std::max(own, next);
  }

 private:
  const simulated_pipeline& line_;
  std::vector<double> ends_;
};

double simulate(const simulated_pipeline& line, const std::vector<order>& orders) {
  pass_ends ends(line);
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<double> free_at(orders.size(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      const int stage = static_cast<int>(i);
      for (; next[i] < orders[i].size(); ++next[i]) {
        const task& one = orders[i][next[i]];
        const double ready = ends.ready(stage, one);
        if (ready < 0) break;
        free_at[i] = std::max(ready, free_at[i]) + line.seconds(stage, one);
        if (one.what != pass::weights)
          ends(one.what, one.micro_batch, one.chunk * line.stages + stage) = free_at[i];
        moved = true;
      }
    }
  }
  for (std::size_t i = 0; i < orders.size(); ++i) REQUIRE(next[i] == orders[i].size());
  return *std::max_element(free_at.begin(), free_at.end());
}

// ScheduleInterleavedZeroBubble of torch/distributed/pipelining/schedules.py, in full rounds:
// forward and backward indices of a step, and gradients of weights once `stage` backwards are done.
order zero_bubble_order(int stages, int chunks, int stage, int count) {
  order made;
  std::vector<task> waiting;
  std::vector<int> forwards(static_cast<std::size_t>(chunks), 0);
  std::vector<int> backwards(static_cast<std::size_t>(chunks), 0);
  const int all = chunks * count;
  const int warm_up = std::min((chunks - 1) * stages + stages - 1 - stage, all);
  const auto forward = [&](int step) {
    const int chunk = step / stages % chunks;
    made.push_back({pass::forward, forwards[static_cast<std::size_t>(chunk)]++, chunk});
  };
  std::size_t done = 0;
  for (int step = 0; step < warm_up; ++step) forward(step);
  for (int step = warm_up; step < all + warm_up; ++step) {
    if (step < all) forward(step);
    const int chunk = chunks - 1 - (step - warm_up) / stages % chunks;
    const int which = backwards[static_cast<std::size_t>(chunk)]++;
    made.push_back({pass::backward, which, chunk});
    waiting.push_back({pass::weights, which, chunk});
    if (step - warm_up >= stage) made.push_back(waiting[done++]);
  }
  while (done < waiting.size()) made.push_back(waiting[done++]);
  return made;
}
std::vector<order> zero_bubble_orders(const simulated_pipeline& line) {
  std::vector<order> orders;
  for (int stage = 0; stage < line.stages; ++stage)
    orders.push_back(zero_bubble_order(line.stages, line.chunks, stage, line.micro_batches));
  return orders;
}

// ZB-H1 by a greedy rule: where the next pass would make a stage wait longer than `patience` times
// as long as the gradients of one micro-batch's weights take, or needs their memory, they are done.
class zero_bubble_simulation {
 public:
  zero_bubble_simulation(const simulated_pipeline& line, double patience)
      : line_(line), patience_(patience), orders_(one_by_one_orders(line)), ends_(line) {
    stages_.resize(orders_.size());
  }

  double run() {
    double end = 0;
    // The pass that can start first does, so what is not known yet starts later.
    for (;;) {
      choice best;
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        const choice one = next_of(i);
        if (one.start >= 0 && (best.start < 0 || one.start < best.start ||
                               (one.start == best.start && best.weights && !one.weights)))
          best = one;
      }
      if (best.start < 0) break;
      end = std::max(end, take(best));
    }
    for (std::size_t i = 0; i < stages_.size(); ++i)
      REQUIRE((stages_[i].next == orders_[i].size() && stages_[i].weights == line_.micro_batches));
    return end;
  }

 private:
  struct stage_state {
    std::size_t next = 0;
    int forwards = 0, backwards = 0, weights = 0;
    double free_at = 0;
  };
  struct choice {
    std::size_t stage = 0;
    double start = -1;
    bool weights = false;
  };

  choice next_of(std::size_t i) {
    const stage_state& now = stages_[i];
    const choice weights{i, now.weights < now.backwards ? now.free_at : -1, true};
    if (now.next == orders_[i].size()) return weights;
    const task& one = orders_[i][now.next];
    if (one.what == pass::forward && now.forwards - now.weights >= line_.stages) return weights;
    const double ready = ends_.ready(static_cast<int>(i), one);
    const double waits = patience_ * line_.times[i][0].weights;
    if (weights.start >= 0 && (ready < 0 || ready > now.free_at + waits)) return weights;
    return {i, ready < 0 ? ready : std::max(ready, now.free_at), false};
  }

  double take(const choice& chosen) {
    stage_state& now = stages_[chosen.stage];
    const int stage = static_cast<int>(chosen.stage);
    if (chosen.weights) {
      ++now.weights;
      return now.free_at = chosen.start + line_.seconds(stage, {pass::weights, 0, 0});
    }
    const task& one = orders_[chosen.stage][now.next++];
    ++(one.what == pass::forward ? now.forwards : now.backwards);
    now.free_at = chosen.start + line_.seconds(stage, one);
    return ends_(one.what, one.micro_batch, stage) = now.free_at;
  }

  const simulated_pipeline& line_;
  double patience_;
  std::vector<order> orders_;
  pass_ends ends_;
  std::vector<stage_state> stages_;
};

double simulate_zero_bubble(const simulated_pipeline& line) {
  double least = -1;
  for (const double patience : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double end = zero_bubble_simulation(line, patience).run();
    if (least < 0 || end < least) least = end;
  }
  return least;
}

// How far the closed form is below the simulation, over random pipelines.
struct distances {
  double mean = 0;   // of the simulated time
  double worst = 0;  // likewise
  double above = 0;  // the most by which it is above
};

struct settings {
  pipeline_schedule schedule;
  bool uneven;
  bool sends;
  bool chunks = false;
};

distances measure(const settings& wanted, int count) {
  std::mt19937 random(20260827);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const auto whole = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const bool apart = wanted.schedule == pipeline_schedule::zero_bubble;
  distances found;
  for (int i = 0; i < count; ++i) {
    pipeline_seconds line;
    line.stages = whole(1, 10);
    line.micro_batches = whole(1, 40);
    if (wanted.chunks) {
      line.stages = whole(2, 8);
      line.chunks = whole(2, 6);
      line.micro_batches = line.stages * whole(1, 6);
    }
    if (apart && !wanted.chunks) line.micro_batches = line.stages * whole(2, 6);
    const double weights = real(0.6, 1);
    const double backward = apart ? weights + real(0.9, 1.3) : real(1.5, 3);
    line.first = line.middle = line.last = {1, backward, weights};
    if (wanted.uneven) {
      const auto stretched = [&](double low, double high) {
        const double by = 1 + real(low, high) / static_cast<double>(line.chunks);
        return stage_seconds{by, by * backward, by * weights};
      };
      line.first = stretched(-0.4, 0.3);
      line.last = stretched(-0.5, 0.8);
    }
    if (wanted.sends) line.send = real(0, 0.2) / static_cast<double>(line.chunks);
    const simulated_pipeline simulated = simulate_as(line, apart);
    const auto in = [&](const std::vector<order>& orders) { return simulate(simulated, orders); };
    const double measured =
        apart ? wanted.chunks ? in(zero_bubble_orders(simulated)) : simulate_zero_bubble(simulated)
        : wanted.schedule == pipeline_schedule::gpipe ? in(gpipe_orders(simulated))
                                                      : in(one_by_one_orders(simulated));
    const double below = 1 - detail::pipeline_time(line, wanted.schedule) / measured;
    found.mean += below / count;
    found.worst = std::max(found.worst, below);
    found.above = std::max(found.above, -below);
  }
  return found;
}

void check_below(
    const settings& wanted, double mean, double worst, int count = 1000, double above = 1e-12) {
  const distances found = measure(wanted, count);
  INFO("mean ", found.mean, ", worst ", found.worst, ", above ", found.above);
  CHECK(found.above < above);
  CHECK(found.mean < mean);
  CHECK(found.worst < worst);
}

}  // namespace

TEST_CASE("GPipe is exact") {
  for (const bool uneven : {false, true})
    for (const bool sends : {false, true})
      check_below({pipeline_schedule::gpipe, uneven, sends}, 1e-12, 1e-12);
}

TEST_CASE("one forward, one backward is exact without sends") {
  check_below({pipeline_schedule::one_f_one_b, false, false}, 1e-12, 1e-12);
  check_below({pipeline_schedule::one_f_one_b, true, false}, 1e-12, 1e-12);
  check_below({pipeline_schedule::one_f_one_b, false, true}, 1e-12, 1e-12);
  check_below({pipeline_schedule::one_f_one_b, true, true}, 1e-5, 0.003);
}

TEST_CASE("interleaved is exact for like stages, else a bound") {
  check_below({pipeline_schedule::one_f_one_b, false, false, true}, 1e-12, 1e-12);
  check_below({pipeline_schedule::one_f_one_b, false, true, true}, 1e-12, 1e-12);
  check_below({pipeline_schedule::one_f_one_b, true, false, true}, 0.004, 0.07);
  check_below({pipeline_schedule::one_f_one_b, true, true, true}, 0.004, 0.07);
}

namespace {

// A pipeline whose stages have layers as a split says: each takes 1 forwards, the embedding
// nothing, the head so many layers' time. Each chunk takes what its layers take.
simulated_pipeline of_layers(
    const parallelism& layout, std::int64_t layers, int micro_batches, double head, double send) {
  simulated_pipeline made{static_cast<int>(layout.pipeline_parallel),
                          micro_batches,
                          static_cast<int>(layout.virtual_pipeline),
                          send,
                          {}};
  for (int stage = 0; stage < made.stages; ++stage) {
    auto& of_stage = made.times.emplace_back();
    for (int chunk = 0; chunk < made.chunks; ++chunk) {
      auto time = static_cast<double>(layers_of_chunk(layout, layers, stage, chunk).size());
      if (stage == made.stages - 1 && chunk == made.chunks - 1) time += head;
      of_stage.push_back({time, 2 * time, 0});
    }
  }
  return made;
}
// The line that stands for it, as in a step's time: its first stage, its last, and the longest of
// the others, which together take less than it by `slack`.
pipeline_seconds line_of(const simulated_pipeline& of, double& slack) {
  double all = 0;
  pipeline_seconds line{
      .stages = of.stages, .micro_batches = of.micro_batches, .chunks = of.chunks};
  line.send = of.send;
  for (int stage = 0; stage < of.stages; ++stage) {
    stage_seconds sum;
    for (const chunk_seconds& chunk : of.times[static_cast<std::size_t>(stage)]) {
      sum.forward += chunk.forward;
      sum.backward += chunk.backward;
    }
    if (stage == 0)
      line.first = sum;
    else if (stage == of.stages - 1)
      line.last = sum;
    else {
      all += sum.both();
      if (sum.forward > line.middle.forward) line.middle = sum;
    }
  }
  slack = (of.stages - 2) * line.middle.both() - all;
  return line;
}
// By how much the closed form is below the simulation.
double below(const parallelism& layout,
             std::int64_t layers,
             int micro_batches,
             double head = 0.7,
             double send = 0.02) {
  REQUIRE(validate(layout, layers));
  const simulated_pipeline all = of_layers(layout, layers, micro_batches, head, send);
  double slack = 0;
  const pipeline_seconds line = line_of(all, slack);
  const double found =
      detail::pipeline_time(line, pipeline_schedule::one_f_one_b) - slack / all.chunks;
  return 1 - found / simulate(all, one_by_one_orders(all));
}

}  // namespace

TEST_CASE("stages of unequal layers beside their simulation") {
  const pipeline_split ends{.embedding_layers = 1, .head_layers = 1};
  const auto split = [](std::int64_t stages, std::int64_t chunks, const pipeline_split& by) {
    parallelism layout;
    layout.pipeline_parallel = stages;
    layout.virtual_pipeline = chunks;
    layout.split = by;
    return layout;
  };
  // Llama 3.1 405B's 126 layers
  for (const int micro_batches : {16, 32, 128}) {
    for (const std::int64_t chunks : {1, 2, 4, 8}) {
      const double off = below(split(16, chunks, ends), 126, micro_batches);
      CHECK(std::abs(off) < (chunks == 1 ? 1e-12 : 0.01));
    }
    // A last stage of fewer layers: interleaved, each chunk of it is shorter
    for (const std::int64_t chunks : {1, 2}) {
      const double off = below(split(16, chunks, {.last_stage_layers = 2}), 62, micro_batches, 0.7);
      CHECK(std::abs(off) < (chunks == 1 ? 1e-12 : 0.005));
    }
    const double dealt =
        below(split(8, 1, {.embedding_layers = 1, .head_layers = 1, .first_have_more = true}),
              32,
              micro_batches);
    CHECK(std::abs(dealt) < 0.06);  // the longest stage stands for all between the ends
  }
}

TEST_CASE("zero-bubble is exact for like stages without sends, else near") {
  check_below({pipeline_schedule::zero_bubble, false, false}, 1e-12, 1e-12, 300);
  check_below({pipeline_schedule::zero_bubble, false, true}, 0.012, 0.06, 300);
  check_below({pipeline_schedule::zero_bubble, true, true}, 0.006, 0.06, 300, 0.01);
}

TEST_CASE("zero-bubble of several chunks is exact for like stages, else a bound") {
  check_below({pipeline_schedule::zero_bubble, false, false, true}, 1e-12, 1e-12);
  check_below({pipeline_schedule::zero_bubble, false, true, true}, 1e-12, 1e-12);
  check_below({pipeline_schedule::zero_bubble, true, false, true}, 0.001, 0.022);
  check_below({pipeline_schedule::zero_bubble, true, true, true}, 0.003, 0.04);
}

TEST_CASE("a longer pass or send never makes a pipeline faster") {
  std::mt19937 random(20260828);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const auto whole = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (const auto schedule : {pipeline_schedule::gpipe,
                              pipeline_schedule::one_f_one_b,
                              pipeline_schedule::zero_bubble,
                              pipeline_schedule::zero_bubble_v,
                              pipeline_schedule::dual_pipe,
                              pipeline_schedule::dual_pipe_v})
    for (int i = 0; i < 2000; ++i) {
      const schedule_traits traits = traits_of(schedule);
      const bool fills = traits.folds || traits.runs_both_ways;
      pipeline_seconds line;
      line.stages = fills ? 2 * whole(1, 4) : whole(1, 8);
      line.chunks = traits.folds ? 2 : traits.interleaves ? whole(1, 4) : 1;
      line.micro_batches = (fills ? 2 : 1) * line.stages * whole(1, 5);
      line.middle = {1, real(1.3, 2.4), real(0.5, 1)};
      const auto stretched = [&] {
        const double by = 1 + real(-0.4, 0.5) / static_cast<double>(line.chunks);
        return stage_seconds{by, by * line.middle.backward, by * line.middle.weights};
      };
      line.first = stretched();
      line.last = stretched();
      line.send = real(0, 0.1);
      pipeline_seconds longer = line;
      const double by = real(0, 0.3);
      const bool layers = whole(0, 1) == 1;  // of all stages
      const auto which = whole(0, 4);
      const auto pass = which % 2 == 0 ? &stage_seconds::forward : &stage_seconds::backward;
      if (which == 4) longer.send += by;
      if (which < 4 && (layers || which < 2)) longer.first.*pass += by;
      if (which < 4 && (layers || which >= 2)) longer.last.*pass += by;
      if (which < 4 && layers) longer.middle.*pass += by;
      CHECK(detail::pipeline_time(longer, schedule) >=
            detail::pipeline_time(line, schedule) * (1 - 1e-12));
    }
}

namespace {

// -- schedules of two chunks of a rank, whose gradients of weights are passes of their own

// ScheduleZBVZeroBubble of torch/distributed/pipelining/schedules.py: warm-up, stable phase and
// cool-down.
order zero_bubble_v_order(int ranks, int rank, int count) {
  order made;
  int forwards[2] = {0, 0};
  int backwards[2] = {0, 0};
  int weights[2] = {0, 0};
  const auto f = [&](int chunk) { made.push_back({pass::forward, forwards[chunk]++, chunk}); };
  const auto b = [&](int chunk) { made.push_back({pass::backward, backwards[chunk]++, chunk}); };
  const auto w = [&](int chunk) { made.push_back({pass::weights, weights[chunk]++, chunk}); };
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) f(0);
  for (int i = 0; i < rank; ++i) f(1), f(0);
  for (int i = 0; i < ranks - rank; ++i) f(1), b(1), w(1);
  while (forwards[1] < forwards[0] || forwards[0] < count) {
    if (forwards[0] < count) f(0);
    b(0), w(0), f(1), b(1), w(1);
  }
  for (int i = 0; i < rank; ++i) b(0), b(1);
  for (int i = 0; i < ranks - rank; ++i) b(0), w(0);
  while (weights[1] < backwards[1]) w(1);
  while (weights[0] < backwards[0]) w(0);
  return made;
}
// DualPipe.step of deepseek-ai/DualPipe, of `ranks` in one half: a whole backward is two passes.
order dual_order(int ranks, int rank, int count, bool is_second_half = false) {
  order made;
  int forwards[2] = {0, 0};
  int backwards[2] = {0, 0};
  std::vector<task> waiting;
  std::size_t done = 0;
  const auto f = [&](int phase) {
    const int chunk = is_second_half ? 1 - phase : phase;
    made.push_back({pass::forward, forwards[chunk]++, chunk});
  };
  const auto w = [&] { made.push_back(waiting[done++]); };
  const auto b = [&](int phase, bool zero_bubble) {
    const int chunk = is_second_half ? 1 - phase : phase;
    const int which = backwards[chunk]++;
    made.push_back({pass::backward, which, chunk});
    const task rest{pass::weights, which, chunk};
    if (zero_bubble)
      waiting.push_back(rest);
    else
      made.push_back(rest);
  };
  const int behind = ranks - rank - 1;
  for (int i = 0; i < 2 * behind; ++i) f(0);
  for (int i = 0; i < rank + 1; ++i) f(0), f(1);
  for (int i = 0; i < behind; ++i) b(1, true), w(), f(1);
  for (int i = 0; i < count - 2 * ranks + rank + 1; ++i) f(0), b(1, false), f(1), b(0, false);
  for (int i = 0; i < behind; ++i) b(1, false), f(1), b(0, false);
  bool zero_bubble = false;
  const int last = rank + 1;
  for (int i = 0; i < last; ++i) {
    if (i == last / 2 && rank % 2 == 1) zero_bubble = true;
    b(1, zero_bubble);
    if (i == last / 2 && rank % 2 == 0) zero_bubble = true;
    b(0, zero_bubble);
  }
  for (int i = 0; i < behind; ++i) w(), b(0, true);
  for (int i = 0; i < last; ++i) w();
  return made;
}
order order_of(pipeline_schedule schedule, int ranks, int rank, int count, int chunks = 1) {
  switch (schedule) {
    case pipeline_schedule::zero_bubble:
      return zero_bubble_order(ranks, chunks, rank, count);
    case pipeline_schedule::zero_bubble_v:
      return zero_bubble_v_order(ranks, rank, count);
    case pipeline_schedule::dual_pipe: {
      const bool is_second = rank >= ranks / 2;
      return dual_order(ranks / 2, is_second ? ranks - 1 - rank : rank, count / 2, is_second);
    }
    default:
      return dual_order(ranks, rank, count);
  }
}

constexpr pipeline_schedule two_chunked[] = {
    pipeline_schedule::zero_bubble_v, pipeline_schedule::dual_pipe, pipeline_schedule::dual_pipe_v};
parallelism layout_of(pipeline_schedule schedule, int ranks) {
  parallelism layout;
  layout.pipeline_parallel = ranks;
  layout.schedule = schedule;
  layout.virtual_pipeline = traits_of(schedule).folds ? 2 : 1;
  return layout;
}

// A pass starts when its rank is free and what it needs has come: places are the model's chunks one
// behind the other, and each direction has its own.
double simulate_places(const parallelism& layout,
                       int count,
                       const std::vector<chunk_seconds>& places,
                       double send) {
  const auto ranks = static_cast<int>(layout.pipeline_parallel);
  const auto last = static_cast<int>(places.size()) - 1;
  const bool both = traits_of(layout.schedule).runs_both_ways;
  const auto at = [&](int direction, int what, int place, int micro_batch) {
    return ((static_cast<std::size_t>(direction) * 2 + static_cast<std::size_t>(what)) *
                places.size() +
            static_cast<std::size_t>(place)) *
               static_cast<std::size_t>(count) +
           static_cast<std::size_t>(micro_batch);
  };
  std::vector<double> ends(at(2, 0, 0, 0), -1);
  std::vector<int> rank_of(2 * places.size());
  std::vector<order> orders;
  for (int rank = 0; rank < ranks; ++rank) {
    orders.push_back(order_of(layout.schedule, ranks, rank, count));
    for (int chunk = 0; chunk < 2; ++chunk) {
      const auto place = static_cast<std::size_t>(place_of_chunk(layout, rank, chunk));
      rank_of[(both && chunk == 1 ? places.size() : 0) + place] = rank;
    }
  }
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<double> free_at(orders.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (; next[r] < orders[r].size(); ++next[r]) {
        const task& one = orders[r][next[r]];
        const int direction = both ? one.chunk : 0;
        const auto place = static_cast<int>(place_of_chunk(layout, rank, one.chunk));
        const chunk_seconds& takes = places[static_cast<std::size_t>(place)];
        const auto sent = [&](int what, int from) {
          const double end = ends[at(direction, what, from, one.micro_batch)];
          const bool is_here = rank_of[static_cast<std::size_t>(direction) * places.size() +
                                       static_cast<std::size_t>(from)] == rank;
          return end < 0 || is_here ? end : end + send;
        };
        double ready = 0;
        if (one.what == pass::forward && place > 0) ready = sent(0, place - 1);
        if (one.what == pass::backward) {
          const double own = ends[at(direction, 0, place, one.micro_batch)];
          const double behind = place == last ? own : sent(1, place + 1);
          ready = own < 0 || behind < 0 ? -1 : std::max(own, behind);
        }
        if (ready < 0) break;
        free_at[r] = std::max(ready, free_at[r]) + (one.what == pass::forward    ? takes.forward
                                                    : one.what == pass::backward ? takes.backward
                                                                                 : takes.weights);
        if (one.what != pass::weights)
          ends[at(direction, one.what == pass::forward ? 0 : 1, place, one.micro_batch)] =
              free_at[r];
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < orders.size(); ++r) REQUIRE(next[r] == orders[r].size());
  return *std::max_element(free_at.begin(), free_at.end());
}

// How many micro-batches of a chunk are on their way at most, until their backward.
int most_on_their_way(const order& passes) {
  int now = 0;
  int most = 0;
  for (const task& one : passes) {
    if (one.what == pass::forward) most = std::max(most, ++now);
    if (one.what == pass::backward) --now;
  }
  return most;
}

}  // namespace

TEST_CASE("the replay does passes in the order of PyTorch and of DeepSeek") {
  for (const auto schedule : {pipeline_schedule::zero_bubble,
                              pipeline_schedule::zero_bubble_v,
                              pipeline_schedule::dual_pipe,
                              pipeline_schedule::dual_pipe_v})
    for (int run = 0; run < 16; ++run) {
      const int ranks = 2 * (1 + run % 4);
      const int chunks = 1 + run / 4;
      parallelism layout = layout_of(schedule, ranks);
      if (chunks > 1 && !traits_of(schedule).interleaves) continue;
      if (chunks > 1) layout.virtual_pipeline = chunks;
      const int least = chunks > 1 ? ranks : 2 * ranks;
      for (int count = least; count <= 4 * ranks; count += chunks > 1 ? ranks : 2)
        for (int rank = 0; rank < ranks; ++rank) {
          const order wanted = order_of(schedule, ranks, rank, count, chunks);
          const eager::pass_order made(layout, rank, count);
          std::size_t at = 0;
          for (int i = 0; i < made.size(); ++i) {
            const eager::stage_pass& one = made[i];
            const auto is = [&](pass what) {
              REQUIRE(at < wanted.size());
              const task& next = wanted[at++];
              CHECK(next.what == what);
              CHECK(next.chunk == one.chunk);
              CHECK(next.micro_batch == one.micro_batch);
            };
            if (one.what == eager::pass_kind::forward) is(pass::forward);
            if (one.what == eager::pass_kind::of_weights) is(pass::weights);
            if (one.what == eager::pass_kind::of_input || one.what == eager::pass_kind::backward)
              is(pass::backward);
            if (one.what == eager::pass_kind::backward) is(pass::weights);
          }
          CHECK(at == wanted.size());
        }
    }
}

TEST_CASE("as many micro-batches are on their way as the papers say") {
  for (int ranks = 2; ranks <= 8; ranks += 2)
    for (int rank = 0; rank < ranks; ++rank) {
      const int count = 4 * ranks;
      const auto most = [&](pipeline_schedule schedule) {
        return most_on_their_way(order_of(schedule, ranks, rank, count));
      };
      CHECK(most(pipeline_schedule::zero_bubble_v) == 2 * ranks);  // of half a stage
      CHECK(most(pipeline_schedule::dual_pipe) == ranks + 1);
      CHECK(most(pipeline_schedule::dual_pipe_v) == 2 * ranks + 1);
      CHECK(most(pipeline_schedule::zero_bubble) == ranks - rank);
      for (int chunks = 2; chunks <= 4; ++chunks)
        CHECK(most_on_their_way(zero_bubble_order(ranks, chunks, rank, count)) ==
              chunks * ranks - rank);
    }
}

TEST_CASE("folded pipelines, and those that run both ways, are near their simulation") {
  std::mt19937 random(20261127);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const auto whole = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (const pipeline_schedule schedule : two_chunked)
    for (const bool uneven : {false, true})
      for (const bool sends : {false, true}) {
        double mean = 0;
        double worst = 0;
        const int runs = 400;
        for (int i = 0; i < runs; ++i) {
          const bool both = traits_of(schedule).runs_both_ways;
          const int ranks = both ? 2 * whole(1, 5) : whole(2, 8);
          const parallelism layout = layout_of(schedule, ranks);
          const int count = 2 * ranks + 2 * whole(0, 2 * ranks);
          const double weights = real(0.6, 1);
          const chunk_seconds plain{1, real(0.9, 1.3), weights};
          const auto stretched = [&](double by) {
            return chunk_seconds{by * plain.forward, by * plain.backward, by * plain.weights};
          };
          std::vector<chunk_seconds> places(static_cast<std::size_t>(both ? ranks : 2 * ranks),
                                            plain);
          if (uneven) {
            places.front() = stretched(1 + real(-0.1, 0.1));
            places.back() = stretched(1 + real(-0.3, 1.2));
          }
          const double send = sends ? real(0, 0.1) : 0;
          const auto sum = [&](std::initializer_list<chunk_seconds> of, double share) {
            stage_seconds made;
            for (const chunk_seconds& one : of) {
              made.forward += share * one.forward;
              made.backward += share * (one.backward + one.weights);
              made.weights += share * one.weights;
            }
            return made;
          };
          pipeline_seconds line;
          line.stages = ranks;
          line.micro_batches = count;
          line.chunks = layout.virtual_pipeline;
          line.send = send;
          const double share = both ? 0.5 : 1;
          line.first = sum({places.front(), places.back()}, share);
          line.middle = sum({plain, plain}, share);
          line.last = both ? line.first : line.middle;
          const double simulated = simulate_places(layout, count, places, send);
          const double off = std::abs(1 - detail::pipeline_time(line, schedule) / simulated);
          mean += off / runs;
          worst = std::max(worst, off);
        }
        INFO("schedule ", static_cast<int>(schedule), ", mean ", mean, ", worst ", worst);
        CHECK(mean < 0.007);
        CHECK(worst < 0.04);
      }
}

// What replaying a list of allocations and frees costs, per event.

#include <benchmark/benchmark.h>

#include <gpuplan/replay/caching_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

using namespace gpuplan;

namespace {

// An allocation of `bytes` into a slot, or for 0 bytes the release of what the slot holds.
struct event {
  std::int64_t bytes = 0;
  std::size_t slot = 0;
};

struct event_list {
  std::vector<event> events{};
  std::size_t slots = 0;

  std::size_t add(std::int64_t bytes) {
    events.push_back({.bytes = bytes, .slot = slots});
    return slots++;
  }
  void remove(std::size_t slot) { events.push_back({.slot = slot}); }
  void pass_through(std::int64_t bytes) { remove(add(bytes)); }
};

// Two steps of blocks that are alike: weights and states stay, a forward keeps ten tensors of a
// block, a backward makes gradients and frees what was kept in reverse order.
event_list training_steps(int layers, std::int64_t tokens, std::int64_t hidden) {
  const std::int64_t activation = tokens * hidden * 2;
  const std::int64_t wide = tokens * hidden * 7;
  const std::int64_t square = hidden * hidden * 4;
  const std::int64_t oblong = hidden * hidden * 14;
  const std::int64_t workspace = std::int64_t{32} << 20;
  const std::vector<std::int64_t> weights{
      square, square / 4, square / 4, square, oblong, oblong, oblong, hidden * 4, hidden * 4};
  const std::vector<std::int64_t> kept{activation,
                                       tokens * 4,
                                       activation,
                                       activation / 4,
                                       activation / 4,
                                       activation,
                                       tokens * 128,
                                       activation,
                                       tokens * 4,
                                       activation,
                                       wide,
                                       wide,
                                       wide,
                                       wide};
  event_list list;
  for (int layer = 0; layer < layers; ++layer)
    for (const std::int64_t weight : weights) list.add(weight);

  for (int step = 0; step < 2; ++step) {
    std::vector<std::vector<std::size_t>> saved;
    for (int layer = 0; layer < layers; ++layer) {
      saved.emplace_back();
      for (const std::int64_t bytes : kept) {
        const std::size_t before = list.add(bytes);
        list.pass_through(workspace);
        saved.back().push_back(list.add(bytes));
        list.pass_through(bytes / 2);
        list.remove(before);
      }
    }
    std::vector<std::size_t> gradients;
    std::size_t flowing = list.add(activation);
    for (int layer = layers; layer-- > 0;) {
      for (std::size_t i = kept.size(); i-- > 0;) {
        const std::size_t gradient = list.add(kept[i]);
        list.pass_through(workspace);
        if (i < weights.size()) gradients.push_back(list.add(weights[i]));
        const std::size_t next = list.add(activation);
        list.remove(flowing);
        list.remove(gradient);
        list.remove(saved[static_cast<std::size_t>(layer)][i]);
        flowing = next;
      }
    }
    list.remove(flowing);
    if (step == 0) {
      for (int layer = 0; layer < layers; ++layer)
        for (const std::int64_t weight : weights) list.add(weight), list.add(weight);
    }
    for (const std::size_t gradient : gradients) list.remove(gradient);
  }
  return list;
}

// 1000 slots that are filled and emptied at random with sizes from 1 byte to 1 GiB.
event_list random_calls() {
  event_list list;
  list.slots = 1000;
  std::vector<bool> full(list.slots);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t slot = random() % list.slots;
    const auto bytes = static_cast<std::int64_t>(random() >> (34 + random() % 30));
    list.events.push_back({.bytes = full[slot] ? 0 : bytes + 1, .slot = slot});
    full[slot] = !full[slot];
  }
  return list;
}

void replay(benchmark::State& state, const event_list& list) {
  std::vector<int> handles(list.slots);
  for (auto _ : state) {
    caching_allocator allocator;
    for (const event& e : list.events) {
      if (e.bytes > 0) {
        handles[e.slot] = allocator.allocate(e.bytes);
      } else {
        allocator.release(handles[e.slot]);
      }
    }
    benchmark::DoNotOptimize(allocator.peak());
  }
  const auto events = static_cast<double>(list.events.size());
  state.counters["events"] = events;
  state.counters["per_event"] = benchmark::Counter(
      events, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Tensors that share segments, and tensors that each have one.
void allocator_steps_of_32_small_blocks(benchmark::State& state) {
  replay(state, training_steps(32, 2048, 1024));
}
BENCHMARK(allocator_steps_of_32_small_blocks)->Unit(benchmark::kMicrosecond);

void allocator_steps_of_126_large_blocks(benchmark::State& state) {
  replay(state, training_steps(126, 8192, 16384));
}
BENCHMARK(allocator_steps_of_126_large_blocks)->Unit(benchmark::kMicrosecond);

void allocator_random_calls(benchmark::State& state) { replay(state, random_calls()); }
BENCHMARK(allocator_random_calls)->Unit(benchmark::kMicrosecond);

}  // namespace

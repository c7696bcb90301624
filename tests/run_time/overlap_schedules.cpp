// The closed forms of kernels beside collectives, next to a simulation of two streams: each does
// its jobs in order, a job waits for those it names, and both go on at 1 / (1 + contention) where
// both have something to do.

#include <doctest/doctest.h>

#include <gpuplan/time/overlap.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

using namespace gpuplan;

namespace {

struct job {
  double seconds;
  int waits_for = -1;  // which job of the other stream; -1: none
};

struct two_streams {
  std::vector<job> kernels{};
  std::vector<job> exchanges{};

  [[nodiscard]] double run(double contention) const {
    const std::vector<job>* const streams[2] = {&kernels, &exchanges};
    std::size_t done[2] = {0, 0};
    double left[2] = {0, 0};
    bool began[2] = {false, false};
    double now = 0;
    for (;;) {
      bool runs[2];
      for (std::size_t i = 0; i < 2; ++i) {
        runs[i] = done[i] < streams[i]->size();
        if (!runs[i]) continue;
        const job& one = (*streams[i])[done[i]];
        runs[i] = one.waits_for < static_cast<int>(done[1 - i]);
        if (runs[i] && !began[i]) {
          began[i] = true;
          left[i] = one.seconds;
        }
      }
      if (!runs[0] && !runs[1]) break;
      bool ended = false;
      for (std::size_t i = 0; i < 2; ++i)
        if (runs[i] && left[i] < 1e-13) {
          ++done[i];
          began[i] = false;
          ended = true;
        }
      if (ended) continue;
      const double rate = runs[0] && runs[1] ? 1 / (1 + contention) : 1;
      double step = runs[0] ? left[0] : left[1];
      if (runs[0] && runs[1]) step = std::min(left[0], left[1]);
      for (std::size_t i = 0; i < 2; ++i)
        if (runs[i]) left[i] -= step;
      now += step / rate;
    }
    REQUIRE((done[0] == kernels.size() && done[1] == exchanges.size()));
    return now;
  }
};

duration seconds(double value) { return duration::from_value(value); }

class random_numbers {
 public:
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine_);
  }
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

 private:
  std::mt19937 engine_{20260827};
};

}  // namespace

TEST_CASE("buckets of gradients beside the backward pass") {
  random_numbers random;
  for (int i = 0; i < 2000; ++i) {
    bucketed_backward given{.buckets = random.whole(1, 30),
                            .backward = seconds(random.real(0.1, 2)),
                            .communication = seconds(random.real(0, 3)),
                            .contention = random.real(0, 1)};
    given.last_backward = given.backward * random.real(0, 1);
    given.last_communication = given.communication * random.real(0, 1);
    two_streams streams;
    for (int k = 0; k < given.buckets; ++k) {
      const bool last = k == given.buckets - 1;
      streams.kernels.push_back({(last ? given.last_backward : given.backward).value()});
      streams.exchanges.push_back(
          {(last ? given.last_communication : given.communication).value(), k});
    }
    CHECK(overlapped_time(given).value() ==
          doctest::Approx(streams.run(given.contention)).epsilon(1e-11));
  }
}

TEST_CASE("weights gathered and gradients reduced beside a pass") {
  random_numbers random;
  for (int i = 0; i < 2000; ++i) {
    const bool backward = random.whole(0, 1) == 1;
    const sharded_layers given{.layers = random.whole(1, 30),
                               .kernels = seconds(random.real(0.1, 3)),
                               .gather = seconds(random.real(0, 2)),
                               .reduce = seconds(backward ? random.real(0, 2) : 0),
                               .contention = random.real(0, 1),
                               .first_is_there = random.whole(0, 1) == 1};
    // Two gathers; then, when a layer has run, its reduction and the gather of the next but one.
    two_streams streams;
    std::vector<int> gathers;
    const auto gather = [&](int layer, int after) {
      gathers.push_back(static_cast<int>(streams.exchanges.size()));
      const bool is_there = layer == 0 && given.first_is_there;
      streams.exchanges.push_back({is_there ? 0 : given.gather.value(), after});
    };
    for (int layer = 0; layer < std::min<std::int64_t>(2, given.layers); ++layer) gather(layer, -1);
    for (int layer = 0; layer < given.layers; ++layer) {
      streams.kernels.push_back({given.kernels.value(), gathers[static_cast<std::size_t>(layer)]});
      streams.exchanges.push_back({given.reduce.value(), layer});
      if (layer + 2 < given.layers) gather(layer + 2, layer);
    }
    CHECK(overlapped_time(given).value() ==
          doctest::Approx(streams.run(given.contention)).epsilon(1e-11));
  }
}

TEST_CASE("a ring of attention") {
  random_numbers random;
  for (int i = 0; i < 500; ++i) {
    const attention_ring given{.ranks = random.whole(1, 16),
                               .kernel = seconds(random.real(0.1, 2)),
                               .send = seconds(random.real(0, 3)),
                               .contention = random.real(0, 1)};
    // The next part is sent while one is worked on, and the buffers swap when both are done.
    two_streams streams;
    for (int step = 0; step < given.ranks; ++step) {
      streams.kernels.push_back({given.kernel.value(), step - 1});
      if (step + 1 < given.ranks) streams.exchanges.push_back({given.send.value(), step - 1});
    }
    CHECK(overlapped_time(given).value() ==
          doctest::Approx(streams.run(given.contention)).epsilon(1e-11));
  }
}

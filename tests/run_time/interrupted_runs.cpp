// The closed forms and the library's own simulation of interrupted runs, against a simulation that
// is written another way: second by second events in a queue, and another generator.

#include <gpuplan/goodput.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"

using namespace gpuplan;

namespace {

// A job whose state changes at events: failures, ends of restarts, snapshots, writes, repairs.
class job {
 public:
  job(const interrupted_run& run, std::mt19937_64& random) : run_(run), random_(random) {}

  double time() {
    begin_training();
    while (!done_) {
      const event next = events_.top();
      events_.pop();
      now_ = next.at;
      // What a failure called off.
      if (next.epoch != epoch_ && next.is != kind::repaired) continue;
      happen(next);
    }
    return now_;
  }

 private:
  enum class kind { fails, taken_back, acts, restarted, taken, written, repaired };
  struct event {
    double at;
    kind is;
    int epoch;
    double work;
    friend bool operator<(const event& a, const event& b) { return a.at > b.at; }
  };

  const interrupted_run& run_;
  std::mt19937_64& random_;
  std::priority_queue<event> events_{};
  double now_ = 0;
  int epoch_ = 0;     // failures so far
  double saved_ = 0;  // work that can be restarted from
  std::int64_t broken_ = 0;
  bool waits_ = false;
  bool done_ = false;

  double draw(duration mean) {
    return std::exponential_distribution<double>(1 / mean.value())(random_);
  }
  void in(double seconds, kind is, double work = 0) {
    events_.push({now_ + seconds, is, epoch_, work});
  }
  void run_until_failure() {
    if (run_.mean_time_between_failures) in(draw(*run_.mean_time_between_failures), kind::fails);
    if (run_.mean_time_between_reclaims)
      in(draw(*run_.mean_time_between_reclaims), kind::taken_back);
  }
  void begin_training() {
    run_until_failure();
    train(saved_);
  }
  void train(double from) {
    const double all = run_.work.value();
    double until = run_.interval > 0_s ? from + run_.interval.value() : all;
    if (until > all - 1e-6) until = all;
    in(until - from + run_.stall.value(), kind::taken, until);
  }
  void begin_restart() {
    in(run_.restart.value(), kind::restarted);
    run_until_failure();
  }

  void happen(const event& what) {
    switch (what.is) {
      case kind::fails:
      case kind::taken_back:
        ++epoch_;
        if (run_.replacement > 0_s &&
            (what.is == kind::taken_back ||
             std::uniform_real_distribution<double>(0, 1)(random_) < run_.replaced)) {
          ++broken_;
          in(draw(run_.replacement), kind::repaired);
        }
        in(run_.detection.value(), kind::acts);
        return;
      case kind::acts:
        waits_ = broken_ > run_.spare_nodes;
        if (!waits_) begin_restart();
        return;
      case kind::repaired:
        --broken_;
        if (waits_) {
          waits_ = false;
          begin_restart();
        }
        return;
      case kind::restarted:
        train(saved_);
        return;
      case kind::taken:
        in(run_.write.value(), kind::written, what.work);
        if (what.work < run_.work.value()) train(what.work);
        return;
      case kind::written:
        saved_ = what.work;
        done_ = saved_ >= run_.work.value();
        return;
    }
  }
};

struct sample {
  double mean = 0;
  double deviation = 0;
  std::vector<double> sorted{};

  explicit sample(std::vector<double> times) : sorted(std::move(times)) {
    std::sort(sorted.begin(), sorted.end());
    const auto count = static_cast<double>(sorted.size());
    for (const double each : sorted) mean += each / count;
    for (const double each : sorted) deviation += (each - mean) * (each - mean) / count;
    deviation = std::sqrt(deviation);
  }
  [[nodiscard]] double at(double share) const {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
};

sample simulated(const interrupted_run& run, int count) {
  std::mt19937_64 random(7);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(job(run, random).time());
  return sample(times);
}

struct named_run {
  const char* what;
  interrupted_run run;
};

// Without waits: all is exact.
const named_run independent[] = {
    {"as Daly has it",
     {.work = 200_h, .mean_time_between_failures = 12_h, .interval = 2_h, .stall = 5_min}},
    {"slow restarts that fail",
     {.work = 100_h,
      .mean_time_between_failures = 4_h,
      .interval = 1_h,
      .stall = 2_min,
      .detection = 30_min,
      .restart = 1.5_h}},
    {"long writes in the background",
     {.work = 150.5_h,
      .mean_time_between_failures = 6_h,
      .interval = 1_h,
      .stall = 1_min,
      .write = 50_min,
      .restart = 10_min}},
    {"one failure in three runs",
     {.work = 100_h,
      .mean_time_between_failures = 300_h,
      .interval = 12_h,
      .stall = 10_min,
      .write = 1_h,
      .detection = 10_min,
      .restart = 30_min}},
    {"no checkpoint but the last", {.work = 30_h, .mean_time_between_failures = 40_h}},
    {"preemptible nodes that fail as well",
     {.work = 100_h,
      .mean_time_between_failures = 20_h,
      .mean_time_between_reclaims = 7_h,
      .interval = 1_h,
      .stall = 2_min,
      .detection = 5_min,
      .restart = 20_min}},
    {"reclaims alone",
     {.work = 100_h,
      .mean_time_between_reclaims = 9_h,
      .interval = 1_h,
      .stall = 2_min,
      .restart = 20_min}},
};

}  // namespace

TEST_CASE("closed forms are the mean and the deviation of what is simulated") {
  constexpr int count = 20'000;
  for (const named_run& each : independent) {
    const interrupted_run& run = each.run;
    CAPTURE(each.what);
    const sample found = simulated(run, count);
    const double mean = expected_time(run)->total().value();
    const double deviation = deviation_of_time(run)->value();
    CHECK(std::abs(found.mean - mean) < 4 * deviation / std::sqrt(count));
    CHECK(std::abs(found.deviation / deviation - 1) < 0.05);
  }
}

TEST_CASE("the library's simulation has the same tenths") {
  constexpr int count = 20'000;
  for (const named_run& each : independent) {
    const interrupted_run& run = each.run;
    CAPTURE(each.what);
    const sample found = simulated(run, count);
    std::vector<duration> times(count);
    const run_times tenths = *simulate(run, {}, times);
    const double by = 0.05 * found.deviation + 1;
    CHECK(std::abs(tenths.low.value() - found.at(0.1)) < by);
    CHECK(std::abs(tenths.median.value() - found.at(0.5)) < by);
    CHECK(std::abs(tenths.high.value() - found.at(0.9)) < by);
    for (const duration& deadline : {tenths.low, tenths.high}) {
      const auto end = std::upper_bound(found.sorted.begin(), found.sorted.end(), deadline.value());
      const double share = static_cast<double>(end - found.sorted.begin()) / count;
      CHECK(std::abs(share_within(times, deadline) - share) < 0.02);
    }
  }
}

TEST_CASE("the closed tenths are within a tenth of the spread where many failures are expected") {
  const interrupted_run fails{.work = 1000_h,
                              .mean_time_between_failures = 5_h,
                              .interval = 30_min,
                              .stall = 1_min,
                              .detection = 10_min,
                              .restart = 20_min};
  interrupted_run taken_back = fails;
  taken_back.mean_time_between_reclaims = 5_h;
  const run_uncertainty of_failures{.mean_time_between_failures = {0.5, 2.0}};
  for (const auto& [run, unknown] :
       {std::pair{fails, run_uncertainty{}},
        {fails, {.work = {0.9, 1.15}}},
        {fails, of_failures},
        {fails, {.work = {0.9, 1.15}, .mean_time_between_failures = {0.5, 2.0}}},
        {taken_back, run_uncertainty{}},
        {taken_back, of_failures}}) {
    std::vector<duration> times(50'000);
    const run_times tenths = *simulate(run, unknown, times);
    const double spread = (tenths.high - tenths.low).value();
    CAPTURE(spread);
    CHECK(std::abs((*time_within(run, unknown, 0.1) - tenths.low).value()) < 0.1 * spread);
    CHECK(std::abs((*time_within(run, unknown, 0.5) - tenths.median).value()) < 0.1 * spread);
    CHECK(std::abs((*time_within(run, unknown, 0.9) - tenths.high).value()) < 0.1 * spread);
  }
}

TEST_CASE("waits for nodes are what a queue of repairs makes") {
  for (const std::int64_t spares : {0, 1, 3})
    for (const bool is_preemptible : {false, true}) {
      interrupted_run run{.work = 2000_h,
                          .mean_time_between_failures = 24_h,
                          .interval = 1_h,
                          .stall = 1_min,
                          .detection = 5_min,
                          .restart = 15_min,
                          .replaced = 0.8,
                          .replacement = 36_h,
                          .spare_nodes = spares};
      if (is_preemptible) {  // half of all take a node for sure, of the others a third do
        run.mean_time_between_failures = run.mean_time_between_reclaims = 48_h;
        run.replaced = 1.0 / 3;
      }
      CAPTURE(spares);
      CAPTURE(is_preemptible);
      const sample found = simulated(run, 2000);
      const run_time_parts parts = *expected_time(run);
      CHECK(std::abs(found.mean / parts.total().value() - 1) < 0.01);
      CHECK(std::abs(found.deviation / deviation_of_time(run)->value() - 1) < 0.25);
      std::vector<duration> times(2000);
      CHECK(std::abs(simulate(run, {}, times)->median.value() / found.at(0.5) - 1) < 0.01);
    }
}

TEST_CASE("equal seeds give equal runs, and others do not") {
  std::vector<duration> once(100);
  std::vector<duration> again(100);
  const interrupted_run& run = independent[0].run;
  const run_uncertainty unknown{.work = {0.9, 1.1}};
  const run_times first = *simulate(run, unknown, once, 3);
  CHECK(first.median == simulate(run, unknown, again, 3)->median);
  CHECK(once == again);
  CHECK(first.median != simulate(run, unknown, again, 4)->median);
}

TEST_CASE("a run that rarely gets to its end takes as long as a geometric number of attempts") {
  // Without checkpoints, one attempt in exp(10) lasts: times are near an exponential distribution.
  const interrupted_run run{.work = 100_h, .mean_time_between_failures = 10_h};
  std::vector<duration> times(20'000);
  const run_times tenths = *simulate(run, {}, times);
  const duration mean = expected_time(run)->total();
  CHECK(times.front() >= run.work);
  CHECK(std::abs(tenths.median / mean / 0.6931 - 1) < 0.04);
  CHECK(std::abs(tenths.high / mean / 2.3026 - 1) < 0.04);
}

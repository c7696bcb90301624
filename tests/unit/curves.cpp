#include "check.hpp"

#include <gpuplan/measure/curves.hpp>

#include <array>
#include <iterator>

namespace {

using namespace gpuplan;
using namespace gpuplan::measure;

constexpr bool near(double a, double b, double tolerance) {
  return a <= b * (1 + tolerance) && a >= b * (1 - tolerance);
}

// An H200's L2 cache of 50 MiB as the RRZE's gpu-benches have it (gpu-l2-cache, h200.txt): 9.6 to
// 10.2 TB/s to about 40 MiB, 3.9 TB/s beyond; the points between are not from there.
constexpr footprint_rate h200[] = {{1_MiB, 9.6_TBps},
                                   {4_MiB, 10.2_TBps},
                                   {16_MiB, 10.1_TBps},
                                   {40_MiB, 9.7_TBps},
                                   {56_MiB, 5.6_TBps},
                                   {80_MiB, 4.1_TBps},
                                   {160_MiB, 3.9_TBps}};

TEST_CASE("the knee of a recorded curve lies where the rate has fallen half way") {
  CONSTEXPR auto knee = knee_of(h200);
  STATIC_CHECK(knee.has_value());
  // sqrt(10.2 * 3.9) = 6.307 TB/s, between 40 MiB and 56 MiB.
  STATIC_CHECK(knee->footprint > 40_MiB && knee->footprint < 56_MiB);
  STATIC_CHECK(near(knee->footprint / 1_MiB, 52.07, 1e-4));
  STATIC_CHECK(near(knee->inside / 1_TBps, (9.6 + 10.2 + 10.1) / 3, 1e-12));
  STATIC_CHECK(knee->beyond == 3.9_TBps);
}

TEST_CASE("a step between two footprints is found at its geometric middle") {
  CONSTEXPR footprint_rate step[] = {
      {1_MiB, 8_TBps}, {2_MiB, 8_TBps}, {8_MiB, 2_TBps}, {16_MiB, 2_TBps}};
  CONSTEXPR auto knee = knee_of(step);
  STATIC_CHECK(knee && near(knee->footprint / 1_MiB, 4, 1e-12));
  STATIC_CHECK(knee && knee->inside == 8_TBps && knee->beyond == 2_TBps);
}

TEST_CASE("a slow small footprint is no knee, and the last crossing counts") {
  CONSTEXPR footprint_rate curve[] = {
      {1_MiB, 2_TBps}, {2_MiB, 8_TBps}, {4_MiB, 3_TBps}, {8_MiB, 8_TBps}, {16_MiB, 2_TBps}};
  CONSTEXPR auto knee = knee_of(curve);
  STATIC_CHECK(knee && near(knee->footprint / 1_MiB, 11.3137, 1e-4));
}

TEST_CASE("a curve without a fall, or too short, has no knee") {
  CONSTEXPR footprint_rate flat[] = {{1_MiB, 2_TBps}, {2_MiB, 2.4_TBps}, {4_MiB, 2_TBps}};
  STATIC_CHECK(!knee_of(flat));
  STATIC_CHECK(!knee_of(std::span(h200).first(2)));
  STATIC_CHECK(!knee_of({}));
  // The fall begins at the first point: nothing says what the cache does inside.
  CONSTEXPR footprint_rate falls[] = {{1_MiB, 8_TBps}, {1.5_MiB, 2_TBps}, {2_MiB, 2_TBps}};
  STATIC_CHECK(!knee_of(falls));
}

TEST_CASE("times on a line give the line back") {
  CONSTEXPR auto times = [] {
    std::array<transfer_time, 12> made{};
    bytes size = 1_KiB;
    for (transfer_time& time : made) {
      time = {size, 20_us + size / 100_GBps};
      size = 8 * size;
    }
    return made;
  }();
  CONSTEXPR auto line = line_through(times);
  STATIC_CHECK(line && near(line->latency / 1_us, 20, 1e-9));
  STATIC_CHECK(line && near(line->rate / 1_GBps, 100, 1e-9));
  STATIC_CHECK(line && line->farthest < 1e-9);
  STATIC_CHECK(line && near(line->time(2_GB) / 1_ms, 20.02, 1e-9));
}

// The all-reduce of 8 H200 by nccl-tests' bus bandwidth: 40, 107, 220, 347, 436, 464 and 482 GB/s
// at 1, 4, 16, 64, 256, 1024 MiB and 16 GiB. t = size / (bus bandwidth * 4 / 7).
constexpr auto h200_all_reduce = [] {
  constexpr double MiB[] = {1, 4, 16, 64, 256, 1024, 16384};
  constexpr double GBps[] = {40, 107, 220, 347, 436, 464, 482};
  std::array<transfer_time, 7> times{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bytes size = MiB[i] * 1_MiB;
    times[i] = {size, size / (GBps[i] * 1_GBps * (4.0 / 7))};
  }
  return times;
}();

TEST_CASE("the line through a published all-reduce says how far it is off") {
  CONSTEXPR auto line = line_through(h200_all_reduce);
  STATIC_CHECK(line.has_value());
  // The bus carries 7/4 of the rate.
  STATIC_CHECK(line->rate * 1.75 > 420_GBps && line->rate * 1.75 < 482_GBps);
  STATIC_CHECK(line->latency > 30_us && line->latency < 50_us);
  STATIC_CHECK(line->farthest > 0.05 && line->farthest < 0.25);
  // No line near it has a smaller sum of squares.
  CONSTEXPR auto squares = [](const transfer_line& of) {
    double sum = 0;
    for (const transfer_time& point : h200_all_reduce) {
      const double off = (of.time(point.size) - point.time) / point.time;
      sum += off * off;
    }
    return sum;
  };
  STATIC_CHECK([=] {
    for (const double a : {0.99, 1.0, 1.01})
      for (const double b : {0.99, 1.0, 1.01})
        if (squares({line->latency * a, line->rate * b}) < squares(*line)) return false;
    return true;
  }());
}

TEST_CASE("what is no line has none") {
  CONSTEXPR transfer_time equal[] = {{1_MiB, 20_us}, {1_MiB, 21_us}};
  STATIC_CHECK(!line_through(equal));
  STATIC_CHECK(!line_through({}));
  CONSTEXPR transfer_time falling[] = {{1_MiB, 20_us}, {4_MiB, 10_us}};
  STATIC_CHECK(!line_through(falling));
  CONSTEXPR transfer_time before_zero[] = {{1_MiB, 10_us}, {4_MiB, 100_us}};
  STATIC_CHECK(!line_through(before_zero));
}

}  // namespace

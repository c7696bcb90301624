// Bandwidths, on a stand-in whose kernels leave what their own bodies leave on the host.

#include <gpuplan/cuda/memory.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "every_call_fails.hpp"
#include "stream_rules.hpp"

namespace {

using namespace gpuplan;
using cuda::stream_operation;

// Bytes per second, with the best grid: so slow that few launches pass the time, for each of them
// is run on this machine.
constexpr double device_rate = 10e6;

cuda::session_options virtual_time() {
  return {.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s};
}

// 4 SMs, an L2 cache of 4 KiB, and room for what a test needs.
void small_device() {
  stand_in::reset();
  cudaDeviceProp& device = stand_in::current().devices[0].properties;
  device.l2CacheSize = 4 << 10;
}

// Bytes over the rate, but for grids other than 8 blocks per SM, which are slower.
stream_rules::seconds_of at_rate(double bytes_per_place) {
  return [=](const stand_in::launch& l, double places) {
    const double slowdown = l.grid.x == 32 ? 1 : 1.25;
    return slowdown * places * bytes_per_place / device_rate;
  };
}

void script_streams() {
  stream_rules::add_checks();
  stream_rules::add<cuda::copy_body>("copy_body", at_rate(32));
  stream_rules::add<cuda::triad_body<float>>("triad_body<float>", at_rate(48));
  stream_rules::add<cuda::triad_body<double>>("triad_body<double>", at_rate(48));
  stream_rules::add<cuda::read_body>("read_body", at_rate(16));
  stream_rules::add<cuda::write_body>("write_body", at_rate(16));
}

cuda::memory_options few_samples() {
  return {.sampling = {.least_sample_s = 0,
                       .warm_up = {.window_s = 1e-5, .windows = 1, .cap_s = 1e-3},
                       .stop = {.window = 8, .least_samples = 8, .least_s = 0}},
          .array_bytes = 32 << 10};
}

cuda::bandwidth_reading measured(stream_operation which) {
  cuda::session s(virtual_time());
  return cuda::measure_bandwidth(s, which, few_samples());
}

// Overwrites one word that a kernel wrote: its `pointer`-th argument's.
template <class Body, class Pointer>
std::function<void(const stand_in::launch&)> spoil(Pointer Body::*target) {
  return [=](const stand_in::launch& l) {
    auto* words = reinterpret_cast<std::uint32_t*>(l.argument<Body>(0).*target);
    words[4321] ^= 0x00100000U;
  };
}

}  // namespace

TEST_CASE("every operation's rate is its bytes over its time, with the fastest grid") {
  for (const stream_operation which : cuda::all_stream_operations) {
    CAPTURE(cuda::name(which));
    small_device();
    script_streams();
    const cuda::bandwidth_reading reading = measured(which);
    CHECK(reading.rate / 1_MBps == doctest::Approx(device_rate / 1e6).epsilon(1e-3));
    CHECK(reading.blocks == 32);
    CHECK(reading.array == 32_KiB);
    CHECK(stand_in::live().empty());
  }
}

TEST_CASE("one wrong word is found") {
  small_device();
  script_streams();
  stream_rules::add<cuda::copy_body>("copy_body", at_rate(32), spoil(&cuda::copy_body::to));
  CHECK_THROWS_WITH_AS((void)measured(stream_operation::copy),
                       "copy: 1 of 8192 words are wrong",
                       cuda::measurement_error);
  stream_rules::add<cuda::write_body>("write_body", at_rate(16), spoil(&cuda::write_body::to));
  CHECK_THROWS_AS((void)measured(stream_operation::write), cuda::measurement_error);
  // What is read was written wrong.
  CHECK_THROWS_WITH_AS((void)measured(stream_operation::read),
                       "read: the sum of what was read is wrong",
                       cuda::measurement_error);
  stream_rules::add<cuda::triad_body<double>>(
      "triad_body<double>", at_rate(48), spoil(&cuda::triad_body<double>::a));
  CHECK_THROWS_WITH_AS((void)measured(stream_operation::triad_fp64),
                       "triad, fp64: 1 of 2048 results are wrong",
                       cuda::measurement_error);
  stream_rules::add<cuda::triad_body<float>>(
      "triad_body<float>", at_rate(48), spoil(&cuda::triad_body<float>::a));
  CHECK_THROWS_AS((void)measured(stream_operation::triad_fp32), cuda::measurement_error);
  CHECK(stand_in::live().empty());
}

TEST_CASE("a kernel that writes nothing is found, though the memory held the right words before") {
  small_device();
  script_streams();
  stand_in::current().kernels.push_back({.name = "copy_body"});
  CHECK_THROWS_AS((void)measured(stream_operation::copy), cuda::measurement_error);
  stand_in::current().kernels.push_back({.name = "read_body"});
  CHECK_THROWS_AS((void)measured(stream_operation::read), cuda::measurement_error);
}

TEST_CASE("arrays are at least 4 x the L2 cache, and fit in what is free") {
  constexpr std::size_t MiB = std::size_t{1} << 20;
  CHECK(cuda::array_bytes_within(1024 * MiB, 50 * MiB, 80'000 * MiB, 3) == 1024 * MiB);
  CHECK(cuda::array_bytes_within(1024 * MiB, 400 * MiB, 80'000 * MiB, 3) == 1600 * MiB);
  // Nine tenths of 1000 MiB are 900.
  CHECK(cuda::array_bytes_within(1024 * MiB, 50 * MiB, 1000 * MiB, 3) == 300 * MiB);
  CHECK(cuda::array_bytes_within(1024 * MiB, 75 * MiB, 1000 * MiB, 3) == 300 * MiB);
  CHECK(!cuda::array_bytes_within(1024 * MiB, 76 * MiB, 1000 * MiB, 3).has_value());
  CHECK(*cuda::array_bytes_within(1, 1, 1000 * MiB, 1) == 4096);
  CHECK(*cuda::array_bytes_within(10'000, 0, 1000 * MiB, 1) == 8192);

  stand_in::reset();
  stand_in::current().devices[0].properties.l2CacheSize = 64 << 20;  // of 256 MiB
  CHECK_THROWS_AS((void)measured(stream_operation::copy), cuda::measurement_error);
  CHECK(stand_in::live().empty());
}

namespace {

struct counting_body {
  using value = cuda::nothing;
  int* loaded;
  int* stored;
  GPUPLAN_HOST_DEVICE value load(long long i) const {
    ++loaded[i];
    return {};
  }
  GPUPLAN_HOST_DEVICE void store(long long i, value) const { ++stored[i]; }
};

}  // namespace

TEST_CASE("the threads of a grid visit every place once, for any grid") {
  for (const long long count : {1LL, 31LL, 1000LL, 4096LL, 12'345LL})
    for (const long long blocks : {1LL, 3LL, 32LL})
      for (const long long threads : {32LL, 256LL}) {
        std::vector<int> loaded(static_cast<std::size_t>(count));
        std::vector<int> stored(loaded);
        counting_body body{loaded.data(), stored.data()};
        for (long long block = 0; block < blocks; ++block)
          for (long long thread = 0; thread < threads; ++thread)
            cuda::run_share(body, cuda::share_of(block, thread, blocks, threads, count));
        REQUIRE(std::ranges::all_of(loaded, [](int times) { return times == 1; }));
        REQUIRE(std::ranges::all_of(stored, [](int times) { return times == 1; }));
      }
}

TEST_CASE("neighbouring threads access neighbouring places") {
  for (int turn = 0; turn < 3; ++turn)
    for (long long thread = 0; thread + 1 < 256; ++thread) {
      const cuda::grid_share a = cuda::share_of(5, thread, 32, 256, 1 << 20);
      const cuda::grid_share b = cuda::share_of(5, thread + 1, 32, 256, 1 << 20);
      REQUIRE(a.first + turn * a.step + 1 == b.first + turn * b.step);
    }
}

TEST_CASE("a ramp's sum is that of its words") {
  const cuda::ramp values;
  for (const long long words : {0LL, 1LL, 2LL, 7LL, 4096LL, 100'003LL}) {
    std::uint32_t sum = 0;
    for (long long i = 0; i < words; ++i) sum += values.word(i);
    REQUIRE(values.sum(words) == sum);
  }
  // Beyond what a word can count: 2^34 words, each class modulo 2^32 as often as all others.
  CHECK(values.sum(1LL << 34) == 0);
  CHECK(values.sum((1LL << 34) + 1) == values.word(0));
  CHECK(values.at(3).y == values.word(13));
}

TEST_CASE("triads are exact in fp32, and differ from place to place") {
  using numbers = cuda::triad_numbers<float>;
  int equal = 0;
  for (long long i = 0; i < 1'000'000; i += 7) {
    const double exact =
        static_cast<double>(numbers::b(i)) + static_cast<double>(numbers::c(i)) / 2;
    REQUIRE(static_cast<double>(numbers::a(i)) == exact);
    if (numbers::a(i) == numbers::a(i + 1)) ++equal;
  }
  CHECK(equal == 0);
}

// ---- the L2 cache

namespace {

// The stand-in's cache: 8 MB/s up to its size, 2 MB/s from twice that on.
void script_cache(double cache_bytes, std::uint32_t wrong_by = 0) {
  stream_rules::add_checks();
  const auto bytes_of = [](const stand_in::launch& l) {
    return 16.0 * l.argument<unsigned>(1) * l.grid.x;
  };
  stand_in::current().kernels.push_back(
      {.name = "cache_kernel",
       .seconds =
           [=](const stand_in::launch& l) {
             const double over = bytes_of(l) / cache_bytes;
             const double rate = over <= 1 ? 8e6 : over >= 2 ? 2e6 : 8e6 - 6e6 * (over - 1);
             return bytes_of(l) * l.argument<int>(2) / rate;
           },
       .body =
           [=](const stand_in::launch& l) {
             const auto count = l.argument<unsigned>(1);
             for (unsigned block = 0; block < l.grid.x; ++block)
               for (unsigned thread = 0; thread < l.block.x; ++thread) {
                 auto body = cuda::cache_body::of(
                     l.argument<const uint4*>(0) + block * count, count, thread, l.block.x);
                 cuda::run_share(body, {thread, l.block.x, l.argument<int>(2) * 1LL * count});
                 *l.argument<std::uint32_t*>(3) += body.sum + wrong_by;
               }
           }});
}

cuda::cache_options few_cache_samples() {
  return {.sampling = few_samples().sampling, .least_footprint = 1024, .least_traffic = 1e5};
}

}  // namespace

TEST_CASE("the L2 cache's rate over the footprint has its knee where the cache ends") {
  small_device();
  script_cache(4 << 10);
  cuda::cache_reading reading;
  {
    cuda::session s(virtual_time());
    reading = cuda::measure_cache(s, few_cache_samples());
  }
  CHECK(stand_in::live().empty());
  REQUIRE(reading.curve.size() == 9);  // 1 to 16 KiB by factors of sqrt(2)
  CHECK(reading.timings.size() == 9);
  CHECK(reading.curve.front().footprint == 1_KiB);
  CHECK(reading.curve.back().footprint == 16_KiB);
  CHECK(reading.curve.front().rate / 1_MBps == doctest::Approx(8).epsilon(1e-3));
  CHECK(reading.curve.back().rate / 1_MBps == doctest::Approx(2).epsilon(1e-3));
  REQUIRE(reading.knee.has_value());
  // 4 MB/s, half way in logarithms, are read at 1 2/3 of the cache: 6.7 KiB.
  CHECK(reading.knee->footprint / 1_KiB == doctest::Approx(6.67).epsilon(0.1));
  CHECK(reading.knee->inside / 1_MBps == doctest::Approx(8).epsilon(1e-3));
}

TEST_CASE("a wrong sum of what was read from the cache is found") {
  small_device();
  script_cache(4 << 10, 1);
  cuda::session s(virtual_time());
  CHECK_THROWS_AS((void)cuda::measure_cache(s, few_cache_samples()), cuda::measurement_error);
}

TEST_CASE("the threads of a block visit every place of its part once a round") {
  for (const unsigned count : {1U, 5U, 1024U, 5000U})
    for (const unsigned threads : {1U, 4U, 1024U}) {
      constexpr int rounds = 3;
      std::vector<int> seen(count, 0);
      for (unsigned thread = 0; thread < threads; ++thread) {
        auto body = cuda::cache_body::of(nullptr, count, thread, threads);
        for (unsigned i = thread; i < rounds * count; i += threads) {
          const unsigned place = body.next_place();
          REQUIRE(place == i % count);
          ++seen[place];
        }
      }
      REQUIRE(std::ranges::all_of(seen, [](int times) { return times == rounds; }));
    }
}

TEST_CASE("footprints double in two steps and stay within the limit") {
  const auto sizes = cuda::cache_footprints(1 << 20, 4e6);
  REQUIRE(sizes.size() == 4);
  CHECK(sizes[0] == 1 << 20);
  CHECK(sizes[1] == 1482752);  // sqrt(2) MiB = 1482910, in multiples of 256
  CHECK(sizes[2] == 2 << 20);
  CHECK(sizes[3] == 2965760);
  CHECK(cuda::cache_footprints(1 << 20, 1000).empty());
}

TEST_CASE("every call that fails is reported, and nothing stays behind") {
  tests::every_call_fails(
      [] {
        small_device();
        script_streams();
      },
      [] {
        cuda::session s(virtual_time());
        (void)cuda::measure_bandwidth(s, stream_operation::copy, few_samples());
        (void)cuda::measure_bandwidth(s, stream_operation::triad_fp32, few_samples());
        (void)cuda::measure_bandwidth(s, stream_operation::read, few_samples());
      },
      4);
}

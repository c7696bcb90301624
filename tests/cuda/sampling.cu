// The protocol of all measurements, on a device whose clock and times are known.

#include <gpuplan/cuda/sampling.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "every_call_fails.hpp"

namespace {

using namespace gpuplan;
using cuda::load;
using measure::stop_reason;

__global__ void busy() {}

void launch_busy(cudaStream_t on) { GPUPLAN_CUDA_LAUNCH(busy<<<4, 128, 0, on>>>()); }

cuda::session_options virtual_time() {
  return {.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s, .least_flush_bytes = 1 << 20};
}

// A fresh stand-in on which `busy` takes these times, the last one for ever.
void busy_takes(std::vector<double> seconds) {
  stand_in::reset();
  stand_in::current().kernels.push_back(
      {.name = "busy", .seconds = stand_in::series(std::move(seconds))});
}

void clock_is(std::function<double(double)> MHz) {
  stand_in::current().devices[0].clock_MHz = std::move(MHz);
}

cuda::sampled sample_busy(const cuda::sampling_options& options) {
  cuda::session s(virtual_time());
  return cuda::sample(s, launch_busy, options);
}

// For short kernels, of which a second of heating holds too many to play.
constexpr cuda::warm_up_options quick_heating{.window_s = 0.02};

// Short, for tests that repeat it.
constexpr cuda::sampling_options brief{
    .what = "brief",
    .warm_up = {.window_s = 0.004, .windows = 2, .cap_s = 0.05},
    .stop = {.window = 3, .least_samples = 3, .least_s = 0, .cap_s = 0.1}};

}  // namespace

TEST_CASE("a steady kernel is timed as long as it runs") {
  busy_takes({2e-3});
  const cuda::sampled r = sample_busy({});
  CHECK(in(r.median, 1_ms) == doctest::Approx(2));
  CHECK(in(r.first_quartile, 1_ms) == doctest::Approx(2));
  CHECK(in(r.third_quartile, 1_ms) == doctest::Approx(2));
  CHECK(r.spread < 1e-6);
  CHECK(r.launches_per_sample == 1);
  CHECK(r.samples == 1000);  // the least time, 2 s, of 2 ms each
  CHECK(r.discarded == 0);
  CHECK(r.ended == stop_reason::steady);
  CHECK(r.state == load::sustained);
  CHECK(r.warm);
  REQUIRE(r.clock_MHz.has_value());
  CHECK(*r.clock_MHz == doctest::Approx(1980).epsilon(1e-3));
  CHECK(stand_in::live().empty());
}

TEST_CASE("a short kernel is launched so often that a sample lasts") {
  busy_takes({10e-6});
  const cuda::sampled r =
      sample_busy({.least_sample_s = 1e-3, .warm_up = quick_heating, .stop = {.least_s = 0.1}});
  CHECK(r.launches_per_sample == doctest::Approx(100).epsilon(0.02));  // events count in floats
  CHECK(in(r.median, 1_us) == doctest::Approx(10));
  REQUIRE(r.clock_MHz.has_value());
  // before a series alone: the host is faster than the device
  CHECK(stand_in::launches_of("hold_stream").size() == 3);
}

TEST_CASE("where the host is slower than the device, the device waits for a whole sample") {
  busy_takes({0.5e-6});
  const cuda::sampled r = sample_busy({.warm_up = quick_heating, .stop = {.least_s = 0.01}});
  CHECK(r.launches_per_sample == 256);
  CHECK(in(r.median, 1_us) == doctest::Approx(0.5).epsilon(1e-3));
  CHECK(stand_in::launches_of("hold_stream").size() >= static_cast<std::size_t>(r.samples));
}

TEST_CASE("quartiles and spread are those of the samples") {
  // 1 + sin n ms around 10 ms: the same 20 values over and over
  std::vector<double> series;
  for (int n = 0; n < 4000; ++n) series.push_back((10 + std::sin(n % 20)) * 1e-3);
  busy_takes(series);
  const cuda::sampled r = sample_busy({.stop = {.most_samples = 200, .least_s = 0}});
  CHECK(r.ended == stop_reason::most_samples);
  CHECK(r.samples == 200);
  std::vector<double> twenty(series.begin(), series.begin() + 20);
  const measure::quartiles expected = measure::sort_into_quartiles(twenty);
  CHECK(in(r.median, 1_s) == doctest::Approx(expected.median).epsilon(1e-3));
  CHECK(in(r.first_quartile, 1_s) == doctest::Approx(expected.lower).epsilon(1e-3));
  CHECK(in(r.third_quartile, 1_s) == doctest::Approx(expected.upper).epsilon(1e-3));
  // the standard deviation of 20 values over and over, of a sine of about unit height
  CHECK(r.spread == doctest::Approx(measure::relative_spread(twenty)).epsilon(0.03));
}

TEST_CASE("a series that never is steady ends when its time is up") {
  std::vector<double> series;
  for (int n = 0; n < 20000; ++n) series.push_back(n % 2 == 0 ? 2e-3 : 2.2e-3);
  busy_takes(series);
  const cuda::sampled r = sample_busy({.stop = {.least_s = 2, .cap_s = 15}});
  CHECK(r.ended == stop_reason::out_of_time);
  // 15 s of 2.1 ms each
  CHECK(r.samples == doctest::Approx(15 / 2.1e-3).epsilon(0.01));
  CHECK(in(r.median, 1_ms) == doctest::Approx(2.1).epsilon(0.06));
}

TEST_CASE("heating goes on until three windows agree") {
  busy_takes({2e-3});
  // It settles at 1500 from 1980 with a time constant of 2 s. The means of windows of 1 s, a second
  // apart, fall by 480 * 2 * (1 - exp(-1/2))^2 * exp(-t/2): two such steps together are below 1 %
  // of about 1510 once exp(-t/2) is below 0.063, at t = 5.5 s.
  clock_is([](double now_s) { return 1500 + 480 * std::exp(-now_s / 2); });
  {
    cuda::session s(virtual_time());
    const cuda::warm_up_result heated = cuda::warm_up(s, launch_busy);
    CHECK(heated.steady);
    CHECK(heated.passed_s > 7.5);
    CHECK(heated.passed_s < 9.5);
    REQUIRE(heated.clock_MHz.has_value());
    CHECK(*heated.clock_MHz == doctest::Approx(1510).epsilon(0.005));
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("heating a device whose clock never is steady ends, and says so") {
  busy_takes({2e-3});
  clock_is([](double now_s) { return static_cast<int>(now_s) % 2 == 0 ? 1500.0 : 1900.0; });
  cuda::session s(virtual_time());
  const cuda::warm_up_result heated = cuda::warm_up(s, launch_busy, {.cap_s = 12});
  CHECK_FALSE(heated.steady);
  CHECK(heated.passed_s >= 12);
  CHECK(heated.passed_s < 14);
  CHECK(heated.clock_MHz.has_value());
}

TEST_CASE("a device that shows no clock is measured without one") {
  busy_takes({2e-3});
  stand_in::current().kernels.push_back({.name = "stamp_clocks"});  // writes nothing
  const cuda::sampled r = sample_busy({.warm_up = {.cap_s = 5}});
  CHECK_FALSE(r.clock_MHz.has_value());
  CHECK_FALSE(r.warm);
  CHECK(r.discarded == 0);
  CHECK(in(r.median, 1_ms) == doctest::Approx(2));
}

TEST_CASE("samples at a low clock are discarded") {
  stand_in::reset();
  // Every tenth launch meets a clock of 70 % of what it settles at, and takes the longer for it.
  bool slow = false;
  stand_in::current().kernels.push_back(
      {.name = "busy", .seconds = [&slow](const stand_in::launch& l) {
         slow = l.index % 10 == 0;
         return slow ? 2e-3 / 0.7 : 2e-3;
       }});
  clock_is([&slow](double) { return slow ? 0.7 * 1980 : 1980.0; });
  // windows of heating hold 500 launches, so they agree
  const cuda::sampled r = sample_busy({.stop = {.window = 64, .least_s = 1}});
  CHECK(r.warm);
  CHECK(r.discarded > 0);
  CHECK(static_cast<double>(r.discarded) / static_cast<double>(r.samples + r.discarded) ==
        doctest::Approx(0.1).epsilon(0.05));
  CHECK(r.spread < 1e-6);
  CHECK(in(r.third_quartile, 1_ms) == doctest::Approx(2));
  CHECK(*r.clock_MHz == doctest::Approx(1980).epsilon(2e-3));
}

TEST_CASE("a sustained load may run far below the highest clock") {
  busy_takes({2e-3});
  clock_is([](double) { return 1200.0; });  // 61 % of it, by power
  const cuda::sampled r = sample_busy({});
  CHECK(r.discarded == 0);
  CHECK(*r.clock_MHz == doctest::Approx(1200).epsilon(1e-3));
}

TEST_CASE("so may a burst, whose power takes the clock down at once") {
  busy_takes({2e-3});
  clock_is([](double) { return 1200.0; });
  const cuda::sampled r = sample_busy({.state = load::burst});
  CHECK(r.discarded == 0);
  CHECK(*r.clock_MHz == doctest::Approx(1200).epsilon(1e-3));
}

TEST_CASE("a burst on a device that sleeps is none, and says so where nothing is left") {
  busy_takes({2e-3});
  clock_is([](double) { return 900.0; });  // 45 %
  CHECK_THROWS_WITH_AS(sample_busy({.what = "copy", .state = load::burst}),
                       "copy: all 8 samples ran below 50 % of the expected clock of 1980 MHz, the "
                       "slowest at 900 MHz",
                       cuda::measurement_error);
  CHECK(stand_in::live().empty());
}

TEST_CASE("a burst rests first, and is queued before it starts") {
  busy_takes({2e-3});
  const double began_s = stand_in::now_s();
  const cuda::sampled r = sample_busy({.state = load::burst, .rest_s = 5, .burst_samples = 6});
  CHECK(r.state == load::burst);
  CHECK(r.samples == 6);
  CHECK(r.ended == stop_reason::most_samples);
  CHECK_FALSE(r.warm);
  CHECK(in(r.median, 1_ms) == doctest::Approx(2));
  CHECK(stand_in::now_s() - began_s > 5);
  CHECK(stand_in::now_s() - began_s < 5.1);
  // three launches choose how many make a sample, the others are the samples
  const auto busy_launches = stand_in::launches_of("busy");
  REQUIRE(busy_launches.size() == 9);
  for (std::size_t i = 4; i < 7; ++i)  // the device never idles between the first four
    CHECK(busy_launches[i].start_s - busy_launches[i - 1].end_s < 10e-6);
}

TEST_CASE("the L2 cache is flushed before every launch") {
  busy_takes({20e-6});
  stand_in::current().devices[0].properties.l2CacheSize = 8 << 20;
  const cuda::sampled r =
      sample_busy({.flush_l2 = true, .warm_up = quick_heating, .stop = {.least_s = 0.005}});
  CHECK(r.flushed_l2);
  CHECK(r.launches_per_sample == 1);
  CHECK(in(r.median, 1_us) == doctest::Approx(20));  // without the time that the flush takes
  CHECK(stand_in::calls().at("cudaMemsetAsync") >= r.samples);
  CHECK(stand_in::calls().at("cudaMalloc") == 1);
  // 16 MiB at 1e12 bytes/s are 17 us, and the launch comes after them
  const auto stamps = stand_in::launches_of("stamp_clocks");
  const auto launches = stand_in::launches_of("busy");
  CHECK(launches.back().start_s - stamps[stamps.size() - 2].end_s >= 16.7e-6);
}

TEST_CASE("a flush that finds no room says so, and its buffer can be dropped") {
  stand_in::reset();
  stand_in::current().devices[0].properties.totalGlobalMem = 3 << 20;
  {
    cuda::session s(virtual_time());
    s.flush_l2();
    const cuda::device_buffer<std::byte> some(1 << 20);
    CHECK_THROWS_AS(cuda::device_buffer<std::byte>(2 << 20), cuda::call_error);
    s.drop_flush_buffer();
    CHECK_NOTHROW(cuda::device_buffer<std::byte>(2 << 20));
    const cuda::device_buffer<std::byte> rest(2 << 20);
    CHECK_THROWS_AS(s.flush_l2(), cuda::call_error);
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("work that takes no time cannot be measured") {
  busy_takes({0});
  CHECK_THROWS_WITH_AS(sample_busy({.what = "nothing", .state = load::burst}),
                       "nothing: no time passed between two events",
                       cuda::measurement_error);
  CHECK(stand_in::live().empty());
}

TEST_CASE("progress rises to its end, about ten times a second") {
  busy_takes({2e-3});
  std::vector<std::pair<std::string, double>> told;
  auto options = virtual_time();
  options.progress = [&](std::string_view what, double share) {
    told.emplace_back(std::string(what), share);
  };
  cuda::session s(std::move(options));
  static_cast<void>(cuda::sample(s, launch_busy, {.what = "busy"}));
  std::vector<double> heating;
  std::vector<double> sampling;
  for (const auto& [what, share] : told) {
    CHECK((what == "warm-up" || what == "busy"));
    (what == "busy" ? sampling : heating).push_back(share);
  }
  CHECK(std::is_sorted(heating.begin(), heating.end()));
  CHECK(std::is_sorted(sampling.begin(), sampling.end()));
  CHECK(heating.back() == 1);
  CHECK(sampling.back() == 1);
  CHECK(told.size() > 40);  // 5 s
  CHECK(told.size() < 60);
}

TEST_CASE("what a launch throws comes out, and nothing is left behind") {
  busy_takes({2e-3});
  for (const int good : {0, 1, 2, 10, 30}) {
    CAPTURE(good);
    int launched = 0;
    {
      cuda::session s(virtual_time());
      const auto launch = [&](cudaStream_t on) {
        if (launched++ == good) throw std::runtime_error("no operands");
        launch_busy(on);
      };
      CHECK_THROWS_WITH_AS(
          static_cast<void>(cuda::sample(s, launch, brief)), "no operands", std::runtime_error);
      // the stream is idle: what is freed now is in use no more
      CHECK(cudaStreamQuery(s.stream()) == cudaSuccess);
      CHECK(stand_in::live().size() == 1);  // the session's stream
    }
    CHECK(stand_in::live().empty());
  }
}

TEST_CASE("a kernel that fails ends the measurement with its error") {
  for (const std::int64_t nth : {1, 3, 9}) {
    busy_takes({2e-3});
    std::int64_t left = nth;
    stand_in::current().kernels.push_back({.name = "busy", .body = [&](const stand_in::launch&) {
                                             if (--left == 0)
                                               stand_in::current().kernels.back().fails =
                                                   cudaErrorIllegalAddress;
                                           }});
    try {
      static_cast<void>(sample_busy(brief));
      FAIL("nothing was thrown");
    } catch (const cuda::call_error& error) {
      CHECK(error.status().code == cudaErrorIllegalAddress);
    }
    CHECK(stand_in::live().empty());
  }
  stand_in::reset();
}

TEST_CASE("a session makes its device the current one while it lives") {
  stand_in::reset();
  stand_in::current().devices.push_back(stand_in::plain_device());
  stand_in::current().devices[1].attributes[cudaDevAttrClockRate] = 2'500'000;
  {
    auto options = virtual_time();
    options.device = 1;
    const cuda::session s(std::move(options));
    CHECK(stand_in::current_device() == 1);
    CHECK(s.device() == 1);
    CHECK(s.clock_limit_MHz() == 2500);
  }
  CHECK(stand_in::current_device() == 0);
  CHECK_THROWS_AS(cuda::session({.device = 2}), cuda::call_error);
  CHECK(stand_in::current_device() == 0);
  stand_in::current().devices.clear();
  CHECK_THROWS_AS(cuda::session(), cuda::call_error);
  CHECK(stand_in::live().empty());
}

TEST_CASE("every call of a measurement can fail") {
  const auto prepare = [] {
    stand_in::current().kernels.push_back({.name = "busy", .seconds = stand_in::series({2e-3})});
  };
  SUBCASE("sustained") {
    tests::every_call_fails(prepare, [] { static_cast<void>(sample_busy(brief)); });
  }
  SUBCASE("burst, with a flush") {
    auto options = brief;
    options.state = load::burst;
    options.flush_l2 = true;
    tests::every_call_fails(prepare, [&] { static_cast<void>(sample_busy(options)); });
  }
}

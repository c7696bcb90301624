// The clock of the SMs, from stamps made by hand and from a device whose clock is known.

#include <gpuplan/cuda/clock.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <array>
#include <cstdint>

namespace {

using namespace gpuplan::cuda;

__global__ void busy() {}

}  // namespace

TEST_CASE("a clock is cycles over time, of the first SM that was stamped twice") {
  // 1.5e6 cycles in 1 ms are 1500 MHz
  const std::array before{
      clock_stamp{0, 0}, clock_stamp{5'000'000, 700}, clock_stamp{5'000'100, 9}};
  const std::array after{
      clock_stamp{6'000'000, 1}, clock_stamp{6'000'000, 1'500'700}, clock_stamp{0, 0}};
  const auto MHz = clock_MHz_between(before, after);
  REQUIRE(MHz.has_value());
  CHECK(*MHz == doctest::Approx(1500));
}

TEST_CASE("no clock is read where the stamps do not give one") {
  const std::array<clock_stamp, 1> start{clock_stamp{1'000'000, 1000}};
  const auto read = [&](clock_stamp end) {
    const std::array<clock_stamp, 1> after{end};
    return clock_MHz_between(start, after);
  };
  CHECK(read({1'100'000, 151'000}).has_value());
  CHECK_FALSE(read({1'099'999, 151'000}).has_value());  // too close
  CHECK_FALSE(read({0, 0}).has_value());                // no block ran there
  CHECK_FALSE(read({900'000, 151'000}).has_value());    // time went back
  CHECK_FALSE(read({1'100'000, 500}).has_value());      // the counter was reset
  CHECK_FALSE(clock_MHz_between({}, {}).has_value());
}

TEST_CASE("the mean clock over work is read, whatever it does meanwhile") {
  stand_in::reset();
  stand_in::current().kernels.push_back({.name = "busy", .seconds = stand_in::series({10e-3})});
  // 1000 MHz for 6 ms, 2000 MHz after: of 10 ms, (6 * 1000 + 4 * 2000) / 10 = 1400
  stand_in::current().devices[0].clock_MHz = [](double now_s) {
    return now_s < 6e-3 ? 1000.0 : 2000.0;
  };
  {
    const stream s;
    const clock_reading clock(4);
    clock.start(s);
    GPUPLAN_CUDA_LAUNCH(busy<<<1, 1, 0, s>>>());
    clock.stop(s);
    s.synchronize();
    REQUIRE(clock.MHz().has_value());
    CHECK(*clock.MHz() == doctest::Approx(1400).epsilon(0.001));
    // two blocks for each SM, so that each gets one
    REQUIRE(stand_in::launches_of("stamp_clocks").size() == 2);
    CHECK(stand_in::launches_of("stamp_clocks")[0].grid.x == 8);
    // what was read is forgotten
    clock.start(s);
    s.synchronize();
    CHECK_FALSE(clock.MHz().has_value());
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("a device that numbers its SMs otherwise still has a clock") {
  stand_in::reset();
  stand_in::current().kernels.push_back({.name = "busy", .seconds = stand_in::series({1e-3})});
  // Twice as many SMs as blocks were asked for, or none that fits the array.
  stand_in::current().devices[0].properties.multiProcessorCount = 8;
  const stream s;
  const clock_reading clock(4);
  clock.start(s);
  GPUPLAN_CUDA_LAUNCH(busy<<<1, 1, 0, s>>>());
  clock.stop(s);
  s.synchronize();
  CHECK(clock.MHz().has_value());
  stand_in::current().devices[0].properties.multiProcessorCount = 0;
  clock.start(s);
  clock.stop(s);
  s.synchronize();
  CHECK_FALSE(clock.MHz().has_value());
}

// Copies between host and device, on a stand-in that does copy.

#include <gpuplan/cuda/transfer.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <string>

#include "every_call_fails.hpp"
#include "stream_rules.hpp"

namespace {

using namespace gpuplan;
using cuda::host_memory;
using cuda::transfer_direction;

cuda::session_options virtual_time() {
  return {.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s};
}

// Slow, so that few copies pass the time.
void slow_link() {
  stand_in::reset();
  stream_rules::add_checks();
  stand_in::current().pinned_bytes_per_s = 50e6;
  stand_in::current().pageable_bytes_per_s = 20e6;
}

cuda::transfer_options few_samples() {
  return {.sampling = {.least_sample_s = 0,
                       .warm_up = {.window_s = 1e-3, .windows = 1, .cap_s = 1e-2},
                       .stop = {.window = 8, .least_samples = 8, .least_s = 0}},
          .bytes = 64 << 10};
}

}  // namespace

TEST_CASE("every kind of copy is as fast as its link") {
  slow_link();
  cuda::transfer_readings readings;
  {
    cuda::session s(virtual_time());
    readings = cuda::measure_transfers(s, few_samples());
  }
  CHECK(stand_in::live().empty());
  const auto MBps = [](const cuda::transfer_reading& of) { return of.rate / 1_MBps; };
  CHECK(MBps(readings.pinned_to_device) == doctest::Approx(50).epsilon(0.01));
  CHECK(MBps(readings.pinned_to_host) == doctest::Approx(50).epsilon(0.01));
  // Both at once, each at the link's rate.
  CHECK(MBps(readings.pinned_both) == doctest::Approx(100).epsilon(0.01));
  CHECK(MBps(readings.pageable_to_device) == doctest::Approx(20).epsilon(0.01));
  CHECK(MBps(readings.pageable_to_host) == doctest::Approx(20).epsilon(0.01));
  CHECK(readings.pinned_both.size == 64_KiB);
}

TEST_CASE("what arrives wrong is found, on either side") {
  const auto measure = [](transfer_direction direction, host_memory kind) {
    cuda::session s(virtual_time());
    (void)cuda::measure_transfer(s, direction, kind, few_samples());
  };
  slow_link();
  stream_rules::add<cuda::write_body>("write_body", {}, [](const stand_in::launch& l) {
    l.argument<cuda::write_body>(0).to[1000].y ^= 1;  // what is sent to the host is wrong
  });
  CHECK_THROWS_WITH_AS(measure(transfer_direction::to_host, host_memory::pageable),
                       "copy between host and device: word 4001 of 16384 is wrong",
                       cuda::measurement_error);
  CHECK_THROWS_AS(measure(transfer_direction::both, host_memory::pinned), cuda::measurement_error);
  // The end of a copy does not arrive.
  slow_link();
  stand_in::current().touched_bytes = 60 << 10;
  CHECK_THROWS_WITH_AS(measure(transfer_direction::to_host, host_memory::pinned),
                       "copy between host and device: word 15360 of 16384 is wrong",
                       cuda::measurement_error);
  // The device's memory does not keep what arrives.
  slow_link();
  const stand_in::kernel_rule check = [] {
    for (const stand_in::kernel_rule& rule : stand_in::current().kernels)
      if (rule.name.find("check_body") != std::string::npos) return rule;
    return stand_in::kernel_rule{};
  }();
  stand_in::current().kernels.push_back(
      {.name = check.name, .body = [check](const stand_in::launch& l) {
         const_cast<uint4*>(l.argument<cuda::check_body>(0).from)[7].x ^= 1;
         check.body(l);
       }});
  CHECK_THROWS_WITH_AS(measure(transfer_direction::to_device, host_memory::pageable),
                       "copy between host and device: 1 of 16384 words are wrong",
                       cuda::measurement_error);
}

TEST_CASE("two copies of pageable memory at once are refused") {
  slow_link();
  cuda::session s(virtual_time());
  CHECK_THROWS_AS((void)cuda::measure_transfer(
                      s, transfer_direction::both, host_memory::pageable, few_samples()),
                  cuda::measurement_error);
}

TEST_CASE("every call that fails is reported, and nothing stays behind") {
  tests::every_call_fails(
      slow_link,
      [] {
        cuda::session s(virtual_time());
        (void)cuda::measure_transfer(
            s, transfer_direction::both, host_memory::pinned, few_samples());
        (void)cuda::measure_transfer(
            s, transfer_direction::to_device, host_memory::pageable, few_samples());
      },
      4);
}

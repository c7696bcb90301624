// Copies and all-reduces of several devices, on a stand-in that copies, and whose all-reduce sums.

#include <gpuplan/cuda/peers.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>
#ifdef GPUPLAN_CUDA_NCCL
#include <stand_in/nccl.hpp>
#endif

#include <array>
#include <cstdint>

#include "every_call_fails.hpp"
#include "stream_rules.hpp"

namespace {

using namespace gpuplan;

cuda::session_options virtual_time(int device = 0) {
  return {.device = device, .now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s};
}

// Devices of which each reaches the others, over a slow link.
void several(int devices, bool direct = true) {
  stand_in::reset();
  stream_rules::add_checks();
  stand_in::current().devices.assign(static_cast<std::size_t>(devices), stand_in::plain_device());
  if (direct)
    for (int device = 0; device < devices; ++device)
      for (int peer = 0; peer < devices; ++peer)
        if (peer != device)
          stand_in::current().devices[static_cast<std::size_t>(device)].peers.push_back(peer);
  stand_in::current().peer_bytes_per_s = 40e6;
}

cuda::sampling_options few_samples() {
  return {.least_sample_s = 0,
          .warm_up = {.window_s = 1e-3, .windows = 1, .cap_s = 1e-2},
          .stop = {.window = 8, .least_samples = 8, .least_s = 0}};
}

cuda::peer_options few_copies() { return {.sampling = few_samples(), .bytes = 64 << 10}; }

}  // namespace

TEST_CASE("copies between devices go at their link's rate, one way and both") {
  several(2);
  cuda::peer_reading reading;
  {
    cuda::session s(virtual_time());
    reading = cuda::measure_peer(s, 1, few_copies());
    CHECK(stand_in::current_device() == 0);
  }
  CHECK(stand_in::live().empty());
  CHECK(reading.direct);
  CHECK((reading.device == 0 && reading.peer == 1 && reading.size == 64_KiB));
  CHECK(reading.one_way / 1_MBps == doctest::Approx(40).epsilon(0.01));
  CHECK(reading.both_ways / 1_MBps == doctest::Approx(80).epsilon(0.01));
}

TEST_CASE("access to peers is left as it was found") {
  several(2);
  {
    cuda::session s(virtual_time());
    (void)cuda::measure_peer(s, 1, few_copies());
    // It was closed again, so it can be opened.
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    (void)cuda::measure_peer(s, 1, few_copies());
    // It was open, and stays so.
    CHECK(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
    CHECK(!stand_in::error_waits());
  }
}

TEST_CASE("devices that do not reach each other copy by way of the host, and it is said") {
  several(2, false);
  cuda::session s(virtual_time());
  const cuda::peer_reading reading = cuda::measure_peer(s, 1, few_copies());
  CHECK(!reading.direct);
  CHECK(stand_in::calls().count("cudaDeviceEnablePeerAccess") == 0);
}

TEST_CASE("what arrives wrong at a peer is found") {
  several(2);
  stream_rules::add<cuda::write_body>("write_body", {}, [](const stand_in::launch& l) {
    l.argument<cuda::write_body>(0).to[1000].y ^= 1;  // what is sent is wrong
  });
  cuda::session s(virtual_time());
  CHECK_THROWS_WITH_AS((void)cuda::measure_peer(s, 1, few_copies()),
                       "copy between devices: 1 of 16384 words are wrong",
                       cuda::measurement_error);
}

TEST_CASE("every call of a copy between devices that fails is reported, and nothing stays behind") {
  tests::every_call_fails([] { several(2); },
                          [] {
                            cuda::session s(virtual_time());
                            (void)cuda::measure_peer(s, 1, few_copies());
                          },
                          4);
}

TEST_CASE("the sum of the ranks' ramps is a ramp") {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 72U})
    for (const long long i : {0LL, 1LL, 4095LL, 1LL << 31, (1LL << 33) + 5}) {
      std::uint32_t sum = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        sum += cuda::detail::ramp_of_rank(rank).word(i);
      CHECK(cuda::detail::sum_of_ramps(ranks).word(i) == sum);
    }
  // No rank's ramp is another's, nor the sum, so that neither can pass for it.
  CHECK(cuda::detail::ramp_of_rank(0).word(1) != cuda::detail::ramp_of_rank(1).word(1));
  CHECK(cuda::detail::sum_of_ramps(2).word(1) != cuda::detail::ramp_of_rank(1).word(1));
}

#ifdef GPUPLAN_CUDA_NCCL

namespace {

cuda::all_reduce_options few_reductions(std::size_t most = 64 << 10) {
  return {.sampling = few_samples(), .least_bytes = 4096, .most_bytes = most};
}

}  // namespace

TEST_CASE("an all-reduce over sizes gives its latency and its rate") {
  several(4);
  stand_in::current_nccl().all_reduce_s = [](std::size_t size, int) {
    return 2e-3 + static_cast<double>(size) / 20e6;
  };
  constexpr std::array devices{0, 1, 2, 3};
  cuda::all_reduce_reading reading;
  {
    cuda::session s(virtual_time());
    reading = cuda::measure_all_reduce(s, devices, few_reductions());
    CHECK(stand_in::current_device() == 0);
  }
  CHECK(stand_in::live().empty());
  CHECK(reading.devices == 4);
  REQUIRE(reading.points.size() == 5);  // 4 to 64 KiB
  CHECK(reading.points.back().size == 64_KiB);
  const double t = 2e-3 + 65536 / 20e6;
  CHECK(reading.points.back().algorithm_rate / 1_MBps ==
        doctest::Approx(65536 / t / 1e6).epsilon(0.01));
  CHECK(reading.points.back().bus_rate / reading.points.back().algorithm_rate ==
        doctest::Approx(1.5));
  REQUIRE(reading.line.has_value());
  CHECK(reading.line->latency / 1_ms == doctest::Approx(2).epsilon(0.02));
  CHECK(reading.line->rate / 1_MBps == doctest::Approx(20).epsilon(0.02));
}

TEST_CASE("an all-reduce takes two devices, the session's first, and no more than they hold") {
  several(2);
  stand_in::current_nccl().all_reduce_s = [](std::size_t, int) { return 5e-3; };
  constexpr std::array one{0};
  constexpr std::array turned{1, 0};
  constexpr std::array both{0, 1};
  cuda::session s(virtual_time());
  CHECK_THROWS_AS((void)cuda::measure_all_reduce(s, one, few_reductions()),
                  cuda::measurement_error);
  CHECK_THROWS_AS((void)cuda::measure_all_reduce(s, turned, few_reductions()),
                  cuda::measurement_error);
  const std::size_t room = cuda::detail::buffer_bytes_on_all(both, 4096, std::size_t{8} << 30);
  CHECK(room == 64 << 20);  // two fifths of 256 MiB, as a power of two
}

TEST_CASE("every call of an all-reduce that fails is reported, and nothing stays behind") {
  tests::every_call_fails([] { several(2); },
                          [] {
                            constexpr std::array devices{0, 1};
                            cuda::session s(virtual_time());
                            (void)cuda::measure_all_reduce(s, devices, few_reductions(8192));
                          },
                          4);
}

TEST_CASE("a wrong sum of an all-reduce is found") {
  several(2);
  stand_in::current_nccl().sums = false;
  constexpr std::array devices{0, 1};
  cuda::session s(virtual_time());
  CHECK_THROWS_WITH_AS((void)cuda::measure_all_reduce(s, devices, few_reductions()),
                       "all-reduce: 1024 of 1024 words are wrong",
                       cuda::measurement_error);
}

#endif

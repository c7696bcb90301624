// What launching costs, on a device and a host whose costs are known.

#include <gpuplan/cuda/launch.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include "every_call_fails.hpp"

namespace {

using namespace gpuplan;

cuda::launch_costs launch_costs(const cuda::launch_options& options) {
  cuda::session s({.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s});
  return cuda::measure_launch(s, options);
}

constexpr cuda::launch_options brief{
    .graph_nodes = 5,
    .host_samples = 3,
    .sampling = {.what = "launch",
                 .least_sample_s = 1e-4,
                 .warm_up = {.window_s = 1e-3, .windows = 2, .cap_s = 0.01},
                 .stop = {.window = 3, .least_samples = 3, .least_s = 0, .cap_s = 0.1}}};

void empty_kernels_take(double seconds) {
  stand_in::current().kernels.push_back(
      {.name = "do_nothing", .seconds = stand_in::series({seconds})});
}

}  // namespace

TEST_CASE("launches cost the host and the device what the stand-in takes for them") {
  stand_in::reset();
  stand_in::current().call_s = 3e-6;
  empty_kernels_take(1.5e-6);
  const cuda::launch_costs costs =
      launch_costs({.sampling = {.warm_up = {.window_s = 0.004}, .stop = {.least_s = 0.01}}});
  // A launch and the question for its error, which the stand-in answers in no time.
  CHECK(in(costs.enqueue.median, 1_us) == doctest::Approx(3));
  CHECK(in(costs.graph_launch.median, 1_us) == doctest::Approx(3));
  CHECK(costs.enqueue.samples == 200);
  // The launch and the waiting are two calls; the kernel starts once the first is done, and ends
  // before the second is.
  CHECK(in(costs.round_trip.median, 1_us) == doctest::Approx(6));
  CHECK(in(costs.kernel.median, 1_us) == doctest::Approx(1.5).epsilon(1e-3));
  CHECK(in(costs.graph_node.median, 1_us) == doctest::Approx(1.5).epsilon(1e-3));
  CHECK(costs.kernel.launches_per_sample == 256);
  CHECK(stand_in::live().empty());
}

TEST_CASE("a round trip lasts as long as the kernel, where that is longer") {
  stand_in::reset();
  empty_kernels_take(20e-6);
  CHECK(in(launch_costs(brief).round_trip.median, 1_us) == doctest::Approx(21));
}

TEST_CASE("every call of it can fail") {
  tests::every_call_fails([] { empty_kernels_take(1e-6); },
                          [] { static_cast<void>(launch_costs(brief)); });
}

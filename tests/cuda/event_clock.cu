// A clock of events under the recorder of phases, on a stand-in whose kernels last what the script
// says.

#include <gpuplan/cuda/event_clock.cuh>
#include <gpuplan/cuda/for_each.cuh>
#include <gpuplan/measure/phase_recorder.hpp>

#include <stand_in/stand_in.hpp>

#include <doctest/doctest.h>

#include "every_call_fails.hpp"

namespace {

using namespace gpuplan;

static_assert(measure::recorder_clock<cuda::event_clock>);

struct nothing {
  __host__ __device__ void operator()(std::int64_t) const {}
};

TEST_CASE("phases last as long as their work on the device, and as the host lets it wait") {
  stand_in::reset();
  stand_in::current().call_s = 0;
  stand_in::current().kernels.push_back(
      {.name = "for_each_kernel", .seconds = stand_in::series({3e-3, 5e-3, 7e-3})});
  const cuda::stream on;
  cuda::event_clock clock(on);
  measure::phase_recorder recorder(clock);
  for (int step = 0; step < 3; ++step) {
    stand_in::current().kernels.back().launched = 0;
    recorder.begin_step();
    {
      const auto scope = recorder.phase(phase::data);
      stand_in::sleep_s(2e-3);
    }
    {
      const auto scope = recorder.phase(phase::forward);
      cuda::for_each(1, nothing{}, on);
      cuda::for_each(1, nothing{}, on);
    }
    {
      const auto scope = recorder.phase(phase::backward);
      cuda::for_each(1, nothing{}, on);
    }
    const measure::step_times times = recorder.end_step();
    CHECK(times[phase::data] == doctest::Approx(2e-3).epsilon(1e-6));
    CHECK(times[phase::forward] == doctest::Approx(8e-3).epsilon(1e-6));
    CHECK(times[phase::backward] == doctest::Approx(7e-3).epsilon(1e-6));
    CHECK(times[phase::other] == doctest::Approx(0).scale(1e-9));
    CHECK(times.step_s == doctest::Approx(17e-3).epsilon(1e-6));
  }
  // The marks of a step: its ends, and two for each phase.
  CHECK(stand_in::calls().at("cudaEventCreateWithFlags") == 8);
}

TEST_CASE("every call of the clock that fails is told, and nothing leaks") {
  tests::every_call_fails({}, [] {
    const cuda::stream on;
    cuda::event_clock clock(on);
    measure::phase_recorder recorder(clock);
    recorder.begin_step();
    { const auto scope = recorder.phase(phase::forward); }
    static_cast<void>(recorder.end_step());
  });
}

}  // namespace

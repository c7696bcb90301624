#pragma once

// What it costs to launch a kernel, one by one and in a graph.

#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/cuda/sampling.cuh>
#include <gpuplan/cuda/session.cuh>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <vector>

namespace gpuplan::cuda {

/// A series of timings by the host's clock.
struct host_timed {
  duration median{};
  duration first_quartile{};
  duration third_quartile{};
  std::int64_t samples = 0;
};

/// As measured_device.hpp keeps it.
[[nodiscard]] inline reading<duration> reading_of(const host_timed& timing) {
  return {.median = timing.median,
          .lower_quartile = timing.first_quartile,
          .upper_quartile = timing.third_quartile,
          .samples = timing.samples};
}

struct launch_options {
  std::int64_t graph_nodes = 256;  // in one graph, each after the one before
  std::int64_t host_samples = 200;
  sampling_options sampling{.what = "launch"};  // of what the device times
};

/// What an empty kernel of one thread costs.
struct launch_costs {
  host_timed round_trip{};    // from the call to the end, on an idle stream
  host_timed enqueue{};       // of the host alone, while the device is held
  host_timed graph_launch{};  // of the host alone, for the whole graph
  sampled kernel{};           // on the device, from one kernel's end to the next one's
  sampled graph_node{};       // the same in a graph
};

namespace detail {

static __global__ void do_nothing() {}

inline void launch_nothing(cudaStream_t on) { GPUPLAN_CUDA_LAUNCH(do_nothing<<<1, 1, 0, on>>>()); }

// `prepare` and `timed` in turn; the stream is idle before each turn.
template <class Prepare, class Timed>
host_timed time_on_host(session& s, std::int64_t count, Prepare prepare, Timed timed) {
  std::vector<double> seconds;
  for (std::int64_t i = -1; i < count; ++i) {  // the first turn loads what it runs
    s.stream().synchronize();
    prepare();
    const double began_s = s.now_s();
    timed();
    if (i >= 0) seconds.push_back(s.now_s() - began_s);
  }
  s.stream().synchronize();
  const measure::quartiles found = measure::sort_into_quartiles(seconds);
  return {.median = duration::from_value(found.median),
          .first_quartile = duration::from_value(found.lower),
          .third_quartile = duration::from_value(found.upper),
          .samples = count};
}

inline sampled per_part(sampled whole, std::int64_t parts) {
  const auto count = static_cast<double>(parts);
  whole.median = whole.median / count;
  whole.first_quartile = whole.first_quartile / count;
  whole.third_quartile = whole.third_quartile / count;
  return whole;
}

}  // namespace detail

/// Measures what launching costs. `enqueue` and `kernel` are the two ends of a pipe: a framework
/// that launches kernels shorter than `enqueue` waits for its host. Precondition: at least one node
/// and one sample. Throws call_error and measurement_error.
inline launch_costs measure_launch(session& s, const launch_options& options = {}) {
  const cudaStream_t on = s.stream();
  detail::launch_nothing(on);  // loads the kernel, which is no work for a stream that is recorded
  s.stream().synchronize();
  const graph many(on, [&](cudaStream_t recorded) {
    detail::launch_times(detail::launch_nothing, options.graph_nodes, recorded);
  });
  const detail::waits_at_end waits(on);  // for the graph too
  const auto hold = [on] { detail::hold(on, 100e-6); };
  const auto launch_graph = [&many](cudaStream_t to) { many.launch(to); };
  launch_costs costs;
  costs.round_trip = detail::time_on_host(
      s,
      options.host_samples,
      [] {},
      [&] {
        detail::launch_nothing(on);
        s.stream().synchronize();
      });
  costs.enqueue =
      detail::time_on_host(s, options.host_samples, hold, [&] { detail::launch_nothing(on); });
  costs.graph_launch =
      detail::time_on_host(s, options.host_samples, hold, [&] { launch_graph(on); });
  costs.kernel = sample(s, detail::launch_nothing, options.sampling);
  costs.graph_node =
      detail::per_part(sample(s, launch_graph, options.sampling), options.graph_nodes);
  return costs;
}

}  // namespace gpuplan::cuda

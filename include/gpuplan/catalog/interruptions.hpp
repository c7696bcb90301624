#pragma once

// Interruptions of training that operators published, and what is usual of them. Written down on
// 2026-11-26.

#include <gpuplan/detail/chance.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/reliability.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <iterator>

namespace gpuplan::catalog {

inline constexpr counted_interruptions interruptions[] = {
    {.id = "llama_3_405b",
     .name = "Llama 3 405B, 54 days on 16,384 H100",
     .devices = 16'384,
     .time = 54_d,
     // faulty GPU 148, HBM3 72, SRAM 19, system processor 17, silent corruption 6, thermal 6
     .device = 268,
     // maintenance 32, SSD 3, power supply 3, chassis 2, IO board 2, CPU 2, memory 2
     .node = 46,
     .network = 42,   // switch or cable 35, adapter 7
     .software = 63,  // bug 54, dependency 2, NCCL's watchdog 7
     .source = "Grattafiori et al. 2024, arXiv:2407.21783, table 5: 419 unplanned"},
    {.id = "opt_175b",
     .name = "OPT-175B, 56 days on 992 A100",
     .devices = 992,
     .time = 56_d,
     .unsorted = 90,
     .source = "facebookresearch/metaseq, projects/OPT/chronicles/final_update.md: about 90 "
               "restarts"},
    {.id = "bloom_176b",
     .name = "BLOOM-176B, 118 days on 384 A100",
     .devices = 384,
     .time = 118_d,
     .device = 118.0 / 7,
     .source = "bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles.md: about one GPU a "
               "week; hangs and software are not counted"},
    {.id = "meta_rsc_1",
     .name = "Meta's RSC-1, 11 months on 16,000 A100",
     .devices = 8,
     .time = 1000_d,
     .unsorted = 6.5,
     .source = "Kokolis et al. 2024, arXiv:2410.21680: 6.50 failures in 1,000 node-days of 8 GPUs"},
    {.id = "meta_rsc_2",
     .name = "Meta's RSC-2, 11 months on 8,000 A100",
     .devices = 8,
     .time = 1000_d,
     .unsorted = 2.34,
     .source = "Kokolis et al. 2024, arXiv:2410.21680: 2.34 failures in 1,000 node-days of 8 GPUs"},
    {.id = "alibaba_a100",
     .name = "Alibaba Cloud's clusters of A100",
     .devices = 1,
     .time = 400_d,
     .unsorted = 1,
     .source = "Aegis, NSDI 2025: about 400 days to a failure of a GPU's share of a job"},
    {.id = "alibaba_h100",
     .name = "Alibaba Cloud's clusters of H100",
     .devices = 1,
     .time = 200_d,
     .unsorted = 1,
     .source = "Aegis, NSDI 2025: about 200 days to a failure of a GPU's share of a job"},
};

/// A median, and the factors of it between which 80 % lie.
struct usual_device_time {
  duration median{};
  range<double> factor{1.0};
};

/// The device-time between interruptions over all of `interruptions`, each as one observation of a
/// log-normal distribution: what is known of a cluster of which nothing is known.
[[nodiscard]] constexpr usual_device_time usual_time_between_failures() {
  double sum = 0;
  double squares = 0;
  for (const counted_interruptions& each : interruptions) {
    const double logarithm =
        gpuplan::detail::natural_log((*device_time_between_failures(each)).value());
    sum += logarithm;
    squares += logarithm * logarithm;
  }
  const auto count = static_cast<double>(std::size(interruptions));
  const double mean = sum / count;
  const double deviation = gpuplan::detail::sqrt((squares - count * mean * mean) / (count - 1));
  const double factor = gpuplan::detail::exp(gpuplan::detail::normal_quantile(0.9) * deviation);
  return {duration::from_value(gpuplan::detail::exp(mean)), {1 / factor, factor}};
}

}  // namespace gpuplan::catalog

// What a run costs on each cluster of a person's own file of prices.

#include <gpuplan/io/clusters.hpp>
#include <gpuplan/units.hpp>

#include <cstdio>

using namespace gpuplan;

constexpr const char* prices = R"(
[cloud]
gpu = "h100-sxm"
nodes = 8
gpus_per_node = 8
price_per_gpu_hour = 3.0
date = "2026-11-01"

[lab]
gpu = "4090"
gpus_per_node = 4
price_per_gpu_hour = 0.4
date = "2026-11-01"
)";

int main() {
  const io::read_clusters read = io::read_clusters_of(prices);
  if (!read.why.empty()) {
    std::fprintf(stderr, "%s\n", read.why.c_str());
    return 1;
  }
  const double gpu_hours = 512;
  for (const io::stated_cluster& one : read.clusters)
    std::printf("%-6s %3d GPUs of %s: %.0f dollars for %.0f GPU-hours\n",
                one.name.c_str(),
                static_cast<int>(one.nodes * one.gpus_per_node),
                one.gpu.c_str(),
                gpu_hours * in(*one.price_per_gpu, 1_usd_per_hour),
                gpu_hours);
}

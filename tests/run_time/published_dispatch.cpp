// What DeepEP and HybridEP say of their kernels: 4,096 tokens of 7,168 elements in bf16, 8 experts
// of each, by README.md and Hybrid-EP_Implementation.md of deepseek-ai/DeepEP (its branch
// hybrid-ep). Rates are of the algorithm: rows for all ranks or nodes, the sender's among them,
// over the time.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/training_setup/dispatch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "check.hpp"

using namespace gpuplan;

namespace {

struct published_rate {
  const char* what = "";
  const gpu_spec& gpu;
  std::int64_t ranks = 0;
  std::int64_t per_node = 0;
  std::int64_t experts = 0;
  double gigabytes_per_second = 0;
};

const published_rate published[] = {
    {"DeepEP, combine", catalog::h800_sxm5_80gb, 8, 8, 256, 158},
    {"DeepEP with 24 SMs, dispatch", catalog::b200_sxm, 8, 8, 64, 494},
    {"HybridEP, dispatch", catalog::b200_sxm, 8, 8, 64, 734.95},
    {"HybridEP, combine", catalog::b200_sxm, 8, 8, 64, 673.84},
    {"HybridEP, dispatch", catalog::gb200, 32, 32, 256, 642.23},
    {"HybridEP, combine", catalog::gb200, 32, 32, 256, 605.15},
    {"HybridEP, dispatch", catalog::h100_sxm5_80gb, 16, 8, 128, 76.8},
    {"HybridEP, combine", catalog::h100_sxm5_80gb, 16, 8, 128, 68},
    {"HybridEP, dispatch", catalog::h100_sxm5_80gb, 32, 8, 256, 57.69},
    {"HybridEP, combine", catalog::h100_sxm5_80gb, 32, 8, 256, 57.46},
    {"HybridEP, dispatch", catalog::h100_sxm5_80gb, 64, 8, 512, 50.55},
    {"HybridEP, combine", catalog::h100_sxm5_80gb, 64, 8, 512, 51.03},
};

}  // namespace

TEST_CASE("kernels that dispatch tokens take what is published of them") {
  std::vector<double> off;
  for (const published_rate& one : published) {
    CAPTURE(one.what);
    CAPTURE(one.gpu.id);
    CAPTURE(one.ranks);
    // Nodes have a network card of 50 GB/s for each GPU.
    const auto links = interconnect_of({.gpu = one.gpu,
                                        .nodes = one.ranks / one.per_node,
                                        .gpus_per_node = one.per_node,
                                        .between_nodes = 50_GBps * one.per_node});
    REQUIRE(links);
    const expert_mixture moe{.num_experts = one.experts, .num_experts_per_tok = 8};
    const std::int64_t nodes = one.ranks / one.per_node;
    const double sent =
        detail::groups_reached(moe, nodes > 1 ? nodes : one.ranks) * 4096 * 7168 * 2;
    const duration time = collective_time(
        collective::all_to_all, bytes::from_value(sent), {one.ranks, one.per_node}, *links);
    off.push_back(std::abs(sent / time.value() / 1e9 / one.gigabytes_per_second - 1));
    CHECK(off.back() < 0.29);
  }
  std::sort(off.begin(), off.end());
  CHECK(off[off.size() / 2] < 0.075);
}

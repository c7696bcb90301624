// A file of clusters is read, and what is wrong with it is said by its key.

#include <doctest/doctest.h>

#include <gpuplan/io/clusters.hpp>
#include <gpuplan/units.hpp>

#include <string>
#include <vector>

#include "random_numbers.hpp"

namespace {

using namespace gpuplan;
using io::read_clusters_of;

const std::string whole =
    "[lab]\n"
    "gpu = 'rtx_a6000'\n"
    "nodes = 2\n"
    "gpus_per_node = 8\n"
    "network_GBps = 12.5\n"
    "network = 'omni-path'\n"
    "link_GBps = 56\n"
    "price_per_gpu_hour = 0.8\n"
    "date = '2026-08-27'\n"
    "source = 'our own account'\n"
    "power_W = 350\n"
    "carbon_g_per_kWh = 380\n"
    "reclaimed_hours = 40\n"
    "[box]\n"
    "gpu = '4090'\n"
    "gpus_per_node = 1\n";

TEST_CASE("clusters are what their tables say") {
  const auto read = read_clusters_of(whole);
  REQUIRE(read);
  REQUIRE(read.clusters.size() == 2);
  const io::stated_cluster& lab = read.clusters[1];
  CHECK(lab.name == "lab");
  CHECK(lab.gpu == "rtx_a6000");
  CHECK(lab.nodes == 2);
  CHECK(lab.gpus_per_node == 8);
  CHECK(*lab.between_nodes == 12.5_GBps);
  CHECK(*lab.network == network_kind::omni_path);
  CHECK(*lab.inside_node == 56_GBps);
  CHECK(*lab.price_per_gpu == 0.8 * 1_usd_per_hour);
  CHECK(*lab.power_per_gpu == 350_W);
  CHECK(*lab.carbon_g_per_kWh == 380);
  CHECK(*lab.reclaimed == 40_h);
  CHECK(lab.date == "2026-08-27");
  CHECK(lab.source == "our own account");
  const io::stated_cluster& box = read.clusters[0];
  CHECK(box.name == "box");
  CHECK(box.nodes == 1);
  CHECK_FALSE(box.between_nodes);
  CHECK_FALSE(box.network);
  CHECK_FALSE(box.price_per_gpu);
  CHECK_FALSE(box.power_per_gpu);
  CHECK_FALSE(box.carbon_g_per_kWh);
  CHECK_FALSE(box.reclaimed);
  CHECK(read_clusters_of("[a]\ngpu = 'h100-sxm'\n").clusters[0].gpus_per_node == 0);
}

TEST_CASE("what is wrong is said by its key, with what would be taken") {
  struct wrong {
    const char* text;
    const char* why;
  };
  for (const wrong& each : std::vector<wrong>{
           {"[a]\ngpu = 'h100-sxm'\ngpus_per_node = 8\nnetwrk_GBps = 3\n",
            "a.netwrk_GBps is no key of a cluster; taken are gpu, system, nodes, "
            "gpus_per_node, gpus_per_link_domain, network_GBps, network, link_GBps, "
            "price_per_gpu_hour, "
            "power_W, carbon_g_per_kWh, reclaimed_hours, date and source"},
           {"[a]\nnetwork = 'token ring'\n",
            "a.network is \"token ring\"; one of \"infiniband\", \"roce\", \"efa\", \"omni-path\" "
            "is taken"},
           {"[a]\nnetwork = 7\n",
            "a.network is 7; one of \"infiniband\", \"roce\", \"efa\", \"omni-path\" is taken"},
           {"[a]\nnodes = 0\n", "a.nodes is 0; a whole number from 1 to 65536 is taken"},
           {"[a]\nnodes = 2.0\n", "a.nodes is 2; a whole number from 1 to 65536 is taken"},
           {"[a]\ngpus_per_node = 'eight'\n",
            "a.gpus_per_node is \"eight\"; a whole number from 1 to 1024 is taken"},
           {"[a]\npower_W = -1\n", "a.power_W is -1; a number from 1 to 100000 is taken"},
           {"[a]\npower_W = nan\n", "a.power_W is nan; a number from 1 to 100000 is taken"},
           {"[a]\nreclaimed_hours = 0\n",
            "a.reclaimed_hours is 0; a number from 0.01 to 100000000 is taken"},
           {"[a]\ngpu = 3\n", "a.gpu is 3; the name of its GPUs, such as \"h100-sxm\", is taken"},
           {"[a]\ngpu = ''\n",
            "a.gpu is \"\"; the name of its GPUs, such as \"h100-sxm\", is taken"},
           {"[a]\ndate = '27.8.2026'\n",
            "a.date is \"27.8.2026\"; a day as \"2026-08-27\" is taken"},
           {"[a]\ndate = '2026-13-01'\n",
            "a.date is \"2026-13-01\"; a day as \"2026-08-27\" is taken"},
           {"[a]\n",
            "a.gpu is missing; the name of its GPUs, such as \"h100-sxm\", or a system is taken"},
           {"[a]\ngpu = 'h100'\n",
            "a.gpu is \"h100\"; one of \"h100_sxm5_80gb\", \"h100_pcie_80gb\", \"h100_nvl\" is "
            "taken"},
           {"[a]\ngpu = 'h100-sxm'\ngpus_per_node = 8\nprice_per_gpu_hour = 3\n",
            "a.date is missing; the day on which price_per_gpu_hour was true, such as "
            "\"2026-08-27\", is taken"},
           {"gpu = 'h100'\n", "gpu stands outside a cluster; [a_name] above it begins one"},
           {"", "it names no cluster; [a_name] begins one"}}) {
    CAPTURE(each.text);
    CHECK(read_clusters_of(each.text).why == each.why);
  }
  CHECK(read_clusters_of("[a\n").why.starts_with("line 1: "));
}

TEST_CASE("mutated files are read without a fault") {
  random_numbers random(11);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole;
    for (std::int64_t changes = 1 + random.below(3); changes > 0; --changes) {
      const auto at =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
      if (random.below(2) == 0)
        text.erase(at, static_cast<std::size_t>(1 + random.below(4)));
      else
        text[at] = "0919.e-='\"[]#\n a\xff"[random.below(17)];
      if (text.empty()) text = " ";
    }
    const auto file = read_clusters_of(text);
    CHECK(file.why.empty() != file.clusters.empty());
    for (const io::stated_cluster& each : file.clusters) {
      CHECK(each.nodes >= 1);
      CHECK(each.gpus_per_node >= 0);
    }
    read += file ? 1 : 0;
  }
  CHECK(read > 1000);
}

}  // namespace

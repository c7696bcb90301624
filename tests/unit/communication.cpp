#include "check.hpp"
#include "imaginary_device.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/communication.hpp>

#include <cstdint>
#include <string_view>

namespace {

using namespace gpuplan;
using namespace std::string_view_literals;

constexpr interconnect links_of(const gpu_spec& gpu,
                                known<bandwidth> network = {},
                                network_kind kind = network_kind::infiniband) {
  return *interconnect_of(
      {.gpu = gpu, .gpus_per_node = 8, .between_nodes = network, .network = kind});
}
constexpr interconnect a100 = links_of(catalog::a100_sxm4_80gb, 200_GBps);
constexpr interconnect h200 = links_of(catalog::h200_sxm, 400_GBps);
constexpr interconnect gb200 = *interconnect_of({.gpu = catalog::gb200, .gpus_per_node = 4});
constexpr interconnect b200 = links_of(catalog::b200_sxm, 400_GBps, network_kind::efa);
constexpr interconnect jean_zay = *interconnect_of({.gpu = catalog::v100_sxm2_32gb,
                                                    .gpus_per_node = 4,
                                                    .between_nodes = 50_GBps,
                                                    .network = network_kind::omni_path});

// Bus bandwidth of an all-reduce within `share` of what was measured.
constexpr bool reaches(double measured_GBps,
                       double share,
                       bytes message,
                       const device_group& group,
                       const interconnect& links,
                       collective_algorithm by = collective_algorithm::fastest,
                       collective what = collective::all_reduce) {
  const duration time = collective_time(what, message, group, links, by);
  const double ratio = in(bus_bandwidth(what, message, group, time), 1_GBps) / measured_GBps;
  return ratio > 1 - share && ratio < 1 + share;
}

// bigscience-workshop/bigscience, experiments/bandwidth/all_reduce_bench-32gb-4n.txt
TEST_CASE("an all-reduce by Omni-Path as measured") {
  STATIC_CHECK(reaches(84.6 / 8, 0.02, bytes::from_value(4'000'000'000), {16, 4}, jean_zay));
}

// stas00/ml-engineering, network/README.md at 744d01e1.
TEST_CASE("measured collectives") {
  constexpr auto ring = collective_algorithm::ring;
  constexpr auto in_switch = collective_algorithm::in_switch;
  STATIC_CHECK(reaches(106.16, 0.05, 16_MiB, {8, 8}, a100));
  STATIC_CHECK(reaches(229.04, 0.05, 1_GiB, {8, 8}, a100));
  STATIC_CHECK(reaches(234.89, 0.02, 16_GiB, {8, 8}, a100));
  STATIC_CHECK(reaches(1.44, 0.15, 32_KiB, {8, 8}, h200));
  STATIC_CHECK(reaches(39.93, 0.15, 1_MiB, {8, 8}, h200));
  STATIC_CHECK(reaches(155.53, 0.05, 8_MiB, {8, 8}, h200));
  STATIC_CHECK(reaches(477.45, 0.02, 8_GiB, {8, 8}, h200));
  STATIC_CHECK(reaches(435.6, 0.02, 8_GiB, {6, 6}, h200, in_switch));
  STATIC_CHECK(reaches(414.2, 0.02, 8_GiB, {5, 5}, h200, in_switch));
  STATIC_CHECK(reaches(363.3, 0.02, 8_GiB, {4, 4}, h200));
  STATIC_CHECK(reaches(365.6, 0.01, 8_GiB, {8, 8}, h200, ring));
  STATIC_CHECK(reaches(362.9, 0.02, 16_GiB, {8, 8}, h200, ring, collective::reduce_scatter));
  STATIC_CHECK(reaches(839.07, 0.02, 8_GiB, {8, 8}, b200));
  STATIC_CHECK(reaches(682.2, 0.02, 8_GiB, {8, 8}, b200, ring));
  STATIC_CHECK(reaches(811.2, 0.02, 8_GiB, {7, 7}, b200, in_switch));
  STATIC_CHECK(reaches(18.9, 0.02, 4_MiB, {32, 8}, b200));
  STATIC_CHECK(reaches(361.99, 0.05, 1_GiB, {32, 8}, b200));
  STATIC_CHECK(reaches(381.8, 0.03, 16_GiB, {32, 8}, b200));
  // Of the same page's two devices, each pair of which has 1/7 of the rate.
  STATIC_CHECK(reaches(47.7, 0.07, 4_GiB, {2, 2}, links_of(catalog::mi300x)));
  STATIC_CHECK(reaches(312.9, 0.02, 4_GiB, {8, 8}, links_of(catalog::mi300x)));
  // Azure/AI-benchmarking-guide, ND_MI300X_v5 and ND_GB200_v6.
  STATIC_CHECK(reaches(290.81, 0.02, 128_MiB, {8, 8}, links_of(catalog::mi300x)));
  STATIC_CHECK(reaches(593.53, 0.08, 256_MiB, {4, 4}, gb200, ring));
  STATIC_CHECK(reaches(673.06, 0.02, 4_GiB, {4, 4}, gb200, ring));
}

TEST_CASE("large messages go at the rate of the slowest link") {
  const auto seconds = [](collective what, const device_group& group, const interconnect& links) {
    return collective_time(what, 1e15_B, group, links, collective_algorithm::ring).value();
  };
  const auto near = [](double value, double expected) {
    return value > 0.999 * expected && value < 1.001 * expected;
  };
  constexpr double inside = 450e9 * link_data::nvlink_4.ring_share;
  constexpr double ports = 400e9 * link_data::infiniband.ring_share;
  STATIC_CHECK(near(seconds(collective::all_reduce, {4, 4}, h200), 1.5e15 / inside));
  STATIC_CHECK(near(seconds(collective::all_gather, {4, 4}, h200), 0.75e15 / inside));
  STATIC_CHECK(near(seconds(collective::reduce_scatter, {4, 4}, h200), 0.75e15 / inside));
  STATIC_CHECK(near(seconds(collective::broadcast, {4, 4}, h200), 1e15 / inside));
  STATIC_CHECK(near(seconds(collective::send, {2, 2}, h200), 1e15 / inside));
  STATIC_CHECK(near(seconds(collective::all_to_all, {4, 4}, h200), 0.75e15 / inside));
  // One rank in each node has an eighth of the ports, two have a quarter.
  STATIC_CHECK(near(seconds(collective::all_reduce, {4, 1}, h200), 1.5e15 / (ports / 8)));
  STATIC_CHECK(near(seconds(collective::all_gather, {4, 2}, h200), 0.75e15 / (ports / 4)));
  STATIC_CHECK(near(seconds(collective::send, {2, 1}, h200), 1e15 / (ports / 8)));
  STATIC_CHECK(near(seconds(collective::all_to_all, {16, 8}, h200), 0.5e15 / (ports / 8)));
}

TEST_CASE("one rank exchanges nothing") {
  STATIC_CHECK(collective_time(collective::all_reduce, 1_GB, {1, 1}, h200) == 0_s);
  STATIC_CHECK(collective_time(collective::all_gather, 1_GB, {1, 1}, h200) == 0_s);
  STATIC_CHECK(collective_time(collective::all_to_all, 1_GB, {1, 1}, h200) == 0_s);
}

TEST_CASE("small messages take the launch and the hops") {
  const auto time = [](const device_group& group, const interconnect& links) {
    return in(collective_time(collective::all_reduce, 0_B, group, links), 1_us);
  };
  // The switch: 2 hops. A tree of 8 nodes: 7 hops in a chain and 3 between nodes, both ways.
  STATIC_CHECK(time({8, 8}, h200) > 43 + 1.1 && time({8, 8}, h200) < 43 + 1.3);
  STATIC_CHECK(time({64, 8}, h200) > 43 + 8.3 + 40.2 && time({64, 8}, h200) < 43 + 8.5 + 40.2);
  // A ring inside a node: 14 hops.
  STATIC_CHECK(time({8, 8}, a100) > 43 + 8.3 && time({8, 8}, a100) < 43 + 8.5);
}

TEST_CASE("groups along the devices") {
  CONSTEXPR device_group tensor = group_of(8, 1, 8);
  STATIC_CHECK(tensor.per_node == 8 && tensor.nodes() == 1);
  CONSTEXPR device_group data = group_of(16, 4, 8);
  STATIC_CHECK(data.per_node == 2 && data.nodes() == 8);
  CONSTEXPR device_group far = group_of(4, 16, 8);
  STATIC_CHECK(far.per_node == 1 && far.nodes() == 4);
  CONSTEXPR device_group few = group_of(2, 1, 8);
  STATIC_CHECK(few.per_node == 2 && few.nodes() == 1);
}

// Of the measured 250 GB/s what a ring reaches beside a copy.
constexpr bool sends_as_copied(const char* link, std::int64_t devices) {
  gpu_spec gpu = *measured_as(imaginary_device::imaginary, imaginary_device::in_full);
  gpu.peers = peer_link{link, 600_GBps};
  interconnect links = *interconnect_of({.gpu = gpu, .gpus_per_node = devices});
  links.launch = links.inside.hop = links.beyond.hop = {};
  links.inside.ramp = links.beyond.ramp = {};
  const duration time = collective_time(collective::send, 8_GiB, {2, 2}, links);
  const double share = links.inside.ring_share / links.inside.copy_share;
  const double found = 8_GiB / time / (share * 250_GBps);
  return found > 1 - 1e-9 && found < 1 + 1e-9;
}

TEST_CASE("measured copies say how fast a link is, of which rings reach their share") {
  using imaginary_device::imaginary;
  CONSTEXPR interconnect measured =
      *interconnect_of({.gpu = *measured_as(imaginary, imaginary_device::in_full)});
  STATIC_CHECK(measured.inside_node == 250_GBps / link_data::nvlink_3.copy_share);
  STATIC_CHECK(interconnect_of({.gpu = imaginary})->inside_node == 300_GBps);
  // what the caller states is the link's own rate
  STATIC_CHECK(interconnect_of({.gpu = *measured_as(imaginary, imaginary_device::in_full),
                                .inside_node = 200_GBps})
                   ->inside_node == 200_GBps);
  // A copy takes one link of a mesh, and two of a cube mesh's six: the others are there too.
  STATIC_CHECK(sends_as_copied("Infinity Fabric", 8) && sends_as_copied("Infinity Fabric", 2));
  STATIC_CHECK(sends_as_copied("NVLink 2", 4) && sends_as_copied("NVLink 2", 8) &&
               sends_as_copied("NVLink 2", 16));
}

// Of large messages, without latency and ramps.
constexpr double ring_rate(const gpu_spec& gpu, std::int64_t in_node, std::int64_t ranks) {
  interconnect links = *interconnect_of({.gpu = gpu, .gpus_per_node = in_node});
  links.launch = links.inside.hop = links.beyond.hop = {};
  links.inside.ramp = links.beyond.ramp = {};
  const device_group group{ranks, ranks};
  const duration time =
      collective_time(collective::all_reduce, 8_GiB, group, links, collective_algorithm::ring);
  return bus_bandwidth(collective::all_reduce, 8_GiB, group, time).value();
}
constexpr bool leads_to(const gpu_spec& gpu,
                        std::int64_t in_node,
                        std::int64_t ranks,
                        double share) {
  const double found = ring_rate(gpu, in_node, ranks) / ring_rate(gpu, in_node, in_node);
  return found / share - 1 < 1e-9 && found / share - 1 > -1e-9;
}

TEST_CASE("links lead where they are wired to") {
  // A V100 has six links: two to each of three others; of a cube mesh four inside a half.
  STATIC_CHECK(leads_to(catalog::v100_sxm2_32gb, 4, 2, 1.0 / 3));
  STATIC_CHECK(leads_to(catalog::v100_sxm2_32gb, 8, 2, 1.0 / 3));
  STATIC_CHECK(leads_to(catalog::v100_sxm2_32gb, 8, 4, 2.0 / 3));
  STATIC_CHECK(leads_to(catalog::v100_sxm2_32gb, 16, 2, 1));  // DGX-2 has a switch
  STATIC_CHECK(leads_to(catalog::mi300x, 8, 2, 1.0 / 7));
  // Bridges join four of these cards.
  STATIC_CHECK(leads_to(catalog::mi210, 4, 2, 1) && leads_to(catalog::mi100, 8, 8, 1));
  STATIC_CHECK(interconnect_of({.gpu = catalog::mi210, .gpus_per_node = 8})->joined == 4);
  STATIC_CHECK(leads_to(catalog::a100_sxm4_80gb, 8, 2, 1));
  // A bridge of 56.25 GB/s each direction joins two; more meet over PCIe, unless a link is stated.
  CONSTEXPR double over_pcie =
      pcie_between_devices(catalog::rtx_a6000) / 1_GBps * link_data::pcie.ring_share;
  STATIC_CHECK(
      leads_to(catalog::rtx_a6000, 8, 2, 56.25 * link_data::nvlink_3.ring_share / over_pcie));
  STATIC_CHECK(leads_to(catalog::rtx_a6000, 8, 4, 1));
  CONSTEXPR interconnect stated =
      *interconnect_of({.gpu = catalog::rtx_a6000, .gpus_per_node = 8, .inside_node = 100_GBps});
  STATIC_CHECK(stated.joined == 0 && stated.inside.kind == "NVLink 3"sv);
  // What PCIe carries is PCIe: a bridge is faster.
  CONSTEXPR interconnect slow =
      *interconnect_of({.gpu = catalog::rtx_a6000, .gpus_per_node = 2, .inside_node = 12_GBps});
  STATIC_CHECK(slow.inside.kind == "PCIe"sv && slow.inside_node == 12_GBps);
  CONSTEXPR bandwidth bus = catalog::rtx_a6000.pcie->each_direction();
  STATIC_CHECK(interconnect_of({.gpu = catalog::rtx_a6000, .inside_node = bus})->inside.kind ==
               "PCIe"sv);
  STATIC_CHECK(
      interconnect_of({.gpu = catalog::rtx_a6000, .inside_node = 1.01 * bus})->inside.kind ==
      "NVLink 3"sv);
  // Of a device without a bridge a slow link is its own all the same.
  STATIC_CHECK(
      interconnect_of({.gpu = catalog::a100_sxm4_80gb, .inside_node = 12_GBps})->inside.kind ==
      "NVLink 3"sv);
}

TEST_CASE("PCIe between devices is what machines let through, unless it is stated") {
  CONSTEXPR bandwidth bus = catalog::rtx_4090.pcie->each_direction();
  CONSTEXPR interconnect found = *interconnect_of({.gpu = catalog::rtx_4090, .gpus_per_node = 4});
  // 20 machines: 4.6 GB/s in the geometric mean.
  STATIC_CHECK(found.inside_node * found.inside.ring_share > 4.4_GBps &&
               found.inside_node * found.inside.ring_share < 5_GBps);
  STATIC_CHECK(found.inside_node == pcie_between_devices(catalog::rtx_4090));
  CONSTEXPR interconnect stated =
      *interconnect_of({.gpu = catalog::rtx_4090, .gpus_per_node = 4, .inside_node = bus});
  STATIC_CHECK(stated.inside_node == bus && stated.inside.kind == "PCIe"sv);
  // Of generation 5 it was measured.
  STATIC_CHECK(interconnect_of({.gpu = catalog::rtx_5090, .gpus_per_node = 4})->inside_node ==
               catalog::rtx_5090.pcie->each_direction());
  STATIC_CHECK(pcie_between_devices(catalog::t4) ==
               catalog::t4.pcie->each_direction() * unknown_pcie_share);
}

TEST_CASE("links are of the GPU's kind") {
  STATIC_CHECK(a100.inside.kind == "NVLink 3"sv && a100.inside.in_switch_share == 0);
  STATIC_CHECK(h200.inside.kind == "NVLink 4"sv && h200.inside.in_switch_share > 0);
  STATIC_CHECK(b200.inside.kind == "NVLink 5"sv && b200.between.kind == "EFA"sv);
  // A bridge has no switch.
  STATIC_CHECK(links_of(catalog::h100_nvl).inside.in_switch_share == 0);
  STATIC_CHECK(links_of(catalog::l40s).inside.kind == "PCIe"sv);
  STATIC_CHECK(links_of(catalog::v100_sxm2_32gb).inside.kind == "NVLink 2"sv);
  STATIC_CHECK(interconnect_of({.gpu = catalog::trainium1}).why().code == errc::not_known);
  // 396.4 and 376 GB/s from an H200 and an H100 to another.
  CONSTEXPR bandwidth copied = copy_bandwidth(h200.inside_node, h200.inside);
  STATIC_CHECK(copied > 376_GBps && copied < 396.4_GBps);
}

TEST_CASE("a link domain of several nodes is as one node") {
  CONSTEXPR cluster trays{.gpu = catalog::gb200,
                          .nodes = 16,
                          .gpus_per_node = 4,
                          .gpus_per_link_domain = 72,
                          .between_nodes = 200_GBps};
  CONSTEXPR cluster whole{
      .gpu = catalog::gb200, .nodes = 1, .gpus_per_node = 64, .between_nodes = 3200_GBps};
  CONSTEXPR interconnect one = *interconnect_of(trays);
  CONSTEXPR interconnect same = *interconnect_of(whole);
  STATIC_CHECK(one.devices_per_node == same.devices_per_node);
  STATIC_CHECK(one.inside_node == same.inside_node && *one.between_nodes == *same.between_nodes);
}

}  // namespace

TEST_CASE("inside a node each takes its launch, its hops, and what a device sends over the rate") {
  // 100 GB/s of which rings reach half, 10 us to launch, 2 us a hop; 8 devices, 1 GB.
  static constexpr interconnect links{
      .inside_node = 100_GBps,
      .between_nodes = {},
      .devices_per_node = 8,
      .inside = {.ring_share = 0.5, .wiring = link_wiring::switched, .hop = 2_us},
      .launch = 10_us};
  const auto takes = [](collective what, std::int64_t ranks, double microseconds) {
    const double found = in(collective_time(what, 1_GB, {ranks, 8}, links), 1_us);
    const double off = found / microseconds - 1;
    return off > -1e-9 && off < 1e-9;
  };
  STATIC_CHECK(takes(collective::all_reduce, 8, 10 + 14 * 2 + 2 * 7.0 / 8 * 20'000));
  STATIC_CHECK(takes(collective::all_gather, 8, 10 + 7 * 2 + 7.0 / 8 * 20'000));
  STATIC_CHECK(takes(collective::reduce_scatter, 8, 10 + 7 * 2 + 7.0 / 8 * 20'000));
  STATIC_CHECK(takes(collective::all_to_all, 8, 10 + 1 * 2 + 7.0 / 8 * 20'000));
  STATIC_CHECK(takes(collective::broadcast, 8, 10 + 7 * 2 + 20'000));
  STATIC_CHECK(takes(collective::broadcast, 2, 10 + 1 * 2 + 20'000));
  STATIC_CHECK(takes(collective::send, 2, 10 + 1 * 2 + 20'000));
}

namespace {

// 100 GB/s in a node and 80 GB/s between nodes, of which rings reach half, and a switch that adds
// at 75 GB/s; 2 us and 30 us a hop, 10 us to launch. Data of 0.1 and 0.2 GB flow at half the rate.
constexpr interconnect with_ramps{.inside_node = 100_GBps,
                                  .between_nodes = 80_GBps,
                                  .devices_per_node = 8,
                                  .inside = {.ring_share = 0.5,
                                             .in_switch_share = 0.75,
                                             .wiring = link_wiring::switched,
                                             .hop = 2_us,
                                             .ramp = 100_MB},
                                  .between = {.ring_share = 0.5, .hop = 30_us, .ramp = 200_MB},
                                  .launch = 10_us};

// Of 1 GB, whether it takes so many microseconds, and beside them what a device sends, in GB, at so
// many GB/s and with a ramp of so many GB.
constexpr bool takes_by_hand(collective what,
                             const device_group& group,
                             double latency,
                             double sent,
                             double rate,
                             double ramp,
                             collective_algorithm by = collective_algorithm::ring,
                             const interconnect& links = with_ramps) {
  const double hand = latency + sent / rate * (1 + ramp / (sent + ramp)) * 1e6;
  const double off = in(collective_time(what, 1_GB, group, links, by), 1_us) / hand - 1;
  return off > -1e-9 && off < 1e-9;
}

}  // namespace

TEST_CASE("rings, trees, switches and all-to-alls are as by hand, in a node and across nodes") {
  constexpr auto tree = collective_algorithm::tree;
  constexpr auto in_switch = collective_algorithm::in_switch;
  STATIC_CHECK(takes_by_hand(collective::all_reduce, {8, 8}, 10 + 14 * 2, 1.75, 50, 0.1));
  STATIC_CHECK(
      takes_by_hand(collective::all_reduce, {8, 8}, 10 + 2 * 2, 1.125, 75, 0.1, in_switch));
  STATIC_CHECK(takes_by_hand(collective::all_reduce, {2, 2}, 10 + 2 * 2, 1.5, 75, 0.1, in_switch));
  STATIC_CHECK(takes_by_hand(collective::all_to_all, {4, 4}, 10 + 2, 0.75, 50, 0.1));
  // Of 30 steps of two nodes' ring a sixteenth for each node is between nodes, at 40 GB/s.
  STATIC_CHECK(
      takes_by_hand(collective::all_reduce, {16, 8}, 10 + 26.25 * 2 + 3.75 * 30, 1.875, 40, 0.2));
  STATIC_CHECK(takes_by_hand(
      collective::all_gather, {16, 8}, 10 + 13.125 * 2 + 1.875 * 30, 0.9375, 40, 0.2));
  // Trees of 2, 3, 5 and 8 nodes are 1, 2, 3 and 3 deep, and a node's chain 7 hops.
  STATIC_CHECK(
      takes_by_hand(collective::all_reduce, {16, 8}, 10 + 14 * 2 + 2 * 30, 1.875, 40, 0.2, tree));
  STATIC_CHECK(takes_by_hand(
      collective::all_reduce, {24, 8}, 10 + 14 * 2 + 4 * 30, 46 / 24.0, 40, 0.2, tree));
  STATIC_CHECK(takes_by_hand(
      collective::all_reduce, {40, 8}, 10 + 14 * 2 + 6 * 30, 78 / 40.0, 40, 0.2, tree));
  STATIC_CHECK(takes_by_hand(
      collective::all_reduce, {64, 8}, 10 + 14 * 2 + 6 * 30, 126 / 64.0, 40, 0.2, tree));
  // Two or one of a node's eight have a quarter or an eighth of its ports.
  STATIC_CHECK(
      takes_by_hand(collective::all_gather, {4, 2}, 10 + 1.5 * 2 + 1.5 * 30, 0.75, 10, 0.2));
  STATIC_CHECK(takes_by_hand(collective::send, {2, 1}, 10 + 30, 1, 5, 0.2));
  STATIC_CHECK(takes_by_hand(collective::broadcast, {2, 1}, 10 + 30, 1, 5, 0.2));
  // Half of each rank's message leaves the node, by an eighth of its ports.
  STATIC_CHECK(takes_by_hand(collective::all_to_all, {16, 8}, 10 + 30, 0.9375, 5 * 1.875, 0.2));
  // Where nodes are joined by more, a quarter goes to the other one in the node, by the node's
  // links.
  CONSTEXPR interconnect wide = [] {
    interconnect made = with_ramps;
    made.between_nodes = 100'000_GBps;
    return made;
  }();
  STATIC_CHECK(takes_by_hand(collective::all_to_all,
                             {4, 2},
                             10 + 30,
                             0.75,
                             50 / 0.25 * 0.75,
                             0.2,
                             collective_algorithm::ring,
                             wide));
  // The faster one is taken: a tree for little, a switch for any.
  STATIC_CHECK(collective_time(collective::all_reduce, 1_KB, {64, 8}, with_ramps) ==
               collective_time(collective::all_reduce, 1_KB, {64, 8}, with_ramps, tree));
  STATIC_CHECK(collective_time(collective::all_reduce, 1_GB, {8, 8}, with_ramps) ==
               collective_time(collective::all_reduce, 1_GB, {8, 8}, with_ramps, in_switch));
}

TEST_CASE("what nccl-tests print is what a ring would send over the time") {
  const auto prints = [](collective what) {
    return bus_bandwidth(what, 8_GB, {4, 4}, 2_s) / 1_GBps;
  };
  STATIC_CHECK(prints(collective::all_reduce) == 6);
  STATIC_CHECK(prints(collective::all_gather) == 3);
  STATIC_CHECK(prints(collective::reduce_scatter) == 3);
  STATIC_CHECK(prints(collective::all_to_all) == 3);
  STATIC_CHECK(prints(collective::broadcast) == 4);
  STATIC_CHECK(prints(collective::send) == 4);
}

constexpr cluster without_bridge(gpu_spec gpu, std::int64_t gpus) {
  gpu.peers = {};
  return {.gpu = gpu, .gpus_per_node = gpus};
}

TEST_CASE("what is stated of a cluster's links is taken in place of their kind's") {
  CONSTEXPR interconnect links = *interconnect_of({.gpu = catalog::a100_sxm4_80gb,
                                                   .nodes = 4,
                                                   .gpus_per_node = 8,
                                                   .between_nodes = 200_GBps,
                                                   .collective_launch = 21_us,
                                                   .hop_between = 9_us});
  STATIC_CHECK(links.between.hop == 9_us && links.launch == 21_us);
  STATIC_CHECK(*links.between_nodes == 200_GBps && links.devices_per_node == 8);
  STATIC_CHECK(links.joined == 0 && a100.launch == collective_launch);
  // A bridge of a device without peers is none, and one that joins leads beyond by PCIe.
  CONSTEXPR interconnect bridged =
      *interconnect_of({.gpu = catalog::rtx_a6000, .gpus_per_node = 4});
  STATIC_CHECK(bridged.joined == catalog::rtx_a6000.peers->joins);
  STATIC_CHECK(bridged.beyond_bridge == pcie_between_devices(catalog::rtx_a6000));
  // More than it joins are as fast as without it.
  CONSTEXPR interconnect by_pcie = *interconnect_of(without_bridge(catalog::rtx_a6000, 4));
  CONSTEXPR auto takes = [](bytes message, std::int64_t ranks, const interconnect& links) {
    return collective_time(collective::all_reduce, message, {ranks, ranks}, links);
  };
  STATIC_CHECK(takes(64_KiB, 4, bridged) == takes(64_KiB, 4, by_pcie));
  STATIC_CHECK(takes(1_GiB, 4, bridged) == takes(1_GiB, 4, by_pcie));
  STATIC_CHECK(takes(1_GiB, 2, bridged) < takes(1_GiB, 2, by_pcie));
  // Who is alone in its node needs no link there.
  CONSTEXPR auto alone = interconnect_of(
      {.gpu = catalog::gb10, .nodes = 2, .gpus_per_node = 1, .between_nodes = 25_GBps});
  STATIC_CHECK(alone);
  STATIC_CHECK(!interconnect_of({.gpu = catalog::gb10, .gpus_per_node = 2}));
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
TEST_CASE("a collective has the links and the algorithm that it asks for, and a message") {
  const auto is_refused = [](bytes message,
                             const device_group& group,
                             const interconnect& links,
                             collective_algorithm by = collective_algorithm::fastest,
                             collective what = collective::all_reduce) {
    CHECK_THROWS_AS(static_cast<void>(collective_time(what, message, group, links, by)),
                    plan_error);
  };
  is_refused(-1_GB, {8, 8}, h200);
  is_refused(bytes::from_value(1 / 0.0), {8, 8}, h200);
  is_refused(1_GB, {16, 8}, links_of(catalog::h200_sxm));
  interconnect none = h200;
  none.between_nodes = 0_GBps;
  is_refused(1_GB, {16, 8}, none);
  CHECK(collective_time(collective::all_reduce, 1_GB, {8, 8}, none) > 0_s);
  none.inside_node = 0_GBps;
  is_refused(1_GB, {8, 8}, none);
  is_refused(1_GB, {8, 8}, h200, collective_algorithm::tree);
  is_refused(1_GB, {16, 8}, h200, collective_algorithm::in_switch);
  is_refused(1_GB, {8, 8}, a100, collective_algorithm::in_switch);
  is_refused(1_GB, {8, 8}, h200, collective_algorithm::in_switch, collective::all_gather);
  CHECK_THROWS_AS(static_cast<void>(group_of(0, 1, 8)), plan_error);
  CHECK_THROWS_AS(static_cast<void>(group_of(1, 0, 8)), plan_error);
  CHECK_THROWS_AS(static_cast<void>(group_of(1, 1, 0)), plan_error);
  CHECK(group_of(1, 1, 1).per_node == 1);
}
TEST_CASE("a group has ranks, in each of its nodes too") {
  for (const device_group& group : {device_group{0, 8}, device_group{8, 0}, device_group{-1, -1}})
    CHECK_THROWS_AS(static_cast<void>(collective_time(collective::all_gather, 1_GB, group, h200)),
                    plan_error);
}
#endif

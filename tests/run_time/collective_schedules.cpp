// Rings beside a simulation of every step that every rank takes, and ways through the ports of
// nodes beside a count of what passes them.

#include <doctest/doctest.h>

#include <gpuplan/communication.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

using namespace gpuplan;

namespace {

struct random_numbers {
  std::mt19937 engine{20260827};
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine);
  }
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); }
};

// Links whose large messages have the rates given, with no ramp: the steps alone.
detail::interconnect_numbers links_of(
    double inside, double between, double inside_hop, double between_hop, double devices) {
  return {{inside, 0, inside_hop, 0}, {between, 0, between_hop, 0}, 0, devices};
}

// Ranks in a ring pass 1/n of a message in each of so many steps. A rank sends what it got in the
// step before, when its link is free.
double simulate_ring(const detail::interconnect_numbers& links,
                     const device_group& group,
                     double message,
                     int steps) {
  const int n = static_cast<int>(group.ranks);
  const auto part = message / n;
  std::vector<double> came(static_cast<std::size_t>(n), 0);  // to each rank, in the step before
  std::vector<double> free_at(static_cast<std::size_t>(n), 0);
  double end = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> comes(static_cast<std::size_t>(n), 0);
    for (int rank = 0; rank < n; ++rank) {
      const auto from = static_cast<std::size_t>(rank);
      const auto to = static_cast<std::size_t>((rank + 1) % n);
      const bool leaves = group.nodes() > 1 && (rank + 1) % static_cast<int>(group.per_node) == 0;
      // The groups of a node's other devices use its ports too.
      const double ports =
          links.between.rate * static_cast<double>(group.per_node) / links.devices_per_node;
      const double sent =
          std::max(came[from], free_at[from]) + part / (leaves ? ports : links.inside.rate);
      free_at[from] = sent;
      comes[to] = sent + (leaves ? links.between.hop : links.inside.hop);
      end = std::max(end, comes[to]);
    }
    came = comes;
  }
  return end;
}

}  // namespace

TEST_CASE("a ring inside a node takes what its steps take") {
  random_numbers random;
  for (int i = 0; i < 1000; ++i) {
    const int n = random.whole(2, 16);
    const auto links = links_of(random.real(1e10, 1e12), 0, random.real(0, 1e-5), 0, 16);
    const double message = random.real(1e3, 1e9);
    const device_group group{n, n};
    CHECK(detail::all_reduce_communication(links, {n, n}).ring.seconds(message) ==
          doctest::Approx(simulate_ring(links, group, message, 2 * (n - 1))).epsilon(1e-9));
    CHECK(detail::all_gather_communication(links, {n, n}).seconds(message) ==
          doctest::Approx(simulate_ring(links, group, message, n - 1)).epsilon(1e-9));
  }
}

TEST_CASE("a ring across nodes takes what its slowest link and its hops take") {
  random_numbers random;
  double sum = 0;
  const int count = 1000;
  for (int i = 0; i < count; ++i) {
    const int per_node = 1 << random.whole(0, 3);
    const int n = per_node * random.whole(2, 8);
    const auto links = links_of(random.real(2e11, 5e11),
                                random.real(1e10, 4e11),
                                random.real(0, 1e-6),
                                random.real(1e-6, 1e-5),
                                8);
    const double message = random.real(1e6, 1e9);
    const double simulated = simulate_ring(links, {n, per_node}, message, 2 * (n - 1));
    const double closed =
        detail::all_reduce_communication(links, {n, per_node}).ring.seconds(message);
    // Parts that wait at a slow link hide hops, which the closed form counts one by one.
    const double hops = detail::all_reduce_communication(links, {n, per_node}).ring.latency;
    CHECK(std::abs(closed - simulated) < hops);
    sum += closed / simulated - 1;
  }
  INFO("mean ", sum / count);
  CHECK(sum / count < 0.02);
}

TEST_CASE("what passes a device's links in the switch's sums") {
  // Each of n devices has the sums of 1/n of the message: the switch reads that part from all of
  // them, and what a device has summed goes out once and comes to all.
  for (int n = 2; n <= 8; ++n) {
    std::vector<double> out(static_cast<std::size_t>(n), 0);
    std::vector<double> in(static_cast<std::size_t>(n), 0);
    for (int owner = 0; owner < n; ++owner) {
      for (double& read : out) read += 1.0 / n;
      in[static_cast<std::size_t>(owner)] += 1.0 / n;
      out[static_cast<std::size_t>(owner)] += 1.0 / n;
      for (double& written : in) written += 1.0 / n;
    }
    const double busiest = std::max(*std::max_element(out.begin(), out.end()),
                                    *std::max_element(in.begin(), in.end()));
    const detail::interconnect_numbers links{{1e9, 2e9, 0, 0}, {}, 0, 8};
    CHECK(detail::all_reduce_communication(links, {n, n}).other.seconds(1e9) ==
          doctest::Approx(busiest / 2).epsilon(1e-12));
  }
}

TEST_CASE("what passes the ports of nodes in an all-to-all") {
  random_numbers random;
  for (int i = 0; i < 300; ++i) {
    const int devices = 8;
    const int per_node = 1 << random.whole(0, 3);
    const int nodes = random.whole(2, 6);
    const int n = per_node * nodes;
    const auto links = links_of(random.real(1e11, 5e11), random.real(1e10, 4e11), 0, 0, devices);
    // Every pair of ranks of every group that the nodes' devices are in.
    double leaves_a_node = 0;
    double stays = 0;
    for (int from = 0; from < per_node; ++from)
      for (int to = 0; to < n; ++to) {
        if (to / per_node != 0) leaves_a_node += 1.0 / n;
        if (to / per_node == 0 && to != from) stays += 1.0 / n;
      }
    const int groups = devices / per_node;
    const double by_ports = groups * leaves_a_node / links.between.rate;
    const double inside = stays / per_node / links.inside.rate;
    CHECK(detail::all_to_all_communication(links, {n, per_node}).seconds(1e9) ==
          doctest::Approx(1e9 * std::max(by_ports, inside)).epsilon(1e-12));
  }
}

TEST_CASE("more bandwidth never slows a collective, nor does a smaller message") {
  random_numbers random;
  for (int i = 0; i < 2000; ++i) {
    interconnect links{.inside_node = bandwidth::from_value(random.real(1e10, 9e11)),
                       .between_nodes = bandwidth::from_value(random.real(1e9, 4e11)),
                       .devices_per_node = 8,
                       .inside = link_data::nvlink_4};
    if (random.whole(0, 1) == 1) links.inside = link_data::nvlink_5;
    if (random.whole(0, 1) == 1) links.between = link_data::efa;
    interconnect faster = links;
    faster.inside_node = links.inside_node * random.real(1, 3);
    faster.between_nodes = *links.between_nodes * random.real(1, 3);
    const int per_node = 1 << random.whole(0, 3);
    const device_group group{per_node * random.whole(1, 64), per_node};
    const bytes message = bytes::from_value(random.real(0, 1e9));
    for (const collective what : {collective::all_reduce,
                                  collective::all_gather,
                                  collective::reduce_scatter,
                                  collective::all_to_all,
                                  collective::broadcast,
                                  collective::send}) {
      const duration time = collective_time(what, message, group, links);
      CHECK(collective_time(what, message, group, faster) <= time);
      CHECK(collective_time(what, message * random.real(0, 1), group, links) <= time);
    }
  }
}

TEST_CASE("a collective that there cannot be is refused, and why is said") {
  const interconnect links{.inside_node = 300_GBps,
                           .between_nodes = 50_GBps,
                           .devices_per_node = 8,
                           .inside = link_data::nvlink_4};
  const auto flaw_of = [](const device_group& group,
                          const interconnect& by,
                          bytes message = 1_MB,
                          collective_algorithm algorithm = collective_algorithm::fastest,
                          collective what = collective::all_reduce) -> failure {
    try {
      static_cast<void>(collective_time(what, message, group, by, algorithm));
    } catch (const plan_error& error) {
      return error.why();
    }
    return {};
  };
  const device_group node{8, 8};
  const device_group two{16, 8};
  CHECK(flaw_of(node, links).code == errc::none);
  CHECK(flaw_of(two, links).code == errc::none);
  CHECK(flaw_of({1, 1}, links).code == errc::none);
  CHECK(flaw_of({0, 8}, links).code == errc::not_positive);
  CHECK(flaw_of({8, 0}, links).code == errc::not_positive);

  interconnect alone = links;
  alone.between_nodes = {};
  CHECK(flaw_of(node, alone).code == errc::none);
  CHECK(flaw_of(two, alone) == failure(errc::not_known).about(fact::between_nodes));
  CHECK(flaw_of({9, 8}, alone) == failure(errc::not_known).about(fact::between_nodes));
  alone.between_nodes = bandwidth{};
  CHECK(flaw_of(node, alone).code == errc::none);
  CHECK(flaw_of(two, alone) == failure(errc::not_positive).about(fact::link_rate));
  interconnect without = links;
  without.inside_node = bandwidth{};
  CHECK(flaw_of(node, without) == failure(errc::not_positive).about(fact::link_rate));

  CHECK(flaw_of(node, links, 0_B).code == errc::none);
  for (const double size : {-1.0, -HUGE_VAL, HUGE_VAL, std::nan("")})
    CHECK(flaw_of(node, links, bytes::from_value(size)) ==
          failure(errc::negative).about(fact::message));

  // Trees are of nodes, switches inside one.
  const failure none = failure(errc::not_known).about(fact::algorithm);
  for (const collective_algorithm algorithm :
       {collective_algorithm::tree, collective_algorithm::in_switch}) {
    const bool across = algorithm == collective_algorithm::tree;
    CHECK(flaw_of(across ? two : node, links, 1_MB, algorithm).code == errc::none);
    CHECK(flaw_of(across ? node : two, links, 1_MB, algorithm) == none);
    CHECK(flaw_of(across ? two : node, links, 1_MB, algorithm, collective::all_gather) == none);
  }
  CHECK(flaw_of(node, links, 1_MB, collective_algorithm::ring, collective::send).code ==
        errc::none);
}

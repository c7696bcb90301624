#pragma once

// What collectives cost, in plain numbers: seconds, bytes, bytes per second. The coefficients of an
// exchange depend on the group and the links alone, so that a loop over message sizes reads them
// from a table. Private.

#include <gpuplan/detail/integer.hpp>

#include <cstdint>

namespace gpuplan::detail {

// The seconds of one algorithm on a message of so many bytes:
// latency + bytes * per_byte * (1 + ramp / (bytes + ramp)).
struct communication_line {
  double latency = 0;
  double per_byte = 0;
  double ramp = 0;  // bytes of message below which data flow at about half the rate

  [[nodiscard]] constexpr double seconds(double bytes) const {
    const double sum = bytes + ramp;
    return latency + bytes * per_byte * (sum > 0 ? 1 + ramp / sum : 1);
  }
};

// The faster of two algorithms, as the library that communicates chooses it.
struct communication {
  communication_line ring{};
  communication_line other{};
  bool has_other = false;

  [[nodiscard]] constexpr double seconds(double bytes) const {
    const double by_ring = ring.seconds(bytes);
    if (!has_other) return by_ring;
    const double by_other = other.seconds(bytes);
    return by_other < by_ring ? by_other : by_ring;
  }
};

// Links as collectives see them.
struct link_numbers {
  double rate = 0;       // of large messages: bytes per second of one device in a ring
  double in_switch = 0;  // likewise where the switch adds; 0 where it cannot
  double hop = 0;        // seconds of one step
  double ramp = 0;       // bytes that a device sends
  bool mesh = false;     // each pair has its own link: few devices have a part of the rate
};
struct interconnect_numbers {
  link_numbers inside{};   // of one device to the others of its node
  link_numbers between{};  // of one node to the others; rate 0: there are none
  double launch = 0;       // seconds of a collective that moves nothing
  double devices_per_node = 1;
};

// Devices that communicate: `ranks`, `per_node` of them in each node that has any.
struct group_numbers {
  std::int64_t ranks = 1;
  std::int64_t per_node = 1;

  [[nodiscard]] constexpr std::int64_t nodes() const { return ceil_div(ranks, per_node); }
};

// Steps in a row of a tree of so many leaves.
[[nodiscard]] constexpr double depth(std::int64_t leaves) {
  int levels = 0;
  for (std::int64_t rest = leaves - 1; rest > 0; rest /= 2) ++levels;
  return levels;
}

// The rate of one device to so many of its node, itself included.
[[nodiscard]] constexpr double rate_inside(const interconnect_numbers& links,
                                           std::int64_t devices) {
  const bool all = !links.inside.mesh || links.devices_per_node < 2;
  return all ? links.inside.rate
             : links.inside.rate * static_cast<double>(devices - 1) / (links.devices_per_node - 1);
}

// What a ring sends from each device is `share` of the message, in `steps` steps. It passes each
// node's ports once; the groups of a node share these.
[[nodiscard]] constexpr communication_line ring_line(const interconnect_numbers& links,
                                                     const group_numbers& group,
                                                     double share,
                                                     double steps) {
  if (group.ranks < 2) return {};
  const auto nodes = static_cast<double>(group.nodes());
  if (group.nodes() < 2)
    return {links.launch + steps * links.inside.hop,
            share / rate_inside(links, group.ranks),
            links.inside.ramp / share};
  const auto per_node = static_cast<double>(group.per_node);
  const double crossing = steps * nodes / static_cast<double>(group.ranks);
  const double ports = links.between.rate * per_node / links.devices_per_node;
  const double inside = rate_inside(links, group.per_node);
  const double rate = group.per_node > 1 && inside < ports ? inside : ports;
  return {links.launch + (steps - crossing) * links.inside.hop + crossing * links.between.hop,
          share / rate,
          links.between.ramp / share};
}

[[nodiscard]] constexpr communication all_gather_communication(const interconnect_numbers& links,
                                                               const group_numbers& group) {
  const auto n = static_cast<double>(group.ranks);
  return {ring_line(links, group, (n - 1) / n, n - 1), {}, false};
}

// Inside a node the switch may add: of a message each device then sends all, and 1/n of the sums.
// Across nodes it may be a pair of trees of nodes, with a chain of devices in each, which carries
// as much as a ring and has fewer steps.
[[nodiscard]] constexpr communication all_reduce_communication(const interconnect_numbers& links,
                                                               const group_numbers& group) {
  const auto n = static_cast<double>(group.ranks);
  communication found{ring_line(links, group, 2 * (n - 1) / n, 2 * (n - 1)), {}, false};
  if (group.nodes() > 1) {
    found.other = ring_line(links, group, 2 * (n - 1) / n, 0);
    found.other.latency += 2 * static_cast<double>(group.per_node - 1) * links.inside.hop +
                           2 * depth(group.nodes()) * links.between.hop;
    found.has_other = true;
  } else if (group.ranks > 1 && links.inside.in_switch > 0) {
    const double share = 1 + 1 / n;
    found.other = {links.launch + 2 * links.inside.hop,
                   share / links.inside.in_switch,
                   links.inside.ramp / share};
    found.has_other = true;
  }
  return found;
}

// Every device sends 1/n of its message to each other one; those in other nodes wait for the ports.
[[nodiscard]] constexpr communication all_to_all_communication(const interconnect_numbers& links,
                                                               const group_numbers& group) {
  const auto n = static_cast<double>(group.ranks);
  if (group.nodes() < 2) return {ring_line(links, group, (n - 1) / n, 1), {}, false};
  const auto per_node = static_cast<double>(group.per_node);
  const double out = (n - per_node) / n / (links.between.rate / links.devices_per_node);
  const double in =
      group.per_node > 1 ? (per_node - 1) / n / rate_inside(links, group.per_node) : 0;
  return {{links.launch + links.between.hop, out > in ? out : in, links.between.ramp * n / (n - 1)},
          {},
          false};
}

[[nodiscard]] constexpr communication broadcast_communication(const interconnect_numbers& links,
                                                              const group_numbers& group) {
  return {ring_line(links, group, 1, static_cast<double>(group.ranks - 1)), {}, false};
}

// From one device to another, while the others of the node do the same.
[[nodiscard]] constexpr communication send_communication(const interconnect_numbers& links,
                                                         bool between_nodes) {
  return {ring_line(links, {2, between_nodes ? 1 : 2}, 1, 1), {}, false};
}

}  // namespace gpuplan::detail

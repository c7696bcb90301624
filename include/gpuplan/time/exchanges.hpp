#pragma once

// How long ranks of a division exchange data, by where they lie in the cluster.

#include <gpuplan/cluster.hpp>
#include <gpuplan/detail/math.hpp>

#include <cstdint>

namespace gpuplan {

/// A cluster as collectives see it, in base units.
struct exchange_links {
  double inside = 0;     // byte/s of one rank's bus inside a node
  double half_size = 0;  // bytes of a message at which half of that is reached
  double outside = 0;    // byte/s of a node's adapters together
  double latency_inside = 0;
  double latency_outside = 0;
  std::int64_t ranks_per_node = 1;
};

[[nodiscard]] constexpr exchange_links exchange_links_of(const cluster& on, bool with_latency) {
  const auto inside = link_inside_node(on);
  const auto outside = link_between_nodes(on);
  return {.inside = inside ? inside->value() * 0.78 : detail::infinity,
          .half_size = with_latency ? 15e6 : 0,
          .outside = outside ? outside->value() * 0.88 : detail::infinity,
          .latency_inside = with_latency ? 30e-6 : 0,
          .latency_outside = with_latency ? 30e-6 : 0,
          .ranks_per_node = on.gpus_per_node};
}

/// Where the ranks of a group lie: so many of them in a node.
struct rank_group {
  std::int64_t ranks = 1;
  std::int64_t in_node = 1;
};

/// A group of `ranks` whose neighbours are `stride` ranks apart.
[[nodiscard]] constexpr rank_group group_of(std::int64_t ranks,
                                            std::int64_t stride,
                                            const exchange_links& links) {
  const std::int64_t room = links.ranks_per_node / stride;
  const std::int64_t here = room < 1 ? 1 : room;
  return {ranks, here < ranks ? here : ranks};
}

namespace detail {

// (n-1)/n * bytes around a ring.
constexpr double ring_pass_time(double size, const rank_group& group, const exchange_links& links) {
  if (group.ranks <= 1 || size <= 0) return 0;
  const double ranks = static_cast<double>(group.ranks);
  const double share = (ranks - 1) / ranks;
  const double inside = links.latency_inside + share * (size + links.half_size) / links.inside;
  if (group.ranks <= group.in_node) return inside;
  const double rate = links.outside * static_cast<double>(group.in_node) /
                      static_cast<double>(links.ranks_per_node);
  const double outside = links.latency_outside + share * size / rate;
  if (group.in_node == 1) return outside;
  return inside > outside ? inside : outside;
}

}  // namespace detail

[[nodiscard]] constexpr double all_gather_time(double size,
                                               const rank_group& group,
                                               const exchange_links& links) {
  return detail::ring_pass_time(size, group, links);
}
[[nodiscard]] constexpr double all_reduce_time(double size,
                                               const rank_group& group,
                                               const exchange_links& links) {
  return 2 * detail::ring_pass_time(size, group, links);
}
[[nodiscard]] constexpr double all_to_all_time(double size,
                                               const rank_group& group,
                                               const exchange_links& links) {
  if (group.ranks <= 1) return 0;
  const double ranks = static_cast<double>(group.ranks);
  const double here = static_cast<double>(group.in_node);
  const double inside = links.latency_inside + size * (here - 1) / ranks / links.inside;
  if (group.ranks <= group.in_node) return inside;
  const double rate = links.outside / static_cast<double>(links.ranks_per_node);
  const double outside = links.latency_outside + size * (ranks - here) / ranks / rate;
  return inside > outside ? inside : outside;
}
[[nodiscard]] constexpr double ring_time(double size,
                                         const rank_group& group,
                                         const exchange_links& links) {
  const double rate = group.ranks <= group.in_node
                          ? links.inside
                          : links.outside / static_cast<double>(links.ranks_per_node) *
                                static_cast<double>(group.in_node);
  return links.latency_inside + size / rate;
}
[[nodiscard]] constexpr double send_time(double size,
                                         std::int64_t ranks_between,
                                         const exchange_links& links) {
  if (ranks_between < links.ranks_per_node) return links.latency_inside + size / links.inside;
  return links.latency_outside + size / (links.outside / static_cast<double>(links.ranks_per_node));
}

}  // namespace gpuplan

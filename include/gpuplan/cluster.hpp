#pragma once

// What there is to run on: nodes of like GPUs, their links, price, queue and power. Plain data, and
// its totals; clusters of several kinds of nodes are described one kind at a time.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// A price per GPU, with the day on which it was true.
struct dated_price {
  price each{};             // `3_usd_per_hour`
  const char* date = "";    // "2026-08-27"
  const char* source = "";  // who asks it
};

/// What nodes are linked by. Ethernet with RDMA (RoCE) counts as InfiniBand.
enum class network_kind { infiniband, efa, omni_path };

/// Like nodes with like GPUs. What is not known is absent.
struct cluster {
  const char* name = "";
  gpu_spec gpu{};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  // GPUs that their own links join at most, where these lead from node to node: 72 of an NVL72,
  // whose nodes are trays of 4. 0: those of a node.
  std::int64_t gpus_per_link_domain = 0;
  known<bandwidth> inside_node{};    // of one GPU, each direction: see link_inside_node
  known<bandwidth> between_nodes{};  // of one node, each direction, all adapters together
  network_kind network = network_kind::infiniband;
  known<duration>
      collective_launch{};        // of one that moves nothing; else as communication.hpp has it
  known<duration> hop_between{};  // of one step of a collective from node to node, likewise
  known<dated_price> price_per_gpu{};
  known<range<duration>> time_in_queue{};  // from submission to start
  known<power> power_per_gpu{};            // with its share of the host: see total_power
};

/// The cluster itself where it has a node with a GPU and what is known of it makes sense. Errors:
/// those of the GPU; `out_of_bounds` (nodes, GPUs per node, 10^9 s of a collective),
/// `not_a_multiple` (of GPUs per node, the GPUs of a link domain), `overflow`, `not_positive` or
/// `not_finite` (links, power), `negative` (price, queue), `undated_price`.
[[nodiscard]] constexpr result<cluster> validate(const cluster& given) {
  using detail::failed;
  if (const failure why = detail::check_at_least(given.nodes, 1, fact::nodes); failed(why))
    return why;
  if (const failure why = detail::check_at_least(given.gpus_per_node, 1, fact::gpus_per_node);
      failed(why))
    return why;
  if (!detail::checked_product(given.nodes, given.gpus_per_node).ok)
    return failure(errc::overflow,
                   named_fact{fact::nodes, given.nodes},
                   named_fact{fact::gpus_per_node, given.gpus_per_node});
  if (const failure why =
          detail::check_at_least(given.gpus_per_link_domain, 0, fact::gpus_per_link_domain);
      failed(why))
    return why;
  if (given.gpus_per_link_domain % given.gpus_per_node != 0)
    return failure(errc::not_a_multiple,
                   named_fact{fact::gpus_per_link_domain, given.gpus_per_link_domain},
                   named_fact{fact::gpus_per_node, given.gpus_per_node});
  if (const failure why = detail::flaw_of_gpu(given.gpu); failed(why)) return why;
  const auto link = [](const known<bandwidth>& rate, fact name) {
    return rate ? detail::check_positive(*rate, 1_GBps, fact::MBps, name) : failure();
  };
  if (const failure why = link(given.inside_node, fact::inside_node); failed(why)) return why;
  if (const failure why = link(given.between_nodes, fact::between_nodes); failed(why)) return why;
  const auto latency = [](const known<duration>& time, fact name) {
    const std::int64_t most_seconds = 1'000'000'000;
    if (!time) return failure();
    if (detail::is_finite(time->value()) && time->value() > static_cast<double>(most_seconds))
      return failure(errc::out_of_bounds, named_fact{fact::at_most, most_seconds}).about(name);
    if (detail::is_finite(time->value()) && *time >= duration{}) return failure();
    return failure(detail::is_finite(time->value()) ? errc::negative : errc::not_finite)
        .about(name);
  };
  if (const failure why = latency(given.collective_launch, fact::collective_launch); failed(why))
    return why;
  if (const failure why = latency(given.hop_between, fact::hop_between); failed(why)) return why;
  if (given.power_per_gpu) {
    const failure why =
        detail::check_positive(*given.power_per_gpu, 1_W, fact::milliwatts, fact::power_per_gpu);
    if (failed(why)) return why;
  }
  if (given.price_per_gpu) {
    const price each = given.price_per_gpu->each;
    if (!detail::is_finite(each.value()))
      return failure(errc::not_finite, named_fact{fact::price_per_gpu, each.value()});
    if (each < price{})
      return failure(
                 errc::negative,
                 named_fact{fact::cents_per_hour, detail::thousandths(in(each, 10_usd_per_hour))})
          .about(fact::price_per_gpu);
    if (*given.price_per_gpu->date == '\0')
      return failure(errc::undated_price).about(fact::price_per_gpu);
  }
  if (given.time_in_queue) {
    const range<duration> wait = *given.time_in_queue;
    if (wait.low() < 0_s)
      return failure(errc::negative,
                     named_fact{fact::time_us, detail::thousandths(in(wait.low(), 1_ms))})
          .about(fact::time_in_queue);
    if (!detail::is_finite(wait.high().value()))
      return failure(errc::not_finite, named_fact{fact::time_in_queue, wait.high().value()});
  }
  return given;
}

/// `nodes * gpus_per_node`. Precondition, here and below: `validate` accepts the cluster.
[[nodiscard]] constexpr std::int64_t total_gpus(const cluster& given) {
  return given.nodes * given.gpus_per_node;
}

/// The GPUs that their own links join: those of a node, or of a link domain. A job is in as few
/// domains as hold its nodes, equally many in each as far as they go: 256 GPUs in four of 64, of
/// domains of 72.
[[nodiscard]] constexpr std::int64_t linked_gpus(const cluster& given) {
  const std::int64_t most = given.gpus_per_link_domain / given.gpus_per_node;
  if (most < 2) return given.gpus_per_node;
  const std::int64_t domains = detail::ceil_div(given.nodes, most);
  return detail::ceil_div(given.nodes, domains) * given.gpus_per_node;
}

/// The `usable_memory` of all GPUs together.
[[nodiscard]] constexpr bytes total_memory(const cluster& given) {
  return total_gpus(given) * usable_memory(given.gpu);
}

/// The dense `peak` of all GPUs together. Errors: `unsupported_format`.
[[nodiscard]] constexpr result<compute_rate> total_peak(const cluster& given,
                                                        number_format format,
                                                        accumulator sum = accumulator::fp32) {
  const auto each = peak(given.gpu, format, sum);
  if (!each) return each;
  return total_gpus(given) * *each;
}

/// What all GPUs draw at most: `power_per_gpu` where it is stated, else their TDP, without the
/// host; cooling is in neither. Errors: `not_known`, `not_finite`.
[[nodiscard]] constexpr result<power> total_power(const cluster& given) {
  const known<power> each = given.power_per_gpu ? given.power_per_gpu : given.gpu.tdp;
  if (!each) return failure(errc::not_known).about(fact::power_per_gpu);
  return detail::finite_answer(power(total_gpus(given) * *each), fact::power_per_gpu);
}

/// The `matmul_ceiling` of all GPUs together. Errors: `unsupported_format`.
[[nodiscard]] constexpr result<ceiling<compute_rate>> total_matmul_ceiling(
    const cluster& given, number_format format, accumulator sum = accumulator::fp32) {
  const auto each = matmul_ceiling(given.gpu, format, sum);
  if (!each) return each;
  return ceiling<compute_rate>{total_gpus(given) * each->value, each->origin};
}

/// What one GPU sends to the others of its node, or of its link domain: `inside_node` where it is
/// stated, else what its `peer_ceiling` says. Of a link's own rate, each direction, collectives
/// reach 70 to 90 %; a measured one is what copies reach already. Of a bridge: to those that it
/// joins; collectives among more take PCIe, unless `inside_node` is stated. Of a device alone in
/// its node, which sends nothing there, and of which nothing is known, the rate between nodes.
/// Errors: `not_known`.
[[nodiscard]] constexpr result<ceiling<bandwidth>> inside_node_ceiling(const cluster& given) {
  if (given.inside_node) return ceiling<bandwidth>{*given.inside_node, ceiling_origin::stated};
  const auto link = peer_ceiling(given.gpu);
  if (!link && linked_gpus(given) == 1 && given.between_nodes)
    return ceiling<bandwidth>{*given.between_nodes, ceiling_origin::stated};
  if (!link) return failure(errc::not_known).about(fact::inside_node);
  return link;
}

/// The rate of `inside_node_ceiling`. Errors: `not_known`.
[[nodiscard]] constexpr result<bandwidth> link_inside_node(const cluster& given) {
  const auto link = inside_node_ceiling(given);
  if (!link) return link.why();
  return link->value;
}

/// What one node sends to the others, each direction. Errors: `not_known`.
[[nodiscard]] constexpr result<bandwidth> link_between_nodes(const cluster& given) {
  if (given.between_nodes) return *given.between_nodes;
  return failure(errc::not_known).about(fact::between_nodes);
}

}  // namespace gpuplan

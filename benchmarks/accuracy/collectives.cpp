#include "collectives.hpp"

#include <gpuplan/catalog/gpus.hpp>

#include <charconv>
#include <optional>
#include <string_view>

namespace accuracy {
namespace {

using namespace gpuplan::literals;
using gpuplan::collective;
using gpuplan::collective_algorithm;

constexpr std::int64_t devices_of_a_node = 8;  // of all machines in the table

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The number before "GB/s per GPU".
std::optional<double> ports_of_a_device(std::string_view link) {
  const std::size_t end = link.find("GB/s per GPU");
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t space = link.rfind(' ', end);
  const std::size_t begin = space == std::string_view::npos ? 0 : space + 1;
  double rate = 0;
  const auto [last, error] = std::from_chars(link.data() + begin, link.data() + end, rate);
  if (error != std::errc{} || last != link.data() + end) return std::nullopt;
  return rate;
}

std::optional<collective> kind_of(const row& source) {
  const std::string_view name = source.text("collective");
  if (name == "all_reduce") return collective::all_reduce;
  if (name == "all_gather") return collective::all_gather;
  if (name == "reduce_scatter") return collective::reduce_scatter;
  if (name == "all_to_all" || name == "alltoall") return collective::all_to_all;
  if (name == "broadcast") return collective::broadcast;
  if (name == "sendrecv" || name == "p2p") return collective::send;
  return std::nullopt;
}

collective_algorithm algorithm_of(std::string_view name) {
  if (name.starts_with("Ring")) return collective_algorithm::ring;
  if (name.starts_with("Tree")) return collective_algorithm::tree;
  if (name == "NVLS") return collective_algorithm::in_switch;
  return collective_algorithm::fastest;
}

// Two digits that count are the least that can be compared with.
bool is_printed_too_short(std::string_view cell) {
  int digits = 0;
  for (const char c : cell)
    if (c != '.' && (c != '0' || digits > 0)) ++digits;
  return digits < 2;
}

}  // namespace

described_collective describe_collective(const row& source) {
  described_collective found;
  const std::int64_t ranks = source.integer_or("gpus", 0);
  const std::int64_t nodes = source.integer_or("nodes", 1);
  if (ranks < 1) source.fail("gpus", "is not at least 1");
  if (nodes < 1 || nodes > ranks) source.fail("nodes", "is not from 1 to the number of GPUs");
  found.system = std::string(source.text("gpu")) + " x " + std::to_string(nodes);
  found.group = {ranks, (ranks + nodes - 1) / nodes};
  found.by = algorithm_of(source.text("algo"));
  found.is_copy = source.text("algo") == "copy";
  const auto message = source.number("bytes");
  if (message) found.message = gpuplan::bytes::from_value(*message);

  gpuplan::cluster on{.nodes = nodes, .gpus_per_node = devices_of_a_node};
  if (const auto ports = ports_of_a_device(source.text("link")))
    on.between_nodes = devices_of_a_node * *ports * 1_GBps;
  if (has(source.text("link"), "EFA")) on.network = gpuplan::network_kind::efa;
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (gpu) on.gpu = *gpu;
  if (has(source.text("collective"), "host")) on.gpu.peers = {};  // a copy by PCIe
  if (const auto links = interconnect_of(on)) found.links = *links;

  if (source.text("gpu").empty())
    found.why_not = "the row does not say which GPU";
  else if (!gpu)
    found.why_not = gpuplan::failure_text(gpu.why()).c_str();
  else if (const auto links = interconnect_of(on); !links)
    found.why_not = gpuplan::failure_text(links.why()).c_str();
  else if (found.is_copy)
    return found;
  else if (const auto what = kind_of(source); !what)
    found.why_not = "the library has no such collective";
  else if (found.what = *what; !message)
    found.why_not = "the row has no size of a message";
  else if (nodes > 1 && !on.between_nodes)
    found.why_not = "the row does not say how fast the network is";
  else if (is_printed_too_short(source.text("busbw_GBps")))
    found.why_not = "the bandwidth is printed with less than two digits";
  return found;
}

gpuplan::bandwidth predicted_bandwidth(const described_collective& given) {
  if (given.is_copy) return copy_bandwidth(given.links.inside_node, given.links.inside);
  return bus_bandwidth(
      given.what,
      given.message,
      given.group,
      collective_time(given.what, given.message, given.group, given.links, given.by));
}

double seconds_at(const described_collective& given, gpuplan::bandwidth bus) {
  const auto each = bus_bandwidth(given.what, given.message, given.group, 1_s);
  return each.value() / bus.value();
}

prediction bus_bandwidth_of(const row& source) {
  const described_collective found = describe_collective(source);
  if (!found.why_not.empty()) return found.why_not;
  return number(in(predicted_bandwidth(found), 1_GBps));
}

}  // namespace accuracy

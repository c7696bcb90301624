// The header that write.cpp wrote holds what it was written from, bit for bit.

#include "written_device.hpp"

#include <gpuplan/measured_device.hpp>

#include <cstddef>
#include <string_view>

#include "imaginary_device.hpp"

namespace {

using namespace gpuplan;

constexpr const measured_device& was = imaginary_device::in_full;
constexpr const measured_device& is = written_device;

constexpr bool same(const char* a, const char* b) { return std::string_view(a) == b; }

template <class T>
constexpr bool same(const known<T>& a, const known<T>& b) {
  if (!a || !b) return !a && !b;
  return *a == *b;
}
template <any_quantity Quantity>
constexpr bool same(const known<reading<Quantity>>& a, const known<reading<Quantity>>& b) {
  if (!a || !b) return !a && !b;
  return a->median == b->median && a->lower_quartile == b->lower_quartile &&
         a->upper_quartile == b->upper_quartile && a->samples == b->samples &&
         same(a->clock_MHz, b->clock_MHz) && same(a->draw, b->draw);
}
constexpr bool same(const measured_host_link& a, const measured_host_link& b) {
  return same(a.to_device, b.to_device) && same(a.from_device, b.from_device) &&
         same(a.both_ways, b.both_ways);
}

constexpr bool same_matmuls() {
  if (is.matmuls.size() != was.matmuls.size()) return false;
  for (std::size_t i = 0; i < was.matmuls.size(); ++i) {
    const measured_matmul& a = is.matmuls[i];
    const measured_matmul& b = was.matmuls[i];
    if (a.format != b.format || a.sum != b.sum || !(a.shape == b.shape) ||
        !same(a.sustained, b.sustained) || !same(a.burst, b.burst) || !same(a.zeros, b.zeros) ||
        !same(a.own_kernel, b.own_kernel))
      return false;
  }
  return true;
}
constexpr bool same_issue() {
  if (is.issue.size() != was.issue.size()) return false;
  for (std::size_t i = 0; i < was.issue.size(); ++i) {
    const measured_issue& a = is.issue[i];
    const measured_issue& b = was.issue[i];
    if (a.probe != b.probe || a.format != b.format || a.sum != b.sum ||
        a.rate.median != b.rate.median || a.flop_per_clock_per_sm != b.flop_per_clock_per_sm)
      return false;
  }
  return true;
}
constexpr bool same_others() {
  if (is.surface.size() != was.surface.size() || is.footprints.size() != was.footprints.size() ||
      is.all_reduces.size() != was.all_reduces.size())
    return false;
  for (std::size_t i = 0; i < was.surface.size(); ++i)
    if (is.surface[i].format != was.surface[i].format || is.surface[i].rate != was.surface[i].rate)
      return false;
  for (std::size_t i = 0; i < was.footprints.size(); ++i)
    if (is.footprints[i].footprint != was.footprints[i].footprint ||
        is.footprints[i].rate != was.footprints[i].rate)
      return false;
  for (std::size_t i = 0; i < was.all_reduces.size(); ++i)
    if (is.all_reduces[i].devices != was.all_reduces[i].devices ||
        is.all_reduces[i].latency != was.all_reduces[i].latency ||
        is.all_reduces[i].rate != was.all_reduces[i].rate)
      return false;
  return true;
}

static_assert(same(is.id, was.id) && same(is.slice, was.slice) && same(is.name, was.name));
static_assert(same(is.date, was.date) && same(is.driver, was.driver));
static_assert(same(is.runtime, was.runtime) && same(is.library, was.library));
static_assert(is.sm_count == was.sm_count && same(is.memory, was.memory));
static_assert(same(is.free_memory, was.free_memory));
static_assert(same(is.context_memory, was.context_memory));
static_assert(same(is.power_limit, was.power_limit));
static_assert(same(is.error_correction, was.error_correction));
static_assert(same_matmuls() && same_issue() && same_others());
static_assert(same(is.copy, was.copy) && same(is.triad, was.triad) && same(is.read, was.read));
static_assert(same(is.write, was.write) && same(is.l2, was.l2) && same(is.l2_knee, was.l2_knee));
static_assert(same(is.pinned, was.pinned) && same(is.pageable, was.pageable));
static_assert(same(is.kernel_launch, was.kernel_launch) && same(is.graph_node, was.graph_node));
static_assert(same(is.kernel_enqueue, was.kernel_enqueue));
static_assert(same(is.empty_kernel, was.empty_kernel));
static_assert(same(is.peer_copy, was.peer_copy));
static_assert(matmul_ceiling(*measured_as(imaginary_device::imaginary, written_device),
                             number_format::bf16)
                  ->value == 150_TFLOPS);

}  // namespace

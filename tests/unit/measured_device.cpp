#include "check.hpp"
#include "imaginary_device.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/measured_device.hpp>

#include <cstdint>
#include <string_view>

namespace {

using namespace gpuplan;
using namespace imaginary_device;
using namespace std::string_view_literals;

constexpr gpu_spec measured = *measured_as(imaginary, in_full);

constexpr measured_device nothing{.id = "imaginary", .date = "2026-11-22"};
constexpr gpu_spec blank = *measured_as(imaginary, nothing);

constexpr bool is(const auto& ceiling, auto value, ceiling_origin origin) {
  return ceiling.value == value && ceiling.origin == origin;
}

TEST_CASE("matrix products reach what was sustained, and the peak stays the data sheet's") {
  constexpr ceiling_origin data_sheet = ceiling_origin::data_sheet;
  STATIC_CHECK(is(*matmul_ceiling(imaginary, number_format::bf16), 200_TFLOPS, data_sheet));
  STATIC_CHECK(
      is(*matmul_ceiling(measured, number_format::bf16), 150_TFLOPS, ceiling_origin::measured));
  STATIC_CHECK(*peak(measured, number_format::bf16) == 200_TFLOPS);
  STATIC_CHECK(is(*matmul_ceiling(blank, number_format::bf16), 200_TFLOPS, data_sheet));
  STATIC_CHECK(is(*matmul_ceiling(measured, number_format::int8), 400_TFLOPS, data_sheet));
  // gpuplan's own kernel is a lower bound.
  STATIC_CHECK(is(*matmul_ceiling(measured, number_format::fp16), 200_TFLOPS, data_sheet));
  // Measured, though no data sheet states it.
  STATIC_CHECK(is(*matmul_ceiling(measured, number_format::fp16, accumulator::fp16),
                  300_TFLOPS,
                  ceiling_origin::measured));
  STATIC_CHECK(matmul_ceiling(measured, number_format::fp4).why().code == errc::unsupported_format);
}

TEST_CASE("each traffic has its measured bandwidth, and all the same on a data sheet") {
  STATIC_CHECK(is(memory_ceiling(imaginary), 2_TBps, ceiling_origin::data_sheet));
  STATIC_CHECK(is(memory_ceiling(blank), 2_TBps, ceiling_origin::data_sheet));
  STATIC_CHECK(
      is(memory_ceiling(imaginary, memory_traffic::write), 2_TBps, ceiling_origin::data_sheet));
  STATIC_CHECK(is(memory_ceiling(measured), 1800_GBps, ceiling_origin::measured));
  STATIC_CHECK(
      is(memory_ceiling(measured, memory_traffic::triad), 1750_GBps, ceiling_origin::measured));
  STATIC_CHECK(
      is(memory_ceiling(measured, memory_traffic::read), 1900_GBps, ceiling_origin::measured));
  STATIC_CHECK(
      is(memory_ceiling(measured, memory_traffic::write), 1850_GBps, ceiling_origin::measured));
  STATIC_CHECK(is(*l2_ceiling(measured), 6_TBps, ceiling_origin::measured));
}

TEST_CASE("what no data sheet states is not known before it is measured") {
  STATIC_CHECK(l2_ceiling(imaginary).why() == failure(errc::not_known).about("l2"));
  STATIC_CHECK(l2_ceiling(blank).why() == failure(errc::not_known).about("l2"));
  STATIC_CHECK(launch_latency(imaginary).why() == failure(errc::not_known).about("launch_latency"));
  STATIC_CHECK(launch_latency(blank, launch_cost::kernel).why().code == errc::not_known);
  CONSTEXPR auto cost = [](launch_cost which) { return *launch_latency(measured, which); };
  STATIC_CHECK(is(*launch_latency(measured), 3_us, ceiling_origin::measured));
  STATIC_CHECK(is(cost(launch_cost::round_trip), 3_us, ceiling_origin::measured));
  STATIC_CHECK(is(cost(launch_cost::enqueue), 2_us, ceiling_origin::measured));
  STATIC_CHECK(is(cost(launch_cost::kernel), 1.5_us, ceiling_origin::measured));
  STATIC_CHECK(is(cost(launch_cost::graph_node), 1_us, ceiling_origin::measured));
  STATIC_CHECK(all_reduce_of(imaginary, 8).why()[fact::devices] == 8);
  STATIC_CHECK(all_reduce_of(measured, 4).why().subject == "all_reduce"sv);
  STATIC_CHECK(all_reduce_of(measured, 8)->latency == 30_us);
  STATIC_CHECK(all_reduce_of(measured, 8)->rate == 120_GBps);
}

TEST_CASE("links are those measured, else the data sheet's") {
  CONSTEXPR bandwidth pcie = imaginary.pcie->each_direction();
  STATIC_CHECK(is(*host_link_ceiling(imaginary, host_copy::to_device), pcie, {}));
  STATIC_CHECK(is(*host_link_ceiling(blank, host_copy::from_device), pcie, {}));
  STATIC_CHECK(
      is(*host_link_ceiling(measured, host_copy::to_device), 26_GBps, ceiling_origin::measured));
  STATIC_CHECK(
      is(*host_link_ceiling(measured, host_copy::from_device), 24_GBps, ceiling_origin::measured));
  STATIC_CHECK(host_link_ceiling(gpu_spec{}, host_copy::to_device).why().subject == "pcie"sv);

  STATIC_CHECK(is(*peer_ceiling(imaginary), 300_GBps, ceiling_origin::data_sheet));
  STATIC_CHECK(is(*peer_ceiling(measured), 250_GBps, ceiling_origin::measured));
  STATIC_CHECK(is(*peer_ceiling({.pcie = imaginary.pcie}), pcie, ceiling_origin::data_sheet));
  STATIC_CHECK(peer_ceiling(gpu_spec{}).why().subject == "peers"sv);
}

TEST_CASE("a cluster of measured devices adds up what was measured") {
  CONSTEXPR cluster eight{.gpu = measured, .gpus_per_node = 8};
  STATIC_CHECK(*total_peak(eight, number_format::bf16) == 1600_TFLOPS);
  STATIC_CHECK(
      is(*total_matmul_ceiling(eight, number_format::bf16), 1200_TFLOPS, ceiling_origin::measured));
  STATIC_CHECK(is(
      *total_matmul_ceiling(eight, number_format::int8), 3200_TFLOPS, ceiling_origin::data_sheet));
  STATIC_CHECK(!total_matmul_ceiling(eight, number_format::fp4));
  STATIC_CHECK(is(*inside_node_ceiling(eight), 250_GBps, ceiling_origin::measured));
  STATIC_CHECK(*link_inside_node(eight) == 250_GBps);
  STATIC_CHECK(is(*inside_node_ceiling({.gpu = measured, .inside_node = 20_GBps}),
                  20_GBps,
                  ceiling_origin::stated));
  STATIC_CHECK(inside_node_ceiling({}).why().at_fault() == fact::inside_node);
}

TEST_CASE("a point of a surface is a share of the data sheet's peak") {
  STATIC_CHECK(*share_of_peak(measured, surface[0]) == 0.25);
  STATIC_CHECK(share_of_peak(measured, surface[1]).why().code == errc::unsupported_format);
}

TEST_CASE("an origin and a probe have names") {
  STATIC_CHECK(text(issue_probe::mma_sync) == "mma.sync"sv);
  STATIC_CHECK(text(issue_probe::wgmma) == "wgmma"sv);
  STATIC_CHECK(text(issue_probe::fma) == "fma"sv);
  STATIC_CHECK(text(ceiling_origin::data_sheet) == "data sheet"sv);
  STATIC_CHECK(text(ceiling_origin::measured) == "measured"sv);
  STATIC_CHECK(text(ceiling_origin::stated) == "stated"sv);
}

TEST_CASE("rates stand in for the device on which they were measured alone") {
  CONSTEXPR auto other = measured_as({.id = "another"}, in_full).why();
  STATIC_CHECK(other == failure(errc::measured_elsewhere).about(in_full.name));

  CONSTEXPR gpu_spec whole = catalog::a100_sxm4_40gb;
  CONSTEXPR gpu_spec part = slice_of(whole, *mig(whole, "1g.5gb"));
  static constexpr measured_device of_whole{.id = "a100_sxm4_40gb", .date = "2026-11-22"};
  static constexpr measured_device of_part{
      .id = "a100_sxm4_40gb", .slice = "1g.5gb", .date = "2026-11-22"};
  STATIC_CHECK(*measured_as(whole, of_whole)->measured == &of_whole);
  STATIC_CHECK(*measured_as(part, of_part)->measured == &of_part);
  STATIC_CHECK(measured_as(whole, of_part).why().code == errc::measured_elsewhere);
  STATIC_CHECK(measured_as(part, of_whole).why().code == errc::measured_elsewhere);
  STATIC_CHECK(!slice_of(*measured_as(whole, of_whole), *mig(whole, "1g.5gb")).measured);
}

template <class Change>
constexpr failure flaw(Change change) {
  measured_device changed = in_full;
  change(changed);
  return validate(changed).why();
}

// The failure of a reading; which one it is of does not matter.
template <class Change>
constexpr failure flaw_of_copy(Change change) {
  return flaw([&](measured_device& of) {
    reading<bandwidth> copy = *of.copy;
    change(copy);
    of.copy = copy;
  });
}

constexpr double infinity = __builtin_inf();
constexpr double nan = __builtin_nan("");

TEST_CASE("a measurement needs a day") {
  STATIC_CHECK(validate(in_full));
  STATIC_CHECK(flaw([](measured_device& of) { of.date = ""; }) ==
               failure(errc::undated_measurement).about(in_full.name));
}

TEST_CASE("a reading that makes no sense is refused") {
  CONSTEXPR auto of = [](errc code) { return failure(code).about("copy"); };
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.median = 0_GBps; }) == of(errc::not_positive));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.lower_quartile = -1_GBps; }) == of(errc::not_positive));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.lower_quartile = 1801_GBps; }) == of(errc::not_rising));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.upper_quartile = 1799_GBps; }) == of(errc::not_rising));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.median = bandwidth::from_value(nan); }) ==
               of(errc::not_finite));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.upper_quartile = bandwidth::from_value(infinity); }) ==
               of(errc::not_finite));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.draw = 0_W; }) == of(errc::not_positive));
  STATIC_CHECK(flaw_of_copy([](auto& r) { r.clock_MHz = 0; }) == of(errc::not_positive));
  CONSTEXPR auto none = flaw_of_copy([](auto& r) { r.samples = 0; });
  STATIC_CHECK(none.code == errc::out_of_bounds && none[fact::samples] == 0);
  STATIC_CHECK(none.subject == "copy"sv);
}

TEST_CASE("every part of a measurement is looked at") {
  CONSTEXPR reading<bandwidth> wrong{1_GBps, 1_GBps, 1_GBps, 0};
  CONSTEXPR auto subject = [](auto change) { return flaw(change).subject[0] != '\0'; };
  STATIC_CHECK(subject([&](measured_device& of) { of.triad = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.read = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.write = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.l2 = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.peer_copy = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.pinned.to_device = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.pinned.both_ways = wrong; }));
  STATIC_CHECK(subject([&](measured_device& of) { of.pageable.from_device = wrong; }));
  STATIC_CHECK(subject([](measured_device& of) { of.memory = 0_B; }));
  STATIC_CHECK(subject([](measured_device& of) { of.free_memory = 0_B; }));
  STATIC_CHECK(subject([](measured_device& of) { of.context_memory = 0_B; }));
  STATIC_CHECK(subject([](measured_device& of) { of.power_limit = 0_W; }));
  STATIC_CHECK(subject([](measured_device& of) { of.l2_knee = 0_B; }));
  STATIC_CHECK(subject([](measured_device& of) { of.kernel_launch = reading<duration>{}; }));
  STATIC_CHECK(subject([](measured_device& of) { of.kernel_enqueue = reading<duration>{}; }));
  STATIC_CHECK(subject([](measured_device& of) { of.empty_kernel = reading<duration>{}; }));
  STATIC_CHECK(subject([](measured_device& of) { of.graph_node = reading<duration>{}; }));
}

template <class Row>
constexpr failure flaw_of_rows(std::span<const Row> measured_device::*member,
                               const Row (&rows)[2]) {
  measured_device changed = in_full;
  changed.*member = rows;
  return validate(changed).why();
}

TEST_CASE("rows are refused with their place") {
  constexpr auto in_row_1 = [](const failure& why, errc code, std::string_view name) {
    return why.code == code && why[fact::row] == 1 && why.subject == name;
  };
  STATIC_CHECK(in_row_1(flaw_of_rows(&measured_device::matmuls, {matmuls[0], matmuls[0]}),
                        errc::measured_twice,
                        "matmuls"));
  STATIC_CHECK(in_row_1(
      flaw_of_rows(&measured_device::matmuls, {matmuls[0], measured_matmul{number_format::fp16}}),
      errc::not_positive,
      "matmuls"));
  STATIC_CHECK(in_row_1(
      flaw_of_rows(&measured_device::issue, {issue[1], issue[1]}), errc::measured_twice, "issue"));
  STATIC_CHECK(in_row_1(
      flaw_of_rows(&measured_device::issue,
                   {issue[0],
                    measured_issue{issue_probe::fma, number_format::fp64, {}, issue[0].rate, nan}}),
      errc::not_positive,
      "issue"));
  STATIC_CHECK(in_row_1(flaw_of_rows(&measured_device::surface, {surface[0], surface[0]}),
                        errc::measured_twice,
                        "surface"));
  STATIC_CHECK(in_row_1(
      flaw_of_rows(&measured_device::surface,
                   {surface[0], measured_point{number_format::bf16, {}, {1, 1, 1}, 0_TFLOPS}}),
      errc::not_positive,
      "surface"));
  STATIC_CHECK(in_row_1(flaw_of_rows(&measured_device::footprints, {footprints[1], footprints[1]}),
                        errc::measured_twice,
                        "footprints"));
  STATIC_CHECK(in_row_1(
      flaw_of_rows(&measured_device::footprints, {footprints[0], measured_footprint{0_B, 1_TBps}}),
      errc::not_positive,
      "footprints"));
  STATIC_CHECK(
      in_row_1(flaw_of_rows(&measured_device::all_reduces, {all_reduces[0], all_reduces[0]}),
               errc::measured_twice,
               "all_reduces"));
  CONSTEXPR auto alone = flaw_of_rows(&measured_device::all_reduces,
                                      {all_reduces[0], measured_all_reduce{1, 1_us, 1_GBps}});
  STATIC_CHECK(in_row_1(alone, errc::out_of_bounds, "all_reduces") && alone[fact::devices] == 1);
}

}  // namespace

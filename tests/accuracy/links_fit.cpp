// The fit of links: from collectives that follow the library's law with other values, it finds
// these.

#include "links_fit.hpp"

#include <gpuplan/catalog/gpus.hpp>

#include <string>
#include <vector>

#include "check.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;
using namespace gpuplan::literals;
using gpuplan::collective_algorithm;

namespace {

// All-reduces of 16 KiB to 16 GiB on nodes of 8.
void add_sweep(std::vector<measured_collective>& rows,
               const gpuplan::interconnect& links,
               std::int64_t ranks,
               collective_algorithm by,
               const std::string& system) {
  for (double message = 16384; message < 2e10; message *= 8) {
    measured_collective one;
    one.as.system = system;
    one.as.by = by;
    one.as.message = gpuplan::bytes::from_value(message);
    one.as.group = {ranks, 8};
    one.as.links = links;
    rows.push_back(one);
  }
}

}  // namespace

TEST_CASE("a fit finds the values that made the rows") {
  const auto links = *gpuplan::interconnect_of({.gpu = gpuplan::catalog::h200_sxm,
                                                .nodes = 4,
                                                .gpus_per_node = 8,
                                                .between_nodes = 400_GBps});
  std::vector<measured_collective> rows;
  add_sweep(rows, links, 8, collective_algorithm::ring, "one node, ring");
  add_sweep(rows, links, 8, collective_algorithm::in_switch, "one node, switch");
  add_sweep(rows, links, 32, collective_algorithm::tree, "four nodes");
  gpuplan::interconnect others = links;
  others.launch = 20_us;
  others.inside.ring_share = 0.7;
  others.inside.in_switch_share = 0.5;
  others.inside.ramp = 60_MB;
  others.between.ring_share = 0.6;
  others.between.hop = 30_us;
  others.between.ramp = 9_MB;
  for (measured_collective& row : rows)
    row.seconds =
        collective_time(row.as.what, row.as.message, row.as.group, others, row.as.by).value();

  const links_fit fit = fit_links(rows, 20'000);
  const auto fitted = [&](const std::string& owner, const std::string& name) {
    for (const fitted_link_value& one : fit.values)
      if (one.owner == owner && one.name == name) return one.value;
    return 0.0;
  };
  CHECK(fitted("all", "launch") == doctest::Approx(20).epsilon(0.01));
  CHECK(fitted("NVLink 4", "ring_share") == doctest::Approx(0.7).epsilon(0.01));
  CHECK(fitted("NVLink 4", "in_switch_share") == doctest::Approx(0.5).epsilon(0.01));
  CHECK(fitted("NVLink 4", "ramp") == doctest::Approx(60).epsilon(0.02));
  CHECK(fitted("InfiniBand", "ring_share") == doctest::Approx(0.6).epsilon(0.01));
  CHECK(fitted("InfiniBand", "hop") == doctest::Approx(30).epsilon(0.02));
  CHECK(fitted("InfiniBand", "ramp") == doctest::Approx(9).epsilon(0.05));
  REQUIRE(fit.systems.size() == 4);
  CHECK(fit.systems.back().system == "all");
  CHECK(fit.systems.back().before_mean > 10);
  CHECK(fit.systems.back().fitted_mean < 0.5);
  CHECK(fit.systems.back().row_left_out_mean < 2);
  // Every term that is left out leaves an error.
  REQUIRE(fit.ablations.size() == 5);
  for (std::size_t i = 1; i < fit.ablations.size(); ++i)
    CHECK(fit.ablations[i].mean > fit.ablations[0].mean + 0.3);
}

TEST_CASE("rows that a fit reads") {
  const short_file file(
      "gpu,nodes,gpus,link,collective,algo,bytes,busbw_GBps\n"
      "h200_sxm,1,8,NVLink4,all_reduce,auto,1048576,39.93\n"
      "h200_sxm,1,2,unstated,p2p copy unidirectional,copy,,396.4\n"
      "h200_sxm,4,32,NVLink4,all_reduce,auto,1048576,20\n"
      ",4,32,unstated,all_reduce,auto,32768,0.92\n"
      ",2,8,inter-node,p2p,auto,,8.76\n");
  const auto rows = measured_collectives({read_csv(file.path())});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].as.system == "h200_sxm x 1");
  CHECK(rows[0].seconds == doctest::Approx(1.75 * 1048576 / 39.93e9));
  CHECK(rows[1].as.system == "not stated x 4");
}

TEST_CASE("no rows, no values") { CHECK(fit_links({}, 10).values.empty()); }

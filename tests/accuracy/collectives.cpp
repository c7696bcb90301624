// Measured collectives: what rows of them are described as, and what is predicted.

#include "collectives.hpp"

#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;
using namespace gpuplan::literals;

namespace {

const std::string columns =
    "gpu,nodes,gpus,link,collective,algo,bytes,busbw_GBps,algbw_GBps,source\n";

std::vector<comparison> compare_rows(const std::string& rows) {
  return compare({read_csv(short_file(columns + rows).path())})[0].comparisons;
}

std::string why_not(const std::string& row) {
  const auto all = compare_rows(row);
  REQUIRE(all.size() == 1);
  return all[0].predicted.why_not;
}

double error_of(const std::string& row) {
  const auto all = compare_rows(row);
  REQUIRE(all.size() == 1);
  REQUIRE(all[0].predicted.value);
  return all[0].error();
}

}  // namespace

TEST_CASE("measured collectives are near what is predicted") {
  // stas00/ml-engineering, network/README.md at 744d01e1.
  CHECK(std::abs(error_of("a100_sxm4_80gb,1,8,NVLink3,all_reduce,auto,268435456,194.07,,\n")) < 5);
  CHECK(std::abs(error_of("h200_sxm,1,8,NVLink4,all_reduce,auto,33554432,275.84,157.62,\n")) < 2);
  CHECK(std::abs(error_of("h200_sxm,1,5,NVLink4,all_reduce,NVLS,8589934592,414.2,,\n")) < 2);
  CHECK(std::abs(error_of("h200_sxm,1,5,NVLink4,all_reduce,Ring (NVLS off),8589934592,364.4,,\n")) <
        2);
  CHECK(std::abs(error_of("h200_sxm,1,8,NVLink4,reduce_scatter,Ring,17179869184,362.9,,\n")) < 2);
  CHECK(std::abs(error_of("b200_sxm,4,32,NVLink5 + EFAv4 50GB/s per GPU,all_reduce,auto,"
                          "4294967296,377.34,,\n")) < 3);
  CHECK(std::abs(error_of("h200_sxm,1,2,unstated,p2p copy unidirectional,copy,,396.4,,\n")) < 3);
  CHECK(std::abs(error_of("h200_sxm,1,2,unstated,host_to_device PCIe5 x16,copy,,55.43,,\n")) < 1);
}

TEST_CASE("a row without an id is known by its line") {
  const auto all = compare_rows(
      "h200_sxm,1,8,NVLink4,all_reduce,auto,1048576,39.93,,\n"
      "h200_sxm,1,8,NVLink4,all_reduce,auto,8388608,155.53,,\n");
  REQUIRE(all.size() == 2);
  CHECK(all[0].id == "line 2");
  CHECK(all[1].id == "line 3");
}

TEST_CASE("what a row does not say, nobody predicts") {
  CHECK(why_not(",4,32,unstated,all_reduce,auto,32768,0.92,,\n") ==
        "the row does not say which GPU");
  CHECK(why_not("h200_sxm,1,8,NVLink4,all_reduce,auto,,480,,\n") ==
        "the row has no size of a message");
  CHECK(why_not("h200_sxm,4,32,NVLink4,all_reduce,auto,1048576,20,,\n") ==
        "the row does not say how fast the network is");
  CHECK(why_not("b200_sxm,4,32,EFAv4 50GB/s per GPU,all_reduce,auto,32768,0.01,,\n") ==
        "the bandwidth is printed with less than two digits");
  CHECK(why_not("h200_sxm,1,8,NVLink4,gossip,auto,1048576,20,,\n") ==
        "the library has no such collective");
  CHECK(why_not("l4_of_nobody,1,8,PCIe,all_reduce,auto,1048576,20,,\n")
            .starts_with("the catalogue has no GPU of this name"));
}

TEST_CASE("seconds and bus bandwidth say the same") {
  described_collective one;
  one.group = {8, 8};
  one.message = 1_GB;
  // 2 x 7/8 of a gigabyte at 175 GB/s.
  CHECK(seconds_at(one, 175_GBps) == doctest::Approx(0.01));
}

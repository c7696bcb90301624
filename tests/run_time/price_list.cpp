#include <gpuplan/io/price_list.hpp>

#include <cmath>
#include <string>

#include "check.hpp"
#include "mutated_text.hpp"
#include "random_numbers.hpp"

using namespace gpuplan;
using namespace gpuplan::io;

namespace {

// The columns of SkyPilot's catalogues; made-up prices.
const std::string list =
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,"
    "AvailabilityZone\n"
    "p5.48xlarge,H100,8.0,192.0,2048.0,\"{'Gpus': [{'Name': 'H100', 'Count': 8}]}\",48.0,16.0,"
    "us-east-2,us-east-2a\n"
    "m6i.large,,,2.0,8.0,,0.096,0.04,us-east-2,us-east-2a\n"
    "g6.xlarge,L4,1.0,4.0,16.0,,0.8,,us-east-2,us-east-2b\n"
    "g6f.large,L4,0.125,2.0,8.0,,0.2,0.1,us-east-2,us-east-2b\n"
    "x.big,Novel-9,4,4.0,16.0,,,2,eu-1,eu-1a\r\n";

bool near(price a, double usd_per_hour) {
  return std::abs(in(a, 1_usd_per_hour) - usd_per_hour) < 1e-12;
}

std::string why_of(const std::string& line) {
  return read_price_list("InstanceType,AcceleratorName,AcceleratorCount,Price\n" + line).why;
}

}  // namespace

TEST_CASE("a list of prices, of a GPU") {
  const read_prices read = read_price_list(list);
  REQUIRE(read);
  REQUIRE(read.prices.size() == 3);
  const listed_price& h100 = read.prices[0];
  CHECK(h100.instance == "p5.48xlarge");
  CHECK(std::string(h100.gpu->id) == "h100_sxm5_80gb");
  CHECK(h100.gpus == 8);
  CHECK(h100.region == "us-east-2");
  CHECK(near(*h100.on_demand, 6));
  CHECK(near(*h100.spot, 2));
  CHECK(std::string(read.prices[1].gpu->id) == "l4");
  CHECK(!read.prices[1].spot);
  CHECK(read.prices[2].gpu == nullptr);
  CHECK(read.prices[2].accelerator == "Novel-9");
  CHECK(!read.prices[2].on_demand);
  CHECK(near(*read.prices[2].spot, 0.5));
}

TEST_CASE("a list from a spreadsheet begins with a byte order mark") {
  CHECK(read_price_list("\xef\xbb\xbf" + list).prices.size() == 3);
}

TEST_CASE("a list that is none is refused with what is wrong") {
  CHECK(read_price_list("").why == "column InstanceType is missing");
  CHECK(read_price_list("InstanceType,AcceleratorName,AcceleratorCount\n").why ==
        "column Price or SpotPrice is missing");
  for (const char* other : {";", "\t"})
    CHECK(read_price_list(std::string("InstanceType") + other + "AcceleratorName\n").why ==
          "its columns are not separated by commas");
  CHECK(why_of("a,H100,8\n") == "line 2: 3 cells, and 4 columns");
  CHECK(why_of("a,H100,many,3\n") == "line 2: AcceleratorCount many is no number of GPUs");
  CHECK(why_of("\na,H100,8,cheap\n") == "line 3: Price cheap is no price in dollars an hour");
  CHECK(why_of("a,,,3\n") == "no line has a GPU with a price");
}

TEST_CASE("any change of a list is read or refused") {
  random_numbers random(3);
  for (int i = 0; i < 3000; ++i) {
    const read_prices read = read_price_list(mutated_text(list, ",\"\n\r.-9eE ", 6, random));
    CHECK(read.prices.empty() == !read);
    for (const listed_price& each : read.prices) {
      CHECK(each.gpus > 0);
      CHECK((!each.on_demand || *each.on_demand >= price{}));
    }
  }
}

// Kernels that others published: what rows of them are described as, and what is predicted.

#include "published_kernels.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

const std::string columns =
    "id,source,gpu,kind,dtype,m,n,k,batch,heads,seq,head_dim,causal,ranks,bytes,achieved,unit,"
    "notes\n";

comparison compared(const std::string& row) {
  const auto all = compare({read_csv(short_file(columns + "1,," + row + "\n").path())})[0];
  REQUIRE(all.kind == "published kernels");
  REQUIRE(all.comparisons.size() == 1);
  return all.comparisons[0];
}
double error_of(const std::string& row) {
  const comparison one = compared(row);
  CAPTURE(row);
  CAPTURE(one.predicted.why_not);
  REQUIRE(one.predicted.value);
  return one.error();
}
double rate_of(const std::string& row) {
  const comparison one = compared(row);
  REQUIRE(one.predicted.value);
  return one.predicted.value->value();
}

}  // namespace

// mli/transformers-benchmarks at 3370b2b, Azure/AI-benchmarking-guide.
TEST_CASE("published kernels are near what is predicted") {
  CHECK(std::abs(error_of("rtx_3090_ti,gemm,fp16,8192,8192,8192,,,,,,,,81.314,TFLOP/s,torch")) < 6);
  CHECK(std::abs(error_of("rtx_3090_ti,gemm,tf32,8192,8192,8192,,,,,,,,42.056,TFLOP/s,torch")) < 9);
  CHECK(std::abs(error_of("a100_sxm4_80gb,gemm,fp16,8192,8192,8192,,,,,,,,253.7,TFLOP/s,"
                          "cuBLASLt / hipBLASLt 10000 warm-up iterations")) < 5);
  CHECK(std::abs(error_of("h100_sxm5_80gb,gemm,fp8,8192,8192,8192,,,,,,,,1290.1,TFLOP/s,"
                          "cuBLASLt / hipBLASLt 10000 warm-up iterations")) < 5);
  CHECK(std::abs(error_of("h100_sxm5_80gb,attention_fwd,fp16,,,,2,,8192,128,,,,327.9,TFLOP/s,")) <
        10);
  CHECK(std::abs(error_of("h200_sxm,memcpy,fp64,,,,,,,,,,,4.01,TB/s,Copy (HBM read+write)")) < 6);
  CHECK(std::abs(error_of("mi300x,memcpy,,,,,,,,,,,,54.9,GB/s,Host to Device")) < 5);
  CHECK(std::abs(error_of("gb200,allreduce,,,,,,,,,,4,4294967296,673.06,GB/s busbw,"
                          "one node; Ring")) < 3);
}

// No layer of these cards gave anything to what they are predicted by.
TEST_CASE("published layers of a card that nobody measured here") {
  const std::string bert = "rtx_3090_ti,layer_fwd_bert_large,fp16,,,,";
  const std::string both = "rtx_3090_ti,layer_fwdbwd_bert_large,fp16,,,,";
  CHECK(std::abs(error_of(bert + "8,16,512,64,,,,43.847,TFLOP/s,")) < 8);
  CHECK(std::abs(error_of(both + "8,16,512,64,,,,48.017,TFLOP/s,")) < 8);
  CHECK(std::abs(error_of(bert + "64,16,512,64,,,,48.522,TFLOP/s,")) < 8);
  CHECK(std::abs(error_of(both + "64,16,512,64,,,,53.846,TFLOP/s,")) < 8);
  CHECK(std::abs(error_of(both + "128,16,128,64,,,,61.768,TFLOP/s,")) < 15);
  CHECK(std::abs(error_of("rtx_4090,layer_fwdbwd_gpt2_medium,fp16,,,,64,16,512,64,1,,,54,"
                          "TFLOP/s,")) < 6);
}

TEST_CASE("a published kernel in other words is the same") {
  const std::string notes = "cuBLASLt / hipBLASLt";
  CHECK(rate_of("a100_sxm4_80gb,gemm,fp16,1024,2145,1024,,,,,,,,1,TFLOP/s," + notes) ==
        rate_of("a100_sxm4_80gb,gemm,fp16,2145,1024,1024,,,,,,,,1,TFLOP/s,"));
  CHECK(rate_of("a100_sxm4_80gb,memcpy,fp64,,,,,,,,,,,1,TB/s,HBM") ==
        doctest::Approx(rate_of("a100_sxm4_80gb,memcpy,fp64,,,,,,,,,,,1,GB/s,HBM") / 1000));
  // three products as large as one
  CHECK(rate_of("h100_sxm5_80gb,linear_fwdbwd,bf16,4096,4096,4096,,,,,,,,1,TFLOP/s,") ==
        doctest::Approx(rate_of("h100_sxm5_80gb,gemm,bf16,4096,4096,4096,,,,,,,,1,TFLOP/s,")));
}

TEST_CASE("what a row of a published kernel leaves out is said") {
  const auto why_not = [](const std::string& row) { return compared(row).predicted.why_not; };
  CHECK(why_not("h100_sxm5_80gb,gemm,bf16,,8,8,,,,,,,,1,TFLOP/s,") ==
        "the row has no size of the product");
  CHECK(why_not("h100_sxm5_80gb,gemm,int8,8,8,8,,,,,,,,1,TFLOP/s,") ==
        "the row's format is no format of products");
  CHECK(why_not("v100_sxm2_32gb,gemm,fp8,8,8,8,,,,,,,,1,TFLOP/s,") ==
        "the device has no peak in this format");
  CHECK(why_not("h100_sxm5_80gb,allreduce,,,,,,,,,,8,,1,GB/s,") ==
        "the row has no size of a message");
  CHECK(why_not("h100_sxm5_80gb,conv,fp16,,,,,,,,,,,1,TFLOP/s,") ==
        "the library times no such kernel");
}

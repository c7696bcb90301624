#include "check.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/precision.hpp>

#include <string_view>

namespace {

using namespace gpuplan;
using namespace std::string_view_literals;

constexpr mig_slice slices[] = {
    {.name = "1g.10gb",
     .alias = "1g.9gb",
     .most = 7,
     .sm_count = 10,
     .memory_eighths = 1,
     .memory = 9_GiB},
    {.name = "4g.40gb", .most = 1, .sm_count = 50, .memory_eighths = 4, .memory = 39_GiB},
};

constexpr gpu_spec imaginary{
    .id = "imaginary",
    .sm_count = 100,
    .memory_label_GB = 80,
    .memory = 80_GiB,
    .memory_bandwidth = 2_TBps,
    .dense = {.fp64 = 10_TFLOPS,
              .fp64_matrix = 20_TFLOPS,
              .fp32 = 30_TFLOPS,
              .tf32 = 100_TFLOPS,
              .bf16 = 200_TFLOPS,
              .fp16 = 200_TFLOPS,
              .fp16_sum_fp16 = 400_TFLOPS,
              .fp16_vector = 60_TFLOPS,
              .int8 = 800_TFLOPS},
    .sparse = {.bf16 = 400_TFLOPS},
    .peers = peer_link{"NVLink 3", 600_GBps},
    .tdp = 400_W,
    .mig = slices,
};

TEST_CASE("an element takes its bits, and tf32 those of fp32") {
  STATIC_CHECK(bytes_per_element(number_format::fp64) == 8_B);
  STATIC_CHECK(bytes_per_element(number_format::fp32) == 4_B);
  STATIC_CHECK(bytes_per_element(number_format::tf32) == 4_B);
  STATIC_CHECK(bytes_per_element(number_format::bf16) == 2_B);
  STATIC_CHECK(bytes_per_element(number_format::fp16) == 2_B);
  STATIC_CHECK(bytes_per_element(number_format::fp8) == 1_B);
  STATIC_CHECK(bytes_per_element(number_format::int8) == 1_B);
  STATIC_CHECK(1'000'000 * bytes_per_element(number_format::fp4) == 500_KB);
  STATIC_CHECK(text(number_format::fp64) == "fp64"sv);
  STATIC_CHECK(text(number_format::fp32) == "fp32"sv);
  STATIC_CHECK(text(number_format::tf32) == "tf32"sv);
  STATIC_CHECK(text(number_format::bf16) == "bf16"sv);
  STATIC_CHECK(text(number_format::fp16) == "fp16"sv);
  STATIC_CHECK(text(number_format::fp8) == "fp8"sv);
  STATIC_CHECK(text(number_format::fp4) == "fp4"sv);
  STATIC_CHECK(text(number_format::int8) == "int8"sv);
  STATIC_CHECK(text(accumulator::fp32) == "fp32"sv);
  STATIC_CHECK(text(accumulator::fp16) == "fp16"sv);
}

TEST_CASE("a peak is that of the fastest units with this accumulator") {
  STATIC_CHECK(*peak(imaginary, number_format::fp64) == 20_TFLOPS);
  STATIC_CHECK(*peak(imaginary, number_format::fp32) == 30_TFLOPS);
  STATIC_CHECK(*peak(imaginary, number_format::tf32) == 100_TFLOPS);
  STATIC_CHECK(*peak(imaginary, number_format::bf16) == 200_TFLOPS);
  STATIC_CHECK(*peak(imaginary, number_format::fp16) == 200_TFLOPS);
  STATIC_CHECK(*peak(imaginary, number_format::fp16, accumulator::fp16) == 400_TFLOPS);
  STATIC_CHECK(*peak(imaginary, number_format::int8) == 800_TFLOPS);
  STATIC_CHECK(*sparse_peak(imaginary, number_format::bf16) == 400_TFLOPS);

  // Vector units that accumulate in fp16 are no fp32-accumulate rate.
  CONSTEXPR gpu_spec vector_only{.id = "vector_only", .dense = {.fp16_vector = 20_TFLOPS}};
  STATIC_CHECK(*peak(vector_only, number_format::fp16, accumulator::fp16) == 20_TFLOPS);
  STATIC_CHECK(peak(vector_only, number_format::fp16).why().code == errc::unsupported_format);
}

TEST_CASE("a peak that is not stated is a failure that names the device and the format") {
  CONSTEXPR auto fp8 = peak(imaginary, number_format::fp8);
  STATIC_CHECK(!fp8);
  STATIC_CHECK(fp8.why().code == errc::unsupported_format);
  STATIC_CHECK(fp8.why().subject == "imaginary"sv);
  STATIC_CHECK(fp8.why().facts[0] == named_fact{fact::format, number_format::fp8});
  STATIC_CHECK(fp8.why().facts[1] == named_fact{fact::accumulator, accumulator::fp32});
  STATIC_CHECK(!peak(imaginary, number_format::fp4));
  STATIC_CHECK(!peak(imaginary, number_format::bf16, accumulator::fp16));
  STATIC_CHECK(!peak(imaginary, number_format::fp32, accumulator::fp16));
  STATIC_CHECK(!sparse_peak(imaginary, number_format::tf32));
  STATIC_CHECK(peak(imaginary, number_format::fp8, accumulator::fp16).why().facts[1] ==
               named_fact{fact::accumulator, accumulator::fp16});
}

TEST_CASE("links give the rate of one direction") {
  STATIC_CHECK(imaginary.peers->each_direction() == 300_GBps);
  // The usual rounded figures: 15.75, 31.5, 63 and 121 GB/s for 16 lanes.
  CONSTEXPR auto rate = [](int generation, int lanes) {
    return in(pcie_link{.generation = generation, .lanes = lanes}.each_direction(), 1_GBps);
  };
  STATIC_CHECK(rate(3, 16) > 15.74 && rate(3, 16) < 15.76);
  STATIC_CHECK(rate(4, 16) > 31.50 && rate(4, 16) < 31.52);
  STATIC_CHECK(rate(5, 16) > 63.00 && rate(5, 16) < 63.02);
  STATIC_CHECK(rate(6, 16) == 121);
  STATIC_CHECK(rate(5, 8) == rate(4, 16));
}

TEST_CASE("usable memory is the driver's figure, or else the label in GB, less the context") {
  // 80 GiB less 0.6 GiB and 0.4 %.
  STATIC_CHECK(usable_memory(imaginary) < 79.09_GiB && usable_memory(imaginary) > 79.07_GiB);
  CONSTEXPR gpu_spec unreported{.memory_label_GB = 80};
  STATIC_CHECK(usable_memory(unreported) == 79'035'754'906_B);  // 80e9 - 644'245'094 - 320e6
  STATIC_CHECK(usable_memory(slices[0]) < 8.4_GiB && usable_memory(slices[0]) > 8.3_GiB);
}

TEST_CASE("a MIG profile is found by either name, with a suffix, in any case") {
  STATIC_CHECK(mig(imaginary, "1g.10gb")->sm_count == 10);
  STATIC_CHECK(mig(imaginary, "1g.9gb")->name == "1g.10gb"sv);
  STATIC_CHECK(mig(imaginary, "4G.40GB")->sm_count == 50);
  STATIC_CHECK(mig(imaginary, "1g.10gb+me")->sm_count == 10);
  STATIC_CHECK(mig(imaginary, "1g.10gb-me")->sm_count == 10);
  STATIC_CHECK(mig(imaginary, "1g.10gb+me.all")->sm_count == 10);

  CONSTEXPR auto none = mig(imaginary, "4g.41gb");
  STATIC_CHECK(none.why().code == errc::unknown_mig_profile);
  STATIC_CHECK(none.why().subject == "4g.40gb"sv);
  STATIC_CHECK(mig(imaginary, "40gb").why().subject == "4g.40gb"sv);
  STATIC_CHECK(mig(imaginary, "").why().code == errc::unknown_mig_profile);
  STATIC_CHECK(mig(imaginary, "1c.4g.40gb").why().subject == "4g.40gb"sv);

  CONSTEXPR auto whole = mig(gpu_spec{.id = "whole"}, "1g.10gb");
  STATIC_CHECK(whole.why().code == errc::no_mig);
  STATIC_CHECK(whole.why().subject == "whole"sv);
}

TEST_CASE("a slice is a device with its shares") {
  CONSTEXPR gpu_spec part = slice_of(imaginary, slices[1]);
  STATIC_CHECK(part.slice == "4g.40gb"sv && part.id == "imaginary"sv);
  STATIC_CHECK(part.sm_count == 50);
  STATIC_CHECK(*part.memory == 39_GiB);
  STATIC_CHECK(usable_memory(part) == usable_memory(slices[1]));
  STATIC_CHECK(part.memory_bandwidth == 1_TBps);
  STATIC_CHECK(slices[0].bandwidth_share() == 0.125);
  STATIC_CHECK(sm_share(imaginary, slices[1]) == 0.5);
  STATIC_CHECK(*part.dense.fp64 == 5_TFLOPS);
  STATIC_CHECK(*part.dense.fp64_matrix == 10_TFLOPS);
  STATIC_CHECK(*part.dense.fp32 == 15_TFLOPS);
  STATIC_CHECK(*part.dense.tf32 == 50_TFLOPS);
  STATIC_CHECK(*part.dense.bf16 == 100_TFLOPS);
  STATIC_CHECK(*part.dense.fp16 == 100_TFLOPS);
  STATIC_CHECK(*part.dense.fp16_sum_fp16 == 200_TFLOPS);
  STATIC_CHECK(*part.dense.fp16_vector == 30_TFLOPS);
  STATIC_CHECK(*part.dense.int8 == 400_TFLOPS);
  STATIC_CHECK(*part.sparse.bf16 == 200_TFLOPS);
  STATIC_CHECK(!part.dense.fp8 && !part.sparse.fp16);
  STATIC_CHECK(!part.peers);
  STATIC_CHECK(*part.tdp == 400_W);
  STATIC_CHECK(mig(part, "1g.10gb").why().code == errc::no_mig);
}

TEST_CASE("names are compared by letters and digits") {
  using detail::plain_name;
  STATIC_CHECK(plain_name("RTX 4090") == plain_name("rtx_4090"));
  STATIC_CHECK(!(plain_name("RTX 4090") == plain_name("rtx_4080")));
  STATIC_CHECK(!(plain_name("rtx_4090") == plain_name("rtx_409")));
  STATIC_CHECK(plain_name("NVIDIA H100 80GB HBM3").text() == "nvidiah10080gbhbm3"sv);
  STATIC_CHECK(plain_name("0123456789012345678901234567890123456789"
                          "0123456789012345678901234567890123456789")
                   .size == 63);
}

TEST_CASE("a distance counts the characters to change for a name to stand in another") {
  using detail::plain_name;
  CONSTEXPR auto distance = [](const char* a, const char* b, int limit) {
    return detail::infix_distance(plain_name(a), plain_name(b), limit);
  };
  STATIC_CHECK(distance("kitten", "sitting", 64) == 2);
  STATIC_CHECK(distance("sitting", "kitten", 64) == 3);
  STATIC_CHECK(distance("a6000", "rtxa6000", 64) == 0);
  STATIC_CHECK(distance("", "abc", 64) == 0);
  STATIC_CHECK(distance("abc", "", 64) == 3);
  STATIC_CHECK(distance("sitting", "kitten", 3) == 3);
  STATIC_CHECK(distance("sitting", "kitten", 1) > 1);
}

TEST_CASE("a word is letters alone or digits alone") {
  using detail::marked_name;
  STATIC_CHECK(marked_name("A100-80GB").end_of_word(0) == 1);
  STATIC_CHECK(marked_name("A100-80GB").end_of_word(1) == 4);
  STATIC_CHECK(marked_name("A100-80GB").end_of_word(4) == 4);
  STATIC_CHECK(marked_name("A100-80GB").has_word("gb"));
  STATIC_CHECK(marked_name("llama-33b, llama-3").has_word("3"));
  STATIC_CHECK(!marked_name("llama-33b").has_word("3"));
  STATIC_CHECK(!marked_name("a16").has_word("1"));
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
TEST_CASE("a number that is not known throws when it is used") {
  const gpu_spec blank{};
  CHECK(!blank.tdp);
  CHECK_THROWS_AS(static_cast<void>(*blank.tdp), plan_error);
  CHECK_THROWS_AS(static_cast<void>(blank.peers->each_direction()), plan_error);
}

TEST_CASE("a share of unknown SMs throws") {
  gpu_spec blank{};
  CHECK(!slice_of(blank, slices[0]).dense.bf16);  // nothing to share
  blank.dense.bf16 = 1_TFLOPS;
  CHECK_THROWS_AS(static_cast<void>(slice_of(blank, slices[0])), plan_error);
}
#endif

}  // namespace

// The probes, on a stand-in that leaves in memory what the kernels must leave there by their closed
// forms, which tests/unit/issue_probes.cpp checks.

#include <gpuplan/cuda/probes.cuh>

#include <doctest/doctest.h>
#include <stand_in/stand_in.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "every_call_fails.hpp"

namespace {

using namespace gpuplan;
using cuda::instruction;

constexpr double clock_MHz = 1980;

// What the stand-in's SMs do: a launch of a probe ends after the cycles that `flop_per_clock`
// gives, and leaves the right sums, but for one word where `spoil` says so.
struct sm_script {
  double flop_per_clock = 1000;
  bool spoil = false;
  bool in_code = true;
  unsigned sms_used = 4;
};

template <instruction Which>
void script_probe(const sm_script& script) {
  using probe = cuda::detail::probe<Which>;
  using value = typename probe::value;
  const auto arguments_of = [](const stand_in::launch& l) {
    constexpr bool fma = cuda::facts_of(Which).by == cuda::issuer::thread;
    struct {
      long long pairs;
      bool odd;
      value* values;
      cuda::block_clock* clocks;
    } of{l.argument<long long>(0),
         l.argument<int>(1) != 0,
         l.argument<value*>(fma ? 5 : 2),
         l.argument<cuda::block_clock*>(fma ? 6 : 3)};
    return of;
  };
  const auto cycles_of = [=](const stand_in::launch& l) {
    return static_cast<double>(arguments_of(l).pairs * probe::flop_per_pair) /
           script.flop_per_clock;
  };
  stand_in::current().kernels.push_back(
      {.name = std::string("_probe<(gpuplan::cuda::instruction)") +
               std::to_string(static_cast<int>(Which)) + ">",
       .seconds = [=](const stand_in::launch& l) { return cycles_of(l) / (clock_MHz * 1e6); },
       .body =
           [=, last = std::map<value*, std::pair<long long, bool>>{}](
               const stand_in::launch& l) mutable {
             if (!script.in_code) return;
             const auto of = arguments_of(l);
             for (unsigned block = 0; block < l.grid.x; ++block) {
               const auto cycles = static_cast<long long>(cycles_of(l));
               of.clocks[block] = {1000 * block, 1000 * block + cycles, block % script.sms_used};
             }
             // The same launch again leaves the same.
             auto& written = last[of.values];
             if (written == std::pair(of.pairs, of.odd)) return;
             written = {of.pairs, of.odd};
             value* to = of.values;
             for (unsigned block = 0; block < l.grid.x; ++block)
               for (int thread = 0; thread < probe::threads; ++thread)
                 for (int i = 0; i < probe::values; ++i)
                   *to++ = probe::expected(thread, i, of.pairs, of.odd);
             if (script.spoil) of.values[77] = of.values[77] + value(1);
           }});
}

cuda::session_options virtual_time() {
  return {.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s};
}

template <instruction Which>
std::optional<cuda::issue_reading> measured(const sm_script& script) {
  stand_in::reset();
  script_probe<Which>(script);
  std::optional<cuda::issue_reading> reading;
  {
    cuda::session s(virtual_time());
    reading = cuda::measure_issue_rate(s, Which, {});
  }
  CHECK(stand_in::live().empty());
  return reading;
}

template <instruction Which>
void check_measures(double flop_per_clock) {
  CAPTURE(cuda::facts_of(Which).name);
  const auto reading = measured<Which>({.flop_per_clock = flop_per_clock});
  REQUIRE(reading.has_value());
  CHECK(reading->which == Which);
  CHECK(reading->sms == 4);
  CHECK(reading->flop_per_clock == doctest::Approx(flop_per_clock).epsilon(1e-4));
  CHECK(in(reading->rate, 1_TFLOPS) ==
        doctest::Approx(4 * flop_per_clock * clock_MHz * 1e-6).epsilon(1e-3));
  // Long launches, as far as the sums stay exact.
  const auto launches = stand_in::launches_of("_probe<");
  REQUIRE(!launches.empty());
  const double longest_ms = 1e3 * (launches.back().end_s - launches.back().start_s);
  CHECK(longest_ms < 5.01);
  CHECK(launches.back().grid.x == 4);
  CHECK(launches.back().block.x == static_cast<unsigned>(cuda::detail::probe<Which>::threads));
}

}  // namespace

TEST_CASE("every probe measures the rate at which an SM issues") {
  check_measures<instruction::fma_fp32>(256);
  check_measures<instruction::fma_fp64>(128);
  check_measures<instruction::fma_half2>(512);
  check_measures<instruction::mma_bf16>(2600);
  check_measures<instruction::mma_fp16>(2600);
  check_measures<instruction::mma_fp16_sum_fp16>(2600);
  check_measures<instruction::mma_tf32>(1300);
  check_measures<instruction::mma_fp8>(1300);
  check_measures<instruction::mma_int8>(5200);
  check_measures<instruction::mma_fp64>(128);
  check_measures<instruction::mma_fp64_m16n8k8>(256);
  check_measures<instruction::wgmma_bf16>(4000);
  check_measures<instruction::wgmma_fp16>(4000);
  check_measures<instruction::wgmma_tf32>(2000);
  check_measures<instruction::wgmma_fp8>(8000);
  check_measures<instruction::wgmma_int8>(8000);
}

TEST_CASE("one wrong word is found, whatever the format") {
  CHECK_THROWS_WITH_AS((void)measured<instruction::mma_bf16>({.spoil = true}),
                       "mma.sync.m16n8k16.f32.bf16: value 77 of block 0 is wrong after 64.5 pairs",
                       cuda::measurement_error);
  CHECK_THROWS_AS((void)measured<instruction::mma_fp16_sum_fp16>({.spoil = true}),
                  cuda::measurement_error);
  CHECK_THROWS_AS((void)measured<instruction::mma_int8>({.spoil = true}), cuda::measurement_error);
  CHECK_THROWS_AS((void)measured<instruction::wgmma_fp8>({.spoil = true}), cuda::measurement_error);
  CHECK_THROWS_AS((void)measured<instruction::fma_half2>({.spoil = true}), cuda::measurement_error);
  CHECK_THROWS_AS((void)measured<instruction::fma_fp64>({.spoil = true}), cuda::measurement_error);
  CHECK(stand_in::live().empty());
}

TEST_CASE("an instruction that the device or the program lacks has no rate") {
  // The kernel is there, and empty: it was compiled for an architecture without the instruction.
  CHECK(!measured<instruction::wgmma_bf16>({.in_code = false}).has_value());
  stand_in::reset();
  stand_in::current().devices[0].properties.major = 8;
  stand_in::current().devices[0].properties.minor = 0;
  cuda::session s(virtual_time());
  CHECK(!cuda::measure_issue_rate<instruction::mma_fp8>(s));
  CHECK(!cuda::measure_issue_rate<instruction::wgmma_bf16>(s));
  CHECK(!cuda::measure_issue_rate<instruction::mma_fp64_m16n8k8>(s));
  CHECK(stand_in::launches_of("_probe<").empty());
}

TEST_CASE("only SMs that got blocks count, and blocks that share one add up") {
  const auto reading = measured<instruction::mma_bf16>({.flop_per_clock = 2000, .sms_used = 2});
  REQUIRE(reading.has_value());
  CHECK(reading->sms == 2);
  // Two blocks side by side, each at 2000 FLOP per clock.
  CHECK(reading->flop_per_clock == doctest::Approx(4000).epsilon(1e-2));
  const std::vector<cuda::block_clock> clocks{
      {0, 1000, 7}, {500, 1500, 7}, {0, 2000, 3}, {5, 5, 9}, {0, 500, 1}};
  const std::vector<double> rates = cuda::flop_per_clock_by_sm(clocks, 3000);
  REQUIRE(rates.size() == 3);
  CHECK(rates[0] == doctest::Approx(1.5));
  CHECK(rates[1] == doctest::Approx(4));
  CHECK(rates[2] == doctest::Approx(6));
  CHECK(cuda::flop_per_clock_by_sm({}, 1).empty());
}

TEST_CASE("every call that fails is reported, and nothing stays behind") {
  tests::every_call_fails(
      [] { script_probe<instruction::mma_bf16>({}); },
      [] {
        cuda::session s(virtual_time());
        (void)cuda::measure_issue_rate<instruction::mma_bf16>(
            s,
            {.sampling = {.warm_up = {.window_s = 0.01, .windows = 1, .cap_s = 0.1},
                          .stop = {.window = 8, .least_samples = 8, .least_s = 0}}});
      },
      4);
}

TEST_CASE("launches last as long as asked, in whole turns of the loop") {
  // 64 pairs in 8192 cycles: 128 each, so 5 ms at 1980 MHz are 77343.75 pairs.
  CHECK(cuda::pairs_lasting(5_ms, 1980, 64, 8192, 1) == 77343);
  CHECK(cuda::pairs_lasting(5_ms, 1980, 64, 8192, 4) == 77340);
  CHECK(cuda::pairs_lasting(5_ms, 1980, 64, 64, 4) == cuda::most_pairs);
  CHECK(cuda::pairs_lasting(5_ms, 1980, 64, 1e12, 4) == 4);
}

TEST_CASE("a chain of FMAs ends where its closed form says") {
  for (int thread = 0; thread < 1024; thread += 37)
    for (int chain = 0; chain < cuda::fma_chains; ++chain) {
      const double start32 = cuda::start_of_chain(23, thread, chain);
      const double start64 = cuda::start_of_chain(52, thread, chain);
      const double start16 = cuda::start_of_chain(10, thread, chain);
      REQUIRE(static_cast<double>(static_cast<float>(start32)) == start32);
      REQUIRE((start16 >= 1 && start16 < 1.5 && start64 >= 1 && start64 < 1.5));
      auto x = static_cast<float>(start32);
      double y = start64;
      double z = start16;  // its values are multiples of 2^-10 in (1, 2]
      for (int pair = 0; pair < 1000; ++pair) {
        x = std::fmaf(x, -1.0F, 3.0F);
        x = std::fmaf(x, -1.0F, static_cast<float>(cuda::second_addend<instruction::fma_fp32>()));
        y = std::fma(y, -1.0, 3.0);
        y = std::fma(y, -1.0, cuda::second_addend<instruction::fma_fp64>());
        z = 3 - (3 - z);
      }
      REQUIRE(x == cuda::expected_of_fma<instruction::fma_fp32>(thread, chain, 1000, false));
      REQUIRE(std::fmaf(x, -1.0F, 3.0F) ==
              cuda::expected_of_fma<instruction::fma_fp32>(thread, chain, 1000, true));
      REQUIRE(y == cuda::expected_of_fma<instruction::fma_fp64>(thread, chain, 1000, false));
      REQUIRE(cuda::fp16_pair(3 - z, 3 - z) ==
              cuda::expected_of_fma<instruction::fma_half2>(thread, chain, 1000, true));
      // Still exact at the most pairs.
      const double last = start32 + static_cast<double>(cuda::most_pairs) * 0x1p-22;
      REQUIRE((last < 2 && static_cast<double>(static_cast<float>(last)) == last));
    }
}

TEST_CASE("the swizzle of an operand moves 16-byte parts within eight rows, and loses none") {
  std::vector<int> seen(64 * 128, 0);
  for (int row = 0; row < 64; ++row)
    for (int byte = 0; byte < 128; ++byte) {
      const int at = cuda::detail::swizzled_offset(row, byte);
      REQUIRE((at >= row * 128 && at < row * 128 + 128 && at % 16 == byte % 16));
      // Bits 4 to 6 of the address, exchanged by bits 7 to 9 (CUTLASS: Swizzle<3, 4, 3>).
      const int plain = row * 128 + byte;
      REQUIRE(at == (plain ^ ((plain >> 3) & 0x70)));
      ++seen[static_cast<std::size_t>(at)];
    }
  CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
}

TEST_CASE("the descriptor of an operand has its fields where the PTX ISA says") {
  const std::uint64_t of = cuda::detail::operand_descriptor(0x2c400);
  CHECK((of & 0x3fff) == 0x2c40);      // address / 16
  CHECK(((of >> 32) & 0x3fff) == 64);  // 1024 bytes from eight rows to the next
  CHECK(((of >> 49) & 7) == 0);        // operands begin at multiples of 1024 bytes
  CHECK((of >> 62) == 1);              // 128-byte swizzle
  // A step along a row is 32 bytes.
  CHECK(cuda::detail::operand_descriptor(0x2c420) == of + 2);
}

TEST_CASE("numbers in pairs are the same but for the sign of zero") {
  using cuda::detail::same_number;
  CHECK(same_number<std::uint32_t>(0x80003c00, 0x00003c00));
  CHECK(same_number<std::uint32_t>(0x3c008000, 0x3c000000));
  CHECK(!same_number<std::uint32_t>(0xbc000000, 0x3c000000));
  CHECK(!same_number<std::uint32_t>(0x3c003c00, 0x3c003c01));
  CHECK(same_number(0.0F, -0.0F));
  CHECK(!same_number(std::numeric_limits<float>::quiet_NaN(),
                     std::numeric_limits<float>::quiet_NaN()));
}

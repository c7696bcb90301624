#include "check.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cuda/probes/instructions.hpp>
#include <gpuplan/cuda/probes/operands.hpp>

#include <cstdint>
#include <iterator>

// What the probes of a GPU multiply and must find, computed without a GPU.
namespace {

using namespace gpuplan;
using namespace gpuplan::cuda;

TEST_CASE("operations of an instruction") {
  STATIC_CHECK(flop_of(facts_of(instruction::fma_fp32)) == 2);
  STATIC_CHECK(flop_of(facts_of(instruction::fma_half2)) == 4);
  STATIC_CHECK(flop_of(facts_of(instruction::mma_bf16)) == 4096);
  STATIC_CHECK(flop_of(facts_of(instruction::mma_tf32)) == 2048);
  STATIC_CHECK(flop_of(facts_of(instruction::mma_int8)) == 8192);
  STATIC_CHECK(flop_of(facts_of(instruction::mma_fp64)) == 512);
  STATIC_CHECK(flop_of(facts_of(instruction::wgmma_bf16)) == 524288);
  STATIC_CHECK([] {
    for (std::size_t i = 0; i < std::size(all_instructions); ++i)
      if (all_instructions[i] != static_cast<instruction>(i)) return false;
    return std::size(all_instructions) == static_cast<std::size_t>(instruction::wgmma_int8) + 1;
  }());
}

// ---- fragments, as the PTX ISA states them: element by element, and not register by register

struct shape {
  int m, n, k;
  int per_register;
};
constexpr shape shapes[] = {{16, 8, 16, 2}, {16, 8, 32, 4}, {16, 8, 8, 1}, {8, 8, 4, 1}};

// "Matrix Fragments for mma.m16n8k16 with floating point type", ".m16n8k32", ".m16n8k8", ".m8n8k4".
constexpr matrix_place stated_in_a(const shape& of, int lane, int i) {
  const int group = lane >> 2;
  const int thread = lane % 4;
  switch (of.k) {
    case 16:
      return {(i < 2 || (i >= 4 && i < 6)) ? group : group + 8,
              thread * 2 + (i & 1) + (i < 4 ? 0 : 8)};
    case 32:
      return {(i < 4 || (i >= 8 && i < 12)) ? group : group + 8,
              thread * 4 + (i & 3) + (i < 8 ? 0 : 16)};
    case 8:
      return {(i == 0 || i == 2) ? group : group + 8, i < 2 ? thread : thread + 4};
    default:
      return {group, thread};
  }
}

constexpr matrix_place stated_in_b(const shape& of, int lane, int i) {
  const int group = lane >> 2;
  const int thread = lane % 4;
  switch (of.k) {
    case 16:
      return {thread * 2 + (i & 1) + (i < 2 ? 0 : 8), group};
    case 32:
      return {thread * 4 + (i & 3) + (i < 4 ? 0 : 16), group};
    case 8:
      return {i == 0 ? thread : thread + 4, group};
    default:
      return {thread, group};
  }
}

TEST_CASE("fragments of A, B and the sum hold every element once, where the PTX ISA says") {
  STATIC_CHECK([] {
    for (const shape& of : shapes) {
      bool a_seen[16 * 32] = {};
      bool b_seen[32 * 8] = {};
      bool sum_seen[16 * 8] = {};
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < of.m * of.k / 32; ++i) {
          const matrix_place at =
              place_in_a(lane, i / of.per_register, i % of.per_register, of.per_register);
          bool& seen = a_seen[at.row * of.k + at.column];
          if (at != stated_in_a(of, lane, i) || at.row >= of.m || at.column >= of.k || seen)
            return false;
          seen = true;
        }
        for (int i = 0; i < of.k * of.n / 32; ++i) {
          const matrix_place at =
              place_in_b(lane, i / of.per_register, i % of.per_register, of.per_register);
          bool& seen = b_seen[at.row * of.n + at.column];
          if (at != stated_in_b(of, lane, i) || at.row >= of.k || at.column >= of.n || seen)
            return false;
          seen = true;
        }
        for (int i = 0; i < of.m * of.n / 32; ++i) {
          const matrix_place at = place_in_sum(lane, i);
          bool& seen = sum_seen[at.row * of.n + at.column];
          // "row = groupID for c0 and c1, groupID + 8 for c2 and c3".
          if (at != matrix_place{(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)} || seen)
            return false;
          seen = true;
        }
      }
    }
    return true;
  }());
}

TEST_CASE("the sum of a warpgroup holds every element of 64 x 256 once") {
  STATIC_CHECK([] {
    bool seen[64 * 256] = {};
    for (int thread = 0; thread < 128; ++thread)
      for (int i = 0; i < 128; ++i) {
        const matrix_place at = place_in_group_sum(thread, i);
        if (at.row >= 64 || at.column >= 256 || seen[at.row * 256 + at.column]) return false;
        seen[at.row * 256 + at.column] = true;
      }
    return true;
  }());
  // Lane 0 of each warp begins a band of 16 rows; its first registers are two columns of row 0,
  // then of row 8, then the columns 8 further right.
  STATIC_CHECK(place_in_group_sum(32, 0) == matrix_place{16, 0});
  STATIC_CHECK(place_in_group_sum(0, 1) == matrix_place{0, 1});
  STATIC_CHECK(place_in_group_sum(0, 2) == matrix_place{8, 0});
  STATIC_CHECK(place_in_group_sum(0, 4) == matrix_place{0, 8});
  STATIC_CHECK(place_in_group_sum(5, 0) == matrix_place{1, 2});
}

// ---- numbers

// From the bits alone, as IEEE 754 and its kin define them.
constexpr double decoded(std::uint64_t bits, const bit_layout& layout) {
  const auto mantissa = bits & ((std::uint64_t{1} << layout.mantissa_bits) - 1);
  const int exponent_bits = layout.bits - 1 - layout.mantissa_bits;
  const auto exponent =
      static_cast<int>((bits >> layout.mantissa_bits) & ((1U << exponent_bits) - 1U));
  double value = 1 + static_cast<double>(mantissa) /
                         static_cast<double>(std::uint64_t{1} << layout.mantissa_bits);
  for (int e = exponent; e < layout.exponent_bias; ++e) value /= 2;
  for (int e = exponent; e > layout.exponent_bias; --e) value *= 2;
  return (bits >> (layout.bits - 1) & 1) != 0 ? -value : value;
}

constexpr number_format floating_formats[] = {number_format::fp64,
                                              number_format::tf32,
                                              number_format::bf16,
                                              number_format::fp16,
                                              number_format::fp8};

TEST_CASE("the bits of an operand's elements stand for their values") {
  STATIC_CHECK([] {
    for (const number_format format : floating_formats) {
      const operand_rule rule = rule_of(format, accumulator::fp32);
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 32; ++column)
          for (const operand_element& element : {left_operand(rule, row, column, 32, false),
                                                 left_operand(rule, row, column, 32, true),
                                                 right_operand(rule, column, row, 32, 3)}) {
            const std::uint64_t bits = bits_of(rule, element);
            const bit_layout layout = layout_of(format);
            if (layout.bits < 64 && bits >> layout.bits != 0) return false;
            if (decoded(bits, layout) != value_of(rule, element)) return false;
          }
    }
    return true;
  }());
  // tf32 is what the upper 19 bits of fp32 hold.
  STATIC_CHECK([] {
    const operand_rule rule = rule_of(number_format::tf32, accumulator::fp32);
    for (int i = 0; i < 256; ++i)
      if ((bits_of(rule, left_operand(rule, i / 16, i % 16, 16, true)) & 0x1fff) != 0) return false;
    return true;
  }());
  STATIC_CHECK([] {
    const operand_rule rule = rule_of(number_format::int8, accumulator::fp32);
    for (int i = 0; i < 512; ++i) {
      const operand_element element = left_operand(rule, i / 32, i % 32, 32, true);
      if (static_cast<std::int8_t>(bits_of(rule, element)) != value_of(rule, element)) return false;
      if (element.integer < -127 || element.integer > 127) return false;
    }
    return true;
  }());
}

TEST_CASE("operands look random: both signs, all fractions, about as often") {
  CONSTEXPR auto counted = [] {
    struct {
      int negative = 0;
      int fractions[64] = {};
    } found;
    const operand_rule rule = rule_of(number_format::bf16, accumulator::fp32);
    for (int row = 0; row < 64; ++row)
      for (int column = 0; column < 63; ++column) {
        const operand_element element = left_operand(rule, row, column, 64, false);
        found.negative += element.negative;
        ++found.fractions[element.fraction];
      }
    return found;
  };
  STATIC_CHECK(counted().negative > 1900 && counted().negative < 2132);  // of 4032, 3.6 deviations
  STATIC_CHECK([=] {
    for (const int count : counted().fractions)
      if (count < 30 || count > 100) return false;  // of 63 expected
    return true;
  }());
}

TEST_CASE("16-bit numbers in pairs") {
  STATIC_CHECK(bits_of_fp16(0) == 0);
  STATIC_CHECK(bits_of_fp16(1) == 0x3c00);
  STATIC_CHECK(bits_of_fp16(-2) == 0xc000);
  STATIC_CHECK(bits_of_fp16(0.0625) == 0x2c00);
  STATIC_CHECK(bits_of_fp16(48.5625) == 0x5212);
  STATIC_CHECK(fp16_pair(1, 3) == 0x42003c00);
}

// ---- sums

// The sum in the format that the device sums in, each product added by itself, which is at least as
// inexact as what a tensor core does.
template <class Sum>
constexpr Sum summed(const operand_rule& rule,
                     matrix_place at,
                     int chain,
                     int columns,
                     Sum sum,
                     int pairs,
                     bool odd) {
  for (int pair = 0; pair < pairs + (odd ? 1 : 0); ++pair)
    for (int second = 0; second < (pair < pairs ? 2 : 1); ++second)
      for (int i = 0; i < columns; ++i) {
        const double product = value_of(rule, left_operand(rule, at.row, i, columns, second == 1)) *
                               value_of(rule, right_operand(rule, i, at.column, columns, chain));
        sum = static_cast<Sum>(sum + static_cast<Sum>(product));
      }
  return sum;
}

template <class Sum>
constexpr bool closed_form_holds(number_format format, int columns, std::int64_t before) {
  const operand_rule rule = rule_of(format, accumulator::fp32);
  for (int place = 0; place < 24; ++place) {
    const matrix_place at{place % 16, place * 5 % 8};
    const int chain = place % 8;
    const double start = chain + static_cast<double>(before) * added_by_pair(rule);
    if (static_cast<double>(static_cast<Sum>(start)) != start) return false;
    for (const bool odd : {false, true}) {
      const auto sum = summed(rule, at, chain, columns, static_cast<Sum>(start), 3, odd);
      if (static_cast<double>(sum) !=
          sum_of_probe(rule, at, chain, columns, before + 3, odd ? columns : 0))
        return false;
    }
  }
  return true;
}

TEST_CASE("the closed form of a sum holds exactly, at its start and at the most pairs") {
  CONSTEXPR std::int64_t last = most_pairs - 3;
  STATIC_CHECK(closed_form_holds<float>(number_format::bf16, 16, 0));
  STATIC_CHECK(closed_form_holds<float>(number_format::bf16, 16, last));
  STATIC_CHECK(closed_form_holds<float>(number_format::fp16, 16, last));
  STATIC_CHECK(closed_form_holds<float>(number_format::tf32, 8, last));
  STATIC_CHECK(closed_form_holds<float>(number_format::fp8, 32, last));
  STATIC_CHECK(closed_form_holds<int>(number_format::int8, 32, 0));
  STATIC_CHECK(closed_form_holds<int>(number_format::int8, 32, last));
  STATIC_CHECK(closed_form_holds<double>(number_format::fp64, 4, 0));
  STATIC_CHECK(closed_form_holds<double>(number_format::fp64, 8, last));
  STATIC_CHECK(sum_of_probe(rule_of(number_format::bf16, accumulator::fp32), {}, 5, 16, 4096, 0) ==
               6);
}

TEST_CASE("sums in fp16 and of fp8 stay within the bits that are kept") {
  // Every partial sum is a multiple of 1/16 below 128: 11 bits.
  CONSTEXPR auto in_range = [](number_format format, accumulator sum_format, int columns) {
    const operand_rule rule = rule_of(format, sum_format);
    for (int place = 0; place < 128; ++place) {
      double sum = 7;
      for (int i = 0; i < columns; ++i) {
        sum += value_of(rule, left_operand(rule, place / 8, i, columns, false)) *
               value_of(rule, right_operand(rule, i, place % 8, columns, 7));
        const double sixteenths = 16 * sum;
        if (sixteenths != static_cast<double>(static_cast<int>(sixteenths))) return false;
        if (sixteenths > 2048 || sixteenths < -2048) return false;
      }
    }
    return true;
  };
  STATIC_CHECK(in_range(number_format::fp16, accumulator::fp16, 16));
  STATIC_CHECK(in_range(number_format::fp8, accumulator::fp32, 32));
}

// ---- published rates

constexpr bool near(double a, double b, double tolerance) {
  return a < b * (1 + tolerance) && a > b * (1 - tolerance);
}

// Whether the published rate of an SM, by its SMs and a clock, is a data sheet's.
constexpr bool matches(const gpu_spec& gpu,
                       instruction which,
                       known<compute_rate> rate,
                       double clock_MHz,
                       bool halved = false) {
  const auto each = published(which, *gpu.compute_capability);
  if (!each || !rate) return false;
  const double flop = halved ? each->of_halved_devices : each->flop_per_clock;
  // Data sheets round: 33.5 to 34.
  return near(flop * gpu.sm_count * clock_MHz * 1e6, rate->value(), 0.017);
}

TEST_CASE("published rates of an SM give those of the data sheets") {
  using enum instruction;
  CONSTEXPR auto& a100 = catalog::a100_sxm4_80gb;
  STATIC_CHECK(matches(a100, fma_fp32, a100.dense.fp32, 1410));
  STATIC_CHECK(matches(a100, fma_fp64, a100.dense.fp64, 1410));
  STATIC_CHECK(matches(a100, fma_half2, a100.dense.fp16_vector, 1410));
  STATIC_CHECK(matches(a100, mma_bf16, a100.dense.bf16, 1410));
  STATIC_CHECK(matches(a100, mma_fp16, a100.dense.fp16, 1410));
  STATIC_CHECK(matches(a100, mma_tf32, a100.dense.tf32, 1410));
  STATIC_CHECK(matches(a100, mma_int8, a100.dense.int8, 1410));
  STATIC_CHECK(matches(a100, mma_fp64, a100.dense.fp64_matrix, 1410));
  // Vector units are stated at a higher clock than tensor cores, which take more power.
  CONSTEXPR auto& h100 = catalog::h100_sxm5_80gb;
  STATIC_CHECK(matches(h100, fma_fp32, h100.dense.fp32, 1980));
  STATIC_CHECK(matches(h100, fma_fp64, h100.dense.fp64, 1980));
  STATIC_CHECK(matches(h100, fma_half2, h100.dense.fp16_vector, 1980));
  STATIC_CHECK(matches(h100, mma_fp64_m16n8k8, h100.dense.fp64_matrix, 1980));
  STATIC_CHECK(matches(h100, wgmma_bf16, h100.dense.bf16, 1830));
  STATIC_CHECK(matches(h100, wgmma_fp16, h100.dense.fp16, 1830));
  STATIC_CHECK(matches(h100, wgmma_tf32, h100.dense.tf32, 1830));
  STATIC_CHECK(matches(h100, wgmma_fp8, h100.dense.fp8, 1830));
  STATIC_CHECK(matches(h100, wgmma_int8, h100.dense.int8, 1830));
  CONSTEXPR auto& ada = catalog::rtx_4090;
  STATIC_CHECK(matches(ada, fma_fp32, ada.dense.fp32, 2520));
  STATIC_CHECK(matches(ada, fma_fp64, ada.dense.fp64, 2520));
  STATIC_CHECK(matches(ada, fma_half2, ada.dense.fp16_vector, 2520));
  STATIC_CHECK(matches(ada, mma_bf16, ada.dense.bf16, 2520, true));
  STATIC_CHECK(matches(ada, mma_fp16_sum_fp16, ada.dense.fp16_sum_fp16, 2520));
  STATIC_CHECK(matches(ada, mma_tf32, ada.dense.tf32, 2520, true));
  STATIC_CHECK(matches(ada, mma_fp8, ada.dense.fp8, 2520, true));
  STATIC_CHECK(matches(ada, mma_int8, ada.dense.int8, 2520));
  // Cards that are not halved, and the other dies of their kind.
  STATIC_CHECK(matches(catalog::rtx_6000_ada,
                       mma_bf16,
                       catalog::rtx_6000_ada.dense.bf16,
                       *catalog::rtx_6000_ada.clock_MHz));
  STATIC_CHECK(matches(
      catalog::rtx_a6000, mma_bf16, catalog::rtx_a6000.dense.bf16, *catalog::rtx_a6000.clock_MHz));
  STATIC_CHECK(matches(catalog::rtx_3090,
                       mma_bf16,
                       catalog::rtx_3090.dense.bf16,
                       *catalog::rtx_3090.clock_MHz,
                       true));
  STATIC_CHECK(matches(
      catalog::rtx_5090, mma_fp8, catalog::rtx_5090.dense.fp8, *catalog::rtx_5090.clock_MHz, true));
  STATIC_CHECK(matches(catalog::b200_sxm, fma_fp64, catalog::b200_sxm.dense.fp64, 1965));
}

TEST_CASE("no rate is stated for what an SM lacks, or does by other instructions") {
  using enum instruction;
  STATIC_CHECK(!published(mma_bf16, 90) && published(wgmma_bf16, 90));
  STATIC_CHECK(!published(wgmma_bf16, 80) && !published(wgmma_bf16, 100));
  STATIC_CHECK(!published(mma_fp8, 80) && published(mma_fp8, 89));
  STATIC_CHECK(!published(fma_fp32, 75) && !published(fma_fp32, 103));
  STATIC_CHECK(!published(mma_fp64_m16n8k8, 80));
  STATIC_CHECK([] {
    for (const instruction which : all_instructions)
      for (const int capability : {80, 86, 89, 90, 100, 120})
        if (const auto rate = published(which, capability))
          if (!(rate->flop_per_clock >= rate->of_halved_devices && rate->of_halved_devices > 0 &&
                *rate->source != '\0' && exists_on(facts_of(which), capability)))
            return false;
    return true;
  }());
}

}  // namespace

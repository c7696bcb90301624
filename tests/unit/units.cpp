#include "check.hpp"

#include <gpuplan/units.hpp>

#include <cstdint>

using namespace gpuplan;

TEST_CASE("memory literals are whole bytes, and GB is not GiB") {
  STATIC_CHECK(1.2_GB == 1'200'000'000_B);
  STATIC_CHECK(24_GiB == 25'769'803'776_B);
  STATIC_CHECK(24_GB == 24'000'000'000_B);
  STATIC_CHECK(80_GB < 80_GiB);
  STATIC_CHECK(1_TB == 1000_GB);
  STATIC_CHECK(1_TiB == 1024_GiB);
  STATIC_CHECK(1_MiB == 1024_KiB);
  STATIC_CHECK(1_KB == 1000_B);
  STATIC_CHECK((0.1_GiB).value() == 107374182.0);  // 107374182.4
  STATIC_CHECK((0.3_KiB).value() == 307.0);        // 307.2
  STATIC_CHECK((0.5_B).value() == 1.0);
  STATIC_CHECK(0.1_GB + 0.2_GB == 0.3_GB);
  STATIC_CHECK(3 * 0.1_GB == 0.3_GB);
}

TEST_CASE("rates, times, money and energy come out as people write them") {
  STATIC_CHECK(165.2_TFLOPS * 1_s == 165.2_TFLOP);
  STATIC_CHECK(1_PFLOPS == 1000_TFLOPS);
  STATIC_CHECK(1000_GFLOPS == 1_TFLOPS);
  STATIC_CHECK(1_EFLOP == 1000_PFLOP);
  STATIC_CHECK(3.35_TBps == 3350_GBps);
  STATIC_CHECK(1000_MBps == 1_GBps);
  STATIC_CHECK(400_Gbps == 50_GBps);
  STATIC_CHECK(1_GiBps == 1'073'741'824_Bps);
  STATIC_CHECK(1_d == 24_h);
  STATIC_CHECK(1_h == 60_min);
  STATIC_CHECK(1_min == 60'000_ms);
  STATIC_CHECK(1_ms == 1000_us);
  STATIC_CHECK(3_usd_per_hour * 100_h == 300_usd);
  STATIC_CHECK(700_W * 1_h == 0.7_kWh);
  STATIC_CHECK(1_kW * 1_s == 1000_J);
  STATIC_CHECK(989.4_TFLOPS / 3.35_TBps > 295_FLOP_per_B);
  STATIC_CHECK(989.4_TFLOPS / 3.35_TBps < 296_FLOP_per_B);
  STATIC_CHECK(12_GFLOP / 4_GB == 3_FLOP_per_B);
}

TEST_CASE("integers and floats scale quantities on either side") {
  CONSTEXPR std::int64_t gpus = 8;
  CONSTEXPR unsigned char few = 3;
  STATIC_CHECK(gpus * 80_GB == 640_GB);
  STATIC_CHECK(80_GB * gpus == 640_GB);
  STATIC_CHECK(640_GB / gpus == 80_GB);
  STATIC_CHECK(few * 1_h == 180_min);
  STATIC_CHECK(2 * 1.5_s == 3_s);
  STATIC_CHECK(2.0 * 1.5_s == 3_s);
  STATIC_CHECK(-1 * 1_s == -1_s);
  STATIC_CHECK(0.5F * 24_GiB == 12_GiB);
  STATIC_CHECK(24_GiB / 0.5F == 48_GiB);
}

TEST_CASE("ratios of like quantities are plain numbers") {
  CONSTEXPR double ratio = 24_GB / 12_GB;
  STATIC_CHECK(ratio == 2);
  STATIC_CHECK(in(21.4_GB, 1_MB) == 21'400);
  STATIC_CHECK(in(36_h, 1_d) == 1.5);
  STATIC_CHECK(in(2000_GBps, 1_TBps) == 2);
}

TEST_CASE("rates and times of samples and tokens") {
  STATIC_CHECK(samples_per(4096, 2_s) == 2048_samples_per_s);
  STATIC_CHECK(tokens_per(1'000'000, 4_s) == 250'000_tokens_per_s);
  STATIC_CHECK(time_for(178'000, 4000_samples_per_s) == 44.5_s);
  STATIC_CHECK(time_for(1000, 500_tokens_per_s) == 2_s);
}

namespace {

template <class A, class B>
concept addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept dividable_into = requires(A a, B b) {
  in(a, b);
};

}  // namespace

TEST_CASE("wrong dimensions are seen by requires") {
  STATIC_CHECK(addable<bytes, bytes>);
  STATIC_CHECK(!addable<bytes, duration>);
  STATIC_CHECK(!addable<flop_count, compute_rate>);
  STATIC_CHECK(!addable<bytes, double>);
  STATIC_CHECK(!comparable<money, price>);
  STATIC_CHECK(!comparable<sample_rate, token_rate>);
  STATIC_CHECK(!dividable_into<bytes, duration>);
  STATIC_CHECK(any_quantity<bytes>);
  STATIC_CHECK(!any_quantity<double>);
  STATIC_CHECK(!any_quantity<int>);
}

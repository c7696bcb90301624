// Measurements of matrix products on the stand-in: which product is described to cuBLASLt, which
// algorithm is taken, what is told of failures.

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "played_matmuls.hpp"

namespace {

using namespace played;
using std::string;

bool contains(const string& text, std::string_view part) { return text.find(part) != string::npos; }

// Few samples: the stand-in multiplies in earnest.
const gemm_options brief{.sampling = {.warm_up = {.window_s = 0.1},
                                      .stop = {.window = 4, .least_samples = 4, .least_s = 0}}};

constexpr matmul_shape small{48, 32, 64};

gemm_result measured(const matmul& matmul, const gemm_options& options = brief) {
  session s(virtual_time());
  gemm_result result = measure_gemm(s, matmul, options);
  CHECK(stand_in::live().count("cublasLtCreate") == 0);
  return result;
}

// Numbers in 1 of a million.
doctest::Approx nearly(double x) { return doctest::Approx(x).epsilon(1e-6); }

}  // namespace

TEST_CASE("a matmul is timed by the fastest algorithm, sustained, in a burst and of zeros") {
  played::reset<number_format::bf16>();
  bool zeros = false;
  stand_in::current_matmul().body = [&](const stand_in::matmul& m) {
    const auto is_zero = [](const void* data, const stand_in::matmul::matrix& of) {
      const std::vector<unsigned char> none(of.rows * of.columns * 2);
      return std::memcmp(data, none.data(), none.size()) == 0;
    };
    zeros = is_zero(m.a_data, m.a) && is_zero(m.b_data, m.b);
    played::multiply(m);
  };
  play_own_kernel<__nv_bfloat16>(80e-3);
  {
    const gemm_result result = measured({number_format::bf16, small});
    CHECK(result.why_not.empty());
    CHECK(result.why_no_own_kernel.empty());
    CHECK(result.proposals == 3);
    CHECK(result.gain_of_choice == doctest::Approx(40.0 / 50).epsilon(1e-4));
    const double operations = 2.0 * 48 * 32 * 64;
    REQUIRE(result.sustained.has_value());
    CHECK(result.sustained->rate.value() == nearly(operations / 40e-3));
    CHECK(result.sustained->timing.state == load::sustained);
    REQUIRE(result.burst.has_value());
    CHECK(result.burst->rate.value() == nearly(operations / 40e-3));
    CHECK(result.burst->timing.state == load::burst);
    REQUIRE(result.zeros.has_value());
    REQUIRE(result.own_kernel.has_value());
    CHECK(result.own_kernel->rate.value() == nearly(operations / 80e-3));
    CHECK(result.errors.elements > 0);
    CHECK(result.errors.elements <= 1);
    CHECK(result.errors.rows > 0);
    CHECK(result.errors.rows < 0.5);
    CHECK(zeros);  // the last reading's
    CHECK(stand_in::matmuls().back().algorithm == 2);

    const measured_matmul kept = measured_matmul_of(result);
    CHECK(kept.format == number_format::bf16);
    CHECK(kept.shape == small);
    CHECK(kept.sustained->median.value() == nearly(operations / 40e-3));
    CHECK(kept.sustained->lower_quartile <= kept.sustained->median);
    CHECK(kept.sustained->upper_quartile >= kept.sustained->median);
    CHECK(kept.sustained->samples == result.sustained->timing.samples);
    CHECK(*kept.sustained->clock_MHz == 1980);
    CHECK(static_cast<bool>(kept.zeros));
    CHECK(static_cast<bool>(kept.own_kernel));
  }
  CHECK(stand_in::live().empty());
}

TEST_CASE("readings that are not asked for are not taken") {
  played::reset<number_format::bf16>();
  gemm_options options = brief;
  options.burst = options.zeros = options.own_kernel = false;
  const gemm_result result = measured({number_format::bf16, small}, options);
  CHECK(result.sustained.has_value());
  CHECK(!result.burst);
  CHECK(!result.zeros);
  CHECK(!result.own_kernel);
  CHECK(result.why_not.empty());
  CHECK(result.why_no_own_kernel.empty());
  const measured_matmul kept = measured_matmul_of(result);
  CHECK(!kept.zeros);
}

TEST_CASE("a burst at a low clock costs no other reading") {
  played::reset<number_format::bf16>();
  // 40 % of the highest, as of a device that has not woken up yet.
  stand_in::current().devices[0].clock_MHz = [](double) { return 800.0; };
  const gemm_result result = measured({number_format::bf16, small});
  CHECK(!result.burst);
  CHECK(result.sustained.has_value());
  CHECK(result.zeros.has_value());
  CHECK(contains(result.why_not, "forward, burst: all 8 samples ran below 50 %"));
  CHECK(stand_in::live().empty());
}

namespace {

// Every layout, against loops that read it by columns.
template <number_format Format>
void check_layouts() {
  CAPTURE(text(Format));
  for (const matmul_pass pass :
       {matmul_pass::forward, matmul_pass::input_gradient, matmul_pass::weight_gradient})
    for (const matmul_shape& shape : {small, matmul_shape{20, 80, 16}}) {
      CAPTURE(name(pass));
      played::reset<Format>();
      gemm_options options = brief;
      options.burst = options.zeros = options.own_kernel = false;
      const gemm_result result = measured({Format, shape, pass}, options);
      CHECK(result.why_not == "");
      CHECK(result.errors.are_within_bounds());
      // Integers are exact, and the loops add fp64 in the order of the check.
      const bool exact = Format == number_format::int8 || Format == number_format::fp64;
      CHECK((result.errors.elements == 0) == exact);
      CHECK(result.sustained.has_value());
      const stand_in::matmul& asked = stand_in::matmuls().back();
      if (Format == number_format::fp8 || Format == number_format::int8) {
        CHECK(asked.transpose_a == CUBLAS_OP_T);
        CHECK(asked.transpose_b == CUBLAS_OP_N);
      }
      CHECK((asked.a_scale != nullptr) == (Format == number_format::fp8));
      CHECK((asked.b_scale != nullptr) == (Format == number_format::fp8));
      CHECK(asked.c_data == asked.d_data);
      CHECK(asked.c.type == asked.d.type);
    }
  CHECK(stand_in::live().empty());
}

}  // namespace

TEST_CASE("cuBLASLt is told of all passes in all formats") {
  check_layouts<number_format::fp64>();
  check_layouts<number_format::fp32>();
  check_layouts<number_format::tf32>();
  check_layouts<number_format::bf16>();
  check_layouts<number_format::fp16>();
  check_layouts<number_format::fp8>();
  check_layouts<number_format::int8>();
}

TEST_CASE("cuBLASLt is told how to add up, and with which alpha and beta") {
  played::reset<number_format::fp8,
                number_format::int8,
                number_format::fp64,
                number_format::tf32,
                number_format::fp32>();
  const auto last = [](number_format format) {
    gemm_options options = brief;
    options.burst = options.zeros = options.own_kernel = false;
    static_cast<void>(measured({format, small}, options));
    return stand_in::matmuls().back();
  };
  const auto is = [](const auto* at, auto value) { return *at == value; };
  const stand_in::matmul int8 = last(number_format::int8);
  CHECK(int8.compute == CUBLAS_COMPUTE_32I);
  CHECK(is(static_cast<const std::int32_t*>(int8.alpha), 1));
  CHECK(is(static_cast<const std::int32_t*>(int8.beta), 0));
  const stand_in::matmul fp64 = last(number_format::fp64);
  CHECK(fp64.compute == CUBLAS_COMPUTE_64F);
  CHECK(is(static_cast<const double*>(fp64.alpha), 1.0));
  CHECK(is(static_cast<const double*>(fp64.beta), 0.0));
  const stand_in::matmul tf32 = last(number_format::tf32);
  CHECK(tf32.compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  CHECK(is(static_cast<const float*>(tf32.alpha), 1.0F));
  CHECK(is(static_cast<const float*>(tf32.beta), 0.0F));
  CHECK(last(number_format::fp32).compute == CUBLAS_COMPUTE_32F);
  // The scale is read while it is there.
  float scale = 0;
  stand_in::current_matmul().body = [&](const stand_in::matmul& m) {
    scale = *static_cast<const float*>(m.a_scale) * *static_cast<const float*>(m.b_scale);
    played::multiply(m);
  };
  CHECK(last(number_format::fp8).d.type == CUDA_R_16BF);
  CHECK(scale == 1);
}

TEST_CASE("workspace is what the device's generation is given") {
  played::reset<number_format::bf16>();
  static_cast<void>(measured({number_format::bf16, small}));
  CHECK(stand_in::matmuls().back().workspace_bytes == 64U << 20);
  played::reset<number_format::bf16>();
  stand_in::current().devices[0].properties.major = 8;
  static_cast<void>(measured({number_format::bf16, small}));
  CHECK(stand_in::matmuls().back().workspace_bytes == 32U << 20);
}

TEST_CASE("no algorithm, and the own kernel is measured all the same") {
  played::reset<number_format::bf16>();
  stand_in::current_matmul().algorithms = 0;
  play_own_kernel<__nv_bfloat16>(80e-3);
  const gemm_result result = measured({number_format::bf16, small});
  CHECK(contains(result.why_not, "bf16 48 x 32 x 64 forward: cuBLASLt has no algorithm"));
  CHECK(!result.sustained);
  CHECK(!result.burst);
  CHECK(!result.zeros);
  CHECK(result.own_kernel.has_value());
  CHECK(stand_in::live().empty());
}

TEST_CASE("an algorithm that needs more workspace is none") {
  played::reset<number_format::bf16>();
  stand_in::current_matmul().workspace_bytes = 65U << 20;
  CHECK(contains(measured({number_format::bf16, small}).why_not, "no algorithm"));
}

TEST_CASE("an algorithm that is refused is passed over") {
  played::reset<number_format::bf16>();
  stand_in::fail("cublasLtMatmul", 1, CUBLAS_STATUS_EXECUTION_FAILED);
  const gemm_result result = measured({number_format::bf16, small});
  CHECK(result.why_not.empty());
  CHECK(result.proposals == 2);
  CHECK(result.gain_of_choice == 1);  // nothing to compare with
  CHECK(result.sustained.has_value());
}

TEST_CASE("where all algorithms are refused the reason is cuBLASLt's") {
  played::reset<number_format::bf16>();
  stand_in::fail_always("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  play_own_kernel<__nv_bfloat16>(80e-3);
  const gemm_result result = measured({number_format::bf16, small});
  CHECK(contains(result.why_not, "CUBLAS_STATUS_EXECUTION_FAILED"));
  CHECK(contains(result.why_not, "cublasLtMatmul("));
  CHECK(!result.sustained);
  CHECK(result.own_kernel.has_value());
  CHECK(stand_in::live().empty());
}

TEST_CASE("only the first proposals are timed") {
  played::reset<number_format::bf16>();
  stand_in::current_matmul().algorithms = 40;
  stand_in::current_matmul().seconds = [](const stand_in::matmul& m) {
    return 50e-3 - 1e-3 * m.algorithm;
  };
  gemm_options options = brief;
  options.timed_proposals = 5;
  CHECK(measured({number_format::bf16, small}, options).proposals == 5);
  CHECK(stand_in::matmuls().back().algorithm == 4);
}

TEST_CASE("the algorithm is chosen at the clock that lasts") {
  played::reset<number_format::bf16>();
  // The second is the fastest until it has run for a while, as one that takes more power than the
  // device may draw for long.
  stand_in::current_matmul().algorithms = 2;
  int runs_of_second = 0;
  stand_in::current_matmul().seconds = [&](const stand_in::matmul& m) {
    if (m.algorithm == 0) return 5e-3;
    return ++runs_of_second > 10 ? 6e-3 : 4e-3;
  };
  gemm_options options = brief;
  options.burst = options.zeros = options.own_kernel = false;
  CHECK(measured({number_format::bf16, small}, options).gain_of_choice == 1);
  CHECK(stand_in::matmuls().back().algorithm == 0);

  runs_of_second = 0;
  options.choice_s = 0;
  CHECK(measured({number_format::bf16, small}, options).gain_of_choice ==
        doctest::Approx(4.0 / 5).epsilon(1e-4));
  CHECK(stand_in::matmuls().back().algorithm == 1);
}

TEST_CASE("a wrong matmul is found, whatever is wrong") {
  const auto why_not_with = [](void (*spoil)(const stand_in::matmul&)) {
    played::reset<number_format::bf16>();
    stand_in::current_matmul().body = [spoil](const stand_in::matmul& m) {
      played::multiply(m);
      spoil(m);
    };
    const gemm_result result = measured({number_format::bf16, small});
    CHECK(!result.sustained);
    CHECK(!result.zeros);
    CHECK(stand_in::live().empty());
    return result.why_not;
  };
  // One element that no sample need hit; a corner; nothing written; an operand taken transposed.
  CHECK(contains(why_not_with([](const stand_in::matmul& m) {
                   auto* c = static_cast<__nv_bfloat16*>(m.d_data);
                   c[777] = __nv_bfloat16(static_cast<float>(c[777]) + 8);
                 }),
                 "the matmul is wrong"));
  CHECK(contains(why_not_with([](const stand_in::matmul& m) {
                   static_cast<__nv_bfloat16*>(m.d_data)[0] = __nv_bfloat16(100.0F);
                 }),
                 "the matmul is wrong"));
  CHECK(contains(why_not_with([](const stand_in::matmul& m) {
                   std::memset(m.d_data, 0xFF, m.d.rows * m.d.columns * 2);
                 }),
                 "of an element is inf"));
  CHECK(contains(why_not_with([](const stand_in::matmul& m) {
                   stand_in::matmul other = m;
                   other.transpose_a = CUBLAS_OP_N;
                   std::swap(other.a.rows, other.a.columns);
                   other.a.leading = static_cast<std::int64_t>(other.a.rows);
                   std::memset(m.d_data, 0xFF, m.d.rows * m.d.columns * 2);
                   played::multiply(other);
                 }),
                 "the matmul is wrong"));
}

TEST_CASE("a wrong matmul of the own kernel is found, and of zeros") {
  played::reset<number_format::fp16>();
  play_own_kernel<__half>(80e-3, [](const own_gemm_call<__half>& p) { p.c[5] = __half(50.0F); });
  gemm_result result = measured({number_format::fp16, small});
  CHECK(result.sustained.has_value());
  CHECK(!result.own_kernel);
  CHECK(contains(result.why_no_own_kernel, "the matmul is wrong"));

  played::reset<number_format::fp16>();
  play_own_kernel<__half>(80e-3);
  stand_in::current_matmul().body = [](const stand_in::matmul& m) {
    played::multiply(m);
    auto* c = static_cast<__half*>(m.d_data);
    if (static_cast<float>(c[0]) == 0) c[1] = __half(1e-3F);
  };
  result = measured({number_format::fp16, small});
  CHECK(result.sustained.has_value());
  CHECK(!result.zeros);
  CHECK(contains(result.why_not, "the matmul is wrong"));
}

TEST_CASE("a shape without room is told, and the device stays usable") {
  played::reset<number_format::bf16>();
  const gemm_result result = measured({number_format::bf16, {16384, 16384, 16384}});
  CHECK(contains(result.why_not, "cudaErrorMemoryAllocation"));
  CHECK(result.why_no_own_kernel == result.why_not);
  CHECK(!stand_in::error_waits());
  CHECK(stand_in::live().empty());
  CHECK(measured({number_format::bf16, small}).sustained.has_value());
}

TEST_CASE("no room for the workspace is told, and the own kernel does without") {
  played::reset<number_format::bf16>();
  stand_in::current().devices[0].properties.totalGlobalMem = 32 << 20;
  play_own_kernel<__nv_bfloat16>(80e-3);
  const gemm_result result = measured({number_format::bf16, small});
  CHECK(contains(result.why_not, "cudaErrorMemoryAllocation"));
  CHECK(!result.sustained);
  CHECK(result.own_kernel.has_value());
}

TEST_CASE("formats that a device has not are told") {
  const auto why = [](number_format format, int major, int minor, matmul_shape shape = small) {
    played::reset<>();
    stand_in::current().devices[0].properties.major = major;
    stand_in::current().devices[0].properties.minor = minor;
    const gemm_result result = measured({format, shape});
    CHECK(!result.sustained);
    CHECK(result.why_no_own_kernel == result.why_not);
    CHECK(stand_in::calls().count("cudaMalloc") == 0);
    return result.why_not;
  };
  CHECK(why(number_format::fp8, 8, 0) == "fp8 needs compute capability 8.9");
  CHECK(why(number_format::fp8, 8, 6) == "fp8 needs compute capability 8.9");
  CHECK(why(number_format::bf16, 7, 5) == "bf16 needs compute capability 8.0");
  CHECK(why(number_format::tf32, 7, 5) == "tf32 needs compute capability 8.0");
  CHECK(contains(why(number_format::fp4, 10, 0), "fp4"));
  CHECK(why(number_format::fp8, 9, 0, {32, 24, 64}) ==
        "fp8 needs n and k that are multiples of 16");
  CHECK(why(number_format::int8, 9, 0, {32, 32, 6}) ==
        "int8 needs n and k that are multiples of 4");
  CHECK(why_unsupported({number_format::fp8, {33, 32, 64}}, 89).empty());
  CHECK(why_unsupported({number_format::fp16, {33, 31, 65}}, 75).empty());
}

TEST_CASE("what the own kernel cannot make is told") {
  const matmul fits{number_format::fp16, small};
  CHECK(why_no_own_kernel(fits, 80).empty());
  CHECK(contains(why_no_own_kernel(fits, 75), "8.0"));
  CHECK(contains(why_no_own_kernel({number_format::tf32, small}, 90), "bf16 and fp16"));
  CHECK(contains(why_no_own_kernel({number_format::fp16, {16, 16, 12}}, 90), "multiples of 8"));
  CHECK(contains(why_no_own_kernel({number_format::fp16, small, matmul_pass::weight_gradient}, 90),
                 "forward"));
}

TEST_CASE("the own kernel's blocks cover the result") {
  played::reset<number_format::bf16>();
  play_own_kernel<__nv_bfloat16>(80e-3);
  static_cast<void>(measured({number_format::bf16, {300, 130, 8}}));
  const auto launches = stand_in::launches_of("own_gemm::kernel");
  REQUIRE(!launches.empty());
  CHECK(launches[0].grid.x == 2);
  CHECK(launches[0].grid.y == 3);
  CHECK(launches[0].block.x == own_gemm::threads);
}

TEST_CASE("an error that leaves the device unusable is thrown") {
  played::reset<number_format::bf16>();
  stand_in::current().kernels.push_back(
      {.name = "normal_element", .fails = cudaErrorIllegalAddress});
  session s(virtual_time());
  CHECK_THROWS_AS(static_cast<void>(measure_gemm(s, {number_format::bf16, small}, brief)),
                  call_error);
}

// Each call once, at its first three times: it is told or thrown, and nothing leaks.
TEST_CASE("whichever call fails, nothing leaks") {
  played::reset<number_format::bf16>();
  static_cast<void>(measured({number_format::bf16, small}));
  const auto calls = stand_in::calls();
  int told = 0;
  int thrown = 0;
  for (const auto& [function, count] : calls)
    for (std::int64_t nth = 1; nth <= std::min<std::int64_t>(count, 3); ++nth) {
      CAPTURE(function);
      CAPTURE(nth);
      played::reset<number_format::bf16>();
      const bool of_cublaslt = function.starts_with("cublasLt");
      stand_in::fail(function,
                     nth,
                     of_cublaslt ? static_cast<int>(CUBLAS_STATUS_INTERNAL_ERROR)
                                 : static_cast<int>(cudaErrorUnknown));
      try {
        session s(virtual_time());
        const gemm_result result = measure_gemm(s, {number_format::bf16, small}, brief);
        told += result.why_not.empty() ? 0 : 1;
      } catch (const call_error& error) {
        ++thrown;
        CHECK(!of_cublaslt);
        CHECK(error.status().code == cudaErrorUnknown);
      }
      CHECK(stand_in::live().empty());
    }
  CHECK(told >= 10);
  CHECK(thrown > 10);
}

TEST_CASE("the fastest of several shapes is measured again") {
  played::reset<number_format::bf16>();
  play_own_kernel<__nv_bfloat16>(80e-3);
  // Ten times as long for four times the work, so that the small one wins.
  stand_in::current_matmul().seconds = [](const stand_in::matmul& m) {
    return m.d.columns * m.d.rows > 2000 ? 200e-3 : 20e-3;
  };
  session s(virtual_time());
  const matmul_shape shapes[] = {{96, 64, 64}, {48, 32, 64}, {80, 64, 64}};
  const gemm_of_format all = measure_fastest_gemm(s, number_format::bf16, shapes, brief);
  REQUIRE(all.tried.size() == 3);
  for (const gemm_result& one : all.tried) {
    CHECK(one.sustained.has_value());
    CHECK(!one.burst);
    CHECK(!one.zeros);
    CHECK(!one.own_kernel);
  }
  CHECK(all.fastest.matmul.shape == matmul_shape{48, 32, 64});
  CHECK(all.fastest.burst.has_value());
  CHECK(all.fastest.zeros.has_value());
  CHECK(all.fastest.own_kernel.has_value());
}

TEST_CASE("of a format that is not there, the result says why") {
  played::reset<>();
  session s(virtual_time());
  const gemm_of_format all = measure_fastest_gemm(s, number_format::fp4, usual_shapes, brief);
  CHECK(all.tried.size() == 3);
  CHECK(!all.fastest.sustained);
  CHECK(contains(all.fastest.why_not, "fp4"));
}

TEST_CASE("the products of a model are measured in their order") {
  played::reset<number_format::bf16>();
  session s(virtual_time());
  const transformer tiny{.num_hidden_layers = 2,
                         .hidden_size = 16,
                         .intermediate_size = 32,
                         .num_attention_heads = 2,
                         .vocab_size = 40};
  gemm_options options = brief;
  options.burst = options.zeros = options.own_kernel = false;
  const auto products = matmuls_of(tiny, 1, 24);
  const auto all = measure_gemms(s, number_format::bf16, products, options);
  REQUIRE(all.size() == products.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].of.shape == products[i].shape);
    CHECK(all[i].measured.matmul.pass == products[i].pass);
    CHECK(all[i].measured.why_not == "");
    CHECK(all[i].measured.sustained.has_value());
  }
}

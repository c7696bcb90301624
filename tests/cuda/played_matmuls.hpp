#pragma once

// What the device does in measurements of matrix products, played on the host by the stand-in: the
// kernels that fill and check run their own bodies; products are made by plain loops, which read
// what cuBLASLt was told as its documentation says, by columns.

#include <gpuplan/cuda/gemm.cuh>

#include <cxxabi.h>
#include <stand_in/cublaslt.hpp>
#include <stand_in/stand_in.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace played {

using namespace gpuplan;
using namespace gpuplan::cuda;

template <class T>
std::string name_of_type() {
  int status = 0;
  char* name = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status);
  std::string readable = name;
  std::free(name);
  return readable;
}

// for_each of this body runs on the host.
template <class Body>
void play() {
  stand_in::current().kernels.push_back(
      {.name = "for_each_kernel<" + name_of_type<Body>(), .body = [](const stand_in::launch& l) {
         for (std::int64_t i = 0; i < l.argument<std::int64_t>(0); ++i) l.argument<Body>(1)(i);
       }});
}

template <number_format Format>
void play_data_and_checks() {
  using operand = stored_t<Format>;
  using result = result_t<Format>;
  play<cuda::detail::normal_element<Format>>();
  play<cuda::detail::sampled_element<operand, result>>();
  play<cuda::detail::signed_row_sum<operand, result>>();
  play<cuda::detail::checked_row<operand, result>>();
}

// Products are made for checks alone, which begin by filling the result with this: thousands that
// are only timed would take the tests' time and leave what is there already.
template <class Result>
bool is_to_be_checked(const Result* result) {
  const Result first = result[0];
  unsigned char bytes[sizeof first];
  std::memcpy(bytes, &first, sizeof first);
  return std::all_of(
      std::begin(bytes), std::end(bytes), [](unsigned char byte) { return byte == 0xFF; });
}

template <class Element>
void play_own_kernel(double seconds, void (*spoil)(const own_gemm_call<Element>&) = nullptr) {
  stand_in::current().kernels.push_back(
      {.name = "own_gemm::kernel<" + name_of_type<Element>(),
       .seconds = [seconds](const stand_in::launch&) { return seconds; },
       .body =
           [spoil](const stand_in::launch& l) {
             const auto& p = l.argument<own_gemm_call<Element>>(0);
             if (!is_to_be_checked(p.c)) return;
             for (std::int64_t row = 0; row < p.m; ++row)
               for (std::int64_t column = 0; column < p.n; ++column) {
                 float sum = 0;
                 for (std::int64_t i = 0; i < p.k; ++i)
                   sum += static_cast<float>(p.a[row * p.a_pitch + i]) *
                          static_cast<float>(p.b[column * p.b_pitch + i]);
                 p.c[row * p.c_pitch + column] = Element(sum);
               }
             if (spoil != nullptr) spoil(p);
           }});
}

// D = op(A) op(B), each by columns.
template <class Operand, class Result, class Sum>
void multiply_by_columns(const stand_in::matmul& m) {
  const auto at = [](const void* data, const stand_in::matmul::matrix& of, bool transposed) {
    return [=](std::uint64_t row, std::uint64_t column) {
      if (transposed) std::swap(row, column);
      const auto place = row + column * static_cast<std::uint64_t>(of.leading);
      return static_cast<Sum>(number_of(static_cast<const Operand*>(data)[place]));
    };
  };
  const bool a_transposed = m.transpose_a == CUBLAS_OP_T;
  const auto a = at(m.a_data, m.a, a_transposed);
  const auto b = at(m.b_data, m.b, m.transpose_b == CUBLAS_OP_T);
  const std::uint64_t depth = a_transposed ? m.a.rows : m.a.columns;
  for (std::uint64_t column = 0; column < m.d.columns; ++column)
    for (std::uint64_t row = 0; row < m.d.rows; ++row) {
      Sum sum = 0;
      for (std::uint64_t i = 0; i < depth; ++i) sum += a(row, i) * b(i, column);
      auto* to = static_cast<Result*>(m.d_data);
      to[row + column * static_cast<std::uint64_t>(m.d.leading)] = Result(sum);
    }
}

template <class Operand, class Result, class Sum>
void multiply_to_check(const stand_in::matmul& m) {
  if (is_to_be_checked(static_cast<const Result*>(m.d_data)))
    multiply_by_columns<Operand, Result, Sum>(m);
}

// By the types that cuBLASLt was told.
inline void multiply(const stand_in::matmul& m) {
  switch (m.a.type) {
    case CUDA_R_64F:
      return multiply_to_check<double, double, double>(m);
    case CUDA_R_32F:
      return multiply_to_check<float, float, float>(m);
    case CUDA_R_16BF:
      return multiply_to_check<__nv_bfloat16, __nv_bfloat16, float>(m);
    case CUDA_R_16F:
      return multiply_to_check<__half, __half, float>(m);
    case CUDA_R_8F_E4M3:
      return multiply_to_check<__nv_fp8_e4m3, __nv_bfloat16, float>(m);
    case CUDA_R_8I:
      return multiply_to_check<std::int8_t, std::int32_t, std::int32_t>(m);
    default:
      return;
  }
}

// A fresh stand-in whose cuBLASLt multiplies, in 50 ms by its first algorithm.
template <number_format... Formats>
void reset() {
  stand_in::reset();
  (play_data_and_checks<Formats>(), ...);
  stand_in::current_matmul().seconds = [](const stand_in::matmul& m) {
    return 50e-3 - 5e-3 * m.algorithm;
  };
  stand_in::current_matmul().body = multiply;
}

inline session_options virtual_time() {
  return {.now_s = stand_in::now_s, .sleep_s = stand_in::sleep_s, .least_flush_bytes = 1 << 20};
}

}  // namespace played

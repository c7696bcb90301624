#pragma once

// One test source, built twice. With GPUPLAN_TEST_AT_COMPILE_TIME every STATIC_CHECK is a
// static_assert, and compiling the file is the test; without it the same code runs under doctest,
// where a debugger, coverage and the sanitizers see it.
//
//   TEST_CASE("a target is met exactly") {
//     CONSTEXPR auto x = f(1);
//     STATIC_CHECK(x == 2);
//   }

#ifdef GPUPLAN_TEST_AT_COMPILE_TIME

#define GPUPLAN_TEST_JOIN_(a, b) a##b
#define GPUPLAN_TEST_JOIN(a, b) GPUPLAN_TEST_JOIN_(a, b)
#define TEST_CASE(name) [[maybe_unused]] static void GPUPLAN_TEST_JOIN(test_case_, __COUNTER__)()
#define CONSTEXPR constexpr
#define STATIC_CHECK(...) static_assert((__VA_ARGS__))

#else

#include <doctest/doctest.h>

// An integer initialised from constants is folded all the same; a call inside STATIC_CHECK runs.
#define CONSTEXPR const
// The cast leaves doctest a bool, so no operand needs to be printable.
#define STATIC_CHECK(...) CHECK(static_cast<bool>(__VA_ARGS__))

#endif

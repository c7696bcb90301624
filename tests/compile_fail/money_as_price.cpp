// expect-match: money_as_price.cpp:8:[0-9]+: error:
// expect-match: conversion from .*money_dimension.* to .*time_base_dimension
// max-lines: 22
#include <gpuplan/units.hpp>

using namespace gpuplan;

constexpr price per_gpu = 3_usd;
int main() {}

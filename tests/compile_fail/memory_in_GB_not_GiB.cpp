// expect-match: memory_in_GB_not_GiB.cpp:9:
// expect-match: static.assert(ion)? ?failed
// expect-match: the card has GiB
#include <gpuplan/units.hpp>

using namespace gpuplan;

constexpr bytes card = 24_GB;
static_assert(card == 24_GiB, "the card has GiB");
int main() {}

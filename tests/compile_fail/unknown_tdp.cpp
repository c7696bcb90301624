// expect-match: precondition_violated
// expect-match: errc::not_known
#include <gpuplan/catalog/gpus.hpp>

// Google does not publish it.
constexpr gpuplan::power draw = *gpuplan::catalog::tpu_v5e.tdp;
int main() {}

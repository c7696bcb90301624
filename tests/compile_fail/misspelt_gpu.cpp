// expect-match: h100_sxm_80gb.*did you mean.*h100_sxm5_80gb
#include <gpuplan/catalog/gpus.hpp>

constexpr auto memory = usable_memory(gpuplan::catalog::h100_sxm_80gb);
int main() {}

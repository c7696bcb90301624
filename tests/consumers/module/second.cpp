#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>

long long parameters_by_headers() { return gpuplan::parameters(gpuplan::catalog::gpt2).total(); }

#include <gpuplan/replay/in_one_file.hpp>

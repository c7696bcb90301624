// A second translation unit with every header: a definition that is not inline would not link.
#include <gpuplan/gpuplan.hpp>

int second_translation_unit(int micro_batch) { return micro_batch; }

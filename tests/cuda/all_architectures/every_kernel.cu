// Every header, and every kernel of the probes and of memory.

#include <every_header.cuh>

namespace gpuplan::cuda {

void measure_everything(session& s) {
  for (const instruction which : all_instructions) static_cast<void>(measure_issue_rate(s, which));
  for (const stream_operation which : all_stream_operations)
    static_cast<void>(measure_bandwidth(s, which));
  static_cast<void>(measure_cache(s));
  static_cast<void>(measure_transfers(s));
  static_cast<void>(measure_peer(s, 1));
}

}  // namespace gpuplan::cuda

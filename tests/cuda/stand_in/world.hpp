#pragma once

// What the parts of the stand-in share, for them alone.

#include "stand_in.hpp"

#include <optional>
#include <set>

// What the runtime's handles point to.
struct CUstream_st {
  int device = 0;
  double ready_s = 0;               // when all that was put on it is done
  CUgraph_st* recording = nullptr;  // where a capture goes
};
struct CUevent_st {
  bool keeps_time = true;
  std::optional<double> at_s;
};
struct CUgraph_st {
  struct node {
    double seconds;
    std::optional<stand_in::launch> kernel;
  };
  std::vector<node> nodes;
};
struct CUgraphExec_st {
  std::vector<CUgraph_st::node> nodes;
};

namespace stand_in {

struct failure {
  std::string function;
  std::optional<std::int64_t> at;  // counted from reset; every call where empty
  int code;
};

struct allocation {
  std::size_t bytes;
  int device;  // -1: pinned
};

struct world {
  script now;
  double host_s = 0;
  std::vector<failure> failures;
  std::map<std::string, std::int64_t> calls;
  std::vector<launch> launches;
  cudaError_t last = cudaSuccess;
  cudaError_t faulted = cudaSuccess;  // found by the next call that waits
  cudaError_t broken = cudaSuccess;   // found: all calls fail
  int device = 0;
  std::map<int, CUstream_st> default_streams;
  // SM cycles, up to the moment they were last asked for
  struct cycles_so_far {
    double at_s = 0;
    double cycles = 0;
  };
  std::map<int, cycles_so_far> cycles;
  std::set<std::pair<int, int>> peers;
};

world& all();

// What lives through `reset`.
struct things {
  std::map<void*, allocation> memory;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> executables;
  std::map<std::string, std::int64_t> others;  // of cuBLASLt and NCCL, by the call that made them
};
things& made();

// The start of each call: counts it, lets time pass, and gives the code the script has for it.
int enter(const char* function);
cudaError_t enter_cuda(const char* function);

cudaError_t fails_with(cudaError_t error);  // and remembers it

CUstream_st* find_stream(cudaStream_t handle);  // nullptr: no such stream
// Puts work on a stream; when it starts and ends, or nothing where the stream is being recorded.
struct span_s {
  double start_s;
  double end_s;
};
std::optional<span_s> put_on(CUstream_st& on, double seconds, const launch* kernel = nullptr);
cudaError_t wait_until(double when_s);
double cycles_at(int device, double when_s);

// What the parts that a machine may lack do at each reset.
void at_reset(void (*again)());

}  // namespace stand_in

#define STAND_IN_ENTER                                                                      \
  if (const cudaError_t refused = ::stand_in::enter_cuda(__func__); refused != cudaSuccess) \
  return refused

// The stand-in's kernels and graphs: what nvcc's host code calls for <<<>>>, and its kin.

#include "stand_in.hpp"
#include "world.hpp"

#include <cxxabi.h>

#include <cstdlib>

namespace stand_in {
namespace {

// By the address that the host knows a kernel by. Filled before main, so it makes itself.
std::map<const void*, std::string>& kernel_names() {
  static std::map<const void*, std::string> names;
  return names;
}

struct configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
std::vector<configuration>& configurations() {
  static std::vector<configuration> pushed;
  return pushed;
}

kernel_rule* rule_for(const std::string& name) {
  auto& rules = current().kernels;
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule)
    if (name.find(rule->name) != std::string::npos) return &*rule;
  return nullptr;
}

cudaError_t launch_kernel(const void* kernel, const configuration& as, void** arguments) {
  // Under one name, whichever way it came.
  if (const cudaError_t refused = enter_cuda("cudaLaunchKernel"); refused != cudaSuccess)
    return refused;
  const auto name = kernel_names().find(kernel);
  CUstream_st* on = find_stream(as.stream);
  if (name == kernel_names().end()) return fails_with(cudaErrorInvalidDeviceFunction);
  if (on == nullptr || on->device != all().device)
    return fails_with(cudaErrorInvalidResourceHandle);
  const cudaDeviceProp& p = current().devices[static_cast<std::size_t>(all().device)].properties;
  const std::size_t threads = std::size_t{as.block.x} * as.block.y * as.block.z;
  if (threads == 0 || threads > static_cast<std::size_t>(p.maxThreadsPerBlock) || as.grid.x == 0 ||
      as.grid.y == 0 || as.grid.z == 0 || as.shared_bytes > p.sharedMemPerBlockOptin)
    return fails_with(cudaErrorInvalidConfiguration);

  launch l{.name = name->second,
           .grid = as.grid,
           .block = as.block,
           .shared_bytes = as.shared_bytes,
           .stream = as.stream,
           .device = all().device,
           .arguments = arguments};
  kernel_rule* rule = rule_for(l.name);
  if (rule != nullptr) l.index = rule->launched++;
  const double seconds = rule != nullptr && rule->seconds ? rule->seconds(l) : current().kernel_s;
  if (const auto span = put_on(*on, seconds, &l)) {
    l.start_s = span->start_s;
    l.end_s = span->end_s;
  }
  if (rule != nullptr && rule->body) rule->body(l);
  if (rule != nullptr && rule->fails != cudaSuccess) all().faulted = rule->fails;
  if (on->recording != nullptr) return cudaSuccess;
  l.arguments = nullptr;
  all().launches.push_back(std::move(l));
  return cudaSuccess;
}

}  // namespace

std::vector<launch> launches_of(std::string_view name) {
  std::vector<launch> found;
  for (const launch& l : launches())
    if (l.name.find(name) != std::string::npos) found.push_back(l);
  return found;
}

}  // namespace stand_in

using namespace stand_in;

extern "C" {

// ---- what nvcc's host code calls

void** __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(
    void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  int status = 0;
  char* readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  kernel_names()[host] = status == 0 ? readable : name;
  std::free(readable);
}

unsigned __cudaPushCallConfiguration(dim3 grid,
                                     dim3 block,
                                     std::size_t shared_bytes,
                                     CUstream_st* stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const configuration last = configurations().back();
  configurations().pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** arguments,
                               std::size_t shared_bytes,
                               cudaStream_t stream) {
  return launch_kernel(kernel, {grid, block, shared_bytes, stream}, arguments);
}

// ---- kernels

cudaError_t cudaLaunchKernel(const void* kernel,
                             dim3 grid,
                             dim3 block,
                             void** arguments,
                             std::size_t shared_bytes,
                             cudaStream_t stream) {
  return launch_kernel(kernel, {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* as,
                                const void* kernel,
                                void** arguments) {
  return launch_kernel(
      kernel, {as->gridDim, as->blockDim, as->dynamicSmemBytes, as->stream}, arguments);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int) {
  STAND_IN_ENTER;
  return kernel_names().contains(kernel) ? cudaSuccess : fails_with(cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  STAND_IN_ENTER;
  if (!kernel_names().contains(kernel)) return fails_with(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* kernel, int, std::size_t, unsigned) {
  STAND_IN_ENTER;
  if (!kernel_names().contains(kernel)) return fails_with(cudaErrorInvalidDeviceFunction);
  *blocks = current().blocks_per_multiprocessor;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void* kernel,
                                                          int threads,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, kernel, threads, shared_bytes, 0);
}

// ---- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  STAND_IN_ENTER;
  CUstream_st* on = stream == nullptr ? nullptr : find_stream(stream);
  if (on == nullptr || on->recording != nullptr) return fails_with(cudaErrorIllegalState);
  on->recording = *made().graphs.insert(new CUgraph_st).first;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  // The recording ends in any case; where this fails, nothing of it is left.
  const cudaError_t status = enter_cuda(__func__);
  *graph = nullptr;
  CUstream_st* on = find_stream(stream);
  if (on == nullptr || on->recording == nullptr) return fails_with(cudaErrorIllegalState);
  if (status == cudaSuccess) {
    *graph = on->recording;
  } else {
    made().graphs.erase(on->recording);
    delete on->recording;
  }
  on->recording = nullptr;
  return status;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const cudaError_t status = enter_cuda(__func__);
  if (made().graphs.erase(graph) == 0) return fails_with(cudaErrorInvalidValue);
  delete graph;
  return status;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable,
                                 cudaGraph_t graph,
                                 unsigned long long) {
  STAND_IN_ENTER;
  if (!made().graphs.contains(graph)) return fails_with(cudaErrorInvalidValue);
  *executable = *made().executables.insert(new CUgraphExec_st{graph->nodes}).first;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const cudaError_t status = enter_cuda(__func__);
  if (made().executables.erase(executable) == 0) return fails_with(cudaErrorInvalidValue);
  delete executable;
  return status;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  STAND_IN_ENTER;
  CUstream_st* on = find_stream(stream);
  if (!made().executables.contains(executable) || on == nullptr)
    return fails_with(cudaErrorInvalidValue);
  for (const CUgraph_st::node& node : executable->nodes) {
    const auto span = put_on(*on, node.seconds);
    if (!node.kernel || !span) continue;
    launch l = *node.kernel;
    l.arguments = nullptr;
    l.start_s = span->start_s;
    l.end_s = span->end_s;
    all().launches.push_back(std::move(l));
  }
  return cudaSuccess;
}

}  // extern "C"

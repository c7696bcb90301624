// A CUDA runtime and cuBLAS of one device that has memory and no kernels: it hands out addresses
// until it is full, and what is launched does nothing. PyTorch above it is the ordinary one, so
// that its allocator, autograd and optimizers take what they would take on a card. Loaded before
// the libraries of the wheel, from which ./run takes the names that are not answered here.

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace {

// An H100 with room for any step, so that none runs out of memory.
constexpr std::size_t memory = std::size_t{2} << 40;
constexpr int version = 13020;
constexpr int multiprocessors = 132;
constexpr int threads_a_multiprocessor = 2048;
constexpr int shared_a_block = 48 << 10;
constexpr int shared_a_block_at_most = 227 << 10;
constexpr int shared_a_multiprocessor = 228 << 10;
constexpr int registers = 65536;
constexpr std::size_t page = 2 << 20;  // what the driver hands out

// Addresses that nothing may read: what is freed is given out again by its size.
class device_memory {
 public:
  void* take(std::size_t size) {
    const std::lock_guard held(lock_);
    const std::size_t whole = (size + page - 1) / page * page;
    if (used_ + whole > memory) return nullptr;
    char* at = nullptr;
    if (const auto found = free_.find(whole); found != free_.end()) {
      at = found->second;
      free_.erase(found);
    } else {
      if (end_ + whole > reserved) return nullptr;
      at = begin() + end_;
      end_ += whole;
    }
    live_[at] = whole;
    used_ += whole;
    return at;
  }

  void give_back(void* given) {
    const std::lock_guard held(lock_);
    const auto found = live_.find(static_cast<char*>(given));
    if (found == live_.end()) return;
    used_ -= found->second;
    free_.emplace(found->second, found->first);
    live_.erase(found);
    if (!live_.empty()) return;
    free_.clear();
    end_ = 0;
  }

  std::size_t left() {
    const std::lock_guard held(lock_);
    return memory - used_;
  }

  bool holds(const void* at) {
    const char* const asked = static_cast<const char*>(at);
    return asked >= begin() && asked < begin() + reserved;
  }

 private:
  static constexpr std::size_t reserved = std::size_t{32} << 40;

  static char* begin() {
    static char* const first = [] {
      void* const mapped = mmap(
          nullptr, reserved + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (mapped == MAP_FAILED) std::abort();
      const auto address = reinterpret_cast<std::size_t>(mapped);
      return reinterpret_cast<char*>((address + page - 1) / page * page);
    }();
    return first;
  }

  std::mutex lock_;
  std::map<char*, std::size_t> live_;
  std::multimap<std::size_t, char*> free_;
  std::size_t used_ = 0;
  std::size_t end_ = 0;
};

device_memory& device() {
  static device_memory one;
  return one;
}

thread_local cudaError_t last_error = cudaSuccess;

// Streams, events and handles are told apart, and nothing else.
template <class T>
cudaError_t make(T* handle) {
  *handle = static_cast<T>(std::calloc(1, 64));
  return cudaSuccess;
}

template <class T>
cublasStatus_t make_for_cublas(T* handle) {
  *handle = static_cast<T>(std::calloc(1, 4096));
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy_of_cublas(T handle) {
  std::free(static_cast<void*>(handle));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

// ---- the device

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* at) {
  *at = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* of) {
  *of = version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* of) {
  *of = version;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int /*device*/) {
  *of = {};
  std::strcpy(of->name, "device without kernels");
  of->totalGlobalMem = memory;
  of->major = 9;
  of->multiProcessorCount = multiprocessors;
  of->maxThreadsPerMultiProcessor = threads_a_multiprocessor;
  of->maxBlocksPerMultiProcessor = 32;
  of->sharedMemPerBlock = shared_a_block;
  of->sharedMemPerBlockOptin = shared_a_block_at_most;
  of->sharedMemPerMultiprocessor = shared_a_multiprocessor;
  of->regsPerBlock = of->regsPerMultiprocessor = registers;
  of->warpSize = 32;
  of->maxThreadsPerBlock = 1024;
  of->maxThreadsDim[0] = of->maxThreadsDim[1] = 1024;
  of->maxThreadsDim[2] = 64;
  of->maxGridSize[0] = 2147483647;
  of->maxGridSize[1] = of->maxGridSize[2] = 65535;
  of->l2CacheSize = 50 << 20;
  of->unifiedAddressing = of->cooperativeLaunch = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = threads_a_multiprocessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = 1024;
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = 64;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = shared_a_block;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = shared_a_block_at_most;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = shared_a_multiprocessor;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = registers;
      break;
    case cudaDevAttrL2CacheSize:
      *value = 50 << 20;
      break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int /*device*/) {
  std::strncpy(id, "0000:01:00.0", static_cast<std::size_t>(size));
  return cudaSuccess;
}

// ---- memory

cudaError_t cudaMalloc(void** to, std::size_t size) {
  *to = device().take(size);
  return last_error = *to != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* given) {
  device().give_back(given);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  *left = device().left();
  *all = memory;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** to, std::size_t size) {
  *to = std::malloc(size);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** to, std::size_t size, unsigned /*flags*/) {
  return cudaMallocHost(to, size);
}
cudaError_t cudaFreeHost(void* given) {
  std::free(given);
  return cudaSuccess;
}
// What the host reads of the device is 0.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind /*kind*/) {
  if (device().holds(to)) return cudaSuccess;
  if (device().holds(from))
    std::memset(to, 0, size);
  else
    std::memcpy(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t size, cudaMemcpyKind kind, cudaStream_t /*on*/) {
  return cudaMemcpy(to, from, size, kind);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* of, const void* at) {
  *of = {};
  const bool here = device().holds(at);
  of->type = here ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  (here ? of->devicePointer : of->hostPointer) = const_cast<void*>(at);
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** to, const void* /*symbol*/) {
  static char any[page];
  *to = any;
  return cudaSuccess;
}

// ---- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* to) { return make(to); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* to, unsigned /*flags*/) { return make(to); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* to, unsigned /*flags*/, int /*priority*/) {
  return make(to);
}
cudaError_t cudaStreamGetPriority(cudaStream_t /*of*/, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t /*of*/, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t /*of*/,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long* id,
                                     cudaGraph_t* /*graph*/,
                                     const cudaGraphNode_t** /*nodes*/,
#if CUDART_VERSION >= 13000
                                     const cudaGraphEdgeData** /*edges*/,
#endif
                                     std::size_t* /*count*/) {
  *status = cudaStreamCaptureStatusNone;
  if (id != nullptr) *id = 0;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* to) { return make(to); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* to, unsigned /*flags*/) { return make(to); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*from*/, cudaEvent_t /*to*/) {
  *milliseconds = 1;
  return cudaSuccess;
}

// ---- errors

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t of) {
  return of == cudaErrorMemoryAllocation ? "out of memory" : "not answered";
}
const char* cudaGetErrorName(cudaError_t of) {
  return of == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}

// ---- kernels, of which there are none

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void* /*kernel*/) {
  *of = {};
  of->maxThreadsPerBlock = 1024;
  of->numRegs = 32;
  of->ptxVersion = of->binaryVersion = 90;
  of->maxDynamicSharedSizeBytes = shared_a_block_at_most;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void* /*kernel*/,
                                                          int /*threads*/,
                                                          std::size_t /*shared*/) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* kernel, int threads, std::size_t shared, unsigned /*flags*/) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters,
                                           const void* /*kernel*/,
                                           const cudaLaunchConfig_t* /*launch*/) {
  *clusters = 1;
  return cudaSuccess;
}
void** __cudaRegisterFatBinary(void* /*code*/) {
  static void* none[4];
  return none;
}
cudaError_t __cudaGetKernel(cudaKernel_t* to, const void* function) {
  *to = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = *block = dim3{1, 1, 1};
  *shared = 0;
  *static_cast<void**>(stream) = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* /*name*/,
                                             void** to,
                                             unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* found) {
  *to = nullptr;
  if (found != nullptr) *found = cudaDriverEntryPointSymbolNotFound;
  return cudaErrorSymbolNotFound;
}

// ---- cuBLAS, whose products do nothing

cublasStatus_t cublasCreate_v2(cublasHandle_t* to) { return make_for_cublas(to); }
cublasStatus_t cublasGetMathMode(cublasHandle_t /*of*/, cublasMath_t* mode) {
  *mode = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t /*of*/, cublasPointerMode_t* mode) {
  *mode = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t /*of*/, int* is) {
  *is = 130400;
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 130400; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* to) { return make_for_cublas(to); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* to,
                                        cublasComputeType_t /*compute*/,
                                        cudaDataType_t /*scale*/) {
  return make_for_cublas(to);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t of) { return destroy_of_cublas(of); }
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* to,
                                          cudaDataType /*format*/,
                                          std::uint64_t /*rows*/,
                                          std::uint64_t /*columns*/,
                                          std::int64_t /*stride*/) {
  return make_for_cublas(to);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t of) {
  return destroy_of_cublas(of);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) {
  return make_for_cublas(to);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t of) {
  return destroy_of_cublas(of);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*with*/,
                                              cublasLtMatmulDesc_t /*of*/,
                                              cublasLtMatrixLayout_t /*a*/,
                                              cublasLtMatrixLayout_t /*b*/,
                                              cublasLtMatrixLayout_t /*c*/,
                                              cublasLtMatrixLayout_t /*d*/,
                                              cublasLtMatmulPreference_t /*preference*/,
                                              int /*most*/,
                                              cublasLtMatmulHeuristicResult_t found[],
                                              int* count) {
  found[0] = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

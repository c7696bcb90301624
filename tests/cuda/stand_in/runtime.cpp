// The stand-in's world, and the runtime's calls but for those about kernels and graphs.

#include "stand_in.hpp"
#include "world.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace stand_in {

world& all() {
  static world one = [] {
    world made;
    made.now.devices.push_back(plain_device());
    return made;
  }();
  return one;
}

namespace {
std::vector<void (*)()>& resets() {
  static std::vector<void (*)()> parts;
  return parts;
}
}  // namespace
void at_reset(void (*again)()) { resets().push_back(again); }

things& made() {
  static things one;
  return one;
}

script& current() { return all().now; }
const std::map<std::string, std::int64_t>& calls() { return all().calls; }
const std::vector<launch>& launches() { return all().launches; }
int current_device() { return all().device; }
bool error_waits() { return all().last != cudaSuccess; }
double now_s() { return all().host_s; }
void sleep_s(double seconds) { all().host_s += seconds; }

device plain_device() {
  device made;
  cudaDeviceProp& p = made.properties;
  std::snprintf(p.name, sizeof p.name, "Stand-in GPU");
  p.major = 9;
  p.multiProcessorCount = 4;
  p.totalGlobalMem = std::size_t{256} << 20;
  p.l2CacheSize = 1 << 20;
  p.memoryBusWidth = 5120;
  p.ECCEnabled = 1;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = 227 << 10;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536;
  p.unifiedAddressing = 1;
  p.canMapHostMemory = 1;
  p.asyncEngineCount = 3;
  made.attributes = {{cudaDevAttrClockRate, 1'980'000}, {cudaDevAttrMemoryClockRate, 2'619'000}};
  made.clock_MHz = [](double) { return 1980.0; };
  return made;
}

void reset() {
  world& w = all();
  w = {};
  w.now.devices.push_back(plain_device());
  // gpuplan's own clock kernels, which every sample holds.
  w.now.kernels.push_back({.name = "stamp_clocks",
                           .seconds = [](const launch&) { return 2e-6; },
                           .body =
                               [](const launch& l) {
                                 struct stamp {
                                   std::uint64_t time_ns, cycles;
                                 };
                                 const auto size = l.argument<unsigned>(1);
                                 const int sms = current()
                                                     .devices[static_cast<std::size_t>(l.device)]
                                                     .properties.multiProcessorCount;
                                 for (unsigned sm = 0; sm < size && sm < static_cast<unsigned>(sms);
                                      ++sm)
                                   l.argument<stamp*>(0)[sm] = {
                                       1'000'000'000 + static_cast<std::uint64_t>(l.end_s * 1e9),
                                       static_cast<std::uint64_t>(cycles_at(l.device, l.end_s))};
                               }});
  w.now.kernels.push_back({.name = "hold_stream", .seconds = [](const launch& l) {
                             return static_cast<double>(l.argument<std::uint64_t>(0)) * 1e-9;
                           }});
  for (void (*again)() : resets()) again();
}

void fail(std::string_view function, std::int64_t nth, int code) {
  const std::string name(function);
  all().failures.push_back({name, all().calls[name] + nth, code});
}
void fail_always(std::string_view function, int code) {
  all().failures.push_back({std::string(function), std::nullopt, code});
}

std::map<std::string, std::int64_t> live() {
  const things& m = made();
  std::map<std::string, std::int64_t> count = m.others;
  for (const auto& [data, a] : m.memory) ++count[a.device < 0 ? "cudaHostAlloc" : "cudaMalloc"];
  const auto add = [&](const char* name, std::size_t n) {
    if (n > 0) count[name] = static_cast<std::int64_t>(n);
  };
  add("cudaStreamCreateWithFlags", m.streams.size());
  add("cudaEventCreateWithFlags", m.events.size());
  add("cudaStreamEndCapture", m.graphs.size());
  add("cudaGraphInstantiate", m.executables.size());
  std::erase_if(count, [](const auto& entry) { return entry.second == 0; });
  return count;
}

std::function<double(const launch&)> series(std::vector<double> seconds) {
  return [seconds = std::move(seconds)](const launch& l) {
    return seconds[std::min(static_cast<std::size_t>(l.index), seconds.size() - 1)];
  };
}

int enter(const char* function) {
  world& w = all();
  const std::int64_t nth = ++w.calls[function];
  w.host_s += w.now.call_s;
  for (const failure& f : w.failures)
    if (f.function == function && f.at.value_or(nth) == nth) return f.code;
  return 0;
}

cudaError_t fails_with(cudaError_t error) {
  if (error != cudaSuccess) all().last = error;
  return error;
}

cudaError_t enter_cuda(const char* function) {
  const int code = enter(function);
  if (all().broken != cudaSuccess) return fails_with(all().broken);
  return fails_with(static_cast<cudaError_t>(code));
}

CUstream_st* find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    CUstream_st& found = all().default_streams[all().device];
    found.device = all().device;
    return &found;
  }
  return made().streams.contains(handle) ? handle : nullptr;
}

std::optional<span_s> put_on(CUstream_st& on, double seconds, const launch* kernel) {
  if (on.recording != nullptr) {
    on.recording->nodes.push_back({seconds, std::nullopt});
    if (kernel != nullptr) on.recording->nodes.back().kernel = *kernel;
    return std::nullopt;
  }
  const double start_s = std::max(on.ready_s, all().host_s);
  on.ready_s = start_s + seconds;
  return span_s{start_s, on.ready_s};
}

cudaError_t wait_until(double when_s) {
  world& w = all();
  w.host_s = std::max(w.host_s, when_s);
  if (w.faulted != cudaSuccess) w.broken = w.faulted;
  return fails_with(w.broken);
}

double cycles_at(int device, double when_s) {
  world::cycles_so_far& so_far = all().cycles[device];
  const auto& clock = all().now.devices[static_cast<std::size_t>(device)].clock_MHz;
  while (so_far.at_s < when_s) {
    const double step_s = std::min(when_s - so_far.at_s, 1e-3);
    so_far.cycles += clock(so_far.at_s + step_s / 2) * 1e6 * step_s;
    so_far.at_s += step_s;
  }
  return so_far.cycles;
}

namespace {

device* device_of(int index) {
  auto& devices = all().now.devices;
  if (index < 0 || static_cast<std::size_t>(index) >= devices.size()) return nullptr;
  return &devices[static_cast<std::size_t>(index)];
}

std::size_t free_bytes(int index) {
  const device& d = *device_of(index);
  std::size_t used = d.context_bytes;
  for (const auto& [data, a] : made().memory)
    if (a.device == index) used += a.bytes;
  return used < d.properties.totalGlobalMem ? d.properties.totalGlobalMem - used : 0;
}

cudaError_t allocate(void** data, std::size_t bytes, int device) {
  const std::size_t rounded = std::max<std::size_t>((bytes + 255) / 256 * 256, 256);
  *data = std::aligned_alloc(256, rounded);
  if (*data == nullptr) return fails_with(cudaErrorMemoryAllocation);
  std::memset(*data, 0xCD, std::min<std::size_t>(rounded, 4096));  // no test rests on zeros
  made().memory[*data] = {bytes, device};
  return cudaSuccess;
}

// Freed whatever the script says.
cudaError_t release(void* data, cudaError_t status, bool pinned) {
  if (data == nullptr) return status;
  const auto found = made().memory.find(data);
  if (found == made().memory.end() || (found->second.device < 0) != pinned)
    return fails_with(cudaErrorInvalidValue);
  std::free(data);
  made().memory.erase(found);
  return status;
}

// The allocation that holds an address.
const allocation* holder_of(const void* data) {
  auto& memory = made().memory;
  auto after = memory.upper_bound(const_cast<void*>(data));
  if (after == memory.begin()) return nullptr;
  --after;
  const auto offset = static_cast<const char*>(data) - static_cast<const char*>(after->first);
  return static_cast<std::size_t>(offset) < after->second.bytes ? &after->second : nullptr;
}

double copy_s(const void* to, const void* from, std::size_t bytes) {
  const allocation* a = holder_of(to);
  const allocation* b = holder_of(from);
  const script& s = current();
  const auto size = static_cast<double>(bytes);
  const bool to_device = a != nullptr && a->device >= 0;
  const bool from_device = b != nullptr && b->device >= 0;
  if (to_device && from_device)
    return a->device == b->device ? 2 * size / s.device_bytes_per_s : size / s.peer_bytes_per_s;
  const bool pinned = (to_device || a != nullptr) && (from_device || b != nullptr);
  return size / (pinned ? s.pinned_bytes_per_s : s.pageable_bytes_per_s);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  CUstream_st* on = find_stream(stream);
  if (on == nullptr) return fails_with(cudaErrorInvalidResourceHandle);
  std::memmove(to, from, std::min(bytes, current().touched_bytes));
  put_on(*on, copy_s(to, from, bytes));
  return cudaSuccess;
}

cudaError_t set(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  CUstream_st* on = find_stream(stream);
  const allocation* held = holder_of(data);
  if (on == nullptr) return fails_with(cudaErrorInvalidResourceHandle);
  if (held == nullptr || held->device < 0) return fails_with(cudaErrorInvalidValue);
  std::memset(data, value, std::min(bytes, current().touched_bytes));
  put_on(*on, static_cast<double>(bytes) / current().device_bytes_per_s);
  return cudaSuccess;
}

cudaError_t wait_for(cudaStream_t stream) {
  CUstream_st* on = find_stream(stream);
  if (on == nullptr) return fails_with(cudaErrorInvalidResourceHandle);
  if (on->recording != nullptr) return fails_with(cudaErrorStreamCaptureUnsupported);
  return wait_until(on->ready_s);
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

// ---- errors

cudaError_t cudaGetLastError() {
  const cudaError_t last = all().last;
  all().last = all().broken;
  return last;
}
cudaError_t cudaPeekAtLastError() { return all().last; }

// The names that tests look for; the rest by number alone.
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    default:
      return "cudaErrorOfTheStandIn";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory (the stand-in says)";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected (the stand-in says)";
    default:
      return "an error of the stand-in";
  }
}

// ---- devices

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  STAND_IN_ENTER;
  *count = static_cast<int>(current().devices.size());
  return *count > 0 ? cudaSuccess : fails_with(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  STAND_IN_ENTER;
  if (current().devices.empty()) return fails_with(cudaErrorNoDevice);
  *device = all().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  STAND_IN_ENTER;
  if (device_of(device) == nullptr) return fails_with(cudaErrorInvalidDevice);
  all().device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  STAND_IN_ENTER;
  if (device_of(device) == nullptr) return fails_with(cudaErrorInvalidDevice);
  *properties = device_of(device)->properties;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  STAND_IN_ENTER;
  const auto* d = device_of(device);
  if (d == nullptr) return fails_with(cudaErrorInvalidDevice);
  if (const auto found = d->attributes.find(attribute); found != d->attributes.end()) {
    *value = found->second;
    return cudaSuccess;
  }
  const cudaDeviceProp& p = d->properties;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      break;
    case cudaDevAttrEccEnabled:
      *value = p.ECCEnabled;
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = p.asyncEngineCount;
      break;
    default:
      return fails_with(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  STAND_IN_ENTER;
  double when_s = find_stream(nullptr)->ready_s;
  for (const CUstream_st* s : made().streams)
    if (s->device == all().device) when_s = std::max(when_s, s->ready_s);
  return wait_until(when_s);
}
cudaError_t cudaDriverGetVersion(int* version) {
  STAND_IN_ENTER;
  *version = current().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  STAND_IN_ENTER;
  *version = current().runtime_version;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  STAND_IN_ENTER;
  if (device_of(device) == nullptr) return fails_with(cudaErrorInvalidDevice);
  const cudaDeviceProp& p = device_of(device)->properties;
  std::snprintf(text,
                static_cast<std::size_t>(length),
                "%04x:%02x:%02x.0",
                p.pciDomainID,
                p.pciBusID,
                p.pciDeviceID);
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  STAND_IN_ENTER;
  if (device_of(device) == nullptr || device_of(peer) == nullptr)
    return fails_with(cudaErrorInvalidDevice);
  const auto& peers = device_of(device)->peers;
  *can = std::find(peers.begin(), peers.end(), peer) != peers.end();
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  STAND_IN_ENTER;
  if (device_of(peer) == nullptr) return fails_with(cudaErrorInvalidDevice);
  const auto& peers = device_of(all().device)->peers;
  if (std::find(peers.begin(), peers.end(), peer) == peers.end())
    return fails_with(cudaErrorPeerAccessUnsupported);
  if (!all().peers.insert({all().device, peer}).second)
    return fails_with(cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  STAND_IN_ENTER;
  if (all().peers.erase({all().device, peer}) == 0)
    return fails_with(cudaErrorPeerAccessNotEnabled);
  return cudaSuccess;
}

// ---- memory

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  STAND_IN_ENTER;
  *free = free_bytes(all().device);
  *total = device_of(all().device)->properties.totalGlobalMem;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  STAND_IN_ENTER;
  if (bytes > free_bytes(all().device)) return fails_with(cudaErrorMemoryAllocation);
  return allocate(data, bytes, all().device);
}
cudaError_t cudaFree(void* data) { return release(data, enter_cuda(__func__), false); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  STAND_IN_ENTER;
  return allocate(data, bytes, -1);
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  STAND_IN_ENTER;
  return allocate(data, bytes, -1);
}
cudaError_t cudaFreeHost(void* data) { return release(data, enter_cuda(__func__), true); }

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  STAND_IN_ENTER;
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  STAND_IN_ENTER;
  if (const cudaError_t failed = copy(to, from, bytes, nullptr); failed != cudaSuccess)
    return failed;
  return wait_for(nullptr);
}
cudaError_t cudaMemcpyPeerAsync(
    void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
  STAND_IN_ENTER;
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  STAND_IN_ENTER;
  return set(data, value, bytes, stream);
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  STAND_IN_ENTER;
  if (const cudaError_t failed = set(data, value, bytes, nullptr); failed != cudaSuccess)
    return failed;
  return wait_for(nullptr);
}

// ---- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  STAND_IN_ENTER;
  *stream = *made().streams.insert(new CUstream_st{all().device, 0, nullptr}).first;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t status = enter_cuda(__func__);
  if (made().streams.erase(stream) == 0) return fails_with(cudaErrorInvalidResourceHandle);
  delete stream;
  return status;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  STAND_IN_ENTER;
  return wait_for(stream);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  STAND_IN_ENTER;
  const CUstream_st* on = find_stream(stream);
  if (on == nullptr) return fails_with(cudaErrorInvalidResourceHandle);
  return on->ready_s > all().host_s ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  STAND_IN_ENTER;
  CUstream_st* on = find_stream(stream);
  if (on == nullptr || !made().events.contains(event))
    return fails_with(cudaErrorInvalidResourceHandle);
  on->ready_s = std::max(on->ready_s, event->at_s.value_or(0));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  STAND_IN_ENTER;
  *event = *made().events.insert(new CUevent_st{(flags & cudaEventDisableTiming) == 0, {}}).first;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t status = enter_cuda(__func__);
  if (made().events.erase(event) == 0) return fails_with(cudaErrorInvalidResourceHandle);
  delete event;
  return status;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  STAND_IN_ENTER;
  CUstream_st* on = find_stream(stream);
  if (on == nullptr || !made().events.contains(event))
    return fails_with(cudaErrorInvalidResourceHandle);
  if (const auto at = put_on(*on, 0)) event->at_s = at->end_s;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  STAND_IN_ENTER;
  if (!made().events.contains(event)) return fails_with(cudaErrorInvalidResourceHandle);
  return wait_until(event->at_s.value_or(0));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  STAND_IN_ENTER;
  if (!made().events.contains(event)) return fails_with(cudaErrorInvalidResourceHandle);
  return event->at_s.value_or(0) > all().host_s ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop) {
  STAND_IN_ENTER;
  if (!made().events.contains(start) || !made().events.contains(stop) || !start->keeps_time ||
      !stop->keeps_time || !start->at_s || !stop->at_s)
    return fails_with(cudaErrorInvalidResourceHandle);
  if (std::max(*start->at_s, *stop->at_s) > all().host_s) return fails_with(cudaErrorNotReady);
  *ms = static_cast<float>((*stop->at_s - *start->at_s) * 1e3);
  return cudaSuccess;
}

}  // extern "C"

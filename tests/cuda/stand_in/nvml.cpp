// A management library that has no driver: what environment variables say, for programs that load
// it as they would load the real one. Without them every call fails.
//   STAND_IN_NVML="memory free limit draw generation lanes": bytes, bytes, mW, mW, and the link. A
//   process that has asked for the free memory before finds 512 MiB less of it.
//   STAND_IN_NVML_BUSY="percent": of the time in which a kernel ran.

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int success = 0;
constexpr int not_found = 6;

struct answers {
  unsigned long long memory = 0, free = 0;
  unsigned limit = 0, draw = 0, generation = 0, lanes = 0;
};

bool read(answers& to) {
  const char* text = std::getenv("STAND_IN_NVML");
  return text != nullptr && std::sscanf(text,
                                        "%llu %llu %u %u %u %u",
                                        &to.memory,
                                        &to.free,
                                        &to.limit,
                                        &to.draw,
                                        &to.generation,
                                        &to.lanes) == 6;
}

int running = 0;
int asked_for_memory = 0;

int answer(unsigned answers::*which, unsigned* to) {
  answers from;
  if (running < 1 || !read(from) || from.*which == 0) return not_found;
  *to = from.*which;
  return success;
}

}  // namespace

extern "C" {

struct nvml_memory {
  unsigned long long total, free, used;
};
struct nvml_utilisation {
  unsigned gpu, memory;
};

int nvmlInit_v2() {
  answers from;
  if (!read(from)) return not_found;
  ++running;
  asked_for_memory = 0;
  return success;
}
int nvmlShutdown() {
  --running;
  return success;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "0.0 stand-in");
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  static int handle = 0;
  if (std::strlen(bus_id) == 0) return not_found;
  *device = &handle;
  return success;
}
int nvmlDeviceGetMemoryInfo(void*, nvml_memory* to) {
  answers from;
  if (running < 1 || !read(from) || from.memory == 0) return not_found;
  const unsigned long long context = ++asked_for_memory > 2 ? 512ULL << 20 : 0;
  *to = {from.memory, from.free - context, from.memory - from.free + context};
  return success;
}
int nvmlDeviceGetUtilizationRates(void*, nvml_utilisation* to) {
  const char* text = std::getenv("STAND_IN_NVML_BUSY");
  return text != nullptr && std::sscanf(text, "%u", &to->gpu) == 1 ? success : not_found;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* mW) { return answer(&answers::draw, mW); }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* mW) { return answer(&answers::limit, mW); }
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  return answer(&answers::generation, generation);
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) { return answer(&answers::lanes, lanes); }
}

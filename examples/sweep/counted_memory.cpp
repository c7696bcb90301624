#include "sweep/counted_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string>

namespace sweep_examples {
namespace {

// At least one.
std::size_t whole_pages(std::size_t size) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::max<std::size_t>((size + page - 1) / page, 1) * page;
}

// A line of /proc/self/status, such as "VmHWM:     8124 kB".
std::optional<double> bytes_of_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return 1024 * std::stod(line.substr(name.size() + 1));
  return std::nullopt;
}

double peak_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return static_cast<double>(usage.ru_maxrss);
#else
  return 1024 * static_cast<double>(usage.ru_maxrss);
#endif
}

}  // namespace

void* counted_memory::do_allocate(std::size_t size, std::size_t) {
  if (size > std::numeric_limits<std::ptrdiff_t>::max()) throw std::bad_alloc();
  const std::size_t taken = whole_pages(size);
  std::size_t before = in_use_;
  do {
    if (taken > limit_ || before > limit_ - taken) throw std::bad_alloc();
  } while (!in_use_.compare_exchange_weak(before, before + taken));
  void* const at = mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) return at;
  in_use_ -= taken;
  throw std::bad_alloc();
}

void counted_memory::do_deallocate(void* at, std::size_t size, std::size_t) {
  const std::size_t taken = whole_pages(size);
  munmap(at, taken);
  in_use_ -= taken;
}

double resident_memory() { return bytes_of_status("VmRSS").value_or(peak_of_process()); }

bool restart_peak_resident_memory() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, "5", 1) == 1;
  close(file);
  return written;
}

double peak_resident_memory() { return bytes_of_status("VmHWM").value_or(peak_of_process()); }

}  // namespace sweep_examples

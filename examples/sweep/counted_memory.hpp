#pragma once

// Memory that is counted and that runs out, and how much of it the process really holds.

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory_resource>

namespace sweep_examples {

/// Memory for large buffers: pages from the kernel, which has them back as soon as they are freed,
/// so that one trial leaves nothing behind for the next. Throws std::bad_alloc where the kernel has
/// none, and above a limit, as the allocator of a GPU does. May be called from several threads.
class counted_memory final : public std::pmr::memory_resource {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  explicit counted_memory(std::size_t limit = unlimited) : limit_(limit) {}

  /// Bytes, in whole pages.
  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  [[nodiscard]] std::size_t limit() const { return limit_; }

 private:
  std::size_t limit_;
  std::atomic<std::size_t> in_use_{0};

  void* do_allocate(std::size_t size, std::size_t alignment) override;
  void do_deallocate(void* at, std::size_t size, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

/// The bytes of this process that are in memory now.
[[nodiscard]] double resident_memory();

/// Lets `peak_resident_memory` forget what was before now. False where the system has no such thing
/// (Linux has: proc(5), /proc/[pid]/clear_refs); the peak is then that of the whole process.
bool restart_peak_resident_memory();

/// The most bytes of this process that were in memory at once.
[[nodiscard]] double peak_resident_memory();

}  // namespace sweep_examples

#pragma once

// The memory that PyTorch takes from a device for a list of allocations and frees. Run time only:
// gpuplan.hpp does not bring it.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gpuplan {

/// Bytes in use: as requested (`requested_bytes` of `torch.cuda.memory_stats`), in blocks
/// (`allocated_bytes`), and taken from the device (`reserved_bytes`).
struct memory_counts {
  std::int64_t requested = 0;
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;

  friend constexpr bool operator==(const memory_counts&, const memory_counts&) = default;
};

/// Where a block lies: addresses count from 0 in the order in which segments were made.
struct memory_place {
  std::int64_t address = 0;
  std::int64_t bytes = 0;

  friend constexpr bool operator==(const memory_place&, const memory_place&) = default;
};

/// PyTorch's caching allocator with its default settings, without a device (the native backend,
/// c10/cuda/CUDACachingAllocator.cpp). A size is rounded up to 512 bytes; up to 1 MiB it is small.
/// It gets the smallest free block of its stream and kind that holds it, among equals that at the
/// lowest address; else a new segment: of 2 MiB if small, of 20 MiB below 10 MiB, else of the size
/// rounded up to 2 MiB. The rest of a small block, and of a large one if it is more than 1 MiB,
/// stays free. A freed block joins the free blocks beside it in its segment.
///
/// Measured: every address and count as PyTorch 2.15's, in 675,000 random calls on one to three
/// streams, with and without a limit of memory, over a device whose addresses rise. Not modelled: a
/// device that puts a new segment where a returned one was (it changes choices among equals),
/// `record_stream` (release the block when the other stream is done), and settings of
/// `PYTORCH_CUDA_ALLOC_CONF`. A call of a training step costs about 40 ns, one of random sizes 90
/// ns (x86, 2.6 GHz).
class caching_allocator {
 public:
  /// What `allocate` gives in place of a handle.
  static constexpr int out_of_memory = -1;

  /// An empty allocator that may take `capacity` bytes from the device: its memory less the context
  /// and other processes, or the limit of `set_per_process_memory_fraction`.
  explicit caching_allocator(std::int64_t capacity = std::numeric_limits<std::int64_t>::max())
      : capacity_(capacity), blocks_(1) {
    expect(capacity >= 0, errc::negative, fact::request_bytes, capacity);
  }

  /// The handle of a new block for `bytes`, which holds until it is released; 0 bytes take nothing.
  /// Streams count from 0 and cost memory up to the highest. Where no free block fits and a new
  /// segment would exceed the capacity, all segments without a block in use are returned first; if
  /// that is not enough, and from 1 EiB on, `out_of_memory`, and nothing is allocated.
  [[nodiscard]] int allocate(std::int64_t requested, int stream = 0) {
    expect(requested >= 0, errc::negative, fact::request_bytes, requested);
    expect(stream >= 0, errc::negative, fact::stream, stream);
    if (requested == 0) return nothing;
    if (requested >= exbibyte) return out_of_memory;
    const std::int64_t size = rounded_up(requested, smallest_block);
    const int pool = pool_of(size, stream);
    int taken = take_best_fit(pool, size);
    if (taken == none) taken = new_segment(pool, size);
    if (taken == none) {
      ++retries_;
      empty_cache();
      taken = new_segment(pool, size);
    }
    if (taken == none) return out_of_memory;
    split(taken, size);
    block& b = at(taken);
    b.requested = requested;
    current_.requested += requested;
    current_.allocated += b.place.bytes;
    raise(peak_.requested, current_.requested);
    raise(peak_.allocated, current_.allocated);
    return taken;
  }

  /// Frees the block of a handle that `allocate` gave and nobody released since.
  void release(int handle) {
    if (handle == nothing) return;
    require_in_use(handle);
    block& freed = at(handle);
    current_.requested -= freed.requested;
    current_.allocated -= freed.place.bytes;
    freed.requested = 0;
    if (is_free(freed.previous)) absorb(handle, freed.previous);
    if (is_free(freed.next)) absorb(handle, freed.next);
    insert(handle);
  }

  /// Returns all segments without a block in use to the device, as `torch.cuda.empty_cache`.
  void empty_cache() {
    for (std::vector<free_size>& sizes : pools_) {
      std::size_t kept_sizes = 0;
      for (const free_size& entry : sizes) {
        std::vector<free_block>& equals = lists_[entry.list];
        std::size_t kept = 0;
        for (const free_block& free : equals) {
          if (at(free.index).previous == none && at(free.index).next == none) {
            current_.reserved -= entry.bytes;
            --segments_;
            recycled_.push_back(free.index);
          } else {
            equals[kept++] = free;
          }
        }
        equals.resize(kept);
        if (kept == 0) {
          idle_lists_.push_back(entry.list);
        } else {
          sizes[kept_sizes++] = entry;
        }
      }
      sizes.resize(kept_sizes);
    }
  }

  [[nodiscard]] memory_counts current() const { return current_; }
  /// The highest of each count since the start or the last `reset_peak`, at different moments.
  [[nodiscard]] memory_counts peak() const { return peak_; }
  void reset_peak() { peak_ = current_; }

  [[nodiscard]] int segments() const { return segments_; }
  /// How often the cache was emptied to make room, in vain or not (`num_alloc_retries`).
  [[nodiscard]] std::int64_t retries() const { return retries_; }

  /// Where the block of a handle lies, with the tail that was not split off; empty for 0 bytes.
  [[nodiscard]] memory_place place(int handle) const {
    if (handle == nothing) return {};
    require_in_use(handle);
    return at(handle).place;
  }

 private:
  static constexpr int nothing = 0;  // the handle of 0 bytes: blocks_[0] is no block
  static constexpr int none = -1;

  static constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
  static constexpr std::int64_t exbibyte = std::int64_t{1} << 60;
  // kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc, kLargeBuffer, kRoundLarge.
  static constexpr std::int64_t smallest_block = 512;
  static constexpr std::int64_t largest_small = mebibyte;
  static constexpr std::int64_t small_segment = 2 * mebibyte;
  static constexpr std::int64_t smallest_own_segment = 10 * mebibyte;
  static constexpr std::int64_t shared_segment = 20 * mebibyte;
  static constexpr std::int64_t segment_unit = 2 * mebibyte;

  struct block {
    memory_place place{};
    std::int64_t requested = 0;  // 0: free
    int pool = 0;
    int previous = none;  // neighbours in the segment
    int next = none;
  };
  struct free_block {
    std::int64_t address = 0;
    int index = none;
  };
  // Few sizes occur, each often: a pool is a list of sizes, and each size has a list of blocks.
  struct free_size {
    std::int64_t bytes = 0;
    std::size_t list = 0;
  };

  std::int64_t capacity_;
  memory_counts current_{};
  memory_counts peak_{};
  std::int64_t retries_ = 0;
  std::int64_t next_address_ = 0;
  int segments_ = 0;
  std::vector<block> blocks_;
  std::vector<int> recycled_{};                   // of blocks_
  std::vector<std::vector<free_size>> pools_{};   // small and large of stream 0, of stream 1, ...
  std::vector<std::vector<free_block>> lists_{};  // addresses fall: the lowest is taken first
  std::vector<std::size_t> idle_lists_{};         // of lists_; they keep their memory

  static void expect(bool holds, errc error, fact name, std::int64_t value) {
    if (!holds) detail::precondition_violated(failure(error, named_fact{name, value}));
  }
  void require_in_use(int handle) const {
    const bool in_use = handle > nothing && static_cast<std::size_t>(handle) < blocks_.size() &&
                        at(handle).requested > 0;
    expect(in_use, errc::out_of_bounds, fact::handle, handle);
  }

  static void raise(std::int64_t& peak, std::int64_t current) {
    if (current > peak) peak = current;
  }
  static std::int64_t rounded_up(std::int64_t requested, std::int64_t unit) {
    return detail::ceil_div(requested, unit) * unit;  // below 1 EiB: does not overflow
  }

  block& at(int index) { return blocks_[static_cast<std::size_t>(index)]; }
  const block& at(int index) const { return blocks_[static_cast<std::size_t>(index)]; }
  bool is_free(int index) const { return index != none && at(index).requested == 0; }

  int new_block(const block& b) {
    if (recycled_.empty()) {
      blocks_.push_back(b);
      return static_cast<int>(blocks_.size()) - 1;
    }
    const int index = recycled_.back();
    recycled_.pop_back();
    at(index) = b;
    return index;
  }

  int pool_of(std::int64_t size, int stream) {
    const std::size_t pool = 2 * static_cast<std::size_t>(stream) + (size > largest_small ? 1 : 0);
    if (pool >= pools_.size()) pools_.resize(pool + 1);
    return static_cast<int>(pool);
  }
  static bool is_small(int pool) { return pool % 2 == 0; }

  // The first place of a list for which `before` does not hold, where it holds up to some place.
  template <class Entry, class Before>
  static std::size_t first_not(const std::vector<Entry>& list, Before before) {
    std::size_t first = 0;
    for (std::size_t count = list.size(); count > 0;) {
      const std::size_t half = count / 2;
      const bool right = before(list[first + half]);
      first = right ? first + half + 1 : first;
      count = right ? count - half - 1 : half;
    }
    return first;
  }
  // Where this size stands, or the next larger one.
  static std::size_t find(const std::vector<free_size>& sizes, std::int64_t requested) {
    return first_not(sizes, [requested](const free_size& s) { return s.bytes < requested; });
  }
  // Where this address stands, or the next lower one.
  static std::size_t find(const std::vector<free_block>& list, std::int64_t address) {
    // Most is freed in the reverse order of its allocation.
    if (list.empty() || list.back().address > address) return list.size();
    return first_not(list, [address](const free_block& b) { return b.address > address; });
  }

  void drop_if_empty(std::vector<free_size>& sizes, std::size_t i) {
    if (!lists_[sizes[i].list].empty()) return;
    idle_lists_.push_back(sizes[i].list);
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(i));
  }

  int take_best_fit(int pool, std::int64_t size) {
    std::vector<free_size>& sizes = pools_[static_cast<std::size_t>(pool)];
    const std::size_t i = find(sizes, size);
    if (i == sizes.size()) return none;
    std::vector<free_block>& list = lists_[sizes[i].list];
    const int index = list.back().index;
    list.pop_back();
    drop_if_empty(sizes, i);
    return index;
  }

  void take(int index) {
    const block& b = at(index);
    std::vector<free_size>& sizes = pools_[static_cast<std::size_t>(b.pool)];
    const std::size_t i = find(sizes, b.place.bytes);
    std::vector<free_block>& list = lists_[sizes[i].list];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(find(list, b.place.address)));
    drop_if_empty(sizes, i);
  }

  void insert(int index) {
    const block& b = at(index);
    std::vector<free_size>& sizes = pools_[static_cast<std::size_t>(b.pool)];
    const std::size_t i = find(sizes, b.place.bytes);
    if (i == sizes.size() || sizes[i].bytes != b.place.bytes) {
      if (idle_lists_.empty()) {
        idle_lists_.push_back(lists_.size());
        lists_.emplace_back();
      }
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(i),
                   free_size{.bytes = b.place.bytes, .list = idle_lists_.back()});
      idle_lists_.pop_back();
    }
    std::vector<free_block>& list = lists_[sizes[i].list];
    const std::size_t j = find(list, b.place.address);
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(j),
                free_block{.address = b.place.address, .index = index});
  }

  // A segment in which `size` fits, as one block, or none where it would exceed the capacity.
  int new_segment(int pool, std::int64_t size) {
    const std::int64_t whole = is_small(pool)                ? small_segment
                               : size < smallest_own_segment ? shared_segment
                                                             : rounded_up(size, segment_unit);
    if (whole > capacity_ - current_.reserved ||
        whole > std::numeric_limits<std::int64_t>::max() - next_address_)
      return none;
    const int index =
        new_block({.place = {.address = next_address_, .bytes = whole}, .pool = pool});
    next_address_ += whole;
    ++segments_;
    current_.reserved += whole;
    raise(peak_.reserved, current_.reserved);
    return index;
  }

  // Joins a free neighbour to a block that stands in no list.
  void absorb(int index, int neighbour) {
    take(neighbour);
    block& b = at(index);
    const block& gone = at(neighbour);
    b.place.bytes += gone.place.bytes;
    if (neighbour == b.previous) {
      b.place.address = gone.place.address;
      b.previous = gone.previous;
      if (b.previous != none) at(b.previous).next = index;
    } else {
      b.next = gone.next;
      if (b.next != none) at(b.next).previous = index;
    }
    recycled_.push_back(neighbour);
  }

  // Leaves a block its first `size` bytes where the rest is worth a block of its own.
  void split(int index, std::int64_t size) {
    block& front = at(index);
    const std::int64_t rest = front.place.bytes - size;
    if (is_small(front.pool) ? rest < smallest_block : rest <= largest_small) return;
    const int next = front.next;
    front.place.bytes = size;
    const int behind = new_block({.place = {.address = front.place.address + size, .bytes = rest},
                                  .pool = front.pool,
                                  .previous = index,
                                  .next = next});
    at(index).next = behind;
    if (next != none) at(next).previous = behind;
    insert(behind);
  }
};

}  // namespace gpuplan

// The caching allocator against a slow second one that scans all blocks.

#include "check.hpp"

#include <gpuplan/replay/caching_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

using namespace gpuplan;

namespace {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
constexpr int out_of_memory = caching_allocator::out_of_memory;

// The rules once more, as plainly as can be: all blocks in one list by address, which is searched
// from the front.
class slow_allocator {
 public:
  struct block {
    std::int64_t segment;  // its address
    std::int64_t address;
    std::int64_t bytes;
    std::int64_t requested;  // 0: free
    int stream;
    bool small;
  };

  explicit slow_allocator(std::int64_t capacity) : capacity_(capacity) {}

  std::optional<std::int64_t> allocate(std::int64_t bytes, int stream) {
    const std::int64_t size = (bytes + 511) & ~std::int64_t{511};
    const bool small = size <= MiB;
    std::optional<std::size_t> best = best_fit(size, stream, small);
    if (!best) best = append(size, stream, small);
    if (!best) {
      ++retries;
      empty_cache();
      best = append(size, stream, small);
    }
    if (!best) return std::nullopt;
    block& taken = blocks[*best];
    taken.requested = bytes;
    const block whole = taken;
    if (whole.bytes - size > (small ? 0 : MiB)) {
      taken.bytes = size;
      block rest = whole;
      rest.address += size;
      rest.bytes -= size;
      rest.requested = 0;
      blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(*best) + 1, rest);
    }
    const memory_counts now = counts();
    if (now.requested > peak.requested) peak.requested = now.requested;
    if (now.allocated > peak.allocated) peak.allocated = now.allocated;
    return whole.address;
  }

  void release(std::int64_t address) {
    for (block& b : blocks)
      if (b.address == address) b.requested = 0;
    for (std::size_t i = 1; i < blocks.size();) {
      block& front = blocks[i - 1];
      const block& back = blocks[i];
      if (front.segment == back.segment && front.requested == 0 && back.requested == 0) {
        front.bytes += back.bytes;
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  void empty_cache() {
    for (std::size_t i = 0; i < blocks.size();) {
      const bool starts = blocks[i].address == blocks[i].segment;
      const bool ends = i + 1 == blocks.size() || blocks[i + 1].segment != blocks[i].segment;
      if (starts && ends && blocks[i].requested == 0) {
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  memory_counts counts() const {
    memory_counts sum;
    for (const block& b : blocks) {
      sum.requested += b.requested;
      sum.allocated += b.requested > 0 ? b.bytes : 0;
      sum.reserved += b.bytes;
    }
    return sum;
  }

  int segments() const {
    int count = 0;
    for (const block& b : blocks) count += b.address == b.segment;
    return count;
  }

  // Blocks cover their segments without gaps and overlaps, and no two neighbours are free.
  bool is_sound() const {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const block& b = blocks[i];
      if (b.bytes <= 0 || b.bytes % 512 != 0 || b.requested > b.bytes) return false;
      if (i == 0 || blocks[i - 1].segment != b.segment) {
        if (b.address != b.segment) return false;
        continue;
      }
      const block& before = blocks[i - 1];
      if (before.address + before.bytes != b.address) return false;
      if (before.requested == 0 && b.requested == 0) return false;
    }
    return true;
  }

  std::vector<block> blocks{};  // by address
  memory_counts peak{};
  std::int64_t retries = 0;

 private:
  std::int64_t capacity_;
  std::int64_t end_ = 0;

  std::optional<std::size_t> best_fit(std::int64_t size, int stream, bool small) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const block& b = blocks[i];
      const bool fits =
          b.requested == 0 && b.stream == stream && b.small == small && b.bytes >= size;
      if (fits && (!best || b.bytes < blocks[*best].bytes)) best = i;
    }
    return best;
  }

  std::optional<std::size_t> append(std::int64_t size, int stream, bool small) {
    std::int64_t bytes = 2 * MiB;
    if (!small) bytes = 20 * MiB;
    if (size >= 10 * MiB) bytes = (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB);
    const std::int64_t reserved = counts().reserved + bytes;
    if (reserved > capacity_) return std::nullopt;
    if (reserved > peak.reserved) peak.reserved = reserved;
    blocks.push_back({end_, end_, bytes, 0, stream, small});
    end_ += bytes;
    return blocks.size() - 1;
  }
};

struct random_calls {
  std::mt19937_64 random;

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  }
  std::int64_t any_size() { return 1 + (below(MiB) << below(8)); }
  std::int64_t small_size() { return 1 + (below(KiB) << below(11)); }
  std::int64_t round_size() {  // near the borders of the rules
    constexpr std::int64_t borders[] = {
        512, KiB, MiB, 2 * MiB, 9 * MiB, 10 * MiB, 11 * MiB, 19 * MiB, 20 * MiB, 40 * MiB};
    const std::int64_t size = borders[below(10)] + 512 * (below(5) - 2) + below(3) - 1;
    return size > 0 ? size : 1;
  }
  std::int64_t equal_size() {
    constexpr std::int64_t few[] = {700, 4 * KiB, 600 * KiB, 3 * MiB, 10 * MiB, 30 * MiB};
    return few[below(6)];
  }
  std::int64_t size(int manner) {
    switch (manner) {
      case 0:
        return any_size();
      case 1:
        return small_size();
      case 2:
        return round_size();
      case 3:
        return equal_size();
      default:
        return size(static_cast<int>(below(4)));
    }
  }
};

// How many calls give the same with both; the number of all calls where they agree throughout.
int calls_that_agree(
    std::uint64_t seed, int manner, int streams, std::int64_t capacity, int calls) {
  struct live {
    int handle;
    std::int64_t address;
  };
  random_calls roll{std::mt19937_64(seed)};
  caching_allocator fast(capacity);
  slow_allocator slow(capacity);
  std::vector<live> blocks;
  std::size_t target = 0;
  for (int call = 0; call < calls; ++call) {
    if (call % 200 == 0) target = static_cast<std::size_t>(roll.below(100));
    if (roll.below(500) == 0) {
      fast.empty_cache();
      slow.empty_cache();
    } else if (blocks.empty() || roll.below(4) < (blocks.size() < target ? 3 : 1)) {
      const std::int64_t bytes = roll.size(manner);
      const int stream = static_cast<int>(roll.below(streams));
      const int handle = fast.allocate(bytes, stream);
      const std::optional<std::int64_t> address = slow.allocate(bytes, stream);
      if ((handle == out_of_memory) != !address) return call;
      if (address) {
        if (fast.place(handle).address != *address) return call;
        blocks.push_back({handle, *address});
      }
    } else {
      // As often the last one as any.
      const std::size_t i =
          roll.below(2) == 0
              ? blocks.size() - 1
              : static_cast<std::size_t>(roll.below(static_cast<std::int64_t>(blocks.size())));
      fast.release(blocks[i].handle);
      slow.release(blocks[i].address);
      blocks[i] = blocks.back();
      blocks.pop_back();
    }
    if (fast.current() != slow.counts() || fast.peak() != slow.peak ||
        fast.segments() != slow.segments() || fast.retries() != slow.retries || !slow.is_sound())
      return call;
  }
  return calls;
}

}  // namespace

TEST_CASE("a slow allocator agrees in every address and count") {
  constexpr int calls = 4000;
  std::uint64_t seed = 0;
  for (int manner = 0; manner < 5; ++manner) {
    for (int streams = 1; streams <= 3; ++streams) {
      for (const std::int64_t capacity :
           {std::numeric_limits<std::int64_t>::max(), 300 * MiB, 50 * MiB + 1}) {
        CAPTURE(manner);
        CAPTURE(streams);
        CAPTURE(capacity);
        CHECK(calls_that_agree(++seed, manner, streams, capacity, calls) == calls);
      }
    }
  }
}

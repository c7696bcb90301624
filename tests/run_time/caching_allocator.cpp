// The caching allocator: hand-computed sequences for each rule, and a recorded run of the real one.

#include "check.hpp"

#include <gpuplan/replay/caching_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace gpuplan;

namespace {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
constexpr std::int64_t TiB = 1024 * 1024 * MiB;
constexpr std::int64_t EiB = 1024 * 1024 * TiB;
constexpr int out_of_memory = caching_allocator::out_of_memory;

// What a first allocation of `bytes` takes: the block and the segment.
struct first {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;

  friend bool operator==(const first&, const first&) = default;
};
first first_allocation(std::int64_t bytes) {
  caching_allocator allocator;
  const int handle = allocator.allocate(bytes);
  CHECK(allocator.current().requested == bytes);
  CHECK(allocator.place(handle).bytes == allocator.current().allocated);
  CHECK(allocator.peak() == allocator.current());
  return {allocator.current().allocated, allocator.current().reserved};
}

template <class Call>
errc broken_precondition(Call call) {
  try {
    call();
  } catch (const plan_error& broken) {
    return broken.why().code;
  }
  return errc::none;
}

}  // namespace

TEST_CASE("sizes are rounded up to 512 bytes") {
  CHECK(first_allocation(1) == first{512, 2 * MiB});
  CHECK(first_allocation(511) == first{512, 2 * MiB});
  CHECK(first_allocation(512) == first{512, 2 * MiB});
  CHECK(first_allocation(513) == first{1024, 2 * MiB});
}

TEST_CASE("the size decides the segment") {
  CHECK(first_allocation(MiB) == first{MiB, 2 * MiB});
  CHECK(first_allocation(MiB - 511) == first{MiB, 2 * MiB});
  CHECK(first_allocation(MiB + 1) == first{MiB + 512, 20 * MiB});
  CHECK(first_allocation(10 * MiB - 512) == first{10 * MiB - 512, 20 * MiB});
  CHECK(first_allocation(10 * MiB - 511) == first{10 * MiB, 10 * MiB});
  CHECK(first_allocation(10 * MiB) == first{10 * MiB, 10 * MiB});
  CHECK(first_allocation(11 * MiB) == first{12 * MiB, 12 * MiB});  // 1 MiB is not split off
  CHECK(first_allocation(11 * MiB - 1) == first{12 * MiB, 12 * MiB});
  CHECK(first_allocation(11 * MiB - 512) == first{11 * MiB - 512, 12 * MiB});
  CHECK(first_allocation(32 * MiB + 1) == first{32 * MiB + 512, 34 * MiB});
}

TEST_CASE("segments follow each other in the order of their creation") {
  caching_allocator allocator;
  CHECK(allocator.place(allocator.allocate(64 * MiB)) == memory_place{0, 64 * MiB});
  CHECK(allocator.place(allocator.allocate(1)) == memory_place{64 * MiB, 512});
  CHECK(allocator.place(allocator.allocate(2 * MiB)) == memory_place{66 * MiB, 2 * MiB});
  CHECK(allocator.place(allocator.allocate(100 * MiB)) == memory_place{86 * MiB, 100 * MiB});
  CHECK(allocator.segments() == 4);
  CHECK(allocator.current().reserved == 186 * MiB);
}

TEST_CASE("the rest of a small block is always split off") {
  caching_allocator allocator;
  (void)allocator.allocate(MiB);
  (void)allocator.allocate(MiB - 512);
  CHECK(allocator.place(allocator.allocate(512)) == memory_place{2 * MiB - 512, 512});
  CHECK(allocator.segments() == 1);
  CHECK(allocator.place(allocator.allocate(512)).address == 2 * MiB);
  CHECK(allocator.segments() == 2);
}

TEST_CASE("the rest of a large block is split off where it is more than 1 MiB") {
  caching_allocator allocator;
  (void)allocator.allocate(9 * MiB);
  SUBCASE("1 MiB stays with the block") {
    const int tailed = allocator.allocate(10 * MiB);
    CHECK(allocator.place(tailed) == memory_place{9 * MiB, 11 * MiB});
    CHECK(allocator.current() == memory_counts{19 * MiB, 20 * MiB, 20 * MiB});
    allocator.release(tailed);
    CHECK(allocator.current() == memory_counts{9 * MiB, 9 * MiB, 20 * MiB});
    CHECK(allocator.peak() == memory_counts{19 * MiB, 20 * MiB, 20 * MiB});
  }
  SUBCASE("512 bytes more do not") {
    CHECK(allocator.place(allocator.allocate(10 * MiB - 512)).bytes == 10 * MiB - 512);
    CHECK(allocator.place(allocator.allocate(MiB + 512)) ==
          memory_place{19 * MiB - 512, MiB + 512});
    CHECK(allocator.current().allocated == 20 * MiB);
    CHECK(allocator.segments() == 1);
  }
}

TEST_CASE("the smallest free block that holds a size is taken, then the lowest") {
  caching_allocator allocator;
  // 4 | wall | 3 | wall | 3 | wall | 2 MiB free behind them; walls of 1.5 MiB
  std::vector<int> holes;
  for (const std::int64_t size : {4, 3, 3}) {
    holes.push_back(allocator.allocate(size * MiB));
    (void)allocator.allocate(3 * MiB / 2);
  }
  (void)allocator.allocate(7 * MiB / 2);
  CHECK(allocator.current().allocated == 18 * MiB);
  REQUIRE(allocator.segments() == 1);

  SUBCASE("the smallest") {
    for (const int hole : holes) allocator.release(hole);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 11 * MiB / 2);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 10 * MiB);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 0);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 20 * MiB);
  }
  SUBCASE("one that is just large enough") {
    for (const int hole : holes) allocator.release(hole);
    CHECK(allocator.place(allocator.allocate(3 * MiB + 1)).address == 0);
    CHECK(allocator.place(allocator.allocate(2 * MiB)).address == 18 * MiB);
  }
  SUBCASE("among equals the lowest, whichever was released last") {
    allocator.release(holes[2]);
    allocator.release(holes[1]);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 11 * MiB / 2);
    allocator.release(holes[0]);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 10 * MiB);
  }
  SUBCASE("among equals the lowest, in the order of release") {
    allocator.release(holes[1]);
    allocator.release(holes[2]);
    CHECK(allocator.place(allocator.allocate(3 * MiB)).address == 11 * MiB / 2);
  }
}

TEST_CASE("small and large, and each stream, have blocks of their own") {
  caching_allocator allocator;
  const auto cache = [&](std::int64_t bytes, int stream) {
    allocator.release(allocator.allocate(bytes, stream));
  };
  cache(20 * MiB, 0);
  CHECK(allocator.place(allocator.allocate(MiB, 0)).address == 20 * MiB);
  CHECK(allocator.place(allocator.allocate(2 * MiB, 1)).address == 22 * MiB);
  CHECK(allocator.place(allocator.allocate(MiB, 1)).address == 42 * MiB);
  CHECK(allocator.place(allocator.allocate(2 * MiB, 0)).address == 0);
  CHECK(allocator.place(allocator.allocate(MiB, 0)).address == 21 * MiB);
  // Freed blocks go back to where they came from.
  const int second = allocator.allocate(3 * MiB, 1);
  CHECK(allocator.place(second).address == 24 * MiB);
  allocator.release(second);
  CHECK(allocator.place(allocator.allocate(3 * MiB, 2)).address == 44 * MiB);
  CHECK(allocator.place(allocator.allocate(3 * MiB, 1)).address == 24 * MiB);
}

TEST_CASE("freed blocks join their neighbours, in whichever order they are freed") {
  constexpr int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    for (const std::int64_t size : {3 * MiB, 300 * KiB}) {
      caching_allocator allocator;
      int blocks[3];
      for (int& block : blocks) block = allocator.allocate(size);
      const std::int64_t segment = allocator.current().reserved;
      for (const int i : order) allocator.release(blocks[i]);
      CHECK(allocator.current() == memory_counts{0, 0, segment});
      // One block that starts at the front again.
      const std::int64_t whole = size > MiB ? 20 * MiB : MiB;
      CHECK(allocator.place(allocator.allocate(whole)).address == 0);
      CHECK(allocator.segments() == 1);
    }
  }
}

TEST_CASE("a block behind one that was split joins its rest") {
  caching_allocator allocator;
  (void)allocator.allocate(3 * MiB);
  const int middle = allocator.allocate(6 * MiB);
  const int behind = allocator.allocate(3 * MiB);
  allocator.release(middle);
  CHECK(allocator.place(allocator.allocate(4 * MiB)).address == 3 * MiB);
  allocator.release(behind);
  CHECK(allocator.place(allocator.allocate(13 * MiB)) == memory_place{7 * MiB, 13 * MiB});
}

TEST_CASE("blocks of two segments do not join") {
  caching_allocator allocator;
  const int low = allocator.allocate(20 * MiB);
  const int high = allocator.allocate(20 * MiB);
  allocator.release(low);
  allocator.release(high);
  CHECK(allocator.place(allocator.allocate(21 * MiB)).address == 40 * MiB);
  CHECK(allocator.segments() == 3);
}

TEST_CASE("peaks are those of each count alone, and start anew when asked") {
  caching_allocator allocator;
  const int large = allocator.allocate(10 * MiB);
  allocator.release(large);
  const int tailed = allocator.allocate(9 * MiB);  // in the block of 10 MiB, all of it
  CHECK(allocator.current() == memory_counts{9 * MiB, 10 * MiB, 10 * MiB});
  CHECK(allocator.peak() == memory_counts{10 * MiB, 10 * MiB, 10 * MiB});
  allocator.reset_peak();
  CHECK(allocator.peak() == memory_counts{9 * MiB, 10 * MiB, 10 * MiB});
  allocator.release(tailed);
  allocator.reset_peak();
  CHECK(allocator.peak() == memory_counts{0, 0, 10 * MiB});
  allocator.empty_cache();
  CHECK(allocator.current() == memory_counts{});
  CHECK(allocator.peak() == memory_counts{0, 0, 10 * MiB});
}

TEST_CASE("a segment that just fits the capacity is taken, one that exceeds it is not") {
  caching_allocator exact(22 * MiB);
  CHECK(exact.allocate(2 * MiB) != out_of_memory);
  CHECK(exact.allocate(1) != out_of_memory);
  CHECK(exact.retries() == 0);

  caching_allocator short_of_one(22 * MiB - 1);
  CHECK(short_of_one.allocate(2 * MiB) != out_of_memory);
  const memory_counts before = short_of_one.current();
  CHECK(short_of_one.allocate(1) == out_of_memory);
  CHECK(short_of_one.current() == before);
  CHECK(short_of_one.peak() == before);
  CHECK(short_of_one.retries() == 1);
  CHECK(short_of_one.allocate(18 * MiB) != out_of_memory);  // from what is cached

  CHECK(caching_allocator(0).allocate(1) == out_of_memory);
}

TEST_CASE("before memory runs out, all segments that are wholly free are returned") {
  caching_allocator allocator(100 * MiB);
  const int kept = allocator.allocate(3 * MiB);       // 0 to 20 MiB, in part
  const int large = allocator.allocate(30 * MiB);     // 20 to 50
  const int other = allocator.allocate(40 * MiB, 1);  // 50 to 90, stream 1
  const int small = allocator.allocate(5, 2);         // 90 to 92, stream 2
  const int last = allocator.allocate(6 * MiB, 1);    // does not fit
  CHECK(last == out_of_memory);
  CHECK(allocator.retries() == 1);
  CHECK(allocator.current().reserved == 92 * MiB);
  allocator.release(large);
  allocator.release(other);
  allocator.release(small);
  REQUIRE(allocator.segments() == 4);

  SUBCASE("of every stream and kind, and what fits without is not tried again") {
    const int huge = allocator.allocate(80 * MiB);
    CHECK(allocator.place(huge) == memory_place{92 * MiB, 80 * MiB});  // no address comes back
    CHECK(allocator.current() == memory_counts{83 * MiB, 83 * MiB, 100 * MiB});
    CHECK(allocator.peak().reserved == 100 * MiB);
    CHECK(allocator.segments() == 2);
    CHECK(allocator.retries() == 2);
    CHECK(allocator.place(allocator.allocate(17 * MiB)).address == 3 * MiB);
    CHECK(allocator.retries() == 2);
    allocator.release(huge);
    CHECK(allocator.place(allocator.allocate(1, 2)).address == 172 * MiB);
  }
  SUBCASE("in vain") {
    CHECK(allocator.allocate(81 * MiB) == out_of_memory);
    CHECK(allocator.current() == memory_counts{3 * MiB, 3 * MiB, 20 * MiB});
    CHECK(allocator.segments() == 1);
    CHECK(allocator.retries() == 2);
    // A segment with a block in use stays whole.
    allocator.release(kept);
    CHECK(allocator.place(allocator.allocate(20 * MiB)).address == 0);
  }
  SUBCASE("when asked, which is no retry") {
    allocator.empty_cache();
    CHECK(allocator.current() == memory_counts{3 * MiB, 3 * MiB, 20 * MiB});
    CHECK(allocator.segments() == 1);
    CHECK(allocator.retries() == 1);
    CHECK(allocator.place(allocator.allocate(40 * MiB)).address == 92 * MiB);
  }
}

TEST_CASE("a segment stays where its first block is in use, or its last") {
  caching_allocator allocator;
  for (const int used : {0, 1}) {
    const int blocks[] = {allocator.allocate(MiB), allocator.allocate(MiB)};
    allocator.release(blocks[1 - used]);
    allocator.empty_cache();
    CHECK(allocator.segments() == 1);
    CHECK(allocator.current() == memory_counts{MiB, MiB, 2 * MiB});
    allocator.release(blocks[used]);
    allocator.empty_cache();
    CHECK(allocator.segments() == 0);
    CHECK(allocator.current() == memory_counts{});
  }
}

TEST_CASE("what is cached and fits is taken before anything is returned") {
  caching_allocator allocator(60 * MiB);
  const int low = allocator.allocate(20 * MiB);
  const int high = allocator.allocate(40 * MiB);
  allocator.release(low);
  allocator.release(high);
  CHECK(allocator.place(allocator.allocate(15 * MiB)).address == 0);
  CHECK(allocator.segments() == 2);
  CHECK(allocator.retries() == 0);
}

TEST_CASE("nothing is taken for 0 bytes") {
  caching_allocator allocator(0);
  const int empty = allocator.allocate(0);
  const int another = allocator.allocate(0, 7);
  CHECK(empty != out_of_memory);
  CHECK(allocator.place(empty) == memory_place{});
  CHECK(allocator.current() == memory_counts{});
  CHECK(allocator.segments() == 0);
  allocator.release(empty);
  allocator.release(another);
  allocator.release(empty);
  CHECK(allocator.current() == memory_counts{});
}

TEST_CASE("terabytes are counted, and from 1 EiB on nothing is tried") {
  caching_allocator allocator;
  const int large = allocator.allocate(3 * TiB + 1);
  (void)allocator.allocate(5 * TiB);
  CHECK(allocator.current() == memory_counts{8 * TiB + 1, 8 * TiB + 512, 8 * TiB + 2 * MiB});
  CHECK(allocator.place(allocator.allocate(MiB + 1)) == memory_place{3 * TiB + 512, 2 * MiB - 512});
  allocator.release(large);
  CHECK(allocator.place(allocator.allocate(2 * TiB)) == memory_place{0, 2 * TiB});
  CHECK(allocator.place(allocator.allocate(TiB)) == memory_place{2 * TiB, TiB + 512});

  const int largest = allocator.allocate(EiB - 1);
  CHECK(allocator.place(largest).bytes == EiB);
  for (const std::int64_t bytes : {EiB, EiB + 1, std::numeric_limits<std::int64_t>::max()})
    CHECK(allocator.allocate(bytes) == out_of_memory);
  CHECK(allocator.retries() == 0);
  // Seven more do not fit into 63 bits: not into the capacity, and not into the addresses either
  // when six of them are gone.
  std::vector<int> more;
  for (int i = 0; i < 6; ++i) more.push_back(allocator.allocate(EiB - 1));
  CHECK(more.back() != out_of_memory);
  CHECK(allocator.allocate(EiB - 1) == out_of_memory);
  for (const int handle : more) allocator.release(handle);
  allocator.empty_cache();
  CHECK(allocator.allocate(EiB - 1) == out_of_memory);
  CHECK(allocator.allocate(1) != out_of_memory);
}

TEST_CASE("copies go on by themselves") {
  caching_allocator one;
  const int block = one.allocate(3 * MiB);
  caching_allocator two = one;
  one.release(block);
  CHECK(one.place(one.allocate(20 * MiB)).address == 0);
  CHECK(two.place(block) == memory_place{0, 3 * MiB});
  CHECK(two.place(two.allocate(17 * MiB)).address == 3 * MiB);
}

TEST_CASE("broken preconditions are errors") {
  caching_allocator allocator;
  const int block = allocator.allocate(3 * MiB);
  const int other = allocator.allocate(1);
  CHECK(broken_precondition([&] { (void)allocator.allocate(-1); }) == errc::negative);
  CHECK(broken_precondition([&] {
          (void)allocator.allocate(std::numeric_limits<std::int64_t>::min());
        }) == errc::negative);
  CHECK(broken_precondition([&] { (void)allocator.allocate(1, -1); }) == errc::negative);
  CHECK(broken_precondition([] { (void)caching_allocator(-1); }) == errc::negative);
  CHECK(broken_precondition([&] { allocator.release(out_of_memory); }) == errc::out_of_bounds);
  CHECK(broken_precondition([&] { allocator.release(1'000'000); }) == errc::out_of_bounds);
  for (int unused = 1; unused < 4; ++unused)
    CHECK(broken_precondition([=] { caching_allocator().release(unused); }) == errc::out_of_bounds);
  CHECK(broken_precondition([&] { (void)allocator.place(-2); }) == errc::out_of_bounds);
  CHECK(allocator.current() == memory_counts{3 * MiB + 1, 3 * MiB + 512, 22 * MiB});
  allocator.release(block);
  CHECK(broken_precondition([&] { allocator.release(block); }) == errc::out_of_bounds);
  CHECK(broken_precondition([&] { (void)allocator.place(block); }) == errc::out_of_bounds);
  allocator.release(other);
  CHECK(allocator.current() == memory_counts{0, 0, 22 * MiB});
}

namespace {

struct recorded {
  char call;          // 'a' allocates, 'f' frees, 'e' empties the cache
  std::int64_t what;  // 'a': bytes; 'f': which of the allocations that succeeded, from 0
  int stream;
  std::int64_t address;  // from the first segment; -1: out of memory
  memory_counts after;
  int segments;
};

// torch.empty and del on two streams and torch.cuda.empty_cache, with PyTorch 2.15, under a limit
// of 180 MiB.
constexpr recorded recorded_calls[] = {
#include "caching_allocator_rows.inc"
};

}  // namespace

TEST_CASE("a run of the real allocator is met call by call") {
  caching_allocator allocator(180 * MiB);
  std::vector<int> handles;
  int call = 0;
  for (const recorded& real : recorded_calls) {
    CAPTURE(call);
    if (real.call == 'a') {
      const int handle = allocator.allocate(real.what, real.stream);
      REQUIRE((handle == out_of_memory) == (real.address < 0));
      if (handle != out_of_memory) {
        CHECK(allocator.place(handle).address == real.address);
        handles.push_back(handle);
      }
    } else if (real.call == 'f') {
      allocator.release(handles[static_cast<std::size_t>(real.what)]);
    } else {
      allocator.empty_cache();
    }
    CHECK(allocator.current() == real.after);
    CHECK(allocator.segments() == real.segments);
    ++call;
  }
  CHECK(call == 400);
  CHECK(allocator.peak() == memory_counts{175'366'993, 177'612'800, 180 * MiB});
  CHECK(allocator.retries() == 28);
}

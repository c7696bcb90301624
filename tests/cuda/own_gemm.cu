// The own matrix product, of which nobody needs a GPU to know that it is right: its kernel runs
// here on a machine that plays one block of threads on the host, with the layouts of PTX's
// fragments and the worst that asynchronous copies may do.

#include <gpuplan/cuda/own_gemm.cuh>

#include <ucontext.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace gpuplan::cuda;

enum class copies { at_once, when_waited_for };  // when asynchronous copies take place
enum class fault { none, no_barrier, no_wait };  // what the machine leaves out

// One thread block, a fiber for each thread; they run one at a time, in an order that changes.
template <class Element>
class block_on_host {
 public:
  block_on_host(const own_gemm_call<Element>& matmul,
                std::int64_t block_row,
                std::int64_t block_column,
                copies when,
                fault left_out,
                unsigned seed)
      : matmul_(matmul),
        block_row_(block_row),
        block_column_(block_column),
        when_(when),
        left_out_(left_out),
        random_(seed),
        shared_(own_gemm::shared_elements, Element(77.0F)) {}

  void run() {
    for (int thread = 0; thread < own_gemm::threads; ++thread) start(thread);
    for (int left = own_gemm::threads; left != 0;) {
      // Whole warps in a random order, so that some run far ahead of others.
      const int warp = static_cast<int>(random_() % warps);
      bool moved = true;
      while (moved) {
        moved = false;
        for (int lane = 0; lane < 32; ++lane) {
          fiber& one = fibers_[warp * 32 + lane];
          if (one.done || !ready(one)) continue;
          current_ = warp * 32 + lane;
          swapcontext(&scheduler_, &one.context);
          moved = true;
          if (one.done) --left;
        }
      }
    }
  }

  bool within_bounds = true;  // of what the operands and the buffers hold

  // ---- what the kernel asks of a machine

  int thread() const { return current_; }
  std::int64_t block_row() const { return block_row_; }
  std::int64_t block_column() const { return block_column_; }
  Element* shared() { return shared_.data(); }
  void copy_chunk(Element* to, const Element* from, int bytes) {
    const auto inside = [&](const Element* begin, std::int64_t rows, std::int64_t pitch) {
      return from >= begin && from + bytes / 2 <= begin + rows * pitch;
    };
    const bool readable = bytes == 0 || inside(matmul_.a, matmul_.m, matmul_.a_pitch) ||
                          inside(matmul_.b, matmul_.n, matmul_.b_pitch);
    const bool aligned = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 &&
                         (to - shared_.data()) % own_gemm::chunk == 0;
    const bool in_buffer = to >= shared_.data() && to + own_gemm::chunk <= &*shared_.end();
    within_bounds = within_bounds && readable && aligned && in_buffer && bytes >= 0 && bytes <= 16;
    if (!within_bounds) return;
    fibers_[current_].copies.push_back({to, from, bytes});
    if (when_ == copies::at_once) finish_copies();
  }
  void wait_for_copies() {
    if (left_out_ != fault::no_wait) finish_copies();
  }
  void synchronise() {
    if (left_out_ == fault::no_barrier) return;
    fiber& mine = fibers_[current_];
    ++mine.barriers;
    wait();
  }
  void load_matrices(std::uint32_t (&to)[4], const Element* row) {
    const Element* const* rows = exchange(row, rows_);
    // Matrix i's row r is at the address of lane 8 i + r; a lane gets two neighbours of one row.
    for (int i = 0; i < 4; ++i)
      std::memcpy(&to[i], rows[8 * i + lane() / 4] + lane() % 4 * 2, sizeof to[i]);
  }
  // PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". The numbers are exact:
  // small integers.
  void multiply_add(float (&sum)[4],
                    const std::uint32_t (&a)[4],
                    std::uint32_t b_first,
                    std::uint32_t b_second) {
    const fragment* all =
        exchange({elements_of(a[0], a[1], a[2], a[3]), elements_of(b_first, b_second)}, fragments_);
    operands& of_warp = operands_[current_ / 32];
    // The first lane puts together what all lanes of the warp read.
    if (of_warp.exchange != fibers_[current_].exchanges) {
      of_warp.exchange = fibers_[current_].exchanges;
      for (int of = 0; of < 32; ++of) {
        const int group = of / 4;
        const int in_group = of % 4;
        for (int i = 0; i < 8; ++i) {
          const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
          const int column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
          of_warp.a[row][column] = static_cast<float>(all[of].a.data()[i]);
        }
        for (int i = 0; i < 4; ++i)
          of_warp.b[in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group] =
              static_cast<float>(all[of].b.data()[i]);
      }
    }
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? lane() / 4 : lane() / 4 + 8;
      const int column = lane() % 4 * 2 + (i & 1);
      for (int k = 0; k < 16; ++k) sum[i] += of_warp.a[row][k] * of_warp.b[k][column];
    }
  }

 private:
  static constexpr int warps = own_gemm::threads / 32;
  struct copy {
    Element* to;
    const Element* from;
    int bytes;
  };
  struct fragment {
    std::array<Element, 8> a;
    std::array<Element, 4> b;
  };
  struct operands {
    std::int64_t exchange = 0;  // by which they came
    float a[16][16];
    float b[16][8];
  };
  struct fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    std::vector<copy> copies;
    std::int64_t barriers = 0;   // of the block, that it has come to
    std::int64_t exchanges = 0;  // within its warp, likewise
    bool done = false;
  };

  own_gemm_call<Element> matmul_;
  std::int64_t block_row_;
  std::int64_t block_column_;
  copies when_;
  fault left_out_;
  std::minstd_rand random_;
  std::vector<Element> shared_;
  fiber fibers_[own_gemm::threads];
  ucontext_t scheduler_;
  int current_ = 0;
  // What lanes hand each other, in turn, so that the next exchange does not overwrite this one.
  const Element* rows_[warps][2][32];
  fragment fragments_[warps][2][32];
  operands operands_[warps];

  int lane() const { return current_ % 32; }

  // Two of each register, the lower half first.
  template <class... Registers>
  static std::array<Element, 2 * sizeof...(Registers)> elements_of(Registers... registers) {
    return std::bit_cast<std::array<Element, 2 * sizeof...(Registers)>>(
        std::array<std::uint32_t, sizeof...(Registers)>{registers...});
  }

  static void enter(unsigned low, unsigned high) {
    auto* block = reinterpret_cast<block_on_host*>(std::uintptr_t{high} << 32 | low);
    own_gemm::make_block(*block, block->matmul_);
    block->fibers_[block->current_].done = true;
  }
  void start(int thread) {
    constexpr std::size_t stack_size = 64 << 10;
    fiber& one = fibers_[thread];
    one.stack = std::make_unique<char[]>(stack_size);
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = one.stack.get();
    one.context.uc_stack.ss_size = stack_size;
    one.context.uc_link = &scheduler_;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&one.context,
                reinterpret_cast<void (*)()>(enter),
                2,
                static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
  }
  // Whether everyone whom the thread waits for has come as far.
  bool ready(const fiber& one) const {
    const auto warp = static_cast<int>(&one - fibers_) / 32;
    for (int other = 0; other < own_gemm::threads; ++other) {
      const fiber& theirs = fibers_[other];
      if (!theirs.done && theirs.barriers < one.barriers) return false;
      if (other / 32 == warp && !theirs.done && theirs.exchanges < one.exchanges) return false;
    }
    return true;
  }
  void wait() { swapcontext(&fibers_[current_].context, &scheduler_); }
  template <class T>
  const T* exchange(const T& mine, T (&buffers)[warps][2][32]) {
    T(&buffer)[32] = buffers[current_ / 32][fibers_[current_].exchanges % 2];
    buffer[lane()] = mine;
    ++fibers_[current_].exchanges;
    wait();
    return buffer;
  }
  void finish_copies() {
    for (const copy& one : fibers_[current_].copies) {
      std::memset(static_cast<void*>(one.to), 0, 16);
      std::memcpy(static_cast<void*>(one.to), one.from, static_cast<std::size_t>(one.bytes));
    }
    fibers_[current_].copies.clear();
  }
};

struct answer {
  bool within_bounds = true;
  std::int64_t wrong = 0;      // elements of C
  std::int64_t overwrote = 0;  // elements between C's rows
};

// C of small integers, for which sums are exact, on all blocks of the grid.
template <class Element>
answer multiply_integers(
    std::int64_t m, std::int64_t n, std::int64_t k, copies when, fault left_out = fault::none) {
  const std::int64_t pitch = (k + 7) / 8 * 8;
  const std::int64_t c_pitch = n + 3;
  std::minstd_rand random(static_cast<unsigned>(m + 1000 * n + 1000000 * k));
  // 16-byte aligned, as cudaMalloc's; what pads rows is no number, and must not be read.
  struct alignas(16) eight {
    Element each[8];
  };
  const auto fill = [&](std::int64_t rows) {
    std::vector<eight> matrix(static_cast<std::size_t>(rows * pitch / 8));
    for (std::int64_t i = 0; i < rows * pitch; ++i)
      matrix[static_cast<std::size_t>(i / 8)].each[i % 8] =
          i % pitch < k ? Element(static_cast<float>(static_cast<int>(random() % 3) - 1))
                        : Element(std::numeric_limits<float>::quiet_NaN());
    return matrix;
  };
  const std::vector<eight> a = fill(m);
  const std::vector<eight> b = fill(n);
  std::vector<Element> c(static_cast<std::size_t>(m * c_pitch), Element(99.0F));
  const own_gemm_call<Element> matmul{
      a[0].each, b[0].each, c.data(), m, n, k, pitch, pitch, c_pitch};

  answer result;
  for (std::int64_t row = 0; row < m; row += own_gemm::tile_m)
    for (std::int64_t column = 0; column < n; column += own_gemm::tile_n) {
      const auto block = std::make_unique<block_on_host<Element>>(matmul,
                                                                  row / own_gemm::tile_m,
                                                                  column / own_gemm::tile_n,
                                                                  when,
                                                                  left_out,
                                                                  static_cast<unsigned>(k + 1));
      block->run();
      result.within_bounds = result.within_bounds && block->within_bounds;
    }
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t column = 0; column < c_pitch; ++column) {
      const auto found = static_cast<float>(c[static_cast<std::size_t>(row * c_pitch + column)]);
      if (column >= n) {
        result.overwrote += found == 99.0F ? 0 : 1;
        continue;
      }
      float expected = 0;
      for (std::int64_t i = 0; i < k; ++i)
        expected += static_cast<float>(matmul.a[row * pitch + i]) *
                    static_cast<float>(matmul.b[column * pitch + i]);
      result.wrong += found == expected ? 0 : 1;
    }
  return result;
}

template <class Element>
void check_exact(std::int64_t m, std::int64_t n, std::int64_t k) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  for (const copies when : {copies::at_once, copies::when_waited_for}) {
    const answer found = multiply_integers<Element>(m, n, k, when);
    CHECK(found.within_bounds);
    CHECK(found.wrong == 0);
    CHECK(found.overwrote == 0);
  }
}

TEST_CASE("the own matrix matmul is exact for small integers") {
  check_exact<__nv_bfloat16>(128, 128, 64);
  check_exact<__nv_bfloat16>(256, 128, 32);
  check_exact<__half>(128, 256, 96);
}

TEST_CASE("the own matrix matmul is exact at ragged edges") {
  check_exact<__half>(1, 1, 1);
  check_exact<__half>(129, 127, 33);
  check_exact<__nv_bfloat16>(100, 130, 47);
  check_exact<__nv_bfloat16>(17, 250, 200);
  check_exact<__nv_bfloat16>(64, 8, 8);
}

// Else the tests above would prove nothing.
TEST_CASE("the machine on the host shows a missing barrier and a missing wait") {
  CHECK(multiply_integers<__half>(128, 128, 160, copies::at_once, fault::no_barrier).wrong > 0);
  CHECK(multiply_integers<__half>(128, 128, 160, copies::when_waited_for, fault::no_barrier).wrong >
        0);
  CHECK(multiply_integers<__half>(128, 128, 64, copies::when_waited_for, fault::no_wait).wrong > 0);
}

TEST_CASE("eight rows of one ldmatrix lie in different banks") {
  using namespace own_gemm;
  for (int chunk_of_row = 0; chunk_of_row < chunks_of_row; ++chunk_of_row)
    for (int first = 0; first < tile_rows; first += 8) {
      std::set<int> banks;  // of 16 bytes: eight of them are all there are
      for (int row = first; row < first + 8; ++row)
        banks.insert(shared_index(row, chunk_of_row) / chunk % 8);
      CHECK(banks.size() == 8);
    }
}

TEST_CASE("every chunk of a buffer has a place of its own") {
  using namespace own_gemm;
  std::set<int> places;
  for (int row = 0; row < tile_rows; ++row)
    for (int chunk_of_row = 0; chunk_of_row < chunks_of_row; ++chunk_of_row)
      places.insert(shared_index(row, chunk_of_row));
  CHECK(places.size() == static_cast<std::size_t>(tile_rows * chunks_of_row));
  CHECK(*places.begin() == 0);
  CHECK(*places.rbegin() == (tile_rows * chunks_of_row - 1) * chunk);
}

}  // namespace

// Gives each file to a target of fuzzing again and again, and lets another allocation
// fail each time: it ends as if it were told of no memory, by a value, a reason or std::bad_alloc,
// and gives back all that it took. Of what allocates more than `most_tries` times, so many of its
// allocations, evenly.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr long most_tries = 400;

long made = 0;   // allocations since `start`
long fails = 0;  // the number of the one that fails; 0: none
long alive = 0;

char where[4096] = "";

// Says of what it died; all that it calls may be called by a handler of signals.
void say_where(int) {
  std::size_t length = 0;
  while (where[length] != '\0') ++length;
  static_cast<void>(!write(STDERR_FILENO, where, length));
}

void start(const std::string& file, long failing) {
  std::snprintf(
      where, sizeof where, "%s: ends where allocation %ld fails\n", file.c_str(), failing);
  made = 0;
  fails = failing;
}

}  // namespace

void* operator new(std::size_t size) {
  if (++made == fails) throw std::bad_alloc();
  void* const memory = std::malloc(std::max<std::size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  ++alive;
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  --alive;
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

int main(int argc, char** argv) {
  std::signal(SIGABRT, say_where);
  long tries = 0;
  long thrown = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string file = argv[i];
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in || text.empty()) {
      std::fprintf(stderr, "%s cannot be read\n", file.c_str());
      return 1;
    }
    const auto* const data = reinterpret_cast<const std::uint8_t*>(text.data());
    for (int warm = 0; warm < 2; ++warm) {  // what is kept for good is there afterwards
      start(file, 0);
      LLVMFuzzerTestOneInput(data, text.size());
    }
    const long all = made;
    const long step = std::max(all / most_tries, 1L);
    for (long failing = 1; failing <= all; failing += step) {
      start(file, failing);
      const long before = alive;
      try {
        LLVMFuzzerTestOneInput(data, text.size());
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
      fails = 0;
      if (alive != before) {
        std::fprintf(stderr,
                     "%s: where allocation %ld of %ld fails, %ld are not given back\n",
                     file.c_str(),
                     failing,
                     all,
                     alive - before);
        return 1;
      }
      ++tries;
    }
  }
  std::printf("%d files, %ld allocations failed, of which %ld ended by std::bad_alloc\n",
              argc - 1,
              tries,
              thrown);
  return argc > 1 ? 0 : 1;
}

// Runs a target without a fuzzer, of any compiler, so that each seed, and each finding that was
// mended, is a test.
//   run FOLDER...                        each file of these once
//   run --random N [--from K] FOLDER...  N inputs made of these files by chance, from the K-th on
// Its number alone makes an input: --random 1 --from K makes the K-th once more.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "inputs.hpp"
#include "random_numbers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// One of the files with 1 to 16 changes: bytes replaced, put in, taken out, or taken from another
// file; or its first byte, by which a target chooses what to ask, and as many as follow it, of any
// value.
std::string changed(const std::vector<std::string>& files, random_numbers& random) {
  constexpr std::size_t longest = 20000;
  const auto below = [&](std::size_t end) {
    return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(end)));
  };
  const auto any = [&] { return static_cast<char>(random.below(256)); };
  std::string made = files[below(files.size())];
  if (made.empty()) made = any();
  if (random.below(4) == 0) {
    for (std::size_t at = 1; at < made.size(); ++at) made[at] = any();
    return made;
  }
  for (std::size_t changes = 1 + below(16); changes > 0; --changes) {
    const std::size_t at = below(made.size());
    const std::string& other = files[below(files.size())];
    switch (random.below(4)) {
      case 0:
        made[at] = any();
        break;
      case 1:
        made.insert(at, 1, any());
        break;
      case 2:
        if (made.size() > 1) made.erase(at, 1);
        break;
      default:
        if (other.empty()) break;
        made.insert(at, other, below(other.size()), 1 + below(other.size()));
        if (made.size() > longest) made.resize(longest);
    }
  }
  return made;
}

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int count, char** arguments) {
  std::int64_t random_inputs = 0;
  std::int64_t first = 0;
  std::vector<const char*> folders;
  for (int at = 1; at < count; ++at) {
    const std::string_view word = arguments[at];
    // Behind the last argument stands a null pointer.
    if (word == "--random")
      random_inputs = number_of("--random", arguments[++at], 1);
    else if (word == "--from")
      first = number_of("--from", arguments[++at], 0);
    else
      folders.push_back(arguments[at]);
  }
  if (random_inputs > std::numeric_limits<std::int64_t>::max() - first) {
    std::fprintf(stderr, "--random and --from are refused: their sum must be below 2^63\n");
    return 2;
  }
  const std::vector<std::string> files = files_of(folders);
  if (files.empty()) {
    std::fprintf(stderr, "no file in any folder that was given\n");
    return 1;
  }
  if (random_inputs == 0) {
    for (const std::string& file : files) run(file);
    std::printf("%zu files\n", files.size());
    return 0;
  }
  tell_which_ends("--random");
  for (now = first; now < first + random_inputs; ++now) {
    random_numbers random(static_cast<std::uint64_t>(now) * 0x9E3779B97F4A7C15u);
    run(changed(files, random));
  }
  std::printf("%lld inputs\n", static_cast<long long>(random_inputs));
  return 0;
}

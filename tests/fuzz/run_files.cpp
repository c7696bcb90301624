// Runs a target over files and folders, without a fuzzer: each seed, and each finding that was
// mended, is a test of any compiler.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

bool run(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return false;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  int files = 0;
  for (int at = 1; at < count; ++at)
    for (const auto& entry : std::filesystem::directory_iterator(arguments[at]))
      if (entry.is_regular_file()) {
        if (!run(entry.path())) {
          std::fprintf(stderr, "%s cannot be read\n", entry.path().c_str());
          return 1;
        }
        ++files;
      }
  std::printf("%d files\n", files);
  return files == 0 ? 1 : 0;
}

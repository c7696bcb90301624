// Any words behind gpuplan, one a line: an answer without a number that is none, or a sentence on
// stderr with status 1 or 2. Words that name a file elsewhere are left out; what is written goes to
// a folder of its own.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"
#include "program_output.hpp"

namespace {

bool is_letter(char of) { return (of >= 'a' && of <= 'z') || (of >= 'A' && of <= 'Z'); }

// Whether the word stands there alone.
bool says(const std::string& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_letter(text[at - 1]);
    if (begins && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 2000) return 0;
  std::vector<std::string> words(1);
  for (std::size_t at = 0; at < size; ++at) {
    const char one = static_cast<char>(data[at]);
    if (one == '/' || one == '\0') return 0;
    if (one == '\n')
      words.emplace_back();
    else
      words.back() += one;
  }
  static const std::filesystem::path here = std::filesystem::current_path();
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "gpuplan_fuzz_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    return std::filesystem::path(name);
  }();
  std::filesystem::current_path(folder);
  const outcome ran = output_of(gpuplan_program::run, words, "gpuplan");
  std::filesystem::current_path(here);
  if (ran.status < 0 || ran.status > 2) std::abort();
  if (ran.status != 0 && ran.err.empty()) std::abort();
  // What the words themselves say is repeated.
  for (const char* none : {"nan", "inf", "-nan", "-inf"}) {
    bool is_asked = false;
    for (const std::string& word : words) is_asked = is_asked || says(word, none);
    if (ran.status == 0 && !is_asked && says(ran.out, none)) std::abort();
  }
  return 0;
}

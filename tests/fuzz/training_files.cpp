// Trainers' files of any text: read, merged, and made into a setup, or refused with a sentence.
// The first byte says which notation the file's name promises.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace io = gpuplan::io;

// What is refused says why; what is read has a batch that a step can have.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr const char* names[] = {"a.json", "a.yaml", "a.toml", "a.sh", "a"};
  const char* const name = names[data[0] % 5];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const io::read_config read = io::read_training_file(name, text);
  if (!read) {
    if (read.why.empty()) std::abort();
    return 0;
  }
  const io::configured_training made =
      io::configured(io::merged({read, read}), {.shape = gpuplan::catalog::gpt2, .called = "gpt2"});
  if (made && (made.plan.micro_batch < 1 || made.plan.accumulation < 1)) std::abort();
  if (!made && made.why.empty()) std::abort();
  return 0;
}

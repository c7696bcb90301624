#pragma once

// A file of pictures, each with what it shows.
//
// A header of 64 bytes, then one record per sample: a byte for the digit, then the pixels row by
// row. The header, its integers little endian: "GPUPLAN\n"; 4 bytes each for the version 1, the
// side of a picture, the number of classes, and 0; 8 bytes each for the number of samples, the
// seed, and the checksum: FNV-1a of 64 bits over the header before it and over all records; zeros.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "sweep/digits.hpp"

namespace sweep_examples {

/// A sample as the file holds it.
using record = std::array<std::uint8_t, 1 + pixels>;

/// A file of samples, open for reading. Its members may be called from several threads at once.
class data_set {
 public:
  /// Opens a file and reads all of it once to check it. Throws std::runtime_error, with the file's
  /// name and the reason, where it cannot be read, is none of these files, or is damaged.
  explicit data_set(const std::filesystem::path& file);
  ~data_set();
  data_set(data_set&& other) noexcept;
  data_set(const data_set&) = delete;
  data_set& operator=(const data_set&) = delete;
  data_set& operator=(data_set&&) = delete;

  [[nodiscard]] std::int64_t samples() const { return samples_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] std::uint64_t checksum() const { return checksum_; }

  /// Reads one sample from the file. Throws std::runtime_error where that fails. Precondition:
  /// 0 <= index < samples().
  void read(std::int64_t index, record& into) const;

 private:
  int descriptor_ = -1;
  std::int64_t samples_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t checksum_ = 0;

  void read_at(std::int64_t offset, std::span<std::uint8_t> into) const;
  void check();
};

/// Draws the samples and writes them under another name, which becomes `file` when all is written.
/// Throws std::runtime_error where that fails. Precondition: samples >= 1.
void write_data_set(const std::filesystem::path& file, std::int64_t samples, std::uint64_t seed);

/// The file of that many samples from that seed: the one that is there, or written now where there
/// is none. Throws std::runtime_error where a file of that name holds anything else.
[[nodiscard]] data_set open_or_write_data_set(const std::filesystem::path& file,
                                              std::int64_t samples,
                                              std::uint64_t seed);

}  // namespace sweep_examples

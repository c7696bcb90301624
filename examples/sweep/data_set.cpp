#include "sweep/data_set.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sweep/digits.hpp"

namespace sweep_examples {
namespace {

constexpr std::size_t header_size = 64;
constexpr std::size_t checksum_at = 40;
constexpr std::uint64_t magic = 0x0a4e414c50555047;  // "GPUPLAN\n"
constexpr std::uint64_t version = 1;

using header = std::array<std::uint8_t, header_size>;

void put(header& into, std::size_t at, std::size_t size, std::uint64_t value) {
  for (std::size_t i = 0; i < size; ++i) into[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::uint64_t get(const header& from, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{from[at + i]} << (8 * i);
  return value;
}

class fnv1a {
 public:
  void add(std::span<const std::uint8_t> data) {
    for (const std::uint8_t byte : data) value_ = (value_ ^ byte) * 0x100000001b3;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

header header_of(std::int64_t samples, std::uint64_t seed) {
  header made{};
  put(made, 0, 8, magic);
  put(made, 8, 4, version);
  put(made, 12, 4, image_side);
  put(made, 16, 4, digits);
  put(made, 24, 8, static_cast<std::uint64_t>(samples));
  put(made, 32, 8, seed);
  return made;
}

fnv1a checksum_of_header(const header& of) {
  fnv1a sum;
  sum.add(std::span(of).first<checksum_at>());
  return sum;
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw std::runtime_error(file.string() + ": " + why);
}

}  // namespace

data_set::data_set(const std::filesystem::path& file)
    : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(file, std::strerror(errno));
  try {
    check();
  } catch (const std::runtime_error& error) {
    close(descriptor_);
    fail(file, error.what());
  }
}

data_set::~data_set() {
  if (descriptor_ >= 0) close(descriptor_);
}

data_set::data_set(data_set&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      samples_(other.samples_),
      seed_(other.seed_),
      checksum_(other.checksum_) {}

void data_set::check() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) throw std::runtime_error(std::strerror(errno));
  if (status.st_size < static_cast<off_t>(header_size))
    throw std::runtime_error("too short for a file of samples");
  header held{};
  read_at(0, held);
  if (get(held, 0, 8) != magic) throw std::runtime_error("not a file of samples");
  const auto payload = static_cast<std::uint64_t>(status.st_size) - header_size;
  samples_ = static_cast<std::int64_t>(payload / sizeof(record));
  seed_ = get(held, 32, 8);
  checksum_ = get(held, checksum_at, 8);
  header expected = header_of(samples_, seed_);
  put(expected, checksum_at, 8, checksum_);
  if (samples_ < 1 || payload % sizeof(record) != 0 || held != expected)
    throw std::runtime_error("damaged: the header does not describe this file");
  fnv1a sum = checksum_of_header(held);
  constexpr std::int64_t at_once = 256;
  std::vector<std::uint8_t> some(at_once * sizeof(record));
  for (std::int64_t done = 0; done < samples_; done += at_once) {
    const auto count = static_cast<std::size_t>(std::min(at_once, samples_ - done));
    const std::span<std::uint8_t> part = std::span(some).first(count * sizeof(record));
    read_at(static_cast<std::int64_t>(header_size) + done * std::int64_t{sizeof(record)}, part);
    sum.add(part);
  }
  if (sum.value() != checksum_) throw std::runtime_error("damaged: the checksum is another");
}

void data_set::read_at(std::int64_t offset, std::span<std::uint8_t> into) const {
  while (!into.empty()) {
    const ssize_t count = pread(descriptor_, into.data(), into.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::runtime_error(std::string("cannot read: ") + std::strerror(errno));
    if (count == 0) throw std::runtime_error("cannot read: the file became shorter");
    into = into.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void data_set::read(std::int64_t index, record& into) const {
  read_at(static_cast<std::int64_t>(header_size) + index * std::int64_t{sizeof(record)}, into);
}

void write_data_set(const std::filesystem::path& file, std::int64_t samples, std::uint64_t seed) {
  const std::filesystem::path draft = file.string() + "." + std::to_string(getpid());
  errno = 0;
  std::ofstream out(draft, std::ios::binary | std::ios::trunc);
  const auto put_all = [&](std::span<const std::uint8_t> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  };
  header made = header_of(samples, seed);
  fnv1a sum = checksum_of_header(made);
  put_all(made);
  record one{};
  for (std::int64_t index = 0; index < samples && out; ++index) {
    one[0] = draw_digit(seed, index, std::span(one).last<pixels>());
    sum.add(one);
    put_all(one);
  }
  put(made, checksum_at, 8, sum.value());
  out.seekp(0);
  put_all(made);
  out.close();
  std::error_code why(errno != 0 ? errno : EIO, std::generic_category());
  if (out) std::filesystem::rename(draft, file, why);
  if (!out || why) {
    std::error_code ignored;
    std::filesystem::remove(draft, ignored);
    fail(file, "cannot write: " + why.message());
  }
}

data_set open_or_write_data_set(const std::filesystem::path& file,
                                std::int64_t samples,
                                std::uint64_t seed) {
  if (!std::filesystem::exists(file)) write_data_set(file, samples, seed);
  data_set opened(file);
  if (opened.samples() != samples || opened.seed() != seed)
    fail(file,
         "holds " + std::to_string(opened.samples()) + " samples of seed " +
             std::to_string(opened.seed()) + ", not " + std::to_string(samples) + " of seed " +
             std::to_string(seed));
  return opened;
}

}  // namespace sweep_examples

// What the sweeps train: the data set, the network, and the memory they take.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory_resource>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "program_output.hpp"
#include "sweep/counted_memory.hpp"
#include "sweep/data_set.hpp"
#include "sweep/digits.hpp"
#include "sweep/loader.hpp"
#include "sweep/multilayer_perceptron.hpp"
#include "sweep/random.hpp"
#include "sweep/thread_team.hpp"
#include "temporary_file.hpp"

using namespace sweep_examples;

namespace {

// A file of samples in a folder of its own.
class written_data_set {
 public:
  written_data_set(std::int64_t samples, std::uint64_t seed) : place_("", "gpuplan-samples") {
    write_data_set(place_.name(), samples, seed);
  }

  [[nodiscard]] std::string name() const { return place_.name(); }
  [[nodiscard]] std::string bytes() const { return place_.text(); }
  void replace(const std::string& by) const {
    std::ofstream(name(), std::ios::binary | std::ios::trunc) << by;
  }

 private:
  temporary_file place_;
};

std::string why_not(const std::string& file, std::int64_t samples, std::uint64_t seed) {
  try {
    static_cast<void>(open_or_write_data_set(file, samples, seed));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

std::uint64_t little_endian(const std::string& text, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;)
    value = value * 256 + static_cast<std::uint8_t>(text[at + i]);
  return value;
}

std::vector<float> random_inputs(std::int64_t count, random_stream& random) {
  std::vector<float> made;
  for (std::int64_t i = 0; i < count; ++i)
    made.push_back(static_cast<float>(random.between(-1, 1)));
  return made;
}

}  // namespace

TEST_CASE("a shuffling has every number once, in another order for another name") {
  for (const std::int64_t size : {1, 2, 3, 10, 64, 1000}) {
    CAPTURE(size);
    std::vector<int> seen(static_cast<std::size_t>(size));
    std::int64_t moved = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = shuffled(i, size, 7);
      REQUIRE(at >= 0);
      REQUIRE(at < size);
      ++seen[static_cast<std::size_t>(at)];
      if (at != shuffled(i, size, 8)) ++moved;
    }
    for (const int times : seen) CHECK(times == 1);
    if (size >= 64) CHECK(moved > size * 9 / 10);
  }
}

TEST_CASE("a file of samples is what its header says, byte by byte") {
  const written_data_set file(100, 3);
  const std::string text = file.bytes();
  REQUIRE(text.size() == 64 + 100 * 785);
  CHECK(text.substr(0, 8) == "GPUPLAN\n");
  CHECK(little_endian(text, 8, 4) == 1);
  CHECK(little_endian(text, 12, 4) == 28);
  CHECK(little_endian(text, 16, 4) == 10);
  CHECK(little_endian(text, 24, 8) == 100);
  CHECK(little_endian(text, 32, 8) == 3);
  std::uint64_t sum = 14695981039346656037U;
  const auto add = [&](const std::string& part) {
    for (const char c : part) {
      sum ^= static_cast<std::uint8_t>(c);
      sum *= 1099511628211U;
    }
  };
  add(text.substr(0, 40));
  add(text.substr(64));
  CHECK(little_endian(text, 40, 8) == sum);

  const data_set opened(file.name());
  CHECK(opened.samples() == 100);
  CHECK(opened.seed() == 3);
  CHECK(opened.checksum() == sum);
  record read;
  std::array<std::uint8_t, pixels> drawn;
  for (const std::int64_t index : {0, 42, 99}) {
    opened.read(index, read);
    CHECK(read[0] == draw_digit(3, index, drawn));
    CHECK(std::equal(drawn.begin(), drawn.end(), read.begin() + 1));
  }
  // The same on every machine, with every compiler.
  CHECK(sum == 8644476636792722995U);
}

TEST_CASE("a file of samples is written once, and refused where it is not what is asked for") {
  const written_data_set file(50, 1);
  const std::string good = file.bytes();
  const auto time = std::filesystem::last_write_time(file.name());
  CHECK(why_not(file.name(), 50, 1).empty());
  CHECK(std::filesystem::last_write_time(file.name()) == time);
  CHECK(has(why_not(file.name(), 50, 2), "holds 50 samples of seed 1, not 50 of seed 2"));
  CHECK(has(why_not(file.name(), 51, 1), "not 51 of seed 1"));

  for (const std::size_t at : {std::size_t{64}, std::size_t{1000}, good.size() - 1}) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    file.replace(damaged);
    CHECK(has(why_not(file.name(), 50, 1), "the checksum is another"));
  }
  for (const std::size_t at : {8U, 13U, 16U, 24U, 60U}) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    file.replace(damaged);
    CHECK(has(why_not(file.name(), 50, 1), "the header does not describe this file"));
  }
  file.replace(good.substr(0, good.size() - 1));
  CHECK(has(why_not(file.name(), 50, 1), "the header does not describe this file"));
  file.replace("GPU");
  CHECK(has(why_not(file.name(), 50, 1), "too short"));
  file.replace(std::string(1000, 'x'));
  CHECK(has(why_not(file.name(), 50, 1), "not a file of samples"));
  CHECK(
      has(why_not("/nowhere/there.samples", 50, 1), "/nowhere/there.samples: cannot write: No su"));
}

TEST_CASE("a distortion moves pixels by about a pixel, and neighbours together") {
  // Of a picture whose grey is 9 times the column, the grey tells from where each pixel came.
  record ramp{};
  for (std::size_t i = 0; i < pixels; ++i) ramp[1 + i] = static_cast<std::uint8_t>(9 * (i % 28));
  std::array<float, pixels> out;
  double squares = 0;
  double steps = 0;
  double count = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    distort(ramp, seed, out);
    const auto moved = [&](std::size_t row, std::size_t column) {
      return 255 * static_cast<double>(out[row * 28 + column]) / 9 - static_cast<double>(column);
    };
    for (std::size_t row = 0; row < 28; ++row)
      for (std::size_t column = 6; column < 21; ++column) {
        squares += moved(row, column) * moved(row, column);
        steps += std::abs(moved(row, column + 1) - moved(row, column));
        ++count;
      }
  }
  // A sum of uniform numbers up to 12 by weights w of a Gaussian of 4 pixels spreads by
  // 12 / sqrt(3) * sum(w^2), which is 1 / (2 sqrt(pi) 4) along each of two axes: 0.49. Its tails
  // are cut off at 8 pixels, which makes a little more of it.
  CHECK(std::sqrt(squares / count) > 0.45);
  CHECK(std::sqrt(squares / count) < 0.60);
  CHECK(steps / count < 0.12);

  record grey{};
  grey.fill(100);
  distort(grey, 5, out);
  for (const float value : out) CHECK(value == doctest::Approx(100.0 / 255));
}

TEST_CASE("the gradients are those of finite differences") {
  const std::vector<std::int64_t> widths{6, 7, 5, 4};
  random_stream random(11);
  const std::vector<float> inputs = random_inputs(6 * 9, random);
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 9; ++i) labels.push_back(static_cast<std::uint8_t>(random.next() % 4));
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    thread_team team(threads);
    multilayer_perceptron network(widths, 9, team, 5);
    // Biases far above or below what the weights add to them: no difference crosses a ReLU's
    // corner.
    for (float& p : network.parameters()) p *= 0.2F;
    for (std::size_t i = 0; i < 7; ++i) network.parameters()[42 + i] = i % 2 == 0 ? 2.0F : -2.0F;
    for (std::size_t i = 0; i < 5; ++i) network.parameters()[84 + i] = i % 2 == 0 ? 2.0F : -2.0F;
    network.forward(inputs, labels);
    network.backward();
    REQUIRE(network.parameters().size() == 6 * 7 + 7 + 7 * 5 + 5 + 5 * 4 + 4);
    constexpr float by = 0x1p-8F;
    double largest = 0;
    for (std::size_t i = 0; i < network.parameters().size(); ++i) {
      CAPTURE(i);
      const float held = network.parameters()[i];
      network.parameters()[i] = held + by;
      const double above = static_cast<double>(network.forward(inputs, labels));
      network.parameters()[i] = held - by;
      const double below = static_cast<double>(network.forward(inputs, labels));
      network.parameters()[i] = held;
      const auto gradient = static_cast<double>(network.gradients()[i]);
      CHECK(gradient == doctest::Approx((above - below) / (2 * 0x1p-8)).epsilon(2e-4).scale(1));
      largest = std::max(largest, std::abs(gradient));
    }
    CHECK(largest > 0.1);
  }
}

TEST_CASE("an update is AdamW's, and biases do not decay") {
  const std::vector<std::int64_t> widths{3, 2};
  thread_team team(2);
  multilayer_perceptron network(widths, 1, team, 1);
  const std::size_t count = network.parameters().size();
  REQUIRE(count == 8);
  std::vector<double> expected(network.parameters().begin(), network.parameters().end());
  std::vector<double> m(count);
  std::vector<double> v(count);
  for (int step = 1; step <= 5; ++step) {
    for (std::size_t i = 0; i < count; ++i) {
      const double gradient = std::sin(static_cast<double>(i) + 3 * step);
      network.gradients()[i] = static_cast<float>(gradient);
      m[i] = 0.9 * m[i] + 0.1 * gradient;
      v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
      const double corrected = m[i] / (1 - std::pow(0.9, step));
      const double spread = std::sqrt(v[i] / (1 - std::pow(0.999, step)));
      expected[i] -= 0.02 * (corrected / (spread + 1e-8) + (i < 6 ? 0.1 * expected[i] : 0));
    }
    network.update({.learning_rate = 0.02F, .weight_decay = 0.1F});
    for (std::size_t i = 0; i < count; ++i)
      CHECK(static_cast<double>(network.parameters()[i]) ==
            doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("the network learns to read digits that it has not seen") {
  const written_data_set seen(512, 1);
  const written_data_set unseen(256, 2);
  const data_set samples(seen.name());
  const data_set others(unseen.name());
  const std::vector<std::int64_t> widths{pixels, 32, digits};
  std::vector<float> losses;
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    thread_team team(threads);
    multilayer_perceptron network(widths, 64, team, 1);
    loader from(samples, {.micro_batch = 64, .workers = threads - 1});
    float first = 0;
    float last = 0;
    for (int step = 0; step < 60; ++step) {
      const sample_batch batch = from.next();
      last = network.forward(batch.inputs, batch.labels);
      if (step == 0) first = last;
      network.backward();
      network.update({.learning_rate = 5e-3F});
    }
    CHECK(first == doctest::Approx(std::log(10.0)).epsilon(0.2));  // it can only guess
    CHECK(last < 0.8F);
    losses.push_back(last);
    loader exam(others, {.micro_batch = 64});
    double right = 0;
    for (int i = 0; i < 4; ++i) {
      const sample_batch batch = exam.next();
      network.forward(batch.inputs, batch.labels);
      right += network.accuracy() / 4;
    }
    CHECK(right > 0.7);
  }
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(0.05));
}

TEST_CASE("memory runs out at its limit, and comes back") {
  constexpr std::size_t page = 65'536;  // on the machines that have the largest
  counted_memory memory(64 * page);
  {
    std::pmr::vector<float> half(32 * page / sizeof(float), &memory);
    CHECK(memory.in_use() == 32 * page);
    CHECK_THROWS_AS((std::pmr::vector<char>(32 * page + 1, &memory)), std::bad_alloc);
    CHECK_NOTHROW((std::pmr::vector<char>(32 * page, &memory)));
    CHECK(memory.in_use() == 32 * page);
  }
  CHECK(memory.in_use() == 0);

  counted_memory endless;
  CHECK_THROWS_AS(static_cast<void>(endless.allocate(std::size_t{1} << 60)), std::bad_alloc);
  CHECK(endless.in_use() == 0);
}

TEST_CASE("a network and a loader that do not fit leave nothing behind") {
  const written_data_set file(64, 1);
  const data_set samples(file.name());
  const std::vector<std::int64_t> widths{pixels, 32, digits};
  thread_team team(2);
  counted_memory counted;
  std::size_t needed = 0;
  const auto make = [&](std::pmr::memory_resource* from, std::int64_t batch) {
    multilayer_perceptron network(widths, batch, team, 1, from);
    loader load(samples, {.micro_batch = batch, .workers = 2}, from);
    needed = counted.in_use();
  };
  make(&counted, 64);
  CHECK(counted.in_use() == 0);
  // Five times the parameters of both threads, and four batches of samples with what each needs.
  const std::size_t parameters = 785 * 32 + 33 * 10;
  const std::size_t numbers = 5 * parameters + 64 * (2 * 42 + 4 * pixels);
  CHECK(needed >= 4 * numbers);
  CHECK(needed < 4 * numbers + 14 * 65'536);
  counted_memory short_of_a_byte(needed - 1);
  CHECK_THROWS_AS(make(&short_of_a_byte, 64), std::bad_alloc);
  CHECK(short_of_a_byte.in_use() == 0);
  CHECK_NOTHROW(make(&short_of_a_byte, 32));
}

TEST_CASE("the peak of the resident set rises with what is used, and starts again") {
  constexpr std::size_t size = 64 << 20;
  const bool starts_again = restart_peak_resident_memory();
  const double before = resident_memory();
  counted_memory memory;
  void* const used = memory.allocate(size);
  std::memset(used, 1, size);
  memory.deallocate(used, size);
  const double peak = peak_resident_memory();
  CHECK(before > 0);
  CHECK(peak >= before + 0.9 * size);
  if (!starts_again) return;
  REQUIRE(restart_peak_resident_memory());
  CHECK(peak_resident_memory() < peak - 0.9 * size);
}

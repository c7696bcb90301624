// The threads beside a sweep's training: the loader's workers, and the team that computes. Built
// once more with ThreadSanitizer where the compiler has it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "sweep/data_set.hpp"
#include "sweep/digits.hpp"
#include "sweep/loader.hpp"
#include "sweep/thread_team.hpp"
#include "temporary_file.hpp"

using namespace sweep_examples;

namespace {

// A file of samples in a folder of its own.
class written_data_set {
 public:
  explicit written_data_set(std::int64_t samples) : place_("", "gpuplan-samples") {
    write_data_set(place_.name(), samples, 1);
  }

  [[nodiscard]] std::string name() const { return place_.name(); }

 private:
  temporary_file place_;
};

}  // namespace

TEST_CASE("a loader gives the same batches with any number of workers, each sample once an epoch") {
  const written_data_set file(96);
  const data_set samples(file.name());
  std::array<int, digits> in_file{};
  for (std::int64_t i = 0; i < samples.samples(); ++i) {
    record one;
    samples.read(i, one);
    ++in_file[one[0]];
  }
  loader alone(samples, {.micro_batch = 32, .workers = 0, .seed = 9});
  loader one(samples, {.micro_batch = 32, .workers = 1, .prefetch = 1, .seed = 9});
  loader three(samples, {.micro_batch = 32, .workers = 3, .seed = 9});
  std::array<int, digits> loaded{};
  std::vector<std::uint8_t> first;
  for (int batch = 0; batch < 9; ++batch) {
    const sample_batch expected = alone.next();
    REQUIRE(expected.inputs.size() == 32 * pixels);
    REQUIRE(expected.labels.size() == 32);
    for (const sample_batch& other : {one.next(), three.next()}) {
      CHECK(std::equal(expected.inputs.begin(), expected.inputs.end(), other.inputs.begin()));
      CHECK(std::equal(expected.labels.begin(), expected.labels.end(), other.labels.begin()));
    }
    for (const std::uint8_t label : expected.labels) ++loaded[label];
    if (batch == 0) first.assign(expected.labels.begin(), expected.labels.end());
    if (batch == 3) CHECK(!std::equal(first.begin(), first.end(), expected.labels.begin()));
    if (batch % 3 == 2) {
      CHECK(loaded == in_file);
      loaded = {};
    }
  }
}

TEST_CASE("ranks share out the samples of an epoch") {
  const written_data_set file(96);
  const data_set samples(file.name());
  loader all(samples, {.micro_batch = 48});
  loader even(samples, {.micro_batch = 24, .workers = 1, .rank = 0, .ranks = 2});
  loader odd(samples, {.micro_batch = 24, .rank = 1, .ranks = 2});
  for (int batch = 0; batch < 3; ++batch) {
    const sample_batch whole = all.next();
    const sample_batch parts[] = {even.next(), odd.next()};
    for (std::size_t i = 0; i < 48; ++i) {
      const sample_batch& part = parts[i % 2];
      CHECK(whole.labels[i] == part.labels[i / 2]);
      CHECK(whole.inputs[i * pixels + 400] == part.inputs[i / 2 * pixels + 400]);
    }
  }
}

TEST_CASE("what a loader cannot read reaches who asks for the batch") {
  for (const std::int64_t workers : {0, 2}) {
    CAPTURE(workers);
    const written_data_set file(64);
    const data_set samples(file.name());
    std::filesystem::resize_file(file.name(), 64 + 10 * 785);
    loader from(samples, {.micro_batch = 64, .workers = workers});
    CHECK_THROWS_WITH(static_cast<void>(from.next()), "cannot read: the file became shorter");
    CHECK_THROWS_WITH(static_cast<void>(from.next()), "cannot read: the file became shorter");
  }
}

TEST_CASE("a team does all shares and passes on what one throws") {
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    thread_team team(threads);
    std::vector<int> times(13);
    for (int round = 0; round < 50; ++round)
      team.run([&](int thread) {
        const share mine = share_of(13, thread, threads);
        for (std::int64_t i = mine.first; i < mine.last; ++i) ++times[static_cast<std::size_t>(i)];
      });
    for (const int each : times) CHECK(each == 50);
    const auto fail = [&](int thread) {
      if (thread == threads - 1) throw std::runtime_error("broken");
    };
    CHECK_THROWS_WITH(team.run(fail), "broken");
    CHECK_NOTHROW(team.run([](int) {}));
  }
}

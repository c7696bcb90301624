#pragma once

// Reads samples in random order, distorts them, and lays them out in batches, ahead of who uses
// them.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory_resource>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "sweep/data_set.hpp"

namespace sweep_examples {

struct loader_options {
  std::int64_t micro_batch = 32;
  std::int64_t workers = 0;   // threads; with none, `next` does the work itself
  std::int64_t prefetch = 2;  // batches that each worker holds: read, or being read or used
  std::uint64_t seed = 1;     // of the order and of the distortions
  std::int64_t rank = 0;      // of `ranks` that share out the samples
  std::int64_t ranks = 1;
};

/// Samples side by side: `pixels` numbers each, from 0 to 1, and the digit that each shows.
struct sample_batch {
  std::span<const float> inputs;
  std::span<const std::uint8_t> labels;
};

/// Distorts a picture elastically, as Simard, Steinkraus and Platt (2003, section 2) do: a random
/// displacement for each pixel, smoothed by a Gaussian of 4 pixels, so that neighbours move
/// together. Up to about 2 pixels; from 0 to 1 each.
void distort(const record& sample, std::uint64_t seed, std::span<float, pixels> into);

/// Batches without end: each epoch has every sample once, in an order of its own. What comes
/// depends on the seed and the rank, and not on the number of workers. One thread calls it.
class loader {
 public:
  /// Takes the memory of all its batches now, from `memory`; what that throws is passed on.
  /// Preconditions: `samples` outlives it; micro_batch, prefetch and ranks >= 1, workers >= 0,
  /// 0 <= rank < ranks.
  loader(const data_set& samples,
         const loader_options& options,
         std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  ~loader() { stop(); }
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  /// The next batch, which stays as it is until the next call. Waits for it where a worker is not
  /// done. Throws what reading it threw.
  [[nodiscard]] sample_batch next();

 private:
  struct slot {
    std::pmr::vector<float> inputs;
    std::pmr::vector<std::uint8_t> labels;
    bool is_full = false;
    std::exception_ptr error{};
  };

  const data_set& samples_;
  loader_options options_;
  std::vector<slot> slots_{};
  std::int64_t next_ = 0;   // the batch that `next` returns
  bool is_in_use_ = false;  // the one before it
  std::mutex guard_{};
  std::condition_variable filled_{};
  std::condition_variable emptied_{};
  bool stopped_ = false;
  std::vector<std::thread> workers_{};

  slot& slot_of(std::int64_t batch);
  void fill(std::int64_t batch, slot& into) const;
  void work(std::int64_t worker);
  void stop();
};

}  // namespace sweep_examples

#include "sweep/loader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory_resource>
#include <mutex>
#include <span>
#include <thread>

#include "sweep/random.hpp"

namespace sweep_examples {
namespace {

constexpr std::int64_t smooth = 4;  // the standard deviation of the Gaussian, in pixels
constexpr std::int64_t smooth_reach = 2 * smooth;
constexpr std::int64_t margin_side = image_side + 2 * smooth_reach;
constexpr double furthest = 12;  // before smoothing, which leaves about a tenth

using field = std::array<float, static_cast<std::size_t>(margin_side* margin_side)>;

std::array<float, 2 * smooth_reach + 1> gaussian() {
  std::array<float, 2 * smooth_reach + 1> weights{};
  double sum = 0;
  for (std::int64_t i = -smooth_reach; i <= smooth_reach; ++i)
    sum += std::exp(-0.5 * static_cast<double>(i * i) / (smooth * smooth));
  for (std::int64_t i = -smooth_reach; i <= smooth_reach; ++i)
    weights[static_cast<std::size_t>(i + smooth_reach)] =
        static_cast<float>(std::exp(-0.5 * static_cast<double>(i * i) / (smooth * smooth)) / sum);
  return weights;
}

// Smooths random displacements along both axes in turn. The first pass leaves its rows where they
// are; the second takes what the picture needs of them.
void displace(random_stream& random, std::span<float, pixels> into) {
  static const std::array<float, 2 * smooth_reach + 1> weights = gaussian();
  field noise;
  for (float& value : noise) value = static_cast<float>(random.between(-furthest, furthest));
  std::array<float, static_cast<std::size_t>(margin_side * image_side)> rows{};
  for (std::size_t row = 0; row < margin_side; ++row)
    for (std::size_t i = 0; i < weights.size(); ++i)
      for (std::size_t column = 0; column < image_side; ++column)
        rows[row * image_side + column] += weights[i] * noise[row * margin_side + column + i];
  std::fill(into.begin(), into.end(), 0.0F);
  for (std::size_t row = 0; row < image_side; ++row)
    for (std::size_t i = 0; i < weights.size(); ++i)
      for (std::size_t column = 0; column < image_side; ++column)
        into[row * image_side + column] += weights[i] * rows[(row + i) * image_side + column];
}

}  // namespace

void distort(const record& sample, std::uint64_t seed, std::span<float, pixels> into) {
  random_stream random(seed);
  std::array<float, pixels> right;
  std::array<float, pixels> down;
  displace(random, right);
  displace(random, down);
  constexpr float last = image_side - 1;
  for (std::size_t row = 0; row < image_side; ++row)
    for (std::size_t column = 0; column < image_side; ++column) {
      const std::size_t here = row * image_side + column;
      const float x = std::clamp(static_cast<float>(column) + right[here], 0.0F, last);
      const float y = std::clamp(static_cast<float>(row) + down[here], 0.0F, last);
      const auto left = std::min(static_cast<std::size_t>(x), std::size_t{image_side - 2});
      const auto top = std::min(static_cast<std::size_t>(y), std::size_t{image_side - 2});
      const float share_x = x - static_cast<float>(left);
      const float share_y = y - static_cast<float>(top);
      const std::uint8_t* corner = sample.data() + 1 + top * image_side + left;
      const auto between = [&](const std::uint8_t* at) {
        return static_cast<float>(at[0]) + share_x * static_cast<float>(at[1] - at[0]);
      };
      const float above = between(corner);
      into[here] = (above + share_y * (between(corner + image_side) - above)) / 255.0F;
    }
}

loader::loader(const data_set& samples,
               const loader_options& options,
               std::pmr::memory_resource* memory)
    : samples_(samples), options_(options) {
  const auto count = static_cast<std::size_t>(options.micro_batch);
  const std::int64_t held = std::max<std::int64_t>(options.workers * options.prefetch, 1);
  slots_.reserve(static_cast<std::size_t>(held));
  for (std::int64_t i = 0; i < held; ++i)
    slots_.push_back({.inputs = std::pmr::vector<float>(count * pixels, memory),
                      .labels = std::pmr::vector<std::uint8_t>(count, memory)});
  try {
    for (std::int64_t i = 0; i < options.workers; ++i)
      workers_.emplace_back([this, i] { work(i); });
  } catch (...) {
    stop();
    throw;
  }
}

// Batches of one slot are those of one worker, since there is a whole number of slots per worker.
loader::slot& loader::slot_of(std::int64_t batch) {
  return slots_[static_cast<std::size_t>(batch) % slots_.size()];
}

void loader::fill(std::int64_t batch, slot& into) const {
  record sample;
  for (std::int64_t i = 0; i < options_.micro_batch; ++i) {
    const std::int64_t position =
        (batch * options_.micro_batch + i) * options_.ranks + options_.rank;
    const std::int64_t epoch = position / samples_.samples();
    const std::int64_t index = shuffled(position % samples_.samples(),
                                        samples_.samples(),
                                        mixed(options_.seed) + static_cast<std::uint64_t>(epoch));
    samples_.read(index, sample);
    const auto place = static_cast<std::size_t>(i);
    into.labels[place] = sample[0];
    distort(sample,
            mixed(options_.seed) + static_cast<std::uint64_t>(position),
            std::span(into.inputs).subspan(place * pixels).first<pixels>());
  }
}

void loader::work(std::int64_t worker) {
  for (std::int64_t batch = worker;; batch += options_.workers) {
    slot& mine = slot_of(batch);
    {
      std::unique_lock lock(guard_);
      emptied_.wait(lock, [&] { return stopped_ || !mine.is_full; });
      if (stopped_) return;
    }
    std::exception_ptr error;
    try {
      fill(batch, mine);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(guard_);
      mine.error = error;
      mine.is_full = true;
    }
    filled_.notify_one();
  }
}

sample_batch loader::next() {
  slot& due = slot_of(next_);
  if (workers_.empty()) {
    fill(next_, due);
  } else {
    std::unique_lock lock(guard_);
    if (is_in_use_) slot_of(next_ - 1).is_full = false;
    is_in_use_ = false;
    emptied_.notify_all();
    filled_.wait(lock, [&] { return due.is_full; });
    if (due.error) std::rethrow_exception(due.error);
    is_in_use_ = true;
  }
  ++next_;
  return {.inputs = due.inputs, .labels = due.labels};
}

void loader::stop() {
  {
    const std::lock_guard lock(guard_);
    stopped_ = true;
  }
  emptied_.notify_all();
  for (std::thread& worker : workers_)
    if (worker.joinable()) worker.join();
}

}  // namespace sweep_examples

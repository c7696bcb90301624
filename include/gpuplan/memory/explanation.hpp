#pragma once

// Which tensors make the peak of a training step, and how their sizes come about. At run time.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/explanation/dimensions.hpp>
#include <gpuplan/replay/explanation/storages.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan {

/// Tensors of one name, kind, format and size that are there at the peak.
struct memory_piece {
  memory_part part = memory_part::working;
  std::string name;      // what they are: "up: output", "dropout mask"
  std::string kept_for;  // whose backward reads them; empty where none does
  bool in_layers = false;
  std::int64_t count = 0;          // layers * micro_batches * each,
  std::int64_t layers = 1;         // that have as many each,
  std::int64_t micro_batches = 1;  // and forwards likewise
  std::vector<dimension> sizes{};  // of each; empty where it is no tensor's
  std::int64_t element_bytes = 1;
  std::int64_t bytes_each = 0;

  [[nodiscard]] std::int64_t total() const { return count * bytes_each; }
};

/// The peak of a step: `pieces` add up to it, from the largest on.
struct memory_explanation {
  step_moment when = step_moment::forward;
  int layer = eager::none;  // in whose forward or backward it is
  memory_sum peak{};
  std::vector<memory_piece> pieces{};
};

/// "12 layers x 8 samples x 1024 tokens x 3072 intermediate x 2 B": its product is the total.
[[nodiscard]] inline std::string formula(const memory_piece& piece) {
  std::string text;
  const auto times = [&](std::int64_t factor, const std::string& unit) {
    if (factor == 1) return;
    text += (text.empty() ? "" : " x ") + std::to_string(factor) + (unit.empty() ? "" : " " + unit);
  };
  times(piece.layers, "layers");
  times(piece.micro_batches, "micro-batches");
  times(piece.count / (piece.layers * piece.micro_batches), "");
  for (const dimension& one : piece.sizes) times(one.size, one.name);
  return text + (text.empty() ? "" : " x ") + std::to_string(piece.element_bytes) + " B";
}

namespace eager {

/// Finds the allocation that makes the peak of what follows `start`.
class peak_finder final : public memory_events {
 public:
  explicit peak_finder(const transformer& model) : sums_(stacks_of(model)) {}

  int allocate(std::int64_t bytes, int stream) override {
    const int block = sums_.allocate(bytes, stream);
    ++allocations_;
    if (parts_ != nullptr && sums_.now() > peak_.total) {
      peak_ = memory_sum::by(sums_.now(), parts_);
      when_ = sums_.moment_now();
      layer_ = at_layer_;
      at_ = allocations_;
    }
    return block;
  }
  void release(int block) override { sums_.release(block); }
  void begin(moment now, int layer) override {
    sums_.begin(now, layer);
    at_layer_ = layer;
  }

  void start(const std::int64_t* parts) { parts_ = parts; }
  /// Which allocation it is, of all, from 1.
  [[nodiscard]] std::int64_t at() const { return at_; }
  [[nodiscard]] memory_explanation found() const {
    return {.when = when_, .layer = layer_, .peak = peak_};
  }

 private:
  summed_memory sums_;
  const std::int64_t* parts_ = nullptr;
  std::int64_t allocations_ = 0;
  std::int64_t at_ = 0;
  int at_layer_ = none;
  int layer_ = none;
  step_moment when_ = step_moment::forward;
  memory_sum peak_{};
};

}  // namespace eager

namespace detail {

// One piece for storages that differ in nothing but their layer and micro-batch.
inline std::vector<memory_piece> pieces_of(const std::vector<eager::live_storage>& storages) {
  struct group {
    memory_piece piece;
    std::vector<int> layers{};
    std::vector<int> forwards{};
  };
  const auto note = [](std::vector<int>& seen, int number) {
    if (std::find(seen.begin(), seen.end(), number) == seen.end()) seen.push_back(number);
  };
  std::vector<group> groups;
  for (const eager::live_storage& storage : storages) {
    const auto part = static_cast<memory_part>(storage.what);
    const std::string name =
        storage.name.empty() ? std::string(text(part)) + " in one piece" : storage.name;
    const auto is_like = [&](const group& other) {
      const memory_piece& piece = other.piece;
      return piece.bytes_each == storage.bytes && piece.part == part && piece.name == name &&
             piece.kept_for == storage.kept_for &&
             piece.in_layers == (storage.layer != eager::none) &&
             piece.element_bytes == storage.element_bytes && piece.sizes == storage.sizes;
    };
    auto at = std::find_if(groups.begin(), groups.end(), is_like);
    if (at == groups.end()) {
      groups.push_back({.piece = {.part = part,
                                  .name = name,
                                  .kept_for = storage.kept_for,
                                  .in_layers = storage.layer != eager::none,
                                  .sizes = storage.sizes,
                                  .element_bytes = storage.element_bytes,
                                  .bytes_each = storage.bytes}});
      at = groups.end() - 1;
    }
    ++at->piece.count;
    note(at->layers, storage.layer);
    note(at->forwards, storage.forward);
  }
  std::vector<memory_piece> pieces;
  for (group& found : groups) {
    memory_piece& piece = found.piece;
    const auto layers = static_cast<std::int64_t>(found.layers.size());
    const auto forwards = static_cast<std::int64_t>(found.forwards.size());
    if (piece.in_layers && piece.count % layers == 0) piece.layers = layers;
    if (piece.count % (piece.layers * forwards) == 0) piece.micro_batches = forwards;
    pieces.push_back(std::move(piece));
  }
  std::sort(pieces.begin(), pieces.end(), [](const memory_piece& a, const memory_piece& b) {
    if (a.total() != b.total()) return a.total() > b.total();
    return a.name != b.name ? a.name < b.name : a.kept_for < b.kept_for;
  });
  return pieces;
}

}  // namespace detail

/// The peak of a step, tensor by tensor, from two replays of all layers: what `peaks_of` and the
/// requested peak of `replay` count. Errors: those of `transformer_memory` of the setup, and of it
/// with the plan; `out_of_bounds` of the device, and of more than 2^20 passes through a layer.
[[nodiscard]] inline result<memory_explanation> explain(const training_setup& setup,
                                                        const batch_plan& plan,
                                                        const eager::device_traits& device = {}) {
  if (const failure why = detail::flaw_of_replay(setup, plan, device); detail::failed(why))
    return why;
  eager::peak_finder finder(setup.model);
  eager::train(finder, setup, plan, device, nullptr, [&](eager::training_job& job) {
    job.settle();
    finder.start(job.alive());
    job.step();
  });
  memory_explanation found = finder.found();
  eager::storages_at watched(finder.at(), setup, plan);
  eager::train(watched, setup, plan, device, &watched, [&](eager::training_job& job) {
    job.settle();
    job.step();
    found.pieces = detail::pieces_of(watched.found());
  });
  return found;
}

}  // namespace gpuplan

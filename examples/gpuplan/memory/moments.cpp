#include "memory/moments.hpp"

#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/timeline.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/description.hpp"

namespace memory_timeline {
namespace {

using gpuplan::step_moment;

struct stack {
  std::string name;  // "vision tower, ", or nothing
  std::int64_t layers = 0;
  std::int64_t group = 1;  // so many are one line
};
std::vector<stack> stacks_of(const gpuplan::training_setup& setup) {
  const auto grouped = [](const std::string& name, std::int64_t layers, std::int64_t most) {
    return stack{name, layers, std::max<std::int64_t>(1, (layers + most - 1) / most)};
  };
  if (setup.composite == nullptr) return {grouped("", setup.model.layers(), 8)};
  const gpuplan::composite_model& model = *setup.composite;
  std::vector<stack> parts;
  for (int at = 0; at < model.size(); ++at)
    parts.push_back(
        grouped(describe_model::name_of_part(model, at) + ", ", model.parts[at].model.layers(), 4));
  return parts;
}

std::string range_of(const stack& of, std::int64_t layer) {
  const std::int64_t first = std::max<std::int64_t>(layer, 0) / of.group * of.group;
  const std::int64_t last = std::min(first + of.group, of.layers) - 1;
  if (first >= last) return of.name + "layer " + std::to_string(first);
  return of.name + "layers " + std::to_string(first) + " to " + std::to_string(last);
}

// Whose layers a step is in. Each part numbers its own from 0: forward they come in the order of
// parts, backward in that of the last one first.
class place {
 public:
  explicit place(int parts) : parts_(parts) {}

  [[nodiscard]] int part() const { return part_; }
  [[nodiscard]] int layer() const { return layer_; }  // -1: the step is before the first one

  void begin_forward() {
    part_ = 0;
    layer_ = -1;
  }
  void begin_backward() {
    part_ = parts_ - 1;
    layer_ = -1;
  }
  void go_forward(int layer) {
    if (layer < layer_ && part_ + 1 < parts_) ++part_;
    layer_ = layer;
  }
  void go_backward(int layer) {
    if (layer_ >= 0 && layer > layer_ && part_ > 0) --part_;
    layer_ = layer;
  }

 private:
  int parts_;
  int part_ = 0;
  int layer_ = -1;
};

}  // namespace

std::vector<line> lines_of(const std::vector<gpuplan::memory_point>& points,
                           const gpuplan::training_setup& setup) {
  const std::vector<stack> stacks = stacks_of(setup);
  place now(static_cast<int>(stacks.size()));
  bool is_forward = false;
  bool is_backward = false;
  std::vector<line> lines;
  for (const gpuplan::memory_point& point : points) {
    std::string name = text(point.when);
    const auto in_layers = [&] {
      return range_of(stacks[static_cast<std::size_t>(now.part())], now.layer());
    };
    if (point.when == step_moment::forward) {
      if (!is_forward) now.begin_forward();
      if (point.layer >= 0) now.go_forward(point.layer);
      name = "forward, " + (now.layer() < 0 ? "before the layers" : in_layers());
      is_backward = false;
    } else if (point.when == step_moment::last_layer || point.when == step_moment::middle_layer ||
               point.when == step_moment::first_layer) {
      if (!is_backward) now.begin_backward();
      if (point.layer >= 0) now.go_backward(point.layer);
      name = "backward, " + in_layers();
      is_backward = true;
    }
    is_forward = point.when == step_moment::forward;
    auto at =
        std::find_if(lines.begin(), lines.end(), [&](const line& one) { return one.name == name; });
    if (at == lines.end()) at = lines.insert(lines.end(), line{.name = name});
    if (point.in_use.total > at->most.total) at->most = point.in_use;
  }
  return lines;
}

}  // namespace memory_timeline

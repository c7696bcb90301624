#pragma once

// The storages that are there at one allocation of a replay, and what they are. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/explanation/dimensions.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan::eager {

/// A storage that has memory.
struct live_storage {
  purpose what = purpose::working;
  std::string name{};  // empty where nothing is known
  std::string kept_for{};
  int layer = none;
  int forward = 0;  // counted
  std::int64_t bytes = 0;
  std::int64_t element_bytes = 1;
  std::vector<dimension> sizes{};
};

/// Takes down what is there when a replay has made as many allocations.
class storages_at final : public memory_events, public storage_watcher {
 public:
  storages_at(std::int64_t allocation, const training_setup& setup, const batch_plan& plan)
      : at_(allocation),
        names_(setup, plan),
        recomputes_(setup.recompute != recompute_mode::none),
        classifies_(setup.model.head == head_kind::classifier),
        encodings_(static_cast<int>(setup.encodings)) {}

  int allocate(std::int64_t /*bytes*/, int /*stream*/) override {
    ++allocations_;
    return 0;
  }
  void release(int /*block*/) override {}
  void begin(moment now, int layer) override {
    if (now != moment::forward || layer == eager::none) return;
    const auto at = static_cast<std::size_t>(layer);
    if (at >= forwards_.size()) forwards_.resize(at + 1);
    ++forwards_[at];
  }

  void made(const tape& on, int storage, const origin& from) override {
    entry made;
    made.what = from.what;
    made.parameter = from.parameter;
    made.layer = on.layer();
    if (on.layer() == none || on.charges() == purpose::weights) made.layer = on.layer_of(on.unit());
    if (made.layer != none && static_cast<std::size_t>(made.layer) < forwards_.size())
      made.forward = (forwards_[static_cast<std::size_t>(made.layer)] - 1) / encodings_;
    if (made.what.empty() && on.running() != none && on.charges() == purpose::working) {
      made.running = true;
      made.through = on.nodes[on.running()].kind;
      made.parameter = on.nodes[on.running()].parameter;
    }
    take_size(made, on, storage, from);
    const entry* like =
        from.like != nullptr && from.like->storage != none ? &of(from.like->storage) : nullptr;
    if (like != nullptr && made.size.rank > 0 && last_size(made) == last_size(*like))
      made.last = last_of(on, *like);
    if (like != nullptr && !made.running) take_after(made, *like, on);
    if (made.last == width::unknown) made.last = last_of(on, made);
    of(storage) = made;
    look(on, none, 0);
  }
  void took_memory(const tape& on, int storage, std::int64_t beside) override {
    look(on, storage, beside);
  }
  void named(int storage, const origin& as) override {
    entry& there = of(storage);
    there.what = as.what;
    there.parameter = as.parameter;
    there.running = false;
    if (as.described == nullptr) return;
    there.size = as.described->size;
    there.element_bytes = bytes_of(as.described->format);
    there.last = width::unknown;
  }
  void placed(int last, int now) override {
    for (entry& one : entries_) {
      if (one.parameter == last)
        one.parameter = now;
      else if (one.parameter >= now)
        ++one.parameter;
    }
  }

  [[nodiscard]] const std::vector<live_storage>& found() const { return found_; }

 private:
  struct entry {
    std::string what{};
    int parameter = none;
    bool running = false;                // made by a node's backward
    const node_kind* through = nullptr;  // that
    int layer = none;
    int forward = 0;
    sizes size{};
    std::int64_t element_bytes = 1;
    width last = width::unknown;
  };

  entry& of(int storage) {
    const auto at = static_cast<std::size_t>(storage);
    if (at >= entries_.size()) entries_.resize(at + 1);
    return entries_[at];
  }
  [[nodiscard]] static std::int64_t last_size(const entry& one) {
    return one.size.rank == 0 ? 1 : one.size[one.size.rank - 1];
  }

  // A tensor's own; else those of the parameter that it is as large as.
  static void take_size(entry& made, const tape& on, int storage, const origin& from) {
    const std::int64_t bytes = on.storages[storage].bytes;
    if (from.described != nullptr) {
      made.size = from.described->size;
      made.element_bytes = bytes_of(from.described->format);
      if (from.parameter == none || made.size.rank != 1) return;
      const sizes& whole = on.parameters[from.parameter].data.size;
      if (whole.count() == made.size.count()) made.size = whole;
    } else if (from.parameter != none) {
      made.size = on.parameters[from.parameter].data.size;
      const std::int64_t count = made.size.count();
      if (count > 0 && bytes % count == 0)
        made.element_bytes = bytes / count;
      else
        made.size = {};
    }
  }

  // A cast's name, and a copy's.
  void take_after(entry& made, const entry& like, const tape& on) const {
    const bool is_weight = like.what == "weight" && like.size == made.size;
    if (is_weight && made.parameter == none) made.parameter = like.parameter;
    if (made.what.empty())
      made.what = like.what;
    else if (made.what == "cast")
      made.what = is_weight ? "weight, cast" : "cast of " + name_of(on, like);
  }

  [[nodiscard]] static std::string module_of(const tape& on, const entry& one) {
    return one.parameter == none ? "" : on.parameters[one.parameter].name;
  }
  [[nodiscard]] module_widths widths_in(const tape& on, const entry& one) const {
    const std::string module = module_of(on, one);
    module_widths found = widths_of(module);
    if (module == "head") found = {width::hidden, classifies_ ? width::classes : width::vocabulary};
    return found;
  }
  // What its rows are as wide as.
  [[nodiscard]] width last_of(const tape& on, const entry& one) const {
    if (one.last != width::unknown || one.size.count() <= small) return one.last;
    const module_widths by = widths_in(on, one);
    if (is_of_matrix(on, one)) return by.in;
    if (one.what == "output" && by.out != width::unknown) return by.out;
    if (one.size.rank == 1 && names_.fits(one.size[0], by.out)) return by.out;
    if (ends_in_tokens(one))
      return names_.which(last_size(one), {width::tokens, width::target_tokens});
    if (by.in == by.out && names_.fits(last_size(one), by.in)) return by.in;
    if (by.in != width::unknown) {
      const width found = names_.which(last_size(one), {by.in, by.out});
      if (found != width::unknown) return found;
    }
    return names_.which(last_size(one), named_dimensions::all());
  }
  [[nodiscard]] static bool ends_in_tokens(const entry& one) {
    for (const char* what : {"token ids",
                             "labels",
                             "padding",
                             "log-sums of scores",
                             "softmax",
                             "masked scores",
                             "hidden scores",
                             "mask"})
      if (one.what == what) return true;
    return false;
  }
  // Whether it has the sizes of a matrix that is a parameter, or of a rank's part of one.
  [[nodiscard]] static bool is_of_matrix(const tape& on, const entry& one) {
    if (one.parameter == none || one.size.rank != 2 || one.what == "output") return false;
    const parameter_record& by = on.parameters[one.parameter];
    const auto is_like = [&](const tensor& other) {
      return other.size.rank == 2 && one.size.count() == other.count() &&
             (one.size[0] == other.size[0] || one.size[0] == other.size[1]);
    };
    return is_like(by.data) || is_like(by.whole);
  }
  [[nodiscard]] static bool is_of_parameter(purpose what) {
    return what == purpose::weights || what == purpose::gradients ||
           what == purpose::optimizer_states;
  }

  [[nodiscard]] std::string name_of(const tape& on, const entry& one) const {
    std::string module = module_of(on, one);
    std::replace(module.begin(), module.end(), '_', ' ');
    std::string what = one.what;
    if (one.running) {
      if (module.empty()) module = one.through->name;
      what = one.parameter != none && is_of_matrix(on, one) ? "gradient" : "gradient of input";
    }
    if (what == "output" && (module == "head" || module == "token table")) return "logits";
    if (what == "weight" && one.size.rank == 1 && module != "norm" && !module.empty())
      what = "bias";
    if (module.empty()) return what;
    return module + (what.empty() ? "" : ": " + what);
  }

  // The first node that keeps each storage.
  [[nodiscard]] std::vector<int> keepers(const tape& on) const {
    std::vector<int> by(static_cast<std::size_t>(on.storages.size()), none);
    for (int at = on.nodes.size() - 1; at >= 0; --at) {
      const node& one = on.nodes[at];
      const int end = std::min(one.first_kept + one.kept, on.kept.size());
      for (int which = one.first_kept; which < end; ++which)
        if (on.kept[which].storage != none)
          by[static_cast<std::size_t>(on.kept[which].storage)] = at;
    }
    return by;
  }

  void look(const tape& on, int storage, std::int64_t beside) {
    if (allocations_ != at_ || !found_.empty()) return;
    const std::vector<int> kept_by = keepers(on);
    for (int at = 0; at < on.storages.size(); ++at) {
      const storage_record& record = on.storages[at];
      if (record.holders <= 0 || record.block == none) continue;
      live_storage live = described(on, of(at), record);
      const int keeper = kept_by[static_cast<std::size_t>(at)];
      if (record.what == purpose::kept) live.kept_for = reader(on, keeper, of(at));
      found_.push_back(live);
    }
    if (beside != 0) {
      live_storage live;
      live.what = on.storages[storage].what;
      live.name = "part of " + name_of(on, of(storage));
      live.bytes = beside;
      live.element_bytes = beside;
      found_.push_back(live);
    }
  }
  [[nodiscard]] live_storage described(const tape& on,
                                       const entry& one,
                                       const storage_record& record) const {
    live_storage live;
    live.what = record.what;
    live.name = name_of(on, one);
    live.layer = one.layer;
    live.forward = one.forward;
    live.bytes = record.bytes;
    if (is_of_parameter(record.what) && one.parameter != none) {
      live.layer = on.layer_of(on.parameters[one.parameter].unit);
      live.forward = 0;
    }
    live.element_bytes = record.bytes;
    if (one.size.count() * one.element_bytes != record.bytes) return live;
    live.element_bytes = one.element_bytes;
    if (one.size.count() <= small) {
      live.sizes = {{one.size.count(), ""}};
    } else if (is_of_matrix(on, one)) {
      // (out, in), or the other way round
      const module_widths by = widths_in(on, one);
      const bool is_upright = names_.fits(one.size[0], by.out) && names_.fits(one.size[1], by.in);
      live.sizes = is_upright ? names_.factors(one.size, by.in, by.out, true)
                              : names_.factors(one.size, by.out, by.in, true);
    } else {
      live.sizes = names_.factors(one.size, last_of(on, one), width::unknown, false);
    }
    return live;
  }
  [[nodiscard]] std::string reader(const tape& on, int keeper, const entry& one) const {
    if (keeper == none) return recomputes_ ? "recomputation" : "";
    const node& by = on.nodes[keeper];
    if (by.kind == &node_kind::keeps_one) {
      if (one.what == "dropout mask") return "dropout";
      if (one.what == "output" || one.what == "activation") return "activation";
    }
    const std::string module = by.parameter == none ? "" : on.parameters[by.parameter].name;
    if (module.empty()) return by.kind->name;
    std::string name = module;
    std::replace(name.begin(), name.end(), '_', ' ');
    return name;
  }

  static constexpr std::int64_t small = 8;  // elements: numbers, and no rows

  std::int64_t at_;
  named_dimensions names_;
  bool recomputes_;
  bool classifies_;
  int encodings_;
  std::int64_t allocations_ = 0;
  std::vector<entry> entries_{};
  std::vector<int> forwards_{};
  std::vector<live_storage> found_{};
};

}  // namespace gpuplan::eager

#pragma once

// What eager mode asks a device's memory for, and who may want to know what it is. Private.

#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// What a step is doing.
enum class moment : unsigned char { construct, forward, loss, backward, clip, optimizer };

/// What an allocation is for.
enum class purpose : unsigned char {
  weights,
  gradients,
  optimizer_states,
  buffers,  // of the model, the batch, and of communication
  kept,     // for backward
  working,  // dies with its operator or its function
  workspace
};
inline constexpr int purposes = static_cast<int>(purpose::workspace) + 1;

/// The most that a stretch of a step had in use beyond what was in use before, at each place in the
/// step that it came by, and the last such place.
struct stretch_peaks {
  static constexpr int most_places = 13;

  bool came_by[most_places]{};
  std::int64_t beyond[most_places][purposes]{};
  int last_place = 0;
};

/// What a device's memory is asked for. Blocks are named by what `allocate` returned.
class memory_events {
 public:
  constexpr virtual int allocate(std::int64_t bytes, int stream) = 0;
  constexpr virtual void release(int block) = 0;
  /// What is free in whole segments goes back to the device.
  constexpr virtual void empty_cache() {}
  /// From here on the step is at this moment, in this layer or in none.
  constexpr virtual void begin(moment /*now*/, int /*layer*/) {}
  /// Whether sums are all that is wanted. Then a stretch that does as one before need not be
  /// replayed: its peaks are told, and what it leaves behind is asked for.
  [[nodiscard]] constexpr virtual bool adds_up() const { return false; }
  constexpr virtual void begin_stretch() {}
  constexpr virtual stretch_peaks end_stretch() { return {}; }
  constexpr virtual void repeat(const stretch_peaks& /*as_before*/) {}

 protected:
  constexpr ~memory_events() = default;
};

/// What of a device decides how much its kernels ask for.
struct device_traits {
  std::int64_t multiprocessors = 132;
  std::int64_t threads_per_multiprocessor = 2048;
  std::int64_t matrix_workspace = 32 * 1'048'576;  // of a matrix product
  std::int64_t bias_workspace = 1'048'576;         // of one with a bias
};

/// What of the software likewise.
struct software_traits {
  bool keeps_workspaces = false;  // of matrix products, from the first of each thread on
  bool random_states_on_host = false;
};

/// What a storage is, for people.
struct origin {
  const char* what = "";              // "dropout mask"; empty: what the moment and the node say
  int parameter = none;               // whose it is, or that was read to make it
  const tensor* like = nullptr;       // an operand of its shape
  const tensor* described = nullptr;  // itself
};

class tape;

/// Is told what storages are, as they come.
class storage_watcher {
 public:
  virtual void made(const tape& on, int storage, const origin& from) = 0;
  /// A storage that was there has memory again, or has more of it for a moment.
  virtual void took_memory(const tape& on, int storage, std::int64_t beside) = 0;
  /// It turned out to be this.
  virtual void named(int storage, const origin& as) = 0;
  /// The last parameter is now this one, and those behind it are one further.
  virtual void placed(int last, int now) = 0;

 protected:
  ~storage_watcher() = default;
};

}  // namespace gpuplan::eager

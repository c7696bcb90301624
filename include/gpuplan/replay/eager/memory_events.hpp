#pragma once

// What eager mode asks of a device, memory and work, and who may want to know what that is.
// Private.

#include <gpuplan/communication.hpp>
#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// What a step is doing.
enum class moment : unsigned char {
  construct,
  forward,
  loss,
  backward,
  widen,  // gradients, for weights that the optimizer has in fp32
  clip,
  optimizer
};
/// Whether gradients are there, and weights are updated by them.
[[nodiscard]] constexpr bool is_update(moment now) {
  return now == moment::widen || now == moment::clip || now == moment::optimizer;
}

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
  static constexpr int most_places = 15;

  bool came_by[most_places]{};
  std::int64_t beyond[most_places][purposes]{};
  int last_place = 0;
};

/// One call of a library of products: `batch` matrices, rows x inner by inner x columns.
struct matrix_product {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  std::int64_t batch = 1;

  /// 2 for each multiplication with its addition.
  [[nodiscard]] constexpr double flops() const {
    return 2 * static_cast<double>(rows) * static_cast<double>(inner) *
           static_cast<double>(columns) * static_cast<double>(batch);
  }
};

/// What the kernels of an operator do, as far as they differ in what they reach of a device or are
/// told apart in a trace.
enum class kernel_kind : unsigned char {
  elements,   // read and write what they are handed
  functions,  // likewise, of activations
  softmaxes,  // of rows, and losses
  norms,
  rms_norms,
  sums
};

/// The streams of DDP and FSDP2 on the device.
namespace streams {
inline constexpr int operators = 0;
inline constexpr int weights = 1;    // gathers of what ranks share, or broadcasts
inline constexpr int gradients = 2;  // their reductions
inline constexpr int replicas = 3;   // sums of what groups have reduced
inline constexpr int parts = 4;      // of weights, cast before they are gathered
inline constexpr int count = 5;
}  // namespace streams

/// What an operator of ATen asks the device to do.
struct device_work {
  int kernels = 1;   // launched, without matrix products
  int products = 0;  // calls of cuBLAS
  int fills = 0;     // cudaMemset
  int copies = 0;    // cudaMemcpy
  kernel_kind kind = kernel_kind::elements;
  matrix_product product{};    // each of its products; of attention the scores', of all pairs,
  std::int64_t unfolds = 0;    // inputs of a patch, which a kernel lays in rows before each,
  element operands{};          // and what it writes last
  element input{};             // what it is handed first
  double attention_flops = 0;  // of all pairs of a query and a key, in a kernel of attention,
  bool is_flash = false;       // and whether that is FlashAttention's
  bool is_strided = false;     // its elements do not lie in the same order in all operands
  bool is_again = false;       // what a forward has done before
  int stream = streams::operators;
  bool is_shared = false;      // stands for a collective, where one device has all parts
  std::int64_t in_place = 0;   // of the bytes, those that are read and written
  std::int64_t bytes = 0;      // of its arguments and results, of DTensors the whole ones;
  std::int64_t elsewhere = 0;  // of these, in the parts of other ranks

  /// Of a copy that needs no kernel.
  [[nodiscard]] static constexpr device_work copy() { return {.kernels = 0, .copies = 1}; }
};

/// What ranks that share a model exchange, beside the operators.
struct shared_work {
  collective what{};
  std::int64_t bytes = 0;   // as `collective_time` counts a message
  std::int64_t ranks = 1;   // of the group
  std::int64_t stride = 1;  // from one of them to the next
  int stream = streams::operators;
  // Begins behind what that stream was asked for before; none: as it is issued.
  int follows = streams::operators;
};

/// What a device's memory is asked for, and what it is to do. Blocks are named by what `allocate`
/// returned.
class memory_events {
 public:
  constexpr virtual int allocate(std::int64_t bytes, int stream) = 0;
  constexpr virtual void release(int block) = 0;
  /// What is free in whole segments goes back to the device.
  constexpr virtual void empty_cache() {}
  /// From here on the step is at this moment, in this layer or in none.
  constexpr virtual void begin(moment /*now*/, int /*layer*/) {}
  /// The next micro-batch begins. Engines that run a step by themselves do not say so.
  constexpr virtual void begin_micro_batch() {}
  /// Whether it wants to know what operators do, which costs constant evaluations many steps.
  [[nodiscard]] constexpr virtual bool counts_work() const { return false; }
  /// An operator runs, of the forward or, in a backward, of that.
  constexpr virtual void execute(const device_work& /*work*/, bool /*in_backward*/) {}
  /// Ranks exchange something,
  constexpr virtual void communicate(const shared_work& /*work*/, bool /*in_backward*/) {}
  /// operators wait for all of that stream,
  constexpr virtual void await_stream(int /*stream*/) {}
  /// or what follows on that stream waits for the operators so far, or for those before the last
  /// such moment.
  constexpr virtual void hold_stream(int /*stream*/, bool /*one_behind*/) {}
  /// What a checkpoint left out is computed again from here on.
  constexpr virtual void begin_again() {}
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

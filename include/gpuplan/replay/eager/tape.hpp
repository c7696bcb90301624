#pragma once

// Eager mode's bookkeeping: who holds which storage, the graph that backward follows, and what of
// it is kept. Private.
//
// The rules are PyTorch's. An operator keeps what its backward needs, for inputs that need a
// gradient. Backward runs the nodes by falling creation number; in a node results are allocated,
// then summed over broadcast dimensions and cast to the input's format, then the incoming gradient
// dies, then what was kept. A second gradient of a value is added into the first where nothing else
// holds that, else into a new tensor; of a parameter, the first is taken over and later ones are
// added into it.

#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gpuplan::eager {

enum class node_kind : unsigned char {
  accumulate,
  pass,       // the gradient itself, for every input
  scale,      // by numbers: one new tensor
  keeps_one,  // one new tensor, from the gradient and what was kept
  cast,
  view,
  unit,  // the gradients themselves, once the unit's backward is done
  transpose,
  expand,
  split,
  slice,
  pad,
  concatenate,
  product,
  power,
  mean,
  reciprocal_root,
  sum,
  quotient,
  clamp,
  vector_norm,
  convolution,
  mask_fill,
  mm,
  addmm,
  bmm,
  layer_norm,
  rms_norm,
  softmax,
  embedding,
  flash,
  efficient,
  log_softmax,
  nll,
  mean_square,
  function  // with a backward of its own (torch.autograd.Function)
};

class value;
class own_backward;
struct gradients;

struct edge {
  int node = none;
  int output = 0;
};

inline constexpr int most_inputs = 4;
inline constexpr int most_outputs = 3;

struct node {
  // Elements are spelled out: of `{}` g++ 12 makes one constant, which evaluations while compiling
  // change for those at run time.
  node_kind kind{};
  int inputs = 0;
  int outputs = 1;
  int first_kept = 0;
  int kept = 0;
  int region = none;  // of recomputation
  int pending = 0;
  int parameter = none;  // of an accumulate node; of others, that they read
  int layer = none;
  int unit = none;                // whose backward begins here
  bool takes_any_format = false;  // of gradients
  bool distributed = false;       // its results are parts of tensors
  edge input[most_inputs]{edge{}, edge{}, edge{}, edge{}};
  tensor gradient[most_outputs]{tensor{}, tensor{}, tensor{}};  // as far as it has arrived
  sizes size[most_outputs]{sizes{}, sizes{}, sizes{}};          // of the results,
  element format[most_outputs]{};                               // likewise
  std::int64_t argument[6]{};
  const own_backward* own = nullptr;  // of a function
};

/// Holds a tensor's storage. (Where one of two values is chosen, write `if`: of `?:` g++ 12 makes
/// something else while compiling.)
class value {
 public:
  constexpr value() = default;
  constexpr value(tape& owner, const tensor& of) : tensor_(of), owner_(&owner) {}  // takes over
  constexpr value(value&& other) noexcept : tensor_(other.tensor_), owner_(other.owner_) {
    other.owner_ = nullptr;
    other.tensor_.storage = none;
  }
  constexpr value& operator=(value&& other) noexcept {
    if (this == &other) return *this;
    drop();
    tensor_ = other.tensor_;
    owner_ = other.owner_;
    other.owner_ = nullptr;
    other.tensor_.storage = none;
    return *this;
  }
  constexpr ~value() { drop(); }

  constexpr const tensor& operator*() const& { return tensor_; }
  constexpr const tensor* operator->() const { return &tensor_; }
  constexpr tensor& get() { return tensor_; }
  constexpr operator const tensor&() const& { return tensor_; }  // NOLINT
  // What reads a temporary takes it as an `argument`.
  operator const tensor&() const&& = delete;  // NOLINT
  constexpr void drop();
  /// Gives the hold away.
  constexpr tensor take() {
    const tensor taken = tensor_;
    owner_ = nullptr;
    tensor_.storage = none;
    tensor_.node = none;
    return taken;
  }

 private:
  tensor tensor_{};
  tape* owner_ = nullptr;
};

/// What an operator reads: a tensor that somebody holds, or a temporary, `scale(t, add(t, x, y))`,
/// which goes when the operator is done, as Python lets go of what only the call held. (What C++
/// alone does, is to keep it until the whole expression is.) Who hands an argument on has it no
/// more. C++ does not say which argument of a call it evaluates first: of two one at most may be a
/// call, and operators of two tensors do not take more.
class argument {
 public:
  constexpr argument(const tensor& of) : tensor_(of) {}              // NOLINT
  constexpr argument(const value& of) : tensor_(*of) {}              // NOLINT
  constexpr argument(value&& of) : tensor_(*of), temporary_(&of) {}  // NOLINT

 private:
  friend class held;
  const tensor& tensor_;
  value* temporary_ = nullptr;
};
/// An argument, while its reader runs: the reader's first local variable.
class held : public tensor {
 public:
  constexpr explicit held(const argument& given)
      : tensor(given.tensor_), temporary_(given.temporary_) {}
  held(const held&) = delete;
  held& operator=(const held&) = delete;
  constexpr ~held() {
    if (temporary_ != nullptr) temporary_->drop();
  }

 private:
  value* temporary_;
};

struct storage_record {
  std::int64_t bytes = 0;
  int block = none;
  int holders = 0;
  purpose what = purpose::working;
};

/// A trained or frozen parameter, as the optimizer has it.
struct parameter_record {
  tensor data{};
  tensor gradient{};
  tensor whole{};                        // what operators read, where `data` is a rank's part,
  tensor whole_gradient{};               // and its gradient
  bool is_moved = false;                 // to the device, and cast
  bool is_distributed = false;           // a DTensor,
  sizes gradient_size{};                 // of a gradient that is larger than the part,
  std::int64_t redistributed_bytes = 0;  // what an operator takes to read a gradient as a part
  bool sums_whole_gradient = false;      // over ranks, before its parts are reduced,
  bool casts_whole_gradient = false;     // and that in the format of the parts
  int node = none;                       // in the present graph
  bool trains = true;
  bool is_idle = false;   // trains, but no loss reads it: it has no gradient, and no states
  int unit = none;        // of sharding: the layer it belongs to, or none
  tensor cast{};          // under autocast
  tensor recast{};        // likewise, of a recomputation
  const char* name = "";  // of the module, for people
};

/// Recomputes what was not kept.
class recomputer {
 public:
  constexpr virtual void recompute(int region) = 0;
  /// Nothing of the region is needed any more.
  constexpr virtual void region_is_done(int region) = 0;
  /// The gradient of a parameter has arrived.
  constexpr virtual void gradient_is_there(int parameter) = 0;
  /// The backward of a unit's result begins; the gradients of its inputs have arrived.
  constexpr virtual void before_backward(int /*unit*/) {}
  constexpr virtual void after_backward(int /*unit*/) {}
  constexpr virtual void backward_is_done() {}

 protected:
  constexpr ~recomputer() = default;
};

/// How parameters are put together before they are read, where ranks hold parts of them.
struct gathered_parameters {
  bool is_on = true;
  std::int64_t ranks = 1;                // each holds a part along the first dimension
  element whole_format = element::fp32;  // of one that is put together,
  element first_gradients{};             // and of its gradient, where that is the first;
  bool takes_any_gradient = false;       // or that stays in the format in which it arrives
  bool weights_on_host = false;          // parameters take no memory here
};

/// The operations of the matrix products of a step: 2 for each multiplication with its addition.
struct product_flops {
  double forward = 0;
  double backward = 0;
  double recomputed = 0;  // of the forward, once more
};
constexpr double flops_of_product(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  return 2 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
}

class tape {
  // Changes one of the tape's modes for as long as it lives. A scope that lives for one expression
  // hands on to the tape: `t.charge(purpose::buffers)->make(...)`.
  template <class Mode>
  class [[nodiscard]] scope {
   public:
    constexpr scope(tape& on, Mode& mode, Mode now) : on_(on), mode_(mode), was_(mode) {
      mode = now;
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    constexpr ~scope() { mode_ = was_; }
    constexpr tape* operator->() const { return &on_; }

   private:
    tape& on_;
    Mode& mode_;
    Mode was_;
  };
  // torch.autocast: where it ends, the copies of parameters that it cast go.
  class [[nodiscard]] autocast_scope {
   public:
    constexpr autocast_scope(tape& on, bool is_on, element format) : on_(on) {
      on.autocasts_ = is_on;
      on.autocast_format_ = format;
    }
    autocast_scope(const autocast_scope&) = delete;
    autocast_scope& operator=(const autocast_scope&) = delete;
    constexpr ~autocast_scope() {
      on_.drop_casts();
      on_.autocasts_ = false;
    }

   private:
    tape& on_;
  };

 public:
  constexpr explicit tape(memory_events& memory,
                          device_traits of_device = {},
                          software_traits of_software = {},
                          storage_watcher* watcher = nullptr)
      : device(of_device), software(of_software), memory_(&memory), watcher_(watcher) {}

  const device_traits device;
  const software_traits software;

  // -- modes, each for as long as what is returned lives

  /// What is allocated is for this; without, it is working memory.
  [[nodiscard]] constexpr auto charge(purpose to) { return scope<purpose>(*this, charges_, to); }
  [[nodiscard]] constexpr auto on_stream(int index) { return scope<int>(*this, stream_, index); }
  /// torch.no_grad
  [[nodiscard]] constexpr auto without_graph() { return scope<bool>(*this, records_, false); }
  /// torch.enable_grad
  [[nodiscard]] constexpr auto with_graph() { return scope<bool>(*this, records_, true); }
  /// torch.autocast to the format, or not; scopes of it do not nest.
  [[nodiscard]] constexpr auto autocast(bool is_on, element format) {
    return autocast_scope(*this, is_on, format);
  }
  [[nodiscard]] constexpr auto without_autocast() { return scope<bool>(*this, autocasts_, false); }
  /// Operators work on DTensors: sums of their gradients are new tensors.
  [[nodiscard]] constexpr auto on_distributed() { return scope<bool>(*this, distributed_, true); }
  /// Parameters are built for this layer.
  [[nodiscard]] constexpr auto building_unit(std::int64_t index) {
    return scope<int>(*this, unit_, static_cast<int>(index));
  }

  [[nodiscard]] constexpr purpose charges() const { return charges_; }
  [[nodiscard]] constexpr int stream() const { return stream_; }
  [[nodiscard]] constexpr bool autocasts() const { return autocasts_; }
  /// The format in which a matrix product reads what is stored in this one.
  [[nodiscard]] constexpr element computes_in(element stored) const {
    return autocasts_ ? autocast_format_ : stored;
  }
  [[nodiscard]] constexpr int unit() const { return unit_; }
  /// The layer that the step is in, or none.
  [[nodiscard]] constexpr int layer() const { return layer_; }
  /// The node whose backward runs, or none.
  [[nodiscard]] constexpr int running() const { return running_; }

  // -- how the model is stored and who computes again, from here on

  constexpr void gather_parameters(const gathered_parameters& how) { gathering_ = how; }
  constexpr void take_gradients(element first, bool takes_any = false) {
    gathering_.first_gradients = first;
    gathering_.takes_any_gradient = takes_any;
  }
  [[nodiscard]] constexpr const gathered_parameters& gathering() const { return gathering_; }
  [[nodiscard]] constexpr bool gathers() const { return gathering_.is_on; }
  /// What is made has no memory yet (the meta device),
  constexpr void build_on_meta() { on_meta_ = true; }
  /// from here on it has. Whether it had none.
  constexpr bool leave_meta() {
    const bool was = on_meta_;
    on_meta_ = false;
    return was;
  }
  constexpr void recompute_by(recomputer& code) { again_ = &code; }

  growing_array<parameter_record> parameters{};
  growing_array<storage_record> storages{};
  growing_array<node> nodes{};
  growing_array<tensor> kept{};
  growing_array<int> moved{};       // parameters, in the order of the modules
  growing_array<tensor> buffers{};  // of the model; whoever made them holds them
  std::int64_t alive[purposes]{};   // bytes, by what they are for

  product_flops products{};  // so far

  /// The product of a forward is computed,
  constexpr void count_product(double flops) {
    if (stopped_) return;
    double& part = recomputes_ != none || in_backward_ ? products.recomputed : products.forward;
    part += flops;
  }
  /// or that of a backward.
  constexpr void count_backward(double flops) { products.backward += flops; }

  // -- storages

  constexpr int new_storage(std::int64_t bytes, const origin& from = {}) {
    if (stopped_) return none;
    if (!on_meta_) alive[static_cast<int>(charges_)] += bytes;
    const int block = on_meta_ ? none : memory_->allocate(bytes, stream_);
    const storage_record record{bytes, block, 1, charges_};
    int at = free_;
    if (at != none) {
      free_ = storages[at].block;
      storages[at] = record;
    } else {
      at = storages.push(record);
    }
    if (watcher_ != nullptr) watcher_->made(*this, at, from);
    return at;
  }
  /// Says what a storage turned out to be, to whom it matters.
  constexpr void name(int storage, const origin& as) {
    if (watcher_ != nullptr) watcher_->named(storage, as);
  }
  constexpr void hold(int storage) {
    if (storage != none) ++storages[storage].holders;
  }
  constexpr void release(int storage) {
    if (storage == none) return;
    storage_record& record = storages[storage];
    if (--record.holders != 0) return;
    if (record.block != none) {
      alive[static_cast<int>(record.what)] -= record.bytes;
      memory_->release(record.block);
    }
    record.block = free_;
    free_ = storage;
  }
  /// Frees the memory of a storage that is still held, and allocates it again.
  constexpr void give_back(int storage) {
    storage_record& record = storages[storage];
    alive[static_cast<int>(record.what)] -= record.bytes;
    memory_->release(record.block);
    record.block = none;
  }
  constexpr void take_again(int storage) {
    storage_record& record = storages[storage];
    alive[static_cast<int>(record.what)] += record.bytes;
    record.block = memory_->allocate(record.bytes, stream_);
    if (watcher_ != nullptr) watcher_->took_memory(*this, storage, 0);
  }
  constexpr void resize(int storage, std::int64_t bytes) {
    if (storages[storage].bytes == bytes) return;
    give_back(storage);
    storages[storage].bytes = bytes;
    take_again(storage);
  }
  /// Says what a storage turned out to be for.
  constexpr void mark(int storage, purpose as) {
    storage_record& record = storages[storage];
    alive[static_cast<int>(record.what)] -= record.bytes;
    alive[static_cast<int>(as)] += record.bytes;
    record.what = as;
  }
  constexpr void mark_kept(int storage) {
    if (storage != none && storages[storage].what == purpose::working) mark(storage, purpose::kept);
  }
  [[nodiscard]] constexpr bool has_memory(int storage) const {
    return storages[storage].block != none;
  }
  [[nodiscard]] constexpr value make(const sizes& size, element format, const origin& from = {}) {
    tensor made;
    made.format = format;
    set_contiguous(made, size);
    made.storage = new_storage(made.bytes(), {from.what, from.parameter, from.like, &made});
    return {*this, made};
  }
  /// The result of an elementwise operator on these.
  [[nodiscard]] constexpr value make_like(const sizes& size,
                                          element format,
                                          const tensor& a,
                                          const tensor& b = {},
                                          const char* as = "") {
    value made = make(size, format, {as, none, &a});
    set_order(made.get(), size, a, b);
    return made;
  }
  /// Another hold of the tensor.
  [[nodiscard]] constexpr value share(const tensor& of) {
    hold(of.storage);
    return {*this, of};
  }
  /// The tensor without its place in the graph.
  [[nodiscard]] constexpr value detach(const tensor& of) {
    tensor alone = of;
    alone.node = none;
    hold(alone.storage);
    return {*this, alone};
  }
  /// Stores a tensor in this format from here on.
  constexpr void convert(tensor& of, element format) {
    if (of.defined() && !has_memory(of.storage)) {
      of.format = format;
      storages[of.storage].bytes = of.bytes();
      take_again(of.storage);
    }
    if (of.format == format) return;
    of.format = format;
    if (!of.defined()) return;
    const int other =
        charge(storages[of.storage].what)->new_storage(of.bytes(), {"", none, &of, &of});
    release(of.storage);
    of.storage = other;
  }
  constexpr void empty_cache() { memory_->empty_cache(); }
  [[nodiscard]] constexpr memory_events& memory() { return *memory_; }
  /// Allocates and frees.
  constexpr void touch(std::int64_t bytes, const char* as = "workspace") {
    if (bytes > 0) release(new_storage(bytes, {as}));
  }
  /// The workspace of a matrix product, or of one that adds a bias: for as long as it runs, or
  /// where the framework keeps them, from the first of each thread on. With a bias a thread needs
  /// both.
  constexpr void touch_workspace(bool adds_bias = false) {
    if (!software.keeps_workspaces) {
      touch(adds_bias ? device.bias_workspace : device.matrix_workspace);
      return;
    }
    const int thread = in_backward_ ? 1 : 0;
    keep_workspace(device.matrix_workspace, kept_workspaces_[thread][0]);
    if (adds_bias) keep_workspace(device.bias_workspace, kept_workspaces_[thread][1]);
  }
  /// The step is at this moment.
  constexpr void begin(moment now, int at_layer = none) {
    layer_ = at_layer;
    memory_->begin(now, at_layer);
  }

  // -- the graph

  /// What a tensor's gradient goes to; none where it needs none.
  [[nodiscard]] static constexpr edge edge_of(const tensor& of) { return {of.node, of.output}; }

  /// A node with the inputs that need a gradient, or none where none does. Inside a recomputation
  /// there is a graph already: the answer tells only whether there would be a node.
  constexpr int add_node(node_kind kind, std::initializer_list<const tensor*> inputs) {
    if (!records_) return none;
    bool any = false;
    for (const tensor* input : inputs) any = any || input->needs_gradient();
    if (!any) return none;
    if (recomputes_ != none) return 0;
    node made;
    made.kind = kind;
    for (const tensor* input : inputs) made.input[made.inputs++] = edge_of(*input);
    made.first_kept = kept.size();
    made.region = region_;
    made.layer = layer_;
    made.distributed = distributed_;
    return nodes.push(made);
  }
  [[nodiscard]] constexpr node* at(int index) {
    return index == none || recomputes_ != none ? nullptr : &nodes[index];
  }
  /// Keeps a tensor for the node made last.
  constexpr void keep(int index, const tensor& of) {
    if (index == none || stopped_) return;
    if (recomputes_ != none) {
      keep_again(of);
      return;
    }
    tensor entry = of;
    entry.node = none;
    if (region_ != none) {
      entry.storage = none;  // it will be made again
      ++regions[region_].count;
    } else {
      hold(entry.storage);
      mark_kept(entry.storage);
    }
    kept.push(entry);
    ++nodes[index].kept;
  }
  /// Lets go of what a node kept, before its backward is done.
  constexpr void release_kept(int index, int which) {
    tensor& entry = kept[nodes[index].first_kept + which];
    release(entry.storage);
    entry.storage = none;
  }
  /// Makes the tensor a node's result.
  constexpr void result_of(int index, tensor& made, int output = 0) {
    made.node = index;
    made.output = output;
    if (index == none || recomputes_ != none) return;
    node& by = nodes[index];
    by.size[output] = made.size;
    by.format[output] = made.format;
    if (output >= by.outputs) by.outputs = output + 1;
  }

  // -- parameters

  constexpr int add_parameter(const sizes& size, element format, bool trains) {
    const int place = reserve_parameter(trains);
    build_parameter(place, size, format);
    return place;
  }
  /// A parameter's place in the order of the modules, for one that is built later.
  constexpr int reserve_parameter(bool trains) {
    parameter_record record;
    record.trains = trains;
    record.unit = unit_;
    return parameters.push(record);
  }
  constexpr void build_parameter(int place, const sizes& size, element format) {
    const auto charged = charge(purpose::weights);
    const scope<bool> of_weights(*this, on_meta_, on_meta_ || gathering_.weights_on_host);
    parameter_record& record = parameters[place];
    if (gathering_.is_on) {
      const element whole_format = gathering_.whole_format;
      const std::int64_t ranks = gathering_.ranks;
      sizes part = size;
      part[0] = (size[0] + ranks - 1) / ranks;
      record.data = make(part, format, {"weight", place}).take();
      record.whole.format = whole_format;
      set_contiguous(record.whole, size);
      // one that has no memory yet
      record.whole.storage =
          storages.push({ranks * part.count() * bytes_of(whole_format), none, 1, purpose::weights});
      name(record.whole.storage, {"gathered weight", place, nullptr, &record.whole});
    } else {
      record.data = make(size, format, {"weight", place}).take();
    }
  }
  /// How the operators that read the parameter find it stored.
  [[nodiscard]] constexpr element format_of(int index) const {
    const parameter_record& record = parameters[index];
    return record.whole.defined() ? record.whole.format : record.data.format;
  }
  /// Moves the parameter built last to this place among the parameters: those behind it move on.
  constexpr void place_parameter(int place) {
    const parameter_record last = parameters.back();
    for (int at = parameters.size() - 1; at > place; --at) parameters[at] = parameters[at - 1];
    parameters[place] = last;
    if (watcher_ != nullptr) watcher_->placed(parameters.size() - 1, place);
  }
  /// The parameter, as an operator reads it. The tape holds it.
  [[nodiscard]] constexpr tensor parameter(int index) {
    parameter_record& record = parameters[index];
    tensor data = record.whole.defined() ? record.whole : record.data;
    if (!record.trains || !records_) return data;
    if (recomputes_ != none) {
      data.node = 0;
      return data;
    }
    if (record.node == none) {
      node made;
      made.kind = node_kind::accumulate;
      made.parameter = index;
      made.size[0] = record.gradient_size.rank == 0 ? data.size : record.gradient_size;
      const bool is_first =
          gathering_.is_on && record.whole.defined() && !record.whole_gradient.defined();
      if (record.casts_whole_gradient)
        made.format[0] = record.data.format;
      else
        made.format[0] = is_first ? gathering_.first_gradients : data.format;
      made.takes_any_format = record.whole.defined() && gathering_.takes_any_gradient;
      made.first_kept = kept.size();
      record.node = nodes.push(made);
    }
    data.node = record.node;
    return data;
  }

  /// Holds what a function of the graph holds, beside what it keeps for its backward.
  constexpr void hold_with_graph(const tensor& of) {
    hold(of.storage);
    leaves_.push({.data = of});
  }
  /// Lets go of what the graph of a loss that is gone held: such leaves with their gradients.
  constexpr void drop_leaves() {
    for (int at = 0; at < leaves_.size(); ++at) {
      release(leaves_[at].data.storage);
      release(leaves_[at].gradient.storage);
    }
    leaves_.resize_down(0);
  }
  /// Makes the gradient of what no trained parameter led to arrive in it, as `requires_grad_()`
  /// does.
  constexpr void require_gradient(tensor& leaf) {
    if (!records_ || leaf.needs_gradient()) return;
    if (recomputes_ != none) {
      leaf.node = 0;
      return;
    }
    node made;
    made.kind = node_kind::accumulate;
    made.size[0] = leaf.size;
    made.format[0] = leaf.format;
    made.first_kept = kept.size();
    made.argument[0] = leaves_.push({.data = leaf, .wants_gradient = true});
    hold(leaf.storage);
    leaf.node = nodes.push(made);
  }

  // -- recomputation

  struct region_record {
    int first = none;  // of what is kept
    int count = 0;
    int made = 0;
    int dropped = 0;
    // Of selective checkpoints: results that are not computed again.
    bool saves = false;
    int first_saved = 0;
    int saved = 0;
    int taken = 0;
    int products = 0;       // so far in the forward,
    int matmuls_again = 0;  // and in the recomputation
  };
  growing_array<region_record> regions{};
  growing_array<tensor> saved_results{};

  /// The region's results of attention, and of every other product from the first on, stay.
  constexpr void save_results() {
    if (region_ == none) return;
    regions[region_].saves = true;
    regions[region_].first_saved = saved_results.size();
  }
  /// Whether the next result does.
  [[nodiscard]] constexpr bool stays(bool is_matmul) {
    const int at = recomputes_ != none ? recomputes_ : region_;
    if (at == none || stopped_ || !regions[at].saves) return false;
    if (!is_matmul) return true;
    int& count = recomputes_ != none ? regions[at].matmuls_again : regions[at].products;
    return ++count % 2 == 1;
  }
  constexpr void save_result(const tensor& of) {
    tensor entry = of;
    entry.node = none;
    hold(entry.storage);
    mark_kept(entry.storage);
    saved_results.push(entry);
    ++regions[region_].saved;
  }
  [[nodiscard]] constexpr value saved_result() {
    region_record& region = regions[recomputes_];
    tensor& entry = saved_results[region.first_saved + region.taken++];
    const tensor taken = entry;
    entry.storage = none;
    return {*this, taken};
  }

  constexpr int begin_region() {
    if (!records_ || recomputes_ != none) return none;
    region_record record;
    record.first = kept.size();
    region_ = regions.push(record);
    return region_;
  }
  /// Whether one ended: none had begun in a recomputation.
  constexpr bool end_region() {
    const bool ended = region_ != none;
    region_ = none;
    return ended;
  }
  [[nodiscard]] constexpr bool is_recomputing() const { return recomputes_ != none; }
  [[nodiscard]] constexpr bool has_stopped() const { return stopped_; }
  constexpr void begin_recompute(int region) { recomputes_ = region; }
  constexpr void end_recompute() {
    recomputes_ = none;
    stopped_ = false;
  }

  // -- autocast's copies of parameters, and of what else has a gradient that no operator passes on

  constexpr tensor* cached_cast_of_leaf(const tensor& of) {
    for (int at = 0; at < leaves_.size(); ++at) {
      leaf_record& leaf = leaves_[at];
      if (leaf.wants_gradient && leaf.data.storage == of.storage && !of.is_view)
        return recomputes_ != none ? &leaf.recast : &leaf.cast;
    }
    return nullptr;
  }
  constexpr tensor& cached_cast(int index) {
    parameter_record& record = parameters[index];
    if (recomputes_ != none) return record.recast;
    return record.cast;
  }
  // -- backward

  /// Follows the graph from the loss, whose gradient is made, and forgets the graph.
  constexpr void backward(const tensor& loss);
  /// Follows the graph from a tensor whose gradient is given, down to the node `first`. Several
  /// graphs may follow each other: `begin_graph` tells where one begins, `forget` drops those from
  /// there on.
  constexpr void follow(const tensor& from, const tensor& gradient, int first);
  struct graph_place {
    int node = 0;
    int kept = 0;
  };
  constexpr graph_place begin_graph() {
    for (int at = 0; at < parameters.size(); ++at) parameters[at].node = none;
    return {nodes.size(), kept.size()};
  }
  constexpr void forget(const graph_place& from) {
    for (int at = 0; at < parameters.size(); ++at) parameters[at].node = none;
    nodes.resize_down(from.node);
    kept.resize_down(from.kept);
  }
  /// Forgets what was recorded since, and what it kept.
  constexpr void discard(const graph_place& from) {
    for (int at = from.kept; at < kept.size(); ++at) release(kept[at].storage);
    for (int at = 0; at < parameters.size(); ++at)
      if (parameters[at].node >= from.node) parameters[at].node = none;
    nodes.resize_down(from.node);
    kept.resize_down(from.kept);
  }
  /// Gives a storage another block, for all who hold it.
  constexpr void replace_block(int storage, std::int64_t bytes) {
    storage_record& record = storages[storage];
    alive[static_cast<int>(record.what)] += bytes;
    const int block = memory_->allocate(bytes, stream_);
    if (watcher_ != nullptr) watcher_->took_memory(*this, storage, bytes);
    alive[static_cast<int>(record.what)] -= record.bytes;
    memory_->release(record.block);
    record.block = block;
    record.bytes = bytes;
  }
  /// The tensor as one that no operator made and whose gradient is wanted.
  [[nodiscard]] constexpr value leaf(const tensor& of) {
    node made;
    made.kind = node_kind::accumulate;
    made.size[0] = of.size;
    made.format[0] = of.format;
    made.first_kept = kept.size();
    made.argument[0] = none;  // its gradient stays here,
    made.gradient[1] = of;    // beside what it is of
    tensor seen = of;
    seen.node = nodes.push(made);
    seen.output = 0;
    hold(seen.storage);
    return {*this, seen};
  }
  /// Takes the gradient of a leaf.
  [[nodiscard]] constexpr value gradient_of(const tensor& of_leaf) {
    tensor& there = nodes[of_leaf.node].gradient[0];
    const tensor taken = there;
    there = {};
    return {*this, taken};
  }

  /// Takes over the gradient of a parameter.
  constexpr void arrive(int parameter, const tensor& arrived);
  /// What a node of a function kept, and lets go.
  [[nodiscard]] constexpr value take_kept(int index, int which) {
    tensor& entry = kept[nodes[index].first_kept + which];
    const tensor taken = entry;
    entry.storage = none;
    return {*this, taken};
  }
  /// What a node kept; made again where it was not.
  constexpr const tensor& kept_by(int index, int which) {
    const int place = nodes[index].first_kept + which;
    const int region = nodes[index].region;
    if (region != none && !kept[place].defined() && regions[region].made == 0) {
      const scope<int> nothing_runs(*this, running_, none);
      again_->recompute(region);
    }
    return kept[place];
  }

 private:
  constexpr void keep_workspace(std::int64_t bytes, int& storage) {
    if (storage != none || bytes == 0) return;
    storage = charge(purpose::workspace)->new_storage(bytes, {"workspace"});
  }
  constexpr void drop_casts() {
    for (int at = 0; at < parameters.size(); ++at) drop_cast(cached_cast(at));
    for (int at = 0; at < leaves_.size(); ++at)
      drop_cast(recomputes_ != none ? leaves_[at].recast : leaves_[at].cast);
  }
  constexpr void drop_cast(tensor& copy) {
    release(copy.storage);
    copy = {};
  }
  constexpr void keep_again(const tensor& of) {
    region_record& region = regions[recomputes_];
    tensor& entry = kept[region.first + region.made];
    entry = of;
    entry.node = none;
    hold(entry.storage);
    if (++region.made == region.count) stopped_ = true;
  }
  constexpr void drop_kept(int index) {
    node& by = nodes[index];
    for (int at = by.first_kept; at < by.first_kept + by.kept; ++at) {
      release(kept[at].storage);
      kept[at].storage = none;
    }
    if (by.region != none) regions[by.region].dropped += by.kept;
  }
  /// The inputs of a region live until its last node is done.
  constexpr void end_of_region(const node& by) {
    if (by.region == none || by.kept == 0) return;
    const region_record& region = regions[by.region];
    if (region.dropped != region.count) return;
    for (int at = region.taken; at < region.saved; ++at)
      release(saved_results[region.first_saved + at].storage);
    again_->region_is_done(by.region);
  }
  constexpr void run(int index);
  constexpr void run_function(int index);
  constexpr void hand_on(int index, value* incoming, gradients& out);
  constexpr void accumulate(int index);
  constexpr void deliver(const edge& to, value gradient);

  struct leaf_record {
    tensor data{};
    tensor gradient{};
    bool wants_gradient = false;
    tensor cast{};    // under autocast
    tensor recast{};  // likewise, of a recomputation
  };

  purpose charges_ = purpose::working;
  int stream_ = 0;
  bool records_ = true;
  bool autocasts_ = false;
  element autocast_format_ = element::bf16;
  bool distributed_ = false;
  bool on_meta_ = false;
  int unit_ = none;
  int layer_ = none;
  int running_ = none;
  gathered_parameters gathering_{.is_on = false};
  recomputer* again_ = nullptr;
  memory_events* memory_;
  storage_watcher* watcher_;  // none where nobody asks
  growing_array<leaf_record> leaves_{};
  int free_ = none;
  int region_ = none;
  int recomputes_ = none;
  bool stopped_ = false;
  bool in_backward_ = false;
  int kept_workspaces_[2][2]{{none, none}, {none, none}};  // by thread: of products, of biases
};

constexpr void value::drop() {
  if (owner_ != nullptr) owner_->release(tensor_.storage);
  owner_ = nullptr;
  tensor_.storage = none;
}

}  // namespace gpuplan::eager

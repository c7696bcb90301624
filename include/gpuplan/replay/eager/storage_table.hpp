#pragma once

// Who holds which storage, and when a storage dies. Private.

#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace gpuplan::eager {

class storage_table;

/// Holds a tensor's storage. (Where one of two values is chosen, write `if`: of `?:` g++ 12 makes
/// something else while compiling.)
class value {
 public:
  constexpr value() = default;
  constexpr value(storage_table& owner, const tensor& of)
      : tensor_(of), owner_(&owner) {}  // takes over
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
  storage_table* owner_ = nullptr;
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

// Changes a mode of its owner for as long as it lives. A scope that lives for one expression hands
// on to the owner: `t.charge(purpose::buffers)->make(...)`.
template <class Owner, class Mode>
class [[nodiscard]] mode_scope {
 public:
  constexpr mode_scope(Owner& on, Mode& mode, Mode now) : on_(on), mode_(mode), was_(mode) {
    mode = now;
  }
  mode_scope(const mode_scope&) = delete;
  mode_scope& operator=(const mode_scope&) = delete;
  constexpr ~mode_scope() { mode_ = was_; }
  constexpr Owner* operator->() const { return &on_; }

 private:
  Owner& on_;
  Mode& mode_;
  Mode was_;
};

// Kernels count bytes in 32 bits: of what is longer the parts are worked on one after the other
// (TensorIterator's with_32bit_indexing).
constexpr int parts_of_31_bits(std::int64_t count, std::int64_t element_bytes) {
  if ((count - 1) * element_bytes < std::numeric_limits<std::int32_t>::max()) return 1;
  return parts_of_31_bits(count / 2, element_bytes) +
         parts_of_31_bits(count - count / 2, element_bytes);
}
constexpr int kernels_of_elements(std::initializer_list<const tensor*> operands) {
  int kernels = 1;
  for (const tensor* one : operands) {
    const int parts = parts_of_31_bits(one->count(), bytes_of(one->format));
    if (parts > kernels) kernels = parts;
  }
  return kernels;
}

// Whether all that have several elements have them in the same order, without gaps.
constexpr bool is_in_one_order(std::initializer_list<const tensor*> operands) {
  const tensor* first = nullptr;
  for (const tensor* one : operands) {
    if (!one->defined() || one->count() == 1) continue;
    if (first == nullptr) {
      first = one;
      if (!is_dense(*one)) return false;
    } else if (one->size != first->size) {
      return false;
    }
    for (int at = 0; at < first->size.rank; ++at)
      if (first->size[at] != 1 && one->stride[at] != first->stride[at]) return false;
  }
  return true;
}

// Of a copy: where both are without gaps and in the same order, no kernel.
constexpr device_work work_of_copy(const tensor& from, const tensor& to) {
  if (from.format == to.format && from.is_contiguous() && to.is_contiguous())
    return device_work::copy();
  return {.kernels = kernels_of_elements({&from, &to}),
          .is_strided = !is_in_one_order({&from, &to})};
}

/// The storages of a step. Nodes and parameters, which name them, are the tape's.
class storage_table {
 public:
  /// What is allocated is for this; without, it is working memory.
  [[nodiscard]] constexpr auto charge(purpose to) { return mode_scope(*this, charges_, to); }
  [[nodiscard]] constexpr auto on_stream(int index) { return mode_scope(*this, stream_, index); }
  /// What runs is of the backward.
  [[nodiscard]] constexpr auto going_back() { return mode_scope(*this, in_backward_, true); }
  [[nodiscard]] constexpr purpose charges() const { return charges_; }
  [[nodiscard]] constexpr int stream() const { return stream_; }
  /// What is made has no memory yet (the meta device),
  constexpr void build_on_meta() { on_meta_ = true; }
  /// or has some all the same;
  [[nodiscard]] constexpr auto with_memory() { return mode_scope(*this, on_meta_, false); }
  /// from here on it has. Whether it had none.
  constexpr bool leave_meta() {
    const bool was = on_meta_;
    on_meta_ = false;
    return was;
  }

  growing_array<storage_record> storages{};
  std::int64_t alive[purposes]{};  // bytes, by what they are for

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
    if (watcher_ != nullptr) watcher_->made(*on_, at, from);
    if (made_ != nullptr) made_->push(at);
    return at;
  }
  /// What is made is listed, where `wanted`.
  [[nodiscard]] constexpr auto list_made(growing_array<int>& in, bool wanted) {
    return mode_scope(*this, made_, wanted ? &in : made_);
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
    if (watcher_ != nullptr) watcher_->took_memory(*on_, storage, 0);
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
  /// Whether anybody asks what operators do.
  [[nodiscard]] constexpr bool counts_work() const { return counts_work_; }
  /// An operator of ATen does this work, and reads and writes these tensors, of views what they
  /// show.
  constexpr void executes(std::initializer_list<const tensor*> operands, device_work work) {
    if (!counts_work_ || stopped_ || on_meta_) return;
    if (operands.size() > 0) work.input = (*operands.begin())->format;
    for (const tensor* one : operands) {
      if (!one->defined()) continue;
      work.bytes += one->bytes();
      work.operands = one->format;
    }
    work.is_again = computes_again_;
    work.stream = stream_;
    memory_->execute(work, in_backward_);
  }
  /// On this stream, beside the operators'.
  constexpr void communicates(shared_work work) {
    if (!counts_work_ || work.ranks == 1) return;
    work.stream = stream_;
    memory_->communicate(work, in_backward_);
  }
  constexpr void awaits_stream(int which) {
    if (counts_work_) memory_->await_stream(which);
  }
  constexpr void holds_stream(int which, bool one_behind) {
    if (counts_work_) memory_->hold_stream(which, one_behind);
  }
  /// An operator of elements one by one, which is one kernel.
  constexpr void executes(std::initializer_list<const tensor*> operands,
                          kernel_kind kind = kernel_kind::elements) {
    if (!counts_work_ || stopped_ || on_meta_) return;
    executes(operands,
             {.kernels = kernels_of_elements(operands),
              .kind = kind,
              .is_strided = !is_in_one_order(operands)});
  }
  /// Likewise of what is no tensor of its own.
  constexpr void executes(std::int64_t bytes, device_work work = {}) {
    work.bytes = bytes;
    executes(std::initializer_list<const tensor*>{}, work);
  }
  [[nodiscard]] constexpr memory_events& memory() { return *memory_; }
  /// Allocates and frees.
  constexpr void touch(std::int64_t bytes, const char* as = "workspace") {
    if (bytes > 0) release(new_storage(bytes, {as}));
  }
  /// Gives a storage another block, for all who hold it.
  constexpr void replace_block(int storage, std::int64_t bytes) {
    storage_record& record = storages[storage];
    alive[static_cast<int>(record.what)] += bytes;
    const int block = memory_->allocate(bytes, stream_);
    if (watcher_ != nullptr) watcher_->took_memory(*on_, storage, bytes);
    alive[static_cast<int>(record.what)] -= record.bytes;
    memory_->release(record.block);
    record.block = block;
    record.bytes = bytes;
  }

 protected:
  constexpr storage_table(const tape& on, memory_events& memory, storage_watcher* watcher)
      : memory_(&memory), watcher_(watcher), counts_work_(memory.counts_work()), on_(&on) {}
  constexpr ~storage_table() = default;

  bool stopped_ = false;  // nothing is made
  bool in_backward_ = false;
  bool computes_again_ = false;
  bool on_meta_ = false;
  memory_events* memory_;
  storage_watcher* watcher_;  // none where nobody asks
  bool counts_work_;

 private:
  const tape* on_;  // that has these storages
  purpose charges_ = purpose::working;
  growing_array<int>* made_ = nullptr;
  int stream_ = 0;
  int free_ = none;
};

constexpr void value::drop() {
  if (owner_ != nullptr) owner_->release(tensor_.storage);
  owner_ = nullptr;
  tensor_.storage = none;
}

}  // namespace gpuplan::eager

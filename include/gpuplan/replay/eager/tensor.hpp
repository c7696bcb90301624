#pragma once

// Tensors as eager mode has them, without their elements: a storage, sizes, strides, a format, and
// the node of the graph that made it. Private.

#include <gpuplan/result.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan::eager {

/// An array that grows, in constant expressions too. Elements are never destroyed one by one. An
/// index that is none of its own is a compile error, at run time a `plan_error`: in every build.
template <class T>
class growing_array {
 public:
  constexpr growing_array() = default;
  growing_array(const growing_array&) = delete;
  growing_array& operator=(const growing_array&) = delete;
  constexpr ~growing_array() { delete[] data_; }

  [[nodiscard]] constexpr int size() const { return size_; }
  constexpr T& operator[](int at) { return data_[own(at)]; }
  constexpr const T& operator[](int at) const { return data_[own(at)]; }
  constexpr T& back() { return data_[own(size_ - 1)]; }
  /// The new element's place.
  constexpr int push(const T& element) {
    if (size_ == capacity_) grow();
    data_[size_] = element;
    return size_++;
  }
  constexpr void resize_down(int size) { size_ = size; }

 private:
  [[nodiscard]] constexpr int own(int at) const {
    if (at < 0 || at >= size_)
      detail::precondition_violated(failure(errc::out_of_bounds,
                                            named_fact{fact::at_least, 0},
                                            named_fact{fact::at_most, size_ - 1})
                                        .about("index of a replayed step"));
    return at;
  }
  constexpr void grow() {
    capacity_ = capacity_ == 0 ? 64 : 4 * capacity_;
    T* larger = new T[static_cast<unsigned>(capacity_)];
    for (int at = 0; at < size_; ++at) larger[at] = data_[at];
    delete[] data_;
    data_ = larger;
  }

  T* data_ = nullptr;
  int size_ = 0;
  int capacity_ = 0;
};

/// How elements are stored.
enum class element : unsigned char {
  fp32,
  fp16,
  bf16,
  int64,
  boolean,
  complex64,
  int32,
  fp8,
  uint8
};

[[nodiscard]] constexpr std::int64_t bytes_of(element format) {
  constexpr std::int64_t bytes[] = {4, 2, 2, 8, 1, 8, 4, 1, 1};
  return bytes[static_cast<int>(format)];
}
[[nodiscard]] constexpr bool is_half(element format) {
  return format == element::fp16 || format == element::bf16;
}

inline constexpr int none = -1;
inline constexpr int most_dimensions = 5;

struct sizes {
  std::int64_t of[most_dimensions]{};
  int rank = 0;

  constexpr sizes() = default;
  template <class... Size>
  constexpr explicit(false) sizes(std::int64_t first, Size... rest)
      : of{first, static_cast<std::int64_t>(rest)...},
        rank(1 + static_cast<int>(sizeof...(rest))) {}

  constexpr std::int64_t& operator[](int at) { return of[at]; }
  constexpr std::int64_t operator[](int at) const { return of[at]; }
  [[nodiscard]] constexpr std::int64_t count() const {
    std::int64_t product = 1;
    for (int at = 0; at < rank; ++at) product *= of[at];
    return product;
  }
  friend constexpr bool operator==(const sizes& a, const sizes& b) {
    if (a.rank != b.rank) return false;
    for (int at = 0; at < a.rank; ++at)
      if (a.of[at] != b.of[at]) return false;
    return true;
  }
};

struct tensor {
  int storage = none;
  int node = none;  // that made it, of those that need a gradient
  int output = 0;   // which of the node's results it is
  element format = element::fp32;
  bool is_view = false;
  bool is_alone = false;  // a view that nobody else has, whoever has the storage
  sizes size{};
  std::int64_t stride[most_dimensions]{};

  [[nodiscard]] constexpr bool defined() const { return storage != none; }
  [[nodiscard]] constexpr bool needs_gradient() const { return node != none; }
  [[nodiscard]] constexpr std::int64_t count() const { return size.count(); }
  [[nodiscard]] constexpr std::int64_t bytes() const { return count() * bytes_of(format); }
  [[nodiscard]] constexpr bool is_contiguous() const {
    std::int64_t expected = 1;
    for (int at = size.rank - 1; at >= 0; --at) {
      if (size[at] == 1) continue;
      if (stride[at] != expected) return false;
      expected *= size[at];
    }
    return true;
  }
};

/// Whether its elements are neighbours, in whatever order of dimensions.
[[nodiscard]] constexpr bool is_dense(const tensor& of) {
  std::int64_t expected = 1;
  bool seen[most_dimensions]{};
  for (int left = of.size.rank; left > 0; --left) {
    int next = none;
    for (int at = 0; at < of.size.rank; ++at) {
      if (seen[at]) continue;
      if (of.size[at] == 1 || of.stride[at] == expected) next = at;
    }
    if (next == none) return false;
    seen[next] = true;
    expected *= of.size[next];
  }
  return true;
}

constexpr void set_contiguous(tensor& of, const sizes& size) {
  of.size = size;
  std::int64_t stride = 1;
  for (int at = size.rank - 1; at >= 0; --at) {
    of.stride[at] = stride;
    stride *= size[at] > 1 ? size[at] : 1;
  }
}

/// Lays out the result of an elementwise operator, of the given sizes: dense, its dimensions in the
/// order that the operands have in memory, the first one's if they differ (TensorIterator's
/// reorder_dimensions).
constexpr void set_order(tensor& of, const sizes& size, const tensor& a, const tensor& b) {
  set_contiguous(of, size);
  if (a.is_contiguous() && b.is_contiguous()) return;
  const auto stride = [&](const tensor& operand, int dimension) -> std::int64_t {
    const int at = dimension - (size.rank - operand.size.rank);
    if (at < 0 || (operand.size[at] == 1 && size[dimension] != 1)) return 0;
    return operand.stride[at];
  };
  const auto precedes = [&](int first, int second) {
    for (const tensor* operand : {&a, &b}) {
      const std::int64_t one = stride(*operand, first);
      const std::int64_t other = stride(*operand, second);
      if (one == 0 || other == 0) continue;
      if (one != other) return one < other ? -1 : 1;
      if (size[first] > size[second]) return 1;
    }
    return 0;
  };
  int order[most_dimensions]{};
  for (int at = 0; at < size.rank; ++at) order[at] = size.rank - 1 - at;
  for (int at = 1; at < size.rank; ++at) {
    int moved = at;
    for (int before = at - 1; before >= 0; --before) {
      const int which = precedes(order[before], order[moved]);
      if (which < 0) break;
      if (which == 0) continue;
      const int swapped = order[before];
      order[before] = order[moved];
      order[moved] = swapped;
      moved = before;
    }
  }
  std::int64_t next = 1;
  for (int at = 0; at < size.rank; ++at) {
    of.stride[order[at]] = next;
    next *= size[order[at]];
  }
}

/// Whether of four dimensions the second is the innermost, as in images stored channel by channel
/// for each point: concatenation keeps that order (suggest_memory_format).
constexpr bool is_channels_last(const tensor& of) {
  if (of.size.rank != 4 || of.stride[1] == 0) return false;
  std::int64_t least = 0;
  for (const int at : {1, 3, 2, 0}) {
    if (of.stride[at] < least || (at == 0 && least == of.stride[1])) return false;
    least = of.stride[at] * (of.size[at] > 1 ? of.size[at] : 1);
  }
  return true;
}
constexpr void set_channels_last(tensor& of) {
  std::int64_t stride = 1;
  for (const int at : {1, 3, 2, 0}) {
    of.stride[at] = stride;
    stride *= of.size[at];
  }
}

/// Gives the tensor other sizes of the same product, where its strides allow that without a copy.
constexpr bool set_view(tensor& of, const sizes& wanted) {
  if (of.is_contiguous()) {
    set_contiguous(of, wanted);
    return true;
  }
  tensor seen = of;
  seen.size = wanted;
  int view_at = wanted.rank - 1;
  std::int64_t base = of.stride[of.size.rank - 1];
  std::int64_t elements = 1;
  std::int64_t viewed = 1;
  for (int at = of.size.rank - 1; at >= 0; --at) {
    elements *= of.size[at];
    const bool ends_run = at == 0 || (of.size[at - 1] != 1 && of.stride[at - 1] != elements * base);
    if (!ends_run) continue;
    while (view_at >= 0 && (viewed < elements || wanted[view_at] == 1)) {
      seen.stride[view_at] = viewed * base;
      viewed *= wanted[view_at];
      --view_at;
    }
    if (viewed != elements) return false;
    if (at > 0) {
      base = of.stride[at - 1];
      elements = 1;
      viewed = 1;
    }
  }
  if (view_at != -1) return false;
  of = seen;
  return true;
}

}  // namespace gpuplan::eager

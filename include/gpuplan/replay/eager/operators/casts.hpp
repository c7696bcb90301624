#pragma once

// Casts, and those that autocast makes. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan::eager {

/// The tensor itself where it has the format, else a copy; the gradient is cast back.
constexpr value cast(tape& t, argument given, element format) {
  const held of(given);
  if (of.format == format) return t.share(of);
  const int by = t.add_node(node_kind::cast, {&of});
  t.note(by, {static_cast<std::int64_t>(of.format)});
  value other = t.make_like(of.size, format, of, {}, "cast");
  t.executes({&of, &*other});
  t.result_of(by, other.get());
  return other;
}
constexpr void cast_backward(const node_backward& b) {
  b.out[0] = b.t.make_like(b.g.size, static_cast<element>(b.by.argument[0]), b.g);
  b.t.executes({&b.g, &*b.out[0]});
}
inline constexpr node_kind node_kind::cast{"cast", &cast_backward};

/// As autocast hands a tensor to a matrix product.
constexpr value lowered(tape& t, argument given) {
  const held of(given);
  const element wanted = t.computes_in(of.format);
  if (of.format == wanted) return t.share(of);
  tensor* const cached = of.format == element::fp32 ? t.cached_cast_of_leaf(of) : nullptr;
  if (cached == nullptr) return cast(t, of, wanted);
  if (!cached->defined()) *cached = cast(t, of, wanted).take();
  return t.share(*cached);
}
/// As autocast hands a tensor to what computes in fp32.
constexpr value raised(tape& t, argument given) {
  const held of(given);
  if (t.autocasts()) return cast(t, of, element::fp32);
  return t.share(of);
}
/// A parameter likewise: the copy of one that trains serves the whole forward.
constexpr value lowered_parameter(tape& t, int index) {
  const tensor data = t.parameter(index);
  const element wanted = t.computes_in(data.format);
  if (data.format == wanted) return t.share(data);
  if (!t.parameters[index].trains || data.format != element::fp32) return cast(t, data, wanted);
  tensor& cached = t.cached_cast(index);
  if (!cached.defined()) cached = cast(t, data, wanted).take();
  return t.share(cached);
}

/// A tensor that an operator without arguments fills: numbers in order, zeros, ones.
constexpr value full(tape& t, const sizes& size, element format, const origin& as = {}) {
  value made = t.make(size, format, as);
  t.executes({&*made});
  return made;
}
/// A tensor of other sizes or of another format, by an operator without gradient.
constexpr value compute(
    tape& t, argument given, const sizes& size, element format, const origin& as = {}) {
  const held of(given);
  value made = t.make(size, format, as);
  t.executes({&of, &*made});
  return made;
}
/// Likewise of several.
constexpr value compute(tape& t,
                        std::initializer_list<const tensor*> of,
                        const sizes& size,
                        element format,
                        const origin& as = {}) {
  value made = t.make(size, format, as);
  device_work work{.kernels = kernels_of_elements({&*made}), .bytes = made->bytes()};
  t.executes(of, work);
  return made;
}

}  // namespace gpuplan::eager

#pragma once

// Rows chosen by tensors of numbers. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

// Into zeros, by sorting the one number (index_put_ of PyTorch with accumulation).
constexpr void pick_backward(const node_backward& b) {
  tape& t = b.t;
  const sizes& whole = b.by.size[1];
  b.out[0] = t.make(whole, b.g.format);
  const auto number = [&] { return t.new_storage(8, {"number"}); };
  const int linear = number();
  t.touch(8);
  const int sorted = number();
  const int original = number();
  const int range = number();
  t.touch(1);
  for (const int storage : {range, original, sorted, linear}) t.release(storage);
  t.executes({&b.g, &*b.out[0]}, {.kernels = 8});
}
inline constexpr node_kind index_node{"index", &pick_backward};
/// One along a dimension, by a list of one number: a copy.
constexpr value pick(tape& t, argument given, int dimension) {
  const held of(given);
  const value number = t.make(sizes{1}, element::int64, {"number"});
  const int by = t.add_node(index_node, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  sizes one = of.size;
  one[dimension] = 1;
  value result = t.make(one, of.format, {"picked", none, &of});
  t.executes({&of, &*number, &*result});
  t.keep(by, number);
  t.result_of(by, result.get());
  return result;
}

}  // namespace gpuplan::eager

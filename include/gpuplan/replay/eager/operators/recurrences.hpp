#pragma once

// Operators of state spaces written without kernels of their own: a convolution of each channel,
// running sums, zeros behind the tokens, and contractions of two tensors by named dimensions.
// Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/attention.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/products.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuplan::eager {

// -- views

constexpr tensor permuted(const tensor& of, const int* order) {
  tensor seen = of;
  for (int at = 0; at < of.size.rank; ++at) {
    seen.size[at] = of.size[order[at]];
    seen.stride[at] = of.stride[order[at]];
  }
  return seen;
}
constexpr void permute_backward(const node_backward& b) {
  int back[most_dimensions]{};
  for (int at = 0; at < b.g.size.rank; ++at) back[b.by.argument[at]] = at;
  tensor seen = permuted(b.g, back);
  seen.is_view = true;
  b.out[0] = b.t.share(seen);
}
inline constexpr node_kind permute_node{"view", &permute_backward};
/// A view with its dimensions in this order.
constexpr value permute(tape& t, argument given, const int* order) {
  const held of(given);
  tensor seen = permuted(of, order);
  const int by = t.add_node(permute_node, {&of});
  if (node* made = t.at(by))
    for (int at = 0; at < of.size.rank; ++at) made->argument[at] = order[at];
  return seen_by(t, by, seen);
}
constexpr value permute(tape& t, argument given, int a, int b, int c, int d) {
  const int order[] = {a, b, c, d};
  return permute(t, given, order);
}
constexpr value permute(tape& t, argument given, int a, int b, int c, int d, int e) {
  const int order[] = {a, b, c, d, e};
  return permute(t, given, order);
}
/// A view with one more dimension at the end, of one element.
constexpr value with_last(tape& t, argument given) {
  const held of(given);
  sizes wanted = of.size;
  wanted[wanted.rank++] = 1;
  return view(t, of, wanted);
}

// -- zeros, running sums

/// With zeros up to the wanted sizes: constant_pad_nd, a copy where there are none to add.
constexpr value pad_with_zeros(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  const int by = t.add_node(node_kind::pad, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  value padded;
  if (wanted == of.size) {
    padded = t.make_like(wanted, of.format, of);
  } else {
    padded = t.make(wanted, of.format, {"padded", none, &of});
    if (is_channels_last(of)) set_channels_last(padded.get());
  }
  t.executes({&of, &*padded}, {.kernels = 2});
  t.result_of(by, padded.get());
  return padded;
}

// The kernel reads and writes elements in order.
constexpr value running_sums(tape& t, const tensor& of) {
  value sums = t.make(of.size, of.format, {"running sums", none, &of});
  value together;
  if (!of.is_contiguous()) together = t.make(of.size, of.format, {"input in order"});
  t.executes({&of, &*sums});
  return sums;
}
// Of the flipped gradient, flipped back.
constexpr void running_sum_backward(const node_backward& b) {
  if (b.g.size[static_cast<int>(b.by.argument[0])] == 1) {
    b.out[0] = b.t.share(b.g);
    return;
  }
  const value flipped = b.like_gradient();
  b.t.executes({&b.g, &*flipped});
  const value sums = running_sums(b.t, flipped);
  b.out[0] = b.t.make(b.g.size, b.g.format);
  b.t.executes({&*sums, &*b.out[0]});
}
inline constexpr node_kind running_sum_node{"running sums", &running_sum_backward};
/// torch.cumsum along a dimension.
constexpr value running_sum_over(tape& t, argument given, int dimension) {
  const held of(given);
  const int by = t.add_node(running_sum_node, {&of});
  t.note(by, {dimension});
  value sums = running_sums(t, of);
  t.result_of(by, sums.get());
  return sums;
}

// A new tensor in order, whatever the order of the gradient.
constexpr void fill_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.g.size, b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, {.kernels = 1, .copies = 1});
}
inline constexpr node_kind fill_node{"mask", &fill_backward};
/// x.masked_fill(mask, number) in order: keeps the mask.
constexpr value filled(tape& t, argument given, argument given_mask) {
  const held of(given), mask(given_mask);
  const int by = t.add_node(fill_node, {&of});
  t.keep(by, mask);
  value result = t.make(of.size, of.format, {"masked", none, &of});
  t.executes({&of, &mask, &*result}, {.kernels = 1, .copies = 1});
  t.result_of(by, result.get());
  return result;
}

/// Times a mask of integers: keeps that.
constexpr value times_mask(tape& t, argument given, argument given_mask) {
  const held of(given), mask(given_mask);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  t.keep(by, mask);
  return result_like(t, by, of, "masked", mask);
}

// -- a convolution of each channel by itself

// Gradients of a weight PyTorch counts as if every channel met all of them.
constexpr void convolution_of_each_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor& x = b.kept(0);
  const tensor& w = b.kept(1);
  value input, gradient;
  if (!x.is_contiguous()) input = t.make(x.size, x.format);
  if (!b.g.is_contiguous()) gradient = t.make(b.g.size, b.g.format);
  const std::int64_t channels = w.size[0];
  const std::int64_t places = b.g.size[0] * b.g.size[2];
  const std::int64_t kernel = w.size[2];
  if (b.wants(1)) {
    b.out[1] = t.make(w.size, b.g.format);
    t.count_backward({channels, places, kernel * channels}, {&b.g, &x, &*b.out[1]});
  }
  if (b.wants(0)) {
    b.out[0] = t.make(x.size, b.g.format);
    t.count_backward({kernel, channels, places}, {&b.g, &w, &*b.out[0]});
  }
  if (b.wants(2)) {
    b.out[2] = t.make(sizes{channels}, b.g.format);
    touch(t, scratch_of_reduction(t.device, places, channels, true));
  }
}
inline constexpr node_kind convolution_of_each_node{"convolution", &convolution_of_each_backward};
/// Of (batch, channels, length) by (channels, 1, kernel), with so many zeros at either end. Keeps
/// input and weight, and copies an input that is in another order.
constexpr value convolve_each(
    tape& t, argument given, argument given_weight, int bias, std::int64_t zeros) {
  const held input(given), weight(given_weight);
  value b;
  if (bias != none) b = lowered_parameter(t, bias);
  const value w = lowered(t, weight);
  const value x = lowered(t, input);
  const int by = t.add_node(convolution_of_each_node, {&*x, &*w, &*b});
  t.keep(by, x);
  t.keep(by, w);
  const std::int64_t kernel = w->size[2];
  const std::int64_t places = x->size[2] + 2 * zeros - kernel + 1;
  value together;
  if (!x->is_contiguous()) together = t.make(x->size, x->format, {"input in order"});
  value result = t.make({x->size[0], x->size[1], places}, x->format, {"output"});
  t.count_product({x->size[0] * places, kernel, x->size[1]}, {&*x, &*w, &*b, &*result});
  t.result_of(by, result.get());
  return result;
}

// -- torch.einsum of two

/// Sums of products: each letter names a dimension, those that the result lacks are summed over.
/// One product of matrices for each place that all three have, whose operands are copied where they
/// do not lie in that order. They change places where what the second alone has comes first in the
/// result. No dimension that is summed over may have one element.
constexpr value contract(tape& t,
                         argument given_first,
                         std::string_view first_letters,
                         argument given_second,
                         std::string_view second_letters,
                         std::string_view letters) {
  const held first(given_first), second(given_second);
  const value lowered_first = lowered(t, first);
  const value lowered_second = lowered(t, second);
  struct group {
    sizes size{};
    char letter[most_dimensions]{};
    constexpr void add(char one, std::int64_t elements) {
      letter[size.rank] = one;
      size[size.rank++] = elements;
    }
  };
  group each, rows, columns, summed;
  const auto find = [](std::string_view in, char letter) {
    for (int at = 0; at < static_cast<int>(in.size()); ++at)
      if (in[static_cast<std::size_t>(at)] == letter) return at;
    return none;
  };
  bool swaps = false;
  for (const char letter : letters) {
    const int in_first = find(first_letters, letter);
    const int in_second = find(second_letters, letter);
    if (in_first != none && in_second != none) {
      each.add(letter, lowered_first->size[in_first]);
      continue;
    }
    if (rows.size.rank == 0 && columns.size.rank == 0) swaps = in_first == none;
    group& own = (in_first == none) == swaps ? rows : columns;
    own.add(letter,
            in_first != none ? lowered_first->size[in_first] : lowered_second->size[in_second]);
  }
  for (const char letter : first_letters)
    if (find(letters, letter) == none)
      summed.add(letter, lowered_first->size[find(first_letters, letter)]);
  const auto matrices =
      [&](const tensor& of, std::string_view names, const group& outer, const group& inner) {
        int order[most_dimensions]{};
        int at = 0;
        const group* const in_order[] = {&each, &outer, &inner};
        for (const group* one : in_order)
          for (int which = 0; which < one->size.rank; ++which)
            order[at++] = find(names, one->letter[which]);
        const value turned = permute(t, of, order);
        return reshape(t, turned, {each.size.count(), outer.size.count(), inner.size.count()});
      };
  const value lefts = matrices(swaps ? *lowered_second : *lowered_first,
                               swaps ? second_letters : first_letters,
                               rows,
                               summed);
  const value rights = matrices(swaps ? *lowered_first : *lowered_second,
                                swaps ? first_letters : second_letters,
                                summed,
                                columns);
  const value product = matmul(t, lefts, rights);
  sizes apart;
  int order[most_dimensions]{};
  int at = 0;
  for (const group* one : {&each, &rows, &columns})
    for (int which = 0; which < one->size.rank; ++which) {
      order[find(letters, one->letter[which])] = at++;
      apart[apart.rank++] = one->size[which];
    }
  return permute(t, view(t, product, apart), order);
}

}  // namespace gpuplan::eager

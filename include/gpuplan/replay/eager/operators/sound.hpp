#pragma once

// Operators of models of sound: convolutions in groups, norms of channels, weights by direction and
// length, and the loss of alignments. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/products.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// A convolution of (batch, channels, length) by one group of channels after the other, each like
/// `convolve_1d` with stride 1, and the results side by side.
constexpr value convolve_in_groups(tape& t,
                                   argument given,
                                   argument given_weight,
                                   int bias,
                                   std::int64_t zeros,
                                   std::int64_t groups) {
  const held input(given), weight(given_weight);
  const value b = lowered_parameter(t, bias);
  const value w = lowered(t, weight);
  const value x = lowered(t, input);
  const int by = t.add_node(node_kind::convolution_in_groups, {&*x, &*w, &*b});
  t.keep(by, x);
  t.keep(by, w);
  const std::int64_t batch = x->size[0];
  const std::int64_t places = x->size[2] + 2 * zeros - w->size[2] + 1;
  const std::int64_t row = w->size[1] * w->size[2];
  t.note(by, {row, places, groups});
  value together;
  if (!x->is_contiguous()) together = t.make(x->size, x->format, {"input in order"});
  growing_array<int> parts;
  for (std::int64_t group = 0; group < groups; ++group) {
    const int own = batch > 1 && groups > 1 ? t.new_storage(x->bytes() / groups) : none;
    parts.push(t.new_storage(bytes_of(x->format) * batch * (w->size[0] / groups) * places));
    const int rows = t.new_storage(bytes_of(x->format) * row * places);
    t.touch_workspace();
    t.release(rows);
    t.release(own);
  }
  value result = t.make({batch, w->size[0], places}, x->format, {"output"});
  for (int at = 0; at < parts.size(); ++at) t.release(parts[at]);
  const auto samples = static_cast<int>(batch);
  t.count_product({places, row, w->size[0]},
                  {&*x, &*w, &*b, &*result},
                  {.kernels = samples, .products = samples});
  t.result_of(by, result.get());
  return result;
}
constexpr void convolution_in_groups_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor& x = b.kept(0);
  const tensor& w = b.kept(1);
  const std::int64_t row = b.by.argument[0];
  const std::int64_t places = b.by.argument[1];
  const std::int64_t groups = b.by.argument[2];
  const std::int64_t batch = x.size[0];
  const std::int64_t bytes = bytes_of(b.g.format);
  value input, gradient;
  if (!x.is_contiguous()) input = t.make(x.size, x.format);
  if (!b.g.is_contiguous()) gradient = t.make(b.g.size, b.g.format);
  growing_array<int> parts;
  for (std::int64_t group = 0; group < groups; ++group) {
    const bool copies = batch > 1 && groups > 1;
    const int own_gradient = copies ? t.new_storage(b.g.bytes() / groups) : none;
    const int own = copies ? t.new_storage(x.bytes() / groups) : none;
    int rows = none;
    if (b.wants(0)) {
      parts.push(t.new_storage(x.bytes() / groups));
      rows = t.new_storage(bytes * row * places);
      t.touch_workspace();
    }
    if (b.wants(2)) {
      parts.push(t.new_storage(bytes * w.size[0] / groups));
      touch(t, scratch_of_reduction(t.device, batch * places, w.size[0] / groups, true));
    }
    if (b.wants(1)) {
      parts.push(t.new_storage(w.bytes() / groups));
      if (rows == none) rows = t.new_storage(bytes * row * places);
      t.touch_workspace();
    }
    t.release(rows);
    t.release(own);
    t.release(own_gradient);
  }
  if (b.wants(0)) b.out[0] = t.make(x.size, b.g.format);
  if (b.wants(1)) b.out[1] = t.make(w.size, b.g.format);
  if (b.wants(2)) b.out[2] = t.make(sizes{w.size[0]}, b.g.format);
  for (int at = 0; at < parts.size(); ++at) t.release(parts[at]);
  const auto calls = static_cast<int>(batch);
  if (b.wants(0))
    t.count_backward({row, w.size[0], places}, {&b.g, &w}, {.kernels = calls, .products = calls});
  if (b.wants(1))  // as PyTorch counts: all channels for each group
    t.count_backward(
        {w.size[0], places, row * groups}, {&b.g, &x}, {.kernels = calls, .products = calls});
}
inline constexpr node_kind node_kind::convolution_in_groups{"convolution",
                                                            &convolution_in_groups_backward};

/// torch.nn.GroupNorm with a group for each channel of (batch, channels, length), in fp32 under
/// autocast. Keeps the input, the weight, and a mean and a spread of each channel.
constexpr value channel_norm(tape& t, argument given, int weight, int bias) {
  const held input(given);
  const value b = raised(t, t.parameter(bias));
  const value w = raised(t, t.parameter(weight));
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::channel_norm, {&*x, &*w, &*b});
  t.keep(by, x);
  t.keep(by, w);
  value result = t.make(x->size, x->format, {"output", weight, &*x});
  const sizes each{x->size[0], x->size[1]};
  const value means = t.make(each, x->format, {"means of channels", weight});
  const value spread = t.make(each, x->format, {"spreads of channels", weight});
  t.keep(by, means);
  t.keep(by, spread);
  const bool is_narrow = is_half(x->format);
  value wide[2], factor[2];
  if (is_narrow)
    for (value& one : wide) one = t.make(each, element::fp32);
  for (value& one : factor) one = t.make(each, element::fp32);
  t.executes({&*x, &*w, &*b, &*result}, {.kernels = 3});
  t.result_of(by, result.get());
  return result;
}
constexpr void channel_norm_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor& x = b.kept(0);
  const sizes each{x.size[0], x.size[1]};
  if (b.wants(0)) b.out[0] = t.make(x.size, b.g.format);
  for (int which = 1; which < 3; ++which)
    if (b.wants(which)) b.out[which] = t.make(sizes{x.size[1]}, b.g.format);
  value sums[5];
  for (value& one : sums) one = t.make(each, element::fp32);
  t.executes({&b.g, &x, &*b.out[0]}, {.kernels = 4});
}
inline constexpr node_kind node_kind::channel_norm{"norm", &channel_norm_backward};

/// torch.nn.utils.parametrizations.weight_norm over all but the last dimension: the directions
/// scaled to the lengths. Keeps both and the norms.
constexpr value weight_norm(tape& t, argument given_directions, argument given_lengths) {
  const held v(given_directions), g(given_lengths);
  const int by = t.add_node(node_kind::weight_norm, {&v, &g});
  t.keep(by, v);
  t.keep(by, g);
  value result = t.make(v.size, v.format, {"weight"});
  const value norms = t.make(g.size, element::fp32, {"norms of the weight"});
  t.keep(by, norms);
  t.executes({&v, &g, &*result}, device_work{});
  t.result_of(by, result.get());
  return result;
}
constexpr void weight_norm_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.kept(0).size, b.g.format);
  b.out[1] = b.t.make(b.kept(1).size, b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, device_work{});
}
inline constexpr node_kind node_kind::weight_norm{"weight by direction", &weight_norm_backward};

/// Over the last dimension. Keeps its result.
constexpr value log_softmax(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::log_softmax, {&of});
  value result = t.make(of.size, of.format, {"log-softmax", none, &of});
  t.executes({&of, &*result}, {.kind = kernel_kind::softmaxes});
  t.keep(by, result);
  t.result_of(by, result.get());
  return result;
}

/// The mean of the alignments' losses, each divided by its number of labels, of at most `most`:
/// (length, batch, classes). Keeps what it reads, and a table of all states of each sample.
constexpr value ctc_loss(
    tape& t, argument given, argument given_targets, argument given_counts, std::int64_t most) {
  const held x(given), targets(given_targets), counts(given_counts);
  const std::int64_t batch = x.size[1];
  const int by = t.add_node(node_kind::alignment, {&x});
  t.keep(by, x);
  t.keep(by, targets);
  const auto numbers = [&] { return t.make(sizes{batch}, element::int64); };
  value losses;
  {
    const value begins = numbers();
    const value inputs = numbers();
    const value labels = numbers();
    const value states = t.make({batch, x.size[0], 2 * most + 1}, element::fp32, {"states"});
    t.keep(by, states);
    losses = t.make(sizes{batch}, element::fp32, {"losses"});
    t.keep(by, losses);
  }
  t.result_of(by, losses.get());
  const value divisor = compute(t, counts, sizes{batch}, element::int64);
  const value each = divide(t, losses, divisor);
  const int mean_by = t.add_node(node_kind::mean, {&*each});
  if (node* made = t.at(mean_by)) made->size[1] = each->size;
  value loss = t.make(sizes{1}, element::fp32, {"loss"});
  loss.get().size.rank = 0;
  t.executes({&*each, &*loss}, device_work{});
  t.result_of(mean_by, loss.get());
  return loss;
}
constexpr void alignment_backward(const node_backward& b) {
  tape& t = b.t;
  const auto numbers = [&] { return t.make(b.g.size, element::int64); };
  const value begins = numbers();
  const value inputs = numbers();
  const value labels = numbers();
  const value states = t.make(b.kept(2).size, element::fp32);
  b.out[0] = t.make(b.kept(0).size, element::fp32);
  t.executes({&b.kept(0), &b.kept(2), &*b.out[0]}, {.kernels = 4});
}
inline constexpr node_kind node_kind::alignment{"loss", &alignment_backward};

}  // namespace gpuplan::eager

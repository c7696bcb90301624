#pragma once

// Sums, means, softmax and losses. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/elementwise.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <limits>

namespace gpuplan::eager {

using gpuplan::detail::ceil_div;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return ceil_div(n, to) * to; }
constexpr std::int64_t last_power_of_two(std::int64_t of) {
  std::int64_t power = 1;
  while (power * 2 <= of) power *= 2;
  return power;
}
constexpr std::int64_t at_most(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t at_least(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

/// What a sum over `reduced` elements for each of `outputs` takes beside its result: where the
/// outputs are too few to occupy the device, several blocks of threads work on each, and meet in a
/// buffer (Reduce.cuh of PyTorch). `fastest`: the reduced elements are neighbours.
struct reduction_scratch {
  std::int64_t buffer = 0;
  std::int64_t semaphores = 0;
};
constexpr reduction_scratch scratch_of_reduction(const device_traits& device,
                                                 std::int64_t reduced,
                                                 std::int64_t outputs,
                                                 bool fastest) {
  constexpr std::int64_t most_threads = 512;
  constexpr std::int64_t warp = 32;
  std::int64_t vector = 1;  // outputs a thread
  std::int64_t dim0 = fastest ? reduced : outputs;
  const std::int64_t dim1 = fastest ? outputs : reduced;
  if (fastest && outputs == 1 && dim0 > 128) dim0 /= 4;
  if (!fastest) {
    vector = outputs % 4 == 0 ? 4 : outputs % 2 == 0 ? 2 : 1;
    dim0 /= vector;
  }
  const std::int64_t threads = most_threads / vector;
  const std::int64_t power0 = dim0 < threads ? last_power_of_two(dim0) : threads;
  const std::int64_t power1 = dim1 < threads ? last_power_of_two(dim1) : threads;
  std::int64_t width = at_most(power0, warp);
  const std::int64_t height = at_most(power1, threads / width);
  width = at_most(power0, threads / height);

  std::int64_t step_input = fastest ? width : 1;
  std::int64_t step_output = fastest ? 1 : width;
  const std::int64_t split_at = at_most(height * 16, 256);
  const bool across_warps = ceil_div(reduced, step_input) >= split_at;
  (across_warps ? step_input : step_output) *= height;
  const std::int64_t per_thread = ceil_div(reduced, step_input);
  const std::int64_t grid = ceil_div(outputs / vector, step_output);
  const std::int64_t target =
      device.multiprocessors * (device.threads_per_multiprocessor / (width * height));
  if (!across_warps || per_thread < 256 || grid > target) return {};
  const std::int64_t blocks = at_least(at_most(ceil_div(target, grid), ceil_div(per_thread, 16)),
                                       ceil_div(per_thread, 256));
  if (blocks <= 1) return {};
  return {4 * outputs * blocks * (fastest ? 1 : width * vector), 4 * grid};
}

/// And what the sum asks of the device: semaphores begin as 0.
constexpr device_work touch(tape& t, const reduction_scratch& scratch) {
  if (scratch.buffer == 0) return {};
  const int buffer = t.new_storage(scratch.buffer, {"buffer of a sum"});
  const int semaphores = t.new_storage(scratch.semaphores, {"semaphores of a sum"});
  t.release(semaphores);
  t.release(buffer);
  return {.fills = 1};
}

/// Likewise of a whole tensor, elements of `bytes`: the kernel counts bytes in 32 bits, so a longer
/// one is halved along its outer dimension (TensorIterator's with_32bit_indexing).
constexpr device_work touch_reduction(
    tape& t, std::int64_t bytes, std::int64_t reduced, std::int64_t outputs, bool fastest) {
  if ((reduced * outputs - 1) * bytes + 1 <= std::numeric_limits<std::int32_t>::max())
    return touch(t, scratch_of_reduction(t.device, reduced, outputs, fastest));
  const bool halves_outputs = fastest ? outputs > 1 : reduced == 1;
  const auto part = [&](std::int64_t size) {
    return halves_outputs ? touch_reduction(t, bytes, reduced, size, fastest)
                          : touch_reduction(t, bytes, size, outputs, fastest);
  };
  const std::int64_t whole = halves_outputs ? outputs : reduced;
  const device_work first = part(whole / 2);
  // No device holds a TiB, and there would be as many parts as its size asks for: one half counts
  // for both.
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const device_work second = reduced * outputs > most / bytes ? first : part(whole - whole / 2);
  return {.kernels = first.kernels + second.kernels, .fills = first.fills + second.fills};
}

// The sum over what the wanted sizes do not have, or have once; its work is added.
constexpr value summed(tape& t, const tensor& of, const sizes& wanted, device_work& to) {
  value sum = t.make(wanted, of.format, {"sum over rows", none, &of});
  const std::int64_t outputs = wanted.count();
  if (outputs == 0) return sum;
  const int more = of.size.rank - wanted.rank;
  std::int64_t nearest_summed = std::numeric_limits<std::int64_t>::max();
  std::int64_t nearest_left = nearest_summed;
  for (int at = 0; at < of.size.rank; ++at) {
    if (of.size[at] == 1) continue;
    std::int64_t& nearest =
        at >= more && wanted[at - more] == of.size[at] ? nearest_left : nearest_summed;
    nearest = at_most(nearest, of.stride[at]);
  }
  const device_work work = touch_reduction(
      t, bytes_of(of.format), of.count() / outputs, outputs, nearest_summed < nearest_left);
  to.kernels += work.kernels;
  to.fills += work.fills;
  return sum;
}
/// Likewise, by an operator of its own.
constexpr value sum_to(tape& t, const tensor& of, const sizes& wanted) {
  device_work work{.kernels = 0};
  value sum = summed(t, of, wanted, work);
  work.kind = kernel_kind::sums;
  t.executes({&of, &*sum}, work);
  return sum;
}

// -- means and sums

constexpr sizes without(sizes of, int dimension) {
  --of.rank;
  for (int at = dimension; at < of.rank; ++at) of[at] = of[at + 1];
  return of;
}

/// Over the last dimension, which stays with size 1.
constexpr value mean(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::mean, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  sizes one = of.size;
  one[one.rank - 1] = 1;
  value result = t.make(one, of.format, {"mean"});
  t.executes({&of, &*result}, {.kind = kernel_kind::softmaxes});
  t.result_of(by, result.get());
  return result;
}
// The gradient, repeated, divided by their number.
constexpr void mean_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&*b.out[0], &*b.out[0]});
}
inline constexpr node_kind node_kind::mean{"mean", &mean_backward};
/// Over one dimension, which is no more.
constexpr value mean_over(tape& t, argument given, int dimension) {
  const held of(given);
  const int by = t.add_node(node_kind::mean, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  const sizes left = without(of.size, dimension);
  value result = t.make(left, of.format, {"mean"});
  const device_work work = touch(
      t, scratch_of_reduction(t.device, of.size[dimension], left.count(), dimension == left.rank));
  t.executes({&of, &*result}, work);
  t.result_of(by, result.get());
  return result;
}

/// Over one dimension, which is no more; under autocast in fp32.
constexpr value sum_over(tape& t, argument given, int dimension) {
  const held of(given);
  const int by = t.add_node(node_kind::sum, {&of});
  const sizes left = without(of.size, dimension);
  if (node* made = t.at(by)) {
    made->size[1] = of.size;
    made->argument[0] = dimension;
  }
  const element format = t.autocasts() && is_half(of.format) ? element::fp32 : of.format;
  value result = t.make(left, format, {"sum"});
  const device_work work = touch(
      t, scratch_of_reduction(t.device, of.size[dimension], left.count(), dimension == left.rank));
  t.executes({&of, &*result}, work);
  t.result_of(by, result.get());
  return result;
}
constexpr void sum_backward(const node_backward& b) {
  tensor seen = b.g;
  seen.size = b.by.size[1];
  const int summed = static_cast<int>(b.by.argument[0]);
  for (int at = seen.size.rank - 1; at >= 0; --at)
    seen.stride[at] = at == summed ? 0 : b.g.stride[at < summed ? at : at - 1];
  seen.is_view = true;
  b.out[0] = b.t.share(seen);
}
inline constexpr node_kind node_kind::sum{"sum over rows", &sum_backward};

// -- softmax

/// Over the last dimension, in the format named. Keeps its result.
constexpr value softmax(tape& t, argument given, element format) {
  const held of(given);
  const int by = t.add_node(node_kind::softmax, {&of});
  t.note(by, {static_cast<std::int64_t>(of.format)});
  value result = t.make(of.size, format, {"softmax", none, &of});
  t.executes({&of, &*result}, {.kind = kernel_kind::softmaxes});
  t.keep(by, result);
  t.result_of(by, result.get());
  return result;
}
/// As autocast computes it: in fp32, by a kernel that reads fp16 but not bf16.
constexpr value softmax_under_autocast(tape& t, argument given) {
  const held of(given);
  if (!t.autocasts() || of.format == element::fp32) return softmax(t, of, of.format);
  if (of.format == element::fp16) return softmax(t, of, element::fp32);
  return softmax(t, cast(t, of, element::fp32), element::fp32);
}
/// _safe_softmax: 0 in rows whose scores are all hidden.
constexpr value safe_softmax(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::softmax, {&of});
  t.note(by, {static_cast<std::int64_t>(of.format)});
  value result = t.make(of.size, of.format, {"softmax", none, &of});
  // the softmax, what is hidden, of whole rows, a number, and a choice
  t.executes({&of, &*result},
             {.kernels = 2 + 2 * kernels_of_elements({&of}) + parts_of_31_bits(of.count(), 1)});
  const value hidden = t.make(of.size, element::boolean, {"hidden scores", none, &of});
  sizes rows = of.size;
  rows[rows.rank - 1] = 1;
  const value hidden_rows = t.make(rows, element::boolean, {"rows of hidden scores"});
  t.touch(bytes_of(of.format), "number");
  t.keep(by, result);
  t.result_of(by, result.get());
  return result;
}
constexpr void softmax_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.g.size, static_cast<element>(b.by.argument[0]));
  b.t.touch(b.g.bytes());
  // the gradient times the result comes first
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]},
               {.kernels = 1 + kernels_of_elements({&b.g}), .kind = kernel_kind::softmaxes});
}
inline constexpr node_kind node_kind::softmax{"softmax", &softmax_backward};

// -- losses

/// (rows, classes) and int64 labels to a number. Allocates and keeps the logarithms of the softmax,
/// of the logits' size; under autocast in fp32 too.
constexpr value cross_entropy(tape& t, argument given_logits, argument given_labels) {
  const held logits(given_logits), labels(given_labels);
  int by = t.add_node(node_kind::log_softmax, {&logits});
  value logs;
  {
    value together;  // of logits in another order
    if (!logits.is_contiguous()) together = t.make(logits.size, logits.format);
    logs = t.make(logits.size, logits.format, {"log-softmax", none, &logits});
  }
  t.executes({&logits, &*logs}, {.kind = kernel_kind::softmaxes});
  t.keep(by, logs);
  t.result_of(by, logs.get());
  const value x = raised(t, logs);
  logs.drop();
  by = t.add_node(node_kind::nll, {&*x});
  t.keep(by, x);
  t.keep(by, labels);
  value loss = t.make(sizes{1}, x->format, {"loss"});
  loss.get().size.rank = 0;
  const value weight = t.make(sizes{1}, x->format, {"number of labels"});
  t.executes({&*x, &labels, &*loss, &*weight}, device_work{});
  t.keep(by, weight);
  t.result_of(by, loss.get());
  return loss;
}
constexpr void log_softmax_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.g.size, b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, {.kind = kernel_kind::softmaxes});
}
inline constexpr node_kind node_kind::log_softmax{"log-softmax", &log_softmax_backward};
constexpr void nll_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.kept(0).size, b.kept(0).format);
  b.t.executes({&b.g, &b.kept(0), &b.kept(1), &b.kept(2), &*b.out[0]}, {.fills = 1});
}
inline constexpr node_kind node_kind::nll{"loss", &nll_backward};

/// The mean of the binary cross entropy of logits, in fp32 under autocast.
constexpr value binary_cross_entropy(tape& t, argument given, argument given_target) {
  const held input(given), wanted(given_target);
  const value target = raised(t, wanted);
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::binary_cross_entropy, {&*x});
  t.keep(by, x);
  t.keep(by, target);
  value loss;
  {
    const value logarithms = t.make_like(x->size, x->format, x, {}, "logarithms");
    const element format = wider(x->format, target->format);
    const value losses = t.make_like(x->size, format, x, target, "losses");
    loss = t.make(sizes{1}, format, {"loss"});
    loss.get().size.rank = 0;
    device_work work = touch_reduction(t, bytes_of(format), x->count(), 1, true);
    work.kernels += 4;
    t.executes({&*x, &*target, &*loss}, work);
  }
  t.result_of(by, loss.get());
  return loss;
}
constexpr void binary_cross_entropy_backward(const node_backward& b) {
  b.out[0] = b.t.make_like(b.kept(0).size, b.kept(0).format, b.kept(0));
  b.t.executes({&b.g, &b.kept(0), &b.kept(1), &*b.out[0]}, {.kernels = 3});
}
inline constexpr node_kind node_kind::binary_cross_entropy{"loss", &binary_cross_entropy_backward};

/// The mean of (x - target)^2, in fp32 under autocast. The loss has memory for all of them.
constexpr value mse_loss(tape& t, argument given, argument given_target) {
  const held input(given), wanted(given_target);
  const value target = raised(t, wanted);
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::mean_square, {&*x, &*target});
  t.keep(by, x);
  t.keep(by, target);
  const element format = wider(x->format, target->format);
  value loss = t.make_like(x->size, format, x, target, "loss");
  set_contiguous(loss.get(), {});
  const value squares = t.make_like(x->size, format, x, target, "squares");
  device_work work = touch_reduction(t, bytes_of(format), x->count(), 1, true);
  work.kernels += kernels_of_elements({&*squares});
  t.executes({&*x, &*target, &*loss}, work);
  t.result_of(by, loss.get());
  return loss;
}
/// (x - target)^2 of each, likewise: of reduction none.
constexpr value squared_errors(tape& t, argument given, argument given_target) {
  const held input(given), wanted(given_target);
  const value target = raised(t, wanted);
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::mean_square, {&*x, &*target});
  t.keep(by, x);
  t.keep(by, target);
  value errors = t.make_like(x->size, wider(x->format, target->format), x, target, "squares");
  t.executes({&*x, &*target, &*errors});
  t.result_of(by, errors.get());
  return errors;
}
constexpr void mean_square_backward(const node_backward& b) {
  for (int which = 0; which < 2; ++which)
    if (b.wants(which)) {
      b.out[which] = b.t.make(b.kept(which).size, b.g.format);
      b.t.executes({&b.g, &b.kept(0), &b.kept(1), &*b.out[which]});
    }
}
inline constexpr node_kind node_kind::mean_square{"loss", &mean_square_backward};

}  // namespace gpuplan::eager

#pragma once

// What each operator allocates on the way back. Private.

#include <gpuplan/replay/eager/attention.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

struct gradients {
  value of[most_inputs]{};
};

// What CUB's one-pass algorithms note of each tile they work on.
constexpr std::int64_t tile_states(std::int64_t items, std::int64_t tile, std::int64_t bytes) {
  return round_up(bytes * (ceil_div(items, tile) + 32), 256) + 255;
}

// Sorts, then sums what belongs to one row (EmbeddingBackwardKernel.cu of PyTorch, over Thrust and
// CUB); few tokens take no detour.
constexpr value embedding_gradient(
    tape& t, std::int64_t tokens, std::int64_t rows, std::int64_t width, element format) {
  if (tokens <= 3072) return t.make({rows, width}, format);
  const int sorted = t.new_storage(8 * tokens, {"sorted rows"});
  const int original = t.new_storage(8 * tokens, {"order of rows"});
  const int range = t.new_storage(8 * tokens, {"numbers of tokens"});
  std::int64_t passes = 1;  // of 8 bits
  while (rows >> (8 * passes) != 0) ++passes;
  t.touch((passes > 1 ? 2 * round_up(8 * tokens, 256) : 0) + 1024 * ceil_div(tokens, 4608) +
          2048 * passes + 511);
  t.release(range);
  value gradient = t.make({rows, width}, format);
  const int offsets = t.new_storage(8 * tokens, {"segments of rows"});
  const int segments = t.new_storage(8, {"number of segments"});
  const int unused_keys = t.new_storage(8 * tokens, {"keys of segments"});
  t.touch(512 + tile_states(tokens, 2464, 8));
  t.release(unused_keys);
  const std::int64_t most = at_most(tokens, rows);
  const std::int64_t parts = tokens / 10 + most;
  const int per_segment = t.new_storage(8 * most, {"parts of segments"});
  const int segment_offset = t.new_storage(8 * most, {"parts before segments"});
  t.touch(256 + tile_states(most, 896, 16));
  const int count = t.new_storage(8, {"number of parts"});
  const int part_offset = t.new_storage(8 * parts, {"first tokens of parts"});
  // Many parts of few rows are added up where they belong, in fp32.
  const bool adds_in_place = parts > 4 * most && rows < 4 * t.device.multiprocessors;
  const int row_of_part = adds_in_place ? t.new_storage(8 * parts, {"rows of parts"}) : none;
  const int sums = !adds_in_place    ? t.new_storage(4 * parts * width, {"sums of parts"})
                   : is_half(format) ? t.new_storage(4 * rows * width, {"gradient in fp32"})
                                     : none;
  for (const int storage : {sums,
                            row_of_part,
                            part_offset,
                            count,
                            segment_offset,
                            per_segment,
                            segments,
                            offsets,
                            original,
                            sorted})
    t.release(storage);
  return gradient;
}

// Of the input, then of weight and bias; of many short rows those are summed in two steps
// (layer_norm_kernel.cu of PyTorch).
constexpr void norm_gradients(tape& t, const node& by, const tensor& gradient, gradients& out) {
  const std::int64_t rows = by.argument[0];
  const std::int64_t width = by.argument[1];
  const auto wants = [&](int which) { return by.input[which].node != none; };
  if (wants(0)) out.of[0] = t.make(gradient.size, gradient.format);
  for (int which = 1; which < by.inputs; ++which)
    if (wants(which)) out.of[which] = t.make({width}, gradient.format);
  value together;
  if (!gradient.is_contiguous()) together = t.make(gradient.size, gradient.format);
  const std::int64_t warps = ceil_div(width, 32);
  if (rows <= 65'536 || warps >= t.device.multiprocessors / 2) return;
  const std::int64_t parts = at_most(32'768 / warps, ceil_div(rows, 32));
  value part[most_inputs];
  for (int which = 1; which < by.inputs; ++which)
    if (wants(which)) part[which] = t.make({parts, width}, gradient.format, {"gradient in parts"});
  for (int which = 1; which < by.inputs; ++which)
    if (wants(which)) out.of[which] = sum_to(t, part[which], sizes{width});
}

constexpr void flash_gradients(tape& t,
                               const tensor& gradient,
                               const tensor& q,
                               const tensor& k,
                               const tensor& v,
                               const tensor& result,
                               gradients& out) {
  // The kernel reads both in the order (batch, tokens, heads, head_dim).
  const auto in_order = [&](const tensor& of) {
    tensor turned = of;
    swap_dimensions(turned, 1, 2);
    return turned.is_contiguous() ? none : t.new_storage(of.bytes(), {"copy in order", none, &of});
  };
  const auto like = [&](const tensor& of) { return t.make_like(of.size, of.format, of); };
  const int dense_gradient = in_order(gradient);
  const int dense_result = in_order(result);
  out.of[0] = like(q);
  out.of[1] = like(k);
  out.of[2] = like(v);
  const std::int64_t rows = q.size[0] * q.size[1] * round_up(q.size[2], 128);
  const int row_sums = t.new_storage(4 * rows, {"sums of rows"});
  const int sums = t.new_storage(4 * rows * round_up(q.size[3], q.size[3] > 128 ? 64 : 32),
                                 {"gradient of queries in fp32"});
  if (q.size[1] != k.size[1]) {
    const int all_k = t.new_storage(q.bytes(), {"gradients of keys of all heads"});
    const int all_v = t.new_storage(q.bytes(), {"gradients of values of all heads"});
    t.release(all_k);
    t.release(all_v);
  }
  t.release(row_sums);
  t.release(sums);
  t.release(dense_result);
  t.release(dense_gradient);
}

constexpr void efficient_gradients(
    tape& t, const node& by, const tensor& q, const tensor& k, const tensor& v, gradients& out) {
  const auto like = [&](const tensor& of) {
    value made = t.make({of.size[0], of.size[2], of.size[1], of.size[3]}, of.format);
    swap_dimensions(made.get(), 1, 2);
    return made;
  };
  out.of[0] = like(q);
  out.of[1] = like(k);
  out.of[2] = like(v);
  if (by.inputs > 3 && by.input[3].node != none) {  // of the bias, in rows of whole sixteens
    value rows = t.make({q.size[0], q.size[1], q.size[2], round_up(k.size[2], 16)}, q.format);
    rows.get().size[3] = k.size[2];
    rows.get().is_view = k.size[2] % 16 != 0;
    out.of[3] = std::move(rows);
  }
  int all_k = none;
  int all_v = none;
  if (q.size[1] != k.size[1]) {
    all_k = t.new_storage(q.bytes(), {"gradients of keys of all heads"});
    all_v = t.new_storage(q.bytes(), {"gradients of values of all heads"});
  }
  const std::int64_t heads = q.size[0] * q.size[1];
  const std::int64_t tokens = q.size[2];
  const std::int64_t width = q.size[3];
  int row_sums = none;
  if (is_half(q.format)) {
    row_sums = t.new_storage(4 * heads * tokens, {"sums of rows"});
  } else {
    const int products = t.new_storage(4 * heads * tokens * width, {"gradient times result"});
    row_sums = t.new_storage(4 * heads * tokens, {"sums of rows"});
    if (tokens > 1 && q.size[1] > 1) {  // in the order of the heads
      const int turned = t.new_storage(4 * heads * tokens, {"sums of rows"});
      t.release(row_sums);
      row_sums = turned;
    }
    t.release(products);
  }
  // The kernels' blocks of queries and of keys; halves wider than two blocks sum the gradients of
  // keys and values apart too, in as many parts as leave 200 for all heads.
  const bool is_wide = width > 64;
  const std::int64_t rows = is_wide ? 128 : 64;
  const std::int64_t columns = is_wide && width <= 128 && is_half(q.format) ? 128 : 64;
  std::int64_t workspace = ceil_div(tokens, rows) * ceil_div(width, columns) * (rows * columns + 4);
  if (width > 128 && is_half(q.format)) {
    const std::int64_t parts = at_most(ceil_div(k.size[2], columns), 200 / heads);
    workspace += 2 * at_least(parts, 1) * columns * round_up(width, rows);
  }
  t.touch(4 * heads * workspace);
  t.release(row_sums);
  t.release(all_k);
  t.release(all_v);
}

constexpr void convolution_gradients(
    tape& t, const node& by, const tensor& gradient, const tensor& weight, gradients& out) {
  value together;
  if (!gradient.is_contiguous()) together = t.make(gradient.size, gradient.format);
  const std::int64_t images = gradient.size[0];
  const std::int64_t width = gradient.size[1];
  if (by.input[2].node != none) {
    out.of[2] = t.make(sizes{width}, gradient.format);
    touch(t, scratch_of_reduction(t.device, images * by.argument[1], width, true));
  }
  if (by.input[1].node == none) return;
  out.of[1] = t.make(weight.size, gradient.format);
  const value rows = t.make({by.argument[0], by.argument[1]}, gradient.format);
  t.touch_workspace();  // for each image the same
  t.count_backward(flops_of_product(images * by.argument[1], by.argument[0], width));
}

constexpr bool is_of_region(const node& by) { return by.region != none; }

/// The backward of a torch.autograd.Function: it may make a graph of its own and follow it.
class own_backward {
 public:
  /// `incoming`: the gradients of the results, which the caller holds.
  constexpr virtual void run(tape& t, int node, const value* incoming, gradients& out) const = 0;
  /// Likewise, where the function is handed the gradients to let go of.
  constexpr virtual void consume(tape& t, int node, value* incoming, gradients& out) const {
    run(t, node, incoming, out);
  }

 protected:
  constexpr ~own_backward() = default;
};

constexpr value reduced(tape& t, value gradient, const sizes& wanted, element format) {
  if (!(gradient->size == wanted)) {
    // a scalar's, or what was broadcast; dimensions that the input does not have are summed over
    // even where they have one element
    const int more = gradient->size.rank - wanted.rank;
    bool sums = gradient->count() != wanted.count() || (more > 0 && wanted.rank > 0);
    for (int at = 0; sums && gradient->count() == wanted.count() && at < wanted.rank; ++at)
      sums = gradient->size[more + at] == wanted[at];
    if (sums) {
      value sum = sum_to(t, gradient, wanted);
      gradient = std::move(sum);
      if (more > 0 && wanted.rank > 0) gradient.get().is_view = true;
    } else {
      set_view(gradient.get(), wanted);
    }
  }
  if (gradient->format != format) {
    value other = t.make_like(wanted, format, gradient);
    gradient = std::move(other);
  }
  return gradient;
}

constexpr void tape::run(int index) {
  // Nodes do not move while backward runs: recomputation makes none.
  node& by = nodes[index];
  value incoming[most_outputs];
  for (int at = 0; at < by.outputs; ++at) {
    incoming[at] = value(*this, by.gradient[at]);
    by.gradient[at] = {};
  }
  const tensor& g = *incoming[0];
  gradients out;
  const auto wants = [&](int which) { return by.input[which].node != none; };
  const auto dense = [&](const sizes& size, element format) { return make(size, format); };
  const auto like = [&](const tensor& of) { return make_like(of.size, of.format, of); };
  for (int which = 0; which < by.kept; ++which) static_cast<void>(kept_by(index, which));

  switch (by.kind) {
    case node_kind::accumulate:
      break;
    case node_kind::pass:
      if (wants(0)) out.of[0] = share(g);
      if (wants(0) && by.inputs > 1 && wants(1)) out.of[0].get().is_alone = false;
      if (by.inputs > 1 && wants(1)) {
        if (by.argument[0] == 1)
          out.of[1] = like(g);
        else
          out.of[1] = share(g);
      }
      break;
    case node_kind::unit:
      if (by.argument[0] != none) again_->after_backward(static_cast<int>(by.argument[0]));
      for (int at = 0; at < by.inputs; ++at)
        if (wants(at)) out.of[at] = share(*incoming[at]);
      break;
    case node_kind::scale:
    case node_kind::keeps_one:
      out.of[0] = like(g);
      break;
    case node_kind::mask_fill: {
      // torch.where makes a tensor of the number first.
      const int number = by.argument[0] == 0 ? none : new_storage(bytes_of(g.format));
      out.of[0] = like(g);
      release(number);
      break;
    }
    case node_kind::cast:
      out.of[0] = make_like(g.size, static_cast<element>(by.argument[0]), g);
      break;
    case node_kind::view: {
      tensor seen = g;
      if (by.argument[1] != 0) seen.format = static_cast<element>(by.argument[1] - 1);
      if (set_view(seen, by.size[1])) {
        seen.is_view = true;
        hold(seen.storage);
        out.of[0] = value(*this, seen);
      } else {
        value copy = dense(g.size, g.format);
        set_view(copy.get(), by.size[1]);
        out.of[0] = std::move(copy);
      }
      break;
    }
    case node_kind::transpose: {
      tensor seen = g;
      swap_dimensions(seen, static_cast<int>(by.argument[0]), static_cast<int>(by.argument[1]));
      seen.is_view = true;
      hold(seen.storage);
      out.of[0] = value(*this, seen);
      break;
    }
    case node_kind::expand:
      out.of[0] = share(g);
      break;
    case node_kind::slice:
      out.of[0] = dense(by.size[1], g.format);
      break;
    case node_kind::pad:
      out.of[0] = make_like(by.size[1], g.format, g);
      break;
    case node_kind::split: {
      sizes whole;
      whole.rank = static_cast<int>(by.argument[0]);
      for (int at = 0; at < whole.rank; ++at) whole[at] = by.argument[1 + at];
      element format = element::fp32;
      bool is_turned = true;
      for (int at = 0; at < by.outputs; ++at) {
        if (!incoming[at]->defined()) continue;
        format = incoming[at]->format;
        is_turned = is_turned && is_channels_last(*incoming[at]);
      }
      out.of[0] = dense(whole, format);
      if (is_turned) set_channels_last(out.of[0].get());
      break;
    }
    case node_kind::concatenate:
      for (int which = 0; which < by.inputs; ++which) {
        if (!wants(which)) continue;
        tensor seen = g;
        seen.size[static_cast<int>(by.argument[0])] = by.argument[1 + which];
        seen.is_view = true;
        seen.is_alone = true;
        hold(seen.storage);
        out.of[which] = value(*this, seen);
      }
      break;
    case node_kind::product: {
      value conjugate;
      if (by.argument[0] == 1) conjugate = dense(kept_by(index, 0).size, g.format);
      if (wants(1)) out.of[1] = make_like(g.size, g.format, g, kept_by(index, 0));
      if (wants(0)) out.of[0] = make_like(g.size, g.format, g, kept_by(index, wants(1) ? 1 : 0));
      break;
    }
    case node_kind::power: {
      const value one = dense(g.size, g.format);
      const value two = dense(g.size, g.format);
      out.of[0] = dense(g.size, g.format);
      break;
    }
    case node_kind::mean:
      out.of[0] = dense(by.size[1], g.format);
      break;
    case node_kind::reciprocal_root: {
      const value one = dense(g.size, g.format);
      const value two = dense(g.size, g.format);
      out.of[0] = dense(g.size, g.format);
      break;
    }
    case node_kind::sum: {
      tensor seen = g;
      seen.size = by.size[1];
      const int summed = static_cast<int>(by.argument[0]);
      for (int at = seen.size.rank - 1; at >= 0; --at)
        seen.stride[at] = at == summed ? 0 : g.stride[at < summed ? at : at - 1];
      seen.is_view = true;
      hold(seen.storage);
      out.of[0] = value(*this, seen);
      break;
    }
    case node_kind::quotient: {
      value divided = dense(g.size, g.format);
      value divided_twice = dense(g.size, g.format);
      value negative = dense(g.size, g.format);
      out.of[1] = dense(g.size, g.format);
      negative.drop();
      divided_twice.drop();
      divided.drop();
      out.of[0] = dense(g.size, g.format);
      break;
    }
    case node_kind::clamp: {
      const value zero = dense(sizes{1}, g.format);
      const value passes = dense(g.size, element::boolean);
      out.of[0] = dense(g.size, g.format);
      break;
    }
    case node_kind::vector_norm: {
      const tensor& x = kept_by(index, 0);
      const value direction = dense(x.size, g.format);
      const value is_zero = dense(g.size, element::boolean);
      out.of[0] = dense(x.size, g.format);
      break;
    }
    case node_kind::convolution:
      convolution_gradients(*this, by, g, kept_by(index, 1), out);
      break;
    case node_kind::mm:
    case node_kind::addmm: {
      const int first = by.kind == node_kind::addmm ? 1 : 0;
      const std::int64_t rows = by.argument[0];
      const std::int64_t in = by.argument[1];
      const std::int64_t to = by.argument[2];
      const bool is_upright = by.argument[3] == 1;  // the matrix is (in, to)
      count_backward(((wants(first) ? 1 : 0) + (wants(first + 1) ? 1 : 0)) *
                     flops_of_product(rows, in, to));
      const auto of_weight = [&] {
        if (!wants(first + 1)) return;
        value made = dense(is_upright ? sizes{in, to} : sizes{to, in}, g.format);
        if (!is_upright) {
          swap_dimensions(made.get(), 0, 1);
          made.get().is_view = true;
        }
        touch_workspace();
        out.of[first + 1] = std::move(made);
      };
      if (by.kind == node_kind::mm) of_weight();
      if (wants(first)) {
        out.of[first] = dense({rows, in}, g.format);
        touch_workspace();
      }
      if (by.kind == node_kind::addmm) {
        of_weight();
        if (wants(0)) out.of[0] = share(g);
      }
      break;
    }
    case node_kind::bmm: {
      const std::int64_t batch = by.argument[0];
      const std::int64_t m = by.argument[1];
      const std::int64_t k = by.argument[2];
      const std::int64_t n = by.argument[3];
      count_backward(((wants(0) ? 1 : 0) + (wants(1) ? 1 : 0)) * flops_of_product(batch * m, k, n));
      if (wants(1)) {
        out.of[1] = dense({batch, k, n}, g.format);
        if (m != 1) touch_workspace();
      }
      if (wants(0)) {
        out.of[0] = dense({batch, m, k}, g.format);
        if (n != 1) touch_workspace();
      }
      break;
    }
    case node_kind::layer_norm: {
      value together;
      const tensor& x = kept_by(index, 0);
      if (!x.is_contiguous()) together = dense(x.size, x.format);
      norm_gradients(*this, by, g, out);
      break;
    }
    case node_kind::rms_norm:
      norm_gradients(*this, by, g, out);
      break;
    case node_kind::softmax: {
      out.of[0] = dense(g.size, static_cast<element>(by.argument[0]));
      touch(g.bytes());
      break;
    }
    case node_kind::embedding: {
      value ids;
      value rows;
      if (!kept_by(index, 0).is_contiguous()) ids = dense(kept_by(index, 0).size, element::int64);
      if (!g.is_contiguous()) rows = dense(g.size, g.format);
      out.of[0] =
          embedding_gradient(*this, by.argument[0], by.argument[1], by.argument[2], g.format);
      break;
    }
    case node_kind::flash:
      count_attention_backward(*this, by, kept_by(index, 0), kept_by(index, 1));
      flash_gradients(*this,
                      g,
                      kept_by(index, 0),
                      kept_by(index, 1),
                      kept_by(index, 2),
                      kept_by(index, 3),
                      out);
      break;
    case node_kind::efficient:
      count_attention_backward(*this, by, kept_by(index, 0), kept_by(index, 1));
      efficient_gradients(*this, by, kept_by(index, 0), kept_by(index, 1), kept_by(index, 2), out);
      break;
    case node_kind::log_softmax:
      out.of[0] = dense(g.size, g.format);
      break;
    case node_kind::nll: {
      const tensor& logs = kept_by(index, 0);
      out.of[0] = dense(logs.size, logs.format);
      break;
    }
    case node_kind::mean_square:
      for (int which = 0; which < 2; ++which)
        if (wants(which)) out.of[which] = dense(kept_by(index, which).size, g.format);
      break;
    case node_kind::function:
      break;
  }
  hand_on(index, incoming, out);
}

constexpr void tape::run_function(int index) {
  value incoming[most_outputs];
  for (int at = 0; at < nodes[index].outputs; ++at) {
    incoming[at] = value(*this, nodes[index].gradient[at]);
    nodes[index].gradient[at] = {};
  }
  gradients out;
  nodes[index].own->consume(*this, index, incoming, out);
  for (value& gradient : incoming) gradient.drop();  // the function's arguments
  hand_on(index, incoming, out);
}

constexpr void tape::hand_on(int index, value* incoming, gradients& out) {
  const node& by = nodes[index];
  if (is_of_region(by)) drop_kept(index);
  for (int which = 0; which < by.inputs; ++which) {
    if (by.input[which].node == none) {
      out.of[which] = value();
      continue;
    }
    const node& to = nodes[by.input[which].node];
    const int output = by.input[which].output;
    const element format = to.takes_any_format ? out.of[which]->format : to.format[output];
    out.of[which] = reduced(*this, std::move(out.of[which]), to.size[output], format);
  }
  for (int at = 0; at < most_outputs; ++at) incoming[at].drop();
  if (!is_of_region(by)) drop_kept(index);
  end_of_region(by);
  const int inputs = by.inputs;
  edge to[most_inputs];
  for (int which = 0; which < inputs; ++which) to[which] = by.input[which];
  for (int which = 0; which < inputs; ++which)
    if (to[which].node != none) deliver(to[which], std::move(out.of[which]));
}

constexpr void tape::deliver(const edge& to, value gradient) {
  node& target = nodes[to.node];
  tensor& there = target.gradient[to.output];
  if (!there.defined()) {
    there = gradient.take();
  } else if (storages[there.storage].holders == 1 && !there.is_view && !target.distributed) {
    gradient.drop();
  } else {
    value sum = make_like(there.size, there.format, there, gradient);
    release(there.storage);
    there = sum.take();
  }
  --target.pending;
}

/// Whether a gradient may stay in this order: that of a leaf without gaps, else the usual one.
constexpr bool suits(const tensor& gradient, const tensor& leaf) {
  if (!is_dense(leaf)) return gradient.is_contiguous();
  for (int at = 0; at < leaf.size.rank; ++at)
    if (leaf.size[at] != 1 && gradient.stride[at] != leaf.stride[at]) return false;
  return true;
}

constexpr void tape::accumulate(int index) {
  node& by = nodes[index];
  if (by.parameter == none && by.argument[0] == none) {
    tensor& arrived = by.gradient[0];
    if (storages[arrived.storage].holders == 1 && suits(arrived, by.gradient[1])) return;
    const tensor own = make_like(by.size[0], by.format[0], by.gradient[1]).take();
    release(arrived.storage);
    arrived = own;
    return;
  }
  tensor arrived = by.gradient[0];
  by.gradient[0] = {};
  if (by.parameter == none) {
    leaves_[static_cast<int>(by.argument[0])].gradient = arrived;
    return;
  }
  arrive(by.parameter, arrived);
}

constexpr void tape::arrive(int parameter, const tensor& arrived) {
  parameter_record& record = parameters[parameter];
  const bool is_whole = record.whole.defined();
  const tensor& data = is_whole ? record.whole : record.data;
  tensor& gradient = is_whole ? record.whole_gradient : record.gradient;
  if (!gradient.defined()) {
    if (storages[arrived.storage].holders == 1 || arrived.is_alone) {
      gradient = arrived;
    } else {
      gradient = make(data.size, arrived.format).take();
      release(arrived.storage);
    }
    mark(gradient.storage, purpose::gradients);
    name(gradient.storage, {"gradient", parameter, nullptr, &gradient});
  } else {
    release(arrived.storage);
  }
  if (again_ != nullptr) again_->gradient_is_there(parameter);
}

constexpr void tape::follow(const tensor& from, const tensor& gradient, int first) {
  growing_array<bool> reached;
  for (int at = first; at <= from.node; ++at) {
    nodes[at].pending = 0;
    reached.push(at == from.node);
  }
  for (int at = from.node; at >= first; --at) {
    if (!reached[at - first]) continue;
    for (int which = 0; which < nodes[at].inputs; ++which) {
      const int to = nodes[at].input[which].node;
      if (to == none) continue;
      ++nodes[to].pending;
      reached[to - first] = true;
    }
  }
  const scope<bool> inside(*this, in_backward_, true);
  const scope<int> ran(*this, running_, running_);
  hold(gradient.storage);  // so does whoever asked, to the end
  nodes[from.node].gradient[from.output] = gradient;
  for (int at = from.node; at >= first; --at) {
    if (!reached[at - first] || nodes[at].kind == node_kind::accumulate) continue;
    if (nodes[at].layer != layer_) begin(moment::backward, nodes[at].layer);
    running_ = at;
    if (nodes[at].unit != none) again_->before_backward(nodes[at].unit);
    if (nodes[at].kind == node_kind::function)
      run_function(at);
    else
      run(at);
    for (int which = 0; which < nodes[at].inputs; ++which) {
      const int to = nodes[at].input[which].node;
      if (to != none && nodes[to].kind == node_kind::accumulate && nodes[to].pending == 0)
        accumulate(to);
    }
  }
}

constexpr void tape::backward(const tensor& loss) {
  begin(moment::backward);
  const value root =
      make(loss.size, loss.format, {"gradient of the loss"});  // whoever asked holds it to the end
  follow(loss, root, 0);
  if (again_ != nullptr) again_->backward_is_done();
  forget({});
  regions.resize_down(0);
}

}  // namespace gpuplan::eager

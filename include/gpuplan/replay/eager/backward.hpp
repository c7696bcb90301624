#pragma once

// The way back through the graph: which node runs when, and where its gradients go. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <utility>

namespace gpuplan::eager {

constexpr value reduced(tape& t, value gradient, const sizes& wanted, element format) {
  if (!(gradient->size == wanted)) {
    // a scalar's, or what was broadcast; dimensions that the input does not have are summed over
    // even where they have one element
    const int more = gradient->size.rank - wanted.rank;
    const bool differ = gradient->count() != wanted.count() || wanted.count() == 0;
    bool sums = differ || (more > 0 && wanted.rank > 0);
    for (int at = 0; sums && !differ && at < wanted.rank; ++at)
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
    t.executes({&*gradient, &*other});
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
  if (retains_ && by.left_out != 0) by.gradient[0] = share(*incoming[0]).take();
  gradients out;
  for (int which = 0; which < by.kept; ++which) static_cast<void>(kept_by(index, which));
  by.kind->backward({*this, by, index, incoming, *incoming[0], out.of});
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
  if (by.region != none) drop_kept(index);
  for (int which = 0; which < by.inputs; ++which) {
    if (!by.goes_to(which)) {
      out.of[which] = value();
      continue;
    }
    const node& to = nodes[by.input[which].node];
    const int output = by.input[which].output;
    const element format = to.takes_any_format ? out.of[which]->format : to.format[output];
    out.of[which] = reduced(*this, std::move(out.of[which]), to.size[output], format);
  }
  for (int at = 0; at < most_outputs; ++at) incoming[at].drop();
  if (by.region == none) drop_kept(index);
  end_of_region(by);
  const int inputs = by.inputs;
  edge to[most_inputs];
  for (int which = 0; which < inputs; ++which)
    if (by.goes_to(which)) to[which] = by.input[which];
  for (int which = 0; which < inputs; ++which)
    if (to[which].node != none) deliver(to[which], std::move(out.of[which]));
}

constexpr void tape::deliver(const edge& to, value gradient) {
  node& target = nodes[to.node];
  tensor& there = target.gradient[to.output];
  if (!there.defined()) {
    there = gradient.take();
  } else if (storages[there.storage].holders == 1 && !there.is_view && !target.distributed) {
    executes({&there, &*gradient, &there});
    gradient.drop();
  } else {
    // Autograd goes back on the stream on which a flat parameter was split, and adds there.
    const bool is_flat = gathering_.are_flat && target.parameter != none;
    const auto where = on_stream(is_flat ? streams::weights : stream());
    value sum = make_like(there.size, there.format, there, gradient);
    executes({&there, &*gradient, &*sum});
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
    executes({&own, &arrived, &own}, work_of_copy(arrived, own));
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
      executes({&gradient, &arrived, &gradient}, work_of_copy(arrived, gradient));
      release(arrived.storage);
    }
    mark(gradient.storage, purpose::gradients);
    name(gradient.storage, {"gradient", parameter, nullptr, &gradient});
  } else {
    executes({&gradient, &arrived, &gradient});
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
      if (!nodes[at].goes_to(which)) continue;
      const int to = nodes[at].input[which].node;
      ++nodes[to].pending;
      reached[to - first] = true;
    }
  }
  const mode_scope inside(*this, in_backward_, true);
  const mode_scope ran(*this, running_, running_);
  hold(gradient.storage);  // so does whoever asked, to the end
  nodes[from.node].gradient[from.output] = gradient;
  for (int at = from.node; at >= first; --at) {
    if (!reached[at - first] || nodes[at].kind == &node_kind::accumulate) continue;
    if (nodes[at].layer != layer_) begin(moment::backward, nodes[at].layer);
    running_ = at;
    if (nodes[at].unit != none) again_->before_backward(nodes[at].unit);
    if (nodes[at].kind == &node_kind::function)
      run_function(at);
    else
      run(at);
    for (int which = 0; which < nodes[at].inputs; ++which) {
      if (!nodes[at].goes_to(which)) continue;
      const int to = nodes[at].input[which].node;
      if (nodes[to].kind == &node_kind::accumulate && nodes[to].pending == 0) accumulate(to);
    }
  }
}

constexpr void tape::follow_to(const tensor& leaf,
                               const tensor& from,
                               const tensor& gradient,
                               int first) {
  growing_array<bool> leads;
  for (int at = first; at <= from.node; ++at) {
    node& by = nodes[at];
    unsigned char others = 0;
    bool is_on_the_way = at == leaf.node;
    for (int which = 0; which < by.inputs; ++which) {
      if (!by.leads_back(which)) continue;
      if (leads[by.input[which].node - first])
        is_on_the_way = true;
      else
        others = static_cast<unsigned char>(others | 1U << which);
    }
    if (is_on_the_way) by.left_out = others;
    leads.push(is_on_the_way);
  }
  const mode_scope stays(*this, retains_, true);
  follow(from, gradient, first);
}

constexpr int tape::accumulate_left_out(int index) const {
  int at = index;
  for (int which = 0; which < nodes[index].inputs; ++which)
    if (nodes[index].left_out >> which & 1) at = nodes[index].input[which].node;
  while (nodes[at].kind != &node_kind::accumulate) at = nodes[at].input[0].node;
  return at;
}

constexpr value tape::gradient_left_out(int index) {
  node& by = nodes[index];
  const int leaf = accumulate_left_out(index);
  unsigned char others = 0;
  int at = none;
  for (int which = 0; which < by.inputs; ++which) {
    if (by.goes_to(which))
      others = static_cast<unsigned char>(others | 1U << which);
    else if (by.leads_back(which))
      at = by.input[which].node;
  }
  by.left_out = others;
  const mode_scope inside(*this, in_backward_, true);
  const mode_scope ran(*this, running_, index);
  if (by.layer != layer_) begin(moment::backward, by.layer);
  run(index);
  for (; at != leaf; at = nodes[at].input[0].node) {
    running_ = at;
    run(at);
  }
  return gradient_of_node(leaf);
}

constexpr void tape::backward(const tensor& loss) {
  begin(moment::backward);
  const value root =
      make(loss.size, loss.format, {"gradient of the loss"});  // whoever asked holds it to the end
  {
    const auto goes_back = going_back();
    executes({&loss, &*root});
  }
  follow(loss, root, 0);
  {
    const auto goes_back = going_back();
    if (again_ != nullptr) again_->backward_is_done();
  }
  forget({});
  regions.resize_down(0);
}

}  // namespace gpuplan::eager

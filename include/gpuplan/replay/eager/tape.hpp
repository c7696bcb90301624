#pragma once

// Eager mode's bookkeeping: the graph that backward follows, and what of it is kept. Private.
//
// The rules are PyTorch's. An operator keeps what its backward needs, for inputs that need a
// gradient. Backward runs the nodes by falling creation number; in a node results are allocated,
// then summed over broadcast dimensions and cast to the input's format, then the incoming gradient
// dies, then what was kept. A second gradient of a value is added into the first where nothing else
// holds that, else into a new tensor; of a parameter, the first is taken over and later ones are
// added into it.

#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/eager/node.hpp>
#include <gpuplan/replay/eager/storage_table.hpp>
#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gpuplan::eager {

/// A trained or frozen parameter, as the optimizer has it.
struct parameter_record {
  tensor data{};
  tensor gradient{};
  tensor whole{};                        // what operators read, where `data` is a rank's part,
  tensor whole_gradient{};               // and its gradient
  bool is_moved = false;                 // to the device, and cast
  bool is_distributed = false;           // a DTensor,
  int parted_along = 0;                  // dimension of which `data` is a rank's part,
  std::int64_t ranks_apart = 0;          // on so many others than most have it; 0: on the same,
  sizes matrix{};                        // that it is in full, where it is stored in blocks
  sizes gradient_size{};                 // of a gradient that is larger than the part,
  std::int64_t redistributed_bytes = 0;  // what an operator takes to read a gradient as a part
  bool is_seen_whole = false;            // by its module, between forwards too
  bool sums_whole_gradient = false;      // over ranks, before its parts are reduced,
  bool casts_whole_gradient = false;     // and that in the format of the parts
  int node = none;                       // in the present graph
  bool trains = true;
  bool is_idle = false;   // trains, but no loss reads it: it has no gradient, and no states
  bool is_table = false;  // of a torch.nn.Embedding
  int unit = none;        // of sharding: the layer it belongs to, or none
  int twin = none;        // the parameter whose part, gradient and states are its own too
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
  /// Around the forward of a module whose matrix trains beside frozen ones: its result.
  constexpr virtual void before_adapter(int /*weight*/) {}
  constexpr virtual void after_adapter(int /*weight*/, const tensor& /*result*/) {}
  constexpr virtual void backward_is_done() {}

 protected:
  constexpr ~recomputer() = default;
};

/// How parameters are put together before they are read, where ranks hold parts of them.
struct gathered_parameters {
  bool is_on = true;
  std::int64_t ranks = 1;                // each holds a part
  element whole_format = element::fp32;  // of one that is put together,
  element first_gradients{};             // and of its gradient, where that is the first;
  bool takes_any_gradient = false;       // or that stays in the format in which it arrives
  bool weights_on_host = false;          // parameters take no memory here
  bool keeps_formats = false;            // each is put together in its own
  bool are_made_later = false;           // parts, by the engine, once the model is there,
  bool are_flat = false;                 // and are of several at once
  bool divides_elements = false;         // a part is of elements, made beside the whole
};

/// The operations of the matrix products of a step: 2 for each multiplication with its addition.
struct product_flops {
  double forward = 0;
  double backward = 0;
  double recomputed = 0;  // of the forward, once more
};

class tape : public storage_table {
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
      : storage_table(*this, memory, watcher), device(of_device), software(of_software) {}

  const device_traits device;
  const software_traits software;

  // -- modes, each for as long as what is returned lives

  /// torch.no_grad
  [[nodiscard]] constexpr auto without_graph() { return mode_scope(*this, records_, false); }
  /// torch.enable_grad
  [[nodiscard]] constexpr auto with_graph() { return mode_scope(*this, records_, true); }
  /// torch.autocast to the format, or not; scopes of it do not nest.
  [[nodiscard]] constexpr auto autocast(bool is_on, element format) {
    return autocast_scope(*this, is_on, format);
  }
  [[nodiscard]] constexpr auto without_autocast() { return mode_scope(*this, autocasts_, false); }
  /// Operators work on DTensors: sums of their gradients are new tensors.
  [[nodiscard]] constexpr auto on_distributed() { return mode_scope(*this, distributed_, true); }
  /// Parameters are built for this layer.
  [[nodiscard]] constexpr auto building_unit(std::int64_t index) {
    return mode_scope(*this, unit_, static_cast<int>(index));
  }

  /// Of parameters ranks have parts along this dimension.
  [[nodiscard]] constexpr auto parting_along(int dimension) {
    return mode_scope(*this, parted_along_, dimension);
  }
  /// Parameters have parts on so many other ranks than most; of 0 on the same.
  [[nodiscard]] constexpr auto parting_apart(std::int64_t ranks) {
    return mode_scope(*this, ranks_apart_, ranks);
  }

  [[nodiscard]] constexpr bool autocasts() const { return autocasts_; }
  /// The format in which a matrix product reads what is stored in this one.
  [[nodiscard]] constexpr element computes_in(element stored) const {
    return autocasts_ ? autocast_format_ : stored;
  }
  [[nodiscard]] constexpr int unit() const { return unit_; }
  /// Units from this one on are of no layer.
  constexpr void end_layers_at(int unit) { end_of_layers_ = unit; }
  [[nodiscard]] constexpr int layer_of(int unit) const {
    return end_of_layers_ == none || unit < end_of_layers_ ? unit : none;
  }
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
  constexpr void recompute_by(recomputer& code) { again_ = &code; }

  growing_array<parameter_record> parameters{};
  growing_array<node> nodes{};
  growing_array<tensor> kept{};
  growing_array<int> moved{};       // parameters, in the order of the modules
  growing_array<tensor> buffers{};  // of the model; whoever made them holds them

  product_flops products{};  // so far

  /// Products of a forward run, as many as the work says,
  constexpr void count_product(const matrix_product& product,
                               std::initializer_list<const tensor*> operands,
                               device_work work = {.kernels = 0, .products = 1}) {
    count_forward(work.products * product.flops());
    work.product = product;
    executes(operands, work);
  }
  /// or those of a backward.
  constexpr void count_backward(const matrix_product& product,
                                std::initializer_list<const tensor*> operands,
                                device_work work = {.kernels = 0, .products = 1}) {
    products.backward += work.products * product.flops();
    work.product = product;
    executes(operands, work);
  }
  /// Operations in a kernel that is none of cuBLAS.
  constexpr void count_forward(double flops) {
    if (stopped_) return;
    double& part = recomputes_ != none || in_backward_ ? products.recomputed : products.forward;
    part += flops;
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
  constexpr void begin_micro_batch() { memory_->begin_micro_batch(); }

  // -- the graph

  /// What a tensor's gradient goes to; none where it needs none.
  [[nodiscard]] static constexpr edge edge_of(const tensor& of) { return {of.node, of.output}; }

  /// A node with the inputs that need a gradient, or none where none does. Inside a recomputation
  /// there is a graph already: the answer tells only whether there would be a node.
  constexpr int add_node(const node_kind& kind, std::initializer_list<const tensor*> inputs) {
    if (!records_) return none;
    bool any = false;
    for (const tensor* input : inputs) any = any || input->needs_gradient();
    if (!any) return none;
    if (recomputes_ != none) return 0;
    node made;
    made.kind = &kind;
    for (const tensor* input : inputs) made.input[made.inputs++] = edge_of(*input);
    made.first_kept = kept.size();
    made.region = region_;
    made.layer = layer_;
    made.distributed = distributed_;
    return nodes.push(made);
  }
  int add_node(const node_kind&&, std::initializer_list<const tensor*>) = delete;  // would be gone
  /// Likewise, with a backward of its own.
  constexpr int add_node(const own_backward& own, std::initializer_list<const tensor*> inputs) {
    const int index = add_node(node_kind::function, inputs);
    if (node* made = at(index)) made->own = &own;
    return index;
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
  /// Notes numbers that the node's backward reads.
  constexpr void note(int index, std::initializer_list<std::int64_t> numbers) {
    node* const by = at(index);
    if (by == nullptr) return;
    std::int64_t* argument = by->argument;
    for (const std::int64_t number : numbers) *argument++ = number;
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

  /// What follows reads the inputs through a node each, of which backward meets the last one when
  /// all of the unit's gradients are there: `end_backward_of` is told then.
  constexpr void read_by_unit(int unit, value* inputs, int count) {
    int last = none;
    for (int which = 0; which < count; ++which) {
      if (!inputs[which]->needs_gradient()) continue;
      last = add_node(node_kind::unit, {&*inputs[which]});
      nodes[last].argument[0] = none;
      result_of(last, inputs[which].get());
    }
    if (last != none) nodes[last].argument[0] = unit;
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
    const bool is_elsewhere = gathering_.weights_on_host || gathering_.are_made_later;
    const mode_scope of_weights(*this, on_meta_, on_meta_ || is_elsewhere);
    parameter_record& record = parameters[place];
    if (gathering_.is_on) {
      const element whole_format = gathering_.keeps_formats ? format : gathering_.whole_format;
      const std::int64_t ranks = ranks_apart_ != 0 ? ranks_apart_ : gathering_.ranks;
      value whole;
      if (gathering_.divides_elements) whole = make(size, format);
      sizes part = size;
      if (gathering_.divides_elements)
        part = sizes{(size.count() + ranks - 1) / ranks};
      else
        part[parted_along_] = (size[parted_along_] + ranks - 1) / ranks;
      record.parted_along = parted_along_;
      record.ranks_apart = ranks_apart_;
      record.data = make(part, format, {"weight", place}).take();
      record.whole.format = whole_format;
      set_contiguous(record.whole, size);
      if (gathering_.are_flat) return;
      // one that has no memory yet
      record.whole.storage =
          storages.push({ranks * part.count() * bytes_of(whole_format), none, 1, purpose::weights});
      name(record.whole.storage, {"gathered weight", place, nullptr, &record.whole});
    } else {
      record.data = make(size, format, {"weight", place}).take();
    }
  }
  /// A parameter that modules read apart from another, of which it is the same part.
  constexpr int add_twin(int of) {
    parameter_record record = parameters[of];
    record.twin = of;
    record.is_moved = true;
    record.whole.storage =
        storages.push({storages[record.whole.storage].bytes, none, 1, purpose::weights});
    const int place = parameters.push(record);
    name(record.whole.storage, {"gathered weight", place, nullptr, &record.whole});
    return place;
  }
  /// How the operators that read the parameter find it stored.
  [[nodiscard]] constexpr element format_of(int index) const {
    const parameter_record& record = parameters[index];
    return record.whole.defined() ? record.whole.format : record.data.format;
  }
  /// In which format its module has it, which of flat parameters has a part before it runs.
  [[nodiscard]] constexpr element format_before(int index) const {
    const parameter_record& record = parameters[index];
    return gathering_.are_flat && !record.is_seen_whole ? record.data.format : format_of(index);
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
      made.kind = &node_kind::accumulate;
      made.parameter = index;
      made.size[0] = record.gradient_size.rank == 0 ? data.size : record.gradient_size;
      const bool is_first = gathering_.is_on && data.format == gathering_.whole_format &&
                            record.whole.defined() && !record.whole_gradient.defined();
      if (record.casts_whole_gradient)
        made.format[0] = record.data.format;
      else
        made.format[0] = is_first ? gathering_.first_gradients : data.format;
      made.takes_any_format =
          record.whole.defined() && gathering_.takes_any_gradient && !record.casts_whole_gradient;
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
  [[nodiscard]] constexpr int leaves_so_far() const { return leaves_.size(); }
  /// Lets go of what a graph that is gone held, from such a leaf on: of that of a loss, from the
  /// first. Leaves go with their gradients.
  constexpr void drop_leaves(int first = 0) {
    for (int at = first; at < leaves_.size(); ++at) {
      release(leaves_[at].data.storage);
      release(leaves_[at].gradient.storage);
    }
    leaves_.resize_down(first);
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
    made.kind = &node_kind::accumulate;
    made.size[0] = leaf.size;
    made.format[0] = leaf.format;
    made.first_kept = kept.size();
    made.argument[0] = leaves_.push({.data = leaf, .wants_gradient = true});
    hold(leaf.storage);
    leaf.node = nodes.push(made);
  }

  // -- recomputation

  struct region_record {
    recomputer* by = nullptr;
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
  sizes never_stays{};  // (in, out) of matrices whose products are none of these

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

  /// What is kept from here on, `by` computes again.
  constexpr int begin_region(recomputer& by) {
    if (!records_ || recomputes_ != none) return none;
    region_record record;
    record.by = &by;
    record.first = kept.size();
    region_ = regions.push(record);
    return region_;
  }
  /// A recomputation ends with its last operator, not with the last value that is needed.
  constexpr void recompute_to_the_end() { stops_early_ = false; }
  /// Whether one ended: none had begun in a recomputation.
  constexpr bool end_region() {
    const bool ended = region_ != none;
    region_ = none;
    return ended;
  }
  [[nodiscard]] constexpr bool is_recomputing() const { return recomputes_ != none; }
  [[nodiscard]] constexpr bool has_stopped() const { return stopped_; }
  constexpr void begin_recompute(int region) {
    recomputes_ = region;
    leaves_before_ = leaves_.size();
    computes_again_ = true;
    memory_->begin_again();
  }
  constexpr void end_recompute() {
    drop_leaves(leaves_before_);
    recomputes_ = none;
    computes_again_ = false;
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
  /// Drops the copy of a parameter: of a view of one autocast keeps none.
  constexpr void forget_cast(int index) { drop_cast(cached_cast(index)); }
  // -- backward

  /// Tells that a unit's backward is done.
  constexpr void end_backward_of(int unit) { again_->after_backward(unit); }
  /// Around an adapter's matrix, which may be a unit of its own.
  constexpr void begin_adapter(int weight) {
    if (again_ != nullptr) again_->before_adapter(weight);
  }
  constexpr void end_adapter(int weight, const tensor& result) {
    if (again_ != nullptr) again_->after_adapter(weight, result);
  }
  /// Follows the graph from the loss, whose gradient is made, and forgets the graph.
  constexpr void backward(const tensor& loss);
  /// Follows the graph from a tensor whose gradient is given, down to the node `first`. Several
  /// graphs may follow each other: `begin_graph` tells where one begins, `forget` drops those from
  /// there on.
  constexpr void follow(const tensor& from, const tensor& gradient, int first);
  /// Likewise, to one leaf and to no parameter (torch.autograd.grad, retain_graph). The graph keeps
  /// what it kept. Where its way passes an operator that a parameter goes into, that operator's
  /// `left_out` is set, and it keeps the gradient of its result.
  constexpr void follow_to(const tensor& leaf,
                           const tensor& from,
                           const tensor& gradient,
                           int first);
  /// The accumulate node behind what such an operator left out,
  [[nodiscard]] constexpr int accumulate_left_out(int index) const;
  /// and the gradient that arrives there: the operator lets go of what it kept.
  [[nodiscard]] constexpr value gradient_left_out(int index);
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
  /// How many nodes there are.
  [[nodiscard]] constexpr int nodes_so_far() const { return nodes.size(); }
  /// Nobody has the results of these nodes any more, and none behind them reads them: what they
  /// kept goes.
  constexpr void drop_nodes(int first, int last) {
    for (int at = first; at < last; ++at) {
      drop_kept(at);
      end_of_region(nodes[at]);
    }
  }
  /// Likewise of the nodes since `first` that none of these tensors goes back to.
  constexpr void drop_nodes_but(int first, const growing_array<tensor>& in_use) {
    growing_array<bool> reached;
    for (int at = first; at < nodes.size(); ++at) reached.push(false);
    const auto reach = [&](int node) {
      if (node >= first) reached[node - first] = true;
    };
    for (int at = 0; at < in_use.size(); ++at) reach(in_use[at].node);
    for (int at = nodes.size() - 1; at >= first; --at)
      for (int which = 0; reached[at - first] && which < nodes[at].inputs; ++which)
        reach(nodes[at].input[which].node);
    for (int at = first; at < nodes.size(); ++at)
      if (!reached[at - first]) drop_nodes(at, at + 1);
  }
  /// The tensor as one that no operator made and whose gradient is wanted.
  [[nodiscard]] constexpr value leaf(const tensor& of) {
    node made;
    made.kind = &node_kind::accumulate;
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
    return gradient_of_node(of_leaf.node);
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
      const mode_scope nothing_runs(*this, running_, none);
      regions[region].by->recompute(region);
    }
    return kept[place];
  }

 private:
  [[nodiscard]] constexpr value gradient_of_node(int index) {
    tensor& there = nodes[index].gradient[0];
    const tensor taken = there;
    there = {};
    return {*this, taken};
  }
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
    if (++region.made == region.count) stopped_ = stops_early_;
  }
  constexpr void drop_kept(int index) {
    if (retains_) return;
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
    region.by->region_is_done(by.region);
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

  bool records_ = true;
  bool autocasts_ = false;
  element autocast_format_ = element::bf16;
  bool distributed_ = false;
  bool retains_ = false;  // what a backward needed
  int unit_ = none;
  int parted_along_ = 0;
  std::int64_t ranks_apart_ = 0;
  int end_of_layers_ = none;
  int layer_ = none;
  int running_ = none;
  gathered_parameters gathering_{.is_on = false};
  recomputer* again_ = nullptr;
  growing_array<leaf_record> leaves_{};
  int leaves_before_ = 0;    // this recomputation
  bool stops_early_ = true;  // a recomputation
  int region_ = none;
  int recomputes_ = none;
  int kept_workspaces_[2][2]{{none, none}, {none, none}};  // by thread: of products, of biases
};

}  // namespace gpuplan::eager

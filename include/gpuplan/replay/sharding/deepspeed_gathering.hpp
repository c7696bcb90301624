#pragma once

// The parameters of DeepSpeed's ZeRO-3: when they are gathered, and when freed. Private.
// Transcribed from DeepSpeed 0.19: runtime/zero/parameter_offload.py,
// runtime/zero/partitioned_param_coordinator.py, runtime/zero/partition_parameters.py and
// runtime/zero/linear.py.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/deepspeed.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Every rank has a part of each parameter. Before a module runs, its parameters are gathered, and
/// those that modules after it will ask for; behind it they are freed, where none of the next
/// modules needs them. In which order modules run is learnt in the first forward and backward.
class deepspeed_gathering : public deepspeed_engine {
 public:
  constexpr deepspeed_gathering(tape& on, const training_setup& of, const batch_plan& with)
      : deepspeed_engine(on, of, with),
        gathering_stream_(of.framework.engine.overlaps_reduction ? 1 : 0),
        has_adapters_(of.trains.what == training::adapters),
        scores_without_graph_(of.objective == training_objective::preference &&
                              of.reference == reference_model::without_adapters) {}
  constexpr ~deepspeed_gathering() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void begins(model_code& code) override {
    deepspeed_engine::begins(code);
    code.is_watched = true;
    code.adapters.watched = &code;
    t_.take_gradients(format_);
    if (is_divided_while_building() && ranks_ > 1)
      t_.gather_parameters({.ranks = ranks_,
                            .whole_format = format_,
                            .first_gradients = format_,
                            .divides_elements = true});
  }
  constexpr void base_is_built() override {
    t_.gather_parameters({.is_on = false, .first_gradients = format_});
    frozen_are_divided_ = is_divided_while_building() && ranks_ > 1;
  }

  // -- hooks of modules

  constexpr value module_begins(const tensor& input, const watched_module& given) override {
    if (t_.has_stopped()) return t_.share(input);
    const watched_module by = as_hooks_see(given);
    fetch(by, true);
    value seen = t_.share(input);
    return with_input_hook(std::move(seen), by);
  }
  constexpr value module_ends(value result, const watched_module& given) override {
    if (t_.has_stopped()) return result;
    const watched_module by = as_hooks_see(given);
    if (is_in_blocks(by.weight) && result->needs_gradient()) hold_blocks(by.weight);
    release(by, true);
    return with_hook(std::move(result), by, false);
  }
  /// LinearFunctionForZeroStage3: keeps the parameters, not views of what they were.
  constexpr value linear(const tensor& x, const watched_module& by) override {
    const value input = module_begins(x, by);
    return module_ends(product(input, by), by);
  }
  /// Layers are modules too, but their hooks do not run when they are computed again.
  constexpr void before_unit(int layer, value* inputs, int /*count*/) override {
    if (t_.is_recomputing()) return;
    fetch({.layer = layer}, true);
    if (has_adapters_) inputs[0] = with_input_hook(std::move(inputs[0]), {.layer = layer});
  }
  constexpr void after_unit(int layer, const tensor& result) override {
    if (!t_.is_recomputing() && result.needs_gradient())
      t_.nodes[result.node].unit = 2 * hook({.layer = layer});
  }
  constexpr void before_backward(int hook) override { after_backward(hook); }
  /// Of a module, as its hooks are numbered: its backward begins, or is done.
  constexpr void after_backward(int hook) override {
    const watched_module by = hooked_[hook / 2];
    if (hook % 2 == 0)
      fetch(by, false);
    else if (!is_disarmed_[hook / 2])
      release(by, false);
  }
  /// The head's matrix, which the model reads itself, is among the model's own parameters from its
  /// first step on (register_external_parameter).
  constexpr void model_begins(const watched_module& head) override {
    reset();
    for (int at = 1; at < modules_around(); ++at) static_cast<void>(module_begins({}, {}));
    static_cast<void>(module_begins({}, head));
  }
  constexpr value model_ends(value result, const watched_module& head) override {
    result = module_ends(std::move(result), head);
    for (int at = 1; at < modules_around(); ++at) result = module_ends(std::move(result), {});
    return result;
  }

 protected:
  enum class status : unsigned char { absent, in_flight, available };
  struct parameter_state {
    std::int64_t elements = 0;
    std::int64_t part = 0;  // of them on each rank
    status now = status::absent;
    bool persists = false;
    bool active[2]{};  // in which of its modules it is at work
    int held = 0;      // by modules whose backward computes another again
    element format{};  // in which ranks have parts of it
    bool is_in_blocks = false;
    int handle = none;         // of the gathering that nobody has waited for
    std::int64_t fetched = 0;  // for which step at last
  };

  [[nodiscard]] constexpr bool has_whole(int parameter) const {
    return t_.parameters[parameter].whole.defined();
  }
  // Leaves a part of the next parameter.
  constexpr void divide(int parameter) {
    parameter_record& record = t_.parameters[parameter];
    parameter_state made;
    made.elements = record.whole.defined() ? record.whole.count() : record.data.count();
    made.format = record.data.format;
    made.is_in_blocks = !record.whole.defined() && code_->quantised.is_in_blocks(record.data);
    if (made.is_in_blocks) {
      made.format = code_->quantised.stored_as();
      made.elements = t_.storages[record.data.storage].bytes / bytes_of(made.format);
    }
    made.part = ceil_div(made.elements, ranks_);
    made.persists = made.elements <= zero_.persistence_threshold;
    states_of_.push(made);
    if (record.whole.defined()) return;
    if (ranks_ > 1) {
      record.whole = record.data;
      reserve_whole(parameter);
    }
    const int part = make(purpose::weights, made.part * bytes_of(made.format));
    drop(record.data.storage);
    record.data.storage = part;
  }
  // Frees what no hook released, as of modules whose input needs no gradient.
  constexpr void end_backward() {
    while (at_work_.size() > 0) {
      const watched_module by = at_work_.back();
      at_work_.resize_down(at_work_.size() - 1);
      for (const int parameter : {by.weight, by.bias}) {
        if (parameter == none) continue;
        states_of_[parameter].active[by.is_second ? 1 : 0] = false;
        if (!states_of_[parameter].persists) free(parameter);
      }
      free_what_was_gathered_again(by);
    }
  }
  // Before the optimizer updates them
  constexpr void free_all() {
    for (int at = 0; at < states_of_.size(); ++at) {
      wait_for(at);
      states_of_[at].active[0] = states_of_[at].active[1] = false;
      free(at);
    }
  }
  // and behind that.
  constexpr void gather_persistent() {
    int count = 0;
    for (int at = 0; at < states_of_.size(); ++at) count += states_of_[at].persists ? 1 : 0;
    for (int at = 0; at < states_of_.size(); ++at) {
      parameter_state& of = states_of_[at];
      if (!of.persists) continue;
      if (has_whole(at))
        give_memory(at, ranks_ * of.part);
      else if (count == 1)
        t_.touch(of.part * bytes_of(of.format));
      of.now = status::available;
    }
  }

  growing_array<parameter_state> states_of_{};

 private:
  // Parameters that are gathered together, those of a format into a buffer from which each is then
  // copied.
  struct gathering {
    int buffer = none;
    int other_buffer = none;  // not in the weights' format
    int first = 0;            // of its members
    int count = 0;
    int waiting = 0;
    bool is_complete = false;
  };
  struct wanted {
    int parameter = none;
    std::int64_t step = 0;
  };

  [[nodiscard]] constexpr bool is_in_blocks(int parameter) const {
    return parameter != none && states_of_[parameter].is_in_blocks;
  }
  // The context of MatMul4Bit has a view of what was gathered, which lives as long as the graph:
  // what is freed is then not given back, and gathered again for the backward.
  constexpr void hold_blocks(int parameter) {
    if (has_whole(parameter)) t_.hold_with_graph(t_.parameters[parameter].whole);
  }
  // The place of what will be gathered.
  constexpr void reserve_whole(int parameter) {
    const parameter_state& of = states_of_[parameter];
    tensor& whole = t_.parameters[parameter].whole;
    whole.storage =
        t_.storages.push({of.elements * bytes_of(of.format), none, 1, purpose::weights});
    if (of.is_in_blocks)
      t_.name(whole.storage, {"gathered weight in 4 bits", parameter});
    else
      t_.name(whole.storage, {"gathered weight", parameter, nullptr, &whole});
  }

  // -- the order of modules

  // PEFT's models are two modules around the model.
  [[nodiscard]] constexpr int modules_around() const { return has_adapters_ ? 3 : 1; }
  constexpr value forward() override {
    hooked_.resize_down(0);
    is_disarmed_.resize_down(0);
    if (setup_.objective != training_objective::next_token) return deepspeed_engine::forward();
    reset();
    for (int at = 0; at < modules_around(); ++at) static_cast<void>(module_begins({}, {}));
    value loss = deepspeed_engine::forward();
    for (int at = 0; at < modules_around(); ++at) loss = module_ends(std::move(loss), {});
    return loss;
  }
  // A module that looks at a matrix of its adapter has that among its own parameters
  // (ZeROOrderedDict).
  [[nodiscard]] constexpr watched_module as_hooks_see(const watched_module& given) const {
    if (!given.holds_adapter) return given;
    watched_module seen = given;
    seen.is_second = true;
    return seen;
  }

  constexpr void reset() {
    free_in_flight();
    is_known_ = learns_;
    learns_ = true;
    if (is_known_ && queue_.size() == 0) {
      for (int step = 0; step < order_.size(); ++step)
        for (const int parameter : {order_[step].weight, order_[step].bias})
          if (parameter != none) queue_.push({parameter, step});
    }
    next_ = 0;
    step_ = 0;
    live_ = 0;
    for (int at = 0; at < states_of_.size(); ++at) states_of_[at].fetched = -1;
  }
  constexpr void free_in_flight() {
    for (int at = 0; at < states_of_.size(); ++at) {
      if (states_of_[at].handle == none) continue;
      wait_for(at);
      free(at);
    }
  }
  // Where another module runs than was learnt, as of a model whose adapters are off, all is
  // forgotten until the next forward.
  constexpr void check_order(const watched_module& by) {
    if (!is_known_ || (step_ < order_.size() && order_[step_] == by)) return;
    is_known_ = learns_ = false;
    order_.resize_down(0);
    queue_.resize_down(0);
    free_in_flight();
  }

  // A module counts those of its inputs that want a gradient, and is freed when the last one's is
  // there: from zero again in each forward, so that one without a graph in between leaves it with
  // what was gathered for its backward.
  constexpr value with_input_hook(value of, const watched_module& by) {
    const bool counts = of->needs_gradient();
    for (int at = 0; scores_without_graph_ && at < hooked_.size(); ++at)
      if (hooked_[at] == by) is_disarmed_[at] = !counts;
    return with_hook(std::move(of), by, true);
  }
  // What follows, or what was before, passes through a node that runs the hook on its way back.
  constexpr value with_hook(value of, const watched_module& by, bool is_input) {
    if (!of->needs_gradient()) return of;
    const bool frees = by.has_parameters() || by.holds_adapter || by.layer != none;
    if (is_input && !frees) return of;
    const int node_of_hook = t_.add_node(node_kind::unit, {&*of});
    if (node* made = t_.at(node_of_hook)) made->argument[0] = 2 * hook(by) + (is_input ? 1 : 0);
    t_.result_of(node_of_hook, of.get());
    return of;
  }

  constexpr int hook(const watched_module& by) {
    is_disarmed_.push(false);
    return hooked_.push(by);
  }

  constexpr void fetch(const watched_module& by, bool is_forward) {
    check_order(by);
    if (!is_known_ && learns_) order_.push(by);
    growing_array<int> missing;
    for (const int parameter : {by.weight, by.bias})
      if (parameter != none && states_of_[parameter].now == status::absent) missing.push(parameter);
    if (missing.size() > 0) gather(missing);
    int not_fetched = 0;
    for (const int parameter : {by.weight, by.bias}) {
      if (parameter == none) continue;
      states_of_[parameter].active[by.is_second ? 1 : 0] = true;
      wait_for(parameter);
      if (states_of_[parameter].fetched < step_) ++not_fetched;
    }
    if (!is_forward && (by.has_parameters() || by.layer != none)) at_work_.push(by);
    if (is_forward && is_going_back_ && at_work_.size() > 0)
      for (const int parameter : {by.weight, by.bias}) {
        if (parameter == none || t_.parameters[parameter].trains) continue;
        again_.push(parameter);
        again_for_.push(at_work_.back());
        ++states_of_[parameter].held;
      }
    if (is_known_) {
      for (; next_ < queue_.size() && not_fetched > 0; ++next_, --not_fetched)
        states_of_[queue_[next_].parameter].fetched = queue_[next_].step;
      prefetch();
    }
    ++step_;
  }

  constexpr void prefetch() {
    const std::int64_t most = at_most(zero_.max_live_parameters - live_, zero_.prefetch_bucket);
    if (zero_.prefetch_bucket == 0) return;
    growing_array<int> fetched;
    std::int64_t elements = 0;
    for (; next_ < queue_.size() && elements < most; ++next_) {
      const wanted& next = queue_[next_];
      parameter_state& of = states_of_[next.parameter];
      of.fetched = at_least(of.fetched, next.step);
      bool is_new = of.now == status::absent;
      for (int at = 0; at < fetched.size(); ++at) is_new = is_new && fetched[at] != next.parameter;
      if (!is_new) continue;
      fetched.push(next.parameter);
      elements += of.elements;
    }
    if (fetched.size() > 0) gather(fetched);
  }

  // all_gather_coalesced
  constexpr void gather(const growing_array<int>& parameters) {
    gathering made;
    made.first = members_.size();
    made.count = made.waiting = parameters.size();
    std::int64_t part = 0, other_bytes = 0;
    for (int at = 0; at < parameters.size(); ++at) {
      // by rising number
      int place = members_.push(parameters[at]);
      for (; place > made.first && is_before(parameters[at], members_[place - 1]); --place)
        members_[place] = members_[place - 1];
      members_[place] = parameters[at];
      parameter_state& of = states_of_[parameters[at]];
      of.now = status::in_flight;
      of.handle = handles_.size();
      if (of.format == format_)
        part += of.part;
      else
        other_bytes += of.part * bytes_of(of.format);
      live_ += of.elements;
    }
    const auto aside = t_.on_stream(gathering_stream_);
    if (ranks_ > 1 && made.count == 1) {
      give_memory(parameters[0], ranks_ * states_of_[parameters[0]].part);
    } else if (ranks_ > 1) {
      if (part > 0) made.buffer = make(purpose::buffers, ranks_ * part * bytes_of(format_));
      if (other_bytes > 0) made.other_buffer = make(purpose::buffers, ranks_ * other_bytes);
    }
    handles_.push(made);
  }
  // Adapters are numbered behind a model that zero.Init has made. Of two formats, the weights' is
  // first.
  [[nodiscard]] constexpr bool is_before(int one, int other) const {
    const auto is_late = [&](int at) {
      return states_of_[at].format != format_ || (frozen_are_divided_ && t_.parameters[at].trains);
    };
    return is_late(one) != is_late(other) ? is_late(other) : one < other;
  }

  constexpr void give_memory(int parameter, std::int64_t elements) {
    const int whole = t_.parameters[parameter].whole.storage;
    t_.storages[whole].bytes = elements * bytes_of(states_of_[parameter].format);
    t_.take_again(whole);
  }

  // The first who waits makes all parameters that were gathered together; the last frees the
  // buffer.
  constexpr void wait_for(int parameter) {
    parameter_state& of = states_of_[parameter];
    if (of.handle == none) return;
    gathering& by = handles_[of.handle];
    of.handle = none;
    if (!by.is_complete) {
      by.is_complete = true;
      const auto aside = t_.on_stream(gathering_stream_);
      for (int at = by.first; at < by.first + by.count; ++at) {
        parameter_state& member = states_of_[members_[at]];
        if (by.buffer != none || by.other_buffer != none)
          give_memory(members_[at], member.elements);
        member.now = status::available;
      }
    }
    if (--by.waiting == 0) {
      drop(by.buffer);
      drop(by.other_buffer);
    }
    bool is_idle = true;
    for (int at = 0; at < handles_.size(); ++at) is_idle = is_idle && handles_[at].waiting == 0;
    if (!is_idle) return;
    handles_.resize_down(0);
    members_.resize_down(0);
  }

  constexpr void free(int parameter) {
    parameter_state& of = states_of_[parameter];
    if (of.now != status::available || of.active[0] || of.active[1] || of.held > 0) return;
    if (has_whole(parameter)) {
      int& whole = t_.parameters[parameter].whole.storage;
      if (of.is_in_blocks && t_.storages[whole].holders > 1) {
        t_.release(whole);
        reserve_whole(parameter);
      } else {
        t_.give_back(whole);
      }
    }
    of.now = status::absent;
    live_ -= of.elements;
  }

  constexpr void release(const watched_module& by, bool is_forward) {
    if (!is_forward) stop_work(by);
    if (!is_forward) free_what_was_gathered_again(by);
    for (const int parameter : {by.weight, by.bias}) {
      if (parameter == none) continue;
      states_of_[parameter].active[by.is_second ? 1 : 0] = false;
      if (!is_known_ || !is_needed_soon(parameter)) free(parameter);
    }
  }
  constexpr void stop_work(const watched_module& by) {
    int kept = 0;
    for (int at = 0; at < at_work_.size(); ++at)
      if (!(at_work_[at] == by)) at_work_[kept++] = at_work_[at];
    at_work_.resize_down(kept);
  }

  constexpr void free_what_was_gathered_again(const watched_module& by) {
    int kept = 0;
    for (int at = 0; at < again_.size(); ++at) {
      const int parameter = again_[at];
      if (again_for_[at] == by) {
        --states_of_[parameter].held;
        if (!states_of_[parameter].persists) free(parameter);
        continue;
      }
      again_[kept] = parameter;
      again_for_[kept++] = again_for_[at];
    }
    again_.resize_down(kept);
    again_for_.resize_down(kept);
  }

  [[nodiscard]] constexpr bool is_needed_soon(int parameter) const {
    if (states_of_[parameter].persists || states_of_[parameter].fetched > step_) return true;
    std::int64_t passed = 0;
    for (int step = step_; step < order_.size() && passed < zero_.max_reuse_distance; ++step)
      for (const int next : {order_[step].weight, order_[step].bias}) {
        if (next == none) continue;
        if (next == parameter) return true;
        passed += states_of_[next].elements;
      }
    return false;
  }

  // -- matrix products

  struct matmul_backward final : own_backward {
    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor input = t.kept_by(by, 0);
      for (int at = 1; at < t.nodes[by].kept; ++at) static_cast<void>(t.kept_by(by, at));
      const tensor& given = *incoming[0];
      const std::int64_t to = given.size[given.size.rank - 1];
      const std::int64_t in = input.size[input.size.rank - 1];
      const std::int64_t rows = given.count() / to;
      const auto wants = [&](int which) { return t.nodes[by].input[which].node != none; };
      if (wants(0)) {
        const value flat = reshape(t, given, {rows, to});
        value made = t.make({rows, in}, given.format);
        t.touch_workspace();
        t.count_backward({rows, to, in}, {&*flat, &t.kept_by(by, 1), &*made});
        set_view(made.get(), input.size);
        out.of[0] = std::move(made);
      }
      if (wants(1)) {
        const value flat = reshape(t, given, {rows, to});
        const value flat_input = reshape(t, input, {rows, in});
        out.of[1] = t.make({to, in}, given.format);
        t.count_backward({to, rows, in}, {&*flat, &*flat_input, &*out.of[1]});
        t.touch_workspace();
      }
      if (t.nodes[by].inputs > 2 && wants(2)) {
        tensor flat = given;
        set_contiguous(flat, {rows, to});
        out.of[2] = sum_to(t, flat, sizes{to});
      }
    }
  };
  constexpr value product(const tensor& x, const watched_module& by) {
    const tensor weight = t_.parameter(by.weight);
    tensor bias;
    if (by.bias != none) bias = t_.parameter(by.bias);
    const std::int64_t in = x.size[x.size.rank - 1];
    sizes size = x.size;
    size[size.rank - 1] = weight.size[0];
    const int of = by.bias == none ? t_.add_node(matmul_backward_, {&x, &weight})
                                   : t_.add_node(matmul_backward_, {&x, &weight, &bias});
    value made;
    {
      const value flat = reshape(t_, t_.detach(x), {x.count() / in, in});
      made = t_.make(size, x.format);
      t_.touch_workspace(by.bias != none && x.size.rank == 2);
      t_.count_product({x.count() / in, in, weight.size[0]}, {&*flat, &weight, &bias, &*made});
    }
    t_.keep(of, x);
    t_.keep(of, weight);
    if (by.bias != none) t_.keep(of, bias);
    t_.result_of(of, made.get());
    return made;
  }

  matmul_backward matmul_backward_{};
  int gathering_stream_;
  bool has_adapters_;
  bool scores_without_graph_;        // with the same modules, between forward and backward
  bool frozen_are_divided_ = false;  // before adapters are there
  // Frozen parameters that were gathered to compute a layer again, each for the backward of another
  // module: when that is done it is freed.
  growing_array<int> again_{};
  growing_array<watched_module> again_for_{};

  bool learns_ = false;
  bool is_known_ = false;                    // the order of modules
  growing_array<watched_module> order_{};    // as they were called, forward and backward
  growing_array<wanted> queue_{};            // their parameters
  int next_ = 0;                             // of the queue
  int step_ = 0;                             // modules that were called
  std::int64_t live_ = 0;                    // elements that are there or in flight
  growing_array<watched_module> hooked_{};   // of this forward, by the numbers of their hooks
  growing_array<bool> is_disarmed_{};        // likewise
  growing_array<watched_module> at_work_{};  // in the backward
  growing_array<gathering> handles_{};
  growing_array<int> members_{};
};

}  // namespace gpuplan::eager

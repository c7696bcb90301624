#pragma once

// DeepSpeed's ZeRO-3. Private.
// Transcribed from DeepSpeed 0.19: runtime/zero/stage3.py, runtime/zero/parameter_offload.py,
// runtime/zero/partitioned_param_coordinator.py, runtime/zero/partition_parameters.py and
// runtime/comm/coalesced_collectives.py.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/deepspeed.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// DeepSpeedZeroOptimizer_Stage3: every rank has a part of each parameter. Before a module runs,
/// its parameters are gathered, and those that modules after it will ask for; behind it they are
/// freed, where none of the next modules needs them. In which order modules run is learnt in the
/// first forward and backward.
class deepspeed_stage_3 final : public deepspeed_engine {
 public:
  constexpr deepspeed_stage_3(tape& on, const training_setup& of, const batch_plan& with)
      : deepspeed_engine(on, of, with),
        gathering_stream_(of.framework.engine.overlaps_reduction ? 1 : 0),
        reducing_stream_(of.framework.engine.overlaps_reduction ? 2 : 0),
        on_host_(of.parallelism.optimizer_on_host),
        in_fp32_(of.precision.fp32_gradients),
        has_adapters_(of.trains.what == training::adapters) {}
  constexpr ~deepspeed_stage_3() override {}  // NOLINT(modernize-use-equals-default)

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
    return with_hook(std::move(seen), by, true);
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
    if (has_adapters_) inputs[0] = with_hook(std::move(inputs[0]), {.layer = layer}, true);
  }
  constexpr void after_unit(int layer, const tensor& result) override {
    if (!t_.is_recomputing() && result.needs_gradient())
      t_.nodes[result.node].unit = 2 * hooked_.push({.layer = layer});
  }
  constexpr void before_backward(int hook) override { after_backward(hook); }
  /// Of a module, as its hooks are numbered: its backward begins, or is done.
  constexpr void after_backward(int hook) override {
    const watched_module by = hooked_[hook / 2];
    if (hook % 2 == 0)
      fetch(by, false);
    else
      release(by, false);
  }

  constexpr void gradient_is_there(int parameter) override {
    const std::int64_t elements = states_of_[parameter].elements;
    if (in_bucket_ + elements > zero_.reduce_bucket && in_bucket_ > 0) reduce_bucket();
    if (zero_.contiguous_gradients && in_bucket_ + elements <= zero_.reduce_bucket)
      move_to(arrived(parameter), buffer_);
    bucket_.push(parameter);
    in_bucket_ += elements;
  }

 private:
  enum class status : unsigned char { absent, in_flight, available };
  struct parameter_state {
    std::int64_t elements = 0;
    std::int64_t part = 0;  // of them on each rank
    status now = status::absent;
    bool persists = false;
    bool active[2]{};  // in which of its modules it is at work
    element format{};  // in which ranks have parts of it
    bool is_in_blocks = false;
    int handle = none;         // of the gathering that nobody has waited for
    std::int64_t fetched = 0;  // for which step at last
  };
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
  struct sub_group {
    int first = 0;  // of the trained parameters
    int end = 0;
    std::int64_t elements = 0;
  };

  [[nodiscard]] constexpr bool has_whole(int parameter) const {
    return t_.parameters[parameter].whole.defined();
  }
  [[nodiscard]] constexpr bool is_in_blocks(int parameter) const {
    return parameter != none && states_of_[parameter].is_in_blocks;
  }
  // The context of MatMul4Bit has a view of what was gathered, which lives as long as the graph:
  // what is freed is then not given back, and gathered again for the backward.
  constexpr void hold_blocks(int parameter) {
    if (has_whole(parameter)) t_.hold_with_graph(t_.parameters[parameter].whole);
  }
  [[nodiscard]] constexpr tensor& arrived(int parameter) const {
    parameter_record& record = t_.parameters[parameter];
    return record.whole.defined() ? record.whole_gradient : record.gradient;
  }

  // -- construction

  constexpr void initialize() override {
    std::int64_t all = 0;
    for (int at = 0; at < t_.parameters.size(); ++at) {
      divide(at);
      if (t_.parameters[at].trains) all += states_of_[at].part;
    }
    if (!on_host_) make_lasting(purpose::buffers, 1);  // inf_or_nan_tracker
    // defragment, by way of the host
    for (int at = 0; at < trained_.size(); ++at) drop(t_.parameters[trained_[at]].data.storage);
    t_.empty_cache();
    const int flat = make_lasting(purpose::weights, all * bytes_of(trained_format()));
    for (int at = 0; at < trained_.size(); ++at) move_to(t_.parameters[trained_[at]].data, flat);
    divide_into_groups(all);
    make_masters();
    if (zero_.contiguous_gradients)
      buffer_ = make_lasting(purpose::buffers, zero_.reduce_bucket * bytes_of(format_));
    if (!on_host_) make_lasting(purpose::gradients, all * bytes_of_sum());
    for (int at = 0; at < trained_.size(); ++at)
      t_.touch(ranks_ * states_of_[trained_[at]].part * bytes_of(trained_format()));
    construct_states();
  }

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
  [[nodiscard]] constexpr element trained_format() const { return states_of_[trained_[0]].format; }

  constexpr void divide_into_groups(std::int64_t all) {
    sub_group open;
    for (int at = 0; at < trained_.size(); ++at) {
      open.elements += states_of_[trained_[at]].part;
      open.end = at + 1;
      const bool is_full = zero_.sub_group < all && open.elements >= zero_.sub_group;
      if (!is_full && open.end < trained_.size()) continue;
      groups_.push(open);
      open = {open.end, open.end, 0};
    }
  }

  constexpr void make_masters() {
    if (on_host_) return;
    std::int64_t largest = 0;
    for (int at = 0; at < groups_.size(); ++at) {
      const int converted = t_.new_storage(4 * groups_[at].elements);
      add_master(groups_[at].elements);
      t_.release(converted);
      largest = at_least(largest, groups_[at].elements);
    }
    t_.touch(4 * largest);
  }

  [[nodiscard]] constexpr std::int64_t bytes_of_sum() const {
    return in_fp32_ ? 4 : bytes_of(format_);
  }

  // -- the order of modules

  // PEFT's models are two modules around the model.
  constexpr value forward() override {
    reset();
    const int modules = has_adapters_ ? 3 : 1;
    for (int at = 0; at < modules; ++at) static_cast<void>(module_begins({}, {}));
    value loss = deepspeed_engine::forward();
    for (int at = 0; at < modules; ++at) loss = module_ends(std::move(loss), {});
    return loss;
  }
  // A module that looks at a matrix of its adapter has that among its own parameters, unless it is
  // always there (ZeROOrderedDict).
  [[nodiscard]] constexpr watched_module as_hooks_see(const watched_module& given) const {
    if (!given.holds_adapter) return given;
    watched_module seen = given;
    seen.is_second = true;
    if (states_of_[given.weight].persists) seen.weight = none;
    return seen;
  }

  constexpr void reset() {
    for (int at = 0; at < states_of_.size(); ++at) {
      if (states_of_[at].handle == none) continue;
      wait_for(at);
      free(at);
    }
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
    hooked_.resize_down(0);
  }

  // What follows, or what was before, passes through a node that runs the hook on its way back.
  constexpr value with_hook(value of, const watched_module& by, bool is_input) {
    if (!of->needs_gradient()) return of;
    const bool frees = by.has_parameters() || by.holds_adapter || by.layer != none;
    if (is_input && !frees) return of;
    const int node_of_hook = t_.add_node(node_kind::unit, {&*of});
    if (node* made = t_.at(node_of_hook))
      made->argument[0] = 2 * hooked_.push(by) + (is_input ? 1 : 0);
    t_.result_of(node_of_hook, of.get());
    return of;
  }

  constexpr void fetch(const watched_module& by, bool is_forward) {
    if (!is_known_) order_.push(by);
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
    if (of.now != status::available || of.active[0] || of.active[1]) return;
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

  // -- gradients

  constexpr void reduce_bucket() {
    if (bucket_.size() == 0) return;
    const auto aside = t_.on_stream(reducing_stream_);
    growing_array<int> made;
    if (zero_.contiguous_gradients && in_bucket_ <= zero_.reduce_bucket && !zero_.reduce_scatter)
      average_whole(made);
    else
      scatter(made);
    for (int at = 0; at < bucket_.size(); ++at) {
      if (on_host_) copy_to_host(states_of_[bucket_[at]].part);
      drop(arrived(bucket_[at]));
    }
    drop_storages(made);
    bucket_.resize_down(0);
    in_bucket_ = 0;
  }

  // __avg_scatter_contiguous_grads
  constexpr void average_whole(growing_array<int>& made) {
    if (ranks_ > 1) made.push(t_.new_storage(in_bucket_ * bytes_of(format_)));
    if (!in_fp32_) return;
    const int wide = t_.new_storage(in_bucket_ * 4);
    drop_storages(made);
    made.push(wide);
  }

  // reduce_scatter_coalesced: every tensor is padded to equal parts.
  constexpr void scatter(growing_array<int>& made) {
    const auto count_of = [&](int at) { return states_of_[bucket_[at]].elements; };
    for (int at = 0; at < bucket_.size(); ++at) {
      const tensor& whole = arrived(bucket_[at]);
      if (whole.format != format_ && whole.storage != buffer_)
        made.push(t_.new_storage(count_of(at) * bytes_of(format_)));
    }
    if (bucket_.size() > 1 || count_of(0) % ranks_ != 0) {
      std::int64_t elements = 0;
      for (std::int64_t rank = 0; rank < ranks_; ++rank) {
        for (int at = 0; at < bucket_.size(); ++at) {
          const std::int64_t part = states_of_[bucket_[at]].part;
          const std::int64_t there =
              at_least(0, at_most(count_of(at), (rank + 1) * part) - rank * part);
          if (part > there) made.push(t_.new_storage((part - there) * bytes_of(format_)));
          elements += part;
        }
      }
      made.push(t_.new_storage(elements * bytes_of(format_)));
    }
    if (!in_fp32_) return;
    growing_array<int> wide;
    for (int at = 0; at < bucket_.size(); ++at)
      wide.push(t_.new_storage(4 * states_of_[bucket_[at]].part));
    drop_storages(made);
    for (int at = 0; at < wide.size(); ++at) made.push(wide[at]);
  }

  // By way of a copy on the device, of which the norm is taken.
  constexpr void copy_to_host(std::int64_t part) {
    constexpr std::int64_t together = 250'000'000;
    const int copy = t_.new_storage(part * bytes_of_sum());
    if (is_last_) {
      for (std::int64_t from = 0; from < part; from += together)
        t_.touch(8 * at_most(together, part - from));
      if (!in_fp32_) t_.touch(4 * part);
    }
    t_.release(copy);
  }

  constexpr void reduce_gradients() override {
    reduce_bucket();
    // what no hook released, as of modules whose input needs no gradient
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

  // -- the optimizer

  constexpr void update() override {
    for (int at = 0; at < states_of_.size(); ++at) {
      wait_for(at);
      states_of_[at].active[0] = states_of_[at].active[1] = false;
      free(at);
    }
    if (!on_host_) {
      if (format_ == element::fp16) look_for_infinities();
      for (int at = 0; at < trained_.size(); ++at) t_.touch(8 * states_of_[trained_[at]].part);
      const value scaled = note_norm(2);  // in fp64
      for (int at = 0; at < groups_.size(); ++at) update(at);
    }
    gather_persistent();
  }

  constexpr void look_for_infinities() {
    std::int64_t elements = 0;
    for (int at = 0; at < groups_.size(); ++at) elements += groups_[at].elements;
    const auto aside = t_.on_stream(reducing_stream_);
    const int sizes_only = t_.new_storage(elements * bytes_of_sum());
    const int found = t_.new_storage(elements);
    t_.release(sizes_only);
    t_.release(found);
    t_.touch(elements);
  }

  constexpr void update(int group) {
    const sub_group& of = groups_[group];
    const bool is_copied = of.end - of.first > 1;
    int flat = none;
    if (is_copied && !in_fp32_) flat = t_.new_storage(of.elements * bytes_of(format_));
    const bool has_own = is_copied || !in_fp32_;
    give_gradient(group, has_own ? make(purpose::gradients, 4 * of.elements) : none);
    t_.release(flat);
    states_.step();
    drop(gradient(masters_[group]));
  }

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

  matmul_backward matmul_backward_{};
  int gathering_stream_;
  int reducing_stream_;
  bool on_host_;
  bool in_fp32_;
  bool has_adapters_;
  bool frozen_are_divided_ = false;  // before adapters are there
  growing_array<parameter_state> states_of_{};
  // Frozen parameters that were gathered to compute a layer again, each for the backward of another
  // module: when that is done it is freed.
  growing_array<int> again_{};
  growing_array<watched_module> again_for_{};
  growing_array<sub_group> groups_{};
  int buffer_ = none;  // of gradients, before they are reduced

  bool learns_ = false;
  bool is_known_ = false;                    // the order of modules
  growing_array<watched_module> order_{};    // as they were called, forward and backward
  growing_array<wanted> queue_{};            // their parameters
  int next_ = 0;                             // of the queue
  int step_ = 0;                             // modules that were called
  std::int64_t live_ = 0;                    // elements that are there or in flight
  growing_array<watched_module> hooked_{};   // of this forward, by the numbers of their hooks
  growing_array<watched_module> at_work_{};  // in the backward
  growing_array<gathering> handles_{};
  growing_array<int> members_{};

  growing_array<int> bucket_{};
  std::int64_t in_bucket_ = 0;
};

}  // namespace gpuplan::eager

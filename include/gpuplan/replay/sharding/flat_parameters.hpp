#pragma once

// PyTorch's FullyShardedDataParallel (FSDP1) around each layer, then around the model. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// The parameters of a unit, which is a layer or what is in none, lie in one flat parameter, of
/// which each rank has an equal part. It is gathered before the unit's forward and, one unit ahead,
/// before its backward; the unit's gradients are joined to one, of which each rank gets the sum of
/// its part. Within a layer's unit each matrix of an adapter is a unit of its own, as PEFT's
/// fsdp_auto_wrap_policy has it, in its own format where no policy casts what is gathered; what is
/// frozen has no gradients. In micro-batches before the last one (`no_sync`) the joined gradients
/// stay whole.
/// Where ranks share in groups (hybrid shard), the groups' sums are reduced then. A rank alone
/// shares nothing: what is gathered is a cast. Parts may lie on the host (CPUOffload), which gets
/// each sum while the backward runs; what was reduced stays here until that is done. This is the
/// first rank. What other streams still read is freed as if the device had no delay.
class flat_parameters final : public sharding {
 public:
  constexpr flat_parameters(tape& on, const training_setup& setup, const batch_plan& plan)
      : t_(on),
        ranks_(setup.parallelism.context_parallel * (setup.parallelism.shard_group != 0
                                                         ? setup.parallelism.shard_group
                                                         : plan.data_parallel)),
        replicates_(ranks_ < plan.data_parallel * setup.parallelism.context_parallel),
        reduces_always_(setup.framework.engine.reduces_every_micro_batch),
        shows_parts_(setup.framework.engine.original_parameters),
        on_host_(setup.parallelism.weights_on_host),
        adapts_(setup.trains.what == training::adapters),
        has_policy_(setup.precision.autocast() || detail::is_quantised(setup.trains)),
        weights_(element_of(setup.precision.weights)),
        gathered_(element_of(setup.precision.compute)),
        reduced_(element_of(setup.precision.reduced)),
        frees_after_forward_(setup.parallelism.zero_stage == 3),
        clips_(setup.optimizer.clips_gradients) {
    t_.gather_parameters({.ranks = ranks_,
                          .whole_format = gathered_,
                          .first_gradients = gathered_,
                          .keeps_formats = adapts_ && !has_policy_,
                          .are_made_later = true,
                          .are_flat = true});
    t_.build_on_meta();
  }
  constexpr ~flat_parameters() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void begins(model_code& code) override { code_ = &code; }

  constexpr void model_is_built() override {
    int last = none;
    for (int at = 0; at < t_.parameters.size(); ++at)
      if (t_.parameters[at].unit > last) last = t_.parameters[at].unit;
    for (int at = 0; at < t_.buffers.size(); ++at) t_.give_back(t_.buffers[at].storage);
    for (int at = 0; at < t_.parameters.size(); ++at) unit_of_adapter_.push(none);
    root_ = last + 1;
    for (int at = 0; at <= root_; ++at) units_.push({});
    for (int at = 0; at <= root_; ++at) add_units(at);
    begin();
  }

  /// On the host none is updated here.
  [[nodiscard]] constexpr const growing_array<int>* updated() const override {
    return on_host_ ? &nothing_ : nullptr;
  }

  constexpr void forward_begins(bool last_micro_batch) override {
    reduces_ = last_micro_batch || reduces_always_;
    if (!begins_step_) return;
    // The optimizer has dropped them by parameter, and they go here.
    begins_step_ = false;
    for (int at = 0; at < units_.size(); ++at) {
      drop(units_[at].part_of_sum);
      units_[at].is_widened = false;
    }
  }

  constexpr void before_unit(int layer, value* inputs, int count) override {
    if (t_.is_recomputing()) return;
    const int at = layer == none ? root_ : layer;
    gather(at);
    for (int which = 0; which < count; ++which) cast_input(inputs[which]);
    t_.read_by_unit(at, inputs, count);
  }

  constexpr void after_unit(int layer, const tensor& result) override {
    if (t_.is_recomputing()) return;
    const int at = layer == none ? root_ : layer;
    if (frees_after_forward_) drop(units_[at].brought);
    if (ranks_ == 1 || (frees_after_forward_ && at != root_)) free_whole(at);
    units_[at].is_ahead = false;
    take_turn(at, result);
  }

  // Unlike a layer's, this is within what is recomputed.
  constexpr void before_adapter(int weight) override {
    if (!t_.has_stopped()) gather(unit_of_adapter_[weight]);
  }
  constexpr void after_adapter(int weight, const tensor& result) override {
    if (t_.has_stopped()) return;
    const int at = unit_of_adapter_[weight];
    units_[at].is_ahead = false;
    if (frees_after_forward_) drop(units_[at].brought);
    if (ranks_ == 1 || frees_after_forward_) {
      free_whole(at);
      show(units_[at], false);
    }
    if (!t_.is_recomputing()) take_turn(at, result);
  }
  constexpr void gradient_is_there(int parameter) override {
    if (const int at = unit_of_adapter_[parameter]; at != none) after_backward(at);
  }

  constexpr void before_backward(int at) override {
    if (units_[at].backward != phase::idle) return;
    units_[at].backward = phase::running;
    units_[at].awaits_backward = false;
    gather(at);
    if (units_[at].turn <= 0) return;
    const int next = turns_[units_[at].turn - 1];
    if (!units_[next].awaits_backward) return;
    gather(next);
    units_[next].is_ahead = true;
  }

  constexpr void after_backward(int at) override {
    unit& of = units_[at];
    of.backward = phase::done;
    of.is_ahead = false;
    join_gradients(of);
    show(of, false);
    drop(of.brought);
    if (ranks_ == 1 || frees_after_forward_ || reduces_) free_whole(at);
    if (!reduces_) return show_whole(of);
    if (ranks_ == 1)
      cast_sum(of);
    else
      reduce(of);
  }

  constexpr void backward_is_done() override {
    for (int at = 0; at < units_.size(); ++at) {
      if (units_[at].backward != phase::done) after_backward(at);
      units_[at].backward = phase::idle;
      units_[at].is_ahead = units_[at].awaits_backward = false;
      units_[at].turn = none;
    }
    turns_.resize_down(0);
    for (int at = 0; reduces_ && at < units_.size(); ++at) {
      if (on_host_)
        drop(units_[at].part_of_sum);
      else
        show_parts(units_[at]);
    }
  }

  constexpr void step_is_done() override {
    begins_step_ = true;
    if (clips_ && zero_ == eager::none) zero_ = t_.new_storage(4, {"zero"});
  }

 private:
  enum class phase : unsigned char { idle, running, done };
  struct unit {
    int first = 0;  // of its members
    int count = 0;
    int pads = 0;               // between members, and behind them
    std::int64_t elements = 0;  // with those,
    std::int64_t joined = 0;    // and as many in its gradient before it is reduced
    int whole = eager::none;    // the flat parameter, while it is gathered
    int part = eager::none;     // of it, this rank's
    int brought = eager::none;  // which came from the host, until modules see it there again
    int sum = eager::none;      // of the gradients of micro-batches, whole,
    int part_of_sum = eager::none;
    element weights{};        // of ranks' parts,
    element gathered{};       // as operators read them,
    element reduced{};        // and as gradients are reduced
    bool is_first = false;    // whether the last gradients were the step's first
    bool is_widened = false;  // the gradient of a rank alone, to the weights' format
    int turn = eager::none;   // when its forward ended, counted
    bool awaits_backward = false;
    bool is_ahead = false;  // gathered while another one's backward runs
    phase backward = phase::idle;
  };

  // What is computed without a graph, to be computed again, has no backward until it is.
  constexpr void take_turn(int at, const tensor& result) {
    units_[at].turn = turns_.push(at);
    if (!result.needs_gradient()) return;
    units_[at].awaits_backward = true;
    t_.nodes[result.node].unit = at;
  }

  // Of a layer or the root: first those of the adapters in it, then itself.
  constexpr void add_units(int at) {
    const int layer = at == root_ ? none : at;
    for (int which = 0; adapts_ && which < t_.parameters.size(); ++which) {
      const parameter_record& parameter = t_.parameters[which];
      if (parameter.unit != layer || !parameter.trains) continue;
      unit made = begun_unit(parameter.data.format);
      add_member(made, which);
      end_unit(made, false);
      unit_of_adapter_[which] = units_.push(made);
    }
    unit made = begun_unit(weights_);
    for (int which = 0; which < t_.parameters.size(); ++which)
      if (t_.parameters[which].unit == layer && unit_of_adapter_[which] == none)
        add_member(made, which);
    end_unit(made, at == root_);
    units_[at] = made;
  }
  [[nodiscard]] constexpr unit begun_unit(element weights) const {
    unit made;
    made.first = members_.size();
    made.weights = weights;
    made.gathered = has_policy_ ? gathered_ : weights;
    made.reduced = has_policy_ || reduced_ != weights_ ? reduced_ : weights;
    return made;
  }
  // Parameters begin at 16 bytes, as they are gathered, and ranks have equal parts. Where parts are
  // not shown only the latter pads, behind all.
  constexpr void add_member(unit& made, int parameter) {
    if (shows_parts_) pad(made, 16 / bytes_of(made.gathered));
    members_.push(parameter);
    starts_.push(made.elements);
    made.elements += t_.parameters[parameter].whole.count();
    ++made.count;
  }
  constexpr void end_unit(unit& made, bool is_root) {
    made.joined = made.elements;
    pad(made, ranks_);
    if (shows_parts_)
      made.joined = made.elements;
    else
      made.pads = 0;
    if (made.count > 0) divide(made, is_root);
  }
  static constexpr void pad(unit& made, std::int64_t multiple) {
    const std::int64_t padded = ceil_div(made.elements, multiple) * multiple;
    if (padded != made.elements) ++made.pads;
    made.elements = padded;
  }

  // Its parameters come to the device, those of the outer modules first, are joined, and a part is
  // copied from that. Tables come with those of the model.
  constexpr void divide(unit& of, bool is_root) {
    const auto charged = t_.charge(purpose::weights);
    growing_array<int> moved;
    const auto move = [&](bool vectors) {
      for (int which = of.first; which < of.first + of.count; ++which) {
        const tensor& whole = t_.parameters[members_[which]].whole;
        if ((whole.size.rank == 1) == vectors)
          moved.push(t_.new_storage(whole.count() * bytes_of(of.weights)));
      }
    };
    move(!is_root);
    move(is_root);
    for (int at = 0; is_root && at < t_.buffers.size(); ++at) t_.take_again(t_.buffers[at].storage);
    const int joined = t_.new_storage(of.joined * bytes_of(of.weights), {"flat parameter"});
    const std::int64_t share = of.elements / ranks_;
    of.part = joined;
    if (ranks_ > 1) {
      of.part = t_.new_storage(share * bytes_of(of.weights), {"part of a flat parameter"});
      t_.release(joined);
    }
    for (int which = 0; which < moved.size(); ++which) t_.release(moved[which]);
    if (on_host_) t_.give_back(of.part);
    of.whole = of.part;
    if (ranks_ > 1 || of.gathered != of.weights || on_host_) {
      of.whole = t_.storages.push({of.elements * bytes_of(of.gathered), none, 1, purpose::weights});
      t_.name(of.whole, {"gathered flat parameter"});
    }
    for (int which = of.first; which < of.first + of.count; ++which) {
      parameter_record& parameter = t_.parameters[members_[which]];
      const std::int64_t behind = share - starts_[which];
      const std::int64_t here = at_most(behind < 0 ? 0 : behind, parameter.whole.count());
      set_contiguous(parameter.data,
                     here == parameter.whole.count() ? parameter.whole.size : sizes{here});
      parameter.data.format = of.weights;
      parameter.data.storage = of.part;
      parameter.data.is_view = true;
      parameter.is_idle = parameter.is_idle || here == 0;
      parameter.whole.storage = of.whole;
      parameter.whole.is_view = true;
    }
  }

  // Before the first forward tables are cast, and flat parameters are made, of which the memory
  // goes.
  constexpr void begin() {
    if (has_policy_) code_->cast_tables(gathered_);
    const auto make = [&](const unit& of) {
      const bool casts = of.gathered != of.weights;
      if (casts) t_.touch(of.elements / ranks_ * bytes_of(of.gathered));
      if (ranks_ == 1) return;
      t_.touch(of.elements * bytes_of(of.gathered));
      if (casts) t_.touch(of.elements * bytes_of(of.weights));
    };
    make(units_[root_]);
    for (int at = 0; at < units_.size(); ++at)
      if (at != root_) make(units_[at]);
  }

  constexpr void cast_input(value& input) {
    const bool changes = gathered_ != weights_ && input->defined() &&
                         (input->format == element::fp32 || is_half(input->format));
    if (changes) input = cast(t_, input, gathered_);
  }

  constexpr void drop(int& storage) {
    t_.release(storage);
    storage = eager::none;
  }

  // Whether its modules see the gathered parameters, else this rank's parts of them.
  constexpr void show(const unit& of, bool whole) {
    for (int which = of.first; which < of.first + of.count; ++which)
      t_.parameters[members_[which]].is_seen_whole = whole || !shows_parts_;
  }
  constexpr void gather(int at) {
    const unit& of = units_[at];
    show(of, true);
    if (of.whole == eager::none || of.is_ahead) return;
    const auto charged = t_.charge(purpose::buffers);
    // What is there already comes from the host all the same.
    if (t_.has_memory(of.whole)) {
      if (on_host_) let_go_of_part(units_[at], part_to_gather(of));
      return;
    }
    if (ranks_ == 1) {
      const auto aside = t_.on_stream(streams::parts);
      t_.take_again(of.whole);
      if (on_host_ && of.gathered != of.weights) t_.touch(of.elements * bytes_of(of.weights));
      return;
    }
    const int part = part_to_gather(of);
    t_.on_stream(streams::weights)->take_again(of.whole);
    let_go_of_part(units_[at], part);
  }
  // A rank's part on the device, in the format in which it is gathered; none where it is that.
  constexpr int part_to_gather(const unit& of) {
    const bool casts = of.gathered != of.weights;
    if (!casts && !on_host_) return eager::none;
    const auto aside = t_.on_stream(streams::parts);
    const std::int64_t share = of.elements / ranks_;
    const int part = t_.new_storage(share * bytes_of(of.gathered), {"part to be gathered"});
    if (casts && on_host_) t_.touch(share * bytes_of(of.weights));
    return part;
  }
  // One that came as it is was shown to modules in place of that on the host.
  constexpr void let_go_of_part(unit& of, int part) {
    if (on_host_ && shows_parts_ && of.gathered == of.weights) {
      drop(of.brought);
      of.brought = part;
    } else {
      t_.release(part);
    }
  }

  constexpr void free_whole(int at) {
    const unit& of = units_[at];
    if (of.whole != of.part && t_.has_memory(of.whole)) t_.give_back(of.whole);
  }

  constexpr void join_gradients(unit& of) {
    bool any = false;
    for (int which = of.first; which < of.first + of.count; ++which)
      any = any || t_.parameters[members_[which]].whole_gradient.defined();
    if (!any) return;
    // Autograd goes back on the stream on which the flat parameter was split.
    const auto aside = t_.on_stream(streams::weights);
    const auto charged = t_.charge(purpose::gradients);
    growing_array<int> zeros;
    for (int at = 0; at < of.pads; ++at) zeros.push(t_.new_storage(1, {"zeros"}));
    const int joined =
        t_.new_storage(of.joined * bytes_of(of.gathered), {"gradient of a flat parameter"});
    for (int at = 0; at < zeros.size(); ++at) t_.release(zeros[at]);
    for (int which = of.first; which < of.first + of.count; ++which) {
      tensor& gradient = t_.parameters[members_[which]].whole_gradient;
      t_.release(gradient.storage);
      gradient = {};
    }
    int& sum = ranks_ == 1 ? of.part_of_sum : of.sum;
    of.is_first = sum == eager::none;
    if (of.is_first)
      sum = joined;
    else if (ranks_ == 1 && reduces_)
      of.sum = joined;  // added into that, and stays until that is cast
    else
      t_.release(joined);
  }

  // The gradients of parameters that have another format or size than these take their place from
  // tensors that do not.
  constexpr void show_whole(const unit& of) {
    if (!of.is_first || on_host_) return;
    const auto aside = t_.on_stream(streams::weights);
    for (int which = of.first; which < of.first + of.count; ++which) {
      const parameter_record& parameter = t_.parameters[members_[which]];
      const bool is_whole = parameter.data.count() == parameter.whole.count();
      if (of.gathered != of.weights || !is_whole) t_.touch(parameter.data.bytes());
    }
  }

  // The sums of a rank alone go through the format in which others would be reduced.
  constexpr void cast_sum(unit& of) {
    if (of.part_of_sum == eager::none) return;
    for (int which = of.first; which < of.first + of.count; ++which) {
      tensor& seen = t_.parameters[members_[which]].gradient;
      t_.release(seen.storage);
      seen = {};
    }
    const auto aside = t_.on_stream(streams::gradients);
    const auto charged = t_.charge(purpose::gradients);
    growing_array<int> before;
    element format = of.is_widened ? of.weights : of.gathered;
    for (const element next : {of.reduced, of.weights}) {
      if (next == format) continue;
      before.push(of.part_of_sum);
      of.part_of_sum =
          t_.new_storage(of.elements * bytes_of(next), {"gradient of a flat parameter"});
      format = next;
    }
    of.is_widened = true;
    for (int at = 0; at < before.size(); ++at) t_.release(before[at]);
    drop(of.sum);
  }

  constexpr void reduce(unit& of) {
    if (of.sum == eager::none) return;
    const auto aside = t_.on_stream(streams::gradients);
    const auto charged = t_.charge(purpose::gradients);
    const std::int64_t share = of.elements / ranks_;
    int cast = eager::none;
    if (of.reduced != of.gathered)
      cast = t_.charge(purpose::buffers)
                 ->new_storage(of.joined * bytes_of(of.reduced), {"gradients to be reduced"});
    int padded = eager::none;
    if (of.joined != of.elements)
      padded = t_.charge(purpose::buffers)
                   ->new_storage(of.elements * bytes_of(of.reduced), {"padded gradients"});
    int part = t_.new_storage(share * bytes_of(of.reduced), {"reduced gradients of a unit"});
    if (of.reduced != of.weights) {
      const int as_weights =
          t_.on_stream(replicates_ ? streams::replicas : streams::gradients)
              ->new_storage(share * bytes_of(of.weights), {"reduced gradients of a unit"});
      t_.release(part);
      part = as_weights;
    }
    if (of.part_of_sum == eager::none)
      of.part_of_sum = part;
    else
      t_.release(part);  // added into that
    t_.release(cast);
    t_.release(padded);
    drop(of.sum);
  }

  // The optimizer sees the part of each parameter.
  constexpr void show_parts(const unit& of) {
    for (int which = of.first; which < of.first + of.count; ++which) {
      parameter_record& parameter = t_.parameters[members_[which]];
      if (parameter.is_idle || parameter.gradient.defined() || of.part_of_sum == eager::none)
        continue;
      parameter.gradient = parameter.data;
      parameter.gradient.storage = of.part_of_sum;
      t_.hold(of.part_of_sum);
    }
  }

  tape& t_;
  model_code* code_ = nullptr;
  std::int64_t ranks_;  // that share
  bool replicates_;     // other groups have the same
  bool reduces_always_;
  bool shows_parts_;  // to modules, where what was gathered is freed
  bool on_host_;
  bool reduces_ = true;
  bool begins_step_ = true;
  bool adapts_;
  bool has_policy_;  // of formats, into which what is gathered is cast
  element weights_;
  element gathered_;
  element reduced_;
  bool frees_after_forward_;
  bool clips_;
  int zero_ = eager::none;  // FSDP's _zero_scalar, which stays from the first norm on
  int root_ = eager::none;
  growing_array<int> nothing_{};
  growing_array<unit> units_{};           // of layers, the root, and adapters
  growing_array<int> unit_of_adapter_{};  // by parameter
  growing_array<int> members_{};          // parameters, unit by unit,
  growing_array<std::int64_t> starts_{};  // where each begins in its flat parameter
  growing_array<int> turns_{};            // units, in the order of their forwards
};

}  // namespace gpuplan::eager

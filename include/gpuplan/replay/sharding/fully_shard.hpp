#pragma once

// PyTorch's fully_shard (FSDP2) on each layer, then on the model. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/adapters.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/operators/lists.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// Every rank has a part of each parameter, of its gradient and states. A unit, which is a layer or
/// what is in none, is gathered before its forward and its backward, on a stream of its own, and
/// its gradients are reduced on another. Where ranks share in groups (hybrid shard), the groups'
/// sums are reduced then. A layer's experts that other ranks share are a unit of their own, which
/// goes along with the layer's. This is the first rank.
class fully_shard final : public sharding {
  // Of the present chunk, where they begin in `in_order_`.
  [[nodiscard]] constexpr int first_unit() const { return begin_[root_ - first_root_]; }
  [[nodiscard]] constexpr int last_unit() const { return begin_[root_ - first_root_ + 1]; }
  // As modules() has them.
  template <class Use>
  constexpr void for_units(const Use& use) {
    use(root_);
    for (int at = first_unit(); at < last_unit(); ++at) use(in_order_[at]);
  }
  // Of a layer, and of its experts where others share these.
  template <class Use>
  constexpr void for_both(int at, const Use& use) {
    use(at);
    if (units_[at].experts != none) use(units_[at].experts);
  }

 public:
  constexpr fully_shard(tape& on, const training_setup& setup, const batch_plan& plan)
      : t_(on),
        ranks_(ranks_that_share(setup, plan)),
        replicas_(plan.data_parallel * setup.parallelism.context_parallel / ranks_),
        stride_(setup.parallelism.tensor_parallel),
        gathers_ahead_(setup.parallelism.expert_parallel > 1 &&
                       setup.parallelism.pipeline_parallel == 1),
        replicates_(replicas_ > 1),
        on_host_(setup.parallelism.weights_on_host),
        comes_whole_(detail::is_quantised(setup.trains)),
        is_stage_(setup.parallelism.pipeline_parallel > 1),
        reduces_always_(setup.framework.engine.reduces_every_micro_batch && !is_stage_),
        has_policy_(setup.precision.autocast()),
        weights_(element_of(setup.precision.weights)),
        gathered_(element_of(setup.precision.compute)),
        reduced_(element_of(setup.precision.reduced)),
        frees_after_forward_(setup.parallelism.zero_stage == 3),
        keeps_last_(setup.framework.engine.keeps_last_layer) {
    t_.gather_parameters({.ranks = ranks_,
                          .whole_format = gathered_,
                          .first_gradients = gathered_,
                          .weights_on_host = on_host_,
                          .keeps_formats = !has_policy_,
                          .are_made_later = comes_whole_});
    t_.build_on_meta();
  }
  constexpr ~fully_shard() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void begins(model_code& code) override { code_ = &code; }
  constexpr void model_is_built() override {
    const int parameters = t_.parameters.size();
    int last = none;
    for (int at = 0; at < parameters; ++at)
      if (t_.parameters[at].unit > last) last = t_.parameters[at].unit;
    for (int at = 0; at <= last; ++at) add_unit(at, 0, parameters);
    root_ = first_root_ = last + 1;
    const growing_array<chunk_begin>& chunks = code_->held_chunks;
    for (int chunk = 0; chunk < chunks.size(); ++chunk)
      add_unit(none,
               chunks[chunk].parameter,
               chunk + 1 < chunks.size() ? chunks[chunk + 1].parameter : parameters);
    if (chunks.size() == 0) add_unit(none, 0, parameters);
    for (int at = 0; at < first_root_; ++at) set_experts_apart(at);
    put_in_order(chunks);
    for (int at = 0; comes_whole_ && at < units_.size(); ++at) divide(units_[at]);
    for (int at = 0; at < parameters; ++at) {
      has_twins_ = has_twins_ || t_.parameters[at].twin != none;
      if (t_.parameters[at].twin == none) own_.push(at);
    }
  }

  /// On the host none is updated here.
  [[nodiscard]] constexpr const growing_array<int>* updated() const override {
    if (on_host_) return &nothing_;
    return has_twins_ ? &own_ : nullptr;
  }

  constexpr void forward_begins(bool last_micro_batch) override {
    reduces_ = last_micro_batch || reduces_always_;
    // Gradients that wait for others are summed in the format in which they will be reduced.
    const bool is_wider = bytes_of(reduced_) > bytes_of(gathered_);
    const element first = !reduces_ && is_wider ? reduced_ : gathered_;
    // Those that are reduced at once are widened there.
    t_.take_gradients(first, reduces_ && is_wider);
  }

  constexpr void before_unit(int layer, value* inputs, int count) override {
    for (int which = 0; which < count; ++which) cast_input(inputs[which]);
    if (t_.is_recomputing()) return;
    const int at = layer == none ? root_ : layer;
    for_both(at, [&](int one) {
      gather(one);
      take_over(one, true);
    });
    gather_next(at);
    t_.read_by_unit(at, inputs, count);
  }

  constexpr void after_unit(int layer, const tensor& result) override {
    if (t_.is_recomputing()) return;
    const int at = layer == none ? root_ : layer;
    const bool frees = frees_after_forward_ && !(keeps_last_ && at + 1 == root_);
    if (frees || at == run_apart_) for_both(at, [&](int one) { free_whole(one); });
    if (units_[at].count != 0) {
      units_[at].turn = turns_.push(at);
      if (result.needs_gradient()) t_.nodes[result.node].unit = at;
    }
    if (at != root_) return;
    t_.release(passing_);
    passing_ = none;
  }

  constexpr void gather_unit(int at) override {
    gather(at, streams::operators);
    take_over(at, false);
    gather_next(at);  // a head that is the table runs what goes before the first layer
  }
  constexpr void reduce_unit(int at) override { reduce_arrived(at, true); }
  /// From then on it is freed behind its forward, too.
  constexpr void free_unit(int at) override {
    free_whole(at);
    run_apart_ = at;
  }

  constexpr void before_backward(int at) override {
    if (units_[at].backward != phase::idle || units_[at].count == 0) return;
    units_[at].backward = phase::running;
    for_both(at, [&](int one) {
      gather(one);
      take_over(one, false);
    });
    if (units_[at].turn <= 0 || is_stage_) return;  // a stage's are whole
    const int next = turns_[units_[at].turn - 1];
    if (units_[next].experts != none) gather(units_[next].experts);
    gather(next);
  }

  constexpr void after_backward(int at) override {
    unit& of = units_[at];
    of.backward = phase::done;
    if (!is_stage_) end_unit(at, reduces_);
  }

  constexpr void gather_chunk(int chunk) override {
    root_ = first_root_ + chunk;
    for_units([&](int at) { for_both(at, [&](int one) { gather(one, streams::operators); }); });
  }
  constexpr void run_chunk(int chunk) override {
    root_ = first_root_ + chunk;
    for_units([&](int at) { for_both(at, [&](int one) { take_over(one, false); }); });
  }
  constexpr void free_chunk(int chunk) override {
    root_ = first_root_ + chunk;
    for_units([&](int at) { for_both(at, [&](int one) { free_whole(one); }); });
  }
  constexpr void pass_is_done() override { end_passes(); }
  /// From the last unit to the first, each alone.
  constexpr void reduce_chunk(int chunk) override {
    root_ = first_root_ + chunk;
    for (int at = last_unit(); at-- > first_unit();) {
      t_.begin(moment::backward, in_order_[at]);
      end_unit(in_order_[at], true);
    }
    t_.begin(moment::backward);
    end_unit(root_, true);
    backward_is_done();
  }

  constexpr void backward_is_done() override {
    end_passes();
    turns_.resize_down(0);
    end_reductions();
  }

 private:
  static constexpr std::int64_t ranks_that_share(const training_setup& setup,
                                                 const batch_plan& plan) {
    const std::int64_t group = setup.parallelism.shard_group;
    return (group == 0 ? plan.data_parallel : group) * setup.parallelism.context_parallel;
  }
  enum class phase : unsigned char { idle, running, done };
  struct unit {
    std::int64_t ranks = 1;     // that share it,
    std::int64_t stride = 1;    // from one to the next,
    int experts = eager::none;  // and the unit of a layer's experts that others do
    int first = 0;              // of its members
    int count = 0;
    bool is_whole = false;
    int gathered = eager::none;  // all parameters, one after the other, before they are taken over
    int summed = eager::none;    // by the replicas, until the backward is done
    int turn = eager::none;      // when its forward ended, counted
    phase backward = phase::idle;
  };

  constexpr void end_passes() {
    for_units([&](int at) { finish(at); });
    for_units([&](int at) {
      units_[at].backward = phase::idle;
      units_[at].turn = none;
      for_both(at, [&](int one) {
        t_.release(units_[one].gathered);
        t_.release(units_[one].summed);
        units_[one].gathered = units_[one].summed = none;
      });
    });
  }
  constexpr void end_reductions() {
    for (const int stream : {streams::gradients, streams::replicas}) t_.awaits_stream(stream);
    forget_reduced();
  }
  constexpr void forget_reduced() {
    for (int at = 0; at < reducing_.size(); ++at) t_.release(reducing_[at]);
    reducing_.resize_down(0);
  }
  // A layer waits for those before it, and its experts' gradients go first.
  constexpr void end_unit(int at, bool reduces) {
    const int experts = units_[at].experts;
    if (experts != none) reduce_arrived(experts, reduces, true);
    if (units_[at].count != 0) reduce_arrived(at, reduces, true, experts == none);
  }
  constexpr void reduce_arrived(int at, bool reduces, bool frees = false, bool waits = true) {
    unit& of = units_[at];
    growing_array<int> arrived;
    for (int which = of.first; which < of.first + of.count; ++which) {
      parameter_record& parameter = t_.parameters[members_[which]];
      if (!parameter.whole_gradient.defined()) continue;
      arrived.push(members_[which]);
      if (parameter.sums_whole_gradient) sum_whole(parameter);
    }
    if (frees) free_whole(at);
    if (!reduces) return;
    if (waits) {
      t_.awaits_stream(streams::gradients);
      forget_reduced();
    }
    if (arrived.size() != 0) reduce(of, arrived);
  }

  // Those of a pipeline's chunks as their parameters were made, which may begin with one that is no
  // layer; without chunks as they are.
  constexpr void put_in_order(const growing_array<chunk_begin>& chunks) {
    begin_.push(0);
    for (int chunk = 0; chunk < chunks.size(); ++chunk) {
      const int last =
          chunk + 1 < chunks.size() ? chunks[chunk + 1].parameter : t_.parameters.size();
      for (int at = chunks[chunk].parameter, seen = none; at < last; ++at) {
        if (t_.parameters[at].unit == none || t_.parameters[at].unit == seen) continue;
        seen = t_.parameters[at].unit;
        in_order_.push(seen);
      }
      begin_.push(in_order_.size());
    }
    if (chunks.size() != 0) return;
    for (int at = 0; at < first_root_; ++at) in_order_.push(at);
    begin_.push(first_root_);
  }
  constexpr void add_unit(int layer, int first, int last) {
    unit made;
    made.ranks = ranks_;
    made.stride = stride_;
    made.first = members_.size();
    for (int at = first; at < last; ++at)
      if (t_.parameters[at].unit == layer) members_.push(at);
    made.count = members_.size() - made.first;
    units_.push(made);
  }

  // Parameters come to the device together, and a part of each is copied, which may go back.
  constexpr void divide(const unit& of) {
    const auto charged = t_.charge(purpose::weights);
    growing_array<int> moved;
    for (int at = of.first; at < of.first + of.count; ++at) {
      const parameter_record& parameter = t_.parameters[members_[at]];
      moved.push(t_.new_storage(parameter.whole.count() * bytes_of(parameter.data.format)));
    }
    for (int at = of.first; at < of.first + of.count; ++at) {
      const int part = t_.parameters[members_[at]].data.storage;
      t_.take_again(part);
      if (on_host_) t_.give_back(part);
    }
    for (int at = 0; at < moved.size(); ++at) t_.release(moved[at]);
  }
  constexpr void set_experts_apart(int at) {
    unit of = units_[at];
    growing_array<int> experts;
    int last = of.first;
    for (int which = of.first; which < of.first + of.count; ++which) {
      const int member = members_[which];
      if (t_.parameters[member].ranks_apart != 0)
        experts.push(member);
      else
        members_[last++] = member;
    }
    if (experts.size() == 0) return;
    for (int which = 0; which < experts.size(); ++which) members_[last + which] = experts[which];
    unit made = of;
    made.ranks = t_.parameters[experts[0]].ranks_apart;
    made.stride = stride_ * ranks_ / made.ranks;
    made.first = last;
    made.count = experts.size();
    of.count -= made.count;
    of.experts = units_.push(made);
    units_[at] = of;
  }
  // Which unit is gathered ahead, or none. Behind the layers' units come that of the table, from
  // which the first layer reads, and that of the head.
  [[nodiscard]] constexpr int next_in_forward(int at) const {
    if (!gathers_ahead_ || at >= first_root_) return none;
    if (t_.layer_of(at) == none) return t_.layer_of(at - 1) == none ? none : 0;
    return t_.layer_of(at + 1) == none ? first_root_ - 1 : at + 1;
  }
  constexpr void gather_next(int at) {
    if (const int next = next_in_forward(at); next != none)
      for_both(next, [&](int one) { gather(one); });
  }

  constexpr void cast_input(value& input) {
    // formats of their own are what the policy asks for
    const bool changes = (gathered_ != weights_ || is_half(gathered_)) && input->defined() &&
                         (input->format == element::fp32 || is_half(input->format));
    if (changes) input = cast(t_, input, gathered_);
  }

  // Of a rank's part of a unit, those bytes that are cast before they are gathered.
  struct cast_parts {
    std::int64_t from = 0;
    std::int64_t to = 0;
  };
  constexpr bool is_cast(int parameter) const {
    return t_.parameters[parameter].data.format != t_.parameters[parameter].whole.format;
  }
  constexpr cast_parts casts(const unit& of) const {
    cast_parts sum;
    for (int at = of.first; at < of.first + of.count; ++at) {
      if (!is_cast(members_[at])) continue;
      sum.from += t_.parameters[members_[at]].data.bytes();
      sum.to += bytes_gathered(members_[at]);
    }
    return sum;
  }
  // As it is gathered: a group of several formats is gathered as bytes.
  constexpr std::int64_t bytes_gathered(int parameter) const {
    const parameter_record& record = t_.parameters[parameter];
    return record.data.count() * bytes_of(record.whole.format);
  }
  constexpr std::int64_t bytes_gathered(const unit& of) const {
    std::int64_t sum = 0;
    for (int at = of.first; at < of.first + of.count; ++at) sum += bytes_gathered(members_[at]);
    return sum;
  }
  // Without a policy of its own a gradient is reduced as it is.
  constexpr element reduced(int parameter) const {
    return has_policy_ || reduced_ != weights_ ? reduced_ : t_.parameters[parameter].data.format;
  }

  // Counted as the copies that put the parts together where one device has them all.
  [[nodiscard]] static constexpr device_work gathering_of(std::int64_t ranks) {
    return {.kernels = 0, .copies = static_cast<int>(ranks - 1), .is_shared = true};
  }
  constexpr void gather(int at, int stream = streams::weights) {
    unit& of = units_[at];
    if (of.ranks == 1 || of.is_whole || of.gathered != eager::none || of.count == 0) return;
    const auto aside = t_.on_stream(stream);
    const std::int64_t bytes = bytes_gathered(of);
    list_kernels kernels(2);
    for (int which = of.first; t_.counts_work() && which < of.first + of.count; ++which)
      kernels.add(t_.parameters[members_[which]].data.count());
    const cast_parts cast = casts(of);
    if (!on_host_ && cast.to != 0) t_.executes(cast.from + cast.to, {.kernels = kernels.count()});
    t_.executes(2 * (of.ranks + 1) * bytes, {.kernels = kernels.count()});
    t_.executes((2 * of.ranks + 1) * bytes, gathering_of(of.ranks));
    t_.communicates({.what = collective::all_gather,
                     .bytes = of.ranks * bytes,
                     .ranks = of.ranks,
                     .stride = of.stride,
                     .follows = eager::none});
    const auto charged = t_.charge(purpose::buffers);
    growing_array<int> copies;
    if (on_host_)
      for (int which = of.first; which < of.first + of.count; ++which)
        copies.push(input_of_gather(members_[which]));
    else if (cast.to != 0)
      copies.push(t_.new_storage(cast.to, {"parts to be gathered"}));
    of.gathered = t_.new_storage(of.ranks * bytes, {"gathered parameters of a unit"});
    for (int which = 0; which < copies.size(); ++which) t_.release(copies[which]);
  }

  // A rank's part of a parameter, on the device and in the format in which it is gathered; none
  // where it is that already.
  constexpr int input_of_gather(int parameter) {
    const auto charged = t_.charge(purpose::buffers);
    const int brought =
        on_host_ ? t_.new_storage(t_.parameters[parameter].data.bytes()) : eager::none;
    if (!is_cast(parameter)) return brought;
    const int cast = t_.new_storage(bytes_gathered(parameter));
    t_.release(brought);
    return cast;
  }

  // One rank has all, and copies each parameter.
  constexpr void take_alone(unit& of) {
    int copied = eager::none;
    for (int which = of.first; which < of.first + of.count; ++which) {
      const int next = input_of_gather(members_[which]);
      t_.release(copied);
      copied = next;
      t_.take_again(t_.parameters[members_[which]].whole.storage);
    }
    t_.release(copied);
    of.is_whole = true;
  }

  // Copies what was gathered into the parameters. In the forward that is freed by the next unit,
  // once it has gathered its own.
  constexpr void take_over(int at, bool forward) {
    unit& of = units_[at];
    const bool is_alone = of.ranks == 1 && !of.is_whole;
    if (!is_alone && of.gathered == eager::none) return;
    if (!is_alone) t_.awaits_stream(streams::weights);
    if (forward) {
      t_.release(passing_);
      passing_ = eager::none;
    }
    if (is_alone) return take_alone(of);
    growing_array<int> apart;  // parts along another dimension than the first, until joined
    for (int which = of.first; which < of.first + of.count; ++which) {
      const parameter_record& parameter = t_.parameters[members_[which]];
      t_.take_again(parameter.whole.storage);
      if (parameter.parted_along == 0) continue;
      apart.push(t_.new_storage(parameter.whole.bytes(), {"gathered parts of a weight"}));
    }
    t_.touch(bytes_of_split(of));
    for (int which = 0; which < apart.size(); ++which) {
      t_.executes(2 * t_.storages[apart[which]].bytes);
      t_.release(apart[which]);
    }
    t_.executes(2 * of.ranks * bytes_gathered(of), {.copies = 1});
    // The buffer that the next one gathers into was read: in the forward there are two.
    t_.holds_stream(streams::weights, forward);
    of.is_whole = true;
    if (forward)
      passing_ = of.gathered;
    else
      t_.release(of.gathered);
    of.gathered = eager::none;
  }

  constexpr void free_whole(int at) {
    unit& of = units_[at];
    if (!of.is_whole) return;
    for (int which = of.first; which < of.first + of.count; ++which)
      t_.give_back(t_.parameters[members_[which]].whole.storage);
    of.is_whole = false;
  }

  constexpr void sum_whole(parameter_record& parameter) {
    tensor summed = parameter.whole;
    summed.format = parameter.whole_gradient.format;
    summed.storage = t_.charge(purpose::gradients)->new_storage(summed.bytes());
    t_.release(parameter.whole_gradient.storage);
    parameter.whole_gradient = summed;
  }

  constexpr void finish(int at) {
    if (units_[at].backward != phase::done) after_backward(at);
  }

  // Gradients whose parts lie along another dimension than the first are copied, part behind part.
  // Python lets go of every second one of all an iteration later.
  constexpr void put_parts_in_rows(const growing_array<int>& arrived) {
    growing_array<int> stale, until;
    const auto let_go = [&](int now) {
      for (int which = 0; which < stale.size(); ++which)
        if (until[which] <= now && stale[which] != eager::none) {
          t_.release(stale[which]);
          stale[which] = eager::none;
        }
    };
    for (int at = 0; at < arrived.size(); ++at) {
      const parameter_record& parameter = t_.parameters[arrived[at]];
      if (parameter.parted_along == 0) continue;
      let_go(at);
      tensor& whole = t_.parameters[arrived[at]].whole_gradient;
      stale.push(whole.storage);
      until.push(at % 2 == 0 ? at + 2 : at + 1);
      whole.storage = t_.charge(purpose::gradients)
                          ->new_storage(whole.bytes(), {"gradient by part", arrived[at]});
      t_.executes(2 * whole.bytes());
    }
    let_go(arrived.size() + 2);
  }

  constexpr void reduce(unit& of, const growing_array<int>& arrived) {
    if (of.ranks > 1) put_parts_in_rows(arrived);
    std::int64_t part = 0;
    for (int at = 0; at < arrived.size(); ++at) part += t_.parameters[arrived[at]].data.count();
    // What trains of a unit is of one format.
    const element format = reduced(arrived[0]);
    const element own = t_.parameters[arrived[0]].data.format;
    reducing_.push(
        t_.charge(purpose::buffers)
            ->new_storage(of.ranks * part * bytes_of(format), {"gradients to be reduced"}));
    t_.touch(bytes_of_chunks(arrived));
    std::int64_t gradient_bytes = 0;
    for (int at = 0; t_.counts_work() && at < arrived.size(); ++at)
      gradient_bytes += t_.parameters[arrived[at]].whole_gradient.bytes();
    const std::int64_t reduced_bytes = part * bytes_of(format);
    t_.executes(gradient_bytes + of.ranks * reduced_bytes, {.copies = 1});
    device_work sum = device_work::copy();
    sum.is_shared = true;
    if (of.ranks > 1) t_.executes((of.ranks + 2) * reduced_bytes, sum);
    for (int at = arrived.size() - 1; at >= 0; --at) {
      tensor& whole = t_.parameters[arrived[at]].whole_gradient;
      t_.release(whole.storage);
      whole = {};
    }
    const auto charged = t_.charge(purpose::gradients);
    const auto aside = t_.on_stream(streams::gradients);
    t_.communicates({.what = collective::reduce_scatter,
                     .bytes = of.ranks * reduced_bytes,
                     .ranks = of.ranks,
                     .stride = of.stride});
    if (replicates_) {
      const auto apart = t_.on_stream(streams::replicas);
      t_.communicates({.what = collective::all_reduce,
                       .bytes = reduced_bytes,
                       .ranks = replicas_,
                       .stride = stride_ * ranks_,
                       .follows = streams::gradients});
    }
    int result = t_.new_storage(part * bytes_of(format), {"reduced gradients of a unit"});
    const int before_cast = result;
    if (replicates_) {
      t_.hold(result);
      t_.release(of.summed);
      of.summed = result;
    }
    if (format != own) t_.executes(part * (bytes_of(format) + bytes_of(own)));
    if (format != own)
      result = t_.on_stream(replicates_ ? streams::replicas : streams::gradients)
                   ->new_storage(part * bytes_of(own), {"reduced gradients of a unit"});
    for (int at = 0; at < arrived.size() && !on_host_; ++at) {
      const int twin = t_.parameters[arrived[at]].twin;
      parameter_record& parameter = t_.parameters[twin == none ? arrived[at] : twin];
      if (parameter.gradient.defined()) {
        t_.executes(3 * parameter.data.bytes());
        continue;  // added into that
      }
      parameter.gradient = parameter.data;
      parameter.gradient.storage = result;
      parameter.gradient.is_view = true;
      t_.hold(result);
    }
    t_.release(result);
    if (before_cast != result) t_.release(before_cast);
  }

  // The arguments of the kernels that split and join the buffers: addresses, sizes, and which block
  // of threads works on which parameter (TensorShape.cu of PyTorch).
  static constexpr std::int64_t block_threads = 128;
  static constexpr std::int64_t block_bytes = 16 * block_threads;

  constexpr std::int64_t bytes_of_split(const unit& of) const {
    const auto blocks = [&](std::int64_t iterations) {
      std::int64_t sum = 0;
      for (int at = of.first; at < of.first + of.count; ++at)
        sum += ceil_div(bytes_gathered(members_[at]), block_bytes * iterations);
      return sum;
    };
    const std::int64_t most =
        2 * (t_.device.multiprocessors * t_.device.threads_per_multiprocessor / block_threads);
    const std::int64_t factor = ceil_div(blocks(1) * of.ranks, most);
    std::int64_t chunks = 1;
    while (chunks * chunks < factor) ++chunks;
    chunks = at_most(chunks, of.ranks);
    return 8 * (4 * of.count + 1 + blocks(ceil_div(factor, chunks)));
  }

  constexpr std::int64_t bytes_of_chunks(const growing_array<int>& arrived) const {
    std::int64_t blocks = 0;
    for (int at = 0; at < arrived.size(); ++at)
      blocks += ceil_div(t_.parameters[arrived[at]].data.count() * bytes_of(reduced(arrived[at])),
                         block_bytes);
    return 8 * (6 * arrived.size() + 2 + blocks);
  }

  tape& t_;
  std::int64_t ranks_;     // that share,
  std::int64_t replicas_;  // such groups,
  std::int64_t stride_;    // and from one rank to the next
  bool gathers_ahead_;     // in the forward too; a stage's are whole
  bool replicates_;        // other groups have the same
  bool on_host_;
  bool comes_whole_;  // to the device, unit by unit: blocks are not made on the meta device
  bool is_stage_;  // of a pipeline: whole, with whole gradients, until all micro-batches are done
  bool reduces_always_;
  bool reduces_ = true;
  bool has_policy_;  // of formats, into which what is gathered is cast
  element weights_;
  element gathered_;
  element reduced_;
  bool frees_after_forward_;
  bool keeps_last_;
  bool has_twins_ = false;
  model_code* code_ = nullptr;
  growing_array<int> in_order_{};  // units but the roots, chunk by chunk,
  growing_array<int> begin_{};     // and where those of a chunk begin
  int first_root_ = eager::none;   // of as many as a stage has chunks
  int root_ = eager::none;         // of the chunk that runs
  int passing_ = eager::none;      // gathered, and taken over in the forward
  int run_apart_ = eager::none;    // a unit
  growing_array<int> reducing_{};  // gradients, until the next unit's are there
  growing_array<int> nothing_{};
  growing_array<int> own_{};  // parameters whose part is no other's
  growing_array<unit> units_{};
  growing_array<int> members_{};  // parameters, unit by unit
  growing_array<int> turns_{};    // units, in the order of their forwards
};

}  // namespace gpuplan::eager

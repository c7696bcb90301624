#pragma once

// How Megatron-Core trains: several micro-batches in flight between pipeline stages. Private.

#include <gpuplan/replay/sharding/megatron/states.hpp>
#include <gpuplan/replay/sharding/pass_order.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Megatron-Core's schedules: without pipeline stages, with them, and interleaved.
class megatron_training final : public megatron_states {
 public:
  using megatron_states::megatron_states;
  constexpr ~megatron_training() override { delete[] flights_; }

  [[nodiscard]] constexpr bool has_own_step() const override { return true; }

  constexpr void model_is_built() override {
    megatron_states::model_is_built();
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      last_input_.push(none);
      forwards_.push({});
      backwards_.push({});
    }
  }

  constexpr void step() override {
    t_.begin(moment::forward);
    forget_gradients();
    const int old_reports = reports_.size();
    {
      const value tokens = number();
      if (stages_ == 1)
        train_alone();
      else if (defers_weights())
        train_in_order();
      else if (chunks_ == 1)
        train_in_stages();
      else
        train_interleaved();
      of_tokens_ = value();
    }
    forget_reports(old_reports);
    update();
  }

 private:
  // -- what stages pass to each other

  // A received tensor and its gradient, as the variables that hold it.
  struct parcel {
    tensor data{};
    tensor gradient{};
    int holders = 0;
    int next_free = none;
  };
  struct flight {
    int input = none;  // a parcel
    value leaf{};
    value output{};
    tape::graph_place place{};
    int chunk = 0;
    bool is_replayed = true;
    int kept[purposes]{none, none, none, none, none, none, none};  // else: what it keeps, by kind
    megatron_gpt::waiting_products waiting{};
  };

  // First in, first out.
  struct queue {
    growing_array<int> all{};
    int first = 0;

    constexpr void push(int one) { all.push(one); }
    constexpr int pop() { return all[first++]; }
    [[nodiscard]] constexpr bool is_empty() const { return first == all.size(); }
  };

  constexpr int receive() {
    parcel made;
    made.data = t_.charge(purpose::buffers)->make(code_->passed(), code_->format()).take();
    made.holders = 1;
    if (free_parcel_ == none) return parcels_.push(made);
    const int at = free_parcel_;
    free_parcel_ = parcels_[at].next_free;
    parcels_[at] = made;
    return at;
  }
  constexpr int hold(int parcel_index) {
    if (parcel_index != none) ++parcels_[parcel_index].holders;
    return parcel_index;
  }
  constexpr void release(int parcel_index) {
    if (parcel_index == none) return;
    parcel& one = parcels_[parcel_index];
    if (--one.holders != 0) return;
    drop(one.data);
    drop(one.gradient);
    one.next_free = free_parcel_;
    free_parcel_ = parcel_index;
  }
  constexpr void assign(int& variable, int parcel_index) {
    const int old = variable;
    variable = parcel_index;
    release(old);
  }

  // -- forward and backward of one micro-batch

  // What is said of a micro-batch stays until the next step's is there.
  constexpr void forget_reports(int count) {
    for (int at = 0; at < count; ++at) t_.release(reports_[at]);
    for (int at = count; at < reports_.size(); ++at) reports_[at - count] = reports_[at];
    reports_.resize_down(reports_.size() - count);
  }
  // The losses' sum, divided by the tokens and by the micro-batches; the sum and the tokens are
  // reported.
  constexpr value mean_of(const tensor& losses, value loss_mask) {
    value total = total_of(losses, std::move(loss_mask));
    {
      value count = number();
      count = number();
      of_tokens_ = number();
    }
    {
      const value copy = number();
      reports_.push(t_.new_storage(report_bytes));
    }
    const value divisor = number();
    for (const bool by_tokens : {true, false}) {
      const int by = t_.add_node(node_kind::scale, {&*total});
      if (by_tokens) t_.keep(by, divisor);
      t_.result_of(by, total.get());
    }
    return total;
  }
  struct spread_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      tensor seen = *incoming[0];
      const edge to = on.nodes[index].input[0];
      seen.size = on.nodes[to.node].size[to.output];
      for (int at = 0; at < seen.size.rank; ++at) seen.stride[at] = 0;
      on.hold(seen.storage);
      out.of[0] = value(on, seen);
    }
  };
  // Of a number times a vector of one.
  struct scaled_backward final : own_backward {
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      const value product = on.make(incoming[0]->size, element::fp32);
      out.of[0] = on.make(incoming[0]->size, element::fp32);
    }
  };
  constexpr value total_of(const tensor& losses, value loss_mask) {
    const value weighted = multiply(t_, losses, loss_mask);
    const int by = t_.add_node(spread_backward_, {&*weighted});
    value total = t_.make(sizes{1}, element::fp32);
    touch(t_, scratch_of_reduction(t_.device, weighted->count(), 1, true));
    t_.result_of(by, total.get());
    return total;
  }

  // -- passes that do as ones before

  // What one pass of a micro-batch through a chunk does.
  struct pass_record {
    int seen = 0;
    stretch_peaks peaks{};
    std::int64_t left[purposes]{};  // by a forward; a backward frees it,
    std::int64_t input_bytes = 0;   // beside what it was given, of which it may keep a part,
    tensor result{};                // and what it gives on
    std::int64_t result_bytes = 0;
    purpose result_is = purpose::working;
  };
  // Where experts are chosen, layers hold what they chose last.
  [[nodiscard]] constexpr bool repeats() {
    return t_.memory().adds_up() && !code_->has_mixture() && !defers_weights();
  }
  // The first one makes what stays for all, the second one is as all others.
  [[nodiscard]] constexpr bool begin_pass(pass_record& by, int input) {
    if (++by.seen != 2 || !repeats()) return false;
    t_.memory().begin_stretch();
    note_left(by, input, -1);
    return true;
  }
  constexpr void end_pass(pass_record& by, int input, const tensor& result) {
    by.peaks = t_.memory().end_stretch();
    note_left(by, input, 1);
    if (!result.defined()) return;
    const storage_record& there = t_.storages[result.storage];
    by.result = result;
    by.result.node = none;
    by.result_bytes = there.bytes;
    by.result_is = there.what;
    by.left[static_cast<int>(there.what)] -= there.bytes;
  }
  constexpr void note_left(pass_record& by, int input, int sign) {
    for (int what = 0; what < purposes; ++what) by.left[what] += sign * t_.alive[what];
    if (input == none) return;
    const storage_record& given = t_.storages[parcels_[input].data.storage];
    by.input_bytes = given.bytes;
    by.left[static_cast<int>(given.what)] -= sign * given.bytes;
  }
  [[nodiscard]] constexpr value result_of(const pass_record& by) {
    if (!by.result.defined()) return {};
    tensor made = by.result;
    made.storage = t_.charge(by.result_is)->new_storage(by.result_bytes);
    return {t_, made};
  }
  constexpr void report() {
    of_tokens_ = number();
    reports_.push(t_.new_storage(report_bytes));
  }
  constexpr void repeat_forward(flight& one) {
    const pass_record& by = forwards_[one.chunk];
    t_.memory().repeat(by.peaks);
    if (one.input != none) t_.resize(parcels_[one.input].data.storage, by.input_bytes);
    for (int what = 0; what < purposes; ++what)
      if (by.left[what] > 0)
        one.kept[what] = t_.charge(static_cast<purpose>(what))->new_storage(by.left[what]);
    one.output = result_of(by);
    one.is_replayed = false;
    if (code_->is_last(one.chunk)) report();
  }
  constexpr value repeat_backward(flight& one, int gradient) {
    const pass_record& by = backwards_[one.chunk];
    t_.memory().repeat(by.peaks);
    for (int& kept : one.kept) {
      t_.release(kept);
      kept = none;
    }
    if (gradient == none && stages_ > 1) one.output = number();
    if (one.input == none) return {};
    t_.resize(parcels_[one.input].data.storage, by.input_bytes);
    parcel& input = parcels_[one.input];
    input.gradient = result_of(by).take();
    return t_.share(input.gradient);
  }

  constexpr void forward(flight& one, int chunk, int input) {
    if (input != none) {
      hold(input);
      assign(last_input_[chunk], input);
    }
    ++live_;
    one.input = hold(input);
    one.chunk = chunk;
    one.is_replayed = true;
    pass_record& by = forwards_[chunk];
    if (by.seen >= 2 && repeats()) {
      if (input != none) one.leaf = t_.share(parcels_[input].data);
      return repeat_forward(one);
    }
    const bool is_noted = begin_pass(by, input);
    one.place = t_.begin_graph();
    tensor received{};
    if (input != none) {
      one.leaf = t_.leaf(parcels_[input].data);
      received = *one.leaf;
    }
    value result;
    {
      megatron_gpt::batch_end end;
      result = code_->forward_chunk(chunk, received, &end);
      if (code_->is_last(chunk)) result = mean_of(result, std::move(end.loss_mask));
    }
    // by which the backward scales the losses of routers
    if (code_->has_mixture() && !router_scale_.defined()) router_scale_ = number().take();
    one.output = std::move(result);
    if (!is_noted) return;
    end_pass(by, input, *one.output);
    if (code_->is_last(chunk)) by.left[static_cast<int>(purpose::working)] -= report_bytes;
  }
  // The output's tensor goes, its place in the graph stays.
  constexpr void deallocate(flight& one) {
    if (!one.output->defined()) return;
    value small = t_.make(sizes{1}, one.output->format);
    small.get().node = one.output->node;
    small.get().output = one.output->output;
    one.output = std::move(small);
  }
  // The gradient of the input, where there is one.
  constexpr value backward(flight& one, int gradient) {
    value of_input;
    if (one.is_replayed)
      of_input = replay_backward(one, gradient);
    else
      of_input = repeat_backward(one, gradient);
    if (--live_ == 0) t_.forget({});
    t_.begin(moment::forward);
    return of_input;
  }
  constexpr value replay_backward(flight& one, int gradient) {
    pass_record& as = backwards_[one.chunk];
    const bool is_noted = begin_pass(as, one.input);
    t_.begin(moment::backward);
    {
      if (gradient == none) {
        value scaled = number();
        const int by = t_.add_node(scaled_backward_, {&*one.output});
        t_.result_of(by, scaled.get());
        if (stages_ > 1) one.output = t_.share(scaled);
        const value root = number();
        t_.follow(scaled, root, one.place.node);
      } else if (one.output->node != none) {
        // Else nothing trains before it, as in a chunk of a frozen token table alone.
        t_.follow(one.output, parcels_[gradient].data, one.place.node);
      }
    }
    value of_input;
    if (one.input != none) {
      parcel& input = parcels_[one.input];
      input.gradient = t_.gradient_of(one.leaf).take();
      of_input = t_.share(input.gradient);
    }
    if (is_noted) end_pass(as, one.input, *of_input);
    return of_input;
  }
  // The last variable that holds the output goes, with it the graph's nodes, and the input.
  constexpr void retire(std::int64_t which) {
    if (which < 0) return;
    flight& one = flights_[which];
    one.leaf.drop();
    release(one.input);
    one.input = none;
    one.output = value();
  }

  constexpr void prepare(std::int64_t count) {
    delete[] flights_;
    flights_ = new flight[static_cast<unsigned long>(count)];
  }

  // -- schedules

  constexpr void train_alone() {
    prepare(2);
    for (std::int64_t micro = 0; micro < plan_.accumulation; ++micro) {
      forward(flights_[micro % 2], 0, none);
      retire((micro + 1) % 2);
      backward(flights_[micro % 2], none);
    }
    retire(0);
    retire(1);
    finish_gradients();
  }

  constexpr void train_in_stages() {
    const std::int64_t count = plan_.accumulation;
    prepare(count);
    const bool is_first = stage_ == 0;
    const bool is_last = stage_ == stages_ - 1;
    const std::int64_t warmup = at_most(stages_ - stage_ - 1, count);
    const std::int64_t steady = count - warmup;
    std::int64_t done = none;  // the last micro-batch whose backward is done
    int input = none;
    int output_gradient = none;
    value input_gradient;
    for (std::int64_t at = 0; at < warmup; ++at) {
      assign(input, is_first ? none : receive());
      forward(flights_[at], 0, input);
      deallocate(flights_[at]);
    }
    if (steady > 0) assign(input, is_first ? none : receive());
    for (std::int64_t at = 0; at < steady; ++at) {
      const std::int64_t micro = at + warmup;
      forward(flights_[micro], 0, input);
      retire(done);
      assign(output_gradient, is_last ? none : receive());
      deallocate(flights_[micro]);
      ++done;
      assign(input, hold(flights_[done].input));
      input_gradient = backward(flights_[done], output_gradient);
      if (at == steady - 1)
        assign(input, none);
      else
        assign(input, is_first ? none : receive());
    }
    for (std::int64_t at = 0; at < warmup; ++at) {
      retire(done++);
      assign(input, hold(flights_[done].input));
      assign(output_gradient, is_last ? none : receive());
      input_gradient = backward(flights_[done], output_gradient);
    }
    finish_gradients();
    retire(done);
    release(input);
    release(output_gradient);
  }

  // Micro-batches and chunks in turn: groups of as many micro-batches as there are stages go
  // through one chunk after the other.
  constexpr void train_interleaved() {
    const auto chunks = static_cast<std::int64_t>(chunks_);
    const std::int64_t count = plan_.accumulation;
    const std::int64_t total = count * chunks;
    prepare(total);
    const bool is_first = stage_ == 0;
    const bool is_last = stage_ == stages_ - 1;
    const std::int64_t warmup = at_most(2 * (stages_ - stage_ - 1) + (chunks - 1) * stages_, total);
    const bool all_warm_up = warmup == total;
    growing_array<int> chunk_at;
    for (std::int64_t first = 0; first < count; first += stages_)
      for (int chunk = 0; chunk < chunks_; ++chunk)
        for (std::int64_t micro = first; micro < at_most(first + stages_, count); ++micro)
          chunk_at.push(chunk);
    const auto chunk_of = [&](std::int64_t at, bool forwards) {
      const int chunk = chunk_at[static_cast<int>(at % total)];
      return forwards ? chunk : chunks_ - 1 - chunk;
    };
    // Whether a tensor comes in, and for which chunk.
    struct arrival {
      bool comes = true;
      int chunk = 0;
    };
    const auto arrival_at = [&](std::int64_t at, bool forwards) {
      arrival next;
      if (!(forwards ? is_first : is_last)) {
        next.chunk = chunk_of(at + 1, forwards);
        return next;
      }
      if (at < stages_ - 1) {
        next.comes = false;
        next.chunk = chunk_of(at + 1, forwards);
      } else {
        next.chunk = chunk_of(at - (stages_ - 1), forwards);
      }
      if (next.chunk == (forwards ? chunks_ - 1 : 0)) next.comes = false;
      next.chunk += forwards ? 1 : -1;
      return next;
    };
    queue* inputs = new queue[static_cast<unsigned long>(chunks)];
    queue* outputs = new queue[static_cast<unsigned long>(chunks)];
    queue* output_gradients = new queue[static_cast<unsigned long>(chunks)];
    const auto is_end = [&](int chunk) { return is_last && chunk == chunks_ - 1; };
    const auto is_begin = [&](int chunk) { return is_first && chunk == 0; };
    const auto run_forward = [&](std::int64_t at) {
      const int chunk = chunk_of(at, true);
      if (is_begin(chunk) && inputs[chunk].all.size() == outputs[chunk].all.size())
        inputs[chunk].push(none);
      const int input = inputs[chunk].all[outputs[chunk].all.size()];
      forward(flights_[at], chunk, input);
      outputs[chunk].push(static_cast<int>(at));
    };
    const auto run_backward = [&](std::int64_t at) {
      const int chunk = chunk_of(at, false);
      if (is_end(chunk) && output_gradients[chunk].is_empty()) output_gradients[chunk].push(none);
      const int input = inputs[chunk].pop();
      const int which = outputs[chunk].pop();
      const int gradient = output_gradients[chunk].pop();
      value of_input = backward(flights_[which], gradient);
      retire(which);
      release(input);
      release(gradient);
      return of_input;
    };
    int input = none;
    int output_gradient = none;
    std::int64_t output = none;
    value input_gradient;
    const auto put = [&](const arrival& one, queue* queues, int variable) {
      if (one.comes) queues[one.chunk].push(hold(variable));
    };
    inputs[0].push(is_first ? none : receive());
    for (std::int64_t at = 0; at < warmup; ++at) {
      arrival next = arrival_at(at, true);
      if (at == total - 1) next.comes = false;
      run_forward(at);
      output = is_end(chunk_of(at, true)) ? none : at;
      const int arrived = next.comes ? receive() : none;
      if (at == warmup - 1 && !all_warm_up) {
        const int gradient = is_last ? none : receive();
        assign(input, arrived);
        assign(output_gradient, gradient);
        output_gradients[chunks_ - 1].push(hold(gradient));
      } else {
        assign(input, arrived);
      }
      put(next, inputs, input);
      if (output != none) deallocate(flights_[output]);
    }
    for (std::int64_t at = 0; at < total - warmup; ++at) {
      run_forward(at + warmup);
      value gradient = run_backward(at);
      input_gradient = std::move(gradient);
      output = is_end(chunk_of(at + warmup, true)) ? none : at + warmup;
      if (is_begin(chunk_of(at, false))) input_gradient = value();
      arrival next = arrival_at(at + warmup, true);
      const arrival next_gradient = arrival_at(at, false);
      if (at == total - warmup - 1) next.comes = false;
      const int arrived = next.comes ? receive() : none;
      const int arrived_gradient = next_gradient.comes ? receive() : none;
      assign(input, arrived);
      assign(output_gradient, arrived_gradient);
      if (output != none) deallocate(flights_[output]);
      put(next, inputs, input);
      put(next_gradient, output_gradients, output_gradient);
    }
    if (all_warm_up) output_gradients[chunks_ - 1].push(is_last ? none : receive());
    for (std::int64_t at = total - warmup; at < total; ++at) {
      arrival next = arrival_at(at, false);
      if (at == total - 1) next.comes = false;
      value gradient = run_backward(at);
      input_gradient = std::move(gradient);
      if (is_begin(chunk_of(at, false))) input_gradient = value();
      assign(output_gradient, next.comes ? receive() : none);
      put(next, output_gradients, output_gradient);
    }
    finish_gradients();
    release(input);
    release(output_gradient);
    delete[] inputs;
    delete[] outputs;
    delete[] output_gradients;
  }

  [[nodiscard]] constexpr bool defers_weights() const {
    return traits_of(setup_.parallelism.schedule).defers_weights;
  }

  // Passes as a schedule orders them, gradients of weights among them. Where a pipeline folds, the
  // last rank hands on to itself.
  constexpr void train_in_order() {
    const pass_order order(setup_.parallelism, stage_, plan_.accumulation);
    const std::int64_t count = plan_.accumulation;
    prepare(chunks_ * count);
    const bool folds_here = traits_of(setup_.parallelism.schedule).folds && stage_ == stages_ - 1;
    growing_array<int> handed;  // to the other chunk, by micro-batch
    for (std::int64_t at = 0; at < count; ++at) handed.push(none);
    value input_gradient;
    for (int at = 0; at < order.size(); ++at) {
      const stage_pass& pass = order[at];
      const std::int64_t which = pass.chunk * count + pass.micro_batch;
      flight& one = flights_[which];
      int& between = handed[static_cast<int>(pass.micro_batch)];
      if (pass.what == pass_kind::of_weights) {
        t_.begin(moment::backward);
        code_->catch_up(one.waiting);
        continue;
      }
      if (pass.what == pass_kind::forward) {
        const bool is_handed = folds_here && pass.chunk == 1;
        const int input = is_handed                     ? std::exchange(between, none)
                          : code_->is_first(pass.chunk) ? none
                                                        : receive();
        forward(one, pass.chunk, input);
        release(input);
        if (code_->is_last(pass.chunk)) continue;
        if (folds_here && pass.chunk == 0) between = hand_on(t_.share(one.output));
        deallocate(one);
        continue;
      }
      const bool is_handed = folds_here && pass.chunk == 0;
      const int gradient = is_handed                    ? std::exchange(between, none)
                           : code_->is_last(pass.chunk) ? none
                                                        : receive();
      code_->defer_to(pass.what == pass_kind::of_input ? &one.waiting : nullptr);
      input_gradient = backward(one, gradient);
      code_->defer_to(nullptr);
      retire(which);
      release(gradient);
      if (folds_here && pass.chunk == 1) between = hand_on(std::move(input_gradient));
    }
    finish_gradients();
  }
  constexpr int hand_on(value given) {
    parcel made;
    made.data = given.take();
    made.data.node = none;
    made.holders = 1;
    return parcels_.push(made);
  }

  // The sum of the losses, and the number of tokens.
  static constexpr std::int64_t report_bytes = 8;

  growing_array<int> reports_{};
  value of_tokens_{};
  tensor router_scale_{};

  growing_array<parcel> parcels_{};
  int free_parcel_ = none;
  growing_array<int> last_input_{};
  growing_array<pass_record> forwards_{};  // by chunk
  growing_array<pass_record> backwards_{};
  flight* flights_ = nullptr;
  int live_ = 0;
  spread_backward spread_backward_{};
  scaled_backward scaled_backward_{};
};

}  // namespace gpuplan::eager

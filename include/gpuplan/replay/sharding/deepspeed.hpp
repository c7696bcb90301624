#pragma once

// DeepSpeed's engine with ZeRO-0 to ZeRO-2. Private.
// Transcribed from DeepSpeed 0.19: runtime/engine.py, runtime/zero/stage_1_and_2.py,
// runtime/bf16_optimizer.py and runtime/fp16/unfused_optimizer.py.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/optimizer_step.hpp>
#include <gpuplan/replay/sharding/deepspeed_pipeline.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// A step as `DeepSpeedEngine` runs it: the first rank's.
class deepspeed_engine : public sharding {
 public:
  constexpr deepspeed_engine(tape& on, const training_setup& of, const batch_plan& with)
      : t_(on),
        setup_(without_clipping(of)),
        zero_(of.framework.engine.zero),
        plan_(with),
        stage_(of.parallelism.zero_stage),
        ranks_(with.data_parallel),
        format_(element_of(of.precision.weights)),
        states_(on, setup_),
        pipeline_(on, of, with) {}
  constexpr ~deepspeed_engine() override {
    drop_storages(kept_);
    t_.release(norm_);
  }

  constexpr void begins(model_code& code) override {
    code_ = &code;
    if (setup_.framework.layers().name == &code_names::megatron_core)
      pipeline_.runs(static_cast<megatron_gpt&>(code));
  }
  [[nodiscard]] constexpr bool has_own_step() const override { return true; }
  /// None: the states are the engine's own.
  constexpr const growing_array<int>* updated() const override { return &nothing_; }

  constexpr void model_is_built() override {
    for (int at = 0; at < t_.parameters.size(); ++at)
      if (t_.parameters[at].trains) trained_.push(at);
    // _cast_module_mixed_precision: of adapters, which PEFT makes in fp32, and of what it has cast
    // to fp32 beside four-bit matrices. Where zero.Init has made the model, nothing is cast.
    for (int at = 0; at < t_.parameters.size() && !is_divided_while_building(); ++at)
      t_.convert(t_.parameters[at].data, format_);
    initialize();
  }

  constexpr void step() override {
    if (is_pipeline()) {
      std::int64_t done = 0;
      pipeline_.run([&] { backward_begins(); },
                    [&] {
                      is_last_ = ++done == plan_.accumulation;
                      reduce_gradients();
                    });
      t_.begin(moment::optimizer);
    }
    for (std::int64_t micro = 0; micro < plan_.accumulation && !is_pipeline(); ++micro) {
      is_last_ = micro + 1 == plan_.accumulation;
      before_forward();
      t_.begin(moment::forward);
      const value loss = forward();
      {
        // TRL's trainers have divided by the micro-batches themselves.
        const bool is_whole = setup_.objective != training_objective::next_token;
        const value averaged = is_whole ? t_.share(loss) : scale(t_, loss);
        value scaled;
        if (scales_loss())
          scaled = scale(t_, averaged);
        else
          scaled = t_.share(averaged);
        is_going_back_ = true;
        t_.backward(scaled);
        is_going_back_ = false;
        reduce_gradients();
      }
      if (is_last_) t_.begin(moment::optimizer);
      t_.drop_leaves();
    }
    update();
    for (int at = 0; at < trained_.size(); ++at) drop(gradient(trained_[at]));
  }

 protected:
  constexpr virtual void initialize() = 0;
  constexpr virtual void before_forward() {}
  constexpr virtual value forward() {
    code_->given_input = code_->input();
    return code_->forward();
  }
  constexpr virtual void backward_begins() {}
  [[nodiscard]] constexpr virtual bool scales_loss() const { return true; }
  constexpr virtual void reduce_gradients() = 0;
  constexpr virtual void update() = 0;

  [[nodiscard]] constexpr bool is_divided_while_building() const {
    return detail::divides_while_building(setup_);
  }
  [[nodiscard]] constexpr bool is_pipeline() const { return pipeline_.is_on(); }
  [[nodiscard]] constexpr std::int64_t count(int parameter) const {
    return t_.parameters[parameter].data.count();
  }
  [[nodiscard]] constexpr tensor& gradient(int parameter) const {
    return t_.parameters[parameter].gradient;
  }
  constexpr void drop(tensor& of) const {
    t_.release(of.storage);
    of = {};
  }
  constexpr void drop(int& storage) const {
    t_.release(storage);
    storage = none;
  }
  constexpr void drop_storages(growing_array<int>& storages) const {
    for (int at = 0; at < storages.size(); ++at) t_.release(storages[at]);
    storages.resize_down(0);
  }
  /// Puts a tensor into another storage.
  constexpr void move_to(tensor& of, int storage) const {
    t_.hold(storage);
    t_.release(of.storage);
    of.storage = storage;
    of.is_view = true;
  }
  [[nodiscard]] constexpr int make(purpose what, std::int64_t bytes) const {
    return t_.charge(what)->new_storage(bytes);
  }
  /// One that lives as long as the engine.
  constexpr int make_lasting(purpose what, std::int64_t bytes) {
    return kept_[kept_.push(make(what, bytes))];
  }
  /// fp32 weights that the optimizer updates: a parameter that no operator reads.
  constexpr void add_master(std::int64_t elements) {
    parameter_record record;
    set_contiguous(record.data, sizes{elements});
    record.data.storage = make(purpose::weights, 4 * elements);
    masters_.push(t_.parameters.push(record));
  }
  /// Gives a master its gradient, which this takes over.
  constexpr void give_gradient(int master, int storage) const {
    tensor& of = gradient(masters_[master]);
    of = t_.parameters[masters_[master]].data;
    of.storage = storage;
  }
  constexpr void construct_states() { states_.construct(&masters_); }
  /// Puts the norm of the gradients, without the loss's scale, in the place of the last step's;
  /// with the scale it lives as long as what is returned.
  constexpr value note_norm(std::int64_t numbers = 1) {
    const auto charged = t_.charge(purpose::buffers);
    value scaled = t_.make(sizes{numbers}, element::fp32, {"norm"});
    const int now = t_.new_storage(4 * numbers, {"norm"});
    t_.release(norm_);
    norm_ = now;
    return scaled;
  }

  /// One tensor after the other in one buffer, padded to a multiple: how many elements that takes.
  constexpr std::int64_t flatten(const growing_array<int>& parameters, std::int64_t multiple) {
    std::int64_t sum = 0;
    for (int at = 0; at < parameters.size(); ++at) sum += count(parameters[at]);
    const std::int64_t padded = ceil_div(sum, multiple) * multiple;
    for (int at = 0; zero_.flattens_on_host && at < parameters.size(); ++at)
      drop(t_.parameters[parameters[at]].data.storage);
    if (zero_.flattens_on_host) t_.empty_cache();
    int padding = none;
    if (padded != sum) padding = t_.new_storage((padded - sum) * bytes_of(format_));
    const int flat = make_lasting(purpose::weights, padded * bytes_of(format_));
    t_.release(padding);
    for (int at = 0; at < parameters.size(); ++at)
      move_to(t_.parameters[parameters[at]].data, flat);
    return padded;
  }

  tape& t_;
  training_setup setup_;
  zero_settings zero_;
  batch_plan plan_;
  int stage_;
  std::int64_t ranks_;
  element format_;
  bool is_last_ = true;  // of the micro-batches
  bool is_going_back_ = false;
  model_code* code_ = nullptr;
  growing_array<int> trained_{};
  growing_array<int> masters_{};
  optimizer_states states_;

 private:
  static constexpr training_setup without_clipping(training_setup setup) {
    setup.optimizer.clips_gradients = false;  // by its own code
    return setup;
  }

  growing_array<int> nothing_{};
  growing_array<int> kept_{};
  int norm_ = none;
  deepspeed_pipeline pipeline_;
};

/// FP16_UnfusedOptimizer, which ZeRO-0 takes for optimizers that are not DeepSpeed's: every weight
/// has an fp32 copy of its own.
class deepspeed_unfused final : public deepspeed_engine {
 public:
  using deepspeed_engine::deepspeed_engine;
  constexpr ~deepspeed_unfused() override {}  // NOLINT(modernize-use-equals-default)

 private:
  static constexpr std::int64_t reduced_elements = 500'000'000;  // MEMORY_OPT_ALLREDUCE_SIZE

  constexpr bool scales_loss() const override { return false; }

  // The states come into being in a step with gradients of zero.
  constexpr void initialize() override {
    for (int at = 0; at < trained_.size(); ++at) {
      const std::int64_t elements = count(trained_[at]);
      const int copy = t_.new_storage(elements * bytes_of(format_));
      add_master(elements);
      t_.release(copy);
    }
    construct_states();
    growing_array<int> gradients;
    for (int at = 0; at < trained_.size(); ++at)
      gradients.push(t_.new_storage(count(trained_[at]) * bytes_of(format_)));
    make_gradients();
    states_.step();
    drop_storages(gradients);
    drop_gradients();
  }

  constexpr void make_gradients() {
    for (int at = 0; at < masters_.size(); ++at)
      give_gradient(at, make(purpose::gradients, 4 * count(masters_[at])));
  }
  constexpr void drop_gradients() {
    for (int at = 0; at < masters_.size(); ++at) drop(gradient(masters_[at]));
  }

  // buffered_allreduce_fallback
  constexpr void reduce_gradients() override {
    if (!is_last_) return;
    std::int64_t elements = 0;
    int tensors = 0;
    const auto reduce = [&] {
      if (tensors > 1) t_.touch(elements * bytes_of(format_));
      elements = 0;
      tensors = 0;
    };
    for (int at = 0; at < trained_.size(); ++at) {
      elements += count(trained_[at]);
      ++tensors;
      if (elements > reduced_elements) reduce();
    }
    if (tensors > 0) reduce();
  }

  constexpr void update() override {
    for (int at = 0; at < trained_.size(); ++at) t_.touch(4 * count(trained_[at]));  // their norms
    make_gradients();
    states_.step();
    drop_gradients();
  }
};

/// BF16_Optimizer, which ZeRO-1 takes for bf16 weights whose gradients are summed in fp32: in a
/// buffer that every rank has whole.
class deepspeed_bf16 final : public deepspeed_engine {
 public:
  using deepspeed_engine::deepspeed_engine;
  constexpr ~deepspeed_bf16() override {}  // NOLINT(modernize-use-equals-default)

  [[nodiscard]] static constexpr bool is_for(const training_setup& setup) {
    return setup.parallelism.zero_stage == 1 && setup.precision.fp32_gradients &&
           setup.precision.weights == number_format::bf16;
  }

 private:
  constexpr bool scales_loss() const override { return false; }
  constexpr void backward_begins() override {
    for (int at = 0; zero_.renews_gradients && at < trained_.size(); ++at)
      drop(gradient(trained_[at]));
  }

  constexpr void initialize() override {
    total_ = flatten(trained_, 2 * ranks_);
    const std::int64_t part = total_ / ranks_;
    const int copy = t_.new_storage(part * bytes_of(format_));
    add_master(part);
    t_.release(copy);
    gradients_ = make_lasting(purpose::gradients, 4 * total_);
    construct_states();
    if (zero_.steps_while_building) step_states();
  }

  constexpr void reduce_gradients() override {
    for (int at = 0; at < trained_.size(); ++at)
      if (gradient(trained_[at]).defined()) t_.touch(4 * count(trained_[at]));
    if (is_last_) t_.touch(total_ * bytes_of(format_));
  }

  constexpr void update() override {
    static_cast<void>(note_norm());
    step_states();
  }
  constexpr void step_states() {
    t_.hold(gradients_);
    give_gradient(0, gradients_);
    states_.step();
    drop(gradient(masters_[0]));
  }

  std::int64_t total_ = 0;
  int gradients_ = none;
};

/// DeepSpeedZeroOptimizer: ZeRO-1 and ZeRO-2. The weights are views of one flat buffer, of which
/// each rank updates an equal part; gradients are reduced by way of buckets.
class deepspeed_partitions final : public deepspeed_engine {
 public:
  constexpr deepspeed_partitions(tape& on, const training_setup& of, const batch_plan& with)
      : deepspeed_engine(on, of, with),
        overlaps_(of.framework.engine.overlaps_reduction),
        on_host_(of.parallelism.optimizer_on_host),
        contiguous_(zero_.contiguous_gradients || on_host_),
        in_fp32_(of.precision.fp32_gradients) {}
  constexpr ~deepspeed_partitions() override {
    for (int& buffer : buffers_) drop(buffer);
    drop(of_part_);
    drop(fp32_part_);
    drop_tensors(accumulated_);
    drop_tensors(averaged_);
  }

  constexpr void gradient_is_there(int parameter) override {
    if (is_pipeline() || (stage_ == 1 && !overlaps_ && !contiguous_)) return;
    set_up_buckets();
    if (stage_ == 2 || (overlaps_ && is_last_)) reduce_when_full(parameter);
  }

 private:
  static constexpr int reducing_stream = 1;

  // -- construction

  // Where a parameter lies in the flat buffer, in elements.
  struct place {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  constexpr void initialize() override {
    order_parameters();
    t_.empty_cache();
    part_ = flatten(order_, 2 * ranks_) / ranks_;
    std::int64_t largest = 0;
    for (int at = 0; at < trained_.size(); ++at) largest = at_least(largest, count(trained_[at]));
    const int copy = t_.new_storage(part_ * bytes_of(format_));
    if (!on_host_) add_master(part_);
    t_.release(copy);
    if (on_host_) make_lasting(purpose::buffers, largest * bytes_of(format_));
    if (!on_host_ && !zero_.steps_while_building) t_.touch(4 * part_);
    construct_states();
    if (on_host_ || !zero_.steps_while_building) return;
    give_gradient(0, make(purpose::gradients, 4 * part_));
    states_.step();
    drop(gradient(masters_[0]));
  }

  // Round robin: neighbours belong to different ranks.
  constexpr void order_parameters() {
    const int step = zero_.round_robin_gradients ? static_cast<int>(ranks_) : 1;
    for (int first = 0; first < step; ++first)
      for (int at = first; at < trained_.size(); at += step) order_.push(trained_[at]);
    for (int at = 0; at < t_.parameters.size(); ++at) places_.push(place{});
    std::int64_t end = 0;
    for (int at = 0; at < order_.size(); ++at) {
      const std::int64_t first = end;
      end += count(order_[at]);
      places_[order_[at]] = {first, end};
    }
  }

  [[nodiscard]] constexpr bool is_here(int parameter) const {
    return places_[parameter].first < part_;
  }
  [[nodiscard]] constexpr std::int64_t elements_here(int parameter) const {
    return at_most(places_[parameter].end, part_) - places_[parameter].first;
  }

  // -- buckets

  constexpr void set_up_buckets() {
    if (is_set_up_) return;
    is_set_up_ = true;
    if (!contiguous_) return;
    for (int which = 0; which < (overlaps_ ? 2 : 1); ++which) {
      drop(buffers_[which]);
      buffers_[which] = make(purpose::buffers, zero_.reduce_bucket * bytes_of(format_));
    }
    filled_ = 0;
  }

  constexpr void reduce_when_full(int parameter) {
    const std::int64_t elements = count(parameter);
    if (in_bucket_ + elements > zero_.reduce_bucket) {
      reduce_bucket();
      if (contiguous_ && overlaps_) filled_ = 1 - filled_;
    }
    if (contiguous_) {
      if (elements > zero_.reduce_bucket) {
        if (on_host_) {
          t_.release(t_.new_storage(elements * bytes_of(format_)));
        }
      } else {
        move_to(gradient(parameter), buffers_[filled_]);
      }
    }
    in_bucket_ += elements;
    bucket_.push(parameter);
  }

  constexpr void reduce_bucket() {
    if (overlaps_ && !contiguous_) drop_other_gradients();
    const auto aside = t_.on_stream(overlaps_ ? reducing_stream : t_.stream());
    if (contiguous_)
      average();
    else if (bucket_.size() > 1)
      t_.touch(in_bucket_ * bytes_of(format_));
    for (int at = 0; at < bucket_.size(); ++at) {
      const int parameter = bucket_[at];
      if (is_here(parameter)) {
        if (contiguous_) keep_gradient(parameter);
      } else if (stage_ == 2) {
        if (overlaps_ && !contiguous_)
          others_.push(parameter);
        else
          drop(gradient(parameter));
      }
    }
    bucket_.resize_down(0);
    in_bucket_ = 0;
  }

  // A part of the bucket that one rank keeps.
  struct slice {
    std::int64_t rank = 0;
    std::int64_t elements = 0;
    bool is_summed_here = false;
  };

  // average_tensor: slices are joined where one rank keeps both, and copied to be reduced together.
  constexpr void average() {
    growing_array<slice> slices;
    for (int at = 0; at < bucket_.size(); ++at) {
      const place& of = places_[bucket_[at]];
      for (std::int64_t from = of.first; from < of.end;) {
        const std::int64_t rank = from / part_;
        const std::int64_t end = at_most(of.end, (rank + 1) * part_);
        const bool is_summed_here = in_fp32_ && rank == 0;
        if (is_summed_here) make_fp32_part();
        if (!is_summed_here && slices.size() > 0 && slices.back().rank == rank)
          slices.back().elements += end - from;
        else
          slices.push({rank, end - from, is_summed_here});
        from = end;
      }
    }
    if (!zero_.reduce_scatter) {
      for (int at = 0; at < slices.size(); ++at)
        if (slices[at].is_summed_here) t_.touch(4 * slices[at].elements);
      return;
    }
    std::int64_t elements = 0;
    int first = 0;
    for (int at = 0; at < slices.size(); ++at) {
      elements += slices[at].elements;
      if (elements <= zero_.reduce_bucket && at + 1 < slices.size()) continue;
      const bool is_copied = at > first && !zero_.reduces_in_place;
      const int together = is_copied ? t_.new_storage(elements * bytes_of(format_)) : none;
      for (int which = first; which <= at; ++which)
        if (slices[which].is_summed_here) t_.touch(4 * slices[which].elements);
      t_.release(together);
      elements = 0;
      first = at + 1;
    }
  }

  constexpr void make_fp32_part() {
    if (fp32_part_ == none) fp32_part_ = make(purpose::gradients, 4 * part_);
  }

  // copy_grads_in_partition
  constexpr void keep_gradient(int parameter) {
    if (on_host_) {
      if (is_last_) {
        t_.touch(8 * elements_here(parameter));  // the norm
        t_.touch(4 * elements_here(parameter));
        drop(gradient(parameter));
      }
      return;
    }
    if (in_fp32_) return;
    if (of_part_ == none) {
      std::int64_t elements = 0;
      for (int at = 0; at < order_.size(); ++at)
        if (is_here(order_[at])) elements += count(order_[at]);
      of_part_ = make(purpose::gradients, elements * bytes_of(format_));
    }
    move_to(gradient(parameter), of_part_);
  }

  constexpr void drop_other_gradients() {
    for (int at = 0; at < others_.size(); ++at) drop(gradient(others_[at]));
    others_.resize_down(0);
  }

  // -- the end of a backward

  constexpr void reduce_gradients() override {
    if (stage_ == 1 && !is_last_) return;
    if (is_pipeline()) set_up_buckets();
    if (stage_ == 1 && !overlaps_)
      for (int at = 0; at < trained_.size(); ++at)
        if (gradient(trained_[at]).defined()) reduce_when_full(trained_[at]);
    if (bucket_.size() > 0) reduce_bucket();
    drop_other_gradients();
    if (!on_host_ && !in_fp32_) collect_gradients();
    for (int& buffer : buffers_) drop(buffer);
    drop(of_part_);
    is_set_up_ = false;
    for (int at = 0; at < trained_.size(); ++at) drop(gradient(trained_[at]));
  }

  constexpr void collect_gradients() {
    if (accumulated_.size() == 0) {
      for (int at = 0; at < order_.size(); ++at) {
        if (!is_here(order_[at])) continue;
        const tensor& of = gradient(order_[at]);
        if (of.defined()) t_.hold(of.storage);
        accumulated_.push(of.defined() ? of : t_.make(sizes{count(order_[at])}, format_).take());
      }
    }
    if (!is_last_) return;
    std::int64_t elements = 0;
    for (int at = 0; at < order_.size(); ++at)
      if (is_here(order_[at])) elements += elements_here(order_[at]);
    for (int at = 0; at < accumulated_.size(); ++at) averaged_.push(accumulated_[at]);
    accumulated_.resize_down(0);
    if (elements < part_) averaged_.push(t_.make(sizes{part_ - elements}, format_).take());
  }

  constexpr void drop_tensors(growing_array<tensor>& tensors) const {
    for (int at = 0; at < tensors.size(); ++at) t_.release(tensors[at].storage);
    tensors.resize_down(0);
  }

  // -- the optimizer

  constexpr void update() override {
    if (on_host_) return;
    for (int at = 0; at < order_.size(); ++at)
      if (is_here(order_[at])) t_.touch(8 * elements_here(order_[at]));  // norms, in fp64
    const value scaled = note_norm();
    if (in_fp32_) {
      make_fp32_part();
      give_gradient(0, fp32_part_);
      fp32_part_ = none;
    } else {
      const bool is_copied = averaged_.size() > 1;
      const int flat = is_copied ? t_.new_storage(part_ * bytes_of(format_)) : none;
      give_gradient(0, make(purpose::gradients, 4 * part_));
      t_.release(flat);
      drop_tensors(averaged_);
    }
    states_.step();
    drop(gradient(masters_[0]));
  }

  bool overlaps_;
  bool on_host_;
  bool contiguous_;
  bool in_fp32_;
  std::int64_t part_ = 0;       // elements
  growing_array<int> order_{};  // of the parameters in the flat buffer
  growing_array<place> places_{};
  bool is_set_up_ = false;
  int buffers_[2] = {none, none};
  int filled_ = 0;              // which of them
  std::int64_t in_bucket_ = 0;  // elements
  growing_array<int> bucket_{};
  growing_array<int> others_{};  // whose gradients die at the next reduction
  int of_part_ = none;           // gradients of what is here, whole
  int fp32_part_ = none;         // sums of them, of this part alone
  growing_array<tensor> accumulated_{};
  growing_array<tensor> averaged_{};
};

}  // namespace gpuplan::eager

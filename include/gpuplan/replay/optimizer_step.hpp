#pragma once

// What an optimizer allocates while it steps. Private.

#include <gpuplan/optimizer.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/operators/lists.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan::eager {

/// The states of a job's optimizer, which may be two of PyTorch's, and its step over the parameters
/// that have a gradient.
class optimizer_states {
 public:
  constexpr optimizer_states(tape& on, const training_setup& of) : t_(on), setup_(of) {}
  constexpr ~optimizer_states() {
    for (int at = 0; at < states_.size(); ++at)
      for (const int storage : states_[at].storage) t_.release(storage);
    for (const int storage : {scale_, growth_, maps_[0], maps_[1]}) t_.release(storage);
    drop(masters_);
  }
  optimizer_states(const optimizer_states&) = delete;
  optimizer_states& operator=(const optimizer_states&) = delete;

  /// What exists from construction on. `updated`: the parameters that are updated here, in that
  /// order; all where there is none.
  /// Of a pipeline's chunks each has an optimizer of its own.
  constexpr void construct(const growing_array<int>* updated = nullptr,
                           const growing_array<chunk_begin>* chunks = nullptr) {
    for (int chunk = 1; chunks != nullptr && chunk < chunks->size(); ++chunk)
      ends_.push((*chunks)[chunk].parameter);
    ends_.push(t_.parameters.size());
    const bool is_muon = setup_.optimizer.kind == optimizer_kind::muon;
    const bool is_divided = setup_.parallelism.tensor_parallel > 1;  // tensors apart from DTensors
    parts_[0].kind = setup_.optimizer.kind;
    if (!is_muon) parts_[1].kind = setup_.optimizer.kind;
    count_ = is_muon || is_divided ? 2 : 1;
    const int all = updated == nullptr ? t_.parameters.size() : updated->size();
    for (int at = 0; at < all; ++at) {
      const int parameter = updated == nullptr ? at : (*updated)[at];
      const parameter_record& record = t_.parameters[parameter];
      if (!record.trains) continue;
      const bool is_of_layer = t_.layer_of(record.unit) != none && record.data.size.rank == 2;
      const bool is_of_second = is_muon      ? !is_of_layer
                                : is_divided ? !record.is_distributed
                                             : false;
      parts_[is_of_second ? 1 : 0].parameters.push(parameter);
    }
    for (int at = 0; at < t_.parameters.size(); ++at) states_.push(state{});
    const auto charged = t_.charge(purpose::optimizer_states);
    for (int of = 0; of < count_; ++of)
      for (int at = 0; at < parts_[of].parameters.size(); ++at)
        if (has_master(parts_[of].parameters[at]))
          masters_.push(master_of(parts_[of].parameters[at]));
    if (setup_.optimizer.kind != optimizer_kind::adagrad) return;
    for (int at = 0; at < parts_[0].parameters.size(); ++at)
      make_states(parts_[0], parts_[0].parameters[at]);
  }

  /// Makes the states that the first step would make, of all that trains.
  constexpr void make_all() {
    if (is_scaled()) make_scale();
    for (int of = 0; of < count_; ++of)
      for (int at = 0; at < parts_[of].parameters.size(); ++at) {
        const int parameter = parts_[of].parameters[at];
        if (!t_.parameters[parameter].is_idle) make_states(parts_[of], parameter);
      }
  }

  /// The loss as backward begins with it: that of fp16 is scaled (GradScaler).
  constexpr value scaled(const tensor& loss) {
    if (!is_scaled()) return t_.share(loss);
    make_scale();
    tensor factor;
    factor.storage = scale_;
    return multiply(t_, loss, factor);
  }

  constexpr void step() {
    prepare_gradients();
    update();
  }
  /// Gradients as the optimizer reads them,
  constexpr void prepare_gradients() {
    widen_gradients();
    if (setup_.optimizer.clips_gradients) {
      t_.begin(moment::clip);
      for (int at = 0; is_scaled() && at < count_; ++at) {
        growing_array<int> scaled;
        find_gradients(parts_[at], scaled, 0, t_.parameters.size());
        parts_[at].infinities = unscale(8, scaled);
      }
      clip();
    }
    t_.begin(moment::optimizer);
  }
  /// and what it does then.
  constexpr void update() {
    for (int at = 0; at < count_; ++at)
      for (int end = 0; end < ends_.size(); ++end)
        step(parts_[at], end == 0 ? 0 : ends_[end - 1], ends_[end]);
    if (is_scaled()) t_.executes(16);  // the scale
    for (int at = 0; at < count_; ++at) {
      t_.release(parts_[at].infinities);
      parts_[at].infinities = none;
    }
  }

 private:
  // Of bitsandbytes and torchao: elements,
  static constexpr std::int64_t smallest_in_8_bits = 4096;
  static constexpr std::int64_t block_in_8_bits = 256;  // with one scale,
  static constexpr std::int64_t smallest_paged = 100'000;
  static constexpr std::int64_t map_bytes = 4 * 256;  // of 8 bits to fp32

  struct state {
    int storage[6] = {none, none, none, none, none, none};
    bool is_made = false;
  };
  // An optimizer of PyTorch.
  struct part {
    optimizer_kind kind = optimizer_kind::adamw;
    growing_array<int> parameters{};
    int infinities = none;  // whether the gradients had any, as the GradScaler found
  };

  [[nodiscard]] constexpr bool is_scaled() const {
    return setup_.precision.autocast() && setup_.precision.compute == number_format::fp16;
  }
  /// The scale, and since when it has not changed.
  constexpr void make_scale() {
    if (scale_ != none) return;
    const auto charged = t_.charge(purpose::optimizer_states);
    scale_ = t_.new_storage(4);
    growth_ = t_.new_storage(4);
  }
  /// One kernel for each parameter, whose states are its own to store.
  [[nodiscard]] constexpr bool is_torch() const {
    return setup_.optimizer.library == optimizer_library::torch;
  }
  [[nodiscard]] constexpr bool has_8_bits() const {
    return bits_per_element(setup_.optimizer.states) == 8;
  }
  /// One kernel for all parameters, which reads the gradients' scale itself.
  [[nodiscard]] constexpr bool is_fused(optimizer_kind kind) const {
    return setup_.optimizer.loop == optimizer_loop::fused && is_torch() &&
           (kind == optimizer_kind::adamw || kind == optimizer_kind::adagrad ||
            kind == optimizer_kind::sgd || kind == optimizer_kind::sgd_momentum);
  }
  /// fp32 copies of the weights that the optimizer updates instead.
  [[nodiscard]] constexpr bool has_master(int parameter) const {
    return setup_.precision.master_weights && is_half(t_.parameters[parameter].data.format);
  }
  /// What is updated.
  [[nodiscard]] constexpr tensor data(int parameter) const {
    tensor seen = t_.parameters[parameter].data;
    if (has_master(parameter)) seen.format = element::fp32;
    return seen;
  }
  /// Of a state, and of what is computed from it.
  [[nodiscard]] constexpr std::int64_t state_bytes(int parameter) const {
    const bool halves = bits_per_element(setup_.optimizer.states) == 16;
    return data(parameter).count() * (halves ? 2 : bytes_of(data(parameter).format));
  }
  [[nodiscard]] constexpr int temporary(int parameter, const char* as = "update") const {
    return t_.new_storage(state_bytes(parameter), {as, parameter});
  }
  [[nodiscard]] constexpr int master_of(int parameter) const {
    return t_.new_storage(data(parameter).bytes(), {"fp32 master", parameter});
  }
  constexpr void replace(int& old, int made) const {
    t_.release(old);
    old = made;
  }
  constexpr void drop(const growing_array<int>& storages) const {
    for (int at = 0; at < storages.size(); ++at) t_.release(storages[at]);
  }
  // Gradients as an operator over DTensors wants them.
  constexpr void redistribute(const growing_array<int>& parameters,
                              growing_array<int>& into) const {
    for (int at = 0; at < parameters.size(); ++at) {
      const std::int64_t bytes = t_.parameters[parameters[at]].redistributed_bytes;
      if (bytes != 0) into.push(t_.new_storage(bytes, {"redistributed gradient", parameters[at]}));
    }
  }
  constexpr void touch_redistributed(const growing_array<int>& parameters, int times) const {
    growing_array<int> made;
    for (int time = 0; time < times; ++time) redistribute(parameters, made);
    drop(made);
  }
  constexpr void touch_redistributed(int parameter, int times) const {
    growing_array<int> one;
    one.push(parameter);
    touch_redistributed(one, times);
  }

  // -- operators over lists of tensors

  [[nodiscard]] constexpr int kernels_of_lists(const growing_array<int>& parameters,
                                               int lists,
                                               bool has_numbers = false) const {
    list_kernels kernels(lists, has_numbers);
    for (int at = 0; at < parameters.size(); ++at) kernels.add(data(parameters[at]).count());
    return kernels.count();
  }
  /// torch._foreach_...: is handed lists, of which it changes so many in place.
  struct list_operator {
    int lists = 1;
    int in_place = 1;
    bool has_numbers = false;  // one for each tensor
  };
  constexpr void for_lists(const growing_array<int>& parameters,
                           const list_operator& by,
                           std::int64_t more_bytes = 0) const {
    if (!t_.counts_work()) return;
    std::int64_t elsewhere = 0;
    const std::int64_t bytes = bytes_of_all(parameters, elsewhere);
    t_.executes(by.lists * bytes + more_bytes,
                {.kernels = kernels_of_lists(parameters, by.lists, by.has_numbers),
                 .in_place = by.in_place * (bytes - elsewhere),
                 .elsewhere = by.lists * elsewhere});
  }
  /// Likewise, over what counts the steps of each.
  constexpr void for_counters(const growing_array<int>& parameters, int lists) const {
    if (!t_.counts_work()) return;
    list_kernels kernels(lists);
    for (int at = 0; at < parameters.size(); ++at) kernels.add(1);
    t_.executes(std::int64_t{4} * lists * parameters.size(), {.kernels = kernels.count()});
  }
  [[nodiscard]] constexpr std::int64_t whole_bytes(int parameter) const {
    const tensor& whole = t_.parameters[parameter].whole;
    if (!whole.defined()) return data(parameter).bytes();
    return whole.count() * bytes_of(data(parameter).format);
  }
  [[nodiscard]] constexpr std::int64_t bytes_of_all(const growing_array<int>& parameters,
                                                    std::int64_t& elsewhere) const {
    std::int64_t sum = 0;
    for (int at = 0; at < parameters.size(); ++at) {
      sum += whole_bytes(parameters[at]);
      elsewhere += whole_bytes(parameters[at]) - data(parameters[at]).bytes();
    }
    return sum;
  }
  /// Operators over one parameter each, of so many tensors as large as it.
  constexpr void for_one(int parameter, std::initializer_list<int> tensors) const {
    const tensor of = data(parameter);
    for (const int count : tensors)
      t_.executes(count * whole_bytes(parameter),
                  {.kernels = parts_of_31_bits(of.count(), bytes_of(of.format)),
                   .elsewhere = count * (whole_bytes(parameter) - of.bytes())});
  }

  // GradScaler: 1 / scale, by way of 8 bytes where it is computed in fp64, and a flag; a copy of
  // the flag stays.
  constexpr int unscale(std::int64_t detour, const growing_array<int>& parameters) const {
    int inverse = t_.new_storage(detour);
    if (detour == 8) {
      for (const std::int64_t bytes : {12, 16, 12}) t_.executes(bytes);
      replace(inverse, t_.new_storage(8));
      replace(inverse, t_.new_storage(4));
    } else {
      t_.executes(4);  // 1
    }
    const int found = t_.new_storage(4);
    t_.executes(4);
    const int copy = t_.new_storage(4);
    t_.touch(4);
    for (int which = 0; which < 2; ++which) t_.executes(8, device_work::copy());
    for_lists(parameters, {}, 8);
    t_.release(inverse);
    t_.release(found);
    return copy;
  }

  // Masters have their own gradients, and the weights' go (Float16OptimizerWithFloat16Params of
  // Megatron-LM).
  constexpr void widen_gradients() const {
    for (int of = 0; of < count_; ++of)
      for (int at = 0; at < parts_[of].parameters.size(); ++at) {
        parameter_record& record = t_.parameters[parts_[of].parameters[at]];
        if (!record.gradient.defined() || !has_master(parts_[of].parameters[at])) continue;
        t_.begin(moment::widen, t_.layer_of(record.unit));
        t_.convert(record.gradient, element::fp32);
      }
  }

  constexpr void count_clipping(const growing_array<int>& clipped,
                                std::int64_t count,
                                std::int64_t bytes) const {
    std::int64_t elsewhere = 0;
    const std::int64_t all_bytes = bytes_of_all(clipped, elsewhere);
    t_.executes(all_bytes + count * bytes,
                {.kernels = kernels_of_lists(clipped, 1) + 1, .copies = 1, .elsewhere = elsewhere});
    t_.executes(2 * count * bytes, {.kernels = static_cast<int>(ceil_div(count, 128))});
    const bool adds_over_ranks = t_.gathering().ranks > 1;  // powers, a sum, a root
    t_.executes((count + 1) * bytes,
                {.kernels = adds_over_ranks ? 3 : 1, .copies = adds_over_ranks ? 1 : 0});
    for (int number = 0; number < 4; ++number) t_.executes(2 * bytes);
    for_lists(clipped, {}, bytes);
  }

  // clip_grad_norm_: a norm of each gradient by parts of 65,536 elements, then the norm of norms.
  constexpr void clip() const {
    std::int64_t parts = 0;
    std::int64_t count = 0;
    std::int64_t bytes = 4;
    growing_array<int> clipped;
    for (int at = 0; at < t_.parameters.size(); ++at) {
      const tensor& gradient = t_.parameters[at].gradient;
      if (!gradient.defined()) continue;
      clipped.push(at);
      ++count;
      parts += ceil_div(gradient.count(), 65'536);
      bytes = bytes_of(gradient.format);
    }
    if (count == 0) return;
    if (t_.counts_work()) count_clipping(clipped, count, bytes);
    const int addresses = t_.new_storage(8 * (count + 1), {"addresses of gradients"});
    const int partial = t_.new_storage(4 * parts, {"norms of parts of gradients"});
    growing_array<int> norms;
    for (std::int64_t at = 0; at < count; ++at)
      norms.push(t_.new_storage(bytes, {"norm of a gradient"}));
    t_.release(addresses);
    t_.release(partial);
    const int stacked = t_.new_storage(bytes * count, {"norms of gradients"});
    int summed = none;  // over the ranks' parts
    if (t_.gathering().ranks > 1) {
      const int powers = t_.new_storage(bytes * count, {"norms of gradients"});
      const int copy = t_.new_storage(bytes * count, {"norms of gradients"});
      summed = t_.new_storage(bytes * count, {"norms of gradients"});
      t_.release(copy);
      t_.release(powers);
    }
    const int norm = t_.new_storage(bytes);
    t_.release(summed);
    t_.release(stacked);
    drop(norms);
    // clamp(most / (norm + 1e-6), 1), and the division is by way of the reciprocal
    const int shifted = t_.new_storage(bytes);
    const int inverse = t_.new_storage(bytes);
    const int factor = t_.new_storage(bytes);
    t_.release(inverse);
    t_.release(shifted);
    t_.touch(bytes);
    t_.release(factor);
    t_.release(norm);
  }

  // -- states

  constexpr void make_states(const part& of, int parameter) {
    state& made = states_[parameter];
    if (made.is_made || of.kind == optimizer_kind::sgd) return;
    made.is_made = true;
    const auto charged = t_.charge(purpose::optimizer_states);
    const int moments = of.kind == optimizer_kind::adamw ? 2 : 1;
    if (of.kind == optimizer_kind::adafactor && data(parameter).size.rank > 1) {
      made.storage[0] = t_.new_storage(factor(parameter, 1).bytes(), {"means of rows of squares"});
      made.storage[1] =
          t_.new_storage(factor(parameter, 2).bytes(), {"means of columns of squares"});
    } else if (setup_.optimizer.library == optimizer_library::bitsandbytes) {
      make_states_of_bitsandbytes(made, moments, parameter);
    } else if (setup_.optimizer.library == optimizer_library::torchao) {
      make_states_of_torchao(made, moments, data(parameter));
    } else {
      const bool counts = is_fused(of.kind) &&
                          (of.kind == optimizer_kind::adamw || of.kind == optimizer_kind::adagrad);
      if (counts)
        made.storage[3] = t_.new_storage(4, {"number of steps"});  // the steps, on the device
      // a momentum begins as a copy of the gradient
      const sizes& size = t_.parameters[parameter].gradient_size;
      const bool copies = of.kind == optimizer_kind::sgd_momentum && size.rank != 0;
      for (int at = 0; at < moments; ++at)
        made.storage[at] = copies ? t_.new_storage(size.count() * bytes_of(data(parameter).format),
                                                   {name_of_moment(of.kind, at), parameter})
                                  : temporary(parameter, name_of_moment(of.kind, at));
    }
  }
  [[nodiscard]] static constexpr const char* name_of_moment(optimizer_kind kind, int at) {
    if (kind == optimizer_kind::sgd_momentum || kind == optimizer_kind::muon) return "momentum";
    if (kind == optimizer_kind::adagrad || kind == optimizer_kind::rmsprop) return "squares";
    return at == 0 ? "first moment" : "second moment";
  }
  constexpr void make_states_of_bitsandbytes(state& made, int moments, int parameter) {
    const std::int64_t count = data(parameter).count();
    const bool widens = setup_.optimizer.widens_embeddings && t_.parameters[parameter].is_table;
    const bool small = !has_8_bits() || widens || count < smallest_in_8_bits;
    const bool is_paged = setup_.optimizer.pages_states && count >= smallest_paged;
    for (int at = 0; at < moments; ++at)
      if (!small && maps_[at] == none) maps_[at] = t_.new_storage(map_bytes, {"map of 8 bits"});
    for (int at = 0; !is_paged && at < moments; ++at)
      made.storage[at] = t_.new_storage(small ? 4 * count : count,
                                        {name_of_moment(optimizer_kind::adamw, at), parameter});
    for (int at = 0; !small && at < moments; ++at)
      made.storage[2 + at] =
          t_.new_storage(4 * ceil_div(count, block_in_8_bits), {"scales of blocks"});
  }
  constexpr void make_states_of_torchao(state& made, int moments, const tensor& of) {
    const std::int64_t count = of.count();
    const bool in_8_bits = count >= smallest_in_8_bits && count % block_in_8_bits == 0;
    for (int at = 0; at < moments; ++at) {
      made.storage[3 * at] = t_.new_storage(in_8_bits ? count : of.bytes());
      if (!in_8_bits) continue;
      made.storage[3 * at + 1] = t_.new_storage(4 * (count / block_in_8_bits));
      made.storage[3 * at + 2] = t_.new_storage(map_bytes);
    }
  }
  // Adafactor's: of one of the last two dimensions nothing is left.
  [[nodiscard]] constexpr tensor factor(int parameter, int from_end) const {
    tensor made = data(parameter);
    sizes size = made.size;
    size[size.rank - from_end] = 1;
    set_contiguous(made, size);
    return made;
  }

  // -- steps

  // Of parameters from `first` to before `last`.
  constexpr void step(part& of, int first, int last) {
    growing_array<int> updated;
    find_gradients(of, updated, first, last);
    if (updated.size() == 0) return;
    int found = none;
    int factor = none;
    if (is_scaled()) {
      const bool was_unscaled = of.infinities != none;
      if (!was_unscaled) of.infinities = unscale(is_fused(of.kind) ? 4 : 8, updated);
      if (is_fused(of.kind)) {
        found = t_.new_storage(4);
        t_.executes(8);
        if (!was_unscaled) {
          factor = t_.new_storage(4);
          t_.executes(8);
        }
      } else {
        t_.executes(4, device_work::copy());  // whether there were any
      }
    }
    if (of.kind == optimizer_kind::lion && is_torch()) {
      lion(of, updated);
    } else {
      for (int at = 0; at < updated.size(); ++at) make_states(of, updated[at]);
      if (of.kind == optimizer_kind::adafactor)
        adafactor(updated);
      else if (!is_torch() || is_fused(of.kind))
        run_fused(of.kind, updated, (found == none ? 0 : 4) + (factor == none ? 0 : 4));
      else if (of.kind == optimizer_kind::muon)
        muon(updated);
      else if (setup_.optimizer.loop == optimizer_loop::parameter)
        for_each(of.kind, updated);
      else
        for_all(of.kind, updated);
    }
    t_.release(factor);
    t_.release(found);
  }

  constexpr void find_gradients(const part& of,
                                growing_array<int>& parameters,
                                int first,
                                int last) const {
    for (int at = 0; at < of.parameters.size(); ++at) {
      const int parameter = of.parameters[at];
      if (parameter >= first && parameter < last && t_.parameters[parameter].gradient.defined())
        parameters.push(parameter);
    }
  }

  // In place.
  constexpr void run_fused(optimizer_kind kind,
                           const growing_array<int>& parameters,
                           std::int64_t bytes_of_scale) const {
    touch_redistributed(parameters, 1);
    if (!is_torch()) return;  // kernels that nobody counted
    const bool counts = kind == optimizer_kind::adamw || kind == optimizer_kind::adagrad;
    list_operator by{3, 2};
    if (kind == optimizer_kind::sgd) by = {2, 1};
    if (kind == optimizer_kind::adamw) by = {4, 3};
    if (counts) {
      for_counters(parameters, 1);
      bytes_of_scale += 4 * parameters.size();
    }
    for_lists(parameters, by, bytes_of_scale);
    if (counts && is_scaled()) for_counters(parameters, 2);
  }

  // Operator by operator over all parameters: the roots of the second moments, and Adagrad's
  // gradients times the rate.
  constexpr void for_all(optimizer_kind kind, const growing_array<int>& parameters) const {
    int copies = 0;
    if (kind == optimizer_kind::adamw || kind == optimizer_kind::rmsprop) copies = 1;
    if (kind == optimizer_kind::adagrad) copies = 2;
    growing_array<int> temporaries;
    if (kind == optimizer_kind::adamw || kind == optimizer_kind::sgd ||
        kind == optimizer_kind::sgd_momentum)
      touch_redistributed(parameters, 1);
    if (kind == optimizer_kind::adamw || kind == optimizer_kind::rmsprop)
      touch_redistributed(parameters, 2);
    for (int copy = 0; copy < copies; ++copy)
      for (int at = 0; at < parameters.size(); ++at) temporaries.push(temporary(parameters[at]));
    if (kind == optimizer_kind::rmsprop) touch_redistributed(parameters, 1);
    drop(temporaries);
    const auto run = [&](std::initializer_list<list_operator> operators) {
      for (const list_operator& by : operators) for_lists(parameters, by);
    };
    switch (kind) {
      case optimizer_kind::adamw:
        run({{1}, {2}, {1}, {3}, {2, 0}, {1, 1, true}, {1}, {3}});
        break;
      case optimizer_kind::adagrad:
        run({{3}, {2, 0}, {1}, {2, 0, true}, {3}});
        break;
      case optimizer_kind::rmsprop:
        run({{1}, {3}, {2, 0}, {1}, {3}});
        break;
      case optimizer_kind::sgd_momentum:
        run({{1}, {2}, {2}});
        break;
      case optimizer_kind::sgd:
        run({{2}});
        break;
      default:
        break;
    }
  }

  // One parameter after the other: the last one's denominator lives until it is made anew.
  constexpr void for_each(optimizer_kind kind, const growing_array<int>& parameters) const {
    if (kind == optimizer_kind::sgd || kind == optimizer_kind::sgd_momentum) {
      for (int at = 0; at < parameters.size(); ++at) {
        touch_redistributed(parameters[at], 1);
        if (kind == optimizer_kind::sgd)
          for_one(parameters[at], {3});
        else
          for_one(parameters[at], {2, 3, 3});
      }
      return;
    }
    int denominator = none;
    for (int at = 0; at < parameters.size(); ++at) {
      if (kind == optimizer_kind::adamw) touch_redistributed(parameters[at], 1);
      touch_redistributed(parameters[at], 2);
      const int root = kind == optimizer_kind::adamw ? temporary(parameters[at]) : none;
      const int made = temporary(parameters[at]);
      t_.release(root);
      replace(denominator, made);
      if (kind == optimizer_kind::adamw)
        for_one(parameters[at], {2, 3, 2, 4, 2, 2, 2, 4});
      else if (kind == optimizer_kind::rmsprop)
        for_one(parameters[at], {2, 4, 2, 2, 4});
      else if (kind == optimizer_kind::adagrad)
        for_one(parameters[at], {4, 2, 2, 4});
      if (kind == optimizer_kind::rmsprop) touch_redistributed(parameters[at], 1);
    }
    t_.release(denominator);
  }

  // sign(beta * moment + (1 - beta) * gradient)
  constexpr void lion(const part& of, const growing_array<int>& parameters) {
    int update = none;
    for (int at = 0; at < parameters.size(); ++at) {
      make_states(of, parameters[at]);
      const int left = temporary(parameters[at]);
      const int right = temporary(parameters[at]);
      const int sum = temporary(parameters[at]);
      t_.release(left);
      t_.release(right);
      replace(update, sum);
    }
    t_.release(update);
  }

  // Newton and Schulz's iteration in bf16 over the gradient moved towards its mean, matrix by
  // matrix.
  constexpr void muon(const growing_array<int>& parameters) const {
    int update = none;
    for (int at = 0; at < parameters.size(); ++at) {
      const tensor of = data(parameters[at]);
      replace(update, t_.new_storage(of.bytes()));
      const std::int64_t bytes = of.count() * 2;
      const std::int64_t shorter = at_most(of.size[0], of.size[1]);
      int orthogonal = t_.new_storage(bytes);
      {
        const int norm = new_norm(element::bf16, of.count());
        t_.touch(2);
        t_.release(norm);
      }
      int gram = none;
      int gram_update = none;
      bool is_transposed = of.size[0] > of.size[1];  // until the first sum with a product
      for (int iteration = 0; iteration < 5; ++iteration) {
        replace(gram, product(2 * shorter * shorter));
        replace(gram_update, product(2 * shorter * shorter, true));
        replace(orthogonal, product(bytes, !is_transposed));
        is_transposed = false;
      }
      t_.release(gram);
      t_.release(gram_update);
      replace(update, orthogonal);
    }
    t_.release(update);
  }
  [[nodiscard]] constexpr int product(std::int64_t bytes, bool adds = false) const {
    const int made = t_.new_storage(bytes);
    t_.touch_workspace(adds);
    return made;
  }
  /// Of two vectors of each matrix; of several matrices in one it takes no workspace.
  [[nodiscard]] constexpr int outer_product(int parameter) const {
    const tensor of = data(parameter);
    return of.size.rank == 2 ? product(of.bytes()) : t_.new_storage(of.bytes());
  }
  [[nodiscard]] constexpr int new_norm(element format, std::int64_t count) const {
    const int made = t_.new_storage(bytes_of(format));
    touch(t_, scratch_of_reduction(t_.device, count, 1, true));
    return made;
  }

  // The second moment of a matrix from means over its rows and columns.
  constexpr void adafactor(const growing_array<int>& parameters) const {
    if (setup_.optimizer.loop == optimizer_loop::parameter) {
      adafactor_for_each(parameters);
      return;
    }
    growing_array<int> matrices;
    growing_array<int> vectors;
    for (int at = 0; at < parameters.size(); ++at)
      (data(parameters[at]).size.rank > 1 ? matrices : vectors).push(parameters[at]);
    growing_array<int> updates;
    const bool matrices_first = data(parameters[0]).size.rank > 1;
    for (const bool is_first : {true, false}) {
      const bool are_matrices = is_first == matrices_first;
      adafactor_for_all(are_matrices ? matrices : vectors, are_matrices, updates);
    }
    drop(updates);
  }
  constexpr void adafactor_for_all(const growing_array<int>& parameters,
                                   bool are_matrices,
                                   growing_array<int>& updates) const {
    for (int at = 0; at < parameters.size(); ++at) touch_norm(parameters[at]);
    growing_array<int> estimates;
    if (are_matrices) {
      for (const int from_end : {1, 2}) {
        growing_array<int> means;
        for (int at = 0; at < parameters.size(); ++at)
          means.push(new_mean(parameters[at], from_end));
        drop(means);
      }
      for (int at = 0; at < parameters.size(); ++at) estimates.push(outer_product(parameters[at]));
      growing_array<int> means;
      for (int at = 0; at < parameters.size(); ++at) means.push(new_mean_of_rows(parameters[at]));
      drop(means);
    } else {
      for (const bool is_square : {true, false}) {
        growing_array<int> made;
        for (int at = 0; at < parameters.size(); ++at)
          (is_square ? made : estimates).push(t_.new_storage(data(parameters[at]).bytes()));
        drop(made);
      }
    }
    drop(updates);
    updates.resize_down(0);
    for (int at = 0; at < estimates.size(); ++at) updates.push(estimates[at]);
    for (int at = 0; at < parameters.size(); ++at) touch_norm(parameters[at]);
  }
  constexpr void adafactor_for_each(const growing_array<int>& parameters) const {
    int row = none;
    int column = none;
    int square = none;
    int update = none;
    for (int at = 0; at < parameters.size(); ++at) {
      const int parameter = parameters[at];
      touch_norm(parameter);
      int estimate = none;
      if (data(parameter).size.rank > 1) {
        replace(row, new_mean(parameter, 1));
        replace(column, new_mean(parameter, 2));
        estimate = outer_product(parameter);
        t_.release(new_mean_of_rows(parameter));
      } else {
        replace(square, t_.new_storage(data(parameter).bytes()));
        estimate = t_.new_storage(data(parameter).bytes());
      }
      replace(update, estimate);
      touch_norm(parameter);
    }
    for (const int storage : {row, column, square, update}) t_.release(storage);
  }
  constexpr void touch_norm(int parameter) const {
    t_.release(new_norm(data(parameter).format, data(parameter).count()));
  }
  // Of squares of the gradient over one of its last two dimensions.
  [[nodiscard]] constexpr int new_mean(int parameter, int from_end) const {
    const tensor made = factor(parameter, from_end);
    const int storage = t_.new_storage(made.bytes());
    const std::int64_t reduced = data(parameter).count() / made.count();
    touch(t_, scratch_of_reduction(t_.device, reduced, made.count(), from_end == 1));
    return storage;
  }
  [[nodiscard]] constexpr int new_mean_of_rows(int parameter) const {
    const tensor of = data(parameter);
    const std::int64_t rows = of.size[of.size.rank - 2];
    const std::int64_t outputs = factor(parameter, 1).count() / rows;
    const int made = t_.new_storage(outputs * bytes_of(of.format));
    touch(t_, scratch_of_reduction(t_.device, rows, outputs, true));
    return made;
  }

  tape& t_;
  const training_setup& setup_;
  part parts_[2]{};
  int count_ = 1;
  growing_array<int> ends_{};  // of parameters that have an optimizer of their own
  growing_array<state> states_{};
  growing_array<int> masters_{};
  int maps_[2] = {none, none};
  int scale_ = none, growth_ = none;  // GradScaler's
};

}  // namespace gpuplan::eager

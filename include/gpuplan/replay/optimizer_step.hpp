#pragma once

// What an optimizer allocates while it steps. Private.

#include <gpuplan/optimizer.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// An optimizer's states, and its step over the parameters that have a gradient.
class optimizer_states {
 public:
  constexpr optimizer_states(tape& on, const training_setup& of) : t_(on), setup_(of) {}
  constexpr ~optimizer_states() {
    for (int at = 0; at < states_.size(); ++at)
      for (const tensor& one : states_[at].of) t_.release(one.storage);
    t_.release(scale_.storage);
    t_.release(growth_.storage);
  }
  optimizer_states(const optimizer_states&) = delete;
  optimizer_states& operator=(const optimizer_states&) = delete;

  /// What exists from construction on. `updated`: the parameters that are updated here, in that
  /// order; all where there is none.
  constexpr void construct(const growing_array<int>* updated = nullptr) {
    for (int at = 0; at < t_.parameters.size(); ++at) states_.push(state{});
    if (updated != nullptr)
      for (int at = 0; at < updated->size(); ++at) updated_.push((*updated)[at]);
    else
      for (int at = 0; at < t_.parameters.size(); ++at)
        if (t_.parameters[at].trains) updated_.push(at);
    if (kind() != optimizer_kind::adagrad) return;
    t_.what = purpose::optimizer_states;
    for (int at = 0; at < updated_.size(); ++at)
      states_[updated_[at]].of[0] = like(updated_[at]).take();
    t_.what = purpose::working;
  }

  /// The loss as backward begins with it: that of fp16 is scaled (GradScaler).
  constexpr value scaled(const tensor& loss) {
    if (!is_scaled()) return t_.share(loss);
    if (!scale_.defined()) {
      t_.what = purpose::optimizer_states;
      scale_ = t_.make(sizes{1}, element::fp32).take();
      growth_ = t_.make(sizes{1}, element::fp32).take();
      scale_.size.rank = 0;
      t_.what = purpose::working;
    }
    return multiply(t_, loss, scale_);
  }

  constexpr void step() {
    value found;
    if (is_scaled()) found = t_.make(sizes{1}, element::fp32);
    if (setup_.optimizer.clips_gradients) {
      growing_array<int> clipped;
      for (int at = 0; at < t_.parameters.size(); ++at)
        if (t_.parameters[at].gradient.defined()) clipped.push(at);
      clip(clipped);
    }
    growing_array<int> with_gradient;
    for (int at = 0; at < updated_.size(); ++at)
      if (t_.parameters[updated_[at]].gradient.defined()) with_gradient.push(updated_[at]);
    t_.begin(moment::optimizer);
    t_.what = purpose::optimizer_states;
    for (int at = 0; at < with_gradient.size(); ++at) make_states(with_gradient[at]);
    t_.what = purpose::working;
    switch (setup_.optimizer.loop) {
      case optimizer_loop::fused:
        break;
      case optimizer_loop::foreach:
        for_all(with_gradient);
        break;
      case optimizer_loop::parameter:
        for_each(with_gradient);
        break;
    }
  }

 private:
  struct state {
    tensor of[3]{};
  };

  [[nodiscard]] constexpr optimizer_kind kind() const { return setup_.optimizer.kind; }
  [[nodiscard]] constexpr bool is_scaled() const {
    return setup_.precision.autocast() && setup_.precision.compute == number_format::fp16;
  }
  [[nodiscard]] constexpr value like(int parameter) {
    const tensor& data = t_.parameters[parameter].data;
    return t_.make(data.size, data.format);
  }

  constexpr void make_states(int parameter) {
    state& made = states_[parameter];
    if (made.of[0].defined()) return;
    switch (kind()) {
      case optimizer_kind::adamw:
        if (setup_.optimizer.loop == optimizer_loop::fused)
          made.of[2] = t_.make(sizes{1}, element::fp32).take();  // the step, on the device
        made.of[0] = like(parameter).take();
        made.of[1] = like(parameter).take();
        break;
      case optimizer_kind::sgd:
        break;
      default:
        made.of[0] = like(parameter).take();
    }
  }

  // Operator by operator over all parameters.
  constexpr void for_all(const growing_array<int>& parameters) {
    int copies = 0;
    if (kind() == optimizer_kind::adamw || kind() == optimizer_kind::rmsprop) copies = 1;
    if (kind() == optimizer_kind::adagrad) copies = 2;
    growing_array<int> temporaries;
    for (int copy = 0; copy < copies; ++copy)
      for (int at = 0; at < parameters.size(); ++at)
        temporaries.push(t_.new_storage(t_.parameters[parameters[at]].data.bytes()));
    for (int at = 0; at < temporaries.size(); ++at) t_.release(temporaries[at]);
  }

  // One parameter after the other: the last one's denominator lives until it is made anew.
  constexpr void for_each(const growing_array<int>& parameters) {
    value denominator;
    for (int at = 0; at < parameters.size(); ++at) {
      if (kind() == optimizer_kind::adamw) {
        const value root = like(parameters[at]);
        denominator = like(parameters[at]);
      } else if (kind() == optimizer_kind::rmsprop || kind() == optimizer_kind::adagrad) {
        denominator = like(parameters[at]);
      }
    }
  }

  // clip_grad_norm_: a norm of each gradient by parts of 65,536 elements, then the norm of norms.
  constexpr void clip(const growing_array<int>& parameters) {
    t_.begin(moment::clip);
    std::int64_t parts = 0;
    for (int at = 0; at < parameters.size(); ++at)
      parts += ceil_div(t_.parameters[parameters[at]].data.count(), 65'536);
    const std::int64_t count = parameters.size();
    const int addresses = t_.new_storage(8 * (count + 1));
    const int partial = t_.new_storage(4 * parts);
    growing_array<int> norms;
    for (int at = 0; at < parameters.size(); ++at)
      norms.push(t_.new_storage(bytes_of(t_.parameters[parameters[at]].data.format)));
    t_.release(addresses);
    t_.release(partial);
    const int stacked = t_.new_storage(4 * count);
    const int norm = t_.new_storage(4);
    for (int at = 0; at < norms.size(); ++at) t_.release(norms[at]);
    t_.release(stacked);
    t_.release(norm);
  }

  tape& t_;
  const training_setup& setup_;
  growing_array<state> states_{};
  growing_array<int> updated_{};
  tensor scale_{}, growth_{};
};

}  // namespace gpuplan::eager

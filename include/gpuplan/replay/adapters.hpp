#pragma once

// Low-rank adapters beside frozen linear layers, as PEFT computes them. Private.

#include <gpuplan/operators.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

[[nodiscard]] constexpr element element_of(number_format format) {
  return format == number_format::bf16   ? element::bf16
         : format == number_format::fp16 ? element::fp16
                                         : element::fp32;
}

/// The linear layers of a model that have an adapter.
class adapted_layers {
 public:
  constexpr adapted_layers(tape& on, const training_setup& of) : t_(on), setup_(of) {}

  /// The place of a linear layer of `in x out` among them; none where it has no adapter.
  constexpr int add(operator_kind kind, std::int64_t in, std::int64_t out) {
    if (setup_.trains.what != training::adapters) return none;
    if (!detail::is_adapted(setup_.trains.adapters, setup_.model, {.kind = kind})) return none;
    return layers_.push({.in = in, .out = out});
  }

  /// Builds the adapters, once the model is there: each moves to the device in the format of the
  /// layer beside it, and all are cast to their own when the last has.
  constexpr void construct() {
    const element first = element_of(setup_.precision.weights);
    const element format = element_of(setup_.trains.adapters.weights);
    const std::int64_t rank = setup_.trains.adapters.rank;
    growing_array<int> moved;
    for (int at = 0; at < layers_.size(); ++at) {
      layer& one = layers_[at];
      if (first == format) {
        one.down = t_.add_parameter({rank, one.in}, format, true);
        one.up = t_.add_parameter({one.out, rank}, format, true);
      } else {
        moved.push(t_.new_storage(rank * one.in * bytes_of(first)));
        moved.push(t_.new_storage(rank * one.out * bytes_of(first)));
      }
    }
    for (int at = 0; 2 * at < moved.size(); ++at) {
      layer& one = layers_[at];
      one.down = t_.add_parameter({rank, one.in}, format, true);
      t_.release(moved[2 * at]);
      one.up = t_.add_parameter({one.out, rank}, format, true);
      t_.release(moved[2 * at + 1]);
    }
  }

  /// The result of a layer, and that of its adapter added to it.
  constexpr value add_to(value result, int place, const tensor& input) {
    if (place == none) return result;
    const layer& by = layers_[place];
    const element format = result->format;
    const value x = cast(t_, input, t_.parameters[by.down].data.format);
    {
      value scaled;
      {
        value raised;
        {
          const value lowered = linear(t_, x, by.down, none);
          raised = linear(t_, lowered, by.up, none);
        }
        scaled = scale(t_, raised);
      }
      result = eager::add(t_, result, scaled);
    }
    return cast(t_, result, format);
  }

 private:
  struct layer {
    std::int64_t in = 0;
    std::int64_t out = 0;
    int down = none;
    int up = none;
  };

  tape& t_;
  const training_setup& setup_;
  growing_array<layer> layers_{};
};

}  // namespace gpuplan::eager

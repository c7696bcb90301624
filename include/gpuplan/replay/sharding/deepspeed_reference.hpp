#pragma once

// A model that does not train, as ZeRO-3 divides it beside one that does. Private.
// Transcribed from DeepSpeed 0.19: runtime/zero/parameter_offload.py (DeepSpeedZeRoOffload), which
// TRL 1.16's prepare_deepspeed takes.

#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/deepspeed_gathering.hpp>

namespace gpuplan::eager {

/// The engine of a reference model: it gathers, and has no gradients and no states.
class deepspeed_reference final : public deepspeed_gathering {
 public:
  using deepspeed_gathering::deepspeed_gathering;
  constexpr ~deepspeed_reference() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void begins(model_code& code) override {
    deepspeed_gathering::begins(code);
    first_ = t_.parameters.size();
  }
  constexpr void model_is_built() override { initialize(); }

 private:
  constexpr void initialize() override {
    for (int at = 0; at < first_; ++at) states_of_.push(parameter_state{});
    for (int at = first_; at < t_.parameters.size(); ++at) divide(at);
  }
  constexpr void reduce_gradients() override {}
  constexpr void update() override {}

  int first_ = 0;  // of its parameters
};

}  // namespace gpuplan::eager

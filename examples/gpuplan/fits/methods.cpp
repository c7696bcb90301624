#include "fits/methods.hpp"

#include <gpuplan/batch.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "setups/options.hpp"

namespace fits_program {
namespace {

using namespace gpuplan;

// By one GPU alone.
training_setup in(training_setup setup, const precision_recipe& precision) {
  setup.precision = precision;
  setup.parallelism = {};
  setup.framework.engine.is = &engine_classes::ddp;
  return setup;
}

method with_adapters(const training_setup& model, const lora& adapters, bool four_bits) {
  training_setup setup = in(model, bf16_under_autocast);
  setup.trains.adapters.targets = adapters.targets;
  setups::train_adapters(setup, adapters.rank, four_bits);
  setup.trains.adapters.magnitudes = adapters.magnitudes;
  const std::string rank = std::to_string(adapters.rank);
  return {setups::in_words(setup.trains.adapters) + " " + rank, "", setup, {}};
}

training_setup shared(const training_setup& model, int zero_stage) {
  training_setup setup = in(model, bf16_mixed);
  setup.parallelism.zero_stage = zero_stage;
  setup.framework.engine.is = zero_stage == 0 ? &engine_classes::ddp : &engine_classes::fsdp2;
  return setup;
}

}  // namespace

std::vector<method> methods_for(const training_setup& model,
                                std::int64_t gpus,
                                const lora& adapters) {
  std::vector<method> all{{"fp32", "", in(model, fp32_precision), {}},
                          {"bf16 mixed", "", in(model, bf16_mixed), {}},
                          {"pure bf16", "", in(model, bf16_pure), {}},
                          with_adapters(model, adapters, false),
                          with_adapters(model, adapters, true)};
  if (gpus > 1) {
    const batch_plan several{.data_parallel = gpus};
    all.push_back({"bf16 mixed, DDP", "", shared(model, 0), several});
    all.push_back({"bf16 mixed, ZeRO-2", "", shared(model, 2), several});
    all.push_back({"bf16 mixed, ZeRO-3", "", shared(model, 3), several});
  }
  std::vector<method> both;
  for (const method& one : all)
    for (const recompute_mode mode : {recompute_mode::none, recompute_mode::full}) {
      both.push_back(one);
      both.back().setup.recompute = mode;
      both.back().recompute = mode == recompute_mode::none ? "none" : "full";
    }
  return both;
}

}  // namespace fits_program

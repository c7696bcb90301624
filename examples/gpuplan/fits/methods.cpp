#include "fits/methods.hpp"

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
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
  if (!has_ways_of_megatron(setup)) setup.framework.engine.is = &engine_classes::ddp;
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

void add_ways_of_torch(const training_setup& model,
                       std::int64_t gpus,
                       const lora& adapters,
                       std::vector<method>& all) {
  all = {{"fp32", "", in(model, fp32_precision), {}},
         {"bf16 mixed", "", in(model, bf16_mixed), {}},
         {"pure bf16", "", in(model, bf16_pure), {}},
         with_adapters(model, adapters, false),
         with_adapters(model, adapters, true)};
  if (gpus == 1) return;
  const batch_plan several{.data_parallel = gpus};
  all.push_back({"bf16 mixed, DDP", "", shared(model, 0), several});
  all.push_back({"bf16 mixed, ZeRO-2", "", shared(model, 2), several});
  all.push_back({"bf16 mixed, ZeRO-3", "", shared(model, 3), several});
}

void add_ways_of_megatron(const training_setup& model,
                          std::int64_t gpus,
                          std::vector<method>& all) {
  const training_setup alone = in(model, *setups::recipe_named("bf16", model.framework.engine.is));
  all = {{"fp32", "", in(model, fp32_precision), {}}, {"bf16", "", alone, {}}};
  if (gpus == 1) return;
  const auto add = [&](const std::string& name, const parallelism& layout, std::int64_t replicas) {
    all.push_back({"bf16, " + name, "", alone, {.data_parallel = replicas}});
    all.back().setup.parallelism = layout;
  };
  const std::string many = std::to_string(gpus);
  add("replicas", {}, gpus);
  add("ZeRO-1", {.zero_stage = 1}, gpus);
  if (model.model.moe.num_experts > 0)
    add("ZeRO-1, expert-parallel " + many, {.expert_parallel = gpus, .zero_stage = 1}, gpus);
  else
    add("tensor-parallel " + many, {.tensor_parallel = gpus, .sequence_parallel = true}, 1);
}

}  // namespace

bool has_ways_of_megatron(const training_setup& model) {
  return model.framework.implementation.layers == &layer_classes::megatron_core;
}

std::vector<method> methods_for(const training_setup& model,
                                std::int64_t gpus,
                                const lora& adapters) {
  std::vector<method> all;
  if (has_ways_of_megatron(model))
    add_ways_of_megatron(model, gpus, all);
  else
    add_ways_of_torch(model, gpus, adapters, all);
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

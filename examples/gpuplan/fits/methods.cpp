#include "fits/methods.hpp"

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "guides/front_end.hpp"
#include "setups/options.hpp"

namespace fits_program {
namespace {

using namespace gpuplan;

// By one GPU alone.
training_setup in(training_setup setup, const precision_recipe& precision) {
  setup.precision = precision;
  setup.parallelism = {};
  if (!has_ways_of_megatron(setup)) setups::put_on_one_gpu(setup);
  return setup;
}

method with_adapters(const training_setup& model, const lora& adapters, bool four_bits) {
  training_setup setup = in(model, bf16_under_autocast);
  setup.trains.adapters.targets = adapters.targets;
  setups::train_adapters(setup, adapters.rank, four_bits);
  setup.trains.adapters.dropout = adapters.dropout;
  setup.trains.adapters.magnitudes = adapters.magnitudes;
  if (setup.objective == training_objective::preference &&
      setup.reference == reference_model::separate)
    setup.reference = reference_model::without_adapters;
  const std::string name =
      setups::in_words(setup.trains.adapters) + " " + std::to_string(adapters.rank);
  if (setup.composite == nullptr) return {name, "", setup, {}};
  method made{name, "", setup, {}, setups::adapted_parts(setup)};
  made.setup.composite = made.parts.get();
  made.setup.trains = {};
  return made;
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
         {"pure bf16", "", in(model, bf16_pure), {}}};
  if (model.framework.layers().trains_adapters)
    for (const bool four_bits : {false, true})
      all.push_back(with_adapters(model, adapters, four_bits));
  else if (model.framework.layers().adapts_connectors)
    all.push_back(with_adapters(model, adapters, false));
  if (gpus == 1) return;
  const batch_plan several{.data_parallel = gpus};
  if (model.framework.layers().engine == nullptr)
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

// In small letters, without commas.
std::string lower(std::string_view text) {
  std::string small;
  for (const char c : text)
    if (c != ',') small += detail::lower(c);
  return small;
}

// "fp32; QLoRA 16; bf16 mixed, ZeRO-2".
std::string names_of(const std::vector<method>& all) {
  std::string names;
  const std::string* before = nullptr;
  for (const method& one : all) {
    if (before == nullptr || *before != one.name) names += (names.empty() ? "" : "; ") + one.name;
    before = &one.name;
  }
  return names;
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

std::vector<method> methods_called(const std::vector<method>& all,
                                   const std::vector<std::string>& words) {
  const auto is_called = [](const method& one, const std::string& word) {
    return (" " + lower(one.name) + " ").find(" " + lower(word) + " ") != std::string::npos;
  };
  for (const std::string& word : words)
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return is_called(one, word); }))
      throw guides::bad_request("--method " + word + ": the methods are " + names_of(all));
  std::vector<method> called;
  for (const method& one : all)
    if (std::any_of(words.begin(), words.end(), [&](const auto& w) { return is_called(one, w); }))
      called.push_back(one);
  return called;
}

}  // namespace fits_program

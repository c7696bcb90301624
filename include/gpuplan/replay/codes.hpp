#pragma once

// Which code runs a setup. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/replay/codes/bart.hpp>
#include <gpuplan/replay/codes/bert.hpp>
#include <gpuplan/replay/codes/composites.hpp>
#include <gpuplan/replay/codes/deberta.hpp>
#include <gpuplan/replay/codes/hugging_face_alibi.hpp>
#include <gpuplan/replay/codes/hugging_face_decoders.hpp>
#include <gpuplan/replay/codes/hugging_face_latent.hpp>
#include <gpuplan/replay/codes/hugging_face_mamba.hpp>
#include <gpuplan/replay/codes/lit_gpt.hpp>
#include <gpuplan/replay/codes/megatron.hpp>
#include <gpuplan/replay/codes/modernbert.hpp>
#include <gpuplan/replay/codes/plain.hpp>
#include <gpuplan/replay/codes/swin.hpp>
#include <gpuplan/replay/codes/t5.hpp>
#include <gpuplan/replay/codes/torchtitan.hpp>
#include <gpuplan/replay/codes/torchtitan_2026_gpt_oss.hpp>
#include <gpuplan/replay/codes/vit.hpp>
#include <gpuplan/replay/codes/wav2vec2.hpp>
#include <gpuplan/replay/codes/whisper.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/buckets.hpp>
#include <gpuplan/replay/sharding/deepspeed.hpp>
#include <gpuplan/replay/sharding/deepspeed_stage_3.hpp>
#include <gpuplan/replay/sharding/flat_parameters.hpp>
#include <gpuplan/replay/sharding/fully_shard.hpp>
#include <gpuplan/replay/sharding/megatron.hpp>
#include <gpuplan/training_setup.hpp>

#include <memory>

namespace gpuplan::eager {

/// Code of the others.
inline constexpr known_code other_codes[] = {
    {&code_names::gpt, &code_of<plain_decoder>},
    {&code_names::llama, &code_of<plain_decoder>},
    {&code_names::bert, &code_of<bert_code>},
    {&code_names::albert, &code_of<albert_code>},
    {&code_names::deberta, &code_of<deberta_code>},
    {&code_names::modernbert, &code_of<modernbert_code>},
    {&code_names::vit, &code_of<vit_code>},
    {&code_names::dinov2, &code_of<vit_code>},
    {&code_names::dinov3, &code_of<dinov3_code>},
    {&code_names::internvl_vision, &code_of<vit_code>},
    {&code_names::swin, &code_of<swin_code>},
    {&code_names::t5, &code_of<t5_code>},
    {&code_names::bart, &code_of<bart_code>},
    {&code_names::whisper, &code_of<whisper_code>},
    {&code_names::wav2vec2, &code_of<wav2vec2_code>},
    {&code_names::lit_gpt, &code_of<lit_gpt>},
    {&code_names::megatron_core, &code_of<megatron_gpt>},
    {&code_names::torchtitan, &code_of<torchtitan_llama>},
    {&code_names::torchtitan_2026, &torchtitan_2026_code},
};

/// Hands the code of the setup's layers to `user`: that which the classes name, or the library's.
/// Not on the heap: what g++ 12 computes there while compiling, it computes once for equal
/// arguments.
constexpr void with_code(tape& t,
                         const training_setup& setup,
                         const batch_plan& plan,
                         code_user& user) {
  const layer_class& layers = setup.framework.layers();
  if (layers.code != &library_code) return layers.code->run(t, setup, plan, user);
  for (const known_code& known : codes_of_decoders)
    if (known.name == layers.name) return known.code->run(t, setup, plan, user);
  for (const known_code& known : codes_with_alibi)
    if (known.name == layers.name) return known.code->run(t, setup, plan, user);
  for (const known_code& known : codes_of_state_spaces)
    if (known.name == layers.name) return known.code->run(t, setup, plan, user);
  for (const known_code& known : codes_of_composites)
    if (known.name == layers.name) return known.code->run(t, setup, plan, user);
  for (const known_code& known : codes_of_mixtures)
    if (known.name == layers.name) return known.code->run(t, setup, plan, user);
  for (const known_code& known : other_codes)
    if (known.name == layers.name) return known.code->run(t, setup, plan, user);
  detail::precondition_violated(failure(errc::no_such_code, named_fact{fact::layers, layers.name}));
}

/// What data parallelism adds; none on one device.
class any_sharding {
 public:
  constexpr any_sharding(tape& t, const training_setup& setup, const batch_plan& plan) : none_() {
    choose(t, setup, plan);
  }
  any_sharding(const any_sharding&) = delete;
  any_sharding& operator=(const any_sharding&) = delete;
  constexpr ~any_sharding() {
    if (sharding_ != nullptr) std::destroy_at(sharding_);
  }

  [[nodiscard]] constexpr sharding* get() { return sharding_; }

 private:
  constexpr void choose(tape& t, const training_setup& setup, const batch_plan& plan) {
    if (setup.framework.engine.is == &engine_classes::deepspeed) {
      make_deepspeed(t, setup, plan);
      return;
    }
    if (setup.framework.layers().is_pipelined)
      sharding_ = std::construct_at(&megatron_, t, setup, plan);
    else if (setup.framework.engine.is == &engine_classes::fsdp2)
      sharding_ = std::construct_at(&fully_, t, setup, plan);
    else if (setup.framework.engine.is == &engine_classes::fsdp1)
      sharding_ = std::construct_at(&flat_, t, setup, plan);
    else if (plan.data_parallel > 1)
      sharding_ = std::construct_at(&buckets_, t, setup, plan);
  }
  constexpr void make_deepspeed(tape& t, const training_setup& setup, const batch_plan& plan) {
    if (setup.parallelism.zero_stage == 0)
      sharding_ = std::construct_at(&unfused_, t, setup, plan);
    else if (deepspeed_bf16::is_for(setup))
      sharding_ = std::construct_at(&bf16_, t, setup, plan);
    else if (setup.parallelism.zero_stage == 3)
      sharding_ = std::construct_at(&stage_3_, t, setup, plan);
    else
      sharding_ = std::construct_at(&partitions_, t, setup, plan);
  }

  union {
    char none_;
    gradient_buckets buckets_;
    fully_shard fully_;
    flat_parameters flat_;
    deepspeed_unfused unfused_;
    deepspeed_bf16 bf16_;
    deepspeed_partitions partitions_;
    deepspeed_stage_3 stage_3_;
    megatron_training megatron_;
  };
  sharding* sharding_ = nullptr;
};

}  // namespace gpuplan::eager

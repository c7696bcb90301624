#pragma once

// Which code runs a setup. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/codes/bert.hpp>
#include <gpuplan/replay/codes/gpt2.hpp>
#include <gpuplan/replay/codes/gpt_neox.hpp>
#include <gpuplan/replay/codes/gptj.hpp>
#include <gpuplan/replay/codes/hugging_face.hpp>
#include <gpuplan/replay/codes/lit_gpt.hpp>
#include <gpuplan/replay/codes/megatron.hpp>
#include <gpuplan/replay/codes/opt.hpp>
#include <gpuplan/replay/codes/plain.hpp>
#include <gpuplan/replay/codes/t5.hpp>
#include <gpuplan/replay/codes/torchtitan.hpp>
#include <gpuplan/replay/codes/vit.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/buckets.hpp>
#include <gpuplan/replay/sharding/deepspeed.hpp>
#include <gpuplan/replay/sharding/deepspeed_stage_3.hpp>
#include <gpuplan/replay/sharding/fully_shard.hpp>
#include <gpuplan/replay/sharding/megatron.hpp>
#include <gpuplan/training_setup.hpp>

#include <memory>

namespace gpuplan::eager {

/// The code of the setup's framework. Not on the heap: what g++ 12 computes there while compiling,
/// it computes once for equal arguments.
class any_code {
 public:
  constexpr any_code(tape& t, const training_setup& setup, const batch_plan& plan) : none_() {
    switch (setup.framework.layers) {
      case layer_code::gpt:
      case layer_code::llama:
        code_ = std::construct_at(&plain_, t, setup, plan);
        break;
      case layer_code::torchtitan:
        code_ = std::construct_at(&torchtitan_, t, setup, plan);
        break;
      case layer_code::decoder:
        code_ = std::construct_at(&decoder_, t, setup, plan);
        break;
      case layer_code::bert:
        code_ = std::construct_at(&bert_, t, setup, plan);
        break;
      case layer_code::vit:
        code_ = std::construct_at(&vit_, t, setup, plan);
        break;
      case layer_code::gpt2:
        code_ = std::construct_at(&gpt2_, t, setup, plan);
        break;
      case layer_code::t5:
        code_ = std::construct_at(&t5_, t, setup, plan);
        break;
      case layer_code::opt:
        code_ = std::construct_at(&opt_, t, setup, plan);
        break;
      case layer_code::gpt_neox:
        code_ = std::construct_at(&gpt_neox_, t, setup, plan);
        break;
      case layer_code::gptj:
        code_ = std::construct_at(&gptj_, t, setup, plan);
        break;
      case layer_code::megatron_core:
        code_ = std::construct_at(&megatron_, t, setup, plan);
        break;
      case layer_code::lit_gpt:
        code_ = std::construct_at(&lit_gpt_, t, setup, plan);
        break;
    }
  }
  any_code(const any_code&) = delete;
  any_code& operator=(const any_code&) = delete;
  constexpr ~any_code() { std::destroy_at(code_); }

  constexpr model_code* operator->() { return code_; }
  constexpr model_code& operator*() { return *code_; }

 private:
  union {
    char none_;
    plain_decoder plain_;
    hugging_face_decoder decoder_;
    bert_code bert_;
    vit_code vit_;
    gpt2_code gpt2_;
    t5_code t5_;
    opt_code opt_;
    gpt_neox_code gpt_neox_;
    gptj_code gptj_;
    megatron_gpt megatron_;
    torchtitan_llama torchtitan_;
    lit_gpt lit_gpt_;
  };
  model_code* code_ = nullptr;
};

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
    if (setup.framework.sharding == sharding_code::deepspeed) {
      make_deepspeed(t, setup, plan);
      return;
    }
    if (setup.framework.layers == layer_code::megatron_core)
      sharding_ = std::construct_at(&megatron_, t, setup, plan);
    else if (setup.framework.sharding == sharding_code::fsdp2)
      sharding_ = std::construct_at(&fully_, t, setup, plan);
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
    deepspeed_unfused unfused_;
    deepspeed_bf16 bf16_;
    deepspeed_partitions partitions_;
    deepspeed_stage_3 stage_3_;
    megatron_training megatron_;
  };
  sharding* sharding_ = nullptr;
};

}  // namespace gpuplan::eager

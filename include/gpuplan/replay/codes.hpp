#pragma once

// Which code runs a setup. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/codes/bert.hpp>
#include <gpuplan/replay/codes/gpt2.hpp>
#include <gpuplan/replay/codes/hugging_face.hpp>
#include <gpuplan/replay/codes/megatron.hpp>
#include <gpuplan/replay/codes/plain.hpp>
#include <gpuplan/replay/codes/t5.hpp>
#include <gpuplan/replay/codes/vit.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/buckets.hpp>
#include <gpuplan/replay/sharding/fully_shard.hpp>
#include <gpuplan/replay/sharding/megatron.hpp>
#include <gpuplan/training_setup.hpp>

namespace gpuplan::eager {

/// The code of the setup's framework. The caller deletes it.
constexpr model_code* make_code(tape& t, const training_setup& setup, const batch_plan& plan) {
  switch (setup.framework.layers) {
    case layer_code::gpt:
    case layer_code::llama:
      return new plain_decoder(t, setup, plan);
    case layer_code::decoder:
      return new hugging_face_decoder(t, setup, plan);
    case layer_code::bert:
      return new bert_code(t, setup, plan);
    case layer_code::vit:
      return new vit_code(t, setup, plan);
    case layer_code::gpt2:
      return new gpt2_code(t, setup, plan);
    case layer_code::t5:
      return new t5_code(t, setup, plan);
    case layer_code::megatron_core:
      return new megatron_gpt(t, setup, plan);
    default:
      return new plain_decoder(t, setup, plan);
  }
}

/// What data parallelism adds; none on one device.
constexpr sharding* make_sharding(tape& t, const training_setup& setup, const batch_plan& plan) {
  if (setup.framework.layers == layer_code::megatron_core)
    return new megatron_training(t, setup, plan);
  if (plan.data_parallel == 1) return nullptr;
  switch (setup.framework.sharding) {
    case sharding_code::none:
      return new gradient_buckets(t, setup, plan);
    case sharding_code::fsdp2:
      return new fully_shard(t, setup, plan);
    default:
      return nullptr;
  }
}

}  // namespace gpuplan::eager

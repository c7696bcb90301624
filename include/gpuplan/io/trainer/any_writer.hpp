#pragma once

// A plan as files of whichever tool, by the tool's name. Needs nlohmann/json and yaml-cpp, as what
// writes each notation does.

#include <gpuplan/io/trainer/accelerate.hpp>
#include <gpuplan/io/trainer/axolotl.hpp>
#include <gpuplan/io/trainer/deepspeed.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/kubeflow.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/llama_factory.hpp>
#include <gpuplan/io/trainer/megatron_bridge.hpp>
#include <gpuplan/io/trainer/megatron_lm.hpp>
#include <gpuplan/io/trainer/ray.hpp>
#include <gpuplan/io/trainer/skypilot.hpp>
#include <gpuplan/io/trainer/slurm.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>
#include <gpuplan/io/trainer/torchtitan.hpp>
#include <gpuplan/io/trainer/training_config.hpp>

#include <string_view>

namespace gpuplan::io {

/// A format that a plan can be written in.
struct plan_writer {
  const char* name;  // on command lines
  const char* what;  // one line
  written_config (*write)(const training_config& config, const launch& how);
  // Whether the tool runs a model, by words of its own for it; else a script that it is given does.
  bool runs_model = false;
};

namespace detail {

// What has no word for how it is launched.
template <written_config (*Write)(const training_config& config)>
inline constexpr auto without_launch =
    [](const training_config& config, const launch&) { return Write(config); };

}  // namespace detail

/// All of them, by tool: trainers first, then launchers.
inline constexpr plan_writer plan_writers[] = {
    {"deepspeed", "DeepSpeed's JSON", detail::without_launch<write_deepspeed>},
    {"accelerate", "Accelerate's YAML", detail::without_launch<write_accelerate>},
    {"hf",
     "arguments of transformers' Trainer and TRL, in YAML",
     detail::without_launch<write_hugging_face_arguments>,
     true},
    {"axolotl", "axolotl's YAML", detail::without_launch<write_axolotl>, true},
    {"llama-factory", "LLaMA-Factory's YAML", detail::without_launch<write_llama_factory>, true},
    {"megatron",
     "a script with Megatron-LM's flags",
     detail::without_launch<write_megatron_lm>,
     true},
    {"bridge", "Megatron-Bridge's overrides", detail::without_launch<write_megatron_bridge>, true},
    {"torchtitan",
     "a module for torchtitan's registry",
     detail::without_launch<write_torchtitan>,
     true},
    {"torchrun", "a script that each node runs", write_torchrun},
    {"slurm", "a job script for Slurm, one task on each node", write_slurm},
    {"kubeflow", "a TrainJob of Kubeflow Trainer", write_kubeflow},
    {"skypilot", "a task of SkyPilot", write_skypilot},
    {"ray", "a module with Ray Train's ScalingConfig", write_ray},
};

}  // namespace gpuplan::io

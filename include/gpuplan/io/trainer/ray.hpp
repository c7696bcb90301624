#pragma once

// Ray Train's ScalingConfig, in a Python module that starts a training function on each GPU.

#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/training_config.hpp>

#include <string>

namespace gpuplan::io {

/// A module, ray_train.py, that runs a function of the person's own on every GPU of the plan.
/// Tested with Ray 2.60. Refused: a plan that does not say its nodes, and texts that are no words.
[[nodiscard]] inline written_config write_ray(const training_config& config,
                                              const launch& how = {}) {
  written_config made;
  const detail::machines on = detail::machines_of(config);
  made.why = on.why.empty() ? detail::flaw_of_launch(how) : on.why;
  if (!made) return made;
  std::string text =
      "# written for Ray Train of Ray 2.60\n"
      "from ray.train import ScalingConfig\n"
      "from ray.train.torch import TorchTrainer\n\n\n"
      "def train():\n"
      "    raise NotImplementedError(\"YOUR_TRAINING_LOOP\")\n\n\n"
      "scaling = ScalingConfig(\n"
      "    num_workers=" +
      std::to_string(on.gpus()) + ",\n    use_gpu=True,\n    resources_per_worker={\"GPU\": 1},\n" +
      (how.gpu.empty() ? "" : "    accelerator_type=\"" + how.gpu + "\",\n") +
      "    placement_strategy=\"PACK\",\n)\n\n"
      "if __name__ == \"__main__\":\n"
      "    TorchTrainer(train, scaling_config=scaling).fit()\n";
  made.files.push_back({"ray_train.py", std::move(text)});
  made.command = "python ray_train.py";
  made.not_written = detail::what_trainers_say(config);
  if (how.wall_time > 0_s) made.not_written.emplace_back("wall_time");
  if (!how.image.empty()) made.not_written.emplace_back("image");
  if (how.command != script_placeholder) made.not_written.emplace_back("command");
  return made;
}

}  // namespace gpuplan::io

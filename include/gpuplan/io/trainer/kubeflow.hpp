#pragma once

// Kubeflow Trainer's TrainJob: how many nodes with how many GPUs, and what each process runs.

#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// Whether an object is a TrainJob.
[[nodiscard]] inline bool looks_like_kubeflow(const value& settings) {
  const value* const kind = settings.find("kind");
  return kind != nullptr && kind->text() != nullptr && *kind->text() == "TrainJob";
}

/// What a TrainJob of trainer.kubeflow.org/v1alpha1 says: nodes and GPUs of each. What the command
/// in it says is the trainer's.
[[nodiscard]] inline read_config read_kubeflow(const value& settings) {
  read_config read{.tool = "kubeflow"};
  detail::settings_reader from(settings, read);
  from.pass_over({"apiVersion",
                  "kind",
                  "metadata",
                  "status",
                  "spec.runtimeRef",
                  "spec.initializer",
                  "spec.labels",
                  "spec.annotations",
                  "spec.suspend",
                  "spec.managedBy",
                  "spec.podTemplateOverrides",
                  "spec.trainer.image",
                  "spec.trainer.command",
                  "spec.trainer.args",
                  "spec.trainer.env"});
  read.config.nodes = from.integer("spec.trainer.numNodes");
  read.config.gpus_per_node = from.integer("spec.trainer.numProcPerNode");
  // A key with points in it is no path.
  const value* const resources = from.find("spec.trainer.resourcesPerNode", true);
  for (const char* const which : {"limits", "requests"}) {
    const value* const amounts = resources != nullptr ? resources->find(which) : nullptr;
    const value* const gpus = amounts != nullptr ? amounts->find("nvidia.com/gpu") : nullptr;
    if (gpus == nullptr) continue;
    // An amount may be a text: "8".
    const value is = gpus->text() != nullptr ? detail::value_of_word(*gpus->text()) : *gpus;
    const std::int64_t* const count = is.integer();
    if (count != nullptr && *count == 0) continue;
    if (count == nullptr || *count < 0 || *count > 999'999)
      from.remark_on(remark::kind::contradicts,
                     "spec.trainer.resourcesPerNode",
                     "nvidia.com/gpu is " + detail::shown(*gpus) +
                         "; a whole number from 0 to 999999 is taken");
    else if (read.config.gpus_per_node && *read.config.gpus_per_node != *count)
      from.remark_on(remark::kind::contradicts,
                     "spec.trainer.numProcPerNode",
                     "is " + std::to_string(*read.config.gpus_per_node) + ", and a node asks for " +
                         std::to_string(*count) + " of nvidia.com/gpu");
    else
      read.config.gpus_per_node = *count;
  }
  from.name_the_others();
  return read;
}

/// A TrainJob on the runtime torch-distributed, trainjob.yaml. Tested with Kubeflow Trainer 2.3
/// (trainer.kubeflow.org/v1alpha1). Refused: a plan that does not say its nodes, and texts that
/// are no words.
[[nodiscard]] inline written_config write_kubeflow(const training_config& config,
                                                   const launch& how = {}) {
  written_config made;
  const detail::machines on = detail::machines_of(config);
  made.why = on.why.empty() ? detail::flaw_of_launch(how) : on.why;
  if (!made) return made;
  value job;
  job["apiVersion"] = "trainer.kubeflow.org/v1alpha1";
  job["kind"] = "TrainJob";
  job["metadata"]["name"] = how.name;
  value& spec = job["spec"];
  spec["runtimeRef"] = value::object{{"apiGroup", "trainer.kubeflow.org"},
                                     {"kind", "ClusterTrainingRuntime"},
                                     {"name", "torch-distributed"}};
  value& trainer = spec["trainer"];
  if (!how.image.empty()) trainer["image"] = how.image;
  value::list words{"torchrun"};
  for (std::string_view left = how.command; !left.empty();) {
    const std::size_t end = left.find(' ');
    words.emplace_back(left.substr(0, end));
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
  }
  trainer["command"] = words;
  trainer["numNodes"] = on.nodes;
  trainer["numProcPerNode"] = on.gpus_per_node;
  trainer["resourcesPerNode"]["limits"] = value::object{{"nvidia.com/gpu", on.gpus_per_node}};
  made.files.push_back(
      {"trainjob.yaml",
       "# written for Kubeflow Trainer 2.3 (trainer.kubeflow.org/v1alpha1)\n" + to_yaml(job)});
  made.command = "kubectl apply -f trainjob.yaml";
  made.not_written = detail::what_trainers_say(config);
  if (how.wall_time > 0_s) made.not_written.emplace_back("wall_time");
  if (!how.gpu.empty() || !how.device.empty()) made.not_written.emplace_back("gpu");
  return made;
}

}  // namespace gpuplan::io

#pragma once

// Which GPUs a command line means: the same words in all commands.

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/trainer/training_config.hpp>

#include <string>
#include <vector>

#include "setups/machine.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace setups {

/// `--gpu NAME,...`, whose names `gpus_named` takes. `about` says what they are for.
CLI::Option* add_gpu_option(CLI::App& app, std::vector<std::string>& to, const std::string& about);

/// The device of this name: an id or a driver's name, a MIG slice, or what people write where one
/// device alone is meant. Throws `guides::bad_request`: where several are meant, with a line for
/// each of them; where none is, with the nearest.
[[nodiscard]] gpuplan::gpu_spec gpu_named(const std::string& name);

/// What commands take where nothing says which device.
inline constexpr const char* usual_gpu = "a100_sxm4_80gb";

/// The device that a job of the files asks for: where its name may be several, the usual one of
/// them, or else the first, and where nothing is known by it, the usual one; `why` says so then.
struct gpu_of_job {
  std::string id = usual_gpu;
  std::string why{};
};
[[nodiscard]] gpu_of_job gpu_of_files(const gpuplan::io::read_config& files);

/// Likewise of several, each once. "auto" stands for the kinds of devices that this machine has,
/// and standard error is told which.
[[nodiscard]] std::vector<gpuplan::gpu_spec> gpus_named(const std::vector<std::string>& names);

/// The devices of the catalogue that this machine's are, each once. Throws `guides::bad_request`
/// where it has none, with what was tried, or one that the catalogue has not.
[[nodiscard]] std::vector<gpuplan::gpu_spec> gpus_of(const seen_machine& machine);

/// "80 GB, 989 TFLOPS in bf16, 3350 GB/s".
[[nodiscard]] std::string in_words(const gpuplan::gpu_spec& gpu);

}  // namespace setups

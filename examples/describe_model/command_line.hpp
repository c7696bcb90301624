#pragma once

// What a person may ask for.

#include <string>
#include <string_view>

#include <gpuplan/trainable.hpp>

namespace describe_model {

/// The program: what it prints, and its exit status, as guides::run_program says.
int run(int argc, char** argv);

/// Adds the layers that a name stands for, "q" or "q_proj" or "all-linear", to `targets`; false
/// where it stands for none.
[[nodiscard]] bool add_target(std::string_view name, gpuplan::lora_targets& targets);

}  // namespace describe_model

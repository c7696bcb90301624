#pragma once

// What is trained on, and how well it went, in words.

#include <string>

#include "sweep_cpu/training.hpp"

namespace sweep_cpu_program {

/// Its name and its threads: "AMD EPYC 7763, 128 threads".
[[nodiscard]] std::string name_of_processor();

/// In bytes.
[[nodiscard]] double memory_of_machine();

/// In how many settings the loss fell, and from what to what in the one that saw most samples.
/// Empty where none made two steps.
[[nodiscard]] std::string remark_on_loss(const training& trained);

}  // namespace sweep_cpu_program

#pragma once

// What of files is compared, and how it is predicted.

#include <optional>

#include "memory.hpp"

namespace accuracy {

/// What is compared.
struct comparison_options {
  memory_method memory = memory_method::replay;
  bool time_only = false;  // of runs nothing but their time, which is quick
  // Of step times: by costs of software that nobody timed, whoever ran. Of whole runs: by those of
  // other sources.
  bool leaves_out = false;
  // Of timed runs those whose cells fit_time fits to, or those it holds out: `is_unseen`.
  std::optional<bool> unseen{};
};

}  // namespace accuracy

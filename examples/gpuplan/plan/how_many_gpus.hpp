#pragma once

#include <string>

#include "guides/render.hpp"
#include "plan/options.hpp"

namespace plan_program {

/// For 1, 2, 4 and so on up to all GPUs of each kind the best plan, with the run's hours, energy
/// and money. Throws `guides::bad_request`, as where the run's length is not given.
[[nodiscard]] std::string how_many_gpus(const arguments& given, const guides::output& as);

}  // namespace plan_program

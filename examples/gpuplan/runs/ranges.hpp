#pragma once

// Numbers that a command line gives alone or from one to another.

#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>

#include <cstdint>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace runs {

/// An option that takes "4", or from one to another, "1-8", both from `least` to `most`.
CLI::Option* add_range(CLI::App& app,
                       const std::string& name,
                       gpuplan::known<gpuplan::range<std::int64_t>>& to,
                       std::int64_t least,
                       std::int64_t most,
                       const std::string& what);

}  // namespace runs

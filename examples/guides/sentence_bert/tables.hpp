#pragma once

// The tables of guide 003 that have files of their own.

#include <string>

#include "guides/sentence_bert.hpp"

namespace guides::sentence_bert {

// model.cpp: what trains, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);

// memory.cpp: what of a device its steps take
[[nodiscard]] table the_memory(const inputs& in);
[[nodiscard]] std::string finding_of_the_memory(const inputs& in);

}  // namespace guides::sentence_bert

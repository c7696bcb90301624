#pragma once

// The table of guide 003 that has a file of its own.

#include <string>

#include "guides/sentence_bert.hpp"

namespace guides::sentence_bert {

// model.cpp: what trains, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);

}  // namespace guides::sentence_bert

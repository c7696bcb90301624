#pragma once

// The tables of guide 003 that have files of their own.

#include <gpuplan/training_setup.hpp>

#include <string>

#include "guides/sentence_bert.hpp"

namespace guides::sentence_bert {

// model.cpp: what trains, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);

// memory.cpp: what of a device its steps take
[[nodiscard]] table the_memory(const inputs& in);
[[nodiscard]] std::string finding_of_the_memory(const inputs& in);
/// T3.6's model as it trains.
[[nodiscard]] gpuplan::training_setup pairs(const inputs& in, bool mixed);

// likely.cpp: what its steps take, where 80 % of such runs lie
void add_likely_hours(table& t, const inputs& in);
[[nodiscard]] std::string finding_of_the_hours(const inputs& in);

}  // namespace guides::sentence_bert

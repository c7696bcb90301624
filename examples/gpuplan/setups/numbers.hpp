#pragma once

// Bytes as people read them, and failures that have some.

#include <gpuplan/result.hpp>

#include <cstdint>
#include <string>

#include "guides/front_end.hpp"

namespace setups {

inline constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t value);

/// Three digits with a unit: "8.03 GiB", "77.0 MiB".
[[nodiscard]] std::string readable_bytes(std::int64_t bytes);

/// What the failure says, with its memory in GiB as all that is printed beside it.
[[nodiscard]] std::string sentence_of(const gpuplan::failure& why);

/// The answer. Throws `guides::bad_request` with that sentence where there is none.
template <class Answer>
const Answer& checked(const gpuplan::result<Answer>& answer) {
  if (!answer) throw guides::bad_request(sentence_of(answer.why()), answer.why());
  return *answer;
}

}  // namespace setups

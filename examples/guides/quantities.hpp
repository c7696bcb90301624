#pragma once

// Numbers as people write them on a command line: for `CLI::Option::transform`, which hands them on
// as plain digits. A suffix multiplies by powers of ten: k, M, B or G, and T, in either case; so
// does an exponent: 64k, 1.5M, 100B, 1e12.

#include <cstdint>

namespace CLI {
class Validator;
}

namespace guides {

/// Lets through whole numbers from `least` to `most`. Leading zeros, which would make them octal,
/// go.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// Lets through finite numbers from `least` to `most`, or above 0.
[[nodiscard]] CLI::Validator finite_number(double least, double most);
[[nodiscard]] CLI::Validator positive_number();

/// Lets through memory with its unit, 80GiB, 24GB, 512 MiB, from `least` to `most` bytes, as a
/// whole number of bytes. Without a unit it is refused: GB are no GiB.
[[nodiscard]] CLI::Validator byte_count(std::int64_t least, std::int64_t most);

/// The unit of an option's number.
enum class time_unit { milliseconds, seconds, hours, days };

/// Lets through durations of weeks to milliseconds, 3d12h, 90m, 2.5h, 45s, 20ms, and numbers alone,
/// which are in the option's unit, from `least` to `most` of it; as a number of it.
[[nodiscard]] CLI::Validator time_span(time_unit unit, double least, double most);

/// Lets through dollars from `least` to `most`: $1.5k, 2.50, 1e6, 300 USD.
[[nodiscard]] CLI::Validator sum_of_dollars(double least, double most);

}  // namespace guides

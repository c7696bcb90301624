#include "setups/numbers.hpp"

#include <gpuplan/io/table.hpp>

#include <cstdint>
#include <string>

#include "model/render.hpp"

namespace setups {

std::string grouped(std::int64_t value) { return describe_model::grouped(value); }

std::string readable_bytes(std::int64_t bytes) {
  struct unit {
    double size;
    const char* name;
  };
  static constexpr unit units[] = {{gibibyte, " GiB"}, {gibibyte / 1024, " MiB"}, {1024, " KiB"}};
  const auto number = static_cast<double>(bytes);
  for (const unit& one : units) {
    // what rounds to 1,000 of a smaller unit is read in this
    if (number < 0.9765 * one.size) continue;
    const double scaled = number / one.size;
    return gpuplan::io::decimal(scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0) + one.name;
  }
  return std::to_string(bytes) + " B";
}

}  // namespace setups

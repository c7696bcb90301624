#pragma once

// The tables of guide 001, each in the file of its question, and what these files share.

#include <cstddef>
#include <cstdint>
#include <string>

#include "guides/a6000_to_h100.hpp"

namespace guides::a6000_to_h100 {

// cards_and_batches.cpp: what the H100 gains
[[nodiscard]] table cards(const inputs& in);

// cards_and_batches.cpp: what to train with
[[nodiscard]] table batches(const inputs& in);

// ../a6000_to_h100.cpp: how long it takes, what it costs, which to take
[[nodiscard]] table times(const inputs& in);
[[nodiscard]] table scenarios(const inputs& in);
[[nodiscard]] table costs(const inputs& in);
[[nodiscard]] table schedules(const inputs& in);
[[nodiscard]] table recommendation(const inputs& in);

// model.cpp: what trains, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);

// memory.cpp: what of a device its steps take
[[nodiscard]] table the_memory(const inputs& in);

// What the static_asserts are about.
inline constexpr inputs guide;

constexpr double in_hours(duration time) { return in(time, 1_h); }
constexpr double in_days(duration time) { return in(time, 1_d); }
constexpr double in_usd(gpuplan::money cost) { return in(cost, 1_usd); }
constexpr range<double> in_usd(range<gpuplan::money> cost) {
  return {in_usd(cost.low()), in_usd(cost.high())};
}
constexpr double in_usd_per_hour(price each) { return in(each, 1_usd_per_hour); }
constexpr range<double> in_hours(range<duration> time) {
  return {in_hours(time.low()), in_hours(time.high())};
}

inline std::string h100s(std::int64_t gpus) { return "H100 x " + std::to_string(gpus); }
inline std::string name_of(std::size_t run) {
  return run == 0 ? "A6000 x 1" : h100s(counts[run - 1]);
}
inline shown yes_or_no(bool yes) { return word(yes ? "yes" : "no"); }

inline std::string setting_text(const batch_plan& plan) {
  return std::to_string(plan.micro_batch) + " x " + std::to_string(plan.accumulation);
}
inline std::string setting_text(const gpuplan::result<batch_plan>& plan) {
  return plan ? setting_text(*plan) : "no setting";
}

inline double price_of_an_hour(const priced_run& slower, const priced_run& faster) {
  return in_usd_per_hour(*gpuplan::price_of_time_saved(slower, faster));
}

}  // namespace guides::a6000_to_h100

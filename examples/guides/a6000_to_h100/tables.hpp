#pragma once

// The tables of guide 001, each in the file of its question, and what these files share.

#include <gpuplan/training_setup.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "guides/a6000_to_h100.hpp"

namespace guides::a6000_to_h100 {

// cards_and_batches.cpp: what the H100 gains
[[nodiscard]] table cards(const inputs& in);

// cards_and_batches.cpp: what to train with
[[nodiscard]] table batches(const inputs& in);

// likely.cpp: what steps of the model say of the hours on H100s
enum h100_card { sxm5, pcie };
inline constexpr h100_card h100_cards[] = {sxm5, pcie};
constexpr const char* name(h100_card card) { return card == sxm5 ? "SXM5" : "PCIe"; }

/// Where 80 % of such runs lie: the hours that were measured on an A6000, times as long as a step
/// of stage 2's language model takes on H100s for each sample, at the guide's batches and on eight
/// at that of one. Stage 1 goes through the same model, forward and backward.
class likely_runs {
 public:
  explicit likely_runs(const inputs& in);
  /// Of what takes `reference` on the A6000.
  [[nodiscard]] range<duration> time(h100_card card, duration reference, std::int64_t gpus) const;
  [[nodiscard]] range<gpuplan::money> cost(h100_card card,
                                           duration reference,
                                           std::int64_t gpus) const;

 private:
  price per_gpu_;
  range<double> times_as_long_[2][counts.size()] = {{1., 1., 1., 1.}, {1., 1., 1., 1.}};
};

/// As the guide prints them, of `counts`.
inline constexpr double documented_hours[] = {100, 50, 26, 15};

/// Adds what is likely on either card beside what is documented: "time on SXM5, 80 %".
template <class OfCard>
void add_likely(table& t,
                const std::string& row,
                const std::string& quantity,
                const std::string& unit,
                const shown& documented,
                int digits,
                const OfCard& of) {
  for (const h100_card card : h100_cards)
    t.compare(row,
              quantity + " on " + name(card) + ", 80 %",
              unit,
              documented,
              span_of(of(card), digits));
}

[[nodiscard]] std::string finding_of_the_hours(const inputs& in, const likely_runs& likely);

// ../a6000_to_h100.cpp: how long it takes, what it costs, which to take
[[nodiscard]] table times(const inputs& in, const likely_runs& likely);
[[nodiscard]] table scenarios(const inputs& in, const likely_runs& likely);
[[nodiscard]] table costs(const inputs& in, const likely_runs& likely);
[[nodiscard]] table schedules(const inputs& in, const likely_runs& likely);
[[nodiscard]] table recommendation(const inputs& in);

// model.cpp: what trains, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);

// memory.cpp: what of a device its steps take
[[nodiscard]] table the_memory(const inputs& in);
/// LoRA on Meditron 7B alone, as T1.8 describes it, with so much text behind an image.
[[nodiscard]] gpuplan::training_setup lora_of(const inputs& in, std::int64_t text);

// What the static_asserts are about.
inline constexpr inputs guide;

constexpr double in_hours(duration time) { return in(time, 1_h); }
constexpr double in_days(duration time) { return in(time, 1_d); }
constexpr range<double> in_days(range<duration> time) {
  return {in_days(time.low()), in_days(time.high())};
}
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

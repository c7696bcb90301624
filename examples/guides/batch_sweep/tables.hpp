#pragma once

// The tables of guide 004, each in the file of its question, and what these files share.

#include <gpuplan/training_setup.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "guides/batch_sweep.hpp"

namespace guides::batch_sweep {

using namespace gpuplan;

// sweep.cpp: what each row says
[[nodiscard]] table recomputed(const inputs& in);
[[nodiscard]] table diagnoses(const inputs& in);

// sweep.cpp: which batch to take, and where larger ones lead
[[nodiscard]] table optimal(const inputs& in);
[[nodiscard]] table lines(const inputs& in);

// ../batch_sweep.cpp: what to train with
[[nodiscard]] table settings(const inputs& in);

// model.cpp: what is trained, and what it takes
[[nodiscard]] table the_models(const inputs& in);
[[nodiscard]] std::string finding_of_the_models(const inputs& in);

// memory.cpp: what of a device its steps take
[[nodiscard]] table the_memory(const inputs& in);
[[nodiscard]] std::string finding_of_the_memory(const inputs& in);
/// T4.6's blocks as they train.
[[nodiscard]] training_setup as_gpt(const inputs& in, const model_size& size);

// likely.cpp: what an epoch of it takes on an A100, where 80 % of such lie
[[nodiscard]] range<duration> likely_epoch(const inputs& in,
                                           const model_size& size,
                                           const setting& with);
[[nodiscard]] std::string finding_of_the_hours(const inputs& in);

// What the static_asserts are about.
inline constexpr inputs guide;

inline constexpr fit_weighting plain = fit_weighting::absolute;
inline constexpr fit_weighting relative = fit_weighting::relative;

// What the guide prints beside its measurements, row by row.
struct claim {
  double total_ms;
  double samples_per_s;
};
inline constexpr std::array<claim, 13> claims{{{36.35, 27.5},
                                               {37.80, 52.9},
                                               {40.35, 99.1},
                                               {44.13, 181.3},
                                               {49.79, 321.3},
                                               {58.35, 548.4},
                                               {71.46, 895.5},
                                               {91.91, 1392.6},
                                               {127.57, 2006.5},
                                               {187.68, 2728.1},
                                               {287.35, 3563.8},
                                               {499.91, 4096.7},
                                               {921.01, 4447.8}}};

// The rows that the guide's comparisons and its picks are about.
inline constexpr std::size_t row_128 = 7;
inline constexpr std::size_t row_1024 = 10;
inline constexpr std::size_t row_2048 = 11;
inline constexpr std::size_t row_4096 = 12;

constexpr double ms(duration time) { return in(time, 1_ms); }
constexpr double GB(bytes memory) { return in(memory, 1_GB); }

constexpr double step_ms(const inputs& in, std::size_t row) {
  return ms(step_time(sweep(in)[row]));
}
constexpr double rate(const inputs& in, std::size_t row) {
  return throughput(sweep(in)[row]).value();
}

constexpr bytes memory_at(const inputs& in, std::int64_t batch, fit_weighting weighting = plain) {
  return memory_line(in, weighting).model.required({.micro_batch = batch});
}

inline std::string percent_text(double share, int digits = 0) {
  return decimal(100 * share, digits) + " %";
}

inline std::string range_text(const range<double>& r, int digits) {
  return text(span_of(r, digits));
}

inline std::string percent_range(const range<double>& share) {
  return range_text(100.0 * share, 0) + " %";
}

// The guide has two memory bands.
struct named_band {
  const char* name;
  range<double> band;
};

}  // namespace guides::batch_sweep

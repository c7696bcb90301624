#pragma once

// What tables say of plans: the parts of their steps, how far off another stack may be, and all of
// it for programs.

#include <gpuplan/io/table.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time/step_rates.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "guides/render.hpp"
#include "plan/options.hpp"

namespace plan_program {

/// A part of a step.
struct step_part {
  const char* name;      // for programs
  const char* in_words;  // for people
  gpuplan::duration gpuplan::step_breakdown::*time;
};
/// All parts, which add up to the step.
[[nodiscard]] std::span<const step_part> step_parts();

/// A plan with what follows from it. Without a plan nothing but `gpu` and `gpus` is known.
struct described_plan {
  std::string gpu;
  std::int64_t gpus = 0;
  gpuplan::known<gpuplan::training_plan> plan{};
  std::string framework{};
  std::string sharding{};
  std::int64_t sequence_length = 0;  // of images, their tokens
  std::string precision{};
  gpuplan::step_breakdown parts{};
  gpuplan::stack_range stack{};  // what is left open of the software
  gpuplan::step_ranges by_stack{};
  bool has_interval = false;  // `by_stack.all` holds 80 % of such steps
  bool is_replayed = false;   // no other part of `by_stack` is known
  gpuplan::step_rates rates{};
  gpuplan::known<gpuplan::planned_run> run{};  // of a request with samples
  gpuplan::known<double> carbon_kg{};          // of a run with a known energy and grid
  gpuplan::roofline_time model{};              // what tells the step's time

  /// The run's time, or a step's where there is no run.
  [[nodiscard]] gpuplan::duration time() const;
  /// What `time` is by a range of the step's.
  [[nodiscard]] gpuplan::range<gpuplan::duration> time_by(
      gpuplan::range<gpuplan::duration> step) const;
};

/// A step of this plan by the model of its time, which has the numbers of timed steps where they
/// are given.
[[nodiscard]] described_plan describe(const gpuplan::roofline_time& model,
                                      const gpuplan::training_plan& plan,
                                      const std::string& precision,
                                      const gpuplan::known<gpuplan::stack_estimate>& by = {});
/// Likewise, of several models in one step, whose operators are replayed. Throws
/// `guides::bad_request` where their time cannot be told.
[[nodiscard]] described_plan describe(const gpuplan::replayed_time& by,
                                      const gpuplan::training_plan& plan,
                                      const std::string& precision);
/// A plan of the request, with its run. `layers`: of the model that the plan trains; 0: the
/// request's.
[[nodiscard]] described_plan describe(const named_request& asked,
                                      const gpuplan::training_plan& plan,
                                      std::int64_t layers = 0);

/// What a GPU draws in the plan's steps: its stated power, else of its TDP what its step's parts
/// draw of an H100's, without host and cooling; not known where the TDP is not.
[[nodiscard]] gpuplan::known<gpuplan::power> draw_of_step(const described_plan& of);

/// Adds the run of so many samples on the cluster that the plan is on.
void add_run(described_plan& to,
             std::int64_t samples,
             const gpuplan::cluster& on,
             gpuplan::known<double> carbon_g_per_kWh);

/// The digits after the point that show so many figures of `value`, and no fewer of what is larger.
[[nodiscard]] int digits_of(double value, int figures = 3);

/// A count to three figures.
[[nodiscard]] double rounded_count(double count);

/// A cell with the value, or nothing where it is not known.
template <class Known, class Unit>
[[nodiscard]] gpuplan::io::cell cell_of(const Known& value, const Unit& unit, int digits) {
  if (!value) return {};
  return {gpuplan::in(*value, unit), digits};
}

/// One of several plans in a table for people.
struct named_plan {
  std::string name;
  described_plan is;
};

/// For people: what share of a step each part takes, a column for each plan, and below how much of
/// the device's peak it reaches. Parts that take none are left out.
[[nodiscard]] gpuplan::io::table parts_of(const std::vector<named_plan>& plans);
/// For people: the parts of one step in seconds and percent, and what the step reaches.
[[nodiscard]] gpuplan::io::table seconds_of(const described_plan& plan);
[[nodiscard]] gpuplan::io::table rates_of(const described_plan& plan);
/// What a replayed step of that time reaches; its products are those of its code.
[[nodiscard]] gpuplan::step_rates rates_of(const gpuplan::replayed_time& by,
                                           const gpuplan::batch_plan& plan,
                                           gpuplan::duration step);
/// For people: what the run takes, and the range of it by stack. Precondition: there is one.
[[nodiscard]] gpuplan::io::table costs_of(const described_plan& plan, const std::string& run);
/// For people: the range of the plan's time by what makes a stack fast or slow, each alone and all
/// of it. Precondition: the step is not replayed.
[[nodiscard]] gpuplan::io::table stacks_of(const named_plan& plan);
/// "best: 1.2 s a step; 80 % of such steps take 1.1 to 1.3 s": of a step that is replayed.
[[nodiscard]] std::string interval_in_words(const named_plan& plan);
/// One of both, below tables.
[[nodiscard]] std::string how_sure(const named_plan& plan, const guides::output& as);

/// For programs: names of columns, and what they hold of a plan, in full.
void add_columns(gpuplan::io::table& to);
void add_cells(std::vector<gpuplan::io::cell>& to, const described_plan& plan);

}  // namespace plan_program

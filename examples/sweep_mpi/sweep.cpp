#include "sweep_mpi/sweep.hpp"

#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/speedup.hpp>

#include <span>

#include "sweep/counted_memory.hpp"

namespace sweep_mpi {

using namespace gpuplan;

training_on_ranks::training_on_ranks(const ranks& among, training& of_rank)
    : among_(among), of_rank_(of_rank), agree_([&among](int own) { return among.largest(own); }) {}

void training_on_ranks::set_up(const sweep_setting& setting) {
  seconds_.clear();
  of_rank_.set_up(setting);
  gradient_bytes_ = of_rank_.network().gradients().size_bytes();
}

void training_on_ranks::step(measure::phase_recorder<>& recorder) {
  {
    // Until all have come here, a rank waits for the slowest one.
    const auto scope = recorder.phase(phase::communication);
    measure::together(agree_, [&] { of_rank_.compute_gradients(recorder); });
    average_gradients();
  }
  of_rank_.update(recorder);
}

void training_on_ranks::average_gradients() {
  if (among_.size() == 1) return;
  const std::span<float> gradients = of_rank_.network().gradients();
  const auto start = measure::steady_clock::now();
  among_.sum(gradients);
  seconds_.push_back(measure::steady_clock::seconds_between(start, measure::steady_clock::now()));
  const float share = 1.0F / static_cast<float>(among_.size());
  for (float& one : gradients) one *= share;
}

void training_on_ranks::tear_down(const sweep_setting& setting) {
  if (!seconds_.empty())
    communication_.push_back(
        {.setting = setting, .median_s = measure::sort_into_quartiles(seconds_).median});
  seconds_.clear();
  of_rank_.tear_down();
}

measure::sweep_result training_on_ranks::run(measure::sweep_options asked) {
  asked.agree = agree_;
  asked.set_up = [this](const sweep_setting& setting) { set_up(setting); };
  asked.tear_down = [this](const sweep_setting& setting) { tear_down(setting); };
  asked.memory = [this] { return among_.largest(sweep_examples::peak_resident_memory()); };
  asked.utilisation = [this] { return of_rank_.utilisation(); };
  return measure::run_sweep(
      [this](const sweep_setting&, measure::phase_recorder<>& recorder) { step(recorder); }, asked);
}

}  // namespace sweep_mpi

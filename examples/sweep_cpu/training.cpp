#include "sweep_cpu/training.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/measure/phase_recorder.hpp>
#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "sweep/counted_memory.hpp"
#include "sweep/data_set.hpp"
#include "sweep/loader.hpp"
#include "sweep/multilayer_perceptron.hpp"
#include "sweep/thread_team.hpp"

namespace sweep_cpu_program {
namespace {

// What the buffers of a setting may take, so that the process stays within its limit. What it takes
// beside them, for its code, its stacks and the blocks of matrix products, a rehearsal shows.
std::size_t left_of(const sweep_examples::data_set& samples,
                    const training::options& with,
                    sweep_examples::thread_team& team) {
  if (with.memory_limit == sweep_examples::counted_memory::unlimited) return with.memory_limit;
  constexpr std::int64_t batch = 1024;  // with more, those blocks hardly grow
  sweep_examples::counted_memory memory;
  sweep_examples::restart_peak_resident_memory();
  sweep_examples::multilayer_perceptron network(with.widths, batch, team, 1, &memory);
  sweep_examples::loader loader(samples, {.micro_batch = batch}, &memory);
  const sweep_examples::sample_batch some = loader.next();
  network.forward(some.inputs, some.labels);
  network.backward();
  network.update();
  const double other =
      sweep_examples::peak_resident_memory() - static_cast<double>(memory.in_use());
  const auto limit = static_cast<double>(with.memory_limit);
  if (other >= limit)
    throw std::runtime_error("the limit of memory is " + gpuplan::io::decimal(limit / 1e6, 1) +
                             " MB, and the program takes " + gpuplan::io::decimal(other / 1e6, 1) +
                             " MB beside what it trains");
  return static_cast<std::size_t>(limit - other);
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double mean(std::span<const float> losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

}  // namespace

training::training(const sweep_examples::data_set& samples, const options& with)
    : samples_(samples), with_(with), team_(with.threads), memory_(left_of(samples, with, team_)) {}

gpuplan::measure::sweep_result training::sweep(gpuplan::measure::sweep_options asked) {
  asked.set_up = [this](const gpuplan::sweep_setting& setting) { set_up(setting); };
  asked.tear_down = [this](const gpuplan::sweep_setting&) { tear_down(); };
  asked.memory = sweep_examples::peak_resident_memory;
  asked.utilisation = [this] { return utilisation(); };
  return gpuplan::measure::run_sweep(
      [this](const gpuplan::sweep_setting&, gpuplan::measure::phase_recorder<>& recorder) {
        compute_gradients(recorder);
        update(recorder);
      },
      asked);
}

void training::set_up(const gpuplan::sweep_setting& setting) {
  setting_ = setting;
  losses_.clear();
  sweep_examples::restart_peak_resident_memory();
  network_.emplace(with_.widths, setting.micro_batch, team_, 1, &memory_);
  loader_.emplace(samples_,
                  sweep_examples::loader_options{.micro_batch = setting.micro_batch,
                                                 .workers = setting.workers,
                                                 .rank = with_.rank,
                                                 .ranks = with_.ranks},
                  &memory_);
}

void training::compute_gradients(gpuplan::measure::phase_recorder<>& recorder) {
  using gpuplan::phase;
  sweep_examples::sample_batch batch;
  {
    const auto scope = recorder.phase(phase::data);
    batch = loader_->next();
  }
  {
    const auto scope = recorder.phase(phase::forward);
    losses_.push_back(network_->forward(batch.inputs, batch.labels));
  }
  const auto scope = recorder.phase(phase::backward);
  network_->backward();
}

void training::update(gpuplan::measure::phase_recorder<>& recorder) {
  const auto scope = recorder.phase(gpuplan::phase::optimizer);
  network_->update();
}

void training::tear_down() {
  loader_.reset();
  network_.reset();
  const std::size_t steps = losses_.size();
  if (steps < 2) return;
  const auto batch = static_cast<std::size_t>(setting_.micro_batch);
  const std::size_t some = std::clamp<std::size_t>(256 / batch, 1, steps / 2);
  learned_.push_back({.setting = setting_,
                      .steps = static_cast<std::int64_t>(steps),
                      .first_loss = mean(std::span(losses_).first(some)),
                      .last_loss = mean(std::span(losses_).last(some))});
}

training::moment training::now() {
  return {.passed_s = seconds_of(CLOCK_MONOTONIC),
          .computed_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
}

double training::utilisation() {
  const moment before = asked_;
  asked_ = now();
  const double has = std::max(1U, std::thread::hardware_concurrency());
  const double share =
      (asked_.computed_s - before.computed_s) / (has * (asked_.passed_s - before.passed_s));
  return std::clamp(share, 0.0, 1.0);
}

}  // namespace sweep_cpu_program

// Runs, their interruptions, checkpoints and prices, sweeps and schedules, with any value in any
// field: extreme_inputs.cpp has random ones; here each field takes each edge in turn.

#include <gpuplan/checkpoint.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/reliability.hpp>
#include <gpuplan/run_phases.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/sweep.hpp>
#include <gpuplan/time/overlap.hpp>
#include <gpuplan/time/pipeline.hpp>
#include <gpuplan/token_budget.hpp>
#include <gpuplan/training_run.hpp>

#include <cstdint>
#include <vector>

#include "asked_doors.hpp"

using namespace gpuplan;

namespace {

struct described_run {
  interrupted_run run{.work = 100_h, .mean_time_between_failures = 50_h};
  run_uncertainty unknown{};
  double share = 0.9;
  job_limits limits{.time_limit = 24_h};
  training_run epochs{.samples = 1000, .effective_batch = 32, .epochs = 2};
  batch_ramp ramp{.start = 32, .increment = 32, .full = 128, .samples = 1000};
  run_phase phase{.steps = 100, .effective_batch = 32, .sequence_length = 128, .step = 1_s};
  evaluation evaluated{};
  counted_interruptions counted{};
  checkpoint_storage storage{.quota = 100_GB, .checkpoint = 1_GB};
  priced_run slower{8, 10_h, 100_usd};
  priced_run faster{16, 6_h, 120_usd};
  duration stall = 10_s;
  duration between_failures = 50_h;
  tuned_rate tuned{1e-4, 32};
  model_and_tokens trained{1e9, 2e10};
  double batch = 100;
  double critical_batch = 1000;
  step_breakdown parts{.forward = 1_s, .backward = 2_s, .optimizer = 0.1_s, .host = 0.1_s};
  phase_draws draws = h100_draws;
  run_time_parts spent{.training = 100_h, .saving = 1_h, .lost = 2_h};
  run_draw drawn{.training = 600_W, .waiting = 140_W, .host = 100_W, .pue = 1.2};
  std::int64_t devices = 8;
  double grams_per_kWh = 300;
  bytes held = 16_GB;
  std::int64_t tensors = 291;
};

void ask_about_run(const described_run& given, door_log& log) {
  log("expected_time", expected_time(given.run));
  log("deviation_of_time", deviation_of_time(given.run));
  log("best_interval", best_interval(given.run));
  log("time_within", time_within(given.run, given.unknown, given.share));
  duration times[4];
  const auto simulated = simulate(given.run, given.unknown, times);
  log("simulate", simulated);
  if (simulated) log("share_within", share_within(times, times[0]));
  const auto chain = chain_of(given.run.work, given.limits);
  log("chain_of", chain);
  if (chain) log("chain_of", chain->time());
  log("total_steps", total_steps(given.epochs));
  log("steps_per_epoch", steps_per_epoch(given.epochs));
  log("samples_seen", samples_seen(given.epochs));
  log("batch_after", batch_after(given.ramp, 500));
  log("stage_of", stage_of(given.ramp, 1));
  const run_phase phases[] = {given.phase, given.phase};
  const auto total = total_of(phases, given.evaluated);
  log("total_of", total);
  log("device_time_between_failures", device_time_between_failures(given.counted));
  log("storage_needed", storage_needed(given.storage, 3));
  log("checkpoints_that_fit", checkpoints_that_fit(given.storage));
  log("save_interval_within", save_interval_within(given.storage, 1000));
  for (const auto& interval : {save_interval_of_young(given.stall, given.between_failures),
                               save_interval_for_failures(given.stall, given.between_failures),
                               best_save_interval(given.stall, given.between_failures)})
    log("save interval", interval);
  const priced_run runs[] = {given.slower, given.faster};
  log("cheapest", cheapest(runs));
  log("fastest", fastest(runs));
  if (validate(given.slower) && validate(given.faster))
    log("dominates", dominates(given.slower, given.faster));
  log("scaled_learning_rate", scaled_learning_rate(given.tuned, {16, 64}, square_root_rule{}));
  log("training_flops", training_flops(given.trained));
  log("price_of_batch", price_of_batch(given.batch, given.critical_batch));
  log.takes(validate(given.draws));
  log("average_draw", average_draw(given.parts, given.draws));
  log.takes(validate(given.drawn));
  const auto used = energy_used(given.spent, given.devices, given.drawn);
  log("energy_used", used);
  if (used) log("carbon_kg", carbon_kg(*used, given.grams_per_kWh));
  for (const checkpoint_format format : {checkpoint_format::safetensors,
                                         checkpoint_format::torch_save,
                                         checkpoint_format::distributed})
    log("file_size", file_size(given.held, given.tensors, format));
}

struct described_row {
  sweep_row row{.micro_batch = 3, .forward = 3_s, .memory = 4_GB};
  sweep_thresholds thresholds{};
  double gigabytes = 24;
  double line_tolerance = 0.1;
  double share = 0.9;
};

void ask_about_rows(const described_row& given, door_log& log) {
  std::vector<sweep_row> rows;
  for (const std::int64_t batch : {1, 2, 4})
    rows.push_back({.micro_batch = batch,
                    .forward = static_cast<double>(1 + batch) * 0.5_s,
                    .memory = static_cast<double>(1 + batch) * 1_GB});
  rows.insert(rows.begin() + 2, given.row);
  const memory_budget gpu(bytes::from_value(given.gigabytes * 1e9));
  log.takes(validate(sweep_rows(rows)));
  log("diagnose", diagnose(given.row, gpu, given.thresholds));
  const auto time = measured_time_of(rows, given.line_tolerance);
  log.takes(time);
  if (time) {
    log("step", time->step({.micro_batch = 2}));
    log("saturation_throughput", saturation_throughput(*time).low());  // high: may be without end
    log("batch_at_saturation", batch_at_saturation(*time, given.share));
  }
  const auto memory = measured_memory_of(rows, gpu.size(), given.line_tolerance);
  log.takes(memory);
  if (memory) log("required", memory->required({.micro_batch = 2}));
  log.takes(measured_sweep_of(rows, {}, given.line_tolerance));
  log.takes(fit_time(rows, fit_weighting::relative));
  log.takes(fit_memory(rows, fit_weighting::relative));
  log("pick_highest_throughput", pick_highest_throughput(rows));
  log("pick_best_efficiency", pick_best_efficiency(rows));
  log("pick_recommended", pick_recommended(rows, gpu, given.thresholds));
  for (const sweep_row& row : rows) {
    log.holds("differ_in_batch_alone",
              differ_in_batch_alone(setting_of(row), setting_of(row)),
              "does not hold of a row and itself");
  }
  if (validate(sweep_rows(rows)) && given.row.status == sweep_status::ran) {
    log("step_time", step_time(given.row));
    log("throughput", throughput(given.row));
    log("samples_per_s_per_GB", samples_per_s_per_GB(given.row));
  }
}

}  // namespace

TEST_CASE("runs with any value in any field take a time, or are refused") {
  ask_doors("run", described_run{}, 1, 1000, ask_about_run);
}

TEST_CASE("rows with any value in any field are read, or are refused") {
  ask_doors("row", described_row{}, 1, 1000, ask_about_rows);
}

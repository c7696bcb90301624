// Training on several ranks, run by mpirun. Every check is made on every rank.

#include <gpuplan/communication.hpp>
#include <gpuplan/measure/phase_recorder.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "sweep/counted_memory.hpp"
#include "sweep/data_set.hpp"
#include "sweep/loader.hpp"
#include "sweep/multilayer_perceptron.hpp"
#include "sweep/thread_team.hpp"
#include "sweep_mpi/all_reduce.hpp"
#include "sweep_mpi/ranks.hpp"
#include "sweep_mpi/sweep.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using measure::trial_outcome;

const sweep_mpi::ranks* started = nullptr;
const sweep_mpi::ranks& all() { return *started; }

const std::vector<std::int64_t> widths{sweep_examples::pixels, 16, sweep_examples::digits};

// Each rank has a file of its own, of the same samples.
class samples {
 public:
  samples() { sweep_examples::write_data_set(file_.name(), 512, 3); }
  [[nodiscard]] const std::string& name() const { return file_.name(); }
  [[nodiscard]] sweep_examples::data_set open() const {
    return sweep_examples::data_set(file_.name());
  }

 private:
  temporary_file file_{""};
};

measure::sweep_options few_steps(std::vector<std::int64_t> micro_batches) {
  measure::sweep_options asked;
  asked.micro_batches = std::move(micro_batches);
  asked.warm_up_steps = 1;
  asked.stop.least_samples = 5;
  asked.stop.most_samples = 5;
  asked.stop.least_s = 0;
  return asked;
}

std::vector<trial_outcome> outcomes(const measure::sweep_result& of) {
  std::vector<trial_outcome> found;
  for (const measure::trial& one : of.trials) found.push_back(one.outcome);
  return found;
}

sweep_mpi::training::options of_this_rank() {
  return {.widths = widths, .rank = all().rank(), .ranks = all().size()};
}

TEST_CASE("sums, and the largest are of all ranks") {
  const auto n = static_cast<float>(all().size());
  std::vector<float> values{1, static_cast<float>(all().rank())};
  all().sum(values);
  CHECK(values == std::vector<float>{n, n * (n - 1) / 2});
  CHECK(all().largest(all().rank()) == all().size() - 1);
  CHECK(all().on_this_machine() == all().size());
  CHECK(all().largest(0.5 * all().rank()) == 0.5 * (all().size() - 1));
  CHECK(all().of_first(std::string("rank ") + std::to_string(all().rank())) == "rank 0");
}

TEST_CASE("ranks together learn what one learns from all their samples") {
  const samples on_disk;
  const sweep_examples::data_set data = on_disk.open();
  sweep_examples::thread_team team(1);
  const std::int64_t together = 8 * all().size();
  sweep_examples::multilayer_perceptron alone(widths, together, team, 1);
  sweep_examples::loader loader(data, {.micro_batch = together});
  sweep_mpi::training of_rank(data, of_this_rank());
  sweep_mpi::training_on_ranks divided(all(), of_rank);
  divided.set_up({.micro_batch = 8, .workers = 1});
  measure::steady_clock clock;
  measure::phase_recorder<> recorder(clock);
  for (int step = 0; step < 10; ++step) {
    const sweep_examples::sample_batch batch = loader.next();
    alone.forward(batch.inputs, batch.labels);
    alone.backward();
    alone.update();
    recorder.begin_step();
    divided.step(recorder);
    const measure::step_times times = recorder.end_step();
    CHECK(times[phase::forward] > 0);
    CHECK(times[phase::communication] > 0);
  }
  const auto expected = alone.parameters();
  const auto found = of_rank.network().parameters();
  REQUIRE(found.size() == expected.size());
  float farthest = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    farthest = std::max(farthest, std::abs(found[i] - expected[i]));
  // Ten steps of AdamW move a parameter by up to 0.01.
  CHECK(farthest < 2e-4F);
  divided.tear_down({});
  CHECK(divided.exchanges().size() == (all().size() > 1 ? 1 : 0));
  REQUIRE(of_rank.learned().size() == 1);
  CHECK(of_rank.learned()[0].steps == 10);
}

TEST_CASE("where memory runs out on one rank, all say so and skip the rest") {
  const samples on_disk;
  const sweep_examples::data_set data = on_disk.open();
  const bool is_last = all().rank() == all().size() - 1;
  // The parameters and batches of 8 fit, the inputs of 1024 alone take 3.2 MB.
  sweep_mpi::training::options with = of_this_rank();
  if (is_last)
    with.memory_limit = static_cast<std::size_t>(sweep_examples::resident_memory() + 2e6);
  sweep_mpi::training of_rank(data, with);
  sweep_mpi::training_on_ranks divided(all(), of_rank);
  const measure::sweep_result found = divided.run(few_steps({4, 8, 1024, 2048}));
  CHECK(outcomes(found) == std::vector{trial_outcome::ran,
                                       trial_outcome::ran,
                                       trial_outcome::out_of_memory,
                                       trial_outcome::skipped});
  CHECK(found.trials[0].steps == 5);
  CHECK(found.trials[0].memory_bytes.has_value());
  CHECK(divided.gradient_bytes() == 4 * (785 * 16 + 17 * 10));
  if (all().size() > 1) {
    CHECK(found.trials[0].communication.median > 0);
    REQUIRE(divided.exchanges().size() == 2);
    CHECK(divided.exchanges()[1].setting.micro_batch == 8);
    CHECK(divided.exchanges()[1].median_s > 0);
  }
}

// Cuts a file off when a setting begins.
class file_cutter final : public measure::sweep_observer {
 public:
  file_cutter(std::string file, std::int64_t when) : file_(std::move(file)), when_(when) {}
  void begins(const sweep_setting& setting, const measure::sweep_progress&) override {
    if (setting.micro_batch == when_) std::filesystem::resize_file(file_, 100);
  }

 private:
  std::string file_;
  std::int64_t when_;
};

TEST_CASE("a step that throws on one rank fails on all, and none waits for another") {
  const samples on_disk;
  const sweep_examples::data_set data = on_disk.open();
  file_cutter cutter(on_disk.name(), 8);
  measure::sweep_options asked = few_steps({4, 8, 16});
  if (all().is_first()) asked.observers = {&cutter};
  sweep_mpi::training of_rank(data, of_this_rank());
  sweep_mpi::training_on_ranks divided(all(), of_rank);
  const measure::sweep_result found = divided.run(asked);
  CHECK(outcomes(found) ==
        std::vector{trial_outcome::ran, trial_outcome::failed, trial_outcome::failed});
  CHECK(found.trials[1].message == (all().is_first() ? "cannot read: the file became shorter"
                                                     : "another rank could not go on"));
}

TEST_CASE("an all-reduce is measured, and its line is the library's model") {
  const sweep_mpi::all_reduce_reading found =
      sweep_mpi::measure_all_reduce(all(), {.most_bytes = 1 << 18, .calls = 5});
  CHECK(found.ranks == all().size());
  CHECK(found.times.size() == 5);
  for (const measure::transfer_time& one : found.times) CHECK(one.time > duration{});

  for (const int ranks : {2, 3, 8}) {
    const measure::transfer_line line{.latency = 12_us, .rate = 3_GBps};
    const interconnect links = sweep_mpi::links_of(line, ranks);
    for (const bytes& size : {1_KiB, 1_MiB, 1_GiB})
      CHECK(collective_time(collective::all_reduce, size, {ranks, ranks}, links).value() ==
            doctest::Approx(line.time(size).value()).epsilon(1e-12));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const sweep_mpi::ranks ranks(argc, argv);
  started = &ranks;
  doctest::Context context(argc, argv);
  return context.run();
}

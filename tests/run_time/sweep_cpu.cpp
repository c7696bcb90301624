// Program sweep_cpu: a real training under the harness.

#include "sweep_cpu/command_line.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/trial.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "played_sweep.hpp"
#include "program_output.hpp"
#include "sweep/counted_memory.hpp"
#include "sweep/data_set.hpp"
#include "sweep/program.hpp"
#include "sweep_cpu/training.hpp"
#include "temporary_file.hpp"

namespace io = gpuplan::io;
namespace measure = gpuplan::measure;
using measure::trial_outcome;

namespace {

// Samples that all of these tests train on.
const std::string& samples_file() {
  static const temporary_file place("", "gpuplan-digits");
  static const bool is_written = [] {
    sweep_examples::write_data_set(place.name(), 256, 1);
    return true;
  }();
  static_cast<void>(is_written);
  return place.name();
}

// With arguments between spaces.
outcome ran(const std::string& arguments) {
  std::istringstream text(arguments + " --samples 256 --data " + samples_file());
  const std::vector<std::string> all{std::istream_iterator<std::string>(text), {}};
  return output_of(sweep_cpu_program::run, all, "sweep_cpu");
}

std::vector<measure::trial> trials_in(const temporary_file& file) {
  return io::read_trials(file.text(), io::sweep_format::json_lines)->trials;
}

}  // namespace

TEST_CASE("a training under a sweep learns with every setting") {
  const sweep_examples::data_set samples(samples_file());
  sweep_cpu_program::training trained(samples, {.widths = {784, 16, 10}, .threads = 2});
  measure::sweep_options options{.micro_batches = {8, 32}, .workers = {0, 2}};
  options.warm_up_steps = 40;
  options.stop = {.least_samples = 40, .most_samples = 40};
  const double before = sweep_examples::resident_memory();
  const measure::sweep_result sweep = trained.sweep(options);
  REQUIRE(sweep.trials.size() == 4);
  for (const measure::trial& t : sweep.trials) {
    CAPTURE(t.setting.micro_batch);
    CAPTURE(t.setting.workers);
    CHECK(t.outcome == trial_outcome::ran);
    CHECK(t.message.empty());
    CHECK(t.steps == 40);
    for (const measure::quartiles& phase : {t.data, t.forward, t.backward, t.optimizer}) {
      CHECK(phase.lower > 0);
      CHECK(phase.upper < t.step.upper);
    }
    CHECK(*t.memory_bytes >= before);
    CHECK(*t.utilisation > 0);
  }
  REQUIRE(trained.learned().size() == 4);
  for (const sweep_cpu_program::learning& one : trained.learned()) {
    CHECK(one.steps == 80);
    CHECK(one.first_loss > 1.8);
    CHECK(one.last_loss < one.first_loss - 0.3);
  }
  // The same samples from the same start, whoever loads them.
  CHECK(trained.learned()[0].last_loss == doctest::Approx(trained.learned()[2].last_loss));
  CHECK(trained.learned()[1].last_loss == doctest::Approx(trained.learned()[3].last_loss));
}

TEST_CASE("a step that hangs ends the program, which says where") {
  const temporary_file said("");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // a step of this takes seconds, and cannot be stopped between its phases
    if (dup2(open(said.name().c_str(), O_WRONLY), STDERR_FILENO) < 0) _exit(1);
    std::vector<std::string> all{"sweep_cpu", "--micro-batch", "4096", "--workers", "0"};
    all.insert(all.end(), {"--hidden", "2048,2048", "--threads", "1", "--hangs-after", "0.01"});
    std::vector<char*> argv;
    for (std::string& one : all) argv.push_back(one.data());
    _exit(sweep_cpu_program::run(static_cast<int>(argv.size()), argv.data()));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 4);
  CHECK(has(said.text(), "batch 4096, 0 workers, full precision: a step, set-up or tear-down"));
  CHECK(has(said.text(), "0.01 s; --hangs-after states this limit"));
}

TEST_CASE("sweep_cpu prints its report and writes results, picture and header") {
  const temporary_file results("", "gpuplan-trials");
  const temporary_file picture("", "gpuplan-picture");
  const temporary_file header("", "gpuplan-header");
  const outcome o =
      ran("--micro-batch 4,32,256 --workers 0 --hidden 16 --seconds 2 --output " + results.name() +
          " --svg " + picture.name() + " --header " + header.name() + " --name fastest");
  CHECK(o.status == 0);
  CHECK(has(o.out, "What was measured"));
  CHECK(has(o.out, "The setting to take"));
  CHECK(has(o.out, "Memory is the peak of the resident set"));
  CHECK(has(o.out, "The loss fell in "));
  CHECK(has(o.err, "3 of 3: batch 256, 0 workers"));
  const std::vector<measure::trial> trials = trials_in(results);
  REQUIRE(trials.size() == 3);
  for (const measure::trial& t : trials) CHECK(t.outcome == trial_outcome::ran);
  CHECK(picture.text().starts_with("<svg"));
  CHECK(has(picture.text(), "Multilayer perceptron 784-16-10"));
  CHECK(has(header.text(), "inline constexpr gpuplan::measured_sweep fastest{"));

  const outcome quiet =
      ran("--micro-batch 4 --workers 0 --hidden 16 --seconds 100ms --quiet --format markdown");
  CHECK(quiet.status == 0);
  CHECK(quiet.err.empty());
  CHECK(has(quiet.out, "| Batch |"));
}

TEST_CASE("a limit of memory ends in std::bad_alloc, and the sweep goes on") {
  const temporary_file results("", "gpuplan-trials");
  const double limit_MB = sweep_examples::peak_resident_memory() / 1e6 + 24;
  const outcome o =
      ran("--micro-batch 8,16384,32768 --workers 0,1 --hidden 16 --seconds 0.5 --memory-limit " +
          std::to_string(limit_MB) + " --output " + results.name());
  CHECK(o.status == 0);
  const std::vector<measure::trial> trials = trials_in(results);
  REQUIRE(trials.size() == 6);
  for (std::size_t i = 0; i < 6; i += 3) {
    CHECK(trials[i].outcome == trial_outcome::ran);
    CHECK(trials[i + 1].outcome == trial_outcome::out_of_memory);
    CHECK(trials[i + 1].message == std::bad_alloc().what());
    CHECK(trials[i + 1].steps == 0);
    CHECK(trials[i + 2].outcome == trial_outcome::skipped);
  }
  CHECK(has(o.out, "OOM"));

  const outcome none = ran("--memory-limit 1");
  CHECK(none.status == 1);
  CHECK(has(none.err, "the limit of memory is 1.0 MB, and the program takes "));
}

TEST_CASE("the largest batch that fits is next to one that does not") {
  const sweep_examples::data_set samples(samples_file());
  const auto taken = static_cast<std::size_t>(sweep_examples::peak_resident_memory());
  sweep_cpu_program::training trained(samples,
                                      {.widths = {784, 8, 10}, .memory_limit = taken + 8'000'000});
  measure::sweep_options options = options_of(
      sweep_examples::sweep_request{.micro_batches = {16}, .workers = {0}, .order = "largest"});
  options.warm_up_steps = 0;
  options.stop = {.least_samples = 1, .most_samples = 1};
  const measure::sweep_result sweep = trained.sweep(options);
  std::int64_t fits = 0;
  std::int64_t fails = 1 << 20;
  for (const measure::trial& t : sweep.trials) {
    if (t.outcome == trial_outcome::ran) {
      fits = std::max(fits, t.setting.micro_batch);
    } else {
      CHECK(t.outcome == trial_outcome::out_of_memory);
      fails = std::min(fails, t.setting.micro_batch);
    }
  }
  // A sample takes its pixels, its label, and two numbers for each of the network's 18 outputs;
  // each parameter four numbers; and each of eight buffers less than a page more.
  const auto left = static_cast<std::int64_t>(trained.memory_left());
  constexpr std::int64_t each = 4 * (784 + 2 * 18) + 1;
  constexpr std::int64_t parameters = 785 * 8 + 9 * 10;
  CHECK(left > 1'000'000);
  CHECK(fits * each + 16 * parameters <= left);
  CHECK(fails * each + 16 * parameters > left - 8 * 65'536);
  CHECK(fails == fits + 1);
  REQUIRE(sweep.largest_that_fits.size() == 1);
  CHECK(sweep.largest_that_fits[0].micro_batch == fits);
}

TEST_CASE("a median of quick steps is of a tenth of a second of them at least") {
  played::machine m;
  measure::sweep_options options =
      options_of(sweep_examples::sweep_request{.micro_batches = {1}, .workers = {0}});
  options.now_s = [&] { return m.time.now_s; };
  const measure::sweep_result sweep = run_sweep(m.step(), options, m.time);
  REQUIRE(sweep.trials.size() == 1);
  const measure::trial& t = sweep.trials[0];
  CHECK(t.why_ended == measure::stop_reason::median_known);
  CHECK(static_cast<double>(t.steps) * t.step.median >= 0.1);
  CHECK(static_cast<double>(t.steps - 1) * t.step.median < 0.1 * (1 + 1e-9));
}

TEST_CASE("a sweep goes on where its file ends") {
  const temporary_file results("", "gpuplan-trials");
  const auto status_of = [&](const std::string& more) {
    return ran("--workers 0 --hidden 16 --seconds 0.2 --output " + results.name() + " " + more)
        .status;
  };
  CHECK(status_of("--micro-batch 4") == 0);
  const std::string first = results.text();
  CHECK(trials_in(results).size() == 1);
  for (const char* other : {"--hidden 32", "--threads 3", "--memory-limit 90000"}) {
    CAPTURE(other);
    const outcome o =
        ran("--workers 0 --micro-batch 4,8 --seconds 0.2 --resume --output " + results.name() +
            ' ' + other + (std::string(other) == "--hidden 32" ? "" : " --hidden 16"));
    CHECK(o.status == 1);
    CHECK(has(o.err, "its results are of Multilayer perceptron 784-16-10"));
    CHECK(results.text() == first);
  }
  const outcome more =
      ran("--workers 0 --hidden 16 --seconds 0.2 --micro-batch 4,8 --resume "
          "--output " +
          results.name());
  CHECK(more.status == 0);
  CHECK(has(more.out, "1 setting is from " + results.name()));
  CHECK(results.text().starts_with(first));
  CHECK(trials_in(results).size() == 2);
  CHECK(status_of("--micro-batch 8") == 0);  // without --resume, anew
  REQUIRE(trials_in(results).size() == 1);
  CHECK(trials_in(results)[0].setting.micro_batch == 8);
  const std::string whole = results.text();
  std::ofstream(results.name(), std::ios::binary) << "{\"micro_batch\":7}\n" << whole;
  const outcome mended =
      ran("--workers 0 --hidden 16 --seconds 0.2 --micro-batch 7,8 --quiet --resume --output " +
          results.name());
  CHECK(mended.status == 0);
  CHECK(mended.err.empty());
  CHECK(has(mended.out, results.name() + ":1: "));
  CHECK(has(mended.out, "; measured again."));
  CHECK(has(mended.out, "1 setting is from "));
}

TEST_CASE("Ctrl-C ends a sweep, and what was measured is printed") {
  const temporary_file results("", "gpuplan-trials");
  const temporary_file header("", "gpuplan-header");
  std::string batches = "1";
  for (int batch = 2; batch <= 500; ++batch) batches += "," + std::to_string(batch);
  // Once the first line is in the file, the sweep runs and minds the signal.
  std::atomic<bool> is_over{false};
  std::thread person([&] {
    while (results.text().empty() && !is_over)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!is_over) kill(getpid(), SIGINT);
  });
  const outcome o = ran("--workers 0 --hidden 16 --seconds 0.2 --micro-batch " + batches +
                        " --output " + results.name() + " --header " + header.name());
  is_over = true;
  person.join();
  CHECK(o.status == 130);
  CHECK(has(o.out, "The sweep was interrupted"));
  const std::size_t measured = trials_in(results).size();
  CHECK(measured >= 1);
  CHECK(measured < 500);
  if (measured < 3) {  // too few for a model
    CHECK(header.text().empty());
    CHECK(has(o.err, "sweep_cpu: --header: too few rows"));
  }
}

TEST_CASE("sweep_cpu says what is wrong with what it is asked") {
  for (const char* wrong : {"--resume",
                            "--order downwards",
                            "--micro-batch 0",
                            "--threads 0",
                            "--header x.hpp --name 9"}) {
    CAPTURE(wrong);
    const outcome o = ran(wrong);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
  }
  CHECK(has(ran("--seconds 2x").err,
            "--seconds: 2x is no duration, such as 3d12h, 90m, or seconds alone"));
  CHECK(has(ran("--hangs-after 0").err, "--hangs-after: 0 is no duration from 0.001 to "));
  const outcome twice = ran("--micro-batch 16,4,16 --workers 0");
  CHECK(twice.status == 1);
  CHECK(has(twice.err, "micro_batches"));
  CHECK(twice.out.empty());
  const outcome help = ran("--help");
  CHECK(help.status == 0);
  CHECK(has(help.out, "--memory-limit"));
  CHECK(has(help.out, "For warm-up and measured steps"));
  const temporary_file other("no samples, but long enough to have a header of sixty-four bytes..");
  const outcome o = output_of(sweep_cpu_program::run, {"--data", other.name()}, "sweep_cpu");
  CHECK(o.status == 1);
  CHECK(has(o.err, other.name() + ": not a file of samples"));
  CHECK(o.out.empty());
}

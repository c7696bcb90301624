// Program sweep_cuda from its command line to its report, on a stand-in for CUDA: no number here is
// of a device.

#include <doctest/doctest.h>
#include <gpuplan/io/sweep/trials.hpp>
#include <stand_in/cublaslt.hpp>
#include <stand_in/stand_in.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "program_output.hpp"
#include "sweep_cuda/command_line.hpp"
#include "temporary_file.hpp"

namespace {

int run(int argc, char** argv) { return sweep_cuda::run(argc, argv, stand_in::now_s); }

// Products take 1 ms, so that 0.05 s are some steps.
outcome ran(std::vector<std::string> arguments, const char* seconds = "0.05") {
  for (const char* more : {"--samples", "64", "--seconds", seconds, "--hidden", "16", "--quiet"})
    arguments.emplace_back(more);
  const outcome o = output_of(run, arguments, "sweep_cuda");
  CHECK(stand_in::live().empty());
  return o;
}

// A name for a file that is not there yet.
std::string no_file() { return temporary_file("", "gpuplan-samples").name(); }

TEST_CASE("settings are measured and reported") {
  stand_in::reset();
  const temporary_file results("");
  const std::string samples = no_file();
  const outcome o = ran({"--micro-batch",
                         "4,8",
                         "--workers",
                         "0",
                         "--precision",
                         "both",
                         "--pinned",
                         "both",
                         "--data",
                         samples,
                         "--output",
                         results.name()});
  std::remove(samples.c_str());
  CHECK(o.err == "");
  CHECK(o.status == 0);
  CHECK(has(o.out, "The setting to take"));
  CHECK(has(o.out, "(Stand-in GPU)"));
  CHECK(has(o.out, "Times are of the device"));
  // A line of JSON for each of the eight settings.
  const std::string lines = results.text();
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 8);
}

TEST_CASE("a setting lasts as long as the device looks back") {
  stand_in::reset();
  const temporary_file results("");
  const std::string samples = no_file();
  const outcome o = ran(
      {"--micro-batch", "4", "--workers", "0", "--data", samples, "--output", results.name()}, "3");
  std::remove(samples.c_str());
  CHECK(o.status == 0);
  const auto read = gpuplan::io::read_trials(results.text(), gpuplan::io::sweep_format::json_lines);
  REQUIRE(read->trials.size() == 1);
  const gpuplan::measure::trial& t = read->trials[0];
  CHECK(t.why_ended == gpuplan::measure::stop_reason::median_known);
  CHECK(static_cast<double>(t.steps) * t.step.median >= 0.99);
}

TEST_CASE("memory above the limit runs out") {
  stand_in::reset();
  const std::string samples = no_file();
  const outcome o =
      ran({"--micro-batch", "4,4096", "--workers", "0", "--data", samples, "--memory-limit", "36"});
  std::remove(samples.c_str());
  CHECK(o.status == 0);
  CHECK(has(o.out, "out of memory"));
  CHECK(has(o.out, "cudaErrorMemoryAllocation"));
}

TEST_CASE("without a device the program says so and exits with 3") {
  stand_in::reset();
  stand_in::current().devices.clear();
  const outcome o = ran({});
  CHECK(o.status == 3);
  CHECK(o.out.empty());
  CHECK(o.err ==
        "sweep_cuda: there is no device to measure: CUDA finds no GPU, or no driver for one\n");
  CHECK(ran({"--help"}).status == 0);
}

TEST_CASE("errors of the command line exit with 2") {
  stand_in::reset();
  const outcome far = ran({"--device", "3"});
  CHECK(far.status == 2);
  CHECK(far.err == "sweep_cuda: --device 3: there is 1 device, counted from 0\n");
  CHECK(ran({"--precision", "half"}).status == 2);
  CHECK(ran({"--pinned", "perhaps"}).status == 2);
}

}  // namespace

#pragma once

// The command line that the programs share which sweep a training of their own.

#include <gpuplan/io/sweep/advice.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sweep/data_set.hpp"

namespace CLI {
class App;
}

namespace sweep_examples {

/// What a person asks of a sweep.
struct sweep_request {
  std::vector<std::int64_t> micro_batches{1, 4, 16, 64, 256, 1024};
  std::vector<std::int64_t> workers{0, 1, 2};
  std::string order = "grid";  // or "doubling", "largest"
  std::int64_t largest_micro_batch = 65'536;
  double seconds = 2;  // for warm-up and measured steps of one setting, at most
  std::vector<std::int64_t> hidden{256, 256};
  std::string data{};  // a file; empty: one in the folder for temporary files
  std::int64_t samples = 12'288;
  double hangs_after_s = 600;  // what lasts longer, a step or a set-up, ends the program
  double memory_limit_MB = 0;  // 0: none
  std::string output{};        // files, where they have names
  bool resumes = false;
  std::string svg{};
  std::string header{};
  std::string name = "measured";  // of the constant in the header
  bool is_quiet = false;
};

/// The settings, their order and when to stop; all else as a sweep has it.
[[nodiscard]] gpuplan::measure::sweep_options options_of(const sweep_request& asked);

/// The layers' widths, from the pixels to the digits.
[[nodiscard]] std::vector<std::int64_t> widths_of(const sweep_request& asked);

/// What a sweep's results depend on beside model, device and settings: the threads that compute,
/// where there are any, the samples, the limit of memory, and the seconds of a setting.
[[nodiscard]] std::string conditions_of(const sweep_request& asked, int threads);

/// "Multilayer perceptron 784-256-10" for these widths.
[[nodiscard]] std::string name_of_network(const std::vector<std::int64_t>& widths);

/// The samples asked for, written now where they are not there yet. Throws as
/// `open_or_write_data_set`.
[[nodiscard]] data_set samples_of(const sweep_request& asked);

/// What is swept.
struct sweep_subject {
  std::string device{};     // its name
  double memory_bytes = 0;  // that training may take of it
  std::string model{};      // what is trained
  /// All else that its results depend on beside their settings, in words: results of a file that
  /// differ in it are of another sweep.
  std::string conditions{};
  bool is_reported = true;  // else nothing is shown, printed or written: another process does that
  /// What its rows are judged by: waiting for data is slow above a tenth of the step, a device
  /// idles below 70 % (as guide 004 has it, examples/guides/batch_sweep.hpp), and a fifth of its
  /// memory stays free.
  gpuplan::sweep_thresholds thresholds{
      .data_share = 0.1, .utilisation = {0.7, 1}, .memory_share = {0, 0.8}};
  gpuplan::io::sweep_offers offers{};  // which of these settings it has at all
  /// Runs the sweep, with the callbacks of its training set.
  std::function<gpuplan::measure::sweep_result(gpuplan::measure::sweep_options)> run{};
  /// Sentences about what was run, for the end of the report; may be empty.
  std::function<std::vector<std::string>()> remarks{};
};

/// Adds what `sweep_request` holds to a command line.
void add_options(CLI::App& app, sweep_request& asked);

/// A program from its command line to its exit status: makes the subject, runs its sweep with a
/// progress display, a file of results as they come and Ctrl-C, prints the report, and writes the
/// picture and the header. A step that lasts half of `hangs_after_s` is asked to stop; what lasts
/// all of it hangs: the program ends at once, with what is in the file of results. The exit status:
/// 0; 1 with a message where not all could be written or `make` throws; 2 where the command line is
/// wrong; 4 where it hung; 130 where it was interrupted, once what was measured is printed, also
/// where that is too little for a header. `add` adds options of the program's own.
int run_sweep_program(int argc,
                      char** argv,
                      const std::string& program,
                      const std::string& about,
                      const std::function<void(CLI::App&)>& add,
                      const std::function<sweep_subject(const sweep_request&)>& make);

}  // namespace sweep_examples

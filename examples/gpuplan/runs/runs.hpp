#pragma once

// How long a run is, and what it takes: hours, GPU-hours, money, energy and CO2.

#include <gpuplan/cluster.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <string>

#include "runs/clusters.hpp"
#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace runs {

/// What the command line gives of the length of a run.
struct run_words {
  double tokens = 0;
  std::int64_t samples = 0;   // of the run, or of the data set where there are epochs
  std::int64_t epochs = 0;    // 0: not said, and 1
  bool packing = false;       // sequences are filled with several samples
  double average_tokens = 0;  // of a sample; 0: not said

  [[nodiscard]] bool is_given() const { return tokens > 0 || samples > 0; }
};

/// `--tokens`, `--samples` and `--epochs`, `--packing` and `--average-tokens`.
void add_run_options(CLI::App& app, run_words& to);

/// The run as it is given; what is not, as the files of `--from` have it, whose steps have so many
/// samples. Throws `guides::bad_request` where packing would change nothing, or nobody says how
/// full a sample is.
[[nodiscard]] run_words run_of(run_words given,
                               const setups::arguments& stated,
                               std::int64_t samples_of_step);
/// The tokens of a sample as layers see them: of a text `--sequence-length`, padding and packed
/// texts included, of an image its patches and what is beside them.
[[nodiscard]] std::int64_t tokens_of_sample(const gpuplan::training_setup& setup);
/// All samples that steps go through, repeats counted: of a packed run the sequences that its
/// samples fill; 0 where none is given. Throws `guides::bad_request` where they are too many.
[[nodiscard]] std::int64_t samples_of(const run_words& given, std::int64_t tokens_of_sample);
/// The same of a setup, whose images are not packed.
[[nodiscard]] std::int64_t samples_of(const run_words& given, const gpuplan::training_setup& setup);
/// "15 trillion tokens", "1 sample", "3 epochs of 50,000 samples", "50,000 samples of 400 tokens on
/// average, packed".
[[nodiscard]] std::string in_words(const run_words& given);

/// What a run takes.
struct run_costs {
  std::int64_t steps = 0;
  gpuplan::range<gpuplan::duration> time = gpuplan::duration{};
  gpuplan::range<gpuplan::duration> gpu_time = gpuplan::duration{};
  gpuplan::known<gpuplan::range<gpuplan::money>> cost{};     // at a known price
  gpuplan::known<gpuplan::range<gpuplan::energy>> energy{};  // where a GPU's draw is known
  gpuplan::known<gpuplan::range<double>> carbon_kg{};        // at a known carbon and energy
};

/// Of so many steps on `gpus` GPUs of the cluster, each of which draws its stated power, else
/// `share` of its TDP. Throws `guides::bad_request` where a number is not finite.
[[nodiscard]] run_costs costs_of(const named_cluster& on,
                                 std::int64_t gpus,
                                 std::int64_t steps,
                                 gpuplan::range<gpuplan::duration> step,
                                 double share = 1);

}  // namespace runs

#pragma once

// What is trained, as trainers' own files say it.

#include <gpuplan/io/trainer/training_config.hpp>

#include <string>
#include <vector>

#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace setups {

/// What files say, and whether the name of the model is their own word: no file of that name is
/// opened.
struct trainer_files {
  gpuplan::io::read_config read{};
  bool names_model = false;
};

/// What files of one training say together, an earlier one before a later one; the model is that of
/// a `config.json` among them, if there is one, and a placeholder is none. Throws
/// `guides::bad_request`, after the option that named them, where one cannot be read.
[[nodiscard]] trainer_files read_trainer_files(const std::string& option,
                                               const std::vector<std::string>& names);

/// Sets what the files say.
void take_files(const gpuplan::io::read_config& files, arguments& to);

/// `--from FILE...`: sets what the files say. It comes before the options of what they say, since
/// values are taken in the order in which options were added: so those of the command line count.
/// Once all is parsed, standard error is told what in the files contradicts itself, was not
/// understood, or is missing.
void add_from_option(CLI::App& app, arguments& to);

}  // namespace setups

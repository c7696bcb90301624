#include "setups/trainer_files.hpp"

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "guides/front_end.hpp"
#include "setups/model_words.hpp"

namespace setups {
namespace {

using namespace gpuplan;
using guides::bad_request;

// The keys that a model's config.json has in all of transformers' versions, and no trainer's file.
bool is_config_of_model(std::string_view text) {
  const io::parsed_value parsed = io::parse_json(text);
  return parsed && parsed.is.find("model_type") != nullptr &&
         parsed.is.find("architectures") != nullptr;
}

void tell(const std::string& text) { guides::remark("--from: " + text); }

// The options that say instead of files what these may not.
struct said_by {
  std::string_view member;
  const char* option;
};
constexpr said_by options_of_members[] = {
    {"sequence_length", "--sequence-length"},
    {"target_length", "--target-length"},
    {"gpus", "--gpus"},
    {"gpus", "--nodes"},
    {"gpus", "--data-parallel"},
    {"micro_batch", "--micro-batch"},
    {"zero_stage", "--zero"},
    {"precision", "--precision"},
    {"weights", "--precision"},
};

// Says what was assumed, and takes back what the estimate has not beside the files' layout.
void tell_all(const CLI::App& app, arguments& given) {
  const auto is_given = [&](const char* option) {
    const CLI::Option* const is = app.get_option_no_throw(option);
    return is != nullptr && is->count() > 0;
  };
  // Where layouts are searched for or compared, no layout is assumed.
  const bool states_layout = app.get_option_no_throw("--accumulation") != nullptr;
  const auto counts = [&](const io::assumption& one) {
    return (states_layout || one.member == "sequence_length") &&
           std::none_of(
               std::begin(options_of_members),
               std::end(options_of_members),
               [&](const said_by& by) { return one.member == by.member && is_given(by.option); });
  };
  const io::training_config& said = given.files.config;
  const std::string of_files = said.model.empty() ? "the files' own shape" : said.model;
  if (is_given("MODEL") && (said.shape || !said.model.empty()) && given.model.text != of_files)
    tell("MODEL " + given.model.text + " is taken, not " + of_files);
  io::training_context context;
  if (given.model.is_given()) {
    const named_model named = configured_model_named(given.model);
    context = {.shape = named.shape, .called = named.known_as, .dropouts = named.dropouts};
  }
  const io::configured_training made = io::configured(given.files, context);
  for (const io::remark& one : made.remarks) tell(one.key + ": " + one.text);
  const bool searches_plans = app.get_option_no_throw("--plans") != nullptr;
  if (made.setup.objective == training_objective::preference &&
      given.setup.objective == training_objective::next_token) {
    // A plan that fits one model need not fit a reference beside it.
    if (searches_plans)
      throw bad_request(
          "--from: the files are of DPOTrainer, for whose pairs of answers no plan is searched, "
          "since "
          "no time of their steps is known; gpuplan check, and gpuplan memory and fits with "
          "--objective dpo, say what they take");
    tell(
        "taken as of one model and one answer; gpuplan check, and gpuplan memory with --objective "
        "dpo, have pairs of answers with their reference");
  }
  for (const io::assumption& one : made.assumed) {
    if (counts(one))
      tell(searches_plans && one.member == "gpus" && !is_given("--slurm-nodes")
               ? "taken as a node: no file says how many GPUs"
               : "taken as " + one.text);
    if (one.member == "liger_kernels" && !is_given("--liger")) given.liger = false;
    if (one.member == "cut_cross_entropy" && !is_given("--cut-cross-entropy"))
      given.cut_cross_entropy = false;
    if (one.member == "checkpoints_reenter") given.checkpoints_reenter = false;
    if (one.member == "compiles_layers" && !is_given("--compile")) given.compiles_layers = false;
    if (one.member == "compiles_loss" && !is_given("--compile")) given.compiles_loss = false;
  }
  const bool counts_samples = app.get_option_no_throw("--average-tokens") != nullptr &&
                              (is_given("--samples") || (said.samples && !is_given("--tokens")));
  if (said.packing && *said.packing && counts_samples && !is_given("--average-tokens"))
    tell(
        "packing: each sample is taken to fill a sequence; --average-tokens says how many tokens "
        "it has");
  for (const std::string& key : given.files.not_understood)
    tell(key + " is not understood, and left out");
  io::take_usual_recipe(given.files);
}

}  // namespace

trainer_files read_trainer_files(const std::string& option, const std::vector<std::string>& names) {
  std::vector<io::read_config> files;
  std::string model;
  for (const std::string& name : names) {
    const std::string text = guides::read_file(option, name);
    if (is_config_of_model(text)) {
      model = name;
      files.push_back({.tool = "transformers"});
      files.back().not_understood = io::read_hugging_face_config(text).unknown_keys;
      continue;
    }
    files.push_back(io::read_training_file(name, text));
    if (!files.back())
      throw bad_request(option + " " + io::printable(name) + ": " + files.back().why);
  }
  // Files that were asked for, and are there.
  const auto last_of = [](std::string_view path) {
    return path.substr(path.find_last_of('/') + 1);
  };
  for (io::read_config& file : files)
    std::erase_if(file.remarks, [&](const io::remark& one) {
      return !one.file.empty() &&
             std::any_of(names.begin(), names.end(), [&](const std::string& name) {
               return last_of(name) == last_of(one.file);
             });
    });
  trainer_files all{.read = io::merged(files)};
  std::string& named = all.read.config.model;
  if (!model.empty() || named == io::model_placeholder) named = model;
  all.names_model = model.empty() && !named.empty();
  return all;
}

void take_files(const io::read_config& files, arguments& to) {
  io::read_config whole = files;
  io::take_usual_recipe(whole);  // which is told when all options are read
  const io::training_config& said = whole.config;
  to.files = files;
  to.model.text = said.model;
  to.model.shape = said.shape;
  if (const char* own = io::framework_of_tool(files.tool)) to.framework = own;
  if (said.liger_kernels) to.liger = *said.liger_kernels;
  if (said.cut_cross_entropy) to.cut_cross_entropy = *said.cut_cross_entropy;
  if (said.checkpoints_reenter) to.checkpoints_reenter = *said.checkpoints_reenter;
  if (said.compiles_layers) to.compiles_layers = *said.compiles_layers;
  if (said.compiles_loss) to.compiles_loss = *said.compiles_loss;
  if (said.sequence_length) to.setup.sequence_length = *said.sequence_length;
  to.setup.parallelism = io::layout_of(said);
  io::set_step(said, to.setup);
  if (said.dispatcher) to.setup.dispatcher = *said.dispatcher;
  to.dropout = said.dropout;
  to.never_clips = said.clip_norm && *said.clip_norm <= 0;
  if (said.micro_batch) to.plan.micro_batch = *said.micro_batch;
  if (said.accumulation) to.plan.accumulation = *said.accumulation;
}

void add_from_option(CLI::App& app, arguments& to) {
  app.add_option_function<std::vector<std::string>>(
         "--from",
         [&to](const std::vector<std::string>& names) {
           to.from = names;
           const trainer_files files = read_trainer_files("--from", names);
           take_files(files.read, to);
           to.model.is_of_file = files.names_model;
         },
         "Files that set a training for trainers and launchers, and a model's config.json; options "
         "count before them, and a MODEL stands before --from")
      ->type_name("FILE...")
      ->group("Model");
  app.final_callback([&app, &to] {
    const CLI::Option* const model = app.get_option_no_throw("MODEL");
    if (model != nullptr && model->count() > 0) to.model.is_of_file = false;
    if (!to.from.empty()) tell_all(app, to);
  });
}

}  // namespace setups

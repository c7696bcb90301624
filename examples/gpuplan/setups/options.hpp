#pragma once

// What is trained, and how, as command lines say it.

#include <gpuplan/batch.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "setups/gpus.hpp"
#include "setups/model_words.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace setups {

/// What `--recompute` says.
struct recomputation {
  gpuplan::recompute_mode mode = gpuplan::recompute_mode::none;
  bool saves_costly_results = false;  // of full

  [[nodiscard]] static constexpr recomputation of(const gpuplan::training_setup& setup) {
    const bool is_full = setup.recompute == gpuplan::recompute_mode::full;
    return {setup.recompute, is_full && setup.saves_costly_results};
  }
  constexpr void set(gpuplan::training_setup& to) const {
    to.recompute = mode;
    to.saves_costly_results = saves_costly_results;
  }
  friend constexpr bool operator==(const recomputation&, const recomputation&) = default;
};

/// What the command line gives, before it is checked.
struct arguments {
  model_words model{};
  std::string framework{};  // empty: transformers' code for the model, else the first that runs it
  std::string sharding{};   // an engine; empty: as the ZeRO stage has it
  std::string precision{};  // empty: as `files` have it, else bf16, of adapters bf16-autocast
  gpuplan::training_setup setup{};  // but for the model, the framework and the precision
  gpuplan::batch_plan plan{};
  gpuplan::known<double> dropout{};  // as the model's config.json has it where nothing says
  bool quantised_weights = false;
  bool liger = false;
  bool cut_cross_entropy = false;
  bool checkpoints_reenter = false;  // files say so
  bool compiles_layers = false;
  bool compiles_loss = false;
  bool cuda_graphs = false;  // of a step's passes, whatever files say
  gpuplan::known<gpuplan::reference_model>
      reference{};               // as what trains has it where no option says it
  bool never_clips = false;      // gradients: options or files say so
  bool has_micro_batch = false;  // whether `plan.micro_batch` is said, by an option
  bool has_replicas = false;     // whether `plan.data_parallel` is said
  bool has_zero_stage = false;   // likewise `setup.parallelism.zero_stage`, by an option
  std::vector<std::string> lora_targets{};
  std::optional<double> lora_dropout{};   // none: as `files` have it, else 0
  std::vector<std::string> trained_by{};  // the options that say what trains: one at most
  // What --from read, of which the members above hold what no option says otherwise.
  std::vector<std::string> from{};
  gpuplan::io::read_config files{};
};

/// A model with its code, length and attention: what any way to train it shares.
struct named_setup {
  std::string name;
  gpuplan::training_setup setup{};
  std::shared_ptr<const gpuplan::composite_model> parts{};  // which keeps those of the setup
};

/// Trainers' files, the model, its code, the length of its sequences, and what its layers drop.
void add_model_options(CLI::App& app, arguments& to);
/// Low-rank adapters: their rank, their base, and which layers have them.
void add_adapter_options(CLI::App& app, arguments& to, const char* group);
/// What trains: all, a part, or adapters.
void add_trained_options(CLI::App& app, arguments& to);
/// The optimizer, and whether gradients are clipped.
void add_optimizer_options(CLI::App& app, arguments& to);
/// What trains, the optimizer, the batch, number formats, recomputation and parallelism.
void add_setup_options(CLI::App& app, arguments& to);

/// The words of `--precision`, `--recompute`, `--sharding` and `--framework`.
[[nodiscard]] std::vector<std::string> precision_names();
[[nodiscard]] std::vector<std::string> recompute_names();
/// A word of `--pipeline-split`, as plans say it; absent of none.
[[nodiscard]] gpuplan::known<gpuplan::pipeline_split> split_named(const std::string& words);
/// The word of a split: empty where stages are alike, "[listed]" where each is listed.
[[nodiscard]] std::string split_in_letters(const gpuplan::pipeline_split& split);
/// `--recompute-layers`, which stands in place of `--recompute`.
CLI::Option* add_recompute_layers_option(CLI::App& app, std::function<void(std::int64_t)> set);
/// "3 of 8 layers", of a stage or of each of its chunks, or "one in 2 layers", where some are
/// recomputed; else empty.
[[nodiscard]] std::string recomputed_layers_in_words(const gpuplan::training_setup& setup);
/// `--pipeline-schedule`.
CLI::Option* add_schedule_option(CLI::App& app,
                                 const char* what,
                                 std::function<void(gpuplan::pipeline_schedule)> set);
/// The one asked for, else all that the code offers.
[[nodiscard]] std::vector<gpuplan::pipeline_schedule> schedules_of(
    const gpuplan::training_setup& setup, const gpuplan::known<gpuplan::pipeline_schedule>& asked);
/// Empty of 1F1B.
[[nodiscard]] std::string in_words(gpuplan::pipeline_schedule schedule);
/// The word of `--pipeline-schedule`.
[[nodiscard]] const char* word_of(gpuplan::pipeline_schedule schedule);
[[nodiscard]] std::vector<std::string> sharding_names();
/// The optimizer of a word of `--optimizer`; null where it is none.
[[nodiscard]] const gpuplan::optimizer* optimizer_named(const std::string& name);
/// The engine of a word of `--sharding`; null where it is none.
[[nodiscard]] const gpuplan::engine_class* sharding_named(const std::string& name);
[[nodiscard]] std::vector<std::string> framework_names();

/// What a word of `--precision` means to an engine, which has its own mixed formats; nothing where
/// it has no such.
[[nodiscard]] gpuplan::known<gpuplan::precision_recipe> recipe_named(
    const std::string& name, const gpuplan::engine_class* engine);
/// The word of `--precision` that is asked for, or is usual for what the setup trains on its
/// engine; empty where it has none for what files say.
[[nodiscard]] std::string precision_of(const arguments& given,
                                       const gpuplan::training_setup& setup);
/// A word of `--recompute`.
[[nodiscard]] recomputation recompute_named(const std::string& name);
/// The word of it.
[[nodiscard]] const char* word_of(const recomputation& is);

/// The model with its code, as the code's engine trains it in bf16; how else is not looked at.
/// Throws `guides::bad_request` where it is none that can be trained.
[[nodiscard]] named_setup model_of(const arguments& given);
/// What the options say, checked. Throws `guides::bad_request`.
[[nodiscard]] named_setup setup_of(const arguments& given);

/// Without layout, recomputation and batch: what is searched for, or compared, beside the rest.
[[nodiscard]] arguments without_layout(arguments given);

/// 3 of an engine that shares weights whatever is asked, else 0.
[[nodiscard]] int usual_zero_stage(const gpuplan::engine_class& engine);
/// All of it on one GPU, by the engine that alone runs its code, else by none that shares.
void put_on_one_gpu(gpuplan::training_setup& to);
/// Sets the engine of `--sharding`, or, where it is not given, that of files or else the one that
/// the ZeRO stage needs.
void choose_sharding(const arguments& given, gpuplan::training_setup& to);
/// Sets what trains, with the layers that have adapters.
void choose_trained(const arguments& given, gpuplan::training_setup& to);

/// The parts of a setup's composite model, with the adapters that it says.
[[nodiscard]] std::shared_ptr<const gpuplan::composite_model> adapted_parts(
    const gpuplan::training_setup& of);
/// Adapters of a model of several parts are its parts' from here on.
void adapt_parts(named_setup& to);

/// Low-rank adapters of the rank; of QLoRA on a base in four bits.
void train_adapters(gpuplan::training_setup& setup, std::int64_t rank, bool four_bits);

/// "LoRA", "QLoRA", "DoRA", "QDoRA".
[[nodiscard]] std::string in_words(const gpuplan::lora& adapters);
/// "8-bit AdamW".
[[nodiscard]] std::string in_words(gpuplan::optimizer steps);
/// How stages are split where they are not alike: "embedding and head as layers"; else nothing.
[[nodiscard]] std::string in_words(const gpuplan::pipeline_split& split);
/// How it trains: "tensor-parallel 8, bf16 mixed, AdamW, ZeRO-1".
[[nodiscard]] std::string method_in_words(const gpuplan::training_setup& setup);
/// What a step trains on, and how: "8 samples of 1,024 tokens on each of 4 GPUs, bf16 mixed, AdamW,
/// ZeRO-3", or of GPUs that share a model "on each of 4 replicas, tensor-parallel 8, bf16 mixed".
[[nodiscard]] std::string in_words(const gpuplan::training_setup& setup,
                                   const gpuplan::batch_plan& plan);

}  // namespace setups

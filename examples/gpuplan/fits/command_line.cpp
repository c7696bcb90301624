#include "fits/command_line.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/trainable.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fits/methods.hpp"
#include "fits/render.hpp"
#include "fits/verdicts.hpp"
#include "guides/front_end.hpp"
#include "setups/options.hpp"
#include "setups/replicas.hpp"

namespace fits_program {
namespace {

constexpr const char* about =
    "Which ways to train a model fit which GPU: for each method what a micro-batch of 1 needs, "
    "the\n"
    "largest micro-batch and what that needs, the moment of the peak, and what most of the memory\n"
    "is where the next larger one no longer fits.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan fits llama-3.1-8b --gpu 4090,h100-sxm\n"
    "  gpuplan fits qwen2.5-7b --sequence-length 2048 --gpu a100-sxm-40gb --gpus 4\n"
    "  gpuplan fits llama-3.1-8b --gpu 4090 --optimizer adamw-8bit --dora 32 --lora-targets "
    "all-linear\n"
    "  gpuplan fits mistral-7b-v0.1 --gpu 4090 --method qlora\n"
    "  gpuplan fits folder/config.json --format csv";

struct request {
  setups::arguments setup{};
  std::vector<std::string> gpus{"rtx_4090", "a100_sxm4_80gb", "h200_sxm"};
  std::int64_t several = 0;            // 0: as files say, or 8
  std::vector<std::string> methods{};  // none: all
  double fragmentation = 100 * gpuplan::usual_fragmentation;
};

std::string answer_to(const request& asked, const guides::output& as) {
  setups::arguments given = setups::without_layout(asked.setup);
  given.setup.trains = {};
  setups::named_setup named = setups::model_of(given);
  const bool is_megatron = has_ways_of_megatron(named.setup);
  named.setup.trains = asked.setup.setup.trains;
  const bool has_adapters = named.setup.trains.what == gpuplan::training::adapters;
  if (is_megatron && (has_adapters || !given.lora_targets.empty()))
    throw guides::bad_request((!given.trained_by.empty()    ? given.trained_by.front()
                               : given.lora_targets.empty() ? "--from"
                                                            : "--lora-targets") +
                              std::string(": of ") + named.setup.framework.name +
                              " the ways to train all weights are compared");
  if (!has_adapters) setups::train_adapters(named.setup, usual_rank, false);
  setups::choose_trained(given, named.setup);
  const gpuplan::lora adapters = named.setup.trains.adapters;
  named.setup.trains = {};
  std::int64_t several = asked.several > 0 ? asked.several : setups::gpus_of_files(asked.setup);
  if (several == 0) several = 8;
  std::vector<method> methods = methods_for(named.setup, several, adapters);
  if (!asked.methods.empty()) methods = methods_called(methods, asked.methods);
  const bool is_vision = named.setup.model.kind == gpuplan::model_kind::vision;
  answer made{
      .title =
          named.name + ": what fits, with " + setups::in_words(named.setup.optimizer) +
          (is_vision ? ""
                     : " and " + std::to_string(named.setup.sequence_length) + " tokens a sample"),
      .note =
          std::string("Peaks of training steps by the code of ") + named.setup.framework.name +
          ", with " + gpuplan::io::decimal(asked.fragmentation, -1) +
          " % for what the allocator cannot use: at a micro-batch of 1, and there at the largest. "
          "In the way of one more is what most of that would be. " +
          (is_megatron ? "ZeRO-1 is the distributed optimizer."
                       : "DDP is DistributedDataParallel, ZeRO-2 and ZeRO-3 are fully_shard's.")};
  for (const gpuplan::gpu_spec& gpu : setups::gpus_named(asked.gpus))
    made.gpus.push_back(judge(gpu, methods, asked.fragmentation / 100));
  return render(made, as);
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan fits",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                setups::add_model_options(app, asked->setup);
                setups::add_optimizer_options(app, asked->setup);
                setups::add_adapter_options(
                    app, asked->setup, "Adapters (default: --lora 16), with and without four bits");
                setups::add_gpu_option(
                    app, asked->gpus, "Devices (default: an RTX 4090, an A100 and an H200)");
                app.add_option("--gpus",
                               asked->several,
                               "GPUs that share the states; 1: none do (default: 8)")
                    ->transform(guides::whole_number(1, 1 << 20))
                    ->type_name("N");
                app.add_option("--method",
                               asked->methods,
                               "Ways to train, by a word of their names: fp32, qlora, ddp, zero-3 "
                               "(default: all)")
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->type_name("NAME,...");
                app.add_option("--fragmentation",
                               asked->fragmentation,
                               "Percent of the peak that the allocator cannot use")
                    ->transform(guides::finite_number(0, 1000))
                    ->type_name("")
                    ->capture_default_str();
              },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace fits_program

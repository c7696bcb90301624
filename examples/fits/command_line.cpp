#include "fits/command_line.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/model.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "fits/methods.hpp"
#include "fits/render.hpp"
#include "fits/verdicts.hpp"
#include "guides/front_end.hpp"
#include "setups/options.hpp"

namespace fits_program {
namespace {

constexpr const char* about =
    "Which ways to train a model fit which GPU: for each method what a micro-batch of 1 needs, "
    "the\n"
    "largest micro-batch and what that needs, the moment of the peak, and what most of the memory\n"
    "is where the next larger one no longer fits.";
constexpr const char* examples =
    "Examples:\n"
    "  fits llama-3.1-8b --gpu rtx_4090 --gpu h100_sxm5_80gb\n"
    "  fits qwen2.5-7b --sequence-length 2048 --gpu a100_sxm4_40gb --gpus 4\n"
    "  fits --config config.json --format csv";

struct request {
  setups::arguments setup{};
  std::vector<std::string> gpus{"rtx_4090", "a100_sxm4_80gb", "h200_sxm"};
  std::int64_t several = 8;
  std::int64_t lora_rank = 16;
  double fragmentation = 100 * gpuplan::usual_fragmentation;
};

std::string answer_to(const request& asked, const guides::output& as) {
  const setups::named_setup named = setups::model_of(asked.setup);
  if (named.setup.framework.implementation.layers == &gpuplan::layer_classes::megatron_core)
    throw guides::bad_request("--framework " + asked.setup.framework +
                              ": Megatron's ranks are for memory_timeline; these methods are "
                              "PyTorch's own");
  const std::vector<method> methods = methods_for(named.setup, asked.several, asked.lora_rank);
  const bool is_vision = named.setup.model.kind == gpuplan::model_kind::vision;
  answer made{
      .title =
          named.name + ": what fits, with AdamW" +
          (is_vision ? ""
                     : " and " + std::to_string(named.setup.sequence_length) + " tokens a sample"),
      .note =
          std::string("Peaks of training steps by the code of ") + named.setup.framework.name +
          ", with " + gpuplan::io::decimal(asked.fragmentation, -1) +
          " % for what the allocator cannot use: at a micro-batch of 1, and there at the largest. "
          "In the way of one more is what most of that would be. DDP is "
          "DistributedDataParallel, ZeRO-2 and ZeRO-3 are fully_shard's."};
  for (const std::string& name : asked.gpus)
    made.gpus.push_back(judge(setups::gpu_named(name), methods, asked.fragmentation / 100));
  return render(made, as);
}

}  // namespace

int run(int argc, char** argv) {
  request asked;
  return guides::run_program(
      argc,
      argv,
      "fits",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        setups::add_model_options(app, asked.setup);
        app.add_option("--gpu",
                       asked.gpus,
                       "A device, such as rtx_4090; may be given again (default: an RTX 4090, an "
                       "A100 and an H200)")
            ->allow_extra_args(false)
            ->type_name("");
        app.add_option("--gpus", asked.several, "GPUs that share the states; 1: none do")
            ->transform(guides::whole_number(1, 1 << 20))
            ->type_name("")
            ->capture_default_str();
        app.add_option("--lora-rank", asked.lora_rank, "Rank of the adapters")
            ->transform(guides::whole_number(1, 1 << 20))
            ->type_name("")
            ->capture_default_str();
        app.add_option("--fragmentation",
                       asked.fragmentation,
                       "Percent of the peak that the allocator cannot use")
            ->check(guides::finite_number(0, 1000))
            ->type_name("")
            ->capture_default_str();
      },
      [&](const guides::output& as) { return answer_to(asked, as); });
}

}  // namespace fits_program

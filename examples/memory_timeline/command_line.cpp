#include "memory_timeline/command_line.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/training_setup.hpp>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "memory_timeline/moments.hpp"
#include "memory_timeline/picture.hpp"
#include "memory_timeline/render.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace memory_timeline {
namespace {

constexpr const char* about =
    "The memory of a training step over its moments, by what it is for, and the tensors that make\n"
    "its peak, each with the product that its size is. Tensors are those that PyTorch would ask "
    "its\n"
    "allocator for, allocation by allocation.";
constexpr const char* examples =
    "Examples:\n"
    "  memory_timeline gpt2 --micro-batch 8 --sequence-length 1024\n"
    "  memory_timeline llama-3.1-8b --data-parallel 8 --zero 3 --recompute full --gpu "
    "h100_sxm5_80gb "
    "\\\n                  --svg step.svg\n"
    "  memory_timeline --config config.json --lora-rank 16 --four-bits --precision bf16-autocast";

struct request {
  setups::arguments setup{};
  std::string gpu;
  std::string svg_file;
  bool all = false;
};

// Megatron's last stage notes the loss of each micro-batch, so none is as the one before.
constexpr std::int64_t most_drawn = 256;

// The plan with as many micro-batches as show all there is: those between repeat.
gpuplan::batch_plan drawn(const gpuplan::training_setup& setup, gpuplan::batch_plan plan) {
  const auto repeated = gpuplan::detail::repeated_micro_batches(setup, plan);
  if (repeated.steps == 0)
    plan.accumulation = repeated.fewer;
  else if (plan.accumulation > most_drawn)
    throw guides::bad_request(
        "--accumulation " + std::to_string(plan.accumulation) +
        ": of Megatron's last stage, where no micro-batch is as the one before, at most " +
        std::to_string(most_drawn) + " are drawn");
  return plan;
}

std::string remark_on(std::int64_t shown, std::int64_t all) {
  if (shown == all) return {};
  return "; " + std::to_string(shown) + " of the " + setups::grouped(all) +
         " micro-batches, since those between the first and the last repeat";
}

std::string answer_to(const request& asked, const guides::output& as) {
  const setups::named_setup named = setups::setup_of(asked.setup);
  const gpuplan::batch_plan plan = drawn(named.setup, asked.setup.plan);
  const std::vector<gpuplan::memory_point> points = gpuplan::timeline_of(named.setup, plan);
  answer made{.title = named.name + ": the memory of a training step",
              .what = setups::in_words(named.setup, asked.setup.plan) + "; " +
                      named.setup.framework.name +
                      remark_on(plan.accumulation, asked.setup.plan.accumulation),
              .lines = lines_of(points, named.setup.model.layers()),
              .why = gpuplan::explain(named.setup, plan)};
  if (asked.all) made.most_pieces = std::numeric_limits<std::size_t>::max();
  if (!asked.gpu.empty()) {
    const gpuplan::gpu_spec gpu = setups::gpu_named(asked.gpu);
    made.gpu = gpu.name;
    made.capacity = static_cast<std::int64_t>(usable_memory(gpu).value());
  }
  if (!asked.svg_file.empty())
    guides::write_file(
        "--svg", asked.svg_file, to_svg({made.title, made.what, points, made.gpu, made.capacity}));
  return render(made, as);
}

}  // namespace

int run(int argc, char** argv) {
  request asked;
  return guides::run_program(
      argc,
      argv,
      "memory_timeline",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        setups::add_model_options(app, asked.setup);
        setups::add_setup_options(app, asked.setup);
        app.add_option("--gpu", asked.gpu, "The device to compare with, such as rtx_4090")
            ->type_name("");
        app.add_option("--svg", asked.svg_file, "Also draw a picture")->type_name("FILE");
        app.add_flag("--all", asked.all, "All tensors of the peak, however small");
      },
      [&](const guides::output& as) { return answer_to(asked, as); });
}

}  // namespace memory_timeline

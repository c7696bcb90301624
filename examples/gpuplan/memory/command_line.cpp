#include "memory/command_line.hpp"

#include <gpuplan/device_needs.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/training_setup.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "memory/moments.hpp"
#include "memory/pace.hpp"
#include "memory/picture.hpp"
#include "memory/render.hpp"
#include "memory/snapshot.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"
#include "setups/replicas.hpp"

namespace memory_timeline {
namespace {

constexpr const char* about =
    "The memory of a training step over its moments, by what it is for, and the tensors that make\n"
    "its peak, each with the product that its size is. Tensors are those that PyTorch would ask "
    "its\n"
    "allocator for, allocation by allocation.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan memory gpt2 --micro-batch 8 --sequence-length 1024\n"
    "  gpuplan memory llama-3.1-8b --data-parallel 8 --zero 3 --recompute full --gpu h100-sxm "
    "\\\n                  --svg step.svg\n"
    "  gpuplan memory folder/config.json --qlora 16";

struct request {
  setups::arguments setup{};
  std::vector<std::string> gpu{};
  std::int64_t gpus = 0;  // 0: as the degrees make them
  std::string svg_file;
  std::string snapshot_file;
  std::string measured_file;
  std::string trace_file;
  bool all = false;
  std::int64_t stage = -1;       // of a pipeline; -1: the one with the highest peak
  std::int64_t expert_rank = 0;  // and of ranks that share experts or layers
  std::int64_t tensor_rank = 0;
};

// A history of some steps; it is read whole.
constexpr std::size_t most_of_a_snapshot = std::size_t{1} << 29;

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

void check_place(const char* option, std::int64_t given, std::int64_t ranks, const char* degree) {
  if (given >= ranks)
    throw guides::bad_request(std::string(option) + " " + std::to_string(given) + ": " + degree +
                              " is " + std::to_string(ranks) + ", so they are 0 to " +
                              std::to_string(ranks - 1));
}

// The peaks of all stages, of which each has its own layers.
std::vector<stage_line> stages_of(gpuplan::training_setup setup, const gpuplan::batch_plan& whole) {
  std::vector<stage_line> lines;
  for (std::int64_t stage = 0; stage < setup.parallelism.pipeline_parallel; ++stage) {
    setup.place.stage = stage;
    const gpuplan::memory_explanation why = *gpuplan::explain(setup, drawn(setup, whole));
    const gpuplan::parallelism& layout = setup.parallelism;
    const std::int64_t all = setup.model.layers();
    lines.push_back(
        {.stage = stage,
         .layers = layout.virtual_pipeline > 1
                       ? gpuplan::layer_range{0, gpuplan::layers_of_stage(layout, all, stage)}
                       : gpuplan::layers_of_chunk(layout, all, stage),
         .chunks = layout.virtual_pipeline,
         .when = gpuplan::text(why.when),
         .peak = why.peak});
  }
  return lines;
}

std::int64_t highest(const std::vector<stage_line>& stages) {
  std::int64_t most = 0;
  for (const stage_line& one : stages)
    if (one.peak.total > stages[static_cast<std::size_t>(most)].peak.total) most = one.stage;
  return most;
}

// Who else holds memory of the device: " beside 12.0 GiB of an inference engine".
std::string beside(const gpuplan::device_needs& needs) {
  std::string words;
  const auto add = [&](gpuplan::bytes held, const char* whose) {
    if (!(held > gpuplan::bytes{})) return;
    words += words.empty() ? " beside " : " and ";
    words += setups::readable_bytes(static_cast<std::int64_t>(held.value())) + " of " + whose;
  };
  add(needs.inference, "an inference engine");
  add(needs.communication, "buffers between GPUs");
  add(needs.kernels, "kernels");
  return words;
}

std::string answer_to(const request& asked, const guides::output& as) {
  const setups::arguments stated =
      setups::on_gpus(asked.setup, asked.gpus > 0 ? asked.gpus : setups::gpus_of(asked.setup));
  setups::named_setup named = setups::setup_of(stated);
  const gpuplan::parallelism& layout = named.setup.parallelism;
  check_place("--stage", asked.stage, layout.pipeline_parallel, "--pipeline-parallel");
  check_place("--tensor-rank", asked.tensor_rank, layout.tensor_parallel, "--tensor-parallel");
  check_place("--expert-rank", asked.expert_rank, layout.expert_parallel, "--expert-parallel");
  named.setup.place.tensor_rank = asked.tensor_rank;
  named.setup.place.expert_rank = asked.expert_rank;
  std::vector<stage_line> stages;
  if (layout.pipeline_parallel > 1) {
    stages = stages_of(named.setup, stated.plan);
    named.setup.place.stage = asked.stage >= 0 ? asked.stage : highest(stages);
  }
  const gpuplan::batch_plan plan = drawn(named.setup, stated.plan);
  const std::vector<gpuplan::memory_point> points = *gpuplan::timeline_of(named.setup, plan);
  answer made{
      .title = named.name + ": the memory of a training step",
      .what = setups::in_words(named.setup, stated.plan) + "; " + named.setup.framework.name +
              remark_on(plan.accumulation, stated.plan.accumulation) +
              (stages.empty() ? std::string()
                              : "; pipeline stage " + std::to_string(named.setup.place.stage)),
      .lines = lines_of(points, named.setup),
      .why = *gpuplan::explain(named.setup, plan)};
  made.stages = std::move(stages);
  if (asked.all) made.most_pieces = std::numeric_limits<std::size_t>::max();
  std::vector<gpuplan::gpu_spec> gpus;
  if (!asked.gpu.empty()) {
    gpus = setups::gpus_named(asked.gpu);
    if (gpus.size() > 1)
      throw guides::bad_request("--gpu names " + std::to_string(gpus.size()) +
                                " devices; a timeline is held against one");
    const gpuplan::gpu_spec& gpu = gpus.front();
    made.gpu = gpu.name;
    const gpuplan::device_needs needs = needs_of(named.setup, stated.plan, gpu);
    made.capacity = static_cast<std::int64_t>((usable_memory(gpu) - needs.total()).value());
    made.beside = beside(needs);
  }
  const bool draws = !asked.svg_file.empty();
  const bool compares = !asked.measured_file.empty();
  if (compares || draws || !asked.snapshot_file.empty() || !asked.trace_file.empty()) {
    picture drawn_step{
        made.title,
        made.what,
        timed(named.setup, stated.plan, plan, gpus.empty() ? nullptr : &gpus.front()),
        made.gpu,
        std::max<std::int64_t>(0, made.capacity)};
    std::vector<measured_step> measured;
    if (compares) {
      measured.push_back(measured_in(
          "--measured", guides::read_file("--measured", asked.measured_file, most_of_a_snapshot)));
      made.compared = comparison(drawn_step.step, measured.front());
    }
    if (!asked.snapshot_file.empty())
      guides::write_file("--snapshot", asked.snapshot_file, snapshot_of(drawn_step.step));
    if (!asked.trace_file.empty())
      guides::write_file("--trace", asked.trace_file, chrome_trace_of(drawn_step.step));
    if (draws) guides::write_file("--svg", asked.svg_file, to_svg(chart_of(drawn_step, measured)));
  }
  return render(made, as);
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan memory",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                setups::add_model_options(app, asked->setup);
                setups::add_setup_options(app, asked->setup);
                setups::add_gpu_option(app, asked->gpu, "The device to compare with");
                app.add_option("--gpus", asked->gpus, "All GPUs, instead of --data-parallel")
                    ->transform(guides::whole_number(1, std::int64_t{1} << 20))
                    ->type_name("N")
                    ->excludes("--data-parallel");
                app.add_option("--svg", asked->svg_file, "Also draw a picture")->type_name("FILE");
                app.add_option("--snapshot",
                               asked->snapshot_file,
                               "Also write a snapshot for pytorch.org/memory_viz")
                    ->type_name("FILE");
                app.add_option("--measured",
                               asked->measured_file,
                               "Compare with a snapshot of torch.cuda.memory._dump_snapshot, in "
                               "--svg too")
                    ->type_name("FILE");
                app.add_option("--trace",
                               asked->trace_file,
                               "Also write a trace for Perfetto and chrome://tracing")
                    ->type_name("FILE");
                const auto place = [&](const char* name, std::int64_t& to, const char* what) {
                  app.add_option(name, to, what)
                      ->transform(guides::whole_number(0, 1 << 20))
                      ->type_name("N");
                };
                place("--stage",
                      asked->stage,
                      "The pipeline stage to show (default: the one with the highest peak)");
                place("--tensor-rank", asked->tensor_rank, "Of each layer's ranks (default: 0)");
                place("--expert-rank", asked->expert_rank, "Of the experts' ranks (default: 0)");
                app.add_flag("--all", asked->all, "All tensors of the peak, however small");
              },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace memory_timeline

#include "check/command_line.hpp"

#include <gpuplan/communication.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/time/stack_range.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check/render.hpp"
#include "check/verdict.hpp"
#include "runs/clusters.hpp"
#include "setups/gpus.hpp"
#include "setups/model_words.hpp"
#include "setups/replicas.hpp"
#include "setups/trainer_files.hpp"

namespace check_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;

constexpr const char* about =
    "What a trainer's own files configure: whether it fits on these GPUs, at which peak and when, "
    "how\n"
    "long a step takes, what would be better, or fit where this does not, what in the files\n"
    "contradicts itself, and which keys were not understood. Several files of one training are "
    "read\n"
    "together.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan check config.yml --gpu rtx_4090\n"
    "  gpuplan check ds_config.json arguments.json --model llama-3-8b --gpu h100_sxm5_80gb --gpus "
    "8";

struct request {
  std::vector<std::string> files{};
  std::string model{};
  std::vector<std::string> kinds{};  // none: as the files say
  std::int64_t gpus = 0;             // 0: as the files say
  std::string system{};              // of nodes, instead of kinds
  std::int64_t gpus_per_node = 0;    // 0: as the files say, or 8
  std::int64_t link_domain = 0;      // 0: a node
  known<double> network_GBps{};      // none: the usual one
  known<network_kind> network{};
  double fragmentation = 100 * usual_fragmentation;
  bool must_fit = false;
};

cluster cluster_of(const request& asked,
                   const io::training_config& said,
                   const gpu_spec& gpu,
                   std::int64_t gpus) {
  cluster on{.gpu = gpu, .between_nodes = runs::usual_network * 1_GBps};
  if (!asked.system.empty()) on = runs::node_of_system("--system", asked.system);
  if (asked.system.empty()) on.gpus_per_node = setups::gpus_per_node_of(said);
  if (asked.gpus_per_node != 0) on.gpus_per_node = asked.gpus_per_node;
  if (on.gpus_per_node == 0) on.gpus_per_node = runs::usual_gpus_per_node;
  if (asked.link_domain != 0) on.gpus_per_link_domain = asked.link_domain;
  if (asked.network_GBps) on.between_nodes = *asked.network_GBps * 1_GBps;
  if (asked.network) on.network = *asked.network;
  runs::set_total(on, gpus);
  runs::settle_link_domain(on);
  return on;
}

// Why a build that insists on this training must stop.
std::vector<std::string> problems_of(const answer& made) {
  std::vector<std::string> problems;
  const auto GiB = [](bytes size) { return io::decimal(in(size, 1_GiB), 1) + " GiB"; };
  for (const auto& [on, says] : made.clusters) {
    if (!says.why_it_cannot_run.empty())
      problems.push_back(on.gpu.id + std::string(" cannot run it: ") + says.why_it_cannot_run);
    if (!says.fits())
      problems.push_back("the plan needs more memory than the GPU has: micro-batch " +
                         std::to_string(made.training.plan.micro_batch) + " needs " +
                         GiB(says.memory.total()) + ", and " + on.gpu.id + " has " +
                         GiB(says.usable) +
                         (says.largest_micro_batch > 0
                              ? "; at most " + std::to_string(says.largest_micro_batch) + " fit"
                              : std::string("; not even 1 fits")));
  }
  for (const io::remark& one : made.training.remarks)
    if (one.is == io::remark::kind::contradicts) problems.push_back(one.key + ": " + one.text);
  return problems;
}

// What else the files have wrong, which may be the cause of a refusal.
std::string remarks_in_words(const std::vector<io::remark>& remarks) {
  constexpr std::size_t most = 5;
  std::string all;
  for (std::size_t at = 0; at < remarks.size() && at < most; ++at)
    all += "; " + remarks[at].key + ": " + remarks[at].text;
  if (remarks.size() > most)
    all += "; and " + std::to_string(remarks.size() - most) + " more such remarks";
  return all;
}

// Why no model is known: flags of Megatron's that are not there, or that no file says it.
std::string without_model(std::vector<io::remark> remarks) {
  const auto is_of_sizes = [](const io::remark& one) {
    for (const char* const flag :
         {"--num-layers", "--hidden-size", "--num-attention-heads", "--vocab-size"})
      if (one.is == io::remark::kind::missing && one.key == flag) return true;
    return false;
  };
  const auto found = std::find_if(remarks.begin(), remarks.end(), is_of_sizes);
  std::string why = "--model: no file says which model trains; give its name";
  if (found != remarks.end()) {
    why = found->key + ": " + found->text + "; or --model says which model it is";
    remarks.erase(found);
  }
  return why + remarks_in_words(remarks);
}

guides::printed answer_to(const request& asked, const guides::output& as) {
  answer made;
  std::string of_base;
  const setups::trainer_files files = setups::read_trainer_files("FILE", asked.files);
  made.read = files.read;
  io::training_context context;
  const std::string of_files = made.read.config.model.empty() && made.read.config.shape
                                   ? "a model of the files' own shape"
                                   : made.read.config.model;
  made.model = asked.model.empty() ? made.read.config.model : asked.model;
  if (!asked.model.empty()) made.read.config.shape = {};
  if (made.model.empty() && !made.read.config.shape)
    throw guides::bad_request(without_model(made.read.remarks));
  if (!made.read.config.shape) {
    const setups::named_model named = setups::trained_model_named(
        {.text = made.model, .is_of_file = asked.model.empty() && files.names_model});
    of_base = named.assumed;
    context.shape = named.shape;
    context.parts = named.parts;
    context.called = named.known_as;
    context.dropouts = named.dropouts;
  }
  if (made.model.empty()) made.model = of_files;
  if (asked.gpus != 0) context.gpus = asked.gpus;
  made.training = io::configured(made.read, context);
  if (!made.training)
    throw guides::bad_request(made.training.why + remarks_in_words(made.training.remarks));
  if (!of_base.empty()) made.training.assumed.push_back({"model", of_base});
  if (!asked.model.empty() && !of_files.empty() && of_files != asked.model)
    made.training.assumed.push_back({"model", "--model " + asked.model + ", not " + of_files});
  const setups::gpu_of_job gpu_of_files = setups::gpu_of_files(made.read);
  if (asked.kinds.empty() && asked.system.empty() && !gpu_of_files.why.empty())
    made.training.assumed.push_back({"gpu", gpu_of_files.why});
  std::vector<gpu_spec> kinds;
  if (!asked.system.empty())
    kinds.push_back(runs::node_of_system("--system", asked.system).gpu);
  else
    kinds = setups::gpus_named(asked.kinds.empty() ? std::vector<std::string>{gpu_of_files.id}
                                                   : asked.kinds);
  for (const gpu_spec& gpu : kinds) {
    const cluster on = cluster_of(asked, made.read.config, gpu, made.training.gpus);
    made.clusters.push_back({on, judge(made.training, on, asked.fragmentation / 100)});
  }
  const bool has_network = std::any_of(
      made.clusters.begin(), made.clusters.end(), [](const auto& one) { return one.on.nodes > 1; });
  if (has_network && !asked.network_GBps && asked.system.empty())
    made.training.assumed.push_back(
        {"network",
         "a network of " + io::decimal(runs::usual_network, 0) +
             " GB/s of each node, as of 8 adapters of 200 Gb/s: --network says another"});
  for (const auto& one : made.clusters) {
    const range<bandwidth> link = link_range(one.on);
    if (link.is_point()) continue;
    made.training.assumed.push_back(
        {"link",
         std::string("what joins GPUs of a node, ") + io::decimal(in(link.low(), 1_GBps), 0) +
             " to " + io::decimal(in(link.high(), 1_GBps), 0) + " GB/s of each " + one.on.gpu.name +
             ": gpuplan time --from FILE --link N takes another"});
  }
  std::vector<std::string> problems;
  if (asked.must_fit) problems = problems_of(made);
  return {render(made, as), problems};
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan check",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                app.add_option("FILE", asked->files, "Files of one training")->required();
                app.add_option("--model", asked->model, "The model, whatever files say")
                    ->type_name("MODEL");
                setups::add_gpu_option(
                    app,
                    asked->kinds,
                    "Devices, each by itself (default: as files say, else an A100 of 80 GB)");
                app.add_option("--gpus", asked->gpus, "All GPUs of the run (default: as files say)")
                    ->transform(guides::whole_number(1, 1 << 20))
                    ->type_name("N");
                app.add_option("--system",
                               asked->system,
                               "Nodes by name, with their GPUs, links and network (p5.48xlarge, "
                               "gb200-nvl72), instead of --gpu")
                    ->type_name("NAME")
                    ->excludes("--gpu");
                app.add_option("--link-domain",
                               asked->link_domain,
                               "GPUs that NVLink joins across nodes (default: as --system has it, "
                               "else those of a node)")
                    ->transform(guides::whole_number(1, 1 << 16))
                    ->type_name("N");
                app.add_option("--gpus-per-node",
                               asked->gpus_per_node,
                               "GPUs of a node (default: as files say, or 8)")
                    ->transform(guides::whole_number(1, 1 << 10))
                    ->type_name("N");
                app.add_option_function<double>(
                       "--network",
                       [=](double is) { asked->network_GBps = is; },
                       "GB/s of a node, each direction, all its adapters together")
                    ->transform(guides::finite_number(0.1, 1e5))
                    ->type_name("N")
                    ->default_str(io::decimal(runs::usual_network, 0));
                runs::add_network_kind_option(app, asked->network, "(default: infiniband)");
                app.add_option("--fragmentation",
                               asked->fragmentation,
                               "Percent of the peak that the allocator cannot use")
                    ->transform(guides::finite_number(0, 1000))
                    ->type_name("N")
                    ->capture_default_str();
                app.add_flag("--must-fit",
                             asked->must_fit,
                             "Exit with 1 unless it fits and nothing in the files contradicts "
                             "itself, as a build may ask");
              },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace check_program

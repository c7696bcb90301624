#include <gpuplan/cluster.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/front.hpp>
#include <gpuplan/planner/limits.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/command_line.hpp"
#include "plan/how_many_gpus.hpp"
#include "plan/options.hpp"
#include "plan/report.hpp"
#include "plan/searches.hpp"
#include "setups/numbers.hpp"
#include "write/writing.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

constexpr const char* about =
    "The best ways to train a model on a cluster, or on one of several: how it is divided among\n"
    "GPUs, what is recomputed, micro-batch and accumulation, with the time of a step and the "
    "memory\n"
    "of the fullest GPU; then what would be better without one of the limits, and what takes "
    "longer\n"
    "and needs less memory. Below: where the time of a step goes, and how much faster or slower\n"
    "other software on the same GPUs may be, and by what. Where nothing fits, each change that\n"
    "would do by itself.\n"
    "\n"
    "With --how-many, for 1, 2, 4 and so on up to all GPUs of each kind the fastest plan that "
    "fits,\n"
    "the hours of the run, its GPU-hours, energy and money, what an hour less costs beside the "
    "next\n"
    "fewer GPUs, and what of the throughput of the fewest GPUs each GPU keeps: what is left of it "
    "by\n"
    "batches and communication, without devices that wait for a slower one and kernels that\n"
    "communication beside them slows, so that measured runs keep less. Dominated is what takes "
    "longer\n"
    "and costs more than another row.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan plan gpt3-175b --framework megatron-te --nodes 64 --batch 1536\n"
    "  gpuplan plan llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --batch 64\n"
    "  gpuplan plan llama-3-70b --framework megatron-te --nodes 16 --batch 512 --tokens 1e11\n"
    "      --gpu a100_sxm4_80gb,h100_sxm5_80gb --price 1.8,3 --days 30 --goal money --format csv\n"
    "  gpuplan plan llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --nodes 8 --batch 256\n"
    "      --tokens 1e10 --price 3 --how-many";

struct request {
  arguments asked{};
  plan_goal goal = plan_goal::least_time;
  int plans = 5;
  bool lists_smaller = false;
  bool counts_gpus = false;
  write_program::request files{};
};

// The plans: for people the columns that say something of this request, for programs all.
struct listing {
  const named_request& asked;
  const training_plan& best;
  bool for_people = true;
  io::table table{};

  const plan_request& request() const { return asked.request; }
  bool has_kinds() const { return !request().others.empty(); }
  bool has_run() const { return request().samples != 0; }
  bool has_money() const { return has_run() && request().on.price_per_gpu; }

  void begin(const std::string& title) {
    table.title = title;
    table.columns = {{.name = "plan"}};
    if (!for_people) {
      add_columns(table);
      table.columns.push_back({.name = "slower_pct"});
      return;
    }
    if (has_kinds()) table.columns.push_back({.name = "gpu"});
    if (has_codes(asked)) table.columns.push_back({.name = "code"});
    if (has_precisions(asked)) table.columns.push_back({.name = "precision"});
    for (const char* name : {"layout", "recompute"}) table.columns.push_back({.name = name});
    table.columns.push_back({.name = "batch", .align = io::alignment::right});
    const auto add_number = [&](const char* name) {
      table.columns.push_back({.name = name, .align = io::alignment::point});
    };
    add_number(has_run() ? "hours" : "step_s");
    if (has_money()) add_number("usd");
    if (!has_run()) add_number("tokens_per_s");
    for (const char* name : {"GiB", "slower_pct"}) add_number(name);
  }
  void add(const std::string& kind, const described_plan& described) {
    const training_plan& plan = *described.plan;
    std::vector<cell> row{kind};
    if (!for_people) {
      add_cells(row, described);
      row.emplace_back(100 * loss_of(plan, best));
      table.rows.push_back(row);
      return;
    }
    if (has_kinds()) row.emplace_back(short_id(request(), plan));
    if (has_codes(asked)) row.emplace_back(code_of(described.model.setup.framework));
    if (has_precisions(asked)) row.emplace_back(described.precision);
    row.insert(row.end(),
               {in_words(plan), recomputed(described.model.setup), in_words(plan.batch)});
    const plan_request& given = request();
    if (has_run()) {
      const planned_run first = run_of(given, best);
      row.emplace_back(in(described.run->time, 1_h), digits_of(in(first.time, 1_h)));
      if (has_money())
        row.push_back(cell_of(described.run->cost, 1_usd, digits_of(in(*first.cost, 1_usd))));
    } else {
      row.emplace_back(in(plan.step, 1_s), digits_of(in(best.step, 1_s), 4));
      row.emplace_back(in(described.rates.tokens, 1_tokens_per_s), 0);
    }
    row.insert(row.end(),
               {plan.required > bytes{} ? cell{in(plan.required, 1_GiB), 1} : cell(),
                cell{100 * loss_of(plan, best), 1}});
    table.rows.push_back(row);
  }
};

// "best", "2nd", "3rd" and so on to "8th".
std::string rank_of(std::size_t at) {
  if (at == 0) return "best";
  return std::to_string(at + 1) + (at == 1 ? "nd" : at == 2 ? "rd" : "th");
}

// What the best plan would be without a limit, in the words of a list.
std::string without(const lifted_limit& lifted) {
  switch (lifted.limit) {
    case plan_limit::memory:
      return "more memory";
    case plan_limit::finish_in:
      return "more time";
    case plan_limit::at_most:
      return "more money";
    case plan_limit::tensor_within_node:
      return "t across nodes";
    case plan_limit::layers:
      return std::to_string(lifted.layers) + " layers";
    default:
      return text(lifted.limit);
  }
}
// With three figures or more, and never less than it is: less would not do.
std::string rounded_up(double value, int digits) {
  const double unit = std::pow(10.0, -digits);
  return io::decimal(unit * std::ceil(value / unit), digits);
}
std::string rounded_up(double value) { return rounded_up(value, digits_of(value)); }
// How far a plan goes beyond a limit.
std::string instead(const plan_request& request, plan_limit limit, const training_plan& plan) {
  const std::string batch = std::to_string(plan.batch.effective_batch()) + " samples a step";
  switch (limit) {
    case plan_limit::memory:
      return "GPUs with " + rounded_up(in(plan.required, 1_GiB), 1) + " GiB and the rates of " +
             cluster_of(request, plan).gpu.id;
    case plan_limit::finish_in:
      return rounded_up(in(run_of(request, plan).time, 24_h)) + " days";
    case plan_limit::at_most:
      return rounded_up(in(*run_of(request, plan).cost, 1_usd)) + " dollars";
    case plan_limit::gpus:
      return std::to_string(plan.gpus) + " x " + cluster_of(request, plan).gpu.id;
    case plan_limit::larger_batch:
    case plan_limit::smaller_batch:
      return batch;
    case plan_limit::degrees:
      return "other degrees, such as " + in_words(plan) + " with " + in_words(plan.batch) +
             " replicas x samples x accumulation";
    case plan_limit::micro_batch:
      return "micro-batches of " + std::to_string(plan.batch.micro_batch);
    case plan_limit::tensor_within_node: {
      const std::int64_t in_node = cluster_of(request, plan).gpus_per_node;
      const std::int64_t nodes = (plan.layout.tensor_parallel + in_node - 1) / in_node;
      return "GPUs that are linked across nodes, as --link-domain " +
             std::to_string(nodes * in_node) + " has them";
    }
    default:
      return text(limit);
  }
}
// What would do by itself where there is no plan, or only both together.
std::string instead(const plan_request& request, const lifted_limit& lifted) {
  const std::string alone = instead(request, lifted.limit, lifted.plan);
  if (!lifted.with) return alone;
  return alone + " together with " + instead(request, *lifted.with, lifted.plan);
}

// Options for code that divides the model among GPUs, more of these, and what keeps less or trains
// less of it, each by itself, of those that have a plan.
std::vector<std::string> codes_that_plan(const request& given, bool is_on_one_gpu) {
  const auto plans = [&](const arguments& asked) {
    try {
      named_request named = request_of(asked);
      named.request.goal = given.goal;
      return static_cast<bool>(searches(asked.fragmentation).plans_of(named.request, 1));
    } catch (const guides::bad_request&) {  // no code of this model, or for these options
      return false;
    }
  };
  std::vector<std::string> codes;
  arguments asked = given.asked;
  for (const char* code : {"torchtitan", "megatron-te"}) {
    asked.setup.framework = code;
    if (plans(asked)) codes.emplace_back(std::string("--framework ") + code);
  }
  // fully_shard's parts are DTensors, which other libraries' optimizers do not step.
  if (given.asked.setup.setup.optimizer.library != optimizer_library::torch &&
      given.asked.setup.sharding.empty())
    for (const char* engine : {"fsdp1", "deepspeed"}) {
      asked = given.asked;
      asked.setup.sharding = engine;
      if (plans(asked)) codes.push_back(std::string("--sharding ") + engine);
    }
  // Of one node's, as far as there is no link to another one that is known.
  asked = given.asked;
  for (const std::int64_t gpus : {2, 4, 8}) {
    if (!is_on_one_gpu) break;
    asked.clusters.total = {gpus};
    if (!plans(asked)) continue;
    codes.push_back("--gpus " + std::to_string(gpus));
    break;
  }
  asked = given.asked;
  asked.precisions = {"bf16-pure"};
  if (given.asked.precisions.empty() && plans(asked)) codes.emplace_back("--precision bf16-pure");
  asked = given.asked;
  optimizer& by = asked.setup.setup.optimizer;
  const bool has_wide_states = by.kind == optimizer_kind::adamw && by.states == number_format::fp32;
  const bool clips = by.clips_gradients;
  by = *setups::optimizer_named("adamw-8bit");
  by.clips_gradients = clips;
  if (has_wide_states && plans(asked)) codes.emplace_back("--optimizer adamw-8bit");
  asked = given.asked;
  asked.setup.liger = true;
  if (!given.asked.setup.liger && plans(asked)) codes.emplace_back("--liger");
  asked = given.asked;
  const trainable& trains = given.asked.setup.setup.trains;
  if (trains.what == training::adapters && trains.adapters.base.block == 0) {
    setups::train_adapters(asked.setup.setup, trains.adapters.rank, true);
    if (plans(asked)) codes.push_back("--qlora " + std::to_string(trains.adapters.rank));
  }
  for (const char* way : {"--lora 16", "--qlora 16"}) {
    if (trains.what != training::full) break;
    setups::train_adapters(asked.setup.setup, 16, std::string(way) == "--qlora 16");
    if (plans(asked)) codes.emplace_back(way);
  }
  return codes;
}

// The requests that ask for plans of one code, one precision and one ZeRO stage each, and of no
// degree above 1 that the formats to write do not take; in place of what a file could not say.
std::vector<named_request> requests_that_write(const named_request& asked,
                                               const write_program::request& files) {
  const plan_request& all = asked.request;
  std::vector<training_setup> setups{all.setup};
  setups.insert(setups.end(), all.setups.begin(), all.setups.end());
  std::vector<named_request> found;
  for (std::size_t at = 0; at < setups.size(); ++at) {
    const engine_class& engine = *setups[at].framework.engine.is;
    for (int stage = engine.least_zero_stage; stage <= engine.most_zero_stage; ++stage) {
      if (all.space.zero_stage &&
          (stage < all.space.zero_stage->low() || stage > all.space.zero_stage->high()))
        continue;
      const auto takes = [&](std::int64_t parallelism::*degree) {
        training_setup divided = setups[at];
        divided.parallelism.zero_stage = stage;
        if (degree != nullptr) divided.parallelism.*degree = 2;
        return write_program::refusal_of(
                   files, divided, {.data_parallel = stage > 0 ? 2 : 1}, all.on)
            .empty();
      };
      if (!takes(nullptr)) continue;
      named_request one = asked;
      plan_request& request = one.request;
      request.setup = setups[at];
      request.setups = {};
      one.setups.reset();
      one.precisions = {asked.precisions[at]};
      request.space.zero_stage = range<std::int64_t>(stage);
      for (const auto& [degrees, degree] :
           {std::pair{&plan_space::tensor_parallel, &parallelism::tensor_parallel},
            std::pair{&plan_space::pipeline_parallel, &parallelism::pipeline_parallel},
            std::pair{&plan_space::context_parallel, &parallelism::context_parallel},
            std::pair{&plan_space::expert_parallel, &parallelism::expert_parallel}})
        if (!takes(degree)) request.space.*degrees = range<std::int64_t>(1);
      found.push_back(std::move(one));
    }
  }
  return found;
}

// The best plans of one of these, and which it is: in place of `asked`.
result<plan_answer> plan_that_writes(const request& given,
                                     const searches& search,
                                     named_request& asked,
                                     const result<plan_answer>& found) {
  const training_plan& best = found->best();
  if (given.files.formats.empty() ||
      write_program::refusal_of(
          given.files, setup_of(asked.request, best), best.batch, cluster_of(asked.request, best))
          .empty())
    return found;
  result<plan_answer> written = found;
  bool is_any = false;
  for (named_request& one : requests_that_write(asked, given.files)) {
    const auto plans = search.plans_of(one.request, given.plans);
    if (!plans || (is_any && loss_of(one.request, plans->best(), written->best()) >= 0) ||
        !write_program::refusal_of(given.files,
                                   setup_of(one.request, plans->best()),
                                   plans->best().batch,
                                   cluster_of(one.request, plans->best()))
             .empty())
      continue;
    is_any = true;
    written = plans;
    asked = one;
  }
  if (is_any)
    guides::remark("plans are those that --write takes, " +
                   io::decimal(100 * loss_of(asked.request, written->best(), best), 1) +
                   " % behind the best of all");
  return written;
}

std::string answer_to(const request& given, const guides::output& as) {
  named_request named = request_of(given.asked);
  plan_request& request = named.request;
  request.goal = given.goal;
  if (given.lists_smaller && (request.goal == plan_goal::least_memory || !request.others.empty()))
    throw guides::bad_request("--less-memory is of one kind of GPU, and of time or money");
  if (const auto valid = validate(request); !valid) throw guides::bad_request(valid.why());
  if (given.goal == plan_goal::least_money && !request.on.price_per_gpu)
    guides::remark("--goal money: no --price is known, and plans have the fewest GPU-hours");
  const searches search(given.asked.fragmentation);
  const std::size_t questions = given.lists_smaller ? 3 : 2;
  auto found = search.plans_of(request, given.plans);
  if (found) found = plan_that_writes(given, search, named, found);
  search.answered(1, questions);
  const auto limits = search.limits_of(request);
  search.answered(2, questions);
  if (!found) {
    std::string why = setups::sentence_of(found.why());
    const std::int64_t linked = linked_gpus(request.on);
    if (found.why().at_fault() == fact::tensor_parallel && found.why()[fact::takes] == linked &&
        request.tensor_within_node && found.why()[fact::tensor_parallel] > linked)
      why += ", since in plans tensor parallelism stays where GPUs are linked";
    const char* separator = "; each of these would do: ";
    for (const lifted_limit& lifted : *limits) {
      why += separator + instead(request, lifted);
      separator = ", or ";
    }
    if (found.why().code == errc::no_plan_in_memory &&
        request.setup.framework.engine.is == &engine_classes::ddp)
      for (const std::string& code : codes_that_plan(given, most_gpus(request) == 1)) {
        why += separator + code;
        separator = ", or ";
      }
    throw guides::bad_request(why, found.why());
  }
  const training_plan& best = found->best();
  listing list{named, best, is_for_people(as)};
  list.begin(what_of(named) + " on " + gpus_of(request) + ": " + std::to_string(found->evaluated) +
             " plans worked out, " + std::to_string(found->excluded) + " excluded by a bound" +
             (list.for_people ? "; batches are replicas x samples x accumulation" : ""));
  std::vector<named_plan> plans;
  for (const training_plan& plan : *found) {
    plans.push_back({rank_of(plans.size()), describe(named, plan)});
    list.add(plans.back().name, plans.back().is);
  }
  const double shown = 0.0005;
  for (const lifted_limit& lifted : *limits)
    if (lifted.gain > shown) list.add(without(lifted), describe(named, lifted.plan, lifted.layers));
  if (given.lists_smaller) {
    const auto front = search.front_of(request, 0.1);
    for (int at = 1; front && at < front->count; ++at)
      list.add("less memory", describe(named, front->plans[at]));
  }
  std::string files;
  if (!given.files.formats.empty()) {
    const std::int64_t batch = best.batch.effective_batch();
    const io::table made = write_program::write(given.files,
                                                setup_of(request, best),
                                                best.batch,
                                                cluster_of(request, best),
                                                (request.samples + batch - 1) / batch);
    files = "\n" + guides::render(made, as);
  }
  if (!list.for_people) return guides::render(list.table, as);
  std::string run;
  if (request.samples != 0)
    run = guides::render(costs_of(plans.front().is, "the best plan, " + runs::in_words(named.run)),
                         as) +
          "\n";
  return guides::render(list.table, as) + "\n" + run + guides::render(parts_of(plans), as) + "\n" +
         how_sure(plans.front(), as) + files;
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {
      .name = "gpuplan plan",
      .about = about,
      .examples = examples,
      .add =
          [=](CLI::App& app) {
            add_options(app, asked->asked);
            app.add_option_function<std::string>(
                   "--goal",
                   [=](const std::string& name) {
                     if (name == "money") asked->goal = plan_goal::least_money;
                     if (name == "memory") asked->goal = plan_goal::least_memory;
                   },
                   "What to have least of")
                ->check(CLI::IsMember(std::vector<std::string>{"time", "money", "memory"}))
                ->default_str("time");
            app.add_flag("--less-memory",
                         asked->lists_smaller,
                         "Lists plans of less and less memory too, which may take a minute");
            app.add_flag(
                   "--how-many",
                   asked->counts_gpus,
                   "A row for 1, 2, 4 and so on up to all GPUs, of a run of --tokens or --samples")
                ->excludes("--less-memory");
            write_program::add_options(app, asked->files);
            app.get_option("--how-many")->excludes("--write");
            app.add_option("--plans", asked->plans, "Plans to list, each of another layout")
                ->transform(guides::whole_number(1, plan_answer::most_plans))
                ->type_name("N")
                ->capture_default_str();
          },
      .make =
          [=](const guides::output& as) {
            asked->files.never_clips = asked->asked.setup.never_clips;
            // they are of the files' batch
            if (!asked->asked.batch)
              write_program::take_rates(asked->asked.setup.files.config, asked->files);
            return asked->counts_gpus ? how_many_gpus(asked->asked, as) : answer_to(*asked, as);
          }};
}

}  // namespace plan_program
